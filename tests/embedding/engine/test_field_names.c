/* test_field_names.c: DIR/names: it is read whole, or found damaged; an older folder has none. */
#include "embedding/engine/engine_state.h"
#include "proto/base/hash.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char line[] = "names: {\"fields\": {}}";
#define BYTES ((uint32_t)sizeof line - 1)
#define FILE_HASH 0xf55cef340449de64ull /* the same in every release */
#define LINE_HASH 0x7117cfb032f15389ull

static void is_there(const struct engine *g)
{
    const struct engine_names *n = engine_names(g);
    ck_assert(n->version == 5 && n->bytes == BYTES);
    ck_assert_uint_eq(n->digest, LINE_HASH);
    ck_assert_mem_eq(n->line, line, BYTES);
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
    ck_assert_uint_eq(engine_names(s.g)->version, 0);
    ck_assert_int_eq(engine_names_set(s.g, 4, "older", 5, &e), 0);
    ck_assert_msg(engine_names_set(s.g, 5, line, BYTES, &e) == 0, "%s", e.text);
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
    ck_assert_int_eq(engine_names_set(s.g, 5, line, BYTES, &e), 0);
    rig_close(&s, false);
    (void)snprintf(path, sizeof path, "%s/names", dir);
    FILE *f = fopen(path, "rb");
    size_t bytes = fread(good, 1, sizeof good, f);
    fclose(f);
    ck_assert_uint_eq(bytes, 32 + BYTES);
    ck_assert_uint_eq(hash_bytes(good, bytes, 0), FILE_HASH);
    for (size_t at = 0; at < 2 * bytes; at++) {
        memcpy(bad, good, bytes);
        bad[at % bytes] ^= 0x10;
        f = fopen(path, "wb");
        (void)fwrite(at < bytes ? bad : good, 1, at < bytes ? bytes : at - bytes, f);
        fclose(f);
        int rc = rig_try_open(&s, dir, DURABLE_MEMORY, &e);
        ck_assert_msg(rc == SHOAL_E_CORRUPT, "byte %zu: %d", at, rc);
        ck_assert_ptr_nonnull(strstr(e.text, "/names is damaged"));
        ck_assert_ptr_nonnull(strstr(e.text, "move it away"));
    }
    ck_assert_int_eq(truncate(path, (300 << 10)), 0); /* longer than allowed */
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_MEMORY, &e), SHOAL_E_CORRUPT);
    ck_assert_int_eq(unlink(path), 0);
    rig_open(&s, dir, DURABLE_MEMORY);
    ck_assert_uint_eq(engine_names(s.g)->version, 0);
    ck_assert_int_eq(engine_names_set(s.g, 5, line, BYTES, &e), 0);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

/* Names that could not be written do not count. */
START_TEST(what_is_not_on_disk_is_not_so)
{
    struct rig s;
    struct err e = {0};
    char path[128];
    rig_open(&s, dir, DURABLE_MEMORY);
    ck_assert_int_eq(engine_names_set(s.g, 5, line, BYTES, &e), 0);
    (void)snprintf(path, sizeof path, "%s/names.new", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0); /* in the place of the new file */
    ck_assert_int_eq(engine_names_set(s.g, 6, "other", 5, &e), SHOAL_E_IO);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("field_names");
    TCase *t = tcase_create("field_names");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, they_are_there_after_a_kill, 0, 2);
    tcase_add_test(t, damage_is_found_and_the_advice_holds);
    tcase_add_test(t, what_is_not_on_disk_is_not_so);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
