/* guard.h: checks a push's values before it is journalled (proto/job/gradient.h defines valid
 * values), and keeps a record of refused ones: counts by field and by worker, and a line in the
 * quarantine for each push.
 *
 * A refused push is refused whole: no row changes. The same push sent again (its reply was lost) is
 * refused again, but counted and written once. Counts are of one run, the newest that had anything
 * to count, and are in memory only. All tables are bounded: further fields and workers are counted
 * together.
 *
 * The quarantine is DIR/quarantine.jsonl, with a line of JSON for each push. Beyond its limit (64
 * MiB, or less if space is limited) it becomes quarantine.1.jsonl, and the previous one goes.
 * Refusals are stored as facts; an I/O thread makes lines of them and writes one buffer at a time.
 * Refusals that come faster than the disk takes them, or that the disk refuses, are counted as
 * lost. The file is for people, so it is not synced. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_GUARD_H
#define EMBEDDING_ENGINE_GUARD_H

#include "embedding/engine.h"
#include "embedding/engine/offload.h"
#include "proto/base/json.h"

#define GUARD_FILE_BYTES (64u << 20)
#define GUARD_QUEUE_BYTES (64u << 10)
#define GUARD_FIELDS 512u
#define GUARD_WORKERS 128u

struct guard;

/* dir: the shard's folder; NULL: nothing is kept. file_bytes: limit of a quarantine file; 0:
 * GUARD_FILE_BYTES. wall_ns: the wall clock in ns since 1970, for the lines; NULL: they have no
 * time. Borrows all. NULL: no memory. */
struct guard *guard_new(const char *dir, uint64_t file_bytes, uint64_t (*wall_ns)(void),
                        struct env *env, struct offload_list *works);
void guard_free(struct guard *g); /* after offload_drain: writes the rest; NULL is allowed */

/* 0, or SHOAL_E_NOT_FINITE with a message that names table, key, field, worker and file. Packed
 * gradients are opened only where one may be bad. */
int guard_check(struct guard *g, const struct table_schema *s, const struct push_record *r,
                struct err *e);
/* Counts rows of an accepted push whose gradients are longer than rules.norm_max and are scaled
 * down to it. */
void guard_count_clipped(struct guard *g, const struct table_schema *s,
                         const struct push_record *r);

/* {"run", "pushes", "rows", "clipped", "lost": lines that the quarantine has not kept, "file",
 *  "by_field": [{"table", "field", "refused", "clipped"}], "by_worker": [{"worker", "refused",
 *  "clipped"}]}, rows each but
 * for by_worker's refused, which are pushes; what did not fit has no field or worker. table_name:
 * of a number. */
struct json *guard_json(const struct guard *g,
                        const char *(*table_name)(void *context, uint32_t table), void *context);

#endif
