/* guard.c: asks shards for refused gradients, adds the counts up, and ends a job with too many. */
#include "server/coord/figures/guard.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/source.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS UINT64_C(5000000000)

void coord_guard_close(struct coord_guard *g)
{
    free(g->told);
    free(g->next);
    memset(g, 0, sizeof *g);
}

/* ---- adding up ------------------------------------------------------------------------------- */

static struct coord_guard_count *field_of(struct coord_guard_sums *s, const char *table,
                                          int64_t field)
{
    SHOAL_ASSERT(s->fields <= COORD_GUARD_FIELDS);
    for (uint32_t i = 0; i < s->fields && table != NULL; i++)
        if (s->field[i].field == (uint32_t)field && strcmp(s->field[i].table, table) == 0)
            return &s->field[i].of;
    if (table == NULL || field < 0 || s->fields == COORD_GUARD_FIELDS)
        return &s->field[COORD_GUARD_FIELDS].of;
    text_copy(s->field[s->fields].table, LIMIT_NAME, table);
    s->field[s->fields].field = (uint32_t)field;
    return &s->field[s->fields++].of;
}

static struct coord_guard_count *worker_of(struct coord_guard_sums *s, int64_t worker)
{
    SHOAL_ASSERT(s->workers <= COORD_GUARD_WORKERS);
    for (uint32_t i = 0; i < s->workers; i++)
        if ((int64_t)s->worker[i].worker == worker)
            return &s->worker[i].of;
    if (worker < 0 || s->workers == COORD_GUARD_WORKERS)
        return &s->worker[COORD_GUARD_WORKERS].of;
    s->worker[s->workers].worker = (uint64_t)worker;
    return &s->worker[s->workers++].of;
}

static void count_add(struct coord_guard_count *to, const struct json *item)
{
    int64_t refused = json_get_int(item, "refused", 0), clipped = json_get_int(item, "clipped", 0);
    to->refused += (uint64_t)MAX(refused, 0);
    to->clipped += (uint64_t)MAX(clipped, 0);
}

/* Adds `gradients` of a shard's SHARD_STATUS, unless they are of a run before `run`. */
static void guard_add(struct coord_guard_sums *s, const struct json *gradients, uint64_t run)
{
    const struct json *fields = json_get(gradients, "by_field"),
                      *workers = json_get(gradients, "by_worker");
    int64_t lost = json_get_int(gradients, "lost", 0);
    if (json_get_int(gradients, "run", 0) < (int64_t)run)
        return; /* an earlier job's */
    s->lost += (uint64_t)MAX(lost, 0);
    for (size_t i = 0; i < json_count(fields); i++) {
        const struct json *item = json_array_at(fields, i);
        count_add(
            field_of(s, json_get_string(item, "table", NULL), json_get_int(item, "field", -1)),
            item);
    }
    for (size_t i = 0; i < json_count(workers); i++) {
        const struct json *item = json_array_at(workers, i);
        count_add(worker_of(s, json_get_int(item, "worker", -1)), item);
    }
}

/* ---- rules ---- */

/* The names in admin.c of the shard; embedding/table.h says what they count. */
static const char *const names[COORD_RULES_COUNTS] = {
    "not_admitted", "admitted", "aged", "expired", "evicted", "blocked", "clipped", "waiting"};

static uint64_t *counts_of(struct coord_rules *r, const char *table)
{
    SHOAL_ASSERT(r->tables <= LIMIT_TABLES);
    for (uint32_t i = 0; i < r->tables; i++)
        if (strcmp(r->table[i].table, table) == 0)
            return r->table[i].count;
    if (r->tables == LIMIT_TABLES || strlen(table) >= LIMIT_NAME)
        return NULL;
    text_copy(r->table[r->tables].table, LIMIT_NAME, table);
    return r->table[r->tables++].count;
}

/* Returns those of a shard's tables that are of the job's space; the caller frees it. A server of
 * an earlier release, which has one space, does not tell their numbers. */
static struct json *own_tables(const struct coord_job *j, const struct json *tables)
{
    struct json *list = json_new_array();
    for (size_t i = 0; i < json_count(tables); i++) {
        struct json *item = json_array_at(tables, i);
        int64_t number = json_get_int(item, "table", -1);
        bool other = number >= 0 && number < LIMIT_TABLES && table_set_any(j->space->numbers) &&
                     !table_set_has(&j->space->numbers, (uint32_t)number);
        if (!other)
            json_append(list, json_hold(item));
    }
    return list;
}

/* Adds a shard's list. Tables past LIMIT_TABLES and values that are not numbers from 0 are left
 * out. */
static void rules_add(struct coord_rules *r, const struct json *tables)
{
    for (size_t i = 0; i < json_count(tables); i++) {
        const struct json *item = json_array_at(tables, i);
        const char *table = json_get_string(item, "name", NULL);
        uint64_t *count = NULL;
        if (table != NULL)
            count = counts_of(r, table);
        for (uint32_t n = 0; count != NULL && n < COORD_RULES_COUNTS; n++) {
            int64_t more = json_get_int(item, names[n], 0);
            count[n] += (uint64_t)MAX(more, 0);
        }
    }
}

static struct json *rules_json(const struct coord_rules *r, const char *table)
{
    struct json *j = NULL;
    for (uint32_t i = 0; i < r->tables; i++)
        for (uint32_t n = 0; n < COORD_RULES_COUNTS && strcmp(r->table[i].table, table) == 0; n++) {
            if (r->table[i].count[n] == 0)
                continue;
            if (j == NULL)
                j = json_new_object();
            json_set_int(j, names[n], (int64_t)r->table[i].count[n]);
        }
    return j;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void shard_said(void *context, const struct coord_call *call, uint32_t shard,
                       const struct wire *reply, const struct msg *m)
{
    struct coord_job *job = context;
    struct json *j = NULL;
    (void)call;
    (void)reply;
    if (job->guard->next == NULL)
        return;
    if (json_parse(m->frame[1].data, m->frame[1].bytes, &j, NULL) == 0) {
        guard_add(job->guard->next, json_get(j, "gradients"), job->at.number);
        struct json *own = own_tables(job, json_get(j, "tables"));
        rules_add(&job->guard->next->rules, own);
        coord_ages_add(&job->guard->next->ages, own, job->at.number);
        json_free(own);
    } else
        log_warn("shard %u: its status is no JSON", shard);
    json_free(j);
}

static void all_said(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_guard *g = ((struct coord_job *)context)->guard;
    (void)call;
    if (status != 0) {
        log_warn("refused gradients are not told by field, nor what rules did: %s", text);
        free(g->next);
    } else {
        free(g->told);
        g->told = g->next;
    }
    g->next = NULL;
    g->final = g->ending;
}

void coord_guard_ask(struct coord_job *j, bool ending)
{
    struct coord_guard *g = j->guard;
    struct wire w = {.type = WIRE_TYPE_SHARD_STATUS};
    uint64_t now = env_now_ns(j->fleet->env);
    w.u.SHARD_STATUS.part = 1;
    if (!ending && (now - g->asked_ns < ASK_NS ||
                    coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_SHARD_STATUS)))
        return;
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_SHARD_STATUS, UINT64_MAX);
    g->asked_ns = now;
    g->ending = ending;
    g->final = false;
    free(g->next);
    g->next = calloc(1, sizeof *g->next);
    if (g->next == NULL ||
        !coord_call_start(&j->fleet->calls, &(struct coord_call){.context = j,
                                                                 .set_up = &j->setup,
                                                                 .request = w,
                                                                 .target = COORD_NOBODY,
                                                                 .on_reply = shard_said,
                                                                 .on_done = all_said}))
        g->final = ending; /* the report then has no such counts */
}

/* ---- judging --------------------------------------------------------------------------------- */

uint64_t coord_guard_refused(const struct coord_job *j, uint64_t *batches)
{
    bool open = coord_epoch_open(j);
    uint64_t refused = coord_epoch_losses(j).refused;
    const struct coord_amount is = coord_epoch_amount(j);
    *batches = 0;
    if (j->at.epoch > 0) {
        *batches = is.batches_before;
        if (!open)
            *batches += is.batches;
    }
    bool planned = open && j->tasks->epoch == j->at.epoch;
    for (uint32_t i = 0; planned && i < j->tasks->tasks; i++)
        if (j->tasks->task[i].reported) {
            refused += j->tasks->task[i].sum.refused;
            *batches += j->tasks->task[i].batch_count;
        }
    return refused;
}

void coord_guard_look(struct coord_job *j, const char *where)
{
    double share = j->spec.train.max_refused;
    uint64_t batches, refused = coord_guard_refused(j, &batches);
    double most = share * (double)batches;
    if (share > 0 && most < COORD_GUARD_LEAST)
        most = COORD_GUARD_LEAST;
    if ((double)refused <= most)
        return;
    coord_end_fail(j, SHOAL_E_NOT_FINITE,
                   "%" PRIu64 " of %" PRIu64
                   " batches were refused for their gradients (train.max_refused: %g): look at the "
                   "rows, or lower the learning rate. The last: %s",
                   refused, batches, share, text_unless_empty(where, "(not named)"));
}

/* ---- telling --------------------------------------------------------------------------------- */

static void item_append(struct json *list, struct json *item, const struct coord_guard_count *of)
{
    json_set_int(item, "refused", (int64_t)of->refused);
    json_set_int(item, "clipped", (int64_t)of->clipped);
    json_append(list, item);
}

struct json *coord_guard_rules_json(const struct coord_job *j, const char *table)
{
    const struct coord_guard_sums *s = j->guard->told;
    if (s == NULL)
        return NULL;
    return rules_json(&s->rules, table);
}

struct json *coord_guard_ages_json(const struct coord_job *j, const char *table)
{
    const struct coord_guard_sums *s = j->guard->told;
    if (s == NULL)
        return NULL;
    return coord_ages_json(&s->ages, table);
}

struct json *coord_guard_json(const struct coord_job *job)
{
    struct json *j = json_new_object(), *fields = json_new_array(), *workers = json_new_array();
    const struct coord_guard_sums *s = job->guard->told;
    uint64_t batches;
    json_set_int(j, "batches", (int64_t)coord_guard_refused(job, &batches));
    json_set_int(j, "lost", s == NULL ? 0 : (int64_t)s->lost);
    for (uint32_t i = 0; s != NULL && i <= COORD_GUARD_FIELDS; i++) {
        const struct coord_guard_field *f = &s->field[i];
        if (f->of.refused == 0 && f->of.clipped == 0)
            continue;
        struct json *item = json_new_object();
        if (i < COORD_GUARD_FIELDS) {
            json_set_string(item, "table", f->table);
            json_set_int(item, "field", f->field);
        }
        item_append(fields, item, &f->of);
    }
    for (uint32_t i = 0; s != NULL && i <= COORD_GUARD_WORKERS; i++) {
        const struct coord_guard_worker *w = &s->worker[i];
        if (w->of.refused == 0 && w->of.clipped == 0)
            continue;
        struct json *item = json_new_object();
        if (i < COORD_GUARD_WORKERS)
            json_set_int(item, "worker", (int64_t)w->worker);
        item_append(workers, item, &w->of);
    }
    json_set(j, "by_field", fields);
    json_set(j, "by_worker", workers);
    return j;
}
