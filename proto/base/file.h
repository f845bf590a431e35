/* file.h: the door to the disk: what is kept is made, written, synced, renamed and removed here.
 *
 * As with the system's calls, 0 or more is good and -1 says why in errno, so that each module keeps
 * its own sentences. Reading is anybody's: what cannot change a disk needs no door.
 *
 * A test puts a table of its own under all of it (file_ops_set): a disk that is full, that fails,
 * or that loses its power at any step. */
#ifndef PROTO_BASE_FILE_H
#define PROTO_BASE_FILE_H

#include "proto/base/limits.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct file_ops {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*write)(int fd, const void *data, size_t bytes);
    int (*sync)(int fd);      /* the file and all about it; of a folder: its names */
    int (*sync_data)(int fd); /* the file and what reading it needs */
    int (*truncate)(const char *path, off_t bytes);
    int (*rename)(const char *from, const char *to);
    int (*link)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rmdir)(const char *path);
};

/* NULL: the system's own. Before any other thread runs. */
void file_ops_set(const struct file_ops *ops);

int file_open(const char *path, int flags, mode_t mode); /* what may be made; O_CLOEXEC is added */
/* With O_CLOEXEC too: another descriptor of a file; one of a folder, to be synced. */
int file_dup(int fd);
int file_folder(const char *path);
ssize_t file_write(int fd, const void *data, size_t bytes);
int file_sync(int fd);
int file_sync_data(int fd);
int file_truncate(const char *path, uint64_t bytes);
int file_rename(const char *from, const char *to);
int file_link(const char *from, const char *to);
int file_unlink(const char *path);
int file_mkdir(const char *path, mode_t mode);
int file_rmdir(const char *path);

/* Keeps a few descriptors back for these three alone: connections may take all others. Called at
 * the start, and now and then: those that were used are taken again. Any thread. */
void file_reserve_fill(void);

/* ---- small files ---- */

/* All of it, over interruptions and short writes. */
int file_write_all(int fd, const void *data, size_t bytes);
/* A file's first `most` bytes (UINT64_MAX: all) from one descriptor to another; EIO: it has
 * fewer. */
int file_copy(int from, int to, uint64_t most);

/* A new file, open for reading and writing by its owner alone. path ends in XXXXXX, which become
 * what nobody has taken. */
int file_temporary(char *path);
/* Likewise, but without a name where the file system has such files: of a process that is killed
 * nothing stays. path, with room for `bytes`, becomes what file_place takes while the file is open.
 */
int file_nameless(char *path, size_t bytes);
/* A file that is whole gets its name, unless that is taken: EEXIST, and then, as at any error, it
 * keeps the one it has. */
int file_place(const char *from, const char *to);
/* A stream for text and logs, emptied or (append) written at its end; NULL: errno. Its bytes go
 * past the door, so it is not for what must be found again after a crash. */
FILE *file_stream(const char *path, bool append);

/* What a whole file has survived when it has been written. */
enum file_lasts { FILE_LASTS_PROCESS, FILE_LASTS_CRASH, FILE_LASTS_ALL };

/* Writes `temporary`, syncs it (from LASTS_CRASH on), renames it to path and syncs its folder
 * (LASTS_ALL). Whoever opens path finds the old content or the new, at any moment and after a crash
 * at any step; an error leaves no temporary where one can be removed. */
int file_write_whole(const char *path, const char *temporary, const void *data, size_t bytes,
                     mode_t mode, enum file_lasts lasts);
/* The content of a plain file of at most `most` bytes, a NUL behind it (not counted); the caller
 * frees it. EFBIG: it is longer, *bytes says how long, or no plain file. ENOMEM. */
int file_read_whole(const char *path, size_t most, char **out, size_t *bytes);

/* fdatasync of a file, fsync of a folder, by their names. */
int file_sync_path(const char *path);
int file_sync_folder(const char *path);
/* fsync of the folder that a name stands in: the name itself is on disk then. */
int file_sync_name(const char *path);

/* ---- folders ---- */

/* A folder and those above it, their names on disk; what is there already is fine. failed: which
 * cannot be made. */
int file_make_folders(const char *path, mode_t mode, char failed[LIMIT_PATH]);

/* Whether path, a name from "/" on that another has told, may be used: 0, or -1 with errno. EINVAL:
 * it has "." or ".." in it, or does not begin with "/". With a root (absolute; "": none) it names
 * that or something below (as the root is called, or as it is once its own links are followed),
 * EXDEV, and no part of it below the root is a link, ELOOP; its last parts may be missing, but not
 * the root, ENOENT. Who may write below the root could still change it afterwards: it keeps out
 * those who may not. */
int file_below(const char *root, const char *path);

/* A file, or a folder with all in it. A link goes itself, never what it names; what is not there is
 * fine. What cannot be removed does not keep the rest; errno is of the first such. */
int file_remove_tree(const char *path);
/* The same until *left files and folders are gone, which is counted down. EAGAIN: there are more,
 * before any other errno. */
int file_remove_some(const char *path, uint64_t *left);

/* The names in a folder, in any order:
 *
 *     struct file_walk w;
 *     if (!file_walk_open(&w, path))
 *         return failed(e, "read", path);
 *     while ((name = file_walk_next(&w)) != NULL)
 *         ...
 *     file_walk_close(&w);
 *
 * "." and ".." are left out. Of a folder that could not be opened there is none, and closing it is
 * fine. A name is good until the next one. */
struct file_walk {
    DIR *dir; /* owned */
};
bool file_walk_open(struct file_walk *w, const char *path); /* false: errno */
const char *file_walk_next(struct file_walk *w);
void file_walk_close(struct file_walk *w); /* errno stays */

#endif
