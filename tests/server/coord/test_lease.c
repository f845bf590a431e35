/* test_lease.c: the log of leases tells which worker had a batch. It is bounded, and survives
 * epochs and restarts. */
#include "server/coord/job/slot.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct coord *c;

/* A coordinator with nothing but lanes, tasks and a store. */
static void begin(uint32_t lanes)
{
    struct err e;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.store = coord_store_memory();
    c->slot[0].store = c->fleet.store;
    ck_assert_ptr_nonnull(c->fleet.store);
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, lanes, WIRE_ASYNC, &e), 0);
    ck_assert_int_eq(coord_lease_open(c->slot[0].leases, c->fleet.store, &e), 0);
    c->slot[0].at.run = 5;
}

static void again(void)
{
    struct err e;
    coord_lease_close(c->slot[0].leases);
    ck_assert_int_eq(coord_lease_open(c->slot[0].leases, c->fleet.store, &e), 0);
}

static void end(void)
{
    coord_task_close(c->slot[0].tasks);
    coord_lease_close(c->slot[0].leases);
    coord_store_close(c->fleet.store);
    free(c);
}

/* Grants the lane's next task to a worker. */
static void task(uint32_t lane, uint64_t worker)
{
    struct coord_tasks *t = c->slot[0].tasks;
    if (t->lane[lane].state == LANE_FREE) {
        coord_lane_grant(t, lane, worker);
        coord_lane_granted(t, lane, t->lane[lane].next_batch - 1);
    }
    ck_assert_uint_ne(coord_task_append(t, lane), COORD_NO_TASK);
    ck_assert(coord_lease_note(&c->slot[0], lane));
}

static const struct coord_lease *find(uint32_t lane, uint64_t generation, uint64_t batch)
{
    const struct wire_batch_name name = {generation, batch, lane, 0};
    return coord_lease_find(c->slot[0].leases, 5, &name);
}

START_TEST(a_batch_leads_to_its_worker_and_rows)
{
    struct err e;
    begin(2);
    /* 20 tasks of 5 batches */
    ck_assert_int_eq(coord_task_plan(c->slot[0].tasks, 1, &(struct coord_segment){.rows = 1000}, 1,
                                     10, 5, 0, &e),
                     0);
    task(0, 7);
    task(1, 8);
    coord_task_pushed(c->slot[0].tasks, 0);
    task(0, 7);
    again();
    /* the first batch of the lane's second task, the third task of all */
    const struct coord_lease *at = find(0, 1, 6);
    ck_assert_ptr_nonnull(at);
    ck_assert_uint_eq(at->worker, 7);
    ck_assert_uint_eq(at->position, 100);
    ck_assert_uint_eq(at->rows, 50);
    ck_assert_uint_eq(at->task_first, 6);
    ck_assert_uint_eq(at->epoch, 1);
    ck_assert_uint_eq(find(1, 1, 5)->worker, 8);
    ck_assert_ptr_null(find(1, 1, 6));
    ck_assert_ptr_null(find(0, 2, 6));
    ck_assert_ptr_null(
        coord_lease_find(c->slot[0].leases, 6, &(struct wire_batch_name){1, 6, 0, 0}));
    end();
}
END_TEST

/* ---- questions about batches ---- */

static peer_t asker;
static char answered[1024];
static void node_on_message(void *core, peer_t from, struct msg *m)
{
    if (core == NULL) /* the coordinator's */
        asker = from;
    else
        snprintf(answered, sizeof answered, "%.*s", (int)m->frame[1].bytes,
                 (const char *)m->frame[1].data);
    msg_free(m);
}

static void nothing(void *core)
{
    (void)core;
}

static const struct env_handler node_handler = {.on_message = node_on_message,
                                                .on_drained = nothing};

static struct sim *net;

/* Coordinator and client are connected. */
static void net_make(void)
{
    static char core;
    peer_t to;
    struct wire hello = {.type = WIRE_TYPE_HELLO};
    net = sim_new(&(struct sim_options){.seed = 1});
    struct sim_node *node = sim_node_new(net, "coordinator", &node_handler, NULL),
                    *client = sim_node_new(net, "client", &node_handler, &core);
    c->fleet.env = sim_node_env(node);
    sim_listen(node, "sim://coordinator");
    ck_assert_int_eq(env_connect(sim_node_env(client), "sim://coordinator", ENV_COORDINATOR, &to),
                     0);
    ck_assert_int_eq(env_send(sim_node_env(client), to, wire_encode(&hello)), 0);
    sim_run(net, 1000000, NULL, NULL);
}

/* Returns the answer as text. */
static const char *who(uint64_t run, struct wire_batch_name *name, uint32_t count)
{
    static struct coord_ask a;
    struct msg *m = msg_new();
    struct wire w = {.type = WIRE_TYPE_WHO, .id = 9};
    ck_assert_ptr_nonnull(msg_add(m, 0));
    memcpy(msg_add(m, count * sizeof *name), name, count * sizeof *name);
    w.u.WHO = (struct wire_WHO){run, count};
    memset(&a, 0, sizeof a);
    a.from = asker;
    a.request = &w;
    a.m = m;
    wire_reply_to(&w, 0, &a.reply);
    ck_assert_int_eq(coord_lease_who(&c->slot[0], &a), 0);
    ck_assert(a.silent);
    msg_free(m);
    answered[0] = 0;
    sim_run(net, sim_now_ns(net) + 1000000, NULL, NULL);
    return answered;
}

/* Answers come in the order of the question; null for another run, and for a batch that no worker
 * had. */
START_TEST(batches_are_told_as_they_were_asked_for)
{
    struct err e;
    struct wire_batch_name all[] = {{1, 10, 0, 0}, {1, 5, 1, 0}, {1, 6, 1, 0}, {1, 1, 0, 0}},
                           two[] = {{1, 5, 1, 0}, {1, 1, 0, 0}};
    begin(2);
    net_make();
    ck_assert_int_eq(
        coord_task_plan(c->slot[0].tasks, 1, &(struct coord_segment){.rows = 145}, 1, 10, 5, 0, &e),
        0);
    task(0, 7);
    task(1, 8);
    coord_task_pushed(c->slot[0].tasks, 0);
    task(0, 7);
#define LINE(worker, task, position, rows)                                                         \
    "{\"worker\": " #worker ", \"name\": \"\", \"task\": " #task                                   \
    ", \"epoch\": 1, \"position\": " #position ", \"rows\": " #rows "}"
    ck_assert_str_eq(who(5, all, 4), "[" LINE(7, 2, 140, 5) ", " LINE(8, 1, 90, 10) ", null, " LINE(
                                         7, 0, 0, 10) "]");
    ck_assert_str_eq(who(5, two, 2), "[" LINE(8, 1, 90, 10) ", " LINE(7, 0, 0, 10) "]");
    ck_assert_str_eq(who(6, two, 2), "[null, null]");
    end();
    sim_free(net);
}
END_TEST

/* A growing log has another list of objects in each round: only the round's own list turns a
 * position into an object. Any other log has one list for all epochs. */
START_TEST(position_of_another_round_names_no_object)
{
    struct err e;
    struct wire_batch_name asked[] = {{1, 1, 0, 0}};
    struct coord_object object[] = {{.line = "a", .rows = 5}, {.line = "b", .rows = 95, .base = 5}};
    begin(1);
    net_make();
    struct coord_job *j = &c->slot[0];
    ck_assert_int_eq(
        coord_task_plan(j->tasks, 1, &(struct coord_segment){.rows = 100}, 1, 10, 5, 0, &e), 0);
    task(0, 7);
    j->objects[WIRE_TRAIN].object = object;
    j->objects[WIRE_TRAIN].count = 2;
    j->parsed = true;
    for (uint32_t grow = 0; grow < 2; grow++)
        for (uint32_t epoch = 1; epoch < 3; epoch++)
            for (uint32_t phase = PHASE_TRAIN; phase <= PHASE_GROW; phase++) {
                bool own = grow == 0 || (epoch == 1 && phase != PHASE_GROW);
                j->spec.data.objects.grow_ms = grow;
                j->at.epoch = epoch;
                j->at.phase = phase;
                ck_assert_int_eq(strstr(who(5, asked, 1), "\"object\": \"a\"") != NULL, own);
            }
    end();
    sim_free(net);
}
END_TEST

START_TEST(who_takes_over_begins_behind_the_mark)
{
    struct err e;
    begin(1);
    struct coord_tasks *t = c->slot[0].tasks;
    ck_assert_int_eq(coord_task_plan(t, 1, &(struct coord_segment){.rows = 1000}, 1, 10, 10, 0, &e),
                     0);
    task(0, 7);
    coord_lane_close(t, 0); /* dies with 4 of 10 batches done */
    coord_lane_closed(t, 0);
    coord_lane_grant(t, 0, 9);
    coord_lane_granted(t, 0, 4);
    ck_assert(coord_lease_note(&c->slot[0], 0));
    uint64_t serial = c->slot[0].leases->serial;
    ck_assert(coord_lease_note(&c->slot[0], 0)); /* repeated */
    ck_assert_uint_eq(c->slot[0].leases->serial, serial);
    ck_assert_uint_eq(find(0, 1, 4)->worker, 7);
    ck_assert_ptr_null(find(0, 3, 4));
    ck_assert_uint_eq(find(0, 3, 5)->worker, 9);
    ck_assert_uint_eq(find(0, 3, 5)->task_first, 1);
    end();
}
END_TEST

START_TEST(the_log_is_bounded)
{
    struct err e;
    begin(1);
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        ck_assert_int_eq(coord_task_plan(c->slot[0].tasks, epoch,
                                         &(struct coord_segment){.rows = 10000}, 1, 1, 1, 0, &e),
                         0);
        for (uint32_t i = 0; i < 10000; i++) {
            task(0, 7);
            coord_task_pushed(c->slot[0].tasks, 0);
        }
    }
    again();
    ck_assert_uint_eq(c->slot[0].leases->serial, 30000);
    ck_assert_uint_eq(find(0, 1, 30000)->epoch, 3);
    ck_assert_uint_eq(find(0, 1, 30000 - COORD_LEASES + 1)->position, 30000 - COORD_LEASES - 10000);
    ck_assert_ptr_null(find(0, 1, 30000 - COORD_LEASES));
    end();
}
END_TEST

START_TEST(damaged_entries_are_left_out)
{
    struct err e;
    begin(1);
    ck_assert_int_eq(
        coord_task_plan(c->slot[0].tasks, 1, &(struct coord_segment){.rows = 100}, 1, 1, 1, 0, &e),
        0);
    task(0, 7);
    ck_assert_int_eq(coord_store_put(c->fleet.store, "lease/2", "short", 5, &e), 0);
    struct coord_lease wrong = {.serial = 9, .batch = 1}; /* belongs into another slot */
    ck_assert_int_eq(coord_store_put(c->fleet.store, "lease/3", &wrong, sizeof wrong, &e), 0);
    again();
    ck_assert_uint_eq(c->slot[0].leases->serial, 1);
    ck_assert_ptr_nonnull(find(0, 1, 1));
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_lease");
    TCase *t = tcase_create("coord_lease");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_batch_leads_to_its_worker_and_rows);
    tcase_add_test(t, batches_are_told_as_they_were_asked_for);
    tcase_add_test(t, position_of_another_round_names_no_object);
    tcase_add_test(t, who_takes_over_begins_behind_the_mark);
    tcase_add_test(t, the_log_is_bounded);
    tcase_add_test(t, damaged_entries_are_left_out);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
