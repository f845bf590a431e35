/* file.h: all changes of the disk. Only the functions here make, write, sync, rename or remove
 * files.
 *
 * As with system calls, a result of 0 or more is success, and -1 leaves the reason in errno, so
 * that each module words its own errors. Reading cannot change a disk, so any module may read by
 * itself.
 *
 * All of them make their system calls through a table, which a test replaces (file_ops_set): its
 * disk is full, fails, or loses power at any step. */
#ifndef PROTO_BASE_FILE_H
#define PROTO_BASE_FILE_H

#include "proto/base/limits.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* A file system, in bytes. Both are 0 where it does not say. */
struct file_room {
    uint64_t bytes;
    uint64_t left; /* free, for users other than root */
};

struct file_ops {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*write)(int fd, const void *data, size_t bytes);
    int (*sync)(int fd);      /* data and all metadata; for a folder: its names */
    int (*sync_data)(int fd); /* data, and the metadata that reading needs */
    int (*truncate)(const char *path, off_t bytes);
    int (*rename)(const char *from, const char *to);
    int (*link)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rmdir)(const char *path);
    int (*room)(const char *path, struct file_room *out);
};

/* NULL: the system's own calls. Call before any other thread runs. */
void file_ops_set(const struct file_ops *ops);

int file_open(const char *path, int flags, mode_t mode); /* may create; adds O_CLOEXEC */
/* file_dup returns another descriptor of the same open file; file_folder opens a folder, to be
 * synced. Both add O_CLOEXEC. */
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
/* The file system that has path. */
int file_room(const char *path, struct file_room *out);

/* Holds a few descriptors in reserve for file_open, file_dup and file_folder, because connections
 * may take all others. Call it at the start and from time to time: it replaces those that were
 * used. Any thread. */
void file_reserve_fill(void);

/* ---- small files ---- */

/* Writes all bytes; continues after interruptions and short writes. */
int file_write_all(int fd, const void *data, size_t bytes);
/* The status of a failed write, by errno: CANTCREATE where the disk or a quota is full, else IO. */
int file_write_status(void);
/* Copies the first `most` bytes (UINT64_MAX: all) of one descriptor's file to another. EIO: there
 * are fewer. */
int file_copy(int from, int to, uint64_t most);

/* Makes a new file, open for reading and writing by its owner alone. path ends in XXXXXX, which is
 * replaced so that the name is unused. */
int file_temporary(char *path);
/* The same, but without a name where the file system has such files: nothing stays when the process
 * is killed. path, with room for `bytes`, becomes the name that file_place takes while the file is
 * open. */
int file_nameless(char *path, size_t bytes);
/* Gives a complete file its final name. EEXIST: that name is taken. After any error the file keeps
 * the name it has. */
int file_place(const char *from, const char *to);
/* A stream for text and logs, emptied at first, or with `append` written at its end; NULL: errno.
 * Its bytes bypass file_ops, so it is not for data that must be found again after a crash. */
FILE *file_stream(const char *path, bool append);

/* The event that a file survives once file_write_whole has returned. */
enum file_lasts { FILE_LASTS_PROCESS, FILE_LASTS_CRASH, FILE_LASTS_ALL };

/* Writes `temporary`, syncs it (from LASTS_CRASH on), renames it to path and syncs its folder
 * (LASTS_ALL). A reader of path finds the old content or the new, at any moment and after a crash
 * at any step. An error removes the temporary where that is possible. */
int file_write_whole(const char *path, const char *temporary, const void *data, size_t bytes,
                     mode_t mode, enum file_lasts lasts);
/* Reads a plain file of at most `most` bytes and puts a NUL behind it (not counted); the caller
 * frees the content. EFBIG: the file is longer, and *bytes says how long, or it is no plain file.
 * ENOMEM. */
int file_read_whole(const char *path, size_t most, char **out, size_t *bytes);

/* fdatasync of a file and fsync of a folder, by their names. */
int file_sync_path(const char *path);
int file_sync_folder(const char *path);
/* Syncs the folder that holds path, so that the name itself is on disk. */
int file_sync_name(const char *path);

/* ---- folders ---- */

/* Makes a folder and its parents and syncs their names; existing folders are fine. failed: the one
 * that could not be made. */
int file_make_folders(const char *path, mode_t mode, char failed[LIMIT_PATH]);

/* Returns 0 when path, an absolute name that came from another program, may be used, or -1 with
 * errno. EINVAL: path has "." or ".." in it, or does not begin with "/". With a root (absolute; "":
 * none) path must name the root or something below it, else EXDEV. The root may be written as
 * given, or as it is once its own links are followed. No part of path below the root may be a link,
 * else ELOOP. The last parts of path may be missing, but not the root: ENOENT. A program that may
 * write below the root can still change it afterwards; the check only stops programs that may
 * not. */
int file_below(const char *root, const char *path);

/* Removes a file, or a folder with all in it. A link is removed, never its target; a missing file
 * is fine. The removal continues past files that cannot be removed; errno is that of the first
 * one. */
int file_remove_tree(const char *path);
/* The same, for at most *left files and folders; *left is counted down. EAGAIN, which precedes any
 * other errno: there are more. */
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
 * "." and ".." are left out. A folder that could not be opened yields no names, and may be closed.
 * A name is valid until the next one. */
struct file_walk {
    DIR *dir; /* owned */
};
bool file_walk_open(struct file_walk *w, const char *path); /* false: errno */
const char *file_walk_next(struct file_walk *w);
void file_walk_close(struct file_walk *w); /* keeps errno */

#endif
