/* test_meter.c: the table's form, counting in cells, and the text of sheets in both formats. */
#include "proto/base/err.h"
#include "proto/meter/meter_text.h"

#include <check.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct meter_sheet sheet[3];
static char *text;

static void setup(void)
{
    memset(sheet, 0, sizeof sheet);
    text = NULL;
}

static void teardown(void)
{
    for (int i = 0; i < 3; i++)
        meter_free(&sheet[i]);
    free(text);
}

static const char *text_of(enum meter_format format, uint32_t sheets)
{
    size_t bytes;
    free(text);
    text = NULL;
    FILE *f = open_memstream(&text, &bytes);
    meter_text_write(f, format, sheet, sheets);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

static void has(const char *line)
{
    char wanted[512];
    (void)snprintf(wanted, sizeof wanted, "%s\n", line);
    const char *at = strstr(text, wanted);
    ck_assert_msg(at != NULL && (at == text || at[-1] == '\n'), "no line '%s' in:\n%s", line, text);
}

static bool ends(const char *name, const char *behind)
{
    size_t n = strlen(name), b = strlen(behind);
    return n > b && strcmp(name + n - b, behind) == 0;
}

/* ---- the table ---- */

START_TEST(meter_names_are_as_prometheus_wants_them)
{
    for (int i = 0; i < METER_ROWS; i++) {
        const struct meter_row *r = &meter_rows[i];
        char unit[32];
        (void)snprintf(unit, sizeof unit, "_%s", r->unit);
        for (const char *p = r->name; *p != '\0'; p++)
            ck_assert_msg(islower((unsigned char)*p) || *p == '_', "%s", r->name);
        ck_assert_msg(strncmp(r->name, "shoal_", 6) == 0 || strncmp(r->name, "process_", 8) == 0,
                      "%s", r->name);
        ck_assert_msg(r->unit[0] == '\0' || ends(r->name, unit), "%s, %s", r->name, r->unit);
        ck_assert_msg(!ends(r->name, "_total") && !ends(r->name, "_info"), "%s", r->name);
        ck_assert_msg(strlen(r->help) > 0 && r->help[strlen(r->help) - 1] != '.', "%s", r->name);
        ck_assert_msg(strlen(r->of) > 0 && strspn(r->of, "scw") == strlen(r->of), "%s", r->name);
        ck_assert_msg(r->type != METER_INFO || r->unit[0] == '\0', "%s", r->name);
        ck_assert_msg(strpbrk(r->help, "\\\n") == NULL, "%s", r->name);
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(meter_rows[k].name, r->name);
    }
}
END_TEST

/* ---- counting ---- */

START_TEST(meter_time_counts_a_bound_as_within)
{
    const struct meter_row seconds = {.unit = "seconds"};
    struct meter_times t = {.sum_ns = 0};
    meter_time(&t, 0);
    meter_time(&t, METER_FIRST_NS);
    ck_assert_uint_eq(t.cell[0], 2);
    meter_time(&t, METER_FIRST_NS + 1);
    meter_time(&t, 2 * METER_FIRST_NS);
    ck_assert_uint_eq(t.cell[1], 2);
    meter_time(&t, 2 * METER_FIRST_NS + 1);
    ck_assert_uint_eq(t.cell[2], 1);
    meter_time(&t, UINT64_C(3600000000000));
    ck_assert_uint_eq(t.cell[METER_CELLS - 1], 1);
    ck_assert_double_eq_tol(meter_bound(&seconds, 0), 50e-6, 1e-12);
    ck_assert_double_eq_tol(meter_bound(&seconds, 10), 0.0512, 1e-12);
    ck_assert(isinf(meter_bound(&seconds, METER_CELLS - 1)));
}
END_TEST

START_TEST(meter_cell_of_a_number_is_within_its_bound)
{
    const struct meter_row clocks = {.unit = "clocks"};
    for (uint64_t v = 0; v < 70000; v++) {
        uint32_t cell = meter_cell(v);
        ck_assert((double)v <= meter_bound(&clocks, cell));
        ck_assert(cell == 0 || (double)v > meter_bound(&clocks, cell - 1));
    }
    ck_assert_uint_eq(meter_cell(UINT64_MAX), METER_CELLS - 1);
}
END_TEST

START_TEST(meter_reasons_are_the_names_of_errors)
{
    ck_assert_str_eq(meter_reason(-SHOAL_E_BUSY), "BUSY");
    ck_assert_ptr_null(meter_reason(0));
}
END_TEST

/* ---- the text ---- */

START_TEST(meter_text_of_the_older_format)
{
    meter_put(&sheet[0], BUILD, 1, "shoal-server", "0.2.0", NULL);
    meter_put(&sheet[0], CPU, 12.5, NULL);
    meter_put(&sheet[0], RSS, 9007199254740991.0, NULL);
    text_of(METER_PLAIN, 1);
    has("# HELP shoal_build_info The program and its version");
    has("# TYPE shoal_build_info gauge");
    has("shoal_build_info{program=\"shoal-server\",version=\"0.2.0\"} 1");
    has("# TYPE process_cpu_seconds_total counter");
    has("process_cpu_seconds_total 12.5");
    has("process_resident_memory_bytes 9.00719925474e+15");
    has("shoal_series_left_out 0");
    ck_assert_ptr_null(strstr(text, "# EOF"));
    ck_assert_ptr_null(strstr(text, "# UNIT"));
}
END_TEST

START_TEST(meter_text_of_openmetrics)
{
    meter_put(&sheet[0], BUILD, 1, "shoal-server", "0.2.0", NULL);
    meter_put(&sheet[0], CPU, 12.5, NULL);
    text_of(METER_OPEN, 1);
    has("# TYPE shoal_build info");
    has("shoal_build_info{program=\"shoal-server\",version=\"0.2.0\"} 1");
    has("# TYPE process_cpu_seconds counter");
    has("# UNIT process_cpu_seconds seconds");
    has("process_cpu_seconds_total 12.5");
    ck_assert(ends(text, "# EOF\n"));
}
END_TEST

START_TEST(meter_text_escapes_values_of_labels)
{
    meter_put(&sheet[0], LOOP_SILENT, INFINITY, "a\"b\\c\nd", NULL);
    text_of(METER_PLAIN, 1);
    has("shoal_loop_silent_seconds{loop=\"a\\\"b\\\\c\\nd\"} +Inf");
}
END_TEST

START_TEST(meter_text_has_samples_of_a_metric_together)
{
    meter_put(&sheet[0], LOOP_SILENT, 1, "shard-0", NULL);
    meter_put(&sheet[0], READY, 1, "shard-0", NULL);
    meter_put(&sheet[1], LOOP_SILENT, 2, "shard-1", NULL);
    meter_put(&sheet[1], READY, 0, "shard-1", NULL);
    text_of(METER_PLAIN, 2);
    has("shoal_loop_silent_seconds{loop=\"shard-0\"} 1\n"
        "shoal_loop_silent_seconds{loop=\"shard-1\"} 2\n"
        "# HELP shoal_ready 1 where /readyz would answer 200 for this loop alone");
}
END_TEST

START_TEST(meter_unknown_values_are_left_out)
{
    meter_put(&sheet[0], RSS, NAN, NULL);
    text_of(METER_PLAIN, 1);
    ck_assert_ptr_null(strstr(text, "process_resident"));
}
END_TEST

START_TEST(meter_a_long_value_of_a_label_is_cut)
{
    char name[200];
    memset(name, 'x', sizeof name);
    name[199] = '\0';
    meter_put(&sheet[0], READY, 1, name, NULL);
    ck_assert_uint_eq(strlen(sheet[0].text), METER_LABEL - 1);
}
END_TEST

/* However much the loops put, the text is bounded, and it says that it is not whole. */
START_TEST(meter_series_are_bounded)
{
    char name[32];
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 6000; i++) {
            (void)snprintf(name, sizeof name, "%d-%d", s, i);
            meter_put(&sheet[s], READY, 1, name, NULL);
        }
    ck_assert_uint_eq(sheet[0].series, METER_SERIES);
    ck_assert_uint_eq(sheet[0].left_out, 1000);
    text_of(METER_PLAIN, 2);
    has("shoal_series_left_out 7001");
    int lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    ck_assert_int_eq(lines, 5000 + 2 * 2); /* with HELP and TYPE of two metrics */
}
END_TEST

/* A fleet of 256 tables has more series than a daemon shows: those of tables are left out first. */
START_TEST(meter_series_of_tables_are_left_out_first)
{
    char name[32];
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < 3000; i++) {
            (void)snprintf(name, sizeof name, "t%d", i);
            meter_put(&sheet[s], AGE, 1, s == 0 ? "a" : "b", "ads", name, NULL);
        }
        meter_put(&sheet[s], MEMORY, 77, s == 0 ? "a" : "b", NULL);
    }
    text_of(METER_PLAIN, 2);
    has("shoal_memory_bytes{shard=\"a\"} 77\nshoal_memory_bytes{shard=\"b\"} 77");
    has("shoal_series_left_out 1003");
}
END_TEST

START_TEST(meter_copy_is_equal_and_keeps_its_memory)
{
    meter_put(&sheet[0], READY, 1, "a", NULL);
    meter_copy(&sheet[1], &sheet[0]);
    const struct meter_sample *before = sheet[1].sample;
    meter_clear(&sheet[0]);
    meter_put(&sheet[0], READY, 0, "b", NULL);
    meter_copy(&sheet[1], &sheet[0]);
    ck_assert_ptr_eq(sheet[1].sample, before);
    text_of(METER_PLAIN, 2);
    has("shoal_ready{loop=\"b\"} 0\nshoal_ready{loop=\"b\"} 0");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("meter");
    TCase *c = tcase_create("meter");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, meter_names_are_as_prometheus_wants_them);
    tcase_add_test(c, meter_time_counts_a_bound_as_within);
    tcase_add_test(c, meter_cell_of_a_number_is_within_its_bound);
    tcase_add_test(c, meter_reasons_are_the_names_of_errors);
    tcase_add_test(c, meter_text_of_the_older_format);
    tcase_add_test(c, meter_text_of_openmetrics);
    tcase_add_test(c, meter_text_escapes_values_of_labels);
    tcase_add_test(c, meter_text_has_samples_of_a_metric_together);
    tcase_add_test(c, meter_unknown_values_are_left_out);
    tcase_add_test(c, meter_a_long_value_of_a_label_is_cut);
    tcase_add_test(c, meter_series_are_bounded);
    tcase_add_test(c, meter_series_of_tables_are_left_out_first);
    tcase_add_test(c, meter_copy_is_equal_and_keeps_its_memory);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
