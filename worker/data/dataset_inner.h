/* dataset_inner.h: the struct behind a dataset, shared with event files (dataset_events.c) and kept
 * parsed rows (dataset_kept.c). */
#ifndef WORKER_DATA_DATASET_INNER_H
#define WORKER_DATA_DATASET_INNER_H

#include "worker/data/dataset.h"
#include "worker/data/draw.h"
#include "worker/data/feature.h"
#include "worker/data/groups.h"
#include "worker/data/index.h"
#include "worker/data/join_text.h"
#include "worker/data/kept.h"
#include "worker/data/order.h"
#include "worker/data/parsed.h"

struct dataset {
    bool events; /* event files: there are no lines, and the index has no chunks */
    bool joined; /* impressions and clicks are joined into its text */
    struct join_counts join;
    bool stored;           /* rows are read from `kept` */
    struct kept kept;      /* parsed rows by number */
    struct groups *groups; /* owned; event files unless windows order them; else NULL */
    struct cache cache;
    struct source source;
    struct index index;
    struct features features;
    struct order order;         /* order of training */
    uint64_t salt;              /* changes the draws of an object; 0: no object */
    struct draw draw;           /* the rows that training takes; of epoch 0 */
    char warning[ERR_TEXT_MAX]; /* about its labels; "": none */
};

/* Features of a job of format events, from the first file of its training input, or of split
 * `other` when that input is gone. */
int dataset_features_of_events(const struct job *job, uint32_t other, struct features *f,
                               struct err *e);
/* The columns' lines of the first file, a job's data.head; the caller owns *text. Errors as
 * events_open. */
int dataset_head_of_events(const struct source *s, char **text, struct err *e);
int dataset_legend_of_events(const struct features *f, const struct job *job, struct legend *out,
                             struct err *e);

/* Fills d->rows from text if the job names data.cache. When the rows cannot be kept, lines are read
 * instead, and that is no error. CHECKSUM, NOMEM. */
int dataset_keep_text(struct dataset *d, const struct job *job, struct err *e);
/* Opens event files. With windows of event time, which take rows of any block, it fills d->rows and
 * d->index with times: errors as events_open and events_read, CONFIG, CANTCREATE. Otherwise it
 * fills d->groups. */
int dataset_keep_events(struct dataset *d, struct err *e);
int dataset_group_events(struct dataset *d, const struct job *job, bool drawn, struct err *e);
/* batch_read for d->groups. */
int dataset_read_events(const struct dataset *d, const struct draw *draw, uint64_t position,
                        uint32_t rows, struct batch *b, struct err *e);

#endif
