/* checkpoint.h: shared by the verbs of `shoal checkpoint`. Thread: main only. */
#ifndef DEPLOY_CLI_CHECKPOINT_H
#define DEPLOY_CLI_CHECKPOINT_H

#include "deploy/cli/cli.h"
#include "proto/job/manifest.h"
#include "proto/wire/coordinators.h"

/* The verbs of `shoal checkpoint`. */
int checkpoint_create_main(struct option_line *o, struct err *e);
int checkpoint_list_main(struct option_line *o, struct err *e);
int checkpoint_restore_main(struct option_line *o, struct err *e);
int checkpoint_verify_main(struct option_line *o, struct err *e);
int checkpoint_sign_main(struct option_line *o, struct err *e);
int checkpoint_diff_main(struct option_line *o, struct err *e);
int checkpoint_remove_main(struct option_line *o, struct err *e);

struct local; /* local_inner.h */
/* The name of --space; "": the line has none. USAGE: it is too long. */
int checkpoint_space(const struct option_line *o, char out[LIMIT_NAME], struct err *e);
/* The coordinator's endpoint, as the line says (--coordinator, --run-dir). For a run that has
 * ended, daemons are started in *l. The caller calls local_stop and local_scratch_remove. */
int checkpoint_endpoint(const struct option_line *o, struct local *l, char out[COORDINATORS_LIST],
                        struct err *e);
/* Sends the coordinator an order on l->ask, which the caller closes. An order that is BUSY is
 * retried for ten minutes; so is one to daemons that were just started. command: the name under
 * which a note on stderr says what is waited for; NULL: no note. */
int checkpoint_order(struct local *l, const char *endpoint, const char *command, struct wire *w,
                     struct wire *reply, struct err *e);

/* Reads every file and prints a line for each damaged one: CORRUPT. signers: as for
 * checkpoint_open; a folder that differs from the signed one is DENIED. */
int checkpoint_whole(const char *folder, const char *signers, struct err *e);
/* Checks that a key of the list has signed the folder and every file that the coordinator reads:
 * DENIED. */
int checkpoint_signed_check(const char *folder, const char *signers, struct err *e);
/* Prints which key has signed the folder, or that none has. checked: the signature was verified.
 * DENIED: the signature file there is no signature. */
int checkpoint_signed_say(const char *folder, bool checked, struct err *e);

/* The manifest in `folder`, checked. NOINPUT, CHECKSUM, CORRUPT, VERSION. */
int checkpoint_manifest(const char *folder, struct json **out, struct err *e);
/* A file of the folder, with a NUL at its end; the caller frees it. NOINPUT, TOO_BIG, IO. */
int checkpoint_file(const char *folder, const char *file, size_t most, char **text, size_t *bytes,
                    struct err *e);
enum { LACKS_BYTES = 512 }; /* for manifest_lacks */

#endif
