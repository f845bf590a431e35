/* test_move_random.c: two engines share tablets that move between them at random, with cuts,
 * restarts and rows in the store, and one of them has a follower. The union is what one engine is
 * that has everything: rows, marks, keys that wait, names. At times all go back to a cut, after its
 * tablets have moved home. SHOAL_SEEDS=N tries N seeds. */
#include "embedding/engine/engine_state.h"
#include "embedding/follow.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/move_rig.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TABLES 2u
#define LANES 2u
#define KEYS 60u
#define SPAN 6000u
#define DAY 86400u
#define ALL (TABLES * MOVE_TABLETS)

static struct rig shard[2], one, after; /* after: follows shard[1] */
static char dir[2][LIMIT_PATH], after_dir[LIMIT_PATH];
static enum durability how;
static uint64_t memory;
static struct rng chance;
static uint16_t owner[ALL];
static uint64_t run, newest_run, cuts, mark[ALL][LANES];
static uint32_t hour, changes, moves, strays, spilled, returns;
static struct { /* a cut that all keep; 0: none */
    uint64_t cut, mark[ALL][LANES];
    uint16_t owner[ALL];
} kept;

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

static struct rig *const every[] = {&shard[0], &shard[1], &one};

/* ---- the engines ---- */

static struct table_schema schema_of(uint32_t number)
{
    struct table_schema s = rig_schema(number);
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
    s.optimizer.lr = 0.01f + 0.01f * (float)(changes % 7);
    return s;
}

static void lead(void)
{
    static uint16_t zero[ALL];
    for (uint16_t i = 0; i < 2; i++)
        ck_assert_int_eq(engine_lead(shard[i].g, owner, ALL, i), 0);
    ck_assert_int_eq(engine_lead(one.g, zero, ALL, 0), 0);
}

static void place(uint32_t i, uint64_t epoch)
{
    struct err e = {0};
    struct engine_place p = {.cluster = {1, 1},
                             .number = i,
                             .shards = 2,
                             .map_epoch = epoch,
                             .tablets = ALL,
                             .shard_of = owner};
    ck_assert_msg(engine_place_set(shard[i].g, &p, &e) == 0, "%s", e.text);
}

static void open_one(struct rig *s, const char *folder, enum durability durability, uint64_t most)
{
    struct err e = {0};
    struct engine_options o = {.dir = folder,
                               .durability = durability,
                               .journal_max = 512u << 10,
                               .segment_bytes = 64u << 10,
                               .memory = most,
                               .disk_watermark = 1};
    ck_assert_msg(rig_try_open_with(s, &o, &e) == 0, "%s", e.text);
    rig_come_back(s);
}

static void open_shard(uint32_t i)
{
    struct err e = {0};
    open_one(&shard[i], dir[i], how, memory);
    if (i == 1)
        ck_assert_int_eq(engine_tail(shard[1].g, 1u << 20, &e), 0);
}

static void begin(uint64_t seed)
{
    chance = rng_of(seed, 3, 9);
    run = newest_run = cuts = 0;
    hour = changes = 0;
    memset(mark, 0, sizeof mark);
    kept.cut = 0;
    rig_dir(dir[0]);
    rig_dir(dir[1]);
    rig_dir(after_dir);
    rig_in_steps = rng_below(&chance, 2) != 0;
    open_shard(0);
    open_shard(1);
    open_one(&one, NULL, DURABLE_MEMORY, 0);
    open_one(&after, after_dir, how, memory);
    for (uint32_t k = 0; k < ALL; k++)
        owner[k] = (uint16_t)rng_below(&chance, 2);
    lead();
}

static void end(void)
{
    rig_close(&shard[0], false);
    rig_close(&shard[1], false);
    rig_close(&one, false);
    rig_close(&after, false);
    rig_in_steps = false;
    rig_remove_dir(dir[0]);
    rig_remove_dir(dir[1]);
    rig_remove_dir(after_dir);
}

/* ---- what happens to all ---- */

static void op_table(uint32_t number)
{
    struct err e = {0};
    struct table_schema s = schema_of(number);
    for (int i = 0; i < 3; i++) {
        int rc;
        PERSIST(every[i], rc, engine_table_create(every[i]->g, &s, &e));
        ck_assert_msg(rc == 0, "%s", e.text);
    }
}

/* Opens the lanes of the run. */
static void fence(struct rig *s)
{
    struct err e = {0};
    uint64_t is;
    int rc;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        PERSIST(s, rc, engine_fence(s->g, run, lane, 1, true, &(int64_t){0}, &is, &e));
        ck_assert_msg(rc == 0, "%s", e.text);
    }
}

static void op_run(void)
{
    struct err e = {0};
    uint64_t before = run;
    run = ++newest_run;
    bool drop = rng_below(&chance, 2) != 0;
    for (int i = 0; i < 3; i++) {
        int rc = 0;
        if (before != 0 && drop)
            PERSIST(every[i], rc, engine_run_drop(every[i]->g, before, &e));
        ck_assert_msg(rc == 0, "%s", e.text);
        if (every[i]->g->runs.count >= 4) {
            uint64_t oldest = UINT64_MAX;
            for (uint32_t k = 0; k < every[i]->g->runs.count; k++)
                if (every[i]->g->runs.run[k]->id < oldest)
                    oldest = every[i]->g->runs.run[k]->id;
            PERSIST(every[i], rc, engine_run_drop(every[i]->g, oldest, &e));
        }
        ck_assert_msg(rc == 0, "%s", e.text);
        rc = engine_run_open(every[i]->g, run, LANES, RUN_SSP, &e);
        ck_assert_msg(rc == 0, "%s", e.text);
        fence(every[i]);
    }
    memset(mark, 0, sizeof mark);
}

static uint32_t keys_make(uint64_t *keys, uint32_t count, uint32_t tablet)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count * MOVE_TABLETS && n < count; i++) {
        uint64_t key = key_make(1, rng_below(&chance, SPAN));
        bool is = key_tablet(key_mix(key), SHARD_TABLET_BITS) == tablet;
        for (uint32_t k = 0; is && k < n; k++)
            is = keys[k] != key;
        if (is)
            keys[n++] = key;
    }
    return n;
}

static int push(struct rig *s, const struct push_record *r, struct err *e)
{
    struct push_plan plan;
    if (!engine_warm(s->g, r->table, r->keys, r->key_count))
        return SHOAL_E_AGAIN;
    int rc = engine_admit_push(s->g, r, &plan, e);
    if (rc != 0)
        return rc;
    ck_assert_int_eq(engine_commit(s->g), 0);
    ck_assert_int_eq(engine_apply_push(s->g, r, &plan), 0);
    return 0;
}

static void op_push(void)
{
    static uint64_t keys[KEYS];
    static float gradients[KEYS * (SHARD_WIDTH + 2)];
    uint32_t global = (uint32_t)rng_below(&chance, ALL), lane = (uint32_t)rng_below(&chance, LANES),
             table = global / MOVE_TABLETS;
    uint32_t n = keys_make(keys, KEYS, global % MOVE_TABLETS),
             floats = schema_push_floats(table_schema_of(engine_table(one.g, table)));
    for (uint32_t i = 0; i < n * floats; i++)
        gradients[i] = i % floats < SHARD_WIDTH ? rng_float(&chance) - 0.5f
                                                : (float)(i % floats == SHARD_WIDTH);
    hour += (uint32_t)rng_below(&chance, 2);
    struct push_record r = {.run = run,
                            .generation = 1,
                            .from = mark[global][lane],
                            .to = mark[global][lane] + 1 + rng_below(&chance, 2),
                            .lane = lane,
                            .table = table,
                            .tablet_first = global % MOVE_TABLETS,
                            .tablet_count = 1,
                            .lr_scale = 1,
                            .key_count = n,
                            .event_time = 1700006400 + hour * 3600,
                            .keys = keys,
                            .gradients = gradients};
    struct rig *both[] = {&shard[owner[global]], &one};
    struct err e = {0};
    for (int i = 0; i < 2; i++) {
        int rc;
        PERSIST(both[i], rc, push(both[i], &r, &e));
        ck_assert_msg(rc == 0, "push: %s", e.text);
    }
    mark[global][lane] = r.to;
    engine_flush_step(both[0]->g);
}

static void op_keys(void)
{
    static const enum key_action actions[] = {KEY_ERASE, KEY_BLOCK, KEY_ALLOW, KEY_RESET,
                                              KEY_EVICT};
    uint64_t keys[16], changed;
    uint32_t global = (uint32_t)rng_below(&chance, ALL);
    enum key_action action = actions[rng_below(&chance, 5)];
    uint32_t n = keys_make(keys, 16, global % MOVE_TABLETS);
    struct rig *both[] = {&shard[owner[global]], &one};
    struct err e = {0};
    for (int i = 0; i < 2; i++) {
        int rc;
        PERSIST(both[i], rc,
                engine_keys(both[i]->g, global / MOVE_TABLETS, action, keys, n, &changed, &e));
        ck_assert_msg(rc == 0, "%s", e.text);
    }
}

/* ---- what happens to one ---- */

static void follow(void);

static void op_again(uint32_t i)
{
    if (i == 1)
        follow(); /* a clean stop leaves no records */
    rig_close(&shard[i], rng_below(&chance, 2) != 0);
    open_shard(i);
    lead();
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
    struct err e = {0};
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

static void op_cut(uint32_t i)
{
    cut_make(&shard[i], ++cuts, run, false);
    (void)engine_cut_drop(shard[i].g, cuts);
}

/* All keep a cut of this moment; the former one goes. */
static void op_keep(void)
{
    follow();
    for (int i = 0; kept.cut != 0 && i < 3; i++)
        (void)engine_cut_drop(every[i]->g, kept.cut);
    if (kept.cut != 0)
        (void)engine_cut_drop(after.g, kept.cut);
    kept.cut = ++cuts;
    for (int i = 0; i < 3; i++)
        cut_make(every[i], kept.cut, run, i == 1);
    memcpy(kept.mark, mark, sizeof mark);
    memcpy(kept.owner, owner, sizeof owner);
}

static void drop_strays(uint32_t i)
{
    uint32_t found[ALL], count = engine_strays(shard[i].g, found, ALL);
    struct err e = {0};
    int rc;
    strays += count;
    PERSIST(&shard[i], rc, engine_tablets_drop(shard[i].g, found, count, &e));
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_eq(engine_strays(shard[i].g, found, ALL), 0);
}

static void move(uint32_t global, uint64_t epoch)
{
    uint32_t from = owner[global], to = 1 - from;
    struct err e = {0};
    size_t bytes = 0;
    uint64_t rows, sequence;
    int rc;
    void *image = NULL;
    for (int tries = 0; tries < 3000 && image == NULL; tries++) {
        image = move_give(&shard[from], global, &bytes, &rows, &e);
        ck_assert(image != NULL || e.code == SHOAL_E_BUSY || e.code == SHOAL_E_AGAIN);
        if (image == NULL)
            engine_flush_step(shard[from].g);
    }
    ck_assert_ptr_nonnull(image);
    PERSIST(&shard[to], rc, engine_take(shard[to].g, global, image, bytes, &sequence, &e));
    ck_assert_msg(rc == 0, "take: %s", e.text);
    free(image);
    uint64_t dice = rng_below(&chance, 8);
    if (dice < 2)
        op_again(to);
    if (dice == 0) /* the map never came: it may be a stray for a while */
        return;
    owner[global] = (uint16_t)to;
    lead();
    place(from, epoch);
    place(to, epoch);
    if (dice == 2)
        op_again(from);
    if (dice == 3) {
        drop_strays(from);
    } else {
        PERSIST(&shard[from], rc, engine_tablets_drop(shard[from].g, &global, 1, &e));
        ck_assert_msg(rc == 0, "drop: %s", e.text);
    }
    moves++;
}

/* Every tablet goes to the shard that led it when the cut was made, then each shard goes back. */
static void op_return(uint64_t epoch)
{
    struct err e = {0};
    int rc;
    if (kept.cut == 0)
        return;
    for (uint32_t i = 0; i < ALL; i++)
        while (owner[i] != kept.owner[i])
            move(i, epoch);
    run = ++newest_run;
    for (int i = 0; i < 3; i++) {
        PERSIST(every[i], rc, engine_restore(every[i]->g, kept.cut, run, &e));
        ck_assert_msg(rc == 0, "%s", e.text);
        if (i < 2 && rng_below(&chance, 4) == 0)
            op_again((uint32_t)i);
        rig_come_back(every[i]);
        fence(every[i]);
    }
    memcpy(mark, kept.mark, sizeof mark);
    returns++;
}

/* Moves rows to the store from tablets that equal their images, beside the batches of flushes. */
static void op_cool(uint32_t i, uint32_t table)
{
    struct engine_table *t = engine_slot(shard[i].g, table);
    const uint64_t *gone;
    embedding_env_run(&shard[i].env);
    for (uint32_t k = 0; k < MOVE_TABLETS; k++) {
        uint64_t rows = table_tablet_rows(t->table, k) - table_cold_tablet(t->table, k);
        if (rows == 0 || t->changed[k] > t->durable[k] || table_cold_gone(t->table, k, &gone) > 0)
            continue;
        cool_tablet(t->table, k, (uint32_t)rows / 2, shard[i].g->store);
        engine_touch(t, k, 1, NULL, shard[i].g->committed);
    }
}

static void op(uint32_t number)
{
    uint64_t dice = rng_below(&chance, 200);
    uint32_t i = (uint32_t)rng_below(&chance, 2);
    if (dice < 140) {
        op_push();
    } else if (dice < 168) {
        move((uint32_t)rng_below(&chance, ALL), number + 1);
    } else if (dice < 174) {
        op_keys();
    } else if (dice < 176) {
        op_run();
    } else if (dice < 178) {
        changes++;
        kept.cut = 0; /* of another schema */
        op_table((uint32_t)rng_below(&chance, TABLES));
    } else if (dice < 181) {
        op_cut(i);
    } else if (dice < 185) {
        op_again(i);
    } else if (dice < 190) {
        op_cool(i, (uint32_t)rng_below(&chance, TABLES));
    } else if (dice < 192) {
        op_keep();
    } else if (dice < 194) {
        op_return(number + 1);
    } else {
        embedding_env_run(&shard[i].env);
    }
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

static size_t take_one(const char *at, size_t left)
{
    struct engine_followed f;
    struct err e = {0};
    int rc = engine_follow_peek(after.g, at, left, &f, &e);
    if (rc == 0 && f.kind == RECORD_CUT)
        cut_make(&after, f.cut, f.run, false);
    PERSIST(&after, rc, engine_follow(after.g, at, left, &f, &e));
    ck_assert_msg(rc == 0, "record: %s", e.text);
    if (f.kind == RECORD_PUSH) {
        ck_assert_int_eq(engine_commit(after.g), 0);
        ck_assert_int_eq(engine_apply_push(after.g, &f.push, &f.plan), 0);
    }
    return f.bytes;
}

static void follow(void)
{
    while (after.g->sequence < shard[1].g->committed) {
        struct err e = {0};
        answer.came = false;
        int rc = engine_records(shard[1].g, after.g->sequence, 100000, on_records, NULL, &e);
        ck_assert_msg(rc == 0, "%s", e.text);
        while (!answer.came)
            ck_assert(embedding_env_step(&shard[1].env));
        if (answer.status == SHOAL_E_AGAIN)
            continue;
        ck_assert_int_eq(answer.status, 0);
        for (size_t at = 0; at < answer.bytes;)
            at += take_one(answer.records + at, answer.bytes - at);
        engine_flush_step(after.g);
    }
    engine_records_keep(shard[1].g, after.g->sequence);
}

/* ---- comparing ---- */

static void check_tablet(uint32_t global)
{
    struct rig *s = &shard[owner[global]];
    uint32_t table = global / MOVE_TABLETS, tablet = global % MOVE_TABLETS;
    ck_assert_uint_eq(move_digest(s, table, tablet), move_digest(&one, table, tablet));
    if (owner[global] == 1)
        ck_assert_uint_eq(move_digest(s, table, tablet), move_digest(&after, table, tablet));
    for (uint32_t i = 0; i < one.g->runs.count; i++) {
        const struct run *x = one.g->runs.run[i], *y = runs_find(&s->g->runs, x->id),
                         *z = runs_find(&after.g->runs, x->id);
        ck_assert_ptr_nonnull(y);
        for (uint32_t lane = 0; lane < LANES; lane++) {
            ck_assert_uint_eq(marks_get(x->marks, lane, table, tablet),
                              marks_get(y->marks, lane, table, tablet));
            if (owner[global] == 1)
                ck_assert_uint_eq(marks_get(x->marks, lane, table, tablet),
                                  marks_get(z->marks, lane, table, tablet));
        }
    }
}

/* The whole images have equal lengths: keys that wait, names and clocks are there, too. */
static void check_image(uint32_t global)
{
    struct err e = {0};
    size_t bytes[2] = {0, 1};
    uint64_t rows[2] = {0, 1};
    struct rig *both[] = {&shard[owner[global]], &one};
    for (int i = 0; i < 2; i++) {
        void *image = NULL;
        for (int tries = 0; tries < 3000 && image == NULL; tries++) {
            image = move_give(both[i], global, &bytes[i], &rows[i], &e);
            engine_flush_step(both[i]->g);
            embedding_env_step(&both[i]->env);
        }
        ck_assert_msg(image != NULL, "%s", e.text);
        free(image);
    }
    ck_assert_uint_eq(rows[0], rows[1]);
    ck_assert_uint_eq(bytes[0], bytes[1]);
}

static void check_equal(void)
{
    follow();
    for (uint32_t i = 0; i < TABLES; i++)
        for (uint32_t k = 0; k < 2; k++)
            spilled += table_cold_rows(engine_table(shard[k].g, i)) > 0;
    for (uint32_t k = 0; k < ALL; k++)
        check_tablet(k);
    check_image((uint32_t)rng_below(&chance, ALL));
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint64_t is[3], low;
        for (int i = 0; i < 3; i++) {
            const struct run *r = runs_find(&every[i]->g->runs, run);
            is[i] = r->lane[lane].lowest;
            ck_assert_int_eq(engine_clock(every[i]->g, run, lane, 0, &(uint64_t){0}, &low), 0);
        }
        ck_assert_uint_eq(is[2], is[0] < is[1] ? is[0] : is[1]);
    }
}

static void history(uint64_t seed, enum durability durability, uint64_t most)
{
    how = durability;
    memory = most;
    begin(seed);
    for (uint32_t i = 0; i < TABLES; i++)
        op_table(i);
    op_run();
    for (uint32_t i = 0; i < 500; i++) {
        op(i);
        if (rng_below(&chance, 25) == 0)
            check_equal();
    }
    check_equal();
    op_again(0);
    op_again(1);
    drop_strays(0);
    drop_strays(1);
    check_equal();
    end();
}

static uint64_t seeds(void)
{
    const char *text = getenv("SHOAL_SEEDS");
    return text == NULL ? 3 : strtoull(text, NULL, 10);
}

START_TEST(tablets_that_move_are_as_if_they_had_stayed)
{
    moves = returns = 0;
    for (uint64_t seed = 0; seed < seeds(); seed++)
        history(seed, DURABLE_JOURNAL, 0);
    ck_assert_uint_gt(moves, 20);
    ck_assert_uint_gt(returns, 2);
}
END_TEST

START_TEST(they_move_when_memory_is_short)
{
    spilled = strays = 0;
    for (uint64_t seed = 0; seed < seeds(); seed++)
        history(100 + seed, seed % 2 ? DURABLE_FSYNC : DURABLE_JOURNAL, 24u << 20);
    ck_assert_uint_gt(spilled, 0);
    ck_assert_uint_gt(strays, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine moves at random");
    TCase *t = suite_case(s, "random", 120, NULL, NULL);
    tcase_add_test(t, tablets_that_move_are_as_if_they_had_stayed);
    tcase_add_test(t, they_move_when_memory_is_short);
    return suite_main(s);
}
