/* test_rocks_crc32c.c: the checksum that RocksDB calls: it equals the standard's at every length,
 * and RocksDB really uses it. */
#include "embedding/store/rocks_crc32c.h"
#include "proto/base/rng.h"

#include <check.h>
#include <dlfcn.h>

#if defined(__x86_64__)
enum { MOST = 10000 };
static char bytes[MOST + 16];

static uint32_t by_bits(uint32_t crc, const char *at, size_t count)
{
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= (unsigned char)at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void fill(void)
{
    struct rng r = {5};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)rng_below(&r, 256);
}

START_TEST(it_is_crc32c)
{
    ck_assert_uint_eq(rocks_crc32c_extend(0, "123456789", 9), 0xe3069283u);
    ck_assert_uint_eq(rocks_crc32c_extend(0, "", 0), 0);
    ck_assert_uint_eq(rocks_crc32c_extend(0xe3069283u, "", 0), 0xe3069283u);
}
END_TEST

START_TEST(every_length_and_address_agrees_with_the_definition)
{
    fill();
    uint32_t want = 0;
    for (size_t count = 0; count <= MOST; count++) {
        size_t from = count % 16;
        if (count < 4096 || count % 97 == 0)
            ck_assert_uint_eq(rocks_crc32c_extend(7, bytes + from, count),
                              by_bits(7, bytes + from, count));
    }
    for (size_t at = 0; at < MOST; at++) /* and byte by byte */
        want = rocks_crc32c_extend(want, bytes + at, 1);
    ck_assert_uint_eq(want, by_bits(0, bytes, MOST));
}
END_TEST

START_TEST(pieces_give_what_the_whole_gives)
{
    struct rng r = {9};
    fill();
    uint32_t whole = rocks_crc32c_extend(0, bytes, MOST);
    for (int i = 0; i < 2000; i++) {
        size_t cut = rng_below(&r, MOST + 1);
        ck_assert_uint_eq(
            rocks_crc32c_extend(rocks_crc32c_extend(0, bytes, cut), bytes + cut, MOST - cut),
            whole);
    }
}
END_TEST

/* The library's own function exists, gives the same result, and is not the one that the name
 * resolves to. */
START_TEST(rocksdb_calls_ours)
{
    uint32_t (*own)(uint32_t, const char *, size_t) =
        (uint32_t(*)(uint32_t, const char *, size_t))dlsym(RTLD_NEXT, ROCKS_CRC32C_SYMBOL);
    if (own == NULL)
        return; /* this RocksDB hides its function: there is nothing to compare */
    ck_assert_ptr_eq(dlsym(RTLD_DEFAULT, ROCKS_CRC32C_SYMBOL), (void *)rocks_crc32c_extend);
    ck_assert(own != rocks_crc32c_extend);
    fill();
    for (size_t count = 0; count <= MOST; count += 7)
        ck_assert_uint_eq(own(3, bytes, count), rocks_crc32c_extend(3, bytes, count));
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("rocks_crc32c");
    TCase *t = tcase_create("rocks_crc32c");
#if defined(__x86_64__)
    tcase_add_test(t, it_is_crc32c);
    tcase_add_test(t, every_length_and_address_agrees_with_the_definition);
    tcase_add_test(t, pieces_give_what_the_whole_gives);
    tcase_add_test(t, rocksdb_calls_ours);
#endif
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures == 0 ? 0 : 1;
}
