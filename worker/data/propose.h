/* propose.h: makes a job of a survey: the label, what each column becomes, what validates, and a
 * model that fits. Each choice has its reason, which the job's comments and `shoal data` tell.
 *
 *     survey_walk -propose_label-> label -survey_walk-> leaks -propose_columns-> proposal -> job */
#ifndef WORKER_DATA_PROPOSE_H
#define WORKER_DATA_PROPOSE_H

#include "proto/base/json.h"
#include "worker/data/survey.h"

#include <stdio.h>

#define PROPOSE_WHY 200u
#define PROPOSE_CANDIDATES 6u
#define PROPOSE_NOTES 32u

enum propose_use {
    PROPOSE_CATEGORY,
    PROPOSE_NUMBER,
    PROPOSE_MULTI,
    PROPOSE_SKIP,
    PROPOSE_LABEL,
    PROPOSE_TIME
};
enum propose_split {
    PROPOSE_FILES, /* data.valid has files */
    PROPOSE_TENTH, /* each tenth row validates */
    PROPOSE_LAST,  /* the last tenth of the rows, which are in order of time */
    PROPOSE_NONE
};

struct propose_column {
    enum propose_use use;
    bool whole, weighted;  /* a category: of whole numbers; a multi: with weights */
    char separator;        /* separator of a multi */
    const char *transform; /* transform of a number */
    char why[PROPOSE_WHY]; /* "": nothing to say */
};

struct proposal {
    struct survey_label label;
    bool label_sure;
    char label_why[PROPOSE_WHY];
    uint32_t candidate[PROPOSE_CANDIDATES], candidates; /* columns that may be the label instead */
    struct propose_column *column;                      /* owned; (survey.columns) */
    uint32_t time, time_form; /* a column, or FEATURE_NO_COLUMN; a form of column_form.h */
    bool ordered;             /* rows are in order of time */
    uint32_t group;           /* a column, or FEATURE_NO_COLUMN */
    bool comma;               /* numbers have decimal commas */
    uint32_t missing;         /* a bit for each word of column_form_missing */
    uint64_t unlabelled;      /* rows whose label is missing */
    enum propose_split split;
    /* TENTH, LAST: the command that prints the file, before its name; "": awk reads it */
    char unpack[64];
    uint32_t fields, numbers;
    char note[PROPOSE_NOTES][PROPOSE_WHY]; /* sentences about the whole */
    uint32_t notes;
};

/* Chooses the label. said: its name; NULL: by names and values. NOT_FOUND: there is no such column,
 * or none looks like a label; the sentence lists the columns. CONFIG: no job can have that label.
 * The label's column is FEATURE_NO_COLUMN after an error. */
int propose_label(const struct survey *s, const char *said, struct proposal *p, struct err *e);
/* Chooses the rest, after a walk with the label. NOMEM. */
int propose_columns(const struct survey *s, struct proposal *p, struct err *e);
void propose_free(struct proposal *p);

/* The job file, with comments; the caller frees it. whole: all of it; else `data`, `features` and
 * `evaluate` alone. NULL: no memory. */
char *propose_job(const struct survey *s, const struct proposal *p, bool whole);
/* The table for people, at most 80 columns wide; the caller frees it. NULL: no memory. */
char *propose_text(const struct survey *s, const struct proposal *p);
/* The same as an object; without a label it has no `label` and no `job`. */
struct json *propose_json(const struct survey *s, const struct proposal *p);

/* ---- between the files propose*.c ---- */
/* Prints words, `head` before the first line and `rest` before each other one. */
void propose_wrap(FILE *f, const char *head, const char *rest, const char *text);
const char *propose_use_name(const struct propose_column *c); /* "number standard" */

#endif
