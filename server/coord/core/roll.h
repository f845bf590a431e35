/* roll.h: the workers that have computed for a job, each with its device. */
#ifndef SERVER_COORD_CORE_ROLL_H
#define SERVER_COORD_CORE_ROLL_H

#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* The roll has each worker that joined the job, for the report: its backend, its device, and why
 * that device was taken. A worker that changes its backend has two entries. The roll is kept in
 * memory: after a restart of the coordinator it has the workers that joined since. Pure. */

#define COORD_ROLL_MAX 256u

/* The device of a worker, as the worker reported it when it joined. */
struct coord_compute {
    char backend[32], kernel[WIRE_KERNEL], device[WIRE_DEVICE], why[WIRE_WHY];
};

struct coord_roll {
    struct coord_roll_entry {
        char name[LIMIT_NAME];
        struct coord_compute by;
        uint32_t joined; /* times */
        bool broken;     /* the worker left because of its device, and has not come again */
    } * entry;           /* owned (count) */
    uint32_t count, capacity;
};

void coord_compute_of(const struct wire_WORKER_JOIN *join, struct coord_compute *out);
/* Sets "backend", "kernel", "device" and "why". */
void coord_compute_set(struct json *to, const struct coord_compute *by);

void coord_roll_close(struct coord_roll *r);
/* Notes that a worker has joined, unless the roll is full (COORD_ROLL_MAX) or memory is short.
 * True: the worker had left because of its device, and is back. */
bool coord_roll_note(struct coord_roll *r, const char *name, const struct coord_compute *by);
/* Notes that a worker leaves because of its device. True: the first time since it came. */
bool coord_roll_broken(struct coord_roll *r, const char *name);
/* [{"name", "backend", "kernel", "device", "why", "joined"}] */
struct json *coord_roll_json(const struct coord_roll *r);

#endif
