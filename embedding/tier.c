/* tier.c: what is wanted from the store, and who makes room for it.
 *
 *  1. Rows leave only while no admitted push waits to be applied, and never in the turn of the loop in which engine_warm said yes: from
 *     flush steps, which come after a drain's pushes and pulls, and from the end of a batch with nothing pending.
 *  2. What was read from the store for a key is believed only if its tablet is of the same epoch and no row of it has left memory since the
 *     read began; else it is asked for again.
 *  3. A row whose pair is in a batch that is not written yet does not leave: rows chosen for a batch leave with it, in one turn of the hand.
 */
#include "embedding/tier.h"

#include "embedding/cold.h"
#include "embedding/flush.h"
#include "embedding/load.h"
#include "embedding/slab.h"
#include "embedding/stored.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_MOST 16384u
#define WANT_MOST (4 * FETCH_MOST)
#define ASKED_SLOTS (4 * WANT_MOST) /* a power of two */
#define LOOK_EVERY 32u              /* steps between two looks at what tables keep beside the arenas */
#define LEAVE_SHARE 3u              /* of a tablet's rows one in so many goes at a time: each time the others are written too, as its image */
#define UNTOLD_MOST 3u              /* fetches behind one another of which nobody is told */
#define FULL_NS 1000000u
#define STUCK_SHARE 32u             /* of what rows may take: what comes in while none can go */
#define GATHER_LOOKS 16u            /* tablets looked at in one step: some 5 ms */

/* ---- memory ---- */

uint64_t tier_store_memory(const struct engine *g)
{
    return g->options.memory / 8;
}

static void fetch_start(struct engine *g);

static void step_cb(struct env_timer *t)
{
    struct engine *g = (struct engine *)((char *)t - offsetof(struct engine, tier.timer));
    engine_flush_step(g);
    if (!g->tier.tell) {
        fetch_start(g);
        return;
    }
    g->tier.tell = false;
    tier_continue(g);
}

void tier_init(struct engine *g)
{
    uint64_t memory = g->options.memory, beside = tier_store_memory(g) + 2 * flush_batch_bytes(g) + memory / 64;
    g->tier.timer.fire = step_cb;
    g->tier.rows_max = memory > beside ? memory - beside : memory;
}

uint64_t tier_used(struct engine *g)
{
    struct tier *tier = &g->tier;
    uint64_t used = arena_used(g->arena);
    for (uint32_t i = 0; i < g->loaded_arenas; i++)
        used += arena_used(g->loaded_arena[i]);
    used += load_bytes(g);
    if (tier->looks++ % LOOK_EVERY == 0) {
        tier->beside = 0;
        for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
            struct table_counts counts;
            if (g->table[i].table == NULL)
                continue;
            table_counts_get(g->table[i].table, &counts);
            tier->beside += counts.beside_bytes;
        }
    }
    return used + tier->beside;
}

static bool can_move(const struct engine *g)
{
    return g->store != NULL && g->journal != NULL && !g->broken;
}

/* Stuck, and a good deal has come in since: nothing more is wanted until all that was has come and been used, then it goes again. So who asks
 * for more than there is room for gets it, once, and the next one after him. */
static bool shut(const struct engine *g, uint64_t used)
{
    return g->tier.stuck && used > g->tier.stuck_used + g->tier.rows_max / STUCK_SHARE;
}

bool tier_wants_room(struct engine *g)
{
    struct tier *tier = &g->tier;
    if (tier->rows_max == 0 || !can_move(g))
        return false;
    uint64_t used = tier_used(g);
    if (used > tier->rows_max / 16 * 15)
        tier->making = true;
    else if (used < tier->rows_max / 16 * 14)
        tier->making = tier->stuck = false;
    if (shut(g, used) && tier->wanted_count == 0 && !tier->fetching) { /* they may be such as can go */
        tier->stuck = false;
        tier->idle = 0;
    }
    return tier->making && !tier->stuck;
}

int tier_check_room(struct engine *g, struct err *e)
{
    if (g->tier.rows_max == 0 || tier_used(g) <= g->tier.rows_max)
        return 0;
    g->tier.refused = true;
    if (!can_move(g) || g->tier.stuck)
        return err_set(e, SHOAL_E_NO_SPACE,
                       "rows fill the memory budget of %" PRIu64 " bytes and none can move to the store; raise `memory` or add servers",
                       g->options.memory);
    engine_flush_step(g);
    return err_set(e, SHOAL_E_BUSY, "rows fill the memory budget; some are being moved to the store, ask again");
}

/* ---- wanted rows ---- */

struct fetch_work {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    size_t count;
    struct store_item *item; /* owned, as all below; (count) */
    uint64_t *key;
    uint32_t *drops;
    size_t *size;
    uint32_t of_table[LIMIT_TABLES]; /* keys of each table: they stand in the order of tables */
    size_t bytes_of[LIMIT_TABLES];   /* of a pair's value */
    char *value;                     /* one behind the other */
    int status;
    struct err err;
};

static void fetch_free(struct fetch_work *f)
{
    free(f->item);
    free(f->key);
    free(f->drops);
    free(f->size);
    free(f->value);
}

static void fetch_run(struct work *w)
{
    struct fetch_work *f = (struct fetch_work *)w;
    char *value = f->value;
    size_t at = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES && f->status == 0; i++) {
        f->status = store_get(f->g->store, f->item + at, f->of_table[i], value, f->bytes_of[i], f->size + at, &f->err);
        at += f->of_table[i];
        value += f->of_table[i] * f->bytes_of[i];
    }
}

static bool is_current(const struct table *t, const struct fetch_work *f, size_t i)
{
    const struct table_schema *s = table_schema_of(t);
    struct store_item now;
    uint32_t tablet = mixed_tablet(key_mix(f->key[i]), s->tablet_bits);
    stored_row_key(s->table, tablet, table_cold_epoch(t, tablet), f->key[i], &now);
    return table_cold_has(t, f->key[i]) && table_cold_drops(t, tablet) == f->drops[i] && memcmp(now.key, f->item[i].key, now.key_bytes) == 0;
}

static int take_one(struct engine *g, struct table *t, const struct fetch_work *f, size_t i, const char *value)
{
    uint64_t key = f->key[i];
    const struct table_schema *s = table_schema_of(t);
    struct err e;
    if (!is_current(t, f, i)) /* 2. */
        return 0;
    int rc = f->size[i] == table_cold_bytes(t) ? table_cold_take(t, key, value, f->size[i]) : SHOAL_E_CORRUPT;
    g->tier.fetched += rc == 0;
    if (rc == SHOAL_E_CORRUPT)
        err_set(&e, rc, "%s: the row of key %016" PRIx64 " of table %s should be in the store and is not (%zu bytes); restore a checkpoint",
                g->dir, key, s->name, f->size[i]);
    else if (rc != 0)
        err_set(&e, rc, "no memory for rows of table %s; the shard restarts and recovers", s->name);
    return rc == 0 ? 0 : engine_fail(g, &e);
}

static void asked_renew(struct engine *g);
static void tell(struct engine *g);

static void fetch_done(struct work *w)
{
    struct fetch_work *f = (struct fetch_work *)w;
    struct engine *g = f->g;
    const char *value = f->value;
    size_t at = 0;
    int rc = 0;
    g->tier.fetching = false;
    if (!w->cancelled && f->status != 0)
        rc = engine_fail(g, &f->err);
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0 && !w->cancelled; i++)
        for (uint32_t k = 0; k < f->of_table[i] && rc == 0; k++, at++, value += f->bytes_of[i])
            if (g->table[i].table != NULL && !(g->loading >> i & 1)) /* its pairs are being written, or deleted */
                rc = take_one(g, g->table[i].table, f, at, value);
    bool cancelled = w->cancelled;
    fetch_free(f);
    if (cancelled || rc != 0)
        return;
    asked_renew(g);
    fetch_start(g);
    if (g->tier.fetching && g->tier.untold++ < UNTOLD_MOST)
        return; /* who waits needs the rest too, most likely, and looks through all its keys when it is told */
    g->tier.untold = 0;
    tell(g);
}

/* As many of the wanted keys as one fetch takes, in rows and in bytes, the same for each table that wants any, into f. */
static int fetch_fill(struct engine *g, struct fetch_work *f)
{
    size_t bytes = 0;
    uint32_t tables = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        tables += g->tier.wanted[i].count > 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct wanted *w = &g->tier.wanted[i];
        uint32_t n = w->count < FETCH_MOST / tables ? w->count : FETCH_MOST / tables;
        if (g->table[i].table == NULL) {
            g->tier.wanted_count -= w->count;
            n = w->count = 0;
        }
        f->bytes_of[i] = n == 0 ? 0 : table_cold_bytes(g->table[i].table);
        size_t fit = n == 0 ? 0 : flush_batch_bytes(g) / tables / f->bytes_of[i];
        n = n <= fit ? n : fit > 0 ? (uint32_t)fit : 1;
        f->of_table[i] = n;
        f->count += n;
        bytes += n * f->bytes_of[i];
    }
    f->item = malloc(f->count * sizeof *f->item);
    f->key = malloc(f->count * sizeof *f->key);
    f->drops = malloc(f->count * sizeof *f->drops);
    f->size = malloc(f->count * sizeof *f->size);
    f->value = malloc(bytes + 1);
    if (f->item == NULL || f->key == NULL || f->drops == NULL || f->size == NULL || f->value == NULL)
        return SHOAL_E_NOMEM;
    size_t at = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct wanted *w = &g->tier.wanted[i];
        const struct table *t = g->table[i].table;
        for (uint32_t k = 0; k < f->of_table[i]; k++, at++) {
            uint32_t tablet = mixed_tablet(key_mix(w->key[k]), table_schema_of(t)->tablet_bits);
            f->key[at] = w->key[k];
            f->drops[at] = table_cold_drops(t, tablet);
            stored_row_key(i, tablet, table_cold_epoch(t, tablet), w->key[k], &f->item[at]);
        }
        w->count -= f->of_table[i];
        if (w->count > 0 && f->of_table[i] > 0)
            memmove(w->key, w->key + f->of_table[i], w->count * sizeof *w->key);
        g->tier.wanted_count -= f->of_table[i];
    }
    return 0;
}

/* A fetch may pass the budget by its own rows, a batch's bytes of them, but is not begun beyond it. */
static void fetch_start(struct engine *g)
{
    struct tier *tier = &g->tier;
    if (tier->fetching || tier->wanted_count == 0 || g->broken)
        return;
    if (tier->rows_max > 0 && !tier->stuck && tier_used(g) > tier->rows_max) {
        env_timer_start(g->env, &tier->timer, FULL_NS); /* not at once: a cut may hold all up */
        return;
    }
    struct fetch_work *f = calloc(1, sizeof *f);
    if (f == NULL || fetch_fill(g, f) != 0) {
        if (f != NULL)
            fetch_free(f);
        free(f);
        log_warn("no memory to fetch rows; trying again");
        env_timer_start(g->env, &tier->timer, FULL_NS);
        return;
    }
    f->g = g;
    f->work.run = fetch_run;
    f->work.done = fetch_done;
    tier->fetching = true;
    work_start(&g->works, g->env, &f->work);
}

static void tell(struct engine *g)
{
    g->tier.refused = false;
    if (g->options.on_fetched != NULL && !g->broken)
        g->options.on_fetched(g->options.context);
}

void tier_continue(struct engine *g)
{
    fetch_start(g);
    if (g->tier.refused && (g->tier.stuck || tier_used(g) <= g->tier.rows_max))
        tell(g);
}

/* ---- who was asked for already: keys of all tables, mixed with the table's number ---- */

static uint64_t asked_name(uint32_t table, uint64_t key)
{
    uint64_t name = key_mix(key ^ key_mix(table + 1ull));
    return name == 0 ? 1 : name;
}

/* Whether it was not there yet. Two keys of one name are taken for one: the second is asked for again once the first has come. */
static bool asked_add(struct tier *tier, uint32_t table, uint64_t key)
{
    uint64_t name = asked_name(table, key);
    uint32_t i = (uint32_t)name & (ASKED_SLOTS - 1);
    while (tier->asked[i] != 0 && tier->asked[i] != name)
        i = (i + 1) & (ASKED_SLOTS - 1);
    bool fresh = tier->asked[i] == 0;
    tier->asked[i] = name;
    return fresh;
}

/* After a fetch: what is still wanted. */
static void asked_renew(struct engine *g)
{
    struct tier *tier = &g->tier;
    memset(tier->asked, 0, ASKED_SLOTS * sizeof *tier->asked);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = 0; k < tier->wanted[i].count; k++)
            (void)asked_add(tier, i, tier->wanted[i].key[k]);
}

/* While no row can go. */
static bool may_want(struct engine *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->tier.wanted[i].count > 0 && g->table[i].table != NULL)
            bytes += g->tier.wanted[i].count * table_cold_bytes(g->table[i].table);
    return bytes <= g->tier.rows_max / STUCK_SHARE && !shut(g, tier_used(g));
}

static int want(struct engine *g, uint32_t table, const uint64_t *cold, size_t count)
{
    struct wanted *w = &g->tier.wanted[table];
    if (g->tier.asked == NULL && (g->tier.asked = calloc(ASKED_SLOTS, sizeof *g->tier.asked)) == NULL)
        return SHOAL_E_NOMEM;
    if (g->tier.stuck && !may_want(g)) {
        g->tier.refused = true;
        env_timer_start(g->env, &g->tier.timer, FULL_NS);
        return 0;
    }
    for (size_t i = 0; i < count && g->tier.wanted_count < WANT_MOST; i++) {
        if (!asked_add(&g->tier, table, cold[i]))
            continue;
        if (w->count == w->room) {
            uint32_t room = w->room == 0 ? 1024 : 2 * w->room;
            uint64_t *key = realloc(w->key, room * sizeof *key);
            if (key == NULL)
                return SHOAL_E_NOMEM;
            w->key = key;
            w->room = room;
        }
        w->key[w->count++] = cold[i];
        g->tier.wanted_count++;
    }
    return 0;
}

bool engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    const struct engine_table *t = engine_slot(g, table);
    struct tier *tier = &g->tier;
    if (t == NULL || table_cold_rows(t->table) == 0)
        return true;
    if (count > tier->among_room) {
        uint64_t *among = realloc(tier->among, count * sizeof *among);
        if (among == NULL)
            return false; /* asked again later */
        tier->among = among;
        tier->among_room = count;
    }
    size_t cold = table_cold_among(t->table, keys, count, tier->among);
    if (cold == 0)
        return true;
    table_cold_keep(t->table, keys, count);
    if (want(g, table, tier->among, cold) != 0)
        env_timer_start(g->env, &tier->timer, FULL_NS);
    fetch_start(g);
    return false;
}

/* ---- on this thread ---- */

#define BRING_MOST 4096u

static int bring_some(struct table *t, struct store *store, const uint64_t *cold, size_t count, struct err *e)
{
    const struct table_schema *s = table_schema_of(t);
    size_t bytes = table_cold_bytes(t);
    struct store_item *item = malloc(count * sizeof *item);
    size_t *size = malloc(count * sizeof *size);
    char *value = malloc(count * bytes);
    int rc = item == NULL || size == NULL || value == NULL ? err_set(e, SHOAL_E_NOMEM, "no memory for rows of table %s", s->name) : 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        uint32_t tablet = mixed_tablet(key_mix(cold[i]), s->tablet_bits);
        stored_row_key(s->table, tablet, table_cold_epoch(t, tablet), cold[i], &item[i]);
    }
    if (rc == 0)
        rc = store_get(store, item, count, value, bytes, size, e);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = table_cold_has(t, cold[i]) && size[i] != bytes ? SHOAL_E_CORRUPT : table_cold_take(t, cold[i], value + i * bytes, bytes);
        if (rc != 0)
            err_set(e, rc, "the row of key %016" PRIx64 " of table %s cannot be read from the store (%zu bytes): %s", cold[i], s->name,
                    size[i], err_text(rc));
    }
    free(item);
    free(size);
    free(value);
    return rc;
}

int tier_bring(struct table *t, struct store *store, const uint64_t *keys, size_t count, struct err *e)
{
    uint64_t cold[BRING_MOST];
    int rc = 0;
    if (table_cold_rows(t) == 0)
        return 0;
    for (size_t at = 0; at < count && rc == 0; at += BRING_MOST) {
        size_t n = count - at < BRING_MOST ? count - at : BRING_MOST, some = table_cold_among(t, keys + at, n, cold);
        if (some > 0)
            rc = bring_some(t, store, cold, some, e);
    }
    return rc;
}

int engine_fetch_now(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count, struct err *e)
{
    struct engine_table *t = engine_slot(g, table);
    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", table);
    return tier_bring(t->table, g->store, keys, count, e);
}

/* ---- making room ---- */

struct leaving { /* of one tablet */
    struct engine *g;
    uint32_t table, tablet, epoch;
    size_t pairs;
};

static int put_pair(void *context, uint64_t key, const void *row, size_t row_bytes, uint32_t clock)
{
    struct leaving *l = context;
    struct store_item item;
    stored_row_key(l->table, l->tablet, l->epoch, key, &item);
    char *value = flush_put(l->g, &item, row_bytes + sizeof clock);
    memcpy(value, row, row_bytes);
    memcpy(value + row_bytes, &clock, sizeof clock);
    l->pairs++;
    return 0;
}

/* The hand goes on to the next tablet with rows that may leave; false: there is none. */
static bool hand_next(struct engine *g, uint32_t *table, uint32_t *tablet)
{
    struct tier *tier = &g->tier;
    for (uint32_t turn = 0; turn <= LIMIT_TABLES; turn++) {
        const struct engine_table *t = &g->table[tier->hand_table];
        bool may = t->table != NULL && table_cold_may(t->table) && !(g->loading >> tier->hand_table & 1);
        for (; may && tier->hand_tablet < t->scope.tablets; tier->hand_tablet++)
            if (table_tablet_rows(t->table, tier->hand_tablet) > table_tablet_cold(t->table, tier->hand_tablet)) {
                *table = tier->hand_table;
                *tablet = tier->hand_tablet++;
                return true;
            }
        tier->hand_table = (tier->hand_table + 1) % LIMIT_TABLES;
        tier->hand_tablet = 0;
    }
    return false;
}

static void drop_chosen(struct engine *g, uint32_t table, uint32_t tablet, bool clean)
{
    uint32_t gone = 0;
    if (table_cold_drop(g->table[table].table, tablet, &gone) != 0)
        log_warn("no memory to let rows of table %s go; trying again", table_schema_of(g->table[table].table)->name);
    g->tier.evicted += gone;
    g->tier.evicted_clean += clean ? gone : 0;
    if (gone > 0)
        g->tier.idle = 0;
}

static bool is_leaving(const struct tier *tier, uint32_t table, uint32_t tablet)
{
    for (uint32_t i = 0; i < tier->leaving_count; i++)
        if (tier->leaving[i].table == table && tier->leaving[i].tablet == tablet)
            return true;
    return false;
}

/* One tablet: rows that leave it into the batch, with its image; or without, when the store has them all. False: the batch is full, or the
 * hand has come round. */
static bool gather_one(struct engine *g, uint32_t number, uint32_t tablet, uint64_t sequence)
{
    struct tier *tier = &g->tier;
    struct engine_table *t = &g->table[number];
    struct leaving l = {.g = g, .table = number, .tablet = tablet, .epoch = table_cold_epoch(t->table, tablet)};
    uint64_t hot = table_tablet_rows(t->table, tablet) - table_tablet_cold(t->table, tablet);
    uint32_t most = (uint32_t)(hot / LEAVE_SHARE) + 1, chosen = 0;
    const uint64_t *gone;
    size_t image = stored_tablet_bytes(t->table, &g->runs, tablet), pairs = most * table_cold_bytes(t->table);
    if (tier->leaving_count == TIER_LEAVING || is_leaving(tier, number, tablet) /* 3. */ ||
        !flush_room(g, most + 1 + table_cold_gone(t->table, tablet, &gone), image + pairs))
        return false;
    struct flush_mark mark = flush_mark(g);
    flush_put_gone(g, number, tablet);
    if (table_cold_choose(t->table, tablet, most, put_pair, &l, &chosen) != 0 || chosen == 0) {
        flush_back(g, mark);
        return true;
    }
    if (l.pairs == 0) {
        flush_back(g, mark);
        drop_chosen(g, number, tablet, true);
        return true;
    }
    int rc = table_cold_leaving(t->table, tablet, true);
    SHOAL_ASSERT(rc == 0); /* choosing made what it needs */
    flush_put_image(g, number, tablet, sequence);
    (void)table_cold_leaving(t->table, tablet, false);
    tier->leaving[tier->leaving_count++] = (struct tier_tablet){number, tablet};
    tier->leaving_bytes += chosen * (table_row_bytes(t->table) + 8);
    tier->idle = 0;
    return true;
}

static uint32_t tablets_all(const struct engine *g)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        all += g->table[i].table != NULL ? g->table[i].scope.tablets : 0;
    return all;
}

void tier_gather(struct engine *g, uint64_t sequence, size_t limit)
{
    struct tier *tier = &g->tier;
    uint32_t table, tablet;
    for (uint32_t looks = 0; looks < GATHER_LOOKS && flush_bytes(g) < limit; looks++) {
        if (tier_used(g) < tier->rows_max / 16 * 14 + tier->leaving_bytes)
            return;
        if (!hand_next(g, &table, &tablet) || tier->idle++ > 4 * tablets_all(g)) {
            tier->stuck = true; /* all round, more than once, and nothing went */
            tier->stuck_used = tier_used(g);
            log_warn("%s: rows fill the memory budget and none can move to the store", g->dir);
            return;
        }
        if (!gather_one(g, table, tablet, sequence))
            return;
    }
}

void tier_leave(struct engine *g)
{
    for (uint32_t i = 0; i < g->tier.leaving_count; i++)
        drop_chosen(g, g->tier.leaving[i].table, g->tier.leaving[i].tablet, false);
    tier_stay(g);
}

void tier_stay(struct engine *g)
{
    g->tier.leaving_count = 0;
    g->tier.leaving_bytes = 0;
}

void tier_free(struct engine *g)
{
    if (g->tier.timer.due_ns != 0)
        env_timer_stop(g->env, &g->tier.timer);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        free(g->tier.wanted[i].key);
    free(g->tier.asked);
    free(g->tier.among);
}
