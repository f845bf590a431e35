/* archive.h: trimmed segments of the journal that are kept for `shoal blame`:
 * DIR/archive/seg-GENERATION, the newest ones up to so many bytes. Nothing but blame reads them:
 * recovery needs none, and what is lost here is lost to blame alone. Thread: the shard's; scans
 * read the files on others. */
#ifndef EMBEDDING_JOURNAL_ARCHIVE_H
#define EMBEDDING_JOURNAL_ARCHIVE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct archive;

/* Lists the folder (made when missing) and deletes what is too much. keep: bytes, at least 1. */
int archive_open(const char *dir, uint64_t keep, struct archive **out, struct err *e);
void archive_close(struct archive *a); /* NULL is fine */
/* Takes the file of a segment whose records end at `bytes`; the oldest go when it is too much.
 * shared: others have links to the file, so it is not cut short. False: it could not be taken, and
 * is still where it was. */
bool archive_take(struct archive *a, const char *path, uint64_t generation, uint64_t bytes,
                  bool shared);
uint64_t archive_bytes(const struct archive *a);
uint32_t archive_count(const struct archive *a);
/* The i-th file, oldest first. */
void archive_path(const struct archive *a, uint32_t i, char out[LIMIT_PATH], uint64_t *generation);
/* Deletes all. */
void archive_clear(struct archive *a);

#endif
