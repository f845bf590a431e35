/* keys.c: keys by name, from the wire to the engine. */
#include "server/shard/keys.h"

#include "server/shard/audit.h"

_Static_assert((int)WIRE_KEY_ERASE == (int)KEY_ERASE && (int)WIRE_KEY_BLOCK == (int)KEY_BLOCK &&
                   (int)WIRE_KEY_ALLOW == (int)KEY_ALLOW && (int)WIRE_KEY_RESET == (int)KEY_RESET,
               "the wire's actions are the engine's");

void keys_on_message(struct shard *s, peer_t from, struct msg *m)
{
    const struct wire_KEYS r = s->in.u.KEYS;
    uint64_t id = s->in.id, changed = 0;
    struct err e = {0};
    if (r.action == WIRE_KEY_SCRUB) {
        audit_on_scrub(s, from, m);
        return;
    }
    int rc = lead_ready(&s->lead) ? engine_keys(s->engine, r.table, (enum key_action)r.action,
                                                m->frame[1].data, r.key_count, &changed, &e)
                                  : err_set(&e, SHOAL_E_AGAIN, "it has no map yet; ask again");
    msg_free(m);
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_KEYS, id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    shard_reply(s, WIRE_TYPE_KEYS, id)->u.KEYS_reply.changed = changed;
    shard_send_reply(s, from);
}
