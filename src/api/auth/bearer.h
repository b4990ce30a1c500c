/* bearer.h -- JSON Web Tokens: judged on one side, made on the other.
 *
 * libjwt checks signatures; this file decides which key and which algorithm it may use, because
 * the token must never choose (RFC 8725). HS256 goes with the secret only, RS256 with an RSA public
 * key only, ES256 with a P-256 one only. */
#ifndef TALLY_API_AUTH_BEARER_H
#define TALLY_API_AUTH_BEARER_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/op.h"

#define BEARER_SIZE_MAX 8192

/* Who is calling. A plain value: it borrows nothing. */
struct identity {
    char tenant[NAME_SIZE_MAX + 1];
    uint8_t tenant_size;
    unsigned scopes;    /* bits of enum scope */
    int64_t expires_ms; /* INT64_MAX: never */
};

enum bearer_algorithm {
    BEARER_NONE, /* no key of this sort */
    BEARER_HS256,
    BEARER_RS256,
    BEARER_ES256,
};

/* The keys and names that tokens are judged by. Owns its texts. */
struct bearer_rules {
    char *secret; /* "": HS256 is refused */
    char *public_pem;
    enum bearer_algorithm public_algorithm; /* BEARER_NONE: RS256 and ES256 are refused */
    char *issuer;                           /* "": any */
    char *audience_json;                    /* the audience as a JSON string; NULL: any */
    bool public_admin;                      /* RS256 and ES256 tokens may carry admin and replica */
};

/* Reads a PEM public key: RSA of 2048 to 16384 bits, or EC P-256. ERR_INVALID: not one, or not
 * readable; `error_out` says which. */
MUST_USE enum err bearer_load_public(struct bearer_rules *rules, const char *file, char *error_out,
                                     size_t error_size);
/* False: not valid UTF-8. */
MUST_USE bool bearer_set_audience(struct bearer_rules *rules, const char *audience);
void bearer_rules_release(struct bearer_rules *rules);

/* What is wrong with a token. Claims are judged only behind a good signature, so a caller that
 * cannot sign learns nothing from the answer but that. */
enum bearer_flaw {
    BEARER_GOOD,
    BEARER_MISSING,   /* there is no token at all */
    BEARER_MALFORMED, /* no token of ours has this form, or a claim is missing or of a wrong type */
    BEARER_SIGNATURE, /* no key here has made it, or its algorithm belongs to none */
    BEARER_EXPIRED,
    BEARER_EARLY,
    BEARER_ISSUER,
    BEARER_AUDIENCE,
};

/* As the header WWW-Authenticate says it. */
const char *bearer_flaw_text(enum bearer_flaw flaw);

/* BEARER_GOOD and the caller's identity, or what is wrong with the token. */
MUST_USE enum bearer_flaw bearer_verify(const struct bearer_rules *rules, struct bytes token,
                                        int64_t now_ms, struct identity *identity_out);

struct bearer_claims {
    const char *tenant;
    const char *scope;
    int64_t issued_ms;
    int64_t expires_ms;
    const char *issuer;   /* "": left out */
    const char *audience; /* "": left out */
};

/* An HS256 token; the caller frees it. NULL: a claim is not valid UTF-8. */
MUST_USE char *bearer_sign(const char *secret, const struct bearer_claims *claims);

#endif
