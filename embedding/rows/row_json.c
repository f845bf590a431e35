/* row_json.c: a row's parts by name. */
#include "embedding/row_json.h"

#include "embedding/rows/key_names.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/key.h"

#include <string.h>

static struct json *floats(const float *x, uint32_t count)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < count; i++)
        json_append_number(list, (double)x[i]);
    return list;
}

static struct json *stats_json(const struct row_rules *rules, const float *at)
{
    struct row_stats s;
    struct json *j = json_new_object();
    memcpy(&s, at, sizeof s);
    json_set_number(j, "show", (double)s.show);
    json_set_number(j, "click", (double)s.click);
    json_set_number(
        j, "score",
        (double)(rules->score_show * (s.show - s.click) + rules->score_click * s.click));
    if (s.time != 0)
        json_set_int(j, "time", s.time);
    else
        json_set_null(j, "time");
    json_set_bool(j, "has_vector", rules->vector_score == 0 || (s.flags & ROW_HAS_VECTOR) != 0);
    return j;
}

struct json *row_json(const struct table *t, const struct table *own, uint64_t key,
                      const char *shard, bool stored, bool *found)
{
    const struct table_schema *s = table_schema_of(t);
    const char *row = table_row(t, key);
    struct json *j = json_new_object();
    *found = row != NULL;
    json_set_hex(j, "key", key);
    json_set_int(j, "field", key_field(key));
    json_set_string(j, "table", s->name);
    json_set_string(j, "values", schema_values_name(s));
    json_set_int(j, "tablet", key_tablet(key_mix(key), s->tablet_bits));
    json_set_string(j, "shard", shard);
    json_set_bool(j, "found", row != NULL);
    if (row != NULL) {
        float weights[LIMIT_WIDTH];
        const float *state = table_row_state(s, row);
        uint32_t state_end = schema_row_floats(s), begin = schema_weight_floats(s);
        if (s->rules.stats)
            state_end = schema_stats_at(s);
        table_row_weights(s, row, weights);
        json_set(j, "weights", floats(weights, s->width));
        json_set(j, "state", floats(state, state_end - begin));
        if (s->rules.stats)
            json_set(j, "stats", stats_json(&s->rules, state + (state_end - begin)));
        json_set_string(j, "tier", stored ? "store" : "memory");
    } else {
        float weights[LIMIT_WIDTH];
        table_pull(t, &key, 1, weights);
        json_set(j, "weights", floats(weights, s->width));
        json_set(j, "state", json_new_array());
        const struct tablet_life *life = t->tablets[key_tablet(key_mix(key), s->tablet_bits)].life;
        struct waiting_key waits;
        if (life != NULL)
            waits = waiting_find(&life->waiting, key);
        else
            waits = (struct waiting_key){0};
        if (waits.show > 0)
            json_set_number(j, "waiting", (double)waits.show);
    }
    if (key_names_of(own, key) != NULL)
        json_set_string(j, "named", key_names_of(own, key));
    return j;
}
