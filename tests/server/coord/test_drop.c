/* test_drop.c: rows of a table that are dropped: what its words stand for, what becomes of the
 * space, and what the shards know of it. test_spaces.c has whole spaces, test_cluster.c fields. */
#include "proto/job/catalog.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/import.h"
#include "server/coord/job/aside.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "tests/lib/coord_kept.h"
#include "tests/lib/spaces_rig.h"

/* Gives the space fields, as a worker's report does, and has the list made. */
static void fields_put(const char *space, const char *const *field)
{
    struct coord_space *s = rig_space(space);
    struct legend is = {.input = strdup("in"), .labels = strdup("label")};
    static const struct legend none;
    for (; *field != NULL; field++)
        ck_assert_int_eq(legend_add(&is, LEGEND_FIELDS, *field, "emb", "category", &rig_error), 0);
    ck_assert_msg(legend_match(&none, &is, NULL, 0, false, &rig_error) == 0, "%s", rig_error.text);
    ck_assert_msg(coord_names_store(&r.coord->fleet, s, &is, 1, &rig_error) == 0, "%s",
                  rig_error.text);
    legend_free(&is);
    ck_assert_int_eq(coord_names_again(&r.coord->fleet, NULL, &rig_error), 0);
    rig_go(500);
}

static const char *const two_fields[] = {"item", "user", NULL};

static void begin(void)
{
    rig_start();
    rig_job_run("one", "", NULL);
    fields_put("one", two_fields);
    rig_job_run("two", "", NULL);
    fields_put("two", two_fields);
}

/* words: "SPACE", "A/B" or "SPACE/TABLE/FIELD", as the command line has them. */
static int ask(const char *words, uint64_t id)
{
    char text[160], *part[3] = {"", "", ""}, *next = text;
    struct wire w = {.type = WIRE_TYPE_DROP, .id = id};
    struct coord_ask a = {.from = 1, .request = &w};
    int parts = 0;
    (void)snprintf(text, sizeof text, "%s", words);
    while (next != NULL && parts < 3)
        part[parts++] = strsep(&next, "/");
    if (parts != 2)
        (void)snprintf(w.u.DROP.space, LIMIT_NAME, "%s", part[0]);
    (void)snprintf(w.u.DROP.table, LIMIT_NAME, "%s", part[parts == 2 ? 0 : 1]);
    (void)snprintf(w.u.DROP.field, sizeof w.u.DROP.field, "%s", part[parts == 2 ? 1 : 2]);
    int rc = coord_drop_request(&r.coord->fleet, &a, coord_aside_used, r.coord);
    rig_error = a.e;
    return rc;
}

static int drop(const char *words, uint64_t id)
{
    const struct coord_drop *d = &r.coord->fleet.drop;
    int rc = ask(words, id);
    if (rc != 0)
        return rc;
    rig_go(3000);
    memset(&rig_error, 0, sizeof rig_error);
    if (d->asker == 0 && d->answered.status != 0)
        (void)err_set(&rig_error, d->answered.status, "%s", d->answered.text);
    return rig_error.code;
}

/* What shard 1 says of a space. */
static struct catalog_space told(const char *space)
{
    struct catalog c;
    ck_assert_msg(catalog_read(r.shard[1].names, strlen(r.shard[1].names), &c, &rig_error) == 0,
                  "%s", rig_error.text);
    for (uint32_t i = 0; i < c.count; i++)
        if (strcmp(c.space[i].name, space) == 0)
            return c.space[i];
    ck_abort_msg("no space %s in %s", space, r.shard[1].names);
}

/* Submits a job of space one; what is said of it. */
static void next_begins(char said[ERR_TEXT_MAX])
{
    rig_job_begin("one", "", "fleet");
    while (r.client.run == 0)
        rig_go(1);
    coord_submit_say(&r.coord->slot[0], said);
}

START_TEST(drop_takes_the_rows_of_a_table)
{
    char said[ERR_TEXT_MAX];
    begin();
    struct coord_space *one = rig_space("one");
    uint64_t numbers = one->numbers.word[0];
    uint32_t drops = r.shard[0].drops;
    ck_assert_msg(drop("one/emb", 1) == 0, "%s", rig_error.text);
    ck_assert_uint_eq(r.coord->fleet.drop.answered.rows, 5 * RIG_SHARDS);
    ck_assert_uint_eq(r.shard[0].drops, drops + 1);
    ck_assert_str_eq(r.shard[0].what, "emb:*");
    ck_assert_ptr_eq(rig_space("one"), one);
    ck_assert(one->state == SPACE_IS && one->numbers.word[0] == numbers);
    ck_assert_uint_eq(one->legend.count[LEGEND_FIELDS], 2);
    ck_assert_int_eq(told("one").state, CATALOG_THERE);
    if (_i == 1)
        rig_coord_again();
    next_begins(said);
    ck_assert_msg(strstr(said, "shoal drop has taken the rows that its last job left in emb"), "%s",
                  said);
    rig_stop();
}
END_TEST

/* The job after the next one is told nothing. */
START_TEST(drop_is_told_to_the_next_job_alone)
{
    char said[ERR_TEXT_MAX];
    begin();
    ck_assert_msg(drop("one/emb", 1) == 0, "%s", rig_error.text);
    rig_job_run("one", "", "fleet");
    next_begins(said);
    ck_assert_str_eq(said, "");
    rig_stop();
}
END_TEST

START_TEST(drop_reads_words)
{
    static const char *const other[] = {"emb", "user", NULL};
    begin();
    ck_assert_int_ne(ask("one/other", 1), 0);
    rig_refused(SHOAL_E_NOT_FOUND, "there is no table other in space one, but emb");
    ck_assert_int_ne(ask("one/dense", 1), 0);
    rig_refused(SHOAL_E_USAGE, "--set fresh=[dense]");
    ck_assert_int_ne(ask("emb/item", 1), 0);
    rig_refused(SHOAL_E_USAGE, "tables of 2 spaces (one, two)");
    ck_assert_int_ne(ask("one/emb/item", 1), 0);
    rig_refused(SHOAL_E_EXISTS, "is one of the last job's");
    ck_assert_int_ne(ask("three/emb/item", 1), 0);
    rig_refused(SHOAL_E_NOT_FOUND, "no space three");
    /* a space that has the name of the only one's table */
    ck_assert_msg(drop("two", 2) == 0, "%s", rig_error.text);
    fields_put("one", other);
    ck_assert(coord_space_put(&r.coord->fleet, rig_space("one"), "emb", SPACE_IS));
    ck_assert_int_ne(ask("emb/emb", 3), 0);
    rig_refused(SHOAL_E_USAGE, "say emb/emb/emb, or 'emb/emb/*'");
    ck_assert_msg(drop("emb/emb/*", 4) == 0, "%s", rig_error.text);
    ck_assert_str_eq(r.shard[0].what, "emb:*");
    rig_stop();
}
END_TEST

/* Rows go only when all shards know that the table is half dropped. */
START_TEST(spaces_half_dropped_are_known_to_the_shards)
{
    begin();
    r.shard[1].names_slow = r.shard[1].drop_slow = true;
    uint32_t drops = r.shard[0].drops + r.shard[0].clears;
    ck_assert_int_eq(ask(_i == 0 ? "one/emb" : "one", 1), 0);
    rig_go(2000);
    ck_assert_uint_eq(r.shard[0].drops + r.shard[0].clears, drops);
    r.shard[1].names_slow = false;
    rig_go(2000);
    ck_assert_uint_gt(r.shard[0].drops + r.shard[0].clears, drops);
    struct catalog_space one = told("one");
    ck_assert_int_eq(one.state, CATALOG_HALF);
    ck_assert_str_eq(one.half, _i == 0 ? "emb" : "");
    rig_stop();
}
END_TEST

/* The list of a fleet with one space is the line of its names alone, unless rows are missing. */
START_TEST(drop_is_told_of_the_only_space)
{
    rig_start();
    rig_job_run("one", "", NULL);
    fields_put("one", two_fields);
    ck_assert_int_eq(strncmp(r.shard[1].names, "names: ", 7), 0);
    r.shard[1].drop_slow = true;
    ck_assert_int_eq(ask("one/emb", 1), 0);
    rig_go(1000);
    ck_assert_int_eq(told("one").state, CATALOG_HALF);
    r.shard[1].drop_slow = false;
    rig_go(3000);
    ck_assert_int_eq(strncmp(r.shard[1].names, "names: ", 7), 0);
    rig_stop();
}
END_TEST

/* The coordinator ends in the middle (_i 0), and its store is lost (_i 1): nothing but the same
 * drop takes the space. */
START_TEST(drop_of_a_table_is_done_again)
{
    begin();
    r.shard[1].drop_slow = true;
    ck_assert_int_eq(ask("one/emb", 1), 0);
    rig_go(1000);
    if (_i == 1) {
        sim_kill(r.node);
        coord_free(r.coord);
        coord_store_close(r.store);
        r.store = coord_store_memory();
        rig_coord_start();
        rig_go(5000);
    } else
        rig_coord_again();
    ck_assert_ptr_nonnull(rig_space("one"));
    ck_assert_int_eq(rig_space("one")->state, SPACE_HALF);
    ck_assert_str_eq(rig_space("one")->half, "emb");
    ck_assert_int_ne(rig_submit("one", "", "fleet"), 0);
    rig_refused(SHOAL_E_NOINPUT, "shoal drop one/emb once more drops the rest");
    ck_assert_int_ne(ask("one/emb/item", 2), 0);
    rig_refused(SHOAL_E_EXISTS, "is one of the last job's");
    r.shard[1].drop_slow = false;
    ck_assert_msg(drop("one/emb", 3) == 0, "%s", rig_error.text);
    ck_assert_int_eq(rig_space("one")->state, SPACE_IS);
    ck_assert_int_eq(told("one").state, CATALOG_THERE);
    rig_stop();
}
END_TEST

/* A server goes away before any row has gone: the space is what it was. */
START_TEST(drop_that_has_not_begun_leaves_the_space)
{
    begin();
    r.shard[1].names_slow = true;
    ck_assert_int_eq(ask(_i == 0 ? "one/emb" : "one", 1), 0);
    rig_go(500);
    sim_kill(r.shard[1].node);
    rig_go(3000);
    ck_assert_uint_eq(r.coord->fleet.drop.asker, 0);
    ck_assert_int_eq(r.coord->fleet.drop.answered.status, SHOAL_E_UNAVAILABLE);
    ck_assert_int_eq(rig_space("one")->state, SPACE_IS);
    r.shard[1].names_slow = false;
    rig_shard_start(1, 2);
    rig_go(3000);
    ck_assert_int_eq(told("one").state, CATALOG_THERE);
    rig_job_run("one", "", "fleet");
    rig_stop();
}
END_TEST

/* The disk of a shard's server is gone for good, with rows of all spaces. */
static void lose_all(const char *how)
{
    uint64_t *replaced = &r.coord->fleet.members.shard[0].replaced;
    *replaced = 1;
    ck_assert(coord_spaces_replaced(&r.coord->fleet, NULL, how));
    *replaced = 0;
}

/* Other rows of the space are lost while those of a table go (_i 0), or before any has gone and the
 * drop ends there (_i 1): neither end of the drop makes the space whole. */
START_TEST(drop_of_a_table_brings_no_lost_rows_back)
{
    begin();
    r.shard[1].drop_slow = _i == 0;
    r.shard[1].names_slow = _i == 1;
    ck_assert_int_eq(ask("one/emb", 1), 0);
    rig_go(500);
    ck_assert_int_eq(rig_space("one")->state, SPACE_HALF);
    lose_all("rows are lost");
    if (_i == 1)
        sim_kill(r.shard[1].node);
    r.shard[1].drop_slow = false;
    rig_go(3000);
    ck_assert_uint_eq(r.coord->fleet.drop.asker, 0);
    ck_assert_int_eq(rig_space("one")->state, SPACE_LOST);
    ck_assert_int_ne(ask("one/emb", 2), 0);
    rig_refused(_i == 0 ? SHOAL_E_NOT_FOUND : SHOAL_E_UNAVAILABLE, _i == 0 ? "shoal drop one" : "");
    rig_stop();
}
END_TEST

/* A space of which rows are missing is dropped as a whole. */
START_TEST(drop_of_a_table_needs_a_whole_space)
{
    begin();
    ck_assert(coord_space_put(&r.coord->fleet, rig_space("one"), "one", SPACE_LOST));
    ck_assert_int_ne(ask("one/emb", 1), 0);
    rig_refused(SHOAL_E_NOT_FOUND, "shoal drop one");
    ck_assert(coord_space_put(&r.coord->fleet, rig_space("one"), "one", SPACE_HALF));
    ck_assert_int_ne(ask("one/emb", 1), 0);
    rig_refused(SHOAL_E_NOT_FOUND, "shoal drop one once more");
    ck_assert(coord_space_half_put(&r.coord->fleet, rig_space("one"), "other"));
    ck_assert_int_ne(ask("one/emb", 1), 0);
    rig_refused(SHOAL_E_NOT_FOUND, "shoal drop one/other once more");
    ck_assert_msg(drop("one", 2) == 0, "%s", rig_error.text);
    rig_stop();
}
END_TEST

/* The job of another space goes on; one of the same space, or that waits for it, does not lose its
 * rows. */
START_TEST(drop_beside_a_job)
{
    begin();
    rig_job_begin("two", "", "fleet");
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        rig_go(10);
    ck_assert_int_ne(ask("two", 1), 0);
    rig_refused(SHOAL_E_BUSY, "job two is running");
    ck_assert_int_ne(ask("two/emb", 1), 0);
    rig_refused(SHOAL_E_BUSY, "job two is running");
    ck_assert_msg(drop(_i == 0 ? "one/emb" : "one", 2) == 0, "%s", rig_error.text);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * RIG_SECOND, rig_over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    rig_stop();
}
END_TEST

/* Rows that a waiting job is to begin with are lost (_i 0). A job that needs its rows has first
 * to end or to go back (_i 1): until then no space is marked, so that a coordinator which dies sees
 * the loss once more. */
START_TEST(rows_that_a_job_needs_are_its_own_affair_first)
{
    begin();
    rig_job_begin("two", "", "fleet");
    while (r.coord->slot[0].at.phase != (_i == 0 ? PHASE_INDEX : PHASE_TRAIN))
        rig_go(1);
    struct coord_fleet *f = &r.coord->fleet;
    f->members.shard[1].made = f->members.shard[1].incarnation + 1;
    ck_assert(coord_spaces_lost(f, 1) == (_i == 0));
    ck_assert_int_eq(rig_space("one")->state, _i == 0 ? SPACE_LOST : SPACE_IS);
    ck_assert_int_eq(rig_space("two")->state, _i == 0 ? SPACE_LOST : SPACE_IS);
    if (_i == 1) { /* it has ended */
        (void)coord_end_fail(&r.coord->slot[0], SHOAL_E_UNAVAILABLE, "its rows are lost");
        ck_assert(coord_spaces_lost(f, 1));
        ck_assert_int_eq(rig_space("one")->state, SPACE_LOST);
        ck_assert_int_eq(rig_space("two")->state, SPACE_LOST);
    }
    rig_stop();
}
END_TEST

/* An import that began before the numbers of tables were known does not end well when a job has
 * taken the number. */
START_TEST(jobs_that_take_a_number_break_its_import)
{
    const struct wire_IMPORT w = {.number = 0, .token = 5};
    rig_start();
    ck_assert_msg(coord_import_begin(&r.coord->fleet, &w, &rig_error) == 0, "%s", rig_error.text);
    rig_job_run("one", "", NULL);
    ck_assert_uint_eq(rig_space("one")->numbers.word[0] & 1, 1);
    ck_assert_int_ne(coord_import_done(&r.coord->fleet, &w, &rig_error), 0);
    rig_refused(SHOAL_E_STOPPED, "a job has begun in table");
    rig_stop();
}
END_TEST

/* A drop that is pending is in the way of checkpoints of its space, and of no other. */
START_TEST(drop_beside_checkpoints_of_other_spaces)
{
    bool tables;
    begin();
    r.shard[1].drop_slow = true;
    (void)ask("one", 3);
    rig_go(1000);
    ck_assert_uint_ne(r.coord->fleet.drop.asker, 0);
    struct coord_job *two = &r.coord->slot[0];
    ck_assert_ptr_eq(two->space, rig_space("two"));
    ck_assert_msg(coord_checkpoint_ready(two, &tables, &rig_error) == 0, "%s", rig_error.text);
    struct coord_job *aside = &r.coord->aside;
    aside->space = rig_space("one");
    ck_assert_int_ne(coord_checkpoint_ready(aside, &tables, &rig_error), 0);
    rig_refused(SHOAL_E_BUSY, "one is being dropped");
    rig_stop();
}
END_TEST

/* The values that the coordinator has stored by now, as a crash leaves them. */
static struct coord_kept kept;

/* Founds the fleet anew on values that outlive a crash. */
static void begin_kept(void)
{
    kept = (struct coord_kept){.values = coord_store_memory(), .left = COORD_KEPT_ALL};
    rig_start();
    sim_kill(r.node);
    coord_free(r.coord);
    coord_store_close(r.store);
    r.store = coord_kept_open(&kept, NULL);
    rig_coord_start();
    rig_go(2000);
}

/* The disk of the coordinator takes _i transactions of a drop and of the next job, which gets a
 * place in the map, and no more. After a crash the space is there or gone, as a whole: it can be
 * dropped once more, and each place in the map is that of a space. */
START_TEST(drop_is_whole_after_a_crash)
{
    begin_kept();
    rig_job_run("one", "", NULL);
    rig_job_run("two", "", NULL);
    kept.left = (uint32_t)_i;
    (void)ask("one", 3);
    rig_go(1000);
    if (r.coord->fleet.fatal == 0)
        rig_job_begin("three", "", NULL);
    for (uint32_t i = 0; i < 400 && r.coord->fleet.fatal == 0; i++)
        rig_go(10);
    ck_assert_int_eq(r.coord->fleet.fatal, SHOAL_E_IO);
    sim_kill(r.node);
    coord_free(r.coord);
    coord_store_close(r.store);
    kept.left = COORD_KEPT_ALL;
    r.store = coord_kept_open(&kept, NULL);
    rig_coord_start();
    COORD_EACH_SPACE (&r.coord->fleet, s)
        ck_assert_msg(s->numbers.word[0] != 0 || s->state == SPACE_IS, "space %s: %u", s->name,
                      s->state);
    ck_assert_uint_eq(coord_map_places(&r.coord->fleet.cluster).word[0],
                      r.coord->fleet.cluster.held.word[0]);
    rig_go(2000);
    if (rig_space("one") != NULL)
        ck_assert_msg(drop("one", 4) == 0, "%s", rig_error.text);
    ck_assert_ptr_null(rig_space("one"));
    rig_stop();
    coord_store_close(kept.values);
}
END_TEST

/* An import into a table that is dropped does not end well, whatever takes the table's number. */
START_TEST(drop_breaks_an_import)
{
    begin();
    struct wire_IMPORT w = {.number = 0, .token = 5};
    while ((rig_space("one")->numbers.word[0] >> w.number & 1) == 0)
        w.number++;
    ck_assert_msg(coord_import_begin(&r.coord->fleet, &w, &rig_error) == 0, "%s", rig_error.text);
    ck_assert_int_eq(coord_import_done(&r.coord->fleet, &w, &rig_error), 0);
    ck_assert_msg(drop("one/emb", 3) == 0, "%s", rig_error.text);
    ck_assert_int_ne(coord_import_done(&r.coord->fleet, &w, &rig_error), 0);
    rig_stop();
}
END_TEST

/* Rows in the memory of a server that has started again: the shards know that the space is lost,
 * and so does a coordinator whose store is lost, too. */
START_TEST(spaces_that_are_lost_are_known_to_the_shards)
{
    begin();
    lose_all("server-1 has started again");
    rig_go(1000);
    if (rig_space("one")->state != SPACE_LOST) /* it is that of the slot's job */
        ck_abort_msg("one is in state %u", rig_space("one")->state);
    ck_assert_int_eq(told("one").state, CATALOG_LOST);
    ck_assert_int_eq(told("two").state, CATALOG_LOST);
    sim_kill(r.node);
    coord_free(r.coord);
    coord_store_close(r.store);
    r.store = coord_store_memory();
    rig_coord_start();
    rig_go(5000);
    ck_assert_ptr_nonnull(rig_space("one"));
    ck_assert_int_eq(rig_space("one")->state, SPACE_LOST);
    ck_assert_int_ne(rig_submit("one", "", "fleet"), 0);
    rig_refused(SHOAL_E_NOINPUT, "they are lost: shoal drop one");
    rig_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("drop");
    TCase *t = tcase_create("drop");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, drop_takes_the_rows_of_a_table, 0, 2);
    tcase_add_test(t, drop_is_told_to_the_next_job_alone);
    tcase_add_test(t, drop_reads_words);
    tcase_add_loop_test(t, spaces_half_dropped_are_known_to_the_shards, 0, 2);
    tcase_add_test(t, drop_is_told_of_the_only_space);
    tcase_add_loop_test(t, drop_of_a_table_is_done_again, 0, 2);
    tcase_add_loop_test(t, drop_that_has_not_begun_leaves_the_space, 0, 2);
    tcase_add_test(t, drop_of_a_table_needs_a_whole_space);
    tcase_add_loop_test(t, drop_of_a_table_brings_no_lost_rows_back, 0, 2);
    tcase_add_loop_test(t, drop_beside_a_job, 0, 2);
    tcase_add_test(t, spaces_that_are_lost_are_known_to_the_shards);
    tcase_add_loop_test(t, rows_that_a_job_needs_are_its_own_affair_first, 0, 2);
    tcase_add_test(t, drop_breaks_an_import);
    tcase_add_test(t, jobs_that_take_a_number_break_its_import);
    tcase_add_test(t, drop_beside_checkpoints_of_other_spaces);
    tcase_add_loop_test(t, drop_is_whole_after_a_crash, 0, 24);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
