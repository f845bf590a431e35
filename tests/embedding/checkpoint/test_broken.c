/* test_broken.c: breaks the invariants of a load on purpose: each breach must be caught by its own
 * assert. */
#include "embedding/checkpoint/export.c"
#include "embedding/checkpoint/load.c"
#include "embedding/checkpoint/load_build.c"
#include "tests/lib/broken.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/suite.h"

#include <check.h>

/* Names the tablet behind the table's last. */
void __wrap_translate_tablets(uint32_t from_bits, uint32_t to_bits, uint32_t tablet,
                              uint32_t *first, uint32_t *count);
void __wrap_translate_tablets(uint32_t from_bits, uint32_t to_bits, uint32_t tablet,
                              uint32_t *first, uint32_t *count)
{
    (void)from_bits, (void)tablet;
    *first = 1u << to_bits;
    *count = 1;
}

static void rows_are_taken_in_over_others(void)
{
    static struct rig s;
    static struct load l;
    struct run *run;
    struct err e;
    uint64_t mark;
    rig_open(&s, NULL, DURABLE_MEMORY);
    rig_lead(&s);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, RUN_ASYNC, &e), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, &e), 0);
    rig_train(&s, 1, 0, 1, mark, mark + 1);
    l.run = 2;
    ck_assert_int_eq(arena_new(&l.arena), 0);
    ck_assert_int_eq(table_new(table_schema_of(s.g->table[0].table), l.arena, &l.made[0], &e), 0);
    ck_assert_int_eq(runs_add(&l.runs, 2, table_set_word(1), 1, RUN_ASYNC, &run), 0);
    engine_job_begin(s.g, JOB_LOAD, &l.job, &load_job);
    take_in(s.g);
}

static void marks_go_to_tablets_that_there_are_not(void)
{
    static struct part part;
    static struct table_schema schema[2];
    static struct checkpoint c = {.facts.tables = 1, .part = &part};
    static struct load l = {.checkpoint = &c, .schema = &schema[1]};
    static const struct run from;
    struct build b = {.l = &l};
    struct run *run;
    schema[0] = schema[1] = rig_schema(0);
    part.schema = &schema[0];
    ck_assert_int_eq(runs_add(&l.runs, 1, table_set_word(1), 1, RUN_ASYNC, &run), 0);
    take_marks(&b, &from, 0, 0);
}

static void an_export_ends_of_no_cut(void)
{
    static struct engine g;
    static struct export_work x = {.g = &g};
    export_done(&x.work);
}

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
    {"embedding/checkpoint/load.c", 2, rows_are_taken_in_over_others,
     "table_rows(t->table) == 0 && "},
    {"embedding/checkpoint/load_build.c", 3, marks_go_to_tablets_that_there_are_not,
     "count > 0 && first + count <= "},
    {"embedding/checkpoint/export.c", 3, an_export_ends_of_no_cut, "cut != 0"},
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
