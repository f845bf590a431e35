/* test_job.c: job files are read, and errors in them are reported with their line. */
#include "proto/job/config.h"
#include "proto/job/job.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const good =
    "job: frappe\n"
    "data:\n"
    "  format: csv\n"
    "  train: [a.csv.gz, {cmd: \"zcat b\"}]\n"
    "  valid: v.csv\n"
    "  label: 0\n"
    "tables:\n"
    "  - name: emb\n"
    "    dim: 10\n"
    "    optimizer: {kind: adam, lr: 0.002}\n"
    "model: {kind: deepfm, hidden: [400, 200], norm: batch, l2: 1.0e-5}\n"
    "train: {batch: 4096, epochs: 20, early_stop: {metric: auc, patience: 2, lr_decay: 0.1}, "
    "consistency: bsp}\n"
    "durability: fsync\n";

static int parse(const char *text, const char *set, struct job *j, struct err *e)
{
    struct string_list l = {0};
    if (set != NULL)
        ck_assert_int_eq(config_list_add(&l, set), 0);
    int rc = job_parse(text, strlen(text), "job.yaml", &l, j, e);
    config_list_free(&l);
    return rc;
}

START_TEST(job_good_file_is_read)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(good, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_str_eq(j.name, "frappe");
    ck_assert_str_eq(j.space, "frappe");
    ck_assert_uint_eq(j.data.train.count, 2);
    ck_assert_str_eq(j.data.train.item[1], "cmd:zcat b");
    ck_assert_uint_eq(j.data.valid.count, 1);
    ck_assert_uint_eq(j.table[0].dim, 10);
    ck_assert(j.table[0].optimizer.kind == OPT_ADAM && j.table[0].optimizer.lr == 0.002f);
    ck_assert_uint_eq(j.model.hidden.count, 2);
    ck_assert_uint_eq(j.model.hidden.at[1], 200);
    ck_assert_uint_eq(j.train.mode, 2);
    ck_assert(j.durability == DURABLE_FSYNC);
    job_free(&j);
}
END_TEST

/* `all` drops the servers' tables: it is not a name, and does not go with keys that use these
 * tables. */
START_TEST(job_fresh_all_is_no_name)
{
    static const struct {
        const char *keys, *refused;
        bool all;
        size_t names;
    } c[] = {{"fresh: all\n", NULL, true, 0},
             {"fresh: [all]\n", NULL, true, 0},
             {"fresh: [all]\nstart_from: /c\n", NULL, true, 0},
             {"fresh: [user, dense]\n", NULL, false, 2},
             {"fresh: [user, all]\n", NULL, true, 1},
             {"fresh: [all, all]\n", NULL, true, 0},
             {"fresh: all\nresume: /c\n", "resume goes on with them", false, 0},
             {"fresh: all\nstart_from: fleet\n", "start_from: fleet goes on with them", false, 0}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        char text[1024];
        struct job j = {0};
        struct err e = {0};
        (void)snprintf(text, sizeof text, "%s%s", good, c[i].keys);
        int rc = parse(text, NULL, &j, &e);
        ck_assert_int_eq(rc, c[i].refused == NULL ? 0 : SHOAL_E_CONFIG);
        if (c[i].refused != NULL)
            ck_assert_msg(strstr(e.text, c[i].refused) != NULL, "%s", e.text);
        if (rc != 0)
            continue;
        ck_assert(j.fresh_all == c[i].all);
        ck_assert_uint_eq(j.fresh.count, c[i].names);
        job_free(&j);
    }
}
END_TEST

/* Parses a table with these keys, in a job whose input has event times. */
static int table_of(const char *keys, const char *set, struct job *j, struct err *e)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "data: {train: [a], time: at}\ntables:\n  - {name: emb, %s}\n", keys);
    return parse(text, set, j, e);
}

START_TEST(job_tables_have_no_rules_by_default)
{
    static const struct row_rules none;
    static const char *const plain[] = {
        "dim: 4",
        "admit: {min_count: 1}, evict: {ttl_days: 0}",
        "stats: false, score: {show: 1}",
        "evict: {every_hours: 24, decay: 1}",
        "preset: none, guard: {action: refuse}",
        "evict: {every_hours: 0, decay: 0.9, min_score: 1, ttl_days: 3}, "
        "rules: [{field: C1, ttl_days: 3}]"};
    struct job j;
    struct err e = {0};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        ck_assert_msg(table_of(plain[i], NULL, &j, &e) == 0, "%s", e.text);
        ck_assert_msg(memcmp(&j.table[0].rules, &none, sizeof none) == 0, "%s", plain[i]);
        ck_assert_uint_eq(j.table[0].capacity, 0);
        ck_assert_float_eq(j.table[0].optimizer.decay, 0);
        job_free(&j);
    }
}
END_TEST

START_TEST(job_table_rules_are_read)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(
        table_of("optimizer: {kind: row_adagrad, decay: 0.99}, score: {show: 0.2, click: 2}, "
                 "admit: {min_count: 5, sketch: 4096, waiting: 1000}, "
                 "evict: {every_hours: 1.5, decay: 0.9, min_score: 0.5, ttl_days: 0.25, capacity: "
                 "20M, by: score}, "
                 "vector_score: 7, clamp: 3, by_shows: true, guard: {norm: 10, action: refuse}, "
                 "rules: [{field: C2, admit: {none: true}, ttl_days: 2}, "
                 "{field: C1, init: {kind: constant, scale: 0.5}, admit: {min_score: 3}}]",
                 NULL, &j, &e) == 0,
        "%s", e.text);
    const struct job_table *t = &j.table[0];
    const struct row_rules *r = &t->rules;
    ck_assert_float_eq(t->optimizer.decay, 0.99f);
    ck_assert_uint_eq(r->stats, 1);
    ck_assert(r->score_show == 0.2f && r->score_click == 2);
    ck_assert(r->admit_kind == ADMIT_COUNT && r->admit_threshold == 5);
    ck_assert(r->admit_sketch == 4096 && r->admit_waiting == 1000);
    ck_assert(r->age_every == 5400 && r->age_decay == 0.9f && r->age_score == 0.5f &&
              r->age_ttl == 21600);
    ck_assert(t->capacity == 20000000 && r->age_capacity == 0 && r->age_by == EVICT_SCORE);
    ck_assert(r->vector_score == 7 && r->weight_max == 3 && r->by_shows == 1);
    ck_assert(r->norm_max == 10 && r->norm_refuse == 1);
    ck_assert_uint_eq(t->rule_count, 2);
    ck_assert_str_eq(t->rule[0].field, "C2");
    ck_assert_uint_eq(t->rule[0].rule.has, FIELD_HAS_ADMIT | FIELD_HAS_TTL);
    ck_assert(t->rule[0].rule.admit_kind == ADMIT_NONE && t->rule[0].rule.ttl == 172800);
    ck_assert_uint_eq(t->rule[1].rule.has, FIELD_HAS_INIT | FIELD_HAS_ADMIT);
    ck_assert(t->rule[1].rule.kind == INIT_CONSTANT && t->rule[1].rule.scale == 0.5f);
    ck_assert(t->rule[1].rule.admit_kind == ADMIT_SCORE && t->rule[1].rule.admit_threshold == 3);
    job_free(&j);
}
END_TEST

/* The defaults of Paddle's accessor and of Monolith's expiry. */
START_TEST(job_presets_are_what_they_say)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(table_of("preset: paddle_ctr", NULL, &j, &e) == 0, "%s", e.text);
    const struct row_rules *r = &j.table[0].rules;
    ck_assert(r->stats == 1 && r->score_show == 0.1f && r->score_click == 1 &&
              r->vector_score == 10);
    ck_assert(r->age_every == 86400 && r->age_decay == 0.98f && r->age_score == 0.8f &&
              r->age_ttl == 30 * 86400);
    ck_assert(r->weight_max == 10 && r->by_shows == 1 && r->admit_kind == ADMIT_ALL &&
              r->admit_waiting == 0);
    const struct optimizer_spec *o = &j.table[0].optimizer;
    ck_assert(o->kind == OPT_CTR_ADAGRAD && o->lr == 0.05f && o->initial == 3);
    ck_assert(j.table[0].init.kind == INIT_UNIFORM && j.table[0].init.scale == 1e-4f);
    job_free(&j);
    ck_assert_msg(table_of("preset: monolith", NULL, &j, &e) == 0, "%s", e.text);
    r = &j.table[0].rules;
    ck_assert(r->stats == 1 && r->age_every == 240 * 3600 && r->age_ttl == 36500u * 86400u);
    ck_assert(r->admit_kind == ADMIT_ALL && r->admit_sketch == 0);
    job_free(&j);
    ck_assert_int_eq(
        table_of("preset: monolith, rules: [{field: C1, admit: {min_count: 6}}]", NULL, &j, &e), 0);
    ck_assert_uint_eq(j.table[0].rules.admit_sketch, 8192); /* a count needs it */
    job_free(&j);
}
END_TEST

START_TEST(job_values_of_a_table)
{
    struct job j;
    ck_assert_int_eq(table_of("dim: 8", NULL, &j, NULL), 0);
    ck_assert_uint_eq(j.table[0].values, VALUES_FP32);
    job_free(&j);
    ck_assert_int_eq(table_of("values: fp16", NULL, &j, NULL), 0);
    ck_assert_uint_eq(j.table[0].values, VALUES_FP16);
    job_free(&j);
    ck_assert_int_eq(table_of("values: fp32", "tables[0].values=bf16", &j, NULL), 0);
    ck_assert_uint_eq(j.table[0].values, VALUES_BF16);
    job_free(&j);
}
END_TEST

START_TEST(job_keys_beside_a_preset_count_more)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(table_of("preset: paddle_ctr, score: {show: 0.3}, optimizer: {lr: 0.1}, init: "
                           "{scale: 0.5}, vector_score: 0, "
                           "by_shows: false, clamp: 0, evict: {decay: 0.5, ttl_days: 0}",
                           NULL, &j, &e) == 0,
                  "%s", e.text);
    const struct job_table *t = &j.table[0];
    ck_assert(t->rules.score_show == 0.3f && t->rules.score_click == 1 &&
              t->rules.vector_score == 0);
    ck_assert(t->rules.by_shows == 0 && t->rules.weight_max == 0);
    ck_assert(t->rules.age_decay == 0.5f && t->rules.age_ttl == 0 && t->rules.age_score == 0.8f);
    ck_assert(t->optimizer.kind == OPT_CTR_ADAGRAD && t->optimizer.lr == 0.1f &&
              t->optimizer.initial == 3);
    ck_assert(t->init.kind == INIT_UNIFORM && t->init.scale == 0.5f);
    job_free(&j);
    ck_assert_int_eq(table_of("preset: paddle_ctr, optimizer: {kind: adam}", NULL, &j, &e), 0);
    ck_assert(j.table[0].optimizer.kind == OPT_ADAM && j.table[0].optimizer.lr == 0.001f &&
              j.table[0].optimizer.initial == 0);
    job_free(&j);
}
END_TEST

START_TEST(job_table_rules_that_contradict_are_refused)
{
    static const struct {
        const char *keys, *said;
    } wrong[] = {
        {"admit: {min_count: 2, none: true}", "one of min_count"},
        {"admit: {min_count: 2, probability: 0.5}", "one of min_count"},
        {"admit: {min_count: 2, sketch: 1000}", "no power of two"},
        {"admit: {min_count: 65536, sketch: 1024}", "counts to 65535"},
        {"admit: {probability: 1.5}", "between 0 and 1"},
        {"stats: false, admit: {min_score: 2}", "admit.min_score goes by statistics"},
        {"stats: false, evict: {ttl_days: 1}", "evict goes by statistics"},
        {"stats: false, preset: paddle_ctr, evict: {every_hours: 0}",
         "vector_score goes by statistics"},
        {"evict: {ttl_days: 1, every_hours: 0.0001}", "less than a second"},
        {"evict: {ttl_days: 50000}", "between 0 and 49000"},
        {"optimizer: {kind: adam, decay: 0.9}", "adagrad and row_adagrad"},
        {"optimizer: {kind: ctr_adagrad, initial: 0}", "must be above 0"},
        {"rules: [{field: C1}]", "says nothing"},
        {"rules: [{ttl_days: 3}]", "1 to 63 bytes"},
        {"rules: [{field: C1, ttl_days: 3}, {field: C1, ttl_days: 4}]", "a rule for C1 already"},
        {"rules: [{field: C1, ttl: 3}]", "unknown key tables[0].rules[0].ttl"},
    };
    struct job j;
    struct err e = {0};

    ck_assert_int_eq(table_of(wrong[_i].keys, NULL, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, wrong[_i].said) != NULL, "%s", e.text);
    ck_assert_msg(strstr(e.text, "3") != NULL, "%s names no line", e.text);
}
END_TEST

static const char *const several =
    "data: {train: [a]}\n"
    "tables:\n"
    "  - {name: wide, dim: 32, fields: [user, item], optimizer: {kind: adam}}\n"
    "  - {name: narrow, dim: 4, fields: [weekday]}\n"
    "  - {name: rest, dim: 8}\n";

START_TEST(job_tables_have_fields_of_their_own)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(several, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(j.table_count, 3);
    ck_assert_uint_eq(j.table[0].fields.count, 2);
    ck_assert_str_eq(j.table[0].fields.item[1], "item");
    ck_assert_int_eq(j.table[0].fields_line, 3);
    ck_assert_str_eq(j.table[1].fields.item[0], "weekday");
    ck_assert_uint_eq(j.table[2].fields.count, 0);
    ck_assert(j.table[0].dim == 32 && j.table[1].dim == 4 && j.table[2].dim == 8);
    ck_assert(j.table[0].optimizer.kind == OPT_ADAM && j.table[1].optimizer.kind == OPT_ADAGRAD);
    job_free(&j);
}
END_TEST

START_TEST(job_tables_that_cannot_be_told_apart_are_refused)
{
    static const struct {
        const char *set, *said;
    } wrong[] = {
        {"tables[1].name=wide", "tables[0] is named wide too"},
        {"tables[1].fields=[item]", "item is in the fields of table wide already"},
        {"tables[1].fields=[weekday, weekday]", "weekday is named twice"},
        {"tables[1].fields=[]", "neither table narrow nor table rest"},
        {"tables[1].fields=", "1 to 63 bytes"},
        {"tables[1].fields=[\"0123456789012345678901234567890123456789012345678901234567890123\"]",
         "1 to 63 bytes"},
    };
    struct job j;
    struct err e = {0};

    ck_assert_int_eq(parse(several, wrong[_i].set, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, wrong[_i].said) != NULL, "%s", e.text);
    ck_assert_msg(strstr(e.text, "--set: ") != NULL || strstr(e.text, "line ") != NULL, "%s",
                  e.text);
}
END_TEST

START_TEST(job_tables_are_at_most_so_many)
{
    char text[4096] = "data: {train: [a]}\ntables:\n";
    struct job j;
    struct err e = {0};
    for (uint32_t i = 0; i < LIMIT_JOB_TABLES; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "  - {name: t%u, fields: [f%u]}\n", i, i);
    ck_assert_msg(parse(text, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(j.table_count, LIMIT_JOB_TABLES);
    job_free(&j);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                   "  - {name: more, fields: [f]}\n");
    ck_assert_int_eq(parse(text, NULL, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "at most 32 tables") != NULL, "%s", e.text);
}
END_TEST

/* Without times no row would ever age, and no message would say so. */
START_TEST(job_ageing_needs_event_times)
{
    static const char *const tables[] = {"preset: paddle_ctr", "evict: {ttl_days: 1}",
                                         "evict: {capacity: 1M}",
                                         "rules: [{field: C1, ttl_days: 1}]"};
    char text[256];
    struct job j;
    struct err e = {0};
    (void)snprintf(text, sizeof text, "data: {train: [a]}\ntables: [{%s}]\n", tables[_i]);
    ck_assert_int_eq(parse(text, NULL, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "data.time") != NULL, "%s", e.text);
    ck_assert_msg(parse(text, "data.time=at", &j, &e) == 0, "%s", e.text);
    job_free(&j);
    ck_assert_msg(parse(text,
                        _i == 2 ? "tables[0].evict.by=score" : "tables[0].evict.every_hours=0", &j,
                        &e) == 0,
                  "%s", e.text);
    job_free(&j);
}
END_TEST

static uint32_t window_of(const char *text, const char *set)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(text, set, &j, &e) == 0, "%s", e.text);
    uint32_t window = j.replay.window;
    ck_assert(job_timed(&j));
    job_free(&j);
    return window;
}

/* Times in names are as good as a column, and a window is a partition by default. */
START_TEST(job_partitions_tell_times)
{
    static const struct {
        const char *data, *words;
    } bad[] = {{"train: [a], partition: x", "line 1: data.partition: it names no day"},
               {"train: [a], partition: '{dat}'", "{dat} is none of {date}"},
               {"train: ['-'], partition: '{date}'", "- has no name"},
               {"train: [{cmd: ls}], partition: '{date}'", "has no name"}};
    struct job j;
    struct err e = {0};
    char text[256];
#define PART(more) "data: {train: [a], partition: '{date}/{hour:6}'}\n" more
    ck_assert_uint_eq(window_of(PART("replay: {every: 1d}\n"), NULL), 6 * 3600);
    ck_assert_uint_eq(window_of(PART("replay: {every: 1d}\n"), "replay.window=1h"), 3600);
    ck_assert_uint_eq(window_of(PART("replay: {every: 1d}\n"), "data.partition='{date}T*'"), 86400);
    ck_assert_uint_eq(window_of(PART("tables: [{evict: {ttl_days: 1}}]\n"), NULL), 0);
    ck_assert_uint_eq(window_of("data: {train: [a], time: t}\nreplay: {every: 1d}\n", NULL), 3600);
#undef PART
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        e = (struct err){0};
        snprintf(text, sizeof text, "data: {%s}\n", bad[i].data);
        ck_assert_int_eq(parse(text, NULL, &j, &e), SHOAL_E_CONFIG);
        ck_assert_msg(strstr(e.text, bad[i].words) != NULL, "%s", e.text);
    }
}
END_TEST

START_TEST(job_time_has_a_unit)
{
    struct job j;
    struct err e = {0};
    ck_assert_int_eq(parse("data: {train: [a], time: at, time_unit: ms}\n", NULL, &j, &e), 0);
    ck_assert_str_eq(j.data.time, "at");
    ck_assert_int_eq(j.data.time_form.unit, TIME_MILLISECONDS);
    ck_assert(!j.data.time_form.any);
    job_free(&j);
    ck_assert_int_eq(parse("data: {train: [a]}\n", NULL, &j, &e), 0);
    ck_assert_str_eq(j.data.time, "");
    job_free(&j);
}
END_TEST

START_TEST(job_model_names_are_those_of_the_file)
{
    char set[64];
    struct job j;
    struct err e;
    for (int kind = MODEL_LR; kind <= MODEL_PLE; kind++) {
        (void)snprintf(set, sizeof set, "model.kind=%s", job_model_name((enum model_kind)kind));
        e.text[0] = 0;
        if (parse(good, set, &j, &e) != 0) {
            /* some need more keys than this job has, but the name is known */
            ck_assert_msg(strstr(e.text, "unknown") == NULL && strstr(e.text, "one of") == NULL,
                          "%s: %s", set, e.text);
            continue;
        }
        ck_assert_int_eq((int)j.model.kind, kind);
        job_free(&j);
    }
    ck_assert_int_eq(parse(good, "model.kind=unknown", &j, &e), SHOAL_E_CONFIG); /* the control */
}
END_TEST

START_TEST(job_too_many_fields_to_evaluate_by_are_refused)
{
    char set[256] = "evaluate.by=[f";
    struct job j;
    struct err e = {0};
    for (uint32_t i = 1; i < LIMIT_BY; i++)
        strcat(set, ",f");
    ck_assert_int_eq(parse(good, strcat(set, "]"), &j, &e), 0);
    job_free(&j);
    set[strlen(set) - 1] = 0;
    ck_assert_int_eq(parse(good, strcat(set, ",f]"), &j, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "evaluate.by: at most 32"));
}
END_TEST

START_TEST(job_set_replaces_values_and_lists)
{
    struct job j;
    ck_assert_int_eq(parse(good, "data.train=[x, y, z]", &j, NULL), 0);
    ck_assert_uint_eq(j.data.train.count, 3);
    job_free(&j);
    ck_assert_int_eq(parse(good, "tables[0].dim=7", &j, NULL), 0);
    ck_assert_uint_eq(j.table[0].dim, 7);
    job_free(&j);
    ck_assert_int_eq(parse(good, "tables.0.dim=8", &j, NULL), 0);
    ck_assert_uint_eq(j.table[0].dim, 8);
    job_free(&j);
}
END_TEST

static void refused(const char *text, const char *set, const char *part)
{
    struct job j;
    struct err e = {0};
    ck_assert_int_eq(parse(text, set, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, part) != NULL, "\"%s\" is not in \"%s\"", part, e.text);
}

/* A line of the file is named only if the value stands there. */
START_TEST(job_refusals_say_where_the_value_stands)
{
    refused(good, "data.delimiter=comma", "job.yaml: --set: data.delimiter must be one character");
    refused(good, "tables[0].optimizer.eps=-1", "--set: ");
    refused("data: {train: a}\ntrain: {early_stop: {patience: 1}}\n", NULL,
            "job.yaml: line 2: train.early_stop needs data.valid");
    refused("data: {train: a}\ntrain: {schedule: {kind: step}}\n", "train.schedule.kind=linear",
            "job.yaml: --set: train.schedule needs batches");
}
END_TEST

/* In YAML a dash is a list without elements. */
START_TEST(job_set_takes_a_dash_as_it_stands)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(good, "data.train=-", &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(j.data.train.count, 1);
    ck_assert_str_eq(j.data.train.item[0], "-");
    job_free(&j);
    ck_assert_int_eq(parse("data:\n  train: -\n", NULL, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "job.yaml:2: ") != NULL && strstr(e.text, "write '-'") != NULL,
                  "%s", e.text);
}
END_TEST

START_TEST(job_numbers_are_read_as_they_were_checked)
{
    struct job j;
    ck_assert_int_eq(parse(good, "train.batch=0x10", &j, NULL), 0);
    ck_assert_uint_eq(j.train.batch, 16);
    job_free(&j);
    ck_assert_int_eq(parse(good, "train.batch=1e3", &j, NULL), 0);
    ck_assert_uint_eq(j.train.batch, 1000);
    job_free(&j);
    ck_assert_int_eq(parse(good, "train.seed=9223372036854775807", &j, NULL), 0);
    ck_assert_uint_eq(j.train.seed, 9223372036854775807u);
    job_free(&j);
}
END_TEST

/* A lane's batch is a window of batches, and no more rows than a lane reads at once. */
START_TEST(job_window_multiplies_the_rows_of_a_batch)
{
    static const char text[] = "data: {train: [a.tsv]}\ntables: [{name: t, dim: 2}]\n"
                               "model: {kind: fm}\ntrain: {batch: 16384, window: 4}\n";
    struct job j;
    ck_assert_int_eq(parse(good, NULL, &j, NULL), 0);
    ck_assert_uint_eq(job_window(&j), 1);
    ck_assert_uint_eq(job_batch_rows(&j), j.train.batch);
    job_free(&j);
    ck_assert_int_eq(parse(text, NULL, &j, NULL), 0);
    ck_assert_uint_eq(job_window(&j), 4);
    ck_assert_uint_eq(job_batch_rows(&j), LIMIT_BATCH);
    job_free(&j);
    refused(text, "train.window=5",
            "train.window: 5 batches of 16384 rows (train.batch) are more than the 65536 rows");
}
END_TEST

START_TEST(job_unknown_key_names_line_and_nearest)
{
    refused("job: x\ndata: {train: a}\ntrain:\n  bach: 3\n", NULL,
            "job.yaml:4: unknown key train.bach; the nearest known key is train.batch");
    refused(good, "data.labels=[a, b]", "the nearest known key is data.label");
    refused(good, "labels=click", "the nearest known key is data.label");
    refused(good, "warm_start=runs/small", "unknown key warm_start; it is called start_from now");
}
END_TEST

START_TEST(job_key_in_a_wrong_place_names_the_right_one)
{
    refused(good, "epochs=3", "unknown key epochs; it is a part of train.epochs");
    refused(good, "columns[0].name=a", "it is a part of data.columns[].name");
    refused(good, "lr=0.1", "it is a part of tables[].optimizer.lr, dense_optimizer.lr");
    refused("job: x\ndata: {train: a, format: csv, columns: {I1: number}}\n", NULL,
            "job.yaml:2: unknown key data.columns.I1: data.columns is a list: columns: [{name: I1, "
            "type: number}]");
    refused("job: x\ndata: {train: a}\ntables: {emb: {dim: 4}}\n", NULL,
            "tables is a list of maps: begin each with `- name: ..`");
}
END_TEST

/* Where a key needs text, a value that YAML would read as a map, or refuse, is taken as text. */
START_TEST(job_set_of_a_text_is_taken_as_it_stands)
{
    struct string_list set = {0};
    struct job j;
    struct err e;
    refused(good, "data.delimiter=\\x", "must be one character, or tab");
    refused(good, "data.delimiter=comma", "and digits; it is \"comma\"");
    refused(good, "data.delimiter=::::::::", "up to 7 characters");
    refused(good, "data.delimiter=\"", "cannot have a quote");
    ck_assert_int_eq(config_list_add(&set, "data.delimiter=|"), 0);
    ck_assert_msg(job_parse(good, strlen(good), "job.yaml", &set, &j, &e) == 0, "%s", e.text);
    ck_assert_str_eq(j.data.delimiter, "|");
    config_list_free(&set);
    job_free(&j);
}
END_TEST

START_TEST(job_wrong_values_are_refused)
{
    refused(good, "train.batch=many", "--set: train.batch: many is not a number");
    refused(good, "train.bacth=3",
            "--set: unknown key train.bacth; the nearest known key is train.batch");
    refused(good, "train.batch=0", "not between 1 and");
    refused(good, "train.batch=1.5", "not a whole number");
    refused(good, "train.window=0", "not between 1 and 64");
    refused(good, "model.stages=17", "not between 1 and 16");
    refused(good, "model.split=0", "not between 1 and 16");
    refused(good, "train.micro_batches=257", "not between 1 and 256");
    refused(good, "train.micro_batches=4",
            "train.micro_batches are for a model in stages: in one stage nothing overlaps");
    refused(good, "train.seed=1e300", "not a whole number");
    refused(good, "train.seed=99999999999999999999", "not a whole number");
    refused(good, "journal.max=-1", "not a size");
    refused(good, "train.consistency=eventual", "async|ssp|bsp");
    refused(good, "train=5", "holds further keys");
    refused(good, "model.hidden=[400, x]", "not a number of units");
    refused(good, "tables[0].tablets=1000", "no power of two");
    refused(good, "tables[0].values=int8", "fp32|fp16|bf16");
    refused(good, "tables[0].name=dense", "taken");
    refused("job: x\n", NULL, "data.train is missing");
    refused("job: [\n", NULL, "job.yaml:");
    refused("job: x\njob: y\ndata: {train: a}\n", NULL, "stands twice");
    refused("job: x\ndata: {train: a}\ntrain: {early_stop: {patience: 2}}\n", NULL,
            "needs data.valid");
}
END_TEST

/* A growing log has no end. */
START_TEST(job_that_grows_has_nothing_that_ends)
{
    struct job j;
    struct err e;
    const char *grows = "job: x\ndata: {train: a*, objects: {grow: 1min}}\n";
    ck_assert_int_eq(job_parse(grows, strlen(grows), "job.yaml", NULL, &j, &e), 0);
    ck_assert(j.data.objects.of[0].on);
    ck_assert_uint_eq(j.data.objects.grow_ms, 60000);
    job_free(&j);
    struct string_list skip = {0};
    ck_assert_int_eq(config_list_add(&skip, "train.skip=true"), 0);
    ck_assert_msg(job_parse(grows, strlen(grows), "job.yaml", &skip, &j, &e) == 0, "%s", e.text);
    ck_assert(j.data.objects.of[0].on);
    ck_assert_uint_eq(j.data.objects.grow_ms, 0); /* scores of the trained tables */
    config_list_free(&skip);
    job_free(&j);
    const char *beside = "job: x\n"
                         "data: {train: a*, valid: {object: {list: l, open: o}}, test: t, objects: "
                         "{grow: 1min}, format: events}\n";
    ck_assert_int_eq(job_parse(beside, strlen(beside), "job.yaml", NULL, &j, &e), 0);
    ck_assert(j.data.objects.of[0].on && j.data.objects.of[1].on && !j.data.objects.of[2].on);
    job_free(&j);
    refused("job: x\ndata: {train: a*, objects: false, objects.grow: 1min}\n", NULL,
            "only a log of objects grows");
    refused(grows, "train.epochs=2", "each object is trained once");
    refused("job: x\ndata: {train: a*, valid: b, objects: {grow: 1min}}\n",
            "train.early_stop.patience=1", "no evaluation is the last");
    refused("job: x\ndata: {train: a*, objects: {grow: 1min}}\n"
            "train: {schedule: {kind: cosine, batches: 9}}\n",
            NULL, "it falls towards an end");
    refused(grows, "data.objects.grow=10ms", "data.objects.grow");
}
END_TEST

START_TEST(job_text_survives_a_round_trip)
{
    char path[] = "/tmp/shoal-test-job-XXXXXX";
    struct string_list set = {0};
    struct err e = {0};
    struct job j;
    char *text;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    FILE *f = fdopen(fd, "w");
    fputs(good, f);
    fclose(f);
    config_list_add(&set, "train.seed=7");
    config_list_add(&set, "data.delimiter=\"\\t\"");
    ck_assert_msg(job_text(path, &set, &text, &e) == 0, "%s", e.text);
    ck_assert_msg(job_parse(text, strlen(text), "text", NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(j.train.seed, 7);
    ck_assert_str_eq(j.data.delimiter, "\t");
    ck_assert_str_eq(j.data.train.item[1], "cmd:zcat b");
    job_free(&j);
    free(text);
    config_list_free(&set);
    unlink(path);
}
END_TEST

/* As many values as allowed, and one that occurs twice; --set removes a whole list and its
 * places. */
START_TEST(config_finds_one_of_many)
{
    static const struct config_key keys[] = {{.path = "list", .type = CONFIG_LIST}, {0}};
    static char text[1 << 20];
    struct err e = {0};
    struct config *c;
    char twice[] = "list[0]: again\n";
    size_t at = (size_t)snprintf(text, sizeof text, "list: [");
    for (uint32_t i = 0; i < 4000; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "v%u, ", i);
    at += (size_t)snprintf(text + at, sizeof text - at, "last]\n");
    struct string_list none = {0}, set = {0};
    ck_assert_msg(config_parse(text, at, "many", &none, keys, &c, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(config_count(c, "list"), 4001);
    config_free(c);
    char *other[] = {"list=[one, two]"};
    set.item = other;
    set.count = 1;
    ck_assert_msg(config_parse(text, at, "many", &set, keys, &c, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(config_count(c, "list"), 2);
    config_free(c);
    (void)snprintf(text + at, sizeof text - at, "%s", twice);
    ck_assert_int_eq(config_parse(text, strlen(text), "many", &none, keys, &c, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "stands twice"));
}
END_TEST

/* Seven levels of sixty aliases: 2 KB that name 60^7 nodes. */
START_TEST(job_aliases_count_as_what_they_name)
{
    static char text[8192];
    struct job j;
    struct err e = {0};
    size_t used = (size_t)snprintf(text, sizeof text, "x0: &a0 {}\n");
    for (int level = 1; level <= 7; level++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "x%d: &a%d [", level, level);
        for (int i = 0; i < 60; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "*a%d,", level - 1);
        used += (size_t)snprintf(text + used, sizeof text - used, "]\n");
    }
    ck_assert_int_eq(parse(text, NULL, &j, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "each alias (*name) counted as what it names"));
}
END_TEST

START_TEST(job_missing_file_is_no_input)
{
    struct job j;
    ck_assert_int_eq(job_load("/nonexistent/job.yaml", NULL, &j, NULL), SHOAL_E_NOINPUT);
}
END_TEST

static const char *const sequences =
    "data:\n"
    "  format: csv\n"
    "  train: a.csv\n"
    "  weight: w\n"
    "  negatives: 0.1\n"
    "  columns:\n"
    "    - {name: user}\n"
    "    - {name: history, type: multi, pooling: attention, attend: item, share: item, max: 50}\n"
    "    - {name: item, type: category}\n"
    "    - {name: tags, type: multi, pooling: mean}\n"
    "    - {name: id, type: skip}\n"
    "    - {name: click, type: label}\n";

START_TEST(job_labels_are_one_or_a_list)
{
    struct job j;
    struct err e = {0};
    ck_assert_int_eq(parse(good, NULL, &j, NULL), 0);
    ck_assert_uint_eq(j.data.label_count, 1);
    ck_assert_str_eq(j.data.label[0], "0");
    ck_assert(job_task_weights(&j) == 1);
    job_free(&j);
    ck_assert_int_eq(parse(good, "data.label=click", &j, NULL), 0);
    ck_assert_uint_eq(j.data.label_count, 1);
    ck_assert_str_eq(j.data.label[0], "click");
    job_free(&j);
    const char *two = "data: {format: csv, train: a, label: [click, buy]}\nmodel: {kind: mmoe}\n";
    ck_assert_msg(parse(two, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(j.data.label_count, 2);
    ck_assert_str_eq(j.data.label[0], "click");
    ck_assert_str_eq(j.data.label[1], "buy");
    ck_assert(j.model.task_weight[0] == 1 && j.model.task_weight[1] == 1);
    job_free(&j);
    ck_assert_int_eq(parse(two, "model.task_weights=[1, 0.5]", &j, NULL), 0);
    ck_assert(j.model.task_weight[1] == 0.5 && job_task_weights(&j) == 1.5);
    job_free(&j);
    ck_assert_int_eq(parse(two, "model.kind=ple", &j, NULL), 0);
    job_free(&j);
    refused(two, "model.kind=deepfm", "only the models mmoe and ple");
    refused(two, "model.task_weights=[1]", "data.label names 2 labels");
    refused(two, "model.task_weights=[1, -1]", "not a number from 0");
    refused(two, "model.task_weights=[0, 0]", "all 0");
    refused(two, "data.label=[a, b, c, d, e, f, g, h, i]", "at most 8 labels");
    refused(two,
            "data.label=[a, a_name_that_is_much_longer_than_the_limit_of_sixty_three_bytes_is]",
            "1 to 63 bytes");
}
END_TEST

static const char *const one_label =
    "data: {train: [a], valid: [v], format: csv, label: watch}\nmodel: {kind: deepfm}\n";
static const char *const two_labels =
    "data: {train: [a], valid: [v], format: csv, label: [click, watch]}\nmodel: {kind: mmoe}\n";

START_TEST(job_losses_are_by_label)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(two_labels, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(job_real_labels(&j), 0);
    ck_assert_str_eq(job_loss_name(&j), "logloss");
    job_free(&j);
    ck_assert_msg(parse(two_labels, "model.loss=[logloss, huber]", &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(job_real_labels(&j), 2);
    ck_assert_str_eq(job_loss_name(&j), "loss");
    ck_assert(j.model.loss[1] == LOSS_HUBER && j.model.huber_delta == 1);
    ck_assert(j.train.early_stop.metric == METRIC_AUC);
    job_free(&j);
    ck_assert_msg(parse(two_labels, "model.loss=mse", &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(job_real_labels(&j), 3);
    ck_assert(j.train.early_stop.metric == METRIC_RMSE);
    ck_assert(job_metric_falls(METRIC_RMSE) && !job_metric_falls(METRIC_GAUC));
    job_free(&j);
}
END_TEST

START_TEST(job_losses_that_make_no_sense_are_refused)
{
    refused(one_label, "model.loss=l2", "l2 is none of logloss, mse, huber");
    refused(two_labels, "model.loss=[mse, mse, mse]", "names 3 losses, data.label names 2 labels");
    refused(one_label, "model.huber_delta=2", "no label has it");
    refused(one_label, "train.early_stop.metric=rmse", "no label has model.loss mse or huber");
    struct job j;
    struct err e = {0};
    static const char *const of_clicks[][2] = {
        {"data: {label_above: 3}", "data.label_above makes a label 0 or 1"},
        {"data: {label_positive: [yes]}", "data.label_positive makes a label 0 or 1"},
        {"data: {negatives: 0.5}", "data.negatives leaves out rows whose label is 0"},
        {"train: {early_stop: {metric: auc}}", "early_stop.metric is auc"},
        {"evaluate: {group: user}", "evaluate.group is for AUC"}};
    for (size_t i = 0; i < sizeof of_clicks / sizeof of_clicks[0]; i++) {
        char text[512];
        const char *more = of_clicks[i][0];
        bool data = strncmp(more, "data: {", 7) == 0;
        (void)snprintf(text, sizeof text,
                       "data: {train: [a], valid: [v], format: csv, label: watch%s%s\n"
                       "model: {kind: deepfm, loss: mse}\n%s\n",
                       data ? ", " : "}", data ? more + 7 : "", data ? "" : more);
        ck_assert_int_eq(parse(text, NULL, &j, &e), SHOAL_E_CONFIG);
        ck_assert_msg(strstr(e.text, of_clicks[i][1]) != NULL, "%s", e.text);
    }
    refused(two_labels, "train.early_stop.metric=mae", "no label has");
}
END_TEST

/* Rows and layers of a probability are none of a number. */
START_TEST(job_losses_decide_whether_a_model_is_the_same)
{
    struct job was, is;
    struct err e = {0};
    ck_assert_int_eq(parse(one_label, NULL, &was, &e), 0);
    ck_assert_int_eq(parse(one_label, "model.loss=mse", &is, &e), 0);
    ck_assert_int_eq(job_same_model(&was, &is, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "model.loss is mse or huber, in the checkpoint it was logloss") !=
                      NULL,
                  "%s", e.text);
    ck_assert_int_eq(job_same_losses(&was, &is, &e), SHOAL_E_CONFIG);
    job_free(&was);
    ck_assert_int_eq(parse(one_label, "model.loss=huber", &was, &e), 0);
    ck_assert_int_eq(job_same_model(&was, &is, &e), 0);
    job_free(&was);
    job_free(&is);
}
END_TEST

/* The run's folder has the job's name. */
START_TEST(job_name_leads_nowhere)
{
    static const char *const bad[] = {"job=../../evil", "job=my job/x", "job=.hidden", "job=-x",
                                      "job=\"a\\nb\""};
    struct job j;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(good, bad[i], "is no name");
    ck_assert_int_eq(parse(good, "job=\"Täglich 2.1, 日本 <b>\"", &j, NULL), 0);
    job_free(&j);
}
END_TEST

START_TEST(job_csv_names_its_label)
{
    static const char *const bare = "data: {format: csv, train: a.csv}\n";
    struct job j;
    struct err e = {0};
    ck_assert_int_eq(parse(bare, NULL, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "data.label is missing") != NULL &&
                      strstr(e.text, "--set data.label=") != NULL,
                  "%s", e.text);
    ck_assert_int_eq(parse(bare, "data.columns=[{name: a}, {name: b, type: number}]", &j, NULL),
                     SHOAL_E_CONFIG);
    static const char *const told[] = {"data.label=0", "data.label=click",
                                       "data.columns=[{name: a}, {name: b, type: label}]",
                                       "data.format=criteo", "data.format=libsvm"};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        ck_assert_msg(parse(bare, told[i], &j, &e) == 0, "%s: %s", told[i], e.text);
        ck_assert_uint_eq(j.data.label_count, 1);
        job_free(&j);
    }
}
END_TEST

START_TEST(job_examples_have_weights_and_negatives_a_share)
{
    struct job j;
    ck_assert_int_eq(parse(good, NULL, &j, NULL), 0);
    ck_assert_str_eq(j.data.weight, "");
    ck_assert(j.data.negatives == 1);
    job_free(&j);
    ck_assert_int_eq(parse(sequences, NULL, &j, NULL), 0);
    ck_assert_str_eq(j.data.weight, "w");
    ck_assert(j.data.negatives == 0.1);
    job_free(&j);
    refused(sequences, "data.negatives=0", "not between");
    refused("data: {format: csv, train: a, label: [click, buy]}\nmodel: {kind: mmoe}\n",
            "data.negatives=0.5", "no constant corrects");
    refused(sequences, "data.negatives=1.5", "not between");
    refused(sequences, "data.negatives=few", "not a number");
    refused(sequences, "data.weight=\"\"", "1 to 63 bytes");
}
END_TEST

START_TEST(job_lanes_are_a_number_or_fit)
{
    static const char *const bare = "data: {format: libsvm, train: a}\n";
    struct job j;
    ck_assert_int_eq(parse(bare, NULL, &j, NULL), 0);
    ck_assert_uint_eq(j.train.lanes, JOB_LANES);
    ck_assert_uint_eq(job_lanes(&j), JOB_LANES);
    job_free(&j);
    ck_assert_int_eq(parse(bare, "train.lanes=5", &j, NULL), 0);
    ck_assert_uint_eq(job_lanes(&j), 5);
    job_free(&j);
    ck_assert_int_eq(parse("data: {format: libsvm, train: a}\ntrain: {lanes: 0}\n",
                           "train.lanes_there=12", &j, NULL),
                     0);
    ck_assert_uint_eq(j.train.lanes, 0);
    ck_assert_uint_eq(job_lanes(&j), 12);
    job_free(&j);
    refused(bare, "train.lanes=1025", "not between");
}
END_TEST

START_TEST(job_sample_is_of_examples_or_of_a_column)
{
    struct job j;
    ck_assert_int_eq(parse(good, NULL, &j, NULL), 0);
    ck_assert(j.data.sample == 1 && !job_draws(&j));
    ck_assert_str_eq(j.data.sample_by, "");
    job_free(&j);
    ck_assert_int_eq(parse(good, "data.sample=0.1", &j, NULL), 0);
    ck_assert(j.data.sample == 0.1 && job_draws(&j));
    job_free(&j);
    ck_assert_int_eq(parse(sequences, "data.sample=0.1", &j, NULL), 0);
    job_free(&j);
    ck_assert_int_eq(parse(sequences, NULL, &j, NULL), 0);
    ck_assert(job_draws(&j)); /* its negatives */
    job_free(&j);
    refused(sequences, "data.sample=0", "not between");
    refused(sequences, "data.sample=10", "not between");
    refused(sequences, "data.sample_by=user", "data.sample is 1");
    refused("data: {format: csv, train: a, label: click, sample: 0.1}\n", "data.sample_by=\"\"",
            "1 to 63 bytes");
    static const char *const users =
        "data: {format: csv, train: a, label: click, sample: 0.1, sample_by: user}\n";
    ck_assert_int_eq(parse(users, NULL, &j, NULL), 0);
    ck_assert_str_eq(j.data.sample_by, "user");
    job_free(&j);
}
END_TEST

START_TEST(job_labels_that_come_late_are_joined)
{
    static const char *const late = "data:\n"
                                    "  format: csv\n"
                                    "  train: a.csv\n"
                                    "  label: click\n"
                                    "  time: when\n"
                                    "  join: {clicks: [b.csv, 'cmd:c'], id: request}\n";
    struct job j;
    struct err e = {0};
    ck_assert_int_eq(parse(good, NULL, &j, NULL), 0);
    ck_assert(!j.data.join.on && j.data.join.clicks.count == 0);
    job_free(&j);
    ck_assert_msg(parse(late, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert(j.data.join.on && !j.data.join.learn && j.data.join.clicks.count == 2);
    ck_assert_str_eq(j.data.join.click_id, "request");
    ck_assert_str_eq(j.data.join.click_time, "when");
    ck_assert_uint_eq(j.data.join.window, 1800);
    ck_assert_uint_eq(j.data.join.keep, 1800);
    ck_assert_uint_eq(j.data.join.disorder, 300);
    ck_assert_str_eq(job_command(&j), "data.join.clicks"); /* a worker must be allowed to run it */
    job_free(&j);
    ck_assert_int_eq(parse(late, "data.join.keep=0s", &j, &e), 0);
    ck_assert_uint_eq(j.data.join.keep, 0);
    job_free(&j);
    refused(late, "data.join.window=1500ms", "whole seconds");
    refused(late, "data.join.window=0s", "not between");
    refused(late, "data.join.clicks=[]", "clicks is missing");
    refused(late, "data.join.id=when", "that is data.time");
    refused(late, "data.header=false", "csv with data.header");
    refused(late, "data.label=[click, buy]", "makes one label");
    refused(late, "data.label_above=3", "labels 0 and 1");
    refused("data: {train: a, join: {clicks: b, id: c}}", NULL, "csv with data.header");
    refused("data: {format: csv, label: x, train: a, join: {clicks: b, id: c}}", NULL, "data.time");
    refused("data: {format: csv, label: x, time: t, train: a, join: {clicks: b}}", NULL,
            "id is missing");
}
END_TEST

/* Every way in which a job file names a command; all other texts keep their meaning. */
START_TEST(job_bare_text_has_no_command)
{
    static const char *const texts[] = {
        "data: {train: [a, {cmd: 'get s3cret'}], valid: {cmd: s3cret}, test: 'cmd:s3cret'}\n",
        "data.train: a # s3cret\ndata.valid.cmd: s3cret\ndata.test[0].cmd: s3cret\n",
        "data: {train: {object: {list: 's3cret l', open: \"s3cret\\u00e9\"}}, test: &x [b]}\n"
        "data.valid.object: {open: s3cret, list: s3cret}\n",
        "data: {train: \"object:s3cret\\x1fs3cret\"}\ncheckpoint.publish: s3cret\n",
        "data: {train: a}\ncheckpoint: {publish: [sh, -c, 'curl s3cret']}\n",
        "data: {format: csv, label: x, time: t, train: a, join: {clicks: [{cmd: s3cret}], id: c}}",
    };
    struct err e = {0};
    struct job j, bare;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *text, *again;
        size_t bytes, more;
        ck_assert_msg(parse(texts[i], NULL, &j, &e) == 0, "%zu: %s", i, e.text);
        ck_assert_msg(job_text_bare(texts[i], strlen(texts[i]), &text, &bytes, &e) == 0, "%s",
                      e.text);
        ck_assert_uint_eq(bytes, strlen(text));
        ck_assert_msg(strstr(text, "s3cret") == NULL, "%s", text);
        ck_assert_msg(parse(text, NULL, &bare, &e) == 0, "%zu: %s", i, e.text);
        ck_assert_msg(job_same_model(&j, &bare, &e) == 0, "%zu: %s", i, e.text);
        ck_assert_uint_eq(j.data.train.count, bare.data.train.count);
        ck_assert_int_eq(job_text_bare(text, bytes, &again, &more, &e), 0);
        ck_assert_str_eq(text, again);
        free(again);
        free(text);
        job_free(&j);
        job_free(&bare);
    }
}
END_TEST

START_TEST(job_splits_may_be_of_objects)
{
    static const char *const behind = "data:\n"
                                      "  train: a\n"
                                      "  objects: {tries: 2}\n"
                                      "  valid: {object: {list: l, open: o}}\n"
                                      "  test: [b, c]\n";
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(behind, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert(!j.data.objects.of[0].on && j.data.objects.of[1].on && !j.data.objects.of[2].on);
    ck_assert_str_eq(j.data.objects.of[1].open, "o");
    ck_assert_uint_eq(j.data.objects.tries, 2);
    ck_assert_str_eq(job_command(&j), "data.valid");
    job_free(&j);
    ck_assert_int_eq(parse("data: {train: a, valid: b, test: '-', objects: true}", NULL, &j, &e),
                     0);
    ck_assert(j.data.objects.of[0].on && j.data.objects.of[1].on && !j.data.objects.of[2].on);
    ck_assert_ptr_null(job_command(&j));
    job_free(&j);
    ck_assert_int_eq(parse("data: {train: a, objects: true, format: events}", NULL, &j, &e), 0);
    job_free(&j);
    refused("data: {train: a, valid: [b, {object: {list: l, open: o}}]}", NULL, "stands alone");
    refused("data: {train: a, test: {object: {list: l}}}", NULL, "data.test: an object needs list");
    refused("data: {train: '-', objects: true}", NULL, "- is no file");
}
END_TEST

START_TEST(job_columns_stand_on_other_columns)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(sequences, NULL, &j, &e) == 0, "%s", e.text);
    const struct column *history = &j.data.column[1];
    ck_assert(history->type == COLUMN_MULTI && history->pooling == POOL_ATTENTION);
    ck_assert_str_eq(history->attend, "item");
    ck_assert_str_eq(history->share, "item");
    ck_assert_uint_eq(history->max, 50);
    ck_assert(j.data.column[3].pooling == POOL_MEAN && j.data.column[0].pooling == POOL_SUM);
    ck_assert(!j.data.column[3].weighted && !j.data.column[3].weighted_said);
    ck_assert_str_eq(j.data.column[0].share, "");
    ck_assert_uint_eq(j.data.column[3].max, 0);
    job_free(&j);
}
END_TEST

static const char ranges[] = "data:\n"
                             "  format: csv\n"
                             "  label: y\n"
                             "  train: a\n"
                             "  columns:\n"
                             "    - {name: I1..I3, type: number, transform: standard, fill: -1}\n"
                             "    - {name: 'a..b'}\n"
                             "    - name: price\n"
                             "      type: number\n"
                             "      transform: bucket\n"
                             "      borders: [1, 2.5, 10]\n"
                             "    - {name: C08..C10, id: true}\n"
                             "    - {name: '*', type: number, indicator: true}\n"
                             "features:\n"
                             "  crosses: [[price, 'a..b'], [C8, C9, C10]]\n";

START_TEST(job_columns_have_ranges_transforms_and_crosses)
{
    struct job j;
    struct err e = {0};
    ck_assert_msg(parse(ranges, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(j.data.column_count, 8);
    const struct column *c = j.data.column;
    ck_assert_str_eq(c[0].name, "I1");
    ck_assert_str_eq(c[2].name, "I3");
    ck_assert_str_eq(c[3].name, "a..b"); /* no numbers: a name */
    ck_assert_str_eq(c[5].name, "C8");
    ck_assert(c[1].scaled && c[1].scale.transform == NUMBER_STANDARD && !c[1].scale.known);
    ck_assert(c[1].filled && c[1].scale.filled && c[1].scale.fill == -1);
    ck_assert(c[4].scale.borders == 3 && c[4].scale.border[1] == 2.5 && c[4].scale.known);
    ck_assert(c[7].id && c[7].entry == 3);
    ck_assert(j.data.rest_said && j.data.rest.type == COLUMN_NUMBER && j.data.rest.indicator);
    ck_assert_uint_eq(j.features.cross_count, 2);
    ck_assert_uint_eq(j.features.cross[0].columns, 2);
    ck_assert_str_eq(j.features.cross[1].column[2], "C10");
    job_free(&j);
}
END_TEST

START_TEST(job_transforms_and_crosses_of_other_forms_are_refused)
{
    refused(ranges, "data.columns[0].name=I3..I1", "data.columns[0].name: the range I3..I1");
    refused(ranges, "data.columns[0].name=I1..I9999", "more than 1024 columns");
    refused(ranges, "data.columns[1].fill=3", "data.columns[1].fill is for columns of type number");
    refused(ranges, "data.columns[1].transform=log1p",
            "data.columns[1].transform is for columns of type number");
    refused(ranges, "data.columns[2].transform=log1p",
            "data.columns[2].borders: give the column transform: bucket");
    refused(ranges, "data.columns[2].quantiles=4", "quantiles stand there too");
    refused(ranges, "data.columns[2].borders=[1, 1]", "in ascending order");
    refused(ranges, "data.columns[2].borders=[1, x]", "x is no number");
    refused(ranges, "data.columns[2].borders=[1, nan]", "in ascending order");
    refused(ranges, "data.columns[2].borders=[]", "0 borders, 1 to 49 are possible");
    refused(ranges, "data.columns[4].quantiles=51", "not between 2 and 50");
    refused("data: {train: a, columns: [{name: '*', type: label}]}", NULL,
            "data.columns[0].name: the other columns cannot all be the label");
    refused(ranges, "data.columns[4].share=price", "share and attend are for columns by name");
    refused(ranges, "data.columns[3].name=*", "an entry called * is there already");
    refused(ranges, "features.crosses=[price, I1]", "features.crosses[0]: a cross is of 2 or 3");
    refused(ranges, "features.crosses=[[price, price]]", "features.crosses[0] names price twice");
    refused(ranges, "features.crosses=[[a, b, c, d]]", "it has 4");
    refused(ranges, "features.crosses=price", "features.crosses[]");
}
END_TEST

START_TEST(job_columns_that_lead_nowhere_are_refused_with_their_line)
{
    const char *one_line = "data:\n  train: a\n  columns:\n    - name: history\n      type: "
                           "multi\n      share: itm\n    - name: item\n";
    refused(one_line, NULL, "line 6: data.columns[0].share: data.columns has no column itm");
    refused(sequences, "data.columns[1].share=history", "names the column itself");
    refused(sequences, "data.columns[1].share=id", "column id is skipped");
    refused(sequences, "data.columns[1].share=click", "column click is a label");
    refused(sequences, "data.columns[2].share=user", "item itself shares with user");
    refused(sequences, "data.columns[1].attend=itme",
            "data.columns[1].attend: data.columns has no column itme");
    refused(sequences, "data.columns[1].attend=tags", "column tags has several values");
    refused(sequences, "data.columns[1].pooling=sum", "belong together");
    refused(sequences, "data.columns[3].pooling=attention", "belong together");
    refused(sequences, "data.columns[1].type=category", "type multi");
    refused(sequences, "data.columns[2].max=3", "data.columns[2].max is for columns of type multi");
    refused(sequences, "data.columns[1].max=65537", "not between");
    refused(sequences, "data.columns[2].padding=0",
            "data.columns[2].padding is for columns of type multi");
    refused(sequences, "data.columns[1].padding=0123456789abcdef", "at most 15 bytes");
    refused(sequences, "data.columns[1].pooling=max", "sum|mean|attention");
    refused(sequences, "data.columns[1].weighted=true", "attention weighs the values itself");
    refused(sequences, "data.columns[0].weighted=true", "is for columns of type multi");
    refused("data: {train: a, format: csv, label: y, columns: [{name: b, type: multi, "
            "separator: ':', weighted: true}]}\n",
            NULL, "stands before a weight");
    refused(sequences, "data.libsvm=one", "is for data.format: libsvm");
    refused(sequences, "data.columns[4].id=true",
            "data.columns[4].id is for columns of type category or multi");
    refused(sequences, "data.columns[2].id=true",
            "column item has ids (id: true) and history has "
            "none");
    refused(sequences, "data.columns[3]={name: tags, type: number, id: true}",
            "data.columns[3].id is for");
}
END_TEST

static int with_default(const char *set, struct job *j)
{
    return parse("data: {train: a, valid: v}\n", set, j, NULL);
}

START_TEST(job_networks_have_defaults_and_ranges)
{
    const char *data = "data: {train: a}\n";
    struct job j;
    ck_assert_int_eq(parse("data: {train: a}\nmodel: {hidden: [8, 4]}\n", NULL, &j, NULL), 0);
    ck_assert_uint_eq(j.model.hidden2.count, 2); /* as hidden */
    ck_assert_uint_eq(j.model.hidden2.at[1], 4);
    ck_assert(j.model.bottom.count == 0 && j.model.gate_hidden.count == 0);
    ck_assert(j.model.cin.count == 2 && j.model.cin.at[0] == 100 && j.model.tower.at[0] == 64);
    ck_assert(j.model.attention_hidden.at[0] == 80 && j.model.attention_hidden.at[1] == 40);
    ck_assert_uint_eq(j.model.cross_layers, 3);
    ck_assert(j.model.heads == 2 && j.model.attention_layers == 3 && j.model.attention_dim == 64);
    ck_assert(j.model.experts == 4 && j.model.own_experts == 2 && j.model.top_k == 0 &&
              j.model.balance == 0 && j.model.levels == 1);
    ck_assert(j.model.interaction == INTERACT_DOT && j.model.norm == NORM_NONE);
    ck_assert_str_eq(j.model.gate_field[0], "");
    job_free(&j);
    ck_assert_int_eq(
        parse("data: {train: a}\nmodel: {gate_hidden: [8], gate_fields: [user, item]}\n", NULL, &j,
              NULL),
        0);
    ck_assert(strcmp(j.model.gate_field[0], "user") == 0 &&
              strcmp(j.model.gate_field[1], "item") == 0);
    job_free(&j);
    ck_assert_int_eq(with_default("model.norm=layer", &j), 0);
    ck_assert(j.model.norm == NORM_LAYER);
    job_free(&j);
    ck_assert_int_eq(with_default("model.balance=0.01", &j), 0);
    ck_assert_double_eq(j.model.balance, 0.01);
    job_free(&j);
    ck_assert_int_eq(with_default("model.interaction=cat", &j), 0);
    ck_assert(j.model.interaction == INTERACT_CAT);
    job_free(&j);
    ck_assert_int_eq(with_default("model.bottom=[512, 256]", &j), 0);
    ck_assert_uint_eq(j.model.bottom.at[1], 256);
    job_free(&j);
    static const char *const bad[][2] = {
        {"model.kind=deep", "fwfm|ipnn|dcnv2"},
        {"model.hidden2=[0]", "not a number of units"},
        {"model.bottom=[x]", "not a number of units"},
        {"model.cin=[20000]", "not a number of units"},
        {"model.tower=[1.5]", "not a number of units"},
        {"model.attention_hidden=[-1]", "not a number of units"},
        {"model.gate_hidden=[a]", "not a number of units"},
        {"model.gate_fields=[user]", "it takes two"},
        {"model.gate_fields=[user, item, tag]", "it takes two"},
        {"model.gate_fields=[user, item]", "without model.gate_hidden"},
        {"model.cross_layers=0", "not between"},
        {"model.heads=65", "not between"},
        {"model.attention_layers=17", "not between"},
        {"model.attention_dim=0", "not between"},
        {"model.interaction=sum", "dot|cat"},
        {"model.experts=0", "not between"},
        {"model.own_experts=65", "not between"},
        {"model.levels=0", "not between"},
        {"model.levels=17", "not between"},
        {"model.top_k=65", "not between"},
        {"model.balance=-0.1", "not between"},
        {"model.balance=1001", "not between"},
        {"model.norm=group", "none|batch|layer"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(data, bad[i][0], bad[i][1]);
}
END_TEST

START_TEST(job_every_model_kind_is_known)
{
    static const char *const kinds[] = {"lr",      "fm",       "wide_deep", "deepfm", "probe",
                                        "fwfm",    "ipnn",     "dcnv2",     "dlrm",   "xdeepfm",
                                        "autoint", "finalmlp", "din",       "mmoe",   "ple"};
    char set[64];
    struct job j;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        (void)snprintf(set, sizeof set, "model.kind=%s", kinds[i]);
        ck_assert_msg(with_default(set, &j) == 0, "%s", kinds[i]);
        ck_assert_uint_eq(j.model.kind, i); /* the order of enum model_kind */
        job_free(&j);
    }
    ck_assert_uint_eq(MODEL_PLE + 1, sizeof kinds / sizeof kinds[0]);
}
END_TEST

/* Each property of a column. */
START_TEST(job_same_model_looks_at_all_of_a_column)
{
    static const char base[] =
        "data: {train: a, columns: [{name: a}, {name: b, type: multi, max: 4}]}\n";
    static const char *const differs[] = {"{name: b, type: multi, max: 5}",
                                          "{name: b, type: multi}",
                                          "{name: b, type: multi, max: 4, pooling: mean}",
                                          "{name: b, type: multi, max: 4, share: a}",
                                          "{name: b, type: multi, max: 4, id: true}",
                                          "{name: b, type: multi, max: 4, weighted: true}",
                                          "{name: c, type: multi, max: 4}",
                                          "{name: b, type: multi, max: 4}, {name: c}"};
    struct job was, is;
    struct err e = {0};
    char set[128];
    ck_assert_msg(parse(base, NULL, &was, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < sizeof differs / sizeof differs[0]; i++) {
        snprintf(set, sizeof set, "data.columns=[{name: a}, %s]", differs[i]);
        ck_assert_msg(parse(base, set, &is, &e) == 0, "%s: %s", set, e.text);
        ck_assert_msg(job_same_model(&was, &is, &e) == SHOAL_E_CONFIG, "%s", set);
        ck_assert_msg(job_same_model(&is, &was, &e) == SHOAL_E_CONFIG, "%s", set);
        job_free(&is);
    }
    job_free(&was);
}
END_TEST

START_TEST(job_same_model_looks_at_transforms_and_crosses)
{
    static const char base[] =
        "data:\n"
        "  format: csv\n  label: y\n  train: a\n"
        "  columns: [{name: n, type: number, transform: bucket, borders: [1, 2]}, {name: a},\n"
        "            {name: '*', type: number}]\n"
        "features: {crosses: [[n, a]]}\n";
    static const char *const differs[] = {"data.columns[0].borders=[1, 3]",
                                          "data.columns[2].type=category",
                                          "data.columns[2].type=skip",
                                          "data.columns[2].transform=log1p",
                                          "data.columns[0].fill=0",
                                          "data.columns[0].indicator=true",
                                          "features.crosses=[]",
                                          "features.crosses=[[a, n]]",
                                          "features.crosses=[[n, a], [a, n]]",
                                          "features.number=log1p"};
    struct job was, is;
    struct err e = {0};
    ck_assert_msg(parse(base, NULL, &was, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < sizeof differs / sizeof differs[0]; i++) {
        ck_assert_msg(parse(base, differs[i], &is, &e) == 0, "%s: %s", differs[i], e.text);
        ck_assert_msg(job_same_model(&was, &is, &e) == SHOAL_E_CONFIG, "%s", differs[i]);
        job_free(&is);
    }
    job_free(&was);
}
END_TEST

/* The number of lines on stderr from here on: said_begin .. said_end. */
static int said_kept;
static FILE *said;

static void said_begin(void)
{
    said = tmpfile();
    ck_assert_ptr_nonnull(said);
    fflush(stderr);
    said_kept = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(fileno(said), STDERR_FILENO), 0);
}

static uint32_t said_end(char *text, size_t bytes)
{
    uint32_t lines = 0;
    fflush(stderr);
    ck_assert_int_ge(dup2(said_kept, STDERR_FILENO), 0);
    close(said_kept);
    rewind(said);
    size_t got = fread(text, 1, bytes - 1, said);
    text[got] = '\0';
    fclose(said);
    for (size_t i = 0; i < got; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Texts that fleets and checkpoints store have keys of release 0.2.0. Submitting such a text tells
 * of them, once; reading it does not. */
START_TEST(job_keys_without_effect_are_told_where_the_job_is_submitted)
{
    static const char old[] = "data: {train: a}\ntrain: {cache: {rows: 1M, batches: 4}}\n";
    char path[] = "/tmp/shoal-test-XXXXXX", told[1024], *text;
    struct string_list none = {0};
    struct err e = {0};
    struct job j;
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, old, sizeof old - 1), (ssize_t)sizeof old - 1);
    close(fd);
    said_begin();
    ck_assert_int_eq(parse(old, "train.cache.rows=2M", &j, NULL), 0);
    job_free(&j);
    ck_assert_int_eq(job_load(path, &none, &j, NULL), 0);
    job_free(&j);
    ck_assert_uint_eq(said_end(told, sizeof told), 0);
    said_begin();
    ck_assert_msg(job_text(path, &none, &text, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(said_end(told, sizeof told), 1);
    ck_assert_ptr_nonnull(strstr(told, ":2: train.cache.rows has no effect, take it out"));
    /* an interrupted run of such a file goes on only with the same text */
    ck_assert_ptr_nonnull(strstr(text, "train.cache.batches"));
    free(text);
    unlink(path);
}
END_TEST

/* A job without training that drops tables would change the servers' tables. */
START_TEST(job_that_only_reads_drops_nothing)
{
    struct job j;
    for (int i = 0; i < 4; i++) {
        char text[128];
        snprintf(text, sizeof text, "data: {train: a, test: b}\ntrain: {skip: %s}\n%s",
                 i & 1 ? "true" : "false", i & 2 ? "fresh: [user]\n" : "");
        ck_assert_int_eq(parse(text, NULL, &j, NULL), 0);
        ck_assert_int_eq(job_reads_only(&j), i == 1);
        job_free(&j);
    }
}
END_TEST

START_TEST(job_training_has_defaults_and_ranges)
{
    const char *data = "data: {train: a, valid: v}\n";
    struct job j;
    ck_assert_int_eq(with_default(NULL, &j), 0);
    ck_assert(j.train.precision == PRECISION_FP32 && j.train.deterministic);
    ck_assert(j.train.schedule.kind == SCHEDULE_CONSTANT && j.train.schedule.factor == 0.1 &&
              j.train.schedule.floor == 0);
    ck_assert(j.train.clip_dense == 0 && j.train.clip_row == 0 && j.train.read_ahead == 0);
    job_free(&j);
    static const char *const taken[] = {"train.precision=bf16", "train.deterministic=no",
                                        "train.clip_dense=10",  "train.clip_row=0.5",
                                        "train.read_ahead=8",   "train.backend=cuda"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        ck_assert_msg(with_default(taken[i], &j) == 0, "%s", taken[i]);
        ck_assert_int_eq(j.train.precision == PRECISION_BF16, i == 0);
        ck_assert_int_eq(j.train.deterministic, i != 1);
        ck_assert_int_eq(j.train.clip_dense == 10, i == 2);
        ck_assert_int_eq(j.train.clip_row == 0.5, i == 3);
        ck_assert_int_eq(j.train.read_ahead == 8, i == 4);
        ck_assert_int_eq(j.train.backend == BACKEND_CUDA, i == 5);
        job_free(&j);
    }
    const char *falling = "data: {train: a}\ntrain: {schedule: {kind: step, batches: 100, floor: "
                          "0.01, factor: 0.5}}\n";
    ck_assert_int_eq(parse(falling, NULL, &j, NULL), 0);
    ck_assert(j.train.schedule.kind == SCHEDULE_STEP && j.train.schedule.batches == 100);
    ck_assert(j.train.schedule.floor == 0.01 && j.train.schedule.factor == 0.5);
    job_free(&j);
    static const char *const bad[][2] = {
        {"train.precision=fp8", "fp32|tf32|bf16|fp16"},
        {"train.deterministic=perhaps", "train.deterministic"},
        {"train.schedule.kind=linear", "train.schedule needs batches"},
        {"train.schedule.kind=square", "constant|linear|cosine|step"},
        {"train.schedule.batches=0", "not between"},
        {"train.schedule.floor=2", "not between"},
        {"train.schedule.factor=0", "not between"},
        {"train.clip_dense=-1", "not between"},
        {"train.clip_row=-1", "not between"},
        {"train.read_ahead=65", "not between"},
        {"train.backend=rocm", "auto|cpu|cuda"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(data, bad[i][0], bad[i][1]);
    refused(data, "train.cached=1", "unknown key train.cached");
    refused("data: {train: a}\ntrain: {consistency: bsp}\n", "train.precision=fp16", "use bf16");
    ck_assert_int_eq(
        parse("data: {train: a}\ntrain: {consistency: bsp}\n", "train.precision=bf16", &j, NULL),
        0);
    job_free(&j);
}
END_TEST

START_TEST(job_network_is_kept_by_servers_or_workers)
{
    static const char *const ring = "data: {train: a}\nmodel: {kind: deepfm}\n"
                                    "train: {dense: allreduce, dense_publish: 5s}\n";
    struct job j;
    struct err e = {0};
    ck_assert_int_eq(with_default(NULL, &j), 0);
    ck_assert(!j.train.allreduce && j.net.dense == VALUES_FP32 && !job_dealt(&j));
    job_free(&j);
    ck_assert_msg(parse(ring, "net.dense=bf16", &j, &e) == 0, "%s", e.text);
    ck_assert(j.train.allreduce && j.net.dense == VALUES_BF16 && job_dealt(&j));
    ck_assert_uint_eq(j.train.publish_ms, 5000);
    ck_assert(!j.train.sharded);
    job_free(&j);
    ck_assert_msg(parse(ring, "train.dense_state=sharded", &j, &e) == 0, "%s", e.text);
    ck_assert(j.train.sharded);
    job_free(&j);
    ck_assert_int_eq(with_default("train.consistency=bsp", &j), 0);
    ck_assert(job_dealt(&j));
    job_free(&j);
    static const char *const without[] = {"lr", "fm", "probe"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        char set[32], told[96];
        (void)snprintf(set, sizeof set, "model.kind=%s", without[i]);
        (void)snprintf(told, sizeof told,
                       "train.dense: allreduce needs a network, and model.kind %s has none",
                       without[i]);
        refused(ring, set, told);
    }
    refused(ring, "train.dense=servers",
            "line 3: train.dense_publish is of train.dense: allreduce");
    refused("data: {train: a}\n", "net.dense=bf16", "net.dense is of train.dense: allreduce");
    refused("data: {train: a}\n", "train.dense_state=sharded",
            "train.dense_state is of train.dense: allreduce");
    refused(ring, "train.dense_state=halves", "whole|sharded");
    refused(ring, "train.dense_publish=10ms", "not between");
    refused(ring, "replay.pace=60", "replay.pace gives out tasks by the clock");
    refused(ring, "train.dense=here", "servers|allreduce");
    refused(ring, "net.dense=int8", "fp32|bf16");
}
END_TEST

START_TEST(job_evaluation_names_fields)
{
    const char *data = "data: {train: a, valid: v}\n";
    struct job j;
    ck_assert_int_eq(with_default(NULL, &j), 0);
    ck_assert_str_eq(j.evaluate.group, "");
    ck_assert(j.evaluate.by.count == 0 && j.evaluate.buckets == 20 && j.evaluate.exact == 20000000);
    job_free(&j);
    ck_assert_int_eq(
        parse("data: {train: a, valid: v}\nevaluate: {group: user, by: [item, hour], buckets: 10, "
              "exact: 1M}\n"
              "train: {early_stop: {metric: gauc, patience: 2}}\n",
              NULL, &j, NULL),
        0);
    ck_assert_str_eq(j.evaluate.group, "user");
    ck_assert_uint_eq(j.evaluate.by.count, 2);
    ck_assert_str_eq(j.evaluate.by.item[1], "hour");
    ck_assert(j.evaluate.buckets == 10 && j.evaluate.exact == 1000000);
    ck_assert(j.train.early_stop.metric == METRIC_GAUC);
    job_free(&j);
    refused(data, "train.early_stop.metric=gauc", "evaluate.group must name");
    refused(data, "evaluate.group=\"\"", "1 to 63 bytes");
    refused(data, "evaluate.buckets=0", "not between");
    refused(data, "evaluate.exact=0", "not between");
    char many[512] = "evaluate.by=[f0";
    for (unsigned i = 1; i <= LIMIT_BY; i++)
        (void)sprintf(many + strlen(many), ", f%u", i);
    refused(data, strcat(many, "]"), "evaluate.by: at most 32 fields");
}
END_TEST

START_TEST(job_checkpoints_have_defaults_and_ranges)
{
    const char *data = "data: {train: a}\n";
    struct job j;
    ck_assert_int_eq(with_default(NULL, &j), 0);
    ck_assert(j.checkpoint.dir[0] == 0 && j.checkpoint.every_batches == 0 &&
              j.checkpoint.every_minutes == 0);
    ck_assert(j.checkpoint.keep == 3 && j.checkpoint.publish.count == 0 &&
              j.checkpoint.publish_limit_ms == 600000);
    job_free(&j);
    ck_assert_int_eq(parse("data: {train: a}\ncheckpoint: {dir: /c, every_batches: 5000, "
                           "every_minutes: 2.5, keep: 0, publish: [cp, -r], publish_limit: 90s}\n",
                           NULL, &j, NULL),
                     0);
    ck_assert_str_eq(j.checkpoint.dir, "/c");
    ck_assert(j.checkpoint.every_batches == 5000 && j.checkpoint.every_minutes == 2.5 &&
              j.checkpoint.keep == 0);
    ck_assert_uint_eq(j.checkpoint.publish.count, 2);
    ck_assert_str_eq(j.checkpoint.publish.item[1], "-r");
    ck_assert_uint_eq(j.checkpoint.publish_limit_ms, 90000);
    job_free(&j);
    refused(data, "checkpoint.every_batches=0", "not between");
    refused(data, "checkpoint.every_minutes=0", "not between");
    refused(data, "checkpoint.keep=-1", "not between");
    refused(data, "checkpoint.publish_limit=500ms", "not between");
    refused(data, "checkpoint.folder=a", "checkpoint.dir");
    char longer[700] = "checkpoint.dir=/";
    memset(longer + strlen(longer), 'a', 600);
    refused(data, longer, "checkpoint.dir has at most");
}
END_TEST

/* A change of a key that gives rows or layers another meaning is reported; other keys may
 * change. */
START_TEST(job_same_model_names_the_key_that_differs)
{
    static const struct {
        const char *set, *says;
    } differs[] = {
        {"model.hidden=[200, 400]", "model.hidden is 200, 400, in the checkpoint it was 400, 200"},
        {"model.hidden=[400]", "model.hidden is 400, in"},
        {"model.kind=dcnv2", "model.kind is dcnv2, in the checkpoint it was deepfm"},
        {"model.norm=none", "model.norm is 0"},
        {"model.cross_layers=2", "model.cross_layers is 2"},
        {"features.fields=[user, item]", "features.fields auto is 0"},
        {"tables[0].name=other", "tables[0].name is other, in the checkpoint it was emb"},
        {"tables[0].dim=4", "tables[0].dim is 4"},
        {"data.label=item", "data.label is item"},
        {"data.columns=[{name: a}, {name: b, type: number}]",
         "data.columns, number 0, is a (category"},
        {"data.columns=[{name: a, id: true}]", "data.columns, number 0, is a (category id, "},
        {"data.format=libsvm", "data.format"},
    };
    static const char *const free_to_change[] = {"train.epochs=3",
                                                 "data.train=[other.csv]",
                                                 "model.dropout=0.5",
                                                 "model.l2=0",
                                                 "tables[0].optimizer.lr=0.1",
                                                 "train.batch=7",
                                                 "job=another",
                                                 "model.stages=2",
                                                 "model.split=4",
                                                 "model.split_above=64"};
    struct job was, is;
    struct err e = {0};
    ck_assert_int_eq(parse(good, NULL, &was, &e), 0);
    for (size_t i = 0; i < sizeof differs / sizeof differs[0]; i++) {
        ck_assert_msg(parse(good, differs[i].set, &is, &e) == 0, "%s: %s", differs[i].set, e.text);
        ck_assert_int_eq(job_same_model(&was, &is, &e), SHOAL_E_CONFIG);
        ck_assert_msg(strstr(e.text, differs[i].says) != NULL, "%s", e.text);
        job_free(&is);
    }
    for (size_t i = 0; i < sizeof free_to_change / sizeof free_to_change[0]; i++) {
        ck_assert_int_eq(parse(good, free_to_change[i], &is, &e), 0);
        ck_assert_msg(job_same_model(&was, &is, &e) == 0, "%s", e.text);
        job_free(&is);
    }
    job_free(&was);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("job");
    TCase *t = tcase_create("job");
    tcase_add_test(t, job_good_file_is_read);
    tcase_add_test(t, job_losses_are_by_label);
    tcase_add_test(t, job_losses_that_make_no_sense_are_refused);
    tcase_add_test(t, job_losses_decide_whether_a_model_is_the_same);
    tcase_add_test(t, job_fresh_all_is_no_name);
    tcase_add_test(t, job_model_names_are_those_of_the_file);
    tcase_add_test(t, job_too_many_fields_to_evaluate_by_are_refused);
    tcase_add_test(t, job_set_replaces_values_and_lists);
    tcase_add_test(t, job_set_takes_a_dash_as_it_stands);
    tcase_add_test(t, job_refusals_say_where_the_value_stands);
    tcase_add_test(t, job_numbers_are_read_as_they_were_checked);
    tcase_add_test(t, job_window_multiplies_the_rows_of_a_batch);
    tcase_add_test(t, job_unknown_key_names_line_and_nearest);
    tcase_add_test(t, job_key_in_a_wrong_place_names_the_right_one);
    tcase_add_test(t, job_set_of_a_text_is_taken_as_it_stands);
    tcase_add_test(t, job_wrong_values_are_refused);
    tcase_add_test(t, job_text_survives_a_round_trip);
    tcase_add_test(t, config_finds_one_of_many);
    tcase_add_test(t, job_aliases_count_as_what_they_name);
    tcase_add_test(t, job_missing_file_is_no_input);
    tcase_add_test(t, job_labels_are_one_or_a_list);
    tcase_add_test(t, job_csv_names_its_label);
    tcase_add_test(t, job_name_leads_nowhere);
    tcase_add_test(t, job_examples_have_weights_and_negatives_a_share);
    tcase_add_test(t, job_lanes_are_a_number_or_fit);
    tcase_add_test(t, job_sample_is_of_examples_or_of_a_column);
    tcase_add_test(t, job_labels_that_come_late_are_joined);
    tcase_add_test(t, job_bare_text_has_no_command);
    tcase_add_test(t, job_splits_may_be_of_objects);
    tcase_add_test(t, job_columns_stand_on_other_columns);
    tcase_add_test(t, job_columns_have_ranges_transforms_and_crosses);
    tcase_add_test(t, job_transforms_and_crosses_of_other_forms_are_refused);
    tcase_add_test(t, job_columns_that_lead_nowhere_are_refused_with_their_line);
    tcase_add_test(t, job_networks_have_defaults_and_ranges);
    tcase_add_test(t, job_every_model_kind_is_known);
    tcase_add_test(t, job_training_has_defaults_and_ranges);
    tcase_add_test(t, job_network_is_kept_by_servers_or_workers);
    tcase_add_test(t, job_evaluation_names_fields);
    tcase_add_test(t, job_tables_have_no_rules_by_default);
    tcase_add_test(t, job_tables_have_fields_of_their_own);
    tcase_add_loop_test(t, job_tables_that_cannot_be_told_apart_are_refused, 0, 6);
    tcase_add_test(t, job_tables_are_at_most_so_many);
    tcase_add_test(t, job_table_rules_are_read);
    tcase_add_test(t, job_presets_are_what_they_say);
    tcase_add_test(t, job_values_of_a_table);
    tcase_add_test(t, job_keys_beside_a_preset_count_more);
    tcase_add_loop_test(t, job_table_rules_that_contradict_are_refused, 0, 16);
    tcase_add_loop_test(t, job_ageing_needs_event_times, 0, 4);
    tcase_add_test(t, job_partitions_tell_times);
    tcase_add_test(t, job_time_has_a_unit);
    tcase_add_test(t, job_checkpoints_have_defaults_and_ranges);
    tcase_add_test(t, job_that_grows_has_nothing_that_ends);
    tcase_add_test(t, job_same_model_names_the_key_that_differs);
    tcase_add_test(t, job_same_model_looks_at_all_of_a_column);
    tcase_add_test(t, job_same_model_looks_at_transforms_and_crosses);
    tcase_add_test(t, job_that_only_reads_drops_nothing);
    tcase_add_test(t, job_keys_without_effect_are_told_where_the_job_is_submitted);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
