/* fetch.c: fetches rows from the store and notifies the requests that wait for them.
 *
 * 1. A row read from the store is used only if its tablet has the same epoch and none of its rows
 *    has left memory since the read began; else it is fetched again. [test: test_tier_random]
 * 2. Two fetches are in flight at a time: while rows of one come in here, the other reads. Waiting
 *    requests are notified after each. [assert: fetch_done]
 * 3. None begins while a clear is made, or for REST_NS after one was asked for: beside a job that
 *    trains with rows in the store a clear would never find none in flight. [test:
 *    a_clear_comes_beside_fetches] */
#include "embedding/engine/fetch.h"

#include "embedding/engine/flush.h"
#include "embedding/engine/reload.h"
#include "embedding/engine/share.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/salt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_MOST 16384u
#define WANT_MOST (4 * FETCH_MOST)
#define ASKED_SLOTS (4 * WANT_MOST) /* a power of two; there is always a free slot */
/* from this many keys on a fetch takes half, so that the other one has work */
#define FETCH_SHARED 2048u
#define FULL_NS 1000000u
#define TAKE_AHEAD 8u
/* the coordinator asks for a clear again within a second */
#define REST_NS UINT64_C(3000000000)
/* rows that come in between two checks of their use */
#define LOOK_BACK (16 * FETCH_MOST)

struct fetch_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    size_t count;
    struct store_item *item; /* owned, as all below; (count) */
    uint64_t *key;
    uint32_t *drops;
    size_t *size;
    uint32_t of_table[LIMIT_TABLES]; /* keys of each table: keys are ordered by table */
    size_t bytes_of[LIMIT_TABLES];   /* bytes of a pair's value */
    char *value;                     /* values one after the other */
    int status;
    struct err err;
};

static void work_free(struct fetch_work *f)
{
    free(f->item);
    free(f->key);
    free(f->drops);
    free(f->size);
    free(f->value);
}

static void fetch_run(struct offload *w)
{
    struct fetch_work *f = container_of(w, struct fetch_work, work);
    char *value = f->value;
    size_t at = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES && f->status == 0; i++) {
        f->status = store_get(f->g->store, f->item + at, f->of_table[i], value, f->bytes_of[i],
                              f->size + at, &f->err);
        at += f->of_table[i];
        value += f->of_table[i] * f->bytes_of[i];
    }
}

static bool is_current(const struct table *t, const struct fetch_work *f, size_t i)
{
    const struct table_schema *s = table_schema_of(t);
    struct store_item now;
    uint32_t tablet = key_tablet(key_mix(f->key[i]), s->tablet_bits);
    stored_row_key(s->table, tablet, table_cold_epoch(t, tablet), f->key[i], &now);
    return table_cold_has(t, f->key[i]) && table_cold_drops(t, tablet) == f->drops[i] &&
           memcmp(now.key, f->item[i].key, now.key_bytes) == 0;
}

static int take_one(struct engine *g, struct table *t, const struct fetch_work *f, size_t i,
                    const char *value)
{
    uint64_t key = f->key[i];
    const struct table_schema *s = table_schema_of(t);
    struct err e;
    if (!is_current(t, f, i)) /* 1. */
        return 0;
    int rc = SHOAL_E_CORRUPT;
    if (f->size[i] == table_cold_bytes(t))
        rc = table_cold_take(t, key, value, f->size[i]);
    g->tier.fetched += rc == 0;
    if (rc == SHOAL_E_CORRUPT)
        err_set(&e, rc,
                "%s: the row of key %016" PRIx64
                " of table %s should be in the store and is not (%zu bytes); restore a checkpoint",
                g->dir, key, s->name, f->size[i]);
    else if (rc != 0)
        err_set(&e, rc, "no memory for rows of table %s; the shard restarts and recovers", s->name);

    if (rc == 0)
        return 0;

    return engine_fail(g, &e);
}

/* Warns about a budget hardly above a batch's needs, which is slow but no error: rows of a request
 * leave again before its last ones arrive. */
static void look_back(struct engine *g, uint64_t rows)
{
    struct tier *tier = &g->tier;
    tier->came += rows;
    if (tier->came < LOOK_BACK)
        return;
    if (tier->came > 4 * tier->used) {
        tier->in_vain++;
        log_warn("%s: of %" PRIu64 " rows that came from the store requests have used %" PRIu64
                 ", the others had to leave again for each other; raise `memory`, add servers or "
                 "make batches smaller",
                 g->dir, tier->came, tier->used);
    }
    tier->came = tier->used = 0;
}

static void fetch_start(struct engine *g);
static void asked_renew(struct engine *g);
static void tell(struct engine *g);

static void fetch_done(struct offload *w)
{
    struct fetch_work *f = container_of(w, struct fetch_work, work);
    struct engine *g = f->g;
    const char *value = f->value;
    size_t at = 0;
    int rc = 0;
    struct fetch_work **place = g->tier.fetch;
    while (place < g->tier.fetch + TIER_FETCHES && *place != f)
        place++;
    SHOAL_ASSERT(place < g->tier.fetch + TIER_FETCHES); /* 2 */
    *place = NULL;
    if (!w->cancelled && f->status != 0)
        rc = engine_fail(g, &f->err);
    if (!w->cancelled && rc == 0)
        fetch_start(g);
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0 && !w->cancelled; i++)
        for (uint32_t k = 0; k < f->of_table[i] && rc == 0; k++, at++, value += f->bytes_of[i])
            if (g->table[i].table != NULL && !table_set_has(&g->loading, i)) {
                /* its pairs are being written or deleted */
                if (k + TAKE_AHEAD < f->of_table[i])
                    table_cold_ahead(g->table[i].table, f->key[at + TAKE_AHEAD]);
                rc = take_one(g, g->table[i].table, f, at, value);
                share_of(g, i)->came = true;
            }
    bool cancelled = w->cancelled;
    SHOAL_ASSERT(cancelled || rc != 0 || at == f->count); /* every key was processed */
    look_back(g, f->count);
    work_free(f);
    if (cancelled || rc != 0)
        return;
    asked_renew(g);
    tell(g);
}

/* Fills f with as many wanted keys as one fetch takes, in rows and bytes, equally many of each
 * table; with many keys, half of each table's. The rows of all of them may come in. */
static int fetch_fill(struct engine *g, struct fetch_work *f)
{
    size_t bytes = 0;
    uint32_t tables = 0, share = g->tier.wanted_count < FETCH_SHARED ? 1 : TIER_FETCHES;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        tables += g->tier.wanted[i].count > 0;
    SHOAL_ASSERT(tables > 0 && g->tier.wanted_count > 0);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct wanted *w = &g->tier.wanted[i];
        uint32_t n = (w->count + share - 1) / share;
        if (n >= FETCH_MOST / tables)
            n = FETCH_MOST / tables;

        if (g->table[i].table == NULL) {
            g->tier.wanted_count -= w->count;
            n = w->count = 0;
        }
        if (n == 0)
            f->bytes_of[i] = 0;
        else
            f->bytes_of[i] = table_cold_bytes(g->table[i].table);

        SHOAL_ASSERT(n == 0 || f->bytes_of[i] > 0);
        size_t fit = 0;
        if (n != 0)
            fit = flush_batch_bytes(g) / tables / f->bytes_of[i];
        if (n > fit)
            n = (uint32_t)MAX(fit, 1);
        f->of_table[i] = n;
        f->count += n;
        bytes += n * f->bytes_of[i];
    }
    f->item = malloc(f->count * sizeof *f->item);
    f->key = malloc(f->count * sizeof *f->key);
    f->drops = malloc(f->count * sizeof *f->drops);
    f->size = malloc(f->count * sizeof *f->size);
    f->value = malloc(bytes + 1);
    if (f->item == NULL || f->key == NULL || f->drops == NULL || f->size == NULL ||
        f->value == NULL)
        return SHOAL_E_NOMEM;
    size_t at = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct wanted *w = &g->tier.wanted[i];
        const struct table *t = g->table[i].table;
        for (uint32_t k = 0; k < f->of_table[i]; k++, at++) {
            uint32_t tablet = key_tablet(key_mix(w->key[k]), table_schema_of(t)->tablet_bits);
            f->key[at] = w->key[k];
            f->drops[at] = table_cold_drops(t, tablet);
            stored_row_key(i, tablet, table_cold_epoch(t, tablet), w->key[k], &f->item[at]);
        }
        SHOAL_ASSERT(f->of_table[i] <= w->count && f->of_table[i] <= g->tier.wanted_count);
        w->count -= f->of_table[i];
        if (w->count > 0 && f->of_table[i] > 0)
            memmove(w->key, w->key + f->of_table[i], w->count * sizeof *w->key);
        g->tier.wanted_count -= f->of_table[i];
    }
    SHOAL_ASSERT(at == f->count);
    return 0;
}

/* True when no row of some wanted table's group can leave: its keys were counted (tier_lets_in). */
static bool wanted_stuck(struct engine *g)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->tier.wanted[i].count > 0 && share_of(g, i)->stuck)
            return true;
    return false;
}

bool fetch_none(const struct engine *g)
{
    for (uint32_t i = 0; i < TIER_FETCHES; i++)
        if (g->tier.fetch[i] != NULL)
            return false;
    return true;
}

void fetch_rest(struct engine *g)
{
    g->tier.rest_until_ns = env_now_ns(g->env) + REST_NS;
}

/* Forgets the wanted keys of tables that are held to their shares: they would take the places of
 * other groups' keys. Their requests are told when there is room, and ask again. */
static void held_forget(struct engine *g)
{
    struct tier *tier = &g->tier;
    const struct table_set held = engine_held_tables(g);
    bool any = false;
    TABLE_SET_EACH (i, &held) {
        if (tier->wanted[i].count == 0)
            continue;
        tier->wanted_count -= tier->wanted[i].count;
        tier->wanted[i].count = 0;
        any = true;
    }
    if (!any)
        return;
    tier->refused = true;
    asked_renew(g);
    env_timer_start(g->env, &tier->timer, FULL_NS);
}

/* A fetch may exceed the budget by its own rows, a batch's bytes, but none begins above the
 * budget, unless no row can leave. */
static void start_one(struct engine *g, struct fetch_work **place)
{
    struct tier *tier = &g->tier;
    if (tier->wanted_count == 0 || g->broken || g->job[JOB_CLEAR] != NULL)
        return;
    if (env_now_ns(g->env) < tier->rest_until_ns) { /* 3 */
        env_timer_start(g->env, &tier->timer, FULL_NS);
        return;
    }
    held_forget(g);
    if (tier->wanted_count == 0)
        return;
    if (tier->rows_max > 0 && !wanted_stuck(g) && tier_used(g) > tier->rows_max) {
        /* not at once: a cut may delay everything */
        env_timer_start(g->env, &tier->timer, FULL_NS);
        return;
    }
    struct fetch_work *f = calloc(1, sizeof *f);
    if (f == NULL || fetch_fill(g, f) != 0) {
        if (f != NULL)
            work_free(f);
        free(f);
        log_warn("no memory to fetch rows; trying again");
        env_timer_start(g->env, &tier->timer, FULL_NS);
        return;
    }
    f->g = g;
    *place = f;
    engine_work(g, &f->work, fetch_run, fetch_done);
}

static void fetch_start(struct engine *g)
{
    for (uint32_t i = 0; i < TIER_FETCHES; i++)
        if (g->tier.fetch[i] == NULL)
            start_one(g, &g->tier.fetch[i]);
}

static void tell(struct engine *g)
{
    g->tier.refused = false;
    if (g->options.on_fetched != NULL && !g->broken)
        g->options.on_fetched(g->options.context);
}

void fetch_continue(struct engine *g)
{
    fetch_start(g);
    if (g->tier.refused && (!share_gives(g) || tier_used(g) <= g->tier.rows_max))
        tell(g);
}

/* Requests of groups that were held to their shares are told once no group is. */
static void held_look(struct engine *g)
{
    if (!table_set_any(engine_held_tables(g))) {
        fetch_continue(g);
        return;
    }
    fetch_start(g);
    env_timer_start(g->env, &g->tier.timer, FULL_NS);
}

/* Callback of the timer. */
static void step_cb(struct env_timer *t)
{
    struct engine *g = container_of(t, struct engine, tier.timer);
    engine_flush_step(g);
    if (!g->tier.tell && g->tier.refused && share_several(g)) {
        held_look(g);
        return;
    }
    if (!g->tier.tell) {
        fetch_start(g);
        return;
    }
    g->tier.tell = false;
    fetch_continue(g);
}

void fetch_init(struct engine *g)
{
    g->tier.timer.fire = step_cb;
    g->tier.asked_salt = salt_draw();
}

void fetch_forget(struct engine *g)
{
    SHOAL_ASSERT(fetch_none(g));
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        g->tier.wanted[i].count = 0;
    g->tier.wanted_count = 0;
    g->tier.rest_until_ns = 0;
    if (g->tier.asked != NULL)
        asked_renew(g);
}

void fetch_free(struct engine *g)
{
    SHOAL_ASSERT(fetch_none(g));
    if (g->tier.timer.due_ns != 0)
        env_timer_stop(g->env, &g->tier.timer);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        free(g->tier.wanted[i].key);
    free(g->tier.asked);
    free(g->tier.among);
}

/* ---- keys asked for already: keys of all tables, mixed with the table's number ---- */

static uint64_t asked_name(uint32_t table, uint64_t key)
{
    uint64_t name = key_mix(key ^ key_mix(table + 1ull));
    return name == 0 ? 1 : name;
}

/* True when the key was not there yet. Two keys with one name count as one: the second is asked for
 * again once the first has come. */
static bool asked_add(struct tier *tier, uint32_t table, uint64_t key)
{
    uint64_t name = asked_name(table, key);
    uint32_t i = (uint32_t)salt_mix(tier->asked_salt, name) & (ASKED_SLOTS - 1);
    while (tier->asked[i] != 0 && tier->asked[i] != name)
        i = (i + 1) & (ASKED_SLOTS - 1);
    bool fresh = tier->asked[i] == 0;
    tier->asked[i] = name;
    return fresh;
}

/* After a fetch: rebuilds the set from the keys that are wanted or in flight. */
static void asked_renew(struct engine *g)
{
    struct tier *tier = &g->tier;
    memset(tier->asked, 0, ASKED_SLOTS * sizeof *tier->asked);
    for (uint32_t i = 0; i < TIER_FETCHES; i++)
        for (size_t table = 0, at = 0; tier->fetch[i] != NULL && table < LIMIT_TABLES; table++)
            for (uint32_t k = 0; k < tier->fetch[i]->of_table[table]; k++, at++)
                (void)asked_add(tier, (uint32_t)table, tier->fetch[i]->key[at]);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = 0; k < tier->wanted[i].count; k++)
            (void)asked_add(tier, i, tier->wanted[i].key[k]);
}

static uint64_t wanted_bytes(const struct engine *g)
{
    uint64_t bytes = 0;
    TABLE_SET_EACH (i, &g->here)
        if (g->tier.wanted[i].count > 0)
            bytes += g->tier.wanted[i].count * table_cold_bytes(g->table[i].table);
    return bytes;
}

static int want(struct engine *g, uint32_t table, const uint64_t *cold, size_t count)
{
    struct wanted *w = &g->tier.wanted[table];
    if (g->tier.asked == NULL &&
        (g->tier.asked = calloc(ASKED_SLOTS, sizeof *g->tier.asked)) == NULL)
        return SHOAL_E_NOMEM;
    const struct table_set held = engine_held_tables(g);
    if (!tier_lets_in(g, table, wanted_bytes(g)) || table_set_has(&held, table)) {
        g->tier.refused = true;
        env_timer_start(g->env, &g->tier.timer, FULL_NS);
        return 0;
    }
    for (size_t i = 0; i < count && g->tier.wanted_count < WANT_MOST; i++) {
        if (!asked_add(&g->tier, table, cold[i]))
            continue;
        if (array_room(&w->key, w->count, &w->room, 1024) != 0)
            return SHOAL_E_NOMEM;
        w->key[w->count++] = cold[i];
        g->tier.wanted_count++;
    }
    SHOAL_ASSERT(g->tier.wanted_count <= WANT_MOST); /* so `asked` has a free place */
    return 0;
}

/* True when the tablets of all keys (count) are back; asks for the others. */
static bool tablets_back(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    struct reload *l = reload_of(g);
    uint8_t *place = NULL;
    if (l != NULL)
        place = l->place[table];

    bool all = true;
    for (uint32_t i = 0; place != NULL && i < count; i++) {
        uint32_t tablet =
            key_tablet(key_mix(keys[i]), table_schema_of(g->table[table].table)->tablet_bits);
        all &= place[tablet] == PLACE_BACK;
        if (place[tablet] == PLACE_AWAY) {
            place[tablet] = PLACE_ASKED;
            l->asked[l->asked_count++] = (struct tier_tablet){table, tablet};
        }
    }
    return all;
}

bool engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    const struct engine_table *t = engine_slot(g, table);
    struct tier *tier = &g->tier;
    if (engine_restoring(g))
        return false; /* no need to ask: all tablets come, and on_fetched follows the last */
    if (t != NULL && !tablets_back(g, table, keys, count))
        return false;
    if (t == NULL || table_cold_rows(t->table) == 0)
        return true;
    if (array_reserve(&tier->among, count, &tier->among_room) != 0)
        return false; /* it asks again later */
    size_t cold = table_cold_among(t->table, keys, count, tier->among);
    SHOAL_ASSERT(cold <= count);
    if (cold == 0) {
        tier->used += count;
        return true;
    }
    table_cold_keep(t->table, keys, count);
    if (want(g, table, tier->among, cold) != 0)
        env_timer_start(g->env, &tier->timer, FULL_NS);
    fetch_start(g);
    return false;
}

bool engine_here(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    const struct engine_table *t = engine_slot(g, table);
    bool here = true;
    for (uint32_t i = 0; here && t != NULL && i < count; i++)
        here = !table_cold_has(t->table, keys[i]);
    return here;
}
