/* test_external.c: model.kind: external: its keys, and those that contradict it. */
#include "proto/job/job.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct job job;
static struct err e;

/* The job with these words in `model` and these lines behind. */
static int parse(const char *model, const char *more)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "job: own\n"
                     "data: {format: csv, label: y, train: [a]}\n"
                     "tables: [{name: emb, dim: 4}]\n"
                     "model: {kind: %s}\n%s",
                     model, more);
    memset(&e, 0, sizeof e);
    return job_parse(text, (size_t)n, "job.yaml", NULL, &job, &e);
}

static void refused(const char *model, const char *more, const char *part)
{
    int rc = parse(model, more);
    if (rc == 0)
        job_free(&job);
    ck_assert_int_eq(rc, SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, part) != NULL, "\"%s\" is not in \"%s\"", part, e.text);
}

START_TEST(external_has_the_tensors_that_the_job_names)
{
    ck_assert_msg(parse("external, first_order: true, tensors: [{name: w, shape: [400, 390], init: "
                        "{kind: normal, scale: 0.05}}, {name: b, shape: [7]}]",
                        "") == 0,
                  "%s", e.text);
    ck_assert_int_eq(job.model.kind, MODEL_EXTERNAL);
    ck_assert(job.model.first_order);
    ck_assert_uint_eq(job.model.tensors, 2);
    const struct job_tensor *w = &job.model.tensor[0], *b = &job.model.tensor[1];
    ck_assert_str_eq(w->name, "w");
    ck_assert_uint_eq(w->rank, 2);
    ck_assert_uint_eq(w->shape[0], 400);
    ck_assert_uint_eq(w->shape[1], 390);
    ck_assert_int_eq(w->init.kind, INIT_NORMAL);
    ck_assert_float_eq(w->init.scale, 0.05f);
    ck_assert_uint_eq(b->rank, 1);
    ck_assert_int_eq(b->init.kind, INIT_ZERO);
    job_free(&job);
}
END_TEST

START_TEST(external_without_tensors_has_its_network_elsewhere)
{
    ck_assert_msg(parse("external", "") == 0, "%s", e.text);
    ck_assert_uint_eq(job.model.tensors, 0);
    ck_assert(!job.model.first_order);
    job_free(&job);
}
END_TEST

START_TEST(external_tensors_that_are_none_are_refused)
{
    refused("external, tensors: [{shape: [2]}]", "", "model.tensors[0].name: a name must have");
    refused("external, tensors: [{name: w}]", "", "model.tensors[0].shape has 0 sizes");
    refused("external, tensors: [{name: w, shape: [1, 1, 1, 1, 1]}]", "", "has 5 sizes");
    refused("external, tensors: [{name: w, shape: [0]}]", "", "0 is not a size");
    refused("external, tensors: [{name: w, shape: [many]}]", "", "many is not a size");
    refused("external, tensors: [{name: w, shape: [65536, 65536]}]", "", "more than 268435456");
    refused("external, tensors: [{name: w, shape: [1]}, {name: w, shape: [2]}]", "",
            "model.tensors[1].name: w is there twice");
}
END_TEST

/* Each would do nothing, and its user would not notice. */
START_TEST(external_refuses_what_is_of_a_built_in_network)
{
    static const char *const model[] = {"hidden: [4]",
                                        "hidden2: [4]",
                                        "bottom: [4]",
                                        "cin: [4]",
                                        "tower: [4]",
                                        "attention_hidden: [4]",
                                        "gate_hidden: [4]",
                                        "cross_layers: 2",
                                        "heads: 2",
                                        "dropout: 0.5",
                                        "attention_layers: 2",
                                        "attention_dim: 8",
                                        "interaction: cat",
                                        "experts: 2",
                                        "own_experts: 1",
                                        "levels: 2",
                                        "top_k: 1",
                                        "balance: 0.1",
                                        "stages: 2",
                                        "split: 2",
                                        "split_above: 64",
                                        "norm: batch",
                                        "activation: relu",
                                        "l2: 0.1",
                                        "l2_dense: 0.1"};
    static const char *const train[] = {"precision: bf16", "deterministic: false", "clip_dense: 1",
                                        "clip_row: 1"};
    char key[128], more[128], part[128];
    for (size_t i = 0; i < sizeof model / sizeof model[0]; i++) {
        (void)snprintf(key, sizeof key, "external, %s", model[i]);
        (void)snprintf(part, sizeof part, "line 4: model.%.*s is of the built-in networks",
                       (int)strcspn(model[i], ":"), model[i]);
        refused(key, "", part);
    }
    for (size_t i = 0; i < sizeof train / sizeof train[0]; i++) {
        (void)snprintf(more, sizeof more, "train: {%s}\n", train[i]);
        (void)snprintf(part, sizeof part, "train.%.*s is of the built-in networks",
                       (int)strcspn(train[i], ":"), train[i]);
        refused("external", more, part);
    }
}
END_TEST

/* Ways of training that need the network here. */
START_TEST(external_refuses_ways_that_need_the_network)
{
    refused("external", "train: {window: 4}\n", "train.window cuts a batch into slices");
    refused("external", "train: {dense: allreduce}\n", "train.dense");

    static const char text[] = "job: own\n"
                               "data: {format: csv, label: y, train: [a], negatives: 0.5}\n"
                               "tables: [{name: emb, dim: 4}]\n"
                               "model: {kind: external}\n";
    ck_assert_int_eq(job_parse(text, sizeof text - 1, "job.yaml", NULL, &job, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "data.negatives has predictions corrected"));
}
END_TEST

START_TEST(external_keys_of_other_models_are_refused)
{
    refused("deepfm, tensors: [{name: w, shape: [1]}]", "",
            "model.tensors is for model.kind: external; a built-in network makes its");
    refused("fm, first_order: true", "", "model.first_order is for model.kind: external");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("external");
    TCase *t = suite_case(s, "external", 10, NULL, NULL);
    tcase_add_test(t, external_has_the_tensors_that_the_job_names);
    tcase_add_test(t, external_without_tensors_has_its_network_elsewhere);
    tcase_add_test(t, external_tensors_that_are_none_are_refused);
    tcase_add_test(t, external_refuses_what_is_of_a_built_in_network);
    tcase_add_test(t, external_refuses_ways_that_need_the_network);
    tcase_add_test(t, external_keys_of_other_models_are_refused);
    return suite_main(s);
}
