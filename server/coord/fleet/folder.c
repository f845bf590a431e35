/* folder.c: folders of checkpoints on a file system. */
#include "server/coord/fleet/folder.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/process.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/job/manifest.h"
#include "proto/job/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Files removed in one call: on a network file system each takes milliseconds, and other errands
 * wait meanwhile. */
enum { AT_ONCE = 64 };

static int failed(struct err *e, const char *what, const char *path)
{
    int why = errno, code = SHOAL_E_IO;
    if (why == ENOENT)
        code = SHOAL_E_NOINPUT;
    else if (why == EEXIST || why == ENOTEMPTY)
        code = SHOAL_E_EXISTS;
    else if (why == ENOSPC || why == EDQUOT)
        code = SHOAL_E_NO_SPACE;
    else if (why == EACCES || why == EROFS || why == ENOTDIR)
        code = SHOAL_E_CANTCREATE;
    return err_set(e, code, "cannot %s %s: %s", what, path, strerror(why));
}

static bool path_join(char out[LIMIT_PATH], const char *a, const char *b)
{
    return snprintf(out, LIMIT_PATH, "%s/%s", a, b) < (int)LIMIT_PATH;
}

static int folder_sync(const char *path, struct err *e)
{
    if (file_sync_folder(path) != 0)
        return failed(e, "sync", path);
    return 0;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static int folder_lock(const char *path, int *hold, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed(e, "open", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int rc;
        if (errno == EWOULDBLOCK)
            rc = err_set(e, SHOAL_E_BUSY, "%s is in use", path);
        else
            rc = failed(e, "lock", path);
        close(fd);
        return rc;
    }
    *hold = fd;
    return 0;
}

_Static_assert(COORD_FOLDER_NONE == READING_NONE, "one word for no lock");

/* Goes on without a lock: NFS without a lock daemon, Lustre without flock, or another user's
 * file. */
static int claim_without(struct coord_folder_claim *claim, int why)
{
    log_warn("%s cannot be locked (%s): nothing keeps another coordinator from removing this job's "
             "checkpoints, if its job has the same name",
             claim->path, strerror(why));
    claim->fd = -1;
    return 0;
}

/* Tries once to lock the claim's file. *gone: its holder removed the file meanwhile, so that the
 * lock is void. */
static int claim_once(struct coord_folder_claim *claim, bool alone, bool *gone)
{
    struct stat is;
    *gone = false;
    int fd = file_open(claim->path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == EACCES) /* another user's file: it can be locked all the same */
        fd = file_open(claim->path, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0 && errno == EACCES)
        return claim_without(claim, errno);
    if (fd < 0)
        return -1;
    bool held = flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0;
    int why = errno;
    *gone = held && fstat(fd, &is) == 0 && is.st_nlink == 0;
    if (held && !*gone) {
        claim->fd = fd;
        return 0;
    }
    close(fd);
    if (!held && why != EWOULDBLOCK)
        return claim_without(claim, why);
    errno = why;
    return -1;
}

/* A coordinator whose job is over releases the claim in an errand, shortly after it has said so:
 * another coordinator tries again for that long. */
enum { CLAIM_LOOKS = 20 };
static const struct timespec CLAIM_LOOK = {.tv_nsec = 50000000};

static int disk_claim(const char *dir, const char *job, bool alone,
                      struct coord_folder_claim *claim, struct err *e)
{
    bool gone = false;
    SHOAL_ASSERT(claim->path[0] == 0);
    if (snprintf(claim->path, sizeof claim->path, "%s/.job-%016" PRIx64 ".lock", dir,
                 hash_bytes(job, strlen(job), 0)) >= (int)sizeof claim->path) {
        claim->path[0] = 0;
        return err_set(e, SHOAL_E_TOO_BIG, "the path %s is too long", dir);
    }
    for (int looks = 0; looks < CLAIM_LOOKS; looks += !gone) {
        if (claim_once(claim, alone, &gone) == 0)
            return 0;
        if (!gone && errno != EWOULDBLOCK)
            break;
        if (!gone && looks + 1 < CLAIM_LOOKS) {
            (void)nanosleep(&CLAIM_LOOK, NULL);
            errno = EWOULDBLOCK;
        }
    }
    int rc;
    if (errno == EWOULDBLOCK)
        rc = err_set(e, SHOAL_E_CANTCREATE,
                     "another coordinator trains a job named %s with checkpoints in %s, and "
                     "each would remove the other's (checkpoint.keep): name another folder, "
                     "or another job",
                     job, dir);
    else
        rc = failed(e, "lock", claim->path);
    claim->path[0] = 0;
    return rc;
}

/* The last holder removes the file. */
static void disk_disclaim(struct coord_folder_claim *claim)
{
    if (claim->path[0] == 0)
        return;
    if (claim->fd >= 0 && flock(claim->fd, LOCK_EX | LOCK_NB) == 0)
        (void)file_unlink(claim->path);
    if (claim->fd >= 0)
        close(claim->fd);
    claim->path[0] = 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int disk_put(const char *path, const char *file, const void *bytes, size_t count,
                    struct err *e)
{
    char whole[LIMIT_PATH];
    int rc = 0;
    SHOAL_ASSERT(strchr(file, '/') == NULL);
    if (!path_join(whole, path, file))
        return err_set(e, SHOAL_E_TOO_BIG, "the path %s is too long", path);
    int fd = file_open(whole, O_WRONLY | O_CREAT | O_EXCL, 0640);
    if (fd < 0)
        return failed(e, "make", whole);
    if (file_write_all(fd, bytes, count) != 0)
        rc = failed(e, "write", whole);
    if (rc == 0 && file_sync(fd) != 0)
        rc = failed(e, "sync", whole);
    if (close(fd) != 0 && rc == 0)
        rc = failed(e, "write", whole);
    return rc;
}

/* ---- removing -------------------------------------------------------------------------------- */

static bool unfinished(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 4 && strcmp(name + bytes - 4, ".tmp") == 0;
}

static bool going(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 9 && strcmp(name + bytes - 9, ".gone.tmp") == 0;
}

static const char mark_text[] =
    "A checkpoint of Shoal, which may remove this folder and all in it.\n";

/* Bytes of our mark that the folder has; -1: it has none, or a file that is not our mark. A
 * symbolic link does not count. */
static ssize_t mark_bytes(const char *path)
{
    char file[LIMIT_PATH], text[sizeof mark_text];
    if (!path_join(file, path, COORD_FOLDER_MARK))
        return -1;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    bool ours = n >= 0 && n < (ssize_t)sizeof mark_text && memcmp(text, mark_text, (size_t)n) == 0;
    if (!ours)
        return -1;
    return n;
}

static bool marked(const char *path)
{
    return mark_bytes(path) == (ssize_t)sizeof mark_text - 1;
}

static bool has_manifest(const char *path)
{
    char file[LIMIT_PATH];
    return path_join(file, path, MANIFEST_FILE) && access(file, F_OK) == 0;
}

/* Removes the whole folder, its mark last: after a crash, or when files are left for the next call
 * (AGAIN), it is still known as ours. */
static int emptied_remove(const char *path, uint64_t *left, struct err *e)
{
    struct file_walk walk;
    const char *entry;
    char file[LIMIT_PATH];
    SHOAL_ASSERT(unfinished(path)); /* a folder with its final name is whole */
    int rc = 0;
    if (!file_walk_open(&walk, path))
        rc = failed(e, "read", path);
    while (rc != SHOAL_E_AGAIN && (entry = file_walk_next(&walk)) != NULL)
        if (strcmp(entry, COORD_FOLDER_MARK) != 0 &&
            (!path_join(file, path, entry) || file_remove_some(file, left) != 0)) {
            if (errno == EAGAIN)
                rc = err_set(e, SHOAL_E_AGAIN, "%s has more files", path);
            else /* the other entries are still removed */
                rc = failed(e, "remove", file);
        }
    file_walk_close(&walk);
    if (rc == 0 && path_join(file, path, COORD_FOLDER_MARK) && file_unlink(file) != 0 &&
        errno != ENOENT)
        rc = failed(e, "remove", file);
    if (rc == 0 && file_rmdir(path) != 0)
        rc = failed(e, "remove", path);
    return rc;
}

static int some_remove(const char *path, uint64_t *left, struct err *e)
{
    char gone[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE, readers = READING_NONE;
    int rc = folder_lock(path, &hold, e);
    if (rc != 0)
        return rc;
    bool whole = !unfinished(path);
    if (whole && has_manifest(path))
        rc = reading_shut(path, &readers, e);
    text_copy(gone, sizeof gone, path);
    if (rc == 0 && !marked(path) && !(whole && has_manifest(path)))
        rc = err_set(
            e, SHOAL_E_DENIED,
            "%s is not removed: it is no checkpoint of ours, it has no file " COORD_FOLDER_MARK,
            path);
    if (rc == 0 && whole && !marked(path)) /* once the name is gone, the manifest is not enough */
        rc = disk_put(path, COORD_FOLDER_MARK, mark_text, sizeof mark_text - 1, e);
    /* The folder first loses its name. So a folder that has its name is whole, and a server that
     * does not know yet that the checkpoint was given up finds no folder to write into; such a
     * folder would be left without a mark. */
    if (rc == 0 && !going(path)) {
        if (snprintf(gone, sizeof gone, "%s.gone.tmp", path) >= (int)sizeof gone)
            rc = err_set(e, SHOAL_E_TOO_BIG, "the path %s is too long", path);
        else if (file_rename(path, gone) != 0)
            rc = failed(e, "rename", path);
    }
    reading_end(&readers); /* NFS would keep an open file under another name */
    if (rc == 0)
        rc = emptied_remove(gone, left, e);
    reading_end(&hold);
    return rc;
}

static int disk_remove(const char *path, struct err *e)
{
    uint64_t left = AT_ONCE;
    return some_remove(path, &left, e);
}

/* ---- the folder of all ----------------------------------------------------------------------- */

static int folder_make(const char *path, struct err *e)
{
    char part[LIMIT_PATH];
    if (strlen(path) >= sizeof part || path[0] == 0)
        return err_set(e, SHOAL_E_CANTCREATE, "the path '%s' cannot be made", path);
    if (file_make_folders(path, 0750, part) == 0)
        return 0;
    int why = errno;
    return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", part, strerror(why));
}

/* True for NAME.XXXXXX.tmp, a checkpoint that is being made, and for NAME.gone.tmp. */
static bool leftover(const char *name)
{
    size_t bytes = strlen(name);
    if (going(name))
        return true;
    return unfinished(name) && bytes > 11 && name[bytes - 11] == '.' &&
           strspn(name + bytes - 10, "0123456789abcdef") == 6;
}

static bool disk_sweep(const char *dir)
{
    struct file_walk walk;
    const char *entry;
    char path[LIMIT_PATH];
    uint64_t left = AT_ONCE;
    int rc = 0;
    (void)file_walk_open(&walk, dir);
    while (rc != SHOAL_E_AGAIN && (entry = file_walk_next(&walk)) != NULL)
        if (leftover(entry) && path_join(path, dir, entry))
            rc = some_remove(path, &left, NULL); /* BUSY: another process works on it */
    file_walk_close(&walk);
    return rc == SHOAL_E_AGAIN;
}

/* Removes the beginning of a mark if the folder has nothing else: its maker died while it wrote. */
static void torn_mark_remove(const char *path)
{
    struct file_walk walk;
    const char *entry;
    char file[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE;
    bool alone = !marked(path) && mark_bytes(path) >= 0 && folder_lock(path, &hold, NULL) == 0;
    (void)file_walk_open(&walk, path);
    while ((entry = file_walk_next(&walk)) != NULL)
        alone = alone && strcmp(entry, COORD_FOLDER_MARK) == 0;
    file_walk_close(&walk);
    if (alone && path_join(file, path, COORD_FOLDER_MARK))
        (void)file_unlink(file);
    reading_end(&hold);
}

/* Removes empty leftovers. A folder without a mark is not ours, unless it is empty: its maker died
 * before the mark was written, or after it was removed. */
static void empty_remove(const char *dir)
{
    struct file_walk walk;
    const char *entry;
    char path[LIMIT_PATH];
    (void)file_walk_open(&walk, dir);
    while ((entry = file_walk_next(&walk)) != NULL)
        if (leftover(entry) && path_join(path, dir, entry)) {
            torn_mark_remove(path);
            (void)file_rmdir(path);
        }
    file_walk_close(&walk);
}

static int disk_open(const char *dir, char absolute[LIMIT_PATH], struct err *e)
{
    int rc = folder_make(dir, e);
    if (rc != 0)
        return rc;
    char *path = realpath(dir, NULL);
    if (path == NULL)
        return failed(e, "find", dir);
    if (strlen(path) >= LIMIT_PATH - 2 * LIMIT_NAME)
        rc = err_set(e, SHOAL_E_CANTCREATE, "the path %.200s... is too long", path);
    else
        memcpy(absolute, path, strlen(path) + 1);
    free(path);
    if (rc == 0 && access(absolute, W_OK | X_OK) != 0)
        rc = failed(e, "write into", absolute);
    SHOAL_ASSERT(rc != 0 || absolute[0] == '/');
    if (rc == 0) {
        (void)disk_sweep(absolute);
        empty_remove(absolute);
    }
    return rc;
}

static int disk_list(const char *dir, coord_folder_visit visit, void *context, struct err *e)
{
    struct file_walk walk;
    const char *entry;
    char file[LIMIT_PATH];
    if (!file_walk_open(&walk, dir))
        return failed(e, "read", dir);
    while ((entry = file_walk_next(&walk)) != NULL)
        if (manifest_name_ok(entry) &&
            snprintf(file, sizeof file, "%s/%s/" MANIFEST_FILE, dir, entry) < (int)sizeof file &&
            access(file, F_OK) == 0)
            visit(context, entry);
    file_walk_close(&walk);
    return 0;
}

/* ---- one folder ------------------------------------------------------------------------------ */

static int disk_begin(const char *path, int *hold, struct err *e)
{
    SHOAL_ASSERT(unfinished(path));
    if (file_mkdir(path, 0770) != 0) /* the servers put their parts into it */
        return failed(e, "make", path);
    int rc = folder_lock(path, hold, e);
    if (rc == 0)
        rc = disk_put(path, COORD_FOLDER_MARK, mark_text, sizeof mark_text - 1, e);
    if (rc != 0) {
        reading_end(hold);
        (void)emptied_remove(path, &(uint64_t){AT_ONCE}, NULL);
    }
    return rc;
}

static int disk_get(const char *path, const char *file, size_t most, void **bytes, size_t *count,
                    struct err *e)
{
    char whole[LIMIT_PATH], *text;
    SHOAL_ASSERT(strchr(file, '/') == NULL);
    if (!path_join(whole, path, file))
        return err_set(e, SHOAL_E_TOO_BIG, "the path %s is too long", path);
    if (file_read_whole(whole, most, &text, count) != 0) {
        if (errno == EFBIG)
            return err_set(e, SHOAL_E_TOO_BIG, "%s has %zu bytes, at most %zu are read", whole,
                           *count, most);
        if (errno == ENOMEM)
            return err_set(e, SHOAL_E_NOMEM, "no memory to read %s", whole);
        return failed(e, "read", whole);
    }
    *bytes = text;
    return 0;
}

static int disk_publish(const char *tmp, const char *path, struct err *e)
{
    char parent[LIMIT_PATH];
    SHOAL_ASSERT(unfinished(tmp) && !unfinished(path));
    int rc = folder_sync(tmp, e);
    if (rc != 0)
        return rc;
    if (access(path, F_OK) == 0)
        return err_set(e, SHOAL_E_EXISTS, "%s exists already", path);
    if (file_rename(tmp, path) != 0)
        return failed(e, "name", path);
    /* From here on the manifest identifies the folder. A mark that a crash leaves inside does no
     * harm. */
    if (path_join(parent, path, COORD_FOLDER_MARK) && file_unlink(parent) == 0 &&
        (rc = folder_sync(path, e)) != 0)
        return rc;
    text_copy(parent, sizeof parent, path);
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent)
        *slash = 0;
    return folder_sync(parent, e);
}

static uint64_t disk_wall_s(void)
{
    return time_wall_ns() / 1000000000u;
}

static int disk_below(const char *root, const char *path, struct err *e)
{
    if (file_below(root, path) == 0)
        return 0;
    if (errno == ENOENT)
        return err_set(e, SHOAL_E_DENIED,
                       "%.300s is not there: make the folder that checkpoint_root in this "
                       "coordinator's coordinator.yaml names, for servers and coordinator to write "
                       "in, or take the line out",
                       root);
    if (errno == EINVAL)
        return err_set(e, SHOAL_E_USAGE,
                       "'%.300s' is not named by an absolute path without '.' and '..'", path);
    return err_set(e, SHOAL_E_DENIED,
                   "%.400s is not below %.300s, or by a link (%s): this coordinator takes "
                   "checkpoints there alone (checkpoint_root in its coordinator.yaml)",
                   path, root, strerror(errno));
}

const struct coord_folder_ops coord_folder_disk = {
    disk_below,  disk_open,  disk_claim,   disk_disclaim, disk_begin,
    disk_put,    disk_get,   disk_publish, reading_begin, reading_end,
    disk_remove, disk_sweep, disk_list,    disk_wall_s,   signature_open};

/* ---- hook ---- */

int coord_hook_start(struct coord_hook *h, const struct string_list *words, const char *folder,
                     struct err *e)
{
    /* The command has a process group of its own, so that Ctrl-C does not interrupt a publication.
     * The stop of a unit does, and so does a reboot: systemd sends TERM to the command too, and
     * after the coordinator's end gives it the unit's TimeoutStopSec before it is killed. Such a
     * publication is reported as failed (coord_checkpoint_publish_lost). */
    static const struct process_options options = {.group = true};
    SHOAL_ASSERT(h->process.pid == 0 && words->count > 0);
    SHOAL_ASSERT(folder[0] == '/'); /* the command may run in another working directory */
    const char **argv = calloc(words->count + 2, sizeof *argv);
    if (argv == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to start %s", words->item[0]);
    for (size_t i = 0; i < words->count; i++)
        argv[i] = words->item[i];
    argv[words->count] = folder;
    int rc = process_start(&h->process, argv, &options, e);
    int why = errno;
    free(argv);
    if (rc != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the command of checkpoint.publish cannot be started: %s; its first "
                       "word is the program, each further one an argument of its own",
                       strerror(why));
    return 0;
}

bool coord_hook_poll(struct coord_hook *h, int *exit_status)
{
    struct process_end end;
    if (h->process.pid == 0)
        return true;
    if (!process_poll(&h->process, &end))
        return false;
    *exit_status = process_exit_status(&end);
    return true;
}

void coord_hook_stop(struct coord_hook *h, bool now)
{
    process_stop_group(&h->process, now ? SIGKILL : SIGTERM);
}
