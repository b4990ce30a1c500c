/* test_auth.c -- which tokens are believed, with real keys and every forgery SPEC 4 names.
 *
 * Tokens are put together here by hand, from JSON text and OpenSSL, so that a mistake in bearer.c
 * or libjwt cannot hide on both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/auth.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define OTHER_SECRET "abcdef0123456789abcdef0123456789"
#define NOW_S 1700000000
#define NOW_MS (NOW_S * INT64_C(1000))
#define HS256 "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"
#define RS256 "{\"alg\":\"RS256\",\"typ\":\"JWT\"}"
#define ES256 "{\"alg\":\"ES256\",\"typ\":\"JWT\"}"
#define GOOD "{\"sub\":\"t1\",\"exp\":1700003600}"
#define TOKEN_SIZE 16384

static EVP_PKEY *rsa_key, *rsa_other, *ec_key, *ec_other, *ec_384, *rsa_small;
static char rsa_file[] = "/tmp/tally-test-auth-XXXXXX", ec_file[] = "/tmp/tally-test-auth-XXXXXX";

static struct config config;
static struct auth *auth;
static struct auth_cache *cache;
static struct identity identity;

static void base64url(const void *data, size_t size, char *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const unsigned char *in = data;
    for (size_t bit = 0; bit < size * 8; bit += 6) {
        unsigned pair = (unsigned)in[bit / 8] << 8 | (bit / 8 + 1 < size ? in[bit / 8 + 1] : 0u);
        *out++ = letters[pair >> (10 - bit % 8) & 63];
    }
    *out = 0;
}

/* Writes "header.payload" and returns its size. */
static size_t unsigned_part(char *token, const char *header, const char *payload)
{
    base64url(header, strlen(header), token);
    size_t size = strlen(token);
    token[size++] = '.';
    base64url(payload, strlen(payload), token + size);
    return strlen(token);
}

static const char *hmac_token(const char *header, const char *payload, const char *secret,
                              size_t secret_size)
{
    static char token[TOKEN_SIZE];
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_size;
    size_t size = unsigned_part(token, header, payload);
    const EVP_MD *digest = strstr(header, "512") ? EVP_sha512() : EVP_sha256();
    HMAC(digest, secret, (int)secret_size, (unsigned char *)token, size, mac, &mac_size);
    token[size] = '.';
    base64url(mac, mac_size, token + size + 1);
    return token;
}

static const char *hs(const char *payload)
{
    return hmac_token(HS256, payload, SECRET, strlen(SECRET));
}

/* DER to the two 32-byte numbers of RFC 7518, 3.4. */
static size_t ecdsa_raw(const unsigned char *der, size_t der_size, unsigned char *raw)
{
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &der, (long)der_size);
    assert_non_null(signature);
    BN_bn2binpad(ECDSA_SIG_get0_r(signature), raw, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(signature), raw + 32, 32);
    ECDSA_SIG_free(signature);
    return 64;
}

static const char *key_token(const char *header, const char *payload, EVP_PKEY *key)
{
    static char token[TOKEN_SIZE];
    unsigned char signature[1024], raw[64];
    size_t signature_size = sizeof signature;
    size_t size = unsigned_part(token, header, payload);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key), 1);
    assert_int_equal(
        EVP_DigestSign(context, signature, &signature_size, (unsigned char *)token, size), 1);
    EVP_MD_CTX_free(context);
    token[size] = '.';
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && EVP_PKEY_get_bits(key) == 256) {
        ecdsa_raw(signature, signature_size, raw);
        base64url(raw, sizeof raw, token + size + 1);
    } else {
        base64url(signature, signature_size, token + size + 1);
    }
    return token;
}

static enum err check_at(const char *token, int64_t now_ms)
{
    char header[TOKEN_SIZE + 16];
    snprintf(header, sizeof header, "Bearer %s", token);
    memset(&identity, 0, sizeof identity);
    return auth_check(auth, cache, bytes_str(header), now_ms, &identity);
}

static enum err check(const char *token)
{
    return check_at(token, NOW_MS);
}

static void set(char **field, const char *text)
{
    free(*field);
    *field = strdup(text);
}

static void reload(void)
{
    char error[512];
    if (auth_reload(auth, &config, error, sizeof error)) fail_msg("%s", error);
}

static int each_setup(void **state)
{
    (void)state;
    struct config_report report;
    config_report_init(&report);
    const char *sets[] = {"auth.jwtSecret=" SECRET};
    struct config_source source = {.sets = sets, .sets_count = 1};
    char error[512];
    if (config_load(&config, &source, &report)) return -1;
    config_report_release(&report);
    cache = auth_cache_new();
    return auth_new(&auth, &config, error, sizeof error) ? -1 : 0;
}

static int each_teardown(void **state)
{
    (void)state;
    auth_free(auth);
    auth_cache_free(cache);
    config_release(&config);
    return 0;
}

static void a_good_token_says_who_it_is_S3_09(void **state)
{
    (void)state;
    assert_int_equal(check(hs(GOOD)), ERR_OK);
    assert_true(bytes_equal(identity_tenant(&identity), BYTES("t1")));
    assert_int_equal(identity.scopes, SCOPE_READ | SCOPE_WRITE);
    assert_int_equal(identity.expires_ms, INT64_C(1700003600000));
    assert_true(auth_may_act_for(&identity, BYTES("t1")));
    assert_false(auth_may_act_for(&identity, BYTES("t2")));
    assert_false(auth_may_act_for(&identity, BYTES("t11")));
    assert_false(auth_may_act_for(&identity, BYTES("T1")));
}

static void the_header_holds_one_bearer_token_S3_10(void **state)
{
    (void)state;
    char token[TOKEN_SIZE];
    snprintf(token, sizeof token, "%s", hs(GOOD));
    static const char *const good[] = {"Bearer %s",   "bearer %s",   "BEARER %s",
                                       "bEaReR   %s", " Bearer %s ", "Bearer\t%s\t"};
    static const char *const bad[] = {"",
                                      "Bearer",
                                      "Bearer ",
                                      "%s",
                                      "Basic %s",
                                      "Bearer%s",
                                      "Bearer %s x",
                                      "Bearer x %s",
                                      "Bearer,%s",
                                      "Bearer %s,%1$s",
                                      "Bearer %s, Bearer %1$s",
                                      "Bearer: %s",
                                      "Bearer \"%s\"",
                                      "Bearer %s\x01",
                                      "Bearer %s\x80",
                                      "Bearers %s",
                                      "Token %s"};
    char header[2 * TOKEN_SIZE + 64];
    for (unsigned i = 0; i < ARRAY_COUNT(good) + ARRAY_COUNT(bad); i++) {
        bool is_good = i < ARRAY_COUNT(good);
        const char *form = is_good ? good[i] : bad[i - ARRAY_COUNT(good)];
        size_t size = 0;
        for (const char *at = form; *at; at++) {
            if (*at != '%') {
                header[size++] = *at;
                continue;
            }
            size += (size_t)snprintf(header + size, sizeof header - size, "%s", token);
            at = strchr(at, 's');
        }
        header[size] = 0;
        enum err e = auth_check(auth, cache, bytes_of(header, size), NOW_MS, &identity);
        if (e != (is_good ? ERR_OK : ERR_UNAUTHORIZED)) fail_msg("wrong about \"%s\"", form);
    }
    assert_int_equal(auth_check(auth, cache, BYTES_NONE, NOW_MS, &identity), ERR_UNAUTHORIZED);
}

static void forged_signatures_are_refused(void **state)
{
    (void)state;
    char token[TOKEN_SIZE];
    assert_int_equal(check(hmac_token(HS256, GOOD, OTHER_SECRET, 32)), ERR_UNAUTHORIZED);
    assert_int_equal(check(hmac_token(HS256, GOOD, "", 0)), ERR_UNAUTHORIZED);
    snprintf(token, sizeof token, "%s", hs(GOOD));
    size_t size = strlen(token);
    for (size_t i = 0; i < size; i++) { /* any letter changed */
        char old = token[i];
        token[i] = old == 'A' ? 'B' : 'A';
        if (check(token) == ERR_OK) fail_msg("took a change at %zu", i);
        token[i] = old;
    }
    for (size_t cut = 0; cut < size; cut++) { /* cut short anywhere */
        char old = token[cut];
        token[cut] = 0;
        assert_int_equal(check(token), ERR_UNAUTHORIZED);
        token[cut] = old;
    }
    assert_int_equal(check(token), ERR_OK);
    /* The payload of one token under the signature of another. */
    char mixed[2 * TOKEN_SIZE];
    size_t at = unsigned_part(mixed, HS256, "{\"sub\":\"t2\",\"exp\":1700003600}");
    snprintf(mixed + at, sizeof mixed - at, "%s", strrchr(token, '.'));
    assert_int_equal(check(mixed), ERR_UNAUTHORIZED);
}

static void the_algorithm_is_ours_to_choose(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{\"alg\":\"none\"}",
        "{\"alg\":\"None\"}",
        "{\"alg\":\"NONE\",\"typ\":\"JWT\"}",
        "{\"alg\":\"\"}",
        "{\"alg\":null}",
        "{\"alg\":5}",
        "{\"alg\":[\"HS256\"]}",
        "{}",
        "[]",
        "\"HS256\"",
        "null",
        "",
        "{\"alg\":\"HS512\"}",
        "{\"alg\":\"HS384\"}",
        "{\"alg\":\"hs256\"}",
        "{\"alg\":\"RS256\"}",
        "{\"alg\":\"ES256\"}",
        "{\"alg\":\"PS256\"}",
        "{\"alg\":\"EdDSA\"}",
        "{\"ALG\":\"HS256\"}",
        "{\"alg\":\"HS256\",\"crit\":[\"exp\"]}",
        "{\"alg\":\"HS256\",\"crit\":[]}",
        "{\"alg\":\"HS256\",\"crit\":\"b64\",\"b64\":false}",
        "{\"alg\":\"HS256\",\"alg\":\"none\"}",
        "{\"alg\":\"HS256\"",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(headers); i++)
        if (check(hmac_token(headers[i], GOOD, SECRET, strlen(SECRET))) == ERR_OK)
            fail_msg("took %s", headers[i]);
    char token[TOKEN_SIZE];
    size_t size = unsigned_part(token, "{\"alg\":\"none\"}", GOOD);
    assert_int_equal(check(token), ERR_UNAUTHORIZED);
    snprintf(token + size, 8, ".");
    assert_int_equal(check(token), ERR_UNAUTHORIZED);
    snprintf(token + size, 8, ".AAAA");
    assert_int_equal(check(token), ERR_UNAUTHORIZED);
    assert_int_equal(check(hmac_token("{\"alg\":\"HS256\"}", GOOD, SECRET, 32)), ERR_OK);
}

static void a_token_has_one_spelling(void **state)
{
    (void)state;
    char token[TOKEN_SIZE], other[2 * TOKEN_SIZE];
    snprintf(token, sizeof token, "%s", hs(GOOD));
    static const char *const forms[] = {"%s=",  "%s==", "%s.", ".%s", "%s.x",
                                        "%s%%", "%s+",  "%s/", "%sA", "=%s"};
    for (unsigned i = 0; i < ARRAY_COUNT(forms); i++) {
        const char *at = strstr(forms[i], "%s");
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - forms[i]), forms[i], token, at + 2);
        if (check(other) == ERR_OK) fail_msg("took %s", forms[i]);
    }
    /* 32 bytes of signature leave two bits of the last letter unused: they must be zero. */
    size_t last = strlen(token) - 1;
    for (const char *c = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"; *c;
         c++) {
        snprintf(other, sizeof other, "%s", token);
        other[last] = *c;
        assert_int_equal(check(other), *c == token[last] ? ERR_OK : ERR_UNAUTHORIZED);
    }
}

/* 64 and 256 bytes leave four bits unused. libjwt would drop them; then one token had 16 forms. */
static void a_public_key_token_has_one_spelling_too(void **state)
{
    (void)state;
    const struct {
        const char *file, *header;
        EVP_PKEY *key;
    } cases[] = {{rsa_file, RS256, rsa_key}, {ec_file, ES256, ec_key}};
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        set(&config.auth_jwt_public_key_file, cases[i].file);
        reload();
        char token[TOKEN_SIZE];
        snprintf(token, sizeof token, "%s", key_token(cases[i].header, GOOD, cases[i].key));
        size_t last = strlen(token) - 1;
        char good = token[last];
        assert_non_null(strchr("AQgw", good));
        token[last] = (char)(good + 1);
        assert_int_equal(check(token), ERR_UNAUTHORIZED);
        token[last] = good;
        assert_int_equal(check(token), ERR_OK);
    }
}

static void claims_of_the_wrong_type_or_time_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"sub\":\"t1\"}",
        "{\"sub\":\"t1\",\"exp\":null}",
        "{\"sub\":\"t1\",\"exp\":\"1700003600\"}",
        "{\"sub\":\"t1\",\"exp\":true}",
        "{\"sub\":\"t1\",\"exp\":[1700003600]}",
        "{\"sub\":\"t1\",\"exp\":{}}",
        "{\"sub\":\"t1\",\"exp\":0}",
        "{\"sub\":\"t1\",\"exp\":-1}",
        "{\"sub\":\"t1\",\"exp\":1700000000}",
        "{\"sub\":\"t1\",\"exp\":1699999999}",
        "{\"sub\":\"t1\",\"exp\":-1e300}",
        "{\"sub\":\"t1\",\"exp\":99999999999999999999}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"nbf\":1700000001}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"nbf\":\"0\"}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"nbf\":null}",
        "{\"exp\":1700003600}",
        "{\"sub\":null,\"exp\":1700003600}",
        "{\"sub\":5,\"exp\":1700003600}",
        "{\"sub\":[\"t1\"],\"exp\":1700003600}",
        "{\"sub\":\"\",\"exp\":1700003600}",
        "{\"sub\":\"a/b\",\"exp\":1700003600}",
        "{\"sub\":\"a b\",\"exp\":1700003600}",
        "{\"sub\":\"a\\u0000b\",\"exp\":1700003600}",
        "{\"sub\":\"\\u00e9\",\"exp\":1700003600}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"scope\":null}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"scope\":5}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"scope\":[\"read\"]}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"iss\":5}",
        "[\"sub\"]",
        "\"sub\"",
        "null",
        "",
        "{\"sub\":\"t1\",\"exp\":1700003600",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++)
        if (check(hs(bad[i])) == ERR_OK) fail_msg("took %s", bad[i]);
    static const char *const good[] = {
        "{\"sub\":\"t1\",\"exp\":1700000001}",
        "{\"sub\":\"t1\",\"exp\":1700000000.5}",
        "{\"sub\":\"t1\",\"exp\":17e300}",
        "{\"sub\":\"t1\",\"exp\":9223372036854775807}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"nbf\":1700000000}",
        "{\"sub\":\"t1\",\"exp\":1700003600,\"nbf\":-5,\"iat\":9999999999,\"more\":[{}]}",
        " { \"exp\" : 1700003600 , \"sub\" : \"\\u0074\\u0031\" } ",
    };
    for (unsigned i = 0; i < ARRAY_COUNT(good); i++)
        if (check(hs(good[i])) != ERR_OK) fail_msg("refused %s", good[i]);
}

static void tenants_may_have_255_letters_S3_14(void **state)
{
    (void)state;
    char payload[512], tenant[257];
    memset(tenant, 'x', sizeof tenant);
    for (unsigned size = 254; size <= 256; size++) {
        snprintf(payload, sizeof payload, "{\"sub\":\"%.*s\",\"exp\":1700003600}", (int)size,
                 tenant);
        assert_int_equal(check(hs(payload)), size <= 255 ? ERR_OK : ERR_UNAUTHORIZED);
        if (size <= 255) assert_int_equal(identity_tenant(&identity).size, size);
    }
}

static void scopes_come_from_the_token(void **state)
{
    (void)state;
    static const struct {
        const char *scope;
        unsigned scopes;
    } cases[] = {
        {"", 0},
        {"read", SCOPE_READ},
        {"write", SCOPE_WRITE},
        {"write read", SCOPE_READ | SCOPE_WRITE},
        {"admin", SCOPE_READ | SCOPE_WRITE | SCOPE_ADMIN},
        {"openid read profile", SCOPE_READ},
        {"READ", 0},
        {"administrator", 0},
        {"read,write", 0},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char payload[256];
        snprintf(payload, sizeof payload, "{\"sub\":\"t1\",\"exp\":1700003600,\"scope\":\"%s\"}",
                 cases[i].scope);
        assert_int_equal(check(hs(payload)), ERR_OK);
        assert_int_equal(identity.scopes, cases[i].scopes);
        assert_int_equal(auth_may_act_for(&identity, BYTES("t2")),
                         (cases[i].scopes & SCOPE_ADMIN) != 0);
    }
}

static void issuer_and_audience_are_checked_if_set(void **state)
{
    (void)state;
    static const struct {
        const char *claims;
        bool good;
    } cases[] = {
        {"\"iss\":\"me\",\"aud\":\"tally \\\"1\\\"\"", true},
        {"\"iss\":\"me\",\"aud\":[\"tally \\\"1\\\"\"]", true},
        {"\"iss\":\"me\",\"aud\":[\"x\",\"tally \\u00221\\u0022\",\"y\"]", true},
        {"\"iss\":\"me\",\"aud\":[\"a\\\\\",\"tally \\\"1\\\"\"]", true},
        {"\"iss\":\"me\"", false},
        {"\"aud\":\"tally \\\"1\\\"\"", false},
        {"\"iss\":\"Me\",\"aud\":\"tally \\\"1\\\"\"", false},
        {"\"iss\":[\"me\"],\"aud\":\"tally \\\"1\\\"\"", false},
        {"\"iss\":\"me\",\"aud\":\"tally\"", false},
        {"\"iss\":\"me\",\"aud\":\"\"", false},
        {"\"iss\":\"me\",\"aud\":[]", false},
        {"\"iss\":\"me\",\"aud\":null", false},
        {"\"iss\":\"me\",\"aud\":5", false},
        {"\"iss\":\"me\",\"aud\":{\"tally \\\"1\\\"\":1}", false},
        {"\"iss\":\"me\",\"aud\":[[\"tally \\\"1\\\"\"]]", false},
        {"\"iss\":\"me\",\"aud\":[\"tally \\\"1\\\"\",5]", false},
        {"\"iss\":\"me\",\"aud\":[\"x,\\\"tally \\\\\\\"1\\\\\\\"\\\",y\"]", false},
    };
    set(&config.auth_issuer, "me");
    set(&config.auth_audience, "tally \"1\"");
    reload();
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char payload[512];
        snprintf(payload, sizeof payload, "{\"sub\":\"t1\",\"exp\":1700003600,%s}",
                 cases[i].claims);
        if ((check(hs(payload)) == ERR_OK) != cases[i].good)
            fail_msg("wrong about %s", cases[i].claims);
    }
    assert_int_equal(check(hs(GOOD)), ERR_UNAUTHORIZED);
}

static void public_keys_bind_their_algorithm(void **state)
{
    (void)state;
    static const struct {
        const char *file, *good, *other;
        EVP_PKEY **key, **wrong, **other_key;
    } cases[] = {
        {rsa_file, RS256, ES256, &rsa_key, &rsa_other, &ec_key},
        {ec_file, ES256, RS256, &ec_key, &ec_other, &rsa_key},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        set(&config.auth_jwt_public_key_file, cases[i].file);
        set(&config.auth_jwt_secret, "");
        reload();
        char token[TOKEN_SIZE];
        snprintf(token, sizeof token, "%s", key_token(cases[i].good, GOOD, *cases[i].key));
        assert_int_equal(check(token), ERR_OK);
        assert_int_equal(check(key_token(cases[i].good, GOOD, *cases[i].wrong)), ERR_UNAUTHORIZED);
        assert_int_equal(check(key_token(cases[i].good, GOOD, *cases[i].other_key)),
                         ERR_UNAUTHORIZED);
        assert_int_equal(check(key_token(cases[i].other, GOOD, *cases[i].other_key)),
                         ERR_UNAUTHORIZED);
        assert_int_equal(check(key_token(cases[i].other, GOOD, *cases[i].key)), ERR_UNAUTHORIZED);
        assert_int_equal(check(key_token(HS256, GOOD, *cases[i].key)), ERR_UNAUTHORIZED);
        assert_int_equal(check(hs(GOOD)), ERR_UNAUTHORIZED); /* no secret any more */
        for (size_t at = 0; at < strlen(token); at += 7) {
            token[at] = token[at] == 'A' ? 'B' : 'A';
            assert_int_equal(check(token), ERR_UNAUTHORIZED);
            snprintf(token, sizeof token, "%s", key_token(cases[i].good, GOOD, *cases[i].key));
        }
    }
}

/* The classic confusion: HS256 with the public key's text as the secret. */
static void a_public_key_is_no_secret(void **state)
{
    (void)state;
    static const char *const secrets[] = {"", SECRET};
    const char *files[] = {rsa_file, ec_file};
    for (unsigned i = 0; i < 4; i++) {
        set(&config.auth_jwt_public_key_file, files[i / 2]);
        set(&config.auth_jwt_secret, secrets[i % 2]);
        reload();
        char pem[4096];
        FILE *file = fopen(files[i / 2], "r");
        size_t size = fread(pem, 1, sizeof pem, file);
        fclose(file);
        assert_true(size > 100);
        assert_int_equal(check(hmac_token(HS256, GOOD, pem, size)), ERR_UNAUTHORIZED);
        assert_int_equal(check(hmac_token(HS256, GOOD, pem, size - 1)), ERR_UNAUTHORIZED);
        assert_int_equal(check(hmac_token(RS256, GOOD, pem, size)), ERR_UNAUTHORIZED);
        assert_int_equal(check(hmac_token(ES256, GOOD, pem, size)), ERR_UNAUTHORIZED);
        assert_int_equal(check(hs(GOOD)), i % 2 ? ERR_OK : ERR_UNAUTHORIZED);
    }
}

static void an_es256_signature_of_zeros_or_in_der_is_refused(void **state)
{
    (void)state;
    set(&config.auth_jwt_public_key_file, ec_file);
    reload();
    char token[TOKEN_SIZE];
    static const unsigned char zeros[72];
    static const size_t sizes[] = {1, 32, 63, 64, 65, 72};
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        size_t size = unsigned_part(token, ES256, GOOD);
        token[size++] = '.';
        base64url(zeros, sizes[i], token + size);
        assert_int_equal(check(token), ERR_UNAUTHORIZED);
    }
    assert_int_equal(check(key_token(ES256, GOOD, ec_384)), ERR_UNAUTHORIZED);
}

static void admin_from_a_public_key_needs_leave(void **state)
{
    (void)state;
    static const char payload[] = "{\"sub\":\"t1\",\"exp\":1700003600,\"scope\":\"admin\"}";
    static const char both[] = "{\"sub\":\"t1\",\"exp\":1700003600,\"scope\":\"admin read\"}";
    const struct {
        const char *file, *header;
        EVP_PKEY *key;
    } cases[] = {{rsa_file, RS256, rsa_key}, {ec_file, ES256, ec_key}};
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        set(&config.auth_jwt_public_key_file, cases[i].file);
        config.auth_jwt_admin = false;
        reload();
        assert_int_equal(check(key_token(cases[i].header, payload, cases[i].key)), ERR_OK);
        assert_int_equal(identity.scopes, 0);
        assert_int_equal(check(key_token(cases[i].header, both, cases[i].key)), ERR_OK);
        assert_int_equal(identity.scopes, SCOPE_READ);
        assert_int_equal(check(hs(payload)), ERR_OK); /* the secret's admin counts */
        assert_true(auth_allows(&identity, SCOPE_ADMIN));
        config.auth_jwt_admin = true;
        reload();
        assert_int_equal(check(key_token(cases[i].header, payload, cases[i].key)), ERR_OK);
        assert_int_equal(identity.scopes, SCOPE_READ | SCOPE_WRITE | SCOPE_ADMIN);
    }
}

static void add_key(const char *key, const char *tenant, unsigned scopes)
{
    struct config_keys *keys = &config.auth_keys;
    keys->items = realloc(keys->items, (keys->count + 1) * sizeof *keys->items);
    struct config_key *item = &keys->items[keys->count++];
    SHA256((const unsigned char *)key, strlen(key), item->sha256);
    item->tenant = strdup(tenant);
    item->scopes = scopes;
}

static void api_keys_are_known_by_their_hash(void **state)
{
    (void)state;
    add_key("key-one", "t1", SCOPE_READ);
    add_key("key-two!$&", "t2", SCOPE_READ | SCOPE_WRITE);
    add_key("looks.like.jwt", "t3", SCOPE_READ | SCOPE_WRITE | SCOPE_ADMIN);
    reload();
    assert_int_equal(check("key-one"), ERR_OK);
    assert_true(bytes_equal(identity_tenant(&identity), BYTES("t1")));
    assert_int_equal(identity.scopes, SCOPE_READ);
    assert_int_equal(identity.expires_ms, INT64_MAX);
    assert_int_equal(check("key-two!$&"), ERR_OK);
    assert_true(bytes_equal(identity_tenant(&identity), BYTES("t2")));
    assert_int_equal(check("looks.like.jwt"), ERR_OK);
    assert_true(auth_allows(&identity, SCOPE_ADMIN));
    assert_int_equal(check(hs(GOOD)), ERR_OK);
    static const char *const bad[] = {"key-on", "key-one1", "KEY-ONE", "key-tw", "x"};
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++)
        assert_int_equal(check(bad[i]), ERR_UNAUTHORIZED);
    static char huge[BEARER_SIZE_MAX + 2];
    memset(huge, 'k', sizeof huge - 1);
    add_key(huge, "t4", SCOPE_READ);
    add_key("two words", "t5", SCOPE_READ);
    reload();
    assert_int_equal(check(huge), ERR_UNAUTHORIZED);
    assert_int_equal(check("two words"), ERR_UNAUTHORIZED);
    char hex[65];
    for (unsigned i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", config.auth_keys.items[0].sha256[i]);
    assert_int_equal(check(hex), ERR_UNAUTHORIZED); /* the config's text is not the key */
}

static void a_cached_token_ends_at_its_exp_or_after_a_minute(void **state)
{
    (void)state;
    char payload[128], token[TOKEN_SIZE];
    snprintf(payload, sizeof payload, "{\"sub\":\"t1\",\"exp\":%d}", NOW_S + 10);
    snprintf(token, sizeof token, "%s", hs(payload));
    assert_int_equal(check_at(token, NOW_MS), ERR_OK);
    assert_int_equal(check_at(token, NOW_MS + 9999), ERR_OK);
    assert_int_equal(check_at(token, NOW_MS + 10000), ERR_UNAUTHORIZED);
    assert_int_equal(check_at(token, NOW_MS + 9999), ERR_OK);
    snprintf(payload, sizeof payload, "{\"sub\":\"t1\",\"exp\":%d,\"nbf\":%d}", NOW_S + 999, NOW_S);
    snprintf(token, sizeof token, "%s", hs(payload));
    assert_int_equal(check_at(token, NOW_MS), ERR_OK);
    assert_int_equal(check_at(token, NOW_MS + AUTH_CACHE_MS + 1), ERR_OK); /* verified anew */
    assert_int_equal(check_at(token, NOW_MS - 1), ERR_UNAUTHORIZED);       /* the clock went back */
}

static void a_reload_forgets_what_was_verified(void **state)
{
    (void)state;
    add_key("key-one", "t1", SCOPE_READ);
    reload();
    char token[TOKEN_SIZE];
    snprintf(token, sizeof token, "%s", hs(GOOD));
    assert_int_equal(check(token), ERR_OK);
    assert_int_equal(check("key-one"), ERR_OK);
    set(&config.auth_jwt_secret, OTHER_SECRET);
    free(config.auth_keys.items[0].tenant);
    config.auth_keys.count = 0;
    reload();
    assert_int_equal(check(token), ERR_UNAUTHORIZED);
    assert_int_equal(check("key-one"), ERR_UNAUTHORIZED);
    assert_int_equal(check(hmac_token(HS256, GOOD, OTHER_SECRET, 32)), ERR_OK);
}

static void more_tokens_than_the_cache_holds_are_fine(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 1000; i++) {
            char payload[128], tenant[16];
            snprintf(tenant, sizeof tenant, "t%u", i);
            snprintf(payload, sizeof payload, "{\"sub\":\"%s\",\"exp\":1700003600}", tenant);
            assert_int_equal(check(hs(payload)), ERR_OK);
            assert_true(bytes_equal(identity_tenant(&identity), bytes_str(tenant)));
        }
}

static void long_tokens_are_refused(void **state)
{
    (void)state;
    char payload[7000], filler[6200];
    memset(filler, 'x', sizeof filler);
    for (unsigned size = 5900; size < sizeof filler; size += 20) {
        snprintf(payload, sizeof payload, "{\"sub\":\"t1\",\"exp\":1700003600,\"x\":\"%.*s\"}",
                 (int)size, filler);
        const char *token = hs(payload);
        assert_int_equal(check(token),
                         strlen(token) <= BEARER_SIZE_MAX ? ERR_OK : ERR_UNAUTHORIZED);
    }
    static char huge[TOKEN_SIZE];
    memset(huge, 'A', sizeof huge - 1);
    assert_int_equal(check(huge), ERR_UNAUTHORIZED);
}

static void what_we_sign_we_believe(void **state)
{
    (void)state;
    set(&config.auth_issuer, "me");
    set(&config.auth_audience, "tally");
    reload();
    struct bearer_claims claims = {.tenant = "demo",
                                   .scope = "read admin",
                                   .issued_ms = NOW_MS,
                                   .expires_ms = NOW_MS + 60000,
                                   .issuer = "me",
                                   .audience = "tally"};
    char *token = bearer_sign(SECRET, &claims);
    assert_non_null(token);
    assert_int_equal(check(token), ERR_OK);
    assert_true(bytes_equal(identity_tenant(&identity), BYTES("demo")));
    assert_true(auth_allows(&identity, SCOPE_ADMIN));
    assert_int_equal(identity.expires_ms, NOW_MS + 60000);
    free(token);
    claims.audience = "\xff";
    assert_null(bearer_sign(SECRET, &claims));
}

static void key_to_file(EVP_PKEY *key, bool private, char *name)
{
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    if (private)
        PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    else if (key)
        PEM_write_PUBKEY(file, key);
    else
        fputs("hello\n", file);
    fclose(file);
}

static void key_files_of_the_wrong_kind_are_refused_and_change_nothing(void **state)
{
    (void)state;
    const struct {
        EVP_PKEY *key;
        bool private;
        const char *expected;
    } cases[] = {
        {ec_384, false, "must hold an RSA key of 2048 to 16384 bits, or an EC key on P-256"},
        {rsa_small, false, "must hold an RSA key of 2048 to 16384 bits, or an EC key on P-256"},
        {rsa_key, true, "holds no public key in PEM form"},
        {NULL, false, "holds no public key in PEM form"},
    };
    char error[512];
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char name[] = "/tmp/tally-test-auth-XXXXXX";
        key_to_file(cases[i].key, cases[i].private, name);
        set(&config.auth_jwt_public_key_file, name);
        assert_int_equal(auth_reload(auth, &config, error, sizeof error), ERR_INVALID);
        assert_non_null(strstr(error, cases[i].expected));
        assert_non_null(strstr(error, name));
        unlink(name);
    }
    set(&config.auth_jwt_public_key_file, "/nonexistent.pem");
    assert_int_equal(auth_reload(auth, &config, error, sizeof error), ERR_INVALID);
    assert_string_equal(error, "auth.jwtPublicKeyFile: /nonexistent.pem cannot be read");
    set(&config.auth_jwt_public_key_file, "");
    set(&config.auth_audience, "\xff");
    assert_int_equal(auth_reload(auth, &config, error, sizeof error), ERR_INVALID);
    assert_int_equal(check(hs(GOOD)), ERR_OK);
}

static void *check_often(void *context)
{
    struct auth_cache *own = auth_cache_new();
    char header[TOKEN_SIZE + 16];
    snprintf(header, sizeof header, "Bearer %s", (const char *)context);
    struct identity who;
    unsigned long good = 0;
    for (unsigned i = 0; i < 3000; i++)
        good += auth_check(auth, own, bytes_str(header), NOW_MS, &who) == ERR_OK;
    auth_cache_free(own);
    return (void *)good;
}

static void checks_go_on_while_rules_are_replaced(void **state)
{
    (void)state;
    char token[TOKEN_SIZE];
    snprintf(token, sizeof token, "%s", hs(GOOD));
    pthread_t threads[4];
    for (unsigned i = 0; i < ARRAY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, check_often, token), 0);
    for (unsigned i = 0; i < 200; i++)
        reload();
    for (unsigned i = 0; i < ARRAY_COUNT(threads); i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_int_equal((unsigned long)good, 3000);
    }
}

static int group_setup(void **state)
{
    (void)state;
    rsa_key = EVP_RSA_gen(2048);
    rsa_other = EVP_RSA_gen(2048);
    rsa_small = EVP_RSA_gen(1024);
    ec_key = EVP_EC_gen("P-256");
    ec_other = EVP_EC_gen("P-256");
    ec_384 = EVP_EC_gen("P-384");
    key_to_file(rsa_key, false, rsa_file);
    key_to_file(ec_key, false, ec_file);
    return rsa_key && rsa_other && rsa_small && ec_key && ec_other && ec_384 ? 0 : -1;
}

static int group_teardown(void **state)
{
    (void)state;
    EVP_PKEY *keys[] = {rsa_key, rsa_other, rsa_small, ec_key, ec_other, ec_384};
    for (unsigned i = 0; i < ARRAY_COUNT(keys); i++)
        EVP_PKEY_free(keys[i]);
    unlink(rsa_file);
    unlink(ec_file);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, each_setup, each_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_good_token_says_who_it_is_S3_09),
        TEST(the_header_holds_one_bearer_token_S3_10),
        TEST(forged_signatures_are_refused),
        TEST(the_algorithm_is_ours_to_choose),
        TEST(a_token_has_one_spelling),
        TEST(a_public_key_token_has_one_spelling_too),
        TEST(claims_of_the_wrong_type_or_time_are_refused),
        TEST(tenants_may_have_255_letters_S3_14),
        TEST(scopes_come_from_the_token),
        TEST(issuer_and_audience_are_checked_if_set),
        TEST(public_keys_bind_their_algorithm),
        TEST(a_public_key_is_no_secret),
        TEST(an_es256_signature_of_zeros_or_in_der_is_refused),
        TEST(admin_from_a_public_key_needs_leave),
        TEST(api_keys_are_known_by_their_hash),
        TEST(a_cached_token_ends_at_its_exp_or_after_a_minute),
        TEST(a_reload_forgets_what_was_verified),
        TEST(more_tokens_than_the_cache_holds_are_fine),
        TEST(long_tokens_are_refused),
        TEST(what_we_sign_we_believe),
        TEST(key_files_of_the_wrong_kind_are_refused_and_change_nothing),
        TEST(checks_go_on_while_rules_are_replaced),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
