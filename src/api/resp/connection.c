/* connection.c -- commands about the connection and the server, answered at once. */
#include "api/resp/train.h"

#include "core/number.h"

bool resp_integer(struct bytes text, int64_t *value_out)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    const char *digits = text.data + negative;
    size_t size = text.size - negative;
    uint64_t value = 0;
    if (size == 0 || size > 19) return false;
    if (digits[0] == '0' && (size > 1 || negative)) return false;
    for (size_t i = 0; i < size; i++) {
        if (digits[i] < '0' || digits[i] > '9') return false;
        value = value * 10 + (uint64_t)(digits[i] - '0'); /* 19 digits fit 64 bits */
    }
    if (value > (uint64_t)INT64_MAX + negative) return false;
    *value_out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

void resp_ping(struct train *train, const struct resp_command *command)
{
    if (train_wrong_count(train, command, "ping", 1, 2)) return;
    if (command->count == 1)
        resp_add_simple(train_out(train), BYTES("PONG"));
    else
        resp_add_bulk(train_out(train), command->items[1]);
}

void resp_echo(struct train *train, const struct resp_command *command)
{
    resp_add_bulk(train_out(train), command->items[1]);
}

void resp_quit(struct train *train, const struct resp_command *command)
{
    (void)command;
    resp_add_simple(train_out(train), BYTES("OK"));
    train->exchange->reply.close = true;
}

void resp_select(struct train *train, const struct resp_command *command)
{
    int64_t index;
    if (!resp_integer(command->items[1], &index))
        train_refuse_number(train);
    else if (index != 0)
        train_refuse(train, "ERR DB index is out of range");
    else
        resp_add_simple(train_out(train), BYTES("OK"));
}

void resp_time(struct train *train, const struct resp_command *command)
{
    struct buf *out = train_out(train);
    int64_t now_ms = clock_moment(train->lane->clock).now_ms;
    (void)command;
    resp_add_array(out, 2);
    resp_add_bulk_integer(out, now_ms / 1000);
    resp_add_bulk_integer(out, now_ms % 1000 * 1000);
}

/* redis-benchmark shows these two, and they say what is so: every reply is on disk. */
static const struct {
    struct bytes name, value;
} config_pairs[] = {{BYTES("save"), BYTES("")}, {BYTES("appendonly"), BYTES("yes")}};

static bool is_asked_for(const struct resp_command *command, struct bytes name)
{
    for (uint32_t i = 2; i < command->count; i++)
        if (bytes_equal_nocase(command->items[i], name) ||
            bytes_equal(command->items[i], BYTES("*")))
            return true;
    return false;
}

void resp_config(struct train *train, const struct resp_command *command)
{
    struct buf *out;
    unsigned count = 0;
    if (!bytes_equal_nocase(command->items[1], BYTES("GET"))) {
        train_refuse_subcommand(train, command->items[1]);
        return;
    }
    if (train_wrong_count(train, command, "config|get", 3, UINT32_MAX)) return;
    for (size_t i = 0; i < ARRAY_COUNT(config_pairs); i++)
        count += is_asked_for(command, config_pairs[i].name);
    out = train_out(train);
    resp_add_map(out, train->session->version, count);
    for (size_t i = 0; i < ARRAY_COUNT(config_pairs); i++) {
        if (!is_asked_for(command, config_pairs[i].name)) continue;
        resp_add_bulk(out, config_pairs[i].name);
        resp_add_bulk(out, config_pairs[i].value);
    }
}

/* -- COMMAND ----------------------------------------------------------------------------------- */

static void add_flags(struct buf *out, const struct resp_entry *entry, enum resp_version version)
{
    static const struct {
        unsigned flag;
        struct bytes name;
    } shown[] = {{RESP_WRITES, BYTES("write")},
                 {RESP_READS, BYTES("readonly")},
                 {RESP_FAST, BYTES("fast")},
                 {RESP_STRANGER, BYTES("no_auth")}};
    unsigned count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(shown); i++)
        count += (entry->flags & shown[i].flag) != 0;
    resp_add_set(out, version, count);
    for (size_t i = 0; i < ARRAY_COUNT(shown); i++)
        if (entry->flags & shown[i].flag) resp_add_simple(out, shown[i].name);
}

static void add_lower(struct buf *out, const char *name)
{
    char text[32];
    size_t size = strlen(name);
    must(size < sizeof text);
    for (size_t i = 0; i < size; i++)
        text[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    resp_add_bulk(out, bytes_of(text, size));
}

static void add_entry(struct buf *out, const struct resp_entry *entry, enum resp_version version)
{
    resp_add_array(out, 10);
    add_lower(out, entry->name);
    resp_add_integer(out, entry->arity);
    add_flags(out, entry, version);
    resp_add_integer(out, entry->first_key);
    resp_add_integer(out, entry->last_key);
    resp_add_integer(out, entry->key_step);
    resp_add_set(out, version, 0); /* categories */
    resp_add_array(out, 0);        /* tips */
    resp_add_array(out, 0);        /* key specifications */
    resp_add_array(out, 0);        /* subcommands */
}

static void add_docs(struct buf *out, const struct resp_entry *entry, enum resp_version version)
{
    add_lower(out, entry->name);
    resp_add_map(out, version, 3);
    resp_add_bulk(out, BYTES("summary"));
    resp_add_bulk(out, bytes_str(entry->summary));
    resp_add_bulk(out, BYTES("since"));
    resp_add_bulk(out, bytes_str(entry->since));
    resp_add_bulk(out, BYTES("group"));
    resp_add_bulk(out, bytes_str(entry->group));
}

/* Those named from the third argument on, or all. An unknown one is null in INFO and left out of
 * DOCS, as in Redis. */
static void command_docs(struct train *train, const struct resp_command *command)
{
    enum resp_version version = train->session->version;
    struct buf *out = train_out(train);
    unsigned known = 0;
    for (uint32_t i = 2; i < command->count; i++)
        known += resp_find(command->items[i]) < resp_entries_count();
    resp_add_map(out, version, command->count > 2 ? known : resp_entries_count());
    for (unsigned i = 0; command->count == 2 && i < resp_entries_count(); i++)
        add_docs(out, &resp_entries[i], version);
    for (uint32_t i = 2; i < command->count; i++) {
        unsigned index = resp_find(command->items[i]);
        if (index < resp_entries_count()) add_docs(out, &resp_entries[index], version);
    }
}

static void command_info(struct train *train, const struct resp_command *command)
{
    enum resp_version version = train->session->version;
    struct buf *out = train_out(train);
    bool all = command->count <= 2;
    resp_add_array(out, all ? resp_entries_count() : command->count - 2);
    for (unsigned i = 0; all && i < resp_entries_count(); i++)
        add_entry(out, &resp_entries[i], version);
    for (uint32_t i = 2; i < command->count; i++) {
        unsigned index = resp_find(command->items[i]);
        if (index < resp_entries_count())
            add_entry(out, &resp_entries[index], version);
        else
            resp_add_null(out, version);
    }
}

static void command_list(struct train *train)
{
    struct buf *out = train_out(train);
    resp_add_array(out, resp_entries_count());
    for (unsigned i = 0; i < resp_entries_count(); i++)
        add_lower(out, resp_entries[i].name);
}

void resp_command(struct train *train, const struct resp_command *command)
{
    struct bytes what = command->count > 1 ? command->items[1] : BYTES("INFO");
    if (bytes_equal_nocase(what, BYTES("INFO")))
        command_info(train, command);
    else if (bytes_equal_nocase(what, BYTES("DOCS")))
        command_docs(train, command);
    else if (bytes_equal_nocase(what, BYTES("COUNT")))
        resp_add_integer(train_out(train), resp_entries_count());
    else if (bytes_equal_nocase(what, BYTES("LIST")))
        command_list(train);
    else
        train_refuse_subcommand(train, what);
}
