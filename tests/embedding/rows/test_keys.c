/* test_keys.c: keys that are erased, blocked, allowed or reset, in tables with rules and without;
 * dropped fields. */
#include "embedding/rows/init.h"
#include "embedding/rows/rules/named.h"
#include "proto/base/isa.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_stats.h"

#define KEYS 300u

static const struct stats_batch noon = {.time = FIRST_DAY + DAY / 2};

static uint64_t name_keys(struct rows *r, enum key_action action, const uint64_t *keys,
                          size_t count)
{
    uint64_t changed;
    ck_assert_int_eq(table_keys(r->table, action, keys, count, NULL, &changed), 0);
    return changed;
}

static struct table_counts counts_of(const struct rows *r)
{
    struct table_counts c;
    table_counts_get(r->table, &c);
    return c;
}

static struct rows filled(const struct table_schema *s, uint64_t undo_clock)
{
    struct rows r = rows_open(s);
    for (uint64_t i = 0; i < KEYS; i++)
        stats_push(&r, rows_key(i), 0.5f, 1, 0,
                   (struct stats_batch){.time = noon.time, .undo_clock = undo_clock});
    return r;
}

START_TEST(so_many_names_fit)
{
    struct table_schema s = rows_schema(OPT_SGD, 3, 1);
    struct rows r = rows_open(&s);
    const uint64_t key = rows_key(1);
    ck_assert(table_keys_fit(r.table, NAMED_MAX));
    ck_assert_uint_eq(name_keys(&r, KEY_BLOCK, &key, 1), 1);
    ck_assert(table_keys_fit(r.table, NAMED_MAX - 1));
    ck_assert(!table_keys_fit(r.table, NAMED_MAX));
    rows_close(&r);
}
END_TEST

START_TEST(erased_rows_go_and_do_not_come_back)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 2);
    s.rules.stats = (uint32_t)_i; /* a plain table, too */
    isa_limit((enum isa)(_i == 0 ? ISA_BASE : ISA_AVX512));
    struct rows r = filled(&s, 0), others = rows_open(&s);
    uint64_t gone[KEYS / 3];
    for (uint64_t i = 0; i < KEYS; i++)
        if (i % 3 == 0)
            gone[i / 3] = rows_key(i);
        else
            stats_push(&others, rows_key(i), 0.5f, 1, 0, noon);
    ck_assert_uint_eq(name_keys(&r, KEY_ERASE, gone, KEYS / 3), KEYS / 3);
    ck_assert_uint_eq(table_rows(r.table), KEYS - KEYS / 3);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(others.table));
    ck_assert_uint_eq(name_keys(&r, KEY_ERASE, gone, KEYS / 3), 0); /* again */
    for (int i = 0; i < 20; i++)
        stats_push(&r, gone[i], 0.5f, 1, 0, noon);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(others.table));
    ck_assert_uint_eq(counts_of(&r).blocked, 20);
    ck_assert(stats_weight(&r, gone[0], 1) == 0);
    /* Admitted again, it begins anew. */
    ck_assert_uint_eq(name_keys(&r, KEY_RESET, gone, 1), 1);
    ck_assert(stats_weight(&r, gone[0], 1) != 0);
    stats_push(&r, gone[0], 0.5f, 1, 0, noon);
    stats_push(&others, gone[0], 0.5f, 1, 0, noon);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(others.table));
    rows_close(&r);
    rows_close(&others);
    isa_limit(ISA_AVX512);
}
END_TEST

/* Evicted rows go; their keys get rows again at the next push, and keep their names. */
START_TEST(evicted_rows_come_back_with_the_next_push)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 2);
    s.rules.stats = (uint32_t)_i; /* a plain table, too */
    struct rows r = filled(&s, 0), others = rows_open(&s);
    uint64_t gone[KEYS / 3 + 1];
    for (uint64_t i = 0; i < KEYS; i++)
        if (i % 3 == 0)
            gone[i / 3] = rows_key(i);
        else
            stats_push(&others, rows_key(i), 0.5f, 1, 0, noon);
    gone[KEYS / 3] = rows_key(KEYS); /* it has no row */
    ck_assert_uint_eq(name_keys(&r, KEY_EVICT, gone, KEYS / 3 + 1), KEYS / 3);
    ck_assert_uint_eq(table_rows(r.table), KEYS - KEYS / 3);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(others.table));
    ck_assert_uint_eq(name_keys(&r, KEY_EVICT, gone, KEYS / 3 + 1), 0); /* again */
    stats_push(&r, gone[0], 0.5f, 1, 0, noon);
    stats_push(&others, gone[0], 0.5f, 1, 0, noon);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(others.table));
    rows_close(&r);
    rows_close(&others);
}
END_TEST

START_TEST(an_evicted_key_keeps_its_name)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 1);
    s.rules.admit_kind = ADMIT_NONE;
    struct rows r = filled(&s, 0);
    const uint64_t key[2] = {rows_key(1), rows_key(2)};
    name_keys(&r, KEY_ALLOW, key, 2);
    stats_push(&r, key[0], 0.5f, 1, 0, noon);
    stats_push(&r, key[1], 0.5f, 1, 0, noon);
    ck_assert_uint_eq(name_keys(&r, KEY_EVICT, key, 1), 1);
    ck_assert(!stats_has(&r, key[0]) && stats_has(&r, key[1]));
    stats_push(&r, key[0], 0.5f, 1, 0, noon);
    ck_assert(stats_has(&r, key[0]));
    rows_close(&r);
}
END_TEST

/* The undo of erased rows (_i 0), and of evicted ones (1), is removed, too; that of other rows
 * stays. */
START_TEST(erased_rows_leave_undo)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 0);
    struct rows r = filled(&s, 0);
    float found[6];
    const uint64_t key[2] = {rows_key(1), rows_key(2)};
    float before = stats_weight(&r, key[1], 0);
    stats_push(&r, key[0], 0.5f, 1, 0, (struct stats_batch){.undo_clock = 9});
    stats_push(&r, key[1], 0.5f, 1, 0, (struct stats_batch){.undo_clock = 9});
    name_keys(&r, _i == 0 ? KEY_ERASE : KEY_EVICT, key, 1);
    pull_before(r.table, key, 2, 9, found);
    ck_assert_float_eq(found[0], stats_weight(&r, key[0], 0)); /* 0, or the initial value */
    ck_assert(_i == 1 || (found[0] == 0 && found[1] == 0 && found[2] == 0));
    ck_assert_float_eq(found[3], before);
    struct rows copy = stats_through_images(&r);
    pull_before(copy.table, key, 2, 9, found);
    ck_assert_float_eq(found[3], before);
    rows_close(&r);
    rows_close(&copy);
}
END_TEST

START_TEST(blocked_key_keeps_its_row_but_gets_none)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 1);
    struct rows r = filled(&s, 0);
    const uint64_t key[2] = {rows_key(1), rows_key(KEYS)};
    ck_assert_uint_eq(name_keys(&r, KEY_BLOCK, key, 2), 2);
    stats_push(&r, key[0], 0.5f, 1, 0, noon);
    stats_push(&r, key[1], 0.5f, 1, 0, noon);
    ck_assert(stats_of(&r, key[0]).show == 2);
    ck_assert(!stats_has(&r, key[1]));
    rows_close(&r);
}
END_TEST

START_TEST(allowed_key_gets_a_row_at_once)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 1);
    s.rules.admit_kind = ADMIT_NONE;
    struct rows r = filled(&s, 0);
    const uint64_t key = rows_key(1);
    ck_assert_uint_eq(table_rows(r.table), 0);
    name_keys(&r, KEY_ALLOW, &key, 1);
    stats_push(&r, key, 0.5f, 1, 0, noon);
    ck_assert(stats_has(&r, key));
    ck_assert_uint_eq(counts_of(&r).admitted, 1);
    rows_close(&r);
}
END_TEST

START_TEST(naming_forgets_what_was_counted)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 0);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 2;
    struct rows r = filled(&s, 0);
    const uint64_t key = rows_key(1);
    ck_assert_uint_eq(counts_of(&r).waiting, KEYS);
    name_keys(&r, KEY_BLOCK, &key, 1);
    ck_assert_uint_eq(counts_of(&r).waiting, KEYS - 1);
    name_keys(&r, KEY_RESET, &key, 1);
    stats_push(&r, key, 0.5f, 1, 0, noon);
    ck_assert(!stats_has(&r, key));
    rows_close(&r);
}
END_TEST

/* Keys in any order, some twice, over all tablets; only those of the requested tablets count. */
START_TEST(only_tablets_asked_for_are_named)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 2);
    struct rows r = filled(&s, 0);
    uint64_t keys[2 * KEYS], changed, here = 0;
    const uint8_t take[4] = {0, 1, 0, 1};
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = keys[2 * KEYS - 1 - i] = rows_key(i);
        here += key_tablet(key_mix(rows_key(i)), 2) % 2;
    }
    ck_assert_int_eq(table_keys(r.table, KEY_ERASE, keys, 2 * KEYS, take, &changed), 0);
    ck_assert_uint_eq(changed, here);
    ck_assert_uint_eq(table_rows(r.table), KEYS - here);
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert(stats_has(&r, keys[i]) == (key_tablet(key_mix(keys[i]), 2) % 2 == 0));
    ck_assert(table_keys_fit(r.table, 1000));
    ck_assert(!table_keys_fit(r.table, 1u << 20));
    rows_close(&r);
}
END_TEST

/* ---- whole fields ---- */

static const uint64_t field_one[LIMIT_FIELDS / 64] = {1u << 1};

/* Four fields, all but one: with rows, keys that wait and one that is blocked. */
static struct rows of_fields(const struct table_schema *s, uint32_t without)
{
    struct rows r = rows_open(s);
    for (uint32_t i = 0; i < 4 * KEYS; i++) {
        uint64_t key = key_make(i % 4, rows_key(i));
        for (uint32_t n = 0; i % 4 != without && n < (i % 3 == 0 ? 1u : 2u); n++)
            stats_push(&r, key, 0.5f, 1, 0, noon);
        if (i % 4 != without && i < 4)
            name_keys(&r, KEY_BLOCK, &key, 1);
    }
    return r;
}

static uint64_t drop_fields(struct rows *r, enum key_action action)
{
    uint64_t keys[LIMIT_FIELDS], rows = 0;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t count;
        ck_assert_int_eq(table_keys_of(r->table, k, field_one, keys, &count), 0);
        ck_assert_uint_le(count, 1);
        rows += count > 0 ? name_keys(r, action, keys, count) : 0;
    }
    return rows;
}

/* The rest is as if the field had never existed. When the field begins anew, its blocked key stays
 * blocked. */
START_TEST(dropped_field_leaves_no_trace)
{
    enum key_action action = _i == 0 ? KEY_DROP : KEY_FRESH;
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 2);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 2;
    struct rows all = of_fields(&s, UINT32_MAX), others = of_fields(&s, 1);
    const uint64_t blocked = key_make(1, rows_key(1)), other = key_make(2, rows_key(2));
    uint64_t rows = table_rows(all.table), gone = drop_fields(&all, action);
    ck_assert_uint_eq(gone, rows - table_rows(others.table));
    ck_assert_uint_gt(gone, KEYS / 2);
    ck_assert_uint_eq(rows_digest(all.table), rows_digest(others.table));
    ck_assert_uint_eq(counts_of(&all).waiting, counts_of(&others).waiting);
    ck_assert_uint_eq(drop_fields(&all, action), 0); /* again */
    for (int n = 0; n < 3; n++) {
        stats_push(&all, blocked, 0.5f, 1, 0, noon);
        stats_push(&all, other, 0.5f, 1, 0, noon);
    }
    ck_assert(stats_has(&all, blocked) == (action == KEY_DROP));
    ck_assert_uint_eq(name_keys(&all, KEY_BLOCK, &other, 1), 0); /* it still was */
    rows_close(&all);
    rows_close(&others);
}
END_TEST

/* The field has only waiting keys, or only a name: the tablet still knows it. */
START_TEST(field_without_rows_is_found)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 0);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 2;
    struct rows r = rows_open(&s);
    const uint64_t key = key_make(1, 77);
    uint64_t keys[LIMIT_FIELDS];
    uint32_t count;
    if (_i == 0)
        stats_push(&r, key, 0.5f, 1, 0, noon);
    else
        name_keys(&r, KEY_BLOCK, &key, 1);
    ck_assert_int_eq(table_keys_of(r.table, 0, field_one, keys, &count), 0);
    ck_assert_uint_eq(count, 1);
    name_keys(&r, KEY_DROP, keys, count);
    ck_assert_uint_eq(counts_of(&r).waiting, 0);
    ck_assert_int_eq(table_keys_of(r.table, 0, field_one, keys, &count), 0);
    ck_assert_uint_eq(count, 0);
    rows_close(&r);
}
END_TEST

/* Each name once, in the order of key_mix, whatever the size of the pages. */
START_TEST(names_are_listed_in_order_page_by_page)
{
    static const enum key_action given[] = {KEY_ERASE, KEY_BLOCK, KEY_ALLOW};
    struct table_schema s = rows_schema(OPT_SGD, 3, 2);
    struct rows r = rows_open(&s);
    struct table_name some[7];
    uint32_t found = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t key = rows_key(i);
        name_keys(&r, given[i % 3], &key, 1);
    }
    uint64_t none = rows_key(0), before = 0;
    name_keys(&r, KEY_RESET, &none, 1);
    for (uint32_t tablet = 0; tablet < 4; tablet++) {
        uint64_t from = (uint64_t)tablet << 62;
        uint32_t room = 1 + tablet * 2, count;
        while ((count = table_names(r.table, tablet, from, some, room)) > 0) {
            for (uint32_t i = 0; i < count; i++) {
                uint64_t mixed = key_mix(some[i].key);
                ck_assert_uint_ge(mixed, from);
                ck_assert(found == 0 || mixed > before);
                ck_assert_uint_eq(key_tablet(mixed, 2), tablet);
                before = mixed;
                found++;
            }
            from = before + 1;
        }
    }
    ck_assert_uint_eq(found, KEYS - 1);
    uint64_t erased = rows_key(3), blocked = rows_key(4), allowed = rows_key(5);
    const uint64_t key[] = {erased, blocked, allowed};
    for (int i = 0; i < 3; i++) {
        uint64_t mixed = key_mix(key[i]);
        ck_assert_uint_eq(table_names(r.table, key_tablet(mixed, 2), mixed, some, 1), 1);
        ck_assert(some[0].key == key[i] && some[0].action == given[i]);
    }
    rows_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keys");
    TCase *c = tcase_create("keys");
    tcase_add_test(c, so_many_names_fit);
    tcase_add_loop_test(c, erased_rows_go_and_do_not_come_back, 0, 2);
    tcase_add_loop_test(c, evicted_rows_come_back_with_the_next_push, 0, 2);
    tcase_add_test(c, an_evicted_key_keeps_its_name);
    tcase_add_loop_test(c, erased_rows_leave_undo, 0, 2);
    tcase_add_test(c, blocked_key_keeps_its_row_but_gets_none);
    tcase_add_test(c, allowed_key_gets_a_row_at_once);
    tcase_add_test(c, naming_forgets_what_was_counted);
    tcase_add_test(c, only_tablets_asked_for_are_named);
    tcase_add_loop_test(c, dropped_field_leaves_no_trace, 0, 2);
    tcase_add_loop_test(c, field_without_rows_is_found, 0, 2);
    tcase_add_test(c, names_are_listed_in_order_page_by_page);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
