/* bearer.c -- which tokens are good.
 *
 * A token is decoded twice: once without a key, only to read its header and settle algorithm and
 * key, then with that key, which is when libjwt 1.10 checks the signature (a decode without a key
 * checks nothing, and its names of algorithms are compared without case). Base64url is checked
 * here, because libjwt skips what it does not know: each token has one spelling. */
#include "api/auth/bearer.h"

#include <jwt.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/scope.h"
#include "core/name.h"

#define PEM_BYTES_MAX (64u << 10)
#define RSA_BITS_MAX 16384
#define RSA_BITS_MIN 2048     /* RFC 7518, 3.3 */
#define NUMERIC_DATE_MAX 9e15 /* milliseconds of it still fit an int64 */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* One or more letters, no padding, no stray bits in the last one. */
static bool is_base64url(struct bytes text)
{
    if (text.size == 0 || text.size % 4 == 1) return false;
    for (size_t i = 0; i < text.size; i++)
        if (!text.data[i] || !strchr(alphabet, text.data[i])) return false;
    long last = strchr(alphabet, text.data[text.size - 1]) - alphabet;
    if (text.size % 4 == 2) return (last & 0x0f) == 0;
    if (text.size % 4 == 3) return (last & 0x03) == 0;
    return true;
}

static bool is_compact_jws(struct bytes token)
{
    struct bytes rest = token;
    struct bytes header = bytes_split(&rest, '.');
    struct bytes payload = bytes_split(&rest, '.');
    return is_base64url(header) && is_base64url(payload) && is_base64url(rest);
}

const char *bearer_flaw_text(enum bearer_flaw flaw)
{
    static const char *const texts[] = {
        [BEARER_GOOD] = "",
        [BEARER_MISSING] = "missing",
        [BEARER_MALFORMED] = "malformed",
        [BEARER_SIGNATURE] = "signature",
        [BEARER_EXPIRED] = "expired",
        [BEARER_EARLY] = "not yet valid",
        [BEARER_ISSUER] = "wrong issuer",
        [BEARER_AUDIENCE] = "wrong audience",
    };
    must(flaw < ARRAY_COUNT(texts));
    return texts[flaw];
}

/* The algorithm to check a token of this header with, or JWT_ALG_NONE. */
static jwt_alg_t settle_algorithm(const struct bearer_rules *rules, jwt_t *unverified)
{
    const char *name = jwt_get_header(unverified, "alg");
    char *critical = jwt_get_headers_json(unverified, "crit");
    bool refused = !name || critical;
    free(critical);
    if (refused) return JWT_ALG_NONE;
    if (strcmp(name, "HS256") == 0 && rules->secret[0]) return JWT_ALG_HS256;
    if (strcmp(name, "RS256") == 0 && rules->public_algorithm == BEARER_RS256) return JWT_ALG_RS256;
    if (strcmp(name, "ES256") == 0 && rules->public_algorithm == BEARER_ES256) return JWT_ALG_ES256;
    return JWT_ALG_NONE;
}

/* The token's claims, if its signature is good. */
static enum bearer_flaw verify_signature(const struct bearer_rules *rules, const char *token,
                                         jwt_alg_t *algorithm_out, jwt_t **claims_out)
{
    jwt_t *unverified = NULL, *verified = NULL;
    if (jwt_decode(&unverified, token, NULL, 0)) return BEARER_MALFORMED;
    jwt_alg_t algorithm = settle_algorithm(rules, unverified);
    jwt_free(unverified);
    if (algorithm == JWT_ALG_NONE) return BEARER_SIGNATURE;

    const char *key = algorithm == JWT_ALG_HS256 ? rules->secret : rules->public_pem;
    int bad = jwt_decode(&verified, token, (const unsigned char *)key, (int)strlen(key));
    ERR_clear_error(); /* OpenSSL's list of this thread would grow with every bad token */
    if (bad) return BEARER_SIGNATURE;
    if (jwt_get_alg(verified) != algorithm) {
        jwt_free(verified);
        return BEARER_SIGNATURE;
    }
    *algorithm_out = algorithm;
    *claims_out = verified;
    return BEARER_GOOD;
}

enum claim {
    CLAIM_ABSENT,
    CLAIM_GOOD,
    CLAIM_WRONG, /* there, but of another type */
};

static enum claim claim_text(jwt_t *jwt, const char *name, const char **text_out)
{
    *text_out = jwt_get_grant(jwt, name);
    if (*text_out) return CLAIM_GOOD;
    char *json = jwt_get_grants_json(jwt, name);
    enum claim claim = json ? CLAIM_WRONG : CLAIM_ABSENT;
    free(json);
    return claim;
}

/* A NumericDate, which may have a fraction (RFC 7519, 2). */
static enum claim claim_date(jwt_t *jwt, const char *name, int64_t *ms_out)
{
    char *json = jwt_get_grants_json(jwt, name);
    if (!json) return CLAIM_ABSENT;
    enum claim claim = CLAIM_WRONG;
    if (json[0] == '-' || (json[0] >= '0' && json[0] <= '9')) {
        double seconds = strtod(json, NULL);
        if (seconds > NUMERIC_DATE_MAX) seconds = NUMERIC_DATE_MAX;
        if (seconds < -NUMERIC_DATE_MAX) seconds = -NUMERIC_DATE_MAX;
        *ms_out = (int64_t)(seconds * 1000);
        claim = CLAIM_GOOD;
    }
    free(json);
    return claim;
}

static enum bearer_flaw judge_dates(jwt_t *jwt, int64_t now_ms, int64_t *expires_ms_out)
{
    int64_t not_before_ms;
    if (claim_date(jwt, "exp", expires_ms_out) != CLAIM_GOOD) return BEARER_MALFORMED;
    if (now_ms >= *expires_ms_out) return BEARER_EXPIRED;
    enum claim not_before = claim_date(jwt, "nbf", &not_before_ms);
    if (not_before == CLAIM_ABSENT) return BEARER_GOOD;
    if (not_before == CLAIM_WRONG) return BEARER_MALFORMED;
    return now_ms >= not_before_ms ? BEARER_GOOD : BEARER_EARLY;
}

static bool issuer_holds(const struct bearer_rules *rules, jwt_t *jwt)
{
    const char *issuer;
    enum claim claim = claim_text(jwt, "iss", &issuer);
    if (!rules->issuer[0]) return claim != CLAIM_WRONG;
    return claim == CLAIM_GOOD && strcmp(issuer, rules->issuer) == 0;
}

/* Where the JSON string that starts at `at` ends, after its quote. */
static const char *string_end(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

/* Whether `json` is one string, or an array of strings and nothing else, in the one form libjwt
 * writes, and `wanted_json`, unless it is NULL, one of them. */
static bool audience_listed(const char *json, const char *wanted_json)
{
    bool array = json[0] == '[', found = !wanted_json;
    for (const char *at = json + array; *at && *at != ']';) {
        if (*at != '"') return false;
        const char *end = string_end(at);
        found = found || bytes_equal(bytes_of(at, (size_t)(end - at)), bytes_str(wanted_json));
        at = array && *end == ',' ? end + 1 : end;
    }
    return found;
}

static bool audience_holds(const struct bearer_rules *rules, jwt_t *jwt)
{
    char *json = jwt_get_grants_json(jwt, "aud");
    bool holds = json ? audience_listed(json, rules->audience_json) : !rules->audience_json;
    free(json);
    return holds;
}

static bool read_subject(jwt_t *jwt, struct identity *identity)
{
    const char *subject;
    if (claim_text(jwt, "sub", &subject) != CLAIM_GOOD) return false;
    struct bytes tenant = bytes_str(subject);
    if (!name_valid(tenant)) return false;
    memcpy(identity->tenant, tenant.data, tenant.size + 1);
    identity->tenant_size = (uint8_t)tenant.size;
    return true;
}

/* A scope of admin in a token that may not carry it gives nothing, as if the word were missing. */
static unsigned scopes_without_admin(const char *words)
{
    unsigned scopes = 0;
    for (struct bytes rest = bytes_str(words); rest.size;) {
        struct bytes word = bytes_split(&rest, ' ');
        if (!bytes_equal(word, BYTES("admin"))) scopes |= scope_parse(word, NULL);
    }
    return scopes & ~(unsigned)SCOPE_REPLICA; /* which reads every tenant, too */
}

static bool read_scopes(jwt_t *jwt, bool admin_allowed, struct identity *identity)
{
    const char *words;
    enum claim claim = claim_text(jwt, "scope", &words);
    if (claim == CLAIM_WRONG) return false;
    if (claim == CLAIM_ABSENT)
        identity->scopes = SCOPE_DEFAULT;
    else if (admin_allowed)
        identity->scopes = scope_parse(bytes_str(words), NULL);
    else
        identity->scopes = scopes_without_admin(words);
    return true;
}

static enum bearer_flaw judge_claims(const struct bearer_rules *rules, jwt_t *jwt,
                                     bool admin_allowed, int64_t now_ms,
                                     struct identity *identity_out)
{
    enum bearer_flaw flaw = judge_dates(jwt, now_ms, &identity_out->expires_ms);
    if (flaw) return flaw;
    if (!issuer_holds(rules, jwt)) return BEARER_ISSUER;
    if (!audience_holds(rules, jwt)) return BEARER_AUDIENCE;
    bool good = read_subject(jwt, identity_out) && read_scopes(jwt, admin_allowed, identity_out);
    return good ? BEARER_GOOD : BEARER_MALFORMED;
}

enum bearer_flaw bearer_verify(const struct bearer_rules *rules, struct bytes token, int64_t now_ms,
                               struct identity *identity_out)
{
    if (token.size > BEARER_SIZE_MAX || !is_compact_jws(token)) return BEARER_MALFORMED;
    char text[BEARER_SIZE_MAX + 1];
    memcpy(text, token.data, token.size);
    text[token.size] = 0;

    jwt_alg_t algorithm;
    jwt_t *jwt;
    enum bearer_flaw flaw = verify_signature(rules, text, &algorithm, &jwt);
    if (flaw) return flaw;
    bool admin_allowed = algorithm == JWT_ALG_HS256 || rules->public_admin;
    flaw = judge_claims(rules, jwt, admin_allowed, now_ms, identity_out);
    jwt_free(jwt);
    return flaw;
}

static enum bearer_algorithm public_algorithm(const EVP_PKEY *key)
{
    char group[32];
    size_t size;
    int bits = EVP_PKEY_get_bits(key);
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX)
        return BEARER_RS256;
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
        EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 &&
        strcmp(group, "prime256v1") == 0)
        return BEARER_ES256;
    return BEARER_NONE;
}

/* The key is written anew, so that libjwt sees it and nothing else that the file may hold. */
static char *public_pem(EVP_PKEY *key)
{
    BIO *memory = BIO_new(BIO_s_mem());
    must(memory != NULL);
    must(PEM_write_bio_PUBKEY(memory, key) == 1);
    char *data;
    long size = BIO_get_mem_data(memory, &data);
    must(size > 0 && size < (long)PEM_BYTES_MAX);
    char *pem = strndup(data, (size_t)size);
    must(pem != NULL);
    BIO_free(memory);
    return pem;
}

enum err bearer_load_public(struct bearer_rules *rules, const char *file, char *error_out,
                            size_t error_size)
{
    BIO *bio = BIO_new_file(file, "r");
    char no_passphrase[] = ""; /* or OpenSSL would ask for one on the terminal */
    EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, no_passphrase) : NULL;
    enum bearer_algorithm algorithm = key ? public_algorithm(key) : BEARER_NONE;
    const char *wrong = NULL;
    if (!bio)
        wrong = "cannot be read";
    else if (!key)
        wrong = "holds no public key in PEM form";
    else if (algorithm == BEARER_NONE)
        wrong = "must hold an RSA key of 2048 to 16384 bits, or an EC key on P-256";
    if (wrong) {
        snprintf(error_out, error_size, "auth.jwtPublicKeyFile: %s %s", file, wrong);
    } else {
        free(rules->public_pem);
        rules->public_pem = public_pem(key);
        rules->public_algorithm = algorithm;
    }
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
    return wrong ? ERR_INVALID : ERR_OK;
}

bool bearer_set_audience(struct bearer_rules *rules, const char *audience)
{
    jwt_t *jwt = NULL;
    must(jwt_new(&jwt) == 0);
    bool good = jwt_add_grant(jwt, "aud", audience) == 0;
    free(rules->audience_json);
    rules->audience_json = good ? jwt_get_grants_json(jwt, "aud") : NULL;
    jwt_free(jwt);
    return rules->audience_json != NULL;
}

void bearer_rules_release(struct bearer_rules *rules)
{
    if (rules->secret) explicit_bzero(rules->secret, strlen(rules->secret));
    free(rules->secret);
    free(rules->public_pem);
    free(rules->issuer);
    free(rules->audience_json);
    *rules = (struct bearer_rules){0};
}

char *bearer_sign(const char *secret, const struct bearer_claims *claims)
{
    jwt_t *jwt = NULL;
    must(jwt_new(&jwt) == 0);
    int bad = jwt_add_grant(jwt, "sub", claims->tenant);
    bad |= jwt_add_grant(jwt, "scope", claims->scope);
    bad |= jwt_add_grant_int(jwt, "iat", claims->issued_ms / 1000);
    bad |= jwt_add_grant_int(jwt, "exp", claims->expires_ms / 1000);
    if (claims->issuer[0]) bad |= jwt_add_grant(jwt, "iss", claims->issuer);
    if (claims->audience[0]) bad |= jwt_add_grant(jwt, "aud", claims->audience);
    bad |= jwt_set_alg(jwt, JWT_ALG_HS256, (const unsigned char *)secret, (int)strlen(secret));
    char *token = bad ? NULL : jwt_encode_str(jwt);
    jwt_free(jwt);
    return token;
}
