/* fuzz_manifest.c: any text as the manifest of a cut whose folder has two files: as it is, or with
 * a valid checksum (first byte, bit 0). */
#include "tests/fuzz/fuzz_file.h"

#include <sys/stat.h>

static char manifest[LIMIT_PATH];

static void folder_prepare(void)
{
    static const char *const part[] = {"/cut", "/cut/journal", "/cut/rows"};
    char path[LIMIT_PATH];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", fuzz_dir(), part[i]);
        SHOAL_ASSERT(mkdir(path, 0700) == 0);
    }
    (void)snprintf(path, sizeof path, "%s/cut/journal/seg-0000000000000001", fuzz_dir());
    fuzz_file(path, "0123456789", 10);
    (void)snprintf(path, sizeof path, "%s/cut/rows/CURRENT", fuzz_dir());
    fuzz_file(path, "MANIFEST-000004\n", 16);
    (void)snprintf(manifest, sizeof manifest, "%s/cut/manifest", fuzz_dir());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part part;
    struct err e = {0};
    char dir[LIMIT_PATH];
    if (manifest[0] == '\0')
        folder_prepare();
    bool mend = (fuzz_mode(&data, &size) & 1) != 0;
    uint8_t *text = malloc(size + 64);
    SHOAL_ASSERT(text != NULL);
    memcpy(text, data, size);
    if (mend)
        size += fuzz_manifest_end(text, size);
    fuzz_file(manifest, text, size);
    (void)snprintf(dir, sizeof dir, "%s/cut", fuzz_dir());
    if (cut_read(dir, CUT_READ, &part, &e) != 0 && e.text[0] == '\0')
        abort();
    part_free(&part);
    free(text);
    return 0;
}
