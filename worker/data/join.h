/* join.h: joins impressions and clicks of one id: rows in, examples in order of time out. A join is
 * a function of its rows; it has no clock and no file.
 *
 * A click belongs to the newest impression of its id that was not shown later. An impression is
 * open for `window` seconds, both ends included, and known for `keep` seconds more:
 *
 *     first click while it is open     a positive, at the click's time
 *     none until the window closes     a negative, at the time the window closes
 *     first click after that           late: counted; with `learn` the impression is emitted once
 *                                      more, as a positive at the click's time
 *     further clicks                   doubled
 *     clicks on no known impression    unmatched
 *     an impression whose id is known  repeated, and left out
 *
 * With a click rate p and a share q of late clicks, `count` makes predictions low by the factor
 * 1 - q. `learn` shows a late impression as a negative and as a positive, so predictions are low by
 * 1 / (1 + p q), which is negligible for click rates. An example of negative weight that cancels
 * the negative (fake negative weighting: Ktena et al., Addressing Delayed Feedback for Continuous
 * Training, 2019) would gain only that, at the price of a loss without a lower bound.
 *
 * Rows may arrive out of the order of their times: they wait in a heap until no earlier row can
 * arrive. Rows of one second are joined in this order: impressions before clicks, each kind by its
 * places. Examples of one second are emitted in this order: positives in the order of their clicks,
 * then negatives in the order of their impressions.
 *
 * A join's state is in memory: the waiting rows and the known impressions. Text stays in the input,
 * which can be read by position: a row takes 32 bytes, whatever its line is. One thread at a
 * time. */
#ifndef WORKER_DATA_JOIN_H
#define WORKER_DATA_JOIN_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* X(name, what it is, in words) */
#define JOIN_COUNTS(X)                                                                             \
    X(positives, "impressions clicked within the window")                                          \
    X(negatives, "impressions without a click in it")                                              \
    X(late, "clicks after it")                                                                     \
    X(doubled, "clicks on what was clicked before")                                                \
    X(unmatched, "clicks without an impression")                                                   \
    X(repeated, "impressions whose id was known, left out")                                        \
    X(cut_short, "negatives whose window the input's end closed")                                  \
    X(impressions_malformed, "")                                                                   \
    X(impressions_without_id, "")                                                                  \
    X(impressions_without_time, "")                                                                \
    X(impressions_out_of_order, "further behind than data.join.disorder")                          \
    X(clicks_malformed, "")                                                                        \
    X(clicks_without_id, "")                                                                       \
    X(clicks_without_time, "")                                                                     \
    X(clicks_out_of_order, "further behind than data.join.disorder")                               \
    X(impressions, "in all")                                                                       \
    X(clicks, "in all")                                                                            \
    X(held, "impressions known at one time, at most")

struct join_counts {
#define X(name, words) uint64_t name;
    JOIN_COUNTS(X)
#undef X
};

/* JOIN_OPEN: an impression without a click so far; JOIN_POSITIVE: with one in its window;
 * JOIN_LATE: with one after it. */
enum join_what { JOIN_CLICK, JOIN_OPEN, JOIN_POSITIVE, JOIN_LATE };

/* A line of the input: where it is and what is asked of it. */
struct join_row {
    uint64_t hash;                 /* hash of its id */
    uint64_t at;                   /* position in its source */
    uint64_t sum;                  /* hash of its text */
    uint32_t time;                 /* event time, in seconds since 1970 */
    uint32_t bytes : 24, what : 8; /* enum join_what */
};
_Static_assert(sizeof(struct join_row) == 32, "join_row is stored");

struct join_rules {
    uint32_t window, keep; /* seconds */
    bool learn;
    uint32_t most; /* capacity for known impressions, and for waiting rows */
};
#define JOIN_MOST (1u << 31)
/* Memory for each of `most`. */
#define JOIN_EACH (2 * sizeof(struct join_row) + 4 * sizeof(uint32_t))

struct join_calls {
    /* *same: the impression has the row's id; their hashes are equal. */
    int (*same)(void *context, const struct join_row *impression, const struct join_row *row,
                bool *same, struct err *e);
    int (*emit)(void *context, const struct join_row *impression, bool positive, uint64_t time,
                struct err *e);
    void *context;
};

struct join {
    struct join_rules rules;
    struct join_calls calls;
    struct join_counts *counts; /* borrowed */
    struct join_row *wait;      /* owned; (waiting) of (rules.most): a heap, the next row first */
    uint32_t waiting;
    struct join_row *ring; /* owned; (rules.most): impressions [first, next) */
    uint32_t *table;       /* owned; (mask + 1): place in the ring + 1, by hash; 0: empty */
    uint32_t mask;         /* places of the table - 1 */
    /* numbers of the first known impression, the first with an open window, and the next one */
    uint64_t first, closing, next;
    uint64_t now; /* time of the last row that was joined or emitted */
};

/* NOMEM */
int join_init(struct join *j, const struct join_rules *rules, const struct join_calls *calls,
              struct join_counts *counts, struct err *e);
void join_free(struct join *j);
/* Adds a click, or an impression (JOIN_OPEN), to the waiting rows. CONFIG: there is no room. */
int join_add(struct join *j, const struct join_row *row, struct err *e);
/* Promises that no row before `time` arrives any more: joins waiting rows before it, closes windows
 * that end before it, and forgets old impressions. CONFIG (no room for an impression), and the
 * errors of the calls. */
int join_until(struct join *j, uint64_t time, struct err *e);
/* Ends the input: all windows close. Errors as join_until. */
int join_end(struct join *j, struct err *e);

/* Builds the table after wait, waiting, ring, first, closing and next were read from a checkpoint.
 * False: they are inconsistent. */
bool join_again(struct join *j);

#endif
