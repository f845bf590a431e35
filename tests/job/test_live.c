/* test_live.c: a daemon's file is read again: which keys changed, which may change, and errors; and
 * the file of each of several daemons. */
#include "proto/base/log.h"
#include "proto/job/instance.h"
#include "proto/job/keys.h"
#include "proto/job/live.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], path[128], said[4096];

static void put(const char *name, const char *text)
{
    char file[160];
    snprintf(file, sizeof file, "%s/%s", dir, name);
    FILE *f = fopen(file, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* Reads the file again, with the log of that in `said`. */
static int read_again(struct live *l, struct err *e)
{
    char file[160];
    snprintf(file, sizeof file, "%s/said", dir);
    fflush(stderr);
    int kept = dup(STDERR_FILENO), to = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(to, STDERR_FILENO);
    int rc = live_read(l, e);
    dup2(kept, STDERR_FILENO);
    close(kept);
    ssize_t n = pread(to, said, sizeof said - 1, 0);
    close(to);
    said[n < 0 ? 0 : n] = '\0';
    return rc;
}

static struct live live_of(const struct string_list *set)
{
    static const char *const may[] = {"lease", NULL};
    return (struct live){.path = path, .set = set, .keys = keys_coordinator, .may = may};
}

static const struct string_list none;

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/shoal-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/coordinator.yaml", dir);
    setenv("SHOAL_CONFIG_DIR", dir, 1);
    log_init("test");
}

static void teardown(void)
{
    char line[96];
    snprintf(line, sizeof line, "rm -rf %s", dir);
    ck_assert_int_eq(system(line), 0);
}

START_TEST(changes_are_told_by_key)
{
    struct err e = {0};
    struct live l = live_of(&none);
    put("coordinator.yaml", "shards: 1\nlease: 10s\nreport: /tmp/r\n");
    ck_assert_int_eq(live_open(&l, &e), 0);
    ck_assert_int_eq(read_again(&l, &e), 0);
    ck_assert_ptr_null(strstr(said, "changed"));
    ck_assert_ptr_nonnull(strstr(said, "has been read again"));
    put("coordinator.yaml", "shards: 2\nlease: 20s\n");
    ck_assert_int_eq(read_again(&l, &e), 0);
    ck_assert_msg(strstr(said, "shards has changed, which counts from the next start") != NULL,
                  "%s", said);
    ck_assert_msg(strstr(said, "report has changed, which counts from the next start") != NULL,
                  "%s", said);
    ck_assert_msg(strstr(said, "lease has changed\n") != NULL, "%s", said);
    ck_assert_int_eq(config_size(l.now, "lease"), 20000);
    ck_assert_int_eq(read_again(&l, &e), 0);
    ck_assert_ptr_null(strstr(said, "changed"));
    live_close(&l);
}
END_TEST

START_TEST(a_file_that_is_refused_changes_nothing)
{
    struct err e = {0};
    struct live l = live_of(&none);
    put("coordinator.yaml", "shards: 3\n");
    ck_assert_int_eq(live_open(&l, &e), 0);
    put("coordinator.yaml", "shards: 3\nlease: soon\n");
    ck_assert_int_eq(read_again(&l, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "coordinator.yaml:2") != NULL, "%s", e.text);
    ck_assert_int_eq(config_int(l.now, "shards"), 3);
    unlink(path);
    ck_assert_int_eq(read_again(&l, &e), SHOAL_E_NOINPUT);
    ck_assert_int_eq(config_int(l.now, "shards"), 3);
    live_close(&l);
}
END_TEST

/* The command line takes precedence over the file, before and after. */
START_TEST(the_command_line_stands)
{
    struct err e = {0};
    struct string_list set = {0};
    ck_assert_int_eq(config_list_add(&set, "shards=7"), 0);
    struct live l = live_of(&set);
    put("coordinator.yaml", "shards: 1\n");
    ck_assert_int_eq(live_open(&l, &e), 0);
    put("coordinator.yaml", "shards: 2\n");
    ck_assert_int_eq(read_again(&l, &e), 0);
    ck_assert_ptr_null(strstr(said, "changed"));
    ck_assert_int_eq(config_int(l.now, "shards"), 7);
    live_close(&l);
    config_list_free(&set);
}
END_TEST

START_TEST(the_level_counts_at_once)
{
    struct err e = {0};
    struct live l = live_of(&none);
    put("coordinator.yaml", "log: info\n");
    ck_assert_int_eq(live_open(&l, &e), 0);
    put("coordinator.yaml", "log: error\nshards: 4\n");
    ck_assert_int_eq(read_again(&l, &e), 0); /* reported before it takes effect */
    ck_assert_msg(strstr(said, "log has changed\n") != NULL, "%s", said);
    put("coordinator.yaml", "log: error\nshards: 5\n");
    ck_assert_int_eq(read_again(&l, &e), 0);
    ck_assert_str_eq(said, "");
    put("coordinator.yaml", "shards: 5\n");
    ck_assert_int_eq(read_again(&l, &e), 0);
    put("coordinator.yaml", "shards: 6\n");
    ck_assert_int_eq(read_again(&l, &e), 0); /* a removed line no longer counts */
    ck_assert_msg(strstr(said, "shards has changed") != NULL, "%s", said);
    live_close(&l);
}
END_TEST

START_TEST(a_level_of_a_room_is_checked_and_counts)
{
    struct err e = {0};
    struct live l = live_of(&none);
    put("coordinator.yaml", "log: warn,job=info\n");
    ck_assert_int_eq(live_open(&l, &e), 0);
    put("coordinator.yaml", "log: warn,job=info\nshards: 4\n");
    ck_assert_int_eq(read_again(&l, &e), 0);
    ck_assert_msg(strstr(said, "has been read again") != NULL, "%s", said);
    put("coordinator.yaml", "shards: 4\nlog: warn,cellar=info\n");
    ck_assert_int_eq(read_again(&l, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "coordinator.yaml: line 2: log: cellar=info is neither a level "
                                 "(error, warn, info, debug) nor ROOM=LEVEL, such as "
                                 "info,shard=debug") != NULL,
                  "%s", e.text);
    live_close(&l);
    ck_assert_int_eq(live_open(&l, &e), SHOAL_E_CONFIG);
    live_close(&l);
}
END_TEST

START_TEST(no_file_is_nothing_to_read)
{
    struct err e = {0};
    struct live l = live_of(&none);
    l.path = NULL;
    ck_assert_int_eq(live_open(&l, &e), 0);
    ck_assert_int_eq(read_again(&l, &e), 0);
    live_close(&l);
}
END_TEST

/* ---- which file ------------------------------------------------------------------------------ */

static const char *file_of(const char *config, const char *name)
{
    static char out[LIMIT_PATH];
    struct err e = {0};
    ck_assert_msg(instance_file(config, name, "server", out, &e) == 0, "%s", e.text);
    return strncmp(out, dir, strlen(dir)) == 0 ? out + strlen(dir) : out;
}

START_TEST(an_instance_has_its_own_file_or_that_of_all)
{
    ck_assert_str_eq(file_of(NULL, "1"), "");
    put("server.yaml", "{}");
    ck_assert_str_eq(file_of(NULL, "1"), "/server.yaml");
    put("server-1.yaml", "{}");
    ck_assert_str_eq(file_of(NULL, "1"), "/server-1.yaml");
    ck_assert_str_eq(file_of(NULL, "2"), "/server.yaml");
    ck_assert_str_eq(file_of("a.yaml", NULL), "a.yaml");
    ck_assert_str_eq(file_of(NULL, NULL), "");
}
END_TEST

START_TEST(what_is_no_name_is_refused)
{
    static const char *const wrong[] = {"",
                                        "../x",
                                        "a/b",
                                        ".hidden",
                                        "a b",
                                        "0123456789012345678901234567890123456789012345678901234567"
                                        "8901234"};
    char out[LIMIT_PATH];
    struct err e;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_int_eq(instance_file(NULL, wrong[i], "server", out, &e), SHOAL_E_USAGE);
    ck_assert_int_eq(instance_file("a.yaml", "1", "server", out, &e), SHOAL_E_USAGE);
}
END_TEST

START_TEST(a_units_folders_are_its_first_ones)
{
    char out[16];
    unsetenv("STATE_DIRECTORY");
    instance_folder("STATE_DIRECTORY", out, sizeof out);
    ck_assert_str_eq(out, "");
    setenv("STATE_DIRECTORY", "/var/a:/var/b", 1);
    instance_folder("STATE_DIRECTORY", out, sizeof out);
    ck_assert_str_eq(out, "/var/a");
    setenv("STATE_DIRECTORY", "/a/folder/too/long/for/its/place", 1);
    instance_folder("STATE_DIRECTORY", out, sizeof out);
    ck_assert_str_eq(out, "");
    unsetenv("STATE_DIRECTORY");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("live");
    TCase *t = tcase_create("file");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, changes_are_told_by_key);
    tcase_add_test(t, a_file_that_is_refused_changes_nothing);
    tcase_add_test(t, the_command_line_stands);
    tcase_add_test(t, the_level_counts_at_once);
    tcase_add_test(t, a_level_of_a_room_is_checked_and_counts);
    tcase_add_test(t, no_file_is_nothing_to_read);
    tcase_add_test(t, an_instance_has_its_own_file_or_that_of_all);
    tcase_add_test(t, what_is_no_name_is_refused);
    tcase_add_test(t, a_units_folders_are_its_first_ones);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
