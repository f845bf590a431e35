/* age.c: clocks, boundaries, sweeps; and eviction by capacity. */
#include "embedding/rows/age.h"
#include "proto/base/key.h"

#include "embedding/rows/rules/stats.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

static bool takes(const struct push_args *args, uint32_t tablet)
{
    return args->take == NULL || args->take[tablet] != 0;
}

static uint32_t clock_after(uint32_t clock, uint32_t event_time)
{
    if (event_time <= clock)
        return clock;

    if (clock > 0 && event_time - clock > AGE_STEP_MAX)
        return clock + AGE_STEP_MAX;

    return event_time;
}

/* Number of a tablet's boundaries up to `clock`, and *last, the time of the last one. The first
 * lies in [0, every). */
static uint64_t boundaries(const struct table *t, uint32_t tablet, uint32_t clock, uint64_t *last)
{
    SHOAL_ASSERT(t->schema.rules.age_every > 0 && tablet < t->tablet_count);
    uint64_t every = t->schema.rules.age_every, shift = tablet * every / t->tablet_count;
    uint64_t count = (clock + every - shift) / every;
    *last = 0;
    if (count > 0)
        *last = shift + (count - 1) * every;

    return count;
}

/* ---- ageing ---- */

struct sweep {
    const struct table *table;
    float decay;    /* factor for shows and clicks */
    uint64_t times; /* number of decays */
    uint64_t now;   /* the last boundary that was passed */
    uint64_t aged, expired;
};

static uint32_t ttl_of(const struct table_schema *s, uint64_t key)
{
    const struct field_rule *f = NULL;
    if (s->field_rule_count > 0)
        f = schema_field_rule(s, key_field(key));

    if (f != NULL && (f->has & FIELD_HAS_TTL) != 0)
        return f->ttl;

    return s->rules.age_ttl;
}

static enum age_end sweep_row(const struct sweep *w, uint64_t key, float *row)
{
    const struct table_schema *s = &w->table->schema;
    struct row_stats stats = stats_read(row + w->table->stats_at);
    float show = stats.show, click = stats.click;
    for (uint64_t i = 0; i < w->times; i++) {
        stats.show = show * w->decay;
        stats.click = click * w->decay;
        if (stats.show == show && stats.click == click)
            break; /* all are 0, or nearly: further decay changes nothing */
        show = stats.show;
        click = stats.click;
    }
    uint32_t ttl = ttl_of(s, key);
    if (s->rules.age_score > 0 &&
        stats_score(&s->rules, stats.show, stats.click) < s->rules.age_score)
        return AGE_LOW;
    if (ttl > 0 && stats.time > 0 && w->now > stats.time && w->now - stats.time > ttl)
        return AGE_EXPIRED;
    if (w->times > 0)
        stats_write(row + w->table->stats_at, &stats);
    return AGE_STAYS;
}

static bool sweep_stays(void *context, uint64_t key, float *row)
{
    struct sweep *w = context;
    enum age_end end = sweep_row(w, key, row);
    w->aged += end == AGE_LOW;
    w->expired += end == AGE_EXPIRED;
    return end == AGE_STAYS;
}

static bool has_ttl(const struct table_schema *s)
{
    bool any = s->rules.age_ttl > 0;
    for (uint32_t i = 0; i < s->field_rule_count; i++)
        any |= (s->field_rule[i].has & FIELD_HAS_TTL) != 0 && s->field_rule[i].ttl > 0;
    return any;
}

/* Statistics only fall from boundary to boundary, so the last one decides for all that were passed.
 * False: nothing ages here. */
static bool sweep_begin(const struct table *t, uint64_t times, uint64_t now, struct sweep *out)
{
    const struct row_rules *r = &t->schema.rules;
    bool decays = r->age_decay > 0 && r->age_decay < 1;
    *out =
        (struct sweep){.table = t, .decay = r->age_decay, .times = decays ? times : 0, .now = now};
    return r->stats != 0 && (decays || r->age_score > 0 || has_ttl(&t->schema));
}

static int sweep(struct table *t, uint32_t tablet, uint64_t times, uint64_t now,
                 uint64_t undo_clock)
{
    struct sweep w;
    uint64_t gone;
    if (!sweep_begin(t, times, now, &w))
        return 0;
    int rc = table_keep(t, tablet, sweep_stays, &w, undo_clock, &gone);
    SHOAL_ASSERT(rc != 0 || gone == w.aged + w.expired);
    t->counts.aged += w.aged;
    t->counts.expired += w.expired;
    return rc;
}

enum age_end age_row(const struct table *t, uint32_t tablet, uint64_t key, float *row,
                     uint32_t then, uint32_t now)
{
    struct sweep w;
    uint64_t last;
    SHOAL_ASSERT(tablet < t->tablet_count);
    if (then == 0 && t->tablets[tablet].cold != NULL)
        then = t->tablets[tablet].cold->began;
    if (!t->ages || t->schema.rules.age_every == 0 || then == 0 || now <= then)
        return AGE_STAYS;
    uint64_t passed =
        boundaries(t, tablet, now, &last) - boundaries(t, tablet, then, &(uint64_t){0});

    if (passed > 0 && sweep_begin(t, passed, last, &w))
        return sweep_row(&w, key, row);

    return AGE_STAYS;
}

static int move_clock(struct table *t, uint32_t tablet, const struct push_args *args)
{
    struct tablet_life *life = table_life(t, tablet);
    if (life == NULL)
        return SHOAL_E_NOMEM;
    uint32_t before = life->clock, after = clock_after(before, args->event_time);
    SHOAL_ASSERT(after >= before && (before == 0 || after - before <= AGE_STEP_MAX));
    life->clock = after;
    struct cold *cold = t->tablets[tablet].cold;
    if (before == 0 && cold != NULL && cold->began == 0)
        /* rows that left before any time was known start to age here, as the others do */
        cold->began = after;
    if (before == after || before == 0 || t->schema.rules.age_every == 0)
        return 0;
    uint64_t last, passed = boundaries(t, tablet, after, &last) -
                            boundaries(t, tablet, before, &(uint64_t){0});
    if (passed == 0)
        return 0;
    /* A cold row may end here but be noticed later, within this clock of bsp: it must be kept for
     * that clock all the same (cold.c, 3). */
    if (args->undo_clock != 0 && cold != NULL &&
        table_undo_begin(t, tablet, args->undo_clock, before) != 0)
        return SHOAL_E_NOMEM;
    for (uint64_t i = 0; i < passed && i < 2; i++) { /* two turns forget everything */
        waiting_turn(&life->waiting);
        sketch_turn(&life->sketch);
    }
    return sweep(t, tablet, passed, last, args->undo_clock);
}

int age_before(struct table *t, const struct push_args *args)
{
    int rc = 0;
    if (!t->ages || args->event_time == 0)
        return 0;
    for (uint32_t i = args->tablet_first; rc == 0 && i < args->tablet_first + args->tablet_count;
         i++)
        if (takes(args, i))
            rc = move_clock(t, i, args);
    return rc;
}

/* ---- capacity ---- */

struct age_rank age_rank_of(const struct table_schema *s, uint64_t key,
                            const struct row_stats *stats)
{
    float score = stats_score(&s->rules, stats->show, stats->click);
    struct age_rank r = {stats->time, key_mix(key)};
    if (s->rules.age_by == EVICT_SCORE) {
        /* floats that are not negative sort like their bits */
        score = MAX(score, 0);
        memcpy(&r.order, &score, sizeof r.order);
    }
    return r;
}

static struct age_rank rank_of(const struct table *t, uint64_t key, const float *row)
{
    struct row_stats stats = stats_read(row + t->stats_at);
    return age_rank_of(&t->schema, key, &stats);
}

/* Finds the rank with `place` ranks below it, and partitions the list around it (Hoare 1961). */
static struct age_rank select_rank(struct age_rank *list, size_t count, size_t place)
{
    SHOAL_ASSERT(place < count);
    size_t low = 0, high = count - 1;
    while (low < high) {
        struct age_rank pivot = list[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (age_rank_below(&list[i], &pivot))
                i++;
            while (age_rank_below(&pivot, &list[j]))
                j--;
            if (i >= j)
                break;
            struct age_rank other = list[i];
            list[i++] = list[j];
            list[j--] = other;
        }
        if (place <= j)
            high = j;
        else
            low = j + 1;
    }
    return list[place];
}

struct room {
    const struct table *table;
    struct age_rank least; /* the lowest rank that stays */
};

static bool room_stays(void *context, uint64_t key, float *row)
{
    const struct room *r = context;
    struct age_rank own = rank_of(r->table, key, row);
    return !age_rank_below(&own, &r->least);
}

static int make_room(struct table *t, uint32_t tablet, uint64_t undo_clock)
{
    const struct tablet *own = &t->tablets[tablet];
    uint32_t stay = (uint32_t)age_room(own->row_count, t->schema.rules.age_capacity), n = 0;
    struct age_rank *list = malloc(own->row_count * sizeof *list);
    if (list == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++)
            list[n++] =
                rank_of(t, own->buckets[b].key[i], row_at(&t->shape, own->buckets[b].row[i]));
    SHOAL_ASSERT(n == own->row_count && stay > 0 && stay < n);
    uint32_t go = n - stay;
    struct room room = {t, select_rank(list, n, go)};
    free(list);
    uint64_t gone;
    int rc = table_keep(t, tablet, room_stays, &room, undo_clock, &gone);
    SHOAL_ASSERT(rc != 0 || gone == go); /* no two ranks are equal */
    if (rc == 0)
        t->counts.evicted += gone;
    return rc;
}

int age_after(struct table *t, const struct push_args *args)
{
    const uint32_t capacity = t->schema.rules.age_capacity;
    int rc = 0;
    for (uint32_t i = args->tablet_first;
         capacity > 0 && rc == 0 && i < args->tablet_first + args->tablet_count; i++)
        if (takes(args, i) && t->tablets[i].row_count > capacity)
            rc = make_room(t, i, args->undo_clock);
    return rc;
}
