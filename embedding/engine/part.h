/* part.h: what one shard has of a cut: a folder with rows/, journal/ and a manifest, which is
 * written, read and held against the files here. It lies in the shard's own folder (cuts/CUT), or
 * as part-PPPP in a checkpoint.
 *
 * The manifest is JSON in the frame of proto/job/manifest.h:
 *
 *   {"format": 3, "part", "parts", "cut", "sequence", "rows", "bytes" (of all files),
 *    "run": {"run", "tables": "0x..", "mode", "lanes": [lowest mark over the tablets here, ...]},
 *    "tables": [{as in proto/job/manifest.h, "rows", "bytes" (of its images), "schema":
 *      "hexadecimal digits of journal/record_schema.h", "tablets": [[first, count], ...]}],
 *    "files": [{"file": "rows/..." or "journal/...", "bytes", "xxh3": "0x..."}], "xxh3": "0x..."}
 *
 * A cut in a shard's folder has no "part" and "parts", its tables are {"table", "rows", "bytes"},
 * and its row files have no "xxh3": their blocks carry checksums of their own. A number beyond 63
 * bits is a text "0x...". What release 0.2.0 wrote instead is read by part_020.c.
 *
 * Thread: any. */
#ifndef EMBEDDING_ENGINE_PART_H
#define EMBEDDING_ENGINE_PART_H

#include "embedding/engine/engine_state.h"
#include "proto/job/signature.h"

#define PART_MANIFEST "manifest"
#define PART_NAME_BYTES 64u

struct part_file {
    char name[PART_NAME_BYTES]; /* with its folder */
    uint64_t bytes;             /* in a cut, of a segment: of its front, which is what counts */
    uint64_t checksum;
    bool summed; /* it has a checksum here */
};

struct part_range {
    uint32_t table, first, count;
};

struct part {
    char dir[LIMIT_PATH];
    const struct signature *signature; /* borrowed; NULL: none is asked for */
    uint32_t part, parts;              /* 0, 0: a cut in a shard's folder */
    bool chained;                      /* checksums are of release 0.2.0's cuts: part_checksum */
    struct cut_facts facts;            /* bytes: of all files */
    struct table_schema *schema;       /* owned; (tables), in order of their numbers */
    uint32_t tables;
    struct part_range *range; /* owned; (ranges) */
    uint32_t ranges, range_capacity;
    struct part_file *file; /* owned; (files) */
    uint32_t files, file_capacity;
};

void part_free(struct part *p);
/* CORRUPT: no tablets of a table that it has; NOMEM. */
int part_add_range(struct part *p, uint32_t table, uint32_t first, uint32_t count);
/* checksum NULL: it has none. CORRUPT: no name of a file in rows/ or journal/; TOO_BIG: too long a
 * name; NOMEM. */
int part_add_file(struct part *p, const char *name, uint64_t bytes, const uint64_t *checksum);
/* The next table, whose stored schema these hexadecimal digits are. CORRUPT, VERSION, NOMEM. */
int part_add_table(struct part *p, uint32_t number, const char *digits, size_t count,
                   struct err *e);
/* The schema of a table of this number, or NULL. */
const struct table_schema *part_table(const struct part *p, uint32_t number);
/* PATH/part-PPPP and `tail`, LIMIT_PATH long at most. */
void part_path(const char *path, uint32_t part, const char *tail, char *out);
/* 0: a checkpoint may lie there, below root (NULL, "": anywhere). MALFORMED, DENIED. */
int part_path_check(const char *root, const char *path, struct err *e);
/* Writes dir/manifest, synced. */
int part_write(const char *dir, const struct part *p, struct err *e);
/* Reads dir/manifest of a checkpoint's part; *out is to be freed whatever comes. signature (NULL:
 * none is asked for): of the checkpoint; it must have the manifest, and every file that is checked
 * for its content. NOT_FOUND, CORRUPT, DENIED, or VERSION when a later Shoal wrote it: the file is
 * named. */
int part_read(const char *dir, const struct signature *signature, struct part *out, struct err *e);
/* The same of a cut in a shard's folder. */
int part_read_cut(const char *dir, struct part *out, struct err *e);
/* The text of a manifest of either kind: of this release; of 0.2.0 and those before (part_020.c).
 * CORRUPT and VERSION name dir. */
int part_json_read(const char *text, size_t bytes, struct part *out, struct err *e);
int part_020_read(char *text, size_t bytes, struct part *out, struct err *e);
/* True: the name, in a folder of rows, is RocksDB's own business (its log, its lock): not part of a
 * checkpoint. */
bool part_passes_over(const char *name);
/* That file `index` is there with its size, and (content) its checksum, or the hash that was
 * signed. CORRUPT, CHECKSUM or DENIED names it. */
int part_check_file(const struct part *p, uint32_t index, bool content, struct err *e);
/* Calls visit for each file in rows/ and journal/ that the manifest does not name. */
int part_foreign(const struct part *p, int (*visit)(void *context, const char *path, struct err *e),
                 void *context, struct err *e);
/* Bytes and XXH3 of a file, of at most its first `most` bytes. chained: as release 0.2.0 counted it
 * in cuts, the XXH3 of each MiB with the one before it for a seed. NOT_FOUND, IO or NOMEM. */
int part_checksum(const char *path, uint64_t most, bool chained, uint64_t *bytes,
                  uint64_t *checksum);

#endif
