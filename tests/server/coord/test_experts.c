/* test_experts.c: the examples of each expert: what workers may report, and what the report has. */
#include "server/coord/figures/experts.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

/* PLE of two levels: 2 shared experts and one of each of 2 tasks, whose gates choose 2 of 3. */
static struct job job;
enum { LEVEL = 4, COUNT = 2 * LEVEL };

static void setup(void)
{
    memset(&job, 0, sizeof job);
    job.model.kind = MODEL_PLE;
    job.model.experts = 2;
    job.model.own_experts = 1;
    job.model.levels = 2;
    job.model.top_k = 2;
    job.data.label_count = 2;
    (void)strcpy(job.data.label[0], "click");
    (void)strcpy(job.data.label[1], "buy");
}

static const uint64_t load[COUNT] = {10, 0, 3, 7, 1, 2, 3, 4};

START_TEST(counts_are_those_of_the_job)
{
    ck_assert(coord_experts_ok(&job, COUNT, load, 10));
    ck_assert(!coord_experts_ok(&job, COUNT, load, 9)); /* more examples than the task has */
    ck_assert(!coord_experts_ok(&job, COUNT - 1, load, 10));
    ck_assert(!coord_experts_ok(&job, COUNT + 1, load, 10));
    ck_assert(coord_experts_ok(&job, 0, NULL, 10)); /* no batch was computed */
    job.model.kind = MODEL_MMOE;                    /* one level, of shared experts */
    ck_assert(!coord_experts_ok(&job, COUNT, load, 10));
    job.model.top_k = 1;
    ck_assert(coord_experts_ok(&job, 2, load, 10));
    job.model.top_k = 2; /* all of them */
    ck_assert(!coord_experts_ok(&job, 2, load, 10));
    job.model.top_k = 0;
    ck_assert(!coord_experts_ok(&job, 2, load, 10));
    job.model.top_k = 1;
    job.model.kind = MODEL_DEEPFM;
    ck_assert(!coord_experts_ok(&job, 2, load, 10));
}
END_TEST

START_TEST(report_names_each_expert)
{
    struct coord_experts x = {.count = 0};
    ck_assert_ptr_null(coord_experts_json(&x, &job));
    coord_experts_add(&x, 0, NULL, 5); /* counted nowhere: not in the share either */
    coord_experts_add(&x, COUNT, load, 10);
    coord_experts_add(&x, COUNT, load, 10);
    struct json *list = coord_experts_json(&x, &job);
    static const char *const task[LEVEL] = {NULL, NULL, "click", "buy"};
    ck_assert_uint_eq(json_count(list), COUNT);
    for (uint32_t e = 0; e < COUNT; e++) {
        const struct json *item = json_array_at(list, e);
        const char *of = json_as_string(json_get(item, "task"), NULL);
        ck_assert_int_eq(json_as_int(json_get(item, "level"), 0), e / LEVEL + 1);
        ck_assert_int_eq(json_as_int(json_get(item, "examples"), -1), (int64_t)(2 * load[e]));
        ck_assert_double_eq_tol(json_as_number(json_get(item, "share"), -1), (double)load[e] / 10,
                                1e-12);
        ck_assert_int_eq(of == NULL, task[e % LEVEL] == NULL);
        if (of != NULL)
            ck_assert_str_eq(of, task[e % LEVEL]);
    }
    json_free(list);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_experts");
    TCase *t = suite_case(s, "experts", 60, setup, NULL);
    tcase_add_test(t, counts_are_those_of_the_job);
    tcase_add_test(t, report_names_each_expert);
    return suite_main(s);
}
