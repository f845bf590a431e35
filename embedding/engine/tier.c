/* tier.c: the memory limit, and the rows that leave to keep it.
 *
 * 1. Rows leave only while no admitted push waits to be applied, and never in the turn of the loop
 *    in which engine_warm returned true: they leave in flush steps, which follow a drain's pushes
 *    and pulls, and at the end of a batch with nothing pending. [assert: tier_gather, drop_chosen]
 * 2. A row whose pair is in a batch that is not written yet does not leave: rows chosen for a
 *    batch leave with it, in one turn of the hand. [assert: tier_gather] */
#include "embedding/engine/tier.h"

#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/follow_inner.h"
#include "embedding/engine/share.h"
#include "embedding/rows/arena_inner.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY 32u /* steps between two checks of memory outside the arenas */
/* LEAVE of LEAVE_OF of a tablet's rows leave at a time: each time the others are written, too, as
 * its image */
#define LEAVE 2u
#define LEAVE_OF 3u
/* share of the rows' memory that may come in while no row can leave */
#define STUCK_SHARE 32u
#define MARKS_OF 4u              /* share of the rows' memory for marks */
#define GATHER_ROWS (256u << 10) /* rows in memory of the tablets visited in one step: about 5 ms */

/* ---- memory ---- */

uint64_t tier_store_memory(const struct engine *g)
{
    return g->options.memory / 8;
}

void tier_init(struct engine *g)
{
    uint64_t memory = g->options.memory, beside = tier_store_memory(g) + 2 * flush_batch_bytes(g);
    g->tier.narrow = LIMIT_TABLES;
    if (memory > beside)
        memory -= beside;
    g->tier.rows_max = g->tier.budget = memory;
    g->tier.short_tables = TABLE_SET_ALL;
    share_init(g);
}

/* The message when no more rows can come in, with the remedy. */
static int full(struct engine *g, const struct tier_group *own, struct err *e)
{
    const struct tier_group *most = share_most(g);
    const uint64_t limit = share_limit(g, own, 16), used = share_used(g, own);
    if (share_several(g) && used > limit)
        return err_set(e, SHOAL_E_NO_SPACE,
                       "space %s has %" PRIu64 " bytes of memory, over its share of %" PRIu64
                       ", and no more of its rows can move to the store; raise its weight in "
                       "`memory` of coordinator.yaml, raise `memory` of the server, or add servers",
                       text_unless_empty(own->is.name, "without a share"), used, limit);
    if (most != NULL)
        return err_set(e, SHOAL_E_NO_SPACE,
                       "rows fill the memory budget of %" PRIu64 " bytes: space %s has %" PRIu64
                       ", over its share of %" PRIu64 ", and none can move to the store; drop rows "
                       "of that space, raise `memory` of the server, or add servers",
                       g->options.memory, most->is.name, share_used(g, most),
                       share_limit(g, most, 16));
    if (g->tier.narrow == LIMIT_TABLES)
        return err_set(e, SHOAL_E_NO_SPACE,
                       "rows fill the memory budget of %" PRIu64
                       " bytes and none can move to the store; raise `memory` or add servers",
                       g->options.memory);
    return err_set(e, SHOAL_E_NO_SPACE,
                   "rows fill the %" PRIu64 " bytes that a shard has for them beside rows as short "
                   "as those of table %s, and none can move to the store; add servers",
                   g->tier.rows_max, table_schema_of(g->table[g->tier.narrow].table)->name);
}

/* Measures the memory outside the arenas. */
static void look(struct engine *g)
{
    struct tier *tier = &g->tier;
    tier->readers = 0;
    if (g->store != NULL)
        tier->readers = store_space(g->store).readers;

    tier->beside = 0;
    TABLE_SET_EACH (i, &g->here) {
        struct table_counts counts;
        table_counts_get(g->table[i].table, &counts);
        tier->beside_of[i] = counts.beside_bytes;
        tier->beside += counts.beside_bytes;
    }
}

uint64_t tier_rest(const struct engine *g)
{
    uint64_t rest = runs_bytes(&g->runs) + engine_jobs_bytes(g) + follow_bytes(g);
    for (uint32_t i = 0; i < g->mem_cut_count; i++)
        rest += g->mem_cut[i].facts.bytes;
    return rest + g->tier.readers;
}

uint64_t tier_used(struct engine *g)
{
    uint64_t used = arena_used(g->arena);
    for (uint32_t i = 0; i < g->loads; i++)
        if (g->loaded[i].arena != NULL)
            used += arena_used(g->loaded[i].arena);
    if (g->tier.looks++ % LOOK_EVERY == 0)
        look(g);
    return used + g->tier.beside + tier_rest(g);
}

static bool can_move(const struct engine *g)
{
    return g->store != NULL && g->journal != NULL && !g->broken;
}

/* Stuck, and much has come in since: no more keys are accepted until all fetched rows have been
 * used. A request for more than there is room for is then served once, and the next one after
 * it. */
static bool shut(const struct engine *g, const struct tier_group *s, uint64_t used)
{
    return s->stuck && used > s->stuck_used + g->tier.rows_max / STUCK_SHARE;
}

void tier_stuck(struct engine *g, struct tier_group *s)
{
    s->stuck = true;
    s->stuck_used = tier_used(g);
    if (!share_several(g))
        log_warn("%s: rows fill the memory budget and none can move to the store", g->dir);
    else if (s->is.parts > 0)
        log_warn("%s: rows of space %s fill its share of the memory and none can move to the store",
                 g->dir, text_unless_empty(s->is.name, "without a share"));
}

bool tier_lets_in(struct engine *g, uint32_t table, uint64_t bytes)
{
    const struct tier_group *s = share_of(g, table);
    return !s->stuck || (bytes <= g->tier.rows_max / STUCK_SHARE && !shut(g, s, tier_used(g)));
}

bool tier_wants_room(struct engine *g)
{
    struct tier *tier = &g->tier;
    if (tier->rows_max == 0 || !can_move(g))
        return false;
    uint64_t used = tier_used(g);
    if (used > tier->rows_max / 16 * 15)
        tier->making = true;
    const bool ends = used < tier->rows_max / 16 * 14;
    tier->making &= !ends;
    for (uint32_t i = 0; i < tier->groups; i++) {
        struct tier_group *s = &tier->group[i];
        const bool again = shut(g, s, used) && tier->wanted_count == 0 && fetch_none(g);
        s->stuck &= !ends && !again;
        if (again) /* these may be able to leave */
            s->idle = 0;
    }
    return tier->making && share_giver(g) != NULL;
}

/* A push of the group cannot be admitted now. */
static int put_off(struct engine *g, struct tier_group *own, struct err *e)
{
    own->waits += share_several(g);
    engine_flush_step(g);
    if (table_set_equal(g->tier.short_tables, TABLE_SET_ALL))
        return err_set(e, SHOAL_E_BUSY,
                       "rows fill the memory budget; some are being moved to the store, ask again");
    return err_set(e, SHOAL_E_BUSY,
                   "rows of space %s fill its share of the memory; some are being moved to the "
                   "store, ask again",
                   text_unless_empty(own->is.name, "without a share"));
}

int tier_check_room(struct engine *g, uint32_t table, bool shared, struct err *e)
{
    struct tier *tier = &g->tier;
    struct tier_group *own = share_of(g, table);
    const bool was_full = own->full;
    own->full = false;
    tier->short_tables = TABLE_SET_ALL;
    if (tier->rows_max == 0)
        return 0;
    const uint64_t used = tier_used(g);
    shared &= share_several(g);
    const bool waits = shared && share_waits(g, own, used);
    const bool refused = shared && share_refuses(g, table, can_move(g));
    if (used <= tier->rows_max && !waits && !refused)
        return 0;
    tier->refused = true;
    if (used <= tier->rows_max || waits)
        tier->short_tables = own->is.tables;
    own->full = refused || !can_move(g) || !share_gives(g);
    if (!own->full)
        return put_off(g, own, e);

    const char *where = g->dir;
    if (g->dir == NULL)
        where = "memory";

    struct err why;
    int rc = full(g, own, &why);
    own->refused += shared;
    if (!was_full)
        log_event(PUSHES_REFUSED, where, "%s: pushes are refused: %s", where, why.text);
    return err_set(e, rc, "%s", why.text);
}

static uint64_t marks_most(const struct engine *g, uint32_t lanes, struct table_set tables)
{
    const struct table_set there = table_set_and(tables, g->here);
    uint64_t bytes = 0;
    TABLE_SET_EACH (i, &there)
        bytes += marks_bytes_most(lanes, g->table[i].scope.tablets);
    return bytes;
}

int tier_check_marks(const struct engine *g, uint64_t run, uint32_t lanes, struct table_set tables,
                     struct err *e)
{
    uint64_t most = g->tier.rows_max / MARKS_OF, need = marks_most(g, lanes, tables), others = 0;
    for (uint32_t i = 0; i < g->runs.count; i++)
        others += marks_most(g, g->runs.run[i]->lanes, g->runs.run[i]->tables);
    if (most == 0 || others + need <= most)
        return 0;
    return err_set(e, SHOAL_E_NO_SPACE,
                   "the marks of run %" PRIu64 " (%u lanes) may take %" PRIu64
                   " bytes, those of other runs %" PRIu64 ", of %" PRIu64
                   " in all; raise `memory`, drop runs, or use fewer lanes or tablets",
                   run, lanes, need, others, most);
}

/* ---- making room ---- */

struct leaving { /* the rows of one tablet that leave memory */
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

bool tier_hand_next(struct engine *g, struct tier_tablet *hand, const struct table_set *tables,
                    bool clean, uint32_t *table, uint32_t *tablet)
{
    const struct table_set among = table_set_less(table_set_and(*tables, g->here), g->loading);
    SHOAL_ASSERT(hand->table < LIMIT_TABLES);
    for (uint32_t left = table_set_count(among) + 1; left > 0; left--) {
        const struct engine_table *t = &g->table[hand->table];
        bool may = table_set_has(&among, hand->table) && table_cold_may(t->table);
        for (; may && hand->tablet < t->scope.tablets; hand->tablet++)
            if (table_tablet_rows(t->table, hand->tablet) >
                    table_cold_tablet(t->table, hand->tablet) &&
                !(clean && t->changed[hand->tablet] > t->durable[hand->tablet])) {
                *table = hand->table;
                *tablet = hand->tablet++;
                return true;
            }
        hand->table = table_set_round(&among, hand->table);
        hand->tablet = 0;
    }
    return false;
}

static void drop_chosen(struct engine *g, uint32_t table, uint32_t tablet, bool clean)
{
    uint32_t gone = 0;
    SHOAL_ASSERT(g->pending == 0); /* 1 */
    if (table_cold_drop(g->table[table].table, tablet, &gone) != 0)
        log_warn("no memory to let rows of table %s go; trying again",
                 table_schema_of(g->table[table].table)->name);
    g->tier.evicted += gone;
    if (clean)
        g->tier.evicted_clean += gone;
    if (gone == 0)
        return;
    share_of(g, table)->idle = 0;
    share_of(g, table)->came = false;
}

static bool is_leaving(const struct tier *tier, uint32_t table, uint32_t tablet)
{
    for (uint32_t i = 0; i < tier->leaving_count; i++)
        if (tier->leaving[i].table == table && tier->leaving[i].tablet == tablet)
            return true;
    return false;
}

/* Gathers one tablet: the rows that leave it go into the batch, with its image; or leave at once if
 * the store has them all. False: the batch is full, or the hand has completed a turn. */
static bool gather_one(struct engine *g, uint32_t number, uint32_t tablet, uint64_t sequence)
{
    struct tier *tier = &g->tier;
    struct engine_table *t = &g->table[number];
    struct leaving l = {
        .g = g, .table = number, .tablet = tablet, .epoch = table_cold_epoch(t->table, tablet)};
    uint64_t hot = table_tablet_rows(t->table, tablet) - table_cold_tablet(t->table, tablet);
    SHOAL_ASSERT(hot > 0 && hot <= table_tablet_rows(t->table, tablet));
    uint32_t most = (uint32_t)(hot * LEAVE / LEAVE_OF) + 1, chosen = 0;
    const uint64_t *gone;
    size_t image = stored_tablet_bytes(t->table, &g->runs, tablet),
           pairs = most * table_cold_bytes(t->table);
    if (tier->leaving_count == TIER_LEAVING || is_leaving(tier, number, tablet) /* 2. */ ||
        !flush_room(g, most + 1 + table_cold_gone(t->table, tablet, &gone), image + pairs))
        return false;
    struct flush_mark mark = flush_mark(g);
    flush_put_gone(g, number, tablet);
    struct flush_mark pairs_from = flush_mark(g);
    if (table_cold_choose(t->table, tablet, most, put_pair, &l, &chosen) != 0 || chosen == 0) {
        flush_back(g, mark);
        return true;
    }
    SHOAL_ASSERT(l.pairs <= chosen && chosen <= most); /* there was room for them */
    if (l.pairs == 0) {
        flush_back(g, mark);
        drop_chosen(g, number, tablet, true);
        return true;
    }
    flush_sort(g, pairs_from);
    int rc = table_cold_leaving(t->table, tablet, true);
    SHOAL_ASSERT(rc == 0); /* choosing made room */
    flush_put_image(g, number, tablet, sequence);
    (void)table_cold_leaving(t->table, tablet, false);
    SHOAL_ASSERT(tier->leaving_count < TIER_LEAVING && t->written[tablet] >= sequence);
    tier->leaving[tier->leaving_count++] = (struct tier_tablet){number, tablet};
    const uint64_t bytes = chosen * (table_row_bytes(t->table) + 8);
    tier->leaving_bytes += bytes;
    share_of(g, number)->leaving += bytes;
    share_of(g, number)->idle = 0;
    return true;
}

static uint32_t tablets_all(const struct engine *g, const struct table_set *tables)
{
    const struct table_set there = table_set_and(*tables, g->here);
    uint32_t all = 0;
    TABLE_SET_EACH (i, &there)
        all += g->table[i].scope.tablets;
    return all;
}

void tier_gather(struct engine *g, uint64_t sequence, size_t limit)
{
    struct tier *tier = &g->tier;
    uint32_t table, tablet;
    SHOAL_ASSERT(g->pending == 0); /* 1 */
    SHOAL_ASSERT(!g->flush.busy);  /* 2: the hand waits for the batch that it filled */
    for (uint64_t looked = 0; looked < GATHER_ROWS && flush_bytes(g) < limit;) {
        struct tier_group *giver = share_giver(g);
        if (giver == NULL || tier_used(g) < tier->rows_max / 16 * 14 + tier->leaving_bytes)
            return;
        if (!tier_hand_next(g, &giver->hand, &giver->is.tables, false, &table, &tablet) ||
            giver->idle++ > 4 * tablets_all(g, &giver->is.tables)) {
            tier_stuck(g, giver); /* more than a full turn, and no row left */
            continue;
        }
        const struct table *t = g->table[table].table;
        looked += table_tablet_rows(t, tablet) - table_cold_tablet(t, tablet);
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
    for (uint32_t i = 0; i < g->tier.groups; i++)
        g->tier.group[i].leaving = 0;
}

void tier_empty(struct engine *g)
{
    struct tier *tier = &g->tier;
    tier->making = false;
    tier->looks = 0;
    for (uint32_t i = 0; i < tier->groups; i++) {
        struct tier_group *s = &tier->group[i];
        s->hand = (struct tier_tablet){0};
        s->stuck = s->full = false;
        s->idle = 0;
    }
}
