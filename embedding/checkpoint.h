/* checkpoint.h: a checkpoint as it lies in a folder, read by tools and by engine_load. It stands
 * alone: no shard needs to run.
 *
 *     PATH/part-PPPP/manifest     facts, schemas, tablets and files of one shard's part
 *                                 (engine/part.h)
 *     PATH/part-PPPP/rows/        RocksDB: images of tablets (stored.h)
 *     PATH/part-PPPP/journal/     segments: the records above the images, up to the cut
 *
 * The coordinator's manifest in PATH says which tablets are missing; nothing else of it is read
 * here. A part is never changed once it has its name, and the checkpoint is not removed while it is
 * open (proto/job/reading.h). All functions may block and none writes; thread: any, one at a time
 * for each struct checkpoint. */
#ifndef EMBEDDING_CHECKPOINT_H
#define EMBEDDING_CHECKPOINT_H

#include "embedding/table.h"
#include "proto/base/table_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct checkpoint;

struct checkpoint_facts {
    uint64_t cut;
    uint64_t run;                /* the run of its marks and clocks; 0: no run was open */
    struct table_set run_tables; /* the tables that count in the run's clocks */
    uint32_t lanes, mode;
    uint32_t parts, tables;
    uint64_t rows, bytes; /* sums over all parts */
    /* tablets that are in no part: the checkpoint was made without servers that were away, as its
     * manifest.json says (proto/job/manifest.h) */
    uint32_t missing;
};

/* Reads the manifests of all parts. Checks that they belong to one checkpoint, that each tablet of
 * each table is in exactly one part (or in none, where manifest.json has "missing"), and that every
 * file exists with its size; contents are not read yet. signers: a file of keys
 * (proto/job/signature.h), one of which must have signed the checkpoint; then a manifest is
 * accepted only if the signature has it, and verifying uses the signature's hashes. NULL or "": no
 * signature is required. NOT_FOUND (no parts under path), CORRUPT (the file is named), DENIED. */
int checkpoint_open(const char *path, const char *signers, struct checkpoint **out, struct err *e);
void checkpoint_close(struct checkpoint *c);
/* valid until checkpoint_close, as all results below */
const struct checkpoint_facts *checkpoint_facts(const struct checkpoint *c);
/* The i-th table, i < facts.tables, in order of their numbers. */
const struct table_schema *checkpoint_table(const struct checkpoint *c, uint32_t i);
/* Bytes of the i-th table's images in all parts, and their rows. A part of an older release knows
 * only its rows of all tables together: they count as rows of the widest table that is not
 * dense. */
struct checkpoint_size {
    uint64_t rows, bytes;
};
struct checkpoint_size checkpoint_table_size(const struct checkpoint *c, uint32_t i);
/* Index of the table with this name; UINT32_MAX: there is none. */
uint32_t checkpoint_find(const struct checkpoint *c, const char *name);
/* Lowest mark of a lane of the run over all tablets; the lane continues with the batch after it. */
uint64_t checkpoint_mark(const struct checkpoint *c, uint32_t lane);
/* How many tablets of the i-th table are in no part. */
uint32_t checkpoint_missing(const struct checkpoint *c, uint32_t i);
/* The part that has a tablet of the i-th table; UINT32_MAX: none has it. */
uint32_t checkpoint_part_of(const struct checkpoint *c, uint32_t i, uint32_t tablet);

/* A damaged file, and the first tablet that cannot be read because of it. */
struct checkpoint_damage {
    const char *file;  /* path */
    const char *text;  /* a sentence with the cause */
    const char *table; /* NULL: no tablet is concerned, or it is unknown */
    uint32_t tablet;
};
typedef void (*checkpoint_damage_visit)(void *context, const struct checkpoint_damage *d);
/* Reads every file and compares sizes and checksums. 0: all match; else the code of the first
 * damage, with its sentence in e. visit is called for each damaged, missing or foreign file. visit
 * NULL: the check ends at the first damage and names no tablet. */
int checkpoint_verify(struct checkpoint *c, checkpoint_damage_visit visit, void *context,
                      struct err *e);
/* The same for the files of one part, up to the first damage. */
int checkpoint_verify_part(struct checkpoint *c, uint32_t part, struct err *e);

/* Reads the tablets of part `part` (UINT32_MAX: of all parts) of the i-th table into a table in
 * memory: images, and the records above them. The caller frees the table (table_free) and owns the
 * arena. CORRUPT, CHECKSUM, NOMEM. */
int checkpoint_table_read(struct checkpoint *c, uint32_t i, uint32_t part, struct arena *arena,
                          struct table **out, struct err *e);
/* The same for tablets [first, first + count) of all parts. A part without any of them is not
 * opened; every other one has its records read once for each call. */
int checkpoint_span_read(struct checkpoint *c, uint32_t i, uint32_t first, uint32_t count,
                         struct arena *arena, struct table **out, struct err *e);
/* Bytes of a row of the table that is read: table_row_bytes. */
size_t checkpoint_row_bytes(const struct table_schema *s);
/* Calls use for each tablet of the i-th table that has anything: rows, or keys with names. One part
 * of the table is in memory at a time. use returns 0 or a status, which ends the walk. */
int checkpoint_tablets(struct checkpoint *c, uint32_t i,
                       int (*use)(void *context, const struct table *t, uint32_t tablet),
                       void *context, struct err *e);

/* Visits the name of every file of all parts, relative to the checkpoint's folder. Ends at the
 * first status other than 0 and returns it. */
int checkpoint_files(const struct checkpoint *c,
                     int (*visit)(void *context, const char *name, struct err *e), void *context,
                     struct err *e);

/* Tells how a load into tables of these schemas would translate rows, by the rules below. *notes
 * has a sentence a line ("" if nothing is translated); the caller frees it. without: bit i: to[i]
 * is left out and begins empty, whatever the schemas are. SCHEMA: the load would be refused.
 *
 *   equal schema          the tablet as it is, with all that its image has
 *   table only in the job starts empty; its marks begin at the lane's lowest mark
 *   tablet in no part     begins empty
 *   table only in the checkpoint: skipped
 *   a row's parts         a row has two parts, its first-order weights and its vector, each with
 *                         its optimizer state. A part of both schemas is kept, a part of the job
 *                         alone begins as in a new row, a part of the checkpoint alone is dropped.
 *                         Refused: vectors of another length, no part in common, a table that is
 *                         dense in one schema only
 *   another optimizer     weights kept; the state starts as the new optimizer starts a row with
 *                         these weights (ftrl also when lr, beta, l1 or l2 differ, because its
 *                         weights are a function of them). Other settings of the same optimizer:
 *                         state kept
 *   other values          fp32 from 16 bits exactly, 16 bits from fp32 to the nearest; state kept
 *   statistics added      they are zero, and the row counts as one with a vector; dropped: removed
 *   l2 of the table added or dropped: a row's count of batches begins with its next push; removed
 *   another number of tablets: rows move to the tablets of their keys. A split tablet passes its
 *                         marks on; joined tablets get the highest mark, so that no batch is
 *                         applied twice
 *   other initial values, seed, admission, ageing: apply from now on; rows stay as they are
 *
 * A translated table loses the undo of the current clock. */
int checkpoint_translation(const struct checkpoint *c, const struct table_schema *to,
                           uint32_t count, struct table_set without, char **notes, struct err *e);

#endif
