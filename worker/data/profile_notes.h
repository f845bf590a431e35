/* profile_notes.h: the rules of a profile: what of its columns looks like a mistake. */
#ifndef WORKER_DATA_PROFILE_NOTES_H
#define WORKER_DATA_PROFILE_NOTES_H

#include "proto/base/json.h"
#include "worker/data/column_seen.h"

/* A column that is used, as it is told. */
struct profile_column {
    const struct feature_use *use;
    const struct feature_padding *padding; /* of a multi */
    bool numeric;                          /* an input as a number; else a field */
    char name[LIMIT_NAME]; /* its own, or its position, as data.columns may say it */
    bool has_none;         /* a field of one value: an empty cell has the key `none` */
    uint64_t none;
    struct column_seen seen;
};

/* Sentences, added to notes, on count columns of lines of which `label` is the label. *tells: the
 * name of the one that alone tells the label, or NULL. */
void profile_notes_add(const struct profile_column *column, uint32_t count, const char *label,
                       struct json *notes, const char **tells);
/* DATA: the values of a column are not what they would be read as. */
int profile_notes_refuse(const struct profile_column *c, struct err *e);

#endif
