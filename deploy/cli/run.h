/* run.h: the folder of a run of `shoal local`: where it lies, where it lay while it ran (its folder
 * may have been moved since, and its files name the former place), and how its rows are read.
 *
 * Rows are asked for at its coordinator if that answers. Else the folder is taken (run_take), and
 * either this process opens the rows (cluster.h) or coordinator and servers are started on them
 * (local_inner.h). Of a folder that cannot be written the rows are those of the checkpoint of its
 * end (run_end). Thread: main only. */
#ifndef DEPLOY_CLI_RUN_H
#define DEPLOY_CLI_RUN_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <glob.h>
#include <stdbool.h>
#include <stdint.h>

/* True: the folder, of a run or a checkpoint, has a file of that name. */
bool run_has(const char *folder, const char *name);
/* True: the folder is that of a run. */
bool run_is(const char *folder);
/* The folder's path while it ran; false: it lies there still. */
bool run_moved(const char *run, char former[LIMIT_PATH]);
/* Where a path that its job names is now: what lay in the folder has moved with it. USAGE: too
 * long. */
int run_path(const char *run, const char *path, char out[LIMIT_PATH], struct err *e);

/* Where its coordinator listens, as `shoal local` wrote it; false: that is not known. */
bool run_endpoint(const char *run, char out[256]);
/* True: the run's coordinator answers. endpoint: where it listens. */
bool run_answers(const char *run, char endpoint[256]);
/* 0: the run's servers left rows. NOINPUT: it has no shards; CONFIG: they had them in memory. */
int run_kept(const char *run, struct err *e);
/* The folder, whose coordinator does not answer, is this process's until it ends. As run_kept;
 * DENIED: it cannot be read or written; CANTCREATE: another process has had it for wait_ms. */
int run_take(const char *run, uint32_t wait_ms, struct err *e);
/* True: an ended run that cannot be written has the same rows in the checkpoint of its end, whose
 * folder is `path` then; a note says so on standard error. */
bool run_end(const char *run, char path[LIMIT_PATH]);
/* The folders of its shards, in any number. NOINPUT: there are none. globfree in any case. */
int run_shards(const char *run, glob_t *out, struct err *e);

#endif
