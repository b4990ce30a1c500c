/* auth.c -- API keys, tokens, and a small memory of the good ones.
 *
 * The policy sits behind a lock that checks share and a reload takes alone. `generation` grows with
 * each reload; a cache entry of an older one is void, so a hit needs no lock at all. */
#include "api/auth/auth.h"

#include <openssl/sha.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/rwlock.h"

#define CACHE_SLOTS 256 /* a power of two; one entry a slot, the newest stays */

struct auth_key {
    unsigned char sha256[SHA256_DIGEST_LENGTH];
    struct identity identity;
};

struct policy {
    struct bearer_rules bearer;
    struct auth_key *keys;
    unsigned keys_count;
};

struct auth {
    pthread_rwlock_t lock;
    struct policy policy;        /* under the lock */
    _Atomic uint64_t generation; /* changed under the lock, read without */
};

struct auth_change {
    struct policy policy;
};

struct token_entry {
    char *token; /* NULL: empty */
    size_t size;
    uint64_t hash;
    uint64_t generation;
    int64_t from_ms; /* a clock that stepped back must not make an entry live longer */
    int64_t until_ms;
    struct identity identity;
};

struct auth_cache {
    struct token_entry entries[CACHE_SLOTS];
};

static void policy_release(struct policy *policy)
{
    bearer_rules_release(&policy->bearer);
    free(policy->keys);
    *policy = (struct policy){0};
}

static char *text_copy(const char *text)
{
    char *copy = strdup(text);
    must(copy != NULL);
    return copy;
}

static void policy_add_keys(struct policy *policy, const struct config_keys *keys)
{
    policy->keys = must_calloc(keys->count, sizeof *policy->keys);
    policy->keys_count = keys->count;
    for (unsigned i = 0; i < keys->count; i++) {
        struct auth_key *key = &policy->keys[i];
        struct bytes tenant = bytes_str(keys->items[i].tenant);
        must(tenant.size <= NAME_SIZE_MAX);
        memcpy(key->sha256, keys->items[i].sha256, sizeof key->sha256);
        memcpy(key->identity.tenant, tenant.data, tenant.size);
        key->identity.tenant_size = (uint8_t)tenant.size;
        key->identity.scopes = keys->items[i].scopes;
        key->identity.expires_ms = INT64_MAX;
    }
}

/* On an error `policy` is empty again. */
static enum err policy_build(struct policy *policy, const struct config *config, char *error_out,
                             size_t error_size)
{
    *policy = (struct policy){0};
    policy->bearer.secret = text_copy(config->auth_jwt_secret);
    policy->bearer.issuer = text_copy(config->auth_issuer);
    policy->bearer.public_admin = config->auth_jwt_admin;
    policy_add_keys(policy, &config->auth_keys);
    enum err e = ERR_OK;
    if (config->auth_jwt_public_key_file[0])
        e = bearer_load_public(&policy->bearer, config->auth_jwt_public_key_file, error_out,
                               error_size);
    if (e == ERR_OK && config->auth_audience[0] &&
        !bearer_set_audience(&policy->bearer, config->auth_audience)) {
        snprintf(error_out, error_size, "auth.audience is not valid UTF-8");
        e = ERR_INVALID;
    }
    if (e != ERR_OK) policy_release(policy);
    return e;
}

enum err auth_new(struct auth **auth_out, const struct config *config, char *error_out,
                  size_t error_size)
{
    struct policy policy;
    enum err e = policy_build(&policy, config, error_out, error_size);
    if (e != ERR_OK) return e;
    struct auth *auth = must_calloc(1, sizeof *auth);
    rwlock_init(&auth->lock);
    auth->policy = policy;
    auth->generation = 1;
    *auth_out = auth;
    return ERR_OK;
}

void auth_free(struct auth *auth)
{
    if (!auth) return;
    policy_release(&auth->policy);
    pthread_rwlock_destroy(&auth->lock);
    free(auth);
}

enum err auth_prepare(struct auth_change **change_out, const struct config *config, char *error_out,
                      size_t error_size)
{
    struct policy policy;
    *change_out = NULL;
    enum err e = policy_build(&policy, config, error_out, error_size);
    if (e != ERR_OK) return e;
    *change_out = must_calloc(1, sizeof **change_out);
    (*change_out)->policy = policy;
    return ERR_OK;
}

void auth_enact(struct auth *auth, struct auth_change *change)
{
    pthread_rwlock_wrlock(&auth->lock);
    struct policy old = auth->policy;
    auth->policy = change->policy;
    atomic_fetch_add(&auth->generation, 1);
    pthread_rwlock_unlock(&auth->lock);
    change->policy = old;
    auth_change_free(change);
}

void auth_change_free(struct auth_change *change)
{
    if (!change) return;
    policy_release(&change->policy);
    free(change);
}

uint64_t auth_generation(const struct auth *auth)
{
    return atomic_load(&auth->generation);
}

struct auth_cache *auth_cache_new(void)
{
    return must_calloc(1, sizeof(struct auth_cache));
}

void auth_cache_free(struct auth_cache *cache)
{
    if (!cache) return;
    for (unsigned i = 0; i < CACHE_SLOTS; i++)
        free(cache->entries[i].token);
    free(cache);
}

static bool cache_find(const struct token_entry *entry, struct bytes token, uint64_t hash,
                       uint64_t generation, int64_t now_ms)
{
    return entry->token && entry->hash == hash && entry->size == token.size &&
           entry->generation == generation && now_ms >= entry->from_ms &&
           now_ms < entry->until_ms &&
           bytes_equal_secret(bytes_of(entry->token, entry->size), token);
}

static void cache_store(struct token_entry *entry, struct bytes token, uint64_t hash,
                        uint64_t generation, int64_t now_ms, const struct identity *identity)
{
    entry->token = must_realloc(entry->token, token.size);
    memcpy(entry->token, token.data, token.size);
    entry->size = token.size;
    entry->hash = hash;
    entry->generation = generation;
    entry->from_ms = now_ms;
    entry->until_ms = now_ms + AUTH_CACHE_MS;
    if (identity->expires_ms < entry->until_ms) entry->until_ms = identity->expires_ms;
    entry->identity = *identity;
}

/* Compares every key, also after one that fits, so that the time it takes tells nothing about the
 * list. */
static bool key_find(const struct policy *policy, struct bytes token, struct identity *identity_out)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    const struct auth_key *found = NULL;
    if (policy->keys_count == 0) return false;
    SHA256((const unsigned char *)token.data, token.size, digest);
    for (unsigned i = 0; i < policy->keys_count; i++)
        if (bytes_equal_secret(bytes_of(digest, sizeof digest),
                               bytes_of(policy->keys[i].sha256, sizeof digest)))
            found = &policy->keys[i];
    if (found) *identity_out = found->identity;
    return found != NULL;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool token_is_visible(struct bytes token)
{
    for (size_t i = 0; i < token.size; i++)
        if (token.data[i] <= ' ' || token.data[i] > '~') return false;
    return true;
}

/* `Bearer`, white space, and a token. */
static bool bearer_token(struct bytes header, struct bytes *token_out)
{
    static const struct bytes scheme = {"Bearer", 6};
    while (header.size && is_space(header.data[header.size - 1]))
        header.size--;
    size_t at = 0;
    while (at < header.size && is_space(header.data[at]))
        at++;
    struct bytes rest = bytes_of(header.data + at, header.size - at);
    if (rest.size <= scheme.size || !is_space(rest.data[scheme.size])) return false;
    if (!bytes_equal_nocase(bytes_of(rest.data, scheme.size), scheme)) return false;
    at = scheme.size;
    while (at < rest.size && is_space(rest.data[at]))
        at++;
    *token_out = bytes_of(rest.data + at, rest.size - at);
    return token_out->size > 0 && token_out->size <= BEARER_SIZE_MAX;
}

/* A token that was good a moment ago. `hash` is the token's. */
static inline bool recall(struct auth *auth, struct auth_cache *cache, struct bytes token,
                          uint64_t hash, int64_t now_ms, struct identity *identity_out)
{
    const struct token_entry *entry = &cache->entries[hash % CACHE_SLOTS];
    if (!cache_find(entry, token, hash, atomic_load(&auth->generation), now_ms)) return false;
    *identity_out = entry->identity;
    return true;
}

static enum bearer_flaw judge(struct auth *auth, struct auth_cache *cache, struct bytes token,
                              uint64_t hash, int64_t now_ms, struct identity *identity_out)
{
    if (!token_is_visible(token)) return BEARER_MALFORMED; /* names in the cache are valid */
    struct identity identity = {0};
    pthread_rwlock_rdlock(&auth->lock);
    uint64_t generation = atomic_load(&auth->generation);
    enum bearer_flaw flaw = key_find(&auth->policy, token, &identity)
                                ? BEARER_GOOD
                                : bearer_verify(&auth->policy.bearer, token, now_ms, &identity);
    pthread_rwlock_unlock(&auth->lock);
    if (flaw) return flaw;
    struct token_entry *entry = &cache->entries[hash % CACHE_SLOTS];
    cache_store(entry, token, hash, generation, now_ms, &identity);
    *identity_out = identity;
    return BEARER_GOOD;
}

enum bearer_flaw auth_check(struct auth *auth, struct auth_cache *cache, struct bytes authorization,
                            int64_t now_ms, struct identity *identity_out)
{
    struct bytes token;
    if (authorization.size == 0) return BEARER_MISSING;
    if (!bearer_token(authorization, &token)) return BEARER_MALFORMED;
    uint64_t hash = hash_keyed(&hash_own, token);
    if (recall(auth, cache, token, hash, now_ms, identity_out)) return BEARER_GOOD;
    return judge(auth, cache, token, hash, now_ms, identity_out);
}

enum bearer_flaw auth_check_token(struct auth *auth, struct auth_cache *cache, struct bytes token,
                                  int64_t now_ms, struct identity *identity_out)
{
    if (token.size == 0) return BEARER_MISSING;
    if (token.size > BEARER_SIZE_MAX) return BEARER_MALFORMED;
    uint64_t hash = hash_keyed(&hash_own, token);
    if (recall(auth, cache, token, hash, now_ms, identity_out)) return BEARER_GOOD;
    return judge(auth, cache, token, hash, now_ms, identity_out);
}
