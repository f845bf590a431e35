/* server_dir.h: a server's data_dir: its server's name and its contents.
 *
 *     data_dir/lock      held while a server runs
 *     data_dir/name      the server's name: a server that comes back under its name gets its shard
 *                        numbers back
 *     data_dir/shard-N/  one for each shard, whose files the engine makes and reads */
#ifndef SERVER_SHARD_SERVER_DIR_H
#define SERVER_SHARD_SERVER_DIR_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdint.h>

/* Makes the folder where it is missing, locks it within wait_ms (lockfile.h), reads or draws the
 * name and makes the shards' folders. asked: the name from the configuration, may be empty; a name
 * other than the kept one is refused. A folder with more shards than `shards` is refused: their
 * rows would be missing. A full disk is refused, because Debian 12's RocksDB (7.8) aborts when it
 * opens a store there. *lock_fd stays open while the server runs. CANTCREATE, CONFIG, IO, NO_SPACE
 * or STOPPED. */
int server_dir_open(const char *dir, const char *asked, uint32_t shards, uint32_t wait_ms,
                    char name[LIMIT_NAME], int *lock_fd, struct err *e);
void server_dir_shard(const char *dir, uint32_t shard, char out[LIMIT_PATH]);

#endif
