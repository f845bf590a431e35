/* disk.c: the contents of the simulated disk beside those of the page cache, and the system calls
 * that change both. */
#include "tests/lib/disk.h"

#include "proto/base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096u
#define SECTOR 512u
#define PATH_BYTES 1024u
#define DISKS 64u

enum page_state { PAGE_CLEAN, PAGE_DIRTY, PAGE_LOST };

struct page {
    char *old; /* owned: the disk's contents while the page is not clean; NULL: zeros */
    enum page_state state;
};

struct node {
    struct node *next;
    ino_t ino;
    dev_t dev;
    int fd; /* for reading, also after its last name is removed */
    bool folder;
    uint64_t bytes;    /* length on the disk */
    struct page *page; /* owned; (pages) */
    size_t pages;
    char *first; /* owned: its first path */
    char *path;  /* owned: its path while a loss of power is simulated */
    uint32_t seen;
};

struct name {
    struct node *folder, *node;
    char *name; /* owned */
};

/* A change of names: one is removed, one is added. */
struct change {
    struct name gone, come; /* node NULL: none */
    bool done;              /* it is on the disk */
};

struct disk {
    char root[PATH_BYTES];
    size_t root_bytes;
    struct node *nodes, *top;
    struct name *name; /* owned, (names): on the disk */
    size_t names, name_room;
    struct change *change; /* owned, (changes): in order */
    size_t changes, change_room;
    uint64_t calls;
    struct disk_fault fault;
    uint64_t syncs;
    bool off, failed;
};

/* recursive: a sanitizer that reports opens files, on any thread */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct disk *disks[DISKS];
static atomic_uint watched;

static void *need(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

static char *copy_of(const char *text)
{
    return need(strdup(text));
}

/* ---- nodes ---- */

static struct node *node_find(struct disk *d, const struct stat *st)
{
    for (struct node *n = d->nodes; n != NULL; n = n->next)
        if (n->ino == st->st_ino && n->dev == st->st_dev)
            return n;
    return NULL;
}

/* Returns the node of a path, made if it is new. NULL: the path does not exist. */
static struct node *node_at(struct disk *d, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return NULL;
    struct node *n = node_find(d, &st);
    if (n != NULL)
        return n;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                          (S_ISDIR(st.st_mode) ? O_PATH : O_RDONLY) | O_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    n = need(calloc(1, sizeof *n));
    *n = (struct node){.next = d->nodes,
                       .ino = st.st_ino,
                       .dev = st.st_dev,
                       .fd = fd,
                       .folder = S_ISDIR(st.st_mode),
                       .first = copy_of(path)};
    d->nodes = n;
    return n;
}

static void pages_free(struct node *n)
{
    for (size_t i = 0; i < n->pages; i++)
        free(n->page[i].old);
    free(n->page);
    n->page = NULL;
    n->pages = 0;
}

static void node_free(struct node *n)
{
    pages_free(n);
    close(n->fd);
    free(n->first);
    free(n->path);
    free(n);
}

/* Saves the pages in [at, at + bytes) that are about to change. */
static void node_touch(struct node *n, uint64_t at, uint64_t bytes)
{
    size_t first = at / PAGE, end = (at + bytes + PAGE - 1) / PAGE;
    if (end > n->pages) {
        n->page = need(realloc(n->page, end * sizeof *n->page));
        memset(n->page + n->pages, 0, (end - n->pages) * sizeof *n->page);
        n->pages = end;
    }
    for (size_t i = first; i < end; i++) {
        struct page *p = &n->page[i];
        if (p->state == PAGE_CLEAN && (uint64_t)i * PAGE < n->bytes) {
            p->old = need(calloc(1, PAGE));
            if (pread(n->fd, p->old, PAGE, (off_t)(i * PAGE)) < 0)
                abort();
        }
        p->state = PAGE_DIRTY;
    }
}

static void node_synced(struct node *n, bool failed)
{
    struct stat st;
    for (size_t i = 0; i < n->pages; i++) {
        struct page *p = &n->page[i];
        if (p->state == PAGE_DIRTY && failed)
            p->state = PAGE_LOST;
        if (p->state != PAGE_DIRTY)
            continue;
        free(p->old);
        *p = (struct page){NULL, PAGE_CLEAN};
    }
    if (!failed && fstat(n->fd, &st) == 0)
        n->bytes = (uint64_t)st.st_size;
}

/* ---- names ---- */

static struct name *name_find(struct disk *d, const struct node *folder, const char *name)
{
    for (size_t i = 0; i < d->names; i++)
        if (d->name[i].folder == folder && strcmp(d->name[i].name, name) == 0)
            return &d->name[i];
    return NULL;
}

static void name_drop(struct disk *d, struct name *at)
{
    free(at->name);
    *at = d->name[--d->names];
}

static void name_put(struct disk *d, struct node *folder, const char *name, struct node *node)
{
    struct name *at = name_find(d, folder, name);
    if (at != NULL) {
        at->node = node;
        return;
    }
    if (d->names == d->name_room) {
        d->name_room = d->name_room * 2 + 64;
        d->name = need(realloc(d->name, d->name_room * sizeof *d->name));
    }
    d->name[d->names++] = (struct name){folder, node, copy_of(name)};
}

static void change_apply(struct disk *d, const struct change *c)
{
    struct name *at = c->gone.node == NULL ? NULL : name_find(d, c->gone.folder, c->gone.name);
    if (at != NULL)
        name_drop(d, at);
    if (c->come.node != NULL)
        name_put(d, c->come.folder, c->come.name, c->come.node);
}

static void change_free(struct change *c)
{
    free(c->gone.name);
    free(c->come.name);
}

static void change_add(struct disk *d, struct name gone, struct name come)
{
    if (d->changes == d->change_room) {
        d->change_room = d->change_room * 2 + 64;
        d->change = need(realloc(d->change, d->change_room * sizeof *d->change));
    }
    d->change[d->changes++] = (struct change){gone, come, false};
}

static bool change_of(const struct change *c, const struct node *folder)
{
    return (c->gone.node != NULL && c->gone.folder == folder) ||
           (c->come.node != NULL && c->come.folder == folder);
}

/* Forgets a folder that was removed for good, with its names: a loss of power does not bring it
 * back. */
static void folder_forget(struct disk *d, const struct node *folder)
{
    for (size_t i = d->names; i-- > 0;)
        if (d->name[i].folder == folder)
            name_drop(d, &d->name[i]);
    for (size_t i = 0; i < d->changes; i++) {
        struct change *c = &d->change[i];
        if (c->gone.folder == folder)
            c->gone.node = c->gone.folder = NULL;
        if (c->come.folder == folder)
            c->come.node = c->come.folder = NULL;
    }
}

static bool is_named(const struct disk *d, const struct node *n)
{
    for (size_t i = 0; i < d->names; i++)
        if (d->name[i].node == n)
            return true;
    for (size_t i = 0; i < d->changes; i++)
        if (d->change[i].gone.node == n || d->change[i].come.node == n)
            return true;
    return n == d->top;
}

/* Frees nodes without a name. */
static void sweep(struct disk *d)
{
    struct stat st;
    for (const struct node *n = d->nodes; n != NULL; n = n->next)
        if (n->folder && !is_named(d, n) && fstat(n->fd, &st) == 0 && st.st_nlink == 0)
            folder_forget(d, n);
    for (size_t i = 0; i < d->names; i++)
        d->name[i].node->seen = 1;
    for (size_t i = 0; i < d->changes; i++) {
        struct name *both[] = {&d->change[i].gone, &d->change[i].come};
        for (int k = 0; k < 2; k++)
            if (both[k]->node != NULL)
                both[k]->node->seen = both[k]->folder->seen = 1;
    }
    for (struct node **at = &d->nodes; *at != NULL;) {
        struct node *n = *at;
        bool gone = n->seen == 0 && n != d->top && fstat(n->fd, &st) == 0 && st.st_nlink == 0;
        n->seen = 0;
        if (!gone) {
            at = &n->next;
            continue;
        }
        *at = n->next;
        node_free(n);
    }
}

/* Makes the folder's changes durable, and in other folders the changes before one that is in
 * both. */
static void folder_synced(struct disk *d, const struct node *folder)
{
    size_t kept = 0;
    for (size_t i = d->changes; i-- > 0;) {
        struct change *c = &d->change[i];
        if (!c->done && !change_of(c, folder))
            continue;
        c->done = true;
        const struct node *other[] = {c->gone.node != NULL ? c->gone.folder : NULL,
                                      c->come.node != NULL ? c->come.folder : NULL};
        for (size_t k = 0; k < i; k++)
            for (int o = 0; o < 2; o++)
                if (other[o] != NULL && change_of(&d->change[k], other[o]))
                    d->change[k].done = true;
    }
    for (size_t i = 0; i < d->changes; i++) {
        struct change *c = &d->change[i];
        if (!c->done) {
            d->change[kept++] = *c;
            continue;
        }
        change_apply(d, c);
        change_free(c);
    }
    d->changes = kept;
    sweep(d);
}

/* ---- watching ---- */

/* Takes all contents of a folder as durable. */
static void scan(struct disk *d, const char *path, struct node *folder)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    char inner[PATH_BYTES + 256];
    struct stat st;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        struct node *n = node_at(d, inner);
        if (n == NULL)
            continue;
        name_put(d, folder, entry->d_name, n);
        if (n->folder)
            scan(d, inner, n);
        else if (fstat(n->fd, &st) == 0)
            n->bytes = (uint64_t)st.st_size;
    }
    if (dir != NULL)
        closedir(dir);
}

static void empty(struct disk *d)
{
    while (d->nodes != NULL) {
        struct node *n = d->nodes;
        d->nodes = n->next;
        node_free(n);
    }
    while (d->names > 0)
        name_drop(d, &d->name[d->names - 1]);
    while (d->changes > 0)
        change_free(&d->change[--d->changes]);
    d->top = NULL;
}

static void begin(struct disk *d)
{
    d->top = need(node_at(d, d->root));
    scan(d, d->root, d->top);
}

struct disk *disk_watch(const char *root)
{
    struct disk *d = need(calloc(1, sizeof *d));
    snprintf(d->root, sizeof d->root, "%s", root);
    d->root_bytes = strlen(d->root);
    pthread_mutex_lock(&lock);
    begin(d);
    for (uint32_t i = 0; i <= DISKS; i++)
        if (need(i < DISKS ? d : NULL) && disks[i] == NULL) {
            disks[i] = d;
            break;
        }
    atomic_fetch_add(&watched, 1);
    pthread_mutex_unlock(&lock);
    return d;
}

void disk_free(struct disk *d)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < DISKS; i++)
        if (disks[i] == d)
            disks[i] = NULL;
    atomic_fetch_sub(&watched, 1);
    empty(d);
    pthread_mutex_unlock(&lock);
    free(d->name);
    free(d->change);
    free(d);
}

uint64_t disk_calls(const struct disk *d)
{
    pthread_mutex_lock(&lock);
    uint64_t calls = d->calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

bool disk_failed(const struct disk *d)
{
    pthread_mutex_lock(&lock);
    bool failed = d->failed;
    pthread_mutex_unlock(&lock);
    return failed;
}

void disk_fail(struct disk *d, const struct disk_fault *f)
{
    pthread_mutex_lock(&lock);
    d->fault = f == NULL ? (struct disk_fault){0} : *f;
    d->calls = d->syncs = 0;
    d->failed = false;
    pthread_mutex_unlock(&lock);
}

bool disk_is_off(const struct disk *d)
{
    pthread_mutex_lock(&lock);
    bool is = d->off;
    pthread_mutex_unlock(&lock);
    return is;
}

/* ---- what is left when the power has gone ---- */

struct cut {
    struct rng rng;
    uint64_t keep; /* about this many of 8 pages are on the disk */
};

/* Chooses the first changes of each folder that are on the disk; a change in two folders counts in
 * both, or in neither. */
static void names_left(struct disk *d, struct cut *c)
{
    uint64_t how = rng_below(&c->rng, 4);
    size_t below = rng_below(&c->rng, d->changes + 1);
    /* in the order of all changes, as one journal keeps it */
    for (size_t i = 0; i < d->changes; i++) {
        struct change *one = &d->change[i];
        one->done = how == 0 || (how == 1 && i < below);
        if (how < 2)
            continue;
        one->done = how == 2 ? false : rng_below(&c->rng, 8) != 0;
        for (size_t k = 0; one->done && k < i; k++)
            if (!d->change[k].done &&
                ((one->gone.node != NULL && change_of(&d->change[k], one->gone.folder)) ||
                 (one->come.node != NULL && change_of(&d->change[k], one->come.folder))))
                one->done = false;
    }
    for (size_t i = 0; i < d->changes; i++)
        if (d->change[i].done)
            change_apply(d, &d->change[i]);
}

static bool page_left(struct cut *c)
{
    return rng_below(&c->rng, 8) < c->keep;
}

/* Writes page i of a file, as on the disk, to `out` (PAGE). */
static void page_make(const struct node *n, size_t i, struct cut *c, char *out)
{
    const struct page *p = i < n->pages ? &n->page[i] : NULL;
    memset(out, 0, PAGE);
    bool now = p == NULL || p->state == PAGE_CLEAN || (p->state == PAGE_DIRTY && page_left(c));
    if (now && pread(n->fd, out, PAGE, (off_t)(i * PAGE)) < 0)
        abort();
    if (!now && p->old != NULL)
        memcpy(out, p->old, PAGE);
    if (p == NULL || p->state != PAGE_DIRTY || !now || rng_below(&c->rng, 8) != 0)
        return;
    for (uint32_t s = 0; s < PAGE / SECTOR; s++) /* a torn page */
        if (rng_below(&c->rng, 2) == 0 && p->old != NULL)
            memcpy(out + s * SECTOR, p->old + s * SECTOR, SECTOR);
        else if (p->old == NULL && rng_below(&c->rng, 2) == 0)
            memset(out + s * SECTOR, 0, SECTOR);
}

static uint64_t bytes_left(const struct node *n, struct cut *c)
{
    struct stat st;
    if (fstat(n->fd, &st) != 0)
        abort();
    uint64_t now = (uint64_t)st.st_size, dice = rng_below(&c->rng, 4);
    if (now == n->bytes || dice == 0)
        return n->bytes;
    if (dice == 1 && now > n->bytes)
        return n->bytes + rng_below(&c->rng, now - n->bytes + 1);
    return now;
}

static void file_make(struct node *n, const char *path, struct cut *c)
{
    static const char zeros[PAGE];
    char page[PAGE];
    if (n->path != NULL) {
        if (syscall(SYS_linkat, AT_FDCWD, n->path, AT_FDCWD, path, 0) != 0)
            abort();
        return;
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    uint64_t bytes = bytes_left(n, c);
    if (fd < 0 || syscall(SYS_ftruncate, fd, bytes) != 0)
        abort();
    for (size_t i = 0; (uint64_t)i * PAGE < bytes; i++) {
        size_t part = bytes - i * PAGE < PAGE ? (size_t)(bytes - i * PAGE) : PAGE;
        page_make(n, i, c, page);
        if (memcmp(page, zeros, part) != 0 &&
            syscall(SYS_pwrite64, fd, page, part, (off_t)(i * PAGE)) != (long)part)
            abort();
    }
    close(fd);
    n->path = copy_of(path);
}

static void folder_make(struct disk *d, const struct node *folder, const char *path, struct cut *c)
{
    char inner[PATH_BYTES + 256];
    if (syscall(SYS_mkdirat, AT_FDCWD, path, 0700) != 0)
        abort();
    for (size_t i = 0; i < d->names; i++) {
        if (d->name[i].folder != folder)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, d->name[i].name);
        if (d->name[i].node->folder)
            folder_make(d, d->name[i].node, inner, c);
        else
            file_make(d->name[i].node, inner, c);
    }
}

static void tree_remove(const char *path)
{
    char inner[PATH_BYTES + 256];
    const struct dirent *entry;
    DIR *dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (syscall(SYS_unlinkat, AT_FDCWD, inner, 0) != 0)
            tree_remove(inner);
    }
    if (dir != NULL)
        closedir(dir);
    if (syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR) != 0)
        abort();
}

/* The caller holds the lock. */
static void off(struct disk *d, uint64_t seed)
{
    static const uint64_t keeps[] = {0, 4, 7, 8};
    struct cut c = {.rng = rng_of(seed, 71, 1)};
    char top[PATH_BYTES + 8];
    c.keep = keeps[rng_below(&c.rng, 4)];
    snprintf(top, sizeof top, "%s.cut", d->root);
    names_left(d, &c);
    folder_make(d, d->top, top, &c);
    empty(d);
    d->off = true;
}

void disk_off(struct disk *d, uint64_t seed)
{
    pthread_mutex_lock(&lock);
    if (!d->off)
        off(d, seed);
    pthread_mutex_unlock(&lock);
}

void disk_on(struct disk *d)
{
    char top[PATH_BYTES + 8];
    pthread_mutex_lock(&lock);
    if (!d->off)
        abort();
    snprintf(top, sizeof top, "%s.cut", d->root);
    tree_remove(d->root);
    if (syscall(SYS_renameat, AT_FDCWD, top, AT_FDCWD, d->root) != 0)
        abort();
    begin(d);
    d->off = d->failed = false;
    d->fault = (struct disk_fault){0};
    d->calls = d->syncs = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- the calls ---- */

static struct disk *disk_of(const char *path)
{
    for (uint32_t i = 0; atomic_load(&watched) > 0 && i < DISKS; i++)
        if (disks[i] != NULL && !disks[i]->off &&
            strncmp(disks[i]->root, path, disks[i]->root_bytes) == 0 &&
            path[disks[i]->root_bytes] == '/')
            return disks[i];
    return NULL;
}

static struct disk *disk_of_file(int fd, struct node **node)
{
    struct stat st;
    if (atomic_load(&watched) == 0 || fstat(fd, &st) != 0)
        return NULL;
    for (uint32_t i = 0; i < DISKS; i++)
        if (disks[i] != NULL && (*node = node_find(disks[i], &st)) != NULL)
            return disks[i];
    return NULL;
}

enum fate { FATE_DONE, FATE_HALF, FATE_FAILS, FATE_IN_VAIN };

/* Decides the fate of a call; the caller holds the lock. errno is set if the call fails. path: the
 * file's, or its first one. */
static enum fate fate_of(struct disk *d, const char *path, bool sync)
{
    const struct disk_fault *f = &d->fault;
    if ((f->but != NULL && strstr(path, f->but) != NULL) ||
        (f->only != NULL && strstr(path, f->only) == NULL))
        return FATE_DONE;
    d->calls++;
    d->syncs += sync;
    uint64_t at = f->syncs ? d->syncs : d->calls;
    bool here = f->at != 0 && at >= f->at && at <= f->at + f->last && (!f->syncs || sync);
    d->failed |= here;
    if (!here)
        return FATE_DONE;
    if (f->kind == DISK_OFF) {
        off(d, f->seed);
        return FATE_IN_VAIN;
    }
    errno = f->why;
    return f->kind == DISK_SHORT ? FATE_HALF : FATE_FAILS;
}

/* Returns the folder of a path, and its name there. */
static struct name place_of(struct disk *d, const char *path, struct node *node)
{
    char folder[PATH_BYTES];
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    size_t slash = bytes;
    while (slash > 0 && path[slash - 1] != '/')
        slash--;
    snprintf(folder, sizeof folder, "%.*s", (int)slash, path);
    char *name = need(strndup(path + slash, bytes - slash));
    return (struct name){node_at(d, folder), node, name};
}

static const struct name nothing;

/* Returns false if a call about a path fails. *d: NULL if the path is not watched, or no longer. */
static bool path_call(struct disk **d, const char *path)
{
    enum fate fate = *d == NULL ? FATE_DONE : fate_of(*d, path, false);
    if (fate == FATE_IN_VAIN)
        *d = NULL;
    return fate != FATE_FAILS;
}

static int open_new(struct disk *d, const char *path, int flags, mode_t mode)
{
    struct stat st;
    bool there = lstat(path, &st) == 0;
    if (!path_call(&d, path))
        return -1;
    struct node *old = there && d != NULL && (flags & O_TRUNC) ? node_at(d, path) : NULL;
    if (old != NULL && !old->folder)
        node_touch(old, 0, (uint64_t)st.st_size);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    struct node *n = fd < 0 || there || d == NULL ? NULL : node_at(d, path);
    if (n != NULL)
        change_add(d, nothing, place_of(d, path, n));
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & O_CREAT) ? va_arg(list, mode_t) : 0;
    va_end(list);
    pthread_mutex_lock(&lock);
    struct disk *d = disk_of(path);
    int fd;
    if (d != NULL && (flags & (O_CREAT | O_TRUNC)))
        fd = open_new(d, path, flags, mode);
    else
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_unlock(&lock);
    return fd;
}

static ssize_t written(int fd, const struct iovec *piece, int count, off_t at)
{
    return at >= 0 ? syscall(SYS_pwritev, fd, piece, count, at, 0)
                   : syscall(SYS_writev, fd, piece, count);
}

static void write_note(struct node *n, int fd, const struct iovec *piece, int count, off_t at)
{
    struct stat st;
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += piece[i].iov_len;
    bool end = at < 0 && (fcntl(fd, F_GETFL) & O_APPEND) && fstat(fd, &st) == 0;
    off_t from = end ? st.st_size : at >= 0 ? at : lseek(fd, 0, SEEK_CUR);
    node_touch(n, (uint64_t)from, bytes);
}

/* at -1: at the file's offset. */
static ssize_t write_at(int fd, const struct iovec *piece, int count, off_t at)
{
    struct node *n;
    pthread_mutex_lock(&lock);
    struct disk *d = disk_of_file(fd, &n);
    enum fate fate = d == NULL ? FATE_DONE : fate_of(d, n->first, false);
    int why = errno;
    if (d != NULL && fate != FATE_IN_VAIN)
        write_note(n, fd, piece, count, at);
    struct iovec half = {piece[0].iov_base, (piece[0].iov_len + 1) / 2};
    bool whole = fate == FATE_DONE || fate == FATE_IN_VAIN;
    ssize_t done = whole ? written(fd, piece, count, at) : written(fd, &half, 1, at);
    if (fate == FATE_FAILS) {
        errno = why;
        done = -1;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    struct iovec piece = {(void *)(uintptr_t)data, bytes};
    if (atomic_load(&watched) == 0)
        return syscall(SYS_write, fd, data, bytes);
    return write_at(fd, &piece, 1, -1);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    struct iovec piece = {(void *)(uintptr_t)data, bytes};
    return write_at(fd, &piece, 1, at);
}

ssize_t pwritev(int fd, const struct iovec *piece, int count, off_t at)
{
    return write_at(fd, piece, count, at);
}

static int sync_file(int fd, long call)
{
    struct node *n;
    pthread_mutex_lock(&lock);
    struct disk *d = disk_of_file(fd, &n);
    enum fate fate = d == NULL ? FATE_DONE : fate_of(d, n->first, true);
    int why = errno, rc = 0;
    if (d == NULL)
        rc = (int)syscall(call, fd);
    else if (fate == FATE_FAILS)
        rc = -1;
    if (d != NULL && fate != FATE_IN_VAIN && n->folder && rc == 0)
        folder_synced(d, n);
    else if (d != NULL && fate != FATE_IN_VAIN && !n->folder)
        node_synced(n, rc != 0);
    if (d != NULL)
        errno = why;
    pthread_mutex_unlock(&lock);
    return rc;
}

int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

/* grow: never makes the file shorter. */
static int resize(int fd, off_t bytes, bool grow)
{
    struct node *n;
    struct stat st;
    struct disk *d = disk_of_file(fd, &n);
    enum fate fate = d == NULL ? FATE_DONE : fate_of(d, n->first, false);
    if (fate == FATE_FAILS)
        return -1;
    if (grow && fstat(fd, &st) == 0 && st.st_size >= bytes)
        return 0;
    if (d != NULL && fate != FATE_IN_VAIN && fstat(fd, &st) == 0 && bytes < st.st_size)
        node_touch(n, (uint64_t)bytes, (uint64_t)(st.st_size - bytes));
    return (int)syscall(SYS_ftruncate, fd, bytes);
}

int ftruncate(int fd, off_t bytes)
{
    pthread_mutex_lock(&lock);
    int rc = resize(fd, bytes, false);
    pthread_mutex_unlock(&lock);
    return rc;
}

int truncate(const char *path, off_t bytes)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int rc = ftruncate(fd, bytes), why = errno;
    close(fd);
    errno = why;
    return rc;
}

/* Reserves no space: only the length matters here. */
int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    pthread_mutex_lock(&lock);
    int rc = mode != 0 ? 0 : resize(fd, at + bytes, true);
    pthread_mutex_unlock(&lock);
    return rc;
}

int posix_fallocate(int fd, off_t at, off_t bytes)
{
    return fallocate(fd, 0, at, bytes) == 0 ? 0 : errno;
}

int rename(const char *from, const char *to)
{
    pthread_mutex_lock(&lock);
    struct disk *d = disk_of(from);
    int rc = path_call(&d, from) ? 0 : -1;
    struct node *n = d == NULL || rc != 0 ? NULL : node_at(d, from);
    if (n != NULL)
        (void)node_at(d, to); /* keeps it readable, in case it is replaced and comes back */
    if (rc == 0)
        rc = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    if (rc == 0 && n != NULL)
        change_add(d, place_of(d, from, n), place_of(d, to, n));
    pthread_mutex_unlock(&lock);
    return rc;
}

int link(const char *from, const char *to)
{
    pthread_mutex_lock(&lock);
    struct disk *d = disk_of(to);
    int rc = path_call(&d, to) ? 0 : -1;
    if (rc == 0)
        rc = (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    struct node *n = rc == 0 && d != NULL ? node_at(d, to) : NULL;
    if (n != NULL)
        change_add(d, nothing, place_of(d, to, n));
    pthread_mutex_unlock(&lock);
    return rc;
}

static int name_goes(const char *path, int flags)
{
    pthread_mutex_lock(&lock);
    struct disk *d = disk_of(path);
    int rc = path_call(&d, path) ? 0 : -1;
    struct node *n = d == NULL || rc != 0 ? NULL : node_at(d, path);
    if (rc == 0)
        rc = (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    if (rc == 0 && n != NULL)
        change_add(d, place_of(d, path, n), nothing);
    pthread_mutex_unlock(&lock);
    return rc;
}

int unlink(const char *path)
{
    return name_goes(path, 0);
}

int rmdir(const char *path)
{
    return name_goes(path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode)
{
    pthread_mutex_lock(&lock);
    struct disk *d = disk_of(path);
    struct stat st;
    bool there = d != NULL && lstat(path, &st) == 0;
    int rc = there || path_call(&d, path) ? 0 : -1;
    if (rc == 0)
        rc = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    struct node *n = rc == 0 && d != NULL ? node_at(d, path) : NULL;
    if (n != NULL)
        change_add(d, nothing, place_of(d, path, n));
    pthread_mutex_unlock(&lock);
    return rc;
}
