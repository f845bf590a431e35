/* test_numbers.c: eight numbers at a time equal numbers read one at a time. */
#include "proto/base/rng.h"
#include "worker/data/numbers.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static char *page; /* memory before and behind it cannot be read */

static void setup(void)
{
    char *all = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(all != MAP_FAILED);
    page = all + PAGE;
    ck_assert_int_eq(mprotect(all, PAGE, PROT_NONE), 0);
    ck_assert_int_eq(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
}

static void teardown(void)
{
    munmap(page - PAGE, 3 * PAGE);
}

/* True when the cell is empty, or digits with at most one sign, 15 bytes at most. */
static bool whole(const struct cell *c)
{
    uint32_t sign = c->bytes > 0 && c->text[0] == '-', digits = 0;
    while (sign + digits < c->bytes && c->text[sign + digits] >= '0' &&
           c->text[sign + digits] <= '9')
        digits++;
    return c->bytes == 0 || (sign + digits == c->bytes && digits > 0 && c->bytes <= 15);
}

static void check(const struct cell *cells, uint32_t count, bool log)
{
    struct feature_use use[NUMBERS_GROUP] = {{.column = 0}};
    float out[NUMBERS_GROUP + 1];
    out[count] = 77;
    for (uint32_t i = 0; i < count; i++) {
        use[i].column = (uint16_t)(count - 1 - i);
        use[i].transform = log != (i == 3) ? NUMBER_LOG1P : NUMBER_NONE;
    }
    uint32_t other = numbers_read(cells, use, count, out);
    ck_assert_uint_eq(other >> count, 0);
    ck_assert(out[count] == 77);
    for (uint32_t i = 0; i < count; i++) {
        const struct cell *c = &cells[use[i].column];
        double x = 0;
        ck_assert_msg((other >> i & 1) == !whole(c), "\"%.*s\"", (int)c->bytes, c->text);
        if (!whole(c))
            continue;
        ck_assert(c->bytes == 0 || feature_number(c, &x));
        float want = use[i].transform == NUMBER_LOG1P ? feature_log1p(x) : (float)x;
        ck_assert_msg(memcmp(&out[i], &want, sizeof want) == 0, "\"%.*s\": %.9g, not %.9g",
                      (int)c->bytes, c->text, (double)out[i], (double)want);
    }
}

START_TEST(numbers_are_those_of_one_at_a_time)
{
    static const char *const text[] = {"",
                                       "0",
                                       "-0",
                                       "-",
                                       "--1",
                                       "1-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "1.5",
                                       "7",
                                       "-2",
                                       "1023",
                                       "1024",
                                       "9999",
                                       "00012",
                                       "999999999999999",
                                       "-99999999999999",
                                       "-999999999999999",
                                       "1000000000000000",
                                       "-1000000000000000",
                                       "0000000000000001",
                                       "12345678901234567890",
                                       "-12345678901234567890",
                                       "1234567/",
                                       "1234567:",
                                       "\xb1"
                                       "23"};
    if (!numbers_wide())
        return;
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        uint32_t bytes = (uint32_t)strlen(text[i]);
        memcpy(page, text[i], bytes);
        memcpy(page + PAGE - bytes, text[i], bytes);
        const struct cell cells[] = {{page, bytes}, {page + PAGE - bytes, bytes}};
        check(cells, 2, true);
        check(cells, 2, false);
    }
}
END_TEST

START_TEST(numbers_of_any_bytes)
{
    static const char usual[] = "0123456789-.";
    struct rng rng = rng_of(1, 2, 3);
    if (!numbers_wide())
        return;
    for (uint32_t round = 0; round < 300000; round++) {
        struct cell cells[NUMBERS_GROUP];
        uint32_t count = 1 + (uint32_t)rng_below(&rng, NUMBERS_GROUP);
        uint32_t kinds = rng_below(&rng, 2) ? 10 : 12;
        char *at = page + rng_below(&rng, 64);
        for (uint32_t i = 0; i < count; i++) {
            cells[i] = (struct cell){at, (uint32_t)rng_below(&rng, 20)};
            for (uint32_t j = 0; j < cells[i].bytes; j++)
                at[j] = usual[rng_below(&rng, kinds)];
            if (cells[i].bytes > 0 && rng_below(&rng, 4) == 0)
                at[0] = '-';
            if (cells[i].bytes > 0 && rng_below(&rng, 32) == 0)
                at[rng_below(&rng, cells[i].bytes)] = (char)rng_below(&rng, 256);
            at += cells[i].bytes + 1;
        }
        check(cells, count, rng_below(&rng, 2));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("numbers");
    TCase *t = tcase_create("numbers");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, numbers_are_those_of_one_at_a_time);
    tcase_add_test(t, numbers_of_any_bytes);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
