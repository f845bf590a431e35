/* age.h: time in a tablet, and rows that go by themselves.
 *
 * A tablet's clock is the latest event time that its pushes told, moved on by at most a day a push
 * once it is set: a stamp in the future costs a day at most and is caught up with, one in the past
 * moves nothing. So the clock is a function of the tablet's own records, and with it all ageing: no
 * record says that a tablet aged, the push that moved its clock over a boundary does.
 *
 * Boundaries lie every age_every seconds, each tablet's moved by its number's share of that, so
 * that tablets age one after the other. When a boundary is passed: shows and clicks decay; rows
 * with too low a score go, and those without a push for longer than their ttl as of the boundary;
 * keys that wait in the old generation are forgotten. Several boundaries passed at once come to the
 * same in one walk. A row whose time is not known never expires.
 *
 * That is so for rows in memory. A cold row ages, and ends, when a pull, a push or replay next asks
 * for it (table_cold_take in cold.c, from fetch.c live, from fetch_now.c in replay), and its pair
 * goes with the tablet's next image (flush_put_gone); one that nobody asks for stays in the store,
 * its key in the tablet's set and in cold_rows, until the key is erased or a restore gives its
 * tablet a new epoch (flush_drop_stale). Readers age a copy (table_cold_copy) and take nothing out.
 * Coming in does not hasten that image. No record says that it ended: after a kill before the image
 * it is cold again and ends again, by the same clock, in replay (fetch_now) as live. Tables with a
 * capacity, and dense ones, have no cold rows.
 *
 * Decay and score: Paddle's CtrCommonAccessor::Shrink (table/ctr_accessor.cc); ttl in event time:
 * Monolith. */
#ifndef EMBEDDING_ROWS_AGE_H
#define EMBEDDING_ROWS_AGE_H

#include "embedding/table.h"

#define AGE_STEP_MAX 86400u /* seconds that one push moves a clock */

/* Before the push: moves the clocks of the tablets that take it and ages them. 0 or
 * SHOAL_E_NOMEM. */
int age_before(struct table *t, const struct push_args *args);
/* What becomes of a row of `tablet` that was in the store while its tablet's clock went from `then`
 * to `now` (0 for `then`: from the first time that was told, see cold.h). Decay multiplies once a
 * boundary, in whatever portions they come, so that late is the same as in time. */
enum age_end { AGE_STAYS, AGE_LOW, AGE_EXPIRED };
enum age_end age_row(const struct table *t, uint32_t tablet, uint64_t key, float *row,
                     uint32_t then, uint32_t now);
/* After the push: tablets with more than age_capacity rows drop the least of them (age_rank), down
 * to 15/16 (age_room). 0 or SHOAL_E_NOMEM. */
int age_after(struct table *t, const struct push_args *args);

/* How rows stand in line where there is no room: the least go first. By time, or by score; ties by
 * mixed key, so that keys of one field do not go before the others. Tried out by census.h too. */
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
/* Rows that stay of a tablet that has `rows` of them, with room for `capacity` (1 or more). */
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
