/* fetch_now.c: reads cold rows on this thread: into their tablet, for replay; all rows of a tablet;
 * or into a copy, for readers.
 *
 * 1. Readers get a copy beside the table: they change neither the tier of a row nor its heat.
 *    (After a start, however, a row that is read brings its tablet back.) [test: test_whole]
 * 2. A row counts once: the pair of a key that is in memory, or gone, is a leftover.
 *    [test: test_whole] */
#include "embedding/engine/fetch.h"

#include "embedding/engine/reload.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- rows of keys ---- */

#define BRING_MOST 4096u

static int bring_some(struct table *t, struct store *store, const uint64_t *cold, size_t count,
                      struct err *e)
{
    const struct table_schema *s = table_schema_of(t);
    size_t bytes = table_cold_bytes(t);
    SHOAL_ASSERT(count > 0 && count <= BRING_MOST);
    struct store_item *item = malloc(count * sizeof *item);
    size_t *size = malloc(count * sizeof *size);
    char *value = malloc(count * bytes);
    int rc = 0;
    if (item == NULL || size == NULL || value == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for rows of table %s", s->name);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        uint32_t tablet = key_tablet(key_mix(cold[i]), s->tablet_bits);
        stored_row_key(s->table, tablet, table_cold_epoch(t, tablet), cold[i], &item[i]);
    }
    if (rc == 0)
        rc = store_get(store, item, count, value, bytes, size, e);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (table_cold_has(t, cold[i]) && size[i] != bytes)
            rc = SHOAL_E_CORRUPT;
        else
            rc = table_cold_take(t, cold[i], value + i * bytes, bytes);
        if (rc != 0)
            err_set(e, rc,
                    "the row of key %016" PRIx64
                    " of table %s cannot be read from the store (%zu bytes): %s",
                    cold[i], s->name, size[i], err_text(rc));
    }
    free(item);
    free(size);
    free(value);
    return rc;
}

int fetch_now(struct table *t, struct store *store, const uint64_t *keys, size_t count,
              struct err *e)
{
    uint64_t cold[BRING_MOST];
    int rc = 0;
    if (table_cold_rows(t) == 0)
        return 0;
    for (size_t at = 0; at < count && rc == 0; at += BRING_MOST) {
        size_t n = MIN(count - at, BRING_MOST), some = table_cold_among(t, keys + at, n, cold);
        if (some > 0)
            rc = bring_some(t, store, cold, some, e);
    }
    return rc;
}

/* ---- all rows of a tablet ---- */

struct thaw {
    struct table *table;
    uint64_t taken;
};

static int take_pair(void *context, const void *key, size_t key_bytes, const void *value,
                     size_t value_bytes, struct err *e)
{
    struct thaw *w = context;
    const struct table_schema *s = table_schema_of(w->table);
    uint32_t table, tablet, epoch;
    uint64_t row;
    if (!stored_is_row(key, key_bytes, &table, &tablet, &epoch, &row) || table != s->table ||
        key_tablet(key_mix(row), s->tablet_bits) != tablet)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the row store holds a row of table %s that is not in its place", s->name);
    if (!table_cold_has(w->table, row))
        return 0;
    /* it stays in the set until all rows are there */
    int rc = table_cold_copy(w->table, w->table, row, value, value_bytes);
    if (rc != 0)
        return err_set(
            e, rc, "the stored row %016" PRIx64 " of tablet %u of table %s cannot be taken in: %s",
            row, tablet, s->name, err_text(rc));
    w->taken++;
    return 0;
}

int fetch_whole(struct table *t, uint32_t tablet, struct store *store, struct err *e)
{
    const struct table_schema *s = table_schema_of(t);
    struct thaw w = {.table = t};
    struct store_item from, below;
    uint32_t cold = table_cold_tablet(t, tablet);
    if (cold == 0) {
        table_cold_forget(t, tablet); /* records brought these rows in before */
        return 0;
    }
    stored_row_range(s->table, tablet, table_cold_epoch(t, tablet), &from, &below);
    int rc = store_range(store, &from, &below, take_pair, &w, e);
    if (rc == 0 && w.taken != cold)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "tablet %u of table %s names %u rows that lie in the row store, %" PRIu64
                     " of them are there; restore a cut or a checkpoint",
                     tablet, s->name, cold, w.taken);
    if (rc != 0)
        return rc;
    table_cold_forget(t, tablet);
    SHOAL_ASSERT(table_cold_tablet(t, tablet) == 0);
    return 0;
}

/* ---- beside the engine's tables ---- */

uint64_t fetch_whole_bytes(const struct engine *g)
{
    if (g->whole_arena == NULL)
        return 0;

    return arena_bytes(g->whole_arena);
}

static int scratch(struct engine *g, const struct table *t, struct err *e)
{
    engine_whole_free(g);
    if (arena_new(&g->whole_arena) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read rows of table %s",
                       table_schema_of(t)->name);
    return table_new(table_schema_of(t), g->whole_arena, &g->whole, e);
}

/* Copies the tablet as in its image: rows in memory, its other state, and the keys of cold rows. */
static int copy_tablet(struct engine *g, const struct table *t, uint32_t tablet, struct err *e)
{
    size_t bytes = table_image_bytes(t, tablet);
    void *image = malloc(bytes);
    if (image == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read tablet %u of table %s", tablet,
                       table_schema_of(t)->name);
    table_image_write(t, tablet, image);
    int rc = table_image_read(g->whole, tablet, image, bytes, e);
    free(image);
    return rc;
}

const struct table *engine_whole(struct engine *g, uint32_t table, uint32_t tablet, struct err *e)
{
    const struct engine_table *t = engine_slot(g, table);
    if (t == NULL) {
        err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", table);
        return NULL;
    }
    if (table_cold_tablet(t->table, tablet) == 0)
        return t->table;
    int rc = scratch(g, t->table, e);
    if (rc == 0)
        rc = copy_tablet(g, t->table, tablet, e);
    if (rc == 0)
        rc = fetch_whole(g->whole, tablet, g->store, e);
    SHOAL_ASSERT(rc != 0 || table_rows(g->whole) <= table_tablet_rows(t->table, tablet)); /* 2 */
    if (rc == 0)
        return g->whole;
    engine_whole_free(g);
    return NULL;
}

/* ---- one row ---- */

static int copy_row(struct engine *g, const struct table *t, uint64_t key, struct err *e)
{
    const struct table_schema *s = table_schema_of(t);
    uint32_t tablet = key_tablet(key_mix(key), s->tablet_bits);
    struct store_item item;
    size_t bytes = table_cold_bytes(t), size = 0;
    void *value = malloc(bytes);
    if (value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read row %016" PRIx64 " of table %s", key,
                       s->name);
    stored_row_key(s->table, tablet, table_cold_epoch(t, tablet), key, &item);
    int rc = store_get(g->store, &item, 1, value, bytes, &size, e);
    if (rc == 0 && size != bytes)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "row %016" PRIx64
                     " of tablet %u of table %s %s the row store; restore a cut or a checkpoint",
                     key, tablet, s->name, size == 0 ? "is missing in" : "has another length in");
    if (rc == 0 && (rc = table_cold_copy(t, g->whole, key, value, bytes)) != 0)
        err_set(e, rc, "row %016" PRIx64 " of table %s cannot be taken in: %s", key, s->name,
                err_text(rc));
    free(value);
    return rc;
}

const struct table *engine_row(struct engine *g, uint32_t table, uint64_t key, bool *stored,
                               struct err *e)
{
    const struct engine_table *t = engine_slot(g, table);
    *stored = false;
    if (t == NULL) {
        err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", table);
        return NULL;
    }
    if (engine_restoring(g)) {
        err_set(e, SHOAL_E_AGAIN, "rows are being put back to a cut; ask again");
        return NULL;
    }
    if (reload_bring(g, table, key_tablet(key_mix(key), table_schema_of(t->table)->tablet_bits), 1,
                     e) != 0) {
        (void)engine_fail(g, e);
        return NULL;
    }
    if (!table_cold_has(t->table, key))
        return t->table;
    int rc = scratch(g, t->table, e);
    if (rc == 0)
        rc = copy_row(g, t->table, key, e);
    if (rc != 0) {
        engine_whole_free(g);
        return NULL;
    }
    SHOAL_ASSERT(table_rows(g->whole) <= 1 && table_cold_rows(g->whole) == 0);
    if (table_rows(g->whole) == 0) /* the row expired */
        return t->table;
    *stored = true;
    return g->whole;
}
