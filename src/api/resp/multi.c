/* multi.c -- MULTI, EXEC and DISCARD.
 *
 * MULTI has the session collect commands, as bytes, over as many trains as they take to come. EXEC
 * reads them again, as if they had come in its place: their ops are one bundle, all or nothing, and
 * reads among them see the writes before them. What Redis would not do: a command that fails
 * discards all. */
#include "api/resp/train.h"

#include "config/config.h"

void multi_spoil(struct session *session)
{
    if (session->multi.open) session->multi.spoilt = true;
}

void multi_end(struct train *train)
{
    struct multi *multi = &train->session->multi;
    if (!multi->open) return;
    buf_release(&multi->commands);
    *multi = (struct multi){0};
    bool gives_back = exchange_keep(train->exchange, 0);
    must(gives_back);
}

void resp_multi(struct train *train, const struct resp_command *command)
{
    struct multi *multi = &train->session->multi;
    (void)command;
    if (multi->open) {
        train_refuse(train, "ERR MULTI calls can not be nested");
        return;
    }
    *multi = (struct multi){.open = true};
    buf_init(&multi->commands, (size_t)train->api->config.config->limits_body_bytes);
    resp_add_simple(train_out(train), BYTES("OK"));
}

void resp_discard(struct train *train, const struct resp_command *command)
{
    (void)command;
    if (!train->session->multi.open) {
        train_refuse(train, "ERR DISCARD without MULTI");
        return;
    }
    multi_end(train);
    resp_add_simple(train_out(train), BYTES("OK"));
}

static unsigned commands_max(const struct train *train)
{
    return (unsigned)train->api->config.config->limits_atomic_ops;
}

void multi_collect(struct train *train, const struct resp_command *command)
{
    struct multi *multi = &train->session->multi;
    if (train->entry->flags & (RESP_CUTS | RESP_ALONE | RESP_SINGLE)) {
        train_refuse(train, "ERR Command not allowed inside a transaction");
        multi->spoilt = true;
        return;
    }
    struct buf *commands = &multi->commands;
    resp_add_array(commands, command->count);
    for (uint32_t i = 0; i < command->count; i++)
        resp_add_bulk(commands, command->items[i]);
    bool fits = !commands->failed && ++multi->count <= commands_max(train);
    if (!fits || !exchange_keep(train->exchange, commands->capacity)) {
        train_refuse(train, fits ? "BUSY there is no room for more commands in MULTI"
                                 : "ERR there are too many commands in MULTI");
        multi->spoilt = true;
        return;
    }
    resp_add_simple(train_out(train), BYTES("QUEUED"));
}

/* -- EXEC -------------------------------------------------------------------------------------- */

static void say_why(struct buf *out, enum err e)
{
    char line[256];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line};
    buf_add(&text, BYTES("EXECABORT Transaction discarded because of: "));
    buf_add(&text, bytes_str(err_sentence(e)));
    resp_add_error(out, buf_bytes(&text));
}

/* One of the ops failed, or what happened to all of them is nobody's fault. */
static void reply_exec(struct train *train, const struct promise *promise, struct buf *out)
{
    enum err e = promise->count ? train->ops[promise->first].err : ERR_OK;
    train->failed = e != ERR_OK;
    if (e == ERR_OK)
        resp_add_array(out, promise->detail);
    else if (e == ERR_QUEUE_FULL || e == ERR_BUSY || e == ERR_STORAGE)
        train_add_err(out, e);
    else
        say_why(out, e);
}

/* Does the commands one after the other. False: one was refused. */
static bool do_collected(struct train *train)
{
    struct resp_reader reader = {.rest = buf_bytes(&train->session->multi.commands)};
    struct resp_command command;
    train->inside = true;
    train->failed = false;
    while (!train->failed && resp_next(&reader, &train->exchange->arena, &command)) {
        train->entry = &resp_entries[resp_find(command.items[0])];
        train->entry->run(train, &command);
    }
    train->inside = false;
    return !train->failed;
}

static void exec(struct train *train)
{
    uint32_t ops = train->ops_count, promises = train->promises_count;
    size_t text = train->text.size;
    struct promise *promise = train_promise_new(train);
    promise->reply = reply_exec;
    promise->detail = train->session->multi.count;
    promise->first = ops;
    bool good = do_collected(train);
    if (!good || train->ops_count - ops > commands_max(train)) {
        train->ops_count = ops;
        train->promises_count = promises;
        train->text.size = text;
        train_refuse(train, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    promise = &train->promises[promises]; /* they may have moved */
    promise->count = train->ops_count - ops;
    promise->inside = train->promises_count - promises - 1;
    train->sealed = true;
    if (promise->count == 0) return;
    train_stretch(train, promise->count, true);
    train->writes = true; /* reads inside show one moment */
}

void resp_exec(struct train *train, const struct resp_command *command)
{
    const struct multi *multi = &train->session->multi;
    (void)command;
    if (!multi->open) {
        train_refuse(train, "ERR EXEC without MULTI");
        return;
    }
    if (multi->spoilt)
        train_refuse(train, "EXECABORT Transaction discarded because of previous errors.");
    else
        exec(train);
    multi_end(train);
}
