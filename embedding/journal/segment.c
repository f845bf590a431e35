/* segment.c: the files of a journal's folder; segment.h has the invariants. */
#include "embedding/journal/segment.h"

#include "embedding/journal/archive.h"
#include "embedding/journal/journal_inner.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

void segment_path(const struct journal *j, uint64_t generation, char *out)
{
    snprintf(out, LIMIT_PATH, "%s/seg-%016" PRIx64, j->dir, generation);
}

void segment_free_path(const struct journal *j, uint32_t number, char *out)
{
    snprintf(out, LIMIT_PATH, "%s/free-%08x", j->dir, number);
}

struct segment *segment_add(struct journal *j, uint64_t generation)
{
    if (array_room(&j->segment, j->count, &j->capacity, 64) != 0)
        return NULL;
    struct segment *s = &j->segment[j->count++];
    *s = (struct segment){.generation = generation, .fd = -1};
    return s;
}

/* ---- free files ---- */

int segment_free_add(struct journal *j, uint32_t number)
{
    if (array_room(&j->free_number, j->free_count, &j->free_capacity, 64) != 0)
        return SHOAL_E_NOMEM;
    j->free_number[j->free_count++] = number;
    j->freed++;
    j->dir_dirty = true;
    return 0;
}

/* Number of free files that may be reused; the names of the files behind them are not on disk
 * yet. */
static uint32_t free_usable(const struct journal *j)
{
    uint64_t waiting = j->freed - j->freed_synced;
    SHOAL_ASSERT(j->freed_synced <= j->freed);

    if (waiting < j->free_count)
        return j->free_count - (uint32_t)waiting;

    return 0;
}

uint32_t segment_free_take(struct journal *j)
{
    const uint32_t usable = free_usable(j), at = usable - 1;
    SHOAL_ASSERT(usable > 0 && usable <= j->free_count); /* 3 */
    uint32_t number = j->free_number[at];
    memmove(&j->free_number[at], &j->free_number[at + 1],
            (j->free_count - at - 1) * sizeof *j->free_number);
    j->free_count--;
    return number;
}

/* ---- beginning, ending ---- */

void segment_retire(struct journal *j, uint32_t index, uint32_t keep)
{
    SHOAL_ASSERT(!j->copy && index < j->count && j->used >= j->segment[index].bytes);
    struct segment *s = &j->segment[index];
    char from[LIMIT_PATH], to[LIMIT_PATH];
    segment_path(j, s->generation, from);
    segment_free_path(j, j->next_free, to);
    if (s->fd >= 0)
        close(s->fd);
    if (j->archive != NULL && archive_take(j->archive, from, s->generation, s->bytes, s->linked))
        ; /* it was moved */
    else if (s->linked || j->pinned || j->free_count >= keep || file_rename(from, to) != 0)
        file_unlink(from);
    else if (segment_free_add(j, j->next_free++) != 0)
        file_unlink(to);
    j->dir_dirty = true;
    j->used -= s->bytes;
    memmove(s, s + 1, (j->count - index - 1) * sizeof *s);
    j->count--;
}

/* A free file of the right size without links, renamed to `path`; or a new one, which stays empty
 * if `bare`. Returns its descriptor or -1. */
static int segment_file(struct journal *j, const char *path, bool bare)
{
    SHOAL_ASSERT(!j->copy && j->segment_bytes >= JOURNAL_SEGMENT_MIN);
    while (!bare && free_usable(j) > 0) {
        char from[LIMIT_PATH];
        struct stat st;
        segment_free_path(j, segment_free_take(j), from);
        if (stat(from, &st) == 0 && st.st_nlink == 1 && (uint64_t)st.st_size == j->segment_bytes &&
            file_rename(from, path) == 0)
            return open(path, O_RDWR | O_CLOEXEC);
        file_unlink(from);
    }
    j->made++;
    int fd = file_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    int failed;
    if (fd < 0 || bare)
        failed = 0;
    else
        failed = posix_fallocate(fd, 0, j->segment_bytes);
    if (failed != 0) {
        close(fd);
        file_unlink(path);
        errno = failed;
        return -1;
    }
    return fd;
}

int segment_begin(struct journal *j, bool bare, struct err *e)
{
    char path[LIMIT_PATH];
    SHOAL_ASSERT(j->queued == 0 && j->pieces == 0);
    SHOAL_ASSERT(j->count == 0 ||
                 j->segment[j->count - 1].generation != j->next_generation); /* 1 */
    segment_path(j, j->next_generation, path);
    int fd = segment_file(j, path, bare);
    if (fd < 0)
        return err_set(e, segment_error(errno), "cannot make journal segment %s: %s", path,
                       strerror(errno));
    struct segment_header h = {.magic = SEGMENT_MAGIC,
                               .generation = j->next_generation,
                               .first = j->next,
                               .previous = j->previous,
                               .bytes = j->segment_bytes,
                               .version = JOURNAL_VERSION};
    h.checksum = record_segment_checksum(&h);
    struct segment *s = NULL;
    if (pwrite(fd, &h, sizeof h, 0) == (ssize_t)sizeof h)
        s = segment_add(j, j->next_generation);
    if (s == NULL) {
        err_set(e, SHOAL_E_IO, "cannot write the head of journal segment %s: %s", path,
                strerror(errno));
        close(fd);
        return SHOAL_E_IO;
    }
    s->fd = fd;
    s->first = j->next;
    s->last = j->next - 1;
    s->bytes = SEGMENT_HEADER_BYTES;
    s->dirty = true;
    j->used += s->bytes;
    j->next_generation++;
    j->dir_dirty = true;
    return 0;
}

/* ---- writing ---- */

int segment_error(int why)
{
    return why == ENOSPC ? SHOAL_E_NO_SPACE : SHOAL_E_IO;
}

int segment_write(int fd, struct iovec *piece, uint32_t count, uint64_t at)
{
    while (count > 0) {
        ssize_t n = pwritev(fd, piece, (int)count, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += (uint64_t)n;
        size_t left = (size_t)n;
        while (count > 0 && left >= piece->iov_len) {
            left -= piece->iov_len;
            piece++;
            count--;
        }
        if (count > 0) {
            piece->iov_base = (char *)piece->iov_base + left;
            piece->iov_len -= left;
        }
    }
    return 0;
}

bool segment_dirty(const struct journal *j, uint64_t sequence)
{
    for (uint32_t i = 0; i < j->count; i++)
        if (j->segment[i].dirty && j->segment[i].first <= sequence)
            return true;
    return false;
}
