/* test_cold_load.c: checkpoints with rows in memory and in the store, read by tools, and loaded
 * within a memory budget that is too small for them; kills during a load, and a load that is
 * dropped. SHOAL_KILL_POINTS (5): as in test_cold_restore.c. */
#include "embedding/checkpoint.h"
#include "embedding/checkpoint/load.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/cold.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_digest.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/kill_step.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BATCHES 150u

static char dir[LIMIT_PATH], save_dir[LIMIT_PATH + 8], load_dir[LIMIT_PATH + 8],
    path[LIMIT_PATH + 8];
static struct rig s;

static struct shared {
    uint64_t digest, rows;
    long steps;
    int loaded; /* 1: the load has been answered */
} * shared;

struct outcome {
    int calls, status;
    uint64_t rows;
    char text[1024];
};

static void told(struct outcome *o, int status, const char *text)
{
    o->calls++;
    o->status = status;
    snprintf(o->text, sizeof o->text, "%s", text);
}

static void exported(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    told(context, status, text);
}

static void loaded(void *context, int status, const char *text, uint64_t rows)
{
    told(context, status, text);
    ((struct outcome *)context)->rows = rows;
}

static void dropped(void *context, int status, const char *text)
{
    told(context, status, text);
}

struct saving {
    uint64_t memory;
    bool ages;
};

/* Makes a checkpoint of cut 5, with rows in images, in the store and in records. */
static void save_child(void *context)
{
    const struct saving *how = context;
    struct err e = {0};
    struct outcome out = {0};
    thin_open_trained(&s, save_dir, how->memory, BATCHES, how->ages);
    ck_assert_int_eq(table_cold_rows(engine_table(s.g, 0)) > 10000, how->memory != 0);
    shared->digest = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, BATCHES, BATCHES + 20, how->ages);
    ck_assert_int_eq(engine_cut_export(s.g, 5, path, 0, 1, exported, &out, &e), 0);
    embedding_env_run(&s.env);
    ck_assert_msg(out.calls == 1 && out.status == 0, "%s", out.text);
    rig_close(&s, false);
}

static void save(uint64_t memory, bool ages)
{
    rig_in_child(save_child, &(struct saving){memory, ages});
}

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    memset(shared, 0, sizeof *shared);
    rig_dir(dir);
    snprintf(save_dir, sizeof save_dir, "%s/a", dir);
    snprintf(load_dir, sizeof load_dir, "%s/b", dir);
    snprintf(path, sizeof path, "%s/c", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

static void open_empty(uint64_t memory, const struct table_schema *schema)
{
    struct err e = {0};
    thin_open(&s, load_dir, memory);
    ck_assert_msg(engine_table_create(s.g, schema, &e) == 0, "%s", e.text);
}

/* Loads step by step. Returns the most memory that rows took meanwhile. */
static uint64_t load(uint64_t run, struct outcome *out)
{
    struct err e = {0};
    uint64_t most = 0;
    *out = (struct outcome){0};
    int rc =
        engine_load(s.g, &(struct engine_load_options){.path = path, .run = run}, loaded, out, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    while (embedding_env_step(&s.env)) {
        uint64_t used = tier_used(s.g);
        const struct load *l = load_of(s.g);
        if (l != NULL && l->arena != NULL)
            ck_assert_uint_le(arena_bytes(l->arena), s.g->tier.rows_max + (2u << 20));
        most = used > most ? used : most;
    }
    ck_assert_int_eq(out->calls, 1);
    return most;
}

/* Returns the pairs of rows and the images of tablets in the store. */
static uint64_t stored_here(void)
{
    struct thin_stored stored = thin_stored(&s, 0);
    return stored.pairs + stored.images;
}

static void within(bool ages, uint64_t saved_with)
{
    struct outcome out;
    struct table_schema schema = thin_schema(ages);
    save(saved_with, ages);
    open_empty(THIN_MEMORY, &schema);
    uint64_t most = load(7, &out);
    ck_assert_msg(out.status == 0, "%s", out.text);
    ck_assert_uint_le(most, s.g->tier.rows_max);
    ck_assert_uint_gt(table_cold_rows(engine_table(s.g, 0)), 20000);
    ck_assert_uint_eq(out.rows, table_rows(engine_table(s.g, 0)));
    ck_assert_uint_eq(thin_digest(&s), shared->digest);
    ck_assert_uint_eq(engine_mark(s.g, 7, 0, 0), BATCHES);
    thin_fence(&s, 7);
    thin_train(&s, 7, BATCHES, BATCHES + 20, ages);
    uint64_t later = thin_digest(&s);
    rig_close(&s, false);
    thin_open(&s, load_dir, THIN_MEMORY);
    ck_assert_uint_eq(thin_digest(&s), later);
    rig_close(&s, false);
    thin_open(&s, save_dir, 0); /* the engine that made the checkpoint had the same limit */
    ck_assert_uint_eq(thin_digest(&s), later);
    rig_close(&s, false);
}

START_TEST(a_checkpoint_larger_than_memory_is_loaded_within_it)
{
    within(false, _i == 0 ? 0 : THIN_MEMORY);
}
END_TEST

START_TEST(rows_that_age_are_loaded_within_memory)
{
    within(true, THIN_MEMORY);
}
END_TEST

START_TEST(it_is_read_by_tools_as_it_was)
{
    struct checkpoint *c;
    struct err e = {0};
    uint64_t digest[1u << THIN_BITS], rows, sum = 0;
    save(THIN_MEMORY, _i == 1);
    ck_assert_msg(checkpoint_open(path, NULL, &c, &e) == 0, "%s", e.text);
    ck_assert_msg(checkpoint_verify(c, NULL, NULL, &e) == 0, "%s", e.text);
    ck_assert_msg(checkpoint_digest(c, 0, digest, &rows, &e) == 0, "%s", e.text);
    for (uint32_t k = 0; k < 1u << THIN_BITS; k++)
        sum = hash_bytes(&digest[k], sizeof digest[k], sum);
    ck_assert_uint_eq(sum, shared->digest);
    ck_assert_uint_gt(rows, 30000);
    /* it also counts rows that have aged and not been removed */
    ck_assert_uint_le(rows, checkpoint_facts(c)->rows);
    checkpoint_close(c);
}
END_TEST

/* With another number of tablets rows move to their new tablets, and with another optimizer its
 * state begins anew: tablet by tablet, within memory. */
START_TEST(it_is_translated_within_memory)
{
    struct outcome out;
    struct table_schema schema = thin_schema(false);
    save(THIN_MEMORY, false);
    schema.tablet_bits = _i == 0 ? THIN_BITS - 2 : THIN_BITS + 2;
    schema.optimizer = (struct optimizer_spec){
        .kind = OPT_ADAM, .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};
    open_empty(THIN_MEMORY + (2u << 20), &schema);
    uint64_t most = load(7, &out);
    ck_assert_msg(out.status == 0, "%s", out.text);
    ck_assert_uint_le(most, s.g->tier.rows_max);
    struct table *t = engine_table(s.g, 0);
    uint64_t rows = table_rows(t), seen = 0;
    ck_assert_uint_gt(table_cold_rows(t), 10000);
    for (uint32_t k = 0; k < 1u << schema.tablet_bits; k++) {
        struct err e = {0};
        const struct table *whole = engine_whole(s.g, 0, k, &e);
        ck_assert_msg(whole != NULL, "%s", e.text);
        seen += table_tablet_rows(whole, k);
    }
    ck_assert_uint_eq(seen, rows);
    rig_close(&s, false);
    uint64_t before;
    struct checkpoint *c;
    uint64_t digest[1u << THIN_BITS];
    ck_assert_int_eq(checkpoint_open(path, NULL, &c, NULL), 0);
    ck_assert_int_eq(checkpoint_digest(c, 0, digest, &before, NULL), 0);
    checkpoint_close(c);
    ck_assert_uint_eq(rows, before);
}
END_TEST

START_TEST(a_load_taken_back_leaves_nothing)
{
    struct outcome out, back = {0};
    struct err e = {0};
    struct table_schema schema = thin_schema(false);
    save(THIN_MEMORY, false);
    open_empty(THIN_MEMORY, &schema);
    ck_assert_int_eq(
        engine_load(s.g, &(struct engine_load_options){.path = path, .run = 7}, loaded, &out, &e),
        0);
    for (int step = 0; step < 12; step++)
        ck_assert(embedding_env_step(&s.env));
    ck_assert_ptr_nonnull(s.g->job[JOB_LOAD]);
    ck_assert_uint_gt(stored_here(), 0); /* in the middle of it */
    ck_assert_int_eq(engine_load_drop(s.g, 7, TABLE_SET_ALL, dropped, &back, &e), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(back.calls, 1);
    ck_assert_int_eq(back.status, 0);
    ck_assert_int_eq(out.status, SHOAL_E_STOPPED);
    ck_assert_uint_eq(stored_here(), 0);
    load(8, &out); /* once more, to its end */
    ck_assert_uint_eq(thin_digest(&s), shared->digest);
    ck_assert_int_eq(engine_load_drop(s.g, 8, TABLE_SET_ALL, dropped, &back, &e), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(back.status, 0);
    ck_assert_uint_eq(stored_here(), 0);
    ck_assert_uint_eq(table_rows(engine_table(s.g, 0)), 0);
    s.g->tier.looks = 0;
    ck_assert_uint_eq(tier_used(s.g), store_space(s.g->store).readers);
    rig_close(&s, false);
}
END_TEST

static void load_child(void *context)
{
    struct outcome out;
    struct table_schema schema = thin_schema(false);
    open_empty(THIN_MEMORY, &schema);
    kill_begin(*(long *)context, 0);
    load(7, &out);
    shared->loaded = out.status == 0;
    shared->steps = kill_end();
    _exit(0);
}

static void check_child(void *context)
{
    struct outcome out;
    uint32_t mode, lanes;
    (void)context;
    thin_open(&s, load_dir, THIN_MEMORY);
    bool there = engine_run_mode(s.g, 7, &mode, &lanes) == 0;
    ck_assert(there || shared->loaded == 0);
    uint64_t stored = stored_here();
    if (!there)
        ck_assert_uint_eq(stored + table_rows(engine_table(s.g, 0)), 0);
    load(7, &out);
    ck_assert_msg(out.status == 0, "%s", out.text);
    ck_assert_uint_eq(thin_digest(&s), shared->digest);
    _exit(0);
}

START_TEST(killed_in_a_load_it_is_all_there_or_not_at_all)
{
    long at = 0;
    save(THIN_MEMORY, false);
    rig_in_child(load_child, &at);
    long steps = shared->steps, stride = kill_stride(steps, 5);
    ck_assert_int_gt(steps, 20);
    for (at = 1; at <= steps; at += stride) {
        rig_remove_dir(load_dir);
        shared->loaded = 0;
        rig_in_child(load_child, &at);
        rig_in_child(check_child, &at);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cold_load");
    TCase *c = suite_case(suite, "cold_load", 280, setup, teardown);
    tcase_add_loop_test(c, a_checkpoint_larger_than_memory_is_loaded_within_it, 0, 2);
    tcase_add_test(c, rows_that_age_are_loaded_within_memory);
    tcase_add_loop_test(c, it_is_read_by_tools_as_it_was, 0, 2);
    tcase_add_loop_test(c, it_is_translated_within_memory, 0, 2);
    tcase_add_test(c, a_load_taken_back_leaves_nothing);
    c = suite_case(suite, "kills", 280, setup, teardown);
    tcase_add_test(c, killed_in_a_load_it_is_all_there_or_not_at_all);
    return suite_main(suite);
}
