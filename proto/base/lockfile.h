/* lockfile.h: a folder that one daemon at a time uses: the file `lock` in it, held while it lives.
 *
 * The next one may start before the last one has ended: who was told to end still writes what it
 * has, and the kernel takes its memory back before it lets the lock go. A main waits for that; the
 * modules below it take the lock or say whose it is. */
#ifndef PROTO_BASE_LOCKFILE_H
#define PROTO_BASE_LOCKFILE_H

#include <stdbool.h>
#include <stdint.h>

/* dir/lock, made where it is missing: the descriptor that holds it (close() lets it go), or -1 with
 * errno. EWOULDBLOCK: another process has it. */
int lockfile_take(const char *dir);

enum { LOCKFILE_WAIT_MS = 20000 };

/* Waits until nobody has dir/lock, at most wait_ms, says so once, and takes nothing. False:
 * somebody still has it. A lock or folder that is not there is free. */
bool lockfile_await(const char *dir, uint32_t wait_ms);

#endif
