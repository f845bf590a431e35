/* test_work.c: joining by libshoal where no job comes of it: each error of shoal_work_join. Jobs
 * that are worked are in tests/sim/test_outside.c and tests/e2e/test_external.py. */
#include "tests/worker/lib/fleet_fake.h"

#include <stdatomic.h>

static shoal_work *work;
static struct shoal_error e;
static atomic_int asked;

static int join_as(struct shoal_work_options o)
{
    o.size = sizeof o;
    return shoal_work_join(&o, &work, &e);
}

static void refused(int rc, int code, const char *words)
{
    ck_assert_msg(rc == code && e.code == code && strstr(e.text, words) != NULL, "%s: %s",
                  shoal_code_text(rc), e.text);
    ck_assert_ptr_null(work);
}

static bool thrice(void *context)
{
    ck_assert_ptr_eq(context, &asked);
    return atomic_fetch_add(&asked, 1) < 2;
}

START_TEST(what_cannot_be_joined_is_refused)
{
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    unsetenv("SHOAL_COORDINATOR");
    refused(shoal_work_join(NULL, &work, &e), SHOAL_ERROR_USAGE, "options are missing");
    refused(join_as((struct shoal_work_options){0}), SHOAL_ERROR_USAGE, "SHOAL_COORDINATOR");
    refused(join_as((struct shoal_work_options){.coordinator = "ipc:///x", .name = ""}),
            SHOAL_ERROR_USAGE, "a name has");
    refused(join_as((struct shoal_work_options){.coordinator = "ipc:///x", .name = name}),
            SHOAL_ERROR_USAGE, "a name has");
    refused(join_as((struct shoal_work_options){.coordinator = "tcp://127.0.0.1:1"}),
            SHOAL_ERROR_CONFIG, "key file");
    refused(join_as((struct shoal_work_options){.coordinator = "what:ever"}), SHOAL_ERROR_CONFIG,
            "endpoint 1 of the list");
    refused(join_as((struct shoal_work_options){.coordinator = "ipc:///x", .lanes = UINT32_MAX}),
            SHOAL_ERROR_USAGE, "4294967295 lanes");
    refused(join_as((struct shoal_work_options){.coordinator = "ipc:///x", .cores = 4097}),
            SHOAL_ERROR_USAGE, "4097 cores");
    refused(join_as((struct shoal_work_options){.coordinator = "ipc:///nowhere/x", .wait_ms = 300}),
            SHOAL_ERROR_UNREACHABLE, "/nowhere/x");
}
END_TEST

/* A coordinator without a job is waited for, until the caller gives up. */
START_TEST(a_join_may_be_given_up)
{
    fake_setup();
    fake_refuse(WIRE_TYPE_WORKER_JOIN, SHOAL_E_AGAIN, UINT32_MAX, "there is no job");
    refused(join_as((struct shoal_work_options){
                .coordinator = fake.endpoint, .goes_on = thrice, .context = &asked}),
            SHOAL_ERROR_STOPPED, "gave up");
    ck_assert_int_eq(atomic_load(&asked), 3);
    fake_teardown();
}
END_TEST

static const struct {
    int status, code;
} refusals[] = {{SHOAL_E_DENIED, SHOAL_ERROR_DENIED},
                {SHOAL_E_VERSION, SHOAL_ERROR_VERSION},
                {SHOAL_E_CONFIG, SHOAL_ERROR_CONFIG}};

START_TEST(what_the_coordinator_refuses_is_told)
{
    fake_setup();
    fake_refuse(WIRE_TYPE_WORKER_JOIN, refusals[_i].status, UINT32_MAX, "it is so");
    refused(join_as((struct shoal_work_options){.coordinator = fake.endpoint, .wait_ms = 2000}),
            refusals[_i].code, "it is so");
    fake_teardown();
}
END_TEST

START_TEST(codes_have_names)
{
    for (int code = SHOAL_OK; code <= SHOAL_ERROR_NO_INPUT; code++)
        ck_assert_str_ne(shoal_code_text(code), "unknown code");
    ck_assert_str_eq(shoal_code_text(SHOAL_ERROR_NO_INPUT), "no input");
    ck_assert_str_eq(shoal_code_text(SHOAL_AGAIN), "nothing came");
    ck_assert_str_eq(shoal_code_text(SHOAL_END), "the end");
    ck_assert_str_eq(shoal_code_text(SHOAL_ERROR_NO_INPUT + 1), "unknown code");
    ck_assert_str_eq(shoal_code_text(-1), "unknown code");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("work");
    TCase *c = suite_case(s, "join", 60, NULL, NULL);
    tcase_add_test(c, what_cannot_be_joined_is_refused);
    tcase_add_test(c, a_join_may_be_given_up);
    tcase_add_loop_test(c, what_the_coordinator_refuses_is_told, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(c, codes_have_names);
    return suite_main(s);
}
