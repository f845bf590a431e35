/* test_flow.c: the change from each phase to the next; each condition of a phase is missing
 * once. */
#include "server/coord/coord.h"
#include "server/coord/job/flow.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN 5u

static struct coord *c;
static struct coord_store *store;
static struct sim *sim;
static enum wire_type open_type; /* a call of this type is unanswered; NONE: none is */
static enum wire_type asked[16];
static uint32_t count;

bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call)
{
    (void)calls;
    asked[count++ % 16] = call->request.type;
    return true;
}

bool __wrap_coord_call_open_type(const struct coord_calls *calls, const void *context,
                                 enum wire_type type);
bool __wrap_coord_call_open_type(const struct coord_calls *calls, const void *context,
                                 enum wire_type type)
{
    (void)calls, (void)context;
    return type == open_type;
}

static void coord_make(void)
{
    struct coord_options o = {.shards = 2, .lease_ms = 1000};
    struct err e = {0};
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(node), store, &c, &e) == 0, "%s", e.text);
}

/* All servers and workers are there, and a job. */
static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    static const char text[] = "job: t\ndata: {format: csv, train: [a.csv], label: 0}\n"
                               "tables: [{name: emb, dim: 2, tablets: 64}]\nmodel: {kind: probe}\n"
                               "train: {epochs: 3}\n";
    struct err e = {0};
    count = 0;
    open_type = WIRE_TYPE_NONE;
    sim = sim_new(&calm);
    sim_run(sim, UINT64_C(1000000000), NULL, NULL);
    store = coord_store_memory();
    coord_make();
    c->fleet.cluster.id[0] = 1;
    for (uint32_t s = 0; s < 2; s++) {
        struct coord_shard *shard = &c->fleet.members.shard[s];
        shard->seen = shard->ready = c->slot[0].setup.shard[s].done = true;
        c->slot[0].setup.shard[s].greeted = true;
        shard->beat_ns = sim_now_ns(sim);
    }
    c->slot[0].workers.worker = calloc(1, sizeof *c->slot[0].workers.worker);
    c->slot[0].workers.count = 1;
    struct coord_job *j = &c->slot[0];
    ck_assert_msg(coord_submit_build(j, text, sizeof text - 1, &e) == 0, "%s", e.text);
    j->at.number = j->at.run = RUN;
    j->at.split[WIRE_TRAIN] = (struct coord_split){.used = 1, .known = 1, .rows = 100, .digest = 7};
}

static uint32_t step_from(enum coord_phase phase)
{
    c->slot[0].at.phase = phase;
    c->slot[0].phase_ns = sim_now_ns(sim);
    coord_flow_step(&c->slot[0]);
    return c->slot[0].at.phase;
}

/* ---- WAITING --------------------------------------------------------------------------------- */

/* WAITING waits for the newest map, for all servers, for the requested number of workers (at least
 * one), and until the tables that a former job loaded are dropped. */
START_TEST(flow_waits_for_all_who_take_part)
{
    c->slot[0].at.split[WIRE_TRAIN].known = 0;
    switch (_i) {
    case 1:
        c->fleet.cluster.newest_epoch = 3;
        break;
    case 2:
        c->fleet.members.shard[1].ready = false;
        break;
    case 3:
        c->fleet.members.shard[0].seen = false;
        break;
    case 4:
        c->slot[0].workers.count = 0;
        break;
    case 5:
        c->slot[0].at.workers_wanted = 2;
        break;
    case 6:
        open_type = WIRE_TYPE_ROWS_GO;
        break;
    default:
        c->slot[0].at.workers_wanted = 1;
    }
    ck_assert_uint_eq(step_from(PHASE_WAITING), _i == 0 ? PHASE_INDEX : PHASE_WAITING);
    ck_assert_int_eq(c->slot[0].started_ns != 0, _i == 0);
}
END_TEST

/* ---- INDEX ----------------------------------------------------------------------------------- */

START_TEST(flow_indexes_every_split)
{
    for (uint32_t s = 0; s < 3; s++)
        c->slot[0].at.split[s] =
            (struct coord_split){.used = 1, .known = (int)s != _i, .rows = 100};
    ck_assert_uint_eq(step_from(PHASE_INDEX), _i < 3 ? PHASE_INDEX : PHASE_TABLES);
}
END_TEST

START_TEST(flow_without_rows_ends_the_job_unless_nothing_is_trained)
{
    c->slot[0].at.split[WIRE_TRAIN].rows = 0;
    c->slot[0].spec.train.skip = _i == 1;
    ck_assert_uint_eq(step_from(PHASE_INDEX), _i == 1 ? PHASE_TABLES : PHASE_FAILED);
    if (_i == 0)
        ck_assert_ptr_nonnull(strstr(c->slot[0].at.text, "has no rows"));
}
END_TEST

/* A job that continues from a checkpoint must read the same rows; one that starts from its tables
 * may read others. */
START_TEST(flow_goes_on_with_the_same_rows_alone)
{
    struct coord_progress *at = &c->slot[0].at;
    bool other = _i == 1 || _i == 2;
    at->from = _i == 3 ? FROM_TO_START : FROM_TO_LOAD;
    at->from_rows = _i == 1 ? 101 : 100;
    at->from_digest = _i >= 2 ? 8 : 7;
    ck_assert_uint_eq(step_from(PHASE_INDEX), other ? PHASE_FAILED : PHASE_TABLES);
    ck_assert_int_eq(strstr(at->text, "would not be the same ones") != NULL, other);
}
END_TEST

/* ---- TABLES ---------------------------------------------------------------------------------- */

static void tables_declare(void)
{
    struct coord_job *j = &c->slot[0];
    memset(j->table, 0, LIMIT_TABLES * sizeof *j->table);
    for (uint32_t t = 0; t < 2; t++) {
        struct table_schema *s = &j->table[t];
        (void)snprintf(s->name, sizeof s->name, "t%u", t);
        s->table = t;
        s->width = 2;
        s->tablet_bits = 5;
        s->tablet_first = 32 * t;
        s->optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 1};
        j->declared[t] = true;
    }
    j->declared_total = 2;
    for (uint32_t s = 0; s < 2; s++) { /* no call of SETUP: another test covers it */
        c->slot[0].setup.shard[s].done = false;
        c->slot[0].setup.shard[s].busy = true;
    }
}

/* TABLES waits for every table, and for a map that a server has brought meanwhile. */
START_TEST(flow_waits_for_all_tables)
{
    tables_declare();
    c->slot[0].declared[0] = _i != 0;
    c->slot[0].declared[1] = _i != 1;
    c->fleet.cluster.newest_epoch = _i == 2 ? 3 : 0;
    c->slot[0].declared_total = _i == 3 ? 0 : 2;
    ck_assert_uint_eq(step_from(PHASE_TABLES), _i < 4 ? PHASE_TABLES : PHASE_SETUP);
    ck_assert_uint_eq(c->slot[0].at.epoch, _i < 4 ? 0 : 1);
}
END_TEST

/* A job that has waited while another one was submitted gets a newer run, as its tables may get the
 * other's numbers (_i 1), unless it loads a checkpoint, which opens the run (_i 2). */
START_TEST(flow_opens_tables_with_the_newest_run)
{
    struct coord_counters counters;
    struct err e = {0};
    tables_declare();
    c->fleet.counters.next_run = RUN + (_i == 0 ? 1 : 2);
    c->slot[0].at.from = _i == 2 ? FROM_TO_START : FROM_NOTHING;
    ck_assert_uint_eq(step_from(PHASE_TABLES), PHASE_SETUP);
    ck_assert_uint_eq(c->slot[0].at.run, _i == 1 ? RUN + 2 : RUN);
    ck_assert_uint_eq(c->slot[0].at.number, RUN);
    if (_i != 1)
        return;
    ck_assert_int_eq(
        coord_store_get_fixed(c->fleet.store, "counters", &counters, sizeof counters, &e), 0);
    ck_assert_uint_eq(counters.next_run, RUN + 3);
}
END_TEST

/* A resumed job continues in the epoch of the checkpoint. */
START_TEST(flow_goes_on_in_the_epoch_of_the_checkpoint)
{
    tables_declare();
    c->slot[0].at.epoch = 3;
    c->slot[0].at.from = _i == 0 ? FROM_TO_LOAD : FROM_TO_START;
    ck_assert_uint_eq(step_from(PHASE_TABLES), PHASE_SETUP);
    ck_assert_uint_eq(c->slot[0].at.epoch, _i == 0 ? 3 : 1);
}
END_TEST

/* Half of the rows are lost with a server's memory: the job begins only if it drops all rows. */
START_TEST(flow_begins_with_no_half_of_the_rows)
{
    tables_declare();
    for (uint32_t s = 0; s < 2; s++) {
        c->fleet.members.shard[s].figures.in_memory = true;
        c->fleet.members.shard[s].made = 1;
        c->fleet.members.shard[s].incarnation = 1 + s;
    }
    c->fleet.cluster.map_epoch = 1; /* of tables whose numbers are not known */
    c->slot[0].space->fresh.number = _i == 1 ? RUN : 0;
    ck_assert_uint_eq(step_from(PHASE_TABLES), _i == 1 ? PHASE_SETUP : PHASE_FAILED);
}
END_TEST

/* While the job waited, a server lost rows of its space (_i 1), or half of the space is dropped
 * (_i 2). A job that begins with a checkpoint (_i 3 to 5) keeps tables that it lacks. */
START_TEST(flow_begins_with_no_space_that_was_lost_meanwhile)
{
    static const uint32_t state[] = {SPACE_IS, SPACE_LOST, SPACE_HALF};
    tables_declare();
    c->slot[0].at.from = _i < 3 ? FROM_FLEET : FROM_TO_START;
    c->slot[0].space->state = state[_i % 3];
    ck_assert_uint_eq(step_from(PHASE_TABLES), _i % 3 == 0 ? PHASE_SETUP : PHASE_FAILED);
    ck_assert(_i % 3 != 1 || strstr(c->slot[0].at.text, "they are lost") != NULL);
}
END_TEST

/* A checkpoint is made of the space as it rested (_i 1), or of another space. */
START_TEST(flow_waits_for_the_checkpoint_of_a_space_that_rested)
{
    tables_declare();
    c->aside.space = _i == 1 ? c->slot[0].space : coord_space_none(&c->fleet.spaces);
    c->aside.checkpoint->state = CHECKPOINT_EXPORTING;
    ck_assert_uint_eq(step_from(PHASE_TABLES), _i == 1 ? PHASE_TABLES : PHASE_SETUP);
    c->aside.checkpoint->state = CHECKPOINT_IDLE;
    ck_assert_uint_eq(step_from(c->slot[0].at.phase), PHASE_SETUP);
}
END_TEST

/* ---- SETUP ----------------------------------------------------------------------------------- */

static uint32_t asked_of(enum wire_type type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count && i < 16; i++)
        n += asked[i] == type;
    return n;
}

/* The servers have the run open from here on. A job that continues after its training sends all
 * fences again, because power may have failed, too. A job that trains fences all lanes at its next
 * step anyway; a job without lanes in this run has no marks. */
START_TEST(flow_fences_lanes_when_a_job_goes_on_after_training)
{
    struct err e = {0};
    struct coord_job *j = &c->slot[0];
    coord_task_close(j->tasks);
    ck_assert_int_eq(coord_task_open(j->tasks, 3, WIRE_SSP, &e), 0);
    tables_declare();
    for (uint32_t s = 0; s < 2; s++) {
        c->slot[0].setup.shard[s].done = _i != 2 || s == 0;
        c->slot[0].setup.shard[s].busy = false;
    }
    j->at.epoch = j->at.tables = 1;
    j->resume = PHASE_DIGEST;
    j->laned = _i == 1 ? RUN - 1 : RUN;
    j->digest = calloc(64, sizeof *j->digest);
    j->tablets = 64;
    c->fleet.cluster.map_epoch = 3;
    c->fleet.cluster.tablets = 64;
    c->fleet.cluster.shard_of = calloc(64, sizeof *c->fleet.cluster.shard_of);
    ck_assert_uint_eq(step_from(PHASE_SETUP), _i == 2 ? PHASE_SETUP : PHASE_DIGEST);
    ck_assert_uint_eq(j->opened, _i == 2 ? 0 : RUN);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_FENCE), _i == 0 ? 3 : 0);
}
END_TEST

/* ---- TRAIN ----------------------------------------------------------------------------------- */

/* The servers are asked for their rows and refusals only while a job trains. */
START_TEST(flow_asks_how_rows_fare_while_it_trains)
{
    struct err e = {0};
    coord_task_close(c->slot[0].tasks);
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, 3, WIRE_SSP, &e), 0);
    struct coord_segment rows = {.rows = 400};
    ck_assert_int_eq(coord_task_plan(c->slot[0].tasks, 1, &rows, 1, 10, 2, 0, &e), 0);
    c->slot[0].at.epoch = 1;
    c->slot[0].guard->asked_ns = sim_now_ns(sim) - UINT64_C(60000000000); /* long ago */
    ck_assert_uint_eq(step_from(_i == 0 ? PHASE_TRAIN : PHASE_LANES), PHASE_TRAIN);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_SHARD_STATUS), _i == 0);
}
END_TEST

/* ---- the end --------------------------------------------------------------------------------- */

/* DIGEST waits for all digests, for fences in flight, for the guard's last answer, and for the
 * checkpoint of the job's end. */
START_TEST(flow_ends_with_all_that_is_due)
{
    c->slot[0].at.tables = 2;
    c->slot[0].digested = _i == 1 ? 1 : 2;
    open_type = _i == 2 ? WIRE_TYPE_FENCE : WIRE_TYPE_NONE;
    c->slot[0].guard->final = _i != 3;
    c->slot[0].spec.checkpoint.at_end = _i >= 4;
    c->slot[0].checkpoint->end_made = _i == 5;
    c->slot[0].checkpoint->retry_ns = UINT64_MAX; /* no checkpoint begins here */
    bool over = _i == 0 || _i == 5;
    ck_assert_uint_eq(step_from(PHASE_DIGEST), over ? PHASE_FINISH : PHASE_DIGEST);
}
END_TEST

/* The last figures of workers are waited for, for a short time, and so is a checkpoint in
 * progress. */
START_TEST(flow_waits_for_who_is_still_there)
{
    c->slot[0].at.tables = c->slot[0].digested = 0;
    c->slot[0].guard->final = true;
    c->slot[0].at.phase = PHASE_FINISH;
    c->slot[0].phase_ns = sim_now_ns(sim);
    c->slot[0].workers.count = _i == 0;
    c->slot[0].checkpoint->state = _i == 1 ? CHECKPOINT_EXPORTING : CHECKPOINT_IDLE;
    c->slot[0].checkpoint->part = calloc(LIMIT_SHARDS, sizeof *c->slot[0].checkpoint->part);
    coord_flow_step(&c->slot[0]);
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_FINISH);
    ck_assert_ptr_null(c->slot[0].report);
}
END_TEST

/* ---- a restart ------------------------------------------------------------------------------- */

/* The servers may not have been told that the job is over. */
START_TEST(flow_drops_the_run_of_a_job_that_is_over)
{
    struct coord_progress at = {.number = RUN, .run = _i == 0 ? RUN : 0, .phase = PHASE_FAILED};
    struct err e = {0};
    ck_assert_int_eq(coord_store_put(store, "progress", &at, sizeof at, &e), 0);
    coord_make();
    ck_assert_uint_eq(count, _i == 0);
    if (_i == 0)
        ck_assert_uint_eq(asked[0], WIRE_TYPE_RUN_DROP);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("flow");
    TCase *t = suite_case(s, "flow", 60, setup, NULL);
    tcase_add_loop_test(t, flow_waits_for_all_who_take_part, 0, 7);
    tcase_add_loop_test(t, flow_indexes_every_split, 0, 4);
    tcase_add_loop_test(t, flow_without_rows_ends_the_job_unless_nothing_is_trained, 0, 2);
    tcase_add_loop_test(t, flow_goes_on_with_the_same_rows_alone, 0, 4);
    tcase_add_loop_test(t, flow_opens_tables_with_the_newest_run, 0, 3);
    tcase_add_loop_test(t, flow_waits_for_all_tables, 0, 5);
    tcase_add_loop_test(t, flow_goes_on_in_the_epoch_of_the_checkpoint, 0, 2);
    tcase_add_loop_test(t, flow_begins_with_no_half_of_the_rows, 0, 2);
    tcase_add_loop_test(t, flow_begins_with_no_space_that_was_lost_meanwhile, 0, 6);
    tcase_add_loop_test(t, flow_waits_for_the_checkpoint_of_a_space_that_rested, 0, 2);
    tcase_add_loop_test(t, flow_fences_lanes_when_a_job_goes_on_after_training, 0, 3);
    tcase_add_loop_test(t, flow_asks_how_rows_fare_while_it_trains, 0, 2);
    tcase_add_loop_test(t, flow_ends_with_all_that_is_due, 0, 6);
    tcase_add_loop_test(t, flow_waits_for_who_is_still_there, 0, 2);
    tcase_add_loop_test(t, flow_drops_the_run_of_a_job_that_is_over, 0, 2);
    return suite_main(s);
}
