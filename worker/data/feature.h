/* feature.h: how columns become fields and numbers, and cells -> example.
 *
 * Fields stand in the order of `features.fields`, or of the columns when that is auto, and a
 * field's number in keys is its place, unless the job's tables know it by its name (job.names):
 * then it has the number that they know it by, and all stand in the order of their numbers; new
 * ones follow (proto/job/legend.h). A number column is a numeric input, or, with the transform
 * `bucket`, a field. Columns: criteo "label", "I1".."I13", "C1".."C26"; libsvm "0" (the label),
 * "1".. (the entries); csv the names of its header, of data.columns, or "0", "1"... A number names
 * a column by position where no column has that name. Labels, the weight and the time are no
 * features; what evaluation groups by may be any column, used or not. Made once, then read-only:
 * any thread. */
#ifndef WORKER_DATA_FEATURE_H
#define WORKER_DATA_FEATURE_H

#include "dense/model.h"
#include "proto/base/json.h"
#include "worker/data/format.h"

#define FEATURE_LOG1P_TABLE 1024u
#define FEATURE_NO_COLUMN UINT32_MAX
/* values of a field with pooling attention, unless its `max` is smaller */
#define FEATURE_SEQUENCE_MAX 65536u

/* Places in the arrays of a batch, borrowed. */
struct example {
    float *label;  /* (tasks) */
    float *weight; /* (1); needed when the features have a weight */
    /* (1): event time in seconds since 1970; needed when the features have a time; filled where
     * they have a column of it */
    uint32_t *time;
    float *numeric;      /* (numerics) */
    uint64_t *key;       /* room for all values that the line can have */
    uint32_t *count;     /* (fields): values of each field; NULL when every field has exactly one */
    uint64_t *group;     /* (1): hash of the value that evaluation groups by; NULL: not asked for */
    uint64_t *by;        /* (by_count): likewise, of the values that calibration is told by */
    bool positives_only; /* an example without a positive label is to be dropped */
    bool dropped;        /* result: it was, and nothing but the labels is filled */
    uint32_t keys;       /* result: values in all */
};

struct feature_use {
    uint32_t last; /* of a MULTI: so many of its values count, the last ones */
    uint16_t column;
    /* of a field: the number in its keys: its own, or that of the field whose rows it shares; while
     * features are made the place of that field */
    uint16_t key_field;
    uint8_t type;      /* enum column_type: CATEGORY, MULTI or NUMBER */
    bool id;           /* values are whole numbers: they are the keys' low bits */
    uint8_t transform; /* enum number_transform, of a NUMBER */
    char separator;    /* of a MULTI */
};

/* The value that fills cells of a MULTI up, and is none. */
struct feature_padding {
    uint8_t bytes; /* 0: there is none */
    char text[COLUMN_PADDING];
};

struct features {
    const struct format *format;
    uint32_t columns;            /* that a line must have */
    uint32_t label[LIMIT_TASKS]; /* (shape.tasks) columns */
    uint32_t weight;             /* column, or FEATURE_NO_COLUMN: all examples weigh 1 */
    uint32_t time;               /* column of the event time, or FEATURE_NO_COLUMN */
    struct time_form time_form;  /* of the event time */
    struct zone zone;            /* of one without */
    struct job_span *span; /* owned: by file of the split: its partition; NULL: they have none */
    uint64_t dated;        /* of the pattern (data.partition); 0: names tell no times */
    uint32_t group;        /* column whose values evaluation groups by, or FEATURE_NO_COLUMN */
    uint32_t by[LIMIT_BY]; /* (by_count) columns by whose values calibration is told */
    uint32_t by_count;
    double label_above; /* of each label */
    bool label_parted;  /* the job gives it */
    char delimiter;     /* csv */
    bool header;        /* csv: each file starts with one */
    bool wide;          /* by numbers.h and keys.h */
    bool multi;         /* some field may have other than one value */
    /* of a prediction: the lines have no labels; without a header their cells are missing, and
     * `columns` counts those that are there */
    bool predict, unlabelled;
    bool learnt;               /* the split is trained on: weight and time must be there */
    uint32_t pass[LIMIT_PASS]; /* (pass_count) columns that it passes on */
    uint32_t pass_count;
    uint32_t tables;                /* that fields lie in (shape.table); 0 counts as 1 */
    uint32_t rules;                 /* by field, of all tables (shape.rule_field) */
    uint8_t table_of[LIMIT_FIELDS]; /* by the number in a key: where its row lies */
    struct model_shape shape;
    struct feature_use field[LIMIT_FIELDS];       /* (shape.fields) */
    struct feature_padding padding[LIMIT_FIELDS]; /* (shape.fields) */
    struct feature_use numeric[LIMIT_NUMERIC];    /* (shape.numerics) */
    /* feature_log1p of 0, 1, 2..: most integers of a log are small */
    float log1p[FEATURE_LOG1P_TABLE];
    struct cell *name; /* owned: (columns) names, in `text` */
    char *text;        /* owned */
};

/* Whether examples have event times: of a column, or of their file's partition. */
static inline bool features_timed(const struct features *f)
{
    return f->time != FEATURE_NO_COLUMN || f->dated != 0;
}
/* Whether a time is none of the partition that the file's name says. */
static inline bool features_outside(const struct features *f, uint32_t file, uint32_t time)
{
    return f->dated != 0 && (time < f->span[file].from || time >= f->span[file].to);
}
/* Whether the tables' names (job.legend) say all that there is to know of the columns, so that the
 * input that made them need not be there; but for columns that the job knows by their places in a
 * header. */
bool feature_names_known(const struct job *job);
/* head: the first line of the first file, which is `name`; NULL for a format with columns of its
 * own, and to go by the names that are known. CONFIG when the job's columns do not fit it, DATA
 * when it is no line of the format. */
int features_make(const struct job *job, const char *name, const char *head, size_t bytes,
                  struct features *out, struct err *e);
/* The same features for files whose header has other columns, or the same in another order (csv
 * with a header). */
int features_bind(struct features *f, const char *name, const char *head, size_t bytes,
                  struct err *e);
/* What a prediction wants of a split, `name`, of which `line` is the first row: the columns that it
 * passes on are found, labels may be missing. CONFIG. */
int features_predict(struct features *f, const struct job *job, const char *name,
                     const struct cell *line, struct err *e);
/* The cells of a line without labels, none of them in its place, as if there were empty ones.
 * cell has room for `columns` and the labels. */
void features_unlabelled(const struct features *f, struct cell *cell);
void features_free(struct features *f);

/* cells -> example. SHOAL_E_DATA with the cause in `reason` for a label, weight or number that is
 * none. */
int features_example(const struct features *f, const struct cell *cell, struct example *out,
                     char *reason);

/* sign(x) log(1 + |x|), the same bits on every machine (no libm). */
float feature_log1p(double x);
/* The text that stands for the bucket of x: "0", or a sign and floor(log2 |x|). Returns its length;
 * out has room for 8.
 */
uint32_t feature_bucket(double x, char *out);
/* A decimal number with optional fraction and exponent; nothing but blanks around it. Whether it is
 * one, and finite. */
bool feature_number(const struct cell *cell, double *out);
/* The same of a label, which may also be True (1) or False (0), in any case. */
bool feature_label(const struct cell *cell, double *out);

/* Event time in seconds since 1970, 1..UINT32_MAX: as form->format says, or else a number of
 * form->unit, or "YYYY-MM-DD HH:MM:SS", with T, a fraction, a zone (Z, UTC, +HH, +HHMM, +HH:MM;
 * without one by `zone`), without seconds, or the date alone. A number before 1995, or one that
 * reads as a date, is none unless form->any. Whether it is one. */
bool feature_time(const struct cell *cell, const struct time_form *form, const struct zone *zone,
                  uint32_t *out);
/* Of a form: 0 to 2 of numbers, by their unit. */
uint64_t feature_time_hash(const struct time_form *form);
/* What to do about a text that is none, or "" of an empty one; static. */
const char *feature_time_remedy(const struct cell *cell, const struct time_form *form);

/* For those who look at tables and know values, not keys (`shoal-worker fields`).
 *
 * What tables and the network's input are called by (proto/job/legend.h): adds fields, numbers, the
 * input's columns and the labels of a job to *out, without numbers. NOMEM. */
int feature_legend(const struct features *f, const struct job *job, struct legend *out,
                   struct err *e);
/* The name of field i, cut to LIMIT_NAME. */
void feature_field_name(const struct features *f, uint32_t i, char out[LIMIT_NAME]);
/* The field of this column name, or of this number in decimal. NOT_FOUND names those that there
 * are. */
int feature_field_find(const struct features *f, const char *name, uint32_t *out, struct err *e);
/* The key that a cell with this text gives a field (of a `multi` field: one of its values; of a
 * number taken as buckets: the number). DATA when it is no number, or no id. */
int feature_field_key(const struct features *f, uint32_t field, const char *value, uint64_t *key,
                      struct err *e);
/* A list: name, field (its number), key_field (the number in its keys: another one's where it
 * shares that one's rows), kind: category, multi, id, multi id or bucket; then those that the
 * tables have from former jobs: name, field, kind, gone. */
struct json *feature_fields_json(const struct features *f, const struct legend *n);
/* The key that the value has in such a field, by name or number. NOT_FOUND, without a text: there
 * is none, or its key was made otherwise. DATA: it is no value of the field. */
int feature_gone_key(const struct legend *n, const char *name, const char *value, uint64_t *key,
                     struct err *e);

#endif
