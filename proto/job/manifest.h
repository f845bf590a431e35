/* manifest.h: the manifest of a checkpoint, NAME/manifest.json: what the folder holds, with a
 * checksum of each thing that is not itself checked by another. Pure: text in, text out; the
 * coordinator writes it, coordinator and command line read it. The manifests of the parts have the
 * same frame ("format" first, "xxh3" last): embedding/engine/part.h.
 *
 *   {"format": 3, "version", "name", "number", "job", "run", "date", "phase", "end": true (of the
 *    job's end; else it is not there), "epoch", "examples", "rows", "bytes", "seconds",
 *    "held_seconds", "map": {"epoch", "shards", "tablets", "ranges": [[first tablet, tablets,
 *    shard], ...]}, "tables": [TABLE],
 *    "lanes": [{"lane", "generation", "next_batch", "mark"}], "parts": [{"folder": "part-0000",
 *    "server", "rows", "bytes", "manifest": "0x..."}], "files": [{"file": "job.yaml", "bytes",
 *    "xxh3": "0x..."}, {"file": "coordinator.state", ...}], "xxh3": "0x..."}
 *
 * TABLE: {"name", "table", "space", "dense", "width", "tablet_bits", "tablet_first", "layout":
 * [{"part", "type", "width"}], "rows", "bytes" (of the images of all parts)}. "layout" names the
 * parts of a row in their order: "first" and "vector" are its weights, "state" is the optimizer's,
 * "statistics" are struct row_stats.
 *
 * One that is signed has "hashes", too: signature.h.
 *
 * "number" is one above the highest number that a checkpoint of the folder had for a name when this
 * one was begun; one that its user gave no name has it for a name.
 *
 * "manifest" of a part is the XXH3 of its own manifest file, which has the checksums of the part's
 * files. The last member is the XXH3 of all bytes before it, so that any changed bit is found. */
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

/* Letters, digits, '.', '_', '-'; not first a '.', not last ".tmp": a name is one folder, and never
 * an unfinished one. */
bool manifest_name_ok(const char *name);
/* Whether it is of tables alone (phase "tables"): it has no lanes, epoch and examples are 0. */
bool manifest_tables(const struct json *m);
/* An object without "xxh3" as the file's text; the caller frees it. NULL when out of memory. */
char *manifest_text(const struct json *m);
/* The text of one that was read, with one member set to `value`, which it takes over. */
char *manifest_text_with(const struct json *m, const char *key, struct json *value);
/* The frame alone. CHECKSUM: a byte has changed; VERSION: a newer format; CORRUPT: it has none;
 * DATA: it is no JSON. The caller calls json_free. */
int manifest_frame(const char *text, size_t bytes, struct json **out, struct err *e);
/* One element of "tables". */
struct json *manifest_table(const struct table_schema *s, const char *space);
/* A checkpoint's: as manifest_frame, and CORRUPT: a member is missing or out of range. */
int manifest_parse(const char *text, size_t bytes, struct json **out, struct err *e);
/* A name that the coordinator gives: digits alone. */
bool manifest_name_counts(const char *name);
/* For qsort, by what no clock moves: negative when `a` was made before `b`, both in one folder. By
 * number, in which those with a name of their own come before the one that has it for a name; of
 * one number by run, epoch and examples. Those of an older release that has written no number come
 * first, NULL before all. */
int manifest_order(const struct json *a, const struct json *b);
/* A "0x" number of 16 digits as json_set_hex writes it; false: none. */
bool manifest_hex(const struct json *j, uint64_t *out);
/* The entry of "files" with this name, or NULL. */
const struct json *manifest_file(const struct json *m, const char *name);
/* 0, or CHECKSUM naming the file: bytes are not those of the manifest. */
int manifest_file_check(const struct json *m, const char *name, const void *content, size_t bytes,
                        struct err *e);

#endif
