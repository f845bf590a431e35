/* fuzz_checkpoint.c: any bytes as the files that the coordinator reads of a checkpoint. First byte:
 * 0: manifest.json as it is; 1: the same with a valid checksum; 2: coordinator.state. An accepted
 * file has the members that its readers use. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/base/hash.h"
#include "proto/job/manifest.h"
#include "server/coord/keep/saved.h"

#include <inttypes.h>

static void manifest_try(const char *text, size_t bytes)
{
    struct json *m = NULL;
    struct err e = {0};
    uint64_t sum;
    if (manifest_parse(text, bytes, &m, &e) != 0) {
        if (e.text[0] == '\0')
            abort();
        return;
    }
    const struct json *parts = json_get(m, "parts");
    for (size_t i = 0; i < json_count(parts); i++)
        if (!manifest_hex(json_get(json_array_at(parts, i), "manifest"), &sum))
            abort();
    if (manifest_file(m, MANIFEST_STATE_FILE) == NULL || json_count(parts) > LIMIT_SHARDS ||
        !manifest_name_ok(json_as_string(json_get(m, "name"), "")))
        abort();
    (void)manifest_file_check(m, MANIFEST_JOB_FILE, text, bytes, &e);
    json_free(m);
}

/* Appends to the input the last member as manifest_text writes it. */
static void manifest_mended(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 64);
    SHOAL_ASSERT(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    int n = snprintf(text + size, 64, ",\n  \"xxh3\": \"0x%016" PRIx64 "\"\n}\n",
                     hash_bytes(data, size, 0));
    manifest_try(text, size + (size_t)n);
    free(text);
}

static void state_try(const uint8_t *data, size_t size)
{
    struct coord_saved s;
    struct err e = {0};
    int rc = coord_saved_open(data, size, &s, &e);
    if (rc != 0 && e.text[0] == '\0')
        abort();
    if (rc == 0 &&
        (s.lanes == 0 || s.lanes > LIMIT_LANES || s.at.epoch == 0 || s.at.epoch > COORD_EPOCHS_MAX))
        abort();
    coord_saved_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t mode = fuzz_mode(&data, &size);
    uint8_t *copy = fuzz_copy(data, size);
    if (mode == 0)
        manifest_try((const char *)copy, size);
    else if (mode == 1)
        manifest_mended(copy, size);
    else
        state_try(copy, size);
    free(copy);
    return 0;
}
