/* scratch.c: the rule is in scratch.h. */
#include "deploy/cli/scratch.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK ".shoal-lock"
#define MARK_NEW ".shoal-lock.new" /* not locked yet; other processes ignore it */
#define DRAWN 6                    /* letters that mkdtemp draws */

static bool is_own(int fd, mode_t type)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
           (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Locks a folder whose maker is gone; -1: it cannot. */
static int left_take(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), mark = -1;
    if (folder >= 0 && is_own(folder, S_IFDIR))
        mark = openat(folder, MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (mark >= 0 && (!is_own(mark, S_IFREG) || flock(mark, LOCK_EX | LOCK_NB) != 0)) {
        close(mark);
        mark = -1;
    }
    if (folder >= 0)
        close(folder);
    return mark;
}

/* Removes the folders of this name that killed commands have left. */
static void sweep(const char *like)
{
    const char *slash = strrchr(like, '/'), *name = like, *entry;
    if (slash != NULL)
        name = slash + 1;
    size_t fixed = strlen(name) - DRAWN;
    char place[LIMIT_PATH], path[LIMIT_PATH + 256];
    struct file_walk w;
    (void)snprintf(place, sizeof place, "%.*s", (int)(name - like), like);
    if (name == like)
        (void)snprintf(place, sizeof place, "./");
    if (!file_walk_open(&w, place))
        return;
    while ((entry = file_walk_next(&w)) != NULL) {
        if (strlen(entry) != fixed + DRAWN || strncmp(entry, name, fixed) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s%s", place, entry);
        int mark = left_take(path);
        if (mark < 0)
            continue;
        (void)file_remove_tree(path);
        close(mark);
    }
    file_walk_close(&w);
}

int scratch_make(char *path)
{
    char made[LIMIT_PATH], mark[LIMIT_PATH];
    sweep(path);
    if (mkdtemp(path) == NULL)
        return -1;
    (void)snprintf(made, sizeof made, "%s/" MARK_NEW, path);
    (void)snprintf(mark, sizeof mark, "%s/" MARK, path);
    int fd = file_open(made, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && file_rename(made, mark) == 0)
        return 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    (void)file_remove_tree(path);
    errno = why;
    return -1;
}

void scratch_keep(const char *path)
{
    char mark[LIMIT_PATH];
    (void)snprintf(mark, sizeof mark, "%s/" MARK, path);
    (void)file_unlink(mark);
}
