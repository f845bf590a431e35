/* cut.h: cuts on disk and in memory, for recovery and flushing; engine.h has the rest. */
#ifndef EMBEDDING_ENGINE_CUT_H
#define EMBEDDING_ENGINE_CUT_H

#include "embedding/engine/part.h"

/* The contents of a checked cut: rows to scan, and journal records up to `sequence` to replay over
 * them. */
struct cut_source {
    struct store *store; /* owned if `opened` */
    bool opened;
    struct journal *journal; /* owned; NULL: there are only rows */
    struct cut_facts facts;
};
/* How far a cut's files are compared with its manifest. Reading the journal of a large cut takes
 * minutes and is for I/O threads. When the records are applied next, each is checked then. */
enum cut_depth { CUT_SIZES, CUT_READ };
/* Reads the manifest of a cut's folder and compares every file with it: CORRUPT names the file. The
 * caller frees *out in any case. Any thread. */
int cut_read(const char *dir, enum cut_depth depth, struct part *out, struct err *e);
/* NOT_FOUND, CORRUPT (with the file). */
int cut_open(struct engine *g, uint64_t cut, enum cut_depth depth, struct cut_source *out,
             struct err *e);
/* Writes all pairs into a new RocksDB folder, durably. Any thread. */
int cut_copy_rows(struct store *from, const char *path, struct err *e);
/* Writes the pairs of cold rows into `to`, with at most `batch` bytes in its buffers. Any
 * thread. */
int cut_copy_cold(struct store *from, struct store *to, size_t batch, struct err *e);
/* Makes the empty folder for a cut, with journal/ in it. Any thread. */
int cut_folder_make(const char *parent, const char *tmp, struct err *e);
void cut_source_close(struct cut_source *s);
/* recover.c: reads the tablets of a part of a checkpoint, as of the cut, into tables of g, which
 * exist with the part's schemas. base[table] (tablets): 0 for a wanted tablet, else UINT64_MAX;
 * NULL: no tablet of that table. Runs and marks go to `runs`, empty at first. For a checkpoint's
 * parts only: changes are not marked for flushing. */
int cut_recover(struct engine *g, const struct cut_source *source,
                uint64_t *const base[LIMIT_TABLES], struct runs *runs, struct err *e);
/* Writes DIR/cuts/CUT and `tail`, at most LIMIT_PATH bytes. */
void cut_path(const struct engine *g, uint64_t cut, const char *tail, char *out);
/* cut_ahead.c: ends the advance writing, and answers its request. */
void cut_ahead_end(struct engine *g);
struct mem_cut *cut_mem_find(struct engine *g, uint64_t cut); /* NULL: none */
void cut_mem_drop(struct engine *g, uint64_t cut);
/* cut_checked: this process has read the whole cut and found it intact (restore_check.c).
 * cut_uncheck: the cut was replaced or is gone. */
bool cut_checked(const struct engine *g, uint64_t cut);
void cut_uncheck(struct engine *g, uint64_t cut);
/* a RESTORE record that is still needed names the cut */
bool cut_referenced(const struct engine *g, uint64_t cut);
/* Forgets references that the journal has trimmed, and deletes cuts whose dropping waited for
 * that. */
void cut_refs_trim(struct engine *g, uint64_t trimmed);
int cut_ref_add(struct engine *g, uint64_t cut, uint64_t sequence);
/* Before recovery: gives up cuts of an instant behind record `until`. */
void cut_give_up(struct engine *g, uint64_t until);
/* After recovery: removes the remains of an unfinished cut or drop. */
void cut_clean(struct engine *g);
void cut_free(struct engine *g);

#endif
