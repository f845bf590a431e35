/* test_part.c: the manifest of a part: of this version, of the one before, of a later one. */
#include "embedding/checkpoint/part.h"
#include "embedding/engine/cut.h"

#include "tests/lib/embedding_schema.h"
#include "tests/lib/rig_dir.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MANIFEST_SUM 0x0dc53b34a97fda77ull
#define FILE_SUM 0x1a4fac898236a288ull
#define SEGMENT_SUM 0x3a5b852f69ddd154ull

static char dir[LIMIT_PATH];

static void setup(void)
{
    rig_dir(dir);
}

/* A manifest of `version` with table 0, whose stored schema these bytes are. */
static int read_with(uint32_t version, const void *schema, size_t bytes, struct part *p,
                     struct err *e)
{
    static char text[64u << 10];
    char path[LIMIT_PATH + 16];
    int at = snprintf(text, sizeof text,
                      "shoal part %u\npart 0 1\ncut 1 5 0\nrun 0 0000000000000000 0 0\ntable 0 ",
                      version);
    for (size_t i = 0; i < bytes; i++)
        at += snprintf(text + at, 3, "%02x", ((const uint8_t *)schema)[i]);
    at += snprintf(text + at, 64, " t\ntablets 0 0 4\nbytes 0\n");
    snprintf(text + at, 64, "end %016" PRIx64 "\n", hash_bytes(text, (size_t)at, 0));
    snprintf(path, sizeof path, "%s/manifest", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    return part_read(dir, NULL, p, e);
}

/* Of a file that is longer than what is read at once, by parts and by cuts; and of a manifest. */
START_TEST(sums_are_those_of_every_release)
{
    char path[LIMIT_PATH + 16], *text = NULL;
    size_t count = 0;
    uint64_t bytes, sum;
    struct err e = {0};
    FILE *f = open_memstream(&text, &count);
    fputs("a line\n", f);
    ck_assert_int_eq(cut_text_write(dir, f, &text, &count, &e), 0);
    snprintf(path, sizeof path, "%s/manifest", dir);
    ck_assert_int_eq(part_checksum(path, &bytes, &sum), 0);
    ck_assert_uint_eq(bytes, 28);
    ck_assert_uint_eq(sum, MANIFEST_SUM);
    ck_assert_int_eq(truncate(path, (1 << 20) + 5), 0);
    ck_assert_int_eq(part_checksum(path, &bytes, &sum), 0);
    ck_assert_uint_eq(sum, FILE_SUM);
    ck_assert_int_eq(cut_file_checksum(path, bytes, &sum), 0);
    ck_assert_uint_eq(sum, SEGMENT_SUM);
}
END_TEST

START_TEST(schemas_of_both_versions_are_read)
{
    static char once[32u << 10];
    struct table_schema s = schema_rich();
    struct form form = form_of(&s);
    struct part p;
    struct err e = {0};
    for (uint32_t version = 1; version <= 2; version++) {
        size_t bytes = version == 1 ? once_write(&s, once) : form.count;
        int rc = read_with(version, version == 1 ? once : (char *)form.bytes, bytes, &p, &e);
        ck_assert_msg(rc == 0, "%s", e.text);
        ck_assert_uint_eq(p.tables, 1);
        ck_assert(schema_equal(&p.schema[0], &s));
        part_free(&p);
    }
}
END_TEST

START_TEST(what_is_written_is_read)
{
    struct table_schema s = schema_rich();
    struct part p = {.parts = 1, .tables = 1, .schema = &s}, back;
    p.facts = (struct cut_facts){.rows = 9, .existing = 1ull << s.table, .sized = true};
    p.facts.table_rows[s.table] = 9;
    p.facts.table_bytes[s.table] = 1000;
    struct err e = {0};
    ck_assert_msg(part_write(dir, &p, &e) == 0, "%s", e.text);
    ck_assert_msg(part_read(dir, NULL, &back, &e) == 0, "%s", e.text);
    ck_assert(schema_equal(&back.schema[0], &s));
    ck_assert(back.facts.sized && back.facts.rows == 9);
    ck_assert_uint_eq(back.facts.table_rows[s.table], 9);
    ck_assert_uint_eq(back.facts.table_bytes[s.table], 1000);
    part_free(&back);
}
END_TEST

/* Not as damage, which another checkpoint would be the cure of. */
START_TEST(a_later_shoals_is_refused_in_words)
{
    struct table_schema s = schema_rich();
    struct form form = form_of(&s);
    struct part p;
    struct err e = {0};
    ck_assert_int_eq(read_with(3, form.bytes, form.count, &p, &e), SHOAL_E_VERSION);
    ck_assert_msg(strstr(e.text, "/manifest: it has version 3, this Shoal reads up to 2") != NULL,
                  "%s", e.text);
    part_free(&p);
    form_add(&form, SCHEMA_U32, "own_days", "\1\0\0", 4);
    ck_assert_int_eq(read_with(2, form.bytes, form.count, &p, &e), SHOAL_E_VERSION);
    ck_assert_msg(strstr(e.text, "/manifest: a stored table schema has a field 'own_days'") != NULL,
                  "%s", e.text);
    part_free(&p);
    form.count--;
    ck_assert_int_eq(read_with(2, form.bytes, form.count, &p, &e), SHOAL_E_CORRUPT);
    part_free(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("part");
    TCase *t = suite_case(s, "part", 60, setup, NULL);
    tcase_add_test(t, sums_are_those_of_every_release);
    tcase_add_test(t, schemas_of_both_versions_are_read);
    tcase_add_test(t, what_is_written_is_read);
    tcase_add_test(t, a_later_shoals_is_refused_in_words);
    return suite_main(s);
}
