/* checkpoint.h: a checkpoint as it lies in a folder, read by tools and by engine_load. It stands
 * alone: no shard needs to run.
 *
 *     PATH/part-PPPP/manifest     facts, schemas, tablets and files of one shard's part
 *                                 (engine/part.h)
 *     PATH/part-PPPP/rows/        RocksDB: images of tablets (stored.h)
 *     PATH/part-PPPP/journal/     segments: the records above the images, up to the cut
 *
 * What else lies in PATH (the coordinator's manifest) is none of this module's business. A part is
 * never changed once it has its name, and the checkpoint is not removed while it is open
 * (proto/job/reading.h). All functions may block and none writes; thread: any, one at a time for
 * each struct checkpoint. */
#ifndef EMBEDDING_CHECKPOINT_H
#define EMBEDDING_CHECKPOINT_H

#include "embedding/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct checkpoint;

struct checkpoint_facts {
    uint64_t cut;
    uint64_t run;        /* whose marks and clocks it holds; 0: no run was open */
    uint64_t run_tables; /* bit t: the table numbered t counts in the run's clocks */
    uint32_t lanes, mode;
    uint32_t parts, tables;
    uint64_t rows, bytes; /* of all parts */
};

/* Reads the manifests of all parts and checks that they are of one checkpoint and that each tablet
 * of each table is in exactly one of them, and that every file is there with its size. Contents are
 * not read yet. signers: a file of keys (proto/job/signature.h), one of which must have signed it:
 * then no manifest is believed that it does not have, and verifying asks for its hashes; NULL or
 * "": none. NOT_FOUND (no parts under path), CORRUPT (the file is named), DENIED. */
int checkpoint_open(const char *path, const char *signers, struct checkpoint **out, struct err *e);
void checkpoint_close(struct checkpoint *c);
/* until checkpoint_close, as all below */
const struct checkpoint_facts *checkpoint_facts(const struct checkpoint *c);
/* The i-th table, i < facts.tables, in order of their numbers. */
const struct table_schema *checkpoint_table(const struct checkpoint *c, uint32_t i);
/* What the i-th table's images of all parts take, and how many rows they have. Of a part that an
 * older release made, which knows the rows of all tables together alone: as if all of them were of
 * the widest table that is not dense. */
struct checkpoint_size {
    uint64_t rows, bytes;
};
struct checkpoint_size checkpoint_table_size(const struct checkpoint *c, uint32_t i);
/* The table of a name: its place; UINT32_MAX when there is none. */
uint32_t checkpoint_find(const struct checkpoint *c, const char *name);
/* Lowest mark of a lane of the run over all tablets: its next batch is the one after. */
uint64_t checkpoint_mark(const struct checkpoint *c, uint32_t lane);
/* Part that holds a tablet of the i-th table. */
uint32_t checkpoint_part_of(const struct checkpoint *c, uint32_t i, uint32_t tablet);

/* A damaged file, and the first tablet that cannot be read because of it. */
struct checkpoint_damage {
    const char *file;  /* its path */
    const char *text;  /* what is wrong, a sentence */
    const char *table; /* NULL: no tablet is concerned, or it cannot be told */
    uint32_t tablet;
};
typedef void (*checkpoint_damage_visit)(void *context, const struct checkpoint_damage *d);
/* Reads every file and compares sizes and checksums. 0: all is well; else the code of the first
 * damage, with its sentence in e. visit (may be NULL) is called for each damaged, missing or
 * foreign file; with NULL it ends at the first and names no tablet. */
int checkpoint_verify(struct checkpoint *c, checkpoint_damage_visit visit, void *context,
                      struct err *e);
/* The same for the files of one part, up to the first damage. */
int checkpoint_verify_part(struct checkpoint *c, uint32_t part, struct err *e);

/* The tablets of part `part` (UINT32_MAX: of all parts) of the i-th table as a table in memory:
 * images and records above them. The caller frees it (table_free) and owns the arena. CORRUPT,
 * CHECKSUM, NOMEM. */
int checkpoint_table_read(struct checkpoint *c, uint32_t i, uint32_t part, struct arena *arena,
                          struct table **out, struct err *e);
/* Bytes of a row as visit gets it: table_row_bytes. */
size_t checkpoint_row_bytes(const struct table_schema *s);
/* Every row of the i-th table, laid out as in table.h, part by part (one part of the table in
 * memory at a time), in no order. */
int checkpoint_visit(struct checkpoint *c, uint32_t i,
                     void (*visit)(void *context, const void *row), void *context, struct err *e);
/* The digest of each tablet (2^tablet_bits of them) as table_digest gives it, and the number of
 * rows. The cluster's digest of the table is hash_bytes over these, seed 0. */
int checkpoint_digest(struct checkpoint *c, uint32_t i, uint64_t *digest, uint64_t *rows,
                      struct err *e);

/* The name of every file of all parts, below the checkpoint's folder. Ends at the first status that
 * is not 0. */
int checkpoint_files(const struct checkpoint *c,
                     int (*visit)(void *context, const char *name, struct err *e), void *context,
                     struct err *e);

/* What a load into tables of these schemas would do, by the rules below: sentences, one a line, in
 * *notes (the caller frees it; "" where nothing is translated). without: bit i: to[i] is left out
 * and begins empty whatever the schemas are. SCHEMA: it would be refused.
 *
 *   equal schema          the tablet as it is, with all that its image carries
 *   table only in the job starts empty; its marks begin at the lane's lowest mark
 *   table only here       skipped
 *   a row's parts         its first-order weights and its vector, each with the optimizer's state
 *                         of it: one that both schemas have is kept, one that the job's alone has
 *                         begins as in a new row, one that it has not is dropped. Vectors of
 *                         another length, no part in common, dense here and not there: refused
 *   another optimizer     weights kept; its state starts from what the new optimizer gives a row
 *                         with these weights (ftrl likewise when lr, beta, l1 or l2 differ, for its
 *                         weights are a function of them). Other settings of the same optimizer:
 *                         state kept
 *   other values          fp32 from 16 bits exactly, 16 bits from fp32 to the nearest; state kept
 *   statistics added      zero, the vector counts as there; dropped: gone
 *   l2 of the table added or dropped: a row's count of batches begins with its next push; gone
 *   another number of tablets: rows go where their keys belong; a tablet that is split hands its
 *   marks on, tablets that
 *                         are joined get the highest, so that no batch is applied twice
 *   other initial values, seed, admission, ageing: for what comes; rows stay as they are
 * A translated table loses the undo of the clock under way. */
int checkpoint_translation(const struct checkpoint *c, const struct table_schema *to,
                           uint32_t count, uint64_t without, char **notes, struct err *e);

#endif
