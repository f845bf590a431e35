/* roll.h: which workers have computed for a job, and by what. */
#ifndef SERVER_COORD_ROLL_H
#define SERVER_COORD_ROLL_H

#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* The roll has each worker that joined the job, with its
 * backend, its device and why that was taken, for the report. A worker that goes on by another
 * backend stands there twice. Kept in memory: of a coordinator that was started again it has those
 * that joined since. Pure. */

#define COORD_ROLL_MAX 256u

/* The device of a worker, as the worker told it when it joined. */
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
/* backend, kernel, device, why. */
void coord_compute_set(struct json *to, const struct coord_compute *by);

void coord_roll_close(struct coord_roll *r);
/* A worker has joined. Past COORD_ROLL_MAX of them, or without memory, it is not noted. True: it
 * had left because of its device, and is back. */
bool coord_roll_note(struct coord_roll *r, const char *name, const struct coord_compute *by);
/* A worker leaves because of its device. True: for the first time since it came. */
bool coord_roll_broken(struct coord_roll *r, const char *name);
/* [{"name", "backend", "kernel", "device", "why", "joined"}] */
struct json *coord_roll_json(const struct coord_roll *r);

#endif
