/* redis_peer.h -- the other end of a connection that speaks Redis's protocol, for the command line:
 * Redis, over TLS too, or tally itself.
 *
 *     peer_open(&peer, &place)
 *     peer_add(&peer, 2, words)     as many as go out together
 *     peer_send(&peer)
 *     peer_read(&peer, &reply)      one for each, in order; an array's items come one by one
 *     peer_close(&peer)
 *
 * What fails is said in `why`, and then the connection is of no more use. Nothing here shows a
 * password. */
#ifndef TALLY_CLI_REDIS_PEER_H
#define TALLY_CLI_REDIS_PEER_H

#include <openssl/ssl.h>

#include "base/bytes.h"
#include "base/reason.h"

#define PEER_TEXT_SIZE 512

/* redis://user:password@host:port/db, its parts percent-decoded; rediss is over TLS. */
struct peer_place {
    char host[PEER_TEXT_SIZE];
    char port[16];
    char user[PEER_TEXT_SIZE];     /* "": none was said */
    char password[PEER_TEXT_SIZE]; /* likewise */
    int64_t database;
    bool tls;
    const char *ca_file; /* whom to believe; NULL: whom the system believes */
};

/* False: it is no such URL. */
bool peer_place_read(struct bytes url, struct peer_place *place_out);

struct peer {
    BIO *bio;
    SSL_CTX *context;
    struct buf out;
    struct buf in;
    size_t at; /* what of `in` is read */
    struct reason why;
};

enum peer_kind {
    PEER_TEXT,    /* a simple or a bulk string */
    PEER_ERROR,   /* its text */
    PEER_NUMBER,  /* an integer */
    PEER_NOTHING, /* null */
    PEER_LIST,    /* `number` items follow */
};

struct peer_reply {
    enum peer_kind kind;
    struct bytes text; /* good until the next call */
    int64_t number;
};

bool peer_open(struct peer *peer, const struct peer_place *place);
void peer_close(struct peer *peer);

void peer_add(struct peer *peer, unsigned count, const struct bytes *words);
bool peer_send(struct peer *peer);
bool peer_read(struct peer *peer, struct peer_reply *reply);

/* One command and its reply. False: the connection failed, or the reply is an error, which `why`
 * then says. */
bool peer_ask(struct peer *peer, unsigned count, const struct bytes *words,
              struct peer_reply *reply);

#endif
