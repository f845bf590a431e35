/* server_dir.c: data_dir on disk. */
#include "server/shard/server_dir.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/lockfile.h"
#include "proto/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Bytes that must be free for each shard before its store is opened. RocksDB then writes the head
 * of its log, its options and a manifest: 30 KiB for a small store, and some 200 bytes for each
 * file of rows. */
#define ROOM_LEAST (UINT64_C(4) << 20)

static int room_check(const char *dir, uint32_t shards, struct err *e)
{
    struct file_room disk;
    uint64_t least = ROOM_LEAST * shards;
    if (file_room(dir, &disk) != 0)
        return err_set(e, SHOAL_E_IO, "cannot read how full the disk of %s is: %s", dir,
                       strerror(errno));
    if (disk.bytes == 0 || disk.left >= least)
        return 0;
    return err_set(e, SHOAL_E_NO_SPACE,
                   "the disk of %s is full: %" PRIu64 " bytes are free, and a start with %" PRIu32
                   " shards needs at least %" PRIu64
                   "; free some space on it or make it larger, but remove no file of this folder",
                   dir, disk.left, shards, least);
}

static int make_folder(const char *path, struct err *e)
{
    char part[LIMIT_PATH];
    if (file_make_folders(path, 0700, part) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s; see `data_dir`", part,
                       strerror(errno));
    return 0;
}

static int write_name(const char *path, const char *name, struct err *e)
{
    char temporary[LIMIT_PATH + 8], line[LIMIT_NAME + 2];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int bytes = snprintf(line, sizeof line, "%s\n", name);
    SHOAL_ASSERT(bytes > 1 && (size_t)bytes < sizeof line);
    if (file_write_whole(path, temporary, line, (size_t)bytes, 0600, FILE_LASTS_CRASH) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    return 0;
}

static int take_name(const char *dir, const char *asked, char name[LIMIT_NAME], struct err *e)
{
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%.*s/name", LIMIT_PATH - 16, dir);
    name[0] = 0;
    FILE *f = fopen(path, "re");
    if (f != NULL) {
        if (fgets(name, LIMIT_NAME, f) == NULL)
            name[0] = 0;
        fclose(f);
        name[strcspn(name, "\n")] = 0;
    } else if (errno != ENOENT) {
        return err_set(e, SHOAL_E_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if (name[0] && asked[0] && strcmp(name, asked))
        return err_set(e, SHOAL_E_CONFIG,
                       "%s holds the data of server %s, not of %s; change `name` or `data_dir`",
                       dir, name, asked);
    if (name[0])
        return 0;
    uint32_t drawn[2];
    if (getentropy(drawn, sizeof drawn))
        return err_set(e, SHOAL_E_INTERNAL, "cannot draw a name: %s", strerror(errno));
    if (asked[0])
        text_copy(name, LIMIT_NAME, asked);
    else
        snprintf(name, LIMIT_NAME, "server-%08x%08x", drawn[0], drawn[1]);
    return write_name(path, name, e);
}

void server_dir_shard(const char *dir, uint32_t shard, char out[LIMIT_PATH])
{
    snprintf(out, LIMIT_PATH, "%.*s/shard-%u", LIMIT_PATH - 32, dir, shard);
}

int server_dir_open(const char *dir, const char *asked, uint32_t shards, uint32_t wait_ms,
                    char name[LIMIT_NAME], int *lock_fd, struct err *e)
{
    char path[LIMIT_PATH];
    int rc = make_folder(dir, e);
    *lock_fd = -1;
    if (rc || (rc = lockfile_take_data(dir, wait_ms, "shoal-server", lock_fd, e)))
        return rc;
    rc = room_check(dir, shards, e);
    if (rc == 0)
        rc = take_name(dir, asked, name, e);
    for (uint32_t i = 0; !rc && i < shards; i++) {
        server_dir_shard(dir, i, path);
        rc = make_folder(path, e);
    }
    server_dir_shard(dir, shards, path);
    if (!rc && access(path, F_OK) == 0)
        rc = err_set(
            e, SHOAL_E_CONFIG,
            "%s exists, but `shards` is %u: its rows would be missing; set shards to at least %u",
            path, shards, shards + 1);
    if (rc) {
        close(*lock_fd);
        *lock_fd = -1;
    }
    SHOAL_ASSERT((rc == 0) == (*lock_fd >= 0) && (rc != 0 || name[0] != '\0'));
    return rc;
}
