/* quarantine.h: a file of what was refused: DIR/quarantine.jsonl, one line of JSON each. Past 64
 * MiB it becomes quarantine.1.jsonl, and the one before goes: at most 128 MiB. Written on an I/O
 * thread, one buffer at a time; lines that come faster than the disk takes them, and those that the
 * disk does not take, are counted as lost. For people, so nothing is synced. Thread: the
 * shard's. */
#ifndef EMBEDDING_ENGINE_QUARANTINE_H
#define EMBEDDING_ENGINE_QUARANTINE_H

#include "embedding/engine/work.h"

#include <stddef.h>
#include <stdint.h>

#define QUARANTINE_FILE_BYTES (64u << 20)
#define QUARANTINE_QUEUE_BYTES (64u << 10)

struct quarantine;

/* dir: the shard's folder; NULL: nothing is kept, lines only count. file_bytes 0:
 * QUARANTINE_FILE_BYTES. dir, env and works are borrowed. NULL: out of memory. */
struct quarantine *quarantine_new(const char *dir, uint64_t file_bytes, struct env *env,
                                  struct work_list *works);
/* After work_drain: writes what is left. NULL is fine. */
void quarantine_free(struct quarantine *q);
/* One line, without its end. */
void quarantine_add(struct quarantine *q, const char *line);
uint64_t quarantine_lost(const struct quarantine *q);
/* Name of the file; empty without a folder. */
const char *quarantine_path(const struct quarantine *q);

#endif
