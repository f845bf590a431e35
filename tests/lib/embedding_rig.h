/* embedding_rig.h: a shard's engine for tests: folders, tables, pushes made from numbers, digests.
 * Checks its own steps with Check. */
#ifndef TESTS_LIB_EMBEDDING_RIG_H
#define TESTS_LIB_EMBEDDING_RIG_H

#include "embedding/engine.h"
#include "tests/lib/embedding_env.h"
#include "tests/lib/rig_dir.h"

#define SHARD_WIDTH 4u
#define SHARD_KEYS 512u
#define SHARD_TABLET_BITS 4u

struct rig {
    struct embedding_env env;
    struct engine_options options;
    struct engine *g;
    unsigned synced, fetched, recovered, fatal;
    struct err fatal_err;
};

/* true: engines that are opened from now on come back in steps. rig_open still waits until all
 * tablets are back. */
extern bool rig_in_steps;
void rig_come_back(struct rig *s);
/* journal: 8 MiB with segments of 1 MiB. dir may be NULL. */
void rig_open(struct rig *s, const char *dir, enum durability durability);
int rig_try_open(struct rig *s, const char *dir, enum durability durability, struct err *e);
int rig_try_open_sized(struct rig *s, const char *dir, enum durability durability,
                       uint64_t journal_max, struct err *e);
/* The callbacks are the rig's. */
int rig_try_open_with(struct rig *s, const struct engine_options *options, struct err *e);
void rig_close(struct rig *s, bool flush_all);
/* Makes the shard lead all tablets; needed again after reopening. */
void rig_lead(struct rig *s);
/* Makes table `number` with 2^4 tablets, and run `run`. */
void rig_table(struct rig *s, uint32_t number);
struct table_schema rig_schema(uint32_t number);

struct rig_push {
    struct push_record record;
    uint64_t keys[SHARD_KEYS];
    float gradients[SHARD_KEYS * SHARD_WIDTH];
};
/* Makes batch `to` of a lane for table `table`, over all tablets: keys and gradients are a function
 * of (table, lane, to). */
void rig_push_make(struct rig_push *p, uint64_t run, uint32_t table, uint32_t lane,
                   uint64_t generation, uint64_t from, uint64_t to);
/* Admits, commits and applies a push. Returns the status of admission. */
int rig_push(struct rig *s, const struct rig_push *p, struct push_plan *plan);
/* Pushes batches (from, to] of a lane, one by one, to table 0, with a flush step and its work after
 * each. */
void rig_train(struct rig *s, uint64_t run, uint32_t lane, uint64_t generation, uint64_t from,
               uint64_t to);
/* Returns the XXH3 over the digests of all tablets of all tables. */
uint64_t rig_digest(struct rig *s);

#endif
