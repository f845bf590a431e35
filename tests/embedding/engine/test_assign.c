/* test_assign.c: a tablet of a dense table is assigned whole: its rows, its mark, its record, and
 * what a start, a cut, a follower and blame make of it. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/follow.h"
#include "embedding/move.h"
#include "embedding/rows/image.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/embedding_rows.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARSE 0u
#define DENSE 1u
#define TABLETS (1u << SHARD_TABLET_BITS)
#define APART (RUN_SSP | RUN_APART)

static char dir[LIMIT_PATH], dir_b[LIMIT_PATH];
static struct rig s, other;
static struct rows net; /* the network as the worker has it */
static uint64_t at;     /* its step */

static const struct {
    enum durability durability;
    bool folder;
} ways[] = {{DURABLE_MEMORY, false},
            {DURABLE_MEMORY, true},
            {DURABLE_JOURNAL, true},
            {DURABLE_FSYNC, true}};

static struct table_schema dense_schema(void)
{
    struct table_schema t = rig_schema(DENSE);
    t.dense = 1;
    return t;
}

static void tables_make(struct rig *r)
{
    const struct table_schema t = dense_schema();
    struct err e = {0};
    rig_table(r, SPARSE);
    ck_assert_msg(engine_table_create(r->g, &t, &e) == 0, "%s", e.text);
}

static void begin_mode(struct rig *r, const char *where, enum durability durability, uint32_t mode)
{
    struct err e = {0};
    rig_open(r, where, durability);
    tables_make(r);
    ck_assert_msg(engine_run_open_tables(r->g, 1, 2, mode, table_set_word(3), &e) == 0, "%s",
                  e.text);
}

static void begin(enum durability durability, bool folder)
{
    begin_mode(&s, folder ? dir : NULL, durability, APART);
}

static void reopen(bool clean)
{
    rig_close(&s, clean);
    rig_open(&s, dir, DURABLE_JOURNAL);
}

static void setup(void)
{
    const struct table_schema t = dense_schema();
    rig_dir(dir);
    rig_dir(dir_b);
    net = rows_open(&t);
    at = 0;
}

static void teardown(void)
{
    rows_close(&net);
    rig_remove_dir(dir);
    rig_remove_dir(dir_b);
}

/* One step of the worker's network. */
static void step(void)
{
    static struct rig_push p;
    at++;
    rig_push_make(&p, 1, DENSE, 0, 0, at - 1, at);
    const struct push_args args = {.lr_scale = 1, .batch = at, .step = 1, .tablet_count = TABLETS};
    ck_assert_int_eq(table_push(net.table, p.keys, p.gradients, SHARD_KEYS, &args), 0);
}

struct image {
    struct push_record r;
    char bytes[1u << 19];
};

/* Makes the image of a tablet that a worker sends. */
static void image_make(struct image *i, const struct table *from, uint32_t tablet)
{
    const size_t bytes = table_image_bytes(from, tablet);
    ck_assert_uint_le(bytes, sizeof i->bytes);
    table_image_write(from, tablet, i->bytes);
    i->r = (struct push_record){.run = 1,
                                .to = at,
                                .table = DENSE,
                                .tablet_first = tablet,
                                .tablet_count = 1,
                                .image = i->bytes,
                                .image_bytes = (uint32_t)bytes};
}

static int give(struct rig *r, const struct image *i, struct push_plan *plan, struct err *e)
{
    int rc = engine_admit_push(r->g, &i->r, plan, e);
    for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
        embedding_env_run(&r->env);
        rc = engine_admit_push(r->g, &i->r, plan, e);
    }
    if (rc != 0)
        return rc;
    ck_assert_int_eq(engine_commit(r->g), 0);
    ck_assert_int_eq(engine_apply_push(r->g, &i->r, plan), 0);
    return 0;
}

static int assign_to(struct rig *r, uint32_t tablet, struct push_plan *plan)
{
    static struct image i;
    struct err e = {0};
    image_make(&i, net.table, tablet);
    return give(r, &i, plan, &e);
}

/* Assigns all tablets as of the worker's step. */
static void publish(struct rig *r)
{
    for (uint32_t k = 0; k < TABLETS; k++) {
        struct push_plan plan;
        ck_assert_int_eq(assign_to(r, k, &plan), 0);
        ck_assert(plan.applied == 1 && plan.mark == at);
    }
}

static uint64_t digest_of(const struct table *t, uint32_t tablet)
{
    uint64_t one;
    ck_assert_int_eq(table_digest(t, tablet, &one), 0);
    return one;
}

static uint64_t mark_of(const struct rig *r, uint64_t run, uint32_t tablet)
{
    return marks_get(runs_find(&r->g->runs, run)->marks, 0, DENSE, tablet);
}

/* The tables have the worker's network, as of its step. */
static void check_published(struct rig *r, uint64_t run)
{
    ck_assert_uint_eq(rows_digest(engine_table(r->g, DENSE)), rows_digest(net.table));
    for (uint32_t k = 0; k < TABLETS; k++)
        ck_assert_uint_eq(mark_of(r, run, k), at);
}

/* ---- one assignment ---- */

START_TEST(an_assigned_tablet_has_the_rows_and_the_mark)
{
    struct push_plan plan;
    begin(ways[_i].durability, ways[_i].folder);
    rig_train(&s, 1, 0, 0, 0, 3);
    uint64_t sparse = rows_digest(engine_table(s.g, SPARSE)), sequence = s.g->sequence;
    step();
    ck_assert_int_eq(assign_to(&s, 5, &plan), 0);
    ck_assert(plan.applied == 1 && plan.skipped == 0 && plan.mark == 1);
    ck_assert_uint_eq(s.g->sequence, sequence + 1);
    ck_assert_uint_eq(digest_of(engine_table(s.g, DENSE), 5), digest_of(net.table, 5));
    ck_assert_uint_eq(table_rows(engine_table(s.g, DENSE)), table_tablet_rows(net.table, 5));
    ck_assert_uint_eq(mark_of(&s, 1, 5), 1);
    ck_assert_uint_eq(mark_of(&s, 1, 6), 0);
    step();
    step();
    publish(&s);
    check_published(&s, 1);
    ck_assert_uint_eq(rows_digest(engine_table(s.g, SPARSE)), sparse);
    if (ways[_i].durability != DURABLE_MEMORY) {
        rig_close(&s, _i % 2 == 0);
        rig_open(&s, dir, ways[_i].durability);
        check_published(&s, 1);
    }
    rig_close(&s, false);
}
END_TEST

START_TEST(an_assignment_is_admitted_as_a_push)
{
    static struct image i;
    struct push_plan plan;
    struct err e = {0};
    uint64_t mark;
    begin(DURABLE_JOURNAL, true);
    for (int k = 0; k < 4; k++)
        step();
    image_make(&i, net.table, 2);
    ck_assert_int_eq(give(&s, &i, &plan, &e), 0);
    const uint64_t digest = digest_of(engine_table(s.g, DENSE), 2), sequence = s.g->sequence;
    step();
    image_make(&i, net.table, 2);
    for (i.r.to = 1; i.r.to <= 4; i.r.to++) { /* it comes late, or twice */
        ck_assert_int_eq(give(&s, &i, &plan, &e), 0);
        ck_assert(plan.applied == 0 && plan.skipped == 1 && plan.mark == 4);
    }
    i.r.from = 5;
    i.r.to = 6;
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_GAP);
    ck_assert_uint_eq(plan.mark, 4);
    i.r.from = 0;
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 2, true, NULL, &mark, &e), 0);
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_FENCED);
    i.r.generation = 2;
    i.r.run = 9;
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_OLD_RUN);
    i.r.run = 1;
    i.r.lane = 2;
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_MALFORMED);
    i.r.lane = 0;
    i.r.table = 2;
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_NO_TABLE);
    i.r.table = DENSE;
    i.r.tablet_first = TABLETS;
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_MALFORMED);
    i.r.tablet_first = 2;
    static uint16_t shard_of[2 * TABLETS];
    shard_of[TABLETS + 2] = 1;
    ck_assert_int_eq(engine_lead(s.g, shard_of, 2 * TABLETS, 0), 0);
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_NOT_LEADER);
    ck_assert_uint_eq(s.g->sequence, sequence + 1); /* the fence */
    ck_assert_uint_eq(digest_of(engine_table(s.g, DENSE), 2), digest);
    rig_lead(&s);
    ck_assert_int_eq(give(&s, &i, &plan, &e), 0);
    ck_assert_uint_eq(digest_of(engine_table(s.g, DENSE), 2), digest_of(net.table, 2));
    rig_close(&s, false);
}
END_TEST

/* Nothing of a refused image is journalled, and the tablet may be assigned afterwards. */
static void refused(struct image *i, int status, const char *words)
{
    const uint64_t sequence = s.g->sequence, digest = rig_digest(&s);
    struct push_plan plan;
    struct err e = {0};
    ck_assert_msg(give(&s, i, &plan, &e) == status, "%s", e.text);
    ck_assert_msg(strstr(e.text, words) != NULL, "%s", e.text);
    ck_assert_uint_eq(s.g->sequence, sequence);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_uint_eq(mark_of(&s, 1, i->r.tablet_first), 0);
}

/* The image of tablet 3 of a network of this schema, after some steps and `change`. */
static void image_of(struct image *i, const struct table_schema *schema,
                     void (*change)(struct table *t))
{
    static struct rig_push p;
    struct rows r = rows_open(schema);
    rig_push_make(&p, 1, DENSE, 0, 0, 0, 1);
    const struct push_args args = {.lr_scale = 1, .batch = 1, .step = 1, .tablet_count = TABLETS};
    ck_assert_int_eq(table_push(r.table, p.keys, p.gradients, SHARD_KEYS, &args), 0);
    if (change != NULL)
        change(r.table);
    image_make(i, r.table, 3);
    rows_close(&r);
}

static uint64_t a_key_of(uint32_t tablet)
{
    uint64_t n = 0;
    while (key_tablet(key_mix(rows_key(n)), SHARD_TABLET_BITS) != tablet)
        n++;
    return rows_key(n);
}

static void name_one(struct table *t)
{
    const uint64_t key = a_key_of(3);
    uint64_t changed;
    ck_assert_int_eq(table_keys(t, KEY_BLOCK, &key, 1, NULL, &changed), 0);
    ck_assert_uint_eq(changed, 1);
}

/* A weight of the first row becomes infinite, under a right checksum. */
static void spoil(struct image *i)
{
    const struct image_header *h = (const void *)i->bytes;
    const size_t sum_at = i->r.image_bytes - sizeof(uint64_t);
    const float bad = INFINITY;
    memcpy(i->bytes + sizeof *h + h->row_count * sizeof(uint64_t), &bad, sizeof bad);
    const uint64_t sum = hash_bytes(i->bytes, sum_at, 0);
    memcpy(i->bytes + sum_at, &sum, sizeof sum);
}

START_TEST(a_wrong_image_is_refused)
{
    static struct image i;
    struct push_plan plan;
    struct err e = {0};
    struct table_schema schema = dense_schema();
    begin(DURABLE_JOURNAL, true);
    step();
    image_make(&i, net.table, 3);
    for (size_t byte = 0; byte < i.r.image_bytes; byte += 13) { /* 1 */
        i.bytes[byte] ^= 4;
        ck_assert_int_ne(give(&s, &i, &plan, &e), 0);
        i.bytes[byte] ^= 4;
    }
    i.bytes[200] ^= 1;
    refused(&i, SHOAL_E_MALFORMED, "checksum");
    i.bytes[200] ^= 1;
    for (uint32_t cut = 1; cut < i.r.image_bytes; cut += 31) {
        i.r.image_bytes -= cut;
        ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_MALFORMED);
        i.r.image_bytes += cut;
    }
    i.r.tablet_first = 4;
    refused(&i, SHOAL_E_MALFORMED, "tablet 4");
    schema.optimizer.lr = 0.5f;
    image_of(&i, &schema, NULL);
    refused(&i, SHOAL_E_SCHEMA, "another schema");
    schema = dense_schema();
    image_of(&i, &schema, name_one);
    refused(&i, SHOAL_E_MALFORMED, "more than the rows");
    image_of(&i, &schema, NULL);
    spoil(&i);
    refused(&i, SHOAL_E_NOT_FINITE, "not finite");
    image_of(&i, &schema, NULL);
    ck_assert_msg(give(&s, &i, &plan, &e) == 0, "%s", e.text);
    rig_close(&s, false);
}
END_TEST

/* Rows of a sparse table may lie in the store, where an image does not reach. */
START_TEST(a_sparse_table_is_not_assigned)
{
    static struct image i;
    struct engine_image image;
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    rig_train(&s, 1, 1, 0, 0, 1);
    image_make(&i, engine_table(s.g, SPARSE), 3);
    i.r.table = SPARSE;
    i.r.to = 1;
    const uint64_t digest = rig_digest(&s);
    struct push_plan plan;
    ck_assert_int_eq(give(&s, &i, &plan, &e), SHOAL_E_MALFORMED);
    ck_assert_msg(strstr(e.text, "table-0 is sparse") != NULL, "%s", e.text);
    ck_assert_uint_eq(rig_digest(&s), digest);
    const struct engine_image_of of = {.table = SPARSE, .tablet = 3, .run = 1};
    ck_assert_int_eq(engine_image(s.g, &of, &image, &e), SHOAL_E_MALFORMED);
    rig_close(&s, false);
}
END_TEST

/* Undo of a former run's pushes goes with the rows that it was of. */
START_TEST(an_assigned_tablet_has_no_undo)
{
    static struct rig_push p;
    static struct image i;
    struct push_plan plan;
    struct err e = {0};
    begin_mode(&s, dir, DURABLE_JOURNAL, RUN_BSP);
    rig_push_make(&p, 1, DENSE, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    ck_assert_uint_gt(table_image_bytes(engine_table(s.g, DENSE), 3),
                      sizeof(struct image_header) + 8);
    image_make(&i, engine_table(s.g, DENSE), 3); /* a worker that has read it brings it back */
    const struct image_header *h = (const void *)i.bytes;
    ck_assert(h->undo_clock != 0 && h->undo_count > 0);
    i.r.to = 2;
    ck_assert_msg(give(&s, &i, &plan, &e) == 0, "%s", e.text);
    image_make(&i, engine_table(s.g, DENSE), 3);
    ck_assert(h->undo_clock == 0 && h->undo_count == 0);
    ck_assert_uint_eq(mark_of(&s, 1, 3), 2);
    rig_close(&s, false);
}
END_TEST

/* A kind that has the head of a push, and values that only a push with keys has. */
START_TEST(a_read_tablet_is_what_the_worker_assigned)
{
    struct engine_image image;
    struct err e = {0};
    struct engine_image_of of = {.table = DENSE, .tablet = 7, .run = 1};
    begin(ways[_i].durability, ways[_i].folder);
    ck_assert_int_eq(engine_image(s.g, &of, &image, &e), 0);
    ck_assert(image.mark == 0 && image.rows == 0);
    ck_assert_uint_eq(image.sequence, s.g->journal == NULL ? s.g->sequence : 0);
    for (int k = 0; k < 3; k++)
        step();
    publish(&s);
    ck_assert_int_eq(engine_image(s.g, &of, &image, &e), 0);
    ck_assert_uint_eq(image.mark, 3);
    ck_assert_uint_eq(image.rows, table_tablet_rows(net.table, 7));
    const uint64_t behind = s.g->journal == NULL ? 0 : TABLETS - 1 - 7;
    ck_assert_uint_eq(image.sequence, s.g->sequence - behind);
    char *bytes = malloc(image.bytes);
    ck_assert_ptr_nonnull(bytes);
    table_image_write(image.from, 7, bytes);
    struct table_schema schema = dense_schema();
    struct rows back = rows_open(&schema);
    ck_assert_int_eq(table_image_read(back.table, 7, bytes, image.bytes, &e), 0);
    ck_assert_uint_eq(digest_of(back.table, 7), digest_of(net.table, 7));
    rows_close(&back);
    free(bytes);
    of.run = 5; /* it is not open */
    ck_assert_int_eq(engine_image(s.g, &of, &image, &e), 0);
    ck_assert_uint_eq(image.mark, 0);
    of.run = 1;
    of.lane = 2;
    ck_assert_int_eq(engine_image(s.g, &of, &image, &e), SHOAL_E_MALFORMED);
    of.lane = 0;
    of.tablet = TABLETS;
    ck_assert_int_eq(engine_image(s.g, &of, &image, &e), SHOAL_E_MALFORMED);
    of.table = 2;
    ck_assert_int_eq(engine_image(s.g, &of, &image, &e), SHOAL_E_NO_TABLE);
    rig_close(&s, false);
}
END_TEST

/* ---- marks that count in no clock ---- */

static void check_clocks(uint64_t run, uint64_t lowest)
{
    uint64_t clock, low;
    ck_assert_int_eq(engine_clock(s.g, run, 0, 1, &clock, &low), 0);
    ck_assert_uint_eq(low, lowest);
    ck_assert_uint_eq(engine_run_counts(s.g, run).word[0], 1u << SPARSE);
    ck_assert_uint_eq(engine_run_tables(s.g, run).word[0], 3);
}

START_TEST(dense_tables_of_a_run_apart_count_in_no_clock)
{
    uint64_t mark;
    uint32_t mode, lanes;
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    ck_assert_int_eq(engine_run_mode(s.g, 1, &mode, &lanes), 0);
    ck_assert_uint_eq(mode, RUN_SSP);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, APART, table_set_word(3), &e),
                     0); /* a resend */
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, RUN_SSP, table_set_word(3), &e),
                     SHOAL_E_EXISTS);
    ck_assert_int_eq(engine_run_open_tables(s.g, 2, 2, RUN_APART | 3, table_set_word(3), &e),
                     SHOAL_E_MALFORMED);
    const int64_t none = 0;
    for (uint32_t lane = 0; lane < 2; lane++)
        ck_assert_int_eq(engine_fence(s.g, 1, lane, 1, true, &none, &mark, &e), 0);
    rig_train(&s, 1, 0, 1, 0, 7);
    check_clocks(1, 0);
    rig_train(&s, 1, 1, 1, 0, 5);
    check_clocks(1, 5); /* no lane has a mark in the dense table */
    step();
    static struct image i;
    struct push_plan plan;
    for (uint32_t k = 0; k < TABLETS; k++) {
        image_make(&i, net.table, k);
        i.r.generation = 1;
        ck_assert_int_eq(give(&s, &i, &plan, &e), 0);
        check_clocks(1, 5);
    }
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 2, true, &none, &mark, &e), 0);
    ck_assert_uint_eq(mark, 7);
    for (int clean = 0; clean < 2; clean++) {
        reopen(clean != 0);
        check_clocks(1, 5);
        ck_assert_uint_eq(mark_of(&s, 1, 9), 1);
        ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, APART, table_set_word(3), &e), 0);
    }
    rig_close(&s, false);
}
END_TEST

/* The table comes after the run, as when a cut with it is restored. */
START_TEST(a_dense_table_that_comes_later_counts_in_no_clock)
{
    struct err e = {0};
    const struct table_schema t = dense_schema();
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, SPARSE);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, APART, table_set_word(3), &e), 0);
    ck_assert_uint_eq(engine_run_counts(s.g, 1).word[0], 3);
    ck_assert_int_eq(engine_table_create(s.g, &t, &e), 0);
    ck_assert_uint_eq(engine_run_counts(s.g, 1).word[0], 1u << SPARSE);
    rig_close(&s, false);
}
END_TEST

/* ---- cuts ---- */

static void cut_done(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

static void cut_make(struct rig *r, uint64_t cut, uint64_t run)
{
    uint64_t sequence;
    int status = 1;
    ck_assert_int_eq(engine_hold(r->g, cut, run, &sequence), 0);
    ck_assert_int_eq(engine_go(r->g, cut, cut_done, &status), 0);
    embedding_env_run(&r->env);
    ck_assert_int_eq(status, 0);
}

/* The cut lies between two publishings, with half of the tablets written to the store. */
START_TEST(a_cut_has_rows_and_marks_of_its_instant)
{
    struct err e = {0};
    begin(ways[_i].durability, ways[_i].folder);
    step();
    step();
    publish(&s);
    if (s.g->store != NULL) {
        ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
        step();
        publish(&s);
    }
    rig_train(&s, 1, 0, 0, 0, 4);
    const uint64_t digest = rig_digest(&s), step_then = at;
    cut_make(&s, 5, 1);
    step();
    publish(&s);
    rig_train(&s, 1, 0, 0, 4, 6);
    ck_assert_uint_ne(rig_digest(&s), digest);
    ck_assert_msg(engine_restore(s.g, 5, 2, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    for (int again = 0; again < 2; again++) {
        ck_assert_uint_eq(rig_digest(&s), digest);
        for (uint32_t k = 0; k < TABLETS; k++)
            ck_assert_uint_eq(mark_of(&s, 2, k), step_then);
        ck_assert_uint_eq(engine_mark(s.g, 2, 0, SPARSE), 4);
        ck_assert_uint_eq(engine_run_counts(s.g, 2).word[0], 1u << SPARSE);
        if (ways[_i].durability == DURABLE_MEMORY)
            break;
        rig_close(&s, false);
        rig_open(&s, dir, ways[_i].durability);
    }
    rig_close(&s, false);
}
END_TEST

/* No assignment has come: the tables are the run's all the same. */
START_TEST(a_cut_before_the_first_assignment_empties_the_tables)
{
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    rig_train(&s, 1, 0, 0, 0, 1);
    cut_make(&s, 5, 1);
    step();
    publish(&s);
    ck_assert_msg(engine_restore(s.g, 5, 2, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    ck_assert_uint_eq(table_rows(engine_table(s.g, DENSE)), 0);
    ck_assert_uint_eq(mark_of(&s, 2, 0), 0);
    rig_close(&s, false);
}
END_TEST

static void export_done(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    ck_assert_msg(status == 0, "%s", text);
    *(int *)context = status;
}

static void load_done(void *context, int status, const char *text, uint64_t rows)
{
    (void)rows;
    ck_assert_msg(status == 0, "%s", text);
    *(int *)context = status;
}

/* A run that goes on has the marks; one that begins has none. */
START_TEST(a_checkpoint_has_rows_and_marks)
{
    char path[LIMIT_PATH];
    int status = 1;
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    step();
    step();
    publish(&s);
    rig_train(&s, 1, 0, 0, 0, 4);
    cut_make(&s, 5, 1);
    snprintf(path, sizeof path, "%.200s/checkpoint", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0); /* as the coordinator does */
    ck_assert_msg(engine_cut_export(s.g, 5, path, 0, 1, export_done, &status, &e) == 0, "%s",
                  e.text);
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, 0);
    const uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    rig_open(&s, dir_b, DURABLE_JOURNAL);
    tables_make(&s);
    struct engine_load_options o = {.path = path, .run = 7, .tables = table_set_word(3)};
    if (_i == 1) {
        o.lanes = 3;
        o.mode = RUN_BSP | RUN_APART;
    }
    status = 1;
    ck_assert_msg(engine_load(s.g, &o, load_done, &status, &e) == 0, "%s", e.text);
    for (int tries = 0; tries < 1000 && status != 0; tries++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(rig_digest(&s), digest);
    for (uint32_t k = 0; k < TABLETS; k++)
        ck_assert_uint_eq(mark_of(&s, 7, k), _i == 0 ? 2 : 0);
    ck_assert_uint_eq(engine_mark(s.g, 7, 0, SPARSE), _i == 0 ? 4 : 0);
    ck_assert_uint_eq(engine_run_counts(s.g, 7).word[0], 1u << SPARSE);
    rig_close(&s, false);
}
END_TEST

/* ---- kills ---- */

/* The newest file of the journal: the last record ends where its bytes do. */
static void tear(uint64_t bytes)
{
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%.200s/journal/seg-%016x", dir, 1);
    ck_assert_int_eq(truncate(path, (off_t)bytes), 0);
}

/* A kill within the write of the last record, at each of some places. */
START_TEST(a_torn_record_is_as_if_never_sent)
{
    struct push_plan plan;
    begin(DURABLE_JOURNAL, true);
    step();
    publish(&s);
    const uint64_t digest = rig_digest(&s), sequence = s.g->sequence;
    const uint64_t before = journal_bytes(s.g->journal);
    step();
    ck_assert_int_eq(assign_to(&s, 4, &plan), 0);
    const uint64_t after = journal_bytes(s.g->journal);
    rig_close(&s, false);
    tear(before + (after - before) * (uint64_t)(_i + 1) / 8);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(s.g->sequence, sequence);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_uint_eq(mark_of(&s, 1, 4), 1);
    ck_assert_int_eq(assign_to(&s, 4, &plan), 0); /* it is sent again */
    ck_assert_uint_eq(plan.applied, 1);
    reopen(false);
    ck_assert_uint_eq(digest_of(engine_table(s.g, DENSE), 4), digest_of(net.table, 4));
    rig_close(&s, false);
}
END_TEST

/* Kill number _i comes behind so many assignments, with images written at some instants. The one
 * that was under way is sent again, and so are all before it. */
START_TEST(a_killed_engine_has_the_rows)
{
    struct push_plan plan;
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    step();
    publish(&s);
    if (_i % 3 > 0)
        ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    step();
    for (uint32_t k = 0; k < (uint32_t)_i; k++) {
        ck_assert_int_eq(assign_to(&s, k, &plan), 0);
        if (_i % 3 == 2 && k == (uint32_t)_i / 2)
            ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    }
    const uint64_t digest = rig_digest(&s);
    reopen(false);
    ck_assert_uint_eq(rig_digest(&s), digest);
    for (uint32_t k = 0; k < TABLETS; k++) {
        ck_assert_uint_eq(mark_of(&s, 1, k), k < (uint32_t)_i ? 2 : 1);
        ck_assert_int_eq(assign_to(&s, k, &plan), 0);
        ck_assert_uint_eq(plan.applied, k >= (uint32_t)_i);
    }
    check_published(&s, 1);
    reopen(true);
    check_published(&s, 1);
    ck_assert_uint_eq(s.g->replayed, 0);
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

/* Gives the follower all records that it lacks. */
static void follow(void)
{
    struct engine_followed f;
    struct err e = {0};
    while (other.g->sequence < s.g->committed) {
        answer.status = 1;
        ck_assert_int_eq(engine_records(s.g, other.g->sequence, 1u << 20, on_records, NULL, &e), 0);
        embedding_env_run(&s.env);
        ck_assert_int_eq(answer.status, 0);
        for (size_t from = 0; from < answer.bytes; from += f.bytes) {
            int rc = engine_follow(other.g, answer.records + from, answer.bytes - from, &f, &e);
            for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
                engine_flush_step(other.g);
                embedding_env_run(&other.env);
                rc = engine_follow(other.g, answer.records + from, answer.bytes - from, &f, &e);
            }
            ck_assert_msg(rc == 0, "%s", e.text);
            if (!record_pushes(f.kind))
                continue;
            ck_assert_int_eq(engine_commit(other.g), 0);
            ck_assert_int_eq(engine_apply_push(other.g, &f.push, &f.plan), 0);
        }
    }
    engine_records_keep(s.g, other.g->sequence);
}

static void follower_open(enum durability durability, bool folder)
{
    struct err e = {0};
    rig_open(&other, folder ? dir_b : NULL, durability);
    ck_assert_int_eq(engine_tail(s.g, 4u << 20, &e), 0);
    engine_records_keep(s.g, 0);
}

START_TEST(a_follower_is_equal_bit_for_bit)
{
    rig_open(&s, ways[_i].folder ? dir : NULL, ways[_i].durability);
    follower_open(ways[_i].durability, ways[_i].folder);
    tables_make(&s);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, APART, table_set_word(3), NULL), 0);
    step();
    publish(&s);
    follow();
    rig_train(&s, 1, 0, 0, 0, 3);
    step();
    publish(&s);
    follow();
    ck_assert_uint_eq(rig_digest(&other), rig_digest(&s));
    check_published(&other, 1);
    ck_assert_uint_eq(engine_run_counts(other.g, 1).word[0], 1u << SPARSE);
    if (ways[_i].durability != DURABLE_MEMORY) {
        rig_close(&other, false);
        rig_open(&other, dir_b, ways[_i].durability);
        check_published(&other, 1);
    }
    rig_close(&other, false);
    rig_close(&s, false);
    free(answer.records);
    answer.records = NULL;
}
END_TEST

/* The leader cannot have made such a record in the state here. */
START_TEST(a_follower_takes_no_wrong_image)
{
    static char record[sizeof(struct image) + 256] __attribute__((aligned(8)));
    static struct image i;
    struct engine_followed f;
    struct err e = {0};
    const struct table_schema schema = dense_schema();
    begin(DURABLE_JOURNAL, true);
    step();
    for (int k = 0; k < 6; k++) {
        struct record_header h;
        struct record_payload p;
        image_of(&i, &schema, k == 1 ? name_one : NULL);
        if (k == 2)
            spoil(&i);
        i.r.tablet_first += k == 3;
        i.r.table = k == 4 ? SPARSE : DENSE;
        i.r.to = 1;
        record_of_push(&i.r, 4 * SHARD_WIDTH, 0, &h, &p);
        h.sequence = s.g->sequence + 1;
        h.segment = 1;
        h.tablet_count = 1 + (k == 5);
        record_seal(&h, &p);
        memcpy(record, &h, sizeof h);
        memcpy(record + sizeof h, p.piece[0], p.bytes[0]);
        int rc = engine_follow(s.g, record, record_length(&h), &f, &e);
        ck_assert_msg(rc == (k == 0 ? 0 : SHOAL_E_CORRUPT), "%d: %s", k, e.text);
        if (k > 0)
            continue;
        ck_assert_int_eq(engine_commit(s.g), 0);
        ck_assert_int_eq(engine_apply_push(s.g, &f.push, &f.plan), 0);
        rig_close(&s, false);
        rig_remove_dir(dir);
        rig_dir(dir);
        begin(DURABLE_JOURNAL, true);
    }
    rig_close(&s, false);
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
    ck_assert_msg(engine_take(other.g, TABLETS + 3, image, bytes, &sequence, &e) == 0, "%s",
                  e.text);
}

/* A late assignment changes nothing at the shard that has taken the tablet. */
START_TEST(a_moved_tablet_has_its_mark)
{
    static uint16_t shard_of[2 * TABLETS];
    struct push_plan plan;
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    begin_mode(&other, dir_b, DURABLE_JOURNAL, APART);
    ck_assert_int_eq(engine_lead(other.g, shard_of, 2 * TABLETS, 1), 0); /* none */
    step();
    step();
    publish(&s);
    ck_assert_msg(engine_give(s.g, TABLETS + 3, given, NULL, &e) == 0, "%s", e.text);
    shard_of[TABLETS + 3] = 1;
    ck_assert_int_eq(engine_lead(other.g, shard_of, 2 * TABLETS, 1), 0);
    ck_assert_uint_eq(mark_of(&other, 1, 3), 2);
    ck_assert_uint_eq(digest_of(engine_table(other.g, DENSE), 3), digest_of(net.table, 3));
    ck_assert_int_eq(assign_to(&other, 3, &plan), 0);
    ck_assert(plan.applied == 0 && plan.skipped == 1);
    step();
    ck_assert_int_eq(assign_to(&other, 3, &plan), 0);
    ck_assert_uint_eq(plan.applied, 1);
    rig_close(&other, false);
    rig_open(&other, dir_b, DURABLE_JOURNAL);
    ck_assert_uint_eq(mark_of(&other, 1, 3), 3);
    ck_assert_uint_eq(digest_of(engine_table(other.g, DENSE), 3), digest_of(net.table, 3));
    rig_close(&other, false);
    rig_close(&s, false);
}
END_TEST

/* ---- blame ---- */

static struct blame_entry seen[8];
static uint32_t seen_count;

static void on_blame(void *context, int status, const char *text, const struct blame_entry *entry,
                     uint32_t count, bool complete)
{
    (void)context;
    ck_assert_msg(status == 0, "%s", text);
    ck_assert(complete);
    ck_assert_uint_le(count, 8);
    memcpy(seen, entry, count * sizeof *entry);
    seen_count = count;
}

START_TEST(blame_names_the_assignments_of_the_keys_tablet)
{
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    begin(DURABLE_JOURNAL, true);
    rig_push_make(&p, 1, DENSE, 1, 0, 0, 1); /* a push with keys, from before */
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    const uint64_t key = p.keys[0];
    const uint32_t tablet = key_tablet(key_mix(key), SHARD_TABLET_BITS);
    step();
    publish(&s);
    step();
    publish(&s);
    ck_assert_int_eq(engine_blame(s.g, DENSE, key, 8, on_blame, NULL, &e), 0);
    embedding_env_run(&s.env);
    ck_assert_uint_eq(seen_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(seen[i].assigned, i < 2);
        ck_assert_int_eq(seen[i].norm > 0, i == 2);
        ck_assert(seen[i].lane == (i == 2) && seen[i].run == 1);
    }
    ck_assert(seen[0].batch == 2 && seen[1].batch == 1 && seen[2].batch == 1);
    ck_assert_uint_eq(seen[0].sequence, s.g->sequence - (TABLETS - 1 - tablet));
    rig_close(&s, false);
}
END_TEST

/* ---- any history ---- */

#define HISTORY 120

struct model {
    uint64_t step[TABLETS]; /* of the network in each tablet */
    uint64_t sparse;        /* batches of lane 1 */
    uint64_t run;
};

/* Every tablet as it was after step n; digest[0]: of an empty one. */
static uint64_t digest[HISTORY + 1][TABLETS];

static void check_model(struct rig *r, const struct model *m)
{
    for (uint32_t k = 0; k < TABLETS; k++) {
        ck_assert_uint_eq(digest_of(engine_table(r->g, DENSE), k), digest[m->step[k]][k]);
        ck_assert_uint_eq(mark_of(r, m->run, k), m->step[k]);
    }
    ck_assert_uint_eq(engine_mark(r->g, m->run, 1, SPARSE), m->sparse);
}

static void assign_random(struct model *m, struct rng *chance)
{
    static struct image i;
    const uint32_t k = (uint32_t)rng_below(chance, TABLETS);
    struct push_plan plan;
    struct err e = {0};
    image_make(&i, net.table, k);
    i.r.run = m->run;
    if (m->step[k] < at)
        i.r.from = rng_below(chance, 2) * m->step[k];
    int rc = give(&s, &i, &plan, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_eq(plan.applied, m->step[k] < at);
    m->step[k] = at;
}

static void step_note(void)
{
    step();
    for (uint32_t k = 0; k < TABLETS; k++)
        digest[at][k] = digest_of(net.table, k);
}

START_TEST(any_history_ends_alike)
{
    struct rng chance = rng_of(77, (uint64_t)_i, 1);
    struct model now = {.run = 1}, then = now;
    uint64_t cut = 0;
    struct err e = {0};
    memset(digest, 0, sizeof digest);
    rig_open(&s, dir, DURABLE_JOURNAL);
    follower_open(DURABLE_JOURNAL, true);
    tables_make(&s);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, APART, table_set_word(3), &e), 0);
    step_note();
    for (int i = 0; i < HISTORY; i++)
        switch (rng_below(&chance, 10)) {
        case 0:
            if (at < HISTORY)
                step_note();
            break;
        case 1:
            rig_train(&s, now.run, 1, 0, now.sparse, now.sparse + 1);
            now.sparse++;
            break;
        case 2:
            follow(); /* a clean stop leaves no records */
            reopen(rng_below(&chance, 2) == 0);
            ck_assert_int_eq(engine_tail(s.g, 4u << 20, &e), 0);
            engine_records_keep(s.g, other.g->sequence);
            check_model(&s, &now);
            break;
        case 3:
            engine_flush_step(s.g);
            embedding_env_run(&s.env);
            break;
        case 4:
            if (rng_below(&chance, 2) == 0)
                ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
            break;
        case 5:
            follow();
            check_model(&other, &now);
            break;
        default:
            assign_random(&now, &chance);
        }
    follow();
    cut = 9; /* both copies make it */
    cut_make(&s, cut, 1);
    cut_make(&other, cut, 1);
    then = now;
    for (int i = 0; i < 20; i++) {
        if (at < HISTORY)
            step_note();
        assign_random(&now, &chance);
    }
    ck_assert_msg(engine_restore(s.g, cut, 2, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    then.run = 2;
    check_model(&s, &then);
    follow();
    check_model(&other, &then);
    reopen(false);
    check_model(&s, &then);
    rig_close(&s, false);
    rig_close(&other, true);
    free(answer.records);
    answer.records = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assign");
    TCase *one = suite_case(suite, "one", 60, setup, teardown);
    tcase_add_loop_test(one, an_assigned_tablet_has_the_rows_and_the_mark, 0, 4);
    tcase_add_test(one, an_assignment_is_admitted_as_a_push);
    tcase_add_test(one, a_wrong_image_is_refused);
    tcase_add_test(one, a_sparse_table_is_not_assigned);
    tcase_add_test(one, an_assigned_tablet_has_no_undo);
    tcase_add_loop_test(one, a_read_tablet_is_what_the_worker_assigned, 0, 4);
    TCase *apart = suite_case(suite, "apart", 60, setup, teardown);
    tcase_add_test(apart, dense_tables_of_a_run_apart_count_in_no_clock);
    tcase_add_test(apart, a_dense_table_that_comes_later_counts_in_no_clock);
    TCase *cuts = suite_case(suite, "cuts", 60, setup, teardown);
    tcase_add_loop_test(cuts, a_cut_has_rows_and_marks_of_its_instant, 0, 4);
    tcase_add_test(cuts, a_cut_before_the_first_assignment_empties_the_tables);
    tcase_add_loop_test(cuts, a_checkpoint_has_rows_and_marks, 0, 2);
    TCase *kills = suite_case(suite, "kills", 60, setup, teardown);
    tcase_add_loop_test(kills, a_torn_record_is_as_if_never_sent, 0, 7);
    tcase_add_loop_test(kills, a_killed_engine_has_the_rows, 0, TABLETS + 1);
    TCase *copies = suite_case(suite, "copies", 60, setup, teardown);
    tcase_add_loop_test(copies, a_follower_is_equal_bit_for_bit, 0, 4);
    tcase_add_test(copies, a_follower_takes_no_wrong_image);
    TCase *moves = suite_case(suite, "moves", 60, setup, teardown);
    tcase_add_test(moves, a_moved_tablet_has_its_mark);
    TCase *audit = suite_case(suite, "audit", 60, setup, teardown);
    tcase_add_test(audit, blame_names_the_assignments_of_the_keys_tablet);
    TCase *any = suite_case(suite, "any", 120, setup, teardown);
    tcase_add_loop_test(any, any_history_ends_alike, 0, 12);
    return suite_main(suite);
}
