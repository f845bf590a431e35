/* checkpoint.h: shared by the verbs of `shoal checkpoint`. Thread: main only. */
#ifndef DEPLOY_CLI_CHECKPOINT_H
#define DEPLOY_CLI_CHECKPOINT_H

#include "deploy/cli/cli.h"
#include "proto/job/manifest.h"

/* Verbs behind `shoal checkpoint`. */
int checkpoint_create_main(struct option_line *o, struct err *e);
int checkpoint_list_main(struct option_line *o, struct err *e);
int checkpoint_restore_main(struct option_line *o, struct err *e);
int checkpoint_verify_main(struct option_line *o, struct err *e);
int checkpoint_sign_main(struct option_line *o, struct err *e);
int checkpoint_diff_main(struct option_line *o, struct err *e);
int checkpoint_export_main(struct option_line *o, struct err *e);
int checkpoint_remove_main(struct option_line *o, struct err *e);

struct local; /* local_inner.h */
/* Where the coordinator listens: as the line says (--coordinator, --run-dir); of a run that has
 * ended daemons are started in *l. The caller calls local_stop, local_scratch_remove. */
int checkpoint_endpoint(const struct option_line *o, struct local *l, char out[256], struct err *e);
/* An order to it, on l->ask, which the caller closes. What is BUSY is asked again for ten minutes,
 * and so are daemons that were just started; command: says on stderr what is waited for; NULL:
 * silently. */
int checkpoint_order(struct local *l, const char *endpoint, const char *command, struct wire *w,
                     struct wire *reply, struct err *e);

struct checkpoint; /* embedding/checkpoint.h */
/* The servers' parts, once the coordinator's manifest is well. The caller calls
 * checkpoint_close. */
int checkpoint_rows_open(const char *folder, struct checkpoint **out, struct err *e);

/* Reads every file and says what is damaged, line by line: CORRUPT. signers: as checkpoint_open's;
 * then it is not what was signed: DENIED. */
int checkpoint_whole(const char *folder, const char *signers, struct err *e);
/* That a key of the list has signed the folder, and what the coordinator reads of it: DENIED. */
int checkpoint_signed_check(const char *folder, const char *signers, struct err *e);
/* Prints whether a key, and which, has signed it; checked: it has. DENIED: what lies there is no
 * signature. */
int checkpoint_signed_say(const char *folder, bool checked, struct err *e);

/* FOLDER's manifest, checked. NOINPUT, CHECKSUM, CORRUPT, VERSION. */
int checkpoint_manifest(const char *folder, struct json **out, struct err *e);
/* A file of it, with a NUL behind it; the caller frees it. NOINPUT, TOO_BIG, IO. */
int checkpoint_file(const char *folder, const char *file, size_t most, char **text, size_t *bytes,
                    struct err *e);
/* "1.2 GB" */
const char *checkpoint_size(double bytes, char out[32]);

#endif
