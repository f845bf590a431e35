/* test_translate.c: the data that tablets keep beside their rows moves into a table of another
 * schema, too. Rows themselves: test_checkpoint.c. */
#include "embedding/rows/table_inner.h"
#include "embedding/rows/translate.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_stats.h"

#include <math.h>

static const uint64_t nothing[LIMIT_FIELDS / 64]; /* no field is left out */

#define NOON (FIRST_DAY + DAY / 2)

static const uint8_t all[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static struct table_schema counting(uint32_t tablet_bits, uint32_t sketch)
{
    struct table_schema s = stats_schema(OPT_SGD, 3, tablet_bits);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    s.rules.admit_sketch = sketch;
    s.rules.age_every = DAY;
    return s;
}

static void translate(struct rows *from, struct rows *to, uint32_t tablet_bits)
{
    for (uint32_t i = 0; i < 1u << tablet_bits; i++)
        ck_assert_int_eq(translate_rows(from->table, i, to->table, all, nothing), 0);
}

/* More tablets, fewer, as many, or another optimizer: keys keep their two appearances of three, and
 * blocked keys stay blocked. */
START_TEST(counts_names_and_clock_go_along)
{
    static const uint32_t bits[][2] = {{2, 2}, {1, 4}, {4, 1}};
    const uint32_t sketch = _i < 3 ? 0 : 4096, *b = bits[_i % 3];
    struct table_schema s = counting(b[0], sketch), t = counting(b[1], sketch);
    struct table_counts counts;
    uint64_t named[3][10], changed;
    t.optimizer.kind = OPT_ADAGRAD;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 200; i++)
        stats_push(&from, rows_key(i), 0.5f, i < 100 ? 2 : 5, 0,
                   (struct stats_batch){.time = NOON});
    for (int k = 0; k < 3; k++) {
        for (uint64_t i = 0; i < 10; i++)
            named[k][i] = rows_key((uint64_t)(100 + 30 * k) + 3 * i);
        ck_assert_int_eq(table_keys(from.table, (enum key_action)k, named[k], 10, NULL, &changed),
                         0);
    }
    translate(&from, &to, b[0]);
    ck_assert_uint_eq(table_rows(to.table), 90);
    table_counts_get(to.table, &counts);
    if (sketch == 0)
        ck_assert_uint_eq(counts.waiting, 100);
    for (uint64_t i = 0; i < 100; i++) {
        stats_push(&to, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = 0});
        ck_assert(stats_has(&to, rows_key(i)));
    }
    ck_assert_uint_eq(stats_of(&to, rows_key(1)).time, NOON);
    for (int i = 0; i < 10; i++)
        stats_push(&to, named[0][i], 0.5f, 9, 0, (struct stats_batch){.time = 0});
    ck_assert_uint_eq(table_rows(to.table), 190);
    for (int k = 0; k < 3; k++) {
        ck_assert_int_eq(table_keys(to.table, (enum key_action)k, named[k], 10, NULL, &changed), 0);
        ck_assert_uint_eq(changed, 0); /* each had its name already */
    }
    struct rows copy = stats_through_images(&to); /* an image accepts it */
    rows_close(&copy);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

START_TEST(a_plain_table_takes_names_alone)
{
    struct table_schema s = counting(2, 0), t = rows_schema(OPT_SGD, 3, 2);
    struct table_counts counts;
    uint64_t key = rows_key(1), changed;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 50; i++)
        stats_push(&from, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
    ck_assert_int_eq(table_keys(from.table, KEY_BLOCK, &key, 1, NULL, &changed), 0);
    translate(&from, &to, 2);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 0);
    stats_push(&to, key, 0.5f, 0, 0, (struct stats_batch){0});
    ck_assert(!stats_has(&to, key));
    struct rows copy = stats_through_images(&to);
    rows_close(&copy);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* A field that begins anew has no counts of half-admitted keys. */
START_TEST(counts_of_fields_that_are_left_out_stay_behind)
{
    struct table_schema s = counting(0, 0), t = counting(1, 0);
    const uint64_t without[LIMIT_FIELDS / 64] = {1u << 5};
    struct table_counts counts;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 40; i++)
        stats_push(&from, key_make(5 + (uint32_t)(i % 2), i), 0.5f, 1, 0,
                   (struct stats_batch){.time = NOON});
    ck_assert_int_eq(translate_rows(from.table, 0, to.table, all, without), 0);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 20);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

START_TEST(only_wanted_tablets_take_it)
{
    struct table_schema s = counting(0, 0), t = counting(1, 0);
    static const uint8_t second[2] = {0, 1};
    struct table_counts counts;
    uint64_t keys[50], changed, here = 0;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 50; i++) {
        keys[i] = rows_key(i);
        here += key_tablet(key_mix(keys[i]), 1);
    }
    for (uint64_t i = 50; i < 100; i++)
        stats_push(&from, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
    ck_assert_int_eq(table_keys(from.table, KEY_BLOCK, keys, 50, NULL, &changed), 0);
    ck_assert_int_eq(translate_rows(from.table, 0, to.table, second, nothing), 0);
    table_counts_get(to.table, &counts);
    ck_assert(counts.waiting > 0 && counts.waiting < 50);
    ck_assert_int_eq(table_keys(to.table, KEY_BLOCK, keys, 50, NULL, &changed), 0);
    ck_assert_uint_eq(changed, 50 - here);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* Keys of both generations keep waiting: the one before the last boundary, and the one since. */
START_TEST(keys_of_both_generations_wait_on)
{
    struct table_schema s = counting(1, 0), t = counting(1, 0);
    struct table_counts counts;
    struct rows from = rows_open(&s), to = rows_open(&t);
    t.optimizer.kind = OPT_ADAGRAD;
    for (uint64_t i = 0; i < 40; i++)
        stats_push(&from, rows_key(i), 0.5f, 2, 0,
                   (struct stats_batch){.time = i < 20 ? NOON : NOON + DAY});
    table_counts_get(from.table, &counts);
    ck_assert_uint_eq(counts.waiting, 40);
    translate(&from, &to, 1);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 40);
    for (uint64_t i = 0; i < 40; i++) {
        stats_push(&to, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = 0});
        ck_assert(stats_has(&to, rows_key(i)));
    }
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* The count of batches for l2 moves, too, and the time since a row's last push stays the same; a
 * table without statistics has whole vectors. */
START_TEST(batches_and_vectors_go_along)
{
    struct table_schema s = rows_schema(OPT_SGD, 3, 1), t = stats_schema(OPT_ADAGRAD, 3, 1);
    uint64_t key = rows_key(1);
    s.optimizer.l2 = t.optimizer.l2 = 0.01f;
    t.rules.vector_score = 10;
    for (uint64_t had = 0; had <= 9; had += 9) {
        struct rows from = rows_open(&s), to = rows_open(&t);
        for (uint64_t i = 0; i < 5; i++)
            stats_push(&from, key, 0.5f, 0, 0, (struct stats_batch){.batch = i});
        float weight = stats_weight(&from, key, 2);
        for (uint32_t k = 0; k < 2; k++)
            to.table->tablets[k].batches = had;
        translate(&from, &to, 1);
        for (uint32_t k = 0; k < 2; k++)
            ck_assert_uint_eq(to.table->tablets[k].batches, had > 5 ? had : 5);
        ck_assert_uint_eq(stats_of(&to, key).flags & ROW_HAS_VECTOR, ROW_HAS_VECTOR);
        ck_assert_float_eq(stats_weight(&to, key, 2), weight);
        const float *row = (const float *)table_row(to.table, key) + 2;
        ck_assert_float_eq(row[to.table->last_at], (float)to.table->tablets[0].batches);
        rows_close(&from);
        rows_close(&to);
    }
}
END_TEST

/* Into a table with room for fewer waiting keys: those that do not fit begin again, and after the
 * next waiting key the image can still be read. */
START_TEST(fewer_may_wait)
{
    struct table_schema s = counting(1, 0), t = counting(0, 0);
    struct table_counts counts;
    s.rules.admit_threshold = t.rules.admit_threshold = 100;
    s.rules.admit_waiting = 1000;
    t.rules.admit_waiting = 100;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 400; i++)
        stats_push(&from, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
    translate(&from, &to, 1);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 49); /* one less than turns the generation */
    for (uint64_t i = 400; i < 500; i++) {
        stats_push(&to, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
        struct rows copy = stats_through_images(&to);
        rows_close(&copy);
    }
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* If weights are computed from the state by the settings, the state is not kept under other
 * settings. */
START_TEST(state_of_other_settings_does_not_move_weights)
{
    const uint64_t key = rows_key(1);
    float before[2], after[2];
    struct table_schema s = rows_schema(OPT_FTRL, 2, 0), t = s;
    t.optimizer.lr *= 4;
    struct rows from = rows_open(&s), to = rows_open(&t);
    rows_push_one(&from, key, 0.5f, 0);
    translate(&from, &to, 0);
    table_pull(to.table, &key, 1, before);
    rows_push_one(&to, key, 0, 0);
    table_pull(to.table, &key, 1, after);
    for (int i = 0; i < 2; i++)
        ck_assert(before[i] != 0 && fabsf(before[i] - after[i]) < 1e-6f);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* ---- the parts of a row: first-order weights, vector, the optimizer's state of each ---- */

static struct table_schema parts(enum optimizer_kind kind, uint32_t first, uint32_t vector)
{
    struct table_schema s = rows_schema(kind, first + vector, 1);
    s.zero_first = first;
    return s;
}

static void row_read(const struct rows *r, uint64_t key, float *out)
{
    const struct table_schema *s = table_schema_of(r->table);
    const void *row = table_row(r->table, key);
    ck_assert_ptr_nonnull(row);
    table_row_weights(s, row, out);
    memcpy(out + s->width, table_row_state(s, row), schema_state_floats(s) * sizeof *out);
}

/* With two parts, to one part and back: the part that stayed has the same bits, the other one is as
 * in a new row. */
static void there_and_back(enum optimizer_kind kind, uint32_t first, uint32_t vector)
{
    struct table_schema both = parts(kind, 1, 3), one = parts(kind, first, vector);
    float was[32], is[32], begun[32], away[32];
    const uint64_t key = rows_key(1), other = rows_key(2);
    const uint32_t width = both.width, per_element = optimizer_facts(kind)->per_element;
    struct rows from = rows_open(&both), between = rows_open(&one), to = rows_open(&both);
    for (int i = 0; i < 3; i++)
        rows_push_one(&from, key, 0.25f * (float)(i + 1), 0);
    translate(&from, &between, 1);
    translate(&between, &to, 1);
    row_read(&from, key, was);
    row_read(&between, key, away);
    row_read(&to, key, is);
    struct rows fresh = rows_open(&both);
    rows_push_one(&fresh, other, 0, 0); /* a row of its own, for comparison */
    table_initial(fresh.table, key, begun);
    fresh.table->optimizer.start(begun, &both);
    for (uint32_t block = 0; block <= per_element; block++)
        for (uint32_t i = 0; i < width; i++) {
            bool kept = i < 1 ? first > 0 : vector > 0;
            uint32_t at = block * width + i;
            ck_assert_msg(is[at] == (kept ? was[at] : begun[at]), "%s: place %u",
                          optimizer_facts(kind)->name, at);
            if (kept)
                ck_assert(away[block * one.width + i - (1 - first)] == was[at]);
        }
    uint32_t behind = (1 + per_element) * width;
    for (uint32_t i = behind; i < width + schema_state_floats(&both); i++) {
        bool by_part = kind == OPT_CTR_ADAGRAD, kept = i == behind ? first > 0 : vector > 0;
        ck_assert(is[i] == (by_part && !kept ? begun[i] : was[i]));
    }
    rows_close(&fresh);
    rows_close(&from);
    rows_close(&between);
    rows_close(&to);
}

START_TEST(a_row_is_translated_by_its_parts)
{
    static const enum optimizer_kind kinds[] = {OPT_SGD,  OPT_ADAGRAD, OPT_ROW_ADAGRAD,
                                                OPT_ADAM, OPT_FTRL,    OPT_CTR_ADAGRAD};
    there_and_back(kinds[_i], 0, 3); /* without its first-order weight */
    there_and_back(kinds[_i], 1, 0); /* without its vector */
}
END_TEST

START_TEST(a_vector_begins_as_in_a_new_row)
{
    struct table_schema s = parts(OPT_SGD, 1, 0), t = parts(OPT_ADAGRAD, 1, 3);
    const uint64_t key = rows_key(1);
    float begun[4];
    s.rules.stats = t.rules.stats = 1;
    t.rules.vector_score = 1000;
    struct rows from = rows_open(&s), to = rows_open(&t);
    stats_push(&from, key, 0.5f, 1, 0, (struct stats_batch){.time = NOON});
    translate(&from, &to, 1);
    ck_assert_uint_eq(stats_of(&to, key).flags & ROW_HAS_VECTOR, 0);
    t.rules.vector_score = 0;
    struct rows whole = rows_open(&t);
    translate(&from, &whole, 1);
    table_initial(whole.table, key, begun);
    for (uint32_t i = 1; i < 4; i++) {
        ck_assert_float_eq(stats_weight(&to, key, i), 0);
        ck_assert(stats_weight(&whole, key, i) == begun[i]);
    }
    ck_assert(stats_weight(&whole, key, 0) == stats_weight(&from, key, 0));
    ck_assert_uint_eq(stats_of(&whole, key).flags & ROW_HAS_VECTOR, ROW_HAS_VECTOR);
    ck_assert_float_eq(stats_of(&whole, key).show, 1);
    rows_close(&from);
    rows_close(&to);
    rows_close(&whole);
}
END_TEST

/* The number of floats alone does not decide: 1 + 3 is not 4. */
START_TEST(parts_that_do_not_fit_are_refused)
{
    static const struct {
        uint32_t was[2], is[2];
        const char *said;
        bool good;
    } c[] = {{{1, 3}, {0, 4}, "vectors of 3 numbers in the checkpoint and of 4 in the job", false},
             {{0, 4}, {1, 3}, "vectors of 4 numbers in the checkpoint and of 3 in the job", false},
             {{1, 0}, {0, 1}, "first-order weights alone in the checkpoint", false},
             {{0, 1}, {1, 0}, "vectors alone in the checkpoint", false},
             {{1, 3}, {0, 3}, "first-order weights are dropped", true},
             {{0, 3}, {1, 3}, "first-order weights begin at 0", true},
             {{1, 0}, {1, 3}, "vectors begin", true},
             {{1, 3}, {1, 0}, "vectors are dropped", true}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct table_schema s = parts(OPT_ADAM, c[i].was[0], c[i].was[1]),
                            t = parts(OPT_ADAM, c[i].is[0], c[i].is[1]);
        struct err e = {0};
        char *text = NULL;
        size_t bytes;
        FILE *notes = open_memstream(&text, &bytes);
        int rc = translate_check(&s, &t, notes, &e);
        ck_assert_int_eq(fclose(notes), 0);
        ck_assert_int_eq(rc, c[i].good ? 0 : SHOAL_E_SCHEMA);
        ck_assert_msg(strstr(c[i].good ? text : e.text, c[i].said) != NULL, "%s%s", text, e.text);
        if (!c[i].good)
            ck_assert_msg(strstr(e.text, "fresh: [\"rows:*\"]") != NULL, "%s", e.text);
        free(text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("translate");
    TCase *c = tcase_create("translate");
    tcase_add_loop_test(c, counts_names_and_clock_go_along, 0, 6);
    tcase_add_test(c, a_plain_table_takes_names_alone);
    tcase_add_test(c, counts_of_fields_that_are_left_out_stay_behind);
    tcase_add_test(c, only_wanted_tablets_take_it);
    tcase_add_test(c, keys_of_both_generations_wait_on);
    tcase_add_test(c, batches_and_vectors_go_along);
    tcase_add_test(c, fewer_may_wait);
    tcase_add_test(c, state_of_other_settings_does_not_move_weights);
    tcase_add_loop_test(c, a_row_is_translated_by_its_parts, 0, 6);
    tcase_add_test(c, a_vector_begins_as_in_a_new_row);
    tcase_add_test(c, parts_that_do_not_fit_are_refused);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
