/* train.h -- the commands that one read of a socket brought, inside the API.
 *
 * A train's commands are looked at in order. Some are answered at once (PING); others are ops,
 * which travel to the commit thread together and take effect in order, reads among them too: a read
 * that stands behind a write, in this train or in one that is still under way, is an op in the
 * queue and sees it. Where nothing is written, reads are answered from memory or by a reader.
 *
 *     session   what a connection is: its token, tenant, protocol, name. One loop's own
 *     promise   one command whose reply is made when the ops are decided
 *     stretch   ops that are one bundle; a command that is all or nothing has a stretch of its own
 *
 * A command's function says what it wants through train_out (an answer at once) or train_op and
 * train_promise (an answer that is made later). */
#ifndef TALLY_API_RESP_TRAIN_H
#define TALLY_API_RESP_TRAIN_H

#include "api/call.h"
#include "wire/resp.h"

enum resp_flags {
    RESP_STRANGER = 1, /* may come before a token was shown */
    RESP_CUTS = 2,     /* may change the tenant: what stands before it is a train of its own */
    RESP_WRITES = 4,
    RESP_READS = 8,
    RESP_FAST = 16,
    RESP_ALONE = 64,    /* a train of its own, once all before it are answered */
    RESP_CONTROLS = 32, /* takes effect inside of MULTI at once */
    RESP_SINGLE = 128,  /* is not for MULTI */
};

struct session;
struct train;
struct promise;

struct resp_entry {
    const char *name;
    int arity;
    unsigned scope; /* bits of enum scope */
    unsigned flags; /* bits of enum resp_flags */
    int first_key, last_key, key_step;
    const char *group;
    const char *since;
    const char *summary;
    void (*run)(struct train *train, const struct resp_command *command);
};

extern const struct resp_entry resp_entries[];
unsigned resp_entries_count(void);
/* Where it is in the table, in any case of letters; resp_entries_count(): nowhere. */
unsigned resp_find(struct bytes name);

/* -- The session: session.c -------------------------------------------------------------------- */

#define SESSION_NAME_SIZE_MAX 255u

/* What MULTI has collected. */
struct multi {
    bool open;
    bool spoilt; /* a command was refused, so EXEC will be */
    unsigned count;
    struct buf commands; /* each as an array of strings */
};

struct session {
    uint64_t id;
    bool known; /* a token was shown; the rest up to `lane` is of it */
    struct identity identity;
    char *token; /* judged again after a reload */
    size_t token_size;
    uint64_t auth_generation;
    char tenant[NAME_SIZE_MAX];
    uint8_t tenant_size;
    struct lane *lane; /* the tenant's */
    enum resp_version version;
    char name[SESSION_NAME_SIZE_MAX];
    uint8_t name_size;
    struct multi multi;
    unsigned trains;   /* that are with the queue or a reader */
    bool reading;      /* one of them is with a reader; nothing else is then */
    unsigned commands; /* in them */
};

struct session *session_new(void);
void session_free(struct session *session);
/* Whether its token is still good; if not, it is forgotten. */
bool session_is_known(struct train *train);

static inline struct bytes session_tenant(const struct session *session)
{
    return bytes_of(session->tenant, session->tenant_size);
}

/* -- The train: train.c ------------------------------------------------------------------------ */

/* Writes the reply of a promise whose ops are decided. */
typedef void promise_fn(struct train *train, const struct promise *promise, struct buf *out);

struct promise {
    promise_fn *reply; /* NULL: the reply is a piece of the train's text */
    const struct resp_entry *entry;
    enum resp_version version;
    unsigned detail; /* the command's own */
    uint32_t first;  /* its ops; or where the piece begins */
    uint32_t count;  /* so many */
    uint32_t inside; /* EXEC's: so many promises that follow are its own */
};

struct stretch {
    uint32_t first;
    uint32_t count;
    bool atomic;
};

struct train {
    struct api *api;
    struct exchange *exchange;
    struct session *session;
    struct must_place place;
    struct lane *lane;              /* the session's, as `tenant` is; NULL: a stranger's */
    struct bytes tenant;            /* a copy: the session may go over to another one */
    const struct resp_entry *entry; /* the command at hand */
    unsigned done;                  /* commands before it */
    bool writes;
    bool weighty; /* an event is among its ops */
    bool inside;  /* EXEC is doing what was collected */
    bool failed;  /* ... and something of it was refused */
    bool waits;   /* the command at hand goes on once what is before it is answered */
    bool looked;  /* a read of it is answered */
    bool sealed;  /* what is answered at once from here on is not EXEC's */
    struct op *ops;
    uint32_t ops_count, ops_capacity;
    struct promise *promises;
    uint32_t promises_count, promises_capacity;
    struct stretch *stretches;
    uint32_t stretches_count, stretches_capacity;
    struct bundle *bundles; /* one for each stretch, once they are sent */
    atomic_uint left;       /* bundles that are not decided */
    struct buf text;        /* answers given at once behind a promise */
    struct rules *rules;
    struct wire_share *held;
    struct read_task task;
    bool (*work)(struct train *train); /* what a reader is to do, in parts: true is "more", */
    void *plan;                        /* and by what */
    enum err refused;                  /* it was not let */
};

/* Where the reply of a command goes that is answered at once. */
struct buf *train_out(struct train *train);

/* Another op on the direct counter of that name, without a duration. NULL after refusing a name
 * that is none. What it holds is zero but for kind and cell. */
struct op *train_op(struct train *train, enum op_kind kind, struct bytes name);
/* Another op, whose maker fills all of it. */
struct op *train_op_any(struct train *train);
/* The last `count` ops are the command's, and `reply` will answer it. `atomic`: all or nothing. */
void train_promise(struct train *train, promise_fn *reply, uint32_t count, bool atomic);
/* The same with the command's own `detail`. */
void train_promise_of(struct train *train, promise_fn *reply, unsigned detail, uint32_t count,
                      bool atomic);

/* Answers the command at hand with an error at once. The text begins with its code. */
void train_refuse(struct train *train, const char *text);
void train_refuse_err(struct train *train, enum err e);
void train_refuse_arity(struct train *train);

/* The name of the command at hand as Redis's messages have it, in small letters. */
#define TRAIN_NAME_SIZE 32
void train_say_name(const struct train *train, char name_out[static TRAIN_NAME_SIZE]);
void train_refuse_unknown(struct train *train, const struct resp_command *command);
void train_refuse_syntax(struct train *train);
void train_refuse_number(struct train *train);
/* -ERR unknown subcommand 'x'. Try NAME HELP. */
void train_refuse_subcommand(struct train *train, struct bytes name);
/* True, after refusing: the subcommand `name` takes `count` arguments, not that many. */
bool train_wrong_count(struct train *train, const struct resp_command *command, const char *name,
                       uint32_t least, uint32_t most);

/* What Redis's protocol says of an error. */
void train_add_err(struct buf *out, enum err e);

/* Whether rules keep the direct counter of that name, or did. */
bool train_is_managed(struct train *train, struct bytes name);

/* What a look at a counter without a duration shows. */
struct train_sight {
    enum err err;
    bool existed;
    int64_t net;
};

/* Reads that counter now, for a command that answers at once. False: it has to be an op, because
 * something before it is not answered or memory does not have it, or because the name is none. */
bool train_look(struct train *train, struct bytes name, struct train_sight *sight_out);

/* The train goes over to the session's tenant, who pays for it from now on. */
void train_take_share(struct train *train);

/* Another promise, which is the command's at hand. */
struct promise *train_promise_new(struct train *train);
/* The last `count` ops are a bundle of their own or, unless it is `atomic`, join the one before. */
void train_stretch(struct train *train, uint32_t count, bool atomic);

/* -- MULTI: multi.c ---------------------------------------------------------------------------- */

/* Collects a command, or refuses it. */
void multi_collect(struct train *train, const struct resp_command *command);
/* A command was refused: EXEC will be, too. */
void multi_spoil(struct session *session);
/* Nothing is collected any more. */
void multi_end(struct train *train);

/* An integer as Redis reads one: no sign but '-', no leading zero, nothing around it. */
bool resp_integer(struct bytes text, int64_t *value_out);

/* -- The commands ------------------------------------------------------------------------------ */

#define RESP_COMMAND(id, ...) \
    void resp_##id(struct train *train, const struct resp_command *command);
#include "api/resp/commands.def"
#undef RESP_COMMAND

#endif
