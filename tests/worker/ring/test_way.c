/* test_way.c: chunks cover an array, and each chunk's way adds every lane once, in order, and
 * brings the sum to every member. */
#include "tests/lib/suite.h"
#include "worker/ring/way.h"

#include <stdlib.h>
#include <string.h>

/* Follows a chunk from hop to hop and checks what each member knows of its way. */
static void follow(const struct way_shape *s, uint32_t chunk)
{
    uint32_t start = chunk % s->starts * s->lanes / s->starts, added = 0, messages = 0, owners = 0;
    uint32_t at = 0;
    struct way w;
    while (s->first[at + 1] <= start)
        at++;
    way_of(s, at, chunk, &w);
    ck_assert(w.begins && w.lane == start);
    for (uint32_t hop = 0;; hop++) {
        way_of(s, at, chunk, &w);
        bool round = w.begins && added > 0;
        uint32_t lane = round ? w.rest : w.lane, end = round ? w.rest_end : w.lane_end;
        for (; lane < end; lane++)
            ck_assert_uint_eq(lane, (start + added++) % s->lanes);
        if (s->members == 1)
            for (lane = w.rest; lane < w.rest_end; lane++)
                ck_assert_uint_eq(lane, (start + added++) % s->lanes);
        if (added == s->lanes)
            break;
        at = (at + 1) % s->members;
        messages++;
        way_of(s, at, chunk, &w);
        ck_assert_uint_eq(w.part_hop, hop);
    }
    ck_assert_uint_eq(w.sum_hop, WAY_NO_HOP);
    for (uint32_t i = 0; i < s->members; i++) {
        way_of(s, i, chunk, &w);
        owners += w.sum_hop == WAY_NO_HOP;
    }
    ck_assert_uint_eq(owners, 1);
    for (uint32_t i = 1; i < s->members; i++) {
        at = (at + 1) % s->members;
        way_of(s, at, chunk, &w);
        ck_assert_uint_eq(w.sum_hop, messages++);
    }
    ck_assert_uint_eq(messages, way_messages(s, chunk));
}

START_TEST(way_adds_every_lane_once_and_in_order)
{
    struct way_shape s;
    for (uint32_t lanes = 1; lanes <= 12; lanes++)
        for (uint32_t members = 1; members <= lanes; members++)
            for (uint32_t starts = 1; starts <= lanes; starts++) {
                ck_assert_int_eq(way_shape_even(lanes, starts, members, &s, NULL), 0);
                for (uint32_t chunk = 0; chunk < 2 * starts + 1; chunk++)
                    follow(&s, chunk);
            }
}
END_TEST

START_TEST(way_of_uneven_stretches)
{
    const struct way_shape s = {.lanes = 9, .starts = 4, .members = 3, .first = {0, 1, 7, 9}};
    ck_assert_int_eq(way_shape_check(&s, NULL), 0);
    for (uint32_t chunk = 0; chunk < 8; chunk++)
        follow(&s, chunk);
}
END_TEST

/* As many starts as members: 2 (n - 1) messages a chunk, so that with a chunk for each start a
 * member sends 2 (n - 1) / n of the array. */
START_TEST(way_is_a_ring_with_a_start_for_each_member)
{
    static const uint32_t members[] = {2, 3, 4, 8, 64};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct way_shape s;
        uint32_t n = members[i];
        ck_assert_int_eq(way_shape_even(2 * n, n, n, &s, NULL), 0);
        for (uint32_t chunk = 0; chunk < 4 * n; chunk++)
            ck_assert_uint_eq(way_messages(&s, chunk), 2 * (n - 1));
    }
}
END_TEST

/* After a death a start may lie inside a stretch: one message more for such a chunk. */
START_TEST(way_is_one_hop_longer_from_inside_a_stretch)
{
    struct way_shape s;
    ck_assert_int_eq(way_shape_even(4, 4, 3, &s, NULL), 0); /* lanes 0 | 1 | 2, 3 */
    ck_assert_uint_eq(way_messages(&s, 2), 4);
    ck_assert_uint_eq(way_messages(&s, 3), 5);
}
END_TEST

START_TEST(way_shapes_that_cannot_be_are_refused)
{
    struct way_shape s;
    struct err e = {0};
    ck_assert_int_eq(way_shape_even(4, 4, 5, &s, &e), SHOAL_E_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "5 workers over 4 lanes"));
    ck_assert_int_eq(way_shape_even(100, 4, 65, &s, &e), SHOAL_E_USAGE);
    ck_assert_int_eq(way_shape_even(100, 4, 0, &s, &e), SHOAL_E_USAGE);
    ck_assert_int_eq(way_shape_even(4, 0, 2, &s, &e), SHOAL_E_USAGE);
    ck_assert_int_eq(way_shape_even(4, 5, 2, &s, &e), SHOAL_E_USAGE);
    s = (struct way_shape){.lanes = 4, .starts = 2, .members = 2, .first = {0, 4, 4}};
    ck_assert_int_eq(way_shape_check(&s, &e), SHOAL_E_USAGE);
    s = (struct way_shape){.lanes = 4, .starts = 2, .members = 2, .first = {0, 1, 3}};
    ck_assert_int_eq(way_shape_check(&s, &e), SHOAL_E_USAGE);
}
END_TEST

static int by_place(const void *a, const void *b)
{
    const struct way_place *one = a, *other = b;
    if (one->at != other->at)
        return one->at < other->at ? -1 : 1;
    return one->floats < other->floats ? -1 : 1; /* chunks without floats come first */
}

/* Every float is in one chunk, and the chunks of share k lie in it. */
static void cut_check(const struct way_cut *cut)
{
    struct way_place *p = calloc(cut->chunks, sizeof *p);
    uint64_t at = 0;
    ck_assert_uint_le(cut->floats, WAY_CHUNK_MOST);
    for (uint32_t c = 0; c < cut->chunks; c++) {
        p[c] = way_place(cut, c);
        const uint64_t *first = cut->first[p[c].weighted ? WAY_WEIGHTED : WAY_PLAIN];
        uint64_t from = p[c].at - (p[c].weighted ? 0 : cut->weighted);
        ck_assert_uint_le(p[c].floats, cut->floats);
        ck_assert(p[c].floats == 0 || from >= first[c % cut->starts] * cut->unit);
        ck_assert(from + p[c].floats <= first[c % cut->starts + 1] * cut->unit);
    }
    qsort(p, cut->chunks, sizeof *p, by_place);
    for (uint32_t c = 0; c < cut->chunks; c++) {
        ck_assert_uint_eq(p[c].at, at);
        ck_assert(p[c].floats == 0 || p[c].weighted == (at < cut->weighted));
        ck_assert(!p[c].weighted || at + p[c].floats <= cut->weighted);
        at += p[c].floats;
    }
    ck_assert_uint_eq(at, cut->weighted + cut->plain);
    free(p);
}

static void covered(uint64_t weighted, uint64_t plain, uint32_t starts)
{
    const struct way_array array = {.floats = {weighted, plain}, .unit = 16};
    struct way_cut cut;
    ck_assert_int_eq(way_cut(&array, starts, &cut, NULL), 0);
    cut_check(&cut);
}

START_TEST(way_chunks_cover_the_array)
{
    covered(1, 0, 1);
    covered(512, 0, 64);
    covered(1024, 512, 2);
    covered(1000000, 7, 8);
    covered(512 * 1999, 512 * 3, 5);
    covered(UINT64_C(1) << 28, 4096, 64);

    struct way_array array = {.floats = {1 << 20}, .unit = 512};
    struct way_cut cut;
    struct err e = {0};
    ck_assert_int_eq(way_cut(&array, 4, &cut, &e), 0);
    ck_assert_uint_eq(cut.chunks, 16); /* four for each start */
    array.floats[0] = UINT64_C(1) << 40;
    ck_assert_int_eq(way_cut(&array, 4, &cut, &e), SHOAL_E_TOO_BIG);
}
END_TEST

/* Shares of the sizes that they are given; one of them may have nothing. */
START_TEST(way_chunks_lie_in_their_shares)
{
    static const uint32_t weighted[] = {7, 0, 40, 1}, plain[] = {0, 0, 2, 0};
    const struct way_array array = {
        .floats = {48ul * 512, 2ul * 512}, .unit = 512, .share = {weighted, plain}};
    struct way_cut cut;
    ck_assert_int_eq(way_cut(&array, 4, &cut, NULL), 0);
    cut_check(&cut);
    ck_assert_uint_eq(way_place(&cut, 1).floats, 0);
    for (uint32_t c = 0; c < cut.chunks; c++)
        ck_assert_uint_eq(way_place(&cut, c).floats % 512, 0);
}
END_TEST

/* Each share has an owner and the member behind it, or one member alone. */
START_TEST(way_shares_have_two_keepers)
{
    for (uint32_t lanes = 1; lanes <= 9; lanes++)
        for (uint32_t members = 1; members <= lanes; members++)
            for (uint32_t starts = 1; starts <= lanes; starts++) {
                struct way_shape s;
                uint32_t owners[64] = {0}, keepers[64] = {0};
                ck_assert_int_eq(way_shape_even(lanes, starts, members, &s, NULL), 0);
                for (uint32_t i = 0; i < members; i++)
                    for (uint32_t k = 0; k < starts; k++) {
                        struct way w;
                        bool owns = way_owned(&s, i) >> k & 1, keeps = way_kept(&s, i) >> k & 1;
                        way_of(&s, i, k, &w);
                        ck_assert_int_eq(owns, w.sum_hop == WAY_NO_HOP);
                        ck_assert_int_eq(keeps, owns || way_second(&w));
                        owners[k] += owns;
                        keepers[k] += keeps;
                    }
                for (uint32_t k = 0; k < starts; k++) {
                    ck_assert_uint_eq(owners[k], 1);
                    ck_assert_uint_eq(keepers[k], members == 1 ? 1 : 2);
                }
            }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("way");
    TCase *t = suite_case(s, "way", 60, NULL, NULL);
    tcase_add_test(t, way_adds_every_lane_once_and_in_order);
    tcase_add_test(t, way_of_uneven_stretches);
    tcase_add_test(t, way_is_a_ring_with_a_start_for_each_member);
    tcase_add_test(t, way_is_one_hop_longer_from_inside_a_stretch);
    tcase_add_test(t, way_shapes_that_cannot_be_are_refused);
    tcase_add_test(t, way_chunks_cover_the_array);
    tcase_add_test(t, way_chunks_lie_in_their_shares);
    tcase_add_test(t, way_shares_have_two_keepers);
    return suite_main(s);
}
