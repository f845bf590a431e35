/* cluster_read.c: rows and figures of tables, from running shards or from folders. */
#include "deploy/cli/cluster_inner.h"
#include "embedding/row_json.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <string.h>

int cluster_ask_key(struct cluster *c, const struct table_schema *s, uint64_t key, struct wire *w,
                    uint32_t timeout_ms, struct wire *reply, struct json **out, struct err *e)
{
    uint32_t tablet = s->tablet_first + key_tablet(key_mix(key), s->tablet_bits);
    struct ask *shard;
    struct msg *m;
    if (tablet >= c->tablet_count)
        return err_set(e, SHOAL_E_NOT_LEADER, "the map has no tablet %u", tablet);
    int rc = cluster_shard(c, c->shard_of[tablet], &shard, e);
    if (rc == 0)
        rc = cli_ask(shard, w, NULL, timeout_ms, reply, &m, e);
    if (rc != 0)
        return rc;
    rc = json_parse(m->frame[1].data, m->frame[1].bytes, out, e);
    msg_free(m);
    return rc;
}

static int live_inspect(struct cluster *c, const struct table_schema *s, uint64_t key, bool *found,
                        struct json **out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_INSPECT, .u.INSPECT = {s->table, key}}, reply;
    int rc = cluster_ask_key(c, s, key, &w, QUESTION_MS, &reply, out, e);
    *found = rc == 0 && reply.u.INSPECT_reply.found;
    return rc;
}

int cluster_inspect(struct cluster *c, uint32_t index, uint64_t key, bool *found, struct json **out,
                    struct err *e)
{
    const struct table_schema *s = c->schema[index];
    *found = false;
    *out = NULL;
    if (cluster_live(c))
        return live_inspect(c, s, key, found, out, e);
    for (uint32_t i = 0; i < c->engines && !*found; i++) {
        bool stored;
        if (engine_table(c->engine[i], s->table) == NULL)
            continue;
        const struct table *t = engine_row(c->engine[i], s->table, key, &stored, e);
        json_free(*out);
        *out = NULL;
        if (t == NULL)
            return err_wrap(e, e->code, "%s", c->folder[i]);
        *out = row_json(t, key, c->folder[i], stored, found);
    }
    return 0;
}

static int live_census(struct cluster *c, const struct table_schema *s,
                       const struct census_ask *wish, struct census *sum, struct err *e)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        struct wire w = {.type = WIRE_TYPE_TABLE_STATS}, reply;
        struct json *part = NULL;
        struct ask *shard;
        struct msg *m;
        w.u.TABLE_STATS = (struct wire_TABLE_STATS){s->table,    wish->what_if, wish->shows,
                                                    wish->score, wish->ttl,     wish->rows};
        int rc = cluster_shard(c, i, &shard, e);
        if (rc == 0)
            rc = cli_ask(shard, &w, NULL, LONG_QUESTION_MS, &reply, &m, e);
        if (rc != 0)
            return rc;
        rc = json_parse(m->frame[1].data, m->frame[1].bytes, &part, e);
        if (rc == 0)
            rc = census_add_json(sum, part, e);
        json_free(part);
        msg_free(m);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int offline_census(struct cluster *c, const struct table_schema *s, struct census *sum,
                          struct err *e)
{
    for (uint32_t i = 0; i < c->engines; i++) {
        const struct table *t = engine_table(c->engine[i], s->table);
        for (uint32_t k = 0; t != NULL && k < 1u << s->tablet_bits; k++) {
            const struct table *whole = engine_whole(c->engine[i], s->table, k, e);
            if (whole == NULL)
                return err_wrap(e, e->code, "%s", c->folder[i]);
            if (table_tablet_rows(whole, k) > 0 && census_add_tablet(sum, whole, k, t) != 0)
                return err_set(e, SHOAL_E_NOMEM, "out of memory");
        }
    }
    return 0;
}

int cluster_census(struct cluster *c, uint32_t index, const struct census_ask *wish,
                   struct census **out, struct err *e)
{
    const struct table_schema *s = c->schema[index];
    int rc = census_new(s, wish, out, e);
    if (rc != 0)
        return rc;
    rc = cluster_live(c) ? live_census(c, s, wish, *out, e) : offline_census(c, s, *out, e);
    if (rc != 0)
        census_free(*out);
    return rc;
}

int cluster_visit(struct cluster *c, uint32_t index, void (*visit)(void *context, const void *row),
                  void *context, struct err *e)
{
    const struct table_schema *s = c->schema[index];
    SHOAL_ASSERT(!cluster_live(c));
    for (uint32_t i = 0; i < c->engines; i++)
        for (uint32_t k = 0; k < 1u << s->tablet_bits; k++) {
            if (engine_table(c->engine[i], s->table) == NULL)
                continue;
            const struct table *t = engine_whole(c->engine[i], s->table, k, e);
            if (t == NULL)
                return err_wrap(e, e->code, "%s", c->folder[i]);
            table_visit(t, k, visit, context);
        }
    return 0;
}
