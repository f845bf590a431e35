/* reading.c: locks on a checkpoint's manifest. */
#include "proto/job/reading.h"
#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/job/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 1000, LOOK_MS = 20 };

static int manifest_open(const char *folder, int how, char path[LIMIT_PATH], struct err *e)
{
    if (snprintf(path, LIMIT_PATH, "%s/" MANIFEST_FILE, folder) >= (int)LIMIT_PATH)
        return err_set(e, SHOAL_E_TOO_BIG, "the path %.200s... is too long", folder);
    int fd = open(path, how | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && how == O_RDWR && (errno == EACCES || errno == EROFS))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return fd;
    return err_set(e, errno == ENOENT || errno == ENOTDIR ? SHOAL_E_NOINPUT : SHOAL_E_IO,
                   "cannot open %s: %s", path, strerror(errno));
}

/* The process that removes a checkpoint holds the lock for as long as a rename takes. */
static bool shared_within(int fd, uint32_t wait_ms)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
    for (uint32_t waited = 0; flock(fd, LOCK_SH | LOCK_NB) != 0; waited += LOOK_MS) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || waited >= wait_ms)
            return false;
        (void)nanosleep(&look, NULL);
    }
    return true;
}

/* True when the file still has the name: meanwhile another file may have it, or none. */
static bool named_still(int fd, const char *path)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

static int begin_within(const char *folder, int replaced, int *hold, struct err *e)
{
    char path[LIMIT_PATH];
    *hold = READING_NONE;
    int fd = manifest_open(folder, O_RDONLY, path, e);
    if (fd < 0)
        return fd;
    bool held = shared_within(fd, WAIT_MS);
    int why = errno;
    if (held && named_still(fd, path)) {
        *hold = fd;
        return 0;
    }
    close(fd);
    /* the manifest has just been replaced by a signed one */
    if (held && access(path, F_OK) == 0 && replaced > 0)
        return begin_within(folder, replaced - 1, hold, e);
    if (held)
        return err_set(e, SHOAL_E_NOINPUT, "%s has just been removed", folder);
    if (why == EWOULDBLOCK)
        return err_set(e, SHOAL_E_BUSY, "%s is being removed", folder);
    log_warn("%s cannot be locked (%s): nothing keeps a coordinator from removing the checkpoint "
             "while it is read",
             path, strerror(why));
    return 0;
}

int reading_begin(const char *folder, int *hold, struct err *e)
{
    return begin_within(folder, 3, hold, e);
}

int reading_shut(const char *folder, int *hold, struct err *e)
{
    char path[LIMIT_PATH];
    *hold = READING_NONE;
    int fd = manifest_open(folder, O_RDWR, path, e);
    if (fd < 0)
        return fd;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (locked && named_still(fd, path)) {
        *hold = fd;
        return 0;
    }
    /* a manifest that has just been signed took the name, and may have readers */
    int why = locked ? EWOULDBLOCK : errno;
    close(fd);
    if (why == EWOULDBLOCK)
        return err_set(e, SHOAL_E_BUSY, "%s is being read", folder);
    return err_set(e, SHOAL_E_IO, "cannot lock %s: %s", path, strerror(why));
}

void reading_end(int *hold)
{
    SHOAL_ASSERT(*hold >= READING_NONE);
    if (*hold != READING_NONE)
        close(*hold);
    *hold = READING_NONE;
}
