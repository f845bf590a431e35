/* ages.c: the ages of gradients; ages.h. */
#include "server/shard/ages.h"

#include "proto/base/json.h"
#include "proto/base/minmax.h"

#include <string.h>

uint32_t ages_of(const struct engine *g, const struct push_record *r)
{
    if (r->clock == 0)
        return 0;
    uint64_t now = engine_steps(g, r->run, r->table), age = SAT_SUB(now, r->clock);
    return (uint32_t)MIN(age, UINT32_MAX);
}

void ages_count(struct ages *a, const struct push_record *r)
{
    struct ages_table *t = &a->table[r->table];
    if (r->clock == 0 || r->key_count == 0 || r->run < t->run)
        return;
    if (r->run > t->run) {
        memset(t->cell, 0, sizeof t->cell);
        t->run = r->run;
    }
    t->cell[MIN(r->age, AGES_CELLS - 1)]++;
    t->pushes++;
    t->steps += r->age;
}

void ages_set(struct json *to, const struct ages_table *t)
{
    uint32_t last = AGES_CELLS;
    while (last > 0 && t->cell[last - 1] == 0)
        last--;
    if (last == 0)
        return;
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < last; i++)
        json_append(list, json_new_int((int64_t)t->cell[i]));
    json_set_int(to, "ages_run", (int64_t)t->run);
    json_set(to, "ages", list);
}
