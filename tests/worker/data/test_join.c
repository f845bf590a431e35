/* test_join.c: impressions and clicks: the pairs at each bound; rows in any order; the limit of
 * memory; ids with one hash; resuming from a checkpoint; files read in parallel; refused input. */
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_files.h"
#include "worker/data/dataset.h"
#include "worker/data/join_saved.h"
#include "worker/data/join_text.h"
#include "worker/data/source.h"

#include <check.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define T 1760000000u

static struct err e;
static struct job job;

static void setup(void)
{
    memset(&e, 0, sizeof e);
    worker_folder_make();
}

static void teardown(void)
{
    job_free(&job);
    worker_folder_remove();
}

/* ---- the state alone: an id is its row's `sum`, so that hashes may be equal ----------------- */

static struct join j;
static struct join_counts n;
static char told[65536];

static int id_same(void *context, const struct join_row *a, const struct join_row *b, bool *same,
                   struct err *err)
{
    (void)context, (void)err;
    ck_assert_uint_eq(a->hash, b->hash);
    *same = a->sum == b->sum;
    return 0;
}

/* "+3@10 ": impression 3 is written as a positive, with second 10. */
static int row_told(void *context, const struct join_row *row, bool positive, uint64_t time,
                    struct err *err)
{
    size_t at = strlen(told);
    (void)context, (void)err;
    ck_assert_uint_lt(at, sizeof told - 40);
    (void)sprintf(told + at, "%c%u@%u ", positive ? '+' : '-', (unsigned)row->sum,
                  (unsigned)(time - T));
    return 0;
}

static const struct join_calls calls = {.same = id_same, .emit = row_told};

static void join_with(uint32_t most, bool learn)
{
    struct join_rules rules = {.window = 10, .keep = 5, .learn = learn, .most = most};
    memset(&n, 0, sizeof n);
    told[0] = 0;
    ck_assert_int_eq(join_init(&j, &rules, &calls, &n, &e), 0);
}

static void join_over(void)
{
    ck_assert_msg(join_end(&j, &e) == 0, "%s", e.text);
    join_free(&j);
}

static uint64_t hash_mask = UINT64_MAX;

static int row_put(enum join_what what, uint32_t second, uint64_t id)
{
    struct join_row row = {.hash = rng_mix(id) & hash_mask,
                           .at = n.impressions++,
                           .sum = id,
                           .time = T + second,
                           .what = what};
    return join_add(&j, &row, &e);
}

/* In order of time. */
static void put(enum join_what what, uint32_t second, uint64_t id)
{
    ck_assert_msg(join_until(&j, T + second, &e) == 0, "%s", e.text);
    ck_assert_msg(row_put(what, second, id) == 0, "%s", e.text);
}

START_TEST(join_a_click_counts_from_its_impression_to_the_windows_end)
{
    join_with(100, false);
    put(JOIN_CLICK, 0, 1); /* before its impression: no pair */
    put(JOIN_OPEN, 1, 1);
    put(JOIN_OPEN, 1, 2);
    put(JOIN_OPEN, 1, 3);
    put(JOIN_OPEN, 1, 4);
    put(JOIN_OPEN, 1, 5);
    put(JOIN_CLICK, 1, 2);  /* in its second */
    put(JOIN_CLICK, 11, 3); /* as the window closes */
    put(JOIN_CLICK, 11, 2); /* once more */
    put(JOIN_CLICK, 12, 4); /* a second later */
    put(JOIN_CLICK, 16, 5); /* the last second that it is known */
    put(JOIN_CLICK, 17, 1); /* no longer known */
    put(JOIN_CLICK, 17, 9);
    join_over();
    ck_assert_str_eq(told, "+2@1 +3@11 -1@11 -4@11 -5@11 ");
    ck_assert_uint_eq(n.positives, 2);
    ck_assert_uint_eq(n.negatives, 3);
    ck_assert_uint_eq(n.late, 2);
    ck_assert_uint_eq(n.doubled, 1);
    ck_assert_uint_eq(n.unmatched, 3);
    ck_assert_uint_eq(n.cut_short, 0);
}
END_TEST

START_TEST(join_late_clicks_are_learnt_once)
{
    join_with(100, true);
    put(JOIN_OPEN, 0, 1);
    put(JOIN_CLICK, 11, 1);
    put(JOIN_CLICK, 12, 1);
    put(JOIN_OPEN, 14, 2);
    join_over();
    ck_assert_str_eq(told, "-1@10 +1@11 -2@24 ");
    ck_assert_uint_eq(n.late, 1);
    ck_assert_uint_eq(n.doubled, 1);
    ck_assert_uint_eq(n.cut_short, 1);
}
END_TEST

START_TEST(join_an_id_that_is_known_is_repeated_and_later_new)
{
    join_with(100, false);
    put(JOIN_OPEN, 0, 1);
    put(JOIN_OPEN, 0, 1);
    put(JOIN_OPEN, 15, 1); /* the last second that it is known */
    put(JOIN_OPEN, 16, 1);
    put(JOIN_CLICK, 20, 1);
    join_over();
    ck_assert_str_eq(told, "-1@10 +1@20 ");
    ck_assert_uint_eq(n.repeated, 2);
}
END_TEST

/* Puts rows of a synthetic log, drawn from the same numbers each time. _i: how many fit in
 * memory. */
static void log_put(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct rng r = rng_of(5, 0, i);
        uint64_t id = rng_next(&r) % 60;
        put(rng_next(&r) % 3 == 0 ? JOIN_CLICK : JOIN_OPEN, i / 4, id);
    }
}

static char *log_joined(uint32_t most)
{
    join_with(most, true);
    log_put(0, 3000);
    join_over();
    return strdup(told);
}

/* With plenty of memory, and with just enough; _i: bits of the hashes: with 0 all ids have the
 * same. */
START_TEST(join_ids_of_one_hash_are_told_apart)
{
    hash_mask = UINT64_MAX;
    char *whole = log_joined(4096);
    struct join_counts counts = n;
    ck_assert_uint_gt(n.held, 20);
    hash_mask = _i == 0 ? UINT64_MAX : _i == 1 ? 7 : 0;
    const uint32_t most[] = {4096, (uint32_t)n.held};
    for (uint32_t i = 0; i < 2; i++) {
        char *again = log_joined(most[i]);
        ck_assert_str_eq(again, whole);
        ck_assert_mem_eq(&n, &counts, sizeof n);
        free(again);
    }
    hash_mask = UINT64_MAX;
    free(whole);
}
END_TEST

START_TEST(join_beyond_its_memory_is_refused_in_words)
{
    join_with(3, false);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(row_put(JOIN_CLICK, 9 - i, i), 0);
    ck_assert_int_eq(row_put(JOIN_OPEN, 1, 4), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "3 rows wait"));
    ck_assert_ptr_nonnull(strstr(e.text, "lower data.join.disorder, or raise data.join.memory"));
    join_free(&j);

    join_with(3, false);
    for (uint32_t i = 0; i < 3; i++)
        put(JOIN_OPEN, 5 * i, i);
    put(JOIN_OPEN, 16, 3); /* the first is over */
    put(JOIN_OPEN, 17, 3); /* known, and no other */
    put(JOIN_OPEN, 20, 4);
    ck_assert_int_eq(join_until(&j, T + 21, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "3 impressions"));
    ck_assert_ptr_nonnull(strstr(e.text, "data.join.keep or data.join.window, or raise"));
    join_free(&j);
}
END_TEST

/* ---- rows in order --------------------------------------------------------------------------- */

static int ordered(const void *left, const void *right)
{
    const struct join_row *a = left, *b = right;
    int64_t time = (int64_t)a->time - b->time;
    int kind = (a->what == JOIN_CLICK) - (b->what == JOIN_CLICK);
    return time != 0 ? (time < 0 ? -1 : 1) : kind != 0 ? kind : a->at < b->at ? -1 : 1;
}

/* Sorts rows that come in this order; before each `every` of them, time has advanced to `from`. */
static void rows_told(const struct join_row *row, uint32_t rows, uint32_t every, uint32_t most,
                      uint64_t (*from)(uint32_t i))
{
    join_with(most, true);
    for (uint32_t i = 0; i < rows; i++) {
        if (i % every == 0)
            ck_assert_int_eq(join_until(&j, from(i), &e), 0);
        ck_assert_msg(join_add(&j, &row[i], &e) == 0, "%s", e.text);
    }
    ck_assert_int_eq(join_end(&j, &e), 0);
    ck_assert_uint_eq(j.waiting, 0);
    ck_assert_uint_eq(j.first, j.next);
    join_free(&j);
}

static uint64_t of_a_tenth(uint32_t i)
{
    return T + i / 10;
}

static uint64_t of_none(uint32_t i)
{
    (void)i;
    return 0;
}

/* Impressions, and clicks on about those; _i: after how many rows some are taken. */
START_TEST(join_sort_gives_all_rows_in_order_of_time)
{
    enum { ROWS = 5000 };
    struct join_row *row = calloc(ROWS, sizeof *row);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct rng r = rng_of(7, 0, i);
        bool click = rng_next(&r) % 2 == 0;
        uint64_t id = click ? (i + rng_next(&r) % 40) / 2 : i;
        row[i] = (struct join_row){.hash = rng_mix(id),
                                   .at = i,
                                   .sum = id,
                                   .time = T + i / 10 + (uint32_t)(rng_next(&r) % 50),
                                   .what = click ? JOIN_CLICK : JOIN_OPEN};
    }
    rows_told(row, ROWS, (uint32_t)_i, 1000, of_a_tenth);
    char *disordered = strdup(told);
    struct join_counts counts = n;
    ck_assert(n.positives > 0 && n.negatives > 0 && n.late > 0);
    qsort(row, ROWS, sizeof *row, ordered);
    rows_told(row, ROWS, ROWS, ROWS, of_none);
    ck_assert_str_eq(told, disordered);
    ck_assert_mem_eq(&n, &counts, sizeof n);
    free(disordered);
    free(row);
}
END_TEST

/* All rows wait to the end, and none is left. _i: how many. */
START_TEST(join_sort_gives_all_that_wait)
{
    static const uint32_t counts[] = {1, 2, 3, 1024, 3000};
    join_with(3000, false);
    for (uint32_t i = 0; i < counts[_i]; i++)
        ck_assert_int_eq(row_put(JOIN_OPEN, 1 + i * 7919u % 5003, i), 0);
    ck_assert_uint_eq(j.waiting, counts[_i]);
    ck_assert_int_eq(join_until(&j, T + 1, &e), 0);
    ck_assert_uint_eq(j.waiting, counts[_i]);
    join_over();
    ck_assert_uint_eq(n.negatives, counts[_i]);
}
END_TEST

/* ---- files ----------------------------------------------------------------------------------- */

static void job_make(const char *more)
{
    char text[2048];
    struct string_list set = {0};
    int bytes = snprintf(text, sizeof text,
                         "data: {format: csv, train: '%s', label: click, time: when, cache: %s,\n"
                         "  max_bad: 0.5%s, join: {clicks: '%s', id: id, window: 10s, keep: 5s,\n"
                         "  disorder: 3s}}\n",
                         worker_path("show*"), worker_path("cache"), more, worker_path("clicks*"));
    ck_assert_msg(job_parse(text, (size_t)bytes, "job.yaml", &set, &job, &e) == 0, "%s", e.text);
}

/* Returns the joined text of the job, or its error; the caller frees it. */
static char *text_of(int *rc)
{
    struct cache cache;
    struct source s;
    char *text = calloc(1, 65536);
    ck_assert_int_eq(cache_init(&cache, job.data.cache, &e), 0);
    ck_assert_msg(source_open(&job.data.train, "data.train", &cache, &s, &e) == 0, "%s", e.text);
    *rc = join_text(&job, job.data.join.learn, &cache, &s, &n, &e);
    if (*rc == 0) {
        ck_assert_uint_eq(s.count, 1);
        ck_assert_int_eq(pread(s.file[0].fd, text, 65535, 0), (ssize_t)s.bytes);
    } else {
        strcpy(text, e.text);
    }
    source_close(&s);
    return text;
}

static void expect(const char *expected)
{
    int rc;
    char *text = text_of(&rc);
    size_t same = 0;
    while (text[same] != 0 && text[same] == expected[same])
        same++;
    ck_assert_msg(text[same] == expected[same], "..%.200s, not ..%.200s",
                  text + (same > 60 ? same - 60 : 0), expected + (same > 60 ? same - 60 : 0));
    free(text);
}

START_TEST(join_files_are_read_side_by_side_and_rows_too_late_left_out)
{
    worker_text("show1", "id,when,x\na,1760000000,1\nb,1760000004,\"q\"\"1,2\"\n"
                         "c,1760000001,3\nd,1760000000,4\n,1760000004,5\ne,never,6\nf\n");
    worker_text("show2", "id,when,x\r\ng,1760000001,7\r\nh,1760000020,8\r\n");
    worker_text("show3", "");
    worker_text("clicks1", "when,id\n1760000001,c\n1760000030,h\n");
    job_make("");
    /* d is 4 s behind b, c is 3 s: with the maximum disorder */
    expect("id,when,x,click\nc,1760000001,3,1\na,1760000010,1,0\ng,1760000011,7,0\n"
           "b,1760000014,\"q\"\"1,2\",0\nh,1760000030,8,1\n");
    ck_assert_uint_eq(n.impressions, 9);
    ck_assert_uint_eq(n.impressions_out_of_order, 1);
    ck_assert_uint_eq(n.impressions_without_id, 1);
    ck_assert_uint_eq(n.impressions_without_time, 1);
    ck_assert_uint_eq(n.impressions_malformed, 1);
    ck_assert_uint_eq(n.clicks, 2);
    ck_assert_int_eq(worker_count_files("cache", ".joined"), 1);
    ck_assert_int_eq(worker_count_files("cache", ".join"), 2); /* the file and its lock */
    memset(&n, 0, sizeof n);
    expect("id,when,x,click\nc,1760000001,3,1\na,1760000010,1,0\ng,1760000011,7,0\n"
           "b,1760000014,\"q\"\"1,2\",0\nh,1760000030,8,1\n");
    ck_assert_uint_eq(n.impressions, 9); /* found, with its counts */
    worker_text("clicks1", "when,id\n1760000001,c\n1760000030,h\n1760000030,g\n");
    job.data.join.window = 100; /* other settings give another text */
    expect("id,when,x,click\nc,1760000001,3,1\nh,1760000030,8,1\ng,1760000030,7,1\n"
           "a,1760000100,1,0\nb,1760000104,\"q\"\"1,2\",0\n");
    ck_assert_int_eq(worker_count_files("cache", ".joined"), 2);
    worker_text("clicks1", "when,id\n1760000030,h\n"); /* the same files, changed, replace it */
    expect("id,when,x,click\nh,1760000030,8,1\na,1760000100,1,0\nc,1760000101,3,0\n"
           "g,1760000101,7,0\nb,1760000104,\"q\"\"1,2\",0\n");
    ck_assert_int_eq(worker_count_files("cache", ".joined"), 2);
}
END_TEST

static uint64_t joined_inode(void)
{
    glob_t g;
    struct stat st;
    ck_assert_int_eq(glob(worker_path("cache/*.joined"), 0, NULL, &g), 0);
    ck_assert_uint_eq(g.gl_pathc, 1);
    ck_assert_int_eq(stat(g.gl_pathv[0], &st), 0);
    globfree(&g);
    return st.st_ino;
}

/* Release 0.2.0 stored one more count, at the end. */
START_TEST(join_of_the_release_before_is_found)
{
    glob_t g;
    worker_text("show1", "id,when\na,1760000000\n");
    worker_text("clicks1", "id,when\na,1760000009\n");
    job_make("");
    expect("id,when,click\na,1760000009,1\n");
    uint64_t before = joined_inode();
    ck_assert_int_eq(glob(worker_path("cache/*.counts"), 0, NULL, &g), 0);
    ck_assert_int_eq(truncate(g.gl_pathv[0], 19 * 8), 0);
    globfree(&g);
    expect("id,when,click\na,1760000009,1\n");
    ck_assert_uint_eq(joined_inode(), before);
    ck_assert_uint_eq(n.positives, 1);
}
END_TEST

/* More files of one time than are kept open: each row is in another. */
START_TEST(join_any_number_of_files_is_read_side_by_side)
{
    enum { FILES = JOIN_READERS + 20, ROWS = 5 };
    char name[16], text[256], expected[32768];
    size_t at = (size_t)sprintf(expected, "id,when,click\n");
    for (uint32_t file = 0; file < FILES; file++) {
        size_t bytes = (size_t)sprintf(text, "id,when\n");
        for (uint32_t i = 0; i < ROWS; i++)
            bytes += (size_t)sprintf(text + bytes, "%u-%u,%u\n", file, i, T + i * FILES + file);
        (void)sprintf(name, "show%03u", file);
        worker_write(name, text, bytes);
    }
    for (uint32_t i = 0; i < ROWS * FILES; i++)
        at += (size_t)sprintf(expected + at, "%u-%u,%u,0\n", i % FILES, i / FILES, T + 10 + i);
    worker_text("clicks1", "id,when\n");
    job_make("");
    expect(expected);
    ck_assert_uint_eq(n.cut_short, 10);
}
END_TEST

/* The text of a stream has no name, and leaves no file. */
START_TEST(join_of_a_stream_is_made_anew)
{
    worker_text("show1", "id,when\na,1760000000\n");
    worker_text("clicks1", "id,when\na,1760000009\n");
    job_make("");
    config_list_free(&job.data.join.clicks);
    char command[256];
    (void)snprintf(command, sizeof command, "cmd:cat %s", worker_path("clicks1"));
    ck_assert_int_eq(config_list_add(&job.data.join.clicks, command), 0);
    expect("id,when,click\na,1760000009,1\n");
    expect("id,when,click\na,1760000009,1\n");
    ck_assert_int_eq(worker_count_files("cache", ".join"), 0);
}
END_TEST

START_TEST(join_more_bad_rows_than_are_allowed_end_it)
{
    int rc;
    worker_text("show1", "id,when,x\na,1760000000,1\n,1760000001,2\n,1760000001,2\n");
    worker_text("clicks1", "when,id\n1760000001,c\n");
    job_make("");
    char *text = text_of(&rc);
    ck_assert_int_eq(rc, SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(text, "of 3 impressions 0 are malformed, 2 have no id"));
    free(text);
    job.data.max_bad = 0.7; /* the same text is found */
    free(text_of(&rc));
    ck_assert_int_eq(rc, 0);
    job.data.max_bad = 0.6;
    text = text_of(&rc);
    ck_assert_int_eq(rc, SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(text, "of 3 impressions 0 are malformed, 2 have no id"));
    free(text);
    ck_assert_int_eq(worker_count_files("cache", ".joined"), 1); /* for a job that allows them */
}
END_TEST

START_TEST(join_times_of_milliseconds_and_calendars_are_told_as_numbers)
{
    worker_text("show1", "id,when\na,1760000000999\nb,2025-10-09 08:53:21\n");
    worker_text("clicks1", "id,when\nb,1760000001500\n");
    job_make(", time_unit: ms");
    /* .. of which b's click is in the same second */
    expect("id,when,click\nb,1760000001000,1\na,1760000010000,0\n");
}
END_TEST

/* 10:53 in summer is 8:53 UTC; the click names its zone. */
START_TEST(join_times_without_a_zone_are_of_data_zone)
{
    worker_text("show1", "id,when\nb,2025-10-09 10:53:21\n");
    worker_text("clicks1", "id,when\nb,2025-10-09T08:53:21Z\n");
    job_make(", zone: Europe/Berlin");
    expect("id,when,click\nb,1760000001,1\n");
}
END_TEST

/* The label has the name of data.label; the id is no feature. Input that has its label is not
 * joined. */
START_TEST(join_rows_are_a_split_like_others)
{
    struct dataset *d;
    struct model_shape shape;
    struct batch b;
    worker_text("show1", "id,when,x\na,1760000000,1\nb,1760000004,2\n");
    worker_text("clicks1", "id,when\nb,1760000005\nz,1760000005\n");
    job_make("");
    ck_assert_msg(dataset_shape(&job, &shape, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shape.fields, 1);
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(dataset_rows(d), 2);
    ck_assert_ptr_nonnull(strstr(dataset_warning(d), "of 2 clicks 1 have no impression"));
    ck_assert_uint_eq(dataset_join(d)->positives, 1);
    batch_init(&b);
    ck_assert_int_eq(batch_read(d, 1, 0, 0, 2, &b, &e), 0);
    ck_assert(b.examples == 2 && b.label[0] == 1 && b.label[1] == 0);
    ck_assert_uint_eq(b.event_time, 1760000005); /* the first row's: when its label was known */
    dataset_close(d);
    ck_assert_int_eq(
        config_list_add(&job.data.valid, worker_text("valid", "click,x,when\n1,2,1760000009\n")),
        0);
    ck_assert_msg(dataset_open(&job, WIRE_VALID, &d, &e) == 0, "%s", e.text);
    ck_assert_ptr_null(dataset_join(d));
    ck_assert_int_eq(batch_read(d, 1, 0, 0, 1, &b, &e), 0);
    ck_assert(b.examples == 1 && b.label[0] == 1 && b.event_time == 1760000009);
    batch_free(&b);
    dataset_close(d);
}
END_TEST

/* ---- checkpoints ----------------------------------------------------------------------------- */

struct whole {
    struct join_input input;
    struct join_state state;
    struct source show, clicks;
};

static void whole_begin(struct whole *w, const struct cache *cache, uint32_t most)
{
    ck_assert_int_eq(source_open(&job.data.train, "t", cache, &w->show, &e), 0);
    ck_assert_int_eq(source_open(&job.data.join.clicks, "c", cache, &w->clicks, &e), 0);
    join_with(most, true);
    ck_assert_int_eq(join_input_open(&w->input, &job, &w->show, &w->clicks, &n, &e), 0);
    w->state = (struct join_state){&w->input, &j, 77, 0};
}

static void whole_end(struct whole *w)
{
    join_free(&j);
    join_input_close(&w->input);
    source_close(&w->show);
    source_close(&w->clicks);
}

static int by_hash(void *context, const struct join_row *a, const struct join_row *b, bool *same,
                   struct err *err)
{
    (void)context, (void)err;
    *same = a->hash == b->hash;
    return 0;
}

/* Reads up to `rows` more; false: all are read. */
static bool whole_go(struct whole *w, uint32_t rows)
{
    struct join_row row;
    int rc = 0;
    j.calls.same = by_hash;
    for (uint32_t i = 0; i < rows && rc == 0; i++) {
        rc = join_input_next(&w->input, &row, &e);
        if (rc == 0)
            ck_assert_msg(join_add(&j, &row, &e) == 0, "%s", e.text);
        ck_assert_msg(join_until(&j, join_input_mark(&w->input), &e) == 0, "%s", e.text);
    }
    if (rc == SHOAL_E_END)
        ck_assert_int_eq(join_end(&j, &e), 0);
    return rc == 0;
}

static void log_files(void)
{
    char text[16384];
    for (uint32_t file = 0; file < 4; file++) {
        size_t at = (size_t)sprintf(text, "id,when\n");
        for (uint32_t i = 0; i < 150; i++) {
            struct rng r = rng_of(file, 1, i);
            at += (size_t)sprintf(text + at, "i%u,%u\n", (unsigned)(rng_next(&r) % 300),
                                  (unsigned)(T + i / 3 + rng_next(&r) % 4));
        }
        char name[16];
        (void)sprintf(name, "%s%u", file < 2 ? "show" : "clicks", file);
        worker_write(name, text, at);
    }
}

/* Interrupted after every few rows, with only the checkpoint left; the next part has another limit
 * of memory. _i: how many. */
START_TEST(join_goes_on_from_any_checkpoint)
{
    struct whole w;
    struct cache cache;
    char whole[sizeof told], text[sizeof told] = "";
    uint32_t most = 150;
    log_files();
    job_make("");
    ck_assert_int_eq(cache_init(&cache, job.data.cache, &e), 0);
    whole_begin(&w, &cache, 150);
    join_input_begin(&w.input);
    whole_go(&w, UINT32_MAX);
    strcpy(whole, told);
    struct join_counts counts = n;
    ck_assert_uint_gt(n.held, 20);
    whole_end(&w);
    for (bool more = true, begun = false; more; begun = true) {
        most = most == 150 ? 211 : 150;
        whole_begin(&w, &cache, most);
        int rc = join_saved_read(&w.state, worker_path("state"), &e);
        ck_assert_int_eq(rc, begun ? 0 : SHOAL_E_NOT_FOUND);
        if (!begun)
            join_input_begin(&w.input);
        told[0] = 0;
        more = whole_go(&w, (uint32_t)_i);
        if (more)
            ck_assert_msg(join_saved_write(&w.state, worker_path("state"), &e) == 0, "%s", e.text);
        ck_assert_int_eq(worker_count_files("", "state"), begun || more);
        strcat(text, told);
        whole_end(&w);
    }
    ck_assert_str_eq(text, whole);
    ck_assert_mem_eq(&n, &counts, sizeof n);
}
END_TEST

/* Makes FOLDER/state, after 200 rows. */
static void checkpoint_make(struct whole *w, struct cache *cache)
{
    log_files();
    job_make("");
    ck_assert_int_eq(cache_init(cache, job.data.cache, &e), 0);
    whole_begin(w, cache, 150);
    join_input_begin(&w->input);
    whole_go(w, 200);
    ck_assert_int_eq(join_saved_write(&w->state, worker_path("state"), &e), 0);
    whole_end(w);
}

/* Its file is the same in every release: a join continues after an update. */
START_TEST(join_checkpoint_is_that_of_every_release)
{
    struct whole w;
    struct cache cache;
    size_t bytes;
    checkpoint_make(&w, &cache);
    uint8_t *f = worker_only_file("", "state", &bytes);
    ck_assert_uint_eq(bytes, 3696);
    ck_assert_uint_eq(hash_bytes(f, bytes, 0), 13699985942835805962u);
    free(f);
}
END_TEST

START_TEST(join_a_damaged_or_foreign_checkpoint_is_none)
{
    struct whole w;
    struct cache cache;
    checkpoint_make(&w, &cache);
    whole_begin(&w, &cache, 10); /* too little for the known rows */
    ck_assert_int_eq(join_saved_read(&w.state, worker_path("state"), &e), SHOAL_E_NOT_FOUND);
    whole_end(&w);
    whole_begin(&w, &cache, 150);
    w.state.identity++;
    ck_assert_int_eq(join_saved_read(&w.state, worker_path("state"), &e), SHOAL_E_NOT_FOUND);
    w.state.identity--;
    FILE *f = fopen(worker_path("state"), "r+");
    ck_assert_ptr_nonnull(f);
    fseek(f, -1, SEEK_END);
    int last = fgetc(f);
    fseek(f, -1, SEEK_END);
    fputc(last ^ 1, f);
    fclose(f);
    ck_assert_int_eq(join_saved_read(&w.state, worker_path("state"), &e), SHOAL_E_CORRUPT);
    whole_end(&w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("join");
    TCase *t = tcase_create("join");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, join_a_click_counts_from_its_impression_to_the_windows_end);
    tcase_add_test(t, join_late_clicks_are_learnt_once);
    tcase_add_test(t, join_an_id_that_is_known_is_repeated_and_later_new);
    tcase_add_loop_test(t, join_ids_of_one_hash_are_told_apart, 0, 3);
    tcase_add_test(t, join_beyond_its_memory_is_refused_in_words);
    tcase_add_loop_test(t, join_sort_gives_all_rows_in_order_of_time, 1, 4);
    tcase_add_loop_test(t, join_sort_gives_all_that_wait, 0, 5);
    tcase_add_test(t, join_files_are_read_side_by_side_and_rows_too_late_left_out);
    tcase_add_test(t, join_of_the_release_before_is_found);
    tcase_add_test(t, join_any_number_of_files_is_read_side_by_side);
    tcase_add_test(t, join_of_a_stream_is_made_anew);
    tcase_add_test(t, join_more_bad_rows_than_are_allowed_end_it);
    tcase_add_test(t, join_times_of_milliseconds_and_calendars_are_told_as_numbers);
    tcase_add_test(t, join_times_without_a_zone_are_of_data_zone);
    tcase_add_test(t, join_rows_are_a_split_like_others);
    tcase_add_loop_test(t, join_goes_on_from_any_checkpoint, 40, 42);
    tcase_add_test(t, join_checkpoint_is_that_of_every_release);
    tcase_add_test(t, join_a_damaged_or_foreign_checkpoint_is_none);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
