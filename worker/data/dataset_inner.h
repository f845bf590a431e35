/* dataset_inner.h: inside of a dataset: event files as its input (dataset_events.c), parsed rows
 * kept (dataset_kept.c). */
#ifndef WORKER_DATA_DATASET_INNER_H
#define WORKER_DATA_DATASET_INNER_H

#include "worker/data/dataset.h"
#include "worker/data/feature.h"
#include "worker/data/groups.h"
#include "worker/data/index.h"
#include "worker/data/join_text.h"
#include "worker/data/kept.h"
#include "worker/data/order.h"
#include "worker/data/parsed.h"

struct dataset {
    bool events; /* its files are event files: there are no lines, and the index has no chunks */
    bool joined; /* its text is made of impressions and clicks */
    struct join_counts join;
    bool stored;           /* rows are read from `kept` */
    struct kept kept;      /* parsed, by number */
    struct groups *groups; /* owned: of event files, unless windows order them; else NULL */
    struct cache cache;
    struct source source;
    struct index index;
    struct features features;
    struct order order; /* of training */
    uint64_t salt;      /* of an object's own draws; 0: it is no object */
    uint64_t negatives; /* of 2^64 lines without a positive label training takes so many; 0: all */
    char warning[ERR_TEXT_MAX]; /* of its labels; empty: none */
};

/* Of a job whose format is events: as its training input's first file has them, or, where that has
 * gone, that of split `other`. */
int dataset_features_of_events(const struct job *job, uint32_t other, struct features *f,
                               struct err *e);
/* The columns' lines of the first file: a job's data.head; *text, the caller's. As events_open. */
int dataset_head_of_events(const struct source *s, char **text, struct err *e);
int dataset_legend_of_events(const struct features *f, const struct job *job, struct legend *out,
                             struct err *e);

/* d->rows from text, if the job names data.cache: that they cannot be kept is no error, and then
 * lines are read. CHECKSUM, NOMEM. */
int dataset_keep_text(struct dataset *d, const struct job *job, struct err *e);
/* Event files. In windows of event time, which rows of any block may be of: d->rows and d->index,
 * with times; as events_open and events_read; CONFIG, CANTCREATE. Else d->groups. */
int dataset_keep_events(struct dataset *d, struct err *e);
int dataset_group_events(struct dataset *d, const struct job *job, bool drawn, struct err *e);
/* As batch_read, of d->groups. */
int dataset_read_events(const struct dataset *d, uint64_t seed, uint32_t epoch, uint64_t position,
                        uint32_t rows, struct batch *b, struct err *e);
/* Whether data.negatives leaves a row without a positive label out. */
bool dataset_drops(const struct dataset *d, uint64_t seed, uint32_t epoch, uint64_t row);

#endif
