/* file_fault.c: the system's calls with a countdown. */
#include "tests/lib/file_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct file_fault fault;
static uint64_t calls;
static const struct file_room *room; /* borrowed */

static bool fails(void)
{
    calls++;
    if (fault.at == 0 || calls < fault.at || (calls > fault.at && !fault.dead))
        return false;
    errno = fault.why;
    return true;
}

static int fault_open(const char *path, int flags, mode_t mode)
{
    return fails() ? -1 : open(path, flags, mode);
}

static ssize_t fault_write(int fd, const void *data, size_t bytes)
{
    if (!fails())
        return write(fd, data, bytes);
    if (calls == fault.at)
        (void)!write(fd, data, bytes / 2);
    errno = fault.why;
    return -1;
}

static int fault_sync(int fd)
{
    return fails() ? -1 : fsync(fd);
}

static int fault_sync_data(int fd)
{
    return fails() ? -1 : fdatasync(fd);
}

static int fault_truncate(const char *path, off_t bytes)
{
    return fails() ? -1 : truncate(path, bytes);
}

static int fault_rename(const char *from, const char *to)
{
    return fails() ? -1 : rename(from, to);
}

static int fault_link(const char *from, const char *to)
{
    return fails() ? -1 : linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW);
}

static int fault_unlink(const char *path)
{
    return fails() ? -1 : unlink(path);
}

static int fault_mkdir(const char *path, mode_t mode)
{
    return fails() ? -1 : mkdir(path, mode);
}

static int fault_rmdir(const char *path)
{
    return fails() ? -1 : rmdir(path);
}

static int fault_room(const char *path, struct file_room *out)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return -1;
    *out = (struct file_room){.bytes = (uint64_t)fs.f_blocks * fs.f_frsize,
                              .left = (uint64_t)fs.f_bavail * fs.f_frsize};
    if (room != NULL)
        *out = *room;
    return 0;
}

static const struct file_ops ops = {.open = fault_open,
                                    .write = fault_write,
                                    .sync = fault_sync,
                                    .sync_data = fault_sync_data,
                                    .truncate = fault_truncate,
                                    .rename = fault_rename,
                                    .link = fault_link,
                                    .unlink = fault_unlink,
                                    .mkdir = fault_mkdir,
                                    .rmdir = fault_rmdir,
                                    .room = fault_room};

void file_fault_set(const struct file_fault *f)
{
    fault = f != NULL ? *f : (struct file_fault){0};
    calls = 0;
    file_ops_set(f != NULL ? &ops : NULL);
}

void file_fault_room(const struct file_room *of_all)
{
    room = of_all;
    file_fault_set(of_all != NULL ? &(struct file_fault){.at = 0} : NULL);
}

uint64_t file_fault_calls(void)
{
    return calls;
}
