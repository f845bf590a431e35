/* split.h: the splits of the input (train, valid, test) as a worker has them open. Opening may read
 * all files: it runs in env_work, and whoever needs a split asks again when on_change was called.
 *
 * Thread: the worker's loop. */
#ifndef WORKER_DATA_SPLIT_H
#define WORKER_DATA_SPLIT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "worker/data/dataset.h"

#include <stdbool.h>
#include <stdint.h>

#define SPLIT_COUNT 3u

struct split_set;

struct split {
    struct split_set *set;
    struct dataset *data; /* owned; NULL while not open */
    bool opening;
    int status; /* of the last opening */
    struct err error;
    struct env_work work;
};

struct split_set {
    struct env *env;       /* borrowed */
    const struct job *job; /* borrowed; not changed while something opens */
    void (*on_change)(void *context);
    void *context;
    struct split split[SPLIT_COUNT];
};

void split_init(struct split_set *s, struct env *env, const struct job *job,
                void (*on_change)(void *context), void *context);
void split_close(struct split_set *s); /* nothing is opening */
bool split_busy(const struct split_set *s);
/* 0: open, *out is it (borrowed, until split_close). AGAIN: being opened, on_change will be called.
 * Else why it cannot be opened, in *e. */
int split_open(struct split_set *s, uint32_t split, struct dataset **out, struct err *e);

#endif
