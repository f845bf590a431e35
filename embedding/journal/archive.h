/* archive.h: trimmed segments of the journal, kept for `shoal blame` in DIR/archive/seg-GENERATION,
 * the newest up to a limit of bytes. Only blame reads them; recovery needs none, so a loss here
 * concerns blame alone. Thread: the shard's; scans read the files on other threads.
 *
 * It also searches journal and archive for one table's keys: the pushes that changed a row (blame),
 * and removes a row's pushes from the archive (erase). The shard's thread gathers the files, an I/O
 * thread reads them. A search reads only heads and keys of records until one has the key; that
 * record is read whole and checked. Memory is that of one record. If archived files are deleted
 * meanwhile the search ends, because older files are gone as well. */
#ifndef EMBEDDING_JOURNAL_ARCHIVE_H
#define EMBEDDING_JOURNAL_ARCHIVE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct archive;

/* Lists the folder, which is made if missing, and deletes files beyond `keep` bytes. */
int archive_open(const char *dir, uint64_t keep, struct archive **out, struct err *e);
void archive_close(struct archive *a); /* NULL is allowed */
/* Takes the file of a segment whose records end at `bytes`; the oldest files go beyond the limit.
 * shared: other links to the file exist, so it is not truncated. False: it could not be moved and
 * remains in place. */
bool archive_take(struct archive *a, const char *path, uint64_t generation, uint64_t bytes,
                  bool shared);
uint64_t archive_bytes(const struct archive *a);
uint32_t archive_count(const struct archive *a);
/* The i-th file, oldest first. */
void archive_path(const struct archive *a, uint32_t i, char out[LIMIT_PATH], uint64_t *generation);
/* Deletes all files. */
void archive_clear(struct archive *a);

/* ---- searching ---- */

struct blame_entry { /* a push that changed a row, or (assigned) brought the row, alone or with its
                      * tablet */
    uint64_t sequence, run, generation, batch;
    uint32_t lane, event_time;
    double norm; /* 2-norm of the row's gradient as pushed; 0: it was assigned */
    float show, click, lr_scale;
    bool assigned;
};

struct table_schema;
struct archive_wish {
    const struct table_schema *schema; /* schema of the table; borrowed */
    const uint64_t *keys;              /* (count), sorted by value; borrowed */
    uint32_t count;
    uint64_t above;          /* records up to this one belong to tables that are gone */
    const atomic_bool *stop; /* borrowed; once true, the search ends with STOPPED */
};

/* Finds pushes with wish->keys[0], of any packed_width, and with its tablet whole, newest first, at
 * most `limit`; `out` has room for them. A gradient that is not of the schema's size belongs to a
 * table that had the number before.
 * *complete: every record above wish->above was read, and none is missing. */
struct journal_files;
int archive_blame(struct journal_files *f, const struct archive_wish *wish, struct blame_entry *out,
                  uint32_t limit, uint32_t *count, bool *complete, struct err *e);
/* Zeros the keys and their data in every record, of any packed_width and of any size, and the rows
 * of tablets of the table that came from another shard; removes the rest of a segment from a record
 * that does not check on; and syncs. *records: number of records that had any. */
int archive_blank(struct journal_files *f, const struct archive_wish *wish, uint64_t *records,
                  struct err *e);

#endif
