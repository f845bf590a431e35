/* test_sm.c: a state machine follows its table, and takes no other step. */
#include "tests/lib/sm_case.h"

#include <string.h>

enum door { SHUT, OPEN, GONE };
static const char *const names[] = {[SHUT] = "shut", [OPEN] = "open", [GONE] = "gone"};
static const uint32_t moves[] = {
    [SHUT] = SM_TO(OPEN),
    [OPEN] = SM_TO(SHUT) | SM_TO(GONE),
    [GONE] = 0,
};
static const struct sm door_moves = SM("a door", names, moves);

START_TEST(sm_allowed_moves_go)
{
    enum door door = SHUT;
    sm_move(&door_moves, &door, OPEN);
    sm_move(&door_moves, &door, SHUT);
    sm_move(&door_moves, &door, OPEN);
    sm_move(&door_moves, &door, GONE);
    ck_assert_int_eq(door, GONE);
    ck_assert(!sm_may(&door_moves, SHUT, GONE) && !sm_may(&door_moves, SHUT, SHUT));
    ck_assert(!sm_may(&door_moves, SHUT, 3) && !sm_may(&door_moves, 3, SHUT));
    ck_assert(!sm_may(&door_moves, OPEN, 32 + GONE) && !sm_may(&door_moves, UINT32_MAX, OPEN));
}
END_TEST

START_TEST(sm_forbidden_moves_abort)
{
    sm_case_check(&door_moves, SM_TO(GONE));
}
END_TEST

/* The log names the machine, both states, and the place. */
START_TEST(sm_forbidden_move_is_named)
{
    char text[512] = "";
    int out[2], status;
    ck_assert_int_eq(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        enum door door = GONE;
        dup2(out[1], STDERR_FILENO);
        sm_move(&door_moves, &door, OPEN);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ck_assert_int_gt(read(out[0], text, sizeof text - 1), 0);
    ck_assert_ptr_nonnull(strstr(text, "a door: gone (2) must not become open (1)"));
    ck_assert_ptr_nonnull(strstr(text, "test_sm.c"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sm");
    TCase *t = tcase_create("sm");
    tcase_add_test(t, sm_allowed_moves_go);
    tcase_add_test(t, sm_forbidden_moves_abort);
    tcase_add_test(t, sm_forbidden_move_is_named);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
