/* rows.c: the memory of one batch.
 *
 * 1. Parts of a table are in order of tablets, adjacent, and cover all its tablets, so pushes of
 *    all parts cover every tablet once. [assert: part_add, rows_split]
 * 2. The arrays of a rows are not written while a frame borrows from them: rows_quiet is checked
 *    before the memory is used for another batch. [assert: rows_reserve] */
#include "worker/train/rows.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/job/gradient.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct rows_reference {
    atomic_uint count;
    struct rows *rows;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void rows_free(struct rows *r)
{
    batch_free(&r->batch);
    backend_host_free(r->backend, r->floats.pulled);
    backend_host_free(r->backend, r->floats.gradients);
    for (uint32_t t = r->sparse; t < r->made; t++) {
        backend_host_free(r->backend, r->table[t].pulled);
        backend_host_free(r->backend, r->table[t].gradients);
        backend_host_free(r->backend, r->table[t].flat);
    }
    free(r->block_keys);
    backend_host_free(r->backend, r->scores);
    free(r->seen);
    ahead_close(&r->ahead);
    for (uint32_t i = 0; i < 2; i++) {
        free(r->list[i].key);
        free(r->list[i].place);
    }
    free(r->steps);
    free(r->part);
    free(r->reference);
    free(r);
}

static void reference_drop(struct rows_reference *reference)
{
    unsigned before = atomic_fetch_sub_explicit(&reference->count, 1, memory_order_acq_rel);
    SHOAL_ASSERT(before > 0);
    if (before == 1)
        rows_free(reference->rows);
}

static void frame_returned(void *data, void *hint)
{
    (void)data;
    reference_drop(hint);
}

void rows_release(struct rows *r)
{
    if (r != NULL)
        reference_drop(r->reference);
}

bool rows_quiet(const struct rows *r)
{
    return atomic_load_explicit(&r->reference->count, memory_order_acquire) == 1;
}

/* Memory that a device reads and writes. At least a byte, so that an empty array has an address
 * too. */
static float *floats_new(const struct rows *r, size_t count)
{
    return backend_host_alloc(r->backend, (count * sizeof(float) + 127) & ~(size_t)63);
}

/* Makes room for the rows of a dense table; the contents are lost. */
static int blocks_reserve(const struct rows *r, struct rows_table *t)
{
    size_t floats = t->key_count * (size_t)t->schema->width;
    if (t->key_count <= t->capacity)
        return 0;
    backend_host_free(r->backend, t->pulled);
    backend_host_free(r->backend, t->gradients);
    backend_host_free(r->backend, t->flat);
    t->capacity = 0;
    t->pulled = floats_new(r, floats);
    t->gradients = floats_new(r, floats);
    t->flat = floats_new(r, floats);
    if (t->pulled == NULL || t->gradients == NULL || t->flat == NULL)
        return SHOAL_E_NOMEM;
    t->capacity = t->key_count;
    return 0;
}

/* Makes room for `floats` floats; the contents are lost. */
static int floats_reserve(const struct rows *r, float **array, size_t *capacity, size_t floats)
{
    if (floats <= *capacity)
        return 0;
    backend_host_free(r->backend, *array);
    *array = floats_new(r, floats + floats / 8);
    *capacity = 0;
    if (*array == NULL)
        return SHOAL_E_NOMEM;
    *capacity = floats + floats / 8;
    return 0;
}

/* Places each sparse table's rows: the pulled ones, and the gradients to push. */
static void stretches_place(struct rows *r)
{
    size_t pulled = 0, gradients = 0;
    for (uint32_t t = 0; t < r->sparse; t++) {
        struct rows_table *table = &r->table[t];
        table->pulled = r->floats.pulled + pulled;
        table->gradients = r->floats.gradients + gradients;
        pulled += (size_t)table->key_count * table->schema->width;
        gradients += (size_t)table->key_count * schema_push_floats(table->schema);
    }
    SHOAL_ASSERT(pulled <= r->floats.pulled_capacity && gradients <= r->floats.gradients_capacity);
}

static int sparse_reserve(struct rows *r)
{
    size_t pulled = 0, gradients = 0;
    for (uint32_t t = 0; t < r->sparse; t++) {
        pulled += (size_t)r->table[t].key_count * r->table[t].schema->width;
        gradients += (size_t)r->table[t].key_count * schema_push_floats(r->table[t].schema);
    }
    if (floats_reserve(r, &r->floats.pulled, &r->floats.pulled_capacity, pulled) != 0 ||
        floats_reserve(r, &r->floats.gradients, &r->floats.gradients_capacity, gradients) != 0)
        return SHOAL_E_NOMEM;
    stretches_place(r);
    return 0;
}

/* Copies the keys of dense tables, since frames may outlive the model. */
static int blocks_take(struct rows *r, const struct model *m)
{
    size_t total = 0, at = 0;
    const uint64_t *keys;
    const uint32_t *block;
    size_t count;
    for (uint32_t t = r->sparse; t < r->table_count; t++) {
        model_blocks(m, t > r->sparse, &keys, &block, &count);
        total += count;
    }
    r->block_keys = malloc((total + 1) * sizeof *r->block_keys);
    if (r->block_keys == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t t = r->sparse; t < r->table_count; t++) {
        struct rows_table *table = &r->table[t];
        model_blocks(m, t > r->sparse, &keys, &block, &count);
        if (count > 0)
            memcpy(r->block_keys + at, keys, count * sizeof *keys);
        table->keys = r->block_keys + at;
        table->block = block;
        table->block_count = (uint32_t)count;
        at += count;
    }
    return 0;
}

int rows_new(const struct model *m, const struct backend *backend,
             const struct table_schema *schemas, uint32_t count, uint32_t examples_max,
             uint32_t tasks, struct rows **out, struct err *e)
{
    SHOAL_ASSERT(count >= 1 && count <= MODEL_TABLES_MAX);
    struct rows *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a batch");
    batch_init(&r->batch);
    r->backend = r->batch.backend = backend;
    r->made = r->table_count = count;
    for (uint32_t t = 0; t < count; t++) {
        r->table[t].schema = &schemas[t];
        r->sparse += schemas[t].dense == 0;
        r->counts = r->counts || schemas[t].rules.stats != 0;
    }
    SHOAL_ASSERT(r->sparse == model_tables(m));
    r->reference = calloc(1, sizeof *r->reference);
    r->scores = floats_new(r, (size_t)examples_max * MAX(tasks, 1));
    if (r->reference == NULL || r->scores == NULL || blocks_take(r, m) != 0) {
        rows_free(r);
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for a batch of %u examples: make train.batch, train.prefetch or "
                       "train.lanes smaller",
                       examples_max);
    }
    atomic_init(&r->reference->count, 1);
    r->reference->rows = r;
    *out = r;
    return 0;
}

/* Makes room for counting how often keys are shown. */
static int seen_reserve(struct rows *r)
{
    uint32_t keys = r->batch.key_count;
    if (keys <= r->seen_capacity)
        return 0;
    uint32_t room = keys + keys / 8;
    free(r->seen);
    r->seen = malloc(room * sizeof *r->seen);
    r->seen_capacity = 0;
    if (r->seen == NULL)
        return SHOAL_E_NOMEM;
    r->seen_capacity = room;
    return 0;
}

/* Takes all keys of all tables; all of them are to be pulled. */
static void keys_take(struct rows *r)
{
    const struct batch *b = &r->batch;
    bool empty = b->examples == 0;
    for (uint32_t t = 0; t < r->table_count; t++) {
        struct rows_table *table = &r->table[t];
        if (t < r->sparse) {
            if (empty)
                table->keys = NULL;
            else
                table->keys = b->keys + b->table_first[t];

            if (empty)
                table->key_count = 0;
            else
                table->key_count = b->table_first[t + 1] - b->table_first[t];
            r->table_rows[t] = table->key_count;
        } else {
            table->key_count = table->block_count;
            if (empty)
                table->key_count = 0;
        }
        table->pull_keys = table->keys;
        table->pull_place = NULL;
        table->pull_count = table->key_count;
    }
}

void rows_use(struct rows *r, bool dense)
{
    SHOAL_ASSERT(rows_quiet(r)); /* 2 */
    r->table_count = r->sparse;
    if (dense)
        r->table_count = r->made;
}

int rows_reserve(struct rows *r, struct err *e)
{
    SHOAL_ASSERT(rows_quiet(r)); /* 2 */
    keys_take(r);
    int rc = sparse_reserve(r);
    for (uint32_t t = r->sparse; t < r->table_count && rc == 0; t++)
        rc = blocks_reserve(r, &r->table[t]);
    if (rc == 0)
        rc = seen_reserve(r);
    if (rc != 0)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for the rows of %u keys: use a smaller train.batch",
                       r->batch.key_count);
    r->poisoned = false;
    r->ahead.tables = r->ahead.waits = r->ahead.missed = 0;
    for (size_t i = 0; i < (size_t)r->made * r->steps_shards; i++)
        r->steps[i] = UINT64_MAX;
    for (uint32_t t = 0; t < r->table_count; t++)
        r->table[t].width = PACKED_NOT;
    return 0;
}

bool rows_has_floats(const struct rows *r)
{
    return r->floats.pulled_capacity > 0;
}

void rows_floats_swap(struct rows *r, struct rows *other)
{
    SHOAL_ASSERT(rows_quiet(r) && rows_quiet(other) && r->made == other->made);
    struct rows_floats sparse = r->floats;
    r->floats = other->floats;
    other->floats = sparse;
    for (uint32_t t = r->sparse; t < r->made; t++) {
        struct rows_table *a = &r->table[t], *b = &other->table[t], kept = *a;
        a->pulled = b->pulled;
        a->gradients = b->gradients;
        a->flat = b->flat;
        a->capacity = b->capacity;
        b->pulled = kept.pulled;
        b->gradients = kept.gradients;
        b->flat = kept.flat;
        b->capacity = kept.capacity;
    }
}

/* ---- what is pushed -------------------------------------------------------------------------- */

bool rows_part_refused(const struct rows *r, const struct part *p)
{
    const struct rows_table *t = &r->table[p->table];
    struct gradient_fault f;
    return gradient_fault_find(t->schema,
                               t->gradients + p->key_first * (size_t)schema_push_floats(t->schema),
                               p->key_count, &f);
}

void rows_check(struct rows *r)
{
    r->poisoned = false;
    for (uint32_t t = 0; t < r->table_count && !r->poisoned; t++) {
        struct part whole = {.table = t, .key_count = r->table[t].key_count};
        r->poisoned = rows_part_refused(r, &whole);
    }
}

void rows_pack(struct rows *r, enum packed_width width, uint32_t lane, uint64_t batch)
{
    for (uint32_t i = 0; i < r->sparse && !r->poisoned; i++) {
        struct rows_table *t = &r->table[i];
        t->width = packed_width(t->schema, width);
        packed_close(t->schema, t->width, lane, batch, t->keys, t->gradients, t->key_count);
    }
}

void rows_void(struct rows *r)
{
    for (uint32_t t = 0; t < r->table_count; t++)
        r->table[t].key_count = 0;
}

/* ---- parts (1) ------------------------------------------------------------------------------- */

/* The keys of a table in a push or in a pull. */
struct sent {
    const struct table_schema *schema;
    const uint64_t *keys;
    uint32_t count;
    uint32_t floats; /* for each key in the message, or in its answer */
};

static struct sent sent_of(const struct rows_table *t, bool push)
{
    if (push)
        return (struct sent){t->schema, t->keys, t->key_count, schema_push_floats(t->schema)};

    return (struct sent){t->schema, t->pull_keys, t->pull_count, t->schema->width};
}

/* The first key from `from` on that lies in `tablet` or in a later one. */
static uint32_t key_bound(const struct sent *t, uint32_t from, uint32_t tablet)
{
    unsigned bits = t->schema->tablet_bits;
    uint32_t low = from, high = t->count;
    if (tablet >= 1u << bits)
        return high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (key_tablet(key_mix(t->keys[middle]), bits) < tablet)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t keys_max(const struct sent *t)
{
    size_t fit = LIMIT_FRAME_BYTES / ((size_t)t->floats * sizeof(float));

    if (fit < LIMIT_KEYS)
        return (uint32_t)fit;

    return LIMIT_KEYS;
}

static int part_add(struct rows *r, const struct part *p, struct err *e)
{
    if (array_room(&r->part, r->part_count, &r->part_capacity, 16) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the parts of a batch");
    struct part last = {.table = p->table};
    if (r->part_count > 0 && r->part[r->part_count - 1].table == p->table)
        last = r->part[r->part_count - 1];
    SHOAL_ASSERT(p->tablet_first == last.tablet_first + last.tablet_count); /* 1 */
    SHOAL_ASSERT(p->key_first == last.key_first + last.key_count);
    r->part[r->part_count++] = *p;
    return 0;
}

/* Adds one shard's adjacent tablets as a part, or as several when the keys are too many for one
 * message. */
static int stretch_split(struct rows *r, const struct sent *t, struct part stretch, struct err *e)
{
    uint32_t end = stretch.tablet_first + stretch.tablet_count, most = keys_max(t);
    struct part p = {stretch.table, stretch.shard, stretch.tablet_first, 0, stretch.key_first, 0};
    while (p.tablet_first < end) {
        uint32_t low = p.tablet_first + 1, high = end;
        while (low < high) {
            /* the largest end whose keys fit; usually the whole stretch does at once */
            uint32_t middle = end;
            if (high != end)
                middle = low + (high - low + 1) / 2;
            if (key_bound(t, p.key_first, middle) - p.key_first <= most)
                low = middle;
            else
                high = middle - 1;
        }
        p.tablet_count = low - p.tablet_first;
        p.key_count = key_bound(t, p.key_first, low) - p.key_first;
        if (p.key_count > most)
            return err_set(e, SHOAL_E_TOO_BIG,
                           "a batch has %u keys in one tablet of table %s, a message carries %u: "
                           "use more tablets or a smaller "
                           "train.batch",
                           p.key_count, t->schema->name, most);
        int rc = part_add(r, &p, e);
        if (rc != 0)
            return rc;
        p.tablet_first = low;
        p.key_first += p.key_count;
    }
    return 0;
}

/* Room for what each shard tells with its rows. */
static int steps_reserve(struct rows *r, uint32_t shards)
{
    if (shards <= r->steps_shards)
        return 0;
    size_t count = (size_t)r->made * shards;
    uint64_t *steps = malloc(count * sizeof *steps);
    if (steps == NULL)
        return SHOAL_E_NOMEM;
    for (size_t i = 0; i < count; i++)
        steps[i] = UINT64_MAX;
    free(r->steps);
    r->steps = steps;
    r->steps_shards = shards;
    return 0;
}

int rows_split(struct rows *r, const struct map *map, bool push, struct err *e)
{
    r->part_count = 0;
    if (steps_reserve(r, map->shard_count) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a batch of %u shards", map->shard_count);
    for (uint32_t table = 0; table < r->table_count; table++) {
        struct sent sent = sent_of(&r->table[table], push);
        const struct table_schema *s = sent.schema;
        uint32_t first = s->tablet_first, end = first + (1u << s->tablet_bits), key = 0;
        if (end > map->tablet_count)
            return err_set(e, SHOAL_E_INTERNAL,
                           "the map has %u tablets, table %s needs them up to %u",
                           map->tablet_count, s->name, end);
        while (first < end) {
            uint32_t count = map_stretch(map, first, end);
            struct part p = {table, map->shard[first], first - s->tablet_first, count, key, 0};
            int rc = stretch_split(r, &sent, p, e);
            if (rc != 0)
                return rc;
            first += count;
            key = r->part[r->part_count - 1].key_first + r->part[r->part_count - 1].key_count;
        }
        const struct part *last = &r->part[r->part_count - 1];
        SHOAL_ASSERT(key == sent.count &&
                     last->tablet_first + last->tablet_count == 1u << s->tablet_bits); /* 1 */
    }
    return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int frame_borrow(struct rows *r, struct msg *m, const void *data, size_t bytes)
{
    if (bytes == 0 && msg_add(m, 0) == NULL)
        return SHOAL_E_NOMEM;
    if (bytes == 0)
        return 0;
    atomic_fetch_add_explicit(&r->reference->count, 1, memory_order_relaxed);
    int rc = msg_add_borrowed(m, (void *)(uintptr_t)data, bytes, frame_returned, r->reference);
    if (rc != 0)
        reference_drop(r->reference);
    return rc;
}

int rows_add_keys(struct rows *r, const struct part *p, bool push, struct msg *m)
{
    struct sent sent = sent_of(&r->table[p->table], push);
    SHOAL_ASSERT(p->key_first <= sent.count && p->key_count <= sent.count - p->key_first);
    return frame_borrow(r, m, sent.keys + p->key_first, (size_t)p->key_count * sizeof(uint64_t));
}

int rows_add_gradients(struct rows *r, const struct part *p, struct msg *m)
{
    const struct rows_table *t = &r->table[p->table];
    size_t bytes = packed_bytes(t->schema, t->width);
    SHOAL_ASSERT(p->key_first <= t->key_count && p->key_count <= t->key_count - p->key_first);
    return frame_borrow(r, m, (const char *)t->gradients + p->key_first * bytes,
                        p->key_count * bytes);
}
