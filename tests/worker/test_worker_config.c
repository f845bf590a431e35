/* test_worker_config.c: worker.yaml. */
#include "worker/worker_config.h"

#include <check.h>
#include <string.h>

/* A list of inputs may be long: it must reach the job whole. */
START_TEST(worker_config_cuts_no_line_of_set)
{
    static const char key[] = "set=data.train=/logs/";
    struct string_list set = {0};
    struct worker_config c;
    struct err e = {0};
    char line[8192];
    memset(line, 'x', sizeof line);
    memcpy(line, key, strlen(key));
    line[sizeof line - 1] = 0;
    ck_assert_int_eq(config_list_add(&set, "cache=/cache"), 0);
    ck_assert_int_eq(config_list_add(&set, line), 0);
    ck_assert_msg(worker_config_load(NULL, &set, &c, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(c.set.count, 2);
    ck_assert_str_eq(c.set.item[0], "data.cache=/cache");
    ck_assert_uint_eq(strlen(c.set.item[1]), strlen(line + strlen("set=")));
    ck_assert_str_eq(c.set.item[1], line + strlen("set="));
    worker_config_free(&c);
    config_list_free(&set);
}
END_TEST

static const char *devices_of(const char *line, struct err *e)
{
    static struct worker_config c;
    struct string_list set = {0};
    memset(e, 0, sizeof *e);
    ck_assert_int_eq(config_list_add(&set, line), 0);
    int rc = worker_config_load(NULL, &set, &c, e);
    ck_assert(rc == 0 || rc == SHOAL_E_CONFIG);
    config_list_free(&set);
    if (rc != 0)
        return NULL;
    worker_config_free(&c); /* leaves the text alone */
    return c.devices;
}

START_TEST(devices_are_a_list_or_one_number)
{
    static const char *const bad[] = {
        "devices=[0, x]",    "devices=[-1]",
        "devices=[65536]",   "devices=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]",
        "devices=[\"0 1\"]", "device=70000"};
    struct err e;
    ck_assert_str_eq(devices_of("devices=[0, 1]", &e), "0,1");
    ck_assert_str_eq(devices_of("devices=3", &e), "3");
    ck_assert_str_eq(devices_of("device=2", &e), "2");
    ck_assert_str_eq(devices_of("lanes=1", &e), "");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_ptr_null(devices_of(bad[i], &e));
        ck_assert_msg(strstr(e.text, "device") != NULL, "%s", e.text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("worker_config");
    TCase *c = tcase_create("config");
    tcase_add_test(c, worker_config_cuts_no_line_of_set);
    tcase_add_test(c, devices_are_a_list_or_one_number);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
