/* test_moves.c: the coordinator's state machines follow their tables, and abort on any other
 * step. */
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "tests/lib/sm_case.h"

#include <stdlib.h>

START_TEST(coord_phase_forbidden_moves_abort)
{
    sm_case_check(&coord_phase_moves, SM_TO(PHASE_DONE) | SM_TO(PHASE_FAILED));
    sm_case_check(&coord_phase_restarts,
                  SM_TO(PHASE_NONE) | SM_TO(PHASE_DONE) | SM_TO(PHASE_FAILED));
}
END_TEST

/* Every running phase may fail; every stored phase resumes at WAITING or SETUP. */
START_TEST(coord_phase_of_a_running_job_may_fail_and_restart)
{
    struct coord *c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    for (uint32_t phase = 0; phase < coord_phase_moves.count; phase++) {
        c->slot[0].at.phase = phase;
        bool running = coord_phase_running(&c->slot[0]);
        ck_assert(sm_may(&coord_phase_moves, phase, PHASE_FAILED) == running);
        ck_assert((coord_phase_restarts.moves[phase] != 0) == running);
    }
    free(c);
}
END_TEST

static void enter_train(const void *context)
{
    (void)coord_phase_enter(&((struct coord *)(uintptr_t)context)->slot[0], PHASE_TRAIN);
}

/* The table is checked before anything is stored. */
START_TEST(coord_phase_enter_holds_the_table)
{
    struct coord *c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->slot[0].at.phase = PHASE_SETUP;
    ck_assert(sm_case_aborts(enter_train, c));
    free(c);
}
END_TEST

START_TEST(coord_cut_forbidden_moves_abort)
{
    sm_case_check(&coord_cut_moves, 0);
}
END_TEST

START_TEST(coord_checkpoint_forbidden_moves_abort)
{
    sm_case_check(&coord_checkpoint_moves, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("moves");
    TCase *t = tcase_create("moves");
    tcase_add_test(t, coord_phase_forbidden_moves_abort);
    tcase_add_test(t, coord_phase_of_a_running_job_may_fail_and_restart);
    tcase_add_test(t, coord_phase_enter_holds_the_table);
    tcase_add_test(t, coord_cut_forbidden_moves_abort);
    tcase_add_test(t, coord_checkpoint_forbidden_moves_abort);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
