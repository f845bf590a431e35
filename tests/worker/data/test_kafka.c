/* test_kafka.c: a topic as a list of ranges, and a range as text, over a model of the topic. */
#include "worker/data/kafka.h"

#include "proto/job/config.h"
#include "tests/lib/topic.h"
#include "tests/lib/worker_log.h"
#include "worker/data/dataset.h"
#include "worker/data/lines.h"
#include "worker/data/object.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct job job;
static struct positions known;
static struct kafka_listed got;
static struct err e;

static void setup(void)
{
    topic_open(3);
    e = (struct err){.code = 0};
    job = (struct job){.data = {.kafka = {.on = true, .topic = "c", .brokers = "x", .range = 4},
                                .objects = {.quiet_s = 5, .tries = 2}}};
}

static void teardown(void)
{
    kafka_listed_free(&got);
    positions_close(&known);
    topic_close();
}

static void put(uint32_t partition, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        topic_put(partition, "text", 1000 + i);
}

static int list(void)
{
    kafka_listed_free(&got);
    return kafka_list(&job, &known, &got, &e);
}

/* The lines of the list, without their marks, separated by blanks. */
static const char *listed(void)
{
    static char text[8192];
    text[0] = '\0';
    ck_assert_msg(list() == 0, "%s", e.text);
    for (size_t i = 0; i < got.lines.count; i++) {
        struct position p;
        ck_assert(position_of(got.lines.item[i], &p));
        ck_assert_str_eq(p.mark, "model");
        size_t n = strlen(text);
        (void)snprintf(text + n, sizeof text - n, "%s%s:%d-%d", n > 0 ? " " : "", p.stream + 8,
                       (int)p.from, (int)p.to);
    }
    return text;
}

static void learnt(const char *stream, const char *mark, uint64_t to)
{
    struct position p = {.from = to, .to = to};
    (void)snprintf(p.stream, sizeof p.stream, "%s", stream);
    (void)snprintf(p.mark, sizeof p.mark, "%s", mark);
    ck_assert_int_eq(positions_put(&known, &p), 0);
}

START_TEST(a_topic_is_ranges_behind_the_positions)
{
    put(0, 10);
    put(2, 3);
    ck_assert_str_eq(listed(), "0:0-4 0:4-8 0:8-10 2:0-3");
    ck_assert_uint_eq(got.streams.count, 3); /* of all partitions */
    ck_assert_uint_eq(got.streams.of[0].to, 10);
    learnt("kafka:c/0", "model", 5);
    learnt("kafka:c/2", "model", 3);
    ck_assert_str_eq(listed(), "0:5-9 0:9-10");
    ck_assert_uint_eq(got.streams.of[0].from, 5);
    ck_assert(!got.last);
}
END_TEST

START_TEST(names_are_in_the_order_of_offsets)
{
    job.data.kafka.range = 1;
    put(1, 30);
    ck_assert_int_eq(list(), 0);
    for (size_t i = 0; i < got.lines.count; i++) {
        struct position p;
        ck_assert(position_of(got.lines.item[i], &p));
        ck_assert_uint_eq(p.from, i);
    }
    ck_assert_uint_eq(got.lines.count, 30);
}
END_TEST

START_TEST(a_list_is_bounded)
{
    job.data.kafka.range = 1;
    put(1, 1000);
    ck_assert_int_eq(list(), 0);
    ck_assert_uint_eq(got.lines.count, 256 / 3);
    ck_assert_uint_eq(got.streams.of[1].to, 1000);
    job.data.kafka.until_s = 100000; /* and it is not the last one */
    ck_assert_int_eq(list(), 0);
    ck_assert(!got.last);
}
END_TEST

START_TEST(latest_is_the_end_at_the_first_list)
{
    job.data.kafka.from = KAFKA_LATEST;
    put(0, 7);
    ck_assert_str_eq(listed(), "");
    ck_assert_uint_eq(got.streams.of[0].from, 7);
    learnt("kafka:c/0", "model", 7);
    learnt("kafka:c/1", "model", 0);
    learnt("kafka:c/2", "model", 0);
    put(0, 2);
    topic_grow(4); /* a partition that came after the first list is new as a whole */
    put(3, 2);
    ck_assert_str_eq(listed(), "0:7-9 3:0-2");
}
END_TEST

START_TEST(a_time_is_the_first_message_that_is_not_older)
{
    job.data.kafka.from = KAFKA_TIME;
    job.data.kafka.from_s = 1003;
    put(0, 6);
    put(1, 2);
    ck_assert_str_eq(listed(), "0:3-6");
    ck_assert_uint_eq(got.streams.of[1].from, 2);
}
END_TEST

START_TEST(until_ends_the_list)
{
    job.data.kafka.until_s = 1004; /* long ago: later messages are not waited for */
    put(0, 6);
    put(1, 2);
    ck_assert_str_eq(listed(), "0:0-4 1:0-2");
    ck_assert(got.last);
    job.data.kafka.until_s = UINT32_MAX;
    ck_assert_str_eq(listed(), "0:0-4 0:4-6 1:0-2");
    ck_assert(!got.last);
}
END_TEST

/* A message that comes while the end is looked for may be one before that time. */
START_TEST(a_message_that_comes_meanwhile_is_listed)
{
    job.data.kafka.until_s = 1004;
    put(0, 2);
    topic_put_later(0, "text", 1002);
    ck_assert_int_eq(list(), 0);
    ck_assert(!got.last);
    ck_assert_str_eq(listed(), "0:0-3");
    ck_assert(got.last);
    topic_put_later(0, "text", 1005);
    ck_assert_str_eq(listed(), "0:0-3"); /* and never one behind it */
    ck_assert_str_eq(listed(), "0:0-3");
    ck_assert(got.last);
}
END_TEST

START_TEST(what_is_gone_is_a_range_that_fails)
{
    struct cache cache;
    struct source s;
    put(0, 10);
    topic_cut(0, 6);
    ck_assert_str_eq(listed(), "0:6-10"); /* earliest is what is kept */
    learnt("kafka:c/0", "model", 2);
    ck_assert_str_eq(listed(), "0:2-6 0:6-10");
    worker_folder_make();
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
    ck_assert_int_eq(object_open(&job, WIRE_TRAIN, got.lines.item[0], &cache, &s, &e),
                     SHOAL_E_DATA); /* at once: it does not come again */
    ck_assert_msg(strstr(e.text, "are gone") != NULL, "%s", e.text);
    worker_folder_remove();
}
END_TEST

START_TEST(another_cluster_is_refused)
{
    put(0, 10);
    learnt("kafka:c/0", "former", 4);
    ck_assert_int_eq(list(), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "of cluster former") != NULL, "%s", e.text);
    job.data.objects.all_new = true; /* said by hand */
    ck_assert_str_eq(listed(), "0:0-4 0:4-8 0:8-10");
}
END_TEST

START_TEST(a_topic_that_was_made_anew_is_refused)
{
    put(0, 3);
    learnt("kafka:c/0", "model", 4);
    ck_assert_int_eq(list(), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "made anew") != NULL, "%s", e.text);
}
END_TEST

START_TEST(a_range_is_a_line_for_each_offset)
{
    struct cache cache;
    struct source s;
    char text[64] = "";
    topic_put(0, "a", 0);
    topic_put(0, NULL, 0); /* the marker of a transaction */
    topic_put(0, "", 0);
    topic_put(0, "b\n", 0);
    topic_put(0, "c", 0);
    topic_put(0, NULL, 0);
    job.data.kafka.range = 100;
    ck_assert_int_eq(list(), 0);
    worker_folder_make();
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
    ck_assert_msg(object_open(&job, WIRE_TRAIN, got.lines.item[0], &cache, &s, &e) == 0, "%s",
                  e.text);
    ck_assert_int_gt(pread(s.file[0].fd, text, sizeof text - 1, 0), 0);
    ck_assert_str_eq(text, "a\n\n\nb\nc\n\n");
    source_close(&s);
    topic_away(true); /* it is found in the folder */
    ck_assert_int_eq(object_open(&job, WIRE_TRAIN, got.lines.item[0], &cache, &s, &e), 0);
    source_close(&s);
    worker_folder_remove();
}
END_TEST

START_TEST(a_row_ends_with_its_message)
{
    struct cache cache;
    struct source s;
    struct lines l;
    struct line line;
    const struct row_form csv = {.framing = FRAMING_CSV, .delimiter = ",", .columns = 3};
    topic_put(0, "1,\"u2", 0);
    topic_put(0, "x\",s2", 0);
    ck_assert_int_eq(list(), 0);
    worker_folder_make();
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
    ck_assert_int_eq(lines_init(&l, &e), 0);
    for (int i = 0; i < 2; i++) { /* once fetched, and once found in the folder */
        ck_assert_int_eq(object_open(&job, WIRE_TRAIN, got.lines.item[0], &cache, &s, &e), 0);
        lines_start(&l, &s, csv, 0, s.bytes, 0);
        ck_assert_int_eq(lines_next(&l, &line, &e), 0);
        ck_assert_uint_eq(line.bytes, strlen("1,\"u2"));
        ck_assert_int_eq(lines_next(&l, &line, &e), 0);
        ck_assert_uint_eq(line.number, 2);
        ck_assert_int_eq(lines_next(&l, &line, &e), SHOAL_E_END);
        source_close(&s);
    }
    lines_free(&l);
    worker_folder_remove();
}
END_TEST

START_TEST(brokers_that_stay_away_leave_no_object_out)
{
    struct cache cache;
    struct source s;
    put(0, 1);
    ck_assert_int_eq(list(), 0);
    topic_away(true);
    worker_folder_make();
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
    ck_assert_int_eq(object_open(&job, WIRE_TRAIN, got.lines.item[0], &cache, &s, &e), SHOAL_E_IO);
    ck_assert_msg(strstr(e.text, "tried 2 times") != NULL, "%s", e.text);
    worker_folder_remove();
}
END_TEST

START_TEST(the_stream_follows_the_archive)
{
    struct nameset taken = {.count = 0};
    struct dataset_listed l;
    char path[512], *item[] = {path, "kafka:c"};
    worker_folder_make();
    worker_write("archive.tsv", "1\n", 2);
    (void)snprintf(path, sizeof path, "%s", worker_path("archive.tsv"));
    (void)snprintf(job.data.cache, sizeof job.data.cache, "%s", worker_path("cache"));
    job.data.train = (struct string_list){item, 2};
    job.data.objects.of[WIRE_TRAIN].on = true;
    job.data.objects.grow_ms = 1000;
    put(0, 3);
    ck_assert_msg(dataset_objects_again(&job, &taken, &known, false, &l, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(l.lines.count, 1);
    ck_assert(strncmp(l.lines.item[0], path, strlen(path)) == 0);
    ck_assert_uint_eq(l.streams.count, 3); /* but its begin is known from now on */
    dataset_listed_free(&l);
    ck_assert_int_eq(nameset_add(&taken, nameset_item(path, strlen(path))), 0);
    ck_assert_int_eq(dataset_objects_again(&job, &taken, &known, false, &l, &e), 0);
    ck_assert_uint_eq(l.lines.count, 1);
    ck_assert(strncmp(l.lines.item[0], "kafka:c/0@", 10) == 0);
    dataset_listed_free(&l);
    nameset_close(&taken);
    worker_folder_remove();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kafka");
    TCase *c = tcase_create("kafka");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_topic_is_ranges_behind_the_positions);
    tcase_add_test(c, names_are_in_the_order_of_offsets);
    tcase_add_test(c, a_list_is_bounded);
    tcase_add_test(c, latest_is_the_end_at_the_first_list);
    tcase_add_test(c, a_time_is_the_first_message_that_is_not_older);
    tcase_add_test(c, until_ends_the_list);
    tcase_add_test(c, a_message_that_comes_meanwhile_is_listed);
    tcase_add_test(c, what_is_gone_is_a_range_that_fails);
    tcase_add_test(c, another_cluster_is_refused);
    tcase_add_test(c, a_topic_that_was_made_anew_is_refused);
    tcase_add_test(c, a_range_is_a_line_for_each_offset);
    tcase_add_test(c, a_row_ends_with_its_message);
    tcase_add_test(c, brokers_that_stay_away_leave_no_object_out);
    tcase_add_test(c, the_stream_follows_the_archive);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
