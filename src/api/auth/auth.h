/* auth.h -- who is calling: a bearer token, looked up or verified.
 *
 * One `struct auth` for the process, one `struct auth_cache` for each thread that checks. Secrets
 * and keys can be replaced while other threads check (SIGHUP); tokens that were verified under the
 * old ones are then forgotten. No token is ever logged or kept longer than the cache does.
 *
 * Example:
 *
 *     static int judge_write(struct auth *auth, struct auth_cache *cache, struct bytes header,
 *                            struct bytes tenant, int64_t now_ms)
 *     {
 *         struct identity identity;
 *         if (auth_check(auth, cache, header, now_ms, &identity) != BEARER_GOOD) return 401;
 *         if (!auth_may_act_for(&identity, tenant)) return 404;
 *         return auth_allows(&identity, SCOPE_WRITE) ? 200 : 403;
 *     }
 */
#ifndef TALLY_API_AUTH_AUTH_H
#define TALLY_API_AUTH_AUTH_H

#include "api/auth/bearer.h"
#include "base/scope.h"
#include "config/config.h"

#define AUTH_CACHE_MS 60000 /* a verified token is believed this long, and never past its exp */

struct auth;
struct auth_cache;

/* ERR_INVALID: `error_out` says what is wrong with the public key or the audience. Nothing of
 * `config` is kept. */
MUST_USE enum err auth_new(struct auth **auth_out, const struct config *config, char *error_out,
                           size_t error_size);
void auth_free(struct auth *auth);

/* Replaces the keys of an auth in use, in two steps between which something else can be decided:
 * auth_prepare reads the keys and finds them good, or ERR_INVALID; then auth_enact puts them in
 * force and takes `change`, or auth_change_free gives them up. */
struct auth_change;
MUST_USE enum err auth_prepare(struct auth_change **change_out, const struct config *config,
                               char *error_out, size_t error_size);
void auth_enact(struct auth *auth, struct auth_change *change);
void auth_change_free(struct auth_change *change);

struct auth_cache *auth_cache_new(void);
void auth_cache_free(struct auth_cache *cache);

/* Judges the Authorization header's value; BYTES_NONE is a missing one. `identity_out` is to be
 * used after BEARER_GOOD only. `cache` belongs to the calling thread. */
MUST_USE enum bearer_flaw auth_check(struct auth *auth, struct auth_cache *cache,
                                     struct bytes authorization, int64_t now_ms,
                                     struct identity *identity_out);

/* The same for a token alone. */
MUST_USE enum bearer_flaw auth_check_token(struct auth *auth, struct auth_cache *cache,
                                           struct bytes token, int64_t now_ms,
                                           struct identity *identity_out);

/* Grows with every reload: a caller that was judged under another number is to be judged again. */
uint64_t auth_generation(const struct auth *auth);

static inline struct bytes identity_tenant(const struct identity *identity)
{
    return bytes_of(identity->tenant, identity->tenant_size);
}

static inline bool auth_allows(const struct identity *identity, enum scope scope)
{
    return (identity->scopes & scope) != 0;
}

/* A caller may act for its own tenant, and with the admin scope for any. */
static inline bool auth_may_act_for(const struct identity *identity, struct bytes tenant)
{
    return auth_allows(identity, SCOPE_ADMIN) || bytes_equal(identity_tenant(identity), tenant);
}

#endif
