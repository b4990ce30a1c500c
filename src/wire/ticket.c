/* ticket.c -- the pool of tickets and the inbox through which they come back.
 *
 * The inbox is a stack that any thread pushes onto and its one loop empties at once. Going to
 * sleep and waking are ordered by sequentially consistent accesses on both sides:
 *
 *     loop     asleep = true, then reads `newest`: not empty means no sleep
 *     others   push to `newest`, then read `asleep`: true means a wake-up
 *
 * so at least one of the two sees the other. */
#include "wire/ticket.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define TICKET_POOL_COUNT_MAX 8192u
#define TICKET_BUF_BYTES_KEPT 1024u /* larger ones are freed when the ticket ends */
#define TICKET_ARENA_CHUNK 2048u
#define REPLY_HEADERS_BYTES_MAX (16u << 10)
#define REPLY_BODY_BYTES_MAX (256u << 20)

static struct ticket *ticket_new(void)
{
    struct ticket *ticket = must_calloc(1, sizeof *ticket);
    ticket->exchange.magic = TICKET_MAGIC;
    arena_init(&ticket->exchange.arena, TICKET_ARENA_CHUNK);
    buf_init(&ticket->exchange.reply.headers, REPLY_HEADERS_BYTES_MAX);
    buf_init(&ticket->exchange.reply.body, REPLY_BODY_BYTES_MAX);
    buf_init(&ticket->out, 2 * REPLY_HEADERS_BYTES_MAX);
    return ticket;
}

static void ticket_free(struct ticket *ticket)
{
    arena_release(&ticket->exchange.arena);
    buf_release(&ticket->exchange.reply.headers);
    buf_release(&ticket->exchange.reply.body);
    buf_release(&ticket->out);
    ticket->exchange.magic = 0;
    free(ticket);
}

struct ticket *ticket_take(struct ticket_pool *pool, struct inbox *inbox)
{
    struct ticket *ticket = pool->free;
    if (ticket) {
        pool->free = ticket->next;
        pool->count--;
        ticket->next = NULL;
    } else {
        ticket = ticket_new();
    }
    ticket->inbox = inbox;
    return ticket;
}

static void buf_shrink(struct buf *buf)
{
    if (buf->capacity > TICKET_BUF_BYTES_KEPT) buf_release(buf);
    buf_reset(buf);
}

/* Resets field by field: clearing the whole ticket costs more than everything else done here. */
static void ticket_reset(struct ticket *ticket)
{
    struct exchange *exchange = &ticket->exchange;
    exchange->reply.status = 0;
    exchange->reply.content_type = NULL;
    exchange->reply.close = exchange->reply.stream = false;
    exchange->reply.cache_control = NULL;
    exchange->reply.fixed = BYTES_NONE;
    buf_shrink(&exchange->reply.headers);
    buf_shrink(&exchange->reply.body);
    exchange->reply.body.max = REPLY_BODY_BYTES_MAX;
    arena_reset(&exchange->arena);
    exchange->barrier = false;
    exchange->state = NULL;
    exchange->slot = NULL;
    exchange->share = NULL;
    ticket->conn = NULL;
    ticket->state = TICKET_READING;
    ticket->seen = ticket->head_only = ticket->keep_alive_named = ticket->interim =
        ticket->rendered = ticket->streaming = false;
    ticket->orphaned = false;
    buf_shrink(&ticket->out);
}

void ticket_give(struct ticket_pool *pool, struct ticket *ticket)
{
    must(ticket->exchange.magic == TICKET_MAGIC);
    must(ticket->exchange.charged == 0);
    must(ticket->state != TICKET_KEPT || ticket->orphaned); /* or it may still be posted */
    if (pool->count >= TICKET_POOL_COUNT_MAX) {
        ticket_free(ticket);
        return;
    }
    ticket_reset(ticket);
    ticket->next = pool->free;
    pool->free = ticket;
    pool->count++;
}

void ticket_pool_release(struct ticket_pool *pool)
{
    while (pool->free) {
        struct ticket *next = pool->free->next;
        ticket_free(pool->free);
        pool->free = next;
    }
    pool->count = 0;
}

void inbox_init(struct inbox *inbox, int event_fd)
{
    atomic_init(&inbox->newest, NULL);
    atomic_init(&inbox->asleep, false);
    inbox->event_fd = event_fd;
}

void inbox_push(struct inbox *inbox, struct ticket *ticket)
{
    struct ticket *newest = atomic_load_explicit(&inbox->newest, memory_order_relaxed);
    do {
        ticket->posted_next = newest;
    } while (!atomic_compare_exchange_weak(&inbox->newest, &newest, ticket));
}

struct ticket *inbox_take(struct inbox *inbox)
{
    if (inbox_is_empty(inbox)) return NULL;
    struct ticket *newest = atomic_exchange(&inbox->newest, NULL);
    struct ticket *oldest = NULL;
    while (newest) {
        struct ticket *next = newest->posted_next;
        newest->posted_next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool inbox_is_empty(struct inbox *inbox)
{
    return atomic_load(&inbox->newest) == NULL;
}

/* The loop watches the eventfd edge-triggered and never reads it: each write is a new edge. */
void inbox_poke(struct inbox *inbox)
{
    const uint64_t one = 1;
    ssize_t wrote;
    do {
        wrote = write(inbox->event_fd, &one, sizeof one);
    } while (wrote < 0 && errno == EINTR);
    must(wrote == sizeof one);
}

void inbox_wake(struct inbox *inbox)
{
    if (inbox_is_empty(inbox)) return;
    if (atomic_load(&inbox->asleep) && atomic_exchange(&inbox->asleep, false)) inbox_poke(inbox);
}
