/* test_server_hang.c: a thread that hangs as if it waited for a disk: vfork suspends its caller
 * until the child ends. */
#include "server/server_hang.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static int ends[2]; /* a pipe: the child ends with it */

static void *wait_as_for_a_disk(void *unused)
{
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        (void)close(ends[1]);
        _exit(read(ends[0], &byte, 1) < 0);
    }
    (void)waitpid(child, NULL, 0);
    return unused;
}

START_TEST(hang_of_a_thread_is_seen_and_so_is_its_end)
{
    struct server_hang h = {.count = 0};
    pthread_t thread;
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_uint_eq(server_hang_tell(&h, "a", "/x", 1 * SECOND), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_as_for_a_disk, NULL), 0);
    for (int tries = 0; h.count == 0 && tries < 500; tries++) {
        (void)server_hang_look(&h, 2 * SECOND);
        usleep(10000);
    }
    ck_assert_uint_eq(h.count, 1);
    ck_assert_uint_eq(server_hang_tell(&h, "a", "/x", 3 * SECOND), 1 * SECOND);
    ck_assert_uint_eq(h.told_ns, 0);
    ck_assert_uint_eq(server_hang_tell(&h, "a", "/x", 8 * SECOND), 6 * SECOND);
    ck_assert_uint_eq(h.told_ns, 6 * SECOND);
    close(ends[1]);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(server_hang_tell(&h, "a", "/x", 9 * SECOND), 0);
    ck_assert_uint_eq(h.told_ns, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("server_hang");
    TCase *c = suite_case(s, "server_hang", 30, NULL, NULL);
    tcase_add_test(c, hang_of_a_thread_is_seen_and_so_is_its_end);
    return suite_main(s);
}
