/* embedding_cool.c: moves rows to the store and back by hand. */
#include "tests/lib/embedding_cool.h"

#include "embedding/engine/engine_state.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct putting {
    struct store *store;
    const struct table *table;
    uint32_t tablet;
};

static int put(void *context, uint64_t key, const void *row, size_t row_bytes, uint32_t clock)
{
    const struct putting *p = context;
    struct store_item item;
    char *value = malloc(row_bytes + sizeof clock);
    memcpy(value, row, row_bytes);
    memcpy(value + row_bytes, &clock, sizeof clock);
    stored_row_key(table_schema_of(p->table)->table, p->tablet,
                   table_cold_epoch(p->table, p->tablet), key, &item);
    item.value = value;
    item.value_bytes = row_bytes + sizeof clock;
    int rc = store_write(p->store, &item, 1, NULL);
    free(value);
    return rc;
}

void cool_tablet(struct table *t, uint32_t tablet, uint32_t most, struct store *store)
{
    struct putting p = {store, t, tablet};
    uint32_t chosen, count;
    ck_assert_int_eq(table_cold_choose(t, tablet, most, put, &p, &chosen), 0);
    ck_assert_int_eq(table_cold_drop(t, tablet, &count), 0);
    ck_assert_uint_eq(chosen, count);
}

void cool_table(struct rig *s, uint32_t table, uint32_t share)
{
    struct engine_table *t = engine_slot(s->g, table);
    for (uint32_t k = 0; k < t->scope.tablets; k++) {
        uint64_t rows = table_tablet_rows(t->table, k) - table_cold_tablet(t->table, k);
        if (rows == 0)
            continue;
        cool_tablet(t->table, k, (uint32_t)(rows * share / 16), s->g->store);
        engine_touch(t, k, 1, NULL, s->g->committed);
    }
}

uint64_t *cool_keys(struct rig *s, uint32_t table, uint32_t tablet, uint32_t *count)
{
    const struct table *t = engine_table(s->g, table);
    *count = table_cold_tablet(t, tablet);
    uint64_t *keys = malloc((*count + 1) * sizeof *keys);
    ck_assert_ptr_nonnull(keys);
    table_cold_keys(t, tablet, keys);
    return keys;
}

uint64_t cool_key(struct rig *s, uint32_t table, uint32_t tablet)
{
    uint32_t count;
    uint64_t *keys = cool_keys(s, table, tablet, &count), key;
    ck_assert_uint_gt(count, 0);
    key = keys[count / 2];
    free(keys);
    return key;
}

void cool_fetch(struct rig *s, uint32_t table, const uint64_t *keys, uint32_t count)
{
    struct table *t = engine_table(s->g, table);
    const struct table_schema *schema = table_schema_of(t);
    size_t bytes = table_cold_bytes(t), size;
    char *value = malloc(bytes);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tablet = key_tablet(key_mix(keys[i]), schema->tablet_bits);
        struct store_item item;
        if (!table_cold_has(t, keys[i]))
            continue;
        stored_row_key(table, tablet, table_cold_epoch(t, tablet), keys[i], &item);
        ck_assert_int_eq(store_get(s->g->store, &item, 1, value, bytes, &size, NULL), 0);
        ck_assert_uint_eq(size, bytes);
        ck_assert_int_eq(table_cold_take(t, keys[i], value, bytes), 0);
    }
    free(value);
}

uint64_t cool_digest(struct rig *s)
{
    uint64_t sum = 0;
    for (uint32_t table = 0; table < LIMIT_TABLES; table++)
        for (uint32_t k = 0; engine_table(s->g, table) != NULL && k < 1u << SHARD_TABLET_BITS;
             k++) {
            struct err e = {0};
            uint64_t digest;
            const struct table *t = engine_whole(s->g, table, k, &e);
            ck_assert_msg(t != NULL, "%s", e.text);
            ck_assert_int_eq(table_digest(t, k, &digest), 0);
            sum = hash_bytes(&digest, sizeof digest, sum);
        }
    return sum;
}
