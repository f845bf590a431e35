/* test_checkpoint_remove.c: an operator removes checkpoints, in the simulator: the real coordinator
 * on real folders. */
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_remove.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    bool hook_holds;
    uint32_t hook_polls;
    peer_t to;
    uint64_t id; /* the last order's */
    struct wire answer;
    uint32_t answers;
} r;

static char folder[64]; /* outlives a rig */

/* ---- the rig --------------------------------------------------------------------------------- */

static int hook_start(void *context, uint32_t slot, const struct string_list *words,
                      const char *path, struct err *e)
{
    (void)slot;
    (void)context;
    (void)words;
    (void)path;
    (void)e;
    r.hook_polls = 0;
    return 0;
}

static bool hook_poll(void *context, uint32_t slot, int *exit_status)
{
    (void)slot;
    (void)context;
    *exit_status = 0;
    return !r.hook_holds && ++r.hook_polls > 3;
}

static void hook_stop(void *context, uint32_t slot, bool now)
{
    (void)slot;
    (void)context;
    (void)now;
}

static void coord_start(void)
{
    const struct coord_options o = {.shards = SHARDS,
                                    .lease_ms = 1000,
                                    .resend_ms = 100,
                                    .version = "test",
                                    .folder = &coord_folder_disk,
                                    .hook_start = hook_start,
                                    .hook_poll = hook_poll,
                                    .hook_stop = hook_stop};
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
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
}

static void on_answer(void *core, peer_t from, struct msg *m)
{
    struct wire w;
    (void)core;
    (void)from;
    if (wire_decode(m, &w, NULL) == 0 && w.type == WIRE_TYPE_CHECKPOINT_REMOVE && w.id == r.id) {
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

/* more: keys of `checkpoint` after its folder; from: a checkpoint to continue from; start: tables
 * to start from. */
static void rig_start(const char *job, const char *more, const char *from, bool start)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    static const struct env_who ann = {.role = ROLE_ADMIN, .name = "ann", .key = "annskey"};
    memset(&r, 0, sizeof r);
    (void)snprintf(
        r.yaml, sizeof r.yaml,
        "job: %s\ndata: {format: libsvm, train: [a], valid: [b], test: [c], max_bad: 0.01}\n"
        "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\ntrain: {batch: 10, task_batches: 4, "
        "lanes: 2, epochs: 8, consistency: ssp}\ncheckpoint: {dir: %s%s}\n",
        job, folder, more);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    coord_start();
    for (uint32_t s = 0; s < SHARDS; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        r.shard[s] = calloc(1, sizeof *r.shard[s]);
        fake_shard_start(r.shard[s], r.sim, name, 0, 1);
    }
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
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    r.client.from = from;
    r.client.start = start;
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
    return r.client.state == WIRE_JOB_DONE;
}

static void job_done(void)
{
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 120 * SECOND, job_over, NULL), "%s",
                  r.client.text);
}

static void make(const char *name)
{
    uint64_t until = sim_now_ns(r.sim) + 30 * SECOND;
    fake_client_checkpoint(&r.client, name);
    while (!r.client.checkpoint.answered && sim_now_ns(r.sim) < until)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(r.client.checkpoint.answered && r.client.checkpoint.status == 0, "%s",
                  r.client.checkpoint.text);
}

static void order_send(const char *name)
{
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT_REMOVE, .id = r.id};
    (void)snprintf(w.u.CHECKPOINT_REMOVE.name, LIMIT_NAME, "%s", name);
    ck_assert_int_eq(env_send(sim_node_env(r.asker), r.to, wire_encode(&w)), 0);
}

static void answer_wait(uint32_t answers)
{
    uint64_t until = sim_now_ns(r.sim) + 5 * SECOND;
    while (r.answers < answers && sim_now_ns(r.sim) < until)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(r.answers == answers, "%u answers of %u", r.answers, answers);
}

static int order(const char *name)
{
    r.answers = 0;
    r.id++;
    order_send(name);
    answer_wait(1);
    return r.answer.status;
}

static bool there(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s/manifest.json", folder, name);
    return access(path, F_OK) == 0;
}

static void refused(const char *name, int status, const char *words)
{
    bool was = there(name);
    int rc = order(name);
    ck_assert_msg(rc == status, "%s: %d, %d was expected: %s", name, rc, status, r.answer.error);
    ck_assert_msg(strstr(r.answer.error, words) != NULL, "'%s' is not in: %s", words,
                  r.answer.error);
    ck_assert(there(name) == was);
}

static void goes(const char *name)
{
    char end[LIMIT_NAME + 2];
    ck_assert(there(name));
    int rc = order(name);
    ck_assert_msg(rc == 0, "%s: %d, %s", name, rc, r.answer.error);
    (void)snprintf(end, sizeof end, "/%s", name);
    ck_assert_ptr_nonnull(strstr(r.answer.u.CHECKPOINT_REMOVE_reply.path, end));
    ck_assert(!there(name));
}

/* Returns the newest checkpoint that the status names, "" for none. */
static const char *newest(void)
{
    static char name[LIMIT_NAME];
    char *text = coord_status_text(&r.coord->slot[0]);
    struct json *j;
    ck_assert_int_eq(json_parse(text, strlen(text), &j, NULL), 0);
    (void)snprintf(name, sizeof name, "%s", json_as_string(json_get(j, "checkpoint.name"), ""));
    json_free(j);
    free(text);
    return name;
}

/* Counts the entries of the folder with that suffix, hidden ones included. */
static uint32_t entries(const char *suffix)
{
    DIR *d = opendir(folder);
    uint32_t count = 0;
    for (const struct dirent *entry; (entry = readdir(d)) != NULL;) {
        size_t bytes = strlen(entry->d_name), end = strlen(suffix);
        count += bytes >= end && strcmp(entry->d_name + bytes - end, suffix) == 0;
    }
    closedir(d);
    return count;
}

/* ---- what goes, what stays ------------------------------------------------------------------- */

START_TEST(remove_takes_an_older_one)
{
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    goes("one");
    ck_assert_str_eq(newest(), "two");
    job_done();
    struct json *j;
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    ck_assert(json_as_bool(json_get(j, "checkpoints.0.removed"), false));
    ck_assert(json_absent(json_get(j, "checkpoints.1.removed")));
    json_free(j);
    ck_assert_uint_eq(entries(".tmp"), 0);
    rig_stop();
}
END_TEST

/* Asked of the coordinator that made the checkpoint (_i 0), and of a restarted one (1). */
START_TEST(remove_refuses_the_newest_of_a_running_job)
{
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    if (_i == 1)
        coord_again();
    refused("one", SHOAL_E_DENIED, "the newest of job t");
    refused("one", SHOAL_E_DENIED, "shoal checkpoint create");
    make("two");
    goes("one");
    job_done();
    if (_i == 1)
        coord_again();
    ck_assert_str_eq(newest(), "two");
    goes("two");
    ck_assert_str_eq(newest(), "");
    coord_again();
    ck_assert_str_eq(newest(), "");
    rig_stop();
}
END_TEST

/* The status of a finished job names the checkpoint before; its age is not known. */
START_TEST(remove_of_the_newest_leaves_the_one_before_as_the_newest)
{
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    job_done();
    goes("two");
    ck_assert_str_eq(newest(), "one");
    goes("one");
    ck_assert_str_eq(newest(), "");
    make("two"); /* the name is free again */
    ck_assert_str_eq(newest(), "two");
    rig_stop();
}
END_TEST

/* The job's checkpoint is named by its path (_i 0), and by another path to it (1). */
START_TEST(remove_refuses_what_the_job_went_on_from)
{
    char link[80], path[160];
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    rig_stop();
    (void)snprintf(link, sizeof link, "%s.link", folder);
    (void)unlink(link);
    ck_assert_int_eq(symlink(folder, link), 0);
    (void)snprintf(path, sizeof path, "%s/one", _i == 0 ? folder : link);
    rig_start("t", "", path, false);
    while (!coord_phase_running(&r.coord->slot[0]) || !coord_from_loading(&r.coord->slot[0].at))
        ck_assert(sim_step(r.sim));
    refused("one", SHOAL_E_DENIED, "went on from");
    run_batches(10);
    refused("one", SHOAL_E_DENIED, "went on from");
    make("own");
    goes("one");
    refused("own", SHOAL_E_DENIED, "the newest");
    rig_stop();
    (void)unlink(link);
}
END_TEST

/* A job that starts from a checkpoint's tables no longer needs it once it has loaded them. */
START_TEST(remove_takes_what_the_job_began_with)
{
    char path[160];
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    rig_stop();
    (void)snprintf(path, sizeof path, "%s/one", folder);
    rig_start("t", "", path, true);
    while (!coord_phase_running(&r.coord->slot[0]) || !coord_from_loading(&r.coord->slot[0].at))
        ck_assert(sim_step(r.sim));
    refused("one", SHOAL_E_BUSY, "being loaded");
    while (r.client.submit_status == 0 && r.coord->slot[0].at.from != FROM_STARTED)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(r.client.submit_status == 0, "%s", r.client.text);
    goes("one");
    rig_stop();
}
END_TEST

START_TEST(remove_refuses_what_is_published)
{
    rig_start("t", ", publish: [publish-it, now]", NULL, false);
    r.hook_holds = true;
    run_batches(20);
    make("one");
    make("two");
    make("three");
    refused("one", SHOAL_E_DENIED, "works on it");
    goes("two"); /* passed over */
    uint64_t until = sim_now_ns(r.sim) + 120 * SECOND;
    while (coord_phase_running(&r.coord->slot[0]) && sim_now_ns(r.sim) < until)
        ck_assert(sim_step(r.sim));
    refused("one", SHOAL_E_DENIED, "works on it");
    refused("three", SHOAL_E_DENIED, "takes it next");
    r.hook_holds = false;
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 5 * SECOND, NULL, NULL);
    goes("one");
    goes("three");
    rig_stop();
}
END_TEST

START_TEST(remove_needs_a_name_that_is_there)
{
    static const char *const bad[] = {"", ".", "..", "../one", "a/b", "/one", "x.tmp", "one/"};
    rig_start("t", "", NULL, false);
    run_batches(20);
    refused("one", SHOAL_E_NOT_FOUND, "shoal checkpoint list");
    make("one");
    make("two");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i], SHOAL_E_USAGE, "no name of a checkpoint");
    refused("three", SHOAL_E_NOT_FOUND, folder);
    ck_assert(there("one") && there("two"));
    rig_stop();
}
END_TEST

START_TEST(remove_needs_a_folder)
{
    rig_start("t", "", NULL, false);
    *strstr(r.yaml, "checkpoint:") = 0;
    refused("one", SHOAL_E_CONFIG, "checkpoint.dir");
    run_batches(20);
    refused("one", SHOAL_E_CONFIG, "checkpoint.dir");
    rig_stop();
    ck_assert_int_eq(rmdir(folder), 0);
    rig_start("t", ", keep: 0", NULL, false);
    run_batches(20);
    char away[80];
    (void)snprintf(away, sizeof away, "%s.away", folder);
    ck_assert_int_eq(rename(folder, away), 0);
    refused("one", SHOAL_E_NOINPUT, folder);
    ck_assert_int_ne(access(folder, F_OK), 0); /* it is not made */
    ck_assert_int_eq(rename(away, folder), 0);
    rig_stop();
}
END_TEST

/* The job that made the checkpoint is trained by another coordinator; this coordinator claims its
 * own job alone. */
START_TEST(remove_leaves_what_is_of_a_job_that_another_coordinator_trains)
{
    struct coord_folder_claim other = {.fd = 0};
    rig_start("u", "", NULL, false);
    run_batches(20);
    make("one");
    rig_stop();
    rig_start("t", "", NULL, false);
    run_batches(20);
    ck_assert_int_eq(coord_folder_disk.claim(folder, "u", true, &other, NULL), 0);
    refused("one", SHOAL_E_DENIED, "is of job u");
    coord_folder_disk.disclaim(&other);
    goes("one");
    ck_assert_uint_eq(entries(".lock"), 1); /* that of the running job */
    job_done();
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    ck_assert_uint_eq(entries(".lock"), 0);
    rig_stop();
}
END_TEST

/* The checkpoint lies in the folder of the job that made the tables; the last job has another
 * folder. */
START_TEST(remove_finds_what_is_of_the_tables)
{
    char other[80];
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    job_done();
    (void)snprintf(other, sizeof other, "%s.other", folder);
    (void)mkdir(other, 0700);
    (void)snprintf(r.coord->slot[0].spec.checkpoint.dir, LIMIT_PATH, "%s",
                   other); /* as the next's */
    refused("two", SHOAL_E_NOT_FOUND, other);
    goes("one");
    ck_assert_int_eq(rmdir(other), 0);
    rig_stop();
}
END_TEST

START_TEST(remove_of_a_damaged_one)
{
    char path[256];
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    (void)snprintf(path, sizeof path, "%s/one/manifest.json", folder);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fclose(f), 0);
    goes("one");
    rig_stop();
}
END_TEST

/* ---- the order ------------------------------------------------------------------------------- */

static int stderr_was;
static char log_path[80];

static void log_begin(void)
{
    (void)snprintf(log_path, sizeof log_path, "%s.log", folder);
    (void)fflush(stderr);
    stderr_was = dup(2);
    ck_assert_ptr_nonnull(freopen(log_path, "w", stderr));
}

static const char *log_end(void)
{
    static char said[1 << 16];
    (void)fflush(stderr);
    (void)dup2(stderr_was, 2);
    close(stderr_was);
    FILE *f = fopen(log_path, "r");
    ck_assert_ptr_nonnull(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    (void)fclose(f);
    (void)unlink(log_path);
    return said;
}

static uint32_t count_of(const char *text, const char *what)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

/* One that is read is asked for until it is not; the log has the order at first and at last. */
START_TEST(remove_waits_for_readers_and_is_audited)
{
    char path[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE;
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    (void)snprintf(path, sizeof path, "%s/one", folder);
    ck_assert_int_eq(coord_folder_disk.hold(path, &hold, NULL), 0);
    log_begin();
    for (uint32_t i = 0; i < 3; i++)
        refused("one", SHOAL_E_BUSY, "fuser -v");
    coord_folder_disk.let_go(&hold);
    goes("one");
    refused("two", SHOAL_E_DENIED, "the newest");
    refused("one", SHOAL_E_NOT_FOUND, "");
    const char *said = log_end();
    static const char *const lines[] = {
        "name=ann peer=- op=CHECKPOINT_REMOVE object=\"one\" result=too much work queued\n",
        "name=ann peer=- op=CHECKPOINT_REMOVE object=\"one\" result=ok\n",
        "name=ann peer=- op=CHECKPOINT_REMOVE object=\"two\" result=not allowed\n",
        "name=ann peer=- op=CHECKPOINT_REMOVE object=\"one\" result=not found\n"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_msg(count_of(said, lines[i]) == 1, "%s\n%s", lines[i], said);
    ck_assert_uint_eq(count_of(said, "op=CHECKPOINT_REMOVE"), 4);
    rig_stop();
}
END_TEST

START_TEST(remove_is_audited_when_its_asker_has_left)
{
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    log_begin();
    r.id++;
    order_send("one");
    while (r.coord->slot[0].checkpoint->removing == NULL)
        ck_assert(sim_step(r.sim));
    sim_kill(r.asker);
    sim_node_who(r.asker,
                 &(struct env_who){.role = ROLE_NOBODY}); /* as env.h says of one that left */
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    const char *said = log_end();
    ck_assert(!there("one") && there("two"));
    ck_assert_msg(
        count_of(said, "name=ann peer=- op=CHECKPOINT_REMOVE object=\"one\" result=ok\n") == 1,
        "%s", said);
    rig_stop();
}
END_TEST

START_TEST(remove_does_one_at_a_time)
{
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    make("three");
    r.id++;
    order_send("one");
    while (r.coord->slot[0].checkpoint->removing == NULL)
        ck_assert(sim_step(r.sim));
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT_REMOVE, .id = 7};
    (void)snprintf(w.u.CHECKPOINT_REMOVE.name, LIMIT_NAME, "two");
    struct coord_ask a = {.from = 1, .request = &w, .who = {.role = ROLE_LOCAL}};
    ck_assert_int_eq(coord_checkpoint_remove(&r.coord->slot[0], &a, r.coord, NULL), SHOAL_E_BUSY);
    ck_assert_ptr_nonnull(strstr(a.e.text, "one is being removed"));
    answer_wait(1);
    ck_assert(r.answer.status == 0 && !there("one") && there("two"));
    goes("two");
    rig_stop();
}
END_TEST

/* The order is repeated while the errand runs (_i 0), and after its answer (1). The next order is a
 * new one. */
START_TEST(remove_sent_again_is_answered_alike)
{
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    r.id++;
    order_send("one");
    if (_i == 1)
        answer_wait(1);
    order_send("one");
    answer_wait(_i == 0 ? 1 : 2);
    ck_assert_int_eq(r.answer.status, 0);
    ck_assert_ptr_nonnull(strstr(r.answer.u.CHECKPOINT_REMOVE_reply.path, "/one"));
    refused("one", SHOAL_E_NOT_FOUND, "");
    rig_stop();
}
END_TEST

/* A large checkpoint is removed in steps; its name goes first. */
START_TEST(remove_leaves_the_rest_to_the_sweeper)
{
    char path[256];
    rig_start("t", "", NULL, false);
    run_batches(20);
    make("one");
    make("two");
    for (uint32_t i = 0; i < 300; i++) {
        (void)snprintf(path, sizeof path, "%s/one/part-0000/more-%u", folder, i);
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        ck_assert_int_eq(fclose(f), 0);
    }
    job_done(); /* and swept */
    goes("one");
    ck_assert_uint_eq(entries("one.gone.tmp"), 1);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 5 * SECOND, NULL, NULL);
    ck_assert_uint_eq(entries(".tmp"), 0);
    rig_stop();
}
END_TEST

/* ---- the suite ------------------------------------------------------------------------------- */

static void folder_make(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-remove-XXXXXX");
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
    Suite *s = suite_create("checkpoint_remove");
    TCase *t = suite_case(s, "remove", 60, folder_make, folder_remove);
    tcase_add_test(t, remove_takes_an_older_one);
    tcase_add_loop_test(t, remove_refuses_the_newest_of_a_running_job, 0, 2);
    tcase_add_test(t, remove_of_the_newest_leaves_the_one_before_as_the_newest);
    tcase_add_loop_test(t, remove_refuses_what_the_job_went_on_from, 0, 2);
    tcase_add_test(t, remove_takes_what_the_job_began_with);
    tcase_add_test(t, remove_refuses_what_is_published);
    tcase_add_test(t, remove_needs_a_name_that_is_there);
    tcase_add_test(t, remove_needs_a_folder);
    tcase_add_test(t, remove_leaves_what_is_of_a_job_that_another_coordinator_trains);
    tcase_add_test(t, remove_finds_what_is_of_the_tables);
    tcase_add_test(t, remove_of_a_damaged_one);
    tcase_add_test(t, remove_waits_for_readers_and_is_audited);
    tcase_add_test(t, remove_is_audited_when_its_asker_has_left);
    tcase_add_test(t, remove_does_one_at_a_time);
    tcase_add_loop_test(t, remove_sent_again_is_answered_alike, 0, 2);
    tcase_add_test(t, remove_leaves_the_rest_to_the_sweeper);
    return suite_main(s);
}
