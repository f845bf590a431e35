/* test_setup.c: the messages that a shard gets when it registers, and the steps that set a job up
 * on it; the shard answers as the case says. */
#include "server/coord/coord.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/job/setup.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/keep/cut.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN 5u
#define TABLES 2u
#define TABLETS 64u
#define ASKED 32u

static struct coord *c;
static struct coord_shard *shard; /* number 1, of two */
static uint16_t shard_of[TABLETS];
static struct coord_call asked[ASKED];
static struct wire_lane_fence fence[ASKED]; /* from the last FENCES */
static uint32_t count;

bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call)
{
    (void)calls;
    ck_assert_uint_lt(count, ASKED);
    asked[count++] = *call;
    if (call->request.type == WIRE_TYPE_FENCES && call->frame_bytes > 0)
        memcpy(fence, call->frame, call->frame_bytes);
    return true;
}

static uint32_t sent;
bool __real_coord_send_frame(struct coord_fleet *k, peer_t to, const struct wire *w,
                             const void *bytes, size_t count_);
bool __wrap_coord_send_frame(struct coord_fleet *k, peer_t to, const struct wire *w,
                             const void *bytes, size_t count_);
bool __wrap_coord_send_frame(struct coord_fleet *k, peer_t to, const struct wire *w,
                             const void *bytes, size_t count_)
{
    sent++;
    return __real_coord_send_frame(k, to, w, bytes, count_);
}

static void tables_make(struct coord_job *j)
{
    memset(j->table, 0, LIMIT_TABLES * sizeof *j->table);
    for (uint32_t t = 0; t < TABLES; t++) {
        struct table_schema *s = &j->table[t];
        (void)snprintf(s->name, sizeof s->name, "t%u", t);
        s->table = t;
        s->width = 2;
        s->tablet_bits = 5;
        s->tablet_first = 32 * t;
    }
    j->at.tables = j->declared_total = TABLES;
    j->space->numbers = table_set_word((UINT64_C(1) << TABLES) - 1);
    j->tablets = TABLETS;
    j->digest = calloc(TABLETS, sizeof *j->digest);
}

static void job_make(const char *mode)
{
    char text[512];
    struct err e = {0};
    struct coord_job *j = &c->slot[0];
    int n = snprintf(text, sizeof text,
                     "job: t\ndata: {format: csv, train: [a.csv], label: 0}\n"
                     "tables: [{name: emb, dim: 2, tablets: 64}]\nmodel: {kind: probe}\n"
                     "train: {consistency: %s, lanes: 4}\n",
                     mode);
    ck_assert_msg(coord_submit_build(j, text, (size_t)n, &e) == 0, "%s", e.text);
    j->at.number = 4;
    j->at.run = RUN; /* it went back once */
    j->at.phase = PHASE_SETUP;
    j->resume = PHASE_TRAIN;
    tables_make(j);
}

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    struct coord_options o = {.shards = 2, .lease_ms = 1000};
    struct err e = {0};
    count = sent = 0;
    struct sim_node *node = sim_node_new(sim_new(&calm), "coordinator", &coord_handler, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    c->fleet.cluster.id[0] = 1;
    c->fleet.cluster.map_epoch = 3;
    c->fleet.cluster.tablets = TABLETS;
    c->fleet.cluster.shard_of = shard_of;
    for (uint32_t t = 0; t < TABLETS; t++)
        shard_of[t] = t < 32 ? t >= 16 : t < 48; /* the first half of the second table */
    c->fleet.members.shard[0] = (struct coord_shard){.seen = true, .ready = true};
    c->slot[0].setup.shard[0].done = true;
    c->slot[0].setup.shard[0].greeted = true;
    shard = &c->fleet.members.shard[1];
    shard->seen = shard->ready = shard->figures.in_memory = true;
    shard->incarnation = 7;
}

/* Returns request number n; fails the case if it has another type. */
static const struct wire *nth(uint32_t n, enum wire_type type)
{
    ck_assert_uint_lt(n, count);
    ck_assert_msg(asked[n].request.type == type, "%s", wire_type_name(asked[n].request.type));
    ck_assert_uint_eq(asked[n].target, 1);
    return &asked[n].request;
}

/* Answers every request, those of `type` with `status`. Returns the number of requests. */
static uint32_t set_up(enum wire_type type, int status)
{
    uint32_t at = count;
    coord_setup_step(&c->slot[0]);
    for (; at < count; at++) {
        struct coord_call call = asked[at];
        bool refused = call.request.type == type;
        call.on_done(call.context, &call, refused ? status : 0, refused ? "scripted" : "");
    }
    return count;
}

/* ---- at every registration ------------------------------------------------------------------- */

/* The shard gets map, names and cuts once, when it is ready. It does not get a map before rows that
 * may not fit it are dropped. */
START_TEST(shard_that_comes_is_told_map_names_and_cuts)
{
    job_make("ssp");
    shard->ready = _i != 0;
    c->fleet.cluster.newest_epoch = _i == 1 ? 4 : 3;
    c->slot[0].space->fresh.number = _i == 2 ? 4 : 0;
    c->fleet.names.version = _i >= 3 ? 2 : 0;
    c->fleet.names.newest = _i == 4 ? 3 : 0; /* a server knows newer names */
    c->fleet.names.line = "names";
    c->fleet.names.bytes = 5;
    coord_setup_greet(&c->slot[0]);
    coord_setup_greet(&c->slot[0]);
    ck_assert_int_eq(c->slot[0].setup.shard[1].greeted, _i > 1);
    ck_assert_uint_eq(count, _i < 2 ? 0 : _i == 2 ? 1 : _i == 3 ? 3 : 2);
    if (_i == 3)
        ck_assert_uint_eq(nth(1, WIRE_TYPE_NAMES_SET)->u.NAMES_SET.version, 2);
    if (_i > 1)
        ck_assert_uint_eq(nth(count - 1, WIRE_TYPE_CUT_KEEP)->u.CUT_KEEP.runs, RUN);
    if (_i > 1) {
        uint64_t own = (UINT64_C(1) << c->slot[0].at.tables) - 1;
        ck_assert_uint_eq(nth(count - 1, WIRE_TYPE_CUT_KEEP)->u.CUT_KEEP.tables_0, own);
    }
    if (_i == 3) {
        const struct wire_MAP_SET *m = &nth(0, WIRE_TYPE_MAP_SET)->u.MAP_SET;
        ck_assert(m->map_epoch == 3 && m->tablet_count == TABLETS && m->cluster_high == 1);
        ck_assert_uint_eq(asked[0].frame_bytes, TABLETS * sizeof shard_of[0]);
    }
}
END_TEST

/* A shard that comes when the job is over may have missed RUN_DROP, which goes only to shards that
 * are set up: its tablets would have marks of a run that no other shard opens, and no shard would
 * take them. A shard that was greeted before, and is not set up, is greeted again. */
START_TEST(shard_that_comes_after_the_job_drops_its_run)
{
    job_make("ssp");
    struct coord_job *j = &c->slot[0];
    j->at.from = _i == 2 ? FROM_TO_START : FROM_NOTHING;
    if (_i != 1)
        j->at.phase = PHASE_DONE;
    coord_setup_greet(j);
    ck_assert_uint_eq(nth(count - 1, WIRE_TYPE_CUT_KEEP)->u.CUT_KEEP.runs, RUN + (_i == 0));
    ck_assert(j->setup.shard[0].greeted && j->setup.shard[1].greeted);
    coord_cut_run_drop(j);
    ck_assert(j->setup.shard[0].greeted && !j->setup.shard[1].greeted);
}
END_TEST

/* A shard that is not ready gets the map, too, so that it can answer readers, unless there is no
 * valid map for it. */
START_TEST(shard_that_is_not_ready_has_the_map_once)
{
    job_make("ssp");
    shard->ready = false;
    c->slot[0].space->fresh.number = _i == 1 ? 4 : 0;
    c->fleet.cluster.newest_epoch = _i == 2 ? 4 : 3;
    ck_assert_int_eq(env_connect(c->fleet.env, "sim://nobody", ENV_COORDINATOR, &shard->peer), 0);
    for (int again = 0; again < 2; again++) {
        coord_setup_map_early(&c->slot[0], 1);
        ck_assert_uint_eq(shard->map_told, _i == 0 ? 3 : 0);
        ck_assert_uint_eq(sent, _i == 0);
    }
    c->fleet.cluster.map_epoch = c->fleet.cluster.newest_epoch = 5;
    coord_setup_map_early(&c->slot[0], 1);
    ck_assert_uint_eq(sent, _i == 1 ? 0 : _i == 0 ? 2 : 1);
}
END_TEST

START_TEST(shard_whose_early_map_is_dropped_is_sent_it_again)
{
    job_make("ssp");
    shard->ready = false;
    shard->peer = 0; /* no such peer: the message is dropped */
    for (uint32_t again = 1; again < 3; again++) {
        coord_setup_map_early(&c->slot[0], 1);
        ck_assert(sent == again && shard->map_told == 0);
    }
    ck_assert_int_eq(env_connect(c->fleet.env, "sim://nobody", ENV_COORDINATOR, &shard->peer), 0);
    coord_setup_map_early(&c->slot[0], 1);
    ck_assert(sent == 3 && shard->map_told == 3);
}
END_TEST

/* ---- a job ----------------------------------------------------------------------------------- */

START_TEST(shard_is_set_up_in_order)
{
    job_make(_i == 0 ? "bsp" : "ssp");
    c->slot[0].opened = _i == 2 ? RUN : 0;
    ck_assert_uint_eq(set_up(WIRE_TYPE_NONE, 0), 5);
    ck_assert(c->slot[0].setup.shard[1].done && coord_setup_all(&c->slot[0]));
    ck_assert_uint_eq(shard->made, 7); /* its rows are lost if this process dies */
    (void)nth(0, WIRE_TYPE_MAP_SET);
    for (uint32_t t = 0; t < TABLES; t++)
        ck_assert_uint_eq(nth(1 + t, WIRE_TYPE_TABLE_CREATE)->u.TABLE_CREATE.table, t);
    const struct wire_RUN_OPEN *r = &nth(3, WIRE_TYPE_RUN_OPEN)->u.RUN_OPEN;
    ck_assert(r->run == RUN && r->lanes == 4);
    ck_assert_uint_eq(r->mode, _i == 0 ? WIRE_BSP : WIRE_SSP);
    ck_assert_uint_eq(r->tables_0, 3);
    ck_assert_int_eq(r->must_exist, _i == 2); /* else its rows would be lost */
    ck_assert_uint_eq(nth(4, WIRE_TYPE_FENCES)->u.FENCES.run, RUN);
}
END_TEST

/* All former tables are dropped first; fields that begin anew are dropped before the run is
 * opened. */
START_TEST(shard_drops_what_is_to_go_first)
{
    job_make("ssp");
    c->slot[0].space->fresh.number = _i == 0 ? 4 : 0;
    c->slot[0].space->fresh_fields->number = _i == 1 ? 4 : 0;
    (void)snprintf(c->slot[0].space->fresh_fields->what,
                   sizeof c->slot[0].space->fresh_fields->what, "emb:2");
    ck_assert_uint_eq(set_up(WIRE_TYPE_NONE, 0), 6);
    ck_assert(c->slot[0].setup.shard[1].done);
    if (_i == 0) {
        const struct wire_ROWS_GO *all = &nth(0, WIRE_TYPE_ROWS_GO)->u.ROWS_GO;
        ck_assert(all->run == RUN && all->what == WIRE_ROWS_ALL &&
                  all->tables_0 == UINT64_MAX); /* no other space has tables */
        (void)nth(1, WIRE_TYPE_MAP_SET);
    } else {
        const struct wire_ROWS_GO *some = &nth(3, WIRE_TYPE_ROWS_GO)->u.ROWS_GO;
        ck_assert(some->run == RUN && some->what == WIRE_ROWS_FIELDS && some->tables_0 == 3);
        ck_assert_str_eq(some->fields, "emb:2");
    }
    (void)nth(4, WIRE_TYPE_RUN_OPEN);
}
END_TEST

/* LOAD opens the run: for a job that resumes (0) as the checkpoint says, for a job that starts from
 * its tables (1) as the job says. */
START_TEST(shard_loads_in_place_of_opening)
{
    job_make("ssp");
    c->slot[0].at.from = _i == 0 ? FROM_TO_LOAD : FROM_TO_START;
    (void)snprintf(c->slot[0].at.from_path, sizeof c->slot[0].at.from_path, "/a/b");
    (void)snprintf(c->slot[0].without, sizeof c->slot[0].without, "emb:2");
    ck_assert_uint_eq(set_up(WIRE_TYPE_NONE, 0), 4);
    const struct wire_LOAD *l = &nth(3, WIRE_TYPE_LOAD)->u.LOAD;
    ck_assert_uint_eq(l->run, RUN);
    ck_assert_str_eq(l->path, "/a/b");
    ck_assert_uint_eq(l->lanes, _i == 0 ? 0 : 4);
    ck_assert_uint_eq(l->mode, _i == 0 ? 0 : WIRE_SSP);
    ck_assert_str_eq(l->without, _i == 0 ? "" : "emb:2");
    ck_assert_uint_eq(l->tables_0, 3); /* the job's tables: other jobs may have left more */
}
END_TEST

/* RESTORE opens the run itself. After the job's end only the tables can be read. */
START_TEST(shard_opens_no_run_that_is_opened_otherwise)
{
    job_make("ssp");
    c->slot[0].at.phase = PHASE_RESTORE;
    ck_assert_uint_eq(set_up(WIRE_TYPE_NONE, 0), 3);
    ck_assert(c->slot[0].setup.shard[1].done);
}
END_TEST

START_TEST(shard_that_refuses_ends_the_job)
{
    static const struct {
        enum wire_type type;
        int status;
    } by[] = {{WIRE_TYPE_RUN_OPEN, SHOAL_E_VERSION},
              {WIRE_TYPE_TABLE_CREATE, SHOAL_E_SCHEMA},
              {WIRE_TYPE_FENCES, SHOAL_E_OLD_RUN}};
    job_make("ssp");
    set_up(by[_i].type, by[_i].status);
    ck_assert(!c->slot[0].setup.shard[1].done);
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_FAILED);
    ck_assert_int_eq(c->slot[0].at.status, by[_i].status);
}
END_TEST

/* The refusal may come before the beat that tells the same (taken.c). */
START_TEST(shard_that_knows_newer_lanes_tells_of_an_older_folder)
{
    job_make("ssp");
    set_up(WIRE_TYPE_FENCES, SHOAL_E_FENCED);
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_FAILED);
    ck_assert_int_eq(c->slot[0].at.status, SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(c->slot[0].at.text, "data_dir is older than it was") != NULL &&
                      strstr(c->slot[0].at.text, "submit the job again") != NULL,
                  "%s", c->slot[0].at.text);
}
END_TEST

/* When a shard is set up for a checkpoint after the job's end, only the checkpoint fails; the job's
 * end stays as it is. */
START_TEST(shard_that_refuses_a_checkpoints_opening_ends_that)
{
    struct coord_checkpoint *k = c->slot[0].checkpoint;
    job_make("ssp");
    c->slot[0].at.phase = PHASE_DONE;
    k->state = CHECKPOINT_OPENING;
    k->making = calloc(1, sizeof *k->making);
    k->list->number = c->slot[0].at.number;
    set_up(_i == 0 ? WIRE_TYPE_RUN_OPEN : WIRE_TYPE_NONE, SHOAL_E_SCHEMA);
    ck_assert_uint_eq(k->state, _i == 0 ? CHECKPOINT_IDLE : CHECKPOINT_OPENING);
    ck_assert_uint_eq(c->fleet.errands.count, _i == 0); /* its folder is removed */
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_DONE);
    ck_assert_int_eq(c->slot[0].setup.shard[1].done, _i != 0);
}
END_TEST

/* ---- fences ---------------------------------------------------------------------------------- */

static void lane_is(uint32_t lane, enum coord_lane_state state, bool placed)
{
    struct coord_lane *l = &c->slot[0].tasks->lane[lane];
    l->state = state;
    l->generation = l->stored = 10 + lane;
    l->placed = placed;
    l->at = 100 + lane;
    l->clock = 200 + lane;
}

/* The shard gets the fence of every lane as it is: the live ones, and the clock where they were
 * placed. */
START_TEST(shard_that_comes_back_has_all_fences)
{
    static const uint32_t how[] = {WIRE_LIVE | WIRE_PLACED, WIRE_LIVE, 0, 0};
    bool bsp = _i == 1;
    job_make(bsp ? "bsp" : "ssp");
    lane_is(0, LANE_HELD, true);
    lane_is(1, LANE_HELD, false);
    lane_is(2, LANE_GRANTING, false);
    lane_is(3, LANE_FREE, true);
    if (_i == 2)
        lane_is(2, LANE_GRANTING, true);
    if (_i == 3)
        c->slot[0].resume = PHASE_LANES; /* all lanes are about to be raised */
    (void)set_up(WIRE_TYPE_NONE, 0);
    ck_assert_uint_eq(nth(4, WIRE_TYPE_FENCES)->u.FENCES.lane_count, _i == 3 ? 0 : 4);
    for (uint32_t i = 0; i < 4 && _i < 3; i++) {
        uint32_t is = _i == 2 && i == 2 ? how[0] : how[i] | (bsp ? WIRE_LIVE : 0);
        if (bsp && i == 3) /* it is live and placed */
            is |= WIRE_PLACED;
        ck_assert_uint_eq(fence[i].lane, i);
        ck_assert_uint_eq(fence[i].generation, 10 + i);
        ck_assert_uint_eq(fence[i].live, is);
        ck_assert(fence[i].at == 100 + i && fence[i].clock == 200 + i);
    }
}
END_TEST

/* A lane that was never held has no fence. */
START_TEST(shard_hears_of_no_lane_that_was_never_raised)
{
    job_make("ssp");
    lane_is(2, LANE_HELD, true);
    (void)set_up(WIRE_TYPE_NONE, 0);
    ck_assert_uint_eq(nth(4, WIRE_TYPE_FENCES)->u.FENCES.lane_count, 1);
    ck_assert_uint_eq(fence[0].lane, 2);
}
END_TEST

/* ---- digests --------------------------------------------------------------------------------- */

/* Digests of each shard are stored where the map has its tablets; surplus digests are ignored. */
START_TEST(digests_go_where_the_map_says)
{
    job_make("ssp");
    c->slot[0].at.phase = PHASE_DIGEST;
    c->slot[0].table_rows[0] = 999; /* from an earlier attempt */
    coord_setup_digest(&c->slot[0]);
    ck_assert_uint_eq(count, TABLES);
    for (uint32_t t = 0; t < TABLES; t++) {
        for (uint32_t s = 0; s < 2; s++) {
            struct wire w = {.type = WIRE_TYPE_DIGEST, .reply = true};
            struct msg *m = msg_new();
            w.u.DIGEST_reply = (struct wire_DIGEST_reply){.tablet_first = 16 * (t == 0 ? s : 1 - s),
                                                          .tablet_count = _i == 0 ? 16 : 15,
                                                          .rows = 10 + s};
            ck_assert_ptr_nonnull(msg_add(m, 0));
            uint64_t *value = msg_add(m, 16 * sizeof *value);
            for (uint32_t i = 0; i < 16; i++)
                value[i] = 1000 * t + 100 * s + i + 1;
            asked[t].on_reply(asked[t].context, &asked[t], s, &w, m);
            msg_free(m);
        }
        asked[t].on_done(asked[t].context, &asked[t], 0, "");
        ck_assert_uint_eq(c->slot[0].table_rows[t], 21);
    }
    ck_assert_uint_eq(c->slot[0].digested, TABLES);
    for (uint32_t i = 0; i < TABLETS; i++) {
        uint32_t t = i / 32, s = shard_of[i], n = i % 16;
        uint64_t is = _i == 1 && n == 15 ? 0 : 1000 * t + 100 * s + n + 1;
        ck_assert_uint_eq(c->slot[0].digest[i], is);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("setup");
    TCase *t = suite_case(s, "setup", 60, setup, NULL);
    tcase_add_loop_test(t, shard_that_comes_is_told_map_names_and_cuts, 0, 5);
    tcase_add_loop_test(t, shard_that_comes_after_the_job_drops_its_run, 0, 3);
    tcase_add_loop_test(t, shard_that_is_not_ready_has_the_map_once, 0, 3);
    tcase_add_test(t, shard_whose_early_map_is_dropped_is_sent_it_again);
    tcase_add_loop_test(t, shard_is_set_up_in_order, 0, 3);
    tcase_add_loop_test(t, shard_drops_what_is_to_go_first, 0, 2);
    tcase_add_loop_test(t, shard_loads_in_place_of_opening, 0, 2);
    tcase_add_test(t, shard_opens_no_run_that_is_opened_otherwise);
    tcase_add_loop_test(t, shard_that_refuses_a_checkpoints_opening_ends_that, 0, 2);
    tcase_add_loop_test(t, shard_that_refuses_ends_the_job, 0, 3);
    tcase_add_test(t, shard_that_knows_newer_lanes_tells_of_an_older_folder);
    tcase_add_loop_test(t, shard_that_comes_back_has_all_fences, 0, 4);
    tcase_add_test(t, shard_hears_of_no_lane_that_was_never_raised);
    tcase_add_loop_test(t, digests_go_where_the_map_says, 0, 2);
    return suite_main(s);
}
