/* table.h: one table's rows on one shard: tablets, each a small hash table of keys and row numbers
 * over pages of an arena.
 *
 * A row as table_row and table_visit show it (little-endian, 8-byte aligned, table_row_bytes long):
 * key u64 | weights (width; f32, or of 16 bits padded to 4 bytes: schema.values) | state f32
 * (schema_state_floats). These are the bits that are stored: digests and images go by them;
 * table_row_weights gives the weights as floats. What is pulled and pushed is f32 always (half.h).
 * In memory the key lies in the index (tablet.h), which saves a cache line a pull. Pulls never
 * write. A push creates absent rows from their initial value, a function of (seed, key). Where the
 * schema's rules say so (struct row_rules, proto/job/schema.h) a key is let in later or never,
 * rows have statistics behind their state (struct row_stats), and go by themselves: files rules.h,
 * admit.h, age.h, in the order of their use. Thread: the shard's; nothing here locks. Memory: pages
 * come from the shard's arena (2 MiB aligned chunks, MADV_HUGEPAGE).
 *
 * Undo (bsp): a worker that died between its pushes to two shards has its batch computed again from
 * the rows before that clock. So under bsp a tablet keeps, for its last clock, the weights its rows
 * had before it; table_pull_before reads through them. The undo is part of the tablet: it is in the
 * image, and replay rebuilds it. A row that goes has its weights there too: those are freed by the
 * first push of a later clock, to whichever tablet, since then every lane has done with this
 * one. */
#ifndef EMBEDDING_TABLE_H
#define EMBEDDING_TABLE_H

#include "embedding/arena.h"
#include "proto/base/err.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table;

int table_new(const struct table_schema *schema, struct arena *arena, struct table **out,
              struct err *e);
void table_free(struct table *t);
const struct table_schema *table_schema_of(const struct table *t);
/* Of the last change of its schema: the record's sequence, 0: there was none; and the digest of the
 * schema before, of which images may still be. */
struct table_past {
    uint64_t sequence, digest;
};
const struct table_past *table_past(const struct table *t);
void table_past_set(struct table *t, const struct table_past *past); /* as it is stored */
/* `schema` takes the place of its own, as record `sequence` says: schema_change has let it through,
 * and what it calls SCHEMA_AGES the caller (table_cold_was). What tablets keep beside their rows
 * goes on as far as the new schema has it: the clock where it ages, counts of keys that wait where
 * it lets some in, each generation that it has room for, a sketch of as many cells. Undo goes. */
void table_change(struct table *t, const struct table_schema *schema, uint64_t sequence);
/* in memory and in the store (cold.h), those among the latter that have aged unnoticed too */
uint64_t table_rows(const struct table *t);
uint64_t table_row_bytes(const struct table *t); /* of a row as laid out above */
/* Bytes of its arena in which its rows have names (tablet.h): no more come once that is full. */
uint64_t table_reach(const struct table *t);

/* What became of keys and rows since the table was made here, what recovery repeated among it; no
 * part of the state. */
struct table_counts {
    uint64_t not_admitted; /* appearances of keys that got no row */
    uint64_t admitted;     /* keys that got one after rules other than ADMIT_ALL, or by name */
    uint64_t aged;         /* rows that went with too low a score */
    uint64_t expired;      /* rows that went without a push for too long */
    uint64_t evicted;      /* rows that went for lack of room */
    uint64_t blocked;      /* gradients of keys blocked by name */
    uint64_t clipped;      /* gradients scaled down to norm_max */
    uint64_t waiting;      /* keys that wait for a row now */
    uint64_t beside_bytes; /* memory beside the arena: waiting keys, sketches, names, undo */
};
void table_counts_get(const struct table *t, struct table_counts *out);
/* Rows that are in the store and not in memory. */
uint64_t table_cold_rows(const struct table *t);

/* keys (count), sorted by key_mix (any order is right, sorted is fast); rows out (count, width).
 * Absent keys: their initial value; zeros where someone else than the first push decides about the
 * row (schema_absent_zero), or the key is blocked. */
void table_pull(const struct table *t, const uint64_t *keys, size_t count, float *rows);
/* The same for a reader that scores: of a sparse table an absent key gives negative zeros
 * (TABLE_ABSENT), which tell it from a row. Its initial value is noise without any training, and
 * an export has none of it. */
#define TABLE_ABSENT (-0.0f)
void table_pull_rows(const struct table *t, const uint64_t *keys, size_t count, float *rows);
/* The name under which a bsp push of `run` keeps undo, and a pull reads through it: clocks of two
 * runs must not be taken for each other, and a tablet may lie untouched from one run to the next.
 * Never 0. */
uint64_t table_undo_clock(uint64_t run, uint64_t clock);
/* The run is over: nobody asks for what was before its clocks any more. */
void table_undo_drop(struct table *t, uint64_t run);
/* The same as table_pull, as the rows were before `clock` (of table_undo_clock; 0: as they are) was
 * applied (see Undo). */
void table_pull_before(const struct table *t, const uint64_t *keys, size_t count, uint64_t clock,
                       float *rows);

struct push_args {
    float lr_scale;
    uint64_t batch; /* the lane's batch that the gradients are of */
    /* batches of the lane that the push stands for in each tablet: `to` less the mark before it */
    uint64_t step;
    const uint32_t *steps; /* NULL; or (2^tablet_bits): the same where the tablets differ */
    /* bsp: keep undo for this clock, of table_undo_clock (another one than the tablet's drops the
     * old undo); 0: none */
    uint64_t undo_clock;
    uint32_t event_time;                 /* of the batch: what ageing goes by; 0: not known */
    uint32_t lane;                       /* with batch: what chance goes by */
    uint32_t tablet_first, tablet_count; /* tablets that the push covers, with keys or without */
    /* NULL: every tablet takes it; else take[tablet] (2^tablet_bits) says which */
    const uint8_t *take;
};
/* Applies gradients (count, schema_push_floats) to rows of keys (count), in order. First the
 * tablets that take the push age, if it takes their clocks so far; last those that are too full
 * drop rows. Deterministic: a function of rows, schema and arguments, bit for bit, at every vector
 * width. The caller has checked them (table_gradients_ok). 0, or SHOAL_E_NOMEM with the table as
 * far as it got (the shard then dies: recovery repeats it). */
int table_push(struct table *t, const uint64_t *keys, const float *gradients, size_t count,
               const struct push_args *args);
/* Whether all `count` floats are finite and within LIMIT_GRADIENT. */
bool table_gradients_ok(const float *gradients, size_t count);
/* Whether the statistics among what `count` keys push are: 0 <= clicks <= shows. True for a table
 * without. */
bool table_stats_ok(const struct table_schema *schema, const float *gradients, size_t count);

/* Keys by name. ERASE: the row goes and the key is blocked; BLOCK: no row is made for it; ALLOW: a
 * row whatever the admission says; RESET: neither any more. Or by what they stand for, each for all
 * keys of its field in its tablet: FRESH: their rows go, and what was counted of those that wait
 * for one; names stay; DROP: names too, as if the field had never been. A sketch's cells are shared
 * and stay: the very keys that it counted may have a row sooner, until its generations have turned.
 */
enum key_action {
    KEY_ERASE = 0,
    KEY_BLOCK = 1,
    KEY_ALLOW = 2,
    KEY_RESET = 3,
    KEY_FRESH = 4,
    KEY_DROP = 5
};
/* keys (count) in any order; take (2^tablet_bits): only those of tablets with take[tablet], NULL:
 * all. *changed: keys that had another name before; of FRESH and DROP: rows that went. 0, or
 * SHOAL_E_NOMEM with the table as far as it got. */
int table_keys(struct table *t, enum key_action action, const uint64_t *keys, size_t count,
               const uint8_t *take, uint64_t *changed);
/* A set of fields: LIMIT_FIELDS bits. */
static inline bool table_fields_have(const uint64_t *fields, uint64_t key)
{
    uint32_t field = key_field(key);
    return field < LIMIT_FIELDS && (fields[field / 64] >> (field % 64) & 1) != 0;
}
/* For FRESH or DROP: a key of each of the fields that the tablet knows any of, as a row, as one
 * that waits or by name, to keys (LIMIT_FIELDS). 0 or SHOAL_E_NOMEM. */
int table_keys_of(const struct table *t, uint32_t tablet, const uint64_t *fields, uint64_t *keys,
                  uint32_t *count);
/* Whether there is room for so many more names in every tablet. */
bool table_keys_fit(const struct table *t, size_t count);

/* One row that is in memory, or NULL: key, weights and state as laid out above; put together in a
 * buffer of the table's, valid until its next call. */
const void *table_row(const struct table *t, uint64_t key);
/* Of such a row: its weights as floats (width), and its state (schema_state_floats), in place. */
void table_row_weights(const struct table_schema *s, const void *row, float *weights);
const float *table_row_state(const struct table_schema *s, const void *row);
/* Whether all numbers of a tablet's rows are finite: weights, optimizer's state, statistics; *bad
 * is the key of one that are not. */
bool table_finite(const struct table *t, uint32_t tablet, uint64_t *bad);
/* XXH3 over one tablet's rows in memory sorted by key (undo not counted; of all its rows:
 * engine_whole); 0 for an empty one. SHOAL_E_NOMEM is possible. */
int table_digest(const struct table *t, uint32_t tablet, uint64_t *out);

/* Image: a tablet as one value: header (magic, version, schema digest, counts, clock), rows, undo,
 * who waits, names, XXH3 of all that. */
size_t table_image_bytes(const struct table *t, uint32_t tablet);
/* table_image_bytes long; a plain copy, under 1 ms for 4 MiB */
void table_image_write(const struct table *t, uint32_t tablet, void *out);
/* Replaces the tablet's content. Checks every length and the checksum before it believes: CORRUPT,
 * CHECKSUM or SCHEMA with the reason. */
int table_image_read(struct table *t, uint32_t tablet, const void *image, size_t bytes,
                     struct err *e);
void table_clear(struct table *t, uint32_t tablet);
uint64_t table_tablet_rows(const struct table *t, uint32_t tablet); /* as table_rows */
/* bytes of its pages, its index and its set of cold keys */
uint64_t table_tablet_memory(const struct table *t, uint32_t tablet);
/* Calls visit for each row of a tablet that is in memory, in no order; for inspection tools. */
void table_visit(const struct table *t, uint32_t tablet,
                 void (*visit)(void *context, const void *row), void *context);

#endif
