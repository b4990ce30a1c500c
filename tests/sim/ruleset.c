/* ruleset.c -- see ruleset.h. */
#include "ruleset.h"

#include <stdio.h>
#include <string.h>

#include "base/table.h"

#define JSON_SIZE 64

/* The first shadows a direct counter of that name (MODEL_SHADOWED). */
static const char *const names[RULESET_COUNTERS] = {"x", "r1", "r.2", "r-3", "r"};
static const char *const statuses[RULESET_STATUSES] = {"active", "busy", "gone"};
static const char *const types[RULESET_TYPES] = {"up", "down", "a.b", "other"};
static const enum ruleset_mode modes[RULESET_COUNTERS] = {
    RULESET_PERSISTENT, RULESET_PERSISTENT, RULESET_WINDOWED, RULESET_SERIES, RULESET_PERSISTENT};

const char *ruleset_counter_name(unsigned counter)
{
    return names[counter];
}

const char *ruleset_status(unsigned status)
{
    return statuses[status - 1];
}

const char *ruleset_type(unsigned type)
{
    return types[type];
}

static void write_json(unsigned code, char out[static JSON_SIZE])
{
    static const char *const keys[] = {"a", "b", "payload.p"};
    size_t used = 0;
    out[used++] = '{';
    for (unsigned i = 0; i < ARRAY_COUNT(keys); i++, code /= 3) {
        if (code % 3 == 0) continue;
        used += (size_t)snprintf(out + used, JSON_SIZE - used, "%s\"%s\":\"%u\"",
                                 used > 1 ? "," : "", keys[i], code % 3);
    }
    snprintf(out + used, JSON_SIZE - used, "}");
}

/* Asked for with every row of every walk, so each is written only once. */
const char *ruleset_json(unsigned code)
{
    static char texts[RULESET_CODES][JSON_SIZE];
    if (!*texts[code]) write_json(code, texts[code]);
    return texts[code];
}

bool ruleset_code(struct bytes json, unsigned *code_out)
{
    for (*code_out = 0; *code_out < RULESET_CODES; ++*code_out)
        if (bytes_equal(json, bytes_str(ruleset_json(*code_out)))) return true;
    return false;
}

bool ruleset_code_is(unsigned code, unsigned parts)
{
    return (code % 3 > 0) == ((parts & RULESET_A) > 0) &&
           (code / 3 % 3 > 0) == ((parts & RULESET_B) > 0) &&
           (code / 9 > 0) == ((parts & RULESET_P) > 0);
}

bool ruleset_reconciles(const struct ruleset *rules, unsigned counter)
{
    const struct ruleset_counter *it = &rules->counters[counter];
    if (!rules->entity || !it->there || it->mode != RULESET_PERSISTENT) return false;
    for (unsigned i = 0; i < it->sets_count; i++)
        if (it->sets[i] == rules->entity) return true;
    return false;
}

/* ---- throwing one ---- */

static void make_sets(struct ruleset_counter *counter, struct dice *dice)
{
    static const unsigned parts[] = {
        0, RULESET_A, RULESET_B, RULESET_A | RULESET_B, RULESET_P, RULESET_A | RULESET_P};
    unsigned first = dice_below(dice, ARRAY_COUNT(parts));
    unsigned step = dice_chance(dice, 50) ? 1 : 5; /* neither leads back at once */
    counter->sets_count = 1 + dice_below(dice, RULESET_SETS);
    for (unsigned i = 0; i < counter->sets_count; i++)
        counter->sets[i] = parts[(first + i * step) % ARRAY_COUNT(parts)];
}

static void make_rules(struct ruleset_counter *counter, struct dice *dice)
{
    static const unsigned wheres[] = {0, 0, 0, RULESET_A, RULESET_P};
    counter->rules_count = 1 + dice_below(dice, RULESET_RULES);
    for (unsigned i = 0; i < counter->rules_count; i++)
        counter->rules[i] = (struct ruleset_rule){
            .type = dice_below(dice, RULESET_TYPES - 1), /* the last sets off nothing */
            .down = dice_chance(dice, 40),
            .amount = dice_chance(dice, 40) ? 0 : dice_between(dice, 1, 3),
            .where = DICE_PICK(dice, wheres),
        };
}

static void make_window(struct ruleset_counter *counter, struct dice *dice)
{
    static const int64_t windows_ms[] = {5000, 60000, 600000, 3600000, 86400000};
    counter->window_ms = DICE_PICK(dice, windows_ms);
    counter->trailing = dice_chance(dice, 60);
    int64_t seconds = counter->window_ms / 60000;
    counter->trailing_seconds = seconds >= 60 ? 60 : seconds < 1 ? 1 : (int32_t)seconds;
}

static void make_series(struct ruleset_counter *counter, struct dice *dice)
{
    static const int32_t granularities[] = {0, 1, 60, 3600, 86400};
    for (unsigned i = 0; i < ARRAY_COUNT(granularities) && counter->granularities_count < 3; i++)
        if (dice_chance(dice, 50) || i == 4)
            counter->granularities[counter->granularities_count++] = granularities[i];
    if (dice_chance(dice, 50)) counter->keep_ms = 1000 * dice_between(dice, 1, 90000);
}

/* One of the sets of a persistent counter, if they have any parts; whoever keeps it is listed. */
static void make_entity(struct ruleset *rules, struct dice *dice)
{
    unsigned most = 0;
    for (unsigned i = 0; i < RULESET_COUNTERS; i++) {
        const struct ruleset_counter *counter = &rules->counters[i];
        unsigned set = counter->sets[dice_below(dice, counter->sets_count)];
        if (!counter->there || counter->mode != RULESET_PERSISTENT || set == 0) continue;
        if (dice_below(dice, ++most) == 0) rules->entity = set;
    }
    if (dice_chance(dice, 20)) rules->entity = 0;
}

void ruleset_make(struct ruleset *rules, struct dice *dice)
{
    memset(rules, 0, sizeof *rules);
    for (unsigned i = 0; i < RULESET_COUNTERS; i++) {
        struct ruleset_counter *counter = &rules->counters[i];
        counter->there = dice_chance(dice, 75);
        counter->mode = modes[i];
        counter->floor_at_zero = dice_chance(dice, 50);
        counter->usage = dice_chance(dice, 30);
        counter->safe = dice_chance(dice, i == 1 ? 80 : 30);
        make_sets(counter, dice);
        make_rules(counter, dice);
        if (counter->mode == RULESET_WINDOWED) make_window(counter, dice);
        if (counter->mode == RULESET_SERIES) make_series(counter, dice);
    }
    for (unsigned type = 0; type < RULESET_TYPES; type++)
        if (dice_chance(dice, 20)) rules->statuses[type] = 1 + dice_below(dice, RULESET_STATUSES);
    make_entity(rules, dice);
}

/* ---- writing one ---- */

static void write_set(struct buf *buf, unsigned parts)
{
    buf_addf(buf, "[");
    if (parts & RULESET_B) buf_addf(buf, "b%s", parts & (RULESET_A | RULESET_P) ? ", " : "");
    if (parts & RULESET_A) buf_addf(buf, "a%s", parts & RULESET_P ? ", " : "");
    if (parts & RULESET_P) buf_addf(buf, "payload.p");
    buf_addf(buf, "]");
}

static void write_rule(struct buf *buf, const struct ruleset_rule *rule)
{
    buf_addf(buf, "  - {on: %s, op: %s", types[rule->type], rule->down ? "decrement" : "increment");
    if (rule->amount > 1) buf_addf(buf, ", amount: %lld", (long long)rule->amount);
    if (rule->amount == 0) buf_addf(buf, ", amount: payload.n");
    if (rule->where == RULESET_A) buf_addf(buf, ", where: {a: \"1\"}");
    if (rule->where == RULESET_P) buf_addf(buf, ", where: {payload.p: 1}");
    buf_addf(buf, "}\n");
}

static void write_mode(struct buf *buf, const struct ruleset_counter *counter)
{
    if (counter->mode == RULESET_WINDOWED)
        buf_addf(buf, "  mode: windowed\n  window: %llds\n  trailing: %s\n",
                 (long long)counter->window_ms / 1000, counter->trailing ? "true" : "false");
    if (counter->mode != RULESET_SERIES) return;
    buf_addf(buf, "  mode: series\n  granularities: [");
    for (unsigned i = counter->granularities_count; i-- > 0;)
        buf_addf(buf, "%d%s", counter->granularities[i], i ? ", " : "]\n");
    if (counter->keep_ms) buf_addf(buf, "  keep: %llds\n", (long long)counter->keep_ms / 1000);
}

static void write_counter(struct buf *buf, const struct ruleset_counter *counter, const char *name)
{
    buf_addf(buf, "- counterName: %s\n  dimensions: ", name);
    write_set(buf, counter->sets[0]);
    if (counter->sets_count > 1) buf_addf(buf, "\n  rollups: [");
    for (unsigned i = 1; i < counter->sets_count; i++) {
        write_set(buf, counter->sets[i]);
        buf_addf(buf, i + 1 < counter->sets_count ? ", " : "]");
    }
    buf_addf(buf, "\n  floorAtZero: %s\n", counter->floor_at_zero ? "true" : "false");
    if (counter->safe) buf_addf(buf, "  transition: {entity: [e]}\n");
    if (counter->usage) buf_addf(buf, "  group: usage\n");
    write_mode(buf, counter);
    buf_addf(buf, "  rules:\n");
    for (unsigned i = 0; i < counter->rules_count; i++)
        write_rule(buf, &counter->rules[i]);
}

/* Nobody ever connects: the simulator is the source. */
static void write_reconcile(struct buf *buf, const struct ruleset *rules)
{
    if (!rules->entity) return;
    unsigned tenant = 1 + (unsigned)__builtin_popcount(rules->entity);
    buf_addf(buf, "reconcile:\n- name: " RULESET_RECONCILE "\n  tenants: all\n  entity: ");
    write_set(buf, rules->entity);
    buf_addf(buf, "\n  source: {postgres: host=nowhere}\n  scanEvery: 1s\n  scanLimit: 4\n"
                  "  minInterval: 5s\n  singleFlight: [{every: 1s}]\n  counters:\n");
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        if (ruleset_reconciles(rules, i))
            buf_addf(buf, "    %s: SELECT count(*) FROM t WHERE t = $%u\n", names[i], tenant);
}

void ruleset_write(const struct ruleset *rules, struct buf *buf)
{
    bool any = false;
    for (unsigned i = 0; i < RULESET_COUNTERS; i++) {
        if (!rules->counters[i].there) continue;
        if (!any) buf_addf(buf, "counters:\n");
        any = true;
        write_counter(buf, &rules->counters[i], names[i]);
    }
    any = false;
    for (unsigned type = 0; type < RULESET_TYPES; type++) {
        if (!rules->statuses[type]) continue;
        if (!any) buf_addf(buf, "statuses:\n");
        any = true;
        buf_addf(buf, "  %s: %s\n", types[type], ruleset_status(rules->statuses[type]));
    }
    write_reconcile(buf, rules);
    buf_addf(buf, "log: {level: warn}\n"); /* so that it is never empty */
}
