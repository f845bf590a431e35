/* test_doctor_cluster.c: the checks of `shoal doctor --cluster` on a status and on answers of
 * daemons: a healthy cluster has no problem and no note; each planted fault has its sentence. */
#include "deploy/cli/doctor_cluster.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILD SHOAL_VERSION " 1111aaaa2222"
#define OTHER SHOAL_VERSION " 3333bbbb4444"

/* ---- the cluster ---- */

enum { SERVERS = 2, WORKERS = 2 };
static struct json *status;
static struct doctor_met met[SERVERS];
static struct doctor_view view;
static struct doctor_report report;

static struct json *server(int i)
{
    return json_array_at(json_get(status, "servers"), (size_t)i);
}

static struct json *worker(int i)
{
    return json_array_at(json_get(status, "workers"), (size_t)i);
}

static struct json *cluster(void)
{
    return json_get(status, "cluster");
}

static void setup(void)
{
    struct json *servers = json_new_array(), *workers = json_new_array(), *cl = json_new_object();
    status = json_new_object();
    json_set_string(cl, "id", "00000000000000010000000000000002");
    json_set_int(cl, "shards", SERVERS);
    json_set_int(cl, "map_epoch", 3);
    json_set_int(cl, "tablets", 64);
    json_set_bool(cl, "names", true);
    for (int i = 0; i < SERVERS; i++) {
        struct json *s = json_new_object();
        json_set_string(s, "name", i == 0 ? "a" : "b");
        json_set_int(s, "shard", i);
        json_set_int(s, "index", 0);
        json_set_int(s, "silent_ms", 300);
        json_set_bool(s, "ready", true);
        json_set_bool(s, "placed", true);
        json_set_int(s, "map_epoch", 3);
        json_set_int(s, "tablets", 32);
        json_set_int(s, "rows", 200000);
        json_set_int(s, "rows_memory", 200000);
        json_set_int(s, "memory_max", INT64_C(8) << 30);
        json_set_int(s, "disk_max", INT64_C(100) << 30);
        json_set_int(s, "disk_bytes", INT64_C(10) << 30);
        json_append(servers, s);
        met[i] = (struct doctor_met){
            .server = i == 0 ? "a" : "b", .answers = true, .hello.version = WIRE_VERSION};
        (void)snprintf(met[i].hello.build, WIRE_BUILD, "%s", BUILD);
    }
    for (int i = 0; i < WORKERS; i++) {
        struct json *w = json_new_object();
        json_set_string(w, "name", i == 0 ? "w1" : "w2");
        json_set_string(w, "build", SHOAL_VERSION " 5555cccc6666");
        json_append(workers, w);
    }
    json_set(status, "cluster", cl);
    json_set(status, "servers", servers);
    json_set(status, "workers", workers);
    json_set(status, "problems", json_new_array());
    view = (struct doctor_view){.status = status,
                                .cluster = cl,
                                .servers = servers,
                                .workers = workers,
                                .met = met,
                                .mets = SERVERS,
                                .coordinator = {.answers = true}};
    (void)snprintf(view.coordinator.hello.build, WIRE_BUILD, SHOAL_VERSION " 7777dddd8888");
}

static void teardown(void)
{
    json_free(status);
}

/* All problems and notes of a check, with a line each. */
static const char *told(void (*check)(const struct doctor_view *v, struct doctor_report *r))
{
    static const char *const before[] = {[DOCTOR_NOTE] = "note: ", [DOCTOR_PROBLEM] = "problem: "};
    static char text[8192];
    size_t used = 0;
    text[0] = '\0';
    report = (struct doctor_report){.check = "x"};
    check(&view, &report);
    ck_assert_uint_ge(report.count, 1);
    for (uint32_t i = 0; i < report.count; i++)
        if (report.finding[i].rank != DOCTOR_FINE)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s\n",
                                     before[report.finding[i].rank], report.finding[i].text);
    return text;
}

/* ---- the checks ---- */

START_TEST(a_healthy_cluster_has_no_problem)
{
    ck_assert_str_eq(told(doctor_cluster_known), "");
    ck_assert_str_eq(told(doctor_cluster_problems), "");
    ck_assert_str_eq(told(doctor_cluster_shards), "");
    ck_assert_str_eq(told(doctor_cluster_answers), "");
    ck_assert_str_eq(told(doctor_cluster_builds), "");
    ck_assert_str_eq(told(doctor_cluster_clocks), "");
    ck_assert_str_eq(told(doctor_cluster_budgets), "");
    ck_assert_str_eq(told(doctor_cluster_room), "");
    ck_assert_str_eq(told(doctor_cluster_map), "");
}
END_TEST

START_TEST(a_cluster_that_is_not_founded_or_not_named)
{
    json_set_bool(cluster(), "names", false);
    ck_assert_str_eq(told(doctor_cluster_known),
                     "problem: not all servers have said yet what the fields of their tables are "
                     "called: wait until each is heard, or start those that are missing\n");
    json_set_string(cluster(), "id", "");
    ck_assert_str_eq(told(doctor_cluster_known),
                     "problem: no cluster yet: its 2 shards have not all come, or do not agree: "
                     "start the servers that are missing, or see in their logs why they ended\n");
}
END_TEST

/* The very list of the coordinator. */
START_TEST(the_coordinators_problems_are_told_as_they_are)
{
    struct json *seconds = json_new_array();
    json_append_string(json_get(status, "problems"), "server a is not heard: start it again");
    json_append_string(json_get(status, "problems"), "the moon is down: wait");
    json_append_number(seconds, 12.3);
    json_append_number(seconds, 0.2);
    json_set(status, "problem_seconds", seconds);
    ck_assert_str_eq(told(doctor_cluster_problems),
                     "problem: server a is not heard: start it again (found for 12 s)\n"
                     "problem: the moon is down: wait\n");
}
END_TEST

START_TEST(shards_that_do_not_serve)
{
    json_set_bool(server(1), "ready", false);
    ck_assert_str_eq(told(doctor_cluster_shards),
                     "problem: shard 1 (server b/0) reads its rows back: wait; a large store takes "
                     "minutes\n");
    json_set_bool(server(1), "ready", true);
    json_set_int(server(1), "map_epoch", 2);
    ck_assert_str_eq(told(doctor_cluster_shards),
                     "problem: shard 1 (server b/0) has an older map: wait for its next beat; if "
                     "it stays so, see its log\n");
    json_set_string(server(1), "name", "");
    ck_assert_str_eq(told(doctor_cluster_shards),
                     "problem: shard 1 (server ?/0) has not come: start its server, or see in its "
                     "log why it ended\n");
    json_set_string(server(1), "name", "b"); /* the coordinator's problems tell of silence */
    json_set_int(server(1), "silent_ms", 20000);
    ck_assert_str_eq(told(doctor_cluster_shards), "");
    ck_assert_str_eq(doctor_cluster_state(server(1), cluster())->text, "silent");
}
END_TEST

START_TEST(servers_that_do_not_answer_this_machine)
{
    met[0].answers = false;
    (void)snprintf(met[0].wrong.text, sizeof met[0].wrong.text, "no answer within 3 s");
    ck_assert_str_eq(told(doctor_cluster_answers),
                     "problem: server a/0 does not answer this machine, though it beats to the "
                     "coordinator: no answer within 3 s; see firewalls and routes between the two, "
                     "and `advertise` in the server's file\n");
    met[0].unasked = 29;
    ck_assert_ptr_nonnull(strstr(told(doctor_cluster_answers),
                                 ": no answer within 3 s (its other shards, 29, were not asked); "
                                 "see firewalls"));
    ck_assert_uint_eq(report.problems, 1);
}
END_TEST

/* A server that leads no shard is known by its copies alone. */
START_TEST(a_server_that_only_follows_is_compared_too)
{
    json_set(status, "servers", json_new_array());
    view.servers = json_get(status, "servers");
    (void)snprintf(met[1].hello.build, WIRE_BUILD, "0.9.1 9999eeee0000");
    ck_assert_ptr_nonnull(strstr(told(doctor_cluster_builds), "server b has version 0.9.1"));
    met[1].ahead_s = 40;
    ck_assert_ptr_nonnull(strstr(told(doctor_cluster_clocks), "server b is 40 s ahead"));
    met[1].answers = false;
    met[1].index = 3;
    ck_assert_ptr_nonnull(strstr(told(doctor_cluster_answers), "server b/3 does not answer"));
}
END_TEST

START_TEST(shards_of_one_server_in_one_state_are_told_once)
{
    for (int i = 2; i < 31; i++) {
        struct json *s = json_new_object();
        json_set_string(s, "name", "b");
        json_set_int(s, "shard", i);
        json_set_int(s, "index", i - 1);
        json_set_int(s, "silent_ms", 300);
        json_append(json_get(status, "servers"), s);
    }
    json_set_bool(server(0), "ready", false);
    json_set_bool(server(1), "ready", false);
    ck_assert_str_eq(told(doctor_cluster_shards),
                     "problem: shard 0 (server a/0) reads its rows back: wait; a large store takes "
                     "minutes\n"
                     "problem: shard 1 (server b/0, and 29 more) reads its rows back: wait; a "
                     "large store takes minutes\n");
}
END_TEST

/* What an operator has chosen is no problem. */
START_TEST(notes_of_the_coordinator_are_notes)
{
    struct json *notes = json_new_array();
    json_append_string(notes,
                       "server b is drained (shards: 2), and no job needs it: switch it off");
    json_set(status, "notes", notes);
    ck_assert_str_eq(told(doctor_cluster_notes),
                     "note: server b is drained (shards: 2), and no job "
                     "needs it: switch it off\n");
    ck_assert_uint_eq(report.problems, 0);
}
END_TEST

START_TEST(daemons_of_other_versions_and_builds)
{
    (void)snprintf(met[1].hello.build, WIRE_BUILD, "0.9.1 9999eeee0000");
    ck_assert_str_eq(told(doctor_cluster_builds),
                     "problem: server b has version 0.9.1, and the coordinator " SHOAL_VERSION
                     ": install one release on all machines, and restart what is older\n");
    (void)snprintf(met[1].hello.build, WIRE_BUILD, "%s", OTHER);
    ck_assert_str_eq(told(doctor_cluster_builds),
                     "problem: servers a and b have version " SHOAL_VERSION
                     " from two builds (1111aaaa2222, 3333bbbb4444): install the same packages on "
                     "both, and restart them\n");
    (void)snprintf(met[1].hello.build, WIRE_BUILD, "%s", BUILD);
    json_set_string(worker(1), "build", OTHER);
    ck_assert_str_eq(told(doctor_cluster_builds),
                     "problem: workers w1 and w2 have version " SHOAL_VERSION
                     " from two builds (5555cccc6666, 3333bbbb4444): install the same packages on "
                     "both, and restart them\n");
    json_set_string(worker(1), "build", "");
    ck_assert_str_eq(told(doctor_cluster_builds),
                     "problem: worker w2 does not tell its version, so it is older than the "
                     "coordinator's, " SHOAL_VERSION
                     ": install one release on all machines, and restart it\n");
    json_set_string(worker(1), "build", SHOAL_VERSION " 5555cccc6666");
    (void)snprintf(view.coordinator.hello.build, WIRE_BUILD, "0.9.1 7777dddd8888");
    ck_assert_ptr_nonnull(strstr(told(doctor_cluster_builds),
                                 "problem: this command has version " SHOAL_VERSION
                                 ", and the coordinator 0.9.1: install one release"));
    ck_assert_uint_eq(report.problems, 5); /* and servers and workers */
}
END_TEST

/* Two shards of one server are one daemon. A server that was not asked tells nothing. */
START_TEST(a_server_is_named_once_and_only_when_asked)
{
    (void)snprintf(met[1].hello.build, WIRE_BUILD, "0.9.1 9999eeee0000");
    met[1].server = "a";
    ck_assert_str_eq(told(doctor_cluster_builds), "");
    met[1].server = "b";
    met[1].hello.version = 0;
    ck_assert_str_eq(told(doctor_cluster_builds), "");
}
END_TEST

START_TEST(calendars_that_differ)
{
    view.coordinator.ahead_s = met[0].ahead_s = 7;
    met[1].ahead_s = (double)NAN;
    ck_assert_str_eq(told(doctor_cluster_clocks),
                     "problem: the calendar of this machine is 7 s behind the coordinator's: run a "
                     "time service (chrony) on both; event times and the times in logs would "
                     "differ\n");
    view.coordinator.ahead_s = met[0].ahead_s = 0;
    met[1].ahead_s = -40;
    json_set_int(worker(0), "clock_ahead_s", 86400);
    ck_assert_str_eq(told(doctor_cluster_clocks),
                     "problem: the calendar of server b is 40 s behind the coordinator's: run a "
                     "time service (chrony) on both; event times and the times in logs would "
                     "differ\n"
                     "problem: the calendar of worker w1 is 86400 s ahead of the coordinator's: "
                     "run a time service (chrony) on both; event times and the times in logs would "
                     "differ\n");
}
END_TEST

START_TEST(budgets_that_differ)
{
    json_set_int(server(1), "memory_max", INT64_C(2) << 30);
    ck_assert_str_eq(told(doctor_cluster_budgets),
                     "note: memory: server a has 8.0 GiB for a shard, and server b 2.0 GiB, whose "
                     "memory is full first: give both the same\n");
    json_set_int(server(1), "memory_max", INT64_C(8) << 30);
    json_set_int(server(0), "disk_max", INT64_C(20) << 30);
    ck_assert_str_eq(told(doctor_cluster_budgets),
                     "note: disk: server b has 100.0 GiB for a shard, and server a 20.0 GiB, whose "
                     "disk is full first: give both the same\n");
    json_set_int(server(0), "disk_max", 0); /* no bound */
    ck_assert_str_eq(told(doctor_cluster_budgets), "");
}
END_TEST

START_TEST(tables_that_outgrow_disk_or_memory)
{
    json_set_int(server(1), "disk_bytes", INT64_C(95) << 30);
    ck_assert_str_eq(told(doctor_cluster_room),
                     "problem: server b/0 has filled 95 % of its disk (95.0 of 100.0 GiB), and "
                     "refuses pushes when it is full: raise disk in its file, or let other servers "
                     "have some (shoal add, shoal rebalance)\n");
    json_set_int(server(1), "disk_bytes", 0);
    json_set_int(server(0), "rows_store", 600000);
    ck_assert_str_eq(told(doctor_cluster_room),
                     "note: server a/0 has 75 % of its rows on disk alone: its tables are larger "
                     "than its memory, 8.0 GiB, and pulls wait for the disk: raise memory in its "
                     "file, or let other servers have some (shoal add, shoal rebalance)\n");
}
END_TEST

START_TEST(a_map_that_is_uneven)
{
    json_set_int(server(1), "tablets", 0);
    ck_assert_str_eq(
        told(doctor_cluster_map),
        "note: shard 1 (server b/0) leads no tablet: `shoal rebalance` gives it some\n");
    json_set_int(server(1), "tablets", 32);
    json_set_int(server(0), "rows", 900000);
    ck_assert_str_eq(told(doctor_cluster_map),
                     "note: shard 0 (server a/0) has 82 % of the rows of 2 shards: `shoal "
                     "rebalance --dry-run` shows what would move\n");
    json_set(cluster(), "moves", json_new_object()); /* it is being mended */
    ck_assert_str_eq(told(doctor_cluster_map), "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("doctor_cluster");
    TCase *t = tcase_create("doctor_cluster");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_healthy_cluster_has_no_problem);
    tcase_add_test(t, a_cluster_that_is_not_founded_or_not_named);
    tcase_add_test(t, the_coordinators_problems_are_told_as_they_are);
    tcase_add_test(t, shards_that_do_not_serve);
    tcase_add_test(t, servers_that_do_not_answer_this_machine);
    tcase_add_test(t, a_server_that_only_follows_is_compared_too);
    tcase_add_test(t, shards_of_one_server_in_one_state_are_told_once);
    tcase_add_test(t, notes_of_the_coordinator_are_notes);
    tcase_add_test(t, daemons_of_other_versions_and_builds);
    tcase_add_test(t, a_server_is_named_once_and_only_when_asked);
    tcase_add_test(t, calendars_that_differ);
    tcase_add_test(t, budgets_that_differ);
    tcase_add_test(t, tables_that_outgrow_disk_or_memory);
    tcase_add_test(t, a_map_that_is_uneven);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
