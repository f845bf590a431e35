/* test_power.c: the coordinator's store on a disk that loses its power at any call. */
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "server/coord/store/store.h"
#include "tests/lib/coord_log.h"
#include "tests/lib/coord_put.h"
#include "tests/lib/disk.h"
#include "tests/lib/rig_dir.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STARTS = 3, PUTS = 4 };

static char root[LIMIT_PATH], dir[LIMIT_PATH];

/* The number of the last put that was answered, and of the last one that was tried. */
static uint64_t answered, tried;

/* Starts and puts until the power fails, or all puts are done. */
static void play(struct disk *d)
{
    struct err e = {0};
    for (int start = 0; start < STARTS && !disk_is_off(d); start++) {
        struct coord_store *s;
        if (coord_store_open(dir, 0, &s, &e) != 0)
            return;
        for (int i = 0; i < PUTS && !disk_is_off(d); i++) {
            tried = answered + 1;
            int rc = coord_put_now(s, "number", &tried, sizeof tried, &e);
            if (!disk_is_off(d)) {
                ck_assert_msg(rc == 0, "%s", e.text);
                answered = tried;
            }
        }
        coord_store_close(s);
    }
}

/* Plays until call `at`, at which the power fails, or to the end, where it fails after the last
 * call; then the machine restarts. Returns true if the power failed at the call. */
static bool play_and_lose_power(struct disk *d, uint64_t at, uint64_t seed)
{
    disk_fail(d, &(struct disk_fault){.at = at, .kind = DISK_OFF, .seed = seed});
    play(d);
    bool off = disk_is_off(d);
    if (!off)
        disk_off(d, seed);
    disk_on(d);
    return off;
}

/* Every answered put is there, and of the unanswered ones at most the last, whether the power
 * failed in the middle of a put, during a start's rewriting, or between two calls. */
START_TEST(coord_store_keeps_what_it_answered_when_power_goes)
{
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    bool off = true;
    for (uint64_t at = 1; off; at++)
        for (uint64_t seed = at * 3; seed < at * 3 + 3; seed++) {
            struct coord_store *s;
            struct err e = {0};
            uint64_t number = 0;
            snprintf(root, sizeof root, "%s/shoal-power-XXXXXX", shm);
            ck_assert_ptr_nonnull(mkdtemp(root));
            snprintf(dir, sizeof dir, "%.900s/coord", root);
            ck_assert_int_eq(mkdir(dir, 0700), 0);
            struct disk *d = disk_watch(root);
            answered = tried = 0;
            off = play_and_lose_power(d, at, seed);
            ck_assert_msg(coord_store_open(dir, 0, &s, &e) == 0, "call %u, seed %u: %s",
                          (unsigned)at, (unsigned)seed, e.text);
            int rc = coord_store_get_fixed(s, "number", &number, sizeof number, &e);
            ck_assert(rc == 0 || (rc == SHOAL_E_NOT_FOUND && answered == 0));
            ck_assert_msg(number == answered || number == tried, "call %u, seed %u: %u of %u",
                          (unsigned)at, (unsigned)seed, (unsigned)number, (unsigned)answered);
            coord_store_close(s);
            disk_free(d);
            rig_remove_dir(root);
        }
}
END_TEST

/* A removed value does not come back. */
START_TEST(coord_store_removes_for_good_before_it_answers)
{
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct coord_store *s;
        struct err e = {0};
        uint64_t number = 7;
        rig_dir(root);
        snprintf(dir, sizeof dir, "%.900s/coord", root);
        ck_assert_int_eq(mkdir(dir, 0700), 0);
        struct disk *d = disk_watch(root);
        ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), 0);
        ck_assert_int_eq(coord_put_now(s, "number", &number, sizeof number, &e), 0);
        ck_assert_int_eq(coord_remove_now(s, "number", &e), 0);
        disk_off(d, seed);
        coord_store_close(s);
        disk_on(d);
        ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), 0);
        ck_assert_int_eq(coord_store_get_fixed(s, "number", &number, sizeof number, &e),
                         SHOAL_E_NOT_FOUND);
        coord_store_close(s);
        disk_free(d);
        rig_remove_dir(root);
    }
}
END_TEST

/* Writes a state.log with a number, and syncs it. */
static void old_log_put(const char *path, uint64_t number)
{
    unsigned char log[256];
    size_t bytes = coord_log_put(log, "other", "x", 1);
    bytes += coord_log_put(log + bytes, "number", &number, sizeof number);
    FILE *f = fopen(path, "w");
    ck_assert(f != NULL && fwrite(log, 1, bytes, f) == bytes && fclose(f) == 0);
}

/* The power fails at any call of the takeover, or of the puts after it: the value is the log's or a
 * later one, and the log has one of its two names. */
START_TEST(coord_store_takes_an_old_log_over_when_power_goes)
{
    char path[LIMIT_PATH + 64], away[LIMIT_PATH + 96];
    bool off = true;
    for (uint64_t at = 1; off; at++)
        for (uint64_t seed = at; seed < at + 1; seed++) {
            struct coord_store *s;
            struct err e = {0};
            uint64_t number = 0;
            rig_dir(root);
            snprintf(dir, sizeof dir, "%.900s/coord", root);
            ck_assert_int_eq(mkdir(dir, 0700), 0);
            snprintf(path, sizeof path, "%s/state.log", dir);
            snprintf(away, sizeof away, "%s.0.2.0", path);
            old_log_put(path, 5);
            struct disk *d = disk_watch(root);
            answered = tried = 5;
            off = play_and_lose_power(d, at, seed);
            ck_assert((access(path, F_OK) == 0) != (access(away, F_OK) == 0));
            ck_assert_msg(coord_store_open(dir, 0, &s, &e) == 0, "call %u, seed %u: %s",
                          (unsigned)at, (unsigned)seed, e.text);
            ck_assert_int_eq(coord_store_get_fixed(s, "number", &number, sizeof number, &e), 0);
            ck_assert(number == answered || number == tried);
            ck_assert_int_eq(coord_store_get_fixed(s, "other", &(char){0}, 1, &e), 0);
            ck_assert(access(path, F_OK) != 0 && access(away, F_OK) == 0);
            coord_store_close(s);
            disk_free(d);
            rig_remove_dir(root);
        }
}
END_TEST

/* A sync fails and loses its pages, the coordinator restarts, and then the power fails. */
START_TEST(coord_store_keeps_what_it_answered_after_a_sync_that_failed)
{
    bool failed = true;
    for (uint64_t at = 1; failed; at++)
        for (uint64_t seed = 0; seed < 12; seed++) {
            struct coord_store *s;
            struct err e = {0};
            uint64_t number = 0;
            rig_dir(root);
            snprintf(dir, sizeof dir, "%.900s/coord", root);
            ck_assert_int_eq(mkdir(dir, 0700), 0);
            struct disk *d = disk_watch(root);
            answered = tried = 0;
            disk_fail(
                d, &(struct disk_fault){.at = at, .kind = DISK_ERROR, .why = EIO, .syncs = true});
            for (int start = 0; start < 2; start++) {
                if (coord_store_open(dir, 0, &s, &e) != 0)
                    continue;
                for (int i = 0; i < PUTS; i++) {
                    tried++;
                    if (coord_put_now(s, "number", &tried, sizeof tried, &e) != 0)
                        break;
                    answered = tried;
                }
                coord_store_close(s);
            }
            failed = disk_failed(d);
            disk_fail(d, &(struct disk_fault){.at = 1 + seed, .kind = DISK_OFF, .seed = seed});
            if (coord_store_open(dir, 0, &s, &e) == 0)
                coord_store_close(s);
            disk_off(d, seed);
            disk_on(d);
            ck_assert_msg(coord_store_open(dir, 0, &s, &e) == 0, "sync %u, seed %u: %s",
                          (unsigned)at, (unsigned)seed, e.text);
            int rc = coord_store_get_fixed(s, "number", &number, sizeof number, &e);
            ck_assert_msg(rc == 0 || (rc == SHOAL_E_NOT_FOUND && answered == 0),
                          "sync %u, seed %u: %u is forgotten", (unsigned)at, (unsigned)seed,
                          (unsigned)answered);
            ck_assert_msg(number >= answered && number <= tried, "sync %u, seed %u: %u of %u",
                          (unsigned)at, (unsigned)seed, (unsigned)number, (unsigned)answered);
            coord_store_close(s);
            disk_free(d);
            rig_remove_dir(root);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_power");
    log_set_level(LOG_LEVEL_ERROR);
    TCase *t = suite_case(s, "power", 120, NULL, NULL);
    tcase_add_test(t, coord_store_keeps_what_it_answered_when_power_goes);
    tcase_add_test(t, coord_store_removes_for_good_before_it_answers);
    tcase_add_test(t, coord_store_takes_an_old_log_over_when_power_goes);
    tcase_add_test(t, coord_store_keeps_what_it_answered_after_a_sync_that_failed);
    return suite_main(s);
}
