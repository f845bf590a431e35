/* test_aside.c: checkpoints of spaces that rest, beside jobs of other spaces, and which space a
 * request without a name is about. */
#include "proto/base/json.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/aside.h"
#include "server/coord/keep/checkpoint_remove.h"
#include "server/coord/work/taken_names.h"
#include "tests/lib/spaces_rig.h"

#include <unistd.h>

/* Asks for a checkpoint; it is not waited for. */
static int ask(const char *space, const char *name, uint64_t id)
{
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT, .id = id};
    struct coord_ask a = {.from = 1, .request = &w};
    (void)snprintf(w.u.CHECKPOINT.space, LIMIT_NAME, "%s", space);
    (void)snprintf(w.u.CHECKPOINT.name, LIMIT_NAME, "%s", name);
    int rc = coord_aside_checkpoint(r.coord, &a);
    rig_error = a.e;
    return rc;
}

/* What the slot that has no job answered last. */
static int answered(void)
{
    const struct coord_checkpoint *k = r.coord->aside.checkpoint;
    memset(&rig_error, 0, sizeof rig_error);
    ck_assert_int_eq(k->state, CHECKPOINT_IDLE);
    if (k->answered.status != 0)
        (void)err_set(&rig_error, k->answered.status, "%s", k->answered.text);
    return k->answered.status;
}

static struct json *manifest(const char *job, const char *name)
{
    struct json *j = NULL;
    char path[160], *text = NULL;
    size_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s/%s/%s/manifest.json", r.dir, job, name);
    ck_assert_msg(file_read_whole(path, 1 << 20, &text, &bytes) == 0, "%s", path);
    ck_assert_int_eq(json_parse(text, bytes, &j, NULL), 0);
    free(text);
    return j;
}

static const char *space_of(const struct json *m)
{
    return json_get_string(json_array_at(json_get(m, "tables"), 0), "space", "");
}

/* _i 0: no job runs; 1: one of the other space does, and is done; 2: the coordinator has started
 * again. */
START_TEST(aside_keeps_a_space_that_rests)
{
    rig_start();
    rig_job_run("one", "", NULL);
    rig_job_run("two", "", NULL);
    if (_i == 1)
        rig_job_begin("two", "", "fleet");
    while (_i == 1 && r.coord->slot[0].at.phase != PHASE_TRAIN)
        rig_go(10);
    if (_i == 2)
        rig_coord_again();
    ck_assert_msg(ask("one", "noon", 1) == 0, "%s", rig_error.text);
    rig_go(2000);
    ck_assert_msg(answered() == 0, "%s", rig_error.text);
    struct json *m = manifest("one", "noon");
    ck_assert_str_eq(space_of(m), "one");
    ck_assert_str_eq(json_get_string(m, "job", ""), "one");
    ck_assert_str_eq(json_get_string(m, "phase", ""), "tables");
    json_free(m);
    for (uint32_t i = 0; i < RIG_SHARDS; i++)
        ck_assert_uint_eq(r.shard[i].exports, 1);
    if (_i == 1) {
        ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * RIG_SECOND, rig_over, NULL));
        ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    }
    rig_stop();
}
END_TEST

/* The rows of the other space are what the fleet has learnt last. */
START_TEST(aside_keeps_what_the_space_has_learnt)
{
    rig_start();
    rig_job_run("one", "", NULL);
    uint64_t job = r.coord->slot[0].at.number;
    rig_job_run("two", "", NULL);
    ck_assert_int_eq(ask("one", "noon", 1), 0);
    rig_go(2000);
    ck_assert_msg(answered() == 0, "%s", rig_error.text);
    size_t bytes;
    char path[160], *text = NULL;
    (void)snprintf(path, sizeof path, "%s/one/noon/coordinator.state", r.dir);
    ck_assert_int_eq(file_read_whole(path, 1 << 20, &text, &bytes), 0);
    struct coord_taken_head head;
    bool found = false;
    for (size_t i = 0; i + 7 + sizeof head <= bytes && !found; i++)
        if ((found = memcmp(text + i, "taken/0", 7) == 0))
            memcpy(&head, text + i + 7, sizeof head);
    ck_assert(found);
    ck_assert_uint_eq(head.job, job);
    free(text);
    rig_stop();
}
END_TEST

START_TEST(aside_finds_the_space_that_is_meant)
{
    struct coord_job *j;
    rig_start();
    rig_job_run("one", "", NULL);
    ck_assert_int_eq(coord_aside_find(r.coord, "", &j, &rig_error), 0);
    ck_assert_ptr_eq(j, &r.coord->slot[0]);
    ck_assert_int_ne(coord_aside_find(r.coord, "other", &j, &rig_error), 0);
    rig_refused(SHOAL_E_NOT_FOUND, "there is no space other here, but one");
    rig_job_run("two", "", NULL);
    ck_assert_int_ne(coord_aside_find(r.coord, "", &j, &rig_error), 0);
    rig_refused(SHOAL_E_USAGE, "2 spaces (one, two)");
    ck_assert_int_eq(coord_aside_find(r.coord, "two", &j, &rig_error), 0);
    ck_assert_ptr_eq(j, &r.coord->slot[0]);
    ck_assert_int_eq(coord_aside_find(r.coord, "one", &j, &rig_error), 0);
    ck_assert_ptr_eq(j, &r.coord->aside);
    rig_job_begin("two", "", "fleet");
    rig_go(300);
    ck_assert(coord_phase_running(&r.coord->slot[0]));
    ck_assert_int_eq(coord_aside_find(r.coord, "", &j, &rig_error), 0); /* of the job that runs */
    ck_assert_ptr_eq(j, &r.coord->slot[0]);
    rig_stop();
}
END_TEST

/* Begins a checkpoint of space one, and stops in the middle of it. */
static void half_made(void)
{
    rig_start();
    rig_job_run("one", "", NULL);
    rig_job_run("two", "", NULL);
    rig_job_run("three", "", NULL);
    r.shard[1].export_how = FAKE_EXPORT_NEVER;
    ck_assert_int_eq(ask("one", "noon", 1), 0);
    rig_go(1500);
    ck_assert_int_eq(r.coord->aside.checkpoint->state, CHECKPOINT_EXPORTING);
}

START_TEST(aside_has_the_space_to_itself)
{
    half_made();
    ck_assert_int_ne(rig_submit("one", "", "fleet"), 0);
    rig_refused(SHOAL_E_BUSY, "checkpoint noon of space one is being made");
    ck_assert_int_ne(rig_submit("one", "fresh: [all]\n", ""), 0);
    rig_refused(SHOAL_E_BUSY, "checkpoint noon of space one is being made");
    ck_assert_int_ne(ask("two", "noon", 2), 0);
    rig_refused(SHOAL_E_BUSY, "of space one is being made");
    ck_assert_int_ne(coord_aside_used(r.coord, rig_space("one"), &rig_error), 0);
    rig_refused(SHOAL_E_BUSY, "checkpoint noon is being made");
    ck_assert_int_eq(coord_aside_used(r.coord, rig_space("two"), &rig_error), 0);
    ck_assert_int_eq(ask("one", "noon", 1), 0); /* the same request */
    r.shard[1].export_how = FAKE_EXPORT_WELL;
    rig_go(3000);
    ck_assert_msg(answered() == 0, "%s", rig_error.text);
    rig_job_run("one", "", "fleet");
    rig_stop();
}
END_TEST

/* A job of another space begins, and is done: its greetings do not take the cut. */
START_TEST(aside_keeps_its_cut_while_jobs_come_and_go)
{
    half_made();
    rig_job_run("two", "", "fleet");
    rig_job_run("three", "", "fleet");
    r.shard[1].export_how = FAKE_EXPORT_WELL;
    rig_go(3000);
    ck_assert_msg(answered() == 0, "%s", rig_error.text);
    rig_stop();
}
END_TEST

/* _i 0: a server starts again; 1: one is away; 2: another job fails, which takes back what is its
 * own. */
START_TEST(aside_gives_a_checkpoint_up)
{
    half_made();
    if (_i == 2) {
        rig_job_begin("two", "", "fleet");
        rig_go(300);
        coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped by request");
        ck_assert_int_eq(r.coord->aside.checkpoint->state, CHECKPOINT_EXPORTING);
        r.shard[1].export_how = FAKE_EXPORT_WELL;
        rig_go(3000);
        ck_assert_msg(answered() == 0, "%s", rig_error.text);
        rig_stop();
        return;
    }
    sim_kill(r.shard[1].node);
    rig_go(300);
    if (_i == 0)
        rig_shard_start(1, 2);
    rig_go(3000);
    ck_assert_int_ne(answered(), 0);
    rig_refused(SHOAL_E_UNAVAILABLE, _i == 0 ? "has started again" : "is not heard any more");
    rig_stop();
}
END_TEST

static void removed(void *context, struct coord_errand *errand, int rc, const struct err *e)
{
    struct coord *c = context;
    (void)coord_checkpoint_removed(&c->aside, errand, rc, e);
    coord_checkpoint_remove_end(&c->aside, rc);
    rig_error = *e;
    rig_error.code = rc;
}

START_TEST(aside_removes_a_checkpoint)
{
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT_REMOVE, .id = 3};
    struct coord_ask a = {.from = 1, .request = &w};
    struct coord_job *j;
    char path[160];
    rig_start();
    rig_job_run("one", "", NULL);
    rig_job_run("two", "", NULL);
    ck_assert_int_eq(ask("one", "noon", 1), 0);
    rig_go(2000);
    ck_assert_msg(answered() == 0, "%s", rig_error.text);
    (void)snprintf(w.u.CHECKPOINT_REMOVE.name, LIMIT_NAME, "noon");
    ck_assert_int_eq(coord_aside_find(r.coord, "one", &j, &rig_error), 0);
    ck_assert_ptr_eq(j, &r.coord->aside);
    ck_assert_msg(coord_checkpoint_remove(j, &a, r.coord, removed) == 0, "%s", a.e.text);
    rig_go(2000);
    ck_assert_msg(rig_error.code == 0, "%s", rig_error.text);
    (void)snprintf(path, sizeof path, "%s/one/noon/manifest.json", r.dir);
    ck_assert_int_ne(access(path, F_OK), 0);
    rig_stop();
}
END_TEST

/* Rows of a space that is lost are not kept, though every server beats. */
START_TEST(aside_keeps_no_space_that_is_lost)
{
    rig_start();
    rig_job_run("one", "", NULL);
    rig_job_run("two", "", NULL);
    ck_assert(coord_space_put(&r.coord->fleet, rig_space("one"), "one", SPACE_LOST));
    ck_assert_int_eq(ask("one", "noon", 1), 0);
    ck_assert_int_ne(answered(), 0);
    rig_refused(SHOAL_E_NOT_FOUND, "they are lost");
    rig_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("aside");
    TCase *t = tcase_create("aside");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, aside_keeps_a_space_that_rests, 0, 3);
    tcase_add_test(t, aside_keeps_what_the_space_has_learnt);
    tcase_add_test(t, aside_finds_the_space_that_is_meant);
    tcase_add_test(t, aside_has_the_space_to_itself);
    tcase_add_test(t, aside_keeps_its_cut_while_jobs_come_and_go);
    tcase_add_loop_test(t, aside_gives_a_checkpoint_up, 0, 3);
    tcase_add_test(t, aside_removes_a_checkpoint);
    tcase_add_test(t, aside_keeps_no_space_that_is_lost);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
