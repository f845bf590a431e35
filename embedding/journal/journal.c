/* journal.c: appending and trimming; syncs and spare segments are in journal_sync.c, reading in
 * cursor.c.
 *
 *  1. A segment's generation is never used twice: it is one above every generation found in the
 *     folder, free files included.
 *  2. A segment's header goes to the file before its first record; a file whose header does not
 *     check holds no record.
 *  3. After a recovery appends go to a new segment, so that what is left behind a torn tail is
 *     never followed by new records.
 *  4. `synced` moves only when every segment written to by then has been synced, and the folder
 *     with it.
 *  5. A linked segment's file is never written to by another generation.
 */
#include "embedding/journal/journal.h"

#include "embedding/journal/archive.h"
#include "embedding/journal/journal_file.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t segment_checksum(const struct segment_header *h)
{
    return hash_bytes(h, offsetof(struct segment_header, checksum), 0);
}

bool segment_good(const struct segment_header *h, uint64_t generation)
{
    return h->magic == SEGMENT_MAGIC && h->checksum == segment_checksum(h) &&
           h->first > h->previous && (generation == 0 || h->generation == generation);
}

void segment_path(const struct journal *j, uint64_t generation, char *out)
{
    snprintf(out, LIMIT_PATH, "%s/seg-%016" PRIx64, j->dir, generation);
}

void free_path(const struct journal *j, uint32_t number, char *out)
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

int free_add(struct journal *j, uint32_t number)
{
    if (array_room(&j->free_number, j->free_count, &j->free_capacity, 64) != 0)
        return SHOAL_E_NOMEM;
    j->free_number[j->free_count++] = number;
    return 0;
}

void segment_retire(struct journal *j, uint32_t index, uint32_t keep)
{
    struct segment *s = &j->segment[index];
    char from[LIMIT_PATH], to[LIMIT_PATH];
    segment_path(j, s->generation, from);
    free_path(j, j->next_free, to);
    if (s->fd >= 0)
        close(s->fd);
    if (j->archive != NULL && archive_take(j->archive, from, s->generation, s->bytes, s->linked))
        ; /* it has moved */
    else if (s->linked || j->pinned || j->free_count >= keep || file_rename(from, to) != 0)
        file_unlink(from);
    else if (free_add(j, j->next_free++) != 0)
        file_unlink(to);
    j->used -= s->bytes;
    memmove(s, s + 1, (j->count - index - 1) * sizeof *s);
    j->count--;
}

/* A free file of the right size that no cut shares, renamed to `path`; or a new one. Returns its
 * descriptor or -1. */
static int segment_file(struct journal *j, const char *path)
{
    while (j->free_count > 0) {
        char from[LIMIT_PATH];
        struct stat st;
        free_path(j, j->free_number[--j->free_count], from);
        if (stat(from, &st) == 0 && st.st_nlink == 1 && (uint64_t)st.st_size == j->segment_bytes &&
            file_rename(from, path) == 0)
            return open(path, O_RDWR | O_CLOEXEC);
        file_unlink(from);
    }
    j->made++;
    int fd = file_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    int failed = fd < 0 ? 0 : posix_fallocate(fd, 0, j->segment_bytes);
    if (failed != 0) {
        close(fd);
        file_unlink(path);
        errno = failed;
        return -1;
    }
    return fd;
}

static int begin_segment(struct journal *j, struct err *e)
{
    char path[LIMIT_PATH];
    segment_path(j, j->next_generation, path);
    int fd = segment_file(j, path);
    if (fd < 0)
        return err_set(e, errno == ENOSPC ? SHOAL_E_NO_SPACE : SHOAL_E_IO,
                       "cannot make journal segment %s: %s", path, strerror(errno));
    struct segment_header h = {.magic = SEGMENT_MAGIC,
                               .generation = j->next_generation,
                               .first = j->next,
                               .previous = j->previous,
                               .bytes = j->segment_bytes,
                               .version = JOURNAL_VERSION};
    h.checksum = segment_checksum(&h);
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

int journal_start(struct journal *j, uint64_t next, struct err *e)
{
    SHOAL_ASSERT(!j->copy && !j->started && next > 0);
    /* What the last process left in the page cache only goes to disk now, so that `synced` is true
     * from the first record on. */
    for (uint32_t i = 0; i < j->count; i++) {
        char path[LIMIT_PATH];
        segment_path(j, j->segment[i].generation, path);
        if (file_sync_path(path) != 0)
            return err_set(e, SHOAL_E_IO, "cannot sync journal segment %s: %s", path,
                           strerror(errno));
    }
    j->next = next;
    j->committed = j->synced = next - 1;
    j->dir_dirty = true;
    return 0;
}

size_t journal_payload_max(const struct journal *j)
{
    return j->segment_bytes - SEGMENT_HEADER_BYTES - sizeof(struct record_header) - RECORD_ALIGN;
}

int journal_append(struct journal *j, struct record_header *h, const struct record_payload *payload,
                   struct err *e)
{
    static const char zeros[RECORD_ALIGN];
    size_t payload_bytes = payload->bytes[0] + payload->bytes[1],
           bytes = record_bytes(payload_bytes);
    SHOAL_ASSERT(payload_bytes <= journal_payload_max(j) && j->next > 0);
    struct segment *s = j->started ? &j->segment[j->count - 1] : NULL;
    bool full = s == NULL || s->bytes + j->queued_bytes + bytes > j->segment_bytes;
    if (full || j->queued == JOURNAL_QUEUE) {
        int rc = journal_commit(j, e);
        if (rc == 0 && full)
            rc = begin_segment(j, e);
        if (rc != 0)
            return rc;
        j->started = true;
        s = &j->segment[j->count - 1];
    }
    h->sequence = j->next++;
    h->segment = s->generation;
    h->synced = j->synced;
    record_seal(h, payload);
    struct record_header *kept = &j->header[j->queued++];
    *kept = *h;
    j->piece[j->pieces++] = (struct iovec){kept, sizeof *kept};
    for (int i = 0; i < 2; i++)
        if (payload->bytes[i] > 0)
            j->piece[j->pieces++] =
                (struct iovec){(void *)(uintptr_t)payload->piece[i], payload->bytes[i]};
    size_t pad = bytes - sizeof *kept - payload_bytes;
    if (pad > 0)
        j->piece[j->pieces++] = (struct iovec){(void *)(uintptr_t)zeros, pad};
    j->queued_bytes += bytes;
    return 0;
}

/* Writes all pieces at `at`, however many calls the kernel makes of it. 0 or an errno. */
static int write_pieces(int fd, struct iovec *piece, uint32_t count, uint64_t at)
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

int journal_commit(struct journal *j, struct err *e)
{
    if (j->queued == 0)
        return 0;
    struct segment *s = &j->segment[j->count - 1];
    int failed = write_pieces(s->fd, j->piece, j->pieces, s->bytes);
    if (failed != 0) {
        char path[LIMIT_PATH];
        segment_path(j, s->generation, path);
        return err_set(e, failed == ENOSPC ? SHOAL_E_NO_SPACE : SHOAL_E_IO,
                       "cannot write %" PRIu64 " bytes to %s at %" PRIu64 ": %s", j->queued_bytes,
                       path, s->bytes, strerror(failed));
    }
    s->bytes += j->queued_bytes;
    s->last = j->header[j->queued - 1].sequence;
    s->dirty = true;
    j->committed = j->previous = s->last;
    j->used += j->queued_bytes;
    j->written += j->queued_bytes;
    j->unsynced += j->queued_bytes;
    j->queued = j->pieces = 0;
    j->queued_bytes = 0;
    return 0;
}

uint64_t journal_next(const struct journal *j)
{
    return j->next;
}

uint64_t journal_committed(const struct journal *j)
{
    return j->committed;
}

uint64_t journal_synced(const struct journal *j)
{
    return j->synced;
}

uint64_t journal_unsynced_bytes(const struct journal *j)
{
    return j->unsynced;
}

uint64_t journal_bytes(const struct journal *j)
{
    return j->used + j->queued_bytes;
}

uint64_t journal_written(const struct journal *j)
{
    return j->written;
}

uint32_t journal_segment_count(const struct journal *j)
{
    return j->count;
}

uint64_t journal_made(const struct journal *j)
{
    return j->made;
}

bool journal_sealed_unsynced(const struct journal *j)
{
    for (uint32_t i = 0; i + 1 < j->count; i++)
        if (j->segment[i].dirty)
            return true;
    return false;
}

void journal_trim(struct journal *j, uint64_t sequence, uint32_t keep)
{
    /* The last segment stays: it carries the highest generation. */
    while (j->count > 1 && j->segment[0].last <= sequence)
        segment_retire(j, 0, keep);
}

int journal_roll(struct journal *j, struct err *e)
{
    int rc = journal_commit(j, e);
    if (rc != 0 || (j->started && j->segment[j->count - 1].bytes == SEGMENT_HEADER_BYTES))
        return rc;
    rc = begin_segment(j, e);
    j->started |= rc == 0;
    return rc;
}

uint64_t journal_first(const struct journal *j)
{
    for (uint32_t i = 0; i < j->count; i++)
        if (j->segment[i].last >= j->segment[i].first)
            return j->segment[i].first;
    return j->next;
}

void journal_forget(struct journal *j)
{
    char path[LIMIT_PATH];
    while (j->free_count > 0) {
        free_path(j, j->free_number[--j->free_count], path);
        file_unlink(path);
    }
}

void journal_pin(struct journal *j, bool pinned)
{
    j->pinned = pinned;
}

void journal_archive(struct journal *j, struct archive *a)
{
    j->archive = a;
}

int journal_link(struct journal *j, struct journal_link **out, size_t *count, struct err *e)
{
    struct journal_link *list = calloc(j->count + 1, sizeof *list);
    if (list == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to list the journal in %s", j->dir);
    for (uint32_t i = 0; i < j->count; i++) {
        struct segment *s = &j->segment[i];
        s->linked = true;
        segment_path(j, s->generation, list[i].path);
        snprintf(list[i].name, sizeof list[i].name, "seg-%016" PRIx64, s->generation);
        list[i].bytes = s->bytes;
    }
    *out = list;
    *count = j->count;
    return 0;
}

void journal_close(struct journal *j)
{
    if (j == NULL)
        return;
    for (uint32_t i = 0; i < j->count; i++)
        if (j->segment[i].fd >= 0)
            close(j->segment[i].fd);
    free(j->segment);
    free(j->free_number);
    free(j->dir);
    free(j);
}
