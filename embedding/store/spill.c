/* spill.c: writes rows to the store without an image. */
#include "embedding/store/spill.h"

#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_LEAST (256u << 10)
#define BATCH_MOST (8u << 20)

void spill_init(struct spill *s, struct store *store, uint64_t memory)
{
    uint64_t batch = memory / 32;
    *s = (struct spill){.store = store};
    if (batch < BATCH_LEAST)
        s->batch = BATCH_LEAST;
    else if (batch > BATCH_MOST)
        s->batch = BATCH_MOST;
    else
        s->batch = (size_t)batch;
    s->flush_every = s->batch;
    SHOAL_ASSERT(s->batch >= BATCH_LEAST && s->batch <= BATCH_MOST);
}

void spill_free(struct spill *s)
{
    SHOAL_ASSERT(s->items <= s->items_most);
    free(s->value);
    free(s->item);
}

/* A memtable holds writes until it is flushed: it must not exceed the store's share of memory. */
static int write_out(struct spill *s)
{
    SHOAL_ASSERT(s->items <= s->items_most && s->bytes <= s->batch);
    if (s->items == 0)
        return 0;
    int rc = store_write(s->store, s->item, s->items, s->err);
    s->since_flush += s->bytes;
    s->items = s->bytes = 0;
    if (rc != 0 || s->since_flush < s->flush_every)
        return rc;
    if (s->on_flush != NULL)
        rc = s->on_flush(s->context, s->err);
    if (rc == 0)
        rc = store_flush(s->store, s->err);
    s->since_flush = 0;
    return rc;
}

struct leaving {
    struct spill *s;
    uint32_t table, tablet, epoch;
};

/* Makes room for one more pair. 0, or the error of a write. */
static int next_item(struct spill *s, size_t bytes, struct store_item **item)
{
    int rc = 0;
    if (s->items == s->items_most || s->bytes + bytes > s->batch)
        rc = write_out(s);
    SHOAL_ASSERT(rc != 0 || (s->items < s->items_most && s->bytes + bytes <= s->batch));
    if (rc == 0)
        *item = &s->item[s->items++];
    return rc;
}

/* Deletes pairs of rows that went for good before it writes others: such a key may have a row
 * again, among those. */
static int put_gone(struct spill *s, struct table *t, uint32_t tablet)
{
    const uint64_t *gone;
    uint32_t count = table_cold_gone(t, tablet, &gone);
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct store_item *item;
        if ((rc = next_item(s, 0, &item)) == 0) {
            stored_row_key(table_schema_of(t)->table, tablet, table_cold_epoch(t, tablet), gone[i],
                           item);
            item->value = NULL;
            item->value_bytes = 0;
        }
    }
    if (rc == 0)
        table_cold_gone_clear(t, tablet);
    return rc;
}

static int put(void *context, uint64_t key, const void *row, size_t row_bytes, uint32_t clock)
{
    const struct leaving *l = context;
    struct spill *s = l->s;
    size_t bytes = row_bytes + sizeof clock;
    struct store_item *item;
    int rc = next_item(s, bytes, &item);
    if (rc != 0)
        return rc;
    char *value = s->value + s->bytes;
    stored_row_key(l->table, l->tablet, l->epoch, key, item);
    memcpy(value, row, row_bytes);
    memcpy(value + row_bytes, &clock, sizeof clock);
    item->value = value;
    item->value_bytes = bytes;
    s->bytes += bytes;
    return 0;
}

static int reserve(struct spill *s, size_t row_bytes)
{
    /* it was made for rows of another table */
    SHOAL_ASSERT(s->value == NULL || row_bytes <= s->batch);
    if (s->value != NULL)
        return 0;
    if (s->batch < row_bytes)
        s->batch = row_bytes;
    s->items_most = s->batch / 128 + 1;
    s->value = malloc(s->batch);
    s->item = malloc(s->items_most * sizeof *s->item);

    if (s->value == NULL || s->item == NULL)
        return SHOAL_E_NOMEM;

    return 0;
}

int spill_tablet(struct spill *s, struct table *t, uint32_t tablet, bool fresh, uint32_t most,
                 uint32_t *count, struct err *e)
{
    const struct table_schema *schema = table_schema_of(t);
    struct leaving l = {s, schema->table, tablet, table_cold_epoch(t, tablet)};
    uint32_t chosen;
    *count = 0;
    s->err = e;
    SHOAL_ASSERT(table_cold_may(t) && s->items == 0);
    int rc = reserve(s, table_cold_bytes(t));
    if (rc == 0 && fresh)
        rc = put_gone(s, t, tablet);
    if (rc == 0)
        rc = table_cold_choose(t, tablet, most, put, &l, &chosen);
    if (rc == 0)
        rc = write_out(s);
    if (rc == 0)
        rc = table_cold_drop(t, tablet, count);
    if (rc != SHOAL_E_NOMEM)
        return rc;

    return err_set(e, rc, "no memory to move rows of table %s to the store", schema->name);
}
