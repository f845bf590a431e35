/* test_ring.c: members of a ring as workers come and go, and the step from which it goes on. */
#include "proto/base/rng.h"
#include "server/coord/work/ring.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

static struct coord_ring ring;

#define GATHER(...)                                                                                \
    coord_ring_gather(&ring, (const uint64_t[]){__VA_ARGS__},                                      \
                      sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void members_are(const char *expected)
{
    char text[256] = "";
    for (uint32_t i = 0; i < ring.count; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u:%u+%u",
                       i == 0 ? "" : " ", (uint32_t)ring.member[i].worker, ring.member[i].first,
                       ring.member[i].lanes);
    ck_assert_str_eq(text, expected);
}

/* All members report that they have this step. */
static void all_report(uint64_t step)
{
    for (uint32_t i = 0; i < ring.count; i++)
        ck_assert_int_eq(
            coord_ring_report(&ring, ring.member[i].worker, ring.number, step > 0, step),
            i + 1 == ring.count);
    ck_assert_int_eq(ring.state, RING_STANDS);
}

START_TEST(ring_members_hold_all_lanes)
{
    struct rng r = rng_of(1, 2, 3);
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t lanes = 1 + (uint32_t)rng_below(&r, 100);
        coord_ring_open(&ring, lanes);
        for (uint32_t change = 0; change < 6; change++) {
            uint64_t worker[80];
            uint32_t count = 0;
            for (uint64_t w = 1; w <= 80; w++)
                if (rng_below(&r, 3) == 0)
                    worker[count++] = w;
            (void)coord_ring_gather(&ring, worker, count);
            uint32_t most = count < lanes ? count : lanes, next = 0;
            if (most > WIRE_RING_MEMBERS)
                most = WIRE_RING_MEMBERS;
            ck_assert_uint_eq(ring.count, most);
            for (uint32_t i = 0; i < ring.count; i++) {
                ck_assert_uint_eq(ring.member[i].first, next);
                ck_assert_uint_gt(ring.member[i].lanes, 0);
                next += ring.member[i].lanes;
            }
            ck_assert(next == lanes || count == 0);
            for (uint32_t lane = 0; lane < lanes && count > 0; lane++)
                ck_assert_ptr_nonnull(coord_ring_find(&ring, coord_ring_holder(&ring, lane)));
        }
    }
}
END_TEST

START_TEST(ring_members_stay_in_their_places)
{
    coord_ring_open(&ring, 8);
    ck_assert(GATHER(1, 2, 3, 4));
    members_are("1:0+2 2:2+2 3:4+2 4:6+2");
    ck_assert(GATHER(4, 3, 1, 9)); /* 9 takes the place of 2 */
    members_are("1:0+2 9:2+2 3:4+2 4:6+2");
    ck_assert(GATHER(1, 3, 4));
    members_are("1:0+2 3:2+3 4:5+3");
    ck_assert(GATHER(1, 3, 4, 5, 6));
    members_are("1:0+1 3:1+2 4:3+1 5:4+2 6:6+2");
    ck_assert(!GATHER(6, 5, 4, 3, 1)); /* the same */
}
END_TEST

/* More workers than lanes: the others are spare, and one takes the place of the dead at once. */
START_TEST(ring_has_a_lane_for_each_member)
{
    coord_ring_open(&ring, 2);
    ck_assert(GATHER(1, 2, 3));
    members_are("1:0+1 2:1+1");
    ck_assert(!GATHER(1, 2, 3, 4));
    ck_assert(GATHER(1, 3, 4));
    members_are("1:0+1 3:1+1");
    ck_assert_uint_eq(coord_ring_holder(&ring, 1), 3);
    ck_assert_ptr_null(coord_ring_find(&ring, 4));
}
END_TEST

/* A worker that was left out may not have heard of it: what it had is of another past. One that was
 * a member all the time has what the run has. */
START_TEST(ring_counts_what_a_member_had)
{
    coord_ring_open(&ring, 8);
    ck_assert(!coord_ring_counts(&ring, 1, 0));
    ck_assert(GATHER(1, 2));
    all_report(0);
    ck_assert(coord_ring_counts(&ring, 1, 1) && coord_ring_counts(&ring, 9, 1));
    ck_assert(GATHER(1));
    ck_assert(coord_ring_counts(&ring, 1, 1));
    all_report(5);
    ck_assert(GATHER(1, 2));
    ck_assert(coord_ring_counts(&ring, 1, 2));
    ck_assert(coord_ring_counts(&ring, 1, 1)); /* it has not heard that ring 2 stood */
    ck_assert(!coord_ring_counts(&ring, 2, 1));
    ck_assert(!coord_ring_counts(&ring, 1, 0) && !coord_ring_counts(&ring, 1, 4));
    coord_ring_again(&ring);
    ck_assert_uint_eq(ring.number, 4);
    ck_assert(coord_ring_counts(&ring, 1, 1) && !coord_ring_counts(&ring, 2, 1));
    all_report(6);
    ck_assert(coord_ring_counts(&ring, 2, 4));
}
END_TEST

START_TEST(ring_numbers_rise_with_each_gathering)
{
    struct coord_ring_record record;
    coord_ring_open(&ring, 8);
    for (uint64_t w = 1; w <= 20; w++) {
        ck_assert(GATHER(w, w + 1));
        ck_assert_uint_eq(ring.number, w);
        if (w % 3 == 0)
            all_report(w);
    }
    coord_ring_to_record(&ring, 7, &record);
    coord_ring_open(&ring, 8);
    ck_assert(coord_ring_from_record(&ring, 7, &record));
    ck_assert_uint_eq(ring.number, 20);
    ck_assert(GATHER(50));
    ck_assert_uint_eq(ring.number, 21);
}
END_TEST

START_TEST(ring_goes_on_from_the_newest_whole_step)
{
    coord_ring_open(&ring, 4);
    ck_assert(GATHER(1, 2, 3));
    all_report(0); /* no worker has a network: it is in the tables */
    ck_assert_uint_eq(ring.source, COORD_RING_TABLES);
    ck_assert_uint_eq(ring.step, 0);

    ck_assert(GATHER(1, 2, 9)); /* 3 died; 1 has step 12, 2 lacks it, 9 is new */
    ck_assert(!coord_ring_report(&ring, 9, ring.number, false, 0));
    ck_assert(!coord_ring_report(&ring, 1, ring.number, true, 12));
    ck_assert(coord_ring_report(&ring, 2, ring.number, true, 11));
    ck_assert_uint_eq(ring.step, 12);
    ck_assert_uint_eq(ring.member[ring.source].worker, 1);

    /* rows may lack the last batch, or be one ahead */
    ck_assert_uint_eq(coord_ring_batch(&ring, 11), 12);
    ck_assert_uint_eq(coord_ring_batch(&ring, 12), 13);
    ck_assert_uint_eq(coord_ring_batch(&ring, 13), 13);
}
END_TEST

/* All members died: the tables have what was published, and lanes go back to it. */
START_TEST(ring_without_a_member_of_before_goes_back_to_the_tables)
{
    coord_ring_open(&ring, 4);
    ck_assert(GATHER(1, 2));
    all_report(0);
    coord_ring_published(&ring, 40);
    coord_ring_published(&ring, 30); /* late */
    (void)coord_ring_gather(&ring, NULL, 0);
    ck_assert_int_eq(ring.state, RING_NONE);
    ck_assert_uint_eq(coord_ring_holder(&ring, 0), 0);
    ck_assert(GATHER(8, 9));
    all_report(0);
    ck_assert_uint_eq(ring.step, 40);
    ck_assert_uint_eq(ring.source, COORD_RING_TABLES);
    ck_assert_uint_eq(coord_ring_batch(&ring, 55), 41);
}
END_TEST

START_TEST(ring_takes_reports_of_its_gathering_alone)
{
    coord_ring_open(&ring, 4);
    ck_assert(GATHER(1, 2));
    uint64_t before = ring.number;
    ck_assert(!coord_ring_report(&ring, 1, before, true, 5));
    ck_assert(GATHER(1, 3));
    ck_assert(!coord_ring_report(&ring, 1, before, true, 5)); /* late */
    ck_assert(!coord_ring_report(&ring, 3, ring.number, false, 0));
    ck_assert(!coord_ring_report(&ring, 3, ring.number, true, 90)); /* again, otherwise */
    ck_assert(!coord_ring_report(&ring, 2, ring.number, true, 7));  /* no member */
    ck_assert_int_eq(ring.state, RING_GATHERS);
    ck_assert(coord_ring_report(&ring, 1, ring.number, true, 6));
    ck_assert_uint_eq(ring.step, 6);
    ck_assert(!coord_ring_report(&ring, 1, ring.number, true, 8)); /* it stands */
    ck_assert_uint_eq(ring.step, 6);
}
END_TEST

START_TEST(ring_keeps_its_starts)
{
    struct coord_ring_record record;
    coord_ring_open(&ring, 8);
    ck_assert(GATHER(1));
    all_report(0);
    ck_assert_uint_eq(ring.starts, 8); /* whatever the first ring has */
    ck_assert(GATHER(1, 2, 3));
    all_report(9);
    ck_assert_uint_eq(ring.starts, 8);
    coord_ring_to_record(&ring, 3, &record);
    record.starts = 3; /* the members of a first ring, as an earlier release had it */
    coord_ring_open(&ring, 8);
    ck_assert(coord_ring_from_record(&ring, 3, &record));
    ck_assert_uint_eq(ring.starts, 3);
    ck_assert(GATHER(2));
    all_report(10);
    ck_assert_uint_eq(ring.starts, 3);
    coord_ring_open(&ring, 100);
    ck_assert_uint_eq(ring.starts, WIRE_RING_MEMBERS);
}
END_TEST

START_TEST(ring_says_whether_members_would_change)
{
    static const uint64_t two[] = {2, 1}, three[] = {1, 2, 3};
    coord_ring_open(&ring, 8);
    ck_assert(coord_ring_changes(&ring, two, 2));
    ck_assert(GATHER(1, 2));
    ck_assert(!coord_ring_changes(&ring, two, 2));
    ck_assert(coord_ring_changes(&ring, three, 3) && coord_ring_changes(&ring, two, 1));
    ck_assert_uint_eq(ring.number, 1);
}
END_TEST

/* A ring that stood goes on; of one that gathered the members report again. */
START_TEST(ring_goes_on_after_a_restart)
{
    struct coord_ring_record record;
    coord_ring_open(&ring, 8);
    ck_assert(GATHER(1, 2));
    all_report(9);
    coord_ring_to_record(&ring, 3, &record);
    coord_ring_open(&ring, 8);
    ck_assert(coord_ring_from_record(&ring, 3, &record));
    ck_assert_int_eq(ring.state, RING_STANDS);
    ck_assert_uint_eq(ring.step, 9);
    ck_assert_uint_eq(ring.source, 0);

    ck_assert(GATHER(1, 5));
    ck_assert(!coord_ring_report(&ring, 1, ring.number, true, 9));
    coord_ring_to_record(&ring, 3, &record);
    coord_ring_open(&ring, 8);
    ck_assert(coord_ring_from_record(&ring, 3, &record));
    ck_assert_int_eq(ring.state, RING_GATHERS);
    members_are("1:0+4 5:4+4");
    all_report(9);
}
END_TEST

START_TEST(ring_of_another_run_or_impossible_is_not_taken)
{
    struct coord_ring_record record, bad;
    coord_ring_open(&ring, 8);
    ck_assert(GATHER(1, 2, 3));
    coord_ring_to_record(&ring, 3, &record);
    ck_assert(!coord_ring_from_record(&ring, 4, &record));
    for (int i = 0; i < 6; i++) {
        bad = record;
        if (i == 0)
            bad.lanes = 9;
        if (i == 1)
            bad.count = WIRE_RING_MEMBERS + 1;
        if (i == 2)
            bad.count = 9;
        if (i == 3)
            bad.starts = 9;
        if (i == 4) {
            bad.state = RING_STANDS;
            bad.starts = 0;
        }
        if (i == 5)
            bad.state = RING_STANDS + 1;
        ck_assert(!coord_ring_from_record(&ring, 3, &bad));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring");
    TCase *t = suite_case(s, "ring", 60, NULL, NULL);
    tcase_add_test(t, ring_members_hold_all_lanes);
    tcase_add_test(t, ring_members_stay_in_their_places);
    tcase_add_test(t, ring_has_a_lane_for_each_member);
    tcase_add_test(t, ring_counts_what_a_member_had);
    tcase_add_test(t, ring_numbers_rise_with_each_gathering);
    tcase_add_test(t, ring_goes_on_from_the_newest_whole_step);
    tcase_add_test(t, ring_without_a_member_of_before_goes_back_to_the_tables);
    tcase_add_test(t, ring_takes_reports_of_its_gathering_alone);
    tcase_add_test(t, ring_keeps_its_starts);
    tcase_add_test(t, ring_says_whether_members_would_change);
    tcase_add_test(t, ring_goes_on_after_a_restart);
    tcase_add_test(t, ring_of_another_run_or_impossible_is_not_taken);
    return suite_main(s);
}
