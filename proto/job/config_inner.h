/* config_inner.h: declarations that config.c, config_check.c and config_get.c share. */
#ifndef PROTO_JOB_CONFIG_INNER_H
#define PROTO_JOB_CONFIG_INNER_H

#include "proto/job/config.h"

enum { ENTRIES_MAX = 4096, PATH_MAX_BYTES = 192, SLOTS = 2 * ENTRIES_MAX };

struct entry {
    char path[PATH_MAX_BYTES];
    char *value; /* owned; NULL for an empty list */
    int line;
    bool set;    /* from --set */
    bool quoted; /* so "" is a value */
    const struct config_key *key;
};

struct config {
    char name[LIMIT_PATH];
    struct entry *entry; /* owned */
    size_t count, capacity;
    uint16_t slot[SLOTS]; /* hash table by path, open addressing: an entry's index + 1 */
    uint32_t visits;      /* nodes visited so far; an alias visits its target again */
    const struct config_key *spec;
};

/* config.c. The entry with exactly this path, or NULL. */
struct entry *config_entry_find(const struct config *c, const char *path);
/* True when path lies at or under prefix. */
bool config_path_under(const char *path, const char *prefix);

/* config_check.c. The key of a concrete path, or NULL. */
const struct config_key *config_key_find(const struct config_key *spec, const char *path);
/* The number of letters to change, add or remove to get from one text, or path, to the other. */
unsigned config_distance(const char *a, const char *b);
/* Checks every entry against the known keys and sets its key. CONFIG. */
int config_entries_check(struct config *c, const struct config_key *spec, struct err *e);
/* A number with an optional unit (k, MiB, s, min ..), in bytes or ms. Returns false for other
 * text. */
bool config_size_parse(const char *text, double *out);
bool config_number_parse(const char *text, double *out);
/* Plain digits are exact up to 63 bits, for seeds; 1e6 and 0x1f are accepted as far as a double
 * holds every whole number. */
bool config_int_parse(const char *text, int64_t *out);
int config_bool_parse(const char *text); /* 0, 1; -1 for other text */
/* the choice's index; -1 when it is none of them */
int config_choice_parse(const char *text, const char *choices);

#endif
