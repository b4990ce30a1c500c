/* build.c -- what the commands of a train make it of: ops, promises, texts and refusals. */
#include "api/resp/train.h"

#include <stdio.h>

#include "core/name.h"

#define COMMAND_BYTES 24u    /* about as few as one with a key has */
#define SHOWN_BYTES_MAX 128u /* an unknown command's name, and its arguments */

/* An array of a train that is full goes into one of twice the size. */
static void *grow(struct train *train, void *items, uint32_t *capacity, uint32_t least, size_t size)
{
    uint32_t before = *capacity;
    must((before == 0) == (items == NULL));
    *capacity = before ? 2 * before : least;
    void *more = arena_alloc(&train->exchange->arena, *capacity * size);
    if (items) memcpy(more, items, before * size);
    return more;
}

struct promise *train_promise_new(struct train *train)
{
    if (train->promises_count == train->promises_capacity)
        train->promises =
            grow(train, train->promises, &train->promises_capacity, 8, sizeof *train->promises);
    struct promise *promise = &train->promises[train->promises_count++];
    *promise = (struct promise){.entry = train->entry, .version = train->session->version};
    return promise;
}

/* Before the first promise it is the reply itself. Behind one it is kept until that is answered;
 * the piece ends where the next one begins. */
struct buf *train_out(struct train *train)
{
    if (train->promises_count == 0) return &train->exchange->reply.body;
    if (train->promises[train->promises_count - 1].reply || train->sealed)
        train_promise_new(train)->first = (uint32_t)train->text.size;
    train->sealed = false;
    return &train->text;
}

struct op *train_op_any(struct train *train)
{
    if (train->ops_count == train->ops_capacity) {
        uint32_t least = 1 + (uint32_t)(train->exchange->request.body.size / COMMAND_BYTES);
        train->ops = grow(train, train->ops, &train->ops_capacity, least < 64 ? least : 64,
                          sizeof *train->ops);
    }
    return &train->ops[train->ops_count++];
}

struct op *train_op(struct train *train, enum op_kind kind, struct bytes name)
{
    char key[COUNTER_KEY_SIZE_MAX];
    if (!counter_name_valid(name)) {
        train_refuse(train, "ERR invalid counter name");
        return NULL;
    }
    struct op *op = train_op_any(train);
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->max = MAX_NONE;
    op->expires_ms = TIME_NONE;
    op->counter = arena_copy(&train->exchange->arena, counter_key(key, train->tenant, name));
    op->tenant = bytes_of(op->counter.data, train->tenant.size);
    op->counter_print = fingerprint_of(&train->lane->store->secret, op->counter);
    if (kind != OP_READ) train->writes = true;
    return op;
}

void train_stretch(struct train *train, uint32_t count, bool atomic)
{
    uint32_t last = train->stretches_count;
    if (last > 0 && !train->stretches[last - 1].atomic && !atomic) {
        train->stretches[last - 1].count += count;
        return;
    }
    if (last == train->stretches_capacity)
        train->stretches =
            grow(train, train->stretches, &train->stretches_capacity, 4, sizeof *train->stretches);
    must(train->stretches != NULL);
    train->stretches[last] = (struct stretch){train->ops_count - count, count, atomic};
    train->stretches_count++;
}

void train_promise_of(struct train *train, promise_fn *reply, unsigned detail, uint32_t count,
                      bool atomic)
{
    must(count > 0 && count <= train->ops_count);
    struct promise *promise = train_promise_new(train);
    promise->reply = reply;
    promise->detail = detail;
    promise->first = train->ops_count - count;
    promise->count = count;
    if (!train->inside) train_stretch(train, count, atomic && count > 1);
}

void train_promise(struct train *train, promise_fn *reply, uint32_t count, bool atomic)
{
    train_promise_of(train, reply, 0, count, atomic);
}

/* -- Refusing ---------------------------------------------------------------------------------- */

/* Where the text of a refusal goes. */
static struct buf *refusal(struct train *train)
{
    train->failed = true;
    return train_out(train);
}

void train_refuse(struct train *train, const char *text)
{
    resp_add_error(refusal(train), bytes_str(text));
}

void train_refuse_err(struct train *train, enum err e)
{
    train_add_err(refusal(train), e);
}

void train_refuse_syntax(struct train *train)
{
    train_refuse(train, "ERR syntax error");
}

void train_refuse_number(struct train *train)
{
    train_refuse(train, "ERR value is not an integer or out of range");
}

static struct bytes cut(struct bytes text, size_t most)
{
    return bytes_of(text.data, text.size < most ? text.size : most);
}

void train_refuse_subcommand(struct train *train, struct bytes name)
{
    char line[SHOWN_BYTES_MAX + 96];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line};
    struct bytes shown = cut(name, SHOWN_BYTES_MAX);
    buf_add(&text, BYTES("ERR unknown subcommand '"));
    buf_add(&text, shown);
    buf_addf(&text, "'. Try %s HELP.", train->entry->name);
    resp_add_error(refusal(train), buf_bytes(&text));
}

static void refuse_count(struct train *train, const char *name)
{
    char line[96];
    snprintf(line, sizeof line, "ERR wrong number of arguments for '%s' command", name);
    train_refuse(train, line);
}

bool train_wrong_count(struct train *train, const struct resp_command *command, const char *name,
                       uint32_t least, uint32_t most)
{
    bool wrong = command->count < least || command->count > most;
    if (wrong) refuse_count(train, name);
    return wrong;
}

void train_say_name(const struct train *train, char name_out[static TRAIN_NAME_SIZE])
{
    size_t size = strlen(train->entry->name);
    must(size < TRAIN_NAME_SIZE);
    for (size_t i = 0; i <= size; i++) {
        char c = train->entry->name[i];
        name_out[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
}

void train_refuse_arity(struct train *train)
{
    char name[TRAIN_NAME_SIZE];
    train_say_name(train, name);
    refuse_count(train, name);
}

void train_refuse_unknown(struct train *train, const struct resp_command *command)
{
    char line[3 * SHOWN_BYTES_MAX];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line};
    buf_add(&text, BYTES("ERR unknown command '"));
    buf_add(&text, cut(command->items[0], SHOWN_BYTES_MAX));
    buf_add(&text, BYTES("', with args beginning with: "));
    size_t before = text.size;
    for (uint32_t i = 1; i < command->count && text.size - before < SHOWN_BYTES_MAX; i++) {
        buf_add_char(&text, '\'');
        buf_add(&text, cut(command->items[i], SHOWN_BYTES_MAX - (text.size - before)));
        buf_add(&text, BYTES("' "));
    }
    resp_add_error(refusal(train), buf_bytes(&text));
}

void train_add_err(struct buf *out, enum err e)
{
    switch (e) {
    case ERR_NEGATIVE:
        resp_add_error(out, BYTES("ERR decrement would make the counter negative"));
        return;
    case ERR_OVERFLOW:
        resp_add_error(out, BYTES("ERR increment or decrement would overflow"));
        return;
    case ERR_MANAGED:
        resp_add_error(out, BYTES("ERR managed by rules"));
        return;
    case ERR_QUEUE_FULL:
    case ERR_BUSY:
        resp_add_error(out, BYTES("BUSY Service overloaded (Queue Full). Please retry later."));
        return;
    case ERR_STORAGE:
        resp_add_error(out, BYTES("UNAVAILABLE outcome unknown"));
        return;
    case ERR_FEW_FOLLOWERS:
        resp_add_error(out, BYTES("UNAVAILABLE not enough followers, nothing was done"));
        return;
    default:
        buf_add(out, BYTES("-ERR "));
        buf_add(out, bytes_str(err_sentence(e)));
        buf_add(out, BYTES("\r\n"));
    }
}
