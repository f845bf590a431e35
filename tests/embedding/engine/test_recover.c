/* test_recover.c: the state of a killed shard after its restart. A child does the work and ends
 * without closing anything. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/recover.h"
#include "embedding/rows/table_inner.h"
#include "embedding/store/stored.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char dir[LIMIT_PATH];
static struct rig s;
static struct rig_push p;
static struct answer { /* the child's results, for the parent to compare */
    uint64_t digest, sequence, image_bytes, journal_bytes;
    uint64_t mark[2], steps, generation, clock, low;
    uint32_t batches, keep_work;
    float before[SHARD_KEYS * SHARD_WIDTH];
} * shared;

/* Each test runs with engines that recover at once and with those that do so in steps. */
static void setup_steps(void)
{
    rig_in_steps = true;
}

static void setup(void)
{
    rig_dir(dir);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    memset(shared, 0, sizeof *shared);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

static void note(void)
{
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    shared->digest = rig_digest(&s);
    shared->sequence = stats.sequence;
    shared->image_bytes = stats.image_bytes_written;
    shared->journal_bytes = stats.journal_bytes;
    shared->mark[0] = engine_mark(s.g, 1, 0, 0);
    shared->mark[1] = engine_mark(s.g, 1, 1, 0);
    shared->steps = engine_steps(s.g, 1, 0);
    ck_assert_uint_eq(shared->steps, shared->mark[0] + shared->mark[1]);
}

static void reopen(void)
{
    rig_open(&s, dir, DURABLE_JOURNAL);
}

static void check_same(void)
{
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    ck_assert_uint_eq(stats.sequence, shared->sequence);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), shared->mark[0]);
    ck_assert_uint_eq(engine_mark(s.g, 1, 1, 0), shared->mark[1]);
    ck_assert_uint_eq(engine_steps(s.g, 1, 0), shared->steps);
    ck_assert_uint_eq(rig_digest(&s), shared->digest);
}

/* Trains two lanes, `batches` each. */
static void train_child(void *context)
{
    (void)context;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, 1, table_set_first(2), NULL), 0);
    for (uint32_t i = 0; i < shared->batches; i++) {
        rig_train(&s, 1, 0, 0, i, i + 1);
        rig_train(&s, 1, 1, 0, i, i + 1);
    }
    note();
}

START_TEST(killed_shard_comes_back_from_its_journal)
{
    shared->batches = 20;
    rig_in_child(train_child, NULL);
    ck_assert_uint_eq(shared->image_bytes, 0);
    reopen();
    check_same();
    rig_close(&s, false);
}
END_TEST

/* The journal may be trimmed up to the oldest record that an unwritten tablet still needs,
 * whichever tablet that is (16: the control state). */
START_TEST(floor_is_below_what_is_still_to_be_written)
{
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 4);
    struct engine_table *t = &s.g->table[0];
    ck_assert_uint_eq(t->scope.tablets, 16);
    for (uint32_t k = 0; k < 16; k++)
        t->durable[k] = t->changed[k];
    s.g->control_durable = s.g->control_changed;
    ck_assert_uint_eq(flush_floor(s.g), s.g->committed);
    uint64_t *durable = _i < 16 ? &t->durable[_i] : &s.g->control_durable;
    *durable -= 1;
    ck_assert_uint_eq(flush_floor(s.g), *durable);
    rig_close(&s, false);
}
END_TEST

static int pass_schema(void *context, const struct table_schema *schema,
                       const struct table_past *past, struct err *e)
{
    (void)context, (void)schema, (void)past, (void)e;
    return 0;
}

/* The same for the floor in the control state: records up to it are not replayed. */
START_TEST(the_stored_floor_is_below_what_is_still_to_be_written)
{
    struct runs runs = {0};
    struct stored_as_of as_of;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 4);
    struct engine_table *t = &s.g->table[0];
    for (uint32_t k = 0; k < t->scope.tablets; k++)
        t->durable[k] = t->written[k] = t->changed[k];
    t->durable[_i]--;
    t->written[_i]--;
    s.g->flush.items = s.g->flush.bytes = 0;
    ck_assert(flush_room(s.g, 1, 0));
    ck_assert_int_eq(flush_put_control(s.g, s.g->sequence), 0);
    ck_assert_int_eq(stored_control_read(s.g->flush.item[0].value, s.g->flush.item[0].value_bytes,
                                         &runs, &as_of, pass_schema, NULL, NULL),
                     0);
    ck_assert_uint_eq(as_of.floor, t->written[_i]);
    runs_free(&runs);
    rig_close(&s, false);
}
END_TEST

static struct table_schema half_schema(void)
{
    struct table_schema schema = rig_schema(0);
    schema.values = VALUES_BF16;
    schema.field_rule_count = 1;
    schema.field_rule[0] = (struct field_rule){
        .field = 1, .has = FIELD_HAS_INIT, .kind = INIT_CONSTANT, .scale = 0.5f};
    return schema;
}

static void train_half_child(void *context)
{
    struct table_schema schema = half_schema();
    (void)context;
    reopen();
    ck_assert_int_eq(engine_table_create(s.g, &schema, NULL), 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 20);
    note();
}

START_TEST(a_table_of_16_bits_comes_back_from_its_journal)
{
    struct table_schema schema = half_schema();
    rig_in_child(train_half_child, NULL);
    reopen();
    ck_assert(schema_equal(table_schema_of(engine_table(s.g, 0)), &schema));
    check_same();
    rig_close(&s, false);
}
END_TEST

struct range {
    uint64_t low, high;
};

static int note_head(void *context, const void *key, size_t key_bytes, const void *value,
                     size_t value_bytes, struct err *e)
{
    struct range *r = context;
    struct table_schema schema = rig_schema(0);
    uint32_t table, tablet;
    uint64_t flushed;
    if (!stored_is_tablet(key, key_bytes, &table, &tablet))
        return 0;
    int rc = stored_tablet_head(value, value_bytes, &schema, tablet, &flushed, e);
    r->low = flushed < r->low ? flushed : r->low;
    r->high = flushed > r->high ? flushed : r->high;
    return rc;
}

/* The smallest and largest flushed_seq that the dead shard left in its store. */
static struct range stored_range(void)
{
    char rows[LIMIT_PATH + 16];
    struct range r = {UINT64_MAX, 0};
    struct store *store;
    struct err e = {0};
    snprintf(rows, sizeof rows, "%s/rows", dir);
    ck_assert_msg(store_rocks_open_copy(rows, &store, &e) == 0, "%s", e.text);
    ck_assert_msg(store_scan(store, note_head, &r, &e) == 0, "%s", e.text);
    store_close(store);
    return r;
}

START_TEST(killed_shard_comes_back_from_rows_and_journal)
{
    struct engine_stats stats;
    shared->batches = 1000; /* over twice the journal's cap */
    rig_in_child(train_child, NULL);
    ck_assert_uint_gt(shared->image_bytes, 0);
    struct range stored = stored_range();
    /* so the records in between act on some tablets only */
    ck_assert_uint_lt(stored.low, stored.high);
    reopen();
    check_same();
    engine_stats_get(s.g, &stats);
    ck_assert_uint_lt(stats.replayed, 2000);
    ck_assert_uint_gt(stats.replayed, shared->sequence - stored.high);
    /* The shard continues, is killed again, and restarts again. */
    rig_train(&s, 1, 0, 0, 1000, 1005);
    note();
    rig_close(&s, false);
    reopen();
    check_same();
    rig_close(&s, true);
}
END_TEST

START_TEST(clean_stop_replays_nothing)
{
    struct engine_stats stats;
    shared->batches = 50;
    rig_in_child(train_child, NULL);
    reopen();
    rig_close(&s, true);
    reopen();
    check_same();
    engine_stats_get(s.g, &stats);
    ck_assert_uint_eq(stats.tablets_dirty, 0);
    ck_assert_uint_eq(stats.flushed_sequence, shared->sequence);
    rig_close(&s, false);
}
END_TEST

/* Pushes batches of lane 0, without a flush, until one is refused. Returns the last accepted
 * one. */
static uint64_t fill_journal(void)
{
    struct push_plan plan;
    for (uint64_t batch = 0;; batch++) {
        rig_push_make(&p, 1, 0, 0, 0, batch, batch + 1);
        if (rig_push(&s, &p, &plan) == SHOAL_E_BUSY)
            return batch;
    }
}

/* Killed between the flush of the store and the journal's trim. */
static void full_child(void *context)
{
    struct err e = {0};
    (void)context;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    shared->batches = (uint32_t)fill_journal();
    s.g->cut_busy = true; /* nothing is trimmed */
    embedding_env_run(&s.env);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    note();
}

START_TEST(a_full_journal_of_which_all_is_stored_takes_pushes_again)
{
    struct push_plan plan;
    rig_in_child(full_child, NULL);
    reopen();
    check_same();
    rig_push_make(&p, 1, 0, 0, 0, shared->batches, shared->batches + 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_BUSY);
    engine_flush_step(s.g);
    embedding_env_run(&s.env);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    rig_close(&s, false);
}
END_TEST

START_TEST(resend_after_restart_is_skipped)
{
    struct push_plan plan;
    shared->batches = 10;
    rig_in_child(train_child, NULL);
    reopen();
    rig_push_make(&p, 1, 0, 0, 0, 9, 10);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    ck_assert_uint_eq(plan.skipped, 16);
    check_same();
    rig_push_make(&p, 1, 0, 0, 0, 10, 11);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    ck_assert_uint_eq(plan.applied, 16);
    rig_close(&s, false);
}
END_TEST

static void fence_child(void *context)
{
    uint64_t mark;
    (void)context;
    shared->batches = 5;
    train_child(NULL);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 7, true, NULL, &mark, NULL), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 8, false, NULL, &mark, NULL), 0);
    rig_train(&s, 1, 0, 7, 5, 9);
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 9, true, NULL, &mark, NULL), 0); /* offset 4 */
    ck_assert_int_eq(engine_clock(s.g, 1, 1, 6, &shared->clock, &shared->low), 0);
    ck_assert_uint_eq(shared->clock, 10);
    note();
}

START_TEST(fences_and_clocks_survive)
{
    uint64_t clock, low, mark;
    for (int flush = 0; flush < 2; flush++) {
        if (flush == 0)
            rig_in_child(fence_child, NULL);
        reopen();
        check_same();
        ck_assert_uint_eq(engine_lane_generation(s.g, 1, 0), 7);
        ck_assert_uint_eq(engine_lane_generation(s.g, 1, 1), 9);
        ck_assert(engine_lane_live(s.g, 1, 0) && engine_lane_live(s.g, 1, 1));
        ck_assert_int_eq(engine_clock(s.g, 1, 1, 6, &clock, &low), 0);
        ck_assert_uint_eq(clock, shared->clock);
        ck_assert_uint_eq(low, shared->low);
        ck_assert_int_eq(engine_fence(s.g, 1, 0, 6, true, NULL, &mark, NULL), SHOAL_E_FENCED);
        rig_close(&s, true); /* the second round reads it from the store instead */
    }
}
END_TEST

/* Only control records, in two segments. */
static void control_child(void *context)
{
    uint64_t mark;
    (void)context;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 7, true, NULL, &mark, NULL), 0);
    ck_assert_int_eq(journal_roll(s.g->journal, NULL), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 9, true, NULL, &mark, NULL), 0);
    note();
}

/* Replayed changes must be written like new ones: no segment may be removed before. */
START_TEST(a_control_state_that_was_replayed_is_written)
{
    struct err e = {0};
    rig_in_child(control_child, NULL);
    for (int turn = 0; turn < 3; turn++) {
        reopen();
        check_same();
        ck_assert_uint_eq(engine_lane_generation(s.g, 1, 0), 7);
        ck_assert_uint_eq(engine_lane_generation(s.g, 1, 1), 9);
        ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(s.g->control_durable, shared->sequence);
        rig_close(&s, false);
    }
}
END_TEST

/* Rows are stored; a record of lane 0 has a segment of its own, records of lane 1 the next: the
 * rows lack none of them. */
static void rolled_child(void *context)
{
    static const uint32_t lane[] = {0, 0, 1, 1};
    struct push_plan plan;
    struct err e = {0};
    (void)context;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    for (uint64_t i = 0; i < 4; i++) {
        rig_push_make(&p, 1, 0, lane[i], 0, i % 2, i % 2 + 1);
        ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
        if (i == 0)
            ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
        if (i < 2)
            ck_assert_int_eq(journal_roll(s.g->journal, NULL), 0);
    }
    note();
}

static const char *segment(int n, char *path);

/* The journal may begin with the record after the stored state, but with no later one. */
START_TEST(a_journal_begins_where_what_is_stored_ends)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    rig_in_child(rolled_child, NULL);
    for (int gone = 0; gone < 2; gone++) {
        ck_assert_int_eq(unlink(segment(0, path)), 0);
        int rc = rig_try_open(&s, dir, DURABLE_JOURNAL, &e);
        ck_assert_msg(rc == (gone == 0 ? 0 : SHOAL_E_CORRUPT), "%s", e.text);
        if (rc != 0)
            continue;
        rig_come_back(&s);
        rig_lead(&s);
        check_same();
        rig_close(&s, false);
    }
}
END_TEST

/* A tablet from the store is not written with the sequence of an older record that is replayed. */
START_TEST(an_image_is_never_older_than_the_one_before)
{
    uint64_t flushed;
    struct err e = {0};
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 4);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    struct engine_table *t = &s.g->table[0];
    const uint64_t durable = t->durable[3];
    for (uint64_t sequence = durable - 1; sequence <= durable + 1; sequence++) {
        uint64_t expected = sequence > durable ? sequence : durable;
        s.g->flush.items = s.g->flush.bytes = 0;
        ck_assert(flush_room(s.g, 1, 8u << 20));
        flush_put_image(s.g, 0, 3, sequence);
        ck_assert_uint_eq(t->written[3], expected);
        const struct store_item *item = &s.g->flush.item[0];
        ck_assert_int_eq(stored_tablet_head(item->value, item->value_bytes,
                                            table_schema_of(t->table), 3, &flushed, &e),
                         0);
        ck_assert_uint_eq(flushed, expected);
    }
    rig_close(&s, false);
}
END_TEST

/* All is stored, and the next record changes the schema. */
static void change_child(void *context)
{
    struct table_schema schema = rig_schema(0);
    struct err e = {0};
    (void)context;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 2);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(flush_dirty(s.g), 0);
    schema.optimizer.lr = 0.5f;
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(flush_dirty(s.g), 16);
    note();
}

/* Tablets that were stored before the change must be written again. */
START_TEST(a_change_that_was_replayed_is_written)
{
    struct err e = {0};
    struct table_schema schema = rig_schema(0);
    schema.optimizer.lr = 0.25f;
    rig_in_child(change_child, NULL);
    reopen();
    check_same();
    ck_assert_uint_eq(flush_dirty(s.g), 16);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text); /* once more */
    rig_close(&s, false);
    reopen();
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 2);
    rig_close(&s, false);
}
END_TEST

static void undo_child(void *context)
{
    struct push_plan plan;
    (void)context;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, 2, NULL), 0);
    for (uint64_t batch = 0; batch < 3; batch++) {
        rig_push_make(&p, 1, 0, 0, 0, batch, batch + 1);
        if (batch < 2)
            ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    }
    table_pull(engine_table(s.g, 0), p.keys, SHARD_KEYS, shared->before);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    note();
}

START_TEST(undo_survives)
{
    float now[SHARD_KEYS * SHARD_WIDTH], then[SHARD_KEYS * SHARD_WIDTH];
    for (int flush = 0; flush < 2; flush++) {
        if (flush == 0)
            rig_in_child(undo_child, NULL);
        reopen();
        rig_push_make(&p, 1, 0, 0, 0, 2, 3);
        table_pull(engine_table(s.g, 0), p.keys, SHARD_KEYS, now);
        pull_before(engine_table(s.g, 0), p.keys, SHARD_KEYS, table_undo_clock(1, 3), then);
        ck_assert_int_ne(memcmp(now, shared->before, sizeof now), 0);
        ck_assert_int_eq(memcmp(then, shared->before, sizeof then), 0);
        rig_close(&s, true);
    }
}
END_TEST

static void drop_child(void *context)
{
    (void)context;
    reopen();
    rig_table(&s, 0);
    uint64_t run = 1;
    for (; run <= 40; run++) {
        /* more runs than may be open at once, each over in a while; the store is ahead of some
              * records */
        ck_assert_int_eq(engine_run_open(s.g, run, 1, 1, NULL), 0);
        rig_train(&s, run, 0, 0, 0, 40);
        if (run < 40)
            ck_assert_int_eq(engine_run_drop(s.g, run, NULL), 0);
    }
    note();
}

START_TEST(dropped_runs_are_replayed_and_gone)
{
    uint32_t mode, lanes;
    rig_in_child(drop_child, NULL);
    ck_assert_uint_gt(shared->image_bytes, 0);
    reopen();
    ck_assert_uint_eq(rig_digest(&s), shared->digest);
    ck_assert_int_eq(engine_run_mode(s.g, 40, &mode, &lanes), 0);
    ck_assert_uint_eq(engine_mark(s.g, 40, 0, 0), 40);
    for (uint64_t run = 1; run < 40; run++)
        ck_assert_int_eq(engine_run_mode(s.g, run, &mode, &lanes), SHOAL_E_NOT_FOUND);
    rig_close(&s, false);
}
END_TEST

/* Returns the path of the n-th segment. */
static const char *segment(int n, char *path)
{
    struct dirent **list;
    char folder[LIMIT_PATH + 16];
    snprintf(folder, sizeof folder, "%s/journal", dir);
    int count = scandir(folder, &list, NULL, alphasort);
    path[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (strncmp(list[i]->d_name, "seg-", 4) == 0 && n-- == 0)
            snprintf(path, LIMIT_PATH, "%.700s/%.64s", folder, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return path;
}

static void flip(const char *path, off_t at)
{
    char c;
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c ^= 1;
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void open_child(void *context)
{
    (void)context;
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
}

/* Half of the tablets are stored, as of after the run's drop; the others were never stored. */
static void half_stored_child(void *context)
{
    struct err e = {0};
    (void)context;
    reopen(); /* a segment of its own */
    struct engine_table *t = &s.g->table[0];
    rig_train(&s, 1, 0, 0, 0, 3);
    uint64_t durable = t->durable[8]; /* just before the first push */
    ck_assert_int_eq(engine_run_drop(s.g, 1, &e), 0);
    ck_assert_int_eq(engine_run_open(s.g, 2, 2, 1, &e), 0);
    flush_trim(s.g); /* nothing is removed yet, and the run is still known */
    s.g->flush.items = s.g->flush.bytes = 0;
    ck_assert(flush_room(s.g, 9, 8u << 20));
    for (uint32_t k = 0; k < 8; k++)
        flush_put_image(s.g, 0, k, s.g->sequence);
    ck_assert_int_eq(flush_put_control(s.g, s.g->sequence), 0);
    ck_assert_msg(store_write(s.g->store, s.g->flush.item, s.g->flush.items, &e) == 0, "%s",
                  e.text);
    ck_assert_msg(store_flush(s.g->store, &e) == 0, "%s", e.text);
    for (uint32_t k = 0; k < 8; k++)
        t->durable[k] = t->written[k];
    ck_assert_uint_eq(t->durable[8], durable);
    s.g->control_durable = s.g->control_written;
    uint32_t segments = journal_segment_count(s.g->journal);
    flush_trim(s.g);
    /* the record that opened the run is gone */
    ck_assert_uint_lt(journal_segment_count(s.g->journal), segments);
    note();
}

/* The second recovery uses the control state that the first one wrote. */
START_TEST(a_run_that_was_dropped_is_known_to_recoveries_that_replay_its_pushes)
{
    struct err e = {0};
    rig_in_child(open_child, NULL);
    rig_in_child(half_stored_child, NULL);
    for (int turn = 0; turn < 2; turn++) {
        reopen();
        check_same();
        ck_assert_ptr_null(runs_find(&s.g->runs, 1));
        ck_assert_ptr_nonnull(runs_find(&s.g->runs, 2));
        ck_assert_uint_eq(s.g->runs.past_count, 1);
        if (turn == 0)
            rig_close(&s, false);
    }
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(s.g->runs.past_count, 0); /* it is needed no more */
    rig_close(&s, false);
}
END_TEST

START_TEST(torn_last_record_is_as_if_never_sent)
{
    char path[LIMIT_PATH];
    struct engine_stats stats;
    shared->batches = 3;
    rig_in_child(train_child, NULL);
    segment(0, path);
    ck_assert_int_eq(truncate(path, (off_t)shared->journal_bytes - 40), 0);
    reopen();
    engine_stats_get(s.g, &stats);
    ck_assert_uint_eq(stats.sequence, shared->sequence - 1);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 3);
    ck_assert_uint_eq(engine_mark(s.g, 1, 1, 0), 2);
    rig_train(&s, 1, 1, 0, 2, 3); /* repeated, it ends at the same place */
    check_same();
    rig_close(&s, false);
}
END_TEST

/* Rows are stored whose records the journal has lost: new records must get higher numbers, or they
 * would pass for part of the stored rows. */
START_TEST(records_go_on_behind_what_is_stored)
{
    char path[LIMIT_PATH], c = 0;
    shared->batches = 20;
    rig_in_child(train_child, NULL);
    reopen();
    rig_close(&s, true);
    int fd = open(segment(0, path), O_RDONLY);
    off_t at = lseek(fd, 0, SEEK_END);
    while (c == 0) /* find the last record */
        ck_assert_int_eq(pread(fd, &c, 1, --at), 1);
    close(fd);
    flip(path, at);
    reopen();
    check_same();
    rig_train(&s, 1, 0, 0, 20, 21);
    note();
    rig_close(&s, false);
    reopen();
    check_same();
    rig_close(&s, false);
}
END_TEST

/* The images of some tablets are ahead of a journal that has lost its end, those of others are
 * not. */
START_TEST(a_journal_that_ends_before_some_stored_rows_is_refused)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    reopen();
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 4);
    ck_assert_int_eq(flush_all(s.g, &e), 0);
    rig_train(&s, 1, 0, 0, 4, 8);
    s.g->flush.items = s.g->flush.bytes = 0;
    ck_assert(flush_room(s.g, 2, stored_tablet_bytes(s.g->table[0].table, &s.g->runs, 0)));
    flush_put_image(s.g, 0, 0, s.g->sequence);
    ck_assert_int_eq(flush_put_control(s.g, s.g->sequence), 0);
    ck_assert_int_eq(store_write(s.g->store, s.g->flush.item, s.g->flush.items, &e), 0);
    ck_assert_int_eq(store_flush(s.g->store, &e), 0);
    uint64_t bytes = journal_bytes(s.g->journal);
    rig_close(&s, false);
    ck_assert_int_eq(truncate(segment(0, path), (off_t)bytes - 40), 0);
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_JOURNAL, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "those of some tablets only up to 6"));
}
END_TEST

START_TEST(flipped_byte_in_the_middle_is_refused)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    shared->batches = 150; /* over three segments, the first of them synced */
    rig_in_child(train_child, NULL);
    flip(segment(0, path), 500000);
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_JOURNAL, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, path));
    flip(path, 500000);
    reopen();
    check_same();
    rig_close(&s, false);
}
END_TEST

START_TEST(missing_journal_is_refused)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    shared->batches = 1000;
    rig_in_child(train_child, NULL);
    while (access(segment(1, path), F_OK) == 0)
        unlink(segment(0, path));
    int rc = rig_try_open(&s, dir, DURABLE_JOURNAL, &e);
    ck_assert_int_eq(rc, SHOAL_E_CORRUPT);
}
END_TEST

START_TEST(damaged_image_is_named)
{
    char command[LIMIT_PATH + 256];
    struct err e = {0};
    shared->batches = 20;
    rig_in_child(train_child, NULL);
    reopen();
    rig_close(&s, true);
    /* RocksDB's own checksums find this first; the message must say where. */
    snprintf(command, sizeof command,
             "f=$(ls -S '%.900s'/rows/*.blob | head -1); printf XXXXXXXX | dd of=\"$f\" bs=1 "
             "seek=20000 conv=notrunc "
             "2>/dev/null",
             dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_JOURNAL, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, dir));
}
END_TEST

/* Takes the control state out of a closed engine's store, or puts it in; NULL removes it. */
struct control_value {
    uint8_t bytes[65536];
    size_t count;
};

static int control_take(void *context, const void *key, size_t key_bytes, const void *value,
                        size_t value_bytes, struct err *e)
{
    struct control_value *c = context;
    (void)e;
    if (!stored_is_control(key, key_bytes))
        return 0;
    ck_assert_uint_le(value_bytes, sizeof c->bytes);
    memcpy(c->bytes, value, value_bytes);
    c->count = value_bytes;
    return 0;
}

static void control_exchange(struct control_value *out, const struct control_value *in)
{
    char path[LIMIT_PATH + 16];
    struct err e = {0};
    struct store *store;
    struct store_item item;
    snprintf(path, sizeof path, "%s/rows", dir);
    ck_assert_msg(store_rocks_open(path, 0, &store, &e) == 0, "%s", e.text);
    if (out != NULL) {
        out->count = 0;
        ck_assert_int_eq(store_scan(store, control_take, out, &e), 0);
        ck_assert_uint_gt(out->count, 40);
    } else {
        stored_control_key(&item);
        item.value = in == NULL ? NULL : in->bytes;
        item.value_bytes = in == NULL ? 0 : in->count;
        ck_assert_int_eq(store_write(store, &item, 1, &e), 0);
        ck_assert_int_eq(store_flush(store, &e), 0);
    }
    store_close(store);
}

/* The same control state in the form of 0.2.0: without `cleared` and `barrier`, and without the
 * schemas of the tables. */
static void control_shorten(struct control_value *c)
{
    const uint64_t magic = 0x334c5254434c4853ull;
    size_t from = 64, to = 48;
    uint32_t tables;
    memcpy(&tables, c->bytes + 24, sizeof tables);
    for (uint32_t i = 0; i < tables; i++) {
        uint64_t schema;
        memcpy(&schema, c->bytes + from, sizeof schema);
        memmove(c->bytes + to, c->bytes + from, sizeof schema + schema);
        to += sizeof schema + schema;
        from += sizeof schema + schema + sizeof(struct table_past) + sizeof(uint64_t);
    }
    memmove(c->bytes + to, c->bytes + from, c->count - from);
    c->count -= from - to;
    memcpy(c->bytes, &magic, sizeof magic);

    uint64_t sum = hash_bytes(c->bytes + 16, c->count - 16, magic);
    memcpy(c->bytes + 8, &sum, sizeof sum);
}

START_TEST(an_older_control_state_is_read)
{
    static struct control_value c;
    shared->batches = 20;
    train_child(NULL);
    rig_close(&s, true);
    control_exchange(&c, NULL);
    control_shorten(&c);
    control_exchange(NULL, &c);
    reopen();
    check_same();
    ck_assert_uint_eq(engine_newest_run(s.g), 1);
    rig_close(&s, false);
    c.bytes[20] ^= 1;
    control_exchange(NULL, &c);
    struct err e = {0};
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_JOURNAL, &e), SHOAL_E_CORRUPT);
}
END_TEST

START_TEST(tablets_without_a_control_state_are_refused)
{
    struct err e = {0};
    shared->batches = 20;
    train_child(NULL);
    rig_close(&s, true);
    control_exchange(NULL, NULL);
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_JOURNAL, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "no control state"));
}
END_TEST

/* A control state that is older than the tablets: their records would be replayed a second time. */
START_TEST(tablets_beyond_the_control_state_are_refused)
{
    static struct control_value c;
    struct err e = {0};
    shared->batches = 20;
    train_child(NULL);
    rig_close(&s, true);
    control_exchange(&c, NULL);
    reopen();
    rig_lead(&s);
    rig_train(&s, 1, 0, 0, 20, 21);
    rig_close(&s, true);
    control_exchange(NULL, &c);
    ck_assert_int_eq(rig_try_open(&s, dir, DURABLE_JOURNAL, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "is stored as of record"));
}
END_TEST

/* Only tables that a load was filling are removed, from their first tablet and pair to their
 * last. */
START_TEST(an_unfinished_load_goes_and_nothing_else)
{
    enum { EACH = 4 };
    static const uint32_t number[] = {0, 63, 254, LIMIT_TABLES - 1};
    char value[17];
    size_t bytes[17];
    struct store_item item[17];
    struct store *store;
    struct err e = {0};
    ck_assert_msg(store_rocks_open(dir, 0, &store, &e) == 0, "%s", e.text);
    for (uint32_t i = 0; i < 4; i++) {
        struct store_item *of = item + EACH * i;
        stored_tablet_key(number[i], 0, &of[0]);
        stored_tablet_key(number[i], 65535, &of[1]);
        stored_row_key(number[i], 0, 0, key_unmix(0), &of[2]);
        stored_row_key(number[i], 65535, STORED_EPOCH_MAX, key_unmix(UINT64_MAX), &of[3]);
    }
    stored_load_key(table_set_one(number[_i]), &item[16]);
    for (uint32_t i = 0; i < 17; i++) {
        item[i].value = "x";
        item[i].value_bytes = 1;
    }
    ck_assert_int_eq(store_write(store, item, 17, &e), 0);
    ck_assert_int_eq(recover_clear_load(store, table_set_one(number[_i]), &e), 0);
    ck_assert_int_eq(store_get(store, item, 17, value, 1, bytes, &e), 0);
    for (uint32_t i = 0; i < 17; i++)
        ck_assert_uint_eq(bytes[i], i < 16 && i / EACH != (uint32_t)_i);
    store_close(store);
}
END_TEST

static uint64_t beside_bytes(void)
{
    struct table_counts counts;
    table_counts_get(engine_table(s.g, 0), &counts);
    return counts.beside_bytes;
}

static void drop_bsp_child(void *context)
{
    (void)context;
    reopen();
    rig_table(&s, 0);
    uint64_t none = beside_bytes();
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, RUN_BSP, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 3);
    ck_assert_uint_gt(beside_bytes(), none);
    ck_assert_int_eq(engine_run_drop(s.g, 1, NULL), 0);
    ck_assert_uint_eq(beside_bytes(), none);
    note();
}

START_TEST(undo_of_a_run_that_was_dropped_does_not_come_back)
{
    rig_in_child(drop_bsp_child, NULL);
    reopen();
    check_same();
    for (uint32_t k = 0; k < 1u << SHARD_TABLET_BITS; k++)
        ck_assert_ptr_null(engine_table(s.g, 0)->tablets[k].undo);
    rig_close(&s, false);
}
END_TEST

static void fsync_child(void *context)
{
    (void)context;
    rig_open(&s, dir, DURABLE_FSYNC);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 30);
    rig_train(&s, 1, 1, 0, 0, 30);
    note();
    ck_assert_uint_eq(engine_acknowledged(s.g), shared->sequence);
}

START_TEST(fsync_mode_comes_back_too)
{
    rig_in_child(fsync_child, NULL);
    rig_open(&s, dir, DURABLE_FSYNC);
    check_same();
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recover");
    TCase *in_steps = tcase_create("in_steps"), *at_once = tcase_create("at_once");
    tcase_add_checked_fixture(in_steps, setup_steps, NULL);
    tcase_add_test(at_once, tablets_beyond_the_control_state_are_refused);
    tcase_add_loop_test(at_once, an_unfinished_load_goes_and_nothing_else, 0, 4);
    for (int i = 0; i < 2; i++) {
        TCase *t = i == 0 ? at_once : in_steps;
        tcase_add_checked_fixture(t, setup, teardown);
        tcase_set_timeout(t, 120);
        tcase_add_test(t, killed_shard_comes_back_from_its_journal);
        tcase_add_loop_test(t, floor_is_below_what_is_still_to_be_written, 0, 17);
        tcase_add_loop_test(t, the_stored_floor_is_below_what_is_still_to_be_written, 0, 16);
        tcase_add_test(t, killed_shard_comes_back_from_rows_and_journal);
        tcase_add_test(t, clean_stop_replays_nothing);
        tcase_add_test(t, a_full_journal_of_which_all_is_stored_takes_pushes_again);
        tcase_add_test(t, resend_after_restart_is_skipped);
        tcase_add_test(t, fences_and_clocks_survive);
        tcase_add_test(t, a_control_state_that_was_replayed_is_written);
        tcase_add_test(t, a_journal_begins_where_what_is_stored_ends);
        tcase_add_test(t, an_image_is_never_older_than_the_one_before);
        tcase_add_test(t, a_change_that_was_replayed_is_written);
        tcase_add_test(t, undo_survives);
        tcase_add_test(t, dropped_runs_are_replayed_and_gone);
        tcase_add_test(t, undo_of_a_run_that_was_dropped_does_not_come_back);
        tcase_add_test(t, a_run_that_was_dropped_is_known_to_recoveries_that_replay_its_pushes);
        tcase_add_test(t, torn_last_record_is_as_if_never_sent);
        tcase_add_test(t, records_go_on_behind_what_is_stored);
        tcase_add_test(t, a_journal_that_ends_before_some_stored_rows_is_refused);
        tcase_add_test(t, flipped_byte_in_the_middle_is_refused);
        tcase_add_test(t, missing_journal_is_refused);
        tcase_add_test(t, fsync_mode_comes_back_too);
        tcase_add_test(t, an_older_control_state_is_read);
        tcase_add_test(t, tablets_without_a_control_state_are_refused);
        tcase_add_test(t, a_table_of_16_bits_comes_back_from_its_journal);
        suite_add_tcase(suite, t);
    }
    tcase_add_test(at_once, damaged_image_is_named); /* in steps: test_reload.c */
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
