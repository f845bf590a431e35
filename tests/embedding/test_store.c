/* test_store.c: both fillings of the row store, by the same cases. */
#include "embedding/store.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <fcntl.h>
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

static int see(void *context, const void *key, size_t key_bytes, const void *value, size_t value_bytes, struct err *e)
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
    struct store_item items[] = {item_of("b", big, 100000), item_of("a", "x", 1), item_of("c", "", 0)};
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
    tcase_add_test(t, rocks_that_cannot_open_say_where);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
