/* seed_place.c: the folder of a seed (seed.c), which takes the place of the engine's in one step.
 *
 * 1. The folder has its old rows and journal, or those of the seed. A rename of seed-rows to
 *    whole-rows decides, when both are on disk; every start completes what follows. All names are
 *    in one folder, whose changes reach the disk in their order.
 *    [test: power_leaves_the_old_rows_or_the_new_ones]
 *
 *     DIR/seed-rows, DIR/seed-journal: parts are taken        a start removes them
 *     DIR/whole-rows, DIR/seed-journal: decided               a start goes on:
 *       journal/ removed, seed-journal -> journal
 *       rows/, cuts/, archive/ removed, whole-rows -> rows */
#include "embedding/copy.h"
#include "embedding/engine/seed.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void seed_path(const char *dir, const char *name, char out[LIMIT_PATH])
{
    int n = snprintf(out, LIMIT_PATH, "%s/%s", dir, name);
    SHOAL_ASSERT(n > 0 && n < (int)LIMIT_PATH); /* engine_seed_begin and engine_open check it */
}

static bool is_there(const char *dir, const char *name)
{
    char path[LIMIT_PATH];
    struct stat st;
    seed_path(dir, name, path);
    return lstat(path, &st) == 0;
}

static int remove_one(const char *dir, const char *name, struct err *e)
{
    char path[LIMIT_PATH];
    seed_path(dir, name, path);
    if (file_remove_tree(path) != 0)
        return err_set(e, SHOAL_E_IO, "cannot remove %s: %s", path, strerror(errno));
    return 0;
}

static int rename_one(const char *dir, const char *name, const char *to, struct err *e)
{
    char path[LIMIT_PATH], after[LIMIT_PATH];
    seed_path(dir, name, path);
    seed_path(dir, to, after);
    if (file_rename(path, after) != 0 || file_sync_folder(dir) != 0)
        return err_set(e, SHOAL_E_IO, "cannot rename %s to %s: %s", path, after, strerror(errno));
    return 0;
}

/* Completes a seed for which it was decided. Each step may be repeated. */
static int put_in_place(const char *dir, struct err *e)
{
    int rc = 0;
    if (is_there(dir, "seed-journal")) { /* else it has its place already */
        rc = remove_one(dir, "journal", e);
        if (rc == 0)
            rc = rename_one(dir, "seed-journal", "journal", e);
    }
    if (rc == 0)
        rc = remove_one(dir, "rows", e);
    if (rc == 0)
        rc = remove_one(dir, "cuts", e);
    if (rc == 0)
        rc = remove_one(dir, "archive", e);
    if (rc == 0)
        rc = rename_one(dir, "whole-rows", "rows", e);
    return rc;
}

int seed_settle(const char *dir, struct err *e)
{
    if (is_there(dir, "whole-rows"))
        return put_in_place(dir, e);

    int rc = remove_one(dir, "seed-rows", e);
    if (rc != 0)
        return rc;

    return remove_one(dir, "seed-journal", e);
}

static int folder_make(const char *dir, const char *name, struct err *e)
{
    char path[LIMIT_PATH];
    seed_path(dir, name, path);
    if (file_mkdir(path, 0700) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create %s: %s", path, strerror(errno));
    return 0;
}

int seed_folders_make(const char *dir, struct err *e)
{
    if (strlen(dir) + 64 > LIMIT_PATH)
        return err_set(e, SHOAL_E_CONFIG, "the folder name %s is too long", dir);
    if ((file_mkdir(dir, 0700) != 0 && errno != EEXIST) || file_sync_name(dir) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create the shard's folder %s: %s", dir,
                       strerror(errno));

    int rc = seed_settle(dir, e);
    if (rc == 0)
        rc = folder_make(dir, "seed-rows", e);
    if (rc == 0)
        rc = folder_make(dir, "seed-journal", e);
    return rc;
}

bool seed_decided(const char *dir)
{
    return is_there(dir, "whole-rows");
}

/* UNAVAILABLE: an engine is open in dir. */
static int check_closed(const char *dir, struct err *e)
{
    char path[LIMIT_PATH];
    seed_path(dir, "LOCK", path);
    int fd = file_open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create %s: %s", path, strerror(errno));
    bool closed = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    if (!closed)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the folder %s is in use; its rows cannot be replaced before that engine is "
                       "closed",
                       dir);
    return 0;
}

/* Both folders are complete: their names, then the decision. */
int seed_decide(const char *dir, struct err *e)
{
    char rows[LIMIT_PATH], journal[LIMIT_PATH];
    int rc = check_closed(dir, e);
    if (rc != 0)
        return rc;
    seed_path(dir, "seed-rows", rows);
    seed_path(dir, "seed-journal", journal);
    if (file_sync_folder(rows) != 0 || file_sync_folder(journal) != 0 || file_sync_folder(dir) != 0)
        return err_set(e, SHOAL_E_IO, "cannot sync the seed in %s: %s", dir, strerror(errno));
    return rename_one(dir, "seed-rows", "whole-rows", e);
}

/* An empty seed takes the place of everything. Its empty folders go, too: one of rows would look
 * like a durable engine's. */
int engine_wipe(const char *dir, struct err *e)
{
    char rows[LIMIT_PATH], journal[LIMIT_PATH];
    int rc = seed_folders_make(dir, e);
    if (rc == 0)
        rc = seed_decide(dir, e);
    if (rc == 0)
        rc = seed_settle(dir, e);
    if (rc != 0)
        return rc;

    seed_path(dir, "rows", rows);
    seed_path(dir, "journal", journal);
    if (file_rmdir(rows) != 0 || file_rmdir(journal) != 0 || file_sync_folder(dir) != 0)
        return err_set(e, SHOAL_E_IO, "cannot empty %s: %s", dir, strerror(errno));
    return 0;
}
