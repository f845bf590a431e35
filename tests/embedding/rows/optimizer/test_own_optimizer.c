/* test_own_optimizer.c: the example in embedding/rows/optimizer/README.md, "an optimizer of your
 * own": its file and its row are compiled into the rooms proto/job and embedding/rows, and used
 * from a job file to rows. The README must quote both literally. */
#include "embedding/rows/table_inner.h"
#include "embedding/rows/translate.h"
#include "proto/job/job.h"
#include "tests/lib/embedding_stats.h"

#include <stdio.h>

static struct job job_with(const char *optimizer, int expected)
{
    char text[512];
    struct job j;
    struct err e = {0};
    int n = snprintf(text, sizeof text, "data: {train: [x]}\n%s\n", optimizer);
    int rc = job_parse(text, (size_t)n, "own.yaml", NULL, &j, &e);
    ck_assert_msg(rc == expected, "%d: %s", rc, e.text);
    if (rc != 0)
        ck_assert_ptr_nonnull(strstr(e.text, "momentum"));
    return j;
}

START_TEST(a_job_file_knows_it)
{
    struct job j = job_with("tables: [{optimizer: {kind: momentum, beta1: 0.5}}]", 0);
    ck_assert_uint_eq(j.table[0].optimizer.kind, OPT_MOMENTUM);
    ck_assert(j.table[0].optimizer.lr == 0.05f && j.table[0].optimizer.beta1 == 0.5f);
    job_free(&j);
    j = job_with("dense_optimizer: {kind: momentum, lr: 0.1}", 0);
    ck_assert(j.dense_optimizer.kind == OPT_MOMENTUM && j.dense_optimizer.beta1 == 0.9f);
    job_free(&j);
    /* a refusal names it among the choices */
    job_with("tables: [{optimizer: {kind: moment}}]", SHOAL_E_CONFIG);
}
END_TEST

START_TEST(rows_move_by_its_formula)
{
    enum { WIDTH = 19 };
    struct table_schema s = rows_schema(OPT_MOMENTUM, WIDTH, 0);
    struct err e;
    uint64_t key = rows_key(1);
    float before[WIDTH], after[WIDTH];
    ck_assert_int_eq(schema_check(&s, &e), 0);
    ck_assert_uint_eq(schema_state_floats(&s), WIDTH);
    struct rows r = rows_open(&s);
    table_initial(r.table, key, before);
    stats_push(&r, key, 0.5f, 0, 0, (struct stats_batch){0});
    stats_push(&r, key, -0.25f, 0, 0, (struct stats_batch){.batch = 1});
    table_row_weights(&s, table_row(r.table, key), after);
    for (int i = 0; i < WIDTH; i++) {
        float v = 0.5f, w = before[i] - 0.05f * v;
        v = 0.9f * v + -0.25f;
        ck_assert_float_eq(after[i], w - 0.05f * v);
    }
    rows_close(&r);
}
END_TEST

/* Every place that lists optimizers knows it: a staged vector begins with its state, and its name
 * is printed. */
START_TEST(its_state_goes_where_rows_go)
{
    struct table_schema s = stats_schema(OPT_MOMENTUM, 5, 0), t = s;
    char text[SCHEMA_DIFFERENCE_MAX], *notes;
    size_t bytes;
    struct err e;
    uint64_t key = rows_key(1);
    s.zero_first = 1;
    s.rules.vector_score = 1;
    struct rows r = rows_open(&s);
    stats_push(&r, key, 0.5f, 20, 0, (struct stats_batch){0});
    const float *state = table_row_state(&s, table_row(r.table, key));
    ck_assert(state[0] == 0.5f);
    for (int i = 1; i < 5; i++)
        ck_assert_float_eq(state[i], 0); /* gradients from before the vector are not in it */
    rows_close(&r);
    s = t;
    t.optimizer.kind = OPT_ADAM;
    ck_assert_str_eq(schema_difference(&s, &t, text), "the optimizer is momentum, not adam");
    FILE *f = open_memstream(&notes, &bytes);
    ck_assert_int_eq(translate_check(&t, &s, f, &e), 0);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(notes, "its optimizer was adam and is momentum now"));
    free(notes);
}
END_TEST

static char *text_of(const char *path)
{
    static char text[3][1 << 15];
    static int used;
    char *to = text[used++ % 3];
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s does not open; run the test from the root of the source tree",
                  path);
    to[fread(to, 1, sizeof text[0] - 1, f)] = '\0';
    fclose(f);
    return to;
}

START_TEST(readme_quotes_both_to_the_letter)
{
    const char *readme = text_of("embedding/rows/optimizer/README.md"),
               *file = text_of("tests/embedding/rows/optimizer/own_optimizer.c"),
               *row = strstr(text_of("tests/embedding/rows/optimizer/own_optimizer_row.h"), "X(6");
    ck_assert_ptr_nonnull(row);
    ck_assert_uint_gt(strlen(file), 500);
    ck_assert_msg(strstr(readme, file) != NULL, "own_optimizer.c is not quoted as it is");
    ck_assert_msg(strstr(readme, row) != NULL, "the row is not quoted as it is");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("own_optimizer");
    TCase *c = tcase_create("own_optimizer");
    tcase_add_test(c, a_job_file_knows_it);
    tcase_add_test(c, rows_move_by_its_formula);
    tcase_add_test(c, its_state_goes_where_rows_go);
    tcase_add_test(c, readme_quotes_both_to_the_letter);
    suite_add_tcase(s, c);
    return rows_main(s);
}
