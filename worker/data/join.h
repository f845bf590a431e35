/* join.h: impressions and clicks of one id, put together: rows in order of time in, examples in
 * order of time out. A function of the rows, without a clock or a file of its own.
 *
 * A click belongs to the newest impression of its id that was not shown later. Up to `window`
 * seconds after the impression, both ends counted, it makes a positive, at the click's time; an
 * impression without one is a negative as its window closes. Of clicks on one impression the first
 * counts. Up to `keep` more a click is late: counted, or (learn) the impression goes out once more,
 * as a positive at the click's time. Later, or without impression: unmatched. An impression whose
 * id is still known is repeated, and left out.
 *
 * What the choice costs, with a rate p of clicks, a share q of them late: `count` makes predictions
 * low by the factor 1 - q. `learn` shows such an impression as a negative and as a positive, so
 * they are low by 1 / (1 + p q), which for rates of clicks is nothing. An example of negative
 * weight that takes the negative back (fake negative weighting: Ktena et al., Addressing Delayed
 * Feedback for Continuous Training, 2019) would win that little for a loss without a lower bound.
 *
 * Of one second the positives go out first, in the order of clicks, then negatives in the order of
 * impressions. What is known of impressions is bounded: `most` in memory, older ones in the store
 * (join_past.h). One thread at a time. */
#ifndef WORKER_DATA_JOIN_H
#define WORKER_DATA_JOIN_H

#include "worker/data/join_past.h"

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
    X(held, "impressions known at one time, at most")                                              \
    X(stored, "of them put on disk, in all")

struct join_counts {
#define X(name, words) uint64_t name;
    JOIN_COUNTS(X)
#undef X
};

struct join_rules {
    uint32_t window, keep; /* seconds */
    bool learn;
    uint32_t most;         /* impressions in memory */
    uint64_t filter_bytes; /* of join_past.h */
};

struct join_calls {
    /* Whether an impression has the id of the row at hand, which has its hash. */
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
    struct join_past past;      /* numbers [past.first, past.end) */
    struct join_row *ring; /* owned: (rules.most): numbers [past.end, next), each at its rest */
    uint32_t *table;       /* owned: (mask + 1): place in the ring + 1, by hash; 0: none */
    uint32_t mask;
    uint64_t closing, next; /* numbers: the first whose window is open, the next impression's */
    uint64_t now;           /* time of the last row */
};

/* Bytes in memory of one of `most`. */
#define JOIN_EACH (sizeof(struct join_row) + 4 * sizeof(uint32_t))

/* NOMEM */
int join_init(struct join *j, const struct join_rules *rules, const struct join_calls *calls,
              struct join_store *store, struct join_counts *counts, struct err *e);
void join_free(struct join *j);
/* A click, or an impression (JOIN_OPEN), not earlier than the one before. As the calls, and as
 * join_store_put. */
int join_row(struct join *j, const struct join_row *row, struct err *e);
/* All windows that end before `time` close, and what is over is forgotten. */
int join_close(struct join *j, uint64_t time, struct err *e);
/* The input is over: all windows close. */
int join_end(struct join *j, struct err *e);

/* For who goes on with a state that was kept: past.first, past.end, closing, next and the rows of
 * numbers [past.end, next) are there: makes the table. False: they cannot be. */
bool join_again(struct join *j);

#endif
