/* key.h: from a field and a value, as users know them, to a row's key. A field's number is the one
 * under which the tables know its name (proto/job/legend.h); the user's job files do not contain
 * it. Where a key is more than number and value (a bucket, another field's rows) the worker makes
 * it (`shoal-worker fields`), because only the worker knows columns. */
#ifndef DEPLOY_CLI_KEY_H
#define DEPLOY_CLI_KEY_H

#include "deploy/cli/reader.h"
#include "proto/job/legend.h"

struct key_place {     /* where names of fields come from */
    const char *job;   /* borrowed: the job file by which values are read; NULL: `text` */
    const char *table; /* borrowed: named fields are to have their rows there; NULL: anywhere */
    char *text;        /* owned: the job that made the tables; NULL: unknown */
    size_t text_bytes; /* without its NUL */
    struct legend names;
    uint32_t asked; /* keys that the worker made so far, a process each */
};
#define KEY_ASKED_MOST 1000u

/* For the tables of c, with the job file that a verb's --job names. CONFIG, IO, UNAVAILABLE. */
int key_place_open(const struct option_line *o, struct reader *c, struct key_place *out,
                   struct err *e);
void key_place_close(struct key_place *at);
/* word: "0x1f" or "31" is a key; "FIELD:VALUE" names one. word NULL: field and value name it. FIELD
 * is a column's name or a field's number. USAGE, NOINPUT, NOT_FOUND; DATA: the value is no id;
 * TOO_BIG: more than KEY_ASKED_MOST keys that the worker makes. */
int key_take(struct key_place *at, const char *word, const char *field, const char *value,
             uint64_t *key, struct err *e);
/* The key that a verb's second word, or --field and --value, name in the tables of c. */
int key_option(const struct option_line *o, struct reader *c, uint64_t *key, struct err *e);
/* A list of name and field (its number); NULL: no names are known. */
struct json *key_fields(const struct key_place *at);
/* The name of the field with this number in its keys; "": unknown. fields may be NULL. */
const char *key_field_name(const struct json *fields, uint64_t number);
/* True when the field's values are ids, which its keys contain. */
bool key_field_is_id(const struct json *fields, uint64_t number);

#endif
