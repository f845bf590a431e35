/* checkpoint.h: what the verbs of `shoal checkpoint` share. Thread: main only. */
#ifndef DEPLOY_CLI_CHECKPOINT_H
#define DEPLOY_CLI_CHECKPOINT_H

#include "deploy/cli/cli.h"
#include "proto/job/manifest.h"

/* Verbs behind `shoal checkpoint`: argv[0] is the verb; each returns an exit status. */
int checkpoint_verify_main(int argc, char **argv);
int checkpoint_diff_main(int argc, char **argv);
int checkpoint_export_main(int argc, char **argv);

struct checkpoint; /* embedding/checkpoint.h */
/* The servers' parts, once the coordinator's manifest is well. The caller calls
 * checkpoint_close. */
int checkpoint_rows_open(const char *folder, struct checkpoint **out, struct err *e);

/* FOLDER's manifest, checked. NOINPUT, CHECKSUM, CORRUPT, VERSION. */
int checkpoint_manifest(const char *folder, struct json **out, struct err *e);
/* A file of it, with a NUL behind it; the caller frees it. NOINPUT, TOO_BIG, IO. */
int checkpoint_file(const char *folder, const char *file, size_t most, char **text, size_t *bytes,
                    struct err *e);
/* "1.2 GB" */
const char *checkpoint_size(double bytes, char out[32]);

#endif
