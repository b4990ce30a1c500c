/* chain.c -- see chain.h. */
#include "chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

void chain_init(struct chain *chain)
{
    memset(chain, 0, sizeof *chain);
    model_init(&chain->shown);
}

static void models_free(struct model **models, unsigned *count)
{
    while (*count)
        free(models[--*count]);
}

void chain_release(struct chain *chain)
{
    models_free(chain->pending, &chain->pending_count);
    models_free(chain->ghosts, &chain->ghosts_count);
}

static void models_add(struct model **models, unsigned *count, const struct model *model)
{
    must(*count < CHAIN_MAX);
    models[*count] = must_alloc(sizeof **models);
    model_copy(models[(*count)++], model);
}

void chain_copy(struct chain *to, const struct chain *from)
{
    chain_release(to);
    model_copy(&to->shown, &from->shown);
    for (unsigned i = 0; i < from->pending_count; i++)
        models_add(to->pending, &to->pending_count, from->pending[i]);
    for (unsigned i = 0; i < from->ghosts_count; i++)
        models_add(to->ghosts, &to->ghosts_count, from->ghosts[i]);
}

const struct model *chain_head(const struct chain *chain)
{
    return chain->pending_count ? chain->pending[chain->pending_count - 1] : &chain->shown;
}

struct model *chain_push(struct chain *chain)
{
    models_add(chain->pending, &chain->pending_count, chain_head(chain));
    return chain->pending[chain->pending_count - 1];
}

void chain_show_first(struct chain *chain)
{
    must(chain->pending_count > 0);
    model_copy(&chain->shown, chain->pending[0]);
    free(chain->pending[0]);
    chain->pending_count--;
    memmove(chain->pending, chain->pending + 1, chain->pending_count * sizeof chain->pending[0]);
}

void chain_show_all(struct chain *chain)
{
    while (chain->pending_count)
        chain_show_first(chain);
}

void chain_drop_pending(struct chain *chain)
{
    models_free(chain->pending, &chain->pending_count);
}

void chain_doubt_pending(struct chain *chain)
{
    must(chain->ghosts_count == 0);
    memcpy(chain->ghosts, chain->pending, sizeof chain->ghosts);
    chain->ghosts_count = chain->pending_count;
    chain->pending_count = 0;
}

void chain_lay_ghosts(struct chain *chain)
{
    models_free(chain->ghosts, &chain->ghosts_count);
}

bool chain_settle(struct chain *chain, uint64_t sequence)
{
    must(chain->pending_count == 0 || chain->ghosts_count == 0);
    if (chain->ghosts_count) {
        memcpy(chain->pending, chain->ghosts, sizeof chain->pending);
        chain->pending_count = chain->ghosts_count;
        chain->ghosts_count = 0;
    }
    while (chain->pending_count && chain->shown.sequence != sequence)
        chain_show_first(chain);
    chain_drop_pending(chain);
    return chain->shown.sequence == sequence;
}
