/* keep.c: table_keep: rebuilds a tablet without the rows that go. */
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define KEEP_AHEAD 3u

static int undo_keep_gone(struct table *t, uint32_t tablet, uint64_t key, const float *weights,
                          uint64_t clock)
{
    int rc = table_undo_keep(t, tablet, key, weights, clock);
    if (rc == 0) {
        SHOAL_ASSERT(t->tablets[tablet].undo->clock == clock);
        t->tablets[tablet].undo->went = true;
        t->undo_went = clock;
    }
    return rc;
}

/* Asks for every row, and lists those that stay. */
static int ask(struct table *t, uint32_t tablet, table_stays stays, void *context,
               uint64_t undo_clock, struct kept_row *list, uint32_t *count)
{
    const struct tablet *own = &t->tablets[tablet];
    for (uint32_t b = 0; b < own->bucket_count; b++) {
        if (b + KEEP_AHEAD < own->bucket_count)
            for (uint32_t i = 0; i < own->buckets[b + KEEP_AHEAD].count; i++)
                walk_prefetch(row_at(&t->shape, own->buckets[b + KEEP_AHEAD].row[i]) + t->stats_at,
                              sizeof(struct row_stats), false);
        for (uint32_t i = 0; i < own->buckets[b].count; i++) {
            uint64_t key = own->buckets[b].key[i];
            float *row = row_at(&t->shape, own->buckets[b].row[i]);
            if (stays(context, key, row))
                list[(*count)++] = (struct kept_row){key, own->buckets[b].row[i],
                                                     bucket_notes(&own->buckets[b], i)};
            else if ((undo_clock != 0 &&
                      undo_keep_gone(t, tablet, key, table_open(t, row), undo_clock) != 0) ||
                     (own->cold != NULL && cold_gone_add(own->cold, key) != 0))
                return SHOAL_E_NOMEM;
        }
    }
    return 0;
}

int table_rebuild(struct table *t, uint32_t tablet, const struct kept_row *list, uint32_t count)
{
    struct tablet *own = &t->tablets[tablet], fresh;
    SHOAL_ASSERT(tablet < t->tablet_count && count <= own->row_count);
    tablet_init(&fresh);
    int rc = 0;
    if (count > 0)
        rc = tablet_reserve(&fresh, &t->shape, tablet, count);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        float *row = tablet_insert_noted(&fresh, &t->shape, tablet, list[i].key, list[i].notes);
        if (row == NULL)
            rc = SHOAL_E_NOMEM;
        else
            memcpy(row, row_at(&t->shape, list[i].row), t->shape.row_bytes);
    }
    SHOAL_ASSERT(rc != 0 || fresh.row_count == count);
    if (rc == 0) {
        fresh.batches = own->batches;

        fresh.undo = own->undo;
        fresh.life = own->life;
        fresh.cold = own->cold;
        own->undo = NULL;
        own->life = NULL;
        own->cold = NULL;
        struct tablet old = *own;
        *own = fresh;
        fresh = old;
    }
    SHOAL_ASSERT(fresh.undo == NULL && fresh.life == NULL && fresh.cold == NULL);
    tablet_clear(&fresh, &t->shape);
    return rc;
}

int table_keep(struct table *t, uint32_t tablet, table_stays stays, void *context,
               uint64_t undo_clock, uint64_t *gone)
{
    uint32_t rows = t->tablets[tablet].row_count, count = 0;
    struct kept_row *list = malloc((rows + 1ULL) * sizeof *list);
    if (list == NULL)
        return SHOAL_E_NOMEM;
    int rc = ask(t, tablet, stays, context, undo_clock, list, &count);
    SHOAL_ASSERT(count <= rows);
    *gone = 0;
    if (rc == 0)
        *gone = rows - count;
    if (*gone > 0)
        rc = table_rebuild(t, tablet, list, count);
    SHOAL_ASSERT(rc != 0 || (t->tablets[tablet].row_count == count && t->rows >= *gone));
    if (rc == 0)
        t->rows -= *gone;
    free(list);
    return rc;
}
