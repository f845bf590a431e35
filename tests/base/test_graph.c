/* test_graph.c: graphs of operators: values by number and name, constants once, a failed allocation
 * or a name that is there twice is told. */
#include "proto/base/graph.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

START_TEST(a_node_reads_values_and_makes_one)
{
    struct graph g = {.values = 0};
    const float w[] = {1, 2, 3, 4, 5, 6};
    uint32_t x = graph_input(&g, "user.vector", "words", (int64_t[]){GRAPH_BATCH, 3}, 2);
    uint32_t weight = graph_weight(&g, "dense.w", (int64_t[]){2, 3}, 2, w);
    graph_scope(&g, "fc", 3);
    uint32_t y = graph_linear(&g, x, weight, GRAPH_NONE);
    graph_output(&g, graph_unary(&g, "Sigmoid", y), "score");
    ck_assert(graph_complete(&g));
    ck_assert_uint_eq(g.nodes, 2);
    ck_assert_str_eq(g.node[0].op, "Gemm");
    ck_assert_uint_eq(g.node[0].ins, 2);
    ck_assert_uint_eq(g.node[0].in[0], x);
    ck_assert_uint_eq(g.node[0].in[1], weight);
    ck_assert_str_eq(g.node[0].attribute[0].name, "transB");
    ck_assert_str_eq(g.value[y].name, "fc.3/Gemm.2");
    ck_assert_str_eq(g.value[g.output[0]].name, "score");
    ck_assert_uint_eq(g.value[weight].bytes, sizeof w);
    ck_assert_mem_eq(g.value[weight].data, w, sizeof w);
    ck_assert_uint_eq(graph_find(&g, "dense.w"), weight);
    ck_assert_uint_eq(graph_find(&g, "dense.v"), GRAPH_NONE);
    ck_assert_ptr_null(graph_twice(&g));
    graph_free(&g);
    ck_assert_uint_eq(g.values, 0);
}
END_TEST

START_TEST(equal_constants_are_one_value)
{
    struct graph g = {.values = 0};
    uint32_t one = graph_integers(&g, (int64_t[]){1, 2}, 2);
    ck_assert_uint_eq(graph_integers(&g, (int64_t[]){1, 2}, 2), one);
    ck_assert_uint_ne(graph_integers(&g, (int64_t[]){1}, 1), one);
    ck_assert_uint_ne(graph_integers(&g, (int64_t[]){2, 1}, 2), one);
    uint32_t half = graph_number(&g, 0.5f);
    ck_assert_uint_eq(graph_number(&g, 0.5f), half);
    ck_assert_uint_ne(graph_number(&g, 2.0f), half);
    ck_assert_uint_eq(g.values, 5);
    graph_free(&g);
}
END_TEST

START_TEST(a_name_that_is_there_twice_is_told)
{
    struct graph g = {.values = 0};
    uint32_t x = graph_input(&g, "score", "", (int64_t[]){GRAPH_BATCH, 1}, 2);
    ck_assert_ptr_null(graph_twice(&g));
    graph_output(&g, graph_unary(&g, "Relu", x), "score");
    ck_assert_str_eq(graph_twice(&g), "score");
    graph_free(&g);
}
END_TEST

START_TEST(after_a_failure_nothing_is_added)
{
    struct graph g = {.failed = true};
    uint32_t x = graph_input(&g, "a", "", (int64_t[]){1}, 1);
    ck_assert_uint_eq(x, GRAPH_NONE);
    ck_assert_uint_eq(graph_slice(&g, x, 0, 0, 1), GRAPH_NONE);
    graph_output(&g, graph_sum(&g, x, 1, true), "score");
    graph_note(&g, "key", "text");
    ck_assert(!graph_complete(&g));
    ck_assert_uint_eq(g.values + g.nodes + g.notes + g.outputs, 0);
    graph_free(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph");
    TCase *tc = suite_case(suite, "graph", 10, NULL, NULL);
    tcase_add_test(tc, a_node_reads_values_and_makes_one);
    tcase_add_test(tc, equal_constants_are_one_value);
    tcase_add_test(tc, a_name_that_is_there_twice_is_told);
    tcase_add_test(tc, after_a_failure_nothing_is_added);
    return suite_main(suite);
}
