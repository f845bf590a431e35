/* cut.h: cuts on disk and in memory, as recovery and flushing see them; the rest is in engine.h. */
#ifndef EMBEDDING_ENGINE_CUT_H
#define EMBEDDING_ENGINE_CUT_H

#include "embedding/engine/part.h"

/* What a cut consists of once it has been checked: rows to scan, and journal records up to
 * `sequence` to replay over them. */
struct cut_source {
    struct store *store; /* owned when `opened` */
    bool opened;
    struct journal *journal; /* owned; NULL: the rows are all */
    struct cut_facts facts;
};
/* How far a cut's files are compared with its manifest. To read the journal of a large one takes
 * minutes: that is for I/O threads. Where its records are applied next, each is checked then. */
enum cut_depth { CUT_SIZES, CUT_READ };
/* The manifest of a cut's folder, and every file held against it: CORRUPT names the file. *out is
 * to be freed whatever comes. Any thread. */
int cut_read(const char *dir, enum cut_depth depth, struct part *out, struct err *e);
/* NOT_FOUND, CORRUPT (file named). */
int cut_open(struct engine *g, uint64_t cut, enum cut_depth depth, struct cut_source *out,
             struct err *e);
/* Writes all pairs into a new RocksDB folder; durable when it returns. Any thread. */
int cut_copy_rows(struct store *from, const char *path, struct err *e);
/* Writes the pairs of cold rows into `to`, `batch` bytes of them in its buffers at most. Any
 * thread. */
int cut_copy_cold(struct store *from, struct store *to, size_t batch, struct err *e);
/* The empty folder that a cut is made in, with journal/ in it. Any thread. */
int cut_folder_make(const char *parent, const char *tmp, struct err *e);
void cut_source_close(struct cut_source *s);
/* replay.c: the tablets of a part of a checkpoint, as they were at the cut, into tables of g
 * (which exist, under the part's schemas). base[table] (tablets): 0 for a tablet that is wanted,
 * UINT64_MAX for the others; NULL: nothing of that table. Runs and marks go to `runs`, empty at
 * first. For a checkpoint's parts only: what it fills is not noted for flushing. */
int cut_recover(struct engine *g, const struct cut_source *source,
                uint64_t *const base[LIMIT_TABLES], struct runs *runs, struct err *e);
/* DIR/cuts/CUT and `tail`, LIMIT_PATH long at most. */
void cut_path(const struct engine *g, uint64_t cut, const char *tail, char *out);
/* cut_ahead.c: ends the writing ahead, and answers the request that began it. */
void cut_ahead_end(struct engine *g);
struct mem_cut *cut_mem_find(struct engine *g, uint64_t cut); /* or NULL */
void cut_mem_drop(struct engine *g, uint64_t cut);
/* Whether this process has read it as a whole, and found it good (restore_check.c); and from now on
 * not: it is another one, or gone. */
bool cut_checked(const struct engine *g, uint64_t cut);
void cut_uncheck(struct engine *g, uint64_t cut);
/* by a RESTORE record that is still needed */
bool cut_referenced(const struct engine *g, uint64_t cut);
/* Forgets references that the journal no longer has, and deletes cuts whose dropping waited for
 * that. */
void cut_refs_trim(struct engine *g, uint64_t trimmed);
int cut_ref_add(struct engine *g, uint64_t cut, uint64_t sequence);
/* After recovery: removes what an unfinished cut or drop left. */
void cut_clean(struct engine *g);
void cut_free(struct engine *g);

#endif
