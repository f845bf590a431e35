/* rows_ahead.c: the rows of a batch whose lane looks ahead: which of them a pull asks for, and what
 * a push asks to be sent back. */
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "worker/train/rows.h"

#include <stdlib.h>

int rows_ahead(struct rows *r, bool divided, struct err *e)
{
    uint32_t counts[MODEL_TABLES_MAX];
    for (uint32_t t = 0; t < r->table_count; t++)
        counts[t] = r->table[t].key_count;
    if (ahead_begin(&r->ahead, counts, r->table_count, divided) != 0)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory to look %u keys ahead: use a smaller train.batch or "
                       "train.prefetch",
                       r->batch.key_count);
    return 0;
}

static int list_reserve(struct rows_list *l, uint32_t keys)
{
    if (keys <= l->capacity)
        return 0;
    uint32_t room = keys + keys / 8;
    free(l->key);
    free(l->place);
    l->key = malloc(room * sizeof *l->key);
    l->place = malloc(room * sizeof *l->place);
    l->capacity = 0;
    if (l->key == NULL || l->place == NULL)
        return SHOAL_E_NOMEM;
    l->capacity = room;
    return 0;
}

int rows_pull_due(struct rows *r, uint32_t again, struct err *e)
{
    struct rows_list *l = &r->list[again];
    const uint32_t room = r->ahead.first[r->table_count];
    uint32_t at = 0;
    SHOAL_ASSERT(again < 2);
    if (list_reserve(l, MAX(room, 1)) != 0)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for the list of %u keys to pull: use a smaller train.batch",
                       room);
    for (uint32_t t = 0; t < r->table_count; t++) {
        struct rows_table *table = &r->table[t];
        table->pull_keys = l->key + at;
        table->pull_place = l->place + at;
        table->pull_count = ahead_list(&r->ahead, t, rows_keys(r, t), l->key + at, l->place + at);
        at += table->pull_count;
    }
    return 0;
}

uint32_t rows_echoes(const struct rows *r, const struct part *p)
{
    if (r->ahead.tables == 0 || p->key_count == 0)
        return 0;
    return ahead_echoes(&r->ahead, p->table, p->key_first, p->key_count);
}

int rows_add_echo(struct rows *r, const struct part *p, struct msg *m)
{
    size_t bytes = 0;
    if (rows_echoes(r, p) > 0)
        bytes = (p->key_count + 7) / 8;
    uint8_t *bits = msg_add(m, bytes);
    if (bits == NULL)
        return SHOAL_E_NOMEM;
    if (bytes > 0)
        ahead_bitmap(&r->ahead, p->table, p->key_first, p->key_count, bits);
    return 0;
}

/* ---- how old the rows are -------------------------------------------------------------------- */

void rows_steps_note(struct rows *r, uint32_t table, uint32_t shard, uint64_t steps)
{
    if (shard >= r->steps_shards) /* a shard of a later map than the batch was divided by */
        return;
    uint64_t *lowest = &r->steps[(size_t)table * r->steps_shards + shard];
    *lowest = MIN(*lowest, steps);
}

uint64_t rows_steps(const struct rows *r, uint32_t table, uint32_t shard)
{
    if (shard >= r->steps_shards)
        return 0;
    uint64_t lowest = r->steps[(size_t)table * r->steps_shards + shard];
    if (lowest == UINT64_MAX)
        return 0;
    return lowest;
}
