/* test_part.c: the manifest of a part, of this release, of 0.2.0, and of a later one. */
#include "embedding/engine/part.h"

#include "proto/base/file.h"
#include "proto/job/manifest.h"
#include "tests/lib/embedding_schema.h"
#include "tests/lib/rig_dir.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_SUM 0x1a4fac898236a288ull
#define SEGMENT_SUM 0x3a5b852f69ddd154ull

static char dir[LIMIT_PATH];

static void setup(void)
{
    rig_dir(dir);
}

static void manifest_put(const char *text)
{
    char path[LIMIT_PATH + 16];
    snprintf(path, sizeof path, "%s/manifest", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static struct json *manifest_get(void)
{
    char path[LIMIT_PATH + 16], *text;
    size_t bytes;
    struct json *m;
    struct err e = {0};
    snprintf(path, sizeof path, "%s/manifest", dir);
    ck_assert_int_eq(file_read_whole(path, 1 << 20, &text, &bytes), 0);
    ck_assert_msg(manifest_frame(text, bytes, &m, &e) == 0, "%s", e.text);
    free(text);
    json_set_null(m, "xxh3");
    return m;
}

/* Replaces the manifest by this text with a checksum that fits. */
static void manifest_set(struct json *m)
{
    struct json *out = json_new_object();
    for (size_t i = 0; i + 1 < json_members(m); i++)
        json_set(out, json_member_name(m, i), json_hold(json_member_at(m, i)));
    char *text = manifest_text(out);
    manifest_put(text);
    free(text);
    json_free(out);
    json_free(m);
}

/* Reads a manifest of release 0.2.0 and of `version`, with table 0, whose stored schema has these
 * bytes. */
static int read_with(uint32_t version, const void *schema, size_t bytes, struct part *p,
                     struct err *e)
{
    static char text[64u << 10];
    int at = snprintf(text, sizeof text,
                      "shoal part %u\npart 0 1\ncut 1 5 0\nrun 0 0000000000000000 0 0\ntable 0 ",
                      version);
    for (size_t i = 0; i < bytes; i++)
        at += snprintf(text + at, 3, "%02x", ((const uint8_t *)schema)[i]);
    at += snprintf(text + at, 64, " t\ntablets 0 0 4\nbytes 0\n");
    snprintf(text + at, 64, "end %016" PRIx64 "\n", hash_bytes(text, (size_t)at, 0));
    manifest_put(text);
    return part_read(dir, NULL, p, e);
}

/* The file is longer than one read: checksums in parts, and in cuts of release 0.2.0. */
START_TEST(sums_are_those_of_every_release)
{
    char path[LIMIT_PATH + 16];
    uint64_t bytes, sum;
    manifest_put("a line\nend ee70c79ff3cf42f4\n");
    snprintf(path, sizeof path, "%s/manifest", dir);
    ck_assert_int_eq(truncate(path, (1 << 20) + 5), 0);
    ck_assert_int_eq(part_checksum(path, UINT64_MAX, false, &bytes, &sum), 0);
    ck_assert_uint_eq(bytes, (1 << 20) + 5);
    ck_assert_uint_eq(sum, FILE_SUM);
    ck_assert_int_eq(part_checksum(path, bytes, true, &bytes, &sum), 0);
    ck_assert_uint_eq(sum, SEGMENT_SUM);
    ck_assert_int_eq(part_checksum(path, 7, false, &bytes, &sum), 0);
    ck_assert_uint_eq(bytes, 7);
    ck_assert_uint_eq(sum, hash_bytes("a line\n", 7, 0));
}
END_TEST

START_TEST(a_part_of_0_2_0_is_read_and_none_of_before)
{
    struct table_schema s = schema_rich();
    struct form form = form_of(&s);
    struct part p;
    struct err e = {0};
    ck_assert_msg(read_with(2, form.bytes, form.count, &p, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(p.tables, 1);
    ck_assert(schema_equal(&p.schema[0], &s));
    part_free(&p);
    ck_assert_int_eq(read_with(1, form.bytes, form.count, &p, &e), SHOAL_E_VERSION);
    ck_assert_ptr_nonnull(strstr(e.text, "/manifest: a release before 0.2.0 wrote it"));
}
END_TEST

START_TEST(what_is_written_is_read)
{
    struct table_schema s = schema_rich();
    struct part_range range = {s.table, 1, 2};
    struct part_file file[] = {{"rows/1.sst", 90, UINT64_MAX, true}, {"journal/seg-1", 7, 0, true}};
    struct part p = {.part = 1,
                     .parts = 3,
                     .tables = 1,
                     .schema = &s,
                     .range = &range,
                     .ranges = 1,
                     .file = file,
                     .files = 2};
    struct part back;
    p.facts = (struct cut_facts){.cut = UINT64_MAX,
                                 .sequence = 1,
                                 .rows = 9,
                                 .bytes = 97,
                                 .run = 8,
                                 .tables = TABLE_SET_ALL,
                                 .lanes = 2,
                                 .mode = RUN_BSP,
                                 .lowest = {5, UINT64_MAX},
                                 .existing = table_set_one(s.table),
                                 .sized = true};
    p.facts.table_rows[s.table] = 9;
    p.facts.table_bytes[s.table] = 1000;
    struct err e = {0};
    ck_assert_msg(part_write(dir, &p, &e) == 0, "%s", e.text);
    ck_assert_msg(part_read(dir, NULL, &back, &e) == 0, "%s", e.text);
    ck_assert(schema_equal(&back.schema[0], &s));
    ck_assert(back.facts.sized && back.facts.rows == 9);
    ck_assert_uint_eq(back.facts.table_rows[s.table], 9);
    ck_assert_uint_eq(back.facts.table_bytes[s.table], 1000);
    ck_assert(back.part == 1 && back.parts == 3 && back.facts.bytes == 97);
    ck_assert(back.facts.cut == UINT64_MAX && back.facts.run == 8 && back.facts.mode == RUN_BSP);
    ck_assert(back.facts.lanes == 2 && back.facts.lowest[0] == 5);
    ck_assert(back.facts.lowest[1] == UINT64_MAX &&
              table_set_equal(back.facts.tables, TABLE_SET_ALL));
    ck_assert(back.ranges == 1 && back.range[0].first == 1 && back.range[0].count == 2);
    ck_assert(back.files == 2 && back.file[0].checksum == UINT64_MAX && back.file[1].bytes == 7);
    part_free(&back);
    ck_assert_int_eq(part_read_cut(dir, &back, &e), SHOAL_E_CORRUPT);
    part_free(&back);
}
END_TEST

/* A row's parts by name: what a reader of the rows needs besides the files. */
START_TEST(a_table_says_how_its_rows_lie)
{
    struct table_schema s = schema_rich();
    struct part p = {.parts = 1, .tables = 1, .schema = &s};
    struct err e = {0};
    s.zero_first = 1;
    p.facts = (struct cut_facts){.existing = table_set_one(s.table)};
    ck_assert_msg(part_write(dir, &p, &e) == 0, "%s", e.text);
    struct json *m = manifest_get();
    const struct json *layout = json_get(m, "tables.0.layout");
    int64_t floats = 0;
    ck_assert_str_eq(json_as_string(json_get(m, "tables.0.name"), ""), s.name);
    ck_assert_str_eq(json_as_string(json_get(m, "tables.0.space"), "?"), "");
    for (size_t i = 0; i < json_count(layout); i++)
        floats += json_as_int(json_get(json_array_at(layout, i), "width"), 0);
    ck_assert_int_eq(floats, s.width + schema_state_floats(&s));
    ck_assert_str_eq(json_as_string(json_get(layout, "0.part"), ""), "first");
    ck_assert_str_eq(json_as_string(json_get(layout, "1.part"), ""), "vector");
    ck_assert_str_eq(json_as_string(json_get(layout, "1.type"), ""), schema_values_name(&s));
    json_free(m);
}
END_TEST

/* The checksum fits, but the numbers are out of their ranges: each is refused by its name. */
START_TEST(what_is_out_of_range_is_refused_by_its_name)
{
    static const struct {
        const char *in, *key, *value, *says;
    } bad[] = {
        {NULL, "part", "1", "'part'"},
        {NULL, "parts", "5000", "'part'"},
        {NULL, "cut", "-1", "'cut, sequence or rows'"},
        {NULL, "rows", "\"many\"", "'cut, sequence or rows'"},
        {NULL, "bytes", "98", "'bytes'"},
        {NULL, "run", "null", "'run'"},
        {"run", "lanes", "[-1]", "'run'"},
        {"run", "mode", "9", "'run'"},
        {NULL, "tables", "[{\"table\": 64}]", "'tables'"},
        {"tables.0", "schema", "\"00f\"", "'tables'"},
        {"tables.0", "tablets", "[[0, 70000]]", "'tables'"},
        {"tables.0", "tablets", "[[0]]", "'tables'"},
        {"files.0", "file", "\"rows/../x\"", "'files'"},
        {"files.0", "file", "\"other/x\"", "'files'"},
        {"files.0", "xxh3", "null", "'files'"},
        {"files.0", "bytes", "1.5e19", "'files'"},
    };
    struct table_schema s = schema_rich();
    struct part_file file = {"rows/1.sst", 97, 1, true};
    struct part p = {.parts = 1, .tables = 1, .schema = &s, .file = &file, .files = 1}, back;
    struct err e = {0};
    char path[LIMIT_PATH + 16];
    p.facts = (struct cut_facts){.bytes = 97, .existing = table_set_one(s.table)};
    snprintf(path, sizeof path, "%s/manifest", dir);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct json *m, *value;
        (void)unlink(path);
        ck_assert_msg(part_write(dir, &p, &e) == 0, "%s", e.text);
        m = manifest_get();
        ck_assert_int_eq(json_parse(bad[i].value, strlen(bad[i].value), &value, &e), 0);
        json_set(bad[i].in == NULL ? m : json_get(m, bad[i].in), bad[i].key, value);
        manifest_set(m);
        ck_assert_int_eq(part_read(dir, NULL, &back, &e), SHOAL_E_CORRUPT);
        ck_assert_msg(strstr(e.text, bad[i].says) != NULL, "%s: %s", bad[i].key, e.text);
        part_free(&back);
    }
}
END_TEST

/* It must not be reported as damage, which would suggest another checkpoint. */
START_TEST(a_later_shoals_is_refused_in_words)
{
    struct table_schema s = schema_rich();
    struct form form = form_of(&s);
    struct part p;
    struct err e = {0};
    struct part now = {.parts = 1};
    ck_assert_int_eq(part_write(dir, &now, &e), 0);
    struct json *m = manifest_get();
    json_set_int(m, "format", MANIFEST_FORMAT + 1);
    manifest_set(m);
    ck_assert_int_eq(part_read(dir, NULL, &p, &e), SHOAL_E_VERSION);
    ck_assert_msg(strstr(e.text, "/manifest: format 4 is newer than this release reads") != NULL,
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
    tcase_add_test(t, a_part_of_0_2_0_is_read_and_none_of_before);
    tcase_add_test(t, what_is_written_is_read);
    tcase_add_test(t, a_table_says_how_its_rows_lie);
    tcase_add_test(t, what_is_out_of_range_is_refused_by_its_name);
    tcase_add_test(t, a_later_shoals_is_refused_in_words);
    return suite_main(s);
}
