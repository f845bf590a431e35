/* keyfile.h: key files, as `shoal keygen` makes them.
 *
 *     # a word and its value a line; blanks between
 *     public      Z85              of CURVE; 40 characters
 *     secret      Z85
 *     coordinator Z85              the coordinator's key, which the holder of this file pins; two
 *                                  of them while the coordinator's key is changed
 *
 *     sign-public HEX              of a key that signs checkpoints, in a file of its own; 64 digits
 *     sign-secret HEX
 *
 * A file that users other than its owner may read, or that belongs neither to our user nor to root,
 * is refused. A credential of systemd (below $CREDENTIALS_DIRECTORY) may be readable by its group,
 * because that is how the access list for a service's user appears. Secrets are kept in memory of
 * secret.h, never in an argument, the environment or the log. */
#ifndef PROTO_NET_KEYFILE_H
#define PROTO_NET_KEYFILE_H

#include "proto/base/err.h"
#include "proto/base/sign.h"

#include <stdbool.h>

#define KEYFILE_KEY 41u /* a CURVE key as text, NUL counted */

#define KEYFILE_PINS 2u
struct keyfile { /* in memory of secret.h */
    char pub[KEYFILE_KEY], secret[KEYFILE_KEY];
    char coordinator[KEYFILE_PINS][KEYFILE_KEY]; /* empty: none is pinned */
};

/* True when the text is a public CURVE key: 40 characters of Z85. */
bool keyfile_key_ok(const char *text);

/* NOINPUT; DENIED: its mode or owner; CONFIG: its content. */
int keyfile_load(const char *path, struct keyfile **out, struct err *e);
/* Loads the named file. Without a name it loads systemd's credential `shoal.key`, if there is one
 * that does not say "none". *out NULL: there is neither, so no keys. path NULL or empty: not
 * named. */
int keyfile_find(const char *path, struct keyfile **out, struct err *e);
/* The "ok" of --check without either file: a unit's key is not visible outside the unit. */
#define KEYFILE_UNSEEN "ok, without a key: over tcp the unit must hand one over"
void keyfile_free(struct keyfile *k); /* NULL is fine */

#define KEYFILE_SIGNER (2 * SIGN_KEY + 1)

/* Loads the secret key that signs checkpoints (proto/job/signature.h). *seed: in memory of
 * secret.h, freed by secret_free. Errors as of keyfile_load. */
int keyfile_signer_load(const char *path, uint8_t **seed, struct err *e);
/* The same as keyfile_make, without a coordinator. */
int keyfile_signer_make(const char *path, char pub[KEYFILE_SIGNER], struct err *e);

/* Makes a new pair: the file path (mode 0400) and its public half in path.pub; neither may exist.
 * pinned: the coordinator's public key, or the name of a file that has it; or two, separated by a
 * comma; NULL or empty: none. pub gets the public half. */
int keyfile_make(const char *path, const char *pinned, char pub[KEYFILE_KEY], struct err *e);
/* Replaces the pinned keys in path and keeps its own key. The change is atomic and keeps owner and
 * mode. */
int keyfile_pin(const char *path, const char *pinned, struct err *e);

#endif
