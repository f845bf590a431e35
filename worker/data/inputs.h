/* inputs.h: the inputs that a worker has open: splits, each once and to the end, and objects of
 * splits, each while a lane trains or scores it and afterwards as long as there is room. Opening
 * may read all files, so it runs in env_work: a caller that got AGAIN asks again when on_change is
 * called. Thread: the worker's loop. */
#ifndef WORKER_DATA_INPUTS_H
#define WORKER_DATA_INPUTS_H

#include "proto/base/limits.h"
#include "worker/data/dataset.h"
#include "worker/data/object.h"

#define INPUTS_IDLE 16u /* objects without users that stay open */
#define INPUTS_NO_OBJECT UINT32_MAX

struct input; /* one of them */

struct inputs {
    struct env *env;       /* borrowed */
    const struct job *job; /* borrowed; not changed while an input opens */
    void (*on_change)(void *context);
    void *context;
    struct input **input; /* owned (count) */
    uint32_t count, capacity;
    uint64_t uses; /* counts requests */

    struct env_work list;
    bool listing;
    int list_status; /* 1: not requested yet */
    uint32_t listed; /* the split */
    struct err list_error;
    struct dataset_listed got; /* owned: lines of all objects, once listed */
    /* owned; growing log: names that are left out; not changed while it is listed */
    struct nameset taken;
    struct positions positions; /* owned; the same for the streams of a topic */
    bool known;                 /* growing log: there was a list */
    char *profile; /* owned; profile of data.train (profile.h) as text; NULL: there is none yet */
};

void inputs_init(struct inputs *s, struct env *env, const struct job *job,
                 void (*on_change)(void *context), void *context);
void inputs_close(struct inputs *s); /* only when nothing is opening */
bool inputs_busy(const struct inputs *s);
/* 0: *out is open, and the caller holds it until inputs_release. AGAIN: it is opening, and
 * on_change will be called. Otherwise *e says why it cannot be opened; the next call for an object
 * tries again. object: INPUTS_NO_OBJECT for the whole split, else an object with its line. */
int inputs_open(struct inputs *s, uint32_t split, uint32_t object, const char *line,
                struct dataset **out, struct err *e);
/* Called after all waiters asked again: an input that failed and was not asked for is retried at
 * the next request. */
void inputs_looked(struct inputs *s);
void inputs_release(struct inputs *s, const struct dataset *d); /* NULL is allowed */
/* 0: `got` is filled; else as inputs_open. */
int inputs_list(struct inputs *s, struct err *e);
/* Requests a new list of this split. */
void inputs_relist(struct inputs *s, uint32_t split);

#endif
