/* table.c: a table's life, single rows, and its digest. The walks are in pull.c and push.c, images
 * in image.c. */
#include "embedding/rows/table_cold.h"
#include "embedding/rows/table_inner.h"

#include "embedding/rows/init.h"
#include "embedding/rows/rules.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t round_up_8(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* True when pushes change rows by more than the optimizer, or some keys get no row. */
static bool has_rules(const struct table_schema *s)
{
    const struct row_rules *r = &s->rules;
    bool asks = r->admit_kind != ADMIT_ALL;
    for (uint32_t i = 0; i < s->field_rule_count; i++)
        asks |= (s->field_rule[i].has & FIELD_HAS_ADMIT) != 0 &&
                s->field_rule[i].admit_kind != ADMIT_ALL;
    return asks || r->stats != 0 || r->weight_max > 0 || (r->norm_max > 0 && r->norm_refuse == 0);
}

void table_derive(struct table *t)
{
    const struct table_schema *s = &t->schema;
    t->optimizer = optimizer_of(s, t->isa);
    t->weight_max = half_bound((enum value_kind)s->values, s->rules.weight_max);
    SHOAL_ASSERT(t->weight_max <= s->rules.weight_max);
    t->ruled = has_rules(s);
    t->ages = s->rules.stats != 0 || s->rules.age_every > 0;
}

int table_new(const struct table_schema *schema, struct arena *arena, struct table **out,
              struct err *e)
{
    int rc = schema_check(schema, e);
    if (rc != 0)
        return rc;
    uint32_t floats = schema_row_floats(schema), tablet_count = 1u << schema->tablet_bits;
    uint32_t wide_floats = schema->width + schema_state_floats(schema);
    bool halves = schema->values != VALUES_FP32;
    struct table *t = calloc(1, sizeof *t);
    struct tablet *tablets = malloc(tablet_count * sizeof *tablets);
    uint64_t whole_row_bytes = round_up_8(sizeof(uint64_t) + floats * sizeof(float));
    uint64_t *whole_row = calloc(1, whole_row_bytes);
    float *pulled_back = NULL;
    if (schema_has_last(schema))
        pulled_back = calloc(schema->width, sizeof *pulled_back);

    float *changed = calloc(schema->width, sizeof *changed),
          *fresh = calloc(wide_floats, sizeof *fresh);
    float *wide = NULL;
    if (halves)
        wide = aligned_alloc(64, (wide_floats * sizeof *wide + 63) / 64 * 64);

    if (t == NULL || tablets == NULL || whole_row == NULL ||
        (schema_has_last(schema) && pulled_back == NULL) || changed == NULL || fresh == NULL ||
        (halves && wide == NULL)) {
        free(t);
        free(tablets);
        free(whole_row);
        free(pulled_back);
        free(changed);
        free(fresh);
        free(wide);
        return err_set(e, SHOAL_E_NOMEM, "table %s: no memory for %u tablets", schema->name,
                       tablet_count);
    }
    t->schema = *schema;
    tablet_shape_init(&t->shape, arena, &t->taken, schema->tablet_bits, floats);
    t->isa = isa_best();
    t->tablets = tablets;
    t->tablet_count = tablet_count;
    t->whole_row_bytes = whole_row_bytes;
    t->whole_row = whole_row;
    t->pulled_back = pulled_back;
    t->changed = changed;
    t->fresh = fresh;
    t->wide = wide;
    t->state_floats = schema_state_floats(schema);
    if (halves)
        t->half = half_row_of((enum value_kind)schema->values, t->isa, schema->width);
    table_derive(t);
    t->push_floats = schema_push_floats(schema);
    t->stats_at = 0;
    if (schema->rules.stats != 0)
        t->stats_at = schema_stats_at(schema);
    t->wide_stats_at = t->stats_at + (wide_floats - floats);
    if (schema->rules.stats != 0)
        t->last_at = t->wide_stats_at - 1;
    else
        t->last_at = wide_floats - 1;
    SHOAL_ASSERT(t->last_at < wide_floats && wide_floats >= floats);
    SHOAL_ASSERT(schema->rules.stats == 0 ||
                 t->stats_at + sizeof(struct row_stats) / sizeof(float) == floats);
    for (uint32_t i = 0; i < tablet_count; i++)
        tablet_init(&tablets[i]);
    *out = t;
    return 0;
}

void table_free(struct table *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->tablet_count; i++)
        table_clear(t, i);
    SHOAL_ASSERT(t->rows == 0 && t->cold == 0 && t->taken == 0); /* sums over tablets */
    free(t->tablets);
    free(t->whole_row);
    free(t->pulled_back);
    free(t->changed);
    free(t->fresh);
    free(t->wide);
    free(t);
}

/* Runs are few and have close numbers, so key_mix spreads them; one clock in 2^64 has the name of
 * another run's clock. */
uint64_t table_undo_clock(uint64_t run, uint64_t clock)
{
    uint64_t name = key_mix(run) + clock;
    return name == 0 ? 1 : name;
}

const struct table_schema *table_schema_of(const struct table *t)
{
    return &t->schema;
}

uint64_t table_rows(const struct table *t)
{
    return t->rows + t->cold;
}

uint64_t table_taken(const struct table *t)
{
    return t->taken;
}

uint64_t table_row_bytes(const struct table *t)
{
    return t->whole_row_bytes;
}

uint64_t table_reach(const struct table *t)
{
    return (uint64_t)(UINT32_MAX >> t->shape.place_bits) * ARENA_UNIT_BYTES;
}

uint64_t table_tablet_rows(const struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    return t->tablets[tablet].row_count + (uint64_t)table_cold_tablet(t, tablet);
}

uint64_t table_tablet_memory(const struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    const struct tablet *own = &t->tablets[tablet];
    uint64_t index = 0;
    if (own->page_count > 0)
        index = own->bucket_count * (uint64_t)sizeof(struct bucket);
    return index + own->page_count * (uint64_t)t->shape.page_units * ARENA_UNIT_BYTES +
           cold_set_bytes(own->cold);
}

float *table_insert(struct table *t, uint32_t tablet, uint64_t key)
{
    SHOAL_VERIFY_ASSERT(!table_cold_has(t, key)); /* cold.c, 1 */
    float *row = tablet_insert(&t->tablets[tablet], &t->shape, tablet, key);
    if (row == NULL)
        return NULL;
    t->rows++;
    rules_row_begin(t, key, row);
    return row;
}

void table_absent(const struct table *t, const struct tablet *tablet, uint64_t key, float *weights)
{
    if (schema_absent_zero(&t->schema, key_field(key)) ||
        (tablet->life != NULL && named_blocked(&tablet->life->named, key)))
        memset(weights, 0, t->schema.width * sizeof *weights);
    else
        table_initial(t, key, weights);
}

void table_initial(const struct table *t, uint64_t key, float *weights)
{
    init_weights(&t->schema, key, weights);
    half_nearest((enum value_kind)t->schema.values, weights, t->schema.width);
}

void table_close_new(const struct table *t, float *row)
{
    if (t->wide != NULL)
        half_row_close_nearest((enum value_kind)t->schema.values, row, t->wide, t->schema.width,
                               t->state_floats);
}

void table_row_weights(const struct table_schema *s, const void *row, float *weights)
{
    half_widen((enum value_kind)s->values, (const char *)row + sizeof(uint64_t), weights, s->width);
}

const float *table_row_state(const struct table_schema *s, const void *row)
{
    return (const float *)(const void *)((const char *)row + sizeof(uint64_t)) +
           schema_weight_floats(s);
}

struct tablet_life *table_life(struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    struct tablet *own = &t->tablets[tablet];
    if (own->life == NULL)
        own->life = life_new();
    return own->life;
}

void table_counts_get(const struct table *t, struct table_counts *out)
{
    *out = t->counts;
    for (uint32_t i = 0; i < t->tablet_count; i++) {
        const struct tablet_life *l = t->tablets[i].life;
        out->beside_bytes += cold_beside_bytes(t->tablets[i].cold) + undo_bytes(t->tablets[i].undo);
        if (l == NULL)
            continue;
        out->waiting += waiting_count(&l->waiting) + l->sketch.keys[0] + l->sketch.keys[1];
        out->beside_bytes += sizeof *l + waiting_bytes(&l->waiting) + sketch_bytes(&l->sketch) +
                             l->named.count * sizeof *l->named.list;
    }
}

void table_clear(struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    SHOAL_ASSERT(t->rows >= t->tablets[tablet].row_count &&
                 t->cold >= table_cold_tablet(t, tablet));
    t->rows -= t->tablets[tablet].row_count;
    t->cold -= table_cold_tablet(t, tablet);
    tablet_clear(&t->tablets[tablet], &t->shape);
}

/* The bytes behind the last float stay zero from table_new on. */
static const void *whole_row(const struct table *t, uint64_t key, const float *row)
{
    t->whole_row[0] = key;
    memcpy(t->whole_row + 1, row, t->shape.row_bytes);
    return t->whole_row;
}

/* A loop without an early exit, which the compiler can vectorize. */
static bool all_finite(const float *x, uint32_t count)
{
    uint32_t worst = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        worst |= (bits & 0x7f800000) == 0x7f800000;
    }
    return worst == 0;
}

static bool row_finite(const struct table_schema *s, const void *row)
{
    float weights[LIMIT_WIDTH];
    const float *state = table_row_state(s, row);
    uint32_t floats = schema_state_floats(s);
    if (s->rules.stats != 0) { /* times and flags follow */
        struct row_stats stats;
        memcpy(&stats, (const char *)row + sizeof(uint64_t) + 4ull * schema_stats_at(s),
               sizeof stats);
        floats -= (uint32_t)(sizeof stats / sizeof(float));
        if (!isfinite(stats.show) || !isfinite(stats.click) || !isfinite(stats.delta_score))
            return false;
    }
    if (schema_has_last(s)) /* a count of batches */
        floats--;
    table_row_weights(s, row, weights);
    return all_finite(weights, s->width) && all_finite(state, floats);
}

bool table_finite_rows(const struct table *t, const struct tablet *own, uint64_t *bad)
{
    const struct table_schema *s = &t->schema;
    bool plain = t->wide == NULL && s->rules.stats == 0 && !schema_has_last(s);
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++) {
            const float *row = row_at(&t->shape, own->buckets[b].row[i]);
            *bad = own->buckets[b].key[i];
            if (plain ? !all_finite(row, s->width + t->state_floats)
                      : !row_finite(s, whole_row(t, *bad, row)))
                return false;
        }
    return true;
}

bool table_finite(const struct table *t, uint32_t tablet, uint64_t *bad)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    return table_finite_rows(t, &t->tablets[tablet], bad);
}

const void *table_row(const struct table *t, uint64_t key)
{
    const float *row = tablet_find(table_tablet(t, key_mix(key)), &t->shape, key);

    if (row == NULL)
        return NULL;

    return whole_row(t, key, row);
}

void table_visit(const struct table *t, uint32_t tablet,
                 void (*visit)(void *context, const void *row), void *context)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    const struct tablet *own = &t->tablets[tablet];
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++)
            visit(context,
                  whole_row(t, own->buckets[b].key[i], row_at(&t->shape, own->buckets[b].row[i])));
}

struct key_row {
    uint64_t key;
    uint32_t row;
};

static int key_row_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct key_row *)a)->key, y = ((const struct key_row *)b)->key;
    return (x > y) - (x < y);
}

int table_digest(const struct table *t, uint32_t tablet, uint64_t *out)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    const struct tablet *own = &t->tablets[tablet];
    *out = 0;
    if (own->row_count == 0)
        return 0;
    struct key_row *list = malloc(own->row_count * sizeof *list);
    struct hash_stream *hash = hash_stream_new();
    if (list == NULL || hash == NULL) {
        free(list);
        hash_stream_free(hash);
        return SHOAL_E_NOMEM;
    }
    uint32_t n = 0;
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++)
            list[n++] = (struct key_row){own->buckets[b].key[i], own->buckets[b].row[i]};
    SHOAL_ASSERT(n == own->row_count);
    qsort(list, n, sizeof *list, key_row_compare);
    hash_stream_reset(hash, 0);
    for (uint32_t i = 0; i < n; i++)
        hash_stream_add(hash, whole_row(t, list[i].key, row_at(&t->shape, list[i].row)),
                        t->whole_row_bytes);
    *out = hash_stream_value(hash);
    free(list);
    hash_stream_free(hash);
    return 0;
}
