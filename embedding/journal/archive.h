/* archive.h: trimmed segments of the journal that are kept for `shoal blame`:
 * DIR/archive/seg-GENERATION, the newest ones up to so many bytes. Nothing but blame reads them:
 * recovery needs none, and what is lost here is lost to blame alone. Thread: the shard's; scans
 * read the files on others.
 *
 * And the journal and its archive read for one table's keys: which pushes changed a row (blame),
 * and taking a row's pushes out of the archive (erase). What the shard's thread gathers is read on
 * an I/O thread. Only heads and keys of records are read until one has the key; a record that has
 * it is read whole and checked. Memory is one record's. Archived files that are deleted meanwhile
 * end the reading: the older ones are gone as well. */
#ifndef EMBEDDING_JOURNAL_ARCHIVE_H
#define EMBEDDING_JOURNAL_ARCHIVE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct archive;

/* Lists the folder (made when missing) and deletes what is too much. keep: bytes. */
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

/* ---- searching ---- */

struct blame_entry { /* a push that changed a row */
    uint64_t sequence, run, generation, batch;
    uint32_t lane, event_time;
    double norm; /* 2-norm of the row's gradient, as pushed */
    float show, click, lr_scale;
};

struct archive_wish {
    uint32_t table, floats; /* of a key in a push: schema_push_floats */
    uint32_t width;         /* of these the gradient */
    const uint64_t *keys;   /* (count), sorted by value; borrowed */
    uint32_t count;
    uint64_t above;          /* records up to this one are of tables that are gone */
    const atomic_bool *stop; /* borrowed; once true, reading ends with STOPPED */
};

/* Pushes that have wish->keys[0], newest first, at most limit. out has room for limit; *complete:
 * everything was read, from the first record above wish->above on, and no record is missing. */
struct journal_files;
int archive_blame(struct journal_files *f, const struct archive_wish *wish, struct blame_entry *out,
                  uint32_t limit, uint32_t *count, bool *complete, struct err *e);
/* Zeros the keys and what was pushed for them in every record; syncs. *records: how many had
 * any. */
int archive_blank(struct journal_files *f, const struct archive_wish *wish, uint64_t *records,
                  struct err *e);

#endif
