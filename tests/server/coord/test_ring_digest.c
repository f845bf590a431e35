/* test_ring_digest.c: votes on the digests of a ring's members. */
#include "server/coord/work/ring_digest.h"
#include "tests/lib/suite.h"

#include <check.h>

static struct coord_digests digests;

/* The members tell these digests after a step, one by one; returns the last verdict. */
static struct coord_digest_verdict told(uint64_t step, uint32_t count, const uint64_t *digest)
{
    struct coord_digest_verdict v = {.word = DIGESTS_ALIKE};
    for (uint32_t i = 0; i < count; i++)
        v = coord_digests_note(&digests, i, step, digest[i]);
    return v;
}
#define TOLD(step, ...)                                                                            \
    told(step, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),                         \
         (const uint64_t[]){__VA_ARGS__})

START_TEST(digests_of_all_are_alike)
{
    coord_digests_open(&digests, 3);
    ck_assert_int_eq(TOLD(64, 7, 7, 7).word, DIGESTS_ALIKE);
    ck_assert_int_eq(TOLD(128, 8, 8, 8).word, DIGESTS_ALIKE);
    ck_assert_int_eq(coord_digests_close(&digests).word, DIGESTS_ALIKE);
}
END_TEST

/* The first member, too, may be the one that is wrong. */
START_TEST(digests_of_the_minority_are_wrong)
{
    for (uint32_t wrong = 0; wrong < 3; wrong++) {
        struct coord_digest_verdict v = {.word = DIGESTS_ALIKE};
        coord_digests_open(&digests, 3);
        for (uint32_t i = 0; i < 3; i++)
            v = coord_digests_note(&digests, i, 64, 7 + (i == wrong));
        ck_assert_int_eq(v.word, DIGESTS_WRONG);
        ck_assert_uint_eq(v.wrong, 1u << wrong);
        ck_assert_uint_eq(v.step, 64);
    }
}
END_TEST

/* More than half are enough; fewer wait for the others. */
START_TEST(digests_are_open_until_most_have_told)
{
    coord_digests_open(&digests, 5);
    ck_assert_int_eq(TOLD(64, 7).word, DIGESTS_ALIKE);
    ck_assert_int_eq(TOLD(64, 7, 8).word, DIGESTS_OPEN);
    ck_assert_int_eq(TOLD(64, 7, 8, 7).word, DIGESTS_OPEN);
    struct coord_digest_verdict v = TOLD(64, 7, 8, 7, 7);
    ck_assert(v.word == DIGESTS_WRONG && v.wrong == 2);
}
END_TEST

START_TEST(digests_without_a_majority_are_lost)
{
    coord_digests_open(&digests, 2);
    struct coord_digest_verdict v = TOLD(64, 7, 8);
    ck_assert_int_eq(v.word, DIGESTS_LOST);
    ck_assert(v.one == 0 && v.other == 1);
    coord_digests_open(&digests, 4);
    ck_assert_int_eq(TOLD(64, 7, 8, 8).word, DIGESTS_OPEN);
    v = TOLD(64, 7, 8, 8, 7);
    ck_assert_int_eq(v.word, DIGESTS_LOST);
    coord_digests_open(&digests, 3);
    ck_assert_int_eq(TOLD(64, 7, 8, 9).word, DIGESTS_LOST);
}
END_TEST

/* Members that change decide with what was told: no ring begins with two networks. */
START_TEST(digests_that_are_open_are_decided_at_the_end)
{
    coord_digests_open(&digests, 3);
    ck_assert_int_eq(TOLD(64, 7, 8).word, DIGESTS_OPEN);
    ck_assert_int_eq(coord_digests_close(&digests).word, DIGESTS_LOST);
    ck_assert_int_eq(coord_digests_close(&digests).word, DIGESTS_ALIKE); /* it is forgotten */
    coord_digests_open(&digests, 8);
    ck_assert_int_eq(TOLD(64, 7, 8, 8).word, DIGESTS_OPEN);
    struct coord_digest_verdict v = coord_digests_close(&digests);
    ck_assert(v.word == DIGESTS_WRONG && v.wrong == 1);
}
END_TEST

/* A message may be late by one step; of older ones nothing is known. */
START_TEST(digests_of_two_steps_are_compared)
{
    coord_digests_open(&digests, 3);
    ck_assert_int_eq(TOLD(64, 7, 7).word, DIGESTS_ALIKE);
    ck_assert_int_eq(TOLD(128, 9).word, DIGESTS_ALIKE);
    struct coord_digest_verdict v = coord_digests_note(&digests, 2, 64, 8);
    ck_assert(v.word == DIGESTS_WRONG && v.step == 64 && v.wrong == 4);
    ck_assert_int_eq(TOLD(192, 3).word, DIGESTS_ALIKE);
    ck_assert_int_eq(coord_digests_note(&digests, 1, 64, 5).word, DIGESTS_ALIKE);
    ck_assert_int_eq(coord_digests_note(&digests, 0, 192, 4).word, DIGESTS_ALIKE); /* again */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring_digest");
    TCase *t = suite_case(s, "ring_digest", 30, NULL, NULL);
    tcase_add_test(t, digests_of_all_are_alike);
    tcase_add_test(t, digests_of_the_minority_are_wrong);
    tcase_add_test(t, digests_are_open_until_most_have_told);
    tcase_add_test(t, digests_without_a_majority_are_lost);
    tcase_add_test(t, digests_that_are_open_are_decided_at_the_end);
    tcase_add_test(t, digests_of_two_steps_are_compared);
    return suite_main(s);
}
