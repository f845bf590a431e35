/* test_census.c: the counts of a census, against rows with known statistics. */
#include "embedding/census.h"
#include "embedding/row_json.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rows.h"

#include <stdio.h>

#define DAY 86400u
#define BITS 2u

static struct table_schema stats_schema(void)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, BITS);
    s.rules.stats = 1;
    s.rules.score_show = 0.1f;
    s.rules.score_click = 1;
    return s;
}

/* Returns key i of a field, in tablet `tablet`. */
static uint64_t key_in(uint32_t field, uint32_t tablet, uint32_t i)
{
    for (uint64_t n = 0;; n++) {
        uint64_t key = key_make(field, n);
        if (key_tablet(key_mix(key), BITS) == tablet && i-- == 0)
            return key;
    }
}

/* Adds a row with the given statistics and all weights equal to w. */
static void add(struct rows *r, uint64_t key, float w, struct row_stats stats)
{
    const struct table_schema *s = table_schema_of(r->table);
    float *row = table_insert(r->table, key_tablet(key_mix(key), s->tablet_bits), key);
    ck_assert_ptr_nonnull(row);
    for (uint32_t i = 0; i < s->width; i++)
        row[i] = w;
    if (s->rules.stats)
        memcpy(row + schema_stats_at(s), &stats, sizeof stats);
}

static struct json *count(const struct rows *r, const struct census_ask *ask)
{
    struct census *c;
    struct err e = {0};
    ck_assert_msg(census_new(table_schema_of(r->table), ask, &c, &e) == 0, "%s", e.text);
    for (uint32_t i = 0; i < 1u << BITS; i++)
        ck_assert_int_eq(census_add_tablet(c, r->table, i, r->table), 0);
    struct json *j = census_json(c);
    census_free(c);
    return j;
}

static int64_t in(const struct json *j, const char *path)
{
    return json_as_int(json_get(j, path), -1);
}

/* Returns the rows in the cell of a power of two; 0: there is no such cell. */
static int64_t cell(const struct json *j, const char *histogram, int64_t power)
{
    char path[64];
    snprintf(path, sizeof path, "%s.cells", histogram);
    const struct json *cells = json_get(j, path);
    for (size_t i = 0; i < json_count(cells); i++)
        if (json_as_int(json_array_at(json_array_at(cells, i), 0), 99) == power)
            return json_as_int(json_array_at(json_array_at(cells, i), 1), -1);
    return 0;
}

/* Tablet 1: four rows of field 3; tablet 2: two of field 5. */
static struct rows six_rows(const struct table_schema *s)
{
    struct rows r = rows_open(s);
    add(&r, key_in(3, 1, 0), 0, (struct row_stats){.show = 1, .click = 0, .time = 100 * DAY});
    add(&r, key_in(3, 1, 1), 1, (struct row_stats){.show = 2, .click = 1, .time = 99 * DAY});
    add(&r, key_in(3, 1, 2), 2, (struct row_stats){.show = 5, .click = 0, .time = 60 * DAY});
    add(&r, key_in(3, 1, 3), 2, (struct row_stats){.show = 40, .click = 4, .time = 10 * DAY});
    add(&r, key_in(5, 2, 0), 0.25f, (struct row_stats){.show = 7, .click = 7, .time = 50 * DAY});
    add(&r, key_in(5, 2, 1), 0.25f, (struct row_stats){.show = 0, .click = 0, .time = 0});
    return r;
}

START_TEST(census_counts_fields_norms_shows_and_ages)
{
    struct table_schema s = stats_schema();
    struct rows r = six_rows(&s);
    struct json *j = count(&r, &(struct census_ask){0});
    ck_assert_int_eq(in(j, "rows"), 6);
    ck_assert_int_eq(in(j, "row_bytes"), 8 + 4 * (4 + 4) + 20);
    ck_assert_int_eq(in(j, "bytes"), 6 * in(j, "row_bytes"));
    ck_assert_int_ge(in(j, "memory_bytes"), in(j, "bytes"));
    ck_assert_uint_eq(json_count(json_get(j, "fields")), 2);
    ck_assert_int_eq(in(j, "fields.0.field"), 3);
    ck_assert_int_eq(in(j, "fields.0.rows"), 4);
    ck_assert_int_eq(in(j, "fields.1.field"), 5);
    ck_assert(json_as_number(json_get(j, "fields.0.shows"), 0) == 48);
    ck_assert(json_as_number(json_get(j, "fields.1.clicks"), 0) == 7);
    ck_assert_int_eq(in(j, "norms.zero"), 1); /* norms of four weights w: 2 w */
    ck_assert_int_eq(cell(j, "norms", 1), 1);
    ck_assert_int_eq(cell(j, "norms", 2), 2);
    ck_assert_int_eq(cell(j, "norms", -1), 2);
    ck_assert_int_eq(in(j, "shows.zero"), 1);
    ck_assert_int_eq(cell(j, "shows", 2), 2); /* 5 and 7 */
    ck_assert_int_eq(cell(j, "shows", 5), 1); /* 40 */
    ck_assert_int_eq(in(j, "ages.zero"), 2);  /* the newest of each tablet */
    ck_assert_int_eq(in(j, "ages.untold"), 1);
    ck_assert_int_eq(cell(j, "ages", 16), 1); /* a day is 86400 s */
    ck_assert_int_eq(cell(j, "ages", 21), 1); /* 40 days */
    ck_assert_int_eq(cell(j, "ages", 22), 1); /* 90 days */
    ck_assert_ptr_null(json_get(j, "what_if"));
    json_free(j);
    rows_close(&r);
}
END_TEST

START_TEST(census_tries_thresholds_out)
{
    struct table_schema s = stats_schema();
    struct rows r = six_rows(&s);
    struct json *j = count(&r, &(struct census_ask){.what_if = true, .shows = 5});
    ck_assert_int_eq(in(j, "what_if.rows"), 3);
    ck_assert_int_eq(in(j, "fields.0.kept"), 2);
    ck_assert(json_as_number(json_get(j, "what_if.shows"), 0) == 52);
    ck_assert_int_eq(in(j, "rows"), 6);
    json_free(j);
    /* 0.1 (show - click) + click: 1.1, 7.6, 7 */
    j = count(&r, &(struct census_ask){.what_if = true, .score = 1});
    ck_assert_int_eq(in(j, "what_if.rows"), 3);
    json_free(j);
    /* a row without a known time stays */
    j = count(&r, &(struct census_ask){.what_if = true, .ttl = 30 * DAY});
    ck_assert_int_eq(in(j, "what_if.rows"), 4);
    ck_assert_int_eq(in(j, "fields.1.kept"), 2);
    json_free(j);
    j = count(&r, &(struct census_ask){.what_if = true, .ttl = 30 * DAY, .shows = 2});
    ck_assert_int_eq(in(j, "what_if.rows"), 2);
    json_free(j);
    rows_close(&r);
}
END_TEST

START_TEST(census_of_a_budget_keeps_the_newest_or_the_best)
{
    struct table_schema s = stats_schema();
    struct rows r = six_rows(&s);
    /* two a tablet; beyond that, 15/16 of two: one */
    struct json *j = count(&r, &(struct census_ask){.what_if = true, .rows = 11});
    ck_assert_int_eq(in(j, "what_if.rows"), 3);
    ck_assert_int_eq(in(j, "what_if.capacity"), 8);
    ck_assert(json_as_number(json_get(j, "what_if.shows"), 0) == 1 + 7);
    json_free(j);
    rows_close(&r);
    s.rules.age_by = EVICT_SCORE;
    r = six_rows(&s);
    j = count(&r, &(struct census_ask){.what_if = true, .rows = 8});
    ck_assert(json_as_number(json_get(j, "what_if.shows"), 0) == 40 + 7);
    json_free(j);
    rows_close(&r);
}
END_TEST

/* Each key has its own field, so that `kept` shows which rows stay; many are equally used. */
static struct rows tied_rows(const struct table_schema *s, uint32_t count)
{
    struct rows r = rows_open(s);
    for (uint32_t i = 0; i < count; i++)
        add(&r, key_make(i, 7), 1,
            (struct row_stats){
                .show = (float)(i % 3), .click = (float)(i % 5 == 0 ? 4 : 0), .time = 100 + i % 4});
    return r;
}

/* The figures for a budget are what a table with that capacity would keep, row by row: at it, past
 * it, and among equal rows. */
START_TEST(census_of_a_budget_is_what_the_rule_would_keep)
{
    static const uint32_t share[] = {1, 2, 15, 16, 17, 24, 25, 26, 40, 100};
    struct table_schema s = stats_schema();
    s.rules.age_by = _i == 0 ? EVICT_LRU : EVICT_SCORE;
    struct rows r = tied_rows(&s, 100); /* about 25 a tablet */
    for (size_t n = 0; n < sizeof share / sizeof share[0]; n++) {
        struct table_schema ruled = s;
        ruled.rules.age_capacity = share[n];
        struct rows after = tied_rows(&ruled, 100);
        struct push_args all = {.lr_scale = 1, .tablet_count = 1u << BITS};
        ck_assert_int_eq(table_push(after.table, NULL, NULL, 0, &all), 0);
        struct json *j =
            count(&r, &(struct census_ask){.what_if = true, .rows = (uint64_t)share[n] << BITS});
        ck_assert_int_eq(in(j, "what_if.rows"), (int64_t)table_rows(after.table));
        for (uint32_t i = 0; i < 100; i++) {
            char path[32];
            snprintf(path, sizeof path, "fields.%u.kept", i);
            ck_assert_msg(in(j, path) == (table_row(after.table, key_make(i, 7)) != NULL),
                          "share %u, key %u: %ld is told", share[n], i, (long)in(j, path));
        }
        json_free(j);
        rows_close(&after);
    }
    rows_close(&r);
}
END_TEST

START_TEST(census_without_statistics_knows_rows_and_norms_alone)
{
    struct table_schema s = rows_schema(OPT_SGD, 4, BITS);
    struct rows r = rows_open(&s);
    struct census *c;
    struct err e;
    add(&r, key_in(1, 0, 0), 1, (struct row_stats){0});
    ck_assert_int_eq(census_new(&s, &(struct census_ask){.what_if = true, .shows = 1}, &c, &e),
                     SHOAL_E_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "statistics"));
    struct json *j = count(&r, &(struct census_ask){.what_if = true, .rows = 4});
    ck_assert_int_eq(in(j, "what_if.rows"), 1);
    ck_assert_ptr_null(json_get(j, "shows"));
    ck_assert_ptr_null(json_get(j, "fields.0.shows"));
    json_free(j);
    rows_close(&r);
}
END_TEST

START_TEST(censuses_of_shards_add_up)
{
    struct table_schema s = stats_schema();
    struct rows r = six_rows(&s);
    struct census_ask ask = {.what_if = true, .shows = 2};
    struct census *sum, *part;
    struct err e = {0};
    uint64_t changed, named[600];
    for (uint32_t i = 0; i < 600; i++)
        named[i] = key_in(4, i % 4, i / 4);
    ck_assert_int_eq(table_keys(r.table, KEY_BLOCK, named, 600, NULL, &changed), 0);
    ck_assert_int_eq(table_keys(r.table, KEY_ALLOW, named, 2, NULL, &changed), 0);
    ck_assert_int_eq(table_keys(r.table, KEY_ERASE, named + 2, 5, NULL, &changed), 0);
    ck_assert_int_eq(census_new(&s, &ask, &sum, &e), 0);
    for (uint32_t i = 0; i < 2; i++) { /* two shards with half of the tablets each */
        ck_assert_int_eq(census_new(&s, &ask, &part, &e), 0);
        ck_assert_int_eq(census_add_tablet(part, r.table, 2 * i, r.table), 0);
        ck_assert_int_eq(census_add_tablet(part, r.table, 2 * i + 1, r.table), 0);
        struct json *j = census_json(part);
        ck_assert_int_eq(census_add_json(sum, j, &e), 0);
        json_free(j);
        census_free(part);
    }
    struct json *whole = count(&r, &ask), *added = census_json(sum);
    char *a = json_text(whole, 0), *b = json_text(added, 0);
    ck_assert_str_eq(a, b);
    ck_assert_int_eq(in(added, "named.erased"), 5);
    ck_assert_int_eq(in(added, "named.blocked"), 593);
    ck_assert_int_eq(in(added, "named.allowed"), 2);
    free(a);
    free(b);
    json_free(whole);
    json_free(added);
    struct json *other = json_new_object();
    json_set_string(other, "table", "another");
    ck_assert_int_eq(census_add_json(sum, other, &e), SHOAL_E_DATA);
    json_free(other);
    census_free(sum);
    rows_close(&r);
}
END_TEST

START_TEST(row_json_names_each_part_of_a_row)
{
    struct table_schema s = stats_schema();
    struct rows r = six_rows(&s);
    uint64_t key = key_in(3, 1, 1);
    bool found;
    struct json *j = row_json(r.table, r.table, key, "s/0", false, &found);
    ck_assert(found && json_as_bool(json_get(j, "found"), false));
    ck_assert_uint_eq(json_count(json_get(j, "weights")), 4);
    /* AdaGrad's state; the statistics are not part of it */
    ck_assert_uint_eq(json_count(json_get(j, "state")), 4);
    ck_assert_int_eq(in(j, "tablet"), 1);
    ck_assert_int_eq(in(j, "field"), 3);
    ck_assert_str_eq(json_as_string(json_get(j, "shard"), ""), "s/0");
    ck_assert_str_eq(json_as_string(json_get(j, "tier"), ""), "memory");
    ck_assert_int_eq(in(j, "stats.time"), 99 * DAY);
    ck_assert(json_as_number(json_get(j, "stats.click"), 0) == 1);
    ck_assert_double_eq_tol(json_as_number(json_get(j, "stats.score"), 0), 1.1, 1e-6);
    json_free(j);
    j = row_json(r.table, r.table, key, "s/0", true, &found);
    ck_assert_str_eq(json_as_string(json_get(j, "tier"), ""), "store");
    json_free(j);
    j = row_json(r.table, r.table, key_in(3, 1, 9), "s/0", false, &found);
    ck_assert(!found && !json_as_bool(json_get(j, "found"), true));
    ck_assert_uint_eq(json_count(json_get(j, "weights")), 4);
    ck_assert_uint_eq(json_count(json_get(j, "state")), 0);
    ck_assert_ptr_null(json_get(j, "stats"));
    ck_assert_ptr_null(json_get(j, "named"));
    json_free(j);
    uint64_t changed;
    ck_assert_int_eq(table_keys(r.table, KEY_BLOCK, &key, 1, NULL, &changed), 0);
    j = row_json(r.table, r.table, key, "s/0", false, &found); /* its row stays */
    ck_assert(found);
    ck_assert_str_eq(json_as_string(json_get(j, "named"), ""), "blocked");
    json_free(j);
    rows_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("census");
    TCase *c = tcase_create("census");
    tcase_add_test(c, census_counts_fields_norms_shows_and_ages);
    tcase_add_test(c, census_tries_thresholds_out);
    tcase_add_test(c, census_of_a_budget_keeps_the_newest_or_the_best);
    tcase_add_loop_test(c, census_of_a_budget_is_what_the_rule_would_keep, 0, 2);
    tcase_add_test(c, census_without_statistics_knows_rows_and_norms_alone);
    tcase_add_test(c, censuses_of_shards_add_up);
    tcase_add_test(c, row_json_names_each_part_of_a_row);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
