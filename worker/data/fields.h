/* fields.h: which fields a job has, by name, and the key of a raw value in one of them: what
 * `shoal-worker fields` tells those who look at tables and know values, not keys. */
#ifndef WORKER_DATA_FIELDS_H
#define WORKER_DATA_FIELDS_H

#include "proto/base/json.h"
#include "worker/data/feature.h"

/* The name of field i, cut to LIMIT_NAME. */
void fields_name(const struct features *f, uint32_t i, char out[LIMIT_NAME]);
/* The field of this column name, or of this number in decimal. NOT_FOUND names those that there
 * are. */
int fields_find(const struct features *f, const char *name, uint32_t *out, struct err *e);
/* The key that a cell with this text gives a field (of a `multi` field: one of its values; of a
 * number taken as buckets: the number). DATA when it is no number. */
int fields_key(const struct features *f, uint32_t field, const char *value, uint64_t *key,
               struct err *e);
/* A list: name, field (its number), key_field (the number in its keys: another one's where it
 * shares that one's rows), kind: category, multi or bucket. */
struct json *fields_json(const struct features *f);

#endif
