/* tablet.h: the basic unit: an index of keys over rows in pages of an arena.
 *
 * The index is open addressing over buckets of one cache line: five whole keys, their five row
 * references, a count. An index line settles hit or miss without a look at the row, and a row of 16
 * floats with 16 of state lies in exactly two lines. The home bucket is the mixed key's bits below
 * the tablet's, scaled to the bucket count: any count works, the order of mixed keys is the order
 * in memory, and a batch sorted by mixed key passes through the index forward. A full bucket
 * overflows into the next one. Rows are never removed one by one (table_keep rebuilds a tablet
 * without them), so the first bucket with room ends a search.
 *
 * Keys can be crafted to share a home. An insert that passes more buckets than random keys ever
 * need draws a salt for the tablet (proto/base/salt.h) and rebuilds its index with it: only this
 * tablet loses the order. An index is salted at most once between two growths, which draw a new
 * salt.
 *
 * A row reference is its page's unit number and its place in the page. Pages never move; growing
 * rebuilds only the index. Beside a row's reference the bucket notes how often it was used, which
 * decides the rows that make room (cold.h). Each tablet grows at a load of its own (0.66 to 0.86),
 * so that they do not all grow at once. Thread: the shard's.
 *
 * 1. `taken` of a table's shape is the sum of tablet_taken over its tablets: pages are counted as
 *    they are taken and given, so that the share of a table in the arena is known without a walk.
 *    [assert: page_give, tablet_block_give, table_free]
 *    [test: what_a_table_has_of_the_arena_is_known] */
#ifndef EMBEDDING_ROWS_TABLET_H
#define EMBEDDING_ROWS_TABLET_H

#include "embedding/rows/arena_inner.h"
#include "embedding/rows/undo.h"
#include "proto/base/hash.h"
#include "proto/base/isa.h"
#include "proto/base/key.h"
#include "proto/base/salt.h"

#include <stddef.h>
#include <stdint.h>

#define BUCKET_KEYS 5u

struct tablet_life; /* life.h */
struct cold;        /* cold.h */

struct bucket {
    uint64_t key[BUCKET_KEYS];
    uint32_t row[BUCKET_KEYS]; /* row references */
    /* places in use, from the first; below, bits for each place that cold.h uses: */
    uint32_t count : 3;
    uint32_t stored : 5; /* the store has the row unchanged */
    uint32_t chosen : 5; /* it leaves with the batch that is being written */
    uint32_t asked : 5;  /* it was pulled and awaits its push */
    uint32_t heat : 10;  /* two bits for each place: how often it was used */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct bucket) == 64, "a bucket is a cache line");

/* Shared by all tablets of a table. A row here is weights then state as they are stored, `floats`
 * places of 4 bytes in all (schema_row_floats); its key is in the index. */
struct tablet_shape {
    struct arena *arena; /* borrowed */
    uint64_t *taken;     /* borrowed; bytes of the arena that the table's tablets have */
    uint32_t tablet_bits;
    uint32_t floats;
    uint32_t row_bytes;  /* 4 x floats */
    uint32_t page_rows;  /* rows of a page */
    uint32_t page_units; /* arena units of a page */
    uint32_t place_bits; /* bits of the place in a row reference */
};

struct tablet {
    struct bucket *buckets; /* owned, or the shared empty bucket */
    uint32_t bucket_count;
    uint32_t row_count;
    uint64_t salt;       /* salt of the homes; 0: none */
    uint32_t grow_at;    /* number of rows at which the next insert grows the index */
    uint32_t index_unit; /* first unit of the index, if it is in the arena */
    uint32_t *pages;     /* owned; (page_count): first units */
    uint32_t page_count;
    uint32_t page_room;
    /* batches of all lanes, counted by its pushes, for l2 (push.c); part of the image */
    uint64_t batches;
    struct undo *undo;        /* owned; NULL before the first save */
    struct tablet_life *life; /* owned; NULL while it has only rows */
    struct cold *cold;        /* owned; NULL while no row was ever cold */
};

void tablet_shape_init(struct tablet_shape *s, struct arena *arena, uint64_t *taken,
                       uint32_t tablet_bits, uint32_t floats);
/* A block of the arena (arena_block_take), which counts as taken by the table. */
void *tablet_block_take(const struct tablet_shape *s, size_t bytes, uint32_t *unit);
void tablet_block_give(const struct tablet_shape *s, void *block, size_t bytes, uint32_t unit);
/* Makes an empty tablet, which takes no memory before the first insert. */
void tablet_init(struct tablet *t);
/* Bytes of the arena in its pages, its index and its set of cold keys. */
uint64_t tablet_taken(const struct tablet *t, const struct tablet_shape *s);
/* Frees everything and leaves an empty tablet. */
void tablet_clear(struct tablet *t, const struct tablet_shape *s);
/* A place for an absent key's row, not filled; NULL: no memory, and the tablet is unchanged.
 * `number`: the tablet's, for its load. */
float *tablet_insert(struct tablet *t, const struct tablet_shape *s, uint32_t number, uint64_t key);
/* tablet_insert with the row's notes (bucket_notes). */
float *tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                           uint64_t key, uint32_t notes);
/* Makes the index large enough for `rows` rows. 0 or SHOAL_E_NOMEM. */
int tablet_reserve(struct tablet *t, const struct tablet_shape *s, uint32_t number, uint32_t rows);

ISA_INLINE struct bucket *tablet_home(const struct tablet *t, uint32_t tablet_bits, uint64_t mixed)
{
    uint64_t place = mixed << tablet_bits;
    if (__builtin_expect(t->salt != 0, 0))
        place = salt_mix(t->salt, mixed);
    return t->buckets + (((place >> 32) * t->bucket_count) >> 32);
}

ISA_INLINE float *row_at(const struct tablet_shape *s, uint32_t reference)
{
    uint32_t unit = reference >> s->place_bits, place = reference & ((1u << s->place_bits) - 1);
    return (float *)((char *)arena_address(s->arena, unit) + (size_t)place * s->row_bytes);
}

/* The place of a key in the bucket as a bit; 0: it is not there. No branch, because the place is
 * unpredictable. */
ISA_INLINE uint32_t bucket_match(const struct bucket *b, uint64_t key)
{
    uint32_t match = (uint32_t)(b->key[0] == key) | (uint32_t)(b->key[1] == key) << 1 |
                     (uint32_t)(b->key[2] == key) << 2 | (uint32_t)(b->key[3] == key) << 3 |
                     (uint32_t)(b->key[4] == key) << 4;
    return match & ((1u << b->count) - 1);
}

/* ---- notes about a row in its bucket ---- */
#define HEAT_FULL 3u
#define HEATS_ALL 0x3ffu
#define PLACES_ALL 0x1fu
#define NOTES_CHOSEN 4u /* in addition to the heat */
#define NOTES_STORED 8u
#define NOTES_ASKED 16u
#define NOTES_NEW 0u
#define NOTES_FETCHED NOTES_STORED /* its waiter asks as soon as it is notified (engine_warm) */
#define NOTES_THAWED 0u            /* no request for it; another store may have it */

ISA_INLINE uint32_t bucket_notes(const struct bucket *b, uint32_t place)
{
    return (b->heat >> 2 * place & HEAT_FULL) | (b->chosen >> place & 1u) << 2 |
           (b->stored >> place & 1u) << 3 | (b->asked >> place & 1u) << 4;
}

ISA_INLINE void bucket_note(struct bucket *b, uint32_t place, uint32_t notes)
{
    uint32_t bit = 1u << place;
    b->heat =
        ((b->heat & ~(HEAT_FULL << 2 * place)) | (notes & HEAT_FULL) << 2 * place) & HEATS_ALL;
    b->chosen = ((b->chosen & ~bit) | (notes >> 2 & 1u) << place) & PLACES_ALL;
    b->stored = ((b->stored & ~bit) | (notes >> 3 & 1u) << place) & PLACES_ALL;
    b->asked = ((b->asked & ~bit) | (notes >> 4 & 1u) << place) & PLACES_ALL;
}

/* A pull and the push that answers it are one use, and so is a push alone. In long tails frequent
 * rows are worth more than recent ones: Einziger, Friedman and Manes, "TinyLFU" (2017), count in
 * this way for caches. */
ISA_INLINE void bucket_used(struct bucket *b, uint32_t place)
{
    if ((b->heat >> 2 * place & HEAT_FULL) != HEAT_FULL)
        b->heat = (b->heat + (1u << 2 * place)) & HEATS_ALL;
}

/* Actions of a search on the place that it found: a reader leaves it, or notes the use; a writer
 * notes the change. Writes only if a bit changes, because the line may be shared. */
ISA_INLINE void bucket_leave(struct bucket *b, uint32_t place)
{
    (void)b, (void)place;
}
ISA_INLINE void bucket_seen(struct bucket *b, uint32_t place)
{
    uint32_t bit = 1u << place;
    if (__builtin_expect((b->asked & ~b->chosen & bit) != 0, 1))
        return;
    if ((b->asked & bit) == 0)
        bucket_used(b, place);
    b->asked = (b->asked | bit) & PLACES_ALL;
    b->chosen = b->chosen & ~bit & PLACES_ALL;
}
ISA_INLINE void bucket_changed(struct bucket *b, uint32_t place)
{
    uint32_t bit = 1u << place;
    if ((b->asked & bit) == 0)
        bucket_used(b, place);
    if (((b->asked | b->chosen | b->stored) & bit) == 0)
        return;
    b->asked = b->asked & ~bit & PLACES_ALL;
    b->chosen = b->chosen & ~bit & PLACES_ALL;
    b->stored = b->stored & ~bit & PLACES_ALL;
}

/* Sets `out` to the key's row, searched from its home bucket on, or leaves it unchanged. A macro,
 * because each walk compiles `match` for another level. */
#define TABLET_SEARCH(out, tablet, shape, home, key, match, touch)                                 \
    for (struct bucket *b_ = (home);;) {                                                           \
        uint32_t match_ = match(b_, (key));                                                        \
        if (__builtin_expect(match_ != 0, 1)) {                                                    \
            uint32_t place_ = (uint32_t)__builtin_ctz(match_);                                     \
            touch(b_, place_);                                                                     \
            (out) = row_at((shape), b_->row[place_]);                                              \
            break;                                                                                 \
        }                                                                                          \
        if (b_->count < BUCKET_KEYS)                                                               \
            break;                                                                                 \
        if (++b_ == (tablet)->buckets + (tablet)->bucket_count)                                    \
            b_ = (tablet)->buckets;                                                                \
    }

static inline float *tablet_find(const struct tablet *t, const struct tablet_shape *s, uint64_t key)
{
    float *row = NULL;
    TABLET_SEARCH(row, t, s, tablet_home(t, s->tablet_bits, key_mix(key)), key, bucket_match,
                  bucket_leave);
    return row;
}

#endif
