/* journal.c: opening, appending, trimming, syncs and spare segments; reading is cursor.c.
 *
 * 1. A segment's generation is never used twice: it is one above every generation found in the
 *    folder, free files included. [assert: begin_segment] [test: a_generation_is_never_used_twice]
 * 2. A segment's header is written before its first record; a file whose header does not check
 *    holds no record. [assert: journal_commit]
 * 3. After a recovery appends go to a new segment, so that no new record follows the bytes behind a
 *    torn tail. [assert: journal_append]
 * 4. `synced` moves only when every segment written to by then has been synced, and the folder with
 *    it. [assert: journal_sync_begin, journal_sync_end]
 * 5. A linked segment's file is never written to by another generation.
 *    [test: a_linked_segment_is_never_written_again]
 * 6. After a failed sync the pages in the page cache are clean, and no later sync writes them. A
 *    start therefore writes all records again that no record reports as synced, before it syncs
 *    them. The system reports a failure once for each open file: a peek opens files of its own, and
 *    after one failed sync all syncs fail. [test: what_no_sync_has_written_is_written_again,
 *    a_failed_sync_fails_the_one_beside_it]
 * 7. A trimmed segment's file is reused only after the folder was synced: otherwise its old name
 *    might come back with new contents. [assert: free_take]
 *    [test: a_trimmed_segment_is_used_again_once_its_name_is_on_disk]
 * 8. journal_shed deletes files only after the head that stays is on disk. Otherwise a power loss
 *    might leave no head, and a generation be used twice. [test: a_head_outlasts_what_was_shed]
 * 9. Records that are given up go from the end on: whole segments, the last one first, then, by one
 *    rename, the rest of the segment before them, whose file may be linked. After a failure or a
 *    kill at any step the journal ends at a record between the two.
 *    [test: records_behind_until_go_at_any_step] */
#include "embedding/journal/journal.h"

#include "embedding/journal/archive.h"
#include "embedding/journal/cursor.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define JOURNAL_QUEUE 256u /* records in one write: four pieces each, IOV_MAX is 1024 */

struct segment {
    uint64_t generation;
    uint64_t first, last; /* last == first - 1: no record */
    uint64_t bytes;       /* end of its last record */
    int fd;               /* -1: not open */
    bool linked;          /* a cut has a link to it: no other generation writes to it */
    bool dirty;           /* written to since the last sync began */
};

struct journal {
    char *dir;          /* owned */
    atomic_bool failed; /* a sync has failed */
    uint32_t segment_bytes;
    bool copy;
    /* owned; by generation; the last one takes appends once `started` */
    struct segment *segment;
    uint32_t count, capacity;
    uint32_t *free_number; /* owned; files free-NUMBER, in the order in which they were freed */
    uint32_t free_count, free_capacity, next_free;
    /* files freed since the start, and those whose names are on disk */
    uint64_t freed, freed_synced;
    uint64_t stamped;        /* records up to this one were on disk at the start, or are since */
    bool making;             /* a spare segment is being made */
    uint64_t made;           /* number of files made */
    bool pinned;             /* blame reads segments: none is reused */
    struct archive *archive; /* borrowed; NULL: trimmed segments are reused */
    bool dir_dirty;
    uint64_t next_generation;
    bool started;
    uint64_t next, committed, synced, previous;
    uint64_t used, written, unsynced;
    struct record_header header[JOURNAL_QUEUE];
    struct iovec piece[JOURNAL_QUEUE * 4];
    uint32_t queued, pieces;
    uint64_t queued_bytes;
};

static void segment_path(const struct journal *j, uint64_t generation, char *out)
{
    snprintf(out, LIMIT_PATH, "%s/seg-%016" PRIx64, j->dir, generation);
}

static void free_path(const struct journal *j, uint32_t number, char *out)
{
    snprintf(out, LIMIT_PATH, "%s/free-%08x", j->dir, number);
}

static struct segment *segment_add(struct journal *j, uint64_t generation)
{
    if (array_room(&j->segment, j->count, &j->capacity, 64) != 0)
        return NULL;
    struct segment *s = &j->segment[j->count++];
    *s = (struct segment){.generation = generation, .fd = -1};
    return s;
}

static int free_add(struct journal *j, uint32_t number)
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

/* Takes the last file that may be reused. */
static uint32_t free_take(struct journal *j)
{
    const uint32_t usable = free_usable(j), at = usable - 1;
    SHOAL_ASSERT(usable > 0 && usable <= j->free_count); /* 7 */
    uint32_t number = j->free_number[at];
    memmove(&j->free_number[at], &j->free_number[at + 1],
            (j->free_count - at - 1) * sizeof *j->free_number);
    j->free_count--;
    return number;
}

/* Removes segment `index` from the list: its file becomes free, or is deleted when it is linked or
 * `keep` files are free. */
static void segment_retire(struct journal *j, uint32_t index, uint32_t keep)
{
    SHOAL_ASSERT(!j->copy && index < j->count && j->used >= j->segment[index].bytes);
    struct segment *s = &j->segment[index];
    char from[LIMIT_PATH], to[LIMIT_PATH];
    segment_path(j, s->generation, from);
    free_path(j, j->next_free, to);
    if (s->fd >= 0)
        close(s->fd);
    if (j->archive != NULL && archive_take(j->archive, from, s->generation, s->bytes, s->linked))
        ; /* it was moved */
    else if (s->linked || j->pinned || j->free_count >= keep || file_rename(from, to) != 0)
        file_unlink(from);
    else if (free_add(j, j->next_free++) != 0)
        file_unlink(to);
    j->dir_dirty = true;
    j->used -= s->bytes;
    memmove(s, s + 1, (j->count - index - 1) * sizeof *s);
    j->count--;
}

static int by_generation(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

/* Counts the generation of a free file, too: its old records must never check in a new segment.
 * Returns the generation; 0: the head does not check. */
static uint64_t note_generation(struct journal *j, const char *path)
{
    struct segment_header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool good = pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && record_segment_good(&h, 0);
    close(fd);
    if (!good)
        return 0;
    if (h.generation >= j->next_generation)
        j->next_generation = h.generation + 1;
    return h.generation;
}

/* True when a file was trimmed and reused, and a power loss took both names: none of its old
 * records is needed, and none of its new ones was acknowledged. */
static bool is_used_again(struct journal *j, const char *path, uint64_t generation)
{
    if (note_generation(j, path) <= generation)
        return false;
    log_warn("journal segment %s had been given up and begun anew when the power went; it goes",
             path);
    if (!j->copy)
        file_unlink(path);
    return true;
}

static int take_name(struct journal *j, const char *name)
{
    uint64_t generation;
    unsigned number;
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/%s", j->dir, name);
    if (strlen(name) == 20 && sscanf(name, "seg-%16" SCNx64, &generation) == 1) {
        if (is_used_again(j, path, generation))
            return 0;
        struct segment *s = segment_add(j, generation);
        if (s == NULL)
            return SHOAL_E_NOMEM;
        struct stat st;
        s->linked = stat(path, &st) == 0 && st.st_nlink > 1;
        if (generation >= j->next_generation)
            j->next_generation = generation + 1;
    } else if (j->copy) {
        return 0;
    } else if (strlen(name) == 13 && sscanf(name, "free-%8x", &number) == 1) {
        note_generation(j, path);
        if (number >= j->next_free)
            j->next_free = number + 1;
        return free_add(j, number);
    } else if (strncmp(name, "new-", 4) == 0) {
        file_unlink(path);
    }
    return 0;
}

static int open_dir(const char *dir, uint32_t segment_bytes, bool copy, struct journal **out,
                    struct err *e)
{
    if (strlen(dir) + 32 > LIMIT_PATH)
        return err_set(e, SHOAL_E_CONFIG, "the folder name %s is too long", dir);
    if (!copy && file_mkdir(dir, 0700) != 0 && errno != EEXIST)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create the journal folder %s: %s", dir,
                       strerror(errno));
    struct journal *j = calloc(1, sizeof *j);
    struct file_walk walk;
    const char *entry;
    bool opened = file_walk_open(&walk, dir);
    if (j != NULL)
        j->dir = strdup(dir);
    if (j == NULL || j->dir == NULL || !opened) {
        file_walk_close(&walk);
        journal_close(j);
        return err_set(e, SHOAL_E_IO, "cannot open the journal folder %s: %s", dir,
                       strerror(errno));
    }
    j->segment_bytes = segment_bytes;
    if (segment_bytes < JOURNAL_SEGMENT_MIN)
        j->segment_bytes = JOURNAL_SEGMENT_MIN;

    j->copy = copy;
    j->next_generation = 1;
    int rc = 0;
    while (rc == 0 && (entry = file_walk_next(&walk)) != NULL)
        rc = take_name(j, entry);
    file_walk_close(&walk);
    if (rc != 0) {
        journal_close(j);
        return err_set(e, rc, "no memory to list the journal in %s", dir);
    }
    if (j->count > 0)
        qsort(j->segment, j->count, sizeof *j->segment, by_generation);
    *out = j;
    return 0;
}

int journal_open(const char *dir, uint32_t segment_bytes, struct journal **out, struct err *e)
{
    return open_dir(dir, segment_bytes, false, out, e);
}

int journal_open_copy(const char *dir, struct journal **out, struct err *e)
{
    return open_dir(dir, 0, true, out, e);
}

/* The status of a write that failed with this errno. */
static int status_of(int why)
{
    return why == ENOSPC ? SHOAL_E_NO_SPACE : SHOAL_E_IO;
}

/* Drops the segments behind `index`, the last one first, so that a crash in between finds the same
 * gap again. */
static void give_up_behind(struct journal *j, uint32_t index, const char *why)
{
    while (j->count > index + 1) {
        log_warn("journal %s: segment %016" PRIx64 " follows records that %s; it is given up",
                 j->dir, j->segment[j->count - 1].generation, why);
        segment_retire(j, j->count - 1, UINT32_MAX);
    }
}

/* Takes over what the cursor has found in the segments that it has read. */
static void take_read(struct journal *j, const struct journal_cursor *c)
{
    SHOAL_ASSERT(!j->copy && !j->started && c->reads == CURSOR_WHOLE);
    SHOAL_ASSERT(c->files->count == j->count);
    j->stamped = MAX(j->stamped, c->stamped);
    for (uint32_t i = 0; i < j->count && i <= c->file; i++) {
        const struct journal_file *f = &c->files->file[i];
        j->segment[i].first = f->first;
        j->segment[i].last = f->last;
        j->segment[i].bytes = f->bytes;
    }
}

static void take_records(struct journal *j, const struct journal_cursor *c)
{
    j->used = 0;
    j->previous = 0;
    for (uint32_t i = 0; i < j->count && i <= c->file; i++) {
        j->used += j->segment[i].bytes;
        j->previous = j->segment[i].last;
    }
}

void journal_take_end(struct journal *j, const struct journal_cursor *c)
{
    SHOAL_ASSERT(c->ended);
    take_read(j, c);
    take_records(j, c);
    give_up_behind(j, c->file, "a power failure took");
}

/* Replaces the segment's file by one that ends with its last record. */
static int shorten(const struct journal *j, const struct segment *s)
{
    char path[LIMIT_PATH], made[LIMIT_PATH];
    segment_path(j, s->generation, path);
    snprintf(made, sizeof made, "%s/new-until", j->dir);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = file_open(made, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int rc = -1;
    if (from >= 0 && to >= 0)
        rc = file_copy(from, to, s->bytes);
    if (rc == 0)
        rc = file_sync(to);
    if (rc == 0)
        rc = file_rename(made, path);
    int why = errno;
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    errno = why;
    return rc;
}

int journal_take_until(struct journal *j, const struct journal_cursor *c, struct err *e)
{
    SHOAL_ASSERT(c->ended && c->last == c->until && c->file < j->count);
    take_read(j, c);
    struct segment *s = &j->segment[c->file];
    s->first = MIN(MAX(s->first, 1), c->last + 1);
    s->last = c->last;
    s->bytes = c->next;
    take_records(j, c);
    give_up_behind(j, c->file, "the leader does not have");
    s = &j->segment[c->file];
    if (file_sync_folder(j->dir) != 0 || shorten(j, s) != 0 || file_sync_folder(j->dir) != 0)
        return err_set(e, status_of(errno),
                       "cannot give up the records behind %" PRIu64 " in %s: %s", c->until, j->dir,
                       strerror(errno));
    s->linked = false;
    return 0;
}

int cursor_gather(const struct archive *a, const struct journal *j, struct journal_files *out,
                  struct err *e)
{
    uint32_t archived = 0, own = 0;
    if (a != NULL)
        archived = archive_count(a);
    if (j != NULL)
        own = j->count;
    *out = (struct journal_files){.file = calloc(archived + own + 1, sizeof *out->file)};
    if (out->file == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to list the journal");
    for (; out->count < archived; out->count++) {
        struct journal_file *f = &out->file[out->count];
        f->fd = -1;
        archive_path(a, out->count, f->path, &f->generation);
    }
    for (uint32_t i = 0; i < own; i++) {
        struct journal_file *f = &out->file[out->count];
        f->generation = j->segment[i].generation;
        f->bytes = j->segment[i].bytes;
        segment_path(j, f->generation, f->path);
        if (j->next == 0)
            f->fd = -1;
        else
            f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
        if (f->fd < 0 && j->next != 0) {
            err_set(e, SHOAL_E_IO, "cannot open journal segment %s: %s", f->path, strerror(errno));
            cursor_files_free(out);
            return SHOAL_E_IO;
        }
        out->count++;
    }
    SHOAL_ASSERT(out->count == archived + own);
    return 0;
}

/* ---- appending ---- */

/* A free file of the right size without links, renamed to `path`; or a new one, which stays empty
 * if `bare`. Returns its descriptor or -1. */
static int segment_file(struct journal *j, const char *path, bool bare)
{
    SHOAL_ASSERT(!j->copy && j->segment_bytes >= JOURNAL_SEGMENT_MIN);
    while (!bare && free_usable(j) > 0) {
        char from[LIMIT_PATH];
        struct stat st;
        free_path(j, free_take(j), from);
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

static int begin_segment(struct journal *j, bool bare, struct err *e)
{
    char path[LIMIT_PATH];
    SHOAL_ASSERT(j->queued == 0 && j->pieces == 0);
    SHOAL_ASSERT(j->count == 0 ||
                 j->segment[j->count - 1].generation != j->next_generation); /* 1 */
    segment_path(j, j->next_generation, path);
    int fd = segment_file(j, path, bare);
    if (fd < 0)
        return err_set(e, status_of(errno), "cannot make journal segment %s: %s", path,
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

/* Writes all pieces at `at`, in as many calls as the kernel needs. 0 or an errno. */
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

/* Writes a segment's bytes from `at` on again, in place, and syncs all of it. 0 or an errno. */
static int write_again(struct journal *j, const char *path, uint64_t at, uint64_t bytes)
{
    enum { CHUNK = 1 << 20 };
    int fd = open(path, O_RDWR | O_CLOEXEC), why = 0;
    char *chunk = malloc(CHUNK);
    SHOAL_ASSERT(at <= bytes && !j->copy);
    if (fd < 0 || chunk == NULL)
        why = errno;
    while (why == 0 && at < bytes) {
        uint64_t left = bytes - at;
        size_t n = CHUNK;
        if (left < CHUNK)
            n = (size_t)left;
        struct iovec piece = {chunk, n};
        if (pread(fd, chunk, n, (off_t)at) != (ssize_t)n)
            why = EIO;
        else
            why = write_pieces(fd, &piece, 1, at);
        at += n;
    }
    if (why == 0 && file_sync_data(fd) != 0)
        why = errno;
    free(chunk);
    if (fd >= 0)
        close(fd);
    return why;
}

/* Finds the first record of a file that no record reports as synced; its end if there is none. If
 * that is the first record, the head is included. IO, NOMEM. */
static int unstamped_from(const struct journal *j, const struct segment *s, const char *path,
                          uint64_t *at, struct err *e)
{
    struct journal_file file = {.generation = s->generation, .bytes = s->bytes, .fd = -1};
    struct journal_files files = {&file, 1};
    struct journal_cursor c;
    struct journal_record record;
    int rc;
    *at = s->last <= j->stamped ? s->bytes : 0;
    if (s->last <= j->stamped || s->first > j->stamped)
        return 0;
    snprintf(file.path, sizeof file.path, "%s", path);
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_HEADS);
    while ((rc = cursor_next(&c, &record, e)) == 0 && record.head->sequence <= j->stamped)
        ;
    *at = rc == 0 ? c.at : s->bytes;
    cursor_close(&c);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

/* Writes the unstamped records of the first segments again, and syncs these segments and the
 * folder. */
static int write_unstamped(struct journal *j, uint32_t segments, struct err *e)
{
    for (uint32_t i = 0; i < segments; i++) {
        const struct segment *s = &j->segment[i];
        char path[LIMIT_PATH];
        uint64_t at;
        segment_path(j, s->generation, path);
        int rc = unstamped_from(j, s, path, &at, e); /* 6 */
        if (rc != 0)
            return rc;
        int why = write_again(j, path, at, s->bytes);
        if (why != 0)
            return err_set(e, status_of(why), "cannot write and sync journal segment %s: %s", path,
                           strerror(why));
    }
    if (file_sync_folder(j->dir) != 0)
        return err_set(e, SHOAL_E_IO, "cannot sync the folder %s: %s", j->dir, strerror(errno));
    return 0;
}

int journal_save_read(struct journal *j, const struct journal_cursor *c, struct err *e)
{
    SHOAL_ASSERT(!c->ended && c->last > 0);
    if (j->stamped >= c->last)
        return 0;
    take_read(j, c);
    struct segment *s = &j->segment[c->file];
    s->last = c->last;
    s->bytes = c->next;
    int rc = write_unstamped(j, c->file + 1, e);
    if (rc != 0)
        return rc;

    j->stamped = c->last;
    return 0;
}

int journal_start(struct journal *j, uint64_t next, struct err *e)
{
    SHOAL_ASSERT(!j->copy && !j->started && next > 0);
    int rc = write_unstamped(j, j->count, e);
    if (rc != 0)
        return rc;

    j->freed_synced = j->freed;
    j->next = next;
    j->committed = j->synced = next - 1;
    j->dir_dirty = false;
    return 0;
}

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
            rc = begin_segment(j, false, e);
        if (rc != 0)
            return rc;
        j->started = true;
        s = &j->segment[j->count - 1];
    }
    SHOAL_ASSERT(s->fd >= 0 && j->queued < JOURNAL_QUEUE); /* 3 */
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
    SHOAL_ASSERT(j->started && s->bytes >= SEGMENT_HEADER_BYTES); /* 2 */
    SHOAL_ASSERT(j->header[0].sequence == j->committed + 1 &&
                 j->header[j->queued - 1].sequence == j->next - 1);
    int failed = write_pieces(s->fd, j->piece, j->pieces, s->bytes);
    if (failed != 0) {
        char path[LIMIT_PATH];
        segment_path(j, s->generation, path);
        return err_set(e, status_of(failed),
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
    rc = begin_segment(j, false, e);
    j->started |= rc == 0;
    SHOAL_ASSERT(rc != 0 || j->segment[j->count - 1].first == j->next);
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
    j->dir_dirty = true;
}

/* True when a segment with records up to `sequence` awaits a sync. */
static bool dirty_up_to(const struct journal *j, uint64_t sequence)
{
    for (uint32_t i = 0; i < j->count; i++)
        if (j->segment[i].dirty && j->segment[i].first <= sequence)
            return true;
    return false;
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
        rc = begin_segment(j, true, e);
        j->started |= rc == 0;
    }
    while (rc == 0 && journal_sync_begin(j, &s)) {
        journal_sync_run(&s);
        rc = journal_sync_end(j, &s, e);
    }
    if (rc == 0 && dirty_up_to(j, UINT64_MAX)) /* 8 */
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

/* ---- on another thread: syncs, spare segments ---- */

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
    SHOAL_ASSERT(!dirty_up_to(j, s->sequence)); /* 4 */
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
            sync_add(s, file_open(path, O_RDONLY, 0)); /* 6 */
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
    SHOAL_ASSERT(s->sequence <= j->committed); /* 4 */
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

bool journal_spare_begin(struct journal *j, struct journal_spare *s)
{
    SHOAL_ASSERT(!j->copy);
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
    if (sscanf(strrchr(s->name, '/'), "/free-%8x", &number) != 1 || free_add(j, number) != 0)
        file_unlink(s->name);
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
