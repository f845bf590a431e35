/* flush_batch.c: assembles a batch for the store: pairs, images, deletions, the control state.
 * Values are in one buffer, which is made for the first batch and reused. */
#include "embedding/engine/flush.h"
#include "embedding/engine/reload.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

size_t flush_batch_bytes(const struct engine *g)
{
    uint64_t share = g->options.memory / 32, least = 256u << 10;
    if (g->options.memory == 0 || share > FLUSH_BATCH_BYTES)
        return FLUSH_BATCH_BYTES;
    return MAX(share, least);
}

size_t flush_bytes(const struct engine *g)
{
    return g->flush.bytes;
}

struct flush_mark flush_mark(const struct engine *g)
{
    return (struct flush_mark){g->flush.items, g->flush.bytes};
}

void flush_back(struct engine *g, struct flush_mark mark)
{
    SHOAL_ASSERT(mark.items <= g->flush.items && mark.bytes <= g->flush.bytes);
    g->flush.items = mark.items;
    g->flush.bytes = mark.bytes;
}

bool flush_room(struct engine *g, size_t items, size_t bytes)
{
    struct flush_state *f = &g->flush;
    if (f->items + items > f->item_room &&
        array_reserve(&f->item, f->items + items + 4096, &f->item_room) != 0)
        return false;
    if (f->bytes + bytes <= f->capacity)
        return true;
    if (f->items > 0) /* existing values must not move */
        return false;
    size_t capacity = flush_batch_bytes(g);
    capacity = MAX(capacity, bytes);
    free(f->buffer);
    f->buffer = malloc(capacity);
    f->capacity = 0;
    if (f->buffer == NULL)
        return false;
    f->capacity = capacity;
    return true;
}

void *flush_put(struct engine *g, const struct store_item *key, size_t bytes)
{
    struct flush_state *f = &g->flush;
    SHOAL_ASSERT(f->items < f->item_room && f->bytes + bytes <= f->capacity);
    struct store_item *item = &f->item[f->items++];
    *item = *key;
    item->value = f->buffer + f->bytes;
    item->value_bytes = bytes;
    f->bytes += bytes;
    return f->buffer + f->bytes - bytes;
}

void flush_put_value(struct engine *g, const struct store_item *key, const void *value,
                     size_t bytes)
{
    struct flush_state *f = &g->flush;
    SHOAL_ASSERT(f->items < f->item_room);
    struct store_item *item = &f->item[f->items++];
    *item = *key;
    item->value = value;
    item->value_bytes = bytes;
}

static uint64_t half_row_of(const struct store_item *item, size_t half)
{
    uint64_t word;
    memcpy(&word, item->key + half * sizeof word, sizeof word);
    return __builtin_bswap64(word);
}

static bool is_behind(const struct store_item *a, const struct store_item *b)
{
    uint64_t of_a = half_row_of(a, 0), of_b = half_row_of(b, 0);

    if (of_a == of_b)
        return half_row_of(a, 1) > half_row_of(b, 1);

    return of_a > of_b;
}

/* Keys of stored_row_key are big-endian and of one length, so two words hold them. */
void flush_sort(struct engine *g, struct flush_mark from)
{
    struct store_item *item = g->flush.item;
    SHOAL_ASSERT(from.items <= g->flush.items);
    for (size_t i = from.items + 1; i < g->flush.items; i++) {
        struct store_item one = item[i];
        size_t to = i;
        SHOAL_ASSERT(one.key_bytes == item[from.items].key_bytes);
        for (; to > from.items && is_behind(&item[to - 1], &one); to--)
            item[to] = item[to - 1];
        if (to < i)
            item[to] = one;
    }
}

void flush_put_gone(struct engine *g, uint32_t table, uint32_t tablet)
{
    struct flush_state *f = &g->flush;
    const uint64_t *gone;
    const struct table *t = g->table[table].table;
    uint32_t count = table_cold_gone(t, tablet, &gone);
    SHOAL_ASSERT(f->items + count <= f->item_room);
    for (uint32_t i = 0; i < count; i++) {
        struct store_item *item = &f->item[f->items++];
        stored_row_key(table, tablet, table_cold_epoch(t, tablet), gone[i], item);
        item->value = NULL;
        item->value_bytes = 0;
    }
}

/* Pairs of older epochs are needed until an image of this epoch is written: they are deleted after
 * it. Without memory for the note a later image does it. */
static void note_stale(struct engine *g, uint32_t table, uint32_t tablet)
{
    struct flush_state *f = &g->flush;
    if (!table_cold_stale(g->table[table].table, tablet))
        return;
    if (array_room(&f->stale, f->stale_count, &f->stale_room, 64) != 0)
        return;
    f->stale[f->stale_count++] =
        (struct stale){table, tablet, table_cold_epoch(g->table[table].table, tablet)};
}

int flush_drop_stale(const struct engine *g, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < g->flush.stale_count && rc == 0; i++) {
        const struct stale *s = &g->flush.stale[i];
        struct store_item from, own, below;
        stored_row_range(s->table, s->tablet, 0, &from, &below);
        stored_row_range(s->table, s->tablet, s->epoch, &own, &below);
        rc = store_drop(g->store, &from, &own, e);
        if (rc != 0)
            return rc;
        stored_row_range(s->table, s->tablet, STORED_EPOCH_MAX, &own, &from);
        rc = store_drop(g->store, &below, &from, e);
    }
    return rc;
}

void flush_put_image(struct engine *g, uint32_t table, uint32_t tablet, uint64_t sequence)
{
    struct engine_table *t = &g->table[table];
    struct store_item item;
    SHOAL_ASSERT(tablet < t->scope.tablets);
    SHOAL_ASSERT(!reload_is_away(g, table, tablet)); /* reload.c, 1: its rows would be lost */
    SHOAL_ASSERT(g->pending == 0);                   /* flush.c, 1 */
    /* in recovery the replayed record may be older than the tablet's image */
    if (sequence < t->durable[tablet])
        sequence = t->durable[tablet];
    size_t bytes = stored_tablet_bytes(t->table, &g->runs, tablet);
    stored_tablet_key(table, tablet, &item);
    stored_tablet_write(t->table, &g->runs, tablet, sequence, flush_put(g, &item, bytes));
    table_cold_gone_clear(t->table, tablet);
    t->written[tablet] = sequence;
    note_stale(g, table, tablet);
}

void flush_put_copy(struct engine *g, uint32_t table, uint32_t tablet, uint64_t sequence)
{
    const struct table *t = g->table[table].table;
    struct store_item item;
    size_t bytes = stored_tablet_bytes(t, &g->runs, tablet);
    stored_tablet_key(table, tablet, &item);
    stored_tablet_write(t, &g->runs, tablet, sequence, flush_put(g, &item, bytes));
}

int flush_copy_image(struct store *to, const struct table *t, const struct runs *runs,
                     uint32_t tablet, uint64_t sequence, uint64_t *bytes, struct err *e)
{
    const struct table_schema *s = table_schema_of(t);
    struct store_item item;
    size_t count = stored_tablet_bytes(t, runs, tablet);
    void *value = malloc(count);
    if (value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to write tablet %u of table %s", tablet,
                       s->name);
    stored_tablet_key(s->table, tablet, &item);
    stored_tablet_write(t, runs, tablet, sequence, value);
    item.value = value;
    item.value_bytes = count;
    int rc = store_write(to, &item, 1, e);
    free(value);
    *bytes += count;
    return rc;
}

uint64_t flush_written_floor(const struct engine *g, struct table_set but, uint64_t sequence)
{
    uint64_t floor = sequence;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct engine_table *t = &g->table[i];
        const bool counts = t->table != NULL && !table_set_has(&but, i);
        for (uint32_t k = 0; counts && k < t->scope.tablets; k++) {
            SHOAL_ASSERT(t->written[k] <= sequence); /* recover.c, 3 */
            SHOAL_ASSERT(t->durable[k] <= t->written[k]);
            if (t->changed[k] > t->written[k] && t->written[k] < floor)
                floor = t->written[k];
        }
    }
    return floor;
}

int flush_put_control(struct engine *g, uint64_t sequence)
{
    struct flush_state *f = &g->flush;
    struct table *list[LIMIT_TABLES];
    struct store_item item;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        list[i] = g->table[i].table;
    int rc = stored_control_write(
        list, &g->runs,
        (struct stored_as_of){sequence, flush_written_floor(g, TABLE_SET_NONE, sequence), g->terms},
        &f->control, &item.value_bytes);
    if (rc != 0)
        return rc;
    stored_control_key(&item);
    flush_put_value(g, &item, f->control, item.value_bytes); /* the caller made room */
    f->control_seq = g->control_written = sequence;
    return 0;
}

#define REWRITE_AGAIN 20u /* failed checks before it is repeated */
#define REWRITE_LOOKS 400u

int flush_rewrite(struct store *s, struct err *e)
{
    int rc = store_compact(s, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < REWRITE_LOOKS && (rc = store_compacted(s, e)) == SHOAL_E_AGAIN; i++) {
        offload_pause();
        if (i == REWRITE_AGAIN && (rc = store_compact(s, e)) != 0)
            return rc;
    }
    if (rc != SHOAL_E_AGAIN)
        return rc;
    if (e != NULL)
        e->code = SHOAL_E_IO;
    return SHOAL_E_IO;
}

bool flush_overgrown(struct store *s, uint64_t images)
{
    struct store_space is = store_space(s);
    /* two whole copies of all images take a little less than twice `images` */
    uint64_t twice = 2 * images - images / 64;
    return is.large > twice && is.large - images > is.small;
}

int flush_tidy_table(struct store *s, uint32_t table, struct err *e)
{
    struct store_item image, no_image, row, no_row;
    stored_tablet_key(table, 0, &image);
    stored_tablet_key(table + 1, 0, &no_image);
    stored_table_rows(table, &row, &no_row);
    int rc = store_tidy(s, &image, &no_image, e);
    if (rc != 0)
        return rc;
    return store_tidy(s, &row, &no_row, e);
}

int flush_tidy(struct store *s, struct err *e)
{
    struct store_item from, below;
    stored_tablet_key(0, 0, &from);
    stored_tablet_key(LIMIT_TABLES, 0, &below);
    return store_tidy(s, &from, &below, e);
}
