/* group.c -- several databases that are one installation: they are looked at together before
 * anything is changed in any of them.
 *
 * (1) Each schema says how many databases there are, which of them it is in, and has the secret and
 *     the number of the installation. What does not agree with the list is refused.
 * (2) A schema is made only where none of the databases has one, or where the first one says that
 *     the others are pending still: a start that died half way is completed by the next one. */
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/crash.h"
#include "store/postgres/internal.h"

struct member {
    struct database *database;
    struct link *link;
    struct schema_meta meta;
};

/* Names the database in what is wrong with it, where there are several. */
static enum err blame(const struct member *member, enum err e, struct reason *why)
{
    struct reason own = *why;
    if (member->database->config.databases == 1) return e;
    return reason_err(why, e, "database %u of the list%s%s%s: %s",
                      member->database->config.place + 1, member->database->server[0] ? " (" : "",
                      member->database->server, member->database->server[0] ? ")" : "", own.text);
}

/* Looks on a link of its own, because a pool that fails to open one says so in the log only. */
static enum err look(struct member *member, struct reason *why_out)
{
    struct database *database = member->database;
    const struct link_config config = {
        .dsn = database->dsn, .sql = &database->sql, .pooled = database->config.pooled};
    struct reason why;
    enum err e = link_open(&member->link, &config, &why);
    if (e != ERR_OK) {
        member->link = NULL;
        (void)reason_err(why_out, e, "cannot reach the database: %s", why.text);
        return blame(member, e, why_out);
    }
    link_server(member->link, database->server, sizeof database->server);
    e = schema_look(database, member->link, &member->meta, why_out);
    return e == ERR_OK ? e : blame(member, e, why_out);
}

/* -- Whether they belong together -------------------------------------------------------------- */

static enum err check_listed_once(const struct member *members, unsigned index,
                                  struct reason *why_out)
{
    for (unsigned i = 0; i < index; i++)
        if (strcmp(members[i].meta.server, members[index].meta.server) == 0)
            return reason_err(why_out, ERR_INVALID,
                              "store.postgres.dsn names one database twice, as entries %u and %u.",
                              i + 1, index + 1);
    return ERR_OK;
}

/* `known`: another member that has the schema, or NULL. */
static enum err check_member(const struct member *member, const struct member *known,
                             unsigned count, struct reason *why_out)
{
    const struct schema_meta *meta = &member->meta;
    const char *schema = member->database->config.schema;
    if (meta->databases != count)
        return reason_err(why_out, ERR_INVALID,
                          "the schema %s was made for %llu databases and store.postgres.dsn names "
                          "%u. The number is fixed at the first start; to move, use `tally export "
                          "--ids --events` and `tally import`.",
                          schema, (unsigned long long)meta->databases, count);
    if (known && (known->meta.installation != meta->installation ||
                  memcmp(&known->meta.secret, &meta->secret, sizeof meta->secret) != 0))
        return reason_err(why_out, ERR_INVALID, "the schema %s is of another installation.",
                          schema);
    if (meta->place != member->database->config.place)
        return reason_err(why_out, ERR_INVALID,
                          "the schema %s is the one of database %llu: the order of "
                          "store.postgres.dsn is fixed at the first start.",
                          schema, (unsigned long long)meta->place + 1);
    return ERR_OK;
}

static enum err check_missing(const struct member *member, const struct member *known,
                              const struct member *first, struct reason *why_out)
{
    if (!known || first->meta.pending) return ERR_OK;
    return reason_err(why_out, ERR_INVALID,
                      "there is no schema %s, and the other databases say that it was made here.",
                      member->database->config.schema);
}

static const struct member *find_known(const struct member *members, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (members[i].meta.exists) return &members[i];
    return NULL;
}

static enum err check_all(const struct member *members, unsigned count, struct reason *why_out)
{
    const struct member *known = find_known(members, count);
    enum err e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++) {
        const struct member *member = &members[i];
        e = check_listed_once(members, i, why_out);
        if (e == ERR_OK && member->database->beginning && member->meta.exists)
            e = reason_err(why_out, ERR_CONFLICT,
                           "the schema %s is there already; name another one with "
                           "store.postgres.schema",
                           member->database->config.schema);
        if (e != ERR_OK || member->database->beginning) continue;
        e = member->meta.exists ? check_member(member, known, count, why_out)
                                : check_missing(member, known, members, why_out);
        if (e != ERR_OK) e = blame(member, e, why_out);
    }
    return e;
}

/* -- Making them ------------------------------------------------------------------------------- */

static struct schema_founding found(const struct member *members, unsigned count)
{
    const struct member *known = members->database->beginning ? NULL : find_known(members, count);
    struct schema_founding founding = {.pending = count > 1};
    if (known) {
        founding.installation = known->meta.installation;
        founding.secret = known->meta.secret;
        return founding;
    }
    const struct postgres_beginning *beginning = members->database->beginning;
    must(RAND_bytes(founding.secret.bytes, sizeof founding.secret.bytes) == 1);
    if (beginning && beginning->secret) founding.secret = *beginning->secret;
    must(RAND_bytes((unsigned char *)&founding.installation, sizeof founding.installation) == 1);
    founding.installation |= 1;
    return founding;
}

/* Another node may do so at the same time: what it made first holds for the rest. */
static enum err make_all(struct member *members, unsigned count, struct reason *why_out)
{
    struct schema_founding founding = found(members, count);
    bool any = false;
    enum err e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++) {
        struct member *member = &members[i];
        if (member->meta.exists && !member->database->beginning) continue;
        any = true;
        e = schema_ensure(member->database, member->link, &founding, &member->meta, why_out);
        if (e == ERR_OK) e = check_member(member, i > 0 ? members : NULL, count, why_out);
        if (e != ERR_OK) return blame(member, e, why_out);
        founding = (struct schema_founding){.installation = member->meta.installation,
                                            .secret = member->meta.secret};
        crash_point("postgres.made_one");
    }
    bool pending = count > 1 && (any || members->meta.pending);
    return pending ? schema_settle(members->database, members->link, why_out) : ERR_OK;
}

enum err group_open(struct database **databases, unsigned count,
                    struct schema_migrated *migrated_out, struct reason *why_out)
{
    struct member *members = must_calloc(count, sizeof *members);
    enum err e = ERR_OK;
    for (unsigned i = 0; i < count; i++)
        members[i].database = databases[i];
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = look(&members[i], why_out);
    if (e == ERR_OK) e = check_all(members, count, why_out);
    if (e == ERR_OK) e = make_all(members, count, why_out);
    for (unsigned i = 0; i < count && e == ERR_OK; i++) {
        e = schema_take(databases[i], members[i].link, &members[i].meta,
                        migrated_out ? &migrated_out[i] : NULL, why_out);
        if (e != ERR_OK) e = blame(&members[i], e, why_out);
    }
    for (unsigned i = 0; i < count; i++)
        link_close(members[i].link);
    free(members);
    return e;
}
