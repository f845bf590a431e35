/* test_quotes.c: quotes and delimiters found 64 bytes at a time are those found one at a time. */
#include "proto/base/rng.h"
#include "tests/lib/suite.h"
#include "worker/data/framing.h"
#include "worker/data/quotes.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct cell cell[CELLS_MAX];
static char line[4096];
static uint32_t count;

static bool split(const char *text)
{
    strcpy(line, text);
    return quotes_split(',', line, strlen(text), cell, &count);
}

static void is_cell(uint32_t i, const char *text)
{
    ck_assert_uint_lt(i, count);
    ck_assert_uint_eq(cell[i].bytes, strlen(text));
    ck_assert_int_eq(memcmp(cell[i].text, text, cell[i].bytes), 0);
}

START_TEST(quotes_split_takes_quotes_off)
{
    ck_assert(split("\"a,b\",c,\"\",\"say \"\"hi\"\"\",\"\"\"\""));
    ck_assert_uint_eq(count, 5);
    is_cell(0, "a,b");
    is_cell(1, "c");
    is_cell(2, "");
    is_cell(3, "say \"hi\"");
    is_cell(4, "\"");
    ck_assert(split("\"two\nlines\",\"\r\n\""));
    is_cell(0, "two\nlines");
    is_cell(1, "\r\n");
}
END_TEST

START_TEST(quotes_irregular_lines_are_left_to_the_reader)
{
    ck_assert(!split("a,b\"c,\"d\""));
    ck_assert(!split("\"a\"b,c"));
    ck_assert(!split("\"a\" ,c"));
    ck_assert(!split("a\"\"b"));
    ck_assert(!split("\"open"));
    ck_assert(!split("\"open\"\""));
}
END_TEST

/* Cells, or false, one byte at a time. */
static bool reference(const char *text, size_t bytes, char out[8192])
{
    size_t at = 0, to = 0;
    for (;;) {
        bool quoted = at < bytes && text[at] == '"';
        at += quoted;
        for (;; at++) {
            if (at == bytes && quoted)
                return false;
            if (at == bytes)
                break;
            if (!quoted && text[at] == ',')
                break;
            if (!quoted && text[at] == '"')
                return false;
            if (quoted && text[at] == '"') {
                if (at + 1 == bytes || text[at + 1] != '"') {
                    at++;
                    break;
                }
                at++;
            }
            out[to++] = text[at];
        }
        if (at < bytes && text[at] != ',')
            return false;
        out[to++] = '|';
        if (at == bytes)
            break;
        at++;
    }
    out[to] = '\0';
    return true;
}

START_TEST(quotes_are_those_of_one_byte_at_a_time)
{
    static const char letters[] = "\"\",,ab\n";
    static char expected[8192], joined[8192];
    struct rng rng = rng_of(1, 2, 3);
    uint32_t good = 0;
    for (uint32_t round = 0; round < 200000; round++) {
        char text[200];
        size_t bytes = rng_next(&rng) % (round % 4 == 0 ? 150 : 12);
        for (size_t i = 0; i < bytes; i++)
            text[i] = letters[rng_next(&rng) % (sizeof letters - 1)];
        memset(text + bytes, '"', sizeof text - bytes); /* bytes behind the line must not count */
        memcpy(line, text, sizeof text);
        bool is = quotes_split(',', line, bytes, cell, &count);
        ck_assert_int_eq(is, reference(text, bytes, expected));
        struct csv_walk w = {0};
        framing_walk(&w, ",", text, bytes);
        enum quotes_end end = quotes_look(',', text, bytes);
        if (end != QUOTES_IRREGULAR)
            ck_assert_int_eq(end == QUOTES_OPEN, framing_open(&w));
        if (!is)
            continue;
        size_t to = 0;
        for (uint32_t i = 0; i < count; i++) {
            memcpy(joined + to, cell[i].text, cell[i].bytes);
            to += cell[i].bytes;
            joined[to++] = '|';
        }
        joined[to] = '\0';
        ck_assert_str_eq(joined, expected);
        ck_assert(framing_whole(&w, count));
        good++;
    }
    ck_assert_uint_gt(good, 10000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quotes");
    TCase *t = suite_case(s, "quotes", 60, NULL, NULL);
    tcase_add_test(t, quotes_split_takes_quotes_off);
    tcase_add_test(t, quotes_irregular_lines_are_left_to_the_reader);
    tcase_add_test(t, quotes_are_those_of_one_byte_at_a_time);
    return suite_main(s);
}
