/* join_text.c: impressions with their labels, as text.
 *
 * 1. What a checkpoint counts of the text is synced before it. [assert: save] */
#include "worker/data/join_text.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "worker/data/join_saved.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUT_BYTES (256u << 10)
#define ROWS_LEAST 64u
#define STORE_LEAST (4u << 20) /* it takes as much in any case */
#define JOIN_VERSION 1u        /* of the text and its counts */

struct run {
    const struct job *job; /* borrowed, as the next */
    const struct cache *cache;
    struct join_input input;
    struct join_store store;
    struct join_sort sort;
    struct join join;
    struct join_counts counts;
    struct join_state state;
    char dir[LIMIT_PATH];
    int fd;    /* of the text */
    char *out; /* owned: (OUT_BYTES) */
    size_t out_bytes;
    uint64_t written, synced; /* bytes of text */
    uint64_t saved;           /* bytes of input at the last checkpoint */
    bool keeps;               /* makes checkpoints */
};

/* ---- the text -------------------------------------------------------------------------------- */

static int out_flush(struct run *r, struct err *e)
{
    int rc = cache_write(r->cache, r->fd, r->out, r->out_bytes, e);
    r->written += r->out_bytes;
    r->out_bytes = 0;
    return rc;
}

static int out_add(struct run *r, const char *text, size_t bytes, struct err *e)
{
    int rc = 0;
    while (bytes > 0 && rc == 0) {
        size_t n = OUT_BYTES - r->out_bytes < bytes ? OUT_BYTES - r->out_bytes : bytes;
        memcpy(r->out + r->out_bytes, text, n);
        r->out_bytes += n;
        text += n;
        bytes -= n;
        if (r->out_bytes == OUT_BYTES)
            rc = out_flush(r, e);
    }
    return rc;
}

static bool needs_quotes(const char *text, size_t bytes, char delimiter)
{
    return memchr(text, delimiter, bytes) != NULL || memchr(text, '"', bytes) != NULL;
}

/* A cell, in quotes where it needs them. */
static int out_cell(struct run *r, const struct cell *c, struct err *e)
{
    const char *p = c->text, *end = p + c->bytes;
    if (c->bytes == 0 || !needs_quotes(p, c->bytes, r->job->data.delimiter))
        return out_add(r, p, c->bytes, e);
    int rc = out_add(r, "\"", 1, e);
    while (rc == 0 && p < end) {
        const char *quote = memchr(p, '"', (size_t)(end - p));
        const char *stop = quote != NULL ? quote + 1 : end;
        rc = out_add(r, p, (size_t)(stop - p), e);
        if (rc == 0 && quote != NULL)
            rc = out_add(r, "\"", 1, e);
        p = stop;
    }
    return rc == 0 ? out_add(r, "\"", 1, e) : rc;
}

/* As a number, whatever the impressions' times look like: data.time takes both. */
static int out_time(struct run *r, uint64_t time, struct err *e)
{
    static const uint32_t units[] = {
        [TIME_SECONDS] = 1, [TIME_MILLISECONDS] = 1000, [TIME_MICROSECONDS] = 1000000};
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRIu64, time * units[r->job->data.time_form.unit]);
    return out_add(r, text, (size_t)n, e);
}

static int emit(void *context, const struct join_row *row, bool positive, uint64_t time,
                struct err *e)
{
    struct run *r = context;
    const struct join_side *s = &r->input.side[0];
    const char tail[] = {r->job->data.delimiter, positive ? '1' : '0', '\n'};
    int rc = join_input_text(&r->input, row, 0, e);
    for (uint32_t i = 0; i < s->features.columns && rc == 0; i++) {
        if (i > 0)
            rc = out_add(r, tail, 1, e);
        if (rc == 0)
            rc = i == s->time ? out_time(r, time, e) : out_cell(r, &r->input.cell[i], e);
    }
    return rc == 0 ? out_add(r, tail, sizeof tail, e) : rc;
}

static int same(void *context, const struct join_row *impression, const struct join_row *row,
                bool *is, struct err *e)
{
    struct run *r = context;
    return join_input_same(&r->input, impression, row, is, e);
}

int join_text_head(const struct job *job, char **line, size_t *bytes, struct err *e)
{
    const char *label = job->data.label[0];
    char *more = realloc(*line, *bytes + 2 * strlen(label) + 4), *to;
    bool quotes = needs_quotes(label, strlen(label), job->data.delimiter);
    if (more == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a header; free some");
    *line = more;
    to = more + *bytes;
    *to++ = job->data.delimiter;
    if (quotes)
        *to++ = '"';
    for (; *label != '\0'; label++) {
        *to++ = *label;
        if (*label == '"')
            *to++ = '"';
    }
    if (quotes)
        *to++ = '"';
    *to = '\0';
    *bytes = (size_t)(to - more);
    return 0;
}

static int head_put(struct run *r, struct err *e)
{
    const struct join_side *s = &r->input.side[0];
    size_t bytes = s->head_bytes;
    char *head = malloc(bytes + 1);
    if (head == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a header; free some");
    memcpy(head, s->head, bytes);
    int rc = join_text_head(r->job, &head, &bytes, e);
    if (rc == 0)
        rc = out_add(r, head, bytes, e);
    free(head);
    return rc == 0 ? out_add(r, "\n", 1, e) : rc;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void run_free(struct run *r)
{
    join_free(&r->join);
    join_sort_free(&r->sort);
    join_store_close(&r->store);
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

/* Everything is empty: of the memory three eighths are for impressions, a quarter for rows that
 * wait (half of it for sorting them), a quarter for the store, the rest for its filter. */
static int run_begin(struct run *r, bool learn, uint64_t identity, struct err *e)
{
    uint64_t memory = r->job->data.join.memory, most = memory * 3 / 8 / JOIN_EACH,
             waiting = memory / 8 / sizeof(struct join_row);
    struct join_rules rules = {.window = r->job->data.join.window,
                               .keep = r->job->data.join.keep,
                               .learn = learn,
                               .most = (uint32_t)(most < 1u << 30 ? most : 1u << 30),
                               .filter_bytes = memory / 8};
    struct join_calls calls = {.same = same, .emit = emit, .context = r};
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%.*s/rows", (int)sizeof path - 8, r->dir);
    rules.most = rules.most < ROWS_LEAST ? ROWS_LEAST : rules.most;
    r->counts = (struct join_counts){0};
    r->state = (struct join_state){&r->input,  &r->sort, &r->join, &r->store,
                                   &r->counts, identity, 0,        r->state.number};
    r->out_bytes = r->written = r->synced = r->saved = 0;
    join_store_init(&r->store, path, memory / 4 > STORE_LEAST ? memory / 4 : STORE_LEAST);
    int rc = join_init(&r->join, &rules, &calls, &r->store, &r->counts, e);
    waiting = waiting < ROWS_LEAST ? ROWS_LEAST : waiting < 1u << 30 ? waiting : 1u << 30;
    return rc == 0 ? join_sort_init(&r->sort, &r->store, (uint32_t)waiting, e) : rc;
}

static int text_open(struct run *r, uint64_t bytes, struct err *e)
{
    char path[LIMIT_PATH + 16];
    struct stat st;
    if (!r->keeps)
        return cache_spool(r->cache, &r->fd, e);
    (void)snprintf(path, sizeof path, "%s/text", r->dir);
    r->fd = file_open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    if (r->fd < 0 || fstat(r->fd, &st) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: %s; free some space or set data.cache", path,
                       strerror(errno));
    if ((uint64_t)st.st_size < bytes)
        return SHOAL_E_NOT_FOUND;
    return (uint64_t)st.st_size == bytes || file_truncate(path, bytes) == 0
               ? 0
               : err_set(e, SHOAL_E_IO, "%s: %s; check the disk", path, strerror(errno));
}

/* From the last checkpoint; NOT_FOUND: there is none to go on from. */
static int run_again(struct run *r, struct err *e)
{
    struct err why = {0};
    int rc = join_saved_read(&r->state, r->dir, &why);
    if (rc == 0)
        rc = text_open(r, r->state.text, &why);
    if (rc != 0 && rc != SHOAL_E_NOMEM && rc != SHOAL_E_NOT_FOUND) {
        log_warn("%s: %s; joining from the start", r->dir, why.text);
        return SHOAL_E_NOT_FOUND;
    }
    if (rc == SHOAL_E_NOMEM && e != NULL)
        *e = why;
    if (rc != 0)
        return rc;
    r->written = r->synced = r->state.text;
    r->saved = r->input.bytes;
    log_info("%s: a join goes on: %" PRIu64 " impressions, %" PRIu64 " clicks are read", r->dir,
             r->counts.impressions, r->counts.clicks);
    return 0;
}

static int run_anew(struct run *r, bool learn, struct err *e)
{
    uint64_t identity = r->state.identity;
    run_free(r);
    int rc = run_begin(r, learn, identity, e);
    if (rc == 0)
        rc = text_open(r, 0, e);
    if (rc == 0)
        rc = join_input_begin(&r->input, e);
    return rc == 0 ? head_put(r, e) : rc;
}

static int text_sync(struct run *r, struct err *e)
{
    int rc = out_flush(r, e);
    if (rc == 0 && file_sync_data(r->fd) != 0)
        rc = err_set(e, SHOAL_E_IO, "%s/text: %s; check the disk", r->dir, strerror(errno));
    r->synced = r->written;
    return rc;
}

static int save(struct run *r, struct err *e)
{
    int rc = text_sync(r, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(r->out_bytes == 0 && r->synced == r->written); /* 1 */
    r->state.text = r->synced;
    r->saved = r->input.bytes;
    log_info("data.join: %" PRIu64 " impressions and %" PRIu64 " clicks are read, %" PRIu64
             " rows joined",
             r->counts.impressions, r->counts.clicks, r->counts.positives + r->counts.negatives);
    return join_saved_write(&r->state, r->dir, e);
}

static int row_visit(void *context, const struct join_row *row, struct err *e)
{
    return join_row(context, row, e);
}

/* A checkpoint is due between two rows, when so much was read. */
static int run_rows(struct run *r, struct err *e)
{
    struct join_row row;
    int rc = 0;
    while (rc == 0) {
        while (r->sort.count < r->sort.most && rc == 0 &&
               r->input.bytes - r->saved < r->job->data.join.checkpoint) {
            rc = join_input_next(&r->input, &row, e);
            if (rc == 0)
                join_sort_add(&r->sort, &row);
        }
        if (rc != 0 && rc != SHOAL_E_END)
            return rc;
        uint64_t mark = join_input_mark(&r->input);
        int taken = join_sort_take(&r->sort, mark, row_visit, &r->join, e);
        if (taken == 0 && mark != UINT64_MAX)
            taken = join_close(&r->join, mark, e);
        rc = taken != 0 ? taken : rc;
        if (rc == 0 && r->input.bytes - r->saved >= r->job->data.join.checkpoint) {
            rc = r->keeps ? save(r, e) : 0;
            r->saved = r->input.bytes;
        }
    }
    return rc == SHOAL_E_END ? join_end(&r->join, e) : rc;
}

static int kind_check(const struct run *r, const char *what, uint64_t malformed, uint64_t id,
                      uint64_t time, uint64_t order, uint64_t all, struct err *e)
{
    uint64_t bad = malformed + id + time + order;
    return (double)bad <= r->job->data.max_bad * (double)all
               ? 0
               : err_set(e, SHOAL_E_DATA,
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
    return rc == 0 ? kind_check(r, "clicks", n->clicks_malformed, n->clicks_without_id,
                                n->clicks_without_time, n->clicks_out_of_order, n->clicks, e)
                   : rc;
}

/* r->fd: the text, whole. */
static int run_make(struct run *r, const struct source *impressions, const struct source *clicks,
                    bool learn, uint64_t identity, struct err *e)
{
    r->out = malloc(OUT_BYTES);
    r->state.identity = identity;
    int rc = r->out == NULL ? err_set(e, SHOAL_E_NOMEM, "no memory for a join; free some") : 0;
    if (rc == 0)
        rc = join_input_open(&r->input, r->job, impressions, clicks, &r->counts, e);
    if (rc == 0) {
        rc = run_begin(r, learn, identity, e);
        if (rc == 0)
            rc = r->keeps ? run_again(r, e) : SHOAL_E_NOT_FOUND;
        if (rc == SHOAL_E_NOT_FOUND)
            rc = run_anew(r, learn, e);
        if (rc == 0)
            rc = run_rows(r, e);
        if (rc == 0)
            rc = run_check(r, e);
        if (rc == 0)
            rc = text_sync(r, e);
        join_input_close(&r->input);
    }
    join_free(&r->join);
    join_sort_free(&r->sort);
    join_store_close(&r->store);
    free(r->out);
    return rc;
}

/* ---- where it is kept ------------------------------------------------------------------------ */

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

/* Jobs that join otherwise do not drive out each other's text; the same files with more in them
 * do. */
static struct name name_of(const struct job *job, bool learn, const struct source *impressions,
                           const struct source *clicks)
{
    uint64_t rules[] = {JOIN_VERSION,
                        job->data.join.window,
                        job->data.join.keep,
                        job->data.join.disorder,
                        learn,
                        feature_time_hash(&job->data.time_form),
                        (unsigned char)job->data.delimiter,
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

/* Half made ones of the same files as they were. */
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
    ssize_t bytes = fd >= 0 ? pread(fd, out, sizeof *out, 0) : -1;
    if (fd >= 0)
        close(fd);
    return bytes == (ssize_t)sizeof *out ? 0 : SHOAL_E_NOT_FOUND;
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

/* The text has its name; what made it goes. */
static int text_keep(struct run *r, const struct name *n, struct err *e)
{
    char path[LIMIT_PATH + 16];
    int rc = counts_keep(r->cache, n, &r->counts, e);
    (void)snprintf(path, sizeof path, "%s/text", r->dir);
    if (rc == 0)
        rc = cache_place(r->cache, n->group, n->identity, "joined", path, e);
    if (rc == 0)
        file_remove_tree(r->dir);
    return rc;
}

/* Where it is made: a process that keeps nothing has a place of its own. */
static int dir_name(struct run *r, const struct name *n, struct err *e)
{
    char own[24] = "";
    if (!r->keeps)
        (void)snprintf(own, sizeof own, "-%ld", (long)getpid());
    int bytes = snprintf(r->dir, sizeof r->dir, "%s/%016" PRIx64 "-%016" PRIx64 "%s.join%s",
                         r->cache->folder, n->group, n->identity, own, r->keeps ? "" : "-stream");
    return bytes > 0 && (size_t)bytes < sizeof r->dir - 40
               ? 0
               : err_set(e, SHOAL_E_CONFIG, "data.cache: %s is too long a name", r->cache->folder);
}

static int text_make(struct run *r, const struct name *n, const struct source *impressions,
                     const struct source *clicks, bool learn, struct err *e)
{
    char failed[LIMIT_PATH];
    if (r->keeps)
        former_remove(r->cache, n, r->dir);
    if (r->keeps && file_make_folders(r->dir, 0700, failed) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: %s; free some space or set data.cache", failed,
                       strerror(errno));
    int rc = run_make(r, impressions, clicks, learn, n->identity, e);
    if (rc == 0 && r->keeps)
        rc = text_keep(r, n, e);
    if (!r->keeps)
        file_remove_tree(r->dir);
    return rc;
}

/* The one file of s is the text, from now on. */
static int source_become(struct source *s, const struct cache *cache, const struct name *n, int fd,
                         bool stream, struct err *e)
{
    struct stat st;
    struct source_file *f = calloc(1, sizeof *f);
    char path[LIMIT_PATH + 64];
    (void)snprintf(path, sizeof path, "%s/%016" PRIx64 "-%016" PRIx64 ".joined", cache->folder,
                   n->group, n->identity);
    if (f == NULL || fstat(fd, &st) != 0 ||
        (f->name = strdup(stream ? "the joined input" : path)) == NULL) {
        free(f);
        close(fd);
        return err_set(e, SHOAL_E_NOMEM, "%s: it cannot be opened", path);
    }
    f->fd = fd;
    f->bytes = (uint64_t)st.st_size;
    f->group = n->group;
    f->identity = n->identity;
    f->stream = stream;
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

static int joined(struct run *r, const struct source *impressions, const struct source *clicks,
                  const struct name *n, bool learn, int *fd, struct err *e)
{
    int lock = n->stream ? -1 : cache_lock(r->cache, n->group, n->group, "join");
    r->keeps = lock >= 0;
    int rc = dir_name(r, n, e);
    *fd = n->stream || counts_find(r->cache, n, &r->counts) != 0
              ? -1
              : cache_find(r->cache, n->group, n->identity, "joined");
    bool found = rc == 0 && *fd >= 0;
    if (found && r->keeps)
        file_remove_tree(r->dir); /* it was killed as all was done */
    if (found)
        rc = run_check(r, e); /* who made it may allow more */
    if (found && rc != 0)
        close(*fd);
    if (rc == 0 && !found) {
        rc = text_make(r, n, impressions, clicks, learn, e);
        *fd = rc == 0 ? r->fd : -1;
        if (rc != 0 && r->fd >= 0)
            close(r->fd);
    }
    if (lock >= 0)
        close(lock);
    return rc;
}

int join_text_labelled(const struct job *job, const struct source *s, bool *out, struct err *e)
{
    const struct features f = {.format = format_of(DATA_CSV), .delimiter = job->data.delimiter};
    const char *label = job->data.label[0];
    struct lines lines;
    struct line line;
    char reason[REASON_BYTES];
    uint32_t columns = 0;
    struct cell *cell = malloc(CELLS_MAX * sizeof *cell);
    *out = false;
    int rc = cell == NULL ? err_set(e, SHOAL_E_NOMEM, "no memory for the cells of a line")
                          : lines_init(&lines, e);
    if (rc == 0) {
        lines_start(&lines, s, false, 0, s->bytes, 0);
        rc = lines_next(&lines, &line, e);
        if (rc == 0 && f.format->head(&f, line.text, line.bytes, cell, &columns, reason) != 0)
            columns = 0; /* who reads the file will say so */
        for (uint32_t i = 0; i < columns; i++)
            *out |=
                cell[i].bytes == strlen(label) && memcmp(cell[i].text, label, cell[i].bytes) == 0;
        lines_free(&lines);
    }
    free(cell);
    return rc == SHOAL_E_END ? 0 : rc;
}

int join_text(const struct job *job, bool learn, const struct cache *cache, struct source *s,
              struct join_counts *counts, struct err *e)
{
    struct run *r = calloc(1, sizeof *r);
    struct source clicks;
    int fd;
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a join; free some");
    r->job = job;
    r->cache = cache;
    r->fd = -1;
    int rc = source_open(&job->data.join.clicks, "data.join.clicks", cache, &clicks, e);
    if (rc == 0) {
        struct name n = name_of(job, learn, s, &clicks);
        rc = joined(r, s, &clicks, &n, learn, &fd, e);
        if (rc == 0)
            rc = source_become(s, cache, &n, fd, !r->keeps, e);
        source_close(&clicks);
    }
    if (rc == 0) {
        *counts = r->counts;
        tell(job, counts);
    }
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
