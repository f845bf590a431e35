/* fuzz_file.h: for targets whose decoder reads files: a folder for this process, its files, and
 * reading of test input. */
#ifndef TESTS_FUZZ_FUZZ_FILE_H
#define TESTS_FUZZ_FUZZ_FILE_H

#include "embedding/engine/cut.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char fuzz_folder[256];

static inline void fuzz_folder_remove(void)
{
    (void)file_remove_tree(fuzz_folder);
}

/* Returns the folder, which is made at the first call and removed when the process ends. Warnings
 * about damage are silenced. */
static inline const char *fuzz_dir(void)
{
    if (fuzz_folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        (void)snprintf(fuzz_folder, sizeof fuzz_folder, "%.200s/shoal-fuzz-XXXXXX",
                       base != NULL ? base : "/tmp");
        SHOAL_ASSERT(mkdtemp(fuzz_folder) != NULL);
        (void)atexit(fuzz_folder_remove);
        log_set_level(LOG_LEVEL_ERROR);
    }
    return fuzz_folder;
}

/* Writes PATH anew. */
static inline void fuzz_file(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    SHOAL_ASSERT(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    close(fd);
}

/* Returns a copy of exactly the input's size, so that a sanitizer sees every read past it; the
 * target frees it. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = calloc(size + (size == 0), 1); /* gcc 14 sees the empty one be read */
    SHOAL_ASSERT(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

/* Appends a valid checksum to the text of a part's manifest (with 64 bytes of room): that of JSON,
 * or of the lines of release 0.2.0. Returns its bytes. */
static inline size_t fuzz_manifest_end(void *text, size_t size)
{
    char *end = (char *)text + size;
    uint64_t sum = hash_bytes(text, size, 0);
    if (size > 0 && *(const char *)text == '{')
        return (size_t)snprintf(end, 64, ",\n  \"xxh3\": \"0x%016" PRIx64 "\"\n}\n", sum);
    return (size_t)snprintf(end, 64, "end %016" PRIx64 "\n", sum);
}

/* Takes the first byte of an input, which selects how the rest is used. */
static inline uint8_t fuzz_mode(const uint8_t **data, size_t *size)
{
    if (*size == 0)
        return 0;
    (*size)--;
    return *(*data)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
