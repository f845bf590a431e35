/* journal_sync.c: syncs and spare segments, whose middle step runs on another thread.
 *
 * 1. `synced` moves only when every segment written to by then has been synced, and the folder with
 *    it. [assert: journal_sync_begin, journal_sync_end]
 * 2. The system reports a failed sync once for each open file: a peek opens files of its own, and
 *    after one failed sync all syncs fail. [test: a_failed_sync_fails_the_one_beside_it] */
#include "embedding/journal/journal_inner.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- syncs ---- */

static void sync_add(struct journal_sync *s, int fd)
{
    SHOAL_ASSERT(s->count < JOURNAL_SYNC_MAX);
    s->fd[s->count++] = fd;
    if (fd < 0)
        s->status = SHOAL_E_IO;
}

static void sync_one(struct journal_sync *s, int fd)
{
    if (file_sync_data(fd) != 0) {
        s->status = SHOAL_E_IO;
        atomic_store(s->failed, true);
    }
}

/* True when there was no free descriptor: no sync was tried, so it may be retried (a failed
 * fdatasync may not). Nothing has begun. */
static bool sync_later(struct journal_sync *s)
{
    if (s->status == 0 || (errno != EMFILE && errno != ENFILE))
        return false;
    log_warn("the journal is synced later: no file can be opened (%s)", strerror(errno));
    for (uint32_t i = 0; i < s->count; i++)
        if (s->fd[i] >= 0)
            close(s->fd[i]);
    *s = (struct journal_sync){.sequence = 0};
    return true;
}

bool journal_sync_begin(struct journal *j, struct journal_sync *s)
{
    if (j->committed == j->synced && !j->dir_dirty)
        return false;
    *s = (struct journal_sync){.failed = &j->failed,
                               .sequence = j->committed,
                               .bytes = j->unsynced,
                               .freed = j->freed_synced};
    uint32_t i = 0, most = JOURNAL_SYNC_MAX - 1;
    for (; i < j->count && s->count < most && s->status == 0; i++)
        if (j->segment[i].dirty)
            sync_add(s, file_dup(j->segment[i].fd));
    if (j->dir_dirty && s->status == 0) {
        sync_add(s, file_folder(j->dir));
        s->freed = j->freed;
    }
    if (sync_later(s))
        return false;
    for (uint32_t k = 0; k < i; k++)
        j->segment[k].dirty = false;
    if (i < j->count && j->segment[i].first <= s->sequence)
        /* more files than fit: the next sync takes the rest */
        s->sequence = j->segment[i].first - 1;
    SHOAL_ASSERT(!segment_dirty(j, s->sequence)); /* 1 */
    j->dir_dirty = false;
    return true;
}

static bool peeked(const struct journal *j, uint32_t i)
{
    return j->segment[i].fd >= 0 && j->segment[i].last > j->synced;
}

void journal_sync_peek(struct journal *j, struct journal_sync *s)
{
    char path[LIMIT_PATH];
    uint32_t left = 0;
    *s = (struct journal_sync){.failed = &j->failed, .sequence = 0};
    for (uint32_t i = 0; i < j->count; i++)
        left += peeked(j, i);
    for (uint32_t i = 0; i < j->count && s->status == 0; i++) {
        if (!peeked(j, i))
            continue;
        segment_path(j, j->segment[i].generation, path);
        if (left-- < JOURNAL_SYNC_MAX)
            sync_add(s, file_open(path, O_RDONLY, 0)); /* 2 */
        else
            sync_one(s, j->segment[i].fd);
    }
    if (s->status == 0)
        sync_add(s, file_folder(j->dir));
}

void journal_sync_run(struct journal_sync *s)
{
    for (uint32_t i = 0; i < s->count && s->status == 0; i++)
        sync_one(s, s->fd[i]);
    if (atomic_load(s->failed))
        s->status = SHOAL_E_IO;
}

int journal_sync_end(struct journal *j, struct journal_sync *s, struct err *e)
{
    SHOAL_ASSERT(s->sequence <= j->committed); /* 1 */
    for (uint32_t i = 0; i < s->count; i++)
        if (s->fd[i] >= 0)
            close(s->fd[i]);
    bool beside = atomic_load(&j->failed);
    if (s->status != 0 || beside)
        return err_set(e, s->status != 0 ? s->status : SHOAL_E_IO,
                       "cannot sync the journal in %s: its disk is failing; restart to recover",
                       j->dir);
    if (s->sequence > j->synced)
        j->synced = s->sequence;
    if (s->freed > j->freed_synced)
        j->freed_synced = s->freed;
    j->unsynced -= MIN(s->bytes, j->unsynced);
    return 0;
}

bool journal_sealed_unsynced(const struct journal *j)
{
    for (uint32_t i = 0; i + 1 < j->count; i++)
        if (j->segment[i].dirty)
            return true;
    return false;
}

/* ---- spare segments ---- */

bool journal_spare_begin(struct journal *j, struct journal_spare *s)
{
    SHOAL_ASSERT(!j->copy);
    if (j->making || j->free_count > 0)
        return false;
    j->making = true;
    j->made++;
    uint32_t number = j->next_free++;
    snprintf(s->made, sizeof s->made, "%s/new-%08x", j->dir, number);
    segment_free_path(j, number, s->name);
    s->bytes = j->segment_bytes;
    s->status = 0;
    return true;
}

void journal_spare_run(struct journal_spare *s)
{
    enum { CHUNK = 1 << 20 };
    int fd = file_open(s->made, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char *zeros = calloc(1, CHUNK);
    s->status = 0;
    if (fd < 0 || zeros == NULL)
        s->status = SHOAL_E_IO;
    for (uint32_t at = 0; s->status == 0 && at < s->bytes;) {
        uint32_t left = s->bytes - at;
        ssize_t n = file_write(fd, zeros, MIN(left, CHUNK));
        if (n <= 0)
            s->status = SHOAL_E_IO;
        else
            at += (uint32_t)n;
    }
    if (s->status == 0 && file_sync_data(fd) != 0)
        s->status = SHOAL_E_IO;
    free(zeros);
    if (fd >= 0)
        close(fd);
    if (s->status != 0 || file_rename(s->made, s->name) != 0) {
        s->status = SHOAL_E_IO;
        file_unlink(s->made);
    }
}

void journal_spare_end(struct journal *j, struct journal_spare *s)
{
    unsigned number;
    SHOAL_ASSERT(j->making);
    j->making = false;
    if (s->status != 0) {
        log_warn("cannot prepare a journal segment in %s: the next one is made when it is needed",
                 j->dir);
        return;
    }
    if (sscanf(strrchr(s->name, '/'), "/free-%8x", &number) != 1 ||
        segment_free_add(j, number) != 0)
        file_unlink(s->name);
}
