/* manifest.h: the manifest of a checkpoint, NAME/manifest.json: the content of the folder, with
 * a checksum of each file that no other file checks. Pure: text in, text out; the
 * coordinator writes it, coordinator and command line read it. The manifests of the parts have the
 * same frame ("format" first, "xxh3" last): embedding/engine/part.h.
 *
 *   {"format": 3, "version", "name", "number", "job", "run", "date", "phase", "end": true (made
 *    at the job's end; else absent), "epoch", "examples", "rows", "bytes", "seconds",
 *    "held_seconds", "map": {"epoch", "shards", "tablets", "ranges": [[first tablet, tablets,
 *    shard], ...]}, "tables": [TABLE],
 *    "lanes": [{"lane", "generation", "next_batch", "mark"}], "parts": [{"folder": "part-0000",
 *    "server", "rows", "bytes", "manifest": "0x..."}], "files": [{"file": "job.yaml", "bytes",
 *    "xxh3": "0x..."}, {"file": "coordinator.state", ...}], "xxh3": "0x..."}
 *
 * TABLE: {"name", "table", "space", "dense", "width", "tablet_bits", "tablet_first", "layout":
 * [{"part", "type", "width"}], "rows", "bytes" (all parts' images)}. "layout" names the
 * parts of a row in their order: "first" and "vector" are its weights, "state" is the optimizer's,
 * "statistics" are struct row_stats.
 *
 * A checkpoint that was made without servers that were away also has "missing": [{"shard",
 * "server", "tables": [{"name", "tablets", "of"}]}]. No part has those tablets. "shard" is its
 * number in the fleet; the parts are numbered without gaps.
 *
 * A signed manifest has "hashes", too: signature.h.
 *
 * "number" is one above the highest number that was the name of a checkpoint in the folder when
 * this one was begun; it is the name of a checkpoint to which the user gave none.
 *
 * "manifest" of a part is the XXH3 of its own manifest file, which has the checksums of the part's
 * files. The last member is the XXH3 of all bytes before it, so every changed bit is found. */
#ifndef PROTO_JOB_MANIFEST_H
#define PROTO_JOB_MANIFEST_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 3: the manifests of parts are JSON, and tables have a layout. 2: the schemas of parts are names
 * and values. 1 and 2 are still read. */
#define MANIFEST_FORMAT 3
#define MANIFEST_FILE "manifest.json"
#define MANIFEST_STATE_FILE "coordinator.state"
#define MANIFEST_JOB_FILE "job.yaml"
#define MANIFEST_BYTES_MAX (32u << 20)

/* A name has letters, digits, '.', '_', '-'; it does not begin with '.' or end in ".tmp": it is one
 * folder, and never an unfinished one. */
bool manifest_name_ok(const char *name);
/* True when the checkpoint holds tables alone (phase "tables"): it has no lanes, and epoch and
 * examples are 0. */
bool manifest_tables(const struct json *m);
/* True when the checkpoint was made without the shards of servers that were away. `text` gets a
 * clause: "it lacks shard 1 (server b): 128 of 256 tablets of table emb". */
bool manifest_lacks(const struct json *m, char *text, size_t bytes);
/* The file's text of an object without "xxh3"; the caller frees it. NULL when out of memory. */
char *manifest_text(const struct json *m);
/* The text of a manifest that was read, with one member set to `value`, which it takes over. */
char *manifest_text_with(const struct json *m, const char *key, struct json *value);
/* Checks the frame alone. CHECKSUM: a byte has changed; VERSION: a newer format; CORRUPT: there is
 * no format; DATA: no JSON. The caller calls json_free. */
int manifest_frame(const char *text, size_t bytes, struct json **out, struct err *e);
/* One element of "tables". */
struct json *manifest_table(const struct table_schema *s, const char *space);
/* Parses a checkpoint's manifest: as manifest_frame, and CORRUPT: a member is missing or out of
 * range. */
int manifest_parse(const char *text, size_t bytes, struct json **out, struct err *e);
/* True when the coordinator gives such names: digits alone. */
bool manifest_name_counts(const char *name);
/* For qsort, without a look at the clock: negative when `a` was made before `b`, both in one
 * folder. The order is by number, in which named checkpoints come before the one whose name is the
 * number; of one number by run, epoch and examples. Checkpoints of an older release, without a
 * number, come first, and NULL before all. */
int manifest_order(const struct json *a, const struct json *b);
/* A "0x" number of 16 digits as json_set_hex writes it; returns false for other values. */
bool manifest_hex(const struct json *j, uint64_t *out);
/* The entry of "files" with this name, or NULL. */
const struct json *manifest_file(const struct json *m, const char *name);
/* 0, or CHECKSUM, which names the file: the bytes are not those of the manifest. */
int manifest_file_check(const struct json *m, const char *name, const void *content, size_t bytes,
                        struct err *e);

#endif
