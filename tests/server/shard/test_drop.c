/* test_drop.c: ROWS_GO of fields: a field is dropped in steps and durably; the rows of the running
 * job are not. */
#include "tests/lib/table_sets.h"
#include "tests/server/shard_rig.h"

static uint64_t drop_of(struct rig *r, uint64_t run, uint64_t tables, const char *what)
{
    struct wire w = rig_wire(r, WIRE_TYPE_ROWS_GO);
    w.u.ROWS_GO =
        (struct wire_ROWS_GO){.run = run, WIRE_TABLES_IS(set_of(tables)), .what = WIRE_ROWS_FIELDS};
    (void)snprintf(w.u.ROWS_GO.fields, sizeof w.u.ROWS_GO.fields, "%s", what);
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static uint64_t drop(struct rig *r, uint64_t run, const char *what)
{
    return drop_of(r, run, UINT64_MAX, what);
}

static uint64_t open_of(struct rig *r, uint64_t run, uint64_t tables)
{
    struct wire w = rig_wire(r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){
        .run = run, .lanes = 1, .mode = WIRE_ASYNC, WIRE_TABLES_IS(set_of(tables))};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Returns a key of a field number that may exist. */
static uint64_t key_of(uint32_t tablet)
{
    uint32_t n = 0;
    while (key_field(rig_key(tablet, n)) >= LIMIT_FIELDS)
        n++;
    return rig_key(tablet, n);
}

static uint64_t rows(const struct rig *r)
{
    return table_rows(engine_table(r->shard->engine, 0));
}

/* Names the field in the rig's table, and in a table that does not exist here. */
static void what_of(const struct rig *r, const char *field, char out[96])
{
    (void)snprintf(out, 96, "none:* %s:%s",
                   table_schema_of(engine_table(r->shard->engine, 0))->name, field);
}

START_TEST(dropped_field_goes_in_steps)
{
    struct rig r = {0};
    char all[96], word[16];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint32_t i = 0; i < 16; i++)
        rig_push(&r,
                 (struct rig_push_args){.from = i, .to = i + 1, .key = key_of(i), .gradient = 2});
    rig_run(&r, 5);
    (void)snprintf(word, sizeof word, "%u", key_field(key_of(3)));
    what_of(&r, word, all);
    uint64_t one = drop(&r, 0, all), same = 0;
    for (uint32_t i = 0; i < 16; i++)
        same += key_field(key_of(i)) == key_field(key_of(3));
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, one), 0);
    ck_assert_uint_eq(rig_reply(&r, one)->u.ROWS_GO_reply.rows, same);
    ck_assert_uint_eq(rows(&r), 16 - same);
    what_of(&r, "*", all);
    r.shard->rows_go.step_rows = 1;
    uint64_t id = drop(&r, 0, all), busy = drop(&r, 0, "t0:*");
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, busy), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ROWS_GO_reply.rows, 16 - same);
    ck_assert_uint_eq(rows(&r), 0);
    rig_free(&r);
}
END_TEST

/* All tablets of each table are cleared, from the table's first one on. */
START_TEST(fields_of_two_tables_go_together)
{
    struct rig r = {0};
    char all[96];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint32_t i = 0; i < 32; i++)
        rig_push(&r, (struct rig_push_args){.table = i / 16,
                                            .from = i % 16,
                                            .to = i % 16 + 1,
                                            .key = key_of(i % 16),
                                            .gradient = 2});
    rig_run(&r, 5);
    (void)snprintf(all, sizeof all, "t0:* t1:*");
    uint64_t id = drop(&r, 0, all);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ROWS_GO_reply.rows, 32);
    ck_assert_uint_eq(table_rows(engine_table(r.shard->engine, 1)), 0);
    rig_free(&r);
}
END_TEST

/* A space is dropped: all rows of its tables go, whatever they are named, and no others. */
START_TEST(tables_that_are_asked_for_go)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint32_t i = 0; i < 32; i++)
        rig_push(&r, (struct rig_push_args){.table = i / 16,
                                            .from = i % 16,
                                            .to = i % 16 + 1,
                                            .key = key_of(i % 16),
                                            .gradient = 2});
    rig_run(&r, 5);
    struct wire w = rig_wire(&r, WIRE_TYPE_ROWS_GO);
    w.u.ROWS_GO =
        (struct wire_ROWS_GO){WIRE_TABLES_IS(table_set_word(2)), .what = WIRE_ROWS_TABLES};
    uint64_t id = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ROWS_GO_reply.rows, 16);
    ck_assert_uint_eq(rows(&r), 16);
    ck_assert_uint_eq(table_rows(engine_table(r.shard->engine, 1)), 0);
    id = drop_of(&r, 0, 2, "t0:*"); /* the list names a table of another space */
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rows(&r), 16);
    rig_free(&r);
}
END_TEST

/* Another field may get the number at once: a loss of power must not bring the old rows back. */
START_TEST(a_drop_is_answered_once_it_is_on_disk)
{
    char dir[] = "/tmp/shoal-drop-XXXXXX", all[96], command[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL, .work_ns = 300 * MS};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_push(&r, (struct rig_push_args){.to = 1, .key = key_of(3), .gradient = 2});
    rig_run(&r, 5000);
    what_of(&r, "*", all);
    uint64_t id = drop(&r, 0, all);
    rig_run(&r, 200);
    ck_assert_uint_eq(rows(&r), 0);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    rig_run(&r, 800);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ROWS_GO_reply.rows, 1);
    rig_free(&r);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* The run is open here: the rows may be its own. */
START_TEST(rows_of_the_job_stay)
{
    struct rig r = {0};
    char all[96];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key_of(3), .gradient = 2});
    rig_run(&r, 5);
    what_of(&r, "*", all);
    uint64_t id = drop(&r, RIG_RUN, all);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ROWS_GO_reply.rows, 0);
    ck_assert_uint_eq(rows(&r), 1);
    rig_free(&r);
}
END_TEST

START_TEST(what_is_no_list_is_refused)
{
    static const char *const wrong[] = {"emb", "emb:", ":1", "emb:512", "emb:-1", "emb:1,2"};
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t id = drop(&r, 0, wrong[i]);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, id), SHOAL_E_MALFORMED);
    }
    rig_free(&r);
}
END_TEST

/* A coordinator that died had begun the drop: no run opens before it is done. */
START_TEST(no_run_opens_in_between)
{
    struct rig r = {0};
    char all[96];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    what_of(&r, "*", all);
    r.shard->rows_go.step_rows = 1;
    uint64_t id = drop(&r, 0, all);
    struct wire w = rig_wire(&r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = RIG_RUN + 1, .lanes = 1, .mode = WIRE_ASYNC};
    uint64_t open = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, open), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, id), 0);
    open = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, open), 0);
    rig_free(&r);
}
END_TEST

/* A job's rows are dropped even if another job, on other tables, has opened a newer run. */
START_TEST(a_newer_run_of_other_tables_keeps_no_row)
{
    struct rig r = {0};
    char all[96];
    rig_new_of(&r, WIRE_ASYNC, 1, OPT_SGD, 1);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key_of(3), .gradient = 2});
    uint64_t other = open_of(&r, RIG_RUN + 2, 2);
    rig_run(&r, 5);
    ck_assert_msg(rig_status(&r, other) == 0, "%s", rig_reply(&r, other)->error);
    what_of(&r, "*", all);
    uint64_t id = drop_of(&r, RIG_RUN + 1, 1, all);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.ROWS_GO_reply.rows, 1);
    rig_free(&r);
}
END_TEST

/* A run of other tables opens while fields are being dropped. */
START_TEST(a_run_of_other_tables_opens_in_between)
{
    struct rig r = {0};
    char all[96];
    rig_new_of(&r, WIRE_ASYNC, 1, OPT_SGD, 1);
    what_of(&r, "*", all);
    r.shard->rows_go.step_rows = 1;
    uint64_t id = drop_of(&r, 0, 1, all), own = open_of(&r, RIG_RUN + 1, 3),
             other = open_of(&r, RIG_RUN + 2, 2);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, own), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, other), 0);
    ck_assert_int_eq(rig_status(&r, id), 0);
    rig_free(&r);
}
END_TEST

/* Tables go beside another job that trains: it keeps its rows and its run. */
START_TEST(tables_go_while_another_job_trains)
{
    struct rig r = {0};
    rig_new_of(&r, WIRE_ASYNC, 1, OPT_SGD, 1);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = key_of(3), .gradient = 2});
    rig_run(&r, 5);
    struct wire w = rig_wire(&r, WIRE_TYPE_ROWS_GO);
    w.u.ROWS_GO = (struct wire_ROWS_GO){
        .run = RIG_RUN + 1, WIRE_TABLES_IS(table_set_word(2)), .what = WIRE_ROWS_ALL};
    uint64_t beside = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, beside), 0);
    ck_assert_uint_eq(rows(&r), 1);
    ck_assert_ptr_null(engine_table(r.shard->engine, 1));
    rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = key_of(4), .gradient = 2});
    rig_run(&r, 5);
    ck_assert_uint_eq(rows(&r), 2);
    w = rig_wire(&r, WIRE_TYPE_ROWS_GO);
    w.u.ROWS_GO = (struct wire_ROWS_GO){
        .run = RIG_RUN + 1, WIRE_TABLES_IS(table_set_word(3)), .what = WIRE_ROWS_ALL};
    uint64_t own = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 50);
    ck_assert_msg(rig_status(&r, own) == 0, "%s", rig_reply(&r, own)->error);
    ck_assert_uint_eq(rig_reply(&r, own)->u.ROWS_GO_reply.rows, 2);
    ck_assert_ptr_null(engine_table(r.shard->engine, 0));
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        dropped_field_goes_in_steps,
        fields_of_two_tables_go_together,
        tables_that_are_asked_for_go,
        a_drop_is_answered_once_it_is_on_disk,
        rows_of_the_job_stay,
        what_is_no_list_is_refused,
        no_run_opens_in_between,
        a_newer_run_of_other_tables_keeps_no_row,
        a_run_of_other_tables_opens_in_between,
        tables_go_while_another_job_trains,
    };
    return rig_main("drop", tests, sizeof tests / sizeof tests[0]);
}
