/* draw.h: the rows of data.train that training takes, drawn by hash.
 *
 * data.sample takes a share of the rows, or with data.sample_by of a column's values, each with all
 * its rows. It draws once for the job: a small log in place of the large one, in which every epoch
 * sees the same rows. data.negatives takes a share of what is left without a positive label, and
 * draws anew in each epoch, so that several epochs see every line (He et al., Practical Lessons
 * from Predicting Clicks on Ads at Facebook, 2014).
 *
 * Both compare a hash of what is drawn with the share. So a draw is a function of seed, epoch and
 * row or value: workers, lanes, batches and the order of the epoch do not change it. Epoch 0 takes
 * all rows. Pure: any thread. */
#ifndef WORKER_DATA_DRAW_H
#define WORKER_DATA_DRAW_H

#include "proto/job/job.h"

#include <stdbool.h>
#include <stdint.h>

struct draw {
    uint64_t sample, negatives; /* shares times 2^64; 0: all */
    bool by;                    /* data.sample_by: values are drawn */
    uint64_t seed;              /* the job's */
    uint64_t salt;              /* salt of the object whose rows they are; 0: none */
    uint32_t epoch;
};

/* The shares of the job, for epoch 0. */
struct draw draw_of(const struct job *job);
/* True when the sample leaves a row out. value: hash of the row's cell of data.sample_by; NULL: a
 * malformed row, or no column is named. Such a row goes by its number, so that malformed lines keep
 * their share. */
bool draw_leaves(const struct draw *d, uint64_t row, const uint64_t *value);
/* True when the row is only used if it has a positive label. */
bool draw_positives_only(const struct draw *d, uint64_t row);

#endif
