/* sim_heap.h: the simulator's events, in order of (time, number).
 *
 * An event is taken from the heap's memory, filled in and pushed; then it is popped or removed, and
 * given back. Running out of memory fails an assert. */
#ifndef TESTS_SIM_SIM_HEAP_H
#define TESTS_SIM_SIM_HEAP_H

#include "proto/base/env.h"

#include <stddef.h>
#include <stdint.h>

enum event_kind { EVENT_MESSAGE = 1, EVENT_GONE, EVENT_TIMER, EVENT_WORK, EVENT_KILL, EVENT_PROBE };

struct channel;
struct sim_node;

struct event {
    uint64_t at_ns, number;
    size_t place; /* index in the heap, which sets it */
    enum event_kind kind;
    struct sim_node *node;
    struct channel *channel; /* MESSAGE */
    peer_t from;             /* MESSAGE, GONE */
    struct msg *m;           /* owned */
    struct env_timer *timer;
    struct env_work *work;
    struct env_probe *probe;
    struct event *next_free;
};

struct event_heap {
    struct event **at; /* owned; at[0] is the next one */
    size_t count, capacity;
    uint64_t numbers;     /* given out so far */
    struct event *unused; /* owned */
};

/* Gives a numbered event that is not in the heap yet. */
struct event *heap_take(struct event_heap *h, enum event_kind kind, struct sim_node *node,
                        uint64_t at_ns);
void heap_give(struct event_heap *h, struct event *e);
void heap_push(struct event_heap *h, struct event *e);
void heap_remove(struct event_heap *h, struct event *e);
struct event *heap_pop(struct event_heap *h); /* the heap must not be empty */
/* Restores the order after the caller has kept only at[0..count), in any order. */
void heap_rebuild(struct event_heap *h, size_t count);
/* frees its memory; the caller has given back all events before */
void heap_close(struct event_heap *h);

#endif
