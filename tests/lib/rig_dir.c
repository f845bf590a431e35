/* rig_dir.c: folders and children of tests. */
#include "tests/lib/rig_dir.h"

#include "proto/base/limits.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

const char *rig_dir(char *out)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(out, LIMIT_PATH, "%s/shoal-shard-XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(out));
    return out;
}

void rig_remove_dir(const char *dir)
{
    char command[LIMIT_PATH + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

void rig_in_child(void (*f)(void *context), void *context)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        f(context);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed");
}
