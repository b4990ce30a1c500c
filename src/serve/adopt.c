/* adopt.c -- see the header. */
#include "serve/adopt.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/object.h"
#include "rules/enact.h"

#define TEXT_MAX (16u << 20)

struct adopter {
    const struct lanes *lanes;
    pthread_mutex_t lock; /* guards everything below */
    struct rules *rules;  /* the node's own, held */
    struct buf text;      /* and as text */
};

struct adopter *adopter_new(const struct lanes *lanes, const struct config *config)
{
    struct adopter *adopter = must_calloc(1, sizeof *adopter);
    adopter->lanes = lanes;
    pthread_mutex_init(&adopter->lock, NULL);
    buf_init(&adopter->text, TEXT_MAX);
    adopter_own(adopter, config);
    return adopter;
}

void adopter_free(struct adopter *adopter)
{
    rules_release(adopter->rules);
    buf_release(&adopter->text);
    pthread_mutex_destroy(&adopter->lock);
    free(adopter);
}

void adopter_own(struct adopter *adopter, const struct config *config)
{
    pthread_mutex_lock(&adopter->lock);
    rules_release(adopter->rules);
    adopter->rules = rules_hold(config->rules);
    buf_reset(&adopter->text);
    config_write_rules(config, &adopter->text);
    pthread_mutex_unlock(&adopter->lock);
}

/* A store that holds no rules yet has none in force. */
static enum err read_text(const struct lane *lane, struct buf *text_out)
{
    struct arena arena;
    arena_init(&arena, 256);
    enum err e =
        view_object(&lane->store->view, object_key(&arena, OBJECT_META, META_RULES), text_out);
    arena_release(&arena);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static bool is_own(struct adopter *adopter, struct bytes text)
{
    pthread_mutex_lock(&adopter->lock);
    bool own = bytes_equal(buf_bytes(&adopter->text), text);
    pthread_mutex_unlock(&adopter->lock);
    return own;
}

/* The types are the own file's, whose memory the rules hold on to. */
static void keep_types(struct adopter *adopter, struct rules *rules)
{
    pthread_mutex_lock(&adopter->lock);
    const struct rules *own = adopter->rules;
    rules->types_closed = own->types_closed;
    rules->types_count = own->types_count;
    rules->types = NULL;
    if (own->types_count)
        rules->types = arena_alloc(&rules->arena, own->types_count * sizeof *rules->types);
    for (unsigned i = 0; i < own->types_count; i++)
        rules->types[i] = arena_copy(&rules->arena, own->types[i]);
    pthread_mutex_unlock(&adopter->lock);
}

static enum err parse(struct adopter *adopter, struct bytes text, struct rules **rules_out)
{
    struct config config;
    struct config_report report;
    config_report_init(&report);
    const struct config_source source = {.file = "the rules in force",
                                         .text = text.size ? text : BYTES("{}")};
    enum err e = config_load(&config, &source, &report);
    if (e == ERR_OK) {
        keep_types(adopter, config.rules);
        *rules_out = rules_hold(config.rules);
    } else {
        log_line(LOG_ERROR, "the rules in force cannot be understood",
                 LOG_KV("why", buf_bytes(&report.text)));
        e = ERR_CORRUPT;
    }
    config_report_release(&report);
    config_release(&config);
    return e;
}

/* Rules that nobody else has, to be filled in from the store. */
static enum err rules_of_text(struct adopter *adopter, struct bytes text, struct rules **rules_out)
{
    if (!is_own(adopter, text)) return parse(adopter, text, rules_out);
    pthread_mutex_lock(&adopter->lock);
    *rules_out = rules_for_lane(adopter->rules);
    pthread_mutex_unlock(&adopter->lock);
    return ERR_OK;
}

static enum err fill_and_adopt(const struct lane *lane, struct rules *rules, struct bytes text)
{
    struct enactment enactment;
    struct buf why;
    buf_init(&why, TEXT_MAX);
    enum err e = enact_plan(&enactment, lane->store, rules, text, &why);
    if (e == ERR_OK)
        rulebook_adopt(lane->rulebook, rules);
    else
        log_line(LOG_ERROR, "the rules in force cannot be taken over", LOG_KV("lane", lane->index),
                 LOG_KV("why", buf_bytes(&why)));
    enact_release(&enactment);
    buf_release(&why);
    return e == ERR_INVALID ? ERR_CORRUPT : e;
}

enum err adopter_adopt(struct adopter *adopter, unsigned index)
{
    const struct lane *lane = &adopter->lanes->items[index];
    struct rules *rules = NULL;
    struct buf text;
    buf_init(&text, TEXT_MAX);
    enum err e = read_text(lane, &text);
    bool own = e == ERR_OK && is_own(adopter, buf_bytes(&text));
    if (e == ERR_OK) e = rules_of_text(adopter, buf_bytes(&text), &rules);
    if (e == ERR_OK) e = fill_and_adopt(lane, rules, buf_bytes(&text));
    if (e == ERR_OK && text.size > 0)
        log_line(own ? LOG_DEBUG : LOG_WARN, "rules that are in force were taken over",
                 LOG_KV("lane", index), LOG_KV("ofThisFile", own));
    rules_release(rules);
    buf_release(&text);
    return e;
}

enum err adopter_is_old(struct adopter *adopter, bool *old_out)
{
    const struct lane *first = &adopter->lanes->items[0];
    struct arena arena;
    struct buf text, seen;
    arena_init(&arena, 256);
    buf_init(&text, TEXT_MAX);
    buf_init(&seen, 64);
    *old_out = false;
    enum err e = read_text(first, &text);
    if (e == ERR_OK && text.size > 0 && !is_own(adopter, buf_bytes(&text))) {
        pthread_mutex_lock(&adopter->lock);
        uint64_t digest = hash_checksum(buf_bytes(&adopter->text));
        pthread_mutex_unlock(&adopter->lock);
        e = view_object(&first->store->view, enact_ruled_key(&arena, digest), &seen);
        *old_out = e == ERR_OK;
        if (e == ERR_NOT_FOUND) e = ERR_OK;
    }
    buf_release(&seen);
    buf_release(&text);
    arena_release(&arena);
    return e;
}
