/* redis_peer.c -- a small client of Redis's protocol, version 2. OpenSSL's BIO is the connection,
 * with TLS or without. */
#include "cli/redis_peer.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#define BUFFER_MAX (256u << 20)
#define READ_SIZE 65536
#define WAIT_SECONDS 60

/* -- Where ------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool decode(struct bytes text, char out[], size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '%') {
            int high = i + 2 < text.size ? hex_digit(text.data[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.data[i + 2]) : -1;
            if (low < 0) return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || used + 1 >= size) return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

/* Cuts what stands before the last `sign` off; size 0 and no data: there is none. */
static struct bytes cut_before(struct bytes *rest, char sign)
{
    for (size_t i = rest->size; i > 0; i--) {
        if (rest->data[i - 1] != sign) continue;
        struct bytes before = bytes_of(rest->data, i - 1);
        *rest = bytes_of(rest->data + i, rest->size - i);
        return before;
    }
    return BYTES_NONE;
}

static bool read_login(struct bytes login, struct peer_place *place)
{
    if (!login.data) return true;
    const char *colon = memchr(login.data, ':', login.size);
    size_t size = colon ? (size_t)(colon - login.data) : 0;
    struct bytes password = colon ? bytes_of(colon + 1, login.size - size - 1) : login;
    return decode(bytes_of(login.data, size), place->user, sizeof place->user) &&
           decode(password, place->password, sizeof place->password);
}

static bool read_number(struct bytes text, int64_t most, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        *out = *out * 10 + (text.data[i] - '0');
        if (*out > most) return false;
    }
    return true;
}

/* An address of IPv6 stands in brackets. */
static bool read_address(struct bytes address, struct peer_place *place)
{
    bool bracket = address.size > 0 && address.data[0] == '[';
    const char *end = bracket ? memchr(address.data, ']', address.size) : NULL;
    if (bracket && !end) return false;
    struct bytes host;
    struct bytes port = BYTES("");
    if (bracket) {
        host = bytes_of(address.data + 1, (size_t)(end - address.data) - 1);
        port = bytes_of(end + 1, address.size - host.size - 2);
        if (port.size && port.data[0] != ':') return false;
        if (port.size) port = bytes_of(port.data + 1, port.size - 1);
    } else {
        struct bytes rest = address;
        host = cut_before(&rest, ':');
        if (host.data)
            port = rest;
        else
            host = address;
    }
    int64_t number = 6379;
    if (port.size && (!read_number(port, 65535, &number) || number == 0)) return false;
    snprintf(place->port, sizeof place->port, "%d", (int)number);
    if (host.size == 0) host = BYTES("127.0.0.1");
    return decode(host, place->host, sizeof place->host);
}

bool peer_place_read(struct bytes url, struct peer_place *place_out)
{
    struct bytes plain = BYTES("redis://");
    struct bytes secure = BYTES("rediss://");
    *place_out = (struct peer_place){.tls = bytes_starts(url, secure)};
    if (!place_out->tls && !bytes_starts(url, plain)) return false;
    size_t scheme = place_out->tls ? secure.size : plain.size;
    struct bytes rest = bytes_of(url.data + scheme, url.size - scheme);
    struct bytes login = cut_before(&rest, '@');
    const char *slash = memchr(rest.data, '/', rest.size);
    struct bytes address = slash ? bytes_of(rest.data, (size_t)(slash - rest.data)) : rest;
    struct bytes database = BYTES("");
    if (slash) database = bytes_of(slash + 1, rest.size - address.size - 1);
    return read_login(login, place_out) && read_address(address, place_out) &&
           read_number(database, INT32_MAX, &place_out->database);
}

/* -- The connection ---------------------------------------------------------------------------- */

static bool failed(struct peer *peer, const char *what)
{
    unsigned long code = ERR_get_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    reason_say(&peer->why, "%s%s%s", what, why ? ": " : "", why ? why : "");
    ERR_clear_error();
    return false;
}

static BIO *secure_bio(struct peer *peer, const struct peer_place *place)
{
    SSL *ssl = NULL;
    peer->context = SSL_CTX_new(TLS_client_method());
    if (!peer->context) return NULL;
    SSL_CTX_set_verify(peer->context, SSL_VERIFY_PEER, NULL);
    int good = place->ca_file ? SSL_CTX_load_verify_locations(peer->context, place->ca_file, NULL)
                              : SSL_CTX_set_default_verify_paths(peer->context);
    BIO *bio = good == 1 ? BIO_new_ssl_connect(peer->context) : NULL;
    if (bio) BIO_get_ssl(bio, &ssl);
    if (!ssl || SSL_set1_host(ssl, place->host) != 1 ||
        SSL_set_tlsext_host_name(ssl, place->host) != 1) {
        BIO_free_all(bio);
        return NULL;
    }
    return bio;
}

static void bound_waits(BIO *bio)
{
    int fd = -1;
    const struct timeval wait = {.tv_sec = WAIT_SECONDS};
    if (BIO_get_fd(bio, &fd) < 0 || fd < 0) return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

static bool log_in(struct peer *peer, const struct peer_place *place)
{
    struct peer_reply reply;
    const struct bytes auth[] = {BYTES("AUTH"), bytes_str(place->user), bytes_str(place->password)};
    const struct bytes alone[] = {auth[0], auth[2]};
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)place->database);
    const struct bytes choose[] = {BYTES("SELECT"), bytes_str(number)};
    bool user = place->user[0] != '\0';
    if (place->password[0] && !peer_ask(peer, user ? 3 : 2, user ? auth : alone, &reply))
        return false;
    return place->database == 0 || peer_ask(peer, 2, choose, &reply);
}

bool peer_open(struct peer *peer, const struct peer_place *place)
{
    *peer = (struct peer){.bio = NULL};
    buf_init(&peer->out, BUFFER_MAX);
    buf_init(&peer->in, BUFFER_MAX);
    peer->bio = place->tls ? secure_bio(peer, place) : BIO_new(BIO_s_connect());
    if (!peer->bio) return failed(peer, "TLS cannot be set up");
    BIO_set_conn_hostname(peer->bio, place->host);
    BIO_set_conn_port(peer->bio, place->port);
    if (BIO_do_connect(peer->bio) != 1) return failed(peer, "it cannot be reached");
    bound_waits(peer->bio);
    return log_in(peer, place);
}

void peer_close(struct peer *peer)
{
    BIO_free_all(peer->bio);
    SSL_CTX_free(peer->context);
    buf_release(&peer->out);
    buf_release(&peer->in);
    *peer = (struct peer){.bio = NULL};
}

/* -- Commands and replies ---------------------------------------------------------------------- */

void peer_add(struct peer *peer, unsigned count, const struct bytes *words)
{
    buf_addf(&peer->out, "*%u\r\n", count);
    for (unsigned i = 0; i < count; i++) {
        buf_addf(&peer->out, "$%zu\r\n", words[i].size);
        buf_add(&peer->out, words[i]);
        buf_add(&peer->out, BYTES("\r\n"));
    }
}

bool peer_send(struct peer *peer)
{
    size_t sent = 0;
    if (peer->out.failed) return failed(peer, "there is too much to send at once");
    while (sent < peer->out.size) {
        size_t more = 0;
        if (BIO_write_ex(peer->bio, peer->out.data + sent, peer->out.size - sent, &more) != 1)
            return failed(peer, "the connection broke");
        sent += more;
    }
    buf_reset(&peer->out);
    return true;
}

static bool read_more(struct peer *peer)
{
    size_t got = 0;
    char part[READ_SIZE];
    if (BIO_read_ex(peer->bio, part, sizeof part, &got) != 1 || got == 0)
        return failed(peer, "the connection broke");
    buf_add(&peer->in, bytes_of(part, got));
    return !peer->in.failed || failed(peer, "a reply is too large");
}

/* The line at `at`, without its end. */
static bool read_line(struct peer *peer, struct bytes *line)
{
    for (;;) {
        size_t size = peer->in.size - peer->at;
        const char *start = size ? peer->in.data + peer->at : "";
        const char *end = memchr(start, '\n', size);
        if (end && end > start && end[-1] == '\r') {
            *line = bytes_of(start, (size_t)(end - start) - 1);
            peer->at += line->size + 2;
            return true;
        }
        if (end) return failed(peer, "it does not speak Redis's protocol");
        if (!read_more(peer)) return false;
    }
}

static bool read_signed(struct bytes text, int64_t *out)
{
    bool minus = text.size > 1 && text.data[0] == '-';
    if (minus) text = bytes_of(text.data + 1, text.size - 1);
    char digits[24];
    char *end;
    if (text.size == 0 || text.size >= sizeof digits - 1) return false;
    snprintf(digits, sizeof digits, "%s%.*s", minus ? "-" : "", (int)text.size, text.data);
    *out = strtoll(digits, &end, 10);
    return *end == '\0';
}

static bool read_bulk(struct peer *peer, struct peer_reply *reply)
{
    if (reply->number < 0) {
        reply->kind = PEER_NOTHING;
        return true;
    }
    size_t size = (size_t)reply->number;
    if (size > BUFFER_MAX / 2) return failed(peer, "a reply is too large");
    while (peer->in.size - peer->at < size + 2)
        if (!read_more(peer)) return false;
    reply->kind = PEER_TEXT;
    reply->text = bytes_of(peer->in.data + peer->at, size);
    peer->at += size + 2;
    return true;
}

/* What was read is let go of once all of it was. */
static void forget_read(struct peer *peer)
{
    if (peer->at < peer->in.size) return;
    buf_reset(&peer->in);
    peer->at = 0;
}

bool peer_read(struct peer *peer, struct peer_reply *reply)
{
    struct bytes line = BYTES("");
    forget_read(peer);
    if (!read_line(peer, &line)) return false;
    char kind = line.size ? line.data[0] : '\0';
    *reply = (struct peer_reply){.text = bytes_of(line.data + 1, line.size ? line.size - 1 : 0)};
    reply->kind = kind == '-' ? PEER_ERROR : PEER_TEXT;
    if (kind == '-' || kind == '+') return true;
    bool known = kind == ':' || kind == '$' || kind == '*';
    if (!known || !read_signed(reply->text, &reply->number))
        return failed(peer, "it does not speak Redis's protocol");
    reply->kind = kind == ':' ? PEER_NUMBER : PEER_LIST;
    return kind == '$' ? read_bulk(peer, reply) : true;
}

bool peer_ask(struct peer *peer, unsigned count, const struct bytes *words,
              struct peer_reply *reply)
{
    peer_add(peer, count, words);
    if (!peer_send(peer) || !peer_read(peer, reply)) return false;
    if (reply->kind != PEER_ERROR) return true;
    reason_say(&peer->why, "%.*s", (int)reply->text.size, reply->text.data);
    return false;
}
