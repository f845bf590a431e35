/* embedding_fleet.c: several engines as one cluster. */
#include "tests/lib/embedding_fleet.h"

#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint16_t shard_of_tablet(const struct fleet *f, const struct table_schema *s,
                                uint32_t tablet)
{
    return (uint16_t)((uint64_t)tablet * f->shards >> s->tablet_bits);
}

static void lead(struct fleet *f)
{
    static uint16_t map[LIMIT_TABLES * 64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->tables; i++)
        for (uint32_t k = 0; k < 1u << f->schema[i].tablet_bits; k++) {
            map[f->schema[i].tablet_first + k] = shard_of_tablet(f, &f->schema[i], k);
            if (f->schema[i].tablet_first + k >= count)
                count = f->schema[i].tablet_first + k + 1;
        }
    for (uint32_t i = 0; i < f->shards; i++)
        ck_assert_int_eq(engine_lead(f->s[i].g, map, count, (uint16_t)i), 0);
}

static void open_shards(struct fleet *f)
{
    for (uint32_t i = 0; i < f->shards; i++) {
        char dir[LIMIT_PATH + 16];
        struct err e = {0};
        snprintf(dir, sizeof dir, "%s/%u", f->dir, i);
        int rc = rig_try_open_sized(&f->s[i], f->dir[0] != '\0' ? dir : NULL, f->durability,
                                    1u << 20, &e);
        ck_assert_msg(rc == 0, "shard %u: %s", i, e.text);
    }
    lead(f);
}

void fleet_open(struct fleet *f, uint32_t shards, const char *dir, enum durability durability)
{
    memset(f, 0, sizeof *f);
    f->shards = shards;
    f->durability = durability;
    if (dir != NULL)
        snprintf(f->dir, sizeof f->dir, "%s", dir);
    open_shards(f);
}

void fleet_reopen(struct fleet *f)
{
    open_shards(f);
}

void fleet_close(struct fleet *f, bool flush_all)
{
    for (uint32_t i = 0; i < f->shards; i++)
        rig_close(&f->s[i], flush_all);
}

struct table_schema fleet_schema(uint32_t number)
{
    struct table_schema s = rig_schema(number);
    if (number == 1)
        s.optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.1f, .l2 = 1e-4f};
    return s;
}

void fleet_table(struct fleet *f, const struct table_schema *schema)
{
    for (uint32_t i = 0; i < f->shards; i++) {
        struct err e = {0};
        ck_assert_msg(engine_table_create(f->s[i].g, schema, &e) == 0, "%s", e.text);
    }
    f->schema[f->tables++] = *schema;
    lead(f);
}

void fleet_tables(struct fleet *f)
{
    for (uint32_t i = 0; i < FLEET_TABLES; i++) {
        struct table_schema s = fleet_schema(i);
        fleet_table(f, &s);
    }
}

void fleet_run_open(struct fleet *f, uint64_t run, uint32_t lanes, uint32_t mode)
{
    for (uint32_t i = 0; i < f->shards; i++)
        ck_assert_int_eq(engine_run_open(f->s[i].g, run, lanes, mode, NULL), 0);
}

static const struct table_schema *schema_of(const struct fleet *f, uint32_t table)
{
    uint32_t i = 0;
    while (f->schema[i].table != table)
        ck_assert_uint_lt(++i, f->tables);
    return &f->schema[i];
}

/* Gets the shard's share of a push: its tablets and keys. */
static void cut_push(const struct fleet *f, const struct rig_push *all, uint32_t shard,
                     struct rig_push *out)
{
    const struct table_schema *s = schema_of(f, all->record.table);
    uint32_t tablets = 1u << s->tablet_bits, first = tablets, end = 0;
    for (uint32_t k = 0; k < tablets; k++)
        if (shard_of_tablet(f, s, k) == shard) {
            first = k < first ? k : first;
            end = k + 1;
        }
    out->record = all->record;
    out->record.tablet_first = first;
    out->record.tablet_count = end - first;
    out->record.key_count = 0;
    for (uint32_t i = 0; i < all->record.key_count; i++) {
        uint32_t tablet = key_tablet(key_mix(all->keys[i]), s->tablet_bits);
        if (tablet < first || tablet >= end)
            continue;
        uint32_t at = out->record.key_count++;
        out->keys[at] = all->keys[i];
        memcpy(out->gradients + at * SHARD_WIDTH, all->gradients + i * SHARD_WIDTH,
               SHARD_WIDTH * sizeof(float));
    }
    out->record.keys = out->keys;
    out->record.gradients = out->gradients;
}

int fleet_push_some(struct fleet *f, uint64_t run, uint32_t table, uint32_t lane, uint64_t from,
                    uint64_t to, uint32_t first, uint32_t count)
{
    static struct rig_push all, share;
    struct push_plan plan;
    rig_push_make(&all, run, table, lane, 0, from, to);
    int refused = 0;
    for (uint32_t i = first; i < first + count && i < f->shards; i++) {
        cut_push(f, &all, i, &share);
        int rc = rig_push(&f->s[i], &share, &plan);
        for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
            embedding_env_run(&f->s[i].env);
            rc = rig_push(&f->s[i], &share, &plan);
        }
        refused = refused == 0 ? rc : refused;
        engine_flush_step(f->s[i].g);
    }
    return refused;
}

void fleet_run(struct fleet *f)
{
    for (uint32_t i = 0; i < f->shards; i++)
        embedding_env_run(&f->s[i].env);
}

void fleet_train(struct fleet *f, uint64_t run, uint32_t lane, uint64_t from, uint64_t to)
{
    for (uint64_t batch = from; batch < to; batch++) {
        for (uint32_t table = 0; table < FLEET_TABLES; table++)
            ck_assert_int_eq(fleet_push_some(f, run, table, lane, batch, batch + 1, 0, f->shards),
                             0);
        fleet_run(f);
    }
}

struct answers {
    uint32_t calls;
    int status;
    uint64_t rows;
    char *text, *notes;
};

static void gone(void *context, int status, uint64_t rows, uint64_t bytes)
{
    struct answers *a = context;
    (void)rows, (void)bytes;
    a->calls++;
    a->status = a->status == 0 ? status : a->status;
}

void fleet_cut(struct fleet *f, uint64_t cut)
{
    uint64_t sequence;
    struct answers a = {0};
    for (uint32_t i = 0; i < f->shards; i++)
        ck_assert_int_eq(engine_hold(f->s[i].g, cut, engine_newest_run(f->s[i].g), &sequence), 0);
    for (uint32_t i = 0; i < f->shards; i++)
        ck_assert_int_eq(engine_go(f->s[i].g, cut, gone, &a), 0);
    fleet_run(f);
    ck_assert_uint_eq(a.calls, f->shards);
    ck_assert_int_eq(a.status, 0);
}

static void take(struct answers *a, int status, const char *text)
{
    a->calls++;
    if (a->status == 0 && status != 0 && a->text != NULL)
        snprintf(a->text, ERR_TEXT_MAX, "%s", text);
    if (a->status == 0)
        a->status = status;
}

static void exported(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)bytes;
    take(context, status, text);
    ((struct answers *)context)->rows += rows;
}

int fleet_export(struct fleet *f, uint64_t cut, const char *path, char *text)
{
    struct answers a = {.text = text};
    (void)mkdir(path, 0700); /* as the coordinator does */
    for (uint32_t i = 0; i < f->shards; i++) {
        struct err e = {0};
        int rc = engine_cut_export(f->s[i].g, cut, path, i, f->shards, exported, &a, &e);
        if (rc != 0)
            take(&a, rc, e.text);
    }
    fleet_run(f);
    ck_assert_uint_eq(a.calls, f->shards);
    return a.status;
}

int fleet_export_one(struct fleet *f, uint64_t cut, uint32_t shard, const char *path, char *text)
{
    struct answers a = {.text = text};
    struct err e = {0};
    (void)mkdir(path, 0700);
    int rc = engine_cut_export(f->s[shard].g, cut, path, 0, 1, exported, &a, &e);
    if (rc != 0)
        take(&a, rc, e.text);
    fleet_run(f);
    ck_assert_uint_eq(a.calls, 1);
    return a.status;
}

static void loaded(void *context, int status, const char *text, uint64_t rows)
{
    struct answers *a = context;
    take(a, status, text);
    a->rows += rows;
    if (status == 0 && a->notes != NULL)
        snprintf(a->notes, 4096, "%s", text);
}

int fleet_load(struct fleet *f, const char *path, uint64_t run, char *notes, uint64_t *rows)
{
    struct answers a = {.text = notes, .notes = notes};
    for (uint32_t i = 0; i < f->shards; i++) {
        struct err e = {0};
        struct engine_load_options o = {.path = path, .run = run};
        int rc = engine_load(f->s[i].g, &o, loaded, &a, &e);
        if (rc != 0)
            take(&a, rc, e.text);
    }
    fleet_run(f);
    ck_assert_uint_eq(a.calls, f->shards);
    if (rows != NULL)
        *rows = a.rows;
    return a.status;
}

uint64_t fleet_digest(struct fleet *f, uint32_t table)
{
    const struct table_schema *s = schema_of(f, table);
    uint64_t digest[64];
    for (uint32_t k = 0; k < 1u << s->tablet_bits; k++)
        ck_assert_int_eq(
            table_digest(engine_table(f->s[shard_of_tablet(f, s, k)].g, table), k, &digest[k]), 0);
    return hash_bytes(digest, sizeof digest[0] << s->tablet_bits, 0);
}

struct list {
    char *row;
    size_t row_bytes, count;
};

static void add_row(void *context, const void *row)
{
    struct list *l = context;
    memcpy(l->row + l->count++ * l->row_bytes, row, l->row_bytes);
}

static int by_key(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

uint64_t fleet_rows_digest(struct fleet *f, uint32_t table)
{
    struct list l = {.row_bytes = table_row_bytes(engine_table(f->s[0].g, table))};
    l.row = malloc((fleet_rows(f, table) + 1) * l.row_bytes);
    ck_assert_ptr_nonnull(l.row);
    for (uint32_t i = 0; i < f->shards; i++) {
        const struct table *t = engine_table(f->s[i].g, table);
        for (uint32_t k = 0; k < 1u << table_schema_of(t)->tablet_bits; k++)
            table_visit(t, k, add_row, &l);
    }
    qsort(l.row, l.count, l.row_bytes, by_key);
    uint64_t digest = hash_bytes(l.row, l.count * l.row_bytes, 0);
    free(l.row);
    return digest;
}

uint64_t fleet_rows(struct fleet *f, uint32_t table)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < f->shards; i++)
        rows += table_rows(engine_table(f->s[i].g, table));
    return rows;
}

void fleet_marks(struct fleet *f, uint64_t run, uint32_t lane, uint32_t table, uint64_t *low,
                 uint64_t *high)
{
    const struct table_schema *s = schema_of(f, table);
    *low = UINT64_MAX;
    *high = 0;
    for (uint32_t k = 0; k < 1u << s->tablet_bits; k++) {
        uint64_t mark = engine_mark_range(f->s[shard_of_tablet(f, s, k)].g, run, lane, table, k, 1);
        *low = mark < *low ? mark : *low;
        *high = mark > *high ? mark : *high;
    }
}
