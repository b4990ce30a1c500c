/* chunks.c -- one step a byte for the framing, one move a chunk for the data. */
#include "wire/chunks.h"

static int hex_value(char byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

static bool is_text(char byte)
{
    unsigned char c = (unsigned char)byte;
    return (c >= 0x20 && c != 0x7f) || c == '\t';
}

static bool is_name(char byte)
{
    unsigned char c = (unsigned char)byte;
    return c > 0x20 && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", byte);
}

static enum fault chunks_go(struct chunks *chunks, enum chunks_state state)
{
    chunks->state = state;
    return FAULT_NONE;
}

/* Stays in `state` if `allowed`, within the bound for what is not data. */
static enum fault chunks_skip(struct chunks *chunks, enum chunks_state state, bool allowed)
{
    if (!allowed || ++chunks->extra > CHUNKS_EXTRA_BYTES_MAX) return FAULT_CHUNK;
    return chunks_go(chunks, state);
}

static enum fault chunks_digit(struct chunks *chunks, char byte)
{
    int digit = hex_value(byte);
    if (digit < 0) return FAULT_CHUNK;
    if (chunks->left >> 60) return FAULT_CHUNK;
    /* Leading zeros carry no information, so they count as padding and are bounded like it. */
    if (chunks->state == CHUNKS_SIZE && chunks->left == 0 &&
        ++chunks->extra > CHUNKS_EXTRA_BYTES_MAX)
        return FAULT_CHUNK;
    chunks->left = chunks->left << 4 | (uint64_t)digit;
    return chunks_go(chunks, CHUNKS_SIZE);
}

static enum fault chunks_sized(struct chunks *chunks)
{
    if (chunks->left > chunks->body_bytes_max - chunks->total) return FAULT_BODY_SIZE;
    chunks->total += chunks->left;
    return chunks_go(chunks, chunks->left ? CHUNKS_DATA : CHUNKS_TRAILER);
}

/* One byte of framing. */
static enum fault chunks_step(struct chunks *chunks, char byte)
{
    switch (chunks->state) {
    case CHUNKS_SIZE_FIRST:
        return chunks_digit(chunks, byte);
    case CHUNKS_SIZE:
        if (byte == '\r') return chunks_go(chunks, CHUNKS_SIZE_LF);
        if (byte == ';') return chunks_skip(chunks, CHUNKS_EXTENSION, true);
        return chunks_digit(chunks, byte);
    case CHUNKS_EXTENSION:
        if (byte == '\r') return chunks_go(chunks, CHUNKS_SIZE_LF);
        return chunks_skip(chunks, CHUNKS_EXTENSION, is_text(byte));
    case CHUNKS_SIZE_LF:
        return byte == '\n' ? chunks_sized(chunks) : FAULT_CHUNK;
    case CHUNKS_DATA_CR:
        return byte == '\r' ? chunks_go(chunks, CHUNKS_DATA_LF) : FAULT_CHUNK;
    case CHUNKS_DATA_LF:
        return byte == '\n' ? chunks_go(chunks, CHUNKS_SIZE_FIRST) : FAULT_CHUNK;
    case CHUNKS_TRAILER:
        if (byte == '\r') return chunks_go(chunks, CHUNKS_END_LF);
        return chunks_skip(chunks, CHUNKS_TRAILER_NAME, is_name(byte));
    case CHUNKS_TRAILER_NAME:
        if (byte == ':') return chunks_skip(chunks, CHUNKS_TRAILER_VALUE, true);
        return chunks_skip(chunks, CHUNKS_TRAILER_NAME, is_name(byte));
    case CHUNKS_TRAILER_VALUE:
        if (byte == '\r') return chunks_go(chunks, CHUNKS_TRAILER_LF);
        return chunks_skip(chunks, CHUNKS_TRAILER_VALUE, is_text(byte));
    case CHUNKS_TRAILER_LF:
        return byte == '\n' ? chunks_go(chunks, CHUNKS_TRAILER) : FAULT_CHUNK;
    case CHUNKS_END_LF:
        return byte == '\n' ? chunks_go(chunks, CHUNKS_DONE) : FAULT_CHUNK;
    case CHUNKS_DATA:
    case CHUNKS_DONE:
        break;
    }
    unreachable_state(chunks->state);
}

/* Moves as much of the chunk's data as is here; returns how much that was. */
static size_t chunks_take(struct chunks *chunks, char *to, const char *from, size_t here)
{
    size_t take = chunks->left < here ? (size_t)chunks->left : here;
    memmove(to, from, take);
    chunks->left -= take;
    if (chunks->left == 0) chunks->state = CHUNKS_DATA_CR;
    return take;
}

enum http_progress chunks_decode(struct chunks *chunks, char *raw, size_t size, size_t *used_out,
                                 size_t *made_out)
{
    must(chunks->fault == FAULT_NONE && chunks->state != CHUNKS_DONE);
    size_t used = 0;
    size_t made = 0;
    while (used < size && chunks->state != CHUNKS_DONE && !chunks->fault) {
        if (chunks->state == CHUNKS_DATA) {
            size_t took = chunks_take(chunks, raw + made, raw + used, size - used);
            used += took;
            made += took;
        } else {
            chunks->fault = chunks_step(chunks, raw[used++]);
        }
    }
    *used_out = used;
    *made_out = made;
    if (chunks->fault) return HTTP_FAULT;
    return chunks->state == CHUNKS_DONE ? HTTP_DONE : HTTP_MORE;
}
