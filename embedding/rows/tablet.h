/* tablet.h: the unit of everything: an index of keys over rows in pages of an arena.
 *
 * The index is open addressing over buckets of one cache line: five whole keys, their five row
 * references, a count. So an index line settles hit or miss without a look at the row, and a row of
 * 16 floats with 16 of state lies in exactly two lines. The home bucket is the mixed key's bits
 * below the tablet's, scaled to the bucket count: any count will do, order of mixed keys is order
 * in memory, and a batch sorted by mixed key walks the index forward. A full bucket runs over into
 * the next; rows are never removed one by one (a tablet is built anew without them: table_keep), so
 * the first bucket with room ends a search.
 *
 * Keys can be made that share a home. The insert that walks further than keys ever do by chance
 * draws the tablet a salt (proto/base/salt.h) and builds its index anew by it: that order is lost
 * in this tablet alone. An index is salted at most once between two growths, which draw again.
 *
 * A row reference is its page's unit number and its place in the page; pages never move, growing
 * rebuilds the index alone. Beside a row's reference the bucket notes how often it was used: who
 * has to make room (cold.h) reads it there. Each tablet grows at a load of its own (0.66 to 0.86),
 * so that they do not all grow at once. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_TABLET_H
#define EMBEDDING_ROWS_TABLET_H

#include "embedding/rows/arena_inner.h"
#include "embedding/rows/optimizer/isa.h"
#include "embedding/rows/undo.h"
#include "proto/base/hash.h"
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
    /* places in use, from the first; below, a bit a place, for who makes room (cold.h): */
    uint32_t count : 3;
    uint32_t stored : 5; /* the store has the row as it is */
    uint32_t chosen : 5; /* it is to leave with the batch that is being written */
    uint32_t asked : 5;  /* it was pulled, and its push has not come yet */
    uint32_t heat : 10;  /* two bits a place: how often it was used */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct bucket) == 64, "a bucket is a cache line");

/* What all tablets of a table share. A row here is weights then state as they are stored, `floats`
 * places of 4 bytes in all (schema_row_floats); its key is in the index. */
struct tablet_shape {
    struct arena *arena; /* borrowed */
    uint32_t tablet_bits;
    uint32_t floats;
    uint32_t row_bytes;  /* 4 x floats */
    uint32_t page_rows;  /* rows of a page */
    uint32_t page_units; /* arena units of a page */
    uint32_t place_bits; /* of a row reference */
};

struct tablet {
    struct bucket *buckets; /* owned, or the shared empty bucket */
    uint32_t bucket_count;
    uint32_t row_count;
    uint64_t salt;       /* of homes; 0: none, nobody has aimed at it */
    uint32_t grow_at;    /* rows at which the index grows before the next insert */
    uint32_t index_unit; /* where the index lies, if in the arena's units */
    uint32_t *pages;     /* owned; (page_count), first units */
    uint32_t page_count;
    uint32_t page_room;
    /* of all lanes, that its pushes stood for: what l2 counts by (push.c); part of the image */
    uint64_t batches;
    struct undo *undo;        /* owned; NULL before the first save */
    struct tablet_life *life; /* owned; NULL while there is nothing beside rows */
    struct cold *cold;        /* owned; NULL while all rows have been in memory */
};

void tablet_shape_init(struct tablet_shape *s, struct arena *arena, uint32_t tablet_bits,
                       uint32_t floats);
/* An empty tablet; takes no memory until the first insert. */
void tablet_init(struct tablet *t);
/* Gives everything back and leaves an empty tablet. */
void tablet_clear(struct tablet *t, const struct tablet_shape *s);
/* A place for an absent key's row, not yet filled; NULL when memory is out (the tablet is as
 * before). `number`: the tablet's, for its load. */
float *tablet_insert(struct tablet *t, const struct tablet_shape *s, uint32_t number, uint64_t key);
/* The same with the row's notes (bucket_notes). */
float *tablet_insert_noted(struct tablet *t, const struct tablet_shape *s, uint32_t number,
                           uint64_t key, uint32_t notes);
/* Makes the index large enough for `rows` rows before they come. 0 or SHOAL_E_NOMEM. */
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

/* Which place of the bucket holds the key, as a bit; 0 when none. No branch: where in a bucket a
 * key lies is not predictable. */
ISA_INLINE uint32_t bucket_match(const struct bucket *b, uint64_t key)
{
    uint32_t match = (uint32_t)(b->key[0] == key) | (uint32_t)(b->key[1] == key) << 1 |
                     (uint32_t)(b->key[2] == key) << 2 | (uint32_t)(b->key[3] == key) << 3 |
                     (uint32_t)(b->key[4] == key) << 4;
    return match & ((1u << b->count) - 1);
}

/* ---- what a bucket notes of a row, beside its reference ---- */
#define HEAT_FULL 3u
#define HEATS_ALL 0x3ffu
#define PLACES_ALL 0x1fu
#define NOTES_CHOSEN 4u /* beside the heat */
#define NOTES_STORED 8u
#define NOTES_ASKED 16u
#define NOTES_NEW 0u
#define NOTES_FETCHED NOTES_STORED /* who waits for it asks as soon as it is told (engine_warm) */
#define NOTES_THAWED 0u            /* nobody asked for it, and the store may be another's */

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

/* A pull and the push that answers it are one use; so is a push alone. In long tails rows that are
 * used often are worth more than those that were used last: Einziger, Friedman and Manes, "TinyLFU"
 * (2017), count so for caches. */
ISA_INLINE void bucket_used(struct bucket *b, uint32_t place)
{
    if ((b->heat >> 2 * place & HEAT_FULL) != HEAT_FULL)
        b->heat = (b->heat + (1u << 2 * place)) & HEATS_ALL;
}

/* What a search does with the place it found: a reader leaves it, or has seen it; a writer has
 * changed it. Written only when there is something to write, for the line may be shared. */
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

/* Sets out to the key's, searched from its home bucket on, or leaves it. A macro, for match is
 * compiled for another level in each walk. */
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
