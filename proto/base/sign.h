/* sign.h: signatures (Ed25519), and the hash of signed files (BLAKE2b-256), both from libsodium.
 * Any thread. */
#ifndef PROTO_BASE_SIGN_H
#define PROTO_BASE_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGN_KEY 32u   /* bytes of a public key */
#define SIGN_SEED 32u  /* bytes of the seed, the secret */
#define SIGN_BYTES 64u /* bytes of a signature */
#define SIGN_HASH 32u

/* Makes a new pair. seed: in memory of secret.h. */
void sign_key_new(uint8_t seed[SIGN_SEED]);
/* Derives the public key of a seed. NOMEM, also of sign_make: no memory for a secret. */
int sign_key_of(const uint8_t seed[SIGN_SEED], uint8_t key[SIGN_KEY]);
int sign_make(const uint8_t seed[SIGN_SEED], const void *text, size_t bytes,
              uint8_t out[SIGN_BYTES]);
bool sign_good(const uint8_t key[SIGN_KEY], const void *text, size_t bytes,
               const uint8_t signature[SIGN_BYTES]);

void sign_hash_bytes(const void *data, size_t bytes, uint8_t out[SIGN_HASH]);
/* A running hash over several pieces. */
struct sign_hash;                      /* opaque; owned by the caller of sign_hash_new */
struct sign_hash *sign_hash_new(void); /* NULL: no memory */
void sign_hash_add(struct sign_hash *h, const void *data, size_t bytes);
void sign_hash_end(struct sign_hash *h, uint8_t out[SIGN_HASH]);
void sign_hash_free(struct sign_hash *h); /* NULL is fine */

/* sign_hex writes hexadecimal digits and a NUL behind them. sign_unhex reads them back: exactly
 * count bytes, small letters only, so that a number has one spelling. */
void sign_hex(const uint8_t *bytes, size_t count, char *out);
bool sign_unhex(const char *text, uint8_t *out, size_t count);

#endif
