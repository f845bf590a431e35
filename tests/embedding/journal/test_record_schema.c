/* test_record_schema.c: schemas stored as names and values. */
#include "tests/lib/embedding_schema.h"

#include <stdio.h>

static void check_comes_back(const struct schema_field *f, const struct table_schema *s)
{
    struct table_schema back;
    struct err e = {0};
    struct form form = form_of(s);
    ck_assert_msg(record_schema_read(form.bytes, form.count, &back, &e) == 0, "%s: %s", f->name,
                  e.text);
    ck_assert_msg(schema_equal(s, &back), "%s", f->name);
    const struct schema_field *g;
    for (uint32_t i = 0; (g = schema_field_at(i)) != NULL; i++)
        for (uint32_t k = 0; k < (g->each ? s->field_rule_count : 1); k++)
            ck_assert_mem_eq(schema_field_value_of(&back, g, k), schema_field_value_of(s, g, k),
                             g->bytes);
}

START_TEST(every_field_comes_back)
{
    each_field(check_comes_back);
    struct table_schema s = schema_plain();
    s.init.scale = -0.0f; /* equal to 0, but with other bytes */
    check_comes_back(schema_field_at(0), &s);
    s.field_rule_count = LIMIT_FIELDS;
    for (uint32_t i = 0; i < LIMIT_FIELDS; i++)
        s.field_rule[i] = (struct field_rule){.field = i};
    check_comes_back(schema_field_at(0), &s);
}
END_TEST

START_TEST(a_schema_is_stored_as_it_always_was)
{
    struct table_schema s = schema_rich();
    struct form f = form_of(&s);
    ck_assert_uint_eq(f.count, RICH_BYTES);
    ck_assert_uint_eq(hash_bytes(f.bytes, f.count, 0), RICH_HASH);
    ck_assert_uint_eq(image_digest(&s), RICH_IMAGE);
    s = (struct table_schema){.name = "t", .width = 4, .optimizer = {.lr = 0.5f}};
    static const char plain[] = "\0\2\3\0\x32\0\0\0"
                                "\1\4\1\0"
                                "name"
                                "t"
                                "\2\5\4\0"
                                "width"
                                "\4\0\0\0"
                                "\3\14\4\0"
                                "optimizer.lr"
                                "\0\0\0\x3f";
    f = form_of(&s);
    ck_assert_uint_eq(f.count, sizeof plain - 1);
    ck_assert_mem_eq(f.bytes, plain, sizeof plain - 1);
}
END_TEST

START_TEST(the_fixed_form_is_refused_by_its_release)
{
    struct form f = {.count = 224, .bytes = "emb"};
    form_refused(&f, SHOAL_E_VERSION, "the form of a release before 0.2.0");
}
END_TEST

START_TEST(what_is_not_known_is_refused_by_name)
{
    const struct table_schema s = schema_rich();
    const uint32_t one = 1;
    struct form f = form_of(&s);
    form_add(&f, SCHEMA_U32, "own_days", &one, sizeof one);
    form_refused(&f, SHOAL_E_VERSION,
                 "a field 'own_days', which this Shoal does not know: it was written by a later "
                 "Shoal; start that one");
    f = form_of(&s);
    form_add(&f, SCHEMA_U32, "b\033ad", &one, sizeof one);
    form_refused(&f, SHOAL_E_VERSION, "a field 'b', which");
    f = form_of(&s);
    form_add(&f, SCHEMA_F32, "dense", &one, sizeof one);
    form_refused(&f, SHOAL_E_VERSION, "field 'dense' of type 3, this Shoal knows it as of type 2");
    f = form_of(&s);
    form_add(&f, SCHEMA_U32 | RECORD_SCHEMA_EACH, "dense", &one, sizeof one);
    form_refused(&f, SHOAL_E_VERSION, "field 'dense' of type 130");
    f = form_of(&s);
    form_head(&f, 3, form_fields(&f));
    form_refused(&f, SHOAL_E_VERSION, "has form 3, this Shoal reads up to 2");
}
END_TEST

START_TEST(what_does_not_fit_is_refused_by_name)
{
    const struct table_schema s = schema_rich();
    const uint32_t many[4] = {1, 1, 1, LIMIT_FIELDS + 1};
    struct form f = form_of(&s);
    form_add(&f, SCHEMA_U32, "width", many, sizeof many[0]);
    form_refused(&f, SHOAL_E_MALFORMED, "field 'width' twice");
    f = form_of(&s);
    form_add(&f, SCHEMA_U32, "dense", many, 2 * sizeof many[0]);
    form_refused(&f, SHOAL_E_MALFORMED, "8 bytes in field 'dense', not 4");
    f = form_of(&s);
    form_add(&f, SCHEMA_U32 | RECORD_SCHEMA_EACH, "fields.admit_kind", many, sizeof many[0]);
    form_refused(&f, SHOAL_E_MALFORMED, "twice");
    const struct table_schema plain = schema_plain();
    f = form_of(&plain);
    form_add(&f, SCHEMA_U32 | RECORD_SCHEMA_EACH, "fields.ttl", many, sizeof many[0]);
    form_refused(&f, SHOAL_E_MALFORMED, "4 bytes in field 'fields.ttl', not 0");
    f = form_of(&plain);
    form_add(&f, SCHEMA_U32, "fields", &many[3], sizeof many[3]);
    form_refused(&f, SHOAL_E_MALFORMED, "513 rules by field, at most 512");
}
END_TEST

/* One field is missing. */
START_TEST(what_is_missing_is_named)
{
    static const char *const needed[] = {"name", "width", "optimizer.lr"};
    const uint32_t width = 4;
    const float lr = 0.5f;
    for (int without = 0; without < 3; without++) {
        struct form f = {.bytes = {0, 2}, .count = 8};
        if (without != 0)
            form_add(&f, SCHEMA_TEXT, "name", "t", 1);
        if (without != 1)
            form_add(&f, SCHEMA_U32, "width", &width, sizeof width);
        if (without != 2)
            form_add(&f, SCHEMA_F32, "optimizer.lr", &lr, sizeof lr);
        char words[64];
        snprintf(words, sizeof words, "has no field '%s'", needed[without]);
        form_refused(&f, SHOAL_E_MALFORMED, words);
    }
}
END_TEST

START_TEST(a_name_has_its_limits)
{
    static const char long_name[LIMIT_NAME] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const uint32_t width = 4;
    const float lr = 0.5f;
    for (uint16_t bytes = 0; bytes <= LIMIT_NAME; bytes++) {
        struct form f = {.bytes = {0, 2}, .count = 8};
        struct table_schema s;
        form_add(&f, SCHEMA_TEXT, "name", long_name, bytes);
        form_add(&f, SCHEMA_U32, "width", &width, sizeof width);
        form_add(&f, SCHEMA_F32, "optimizer.lr", &lr, sizeof lr);
        if (bytes == LIMIT_NAME)
            form_refused(&f, SHOAL_E_MALFORMED, "'name' with a NUL or of over 63 bytes");
        else if (bytes == 0)
            form_refused(&f, SHOAL_E_SCHEMA, "a table has no name");
        else
            ck_assert_int_eq(record_schema_read(f.bytes, f.count, &s, NULL), 0);
    }
}
END_TEST

/* Cut at every byte, with the old head and with a head that fits; and with bytes after the end. */
START_TEST(what_is_cut_short_or_longer_is_refused)
{
    const struct table_schema s = schema_rich();
    const struct form whole = form_of(&s);
    for (size_t count = 0; count < whole.count; count++) {
        struct form f = whole;
        f.count = count;
        form_refused(&f, SHOAL_E_MALFORMED, "a stored table schema");
        form_head(&f, 2, form_fields(&whole));
        form_refused(&f, SHOAL_E_MALFORMED, count < 8 ? "at least 8" : "is cut short in a field");
    }
    struct form f = whole;
    f.count++;
    form_refused(&f, SHOAL_E_MALFORMED, "says that it has");
    form_head(&f, 2, form_fields(&whole));
    form_refused(&f, SHOAL_E_MALFORMED, "1 bytes behind its");
    f = whole;
    form_head(&f, 1, form_fields(&whole));
    form_refused(&f, SHOAL_E_MALFORMED, "of form 1");
}
END_TEST

START_TEST(fields_come_in_any_order_and_zeros_are_taken)
{
    const uint32_t width = 4, zero = 0;
    const float lr = 0.5f;
    struct form f = {.bytes = {0, 2}, .count = 8};
    struct table_schema s;
    form_add(&f, SCHEMA_F32, "optimizer.lr", &lr, sizeof lr);
    form_add(&f, SCHEMA_U32, "dense", &zero, sizeof zero);
    form_add(&f, SCHEMA_U32, "width", &width, sizeof width);
    form_add(&f, SCHEMA_TEXT, "name", "t", 1);
    ck_assert_int_eq(record_schema_read(f.bytes, f.count, &s, NULL), 0);
    ck_assert_uint_eq(s.width, 4);
    ck_assert_str_eq(s.name, "t");
}
END_TEST

/* Two equal names could not be told apart, and a stored length has its limits. */
START_TEST(every_name_is_its_own)
{
    const struct schema_field *f;
    for (uint32_t i = 0; (f = schema_field_at(i)) != NULL; i++) {
        ck_assert_uint_lt(strlen(f->name), SCHEMA_FIELD_NAME);
        ck_assert_uint_eq(schema_field_find(f->name, strlen(f->name)), i);
    }
    ck_assert_uint_eq(schema_field_find("widt", 4), SCHEMA_FIELDS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("record_schema");
    TCase *t = tcase_create("record_schema");
    tcase_add_test(t, every_field_comes_back);
    tcase_add_test(t, a_schema_is_stored_as_it_always_was);
    tcase_add_test(t, the_fixed_form_is_refused_by_its_release);
    tcase_add_test(t, what_is_not_known_is_refused_by_name);
    tcase_add_test(t, what_does_not_fit_is_refused_by_name);
    tcase_add_test(t, what_is_missing_is_named);
    tcase_add_test(t, a_name_has_its_limits);
    tcase_add_test(t, what_is_cut_short_or_longer_is_refused);
    tcase_add_test(t, fields_come_in_any_order_and_zeros_are_taken);
    tcase_add_test(t, every_name_is_its_own);
    suite_add_tcase(s, t);
    return suite_main(s);
}
