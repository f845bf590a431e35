/* offload.h: work that an engine sends to other threads through env_work, so that it can be awaited
 * and cancelled.
 *
 * A struct offload is the first member of a malloc'ed block. run is called on another thread, then
 * done on the loop, once; then the block is freed. offload_drain, for closing, cancels work that
 * has not begun (done is still called, with `cancelled` set) and waits for running work.
 * offload_settle, for a caller that cannot continue beside it, runs one piece of work now if no
 * other thread has begun it, or waits for it; then calls done. */
#ifndef EMBEDDING_ENGINE_OFFLOAD_H
#define EMBEDDING_ENGINE_OFFLOAD_H

#include "proto/base/env.h"

#include <stdatomic.h>
#include <stdbool.h>

struct offload_list {
    struct offload *first;
};

struct offload {
    struct env_work env;
    struct offload_list *list;
    struct offload *next;
    void (*run)(struct offload *w);
    void (*done)(struct offload *w);
    atomic_int state;
    bool cancelled;
};

void offload_start(struct offload_list *list, struct env *env, struct offload *w);
void offload_drain(struct offload_list *list);
void offload_settle(struct offload *w);
/* Sleeps a few ms. On the other thread. */
void offload_pause(void);

#endif
