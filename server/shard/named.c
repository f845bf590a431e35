/* named.c: lists the keys that have a name. */
#include "server/shard/named.h"

#include "proto/base/key.h"
#include "server/shard/shard.h"

#include <stdlib.h>

/* The names from the mixed key r->from on, as far as the shard leads the tablets and `list`
 * (WIRE_NAMED_MAX) has room. */
static struct wire_NAMED_reply named_take(const struct shard *s, const struct wire_NAMED *r,
                                          struct table_name *list)
{
    const struct table *t = engine_table(s->engine, r->table);
    const struct table_schema *schema = table_schema_of(t);
    struct wire_NAMED_reply out = {.next = r->from};
    uint32_t tablet = key_tablet(r->from, schema->tablet_bits);
    do {
        out.count += table_names(t, tablet, out.next, list + out.count, WIRE_NAMED_MAX - out.count);
        if (out.count == WIRE_NAMED_MAX) {
            out.next = key_mix(list[out.count - 1].key) + 1;
            return out;
        }
        tablet++;
        out.next = 0;
        if (tablet >> schema->tablet_bits != 0)
            return out;
        out.next = (uint64_t)tablet << (64 - schema->tablet_bits);
    } while (lead_covers(&s->lead, schema, tablet, 1));
    return out;
}

static int named_check(const struct shard *s, const struct wire_NAMED *r, struct err *e)
{
    if (!lead_ready(&s->lead))
        return err_set(e, SHOAL_E_AGAIN, "it has no map yet; ask again");
    int rc = engine_keys_check(s->engine, r->table, KEY_RESET, 0, e);
    if (rc)
        return rc;
    const struct table_schema *schema = table_schema_of(engine_table(s->engine, r->table));
    uint32_t tablet = key_tablet(r->from, schema->tablet_bits);
    if (!lead_covers(&s->lead, schema, tablet, 1))
        return err_set(e, SHOAL_E_NOT_LEADER, "another shard leads tablet %u; ask for the map",
                       tablet);
    return 0;
}

void named_on_message(struct shard *s, peer_t from)
{
    const struct wire_NAMED r = s->in.u.NAMED;
    uint64_t id = s->in.id;
    struct err e = {0};
    struct msg *m = NULL;
    int rc = named_check(s, &r, &e);
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_NAMED, id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    struct table_name *list = malloc(WIRE_NAMED_MAX * sizeof *list);
    struct wire_named *out = NULL;
    if (list != NULL) {
        struct wire_NAMED_reply reply = named_take(s, &r, list);
        shard_reply(s, WIRE_TYPE_NAMED, id)->u.NAMED_reply = reply;
        m = wire_encode(&s->out);
        out = msg_add(m, reply.count * sizeof *out);
        for (uint32_t i = 0; out != NULL && i < reply.count; i++)
            out[i] = (struct wire_named){list[i].key, (uint32_t)list[i].action, 0};
    }
    free(list);
    if (out != NULL) {
        shard_send(s, from, m);
        return;
    }
    msg_free(m);
    shard_refuse(s, from, WIRE_TYPE_NAMED, id, SHOAL_E_NOMEM,
                 "shard %s: no memory for the list of names; ask again later", s->name);
}
