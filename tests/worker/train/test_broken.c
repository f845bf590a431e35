/* test_broken.c: breaks the invariants of lanes, batches and requests on purpose: each breach must
 * be caught by its own assert. */
#include "proto/wire/wire.h"
#include "tests/lib/broken.h"
#include "tests/lib/dense_case.h"
#include "tests/sim/sim.h"
#include "worker/data/batch_inner.h"
#include "worker/train/lane_inner.h"

#include <check.h>
#include <string.h>

static struct job job;
static struct features features;
static struct table_schema schema[MODEL_TABLES_MAX];
static struct rows *rows;
static struct err e;
static bool too_far; /* the ranges of a map go past their end */

uint32_t __real_map_stretch(const struct map *m, uint32_t first, uint32_t end);
uint32_t __wrap_map_stretch(const struct map *m, uint32_t first, uint32_t end);
uint32_t __wrap_map_stretch(const struct map *m, uint32_t first, uint32_t end)
{
    return __real_map_stretch(m, first, end) + too_far;
}

/* Makes a batch of one example, whose keys are to be pulled; 64 tablets. */
static void rows_make(void)
{
    static const char text[] =
        "job: broken\ndata: {format: csv, train: [none.csv], label: 0}\n"
        "tables:\n  - {name: emb, dim: 2, tablets: 64, optimizer: {kind: sgd, lr: 1}}\n"
        "model: {kind: probe}\n";
    static const char head[] = "label,field";
    static char line[] = "1,a";
    struct line one = {.text = line, .bytes = 3, .number = 2};
    struct model *model;
    uint32_t tables;
    ck_assert_int_eq(job_parse(text, strlen(text), "test", NULL, &job, &e), 0);
    ck_assert_int_eq(features_make(&job, "none.csv", head, strlen(head), &features, &e), 0);
    ck_assert_int_eq(model_schemas(&job, &features.shape, schema, &tables, &e), 0);
    ck_assert_int_eq(model_new(&job, &features.shape, dense_backend(), &model, &e), 0);
    ck_assert_int_eq(rows_new(model, NULL, schema, tables, 1, 1, &rows, &e), 0);
    ck_assert_int_eq(batch_begin(&rows->batch, &features, 1, false, &e), 0);
    ck_assert_int_eq(
        batch_add(&rows->batch, &features, &one, "none.csv", &(struct draw){.epoch = 0}, 0, &e), 0);
    ck_assert_int_eq(batch_end(&rows->batch, &e), 0);
    ck_assert_int_eq(rows_reserve(rows, &e), 0);
}

/* A message borrows its keys. */
static void rows_lend(void)
{
    struct wire w;
    struct part whole = {.tablet_count = 64, .key_count = 1};
    rows_make();
    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_PULL;
    struct msg *m = wire_encode(&w);
    ck_assert_ptr_nonnull(m);
    ck_assert_int_eq(rows_add_keys(rows, &whole, false, m), 0);
}

/* ---- lane.c ---- */

static void a_batch_is_pulled_before_its_turn(void)
{
    struct lane l = {.next_pull = 1};
    struct lane_batch b = {.lane = &l, .state = READ, .number = 2};
    lane_pull(&l, &b);
}

static void a_batch_is_computed_before_its_turn(void)
{
    struct lane l = {.next_compute = 1};
    struct lane_batch b = {.lane = &l, .state = READY, .number = 2};
    lane_compute(&l, &b);
}

static void a_batch_is_read_into_memory_that_a_message_has(void)
{
    struct lane_base base = {.job = &job};
    struct lane l = {.base = &base, .next_read = 1, .task = {.first_batch = 1}};
    rows_lend();
    struct lane_batch b = {.lane = &l, .rows = rows};
    lane_read(&l, &b);
}

/* ---- rows.c ---- */

static void parts_go_beyond_their_table(void)
{
    static uint16_t shard[64];
    struct map map = {.tablet_count = 64, .shard_count = 1, .shard = shard};
    rows_make();
    too_far = true;
    rows_split(rows, &map, true, &e);
}

static void memory_is_used_again_while_a_message_has_it(void)
{
    rows_lend();
    rows_reserve(rows, &e);
}

/* ---- client_requests.c ---- */

static struct msg *nothing_build(struct request *r)
{
    (void)r;
    return NULL;
}

static enum request_verdict nothing_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    (void)r, (void)w, (void)m;
    return REQUEST_DONE;
}

static void a_request_is_started_while_it_is_under_way(void)
{
    struct sim_options options = {.seed = 1};
    struct client_options of = {.coordinator = "sim://nobody"};
    struct request r = {.type = WIRE_TYPE_WORKER_BEAT,
                        .target = CLIENT_COORDINATOR,
                        .build = nothing_build,
                        .reply = nothing_reply};
    struct client *client;
    static const struct env_handler handler;
    struct sim_node *node = sim_node_new(sim_new(&options), "client", &handler, NULL);
    ck_assert_int_eq(client_new(sim_node_env(node), &of, &client, &e), 0);
    client_start(client, &r);
    r.id = 0;
    client_start(client, &r);
}

static const struct broken list[] = {
    {"worker/train/lane_stage.c", 2, a_batch_is_pulled_before_its_turn,
     "b->number == l->next_pull"},
    {"worker/train/lane_compute.c", 2, a_batch_is_computed_before_its_turn,
     "b->number == l->next_compute"},
    {"worker/train/lane_stage.c", 3, a_batch_is_read_into_memory_that_a_message_has,
     "rows_quiet(b->rows)"},
    {"worker/train/rows.c", 1, parts_go_beyond_their_table, "key == sent.count && last->tablet_"},
    {"worker/train/rows.c", 2, memory_is_used_again_while_a_message_has_it, "rows_quiet(r)"},
    {"worker/train/client_requests.c", 1, a_request_is_started_while_it_is_under_way,
     "r->id != 0 && r->back == "},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broken");
    TCase *t = tcase_create("broken");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, each_broken_invariant_ends_the_process_by_its_own_assert);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
