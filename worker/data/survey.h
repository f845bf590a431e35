/* survey.h: looks at files of which nothing is known: which of them belong together, their format,
 * and what each column looks like. propose.h makes a job of it.
 *
 *     names -survey_files-> parts of one layout -survey_walk-> forms of columns
 *
 * Reading stops after a number of rows of each part; memory does not grow with the files. Blocks;
 * one thread. */
#ifndef WORKER_DATA_SURVEY_H
#define WORKER_DATA_SURVEY_H

#include "worker/data/column_form.h"
#include "worker/data/front.h"
#include "worker/data/guess.h"
#include "worker/data/layout.h"
#include "worker/data/lines.h"

#define SURVEY_ROWS_DEFAULT "200000"
#define SURVEY_FILES 65536u

struct survey_column {
    char name[LIMIT_NAME]; /* as a job names it: by position where the header has none */
    bool unnamed;
    struct column_form form;
};

/* Rows of the label that count as positive. */
struct survey_label {
    uint32_t column; /* FEATURE_NO_COLUMN: not known yet */
    double above;
    char positive[COLUMN_SEEN_TEXT]; /* the word that is positive; "": numbers are */
    bool parted, words;              /* `above` and `positive` are set */
    bool real;                       /* the label is a number to predict: no row is positive */
};

/* The files that train, validate or test. */
struct survey_part {
    struct string_list names;
    uint64_t rows, bad, positives; /* rows: good ones that were looked at */
    bool whole;                    /* these are all */
    double all;                    /* rows of all files, estimated by their sizes; 0: not known */
    char
        bad_first[REASON_BYTES + LIMIT_PATH]; /* file, line and reason of the first malformed row */
};

struct survey {
    struct layout layout;
    struct survey_part part[GUESS_ROLES];
    struct front front[GUESS_ROLES]; /* open while the survey lasts: streams are read once */
    bool by_name;                    /* the names of the files tell the parts */
    bool by_order;           /* the last of several files is for validation, no name tells */
    struct string_list left; /* sentences on files that are left out */
    struct features features;
    uint64_t head_line; /* number of the first line that is not empty, of the first training file */
    struct survey_column *column; /* owned; (columns); of the training part */
    uint32_t columns;
    bool breaks; /* some cell has a line end in it */
    struct cache cache;
    uint64_t rows_most; /* rows of a part at most; 0: all */
};

/* Finds the files of `words` (files, folders, globs, - for standard input), their layout and parts.
 * folder: for decoded text. The caller calls survey_free, after an error too. NOINPUT, DATA with
 * the kind of the file, IO, NOMEM. */
int survey_files(struct survey *s, const struct string_list *words, const char *folder,
                 uint64_t rows_most, struct err *e);
/* Walks the rows of all parts and fills the forms of the columns. CONFIG: the columns cannot be
 * those of a job, which knows a column by its name: two have the same one, or one is too long. IO,
 * NOMEM. */
int survey_walk(struct survey *s, const struct survey_label *label, struct err *e);
/* Makes the features of a proposed job on these files. CONFIG, DATA: the job does not fit. */
int survey_try(struct survey *s, const struct job *job, struct err *e);
void survey_free(struct survey *s);
/* The first line, record or lines of a text of LAYOUT_BYTES or fewer bytes, as features_make takes
 * them. DATA: the record is longer than the text. A pure function. */
int survey_head(const struct format *format, const char *text, size_t bytes, const char **head,
                size_t *head_bytes, struct err *e);

#endif
