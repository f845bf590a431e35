/* test_moves.c: the worker's state machines follow their tables, and abort on any other step. */
#include "tests/lib/sm_case.h"
#include "worker/train/lane_inner.h"
#include "worker/train/seat.h"

extern const struct sm trainer_moves; /* trainer_inner.h, with state names as in lane_inner.h */

START_TEST(lane_forbidden_moves_abort)
{
    sm_case_check(&lane_moves, 0);
}
END_TEST

static void batch_pushed(const void *context)
{
    struct lane_batch b = {.state = READY};
    (void)context;
    lane_batch_move(&b, PUSHING);
}

START_TEST(lane_batch_move_holds_the_table)
{
    ck_assert(sm_case_aborts(batch_pushed, NULL));
}
END_TEST

START_TEST(seat_forbidden_moves_abort)
{
    sm_case_check(&seat_moves, 0);
}
END_TEST

START_TEST(trainer_forbidden_moves_abort)
{
    sm_case_check(&trainer_moves, SM_TO(trainer_moves.count - 1));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("moves");
    TCase *t = tcase_create("moves");
    tcase_add_test(t, lane_forbidden_moves_abort);
    tcase_add_test(t, lane_batch_move_holds_the_table);
    tcase_add_test(t, seat_forbidden_moves_abort);
    tcase_add_test(t, trainer_forbidden_moves_abort);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
