/* naming.h: KEYS of a shard: keys are erased, blocked, allowed or reset, or their rows are evicted.
 * Pushes are settled first, and the change is journalled before the reply; a repeated request
 * changes nothing more. s->in holds the request, s->m its keys.
 *
 * Erasing and evicting rebuild every tablet that they touch, so many keys are taken in steps of
 * some tablets, each a record of its own; requests between two steps see a part of the change. The
 * first step is taken at once. One request at a time: another one is AGAIN. After a kill in
 * between, a repeated request does the rest. */
#ifndef SERVER_SHARD_NAMING_H
#define SERVER_SHARD_NAMING_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

#include <stdbool.h>

struct shard;

#define NAMING_OBJECT 128u
#define KEYS_STEP_ROWS 65536u /* rows in the tablets of a step, plus its keys: some 10 ms */

/* The latest requests that were answered: a late copy of one gets the same answer, and does not
 * undo what other requests have changed since. */
#define NAMING_DONE 16u
struct naming_done {
    peer_t peer;
    uint64_t id;
    struct wire_KEYS_reply reply;
};

struct naming {
    peer_t peer; /* gets the answer; 0: no request is under way */
    uint64_t id;
    uint32_t table, action;
    uint64_t *keys; /* owned; (count), in the order of their tablets */
    uint32_t count, next;
    uint64_t changed;
    uint32_t skipped; /* keys that the shard did not lead at their step */
    struct naming_done done[NAMING_DONE];
    uint32_t done_next;
    uint32_t step_rows;
    struct env_timer timer;
};

void naming_init(struct shard *s);
void naming_close(struct shard *s);
void naming_on_message(struct shard *s, peer_t from);
/* Another copy leads: the request under way is given up without an answer. */
void naming_stop(struct shard *s);
/* These tables go, and others may come in their place: a request under way that is
 * about one of them is refused. */
void naming_tables_gone(struct shard *s, struct table_set tables);

/* The object of a KEYS request for the audit log: "block 3 keys of emb". */
void naming_object(const struct shard *s, const struct wire_KEYS *r, char out[NAMING_OBJECT]);

/* BLAME, and the KEYS action SCRUB: BLAME finds the journal's records of a key, SCRUB removes
 * erased keys from the journal. The engine does both on I/O threads, one of them at a time; another
 * one is BUSY. Thread: the shard's. */

struct audit {
    peer_t peer; /* gets the answer; 0: no request is under way */
    uint64_t id;
    bool scrub; /* true: SCRUB, false: BLAME */
};

void naming_on_blame(struct shard *s, peer_t from);
/* Stops the search of a peer that is gone. */
void naming_peer_gone(struct shard *s, peer_t peer);

#endif
