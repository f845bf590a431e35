/* server_shards.c: the main thread's view of the shards' threads. */
#include "server/server_shards.h"

#include "proto/base/assert.h"
#include "proto/net/net.h"
#include "server/server_thread.h"

#include <stdlib.h>

int server_shards_start(struct server_shards *s, struct err *e)
{
    uint32_t count = s->config->shards;
    SHOAL_ASSERT(count > 0 && s->thread == NULL);
    s->thread = calloc(count, sizeof *s->thread);
    s->progress = calloc(count, sizeof *s->progress);
    if (s->thread == NULL || s->progress == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u shards", count);
    for (uint32_t i = 0; i < count; i++) {
        struct server_thread *m = &s->thread[i];
        m->of = s;
        m->index = i;
        int rc = server_thread_start(m, e);
        if (rc != 0)
            return rc;
        s->count++;
    }
    return 0;
}

bool server_shards_all(const struct server_shards *s, enum server_thread_state state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        count += s->thread[i].state >= (int)state;
    return count == s->count;
}

bool server_shards_any(const struct server_shards *s, enum server_thread_state state)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->thread[i].state >= (int)state)
            return true;
    return false;
}

int server_shards_failed(const struct server_shards *s, struct err *e)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->thread[i].status != 0) {
            *e = s->thread[i].error;
            return s->thread[i].status;
        }
    return 0;
}

bool server_shards_all_moved(struct server_shards *s)
{
    bool all = true;
    for (uint32_t i = 0; i < s->count; i++)
        all &= s->thread[i].pulses != s->thread[i].seen;
    for (uint32_t i = 0; all && i < s->count; i++)
        s->thread[i].seen = s->thread[i].pulses;
    return all;
}

bool server_shards_any_moved(struct server_shards *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->count; i++) {
        struct server_thread *m = &s->thread[i];
        uint64_t pulses = m->pulses;
        any |= pulses != m->seen;
        m->seen = pulses;
    }
    return any;
}

uint64_t server_shards_stand_ns(struct server_shards *s, uint64_t now_ns, uint32_t *shard)
{
    uint64_t longest = 0;
    *shard = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        struct server_thread *m = &s->thread[i];
        uint64_t pulses = m->pulses;
        if (m->stands_ns == 0 || pulses != m->stands) {
            m->stands = pulses;
            m->stands_ns = now_ns;
        }
        if (now_ns - m->stands_ns <= longest)
            continue;
        longest = now_ns - m->stands_ns;
        *shard = i;
    }
    return longest;
}

uint32_t server_shards_placed(const struct server_shards *s, enum shard_place place)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        count += s->progress[i].place == (int)place;
    return count;
}

void server_shards_interrupt(struct server_shards *s)
{
    SHOAL_ASSERT(server_shards_all(s, THREAD_OPENED)); /* every thread has its net by now */
    for (uint32_t i = 0; i < s->count; i++)
        if (s->thread[i].net != NULL)
            net_interrupt(s->thread[i].net);
}

void server_shards_end(struct server_shards *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        server_thread_end(&s->thread[i]);
    for (uint32_t i = 0; i < s->count; i++)
        net_free(s->thread[i].net);
    free(s->thread);
    free(s->progress);
}
