/* unseen.h: values without a row, by field: how many of the values that an evaluation or a
 * prediction looked up training has never made a row of, and which fields stand out by it.
 *
 * Such a value scores as nothing at all. Some always do: what is rare, or new since. A field nearly
 * all of whose values do is written otherwise than it was in training ("34" and "34.0"). */
#ifndef PROTO_METRIC_UNSEEN_H
#define PROTO_METRIC_UNSEEN_H

#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/legend.h"

#include <stddef.h>
#include <stdint.h>

struct unseen_field {
    uint64_t field, values,
        absent; /* its number in keys; values looked up, of these without a row */
};

/* Zeros: nothing is known. */
struct unseen {
    uint32_t fields;
    struct unseen_field of[LIMIT_FIELDS];
};

/* Adds figures of (count) fields, by their numbers. */
void unseen_add(struct unseen *to, const struct unseen_field *of, uint32_t count);
/* [{"name", "values", "absent", "share"}...], the caller's; NULL: nothing is known. */
struct json *unseen_json(const struct unseen *u, const struct legend *names);
/* Adds the figures of another such list of the same fields. */
void unseen_json_add(struct json *to, const struct json *from);

/* The fields that stand out, largest share first, as a sentence about `where` ("data.valid"); ""
 * where none does: more than half of their values have no row, or UNSEEN_SHARE at least and
 * UNSEEN_TIMES the upper quartile of the other fields: where a quarter of them have rare values, as
 * the many fields of a log have, none stands out by those. */
#define UNSEEN_SHARE 0.1
#define UNSEEN_TIMES 5
void unseen_note(const struct json *list, const char *where, char *text, size_t bytes);
/* "user 12 %, item 3.1 %": the fields with a share of 0.1 % at least, largest first; "": none. */
void unseen_text(const struct json *list, char *text, size_t bytes);

#endif
