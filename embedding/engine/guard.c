/* guard.c: checks and counts values; collects refusals, and writes them as lines on another
 * thread. */
#include "embedding/engine/guard.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/job/gradient.h"
#include "proto/job/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* refused pushes that are remembered, so that a repeated one is not counted twice */
#define RECENT 64u
#define QUEUE (GUARD_QUEUE_BYTES / sizeof(struct refusal))
#define ROW_FLOATS (LIMIT_WIDTH + 2u) /* a gradient with shows and clicks */

/* A refused push, for the quarantine. */
struct refusal {
    uint64_t run, generation, batch, worker, task, key;
    double time; /* seconds since 1970; below 0: unknown */
    struct gradient_fault fault;
    uint32_t lane, rows;
    char table[sizeof((struct table_schema *)0)->name];
};

struct quarantine {
    char path[LIMIT_PATH], older[LIMIT_PATH]; /* path empty: nothing is kept */
    uint64_t file_bytes;
    struct env *env;            /* borrowed */
    struct offload_list *works; /* borrowed */
    struct refusal fact[QUEUE]; /* `facts` that wait to be written */
    uint64_t facts, lost;
    bool busy; /* a batch is in flight */
    bool told; /* a failure of the disk was logged */
};

struct count {
    uint64_t refused, clipped;
};

struct field_count {
    uint32_t table, field;
    struct count of; /* both 0: free */
};

struct worker_count {
    uint64_t worker;
    struct count of; /* refused: pushes */
};

struct name { /* identity of a push */
    uint64_t run, generation, to;
    uint32_t lane, table, tablet_first, tablet_count;
};

struct guard {
    struct quarantine quarantine;
    uint64_t (*wall_ns)(void);
    uint64_t run, pushes;
    struct count rows, other_fields, other_workers;
    struct field_count field[GUARD_FIELDS]; /* open addressing by (table, field) */
    struct worker_count worker[GUARD_WORKERS];
    uint32_t fields, workers;
    struct name recent[RECENT];
    uint32_t recent_next;
};

/* ---- counts ---- */

/* Starts the counts of a newer run. False: the run is older. */
static bool run_turn(struct guard *g, uint64_t run)
{
    if (run > g->run) {
        memset(g->field, 0, sizeof g->field);
        memset(g->worker, 0, sizeof g->worker);
        g->rows = g->other_fields = g->other_workers = (struct count){0};
        g->pushes = 0;
        g->fields = g->workers = 0;
        g->run = run;
    }
    return run == g->run;
}

static struct count *field_of(struct guard *g, uint32_t table, uint32_t field)
{
    uint32_t at = (uint32_t)(key_mix((uint64_t)table << 32 | field) >> 32) % GUARD_FIELDS;
    for (uint32_t i = 0; i < GUARD_FIELDS; i++, at = (at + 1) % GUARD_FIELDS) {
        struct field_count *f = &g->field[at];
        if (f->of.refused == 0 && f->of.clipped == 0) {
            *f = (struct field_count){.table = table, .field = field};
            return &f->of;
        }
        if (f->table == table && f->field == field)
            return &f->of;
    }
    return &g->other_fields;
}

static struct count *worker_of(struct guard *g, uint64_t worker)
{
    SHOAL_ASSERT(g->workers <= GUARD_WORKERS);
    for (uint32_t i = 0; i < g->workers; i++)
        if (g->worker[i].worker == worker)
            return &g->worker[i].of;
    if (g->workers == GUARD_WORKERS)
        return &g->other_workers;
    g->worker[g->workers] = (struct worker_count){.worker = worker};
    return &g->worker[g->workers++].of;
}

static bool seen_before(struct guard *g, const struct push_record *r)
{
    struct name n = {r->run,   r->generation,   r->to,          r->lane,
                     r->table, r->tablet_first, r->tablet_count};
    for (uint32_t i = 0; i < RECENT; i++)
        if (memcmp(&g->recent[i], &n, sizeof n) == 0)
            return true;
    SHOAL_ASSERT(g->recent_next < RECENT);
    g->recent[g->recent_next] = n;
    g->recent_next = (g->recent_next + 1) % RECENT;
    return false;
}

/* The gradient of key k as floats: in place, or opened into `room`. */
static const float *row_open(const struct table_schema *s, const struct push_record *r, uint32_t k,
                             float room[ROW_FLOATS])
{
    const char *at = (const char *)r->gradients + (size_t)k * packed_bytes(s, r->width);
    if (r->width == PACKED_NOT)
        return (const float *)(const void *)at;
    packed_open(s, r->width, at, room, 1);
    return room;
}

/* gradient_fault_find for all rows of a push. */
static bool fault_find(const struct table_schema *s, const struct push_record *r,
                       struct gradient_fault *out)
{
    float room[ROW_FLOATS];
    *out = (struct gradient_fault){.why = GRADIENT_GOOD};
    for (uint32_t k = 0; k < r->key_count; k++) {
        struct gradient_fault f;
        if (!gradient_fault_find(s, row_open(s, r, k, room), 1, &f))
            continue;
        f.key = k;
        f.rows = out->rows + 1;
        if (out->rows == 0)
            *out = f;
        out->rows = f.rows;
    }
    return out->rows > 0;
}

static void count_refused(struct guard *g, const struct table_schema *s,
                          const struct push_record *r)
{
    float room[ROW_FLOATS];
    struct gradient_fault f;
    const uint64_t before = g->rows.refused;
    SHOAL_ASSERT(r->run == g->run); /* the counts are this run's */
    g->pushes++;
    worker_of(g, r->worker)->refused++;
    for (uint32_t k = 0; k < r->key_count; k++)
        if (gradient_fault_find(s, row_open(s, r, k, room), 1, &f)) {
            field_of(g, s->table, key_field(r->keys[k]))->refused++;
            g->rows.refused++;
        }
    SHOAL_ASSERT(g->rows.refused > before); /* a row was the reason */
}

void guard_count_clipped(struct guard *g, const struct table_schema *s, const struct push_record *r)
{
    float room[ROW_FLOATS];
    if (s->rules.norm_max <= 0 || s->rules.norm_refuse != 0)
        return;
    for (uint32_t k = 0; k < r->key_count; k++) {
        if (gradient_norm(row_open(s, r, k, room), s->width) <= (double)s->rules.norm_max ||
            !run_turn(g, r->run))
            continue;
        field_of(g, s->table, key_field(r->keys[k]))->clipped++;
        worker_of(g, r->worker)->clipped++;
        g->rows.clipped++;
    }
}

/* ---- the quarantine ---- */

static void value_text(float x, char out[32])
{
    if (isfinite(x))
        (void)snprintf(out, 32, "%.9g", (double)x);
    else
        text_copy(out, 32, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

/* The line without its end; the caller frees it. NULL: no memory. Any thread. */
static char *refusal_line(const struct refusal *r)
{
    const struct gradient_fault *f = &r->fault;
    struct json *j = json_new_object();
    char value[32];
    if (r->time >= 0)
        json_set_number(j, "time", r->time);
    json_set_int(j, "run", (int64_t)r->run);
    json_set_int(j, "lane", r->lane);
    json_set_int(j, "generation", (int64_t)r->generation);
    json_set_int(j, "batch", (int64_t)r->batch);
    json_set_int(j, "worker", (int64_t)r->worker);
    json_set_int(j, "task", (int64_t)r->task);
    json_set_string(j, "table", r->table);
    json_set_hex(j, "key", r->key);
    json_set_int(j, "field", key_field(r->key));
    json_set_int(j, "place", f->place);
    value_text(f->value, value);
    if (isfinite(f->value))
        json_set_number(j, "value", (double)f->value);
    else
        json_set_string(j, "value", value); /* JSON has no such number */
    json_set_string(j, "why", gradient_why_text(f->why));
    if (f->why == GRADIENT_NORM)
        json_set_number(j, "norm", f->norm);
    json_set_int(j, "bad_rows", f->rows);
    json_set_int(j, "rows", r->rows);
    char *text = json_text(j, 0);
    json_free(j);
    return text;
}

struct batch {
    struct offload work;  /* first */
    struct quarantine *q; /* borrowed; the I/O thread reads only members that never change */
    uint64_t facts;
    int error;
    struct refusal fact[];
};

/* 0 or errno. Writes whole lines or none, unless the disk is full. */
static int lines_write(const struct quarantine *q, const char *text, size_t bytes)
{
    struct stat st;
    if (stat(q->path, &st) == 0 && (uint64_t)st.st_size + bytes > q->file_bytes &&
        file_rename(q->path, q->older) != 0)
        return errno;
    int fd = file_open(q->path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return errno;
    int rc = errno;
    if (file_write_all(fd, text, bytes) == 0)
        rc = 0;
    if (close(fd) != 0 && rc == 0)
        rc = errno;
    return rc;
}

/* 0 or errno. Any thread. */
static int facts_write(const struct quarantine *q, const struct refusal *fact, uint64_t facts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *lines = open_memstream(&text, &bytes);
    bool good = lines != NULL;
    for (uint64_t i = 0; good && i < facts; i++) {
        char *line = refusal_line(&fact[i]);
        good = line != NULL && fprintf(lines, "%s\n", line) > 0;
        free(line);
    }
    if (lines != NULL && fclose(lines) != 0)
        good = false;
    int rc = ENOMEM;
    if (good)
        rc = lines_write(q, text, bytes);

    free(text);
    return rc;
}

static void outcome(struct quarantine *q, uint64_t facts, int error)
{
    SHOAL_ASSERT(facts > 0 && facts <= QUEUE);
    if (error == 0)
        return;
    q->lost += facts;
    if (!q->told)
        log_warn("%s: %s: refused pushes are counted, not kept", q->path, strerror(error));
    q->told = true;
}

static void batch_run(struct offload *w)
{
    struct batch *b = container_of(w, struct batch, work);
    b->error = facts_write(b->q, b->fact, b->facts);
}

static void hand_over(struct quarantine *q);

static void batch_done(struct offload *w)
{
    struct batch *b = container_of(w, struct batch, work);
    struct quarantine *q = b->q;
    SHOAL_ASSERT(q->busy && b->facts > 0 && b->facts <= QUEUE);
    q->busy = false;
    outcome(q, b->facts, w->cancelled ? facts_write(q, b->fact, b->facts) : b->error);
    if (!w->cancelled)
        hand_over(q);
}

static void hand_over(struct quarantine *q)
{
    if (q->busy || q->facts == 0)
        return;
    SHOAL_ASSERT(q->facts <= QUEUE);
    size_t bytes = q->facts * sizeof *q->fact;
    struct batch *b = malloc(sizeof *b + bytes);
    if (b != NULL) {
        *b = (struct batch){
            .work = {.run = batch_run, .done = batch_done}, .q = q, .facts = q->facts};
        memcpy(b->fact, q->fact, bytes);
        q->busy = true;
        offload_start(q->works, q->env, &b->work);
    } else {
        q->lost += q->facts;
    }
    q->facts = 0;
}

/* Only stores the facts; an I/O thread makes the line. */
static void quarantine_add(struct quarantine *q, const struct refusal *fact)
{
    if (q->path[0] == 0)
        return;
    if (q->facts == QUEUE) {
        q->lost++;
        return;
    }
    q->fact[q->facts++] = *fact;
    hand_over(q);
}

/* ---- checking ---- */

static void refusal_keep(struct guard *g, const struct table_schema *s, const struct push_record *r,
                         const struct gradient_fault *f)
{
    struct refusal fact = {.run = r->run,
                           .generation = r->generation,
                           .batch = r->to,
                           .worker = r->worker,
                           .task = r->task,
                           .key = r->keys[f->key],
                           .time =
                               g->wall_ns == NULL ? -1 : (double)(g->wall_ns() / 1000000) * 1e-3,
                           .fault = *f,
                           .lane = r->lane,
                           .rows = r->key_count};
    memcpy(fact.table, s->name, sizeof fact.table);
    quarantine_add(&g->quarantine, &fact);
}

int guard_check(struct guard *g, const struct table_schema *s, const struct push_record *r,
                struct err *e)
{
    bool norm = s->rules.norm_refuse != 0 && s->rules.norm_max > 0;
    struct gradient_fault f;
    char value[32], norm_text[64] = "";
    if (!norm && packed_fits(s, r->width, r->gradients, r->key_count))
        return 0;
    if (!fault_find(s, r, &f))
        return 0;
    SHOAL_ASSERT(f.key < r->key_count && f.rows > 0 && f.rows <= r->key_count);
    if (run_turn(g, r->run) && !seen_before(g, r)) {
        count_refused(g, s, r);
        refusal_keep(g, s, r, &f);
    }
    value_text(f.value, value);
    if (f.why == GRADIENT_NORM)
        (void)snprintf(norm_text, sizeof norm_text, " in a row of norm %.6g", f.norm);
    const char *file = g->quarantine.path;
    return err_set(e, SHOAL_E_NOT_FINITE,
                   "a gradient is %s: table %s, key 0x%016" PRIx64
                   " of field %u, place %u is %s%s; worker %" PRIu64 " task %" PRIu64
                   ", lane %u batch %" PRIu64 "; %s%s",
                   gradient_why_text(f.why), s->name, r->keys[f.key], key_field(r->keys[f.key]),
                   f.place, value, norm_text, r->worker, r->task, r->lane, r->to,
                   file[0] != 0 ? "kept in " : "not kept: this shard has no folder", file);
}

/* ---- life ---- */

struct guard *guard_new(const char *dir, uint64_t file_bytes, uint64_t (*wall_ns)(void),
                        struct env *env, struct offload_list *works)
{
    struct guard *g = calloc(1, sizeof *g);
    if (g == NULL)
        return NULL;
    struct quarantine *q = &g->quarantine;
    g->wall_ns = wall_ns;
    q->file_bytes = file_bytes;
    if (file_bytes == 0)
        q->file_bytes = GUARD_FILE_BYTES;

    q->env = env;
    q->works = works;
    if (dir != NULL) {
        (void)snprintf(q->path, sizeof q->path, "%s/quarantine.jsonl", dir);
        (void)snprintf(q->older, sizeof q->older, "%s/quarantine.1.jsonl", dir);
    }
    return g;
}

void guard_free(struct guard *g)
{
    if (g == NULL)
        return;
    struct quarantine *q = &g->quarantine;
    SHOAL_ASSERT(!q->busy); /* offload_drain has been */
    if (q->facts > 0)
        outcome(q, q->facts, facts_write(q, q->fact, q->facts));
    free(g);
}

/* ---- for people ---- */

/* Adds item, which names the owner of the counts, to the list, and the counts to the sum. */
static void count_append(struct json *list, struct json *item, const struct count *c,
                         struct count *all)
{
    json_set_int(item, "refused", (int64_t)c->refused);
    json_set_int(item, "clipped", (int64_t)c->clipped);
    json_append(list, item);
    all->refused += c->refused;
    all->clipped += c->clipped;
}

static struct json *fields_json(const struct guard *g, const char *(*table_name)(void *, uint32_t),
                                void *context)
{
    struct json *list = json_new_array();
    struct count all = {0};
    for (uint32_t i = 0; i <= GUARD_FIELDS; i++) {
        const struct count *c;
        if (i < GUARD_FIELDS)
            c = &g->field[i].of;
        else
            c = &g->other_fields;
        if (c->refused == 0 && c->clipped == 0)
            continue;
        struct json *item = json_new_object();
        if (i < GUARD_FIELDS) {
            json_set_string(item, "table", table_name(context, g->field[i].table));
            json_set_int(item, "field", g->field[i].field);
        }
        count_append(list, item, c, &all);
    }
    SHOAL_ASSERT(all.refused == g->rows.refused && all.clipped == g->rows.clipped);
    return list;
}

static struct json *workers_json(const struct guard *g)
{
    struct json *list = json_new_array();
    struct count all = {0};
    for (uint32_t i = 0; i <= g->workers; i++) {
        const struct count *c;
        if (i < g->workers)
            c = &g->worker[i].of;
        else
            c = &g->other_workers;
        if (c->refused == 0 && c->clipped == 0)
            continue;
        struct json *item = json_new_object();
        if (i < g->workers)
            json_set_int(item, "worker", (int64_t)g->worker[i].worker);
        count_append(list, item, c, &all);
    }
    SHOAL_ASSERT(all.refused == g->pushes && all.clipped == g->rows.clipped);
    return list;
}

struct json *guard_json(const struct guard *g,
                        const char *(*table_name)(void *context, uint32_t table), void *context)
{
    struct json *j = json_new_object();
    json_set_int(j, "run", (int64_t)g->run);
    json_set_int(j, "pushes", (int64_t)g->pushes);
    json_set_int(j, "rows", (int64_t)g->rows.refused);
    json_set_int(j, "clipped", (int64_t)g->rows.clipped);
    json_set_int(j, "lost", (int64_t)g->quarantine.lost);
    json_set_string(j, "file", g->quarantine.path);
    json_set(j, "by_field", fields_json(g, table_name, context));
    json_set(j, "by_worker", workers_json(g));
    return j;
}
