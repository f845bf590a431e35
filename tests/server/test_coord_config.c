/* test_coord_config.c: coordinator.yaml. */
#include "server/server_config.h"

#include <check.h>
#include <string.h>

static int parse(const char *text, struct coord_config *c, struct err *e)
{
    return server_config_parse_coordinator(text, strlen(text), "coordinator.yaml", NULL, c, e);
}

START_TEST(coord_config_has_defaults)
{
    struct coord_config c;
    struct err e = {0};
    ck_assert_msg(server_config_coordinator(NULL, NULL, &c, &e) == 0, "%s", e.text);
    ck_assert_str_eq(c.listen, "ipc:///run/shoal/coordinator/socket");
    ck_assert_uint_eq(c.shards, 1);
    ck_assert_uint_eq(c.lease_ms, 10000);
    ck_assert_uint_eq(c.replicas, 1);
    ck_assert_uint_eq(c.min_in_sync, 1);
    ck_assert_uint_eq(c.shard_lease_ms, 6000);
    ck_assert_str_eq(c.report, "");
    ck_assert_str_eq(c.tensorboard, "");
    ck_assert(!c.insecure_plaintext);
}
END_TEST

START_TEST(coord_config_reads_all_keys)
{
    struct coord_config c;
    struct err e = {0};
    ck_assert_msg(
        parse(
            "listen: tcp://127.0.0.1:9\ndata_dir: /d\nshards: 3\nlease: 2s\nresend: 100ms\nreport: "
            "r.json\nnet: {drop: 0.1}\n"
            "insecure_plaintext: true\nkeys: k\nallow: l\n"
            "replicas: 3\nmin_in_sync: 2\nshard_lease: 4s\nreplace_after: 10min\nadvertise: h1\n"
            "store: zookeeper://h1:2181,h2:2181/a/b\n",
            &c, &e) == 0,
        "%s", e.text);
    ck_assert_str_eq(c.data_dir, "/d");
    ck_assert_uint_eq(c.shards, 3);
    ck_assert_uint_eq(c.lease_ms, 2000);
    ck_assert_uint_eq(c.resend_ms, 100);
    ck_assert_uint_eq(c.replicas, 3);
    ck_assert_uint_eq(c.min_in_sync, 2);
    ck_assert_uint_eq(c.shard_lease_ms, 4000);
    ck_assert_uint_eq(c.replace_after_ms, 600000);
    ck_assert_double_eq(c.drop, 0.1);
    ck_assert(c.insecure_plaintext);
    ck_assert_str_eq(c.keys, "k");
    ck_assert_str_eq(c.allow, "l");
    ck_assert_str_eq(c.advertise, "h1");
    ck_assert_str_eq(c.store_hosts, "h1:2181,h2:2181");
    ck_assert_str_eq(c.store_path, "/a/b");
}
END_TEST

/* Spaces are named by jobs: any name stands. */
START_TEST(coord_config_has_weights_of_spaces)
{
    struct coord_config c;
    struct string_list set = {0};
    struct err e = {0};
    const char *text = "memory: {ads: 2, 2024-search.v2: 0.5}\n";
    ck_assert_msg(parse(text, &c, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(c.memory.count, 2);
    ck_assert_str_eq(c.memory.of[0].space, "ads");
    ck_assert_double_eq(c.memory.of[0].weight, 2);
    ck_assert_str_eq(c.memory.of[1].space, "2024-search.v2");
    ck_assert_double_eq(c.memory.of[1].weight, 0.5);
    ck_assert_int_eq(config_list_add(&set, "memory.ads=7"), 0);
    ck_assert_int_eq(
        server_config_parse_coordinator(text, strlen(text), "coordinator.yaml", &set, &c, &e), 0);
    ck_assert_double_eq(c.memory.of[1].weight, 7);
    config_list_free(&set);
    ck_assert_int_eq(parse("shards: 1\nmemory:\n  ads: 0\n", &c, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "coordinator.yaml:3: memory.ads") != NULL, "%s", e.text);
    ck_assert_int_eq(parse("memory: 4GiB\n", &c, &e), SHOAL_E_CONFIG); /* that is a server's */
    ck_assert_int_eq(parse("memory: {ads: {a: 1}, b: 1e9}\n", &c, &e), SHOAL_E_CONFIG);
}
END_TEST

START_TEST(coord_config_set_overrides)
{
    struct string_list set = {0};
    struct coord_config c;
    struct err e = {0};
    ck_assert_int_eq(config_list_add(&set, "shards=5"), 0);
    ck_assert_int_eq(server_config_coordinator(NULL, &set, &c, &e), 0);
    ck_assert_uint_eq(c.shards, 5);
    config_list_free(&set);
}
END_TEST

START_TEST(coord_config_refuses_unknown_and_impossible)
{
    static const char *const wrong[] = {"shard: 3\n",
                                        "shards: 0\n",
                                        "shards: many\n",
                                        "lease: 1ms\n",
                                        "net: {drop: 2}\n",
                                        "listen: ''\n",
                                        "store: /var/x\n",
                                        "store: zookeeper://h:1\n",
                                        "store: zookeeper://h:1/\n",
                                        "store: zookeeper:///a\n",
                                        "store: zookeeper://h:1/a/\n"};
    struct coord_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct err e = {0};
        ck_assert_msg(parse(wrong[i], &c, &e) == SHOAL_E_CONFIG, "%s", wrong[i]);
        ck_assert_msg(strstr(e.text, "coordinator.yaml") != NULL, "%s", e.text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_config");
    TCase *c = tcase_create("config");
    tcase_add_test(c, coord_config_has_defaults);
    tcase_add_test(c, coord_config_reads_all_keys);
    tcase_add_test(c, coord_config_has_weights_of_spaces);
    tcase_add_test(c, coord_config_set_overrides);
    tcase_add_test(c, coord_config_refuses_unknown_and_impossible);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
