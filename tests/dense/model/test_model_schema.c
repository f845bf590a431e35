/* test_model_schema.c: the tables of each model, and the jobs that are refused. */
#include "dense/model.h"
#include "tests/lib/dense_check.h"

#include <string.h>

static struct table_schema schema[MODEL_TABLES_MAX];
static uint32_t count;

static int schemas(const struct dense_case *c, struct err *e)
{
    return model_schemas(&c->job, &c->shape, schema, &count, e);
}

START_TEST(schema_has_as_many_tables_as_the_model_needs)
{
    static const struct {
        enum model_kind kind;
        enum norm_kind norm;
        uint32_t tables, width, first_order;
    } expected[] = {{MODEL_PROBE, NORM_BATCH, 1, 1, 1},  {MODEL_LR, NORM_BATCH, 2, 1, 1},
                    {MODEL_FM, NORM_NONE, 2, 4, 1},      {MODEL_DEEPFM, NORM_NONE, 2, 4, 1},
                    {MODEL_DEEPFM, NORM_BATCH, 3, 4, 1}, {MODEL_WIDE_DEEP, NORM_BATCH, 3, 4, 1},
                    {MODEL_IPNN, NORM_NONE, 2, 3, 0},    {MODEL_MMOE, NORM_BATCH, 3, 3, 0}};
    struct dense_case c;
    dense_case_job(&c, expected[_i].kind);
    c.job.model.norm = expected[_i].norm;
    ck_assert_int_eq(schemas(&c, NULL), 0);
    ck_assert_uint_eq(count, expected[_i].tables);
    ck_assert_uint_eq(schema[0].width, expected[_i].width);
    ck_assert_uint_eq(schema[0].zero_first, expected[_i].first_order);
    ck_assert_int_eq(schema[0].init.kind, schema[0].width > 1 ? INIT_UNIFORM : INIT_ZERO);
    ck_assert_str_eq(schema[0].name, "emb");
    for (uint32_t t = 0, first = 0; t < count; t++) {
        ck_assert_int_eq(schema_check(&schema[t], NULL), 0);
        ck_assert_uint_eq(schema[t].table, t);
        ck_assert_uint_eq(schema[t].dense, t > 0);
        ck_assert_uint_eq(schema[t].tablet_first, first);
        first += 1u << schema[t].tablet_bits;
    }
}
END_TEST

START_TEST(schema_takes_settings_from_the_job)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.norm = NORM_BATCH;
    c.table.tablets = 64;
    ck_assert_int_eq(schemas(&c, NULL), 0);
    ck_assert_uint_eq(schema[0].tablet_bits, 6);
    ck_assert_uint_eq(schema[0].seed, 7);
    ck_assert_int_eq(schema[0].optimizer.kind, OPT_ADAGRAD);
    ck_assert_int_eq(schema[0].init.kind, INIT_UNIFORM);
    ck_assert_str_eq(schema[1].name, "dense");
    ck_assert_uint_eq(schema[1].seed, 2026);
    ck_assert_uint_eq(schema[1].width, BLOCK_FLOATS);
    ck_assert_float_eq(schema[1].optimizer.lr, 0.01f);
    ck_assert_str_eq(schema[2].name, "dense_stats");
    ck_assert_uint_eq(schema[2].optimizer.fixed_lr, 1);
    ck_assert_float_eq(schema[2].optimizer.lr, 1.0f);
    /* bias and numerics 0, first matrix (5, 11) uniform, gamma 1; running mean 0, running variance
     * 1 */
    ck_assert_uint_eq(schema[1].field_rule[0].field, 2);
    ck_assert_double_eq_tol((double)schema[1].field_rule[0].scale, sqrt(6.0 / 16), 1e-7);
    ck_assert_uint_eq(schema[1].field_rule[1].field, 3);
    ck_assert_uint_eq(schema[1].field_rule[1].kind, INIT_CONSTANT);
    ck_assert_uint_eq(schema[2].field_rule_count, 2);
    ck_assert_uint_eq(schema[2].field_rule[0].field, 1);
}
END_TEST

/* Tables have the numbers of the job file's order, dense ones come last; each has the settings of
 * its entry. */
START_TEST(schemas_of_several_tables_follow_one_another)
{
    static const uint32_t dim[] = {8, 2, 16};
    struct dense_case c;
    struct job_field_rule first = {.rule = {.has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_NONE}};
    struct job_field_rule last = {.rule = {.has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_NONE}};
    dense_case_job(&c, MODEL_WIDE_DEEP);
    c.job.model.norm = NORM_BATCH;
    dense_case_tables(&c, dim, 3);
    c.several[1].tablets = 64;
    c.several[1].optimizer =
        (struct optimizer_spec){.kind = OPT_ADAM, .lr = 0.001f, .beta1 = 0.9f, .beta2 = 0.999f};
    c.several[2].seed = 9;
    c.several[2].rules.weight_max = 4;
    c.several[0].rule = &first;
    c.several[2].rule = &last;
    c.several[0].rule_count = c.several[2].rule_count = 1;
    c.shape.rule_field[0] = 0;
    c.shape.rule_field[1] = 2;
    ck_assert_int_eq(schemas(&c, NULL), 0);
    ck_assert_uint_eq(count, 5);
    uint32_t tablets = 0;
    for (uint32_t t = 0; t < count; t++) {
        ck_assert_uint_eq(schema[t].table, t);
        ck_assert_uint_eq(schema[t].tablet_first, tablets);
        ck_assert_uint_eq(schema[t].dense, t >= 3);
        tablets += 1u << schema[t].tablet_bits;
    }
    ck_assert(schema[0].width == 9 && schema[1].width == 3 && schema[2].width == 17);
    ck_assert_str_eq(schema[1].name, "emb1");
    ck_assert_str_eq(schema[3].name, "dense");
    ck_assert_str_eq(schema[4].name, "dense_stats");
    ck_assert_uint_eq(schema[1].tablet_bits, 6);
    ck_assert(schema[1].optimizer.kind == OPT_ADAM && schema[0].optimizer.kind == OPT_ADAGRAD);
    ck_assert_uint_eq(schema[2].seed, 9);
    ck_assert(schema[2].rules.weight_max == 4 && schema[0].rules.weight_max == 0);
    ck_assert(schema[0].field_rule_count == 1 && schema[0].field_rule[0].field == 0);
    ck_assert_uint_eq(schema[1].field_rule_count, 0);
    ck_assert(schema[2].field_rule_count == 1 && schema[2].field_rule[0].field == 2);
}
END_TEST

START_TEST(schema_of_the_probe_counts_by_sgd)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_PROBE);
    ck_assert_int_eq(schemas(&c, NULL), 0);
    ck_assert_int_eq(schema[0].optimizer.kind, OPT_SGD);
    ck_assert_float_eq(schema[0].optimizer.lr, 1.0f);
    ck_assert_uint_eq(schema[0].optimizer.fixed_lr, 1);
    ck_assert_int_eq(schema[0].init.kind, INIT_ZERO);
}
END_TEST

/* The server counts the batches of all lanes, so l2 is the job's value for any number of lanes. */
START_TEST(schema_l2_is_the_jobs)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.table.optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.1f, .l2 = 0.5f};
    c.job.dense_optimizer = c.table.optimizer;
    c.job.train.lanes = 3;
    ck_assert_int_eq(schemas(&c, NULL), 0);
    ck_assert_float_eq(schema[0].optimizer.l2, 0.5f);
    ck_assert_float_eq(schema[1].optimizer.l2, 0.5f);
}
END_TEST

/* Bit for bit: two programs compare schemas with memcmp or through their journal. */
START_TEST(schema_is_a_function_of_its_arguments)
{
    struct dense_case c;
    static struct table_schema again[MODEL_TABLES_MAX];
    dense_case_job(&c, MODEL_DEEPFM);
    memset(schema, 0xaa, sizeof schema);
    ck_assert_int_eq(schemas(&c, NULL), 0);
    memset(again, 0x55, sizeof again);
    ck_assert_int_eq(model_schemas(&c.job, &c.shape, again, &count, NULL), 0);
    ck_assert_mem_eq(schema, again, sizeof again);
}
END_TEST

/* Rules are those of the job; a table's capacity is divided by its tablets, and fields are numbers,
 * in order. */
START_TEST(schema_takes_the_rules_of_rows)
{
    struct dense_case c;
    struct job_field_rule rule[3] = {{.rule = {.has = FIELD_HAS_TTL, .ttl = 60}},
                                     {.rule = {.has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_NONE}},
                                     {.rule = {.has = 0}}};
    dense_case_job(&c, MODEL_DEEPFM);
    c.table.tablets = 64;
    c.table.rules = (struct row_rules){
        .stats = 1, .score_click = 1, .age_every = 3600, .age_ttl = 7200, .vector_score = 3};
    c.table.capacity = 64 * 100 + 1;
    c.table.rule = rule;
    c.table.rule_count = 3;
    c.shape.rule_field[0] = 5;
    c.shape.rule_field[1] = 2;
    ck_assert_int_eq(schemas(&c, NULL), 0);
    ck_assert_uint_eq(schema[0].rules.age_capacity, 101);
    ck_assert_uint_eq(schema[0].rules.age_ttl, 7200);
    ck_assert_float_eq(schema[0].rules.vector_score, 3);
    ck_assert_uint_eq(schema[0].field_rule_count, 2);
    ck_assert_uint_eq(schema[0].field_rule[0].field, 2);
    ck_assert_uint_eq(schema[0].field_rule[0].admit_kind, ADMIT_NONE);
    ck_assert_uint_eq(schema[0].field_rule[1].field, 5);
    ck_assert_uint_eq(schema[0].field_rule[1].ttl, 60);
    ck_assert_uint_eq(schema[1].rules.stats, 0); /* only the sparse table's */
    ck_assert_uint_eq(schema_push_floats(&schema[0]), schema[0].width + 2);
}
END_TEST

/* Rows of lr have no vector that could be added later. */
START_TEST(schema_without_vectors_has_none_to_wait_for)
{
    struct dense_case c;
    struct job_field_rule rule = {
        .rule = {.has = FIELD_HAS_INIT, .kind = INIT_CONSTANT, .scale = 1}};
    dense_case_job(&c, MODEL_LR);
    c.table.rules = (struct row_rules){.stats = 1, .vector_score = 3};
    c.table.rule = &rule;
    c.table.rule_count = 1;
    ck_assert_int_eq(schemas(&c, NULL), 0);
    ck_assert_float_eq(schema[0].rules.vector_score, 0);
    ck_assert_uint_eq(schema[0].field_rule_count, 0);
}
END_TEST

static void break_capacity(struct dense_case *c)
{
    c->table.rules.stats = 1;
    c->table.capacity = 1000; /* with 1,024 tablets */
}
static void break_vector_score(struct dense_case *c)
{
    c->job.model.kind = MODEL_IPNN; /* no first-order weight */
    c->table.rules = (struct row_rules){.stats = 1, .vector_score = 3};
}
static void break_tables(struct dense_case *c)
{
    c->job.table_count = 2;
}
static void break_tablets(struct dense_case *c)
{
    c->table.tablets = 100;
}
static void break_dim(struct dense_case *c)
{
    c->table.dim = 0;
}
static void break_hidden(struct dense_case *c)
{
    c->job.model.hidden.count = 0;
}
static void break_size(struct dense_case *c)
{
    c->job.model.hidden.at[0] = c->job.model.hidden.at[1] = 1u << 20;
}

static void break_labels(struct dense_case *c)
{
    c->shape.tasks = 2;
}
static void break_pooling(struct dense_case *c)
{
    c->shape.pooling[1] = POOL_ATTENTION;
}
static void break_fields(struct dense_case *c)
{
    c->shape.fields = LIMIT_FIELDS + 1;
}
static void break_input(struct dense_case *c)
{
    c->shape.fields = c->shape.numerics = 0;
}

START_TEST(schema_refuses_jobs_that_no_model_can_run)
{
    static const struct {
        void (*damage)(struct dense_case *c);
        const char *named;
    } bad[] = {{break_tables, "tables"},
               {break_tablets, "tables[0].tablets"},
               {break_dim, "tables[0].dim"},
               {break_hidden, "model.hidden"},
               {break_size, "model.hidden"},
               {break_labels, "data.label"},
               {break_pooling, "field 1"},
               {break_fields, "fields"},
               {break_input, "features"},
               {break_capacity, "tables[0].evict.capacity"},
               {break_vector_score, "tables[0].vector_score"}};
    struct dense_case c;
    struct err e = {0};
    struct model *m;
    dense_case_job(&c, MODEL_DEEPFM);
    bad[_i].damage(&c);
    ck_assert_int_eq(schemas(&c, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, bad[_i].named));
    bool of_the_schema = bad[_i].damage == break_tablets || bad[_i].damage == break_capacity ||
                         bad[_i].damage == break_vector_score;
    if (!of_the_schema) {
        ck_assert_int_eq(model_new(&c.job, &c.shape, dense_backend(), &m, &e), SHOAL_E_CONFIG);
        ck_assert_ptr_null(m);
    }
}
END_TEST

START_TEST(model_blocks_cover_both_dense_tables)
{
    struct dense_case c;
    const uint64_t *keys;
    const uint32_t *block;
    size_t n;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.norm = NORM_BATCH;
    dense_case_batch(&c, 4, 9, false);
    model_blocks(c.model, false, &keys, &block, &n);
    ck_assert_uint_eq(n * BLOCK_FLOATS, model_dense_floats(c.model));
    ck_assert_uint_eq(n, 9); /* bias, numerics, twice (matrix, gamma, beta), head */
    model_blocks(c.model, true, &keys, &block, &n);
    ck_assert_uint_eq(n, 4);
    dense_case_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_schema");
    TCase *t = tcase_create("model_schema");
    tcase_add_loop_test(t, schema_has_as_many_tables_as_the_model_needs, 0, 8);
    tcase_add_test(t, schema_takes_settings_from_the_job);
    tcase_add_test(t, schemas_of_several_tables_follow_one_another);
    tcase_add_test(t, schema_of_the_probe_counts_by_sgd);
    tcase_add_test(t, schema_is_a_function_of_its_arguments);
    tcase_add_loop_test(t, schema_refuses_jobs_that_no_model_can_run, 0, 11);
    tcase_add_test(t, schema_l2_is_the_jobs);
    tcase_add_test(t, schema_takes_the_rules_of_rows);
    tcase_add_test(t, schema_without_vectors_has_none_to_wait_for);
    tcase_add_test(t, model_blocks_cover_both_dense_tables);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
