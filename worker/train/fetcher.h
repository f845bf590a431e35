/* fetcher.h: reads rows by key from the shards that lead their tablets (PULL without a lane),
 * several requests at a time, into the caller's arrays.
 *
 *   keys -sorted by tablet-> equal parts, each: the next stretch of tablets of one shard:
 *     sent --answered--> rows to their places, the next stretch
 *          --NOT_LEADER, or "later" (client_passing)--> sent again, by the newest map
 *          --another map (fetcher_remap)--> sent to the shard that leads them now
 *          --refused--> the fetcher ends with that error
 *
 * A key may be there several times; it is asked for once. The rows of one tablet are those of one
 * moment, those of two tablets of two. Thread: the loop's. */
#ifndef WORKER_TRAIN_FETCHER_H
#define WORKER_TRAIN_FETCHER_H

#include "proto/base/err.h"
#include "worker/train/client.h"

#include <stddef.h>
#include <stdint.h>

struct fetcher;

struct fetcher_options {
    struct client *client;             /* borrowed, and has a map */
    const struct table_schema *schema; /* borrowed; tablets as the client's map counts them */
    uint32_t number;                   /* of the table on the shards */
    const uint64_t *keys;              /* (count), borrowed */
    size_t count;                      /* below 2^32 */
    float *rows;                       /* (count, width): filled; zeros for an absent key */
    /* (count, state_floats): filled, zeros for an absent key; NULL: not wanted */
    float *state;
    uint32_t state_floats; /* of a row's optimizer, without statistics */
    uint8_t *found;        /* (count): 1 for a key with a row; NULL: not wanted */
    /* All is done, or it has failed. Called once, from the loop; the fetcher is freed later. */
    void (*done)(void *context, int status, const struct err *e);
    void *context;
};

/* NOMEM. */
int fetcher_new(const struct fetcher_options *options, struct fetcher **out, struct err *e);
void fetcher_free(struct fetcher *f); /* NULL is allowed; requests in flight are dropped */
void fetcher_start(struct fetcher *f);
/* The client has another map. */
void fetcher_remap(struct fetcher *f);

/* Keys whose rows are in the caller's arrays. */
uint64_t fetcher_taken(const struct fetcher *f);

#endif
