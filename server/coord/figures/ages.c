/* ages.c: the ages of a job's gradients; ages.h. */
#include "server/coord/figures/ages.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/figures/trace.h"

#include <stdio.h>
#include <string.h>

static struct coord_ages_table *table_of(struct coord_ages *a, const char *table)
{
    SHOAL_ASSERT(a->tables <= LIMIT_TABLES);
    for (uint32_t i = 0; i < a->tables; i++)
        if (strcmp(a->table[i].table, table) == 0)
            return &a->table[i];
    if (a->tables == LIMIT_TABLES || strlen(table) >= LIMIT_NAME)
        return NULL;
    text_copy(a->table[a->tables].table, LIMIT_NAME, table);
    return &a->table[a->tables++];
}

void coord_ages_add(struct coord_ages *a, const struct json *tables, uint64_t run)
{
    for (size_t i = 0; i < json_count(tables); i++) {
        const struct json *item = json_array_at(tables, i), *ages = json_get(item, "ages");
        const char *name = json_get_string(item, "name", NULL);
        struct coord_ages_table *t = NULL;
        if (name != NULL && json_count(ages) > 0 &&
            json_get_int(item, "ages_run", 0) >= (int64_t)run)
            t = table_of(a, name);
        for (size_t n = 0; t != NULL && n < json_count(ages); n++) {
            int64_t more = json_as_int(json_array_at(ages, n), 0);
            t->cell[MIN(n, COORD_AGES - 1)] += (uint64_t)MAX(more, 0);
        }
    }
}

static struct json *cells_json(const uint64_t *cell)
{
    uint64_t pushes = 0, steps = 0;
    for (uint32_t i = 0; i < COORD_AGES; i++) {
        pushes += cell[i];
        steps += i * cell[i];
    }
    struct json *j = json_new_object();
    json_set_int(j, "pushes", (int64_t)pushes);
    json_set_int(j, "p50", coord_trace_quantile(cell, COORD_AGES, 0.5));
    json_set_int(j, "p99", coord_trace_quantile(cell, COORD_AGES, 0.99));
    json_set_int(j, "max", coord_trace_quantile(cell, COORD_AGES, 1.0));
    json_set_number(j, "mean", pushes > 0 ? (double)steps / (double)pushes : 0);
    return j;
}

struct json *coord_ages_json(const struct coord_ages *a, const char *table)
{
    for (uint32_t i = 0; i < a->tables; i++)
        if (strcmp(a->table[i].table, table) == 0)
            return cells_json(a->table[i].cell);
    return NULL;
}
