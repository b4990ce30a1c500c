/* group.c -- what a server is in its group: a primary to be followed, or a follower (SPEC 13).
 *
 * A follower has no turns, so it needs nothing of what makes a primary decide, and is the same
 * server in all else. When a snapshot has arrived the server ends its life like at a stop and
 * begins another one in the same process, with the new store (daemon.c). */
#include "serve/server.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "replica/follow.h"
#include "replica/forward.h"
#include "replica/lend.h"
#include "replica/ship.h"
#include "serve/adopt.h"
#include "store/embedded/identity.h"
#include "store/embedded/replicate.h"

#define FORWARD_MS 60000 /* a write that is handed on is answered by then */

static bool is_followable(const struct server *server)
{
    return server->config->store_kind == CONFIG_STORE_EMBEDDED && server->lanes.count == 1;
}

/* -- Before the store is open ------------------------------------------------------------------ */

/* What the primary and operators know this server by: its machine and address, and with port 0 who
 * it is among those of this machine. It stays the same in a later life of the process. */
static void name_server(struct server *server)
{
    char host[64] = "";
    if (server->name[0]) return;
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "host");
    for (char *at = host; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr(".-", *at)) *at = '-';
    if (server->listen.port)
        snprintf(server->name, sizeof server->name, "%s/%.40s:%u", host, server->listen.address,
                 server->listen.port);
    else
        snprintf(server->name, sizeof server->name, "%s/%.40s:pid-%ld", host,
                 server->listen.address, (long)getpid());
}

static struct follow_config follow_config(const struct server *server)
{
    return (struct follow_config){.url = server->member.primary,
                                  .token = server->config->follow_token,
                                  .name = server->name,
                                  .dir = server->config->data,
                                  .machine = &clock_system};
}

/* Signals are not waited for yet: a stop ends the copying. */
static atomic_bool copying_stops;

static void stop_copying(int signal_number)
{
    (void)signal_number;
    atomic_store(&copying_stops, true);
}

static enum err begin_following(struct server *server, struct reason *why)
{
    const struct follow_config config = follow_config(server);
    struct sigaction before[2];
    struct sigaction action = {.sa_handler = stop_copying};
    struct reason reason;
    sigset_t signals, blocked;
    atomic_store(&copying_stops, false);
    sigaction(SIGTERM, &action, &before[0]);
    sigaction(SIGINT, &action, &before[1]);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &signals, &blocked);
    enum err e = follow_begin(&config, &copying_stops, &reason);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    sigaction(SIGTERM, &before[0], NULL);
    sigaction(SIGINT, &before[1], NULL);
    if (e == ERR_CONFLICT)
        reason_say(why, "%s cannot be followed: %s", server->member.primary, reason.text);
    else if (e == ERR_BUSY)
        reason_say(why, "told to stop before the primary was copied.");
    else if (e != ERR_OK)
        reason_say(why, "%s", reason.text);
    return e;
}

/* follow.url is for an empty directory only: what a server is stands in its directory then. */
static enum err decide_role(struct server *server, struct reason *why)
{
    const struct config *config = server->config;
    enum err e = node_read(&server->member, config->data, why);
    if (e != ERR_OK) return e;
    bool given = config->follow_url[0] != '\0';
    if (server->member.follows && given && strcmp(server->member.primary, config->follow_url) != 0)
        log_line(LOG_WARN,
                 "the data directory follows another server than follow.url, which is "
                 "for an empty one only",
                 LOG_KV("primary", server->member.primary));
    if (server->member.follows || !given) return ERR_OK;
    if (node_has_store(config->data)) {
        log_line(LOG_WARN,
                 "the data directory is a primary's: follow.url is for an empty one only, "
                 "and is ignored");
        return ERR_OK;
    }
    server->member.follows = true;
    snprintf(server->member.primary, sizeof server->member.primary, "%s", config->follow_url);
    return node_write(&server->member, config->data, why);
}

static enum err settle(struct server *server, struct reason *why)
{
    const char *dir = server->config->data;
    enum err e = decide_role(server, why);
    if (e != ERR_OK) return e;
    if (server->member.follows && !server->config->follow_token[0])
        return reason_err(why, ERR_INVALID,
                          "%s is a follower's data directory: it needs follow.token, a token of "
                          "scope replica; better given as TALLY_FOLLOW_TOKEN.",
                          dir);
    e = node_settle(dir, why);
    if (e == ERR_OK && server->member.follows && !node_has_store(dir)) {
        e = begin_following(server, why);
        if (e == ERR_OK) e = node_settle(dir, why);
    }
    return e;
}

enum err server_settle_group(struct server *server, struct reason *why)
{
    struct store_identity identity = {.lock_fd = -1};
    if (server->config->store_kind != CONFIG_STORE_EMBEDDED || server->config->store_lanes != 1)
        return ERR_OK;
    name_server(server);
    enum err e = identity_lock(&identity, server->config->data, why);
    if (e == ERR_OK) e = settle(server, why);
    identity_release(&identity);
    return e;
}

/* -- Once it is ------------------------------------------------------------------------------- */

static enum err adopt_rules(void *context)
{
    struct server *server = context;
    return adopter_adopt(server->adopter, 0);
}

static void begin_again(void *context)
{
    (void)context;
    kill(getpid(), SERVER_AGAIN_SIGNAL);
}

/* The start of the journal's keeping is on disk before the first follower is answered. */
static void note_followed(void *context)
{
    struct server *server = context;
    struct reason why;
    server->member.followed = true;
    if (node_write(&server->member, server->config->data, &why) != ERR_OK)
        log_line(LOG_WARN, "after a restart journal may not be kept for followers",
                 LOG_KV("why", why.text));
}

/* Rules that were withheld: whoever asked for them was told that the outcome is not known. */
static void take_rules(void *context)
{
    struct server *server = context;
    struct adopter *adopter = adopter_new(&server->lanes, server->config);
    if (adopter_adopt(adopter, 0) != ERR_OK)
        log_line(LOG_ERROR, "the rules that came into force cannot be gone by; reload them");
    adopter_free(adopter);
}

static void make_primary(struct server *server)
{
    char dir[TREE_PATH_MAX];
    struct lane *lane = &server->lanes.items[0];
    const struct ship_config ship = {.store = lane->store,
                                     .clock = lane->clock,
                                     .keep_bytes = (uint64_t)server->config->replication_keep_bytes,
                                     .acks = (unsigned)server->config->replication_acks,
                                     .timeout_ms = server->config->replication_timeout,
                                     .released = take_rules,
                                     .followed = server->member.followed,
                                     .first = note_followed,
                                     .context = server};
    must(tree_path(dir, server->config->data, EMBEDDED_LENT) == ERR_OK);
    server->ship = ship_new(&ship);
    server->lend = lend_new(lane->store, dir, &clock_system);
}

/* Until the primary says what time it is, it is when its last change here was made. */
static void make_follower(struct server *server)
{
    struct lane *lane = &server->lanes.items[0];
    struct follow_config config = follow_config(server);
    const struct store_position position = embedded_position(lane->store);
    struct moment moment = {.now_ms = position.time_ms};
    if (position.last_sequence == 0) moment.now_ms = clock_wall_ms(&clock_system);
    timekeeper_follow(lane->keeper, &moment);
    config.store = lane->store;
    config.keeper = lane->keeper;
    config.rules = adopt_rules;
    config.arrived = begin_again;
    config.context = server;
    server->follow = follow_new(&config);
    if (server->config->follow_forward)
        server->forward = forward_new(server->member.primary, FORWARD_MS);
}

void server_make_group(struct server *server)
{
    if (!is_followable(server)) return;
    if (server->member.follows)
        make_follower(server);
    else
        make_primary(server);
}

void server_start_group(struct server *server)
{
    if (server->ship) ship_start(server->ship);
    if (server->follow) follow_start(server->follow);
}

void server_stop_group(struct server *server)
{
    if (server->ship) ship_stop(server->ship);
    if (server->forward) forward_stop(server->forward);
    if (server->follow) follow_stop(server->follow);
}

void server_free_group(struct server *server)
{
    if (server->ship) ship_free(server->ship);
    if (server->lend) lend_free(server->lend);
    if (server->follow) follow_free(server->follow);
    if (server->forward) forward_free(server->forward);
}
