/* test_follow.c: a leader and a follower of its records: after random operations both have the same
 * rows, marks, runs and terms, bit for bit, wherever rows are and whatever the durability; so they
 * have after both were closed and recovered. SHOAL_SEEDS=N tries N seeds. */
#include "embedding/follow.h"

#include "embedding/engine/engine_state.h"
#include "embedding/journal/tail.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/kill_step.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLES 3u
#define LANES 2u
#define KEYS 400u
#define SPAN 40000u
#define WIDTH 16u
#define GROUP 4u
#define PART 60000u /* bytes of an answer */
#define DAY 86400u

static struct rig one, two;
static struct rig *lead = &one, *tail = &two;
static char lead_dir[LIMIT_PATH], tail_dir[LIMIT_PATH];
static struct rng chance;
static uint64_t run, mark[TABLES][LANES], newest_cut, newest_run, cut_mark[TABLES][LANES], term;
static uint64_t generation, cut_generation;
static bool has[TABLES];
static uint32_t hour, changes, spilled;

/* ---- the leader ---- */

static struct table_schema schema_of(uint32_t number)
{
    struct table_schema s = rig_schema(number);
    s.width = WIDTH;
    if (number == 1) { /* rows are admitted late, and age */
        s.rules.stats = 1;
        s.rules.score_show = 0.1f;
        s.rules.score_click = 1;
        s.rules.age_every = DAY;
        s.rules.age_decay = 0.8f;
        s.rules.age_score = 0.15f;
        s.rules.age_ttl = 3 * DAY;
        s.rules.admit_kind = ADMIT_COUNT;
        s.rules.admit_threshold = 2;
    }
    return s;
}

static void pair_open(enum durability durability, bool folders, uint64_t memory)
{
    struct err e;
    struct engine_options o = {.dir = folders ? lead_dir : NULL,
                               .durability = durability,
                               .journal_max = 8u << 20,
                               .segment_bytes = 1u << 20,
                               .disk_watermark = 1};
    ck_assert_msg(rig_try_open_with(lead, &o, &e) == 0, "%s", e.text);
    o.dir = folders ? tail_dir : NULL;
    o.memory = memory;
    ck_assert_msg(rig_try_open_with(tail, &o, &e) == 0, "%s", e.text);
    rig_lead(lead);
    ck_assert_int_eq(engine_tail(lead->g, 1u << 20, &e), 0);
}

/* Opens a closed engine with its options and this one. */
static int again(struct rig *s, uint64_t until, struct err *e)
{
    struct engine_options o = s->options;
    o.until = until;
    return rig_try_open_with(s, &o, e);
}

static void setup(void)
{
    rig_dir(lead_dir);
    rig_dir(tail_dir);
    lead = &one;
    tail = &two;
    run = newest_cut = newest_run = term = generation = 0;
    hour = changes = 0;
    memset(mark, 0, sizeof mark);
    memset(has, 0, sizeof has);
    chance = rng_of(1, 2, 3);
}

static void teardown(void)
{
    rig_remove_dir(lead_dir);
    rig_remove_dir(tail_dir);
}

static uint32_t keys_make(uint64_t *keys, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        keys[i] = key_make(1, rng_below(&chance, SPAN));
    qsort(keys, count, sizeof keys[0], key_by_mixed);
    for (uint32_t i = 0; i < count; i++)
        if (n == 0 || keys[n - 1] != keys[i])
            keys[n++] = keys[i];
    return n;
}

/* Repeats a call while it needs work to end first. */
#define PERSIST(side, rc, call)                                                                    \
    do {                                                                                           \
        (rc) = (call);                                                                             \
        for (int tries = 0; tries < 3000 && ((rc) == SHOAL_E_BUSY || (rc) == SHOAL_E_AGAIN);       \
             tries++) {                                                                            \
            engine_flush_step((side)->g);                                                          \
            embedding_env_step(&(side)->env);                                                      \
            (rc) = (call);                                                                         \
        }                                                                                          \
    } while (0)

static void op_push(void)
{
    static uint64_t keys[KEYS];
    static float gradients[KEYS * (WIDTH + 2)];
    uint32_t table = (uint32_t)rng_below(&chance, TABLES),
             lane = (uint32_t)rng_below(&chance, LANES);
    if (!has[table] || run == 0)
        return;
    uint32_t n = keys_make(keys, KEYS),
             floats = schema_push_floats(table_schema_of(lead->g->table[table].table));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t f = 0; f < floats; f++)
            gradients[i * floats + f] = f < WIDTH ? rng_float(&chance) - 0.5f : f == WIDTH ? 1 : 0;
    hour += (uint32_t)rng_below(&chance, 3);
    struct push_record r = {.run = run,
                            .generation = generation,
                            .from = mark[table][lane],
                            .to = mark[table][lane] + 1 + rng_below(&chance, 2),
                            .lane = lane,
                            .table = table,
                            .tablet_count = 1u << SHARD_TABLET_BITS,
                            .lr_scale = 1,
                            .key_count = n,
                            .event_time = 1700006400 + hour * 3600,
                            .keys = keys,
                            .gradients = gradients};
    struct push_plan plan;
    struct err e = {0};
    int rc;
    PERSIST(lead, rc,
            engine_warm(lead->g, table, keys, n) ? engine_admit_push(lead->g, &r, &plan, &e)
                                                 : SHOAL_E_AGAIN);
    ck_assert_msg(rc == 0, "push: %s", e.text);
    ck_assert_int_eq(engine_commit(lead->g), 0);
    ck_assert_int_eq(engine_apply_push(lead->g, &r, &plan), 0);
    mark[table][lane] = r.to;
    engine_flush_step(lead->g);
}

static void op_fence(bool anew)
{
    struct err e;
    uint64_t is;
    generation += anew;
    for (uint32_t lane = 0; lane < LANES && run != 0; lane++)
        ck_assert_int_eq(
            engine_fence(lead->g, run, lane, generation, rng_below(&chance, 4) > 0, NULL, &is, &e),
            0);
}

static void op_run(void)
{
    struct err e = {0};
    int rc;
    if (run != 0 && rng_below(&chance, 2) == 0) {
        PERSIST(lead, rc, engine_run_drop(lead->g, run, &e));
        ck_assert_msg(rc == 0, "%s", e.text);
    }
    if (run != 0 && lead->g->runs.count >= 4) {
        uint64_t oldest = lead->g->runs.run[0]->id;
        PERSIST(lead, rc, engine_run_drop(lead->g, oldest, &e));
        ck_assert_msg(rc == 0, "%s", e.text);
    }
    run = ++newest_run;
    memset(mark, 0, sizeof mark);
    generation = 0;
    rc = engine_run_open(lead->g, run, LANES, rng_below(&chance, 2) ? RUN_BSP : RUN_SSP, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    op_fence(true);
}

static void op_table(uint32_t number)
{
    struct err e = {0};
    int rc;
    struct table_schema s = schema_of(number);
    if (has[number]) {
        s.optimizer.lr = 0.01f + 0.01f * (float)(++changes % 7);
        newest_cut = 0; /* it has the schemas of before */
    }
    PERSIST(lead, rc, engine_table_create(lead->g, &s, &e));
    ck_assert_msg(rc == 0, "%s", e.text);
    has[number] = true;
}

static void op_keys(void)
{
    static const enum key_action actions[] = {KEY_ERASE, KEY_BLOCK, KEY_ALLOW, KEY_RESET,
                                              KEY_EVICT};
    uint64_t keys[64], changed;
    uint32_t table = (uint32_t)rng_below(&chance, TABLES);
    struct err e = {0};
    int rc;
    if (!has[table])
        return;
    uint32_t n = keys_make(keys, 64);
    PERSIST(lead, rc,
            engine_keys(lead->g, table, actions[rng_below(&chance, 5)], keys, n, &changed, &e));
    ck_assert_msg(rc == 0, "%s", e.text);
}

static bool cut_made;

static void on_cut(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)context, (void)rows, (void)bytes;
    ck_assert_int_eq(status, 0);
    cut_made = true;
}

static void cut_make(struct rig *s, uint64_t cut, uint64_t of, bool mark_it)
{
    uint64_t sequence;
    struct err e;
    int rc;
    cut_made = false;
    PERSIST(s, rc, engine_hold(s->g, cut, of, &sequence));
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(engine_go(s->g, cut, on_cut, NULL), 0);
    if (mark_it)
        ck_assert_int_eq(engine_cut_mark(s->g, cut, of, &e), 0);
    while (!cut_made)
        ck_assert(embedding_env_step(&s->env));
}

static void op_cut(uint64_t number)
{
    if (run == 0)
        return;
    if (newest_cut != 0)
        (void)engine_cut_drop(lead->g, newest_cut);
    cut_make(lead, number, run, true);
    newest_cut = number;
    memcpy(cut_mark, mark, sizeof mark);
    cut_generation = generation;
}

static void op_restore(void)
{
    struct err e = {0};
    int rc;
    if (newest_cut == 0)
        return;
    uint64_t to = ++newest_run;
    PERSIST(lead, rc, engine_restore(lead->g, newest_cut, to, &e));
    ck_assert_msg(rc == 0, "%s", e.text);
    run = to;
    memcpy(mark, cut_mark, sizeof mark);
    generation = 0;
    op_fence(true);
}

static void op(uint32_t number)
{
    struct err e;
    uint64_t dice = rng_below(&chance, 200);
    if (dice < 160)
        op_push();
    else if (dice < 166)
        op_fence(rng_below(&chance, 2) != 0);
    else if (dice < 169)
        op_run();
    else if (dice < 173)
        op_table((uint32_t)rng_below(&chance, TABLES));
    else if (dice < 185)
        op_keys();
    else if (dice < 191)
        op_cut(1000 + number);
    else if (dice < 194)
        op_restore();
    else if (dice < 196)
        ck_assert_int_eq(engine_term_begin(lead->g, term += 1 + rng_below(&chance, 3), &e), 0);
    else
        embedding_env_run(&lead->env);
}

/* ---- the follower ---- */

static struct answer {
    bool came;
    int status;
    size_t bytes;
    uint64_t last;
    _Alignas(8) char records[4u << 20];
} answer;

static void on_records(void *context, int status, const void *records, size_t bytes, uint64_t last)
{
    (void)context;
    ck_assert_uint_le(bytes, sizeof answer.records);
    if (bytes > 0)
        memcpy(answer.records, records, bytes);
    answer.came = true;
    answer.status = status;
    answer.bytes = bytes;
    answer.last = last;
}

static int ask(uint64_t after)
{
    struct err e = {0};
    answer.came = false;
    int rc = engine_records(lead->g, after, PART, on_records, NULL, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    while (!answer.came)
        ck_assert(embedding_env_step(&lead->env));
    return answer.status;
}

static struct engine_followed taken[GROUP];
static uint32_t groups;

static void group_apply(void)
{
    ck_assert_int_eq(engine_commit(tail->g), 0);
    for (uint32_t i = 0; i < groups; i++)
        ck_assert_int_eq(engine_apply_push(tail->g, &taken[i].push, &taken[i].plan), 0);
    groups = 0;
}

/* Takes the record at `at`. Returns its length. */
static size_t take_one(const char *at, size_t left)
{
    struct engine_followed *f = &taken[groups];
    struct err e = {0};
    ck_assert_int_eq(engine_follow_peek(tail->g, at, left, f, &e), 0);
    ck_assert_uint_eq(engine_follow_kind(at, left), f->kind);
    if (f->kind != RECORD_PUSH)
        group_apply();
    f = &taken[groups];
    ck_assert_int_eq(engine_follow_peek(tail->g, at, left, f, &e), 0);
    if (f->kind == RECORD_CUT)
        cut_make(tail, f->cut, f->run, false);
    int rc = engine_follow(tail->g, at, left, f, &e);
    for (int tries = 0; tries < 3000 && (rc == SHOAL_E_BUSY || rc == SHOAL_E_AGAIN); tries++) {
        group_apply();
        f = &taken[0];
        engine_flush_step(tail->g);
        embedding_env_step(&tail->env);
        rc = engine_follow(tail->g, at, left, f, &e);
    }
    ck_assert_msg(rc == 0, "record: %s", e.text);
    if (f->kind == RECORD_PUSH && ++groups == GROUP)
        group_apply();
    return f->bytes;
}

static void follow(void)
{
    while (tail->g->sequence < lead->g->committed) {
        int rc = ask(tail->g->sequence);
        if (rc == SHOAL_E_AGAIN)
            continue;
        ck_assert_int_eq(rc, 0);
        ck_assert_uint_gt(answer.bytes, 0);
        for (size_t at = 0; at < answer.bytes;)
            at += take_one(answer.records + at, answer.bytes - at);
        group_apply();
        ck_assert_uint_eq(tail->g->sequence, answer.last);
        engine_flush_step(tail->g);
    }
    engine_records_keep(lead->g, tail->g->sequence);
    uint64_t cut[64];
    uint32_t cuts = engine_cuts(tail->g, cut, 64);
    for (uint32_t i = 0; i < cuts; i++) /* now no record behind names them */
        if (cut[i] != newest_cut)
            (void)engine_cut_drop(tail->g, cut[i]);
}

/* ---- comparing ---- */

static void check_marks(const struct run *a, const struct run *b)
{
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint32_t lane = 0; lane < a->lanes; lane++)
            for (uint32_t k = 0; has[table] && k < 1u << SHARD_TABLET_BITS; k++)
                ck_assert_uint_eq(marks_get(a->marks, lane, table, k),
                                  marks_get(b->marks, lane, table, k));
}

static void check_runs(void)
{
    const struct runs *a = &lead->g->runs, *b = &tail->g->runs;
    ck_assert_uint_eq(runs_open(a), runs_open(b));
    ck_assert_uint_eq(a->newest, b->newest);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct run *x = a->run[i], *y = runs_find(b, x->id);
        ck_assert_ptr_nonnull(y);
        ck_assert(x->lanes == y->lanes && x->mode == y->mode &&
                  table_set_equal(x->tables, y->tables));
        for (uint32_t lane = 0; lane < x->lanes; lane++) {
            ck_assert_uint_eq(x->lane[lane].generation, y->lane[lane].generation);
            ck_assert_int_eq(x->lane[lane].offset, y->lane[lane].offset);
            ck_assert_uint_eq(x->lane[lane].live, y->lane[lane].live);
        }
        check_marks(x, y);
    }
}

static void check_equal(void)
{
    ck_assert_uint_eq(lead->g->sequence, tail->g->sequence);
    ck_assert_mem_eq(&lead->g->terms, &tail->g->terms, sizeof lead->g->terms);
    ck_assert_uint_eq(engine_last_term(tail->g), term);
    uint64_t common = 0;
    ck_assert_int_eq(engine_common(lead->g, term, tail->g->sequence + 1, &common), 0);
    ck_assert_uint_eq(common, tail->g->sequence);
    ck_assert_int_eq(engine_common(lead->g, term + 1, tail->g->sequence, &common),
                     SHOAL_E_NOT_FOUND);
    check_runs();
    for (uint32_t i = 0; i < TABLES; i++) {
        struct table *a = engine_table(lead->g, i), *b = engine_table(tail->g, i);
        ck_assert(a != NULL ? b != NULL && schema_equal(table_schema_of(a), table_schema_of(b))
                            : b == NULL);
        if (a != NULL && table_cold_rows(b) == 0) /* rows in the store have not aged yet */
            ck_assert_uint_eq(table_rows(a), table_rows(b));
        spilled += b != NULL && table_cold_rows(b) > 0;
    }
    ck_assert_uint_eq(cool_digest(lead), cool_digest(tail));
}

static void both_again(bool clean)
{
    struct err e;
    rig_close(lead, clean);
    rig_close(tail, clean && rng_below(&chance, 2));
    ck_assert_msg(again(lead, 0, &e) == 0, "%s", e.text);
    ck_assert_msg(again(tail, 0, &e) == 0, "%s", e.text);
    rig_lead(lead);
    check_equal();
    ck_assert_int_eq(engine_tail(lead->g, 1u << 20, &e), 0);
}

static void history(uint64_t seed, enum durability durability, bool folders, uint64_t memory)
{
    struct err e;
    setup();
    chance = rng_of(seed, 7, 7);
    pair_open(durability, folders, memory);
    for (uint32_t i = 0; i < 2; i++)
        op_table(i);
    op_run();
    uint32_t until = 0;
    for (uint32_t i = 0; i < 400; i++) {
        op(i);
        if (durability != DURABLE_MEMORY && rng_below(&chance, 60) == 0)
            ck_assert_int_eq(engine_tail(lead->g, rng_below(&chance, 2) ? 200000 : 1u << 20, &e),
                             0);
        if (i < until)
            continue;
        until = i + (uint32_t)rng_below(&chance, durability == DURABLE_MEMORY ? 10 : 60);
        follow();
        check_equal();
        if (durability != DURABLE_MEMORY && rng_below(&chance, 6) == 0)
            both_again(rng_below(&chance, 2) != 0);
    }
    follow();
    check_equal();
    if (durability != DURABLE_MEMORY)
        both_again(false);
    rig_close(lead, false);
    rig_close(tail, false);
    teardown();
}

static uint64_t seeds(void)
{
    const char *text = getenv("SHOAL_SEEDS");
    return text == NULL ? 3 : strtoull(text, NULL, 10);
}

START_TEST(a_follower_in_memory_is_the_same_bit_for_bit)
{
    for (uint64_t seed = 0; seed < seeds(); seed++)
        history(seed, DURABLE_MEMORY, seed % 2 != 0, 0);
}
END_TEST

START_TEST(a_follower_with_a_journal_is_the_same_bit_for_bit)
{
    for (uint64_t seed = 0; seed < seeds(); seed++)
        history(100 + seed, DURABLE_JOURNAL, true, 0);
}
END_TEST

START_TEST(a_follower_that_syncs_is_the_same_bit_for_bit)
{
    for (uint64_t seed = 0; seed < seeds(); seed++)
        history(200 + seed, DURABLE_FSYNC, true, 0);
}
END_TEST

START_TEST(a_follower_with_little_memory_is_the_same_bit_for_bit)
{
    spilled = 0;
    for (uint64_t seed = 0; seed < seeds(); seed++)
        history(300 + seed, DURABLE_JOURNAL, true, 5u << 20);
    ck_assert_uint_gt(spilled, 0);
}
END_TEST

static void begin_one(void)
{
    setup();
    pair_open(DURABLE_JOURNAL, true, 0);
    op_table(0);
    op_run();
    for (int i = 0; i < 8; i++)
        op_push();
    follow();
    check_equal();
}

static void end_one(void)
{
    follow();
    check_equal();
    rig_close(lead, false);
    rig_close(tail, false);
    teardown();
}

/* ---- another leader ---- */

static struct {
    uint64_t run, mark[TABLES][LANES], newest_run, term, generation;
    bool has[TABLES];
} shared;

static void shared_keep(void)
{
    shared.run = run;
    shared.newest_run = newest_run;
    shared.term = term;
    shared.generation = generation;
    memcpy(shared.mark, mark, sizeof mark);
    memcpy(shared.has, has, sizeof has);
}

/* The follower leads in a new term; what the old leader did since shared_keep is lost. */
static void change_hands(void)
{
    struct err e;
    struct rig *old = lead;
    lead = tail;
    tail = old;
    run = shared.run;
    newest_run = shared.newest_run;
    term = shared.term;
    generation = shared.generation;
    memcpy(mark, shared.mark, sizeof mark);
    memcpy(has, shared.has, sizeof has);
    newest_cut = 0;
    rig_lead(lead);
    ck_assert_int_eq(engine_tail(tail->g, 0, &e), 0);
    ck_assert_int_eq(engine_tail(lead->g, 1u << 20, &e), 0);
    term += 10; /* above those of the old leader that no other copy saw */
    ck_assert_int_eq(engine_term_begin(lead->g, term, &e), 0);
    ck_assert_int_eq(engine_term_begin(lead->g, term, &e), SHOAL_E_CONFIG);
}

static uint64_t common_of(void)
{
    uint64_t common = 0;
    ck_assert_int_eq(engine_common(lead->g, engine_last_term(tail->g), tail->g->sequence, &common),
                     0);
    return common;
}

START_TEST(an_old_leader_gives_up_what_the_new_one_lacks)
{
    struct err e;
    uint64_t cut[4];
    begin_one();
    shared_keep();
    uint64_t last = tail->g->sequence;
    for (int i = 0; i < 20; i++)
        op_push();
    op_cut(77);
    op_push();
    change_hands();
    for (int i = 0; i < 5; i++)
        op_push();
    ck_assert_uint_eq(common_of(), last);
    ck_assert_uint_eq(engine_cuts(tail->g, cut, 4), 1);
    rig_close(tail, false);
    ck_assert_msg(again(tail, last, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(tail->g->sequence, last);
    ck_assert_uint_eq(engine_cuts(tail->g, cut, 4), 0);
    follow();
    check_equal();
    both_again(false);
    end_one();
}
END_TEST

START_TEST(images_behind_until_are_not_found)
{
    struct err e;
    begin_one();
    shared_keep();
    uint64_t last = tail->g->sequence;
    for (int i = 0; i < 5; i++)
        op_push();
    change_hands();
    ck_assert_uint_eq(common_of(), last);
    uint64_t had = tail->g->sequence;
    rig_close(tail, true); /* its images have all of its own */
    ck_assert_int_eq(again(tail, last, &e), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(again(tail, 0, &e), 0); /* nothing has changed */
    ck_assert_uint_eq(tail->g->sequence, had);
    rig_close(tail, false);
    rig_close(lead, false);
    teardown();
}
END_TEST

START_TEST(records_behind_until_go_at_any_step)
{
    struct err e;
    begin_one();
    shared_keep();
    uint64_t last = tail->g->sequence, had = 0;
    uint32_t failed = 0;
    for (int i = 0; i < 360; i++) /* over several segments, which no image trims */
        op_push();
    change_hands();
    had = tail->g->sequence;
    ck_assert_uint_gt(journal_segment_count(tail->g->journal), 2);
    rig_close(tail, false);
    for (long at = 1;; at++) {
        kill_begin(at, EIO);
        int rc = again(tail, last, &e);
        kill_end();
        failed += rc != 0;
        if (rc == 0) {
            ck_assert_uint_eq(tail->g->sequence, last);
            break;
        }
        ck_assert_msg(again(tail, 0, &e) == 0, "step %ld: %s", at, e.text);
        ck_assert_uint_ge(tail->g->sequence, last);
        ck_assert_uint_le(tail->g->sequence, had);
        had = tail->g->sequence;
        rig_close(tail, false);
    }
    ck_assert_uint_ge(failed, 3);
    end_one();
}
END_TEST

START_TEST(leaders_take_turns)
{
    struct err e;
    uint64_t given = 0;
    for (uint64_t seed = 0; seed < 2 * seeds(); seed++) {
        setup();
        chance = rng_of(seed, 8, 8);
        pair_open(seed % 2 ? DURABLE_JOURNAL : DURABLE_FSYNC, true, 0);
        ck_assert_int_eq(engine_term_begin(lead->g, term = 1, &e), 0);
        for (uint32_t i = 0; i < 2; i++)
            op_table(i);
        op_run();
        for (uint32_t turn = 0; turn < 12; turn++) {
            for (uint64_t i = rng_below(&chance, 20); i > 0; i--)
                op(turn * 100 + (uint32_t)i);
            follow();
            check_equal();
            shared_keep();
            uint64_t last = tail->g->sequence;
            for (uint64_t i = rng_below(&chance, 12); i > 0; i--)
                op_push();
            change_hands();
            for (uint64_t i = rng_below(&chance, 12); i > 0; i--)
                op_push();
            ck_assert_uint_eq(common_of(), last);
            given += tail->g->sequence > last;
            rig_close(tail, false);
            int rc = again(tail, last, &e);
            if (rc == SHOAL_E_NOT_FOUND)
                break;
            ck_assert_msg(rc == 0, "%s", e.text);
            follow();
            check_equal();
            if (rng_below(&chance, 3) == 0)
                both_again(rng_below(&chance, 2) != 0);
        }
        rig_close(lead, false);
        if (tail->g != NULL) /* otherwise it would begin anew with a copy */
            rig_close(tail, false);
        teardown();
    }
    ck_assert_uint_gt(given, 5);
}
END_TEST

/* ---- refusals ---- */

/* Refused, the follower is as it was. */
static void refused(const void *at, size_t bytes, int status)
{
    struct engine_followed f;
    struct err e = {0};
    uint64_t sequence = tail->g->sequence, digest = cool_digest(tail);
    ck_assert_int_eq(engine_follow(tail->g, at, bytes, &f, &e), status);
    ck_assert_int_eq(e.code, status);
    ck_assert_uint_gt(strlen(e.text), 0);
    ck_assert_uint_eq(tail->g->sequence, sequence);
    ck_assert_uint_eq(tail->g->pending, 0);
    ck_assert_uint_eq(cool_digest(tail), digest);
}

START_TEST(a_flipped_bit_is_refused)
{
    begin_one();
    while (lead->g->sequence == tail->g->sequence)
        op_push();
    ck_assert_int_eq(ask(tail->g->sequence), 0);
    for (size_t at = 0; at < answer.bytes; at += 1 + at / 16) {
        answer.records[at] ^= 1 << at % 8;
        refused(answer.records, answer.bytes, SHOAL_E_CORRUPT);
        answer.records[at] ^= 1 << at % 8;
    }
    refused(answer.records, answer.bytes - 8, SHOAL_E_CORRUPT);
    refused(answer.records, 0, SHOAL_E_CORRUPT);
    end_one();
}
END_TEST

START_TEST(a_gap_is_refused)
{
    begin_one();
    for (uint64_t before = lead->g->sequence; lead->g->sequence < before + 2;)
        op_push();
    ck_assert_int_eq(ask(tail->g->sequence + 1), 0);
    refused(answer.records, answer.bytes, SHOAL_E_CORRUPT);
    ck_assert_int_eq(ask(tail->g->sequence - 1), 0);
    refused(answer.records, answer.bytes, SHOAL_E_CORRUPT);
    end_one();
}
END_TEST

/* A record of this kind, as the leader would send it next. */
static const void *crafted(struct record_header h, const void *payload, size_t bytes)
{
    struct record_payload p = {{payload, NULL}, {bytes, 0}};
    h.sequence = tail->g->sequence + 1;
    record_seal(&h, &p);
    memset(answer.records, 0, 4096);
    memcpy(answer.records, &h, sizeof h);
    if (bytes > 0)
        memcpy(answer.records + sizeof h, payload, bytes);
    return answer.records;
}

static void refused_record(enum record_kind kind, const void *payload, size_t bytes, int status)
{
    struct record_header h = {.kind = (uint16_t)kind};
    refused(crafted(h, payload, bytes), 4096, status);
}

START_TEST(an_unknown_run_is_refused)
{
    begin_one();
    struct record_fence fence = {.run = 99, .generation = 3};
    refused_record(RECORD_FENCE, &fence, sizeof fence, SHOAL_E_CORRUPT);
    fence = (struct record_fence){.run = run, .generation = 3, .lane = LANES};
    refused_record(RECORD_FENCE, &fence, sizeof fence, SHOAL_E_CORRUPT);
    fence = (struct record_fence){.run = run, .generation = generation - 1};
    refused_record(RECORD_FENCE, &fence, sizeof fence, SHOAL_E_CORRUPT);
    refused_record(RECORD_FENCE, &fence, sizeof fence - 8, SHOAL_E_CORRUPT);
    refused_record(RECORD_RUN_DROP, &(struct record_run_drop){99}, 8, SHOAL_E_CORRUPT);
    struct record_run_open open = {.run = run, .lanes = 1, .tables = TABLE_SET_ALL};
    refused_record(RECORD_RUN_OPEN_FAR, &open, sizeof open, SHOAL_E_CORRUPT);
    open = (struct record_run_open){.run = 99, .lanes = 0, .tables = TABLE_SET_ALL};
    refused_record(RECORD_RUN_OPEN_FAR, &open, sizeof open, SHOAL_E_CORRUPT);
    struct record_restore restore = {.cut = 7,
                                     .run = 99,
                                     .lanes = 1,
                                     .tables = table_set_word(1),
                                     .existing = table_set_word(1)};
    refused_record(RECORD_RESTORE_FAR, &restore, sizeof restore, SHOAL_E_CORRUPT);
    struct record_keys keys = {.table = 2, .action = KEY_ERASE};
    refused_record(RECORD_KEYS, &keys, sizeof keys, SHOAL_E_CORRUPT);
    keys.count = 5;
    refused_record(RECORD_KEYS, &keys, sizeof keys, SHOAL_E_CORRUPT);
    refused_record(RECORD_TABLE, &keys, sizeof keys, SHOAL_E_CORRUPT);
    refused_record(RECORD_TERM, &(struct record_term){0}, 8, SHOAL_E_CORRUPT);
    refused_record(RECORD_KINDS, NULL, 0, SHOAL_E_VERSION);
    end_one();
}
END_TEST

START_TEST(a_push_that_does_not_follow_is_refused)
{
    begin_one();
    struct record_header h = {.kind = RECORD_PUSH,
                              .flags = runs_find(&lead->g->runs, run)->mode == RUN_BSP,
                              .run = run,
                              .generation = generation,
                              .from = mark[0][0],
                              .to = mark[0][0] + 1,
                              .tablet_count = 1u << SHARD_TABLET_BITS,
                              .lr_scale = 1};
    struct record_header bad[] = {h, h, h, h, h, h, h, h};
    bad[0].run = 99;
    bad[1].generation++;
    bad[2].from++, bad[2].to++;              /* a gap */
    bad[3].from = 0, bad[3].to = mark[0][0]; /* every tablet has it */
    bad[4].flags ^= RECORD_FLAG_BSP;
    bad[5].table = 2;
    bad[6].tablet_first = 1;
    bad[7].to = bad[7].from;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(crafted(bad[i], NULL, 0), 4096, SHOAL_E_CORRUPT);
    struct engine_followed f;
    struct err e;
    ck_assert_int_eq(engine_follow_peek(tail->g, crafted(h, NULL, 0), 4096, &f, &e), 0);
    end_one();
}
END_TEST

START_TEST(a_base_is_refused)
{
    struct err e;
    begin_one();
    uint64_t before = tail->g->sequence;
    ck_assert_int_eq(engine_base_mark(lead->g, &e), 0);
    ck_assert_int_eq(ask(before), 0);
    refused(answer.records, answer.bytes, SHOAL_E_NOT_FOUND);
    rig_close(lead, false);
    rig_close(tail, false);
    ck_assert_int_eq(again(lead, 0, &e), 0);
    ck_assert_uint_eq(lead->g->sequence, before + 1); /* to a recovery it is nothing */
    rig_close(lead, true);
    teardown();
}
END_TEST

static void on_clear(void *context, int status, const char *text)
{
    (void)text;
    *(int *)context = status;
}

START_TEST(a_clear_is_a_base)
{
    struct err e;
    int status = 1;
    begin_one();
    uint64_t before = tail->g->sequence;
    ck_assert_int_eq(engine_clear(lead->g, newest_run + 1, TABLE_SET_ALL, on_clear, &status, &e),
                     0);
    while (status == 1)
        ck_assert(embedding_env_step(&lead->env));
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(lead->g->sequence, before + 1);
    ck_assert_int_eq(ask(before), 0);
    refused(answer.records, answer.bytes, SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(engine_tail(lead->g, 0, &e), 0);
    ck_assert_int_eq(ask(before), 0); /* from the journal, which waits for the follower */
    refused(answer.records, answer.bytes, SHOAL_E_NOT_FOUND);
    rig_close(lead, false);
    rig_close(tail, false);
    teardown();
}
END_TEST

/* ---- reading ---- */

START_TEST(what_is_not_here_is_not_found)
{
    struct err e;
    setup();
    pair_open(DURABLE_MEMORY, false, 0);
    op_table(0);
    ck_assert_int_eq(engine_tail(lead->g, 0, &e), 0);
    op_run();
    ck_assert_int_eq(engine_tail(lead->g, 1u << 16, &e), 0);
    for (int i = 0; i < 20; i++)
        op_push();
    ck_assert_int_eq(ask(0), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(ask(lead->g->sequence + 1), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(ask(lead->g->sequence), 0);
    ck_assert_uint_eq(answer.bytes, 0);
    ck_assert_int_eq(ask(lead->g->sequence - 1), 0);
    ck_assert_uint_gt(answer.bytes, 0);
    rig_close(lead, false);
    rig_close(tail, false);
    teardown();
}
END_TEST

START_TEST(a_reader_outlasts_trims)
{
    struct err e;
    begin_one();
    uint64_t had = tail->g->sequence;
    ck_assert_int_eq(engine_tail(lead->g, 0, &e), 0);
    for (int i = 0; i < 30; i++)
        op_push();
    ck_assert_int_eq(ask(had), 0);
    ck_assert_uint_gt(answer.bytes, 0);
    uint64_t last = answer.last;
    while (journal_first(lead->g->journal) <= last) {
        op_push();
        embedding_env_run(&lead->env);
    }
    int rc = ask(last); /* its file is another one by now, or gone */
    ck_assert(rc == 0 || rc == SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(ask(had), SHOAL_E_NOT_FOUND);
    rig_close(lead, false);
    rig_close(tail, false);
    teardown();
}
END_TEST

START_TEST(the_journal_waits_for_a_follower_while_it_has_room)
{
    struct err e;
    begin_one();
    uint64_t had = tail->g->sequence;
    ck_assert_int_eq(engine_tail(lead->g, 0, &e), 0);
    engine_records_keep(lead->g, had);
    ck_assert(!engine_records_press(lead->g));
    while (!engine_records_press(lead->g)) {
        op_push();
        embedding_env_run(&lead->env);
        ck_assert_uint_le(journal_first(lead->g->journal), had + 1);
    }
    ck_assert_int_eq(ask(had), 0);
    for (int i = 0; i < 600 && journal_first(lead->g->journal) <= had + 1; i++) {
        op_push();
        embedding_env_run(&lead->env);
    }
    ck_assert_uint_gt(journal_first(lead->g->journal), had + 1); /* there was no room any more */
    engine_records_keep(lead->g, UINT64_MAX);
    ck_assert(!engine_records_press(lead->g));
    rig_close(lead, false);
    rig_close(tail, false);
    teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("follow");
    TCase *c = tcase_create("histories");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, a_follower_in_memory_is_the_same_bit_for_bit);
    tcase_add_test(c, a_follower_with_a_journal_is_the_same_bit_for_bit);
    tcase_add_test(c, a_follower_that_syncs_is_the_same_bit_for_bit);
    tcase_add_test(c, a_follower_with_little_memory_is_the_same_bit_for_bit);
    suite_add_tcase(suite, c);
    c = tcase_create("leaders");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, an_old_leader_gives_up_what_the_new_one_lacks);
    tcase_add_test(c, images_behind_until_are_not_found);
    tcase_add_test(c, records_behind_until_go_at_any_step);
    tcase_add_test(c, leaders_take_turns);
    suite_add_tcase(suite, c);
    c = tcase_create("refusals");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_flipped_bit_is_refused);
    tcase_add_test(c, a_gap_is_refused);
    tcase_add_test(c, an_unknown_run_is_refused);
    tcase_add_test(c, a_push_that_does_not_follow_is_refused);
    tcase_add_test(c, a_base_is_refused);
    tcase_add_test(c, a_clear_is_a_base);
    tcase_add_test(c, what_is_not_here_is_not_found);
    tcase_add_test(c, a_reader_outlasts_trims);
    tcase_add_test(c, the_journal_waits_for_a_follower_while_it_has_room);
    suite_add_tcase(suite, c);
    return suite_main(suite);
}
