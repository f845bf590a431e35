/* test_errand.c: errands to folders that answer, that hang, or that are abandoned. The test itself
 * decides when the work of each is done. */
#include "proto/base/container_of.h"
#include "server/coord/fleet/errand.h"
#include "server/coord/job/slot.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define ERRANDS 24u

static uint64_t now;
static struct env_work *begun[8];
static uint32_t begun_count;
static struct coord *c;

static struct trip {
    struct coord_errand errand;
    int status; /* that its run returns */
    uint32_t runs, undone, freed, told;
    int rc;
    char text[ERR_TEXT_MAX];
} trip[ERRANDS];

static uint64_t now_of(struct env *env)
{
    (void)env;
    return now;
}

static void work_of(struct env *env, struct env_work *w)
{
    (void)env;
    ck_assert_uint_lt(begun_count, 8);
    begun[begun_count++] = w;
}

static struct trip *trip_of(struct coord_errand *r)
{
    return container_of(r, struct trip, errand);
}

static int run(struct coord_errand *r, struct err *e)
{
    trip_of(r)->runs++;
    return trip_of(r)->status == 0 ? 0 : err_set(e, trip_of(r)->status, "it failed");
}

static void undo(struct coord_errand *r)
{
    trip_of(r)->undone++;
}

static void gone(struct coord_errand *r)
{
    ck_assert(trip_of(r)->undone == 1 || (trip_of(r)->undone == 0 && !r->ran));
    trip_of(r)->freed++;
}

static void done(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    ck_assert_ptr_eq(context, c);
    trip_of(r)->told++;
    trip_of(r)->rc = rc;
    (void)snprintf(trip_of(r)->text, ERR_TEXT_MAX, "%s", rc != 0 ? e->text : "");
}

static int start(uint32_t i, const char *folder)
{
    struct err e = {0};
    struct trip *t = &trip[i];
    t->errand.run = run;
    t->errand.undo = undo;
    t->errand.free = gone;
    (void)snprintf(t->errand.folder, LIMIT_PATH, "%s", folder);
    int rc = coord_errand_start(&c->fleet, &t->errand, c, done, &e);
    (void)snprintf(t->text, ERR_TEXT_MAX, "%s", e.text);
    return rc;
}

/* The work that was begun as number i ends. */
static void back(uint32_t i)
{
    struct env_work *w = begun[i];
    ck_assert_uint_lt(i, begun_count);
    memmove(&begun[i], &begun[i + 1], (--begun_count - i) * sizeof begun[0]);
    w->run(w);
    w->done(w);
}

static void later(uint64_t seconds)
{
    now += seconds * SECOND;
    coord_errand_tick(&c->fleet);
}

static void setup(void)
{
    static const struct env_ops ops = {.now_ns = now_of, .work = work_of};
    static struct env env = {.ops = &ops};
    memset(trip, 0, sizeof trip);
    begun_count = 0;
    now = SECOND;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.env = &env;
    c->fleet.store = coord_store_memory();
}

static void teardown(void)
{
    coord_errand_end(&c->fleet);
    coord_errand_close(&c->fleet);
    for (uint32_t i = 0; i < ERRANDS; i++) /* 2 */
        ck_assert(trip[i].freed == 1 || trip[i].errand.run == NULL);
    coord_store_close(c->fleet.store);
    free(c);
}

START_TEST(errands_run_one_at_a_time)
{
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(start(i, i == 1 ? "/a" : "/b"), 0);
    trip[1].status = SHOAL_E_IO;
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(begun_count, 1);
        back(0);
        ck_assert(trip[i].runs == 1 && trip[i].told == 1 && trip[i].rc == trip[i].status);
    }
    ck_assert_str_eq(trip[1].text, "it failed"); /* its result is undone */
    back(0);
    ck_assert(trip[1].undone == 1 && trip[1].freed == 1);
    ck_assert_uint_eq(begun_count, 0);
    coord_errand_leave(&c->fleet, &trip[0].errand);
    coord_errand_leave(&c->fleet, &trip[2].errand);
    back(0);
    back(0);
}
END_TEST

START_TEST(errand_of_another_folder_does_not_wait_for_one_that_hangs)
{
    char text[ERR_TEXT_MAX];
    ck_assert_int_eq(start(0, "/a"), 0);
    ck_assert_int_eq(start(1, "/a"), 0);
    ck_assert_int_eq(start(2, "/b"), 0);
    later(4);
    ck_assert(begun_count == 1 && !coord_errand_hangs(&c->fleet, 0, text, sizeof text));
    later(3);
    ck_assert_uint_eq(begun_count, 2);
    ck_assert(coord_errand_hangs(&c->fleet, 0, text, sizeof text));
    ck_assert_str_eq(text, "checkpoint folder /a has not answered for 7 s");
    ck_assert(!coord_errand_hangs(&c->fleet, 1, text, sizeof text));
    back(1);
    ck_assert(trip[2].told == 1 && trip[2].rc == 0 && trip[1].runs == 0);
    ck_assert_int_eq(start(3, "/a"), SHOAL_E_UNAVAILABLE);
    ck_assert_str_eq(trip[3].text, "checkpoint folder /a has not answered for 7 s: look at its "
                                   "file system, and ask again");
    coord_errand_leave(&c->fleet, &trip[2].errand);
    back(1);
    back(0); /* it answers again */
    ck_assert(trip[0].rc == 0 && !coord_errand_hangs(&c->fleet, 0, text, sizeof text));
    back(0);
    ck_assert(trip[1].rc == 0 && trip[1].runs == 1);
    ck_assert(trip[3].runs == 0 && trip[3].freed == 1);
    coord_errand_leave(&c->fleet, &trip[0].errand);
    coord_errand_leave(&c->fleet, &trip[1].errand);
}
END_TEST

START_TEST(errand_that_hangs_has_an_end)
{
    ck_assert_int_eq(start(0, "/a"), 0);
    ck_assert_int_eq(start(1, "/a"), 0);
    later(119);
    ck_assert(trip[0].told == 0 && trip[1].told == 0);
    later(1);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert(trip[i].told == 1 && trip[i].rc == SHOAL_E_UNAVAILABLE);
        ck_assert_str_eq(trip[i].text, "checkpoint folder /a has not answered for 120 s: see "
                                       "whether its file server and the network to it answer");
        ck_assert_uint_eq(trip[i].freed, 0); /* its thread may still write to it */
    }
    later(1000);
    back(0);
    back(0);
    back(0);
    ck_assert(trip[0].runs == 1 && trip[0].freed == 1 && trip[0].told == 1);
    ck_assert(trip[1].runs == 0 && trip[1].freed == 1 && trip[1].told == 1);
    ck_assert_uint_eq(begun_count, 0);
}
END_TEST

/* However many folders hang, there are two threads and a short list. */
START_TEST(errands_that_hang_are_few)
{
    char folder[8];
    uint32_t taken = 0;
    for (uint32_t i = 0; i < ERRANDS; i++) {
        (void)snprintf(folder, sizeof folder, "/%u", i);
        taken += start(i, folder) == 0;
        later(6);
        ck_assert_uint_le(begun_count, COORD_ERRAND_THREADS);
    }
    ck_assert_uint_le(taken, COORD_ERRAND_LIST + 1); /* some have ended by now */
    ck_assert_ptr_nonnull(strstr(trip[ERRANDS - 1].text, "has not answered for"));
}
END_TEST

/* An errand is abandoned before it runs, while it runs, or after: its result is undone, once. A
 * detached errand runs first. */
START_TEST(errand_left_is_undone)
{
    ck_assert_int_eq(start(0, "/a"), 0);
    ck_assert_int_eq(start(1, "/a"), 0);
    ck_assert_int_eq(start(2, "/a"), 0);
    ck_assert_int_eq(start(3, "/a"), 0);
    coord_errand_leave(&c->fleet, &trip[1].errand);
    coord_errand_leave(&c->fleet, &trip[0].errand);
    coord_errand_detach(&trip[2].errand);
    for (uint32_t i = 0; i < 6; i++)
        back(0);
    ck_assert(trip[0].runs == 1 && trip[0].freed == 1 && trip[0].told == 0);
    ck_assert(trip[1].runs == 0 && trip[1].freed == 1 && trip[1].told == 0);
    ck_assert(trip[2].runs == 1 && trip[2].freed == 1 && trip[2].told == 0);
    ck_assert(trip[3].runs == 1 && trip[3].freed == 0 && trip[3].told == 1);
    coord_errand_leave(&c->fleet, &trip[3].errand);
    back(0);
    ck_assert_uint_eq(trip[3].freed, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_errand");
    TCase *t = tcase_create("coord_errand");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, errands_run_one_at_a_time);
    tcase_add_test(t, errand_of_another_folder_does_not_wait_for_one_that_hangs);
    tcase_add_test(t, errand_that_hangs_has_an_end);
    tcase_add_test(t, errands_that_hang_are_few);
    tcase_add_test(t, errand_left_is_undone);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
