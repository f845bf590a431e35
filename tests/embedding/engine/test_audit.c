/* test_audit.c: blame and scrub: search and erasure in journal, archive and store. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/journal/archive.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store.h"
#include "embedding/store/stored.h"
#include "proto/base/key.h"
#include "proto/job/packed.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARKER 1234.5678f /* a gradient that occurs nowhere else */

static struct rig s;
static struct rig_push p;
static char dir[LIMIT_PATH];

/* rig_open with an archive. */
static void begin(uint64_t keep)
{
    struct err e = {0};
    memset(&s, 0, sizeof s);
    embedding_env_init(&s.env);
    s.options = (struct engine_options){.dir = dir,
                                        .durability = DURABLE_JOURNAL,
                                        .journal_max = 8u << 20,
                                        .segment_bytes = 65536,
                                        .disk_watermark = 1,
                                        .journal_keep = keep};
    ck_assert_msg(engine_open(&s.options, &s.env.env, &s.g, &e) == 0, "%s", e.text);
    rig_lead(&s);
}

static void begin_new(uint64_t keep)
{
    struct err e = {0};
    rig_dir(dir);
    begin(keep);
    rig_table(&s, 0);
    ck_assert_msg(engine_run_open(s.g, 1, 2, 1, &e) == 0, "%s", e.text);
}

static void end(void)
{
    rig_close(&s, false);
    rig_remove_dir(dir);
}

/* MARKER's nearest value that bf16 has as well: every key packed has the same bytes then. */
#define MARKER_PACKED 1232.0f
static const enum packed_width widths[] = {PACKED_NOT, PACKED_INT8, PACKED_BF16};
static enum packed_width width; /* of the gradients that `push` pushes */
static uint64_t marker;         /* the first bytes of a marked gradient */

/* Pushes batch `to` of lane 0: key 7000, with MARKER if `marked`, and other keys without it. */
static uint64_t push(uint64_t to, bool marked)
{
    const struct table_schema schema = rig_schema(0);
    struct push_plan plan;
    rig_push_make(&p, 1, 0, 0, 0, to - 1, to);
    if (marked) {
        p.keys[0] = 7000;
        for (uint32_t i = 0; i < SHARD_WIDTH; i++)
            p.gradients[i] = width == PACKED_NOT ? MARKER : MARKER_PACKED;
    }
    packed_close(&schema, width, 0, to, p.keys, p.gradients, p.record.key_count);
    p.record.width = width;
    if (marked)
        memcpy(&marker, p.gradients, sizeof marker);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    engine_flush_step(s.g);
    embedding_env_run(&s.env);
    return plan.sequence;
}

/* True when a file under DIR/part has the bytes of a marked gradient. */
static bool marked(const char *part)
{
    char command[2 * LIMIT_PATH];
    unsigned char b[sizeof marker];
    memcpy(b, &marker, sizeof b);
    int n = snprintf(command, sizeof command, "LC_ALL=C grep -rqP '");
    for (size_t i = 0; i < sizeof b; i++)
        n += snprintf(command + n, sizeof command - (size_t)n, "\\x%02x", b[i]);
    snprintf(command + n, sizeof command - (size_t)n, "' '%s/%s' 2>/dev/null", dir, part);
    return system(command) == 0;
}

/* ---- blame ---- */

static struct blame_entry seen[1000];
static uint32_t seen_count;
static bool seen_complete;
static int seen_status;

static void on_blame(void *context, int status, const char *text, const struct blame_entry *entry,
                     uint32_t count, bool complete)
{
    (void)context;
    (void)text;
    ck_assert_uint_le(count, 1000);
    memcpy(seen, entry, count * sizeof *entry);
    seen_count = count;
    seen_complete = complete;
    seen_status = status;
}

static void blame(uint64_t key, uint32_t limit)
{
    struct err e = {0};
    seen_status = 1;
    ck_assert_msg(engine_blame(s.g, 0, key, limit, on_blame, NULL, &e) == 0, "%s", e.text);
    embedding_env_run(&s.env);
    ck_assert_int_eq(seen_status, 0);
}

START_TEST(blame_names_every_push_of_a_key_newest_first)
{
    uint64_t sequence[200];
    width = widths[_i];
    begin_new(0);
    for (uint64_t to = 1; to < 200; to++)
        sequence[to] = push(to, to % 10 == 0);
    blame(7000, 1000);
    ck_assert_uint_eq(seen_count, 19);
    ck_assert(seen_complete);
    for (uint32_t i = 0; i < 19; i++) {
        ck_assert_uint_eq(seen[i].batch, 190 - 10 * i);
        ck_assert_uint_eq(seen[i].sequence, sequence[190 - 10 * i]);
        ck_assert_uint_eq(seen[i].run, 1);
        ck_assert_double_eq_tol(seen[i].norm, 2 * (double)(_i == 0 ? MARKER : MARKER_PACKED), 1e-3);
    }
    blame(7000, 3);
    ck_assert_uint_eq(seen_count, 3);
    ck_assert_uint_eq(seen[2].batch, 170);
    ck_assert(!seen_complete);
    blame(7001, 10);
    ck_assert_uint_eq(seen_count, 0);
    ck_assert(seen_complete);
    end();
}
END_TEST

START_TEST(blame_refuses_what_it_cannot_do)
{
    struct err e;
    begin_new(0);
    push(1, true);
    ck_assert_int_eq(engine_blame(s.g, 9, 7000, 1, on_blame, NULL, &e), SHOAL_E_NO_TABLE);
    ck_assert_int_eq(engine_blame(s.g, 0, 7000, 1, on_blame, NULL, &e), 0);
    ck_assert_int_eq(engine_blame(s.g, 0, 7000, 1, on_blame, NULL, &e), SHOAL_E_BUSY);
    end(); /* ended early: on_blame is not called for a closed engine */
    rig_open(&s, NULL, DURABLE_MEMORY);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_blame(s.g, 0, 7000, 1, on_blame, NULL, &e), SHOAL_E_NOT_FOUND);
    rig_close(&s, false);
}
END_TEST

/* A clean stop writes all rows and trims the journal: with an archive blame still reaches back,
 * even over a restart. */
START_TEST(archive_keeps_what_the_journal_lets_go)
{
    begin_new(64u << 20);
    for (uint64_t to = 1; to < 100; to++)
        push(to, to % 10 == 0);
    rig_close(&s, true);
    begin(64u << 20);
    blame(7000, 1000);
    ck_assert_uint_eq(seen_count, 9);
    ck_assert(seen_complete);
    rig_close(&s, true);
    begin(200000); /* a lower limit: the oldest are removed */
    blame(7000, 1000);
    ck_assert_uint_lt(seen_count, 9);
    ck_assert_uint_gt(seen_count, 0);
    ck_assert_uint_eq(seen[0].batch, 90);
    ck_assert(!seen_complete);
    end();
}
END_TEST

/* A segment in the middle could not be copied, or was lost. */
START_TEST(blame_over_a_gap_is_not_complete)
{
    char path[LIMIT_PATH];
    uint64_t generation;
    begin_new(64u << 20);
    for (uint64_t to = 1; to < 100; to++)
        push(to, to % 10 == 0);
    rig_close(&s, true);
    begin(64u << 20);
    blame(7000, 1000);
    ck_assert(seen_complete);
    ck_assert_uint_gt(archive_count(s.g->archive), 2);
    archive_path(s.g->archive, 1, path, &generation);
    rig_close(&s, false);
    ck_assert_int_eq(remove(path), 0);
    begin(64u << 20);
    blame(7000, 1000);
    ck_assert(!seen_complete);
    end();
}
END_TEST

START_TEST(archive_is_bounded_and_drops_the_oldest)
{
    struct archive *a;
    struct err e;
    char from[LIMIT_PATH + 16], path[LIMIT_PATH], folder[LIMIT_PATH + 16];
    uint64_t generation;
    rig_dir(dir);
    snprintf(folder, sizeof folder, "%s/archive", dir);
    snprintf(from, sizeof from, "%s/file", dir);
    ck_assert_int_eq(archive_open(folder, 3000, &a, &e), 0);
    for (uint64_t i = 1; i <= 10; i++) {
        FILE *f = fopen(from, "w");
        for (int k = 0; k < 5000; k++)
            fputc('x', f);
        fclose(f);
        ck_assert(archive_take(a, from, i, 1000, false));
    }
    ck_assert_uint_eq(archive_count(a), 3);
    ck_assert_uint_eq(archive_bytes(a), 3000);
    archive_path(a, 0, path, &generation);
    ck_assert_uint_eq(generation, 8);
    ck_assert(!archive_take(a, from, 3, 10, false)); /* older than the archive's newest */
    archive_close(a);
    ck_assert_int_eq(archive_open(folder, 2000, &a, &e), 0);
    ck_assert_uint_eq(archive_count(a), 2);
    archive_clear(a);
    ck_assert_uint_eq(archive_bytes(a), 0);
    archive_close(a);
    rig_remove_dir(dir);
}
END_TEST

/* ---- scrub ---- */

static int scrub_status;
static uint64_t scrub_sequence;

static void on_scrub(void *context, int status, const char *text, uint64_t sequence)
{
    (void)context;
    ck_assert_msg(status == 0, "%s", text);
    scrub_status = status;
    scrub_sequence = sequence;
}

static void scrub(uint64_t key)
{
    struct err e = {0};
    scrub_status = 1;
    ck_assert_msg(engine_scrub(s.g, 0, &key, 1, on_scrub, NULL, &e) == 0, "%s", e.text);
    embedding_env_run(&s.env);
    ck_assert_int_eq(scrub_status, 0);
}

static void on_go(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)context;
    (void)rows;
    (void)bytes;
    ck_assert_int_eq(status, 0);
}

START_TEST(scrub_leaves_nothing_of_a_key_in_any_file)
{
    width = widths[_i];
    begin_new(64u << 20);
    for (uint64_t to = 1; to < 60; to++)
        push(to, to % 10 == 0);
    rig_close(&s, true); /* part of it is in the archive */
    begin(64u << 20);
    for (uint64_t to = 60; to < 100; to++)
        push(to, to % 10 == 0);
    ck_assert(marked("journal") && marked("archive"));
    uint64_t digest = rig_digest(&s);
    scrub(7000);
    ck_assert(!marked("journal"));
    ck_assert(!marked("archive"));
    ck_assert(!marked("."));
    blame(7000, 100);
    ck_assert_uint_eq(seen_count, 0);
    blame(p.keys[1], 100); /* other keys keep their past */
    ck_assert_uint_gt(seen_count, 0);
    ck_assert_uint_eq(rig_digest(&s), digest);
    push(100, false);
    digest = rig_digest(&s);
    rig_close(&s, false);
    begin(64u << 20);
    ck_assert_uint_eq(rig_digest(&s), digest);
    end();
}
END_TEST

START_TEST(scrub_of_an_idle_journal_and_of_none_ends)
{
    begin_new(0);
    push(1, true);
    ck_assert_int_eq(flush_all(s.g, NULL), 0);
    rig_close(&s, false);
    begin(0);
    ck_assert(marked("journal")); /* the last segment stays until a clean stop */
    scrub(7000);
    ck_assert(!marked("."));
    end();
    rig_open(&s, NULL, DURABLE_MEMORY);
    rig_table(&s, 0);
    scrub(7000);
    rig_close(&s, false);
}
END_TEST

/* Otherwise an erasure would not look there, and the files would take disk space for ever. */
START_TEST(archive_goes_where_none_is_kept_any_more)
{
    begin_new(64u << 20);
    for (uint64_t to = 1; to < 60; to++)
        push(to, to % 10 == 0);
    rig_close(&s, true);
    ck_assert(marked("archive"));
    begin(0);
    ck_assert(!marked("archive"));
    scrub(7000);
    ck_assert(!marked("."));
    end();
}
END_TEST

/* The last record before the scrub has a segment of its own; all earlier ones are stored and
 * trimmed. */
START_TEST(scrub_waits_for_the_very_last_record)
{
    struct err e = {0};
    begin_new(0);
    push(1, false);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_int_eq(journal_roll(s.g->journal, &e), 0);
    flush_trim(s.g);
    uint64_t last = push(2, true);
    ck_assert_uint_eq(journal_first(s.g->journal), last);
    ck_assert_uint_eq(s.g->sequence, last);
    scrub(7000);
    ck_assert(!marked("."));
    end();
}
END_TEST

/* Trimmed segments wait under other names for reuse, with all their records. */
START_TEST(scrub_takes_files_that_wait_to_be_used_again)
{
    struct err e = {0};
    char command[LIMIT_PATH + 64];
    uint64_t key = 7000, changed;
    begin_new(0);
    for (uint64_t to = 1; to <= 40; to++)
        push(to, true);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    snprintf(command, sizeof command, "ls '%s'/journal/free-* >/dev/null", dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, &key, 1, &changed, &e), 0);
    scrub(7000);
    ck_assert(!marked("."));
    end();
}
END_TEST

/* Pushes go on, and an engine that closes in the middle loses nothing. */
START_TEST(scrub_called_off_leaves_all_as_it_was)
{
    struct err e = {0};
    uint64_t key = 7000;
    begin_new(0);
    for (uint64_t to = 1; to < 50; to++)
        push(to, true);
    ck_assert_int_eq(engine_scrub(s.g, 0, &key, 1, on_scrub, NULL, &e), 0);
    ck_assert_int_eq(engine_scrub(s.g, 0, &key, 1, on_scrub, NULL, &e), SHOAL_E_BUSY);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    begin(0);
    ck_assert_uint_eq(rig_digest(&s), digest);
    scrub(7000);
    ck_assert_uint_eq(rig_digest(&s), digest);
    end();
}
END_TEST

/* Pairs of rows that were back in memory when the engine was killed: the engine does not know of
 * them. The pair of a present row stays. */
START_TEST(scrub_takes_pairs_that_were_left_behind)
{
    enum { MANY = 5 };
    struct err e = {0};
    struct store_item item[MANY];
    char value[MANY][64];
    size_t bytes[MANY], most = sizeof value[0];
    uint64_t keys[MANY], changed;
    begin_new(0);
    push(1, false);
    embedding_env_run(&s.env);
    cool_table(&s, 0, 16);
    memcpy(keys, p.keys, sizeof keys);
    if (_i == 1) /* in another order */
        for (uint32_t i = 0; i < MANY; i++)
            keys[i] = p.keys[MANY - 1 - i];
    cool_fetch(&s, 0, p.keys, p.record.key_count);
    ck_assert_uint_eq(table_cold_rows(engine_table(s.g, 0)), 0);
    for (uint32_t i = 0; i < MANY; i++)
        stored_row_key(0, key_tablet(key_mix(keys[i]), SHARD_TABLET_BITS),
                       table_cold_epoch(engine_table(s.g, 0), 0), keys[i], &item[i]);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    rig_close(&s, false);
    begin(0);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, keys, MANY - 1, &changed, &e), 0);
    ck_assert_uint_eq(changed, MANY - 1);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_int_eq(store_get(s.g->store, item, MANY, value, most, bytes, &e), 0);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_gt(bytes[i], 0);
    scrub_status = 1;
    ck_assert_int_eq(engine_scrub(s.g, 0, keys, MANY, on_scrub, NULL, &e), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(scrub_status, 0);
    ck_assert_int_eq(store_get(s.g->store, item, MANY, value, most, bytes, &e), 0);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(bytes[i] != 0, i == MANY - 1);
    end();
}
END_TEST

/* Counts the segments that wait for reuse. */
static int free_segments(void)
{
    char folder[LIMIT_PATH + 16];
    int count = 0;
    snprintf(folder, sizeof folder, "%s/journal", dir);
    DIR *d = opendir(folder);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        count += strncmp(entry->d_name, "free-", 5) == 0;
    closedir(d);
    return count;
}

/* A trimmed segment is not reused while a search may read it; afterwards it is. */
START_TEST(blame_reads_what_the_journal_lets_go)
{
    struct err e = {0};
    begin_new(0);
    for (uint64_t to = 1; to < 40; to++)
        push(to, to == 3);
    seen_status = 1;
    ck_assert_int_eq(engine_blame(s.g, 0, 7000, 10, on_blame, NULL, &e), 0);
    struct env_work *reads = s.env.work[--s.env.count]; /* slowly */
    int before = free_segments();
    uint64_t first = journal_first(s.g->journal);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_uint_gt(journal_first(s.g->journal), first);
    ck_assert_int_eq(free_segments(), before);
    reads->run(reads);
    reads->done(reads);
    ck_assert_int_eq(seen_status, 0);
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_int_eq(journal_roll(s.g->journal, &e), 0);
    push(40, false);
    before = free_segments();
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    flush_trim(s.g);
    ck_assert_int_gt(free_segments(), before);
    end();
}
END_TEST

/* Records from before a clear (clear.c) do not count, although the journal still has them. */
START_TEST(blame_sees_nothing_of_before_a_clear)
{
    uint64_t sequence[10];
    begin_new(0);
    for (uint64_t to = 1; to < 10; to++)
        sequence[to] = push(to, true);
    s.g->runs.of[0].barrier = s.g->runs.barrier = sequence[6];
    blame(7000, 100);
    ck_assert_uint_eq(seen_count, 3);
    ck_assert_uint_eq(seen[2].sequence, sequence[7]);
    end();
}
END_TEST

/* The row is erased for good: also after a kill, a restore of an older cut, and further pushes. */
START_TEST(erased_keys_stay_gone)
{
    struct err e = {0};
    uint64_t key = 7000, changed, sequence;
    begin_new(64u << 20);
    for (uint64_t to = 1; to < 30; to++)
        push(to, to % 10 == 0);
    ck_assert_int_eq(engine_hold(s.g, 1, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, 1, on_go, NULL), 0);
    embedding_env_run(&s.env);
    ck_assert_ptr_nonnull(table_row(engine_table(s.g, 0), key));
    ck_assert_msg(engine_keys(s.g, 0, KEY_ERASE, &key, 1, &changed, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(changed, 1);
    scrub(key);
    ck_assert(!marked("journal") && !marked("archive") && !marked("rows"));
    ck_assert(marked("cuts")); /* the receipt says so */
    uint64_t cuts[4];
    ck_assert_uint_eq(engine_cuts(s.g, cuts, 4), 1);
    ck_assert_uint_eq(cuts[0], 1);
    rig_close(&s, false);
    begin(64u << 20);
    ck_assert_ptr_null(table_row(engine_table(s.g, 0), key));
    push(30, true);
    ck_assert_ptr_null(table_row(engine_table(s.g, 0), key));
    ck_assert_msg(engine_restore(s.g, 1, 9, &e) == 0, "%s", e.text);
    ck_assert_ptr_null(table_row(engine_table(s.g, 0), key)); /* the cut contains it */
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    begin(64u << 20);
    ck_assert_ptr_null(table_row(engine_table(s.g, 0), key));
    ck_assert_uint_eq(rig_digest(&s), digest); /* replay repeats the erasure */
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_RESET, &key, 1, &changed, &e), 0);
    ck_assert_msg(engine_restore(s.g, 1, 10, &e) == 0, "%s", e.text);
    /* no longer erased: the cut counts */
    ck_assert_ptr_nonnull(table_row(engine_table(s.g, 0), key));
    end();
}
END_TEST

START_TEST(compact_leaves_no_value_that_was_overwritten)
{
    char rows[LIMIT_PATH + 16];
    struct store *store;
    struct err e = {0};
    float *big = malloc(40000), *other = malloc(40000);
    rig_dir(dir);
    snprintf(rows, sizeof rows, "%s/rows", dir);
    ck_assert_int_eq(store_rocks_open(rows, 0, &store, &e), 0);
    for (int i = 0; i < 10000; i++) {
        big[i] = MARKER;
        other[i] = 1;
    }
    memcpy(&marker, big, sizeof marker);
    /* Side by side in one file: a value that will be overwritten, and one that stays; one small,
     * one large. */
    struct store_item items[] = {{"a", 1, big, 40000}, {"b", 1, other, 40000}, {"c", 1, big, 64}};
    ck_assert_int_eq(store_write(store, items, 3, &e), 0);
    ck_assert_int_eq(store_flush(store, &e), 0);
    ck_assert(marked("rows"));
    items[0].value = items[2].value = other;
    ck_assert_int_eq(store_write(store, items, 1, &e), 0);
    ck_assert_int_eq(store_write(store, &items[2], 1, &e), 0);
    ck_assert_int_eq(store_flush(store, &e), 0);
    ck_assert(marked("rows")); /* overwritten, and still in the file */
    ck_assert_msg(store_compact(store, &e) == 0, "%s", e.text);
    ck_assert(!marked("rows"));
    store_close(store);
    rig_remove_dir(dir);
    free(big);
    free(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("audit");
    TCase *c = tcase_create("audit");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, blame_names_every_push_of_a_key_newest_first, 0, 3);
    tcase_add_test(c, blame_reads_what_the_journal_lets_go);
    tcase_add_test(c, blame_sees_nothing_of_before_a_clear);
    tcase_add_loop_test(c, scrub_takes_pairs_that_were_left_behind, 0, 2);
    tcase_add_test(c, blame_refuses_what_it_cannot_do);
    tcase_add_test(c, archive_keeps_what_the_journal_lets_go);
    tcase_add_test(c, archive_goes_where_none_is_kept_any_more);
    tcase_add_test(c, blame_over_a_gap_is_not_complete);
    tcase_add_test(c, archive_is_bounded_and_drops_the_oldest);
    tcase_add_loop_test(c, scrub_leaves_nothing_of_a_key_in_any_file, 0, 3);
    tcase_add_test(c, scrub_of_an_idle_journal_and_of_none_ends);
    tcase_add_test(c, scrub_waits_for_the_very_last_record);
    tcase_add_test(c, scrub_takes_files_that_wait_to_be_used_again);
    tcase_add_test(c, scrub_called_off_leaves_all_as_it_was);
    tcase_add_test(c, erased_keys_stay_gone);
    tcase_add_test(c, compact_leaves_no_value_that_was_overwritten);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
