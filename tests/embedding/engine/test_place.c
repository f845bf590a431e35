/* test_place.c: DIR/place: it is read whole, or found damaged. */
#include "embedding/engine/engine_state.h"
#include "proto/base/hash.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_HASH 0x6fde6a53a7538265ull /* the same in every release */

static const uint16_t owners[16] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 2};
static const struct engine_place there = {
    .cluster = {7, 9}, .number = 1, .shards = 3, .map_epoch = 4, .tablets = 16, .shard_of = owners};

static void is_there(const struct engine *g)
{
    const struct engine_place *p = engine_place(g);
    ck_assert(p->cluster[0] == 7 && p->cluster[1] == 9 && p->number == 1 && p->shards == 3);
    ck_assert(p->map_epoch == 4 && p->tablets == 16);
    ck_assert_mem_eq(p->shard_of, owners, sizeof owners);
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

START_TEST(a_new_folder_belongs_nowhere)
{
    struct rig s;
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(engine_place(s.g)->cluster[0], 0);
    ck_assert_uint_eq(engine_place(s.g)->map_epoch, 0);
    rig_close(&s, false);
}
END_TEST

START_TEST(it_is_there_after_a_kill)
{
    struct rig s;
    struct err e = {0};
    enum durability durability = _i == 0 ? DURABLE_JOURNAL : DURABLE_MEMORY;
    rig_open(&s, dir, durability);
    ck_assert_msg(engine_place_set(s.g, &there, &e) == 0, "%s", e.text);
    is_there(s.g);
    rig_close(&s, false);
    rig_open(&s, dir, durability);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

/* Each byte and each length of the file is changed. */
START_TEST(damage_is_found)
{
    struct rig s;
    struct err e = {0};
    char path[128], good[256], bad[256];
    rig_open(&s, dir, DURABLE_MEMORY);
    ck_assert_int_eq(engine_place_set(s.g, &there, &e), 0);
    rig_close(&s, false);
    (void)snprintf(path, sizeof path, "%s/place", dir);
    FILE *f = fopen(path, "rb");
    size_t bytes = fread(good, 1, sizeof good, f);
    fclose(f);
    ck_assert_uint_eq(bytes, 56 + sizeof owners);
    ck_assert_uint_eq(hash_bytes(good, bytes, 0), FILE_HASH);
    for (size_t at = 0; at < 2 * bytes; at++) {
        memcpy(bad, good, bytes);
        bad[at % bytes] ^= 0x10;
        f = fopen(path, "wb");
        (void)fwrite(bad, 1, at < bytes ? bytes : at - bytes, f);
        fclose(f);
        int rc = rig_try_open(&s, dir, DURABLE_MEMORY, &e);
        ck_assert_msg(rc == SHOAL_E_CORRUPT, "byte %zu: %d", at, rc);
        ck_assert_ptr_nonnull(strstr(e.text, "/place is damaged"));
    }
    f = fopen(path, "wb");
    (void)fwrite(good, 1, bytes, f);
    fclose(f);
    rig_open(&s, dir, DURABLE_MEMORY); /* the original bytes are accepted */
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

/* A place that could not be written does not count. */
START_TEST(what_is_not_on_disk_is_not_so)
{
    struct rig s;
    struct err e = {0};
    char path[128];
    struct engine_place next = there;
    rig_open(&s, dir, DURABLE_MEMORY);
    ck_assert_int_eq(engine_place_set(s.g, &there, &e), 0);
    (void)snprintf(path, sizeof path, "%s/place.new", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0); /* in the place of the new file */
    next.map_epoch = 5;
    ck_assert_int_eq(engine_place_set(s.g, &next, &e), SHOAL_E_IO);
    is_there(s.g);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("place");
    TCase *t = tcase_create("place");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_new_folder_belongs_nowhere);
    tcase_add_loop_test(t, it_is_there_after_a_kill, 0, 2);
    tcase_add_test(t, damage_is_found);
    tcase_add_test(t, what_is_not_on_disk_is_not_so);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
