/* test_model_graph.c: every model has its graph of operators, in which every tensor is read and
 * every input has the shape that the job gives it. The operators are computed by e2e/test_onnx. */
#include "dense/model.h"
#include "dense/model/models.h"
#include "tests/lib/dense_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct feed_names names;
static char name[5][8];

static void names_make(const struct dense_case *c)
{
    for (uint32_t i = 0; i < 5; i++)
        (void)snprintf(name[i], sizeof name[i], "%c%u", i < 3 ? 'f' : 'n', i < 3 ? i : i - 3);
    for (uint32_t i = 0; i < c->shape.fields; i++)
        names.field[i] = name[i];
    for (uint32_t i = 0; i < c->shape.numerics; i++)
        names.numeric[i] = name[3 + i];
}

/* Adds the tensors as weights of zeros, but for the one that `without` names. */
static void tensors_add(const struct dense_case *c, struct graph *g, const char *without)
{
    struct legend all = {.input = NULL};
    ck_assert_int_eq(model_legend(&c->job, &c->shape, &all, NULL), 0);
    for (enum legend_list list = LEGEND_TENSORS; list <= LEGEND_STATISTICS; list++)
        for (uint32_t i = 0; i < all.count[list]; i++) {
            const struct legend_name *n = &all.name[list][i];
            char full[LEGEND_NAME + 16], *end;
            int64_t dim[2] = {strtol(n->what, &end, 10), 0};
            uint32_t dims = 1;
            if (*end == 'x')
                dim[dims++] = strtol(end + 1, NULL, 10);
            (void)snprintf(full, sizeof full, "%s.%s",
                           list == LEGEND_TENSORS ? "dense" : "dense_stats", n->name);
            if (without == NULL || strcmp(without, full) != 0)
                (void)graph_weight(g, full, dim, dims, NULL);
        }
    legend_free(&all);
}

static void case_make(struct dense_case *c, enum model_kind kind, enum norm_kind norm)
{
    dense_case_job(c, kind);
    c->job.model.norm = norm;
    if (kind == MODEL_DIN) {
        c->shape.pooling[1] = POOL_ATTENTION;
        c->shape.attend[1] = 0;
    }
    if (kind == MODEL_MMOE || kind == MODEL_PLE) {
        c->shape.tasks = c->job.data.label_count = 2;
        (void)snprintf(c->job.data.label[0], LIMIT_NAME, "click");
        (void)snprintf(c->job.data.label[1], LIMIT_NAME, "buy");
        c->job.model.top_k = 2;
        c->job.model.levels = 2;
    }
    names_make(c);
}

/* Each kind that the job file knows, so that a model that is added later is here, too. */
START_TEST(every_model_has_a_graph)
{
    for (enum model_kind kind = 0; strcmp(job_model_name(kind), "unknown") != 0; kind++) {
        struct dense_case c;
        struct graph g = {.values = 0};
        struct err e = {.text = ""};
        case_make(&c, kind, (enum norm_kind)_i);
        tensors_add(&c, &g, NULL);
        int rc = model_graph(&c.job, &c.shape, &names, &g, &e);
        if (kind == MODEL_PROBE || kind == MODEL_EXTERNAL) {
            ck_assert_int_eq(rc, SHOAL_E_CONFIG);
            graph_free(&g);
            continue;
        }
        ck_assert_msg(rc == 0 && graph_complete(&g), "%s: %s", job_model_name(kind), e.text);
        ck_assert_uint_eq(g.outputs, c.shape.tasks);
        ck_assert_str_eq(g.value[g.output[0]].name, c.shape.tasks > 1 ? "score_click" : "score");
        for (uint32_t i = 0; i < g.values; i++)
            ck_assert_msg(g.value[i].read || g.value[i].kind == GRAPH_MADE, "%s: %s is not read",
                          job_model_name(kind), g.value[i].name);
        uint32_t first = graph_find(&g, "f0.first"), vector = graph_find(&g, "f0.vector");
        ck_assert_int_eq(vector != GRAPH_NONE, kind != MODEL_LR);
        ck_assert_int_eq(graph_find(&g, "f1.vectors") != GRAPH_NONE, kind == MODEL_DIN);
        ck_assert_int_eq(graph_find(&g, "n1.number") != GRAPH_NONE, true);
        if (vector != GRAPH_NONE)
            ck_assert_int_eq(g.value[vector].dim[1], 3);
        if (first != GRAPH_NONE)
            ck_assert_int_eq(g.value[first].dim[1], 1);
        graph_free(&g);
    }
}
END_TEST

/* On one device the layers of a model of several are one network. */
START_TEST(several_devices_have_the_graph_of_one)
{
    struct dense_case c;
    struct graph one = {.values = 0}, four = {.values = 0};
    case_make(&c, MODEL_DEEPFM, NORM_BATCH);
    tensors_add(&c, &one, NULL);
    ck_assert_int_eq(model_graph(&c.job, &c.shape, &names, &one, NULL), 0);
    c.job.model.stages = c.job.model.split = 2;
    c.job.model.split_above = 3;
    tensors_add(&c, &four, NULL);
    ck_assert_int_eq(model_graph(&c.job, &c.shape, &names, &four, NULL), 0);
    ck_assert_uint_eq(four.nodes, one.nodes);
    ck_assert_uint_eq(four.values, one.values);
    graph_free(&one);
    graph_free(&four);
}
END_TEST

START_TEST(a_tensor_that_is_not_there_is_named)
{
    struct dense_case c;
    struct graph g = {.values = 0};
    struct err e;
    case_make(&c, MODEL_DEEPFM, NORM_BATCH);
    tensors_add(&c, &g, "dense.hidden.1.gamma");
    ck_assert_int_eq(model_graph(&c.job, &c.shape, &names, &g, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "dense.hidden.1.gamma"));
    graph_free(&g);
}
END_TEST

START_TEST(a_model_that_reads_nothing_is_refused)
{
    struct dense_case c;
    struct graph g = {.values = 0};
    case_make(&c, MODEL_LR, NORM_NONE);
    c.shape.fields = c.shape.numerics = 0;
    ck_assert_int_eq(model_graph(&c.job, &c.shape, &names, &g, NULL), SHOAL_E_CONFIG);
    graph_free(&g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_graph");
    TCase *t = tcase_create("model_graph");
    tcase_add_loop_test(t, every_model_has_a_graph, NORM_NONE, NORM_LAYER + 1);
    tcase_add_test(t, several_devices_have_the_graph_of_one);
    tcase_add_test(t, a_tensor_that_is_not_there_is_named);
    tcase_add_test(t, a_model_that_reads_nothing_is_refused);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
