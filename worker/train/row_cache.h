/* row_cache.h: the sparse rows in a lane's cache of hot rows, and how long each of them may be
 * used.
 *
 * The rows themselves are in the model's run, in the memory of its device (dense/model.h:
 * model_run_new). Here is only the index: key -> slot, with the batch that wrote the slot and the
 * clocks in the answer to its pull. A batch's keys are divided into hits, which are not pulled, and
 * misses, which are. Some misses are kept: they are copied into a slot when the batch is computed.
 *
 * Why a hit is within the bound. A pull of batch b has clock c at its shard, and the shard answers
 * with `low`, the smallest clock of the run's live lanes there.
 *  - The rows in the answer contain every push whose clock is at most `low`: a lane's clock is its
 *     lowest mark over all tablets that the shard leads, so everything at or below it is applied.
 *  - Every push that is applied there later has, when it is applied, a clock above `low`: its lane
 *     is live (others are fenced), so the lane's clock is at least the shard's `low` of that
 *     moment; that never falls while the pulling lane itself is live, because a lane that joins or
 *     comes back begins at `low`; and a batch that is applied is above its lane's clock.
 *  - The lane's offset at the shard is fixed as long as it is granted, so its batch b + n has
 *     clock c + n there.
 *
 * With lag = c - low, a row pulled for batch b therefore contains every push of clock <= (b + n) -
 * offset - lag - n. It may serve batch b + n under staleness s as long as n + lag <= s + 1. The
 * lane's own pushes are bounded like those of other lanes: ssp does not promise a lane its own last
 * writes, with or without a cache (a pull that is sent ahead does not wait for them). Rows that the
 * lane has pushed therefore stay; otherwise a hot row, which is in every batch, would never be hit.
 * Under async a row serves a fixed number of batches. Under bsp (s = 0) lag is at least 1, so n is
 * 0: no row could ever serve, and the job is refused. A lane cannot run ahead of the bound on
 * cached rows: each of them stops serving after s + 1 - lag batches, and the pull that must follow
 * waits at its shard.
 *
 * Why a slot may be reused before the batches that read it are computed: one run plans the batches
 * of a lane in order and computes them in order. A batch that was planned earlier reads the slot
 * before a later batch writes it; within one batch the model reads all slots before it writes any.
 * No batch writes a slot twice: an entry whose pull is not answered yet (PENDING) is never evicted.
 *
 * The index is emptied when the lane is granted anew or dropped, or when the map changes, because
 * clocks belong to a shard. Thread: one at a time. */
#ifndef WORKER_TRAIN_ROW_CACHE_H
#define WORKER_TRAIN_ROW_CACHE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROW_CACHE_SLOTS_MAX (1u << 30)

struct row_cache;

struct row_cache_rule {
    /* ssp: `most` is the staleness; else async: number of batches that a row serves after its
     * own */
    bool bounded;
    uint32_t most;
};

/* The plan for a batch's keys. The caller owns the arrays, which have room for all keys (keep:
 * twice as many). */
struct row_plan {
    uint64_t *fresh; /* misses, in the order of the keys: to be pulled */
    uint32_t fresh_count;
    uint32_t *source; /* (keys): as in struct model_input */
    uint32_t *keep;   /* (keep_count, 2): as in struct model_input */
    uint32_t keep_count;
    /* the largest among the hits: clock - 1 - clock up to which the row has all pushes; 0 without a
     * hit */
    uint64_t staleness;
};

/* slots: at least 1; above 8 a multiple of 8 is used. 24 bytes a slot. TOO_BIG, NOMEM. */
int row_cache_new(uint64_t slots, const struct row_cache_rule *rule, struct row_cache **out,
                  struct err *e);
void row_cache_free(struct row_cache *c);
void row_cache_clear(struct row_cache *c);

/* Plans the keys of a batch, sorted by key_mix. Batches are planned in order. */
void row_cache_plan(struct row_cache *c, uint64_t batch, const uint64_t *keys, uint32_t count,
                    struct row_plan *plan);
/* Notes how old the pulled rows may become, from the answer to a pull of some of the batch's
 * misses: clock, the lane's clock at that shard; low, the smallest clock of the live lanes
 * there. */
void row_cache_answered(struct row_cache *c, uint64_t batch, const uint64_t *keys, uint32_t count,
                        uint64_t clock, uint64_t low);

#endif
