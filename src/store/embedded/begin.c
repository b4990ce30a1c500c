/* begin.c -- see the header. */
#include "store/embedded/begin.h"

#include <errno.h>

#include "base/tree.h"
#include "store/embedded/journal/copy.h"
#include "store/embedded/state/records.h"
#include "store/embedded/state/state.h"

#define CACHE_BYTES (1u << 20)
#define FIRST_EPOCH 1u

static enum err put_position(struct state *state, const struct store_position *position)
{
    char room[48];
    struct buf value = {.data = room, .capacity = sizeof room, .max = sizeof room};
    struct state_batch *batch = state_batch_new(state);
    position_record(&value, position);
    must(!value.failed);
    state_batch_put(batch, STATE_META, META_APPLIED, buf_bytes(&value));
    enum err e = state_write(state, batch);
    if (e == ERR_OK) e = state_flush(state);
    state_batch_free(batch);
    return e;
}

static enum err begin_state(const char *dir, const struct store_position *position,
                            struct reason *why)
{
    char path[TREE_PATH_MAX];
    struct state *state;
    enum err e = tree_path(path, dir, "state");
    if (e == ERR_OK) e = tree_make(path);
    if (e != ERR_OK) return reason_err(why, e, "cannot make %s: %s.", path, strerror(errno));
    const struct state_config config = {.dir = path, .cache_bytes = CACHE_BYTES};
    e = state_open(&state, &config, why);
    if (e != ERR_OK) return e;
    e = put_position(state, position);
    if (e != ERR_OK) reason_say(why, "cannot write %s: %s.", path, state_error(state));
    state_close(state);
    return e;
}

static enum err begin_journal(const char *dir, uint64_t installation,
                              const struct store_position *position, struct reason *why)
{
    char path[TREE_PATH_MAX];
    struct journal_copy copy;
    enum err e = tree_path(path, dir, "journal");
    if (e == ERR_OK) e = tree_make(path);
    if (e != ERR_OK) return reason_err(why, e, "cannot make %s: %s.", path, strerror(errno));
    journal_copy_begin(&copy, path, installation, FIRST_EPOCH);
    e = journal_copy_end(&copy, position);
    if (e == ERR_OK) return ERR_OK;
    return reason_err(why, e, "cannot write %s: %s.", path, strerror(copy.error));
}

enum err begin_after(const char *dir, uint64_t installation, uint64_t last, struct reason *why_out)
{
    const struct store_position position = {
        .last_sequence = last, .next_series = SERIES_FIRST, .time_ms = INT64_MIN};
    enum err e = begin_state(dir, &position, why_out);
    return e == ERR_OK ? begin_journal(dir, installation, &position, why_out) : e;
}
