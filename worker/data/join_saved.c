/* join_saved.c: a checkpoint of a join.
 *
 * 1. A file gets its name only when its contents are whole and synced.
 *    [test: join_goes_on_from_any_checkpoint] */
#include "worker/data/join_saved.h"

#include "proto/base/file.h"
#include "proto/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "SHOALJN2"

struct join_saved_head {
    char magic[8];
    uint64_t identity, text, bytes;
    uint64_t first, closing, next, now;
    uint64_t waiting, files;
    struct join_counts counts;
    uint64_t sum_rest; /* hash of all after the head */
    uint64_t sum;      /* hash of the head above */
};

struct part {
    void *at;
    size_t bytes, each;
};
#define PARTS 4u

/* The parts of the file after its head: files, the ring in the order of numbers, waiting rows. */
static void parts_of(const struct join_state *s, struct part part[PARTS])
{
    const struct join *j = s->join;
    uint64_t from = j->first % j->rules.most, known = j->next - j->first;
    uint64_t ahead;
    if (known < j->rules.most - from)
        ahead = known;
    else
        ahead = j->rules.most - from;

    const size_t file = sizeof *s->input->file, row = sizeof *j->ring;
    part[0] = (struct part){s->input->file, s->input->files * file, file};
    part[1] = (struct part){j->ring + from, ahead * row, row};
    part[2] = (struct part){j->ring, (known - ahead) * row, row};
    part[3] = (struct part){j->wait, j->waiting * row, row};
}

/* Sums row by row, so that the position at which the ring wraps does not matter. */
static uint64_t parts_sum(const struct part part[PARTS])
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < PARTS; i++)
        for (size_t at = 0; at < part[i].bytes; at += part[i].each)
            sum = hash_bytes((const char *)part[i].at + at, part[i].each, sum);
    return sum;
}

static int parts_write(int fd, const struct join_saved_head *h, const struct part part[PARTS])
{
    int rc = file_write_all(fd, h, sizeof *h);
    for (uint32_t i = 0; i < PARTS && rc == 0; i++)
        rc = file_write_all(fd, part[i].at, part[i].bytes);
    if (rc != 0)
        return rc;

    return file_sync_data(fd);
}

static int failed(const char *path, struct err *e)
{
    return err_set(e, file_write_status(),
                   "%s: %s; free some space or set data.cache to a larger disk", path,
                   strerror(errno));
}

int join_saved_write(const struct join_state *s, const char *path, struct err *e)
{
    const struct join *j = s->join;
    struct join_saved_head h = {.magic = MAGIC,
                                .identity = s->identity,
                                .text = s->text,
                                .bytes = s->input->bytes,
                                .first = j->first,
                                .closing = j->closing,
                                .next = j->next,
                                .now = j->now,
                                .waiting = j->waiting,
                                .files = s->input->files,
                                .counts = *j->counts};
    char saving[LIMIT_PATH + 32];
    struct part part[PARTS];
    parts_of(s, part);
    h.sum_rest = parts_sum(part);
    h.sum = hash_bytes(&h, offsetof(struct join_saved_head, sum), 0);

    (void)snprintf(saving, sizeof saving, "%s.new", path);
    int fd = file_open(saving, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int rc = 0;
    if (fd < 0 || parts_write(fd, &h, part) != 0 || file_rename(saving, path) != 0 ||
        file_sync_name(path) != 0)
        rc = failed(path, e);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int all_read(int fd, const char *path, void *to, size_t bytes, struct err *e)
{
    for (size_t have = 0; have < bytes;) {
        ssize_t n = read(fd, (char *)to + have, bytes - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, SHOAL_E_IO, "%s: %s", path, strerror(errno));
        if (n == 0)
            return err_set(e, SHOAL_E_CORRUPT, "%s: it is cut short", path);
        have += (size_t)n;
    }
    return 0;
}

static bool head_fits(const struct join_state *s, const struct join_saved_head *h)
{
    return memcmp(h->magic, MAGIC, sizeof h->magic) == 0 &&
           h->sum == hash_bytes(h, offsetof(struct join_saved_head, sum), 0) &&
           h->identity == s->identity && h->files == s->input->files &&
           h->waiting <= s->join->rules.most && h->next - h->first <= s->join->rules.most;
}

static int state_read(struct join_state *s, int fd, const char *path, struct err *e)
{
    struct join *j = s->join;
    struct join_saved_head h;
    struct part part[PARTS];
    int rc = all_read(fd, path, &h, sizeof h, e);
    if (rc != 0)
        return rc;
    if (!head_fits(s, &h))
        return SHOAL_E_NOT_FOUND;
    j->first = h.first;
    j->closing = h.closing;
    j->next = h.next;
    j->now = h.now;
    j->waiting = (uint32_t)h.waiting;
    *j->counts = h.counts;
    s->input->bytes = h.bytes;
    s->text = h.text;

    parts_of(s, part);
    for (uint32_t i = 0; i < PARTS && rc == 0; i++)
        rc = all_read(fd, path, part[i].at, part[i].bytes, e);
    if (rc == 0 && (parts_sum(part) != h.sum_rest || !join_again(j)))
        rc = err_set(e, SHOAL_E_CORRUPT, "%s: it is damaged", path);
    if (rc == 0)
        join_input_again(s->input);
    return rc;
}

int join_saved_read(struct join_state *s, const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return SHOAL_E_NOT_FOUND;
    int rc = state_read(s, fd, path, e);
    close(fd);
    return rc;
}
