/* export.h: `shoal export`: tables as files that other programs read.
 *
 *     reader -export_rows-> rows ------+-> a format -> files of a folder, which then gets its name
 *            -export_tensors-> tensors-+
 *            -export_onnx-> the network as model.onnx, in the same folder
 *
 * An array is a list of values of one type in one file or in a part of one. All formats give it the
 * same name: TABLE.COLUMN for a column of a sparse table, TABLE.TENSOR for a tensor of the network.
 * Rows of a table are in ascending order of key_mix(key), which does not depend on tablets, shards
 * or servers, so exports of equal tables are equal bytes. Memory: export.span_bytes of rows, twice
 * with --since, and one tensor. Thread: main only. */
#ifndef DEPLOY_CLI_EXPORT_H
#define DEPLOY_CLI_EXPORT_H

#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/base/npy.h"
#include "proto/job/legend.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stdint.h>

struct option_line;
struct reader;

/* ---- arrays ---- */

enum export_type { EXPORT_U64, EXPORT_U32, EXPORT_F32, EXPORT_F16, EXPORT_BF16 };
struct export_type_facts {
    const char *name; /* in safetensors and export.json */
    const char *npy;  /* NULL: numpy has no such type */
    uint32_t bytes;
};
const struct export_type_facts *export_type_facts(enum export_type type);
/* The type in which weights of a table are written. */
enum export_type export_type_of(const struct table_schema *s, bool stored);

/* TABLE.TENSOR.blocks, or a column's name with the number of its piece */
#define EXPORT_NAME (LIMIT_NAME + LEGEND_NAME + 16u)
/* The same with each byte as %XX, and the end of a file's name. */
#define EXPORT_FILE (3u * EXPORT_NAME + 16u)

struct export_array {
    char name[EXPORT_NAME];
    enum export_type type;
    uint64_t shape[NPY_DIMS];
    uint32_t dims;
};
uint64_t export_array_bytes(const struct export_array *a);

/* ---- rows ---- */

struct export_column {
    const char *name; /* "vectors" */
    const char *text; /* its columns in tsv and csv are called so and numbered; NULL: by its name */
    uint32_t number;  /* number of the first of them */
    enum export_type type;
    uint32_t count; /* values of a row; 0: one, and the array has one dimension */
    uint32_t at;    /* offset in a row */
};

enum { EXPORT_COLUMNS = 9 };
/* A row is its columns' values one behind the other, without gaps. The first column is a key. */
struct export_layout {
    char name[EXPORT_NAME]; /* "emb", "emb.erased" */
    char table[LIMIT_NAME];
    struct export_column column[EXPORT_COLUMNS];
    uint32_t columns; /* 0: the list is of tensors */
    uint32_t bytes;   /* size of a row */
    uint32_t states;  /* tensors: values of optimizer state that an element has */
};
/* The columns of a sparse table. */
struct export_layout export_layout_of(const struct table_schema *s, bool state, bool stored);
/* The list of keys that were erased from a table. */
struct export_layout export_layout_erased(const struct table_schema *s);
static inline uint32_t export_values(const struct export_column *c)
{
    return c->count > 0 ? c->count : 1;
}
/* The array of a column with so many rows. piece: its number; UINT32_MAX: the list is whole. */
struct export_array export_column_array(const struct export_layout *l, uint32_t column,
                                        uint64_t rows, uint32_t piece);

/* ---- tensors ---- */

struct export_tensor {
    struct export_array values; /* dense.hidden.0.weight */
    const char *name;           /* hidden.0.weight; borrowed */
    uint64_t count;             /* product of the shape */
    const void *value;          /* (count) of values.type */
    /* --state: (per_element, count), and (blocks, per_block), a block being `block` elements */
    const float *state, *blocks;
    uint32_t per_element, per_block, block;
};

/* ---- formats ---- */

struct export;
struct export_file;

/* Rows of one layout, or tensors of one table, on their way to files. */
struct export_list {
    struct export *export; /* borrowed */
    struct export_layout layout;
    struct json *arrays;   /* borrowed: what export.json says of the arrays */
    uint64_t rows;         /* rows of the piece that is written */
    uint32_t piece, spool; /* safetensors: its number, and that of its first file */
    struct export_file *file[EXPORT_COLUMNS]; /* owned; one a column, or the first alone */
};

/* Writes the arrays of a tensor, one after the other: its values, then those of the state that it
 * has, TENSOR.state and TENSOR.blocks. */
typedef int (*export_array_write)(struct export_list *l, const struct export_array *a,
                                  const void *data, struct err *e);
int export_tensor_write(struct export_list *l, const struct export_tensor *t,
                        export_array_write write, struct err *e);

struct export_format {
    const char *name;
    const char *why_not_stored; /* the reason why it cannot have 16-bit types; NULL: it can */
    int (*begin)(struct export_list *l, struct err *e);
    int (*row)(struct export_list *l, const unsigned char *row, struct err *e);
    int (*tensor)(struct export_list *l, const struct export_tensor *t, struct err *e);
    int (*end)(struct export_list *l, struct err *e);
    int (*finish)(struct export *x, struct err *e); /* after the last list; NULL: nothing to do */
};
extern const struct export_format export_npy;
extern const struct export_format export_safetensors;
extern const struct export_format export_tsv;
extern const struct export_format export_csv;

struct export_shards; /* export_safetensors.c */
struct export
{
    const struct export_format *format;
    char folder[LIMIT_PATH + 8]; /* the files are made here */
    bool state, stored;
    uint64_t span_bytes;  /* rows that are in memory at once */
    uint64_t shard_bytes; /* data of a file of safetensors, at most, unless one array has more */
    struct export_shards *shards; /* owned; NULL: none yet */
};

/* Frees what the format keeps. */
void export_free(struct export *x);
/* Closes the files of a list that was not ended. */
void export_list_free(struct export_list *l);
/* Adds an array to what export.json says. file: NULL where the format's own index says it. */
void export_array_note(struct json *arrays, const struct export_array *a, const char *file);

/* ---- the walk ---- */

struct export_counts {
    uint64_t rows, erased; /* written; of a dense table: rows, its blocks */
    uint64_t left_out;     /* blocks of tensors that the job does not have any more */
    uint32_t numbers;      /* numbers of a row: weights and state */
    uint32_t tensors;
};

/* Writes the rows of table `index`. since NULL: all of them. Else those that differ from the rows
 * of table `was` of `since` (UINT32_MAX: it has no such table), and the keys that only `since` has.
 * CONFIG: the two tables have other columns. */
int export_rows(struct export *x, struct reader *from, uint32_t index, struct reader *since,
                uint32_t was, struct json *arrays, struct export_counts *out, struct err *e);
/* Writes the tensors of a dense table, whose names are in a list of the legend. tensors: the list
 * of export.json. NOINPUT: a tensor has no rows. CONFIG: a shape cannot be read. */
int export_tensors(struct export *x, struct reader *from, uint32_t index,
                   const struct legend_name *name, uint32_t names, struct json *tensors,
                   struct export_counts *out, struct err *e);

/* ---- the network ---- */

#define EXPORT_ONNX "model.onnx"
/* Writes the network of the job that made the tables as ONNX, all its tensors in memory. where:
 * for messages. NOINPUT: no job has trained there, or the columns of its input are known by that
 * input alone, which is gone. TOO_BIG: a file of ONNX has at most 2 GiB. */
int export_onnx(const struct export *x, struct reader *from, const char *where, struct err *e);

/* ---- export.json ---- */

#define EXPORT_TOLD "export.json"
struct export_told {
    struct json *whole, *tables, *tensors, *optimizers; /* whole owns the others */
};
void export_told_begin(struct export_told *t, const struct export *x);
/* Writes a checkpoint's job, date and counts under `member`; null where the folder has none. */
void export_told_folder(struct export_told *t, const char *member, const char *folder);
void export_told_fields(struct export_told *t, const struct legend *names);
/* A sparse table; returns its list of arrays. */
struct json *export_told_table(struct export_told *t, const struct table_schema *s);
/* The counts of the table that was begun last. */
void export_told_rows(struct export_told *t, const struct export_counts *c, bool since);
void export_told_optimizer(struct export_told *t, const struct table_schema *s);
/* Writes the file. */
int export_told_write(struct export_told *t, const struct export *x, struct err *e);
void export_told_free(struct export_told *t);

/* ---- the folder ---- */

struct export_folder {
    char path[LIMIT_PATH], temporary[LIMIT_PATH + 8];
    int lock; /* -1: none */
};
/* Makes PATH.tmp, after it has removed one that a broken-off export left. EXISTS: PATH is there;
 * CANTCREATE: it cannot be made, another export writes it now, or PATH.tmp is something else. */
int export_folder_begin(struct export_folder *f, const char *path, struct err *e);
/* Gives it its name, synced. Errors as above. */
int export_folder_end(struct export_folder *f, struct err *e);
/* Removes it unless it has its name. */
void export_folder_free(struct export_folder *f);

/* The name of a file in the folder, without its end: bytes other than letters, digits, '.', '_',
 * '+', '#' and '-' are %XX, and so is a leading '.'. */
void export_file_name(const char *name, char out[EXPORT_FILE]);

/* `shoal checkpoint export` of releases before this one: prints the line of today. Returns the exit
 * status. */
int export_moved(int argc, char **argv);

#endif
