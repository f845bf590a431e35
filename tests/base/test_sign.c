/* test_sign.c: signatures and hashes equal those of other implementations, and changed ones are
 * refused. */
#include "proto/base/sign.h"
#include "tests/lib/suite.h"

#include <string.h>

/* RFC 8032, 7.1, test 1. */
START_TEST(sign_makes_what_the_standard_says)
{
    uint8_t seed[SIGN_SEED], key[SIGN_KEY], made[SIGN_BYTES];
    char hex[2 * SIGN_BYTES + 1];
    ck_assert(sign_unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", seed,
                         SIGN_SEED));
    ck_assert_int_eq(sign_key_of(seed, key), 0);
    sign_hex(key, SIGN_KEY, hex);
    ck_assert_str_eq(hex, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    ck_assert_int_eq(sign_make(seed, "", 0, made), 0);
    sign_hex(made, SIGN_BYTES, hex);
    ck_assert_str_eq(hex, "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb88215"
                          "90a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b");
    ck_assert(sign_good(key, "", 0, made));
}
END_TEST

START_TEST(sign_changed_bit_is_found)
{
    uint8_t seed[SIGN_SEED], key[SIGN_KEY], made[SIGN_BYTES];
    char text[] = "text";
    sign_key_new(seed);
    ck_assert_int_eq(sign_key_of(seed, key), 0);
    ck_assert_int_eq(sign_make(seed, text, 4, made), 0);
    ck_assert(sign_good(key, text, 4, made) && !sign_good(key, text, 3, made));
    for (uint32_t bit = 0; bit < 8 * SIGN_BYTES; bit++) {
        made[bit / 8] = (uint8_t)(made[bit / 8] ^ 1 << bit % 8);
        ck_assert_msg(!sign_good(key, text, 4, made), "bit %u of the signature", bit);
        made[bit / 8] = (uint8_t)(made[bit / 8] ^ 1 << bit % 8);
    }
    for (uint32_t bit = 0; bit < 8 * SIGN_KEY; bit++) {
        key[bit / 8] = (uint8_t)(key[bit / 8] ^ 1 << bit % 8);
        ck_assert_msg(!sign_good(key, text, 4, made), "bit %u of the key", bit);
        key[bit / 8] = (uint8_t)(key[bit / 8] ^ 1 << bit % 8);
    }
}
END_TEST

START_TEST(sign_hashes_pieces_as_the_whole)
{
    uint8_t hash[SIGN_HASH];
    char hex[2 * SIGN_HASH + 1];
    static const char abc[] = "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";
    sign_hash_bytes("abc", 3, hash);
    sign_hex(hash, SIGN_HASH, hex);
    ck_assert_str_eq(hex, abc);
    struct sign_hash *h = sign_hash_new();
    ck_assert_ptr_nonnull(h);
    sign_hash_add(h, "a", 1);
    sign_hash_add(h, "bc", 2);
    sign_hash_end(h, hash);
    sign_hash_free(h);
    sign_hex(hash, SIGN_HASH, hex);
    ck_assert_str_eq(hex, abc);
}
END_TEST

START_TEST(sign_numbers_are_written_one_way)
{
    static const char *const bad[] = {"", "0", "0A", "a", "g0", "0 ", " 0", "0x", "-1"};
    uint8_t byte = 0;
    ck_assert(sign_unhex("a9", &byte, 1) && byte == 0xa9);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!sign_unhex(bad[i], &byte, 1), "%s", bad[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sign");
    TCase *t = suite_case(suite, "sign", 20, NULL, NULL);
    tcase_add_test(t, sign_makes_what_the_standard_says);
    tcase_add_test(t, sign_changed_bit_is_found);
    tcase_add_test(t, sign_hashes_pieces_as_the_whole);
    tcase_add_test(t, sign_numbers_are_written_one_way);
    return suite_main(suite);
}
