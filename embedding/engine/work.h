/* work.h: what an engine sends to other threads through env_work, so that it can be waited for and
 * called off.
 *
 * A struct work is the first member of something that malloc gave. run is called on another thread,
 * then done on the loop, once; then it is freed. work_drain, for closing: what has not begun is
 * called off (done is still called, with `cancelled` set), what runs is waited for. work_settle,
 * for whoever cannot go on beside it: one piece of work is run now if no other thread has begun it,
 * or waited for; then done. */
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
/* A few ms pass. On the other thread. */
void work_pause(void);

#endif
