/* legend.h: the meaning of the numbers in keys. A key names its feature field, or its dense tensor,
 * by number (base/key.h). A number is given once and belongs to the name from then on, so that
 * fields may come, go and change places in a job file and rows keep their meaning.
 *
 * The names are in the last line of the job's text, which the coordinator writes, so every holder
 * of the text (workers, a checkpoint, its export) has them:
 *
 *   names: {"fields": {"user": [0, "emb", "category"], ...},
 *           "numbers": {"age": [0, "number"], ...}, "input": "user 8, item 8, age",
 *           "labels": "seconds", "real": 1, "model": "deepfm", "learnt": true, "place": "0",
 *           "columns": 4,
 *           "figures": {"age": "standard 38.2 12.1"},
 *           "cells": {"missing": "\"NA\"", "whole": "\"user\""},
 *           "tensors": {"hidden.0.weight": [3, "32x17 input"], ...}, "statistics": {...}}
 *
 * A job that has never met any tables has no such line. Its fields and tensors are numbered from 0
 * in the order of the job. Pure; one thread at a time. */
#ifndef PROTO_JOB_LEGEND_H
#define PROTO_JOB_LEGEND_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEGEND_BYTES_MAX (256u << 10) /* the longest line */
#define LEGEND_NAME 96u               /* bytes of a name, with its final NUL */
#define LEGEND_WHAT 96u               /* bytes of what a name is, with its final NUL */
#define LEGEND_NONE UINT32_MAX

enum legend_list {
    LEGEND_FIELDS,     /* sparse feature fields: their table and the source of their keys */
    LEGEND_NUMBERS,    /* numeric inputs */
    LEGEND_TENSORS,    /* tensors of the table `dense`: their shapes */
    LEGEND_STATISTICS, /* tensors of the table `dense_stats` */
    LEGEND_LISTS
};

struct legend_name {
    char name[LEGEND_NAME];
    char table[LIMIT_NAME]; /* a field: the table of its rows */
    /* a field: category, multi, id, multi id, bucket. A tensor: its shape, "32x17", followed by
     * "input" where its places stand for columns of the input, by "numbers" for the numeric
     * columns, by "labels" for labels. A number: its rule (scale.h) */
    char what[LEGEND_WHAT];
    uint32_t number; /* LEGEND_NONE: not given yet */
    bool here;       /* the present job has it; false: only its rows are there */
};

/* The figures of a column's numbers, as the text of a scale (scale.h). They stay as long as its
 * rule stays, so that rows and layers keep their meaning. */
struct legend_figures {
    char name[LEGEND_NAME]; /* name of the column */
    char *text;             /* owned */
};

/* Words by which cells and labels mean something else than they say: data.missing,
 * data.label_positive, the fields that have `whole: true`, crosses of such columns too, and the
 * word of libsvm's entries by index. */
enum legend_reading {
    LEGEND_MISSING,
    LEGEND_POSITIVE,
    LEGEND_WHOLE,
    LEGEND_ENTRIES,
    LEGEND_READINGS
};

struct legend {
    struct legend_name *name[LEGEND_LISTS]; /* owned */
    uint32_t count[LEGEND_LISTS], room[LEGEND_LISTS];
    struct legend_figures *figures; /* owned (figure_count) */
    uint32_t figure_count, figure_room;
    /* owned: quoted words with ", " between; NULL: not known, from an older release or because
     * event files have no cells */
    char *reading[LEGEND_READINGS];
    char *input; /* owned: the columns that the network reads, in order; NULL: they are not known */
    char *labels; /* owned */
    /* bit i: label i is a number (model.loss), as job_real_labels; 0 also from an older release,
     * whose labels were 0 or 1 */
    uint32_t real;
    /* the kind of the model, for two kinds may have the same tensors; "": from an older release */
    char model[LIMIT_NAME];
    /* the network had learnt before the present job (start_from): it needs no warm-up */
    bool learnt;
    /* places of the labels, where columns have no names and are named by their places; else "" */
    char place[LIMIT_NAME];
    uint32_t columns; /* the number of those columns */
};

static inline bool legend_known(const struct legend *n)
{
    return n->input != NULL;
}
void legend_free(struct legend *n); /* leaves an empty one */
/* Writes a name in the form in which it is kept. bytes: its length; which: its count among equal
 * names, from 1. A name that is too long or not UTF-8 gets its hash, the second of equal names gets
 * "#2". */
void legend_write(const char *name, size_t bytes, uint32_t which, char out[LEGEND_NAME]);
/* Adds a name of the job, without a number. NOMEM; CONFIG: the list has the name already. */
int legend_add(struct legend *n, enum legend_list list, const char *name, const char *table,
               const char *what, struct err *e);
/* The name's index in the list, or LEGEND_NONE. */
uint32_t legend_find(const struct legend *n, enum legend_list list, const char *name);

/* Sets the figures of a column, in place of those that are there. NOMEM. */
int legend_figures_put(struct legend *n, const char *name, const char *text, struct err *e);
/* The figures of a column; NULL: there are none. */
const char *legend_figures_of(const struct legend *n, const char *name);

/* Begins the readings of a job, which then are known. NOMEM. */
int legend_reading_begin(struct legend *n, struct err *e);
/* Adds a word, once they have begun. NOMEM. */
int legend_reading_add(struct legend *n, enum legend_reading which, const char *word,
                       struct err *e);
/* True when the reading is known and has the word. */
bool legend_reading_has(const struct legend *n, enum legend_reading which, const char *word);
/* True for a job's key that `fresh` may name, so that the job goes on with the rows although it
 * differs: "data.missing", "data.label_positive" or "model.loss". */
bool legend_is_reading(const char *word);

/* Finds the line in a job's text, without its end: *at, *bytes. Returns false when there is
 * none. */
bool legend_line(const char *text, size_t bytes, size_t *at, size_t *line_bytes);
/* Parses the line. CONFIG: legend_put would not write it so. */
int legend_parse(const char *line, size_t bytes, struct legend *out, struct err *e);
/* Makes a new text: the job's with this line in place of the old one; n NULL or without names:
 * without a line. *out the caller's (free). NOMEM, TOO_BIG. */
int legend_put(const char *text, size_t bytes, const struct legend *n, char **out,
               size_t *out_bytes, struct err *e);

/* The numbers for new names of the list, in the order in which they are given: first those above
 * all that are used, then those that are free again. Returns how many there are. */
uint32_t legend_numbers(const struct legend *n, enum legend_list list, uint16_t out[LIMIT_FIELDS]);
/* Returns CONFIG: the list has more names than there are numbers. */
int legend_full(enum legend_list list, uint32_t names, struct err *e);
/* True when a word of `fresh` is TABLE:* for this table: all its rows. */
bool legend_whole_table(const char *word, const char *table);
/* Gives the names of `is` the numbers that they have in `was`, and new names those of
 * legend_numbers; adds the names of `was` that `is` does not have. fresh (count): names whose rows
 * the job begins anew; a refusal says which names it may have and what to do. same: everything must
 * be as it was. CONFIG names everything that differs: a field in another table or of another kind,
 * a tensor of another shape, a new or a missing one, and all tensors that read the input where its
 * columns differ. */
int legend_match(const struct legend *was, struct legend *is, char *const *fresh,
                 size_t fresh_count, bool same, struct err *e);
/* Checks that `is`, which another program has numbered, is what legend_match makes of it.
 * CONFIG. */
int legend_agrees(const struct legend *was, const struct legend *is, char *const *fresh,
                  size_t fresh_count, bool same, struct err *e);
/* Removes the name, if the list has it. */
void legend_remove(struct legend *n, enum legend_list list, const char *name);
int legend_copy(const struct legend *from, struct legend *to, struct err *e); /* NOMEM */

#endif
