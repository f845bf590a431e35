/* import_files.h: the files of arrays that an import reads, and arrays in them by name: npy files
 * that the line names, a safetensors file, or a folder of `shoal export` (npy, safetensors).
 * Thread: main only. */
#ifndef DEPLOY_CLI_IMPORT_FILES_H
#define DEPLOY_CLI_IMPORT_FILES_H

#include "deploy/cli/import.h"
#include "proto/job/tensor.h"

struct tensor_in { /* an array, in a file that stays open */
    struct tensor tensor;
    const void *data; /* the file's bytes */
    const char *path; /* the file's */
};

struct import_files {
    char what[LIMIT_PATH];       /* the folder or the file, for errors */
    bool exported;               /* `shoal export` has written it */
    struct json *about;          /* owned; export.json of a folder, else NULL */
    struct import_opened **file; /* owned; (count) */
    uint32_t count, room;
};

/* Opens l->path, if it has one. For a folder it sets l->fields to those of export.json. DATA,
 * NOINPUT, VERSION. */
int import_files_open(struct import_files *f, struct import_line *l, struct err *e);
void import_files_close(struct import_files *f);
/* An array of the export, or of the safetensors file. 1: there is none. */
int import_files_find(struct import_files *f, const char *name, struct tensor_in *out,
                      struct err *e);
/* The array that a word of the line names: an npy file, or one of the safetensors file. */
int import_files_named(struct import_files *f, const char *word, struct tensor_in *out,
                       struct err *e);
/* XXH3 over the opened files, in the order in which they were opened. */
uint64_t import_files_checksum(const struct import_files *f);

#endif
