/* pack.c: encodes slices as bytes, with zstd. */
#include "worker/data/pack.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL 1
#define PACK_SLOTS (1u << 17)
#define DISTINCT_MAX 65536u
#define KEY_BYTES 6u
#define PACK_LOOSE 0x80000000u
/* bytes of the rest, which includes tables */
#define BODY_MAX (SLICE_BYTES_MAX + (SLICE_BYTES_MAX >> 1))

struct pack_slot {
    uint64_t value;
    uint32_t number; /* from 1; 0: empty */
};

void pack_free(struct packer *p)
{
    strips_free(&p->strips);
    free(p->plain.at);
    free(p->rest.at);
    free(p->packed.at);
    free(p->slot);
    free(p->which);
    ZSTD_freeCCtx(p->zip);
    ZSTD_freeDCtx(p->unzip);
    *p = (struct packer){0};
}

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory to pack a slice of rows; free some");
}

/* ---- packing --------------------------------------------------------------------------------- */

static int add(struct pack_bytes *to, const void *from, size_t bytes)
{
    if (to->bytes + bytes > to->capacity &&
        array_reserve(&to->at, (to->bytes + bytes) * 2, &to->capacity) != 0)
        return SHOAL_E_NOMEM;
    memcpy(to->at + to->bytes, from, bytes);
    to->bytes += bytes;
    return 0;
}

static int add_number(struct pack_bytes *to, uint32_t number)
{
    return add(to, &number, sizeof number);
}

static uint64_t value_at(const void *values, uint32_t width, uint32_t i)
{
    uint32_t four;
    uint64_t eight;
    if (width == 8) {
        memcpy(&eight, (const char *)values + (size_t)i * 8, 8);
        return eight;
    }
    memcpy(&four, (const char *)values + (size_t)i * 4, 4);
    return four;
}

/* Numbers the distinct values in the order of their first occurrence; 0: too many to be worth it.
 * which: (values). */
static uint32_t distinct_find(struct packer *p, const void *values, uint32_t width, uint32_t count)
{
    uint32_t distinct = 0, most = MIN(count / 2, DISTINCT_MAX);
    memset(p->slot, 0, sizeof *p->slot * PACK_SLOTS);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = value_at(values, width, i);
        uint32_t at = (uint32_t)(key_mix(value) >> 40) & (PACK_SLOTS - 1);
        while (p->slot[at].number != 0 && p->slot[at].value != value)
            at = (at + 1) & (PACK_SLOTS - 1);
        if (p->slot[at].number == 0) {
            if (distinct == most)
                return 0;
            p->slot[at] = (struct pack_slot){value, ++distinct};
        }
        p->which[i] = (uint16_t)(p->slot[at].number - 1);
    }
    return distinct;
}

/* Appends value i: 4-byte values to the rest, the 6 bytes of a key or the 8 of a hash to the plain
 * bytes. */
static int value_add(struct packer *p, const void *values, uint32_t width, uint32_t stored,
                     uint32_t i)
{
    return add(width == 8 ? &p->plain : &p->rest, (const char *)values + (size_t)i * width, stored);
}

/* True when zstd compresses the bytes enough to be worth the time to unpack them. Evenly
 * distributed keys do not compress. */
static bool pays(struct packer *p, const void *from, size_t bytes)
{
    size_t most = ZSTD_compressBound(bytes);
    if (array_reserve(&p->packed.at, most, &p->packed.capacity) != 0)
        return true;
    size_t n = ZSTD_compressCCtx(p->zip, p->packed.at, most, from, bytes, LEVEL);
    return ZSTD_isError(n) == 0 && n < bytes - bytes / 4;
}

/* Bytes of the numbers of `distinct` values: a byte each for up to 256 of them, else two. */
static uint64_t which_bytes(uint32_t distinct, uint64_t count)
{
    if (distinct > 256)
        return 2 * count;
    return count;
}

/* Narrows the numbers in p->which in place; returns their bytes. */
static size_t which_narrow(struct packer *p, uint32_t distinct, uint32_t count)
{
    uint8_t *narrow = (uint8_t *)p->which;
    for (uint32_t i = 0; i < count && distinct <= 256; i++)
        narrow[i] = (uint8_t)p->which[i];
    return which_bytes(distinct, count);
}

static int values_add(struct packer *p, const void *values, uint32_t width, uint32_t stored,
                      uint32_t count)
{
    uint32_t distinct = 0, next = 0;
    if (width > 1)
        distinct = distinct_find(p, values, width, count);
    size_t head = p->rest.bytes + 4, bytes = (size_t)count * width;
    int bad = add_number(&p->rest, count) | add_number(&p->rest, distinct);
    if (distinct == 0 && width == 8) {
        for (uint32_t i = 0; i < count; i++)
            bad |= value_add(p, values, width, stored, i);
        return bad;
    }
    for (uint32_t i = 0; i < count && distinct > 0; i++)
        if (p->which[i] == next) {
            bad |= value_add(p, values, width, stored, i);
            next++;
        }
    SHOAL_ASSERT(next == distinct);
    const void *each = values;
    if (distinct > 0) {
        bytes = which_narrow(p, distinct, count);
        each = p->which;
    }
    if (bad != 0 || pays(p, each, bytes))
        return bad | add(&p->rest, each, bytes);
    distinct |= PACK_LOOSE;
    memcpy(p->rest.at + head, &distinct, sizeof distinct);
    return add(&p->plain, each, bytes);
}

static int bad_rows_add(struct packer *p, const struct slice *b)
{
    struct slice_row row;
    int bad = add_number(&p->rest, b->bad_rows);
    for (uint32_t i = 0; i < b->rows && b->bad_rows > 0 && bad == 0; i++) {
        bad = slice_row(b, i, &row);
        if (bad != 0 || row.where == NULL)
            continue;
        uint32_t bytes = (uint32_t)strlen(row.where);
        bad =
            add_number(&p->rest, i) | add_number(&p->rest, bytes) | add(&p->rest, row.where, bytes);
    }
    return bad;
}

/* Compresses the rest if that makes it shorter. */
static int zip(struct packer *p)
{
    size_t most = ZSTD_compressBound(p->rest.bytes);
    if (array_reserve(&p->packed.at, most, &p->packed.capacity) != 0)
        return SHOAL_E_NOMEM;
    size_t n = ZSTD_compressCCtx(p->zip, p->packed.at, most, p->rest.at, p->rest.bytes, LEVEL);
    p->zipped = !ZSTD_isError(n) && n < p->rest.bytes;
    p->packed.bytes = n;
    if (!p->zipped) {
        memcpy(p->packed.at, p->rest.at, p->rest.bytes);
        p->packed.bytes = p->rest.bytes;
    }
    return 0;
}

static int packer_ready(struct packer *p)
{
    if (p->slot == NULL)
        p->slot = malloc(sizeof *p->slot * PACK_SLOTS);
    if (p->which == NULL)
        p->which = malloc(sizeof *p->which * SLICE_VALUES_MAX);
    if (p->zip == NULL)
        p->zip = ZSTD_createCCtx();
    p->plain.bytes = p->rest.bytes = p->packed.bytes = 0;
    if (p->slot == NULL || p->which == NULL || p->zip == NULL)
        return SHOAL_E_NOMEM;
    return 0;
}

int pack_slice(struct packer *p, const struct slice *b, const struct columns *c, struct err *e)
{
    int bad = packer_ready(p);
    if (bad == 0)
        bad = strips_take(&p->strips, c, b);
    if (bad == 0 && strips_bytes(&p->strips, b->rows) > SLICE_BYTES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "a slice of more than %u bytes", SLICE_BYTES_MAX);
    for (uint32_t i = 0; i < c->count && bad == 0; i++) {
        const struct strip *one = &p->strips.of[i];
        uint32_t stored = c->one[i].kind == COLUMNS_FIELD ? KEY_BYTES : one->width;
        SHOAL_ASSERT(one->values <= SLICE_VALUES_MAX && (one->multi || one->values == b->rows));
        if (one->multi)
            bad = values_add(p, one->count, 4, 4, b->rows);
        if (bad == 0 && one->weighted)
            bad = values_add(p, one->weight, 4, 4, one->values);
        if (bad == 0)
            bad = values_add(p, one->value, one->width, stored, one->values);
    }
    if (bad == 0)
        bad = bad_rows_add(p, b);
    if (bad == 0)
        bad = zip(p);

    if (bad == 0)
        return 0;

    return no_memory(e);
}

/* ---- unpacking: every byte is checked
 * --------------------------------------------------------- */

/* The unread bytes of both parts; `good`, once false, stays false. */
struct reader {
    const uint8_t *plain, *plain_end, *rest, *rest_end;
    bool good;
};

static const uint8_t *take(const uint8_t **at, const uint8_t *end, uint64_t bytes, bool *good)
{
    const uint8_t *from = *at;
    if (!*good || bytes > (uint64_t)(end - from)) {
        *good = false;
        return NULL;
    }
    *at = from + bytes;
    return from;
}

static uint32_t take_number(struct reader *r)
{
    uint32_t number = 0;
    const uint8_t *from = take(&r->rest, r->rest_end, 4, &r->good);
    if (from != NULL)
        memcpy(&number, from, 4);
    return number;
}

/* Widens packed values of `stored` bytes to their width; `high` is the upper part of a key. */
static void widen(const uint8_t *from, uint32_t stored, uint32_t width, uint64_t high,
                  uint32_t count, void *to)
{
    if (stored == width) {
        memcpy(to, from, (size_t)count * width);
        return;
    }
    uint64_t *key = to;
    for (uint32_t i = 0; i < count; i++, from += KEY_BYTES) {
        uint32_t low;
        uint16_t middle;
        memcpy(&low, from, sizeof low);
        memcpy(&middle, from + sizeof low, sizeof middle);
        key[i] = high | (uint64_t)middle << 32 | low;
    }
}

#define GATHER(TYPE, INDEX)                                                                        \
    do {                                                                                           \
        const TYPE *table = tables;                                                                \
        TYPE *out = to;                                                                            \
        INDEX n;                                                                                   \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            memcpy(&n, which + (size_t)i * sizeof n, sizeof n);                                    \
            wrong |= n >= distinct;                                                                \
            out[i] = table[n];                                                                     \
        }                                                                                          \
    } while (0)

/* Looks values up in a table, which has room for every number that an index can hold. False: a
 * number is not in the table. */
static bool gather(const void *tables, uint32_t distinct, uint32_t width, const uint8_t *which,
                   uint32_t count, void *to)
{
    unsigned wrong = 0;
    if (width == 8 && distinct > 256)
        GATHER(uint64_t, uint16_t);
    else if (width == 8)
        GATHER(uint64_t, uint8_t);
    else if (distinct > 256)
        GATHER(uint32_t, uint16_t);
    else
        GATHER(uint32_t, uint8_t);
    return wrong == 0;
}

static void take_values(struct packer *p, struct reader *r, uint32_t stored, uint32_t width,
                        uint64_t high, uint32_t count, void *to)
{
    uint32_t number = take_number(r), distinct = number & ~PACK_LOOSE;
    bool loose = number != distinct;
    if (distinct > DISTINCT_MAX || (distinct > 0 && width == 1))
        r->good = false;
    if (distinct == 0) {
        const uint8_t *from;
        if (width == 8 || loose)
            from = take(&r->plain, r->plain_end, (uint64_t)count * stored, &r->good);
        else
            from = take(&r->rest, r->rest_end, (uint64_t)count * stored, &r->good);
        if (from != NULL)
            widen(from, stored, width, high, count, to);
        return;
    }
    uint64_t bytes = (uint64_t)distinct * stored, each = which_bytes(distinct, count);
    const uint8_t *from;
    if (width == 8)
        from = take(&r->plain, r->plain_end, bytes, &r->good);
    else
        from = take(&r->rest, r->rest_end, bytes, &r->good);

    const uint8_t *which;
    if (loose)
        which = take(&r->plain, r->plain_end, each, &r->good);
    else
        which = take(&r->rest, r->rest_end, each, &r->good);
    if (from == NULL || which == NULL)
        return;
    widen(from, stored, width, high, distinct, p->slot);
    if (!gather(p->slot, distinct, width, which, count, to))
        r->good = false;
}

/* Reads a multi's counts, one for each row. Returns their sum. */
static uint32_t take_counts(struct packer *p, struct reader *r, struct strip *one, uint32_t rows)
{
    uint64_t sum = 0;
    if (take_number(r) != rows)
        r->good = false;
    if (r->good)
        take_values(p, r, 4, 4, 0, rows, one->count);
    for (uint32_t i = 0; i < rows && r->good; i++)
        sum += one->count[i];
    r->good &= sum <= SLICE_VALUES_MAX;

    if (!r->good)
        return 0;

    return (uint32_t)sum;
}

/* True when a float's bits are those of a finite number. */
static bool is_finite(uint32_t bits)
{
    return (bits & 0x7f800000) != 0x7f800000;
}

/* True when a label that is a number is finite, or is missing. */
static bool reals_fit(const struct strip *c)
{
    const uint32_t *bits = c->value;
    const float missing = NAN;
    uint32_t none;
    unsigned wrong = 0;
    memcpy(&none, &missing, sizeof none);
    for (uint32_t i = 0; i < c->values; i++)
        wrong |= !is_finite(bits[i]) && bits[i] != none;
    return wrong == 0;
}

/* True when the values are such as text can give: labels 0 or 1 or missing, floats finite, weights
 * at least 0. */
static bool values_fit(const struct columns_one *of, const struct strip *c)
{
    const uint8_t *label = c->value;
    const uint32_t *bits = c->value;
    unsigned wrong = 0;
    if (of->real)
        return reals_fit(c);
    if (of->kind == COLUMNS_LABEL)
        for (uint32_t i = 0; i < c->values; i++)
            wrong |= label[i] > STRIPS_MISSING;
    if (of->kind == COLUMNS_WEIGHT || of->kind == COLUMNS_NUMBER)
        for (uint32_t i = 0; i < c->values; i++)
            wrong |= !is_finite(bits[i]) || (of->kind == COLUMNS_WEIGHT && bits[i] > 0x80000000);
    return wrong == 0;
}

/* Reads the weights of a weighted multi, which are finite. */
static int take_weights(struct packer *p, struct reader *r, struct strip *one, uint32_t values)
{
    unsigned wrong = 0;
    if (take_number(r) != values)
        r->good = false;
    if (r->good && array_reserve(&one->weight, MAX(values, 1), &one->weight_capacity) != 0)
        return SHOAL_E_NOMEM;
    if (r->good)
        take_values(p, r, 4, 4, 0, values, one->weight);
    for (uint32_t i = 0; i < values && r->good; i++) {
        uint32_t bits;
        memcpy(&bits, &one->weight[i], sizeof bits);
        wrong |= !is_finite(bits);
    }
    r->good &= wrong == 0;
    return 0;
}

static int take_column(struct packer *p, struct reader *r, const struct columns_one *of,
                       struct strip *one, uint32_t rows)
{
    uint32_t values = rows;
    if (one->multi) {
        if (strips_room(one, 0, rows) != 0)
            return SHOAL_E_NOMEM;
        values = take_counts(p, r, one, rows);
    }
    if (r->good && one->weighted && take_weights(p, r, one, values) != 0)
        return SHOAL_E_NOMEM;
    if (take_number(r) != values)
        r->good = false;
    if (r->good && strips_room(one, values, rows) != 0)
        return SHOAL_E_NOMEM;
    one->values = 0;
    if (r->good) {
        uint32_t stored = one->width;
        uint64_t high = 0;
        if (of->kind == COLUMNS_FIELD) {
            stored = KEY_BYTES;
            high = key_make(of->field, 0);
        }
        one->values = values;
        take_values(p, r, stored, one->width, high, values, one->value);
    }
    r->good = r->good && values_fit(of, one);
    return 0;
}

/* Reads the malformed rows and returns their number; with b NULL only checks them. *texts: bytes of
 * their texts. */
static uint32_t take_bad_rows(struct reader *r, uint32_t rows, struct slice *b, uint64_t *texts)
{
    uint32_t bad_rows = take_number(r), before = 0;
    r->good &= bad_rows <= rows;
    *texts = 0;
    for (uint32_t i = 0; i < bad_rows && r->good; i++) {
        uint32_t row = take_number(r), bytes = take_number(r);
        const uint8_t *where = take(&r->rest, r->rest_end, bytes, &r->good);
        if (where == NULL || bytes >= SLICE_WHERE || memchr(where, '\0', bytes) != NULL ||
            row >= rows || (i > 0 && row <= before))
            r->good = false;
        else if (b != NULL)
            slice_bad(b, row, (const char *)where, bytes, texts);
        else
            *texts += bytes + 1;
        before = row;
    }
    return bad_rows;
}

/* The unpacked rest; NULL: it is no valid frame. */
static const uint8_t *unzip(struct packer *p, const uint8_t *packed, const struct pack_sizes *s)
{
    if (!s->zipped)
        return s->packed == s->rest ? packed : NULL;
    size_t n = ZSTD_decompressDCtx(p->unzip, p->rest.at, s->rest, packed, s->packed);
    if (ZSTD_isError(n) || n != s->rest)
        return NULL;
    return p->rest.at;
}

static int unpacker_ready(struct packer *p, uint32_t rest)
{
    if (p->unzip == NULL)
        p->unzip = ZSTD_createDCtx();
    if (p->slot == NULL)
        p->slot = calloc(PACK_SLOTS, sizeof *p->slot);
    _Static_assert(sizeof *p->slot * PACK_SLOTS >= (DISTINCT_MAX + 1) * 8, "a table of values");

    if (p->unzip != NULL && p->slot != NULL &&
        array_reserve(&p->rest.at, (size_t)rest + 1, &p->rest.capacity) == 0)
        return 0;

    return SHOAL_E_NOMEM;
}

int pack_unpack(struct packer *p, const uint8_t *body, const struct pack_sizes *s,
                const struct columns *c, const struct strips_wanted *wanted, struct slice *b,
                struct err *e)
{
    uint64_t texts;
    if (s->rows == 0 || s->rows > SLICE_ROWS_MAX || s->rest > BODY_MAX)
        return SHOAL_E_CORRUPT;
    if (unpacker_ready(p, s->rest) != 0 || strips_begin(&p->strips, c) != 0)
        return no_memory(e);
    const uint8_t *rest = unzip(p, body + s->plain, s);
    if (rest == NULL)
        return SHOAL_E_CORRUPT;
    struct reader r = {body, body + s->plain, rest, rest + s->rest, true};
    int rc = 0;
    for (uint32_t i = 0; i < c->count && r.good && rc == 0; i++) {
        rc = take_column(p, &r, &c->one[i], &p->strips.of[i], s->rows);
        r.good &= strips_bytes(&p->strips, s->rows) <= SLICE_BYTES_MAX;
    }
    if (rc != 0)
        return no_memory(e);
    struct reader again = r;
    p->bad_rows = take_bad_rows(&r, s->rows, NULL, &texts);
    if (!r.good || r.plain != r.plain_end || r.rest != r.rest_end)
        return SHOAL_E_CORRUPT;
    if (b == NULL)
        return 0;
    if (strips_lay(&p->strips, wanted, s->rows, texts, b) != 0)
        return no_memory(e);
    (void)take_bad_rows(&again, s->rows, b, &texts);
    return 0;
}
