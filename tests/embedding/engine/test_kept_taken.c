/* test_kept_taken.c: DIR/taken: it is read whole, or found damaged; an older folder has none. */
#include "embedding/engine/engine_state.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char learnt[] = "a head, and names of 16 bytes";
#define BYTES ((uint32_t)sizeof learnt - 1)

static void is_there(const struct engine *g)
{
    struct err e = {0};
    void *bytes;
    uint32_t count;
    ck_assert_uint_eq(engine_taken_version(g, 0), 5);
    ck_assert_msg(engine_taken_get(g, 0, &bytes, &count, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(count, BYTES);
    ck_assert_mem_eq(bytes, learnt, BYTES);
    free(bytes);
}

static char dir[64];

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/shoal-place-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(they_are_there_after_a_kill)
{
    struct rig s;
    struct err e = {0};
    enum durability durability = _i == 0 ? DURABLE_JOURNAL : DURABLE_MEMORY;
    rig_open(&s, dir, durability);
    ck_assert_uint_eq(engine_taken_version(s.g, 0), 0);
    ck_assert_int_eq(engine_taken_set(s.g, 0, 4, "older", 5, &e), 0);
    ck_assert_msg(engine_taken_set(s.g, 0, 5, learnt, BYTES, &e) == 0, "%s", e.text);
    is_there(s.g);
    rig_close(&s, false);
    rig_open(&s, dir, durability);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

/* Each byte and each length of the file is changed; then the advice of the refusal is followed. */
START_TEST(damage_is_found_and_the_advice_holds)
{
    struct rig s;
    struct err e = {0};
    char path[128], good[256], bad[256];
    rig_open(&s, dir, DURABLE_MEMORY);
    ck_assert_int_eq(engine_taken_set(s.g, 0, 5, learnt, BYTES, &e), 0);
    rig_close(&s, false);
    (void)snprintf(path, sizeof path, "%s/taken", dir);
    FILE *f = fopen(path, "rb");
    size_t bytes = fread(good, 1, sizeof good, f);
    fclose(f);
    ck_assert_uint_eq(bytes, 32 + BYTES);
    for (size_t at = 0; at < 2 * bytes; at++) {
        memcpy(bad, good, bytes);
        bad[at % bytes] ^= 0x10;
        f = fopen(path, "wb");
        (void)fwrite(at < bytes ? bad : good, 1, at < bytes ? bytes : at - bytes, f);
        fclose(f);
        int rc = rig_try_open(&s, dir, DURABLE_MEMORY, &e);
        ck_assert_msg(rc == SHOAL_E_CORRUPT, "byte %zu: %d", at, rc);
        ck_assert_ptr_nonnull(strstr(e.text, "/taken is damaged"));
        ck_assert_ptr_nonnull(strstr(e.text, "move it away"));
    }
    ck_assert_int_eq(truncate(path, (17 << 20)), 0); /* longer than allowed */
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_MEMORY, &e), SHOAL_E_CORRUPT);
    ck_assert_int_eq(unlink(path), 0);
    rig_open(&s, dir, DURABLE_MEMORY);
    ck_assert_uint_eq(engine_taken_version(s.g, 0), 0);
    ck_assert_int_eq(engine_taken_set(s.g, 0, 5, learnt, BYTES, &e), 0);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

/* Each space has a file of its own; that of space 0 has the name of every release. */
START_TEST(each_space_has_its_own)
{
    struct rig s;
    struct err e = {0};
    char path[128];
    void *bytes;
    uint32_t count;
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_int_eq(engine_taken_set(s.g, 0, 5, learnt, BYTES, &e), 0);
    ck_assert_int_eq(engine_taken_set(s.g, LIMIT_SPACES - 1, 9, "other", 5, &e), 0);
    ck_assert_int_eq(engine_taken_set(s.g, 3, 7, "third", 5, &e), 0);
    rig_close(&s, false);
    (void)snprintf(path, sizeof path, "%s/taken.%u", dir, LIMIT_SPACES - 1);
    ck_assert_int_eq(access(path, F_OK), 0);
    rig_open(&s, dir, DURABLE_JOURNAL);
    is_there(s.g);
    ck_assert_uint_eq(engine_taken_newest(s.g), 9);
    ck_assert_uint_eq(engine_taken_version(s.g, 3), 7);
    ck_assert_uint_eq(engine_taken_version(s.g, 1), 0);
    ck_assert_int_eq(engine_taken_get(s.g, LIMIT_SPACES - 1, &bytes, &count, &e), 0);
    ck_assert(count == 5 && memcmp(bytes, "other", 5) == 0);
    free(bytes);
    ck_assert_int_eq(engine_taken_get(s.g, 1, &bytes, &count, &e), 0);
    ck_assert_uint_eq(count, 0);
    free(bytes);
    rig_close(&s, false);
}
END_TEST

/* Data that could not be written does not count. */
START_TEST(what_is_not_on_disk_is_not_so)
{
    struct rig s;
    struct err e = {0};
    char path[128];
    rig_open(&s, dir, DURABLE_MEMORY);
    ck_assert_int_eq(engine_taken_set(s.g, 0, 5, learnt, BYTES, &e), 0);
    (void)snprintf(path, sizeof path, "%s/taken.new", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0); /* in the place of the new file */
    ck_assert_int_eq(engine_taken_set(s.g, 0, 6, "other", 5, &e), SHOAL_E_IO);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

/* If rows are only in memory, so is this record. */
START_TEST(without_a_folder_they_are_in_memory)
{
    struct rig s;
    struct err e = {0};
    void *bytes;
    uint32_t count;
    rig_open(&s, NULL, DURABLE_MEMORY);
    ck_assert_int_eq(engine_taken_get(s.g, 0, &bytes, &count, &e), 0);
    ck_assert_uint_eq(count, 0);
    free(bytes);
    ck_assert_int_eq(engine_taken_set(s.g, 0, 4, "older", 5, &e), 0);
    ck_assert_int_eq(engine_taken_set(s.g, 0, 5, learnt, BYTES, &e), 0);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kept_taken");
    TCase *t = tcase_create("kept_taken");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, they_are_there_after_a_kill, 0, 2);
    tcase_add_test(t, damage_is_found_and_the_advice_holds);
    tcase_add_test(t, each_space_has_its_own);
    tcase_add_test(t, what_is_not_on_disk_is_not_so);
    tcase_add_test(t, without_a_folder_they_are_in_memory);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
