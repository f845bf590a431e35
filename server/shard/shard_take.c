/* shard_take.c: a message of a worker becomes a request of the pool, or is refused. */
#include "proto/base/hash.h"
#include "server/shard/bsp.h"
#include "server/shard/shard.h"
#include "server/shard/shares.h"

#include <inttypes.h>
#include <string.h>

struct request *shard_take(struct shard *s, peer_t from, int found, struct err *e)
{
    const struct wire *w = &s->in;
    bool at_once = !found && w->type == WIRE_TYPE_PUSH &&
                   (request_pool_pressed(&s->pool) || request_pool_full(&s->pool, w, s->m)) &&
                   bsp_next(s, &w->u.PUSH);
    const struct env_who *who = env_who(s->env, from);
    const struct request_from of = {
        from, who->key[0] != 0 ? hash_bytes(who->key, strlen(who->key), 0) : 0};
    if (!found && w->type == WIRE_TYPE_PUSH && !at_once && shares_fill_pool(s, w->u.PUSH.table))
        found = err_set(e, SHOAL_E_BUSY,
                        "shard %s: pushes of this space wait for its share of the memory, in half "
                        "of the places; send again later",
                        s->name);
    struct request *q =
        found ? NULL : request_take(&s->pool, &of, w, s->m, at_once, env_now_ns(s->env));
    if (q != NULL) {
        s->m = NULL;
        return q;
    }
    if (!found && w->type == WIRE_TYPE_PUSH && !shard_holds(s))
        /* parts that can be applied before their clock is complete make room for the next
         * request */
        bsp_retry(s);
    if (!found)
        found = err_set(e, SHOAL_E_BUSY,
                        "shard %s: %u requests of %" PRIu64 " bytes are waiting; send again later",
                        s->name, request_pool_used(&s->pool), request_pool_bytes(&s->pool));
    shard_refuse(s, from, w->type, w->id, found, "%s", e->text);
    return NULL;
}
