/* key.h: from what people know (a field and a value) to a row's key. The worker makes it
 * (`shoal-worker fields`), for it alone knows columns; a field that is given by number needs
 * nobody. */
#ifndef DEPLOY_CLI_KEY_H
#define DEPLOY_CLI_KEY_H

#include "deploy/cli/cli.h"

struct key_place {       /* where names of fields come from */
    const char *job;     /* job file; NULL: job.yaml of run_dir */
    const char *run_dir; /* or NULL */
};

/* word: "0x1f" or "31": a key; or "FIELD:VALUE". word NULL: field and value stand alone. FIELD is a
 * column's name or a field's number. USAGE, NOINPUT, NOT_FOUND. */
int key_take(const struct key_place *at, const char *word, const char *field, const char *value,
             uint64_t *key, struct err *e);
/* Where --job and --run-dir of a verb say. */
struct key_place key_place(const struct option_line *o);
/* The key of a verb's second word, or of --field and --value. */
int key_option(const struct option_line *o, uint64_t *key, struct err *e);
/* The list of fields of the job as `shoal-worker fields` tells it; NULL where there is no job, or
 * it cannot be told. */
struct json *key_fields(const struct key_place *at);
/* The name of the field with this number in its keys; "" when it is not known. fields may be
 * NULL. */
const char *key_field_name(const struct json *fields, uint64_t number);
/* Whether its values are ids, which stand in its keys. */
bool key_field_is_id(const struct json *fields, uint64_t number);

#endif
