/* test_stored.c: keys of the row store: their fields and their order. The values are tested where
 * they are used (test_recover.c) and by fuzz_stored.c. */
#include "embedding/store/stored.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rows.h"
#include "tests/lib/table_sets.h"

#define TABLET_HASH 0xaa6e9975a2286e0full /* that of a stored tablet */
#define CONTROL_HASH 0x409e55f1d9563d36ull
#define LOAD_HASH 0xd9a7a9b707bfc459ull

static int order(const struct store_item *a, const struct store_item *b)
{
    size_t n = a->key_bytes < b->key_bytes ? a->key_bytes : b->key_bytes;
    int c = memcmp(a->key, b->key, n);
    return c != 0 ? c : (a->key_bytes > b->key_bytes) - (a->key_bytes < b->key_bytes);
}

/* key: mixed, as in the index */
static struct store_item row_of(uint32_t table, uint32_t tablet, uint32_t epoch, uint64_t key)
{
    struct store_item i = {0};
    stored_row_key(table, tablet, epoch, key_unmix(key), &i);
    return i;
}

/* Rows are ordered by table, tablet, epoch and key, whatever their bytes. */
START_TEST(rows_lie_in_the_order_of_what_they_name)
{
    const struct store_item rows[] = {row_of(0, 0, 0, 0),
                                      row_of(0, 0, 0, 1),
                                      row_of(0, 0, 0, 0x7fffffffffffffff),
                                      row_of(0, 0, 0, UINT64_MAX),
                                      row_of(0, 0, 1, 0),
                                      row_of(0, 0, 0x800000, 5),
                                      row_of(0, 0, 0xffffff, 0),
                                      row_of(0, 1, 0, 3),
                                      row_of(0, 255, 9, 3),
                                      row_of(0, 256, 0, 0),
                                      row_of(0, 65535, 0, 0),
                                      row_of(1, 0, 0, 0),
                                      row_of(63, 65535, 0xffffff, UINT64_MAX)};
    for (size_t i = 0; i + 1 < sizeof rows / sizeof rows[0]; i++)
        ck_assert_int_lt(order(&rows[i], &rows[i + 1]), 0);
    /* rows come after control state, loads and tablets */
    struct store_item other = {0};
    stored_tablet_key(63, 65535, &other);
    ck_assert_int_lt(order(&other, &rows[0]), 0);
    stored_control_key(&other);
    ck_assert_int_lt(order(&other, &rows[0]), 0);
    stored_load_key(TABLE_SET_NONE, &other);
    ck_assert_int_lt(order(&other, &rows[0]), 0);
    stored_load_key(table_set_one(LIMIT_TABLES - 1), &other);
    ck_assert_int_lt(order(&other, &rows[0]), 0);
    struct store_item control = {0};
    stored_control_key(&control);
    ck_assert_int_lt(order(&other, &control), 0);
}
END_TEST

START_TEST(a_range_holds_one_epoch_of_one_tablet)
{
    struct store_item from = {0}, below = {0};
    stored_row_range(3, 700, 12, &from, &below);
    const struct store_item in[] = {row_of(3, 700, 12, 0), row_of(3, 700, 12, 99),
                                    row_of(3, 700, 12, UINT64_MAX)},
                            out[] = {row_of(3, 700, 11, UINT64_MAX), row_of(3, 700, 13, 0),
                                     row_of(3, 699, 12, 99),         row_of(3, 701, 12, 99),
                                     row_of(2, 700, 12, 99),         row_of(4, 700, 12, 99)};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        ck_assert(order(&from, &in[i]) <= 0 && order(&in[i], &below) < 0);
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++)
        ck_assert(order(&out[i], &from) < 0 || order(&below, &out[i]) <= 0);
}
END_TEST

START_TEST(a_key_tells_what_it_names)
{
    uint32_t table = 9, tablet = 9, epoch = 9;
    uint64_t key = 9;
    struct store_item item = row_of(63, 65535, 0xfffffe, 0x0123456789abcdef);
    ck_assert_uint_le(item.key_bytes, sizeof item.key);
    ck_assert(stored_is_row(item.key, item.key_bytes, &table, &tablet, &epoch, &key));
    ck_assert_uint_eq(table, 63);
    ck_assert_uint_eq(tablet, 65535);
    ck_assert_uint_eq(epoch, 0xfffffe);
    ck_assert_uint_eq(key, key_unmix(0x0123456789abcdef));
    ck_assert(!stored_is_tablet(item.key, item.key_bytes, &table, &tablet));
    ck_assert(!stored_is_control(item.key, item.key_bytes));
    ck_assert(!stored_is_load(item.key, item.key_bytes));
    ck_assert(!stored_is_row(item.key, item.key_bytes - 1, &table, &tablet, &epoch, &key));
    stored_load_key(table_set_word(6), &item);
    ck_assert(stored_is_load(item.key, item.key_bytes));
    ck_assert_int_eq(item.key[1], 1);
    ck_assert(stored_is_load(item.key, 1)); /* of a release that kept one */
    stored_load_key(table_set_one(LIMIT_TABLES - 1), &item);
    ck_assert(stored_is_load(item.key, item.key_bytes));
    ck_assert_uint_eq((uint8_t)item.key[1], LIMIT_TABLES - 1);
    ck_assert(!stored_is_load(item.key, item.key_bytes + 1));
    stored_tablet_key(1, 2, &item);
    ck_assert(!stored_is_row(item.key, item.key_bytes, &table, &tablet, &epoch, &key));
    ck_assert(stored_is_tablet(item.key, item.key_bytes, &table, &tablet));
    ck_assert_uint_eq(tablet, 2);
}
END_TEST

static int no_table(void *context, const struct table_schema *s, const struct table_past *past,
                    struct err *e)
{
    (void)context, (void)s, (void)past, (void)e;
    return 0;
}

/* A whole control state of a later format must not be reported as damaged, which would tell the
 * user to discard it. A damaged one must. */
START_TEST(control_state_of_a_later_version_is_refused_by_name)
{
    struct table *none[LIMIT_TABLES] = {NULL};
    struct runs r = {0};
    struct stored_as_of as_of = {.sequence = 9, .floor = 4}, read;
    struct err e = {0};
    void *value;
    size_t bytes;
    ck_assert_int_eq(stored_control_write(none, &r, as_of, &value, &bytes), 0);
    ck_assert_int_eq(stored_control_read(value, bytes, NULL, &read, no_table, NULL, &e), 0);
    uint64_t head[2]; /* magic, whose last byte is the version, and checksum of what follows */
    memcpy(head, value, sizeof head);
    for (int i = 0; i < 3; i++) {
        bool whole = i > 0;
        head[0] = (head[0] & (UINT64_MAX >> 8)) | (uint64_t)(i == 2 ? '2' : '9') << 56;
        if (whole)
            head[1] = hash_bytes((char *)value + sizeof head, bytes - sizeof head, head[0]);
        memcpy(value, head, sizeof head);
        int rc = stored_control_read(value, bytes, NULL, &read, no_table, NULL, &e);
        ck_assert_int_eq(rc, whole ? SHOAL_E_VERSION : SHOAL_E_CORRUPT);
        static const char *const words[] = {
            "is damaged",
            "version 9, this Shoal reads 3 to 8: it was written by a later one; start that one",
            "version 2, this Shoal reads 3 to 8: it was written by a release before 0.2.0; start"};
        ck_assert_ptr_nonnull(strstr(e.text, words[i]));
    }
    free(value);
}
END_TEST

static char *value;
static size_t value_bytes;

static void control_make(const struct runs *r, struct stored_as_of as_of)
{
    struct table *none[LIMIT_TABLES] = {NULL};
    void *made;
    free(value);
    ck_assert_int_eq(stored_control_write(none, r, as_of, &made, &value_bytes), 0);
    value = made;
}

/* Reads the control state with a checksum that fits its present bytes. */
static int control_read(struct runs *r, struct stored_as_of *as_of)
{
    struct err e = {0};
    uint64_t magic, sum;
    memcpy(&magic, value, sizeof magic);
    sum = hash_bytes(value + 16, value_bytes - 16, magic);
    memcpy(value + 8, &sum, sizeof sum);
    return stored_control_read(value, value_bytes, r, as_of, no_table, NULL, &e);
}

static void word_put(size_t at, uint64_t word)
{
    memcpy(value + at, &word, sizeof word);
}

/* Open runs, ghosts and former runs: each comes back once, with its figures. */
START_TEST(runs_come_back_from_the_control_state)
{
    struct runs r = {0}, again = {0};
    struct stored_as_of as_of;
    struct run *run;
    ck_assert_int_eq(runs_add(&r, 3, table_set_word(5), 2, RUN_BSP, &run), 0);
    run_fence(run, 1, 7, true, -4);
    ck_assert_int_eq(runs_add(&r, 1, table_set_word(5), 2, RUN_SSP, &run), 0);
    run->ghost = true;
    run->seen = 77;
    for (uint64_t id = 2; id <= 3; id++) { /* 3 is open again */
        struct runs other = {0};
        ck_assert_int_eq(runs_add(&other, id, table_set_word(5), 2, RUN_ASYNC, &run), 0);
        ck_assert_int_eq(runs_end(&other, run, 60 + id, 80), 0);
        r.past = realloc(r.past, (id - 1) * sizeof *r.past);
        r.past[r.past_count++] = other.past[0];
        runs_free(&other);
    }
    r.newest = 9;
    r.of[63].newest = 8; /* a table that is not here, as if it had been dropped */
    control_make(&r, (struct stored_as_of){.sequence = 90, .floor = 80});
    ck_assert_int_eq(control_read(&again, &as_of), 0);
    ck_assert(as_of.sequence == 90 && as_of.floor == 80);
    ck_assert_uint_eq(again.newest, 9);
    ck_assert_uint_eq(again.count, 3);
    const struct run *open = runs_find(&again, 3), *ghost = runs_find(&again, 1),
                     *past = runs_find(&again, 2);
    ck_assert(!open->ghost && ghost->ghost && past->ghost);
    ck_assert(open->lane[1].generation == 7 && open->lane[1].live && open->lane[1].offset == -4);
    ck_assert(ghost->seen == 77 && past->seen == 62);
    ck_assert(ghost->mode == RUN_SSP && past->mode == RUN_ASYNC && set_is(past->tables, 5));
    runs_free(&r);
    runs_free(&again);
}
END_TEST

/* All tables were dropped at once: the form of a release that could do no other. */
static void all_cleared(struct runs *r, uint64_t job, uint64_t barrier)
{
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        r->of[t].cleared = job;
        r->of[t].barrier = barrier;
    }
    r->barrier = barrier;
}

static uint64_t magic_of(void)
{
    uint64_t magic;
    memcpy(&magic, value, sizeof magic);
    return magic >> 56;
}

/* What became of the tables of each number comes back, with terms and without. The form of before
 * is written as long as it says all. */
START_TEST(what_was_dropped_comes_back_by_table)
{
    enum { PLACES = 64, TABLE = PLACES + 8, BARRIER = TABLE + 24 };
    struct runs r = {0}, again = {0};
    struct stored_as_of as_of = {.sequence = 90, .floor = 80}, read;
    if (_i == 1)
        term_add(&as_of.terms, 4, 33);
    all_cleared(&r, 2, 40);
    control_make(&r, as_of);
    ck_assert_uint_eq(magic_of(), _i == 1 ? '6' : '5');
    r.of[3] = (struct run_place){7, 9, 70};
    r.of[5] = (struct run_place){0, 8, 60};
    r.barrier = 70;
    control_make(&r, as_of);
    ck_assert_uint_eq(magic_of(), '7');
    ck_assert_int_eq(control_read(&again, &read), 0);
    ck_assert_uint_eq(again.barrier, 70);
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        ck_assert_uint_eq(again.of[t].cleared, r.of[t].cleared);
        ck_assert_uint_eq(again.of[t].barrier, r.of[t].barrier);
    }
    ck_assert_uint_eq(again.of[3].newest, 7);
    ck_assert_uint_eq(read.terms.count, (uint64_t)_i);
    ck_assert_uint_eq(runs_gone(&again, 41).word[0], 1u << 3 | 1u << 5);
    ck_assert_uint_eq(runs_gone(&again, 60).word[0], 1u << 3 | 1u << 5);
    ck_assert_uint_eq(runs_gone(&again, 61).word[0], 1u << 3);
    ck_assert_uint_eq(runs_gone(&again, 71).word[0], 0);
    ck_assert(set_is(runs_gone(&again, 40), UINT64_MAX));
    /* values that cannot be */
    word_put(TABLE, LIMIT_TABLES);
    ck_assert_int_eq(control_read(&again, &read), SHOAL_E_CORRUPT);
    word_put(TABLE, 3);
    word_put(BARRIER, 91);
    ck_assert_int_eq(control_read(&again, &read), SHOAL_E_CORRUPT);
    word_put(BARRIER, 70);
    word_put(PLACES, LIMIT_TABLES + 1);
    ck_assert_int_eq(control_read(&again, &read), SHOAL_E_CORRUPT);
    word_put(PLACES, 0);
    ck_assert_int_eq(control_read(&again, &read), SHOAL_E_CORRUPT);
    runs_free(&again);
}
END_TEST

/* The state is whole, but its values are impossible: both sides of each bound. */
START_TEST(a_control_state_that_cannot_be_is_damaged)
{
    enum { SEQUENCE = 16, FLOOR = 32, CLEARED = 48, BARRIER = 56, LANES = 64 + 16 };
    struct runs r = {0}, read = {0};
    struct stored_as_of as_of;
    struct run *run;
    all_cleared(&r, 2, 9);
    control_make(&r, (struct stored_as_of){.sequence = 9, .floor = 9});
    ck_assert_int_eq(control_read(&read, &as_of), 0);
    ck_assert(read.of[0].cleared == 2 && read.of[0].barrier == 9 && read.barrier == 9);
    word_put(FLOOR, 10);
    ck_assert_int_eq(control_read(&read, &as_of), SHOAL_E_CORRUPT);
    word_put(FLOOR, 9);
    word_put(BARRIER, 10);
    ck_assert_int_eq(control_read(&read, &as_of), SHOAL_E_CORRUPT);
    word_put(BARRIER, 9);
    value = realloc(value, value_bytes + 8);
    word_put(value_bytes, 0);
    value_bytes += 8;
    ck_assert_int_eq(control_read(&read, &as_of), SHOAL_E_CORRUPT);
    ck_assert_int_eq(runs_add(&r, 1, table_set_word(1), LIMIT_LANES, RUN_SSP, &run), 0);
    control_make(&r, (struct stored_as_of){.sequence = 9, .floor = 9});
    ck_assert_int_eq(control_read(&read, &as_of), 0);
    ck_assert_uint_eq(runs_find(&read, 1)->lanes, LIMIT_LANES);
    for (uint32_t lanes = 0; lanes <= LIMIT_LANES + 1; lanes += LIMIT_LANES + 1) {
        memcpy(value + LANES, &lanes, sizeof lanes);
        ck_assert_int_eq(control_read(NULL, &as_of), SHOAL_E_CORRUPT);
    }
    runs_free(&r);
    runs_free(&read);
}
END_TEST

/* A table, a run, a dropped run or the end of a table of number 64 or more: each alone makes the
 * form that older releases refuse by its version, and comes back. */
START_TEST(tables_from_64_on_have_a_version_of_their_own)
{
    struct runs r = {0}, other = {0}, again = {0};
    struct stored_as_of as_of = {.sequence = 90, .floor = 80}, read;
    const struct table_set far = table_set_one(LIMIT_TABLES - 1);
    struct run *run;
    ck_assert_int_eq(runs_add(&r, 3, table_set_word(5), 2, RUN_BSP, &run), 0);
    control_make(&r, as_of);
    ck_assert_uint_eq(magic_of(), '5');
    if (_i == 0)
        run->tables = table_set_or(run->tables, far);
    if (_i == 1) {
        ck_assert_int_eq(runs_add(&other, 2, far, 2, RUN_ASYNC, &run), 0);
        ck_assert_int_eq(runs_end(&other, run, 62, 80), 0);
        r.past = other.past;
        r.past_count = 1;
        free(other.run);
    }
    if (_i == 2)
        r.of[64] = (struct run_place){7, 9, 70};
    if (_i == 3)
        term_add(&as_of.terms, 4, 33);
    if (_i == 3)
        r.of[LIMIT_TABLES - 1] = (struct run_place){7, 9, 70};
    r.barrier = _i >= 2 ? 70 : 0;
    control_make(&r, as_of);
    ck_assert_uint_eq(magic_of(), '8');
    ck_assert_int_eq(control_read(&again, &read), 0);
    const struct run *is = runs_find(&again, _i == 1 ? 2 : 3);
    ck_assert_ptr_nonnull(is);
    if (_i == 0)
        ck_assert(table_set_equal(is->tables, table_set_or(table_set_word(5), far)));
    if (_i == 1)
        ck_assert(is->ghost && table_set_equal(is->tables, far));
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        ck_assert_uint_eq(again.of[t].cleared, r.of[t].cleared);
        ck_assert_uint_eq(again.of[t].barrier, r.of[t].barrier);
    }
    ck_assert_uint_eq(read.terms.count, _i == 3);
    runs_free(&r);
    runs_free(&again);
}
END_TEST

/* The rows of a table are one range, the last one's too: no row of another table is in it. */
START_TEST(a_range_has_all_rows_of_its_table)
{
    static const uint32_t tables[] = {0, 63, 64, 254, LIMIT_TABLES - 1};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct store_item from, below, row;
        stored_table_rows(tables[i], &from, &below);
        for (uint32_t t = 0; t < LIMIT_TABLES; t++)
            for (int end = 0; end < 2; end++) {
                row =
                    end == 0 ? row_of(t, 0, 0, 0) : row_of(t, 65535, STORED_EPOCH_MAX, UINT64_MAX);
                bool in = !store_item_below(&row, &from) && store_item_below(&row, &below);
                ck_assert_int_eq(in, t == tables[i]);
            }
    }
}
END_TEST

/* The record must be whole and of the right length. */
START_TEST(a_word_about_a_load_that_cannot_be_is_damaged)
{
    /* _i 1: with a table that older releases cannot have */
    struct stored_load is = {.run = 7, .tables = table_set_word(5), .under_way = true}, read;
    const size_t way = _i == 0 ? 32 : 56;
    uint64_t word[STORED_LOAD_BYTES / 8 + 1] = {0};
    struct store_item item;
    struct err e = {0};
    if (_i == 1)
        table_set_add(&is.tables, 64);
    stored_load_write(&is, word, &item);
    ck_assert_uint_eq(item.value_bytes, way + 8);
    ck_assert_int_eq(stored_load_read(word, way + 8, &read, &e), 0);
    ck_assert(read.run == 7 && table_set_equal(read.tables, is.tables) && read.under_way);
    for (size_t bytes = 0; bytes <= sizeof word; bytes++)
        if (bytes != way + 8)
            ck_assert_int_eq(stored_load_read(word, bytes, &read, &e), SHOAL_E_CORRUPT);
    for (size_t i = 0; i < (way + 8) / 8; i++) { /* magic, checksum and each member */
        word[i]++;
        ck_assert_int_eq(stored_load_read(word, way + 8, &read, &e), SHOAL_E_CORRUPT);
        word[i]--;
    }
    word[way / 8] = 2; /* with a checksum that fits */
    word[1] = hash_bytes(word + 2, way - 8, word[0]);
    ck_assert_int_eq(stored_load_read(word, way + 8, &read, &e), SHOAL_E_CORRUPT);
}
END_TEST

/* Terms come back; without one the state has the bytes of version 5. */
START_TEST(terms_come_back_from_the_control_state)
{
    struct runs r = {0};
    struct stored_as_of as_of = {.sequence = 90, .floor = 80}, read;
    control_make(&r, as_of);
    size_t least = value_bytes;
    ck_assert_int_eq(value[7], '5');
    ck_assert_int_eq(control_read(NULL, &read), 0);
    ck_assert_uint_eq(read.terms.count, 0);
    as_of.terms.dropped = 2;
    term_add(&as_of.terms, 5, 30);
    term_add(&as_of.terms, 9, 90);
    control_make(&r, as_of);
    ck_assert_int_eq(value[7], '6');
    ck_assert_uint_eq(value_bytes, least + 16 + 2 * 16);
    ck_assert_int_eq(control_read(NULL, &read), 0);
    ck_assert_mem_eq(&read.terms, &as_of.terms, sizeof read.terms);
    static const uint64_t bad[][2] = {{8, 0},  {8, 3},   {8, TERMS_KEPT + 1},
                                      {0, 5},  {16, 9},  {24, 90},
                                      {32, 5}, {40, 30}, {40, 91}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        control_make(&r, as_of);
        word_put(least + bad[i][0], bad[i][1]);
        ck_assert_int_eq(control_read(NULL, &read), SHOAL_E_CORRUPT);
    }
}
END_TEST

/* The records of runs and loads have the same bytes in every release: otherwise a release could not
 * read those of an earlier one. */
START_TEST(runs_and_loads_are_stored_as_in_every_release)
{
    const struct stored_load load = {.run = 7, .tables = table_set_word(5), .under_way = true};
    char marker[STORED_LOAD_BYTES];
    struct store_item item;
    struct runs r = {0};
    struct run *run;
    ck_assert_int_eq(runs_add(&r, 3, table_set_word(5), 2, RUN_BSP, &run), 0);
    run_fence(run, 1, 7, true, -4);
    all_cleared(&r, 2, 70);
    control_make(&r, (struct stored_as_of){.sequence = 90, .floor = 80});
    ck_assert_uint_eq(hash_bytes(value, value_bytes, 0), CONTROL_HASH);
    stored_load_write(&load, marker, &item);
    ck_assert_uint_eq(hash_bytes(item.value, item.value_bytes, 0), LOAD_HASH);
    runs_free(&r);
}
END_TEST

/* A tablet with a mark and no row has the same bytes in every release. Read as another table or
 * tablet it is refused. */
START_TEST(a_tablet_is_stored_as_in_every_release)
{
    struct table_schema s = rows_schema(OPT_SGD, 2, 1), other;
    struct rows rows = rows_open(&s);
    struct runs r = {0};
    struct run *run;
    struct err e = {0};
    uint64_t flushed;
    ck_assert_int_eq(runs_add(&r, 3, table_set_word(1), 2, RUN_SSP, &run), 0);
    ck_assert_int_eq(marks_set(run->marks, 1, 0, 2, 1, 5), 0);
    size_t bytes = stored_tablet_bytes(rows.table, &r, 1);
    char *tablet = malloc(bytes);
    stored_tablet_write(rows.table, &r, 1, 42, tablet);
    ck_assert_uint_eq(hash_bytes(tablet, bytes, 0), TABLET_HASH);
    ck_assert_int_eq(stored_tablet_head(tablet, bytes, &s, 1, &flushed, &e), 0);
    ck_assert_uint_eq(flushed, 42);
    ck_assert_int_eq(stored_tablet_head(tablet, bytes, &s, 0, &flushed, &e), SHOAL_E_CORRUPT);
    other = s;
    other.table = 1;
    ck_assert_int_eq(stored_tablet_head(tablet, bytes, &other, 1, &flushed, &e), SHOAL_E_CORRUPT);
    free(tablet);
    runs_free(&r);
    rows_close(&rows);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stored");
    TCase *t = tcase_create("keys");
    tcase_add_test(t, rows_lie_in_the_order_of_what_they_name);
    tcase_add_test(t, a_range_holds_one_epoch_of_one_tablet);
    tcase_add_test(t, a_key_tells_what_it_names);
    tcase_add_test(t, control_state_of_a_later_version_is_refused_by_name);
    tcase_add_test(t, runs_come_back_from_the_control_state);
    tcase_add_test(t, terms_come_back_from_the_control_state);
    tcase_add_loop_test(t, what_was_dropped_comes_back_by_table, 0, 2);
    tcase_add_test(t, a_control_state_that_cannot_be_is_damaged);
    tcase_add_loop_test(t, tables_from_64_on_have_a_version_of_their_own, 0, 4);
    tcase_add_test(t, a_range_has_all_rows_of_its_table);
    tcase_add_loop_test(t, a_word_about_a_load_that_cannot_be_is_damaged, 0, 2);
    tcase_add_test(t, runs_and_loads_are_stored_as_in_every_release);
    tcase_add_test(t, a_tablet_is_stored_as_in_every_release);
    suite_add_tcase(s, t);
    return rows_main(s);
}
