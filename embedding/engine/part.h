/* part.h: one shard's part of a cut: a folder with rows/, journal/ and a manifest. The functions
 * write the manifest, read it and compare it with the files. The folder is cuts/CUT of the shard,
 * or part-PPPP of a checkpoint.
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
 * bits is a text "0x...". part_020.c reads the manifests of release 0.2.0.
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
    uint64_t bytes;             /* its length; for a segment in a cut that of its valid front */
    uint64_t checksum;
    bool summed; /* `checksum` is set */
};

struct part_range {
    uint32_t table, first, count;
};

struct part {
    char dir[LIMIT_PATH];
    const struct signature *signature; /* borrowed; NULL: none is required */
    uint32_t part, parts;              /* 0, 0: a cut in a shard's folder */
    bool chained;                      /* checksums are of release 0.2.0's cuts: part_checksum */
    struct cut_facts facts;            /* bytes: of all files */
    struct table_schema *schema;       /* owned; (tables), in order of their numbers */
    uint32_t schema_capacity;
    uint32_t tables;
    struct part_range *range; /* owned; (ranges) */
    uint32_t ranges, range_capacity;
    struct part_file *file; /* owned; (files) */
    uint32_t files, file_capacity;
};

void part_free(struct part *p);
/* Adds a range of tablets. CORRUPT: the table or the tablets do not exist; NOMEM. */
int part_add_range(struct part *p, uint32_t table, uint32_t first, uint32_t count);
/* Adds a file; checksum NULL: it has none. CORRUPT: the name is not one of a file in rows/ or
 * journal/; TOO_BIG: the name is too long; NOMEM. */
int part_add_file(struct part *p, const char *name, uint64_t bytes, const uint64_t *checksum);
/* Adds the next table, with its stored schema in hexadecimal digits. CORRUPT, VERSION, NOMEM. */
int part_add_table(struct part *p, uint32_t number, const char *digits, size_t count,
                   struct err *e);
/* Returns the schema of the table with this number, or NULL. */
const struct table_schema *part_table(const struct part *p, uint32_t number);
/* Writes PATH/part-PPPP and `tail` to out (LIMIT_PATH). */
void part_path(const char *path, uint32_t part, const char *tail, char *out);
/* 0 if a checkpoint may be there, below root (NULL, "": anywhere). MALFORMED, DENIED. */
int part_path_check(const char *root, const char *path, struct err *e);
/* Writes dir/manifest, synced. */
int part_write(const char *dir, const struct part *p, struct err *e);
/* Reads dir/manifest of a checkpoint's part; *out must be freed after any status. signature: the
 * checkpoint's (NULL: none is required); it must have the manifest, and every file whose content is
 * checked. NOT_FOUND, CORRUPT, DENIED, or VERSION when a later release wrote it: the file is
 * named. */
int part_read(const char *dir, const struct signature *signature, struct part *out, struct err *e);
/* The same for a cut in a shard's folder. */
int part_read_cut(const char *dir, struct part *out, struct err *e);
/* Read the text of a manifest of either kind: of this release; of 0.2.0 and older ones
 * (part_020.c). CORRUPT and VERSION name dir. */
int part_json_read(const char *text, size_t bytes, struct part *out, struct err *e);
int part_020_read(char *text, size_t bytes, struct part *out, struct err *e);
/* True when a name in a folder of rows is a file of RocksDB's own (its log, its lock), which is not
 * part of a checkpoint. */
bool part_passes_over(const char *name);
/* Checks that file `index` exists with its size, and (content) its checksum, or the hash that was
 * signed. CORRUPT, CHECKSUM or DENIED names it. */
int part_check_file(const struct part *p, uint32_t index, bool content, struct err *e);
/* Calls visit for each file in rows/ and journal/ that the manifest does not name. */
int part_foreign(const struct part *p, int (*visit)(void *context, const char *path, struct err *e),
                 void *context, struct err *e);
/* Computes bytes and XXH3 of a file, of at most its first `most` bytes. chained: as release 0.2.0
 * did for cuts, the XXH3 of each MiB with the one before it as seed. NOT_FOUND, IO or NOMEM. */
int part_checksum(const char *path, uint64_t most, bool chained, uint64_t *bytes,
                  uint64_t *checksum);

#endif
