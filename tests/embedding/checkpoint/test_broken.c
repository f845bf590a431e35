/* test_broken.c: invariants of a load, broken on purpose: each must be noticed, by its own
 * assert. */
#include "embedding/checkpoint/load.h"
#include "tests/lib/broken.h"
#include "tests/lib/suite.h"

#include <check.h>

static void rows_are_read_that_were_not_verified(void)
{
    static struct checkpoint c;
    static struct load l = {.checkpoint = &c};
    static struct load_build b = {.load = &l};
    load_build_run(&b.work);
}

static void images_are_written_before_the_journal_is_synced(void)
{
    static struct load_write w;
    load_write_run(&w.work);
}

static void a_part_is_verified_that_there_is_not(void)
{
    static struct checkpoint c;
    checkpoint_verify_part(&c, 0, NULL);
}

static const struct broken list[] = {
    {"embedding/checkpoint/load_build.c", 1, rows_are_read_that_were_not_verified,
     "rc != 0 || b.l->verified"},
    {"embedding/checkpoint/load_build.c", 4, images_are_written_before_the_journal_is_synced,
     "w->sync.count > 0"},
    {"embedding/checkpoint/checkpoint.c", 0, a_part_is_verified_that_there_is_not,
     "part < c->facts.parts"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    tcase_add_test(suite_case(suite, "broken", 60, NULL, NULL),
                   each_broken_invariant_ends_the_process_by_its_own_assert);
    return suite_main(suite);
}
