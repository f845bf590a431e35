/* table.h: one table's rows on one shard: tablets, each a small hash table of keys and row numbers
 * over pages of an arena.
 *
 * A row as table_row and table_visit show it is little-endian, 8-byte aligned and table_row_bytes
 * long: key u64 | weights (width; f32, or of 16 bits padded to 4 bytes: schema.values) | state f32
 * (schema_state_floats). These are the stored bits, which digests and images cover;
 * table_row_weights gives the weights as floats. Pulled and pushed values are always f32 (half.h).
 * In memory the key is in the index (tablet.h), which saves a cache line for each pull.
 *
 * Pulls never write. A push creates absent rows with their initial value, a function of (seed,
 * key). If the schema has rules (struct row_rules, proto/job/schema.h), a key gets its row later or
 * never, rows have statistics behind their state (struct row_stats), and rows expire: see rules.h,
 * admit.h and age.h, in the order of their use. Thread: the shard's; there are no locks. Memory:
 * pages come from the shard's arena (2 MiB aligned chunks, MADV_HUGEPAGE).
 *
 * Undo (bsp): if a worker dies between its pushes to two shards, its batch is computed again from
 * the rows before that clock. Under bsp a tablet therefore keeps, for its last clock, the weights
 * that its rows had before it; table_pull_as reads through them. The undo is part of the
 * tablet: the image has it, and replay rebuilds it. It also has the weights of a row that was
 * removed; these are freed by the first push of a later clock to any tablet, because by then every
 * lane has finished the earlier clock. */
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
/* The last change of the table's schema: the sequence of its record (0: there was none), and the
 * digest of the schema before it, because images may still be of that schema. */
struct table_past {
    uint64_t sequence, digest;
};
const struct table_past *table_past(const struct table *t);
void table_past_set(struct table *t, const struct table_past *past); /* sets it to a stored value */
/* Replaces the table's schema, as record `sequence` says. schema_change has allowed it, and the
 * caller has checked the case SCHEMA_AGES (table_cold_was). Data of tablets beside their rows stays
 * as far as the new schema has it: the clock if the table ages, each generation of waiting keys
 * that fits, a sketch with the same number of cells. Undo is dropped. */
void table_change(struct table *t, const struct table_schema *schema, uint64_t sequence);
/* rows in memory and in the store (cold.h), with expired rows in the store that are not yet
 * removed */
uint64_t table_rows(const struct table *t);
uint64_t table_row_bytes(const struct table *t); /* bytes of a row in the layout above */
/* Bytes of the arena in the pages, indexes and sets of cold keys of its tablets. */
uint64_t table_taken(const struct table *t);
/* Bytes of the arena that row references can address (tablet.h): beyond them the table cannot
 * grow. */
uint64_t table_reach(const struct table *t);

/* Counts of keys and rows since the table was made in this process, with those that recovery
 * repeated; they are not part of the state. */
struct table_counts {
    uint64_t not_admitted; /* occurrences of keys that got no row */
    uint64_t admitted;     /* keys that got a row by a rule other than ADMIT_ALL, or by name */
    uint64_t aged;         /* rows removed because their score was too low */
    uint64_t expired;      /* rows removed because their last push was too long ago */
    uint64_t evicted;      /* rows removed for lack of room */
    uint64_t blocked;      /* gradients of keys blocked by name */
    uint64_t clipped;      /* gradients scaled down to norm_max */
    uint64_t waiting;      /* keys that wait for a row now */
    uint64_t beside_bytes; /* memory beside the arena: waiting keys, sketches, names, undo */
};
void table_counts_get(const struct table *t, struct table_counts *out);
/* Rows that are in the store and not in memory. */
uint64_t table_cold_rows(const struct table *t);

/* keys (count), sorted by key_mix (any order is correct, sorted is fast); rows: the output (count,
 * width). An absent key gets its initial value, or zeros if it is blocked, or if its first push
 * would not by itself create the row (schema_absent_zero). */
void table_pull(const struct table *t, const uint64_t *keys, size_t count, float *rows);

struct pull_args {
    /* form of the output: fp32; the table's, which loses nothing; or, of an fp32 table, any: each
     * weight becomes the nearest value */
    enum value_kind values;
    /* The pull is of a reader that scores: an absent key of a sparse table gets negative zeros
     * (TABLE_ABSENT), which distinguish it from a row. Its initial value would be untrained noise,
     * and an export does not have it. */
    bool reader;
    /* The rows are those before this clock of table_undo_clock was applied (see Undo); 0: the rows
     * as they are */
    uint64_t before;
};
#define TABLE_ABSENT (-0.0f)
/* As table_pull; rows (count, width) are of args->values. */
void table_pull_as(const struct table *t, const struct pull_args *args, const uint64_t *keys,
                   size_t count, void *rows);
/* As table_assign takes rows with ASSIGN_STATE: weights, as floats, and state without statistics.
 * rows: the output (count, table_assign_floats). The row of an absent key is all TABLE_ABSENT. The
 * rows are in memory. */
void table_pull_state(const struct table *t, const uint64_t *keys, size_t count, float *rows);
/* The name of a bsp clock of `run`, under which a push keeps undo and a pull reads it: clocks of
 * two runs must differ, because a tablet may be unchanged from one run to the next. Never 0. */
uint64_t table_undo_clock(uint64_t run, uint64_t clock);
/* Drops the undo of a run that is over. */
void table_undo_drop(struct table *t, uint64_t run);

struct push_args {
    float lr_scale;
    uint64_t batch; /* the lane's batch of these gradients */
    /* batches of the lane that the push stands for in each tablet: `to` less the mark before it */
    uint64_t step;
    const uint32_t *steps; /* NULL; or (2^tablet_bits): the same by tablet, where tablets differ */
    /* bsp: keep undo for this clock of table_undo_clock; a clock other than the tablet's drops its
     * old undo. 0: keep none */
    uint64_t undo_clock;
    uint32_t width;                      /* width of the gradients, enum packed_width */
    uint32_t event_time;                 /* the batch's, for ageing; 0: not known */
    uint32_t age;                        /* age of the gradients, in steps of the table */
    uint32_t lane;                       /* with `batch` it seeds random choices */
    uint32_t tablet_first, tablet_count; /* covered tablets, with keys or without */
    /* NULL: every covered tablet takes it; else take[tablet] (2^tablet_bits) is set for those that
     * do */
    const uint8_t *take;
};
/* Applies gradients (count, packed_bytes) to the rows of keys (count), in order. Before that
 * the tablets that take the push age if it moves their clocks far enough; after it tablets that are
 * too full drop rows. Deterministic: the result depends only on rows, schema and arguments, bit for
 * bit, at every vector width. The caller has checked the arguments (gradient.h). 0, or
 * SHOAL_E_NOMEM with the table partly changed (the shard then exits, and recovery repeats the
 * push). */
int table_push(struct table *t, const uint64_t *keys, const void *gradients, size_t count,
               const struct push_args *args);
/* The weights (width) of a row as a table_push of this gradient (width, fp32) alone would leave
 * them, with the same bits; the table stays as it is. For tables of fp32 without rules and without
 * ageing, whose tablets take one batch with each push. Uses buffers of the table. */
void table_preview(struct table *t, uint64_t key, const float *gradient, float lr_scale,
                   float *weights);
/* True when the statistics of `count` keys behind their gradients of this width (packed.h) are
 * valid: 0 <= clicks <= shows <= LIMIT_GRADIENT. Always true for a table without statistics. */
bool table_stats_ok(const struct table_schema *schema, uint32_t width, const void *gradients,
                    size_t count);

/* Rows that are assigned by key: each takes the place of the key's row as if it had just been made
 * with these numbers, whatever the table's admission says. As given (table_assign_floats), fp32:
 * the weights (width); with ASSIGN_STATE the state without statistics, else the optimizer's begins
 * anew; with ASSIGN_STATS struct row_stats, else shows and clicks are 0, the time is the tablet's
 * clock and the row has its vector. Weights of fp16 and bf16 are rounded to the nearest, ties to
 * even, which loses nothing of weights that such a table has exported. */
#define ASSIGN_STATE 2u
#define ASSIGN_STATS 4u
#define ASSIGN_KEEP 8u /* a key that has a row keeps it */
struct assign_args {
    uint32_t parts;                      /* ASSIGN_* */
    uint32_t tablet_first, tablet_count; /* tablets of the keys */
    const uint8_t *take;                 /* NULL; or as in push_args */
};
struct assign_counts { /* keys */
    uint64_t made, replaced, kept;
    uint64_t blocked; /* by name: they have no row, or the row that they had */
};
uint32_t table_assign_floats(const struct table_schema *s, uint32_t parts);
/* True when the rows (count, table_assign_floats) can be stored as they are: all numbers finite,
 * weights within LIMIT_GRADIENT, weight_max and the largest number of schema.values, 0 <= clicks <=
 * shows. Otherwise *bad is the index of the first that cannot, and *why says what it is.
 * ASSIGN_STATS of a table without statistics: false, *bad 0. */
bool table_assign_ok(const struct table_schema *s, uint32_t parts, const float *rows, size_t count,
                     size_t *bad, const char **why);
/* Assigns the rows of keys (count), in order; they are in memory or new. A tablet that is then too
 * full drops rows as after a push. *counts is added to. The effect on a tablet depends on it and
 * the arguments alone, bit for bit. 0, or SHOAL_E_NOMEM as table_push. */
int table_assign(struct table *t, const uint64_t *keys, const float *rows, size_t count,
                 const struct assign_args *args, struct assign_counts *counts);

/* Actions on keys. By name, ERASE removes the row and blocks the key; BLOCK: no row is made for the
 * key; ALLOW: the key gets a row whatever the admission rule says; RESET: neither any more. FRESH
 * and DROP take one key for all keys of its field in its tablet. FRESH removes their rows and the
 * counts of those that wait for a row; names stay. DROP removes names, too, as if the field had
 * never existed. EVICT removes the row of each key; its name stays. The cells of a sketch are
 * shared and stay: keys that it has counted may get a row sooner, until its generations have
 * turned. */
enum key_action {
    KEY_ERASE = 0,
    KEY_BLOCK = 1,
    KEY_ALLOW = 2,
    KEY_RESET = 3,
    KEY_FRESH = 4,
    KEY_DROP = 5,
    KEY_EVICT = 6
};
/* keys (count) in any order; take (2^tablet_bits): only keys of tablets with take[tablet] are
 * changed, NULL: all. *changed: keys that had another name before, or for FRESH, DROP and EVICT
 * the removed rows. 0, or SHOAL_E_NOMEM with the table partly changed. */
int table_keys(struct table *t, enum key_action action, const uint64_t *keys, size_t count,
               const uint8_t *take, uint64_t *changed);
/* A set of fields: LIMIT_FIELDS bits. */
static inline bool table_fields_have(const uint64_t *fields, uint64_t key)
{
    uint32_t field = key_field(key);
    return field < LIMIT_FIELDS && (fields[field / 64] >> (field % 64) & 1) != 0;
}
/* For FRESH or DROP: writes to keys (LIMIT_FIELDS) one key of each of the fields that the tablet
 * knows: as a row, as a waiting key or by name. 0 or SHOAL_E_NOMEM. */
int table_keys_of(const struct table *t, uint32_t tablet, const uint64_t *fields, uint64_t *keys,
                  uint32_t *count);
/* A key that has a name: KEY_ERASE (it is erased), KEY_BLOCK or KEY_ALLOW. */
struct table_name {
    uint64_t key;
    enum key_action action;
};
/* Writes to out the names of a tablet in the order of key_mix, from the mixed key `from` on: the
 * first `room` of them. Returns their number. */
uint32_t table_names(const struct table *t, uint32_t tablet, uint64_t from, struct table_name *out,
                     uint32_t room);
/* True when every tablet has room for `count` more names. */
bool table_keys_fit(const struct table *t, size_t count);

/* A row that is in memory, or NULL: key, weights and state in the layout above, in a buffer of the
 * table that is valid until the table's next call. */
const void *table_row(const struct table *t, uint64_t key);
/* The weights of such a row as floats (width), and its state (schema_state_floats), in place. */
void table_row_weights(const struct table_schema *s, const void *row, float *weights);
const float *table_row_state(const struct table_schema *s, const void *row);
/* True when all numbers of a tablet's rows in memory are finite: weights, optimizer state,
 * statistics. Otherwise *bad is the key of a row that is not. */
bool table_finite(const struct table *t, uint32_t tablet, uint64_t *bad);
/* XXH3 over one tablet's rows in memory, sorted by key, without undo; 0 for an empty tablet. For
 * all its rows, use engine_whole first. 0 or SHOAL_E_NOMEM. */
int table_digest(const struct table *t, uint32_t tablet, uint64_t *out);

/* Image: a tablet as one value: header (magic, version, schema digest, counts, clock), rows, undo,
 * waiting keys, names, and the XXH3 of all these. */
#define TABLE_IMAGE_MOST (LIMIT_FRAME_BYTES - 4096u) /* that a message carries, with its header */
size_t table_image_bytes(const struct table *t, uint32_t tablet);
/* out: table_image_bytes; a plain copy, under 1 ms for 4 MiB */
void table_image_write(const struct table *t, uint32_t tablet, void *out);
/* Replaces the tablet's content. Every length and the checksum are checked first: CORRUPT, CHECKSUM
 * or SCHEMA with the reason. */
int table_image_read(struct table *t, uint32_t tablet, const void *image, size_t bytes,
                     struct err *e);
struct table_image_found {
    uint64_t rows;
    bool finite;  /* all numbers of its rows are (table_finite), */
    uint64_t bad; /* or else the key of a row whose are not */
    bool bare;    /* it has rows, perhaps undo, and nothing else: no clock, waiting keys or names */
};
/* Checks an image that another process made: table_image_read will take it, it is of the current
 * schema, and all its rows are in it. Builds the tablet and frees it. */
int table_image_check(const struct table *t, uint32_t tablet, const void *image, size_t bytes,
                      struct table_image_found *out, struct err *e);
/* table_image_read without undo, for a table whose rows are never in the store. */
int table_image_assign(struct table *t, uint32_t tablet, const void *image, size_t bytes,
                       struct err *e);
void table_clear(struct table *t, uint32_t tablet);
/* True when the tablet has anything: rows, undo, a clock, keys that wait or have a name. */
bool table_tablet_holds(const struct table *t, uint32_t tablet);
bool table_image_holds(const void *image); /* the same of an image that was checked */
uint64_t table_tablet_rows(const struct table *t, uint32_t tablet); /* counted as in table_rows */
/* bytes of the tablet's pages, index and set of cold keys */
uint64_t table_tablet_memory(const struct table *t, uint32_t tablet);
/* Calls visit for each row of a tablet that is in memory, in no particular order; for inspection
 * tools. */
void table_visit(const struct table *t, uint32_t tablet,
                 void (*visit)(void *context, const void *row), void *context);

#endif
