/* test_broken.c: breaks the invariants of the cache, of an epoch's order and of unique keys on
 * purpose: each breach must be caught by its own assert. */
#include "proto/wire/wire.h"
#include "tests/lib/broken.h"
#include "tests/lib/worker_files.h"
#include "worker/data/cache.h"
#include "worker/data/dataset.h"
#include "worker/data/index.h"
#include "worker/data/unique.h"

#include <check.h>
#include <string.h>

static struct err e;
static bool too_far; /* the order of an epoch goes past its chunks */

uint64_t __real_index_order(uint64_t seed, uint32_t epoch, uint64_t chunks, uint64_t position);
uint64_t __wrap_index_order(uint64_t seed, uint32_t epoch, uint64_t chunks, uint64_t position);
uint64_t __wrap_index_order(uint64_t seed, uint32_t epoch, uint64_t chunks, uint64_t position)
{
    return too_far ? chunks : __real_index_order(seed, epoch, chunks, position);
}

static void a_file_is_kept_by_the_name_of_a_temporary(void)
{
    struct cache c;
    struct cache_file f;
    ck_assert_int_eq(cache_init(&c, worker_path("cache"), &e), 0);
    ck_assert_int_eq(cache_create(&c, 1, 2, "text", &f, &e), 0);
    strcpy(f.name, "0-1.text.tmp-abcdef");
    cache_keep(&f, NULL, &e);
}

static void an_epoch_visits_a_chunk_that_is_not_there(void)
{
    struct job job;
    struct dataset *d;
    struct batch b;
    worker_job(&job, DATA_CSV, worker_text("rows.csv", "label,row\n0,a\n1,b\n0,c\n"));
    job.data.shuffle = job.data.header = true;
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    batch_init(&b);
    too_far = true;
    batch_read(d, 1, 1, 0, 2, &b, &e);
}

static void a_table_of_keys_is_no_power_of_two(void)
{
    struct unique u;
    uint64_t keys[1] = {7};
    uint32_t index[1];
    unique_init(&u);
    ck_assert_int_eq(unique_make(&u, keys, 1, index), 0);
    u.slots -= 24;
    unique_make(&u, keys, 1, index);
}

static const struct broken list[] = {
    {"worker/data/cache.c", 1, a_file_is_kept_by_the_name_of_a_temporary,
     "strstr(f->name, \".tmp-\") =="},
    {"worker/data/dataset_read.c", 1, an_epoch_visits_a_chunk_that_is_not_there,
     "chunk < d->order.whole || "},
    {"worker/data/unique.c", 1, a_table_of_keys_is_no_power_of_two, "(u->slots & mask) == 0"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    worker_folder_make();
    broken_check(list, sizeof list / sizeof list[0]);
    worker_folder_remove();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broken");
    TCase *t = tcase_create("broken");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, each_broken_invariant_ends_the_process_by_its_own_assert);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
