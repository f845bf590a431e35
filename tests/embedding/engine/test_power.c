/* test_power.c: an engine on a disk that loses power, or fails, at any call, beside an engine in
 * memory that gives the expected state. Lives follow one another on one disk: opened, compared,
 * used, and ended by a power cut, a call that fails, or a close. SHOAL_SEEDS=N tries N seeds,
 * SHOAL_SEED=S begins with seed S. One more life is ended at each of its calls, in each way
 * (SHOAL_EVERY=1: at each; else at some).
 *
 * Each operation is one record. The state after a start must be that after some record S:
 *   - no acknowledged record is missing (fsync), or none that was reported as on disk (journal),
 *     answered fences and runs included;
 *   - every row, name of a key, mark, lane and run is as after S, and nothing is there from later;
 *   - made cuts are there and can be restored, except those from before a change of a table's
 *     schema; a clear has happened wholly or not at all, and an answered one has happened; the same
 *     is true of a load; and the engine starts;
 *   - in half of the histories rows have little memory and lie in the store, while the engine in
 *     memory has no limit: the rows must be the same. In half of all histories rows age, in the
 *     store as in memory;
 *   - work on other threads ends in any order, and its result may be reported late;
 *   - in half of the histories tablets are recovered in steps, with reads and power cuts between;
 *   - parts of checkpoints that were made are there, and equal those of the engine in memory;
 *   - a tablet that moved away is gone, one that came back is there, wholly. */
#include "embedding/checkpoint.h"
#include "embedding/engine/apply.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/tier.h"
#include "embedding/follow.h"
#include "embedding/journal/cursor.h"
#include "embedding/move.h"
#include "embedding/rows/table_inner.h"
#include "embedding/store/spill.h"
#include "embedding/store/stored.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/base/time.h"
#include "proto/job/packed.h"
#include "tests/lib/disk.h"
#include "tests/lib/embedding_digest.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLES 2u
#define LANES 2u
#define LIVES 8u
#define OPS 160u
#define ENTRIES 4096u
#define CUTS 3u
#define SPAN 1500u
#define COLD_SPAN 6000u
#define SAVED 6u
#define HOUR 3600u

enum kind {
    PUSH,
    NAME,
    FENCE,
    RUN,
    DROP,
    CUT,
    RESTORE,
    TABLE,
    CHANGE,
    CLEAR,
    EXPORT,
    LOAD,
    UNLOAD,
    OUT, /* a tablet is given, and dropped */
    IN   /* that tablet comes back */
};

struct entry { /* one that was done, or may have been */
    enum kind kind;
    uint64_t sequence; /* its record's; that of the instant of a cut, a clear, a load; 0: none */
    uint64_t dice;     /* keys and values follow from it */
    uint64_t run, cut, generation, from, to;
    uint32_t table, lane, first, count, mode, span;
    uint32_t saved, lanes;  /* checkpoint number of an export, a load; lanes of a new run */
    uint32_t time, without; /* a push's event time; the fields that a load leaves out */
    bool live, done;        /* done: a cut is complete, a load was answered */
    bool ages, fresh;       /* rows of its table age; a NAME erases all rows of a tablet */
};

struct made_cut {
    uint64_t cut, sequence; /* cut 0: none */
    uint64_t tables;        /* bit t: table t was there */
};

struct history {
    uint64_t seed;
    /* more, moves: for operations that were added later and go in between */
    struct rng dice, more, moves;
    char root[LIMIT_PATH], dir[LIMIT_PATH],
        mirror[LIMIT_PATH]; /* mirror: checkpoints of the engine in memory */
    struct disk *disk;
    enum durability durability;
    uint32_t tables, segment, life, span;
    uint64_t keep, memory;
    bool ages, in_steps;
    uint32_t time;         /* event time */
    struct env_work *late; /* it has run, and its end is not reported; NULL: none */
    uint64_t other;        /* a run beside the newest; 0: none */
    struct rig rig, then;  /* the engine; the one in memory, as of record `base` */
    uint64_t base, floor;  /* nothing up to the floor may be missing */
    struct entry entry[ENTRIES];
    uint32_t entries;
    struct made_cut cut[CUTS]; /* complete ones */
    uint64_t next_cut, next_run;
    uint64_t changed[TABLES], changed_then[TABLES]; /* records of the last changes of schemas */
    uint32_t exports;
    bool saved[SAVED];
    int status, back; /* status: an export's or a load's; back: a load's drop. In progress: 1 */
    uint64_t moved;   /* number of the last tablet that was given */
    uint64_t cleared; /* number of the last clear that was answered */
    bool came;        /* the fault chosen for the last life came before its end */
    bool ended;
    struct entry *making; /* a cut in progress */
};

static uint64_t cuts_of_power, failed_calls, lives, records, clears, changes, exports, loads,
    unloads, fetched, evicted, aged, told_late, in_steps, beside_runs, moved;

static void give_up(const struct history *h, const char *what, const char *more)
{
    ck_abort_msg("seed %" PRIu64 ", life %u (%s): %s: %s", h->seed, h->life,
                 h->durability == DURABLE_FSYNC ? "fsync" : "journal", what, more);
}

/* ---- operations, on either engine ---- */

#define KEYS_MOST 256u
#define FLOATS_MOST (SHARD_WIDTH + 2)

struct push {
    struct push_record record;
    uint64_t keys[KEYS_MOST];
    float gradients[KEYS_MOST * FLOATS_MOST];
};

/* Returns a key; one in eight is of another field. */
static uint64_t key_of(uint64_t number)
{
    return key_make(number % 8 == 0 ? 2 : 1, number);
}

static uint32_t keys_make(const struct entry *o, uint32_t most, uint64_t *keys)
{
    struct rng r = rng_of(o->dice, 9, 0);
    uint32_t n = 0, kept = 0, want = 1 + (uint32_t)rng_below(&r, most);
    for (uint32_t i = 0; i < want; i++)
        keys[i] = key_of(rng_below(&r, o->span));
    qsort(keys, want, sizeof keys[0], key_by_mixed);
    for (uint32_t i = 0; i < want; i++)
        if (n == 0 || keys[n - 1] != keys[i])
            keys[n++] = keys[i];
    for (uint32_t i = 0; i < n; i++)
        if (o->kind != PUSH ||
            key_tablet(key_mix(keys[i]), SHARD_TABLET_BITS) - o->first < o->count)
            keys[kept++] = keys[i];
    return kept;
}

static void push_make(const struct entry *o, struct push *p)
{
    struct rng r = rng_of(o->dice, 11, 0);
    bool many = rng_below(&r, 4) == 0 || o->span == COLD_SPAN;
    uint32_t n = keys_make(o, many ? KEYS_MOST : 32, p->keys);
    uint32_t floats = o->ages ? SHARD_WIDTH + 2 : SHARD_WIDTH;
    for (uint32_t i = 0; i < n * floats; i++)
        p->gradients[i] = rng_float(&r) - 0.5f;
    for (uint32_t i = 0; o->ages && i < n; i++) { /* shows and clicks */
        p->gradients[i * floats + SHARD_WIDTH] = (float)(1 + rng_below(&r, 3));
        p->gradients[i * floats + SHARD_WIDTH + 1] = (float)rng_below(&r, 2);
    }
    const struct table_schema of = {.width = SHARD_WIDTH, .seed = 1, .rules = {.stats = o->ages}};
    const enum packed_width wish[] = {PACKED_NOT, PACKED_INT8, PACKED_BF16};
    const enum packed_width width = packed_width(&of, wish[o->dice % 3]);
    packed_close(&of, width, o->lane, o->to, p->keys, p->gradients, n);
    p->record = (struct push_record){.run = o->run,
                                     .width = width,
                                     .generation = o->generation,
                                     .from = o->from,
                                     .to = o->to,
                                     .lane = o->lane,
                                     .table = o->table,
                                     .tablet_first = o->first,
                                     .tablet_count = o->count,
                                     .lr_scale = 1,
                                     .event_time = o->time,
                                     .key_count = n,
                                     .keys = p->keys,
                                     .gradients = p->gradients};
}

static struct history *between; /* work goes on between the commit and the rows of its pushes */
static void work_some(struct history *h);

static int do_push(struct rig *s, const struct entry *o, uint64_t *sequence, struct err *e)
{
    static struct push p;
    struct push_plan plan;
    push_make(o, &p);
    int rc = engine_admit_push(s->g, &p.record, &plan, e);
    if (rc != 0)
        return rc;
    *sequence = plan.sequence;
    rc = engine_commit(s->g);
    if (rc == 0 && between != NULL && s == &between->rig && rng_below(&between->more, 4) == 0) {
        engine_flush_step(s->g);
        work_some(between);
    }
    if (rc == 0)
        return engine_apply_push(s->g, &p.record, &plan);
    apply_plan_free(&plan);
    return rc;
}

static uint32_t tablet_of(uint64_t key)
{
    return key_tablet(key_mix(key), SHARD_TABLET_BITS);
}

/* Returns a key of the other field in the same tablet. */
static uint64_t beside(uint64_t key)
{
    uint64_t number = 1;
    while (key_field(key_of(number)) == key_field(key) ||
           tablet_of(key_of(number)) != tablet_of(key))
        number++;
    return key_of(number);
}

static int do_name(struct rig *s, const struct entry *o, struct err *e)
{
    static const enum key_action actions[] = {KEY_ERASE, KEY_BLOCK, KEY_ALLOW, KEY_RESET,
                                              KEY_EVICT};
    uint64_t keys[64], changed;
    uint32_t n = keys_make(o, 48, keys);
    if (o->fresh) {
        keys[1] = beside(keys[0]);
        return engine_keys(s->g, o->table, o->dice % 2 == 0 ? KEY_FRESH : KEY_DROP, keys, 2,
                           &changed, e);
    }
    return engine_keys(s->g, o->table, actions[o->dice % 5], keys, n, &changed, e);
}

static void on_cut(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

static void on_done(void *context, int status, const char *text)
{
    (void)text;
    *(int *)context = status;
}

/* Returns the schema of the operation's table. A CHANGE varies everything that may change while
 * rows are in the store. */
static struct table_schema schema_of(const struct entry *o)
{
    struct table_schema s = rig_schema(o->table);
    struct rng r = rng_of(o->dice, 23, 0);
    if (o->ages) {
        s.rules.stats = 1;
        s.rules.score_show = 0.1f;
        s.rules.score_click = 1;
        s.rules.age_every = HOUR;
        s.rules.age_decay = 0.8f;
        s.rules.age_score = 0.08f;
        s.rules.age_ttl = 12 * HOUR;
    }
    if (o->kind != CHANGE)
        return s;
    s.init.scale = 0.01f * (float)rng_below(&r, 3);
    s.optimizer.lr = 0.02f + 0.03f * (float)rng_below(&r, 3);
    s.rules.weight_max = rng_below(&r, 2) ? 0.5f : 0;
    s.rules.norm_max = rng_below(&r, 2) ? 0.75f : 0;
    s.rules.admit_kind = (uint32_t)rng_below(&r, 3);
    s.rules.admit_threshold = s.rules.admit_kind == ADMIT_PROBABILITY ? 0.5f : 2;
    s.rules.admit_sketch = rng_below(&r, 2) ? 0 : 512;
    s.rules.admit_waiting = rng_below(&r, 2) ? 0 : 128;
    return s;
}

/* The tablet that was last given, by number; one for each engine. */
static struct held {
    void *image; /* owned; NULL: none */
    size_t bytes;
    uint64_t number;
    uint32_t tablet;
    int status;
} held_there, held_then;

static struct held *held_of(const struct rig *s)
{
    return s == &between->then ? &held_then : &held_there;
}

static void held_forget(void)
{
    free(held_there.image);
    free(held_then.image);
    held_there = held_then = (struct held){0};
}

static void on_given(void *context, int status, const char *text, const void *image, size_t bytes,
                     uint64_t rows)
{
    struct held *h = context;
    (void)text, (void)rows;
    if (h->status != 1)
        return; /* told late: do_out has given up */
    free(h->image);
    h->image = status == 0 ? malloc(bytes) : NULL;
    if (h->image != NULL)
        memcpy(h->image, image, bytes);
    h->bytes = bytes;
    h->status = status;
}

static uint32_t global_of(const struct entry *o)
{
    return (o->table << SHARD_TABLET_BITS) + o->first;
}

/* It leads all tablets but this one. */
static void lead_without(struct rig *s, const struct entry *o)
{
    uint16_t shard_of[TABLES << SHARD_TABLET_BITS] = {0};
    shard_of[global_of(o)] = 1;
    ck_assert_int_eq(engine_lead(s->g, shard_of, TABLES << SHARD_TABLET_BITS, 0), 0);
}

static int do_out(struct rig *s, const struct entry *o, struct err *e)
{
    struct held *h = held_of(s);
    uint32_t tablet = global_of(o);
    uint64_t before = s->g->sequence;
    if (s->g->gives > 0)
        return SHOAL_E_AGAIN; /* one that is told late */
    h->status = 1;
    int rc = engine_give(s->g, tablet, on_given, h, e);
    while (rc == 0 && h->status == 1 && embedding_env_step(&s->env))
        ;
    bool given = rc == 0 && h->status == 0;
    if (rc != 0 || !given || s->fatal > 0) {
        if (given) { /* it has replaced the image of another tablet */
            free(h->image);
            *h = (struct held){0};
        }
        h->status = 0;
        return rc != 0 ? rc : SHOAL_E_AGAIN;
    }
    h->number = o->cut;
    h->tablet = tablet;
    lead_without(s, o);
    rc = engine_tablets_drop(s->g, &tablet, 1, e);
    rig_lead(s);
    bool nothing = rc == 0 && s->g->sequence == before; /* it was empty: there is no record */
    if (rc == SHOAL_E_BUSY || rc == SHOAL_E_AGAIN || nothing) {
        free(h->image); /* the other engine may still have to take an older one */
        *h = (struct held){0};
    }
    return rc;
}

static int do_in(struct rig *s, const struct entry *o, struct err *e)
{
    const struct held *h = held_of(s);
    uint64_t sequence;
    if (h->image == NULL || h->number != o->cut)
        return SHOAL_E_AGAIN;
    lead_without(s, o);
    int rc = engine_take(s->g, global_of(o), h->image, h->bytes, &sequence, e);
    rig_lead(s);
    return rc;
}

static int do_record(struct rig *s, const struct entry *o, uint64_t *sequence, struct err *e)
{
    uint64_t mark, noted;
    int status = 1, rc;
    struct table_schema schema = schema_of(o);
    switch (o->kind) {
    case PUSH:
        return do_push(s, o, sequence, e);
    case NAME:
        return do_name(s, o, e);
    case FENCE:
        return engine_fence(s->g, o->run, o->lane, o->generation, o->live, NULL, &mark, e);
    case RUN:
        return engine_run_open(s->g, o->run, LANES, o->mode, e);
    case DROP:
        return engine_run_drop(s->g, o->run, e);
    case RESTORE:
        return engine_restore(s->g, o->cut, o->run, e);
    case TABLE:
    case CHANGE:
        return engine_table_create(s->g, &schema, e);
    case CLEAR: /* this and the next two: only in the engine in memory */
        rc = engine_clear(s->g, o->run, TABLE_SET_ALL, on_done, &status, e);
        embedding_env_run(&s->env);
        return rc != 0 ? rc : status;
    case CUT:
        rc = engine_hold(s->g, o->cut, o->run, &noted);
        if (rc == 0)
            rc = engine_go(s->g, o->cut, on_cut, &status);
        embedding_env_run(&s->env);
        return rc != 0 ? rc : status;
    case UNLOAD:
        rc = engine_load_drop(s->g, o->run, TABLE_SET_ALL, on_done, &status, e);
        embedding_env_run(&s->env);
        return rc != 0 ? rc : status;
    case OUT:
        return do_out(s, o, e);
    case IN:
        return do_in(s, o, e);
    case EXPORT:
    case LOAD:
        break;
    }
    return 0;
}

/* Fields of a checkpoint that a load leaves out. */
static const char *const left_out[] = {NULL, "table-0:2", "table-0:1 table-1:2", "table-1:*"};

static void saved_path(const char *root, uint32_t saved, char path[LIMIT_PATH])
{
    snprintf(path, LIMIT_PATH, "%.900s/saved-%u", root, saved);
}

static void on_exported(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)text, (void)rows, (void)bytes;
    *(int *)context = status;
}

static void on_then_loaded(void *context, int status, const char *text, uint64_t rows)
{
    (void)text, (void)rows;
    *(int *)context = status;
}

/* Makes a checkpoint of the engine in memory, or loads one that it has made. */
static int then_save_or_load(struct history *h, const struct entry *o, struct err *e)
{
    struct engine *g = h->then.g;
    uint64_t sequence = g->sequence;
    int status = 1;
    char path[LIMIT_PATH];
    saved_path(h->mirror, o->saved, path);
    struct engine_load_options options = {.path = path,
                                          .run = o->run,
                                          .lanes = o->lanes,
                                          .mode = o->mode,
                                          .without = left_out[o->without]};
    int rc = o->kind == EXPORT ? engine_cut_export(g, o->cut, path, 0, 1, on_exported, &status, e)
                               : engine_load(g, &options, on_then_loaded, &status, e);
    embedding_env_run(&h->then.env);
    g->sequence = g->committed = sequence; /* a load on disk has no record */
    return rc != 0 ? rc : status;
}

/* ---- what must be there ---- */

static uint64_t digest_of(struct history *h, struct rig *s, uint32_t table, uint32_t tablet)
{
    struct err e = {0};
    uint64_t digest = 0;
    const struct table *t = engine_whole(s->g, table, tablet, &e);
    if (t == NULL || table_digest(t, tablet, &digest) != 0)
        give_up(h, "digest", e.text);
    return digest;
}

/* The digest does not cover the data that a tablet keeps beside its rows. */
static const char *life_differs(const struct tablet_life *a, const struct tablet_life *b)
{
    static const struct tablet_life none;
    a = a == NULL ? &none : a;
    b = b == NULL ? &none : b;
    if (a->named.count != b->named.count ||
        (a->named.count > 0 &&
         memcmp(a->named.list, b->named.list, a->named.count * sizeof *a->named.list) != 0))
        return "names of keys";
    if (a->waiting.young.count != b->waiting.young.count ||
        a->waiting.old.count != b->waiting.old.count)
        return "keys that wait";
    if (a->clock != b->clock)
        return "a clock";
    if (sketch_bytes(&a->sketch) != sketch_bytes(&b->sketch) ||
        (a->sketch.cell != NULL &&
         memcmp(a->sketch.cell, b->sketch.cell, sketch_bytes(&a->sketch)) != 0))
        return "counts of keys";
    return NULL;
}

static void compare_lives(struct history *h, uint32_t table)
{
    char text[128];
    for (uint32_t k = 0; k < 1u << SHARD_TABLET_BITS; k++) {
        const char *what = life_differs(engine_table(h->rig.g, table)->tablets[k].life,
                                        engine_table(h->then.g, table)->tablets[k].life);
        snprintf(text, sizeof text, "table %u tablet %u after record %" PRIu64, table, k,
                 h->rig.g->sequence);
        if (what != NULL)
            give_up(h, what, text);
    }
}

static void compare_run(struct history *h, uint64_t run)
{
    const struct engine *g = h->rig.g, *then = h->then.g;
    uint32_t mode = 0, lanes = 0, mode_then = 0, lanes_then = 0;
    int rc = engine_run_mode(g, run, &mode, &lanes),
        rc_then = engine_run_mode(then, run, &mode_then, &lanes_then);
    char what[64];
    snprintf(what, sizeof what, "run %" PRIu64, run);
    if (rc != rc_then || mode != mode_then || lanes != lanes_then)
        give_up(h, what, rc_then == 0 ? "it is not what it was" : "it should have gone");
    for (uint32_t lane = 0; rc == 0 && lane < lanes; lane++) {
        if (engine_lane_generation(g, run, lane) != engine_lane_generation(then, run, lane) ||
            engine_lane_live(g, run, lane) != engine_lane_live(then, run, lane))
            give_up(h, what, "a lane's generation");
        for (uint32_t t = 0; t < h->tables; t++)
            for (uint32_t k = 0; k < 1u << SHARD_TABLET_BITS; k++)
                if (engine_mark_range(g, run, lane, t, k, 1) !=
                    engine_mark_range(then, run, lane, t, k, 1))
                    give_up(h, what, "a mark");
    }
}

static void compare(struct history *h)
{
    char text[128];
    if (h->then.g->sequence != h->rig.g->sequence) {
        snprintf(text, sizeof text, "record %" PRIu64 ", not %" PRIu64, h->rig.g->sequence,
                 h->then.g->sequence);
        give_up(h, "sequence", text);
    }
    for (uint32_t t = 0; t < h->tables; t++) {
        bool here = engine_table(h->rig.g, t) != NULL;
        if (here != (engine_table(h->then.g, t) != NULL))
            give_up(h, "table", here ? "one too many" : "it is gone");
        if (here && !schema_equal(table_schema_of(engine_table(h->rig.g, t)),
                                  table_schema_of(engine_table(h->then.g, t))))
            give_up(h, "table", "another schema");
        for (uint32_t k = 0; here && k < 1u << SHARD_TABLET_BITS; k++)
            if (digest_of(h, &h->rig, t, k) != digest_of(h, &h->then, t, k)) {
                snprintf(text, sizeof text, "table %u tablet %u after record %" PRIu64, t, k,
                         h->rig.g->sequence);
                give_up(h, "other rows", text);
            }
        if (here)
            compare_lives(h, t);
    }
    for (uint64_t run = 1; run <= h->next_run; run++)
        compare_run(h, run);
}

/* True when the operation has not taken effect. No record behind `sequence` would show that. */
static bool was_in_vain(const struct history *h, const struct entry *o)
{
    if (o->kind == CUT)
        return !o->done;
    if (o->kind == CLEAR)
        return o->run > h->rig.g->runs.of[0].cleared;
    return o->kind == LOAD && !o->done && engine_newest_run(h->rig.g) < o->run;
}

/* Notes when the schemas changed. */
static void note_change(uint64_t changed[TABLES], const struct entry *o)
{
    if (o->kind == CHANGE)
        changed[o->table] = o->sequence;
    if (o->kind == CLEAR)
        memset(changed, 0, TABLES * sizeof *changed);
}

/* The engine in memory advances to record `sequence`; later operations have not happened. */
static void then_go(struct history *h, uint64_t sequence)
{
    uint64_t ignored;
    struct err e = {0};
    for (uint32_t i = 0; i < h->entries; i++) {
        const struct entry *o = &h->entry[i];
        if (o->sequence > sequence || was_in_vain(h, o))
            continue;
        int rc = o->kind == EXPORT || o->kind == LOAD ? then_save_or_load(h, o, &e)
                                                      : do_record(&h->then, o, &ignored, &e);
        note_change(h->changed_then, o);
        if (rc != 0)
            give_up(h, "in memory", e.text[0] != 0 ? e.text : err_text(rc));
        if (o->kind != CUT && o->kind != CLEAR && o->kind != EXPORT && o->kind != LOAD &&
            h->then.g->sequence != o->sequence) {
            char text[100];
            snprintf(text, sizeof text, "kind %d record %" PRIu64 " is %" PRIu64, (int)o->kind,
                     o->sequence, h->then.g->sequence);
            give_up(h, "in memory", text);
        }
        embedding_env_run(&h->then.env);
        rig_lead(&h->then);
    }
    for (uint64_t cut = 1; cut <= h->next_cut; cut++)
        if (cut != h->cut[0].cut && cut != h->cut[1].cut && cut != h->cut[2].cut)
            (void)engine_cut_drop(h->then.g, cut);
    memcpy(h->changed, h->changed_then, sizeof h->changed);
    h->entries = 0;
    h->base = sequence;
}

static void check_cuts(struct history *h)
{
    uint64_t have[16];
    uint32_t count = engine_cuts(h->rig.g, have, 16);
    for (uint32_t i = 0; i < CUTS; i++) {
        bool found = h->cut[i].cut == 0;
        for (uint32_t k = 0; k < count; k++)
            found |= have[k] == h->cut[i].cut;
        if (!found)
            give_up(h, "a cut", "it is gone");
    }
}

/* ---- lives ---- */

static int try_open(struct history *h, struct err *e)
{
    struct engine_options options = {.dir = h->dir,
                                     .durability = h->durability,
                                     .journal_max = 8u * h->segment,
                                     .segment_bytes = h->segment,
                                     .journal_keep = h->keep,
                                     .disk_watermark = 1,
                                     .memory = h->memory};
    return rig_try_open_with(&h->rig, &options, e);
}

static bool over(const struct history *h)
{
    return h->rig.fatal > 0 || disk_is_off(h->disk);
}

static void note_floor(struct history *h)
{
    if (over(h))
        return;
    uint64_t on =
        h->durability == DURABLE_FSYNC ? engine_acknowledged(h->rig.g) : engine_synced(h->rig.g);
    h->floor = on > h->floor ? on : h->floor;
}

static void life_close(struct history *h, bool flush)
{
    struct engine_stats stats;
    engine_stats_get(h->rig.g, &stats);
    fetched += stats.fetched;
    evicted += stats.evicted;
    for (uint32_t i = 0; i < h->tables; i++) {
        struct table_counts counts;
        if (engine_table(h->rig.g, i) == NULL)
            continue;
        table_counts_get(engine_table(h->rig.g, i), &counts);
        aged += counts.aged + counts.expired;
    }
    (void)engine_close(h->rig.g, flush);
    h->rig.g = NULL;
    embedding_env_run(&h->rig.env);
    if (h->making != NULL)
        h->making->done = false;
    h->making = NULL;
}

/* Power failed while a load was being dropped: its rows are there, or a repeated drop of the run
 * removes them. */
static void unload_again(struct history *h)
{
    const struct entry *o = h->entries == 0 ? NULL : &h->entry[h->entries - 1];
    uint64_t ignored, rows = 0;
    uint32_t mode, lanes;
    struct err e = {0};
    if (o == NULL || o->kind != UNLOAD || o->done ||
        engine_run_mode(h->rig.g, o->run, &mode, &lanes) != 0)
        return;
    for (uint32_t i = 0; i < h->tables; i++)
        rows += table_rows(engine_table(h->rig.g, i));
    if (rows > 0)
        return;
    disk_fail(h->disk, NULL);
    if (do_record(&h->rig, o, &ignored, &e) != 0)
        give_up(h, "a load is not taken back", e.text);
}

/* Tablets are recovered in steps, or restored to a cut; some are asked for meanwhile. */
static void come_back(struct history *h)
{
    struct entry o = {.kind = NAME, .span = h->span};
    uint64_t keys[64];
    in_steps += !engine_back(h->rig.g);
    while (!over(h) && !engine_back(h->rig.g)) {
        o.dice = rng_next(&h->more);
        o.table = (uint32_t)rng_below(&h->more, h->tables);
        if (o.dice % 4 == 0)
            (void)engine_warm(h->rig.g, o.table, keys, keys_make(&o, 8, keys));
        if (!embedding_env_step(&h->rig.env))
            give_up(h, "tablets", "they do not come back");
    }
}

/* Returns 0 when the engine is open and has everything except what the power cut took. */
static int open_whole(struct history *h, struct err *e)
{
    rig_in_steps = h->in_steps;
    int rc = try_open(h, e);
    rig_in_steps = false;
    if (rc != 0)
        return rc;
    h->rig.g->reload_rows = 1 + (uint32_t)rng_below(&h->more, 300);
    come_back(h);
    return h->rig.fatal > 0 ? err_wrap(e, SHOAL_E_IO, "%s", h->rig.fatal_err.text) : 0;
}

/* Opens the engine, if necessary a second time without a fault; then everything must be there. */
static void life_open(struct history *h)
{
    struct err e = {0};
    char text[160];
    int rc = open_whole(h, &e);
    if (h->rig.g != NULL && over(h))
        life_close(h, false); /* its start failed */
    if (disk_is_off(h->disk) || (rc != 0 && disk_failed(h->disk))) {
        cuts_of_power += disk_is_off(h->disk);
        h->came = true;
        if (disk_is_off(h->disk))
            disk_on(h->disk);
        disk_fail(h->disk, NULL);
        rc = open_whole(h, &e);
    }
    if (rc != 0)
        give_up(h, "it does not start", e.text);
    rig_lead(&h->rig);
    unload_again(h);
    uint64_t sequence = h->rig.g->sequence, newest = engine_newest_run(h->rig.g);
    if (sequence < h->floor) {
        snprintf(text, sizeof text, "up to record %" PRIu64 ", and %" PRIu64 " was acknowledged",
                 sequence, h->floor);
        give_up(h, "records are lost", text);
    }
    if (h->rig.g->runs.of[0].cleared < h->cleared)
        give_up(h, "a clear", "it was answered, and has not happened");
    h->next_run = newest > h->next_run ? newest : h->next_run;
    then_go(h, sequence);
    if (held_there.number != held_then.number)
        held_forget(); /* it was not given */
    compare(h);
    check_cuts(h);
    note_floor(h);
}

static struct entry *entry_new(struct history *h, enum kind kind)
{
    ck_assert_uint_lt(h->entries, ENTRIES);
    struct entry *o = &h->entry[h->entries++];
    *o = (struct entry){.kind = kind,
                        .sequence = h->rig.g->sequence + 1,
                        .dice = rng_next(&h->dice),
                        .run = engine_newest_run(h->rig.g),
                        .table = (uint32_t)rng_below(&h->dice, h->tables),
                        .lane = (uint32_t)rng_below(&h->dice, LANES),
                        .count = 1u << SHARD_TABLET_BITS,
                        .time = h->time,
                        .ages = h->ages,
                        .span = h->span};
    h->time += h->ages ? (uint32_t)rng_below(&h->more, HOUR / 4) : 0;
    return o;
}

/* Does an operation. After a failure its record may be there or not. */
static int entry_do(struct history *h, struct entry *o)
{
    struct err e = {0};
    uint64_t before = h->rig.g->sequence, sequence = 0;
    int rc = do_record(&h->rig, o, &sequence, &e);
    if (rc == 0 && h->rig.g->sequence == before && o->kind != CUT) {
        h->entries--;
        return 0;
    }
    if (rc != 0 && !over(h)) {
        h->entries--;
        if (rc != SHOAL_E_BUSY && rc != SHOAL_E_AGAIN && rc != SHOAL_E_NO_SPACE &&
            !(o->kind == IN && rc == SHOAL_E_SCHEMA))
            give_up(h, "refused", e.text);
    }
    if (rc == 0 && !over(h)) {
        records++;
        if (o->kind == FENCE || o->kind == RUN || o->kind == DROP || o->kind == RESTORE)
            h->floor = o->sequence > h->floor ? o->sequence : h->floor;
        note_change(h->changed, o);
    }
    return rc;
}

static void late_told(struct history *h)
{
    if (h->late == NULL)
        return;
    embedding_env_put(&h->rig.env, h->late);
    h->late = NULL;
    told_late++;
}

/* Threads finish in any order; now and then one has finished long before its end is reported. */
static void work_some(struct history *h)
{
    struct embedding_env *env = &h->rig.env;
    for (uint64_t n = rng_below(&h->dice, 4); n > 0; n--) {
        uint64_t dice = rng_below(&h->more, 12);
        if (dice == 0)
            late_told(h);
        if (env->count > 0 && dice == 1 && h->late == NULL)
            h->late = embedding_env_take(env, (unsigned)rng_below(&h->more, env->count));
        else if (env->count > 1 && dice < 6)
            embedding_env_step_at(env, (unsigned)rng_below(&h->more, env->count));
        else if (!embedding_env_step(env))
            return;
    }
}

/* True when the rows of a push are in memory, after a limited number of steps. */
static bool warm(struct history *h, const struct entry *o)
{
    static struct push p;
    if (h->memory == 0)
        return true;
    push_make(o, &p);
    for (uint32_t tries = 0; tries < 60 && !over(h); tries++) {
        if (engine_warm(h->rig.g, o->table, p.keys, p.record.key_count))
            return true;
        engine_flush_step(h->rig.g);
        (void)embedding_env_step(&h->rig.env);
    }
    return false;
}

static bool is_open(const struct history *h, uint64_t run)
{
    uint32_t mode, lanes;
    return engine_run_mode(h->rig.g, run, &mode, &lanes) == 0;
}

/* Pushes the batches of its lane that its tablets lack, if its rows come to memory. */
static void push_do(struct history *h, struct entry *o)
{
    o->generation = engine_lane_generation(h->rig.g, o->run, o->lane);
    o->from = engine_mark_range(h->rig.g, o->run, o->lane, o->table, o->first, o->count);
    o->to = o->from + 1 + rng_below(&h->dice, 2);
    if (rng_below(&h->dice, 8) == 0 && o->from > 0)
        o->from--; /* repeated */
    if (warm(h, o))
        (void)entry_do(h, o);
    else
        h->entries--;
}

static void op_push(struct history *h)
{
    struct entry *o = entry_new(h, PUSH);
    if (rng_below(&h->dice, 3) == 0) {
        o->first = (uint32_t)rng_below(&h->dice, o->count);
        o->count = 1 + (uint32_t)rng_below(&h->dice, o->count - o->first);
    }
    if (h->other != 0 && is_open(h, h->other) && rng_below(&h->more, 3) == 0)
        o->run = h->other;
    push_do(h, o);
}

static void op_fence(struct history *h)
{
    struct entry *o = entry_new(h, FENCE);
    if (h->other != 0 && is_open(h, h->other) && rng_below(&h->more, 3) == 0)
        o->run = h->other;
    o->generation = engine_lane_generation(h->rig.g, o->run, o->lane) + 1;
    o->live = rng_below(&h->dice, 2) == 0;
    (void)entry_do(h, o);
}

static void op_run(struct history *h)
{
    uint64_t old = engine_newest_run(h->rig.g);
    struct entry *o = entry_new(h, RUN);
    o->run = h->next_run + 1;
    o->mode = (uint32_t)rng_below(&h->dice, 3);
    if (entry_do(h, o) != 0)
        return;
    h->next_run++;
    if (old == 0 || over(h))
        return;
    o = entry_new(h, DROP);
    o->run = old;
    (void)entry_do(h, o);
}

static void on_made(void *context, int status, uint64_t rows, uint64_t bytes)
{
    struct history *h = context;
    (void)rows, (void)bytes;
    if (h->making == NULL || over(h))
        return;
    h->making->done = status == 0;
    if (status == 0 && h->making->sequence > h->floor)
        h->floor = h->making->sequence;
    for (uint32_t i = 0; i < CUTS && status == 0; i++)
        if (h->cut[i].cut == 0) {
            h->cut[i] = (struct made_cut){h->making->cut, h->making->sequence, h->making->to};
            break;
        }
    h->making = NULL;
}

static void op_cut(struct history *h)
{
    struct made_cut *place = &h->cut[rng_below(&h->dice, CUTS)];
    uint64_t sequence;
    if (h->making != NULL)
        return;
    if (h->cut[0].cut != 0 && h->cut[1].cut != 0 && h->cut[2].cut != 0) {
        if (engine_cut_drop(h->rig.g, place->cut) == 0)
            place->cut = 0;
        return;
    }
    struct entry *o = entry_new(h, CUT);
    o->sequence--;
    o->cut = ++h->next_cut;
    for (uint32_t i = 0; i < h->tables; i++)
        o->to |= (uint64_t)(engine_table(h->rig.g, i) != NULL) << i;
    if (engine_hold(h->rig.g, o->cut, o->run, &sequence) != 0) {
        h->entries--;
        return;
    }
    h->making = o;
    if (engine_go(h->rig.g, o->cut, on_made, h) != 0) {
        (void)engine_release(h->rig.g, o->cut);
        h->making = NULL;
        h->entries--;
    }
}

/* True when a table's schema has changed since the cut. */
static bool is_outdated(const struct history *h, const struct made_cut *cut)
{
    for (uint32_t i = 0; i < h->tables; i++)
        if ((cut->tables >> i & 1) && h->changed[i] > cut->sequence)
            return true;
    return false;
}

static void restore_refused(struct history *h, uint64_t cut)
{
    struct err e = {0};
    int rc = engine_restore(h->rig.g, cut, h->next_run + 1, &e);
    if (!over(h) && rc != SHOAL_E_SCHEMA && rc != SHOAL_E_AGAIN && rc != SHOAL_E_BUSY)
        give_up(h, "a cut of before a table changed", err_text(rc));
}

static void op_restore(struct history *h)
{
    struct made_cut *made = &h->cut[rng_below(&h->dice, CUTS)];
    uint64_t cut = made->cut;
    int status = 1;
    struct err e = {0};
    if (cut == 0 || h->making != NULL)
        return;
    if (is_outdated(h, made)) {
        restore_refused(h, cut);
        return;
    }
    if (rng_below(&h->dice, 2) == 0) {
        if (engine_restore_check(h->rig.g, cut, h->next_run + 1, on_done, &status, &e) != 0)
            return;
        embedding_env_run(&h->rig.env);
        if (status != 0 && !over(h) && !disk_failed(h->disk))
            give_up(h, "a cut", err_text(status));
    }
    if (over(h))
        return;
    struct entry *o = entry_new(h, RESTORE);
    o->cut = cut;
    o->run = h->next_run + 1;
    if (entry_do(h, o) == 0 || over(h))
        h->next_run++;
    if (!over(h))
        come_back(h);
}

static void on_scrubbed(void *context, int status, const char *text, uint64_t sequence)
{
    (void)context, (void)status, (void)text, (void)sequence;
}

static void op_scrub(struct history *h)
{
    struct entry *o = entry_new(h, NAME);
    uint64_t keys[64];
    struct err e;
    o->dice -= o->dice % 4; /* erased */
    uint32_t n = keys_make(o, 48, keys), table = o->table;
    if (entry_do(h, o) == 0 && !over(h))
        (void)engine_scrub(h->rig.g, table, keys, n, on_scrubbed, NULL, &e);
}

static void life_begin(struct history *h);

/* ---- what came later ---- */

/* Asks until the change is made, or gives up. */
static void op_change(struct history *h)
{
    struct entry wish = *entry_new(h, CHANGE);
    h->entries--;
    for (uint64_t n = 1 + rng_below(&h->dice, 30); n > 0 && !over(h); n--) {
        ck_assert_uint_lt(h->entries, ENTRIES);
        struct entry *o = &h->entry[h->entries++];
        *o = wish;
        uint64_t before = h->rig.g->sequence;
        int rc = entry_do(h, o);
        changes += h->rig.g->sequence > before;
        if (rc != SHOAL_E_AGAIN)
            return;
        (void)embedding_env_step(&h->rig.env);
    }
}

/* Pulls some rows. */
static void op_look(struct history *h)
{
    struct entry *o = entry_new(h, PUSH);
    (void)warm(h, o);
    h->entries--;
}

/* Limits the memory of rows to less than they take, or lifts the limit. */
static void op_squeeze(struct history *h)
{
    struct tier *tier = &h->rig.g->tier;
    tier->looks = 0; /* it looks again */
    uint64_t used = tier_used(h->rig.g);
    tier->rows_max = rng_below(&h->dice, 2) == 0 ? used / 8 * (4 + rng_below(&h->dice, 4))
                                                 : 2 * used + h->memory;
}

/* All rows of a tablet are dropped, field by field. */
static bool op_drop(struct history *h, const struct entry *of)
{
    struct entry *o = entry_new(h, NAME);
    o->fresh = true;
    if (of != NULL) {
        o->dice = of->dice;
        o->table = of->table;
    }
    return entry_do(h, o) == 0 && !over(h);
}

/* Rows that are being fetched are dropped, created again and moved to the store, before the fetch
 * is reported. */
static void op_gone(struct history *h)
{
    static struct push p;
    struct embedding_env *env = &h->rig.env;
    struct tier *tier = &h->rig.g->tier;
    struct entry push = *entry_new(h, PUSH);
    uint64_t keys[64];
    h->entries--;
    push_make(&push, &p);
    if (engine_warm(h->rig.g, push.table, p.keys, p.record.key_count) || env->count == 0)
        return;
    h->late = embedding_env_take(env, env->count - 1);
    if (over(h) || !op_drop(h, &push))
        return;
    (void)keys_make(&(struct entry){.kind = NAME, .dice = push.dice, .span = push.span}, 48, keys);
    push.first = tablet_of(keys[0]);
    push.count = 1;
    push.sequence = h->rig.g->sequence + 1;
    h->entry[h->entries++] = push;
    push_do(h, &h->entry[h->entries - 1]);
    for (uint32_t i = 0; i < 40 && !over(h); i++) {
        tier->rows_max = tier_used(h->rig.g) / 2;
        engine_flush_step(h->rig.g);
        (void)embedding_env_step(env);
    }
    tier->rows_max = 2 * tier_used(h->rig.g) + h->memory;
}

static void op_export(struct history *h)
{
    const struct made_cut *cut = &h->cut[rng_below(&h->dice, CUTS)];
    char path[LIMIT_PATH];
    struct err e = {0};
    if (cut->cut == 0 || h->making != NULL || h->exports == SAVED)
        return;
    uint64_t number = cut->cut;
    int expected = is_outdated(h, cut) ? SHOAL_E_SCHEMA : 0;
    uint32_t saved = h->exports++;
    saved_path(h->root, saved, path);
    h->status = 1;
    int rc = engine_cut_export(h->rig.g, number, path, 0, 1, on_exported, &h->status, &e);
    if (rc != 0 && !over(h))
        give_up(h, "an export is refused", e.text);
    while (rc == 0 && h->status == 1 && !over(h)) {
        if (rng_below(&h->dice, 2) == 0)
            op_push(h);
        /* the export itself may be the work whose end is late, and pushes may find no room */
        if (!embedding_env_step(&h->rig.env))
            late_told(h);
    }
    if (over(h) || (h->status != expected && disk_failed(h->disk)))
        return;
    if (h->status != expected)
        give_up(h, "an export", err_text(h->status));
    if (expected != 0)
        return;
    struct entry *o = entry_new(h, EXPORT);
    o->sequence = 0;
    o->cut = number;
    o->saved = saved;
    h->saved[saved] = true;
    exports++;
}

static void on_loaded(void *context, int status, const char *text, uint64_t rows)
{
    struct history *h = context;
    (void)text, (void)rows;
    if (!over(h))
        h->status = status;
}

static void on_unloaded(void *context, int status, const char *text)
{
    struct history *h = context;
    (void)text;
    if (!over(h))
        h->back = status;
}

static void unload_begins(struct history *h, uint64_t run)
{
    struct err e = {0};
    struct entry *o = entry_new(h, UNLOAD);
    o->run = run;
    h->back = 1;
    if (engine_load_drop(h->rig.g, run, TABLE_SET_ALL, on_unloaded, h, &e) != 0 && !over(h))
        give_up(h, "taking a load back is refused", e.text);
}

/* A load runs step by step; it is cancelled or dropped after some steps. */
static void load_goes(struct history *h, const struct entry *o)
{
    uint64_t most = rng_below(&h->dice, 3) == 0 ? rng_below(&h->dice, 16) : UINT64_MAX;
    h->back = 0;
    for (uint64_t i = 0; !over(h); i++) {
        if (most != UINT64_MAX && (i >= most || h->status == 0)) {
            unload_begins(h, o->run);
            most = UINT64_MAX;
        }
        if (h->status != 1 && h->back != 1)
            return;
        if (rng_below(&h->dice, 4) == 0)
            (void)engine_sync_due(h->rig.g);
        if (!embedding_env_step(&h->rig.env))
            engine_flush_step(h->rig.g);
    }
}

/* A load that was not answered may have happened: its run shows it. */
static void load_ends(struct history *h, struct entry *o)
{
    load_goes(h, o);
    struct entry *last = &h->entry[h->entries - 1]; /* the load itself, if it was not dropped */
    if (over(h))
        return;
    if (h->back != 0)
        give_up(h, "taking a load back", err_text(h->back));
    unloads += last->kind == UNLOAD;
    if (h->status != 0) {
        bool off = h->status == SHOAL_E_STOPPED && last->kind == UNLOAD;
        h->entries -= last->kind == UNLOAD ? 2 : 1;
        if (!off && h->status != SHOAL_E_NO_SPACE && h->status != SHOAL_E_AGAIN &&
            !disk_failed(h->disk))
            give_up(h, "a load", err_text(h->status));
        return;
    }
    o->done = last->done = true;
    h->next_run = o->run;
    h->floor = last->sequence > h->floor ? last->sequence : h->floor;
    loads++;
}

static void op_load(struct history *h)
{
    uint32_t saved = (uint32_t)rng_below(&h->dice, SAVED);
    char path[LIMIT_PATH];
    struct err e = {0};
    for (uint32_t i = 0; i < SAVED && !h->saved[saved]; i++)
        saved = (saved + 1) % SAVED;
    if (!h->saved[saved] || h->making != NULL)
        return;
    struct entry *o = entry_new(h, LOAD);
    o->sequence--;
    o->saved = saved;
    o->run = h->next_run + 1;
    o->lanes = rng_below(&h->dice, 4) == 0 ? LANES : 0;
    o->mode = o->lanes > 0 ? (uint32_t)rng_below(&h->dice, 3) : 0;
    o->without = (uint32_t)rng_below(&h->more, 8) % 4;
    saved_path(h->root, saved, path);
    struct engine_load_options options = {.path = path,
                                          .run = o->run,
                                          .lanes = o->lanes,
                                          .mode = o->mode,
                                          .without = left_out[o->without]};
    h->status = 1;
    int rc = engine_load(h->rig.g, &options, on_loaded, h, &e);
    if (rc == 0) {
        load_ends(h, o);
        return;
    }
    h->entries--;
    if (!over(h) && rc != SHOAL_E_EXISTS && rc != SHOAL_E_BUSY && rc != SHOAL_E_AGAIN &&
        rc != SHOAL_E_NO_SPACE)
        give_up(h, "a load is refused", e.text);
}

/* Tables and run are created anew, as for a new job. */
static void op_clear(struct history *h)
{
    int status = 1;
    struct err e = {0};
    if (h->making != NULL)
        return;
    struct entry *o = entry_new(h, CLEAR);
    o->sequence--;
    o->run = h->next_run + 1;
    int rc = engine_clear(h->rig.g, o->run, TABLE_SET_ALL, on_done, &status, &e);
    if (rc == 0) {
        memset(h->cut, 0, sizeof h->cut);
        embedding_env_run(&h->rig.env);
    } else {
        h->entries--;
        if (!over(h) && rc != SHOAL_E_AGAIN && rc != SHOAL_E_NO_SPACE)
            give_up(h, "a clear is refused", e.text);
    }
    if (over(h) || rc != 0)
        return;
    if (status != 0)
        give_up(h, "a clear", err_text(status));
    h->cleared = o->run;
    note_change(h->changed, o);
    clears++;
    rig_lead(&h->rig);
    life_begin(h);
}

/* A tablet goes, or the last one comes back: beside the other dice. */
static void op_move(struct history *h)
{
    struct rng dice = h->dice, more = h->more;
    h->dice = h->moves;
    uint64_t which = rng_below(&h->dice, 24);
    if (which == 0) {
        struct entry *o = entry_new(h, OUT);
        o->first = (uint32_t)rng_below(&h->dice, o->count);
        o->cut = ++h->moved;
        moved += entry_do(h, o) == 0;
    } else if (which < 3 && held_there.image != NULL) {
        struct entry *o = entry_new(h, IN);
        o->table = held_there.tablet >> SHARD_TABLET_BITS;
        o->first = held_there.tablet % o->count;
        o->cut = held_there.number;
        moved += entry_do(h, o) == 0;
    }
    h->moves = h->dice;
    h->dice = dice;
    h->more = more;
}

static void later_op(struct history *h)
{
    struct rng dice = h->dice;
    h->dice = h->more;
    uint64_t which = rng_below(&h->dice, 100);
    if (which < 29)
        late_told(h);
    if (which < 3)
        op_change(h);
    else if (which < 5)
        op_export(h);
    else if (which < 6 && h->saved[0])
        op_clear(h);
    else if (which < 12 && h->memory > 0)
        op_look(h);
    else if (which < 20 && h->memory > 0)
        op_squeeze(h);
    else if (which < 28 && h->memory > 0)
        op_gone(h);
    else if (which == 28)
        (void)op_drop(h, NULL);
    h->more = h->dice;
    h->dice = dice;
}

static void one_op(struct history *h)
{
    uint64_t dice = rng_below(&h->dice, 100);
    if (dice >= 72)
        late_told(h);
    if (dice < 66)
        op_push(h);
    else if (dice < 72)
        (void)entry_do(h, entry_new(h, NAME));
    else if (dice < 78)
        op_fence(h);
    else if (dice < 80)
        op_run(h);
    else if (dice < 86)
        op_cut(h);
    else if (dice < 88)
        op_restore(h);
    else if (dice < 89)
        op_scrub(h);
    else if (dice < 90 && rng_below(&h->dice, 4) == 0)
        op_clear(h);
    else if (dice < 94)
        (void)engine_sync_due(h->rig.g);
    else
        embedding_env_run(&h->rig.env);
    if (!over(h))
        later_op(h);
    if (!over(h))
        op_move(h);
    if (over(h))
        return;
    engine_flush_step(h->rig.g);
    work_some(h);
    note_floor(h);
}

static bool has_run(const struct history *h)
{
    return is_open(h, engine_newest_run(h->rig.g));
}

/* Creates the tables and the run of a new shard, or loads rows from a checkpoint. */
static void life_begin(struct history *h)
{
    for (uint32_t i = 0; i < h->tables && !over(h); i++)
        if (engine_table(h->rig.g, i) == NULL) {
            struct entry *o = entry_new(h, TABLE);
            o->table = i;
            (void)entry_do(h, o);
        }
    if (!over(h) && !has_run(h) && h->saved[0]) {
        struct rng dice = h->dice;
        h->dice = h->more;
        h->other = 0;
        if (rng_below(&h->dice, 2) == 0)
            op_run(h);
        if (has_run(h))
            h->other = engine_newest_run(h->rig.g);
        if (!over(h))
            op_load(h);
        beside_runs += h->other != 0 && engine_newest_run(h->rig.g) != h->other;
        h->more = h->dice;
        h->dice = dice;
    }
    if (!over(h) && !has_run(h))
        op_run(h);
}

static void fault_choose(struct history *h)
{
    static const int why[] = {EIO, ENOSPC, EMFILE};
    uint64_t dice = rng_below(&h->dice, 16);
    struct disk_fault f = {.at = 1 + rng_below(&h->dice, 4ull << rng_below(&h->dice, 9)),
                           .kind = dice < 9    ? DISK_OFF
                                   : dice < 14 ? DISK_ERROR
                                               : DISK_SHORT,
                           .why = why[rng_below(&h->dice, 3)],
                           .syncs = rng_below(&h->dice, 3) == 0,
                           .seed = rng_next(&h->dice)};
    if (f.kind != DISK_OFF)
        f.but = "/rows/"; /* RocksDB may end the process: it asserts that its writes succeed */
    if (f.syncs && f.kind == DISK_ERROR) {
        f.why = EIO;
        f.at = 1 + f.at / 8;
    }
    if (rng_below(&h->dice, 4) == 0)
        f.last = (uint32_t)rng_below(&h->dice, 32);
    disk_fail(h->disk, &f);
}

/* Runs one life, with the fault that was chosen for it. */
static void one_life(struct history *h, uint64_t ops)
{
    uint64_t end = rng_below(&h->dice, 8);
    lives++;
    h->came = false;
    life_open(h);
    life_begin(h);
    for (uint64_t i = 0; i < ops && !over(h); i++)
        one_op(h);
    failed_calls += disk_failed(h->disk) && !disk_is_off(h->disk);
    h->came |= disk_failed(h->disk);
    if (end < 5 && !over(h))
        disk_off(h->disk, rng_next(&h->dice));
    bool off = disk_is_off(h->disk);
    late_told(h);
    life_close(h, !off && end == 7);
    off = disk_is_off(h->disk); /* closing makes calls */
    cuts_of_power += off;
    if (off)
        disk_on(h->disk);
    else
        disk_fail(h->disk, NULL);
}

static void has_memory(struct history *h, bool little)
{
    h->memory = little ? (640u << 10) + rng_below(&h->more, 512u << 10) : 0;
    h->span = little ? COLD_SPAN : SPAN;
}

static void history_begin(struct history *h, uint64_t seed)
{
    struct err e = {0};
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    memset(h, 0, sizeof *h);
    between = h;
    h->seed = seed;
    h->dice = rng_of(seed, 3, 3);
    h->more = rng_of(seed, 3, 4);
    h->moves = rng_of(seed, 3, 5);
    held_forget();
    has_memory(h, rng_below(&h->more, 2) == 0);
    h->ages = rng_below(&h->more, 2) == 0;
    h->in_steps = rng_below(&h->more, 2) == 0;
    h->time = 100 * HOUR;
    snprintf(h->root, sizeof h->root, "%s/shoal-power-XXXXXX", shm);
    ck_assert_ptr_nonnull(mkdtemp(h->root));
    snprintf(h->dir, sizeof h->dir, "%.900s/shard", h->root);
    snprintf(h->mirror, sizeof h->mirror, "%s/shoal-power-XXXXXX", shm);
    ck_assert_ptr_nonnull(mkdtemp(h->mirror));
    for (uint32_t i = 0; i < SAVED; i++) { /* the caller of a checkpoint makes its folder */
        char path[LIMIT_PATH];
        saved_path(h->root, i, path);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        saved_path(h->mirror, i, path);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    h->disk = disk_watch(h->root);
    h->durability = rng_below(&h->dice, 2) == 0 ? DURABLE_FSYNC : DURABLE_JOURNAL;
    h->tables = 1 + (uint32_t)rng_below(&h->dice, TABLES);
    h->segment = 65536u << rng_below(&h->dice, 3);
    h->keep = rng_below(&h->dice, 3) == 0 ? 4u * h->segment : 0;
    ck_assert_int_eq(rig_try_open(&h->then, NULL, DURABLE_MEMORY, &e), 0);
    rig_lead(&h->then);
}

static void digests_of(struct history *h, const char *root, uint32_t saved, uint64_t *digest)
{
    char path[LIMIT_PATH];
    struct checkpoint *c = NULL;
    struct err e = {0};
    uint64_t rows;
    saved_path(root, saved, path);
    int rc = checkpoint_open(path, NULL, &c, &e);
    if (rc == 0)
        rc = checkpoint_verify(c, NULL, NULL, &e);
    for (uint32_t i = 0; rc == 0 && i < checkpoint_facts(c)->tables; i++)
        rc = checkpoint_digest(c, i, digest + (i << SHARD_TABLET_BITS), &rows, &e);
    if (rc != 0)
        give_up(h, "a checkpoint", e.text);
    checkpoint_close(c);
}

static void check_saved(struct history *h)
{
    for (uint32_t i = 0; i < SAVED; i++) {
        uint64_t here[TABLES << SHARD_TABLET_BITS] = {0}, then[TABLES << SHARD_TABLET_BITS] = {0};
        if (!h->saved[i])
            continue;
        digests_of(h, h->root, i, here);
        digests_of(h, h->mirror, i, then);
        if (memcmp(here, then, sizeof here) != 0)
            give_up(h, "a checkpoint", "other rows");
    }
}

static void history_end(struct history *h)
{
    disk_fail(h->disk, NULL);
    life_open(h);
    check_saved(h);
    life_close(h, false);
    rig_close(&h->then, false);
    disk_free(h->disk);
    rig_remove_dir(h->root);
    rig_remove_dir(h->mirror);
}

static void history(uint64_t seed)
{
    static struct history h;
    history_begin(&h, seed);
    for (; h.life < LIVES; h.life++) {
        fault_choose(&h);
        one_life(&h, rng_below(&h.dice, OPS));
    }
    history_end(&h);
}

/* The second life of a history ends at its call `at`; false: it had none. */
static bool second_life_fails(uint64_t seed, const struct disk_fault *fault)
{
    static struct history h;
    history_begin(&h, seed);
    has_memory(&h, seed % 2 == 0);
    one_life(&h, OPS);
    h.life++;
    disk_fail(h.disk, fault);
    one_life(&h, OPS / 2);
    bool came = h.came;
    history_end(&h);
    return came;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void tell(uint64_t seeds, uint64_t began)
{
    double seconds = (double)(time_monotonic_ns() - began) / 1e9;
    printf("%" PRIu64 " seeds, %" PRIu64 " lives, %" PRIu64 " power cuts, %" PRIu64
           " lives with failed calls, %" PRIu64 " records, %" PRIu64 " clears, %" PRIu64
           " changes, %" PRIu64 " exports, %" PRIu64 " loads, %" PRIu64 " taken back, %" PRIu64
           " beside a run, %" PRIu64 " rows evicted, %" PRIu64 " fetched, %" PRIu64
           " aged, %" PRIu64 " told late, %" PRIu64 " back in steps, %" PRIu64
           " moves; %.1f seeds, %.1f cuts a second\n",
           seeds, lives, cuts_of_power, failed_calls, records, clears, changes, exports, loads,
           unloads, beside_runs, evicted, fetched, aged, told_late, in_steps, moved,
           (double)seeds / seconds, (double)cuts_of_power / seconds);
    fflush(stdout);
}

START_TEST(what_comes_back_is_what_was_on_the_disk)
{
    uint64_t first = number("SHOAL_SEED", 1), count = number("SHOAL_SEEDS", 8);
    uint64_t began = time_monotonic_ns();
    for (uint64_t i = 0; i < count; i++) {
        history(first + i);
        if ((i + 1) % 100 == 0 || i + 1 == count)
            tell(i + 1, began);
    }
}
END_TEST

/* Only the store syncs the journal, before its own writes are durable. */
START_TEST(what_is_stored_was_journalled_before)
{
    static struct history h;
    history_begin(&h, 100 + (uint64_t)_i);
    h.durability = DURABLE_JOURNAL;
    h.segment = 65536;
    h.keep = 0;
    has_memory(&h, false);
    life_open(&h);
    life_begin(&h);
    for (uint32_t i = 0; i < 400; i++) {
        op_push(&h);
        engine_flush_step(h.rig.g);
        embedding_env_run(&h.rig.env);
        note_floor(&h);
    }
    ck_assert_uint_gt(h.floor, 100); /* the store has synced */
    disk_off(h.disk, (uint64_t)_i);
    life_close(&h, false);
    disk_on(h.disk);
    history_end(&h);
}
END_TEST

/* A closed engine has stored no more than it has journalled: the power fails before the journal is
 * synced again. */
START_TEST(what_a_close_stores_was_journalled_before)
{
    static struct history h;
    history_begin(&h, 200 + (uint64_t)_i);
    h.durability = DURABLE_JOURNAL;
    life_open(&h);
    life_begin(&h);
    for (uint32_t i = 0; i < 100 || (i < 1000 && h.rig.g->flush.since_flush == 0); i++) {
        op_push(&h);
        engine_flush_step(h.rig.g);
        embedding_env_run(&h.rig.env);
        note_floor(&h);
    }
    life_close(&h, false);
    disk_off(h.disk, (uint64_t)_i);
    disk_on(h.disk);
    history_end(&h);
}
END_TEST

/* Batches are small and rows that leave flush the store each time, as if each had filled its
 * memtable: so the store is often flushed between two batches that did not. */
static bool small;
void __real_spill_init(struct spill *s, struct store *store, uint64_t memory);
void __wrap_spill_init(struct spill *s, struct store *store, uint64_t memory);
void __wrap_spill_init(struct spill *s, struct store *store, uint64_t memory)
{
    __real_spill_init(s, store, memory);
    if (small)
        s->flush_every = 1;
}

size_t __real_flush_batch_bytes(const struct engine *g);
size_t __wrap_flush_batch_bytes(const struct engine *g);
size_t __wrap_flush_batch_bytes(const struct engine *g)
{
    if (small)
        return 4096;
    return __real_flush_batch_bytes(g);
}

/* A replay makes room by one batch at a time. Noted are the last record of its last batch, and of
 * what it has saved of the journal. */
static uint64_t batch_to, saved_to;
static uint32_t batches; /* of this call */
static bool one_batch;
bool __real_tier_wants_room(struct engine *g);
bool __wrap_tier_wants_room(struct engine *g);
bool __wrap_tier_wants_room(struct engine *g)
{
    if (one_batch && batches++ > 0)
        return false;
    return __real_tier_wants_room(g);
}

int __real_flush_make_room(struct engine *g, uint64_t sequence, bool control, struct err *e);
int __wrap_flush_make_room(struct engine *g, uint64_t sequence, bool control, struct err *e);
int __wrap_flush_make_room(struct engine *g, uint64_t sequence, bool control, struct err *e)
{
    uint64_t before = g->flush.image_bytes;
    one_batch = small;
    batches = 0;
    int rc = __real_flush_make_room(g, sequence, control, e);
    one_batch = false;
    if (g->flush.image_bytes > before)
        batch_to = sequence;
    return rc;
}

int __real_journal_save_read(struct journal *j, const struct journal_cursor *c, struct err *e);
int __wrap_journal_save_read(struct journal *j, const struct journal_cursor *c, struct err *e);
int __wrap_journal_save_read(struct journal *j, const struct journal_cursor *c, struct err *e)
{
    saved_to = c->last;
    return __real_journal_save_read(j, c, e);
}

/* The power fails once a batch that was ahead of the saved journal has reached the disk by that
 * flush. */
int __real_spill_tablet(struct spill *s, struct table *t, uint32_t tablet, bool fresh,
                        uint32_t most, uint32_t *count, struct err *e);
int __wrap_spill_tablet(struct spill *s, struct table *t, uint32_t tablet, bool fresh,
                        uint32_t most, uint32_t *count, struct err *e);
int __wrap_spill_tablet(struct spill *s, struct table *t, uint32_t tablet, bool fresh,
                        uint32_t most, uint32_t *count, struct err *e)
{
    bool ahead = small && batch_to > saved_to;
    int rc = __real_spill_tablet(s, t, tablet, fresh, most, count, e);
    if (ahead && !disk_is_off(between->disk))
        disk_off(between->disk, between->seed);
    return rc;
}

/* A start with little memory stores rows while it replays records that only the page cache has:
 * their process was killed. False: the power did not fail. */
static bool power_fails_in_a_replay(struct history *h)
{
    struct err e = {0};
    batch_to = saved_to = 0;
    ck_assert_int_eq(try_open(h, &e), 0);
    small = false;
    ck_assert_uint_gt(h->rig.g->flush.image_bytes, 0);
    life_close(h, false);
    bool off = disk_is_off(h->disk);
    if (off)
        disk_on(h->disk);
    history_end(h);
    return off;
}

/* Begins a history without a memory limit, whose journal is not synced by itself. */
static void unsynced_begin(struct history *h, uint64_t seed)
{
    history_begin(h, seed);
    h->durability = DURABLE_JOURNAL;
    h->segment = 1u << 18;
    h->keep = 0;
    h->in_steps = false;
    has_memory(h, true);
    h->memory = 0;
    life_open(h);
    life_begin(h);
}

static void pushes(struct history *h, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        op_push(h);
    note_floor(h);
}

START_TEST(what_a_replay_stores_was_journalled_before)
{
    static struct history h;
    unsynced_begin(&h, 300 + (uint64_t)_i);
    pushes(&h, 200);
    ck_assert_uint_lt(h.floor, h.rig.g->sequence - 20);
    life_close(&h, false);
    h.memory = 640u << 10;
    struct disk_fault at_its_end = {.kind = DISK_OFF, .only = "/journal", .at = (uint64_t)_i + 1};
    disk_fail(h.disk, &at_its_end);
    ck_assert(power_fails_in_a_replay(&h));
}
END_TEST

/* The sync of a restore's record fails, and its process restarts: rows of the cut leave memory. */
static bool restore_replayed(uint64_t seed)
{
    static struct history h;
    struct disk_fault sync = {
        .kind = DISK_ERROR, .why = EIO, .only = "/journal", .syncs = true, .at = 1};
    unsynced_begin(&h, seed);
    pushes(&h, 200);
    op_cut(&h);
    embedding_env_run(&h.rig.env);
    ck_assert_uint_ne(h.cut[0].cut, 0);
    pushes(&h, 100);
    disk_fail(h.disk, &sync);
    h.cut[1] = h.cut[2] = h.cut[0]; /* whichever is drawn */
    op_restore(&h);
    h.cut[1] = h.cut[2] = (struct made_cut){0};
    ck_assert(over(&h) && disk_failed(h.disk));
    life_close(&h, false);
    h.memory = 400u << 10;
    small = true;
    return power_fails_in_a_replay(&h);
}

/* Tries seeds until the power has failed: whether a batch is pending depends on how much memory the
 * rows take. */
START_TEST(what_leaves_in_a_replay_was_journalled_before)
{
    uint64_t seed = 500 + 100 * (uint64_t)_i, end = seed + 50;
    while (!restore_replayed(seed))
        ck_assert_uint_lt(seed++, end);
}
END_TEST

static void on_scrubbed_as(void *context, int status, const char *text, uint64_t sequence)
{
    (void)text, (void)sequence;
    *(int *)context = status;
}

/* Writes one tablet as a batch does that is not to be flushed. */
static void batch_write(struct engine *g)
{
    struct flush_state *f = &g->flush;
    struct err e = {0};
    ck_assert(!f->busy);
    f->items = f->bytes = 0;
    ck_assert(flush_room(g, 2, stored_tablet_bytes(engine_table(g, 0), &g->runs, 0)));
    flush_put_image(g, 0, 0, g->sequence);
    ck_assert_int_eq(flush_put_control(g, g->sequence), 0);
    ck_assert_msg(store_write(g->store, f->item, f->items, &e) == 0, "%s", e.text);
    f->since_flush += f->bytes;
    free(f->control);
    f->control = NULL;
}

/* A scrub rewrites the store, and with it batches that are not flushed yet: those that were written
 * while it waited for a follower to read the journal. */
START_TEST(what_a_scrub_stores_was_journalled_before)
{
    static struct history h;
    uint64_t keys[64];
    int status = 1;
    struct err e = {0};
    history_begin(&h, 400 + (uint64_t)_i);
    h.durability = DURABLE_JOURNAL;
    h.segment = 1u << 20;
    h.keep = 0;
    has_memory(&h, false);
    life_open(&h);
    life_begin(&h);
    struct engine *g = h.rig.g;
    struct entry *o = entry_new(&h, NAME);
    o->dice -= o->dice % 4; /* erased */
    uint32_t n = keys_make(o, 48, keys), table = o->table;
    ck_assert_int_eq(entry_do(&h, o), 0);
    engine_records_keep(g, g->sequence - 1);
    ck_assert_int_eq(engine_scrub(g, table, keys, n, on_scrubbed_as, &status, &e), 0);
    embedding_env_run(&h.rig.env);
    ck_assert_uint_eq(flush_floor(g), g->sequence);
    for (uint32_t i = 0; i < 40; i++)
        op_push(&h);
    batch_write(g);
    engine_records_keep(g, UINT64_MAX);
    for (uint32_t i = 0; i < 100 && status == 1; i++) {
        engine_flush_step(g);
        (void)embedding_env_step(&h.rig.env);
    }
    ck_assert_int_eq(status, 0);
    disk_off(h.disk, (uint64_t)_i);
    life_close(&h, false);
    disk_on(h.disk);
    history_end(&h);
}
END_TEST

/* _i: the way of failing. Opening and closing are among the calls. */
START_TEST(every_call_may_be_the_one_that_fails)
{
    static const struct disk_fault ways[] = {
        {.kind = DISK_OFF},
        {.kind = DISK_ERROR, .why = EIO, .but = "/rows/"},
        {.kind = DISK_ERROR, .why = ENOSPC, .but = "/rows/"},
        {.kind = DISK_ERROR, .why = EMFILE, .but = "/rows/"},
        {.kind = DISK_SHORT, .but = "/rows/"},
        {.kind = DISK_ERROR, .why = EIO, .but = "/rows/", .syncs = true},
    };
    uint64_t step = number("SHOAL_EVERY", 97), tried = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct disk_fault f = ways[_i];
        f.seed = seed;
        for (f.at = 1 + (uint64_t)_i; second_life_fails(seed, &f);
             f.at += f.syncs ? 1 + step / 8 : step)
            tried++;
    }
    printf("way %d: %" PRIu64 " calls\n", _i, tried);
    ck_assert_uint_gt(tried, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("power");
    TCase *t = tcase_create("histories"), *calls = tcase_create("calls"),
          *replays = tcase_create("replays");
    if (getenv("SHOAL_LOG") == NULL)
        log_set_level(LOG_LEVEL_ERROR);
    tcase_set_timeout(t, 0);
    tcase_set_timeout(calls, 0);
    tcase_set_timeout(replays, 0);
    tcase_add_test(t, what_comes_back_is_what_was_on_the_disk);
    tcase_add_loop_test(calls, what_is_stored_was_journalled_before, 0, 4);
    tcase_add_loop_test(calls, what_a_close_stores_was_journalled_before, 0, 4);
    tcase_add_loop_test(replays, what_a_replay_stores_was_journalled_before, 0, 4);
    tcase_add_loop_test(replays, what_leaves_in_a_replay_was_journalled_before, 0, 4);
    tcase_add_loop_test(calls, what_a_scrub_stores_was_journalled_before, 0, 8);
    tcase_add_loop_test(calls, every_call_may_be_the_one_that_fails, 0, 6);
    suite_add_tcase(suite, t);
    suite_add_tcase(suite, calls);
    suite_add_tcase(suite, replays);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
