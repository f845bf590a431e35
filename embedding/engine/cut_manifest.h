/* cut_manifest.h: the file that names everything in a cut's folder, with sizes and checksums; text,
 * one fact a line. */
#ifndef EMBEDDING_ENGINE_CUT_MANIFEST_H
#define EMBEDDING_ENGINE_CUT_MANIFEST_H

#include "embedding/engine/engine_state.h"

#include <stdio.h>

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
int cut_manifest_check(const char *dir, struct cut_facts *facts, struct err *e);
/* A manifest's text: ends `out`, a memory stream over *text, with the line "end XXH3" of all before
 * it, and stores it as dir/manifest, synced. Frees *text in any case. */
int cut_text_write(const char *dir, FILE *out, char **text, const size_t *bytes, struct err *e);
/* The text of dir/manifest without that line, once it has been found right. The caller frees it.
 * CORRUPT, NOT_FOUND. */
int cut_text_read(const char *dir, char **text, struct err *e);
/* XXH3 over the first `bytes` of a file. */
int cut_file_checksum(const char *path, uint64_t bytes, uint64_t *checksum);

#endif
