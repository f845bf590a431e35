/* test_machine.c: limits of control groups, read from artificial trees. */
#include "proto/base/machine.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* the hash of the 32 digits; never 0 */
#define BOOT_HASH 0x5ccd1f45a4e995b7ull

static char root[64];

static void setup(void)
{
    snprintf(root, sizeof root, "/tmp/shoal-machine-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    char command[512];
    snprintf(command, sizeof command,
             "mkdir -p \"$(dirname '%s/%s')\" && printf '%%s\\n' '%s' >'%s/%s'", root, path, text,
             root, path);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(boot_is_told_by_proc_or_by_the_unit)
{
    unsetenv("SHOAL_BOOT");
    ck_assert_uint_eq(machine_boot(root), 0);
    setenv("SHOAL_BOOT", "0a1b2c3d00004e5f8000000000000001", 1); /* as systemd's %b */
    uint64_t unit = machine_boot(root);
    ck_assert_uint_ne(unit, 0);
    ck_assert_uint_eq(unit, BOOT_HASH); /* the same in every release */
    setenv("SHOAL_BOOT", "0a1b2c3d00004e5f8000000000000002", 1);
    ck_assert_uint_ne(machine_boot(root), unit);
    put("proc/sys/kernel/random/boot_id", "0a1b2c3d-0000-4e5f-8000-000000000001");
    ck_assert_uint_eq(machine_boot(root), unit); /* the same boot, from another source */
    unsetenv("SHOAL_BOOT");
}
END_TEST

START_TEST(without_groups_it_is_the_machine)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    ck_assert_uint_eq(machine_memory(root), all);
    ck_assert_uint_ge(machine_cores(root), 1);
    ck_assert_uint_le(machine_memory(""), all);
}
END_TEST

START_TEST(version_two_counts_all_levels)
{
    put("proc/self/cgroup", "0::/a/b");
    put("sys/fs/cgroup/a/b/memory.max", "max");
    put("sys/fs/cgroup/a/memory.max", "104857600");
    put("sys/fs/cgroup/a/b/cpu.max", "50000 100000");
    put("sys/fs/cgroup/a/cpu.max", "max 100000");
    ck_assert_uint_eq(machine_memory(root), 100u << 20);
    ck_assert_uint_eq(machine_cores(root), 1);
    put("sys/fs/cgroup/a/b/memory.high", "52428800"); /* above it the kernel slows us down */
    ck_assert_uint_eq(machine_memory(root), 50u << 20);
}
END_TEST

START_TEST(version_one_has_a_tree_for_each)
{
    put("proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/x");
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "209715200");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
    uint32_t all = machine_cores("");
    ck_assert_uint_eq(machine_memory(root), 200u << 20);
    ck_assert_uint_ge(machine_cores(root), all);
    put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000");
    ck_assert_uint_eq(machine_cores(root), 1);
}
END_TEST

START_TEST(what_is_no_number_counts_for_nothing)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    put("proc/self/cgroup", "0::/a\nnonsense\n7:memory");
    put("sys/fs/cgroup/a/memory.max", "many");
    put("sys/fs/cgroup/a/cpu.max", "0 0");
    ck_assert_uint_eq(machine_memory(root), all);
    ck_assert_uint_ge(machine_cores(root), 1);
}
END_TEST

START_TEST(files_are_raised_to_the_hard_limit)
{
    struct rlimit l;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    l.rlim_cur = 100;
    l.rlim_max = l.rlim_max < 300 ? l.rlim_max : 300;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
    ck_assert_uint_eq(machine_files(), l.rlim_max);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    ck_assert_uint_eq(l.rlim_cur, l.rlim_max);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("machine");
    TCase *t = tcase_create("machine");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, boot_is_told_by_proc_or_by_the_unit);
    tcase_add_test(t, without_groups_it_is_the_machine);
    tcase_add_test(t, version_two_counts_all_levels);
    tcase_add_test(t, version_one_has_a_tree_for_each);
    tcase_add_test(t, what_is_no_number_counts_for_nothing);
    tcase_add_test(t, files_are_raised_to_the_hard_limit);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
