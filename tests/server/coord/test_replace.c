/* test_replace.c: an operator replaces a server whose disk is lost, in the simulator: the real
 * coordinator on real folders of checkpoints, with fake shards that record every row. */
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/checkpoint.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define SHARDS 2u

static struct {
    struct sim *sim;
    struct sim_node *node, *asker;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard *shard[SHARDS];
    struct fake_worker worker[2];
    struct fake_client client;
    char yaml[2048];
    peer_t to;
    uint64_t id; /* the last order's */
    struct wire answer;
    uint32_t answers;
} r;

static char folder[64]; /* outlives a rig */

/* ---- the rig --------------------------------------------------------------------------------- */

static void coord_start(void)
{
    const struct coord_options o = {.shards = SHARDS,
                                    .lease_ms = 1000,
                                    .resend_ms = 100,
                                    .version = "test",
                                    .folder = &coord_folder_disk};
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

static void on_answer(void *core, peer_t from, struct msg *m)
{
    struct wire w;
    (void)core;
    (void)from;
    if (wire_decode(m, &w, NULL) == 0 && w.type == WIRE_TYPE_REPLACE && w.id == r.id) {
        r.answer = w;
        r.answers++;
    }
    msg_free(m);
}

static void nothing_drained(void *core)
{
    (void)core;
}

static const struct env_handler operator_handler = {on_answer, nothing_drained, NULL};

static void go(uint64_t ns)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ns, NULL, NULL);
}

static void workers_start(void)
{
    for (uint32_t w = 0; w < 2; w++) {
        char name[24];
        r.worker[w] = (struct fake_worker){.rows = {1005, 300, 200},
                                           .batch = 10,
                                           .seats = 2,
                                           .step_ns = 5000000,
                                           .resend_ns = SECOND / 2,
                                           .digest = 42};
        for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
            r.worker[w].quality[n] = 0.5 + 0.02 * n;
        (void)snprintf(name, sizeof name, "worker-%u", w);
        fake_worker_start(&r.worker[w], r.sim, name, r.shard, SHARDS);
    }
}

static void rig_start(const char *job, const char *mode)
{
    static uint64_t seed = 7; /* another cluster each time */
    const struct sim_options calm = {
        .seed = seed++, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    static const struct env_who ann = {.role = ROLE_ADMIN, .name = "ann", .key = "annskey"};
    memset(&r, 0, sizeof r);
    (void)snprintf(
        r.yaml, sizeof r.yaml,
        "job: %s\ndata: {format: libsvm, train: [a], valid: [b], test: [c], max_bad: 0.01}\n"
        "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\ntrain: {batch: 10, task_batches: 4, "
        "lanes: 2, epochs: 2, consistency: %s}\ncheckpoint: {dir: %s}\n",
        job, mode, folder);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    coord_start();
    for (uint32_t s = 0; s < SHARDS; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        r.shard[s] = calloc(1, sizeof *r.shard[s]);
        fake_shard_start(r.shard[s], r.sim, name, 0, 1);
        r.shard[s]->sequence = 100;
    }
    workers_start();
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    r.asker = sim_node_new(r.sim, "operator", &operator_handler, NULL);
    sim_node_who(r.asker, &ann);
    ck_assert_int_eq(
        env_connect(sim_node_env(r.asker), "sim://coordinator", ENV_COORDINATOR, &r.to), 0);
}

static void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t s = 0; s < SHARDS; s++) {
        free(r.shard[s]->shard_of);
        free(r.shard[s]);
    }
}

static void run_batches(uint32_t batches)
{
    while (r.worker[0].batches + r.worker[1].batches < batches)
        ck_assert(sim_step(r.sim));
}

static bool job_over(void *context)
{
    (void)context;
    return r.client.state == WIRE_JOB_DONE || r.client.state == WIRE_JOB_FAILED;
}

/* Each row of both epochs counts exactly once, as shard 0 records it. */
static void done_once(void)
{
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 120 * SECOND, job_over, NULL),
                  "job hangs in phase %u: %s", r.coord->slot[0].at.phase, r.shard[1]->refused);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "state %u: %s", r.client.state, r.client.text);
    for (uint32_t e = 1; e <= 2; e++)
        for (uint32_t row = 0; row < 1005; row++)
            ck_assert_msg(r.shard[0]->seen[e][row] == 1, "epoch %u row %u applied %u times", e, row,
                          r.shard[0]->seen[e][row]);
}

static const char *make(const char *name)
{
    uint64_t until = sim_now_ns(r.sim) + 30 * SECOND;
    fake_client_checkpoint(&r.client, name);
    while (!r.client.checkpoint.answered && sim_now_ns(r.sim) < until)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(r.client.checkpoint.answered && r.client.checkpoint.status == 0, "%s",
                  r.client.checkpoint.text);
    return r.client.checkpoint.reply.path;
}

/* The shard's process dies, and its folder is gone. */
static void lose(uint32_t shard)
{
    struct fake_shard *s = r.shard[shard];
    fake_shard_die(s);
    s->cluster[0] = s->cluster[1] = s->sequence = s->names_version = s->taken_newest = 0;
    memset(s->taken, 0, sizeof s->taken);
    s->number = s->shards = 0;
    s->names[0] = 0;
}

static void come(uint32_t shard, const char *name)
{
    fake_shard_start(r.shard[shard], r.sim, name, 0, r.shard[shard]->incarnation + 1);
}

static int order(const char *server, const char *from)
{
    uint64_t until = sim_now_ns(r.sim) + 5 * SECOND;
    struct wire w = {.type = WIRE_TYPE_REPLACE, .id = ++r.id};
    (void)snprintf(w.u.REPLACE.server, LIMIT_NAME, "%s", server);
    (void)snprintf(w.u.REPLACE.from, LIMIT_PATH, "%s", from);
    r.answers = 0;
    ck_assert_int_eq(env_send(sim_node_env(r.asker), r.to, wire_encode(&w)), 0);
    while (r.answers == 0 && sim_now_ns(r.sim) < until)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(r.answers, 1);
    return r.answer.status;
}

static void refused(const char *server, const char *from, int status, const char *words)
{
    int rc = order(server, from);
    ck_assert_msg(rc == status, "%d, %d was expected: %s", rc, status, r.answer.error);
    ck_assert_msg(strstr(r.answer.error, words) != NULL, "'%s' is not in: %s", words,
                  r.answer.error);
    ck_assert(r.coord->fleet.replace.from[0] == 0);
}

static void given(const char *server, const char *from)
{
    int rc = order(server, from);
    ck_assert_msg(rc == 0, "%d: %s", rc, r.answer.error);
}

/* The answer counts the batches after the checkpoint, and their examples, 10 a batch. */
static void told_lost(unsigned long least, unsigned long most)
{
    unsigned long batches = 0, examples = 0;
    const char *told = r.answer.u.REPLACE_reply.told, *lost = strstr(told, " batches after");
    ck_assert_msg(lost != NULL, "%s", told);
    while (lost > told && lost[-1] >= '0' && lost[-1] <= '9')
        lost--;
    ck_assert_int_eq(sscanf(lost, "%lu batches after the checkpoint are lost (%lu examples",
                            &batches, &examples),
                     2);
    ck_assert_msg(batches > least && batches < most, "%s", told);
    ck_assert_uint_le(examples, 10 * batches + 80);
    ck_assert_uint_ge(examples + 80, 9 * batches);
}

/* ---- a job runs ------------------------------------------------------------------------------ */

/* The folder of a server is lost in mid-job, and one with an empty folder comes under the old name
 * or another, before or after the order. Both shards load the checkpoint, and each row counts
 * once. */
START_TEST(replace_sends_the_job_back)
{
    static const char *const modes[] = {"async", "ssp", "bsp"};
    const uint32_t lost = _i % 2;
    const char *was = lost == 0 ? "server-0" : "server-1", *name = _i % 4 < 2 ? was : "spare";
    char path[LIMIT_PATH];
    rig_start("t", modes[_i % 3]);
    run_batches(30);
    (void)snprintf(path, sizeof path, "%s", make("noon"));
    run_batches(70);
    lose(lost);
    uint64_t run = r.coord->slot[0].at.run;
    if (_i < 6)
        come(lost, name);
    go(2 * SECOND);
    ck_assert_uint_eq(r.shard[1 - lost]->loads, 0);
    given(was, path);
    told_lost(20, 60);
    ck_assert_ptr_nonnull(strstr(r.answer.u.REPLACE_reply.told, "(1 of 2); the job goes on"));
    if (_i >= 6)
        go(3 * SECOND);
    if (_i >= 6)
        come(lost, name);
    done_once();
    ck_assert_uint_ne(r.coord->slot[0].at.run, run);
    ck_assert_uint_eq(r.shard[0]->loads, 1);
    ck_assert_uint_eq(r.shard[1]->loads, 1);
    ck_assert_uint_eq(r.shard[lost]->number, lost);
    ck_assert_str_eq(r.coord->fleet.members.shard[lost].server, name);
    ck_assert(r.coord->fleet.replace.from[0] == 0);
    rig_stop();
}
END_TEST

/* The coordinator dies after each number of events since the order. */
START_TEST(replace_survives_the_coordinator)
{
    char path[LIMIT_PATH];
    rig_start("t", "ssp");
    run_batches(30);
    (void)snprintf(path, sizeof path, "%s", make("noon"));
    run_batches(60);
    lose(1);
    go(2 * SECOND);
    given("server-1", path);
    for (int i = 0; i < _i; i++)
        ck_assert(sim_step(r.sim));
    coord_again();
    go(_i % 2 * 3 * SECOND);
    come(1, "spare");
    done_once();
    ck_assert_uint_eq(r.shard[0]->loads, 1);
    ck_assert_uint_eq(r.shard[1]->loads, 1);
    coord_again();
    go(3 * SECOND);
    ck_assert_str_eq(r.coord->fleet.members.shard[1].server, "spare");
    ck_assert(coord_member_shards_ready(&r.coord->fleet.members));
    rig_stop();
}
END_TEST

/* The folder of before comes to light again, under the old name, before and after a new one has
 * taken the number. */
START_TEST(replace_takes_no_folder_of_before)
{
    static struct fake_shard before;
    char path[LIMIT_PATH];
    rig_start("t", "ssp");
    run_batches(30);
    (void)snprintf(path, sizeof path, "%s", make("noon"));
    run_batches(60);
    before = *r.shard[1];
    before.sequence = 1000000;
    lose(1);
    go(2 * SECOND);
    given("server-1", path);
    if (_i == 1) {
        come(1, "server-1");
        done_once();
        sim_kill(r.shard[1]->node);
        go(2 * SECOND);
    }
    fake_shard_start(&before, r.sim, "server-1", 0, 77);
    go(2 * SECOND);
    ck_assert_msg(strstr(before.refused, "rows of before") != NULL, "%s", before.refused);
    ck_assert(!coord_member_shards_ready(&r.coord->fleet.members) || _i == 1);
    sim_kill(before.node);
    come(1, "server-1");
    done_once();
    go(2 * SECOND);
    ck_assert(coord_member_shards_ready(&r.coord->fleet.members));
    rig_stop();
}
END_TEST

/* ---- no job runs ----------------------------------------------------------------------------- */

START_TEST(replace_without_a_job_leaves_the_tables_to_the_next)
{
    char path[LIMIT_PATH];
    rig_start("t", "ssp");
    run_batches(30);
    (void)snprintf(path, sizeof path, "%s", make("noon"));
    done_once();
    lose(1);
    go(2 * SECOND);
    given("server-1", path);
    told_lost(100, 202);
    ck_assert_ptr_nonnull(strstr(r.answer.u.REPLACE_reply.told, "no job runs"));
    go(SECOND);
    ck_assert(coord_fresh_half(r.coord->slot[0].space) &&
              !coord_made_known(&r.coord->fleet, r.coord->slot[0].space));
    coord_again();
    come(1, "server-1");
    go(2 * SECOND);
    ck_assert(coord_fresh_half(r.coord->slot[0].space) &&
              !coord_made_known(&r.coord->fleet, r.coord->slot[0].space));
    ck_assert(coord_member_shards_ready(&r.coord->fleet.members));
    rig_stop();
}
END_TEST

/* ---- other spaces ---------------------------------------------------------------------------- */

/* Another model is trained after the first one, by new workers. */
static void next_job(char name)
{
    sim_kill(r.client.node);
    for (uint32_t w = 0; w < 2; w++)
        sim_kill(r.worker[w].node);
    memset(&r.client, 0, sizeof r.client);
    workers_start();
    r.yaml[strlen("job: ")] = name;
    fake_client_start(&r.client, r.sim, r.yaml, 2);
}

static uint32_t state_of(const char *name)
{
    const struct coord_space *s = coord_space_find(&r.coord->fleet, name);
    ck_assert_msg(s != NULL && strcmp(s->name, name) == 0, "no space %s", name);
    return s->state;
}

/* The server that is lost leads no tablet of a space any more: that space has lost nothing. */
static void move_away(const char *space)
{
    struct coord_cluster *cl = &r.coord->fleet.cluster;
    const struct coord_space *s = coord_space_find(&r.coord->fleet, space);
    TABLE_SET_EACH (t, &s->numbers)
        for (uint32_t i = 0; i < UINT32_C(1) << cl->bits[t]; i++)
            cl->shard_of[cl->first[t] + i] = 0;
}

START_TEST(replace_beside_a_space_of_other_servers)
{
    char path[LIMIT_PATH];
    rig_start("u", "ssp");
    done_once();
    next_job('t');
    run_batches(30);
    (void)snprintf(path, sizeof path, "%s", make("noon"));
    run_batches(60);
    lose(1);
    go(2 * SECOND);
    move_away("u");
    given("server-1", path);
    const char *told = r.answer.u.REPLACE_reply.told;
    ck_assert_msg(strstr(told, "lost rows with it") == NULL, "%s", told);
    ck_assert_uint_eq(state_of("u"), SPACE_IS);
    rig_stop();
}
END_TEST

/* The job that runs goes back to its checkpoint (_i 0), or none runs (_i 1): spaces that have lost
 * rows with the server are marked, and the answer names them. */
START_TEST(replace_beside_other_spaces)
{
    char path[LIMIT_PATH];
    rig_start("u", "ssp");
    done_once();
    next_job('t');
    run_batches(30);
    (void)snprintf(path, sizeof path, "%s", make("noon"));
    run_batches(60);
    if (_i == 1)
        ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 120 * SECOND, job_over, NULL));
    lose(1);
    go(2 * SECOND);
    given("server-1", path);
    const char *told = r.answer.u.REPLACE_reply.told;
    ck_assert_msg(strstr(told, _i == 0 ? "lost rows with it: u" : "lost rows with it: u, t"), "%s",
                  told);
    coord_again();
    come(1, "server-1");
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 120 * SECOND, job_over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    go(2 * SECOND);
    ck_assert(r.coord->fleet.replace.from[0] == 0);
    ck_assert_uint_eq(state_of("u"), SPACE_LOST);
    ck_assert_uint_eq(state_of("t"), _i == 0 ? SPACE_IS : SPACE_LOST);
    ck_assert(coord_member_shards_ready(&r.coord->fleet.members));
    rig_stop();
}
END_TEST

static void drop(const char *space)
{
    struct wire w = {.type = WIRE_TYPE_DROP, .id = ++r.id};
    (void)snprintf(w.u.DROP.space, LIMIT_NAME, "%s", space);
    ck_assert_int_eq(env_send(sim_node_env(r.asker), r.to, wire_encode(&w)), 0);
    go(5 * SECOND);
    struct coord_space *left = coord_space_find(&r.coord->fleet, space);
    ck_assert_ptr_null(left);
}

/* The space of the newest job was dropped (_i 0, 1), or the job failed before it had tables (_i 2):
 * the server has lost rows of the one space that is left. Its own checkpoint is named (_i 0, 2), or
 * one of the newest job. */
START_TEST(replace_after_a_job_without_tables)
{
    char of_u[LIMIT_PATH], of_t[LIMIT_PATH];
    rig_start("u", "ssp");
    run_batches(30);
    (void)snprintf(of_u, sizeof of_u, "%s", make("of_u"));
    done_once();
    next_job('t');
    if (_i < 2) {
        run_batches(30);
        (void)snprintf(of_t, sizeof of_t, "%s", make("of_t"));
        ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 120 * SECOND, job_over, NULL));
        drop("t");
    } else {
        go(SECOND / 50);
        ck_assert_uint_lt(coord_slot_newest(r.coord)->at.phase, PHASE_SETUP);
        (void)coord_end_fail(coord_slot_newest(r.coord), SHOAL_E_DATA, "bad data");
    }
    ck_assert_str_eq(coord_slot_newest(r.coord)->spec.name, "t");
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 1);
    lose(1);
    go(2 * SECOND);
    given("server-1", _i == 1 ? of_t : of_u);
    ck_assert_ptr_nonnull(strstr(r.answer.u.REPLACE_reply.told, "lost rows with it: u"));
    coord_again();
    come(1, "server-1");
    go(10 * SECOND);
    ck_assert_uint_eq(state_of("u"), SPACE_LOST);
    ck_assert(r.coord->fleet.replace.from[0] == 0);
    ck_assert(coord_member_shards_ready(&r.coord->fleet.members));
    rig_stop();
}
END_TEST

/* ---- refused --------------------------------------------------------------------------------- */

START_TEST(replace_is_refused)
{
    char path[LIMIT_PATH], other[LIMIT_PATH];
    rig_start("t", "ssp");
    run_batches(20);
    (void)snprintf(other, sizeof other, "%s", make("other"));
    rig_stop();
    rig_start("t", "ssp");
    refused("server-1", "/x", SHOAL_E_NOT_FOUND, "no server server-1");
    run_batches(30);
    (void)snprintf(path, sizeof path, "%s", make("noon"));
    refused("server-1", path, SHOAL_E_BUSY, "server-1 beats");
    lose(1);
    refused("server-1", path, SHOAL_E_BUSY, "server-1 beats");
    go(2 * SECOND);
    refused("server-7", path, SHOAL_E_NOT_FOUND, "no server server-7");
    refused("server-1", "", SHOAL_E_CONFIG, "shoal replace server-1 --from CHECKPOINT");
    refused("server-1", "points/noon", SHOAL_E_USAGE, "absolute path");
    refused("server-1", "/no/such", SHOAL_E_NOINPUT, "/no/such");
    refused("server-1", other, SHOAL_E_CONFIG, "of job number");
    char part[LIMIT_PATH + 32];
    (void)snprintf(part, sizeof part, "%s/part-0001/manifest", path);
    ck_assert_int_eq(truncate(part, 1), 0);
    refused("server-1", path, SHOAL_E_CHECKSUM, "part-0001");
    coord_again();
    go(SECOND / 2);
    refused("server-1", path, SHOAL_E_BUSY, "may still come");
    rig_stop();
}
END_TEST

/* ---- the suite ------------------------------------------------------------------------------- */

static void folder_make(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-replace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void folder_remove(void)
{
    char command[96];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

int main(void)
{
    Suite *s = suite_create("replace");
    TCase *t = suite_case(s, "replace", 60, folder_make, folder_remove);
    tcase_add_loop_test(t, replace_sends_the_job_back, 0, 12);
    tcase_add_loop_test(t, replace_survives_the_coordinator, 0, 24);
    tcase_add_loop_test(t, replace_takes_no_folder_of_before, 0, 2);
    tcase_add_test(t, replace_without_a_job_leaves_the_tables_to_the_next);
    tcase_add_loop_test(t, replace_beside_other_spaces, 0, 2);
    tcase_add_test(t, replace_beside_a_space_of_other_servers);
    tcase_add_loop_test(t, replace_after_a_job_without_tables, 0, 3);
    tcase_add_test(t, replace_is_refused);
    return suite_main(s);
}
