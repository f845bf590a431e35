/* inputs.h: what of the input a worker has open: splits, each once and to the end, and objects of
 * splits, each while somebody trains or scores it and as long afterwards as there is room.
 * Opening may read all files: it runs in env_work, and whoever needs an input asks again when
 * on_change was called. Thread: the worker's loop. */
#ifndef WORKER_DATA_INPUTS_H
#define WORKER_DATA_INPUTS_H

#include "proto/base/limits.h"
#include "worker/data/dataset.h"
#include "worker/data/object.h"

#define INPUTS_IDLE 16u /* objects that nobody uses and that stay open */
#define INPUTS_NO_OBJECT UINT32_MAX

struct input; /* one of them */

struct inputs {
    struct env *env;       /* borrowed */
    const struct job *job; /* borrowed; not changed while something opens */
    void (*on_change)(void *context);
    void *context;
    struct input **input; /* owned (count) */
    uint32_t count, capacity;
    uint64_t uses; /* counts on with each */

    struct env_work list;
    bool listing;
    int list_status; /* 1: not asked for yet */
    uint32_t listed; /* which split */
    struct err list_error;
    struct dataset_listed got; /* owned: lines of all objects, once listed */
    struct nameset taken;      /* owned: of a log that grows: these are left out; not changed while
                                * it is listed */
    bool known;                /* of a log that grows: there was a list */
    char *profile; /* owned: of data.train (profile.h), as text; NULL: not yet, or there is none */
};

void inputs_init(struct inputs *s, struct env *env, const struct job *job,
                 void (*on_change)(void *context), void *context);
void inputs_close(struct inputs *s); /* nothing is opening */
bool inputs_busy(const struct inputs *s);
/* 0: open, *out is it, the caller's until inputs_release. AGAIN: it opens, on_change will be
 * called. Else why it cannot be opened, in *e; of an object the next call tries again. object:
 * INPUTS_NO_OBJECT for the whole split, else one of it, with its line. */
int inputs_open(struct inputs *s, uint32_t split, uint32_t object, const char *line,
                struct dataset **out, struct err *e);
/* Whoever waits has looked: what failed and was asked for by nobody is tried again when it is. */
void inputs_looked(struct inputs *s);
void inputs_release(struct inputs *s, const struct dataset *d); /* NULL is fine */
/* 0: `got` is there; else as inputs_open. */
int inputs_list(struct inputs *s, struct err *e);
/* Those of this split are to be listed anew. */
void inputs_relist(struct inputs *s, uint32_t split);

#endif
