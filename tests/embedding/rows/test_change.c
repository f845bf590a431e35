/* test_change.c: a table's schema changes: from then on the table, except for its rows, is as if it
 * had always had the new schema; and so are its older images. */
#include "embedding/rows/image.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_stats.h"

/* A schema with everything that a tablet can have beside its rows. */
static struct table_schema before(void)
{
    struct table_schema s = stats_schema(OPT_ROW_ADAGRAD, 2, 1);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    s.rules.admit_sketch = 256;
    s.rules.admit_waiting = 100;
    s.rules.age_every = DAY;
    s.rules.age_decay = 0.9f;
    s.rules.age_score = 0.2f;
    s.rules.age_capacity = 40;
    s.field_rule_count = 1;
    s.field_rule[0] = (struct field_rule){
        .field = 2, .has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_SCORE, .admit_threshold = 1};
    return s;
}

#define OTHERS 9

static struct table_schema after(int which)
{
    struct table_schema s = before();
    switch (which) {
    case 0:
        s.optimizer.lr = 0.5f;
        s.init = (struct init_spec){INIT_CONSTANT, 0.25f};
        return s;
    case 1:
        s.rules.admit_kind = ADMIT_ALL;
        s.field_rule_count = 0;
        return s;
    case 2:
        s.rules.admit_sketch = 0;
        return s;
    case 3:
        s.rules.admit_sketch = 128;
        s.rules.admit_threshold = 2;
        return s;
    case 4:
        s.rules.admit_waiting = 4; /* too few for the waiting keys */
        return s;
    case 5: /* rows are no longer evicted: the undo of evicted ones must go */
        s.rules.age_every = s.rules.age_capacity = 0;
        s.rules.age_decay = s.rules.age_score = 0;
        return s;
    case 6:
        s.rules.age_every = DAY / 2;
        s.rules.age_ttl = 2 * DAY;
        s.rules.age_capacity = 20;
        s.rules.age_by = EVICT_SCORE;
        return s;
    case 7:
        s.rules.vector_score = 1;
        s.rules.weight_max = 0.05f;
        s.rules.norm_max = 0.1f;
        s.rules.by_shows = 1;
        return s;
    default:
        s.field_rule[0].admit_kind = ADMIT_NONE;
        s.optimizer.decay = 0.9f;
        return s;
    }
}

static void live(struct rows *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct rng random = rng_of(i, 1, 1);
        uint64_t key = key_make((uint32_t)(1 + rng_below(&random, 2)), rng_below(&random, 80));
        stats_push(r, key, 0.5f, (float)(1 + rng_below(&random, 3)), 0,
                   (struct stats_batch){
                       .time = FIRST_DAY + i * 600, .batch = i, .undo_clock = i / 10 + 1});
    }
}

static void take_images(const struct rows *from, struct rows *to)
{
    for (uint32_t t = 0; t < 2; t++) {
        size_t bytes = table_image_bytes(from->table, t);
        void *image = malloc(bytes);
        struct err e = {0};
        table_image_write(from->table, t, image);
        ck_assert_msg(table_image_read(to->table, t, image, bytes, &e) == 0, "%s", e.text);
        free(image);
    }
}

static void assert_same(const struct rows *a, const struct rows *b)
{
    struct table_counts x, y;
    table_counts_get(a->table, &x);
    table_counts_get(b->table, &y);
    ck_assert_uint_eq(x.waiting, y.waiting);
    ck_assert_uint_eq(rows_digest(a->table), rows_digest(b->table));
    for (uint32_t t = 0; t < 2; t++)
        ck_assert_uint_eq(table_image_bytes(a->table, t), table_image_bytes(b->table, t));
}

START_TEST(a_changed_tablet_is_what_its_older_image_becomes)
{
    struct table_schema s = before(), other = after(_i);
    struct rows a = rows_open(&s), old = rows_open(&s), b = rows_open(&other);
    char difference[SCHEMA_DIFFERENCE_MAX];
    live(&a, 0, 600);
    take_images(&a, &old);
    uint64_t rows = rows_digest(a.table);
    ck_assert_int_ge(schema_change(&s, &other, difference), SCHEMA_AGES);
    table_change(a.table, &other, 5);
    ck_assert_uint_eq(rows_digest(a.table), rows);
    ck_assert(schema_equal(table_schema_of(a.table), &other));
    ck_assert_uint_eq(table_past(a.table)->sequence, 5);
    table_past_set(b.table, table_past(a.table));
    take_images(&old, &b);
    assert_same(&a, &b);
    live(&a, 600, 1200);
    live(&b, 600, 1200);
    assert_same(&a, &b);
    /* its new images have the new schema */
    struct rows c = rows_open(&other);
    take_images(&b, &c);
    assert_same(&b, &c);
    rows_close(&a);
    rows_close(&old);
    rows_close(&b);
    rows_close(&c);
}
END_TEST

START_TEST(an_image_of_before_the_last_but_one_is_refused)
{
    struct table_schema s = before();
    struct rows a = rows_open(&s);
    struct err e = {0};
    live(&a, 0, 300);
    size_t bytes = table_image_bytes(a.table, 0);
    void *image = malloc(bytes);
    table_image_write(a.table, 0, image);
    s = after(0);
    table_change(a.table, &s, 5);
    ck_assert_int_eq(table_image_read(a.table, 0, image, bytes, &e), 0);
    s = after(1);
    table_change(a.table, &s, 9);
    uint64_t digest = rows_digest(a.table);
    ck_assert_int_eq(table_image_read(a.table, 0, image, bytes, &e), SHOAL_E_SCHEMA);
    ck_assert_uint_eq(rows_digest(a.table), digest);
    free(image);
    rows_close(&a);
}
END_TEST

/* ---- fewer keys may wait ---- */

static struct table_schema waiting_at_most(uint32_t keys)
{
    struct table_schema s = stats_schema(OPT_ROW_ADAGRAD, 2, 0);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    s.rules.admit_waiting = keys;
    return s;
}

static void let_wait(struct rows *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        stats_push(r, key_make(1, i), 0.5f, 1, 0, (struct stats_batch){.batch = i});
}

static uint64_t waiting_in(const struct rows *r)
{
    struct table_counts counts;
    table_counts_get(r->table, &counts);
    return counts.waiting;
}

/* A full generation turns with its last key. If a lower bound makes a generation full, it may not
 * take one more key first: readers would refuse its length. */
START_TEST(a_generation_is_never_longer_than_the_lowered_bound)
{
    struct table_schema s = waiting_at_most(200), fewer = waiting_at_most(100);
    for (uint32_t keys = 48; keys <= 52; keys++) {
        struct rows a = rows_open(&s);
        let_wait(&a, 0, keys);
        table_change(a.table, &fewer, 5);
        ck_assert_uint_eq(waiting_in(&a), keys <= 50 ? keys : 0);
        for (uint32_t more = 0; more <= 120; more++) {
            struct rows b = stats_through_images(&a);
            ck_assert_uint_eq(waiting_in(&b), waiting_in(&a));
            rows_close(&b);
            let_wait(&a, keys + more, keys + more + 1);
        }
        rows_close(&a);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("change");
    TCase *t = tcase_create("change");
    tcase_add_loop_test(t, a_changed_tablet_is_what_its_older_image_becomes, 0, OTHERS);
    tcase_add_test(t, an_image_of_before_the_last_but_one_is_refused);
    tcase_add_test(t, a_generation_is_never_longer_than_the_lowered_bound);
    suite_add_tcase(s, t);
    return rows_main(s);
}
