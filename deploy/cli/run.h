/* run.h: where a run of `shoal local` lies, and where it lay while it ran: its folder may have been
 * moved since, and its files name the former place. Thread: main only. */
#ifndef DEPLOY_CLI_RUN_H
#define DEPLOY_CLI_RUN_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>

/* The folder's path while it ran; false: it lies there still. */
bool run_moved(const char *run, char former[LIMIT_PATH]);
/* Where a path that its job names is now: what lay in the folder has moved with it. USAGE: too
 * long. */
int run_path(const char *run, const char *path, char out[LIMIT_PATH], struct err *e);

#endif
