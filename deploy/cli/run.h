/* run.h: the folder of a run of `shoal local`: its path, its path while it ran, and the way to its
 * rows. A folder may have been moved since its run; its files still name the former path.
 *
 * A run's coordinator is asked for rows if it answers. Otherwise the folder is locked (run_take),
 * and either this process opens the rows (reader.h) or coordinator and servers are started on them
 * (local_inner.h). If a folder cannot be written, the rows are read from the checkpoint of the
 * run's end (run_end). Thread: main only. */
#ifndef DEPLOY_CLI_RUN_H
#define DEPLOY_CLI_RUN_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* True when the folder, of a run or a checkpoint, has a file of that name. */
bool run_has(const char *folder, const char *name);
/* True when the folder is that of a run. */
bool run_is(const char *folder);
/* True when the folder was moved; former: its path while it ran. */
bool run_moved(const char *run, char former[LIMIT_PATH]);
/* The present path for a path that the run's job names: files inside the folder have moved with it.
 * Absolute and without links where the path exists; a relative one, which earlier versions left in
 * job.yaml, counts from the working folder. USAGE: too long. */
int run_path(const char *run, const char *path, char out[LIMIT_PATH], struct err *e);

/* True when the run's coordinator answers at `endpoint`. */
bool run_answers(const char *run, char endpoint[256]);
/* 0: the run's servers left rows. NOINPUT: the run has no shards; CONFIG: its rows were in
 * memory. */
int run_kept(const char *run, struct err *e);
/* Locks the folder of a run whose coordinator does not answer, until this process ends. Errors as
 * run_kept; DENIED: it cannot be read or written; CANTCREATE: another process has held it for
 * wait_ms. */
int run_take(const char *run, uint32_t wait_ms, struct err *e);
/* True when an ended run cannot be written but has the same rows in the checkpoint of its end.
 * path: that checkpoint's folder; a note on standard error says so. */
bool run_end(const char *run, char path[LIMIT_PATH]);
/* The folder of a shard of the run, by number; false: the run has no such shard. */
enum { RUN_SHARDS = LIMIT_LOCAL_SERVERS * LIMIT_LOCAL_SHARDS };
bool run_shard(const char *run, uint32_t n, char out[LIMIT_PATH]);

#endif
