/* signature.h: the signature of a checkpoint. manifest.json names every other file of the folder:
 *
 *     "hashes": [{"file": path below the folder, "bytes", "blake2b": BLAKE2b-256}, ...], by name
 *
 * and DIR/signature signs manifest.json, all its bytes, with Ed25519:
 *
 *     {"format": 2, "key": the key that signed, "signature"}
 *
 * signature_write makes both. The hashes are not made with the checkpoint: that would take a core a
 * second for 0.7 GB, three times as long as the rest of it.
 *
 * Checksums (XXH3) find damage, a signature finds intent: where one is required, no byte of a
 * checkpoint is used that any program but the holders of the listed keys may have changed.
 * A signature says which key signed the checkpoint, not that the checkpoint is the newest: an older
 * one with its signature is good, too. A signature of release 0.2.0 ("shoal signature 1") is
 * refused: sign again.
 *
 * A list of keys is a separate text: a key in each line (64 hexadecimal digits), '#' begins a
 * comment. Computing a file's hash blocks as long as reading it. Thread: any, each with its own
 * struct. */
#ifndef PROTO_JOB_SIGNATURE_H
#define PROTO_JOB_SIGNATURE_H

#include "proto/base/err.h"
#include "proto/base/sign.h"

#include <stddef.h>
#include <stdint.h>

#define SIGNATURE_FILE "signature"
#define SIGNATURE_BYTES_MAX 4096u
#define SIGNATURE_NAME 128u /* the longest file name, with its NUL */
#define SIGNATURE_KEY (2 * SIGN_KEY + 1)

#define SIGNATURE_SIGNERS 256u /* the most keys in a list */
#define SIGNATURE_SIGNERS_BYTES (1u << 16)

struct signature_signers {
    uint8_t (*key)[SIGN_KEY]; /* owned (count) */
    uint32_t count;
};

/* `name` is the file's name, for messages. CONFIG with name and line, also for a list without a
 * key. */
int signature_signers_parse(const char *text, size_t bytes, const char *name,
                            struct signature_signers **out, struct err *e);
/* NOINPUT; DENIED: every user may write the file. */
int signature_signers_read(const char *path, struct signature_signers **out, struct err *e);
void signature_signers_free(struct signature_signers *s); /* NULL is fine */

struct signature; /* opaque */

/* Parses the texts of FOLDER/signature and FOLDER/manifest.json. They must be complete and right,
 * signed by one of the keys (signers NULL: by any), with the names in order and below the folder.
 * DENIED, with the reason; NOMEM. */
int signature_parse(const char *text, size_t bytes, const char *manifest, size_t manifest_bytes,
                    const char *folder, const struct signature_signers *signers,
                    struct signature **out, struct err *e);
/* Reads both files, and the list first (path NULL: any key). DENIED also where there is no
 * signature. */
int signature_open(const char *folder, const char *signers, struct signature **out, struct err *e);
void signature_free(struct signature *s); /* NULL is fine */
void signature_key(const struct signature *s, char out[SIGNATURE_KEY]);
uint32_t signature_files(const struct signature *s);

/* Check that the bytes read from a file, or the file itself, are those that were signed under that
 * name. The file is read whole, and no link is followed. DENIED names it. */
int signature_check_bytes(const struct signature *s, const char *name, const void *content,
                          size_t bytes, struct err *e);
int signature_check_file(const struct signature *s, const char *name, struct err *e);

/* Signs the manifest of a folder with the hashes of these files, which are all files but
 * manifest.json. It hashes them, renames the complete manifest into place, then the signature.
 * Between the two the checkpoint is complete and not signed. The names are sorted. Waits for
 * readers, a minute at most. DENIED: a name leads out of the folder; NOINPUT, TOO_BIG, CANTCREATE,
 * BUSY. */
int signature_write(const char *folder, char (*name)[SIGNATURE_NAME], uint32_t count,
                    const uint8_t seed[SIGN_SEED], struct err *e);

#endif
