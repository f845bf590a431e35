/* part.h: one shard's part of a checkpoint: its manifest as a struct, written and read, and its
 * files checked.
 *
 * The manifest is text, one fact a line, in this order; its last line is the XXH3 of all before it:
 *
 *     shoal part 2                          1: with schemas in their fixed form, still read
 *     part PART PARTS
 *     cut CUT SEQUENCE ROWS [TABLE:ROWS:BYTES]...
 *                                           of each table, its images; an older release says none
 *     run RUN TABLES(hex mask) LANES MODE
 *     lane LANE MARK                        lowest mark of each lane over the tablets of this part
 *     table NUMBER SCHEMA(hex bytes) NAME   journal/record_schema.h
 *     tablets TABLE FIRST COUNT             what of each table lies in this part
 *     file NAME BYTES XXH3                  rows/... and journal/...: the whole file, as xxhsum -H3
 *                                           counts it
 *     bytes BYTES                           of all files
 *     end XXH3
 *
 * Thread: any. */
#ifndef EMBEDDING_CHECKPOINT_PART_H
#define EMBEDDING_CHECKPOINT_PART_H

#include "embedding/engine/engine_state.h"
#include "proto/job/signature.h"

#define PART_NAME_BYTES 64u

struct part_file {
    char name[PART_NAME_BYTES]; /* with its folder */
    uint64_t bytes, checksum;
};

struct part_range {
    uint32_t table, first, count;
};

struct part {
    char dir[LIMIT_PATH];
    const struct signature *signature; /* borrowed; NULL: none is asked for */
    uint32_t part, parts;
    struct cut_facts facts;      /* bytes: of all files */
    struct table_schema *schema; /* owned; (tables), in order of their numbers */
    uint32_t tables;
    struct part_range *range; /* owned; (ranges) */
    uint32_t ranges, range_capacity;
    struct part_file *file; /* owned; (files) */
    uint32_t files, file_capacity;
};

void part_free(struct part *p);
int part_add_range(struct part *p, uint32_t table, uint32_t first, uint32_t count);
int part_add_file(struct part *p, const char *name, uint64_t bytes, uint64_t checksum);
/* PATH/part-PPPP and `tail`, LIMIT_PATH long at most. */
void part_path(const char *path, uint32_t part, const char *tail, char *out);
/* Whether a checkpoint may lie there: below root (NULL, "": anywhere). MALFORMED, DENIED. */
int part_path_check(const char *root, const char *path, struct err *e);
/* Writes dir/manifest, synced. */
int part_write(const char *dir, const struct part *p, struct err *e);
/* Reads dir/manifest; *out is to be freed whatever comes. signature (NULL: none is asked for): of
 * the checkpoint; it must have the manifest, and every file that is checked for its content.
 * NOT_FOUND, CORRUPT, DENIED, or VERSION when a later Shoal wrote it: the file is named. */
int part_read(const char *dir, const struct signature *signature, struct part *out, struct err *e);
/* Whether a name of a folder of rows is RocksDB's own business (its log, its lock): not part of a
 * checkpoint. */
bool part_passes_over(const char *name);
/* That file `index` is there with its size, and (content) its checksum, or the hash that was
 * signed. CORRUPT, CHECKSUM or DENIED names it. */
int part_check_file(const struct part *p, uint32_t index, bool content, struct err *e);
/* Calls visit for each file in rows/ and journal/ that the manifest does not name. */
int part_foreign(const struct part *p, int (*visit)(void *context, const char *path, struct err *e),
                 void *context, struct err *e);
/* Bytes and XXH3 of a whole file. NOT_FOUND, IO or NOMEM. */
int part_checksum(const char *path, uint64_t *bytes, uint64_t *checksum);

#endif
