/* feature.h: the columns that are fields and numbers, and how cells become an example.
 *
 * Fields stand in the order of `features.fields`, or of the columns when that is auto; crosses
 * follow. A field's number in keys is its place in that order, unless the job's tables know the
 * field by its name (job.names): then the number is the tables', all fields stand in the order of
 * their numbers, and new ones follow (proto/job/legend.h). A number column is a numeric input or,
 * with the transform `bucket`, a field. Some are made of columns: a cross is a field of two or
 * three columns, called "site x hour"; an indicator is a number that says where a column has none,
 * "missing age".
 *
 * Column names: criteo has "label", "I1".."I13", "C1".."C26"; libsvm "0" (the label), "1".. (the
 * entries by place, or "1" for all of them); libffm "label" and its fields' numbers, and so does
 * libsvm by index; the last column is "qid" where entries have weights; csv those of its header or
 * of data.columns, or "0", "1".. A number names a column by
 * position where no column has that name. Labels, the weight and the time are no features;
 * evaluation may group by any column, used or not.
 *
 * Features are made once, then read-only: any thread. */
#ifndef WORKER_DATA_FEATURE_H
#define WORKER_DATA_FEATURE_H

#include "dense/model.h"
#include "proto/base/json.h"
#include "worker/data/clean.h"
#include "worker/data/format.h"
#include "worker/data/keyed.h"

#include <string.h>

#define FEATURE_LOG1P_TABLE 1024u
#define FEATURE_NO_COLUMN UINT32_MAX
#define FEATURE_PLAIN UINT32_MAX
/* values of a field with pooling attention, unless its `max` is smaller */
#define FEATURE_SEQUENCE_MAX 65536u

/* Places in the arrays of a batch that one example fills; borrowed. */
struct example {
    float *label;  /* (tasks): 0 or 1, or a number; NaN: missing, and another one is there */
    float *weight; /* (1); needed when the features have a weight */
    /* (1): event time in seconds since 1970; needed when the features are timed; filled from the
     * time column if there is one */
    uint32_t *time;
    float *numeric;      /* (numerics) */
    uint64_t *key;       /* room for all values that the line can have */
    uint32_t *count;     /* (fields): number of values of each field; NULL: exactly one each */
    float *value_weight; /* as key: weight of each value; needed when the features are weighted */
    uint64_t *group;     /* (1): hash of the evaluate.group value; NULL: not wanted */
    uint64_t *by;        /* (by_count): hashes of the evaluate.by values */
    uint64_t *sample;    /* (1): hash of the data.sample_by value; NULL: not wanted */
    bool positives_only; /* drop the example when no label is positive */
    bool dropped;        /* result: it was dropped, and only the labels are filled */
    uint32_t keys;       /* result: number of values */
};

struct feature_use {
    union {
        uint32_t last; /* MULTI: only this many values, the last ones, count */
        /* NUMBER: its place in `scale`; CROSS: its place in `cross`; MISSING: 0. FEATURE_PLAIN: a
         * number without fill, standard, borders; a cross or an indicator that is a column of an
         * event file */
        uint32_t at;
    };
    uint16_t column; /* CROSS: that of its first part */
    /* Field: the number in its keys: its own, or that of the field whose rows it shares. While
     * features are made, the place of that field. */
    uint16_t key_field;
    uint8_t type;      /* enum column_type: CATEGORY, MULTI, NUMBER, CROSS or MISSING */
    bool id;           /* values are integers, the keys' low bits */
    uint8_t transform; /* NUMBER: enum number_transform */
    char separator;    /* MULTI */
};

/* How the values of a MULTI cell are written: "a|b"; "a:0.5|b:-2"; "35:0.5 237" with digits as
 * values; the same, where those of one index are the column's; and with "field:" before each, where
 * those of one field are. */
enum multi_form { MULTI_PLAIN, MULTI_WEIGHTED, MULTI_ENTRIES, MULTI_OF_INDEX, MULTI_OF_FIELD };

/* The value that pads cells of a MULTI and does not count. */
struct feature_padding {
    uint8_t bytes; /* 0: no padding */
    char text[COLUMN_PADDING];
};

/* A field of several columns: the key is a hash of the parts' values. */
struct feature_cross {
    char name[CROSS_PARTS * (LIMIT_NAME + 3)]; /* "site x hour" */
    struct feature_use part[CROSS_PARTS];      /* (parts): CATEGORY, or NUMBER for its bucket */
    uint32_t parts;
    uint32_t field; /* while features are made: its field, or FEATURE_NO_FIELD */
};

struct features {
    const struct format *format;
    uint32_t columns;            /* cells of a line */
    uint32_t label[LIMIT_TASKS]; /* (shape.tasks) columns */
    uint32_t weight;             /* a column; FEATURE_NO_COLUMN: all examples weigh 1 */
    uint32_t time;               /* column of the event time, or FEATURE_NO_COLUMN */
    struct time_form time_form;  /* format of the event time */
    struct zone zone;            /* zone of a time without one */
    struct job_span *span;       /* owned; by file of the split: its partition; NULL: none */
    uint64_t dated;              /* hash of data.partition; 0: names have no times */
    uint32_t group;              /* column of evaluate.group, or FEATURE_NO_COLUMN */
    uint32_t by[LIMIT_BY];       /* (by_count): columns of evaluate.by */
    uint32_t by_count;
    uint32_t sample;                 /* column of data.sample_by, or FEATURE_NO_COLUMN */
    uint32_t real;                   /* bit t: label t is a number (model.loss) */
    double label_above;              /* for every other label */
    bool label_parted;               /* the job sets label_above */
    char delimiter[DELIMITER_BYTES]; /* csv */
    bool header;                     /* csv: each file starts with one */
    bool wide;                       /* numbers.h and short_keys.h can be used */
    bool multi;                      /* some field may have none or several values */
    bool weighted;                   /* values of some field have weights */
    enum entries entries;            /* libsvm, libffm */
    /* Prediction: `unlabelled`: the lines have no labels; without a header their cells are missing,
     * and `columns` counts the others. */
    bool predict, unlabelled;
    bool learnt;               /* the split is trained on: weight and time are required */
    uint32_t pass[LIMIT_PASS]; /* (pass_count): columns that a prediction passes on */
    uint32_t pass_count;
    /* number of tables of the fields (shape.table); 0 counts as 1 */
    uint32_t tables;
    uint32_t rules;                 /* number of rules by field in all tables (shape.rule_field) */
    uint8_t table_of[LIMIT_FIELDS]; /* by field number in a key: the table of the row */
    struct model_shape shape;
    struct feature_use field[LIMIT_FIELDS];       /* (shape.fields) */
    struct feature_padding padding[LIMIT_FIELDS]; /* (shape.fields) */
    uint8_t multi_form[LIMIT_FIELDS];             /* (shape.fields): enum multi_form of a MULTI */
    /* entries by index or field: the column of each number; 0: there is none */
    uint16_t column_of[CELLS_MAX];
    struct feature_use numeric[LIMIT_NUMERIC]; /* (shape.numerics) */
    /* a bit for each number that numbers.h cannot read: (NUMBERS_GROUP of them a byte) */
    uint8_t apart[LIMIT_NUMERIC / 8];
    struct scale *scale; /* owned; (scales) */
    uint16_t *scaled; /* owned; (scales): their columns, of the text that features were made of */
    uint32_t scales;
    struct feature_cross *cross; /* owned; (crosses) */
    uint32_t crosses;
    uint32_t crossed[LIMIT_FIELDS]; /* hash of the parts of each cross that is a column */
    /* feature_log1p of 0, 1, 2..: most integers of a log are small */
    float log1p[FEATURE_LOG1P_TABLE];
    struct cell *name; /* owned; (columns): names, which point into `text` */
    char *text;        /* owned */
    struct clean clean;
    struct keyed keyed; /* columns of a keyed format by name */
};

/* A column in which each row has a number or nothing, from 1; 0: none is known (feature_plan.c). */
uint32_t features_number_column(const struct features *f);
/* How the rows of a split lie in its files. */
static inline struct row_form features_rows(const struct features *f)
{
    struct row_form form = {.framing = (uint8_t)f->format->framing,
                            .header = f->header,
                            .comments = f->format->look != NULL,
                            .columns = f->columns,
                            .number = features_number_column(f)};
    memcpy(form.delimiter, f->delimiter, sizeof form.delimiter);
    return form;
}

/* True when examples have event times: from a column, or from their file's partition. */
static inline bool features_timed(const struct features *f)
{
    return f->time != FEATURE_NO_COLUMN || f->dated != 0;
}
/* True when a time lies outside the partition in the file's name. */
static inline bool features_outside(const struct features *f, uint32_t file, uint32_t time)
{
    return f->dated != 0 && (time < f->span[file].from || time >= f->span[file].to);
}
/* True when the tables' names (job.legend) define all columns, so that the training input need not
 * exist. Columns that the job knows by their places in a header are not so defined. */
bool feature_names_known(const struct job *job);
/* Makes the features. `head` is the first line of the first file, `name`, or as many lines as there
 * are where the format looks at them (format.look); NULL: the format has columns of its own, or the
 * known names are used. CONFIG: the job's columns do not fit; DATA:
 * `head` is no line of the format. */
int features_make(const struct job *job, const char *name, const char *head, size_t bytes,
                  struct features *out, struct err *e);
/* Finds the features in a file whose header has other columns or another order (csv with a
 * header). */
int features_bind(struct features *f, const char *name, const char *head, size_t bytes,
                  struct err *e);
/* Prepares features for a prediction on the split `name`, whose first row is `line`: finds the
 * columns that it passes on, and lets labels be missing. CONFIG. */
int features_predict(struct features *f, const struct job *job, const char *name,
                     const struct cell *line, struct err *e);
/* Moves the cells of a line without labels to their places and inserts empty cells for the labels.
 * `cell` has room for `columns` and the labels. */
void features_unlabelled(const struct features *f, struct cell *cell);
void features_free(struct features *f);

/* Turns cells into an example. SHOAL_E_DATA, with the cause in `reason`: a label, weight or number
 * is malformed. */
int features_example(const struct features *f, const struct cell *cell, struct example *out,
                     char *reason);

/* Hash of the line's data.sample_by value, which the features have. */
uint64_t features_sample(const struct features *f, const struct cell *cell);

/* sign(x) log(1 + |x|), with the same bits on every machine (no libm). */
float feature_log1p(double x);
/* The text that names the bucket of x: "0", or a sign and floor(log2 |x|). Returns its length; out
 * has room for 8. */
uint32_t feature_bucket(double x, char *out);
/* The key of a bucketed number: of the text that names its bucket. DATA as features_example. */
int feature_bucket_key(const struct features *f, const struct feature_use *use,
                       const struct cell *cell, uint64_t *key, char *reason);
/* Reads a finite decimal number with optional fraction and exponent, and blanks around it. False:
 * it is none. */
bool feature_number(const struct cell *cell, double *out);
/* Reads a label: a number, True (1) or False (0), in any case. */
bool feature_label(const struct cell *cell, double *out);

/* Reads an event time in seconds since 1970, 1..UINT32_MAX: in form->format if set, else a number
 * in form->unit or "YYYY-MM-DD HH:MM:SS". That may have a T, a fraction, a zone (Z, UTC, +HH,
 * +HHMM, +HH:MM; without one `zone` holds), no seconds, or the date alone. A number before 1995, or
 * one that reads as a date, is refused unless form->any. False: it is no time. */
bool feature_time(const struct cell *cell, const struct time_form *form, const struct zone *zone,
                  uint32_t *out);
/* A hash of a form; 0 to 2 for a number, by its unit. */
uint64_t feature_time_hash(const struct time_form *form);
/* The remedy for a malformed time, or "" for an empty cell; static. */
const char *feature_time_remedy(const struct cell *cell, const struct time_form *form);

/* For tools that look at tables and know values, not keys (`shoal-worker fields`).
 *
 * Adds the names of a job's fields, numbers, input columns and labels to *out, without numbers
 * (proto/job/legend.h). NOMEM. */
int feature_legend(const struct features *f, const struct job *job, struct legend *out,
                   struct err *e);
/* Adds the words by which cells mean something else than they say, the fields with `whole`, and the
 * way of libsvm's entries; not for event files, which have no cells. NOMEM. */
int feature_reading(const struct features *f, const struct job *job, struct legend *out,
                    struct err *e);
/* True when no figures of the data are missing in a scale. */
bool features_figured(const struct features *f);
/* The name of field i, cut to LIMIT_NAME. */
void feature_field_name(const struct features *f, uint32_t i, char out[LIMIT_NAME]);
/* Finds the field of this column name, or of this number in decimal. NOT_FOUND lists the fields. */
int feature_field_find(const struct features *f, const char *name, uint32_t *out, struct err *e);
/* The key that a cell with this text gives a field; of a `multi` field, one value; of a bucketed
 * number, the number. DATA: it is no number, or no id. */
int feature_field_key(const struct features *f, uint32_t field, const char *value, uint64_t *key,
                      struct err *e);
/* A list of objects: name, field (its number), key_field (the number in its keys: another field's
 * when it shares rows), kind: category, id, bucket, multi, multi id, "multi weighted" or "multi id
 * weighted"; then the fields that the
 * tables have from former jobs: name, field, kind, gone. */
struct json *feature_fields_json(const struct features *f, const struct legend *n);
/* The key of a value in a field that the tables know, by its name alone: of a category or an id.
 * NOT_FOUND, without a text: keys of the field are made in another way (a bucket, rows that fields
 * share). DATA: it is no value of the field. */
int feature_known_key(const struct legend_name *field, const char *value, uint64_t *key,
                      struct err *e);
/* The key of a value in a former job's field, given by name or number. NOT_FOUND, without a text:
 * there is no such field, or its keys were made in another way. DATA: it is no value of the
 * field. */
int feature_gone_key(const struct legend *n, const char *name, const char *value, uint64_t *key,
                     struct err *e);

#endif
