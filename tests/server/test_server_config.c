/* test_server_config.c: server.yaml is accepted whole, or refused with file, line and key. */
#include "server/server_config.h"
#include "server/shard/server_dir.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse(const char *text, struct server_config *c, struct err *e)
{
    return server_config_parse(text, strlen(text), "server.yaml", NULL, c, e);
}

START_TEST(defaults_hold_without_a_file)
{
    struct server_config c;
    struct err e;
    ck_assert_msg(server_config_load(NULL, NULL, &c, &e) == 0, "%s", e.text);
    ck_assert_str_eq(c.listen, "ipc:///run/shoal/server/socket");
    ck_assert_uint_eq(c.shards, 1);
    ck_assert_int_eq(c.durability, DURABLE_JOURNAL);
    ck_assert(!c.insecure_plaintext);
}
END_TEST

START_TEST(every_key_is_taken)
{
    struct server_config c;
    struct err e;
    const char *text =
        "name: s1\nlisten: tcp://127.0.0.1:9000\ndata_dir: /x/y\nshards: 3\nmemory: 8GiB\ndisk: "
        "10GiB\n"
        "journal: {max: 2GiB, keep: 0, segment: 16MiB}\ncoordinator: "
        "tcp://127.0.0.1:9999\n"
        "durability: fsync\nnet: {drop: 0.25, copy_rate: 100MiB}\ninsecure_plaintext: "
        "true\nadvertise: host7\nkeys: "
        "k\n";
    ck_assert_msg(parse(text, &c, &e) == 0, "%s", e.text);
    ck_assert_str_eq(c.name, "s1");
    ck_assert_str_eq(c.data_dir, "/x/y");
    ck_assert_uint_eq(c.memory, 8ull << 30);
    ck_assert_uint_eq(c.journal.max, 2ull << 30);
    ck_assert_uint_eq(c.journal.segment, 16u << 20);
    ck_assert_int_eq(c.durability, DURABLE_FSYNC);
    ck_assert(c.net.drop == 0.25);
    ck_assert_uint_eq(c.net.copy_rate, 100u << 20);
    ck_assert_str_eq(c.keys, "k");
    char endpoint[256];
    ck_assert_int_eq(server_config_endpoint(&c, 2, endpoint, &e), 0);
    ck_assert_str_eq(endpoint, "tcp://127.0.0.1:9002");
    ck_assert_str_eq(c.advertise, "host7");
}
END_TEST

START_TEST(set_wins_over_the_file)
{
    struct server_config c;
    struct err e;
    struct string_list set = {0};
    config_list_add(&set, "shards=4");
    config_list_add(&set, "journal.max=64MiB");
    ck_assert_msg(server_config_parse("shards: 2\n", 10, "f", &set, &c, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(c.shards, 4);
    ck_assert_uint_eq(c.journal.max, 64u << 20);
    ck_assert_uint_eq(c.journal.keep, 0);
    config_list_free(&set);
}
END_TEST

START_TEST(wrong_files_are_refused_with_their_line)
{
    static const struct {
        const char *text, *names;
    } bad[] = {
        {"shards: 1\nshard: 2\n", "shards"},
        {"shards: 0\n", "shards"},
        {"shards: many\n", "shards"},
        {"durability: maybe\n", "durability"},
        {"journal: {maximum: 1GiB}\n", "journal.max"},
        {"journal: {keep: much}\n", "journal.keep"},
        {"coordinator: ipc://c\nallow: list\n", "allow"},
        {"net: {drop: 1.5}\n", "net.drop"},
        {"net: {copy_rate: 100}\n", "net.copy_rate"},
        {"net: {copy_rate: 3MiB}\nshards: 4\n", "net.copy_rate"},
        {"listen: udp://x:1\n", "udp://x:1"},
        {"listen: tcp://127.0.0.1\n", "HOST:PORT"},
        {"listen: tcp://127.0.0.1:x\n", "port"},
        {"listen: tcp://127.0.0.1:65535\nshards: 2\n", "65536"},
        {"name: a/b\n", "name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct server_config c;
        struct err e = {0};
        ck_assert_msg(parse(bad[i].text, &c, &e) == SHOAL_E_CONFIG, "%s was taken", bad[i].text);
        ck_assert_msg(strstr(e.text, bad[i].names) != NULL, "%s: %s", bad[i].text, e.text);
    }
}
END_TEST

START_TEST(any_port_and_ipc_make_an_endpoint_each)
{
    struct server_config c;
    struct err e;
    char endpoint[256];
    ck_assert_int_eq(parse("listen: tcp://127.0.0.1:*\nshards: 9\n", &c, &e), 0);
    ck_assert_int_eq(server_config_endpoint(&c, 8, endpoint, &e), 0);
    ck_assert_str_eq(endpoint, "tcp://127.0.0.1:0");
    ck_assert_int_eq(parse("listen: ipc:///run/s\nshards: 2\n", &c, &e), 0);
    ck_assert_int_eq(server_config_endpoint(&c, 1, endpoint, &e), 0);
    ck_assert_str_eq(endpoint, "ipc:///run/s-1");
}
END_TEST

START_TEST(data_dir_keeps_its_name_and_one_owner)
{
    char dir[] = "/tmp/shoal-test-XXXXXX", path[256], name[LIMIT_NAME], again[LIMIT_NAME];
    int fd, second;
    struct err e;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a/b", dir);
    ck_assert_msg(server_dir_open(path, "", 2, 0, name, &fd, &e) == 0, "%s", e.text);
    ck_assert_int_eq(server_dir_open(path, "", 2, 0, again, &second, &e), SHOAL_E_CANTCREATE);
    close(fd);
    ck_assert_int_eq(server_dir_open(path, "", 2, 0, again, &fd, &e), 0);
    ck_assert_str_eq(name, again);
    close(fd);
    ck_assert_int_eq(server_dir_open(path, "other", 2, 0, again, &fd, &e), SHOAL_E_CONFIG);
    /* shard-1 would be missing */
    ck_assert_int_eq(server_dir_open(path, "", 1, 0, again, &fd, &e), SHOAL_E_CONFIG);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(a_disk_budget_has_room_for_the_journal_and_twice_the_rows)
{
    struct server_config c;
    struct err e;
    ck_assert_msg(
        parse("disk: 4GiB\ndisk_free: 100MiB\njournal: {max: 1GiB, keep: 1GiB}\n", &c, &e) == 0,
        "%s", e.text);
    ck_assert_uint_eq(c.disk, 4ull << 30);
    ck_assert_uint_eq(c.disk_free, 100ull << 20);
    ck_assert_int_eq(parse("disk: 4GiB\njournal: {max: 3GiB}\n", &c, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, ":1:"));
    ck_assert_ptr_nonnull(strstr(e.text, "journal.max"));
    ck_assert_int_eq(parse("disk: 4GiB\njournal: {max: 1GiB, keep: 1025MiB}\n", &c, &e),
                     SHOAL_E_CONFIG);
    ck_assert_int_eq(parse("journal: {max: 3GiB, keep: 9GiB}\n", &c, &e), 0);
    ck_assert_int_eq(parse("disk: 31MiB\nshards: 2\n", &c, &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(parse("disk: 32MiB\nshards: 2\n", &c, &e), 0);
}
END_TEST

/* A journal that cannot hold a push would let every push wait for ever. */
START_TEST(a_journal_without_its_unit_is_refused)
{
    struct server_config c;
    struct err e;
    ck_assert_int_eq(parse("shards: 2\njournal: {max: 4}\n", &c, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, ":2: journal.max: 4 bytes for 2 shards") != NULL, "%s", e.text);
    ck_assert_int_eq(parse("shards: 3\njournal: {max: 767KiB}\n", &c, &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(parse("shards: 3\njournal: {max: 768KiB}\n", &c, &e), 0);
    ck_assert_int_eq(parse("shards: 3\njournal: {max: 0}\n", &c, &e), 0);
}
END_TEST

/* 0 for a shard would mean no bound at all. */
START_TEST(a_memory_budget_without_its_unit_is_refused)
{
    struct server_config c;
    struct err e;
    ck_assert_int_eq(parse("shards: 8\nmemory: 4\n", &c, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, ":2: memory: 4 bytes for 8 shards"));
    ck_assert_int_eq(parse("shards: 8\nmemory: 8388607\n", &c, &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(parse("shards: 8\nmemory: 8MiB\n", &c, &e), 0);
    ck_assert_int_eq(parse("shards: 8\nmemory: 0\n", &c, &e), 0); /* 0 is allowed */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("server_config");
    TCase *c = tcase_create("server_config");
    tcase_add_test(c, defaults_hold_without_a_file);
    tcase_add_test(c, every_key_is_taken);
    tcase_add_test(c, set_wins_over_the_file);
    tcase_add_test(c, wrong_files_are_refused_with_their_line);
    tcase_add_test(c, any_port_and_ipc_make_an_endpoint_each);
    tcase_add_test(c, data_dir_keeps_its_name_and_one_owner);
    tcase_add_test(c, a_disk_budget_has_room_for_the_journal_and_twice_the_rows);
    tcase_add_test(c, a_journal_without_its_unit_is_refused);
    tcase_add_test(c, a_memory_budget_without_its_unit_is_refused);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
