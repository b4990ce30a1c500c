/* test_auth.c -- the header, API keys, the cache and the reload around tokens (SPEC 4). */
#include "auth_world.h"

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
        enum bearer_flaw flaw = auth_check(auth, cache, bytes_of(header, size), NOW_MS, &identity);
        if ((flaw == BEARER_GOOD) != is_good) fail_msg("wrong about \"%s\"", form);
    }
    assert_int_equal(auth_check(auth, cache, BYTES_NONE, NOW_MS, &identity), BEARER_MISSING);
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
    struct auth_change *change;
    char error[512];
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        char name[] = "/tmp/tally-test-auth-XXXXXX";
        key_to_file(cases[i].key, cases[i].private, name);
        set(&config.auth_jwt_public_key_file, name);
        assert_int_equal(auth_prepare(&change, &config, error, sizeof error), ERR_INVALID);
        assert_non_null(strstr(error, cases[i].expected));
        assert_non_null(strstr(error, name));
        unlink(name);
    }
    set(&config.auth_jwt_public_key_file, "/nonexistent.pem");
    assert_int_equal(auth_prepare(&change, &config, error, sizeof error), ERR_INVALID);
    assert_string_equal(error, "auth.jwtPublicKeyFile: /nonexistent.pem cannot be read");
    set(&config.auth_jwt_public_key_file, "");
    set(&config.auth_audience, "\xff");
    assert_int_equal(auth_prepare(&change, &config, error, sizeof error), ERR_INVALID);
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
        good += auth_check(auth, own, bytes_str(header), NOW_MS, &who) == BEARER_GOOD;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_header_holds_one_bearer_token_S3_10),
        TEST(api_keys_are_known_by_their_hash),
        TEST(a_cached_token_ends_at_its_exp_or_after_a_minute),
        TEST(a_reload_forgets_what_was_verified),
        TEST(more_tokens_than_the_cache_holds_are_fine),
        TEST(long_tokens_are_refused),
        TEST(key_files_of_the_wrong_kind_are_refused_and_change_nothing),
        TEST(checks_go_on_while_rules_are_replaced),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
