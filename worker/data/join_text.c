/* join_text.c: writes impressions with their labels as text.
 *
 * 1. The text that a checkpoint counts is synced before the checkpoint is written. [assert:
 * save] */
#include "worker/data/join_text.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"
#include "proto/base/text.h"
#include "worker/data/join_out.h"
#include "worker/data/join_saved.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOIN_VERSION 1u /* part of the text's name */

struct run {
    const struct job *job; /* borrowed, as the next member */
    const struct cache *cache;
    struct join_input input;
    struct join join;
    struct join_counts counts;
    struct join_out out;
    struct join_state state;
    char dir[LIMIT_PATH], text[LIMIT_PATH + 16], saved[LIMIT_PATH + 16];
    int fd;        /* the text's file */
    uint64_t read; /* bytes of input at the last checkpoint */
    bool keeps;    /* the text is made in the folder, with checkpoints; else in a nameless file */
};

/* ---- the run --------------------------------------------------------------------------------- */

static int same(void *context, const struct join_row *impression, const struct join_row *row,
                bool *is, struct err *e)
{
    struct run *r = context;
    return join_input_same(&r->input, impression, row, is, e);
}

static int emit(void *context, const struct join_row *row, bool positive, uint64_t time,
                struct err *e)
{
    struct run *r = context;
    int rc = join_input_text(&r->input, row, 0, e);
    if (rc != 0)
        return rc;
    return join_out_row(&r->out, &r->input.side[0], r->input.cell, positive, time, e);
}

/* Starts at the beginning of the input. */
static int run_begin(struct run *r, bool learn, struct err *e)
{
    uint64_t most = r->job->data.join.memory / JOIN_EACH;
    struct join_rules rules = {.window = r->job->data.join.window,
                               .keep = r->job->data.join.keep,
                               .learn = learn,
                               .most = (uint32_t)MIN(most, JOIN_MOST)};
    struct join_calls calls = {.same = same, .emit = emit, .context = r};
    r->counts = (struct join_counts){0};
    r->out.job = r->job;
    r->out.cache = r->cache;
    r->out.fd = r->fd;
    return join_init(&r->join, &rules, &calls, &r->counts, e);
}

static int text_open(struct run *r, struct err *e)
{
    if (!r->keeps)
        return cache_spool(r->cache, &r->fd, e);
    r->fd = file_open(r->text, O_RDWR | O_CREAT | O_APPEND, 0600);
    if (r->fd >= 0)
        return 0;
    return err_set(e, SHOAL_E_CANTCREATE, "%s: %s; free some space or set data.cache", r->text,
                   strerror(errno));
}

/* Truncates the text to `bytes`. */
static int text_cut(struct run *r, uint64_t bytes, struct err *e)
{
    struct stat st;
    if (fstat(r->fd, &st) != 0 || file_truncate(r->text, bytes) != 0)
        return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", r->text, strerror(errno));
    if ((uint64_t)st.st_size < bytes)
        return err_set(e, SHOAL_E_CORRUPT, "%s: it is cut short", r->text);
    r->out.written = bytes;
    return 0;
}

/* Resumes from the last checkpoint if there is one; after an error the run is undefined. */
static int run_again(struct run *r, struct err *e)
{
    int rc = join_saved_read(&r->state, r->saved, e);
    if (rc == 0)
        rc = text_cut(r, r->state.text, e);
    if (rc != 0)
        return rc;
    r->read = r->input.bytes;
    log_info("%s: a join goes on: %" PRIu64 " impressions, %" PRIu64 " clicks are read", r->dir,
             r->counts.impressions, r->counts.clicks);
    return 0;
}

static int run_anew(struct run *r, bool learn, struct err *e)
{
    join_free(&r->join);
    int rc = run_begin(r, learn, e);
    if (rc == 0 && r->keeps)
        rc = text_cut(r, 0, e);
    if (rc != 0)
        return rc;
    join_input_begin(&r->input);
    return join_out_head(&r->out, &r->input.side[0], e);
}

static int run_start(struct run *r, bool learn, struct err *e)
{
    struct err why = {0};
    int rc = run_begin(r, learn, e);
    if (rc != 0)
        return rc;
    rc = SHOAL_E_NOT_FOUND;
    if (r->keeps)
        rc = run_again(r, &why);
    if (rc == 0)
        return 0;
    if (rc != SHOAL_E_NOT_FOUND)
        log_warn("%s; joining from the start", why.text);
    return run_anew(r, learn, e);
}

static int text_sync(struct run *r, struct err *e)
{
    int rc = join_out_flush(&r->out, e);
    if (rc == 0 && file_sync_data(r->fd) != 0)
        rc = err_set(e, SHOAL_E_IO, "%s: %s; check the disk", r->text, strerror(errno));
    r->state.text = r->out.written;
    return rc;
}

static int save(struct run *r, struct err *e)
{
    int rc = text_sync(r, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(r->out.bytes == 0 && r->state.text == r->out.written); /* 1 */
    r->read = r->input.bytes;
    log_info("data.join: %" PRIu64 " impressions and %" PRIu64 " clicks are read, %" PRIu64
             " rows joined",
             r->counts.impressions, r->counts.clicks, r->counts.positives + r->counts.negatives);
    return join_saved_write(&r->state, r->saved, e);
}

static int run_rows(struct run *r, struct err *e)
{
    struct join_row row;
    int rc;
    while ((rc = join_input_next(&r->input, &row, e)) == 0) {
        rc = join_add(&r->join, &row, e);
        if (rc == 0)
            rc = join_until(&r->join, join_input_mark(&r->input), e);
        if (rc == 0 && r->keeps && r->input.bytes - r->read >= r->job->data.join.checkpoint)
            rc = save(r, e);
        if (rc != 0)
            return rc;
    }
    if (rc != SHOAL_E_END)
        return rc;

    return join_end(&r->join, e);
}

static int kind_check(const struct run *r, const char *what, uint64_t malformed, uint64_t id,
                      uint64_t time, uint64_t order, uint64_t all, struct err *e)
{
    uint64_t bad = malformed + id + time + order;
    if ((double)bad <= r->job->data.max_bad * (double)all)
        return 0;
    return err_set(e, SHOAL_E_DATA,
                   "data.join: of %" PRIu64 " %s %" PRIu64 " are malformed, %" PRIu64
                   " have no id, %" PRIu64 " no time, %" PRIu64
                   " are out of order by more than data.join.disorder: more than "
                   "data.max_bad (%g); the log of the join names the first of them",
                   all, what, malformed, id, time, order, r->job->data.max_bad);
}

static int run_check(const struct run *r, struct err *e)
{
    const struct join_counts *n = &r->counts;
    int rc =
        kind_check(r, "impressions", n->impressions_malformed, n->impressions_without_id,
                   n->impressions_without_time, n->impressions_out_of_order, n->impressions, e);
    if (rc != 0)
        return rc;
    return kind_check(r, "clicks", n->clicks_malformed, n->clicks_without_id,
                      n->clicks_without_time, n->clicks_out_of_order, n->clicks, e);
}

/* Makes the whole text in r->fd. */
static int run_make(struct run *r, const struct source *impressions, const struct source *clicks,
                    bool learn, uint64_t identity, struct err *e)
{
    r->state = (struct join_state){&r->input, &r->join, identity, 0};
    int rc = join_input_open(&r->input, r->job, impressions, clicks, &r->counts, e);
    if (rc != 0)
        return rc;
    rc = text_open(r, e);
    if (rc != 0)
        goto out;
    rc = run_start(r, learn, e);
    if (rc == 0)
        rc = run_rows(r, e);
    if (rc == 0)
        rc = run_check(r, e);
    if (rc == 0)
        rc = text_sync(r, e);
    join_free(&r->join);
out:
    join_input_close(&r->input);
    return rc;
}

/* ---- the kept text
 * ---------------------------------------------------------------------------- */

struct name {
    uint64_t group, identity;
    bool stream;
};

static void name_add(struct name *n, const struct source *s)
{
    n->group = rng_mix(n->group + s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        n->group = rng_mix(n->group ^ s->file[i].group) + 1;
        n->identity = rng_mix(n->identity ^ s->file[i].identity) + 1;
        n->stream |= s->file[i].stream;
    }
}

/* Jobs that join in other ways do not replace each other's text; a new version of the same files
 * does. */
static struct name name_of(const struct job *job, bool learn, const struct source *impressions,
                           const struct source *clicks)
{
    uint64_t rules[] = {JOIN_VERSION,
                        job->data.join.window,
                        job->data.join.keep,
                        job->data.join.disorder,
                        learn,
                        feature_time_hash(&job->data.time_form),
                        format_delimiter_hash(job->data.delimiter),
                        zone_hash(&job->data.zone)};
    const char *const text[] = {job->data.join.id, job->data.join.click_id, job->data.time,
                                job->data.join.click_time, job->data.label[0]};
    struct name n = {.group = hash_bytes(rules, sizeof rules, 0)};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        n.group = hash_bytes(text[i], strlen(text[i]) + 1, n.group);
    name_add(&n, impressions);
    name_add(&n, clicks);
    n.identity = rng_mix(n.identity ^ n.group);
    return n;
}

/* Removes unfinished texts of other versions of the same files. */
static void former_remove(const struct cache *cache, const struct name *n, const char *keep)
{
    struct file_walk w;
    const char *entry;
    char group[24];
    (void)snprintf(group, sizeof group, "%016" PRIx64 "-", n->group);
    if (!file_walk_open(&w, cache->folder))
        return;
    while ((entry = file_walk_next(&w)) != NULL) {
        char path[LIMIT_PATH + 300];
        const char *dot = strrchr(entry, '.');
        (void)snprintf(path, sizeof path, "%s/%s", cache->folder, entry);
        if (dot != NULL && strcmp(dot, ".join") == 0 && strncmp(entry, group, 17) == 0 &&
            strcmp(path, keep) != 0)
            file_remove_tree(path);
    }
    file_walk_close(&w);
}

static int counts_find(const struct cache *cache, const struct name *n, struct join_counts *out)
{
    int fd = cache_find(cache, n->group, n->identity, "counts");
    ssize_t bytes = -1;
    if (fd >= 0)
        bytes = pread(fd, out, sizeof *out, 0);

    if (fd >= 0)
        close(fd);

    if (bytes == (ssize_t)sizeof *out)
        return 0;

    return SHOAL_E_NOT_FOUND;
}

static int counts_keep(const struct cache *cache, const struct name *n,
                       const struct join_counts *counts, struct err *e)
{
    struct cache_file f;
    int rc = cache_create(cache, n->group, n->identity, "counts", &f, e);
    if (rc != 0)
        return rc;
    rc = cache_write(cache, f.fd, counts, sizeof *counts, e);
    if (rc == 0)
        return cache_keep(&f, NULL, e);
    cache_drop(&f);
    return rc;
}

/* Gives the text its name and removes its folder. */
static int text_keep(struct run *r, const struct name *n, struct err *e)
{
    int rc = counts_keep(r->cache, n, &r->counts, e);
    if (rc == 0)
        rc = cache_place(r->cache, n->group, n->identity, "joined", r->text, e);
    if (rc == 0)
        file_remove_tree(r->dir);
    return rc;
}

/* The folder in which the text is made. */
static int dir_name(struct run *r, const struct name *n, struct err *e)
{
    int bytes = snprintf(r->dir, sizeof r->dir, "%s/%016" PRIx64 "-%016" PRIx64 ".join",
                         r->cache->folder, n->group, n->identity);
    (void)snprintf(r->text, sizeof r->text, "%s/text", r->dir);
    (void)snprintf(r->saved, sizeof r->saved, "%s/state", r->dir);
    if (bytes > 0 && (size_t)bytes < sizeof r->dir)
        return 0;
    return err_set(e, SHOAL_E_CONFIG, "data.cache: %s is too long a name", r->cache->folder);
}

static int text_make(struct run *r, const struct name *n, const struct source *impressions,
                     const struct source *clicks, bool learn, struct err *e)
{
    char failed[LIMIT_PATH];
    if (!r->keeps)
        return run_make(r, impressions, clicks, learn, n->identity, e);
    former_remove(r->cache, n, r->dir);
    if (file_make_folders(r->dir, 0700, failed) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: %s; free some space or set data.cache", failed,
                       strerror(errno));
    int rc = run_make(r, impressions, clicks, learn, n->identity, e);
    if (rc != 0)
        return rc;

    return text_keep(r, n, e);
}

/* Makes the text the only file of s. */
static int source_become(struct source *s, struct run *r, const struct name *n, struct err *e)
{
    struct stat st;
    struct source_file *f = calloc(1, sizeof *f);
    char path[LIMIT_PATH + 64];
    (void)snprintf(path, sizeof path, "%s/%016" PRIx64 "-%016" PRIx64 ".joined", r->cache->folder,
                   n->group, n->identity);
    if (f == NULL || fstat(r->fd, &st) != 0 ||
        (f->name = strdup(r->keeps ? path : "the joined input")) == NULL) {
        free(f);
        return err_set(e, SHOAL_E_NOMEM, "%s: it cannot be opened", path);
    }
    f->fd = r->fd;
    f->bytes = (uint64_t)st.st_size;
    f->group = n->group;
    f->identity = n->identity;
    f->stream = !r->keeps;
    source_close(s);
    *s = (struct source){f, 1, f->bytes};
    return 0;
}

static void tell(const struct job *job, const struct join_counts *n)
{
    log_info("data.join: %" PRIu64 " impressions and %" PRIu64 " clicks: %" PRIu64
             " positives, %" PRIu64 " negatives; %" PRIu64 " clicks late (%s), %" PRIu64
             " doubled, %" PRIu64 " unmatched; %" PRIu64 " impressions repeated",
             n->impressions, n->clicks, n->positives, n->negatives, n->late,
             job->data.join.learn ? "learnt" : "counted", n->doubled, n->unmatched, n->repeated);
}

/* Sets r->fd to a text that was made before, or leaves it -1. Another job may have made it, with a
 * higher limit of bad rows. */
static int text_find(struct run *r, const struct name *n, struct err *e)
{
    if (counts_find(r->cache, n, &r->counts) != 0)
        return 0;
    r->fd = cache_find(r->cache, n->group, n->identity, "joined");
    if (r->fd >= 0 && r->keeps)
        file_remove_tree(r->dir); /* a process was killed just before it removed this */

    if (r->fd >= 0)
        return run_check(r, e);

    return 0;
}

/* Sets r->fd to the text, found or made. */
static int text_have(struct run *r, const struct source *impressions, const struct source *clicks,
                     const struct name *n, bool learn, struct err *e)
{
    int lock = -1;
    if (!n->stream)
        lock = cache_lock(r->cache, n->group, n->group, "join");
    r->keeps = lock >= 0;
    int rc = dir_name(r, n, e);
    if (rc == 0 && !n->stream)
        rc = text_find(r, n, e);
    if (rc == 0 && r->fd < 0)
        rc = text_make(r, n, impressions, clicks, learn, e);
    if (lock >= 0)
        close(lock);
    return rc;
}

int join_text_labelled(const struct job *job, const struct source *s, bool *out, struct err *e)
{
    struct features f = {.format = format_of(DATA_CSV)};
    const char *label = job->data.label[0];
    struct lines lines;
    struct line line;
    char reason[REASON_BYTES];
    uint32_t columns = 0;
    struct cell *cell = malloc(CELLS_MAX * sizeof *cell);
    *out = false;
    text_copy(f.delimiter, sizeof f.delimiter, job->data.delimiter);
    int rc;
    if (cell == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the cells of a line");
    else
        rc = lines_init(&lines, e);
    if (rc == 0) {
        lines_start(&lines, s, ROW_FORM_LINES, 0, s->bytes, 0);
        rc = lines_next(&lines, &line, e);
        if (rc == 0 && f.format->head(&f, line.text, line.bytes, cell, &columns, reason) != 0)
            columns = 0; /* the file's reader reports the error */
        for (uint32_t i = 0; i < columns; i++)
            *out |=
                cell[i].bytes == strlen(label) && memcmp(cell[i].text, label, cell[i].bytes) == 0;
        lines_free(&lines);
    }
    free(cell);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

int join_text_head(const struct job *job, char **line, size_t *bytes, struct err *e)
{
    char *more = realloc(*line, *bytes + 2 * LIMIT_NAME + 1);
    if (more == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a header; free some");
    char *end = join_out_label(job, more + *bytes);
    *end = '\0';
    *line = more;
    *bytes = (size_t)(end - more);
    return 0;
}

int join_text(const struct job *job, bool learn, const struct cache *cache, struct source *s,
              struct join_counts *counts, struct err *e)
{
    struct run *r = calloc(1, sizeof *r);
    struct source clicks;
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a join; free some");
    r->job = job;
    r->cache = cache;
    r->fd = -1;
    int rc = source_open(&job->data.join.clicks, "data.join.clicks", cache, &clicks, e);
    if (rc != 0)
        goto out;

    struct name n = name_of(job, learn, s, &clicks);
    rc = text_have(r, s, &clicks, &n, learn, e);
    if (rc == 0)
        rc = source_become(s, r, &n, e);
    if (rc == 0) {
        *counts = r->counts;
        tell(job, counts);
    } else if (r->fd >= 0) {
        close(r->fd);
    }
    source_close(&clicks);
out:
    free(r);
    return rc;
}

struct json *join_text_json(const struct join_counts *n)
{
    struct json *j = json_new_object();
#define X(name, words) json_set_int(j, #name, (int64_t)n->name);
    if (j != NULL)
        JOIN_COUNTS(X)
#undef X
    return j;
}

void join_text_judge(const struct join_counts *n, char *out, size_t bytes)
{
    out[0] = '\0';
    if (n->unmatched > n->clicks / 10)
        (void)snprintf(out, bytes,
                       "data.join: of %" PRIu64 " clicks %" PRIu64 " have no impression: look at "
                       "data.join.id, and whether all impressions are there",
                       n->clicks, n->unmatched);
    else if (n->late > n->clicks / 10)
        (void)snprintf(out, bytes,
                       "data.join: of %" PRIu64 " clicks %" PRIu64 " came after the window: raise "
                       "data.join.window",
                       n->clicks, n->late);
}
