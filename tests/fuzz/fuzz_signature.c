/* fuzz_signature.c: any text as a checkpoint's signature, and as a signed manifest. First byte: bit
 * 0: the manifest's text up to its checksum; bit 1: a list of signers instead. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/job/signature.h"

static const uint8_t seed[SIGN_SEED] = {1};

static void signature_try(const char *text, size_t bytes, const char *manifest, size_t more)
{
    struct signature *s = NULL;
    struct err e = {0};
    if (signature_parse(text, bytes, manifest, more, "c", NULL, &s, &e) != 0) {
        if (e.text[0] == '\0')
            abort();
        return;
    }
    if (signature_files(s) < 2 || signature_check_bytes(s, "..", "", 0, &e) == 0)
        abort();
    signature_free(s);
}

/* Makes the input a complete and signed manifest. */
static void manifest_signed(const uint8_t *data, size_t size)
{
    uint8_t key[SIGN_KEY], made[SIGN_BYTES];
    char text[512], hex[SIGNATURE_KEY], hex_made[2 * SIGN_BYTES + 1], *manifest = malloc(size + 64);
    SHOAL_ASSERT(manifest != NULL && sign_key_of(seed, key) == 0);
    if (size > 0)
        memcpy(manifest, data, size);
    size += fuzz_manifest_end(manifest, size);
    SHOAL_ASSERT(sign_make(seed, manifest, size, made) == 0);
    sign_hex(key, SIGN_KEY, hex);
    sign_hex(made, SIGN_BYTES, hex_made);
    int bytes = snprintf(text, sizeof text,
                         "{\n  \"format\": 2,\n  \"key\": \"%s\",\n  \"signature\": \"%s\"\n}\n",
                         hex, hex_made);
    signature_try(text, (size_t)bytes, manifest, size);
    free(manifest);
}

static void signers_try(const char *text, size_t bytes)
{
    struct signature_signers *s = NULL;
    struct err e = {0};
    int rc = signature_signers_parse(text, bytes, "signers", &s, &e);
    if (rc != 0 ? e.text[0] == '\0' : s->count == 0 || s->count > SIGNATURE_SIGNERS)
        abort();
    signature_signers_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t mode = fuzz_mode(&data, &size);
    uint8_t *copy = fuzz_copy(data, size);
    if ((mode & 2) != 0)
        signers_try((const char *)copy, size);
    else if ((mode & 1) != 0)
        manifest_signed(copy, size);
    else
        signature_try((const char *)copy, size, "{}", 2);
    free(copy);
    return 0;
}
