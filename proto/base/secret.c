/* secret.c: libsodium's memory and signatures. */
#include "proto/base/secret.h"

#include "proto/base/assert.h"

#include <sodium.h>
#include <string.h>

_Static_assert(SECRET_SIGN_PUBLIC == 2 * crypto_sign_PUBLICKEYBYTES + 1, "hexadecimal, NUL");
_Static_assert(SECRET_SIGN_SECRET == 2 * crypto_sign_SECRETKEYBYTES + 1, "hexadecimal, NUL");
_Static_assert(SECRET_SIGNATURE == 2 * crypto_sign_BYTES + 1, "hexadecimal, NUL");

/* Any thread, any number of times. */
static void ready(void)
{
    int rc = sodium_init();
    SHOAL_ASSERT(rc >= 0);
}

void *secret_new(size_t bytes)
{
    ready();
    void *secret = sodium_malloc(bytes);
    if (secret != NULL)
        memset(secret, 0, bytes);
    return secret;
}

void secret_free(void *secret)
{
    sodium_free(secret); /* it wipes */
}

void secret_wipe(void *bytes, size_t count)
{
    sodium_memzero(bytes, count);
}

/* ---- signatures ------------------------------------------------------------------------------ */

static bool unhex(const char *text, unsigned char *out, size_t bytes)
{
    size_t made = 0;
    return strlen(text) == 2 * bytes &&
           sodium_hex2bin(out, bytes, text, 2 * bytes, NULL, &made, NULL) == 0 && made == bytes;
}

bool secret_sign_public_ok(const char *text)
{
    unsigned char key[crypto_sign_PUBLICKEYBYTES];
    return unhex(text, key, sizeof key);
}

bool secret_sign_pair(char pub[SECRET_SIGN_PUBLIC], char secret[SECRET_SIGN_SECRET])
{
    unsigned char p[crypto_sign_PUBLICKEYBYTES], s[crypto_sign_SECRETKEYBYTES];
    ready();
    bool made = crypto_sign_keypair(p, s) == 0;
    sodium_bin2hex(pub, SECRET_SIGN_PUBLIC, p, sizeof p);
    sodium_bin2hex(secret, SECRET_SIGN_SECRET, s, sizeof s);
    sodium_memzero(s, sizeof s);
    return made;
}

bool secret_sign(const char *secret, const void *bytes, size_t count, char out[SECRET_SIGNATURE])
{
    unsigned char key[crypto_sign_SECRETKEYBYTES], made[crypto_sign_BYTES];
    crypto_sign_state state;
    ready();
    bool good = unhex(secret, key, sizeof key) && crypto_sign_init(&state) == 0 &&
                crypto_sign_update(&state, bytes, count) == 0 &&
                crypto_sign_final_create(&state, made, NULL, key) == 0;
    sodium_memzero(key, sizeof key);
    sodium_bin2hex(out, SECRET_SIGNATURE, made, good ? sizeof made : 0);
    return good;
}

bool secret_signed(const char *pub, const void *bytes, size_t count, const char *signature)
{
    unsigned char key[crypto_sign_PUBLICKEYBYTES], made[crypto_sign_BYTES];
    crypto_sign_state state;
    ready();
    return unhex(pub, key, sizeof key) && unhex(signature, made, sizeof made) &&
           crypto_sign_init(&state) == 0 && crypto_sign_update(&state, bytes, count) == 0 &&
           crypto_sign_final_verify(&state, made, key) == 0;
}
