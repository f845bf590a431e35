/* test_fresh.c: a job that drops the servers' tables: it drops them once, whichever process dies;
 * half dropped they belong to no job; and the names of their fields. The real coordinator with fake
 * shards. */
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/job/submit.h"
#include "tests/lib/server_fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define SHARDS 2u

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard shard[SHARDS];
    struct fake_worker worker;
    struct fake_client client;
    char yaml[512];
} r;

static void coord_start(void)
{
    struct coord_options o = {
        .shards = SHARDS, .lease_ms = 1000, .resend_ms = 200, .version = "test"};
    struct err e = {0};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void coord_again(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_start();
}

static void shard_start(uint32_t i, uint64_t incarnation)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", i);
    fake_shard_start(&r.shard[i], r.sim, name, 0, incarnation);
}

static void go(uint64_t ms)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ms * 1000000, NULL, NULL);
}

static void rig_start(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    log_set_level(LOG_LEVEL_ERROR + 1);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    coord_start();
    for (uint32_t i = 0; i < SHARDS; i++)
        shard_start(i, 1);
    go(500);
}

static void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t i = 0; i < SHARDS; i++)
        free(r.shard[i].shard_of);
    memset(&r, 0, sizeof r);
}

static void worker_start(uint64_t step_ns)
{
    static struct fake_shard *shards[SHARDS];
    struct fake_worker *w = &r.worker;
    if (w->node != NULL)
        sim_kill(w->node);
    memset(w, 0, sizeof *w);
    w->rows[0] = 1005;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = step_ns;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    for (uint32_t i = 0; i < SHARDS; i++)
        shards[i] = &r.shard[i];
    fake_worker_start(w, r.sim, "worker-0", shards, SHARDS);
}

static const char *text(const char *fresh)
{
    (void)snprintf(r.yaml, sizeof r.yaml,
                   "job: t\ndata: {format: libsvm, train: [a]}\ntables: [{name: emb, dim: 4}]\n"
                   "model: {kind: probe}\n%s"
                   "train: {batch: 10, task_batches: 4, epochs: 1, consistency: ssp, lanes: 2}\n",
                   fresh);
    return r.yaml;
}

static bool over(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

static bool phase_is(void *context)
{
    return r.coord->slot[0].at.phase == *(const enum coord_phase *)context;
}

static void until(enum coord_phase phase)
{
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, phase_is, &phase));
}

static void job_begin(const char *fresh)
{
    if (r.client.node != NULL)
        sim_kill(r.client.node);
    memset(&r.client, 0, sizeof r.client);
    worker_start(5000000);
    fake_client_start(&r.client, r.sim, text(fresh), 1);
}

static uint32_t job_end(void)
{
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, over, NULL),
                  "job hangs in phase %u", r.coord->slot[0].at.phase);
    return r.client.state;
}

/* Returns the status that refuses a submit, 0 if it is accepted. */
static int refused(const char *fresh, const char *from, bool start, char out[ERR_TEXT_MAX])
{
    struct err e = {0};
    uint64_t run;
    const char *yaml = text(fresh);
    const struct coord_submit submit = {yaml, strlen(yaml), 1, from, start};
    int rc = coord_submit(&r.coord->slot[0], 77, &submit, NULL, &run, &e);
    (void)snprintf(out, ERR_TEXT_MAX, "%s", e.text);
    return rc;
}

static uint32_t applied(void)
{
    return r.shard[0].applied + r.shard[1].applied;
}

START_TEST(coord_a_job_says_what_becomes_of_rows)
{
    char why[ERR_TEXT_MAX];
    rig_start();
    job_begin("fresh: all\n"); /* on servers without tables the job simply begins */
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    uint32_t first = applied();
    ck_assert_int_eq(refused("", "", false, why), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(why, "--start-from fleet"));
    ck_assert_ptr_nonnull(strstr(why, "--set fresh=all"));
    ck_assert_int_eq(refused("fresh: [all]\n", "fleet", true, why), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(why, "start_from: fleet goes on with them"));
    ck_assert_int_ne(refused("fresh: [all]\n", "/a/checkpoint", false, why), 0);
    ck_assert_ptr_null(strstr(why, "fresh")); /* there is no such folder */
    ck_assert_int_eq(refused("fresh: [all, user]\n", "", false, why), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(why, "only a job that begins with tables"));
    job_begin("fresh: [all]\n");
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    ck_assert_uint_eq(applied(), first); /* only its own examples */
    rig_stop();
}
END_TEST

/* A server or the coordinator dies while the job is set up (_i 0, 1) and while it trains (2, 3). */
START_TEST(coord_clears_once)
{
    rig_start();
    job_begin("");
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    uint32_t first = applied();
    if (_i < 2)
        sim_kill(r.shard[1].node); /* away while the others drop their tables */
    job_begin("fresh: [all]\n");
    if (_i < 2) {
        until(PHASE_WAITING);
        shard_start(1, 2);
        until(PHASE_SETUP);
        go(3);
    } else {
        until(PHASE_TRAIN);
        go(200);
    }
    uint32_t asked = r.shard[0].clears_asked;
    if (_i % 2 == 0) {
        sim_kill(r.shard[1].node);
        go(300);
        shard_start(1, 3);
    } else {
        coord_again();
    }
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_uint_eq(r.shard[i].clears, 1);
    if (_i >= 2)
        ck_assert_uint_eq(r.shard[0].clears_asked + r.shard[1].clears_asked, asked * 2);
    ck_assert_uint_eq(applied(), first);
    rig_stop();
}
END_TEST

/* One server has dropped its rows, the other cannot: only a job that drops the rest, too, may
 * begin. */
START_TEST(coord_half_cleared_is_nobodys)
{
    char why[ERR_TEXT_MAX];
    rig_start();
    job_begin("");
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    r.shard[1].refuse_clear = true;
    job_begin("fresh: [all]\n");
    ck_assert_uint_eq(job_end(), WIRE_JOB_FAILED);
    ck_assert_uint_eq(r.shard[0].clears, 1);
    if (_i == 1)
        coord_again();
    go(500);
    ck_assert_int_eq(refused("", "fleet", true, why), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(why, "a job was to drop the tables of space"));
    ck_assert_int_eq(refused("", "", false, why), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(why, "--set fresh=all"));
    ck_assert_int_eq(refused("", "/a/checkpoint", true, why), SHOAL_E_EXISTS);
    r.shard[1].refuse_clear = false;
    job_begin("fresh: [all]\n");
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    ck_assert_uint_eq(r.shard[0].clears, 2);
    ck_assert_uint_eq(r.shard[1].clears, 1);
    ck_assert_int_eq(refused("", "fleet", true, why), 0);
    rig_stop();
}
END_TEST

static bool status_has(const char *words)
{
    char *told = coord_status_text(&r.coord->slot[0]);
    bool has = strstr(told, words) != NULL;
    free(told);
    return has;
}

/* A server that answers "not now" for seconds is named with its reason: its disk may be full. */
START_TEST(coord_says_what_a_server_puts_off)
{
    rig_start();
    r.shard[1].create_later = "there is no room for the rows of table emb";
    job_begin("");
    until(PHASE_SETUP);
    go(2000);
    ck_assert(!status_has("waiting"));
    go(2000);
    ck_assert(status_has("waits for server server-1: there is no room for the rows of table emb"));
    r.shard[1].create_later = NULL;
    go(2000);
    ck_assert(!status_has("waiting"));
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    rig_stop();
}
END_TEST

static uint32_t number_of(const char *field)
{
    const struct legend *n = &r.coord->slot[0].spec.legend;
    uint32_t at = legend_find(n, LEGEND_FIELDS, field);
    return at == LEGEND_NONE ? LEGEND_NONE : n->name[LEGEND_FIELDS][at].number;
}

static void names_store(const char *line)
{
    char value[256];
    const uint64_t version = 7;
    size_t bytes = strlen(line);
    memcpy(value, &version, sizeof version);
    memcpy(value + sizeof version, line, bytes);
    ck_assert(coord_put(&r.coord->fleet, "names", value, sizeof version + bytes));
    coord_names_close(&r.coord->fleet.names);
    ck_assert_int_eq(coord_names_open(&r.coord->fleet, NULL), 0);
}

/* A job that was to drop all tables ends because of its input: the rows and their names are still
 * there. */
START_TEST(coord_names_are_those_of_the_rows)
{
    static const char names[] =
        "names: {\"fields\": {\"user\": [5, \"emb\", \"category\"]}, "
        "\"input\": \"user 4\", \"labels\": \"click\", \"model\": \"probe\"}";
    char why[ERR_TEXT_MAX];
    rig_start();
    job_begin("");
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    names_store(names);
    job_begin("fresh: [all]\n");
    r.worker.fatal_status = SHOAL_E_DATA;
    ck_assert_uint_eq(job_end(), WIRE_JOB_FAILED);
    ck_assert_uint_eq(r.shard[0].clears, 0);
    if (_i == 1)
        coord_again();
    go(500);
    char *told;
    size_t bytes;
    ck_assert_int_eq(coord_made_text(r.coord->slot[0].space, true, &told, &bytes, NULL), 0);
    ck_assert_ptr_nonnull(memmem(told, bytes, "\"user\": [5, \"emb\"", 17)); /* readers get them */
    free(told);
    ck_assert_int_eq(refused("", "fleet", true, why), 0);
    ck_assert_uint_eq(number_of("user"), 5);
    rig_stop();
}
END_TEST

START_TEST(coord_a_list_of_rows_has_no_blank_in_its_tables)
{
    char why[ERR_TEXT_MAX];
    rig_start();
    job_begin("");
    ck_assert_uint_eq(job_end(), WIRE_JOB_DONE);
    names_store("names: {\"fields\": {\"user\": [5, \"my emb\", \"category\"], "
                "\"item\": [6, \"a:b\", \"category\"]}, \"input\": \"user 4\", "
                "\"labels\": \"click\", \"model\": \"probe\"}");
    ck_assert_int_eq(refused("fresh: [user]\n", "fleet", true, why), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(why, "\"my emb\"") != NULL, "%s", why);
    ck_assert_int_eq(refused("fresh: [item]\n", "fleet", true, why), 0);
    rig_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fresh");
    TCase *t = tcase_create("fresh");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, coord_says_what_a_server_puts_off);
    tcase_add_test(t, coord_a_job_says_what_becomes_of_rows);
    tcase_add_loop_test(t, coord_clears_once, 0, 4);
    tcase_add_loop_test(t, coord_half_cleared_is_nobodys, 0, 2);
    tcase_add_test(t, coord_a_list_of_rows_has_no_blank_in_its_tables);
    tcase_add_loop_test(t, coord_names_are_those_of_the_rows, 0, 2);
    suite_add_tcase(suite, t);
    SRunner *s = srunner_create(suite);
    srunner_run_all(s, CK_NORMAL);
    int failed = srunner_ntests_failed(s);
    srunner_free(s);
    return failed != 0;
}
