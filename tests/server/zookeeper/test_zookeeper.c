/* test_zookeeper.c: the keep on a real ZooKeeper, whose address is in SHOAL_TEST_ZOOKEEPER (one
 * server on loopback, which the caller has started). Without it the test is skipped. */
#include "server/coord/store/store_zookeeper.h"
#include "tests/lib/coord_put.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *hosts;

static int store_try(const char *login, struct coord_store **out, struct err *e)
{
    static uint64_t writer;
    static char path[64];
    struct coord_zookeeper o = {.path = path, .writer = ++writer};
    (void)snprintf(path, sizeof path, "/shoal-test-%d/%s", (int)getpid(), login ? "kept" : "open");
    int rc = zoo_library_open(hosts, login, 2000, &o.ops, &o.zoo, e);
    return rc != 0 ? rc : coord_zookeeper_open(&o, out, e);
}

static struct coord_store *store_open(void)
{
    struct coord_store *s;
    struct err e = {0};
    ck_assert_msg(store_try(NULL, &s, &e) == 0, "%s", e.text);
    return s;
}

START_TEST(coord_zookeeper_real_keeps_values_of_all_sizes)
{
    struct err e = {0};
    char *value = malloc(COORD_VALUE_MAX), key[16], small[2];
    memset(value, 'x', COORD_VALUE_MAX);
    struct coord_store *s = store_open();
    for (int i = 0; i < 1200; i++) {
        (void)snprintf(key, sizeof key, "k/%d", i % 50);
        ck_assert_msg(coord_put_now(s, key, "v", 2, &e) == 0, "%s", e.text);
    }
    for (int i = 0; i < 4; i++) {
        value[0] = (char)('a' + i);
        ck_assert_msg(coord_put_now(s, "big", value, COORD_VALUE_MAX, &e) == 0, "%s", e.text);
    }
    ck_assert_int_eq(coord_remove_now(s, "k/7", &e), 0);
    coord_store_close(s);
    s = store_open();
    ck_assert_int_eq(coord_store_get_fixed(s, "big", value, COORD_VALUE_MAX, &e), 0);
    ck_assert_int_eq(value[0], 'd');
    ck_assert_int_eq(coord_store_get_fixed(s, "k/8", small, 2, &e), 0);
    ck_assert_int_eq(coord_store_get_fixed(s, "k/7", small, 2, &e), SHOAL_E_NOT_FOUND);
    coord_store_close(s);
    free(value);
}
END_TEST

START_TEST(coord_zookeeper_real_former_coordinator_writes_nothing)
{
    struct err e = {0};
    char got;
    struct coord_store *old = store_open();
    ck_assert_int_eq(coord_put_now(old, "a", "1", 1, &e), 0);
    struct coord_store *new = store_open();
    ck_assert_int_eq(coord_put_now(old, "a", "2", 1, &e), SHOAL_E_FENCED);
    ck_assert_int_eq(coord_store_get_fixed(new, "a", &got, 1, &e), 0);
    ck_assert_int_eq(got, '1');
    coord_store_close(old);
    coord_store_close(new);
}
END_TEST

/* An idle session lives longer than its timeout. */
START_TEST(coord_zookeeper_real_idle_session_lives)
{
    struct err e = {0};
    struct coord_store *s = store_open();
    sleep(3);
    ck_assert_msg(coord_put_now(s, "a", "1", 1, &e) == 0, "%s", e.text);
    coord_store_close(s);
}
END_TEST

START_TEST(coord_zookeeper_real_values_of_a_login_are_its_own)
{
    struct err e = {0};
    struct coord_store *s, *other;
    ck_assert_msg(store_try("shoal:secret", &s, &e) == 0, "%s", e.text);
    ck_assert_int_eq(coord_put_now(s, "a", "1", 1, &e), 0);
    ck_assert_int_eq(store_try("shoal:guess", &other, &e), SHOAL_E_DENIED);
    ck_assert_msg(coord_put_now(s, "a", "2", 1, &e) == 0, "%s", e.text);
    coord_store_close(s);
}
END_TEST

int main(void)
{
    hosts = getenv("SHOAL_TEST_ZOOKEEPER");
    if (hosts == NULL) {
        printf("skipped: SHOAL_TEST_ZOOKEEPER names no server\n");
        return 77;
    }
    Suite *s = suite_create("coord_zookeeper_real");
    TCase *c = tcase_create("zookeeper");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, coord_zookeeper_real_keeps_values_of_all_sizes);
    tcase_add_test(c, coord_zookeeper_real_former_coordinator_writes_nothing);
    tcase_add_test(c, coord_zookeeper_real_idle_session_lives);
    tcase_add_test(c, coord_zookeeper_real_values_of_a_login_are_its_own);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
