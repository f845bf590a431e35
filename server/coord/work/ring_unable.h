/* ring_unable.h: workers that give up their place in a ring again and again, since they lack memory
 * for it or do not reach another worker. Each time the ring stands still for a moment and goes on
 * without the worker, which joins again after a pause of up to half a minute
 * (worker/train/trainer.h). From the third time in a row on, the job's problems name it. Pure. */
#ifndef SERVER_COORD_WORK_RING_UNABLE_H
#define SERVER_COORD_WORK_RING_UNABLE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COORD_UNABLE_MOST 8u
#define COORD_UNABLE_TRIES 3u
/* An entry older than three of the longest pauses is over: the worker has not come again. */
#define COORD_UNABLE_NS UINT64_C(90000000000)

struct coord_unable {
    struct {
        char name[LIMIT_NAME], text[ERR_TEXT_MAX]; /* text: what the worker said last */
        uint32_t tries;                            /* in a row; 0: the place is free */
        uint64_t ns;                               /* time of the last try */
    } of[COORD_UNABLE_MOST];
};

/* The worker has given up its place. Takes the place of the oldest entry where all are used. */
void coord_unable_note(struct coord_unable *u, const char *name, const char *text, uint64_t now_ns);
/* The worker has made a step. */
void coord_unable_over(struct coord_unable *u, const char *name);
/* Writes the sentence on entry `at`, below COORD_UNABLE_MOST. False: nothing is to be told. */
bool coord_unable_text(const struct coord_unable *u, uint32_t at, uint64_t now_ns, char *text,
                       size_t bytes);

#endif
