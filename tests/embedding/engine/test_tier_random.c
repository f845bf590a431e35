/* test_tier_random.c: an engine with a small memory budget, whose tables have shares of it at
 * times, beside one without: the same random operations, and now and then the first one is killed
 * before a change of a file. Pulls and digests must be equal, wherever rows are, and memory must
 * stay within its bound. SHOAL_SEEDS=N tries N seeds, SHOAL_SEED=S begins with seed S. The process
 * that forks opens no store, because RocksDB's threads would be missing in its children; the engine
 * without a budget keeps all in memory. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/job/packed.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/kill_step.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define TABLES 3u
#define KEYS 1024u
#define LANES 3u
#define OPS 300u
#define PHASES 5u
#define GROUP 3u
#define FLOATS (32u + 2u)
#define DAY 86400u
#define ARENA_SLACK (5ull << 20) /* two chunks of 2 MiB, and how much a fetch may exceed by */

enum kind { PUSH, PULL, NAME, CUT, RESTORE, CHANGE, IDLE };

struct op {
    enum kind kind;
    uint32_t table, lane, first, count; /* tablets */
    uint64_t run, cut, from, to;        /* run: the one that is open before it */
    uint32_t time;
    bool split;              /* the other tablets follow */
    uint32_t change[TABLES]; /* the table's last change before it; its own */
};

struct plan { /* everything that a seed decides */
    uint64_t seed, memory;
    struct table_schema schema[TABLES];
    uint32_t tables, span[TABLES], window;
    enum run_mode mode;
    struct op op[OPS];
};

static struct shared {
    uint32_t done;           /* finished operations */
    uint64_t pulled[OPS];    /* results of pulls without a budget */
    uint64_t digest[PHASES]; /* at the end of each phase */
    uint64_t fetched, evicted, kills;
    uint64_t most; /* by how much rows exceeded their budget, in bytes */
    char failure[1024];
} * shared;

struct push {
    struct push_record record;
    uint64_t keys[KEYS];
    float gradients[KEYS * FLOATS];
};

/* ---- what a seed decides ---- */

static void rules_make(struct rng *r, struct row_rules *rules)
{
    if (rng_below(r, 3) == 0)
        return;
    rules->stats = 1;
    rules->score_show = 0.1f;
    rules->score_click = 1;
    rules->age_every = DAY;
    rules->age_decay = rng_below(r, 2) ? 0.8f : 0;
    rules->age_score = rng_below(r, 2) ? 0.15f : 0;
    rules->age_ttl = rng_below(r, 2) ? 3 * DAY : 0;
    if (rng_below(r, 3) == 0) {
        rules->admit_kind = ADMIT_COUNT;
        rules->admit_threshold = 2;
        rules->admit_sketch = rng_below(r, 2) ? 1024 : 0;
    }
}

static void schema_make(struct rng *r, struct table_schema *s, uint32_t number)
{
    static const uint32_t widths[] = {1, 8, 16, 32};
    static const enum optimizer_kind kinds[] = {OPT_SGD, OPT_ADAGRAD, OPT_ADAM, OPT_FTRL};
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "table-%u", number);
    s->table = number;
    s->width = widths[rng_below(r, 4)];
    s->tablet_bits = 3 + (uint32_t)rng_below(r, 3);
    s->tablet_first = number * 64;
    s->seed = 7 + number;
    s->init = (struct init_spec){INIT_UNIFORM, 0.01f};
    s->optimizer = (struct optimizer_spec){.kind = kinds[rng_below(r, 4)],
                                           .lr = 0.05f,
                                           .eps = 1e-8f,
                                           .initial = 0.1f,
                                           .beta1 = 0.9f,
                                           .beta2 = 0.99f,
                                           .beta = 1,
                                           .l1 = 0.001f,
                                           .decay = 1};
    if (s->optimizer.kind != OPT_FTRL && rng_below(r, 3) == 0)
        s->optimizer.l2 = 0.01f;
    s->values = (uint32_t)rng_below(r, 3);
    rules_make(r, &s->rules);
    if (number > 0 && rng_below(r, 4) == 0) { /* its rows stay */
        s->rules.stats = 1;
        s->rules.score_click = 1;
        s->rules.age_capacity = 100;
        s->rules.age_by = rng_below(r, 2) ? EVICT_LRU : EVICT_SCORE;
    }
}

/* Returns a table's schema after change number `change`, 0: none. It varies all that may change
 * while rows are in the store. */
static struct table_schema schema_after(const struct plan *p, uint32_t table, uint32_t change)
{
    struct table_schema s = p->schema[table];
    struct rng r = rng_of(p->seed, 23, change);
    if (change == 0)
        return s;
    s.init.scale = 0.01f * (float)rng_below(&r, 3);
    if (s.optimizer.kind != OPT_FTRL) {
        s.optimizer.lr = 0.02f + 0.03f * (float)rng_below(&r, 3);
        s.optimizer.l2 *= (float)(1 + rng_below(&r, 3));
    }
    s.optimizer.decay = rng_below(&r, 2) ? 1 : 0.9f;
    s.rules.weight_max = rng_below(&r, 2) ? 0.5f : 0;
    s.rules.norm_max = rng_below(&r, 2) ? 0.75f : 0;
    s.rules.admit_kind = (uint32_t)rng_below(&r, s.rules.stats != 0 ? 5 : 3);
    s.rules.admit_threshold = s.rules.admit_kind == ADMIT_PROBABILITY ? 0.5f : 2;
    s.rules.admit_sketch = rng_below(&r, 2) ? 0 : 512u << rng_below(&r, 2);
    s.rules.admit_waiting = rng_below(&r, 2) ? 0 : 128;
    if (s.rules.stats != 0) {
        s.rules.vector_score = rng_below(&r, 2) ? 1 : 0;
        s.rules.by_shows = (uint32_t)rng_below(&r, 2);
    }
    return s;
}

static void plan_make(struct plan *p, uint64_t seed)
{
    struct rng r = rng_of(seed, 5, 5);
    uint64_t mark[TABLES][LANES] = {{0}}, marked[TABLES][LANES], run = 1, cut = 0;
    uint32_t time = 1700006400, lane = 0, change[TABLES] = {0}, changes = 0;
    bool fits = false; /* true when the last cut has the tables' schemas */
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->mode = rng_below(&r, 3) == 0 ? RUN_BSP : RUN_SSP;
    p->tables = 1 + (uint32_t)rng_below(&r, TABLES);
    p->memory = (3ull << 20) + rng_below(&r, 2ull << 20);
    p->window = 1000 + (uint32_t)rng_below(&r, 4000);
    uint64_t least = 1u << 20; /* keys of cold rows, and pages of hot ones */
    for (uint32_t i = 0; i < p->tables; i++) {
        schema_make(&r, &p->schema[i], i);
        uint32_t bytes = 4 * schema_row_floats(&p->schema[i]) + 16;
        p->span[i] = ((6u << 20) + (uint32_t)rng_below(&r, 8u << 20)) / bytes;
        p->span[i] = p->span[i] < 60000 ? p->span[i] : 60000;
        uint32_t stay = p->schema[i].rules.age_capacity;
        least +=
            p->span[i] * 16 + (((32u << 10) + stay * bytes * 5 / 4) << p->schema[i].tablet_bits);
    }
    p->memory = p->memory > least ? p->memory : least;
    for (uint32_t i = 0; i < OPS; i++) {
        struct op *o = &p->op[i];
        const struct op *before = i > 0 ? &p->op[i - 1] : NULL;
        uint64_t dice = rng_below(&r, 100);
        if (before != NULL && before->split) {
            *o = *before;
            o->split = false;
            o->first = before->count;
            o->count = (1u << p->schema[o->table].tablet_bits) - before->count;
            continue;
        }
        o->kind = dice < 70           ? PUSH
                  : dice < 88         ? PULL
                  : dice < 93         ? NAME
                  : dice < 95         ? CUT
                  : dice < 96 && fits ? RESTORE
                  : dice < 98         ? CHANGE
                                      : IDLE;
        o->run = run;
        memcpy(o->change, change, sizeof change);
        if (o->kind == CUT)
            memcpy(marked, mark, sizeof marked);
        fits = o->kind == CUT || (fits && o->kind != CHANGE);
        if (o->kind == RESTORE) {
            memcpy(mark, marked, sizeof marked);
            run++;
        }
        o->cut = cut += o->kind == CUT;
        o->table = (uint32_t)rng_below(&r, p->tables);
        o->lane = lane++ % LANES;
        o->count = 1u << p->schema[o->table].tablet_bits;
        if (o->kind == CHANGE)
            o->change[o->table] = change[o->table] = ++changes;
        time += (uint32_t)rng_below(&r, DAY / 8);
        o->time = p->schema[o->table].rules.stats == 0 || rng_below(&r, 8) == 0
                      ? 0
                      : time - (uint32_t)rng_below(&r, DAY / 4);
        if (o->kind != PUSH)
            continue;
        uint64_t *m = &mark[o->table][o->lane];
        o->from = *m;
        o->to = *m += 1 + (rng_below(&r, 5) == 0);
        o->split = i + 1 < OPS && rng_below(&r, 4) == 0;
        if (o->split)
            o->count = 1 + (uint32_t)rng_below(&r, o->count - 1);
    }
}

/* Makes the keys of operation i: most from a moving window, some from all keys. */
static uint32_t keys_make(const struct plan *p, uint32_t i, uint64_t *keys)
{
    const struct op *o = &p->op[i];
    struct rng r = rng_of(p->seed, 9, i);
    uint32_t bits = p->schema[o->table].tablet_bits, span = p->span[o->table], n = 0, kept = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        uint64_t value = rng_below(&r, 2) == 0
                             ? rng_below(&r, span)
                             : (i / 60 * p->window + rng_below(&r, p->window)) % span;
        keys[k] = key_make(1, value);
    }
    qsort(keys, KEYS, sizeof keys[0], key_by_mixed);
    for (uint32_t k = 0; k < KEYS; k++)
        if (n == 0 || keys[n - 1] != keys[k])
            keys[n++] = keys[k];
    for (uint32_t k = 0; k < n; k++)
        if (o->kind != PUSH || key_tablet(key_mix(keys[k]), bits) - o->first < o->count)
            keys[kept++] = keys[k];
    return kept;
}

static void push_make(const struct plan *p, uint32_t i, struct push *out)
{
    const struct op *o = &p->op[i];
    const struct table_schema *s = &p->schema[o->table];
    struct rng r = rng_of(p->seed, 11, i);
    uint32_t n = keys_make(p, i, out->keys), floats = schema_push_floats(s);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t f = 0; f < s->width; f++)
            out->gradients[k * floats + f] = rng_float(&r) - 0.5f;
        if (floats > s->width) {
            out->gradients[k * floats + s->width] = 1;
            out->gradients[k * floats + s->width + 1] = (float)rng_below(&r, 2);
        }
    }
    const enum packed_width wish[] = {PACKED_NOT, PACKED_INT8, PACKED_BF16};
    const enum packed_width width = packed_width(s, wish[(p->seed + i) % 3]);
    packed_close(s, width, o->lane, o->to, out->keys, out->gradients, n);
    out->record = (struct push_record){.run = o->run,
                                       .width = width,
                                       .generation = 1,
                                       .from = o->from,
                                       .to = o->to,
                                       .lane = o->lane,
                                       .table = o->table,
                                       .tablet_first = o->first,
                                       .tablet_count = o->count,
                                       .lr_scale = 1,
                                       .key_count = n,
                                       .event_time = o->time,
                                       .keys = out->keys,
                                       .gradients = out->gradients};
}

/* ---- an engine ---- */

struct side {
    struct rig rig;
    const struct plan *plan;
    struct rng chance;     /* when work is done */
    bool bounded, failing; /* failing: a change of a file fails */
    struct push group[GROUP];
    struct push_plan admitted[GROUP];
    uint32_t groups;
};

/* Describes the place of the rows, as a help to find the cause. */
static void tell_tables(const struct side *s, char *text, size_t room)
{
    struct engine *g = s->rig.g;
    int n = snprintf(text, room, "; %" PRIu64 " bytes of %" PRIu64 "%s%s%s", tier_used(g),
                     g->tier.rows_max, g->tier.making ? ", making" : "",
                     g->tier.group[0].stuck ? ", stuck" : "", g->flush.busy ? ", busy" : "");
    for (uint32_t i = 0; i < s->plan->tables && n > 0 && (size_t)n < room; i++) {
        const struct table *t = engine_table(g, i);
        n += snprintf(text + n, room - (size_t)n,
                      "; table %u: %" PRIu64 " rows of %" PRIu64 " bytes in %u tablets, %" PRIu64
                      " cold%s",
                      i, table_rows(t), table_row_bytes(t), 1u << table_schema_of(t)->tablet_bits,
                      table_cold_rows(t), table_cold_may(t) ? "" : ", stays");
    }
}

static void give_up(const struct side *s, uint32_t i, const char *what, const char *more)
{
    char where[400] = "";
    if (s->failing && strcmp(more, "other rows") != 0)
        _exit(0);
    if (s->bounded && s->rig.g != NULL)
        tell_tables(s, where, sizeof where);
    snprintf(shared->failure, sizeof shared->failure,
             "seed %" PRIu64 ", operation %u (%s budget): %s: %s%s", s->plan->seed, i,
             s->bounded ? "with a" : "without", what, more, where);
    if (s->bounded)
        _exit(3);
    ck_abort_msg("%s", shared->failure);
}

/* Each table gets a share of the budget, or none does. */
static void shares_draw(struct side *s)
{
    struct engine_share list[TABLES];
    struct err e = {0};
    uint32_t count = rng_below(&s->chance, 3) == 0 ? 0 : s->plan->tables;
    memset(list, 0, sizeof list);
    for (uint32_t i = 0; i < count; i++) {
        list[i].tables = table_set_one(i);
        list[i].parts = 1 + (uint32_t)rng_below(&s->chance, ENGINE_PARTS / TABLES);
        snprintf(list[i].name, sizeof list[i].name, "space-%u", i);
    }
    if (engine_shares_set(s->rig.g, list, count, &e) != 0)
        give_up(s, 0, "shares", e.text);
}

static void work_some(struct side *s)
{
    for (uint64_t n = s->bounded ? rng_below(&s->chance, 4) : 0; n > 0; n--)
        if (!embedding_env_step(&s->rig.env))
            return;
}

static void side_check(struct side *s, uint32_t i)
{
    struct engine *g = s->rig.g;
    struct engine_stats stats;
    if (s->rig.fatal > 0)
        give_up(s, i, "fatal", s->rig.fatal_err.text);
    if (!s->bounded)
        return;
    engine_stats_get(g, &stats);
    uint64_t used = tier_used(g), over = used > g->tier.rows_max ? used - g->tier.rows_max : 0;
    shared->most = over > shared->most ? over : shared->most;
    if (stats.memory_bytes > g->options.memory + ARENA_SLACK) {
        char text[128];
        snprintf(text, sizeof text, "%" PRIu64 " bytes of %" PRIu64, stats.memory_bytes,
                 g->options.memory);
        give_up(s, i, "memory", text);
    }
}

static void group_apply(struct side *s, uint32_t i)
{
    if (s->groups == 0)
        return;
    if (engine_commit(s->rig.g) != 0)
        give_up(s, i, "commit", "");
    for (uint32_t k = 0; k < s->groups; k++) {
        if (s->bounded && rng_below(&s->chance, 4) == 0)
            work_some(s); /* work also ends between a push's admission and its application */
        if (engine_apply_push(s->rig.g, &s->group[k].record, &s->admitted[k]) != 0)
            give_up(s, i, "apply", "");
    }
    s->groups = 0;
}

/* Tries until all rows are in memory. */
static void side_push(struct side *s, uint32_t i)
{
    struct push *p = &s->group[s->groups];
    struct err e = {0};
    int rc = SHOAL_E_BUSY;
    push_make(s->plan, i, p);
    for (uint32_t tries = 0; rc == SHOAL_E_BUSY; tries++) {
        if (tries == 3000)
            give_up(s, i, "a push gets no further", e.text);
        bool warm = engine_warm(s->rig.g, p->record.table, p->keys, p->record.key_count);
        rc = warm ? engine_admit_push(s->rig.g, &p->record, &s->admitted[s->groups], &e)
                  : SHOAL_E_BUSY;
        if (rc == SHOAL_E_NO_SPACE && s->bounded && s->rig.g->tier.groups > 1) {
            /* rows that stay are over their share */
            (void)engine_shares_set(s->rig.g, NULL, 0, &e);
            rc = SHOAL_E_BUSY;
        }
        if (rc == SHOAL_E_BUSY && s->groups > 0) {
            struct push own = *p;
            group_apply(s, i);
            p = &s->group[0];
            *p = own;
            p->record.keys = p->keys;
            p->record.gradients = p->gradients;
        }
        if (rc == SHOAL_E_BUSY) {
            engine_flush_step(s->rig.g);
            embedding_env_step(&s->rig.env);
        }
        side_check(s, i);
    }
    if (rc != 0)
        give_up(s, i, "push", e.text);
    s->groups++;
    if (s->groups == GROUP || rng_below(&s->chance, 2) == 0)
        group_apply(s, i);
}

static void side_pull(struct side *s, uint32_t i)
{
    static uint64_t keys[KEYS];
    static float rows[KEYS * 32];
    const struct op *o = &s->plan->op[i];
    uint32_t n = keys_make(s->plan, i, keys), tries = 0;
    while (!engine_warm(s->rig.g, o->table, keys, n)) {
        if (++tries == 3000)
            give_up(s, i, "a pull gets no further", "");
        embedding_env_step(&s->rig.env);
        side_check(s, i);
    }
    const struct table *t = engine_table(s->rig.g, o->table);
    memset(rows, 0, sizeof rows);
    uint64_t low, clock;
    (void)engine_clock(s->rig.g, o->run, o->lane, 0, &clock, &low);
    pull_before(t, keys, n, s->plan->mode == RUN_BSP ? table_undo_clock(o->run, low) : 0, rows);
    uint64_t sum = hash_bytes(rows, sizeof rows, 0);
    if (!s->bounded)
        shared->pulled[i] = sum;
    else if (sum != shared->pulled[i])
        give_up(s, i, "pull", "other rows");
}

static uint64_t side_digest(struct side *s, uint32_t i)
{
    uint64_t sum = 0;
    for (uint32_t table = 0; table < s->plan->tables; table++)
        for (uint32_t k = 0; k < 1u << s->plan->schema[table].tablet_bits; k++) {
            struct err e = {0};
            uint64_t digest;
            const struct table *t = engine_whole(s->rig.g, table, k, &e);
            if (t == NULL || table_digest(t, k, &digest) != 0)
                give_up(s, i, "digest", e.text);
            sum = hash_bytes(&digest, sizeof digest, sum);
        }
    return sum;
}

static void lanes_begin(struct side *s, uint32_t i, uint64_t run)
{
    struct err e = {0};
    uint64_t mark;
    for (uint32_t lane = 0; lane < LANES; lane++)
        if (engine_fence(s->rig.g, run, lane, 1, true, NULL, &mark, &e) != 0)
            give_up(s, i, "fence", e.text);
}

/* Work may be in progress that a cut, a restore and a change wait for. */
static void wait_a_step(struct side *s, uint32_t i, uint32_t *tries, const char *what)
{
    if (++*tries == 3000)
        give_up(s, i, what, "gets no further");
    engine_flush_step(s->rig.g);
    embedding_env_step(&s->rig.env);
    side_check(s, i);
}

/* The table is made or changed. A kill during a change undoes it. */
static void side_table(struct side *s, uint32_t i, uint32_t table, uint32_t change)
{
    struct table_schema schema = schema_after(s->plan, table, change);
    struct err e = {0};
    uint32_t tries = 0;
    int rc;
    while ((rc = engine_table_create(s->rig.g, &schema, &e)) == SHOAL_E_AGAIN)
        wait_a_step(s, i, &tries, "a table");
    if (rc != 0)
        give_up(s, i, "table", e.text);
}

static void side_begin(struct side *s, uint64_t run)
{
    struct err e = {0};
    uint32_t done = s->bounded && shared->done < OPS ? shared->done : 0;
    for (uint32_t i = 0; i < s->plan->tables; i++)
        side_table(s, done, i, done == 0 ? 0 : s->plan->op[done - 1].change[i]);
    if (engine_newest_run(s->rig.g) > run)
        return; /* it died after the restore that this operation is */
    if (engine_run_open(s->rig.g, run, LANES, s->plan->mode, &e) != 0)
        give_up(s, 0, "run", e.text);
    lanes_begin(s, 0, run);
}

static void side_name(struct side *s, uint32_t i)
{
    static uint64_t keys[KEYS];
    static const enum key_action actions[] = {KEY_ERASE, KEY_ERASE, KEY_BLOCK,
                                              KEY_ALLOW, KEY_RESET, KEY_EVICT};
    struct rng r = rng_of(s->plan->seed, 19, i);
    struct err e = {0};
    uint64_t changed;
    uint32_t n = keys_make(s->plan, i, keys), some = (uint32_t)rng_below(&r, 64);
    uint32_t table = s->plan->op[i].table;
    enum key_action action = actions[rng_below(&r, 6)];
    if (engine_keys(s->rig.g, table, action, keys + n / 2, some < n / 2 ? some : n / 2, &changed,
                    &e) != 0)
        give_up(s, i, "names", e.text);
}

static void on_cut(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

static void side_cut(struct side *s, uint32_t i)
{
    uint64_t cut = s->plan->op[i].cut, have[64], sequence;
    int status = 1, rc;
    uint32_t tries = 0, count = engine_cuts(s->rig.g, have, 64);
    for (uint32_t k = 0; k < count; k++)
        if (have[k] == cut) /* made in an earlier life */
            return;
    while ((rc = engine_hold(s->rig.g, cut, engine_newest_run(s->rig.g), &sequence)) ==
               SHOAL_E_BUSY ||
           rc == SHOAL_E_AGAIN)
        wait_a_step(s, i, &tries, "a hold");
    work_some(s);
    while (rc == 0 && ((rc = engine_go(s->rig.g, cut, on_cut, &status)) == SHOAL_E_BUSY ||
                       rc == SHOAL_E_AGAIN))
        wait_a_step(s, i, &tries, "a go");
    while (rc == 0 && status == 1)
        wait_a_step(s, i, &tries, "a cut");
    if (rc != 0 || status != 0)
        give_up(s, i, "cut", err_text(rc != 0 ? rc : status));
}

static void side_come_back(struct side *s);

static void side_restore(struct side *s, uint32_t i)
{
    const struct op *o = &s->plan->op[i];
    struct err e = {0};
    uint32_t tries = 0;
    int rc;
    while ((rc = engine_restore(s->rig.g, o->cut, o->run + 1, &e)) == SHOAL_E_AGAIN ||
           rc == SHOAL_E_BUSY)
        wait_a_step(s, i, &tries, "a restore");
    if (rc != 0)
        give_up(s, i, "restore", e.text);
    side_come_back(s);
    rig_lead(&s->rig); /* it may have been opened again */
    lanes_begin(s, i, o->run + 1);
}

static void side_do(struct side *s, uint32_t i)
{
    const struct op *o = &s->plan->op[i];
    if (o->kind != PUSH) {
        group_apply(s, i);
        if (s->bounded)
            shared->done = i;
    }
    if (s->bounded && rng_below(&s->chance, 25) == 0)
        shares_draw(s);
    if (o->kind == PUSH)
        side_push(s, i);
    else if (o->kind == PULL)
        side_pull(s, i);
    else if (o->kind == NAME)
        side_name(s, i);
    else if (o->kind == CUT)
        side_cut(s, i);
    else if (o->kind == RESTORE)
        side_restore(s, i);
    else if (o->kind == CHANGE)
        side_table(s, i, o->table, o->change[o->table]);
    if (s->bounded && s->groups == 0)
        engine_flush_step(s->rig.g);
    work_some(s);
    if (o->kind == IDLE && s->bounded && rng_below(&s->chance, 4) == 0)
        embedding_env_run(&s->rig.env);
    side_check(s, i);
}

static void on_fatal(void *context, const struct err *e)
{
    struct rig *s = context;
    s->fatal++;
    s->fatal_err = *e;
}

static void on_recovered(void *context)
{
    (void)context;
}

/* A failed step may be reported only here; the next life checks that all is there. */
static void side_close(struct side *s, uint32_t i)
{
    int rc = engine_close(s->rig.g, rng_below(&s->chance, 2) == 0);
    s->rig.g = NULL;
    if (rc != 0)
        give_up(s, i, "close", err_text(rc));
}

/* The engine recovers in steps, with requests for a few keys now and then; it is killed during
 * that, or closed and opened again. */
static void side_come_back(struct side *s)
{
    struct err e = {0};
    struct engine_stats stats;
    while (!engine_back(s->rig.g) && s->rig.fatal == 0) {
        uint64_t key[8];
        uint32_t table = (uint32_t)rng_below(&s->chance, s->plan->tables),
                 count = 1 + (uint32_t)rng_below(&s->chance, 8);
        for (uint32_t i = 0; i < count; i++)
            key[i] = key_make(1, rng_below(&s->chance, s->plan->span[table]));
        s->rig.g->reload_rows = 200;
        if (engine_table(s->rig.g, table) != NULL && rng_below(&s->chance, 2) == 0)
            (void)engine_warm(s->rig.g, table, key, count);
        engine_stats_get(s->rig.g, &stats);
        if (stats.memory_bytes > s->plan->memory + ARENA_SLACK)
            give_up(s, shared->done, "memory", "while it comes back");
        if (rng_below(&s->chance, 16) > 0) {
            (void)embedding_env_step(&s->rig.env);
            continue;
        }
        side_close(s, shared->done);
        if (engine_open(&s->rig.options, &s->rig.env.env, &s->rig.g, &e) != 0)
            give_up(s, shared->done, "open", e.text);
    }
}

static void side_open(struct side *s, const struct plan *p, const char *dir, uint64_t chance,
                      bool failing)
{
    struct err e = {0};
    memset(s, 0, sizeof *s);
    s->plan = p;
    s->bounded = dir != NULL;
    s->failing = failing;
    s->chance = rng_of(p->seed, 13, chance);
    embedding_env_init(&s->rig.env);
    s->rig.options = (struct engine_options){
        .dir = dir,
        .durability = dir != NULL ? DURABLE_JOURNAL : DURABLE_MEMORY,
        .memory = dir != NULL ? p->memory : 0,
        .journal_max = 8u << 20,
        .segment_bytes = 1u << 20,
        .disk_watermark = 1,
        .on_recovered = dir != NULL && rng_below(&s->chance, 2) == 0 ? on_recovered : NULL,
        .on_fatal = on_fatal,
        .context = &s->rig};
    if (engine_open(&s->rig.options, &s->rig.env.env, &s->rig.g, &e) != 0)
        give_up(s, shared->done, "open", e.text);
    side_come_back(s);
    rig_lead(&s->rig);
    side_begin(s, p->op[dir != NULL && shared->done < OPS ? shared->done : 0].run);
}

/* ---- both ---- */

static void without_budget(const struct plan *p)
{
    static struct side s;
    side_open(&s, p, NULL, 0, false);
    for (uint32_t i = 0; i < OPS; i++) {
        side_do(&s, i);
        if ((i + 1) % (OPS / PHASES) == 0) {
            group_apply(&s, i);
            shared->digest[i / (OPS / PHASES)] = side_digest(&s, i);
        }
    }
    rig_close(&s.rig, false);
}

struct life {
    const struct plan *plan;
    const char *dir;
    long kill_at;
    int fail; /* 0: killed; else that step fails so */
    uint64_t number;
};

/* Continues after the last finished operation. The unfinished one is repeated: marks show which
 * part was accepted. */
static void with_budget(void *context)
{
    static struct side s;
    const struct life *l = context;
    struct engine_stats stats;
    kill_begin(l->kill_at, l->fail);
    side_open(&s, l->plan, l->dir, l->number, l->fail != 0);
    side_check(&s, shared->done);
    /* the life before ended in its close */
    if (shared->done == OPS && side_digest(&s, OPS) != shared->digest[PHASES - 1])
        give_up(&s, OPS, "digest", "other rows");
    for (uint32_t i = shared->done; i < OPS; i++) {
        side_do(&s, i);
        if ((i + 1) % (OPS / PHASES) == 0) {
            group_apply(&s, i);
            if (side_digest(&s, i) != shared->digest[i / (OPS / PHASES)])
                give_up(&s, i, "digest", "other rows");
        }
        if (s.groups == 0)
            shared->done = i + 1;
    }
    engine_stats_get(s.rig.g, &stats);
    shared->fetched += stats.fetched;
    shared->evicted += stats.evicted;
    kill_end();
    side_close(&s, OPS);
    embedding_env_run(&s.rig.env);
}

static bool ended_early(const struct life *l)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        with_budget((void *)(uintptr_t)l);
        _exit(7);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (l->fail != 0 && WIFSIGNALED(status) &&
        WTERMSIG(status) == SIGABRT) /* RocksDB asserts that nothing fails after a first failure */
        return true;
    ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 7 || WEXITSTATUS(status) == 0),
                  "seed %" PRIu64 ", life %" PRIu64 ", operation %u, status %x: %s", l->plan->seed,
                  l->number, shared->done, (unsigned)status, shared->failure);
    return WEXITSTATUS(status) == 0;
}

static void one_seed(uint64_t seed)
{
    static struct plan p;
    char dir[LIMIT_PATH];
    memset(shared, 0, sizeof *shared);
    plan_make(&p, seed);
    without_budget(&p);
    rig_dir(dir);
    struct rng r = rng_of(seed, 17, 17);
    for (uint64_t life = 0;; life++) {
        struct life l = {&p, dir, 0, 0, life};
        if (life < 8) {
            l.kill_at = 1 + (long)rng_below(&r, 400);
            l.fail = life % 3 != 2 ? 0 : rng_below(&r, 2) ? ENOSPC : EIO;
        }
        if (!ended_early(&l))
            break;
        shared->kills++;
    }
    ck_assert_uint_eq(shared->done, OPS);
    if (getenv("SHOAL_SEEDS") != NULL)
        printf("seed %" PRIu64 ": %u tables, memory %" PRIu64 ", kills %" PRIu64
               ", fetched %" PRIu64 ", evicted %" PRIu64 ", over "
               "%" PRIu64 "\n",
               seed, p.tables, p.memory, shared->kills, shared->fetched, shared->evicted,
               shared->most);
    rig_remove_dir(dir);
}

START_TEST(a_budget_changes_nothing_but_where_rows_lie)
{
    const char *seeds = getenv("SHOAL_SEEDS"), *first = getenv("SHOAL_SEED");
    uint64_t from = first != NULL ? strtoull(first, NULL, 10) : 1,
             count = seeds != NULL ? strtoull(seeds, NULL, 10) : 3;
    log_set_level(LOG_LEVEL_ERROR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    for (uint64_t seed = from; seed < from + count; seed++)
        one_seed(seed);
    if (seeds == NULL) /* killed while a recovery wrote too small a sequence */
        one_seed(407);
    munmap(shared, sizeof *shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tier_random");
    TCase *c = tcase_create("tier_random");
    tcase_set_timeout(c, getenv("SHOAL_SEEDS") != NULL ? 3600 : 120);
    tcase_add_test(c, a_budget_changes_nothing_but_where_rows_lie);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
