/* shares.c: takes shares of the memory, and tells their use. */
#include "server/shard/shares.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/text.h"
#include "proto/meter/meter.h"
#include "server/shard/shard.h"

#include <string.h>

/* The list as the wire has it. Returns its length. */
static uint32_t list_of(const struct shard *s, struct wire_share out[LIMIT_SPACES])
{
    struct engine_share_use use[LIMIT_SPACES];
    uint32_t count = engine_shares(s->engine, use);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (struct wire_share){.tables = use[i].share.tables, .parts = use[i].share.parts};
        text_copy(out[i].space, sizeof out[i].space, use[i].share.name);
    }
    return count;
}

uint64_t shares_digest(const struct shard *s)
{
    struct wire_share list[LIMIT_SPACES];
    uint32_t count = list_of(s, list);
    if (count == 0)
        return 0;
    return hash_bytes(list, count * sizeof list[0], 0);
}

bool shares_fill_pool(const struct shard *s, uint32_t table)
{
    const struct table_set *waits = &s->park.short_of_room;
    return table_set_has(waits, table) && !table_set_equal(*waits, TABLE_SET_ALL) &&
           request_pool_pressed(&s->pool);
}

static int take(struct shard *s, const struct wire_share *list, uint32_t count, struct err *e)
{
    struct wire_share now[LIMIT_SPACES];
    struct engine_share share[LIMIT_SPACES];
    SHOAL_ASSERT(count <= LIMIT_SPACES); /* wire_decode */
    if (list_of(s, now) == count && memcmp(now, list, count * sizeof now[0]) == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        if (memchr(list[i].space, 0, sizeof list[i].space) == NULL ||
            text_unclean(list[i].space) != NULL)
            return err_set(e, SHOAL_E_MALFORMED, "share %u has no name", i);
        share[i] = (struct engine_share){.tables = list[i].tables, .parts = list[i].parts};
        text_copy(share[i].name, sizeof share[i].name, list[i].space);
    }
    return engine_shares_set(s->engine, share, count, e);
}

void shares_on_message(struct shard *s, peer_t from)
{
    struct engine_share_use use[LIMIT_SPACES];
    struct wire_share_use told[LIMIT_SPACES];
    const uint64_t id = s->in.id;
    struct err e = {0};
    int rc = take(s, s->m->frame[1].data, s->in.u.SHARES.count, &e);
    if (rc != 0) {
        shard_refuse(s, from, WIRE_TYPE_SHARES, id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    uint32_t count = engine_shares(s->engine, use);
    for (uint32_t i = 0; i < count; i++)
        told[i] = (struct wire_share_use){use[i].rows,  use[i].cold_rows, use[i].bytes,
                                          use[i].limit, use[i].waits,     use[i].refused};
    shard_reply(s, WIRE_TYPE_SHARES, id)->u.SHARES_reply.count = count;
    struct msg *m = wire_encode(&s->out);
    void *out = msg_add(m, count * sizeof told[0]);
    if (out == NULL) {
        msg_free(m); /* it is sent again */
        return;
    }
    memcpy(out, told, count * sizeof told[0]);
    shard_send(s, from, m);
}

struct json *shares_json(const struct shard *s)
{
    struct engine_share_use use[LIMIT_SPACES];
    uint32_t count = engine_shares(s->engine, use);
    if (count == 0)
        return NULL;
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < count; i++) {
        struct json *j = json_new_object();
        json_set_string(j, "space", use[i].share.name);
        json_set_int(j, "rows", (int64_t)use[i].rows);
        json_set_int(j, "cold_rows", (int64_t)use[i].cold_rows);
        json_set_int(j, "memory_bytes", (int64_t)use[i].bytes);
        json_set_int(j, "memory_share", (int64_t)use[i].limit);
        json_set_int(j, "waits", (int64_t)use[i].waits);
        json_set_int(j, "refused", (int64_t)use[i].refused);
        json_append(list, j);
    }
    return list;
}

void shares_gauges(const struct shard *s, struct meter_sheet *out)
{
    struct engine_share_use use[LIMIT_SPACES];
    uint32_t count = engine_shares(s->engine, use);
    for (uint32_t i = 0; i < count; i++) {
        const char *space = use[i].share.name;
        meter_put(out, SPACE_MEMORY, (double)use[i].bytes, s->name, space, NULL);
        meter_put(out, SPACE_MEMORY_SHARE, (double)use[i].limit, s->name, space, NULL);
        meter_put(out, SPACE_WAITS, (double)use[i].waits, s->name, space, "waits", NULL);
        meter_put(out, SPACE_WAITS, (double)use[i].refused, s->name, space, "refused", NULL);
    }
}
