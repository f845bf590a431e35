/* embedding_thin.h: an engine whose memory is a third of its rows: table 0 with 64 tablets of wide
 * rows, batches of many keys made from their numbers. Checks its own steps with Check. */
#ifndef TESTS_LIB_EMBEDDING_THIN_H
#define TESTS_LIB_EMBEDDING_THIN_H

#include "tests/lib/embedding_rig.h"

#define THIN_WIDTH 16u
#define THIN_BITS 6u
#define THIN_KEYS 2048u   /* keys of a batch */
#define THIN_SPAN 120000u /* all keys: 17 MB of rows when each has a row */
#define THIN_MEMORY (6ull << 20)
#define THIN_MOST (THIN_MEMORY + 2 * (2ull << 20)) /* the arena's chunks are of 2 MiB */

struct thin_batch {
    struct push_record record;
    uint64_t keys[THIN_KEYS];
    float gradients[THIN_KEYS * (THIN_WIDTH + 2)];
};

struct table_schema thin_schema(bool ages);
/* Makes a batch: most of its keys are frequent, some come from the whole span. A batch advances
 * event time by two hours. */
void thin_batch_make(struct thin_batch *b, uint64_t run, uint64_t to, bool ages);
/* Opens an engine in dir, which is made if it is missing; memory 0: no limit. */
void thin_open(struct rig *s, const char *dir, uint64_t memory);
/* Makes the table and run 1; lane 0 is live with generation 1. */
void thin_begin(struct rig *s, bool ages);
/* The same for a run that a restore or a load has opened. */
void thin_fence(struct rig *s, uint64_t run);
/* Pushes batches (from, to] of lane 0, each once its rows are in memory and there is room; work
 * lags behind. Returns the most memory that the engine took meanwhile. */
uint64_t thin_train(struct rig *s, uint64_t run, uint64_t from, uint64_t to, bool ages);
/* Opens an engine, begins run 1 and pushes its batches up to `to`. */
void thin_open_trained(struct rig *s, const char *dir, uint64_t memory, uint64_t to, bool ages);
/* Returns a hash over the digests of all whole tablets; no row moves to memory. */
uint64_t thin_digest(struct rig *s);
/* Returns that hash after `batches` batches in an engine without a limit, where no row is cold. */
uint64_t thin_digest_without_bound(uint64_t batches, bool ages);
/* Makes a cut, with all its work. */
void thin_cut(struct rig *s, uint64_t cut);
void thin_restore(struct rig *s, uint64_t cut, uint64_t run);
/* Checks that the memory of the tables, now and at most since the engine was opened, is within
 * `most`. */
void thin_within(struct rig *s, uint64_t most);

/* Counts in the store: pairs of rows, those with an epoch other than their tablet's, images of
 * tablets, and pairs of one key. */
struct thin_stored {
    uint64_t pairs, stale_pairs, images, of_key;
};
struct thin_stored thin_stored(struct rig *s, uint64_t key);

#endif
