/* test_positions.c: names of ranges, positions of streams, and their text. */
#include "proto/base/positions.h"

#include "proto/base/err.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct position at(const char *stream, uint64_t from, uint64_t to)
{
    struct position p = {.mark = "lkc-1", .from = from, .to = to};
    (void)snprintf(p.stream, sizeof p.stream, "%s", stream);
    return p;
}

START_TEST(a_line_is_read_as_it_was_written)
{
    char line[POSITION_LINE], again[POSITION_LINE];
    struct position p, q = at("kafka:clicks/3", 1000, 1537);
    position_line(&q, line);
    ck_assert_str_eq(line, "kafka:clicks/3@000000001000-000000001537\t\tlkc-1");
    ck_assert(position_of(line, &p));
    ck_assert_str_eq(p.stream, "kafka:clicks/3");
    ck_assert_str_eq(p.mark, "lkc-1");
    ck_assert_uint_eq(p.from, 1000);
    ck_assert_uint_eq(p.to, 1537);
    q = at("kafka:a.b_c-D/123456789", POSITION_OFFSET_MAX, POSITION_OFFSET_MAX);
    q.mark[0] = '\0';
    position_line(&q, line);
    ck_assert(position_of(line, &p));
    position_line(&p, again);
    ck_assert_str_eq(line, again);
}
END_TEST

START_TEST(the_longest_name_fits)
{
    char line[POSITION_LINE];
    struct position p, q = {.from = POSITION_OFFSET_MAX, .to = POSITION_OFFSET_MAX};
    (void)snprintf(q.stream, sizeof q.stream, "kafka:%0249d/999999999", 7);
    memset(q.mark, 'm', sizeof q.mark - 1);
    position_line(&q, line);
    ck_assert(position_of(line, &p));
    ck_assert_int_eq(memcmp(p.stream, q.stream, sizeof p.stream), 0);
    ck_assert_str_eq(p.mark, q.mark);
}
END_TEST

START_TEST(other_names_are_no_ranges)
{
    static const char *const lines[] = {"",
                                        "kafka:",
                                        "clicks/3@1-2",
                                        "kafka:/3@1-2",
                                        "kafka:clicks@1-2",
                                        "kafka:clicks/@1-2",
                                        "kafka:clicks/3",
                                        "kafka:clicks/3@",
                                        "kafka:clicks/3@1",
                                        "kafka:clicks/3@1-",
                                        "kafka:clicks/3@-2",
                                        "kafka:clicks/3@2-1",
                                        "kafka:clicks/3@1-2x",
                                        "kafka:clicks/3@1-2\t7\tm",
                                        "kafka:clicks/3@1-2\tm",
                                        "kafka:clicks/3@1-2\t\tm m",
                                        "kafka:cl icks/3@1-2",
                                        "kafka:clicks/1234567890@1-2",
                                        "kafka:clicks/3@1-1000000000000000000"};
    struct position p;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        ck_assert_msg(!position_of(lines[i], &p), "%s", lines[i]);
    ck_assert(position_of("kafka:clicks/3@1-2", &p));
    ck_assert(position_topic_ok("a.B_c-9"));
    ck_assert(!position_topic_ok("") && !position_topic_ok("a b") && !position_topic_ok(".."));
}
END_TEST

START_TEST(a_stream_moves_without_gaps)
{
    struct positions s = {.count = 0};
    struct position p = at("kafka:c/1", 5, 5), q = at("kafka:c/1", 5, 9), r = at("kafka:c/0", 1, 1);
    ck_assert(!positions_move(&s, &q));
    ck_assert_int_eq(positions_put(&s, &p), 0);
    ck_assert_int_eq(positions_put(&s, &r), 0);
    ck_assert_str_eq(s.of[0].stream, "kafka:c/0"); /* in order of names */
    ck_assert(positions_move(&s, &q));
    ck_assert(!positions_move(&s, &q)); /* a second time */
    q = at("kafka:c/1", 10, 12);
    ck_assert(!positions_move(&s, &q)); /* a gap */
    q = at("kafka:c/1", 9, 12);
    (void)snprintf(q.mark, sizeof q.mark, "other");
    ck_assert(!positions_move(&s, &q)); /* another cluster */
    ck_assert_uint_eq(positions_find(&s, "kafka:c/1")->to, 9);
    positions_undo(&s);
    ck_assert_uint_eq(positions_find(&s, "kafka:c/1")->to, 5);
    q = at("kafka:c/1", 5, 9);
    ck_assert(positions_move(&s, &q));
    positions_settle(&s);
    positions_undo(&s);
    ck_assert_uint_eq(positions_find(&s, "kafka:c/1")->to, 9);
    positions_close(&s);
}
END_TEST

START_TEST(a_text_brings_all_back)
{
    struct positions s = {.count = 0}, t = {.count = 0};
    char name[POSITION_STREAM];
    size_t bytes;
    for (uint32_t i = 0; i < POSITIONS_MAX; i++) {
        (void)snprintf(name, sizeof name, "kafka:c/%u", i);
        struct position p = at(name, i, 2 * i);
        ck_assert_int_eq(positions_put(&s, &p), 0);
    }
    struct position p = at("kafka:d/0", 0, 0);
    ck_assert_int_eq(positions_put(&s, &p), SHOAL_E_TOO_BIG);
    char *text = positions_text(&s, &bytes);
    ck_assert_uint_le(bytes, POSITIONS_TEXT_MAX);
    ck_assert_int_eq(positions_take(&t, text, bytes), 0);
    ck_assert_uint_eq(positions_digest(&s), positions_digest(&t));
    ck_assert_uint_eq(positions_find(&t, "kafka:c/700")->from, 700);
    ck_assert_int_eq(positions_take(&t, text, bytes - 1), SHOAL_E_CORRUPT);
    ck_assert_uint_eq(t.count, POSITIONS_MAX); /* unchanged */
    struct positions u = {.count = 0};
    ck_assert_int_eq(positions_copy(&u, &t), 0);
    u.of[3].to++;
    ck_assert_uint_ne(positions_digest(&u), positions_digest(&t));
    free(text);
    positions_close(&s);
    positions_close(&t);
    positions_close(&u);
}
END_TEST

START_TEST(a_damaged_text_is_refused)
{
    static const char twice[] = "kafka:c/1@1-2\nkafka:c/1@1-2\n", cut[] = "kafka:c/1@1-2",
                      nul[] = "kafka:c/1@1-2\0\n", empty[] = "\n";
    struct positions s = {.count = 0};
    ck_assert_int_eq(positions_take(&s, twice, sizeof twice - 1), SHOAL_E_CORRUPT);
    ck_assert_int_eq(positions_take(&s, cut, sizeof cut - 1), SHOAL_E_CORRUPT);
    ck_assert_int_eq(positions_take(&s, nul, sizeof nul - 1), SHOAL_E_CORRUPT);
    ck_assert_int_eq(positions_take(&s, empty, sizeof empty - 1), SHOAL_E_CORRUPT);
    ck_assert_int_eq(positions_take(&s, "", 0), 0);
    ck_assert_uint_eq(positions_digest(&s), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("positions");
    TCase *c = tcase_create("positions");
    tcase_add_test(c, a_line_is_read_as_it_was_written);
    tcase_add_test(c, the_longest_name_fits);
    tcase_add_test(c, other_names_are_no_ranges);
    tcase_add_test(c, a_stream_moves_without_gaps);
    tcase_add_test(c, a_text_brings_all_back);
    tcase_add_test(c, a_damaged_text_is_refused);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
