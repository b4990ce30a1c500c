/* whole.c -- what whoever reads a store as a whole asks: lanes at one moment, cells of many series.
 */
#include "store/postgres/internal.h"

/* -- Cells of many series ---------------------------------------------------------------------- */

static enum err show_cells(const struct inquiry *inquiry, const PGresult *result, size_t count,
                           store_series_fn *visit, void *context)
{
    for (int row = 0; row < PQntuples(result); row++) {
        struct cell cell;
        int64_t index, bucket;
        if (!result_i64(result, row, 0, &index) || index < 1 || index > (int64_t)count ||
            !result_i64(result, row, 1, &bucket) || !row_cell(result, row, 2, &cell))
            return inquiry_corrupt(inquiry, "a cell");
        if (!visit(context, (size_t)index - 1, bucket, &cell)) return ERR_OK;
    }
    return ERR_OK;
}

enum err postgres_cells(struct view *view, const uint64_t *series, size_t count,
                        store_series_fn *visit, void *context)
{
    struct inquiry inquiry;
    PGresult *result;
    inquiry_begin(&inquiry, view);
    values_columns(&inquiry.values, "l");
    for (size_t i = 0; i < count; i++)
        row_i64(&inquiry.values, (int64_t)series[i]);
    enum err e = inquiry_ask(&inquiry, SQL_CELLS, &result);
    if (e == ERR_OK) e = show_cells(&inquiry, result, count, visit, context);
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

/* -- Lanes at one moment ----------------------------------------------------------------------- */

static enum err read_lane(struct view_lane *lane)
{
    struct inquiry inquiry;
    PGresult *result;
    int64_t sequence = 0;
    inquiry_begin(&inquiry, lane->view);
    enum err e = inquiry_ask(&inquiry, SQL_NEWEST, &result);
    if (e == ERR_OK && (PQntuples(result) != 1 || !result_i64(result, 0, 0, &sequence) ||
                        !result_i64(result, 0, 1, &lane->time_ms)))
        e = inquiry_corrupt(&inquiry, "the newest commit");
    lane->sequence = (uint64_t)sequence;
    PQclear(result);
    inquiry_end(&inquiry);
    return e;
}

enum err postgres_beside(struct view *moment, struct store *store, struct arena *arena,
                         struct view_lane *lane_out)
{
    const struct moment_view *own = CONTAINER_OF(moment, struct moment_view, view);
    if (LANE_STORE_OF(moment->store)->database != LANE_STORE_OF(store)->database)
        return ERR_NOT_FOUND;
    struct moment_view *other = arena_zalloc(arena, sizeof *other);
    *other = *own;
    other->view.store = store;
    *lane_out = (struct view_lane){.view = &other->view};
    return read_lane(lane_out);
}
