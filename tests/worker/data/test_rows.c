/* test_rows.c: parsed rows are kept once, within a limit, and give the batches of their log. */
#include "proto/base/hash.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_log.h"
#include "worker/data/cache.h"
#include "worker/data/events_inner.h"

#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct job job, kept;
static struct dataset *d, *of_rows;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    d = of_rows = NULL;
    memset(&job, 0, sizeof job);
    memset(&kept, 0, sizeof kept);
}

static void teardown(void)
{
    dataset_close(d);
    dataset_close(of_rows);
    job_free(&job);
    job_free(&kept);
    worker_folder_remove();
}

/* Makes the job, and the same job that keeps parsed rows. */
static void jobs(uint32_t rows, bool multi)
{
    worker_log_job(&job, rows, multi);
    worker_log_job(&kept, rows, multi);
    job.data.negatives = kept.data.negatives = 0.5;
    job.data.shuffle_within = kept.data.shuffle_within = multi ? 3600 : 0;
    kept.data.cache_max = 1u << 30;
}

static void open_both(void)
{
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    ck_assert_msg(dataset_open(&kept, WIRE_TRAIN, &of_rows, &e) == 0, "%s", e.text);
}

static int kept_files(void)
{
    return worker_count_files("cache", ".rows") - worker_count_files("cache", ".tmp-");
}

START_TEST(rows_give_the_batches_of_their_log)
{
    jobs(20000, false);
    open_both();
    ck_assert_int_eq(kept_files(), 1);
    worker_log_same(d, of_rows, 999);
}
END_TEST

START_TEST(rows_give_the_batches_of_their_log_with_several_values)
{
    jobs(20000, true);
    open_both();
    ck_assert_int_eq(kept_files(), 1);
    worker_log_same(d, of_rows, 999);
}
END_TEST

START_TEST(rows_give_the_weights_of_their_log)
{
    worker_log_job_weighted(&job, 20000);
    worker_log_job_weighted(&kept, 20000);
    kept.data.cache_max = 1u << 30;
    open_both();
    ck_assert_int_eq(kept_files(), 1);
    worker_log_same(d, of_rows, 999);
}
END_TEST

/* _i odd: the sample takes values of the category; even: it takes rows. */
START_TEST(rows_of_a_sample_are_those_of_the_log)
{
    jobs(20000, _i >= 2);
    job.data.sample = kept.data.sample = 0.4;
    if (_i % 2 == 1) {
        strcpy(job.data.sample_by, "cat");
        strcpy(kept.data.sample_by, "cat");
    }
    open_both();
    ck_assert_int_eq(kept_files(), 1);
    worker_log_same(d, of_rows, 999);
}
END_TEST

START_TEST(rows_of_many_chunks_are_those_of_the_log)
{
    jobs(270000, false); /* chunks of two */
    open_both();
    worker_log_same(d, of_rows, 60001);
}
END_TEST

static void times(struct timespec *out)
{
    struct stat st;
    glob_t found;
    ck_assert_int_eq(glob(worker_path("cache/*.rows"), 0, NULL, &found), 0);
    ck_assert_int_eq(stat(found.gl_pathv[0], &st), 0);
    *out = st.st_mtim;
    globfree(&found);
}

START_TEST(rows_are_made_once_and_again_when_the_log_changed)
{
    struct timespec first, second;
    jobs(500, false);
    open_both();
    times(&first);
    dataset_close(of_rows);
    ck_assert_int_eq(dataset_open(&kept, WIRE_TRAIN, &of_rows, &e), 0);
    times(&second);
    ck_assert(first.tv_nsec == second.tv_nsec && first.tv_sec == second.tv_sec);
    /* other features: another file beside it */
    dataset_close(of_rows);
    kept.data.column[3 - 1].id = false;
    ck_assert_int_eq(dataset_open(&kept, WIRE_TRAIN, &of_rows, &e), 0);
    ck_assert_int_eq(kept_files(), 2);
    kept.data.column[3 - 1].id = true;
    /* another log in its place: the former rows are removed */
    dataset_close(of_rows);
    job_free(&kept);
    worker_log_job(&kept, 600, false);
    kept.data.cache_max = 1u << 30;
    ck_assert_int_eq(dataset_open(&kept, WIRE_TRAIN, &of_rows, &e), 0);
    ck_assert_uint_eq(dataset_rows(of_rows), 600);
    ck_assert_int_eq(kept_files(), 2);
}
END_TEST

/* As index_has_the_sums_of_every_release; each row has one, which includes its number. */
START_TEST(rows_have_the_sums_of_every_release)
{
    struct events_head head;
    struct events_entry entry;
    struct events_end end;
    struct events_block_head block;
    size_t bytes;
    jobs(500, false);
    open_both();
    uint8_t *f = worker_only_file("cache", ".rows", &bytes);
    memcpy(&head, f, sizeof head);
    memcpy(&end, f + bytes - sizeof end, sizeof end);
    memcpy(&entry, f + bytes - sizeof end - sizeof entry, sizeof entry);
    struct columns c;
    size_t lines = strlen((char *)f + sizeof head); /* NULs after them, up to 8 bytes */
    ck_assert_int_eq(columns_parse((char *)f + sizeof head, lines, "rows", &c, &e), 0);
    uint32_t stride = slice_layout_of(&c).stride;
    columns_free(&c);
    ck_assert_uint_eq(head.sum, hash_bytes(f + sizeof head, head.bytes, 0));
    ck_assert_uint_eq(end.index_sum, hash_bytes(&entry, sizeof entry, head.sum));
    ck_assert_uint_eq(end.sum, hash_bytes(&end, offsetof(struct events_end, sum), 0));
    ck_assert(end.rows == 500 && end.blocks == 1 && entry.at % 8 == 0);
    memcpy(&block, f + entry.at, sizeof block);
    const uint8_t *row = f + entry.at + sizeof block;
    ck_assert(block.zipped == BLOCK_PLAIN && block.packed == 0);
    ck_assert_uint_eq(block.sum, events_block_sum(&block, row, row + block.plain));
    for (uint64_t i = 0; i < end.rows; i++, row += stride) {
        uint32_t check;
        memcpy(&check, row, 4);
        ck_assert_uint_eq(check, (uint32_t)hash_bytes(row + 4, stride - 4, i));
    }
    free(f);
}
END_TEST

START_TEST(rows_over_the_bound_are_not_kept)
{
    jobs(5000, false);
    kept.data.cache_max = 100000;
    open_both();
    ck_assert_int_eq(kept_files(), 0);
    ck_assert_int_eq(
        worker_count_files("cache", ".rows.tmp-") - worker_count_files("cache", ".tmp-lock"), 0);
    worker_log_same(d, of_rows, 999);
}
END_TEST

START_TEST(rows_of_all_logs_together_keep_to_the_bound)
{
    jobs(5000, false);
    kept.data.cache_max = 500000; /* 5,000 of 80 bytes are 400,000 */
    open_both();
    ck_assert_int_eq(kept_files(), 1);
    ck_assert_int_eq(rename(worker_path("log.csv"), worker_path("other.csv")), 0);
    config_list_free(&kept.data.train);
    config_list_add(&kept.data.train, worker_path("other.csv"));
    dataset_close(of_rows);
    ck_assert_int_eq(dataset_open(&kept, WIRE_TRAIN, &of_rows, &e), 0);
    ck_assert_int_eq(kept_files(), 1);
}
END_TEST

static void *open_one(void *out)
{
    struct err why = {0};
    return dataset_open(&kept, WIRE_TRAIN, out, &why) == 0 ? out : NULL;
}

START_TEST(rows_are_made_by_one_of_many)
{
    struct dataset *set[4] = {NULL};
    pthread_t thread[4];
    jobs(30000, false);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, open_one, &set[i]), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    ck_assert_int_eq(kept_files(), 1);
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_nonnull(set[i]);
        dataset_close(set[i]);
    }
}
END_TEST

/* Flips each byte of the kept file's block, one after the other: a batch equals the log's, or is
 * refused by name; a damaged end is made again. */
static void damage_all(bool multi)
{
    glob_t found;
    struct batch b;
    uint8_t byte;
    int refused = 0;
    jobs(40, multi);
    open_both();
    batch_init(&b);
    ck_assert_int_eq(glob(worker_path("cache/*.rows"), 0, NULL, &found), 0);
    int fd = open(found.gl_pathv[0], O_RDWR);
    ck_assert_int_ge(fd, 0);
    struct events_head head;
    struct events_block_head block;
    ck_assert_int_eq(pread(fd, &head, sizeof head, 0), sizeof head);
    off_t first = sizeof head + head.bytes;
    ck_assert_int_eq(pread(fd, &block, sizeof block, first), sizeof block);
    first += sizeof block;
    for (off_t i = first; i < first + block.plain; i++) {
        ck_assert_int_eq(pread(fd, &byte, 1, i), 1);
        byte ^= 0x83;
        ck_assert_int_eq(pwrite(fd, &byte, 1, i), 1);
        e.text[0] = '\0';
        int rc = batch_read(of_rows, 7, 0, 0, 40, &b, &e);
        byte ^= 0x83;
        ck_assert_int_eq(pwrite(fd, &byte, 1, i), 1);
        if (rc == 0)
            continue; /* the text of a malformed row, or padding */
        ck_assert_int_eq(rc, SHOAL_E_CHECKSUM);
        ck_assert_ptr_nonnull(strstr(e.text, "log.csv: its parsed rows"));
        refused++;
    }
    /* all rows are covered; only texts of the 3 malformed ones are not */
    ck_assert_int_gt(refused, (int)block.plain - 3 * 256);
    close(fd);
    globfree(&found);
    batch_free(&b);
}

START_TEST(rows_damaged_are_refused)
{
    damage_all(_i == 1);
}
END_TEST

START_TEST(rows_with_another_end_are_made_again)
{
    glob_t found;
    jobs(40, true);
    open_both();
    ck_assert_int_eq(glob(worker_path("cache/*.rows"), 0, NULL, &found), 0);
    for (int i = 0; i < 60; i++) {
        dataset_close(of_rows);
        int fd = open(found.gl_pathv[0], O_RDWR);
        off_t bytes = lseek(fd, 0, SEEK_END);
        uint8_t byte;
        ck_assert_int_eq(pread(fd, &byte, 1, bytes - 1 - i % 56), 1);
        byte ^= 0x83;
        ck_assert_int_eq(pwrite(fd, &byte, 1, bytes - 1 - i % 56), 1);
        if (i >= 56) /* cut short */
            ck_assert_int_eq(ftruncate(fd, (i - 56) * 30), 0);
        close(fd);
        ck_assert_msg(dataset_open(&kept, WIRE_TRAIN, &of_rows, &e) == 0, "%s", e.text);
        worker_log_same(d, of_rows, 40);
    }
    globfree(&found);
}
END_TEST

/* The cache folder of 0.2.0 had rows in another form under the same name. */
START_TEST(rows_of_an_older_release_are_made_again)
{
    struct {
        char magic[8];
        uint64_t identity, rows, places, texts, stride, sum;
    } end = {"SHOALRW1", 0, 1, 80, 80, 80, 0};
    uint8_t former[80 + sizeof end] = {0};
    glob_t found;
    jobs(40, false);
    open_both();
    dataset_close(of_rows);
    end.sum = hash_bytes(&end, sizeof end - 8, 0);
    memcpy(former + 80, &end, sizeof end);
    ck_assert_int_eq(glob(worker_path("cache/*.rows"), 0, NULL, &found), 0);
    FILE *f = fopen(found.gl_pathv[0], "wb");
    ck_assert_uint_eq(fwrite(former, 1, sizeof former, f), sizeof former);
    ck_assert_int_eq(fclose(f), 0);
    globfree(&found);
    ck_assert_msg(dataset_open(&kept, WIRE_TRAIN, &of_rows, &e) == 0, "%s", e.text);
    worker_log_same(d, of_rows, 40);
    uint8_t *now = worker_only_file("cache", ".rows", &(size_t){0});
    ck_assert_mem_eq(now, EVENTS_MAGIC, 8);
    free(now);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rows");
    TCase *t = tcase_create("rows");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, rows_give_the_batches_of_their_log);
    tcase_add_test(t, rows_give_the_weights_of_their_log);
    tcase_add_test(t, rows_give_the_batches_of_their_log_with_several_values);
    tcase_add_loop_test(t, rows_of_a_sample_are_those_of_the_log, 0, 4);
    tcase_add_test(t, rows_of_many_chunks_are_those_of_the_log);
    tcase_add_test(t, rows_are_made_once_and_again_when_the_log_changed);
    tcase_add_test(t, rows_have_the_sums_of_every_release);
    tcase_add_test(t, rows_over_the_bound_are_not_kept);
    tcase_add_test(t, rows_of_all_logs_together_keep_to_the_bound);
    tcase_add_test(t, rows_are_made_by_one_of_many);
    tcase_add_loop_test(t, rows_damaged_are_refused, 0, 2);
    tcase_add_test(t, rows_with_another_end_are_made_again);
    tcase_add_test(t, rows_of_an_older_release_are_made_again);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
