/* expiry.c -- until when a key is there: EXPIRE and its kin, TTL, PERSIST, and INCREX.
 *
 * What these set is exact (SPEC 14). Times from now on count from the time of the batch that
 * decides. */
#include "api/resp/expiry.h"

#include <stdio.h>

static const struct op *op_of(const struct train *train, const struct promise *promise)
{
    return &train->ops[promise->first];
}

/* -- Times ------------------------------------------------------------------------------------- */

static void refuse_time(struct train *train)
{
    char line[96];
    char name[TRAIN_NAME_SIZE];
    train_say_name(train, name);
    snprintf(line, sizeof line, "ERR invalid expire time in '%s' command", name);
    train_refuse(train, line);
}

/* Fills the op's expiry. False, after refusing: it does not fit. */
static bool take_time(struct train *train, int64_t number, enum time_form form, struct op_end *end)
{
    int64_t ms = number;
    int64_t unused;
    bool seconds = form == TIME_EX || form == TIME_EXAT;
    bool after = form == TIME_EX || form == TIME_PX;
    int64_t now_ms = after ? clock_now_ms(train->lane->clock) : 0;
    if ((seconds && __builtin_mul_overflow(number, 1000, &ms)) ||
        __builtin_add_overflow(ms, now_ms, &unused) || ms == TIME_NONE) {
        refuse_time(train);
        return false;
    }
    *end = (struct op_end){after ? EXPIRY_AFTER : EXPIRY_AT, ms};
    return true;
}

bool end_read(struct train *train, struct bytes text, enum time_form form, struct op_end *end)
{
    int64_t number;
    if (!resp_integer(text, &number)) {
        train_refuse_number(train);
        return false;
    }
    if (number <= 0) {
        refuse_time(train);
        return false;
    }
    return take_time(train, number, form, end);
}

enum time_form time_form_of(struct bytes option)
{
    static const struct bytes names[] = {[TIME_EX] = BYTES("EX"),
                                         [TIME_PX] = BYTES("PX"),
                                         [TIME_EXAT] = BYTES("EXAT"),
                                         [TIME_PXAT] = BYTES("PXAT")};
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++)
        if (bytes_equal_nocase(option, names[i])) return (enum time_form)i;
    return TIME_FORMS;
}

/* -- EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT ------------------------------------------------------ */

static void reply_done(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = op_of(train, promise);
    if (op->err != ERR_OK)
        train_add_err(out, op->err);
    else
        resp_add_integer(out, op->existed && !op->unmet);
}

static void refuse_option(struct train *train, struct bytes option)
{
    char line[192];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line - 1};
    buf_add(&text, BYTES("ERR Unsupported option "));
    buf_add(&text, bytes_of(option.data, option.size < 128 ? option.size : 128));
    text.data[text.size] = '\0';
    train_refuse(train, line);
}

/* Each option is the opposite of a condition under which nothing is changed. False, after
 * refusing. */
static bool read_conditions(struct train *train, const struct resp_command *command,
                            unsigned *unless_out)
{
    static const struct {
        struct bytes name;
        unsigned unless;
    } options[] = {{BYTES("NX"), UNLESS_THERE},
                   {BYTES("XX"), UNLESS_NONE},
                   {BYTES("GT"), UNLESS_NO_LATER},
                   {BYTES("LT"), UNLESS_NO_SOONER}};
    *unless_out = 0;
    for (uint32_t i = 3; i < command->count; i++) {
        unsigned at = 0;
        while (at < ARRAY_COUNT(options) &&
               !bytes_equal_nocase(command->items[i], options[at].name))
            at++;
        if (at == ARRAY_COUNT(options)) {
            refuse_option(train, command->items[i]);
            return false;
        }
        *unless_out |= options[at].unless;
    }
    bool lone = (*unless_out & UNLESS_THERE) && *unless_out != UNLESS_THERE;
    bool both = (*unless_out & UNLESS_NO_LATER) && (*unless_out & UNLESS_NO_SOONER);
    if (lone)
        train_refuse(train, "ERR NX and XX, GT or LT options at the same time are not compatible");
    else if (both)
        train_refuse(train, "ERR GT and LT options at the same time are not compatible");
    return !lone && !both;
}

static void set_deadline(struct train *train, const struct resp_command *command,
                         enum time_form form)
{
    unsigned unless;
    int64_t number;
    struct op_end end;
    if (!read_conditions(train, command, &unless)) return;
    if (!resp_integer(command->items[2], &number)) {
        train_refuse_number(train);
        return;
    }
    if (!take_time(train, number, form, &end)) return;
    struct op *op = train_op(train, OP_DEADLINE, command->items[1]);
    if (!op) return;
    end_give(op, &end);
    op->unless = unless;
    train_promise(train, reply_done, 1, false);
}

void resp_expire(struct train *train, const struct resp_command *command)
{
    set_deadline(train, command, TIME_EX);
}

void resp_pexpire(struct train *train, const struct resp_command *command)
{
    set_deadline(train, command, TIME_PX);
}

void resp_expireat(struct train *train, const struct resp_command *command)
{
    set_deadline(train, command, TIME_EXAT);
}

void resp_pexpireat(struct train *train, const struct resp_command *command)
{
    set_deadline(train, command, TIME_PXAT);
}

void resp_persist(struct train *train, const struct resp_command *command)
{
    struct op *op = train_op(train, OP_DEADLINE, command->items[1]);
    if (!op) return;
    op->expiry = EXPIRY_NONE;
    op->unless = UNLESS_NONE;
    train_promise(train, reply_done, 1, false);
}

/* -- TTL, PTTL --------------------------------------------------------------------------------- */

enum { NO_KEY = -2, NO_EXPIRY = -1, IN_SECONDS = 1 };

static void reply_left(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = op_of(train, promise);
    bool seconds = promise->detail == IN_SECONDS;
    if (op->err != ERR_OK && op->err != ERR_MANAGED)
        train_add_err(out, op->err);
    else if (op->err == ERR_MANAGED || !op->existed)
        resp_add_integer(out, NO_KEY);
    else if (op->left_ms == TIME_NONE)
        resp_add_integer(out, NO_EXPIRY);
    else
        resp_add_integer(out,
                         seconds ? op->left_ms / 1000 + (op->left_ms % 1000 >= 500) : op->left_ms);
}

void resp_ttl(struct train *train, const struct resp_command *command)
{
    if (train_op(train, OP_READ, command->items[1]))
        train_promise_of(train, reply_left, IN_SECONDS, 1, false);
}

void resp_pttl(struct train *train, const struct resp_command *command)
{
    if (train_op(train, OP_READ, command->items[1]))
        train_promise_of(train, reply_left, 0, 1, false);
}

/* -- INCREX ------------------------------------------------------------------------------------ */

struct increx {
    const struct bytes *by, *least, *most, *time; /* NULL: not given */
    enum time_form form;
    bool saturate, persist, only_new;
};

/* False: an option twice, two that exclude each other, or none at all. */
static bool read_increx_option(struct increx *asked, const struct resp_command *command,
                               uint32_t *at)
{
    const struct bytes *option = &command->items[*at];
    const struct bytes *value = *at + 1 < command->count ? option + 1 : NULL;
    const struct bytes **place = NULL;
    enum time_form form = time_form_of(*option);
    bool *flag = NULL;
    if (form != TIME_FORMS) {
        place = &asked->time;
        asked->form = form;
    } else if (bytes_equal_nocase(*option, BYTES("BYINT"))) {
        place = &asked->by;
    } else if (bytes_equal_nocase(*option, BYTES("LBOUND"))) {
        place = &asked->least;
    } else if (bytes_equal_nocase(*option, BYTES("UBOUND"))) {
        place = &asked->most;
    } else if (bytes_equal_nocase(*option, BYTES("SATURATE"))) {
        flag = &asked->saturate;
    } else if (bytes_equal_nocase(*option, BYTES("PERSIST"))) {
        flag = &asked->persist;
    } else if (bytes_equal_nocase(*option, BYTES("ENX"))) {
        flag = &asked->only_new;
    }
    bool good = place ? !*place && value : flag && !*flag;
    if (good && place) {
        *place = value;
        ++*at;
    } else if (good) {
        *flag = true;
    }
    return good;
}

/* False, after refusing. */
static bool read_increx(struct train *train, const struct resp_command *command,
                        struct increx *asked)
{
    for (uint32_t i = 2; i < command->count; i++) {
        if (bytes_equal_nocase(command->items[i], BYTES("BYFLOAT"))) {
            train_refuse(train, "ERR BYFLOAT is not supported: counters are integers");
            return false;
        }
        if (read_increx_option(asked, command, &i)) continue;
        train_refuse_syntax(train);
        return false;
    }
    if (asked->persist && (asked->time || asked->only_new)) {
        train_refuse_syntax(train);
        return false;
    }
    if (asked->only_new && !asked->time) {
        train_refuse(train, "ERR ENX flag requires an expiration");
        return false;
    }
    return true;
}

static bool read_bound(struct train *train, const struct bytes *text, const char *name,
                       int64_t *value)
{
    char line[64];
    if (!text || resp_integer(*text, value)) return true;
    snprintf(line, sizeof line, "ERR %s is not an integer or out of range", name);
    train_refuse(train, line);
    return false;
}

/* No counter is below 0, so no bound need be. */
static bool read_bounds(struct train *train, const struct increx *asked, int64_t *by,
                        struct op_bounds *bounds)
{
    *bounds = (struct op_bounds){0, INT64_MAX, asked->saturate};
    if (!read_bound(train, asked->by, "Increment", by) ||
        !read_bound(train, asked->least, "LBOUND", &bounds->least) ||
        !read_bound(train, asked->most, "UBOUND", &bounds->most))
        return false;
    if (bounds->least < 0) bounds->least = 0;
    if (bounds->least <= bounds->most) return true;
    train_refuse(train, "ERR LBOUND can't be greater than UBOUND");
    return false;
}

static void reply_increx(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = op_of(train, promise);
    if (op->err != ERR_OK) {
        train_add_err(out, op->err);
        return;
    }
    resp_add_array(out, 2);
    resp_add_integer(out, op->after.net);
    resp_add_integer(out, op->after.net - op->was);
}

void resp_increx(struct train *train, const struct resp_command *command)
{
    struct increx asked = {.by = NULL};
    struct op_end end = {EXPIRY_LATER, TIME_NONE};
    struct op_bounds *bounds = arena_alloc(&train->exchange->arena, sizeof *bounds);
    int64_t by = 1;
    if (!read_increx(train, command, &asked) || !read_bounds(train, &asked, &by, bounds)) return;
    if (asked.time && !end_read(train, *asked.time, asked.form, &end)) return;
    if (asked.persist) end.expiry = EXPIRY_NONE;
    struct op *op = train_op(train, OP_MOVE, command->items[1]);
    if (!op) return;
    op->amount = by;
    op->bounds = bounds;
    op->unless = asked.only_new ? UNLESS_THERE : 0;
    end_give(op, &end);
    train_promise(train, reply_increx, 1, false);
}
