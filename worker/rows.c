/* rows.c: the memory of one batch.
 *
 * 1. Parts of a table are in order of tablets, touch one another and cover all its tablets: so pushes of all parts
 * cover every tablet once.
 * 2. The arrays of a rows are not written while a frame borrows from them: rows_quiet is asked before the memory is
 * used for another batch. */
#include "worker/rows.h"
#include "proto/base/assert.h"
#include "proto/base/gradient.h"
#include "proto/base/hash.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct rows_reference {
    atomic_uint count;
    struct rows *rows;
};

/* ---- life ------------------------------------------------------------------------------------------------- */

static void rows_free(struct rows *r)
{
    batch_free(&r->batch);
    for (uint32_t t = 0; t < r->table_count; t++) {
        backend_host_free(r->backend, r->table[t].pulled);
        backend_host_free(r->backend, r->table[t].gradients);
        backend_host_free(r->backend, r->table[t].flat);
    }
    free(r->block_keys);
    backend_host_free(r->backend, r->scores);
    free(r->plan.fresh);
    free(r->plan.source);
    free(r->plan.keep);
    free(r->seen);
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

/* What a device reads and writes. Never without a byte: an empty array has an address too. */
static float *floats_new(const struct rows *r, size_t count)
{
    return backend_host_alloc(r->backend, (count * sizeof(float) + 127) & ~(size_t)63);
}

/* Room for `count` rows of a table; old content is not kept. */
static int table_reserve(const struct rows *r, struct rows_table *t, size_t count)
{
    size_t width = t->schema->width;

    if (count <= t->capacity)
        return 0;
    size_t room = t->block != NULL ? count : count + count / 8;
    backend_host_free(r->backend, t->pulled);
    backend_host_free(r->backend, t->gradients);
    backend_host_free(r->backend, t->flat);
    t->capacity = 0;
    t->pulled = floats_new(r, room * width);
    t->gradients = floats_new(r, room * schema_push_floats(t->schema));
    t->flat = t->block == NULL ? NULL : floats_new(r, room * width);
    if (t->pulled == NULL || t->gradients == NULL || (t->block != NULL && t->flat == NULL))
        return SHOAL_E_NOMEM;
    t->capacity = room;
    return 0;
}

/* Dense tables: keys copied, since frames may outlive the model. */
static int blocks_take(struct rows *r, const struct model *m)
{
    size_t total = 0, at = 0;
    const uint64_t *keys;
    const uint32_t *block;
    size_t count;

    for (uint32_t t = 1; t < r->table_count; t++) {
        model_blocks(m, t, &keys, &block, &count);
        total += count;
    }
    r->block_keys = malloc((total + 1) * sizeof *r->block_keys);
    if (r->block_keys == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t t = 1; t < r->table_count; t++) {
        struct rows_table *table = &r->table[t];
        model_blocks(m, t, &keys, &block, &count);
        if (count > 0)
            memcpy(r->block_keys + at, keys, count * sizeof *keys);
        table->keys = r->block_keys + at;
        table->block = block;
        table->block_count = (uint32_t)count;
        at += count;
    }
    return 0;
}

int rows_new(const struct model *m, const struct backend *backend, const struct table_schema *schemas, uint32_t count,
             uint32_t examples_max, uint32_t tasks, struct rows **out, struct err *e)
{
    SHOAL_ASSERT(count >= 1 && count <= MODEL_TABLES_MAX);
    struct rows *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a batch");
    batch_init(&r->batch);
    r->backend = r->batch.backend = backend;
    r->table_count = count;
    for (uint32_t t = 0; t < count; t++)
        r->table[t].schema = &schemas[t];
    r->reference = calloc(1, sizeof *r->reference);
    r->scores = floats_new(r, (size_t)examples_max * (tasks > 0 ? tasks : 1));
    if (r->reference == NULL || r->scores == NULL || blocks_take(r, m) != 0) {
        rows_free(r);
        return err_set(e, SHOAL_E_NOMEM, "no memory for a batch of %u examples", examples_max);
    }
    atomic_init(&r->reference->count, 1);
    r->reference->rows = r;
    *out = r;
    return 0;
}

/* What counting the shows of keys needs. */
static int seen_reserve(struct rows *r)
{
    const struct rows_table *sparse = &r->table[MODEL_SPARSE_TABLE];

    if (sparse->schema->rules.stats == 0 || sparse->key_count <= r->seen_capacity)
        return 0;
    uint32_t room = sparse->key_count + sparse->key_count / 8;
    free(r->seen);
    r->seen = malloc(room * sizeof *r->seen);
    r->seen_capacity = r->seen == NULL ? 0 : room;
    return r->seen == NULL ? SHOAL_E_NOMEM : 0;
}

int rows_reserve(struct rows *r, struct err *e)
{
    struct rows_table *sparse = &r->table[MODEL_SPARSE_TABLE];
    bool empty = r->batch.examples == 0;

    sparse->keys = r->batch.keys;
    sparse->key_count = empty ? 0 : r->batch.key_count;
    for (uint32_t t = 1; t < r->table_count; t++)
        r->table[t].key_count = empty ? 0 : r->table[t].block_count;
    for (uint32_t t = 0; t < r->table_count; t++) {
        struct rows_table *table = &r->table[t];
        table->pull_keys = table->keys;
        table->pull_count = table->key_count;
        if (table_reserve(r, table, table->key_count) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the rows of %u keys: use a smaller train.batch",
                           table->key_count);
    }
    if (seen_reserve(r) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory to count the shows of %u keys: use a smaller train.batch",
                       sparse->key_count);
    r->planned = r->poisoned = false;
    return 0;
}

bool rows_has_floats(const struct rows *r)
{
    return r->table[MODEL_SPARSE_TABLE].capacity > 0;
}

void rows_floats_swap(struct rows *r, struct rows *other)
{
    SHOAL_ASSERT(rows_quiet(r) && rows_quiet(other) && r->table_count == other->table_count);
    for (uint32_t t = 0; t < r->table_count; t++) {
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

/* ---- what is pulled, what is pushed ----------------------------------------------------------------------- */

static int plan_reserve(struct rows *r, uint32_t count)
{
    struct row_plan *p = &r->plan;

    if (count <= r->plan_capacity)
        return 0;
    uint32_t room = count + count / 8;
    free(p->fresh);
    free(p->source);
    free(p->keep);
    r->plan_capacity = 0;
    p->fresh = malloc(room * sizeof *p->fresh);
    p->source = malloc(room * sizeof *p->source);
    p->keep = malloc(2 * (size_t)room * sizeof *p->keep);
    if (p->fresh == NULL || p->source == NULL || p->keep == NULL)
        return SHOAL_E_NOMEM;
    r->plan_capacity = room;
    return 0;
}

int rows_plan(struct rows *r, struct row_cache *cache, uint64_t batch, struct err *e)
{
    struct rows_table *sparse = &r->table[MODEL_SPARSE_TABLE];

    if (plan_reserve(r, sparse->key_count) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory to look %u keys up in the cache: use a smaller train.batch",
                       sparse->key_count);
    row_cache_plan(cache, batch, sparse->keys, sparse->key_count, &r->plan);
    sparse->pull_keys = r->plan.fresh;
    sparse->pull_count = r->plan.fresh_count;
    r->planned = true;
    return 0;
}

bool rows_part_refused(const struct rows *r, const struct part *p)
{
    const struct rows_table *t = &r->table[p->table];
    struct gradient_fault f;

    return gradient_fault_find(t->schema, t->gradients + p->key_first * (size_t)schema_push_floats(t->schema), p->key_count,
                               &f);
}

void rows_check(struct rows *r)
{
    r->poisoned = false;
    for (uint32_t t = 0; t < r->table_count && !r->poisoned; t++) {
        struct part whole = {.table = t, .key_count = r->table[t].key_count};
        r->poisoned = rows_part_refused(r, &whole);
    }
}

void rows_void(struct rows *r)
{
    for (uint32_t t = 0; t < r->table_count; t++)
        r->table[t].key_count = 0;
}

/* ---- parts (1) -------------------------------------------------------------------------------------------- */

/* The keys of a table that go out: those of a push, or of a pull. */
struct sent {
    const struct table_schema *schema;
    const uint64_t *keys;
    uint32_t count;
    uint32_t floats; /* of a key in the message, or in its answer */
};

static struct sent sent_of(const struct rows_table *t, bool push)
{
    return push ? (struct sent){t->schema, t->keys, t->key_count, schema_push_floats(t->schema)}
                : (struct sent){t->schema, t->pull_keys, t->pull_count, t->schema->width};
}

/* The first key from `from` on that lies in tablet `tablet` or beyond. */
static uint32_t key_bound(const struct sent *t, uint32_t from, uint32_t tablet)
{
    unsigned bits = t->schema->tablet_bits;
    uint32_t low = from, high = t->count;

    if (tablet >= 1u << bits)
        return high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (mixed_tablet(key_mix(t->keys[middle]), bits) < tablet)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t keys_max(const struct sent *t)
{
    size_t fit = LIMIT_FRAME_BYTES / ((size_t)t->floats * sizeof(float));

    return fit < LIMIT_KEYS ? (uint32_t)fit : LIMIT_KEYS;
}

static int part_add(struct rows *r, const struct part *p, struct err *e)
{
    if (r->part_count == r->part_capacity) {
        uint32_t capacity = r->part_capacity == 0 ? 16 : r->part_capacity * 2;
        struct part *more = realloc(r->part, capacity * sizeof *more);
        if (more == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the parts of a batch");
        r->part = more;
        r->part_capacity = capacity;
    }
    r->part[r->part_count++] = *p;
    return 0;
}

/* One shard's stretch of tablets: one part, or several when the keys are too many for one message. */
static int stretch_split(struct rows *r, const struct sent *t, struct part stretch, struct err *e)
{
    uint32_t end = stretch.tablet_first + stretch.tablet_count, most = keys_max(t);
    struct part p = {stretch.table, stretch.shard, stretch.tablet_first, 0, stretch.key_first, 0};

    while (p.tablet_first < end) {
        uint32_t low = p.tablet_first + 1, high = end;
        while (low < high) { /* the largest end whose keys fit; a whole stretch mostly does at the first look */
            uint32_t middle = high == end ? end : low + (high - low + 1) / 2;
            if (key_bound(t, p.key_first, middle) - p.key_first <= most)
                low = middle;
            else
                high = middle - 1;
        }
        p.tablet_count = low - p.tablet_first;
        p.key_count = key_bound(t, p.key_first, low) - p.key_first;
        if (p.key_count > most)
            return err_set(
                e, SHOAL_E_TOO_BIG,
                "a batch has %u keys in one tablet of table %s, a message carries %u: use more tablets or a smaller "
                "train.batch",
                p.key_count, t->schema->name, most);
        int status = part_add(r, &p, e);
        if (status != 0)
            return status;
        p.tablet_first = low;
        p.key_first += p.key_count;
    }
    return 0;
}

int rows_split(struct rows *r, const struct map *map, bool push, struct err *e)
{
    r->part_count = 0;
    for (uint32_t table = 0; table < r->table_count; table++) {
        struct sent sent = sent_of(&r->table[table], push);
        const struct table_schema *s = sent.schema;
        uint32_t first = s->tablet_first, end = first + (1u << s->tablet_bits), key = 0;
        if (end > map->tablet_count)
            return err_set(e, SHOAL_E_INTERNAL, "the map has %u tablets, table %s needs them up to %u",
                           map->tablet_count, s->name, end);
        while (first < end) {
            uint32_t count = map_stretch(map, first, end);
            struct part p = {table, map->shard[first], first - s->tablet_first, count, key, 0};
            int status = stretch_split(r, &sent, p, e);
            if (status != 0)
                return status;
            first += count;
            key = r->part[r->part_count - 1].key_first + r->part[r->part_count - 1].key_count;
        }
        SHOAL_ASSERT(key == sent.count);
    }
    return 0;
}

/* ---- frames ----------------------------------------------------------------------------------------------- */

static int frame_borrow(struct rows *r, struct msg *m, const void *data, size_t bytes)
{
    if (bytes == 0)
        return msg_add(m, 0) == NULL ? SHOAL_E_NOMEM : 0;
    atomic_fetch_add_explicit(&r->reference->count, 1, memory_order_relaxed);
    int status = msg_add_borrowed(m, (void *)(uintptr_t)data, bytes, frame_returned, r->reference);
    if (status != 0)
        reference_drop(r->reference);
    return status;
}

int rows_add_keys(struct rows *r, const struct part *p, bool push, struct msg *m)
{
    struct sent sent = sent_of(&r->table[p->table], push);

    return frame_borrow(r, m, sent.keys + p->key_first, (size_t)p->key_count * sizeof(uint64_t));
}

int rows_add_gradients(struct rows *r, const struct part *p, struct msg *m)
{
    const struct rows_table *t = &r->table[p->table];
    size_t floats = schema_push_floats(t->schema);

    return frame_borrow(r, m, t->gradients + p->key_first * floats, p->key_count * floats * sizeof(float));
}

void rows_take(struct rows *r, const struct part *p, const float *rows)
{
    struct rows_table *t = &r->table[p->table];
    size_t width = t->schema->width;

    if (t->block == NULL) {
        memcpy(t->pulled + p->key_first * width, rows, p->key_count * width * sizeof(float));
        return;
    }
    for (uint32_t i = 0; i < p->key_count; i++)
        memcpy(t->pulled + t->block[p->key_first + i] * width, rows + i * width, width * sizeof(float));
}

/* Room for shows and clicks behind each gradient. From the last one on, so that none is overwritten before it moves. */
static void gradients_spread(struct rows_table *t, size_t width, size_t floats)
{
    for (uint32_t i = t->key_count; i-- > 0;) {
        float *at = t->gradients + i * floats;
        memmove(at, t->gradients + i * width, width * sizeof(float));
        memset(at + width, 0, (floats - width) * sizeof(float));
    }
}

/* A key may stand several times in one example (a field of several values, or one that shares another's rows): it is
 * shown once. */
static void statistics_count(struct rows *r, size_t width, size_t floats)
{
    const struct batch *b = &r->batch;
    float *statistics = r->table[MODEL_SPARSE_TABLE].gradients + width;

    memset(r->seen, 0, b->key_count * sizeof *r->seen);
    for (uint32_t i = 0; i < b->examples; i++) {
        size_t first = (size_t)i * b->fields, end = first + b->fields;
        float click = b->label[(size_t)i * b->tasks];
        if (b->offset != NULL) {
            first = b->offset[first];
            end = b->offset[end];
        }
        for (size_t v = first; v < end; v++) {
            uint32_t key = b->index[v];
            if (r->seen[key] == i + 1)
                continue;
            r->seen[key] = i + 1;
            statistics[key * floats] += 1.0f;
            statistics[key * floats + 1] += click;
        }
    }
}

void rows_gather(struct rows *r)
{
    struct rows_table *sparse = &r->table[MODEL_SPARSE_TABLE];

    if (sparse->schema->rules.stats != 0) {
        size_t floats = schema_push_floats(sparse->schema);
        gradients_spread(sparse, sparse->schema->width, floats);
        statistics_count(r, sparse->schema->width, floats);
    }
    for (uint32_t table = 1; table < r->table_count; table++) {
        struct rows_table *t = &r->table[table];
        size_t width = t->schema->width;
        for (uint32_t i = 0; i < t->key_count; i++)
            memcpy(t->gradients + i * width, t->flat + t->block[i] * width, width * sizeof(float));
    }
}

void rows_input(const struct rows *r, struct model_input *in)
{
    *in = (struct model_input){.examples = r->batch.examples,
                               .label = r->batch.label,
                               .weight = r->batch.weight,
                               .numeric = r->batch.numeric,
                               .index = r->batch.index,
                               .offset = r->batch.offset,
                               .row_count = r->batch.key_count,
                               .fresh_count = r->table[MODEL_SPARSE_TABLE].pull_count,
                               .rows = r->table[MODEL_SPARSE_TABLE].pulled};
    if (r->planned) {
        in->source = r->plan.source;
        in->keep = r->plan.keep;
        in->keep_count = r->plan.keep_count;
    }
    if (r->table_count > MODEL_DENSE_TABLE)
        in->dense = r->table[MODEL_DENSE_TABLE].pulled;
    if (r->table_count > MODEL_STATS_TABLE)
        in->stats = r->table[MODEL_STATS_TABLE].pulled;
}

void rows_output(struct rows *r, struct model_output *out)
{
    *out = (struct model_output){.row_gradients = r->table[MODEL_SPARSE_TABLE].gradients, .scores = r->scores};
    if (r->table_count > MODEL_DENSE_TABLE)
        out->dense_gradients = r->table[MODEL_DENSE_TABLE].flat;
    if (r->table_count > MODEL_STATS_TABLE)
        out->stats_gradients = r->table[MODEL_STATS_TABLE].flat;
}
