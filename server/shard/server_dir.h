/* server_dir.h: a server's data_dir: who it belongs to, and what lies in it.
 *
 *     data_dir/lock      held while a server runs
 *     data_dir/name      the server's name: a server that comes back under its name gets its shard
 *                        numbers back
 *     data_dir/shard-N/  of each shard, made and read by the engine */
#ifndef SERVER_SHARD_SERVER_DIR_H
#define SERVER_SHARD_SERVER_DIR_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdint.h>

/* Makes the folder where it is missing, locks it within wait_ms (lockfile.h), reads or draws the
 * name (asked: the name from the configuration, may be empty; another name than the one kept is
 * refused) and makes the shards' folders. A folder with more shards than `shards` is refused: their
 * rows would be missing. *lock_fd stays open while the server runs. CANTCREATE, CONFIG, IO or
 * STOPPED. */
int server_dir_open(const char *dir, const char *asked, uint32_t shards, uint32_t wait_ms,
                    char name[LIMIT_NAME], int *lock_fd, struct err *e);
void server_dir_shard(const char *dir, uint32_t shard, char out[LIMIT_PATH]);

#endif
