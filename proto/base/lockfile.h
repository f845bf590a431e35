/* lockfile.h: a folder that one process at a time uses: the file `lock` in it, held while it lives.
 *
 * The next one may start before the last one has ended: who was told to end still writes what it
 * has, and the kernel takes its memory back before it lets the lock go. So there is a time to wait.
 */
#ifndef PROTO_BASE_LOCKFILE_H
#define PROTO_BASE_LOCKFILE_H

#include "proto/base/err.h"

#include <stdint.h>

enum { LOCKFILE_WAIT_MS = 20000 }; /* of a daemon for the one before it */

/* dir/lock, made where it is missing: the descriptor that holds it (close() lets it go; no program
 * that is started gets it), or -1 with errno. EWOULDBLOCK: another process has it, also after
 * wait_ms; that there is something to wait for is said once. EINTR: a signal that this process
 * catches, or SIGTERM or SIGINT that it has blocked, ended the waiting. */
int lockfile_take(const char *dir, uint32_t wait_ms);
/* A daemon's data_dir, likewise. program: what else may have it. STOPPED (EINTR), CANTCREATE. */
int lockfile_take_data(const char *dir, uint32_t wait_ms, const char *program, int *fd,
                       struct err *e);

#endif
