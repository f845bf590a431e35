/* embedding_stats.h: tables with statistics, one key pushed at a time. */
#ifndef TESTS_LIB_EMBEDDING_STATS_H
#define TESTS_LIB_EMBEDDING_STATS_H

#include "embedding/rows/rules/stats.h"
#include "proto/job/packed.h"
#include "tests/lib/embedding_rows.h"

#define DAY 86400u
#define FIRST_DAY 1700006400u /* a midnight */

/* A schema with Paddle's default scores. */
static inline struct table_schema stats_schema(enum optimizer_kind kind, uint32_t width,
                                               uint32_t tablet_bits)
{
    struct table_schema s = rows_schema(kind, width, tablet_bits);
    s.rules = (struct row_rules){.stats = 1, .score_show = 0.1f, .score_click = 1};
    return s;
}

struct stats_batch { /* the arguments of a push, beside keys and gradients */
    uint32_t time, lane;
    uint64_t batch, undo_clock;
};

static inline struct push_args stats_args(const struct table_schema *s, struct stats_batch b)
{
    return (struct push_args){.lr_scale = 1,
                              .batch = b.batch,
                              .step = 1,
                              .undo_clock = b.undo_clock,
                              .event_time = b.time,
                              .lane = b.lane,
                              .tablet_count = 1u << s->tablet_bits};
}

/* Pushes one key with every gradient g, and with shows and clicks if the table has them. */
static inline void stats_push(struct rows *r, uint64_t key, float g, float show, float click,
                              struct stats_batch b)
{
    const struct table_schema *s = table_schema_of(r->table);
    float values[64];
    struct push_args args = stats_args(s, b);
    ck_assert_uint_le(schema_push_floats(s), 64);
    for (uint32_t i = 0; i < s->width; i++)
        values[i] = g;
    if (s->rules.stats != 0) {
        values[s->width] = show;
        values[s->width + 1] = click;
    }
    ck_assert(table_stats_ok(s, PACKED_NOT, values, 1));
    ck_assert_int_eq(table_push(r->table, &key, values, 1, &args), 0);
}

static inline void stats_tick(struct rows *r, uint32_t time)
{
    struct push_args args =
        stats_args(table_schema_of(r->table), (struct stats_batch){.time = time});
    ck_assert_int_eq(table_push(r->table, NULL, NULL, 0, &args), 0);
}

static inline bool stats_has(const struct rows *r, uint64_t key)
{
    return table_row(r->table, key) != NULL;
}

static inline struct row_stats stats_of(const struct rows *r, uint64_t key)
{
    const char *row = table_row(r->table, key);
    ck_assert_ptr_nonnull(row);
    return stats_read((const float *)(const void *)(row + sizeof key) +
                      schema_stats_at(table_schema_of(r->table)));
}

static inline float stats_weight(const struct rows *r, uint64_t key, uint32_t i)
{
    float weights[64];
    ck_assert_uint_le(table_schema_of(r->table)->width, 64);
    table_pull(r->table, &key, 1, weights);
    return weights[i];
}

/* Copies the whole table through its images into a new one. */
static inline struct rows stats_through_images(const struct rows *r)
{
    struct rows to = rows_open(table_schema_of(r->table));
    for (uint32_t i = 0; i < 1u << table_schema_of(r->table)->tablet_bits; i++) {
        size_t bytes = table_image_bytes(r->table, i);
        void *image = malloc(bytes);
        struct err e = {0};
        table_image_write(r->table, i, image);
        ck_assert_msg(table_image_read(to.table, i, image, bytes, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(table_image_bytes(to.table, i), bytes);
        free(image);
    }
    return to;
}

#endif
