/* loop.c -- the turn of a loop thread, and starting and stopping all of them.
 *
 * Replies are written at the end of a turn, after `turn_end` and after a second look into the
 * inbox: so what the handler posts there from the loop thread itself leaves in the same turn, and
 * a connection's replies leave together. */
#include "wire/loop.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wire/conn.h"
#include "wire/acceptor.h"

#define MS INT64_C(1000000)
#define LOOP_EVENTS 256
#define LOOP_SWEEP_MS_MAX 1000
#define LOOP_SWEEP_MS_MIN 5
#define LOOP_SWEEP_STOPPING_MS 20

void worker_push(struct worker *worker, enum worker_queue queue, struct conn *conn)
{
    if (conn->queued[queue]) return;
    struct conn_list *list = &worker->queues[queue];
    conn->queued[queue] = true;
    conn->queue_next[queue] = NULL;
    if (list->last)
        list->last->queue_next[queue] = conn;
    else
        list->first = conn;
    list->last = conn;
}

/* The list is taken off first: what `each` puts back waits for the next time. */
void worker_drain(struct worker *worker, enum worker_queue queue, void (*each)(struct conn *conn))
{
    struct conn *conn = worker->queues[queue].first;
    worker->queues[queue] = (struct conn_list){0};
    while (conn) {
        struct conn *next = conn->queue_next[queue];
        conn->queued[queue] = false;
        each(conn);
        conn = next;
    }
}

static bool worker_complete(struct worker *worker)
{
    struct ticket *ticket = inbox_take(&worker->inbox);
    bool any = ticket != NULL;
    while (ticket) {
        struct ticket *next = ticket->posted_next;
        if (!ticket->streaming) worker->kept--; /* streams are kept most of the time */
        conn_completed(ticket);
        ticket = next;
    }
    return any;
}

/* The sweep runs often enough that no timeout is late by more than a quarter. */
static int64_t sweep_ms(const struct worker *worker)
{
    const struct wire_config *config = &worker->wire->config;
    if (worker->stopping) return LOOP_SWEEP_STOPPING_MS;
    int64_t least = config->idle_ms < config->request_ms ? config->idle_ms : config->request_ms;
    if (config->write_ms < least) least = config->write_ms;
    if (least / 4 > LOOP_SWEEP_MS_MAX) return LOOP_SWEEP_MS_MAX;
    return least / 4 < LOOP_SWEEP_MS_MIN ? LOOP_SWEEP_MS_MIN : least / 4;
}

static void worker_each_open(struct worker *worker, void (*each)(struct conn *conn))
{
    struct conn *conn = worker->open;
    while (conn) {
        struct conn *next = conn->open_next;
        each(conn);
        conn = next;
    }
}

/* One look at every connection, about once a second, costs less than keeping timers in order for
 * every request: 10,000 connections take about a millisecond. */
static void worker_sweep(struct worker *worker)
{
    if (worker->now_ns < worker->sweep_ns) return;
    worker->sweep_ns = worker->now_ns + sweep_ms(worker) * MS;
    worker_each_open(worker, conn_check_time);
    if (worker->index == 0 && !worker->stopping) acceptor_watch_all(worker->wire);
}

static int worker_timeout_ms(struct worker *worker)
{
    if (worker->queues[QUEUE_WORK].first || worker->queues[QUEUE_FLUSH].first) return 0;
    int64_t until_ns = worker->sweep_ns;
    if (worker->queues[QUEUE_RETRY].first && worker->retry_ns < until_ns)
        until_ns = worker->retry_ns;
    int64_t left_ms = (until_ns - worker->now_ns + MS - 1) / MS;
    return left_ms < 0 ? 0 : (int)left_ms;
}

/* With a few exchanges under way their answers are near. The loop gives its core to any thread that
 * wants it while it looks. */
static int worker_look(struct worker *worker, struct epoll_event *events)
{
    if (worker->kept == 0) return 0;
    int64_t now_ns = clock_mono_ns(&clock_system);
    int64_t until_ns = look_until_ns(&worker->look, worker->kept, now_ns);
    int count = 0;
    while (count == 0 && inbox_is_empty(&worker->inbox) && now_ns < until_ns) {
        sched_yield();
        count = epoll_wait(worker->epoll_fd, events, LOOP_EVENTS, 0);
        now_ns = clock_mono_ns(&clock_system);
    }
    return count < 0 ? 0 : count;
}

static int worker_sleep(struct worker *worker, struct epoll_event *events, int timeout_ms)
{
    atomic_store(&worker->inbox.asleep, true);
    if (!inbox_is_empty(&worker->inbox)) timeout_ms = 0;
    int count = epoll_wait(worker->epoll_fd, events, LOOP_EVENTS, timeout_ms);
    atomic_store_explicit(&worker->inbox.asleep, false, memory_order_relaxed);
    must(count >= 0 || errno == EINTR);
    return count;
}

static int worker_wait(struct worker *worker, struct epoll_event *events)
{
    int timeout_ms = worker_timeout_ms(worker);
    int count = timeout_ms > 0 ? worker_look(worker, events)
                               : epoll_wait(worker->epoll_fd, events, LOOP_EVENTS, 0);
    if (count == 0 && timeout_ms > 0) count = worker_sleep(worker, events, timeout_ms);
    worker->now_ns = clock_mono_ns(&clock_system);
    return count;
}

/* The listener that an event is of, or NULL: a connection's. */
static struct wire_listener *listener_of(struct wire *wire, void *source)
{
    for (unsigned i = 0; i < WIRE_PROTOCOLS; i++)
        if (source == &wire->listeners[i]) return &wire->listeners[i];
    return NULL;
}

static void worker_events(struct worker *worker, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        void *source = events[i].data.ptr;
        if (source == &worker->inbox) continue; /* it is looked into in every turn */
        struct wire_listener *listener = listener_of(worker->wire, source);
        if (listener)
            acceptor_accept(listener);
        else
            conn_event(source, events[i].events);
    }
}

static void conn_retry(struct conn *conn)
{
    worker_push(conn->worker, QUEUE_WORK, conn);
}

static void worker_retry(struct worker *worker, bool completed)
{
    if (!worker->queues[QUEUE_RETRY].first) return;
    if (!completed && worker->now_ns < worker->retry_ns) return;
    worker->retry_ns = worker->now_ns + worker->wire->config.retry_ms * MS;
    worker_drain(worker, QUEUE_RETRY, conn_retry);
}

static void worker_turn(struct worker *worker)
{
    const struct wire_handler *handler = &worker->wire->listeners[WIRE_HTTP].handler;
    struct epoll_event events[LOOP_EVENTS];
    int count = worker_wait(worker, events);
    worker_events(worker, events, count);
    acceptor_arrivals(worker);
    bool completed = worker_complete(worker);
    worker_retry(worker, completed);
    worker_drain(worker, QUEUE_WORK, conn_work);
    if (handler->turn_end) handler->turn_end(handler->context, worker->index);
    if (worker_complete(worker)) worker->retry_ns = 0; /* there may be room now: no wait */
    reply_date_update(&worker->date, worker->now_ns);
    if (worker->queues[QUEUE_FLUSH].first) worker->sent_ns = clock_mono_ns(&clock_system);
    worker_drain(worker, QUEUE_FLUSH, conn_flush);
    worker_sweep(worker);
    worker_drain(worker, QUEUE_DEAD, conn_reap);
}

static void worker_stop(struct worker *worker)
{
    worker->stopping = true;
    worker->sweep_ns = 0;
    if (worker->index == 0) acceptor_close(worker->wire);
    worker_each_open(worker, conn_stop);
}

void wire_run(struct wire *wire, unsigned index)
{
    must(index < wire->workers_count);
    struct worker *worker = &wire->workers[index];
    worker->now_ns = clock_mono_ns(&clock_system);
    if (index == 0) acceptor_watch_all(wire);
    while (!atomic_load(&wire->stop))
        worker_turn(worker);

    worker_stop(worker);
    while (worker->conns_count && worker->now_ns < atomic_load(&wire->stop_deadline_ns)) {
        worker_turn(worker);
        worker_each_open(worker, conn_stop); /* those that arrived meanwhile */
    }
    worker_each_open(worker, conn_close);
    worker_drain(worker, QUEUE_DEAD, conn_reap);
}

void wire_wake(struct wire *wire)
{
    for (unsigned i = 0; i < wire->workers_count; i++)
        inbox_wake(&wire->workers[i].inbox);
}

void wire_stop(struct wire *wire, int64_t grace_ms)
{
    atomic_store(&wire->stop_deadline_ns, clock_mono_ns(&clock_system) + grace_ms * MS);
    atomic_store(&wire->stop, true);
    for (unsigned i = 0; i < wire->workers_count; i++)
        inbox_poke(&wire->workers[i].inbox);
}

unsigned wire_port(const struct wire *wire, enum wire_protocol protocol)
{
    return wire->listeners[protocol].port;
}

void wire_stats(const struct wire *wire, struct wire_stats *stats_out)
{
    *stats_out = (struct wire_stats){.connections_open = atomic_load(&wire->conns_count),
                                     .bytes_held = atomic_load(&wire->budget.all.bytes)};
    for (unsigned i = 0; i < wire->workers_count; i++) {
        const struct worker_stats *stats = &wire->workers[i].stats;
        stats_out->connections_total += atomic_load(&stats->connections_total);
        stats_out->requests_total += atomic_load(&stats->requests_total);
        stats_out->bytes_in += atomic_load(&stats->bytes_in);
        stats_out->bytes_out += atomic_load(&stats->bytes_out);
    }
}

static bool worker_open(struct wire *wire, unsigned index)
{
    struct worker *worker = &wire->workers[index];
    worker->wire = wire;
    worker->index = index;
    worker->look.limits = wire->config.look;
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    inbox_init(&worker->inbox, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    input_pool_init(&worker->inputs, &wire->budget);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &worker->inbox};
    return worker->epoll_fd >= 0 && worker->inbox.event_fd >= 0 &&
           epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->inbox.event_fd, &event) == 0;
}

/* A connection may still be on its way here, if the loops stopped one after the other; and tickets
 * posted after the grace may be in the inbox. */
static void worker_release(struct worker *worker)
{
    acceptor_arrivals(worker);
    worker_each_open(worker, conn_close);
    worker_complete(worker);
    while (worker->queues[QUEUE_DEAD].first) {
        for (int queue = 0; queue < QUEUE_DEAD; queue++)
            worker_drain(worker, (enum worker_queue)queue, conn_work);
        worker_drain(worker, QUEUE_DEAD, conn_reap);
    }
    must(!worker->open && worker->conns_count == 0);
    ticket_pool_release(&worker->tickets);
    input_pool_release(&worker->inputs);
    unpacker_release(&worker->unpacker);
    if (worker->epoll_fd >= 0) close(worker->epoll_fd);
    if (worker->inbox.event_fd >= 0) close(worker->inbox.event_fd);
}

void wire_free(struct wire *wire)
{
    if (!wire) return;
    acceptor_close(wire);
    for (unsigned i = 0; i < wire->workers_count; i++)
        worker_release(&wire->workers[i]);
    budget_check_idle(&wire->budget);
    free(wire->workers);
    free(wire);
}

enum err wire_open(struct wire **wire_out, const struct wire_config *config,
                   const struct wire_handler *handler, char *error_out, size_t error_size)
{
    must(config->loops > 0 && config->pipeline_max > 0);
    struct wire *wire = must_calloc(1, sizeof *wire);
    wire->config = *config;
    wire->budget.bytes_max = config->buffers_bytes_max;
    acceptor_init(wire, handler);
    enum err e = acceptor_open(wire, error_out, error_size);
    size_t workers_size = config->loops * sizeof *wire->workers;
    if (e == ERR_OK) wire->workers = aligned_alloc(_Alignof(struct worker), workers_size);
    if (wire->workers) memset(wire->workers, 0, workers_size);
    for (; e == ERR_OK && wire->workers_count < config->loops; wire->workers_count++) {
        must(wire->workers != NULL);
        if (worker_open(wire, wire->workers_count)) continue;
        snprintf(error_out, error_size, "cannot make an epoll loop: %s", strerror(errno));
        e = ERR_INTERNAL;
    }
    wire->config.address = wire->config.resp.address = NULL;
    wire->config.resp.handler = NULL;
    if (e != ERR_OK) {
        wire_free(wire);
        wire = NULL;
    }
    *wire_out = wire;
    return e;
}
