/* age.h: time in a tablet, and rows that expire.
 *
 * A tablet's clock is the latest event time in its pushes. Once it is set, a push moves it by at
 * most a day: a time in the future costs at most a day and is caught up with, and a time in the
 * past moves nothing. The clock is therefore a function of the tablet's own records, and so is all
 * ageing. No record says that a tablet aged; the push that moved its clock over a boundary implies
 * it.
 *
 * There is a boundary every age_every seconds, shifted for each tablet by its number's share of
 * that, so that tablets age one after the other. At a boundary shows and clicks decay; rows go
 * whose score is too low, or whose last push is longer ago than their ttl; and keys that wait in
 * the old generation are forgotten. A walk over several boundaries at once has the same result. A
 * row of unknown time never expires.
 *
 * This holds for rows in memory. A cold row ages, and ends, when a pull, a push or replay next
 * reads it (table_cold_take in cold.c, from fetch.c live, from fetch_now.c in replay), and the
 * tablet's next image deletes its pair (flush_put_gone). A cold row that is never read stays in the
 * store, its key in the tablet's set and in cold_rows, until the key is erased or a restore gives
 * its tablet a new epoch (flush_drop_stale). Readers age a copy (table_cold_copy) and remove
 * nothing. Coming in does not hasten the image, and no record says that the row ended: after a kill
 * before the image the row is cold again and ends again, by the same clock, in replay (fetch_now)
 * as live. Tables with a capacity, and dense ones, have no cold rows.
 *
 * Decay and score: Paddle's CtrCommonAccessor::Shrink (table/ctr_accessor.cc); ttl in event time:
 * Monolith. */
#ifndef EMBEDDING_ROWS_AGE_H
#define EMBEDDING_ROWS_AGE_H

#include "embedding/table.h"

#define AGE_STEP_MAX 86400u /* most seconds that one push moves a clock */

/* Before a push: moves the clocks of the tablets that take it, and ages them. 0 or
 * SHOAL_E_NOMEM. */
int age_before(struct table *t, const struct push_args *args);
/* Ages a row of `tablet` that was in the store while its tablet's clock moved from `then` to `now`
 * (then 0: from the first known time, see cold.h). Decay multiplies once for each boundary, in any
 * portions, so that late ageing has the same result. */
enum age_end { AGE_STAYS, AGE_LOW, AGE_EXPIRED };
enum age_end age_row(const struct table *t, uint32_t tablet, uint64_t key, float *row,
                     uint32_t then, uint32_t now);
/* After a push: tablets with more than age_capacity rows drop the lowest ranks (age_rank), down to
 * 15/16 (age_room). 0 or SHOAL_E_NOMEM. */
int age_after(struct table *t, const struct push_args *args);

/* The rank of a row where there is a capacity: the lowest go first. By time, or by score; ties by
 * mixed key, so that no field is preferred. census.h uses it to predict a rule's effect. */
struct age_rank {
    uint32_t order;
    uint64_t mixed;
};
struct age_rank age_rank_of(const struct table_schema *s, uint64_t key,
                            const struct row_stats *stats);
static inline bool age_rank_below(const struct age_rank *a, const struct age_rank *b)
{
    if (a->order != b->order)
        return a->order < b->order;

    return a->mixed < b->mixed;
}
/* Rows that stay in a tablet of `rows` rows with the given capacity (at least 1). */
static inline uint64_t age_room(uint64_t rows, uint64_t capacity)
{
    uint64_t stay = capacity * 15 / 16;

    if (rows <= capacity)
        return rows;
    if (stay > 0)
        return stay;

    return 1;
}

#endif
