/* quarantine.h: a file of what was refused: DIR/quarantine.jsonl, one line of JSON each. Past 64
 * MiB it becomes quarantine.1.jsonl, and the one before goes: at most 128 MiB. What is handed in
 * are facts; lines are made of them and written on an I/O thread, one buffer at a time. Those that
 * come faster than the disk takes them, and those that the disk does not take, are counted as lost.
 * For people, so nothing is synced. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_QUARANTINE_H
#define EMBEDDING_ENGINE_QUARANTINE_H

#include "embedding/engine/work.h"

#include <stddef.h>
#include <stdint.h>

#define QUARANTINE_FILE_BYTES (64u << 20)
#define QUARANTINE_QUEUE_BYTES (64u << 10)

struct quarantine;

/* The line of a fact, without its end; the caller frees it. NULL: no memory. Any thread. */
typedef char *(*quarantine_line)(const void *fact);
/* dir: the shard's folder; NULL: nothing is kept. file_bytes 0: QUARANTINE_FILE_BYTES. fact_bytes:
 * of each. dir, env and works are borrowed. NULL: out of memory. */
struct quarantine *quarantine_new(const char *dir, uint64_t file_bytes, size_t fact_bytes,
                                  quarantine_line line, struct env *env, struct work_list *works);
/* After work_drain: writes what is left. NULL is fine. */
void quarantine_free(struct quarantine *q);
/* Copies the fact: no line is made here. */
void quarantine_add(struct quarantine *q, const void *fact);
uint64_t quarantine_lost(const struct quarantine *q);
/* Name of the file; empty without a folder. */
const char *quarantine_path(const struct quarantine *q);

#endif
