/* secret.h: memory for keys, and signatures; the door to libsodium.
 *
 * A secret lies between guard pages, locked where the system allows it, and in no core
 * dump; it is wiped when it is freed. Signatures are Ed25519 over the SHA-512 of all
 * bytes (Ed25519ph): a manifest may be long. Keys of signatures are written in
 * hexadecimal, which YAML takes as it is. */
#ifndef PROTO_BASE_SECRET_H
#define PROTO_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_SIGN_PUBLIC 65  /* text of a public key, NUL counted */
#define SECRET_SIGN_SECRET 129 /* of a secret one */
#define SECRET_SIGNATURE 129   /* of a signature */

void *secret_new(size_t bytes); /* zeroed; NULL: no memory */
void secret_free(void *secret); /* NULL is fine */
void secret_wipe(void *bytes, size_t count);

/* A new pair. False: no random numbers. */
bool secret_sign_pair(char pub[SECRET_SIGN_PUBLIC], char secret[SECRET_SIGN_SECRET]);
/* False: it is no secret key. */
bool secret_sign(const char *secret, const void *bytes, size_t count, char out[SECRET_SIGNATURE]);
/* Whether the holder of `pub` has signed these bytes. */
bool secret_signed(const char *pub, const void *bytes, size_t count, const char *signature);
/* Whether a text is a public key. */
bool secret_sign_public_ok(const char *text);

#endif
