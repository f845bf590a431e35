/* instance.h: one of several daemons of a kind on a machine, as a systemd template starts it
 * (shoal-server@NAME): its file, and the folders of its unit. */
#ifndef PROTO_JOB_INSTANCE_H
#define PROTO_JOB_INSTANCE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stddef.h>

#define INSTANCE_FOLDER "/etc/shoal" /* SHOAL_CONFIG_DIR names another */

/* Finds the file of a daemon of `kind` ("server") from --config FILE and --instance NAME, either of
 * which may be NULL. NAME: KIND-NAME.yaml where it exists, else KIND.yaml, which all other
 * instances share. path is "" where there is none. USAGE: both are given, or NAME is not a name. */
int instance_file(const char *config, const char *name, const char *kind, char path[LIMIT_PATH],
                  struct err *e);
/* The first folder of STATE_DIRECTORY, RUNTIME_DIRECTORY or CACHE_DIRECTORY, as systemd sets them
 * for a unit; "" where there is none. */
void instance_folder(const char *variable, char *out, size_t bytes);

/* The default name of an instance: "HOST-NAME", so that other programs' messages point to the unit
 * NAME on HOST. */
void instance_name(const char *name, char out[LIMIT_NAME]);

#endif
