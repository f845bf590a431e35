/* tier.c: rows between memory and the store. */
#include "embedding/tier.h"

uint64_t tier_store_memory(const struct engine *g)
{
    return g->options.memory / 8;
}

bool engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    (void)g;
    (void)table;
    (void)keys;
    (void)count;
    return true;
}

const struct table *engine_whole(struct engine *g, uint32_t table, uint32_t tablet, struct err *e)
{
    (void)tablet;
    const struct engine_table *t = engine_slot(g, table);
    if (t == NULL)
        err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", table);
    return t == NULL ? NULL : t->table;
}

int engine_fetch_now(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count, struct err *e)
{
    (void)g;
    (void)table;
    (void)keys;
    (void)count;
    (void)e;
    return 0;
}
