/* followers.c -- what this server is in its group, and who follows it (SPEC 13). */
#include "api/call.h"
#include "api/endpoints.h"
#include "base/json_write.h"
#include "replica/follow.h"
#include "replica/ship.h"

static void add_follower(struct buf *body, const struct ship_follower *follower)
{
    json_open(body, JSON_ITEM, '{');
    json_add_text(body, JSON_KEY("name"), bytes_str(follower->name));
    json_add_quoted(body, JSON_KEY("sequence"), follower->sequence);
    json_add_quoted(body, JSON_KEY("behind"), follower->behind);
    json_add_number(body, JSON_KEY("silentMs"), follower->silent_ms);
    json_close(body, '}');
}

static void add_followers(struct buf *body, struct ship *ship)
{
    struct ship_follower followers[SHIP_FOLLOWERS_MAX];
    unsigned count = ship ? ship_followers(ship, followers) : 0;
    json_open(body, JSON_KEY("followers"), '[');
    for (unsigned i = 0; i < count; i++)
        add_follower(body, &followers[i]);
    json_close(body, ']');
}

static void add_following(struct buf *body, const struct call *call)
{
    struct follow_state state;
    struct follow *follow = call->api->config.follow;
    if (!follow) {
        json_add_null(body, JSON_KEY("following"));
        return;
    }
    follow_state(follow, &state);
    json_open(body, JSON_KEY("following"), '{');
    json_add_text(body, JSON_KEY("primary"), bytes_str(call->api->config.primary));
    json_add_bool(body, JSON_KEY("connected"), state.connected);
    json_add_bool(body, JSON_KEY("copying"), state.copying);
    json_add_quoted(body, JSON_KEY("primarySequence"), state.last);
    json_add_number(body, JSON_KEY("lagMs"), state.lag_ms);
    json_close(body, '}');
}

static void run_followers(struct call *call)
{
    struct buf *body = &call->exchange->reply.body;
    const struct api_config *config = &call->api->config;
    call->exchange->reply.status = 200;
    json_open(body, JSON_ITEM, '{');
    json_add_word(body, JSON_KEY("role"), bytes_str(api_role(call->api)));
    json_add_quoted(body, JSON_KEY("sequence"),
                    view_sequence(&config->lanes->items[0].store->view));
    add_following(body, call);
    add_followers(body, config->ship);
    json_close(body, '}');
}

enum request_verdict admin_followers(struct call *call)
{
    return call_read(call, run_followers);
}
