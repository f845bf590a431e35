/* test_import.c: rows of text files, and keys of values: what an import reads before it sends. */
#include "deploy/cli/import.h"
#include "proto/base/key.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One first-order weight, a vector of 2, adagrad; with `stats` also statistics. */
static struct table_schema schema_of(bool stats)
{
    struct table_schema s = {.name = "emb",
                             .width = 3,
                             .zero_first = 1,
                             .tablet_bits = 4,
                             .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.1f}};
    s.rules.stats = stats;
    return s;
}

static int open_bytes(const struct table_schema *s, const char *text, size_t bytes,
                      struct import_source **out, struct err *e)
{
    const struct import_line l = {.schema = s};
    char *copy = malloc(bytes + 1); /* exact, so that a read past the end is detected */
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, bytes);
    int rc = import_text_of(&l, copy, bytes, strchr(text, ',') != NULL ? ',' : '\t', out, e);
    if (rc != 0)
        free(copy);
    return rc; /* the copy stays until the process ends */
}

static int open_text(const struct table_schema *s, const char *text, struct import_source **out,
                     struct err *e)
{
    return open_bytes(s, text, strlen(text), out, e);
}

static struct import_source *text_opened(const struct table_schema *s, const char *text)
{
    struct import_source *out = NULL;
    struct err e = {0};
    ck_assert_msg(open_text(s, text, &out, &e) == 0, "%s", e.text);
    return out;
}

START_TEST(values_and_vectors_are_read)
{
    const struct table_schema s = schema_of(false);
    struct import_source *t = text_opened(&s, "value\tw0\tw1\n"
                                              "a b\t0.5\t-1e-3\r\n\n"
                                              "\t2\t3");
    struct import_key key;
    struct err e = {0};
    float row[3];
    ck_assert(t->form == IMPORT_TEXT && t->parts == 0 && t->floats == 3);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(t->next(t, &key, row, &e), 1);
        ck_assert(key.bytes == 3 && memcmp(key.text, "a b", 3) == 0);
        ck_assert(row[0] == 0 && row[1] == 0.5f && row[2] == -1e-3f); /* first-order: 0 */
        ck_assert_int_eq(t->next(t, &key, row, &e), 1);
        ck_assert(key.bytes == 0 && row[1] == 2 && row[2] == 3); /* an empty value is one */
        ck_assert_int_eq(t->next(t, &key, row, &e), 0);
        t->rewind(t);
    }
    t->close(t);
}
END_TEST

START_TEST(an_export_is_read)
{
    const struct table_schema s = schema_of(true);
    struct import_source *t =
        text_opened(&s, "key,field,w0,w1,w2,s0,s1,s2,show,click,time,flags,delta_score\n"
                        "0x0003000000000007,3,1,2,3,4,5,6,7,1,1700000000,1,0.25\n");
    struct import_key key;
    struct err e = {0};
    struct row_stats x;
    float row[11];
    ck_assert(t->form == IMPORT_RAW && t->parts == (ASSIGN_STATE | ASSIGN_STATS));
    ck_assert_uint_eq(t->floats, 11);
    ck_assert_int_eq(t->next(t, &key, row, &e), 1);
    ck_assert_uint_eq(key.number, UINT64_C(0x0003000000000007));
    for (uint32_t i = 0; i < 6; i++)
        ck_assert(row[i] == (float)i + 1);
    memcpy(&x, row + 6, sizeof x);
    ck_assert(x.show == 7 && x.click == 1 && x.time == 1700000000 && x.flags == 1);
    ck_assert(x.delta_score == 0.25f);
    t->close(t);
}
END_TEST

static const struct {
    const char *text, *words;
    bool row; /* the head is good */
} wrong[] = {{"", "is empty", false},
             {"w0\tw1\n", "key, or a column value", false},
             {"key\tvalue\tw0\tw1\n", "key, or a column value", false},
             {"value\tw0\n", "1 columns of weights", false},
             {"value\tw0\tw1\tw2\tw3\n", "4 columns of weights", false},
             {"value\tw1\tw0\n", "column w1", false},
             {"value\tw0\tw0\n", "column w0", false},
             {"value\tw0\tw1\tprice\n", "column price", false},
             {"value\tw0\tw1\ts0\ts1\ts2\n", "columns of state", false},
             {"value\tw0\tw1\tw2\ts0\n", "1 columns of state", false},
             {"value\tw0\tw1\tshow\tclick\ttime\tflags\n", "statistics", false},
             {"value\tw0\tw1\na\t1\n", "fewer than the 3 cells", true},
             {"value\tw0\tw1\na\t1\t2\t3\n", "more than the 3 cells", true},
             {"value\tw0\tw1\na\t1\tx\n", "'x' is no number", true},
             {"value\tw0\tw1\na\t1\t\n", "'' is no number", true},
             {"value\tw0\tw1\na\t1\t 2\n", "' 2' is no number", true},
             {"key\tw0\tw1\n12x\t1\t2\n", "'12x' is no key", true},
             {"key\tw0\tw1\n-1\t1\t2\n", "'-1' is no key", true},
             {"key\tw0\tw1\n0x\t1\t2\n", "'0x' is no key", true},
             {"key\tw0\tw1\n99999999999999999999\t1\t2\n", "is no key", true},
             {"value,w0,w1\n\"a\",1,2\n", "write the file as tsv", true}};

START_TEST(wrong_text_is_refused_with_its_place)
{
    const struct table_schema s = schema_of(false);
    struct import_source *t = NULL;
    struct import_key key;
    struct err e = {0};
    float row[16];
    int rc = open_text(&s, wrong[_i].text, &t, &e);
    ck_assert_msg((rc == 0) == wrong[_i].row, "%s", e.text);
    if (rc == 0) {
        rc = t->next(t, &key, row, &e);
        ck_assert_msg(strstr(e.text, ":2: ") != NULL, "%s", e.text);
        t->close(t);
    }
    ck_assert_int_eq(rc, SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, wrong[_i].words) != NULL, "%s", e.text);
}
END_TEST

/* A number ends where its cell ends, not at a byte 0 in it. */
START_TEST(a_cell_with_a_nul_is_no_number)
{
    static const char weight[] = "key\tw0\tw1\n12\t1\0z\t2\n",
                      key_of[] = "key\tw0\tw1\n12\0z\t1\t2\n";
    const struct table_schema s = schema_of(false);
    const struct {
        const char *text, *words;
        size_t bytes;
    } cases[] = {{weight, "is no number", sizeof weight - 1},
                 {key_of, "is no key", sizeof key_of - 1}};
    for (int i = 0; i < 2; i++) {
        struct import_source *t = NULL;
        struct import_key key;
        struct err e = {0};
        float row[3];
        ck_assert_int_eq(open_bytes(&s, cases[i].text, cases[i].bytes, &t, &e), 0);
        ck_assert_int_eq(t->next(t, &key, row, &e), SHOAL_E_DATA);
        ck_assert_msg(strstr(e.text, cases[i].words) != NULL, "%s", e.text);
        t->close(t);
    }
}
END_TEST

/* The sum of the bytes is asked for again when the rows are sent. */
START_TEST(a_text_that_changes_has_another_sum)
{
    const struct table_schema s = schema_of(false);
    const struct import_line l = {.schema = &s};
    char text[] = "value\tw0\tw1\na\t1\t2\n";
    struct import_source *t = NULL;
    struct err e = {0};
    ck_assert_int_eq(import_text_of(&l, text, strlen(text), '\t', &t, &e), 0);
    ck_assert(t->sum(t) == t->checksum);
    text[strlen(text) - 2] = '3';
    ck_assert(t->sum(t) != t->checksum);
    t->close(t);
}
END_TEST

/* ---- erased keys ---- */

START_TEST(erased_keys_of_a_text_are_read)
{
    static const char text[] = "key\tfield\n0x0003000000000007\t3\n0x00030000000000ff\t3\n";
    struct import_erased x = {.count = 0};
    struct err e = {0};
    ck_assert_int_eq(import_erased_text(&x, text, sizeof text - 1, &e), 0);
    ck_assert(x.count == 2 && x.key[0] == UINT64_C(0x0003000000000007) &&
              x.key[1] == UINT64_C(0x00030000000000ff));
    import_erased_free(&x);
    ck_assert_int_eq(import_erased_text(&x, text, strlen("key\tfield\n"), &e), 0);
    ck_assert_uint_eq(x.count, 0);
}
END_TEST

START_TEST(erased_keys_that_are_none_are_refused)
{
    static const char *const text[] = {"key\n0x00030000000000\n", "key\n7\n",
                                       "key\n0x00030000000000070\n", "key\n\n"};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        struct import_erased x = {.count = 0};
        struct err e = {0};
        ck_assert_int_eq(import_erased_text(&x, text[i], strlen(text[i]), &e), SHOAL_E_DATA);
        ck_assert_msg(strstr(e.text, "line 2") != NULL, "%s", e.text);
        import_erased_free(&x);
    }
}
END_TEST

/* ---- keys ---- */

static struct import_keys *keys_of(const struct import_naming *n)
{
    struct import_keys *k = NULL;
    struct err e = {0};
    ck_assert_int_eq(import_keys_new(n, &k, &e), 0);
    return k;
}

static int add_number(struct import_keys *k, uint64_t number, bool negative)
{
    const struct import_key key = {.number = number, .negative = negative};
    struct err e;
    return import_keys_add(k, IMPORT_INTEGER, &key, &e);
}

/* A sign of another system is the text of its digits, as a log would have it. */
START_TEST(an_integer_is_the_text_of_its_digits)
{
    struct import_keys *k = keys_of(&(struct import_naming){.field = 5});
    ck_assert_int_eq(add_number(k, UINT64_C(18446744073709551615), false), 0);
    ck_assert_int_eq(add_number(k, (uint64_t)-7, true), 0);
    ck_assert_uint_eq(import_keys_at(k, 0), key_of_value(5, "18446744073709551615", 20));
    ck_assert_uint_eq(import_keys_at(k, 1), key_of_value(5, "-7", 2));
    import_keys_free(k);
    k = keys_of(&(struct import_naming){.field = 5, .id = true});
    ck_assert_int_eq(add_number(k, 1234, false), 0);
    ck_assert_uint_eq(import_keys_at(k, 0), key_make(5, 1234));
    ck_assert_int_eq(add_number(k, KEY_ID_MAX + 1, false), SHOAL_E_DATA);
    ck_assert_int_eq(add_number(k, (uint64_t)-7, true), SHOAL_E_DATA);
    import_keys_free(k);
}
END_TEST

START_TEST(a_value_that_is_there_twice_is_refused)
{
    struct import_keys *k = keys_of(&(struct import_naming){.field = 1});
    struct err e = {0};
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_int_eq(add_number(k, i, false), 0);
    ck_assert_int_eq(import_keys_check(k, &e), 0);
    ck_assert_uint_eq(import_keys_collisions(k), 0);
    ck_assert_int_eq(add_number(k, 17, false), 0);
    ck_assert_int_eq(import_keys_check(k, &e), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "rows 17 and 1000") != NULL, "%s", e.text);
    import_keys_free(k);
    k = keys_of(&(struct import_naming){.raw = true});
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(import_keys_add(k, IMPORT_RAW, &(struct import_key){.number = 9}, &e), 0);
    ck_assert_int_eq(import_keys_check(k, &e), SHOAL_E_DATA);
    import_keys_free(k);
}
END_TEST

/* Two numbers of field 2 whose keys are the same, found by a search: one pair in 2^25 numbers. */
START_TEST(the_first_of_two_values_with_one_key_keeps_it)
{
    struct import_keys *k = keys_of(&(struct import_naming){.field = 2});
    static const uint64_t number[] = {9515755, 7, 22511359, 8};
    struct err e = {0};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        ck_assert_int_eq(
            import_keys_add(k, IMPORT_INTEGER, &(struct import_key){.number = number[i]}, &e), 0);
    ck_assert_uint_eq(import_keys_at(k, 0), import_keys_at(k, 2));
    ck_assert_int_eq(import_keys_check(k, &e), 0);
    ck_assert_uint_eq(import_keys_collisions(k), 1);
    for (int again = 0; again < 2; again++) {
        for (uint64_t row = 0; row < 4; row++)
            ck_assert(import_keys_left_out(k, row) == (row == 2));
        import_keys_rewind(k);
    }
    import_keys_free(k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("import");
    TCase *c = suite_case(s, "text", 20, NULL, NULL);
    tcase_add_test(c, values_and_vectors_are_read);
    tcase_add_test(c, an_export_is_read);
    tcase_add_loop_test(c, wrong_text_is_refused_with_its_place, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(c, a_cell_with_a_nul_is_no_number);
    tcase_add_test(c, a_text_that_changes_has_another_sum);
    tcase_add_test(c, erased_keys_of_a_text_are_read);
    tcase_add_test(c, erased_keys_that_are_none_are_refused);
    c = suite_case(s, "keys", 20, NULL, NULL);
    tcase_add_test(c, an_integer_is_the_text_of_its_digits);
    tcase_add_test(c, a_value_that_is_there_twice_is_refused);
    tcase_add_test(c, the_first_of_two_values_with_one_key_keeps_it);
    return suite_main(s);
}
