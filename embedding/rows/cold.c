/* cold.c: the set of cold keys; rows that come in and leave.
 *
 * 1. A key is in the index, or in the set, or in neither; except in a reader's copy that thaws into
 *    itself (table_cold_copy). [assert: set_add, put_in, table_cold_add, table_insert]
 * 2. A row noted as `stored` is the same in the store as in memory, except for later ageing, which
 *    is made up for when it comes in. [test: plain_rows_come_and_go,
 *    late_ageing_is_as_ageing_in_time, a_row_that_was_only_read_leaves_without_a_write]
 * 3. If a row ended unnoticed in the clock for which undo is kept, its weights are kept when it is
 *    noticed, as those of a row in memory are when it ends: a batch of that clock may have to be
 *    computed again. [test: a_row_that_ended_unnoticed_in_this_clock_has_its_undo] */
#include "embedding/rows/age.h"
#include "embedding/rows/table_cold.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/salt.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64u
#define SLOTS_UNIT (ARENA_UNIT_BYTES / sizeof(uint64_t))
/* Distance from home at which keys are considered crafted to collide: in a full set one of 10^10
 * random keys gets that far. */
#define SLOTS_FAR 1024u

/* ---- the set ---- */

static uint32_t slot_home(const struct cold *c, uint32_t tablet_bits, uint64_t mixed)
{
    uint64_t place = mixed << tablet_bits;
    if (__builtin_expect(c->salt != 0, 0))
        place = salt_mix(c->salt, mixed);
    return (uint32_t)(((place >> 32) * c->slots) >> 32);
}

/* The slot of a mixed key, or the free slot where it belongs. There is always a free one. */
static uint32_t slot_of(const struct cold *c, uint32_t tablet_bits, uint64_t mixed)
{
    uint32_t i = slot_home(c, tablet_bits, mixed);
    while (c->slot[i] != 0 && c->slot[i] != mixed)
        i = i + 1 == c->slots ? 0 : i + 1;
    return i;
}

static bool set_has(const struct cold *c, uint32_t tablet_bits, uint64_t mixed)
{
    if (mixed == 0)
        return c->zero;
    return c->used > 0 && c->slot[slot_of(c, tablet_bits, mixed)] == mixed;
}

/* Rebuilds the set with `slots` slots and this salt. */
static int set_renew(struct cold *c, const struct tablet_shape *s, uint32_t slots, uint64_t salt)
{
    struct cold old = *c;
    SHOAL_ASSERT(c->used < slots / 5 * 4ull); /* a free slot ends every search */
    c->slot = tablet_block_take(s, slots * sizeof *c->slot, &c->unit);
    if (c->slot == NULL) {
        *c = old;
        return SHOAL_E_NOMEM;
    }
    c->slots = slots;
    c->salt = salt;
    for (uint32_t i = 0; i < old.slots; i++)
        if (old.slot[i] != 0)
            c->slot[slot_of(c, s->tablet_bits, old.slot[i])] = old.slot[i];
    if (old.slot != NULL)
        tablet_block_give(s, old.slot, old.slots * sizeof *old.slot, old.unit);
    return 0;
}

/* Makes room for `count` keys at four fifths full. The set grows in small steps, because there may
 * be far more cold rows than others; all memory that the arena gives is used. */
static int set_reserve(struct cold *c, const struct tablet_shape *s, uint64_t count)
{
    if (count < c->slots / 5 * 4ull)
        return 0;
    uint64_t slots = count + count * 3 / 8;
    uint64_t step = SLOTS_UNIT;
    if (slots < SLOTS_UNIT)
        step = SLOTS_FIRST;
    slots = (slots + step) / step * step;
    SHOAL_ASSERT(count < slots / 5 * 4);

    if (slots > UINT32_MAX)
        return SHOAL_E_NOMEM;

    return set_renew(c, s, (uint32_t)slots, c->salt);
}

/* Puts a mixed key into its free slot; if that is far from home, salts the set. Without memory for
 * that the set is slow but correct, and the next far key retries. */
static void set_put(struct cold *c, const struct tablet_shape *s, uint64_t mixed)
{
    uint32_t home = slot_home(c, s->tablet_bits, mixed), i = slot_of(c, s->tablet_bits, mixed);
    c->slot[i] = mixed;
    c->used++;
    if (__builtin_expect((i < home ? i + c->slots : i) - home <= SLOTS_FAR, 1) || c->salt != 0)
        return;
    uint64_t salt = salt_draw();
    if (salt != 0)
        (void)set_renew(c, s, c->slots, salt);
}

static int set_add(struct cold *c, const struct tablet_shape *s, uint64_t mixed)
{
    SHOAL_ASSERT(!set_has(c, s->tablet_bits, mixed)); /* 1 */
    if (mixed == 0) {
        c->zero = true;
    } else {
        if (set_reserve(c, s, c->used + 1ull) != 0)
            return SHOAL_E_NOMEM;
        set_put(c, s, mixed);
    }
    c->count++;
    c->was = true;
    SHOAL_ASSERT(c->count == c->used + c->zero);
    return 0;
}

/* Moves later entries of the probe sequence into the freed slot (Knuth, 6.4, algorithm R). */
static void set_take_out(struct cold *c, uint32_t tablet_bits, uint64_t mixed)
{
    SHOAL_ASSERT(c->count == c->used + c->zero && c->count > 0);
    c->count--;
    if (mixed == 0) {
        SHOAL_ASSERT(c->zero);
        c->zero = false;
        return;
    }
    uint32_t hole = slot_of(c, tablet_bits, mixed), i = hole;
    SHOAL_ASSERT(c->slot[hole] == mixed);
    c->used--;
    for (;;) {
        if (i + 1 == c->slots)
            i = 0;
        else
            i = i + 1;
        if (c->slot[i] == 0)
            break;
        uint32_t home = slot_home(c, tablet_bits, c->slot[i]);
        bool between;
        if (hole <= i)
            between = hole < home && home <= i;
        else
            between = hole < home || home <= i;
        if (between)
            continue;
        c->slot[hole] = c->slot[i];
        hole = i;
    }
    c->slot[hole] = 0;
}

static void set_clear(struct cold *c, const struct tablet_shape *s)
{
    if (c->slot != NULL)
        tablet_block_give(s, c->slot, c->slots * sizeof *c->slot, c->unit);
    c->slot = NULL;
    c->slots = c->used = c->count = 0;
    c->zero = false;
}

static struct cold *cold_of(struct tablet *own)
{
    if (own->cold == NULL)
        own->cold = calloc(1, sizeof *own->cold);
    return own->cold;
}

int cold_new(struct tablet *own, uint32_t epoch, uint32_t began)
{
    SHOAL_ASSERT(own->cold == NULL || own->cold->count == 0);
    struct cold *c = cold_of(own);
    if (c == NULL)
        return SHOAL_E_NOMEM;
    c->epoch = epoch;
    c->began = began;
    c->stale = epoch > 0; /* they may have been there before the process ended */
    return 0;
}

bool cold_has(const struct cold *c, uint32_t tablet_bits, uint64_t key)
{
    return set_has(c, tablet_bits, key_mix(key));
}

int cold_add(struct cold *c, const struct tablet_shape *s, uint64_t key)
{
    return set_add(c, s, key_mix(key));
}

int cold_reserve(struct cold *c, const struct tablet_shape *s, uint32_t count)
{
    if (count == 0)
        return 0;

    return set_reserve(c, s, count);
}

void cold_free(struct cold *c, const struct tablet_shape *s)
{
    if (c == NULL)
        return;
    set_clear(c, s);
    free(c->gone);
    free(c);
}

uint64_t cold_set_bytes(const struct cold *c)
{
    if (c == NULL)
        return 0;

    return c->slots * sizeof *c->slot;
}

uint64_t cold_beside_bytes(const struct cold *c)
{
    if (c == NULL)
        return 0;
    uint64_t slots = cold_set_bytes(c), bytes = sizeof *c + c->gone_room * sizeof *c->gone;
    if (slots < ARENA_UNIT_BYTES) /* longer sets are in the arena */
        bytes += slots;
    return bytes;
}

int cold_gone_add(struct cold *c, uint64_t key)
{
    if (array_room(&c->gone, c->gone_count, &c->gone_room, 64) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(c->gone_count < c->gone_room);
    c->gone[c->gone_count++] = key;
    return 0;
}

/* ---- queries ---- */

static uint32_t number_of(const struct table *t, uint64_t key)
{
    return key_tablet(key_mix(key), t->shape.tablet_bits);
}

uint64_t table_cold_rows(const struct table *t)
{
    return t->cold;
}

/* The tablet's cold rows; an empty set if it never had any. */
static const struct cold *cold_at(const struct table *t, uint32_t tablet)
{
    static const struct cold none;
    SHOAL_ASSERT(tablet < t->tablet_count);
    if (t->tablets[tablet].cold == NULL)
        return &none;
    return t->tablets[tablet].cold;
}

uint32_t table_cold_tablet(const struct table *t, uint32_t tablet)
{
    return cold_at(t, tablet)->count;
}

uint32_t table_cold_epoch(const struct table *t, uint32_t tablet)
{
    return cold_at(t, tablet)->epoch;
}

uint32_t table_cold_drops(const struct table *t, uint32_t tablet)
{
    return cold_at(t, tablet)->drops;
}

bool table_cold_may(const struct table *t)
{
    return !t->schema.dense && t->schema.rules.age_capacity == 0;
}

bool table_cold_has(const struct table *t, uint64_t key)
{
    const struct cold *c = t->tablets[number_of(t, key)].cold;
    return c != NULL && c->count > 0 && set_has(c, t->shape.tablet_bits, key_mix(key));
}

#define AMONG_AHEAD 16u

/* Most searches end within two cache lines (thirteen slots on average for an absent key in a full
 * set). Always inlined: GCC 12 sees no effect in a function that only prefetches, and drops the
 * calls. */
ISA_INLINE void set_ahead(const struct table *t, uint64_t mixed)
{
    const struct cold *c = t->tablets[key_tablet(mixed, t->shape.tablet_bits)].cold;
    if (c == NULL || c->used == 0)
        return;
    const uint64_t *home = &c->slot[slot_home(c, t->shape.tablet_bits, mixed)];
    __builtin_prefetch(home);
    __builtin_prefetch(home + 8);
}

/* Called from another file, so that GCC keeps it. */
void table_cold_ahead(const struct table *t, uint64_t key)
{
    uint64_t mixed = key_mix(key);
    set_ahead(t, mixed);
    __builtin_prefetch(tablet_home(&t->tablets[key_tablet(mixed, t->shape.tablet_bits)],
                                   t->shape.tablet_bits, mixed),
                       1);
}

/* Searches only the set: a key in it is not in the index. */
size_t table_cold_among(const struct table *t, const uint64_t *keys, size_t count, uint64_t *cold)
{
    const uint32_t bits = t->shape.tablet_bits;
    size_t found = 0;
    for (size_t i = 0; t->cold > 0 && i < count; i++) {
        if (i + AMONG_AHEAD < count)
            set_ahead(t, key_mix(keys[i + AMONG_AHEAD]));
        uint64_t mixed = key_mix(keys[i]);
        const struct cold *c = t->tablets[key_tablet(mixed, bits)].cold;
        if (c != NULL && c->count > 0 && set_has(c, bits, mixed))
            cold[found++] = keys[i];
    }
    return found;
}

void table_cold_keep(struct table *t, const uint64_t *keys, size_t count)
{
    const struct tablet_shape *shape = &t->shape;
    for (size_t i = 0; i < count; i++) {
        if (i + AMONG_AHEAD < count) {
            uint64_t ahead = key_mix(keys[i + AMONG_AHEAD]);
            __builtin_prefetch(tablet_home(&t->tablets[key_tablet(ahead, shape->tablet_bits)],
                                           shape->tablet_bits, ahead));
        }
        uint64_t mixed = key_mix(keys[i]);
        struct tablet *own = &t->tablets[key_tablet(mixed, shape->tablet_bits)];
        float *row = NULL;
        TABLET_SEARCH(row, own, shape, tablet_home(own, shape->tablet_bits, mixed), keys[i],
                      bucket_match, bucket_seen);
        (void)row;
    }
}

void table_cold_keys(const struct table *t, uint32_t tablet, uint64_t *keys)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    const struct cold *c = t->tablets[tablet].cold;
    uint32_t n = 0;
    for (uint32_t i = 0; c != NULL && i < c->slots; i++)
        if (c->slot[i] != 0)
            keys[n++] = key_unmix(c->slot[i]);
    if (c != NULL && c->zero)
        keys[n++] = 0;
    SHOAL_ASSERT(n == table_cold_tablet(t, tablet));
}

/* ---- rows come in ---- */

size_t table_cold_bytes(const struct table *t)
{
    return t->shape.row_bytes + sizeof(uint32_t);
}

/* The row as of now, in the table's buffer; NULL: it expired. */
static const float *row_aged(const struct table *t, uint64_t key, const void *value,
                             enum age_end *end)
{
    const struct tablet *own = &t->tablets[number_of(t, key)];
    float *row = (float *)(void *)(t->whole_row + 1);
    uint32_t then;
    memcpy(row, value, t->shape.row_bytes);
    memcpy(&then, (const char *)value + t->shape.row_bytes, sizeof then);
    *end = age_row(t, number_of(t, key), key, row, then, own->life == NULL ? 0 : own->life->clock);
    return *end == AGE_STAYS ? row : NULL;
}

/* Keeps the weights of an expired row for undo (3). 0 or NOMEM. */
static int keep_undo(struct table *t, uint64_t key, const void *value)
{
    uint32_t tablet = number_of(t, key), then;
    struct undo *undo = t->tablets[tablet].undo;
    float *row = (float *)(void *)(t->whole_row + 1);
    if (undo == NULL || undo->clock == 0 || undo->from == 0)
        return 0;
    memcpy(row, value, t->shape.row_bytes);
    memcpy(&then, (const char *)value + t->shape.row_bytes, sizeof then);
    if (age_row(t, tablet, key, row, then, undo->from) != AGE_STAYS)
        return 0;
    undo->went = true;
    t->undo_went = undo->clock;
    return undo_save(undo, key, table_open(t, row));
}

static int put_in(struct table *t, uint64_t key, const float *row, uint32_t notes)
{
    uint32_t tablet = number_of(t, key);
    SHOAL_ASSERT(tablet_find(&t->tablets[tablet], &t->shape, key) == NULL); /* 1 */
    float *to = tablet_insert_noted(&t->tablets[tablet], &t->shape, tablet, key, notes);
    if (to == NULL)
        return SHOAL_E_NOMEM;
    memcpy(to, row, t->shape.row_bytes);
    t->rows++;
    return 0;
}

int table_cold_take(struct table *t, uint64_t key, const void *value, size_t bytes)
{
    struct cold *c = t->tablets[number_of(t, key)].cold;
    enum age_end end;
    if (!table_cold_has(t, key))
        return 0;
    if (bytes != table_cold_bytes(t))
        return SHOAL_E_CORRUPT;
    const float *row = row_aged(t, key, value, &end);
    int rc;
    if (row != NULL)
        rc = put_in(t, key, row, NOTES_FETCHED);
    else
        rc = cold_gone_add(c, key);
    if (rc == 0 && row == NULL)
        rc = keep_undo(t, key, value);
    if (rc != 0)
        return rc;
    t->counts.aged += end == AGE_LOW;
    t->counts.expired += end == AGE_EXPIRED;
    SHOAL_ASSERT(t->cold > 0);
    set_take_out(c, t->shape.tablet_bits, key_mix(key));
    t->cold--;
    return 0;
}

int cold_erase(struct table *t, uint64_t key)
{
    struct cold *c = t->tablets[number_of(t, key)].cold;
    if (!table_cold_has(t, key))
        return 0;
    if (cold_gone_add(c, key) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(t->cold > 0);
    set_take_out(c, t->shape.tablet_bits, key_mix(key));
    t->cold--;
    return 0;
}

int table_cold_copy(const struct table *t, struct table *into, uint64_t key, const void *value,
                    size_t bytes)
{
    enum age_end end;
    SHOAL_ASSERT(into->shape.row_bytes == t->shape.row_bytes);
    if (bytes != table_cold_bytes(t) || !table_cold_has(t, key))
        return SHOAL_E_CORRUPT;
    const float *row = row_aged(t, key, value, &end);

    if (row == NULL)
        return 0;

    return put_in(into, key, row, NOTES_THAWED);
}

/* ---- rows leave ---- */

/* Calls visit for each row in the index's order, and prefetches the rows. */
static int each_row(struct table *t, uint32_t tablet,
                    int (*visit)(void *context, struct bucket *b, uint32_t place), void *context)
{
    struct tablet *own = &t->tablets[tablet];
    int rc = 0;
    for (uint32_t b = 0; b < own->bucket_count && rc == 0; b++)
        for (uint32_t i = 0; i < own->buckets[b].count && rc == 0; i++)
            rc = visit(context, &own->buckets[b], i);
    return rc;
}

static bool is_stored(const struct bucket *b, uint32_t place)
{
    return (b->stored >> place & 1u) != 0;
}

static bool is_chosen(const struct bucket *b, uint32_t place)
{
    return (b->chosen >> place & 1u) != 0;
}

static bool is_asked(const struct bucket *b, uint32_t place)
{
    return (b->asked >> place & 1u) != 0;
}

struct choice {
    struct table *table;
    uint32_t clock;
    uint32_t of_heat[HEAT_FULL + 1]; /* rows that may leave, by heat */
    uint32_t left[HEAT_FULL + 1];    /* rows among them that are still to be chosen */
    bool cool;                       /* the rows that stay count as less used */
    cold_put put;
    void *context;
    uint32_t chosen;
};

static int count_heat(void *context, struct bucket *b, uint32_t place)
{
    struct choice *c = context;
    if (!is_asked(b, place) && (c->put != NULL || is_stored(b, place)))
        c->of_heat[bucket_notes(b, place) & HEAT_FULL]++;
    return 0;
}

static int choose_row(void *context, struct bucket *b, uint32_t place)
{
    struct choice *c = context;
    uint32_t notes = bucket_notes(b, place), heat = notes & HEAT_FULL;
    bool stored = is_stored(b, place);
    if (is_asked(b, place)) { /* its push may never come: the next choice does not spare it again */
        bucket_note(b, place, notes & ~NOTES_ASKED);
        return 0;
    }
    if (c->left[heat] == 0 || (c->put == NULL && !stored)) {
        if (heat > 0 && c->cool)
            bucket_note(b, place, (notes & ~HEAT_FULL) | (heat - 1));
        return 0;
    }
    if (!stored) {
        int rc = c->put(c->context, b->key[place], row_at(&c->table->shape, b->row[place]),
                        c->table->shape.row_bytes, c->clock);
        if (rc != 0)
            return rc;
    }
    c->left[heat]--;
    c->chosen++;
    bucket_note(b, place, NOTES_STORED | NOTES_CHOSEN);
    SHOAL_ASSERT(is_stored(b, place) && is_chosen(b, place) && !is_asked(b, place));
    return 0;
}

int table_cold_choose(struct table *t, uint32_t tablet, uint32_t most, cold_put put, void *context,
                      uint32_t *chosen)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    const struct tablet_life *life = t->tablets[tablet].life;
    struct choice c = {
        .table = t, .clock = life == NULL ? 0 : life->clock, .put = put, .context = context};
    *chosen = 0;
    if (!table_cold_may(t) || cold_of(&t->tablets[tablet]) == NULL)
        return 0;
    (void)each_row(t, tablet, count_heat, &c);
    /* while there are enough unused rows, the heat of the others stays */
    c.cool = c.of_heat[0] <= most;
    for (uint32_t heat = 0; heat <= HEAT_FULL; heat++) {
        c.left[heat] = most;
        if (c.of_heat[heat] < most)
            c.left[heat] = c.of_heat[heat];

        most -= c.left[heat];
    }
    int rc = each_row(t, tablet, choose_row, &c);
    /* as many as were counted */
    SHOAL_ASSERT(rc != 0 || (c.left[0] | c.left[1] | c.left[2] | c.left[HEAT_FULL]) == 0);
    *chosen = c.chosen;
    return rc;
}

int table_cold_leaving(struct table *t, uint32_t tablet, bool leaving)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    struct cold *c = cold_of(&t->tablets[tablet]);
    if (c == NULL)
        return SHOAL_E_NOMEM;
    c->leaving = leaving;
    c->was |= leaving;
    return 0;
}

/* Makes room in the set first, so that a lack of memory leaves nothing half done. */
int table_cold_drop(struct table *t, uint32_t tablet, uint32_t *count)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    struct tablet *own = &t->tablets[tablet];
    struct kept_row *list = malloc((own->row_count + 1ULL) * sizeof *list);
    uint32_t stay = 0, go = 0;
    *count = 0;
    if (list == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++) {
            const struct bucket *at = &own->buckets[b];
            struct kept_row row = {at->key[i], at->row[i], bucket_notes(at, i)};
            bool goes = is_chosen(at, i) && is_stored(at, i);
            /* leaving rows fill the list from its end */
            list[goes ? own->row_count - ++go : stay++] = row;
        }
    SHOAL_ASSERT(stay + go == own->row_count);
    int rc = 0;
    if (go != 0)
        rc = set_reserve(own->cold, &t->shape, own->cold->used + (uint64_t)go);
    if (rc == 0 && go > 0)
        rc = table_rebuild(t, tablet, list, stay);
    for (uint32_t i = 0; rc == 0 && i < go; i++)
        rc = set_add(own->cold, &t->shape, key_mix(list[stay + i].key));
    SHOAL_ASSERT(rc != 0 || (own->row_count == stay && t->rows >= go));
    if (rc == 0 && go > 0) {
        own->cold->drops++;
        t->rows -= go;
        t->cold += go;
        *count = go;
    }
    free(list);
    return rc;
}

uint32_t table_cold_gone(const struct table *t, uint32_t tablet, const uint64_t **keys)
{
    *keys = cold_at(t, tablet)->gone;
    return cold_at(t, tablet)->gone_count;
}

void table_cold_gone_clear(struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    struct cold *c = t->tablets[tablet].cold;
    if (c == NULL)
        return;
    free(c->gone);
    c->gone = NULL;
    c->gone_count = c->gone_room = 0;
}

/* ---- restoring ---- */

void table_cold_forget(struct table *t, uint32_t tablet)
{
    struct tablet *own = &t->tablets[tablet];
    struct cold *c = own->cold;
    if (c == NULL)
        return;
    SHOAL_ASSERT(t->cold >= c->count);
    t->cold -= c->count;
    set_clear(c, &t->shape);
    table_cold_gone_clear(t, tablet);
    c->epoch = 0;
    c->stale = c->was = false;
    /* all empty tablets share a bucket */
    for (uint32_t b = 0; b < own->bucket_count && own->row_count > 0; b++)
        own->buckets[b].stored = 0;
}

int table_cold_begin(struct table *t, uint32_t tablet, uint32_t epoch)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    struct cold *c = cold_of(&t->tablets[tablet]);
    if (c == NULL)
        return SHOAL_E_NOMEM;
    table_cold_forget(t, tablet);
    c->epoch = epoch;
    c->stale = true;
    return 0;
}

bool table_cold_was(const struct table *t)
{
    for (uint32_t i = 0; i < t->tablet_count; i++)
        if (t->tablets[i].cold != NULL && t->tablets[i].cold->was)
            return true;
    return false;
}

bool table_cold_stale(const struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    return t->tablets[tablet].cold != NULL && t->tablets[tablet].cold->stale;
}

void table_cold_fresh(struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    if (t->tablets[tablet].cold != NULL)
        t->tablets[tablet].cold->stale = false;
}

int table_cold_add(struct table *t, uint64_t key)
{
    struct tablet *own = &t->tablets[number_of(t, key)];
    SHOAL_ASSERT(table_cold_may(t) && tablet_find(own, &t->shape, key) == NULL); /* 1 */
    struct cold *c = cold_of(own);
    if (c == NULL || set_add(c, &t->shape, key_mix(key)) != 0)
        return SHOAL_E_NOMEM;
    t->cold++;
    return 0;
}
