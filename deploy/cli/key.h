/* key.h: from what people know (a field and a value) to a row's key. A field's number is the one
 * that the tables know its name by (proto/job/legend.h): no job file of the user's says it. Where a
 * key is more than number and value (a bucket, another field's rows) the worker makes it
 * (`shoal-worker fields`), for it alone knows columns. */
#ifndef DEPLOY_CLI_KEY_H
#define DEPLOY_CLI_KEY_H

#include "deploy/cli/cluster.h"
#include "proto/job/legend.h"

struct key_place {     /* where names of fields come from */
    const char *job;   /* borrowed: the job file that values are read by; NULL: `text` */
    char *text;        /* owned: of the job that made the tables; NULL: it is not known */
    size_t text_bytes; /* its NUL is not counted */
    struct legend names;
};

/* Of the tables of c, with the job file that --job of a verb says. CONFIG, IO, UNAVAILABLE. */
int key_place_open(const struct option_line *o, struct cluster *c, struct key_place *out,
                   struct err *e);
void key_place_close(struct key_place *at);
/* word: "0x1f" or "31": a key; or "FIELD:VALUE". word NULL: field and value stand alone. FIELD is a
 * column's name or a field's number. USAGE, NOINPUT, NOT_FOUND. */
int key_take(const struct key_place *at, const char *word, const char *field, const char *value,
             uint64_t *key, struct err *e);
/* The key of a verb's second word, or of --field and --value, in the tables of c. */
int key_option(const struct option_line *o, struct cluster *c, uint64_t *key, struct err *e);
/* A list of name and field (its number); NULL where no names are known. */
struct json *key_fields(const struct key_place *at);
/* The name of the field with this number in its keys; "" when it is not known. fields may be
 * NULL. */
const char *key_field_name(const struct json *fields, uint64_t number);
/* true: the field's values are ids, which stand in its keys. */
bool key_field_is_id(const struct json *fields, uint64_t number);

#endif
