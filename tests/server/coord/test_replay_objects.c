/* test_replay_objects.c: a replay over objects: their windows as workers report and the store keeps
 * them, the pieces of a window, and the lane of an object. */
#include "proto/base/hash.h"
#include "server/coord/job/epoch.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/objects_index.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct coord *c;
static struct coord_worker worker = {.number = 1};
static uint32_t split; /* the split that the next messages are about */

static uint64_t now_of(struct env *env)
{
    (void)env;
    return 1;
}
static const struct env_ops ops = {.now_ns = now_of};
static struct env env = {.ops = &ops};

static void job_begin(uint32_t mode)
{
    struct err e;
    c->fleet.env = &env;
    c->slot[0].at.number = 7;
    c->slot[0].at.epoch = 1;
    c->slot[0].at.phase = PHASE_INDEX;
    c->slot[0].at.split[WIRE_TRAIN].used = 1;
    c->slot[0].spec.data.objects.of[WIRE_TRAIN].on = true;
    c->slot[0].spec.data.zone = ZONE_UTC;
    c->slot[0].spec.train.batch = 10;
    c->slot[0].spec.train.epochs = 1;
    c->slot[0].spec.train.mode = (enum wire_mode)mode;
    c->slot[0].spec.replay.on = true;
    c->slot[0].source = coord_source_of(&c->slot[0].spec);
    c->slot[0].spec.replay.window = 3600;
    c->slot[0].spec.replay.every = 86400;
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, 2, mode, &e), 0);
    ck_assert_int_eq(coord_replay_open(c->slot[0].replay, &c->slot[0].spec, &e), 0);
}

/* A replay in hours over these objects, one a line. */
static void begin(uint32_t mode, uint32_t count, const char *lines)
{
    struct wire w = {.type = WIRE_TYPE_OBJECTS};
    struct msg m = {.frame_count = 3};
    struct coord_ask a = {.request = &w, .m = &m, .worker = &worker};
    w.u.OBJECTS.split = split;
    w.u.OBJECTS.count = count;
    m.frame[1].data = (void *)lines;
    m.frame[1].bytes = strlen(lines);
    m.frame[2].data = (void *)"";
    if (c == NULL) {
        c = calloc(1, sizeof *c);
        coord_slot_wire(c);
        c->fleet.store = coord_store_memory();
        c->slot[0].store = c->fleet.store;
        job_begin(mode);
    }
    ck_assert_int_eq(coord_objects_list(&c->slot[0], &a), 0);
}

static void job_end(void)
{
    coord_replay_close(c->slot[0].replay);
    for (uint32_t s = 0; s < JOB_SPLITS; s++)
        coord_objects_close(&c->slot[0].objects[s]);
    coord_task_close(c->slot[0].tasks);
}

static void end(void)
{
    job_end();
    coord_store_close(c->fleet.store);
    free(c);
    c = NULL;
    split = WIRE_TRAIN;
}

static bool ends;

static int done(uint32_t object, uint64_t rows, const struct wire_window *w, uint32_t windows)
{
    struct wire q = {.type = WIRE_TYPE_OBJECT_DONE};
    struct msg m = {.frame_count = 2};
    struct coord_ask a = {.request = &q, .m = &m, .worker = &worker};
    q.u.OBJECT_DONE.split = split;
    q.u.OBJECT_DONE.object = object;
    q.u.OBJECT_DONE.rows = rows;
    q.u.OBJECT_DONE.windows = windows;
    const char *line = c->slot[0].objects[split].object[object].line;
    q.u.OBJECT_DONE.salt = hash_bytes(line, strcspn(line, "\t"), 1);
    m.frame[1].data = (void *)w;
    m.frame[1].bytes = windows * sizeof *w;
    return coord_objects_done(&c->slot[0], &a, &ends);
}

/* a: hours 100 and 101; b: 101, before a there; d: 100 and 103, c is empty. */
static const struct wire_window a[] = {{30, 100, 360005}, {15, 101, 363630}},
                                b[] = {{8, 101, 363601}},
                                d[] = {{30, 100, 360005}, {4, 103, 371000}};

static void all_done(void)
{
    ck_assert_int_eq(done(0, 45, a, 2), 0);
    ck_assert_int_eq(done(1, 8, b, 1), 0);
    ck_assert_int_eq(done(2, 0, NULL, 0), 0);
    ck_assert_int_eq(done(3, 34, d, 2), 0);
}

static void piece_is(uint32_t segment, uint32_t n, uint32_t object, uint64_t position,
                     uint64_t rows)
{
    ck_assert_uint_lt(n, c->slot[0].replay->segment[segment].pieces);
    const struct coord_piece *p = &c->slot[0].replay->segment[segment].piece[n];
    ck_assert_uint_eq(p->object, object);
    ck_assert_uint_eq(p->position, position);
    ck_assert_uint_eq(p->rows, rows);
    ck_assert_uint_eq(p->lane, object % 2);
}

static void segments_are(void)
{
    const struct coord_replay *r = c->slot[0].replay;
    ck_assert_uint_eq(r->segments, 3);
    ck_assert_uint_eq(r->rows, 87);
    ck_assert_uint_eq(r->batches, 3 + 3 + 1 + 2 + 1);
    ck_assert(r->number[0] == 100 && r->number[1] == 101 && r->number[2] == 103);
    ck_assert(r->segment[0].pieces == 2 && r->segment[1].pieces == 2 && r->segment[2].pieces == 1);
    piece_is(0, 0, 0, 0, 30); /* same time: ordered by name */
    piece_is(0, 1, 3, 0, 30);
    piece_is(1, 0, 1, 0, 8);
    piece_is(1, 1, 0, 30, 15);
    piece_is(2, 0, 3, 30, 4);
}

START_TEST(windows_are_made_of_ranges_in_order_of_time)
{
    struct err e = {0};
    begin(WIRE_SSP, 4, "a\nb\nc\nd\n");
    all_done();
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].known, 1);
    segments_are();
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    const struct coord_tasks *t = c->slot[0].tasks;
    ck_assert_uint_eq(t->batches, c->slot[0].replay->batches);
    for (uint32_t i = 0, s = 0; i < t->tasks; i++) {
        s += t->task[i].segment > s;
        ck_assert_uint_eq(t->task[i].segment, s);
        ck_assert_uint_ge(i, c->slot[0].replay->segment[s].task);
    }
    /* a restarted coordinator */
    struct coord_progress at = c->slot[0].at;
    struct job spec = c->slot[0].spec;
    uint64_t hash = coord_replay_record_of(&c->slot[0], false).hash;
    job_end();
    memset(&c->slot[0], 0, sizeof c->slot[0]);
    memset(&c->part[0], 0, sizeof c->part[0]);
    coord_slot_wire(c);
    c->slot[0].store = c->fleet.store;
    job_begin(WIRE_SSP);
    c->slot[0].spec = spec;
    c->slot[0].at = at;
    ck_assert_int_eq(coord_objects_load(&c->slot[0], &e), 0);
    segments_are();
    ck_assert_uint_eq(coord_replay_record_of(&c->slot[0], false).hash, hash);
    end();
}
END_TEST

START_TEST(windows_that_cannot_be_are_refused_and_cost_the_job_nothing)
{
    static const struct wire_window falls[] = {{4, 101, 0}, {4, 100, 0}}, none[] = {{0, 1, 0}};
    begin(WIRE_SSP, 4, "a\nb\nc\nd\n");
    ck_assert_int_eq(done(1, 8, falls, 2), SHOAL_E_MALFORMED);
    ck_assert_int_eq(done(1, 0, none, 1), SHOAL_E_MALFORMED);
    ck_assert_int_eq(done(1, 9, b, 1), SHOAL_E_MALFORMED);
    ck_assert_int_eq(done(1, 8, NULL, 0), SHOAL_E_MALFORMED);
    ck_assert(!ends);
    c->slot[0].spec.replay.on = false; /* a job without replay takes no windows */
    ck_assert_int_eq(done(1, 8, b, 1), SHOAL_E_MALFORMED);
    ck_assert(!ends);
    c->slot[0].spec.replay.on = true;
    all_done();
    segments_are();
    end();
}
END_TEST

START_TEST(what_is_scored_has_no_windows)
{
    begin(WIRE_SSP, 4, "a\nb\nc\nd\n");
    split = WIRE_VALID;
    c->slot[0].spec.data.objects.of[WIRE_VALID].on = true;
    c->slot[0].at.split[WIRE_VALID].used = 1;
    begin(WIRE_SSP, 1, "b\n");
    ck_assert_int_eq(done(0, 8, b, 1), SHOAL_E_MALFORMED);
    ck_assert(!ends);
    ck_assert_int_eq(done(0, 8, NULL, 0), 0);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_VALID].rows, 8);
    ck_assert_uint_eq(c->slot[0].replay->windows, 0);
    split = WIRE_TRAIN;
    all_done();
    segments_are();
    end();
}
END_TEST

START_TEST(what_is_left_out_has_no_segment)
{
    struct err e;
    begin(WIRE_BSP, 4, "a\nb\nc\nd\n");
    c->slot[0].spec.replay.outs = 1;
    c->slot[0].spec.replay.out[0] = (struct job_span){100 * 3600, 101 * 3600};
    all_done();
    ck_assert_uint_eq(c->slot[0].replay->segments, 2);
    ck_assert_uint_eq(c->slot[0].replay->rows, 27);
    piece_is(0, 0, 1, 0, 8);
    piece_is(0, 1, 0, 30, 15);
    piece_is(1, 0, 3, 30, 4);
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    for (uint32_t i = 0; i < c->slot[0].tasks->tasks; i++)
        ck_assert(c->slot[0].tasks->task[i].rows == 0 ||
                  c->slot[0].tasks->task[i].lane == c->slot[0].tasks->task[i].object % 2);
    end();
}
END_TEST

/* Another object in a window that has begun makes another log. */
/* The same in every release: checkpoints contain it. */
#define BEGUN_HASH UINT64_C(6290279174914507964)

START_TEST(who_goes_on_has_the_same_ranges)
{
    struct err e;
    begin(WIRE_SSP, 4, "a\nb\nc\nd\n");
    all_done();
    ck_assert_int_eq(coord_epoch_cut(&c->slot[0], &e), 0);
    struct coord_replay *r = c->slot[0].replay;
    c->slot[0].tasks->frontier = r->segment[1].task;
    struct coord_replay_record of = coord_replay_record_of(&c->slot[0], false);
    ck_assert_uint_eq(of.begun, 1);
    ck_assert_uint_eq(of.hash, BEGUN_HASH);
    r->begun = of.begun;
    r->begun_hash = of.hash;
    ck_assert_int_eq(coord_replay_fits(&c->slot[0], &e), 0);
    r->piece[4].rows--; /* in a window to come */
    ck_assert_int_eq(coord_replay_fits(&c->slot[0], &e), 0);
    r->piece[1].position++;
    ck_assert_int_eq(coord_replay_fits(&c->slot[0], &e), SHOAL_E_CONFIG);
    end();
}
END_TEST

/* Partitions by host, then hour: the objects of one hour are spread over the lanes. */
START_TEST(objects_are_dealt_by_the_begin_of_their_partitions)
{
    struct err e;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.store = coord_store_memory();
    c->slot[0].store = c->fleet.store;
    job_begin(WIRE_BSP);
    ck_assert_int_eq(partition_parse("{date}-{hour}", &c->slot[0].spec.data.partition, &e), 0);
    begin(WIRE_BSP, 4, "h1/2026-03-04-00\nh1/2026-03-04-01\nh2/2026-03-04-00\nh2/2026-03-04-01\n");
    const struct coord_object *o = c->slot[0].objects[WIRE_TRAIN].object;
    ck_assert(o[0].lane == 0 && o[2].lane == 1 && o[1].lane == 0 && o[3].lane == 1);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_replay_objects");
    TCase *t = tcase_create("objects");
    tcase_add_test(t, windows_are_made_of_ranges_in_order_of_time);
    tcase_add_test(t, windows_that_cannot_be_are_refused_and_cost_the_job_nothing);
    tcase_add_test(t, what_is_scored_has_no_windows);
    tcase_add_test(t, what_is_left_out_has_no_segment);
    tcase_add_test(t, who_goes_on_has_the_same_ranges);
    tcase_add_test(t, objects_are_dealt_by_the_begin_of_their_partitions);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
