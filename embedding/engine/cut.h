/* cut.h: cuts on disk and in memory, as recovery and flushing see them; the rest is in engine.h. */
#ifndef EMBEDDING_ENGINE_CUT_H
#define EMBEDDING_ENGINE_CUT_H

#include "embedding/engine/engine_state.h"
#include "proto/job/signature.h"

#include <stdio.h>

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

/* ---- the manifest: names everything in a cut's folder, with sizes and checksums; text, one fact a
 * line ---- */
struct cut_file {
    const char *name; /* in folder journal */
    uint64_t bytes;   /* of its front, which is what counts */
    uint64_t checksum;
};

/* Writes dir/manifest: facts, segments, and every file found in dir/rows with its size; synced.
 * Sets facts->bytes. Any thread. */
int cut_manifest_write(const char *dir, struct cut_facts *facts, const struct cut_file *segment,
                       size_t segments, struct err *e);
/* Reads it and checks every file against it: CORRUPT names the file. */
int cut_manifest_check(const char *dir, enum cut_depth depth, struct cut_facts *facts,
                       struct err *e);
/* Sizes by table, " TABLE:ROWS:BYTES" for each of `existing`, as they stand behind the last number
 * of a manifest's line: an older release passes them over there. false: that is no such list. */
void cut_sizes_write(FILE *out, const struct cut_facts *facts);
bool cut_sizes_read(const char *text, struct cut_facts *facts);
/* A manifest's text: ends `out`, a memory stream over *text, with the line "end XXH3" of all before
 * it, and stores it as dir/manifest, synced. Frees *text in any case. */
int cut_text_write(const char *dir, FILE *out, char **text, const size_t *bytes, struct err *e);
/* The text of dir/manifest without that line, once it has been found right. The caller frees it.
 * signature (NULL: none is asked for): as `name` the file must be in it, before that. CORRUPT,
 * NOT_FOUND, DENIED. */
int cut_text_read(const char *dir, const struct signature *signature, const char *name, char **text,
                  struct err *e);
/* XXH3 over the first `bytes` of a file. */
int cut_file_checksum(const char *path, uint64_t bytes, uint64_t *checksum);

#endif
