/* test_store.c: both implementations of the row store, with the same cases. */
#include "embedding/store.h"
#include "tests/lib/rig_dir.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct store_item item_of(const char *key, const void *value, size_t bytes)
{
    struct store_item i = {.key_bytes = strlen(key), .value = value, .value_bytes = bytes};
    memcpy(i.key, key, strlen(key));
    return i;
}

struct seen {
    char keys[64];
    size_t bytes;
    int stop;
};

static int see(void *context, const void *key, size_t key_bytes, const void *value,
               size_t value_bytes, struct err *e)
{
    struct seen *s = context;
    (void)value;
    (void)e;
    strncat(s->keys, key, key_bytes);
    s->bytes += value_bytes;
    return s->stop;
}

static void check_store(struct store *s)
{
    char *big = calloc(1, 100000);
    struct store_item items[] = {item_of("b", big, 100000), item_of("a", "x", 1),
                                 item_of("c", "", 0)};
    struct seen seen = {0};
    ck_assert_int_eq(store_write(s, items, 3, NULL), 0);
    ck_assert_int_eq(store_write(s, &items[1], 1, NULL), 0);
    ck_assert_int_eq(store_flush(s, NULL), 0);
    ck_assert_int_eq(store_scan(s, see, &seen, NULL), 0);
    ck_assert_str_eq(seen.keys, "abc");
    ck_assert_uint_eq(seen.bytes, 100001);
    seen.stop = SHOAL_E_END;
    ck_assert_int_eq(store_scan(s, see, &seen, NULL), SHOAL_E_END);
    ck_assert_str_eq(seen.keys, "abca");
    free(big);
}

START_TEST(memory_keeps_what_is_written)
{
    struct store *s;
    ck_assert_int_eq(store_mem_open(&s), 0);
    check_store(s);
    ck_assert_int_ne(store_checkpoint(s, "/nowhere", NULL), 0);
    store_close(s);
}
END_TEST

START_TEST(rocks_keeps_what_is_flushed)
{
    char dir[LIMIT_PATH], rows[LIMIT_PATH + 16], copy[LIMIT_PATH + 16];
    struct store *s;
    struct err e;
    rig_dir(dir);
    snprintf(rows, sizeof rows, "%s/rows", dir);
    snprintf(copy, sizeof copy, "%s/copy", dir);
    ck_assert_int_eq(store_rocks_open(rows, 0, &s, &e), 0);
    check_store(s);
    ck_assert_msg(store_checkpoint(s, copy, &e) == 0, "%s", e.text);
    struct store_item more = item_of("d", "y", 1);
    ck_assert_int_eq(store_write(s, &more, 1, &e), 0);
    store_close(s);
    struct seen seen = {0};
    ck_assert_msg(store_rocks_open_copy(copy, &s, &e) == 0, "%s", e.text);
    ck_assert_int_eq(store_scan(s, see, &seen, &e), 0);
    ck_assert_str_eq(seen.keys, "abc");
    store_close(s);
    rig_remove_dir(dir);
}
END_TEST

/* Otherwise a closed store would be ahead of a journal that was not synced. */
START_TEST(what_is_not_flushed_goes_with_a_close)
{
    char dir[LIMIT_PATH], rows[LIMIT_PATH + 16];
    struct store *s;
    struct err e;
    struct seen seen = {0};
    rig_dir(dir);
    snprintf(rows, sizeof rows, "%s/rows", dir);
    ck_assert_int_eq(store_rocks_open(rows, _i == 0 ? 0 : 1u << 20, &s, &e), 0);
    check_store(s);
    struct store_item more = item_of("d", "y", 1);
    ck_assert_int_eq(store_write(s, &more, 1, &e), 0);
    store_close(s);
    ck_assert_int_eq(store_rocks_open(rows, _i == 0 ? 0 : 1u << 20, &s, &e), 0);
    ck_assert_int_eq(store_scan(s, see, &seen, &e), 0);
    ck_assert_str_eq(seen.keys, "abc");
    store_close(s);
    rig_remove_dir(dir);
}
END_TEST

/* ---- get and drop: keys of four bytes, big-endian, each with a value made from its number ---- */

#define MANY 3000u /* more than one batch of the store */
#define VALUE_BYTES 24u

static struct store_item numbered(uint32_t number, void *value, size_t bytes)
{
    struct store_item i = {.key_bytes = 5, .value = value, .value_bytes = bytes};
    i.key[0] = 'n';
    for (int k = 0; k < 4; k++)
        i.key[1 + k] = (char)(number >> (24 - 8 * k));
    return i;
}

static void fill(char *value, uint32_t number, uint32_t turn)
{
    for (uint32_t i = 0; i < VALUE_BYTES; i++)
        value[i] = (char)(number * 7 + turn * 31 + i);
}

/* Writes the even numbers below 2 x MANY; every hundredth value is a byte longer than the
 * others. */
static void write_many(struct store *s, uint32_t turn)
{
    char value[VALUE_BYTES + 1] = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        struct store_item item = numbered(2 * i, value, VALUE_BYTES + (i % 100 == 99));
        fill(value, 2 * i, turn);
        ck_assert_int_eq(store_write(s, &item, 1, NULL), 0);
    }
}

static void check_get(struct store *s)
{
    static struct store_item keys[2 * MANY];
    static char values[2 * MANY][VALUE_BYTES];
    static size_t sizes[2 * MANY];
    char want[VALUE_BYTES];
    struct err e = {0};
    write_many(s, 1);
    for (uint32_t i = 0; i < 2 * MANY; i++) /* from the last on; odd ones are absent */
        keys[i] = numbered(2 * MANY - 1 - i, NULL, 0);
    memset(values, 'z', sizeof values);
    ck_assert_msg(store_get(s, keys, 2 * MANY, values, VALUE_BYTES, sizes, &e) == 0, "%s", e.text);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        uint32_t number = 2 * MANY - 1 - i;
        bool there = number % 2 == 0, longer = number / 2 % 100 == 99;
        ck_assert_uint_eq(sizes[i], there ? VALUE_BYTES + longer : 0);
        if (there && !longer)
            fill(want, number, 1);
        else
            memset(want, 'z', sizeof want); /* left unchanged */
        ck_assert_mem_eq(values[i], want, VALUE_BYTES);
    }
    ck_assert_int_eq(store_get(s, keys, 0, values, VALUE_BYTES, sizes, &e), 0);
}

static void check_drop(struct store *s)
{
    static struct store_item keys[2 * MANY];
    static char values[2 * MANY][VALUE_BYTES];
    static size_t sizes[2 * MANY];
    struct store_item from = numbered(100, NULL, 0), below = numbered(4000, NULL, 0);
    write_many(s, 2);
    ck_assert_int_eq(store_drop(s, &from, &below, NULL), 0);
    ck_assert_int_eq(store_drop(s, &from, &from, NULL), 0); /* the range is empty */
    for (int flushed = 0; flushed < 2; flushed++) {
        for (uint32_t i = 0; i < 2 * MANY; i++)
            keys[i] = numbered(i, NULL, 0);
        ck_assert_int_eq(store_get(s, keys, 2 * MANY, values, VALUE_BYTES, sizes, NULL), 0);
        for (uint32_t i = 0; i < 2 * MANY; i += 2)
            ck_assert_int_eq(sizes[i] > 0, i < 100 || i >= 4000);
        ck_assert_int_eq(store_flush(s, NULL), 0);
    }
    char value[VALUE_BYTES];
    struct store_item item = numbered(200, value, VALUE_BYTES);
    fill(value, 200, 3);
    ck_assert_int_eq(store_write(s, &item, 1, NULL), 0); /* later values stay */
    ck_assert_int_eq(store_get(s, &item, 1, values, VALUE_BYTES, sizes, NULL), 0);
    ck_assert_uint_eq(sizes[0], VALUE_BYTES);
    ck_assert_mem_eq(values[0], value, VALUE_BYTES);
    item.value = NULL;
    ck_assert_int_eq(store_write(s, &item, 1, NULL), 0);
    ck_assert_int_eq(store_get(s, &item, 1, values, VALUE_BYTES, sizes, NULL), 0);
    ck_assert_uint_eq(sizes[0], 0);
}

START_TEST(memory_gets_and_drops)
{
    struct store *s;
    ck_assert_int_eq(store_mem_open(&s), 0);
    check_get(s);
    check_drop(s);
    store_close(s);
}
END_TEST

START_TEST(rocks_gets_and_drops)
{
    char dir[LIMIT_PATH], rows[LIMIT_PATH + 16];
    struct store *s;
    struct err e;
    rig_dir(dir);
    snprintf(rows, sizeof rows, "%s/rows", dir);
    ck_assert_int_eq(store_rocks_open(rows, 8u << 20, &s, &e), 0);
    check_get(s);
    check_drop(s);
    ck_assert_int_eq(store_compact(s, &e), 0);
    struct store_item item = numbered(102, NULL, 0);
    char value[VALUE_BYTES];
    size_t size;
    ck_assert_int_eq(store_get(s, &item, 1, value, VALUE_BYTES, &size, &e), 0);
    ck_assert_uint_eq(size, 0);
    store_close(s);
    rig_remove_dir(dir);
}
END_TEST

struct beside {
    struct store *store;
    atomic_bool stop;
    int status;
};

static void *write_on(void *context)
{
    struct beside *b = context;
    char value[2][VALUE_BYTES];
    for (uint32_t turn = 0; !atomic_load(&b->stop) && b->status == 0; turn++) {
        struct store_item pair[2] = {numbered(8, value[0], VALUE_BYTES),
                                     numbered(9, value[1], VALUE_BYTES)};
        fill(value[0], 8, turn % 2);
        fill(value[1], 9, turn % 2);
        b->status = store_write(b->store, pair, 2, NULL);
        if (b->status == 0 && turn % 50 == 49)
            b->status = store_flush(b->store, NULL);
    }
    return NULL;
}

START_TEST(rocks_gets_beside_a_writing_thread)
{
    char dir[LIMIT_PATH], rows[LIMIT_PATH + 16], value[VALUE_BYTES], want[2][VALUE_BYTES];
    struct beside b = {0};
    struct err e;
    pthread_t thread;
    size_t size;
    rig_dir(dir);
    snprintf(rows, sizeof rows, "%s/rows", dir);
    ck_assert_int_eq(store_rocks_open(rows, 0, &b.store, &e), 0);
    write_many(b.store, 1);
    fill(want[0], 8, 0);
    fill(want[1], 8, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, write_on, &b), 0);
    for (uint32_t i = 0; i < 2000; i++) {
        struct store_item item = numbered(8, NULL, 0);
        ck_assert_int_eq(store_get(b.store, &item, 1, value, VALUE_BYTES, &size, &e), 0);
        ck_assert_uint_eq(size, VALUE_BYTES); /* one value or the other, whole */
        ck_assert(memcmp(value, want[0], VALUE_BYTES) == 0 ||
                  memcmp(value, want[1], VALUE_BYTES) == 0);
    }
    atomic_store(&b.stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(b.status, 0);
    store_close(b.store);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(rocks_that_cannot_open_say_where)
{
    struct store *s;
    struct err e = {0};
    ck_assert_int_ne(store_rocks_open("/proc/no/such/place", 0, &s, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.text, "/proc/no/such/place"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store");
    TCase *t = tcase_create("store");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, memory_keeps_what_is_written);
    tcase_add_test(t, rocks_keeps_what_is_flushed);
    tcase_add_loop_test(t, what_is_not_flushed_goes_with_a_close, 0, 2);
    tcase_add_test(t, memory_gets_and_drops);
    tcase_add_test(t, rocks_gets_and_drops);
    tcase_add_test(t, rocks_gets_beside_a_writing_thread);
    tcase_add_test(t, rocks_that_cannot_open_say_where);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
