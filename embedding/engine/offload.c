/* offload.c: work on other threads: counts and cancels it. */
#include "embedding/engine/offload.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"

#include <stdlib.h>
#include <time.h>

enum { WORK_QUEUED, WORK_RUNNING, WORK_FINISHED, WORK_CANCELLED };

/* Work whose engine is gone and whose done is still due. It stays reachable, because done never
 * comes if the loop stops first. */
static _Thread_local struct offload_list orphans;

static void unlink_from(struct offload_list *list, struct offload *w)
{
    struct offload **at = &list->first;
    while (*at != w) {
        SHOAL_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = w->next;
}

static void push_to(struct offload_list *list, struct offload *w)
{
    w->next = list->first;
    list->first = w;
    w->list = list;
}

static void run_cb(struct env_work *env)
{
    struct offload *w = container_of(env, struct offload, env);
    int queued = WORK_QUEUED;
    if (!atomic_compare_exchange_strong(&w->state, &queued, WORK_RUNNING))
        return;
    w->run(w);
    atomic_store(&w->state, WORK_FINISHED);
}

static void done_cb(struct env_work *env)
{
    struct offload *w = container_of(env, struct offload, env);
    bool orphan = w->list == &orphans;
    SHOAL_ASSERT(atomic_load(&w->state) >= WORK_FINISHED); /* the loop calls done after run */
    unlink_from(w->list, w);
    if (!orphan)
        w->done(w);
    free(w);
}

void offload_start(struct offload_list *list, struct env *env, struct offload *w)
{
    w->env.run = run_cb;
    w->env.done = done_cb;
    w->cancelled = false;
    atomic_init(&w->state, WORK_QUEUED);
    push_to(list, w);
    env_work_start(env, &w->env);
}

/* Waits for run or cancels it, and calls done now; the loop's later call does nothing. */
static void settle(struct offload *w)
{
    SHOAL_ASSERT(w->list != &orphans); /* its done was called */
    while (!w->cancelled && atomic_load(&w->state) != WORK_FINISHED)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    SHOAL_ASSERT(atomic_load(&w->state) == (w->cancelled ? WORK_CANCELLED : WORK_FINISHED));
    unlink_from(w->list, w);
    push_to(&orphans, w);
    w->done(w);
}

void offload_settle(struct offload *w)
{
    SHOAL_ASSERT(!w->cancelled);
    run_cb(&w->env); /* does nothing if another thread has begun it */
    settle(w);
}

void offload_drain(struct offload_list *list)
{
    while (list->first != NULL) {
        struct offload *w = list->first;
        int queued = WORK_QUEUED;
        w->cancelled = atomic_compare_exchange_strong(&w->state, &queued, WORK_CANCELLED);
        settle(w);
    }
}

void offload_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}
