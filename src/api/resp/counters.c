/* counters.c -- the commands that count. */
#include "api/resp/expiry.h"
#include "config/config.h"

static const struct op *ops_of(const struct train *train, const struct promise *promise)
{
    return &train->ops[promise->first];
}

/* -- One counter, changed ---------------------------------------------------------------------- */

static void reply_net(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = ops_of(train, promise);
    if (op->err == ERR_OK)
        resp_add_integer(out, op->after.net);
    else
        train_add_err(out, op->err);
}

/* To take a negative amount off is to add it, and the other way round. Nothing makes the counter,
 * as it does in Redis. */
static void change(struct train *train, struct bytes name, enum op_kind kind, int64_t amount)
{
    if (amount < 0) kind = kind == OP_INCREMENT ? OP_DECREMENT : OP_INCREMENT;
    struct op *op = train_op(train, amount == 0 ? OP_INCREMENT : kind, name);
    if (!op) return;
    op->amount = amount < 0 ? -amount : amount;
    train_promise(train, reply_net, 1, false);
}

void resp_incr(struct train *train, const struct resp_command *command)
{
    change(train, command->items[1], OP_INCREMENT, 1);
}

void resp_decr(struct train *train, const struct resp_command *command)
{
    change(train, command->items[1], OP_DECREMENT, 1);
}

/* The least of all integers has no opposite; no counter has so much to take off. */
void resp_incrby(struct train *train, const struct resp_command *command)
{
    int64_t amount;
    if (!resp_integer(command->items[2], &amount))
        train_refuse_number(train);
    else if (amount == INT64_MIN)
        train_refuse_err(train, ERR_NEGATIVE);
    else
        change(train, command->items[1], OP_INCREMENT, amount);
}

void resp_decrby(struct train *train, const struct resp_command *command)
{
    int64_t amount;
    if (!resp_integer(command->items[2], &amount))
        train_refuse_number(train);
    else if (amount == INT64_MIN)
        train_refuse(train, "ERR decrement would overflow");
    else
        change(train, command->items[1], OP_DECREMENT, amount);
}

/* -- SET --------------------------------------------------------------------------------------- */

enum { SET_SAYS_OLD = 1 };

static void reply_set(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = ops_of(train, promise);
    bool old = promise->detail == SET_SAYS_OLD;
    if (op->err != ERR_OK)
        train_add_err(out, op->err);
    else if (old && op->existed)
        resp_add_bulk_integer(out, op->was);
    else if (old || op->unmet)
        resp_add_null(out, promise->version);
    else
        resp_add_simple(out, BYTES("OK"));
}

struct set_options {
    enum op_when when;
    bool says_old;
    bool keeps; /* the expiry there is */
    const struct bytes *time;
    enum time_form form;
};

/* An expiry is said in one way; said twice in that way, the last one counts. */
static bool read_set_time(const struct resp_command *command, uint32_t *at,
                          struct set_options *options)
{
    enum time_form form = time_form_of(command->items[*at]);
    bool known = form != TIME_FORMS;
    if (options->time && options->form != form) return false;
    if (!known || options->keeps || *at + 1 == command->count) return false;
    options->form = form;
    options->time = &command->items[++*at];
    return true;
}

static bool read_set_option(struct bytes option, struct set_options *options)
{
    if (bytes_equal_nocase(option, BYTES("NX")) && options->when != WHEN_PRESENT)
        options->when = WHEN_ABSENT;
    else if (bytes_equal_nocase(option, BYTES("XX")) && options->when != WHEN_ABSENT)
        options->when = WHEN_PRESENT;
    else if (bytes_equal_nocase(option, BYTES("GET")))
        options->says_old = true;
    else if (bytes_equal_nocase(option, BYTES("KEEPTTL")) && !options->time)
        options->keeps = true;
    else
        return false;
    return true;
}

/* A counter is not negative, so only such a number can be set. */
static bool read_target(struct bytes text, int64_t *target_out)
{
    return resp_integer(text, target_out) && *target_out >= 0;
}

void resp_set(struct train *train, const struct resp_command *command)
{
    struct set_options options = {.when = WHEN_ANY};
    int64_t target;
    for (uint32_t i = 3; i < command->count; i++) {
        if (read_set_option(command->items[i], &options)) continue;
        if (read_set_time(command, &i, &options)) continue;
        train_refuse_syntax(train);
        return;
    }
    struct op_end end = {options.keeps ? EXPIRY_LATER : EXPIRY_NONE, TIME_NONE};
    if (options.time && !end_read(train, *options.time, options.form, &end)) return;
    if (!read_target(command->items[2], &target)) {
        train_refuse_number(train);
        return;
    }
    struct op *op = train_op(train, OP_SET, command->items[1]);
    if (!op) return;
    op->amount = target;
    op->when = options.when;
    end_give(op, &end);
    train_promise_of(train, reply_set, options.says_old ? SET_SAYS_OLD : 0, 1, false);
}

/* -- Several counters, all or none ------------------------------------------------------------- */

static bool too_many(struct train *train, uint32_t count)
{
    bool over = count > (uint32_t)train->api->config.config->limits_atomic_ops;
    if (over) train_refuse(train, "ERR more keys than limits.atomicOps in one command");
    return over;
}

/* All ops of a command, on every `step`th argument from the first on. False, after refusing: a name
 * is none, and none of them is left. */
static bool add_ops(struct train *train, enum op_kind kind, const struct resp_command *command,
                    uint32_t step)
{
    uint32_t before = train->ops_count;
    for (uint32_t i = 1; i < command->count; i += step) {
        if (train_op(train, kind, command->items[i])) continue;
        train->ops_count = before;
        return false;
    }
    return true;
}

/* The first op that failed says why; the others were put back. */
static enum err first_error(const struct train *train, const struct promise *promise)
{
    const struct op *ops = ops_of(train, promise);
    for (uint32_t i = 0; i < promise->count; i++)
        if (ops[i].err != ERR_OK) return ops[i].err;
    return ERR_OK;
}

static void reply_mset(struct train *train, const struct promise *promise, struct buf *out)
{
    enum err e = first_error(train, promise);
    if (e == ERR_OK)
        resp_add_simple(out, BYTES("OK"));
    else
        train_add_err(out, e);
}

void resp_mset(struct train *train, const struct resp_command *command)
{
    uint32_t count = command->count / 2;
    int64_t target;
    if (command->count % 2 == 0) {
        train_refuse(train, "ERR wrong number of arguments for 'mset' command");
        return;
    }
    if (too_many(train, count)) return;
    for (uint32_t i = 2; i < command->count; i += 2) {
        if (read_target(command->items[i], &target)) continue;
        train_refuse_number(train);
        return;
    }
    if (!add_ops(train, OP_SET, command, 2)) return;
    for (uint32_t i = 0; i < count; i++) {
        bool good = read_target(command->items[2 * i + 2], &target);
        must(good);
        struct op *op = &train->ops[train->ops_count - count + i];
        op->amount = target;
        op->expiry = EXPIRY_NONE;
    }
    train_promise(train, reply_mset, count, true);
}

static void reply_existed(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *ops = ops_of(train, promise);
    int64_t count = 0;
    for (uint32_t i = 0; i < promise->count; i++)
        count += ops[i].err == ERR_OK && ops[i].existed;
    resp_add_integer(out, count);
}

static void reply_del(struct train *train, const struct promise *promise, struct buf *out)
{
    enum err e = first_error(train, promise);
    if (e == ERR_OK)
        reply_existed(train, promise, out);
    else
        train_add_err(out, e);
}

void resp_del(struct train *train, const struct resp_command *command)
{
    if (too_many(train, command->count - 1)) return;
    if (add_ops(train, OP_REMOVE, command, 1))
        train_promise(train, reply_del, command->count - 1, true);
}

/* -- Reads ------------------------------------------------------------------------------------- */

/* What rules keep is no key: it reads as none where several are asked for, as a value of another
 * type does in Redis. What could not be read is an error in any case. */
static enum err reading_error(const struct train *train, const struct promise *promise)
{
    const struct op *ops = ops_of(train, promise);
    for (uint32_t i = 0; i < promise->count; i++)
        if (ops[i].err != ERR_OK && ops[i].err != ERR_MANAGED) return ops[i].err;
    return ERR_OK;
}

static void add_sight(struct buf *out, struct train_sight sight, enum resp_version version)
{
    if (sight.err != ERR_OK)
        train_add_err(out, sight.err);
    else if (sight.existed)
        resp_add_bulk_integer(out, sight.net);
    else
        resp_add_null(out, version);
}

static void reply_get(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = ops_of(train, promise);
    add_sight(out, (struct train_sight){op->err, op->existed, op->after.net}, promise->version);
}

void resp_get(struct train *train, const struct resp_command *command)
{
    struct train_sight sight;
    if (train_look(train, command->items[1], &sight))
        add_sight(train_out(train), sight, train->session->version);
    else if (train_op(train, OP_READ, command->items[1]))
        train_promise(train, reply_get, 1, false);
}

static void reply_mget(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *ops = ops_of(train, promise);
    enum err e = reading_error(train, promise);
    if (e != ERR_OK) {
        train_add_err(out, e);
        return;
    }
    resp_add_array(out, promise->count);
    for (uint32_t i = 0; i < promise->count; i++) {
        if (ops[i].err == ERR_OK && ops[i].existed)
            resp_add_bulk_integer(out, ops[i].after.net);
        else
            resp_add_null(out, promise->version);
    }
}

void resp_mget(struct train *train, const struct resp_command *command)
{
    if (add_ops(train, OP_READ, command, 1))
        train_promise(train, reply_mget, command->count - 1, false);
}

static void reply_exists(struct train *train, const struct promise *promise, struct buf *out)
{
    enum err e = reading_error(train, promise);
    if (e == ERR_OK)
        reply_existed(train, promise, out);
    else
        train_add_err(out, e);
}

void resp_exists(struct train *train, const struct resp_command *command)
{
    if (add_ops(train, OP_READ, command, 1))
        train_promise(train, reply_exists, command->count - 1, false);
}

static void reply_type(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = ops_of(train, promise);
    enum err e = reading_error(train, promise);
    if (e != ERR_OK)
        train_add_err(out, e);
    else
        resp_add_simple(out, op->err == ERR_OK && op->existed ? BYTES("string") : BYTES("none"));
}

void resp_type(struct train *train, const struct resp_command *command)
{
    if (train_op(train, OP_READ, command->items[1])) train_promise(train, reply_type, 1, false);
}
