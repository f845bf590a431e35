/* secret.c: libsodium's memory. */
#include "proto/base/secret.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

void *secret_new(size_t bytes)
{
    int rc = sodium_init(); /* any thread, any number of times */
    SHOAL_ASSERT(rc >= 0);
    void *secret = sodium_malloc(bytes);
    if (secret != NULL)
        memset(secret, 0, bytes);
    return secret;
}

void secret_free(void *secret)
{
    sodium_free(secret); /* sodium_free wipes it */
}

void secret_wipe(void *bytes, size_t count)
{
    sodium_memzero(bytes, count);
}

bool secret_same(const void *a, const void *b, size_t count)
{
    return sodium_memcmp(a, b, count) == 0;
}

mode_t secret_file_forbids(const char *path)
{
    const char *folder = text_or(getenv("CREDENTIALS_DIRECTORY"), "");
    size_t n = strlen(folder);
    if (n > 0 && strncmp(path, folder, n) == 0 && path[n] == '/')
        return 037;
    return 077;
}
