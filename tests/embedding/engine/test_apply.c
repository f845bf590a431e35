/* test_apply.c: the effect of a restore's record on the runs. */
#include "embedding/engine/apply.h"

#include "tests/lib/suite.h"

#include <check.h>

static struct runs runs;

static void setup(void)
{
    runs = (struct runs){0};
}

static void teardown(void)
{
    runs_free(&runs);
}

static struct run *add(uint64_t id, bool ghost, uint64_t seen)
{
    struct run *run;
    ck_assert_int_eq(runs_add(&runs, id, table_set_word(1), 2, RUN_SSP, &run), 0);
    run->ghost = ghost;
    run->seen = seen;
    return run;
}

static int restored(uint64_t id, uint32_t lanes, uint32_t mode, bool past)
{
    struct record_restore record = {.cut = 1,
                                    .run = id,
                                    .existing = table_set_word(1),
                                    .tables = table_set_word(1),
                                    .lanes = lanes,
                                    .mode = mode};
    struct run *run;
    int rc = apply_restored_run(&runs, &record, 20, past, &run);
    if (rc == 0)
        ck_assert(run->id == id && run->lanes == lanes);
    return rc;
}

/* Both sides of each bound; an existing run keeps its lanes. */
START_TEST(a_restore_that_cannot_be_is_damage)
{
    ck_assert_int_eq(restored(1, 0, RUN_SSP, true), SHOAL_E_CORRUPT);
    ck_assert_int_eq(restored(1, LIMIT_LANES + 1, RUN_SSP, true), SHOAL_E_CORRUPT);
    ck_assert_int_eq(restored(1, 2, RUN_BSP + 1, true), SHOAL_E_CORRUPT);
    ck_assert_uint_eq(runs.count, 0);
    ck_assert_int_eq(restored(1, LIMIT_LANES, RUN_BSP, true), 0);
    ck_assert_int_eq(restored(1, LIMIT_LANES - 1, RUN_BSP, true), SHOAL_E_CORRUPT);
    ck_assert_int_eq(restored(2, 1, RUN_ASYNC, true), 0);
}
END_TEST

/* The restored run stays live; all others end, wherever they are in the list. */
START_TEST(a_restore_leaves_its_run_alone)
{
    for (uint64_t id = 1; id <= 3; id++)
        add(id, false, 0);
    ck_assert_int_eq(restored((uint64_t)_i + 1, 2, RUN_SSP, false), 0); /* 4: a new run */
    ck_assert_uint_eq(runs.count, 1);
    ck_assert_ptr_nonnull(runs_find(&runs, (uint64_t)_i + 1));
    ck_assert(!runs.run[0]->ghost);
    ck_assert_uint_eq(runs.past_count, _i < 3 ? 2 : 3);
    for (uint32_t i = 0; i < runs.past_count; i++)
        ck_assert(runs.past[i].seen <= 19 && runs.past[i].until == 20);
}
END_TEST

/* A restore that is older than the stored state: ghosts that were seen before it end, later ones
 * stay. */
START_TEST(a_restore_of_the_past_ends_ghosts_of_before)
{
    add(1, true, 19);
    add(2, true, 20);
    add(3, true, 21);
    add(4, false, 0);
    add(5, true, 1);
    ck_assert_int_eq(restored(6, 2, RUN_SSP, true), 0);
    for (uint64_t id = 1; id <= 6; id++)
        ck_assert_int_eq(runs_find(&runs, id) != NULL, id != 1 && id != 5);
    ck_assert(runs_find(&runs, 6)->ghost);
    ck_assert_uint_ge(runs_find(&runs, 6)->seen, 20);
    ck_assert(!runs_find(&runs, 4)->ghost);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("apply");
    TCase *t = suite_case(s, "apply", 60, setup, teardown);
    tcase_add_test(t, a_restore_that_cannot_be_is_damage);
    tcase_add_loop_test(t, a_restore_leaves_its_run_alone, 0, 4);
    tcase_add_test(t, a_restore_of_the_past_ends_ghosts_of_before);
    return suite_main(s);
}
