/* auth_world.h -- real keys, hand-made tokens and an auth to judge them, for the tests of both.
 *
 * Tokens are put together here from JSON text and OpenSSL, so that a mistake in bearer.c or libjwt
 * cannot hide on both sides. */
#ifndef TALLY_TESTS_AUTH_WORLD_H
#define TALLY_TESTS_AUTH_WORLD_H

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

#include "api/auth/auth.h"

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

static inline void base64url(const void *data, size_t size, char *out)
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
static inline size_t unsigned_part(char *token, const char *header, const char *payload)
{
    base64url(header, strlen(header), token);
    size_t size = strlen(token);
    token[size++] = '.';
    base64url(payload, strlen(payload), token + size);
    return strlen(token);
}

static inline const char *hmac_token(const char *header, const char *payload, const char *secret,
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

static inline const char *hs(const char *payload)
{
    return hmac_token(HS256, payload, SECRET, strlen(SECRET));
}

/* DER to the two 32-byte numbers of RFC 7518, 3.4. */
static inline size_t ecdsa_raw(const unsigned char *der, size_t der_size, unsigned char *raw)
{
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &der, (long)der_size);
    assert_non_null(signature);
    BN_bn2binpad(ECDSA_SIG_get0_r(signature), raw, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(signature), raw + 32, 32);
    ECDSA_SIG_free(signature);
    return 64;
}

static inline const char *key_token(const char *header, const char *payload, EVP_PKEY *key)
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

static inline enum bearer_flaw flaw_at(const char *token, int64_t now_ms)
{
    char header[3 * TOKEN_SIZE];
    snprintf(header, sizeof header, "Bearer %s", token);
    memset(&identity, 0, sizeof identity);
    return auth_check(auth, cache, bytes_str(header), now_ms, &identity);
}

static inline enum err check_at(const char *token, int64_t now_ms)
{
    return flaw_at(token, now_ms) == BEARER_GOOD ? ERR_OK : ERR_UNAUTHORIZED;
}

static inline enum err check(const char *token)
{
    return check_at(token, NOW_MS);
}

static inline void set(char **field, const char *text)
{
    free(*field);
    *field = strdup(text);
}

static inline void reload(void)
{
    struct auth_change *change;
    char error[512];
    if (auth_prepare(&change, &config, error, sizeof error) != ERR_OK) fail_msg("%s", error);
    auth_enact(auth, change);
}

static inline int each_setup(void **state)
{
    (void)state;
    struct config_report report;
    config_report_init(&report);
    const char *sets[] = {"auth.jwtSecret=" SECRET};
    struct config_source source = {.sets = sets, .sets_count = 1};
    char error[512];
    if (config_load(&config, &source, &report) != ERR_OK) return -1;
    config_report_release(&report);
    cache = auth_cache_new();
    return auth_new(&auth, &config, error, sizeof error) != ERR_OK ? -1 : 0;
}

static inline int each_teardown(void **state)
{
    (void)state;
    auth_free(auth);
    auth_cache_free(cache);
    config_release(&config);
    return 0;
}

static inline void key_to_file(EVP_PKEY *key, bool private, char *name)
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

static inline int group_setup(void **state)
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

static inline int group_teardown(void **state)
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

#endif
