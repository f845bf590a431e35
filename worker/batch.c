/* batch.c: lines -> examples -> unique keys, sorted by key_mix.
 *
 * 1. While lines come in, mixed[] holds the keys as they are, value by value.
 * 2. batch_end mixes them, finds the unique ones by an open-addressing table of 8-byte slots, small enough for the
 * second-level cache, and sorts those by one counting pass over the top bits (mixed keys are spread evenly) and a small
 * sort in each bucket.
 * 3. index[] goes from value -> place of first sight -> rank in the sorted order. */
#include "worker/batch.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_SORT 32u
#define AHEAD 16u

void batch_init(struct batch *b)
{
    *b = (struct batch){0};
}

void batch_free(struct batch *b)
{
    struct batch_space *s = b->space;
    if (s != NULL) {
        lines_free(&s->lines);
        free(s->mixed);
        free(s->offset);
        free(s->slot);
        free(s->found);
        free(s->sorted);
        free(s->rank);
        free(s->bucket);
        free(s);
    }
    free(b->label);
    free(b->numeric);
    free(b->index);
    free(b->keys);
    *b = (struct batch){0};
}

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory for a batch; lower train.batch or train.prefetch, or free some");
}

/* Makes room for `count` elements, keeping what is in it. *buffer is any pointer; on NOMEM it is as it was. */
static int grow(void *buffer, size_t *capacity, size_t count, size_t bytes)
{
    void *old, *more;
    memcpy(&old, buffer, sizeof old);
    if (count <= *capacity && old != NULL)
        return 0;
    more = realloc(old, (count > 0 ? count : 1) * bytes);
    if (more == NULL)
        return SHOAL_E_NOMEM;
    memcpy(buffer, &more, sizeof more);
    *capacity = count;
    return 0;
}

static int space_new(struct batch *b, struct err *e)
{
    struct batch_space *s = calloc(1, sizeof *s);
    if (s == NULL)
        return no_memory(e);
    s->bucket = malloc(sizeof s->bucket[0] * ((1u << BATCH_BUCKET_BITS) + 1));
    int error = s->bucket != NULL ? lines_init(&s->lines, e) : no_memory(e);
    if (error != 0) {
        free(s->bucket);
        free(s);
        return error;
    }
    b->space = s;
    return 0;
}

static int values_grow(struct batch *b, uint64_t values, struct err *e)
{
    struct batch_space *s = b->space;
    size_t capacity = s->value_capacity;
    if (values > BATCH_VALUES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "a batch has more than %u values; lower train.batch", BATCH_VALUES_MAX);
    if (values <= capacity && s->mixed != NULL)
        return 0;
    if (values < 2 * capacity)
        values = 2 * capacity;
    if (grow(&s->mixed, &capacity, values, sizeof s->mixed[0]) != 0)
        return no_memory(e);
    if (grow(&b->index, &s->value_capacity, values, sizeof b->index[0]) != 0)
        return no_memory(e);
    return 0;
}

int batch_begin(struct batch *b, const struct features *f, uint32_t rows, struct err *e)
{
    int error = b->space == NULL ? space_new(b, e) : 0;
    if (error != 0)
        return error;
    struct batch_space *s = b->space;
    if (grow(&b->label, &s->label_capacity, rows, sizeof b->label[0]) != 0 ||
        grow(&b->numeric, &s->numeric_capacity, (size_t)rows * f->shape.numerics, sizeof b->numeric[0]) != 0)
        return no_memory(e);
    if (f->multi && grow(&s->offset, &s->offset_capacity, (size_t)rows * f->shape.fields + 1, sizeof s->offset[0]) != 0)
        return no_memory(e);
    error = values_grow(b, (uint64_t)rows * f->shape.fields, e);
    if (error != 0)
        return error;
    b->examples = b->values = b->key_count = b->bad_lines = 0;
    b->bad_where[0] = '\0';
    b->offset = NULL;
    s->single = true;
    s->rows = rows;
    return 0;
}

static reader reader_of(enum data_format format)
{
    return format == DATA_CRITEO ? read_criteo_line : format == DATA_LIBSVM ? read_libsvm_line : read_csv_line;
}

static void bad_line(struct batch *b, const struct line *line, const char *name)
{
    if (b->bad_lines++ > 0)
        return;
    /* The end of a path says more than its start; the reason has to fit whole. */
    size_t length = strlen(name), shown = length < 40 ? length : 40;
    snprintf(b->bad_where, sizeof b->bad_where, "%s%s:%" PRIu64 ": %s", shown < length ? ".." : "",
             name + length - shown, line->number, b->space->reason);
}

/* Offsets are positions in values: example by example, field by field. */
static void offsets_add(struct batch *b, const struct features *f)
{
    uint32_t *offset = b->space->offset + (size_t)b->examples * f->shape.fields;
    uint32_t at = b->values;
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        offset[i] = at;
        at += b->space->counts[i];
        b->space->single &= b->space->counts[i] == 1;
    }
    offset[f->shape.fields] = at;
}

int batch_add(struct batch *b, const struct features *f, const struct line *line, const char *name, struct err *e)
{
    struct batch_space *s = b->space;
    SHOAL_ASSERT(b->examples < s->rows);
    if (f->multi) { /* each value has a byte of its own at least */
        int error = values_grow(b, (uint64_t)b->values + f->shape.fields + line->bytes, e);
        if (error != 0)
            return error;
    }
    struct example example = {.label = &b->label[b->examples],
                              .numeric = &b->numeric[(size_t)b->examples * f->shape.numerics],
                              .key = &s->mixed[b->values],
                              .count = f->multi ? s->counts : NULL};
    int error = SHOAL_E_DATA;
    if (line->too_long)
        snprintf(s->reason, sizeof s->reason, "the line is longer than %u bytes", LIMIT_LINE_BYTES);
    else
        error = reader_of(f->format)(f, line->text, line->bytes, s->cell, s->reason);
    if (error == 0)
        error = features_example(f, s->cell, &example, s->reason);
    if (error != 0) {
        bad_line(b, line, name);
        return 0;
    }
    if (f->multi)
        offsets_add(b, f);
    b->values += example.keys;
    b->examples++;
    return 0;
}

/* ---- unique keys ---- */

/* All buffers of unique keys are as large as the table: more than there are values. */
static int unique_alloc(struct batch *b, uint32_t slots)
{
    struct batch_space *s = b->space;
    size_t keys = s->slots, found = s->slots, sorted = s->slots, rank = s->slots;
    if (grow(&b->keys, &keys, slots, sizeof b->keys[0]) != 0 ||
        grow(&s->found, &found, slots, sizeof s->found[0]) != 0 ||
        grow(&s->sorted, &sorted, slots, sizeof s->sorted[0]) != 0 ||
        grow(&s->rank, &rank, slots, sizeof s->rank[0]) != 0)
        return SHOAL_E_NOMEM;
    uint64_t *slot = malloc(slots * sizeof s->slot[0]);
    if (slot == NULL)
        return SHOAL_E_NOMEM;
    free(s->slot);
    s->slot = slot;
    s->slots = slots;
    return 0;
}

static int unique_grow(struct batch *b, struct err *e)
{
    struct batch_space *s = b->space;
    uint32_t slots = s->slots > 0 ? s->slots : 1024;
    while (slots < b->values + b->values / 8)
        slots *= 2;
    return slots > s->slots && unique_alloc(b, slots) != 0 ? no_memory(e) : 0;
}

static void unique_find(struct batch *b)
{
    struct batch_space *s = b->space;
    uint64_t *slot = s->slot, *mixed = s->mixed;
    uint32_t mask = s->slots - 1, found = 0;
    memset(slot, 0, sizeof slot[0] * s->slots);
    for (uint32_t i = 0; i < b->values; i++)
        mixed[i] = key_mix(mixed[i]);
    for (uint32_t i = 0; i < b->values; i++) {
        if (i + AHEAD < b->values)
            __builtin_prefetch(&slot[mixed[i + AHEAD] & mask], 1);
        uint32_t at = (uint32_t)mixed[i] & mask, place;
        for (;; at = (at + 1) & mask) {
            uint64_t is = slot[at];
            if (is == 0) {
                place = found++;
                slot[at] = (mixed[i] & 0xffffffff00000000ULL) | found;
                s->found[place] = (struct unique_key){mixed[i], place};
                break;
            }
            place = (uint32_t)is - 1;
            if ((is ^ mixed[i]) >> 32 == 0 && s->found[place].mixed == mixed[i])
                break;
        }
        b->index[i] = place;
    }
    b->key_count = found;
}

static int compare_mixed(const void *a, const void *b)
{
    uint64_t x = ((const struct unique_key *)a)->mixed, y = ((const struct unique_key *)b)->mixed;
    return (x > y) - (x < y);
}

static void small_sort(struct unique_key *key, uint32_t count)
{
    if (count > SMALL_SORT) { /* only chosen keys crowd like this */
        qsort(key, count, sizeof *key, compare_mixed);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        struct unique_key k = key[i];
        uint32_t j = i;
        for (; j > 0 && key[j - 1].mixed > k.mixed; j--)
            key[j] = key[j - 1];
        key[j] = k;
    }
}

static void unique_sort(struct batch_space *s, uint32_t count)
{
    unsigned bits = 4;
    while (bits < BATCH_BUCKET_BITS && (1u << bits) < count)
        bits++;
    unsigned shift = 64 - bits;
    uint32_t buckets = 1u << bits, *start = s->bucket;
    memset(start, 0, sizeof start[0] * (buckets + 1));
    for (uint32_t i = 0; i < count; i++)
        start[(s->found[i].mixed >> shift) + 1]++;
    for (uint32_t i = 0; i < buckets; i++)
        start[i + 1] += start[i];
    for (uint32_t i = 0; i < count; i++)
        s->sorted[start[s->found[i].mixed >> shift]++] = s->found[i];
    for (uint32_t i = 0, from = 0; i < buckets; i++) { /* start[i] is now the end of bucket i */
        small_sort(s->sorted + from, start[i] - from);
        from = start[i];
    }
}

int batch_end(struct batch *b, struct err *e)
{
    struct batch_space *s = b->space;
    int error = unique_grow(b, e);
    if (error != 0)
        return error;
    unique_find(b);
    unique_sort(s, b->key_count);
    for (uint32_t i = 0; i < b->key_count; i++) {
        b->keys[i] = key_unmix(s->sorted[i].mixed);
        s->rank[s->sorted[i].place] = i;
    }
    for (uint32_t i = 0; i < b->values; i++)
        b->index[i] = s->rank[b->index[i]];
    b->offset = s->single ? NULL : s->offset;
    return 0;
}
