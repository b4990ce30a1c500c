/* top.c -- the best few of many rows. */
#include "api/counters/top.h"

#include <stdlib.h>

void top_init(struct top *top, size_t limit, bool descending)
{
    must(limit >= 1);
    *top = (struct top){
        .rows = must_calloc(limit, sizeof *top->rows), .limit = limit, .descending = descending};
}

void top_release(struct top *top)
{
    for (size_t i = 0; i < top->count; i++)
        free((char *)top->rows[i].json.data);
    free(top->rows);
}

bool top_before(const struct top *top, const struct top_row *a, const struct top_row *b)
{
    if (a->net != b->net) return (a->net > b->net) == top->descending;
    return bytes_compare(a->json, b->json) < 0;
}

static void swap_rows(struct top_row *a, struct top_row *b)
{
    struct top_row row = *a;
    *a = *b;
    *b = row;
}

static void sift_up(struct top *top, size_t at)
{
    for (; at > 0; at = (at - 1) / 2) {
        struct top_row *parent = &top->rows[(at - 1) / 2];
        if (!top_before(top, parent, &top->rows[at])) return;
        swap_rows(parent, &top->rows[at]);
    }
}

static void sift_down(struct top *top, size_t at)
{
    for (;;) {
        size_t worst = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < top->count; child++)
            if (top_before(top, &top->rows[worst], &top->rows[child])) worst = child;
        if (worst == at) return;
        swap_rows(&top->rows[at], &top->rows[worst]);
        at = worst;
    }
}

static struct top_row copy_row(const struct top_row *row)
{
    struct top_row copy = *row;
    char *json = must_calloc(1, row->json.size + 1);
    memcpy(json, row->json.data, row->json.size);
    copy.json.data = json;
    return copy;
}

void top_offer(struct top *top, const struct top_row *row)
{
    top->offered++;
    if (top->count < top->limit) {
        top->rows[top->count] = copy_row(row);
        sift_up(top, top->count++);
    } else if (top_before(top, row, &top->rows[0])) {
        free((char *)top->rows[0].json.data);
        top->rows[0] = copy_row(row);
        sift_down(top, 0);
    }
}

static int compare_rows(const void *a, const void *b, void *context)
{
    if (top_before(context, a, b)) return -1;
    return top_before(context, b, a) ? 1 : 0;
}

void top_sort(struct top *top)
{
    qsort_r(top->rows, top->count, sizeof *top->rows, compare_rows, top);
}
