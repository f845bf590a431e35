/* import.h: the parts of `shoal import`: rows of files go into a table of a running cluster.
 *
 *   files --import_source--> a key as written, numbers of a row   (import_arrays.c, import_dense.c,
 *                                                                  import_text.c)
 *         --import_keys----> Shoal's key; duplicates and collisions are found   (import_keys.c)
 *         --import_erased--> keys whose rows go                   (import_erased.c)
 *         --import_send----> the shards                           (import_send.c)
 *
 * Everything is read and checked before the first row is sent (import.c). Thread: main only. */
#ifndef DEPLOY_CLI_IMPORT_H
#define DEPLOY_CLI_IMPORT_H

#include "deploy/cli/cli.h"
#include "embedding/table.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- files ----------------------------------------------------------------------------------- */

struct import_file { /* a file that is mapped into memory */
    char path[LIMIT_PATH];
    const void *data;
    uint64_t bytes;
};
/* NOINPUT, IO. */
int import_file_open(const char *path, struct import_file *out, struct err *e);
void import_file_close(struct import_file *f);

/* ---- sources --------------------------------------------------------------------------------- */

enum import_form {
    IMPORT_RAW,     /* keys are the table's own */
    IMPORT_INTEGER, /* the value is an integer, written in decimal digits */
    IMPORT_TEXT     /* the value as it stands in the file */
};

struct import_key {   /* key of a row, as its file has it */
    uint64_t number;  /* RAW, INTEGER */
    bool negative;    /* INTEGER: number is its two's complement */
    const char *text; /* TEXT: (bytes), lent until the next row */
    size_t bytes;
};

/* Rows one after the other, any number of times. Numbers of a row: the weights (width), then what
 * `parts` says, as table_assign takes them. */
struct import_source {
    enum import_form form;
    uint32_t parts; /* ASSIGN_STATE | ASSIGN_STATS: what the files have */
    uint32_t floats;
    /* 1: a row; 0: there are no more; DATA with the place. */
    int (*next)(struct import_source *s, struct import_key *key, float *row, struct err *e);
    void (*rewind)(struct import_source *s);
    /* Writes the place of the row that next has given last: "v.npy row 7". */
    void (*place)(const struct import_source *s, char *out, size_t bytes);
    uint64_t (*sum)(const struct import_source *s); /* XXH3 of the files, one after the other */
    void (*close)(struct import_source *s);         /* frees it */
    uint64_t checksum;                              /* sum, when it was opened */
    char names[96];                                 /* names of the files, for the audit */
};

/* The files of a line. */
struct import_line {
    const char *path;                  /* a file or a folder; NULL: none */
    const char *ids, *weights, *state; /* npy files, or arrays of `path`; NULL: not named */
    const struct table_schema *schema; /* schema of the table */
    bool raw;                          /* keys of files that are no export are the table's own */
    const struct legend *names;        /* names of the tables, for the network's tensors */
    struct json *fields;               /* out; owned: those of export.json, or NULL */
};
/* Each opens what the line names: arrays of npy or safetensors, a folder of a dense table, tsv or
 * csv. */
int import_arrays_open(struct import_line *l, struct import_source **out, struct err *e);
int import_dense_open(struct import_line *l, struct import_source **out, struct err *e);
int import_text_open(const struct import_line *l, struct import_source **out, struct err *e);
/* True for a name that ends in .tsv or .csv. */
bool import_is_text(const char *path);
/* The same of a text in memory, which the caller owns; separator: '\t' or ','. */
int import_text_of(const struct import_line *l, const char *text, size_t bytes, char separator,
                   struct import_source **out, struct err *e);

/* ---- erased keys ----------------------------------------------------------------------------- */

struct import_erased { /* erased keys of a difference (`shoal export --since`) */
    bool difference;
    uint64_t *key; /* owned; (count), in the order of key_mix: keys whose rows go */
    size_t count, room;
};
/* Reads those of the folder, or of the safetensors file, that the line names; none where it is no
 * difference. DATA, NOINPUT, NOMEM. Freed in any case. */
int import_erased_read(const struct import_line *l, struct import_erased *out, struct err *e);
void import_erased_free(struct import_erased *x);
/* Adds those of the text of TABLE.erased.tsv or .csv. */
int import_erased_text(struct import_erased *x, const char *text, size_t bytes, struct err *e);

/* ---- keys ------------------------------------------------------------------------------------ */

struct import_keys; /* keys of all rows, in the order of the rows */

struct import_naming { /* how a value becomes a key */
    bool raw, id;      /* id: the field's keys contain their values */
    uint32_t field;
};
int import_keys_new(const struct import_naming *naming, struct import_keys **out, struct err *e);
void import_keys_free(struct import_keys *k);
/* Adds the key of the next row. DATA: the field has no key for its value. */
int import_keys_add(struct import_keys *k, enum import_form form, const struct import_key *key,
                    struct err *e);
uint64_t import_keys_count(const struct import_keys *k);
/* Once all are added: finds keys that are there twice. DATA: the same value in two rows. Of two
 * values that share a key the one that comes first keeps it; the other row is left out. */
int import_keys_check(struct import_keys *k, struct err *e);
uint64_t import_keys_collisions(const struct import_keys *k);
/* True when the row (from 0) is left out. Rows are asked for in rising order. */
bool import_keys_left_out(struct import_keys *k, uint64_t row);
void import_keys_rewind(struct import_keys *k);
uint64_t import_keys_at(const struct import_keys *k, uint64_t row);

/* ---- sending --------------------------------------------------------------------------------- */

struct import_order {
    const char *endpoint; /* endpoints of the coordinators */
    const char *space;    /* whose table; "": the only one's */
    const struct table_schema *schema;
    struct import_source *source;
    struct import_keys *keys;
    bool keep;
    bool quiet; /* no progress */
    /* asked every few seconds while rows are sent: why the import cannot end well any more */
    int (*asks)(void *context, struct err *e);
    void *context;
};
struct import_counts {
    uint64_t sent, made, replaced, kept, blocked;
};
int import_send(const struct import_order *o, struct import_counts *out, struct err *e);

#endif
