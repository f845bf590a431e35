/* sim_heap.c: a binary heap whose items have their index, so that any of them can be removed. */
#include "tests/sim/sim_heap.h"

#include "proto/base/assert.h"

#include <stdbool.h>
#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void place(struct event_heap *h, size_t i, struct event *e)
{
    h->at[i] = e;
    e->place = i;
}

static void sift_up(struct event_heap *h, struct event *e)
{
    size_t i = e->place;
    while (i > 0 && before(e, h->at[(i - 1) / 2])) {
        place(h, i, h->at[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(h, i, e);
}

static void sift_down(struct event_heap *h, struct event *e)
{
    size_t i = e->place;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < h->count && before(h->at[child + 1], h->at[child]))
            child++;
        if (child >= h->count || !before(h->at[child], e))
            break;
        place(h, i, h->at[child]);
        i = child;
    }
    place(h, i, e);
}

void heap_push(struct event_heap *h, struct event *e)
{
    if (h->count == h->capacity) {
        h->capacity = h->capacity == 0 ? 256 : h->capacity * 2;
        h->at = realloc(h->at, h->capacity * sizeof(struct event *));
        SHOAL_ASSERT(h->at != NULL);
    }
    e->place = h->count++;
    sift_up(h, e);
}

void heap_remove(struct event_heap *h, struct event *e)
{
    SHOAL_ASSERT(e->place < h->count && h->at[e->place] == e);
    struct event *last = h->at[--h->count];
    if (last == e)
        return;
    place(h, e->place, last);
    sift_up(h, last);
    sift_down(h, last);
}

struct event *heap_pop(struct event_heap *h)
{
    SHOAL_ASSERT(h->count > 0);
    struct event *e = h->at[0];
    heap_remove(h, e);
    return e;
}

void heap_rebuild(struct event_heap *h, size_t count)
{
    h->count = count;
    for (size_t i = 0; i < count; i++)
        h->at[i]->place = i;
    for (size_t i = count / 2; i-- > 0;)
        sift_down(h, h->at[i]);
}

struct event *heap_take(struct event_heap *h, enum event_kind kind, struct sim_node *node,
                        uint64_t at_ns)
{
    struct event *e = h->unused;
    if (e != NULL) {
        h->unused = e->next_free;
    } else {
        e = malloc(sizeof(*e));
        SHOAL_ASSERT(e != NULL);
    }
    *e = (struct event){.at_ns = at_ns, .number = ++h->numbers, .kind = kind, .node = node};
    return e;
}

void heap_give(struct event_heap *h, struct event *e)
{
    e->next_free = h->unused;
    h->unused = e;
}

void heap_close(struct event_heap *h)
{
    while (h->unused != NULL) {
        struct event *e = h->unused;
        h->unused = e->next_free;
        free(e);
    }
    free(h->at);
}
