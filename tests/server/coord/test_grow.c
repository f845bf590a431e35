/* test_grow.c: repeated lists of a growing log: which objects are taken, remembered and stored. */
#include "proto/base/hash.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/taken.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct coord *c;
static uint64_t now = SECOND, token;
static struct coord_worker worker[3];

static uint64_t now_of(struct env *env)
{
    (void)env;
    return now;
}
static const struct env_ops ops = {.now_ns = now_of};
static struct env env = {.ops = &ops};

/* A job that lists its log every 10 s, in phase `phase`. */
static void begin(enum coord_phase phase)
{
    struct err e;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->slot[0].space = &c->fleet.spaces.space[0];
    c->fleet.env = &env;
    c->fleet.store = coord_store_memory();
    c->slot[0].space->store = c->fleet.store;
    c->slot[0].store = c->fleet.store;
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, 2, WIRE_ASYNC, &e), 0);
    c->slot[0].parsed = true;
    c->slot[0].at.number = c->slot[0].at.run = 7;
    c->slot[0].at.phase = phase;
    c->slot[0].spec.data.objects.of[WIRE_TRAIN].on = true;
    c->slot[0].spec.data.objects.grow_ms = 10000;
    c->slot[0].source = coord_source_of(&c->slot[0].spec);
    c->slot[0].spec.train.batch = 10;
    c->slot[0].epoch = calloc(COORD_ROUNDS_KEPT, sizeof *c->slot[0].epoch);
    c->slot[0].workers.count = 3;
    for (uint32_t i = 0; i < 3; i++)
        worker[i].number = i + 1;
}

static void end(void)
{
    coord_objects_close(&c->slot[0].objects[WIRE_TRAIN]);
    coord_grow_close(c->slot[0].grow);
    coord_taken_close(&c->fleet);
    coord_taken_list_close(c->slot[0].taken);
    coord_task_close(c->slot[0].tasks);
    coord_store_close(c->fleet.store);
    free(c->slot[0].epoch);
    free(c->slot[0].valid->item);
    free(c);
}

static const char *streams = ""; /* positions that come with a list */
static bool last;

/* Asks for work: 1: the worker is to list the log, 0: success, or an error. */
static int ask(uint32_t who, struct wire *w, const char *lines, const char *head)
{
    struct msg m = {.frame_count = 4};
    struct coord_ask a = {.request = w, .m = &m, .worker = &worker[who - 1]};
    w->type = WIRE_TYPE_OBJECTS;
    w->u.OBJECTS.due = c->slot[0].at.phase > PHASE_INDEX;
    m.frame[1].data = (void *)lines;
    m.frame[1].bytes = strlen(lines);
    m.frame[2].data = (void *)head;
    m.frame[2].bytes = strlen(head);
    m.frame[3].data = (void *)streams;
    m.frame[3].bytes = strlen(streams);
    w->u.OBJECTS.last = last;
    int rc = c->slot[0].source->list(&c->slot[0], &a);
    if (rc == 0 && a.reply.u.OBJECTS_reply.list)
        token = a.reply.u.OBJECTS_reply.token;
    return rc != 0 ? rc : a.reply.u.OBJECTS_reply.list ? 1 : 0;
}

static int question(uint32_t who)
{
    struct wire w = {.id = 1};
    return ask(who, &w, "", "");
}

static int told(uint32_t who, const char *lines)
{
    struct wire w = {.id = 1};
    w.u.OBJECTS.listed = true;
    w.u.OBJECTS.token = token;
    for (const char *at = lines; *at != 0; at++)
        w.u.OBJECTS.count += *at == '\n';
    return ask(who, &w, lines, c->slot[0].at.phase > PHASE_INDEX ? "" : "x,y");
}

/* Sends a list, 10 s after the last one. */
static int listed(const char *lines)
{
    now += 10 * SECOND;
    ck_assert_int_eq(question(1), 1);
    return told(1, lines);
}

/* True when the next round has objects. */
static bool takes(void)
{
    struct err e;
    ck_assert_int_eq(coord_grow_take(&c->slot[0], &e), 0);
    return c->slot[0].objects[WIRE_TRAIN].count > 0;
}

/* Each object of the next round has `rows` rows; the round is taken. */
static void round_of(uint64_t rows)
{
    struct coord_objects *o = &c->slot[0].objects[WIRE_TRAIN];
    struct err e;
    for (uint32_t i = 0; i < o->count; i++)
        o->object[i].rows = rows;
    const struct coord_split whole = {.rows = rows * o->count, .used = 1, .known = 1};
    bool is_told = true;
    if (rows > 0)
        ck_assert_int_eq(coord_taken_round(&c->slot[0], c->slot[0].at.epoch + 1, &is_told, &e), 0);
    ck_assert(is_told);
    ck_assert_int_eq(coord_grow_round(&c->slot[0], &whole, c->slot[0].at.epoch + 1, &e), 0);
    c->slot[0].at.epoch += rows > 0;
    coord_grow_wait(&c->slot[0]);
}

START_TEST(what_two_lists_say_is_taken)
{
    begin(PHASE_INDEX);
    ck_assert_int_eq(question(1), 1);
    ck_assert_int_eq(question(2), SHOAL_E_AGAIN);
    ck_assert_int_eq(told(1, "a\t5\t1\nb\t6\t1\n"), SHOAL_E_AGAIN);
    ck_assert_int_eq(question(1), SHOAL_E_AGAIN); /* the time has not come */
    ck_assert_int_eq(listed("a\t5\t1\nb\t7\t2\nc\t1\t3\n"), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 1);
    ck_assert_str_eq(c->slot[0].objects[WIRE_TRAIN].object[0].line, "a\t5\t1");
    ck_assert_str_eq(c->slot[0].objects[WIRE_TRAIN].head, "x,y");
    ck_assert_int_eq(question(3), 0); /* it knows the head now */
    end();
}
END_TEST

/* The head belongs to the first object that is listed. */
START_TEST(a_first_object_that_is_written_is_waited_for)
{
    begin(PHASE_INDEX);
    ck_assert_int_eq(listed("b\t6\t1\n"), SHOAL_E_AGAIN);
    ck_assert_int_eq(listed("a\t5\t1\nb\t6\t1\n"), SHOAL_E_AGAIN);
    ck_assert_int_eq(listed("a\t5\t1\nb\t6\t1\n"), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
    end();
}
END_TEST

/* If that object is empty, the first one with lines is waited for: an empty one alone would end the
 * job. */
START_TEST(a_first_object_with_lines_is_waited_for)
{
    begin(PHASE_INDEX);
    ck_assert_int_eq(listed("a\t0\t1\nb\t6\t1\n"), SHOAL_E_AGAIN);
    ck_assert_int_eq(listed("a\t0\t1\nb\t7\t2\n"), SHOAL_E_AGAIN);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 0);
    ck_assert_int_eq(listed("a\t0\t1\nb\t7\t2\n"), 0);
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
    end();
}
END_TEST

START_TEST(a_list_that_is_told_twice_is_one)
{
    begin(PHASE_GROW);
    c->slot[0].at.epoch = 1;
    ck_assert_int_eq(question(1), 1);
    uint64_t first = token;
    ck_assert_int_eq(told(1, "a\t5\n"), 0);
    now += 10 * SECOND;
    ck_assert_int_eq(question(1), 1);
    uint64_t second = token;
    token = first; /* late: not the awaited list */
    ck_assert_int_eq(told(1, "a\t5\n"), 0);
    ck_assert(!takes());
    token = second;
    ck_assert_int_eq(told(2, "a\t5\n"), 0); /* nor may another worker send it */
    ck_assert(!takes());
    ck_assert_int_eq(told(1, "a\t5\n"), 0);
    ck_assert(takes());
    end();
}
END_TEST

START_TEST(each_is_taken_once_and_a_lesser_name_too)
{
    struct err e;
    begin(PHASE_GROW);
    c->slot[0].at.epoch = 0;
    listed("m\t1\nn\t1\n");
    listed("m\t1\nn\t1\n");
    ck_assert(takes());
    round_of(10);
    listed("m\t1\nn\t1\n");
    listed("m\t1\nn\t2\n"); /* taken as listed */
    ck_assert(!takes());
    listed("a\t1\nm\t1\nn\t2\n");
    listed("a\t1\nm\t1\nn\t2\no\t1\n");
    ck_assert(takes());
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 1);
    ck_assert_str_eq(c->slot[0].objects[WIRE_TRAIN].object[0].line, "a\t1");
    round_of(5);
    ck_assert_uint_eq(c->slot[0].grow->at.before_rows, 20);
    ck_assert_uint_eq(c->slot[0].grow->at.rows, 5);
    ck_assert_uint_eq(c->slot[0].grow->at.read, 3);
    /* a restarted coordinator; and one that was told to stop before */
    struct coord_grow was = *c->slot[0].grow;
    *c->slot[0].grow = (struct coord_grow){0};
    ck_assert_int_eq(coord_grow_load(&c->slot[0], &e), 0);
    ck_assert_mem_eq(c->slot[0].grow->record, was.record, was.record_bytes);
    ck_assert(!c->slot[0].stop.asked && c->slot[0].stop.id == 0);
    ck_assert(coord_stop_order(&c->slot[0], 99));
    coord_grow_close(c->slot[0].grow);
    ck_assert_int_eq(coord_grow_load(&c->slot[0], &e), 0);
    c->slot[0].stop = (struct coord_stop){0};
    ck_assert_int_eq(coord_stop_load(&c->slot[0], &e), 0);
    ck_assert(c->slot[0].stop.asked && c->slot[0].stop.id == 99);
    c->slot[0].stop.asked = false;
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].object[0].rows, 5);
    ck_assert_uint_eq(c->slot[0].at.split[WIRE_TRAIN].rows, 5);
    coord_grow_close(&was);
    coord_grow_wait(&c->slot[0]);
    listed("a\t1\nm\t1\nn\t2\no\t1\n");
    listed("a\t1\nm\t1\nn\t2\no\t1\n");
    ck_assert(takes());
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 1);
    ck_assert_str_eq(c->slot[0].objects[WIRE_TRAIN].object[0].line, "o\t1");
    end();
}
END_TEST

/* A round without rows trains nothing; its objects still count as taken. */
START_TEST(empty_objects_are_taken_without_a_round)
{
    begin(PHASE_GROW);
    listed("m\t1\n");
    listed("m\t1\n");
    ck_assert(takes());
    round_of(10);
    listed("m\t1\nn\t0\n");
    listed("m\t1\nn\t0\n");
    ck_assert(takes());
    round_of(0);
    ck_assert_uint_eq(c->slot[0].at.epoch, 1);
    ck_assert_uint_eq(c->slot[0].grow->at.rows, 10);
    listed("m\t1\nn\t0\n");
    listed("m\t1\nn\t0\n");
    ck_assert(!takes());
    end();
}
END_TEST

/* The last list lacks the first `count` names: one bit is set for each. */
static void gone(uint32_t count)
{
    size_t bytes = (count + 7) / 8;
    uint8_t *bits = malloc(bytes);
    memset(bits, 0xff, bytes);
    if (count % 8 != 0)
        bits[bytes - 1] = (uint8_t)((1u << count % 8) - 1);
    coord_taken_gone(&c->slot[0], bits, bytes);
    free(bits);
}

static struct nameset_item numbered(uint32_t n)
{
    return (struct nameset_item){{n * UINT64_C(0x9e3779b97f4a7c15), n}};
}

/* Only names that are no longer listed are forgotten, the oldest first, and no more than necessary.
 * While all names are still listed, no further object is taken. */
START_TEST(names_are_remembered_within_bounds)
{
    begin(PHASE_GROW);
    struct nameset *names = &c->slot[0].space->taken->is.names;
    for (uint32_t i = 0; i + 1 < NAMESET_MAX; i++)
        ck_assert_int_eq(nameset_add(names, numbered(i)), 0);
    listed("a\t1\nb\t1\nc\t1\n");
    listed("a\t1\nb\t1\nc\t1\n");
    ck_assert(takes());
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 1); /* there is room for one */
    round_of(10);
    ck_assert_uint_eq(names->count, NAMESET_MAX);
    listed("b\t1\nc\t1\n");
    listed("b\t1\nc\t1\n");
    ck_assert(!takes());
    c->slot[0].space->taken->counted = true; /* the listing worker has asked for them */
    gone(5);
    ck_assert_uint_eq(coord_taken_room(&c->slot[0]), 5);
    ck_assert(takes());
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
    round_of(10);
    ck_assert_uint_eq(names->count, NAMESET_MAX);
    ck_assert(!nameset_has(names, numbered(0)) && !nameset_has(names, numbered(1)));
    ck_assert(nameset_has(names, numbered(2)) && coord_taken_has(&c->slot[0], "a\t1"));
    gone(5); /* the names have moved meanwhile */
    ck_assert_uint_eq(coord_taken_room(&c->slot[0]), 0);
    end();
}
END_TEST

/* In any round only the newest figures exist, each at a place of its own. */
START_TEST(figures_of_old_rounds_go)
{
    bool taken[COORD_ROUNDS_KEPT] = {false};
    begin(PHASE_GROW);
    c->slot[0].at.epoch = COORD_ROUNDS_KEPT;
    ck_assert_uint_eq(coord_epoch_first(&c->slot[0]), 1);
    c->slot[0].at.epoch = 7 * COORD_ROUNDS_KEPT + 3;
    ck_assert_uint_eq(coord_epoch_first(&c->slot[0]), 6 * COORD_ROUNDS_KEPT + 4);
    for (uint32_t n = coord_epoch_first(&c->slot[0]); n <= c->slot[0].at.epoch; n++) {
        uint32_t slot = coord_epoch_slot(&c->slot[0], n);
        ck_assert(slot < COORD_ROUNDS_KEPT && !taken[slot]);
        taken[slot] = true;
    }
    end();
}
END_TEST

START_TEST(evaluations_of_old_rounds_go)
{
    struct measure m = {0};
    struct metric mean;
    struct err e;
    begin(PHASE_EVAL);
    struct coord_job *j = &c->slot[0];
    j->spec.model.task_weight[0] = 1;
    m.metric[0] = (struct metric){.auc = 0.5, .examples = 10};
    for (uint32_t n = 1; n <= 5 * COORD_ROUNDS_KEPT / 2; n++) {
        j->at.epoch = n;
        j->grow->at.before_batches = n - 1;
        j->grow->at.before_rows = j->at.train_rows;
        j->grow->at.batches = 1;
        j->at.split[WIRE_TRAIN].rows = 10;
        j->at.train_rows += 10;
        j->epoch[coord_epoch_slot(j, n)].number = j->at.number; /* it is over */
        m.metric[0].auc = n;
        ck_assert(coord_judge_note(&c->slot[0], &m, 0));
        ck_assert_uint_le(j->valid->count, 2 * COORD_ROUNDS_KEPT);
        ck_assert_uint_eq(j->valid->item[j->valid->count - 1].batches, n);
    }
    ck_assert_uint_eq(j->valid->count, 3 * COORD_ROUNDS_KEPT / 2);
    /* a restarted coordinator has the same */
    uint32_t count = j->valid->count;
    free(j->valid->item);
    *j->valid = (struct coord_evaluations){0};
    ck_assert_int_eq(coord_judge_load(&c->slot[0], &e), 0);
    ck_assert_uint_eq(j->valid->count, count);
    for (uint32_t n = 1; n <= count; n++) {
        ck_assert(coord_judge_mean(j, n, &mean));
        ck_assert(mean.auc == COORD_ROUNDS_KEPT + n);
    }
    end();
}
END_TEST

START_TEST(a_list_that_fails_is_made_again)
{
    char text[ERR_TEXT_MAX];
    struct wire w = {.id = 1};
    begin(PHASE_GROW);
    ck_assert_int_eq(question(1), 1);
    w.u.OBJECTS = (struct wire_OBJECTS){
        .listed = true, .token = token, .fail_status = SHOAL_E_DATA, .fail_text = "no route"};
    ck_assert_int_eq(ask(1, &w, "", ""), 0);
    ck_assert(coord_grow_waits(&c->slot[0], text, sizeof text));
    ck_assert(strstr(text, "no route") != NULL);
    ck_assert(!coord_grow_due(&c->slot[0], 1));
    listed("a\n");
    ck_assert(!coord_grow_waits(&c->slot[0], text, sizeof text));
    end();
}
END_TEST

/* A job that has begun to train ends in order when it is asked to stop, even while it is set up
 * again. */
START_TEST(a_job_that_trains_is_asked_to_stop)
{
    static const struct {
        enum coord_phase phase;
        uint64_t opened;
        uint32_t from;
        bool ends;
    } cases[] = {{PHASE_INDEX, 0, FROM_NOTHING, false},  {PHASE_SETUP, 0, FROM_NOTHING, false},
                 {PHASE_SETUP, 0, FROM_TO_START, false}, {PHASE_SETUP, 7, FROM_NOTHING, true},
                 {PHASE_SETUP, 0, FROM_TO_LOAD, true},   {PHASE_SETUP, 0, FROM_BACK, true},
                 {PHASE_TRAIN, 7, FROM_NOTHING, true},   {PHASE_EVAL, 7, FROM_LOADED, true},
                 {PHASE_GROW, 7, FROM_LOADED, true},     {PHASE_TEST, 7, FROM_NOTHING, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(cases[i].phase);
        c->slot[0].at.epoch = 1;
        c->slot[0].opened = cases[i].opened;
        c->slot[0].at.from = cases[i].from;
        ck_assert_msg(coord_stop_order(&c->slot[0], 1) == cases[i].ends, "case %zu", i);
        ck_assert(c->slot[0].stop.asked == cases[i].ends);
        ck_assert(!coord_stop_order(&c->slot[0], 2)); /* asked twice it ends at once */
        end();
    }
}
END_TEST

/* The bytes come from a store or a checkpoint. */
START_TEST(a_record_that_is_damaged_is_refused)
{
    char key[COORD_KEY_MAX];
    struct err e;
    begin(PHASE_GROW);
    listed("m\t1\nn\t1\n");
    listed("m\t1\nn\t1\n");
    ck_assert(takes());
    round_of(10);
    coord_grow_key(7, 1, key);
    size_t bytes = c->slot[0].grow->record_bytes;
    unsigned char *value = malloc(bytes);
    memcpy(value, c->slot[0].grow->record, bytes);
    for (size_t i = 0; i < bytes; i++) {
        value[i] ^= 0x80;
        ck_assert_int_eq(coord_store_put(c->fleet.store, key, value, bytes, &e), 0);
        int rc = coord_grow_load(&c->slot[0], &e); /* or a valid name or figure: taken */
        ck_assert(rc == 0 || rc == SHOAL_E_CORRUPT);
        value[i] ^= 0x80;
    }
    for (size_t most = 0; most < bytes; most += 7) {
        ck_assert_int_eq(coord_store_put(c->fleet.store, key, value, most, &e), 0);
        ck_assert_int_eq(coord_grow_load(&c->slot[0], &e), SHOAL_E_CORRUPT);
    }
    ck_assert_int_eq(coord_store_put(c->fleet.store, key, value, bytes, &e), 0);
    ck_assert_int_eq(coord_grow_load(&c->slot[0], &e), 0);
    c->slot[0].at.number = 8; /* another job's */
    ck_assert_int_eq(coord_grow_load(&c->slot[0], &e), SHOAL_E_CORRUPT);
    free(value);
    end();
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

static void begin_streams(enum coord_phase phase)
{
    begin(phase);
    c->slot[0].spec.data.kafka.on = true;
    streams = "kafka:c/0@100-160\nkafka:c/1@7-7\n";
    last = false;
}

static uint64_t position(const char *stream)
{
    return positions_find(&coord_taken_names(&c->slot[0])->positions, stream)->to;
}

START_TEST(ranges_are_taken_from_the_first_list)
{
    begin_streams(PHASE_GROW);
    listed("kafka:c/0@100-150\nkafka:c/0@150-160\n");
    ck_assert_uint_eq(position("kafka:c/0"), 100); /* begun, and known from now on */
    ck_assert_uint_eq(position("kafka:c/1"), 7);
    ck_assert(takes());
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
    round_of(10);
    ck_assert_uint_eq(position("kafka:c/0"), 160);
    ck_assert_uint_eq(coord_taken_count(&c->slot[0]), 0); /* ranges take no names */
    ck_assert(!takes());
    end();
}
END_TEST

/* A list that was made before a round was taken, a gap, and another cluster. */
START_TEST(ranges_that_do_not_follow_are_left_alone)
{
    begin_streams(PHASE_GROW);
    listed("kafka:c/0@100-150\n");
    ck_assert(takes());
    round_of(10);
    listed("kafka:c/0@100-150\n");
    ck_assert(!takes());
    listed("kafka:c/0@149-160\n");
    ck_assert(!takes());
    listed("kafka:c/0@151-160\n");
    ck_assert(!takes());
    listed("kafka:c/0@150-160\t\tother\n");
    ck_assert(!takes());
    listed("kafka:c/0@150-155\nkafka:c/0@156-160\nkafka:c/1@7-9\n");
    ck_assert(takes());
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
    round_of(10);
    ck_assert_uint_eq(position("kafka:c/0"), 155);
    ck_assert_uint_eq(position("kafka:c/1"), 9);
    end();
}
END_TEST

START_TEST(positions_are_checked)
{
    static const char *const bad[] = {"kafka:c/0@9-7\n", "kafka:c/0@1-2", "x\n"};
    begin_streams(PHASE_GROW);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        streams = bad[i];
        now += 10 * SECOND;
        ck_assert_int_eq(question(1), 1);
        ck_assert_int_eq(told(1, ""), SHOAL_E_MALFORMED);
    }
    end();
    begin(PHASE_GROW); /* a job that reads no topic */
    streams = "kafka:c/0@1-2\n";
    now += 10 * SECOND;
    ck_assert_int_eq(question(1), 1);
    ck_assert_int_eq(told(1, ""), SHOAL_E_MALFORMED);
    end();
}
END_TEST

START_TEST(a_log_with_an_end_is_over_when_all_is_learnt)
{
    begin_streams(PHASE_GROW);
    c->slot[0].at.epoch = 1;
    listed("kafka:c/0@100-160\n");
    ck_assert(!coord_grow_ended(&c->slot[0]));
    last = true;
    listed("kafka:c/0@100-160\n");
    ck_assert(!coord_grow_ended(&c->slot[0])); /* the range is not learnt */
    ck_assert(takes());
    c->slot[0].at.epoch = 0;
    round_of(10);
    ck_assert(coord_grow_ended(&c->slot[0]));
    end();
}
END_TEST

START_TEST(a_stream_is_behind_by_what_no_round_has_taken)
{
    begin_streams(PHASE_GROW);
    listed("kafka:c/0@100-150\n");
    const struct position *of = c->slot[0].grow->streams.of;
    ck_assert_uint_eq(coord_grow_behind(&c->slot[0], &of[0]), 60);
    ck_assert_uint_eq(coord_grow_behind(&c->slot[0], &of[1]), 0);
    ck_assert(takes());
    round_of(10);
    ck_assert_uint_eq(coord_grow_behind(&c->slot[0], &of[0]), 10);
    end();
}
END_TEST

/* A list may come while the round's ranges are indexed: the positions have not moved yet. */
START_TEST(ranges_are_judged_again_once_a_round_has_moved_positions)
{
    for (uint64_t rows = 0; rows <= 10; rows += 10) {
        begin_streams(PHASE_GROW);
        listed("kafka:c/0@100-140\n");
        ck_assert(takes());
        listed("kafka:c/0@100-150\nkafka:c/0@150-160\n");
        round_of(rows);
        ck_assert_uint_eq(position("kafka:c/0"), 140);
        ck_assert(!takes());
        listed("kafka:c/0@140-150\nkafka:c/0@150-160\n");
        ck_assert(takes());
        ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 2);
        listed("kafka:c/0@140-150\nkafka:c/0@150-160\nkafka:c/0@160-165\n");
        round_of(10);
        ck_assert_uint_eq(position("kafka:c/0"), 160);
        ck_assert(takes()); /* the rest of the list follows */
        ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 1);
        end();
    }
}
END_TEST

/* The round is given up, and the job goes on with the next list. */
START_TEST(a_round_that_does_not_follow_is_listed_again)
{
    struct err e;
    bool is_told;
    begin_streams(PHASE_GROW);
    streams = "kafka:c/0@100-160\nkafka:c/1@7-9\n";
    listed("kafka:c/0@100-140\nkafka:c/1@7-9\n");
    ck_assert(takes());
    struct position moved = {.stream = "kafka:c/1", .from = 7, .to = 8};
    ck_assert_int_eq(positions_put(&c->slot[0].space->taken->is.positions, &moved), 0);
    ck_assert_int_eq(coord_taken_round(&c->slot[0], 1, &is_told, &e), SHOAL_E_CORRUPT);
    ck_assert(!is_told);
    ck_assert_uint_eq(position("kafka:c/0"), 100); /* all or none */
    coord_grow_again(&c->slot[0]);
    ck_assert(!takes());
    ck_assert_int_eq(question(1), 1); /* at once */
    ck_assert_int_eq(told(1, "kafka:c/0@100-140\nkafka:c/1@8-9\n"), 0);
    ck_assert(takes());
    round_of(10);
    ck_assert_uint_eq(position("kafka:c/0"), 140);
    ck_assert_uint_eq(position("kafka:c/1"), 9);
    end();
}
END_TEST

/* The last list was made with the positions before a round, and lands behind it. */
START_TEST(a_late_list_does_not_end_the_log)
{
    begin_streams(PHASE_GROW);
    listed("kafka:c/0@100-150\n");
    ck_assert(takes());
    round_of(10);
    last = true;
    listed("kafka:c/0@100-160\n");
    ck_assert(!takes());
    ck_assert(!coord_grow_ended(&c->slot[0]));
    listed("kafka:c/0@150-160\n");
    ck_assert(takes());
    round_of(10);
    ck_assert(coord_grow_ended(&c->slot[0]));
    end();
}
END_TEST

START_TEST(ranges_need_no_room_for_names)
{
    begin_streams(PHASE_GROW);
    struct nameset *names = &c->slot[0].space->taken->is.names;
    for (uint32_t i = 0; i < NAMESET_MAX; i++)
        ck_assert_int_eq(nameset_add(names, numbered(i)), 0);
    listed("kafka:c/0@100-150\n");
    c->slot[0].space->taken->counted = true;
    gone(5);
    ck_assert(takes());
    round_of(10);
    ck_assert_uint_eq(names->count, NAMESET_MAX); /* no name goes for a range */
    listed("a\t1\nkafka:c/0@150-160\n");
    listed("a\t1\nkafka:c/0@150-160\n");
    ck_assert(takes());
    ck_assert_uint_eq(c->slot[0].objects[WIRE_TRAIN].count, 1); /* there is none for a name */
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_grow");
    TCase *t = tcase_create("grow");
    tcase_add_test(t, what_two_lists_say_is_taken);
    tcase_add_test(t, a_first_object_that_is_written_is_waited_for);
    tcase_add_test(t, a_first_object_with_lines_is_waited_for);
    tcase_add_test(t, a_list_that_is_told_twice_is_one);
    tcase_add_test(t, each_is_taken_once_and_a_lesser_name_too);
    tcase_add_test(t, empty_objects_are_taken_without_a_round);
    tcase_add_test(t, names_are_remembered_within_bounds);
    tcase_add_test(t, figures_of_old_rounds_go);
    tcase_add_test(t, evaluations_of_old_rounds_go);
    tcase_add_test(t, a_list_that_fails_is_made_again);
    tcase_add_test(t, a_job_that_trains_is_asked_to_stop);
    tcase_add_test(t, a_record_that_is_damaged_is_refused);
    tcase_add_test(t, ranges_are_taken_from_the_first_list);
    tcase_add_test(t, ranges_that_do_not_follow_are_left_alone);
    tcase_add_test(t, positions_are_checked);
    tcase_add_test(t, a_log_with_an_end_is_over_when_all_is_learnt);
    tcase_add_test(t, a_stream_is_behind_by_what_no_round_has_taken);
    tcase_add_test(t, ranges_are_judged_again_once_a_round_has_moved_positions);
    tcase_add_test(t, a_round_that_does_not_follow_is_listed_again);
    tcase_add_test(t, a_late_list_does_not_end_the_log);
    tcase_add_test(t, ranges_need_no_room_for_names);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
