/* work.h: work that an engine sends to other threads through env_work, so that it can be awaited
 * and cancelled.
 *
 * A struct work is the first member of a malloc'ed block. run is called on another thread, then
 * done on the loop, once; then the block is freed. work_drain, for closing, cancels work that has
 * not begun (done is still called, with `cancelled` set) and waits for running work. work_settle,
 * for a caller that cannot continue beside it, runs one piece of work now if no other thread has
 * begun it, or waits for it; then calls done. */
#ifndef EMBEDDING_ENGINE_WORK_H
#define EMBEDDING_ENGINE_WORK_H

#include "proto/base/env.h"

#include <stdatomic.h>
#include <stdbool.h>

struct work_list {
    struct work *first;
};

struct work {
    struct env_work env;
    struct work_list *list;
    struct work *next;
    void (*run)(struct work *w);
    void (*done)(struct work *w);
    atomic_int state;
    bool cancelled;
};

void work_start(struct work_list *list, struct env *env, struct work *w);
void work_drain(struct work_list *list);
void work_settle(struct work *w);
/* Sleeps a few ms. On the other thread. */
void work_pause(void);

#endif
