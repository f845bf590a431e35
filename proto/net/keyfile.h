/* keyfile.h: files of keys, as `shoal keygen` makes them.
 *
 *     # a word and its value a line; blanks between
 *     public      Z85              of CURVE; 40 characters
 *     secret      Z85
 *     coordinator Z85              the one that this key's holder takes for its coordinator; two
 *                                  of them while the coordinator's key is changed
 *
 *     sign-public HEX              of a key that signs checkpoints, in a file of its own; 64 digits
 *     sign-secret HEX
 *
 * A file that others than its owner may read, or that belongs neither to us nor to root, is
 * refused; what systemd hands over (below $CREDENTIALS_DIRECTORY) may be the group's to read, for
 * so it shows the access list of a service's user. Secrets lie in memory of secret.h, never in an
 * argument, the environment or the log. */
#ifndef PROTO_NET_KEYFILE_H
#define PROTO_NET_KEYFILE_H

#include "proto/base/err.h"
#include "proto/base/sign.h"

#include <stdbool.h>

#define KEYFILE_KEY 41u /* a key of CURVE as text, NUL counted */

#define KEYFILE_PINS 2u
struct keyfile { /* in memory of secret.h */
    char pub[KEYFILE_KEY], secret[KEYFILE_KEY];
    char coordinator[KEYFILE_PINS][KEYFILE_KEY]; /* empty: none is pinned */
};

/* Whether a text is a public key of CURVE: 40 characters of Z85. */
bool keyfile_key_ok(const char *text);

/* NOINPUT; DENIED: its modes or owner; CONFIG: what stands in it. */
int keyfile_load(const char *path, struct keyfile **out, struct err *e);
/* The file that is named, else, where systemd hands over a credential `shoal.key` that does not
 * say "none", that. *out NULL: neither, so no keys. path: NULL or empty: not named. */
int keyfile_find(const char *path, struct keyfile **out, struct err *e);
/* The "ok" of --check where neither is there: outside of its unit no key of a unit is seen. */
#define KEYFILE_UNSEEN "ok, without a key: over tcp the unit must hand one over"
void keyfile_free(struct keyfile *k); /* NULL is fine */

#define KEYFILE_SIGNER (2 * SIGN_KEY + 1)

/* Whose holder signs checkpoints (proto/job/signature.h). *seed: in memory of secret.h, freed by
 * secret_free. As keyfile_load. */
int keyfile_signer_load(const char *path, uint8_t **seed, struct err *e);
/* As keyfile_make, without a coordinator. */
int keyfile_signer_make(const char *path, char pub[KEYFILE_SIGNER], struct err *e);

/* Makes a new pair into path, 0400, and its public half into path.pub; neither may be there.
 * pinned: the coordinator's public key, or the name of a file of it; two with a comma between; NULL
 * or empty: none. pub gets the public half. */
int keyfile_make(const char *path, const char *pinned, char pub[KEYFILE_KEY], struct err *e);
/* The key in path stays and from now on pins these; whole or not at all, owner and mode stay. */
int keyfile_pin(const char *path, const char *pinned, struct err *e);

#endif
