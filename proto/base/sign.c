/* sign.c: libsodium's signatures and its hash. */
#include "proto/base/sign.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/secret.h"

#include <sodium.h>
#include <stdlib.h>

_Static_assert(SIGN_KEY == crypto_sign_PUBLICKEYBYTES && SIGN_SEED == crypto_sign_SEEDBYTES &&
                   SIGN_BYTES == crypto_sign_BYTES && SIGN_HASH == crypto_generichash_BYTES,
               "libsodium's own");

static void begin(void)
{
    int rc = sodium_init(); /* any thread, any number of times */
    SHOAL_ASSERT(rc >= 0);
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* libsodium's secret key, seed and public key in one; NULL: no memory. */
static uint8_t *pair_of(const uint8_t seed[SIGN_SEED], uint8_t key[SIGN_KEY])
{
    begin();
    uint8_t *pair = secret_new(crypto_sign_SECRETKEYBYTES);
    if (pair != NULL)
        (void)crypto_sign_seed_keypair(key, pair, seed);
    return pair;
}

void sign_key_new(uint8_t seed[SIGN_SEED])
{
    begin();
    randombytes_buf(seed, SIGN_SEED);
}

int sign_key_of(const uint8_t seed[SIGN_SEED], uint8_t key[SIGN_KEY])
{
    uint8_t *pair = pair_of(seed, key);
    int rc = pair == NULL ? SHOAL_E_NOMEM : 0;
    secret_free(pair);
    return rc;
}

int sign_make(const uint8_t seed[SIGN_SEED], const void *text, size_t bytes,
              uint8_t out[SIGN_BYTES])
{
    uint8_t key[SIGN_KEY], *pair = pair_of(seed, key);
    if (pair == NULL)
        return SHOAL_E_NOMEM;
    (void)crypto_sign_detached(out, NULL, text, bytes, pair);
    secret_free(pair);
    return 0;
}

bool sign_good(const uint8_t key[SIGN_KEY], const void *text, size_t bytes,
               const uint8_t signature[SIGN_BYTES])
{
    begin();
    return crypto_sign_verify_detached(signature, text, bytes, key) == 0;
}

/* ---- the hash -------------------------------------------------------------------------------- */

struct sign_hash {
    crypto_generichash_state state;
};

void sign_hash_bytes(const void *data, size_t bytes, uint8_t out[SIGN_HASH])
{
    begin();
    (void)crypto_generichash(out, SIGN_HASH, data, bytes, NULL, 0);
}

struct sign_hash *sign_hash_new(void)
{
    begin();
    struct sign_hash *h = aligned_alloc(_Alignof(struct sign_hash), sizeof *h);
    if (h != NULL)
        (void)crypto_generichash_init(&h->state, NULL, 0, SIGN_HASH);
    return h;
}

void sign_hash_add(struct sign_hash *h, const void *data, size_t bytes)
{
    (void)crypto_generichash_update(&h->state, data, bytes);
}

void sign_hash_end(struct sign_hash *h, uint8_t out[SIGN_HASH])
{
    (void)crypto_generichash_final(&h->state, out, SIGN_HASH);
}

void sign_hash_free(struct sign_hash *h)
{
    free(h);
}

/* ---- as text --------------------------------------------------------------------------------- */

void sign_hex(const uint8_t *bytes, size_t count, char *out)
{
    (void)sodium_bin2hex(out, 2 * count + 1, bytes, count);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool sign_unhex(const char *text, uint8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int high = digit(text[2 * i]);
        if (high < 0)
            return false;
        int low = digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
