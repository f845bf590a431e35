/* test_assign_rows.c: rows are assigned by key to a sparse table: their record, and what a start, a
 * cut, a follower, a move, a search and an erasing make of it. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/follow.h"
#include "embedding/move.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/embedding_rows.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLETS (1u << SHARD_TABLET_BITS)
enum { COUNT = 400, FLOATS = 2 * SHARD_WIDTH + 5 };

static char dir[LIMIT_PATH], dir_b[LIMIT_PATH];
static struct rig s, other;

static const struct {
    enum durability durability;
    bool folder;
} ways[] = {{DURABLE_MEMORY, false},
            {DURABLE_MEMORY, true},
            {DURABLE_JOURNAL, true},
            {DURABLE_FSYNC, true}};

static void setup(void)
{
    rig_dir(dir);
    rig_dir(dir_b);
}

static void teardown(void)
{
    rig_remove_dir(dir);
    rig_remove_dir(dir_b);
}

struct batch { /* as it comes off the wire: keys, rows behind them */
    struct push_record r;
    struct {
        uint64_t keys[COUNT];
        float rows[COUNT * FLOATS];
    } m;
};

/* Rows of `count` keys from key `first` on; `mark` is in every number of them. */
static void batch_make(struct batch *b, uint64_t first, uint32_t count, float mark, uint32_t parts)
{
    const struct table_schema schema = rig_schema(0);
    const uint32_t floats = table_assign_floats(&schema, parts);
    ck_assert_uint_le(floats, FLOATS);
    for (uint32_t i = 0; i < count; i++)
        b->m.keys[i] = rows_key(first + i);
    float *rows = (float *)(void *)(b->m.keys + count);
    for (uint32_t i = 0; i < count * floats; i++)
        rows[i] = mark;
    b->r = (struct push_record){.table = 0,
                                .tablet_count = TABLETS,
                                .key_count = count,
                                .keys = b->m.keys,
                                .rows = rows,
                                .row_floats = floats,
                                .parts = parts};
}

static int give(struct rig *r, const struct batch *b, struct push_plan *plan, struct err *e)
{
    int rc = SHOAL_E_BUSY;
    for (int tries = 0; tries < 200; tries++) {
        if (engine_warm(r->g, 0, b->r.keys, b->r.key_count))
            rc = engine_admit_push(r->g, &b->r, plan, e);
        if (rc != SHOAL_E_BUSY)
            break;
        engine_flush_step(r->g);
        embedding_env_run(&r->env);
    }
    if (rc != 0)
        return rc;
    ck_assert_int_eq(engine_commit(r->g), 0);
    ck_assert_int_eq(engine_apply_push(r->g, &b->r, plan), 0);
    return 0;
}

static struct assign_counts assign(struct rig *r, uint64_t first, uint32_t count, float mark,
                                   uint32_t parts)
{
    static struct batch b;
    struct push_plan plan;
    struct err e = {0};
    batch_make(&b, first, count, mark, parts);
    ck_assert_msg(give(r, &b, &plan, &e) == 0, "%s", e.text);
    ck_assert(plan.applied == TABLETS && plan.skipped == 0 && plan.mark == 0);
    return plan.assigned;
}

static void begin(enum durability durability, bool folder)
{
    rig_open(&s, folder ? dir : NULL, durability);
    rig_table(&s, 0);
}

static void reopen(bool clean)
{
    const enum durability durability = s.options.durability;
    rig_close(&s, clean);
    rig_open(&s, dir, durability);
}

static float weight(const struct rig *r, uint64_t n)
{
    const uint64_t key = rows_key(n);
    float w[SHARD_WIDTH];
    table_pull(engine_table(r->g, 0), &key, 1, w);
    return w[SHARD_WIDTH - 1];
}

/* ---- one assignment ---- */

START_TEST(assigned_rows_are_there_after_a_start)
{
    begin(ways[_i].durability, ways[_i].folder);
    struct assign_counts c = assign(&s, 0, COUNT, 0.5f, 0);
    ck_assert(c.made == COUNT && c.replaced == 0);
    c = assign(&s, COUNT / 2, COUNT, 0.25f, ASSIGN_STATE);
    ck_assert(c.made == COUNT / 2 && c.replaced == COUNT / 2);
    ck_assert(weight(&s, 0) == 0.5f && weight(&s, COUNT) == 0.25f);
    ck_assert_uint_eq(table_rows(engine_table(s.g, 0)), COUNT + COUNT / 2);
    const uint64_t digest = rig_digest(&s);
    for (int k = 0; k < 2 && ways[_i].durability != DURABLE_MEMORY; k++) {
        reopen(k == 1);
        ck_assert_uint_eq(rig_digest(&s), digest);
    }
    rig_close(&s, false);
}
END_TEST

static int by_tablet(const void *a, const void *b)
{
    const uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

/* A job of one batch, which has the keys from `first` on. */
static void train(uint64_t run, uint64_t first)
{
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    ck_assert_int_eq(engine_run_open_tables(s.g, run, 1, RUN_ASYNC, table_set_word(1), &e), 0);
    rig_push_make(&p, run, 0, 0, 0, 0, 1);
    for (uint32_t i = 0; i < COUNT; i++)
        p.keys[i] = rows_key(first + i);
    qsort(p.keys, COUNT, sizeof p.keys[0], by_tablet);
    p.record.key_count = COUNT;
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    ck_assert_int_eq(engine_run_drop(s.g, run, &e), 0);
}

/* Images that already have some of the records, and tablets that lack them all. A row that was
 * assigned again over its later push would be another one. */
START_TEST(a_replay_over_any_images_ends_alike)
{
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    for (uint32_t n = 0; n < 80; n++) { /* from 512 KiB of journal on, some tablets a step */
        (void)assign(&s, n * 300, COUNT, (float)n, n % 2 == 0 ? 0 : ASSIGN_STATE);
        train(n + 1, n * 300);
        for (uint32_t k = 0; k < n % 3; k++) {
            engine_flush_step(s.g);
            embedding_env_run(&s.env);
        }
        if (7 * (uint32_t)_i == n)
            ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    }
    const uint64_t digest = rig_digest(&s);
    reopen(false);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

static int refused(struct batch *b, const char *words)
{
    const uint64_t sequence = s.g->sequence, digest = rig_digest(&s);
    struct push_plan plan;
    struct err e = {0};
    int rc = give(&s, b, &plan, &e);
    ck_assert_int_ne(rc, 0);
    ck_assert_msg(strstr(e.text, words) != NULL, "%s", e.text);
    ck_assert_uint_eq(s.g->sequence, sequence);
    ck_assert_uint_eq(rig_digest(&s), digest);
    return rc;
}

START_TEST(wrong_rows_are_refused)
{
    static struct batch b;
    static uint16_t shard_of[TABLETS];
    begin(DURABLE_JOURNAL, true);
    (void)assign(&s, 0, COUNT, 1, 0);
    batch_make(&b, 0, COUNT, 2, 0);
    ((float *)(uintptr_t)b.r.rows)[7 * SHARD_WIDTH] = NAN;
    ck_assert_int_eq(refused(&b, "not finite"), SHOAL_E_NOT_FINITE);
    batch_make(&b, 0, COUNT, 2, 0);
    b.r.row_floats++;
    ck_assert_int_eq(refused(&b, "floats"), SHOAL_E_MALFORMED);
    batch_make(&b, 0, COUNT, 2, 0);
    b.r.parts = 64;
    ck_assert_int_eq(refused(&b, "parts"), SHOAL_E_MALFORMED);
    batch_make(&b, 0, COUNT, 2, ASSIGN_STATS);
    ck_assert_int_eq(refused(&b, "keeps none"), SHOAL_E_MALFORMED);
    batch_make(&b, 0, COUNT, 2, 0);
    b.r.tablet_count = 3;
    ck_assert_int_eq(refused(&b, "outside"), SHOAL_E_MALFORMED);
    b.r.tablet_first = TABLETS;
    ck_assert_int_eq(refused(&b, "tablets"), SHOAL_E_MALFORMED);
    batch_make(&b, 0, COUNT, 2, 0);
    b.r.table = 3;
    ck_assert_int_eq(refused(&b, "no table"), SHOAL_E_NO_TABLE);
    batch_make(&b, 0, COUNT, 2, 0);
    shard_of[4] = 1;
    ck_assert_int_eq(engine_lead(s.g, shard_of, TABLETS, 0), 0);
    ck_assert_int_eq(refused(&b, "led here"), SHOAL_E_NOT_LEADER);
    rig_lead(&s);
    ck_assert_uint_eq(assign(&s, 0, COUNT, 2, 0).replaced, COUNT);
    rig_close(&s, false);
}
END_TEST

START_TEST(rows_are_refused_while_a_run_is_open)
{
    static struct batch b;
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 1, RUN_ASYNC, table_set_word(2), &e),
                     0); /* of another table */
    ck_assert_uint_eq(assign(&s, 0, COUNT, 1, 0).made, COUNT);
    ck_assert_int_eq(engine_run_open_tables(s.g, 2, 1, RUN_ASYNC, table_set_word(1), &e), 0);
    batch_make(&b, 0, COUNT, 2, 0);
    ck_assert_int_eq(refused(&b, "run 2 trains"), SHOAL_E_OLD_RUN);
    ck_assert_int_eq(engine_run_drop(s.g, 2, &e), 0);
    ck_assert_uint_eq(assign(&s, 0, COUNT, 2, 0).replaced, COUNT);
    rig_close(&s, false);
}
END_TEST

/* A row in the store is replaced, or kept, as one in memory is. */
START_TEST(a_row_in_the_store_is_replaced)
{
    begin(DURABLE_JOURNAL, true);
    s.options.memory = 0;
    (void)assign(&s, 0, COUNT, 1, 0);
    cool_table(&s, 0, 8);
    ck_assert_uint_gt(table_cold_rows(engine_table(s.g, 0)), 50);
    const struct assign_counts c = assign(&s, 0, COUNT, 2, _i == 0 ? 0 : ASSIGN_KEEP);
    ck_assert_uint_eq(_i == 0 ? c.replaced : c.kept, COUNT);
    ck_assert_uint_eq(c.made, 0);
    const uint64_t digest = cool_digest(&s);
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert(weight(&s, i) == (_i == 0 ? 2 : 1));
    reopen(false);
    ck_assert_uint_eq(cool_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

START_TEST(erased_keys_are_counted_and_stay_erased)
{
    struct err e = {0};
    uint64_t keys[3] = {rows_key(1), rows_key(2), rows_key(3)}, changed;
    begin(DURABLE_JOURNAL, true);
    (void)assign(&s, 0, COUNT, 1, 0);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, keys, 3, &changed, &e), 0);
    const struct assign_counts c = assign(&s, 0, COUNT, 2, 0);
    ck_assert(c.blocked == 3 && c.replaced == COUNT - 3 && c.made == 0);
    const uint64_t digest = rig_digest(&s);
    reopen(false);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_ptr_null(table_row(engine_table(s.g, 0), keys[1]));
    rig_close(&s, false);
}
END_TEST

/* ---- cuts ---- */

static void cut_done(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

static void cut_make(uint64_t cut, uint64_t run)
{
    int status = 1;
    uint64_t sequence;
    ck_assert_int_eq(engine_hold(s.g, cut, run, &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, cut, cut_done, &status), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_cut_has_the_rows_of_its_instant)
{
    struct err e = {0};
    begin(ways[_i].durability, ways[_i].folder);
    (void)assign(&s, 0, COUNT, 1, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, RUN_ASYNC, &e), 0);
    const uint64_t digest = rig_digest(&s);
    cut_make(5, 1);
    ck_assert_int_eq(engine_run_drop(s.g, 1, &e), 0);
    (void)assign(&s, 100, COUNT, 2, 0);
    ck_assert_uint_ne(rig_digest(&s), digest);
    ck_assert_msg(engine_restore(s.g, 5, 2, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    ck_assert_uint_eq(rig_digest(&s), digest);
    if (ways[_i].durability != DURABLE_MEMORY) {
        reopen(false);
        ck_assert_uint_eq(rig_digest(&s), digest);
    }
    rig_close(&s, false);
}
END_TEST

/* ---- followers ---- */

static struct {
    char *records;
    size_t bytes;
    int status;
} answer;

static void on_records(void *context, int status, const void *records, size_t bytes, uint64_t last)
{
    (void)context, (void)last;
    free(answer.records);
    answer.records = malloc(bytes + 1);
    ck_assert_ptr_nonnull(answer.records);
    memcpy(answer.records, records, bytes);
    answer.bytes = bytes;
    answer.status = status;
}

static void follow_one(const char *at, size_t bytes, struct engine_followed *f)
{
    struct err e = {0};
    int rc = engine_follow(other.g, at, bytes, f, &e);
    for (int tries = 0; (rc == SHOAL_E_BUSY || rc == SHOAL_E_AGAIN) && tries < 100; tries++) {
        engine_flush_step(other.g);
        embedding_env_run(&other.env);
        rc = engine_follow(other.g, at, bytes, f, &e);
    }
    ck_assert_msg(rc == 0, "%s", e.text);
    if (!record_pushes(f->kind))
        return;
    ck_assert_int_eq(engine_commit(other.g), 0);
    ck_assert_int_eq(engine_apply_push(other.g, &f->push, &f->plan), 0);
}

static void follow(void)
{
    struct engine_followed f;
    struct err e = {0};
    while (other.g->sequence < s.g->committed) {
        answer.status = 1;
        ck_assert_int_eq(engine_records(s.g, other.g->sequence, 1u << 20, on_records, NULL, &e), 0);
        embedding_env_run(&s.env);
        ck_assert_int_eq(answer.status, 0);
        for (size_t from = 0; from < answer.bytes; from += f.bytes)
            follow_one(answer.records + from, answer.bytes - from, &f);
    }
    engine_records_keep(s.g, other.g->sequence);
}

START_TEST(a_follower_has_the_same_rows)
{
    struct err e = {0};
    rig_open(&s, ways[_i].folder ? dir : NULL, ways[_i].durability);
    rig_open(&other, ways[_i].folder ? dir_b : NULL, ways[_i].durability);
    ck_assert_int_eq(engine_tail(s.g, 4u << 20, &e), 0);
    engine_records_keep(s.g, 0);
    rig_table(&s, 0);
    (void)assign(&s, 0, COUNT, 1, 0);
    (void)assign(&s, 100, COUNT, 2, ASSIGN_STATE);
    (void)assign(&s, 200, COUNT, 3, ASSIGN_KEEP);
    follow();
    ck_assert_uint_eq(rig_digest(&other), rig_digest(&s));
    ck_assert_uint_eq(table_rows(engine_table(other.g, 0)), COUNT + 200);
    if (ways[_i].durability != DURABLE_MEMORY) {
        rig_close(&other, false);
        rig_open(&other, dir_b, ways[_i].durability);
        ck_assert_uint_eq(rig_digest(&other), rig_digest(&s));
    }
    rig_close(&other, false);
    rig_close(&s, false);
    free(answer.records);
    answer.records = NULL;
}
END_TEST

/* The leader cannot have made such a record. */
START_TEST(a_follower_takes_no_wrong_rows)
{
    static struct batch b;
    static char record[sizeof b + 256] __attribute__((aligned(8)));
    struct engine_followed f;
    struct err e = {0};
    for (int k = 0; k < 6; k++) {
        struct record_header h;
        struct record_payload p;
        begin(DURABLE_JOURNAL, true);
        batch_make(&b, 0, 20, 1, k == 5 ? ASSIGN_STATS : 0);
        b.r.row_floats += k == 1;
        b.r.tablet_first += k == 2;
        b.r.table = k == 3 ? 7 : 0;
        record_of_push(&b.r, 4, 0, &h, &p);
        h.sequence = s.g->sequence + 1;
        h.segment = 1;
        h.run = k == 4;
        record_seal(&h, &p);
        memcpy(record, &h, sizeof h);
        memcpy(record + sizeof h, p.piece[0], p.bytes[0]);
        int rc = engine_follow(s.g, record, record_length(&h), &f, &e);
        ck_assert_msg(rc == (k == 0 ? 0 : SHOAL_E_CORRUPT), "%d: %s", k, e.text);
        if (k == 0) {
            ck_assert_int_eq(engine_commit(s.g), 0);
            ck_assert_int_eq(engine_apply_push(s.g, &f.push, &f.plan), 0);
            ck_assert_uint_eq(f.plan.assigned.made, 20);
        }
        rig_close(&s, false);
        rig_remove_dir(dir);
        rig_dir(dir);
    }
}
END_TEST

/* ---- moves ---- */

static void given(void *context, int status, const char *text, const void *image, size_t bytes,
                  uint64_t rows)
{
    uint64_t sequence;
    struct err e = {0};
    (void)context, (void)rows;
    ck_assert_msg(status == 0, "%s", text);
    ck_assert_msg(engine_take(other.g, 3, image, bytes, &sequence, &e) == 0, "%s", e.text);
}

START_TEST(a_moved_tablet_has_its_rows)
{
    static uint16_t shard_of[TABLETS];
    struct err e = {0};
    uint64_t one, two;
    begin(DURABLE_JOURNAL, true);
    rig_open(&other, dir_b, DURABLE_JOURNAL);
    rig_table(&other, 0);
    ck_assert_int_eq(engine_lead(other.g, shard_of, TABLETS, 1), 0); /* none */
    (void)assign(&s, 0, COUNT, 1, 0);
    ck_assert_msg(engine_give(s.g, 3, given, NULL, &e) == 0, "%s", e.text);
    shard_of[3] = 1;
    ck_assert_int_eq(engine_lead(other.g, shard_of, TABLETS, 1), 0);
    ck_assert_int_eq(table_digest(engine_table(s.g, 0), 3, &one), 0);
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(table_digest(engine_table(other.g, 0), 3, &two), 0);
        ck_assert_uint_eq(one, two);
        rig_close(&other, false);
        rig_open(&other, dir_b, DURABLE_JOURNAL);
    }
    rig_close(&other, false);
    rig_close(&s, false);
}
END_TEST

/* ---- blame and scrub ---- */

static struct blame_entry seen[8];
static uint32_t seen_count;

static void on_blame(void *context, int status, const char *text, const struct blame_entry *entry,
                     uint32_t count, bool complete)
{
    (void)context, (void)complete;
    ck_assert_msg(status == 0, "%s", text);
    ck_assert_uint_le(count, 8);
    memcpy(seen, entry, count * sizeof *entry);
    seen_count = count;
}

START_TEST(blame_names_every_assignment_of_the_key)
{
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    (void)assign(&s, 0, COUNT, 1, 0);
    const uint64_t first = s.g->sequence;
    (void)assign(&s, 5, COUNT, 2, ASSIGN_STATE); /* without key 3 */
    (void)assign(&s, 2, COUNT, 3, 0);
    ck_assert_int_eq(engine_blame(s.g, 0, rows_key(3), 8, on_blame, NULL, &e), 0);
    embedding_env_run(&s.env);
    ck_assert_uint_eq(seen_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert(seen[i].assigned && seen[i].run == 0 && seen[i].norm == 0);
    ck_assert(seen[0].sequence == s.g->sequence && seen[1].sequence == first);
    rig_close(&s, false);
}
END_TEST

#define MARKER 1234.5678f /* a number that occurs nowhere else */

static bool marked(const char *part)
{
    char command[2 * LIMIT_PATH];
    union {
        float f[2];
        unsigned char b[8];
    } u = {{MARKER, MARKER}};
    int n = snprintf(command, sizeof command, "LC_ALL=C grep -rqP '");
    for (int i = 0; i < 8; i++)
        n += snprintf(command + n, sizeof command - (size_t)n, "\\x%02x", u.b[i]);
    snprintf(command + n, sizeof command - (size_t)n, "' %s/%s 2>/dev/null", dir, part);
    return system(command) == 0;
}

static void scrubbed(void *context, int status, const char *text, uint64_t sequence)
{
    (void)sequence;
    ck_assert_msg(status == 0, "%s", text);
    *(int *)context = 0;
}

/* An erased row is in no file any more, neither in the journal's archive. */
START_TEST(a_scrub_blanks_assigned_rows)
{
    struct err e = {0};
    const uint64_t key = rows_key(0);
    uint64_t changed;
    int status = 1;
    const struct engine_options o = {.dir = dir,
                                     .durability = DURABLE_JOURNAL,
                                     .journal_max = 8u << 20,
                                     .segment_bytes = 65536,
                                     .disk_watermark = 1,
                                     .journal_keep = 64u << 20};
    ck_assert_int_eq(rig_try_open_with(&s, &o, &e), 0);
    rig_lead(&s);
    rig_table(&s, 0);
    (void)assign(&s, 0, 1, MARKER, 0);
    for (uint32_t n = 0; n < 40; n++)
        (void)assign(&s, 10 + n, COUNT, 1, ASSIGN_STATE);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert(marked("journal") || marked("archive"));
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, &key, 1, &changed, &e), 0);
    ck_assert_msg(engine_scrub(s.g, 0, &key, 1, scrubbed, &status, &e) == 0, "%s", e.text);
    for (int tries = 0; tries < 1000 && status != 0; tries++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    ck_assert_int_eq(status, 0);
    ck_assert(!marked("journal") && !marked("archive") && !marked("rows"));
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assign_rows");
    TCase *one = suite_case(suite, "one", 60, setup, teardown);
    tcase_add_loop_test(one, assigned_rows_are_there_after_a_start, 0, 4);
    tcase_add_loop_test(one, a_replay_over_any_images_ends_alike, 0, 12);
    tcase_add_test(one, wrong_rows_are_refused);
    tcase_add_test(one, rows_are_refused_while_a_run_is_open);
    tcase_add_loop_test(one, a_row_in_the_store_is_replaced, 0, 2);
    tcase_add_test(one, erased_keys_are_counted_and_stay_erased);
    TCase *copies = suite_case(suite, "copies", 60, setup, teardown);
    tcase_add_loop_test(copies, a_cut_has_the_rows_of_its_instant, 0, 4);
    tcase_add_loop_test(copies, a_follower_has_the_same_rows, 0, 4);
    tcase_add_test(copies, a_follower_takes_no_wrong_rows);
    tcase_add_test(copies, a_moved_tablet_has_its_rows);
    TCase *audit = suite_case(suite, "audit", 60, setup, teardown);
    tcase_add_test(audit, blame_names_every_assignment_of_the_key);
    tcase_add_test(audit, a_scrub_blanks_assigned_rows);
    return suite_main(suite);
}
