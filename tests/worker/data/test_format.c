/* test_format.c: a line is split at its delimiters, whatever its bytes and its length. */
#include "proto/base/limits.h"
#include "proto/base/rng.h"
#include "worker/data/format.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct cell cell[CELLS_MAX + 1], plain[CELLS_MAX + 1];

/* Splits a byte at a time. */
static uint32_t split(const char *line, size_t bytes)
{
    uint32_t count = 0;
    size_t start = 0;
    for (size_t i = 0; i <= bytes; i++)
        if (i == bytes || line[i] == '\t') {
            if (count < CELLS_MAX)
                plain[count] = (struct cell){line + start, (uint32_t)(i - start)};
            count++;
            start = i + 1;
        }
    return count;
}

/* The buffer has exactly the text's size, so that a sanitizer sees reads past it. */
static void check(const char *text, size_t bytes)
{
    char *line = malloc(bytes > 0 ? bytes : 1);
    ck_assert_ptr_nonnull(line);
    memcpy(line, text, bytes);
    for (int narrow = 0; narrow < 2; narrow++) {
        cell[CELLS_MAX].bytes = 77;
        uint32_t count = (narrow ? format_split_narrow : format_split)('\t', line, bytes, cell);
        ck_assert_uint_eq(count, split(line, bytes));
        for (uint32_t i = 0; i < count && i < CELLS_MAX; i++)
            ck_assert(cell[i].text == plain[i].text && cell[i].bytes == plain[i].bytes);
        ck_assert_uint_eq(cell[CELLS_MAX].bytes, 77);
    }
    free(line);
}

START_TEST(format_lines_of_every_length)
{
    static char line[300];
    struct rng rng = rng_of(7, 8, 9);
    for (uint32_t round = 0; round < 100; round++)
        for (size_t bytes = 0; bytes < sizeof line; bytes++) {
            uint64_t one_in = 1 + rng_below(&rng, 20);
            for (size_t i = 0; i < bytes; i++)
                line[i] = rng_below(&rng, one_in) == 0 ? '\t' : (char)rng_below(&rng, 256);
            check(line, bytes);
        }
}
END_TEST

START_TEST(format_delimiters_at_the_edges_of_blocks)
{
    static char line[200];
    for (size_t bytes = 0; bytes < sizeof line; bytes++)
        for (size_t at = 0; at < bytes; at++) {
            memset(line, '\0', sizeof line);
            line[at] = line[bytes - 1] = '\t';
            check(line, bytes);
        }
}
END_TEST

START_TEST(format_more_cells_than_are_kept)
{
    char *line = malloc(LIMIT_LINE_BYTES);
    ck_assert_ptr_nonnull(line);
    memset(line, '\t', LIMIT_LINE_BYTES);
    check(line, CELLS_MAX - 1);
    check(line, CELLS_MAX);
    check(line, LIMIT_LINE_BYTES);
    memset(line, 'x', LIMIT_LINE_BYTES);
    check(line, LIMIT_LINE_BYTES);
    free(line);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("format");
    TCase *t = tcase_create("format");
    tcase_add_test(t, format_lines_of_every_length);
    tcase_add_test(t, format_delimiters_at_the_edges_of_blocks);
    tcase_add_test(t, format_more_cells_than_are_kept);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
