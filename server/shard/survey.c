/* survey.c: digests and figures of tables, in steps. */
#include "server/shard/survey.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "server/shard/shard.h"

#include <stdlib.h>
#include <string.h>

#define SYNC_POLL_NS UINT64_C(1000000)

/* The differences between the two requests. */
struct survey_kind {
    enum wire_type type;
    uint32_t askers;
    uint32_t step_rows; /* rows of a step: a few milliseconds */
    const char *of_what;
    int (*begin)(struct survey *d, const struct table *t, struct err *e);
    /* Adds a tablet. whole: a table in which the tablet has all its rows; t: the engine's own
     * table. */
    int (*add)(struct survey *d, const struct table *whole, uint32_t tablet, const struct table *t);
    void (*answer)(struct survey *d);
};

/* ---- one request after another ---- */

static void begin(struct survey *d);

static void finish(struct survey *d)
{
    SHOAL_ASSERT(d->count > 0 && d->count <= d->kind->askers);
    free(d->digest);
    d->digest = NULL;
    census_free(d->census);
    d->census = NULL;
    d->count--;
    memmove(&d->ask[0], &d->ask[1], d->count * sizeof d->ask[0]);
    if (d->count)
        begin(d);
}

static void refuse(struct survey *d, int status, const char *text)
{
    shard_refuse(d->s, d->ask[0].peer, d->kind->type, d->ask[0].id, status, "shard %s: %s",
                 d->s->name, text);
    finish(d);
}

static void begin(struct survey *d)
{
    const struct lead_range *r = &d->s->lead.range[d->ask[0].table];
    const struct table *t = engine_table(d->s->engine, d->ask[0].table);
    struct err e = {0};
    SHOAL_ASSERT(d->count > 0 && d->digest == NULL && d->census == NULL);
    d->first = r->first;
    d->span = r->span;
    d->next = 0;
    d->rows = 0;
    d->through = 0;
    int rc = SHOAL_E_NO_TABLE;
    if (t == NULL)
        err_set(&e, rc, "the table is gone");
    else
        rc = d->kind->begin(d, t, &e);
    if (rc)
        refuse(d, rc, e.text);
    else
        env_timer_start(d->s->env, &d->timer, 0);
}

/* True when the counted content is on disk: a job ends with its digests, and a loss of power after
 * that must not take what they count. */
static bool on_disk(struct survey *d)
{
    struct engine *g = d->s->engine;
    if (d->through == 0)
        d->through = engine_sequence(g);
    return engine_synced(g) >= d->through || !engine_sync_due(g);
}

static void step_cb(struct env_timer *timer)
{
    struct survey *d = container_of(timer, struct survey, timer);
    struct shard *s = d->s;
    SHOAL_ASSERT(d->count > 0 && d->next <= d->span);
    const struct table *t = engine_table(s->engine, d->ask[0].table);
    if (engine_restoring(s->engine)) {
        refuse(d, SHOAL_E_AGAIN, "rows are being put back to a cut; ask again");
        return;
    }
    if (t == NULL) {
        refuse(d, SHOAL_E_NO_TABLE, "the table is gone");
        return;
    }
    for (uint64_t rows = 0; d->next < d->span && rows < d->kind->step_rows; d->next++) {
        uint32_t tablet = d->first + d->next;
        if (!lead_covers(&s->lead, table_schema_of(t), tablet, 1))
            continue; /* a hole in the led range */
        struct err e;
        const struct table *whole = engine_whole(s->engine, d->ask[0].table, tablet, &e);
        if (whole == NULL) {
            refuse(d, e.code, e.text);
            return;
        }
        int rc = d->kind->add(d, whole, tablet, t);
        if (rc) {
            refuse(d, rc, err_text(rc));
            return;
        }
        rows += table_tablet_rows(whole, tablet);
        d->rows += table_tablet_rows(whole, tablet);
    }
    if (d->next < d->span) {
        env_timer_start(s->env, &d->timer, 0);
        return;
    }
    if (d->kind->type == WIRE_TYPE_DIGEST && !on_disk(d)) {
        env_timer_start(s->env, &d->timer, SYNC_POLL_NS);
        return;
    }
    d->kind->answer(d);
}

static void ask(struct survey *d, const struct survey_ask *ask)
{
    struct shard *s = d->s;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->ask[i].peer == ask->peer && d->ask[i].id == ask->id)
            return;
    if (shard_lacks_table(s, ask->peer, d->kind->type, ask->id, ask->table))
        return;
    if (!(ask->ask.shows >= 0) || !(ask->ask.score >= 0)) { /* refuses NaN, too */
        shard_refuse(s, ask->peer, d->kind->type, ask->id, SHOAL_E_USAGE,
                     "shard %s: shows and score are numbers from 0", s->name);
        return;
    }
    if (d->count == d->kind->askers) {
        shard_refuse(s, ask->peer, d->kind->type, ask->id, SHOAL_E_BUSY,
                     "shard %s: %u %s are at hand; ask again later", s->name, d->count,
                     d->kind->of_what);
        return;
    }
    d->ask[d->count++] = *ask;
    if (d->count == 1)
        begin(d);
}

/* ---- DIGEST ---- */

#define NO_MEMORY "no memory for the digests; ask again later"

static int digest_begin(struct survey *d, const struct table *t, struct err *e)
{
    (void)t;
    d->digest = calloc(MAX(d->span, 1), sizeof *d->digest);
    if (d->digest == NULL)
        return err_set(e, SHOAL_E_NOMEM, NO_MEMORY);
    return 0;
}

static int digest_add(struct survey *d, const struct table *whole, uint32_t tablet,
                      const struct table *t)
{
    (void)t;
    return table_digest(whole, tablet, &d->digest[d->next]);
}

static void digest_answer(struct survey *d)
{
    struct wire *w = shard_reply(d->s, WIRE_TYPE_DIGEST, d->ask[0].id);
    w->u.DIGEST_reply = (struct wire_DIGEST_reply){.tablet_first = d->first,
                                                   .tablet_count = d->span,
                                                   .rows = d->rows,
                                                   .synced = engine_synced(d->s->engine)};
    uint64_t rss;
    if (d->s->options.process != NULL)
        d->s->options.process(d->s->options.context, &rss, &w->u.DIGEST_reply.rss_peak_bytes);
    SHOAL_ASSERT(d->next == d->span); /* all tablets are done */
    struct msg *m = wire_encode(w);
    void *out = msg_add(m, d->span * sizeof d->digest[0]);
    if (out == NULL) {
        msg_free(m);
        refuse(d, SHOAL_E_NOMEM, NO_MEMORY);
        return;
    }
    memcpy(out, d->digest, d->span * sizeof d->digest[0]);
    shard_send(d->s, d->ask[0].peer, m);
    finish(d);
}

void survey_on_digest(struct shard *s, peer_t from)
{
    ask(&s->digests, &(struct survey_ask){from, s->in.id, s->in.u.DIGEST.table, {0}});
}

/* ---- TABLE_STATS ---- */

static int stats_begin(struct survey *d, const struct table *t, struct err *e)
{
    return census_new(table_schema_of(t), &d->ask[0].ask, &d->census, e);
}

static int stats_add(struct survey *d, const struct table *whole, uint32_t tablet,
                     const struct table *t)
{
    return census_add_tablet(d->census, whole, tablet, t);
}

static void stats_answer(struct survey *d)
{
    shard_reply(d->s, WIRE_TYPE_TABLE_STATS, d->ask[0].id)->u.TABLE_STATS_reply.rows =
        census_rows(d->census);
    shard_send_json(d->s, d->ask[0].peer, census_json(d->census));
    finish(d);
}

void survey_on_table_stats(struct shard *s, peer_t from)
{
    const struct wire_TABLE_STATS *in = &s->in.u.TABLE_STATS;
    const struct survey_ask of = {
        from, s->in.id, in->table, {in->what_if, in->shows, in->score, in->ttl, in->budget_rows}};
    ask(&s->table_stats, &of);
}

/* ---- life ---- */

/* The request that is worked on goes last: the next one begins then. */
static void tables_gone(struct survey *d, const struct table_set *tables)
{
    static const char text[] = "the table is gone";
    for (uint32_t i = d->count; i-- > 1;) {
        if (!table_set_has(tables, d->ask[i].table))
            continue;
        shard_refuse(d->s, d->ask[i].peer, d->kind->type, d->ask[i].id, SHOAL_E_NO_TABLE,
                     "shard %s: %s", d->s->name, text);
        d->count--;
        memmove(&d->ask[i], &d->ask[i + 1], (d->count - i) * sizeof d->ask[0]);
    }
    if (d->count == 0 || !table_set_has(tables, d->ask[0].table))
        return;
    env_timer_stop(d->s->env, &d->timer);
    refuse(d, SHOAL_E_NO_TABLE, text);
}

void survey_tables_gone(struct shard *s, struct table_set tables)
{
    tables_gone(&s->digests, &tables);
    tables_gone(&s->table_stats, &tables);
}

void survey_init(struct shard *s)
{
    static const struct survey_kind digest = {
        WIRE_TYPE_DIGEST, DIGEST_ASKERS, 65536, "digests", digest_begin, digest_add, digest_answer};
    static const struct survey_kind stats = {
        WIRE_TYPE_TABLE_STATS, TABLE_STATS_ASKERS, 16384,       "requests for figures of tables",
        stats_begin,           stats_add,          stats_answer};
    s->digests = (struct survey){.s = s, .kind = &digest, .timer = {.fire = step_cb}};
    s->table_stats = (struct survey){.s = s, .kind = &stats, .timer = {.fire = step_cb}};
}

void survey_close(struct shard *s)
{
    struct survey *const both[] = {&s->digests, &s->table_stats};
    for (int i = 0; i < 2; i++) {
        env_timer_stop(s->env, &both[i]->timer);
        free(both[i]->digest);
        census_free(both[i]->census);
    }
}
