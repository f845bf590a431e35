/* instance.h: one of several daemons of a kind on a machine, as a systemd template starts it
 * (shoal-server@NAME): its file, and the folders that its unit gives it. */
#ifndef PROTO_JOB_INSTANCE_H
#define PROTO_JOB_INSTANCE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stddef.h>

#define INSTANCE_FOLDER "/etc/shoal" /* SHOAL_CONFIG_DIR names another */

/* What --config FILE and --instance NAME, of which either may be NULL, say of a daemon of `kind`
 * ("server"). NAME: KIND-NAME.yaml where there is one, else KIND.yaml, which all others share. ""
 * where there is none. USAGE: both, or not a name. */
int instance_file(const char *config, const char *name, const char *kind, char path[LIMIT_PATH],
                  struct err *e);
/* The first folder of STATE_DIRECTORY, RUNTIME_DIRECTORY or CACHE_DIRECTORY, as systemd sets them
 * for a unit; "" where there is none. */
void instance_folder(const char *variable, char *out, size_t bytes);

/* What the others know an instance by, where its file gives no name: "HOST-NAME", so that it is
 * found again as the unit NAME on HOST. */
void instance_name(const char *name, char out[LIMIT_NAME]);

#endif
