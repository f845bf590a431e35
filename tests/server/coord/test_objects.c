/* test_objects.c: the list of a log's objects, the worker that each object is given to, and the
 * objects that make up an epoch. */
#include "proto/base/hash.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/objects_index.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct coord *c;
static uint64_t now = 1;
static struct coord_worker worker[3];
static uint32_t split; /* the split that the next messages are about */

static uint64_t now_of(struct env *env)
{
    (void)env;
    return now;
}
static const struct env_ops ops = {.now_ns = now_of};
static struct env env = {.ops = &ops};

/* A job with objects in phase INDEX, with three workers. */
static void begin(uint32_t lanes, uint32_t mode)
{
    struct err e;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.env = &env;
    c->fleet.store = coord_store_memory();
    c->slot[0].store = c->fleet.store;
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, lanes, mode, &e), 0);
    c->slot[0].at.number = 7;
    c->slot[0].at.phase = PHASE_INDEX;
    c->slot[0].at.split[WIRE_TRAIN].used = 1;
    c->slot[0].spec.data.objects.of[WIRE_TRAIN].on = true;
    c->slot[0].source = coord_source_of(&c->slot[0].spec);
    c->slot[0].spec.data.shuffle = true;
    c->slot[0].spec.train.batch = 10;
    c->slot[0].spec.train.mode = (enum wire_mode)mode;
    c->slot[0].workers.count = 3;
    for (uint32_t i = 0; i < 3; i++)
        worker[i].number = i + 1;
}

static void end(void)
{
    split = WIRE_TRAIN;
    for (uint32_t s = 0; s < JOB_SPLITS; s++)
        coord_objects_close(&c->slot[0].objects[s]);
    coord_task_close(c->slot[0].tasks);
    coord_store_close(c->fleet.store);
    free(c);
}

static int list(uint32_t who, uint32_t count, const char *lines, const char *head)
{
    struct wire w = {.type = WIRE_TYPE_OBJECTS};
    struct msg m = {.frame_count = 3};
    struct coord_ask a = {.request = &w, .m = &m, .worker = &worker[who - 1]};
    w.u.OBJECTS.split = split;
    w.u.OBJECTS.count = count;
    m.frame[1].data = (void *)lines;
    m.frame[1].bytes = strlen(lines);
    m.frame[2].data = (void *)head;
    m.frame[2].bytes = strlen(head);
    int rc = coord_objects_list(&c->slot[0], &a);
    return rc != 0 ? rc : a.reply.u.OBJECTS_reply.list ? 1 : 0;
}

static int done(uint32_t who, uint32_t object, uint64_t rows, int status)
{
    struct wire w = {.type = WIRE_TYPE_OBJECT_DONE};
    struct coord_ask a = {.request = &w, .worker = &worker[who - 1]};
    w.u.OBJECT_DONE.split = split;
    w.u.OBJECT_DONE.object = object;
    w.u.OBJECT_DONE.rows = rows;
    w.u.OBJECT_DONE.digest = rows * 3;
    if (object < c->slot[0].objects[split].count) {
        const char *line = c->slot[0].objects[split].object[object].line;
        w.u.OBJECT_DONE.salt = hash_bytes(line, strcspn(line, "\t"), 1);
    }
    w.u.OBJECT_DONE.fail_status = status;
    snprintf(w.u.OBJECT_DONE.fail_text, sizeof w.u.OBJECT_DONE.fail_text, "gone");
    bool ends;
    return coord_objects_done(&c->slot[0], &a, &ends);
}

START_TEST(one_worker_lists_for_all)
{
    begin(2, WIRE_ASYNC);
    ck_assert_int_eq(list(1, 0, "", ""), 1);
    ck_assert_int_eq(list(2, 0, "", ""), SHOAL_E_AGAIN);
    coord_objects_worker_gone(&c->slot[0], 1); /* it dies while it reads it */
    ck_assert_int_eq(list(2, 0, "", ""), 1);
    ck_assert_int_eq(list(2, 2, "a\t5\nb\n", "x,y"), 0);
    ck_assert_int_eq(list(3, 0, "", ""), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
    ck_assert_str_eq(c->slot[0].objects[WIRE_TRAIN].object[0].line, "a\t5");
    end();
}
END_TEST

START_TEST(coord_objects_the_first_list_stands)
{
    begin(2, WIRE_ASYNC);
    ck_assert_int_eq(list(1, 2, "a\nb\n", ""), 0);
    ck_assert_int_eq(list(2, 3, "a\nb\nc\n", ""), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
    end();
}
END_TEST

/* The bytes come from a peer. */
START_TEST(a_list_that_is_none_is_refused)
{
    static const struct {
        uint32_t count;
        const char *lines;
    } bad[] = {{1, ""},
               {1, "a"},
               {2, "a\n"},
               {1, "a\nb\n"},
               {2, "b\na\n"},
               {2, "a\na\n"},
               {2, "a\t1\na\t2\n"},
               {1, "\n"},
               {1, "\tmark\n"},
               {1, "a\x01\n"},
               {1, "caf\xe9\n"}, /* no UTF-8: a message would carry another name */
               {1, "a\t1\t\xe9\n"},
               {1, "a\xc2\x85\n"},
               {LIMIT_OBJECTS + 1, "a\n"},
               {1, "a\t1\t2\t3\n"}};
    begin(2, WIRE_ASYNC);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(list(1, bad[i].count, bad[i].lines, ""), SHOAL_E_MALFORMED);
        ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 0);
    }
    ck_assert_int_eq(list(1, 1, "caf\xc3\xa9\t1\t2\n", ""), 0);
    end();
}
END_TEST

START_TEST(each_is_given_once_while_its_holder_lives)
{
    begin(2, WIRE_ASYNC);
    list(1, 3, "a\nb\nc\n", "");
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2),
                      1); /* the list is the first worker's */
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 3), 2);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 3), COORD_NO_OBJECT);
    now += COORD_AGAIN_NS + 1; /* an answer was lost */
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 3), 2);
    coord_objects_worker_gone(&c->slot[0], 1);
    now += COORD_AGAIN_NS + 1;
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 3), 0); /* new ones come first */
    coord_objects_worker_gone(&c->slot[0], 2);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 3), 1);
    end();
}
END_TEST

/* bsp: object i belongs to lane i % lanes, and a lane's objects to one worker. */
START_TEST(under_bsp_a_lanes_objects_are_one_workers)
{
    begin(3, WIRE_BSP);
    list(1, 6, "a\nb\nc\nd\ne\nf\n", "");
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 1);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 4);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 3), 2);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2),
                      COORD_NO_OBJECT); /* lane 0 belongs to worker 1, lane 2 to 3 */
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 3);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 3), 5);
    end();
}
END_TEST

/* A worker that asked first used to open objects of lanes that other workers got later, and those
 * opened them again. */
START_TEST(under_bsp_a_lane_waits_for_a_worker_that_is_slow)
{
    begin(3, WIRE_BSP);
    list(1, 3, "a\nb\nc\n", "");
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), COORD_NO_OBJECT);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 1);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), COORD_NO_OBJECT);
    now += COORD_AGAIN_NS;
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 2);
    end();
}
END_TEST

START_TEST(the_split_is_known_with_the_last_object)
{
    begin(2, WIRE_ASYNC);
    list(1, 2, "a\nb\n", "");
    ck_assert_int_eq(done(1, 0, 25, 0), 0);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].known, 0);
    ck_assert_int_eq(done(2, 1, 5, 0), 0);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].known, 1);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].rows, 30);
    ck_assert_uint_eq(coord_objects_batches(&c->slot[0]), 3 + 1);
    ck_assert_int_eq(done(1, 1, 6, 0), SHOAL_E_DATA);
    ck_assert_int_eq(done(1, 2, 6, 0), SHOAL_E_MALFORMED);
    const char *name;
    ck_assert_uint_eq(coord_objects_at(&c->slot[0], 24, &name), 24);
    ck_assert_str_eq(name, "a");
    ck_assert_uint_eq(coord_objects_at(&c->slot[0], 25, &name), 0);
    ck_assert_str_eq(name, "b");
    struct coord_objects was = c->slot[0].objects[WIRE_TRAIN];
    c->slot[0].objects[WIRE_TRAIN] = (struct coord_objects){0}; /* a restarted coordinator */
    struct err e;
    ck_assert_int_eq(coord_objects_load(&c->slot[0], &e), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].object[1].rows, 5);
    ck_assert_str_eq(c->slot[0].objects[WIRE_TRAIN].object[1].line, "b");
    coord_objects_close(&was);
    c->slot[0].at.number = 8; /* another job finds no objects */
    coord_objects_close(&c->slot[0].objects[WIRE_TRAIN]);
    ck_assert_int_eq(coord_objects_load(&c->slot[0], &e), SHOAL_E_CORRUPT);
    end();
}
END_TEST

START_TEST(one_that_cannot_be_read_is_left_out_where_the_job_says_so)
{
    begin(2, WIRE_ASYNC);
    c->slot[0].spec.data.objects.leave_out = true;
    list(1, 2, "a\nb\n", "");
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 0);
    ck_assert_int_eq(done(1, 0, 0, SHOAL_E_CANTCREATE), SHOAL_E_CANTCREATE); /* not the file's */
    ck_assert_int_eq(done(1, 0, 0, SHOAL_E_NOINPUT), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].left_out, 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1),
                      1); /* another worker may be able to read it */
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 0);
    ck_assert_int_eq(done(2, 0, 0, SHOAL_E_NOINPUT), 0);
    ck_assert_int_eq(done(1, 1, 5, 0), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].left_out, 1);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].rows, 5);
    uint32_t pieces;
    const struct coord_piece *piece = coord_objects_pieces(&c->slot[0], WIRE_TRAIN, 1, &pieces);
    ck_assert_uint_eq(pieces, 1);
    ck_assert_uint_eq(piece[0].object, 1);
    end();
}
END_TEST

/* The object's lane belongs to the first worker, so no other worker was asked, and the job waited
 * for ever. */
START_TEST(under_bsp_another_worker_tries_it_too)
{
    begin(2, WIRE_BSP);
    c->slot[0].spec.data.objects.leave_out = true;
    list(1, 2, "a\nb\n", "");
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 1);
    ck_assert_int_eq(done(1, 0, 0, SHOAL_E_DATA), 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), COORD_NO_OBJECT);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 0);
    ck_assert_int_eq(done(2, 0, 0, SHOAL_E_DATA), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].left_out, 1);
    end();
}
END_TEST

/* The order is the same in every release: otherwise a resumed job's finished batches would have
 * other rows. */
#define FIRST_OF_EPOCH_2 0x000d13u
#define DIGEST_OF_ALL 0x76cc1946f524f86eull

START_TEST(epochs_take_objects_in_orders_of_their_own)
{
    char lines[400] = "";
    bool moved = false;
    uint32_t pieces, first[20];
    begin(3, WIRE_BSP);
    for (int i = 0; i < 20; i++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "o%02d\n", i);
    list(1, 20, lines, "");
    for (uint32_t i = 0; i < 20; i++)
        done(1, i, 10 + i, 0);
    for (uint32_t epoch = 1; epoch <= 2; epoch++) {
        uint32_t seen = 0;
        const struct coord_piece *p = coord_objects_pieces(&c->slot[0], WIRE_TRAIN, epoch, &pieces);
        for (uint32_t i = 0; i < pieces; i++) {
            seen |= 1u << p[i].object;
            ck_assert_uint_eq(p[i].lane, p[i].object % 3);
            moved |= epoch == 2 && first[i] != p[i].object;
            first[i] = p[i].object;
        }
        ck_assert_uint_eq(seen, (1u << 20) - 1);
    }
    ck_assert(moved);
    ck_assert_uint_eq(first[0] << 16 | first[1] << 8 | first[2], FIRST_OF_EPOCH_2);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].digest, DIGEST_OF_ALL);
    c->slot[0].spec.data.shuffle = false;
    const struct coord_piece *p = coord_objects_pieces(&c->slot[0], WIRE_TRAIN, 3, &pieces);
    for (uint32_t i = 0; i < pieces; i++)
        ck_assert_uint_eq(p[i].object, i);
    end();
}
END_TEST

START_TEST(each_split_has_its_own)
{
    struct err e;
    begin(2, WIRE_BSP);
    c->slot[0].spec.data.objects.of[WIRE_VALID].on = true;
    ck_assert_int_eq(list(1, 1, "a\n", "head"), 0);
    split = WIRE_VALID;
    ck_assert_int_eq(list(1, 0, "", ""), 0); /* the job does not use it: no worker lists it */
    c->slot[0].at.split[WIRE_VALID].used = 1;
    ck_assert_int_eq(list(1, 0, "", ""), 1);
    ck_assert_int_eq(list(1, 3, "a\nb\nc\n", ""), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 1);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_VALID].count, 3);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_VALID, 2),
                      0); /* not bound to a lane, and without a holder yet */
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_VALID, 2), 1);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_VALID, 1), 2);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(done(i == 2 ? 1 : 2, i, 7, 0), 0);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_VALID].rows, 21);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].known, 0);
    split = WIRE_TRAIN;
    ck_assert_int_eq(done(1, 0, 5, 0), 0);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].rows, 5);
    uint32_t pieces;
    const struct coord_piece *p = coord_objects_pieces(&c->slot[0], WIRE_VALID, 0, &pieces);
    ck_assert_uint_eq(pieces, 3);
    for (uint32_t i = 0; i < pieces; i++)
        ck_assert_uint_eq(p[i].object, i);
    coord_objects_worker_gone(&c->slot[0], 2);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_VALID].holder[1], 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_VALID].holder[2], 1);
    for (uint32_t s = 0; s < JOB_SPLITS; s++)
        coord_objects_close(&c->slot[0].objects[s]);
    ck_assert_int_eq(coord_objects_load(&c->slot[0], &e), 0); /* a restarted coordinator */
    ck_assert_uint_eq(c->slot[0].objects[WIRE_VALID].object[2].rows, 7);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].object[0].rows, 5);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TEST].count, 0);
    end();
}
END_TEST

/* The other wanted worker has left. The object waits for it, as the status says; then the present
 * worker's next try counts for all. */
START_TEST(an_unreadable_object_waits_for_no_worker_that_left)
{
    char text[ERR_TEXT_MAX];
    begin(2, WIRE_ASYNC);
    c->fleet.options.lease_ms = 1000;
    c->slot[0].spec.data.objects.leave_out = true;
    c->slot[0].at.workers_wanted = 2;
    c->slot[0].workers.count = 1;
    list(1, 2, "a\nbad\t1\n", "");
    ck_assert_int_eq(done(1, 0, 30, 0), 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 1);
    ck_assert(!coord_objects_waits(&c->slot[0], text, sizeof text));
    ck_assert_int_eq(done(1, 1, 0, SHOAL_E_NOINPUT), 0);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), COORD_NO_OBJECT);
    ck_assert(coord_objects_waits(&c->slot[0], text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "object bad,"));
    now += 2 * SECOND;
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), 1);
    ck_assert_int_eq(done(1, 1, 0, SHOAL_E_NOINPUT), 0);
    ck_assert(!coord_objects_waits(&c->slot[0], text, sizeof text));
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].known, 2);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].left_out, 1);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].rows, 30);
    end();
}
END_TEST

/* If two workers are there, the other one tries, however late. */
START_TEST(an_unreadable_object_waits_for_who_is_there)
{
    begin(2, WIRE_ASYNC);
    c->fleet.options.lease_ms = 1000;
    c->slot[0].spec.data.objects.leave_out = true;
    c->slot[0].workers.count = 2;
    list(1, 1, "bad\n", "");
    ck_assert_int_eq(done(1, 0, 0, SHOAL_E_NOINPUT), 0);
    now += 60 * SECOND;
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 1), COORD_NO_OBJECT);
    ck_assert_uint_eq(coord_objects_next(&c->slot[0], WIRE_TRAIN, 2), 0);
    ck_assert_int_eq(done(2, 0, 30, 0), 0);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].rows, 30);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_objects");
    TCase *t = tcase_create("objects");
    tcase_add_test(t, one_worker_lists_for_all);
    tcase_add_test(t, coord_objects_the_first_list_stands);
    tcase_add_test(t, a_list_that_is_none_is_refused);
    tcase_add_test(t, each_is_given_once_while_its_holder_lives);
    tcase_add_test(t, under_bsp_a_lanes_objects_are_one_workers);
    tcase_add_test(t, under_bsp_a_lane_waits_for_a_worker_that_is_slow);
    tcase_add_test(t, the_split_is_known_with_the_last_object);
    tcase_add_test(t, one_that_cannot_be_read_is_left_out_where_the_job_says_so);
    tcase_add_test(t, under_bsp_another_worker_tries_it_too);
    tcase_add_test(t, epochs_take_objects_in_orders_of_their_own);
    tcase_add_test(t, each_split_has_its_own);
    tcase_add_test(t, an_unreadable_object_waits_for_no_worker_that_left);
    tcase_add_test(t, an_unreadable_object_waits_for_who_is_there);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
