/* fuzz_part.c: any text as the manifest of a checkpoint's part whose folder has two files: as it
 * is, or with a valid checksum (first byte, bit 0). */
#include "tests/fuzz/fuzz_file.h"

#include "embedding/engine/part.h"

#include <sys/stat.h>

static char manifest[LIMIT_PATH];

static void folder_prepare(void)
{
    static const char *const part[] = {"/part-0000", "/part-0000/journal", "/part-0000/rows"};
    char path[LIMIT_PATH];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", fuzz_dir(), part[i]);
        SHOAL_ASSERT(mkdir(path, 0700) == 0);
    }
    (void)snprintf(path, sizeof path, "%s/part-0000/journal/seg-0000000000000001", fuzz_dir());
    fuzz_file(path, "0123456789", 10);
    (void)snprintf(path, sizeof path, "%s/part-0000/rows/CURRENT", fuzz_dir());
    fuzz_file(path, "MANIFEST-000004\n", 16);
    (void)snprintf(manifest, sizeof manifest, "%s/part-0000/manifest", fuzz_dir());
}

static int foreign(void *context, const char *path, struct err *e)
{
    (void)context, (void)e;
    return path[0] == '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part p;
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
    (void)snprintf(dir, sizeof dir, "%s/part-0000", fuzz_dir());
    int rc = part_read(dir, NULL, &p, &e);
    if (rc != 0 && e.text[0] == '\0')
        abort();
    for (uint32_t i = 0; i < p.files && rc == 0; i++)
        if (part_check_file(&p, i, true, &e) != 0 && strstr(e.text, p.file[i].name) == NULL)
            abort();
    if (rc == 0 && part_foreign(&p, foreign, NULL, &e) != 0)
        abort();
    part_free(&p);
    free(text);
    return 0;
}
