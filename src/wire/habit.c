/* habit.c -- remembers header lines together with what they came to. */
#include "wire/habit.h"

#include <stdlib.h>

struct habit {
    struct http_head head; /* as it was; its views are moved to where the lines are now */
    uint32_t size;         /* the lines', the empty one included */
    uint32_t capacity;
    char lines[];
};

static struct http_view moved(struct http_view view, uint32_t from, uint32_t to)
{
    if (view.at) view.at = view.at - from + to;
    return view;
}

/* The version matters: 1.0 reads some fields in another way. */
bool habit_recall(const struct habit *habit, struct http_head *head, const char *data, size_t size)
{
    uint32_t at = head->fields_at;
    const struct http_head *then = &habit->head;
    if (head->minor_zero != then->minor_zero) return false;
    if (size - at < habit->size || memcmp(data + at, habit->lines, habit->size) != 0) return false;
    head->seen = then->seen;
    head->chunked = then->chunked;
    head->expect_continue = then->expect_continue;
    head->close = then->close;
    head->keep_alive = then->keep_alive;
    head->coding = then->coding;
    head->accept_coding = then->accept_coding;
    head->content_length = then->content_length;
    head->authorization = moved(then->authorization, then->fields_at, at);
    head->content_type = moved(then->content_type, then->fields_at, at);
    head->idempotency_key = moved(then->idempotency_key, then->fields_at, at);
    head->accept = moved(then->accept, then->fields_at, at);
    head->line = head->scan = head->size = at + habit->size;
    head->recalled = true;
    return true;
}

void habit_learn(struct habit **habit, const struct http_head *head, const char *data)
{
    must(head->size > head->fields_at && head->fault == FAULT_NONE);
    uint32_t size = head->size - head->fields_at;
    if (size > HABIT_BYTES_MAX) return;
    if (!*habit || (*habit)->capacity < size) {
        *habit = must_realloc(*habit, sizeof **habit + size);
        (*habit)->capacity = size;
    }
    (*habit)->head = *head;
    (*habit)->size = size;
    memcpy((*habit)->lines, data + head->fields_at, size);
}
