/* session.c -- who is at the other end of a connection: AUTH, HELLO, RESET. */
#include <stdlib.h>

#include "api/resp/train.h"
#include "base/metrics.h"
#include "base/version.h"
#include "core/name.h"

#define REDIS_VERSION "7.4.0" /* whose commands these are, as clients want to know it */

struct session *session_new(void)
{
    static atomic_uint_fast64_t last;
    struct session *session = must_calloc(1, sizeof *session);
    session->id = (uint64_t)atomic_fetch_add(&last, 1) + 1;
    return session;
}

static void forget_token(struct session *session)
{
    multi_spoil(session);
    if (session->token) explicit_bzero(session->token, session->token_size);
    free(session->token);
    session->token = NULL;
    session->token_size = 0;
    session->known = false;
    session->lane = NULL;
}

void session_free(struct session *session)
{
    buf_release(&session->multi.commands);
    forget_token(session);
    free(session);
}

static struct loop_state *loop_of(const struct train *train)
{
    return &train->api->loops[train->exchange->loop_index];
}

static enum bearer_flaw judge(struct train *train, struct bytes token,
                              struct identity *identity_out)
{
    struct loop_state *loop = loop_of(train);
    int64_t wall_ms = loop_wall_ms(train->api, loop, train->exchange->turn_ns);
    return auth_check_token(train->api->config.auth, loop->tokens, token, wall_ms, identity_out);
}

/* After a reload the token is judged by the keys there are now. */
static bool is_still_good(struct train *train)
{
    struct session *session = train->session;
    struct identity identity;
    uint64_t generation = auth_generation(train->api->config.auth);
    struct bytes token = bytes_of(session->token, session->token_size);
    if (judge(train, token, &identity) != BEARER_GOOD) return false;
    if (!auth_may_act_for(&identity, session_tenant(session))) return false;
    session->identity = identity;
    session->auth_generation = generation;
    return true;
}

bool session_is_known(struct train *train)
{
    struct session *session = train->session;
    struct api *api = train->api;
    if (!session->known) return false;
    int64_t wall_ms = loop_wall_ms(api, loop_of(train), train->exchange->turn_ns);
    bool good = wall_ms < session->identity.expires_ms;
    if (good && session->auth_generation != auth_generation(api->config.auth))
        good = is_still_good(train);
    if (!good) forget_token(session);
    return good;
}

static void learn(struct train *train, struct bytes token, const struct identity *identity,
                  uint64_t generation, struct bytes tenant)
{
    struct session *session = train->session;
    forget_token(session);
    session->token = must_alloc(token.size);
    memcpy(session->token, token.data, token.size);
    session->token_size = token.size;
    session->identity = *identity;
    session->auth_generation = generation;
    memcpy(session->tenant, tenant.data, tenant.size);
    session->tenant_size = (uint8_t)tenant.size;
    session->lane = lanes_of(&train->api->config.lanes[0], session_tenant(session));
    session->known = true;
}

/* A connection counts for the tenant of its first token, as one of HTTP does. */
static bool take_slot(struct train *train, const struct identity *identity)
{
    struct wire_share **slot = train->exchange->slot;
    if (!*slot) *slot = shares_take(train->api->shares, identity_tenant(identity));
    return *slot != NULL;
}

/* False, after refusing: `user` is a tenant, or `default` for the token's own. */
static bool sign_in(struct train *train, struct bytes user, struct bytes token)
{
    struct identity identity;
    uint64_t generation = auth_generation(train->api->config.auth);
    enum bearer_flaw flaw = judge(train, token, &identity);
    bool own = bytes_equal(user, BYTES("default"));
    struct bytes tenant = own && !flaw ? identity_tenant(&identity) : user;
    if (flaw || !name_valid(tenant) || !auth_may_act_for(&identity, tenant)) {
        metric_add(METRIC_AUTH_REFUSED, 1);
        train_refuse(train, "WRONGPASS invalid username-password pair or user is disabled.");
        return false;
    }
    if (own && auth_allows(&identity, SCOPE_ADMIN)) {
        train_refuse(train, "ERR an admin token must name a tenant: AUTH <tenant> <token>");
        return false;
    }
    if (!take_slot(train, &identity)) {
        train_refuse(train, "ERR max number of clients reached");
        train->exchange->reply.close = true;
        return false;
    }
    learn(train, token, &identity, generation, tenant);
    train_take_share(train);
    return true;
}

void resp_auth(struct train *train, const struct resp_command *command)
{
    bool named = command->count == 3;
    if (command->count > 3) {
        train_refuse_syntax(train);
        return;
    }
    struct bytes user = named ? command->items[1] : BYTES("default");
    if (sign_in(train, user, command->items[named ? 2 : 1]))
        resp_add_simple(train_out(train), BYTES("OK"));
}

static bool name_is_plain(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] < '!' || name.data[i] > '~') return false;
    return true;
}

/* False, after refusing. */
static bool take_name(struct train *train, struct bytes name)
{
    struct session *session = train->session;
    if (name.size > SESSION_NAME_SIZE_MAX || !name_is_plain(name)) {
        train_refuse(train,
                     "ERR Client names cannot contain spaces, newlines or special characters.");
        return false;
    }
    memcpy(session->name, name.data, name.size);
    session->name_size = (uint8_t)name.size;
    return true;
}

static void add_pair(struct buf *out, const char *name, const char *value)
{
    resp_add_bulk(out, bytes_str(name));
    resp_add_bulk(out, bytes_str(value));
}

static void greet(struct train *train)
{
    struct buf *out = train_out(train);
    const struct session *session = train->session;
    resp_add_map(out, session->version, 7);
    add_pair(out, "server", "tally");
    add_pair(out, "version", REDIS_VERSION);
    resp_add_bulk(out, BYTES("proto"));
    resp_add_integer(out, session->version == RESP_3 ? 3 : 2);
    resp_add_bulk(out, BYTES("id"));
    resp_add_integer(out, (int64_t)session->id);
    add_pair(out, "mode", "standalone");
    add_pair(out, "role", "master");
    resp_add_bulk(out, BYTES("modules"));
    resp_add_array(out, 0);
}

struct hello {
    enum resp_version version;
    bool named, signs_in;
    struct bytes name, user, token;
};

/* False, after refusing. */
static bool read_hello(struct train *train, const struct resp_command *command, struct hello *hello)
{
    int64_t version = 0;
    if (command->count > 1 && !resp_integer(command->items[1], &version)) {
        train_refuse(train, "ERR Protocol version is not an integer or out of range");
        return false;
    }
    if (command->count > 1 && version != 2 && version != 3) {
        train_refuse(train, "NOPROTO unsupported protocol version");
        return false;
    }
    if (command->count > 1) hello->version = version == 3 ? RESP_3 : RESP_2;
    for (uint32_t i = 2; i < command->count; i++) {
        uint32_t behind = command->count - 1 - i;
        if (bytes_equal_nocase(command->items[i], BYTES("AUTH")) && behind >= 2) {
            hello->signs_in = true;
            hello->user = command->items[++i];
            hello->token = command->items[++i];
        } else if (bytes_equal_nocase(command->items[i], BYTES("SETNAME")) && behind >= 1) {
            hello->named = true;
            hello->name = command->items[++i];
        } else {
            train_refuse(train, "ERR Syntax error in HELLO option");
            return false;
        }
    }
    return true;
}

void resp_hello(struct train *train, const struct resp_command *command)
{
    struct session *session = train->session;
    struct hello hello = {.version = session->version};
    if (!read_hello(train, command, &hello)) return;
    if (hello.signs_in && !sign_in(train, hello.user, hello.token)) return;
    if (!session_is_known(train)) {
        train_refuse(train,
                     "NOAUTH HELLO must be called with the client already authenticated, "
                     "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                     "authenticate the client and select the RESP protocol version at the same "
                     "time");
        return;
    }
    if (hello.named && !take_name(train, hello.name)) return;
    session->version = hello.version;
    greet(train);
}

void resp_reset(struct train *train, const struct resp_command *command)
{
    struct session *session = train->session;
    (void)command;
    multi_end(train);
    forget_token(session);
    session->version = RESP_2;
    session->name_size = 0;
    resp_add_simple(train_out(train), BYTES("RESET"));
}

/* -- CLIENT and INFO --------------------------------------------------------------------------- */

static void client_info(const struct train *train, struct buf *out)
{
    const struct session *session = train->session;
    char line[SESSION_NAME_SIZE_MAX + NAME_SIZE_MAX + 128];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line};
    buf_addf(&text, "id=%lu name=%.*s db=0 resp=%d user=%.*s\n", session->id,
             (int)session->name_size, session->name, session->version == RESP_3 ? 3 : 2,
             (int)session->tenant_size, session->tenant);
    resp_add_bulk(out, buf_bytes(&text));
}

static void client_name(const struct train *train, struct buf *out)
{
    const struct session *session = train->session;
    if (session->name_size)
        resp_add_bulk(out, bytes_of(session->name, session->name_size));
    else
        resp_add_null(out, session->version);
}

void resp_client(struct train *train, const struct resp_command *command)
{
    struct bytes what = command->items[1];
    if (bytes_equal_nocase(what, BYTES("SETNAME"))) {
        if (train_wrong_count(train, command, "client|setname", 3, 3)) return;
        if (take_name(train, command->items[2])) resp_add_simple(train_out(train), BYTES("OK"));
    } else if (bytes_equal_nocase(what, BYTES("SETINFO"))) {
        if (train_wrong_count(train, command, "client|setinfo", 4, 4)) return;
        resp_add_simple(train_out(train), BYTES("OK"));
    } else if (bytes_equal_nocase(what, BYTES("GETNAME"))) {
        if (train_wrong_count(train, command, "client|getname", 2, 2)) return;
        client_name(train, train_out(train));
    } else if (bytes_equal_nocase(what, BYTES("ID"))) {
        if (train_wrong_count(train, command, "client|id", 2, 2)) return;
        resp_add_integer(train_out(train), (int64_t)train->session->id);
    } else if (bytes_equal_nocase(what, BYTES("INFO"))) {
        if (train_wrong_count(train, command, "client|info", 2, 2)) return;
        client_info(train, train_out(train));
    } else {
        train_refuse_subcommand(train, what);
    }
}

/* Clients look for `loading` before they send anything, and for the version. Nothing here is of any
 * tenant. */
void resp_info(struct train *train, const struct resp_command *command)
{
    (void)command;
    resp_add_bulk(train_out(train), BYTES("# Server\r\n"
                                          "redis_version:" REDIS_VERSION "\r\n"
                                          "tally_version:" TALLY_VERSION "\r\n"
                                          "redis_mode:standalone\r\n"
                                          "\r\n# Persistence\r\n"
                                          "loading:0\r\n"
                                          "aof_enabled:1\r\n"
                                          "\r\n# Replication\r\n"
                                          "role:master\r\n"
                                          "connected_slaves:0\r\n"
                                          "\r\n# Cluster\r\n"
                                          "cluster_enabled:0\r\n"));
}
