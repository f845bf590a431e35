/* image.c: writes and reads images.
 *
 * 1. An image is used only as a whole: magic, version, length, checksum, schema and tablet are
 *    checked before any row is. [test: image_flipped_in_any_bit_is_refused,
 *    image_cut_short_or_lengthened_is_refused, image_of_another_tablet_or_schema_is_refused]
 * 2. Lengths are checked by division, so that no count from a damaged header can overflow.
 *    [assert: build]
 * 3. Every key belongs to the tablet and occurs once; every undo key has a row, unless rows may go
 *    (age.h). [assert: rows_read, undo_read, cold_read]
 *    [test: image_with_wrong_content_under_a_right_checksum_is_refused]
 * 4. Reading builds a tablet beside the old one and replaces it at the end: a refused image changes
 *    nothing. [assert: table_image_read] [test: image_flipped_in_any_bit_is_refused]
 * 5. An image of the schema before the table's last change becomes one of the current schema
 *    (change.c). [test: a_changed_tablet_is_what_its_older_image_becomes]
 * 6. A key that waits or is erased has no row (image_life.c).
 *    [test: image_with_a_life_that_cannot_be_is_refused] */
#include "embedding/rows/image.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/key.h"

#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/job/schema_field.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "images are copied as they lie in memory");

/* Adds each field that a later release introduced, with its name, if the schema uses it. A schema
 * that uses none keeps its digest, and its images stay valid. */
static uint64_t later_digest(const struct table_schema *s, uint64_t sum)
{
    static const char zero[sizeof(uint64_t)];
    const struct schema_field *f;
    for (uint32_t i = 0; (f = schema_field_at(i)) != NULL; i++)
        if (f->later && memcmp(schema_field_value_of(s, f, 0), zero, f->bytes) != 0)
            sum = hash_bytes(schema_field_value_of(s, f, 0), f->bytes,
                             hash_bytes(f->name, strlen(f->name), sum));
    return sum;
}

uint64_t image_schema_digest(const struct table_schema *s)
{
    struct {
        char name[LIMIT_NAME];
        uint64_t seed;
        uint32_t numbers[8];
        float values[10];
        uint32_t rules[18]; /* all rules of that time */
    } d;
    const struct optimizer_spec *o = &s->optimizer;
    memset(&d, 0, sizeof d);
    memcpy(d.name, s->name, strnlen(s->name, sizeof d.name - 1));
    d.seed = s->seed;
    const uint32_t numbers[8] = {s->dense,     s->width, s->zero_first, s->tablet_bits,
                                 s->init.kind, o->kind,  o->fixed_lr,   s->field_rule_count};
    const float values[10] = {s->init.scale, o->lr, o->beta1, o->beta2, o->eps,
                              o->initial,    o->l1, o->l2,    o->beta,  o->decay};
    memcpy(d.numbers, numbers, sizeof numbers);
    memcpy(d.values, values, sizeof values);
    memcpy(d.rules, &s->rules, sizeof d.rules);
    uint64_t sum = hash_bytes(s->field_rule, s->field_rule_count * sizeof s->field_rule[0],
                              hash_bytes(&d, sizeof d, 0));
    if (s->values != VALUES_FP32)
        sum = hash_bytes(&s->values, sizeof s->values, sum);
    return later_digest(s, sum);
}

static uint64_t undo_count(const struct tablet *t)
{
    if (t->undo == NULL)
        return 0;

    return t->undo->count;
}

/* True for a row that leaves with this image and so is not in it. */
static bool leaves(const struct tablet *own, const struct bucket *b, uint32_t place)
{
    return own->cold != NULL && own->cold->leaving && (b->chosen & b->stored & 1u << place) != 0;
}

static uint32_t leaving_count(const struct tablet *own)
{
    uint32_t count = 0;
    if (own->cold == NULL || !own->cold->leaving)
        return 0;
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++)
            count += leaves(own, &own->buckets[b], i);
    return count;
}

/* Writes the keys of rows that leave, then those of cold rows. */
static char *cold_write(const struct table *t, uint32_t tablet, char *at)
{
    const struct tablet *own = &t->tablets[tablet];
    if (own->cold == NULL)
        return at;
    for (uint32_t b = 0; own->cold->leaving && b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++)
            if (leaves(own, &own->buckets[b], i)) {
                memcpy(at, &own->buckets[b].key[i], sizeof(uint64_t));
                at += sizeof(uint64_t);
            }
    for (uint32_t i = 0; i < own->cold->slots; i++)
        if (own->cold->slot[i] != 0) {
            uint64_t key = key_unmix(own->cold->slot[i]);
            memcpy(at, &key, sizeof key);
            at += sizeof key;
        }
    if (own->cold->zero) {
        memset(at, 0, sizeof(uint64_t));
        at += sizeof(uint64_t);
    }
    return at;
}

size_t table_image_bytes(const struct table *t, uint32_t tablet)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    const struct tablet *own = &t->tablets[tablet];
    struct image_header life = {0};
    image_life_counts(own->life, &life);
    uint32_t leaving = leaving_count(own);
    return sizeof(struct image_header) +
           (own->row_count - leaving) * (sizeof(uint64_t) + t->shape.row_bytes) +
           ((uint64_t)leaving + table_cold_tablet(t, tablet)) * sizeof(uint64_t) +
           undo_count(own) * (sizeof(uint64_t) + t->schema.width * sizeof(float)) +
           image_life_bytes(&life) + sizeof(uint64_t);
}

bool table_tablet_holds(const struct table *t, uint32_t tablet)
{
    const struct tablet *own = &t->tablets[tablet];
    return own->row_count > 0 || table_cold_tablet(t, tablet) > 0 || own->undo != NULL ||
           own->life != NULL || own->batches > 0;
}

bool table_image_holds(const void *image)
{
    struct image_header h;
    memcpy(&h, image, sizeof h);
    return h.row_count > 0 || h.cold_count > 0 || h.undo_clock > 0 || h.batches > 0 ||
           h.clock > 0 || image_life_bytes(&h) > 0;
}

/* Writes rows in the index's order: this passes its lines once, and prefetches the rows of the next
 * buckets. This order, and that of cold and waiting keys, may depend on a salt: two images of the
 * same rows have equal lengths but perhaps other bytes. */
static char *rows_write(const struct table *t, const struct tablet *own, uint64_t count, char *out)
{
    char *key = out, *row = out + count * sizeof(uint64_t);
    const uint32_t ahead = 3;
    for (uint32_t b = 0; b < own->bucket_count; b++) {
        if (b + ahead < own->bucket_count) {
            const struct bucket *next = &own->buckets[b + ahead];
            for (uint32_t i = 0; i < next->count; i++)
                walk_prefetch(row_at(&t->shape, next->row[i]), t->shape.row_bytes, false);
        }
        const struct bucket *bucket = &own->buckets[b];
        for (uint32_t i = 0; i < bucket->count; i++) {
            if (leaves(own, bucket, i))
                continue;
            memcpy(key, &bucket->key[i], sizeof(uint64_t));
            memcpy(row, row_at(&t->shape, bucket->row[i]), t->shape.row_bytes);
            key += sizeof(uint64_t);
            row += t->shape.row_bytes;
        }
    }
    SHOAL_ASSERT(key == out + count * sizeof(uint64_t));
    return row;
}

static char *part_write(char *out, const void *part, size_t bytes)
{
    if (bytes > 0)
        memcpy(out, part, bytes);
    return out + bytes;
}

void table_image_write(const struct table *t, uint32_t tablet, void *out)
{
    size_t bytes = table_image_bytes(t, tablet);
    const struct tablet *own = &t->tablets[tablet];
    const struct undo *undo = own->undo;
    struct image_header h = {
        .magic = IMAGE_MAGIC,
        .version = IMAGE_VERSION,
        .tablet = tablet,
        .schema_digest = image_schema_digest(&t->schema),
        .bytes = bytes,
        .row_floats = t->shape.floats,
        .width = t->schema.width,
        .row_count = own->row_count - leaving_count(own),
        .undo_count = undo_count(own),
        .batches = own->batches,
    };
    if (undo != NULL) {
        h.undo_clock = undo->clock;
        h.undo_from = undo->from;
    }
    image_life_counts(own->life, &h);
    if (own->cold != NULL) {
        h.cold_count = own->cold->count + leaving_count(own);
        h.cold_epoch = own->cold->epoch;
        h.cold_began = own->cold->began;
    }
    char *at = part_write(out, &h, sizeof h);
    at = rows_write(t, own, h.row_count, at);
    if (h.undo_count > 0) {
        at = part_write(at, undo->keys, h.undo_count * sizeof(uint64_t));
        at = part_write(at, undo->weights, h.undo_count * h.width * sizeof(float));
    }
    at = image_life_write(own->life, &h, at);
    at = cold_write(t, tablet, at);
    uint64_t checksum = hash_bytes(out, bytes - sizeof checksum, 0);
    at = part_write(at, &checksum, sizeof checksum);
    SHOAL_ASSERT(at == (char *)out + bytes);
}

/* True when undo may have entries of rows that are gone. */
static bool rows_go(const struct table *t)
{
    return t->schema.rules.age_every > 0 || t->schema.rules.age_capacity > 0;
}

/* True when the image has the table's schema before its last change: it is read as such, and then
 * changes as the table did. */
static bool is_older(const struct table *t, const struct image_header *h)
{
    return t->past.sequence > 0 && h->schema_digest == t->past.digest &&
           h->schema_digest != image_schema_digest(&t->schema);
}

/* True when the counts add up to the length (2). */
static bool lengths_ok(const struct table *t, const struct image_header *h, size_t bytes)
{
    size_t left = bytes - sizeof *h - sizeof(uint64_t);
    size_t row_bytes = sizeof(uint64_t) + (size_t)h->row_floats * sizeof(float);
    size_t undo_bytes = sizeof(uint64_t) + (size_t)h->width * sizeof(float);
    if (h->bytes != bytes || h->row_count > left / row_bytes || h->row_count > UINT32_MAX)
        return false;
    left -= h->row_count * row_bytes;
    if (image_life_bytes(h) > left)
        return false;
    left -= image_life_bytes(h);
    if (h->cold_count > left / sizeof(uint64_t))
        return false;
    left -= h->cold_count * sizeof(uint64_t);
    return (rows_go(t) || is_older(t, h) || h->cold_count > 0 || h->undo_count <= h->row_count) &&
           left % undo_bytes == 0 && h->undo_count == left / undo_bytes &&
           (h->undo_clock != 0 || h->undo_count == 0);
}

bool image_whole(const void *image, size_t bytes)
{
    uint64_t checksum;
    if (bytes < sizeof checksum)
        return false;
    memcpy(&checksum, (const char *)image + bytes - sizeof checksum, sizeof checksum);
    return checksum == hash_bytes(image, bytes - sizeof checksum, 0);
}

static int header_check(const struct table *t, uint32_t tablet, const void *image, size_t bytes,
                        struct image_header *h, struct err *e)
{
    const char *name = t->schema.name;
    if (bytes < sizeof *h + sizeof(uint64_t))
        return err_set(e, SHOAL_E_CORRUPT, "image of table %s tablet %u: %zu bytes are too few",
                       name, tablet, bytes);
    memcpy(h, image, sizeof *h);
    bool whole = image_whole(image, bytes);
    if (h->magic == IMAGE_MAGIC && h->version != IMAGE_VERSION && whole)
        return err_set(e, SHOAL_E_VERSION,
                       "image of table %s tablet %u: it has version %u, this Shoal reads %u: it "
                       "was written by %s; start that one",
                       name, tablet, h->version, IMAGE_VERSION,
                       h->version > IMAGE_VERSION ? "a later one" : "a release before 0.2.0");
    if (h->magic != IMAGE_MAGIC || h->version != IMAGE_VERSION)
        return err_set(e, SHOAL_E_CORRUPT,
                       "image of table %s tablet %u: not an image of version %u", name, tablet,
                       IMAGE_VERSION);
    if (!lengths_ok(t, h, bytes))
        return err_set(e, SHOAL_E_CORRUPT,
                       "image of table %s tablet %u: counts do not add up to its %zu bytes", name,
                       tablet, bytes);
    if (!whole)
        return err_set(e, SHOAL_E_CHECKSUM, "image of table %s tablet %u: checksum does not match",
                       name, tablet);
    if ((h->schema_digest != image_schema_digest(&t->schema) && !is_older(t, h)) ||
        h->row_floats != t->shape.floats || h->width != t->schema.width)
        return err_set(e, SHOAL_E_SCHEMA,
                       "image of table %s tablet %u: written under another schema", name, tablet);
    if (!image_life_ok(t, h, is_older(t, h)))
        return err_set(e, SHOAL_E_CORRUPT,
                       "image of table %s tablet %u: its counts are not those of such a table",
                       name, tablet);
    if (h->tablet != tablet)
        return err_set(e, SHOAL_E_CORRUPT, "image of table %s tablet %u: it is of tablet %u", name,
                       tablet, h->tablet);
    return 0;
}

static int rows_read(const struct table *t, uint32_t tablet, const struct image_header *h,
                     const char *at, struct tablet *into, struct err *e)
{
    const char *name = t->schema.name, *row = at + h->row_count * sizeof(uint64_t);
    if (tablet_reserve(into, &t->shape, tablet, (uint32_t)h->row_count) != 0)
        return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for its rows", name,
                       tablet);
    for (uint64_t i = 0; i < h->row_count; i++, row += t->shape.row_bytes) {
        uint64_t key;
        memcpy(&key, at + i * sizeof key, sizeof key);
        if (key_tablet(key_mix(key), t->shape.tablet_bits) != tablet)
            return err_set(e, SHOAL_E_CORRUPT,
                           "image of table %s tablet %u: key %016" PRIx64
                           " belongs to another tablet",
                           name, tablet, key);
        if (tablet_find(into, &t->shape, key) != NULL)
            return err_set(e, SHOAL_E_CORRUPT,
                           "image of table %s tablet %u: key %016" PRIx64 " stands twice", name,
                           tablet, key);
        float *to = tablet_insert(into, &t->shape, tablet, key);
        if (to == NULL)
            return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for its rows", name,
                           tablet);
        memcpy(to, row, t->shape.row_bytes);
    }
    SHOAL_ASSERT(into->row_count == h->row_count); /* 3 */
    return 0;
}

static int undo_read(const struct table *t, uint32_t tablet, const struct image_header *h,
                     const char *at, struct tablet *into, struct err *e)
{
    const char *name = t->schema.name, *weights = at + h->undo_count * sizeof(uint64_t);
    const size_t width_bytes = t->schema.width * sizeof(float);
    float copy[LIMIT_WIDTH]; /* an image may be unaligned */
    if (h->undo_clock == 0 || is_older(t, h))
        return 0;
    into->undo = undo_new(t->schema.width);
    if (into->undo == NULL)
        return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for its undo", name,
                       tablet);
    undo_begin(into->undo, h->undo_clock, h->undo_from);
    into->undo->went = rows_go(t);
    for (uint64_t i = 0; i < h->undo_count; i++, weights += width_bytes) {
        uint64_t key;
        memcpy(&key, at + i * sizeof key, sizeof key);
        memcpy(copy, weights, width_bytes);
        bool known;
        if (rows_go(t) || h->cold_count > 0)
            known = key_tablet(key_mix(key), t->shape.tablet_bits) == tablet;
        else
            known = tablet_find(into, &t->shape, key) != NULL;
        if (!known || undo_find(into->undo, key) != NULL)
            return err_set(e, SHOAL_E_CORRUPT,
                           "image of table %s tablet %u: undo of key %016" PRIx64
                           " has no row or stands twice",
                           name, tablet, key);
        if (undo_save(into->undo, key, copy) != 0)
            return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for its undo", name,
                           tablet);
    }
    SHOAL_ASSERT(into->undo->count == h->undo_count); /* 3 */
    return 0;
}

static int cold_read(const struct table *t, uint32_t tablet, const struct image_header *h,
                     const char *at, struct tablet *into, struct err *e)
{
    const char *name = t->schema.name;
    if (h->cold_count == 0 && h->cold_epoch == 0)
        return 0;
    if (h->cold_count > 0 && !table_cold_may(t))
        return err_set(e, SHOAL_E_CORRUPT,
                       "image of table %s tablet %u: rows of such a table are never in the store",
                       name, tablet);
    if (cold_new(into, h->cold_epoch, h->cold_began) != 0 ||
        cold_reserve(into->cold, &t->shape, h->cold_count) != 0)
        return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for its cold keys", name,
                       tablet);
    for (uint32_t i = 0; i < h->cold_count; i++) {
        uint64_t key;
        memcpy(&key, at + i * sizeof key, sizeof key);
        if (key_tablet(key_mix(key), t->shape.tablet_bits) != tablet ||
            tablet_find(into, &t->shape, key) != NULL ||
            cold_has(into->cold, t->shape.tablet_bits, key))
            return err_set(e, SHOAL_E_CORRUPT,
                           "image of table %s tablet %u: cold key %016" PRIx64
                           " belongs elsewhere or stands twice",
                           name, tablet, key);
        if (cold_add(into->cold, &t->shape, key) != 0)
            return err_set(e, SHOAL_E_NOMEM, "table %s tablet %u: no memory for its cold keys",
                           name, tablet);
    }
    SHOAL_ASSERT(into->cold->count == h->cold_count); /* 3 */
    return 0;
}

/* Builds a tablet of a checked header's image. After an error there is none. */
static int build(const struct table *t, uint32_t tablet, const void *image, size_t bytes,
                 const struct image_header *h, struct tablet *fresh, struct err *e)
{
    const char *rows = (const char *)image + sizeof *h;
    const char *undo = rows + h->row_count * (sizeof(uint64_t) + t->shape.row_bytes);
    const char *life = undo + h->undo_count * (sizeof(uint64_t) + t->schema.width * sizeof(float));
    const char *cold = life + image_life_bytes(h), *end = (const char *)image + bytes;
    SHOAL_ASSERT(cold + (h->cold_count + 1ull) * sizeof(uint64_t) == end); /* 2 */
    tablet_init(fresh);
    int rc = rows_read(t, tablet, h, rows, fresh, e);
    if (rc == 0)
        rc = undo_read(t, tablet, h, undo, fresh, e);
    if (rc == 0)
        rc = image_life_read(t, tablet, h, life, fresh, e);
    if (rc == 0)
        rc = cold_read(t, tablet, h, cold, fresh, e);
    if (rc != 0)
        tablet_clear(fresh, &t->shape);
    return rc;
}

int table_image_check(const struct table *t, uint32_t tablet, const void *image, size_t bytes,
                      struct table_image_found *out, struct err *e)
{
    struct image_header h;
    struct tablet fresh;
    int rc = header_check(t, tablet, image, bytes, &h, e);
    if (rc == 0 && is_older(t, &h))
        rc = err_set(e, SHOAL_E_SCHEMA,
                     "image of table %s tablet %u: written under the schema before the last change",
                     t->schema.name, tablet);
    if (rc == 0 && h.cold_count > 0)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "image of table %s tablet %u: %u of its rows are in another store",
                     t->schema.name, tablet, h.cold_count);
    if (rc == 0)
        rc = build(t, tablet, image, bytes, &h, &fresh, e);
    if (rc != 0)
        return rc;
    *out = (struct table_image_found){.rows = h.row_count,
                                      .bare = h.clock == 0 && image_life_bytes(&h) == 0};
    out->finite = table_finite_rows(t, &fresh, &out->bad);
    tablet_clear(&fresh, &t->shape);
    return 0;
}

int table_image_read(struct table *t, uint32_t tablet, const void *image, size_t bytes,
                     struct err *e)
{
    SHOAL_ASSERT(tablet < t->tablet_count);
    struct image_header h;
    struct tablet fresh;
    const uint64_t rows_before = t->rows, cold_before = t->cold;
    int rc = header_check(t, tablet, image, bytes, &h, e);
    if (rc == 0)
        rc = build(t, tablet, image, bytes, &h, &fresh, e);
    SHOAL_ASSERT(t->rows == rows_before && t->cold == cold_before); /* 4 */
    if (rc != 0)
        return rc;
    if (is_older(t, &h))
        table_change_tablet(t, &fresh);
    table_clear(t, tablet);
    fresh.batches = h.batches;
    t->tablets[tablet] = fresh;
    t->rows += fresh.row_count;
    t->cold += table_cold_tablet(t, tablet);
    return 0;
}

int table_image_assign(struct table *t, uint32_t tablet, const void *image, size_t bytes,
                       struct err *e)
{
    int rc = table_image_read(t, tablet, image, bytes, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(!table_cold_may(t));
    undo_free(t->tablets[tablet].undo);
    t->tablets[tablet].undo = NULL;
    table_cold_forget(t, tablet);
    return 0;
}
