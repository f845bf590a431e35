/* unseen.h: values without a row, by field. An evaluation or a prediction counts the values that it
 * looked up and those of which training has never made a row, and names the fields that stand out.
 *
 * A value without a row contributes nothing to a score. Some values always lack one, because they
 * are rare or new. If nearly all values of a field do, the field is written differently than in
 * training ("34" and "34.0"). */
#ifndef PROTO_METRIC_UNSEEN_H
#define PROTO_METRIC_UNSEEN_H

#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/legend.h"

#include <stddef.h>
#include <stdint.h>

struct unseen_field {
    uint64_t field, values, absent; /* its number in keys; values looked up; those without a row */
};

/* Zeros: not known. */
struct unseen {
    uint32_t fields;
    struct unseen_field of[LIMIT_FIELDS];
};

/* Adds the figures of `count` fields, by their numbers. */
void unseen_add(struct unseen *to, const struct unseen_field *of, uint32_t count);
/* Returns [{"name", "values", "absent", "share"}...], which the caller owns; NULL: not known. */
struct json *unseen_json(const struct unseen *u, const struct legend *names);
/* Adds the figures of another list of the same fields. */
void unseen_json_add(struct json *to, const struct json *from);

/* Writes a sentence about `where` ("data.valid") that names the fields that stand out, largest
 * share first; "" when none does. A field stands out when more than half of its values have no row.
 * It also does when UNSEEN_SHARE of them or more have none, and that is at least UNSEEN_TIMES the
 * upper quartile of the other fields. So where a quarter of the fields have rare values, as in a
 * log with many fields, rare values alone make none stand out. */
#define UNSEEN_SHARE 0.1
#define UNSEEN_TIMES 5
void unseen_note(const struct json *list, const char *where, char *text, size_t bytes);
/* Writes "user 12 %, item 3.1 %": the fields with a share of 0.1 % or more, largest first; "":
 * none. */
void unseen_text(const struct json *list, char *text, size_t bytes);

#endif
