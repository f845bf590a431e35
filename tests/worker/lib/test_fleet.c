/* test_fleet.c: a fleet's tables, keys, rows and tensors by libshoal, against a fleet on a thread,
 * and each error that shoal.h names for these functions. */
#include "proto/base/key.h"
#include "tests/worker/lib/fleet_fake.h"

#include <math.h>

enum { WIDTH = 4, STATE = 4, MANY = 5000 };

static shoal_fleet *fleet;
static struct shoal_error e;

static int open_as(struct shoal_fleet_options o)
{
    o.size = sizeof o;
    if (o.wait_ms == 0)
        o.wait_ms = 5000;
    return shoal_fleet_open(&o, &fleet, &e);
}

static void fleet_setup(void)
{
    fake_setup();
    ck_assert_msg(open_as((struct shoal_fleet_options){.coordinator = fake.endpoint}) == SHOAL_OK,
                  "%s", e.text);
}

static void fleet_teardown(void)
{
    shoal_fleet_close(fleet);
    fleet = NULL;
    fake_teardown();
}

/* The call gave this code, and a sentence with these words. */
#define refused(call, is, words) refused_at(__LINE__, call, is, words)
static void refused_at(int line, int rc, int code, const char *words)
{
    ck_assert_msg(rc == code && e.code == code, "line %d: %s, not %s: %s", line,
                  shoal_code_text(rc), shoal_code_text(code), e.text);
    ck_assert_msg(strstr(e.text, words) != NULL, "line %d: %s", line, e.text);
}

/* ---- opening --------------------------------------------------------------------------------- */

START_TEST(a_fleet_that_cannot_be_opened_says_why)
{
    struct shoal_fleet_options none = {.size = 0};
    unsetenv("SHOAL_COORDINATOR");
    refused(shoal_fleet_open(NULL, &fleet, &e), SHOAL_ERROR_USAGE, "options are missing");
    refused(shoal_fleet_open(&none, &fleet, &e), SHOAL_ERROR_USAGE, "size");
    refused(open_as((struct shoal_fleet_options){0}), SHOAL_ERROR_USAGE, "SHOAL_COORDINATOR");
    refused(open_as((struct shoal_fleet_options){.coordinator = "tcp://127.0.0.1:7"}),
            SHOAL_ERROR_CONFIG, "key file");
    refused(open_as((struct shoal_fleet_options){.coordinator = "tcp://127.0.0.1:7",
                                                 .keys = "/nowhere/key"}),
            SHOAL_ERROR_NOT_FOUND, "/nowhere/key");
    refused(open_as((struct shoal_fleet_options){.coordinator = "ipc:///nowhere/at-all",
                                                 .wait_ms = 200}),
            SHOAL_ERROR_UNREACHABLE, "200 ms");
    ck_assert_ptr_null(fleet);
}
END_TEST

static const struct {
    enum wire_type type;
    int status, code;
} refusals[] = {{WIRE_TYPE_MAP_GET, SHOAL_E_DENIED, SHOAL_ERROR_DENIED},
                {WIRE_TYPE_MAP_GET, SHOAL_E_USAGE, SHOAL_ERROR_USAGE},
                {WIRE_TYPE_MAP_GET, SHOAL_E_VERSION, SHOAL_ERROR_VERSION},
                {WIRE_TYPE_MAP_GET, SHOAL_E_AGAIN, SHOAL_ERROR_UNREACHABLE},
                {WIRE_TYPE_TABLE_GET, SHOAL_E_DENIED, SHOAL_ERROR_DENIED},
                {WIRE_TYPE_JOB_TEXT, SHOAL_E_DENIED, SHOAL_ERROR_DENIED},
                {WIRE_TYPE_JOB_TEXT, SHOAL_E_AGAIN, SHOAL_ERROR_UNREACHABLE}};

START_TEST(what_the_coordinator_refuses_is_told)
{
    fake_setup();
    fake_refuse(refusals[_i].type, refusals[_i].status, UINT32_MAX, "it is so");
    const bool timed =
        refusals[_i].type == WIRE_TYPE_JOB_TEXT && refusals[_i].code == SHOAL_ERROR_UNREACHABLE;
    refused(open_as((struct shoal_fleet_options){.coordinator = fake.endpoint, .wait_ms = 700}),
            refusals[_i].code, timed ? "700 ms" : "it is so");
    fake_teardown();
}
END_TEST

START_TEST(another_space_is_no_space)
{
    fake_setup();
    strcpy(fake.space, "shop");
    refused(open_as((struct shoal_fleet_options){.coordinator = fake.endpoint, .space = "news"}),
            SHOAL_ERROR_NOT_FOUND, "no space news there, but shop");
    ck_assert_int_eq(
        open_as((struct shoal_fleet_options){.coordinator = fake.endpoint, .space = "shop"}),
        SHOAL_OK);
    fleet_teardown();
}
END_TEST

/* ---- tables ---------------------------------------------------------------------------------- */

START_TEST(tables_are_described)
{
    struct shoal_table t = {.size = sizeof t}, small = {.size = 80};
    uint32_t index = 7;
    ck_assert_uint_eq(shoal_fleet_tables(fleet), 1);
    ck_assert_int_eq(shoal_fleet_table(fleet, 0, &t, &e), SHOAL_OK);
    ck_assert_str_eq(t.name, "emb");
    ck_assert(t.width == WIDTH && t.first == 1 && t.dim == 3 && t.state == STATE && t.stats == 0);
    ck_assert(t.values == SHOAL_FP32 && strcmp(t.optimizer, "adagrad") == 0 && t.lr == 0.05f);
    ck_assert_int_eq(shoal_fleet_find(fleet, "emb", &index, &e), SHOAL_OK);
    ck_assert_uint_eq(index, 0);
    refused(shoal_fleet_find(fleet, "amb", &index, &e), SHOAL_ERROR_NOT_FOUND, "there are emb");
    refused(shoal_fleet_table(fleet, 1, &t, &e), SHOAL_ERROR_USAGE, "1 tables");
    ck_assert_int_eq(shoal_fleet_table(fleet, 0, &small, &e), SHOAL_OK); /* an older program */
    ck_assert(small.width == WIDTH && small.optimizer[0] == '\0');
}
END_TEST

static uint64_t key_of(const char *field, const char *value)
{
    uint64_t key = 0;
    ck_assert_msg(shoal_fleet_key(fleet, 0, field, value, strlen(value), &key, &e) == SHOAL_OK,
                  "%s", e.text);
    return key;
}

START_TEST(keys_are_those_of_the_readers)
{
    uint64_t key;
    ck_assert_uint_eq(key_of("user", "anna"), key_of_value(3, "anna", 4));
    ck_assert_uint_eq(key_of("user", ""), key_of_value(3, "", 0));
    ck_assert_uint_eq(key_of("shop", "12"), key_make(4, 12));
    ck_assert_uint_eq(key_field(key_of("age", "17")), 6);
    ck_assert_uint_eq(key_of("age", "17"), key_of("age", "18"));
    ck_assert_uint_ne(key_of("age", "17"), key_of("age", "1700"));
    refused(shoal_fleet_key(fleet, 1, "user", "a", 1, &key, &e), SHOAL_ERROR_USAGE, "1 tables");
    refused(shoal_fleet_key(fleet, 0, NULL, "a", 1, &key, &e), SHOAL_ERROR_USAGE, "missing");
    refused(shoal_fleet_key(fleet, 0, "user", NULL, 1, &key, &e), SHOAL_ERROR_USAGE, "missing");
    refused(shoal_fleet_key(fleet, 0, "usr", "a", 1, &key, &e), SHOAL_ERROR_NOT_FOUND,
            "user, shop, age");
    refused(shoal_fleet_key(fleet, 0, "gone", "a", 1, &key, &e), SHOAL_ERROR_NOT_FOUND,
            "table other");
    refused(shoal_fleet_key(fleet, 0, "shop", "x", 1, &key, &e), SHOAL_ERROR_DATA, "id");
    refused(shoal_fleet_key(fleet, 0, "age", "old", 3, &key, &e), SHOAL_ERROR_DATA, "number");
    refused(shoal_fleet_key(fleet, 0, "user", "a\0b", 3, &key, &e), SHOAL_ERROR_DATA, "zero byte");
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t keys[MANY];
static float weights[MANY * WIDTH], state[MANY * STATE], back[MANY * WIDTH],
    state_back[MANY * STATE];
static uint8_t found[MANY];

static void rows_make(void)
{
    for (uint32_t i = 0; i < MANY; i++)
        keys[i] = rows_key(i);
    for (uint32_t i = 0; i < MANY * WIDTH; i++) {
        weights[i] = (float)i / 8;
        state[i] = (float)i / 16 + 1;
    }
}

START_TEST(rows_are_written_and_read_back)
{
    struct shoal_assigned counts = {.size = sizeof counts};
    rows_make();
    ck_assert_msg(shoal_assign(fleet, 0, keys, MANY - 1, weights, state, 0, &counts, &e) ==
                      SHOAL_OK,
                  "%s", e.text);
    ck_assert(counts.made == MANY - 1 && counts.replaced == 0 && counts.kept == 0);
    memset(back, 0xff, sizeof back);
    memset(state_back, 0xff, sizeof state_back);
    ck_assert_msg(shoal_fetch(fleet, 0, keys, MANY, back, state_back, found, &e) == SHOAL_OK, "%s",
                  e.text);
    ck_assert_mem_eq(back, weights, (MANY - 1) * WIDTH * sizeof *back);
    ck_assert_mem_eq(state_back, state, (MANY - 1) * STATE * sizeof *state_back);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(found[i], i < MANY - 1);
    for (uint32_t i = 0; i < WIDTH; i++) /* the last key has no row */
        ck_assert(back[(MANY - 1) * WIDTH + i] == 0 && !signbit(back[(MANY - 1) * WIDTH + i]) &&
                  state_back[(MANY - 1) * STATE + i] == 0);

    ck_assert_int_eq(shoal_assign(fleet, 0, keys, MANY, state, NULL, SHOAL_KEEP, &counts, &e),
                     SHOAL_OK);
    ck_assert(counts.kept == MANY - 1 && counts.made == 1);
    ck_assert_int_eq(shoal_fetch(fleet, 0, keys, 1, back, NULL, NULL, &e), SHOAL_OK);
    ck_assert_mem_eq(back, weights, WIDTH * sizeof *back);
}
END_TEST

/* A thousand times the same three keys, one of which has no row. */
START_TEST(a_key_may_be_asked_for_many_times)
{
    rows_make();
    ck_assert_int_eq(shoal_assign(fleet, 0, keys, 2, weights, NULL, 0, NULL, &e), SHOAL_OK);
    for (uint32_t i = 3; i < 3000; i++)
        keys[i] = keys[i % 3];
    fake.seen[WIRE_TYPE_PULL] = 0;
    ck_assert_int_eq(shoal_fetch(fleet, 0, keys, 3000, back, NULL, found, &e), SHOAL_OK);
    for (uint32_t i = 0; i < 3000; i++) {
        ck_assert_uint_eq(found[i], i % 3 != 2);
        if (i % 3 != 2)
            ck_assert_mem_eq(back + i * WIDTH, weights + i % 3 * WIDTH, WIDTH * sizeof *back);
    }
}
END_TEST

START_TEST(rows_that_cannot_be_read_are_refused)
{
    rows_make();
    refused(shoal_fetch(fleet, 1, keys, 1, back, NULL, NULL, &e), SHOAL_ERROR_USAGE, "1 tables");
    refused(shoal_fetch(fleet, 0, NULL, 1, back, NULL, NULL, &e), SHOAL_ERROR_USAGE, "missing");
    refused(shoal_fetch(fleet, 0, keys, 1, NULL, NULL, NULL, &e), SHOAL_ERROR_USAGE, "missing");
    ck_assert_int_eq(shoal_fetch(fleet, 0, NULL, 0, NULL, NULL, NULL, &e), SHOAL_OK);
    fake_refuse(WIRE_TYPE_PULL, SHOAL_E_DENIED, 1, "the role serve may not");
    refused(shoal_fetch(fleet, 0, keys, 1, back, state, NULL, &e), SHOAL_ERROR_DENIED, "serve");
    fake.older = true;
    refused(shoal_fetch(fleet, 0, keys, 1, back, state, NULL, &e), SHOAL_ERROR_VERSION,
            "upgrade the servers");
    ck_assert_int_eq(shoal_fetch(fleet, 0, keys, 1, back, NULL, NULL, &e), SHOAL_OK);
}
END_TEST

/* A server that answers "later" or leads the tablets no more is asked again. */
START_TEST(passing_refusals_pass)
{
    rows_make();
    fake_refuse(WIRE_TYPE_PULL, SHOAL_E_BUSY, 3, "busy");
    fake_refuse(WIRE_TYPE_PULL, SHOAL_E_NOT_LEADER, 2, "not I");
    fake_refuse(WIRE_TYPE_ASSIGN, SHOAL_E_NO_SPACE, 2, "full");
    fake_refuse(WIRE_TYPE_IMPORT, SHOAL_E_AGAIN, 1, "again");
    ck_assert_msg(shoal_assign(fleet, 0, keys, 500, weights, NULL, 0, NULL, &e) == SHOAL_OK, "%s",
                  e.text);
    ck_assert_msg(shoal_fetch(fleet, 0, keys, 500, back, NULL, NULL, &e) == SHOAL_OK, "%s", e.text);
    ck_assert_mem_eq(back, weights, 500 * WIDTH * sizeof *back);
}
END_TEST

START_TEST(a_silent_fleet_is_given_up)
{
    fake_setup();
    rows_make();
    ck_assert_int_eq(
        open_as((struct shoal_fleet_options){.coordinator = fake.endpoint, .wait_ms = 300}),
        SHOAL_OK);
    fake_silence(WIRE_TYPE_PULL);
    refused(shoal_fetch(fleet, 0, keys, 9, back, NULL, NULL, &e), SHOAL_ERROR_UNREACHABLE,
            "300 ms");
    fake_silence(WIRE_TYPE_ASSIGN);
    refused(shoal_assign(fleet, 0, keys, 9, weights, NULL, 0, NULL, &e), SHOAL_ERROR_UNREACHABLE,
            "300 ms");
    fake_silence(WIRE_TYPE_NONE); /* the handle goes on */
    ck_assert_int_eq(shoal_fetch(fleet, 0, keys, 9, back, NULL, NULL, &e), SHOAL_OK);
    fleet_teardown();
}
END_TEST

START_TEST(rows_that_cannot_be_written_are_refused)
{
    struct shoal_assigned counts = {.size = sizeof counts};
    rows_make();
    refused(shoal_assign(fleet, 1, keys, 1, weights, NULL, 0, NULL, &e), SHOAL_ERROR_USAGE,
            "1 tables");
    refused(shoal_assign(fleet, 0, keys, 1, NULL, NULL, 0, NULL, &e), SHOAL_ERROR_USAGE, "missing");
    refused(shoal_assign(fleet, 0, keys, 1, weights, NULL, 2, NULL, &e), SHOAL_ERROR_USAGE, "flag");
    fake_refuse(WIRE_TYPE_IMPORT, SHOAL_E_DENIED, 1, "the role serve may not");
    refused(shoal_assign(fleet, 0, keys, 1, weights, NULL, 0, NULL, &e), SHOAL_ERROR_DENIED,
            "serve");
    fake_refuse(WIRE_TYPE_IMPORT, SHOAL_E_BUSY, 1, "job made trains in table emb");
    refused(shoal_assign(fleet, 0, keys, 1, weights, NULL, 0, &counts, &e), SHOAL_ERROR_BUSY,
            "trains in table");
    weights[1] = INFINITY;
    refused(shoal_assign(fleet, 0, keys, 1, weights, NULL, 0, NULL, &e), SHOAL_ERROR_NOT_FINITE,
            "key 0");
    ck_assert_int_eq(shoal_fetch(fleet, 0, keys, 1, back, NULL, found, &e), SHOAL_OK);
    ck_assert_uint_eq(found[0], 0);
}
END_TEST

/* The coordinator's audit log has begin and end, with the rows that the table got. */
START_TEST(rows_are_announced)
{
    rows_make();
    ck_assert_int_eq(shoal_assign(fleet, 0, keys, 10, weights, NULL, 0, NULL, &e), SHOAL_OK);
    const struct wire_IMPORT *begin = &fake.import[0], *end = &fake.import[1];
    ck_assert_str_eq(begin->table, "emb");
    ck_assert(begin->number == FAKE_EMB && begin->rows == 10 && begin->token != 0);
    ck_assert(end->token == begin->token && end->checksum == begin->checksum && end->rows == 10);
    ck_assert_int_eq(shoal_assign(fleet, 0, keys, 15, weights, NULL, SHOAL_KEEP, NULL, &e),
                     SHOAL_OK);
    ck_assert_uint_eq(fake.import[1].rows, 5);
    ck_assert_uint_ne(fake.import[1].checksum, 0);
    fake_refuse(WIRE_TYPE_IMPORT, SHOAL_E_AGAIN, 1, "later");
    fake_refuse(WIRE_TYPE_ASSIGN, SHOAL_E_OLD_RUN, 1, "a run is open");
    ck_assert_int_eq(shoal_assign(fleet, 0, keys, 1, weights, NULL, 0, NULL, &e), SHOAL_OK);
}
END_TEST

/* The job of a later release has keys that this library does not know: rows need none of them. */
START_TEST(a_job_that_cannot_be_read_leaves_the_rows)
{
    static const char later[] = "job: made\nwonder: 7\n";
    uint64_t key;
    float got[15];
    fake_setup();
    rows_make();
    fake.job = later;
    fake.job_bytes = sizeof later - 1;
    ck_assert_int_eq(open_as((struct shoal_fleet_options){.coordinator = fake.endpoint}), SHOAL_OK);
    ck_assert_int_eq(shoal_fetch(fleet, 0, keys, 9, back, NULL, NULL, &e), SHOAL_OK);
    refused(shoal_fleet_key(fleet, 0, "user", "a", 1, &key, &e), SHOAL_ERROR_CONFIG, "wonder");
    refused(shoal_tensor_read(fleet, "w1", got, 15, &e), SHOAL_ERROR_CONFIG, "wonder");
    ck_assert_uint_eq(shoal_fleet_tensors(fleet), 0);
    fleet_teardown();
}
END_TEST

/* `fresh: all` gives the tables other numbers: rows by the old ones would be those of another. */
START_TEST(tables_that_were_made_anew_are_told)
{
    rows_make();
    ck_assert_int_eq(shoal_fetch(fleet, 0, keys, 9, back, NULL, NULL, &e), SHOAL_OK);
    pthread_mutex_lock(&fake.lock);
    fake.anew = true;
    pthread_mutex_unlock(&fake.lock);
    fake_refuse(WIRE_TYPE_PULL, SHOAL_E_NOT_LEADER, 1, "the map is old");
    refused(shoal_fetch(fleet, 0, keys, 9, back, NULL, NULL, &e), SHOAL_ERROR_CONFIG, "made anew");
    refused(shoal_fetch(fleet, 0, keys, 9, back, NULL, NULL, &e), SHOAL_ERROR_CONFIG, "made anew");
    refused(shoal_assign(fleet, 0, keys, 9, weights, NULL, 0, NULL, &e), SHOAL_ERROR_CONFIG,
            "open it again");
}
END_TEST

/* The names define no key, and the job's input, which a command makes, is not read for one. */
START_TEST(a_key_never_runs_what_the_job_names)
{
    static char job[512];
    char ran[128];
    uint64_t key;
    fake_setup();
    (void)snprintf(ran, sizeof ran, "%s/ran", fake.folder);
    fake.job_bytes = (size_t)snprintf(
        job, sizeof job,
        "job: made\n"
        "data: {format: csv, train: [{cmd: \"touch %s; echo label,user; echo 1,a\"}], "
        "label: label}\n"
        "tables: [{name: emb, dim: 3, optimizer: {kind: adagrad, lr: 0.5}}]\n"
        "model: {kind: external, first_order: true}\n",
        ran);
    fake.job = job;
    ck_assert_int_eq(open_as((struct shoal_fleet_options){.coordinator = fake.endpoint}), SHOAL_OK);
    refused(shoal_fleet_key(fleet, 0, "user", "a", 1, &key, &e), SHOAL_ERROR_CONFIG,
            "shoal_read_open");
    ck_assert_int_ne(access(ran, F_OK), 0);
    fleet_teardown();
}
END_TEST

/* ---- tensors --------------------------------------------------------------------------------- */

START_TEST(tensors_are_described_read_and_written)
{
    struct shoal_tensor t = {.size = sizeof t};
    float w1[15], b1[300], got[300];
    ck_assert_uint_eq(shoal_fleet_tensors(fleet), 2);
    ck_assert_int_eq(shoal_fleet_tensor(fleet, 0, &t, &e), SHOAL_OK);
    ck_assert(strcmp(t.name, "w1") == 0 && t.rank == 2 && t.shape[0] == 3 && t.shape[1] == 5 &&
              t.floats == 15);
    ck_assert_int_eq(shoal_fleet_tensor(fleet, 1, &t, &e), SHOAL_OK);
    ck_assert(strcmp(t.name, "b1") == 0 && t.rank == 1 && t.floats == 300);
    for (uint32_t i = 0; i < 300; i++)
        b1[i] = (float)i - 7;
    for (uint32_t i = 0; i < 15; i++)
        w1[i] = (float)i + 0.5f;
    ck_assert_msg(shoal_tensor_write(fleet, "b1", b1, 300, &e) == SHOAL_OK, "%s", e.text);
    ck_assert_str_eq(fake.import[1].table, "dense");
    ck_assert_uint_eq(fake.import[1].number, FAKE_DENSE);
    ck_assert_int_eq(shoal_tensor_write(fleet, "w1", w1, 15, &e), SHOAL_OK);
    ck_assert_int_eq(shoal_tensor_read(fleet, "b1", got, 300, &e), SHOAL_OK);
    ck_assert_mem_eq(got, b1, sizeof b1);
    ck_assert_int_eq(shoal_tensor_read(fleet, "w1", got, 15, &e), SHOAL_OK);
    ck_assert_mem_eq(got, w1, sizeof w1);
    refused(shoal_fleet_tensor(fleet, 2, &t, &e), SHOAL_ERROR_USAGE, "2 tensors");
    refused(shoal_tensor_read(fleet, "w2", got, 15, &e), SHOAL_ERROR_NOT_FOUND, "no tensor w2");
    refused(shoal_tensor_read(fleet, "w1", got, 16, &e), SHOAL_ERROR_USAGE, "15 floats, 16");
    refused(shoal_tensor_write(fleet, NULL, got, 16, &e), SHOAL_ERROR_USAGE, "named");
    fake_refuse(WIRE_TYPE_IMPORT, SHOAL_E_BUSY, 1, "job made trains in table dense");
    refused(shoal_tensor_write(fleet, "w1", w1, 15, &e), SHOAL_ERROR_BUSY, "trains in table");
}
END_TEST

/* A tensor that no batch has touched begins with its initial values, as a worker's does. */
START_TEST(a_new_tensor_has_its_initial_values)
{
    float got[300], expected[256];
    const uint64_t key = key_make(0, 0);
    table_pull(fake.dense.table, &key, 1, expected);
    ck_assert_int_eq(shoal_tensor_read(fleet, "b1", got, 300, &e), SHOAL_OK);
    ck_assert_mem_eq(got, expected, sizeof expected);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet");
    TCase *c = suite_case(s, "open", 60, NULL, NULL);
    tcase_add_test(c, a_fleet_that_cannot_be_opened_says_why);
    tcase_add_loop_test(c, what_the_coordinator_refuses_is_told, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(c, another_space_is_no_space);
    tcase_add_test(c, a_silent_fleet_is_given_up);
    tcase_add_test(c, a_job_that_cannot_be_read_leaves_the_rows);
    tcase_add_test(c, a_key_never_runs_what_the_job_names);
    c = suite_case(s, "fleet", 60, fleet_setup, fleet_teardown);
    tcase_add_test(c, tables_are_described);
    tcase_add_test(c, tables_that_were_made_anew_are_told);
    tcase_add_test(c, keys_are_those_of_the_readers);
    tcase_add_test(c, rows_are_written_and_read_back);
    tcase_add_test(c, a_key_may_be_asked_for_many_times);
    tcase_add_test(c, rows_that_cannot_be_read_are_refused);
    tcase_add_test(c, passing_refusals_pass);
    tcase_add_test(c, rows_that_cannot_be_written_are_refused);
    tcase_add_test(c, rows_are_announced);
    tcase_add_test(c, tensors_are_described_read_and_written);
    tcase_add_test(c, a_new_tensor_has_its_initial_values);
    return suite_main(s);
}
