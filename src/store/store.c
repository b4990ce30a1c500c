/* store.c -- what is the same for every store. */
#include "store/store.h"

#include "core/object.h"
#include "store/damage.h"

void store_init(struct store *store, const struct store_ops *ops, const struct writer_ops *writer,
                const struct view_ops *view)
{
    store->ops = ops;
    store->writer = (struct writer){.ops = writer, .store = store};
    store->view = (struct view){.ops = view, .store = store};
}

enum err store_number(struct store *store, struct bytes name, uint64_t *number_out)
{
    struct arena arena;
    struct buf value;
    arena_init(&arena, 256);
    buf_init(&value, 64);
    *number_out = 0;
    enum err e = view_object(&store->view, object_key(&arena, OBJECT_META, name), &value);
    if (e == ERR_OK && !object_number_decode(buf_bytes(&value), number_out)) {
        damage_say("a number", name, 1);
        e = ERR_CORRUPT;
    }
    buf_release(&value);
    arena_release(&arena);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}
