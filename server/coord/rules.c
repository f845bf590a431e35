/* rules.c: counts of rules, shard by shard. */
#include "server/coord/rules.h"

#include <stdio.h>
#include <string.h>

/* As inspect.c calls them (embedding/table.h says what they count). */
static const char *const names[COORD_RULES_COUNTS] = {
    "not_admitted", "admitted", "aged", "expired", "evicted", "blocked", "clipped", "waiting"};

static uint64_t *counts_of(struct coord_rules *r, const char *table)
{
    for (uint32_t i = 0; i < r->tables; i++)
        if (strcmp(r->table[i].table, table) == 0)
            return r->table[i].count;
    if (r->tables == LIMIT_TABLES || strlen(table) >= LIMIT_NAME)
        return NULL;
    (void)snprintf(r->table[r->tables].table, LIMIT_NAME, "%s", table);
    return r->table[r->tables++].count;
}

void coord_rules_add(struct coord_rules *r, const struct json *tables)
{
    for (size_t i = 0; i < json_count(tables); i++) {
        const struct json *item = json_array_at(tables, i);
        const char *table = json_as_string(json_get(item, "name"), NULL);
        uint64_t *count = table == NULL ? NULL : counts_of(r, table);
        for (uint32_t n = 0; count != NULL && n < COORD_RULES_COUNTS; n++) {
            int64_t more = json_as_int(json_get(item, names[n]), 0);
            count[n] += more > 0 ? (uint64_t)more : 0;
        }
    }
}

struct json *coord_rules_json(const struct coord_rules *r, const char *table)
{
    struct json *j = NULL;

    for (uint32_t i = 0; i < r->tables; i++)
        for (uint32_t n = 0; n < COORD_RULES_COUNTS && strcmp(r->table[i].table, table) == 0; n++) {
            if (r->table[i].count[n] == 0)
                continue;
            if (j == NULL)
                j = json_new_object();
            json_set_int(j, names[n], (int64_t)r->table[i].count[n]);
        }
    return j;
}
