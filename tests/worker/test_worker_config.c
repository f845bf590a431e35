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

int main(void)
{
    Suite *s = suite_create("worker_config");
    TCase *c = tcase_create("config");
    tcase_add_test(c, worker_config_cuts_no_line_of_set);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
