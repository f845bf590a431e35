/* test_taken.c: the record of the data that the tables were trained on: what a job begins with,
 * adds and is refused for. */
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct coord *c;
static struct err e;

static uint64_t now_of(struct env *env)
{
    (void)env;
    return 1;
}
static const struct env_ops ops = {.now_ns = now_of};
static struct env env = {.ops = &ops};

static void open_it(void)
{
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.env = &env;
    for (uint32_t i = 0; i < LIMIT_SPACES; i++)
        c->fleet.spaces.space[i].number = i;
    c->slot[0].space = &c->fleet.spaces.space[0];
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, 1, WIRE_ASYNC, &e), 0);
    c->slot[0].parsed = true;
}

/* Space 0 has the whole store, and space 1 a part of it. */
static void stores_set(struct coord_store *store)
{
    c->fleet.store = store;
    c->slot[0].store = c->fleet.store;
    COORD_EACH_SPACE (&c->fleet, s)
        s->store = c->fleet.store;
    for (uint32_t i = 1; i < LIMIT_SPACES; i++) {
        char part[16];
        (void)snprintf(part, sizeof part, "space%u/", i);
        c->fleet.spaces.space[i].store = coord_store_part(store, part);
    }
}

static void begin(void)
{
    memset(&e, 0, sizeof e);
    open_it();
    stores_set(coord_store_memory());
}

static void close_it(void)
{
    for (uint32_t i = 1; i < LIMIT_SPACES; i++)
        coord_store_close(c->fleet.spaces.space[i].store);
    coord_objects_close(&c->slot[0].objects[WIRE_TRAIN]);
    coord_taken_close(&c->fleet);
    coord_taken_list_close(c->slot[0].taken);
    coord_task_close(c->slot[0].tasks);
    free(c);
}

static void end(void)
{
    coord_store_close(c->fleet.store);
    close_it();
}

/* Restarts the coordinator on the same store. */
static void again(void)
{
    struct coord_store *store = c->fleet.store;
    struct coord_progress at = c->slot[0].at;
    close_it();
    open_it();
    stores_set(store);
    c->slot[0].at = at;
    ck_assert_int_eq(coord_taken_open(&c->fleet, &e), 0);
    ck_assert_msg(coord_taken_load(&c->slot[0], &e) == 0, "%s", e.text);
}

/* Submits job `number` over objects, growing or not. */
static void job(uint64_t number, bool grows)
{
    c->slot[0].at =
        (struct coord_progress){.number = number, .run = number, .phase = PHASE_WAITING};
    c->slot[0].spec.data.objects.of[WIRE_TRAIN].on = true;
    c->slot[0].spec.data.objects.grow_ms = grows ? 1000 : 0;
    c->slot[0].grow->at = (struct coord_grow_record){.job = number};
}

static void objects(const char *lines, uint32_t count)
{
    ck_assert_int_eq(
        coord_objects_take(&c->slot[0].objects[WIRE_TRAIN], lines, strlen(lines), count, "", 0, &e),
        0);
}

static void set_up(void)
{
    c->slot[0].at.phase = PHASE_SETUP;
    c->slot[0].at.epoch = 1;
    ck_assert(coord_taken_settled(&c->slot[0]));
    c->slot[0].at.phase = PHASE_TRAIN;
}

/* `of` of `rows` rows are trained. */
static void learnt(uint64_t of, uint64_t rows)
{
    c->slot[0].at.train_rows = of;
    c->slot[0].at.split[WIRE_TRAIN].rows = c->slot[0].grow->at.rows = rows;
    ck_assert(coord_taken_learnt(&c->slot[0]));
}

START_TEST(names_are_the_jobs_until_its_tables_are_there)
{
    begin();
    job(7, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    objects("a\t1\nb\t2\n", 2);
    ck_assert(!coord_taken_has(&c->slot[0], "a\t1"));
    ck_assert_uint_eq(c->slot[0].space->taken->version, 0);
    again();
    job(7, true);
    objects("a\t1\nb\t2\n", 2);
    set_up();
    ck_assert_uint_eq(c->slot[0].space->taken->version, 1);
    ck_assert(coord_taken_has(&c->slot[0], "a\t9") && coord_taken_has(&c->slot[0], "b") &&
              !coord_taken_has(&c->slot[0], "c"));
    ck_assert_uint_eq(c->slot[0].space->taken->is.at.flags, COORD_TAKEN_BEGUN);
    learnt(9, 10);
    ck_assert_uint_eq(c->slot[0].space->taken->is.at.flags, COORD_TAKEN_BEGUN);
    learnt(10, 10);
    ck_assert_uint_eq(c->slot[0].space->taken->is.at.flags, 0);
    again();
    ck_assert_uint_eq(coord_taken_count(&c->slot[0]), 2);
    ck_assert_uint_eq(c->slot[0].space->taken->version, 2);
    end();
}
END_TEST

/* The coordinator died, _i 0: before the progress said that the round had begun. */
START_TEST(names_of_a_round_that_did_not_begin_go)
{
    bool told;
    begin();
    job(7, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    objects("a\n", 1);
    set_up();
    learnt(10, 10);
    objects("b\nc\n", 2);
    ck_assert_int_eq(coord_taken_round(&c->slot[0], 2, &told, &e), 0);
    ck_assert(told && coord_taken_count(&c->slot[0]) == 3);
    size_t bytes; /* a checkpoint made meanwhile belongs to the round before */
    struct coord_taken_head head;
    void *record = coord_taken_record(&c->slot[0], &bytes);
    memcpy(&head, record, sizeof head);
    ck_assert(head.count == 1 && head.flags == 0);
    free(record);
    c->slot[0].at.epoch += _i == 1;
    again();
    ck_assert_uint_eq(coord_taken_count(&c->slot[0]), _i == 0 ? 1 : 3);
    ck_assert_uint_eq(c->slot[0].space->taken->is.at.flags, _i == 0 ? 0 : COORD_TAKEN_BEGUN);
    ck_assert_int_eq(coord_taken_has(&c->slot[0], "b"), _i);
    end();
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

static void begin_stream(uint64_t from)
{
    struct positions p = {.count = 0};
    struct position one = {.stream = "kafka:c/0", .mark = "x", .from = from, .to = from + 50};
    ck_assert_int_eq(positions_put(&p, &one), 0);
    ck_assert_int_eq(coord_taken_streams(&c->slot[0], &p, &e), 0);
    positions_close(&p);
}

static uint64_t position(void)
{
    return positions_find(&coord_taken_names(&c->slot[0])->positions, "kafka:c/0")->to;
}

static void job_of_stream(uint64_t number)
{
    job(number, true);
    c->slot[0].spec.data.kafka.on = true;
}

/* As names_of_a_round_that_did_not_begin_go. */
START_TEST(positions_of_a_round_that_did_not_begin_go_back)
{
    bool told;
    size_t bytes;
    begin();
    job_of_stream(7);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    begin_stream(100);
    again();
    job_of_stream(7);
    ck_assert_uint_eq(position(), 100); /* it was stored */
    begin_stream(120);                  /* a later list changes no begin */
    objects("kafka:c/0@100-110\t\tx\n", 1);
    set_up();
    learnt(10, 10);
    objects("kafka:c/0@110-115\t\tx\nkafka:c/0@115-130\t\tx\n", 2);
    ck_assert_int_eq(coord_taken_round(&c->slot[0], 2, &told, &e), 0);
    ck_assert_uint_eq(position(), 130);
    struct coord_taken_list kept = {.at = {.job = 0}};
    void *record = coord_taken_record(&c->slot[0], &bytes);
    ck_assert_int_eq(coord_taken_record_take(&kept, record, bytes, &e), 0);
    ck_assert_uint_eq(positions_find(&kept.positions, "kafka:c/0")->to, 110);
    coord_taken_list_close(&kept);
    free(record);
    c->slot[0].at.epoch += _i == 1;
    again();
    ck_assert_uint_eq(position(), _i == 0 ? 110 : 130);
    end();
}
END_TEST

/* A job that is submitted again goes on behind what the tables have learnt, of the fleet (_i 0) or
 * of a checkpoint. */
START_TEST(positions_are_those_of_the_tables)
{
    size_t bytes;
    begin();
    job_of_stream(7);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    begin_stream(100);
    objects("kafka:c/0@100-150\t\tx\n", 1);
    set_up();
    c->slot[0].space->taken->is.at.flags = COORD_TAKEN_BEGUN;
    job_of_stream(8);
    ck_assert_int_eq(coord_taken_fleet(&c->slot[0], &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "1 files or objects are learnt in part"));
    c->slot[0].space->taken->is.at.flags = 0;
    void *record = coord_taken_record(&c->slot[0], &bytes);
    int rc = _i == 0 ? coord_taken_fleet(&c->slot[0], &e)
                     : coord_taken_saved(&c->slot[0], record, bytes, false, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    free(record);
    ck_assert(coord_taken_begins(&c->slot[0]));
    ck_assert_uint_eq(position(), 150);
    begin_stream(100);
    ck_assert_uint_eq(position(), 150);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0); /* with new tables it begins anew */
    begin_stream(100);
    ck_assert_uint_eq(position(), 100);
    end();
}
END_TEST

START_TEST(a_record_with_damaged_positions_is_refused)
{
    size_t bytes;
    struct coord_taken_list l = {.at = {.job = 7}};
    struct position one = {.stream = "kafka:c/0", .mark = "x", .from = 1, .to = 2};
    ck_assert_int_eq(positions_put(&l.positions, &one), 0);
    ck_assert_int_eq(nameset_add(&l.names, nameset_item("a", 1)), 0);
    char *record = coord_taken_record_make(&l, 0, &bytes);
    for (size_t most = 0; most < bytes; most++) {
        struct coord_taken_list t = {.at = {.job = 0}};
        int rc = coord_taken_record_take(&t, record, most, &e);
        ck_assert_int_eq(rc, most == bytes - strlen("kafka:c/0@000000000001-000000000002\t\tx\n")
                                 ? 0 /* a record of names alone */
                                 : SHOAL_E_CORRUPT);
        coord_taken_list_close(&t);
    }
    coord_taken_list_close(&l);
    free(record);
}
END_TEST

/* Returns the status of job 8 when it starts from tables of job 7 with these flags, those of the
 * fleet or a checkpoint. */
static int next(uint32_t flags, bool grows, bool all_new, bool fleet)
{
    begin();
    job(7, false);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    objects("a\n", 1);
    set_up();
    c->slot[0].space->taken->is.at.flags = flags;
    size_t bytes;
    void *record = coord_taken_record(&c->slot[0], &bytes);
    job(8, grows);
    c->slot[0].spec.data.objects.all_new = all_new;
    int rc = fleet ? coord_taken_fleet(&c->slot[0], &e)
                   : coord_taken_saved(&c->slot[0], record, bytes, false, &e);
    free(record);
    return rc;
}

START_TEST(a_log_that_grows_begins_with_names_that_are_known)
{
    for (int fleet = 0; fleet < 2; fleet++) {
        ck_assert_int_eq(next(0, true, false, fleet), 0);
        ck_assert(coord_taken_has(&c->slot[0], "a") && c->slot[0].taken->at.flags == 0);
        end();
        ck_assert_int_eq(next(COORD_TAKEN_BEGUN, true, false, fleet), SHOAL_E_CONFIG);
        ck_assert_ptr_nonnull(strstr(e.text, "1 files or objects are learnt in part"));
        end();
        ck_assert_int_eq(next(COORD_TAKEN_UNSURE, true, false, fleet), SHOAL_E_CONFIG);
        ck_assert_ptr_nonnull(strstr(e.text, "set data.objects.all_new: true"));
        end();
        for (uint32_t flags = COORD_TAKEN_BEGUN; flags <= COORD_TAKEN_UNSURE; flags++)
            for (int grows = 0; grows < 2; grows++) { /* unknown stays unknown */
                ck_assert_int_eq(next(flags, grows, true, fleet), 0);
                ck_assert_uint_eq(c->slot[0].taken->at.flags, COORD_TAKEN_UNSURE);
                ck_assert(coord_taken_has(&c->slot[0], "a"));
                end();
            }
    }
}
END_TEST

/* Tables that an older release made, and its checkpoints. */
START_TEST(tables_of_before_there_were_names_are_not_known)
{
    begin();
    job(8, true);
    ck_assert_int_eq(coord_taken_fleet(&c->slot[0], &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(coord_taken_saved(&c->slot[0], NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(coord_taken_saved(&c->slot[0], NULL, 0, true, &e), 0);
    job(9, false);
    ck_assert_int_eq(coord_taken_fleet(&c->slot[0], &e), 0);
    ck_assert_uint_eq(c->slot[0].taken->at.flags, COORD_TAKEN_UNSURE);
    end();
}
END_TEST

static int files(const char *name, bool unknown)
{
    struct nameset_item item = nameset_item(name, strlen(name));
    struct wire w = {.type = WIRE_TYPE_FILES};
    struct msg m = {.frame_count = 2};
    struct coord_ask a = {.request = &w, .m = &m};
    w.u.FILES.count = 1;
    w.u.FILES.unknown = unknown;
    m.frame[1].data = &item;
    m.frame[1].bytes = sizeof item;
    c->slot[0].at.phase = PHASE_INDEX;
    return coord_taken_files(&c->slot[0], &a);
}

/* A worker reports the names. A worker of an older release, or one that reads a stream, does
 * not. */
START_TEST(files_of_a_plain_job_have_names)
{
    begin();
    job(7, false);
    c->slot[0].spec.data.objects.of[WIRE_TRAIN].on = false;
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    if (_i < 2)
        ck_assert_int_eq(files("day_1", _i == 1), 0);
    again();
    c->slot[0].at.phase = PHASE_INDEX;
    if (_i < 2)
        ck_assert_int_eq(files("another", false), 0); /* the names of the first report stay */
    set_up();
    learnt(10, 10);
    ck_assert_uint_eq(c->slot[0].space->taken->is.at.flags, _i == 0 ? 0 : COORD_TAKEN_UNSURE);
    ck_assert_int_eq(coord_taken_has(&c->slot[0], "day_1"), _i < 2);
    ck_assert(!coord_taken_has(&c->slot[0], "another"));
    end();
}
END_TEST

/* The bytes come from a store, a shard or a checkpoint. */
START_TEST(a_record_that_is_damaged_is_refused)
{
    begin();
    job(7, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    objects("a\nb\n", 2);
    set_up();
    size_t bytes;
    char *record = coord_taken_record(&c->slot[0], &bytes);
    ck_assert_uint_eq(bytes, sizeof(struct coord_taken_head) + 2 * sizeof(struct nameset_item));
    for (size_t most = 0; most < bytes; most++)
        ck_assert_int_eq(coord_taken_saved(&c->slot[0], record, most, true, &e), SHOAL_E_CORRUPT);
    struct coord_taken_head head;
    memcpy(&head, record, sizeof head);
    for (int i = 0; i < 3; i++) {
        struct coord_taken_head bad = head;
        bad.hand = i == 0 ? 3 : head.hand;
        bad.flags = i == 1 ? 8 : head.flags;
        bad.count = i == 2 ? UINT32_MAX : head.count;
        memcpy(record, &bad, sizeof bad);
        ck_assert_int_eq(coord_taken_saved(&c->slot[0], record, bytes, true, &e), SHOAL_E_CORRUPT);
    }
    memcpy(record, &head, sizeof head);
    ck_assert_int_eq(coord_taken_saved(&c->slot[0], record, bytes, true, &e), 0);
    memcpy(record + bytes - 16, record + bytes - 32, 16); /* one entry twice */
    ck_assert_int_eq(coord_taken_saved(&c->slot[0], record, bytes, true, &e), SHOAL_E_CORRUPT);
    free(record);
    end();
}
END_TEST

/* A shard has a newer record. */
START_TEST(a_job_without_tables_outlives_newer_names)
{
    const struct wire_SHARD_BEAT beat = {.server = "s0", .taken_version = 9};
    begin();
    job(7, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    coord_taken_learn(&c->fleet, 0, &beat);
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_WAITING); /* it starts from none of these tables */
    objects("a\n", 1);
    set_up();
    ck_assert_uint_eq(c->slot[0].space->taken->version, 10); /* its own record is newer */
    end();
}
END_TEST

/* Two spaces learn at the same time; each list has versions that no other has. */
START_TEST(each_space_has_its_own_list)
{
    begin();
    struct coord_space *one = &c->fleet.spaces.space[0], *two = &c->fleet.spaces.space[1];
    job(7, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    objects("a\n", 1);
    set_up();
    c->slot[0].space = two;
    job(8, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    objects("b\nc\n", 2);
    set_up();
    ck_assert(one->taken->version == 1 && two->taken->version == 2);
    ck_assert_uint_eq(c->fleet.taken->version, 2);
    ck_assert(coord_taken_has(&c->slot[0], "b") && !coord_taken_has(&c->slot[0], "a"));
    learnt(10, 10);
    ck_assert_uint_eq(two->taken->is.at.flags, 0);
    ck_assert_uint_eq(one->taken->is.at.flags, COORD_TAKEN_BEGUN);
    again();
    ck_assert_uint_eq(c->fleet.spaces.space[0].taken->is.names.count, 1);
    ck_assert_uint_eq(c->fleet.spaces.space[1].taken->is.names.count, 2);
    ck_assert_uint_eq(c->fleet.taken->version, 3);
    end();
}
END_TEST

/* A new space gets the number of one that was dropped: it has learnt nothing. */
START_TEST(a_list_of_a_dropped_space_is_not_that_of_the_next)
{
    begin();
    job(7, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    objects("a\n", 1);
    set_up();
    c->slot[0].space->numbers = table_set_word(0);
    job(8, true);
    ck_assert_int_eq(coord_taken_none(&c->slot[0], &e), 0);
    ck_assert_uint_eq(c->slot[0].space->taken->is.names.count, 0);
    ck_assert_uint_eq(c->slot[0].space->taken->version, 2); /* so shard 0 forgets it, too */
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_taken");
    TCase *t = tcase_create("taken");
    tcase_add_test(t, names_are_the_jobs_until_its_tables_are_there);
    tcase_add_loop_test(t, names_of_a_round_that_did_not_begin_go, 0, 2);
    tcase_add_loop_test(t, positions_of_a_round_that_did_not_begin_go_back, 0, 2);
    tcase_add_loop_test(t, positions_are_those_of_the_tables, 0, 2);
    tcase_add_test(t, a_record_with_damaged_positions_is_refused);
    tcase_add_test(t, a_log_that_grows_begins_with_names_that_are_known);
    tcase_add_test(t, tables_of_before_there_were_names_are_not_known);
    tcase_add_loop_test(t, files_of_a_plain_job_have_names, 0, 3);
    tcase_add_test(t, a_record_that_is_damaged_is_refused);
    tcase_add_test(t, a_job_without_tables_outlives_newer_names);
    tcase_add_test(t, each_space_has_its_own_list);
    tcase_add_test(t, a_list_of_a_dropped_space_is_not_that_of_the_next);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
