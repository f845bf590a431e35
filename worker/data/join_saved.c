/* join_saved.c: checkpoints of a join.
 *
 * 1. A folder has its name only when all in it is whole and synced.
 *    [test: join_goes_on_from_any_checkpoint] */
#include "worker/data/join_saved.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SHOALJN1"
#define PATH_BYTES (LIMIT_PATH + 64)

struct join_saved_head {
    char magic[8];
    uint64_t identity, text, bytes;
    uint64_t first, end, closing, next, now;
    uint64_t waiting, stored; /* rows of the sort, in memory and on disk */
    uint64_t files, rows, most;
    struct join_counts counts;
    uint64_t sum_rest; /* of what follows */
    uint64_t sum;      /* of what stands above */
};

struct part {
    void *at;
    size_t bytes;
};
#define PARTS 4u

/* What follows the head: files, the ring in the order of numbers, rows that wait. */
static void parts_of(const struct join_state *s, uint64_t ring, uint64_t waiting,
                     struct part part[PARTS])
{
    struct join *j = s->join;
    uint64_t most = j->rules.most, from = j->past.end % most;
    uint64_t first = ring < most - from ? ring : most - from;
    part[0] = (struct part){s->input->file, s->input->files * sizeof *s->input->file};
    part[1] = (struct part){j->ring + from, first * sizeof *j->ring};
    part[2] = (struct part){j->ring, (ring - first) * sizeof *j->ring};
    part[3] = (struct part){s->sort->row, waiting * sizeof *s->sort->row};
}

static uint64_t parts_sum(const struct part part[PARTS])
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < PARTS; i++)
        sum = hash_bytes(part[i].at, part[i].bytes, sum);
    return sum;
}

static int failed(const char *path, struct err *e)
{
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return err_set(e, full ? SHOAL_E_CANTCREATE : SHOAL_E_IO,
                   "%s: %s; free some space or set data.cache to a larger disk", path,
                   strerror(errno));
}

static struct join_saved_head head_of(const struct join_state *s)
{
    const struct join *j = s->join;
    struct join_saved_head h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, MAGIC, sizeof h.magic);
    h.identity = s->identity;
    h.text = s->text;
    h.bytes = s->input->bytes;
    h.first = j->past.first;
    h.end = j->past.end;
    h.closing = j->closing;
    h.next = j->next;
    h.now = j->now;
    h.waiting = s->sort->count;
    h.stored = s->sort->stored;
    h.files = s->input->files;
    h.rows = s->store->store != NULL;
    h.most = j->rules.most;
    h.counts = *s->counts;
    return h;
}

static int state_write(const struct join_state *s, const char *path, struct err *e)
{
    struct join_saved_head h = head_of(s);
    struct part part[PARTS];
    parts_of(s, h.next - h.end, h.waiting, part);
    h.sum_rest = parts_sum(part);
    h.sum = hash_bytes(&h, offsetof(struct join_saved_head, sum), 0);
    int fd = file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int rc = fd < 0 || file_write_all(fd, &h, sizeof h) != 0 ? failed(path, e) : 0;
    for (uint32_t i = 0; i < PARTS && rc == 0; i++)
        rc = part[i].bytes > 0 && file_write_all(fd, part[i].at, part[i].bytes) != 0
                 ? failed(path, e)
                 : 0;
    if (rc == 0 && file_sync_data(fd) != 0)
        rc = failed(path, e);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* The number of a checkpoint's folder; 0: it is none. */
static uint64_t number_of(const char *name)
{
    static const char saved[] = "saved-";
    bool is = strncmp(name, saved, sizeof saved - 1) == 0;
    return is ? strtoull(name + sizeof saved - 1, NULL, 10) : 0;
}

/* Removes all but number `keep`; the newest in *newest. */
static void others_remove(const char *dir, uint64_t keep, uint64_t *newest)
{
    struct file_walk w;
    const char *name;
    *newest = 0;
    if (!file_walk_open(&w, dir))
        return;
    while ((name = file_walk_next(&w)) != NULL) {
        char path[PATH_BYTES + 256];
        uint64_t number = number_of(name);
        *newest = number > *newest ? number : *newest;
        (void)snprintf(path, sizeof path, "%s/%s", dir, name);
        if (keep != 0 && number != 0 && number != keep)
            file_remove_tree(path);
    }
    file_walk_close(&w);
}

int join_saved_write(struct join_state *s, const char *dir, struct err *e)
{
    char saving[PATH_BYTES], path[PATH_BYTES + 16];
    uint64_t newest;
    (void)snprintf(saving, sizeof saving, "%s/saving", dir);
    if (file_remove_tree(saving) != 0 || file_mkdir(saving, 0700) != 0)
        return failed(saving, e);
    (void)snprintf(path, sizeof path, "%s/rows", saving);
    int rc = join_store_copy(s->store, path, e);
    (void)snprintf(path, sizeof path, "%s/state", saving);
    if (rc == 0)
        rc = state_write(s, path, e);
    if (rc == 0 && file_sync_folder(saving) != 0)
        rc = failed(saving, e);
    (void)snprintf(path, sizeof path, "%s/saved-%" PRIu64, dir, s->number + 1);
    if (rc == 0 && (file_rename(saving, path) != 0 || file_sync_folder(dir) != 0))
        rc = failed(path, e);
    if (rc != 0)
        return rc;
    s->number++;
    others_remove(dir, s->number, &newest);
    SHOAL_ASSERT(newest == 0 || newest >= s->number);
    return 0;
}

/* ---- going on -------------------------------------------------------------------------------- */

static int all_read(int fd, const char *path, void *to, size_t bytes, struct err *e)
{
    for (size_t have = 0; have < bytes;) {
        ssize_t n = read(fd, (char *)to + have, bytes - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(e, n < 0 ? SHOAL_E_IO : SHOAL_E_CORRUPT, "%s: %s", path,
                           n < 0 ? strerror(errno) : "it is cut short");
        have += (size_t)n;
    }
    return 0;
}

static bool head_fits(const struct join_state *s, const struct join_saved_head *h)
{
    return memcmp(h->magic, MAGIC, sizeof h->magic) == 0 &&
           h->sum == hash_bytes(h, offsetof(struct join_saved_head, sum), 0) &&
           h->identity == s->identity && h->files == s->input->files &&
           h->most == s->join->rules.most && h->waiting <= s->sort->most &&
           h->next - h->end <= h->most;
}

static int state_read(struct join_state *s, int fd, const char *path, bool *rows, struct err *e)
{
    struct join *j = s->join;
    struct join_saved_head h;
    struct part part[PARTS];
    int rc = all_read(fd, path, &h, sizeof h, e);
    if (rc != 0)
        return rc;
    if (!head_fits(s, &h))
        return SHOAL_E_NOT_FOUND;
    j->past.first = h.first;
    j->past.end = h.end;
    j->closing = h.closing;
    j->next = h.next;
    j->now = h.now;
    parts_of(s, h.next - h.end, h.waiting, part);
    for (uint32_t i = 0; i < PARTS && rc == 0; i++)
        rc = all_read(fd, path, part[i].at, part[i].bytes, e);
    if (rc == 0 && (parts_sum(part) != h.sum_rest || !join_again(j)))
        rc = err_set(e, SHOAL_E_CORRUPT, "%s: it is damaged", path);
    if (rc != 0)
        return rc;
    s->sort->count = (uint32_t)h.waiting;
    s->sort->stored = h.stored;
    s->input->bytes = h.bytes;
    *s->counts = h.counts;
    s->text = h.text;
    *rows = h.rows != 0;
    join_input_again(s->input);
    return 0;
}

int join_saved_read(struct join_state *s, const char *dir, struct err *e)
{
    char path[PATH_BYTES];
    uint64_t newest;
    bool rows = false;
    others_remove(dir, 0, &newest);
    if (newest == 0)
        return SHOAL_E_NOT_FOUND;
    s->number = newest;
    (void)snprintf(path, sizeof path, "%s/saved-%" PRIu64 "/state", dir, newest);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return SHOAL_E_NOT_FOUND;
    int rc = state_read(s, fd, path, &rows, e);
    close(fd);
    (void)snprintf(path, sizeof path, "%s/saved-%" PRIu64 "/rows", dir, newest);
    return rc == 0 && rows ? join_store_load(s->store, path, join_past_see, &s->join->past, e) : rc;
}
