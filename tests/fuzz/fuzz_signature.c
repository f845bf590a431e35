/* fuzz_signature.c: any text as a checkpoint's signature: as it is, and signed. First byte: bit 0:
 * sign; bit 1: a list of signers instead. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/job/signature.h"

static const uint8_t seed[SIGN_SEED] = {1};

static void signature_try(const char *text, size_t bytes)
{
    struct signature *s = NULL;
    struct err e = {0};
    if (signature_parse(text, bytes, "c", NULL, &s, &e) != 0) {
        if (e.text[0] == '\0')
            abort();
        return;
    }
    if (signature_files(s) == 0 || signature_check_bytes(s, "..", "", 0, &e) == 0)
        abort();
    signature_free(s);
}

/* The input, and behind it the last two lines as signature_write makes them. */
static void signature_mended(const uint8_t *data, size_t size)
{
    uint8_t key[SIGN_KEY], made[SIGN_BYTES];
    char *text = malloc(size + 256), hex[2 * SIGN_BYTES + 1];
    SHOAL_ASSERT(text != NULL && sign_key_of(seed, key) == 0);
    if (size > 0)
        memcpy(text, data, size);
    sign_hex(key, SIGN_KEY, hex);
    size += (size_t)snprintf(text + size, 128, "key %s\n", hex);
    SHOAL_ASSERT(sign_make(seed, text, size, made) == 0);
    sign_hex(made, SIGN_BYTES, hex);
    size += (size_t)snprintf(text + size, 180, "signature %s\n", hex);
    signature_try(text, size);
    free(text);
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
        signature_mended(copy, size);
    else
        signature_try((const char *)copy, size);
    free(copy);
    return 0;
}
