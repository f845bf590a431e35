/* item.h: a piece of work that one worker has at a time, without a fence: the list of a log of
 * objects, the index of a split or of an object, a task of an evaluation. Lanes of training are
 * leased by fences (task.h).
 *
 *   free --coord_item_give--> given --reported, or coord_item_gone--> free
 *
 * An answer may be lost: a worker that asks again COORD_AGAIN_NS after it was given an item gets
 * the same item again. Pure. */
#ifndef SERVER_COORD_WORK_ITEM_H
#define SERVER_COORD_WORK_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#define COORD_AGAIN_NS UINT64_C(3000000000)

struct coord_item {
    uint64_t worker;   /* the worker that has it; 0: none */
    uint64_t given_ns; /* when it was given */
};

/* True: the worker may be given the item. */
static inline bool coord_item_free(const struct coord_item *i, uint64_t worker, uint64_t now_ns)
{
    return i->worker == 0 || (i->worker == worker && now_ns - i->given_ns > COORD_AGAIN_NS);
}

static inline void coord_item_give(struct coord_item *i, uint64_t worker, uint64_t now_ns)
{
    *i = (struct coord_item){worker, now_ns};
}

/* The worker is dead, or its work is taken away: its items are free. */
static inline void coord_item_gone(struct coord_item *i, uint64_t worker)
{
    if (i->worker == worker)
        i->worker = 0;
}

/* Returns how many objects of a log the worker has. holder: the worker that has each object, 0:
 * none. */
static inline uint32_t coord_item_holds(const uint64_t *holder, uint32_t objects, uint64_t worker)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < objects; i++)
        held += holder[i] == worker;
    return held;
}

#endif
