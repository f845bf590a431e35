/* legend.h: what the numbers in keys mean. A key says its feature field, or its dense tensor, by
 * number (base/key.h); a number is given once and belongs to the name from then on, so that fields
 * may come, go and change places in a job file and rows keep their meaning.
 *
 * The names stand in the job's text, in a last line that the coordinator writes, so whoever has the
 * text (workers, a checkpoint, its export) has them:
 *
 *   names: {"fields": {"user": [0, "emb", "category"], ...},
 *           "numbers": {"age": [0, "number"], ...}, "input": "user 8, item 8, age",
 *           "labels": "click", "model": "deepfm", "learnt": true, "place": "0", "columns": 4,
 *           "tensors": {"hidden.0.weight": [3, "32x17 input"], ...}, "statistics": {...}}
 *
 * A job that never met any tables has no such line. Its fields and tensors are numbered from 0 in
 * the order of the job. Pure; one thread at a time. */
#ifndef PROTO_JOB_LEGEND_H
#define PROTO_JOB_LEGEND_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEGEND_BYTES_MAX (256u << 10) /* of the line */
#define LEGEND_NAME 96u               /* bytes of a name, final NUL counted */
#define LEGEND_NONE UINT32_MAX

enum legend_list {
    LEGEND_FIELDS,     /* sparse feature fields: of which table, and what their keys are made of */
    LEGEND_NUMBERS,    /* numeric inputs */
    LEGEND_TENSORS,    /* of the table `dense`: shapes */
    LEGEND_STATISTICS, /* of `dense_stats` */
    LEGEND_LISTS
};

struct legend_name {
    char name[LEGEND_NAME];
    char table[LIMIT_NAME]; /* of a field: where its rows lie */
    /* a field: category, multi, id, multi id, bucket; a tensor's shape, "32x17", with "input"
     * behind it where its places stand for columns of the input, "numbers" for the numeric ones,
     * "labels" for labels; a number how it is transformed */
    char what[40];
    uint32_t number; /* LEGEND_NONE: not given yet */
    bool here;       /* the job at hand has it; else only its rows are there */
};

struct legend {
    struct legend_name *name[LEGEND_LISTS]; /* owned */
    uint32_t count[LEGEND_LISTS], room[LEGEND_LISTS];
    char *input;  /* owned: the columns that the network reads, in order; NULL: none are known */
    char *labels; /* owned */
    char model[LIMIT_NAME]; /* its kind: two may have the same tensors; "": an older release's */
    /* the network had learnt before the job at hand (start_from): it needs no warm-up */
    bool learnt;
    /* places of the labels, where columns have no names and are called by their places; else "" */
    char place[LIMIT_NAME];
    uint32_t columns; /* and how many there are */
};

static inline bool legend_known(const struct legend *n)
{
    return n->input != NULL;
}
void legend_free(struct legend *n); /* leaves an empty one */
/* A name as it is kept: of so many bytes, the `which`-th of its kind (1 of one that is alone). What
 * is too long or no UTF-8 is told apart by its hash, the second of its kind by "#2". */
void legend_write(const char *name, size_t bytes, uint32_t which, char out[LEGEND_NAME]);
/* Adds one that the job has, without a number. NOMEM; CONFIG: another one is called so. */
int legend_add(struct legend *n, enum legend_list list, const char *name, const char *table,
               const char *what, struct err *e);
/* Its place in the list, or LEGEND_NONE. */
uint32_t legend_find(const struct legend *n, enum legend_list list, const char *name);

/* The line of a job's text, without its end: *at, *bytes. False: there is none. */
bool legend_line(const char *text, size_t bytes, size_t *at, size_t *line_bytes);
/* Reads it. CONFIG: it is not as we write it. */
int legend_parse(const char *line, size_t bytes, struct legend *out, struct err *e);
/* A new text: the job's with this line in place of the one that it had; n NULL or without names:
 * with none. *out the caller's (free). NOMEM, TOO_BIG. */
int legend_put(const char *text, size_t bytes, const struct legend *n, char **out,
               size_t *out_bytes, struct err *e);

/* Numbers for new names of the list, in the order in which they are given: those above all that are
 * there, then those that are free again. Returns how many. */
uint32_t legend_numbers(const struct legend *n, enum legend_list list, uint16_t out[LIMIT_FIELDS]);
/* CONFIG: so many names, which are more than there are numbers. */
int legend_full(enum legend_list list, uint32_t names, struct err *e);
/* Whether a word of `fresh` is TABLE:* of this table: all its rows. */
bool legend_whole_table(const char *word, const char *table);
/* Gives the names of `is` the numbers that they have in `was`, and new ones those of
 * legend_numbers; takes over those of `was` that `is` has not. `fresh` (count) are names whose rows
 * the job begins anew: what it may name, and what to do, stands in the refusal. same: all must be
 * as it was. CONFIG names everything that differs: a field in another table or of another kind, a
 * tensor of another shape, one that is new or left over, all that read the input where its columns
 * differ. */
int legend_match(const struct legend *was, struct legend *is, char *const *fresh,
                 size_t fresh_count, bool same, struct err *e);
/* Whether somebody else's `is`, with numbers, is what legend_match makes of it. CONFIG. */
int legend_agrees(const struct legend *was, const struct legend *is, char *const *fresh,
                  size_t fresh_count, bool same, struct err *e);
/* Takes the name out, if it is there. */
void legend_remove(struct legend *n, enum legend_list list, const char *name);
int legend_copy(const struct legend *from, struct legend *to, struct err *e); /* NOMEM */

#endif
