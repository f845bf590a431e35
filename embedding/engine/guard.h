/* guard.h: the door that a push's values go through before it is journalled (proto/job/gradient.h
 * says what is good), and the book of what did not get through: counts by field and by worker, a
 * line in the quarantine for each push.
 *
 * A push that is refused is refused whole: no row changes. The same push sent again (its refusal
 * was lost) is refused again, but counted and written once. Counts are of one run, the newest that
 * had anything to count, and are kept in memory only. All tables are bounded: fields and workers
 * past them are counted together.
 *
 * The quarantine is DIR/quarantine.jsonl, one line of JSON each. Past its bytes (64 MiB, where
 * space does not say less) it becomes quarantine.1.jsonl, and the one before goes. What is refused
 * is noted as facts; lines are made of them and written on an I/O thread, one buffer at a time.
 * Those that come faster than the disk takes them, and those that the disk does not take, are
 * counted as lost. For people, so nothing is synced. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_GUARD_H
#define EMBEDDING_ENGINE_GUARD_H

#include "embedding/engine.h"
#include "embedding/engine/work.h"
#include "proto/base/json.h"

#define GUARD_FILE_BYTES (64u << 20)
#define GUARD_QUEUE_BYTES (64u << 10)
#define GUARD_FIELDS 512u
#define GUARD_WORKERS 128u

struct guard;

/* dir: the shard's folder; NULL: nothing is kept. file_bytes: of one file of the quarantine, 0:
 * GUARD_FILE_BYTES. wall_ns: seconds since 1970 in ns, for the lines' time; NULL: they have none.
 * Borrows all. NULL: out of memory. */
struct guard *guard_new(const char *dir, uint64_t file_bytes, uint64_t (*wall_ns)(void),
                        struct env *env, struct work_list *works);
void guard_free(struct guard *g); /* after work_drain: writes what is left; NULL is fine */

/* 0, or SHOAL_E_NOT_FINITE with a sentence that names table, key, field, worker and file. r has its
 * gradients. */
int guard_check(struct guard *g, const struct table_schema *s, const struct push_record *r,
                struct err *e);
/* Counts the rows of a push that is taken whose gradients are longer than rules.norm_max: they are
 * scaled down to it. */
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
