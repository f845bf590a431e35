/* cut.h: cuts on disk and in memory, as recovery and flushing see them; the rest is in engine.h. */
#ifndef EMBEDDING_ENGINE_CUT_H
#define EMBEDDING_ENGINE_CUT_H

#include "embedding/engine/engine_state.h"

/* What a cut consists of once it has been checked: rows to scan, and journal records up to
 * `sequence` to replay over them. */
struct cut_source {
    struct store *store; /* owned when `opened` */
    bool opened;
    struct journal *journal; /* owned; NULL: the rows are all */
    struct cut_facts facts;
};
/* NOT_FOUND, CORRUPT (file named). */
int cut_open(struct engine *g, uint64_t cut, struct cut_source *out, struct err *e);
/* Writes all pairs into a new RocksDB folder, and those of cold rows that `cold` has (NULL: none);
 * durable when it returns. Any thread. */
int cut_copy_rows(struct store *from, struct store *cold, const char *path, struct err *e);
void cut_source_close(struct cut_source *s);
/* recover.c: the tablets of a part of a checkpoint, as they were at the cut, into tables of g
 * (which exist, under the part's schemas). base[table] (tablets): 0 for a tablet that is wanted,
 * UINT64_MAX for the others; NULL: nothing of that table. Runs and marks go to `runs`, empty at
 * first. */
int cut_recover(struct engine *g, const struct cut_source *source,
                uint64_t *const base[LIMIT_TABLES], struct runs *runs, struct err *e);
/* DIR/cuts/CUT and `tail`, LIMIT_PATH long at most. */
void cut_path(const struct engine *g, uint64_t cut, const char *tail, char *out);
struct mem_cut *cut_mem_find(struct engine *g, uint64_t cut); /* or NULL */
void cut_mem_drop(struct engine *g, uint64_t cut);
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
