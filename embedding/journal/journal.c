/* journal.c: a run of the journal: appending, trimming and the end of it. journal_inner.h lists the
 * other files.
 *
 * 1. A segment's header is written before its first record; a file whose header does not check
 *    holds no record. [assert: journal_commit]
 * 2. After a recovery appends go to a new segment, so that no new record follows the bytes behind a
 *    torn tail. [assert: journal_append]
 * 3. journal_shed deletes files only after the head that stays is on disk. Otherwise a power loss
 *    might leave no head, and a generation be used twice. [test: a_head_outlasts_what_was_shed] */
#include "embedding/journal/journal.h"

#include "embedding/journal/journal_inner.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- appending ---- */

size_t journal_payload_max(const struct journal *j)
{
    SHOAL_ASSERT(j->segment_bytes >= JOURNAL_SEGMENT_MIN);
    return j->segment_bytes - SEGMENT_HEADER_BYTES - sizeof(struct record_header) - RECORD_ALIGN;
}

int journal_append(struct journal *j, struct record_header *h, const struct record_payload *payload,
                   struct err *e)
{
    static const char zeros[RECORD_ALIGN];
    size_t payload_bytes = payload->bytes[0] + payload->bytes[1],
           bytes = record_bytes(payload_bytes);
    SHOAL_ASSERT(payload_bytes <= journal_payload_max(j) && j->next > 0);
    struct segment *s = NULL;
    if (j->started)
        s = &j->segment[j->count - 1];
    bool full = s == NULL || s->bytes + j->queued_bytes + bytes > j->segment_bytes;
    if (full || j->queued == JOURNAL_QUEUE) {
        int rc = journal_commit(j, e);
        if (rc == 0 && full)
            rc = segment_begin(j, false, e);
        if (rc != 0)
            return rc;
        j->started = true;
        s = &j->segment[j->count - 1];
    }
    SHOAL_ASSERT(s->fd >= 0 && j->queued < JOURNAL_QUEUE); /* 2 */
    SHOAL_ASSERT(s->bytes + j->queued_bytes + bytes <= j->segment_bytes);
    SHOAL_ASSERT(j->synced < j->next); /* record.h, 3 */
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

int journal_commit(struct journal *j, struct err *e)
{
    if (j->queued == 0)
        return 0;
    struct segment *s = &j->segment[j->count - 1];
    SHOAL_ASSERT(j->started && s->bytes >= SEGMENT_HEADER_BYTES); /* 1 */
    SHOAL_ASSERT(j->header[0].sequence == j->committed + 1 &&
                 j->header[j->queued - 1].sequence == j->next - 1);
    int failed = segment_write(s->fd, j->piece, j->pieces, s->bytes);
    if (failed != 0) {
        char path[LIMIT_PATH];
        segment_path(j, s->generation, path);
        return err_set(e, segment_error(failed),
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

/* ---- figures ---- */

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
    SHOAL_ASSERT(j->synced <= j->committed);
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

uint64_t journal_first(const struct journal *j)
{
    for (uint32_t i = 0; i < j->count; i++)
        if (j->segment[i].last >= j->segment[i].first)
            return j->segment[i].first;
    return j->next;
}

/* ---- trimming, the end ---- */

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
    rc = segment_begin(j, false, e);
    j->started |= rc == 0;
    SHOAL_ASSERT(rc != 0 || j->segment[j->count - 1].first == j->next);
    return rc;
}

void journal_forget(struct journal *j)
{
    char path[LIMIT_PATH];
    while (j->free_count > 0) {
        segment_free_path(j, j->free_number[--j->free_count], path);
        file_unlink(path);
    }
    j->dir_dirty = true;
}

/* True when the last file has only a head. */
static bool is_bare(const struct journal *j)
{
    char path[LIMIT_PATH];
    struct stat st;
    if (j->count == 0)
        return false;
    segment_path(j, j->segment[j->count - 1].generation, path);
    return stat(path, &st) == 0 && st.st_size == SEGMENT_HEADER_BYTES;
}

int journal_shed(struct journal *j, struct err *e)
{
    struct journal_sync s;
    int rc = journal_commit(j, e);
    if (rc == 0 && j->next_generation > 1 && !is_bare(j)) {
        rc = segment_begin(j, true, e);
        j->started |= rc == 0;
    }
    while (rc == 0 && journal_sync_begin(j, &s)) {
        journal_sync_run(&s);
        rc = journal_sync_end(j, &s, e);
    }
    if (rc == 0 && segment_dirty(j, UINT64_MAX)) /* 3 */
        rc = err_set(e, SHOAL_E_IO, "cannot sync the journal in %s: no file can be opened", j->dir);
    if (rc != 0)
        return rc;
    journal_trim(j, j->committed, 0);
    journal_forget(j);
    SHOAL_ASSERT(j->count <= 1 && j->free_count == 0);
    return 0;
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
