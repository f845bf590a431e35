/* sim_rows.c: the row of a key, wherever it is led. */
#include "tests/lib/sim_rows.h"

#include "server/shard/shard.h"

bool cluster_row(const struct cluster *c, uint32_t table, uint64_t key, float *weights)
{
    for (uint32_t i = 0; i < c->options.servers; i++) {
        struct shard *s = c->server[i].shard;
        const struct table *t = s == NULL ? NULL : engine_table(s->engine, table);
        const void *row = t == NULL ? NULL : table_row(t, key);
        if (row == NULL)
            continue;
        table_row_weights(table_schema_of(t), row, weights);
        return true;
    }
    return false;
}
