/* survey.c: digests and figures of tables, in steps. */
#include "server/shard/survey.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "server/shard/shard.h"

#include <stdlib.h>
#include <string.h>

#define STEP_ROWS 65536u /* of a step: a few milliseconds */

static void begin(struct shard *s);

static void finish(struct shard *s)
{
    struct digests *d = &s->digests;
    SHOAL_ASSERT(d->count > 0 && d->count <= DIGEST_ASKERS);
    free(d->value);
    d->value = NULL;
    d->count--;
    memmove(&d->ask[0], &d->ask[1], d->count * sizeof d->ask[0]);
    if (d->count)
        begin(s);
}

static void refuse(struct shard *s, int status, const char *text)
{
    shard_refuse(s, s->digests.ask[0].peer, WIRE_TYPE_DIGEST, s->digests.ask[0].id, status,
                 "shard %s: %s", s->name, text);
    finish(s);
}

static void answer(struct shard *s)
{
    struct digests *d = &s->digests;
    struct wire *w = shard_reply(s, WIRE_TYPE_DIGEST, d->ask[0].id);
    w->u.DIGEST_reply = (struct wire_DIGEST_reply){d->first, d->span, d->rows};
    SHOAL_ASSERT(d->next == d->span); /* of all tablets */
    struct msg *m = wire_encode(w);
    void *out = m != NULL ? msg_add(m, d->span * sizeof d->value[0]) : NULL;
    if (out == NULL) {
        msg_free(m);
        refuse(s, SHOAL_E_NOMEM, "no memory for the digests; ask again later");
        return;
    }
    memcpy(out, d->value, d->span * sizeof d->value[0]);
    shard_send(s, d->ask[0].peer, m);
    finish(s);
}

static void digest_step_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, digests.timer);
    struct digests *d = &s->digests;
    SHOAL_ASSERT(d->count > 0 && d->value != NULL && d->next <= d->span);
    const struct table *table = engine_table(s->engine, d->ask[0].table);
    if (table == NULL) {
        refuse(s, SHOAL_E_NO_TABLE, "the table is gone");
        return;
    }
    for (uint64_t rows = 0; d->next < d->span && rows < STEP_ROWS; d->next++) {
        uint32_t tablet = d->first + d->next;
        d->value[d->next] = 0;
        if (!lead_covers(&s->lead, table_schema_of(table), tablet, 1))
            continue; /* a hole in the led range */
        struct err e;
        const struct table *whole = engine_whole(s->engine, d->ask[0].table, tablet, &e);
        if (whole == NULL) {
            refuse(s, e.code, e.text);
            return;
        }
        int rc = table_digest(whole, tablet, &d->value[d->next]);
        if (rc) {
            refuse(s, rc, err_text(rc));
            return;
        }
        rows += table_tablet_rows(whole, tablet);
        d->rows += table_tablet_rows(whole, tablet);
    }
    if (d->next == d->span)
        answer(s);
    else
        env_timer_start(s->env, &d->timer, 0);
}

static void begin(struct shard *s)
{
    struct digests *d = &s->digests;
    SHOAL_ASSERT(d->count > 0 && d->value == NULL && d->ask[0].table < LIMIT_TABLES);
    const struct lead_range *r = &s->lead.range[d->ask[0].table];
    d->first = r->first;
    d->span = r->span;
    d->next = 0;
    d->rows = 0;
    d->value = calloc(r->span ? r->span : 1, sizeof *d->value);
    if (d->value != NULL)
        env_timer_start(s->env, &d->timer, 0);
    else
        refuse(s, SHOAL_E_NOMEM, "no memory for the digests; ask again later");
}

void survey_init(struct shard *s)
{
    s->digests = (struct digests){.timer = {.fire = digest_step_cb}};
}

void survey_on_digest(struct shard *s, peer_t from, struct msg *m)
{
    struct digests *d = &s->digests;
    const struct digest_ask ask = {from, s->in.id, s->in.u.DIGEST.table};
    msg_free(m);
    for (uint32_t i = 0; i < d->count; i++)
        if (d->ask[i].peer == ask.peer && d->ask[i].id == ask.id)
            return;
    if (shard_lacks_table(s, from, WIRE_TYPE_DIGEST, ask.id, ask.table))
        return;
    if (d->count == DIGEST_ASKERS) {
        shard_refuse(s, from, WIRE_TYPE_DIGEST, ask.id, SHOAL_E_BUSY,
                     "shard %s: %u digests are at hand; ask again later", s->name, d->count);
        return;
    }
    d->ask[d->count++] = ask;
    if (d->count == 1)
        begin(s);
}

void survey_close(struct shard *s)
{
    env_timer_stop(s->env, &s->digests.timer);
    free(s->digests.value);
    s->digests.value = NULL;
    s->digests.count = 0;
}

/* ---- table_stats ---- */

#define TABLE_STATS_STEP_ROWS 16384u /* of a step: a few milliseconds */

static void table_stats_begin(struct shard *s);

static void table_stats_finish(struct shard *s)
{
    struct table_stats *d = &s->table_stats;
    SHOAL_ASSERT(d->count > 0 && d->count <= TABLE_STATS_ASKERS);
    census_free(d->census);
    d->census = NULL;
    d->count--;
    memmove(&d->ask[0], &d->ask[1], d->count * sizeof d->ask[0]);
    if (d->count)
        table_stats_begin(s);
}

static void table_stats_refuse(struct shard *s, int status, const char *text)
{
    const struct table_stats_ask *a = &s->table_stats.ask[0];
    shard_refuse(s, a->peer, WIRE_TYPE_TABLE_STATS, a->id, status, "shard %s: %s", s->name, text);
    table_stats_finish(s);
}

static void table_stats_answer(struct shard *s)
{
    struct table_stats *d = &s->table_stats;
    SHOAL_ASSERT(d->next == d->span);
    shard_reply(s, WIRE_TYPE_TABLE_STATS, d->ask[0].id)->u.TABLE_STATS_reply.rows =
        census_rows(d->census);
    shard_send_json(s, d->ask[0].peer, census_json(d->census));
    table_stats_finish(s);
}

static void table_stats_step_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, table_stats.timer);
    struct table_stats *d = &s->table_stats;
    SHOAL_ASSERT(d->count > 0 && d->census != NULL && d->next <= d->span);
    const struct table *table = engine_table(s->engine, d->ask[0].table);
    if (table == NULL) {
        table_stats_refuse(s, SHOAL_E_NO_TABLE, "the table is gone");
        return;
    }
    for (uint64_t rows = 0; d->next < d->span && rows < TABLE_STATS_STEP_ROWS; d->next++) {
        uint32_t tablet = d->first + d->next;
        if (!lead_covers(&s->lead, table_schema_of(table), tablet, 1))
            continue; /* a hole in the led range */
        struct err e;
        const struct table *whole = engine_whole(s->engine, d->ask[0].table, tablet, &e);
        int rc = whole != NULL ? census_add_tablet(d->census, whole, tablet, table) : e.code;
        if (rc) {
            table_stats_refuse(s, rc, whole != NULL ? err_text(rc) : e.text);
            return;
        }
        rows += table_tablet_rows(whole, tablet);
    }
    if (d->next == d->span)
        table_stats_answer(s);
    else
        env_timer_start(s->env, &d->timer, 0);
}

static void table_stats_begin(struct shard *s)
{
    struct table_stats *d = &s->table_stats;
    SHOAL_ASSERT(d->count > 0 && d->census == NULL && d->ask[0].table < LIMIT_TABLES);
    const struct table *table = engine_table(s->engine, d->ask[0].table);
    const struct lead_range *r = &s->lead.range[d->ask[0].table];
    struct err e = {0};
    d->first = r->first;
    d->span = r->span;
    d->next = 0;
    int rc = table != NULL ? census_new(table_schema_of(table), &d->ask[0].ask, &d->census, &e)
                           : err_set(&e, SHOAL_E_NO_TABLE, "the table is gone");
    if (rc)
        table_stats_refuse(s, rc, e.text);
    else
        env_timer_start(s->env, &d->timer, 0);
}

void survey_table_stats_init(struct shard *s)
{
    s->table_stats = (struct table_stats){.timer = {.fire = table_stats_step_cb}};
}

void survey_on_table_stats(struct shard *s, peer_t from, struct msg *m)
{
    struct table_stats *d = &s->table_stats;
    const struct wire_TABLE_STATS *in = &s->in.u.TABLE_STATS;
    const struct table_stats_ask ask = {
        from, s->in.id, in->table, {in->what_if, in->shows, in->score, in->ttl, in->budget_rows}};
    msg_free(m);
    for (uint32_t i = 0; i < d->count; i++)
        if (d->ask[i].peer == ask.peer && d->ask[i].id == ask.id)
            return;
    if (shard_lacks_table(s, from, WIRE_TYPE_TABLE_STATS, ask.id, ask.table))
        return;
    if (!(ask.ask.shows >= 0) || !(ask.ask.score >= 0)) { /* NaN too */
        shard_refuse(s, from, WIRE_TYPE_TABLE_STATS, ask.id, SHOAL_E_USAGE,
                     "shard %s: shows and score are numbers from 0", s->name);
        return;
    }
    if (d->count == TABLE_STATS_ASKERS) {
        shard_refuse(s, from, WIRE_TYPE_TABLE_STATS, ask.id, SHOAL_E_BUSY,
                     "shard %s: %u requests for figures of tables are at hand; ask again later",
                     s->name, d->count);
        return;
    }
    d->ask[d->count++] = ask;
    if (d->count == 1)
        table_stats_begin(s);
}

void survey_table_stats_close(struct shard *s)
{
    env_timer_stop(s->env, &s->table_stats.timer);
    census_free(s->table_stats.census);
    s->table_stats.census = NULL;
    s->table_stats.count = 0;
}
