/* dataset_inner.h: the struct behind a dataset, for dataset.c (its life), dataset_objects.c (heads
 * of objects), dataset_features.c (columns), dataset_figures.c (figures of numbers),
 * dataset_order.c (index and order), dataset_read.c (lines and kept rows), dataset_events.c (event
 * files), dataset_kept.c (parsed rows that are kept). */
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

/* dataset.c */
/* An empty dataset; NULL: no memory, which *e says. */
struct dataset *dataset_new(const char *what, struct err *e);
/* Opens what comes before the rows: source and features, whose figures may be missing. line: an
 * object; NULL: the whole split. */
int dataset_parts_open(struct dataset *d, const struct job *job, uint32_t split, const char *line,
                       struct err *e);

/* dataset_figures.c */
/* Fills in the figures of numbers that neither the job nor its tables have. CONFIG: a prediction
 * lacks some. Errors as dataset_open. */
int dataset_figures(const struct job *job, struct features *f, struct err *e);

/* dataset_objects.c */
/* The header of file i; *line lives in `lines`. END: the file is empty. */
int dataset_header(const struct source *s, uint32_t i, struct lines *lines, struct line *line,
                   struct err *e);
/* Reports a damaged object as DATA: the object is at fault, not this machine. */
int dataset_object_fault(int rc, const char *what, struct err *e);

/* dataset_features.c */
/* Makes the features from the first line of the training input, so that every split has the same
 * fields. Jobs that go by names, and jobs whose training input is gone, use the tables' names
 * instead. A job without training input, or a prediction that can, uses split `other`. */
int dataset_make_features(const struct job *job, const struct cache *cache, uint32_t other,
                          struct features *f, struct err *e);
/* Finds the columns of the features in this split's text. */
int dataset_bind(struct dataset *d, const struct job *job, struct err *e);

/* dataset_order.c */
/* Opens the index of a split, and the order in which training visits it. */
int dataset_index(struct dataset *d, const struct job *job, uint32_t split, struct err *e);
/* Adds to the warning that windows cannot split the log in time. */
void dataset_look_at_order(struct dataset *d, const struct job *job);

/* dataset_events.c */
/* Features of a job of format events, from the first file of its training input, or of split
 * `other` when that input is gone. */
int dataset_features_of_events(const struct job *job, uint32_t other, struct features *f,
                               struct err *e);
/* The columns' lines of the first file, a job's data.head; the caller owns *text. Errors as
 * events_open. */
int dataset_head_of_events(const struct source *s, char **text, struct err *e);
int dataset_legend_of_events(const struct features *f, const struct job *job, struct legend *out,
                             struct err *e);

/* Without windows of event time it fills d->groups. Errors as events_open and events_read. */
int dataset_group_events(struct dataset *d, const struct job *job, bool drawn, struct err *e);
/* batch_read for d->groups. */
int dataset_read_events(const struct dataset *d, const struct draw *draw, uint64_t position,
                        uint32_t rows, struct batch *b, struct err *e);

/* dataset_kept.c */
/* Fills d->kept from text if the job names data.cache. When the rows cannot be kept, lines are read
 * instead, and that is no error. CHECKSUM, NOMEM. */
int dataset_keep_text(struct dataset *d, const struct job *job, struct err *e);
/* Event files with windows of event time, which take rows of any block: fills d->kept, and d->index
 * with times. Errors as events_open and events_read, CONFIG, CANTCREATE. */
int dataset_keep_events(struct dataset *d, struct err *e);

#endif
