/* test_map.c: the map as a plain value. */
#include "tests/lib/suite.h"
#include "worker/train/map.h"

#include <check.h>
#include <string.h>

START_TEST(map_lines_fit_to_the_last_byte)
{
    uint16_t shard = 0;
    struct wire_MAP_GET_reply reply = {.map_epoch = 1, .tablet_count = 1, .shards = 1};
    struct frame numbers = {.data = &shard, .bytes = sizeof shard};
    for (uint32_t more = 0; more < 4; more++) {
        char line[MAP_ENDPOINT_BYTES + MAP_KEY_BYTES + 8];
        size_t endpoint = MAP_ENDPOINT_BYTES - 1 + (more & 1),
               key = MAP_KEY_BYTES - 1 + (more >> 1);
        struct map m;
        struct err e;
        memset(line, 'e', endpoint);
        line[endpoint] = ' ';
        memset(line + endpoint + 1, 'k', key);
        line[endpoint + 1 + key] = '\n';
        map_init(&m);
        ck_assert_int_eq(map_take(&m, &reply, &numbers,
                                  &(struct frame){.data = line, .bytes = endpoint + key + 2}, &e),
                         more == 0 ? 0 : SHOAL_E_MALFORMED);
        if (more == 0) {
            ck_assert_uint_eq(strlen(m.endpoint[0]), endpoint);
            ck_assert_uint_eq(strlen(m.key[0]), key);
        }
        map_close(&m);
    }
}
END_TEST

START_TEST(map_refuses_what_does_not_fit)
{
    uint16_t shards[4] = {0, 0, 1, 1};
    struct wire_MAP_GET_reply reply = {.map_epoch = 1, .tablet_count = 4, .shards = 2};
    struct frame numbers = {.data = shards, .bytes = sizeof shards};
    char good[] = "a\nb\n", few[] = "a\n", open[] = "a\nb";
    struct map m;
    struct err e;
    map_init(&m);
    ck_assert_int_eq(map_take(&m, &reply, &numbers, &(struct frame){.data = good, .bytes = 4}, &e),
                     0);
    ck_assert(map_complete(&m));
    ck_assert_uint_eq(map_stretch(&m, 0, 4), 2);
    ck_assert_uint_eq(map_stretch(&m, 3, 4), 1);
    ck_assert_int_eq(map_take(&m, &reply, &numbers, &(struct frame){.data = few, .bytes = 2}, &e),
                     SHOAL_E_MALFORMED);
    ck_assert_int_eq(map_take(&m, &reply, &numbers, &(struct frame){.data = open, .bytes = 3}, &e),
                     SHOAL_E_MALFORMED);
    numbers.bytes = 6;
    ck_assert_int_eq(map_take(&m, &reply, &numbers, &(struct frame){.data = good, .bytes = 4}, &e),
                     SHOAL_E_MALFORMED);
    numbers.bytes = 8;
    shards[3] = 2;
    ck_assert_int_eq(map_take(&m, &reply, &numbers, &(struct frame){.data = good, .bytes = 4}, &e),
                     SHOAL_E_MALFORMED);
    ck_assert_uint_eq(m.shard[3], 1); /* as it was */
    static char lines[2 * (LIMIT_SHARDS + 1)];
    for (size_t i = 0; i < sizeof lines; i++)
        lines[i] = i % 2 == 0 ? 'a' : '\n';
    for (reply.shards = LIMIT_SHARDS; reply.shards <= LIMIT_SHARDS + 1; reply.shards++)
        ck_assert_int_eq(map_take(&m, &reply, &numbers,
                                  &(struct frame){.data = lines, .bytes = 2 * (size_t)reply.shards},
                                  &e),
                         reply.shards <= LIMIT_SHARDS ? 0 : SHOAL_E_MALFORMED);
    map_close(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("map");
    TCase *c = suite_case(s, "map", 100, NULL, NULL);
    tcase_add_test(c, map_lines_fit_to_the_last_byte);
    tcase_add_test(c, map_refuses_what_does_not_fit);
    return suite_main(s);
}
