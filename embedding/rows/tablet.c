/* tablet.c: growing, inserting and freeing; the search is inline in tablet.h, for the walks of
 * pull.c and push.c. */
#include "embedding/rows/tablet.h"
#include "proto/base/key.h"

#include "embedding/rows/cold.h"
#include "embedding/rows/rules/life.h"
#include "proto/base/assert.h"
#include "proto/base/err.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_FIRST 4u
#define UNIT_BUCKETS (uint32_t)(ARENA_UNIT_BYTES / sizeof(struct bucket))
#define CHUNK_BUCKETS (uint32_t)(ARENA_CHUNK_BYTES / sizeof(struct bucket))
#define PAGE_UNITS_MAX 32u
/* Distance in buckets at which an insert considers keys crafted to collide. With 6,000 tablets of
 * 20,000 buckets filled to 0.86 with random keys, 13,440 inserts passed 64 buckets, 52 passed 128
 * and none passed 192. */
#define BUCKETS_FAR 192u

/* The index of every empty tablet: searches end in it, and grow_at 0 prevents inserts. */
static struct bucket empty_bucket;

void tablet_shape_init(struct tablet_shape *s, struct arena *arena, uint64_t *taken,
                       uint32_t tablet_bits, uint32_t floats)
{
    SHOAL_ASSERT(floats > 0 && 1u << tablet_bits <= LIMIT_TABLETS);
    size_t row_bytes = floats * sizeof(float);
    uint32_t units = 0;
    size_t waste = 0;
    /* The smallest page that wastes at most an eighth; for very long rows the best of a few
     * sizes. */
    for (uint32_t u = 1; u <= PAGE_UNITS_MAX; u++) {
        size_t bytes = u * ARENA_UNIT_BYTES;
        if (bytes < row_bytes)
            continue;
        size_t lost = bytes % row_bytes * 1024 / bytes;
        if (units == 0 || lost < waste) {
            units = u;
            waste = lost;
        }
        if (lost <= 128)
            break;
    }
    SHOAL_ASSERT(units > 0);
    uint32_t rows = (uint32_t)(units * ARENA_UNIT_BYTES / row_bytes), bits = 0;
    while ((1u << bits) < rows)
        bits++;
    SHOAL_ASSERT(rows > 0 && rows * row_bytes <= units * ARENA_UNIT_BYTES);
    *s = (struct tablet_shape){.arena = arena,
                               .taken = taken,
                               .tablet_bits = tablet_bits,
                               .floats = floats,
                               .row_bytes = (uint32_t)row_bytes,
                               .page_rows = rows,
                               .page_units = units,
                               .place_bits = bits};
}

void tablet_init(struct tablet *t)
{
    memset(t, 0, sizeof *t);
    t->buckets = &empty_bucket;
    t->bucket_count = 1;
    t->index_unit = ARENA_NONE;
}

/* ---- memory ---- */

void *tablet_block_take(const struct tablet_shape *s, size_t bytes, uint32_t *unit)
{
    void *block = arena_block_take(s->arena, bytes, unit);
    if (block != NULL)
        *s->taken += arena_block_bytes(bytes);
    return block;
}

void tablet_block_give(const struct tablet_shape *s, void *block, size_t bytes, uint32_t unit)
{
    SHOAL_ASSERT(*s->taken >= arena_block_bytes(bytes)); /* tablet.h, 1 */
    *s->taken -= arena_block_bytes(bytes);
    arena_block_give(s->arena, block, bytes, unit);
}

static uint32_t page_take(const struct tablet_shape *s)
{
    uint32_t unit = arena_take(s->arena, s->page_units);
    if (unit != ARENA_NONE)
        *s->taken += s->page_units * ARENA_UNIT_BYTES;
    return unit;
}

static void page_give(const struct tablet_shape *s, uint32_t unit)
{
    SHOAL_ASSERT(*s->taken >= s->page_units * ARENA_UNIT_BYTES); /* tablet.h, 1 */
    *s->taken -= s->page_units * ARENA_UNIT_BYTES;
    arena_give(s->arena, unit, s->page_units);
}

uint64_t tablet_taken(const struct tablet *t, const struct tablet_shape *s)
{
    return (uint64_t)t->page_count * s->page_units * ARENA_UNIT_BYTES +
           arena_block_bytes(t->bucket_count * sizeof(struct bucket)) +
           arena_block_bytes(cold_set_bytes(t->cold));
}

/* ---- the index ---- */

static struct bucket *index_take(const struct tablet_shape *s, uint32_t buckets, uint32_t *unit)
{
    return tablet_block_take(s, buckets * sizeof(struct bucket), unit);
}

static void index_give(const struct tablet_shape *s, struct bucket *buckets, uint32_t bucket_count,
                       uint32_t unit)
{
    if (buckets != &empty_bucket)
        tablet_block_give(s, buckets, bucket_count * sizeof(struct bucket), unit);
}

/* The next size: doubled while small, then 1.4 times in whole units, then in whole chunks. */
static uint64_t next_size(uint64_t buckets)
{
    if (buckets < BUCKETS_FIRST)
        return BUCKETS_FIRST;
    if (buckets < UNIT_BUCKETS)
        return 2 * buckets;
    uint64_t step = CHUNK_BUCKETS;
    if (buckets < CHUNK_BUCKETS)
        step = UNIT_BUCKETS;
    return (buckets + buckets * 2 / 5 + step - 1) / step * step;
}

/* 0.66 to 0.86 of the places, depending on the tablet's number. */
static uint32_t rows_of_size(uint64_t buckets, uint32_t number)
{
    uint64_t share = 676 + (((number * 0x9e3779b1u) >> 16) * 205u >> 16); /* in 1/1024 */
    uint64_t rows = buckets * BUCKET_KEYS * share / 1024;

    if (rows < UINT32_MAX)
        return (uint32_t)rows;

    return UINT32_MAX;
}

/* Returns the number of buckets that it visited. */
static uint32_t index_put(struct tablet *t, uint32_t tablet_bits, uint64_t key, uint32_t row,
                          uint32_t notes)
{
    struct bucket *b = tablet_home(t, tablet_bits, key_mix(key));
    uint32_t looked = 1;
    for (; b->count == BUCKET_KEYS; looked++)
        if (++b == t->buckets + t->bucket_count)
            b = t->buckets;
    b->key[b->count] = key;
    b->row[b->count] = row;
    bucket_note(b, b->count, notes);
    b->count = (b->count + 1u) & 7u;
    return looked;
}

/* Rebuilds the index with `buckets` buckets and this salt. */
static int index_renew(struct tablet *t, const struct tablet_shape *s, uint32_t buckets,
                       uint64_t salt)
{
    struct tablet old = *t;
    /* a free place always exists, which ends every search */
    SHOAL_ASSERT(t->row_count < (uint64_t)buckets * BUCKET_KEYS);
    t->buckets = index_take(s, buckets, &t->index_unit);
    if (t->buckets == NULL) {
        *t = old;
        return SHOAL_E_NOMEM;
    }
    t->bucket_count = buckets;
    t->salt = salt;
    for (uint32_t i = 0; i < old.bucket_count; i++)
        for (uint32_t k = 0; k < old.buckets[i].count; k++)
            (void)index_put(t, s->tablet_bits, old.buckets[i].key[k], old.buckets[i].row[k],
                            bucket_notes(&old.buckets[i], k));
    index_give(s, old.buckets, old.bucket_count, old.index_unit);
    return 0;
}

static int index_resize(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                        uint64_t buckets)
{
    SHOAL_ASSERT(buckets > t->bucket_count);
    if (buckets > UINT32_MAX ||
        index_renew(t, s, (uint32_t)buckets, t->salt == 0 ? 0 : salt_draw()) != 0)
        return SHOAL_E_NOMEM;
    t->grow_at = rows_of_size(buckets, number);
    SHOAL_ASSERT(t->grow_at > t->row_count && t->grow_at < buckets * BUCKET_KEYS);
    return 0;
}

/* Without memory for it the tablet is slow but correct, and the next far insert retries. */
static void index_salt(struct tablet *t, const struct tablet_shape *s)
{
    uint64_t salt = salt_draw();
    SHOAL_ASSERT(t->salt == 0);
    if (salt != 0)
        (void)index_renew(t, s, t->bucket_count, salt);
}

int tablet_reserve(struct tablet *t, const struct tablet_shape *s, uint32_t number, uint32_t rows)
{
    uint64_t buckets = t->bucket_count;
    uint32_t room = t->grow_at;
    while (room < rows && buckets <= UINT32_MAX) {
        buckets = next_size(buckets);
        room = rows_of_size(buckets, number);
    }
    SHOAL_ASSERT(buckets >= t->bucket_count && room >= t->row_count);

    if (buckets == t->bucket_count)
        return 0;

    return index_resize(t, s, number, buckets);
}

/* ---- rows ---- */

static int page_add(struct tablet *t, const struct tablet_shape *s)
{
    SHOAL_ASSERT(t->row_count == (uint64_t)t->page_count * s->page_rows); /* all pages are full */
    if (t->page_count == t->page_room) {
        uint32_t room = 4;
        if (t->page_room != 0)
            room = t->page_room + t->page_room / 2;
        uint32_t *pages = realloc(t->pages, room * sizeof *pages);
        if (pages == NULL)
            return SHOAL_E_NOMEM;
        t->pages = pages;
        t->page_room = room;
    }
    uint32_t unit = page_take(s);
    if (unit == ARENA_NONE)
        return SHOAL_E_NOMEM;
    if (((uint64_t)unit + 1) << s->place_bits > UINT32_MAX) {
        /* beyond the range of a row reference */
        page_give(s, unit);
        return SHOAL_E_NOMEM;
    }
    SHOAL_ASSERT(t->page_count < t->page_room);
    t->pages[t->page_count++] = unit;
    return 0;
}

float *tablet_insert(struct tablet *t, const struct tablet_shape *s, uint32_t number, uint64_t key)
{
    return tablet_insert_noted(t, s, number, key, NOTES_NEW);
}

float *tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                           uint64_t key, uint32_t notes)
{
    SHOAL_VERIFY_ASSERT(tablet_find(t, s, key) == NULL);
    if (t->row_count >= t->grow_at && index_resize(t, s, number, next_size(t->bucket_count)) != 0)
        return NULL;
    uint32_t place = t->row_count % s->page_rows;
    if (place == 0 && t->row_count / s->page_rows == t->page_count && page_add(t, s) != 0)
        return NULL;
    uint32_t row = (t->pages[t->row_count / s->page_rows] << s->place_bits) | place;
    uint32_t looked = index_put(t, s->tablet_bits, key, row, notes);
    t->row_count++;
    SHOAL_ASSERT(t->row_count <= t->grow_at);
    if (__builtin_expect(looked > BUCKETS_FAR, 0) && t->salt == 0)
        index_salt(t, s);
    return row_at(s, row);
}

void tablet_clear(struct tablet *t, const struct tablet_shape *s)
{
    SHOAL_ASSERT(t->row_count <= (uint64_t)t->page_count * s->page_rows);
    index_give(s, t->buckets, t->bucket_count, t->index_unit);
    for (uint32_t i = 0; i < t->page_count; i++)
        page_give(s, t->pages[i]);
    free(t->pages);
    undo_free(t->undo);
    life_free(t->life);
    cold_free(t->cold, s);
    tablet_init(t);
}
