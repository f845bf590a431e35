/* profile_notes.h: the rules of a profile: which statistics suggest a mistake. */
#ifndef WORKER_DATA_PROFILE_NOTES_H
#define WORKER_DATA_PROFILE_NOTES_H

#include "proto/base/json.h"
#include "worker/data/column_seen.h"

/* A used column. */
struct profile_column {
    const struct feature_use *use;
    const struct feature_padding *padding; /* for a multi */
    bool numeric;                          /* a numeric input; false: a field */
    bool weighted;                         /* a multi whose values have weights */
    bool weighted_said;                    /* the job says whether they have */
    char name[LIMIT_NAME]; /* its name, or its position, as data.columns may name it */
    bool has_none;         /* a field of one value: an empty cell has the key `none` */
    uint64_t none;
    struct column_seen seen;
};

/* Adds sentences about `count` columns to notes. label: its name; NULL: it is a number, and no
 * column is looked for that tells it. *tells: the column that determines the label by itself, or
 * NULL. */
void profile_notes_add(const struct profile_column *column, uint32_t count, const char *label,
                       struct json *notes, const char **tells);
/* DATA: the values of a column do not have the form of its type. */
int profile_notes_refuse(const struct profile_column *c, struct err *e);

#endif
