/* test_guard.c: the values that a push may contain, and the record of refused pushes. */
#include "embedding/engine/guard.h"
#include "proto/base/isa.h"
#include "proto/base/key.h"
#include "proto/job/gradient.h"
#include "proto/job/packed.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS = 3, WIDTHS = 17 };

static struct rig s;
static char dir[LIMIT_PATH];
static uint64_t keys[KEYS];
static float gradients[KEYS * WIDTHS];

/* Table `number` has width number + 1. */
static struct table_schema schema_of(uint32_t number)
{
    struct table_schema schema = rig_schema(number);
    schema.width = number + 1;
    return schema;
}

static void begin(void)
{
    struct err e = {0};
    rig_open(&s, rig_dir(dir), DURABLE_JOURNAL);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, &e), 0);
    for (uint32_t i = 0; i < KEYS; i++)
        keys[i] = key_make(10 + i, 1000 + i);
    qsort(keys, KEYS, sizeof keys[0], key_by_mixed);
}

static void end(void)
{
    rig_close(&s, false);
    rig_remove_dir(dir);
}

static struct push_record push_of(uint32_t table, uint64_t to)
{
    return (struct push_record){.run = 1,
                                .from = to - 1,
                                .to = to,
                                .table = table,
                                .tablet_count = 1u << SHARD_TABLET_BITS,
                                .lr_scale = 1,
                                .key_count = KEYS,
                                .worker = 7,
                                .task = 99,
                                .keys = keys,
                                .gradients = gradients};
}

static int push(const struct push_record *r, struct err *e)
{
    struct push_plan plan;
    int rc = engine_admit_push(s.g, r, &plan, e);
    if (rc != 0)
        return rc;
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_apply_push(s.g, r, &plan), 0);
    return 0;
}

static void gradients_fill(float x)
{
    for (uint32_t i = 0; i < KEYS * WIDTHS; i++)
        gradients[i] = x * (float)(1 + i % 5);
}

static bool rows_finite(uint32_t table)
{
    const struct table *t = engine_table(s.g, table);
    size_t floats = (table_row_bytes(t) - sizeof(uint64_t)) / sizeof(float);
    for (uint32_t k = 0; k < KEYS; k++) {
        const char *row = table_row(t, keys[k]);
        for (size_t i = 0; row != NULL && i < floats; i++) {
            float x;
            memcpy(&x, row + sizeof(uint64_t) + i * sizeof x, sizeof x);
            if (!isfinite(x))
                return false;
        }
    }
    return true;
}

/* Packs the gradients of a push where they lie. */
static void pack(struct push_record *r, const struct table_schema *schema, enum packed_width width)
{
    r->width = packed_width(schema, width);
    packed_close(schema, r->width, r->lane, r->to, r->keys, gradients, KEYS);
}

/* Every width, every place, every kind of bad value, in every form in which gradients travel: the
 * push is refused and has no effect. */
START_TEST(guard_bad_value_in_any_place_changes_nothing)
{
    static const float bad[] = {NAN,    -NAN,  INFINITY, -INFINITY, 1e30f,
                                -1e30f, 1e38f, -FLT_MAX, 1.0001e15f};
    static const enum packed_width forms[] = {PACKED_NOT, PACKED_INT8, PACKED_BF16};
    struct err e = {0};
    begin();
    for (uint32_t table = 0; table < WIDTHS; table++) {
        struct table_schema schema = schema_of(table);
        ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
        struct push_record r = push_of(table, 1);
        gradients_fill(0.5f);
        ck_assert_int_eq(push(&r, &e), 0);
        uint64_t digest = rig_digest(&s);
        struct engine_stats before, after;
        engine_stats_get(s.g, &before);
        r = push_of(table, 2);
        for (uint32_t place = 0; place < KEYS * schema.width; place++)
            for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
                gradients_fill(0.5f);
                gradients[place] = bad[b];
                pack(&r, &schema, forms[_i]);
                ck_assert_msg(push(&r, &e) == SHOAL_E_NOT_FINITE, "width %u place %u value %g",
                              schema.width, place, (double)bad[b]);
            }
        engine_stats_get(s.g, &after);
        ck_assert_uint_eq(after.sequence, before.sequence);
        ck_assert_uint_eq(after.journal_bytes, before.journal_bytes);
        ck_assert_uint_eq(engine_mark(s.g, 1, 0, table), 1);
        ck_assert_uint_eq(rig_digest(&s), digest);
        gradients_fill(1e15f / 5); /* the largest allowed value; then the lane continues */
        pack(&r, &schema, forms[_i]);
        ck_assert_int_eq(push(&r, &e), 0);
        ck_assert(rows_finite(table));
        embedding_env_run(&s.env);
    }
    end();
}
END_TEST

/* Denormals are numbers: they are accepted, with the same result at every vector level. */
START_TEST(guard_denormals_are_alike_at_every_level)
{
    static const float tiny[] = {1e-45f, -1e-45f, 1e-40f, FLT_MIN, -FLT_MIN / 2};
    struct err e = {0};
    uint64_t digest[ISA_COUNT];
    int best = (int)isa_best();
    for (int level = 0; level <= best; level++) {
        isa_limit((enum isa)level);
        begin();
        for (uint32_t table = 0; table < WIDTHS; table++) {
            struct table_schema schema = schema_of(table);
            schema.optimizer = (struct optimizer_spec){.kind = (enum optimizer_kind)(table % 6),
                                                       .lr = 0.05f,
                                                       .beta1 = 0.9f,
                                                       .beta2 = 0.999f,
                                                       .eps = 1e-30f,
                                                       .initial = 1e-30f,
                                                       .beta = 1};
            ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
            for (uint64_t batch = 1; batch <= 4; batch++) {
                struct push_record r = push_of(table, batch);
                for (uint32_t i = 0; i < KEYS * WIDTHS; i++)
                    gradients[i] = tiny[(i + batch) % 5] * (float)(i % 3);
                ck_assert_int_eq(push(&r, &e), 0);
            }
            ck_assert(rows_finite(table));
        }
        digest[level] = rig_digest(&s);
        ck_assert_uint_eq(digest[level], digest[0]);
        end();
    }
    isa_limit(ISA_AVX512);
}
END_TEST

/* The largest allowed gradients, again and again, with changing signs. */
START_TEST(guard_state_saturates_and_stays_finite)
{
    static const float initial[] = {1e-10f, 0.1f};
    struct err e = {0};
    begin();
    for (uint32_t table = 0; table < 6 * 2; table++) {
        struct table_schema schema = schema_of(table % 2 == 0 ? 16 : 3);
        (void)snprintf(schema.name, sizeof schema.name, "t%u", table);
        schema.table = table;
        schema.tablet_first = table << SHARD_TABLET_BITS;
        schema.zero_first = 1;
        schema.optimizer = (struct optimizer_spec){.kind = (enum optimizer_kind)(table / 2),
                                                   .lr = _i == 2   ? 1e10f
                                                         : _i == 3 ? 1e-8f
                                                                   : 0.1f,
                                                   .beta1 = 0.9f,
                                                   .beta2 = _i == 1 ? 0 : 0.999f,
                                                   .eps = _i == 1 ? 0 : 1e-8f,
                                                   .initial = initial[_i % 2],
                                                   .l1 = 0.1f,
                                                   .beta = _i == 1 ? 0 : 1,
                                                   .l2 = _i >= 2 ? 1e10f : 0};
        ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
        for (uint64_t batch = 1; batch <= 3000; batch++) {
            struct push_record r = push_of(table, batch);
            r.lr_scale = _i == 2 ? 1e15f : 1;
            for (uint32_t i = 0; i < KEYS * WIDTHS; i++)
                gradients[i] = (batch > 1000 && batch % 3 == i % 3 ? -1 : 1) *
                               (batch > 2000 && i % 4 == 0 ? 1e-30f : 1e15f);
            int rc = push(&r, &e);
            ck_assert_msg(rc == 0, "%s", e.text);
            if (batch % 500 < 3)
                ck_assert_msg(rows_finite(table), "case %d, optimizer %d, batch %" PRIu64, _i,
                              (int)schema.optimizer.kind, batch);
            if (batch % 64 == 0) {
                engine_flush_step(s.g);
                embedding_env_run(&s.env);
            }
        }
    }
    end();
}
END_TEST

static char *file_text(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *f = fopen(path, "r");
    if (f != NULL) {
        ck_assert_uint_lt(fread(text, 1, (1 << 20) - 1, f), (1 << 20) - 1);
        fclose(f);
    }
    return text;
}

static uint32_t lines_of(const char *text)
{
    uint32_t lines = 0;
    for (; *text != 0; text++)
        lines += *text == '\n';
    return lines;
}

START_TEST(guard_refused_push_is_kept_with_its_name)
{
    struct err e = {0};
    char path[LIMIT_PATH + 32];
    struct json *j;
    begin();
    struct table_schema schema = schema_of(4);
    ck_assert_int_eq(engine_table_create(s.g, &schema, &e), 0);
    struct push_record r = push_of(4, 1);
    gradients_fill(1);
    gradients[1 * 5 + 3] = -INFINITY;
    gradients[2 * 5 + 1] = 1e16f;
    ck_assert_int_eq(push(&r, &e), SHOAL_E_NOT_FINITE);
    char key[32];
    (void)snprintf(key, sizeof key, "0x%016" PRIx64, keys[1]);
    ck_assert_ptr_nonnull(strstr(e.text, key));
    ck_assert_ptr_nonnull(strstr(e.text, "table-4"));
    ck_assert_ptr_nonnull(strstr(e.text, "worker 7 task 99, lane 0 batch 1"));
    ck_assert_ptr_nonnull(strstr(e.text, "quarantine.jsonl"));
    /* the refusal was lost: it is repeated, but not counted again */
    ck_assert_int_eq(push(&r, &e), SHOAL_E_NOT_FINITE);
    r.generation = 0;
    r.lane = 1;
    r.worker = 8;
    gradients[1 * 5 + 3] = 0;
    ck_assert_int_eq(push(&r, &e), SHOAL_E_NOT_FINITE);
    ck_assert_int_eq(engine_close(s.g, false), 0); /* the second line is still being written */
    embedding_env_run(&s.env);
    (void)snprintf(path, sizeof path, "%s/quarantine.jsonl", dir);
    char *text = file_text(path);
    ck_assert_uint_eq(lines_of(text), 2);
    char *second = strchr(text, '\n') + 1;
    ck_assert_int_eq(json_parse(text, (size_t)(second - text), &j, &e), 0);
    ck_assert_str_eq(json_as_string(json_get(j, "key"), ""), key);
    ck_assert_str_eq(json_as_string(json_get(j, "table"), ""), "table-4");
    ck_assert_str_eq(json_as_string(json_get(j, "value"), ""), "-inf");
    ck_assert_str_eq(json_as_string(json_get(j, "why"), ""), "not finite");
    static const struct {
        const char *name;
        int64_t value;
    } number[] = {{"run", 1},   {"lane", 0},  {"generation", 0}, {"batch", 1}, {"worker", 7},
                  {"task", 99}, {"place", 3}, {"bad_rows", 2},   {"rows", 3}};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        ck_assert_int_eq(json_as_int(json_get(j, number[i].name), -1), number[i].value);
    ck_assert_int_eq(json_as_int(json_get(j, "field"), -1), key_field(keys[1]));
    ck_assert(json_absent(json_get(j, "time"))); /* no time was given */
    json_free(j);
    ck_assert_int_eq(json_parse(second, strlen(second), &j, &e), 0);
    ck_assert_str_eq(json_as_string(json_get(j, "why"), ""), "beyond 1e15");
    ck_assert_double_eq_tol(json_as_number(json_get(j, "value"), 0), 1e16, 1e10);
    ck_assert_int_eq(json_as_int(json_get(j, "worker"), -1), 8);
    json_free(j);
    free(text);
    rig_remove_dir(dir);
}
END_TEST

static const char *name_of(void *context, uint32_t table)
{
    (void)context;
    return table == 3 ? "three" : "other";
}

static struct json *counts(const struct guard *g)
{
    return guard_json(g, name_of, NULL);
}

START_TEST(guard_norms_are_refused_or_counted)
{
    struct offload_list works = {NULL};
    struct embedding_env env;
    struct err e = {0};
    embedding_env_init(&env);
    struct guard *g = guard_new(NULL, 0, NULL, &env.env, &works);
    struct table_schema schema = schema_of(3);
    struct push_record r = push_of(3, 1);

    begin();
    gradients_fill(0);
    gradients[0] = 3; /* its norm is 5 */
    gradients[3] = -4;
    gradients[4] = 1;
    schema.rules.norm_max = 5;
    schema.rules.norm_refuse = 1;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), 0); /* as long as allowed */
    schema.rules.norm_max = 4.9999f;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), SHOAL_E_NOT_FINITE);
    ck_assert_ptr_nonnull(strstr(e.text, "place 3 is -4 in a row of norm 5"));
    guard_count_clipped(g, &schema, &r);
    schema.rules.norm_refuse = 0; /* clipped: accepted, and counted when it is applied */
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), 0);
    guard_count_clipped(g, &schema, &r);
    guard_count_clipped(g, &schema, &r);
    schema.rules.norm_max = 5; /* not longer: no row is clipped */
    guard_count_clipped(g, &schema, &r);
    struct json *j = counts(g);
    ck_assert_int_eq(json_as_int(json_get(j, "pushes"), -1), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "rows"), -1), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "clipped"), -1), 2);
    ck_assert_uint_eq(json_count(json_get(j, "by_field")), 1);
    ck_assert_str_eq(json_as_string(json_get(j, "by_field.0.table"), ""), "three");
    ck_assert_int_eq(json_as_int(json_get(j, "by_field.0.field"), -1), key_field(keys[0]));
    ck_assert_int_eq(json_as_int(json_get(j, "by_field.0.refused"), -1), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "by_field.0.clipped"), -1), 2);
    ck_assert_int_eq(json_as_int(json_get(j, "by_worker.0.worker"), -1), 7);
    ck_assert_int_eq(json_as_int(json_get(j, "by_worker.0.clipped"), -1), 2);
    json_free(j);
    guard_free(g);
    end();
}
END_TEST

/* A row of norm 5 in bf16, which has 3 and 4: refused by a limit below that, and counted. */
START_TEST(guard_norms_of_packed_rows_are_those_of_opened_ones)
{
    struct offload_list works = {NULL};
    struct embedding_env env;
    struct err e = {0};
    embedding_env_init(&env);
    struct guard *g = guard_new(NULL, 0, NULL, &env.env, &works);
    struct table_schema schema = schema_of(3);
    struct push_record r = push_of(3, 1);
    gradients_fill(0);
    gradients[4] = 3;
    gradients[7] = -4;
    pack(&r, &schema, PACKED_BF16);
    schema.rules.norm_max = 4.9999f;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), 0);
    guard_count_clipped(g, &schema, &r);
    schema.rules.norm_refuse = 1;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), SHOAL_E_NOT_FINITE);
    ck_assert_ptr_nonnull(strstr(e.text, "place 3 is -4 in a row of norm 5"));
    schema.rules.norm_max = 5;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), 0);
    struct json *j = counts(g);
    ck_assert_int_eq(json_as_int(json_get(j, "clipped"), -1), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "rows"), -1), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "by_field.0.field"), -1), key_field(keys[1]));
    json_free(j);
    guard_free(g);
}
END_TEST

/* Fields and workers beyond the available places are counted together. A newer run starts new
 * counts, an older one is not counted. */
START_TEST(guard_counts_are_bounded_and_of_one_run)
{
    struct offload_list works = {NULL};
    struct embedding_env env;
    struct err e = {0};
    embedding_env_init(&env);
    struct guard *g = guard_new(NULL, 0, NULL, &env.env, &works);
    struct table_schema schema = schema_of(0);
    struct push_record r = push_of(0, 1);
    uint64_t key, refused = 0;

    gradients[0] = NAN;
    r.key_count = 1;
    r.keys = &key;
    for (uint32_t i = 0; i < 2000; i++) {
        key = key_make(i, 5);
        r.worker = 1 + i;
        r.to = i + 1;
        ck_assert_int_eq(guard_check(g, &schema, &r, &e), SHOAL_E_NOT_FINITE);
    }
    struct json *j = counts(g);
    ck_assert_uint_eq(json_count(json_get(j, "by_field")), GUARD_FIELDS + 1);
    ck_assert_uint_eq(json_count(json_get(j, "by_worker")), GUARD_WORKERS + 1);
    for (size_t i = 0; i < json_count(json_get(j, "by_field")); i++)
        refused += (uint64_t)json_as_int(
            json_get(json_array_at(json_get(j, "by_field"), i), "refused"), 0);
    ck_assert_uint_eq(refused, 2000);
    json_free(j);
    r.run = 2;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), SHOAL_E_NOT_FINITE);
    r.run = 1;
    r.to = 5000;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), SHOAL_E_NOT_FINITE);
    j = counts(g);
    ck_assert_int_eq(json_as_int(json_get(j, "run"), -1), 2);
    ck_assert_int_eq(json_as_int(json_get(j, "pushes"), -1), 1);
    json_free(j);
    guard_free(g);
}
END_TEST

static uint64_t file_bytes(const char *name)
{
    char path[LIMIT_PATH + 64];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* A refused push of batch `to`. */
static void refuse(struct guard *g, uint64_t to)
{
    static const float bad = INFINITY;
    struct table_schema schema = schema_of(0);
    uint64_t key = key_make(0, to);
    struct push_record r = {
        .run = 1, .to = to, .keys = &key, .gradients = &bad, .key_count = 1, .tablet_count = 1};
    struct err e;
    ck_assert_int_eq(guard_check(g, &schema, &r, &e), SHOAL_E_NOT_FINITE);
}

static uint64_t lost(const struct guard *g)
{
    struct json *j = counts(g);
    int64_t lines = json_as_int(json_get(j, "lost"), -1);
    json_free(j);
    return (uint64_t)lines;
}

START_TEST(quarantine_is_bounded)
{
    struct offload_list works = {NULL};
    struct embedding_env env;
    uint64_t to = 0;
    embedding_env_init(&env);
    struct guard *g = guard_new(rig_dir(dir), 10000, NULL, &env.env, &works);

    while (to < 1000) { /* more than 128,000 bytes */
        refuse(g, ++to);
        embedding_env_run(&env);
        ck_assert_uint_le(file_bytes("quarantine.jsonl"), 10000);
        ck_assert_uint_le(file_bytes("quarantine.1.jsonl"), 10000);
    }
    ck_assert_uint_eq(lost(g), 0);
    ck_assert_uint_gt(file_bytes("quarantine.1.jsonl"), 9000);
    /* no thread writes: the queue is bounded, and at most one batch is being written */
    while (to < 11000)
        refuse(g, ++to);
    ck_assert_uint_eq(env.count, 1);
    ck_assert_uint_ge(lost(g), 10000 - 1 - GUARD_QUEUE_BYTES / 128);
    ck_assert_uint_lt(lost(g), 10000);
    offload_drain(&works);
    guard_free(g);
    embedding_env_run(&env);
    rig_remove_dir(dir);
}
END_TEST

/* Three lines of one length fit if there is room to the byte (0), and not if one byte is
 * missing. */
START_TEST(quarantine_is_full_to_the_last_byte)
{
    struct offload_list works = {NULL};
    struct embedding_env env;
    uint64_t line = 0;
    rig_dir(dir);
    for (int turn = 0; turn < 2; turn++) {
        char path[LIMIT_PATH + 64];
        embedding_env_init(&env);
        struct guard *g =
            guard_new(dir, turn == 0 ? 0 : 3 * line - (uint64_t)_i, NULL, &env.env, &works);
        for (uint64_t to = 101; to <= (turn == 0 ? 101 : 103); to++) {
            refuse(g, to);
            embedding_env_run(&env);
        }
        if (turn == 0)
            line = file_bytes("quarantine.jsonl");
        ck_assert_uint_gt(line, 100);
        ck_assert_uint_eq(file_bytes("quarantine.jsonl"), turn == 0 || _i == 1 ? line : 3 * line);
        ck_assert_uint_eq(file_bytes("quarantine.1.jsonl"), turn == 0 || _i == 0 ? 0 : 2 * line);
        guard_free(g);
        (void)snprintf(path, sizeof path, "%s/quarantine.jsonl", dir);
        ck_assert_int_eq(unlink(path), 0);
    }
    rig_remove_dir(dir);
}
END_TEST

START_TEST(quarantine_without_a_disk_counts)
{
    struct offload_list works = {NULL};
    struct embedding_env env;
    embedding_env_init(&env);
    struct guard *g = guard_new("/proc/none", 0, NULL, &env.env, &works);
    for (uint64_t to = 1; to <= 3; to++)
        refuse(g, to);
    embedding_env_run(&env);
    ck_assert_uint_eq(lost(g), 3);
    guard_free(g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("guard");
    TCase *t = tcase_create("guard");
    tcase_set_timeout(t, 100);
    tcase_add_loop_test(t, guard_bad_value_in_any_place_changes_nothing, 0, 3);
    tcase_add_test(t, guard_norms_of_packed_rows_are_those_of_opened_ones);
    tcase_add_test(t, guard_denormals_are_alike_at_every_level);
    tcase_add_loop_test(t, guard_state_saturates_and_stays_finite, 0, 4);
    tcase_add_test(t, guard_refused_push_is_kept_with_its_name);
    tcase_add_test(t, guard_norms_are_refused_or_counted);
    tcase_add_test(t, guard_counts_are_bounded_and_of_one_run);
    tcase_add_test(t, quarantine_is_bounded);
    tcase_add_loop_test(t, quarantine_is_full_to_the_last_byte, 0, 2);
    tcase_add_test(t, quarantine_without_a_disk_counts);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
