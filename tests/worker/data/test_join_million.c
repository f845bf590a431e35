/* test_join_million.c: a million impressions in any order within the window are joined exactly,
 * with less than 256 MiB of resident memory. */
#include "proto/base/rng.h"
#include "proto/job/config.h"
#include "tests/lib/worker_files.h"
#include "worker/data/join.h"
#include "worker/data/join_text.h"
#include "worker/data/source.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define T 1760000000u

enum {
    MANY = 1000000,
    WINDOW = 1800, /* as keep and disorder */
    EVERY = 10,    /* impression has a click */
    STRIDE = 387420489 % MANY,
    LINE = 230,
};
/* A sanitizer takes more memory for itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const uint64_t bound = UINT64_MAX;
#else
static const uint64_t bound = 256ull << 20;
#endif

/* In mixed order: line i is of impression `at`. */
static uint32_t shuffled(uint32_t i, uint32_t of)
{
    return (uint32_t)((uint64_t)i * STRIDE % of);
}

static uint32_t shown(uint32_t id)
{
    return T + (uint32_t)((uint64_t)id * WINDOW / MANY);
}

/* Returns the click of an impression that has one: in its window, or up to a third of that after
 * it. */
static uint32_t clicked(uint32_t id)
{
    return shown(id) + id / EVERY * 7919u % (WINDOW + WINDOW / 3);
}

static int line_make(char *to, uint32_t time, uint32_t id, const char *end)
{
    struct rng r = rng_of(1, 0, id);
    int bytes = sprintf(to, "%" PRIu32 ",request-%012" PRIu32, time, id);
    for (uint32_t i = 0; bytes < LINE - 20; i++)
        bytes += sprintf(to + bytes, "%c%016" PRIx64, i < 2 ? ',' : '-', rng_next(&r));
    return bytes + sprintf(to + bytes, "%s\n", end);
}

static void shown_write(void)
{
    FILE *f = fopen(worker_path("shown.csv"), "w");
    char line[LINE + 50];
    ck_assert_ptr_nonnull(f);
    fputs("when,id,user,item\n", f);
    for (uint32_t i = 0; i < MANY; i++)
        fwrite(line, 1, (size_t)line_make(line, shown(shuffled(i, MANY)), shuffled(i, MANY), ""),
               f);
    ck_assert_int_eq(fclose(f), 0);
}

/* The clicks of each `WINDOW` seconds, one after the other, in any order within them. */
static uint32_t clicks_list(uint32_t *id)
{
    uint32_t count = 0;
    for (uint32_t span = 0; span < 4; span++)
        for (uint32_t i = 0; i < MANY / EVERY; i++) {
            uint32_t of = EVERY * shuffled(i, MANY / EVERY);
            if ((clicked(of) - T) / WINDOW == span)
                id[count++] = of;
        }
    return count;
}

static void clicks_write(void)
{
    uint32_t *id = calloc(MANY / EVERY, sizeof *id), count = clicks_list(id);
    FILE *f = fopen(worker_path("clicks.csv"), "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(count, MANY / EVERY);
    fputs("id,when\n", f);
    for (uint32_t i = 0; i < count; i++)
        fprintf(f, "request-%012" PRIu32 ",%" PRIu32 "\n", id[i], clicked(id[i]));
    ck_assert_int_eq(fclose(f), 0);
    free(id);
}

/* ---- the expected result
 * ---------------------------------------------------------------------- */

struct expected {
    uint32_t time, negative, place, id; /* the order; place: that of the click or row */
};

static int ordered(const void *left, const void *right)
{
    const struct expected *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->negative != b->negative)
        return a->negative < b->negative ? -1 : 1;
    if (a->negative && shown(a->id) != shown(b->id))
        return shown(a->id) < shown(b->id) ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static bool on_time(uint32_t id)
{
    return id % EVERY == 0 && clicked(id) <= shown(id) + WINDOW;
}

static struct expected *expected_make(void)
{
    struct expected *x = calloc(MANY, sizeof *x), *next = x;
    uint32_t *id = calloc(MANY / EVERY, sizeof *id), count = clicks_list(id);
    for (uint32_t i = 0; i < count; i++)
        if (on_time(id[i]))
            *next++ = (struct expected){clicked(id[i]), 0, i, id[i]};
    for (uint32_t i = 0; i < MANY; i++)
        if (!on_time(shuffled(i, MANY)))
            *next++ = (struct expected){shown(shuffled(i, MANY)) + WINDOW, 1, i, shuffled(i, MANY)};
    ck_assert_ptr_eq(next, x + MANY);
    qsort(x, MANY, sizeof *x, ordered);
    free(id);
    return x;
}

static void text_check(int fd)
{
    struct expected *x = expected_make();
    char line[LINE + 50], expected[LINE + 50];
    FILE *f = fdopen(fd, "r");
    ck_assert_ptr_nonnull(f);
    rewind(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    ck_assert_str_eq(line, "when,id,user,item,click\n");
    for (uint32_t i = 0; i < MANY; i++) {
        line_make(expected, x[i].time, x[i].id, x[i].negative ? ",0" : ",1");
        ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
        if (strcmp(line, expected) != 0)
            ck_abort_msg("row %" PRIu32 ": %s, not %s", i, line, expected);
    }
    ck_assert_ptr_null(fgets(line, sizeof line, f));
    fclose(f);
    free(x);
}

static void resident_check(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("%ld MiB resident at most\n", u.ru_maxrss >> 10);
    fflush(stdout);
    ck_assert_uint_lt((uint64_t)u.ru_maxrss << 10, bound);
}

START_TEST(join_of_a_million_in_any_order_is_exact_in_little_memory)
{
    char text[2048];
    struct err e = {0};
    struct string_list set = {0};
    struct join_counts n;
    struct cache cache;
    struct source s;
    struct job job;
    worker_folder_make();
    shown_write();
    clicks_write();
    int bytes = snprintf(text, sizeof text,
                         "data: {format: csv, train: '%s', label: click, time: when, cache: %s,\n"
                         "  join: {clicks: '%s', id: id, window: 30min, disorder: 30min}}\n",
                         worker_path("shown.csv"), worker_path("cache"), worker_path("clicks.csv"));
    ck_assert_msg(job_parse(text, (size_t)bytes, "job.yaml", &set, &job, &e) == 0, "%s", e.text);
    ck_assert_int_eq(cache_init(&cache, job.data.cache, &e), 0);
    ck_assert_msg(source_open(&job.data.train, "data.train", &cache, &s, &e) == 0, "%s", e.text);
    ck_assert_msg(join_text(&job, false, &cache, &s, &n, &e) == 0, "%s", e.text);
    resident_check();
    ck_assert_uint_eq(n.held, MANY);
    ck_assert_uint_eq(n.positives + n.late, MANY / EVERY);
    ck_assert_uint_eq(n.positives + n.negatives, MANY);
    ck_assert_uint_gt(n.late, 0);
    text_check(s.file[0].fd);
    s.file[0].fd = -1;
    source_close(&s);
    job_free(&job);
    worker_folder_remove();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("join_million");
    TCase *t = tcase_create("join_million");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, join_of_a_million_in_any_order_is_exact_in_little_memory);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
