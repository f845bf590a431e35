/* journal_sync.c: what of the journal happens on another thread: syncing, and writing a spare
 * segment for the first time. */
#include "embedding/journal/journal_file.h"
#include "proto/base/file.h"
#include "proto/base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool journal_sync_begin(struct journal *j, struct journal_sync *s)
{
    if (j->committed == j->synced && !j->dir_dirty)
        return false;
    *s = (struct journal_sync){.sequence = j->committed, .bytes = j->unsynced};
    uint32_t i = 0;
    for (; i < j->count && s->count < JOURNAL_SYNC_MAX - 1; i++) {
        struct segment *segment = &j->segment[i];
        if (!segment->dirty)
            continue;
        s->fd[s->count] = fcntl(segment->fd, F_DUPFD_CLOEXEC, 0);
        if (s->fd[s->count++] < 0)
            s->status = SHOAL_E_IO;
        segment->dirty = false;
    }
    if (i < j->count && j->segment[i].first <= s->sequence)
        s->sequence = j->segment[i].first - 1; /* too many at once: the rest is for the next sync */
    if (j->dir_dirty) {
        s->fd[s->count] = open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->fd[s->count++] < 0)
            s->status = SHOAL_E_IO;
        j->dir_dirty = false;
    }
    return true;
}

void journal_sync_peek(struct journal *j, struct journal_sync *s)
{
    *s = (struct journal_sync){.sequence = 0};
    for (uint32_t i = 0; i < j->count && s->count < JOURNAL_SYNC_MAX - 1; i++) {
        if (j->segment[i].fd < 0 || j->segment[i].last <= j->synced)
            continue;
        s->fd[s->count] = fcntl(j->segment[i].fd, F_DUPFD_CLOEXEC, 0);
        if (s->fd[s->count++] < 0)
            s->status = SHOAL_E_IO;
    }
    s->fd[s->count] = open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->fd[s->count++] < 0)
        s->status = SHOAL_E_IO;
}

void journal_sync_run(struct journal_sync *s)
{
    for (uint32_t i = 0; i < s->count && s->status == 0; i++)
        if (file_sync_data(s->fd[i]) != 0)
            s->status = SHOAL_E_IO;
}

int journal_sync_end(struct journal *j, struct journal_sync *s, struct err *e)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->fd[i] >= 0)
            close(s->fd[i]);
    if (s->status != 0)
        return err_set(e, s->status,
                       "cannot sync the journal in %s: its disk is failing; restart to recover",
                       j->dir);
    if (s->sequence > j->synced)
        j->synced = s->sequence;
    j->unsynced -= s->bytes < j->unsynced ? s->bytes : j->unsynced;
    return 0;
}

bool journal_spare_begin(struct journal *j, struct journal_spare *s)
{
    if (j->making || j->free_count > 0)
        return false;
    j->making = true;
    j->made++;
    uint32_t number = j->next_free++;
    snprintf(s->made, sizeof s->made, "%s/new-%08x", j->dir, number);
    free_path(j, number, s->name);
    s->bytes = j->segment_bytes;
    s->status = 0;
    return true;
}

void journal_spare_run(struct journal_spare *s)
{
    enum { CHUNK = 1 << 20 };
    int fd = file_open(s->made, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char *zeros = calloc(1, CHUNK);
    s->status = fd < 0 || zeros == NULL ? SHOAL_E_IO : 0;
    for (uint32_t at = 0; s->status == 0 && at < s->bytes;) {
        uint32_t left = s->bytes - at;
        ssize_t n = file_write(fd, zeros, left < CHUNK ? left : CHUNK);
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
    j->making = false;
    if (s->status != 0) {
        log_warn("cannot prepare a journal segment in %s: the next one is made when it is needed",
                 j->dir);
        return;
    }
    if (sscanf(strrchr(s->name, '/'), "/free-%8x", &number) != 1 || free_add(j, number) != 0)
        file_unlink(s->name);
}
