/* load_write.c: what a load built goes to the store: images, and the pairs of rows that memory has
 * no room for. On an I/O thread; nobody else writes to the store meanwhile. The order is load.c's.
 *
 *  1. The journal is synced first: any flush of the store from then on may make others' images
 *     durable.
 *  2. What stays in memory grows with the tablets written, so that each table keeps its share. A
 *     tablet's pairs go before its image; killed in between, all of the load is taken out (load.c,
 *     3).
 */
#include "embedding/checkpoint/load_inner.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/container_of.h"

#include <stdlib.h>

static void make_marker(const struct engine *g, bool under_way, struct store_item *item,
                        struct stored_load *marker)
{
    *marker = (struct stored_load){.run = load_of(g)->run,
                                   .tables = load_of(g)->filled | load_of(g)->added,
                                   .under_way = under_way};
    stored_load_seal(marker);
    stored_load_key(item);
    item->value = marker;
    item->value_bytes = sizeof *marker;
}

/* Rows leave the tablet if more would stay in memory than is due by now. */
static int leave_room(struct load *l, struct table *t, uint32_t tablet, struct err *e)
{
    uint64_t places = l->first[LIMIT_TABLES], to = load_place_of(l, l->table, tablet) + 1ull;
    uint64_t most = l->room / 4 * 3 * to / places, bytes = table_tablet_memory(t, tablet);
    uint64_t each = table_row_bytes(t) + 16, rows = table_tablet_rows(t, tablet);
    uint32_t count = 0;
    int rc = 0;
    if (l->room > 0 && table_cold_may(t) && rows > 0 && l->kept + bytes > most) {
        uint64_t over = l->kept + bytes - most, go = over / each + 1;
        rc = spill_tablet(&l->spill, t, tablet, true, (uint32_t)(go < rows ? go : rows), &count, e);
    }
    l->kept += table_tablet_memory(t, tablet);
    return rc;
}

static int write_image(struct engine *g, struct table *t, uint64_t *bytes, struct err *e)
{
    struct load *l = load_of(g);
    struct store_item item;
    int rc = leave_room(l, t, l->tablet, e);
    if (rc != 0)
        return rc;
    size_t count = stored_tablet_bytes(t, &l->runs, l->tablet);
    void *value = malloc(count);
    if (value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to write tablet %u of table %s", l->tablet,
                       table_schema_of(t)->name);
    stored_tablet_key(l->table, l->tablet, &item);
    stored_tablet_write(t, &l->runs, l->tablet, l->sequence, value);
    item.value = value;
    item.value_bytes = count;
    rc = store_write(g->store, &item, 1, e);
    free(value);
    *bytes += count;
    return rc;
}

/* Images from where the cursor stands, as far as they are built, about as many bytes as a journal
 * segment has (64 MiB as a rule), or less where memory is short. */
static int write_images(struct engine *g, struct err *e)
{
    struct load *l = load_of(g);
    uint64_t bytes = 0, most = l->room > 0 && l->spill.batch < g->segment_bytes ? l->spill.batch
                                                                                : g->segment_bytes;
    int rc = 0;
    for (; l->table < LIMIT_TABLES && rc == 0; l->table++, l->tablet = 0) {
        struct table *t = l->made[l->table];
        uint32_t tablets = t == NULL ? 0 : load_tablets_below(l, l->table, l->group_to);
        for (; l->tablet < tablets && rc == 0; l->tablet++) {
            if (!l->led[l->table][l->tablet])
                continue;
            if (bytes >= most)
                return 0;
            rc = write_image(g, t, &bytes, e);
        }
        if (l->group_to < l->first[l->table + 1])
            break; /* the rest of the table is not built yet */
    }
    return rc;
}

static int write_seal(struct engine *g, struct err *e)
{
    struct store_item item[2];
    struct stored_load marker;
    make_marker(g, false, &item[0], &marker);
    stored_control_key(&item[1]);
    item[1].value = load_of(g)->control;
    item[1].value_bytes = load_of(g)->control_bytes;
    return store_write(g->store, item, 2, e);
}

void load_write_run(struct work *work)
{
    struct load_write *w = container_of(work, struct load_write, work);
    struct store_item item;
    struct stored_load marker;
    int rc = 0;
    journal_sync_run(&w->sync);
    if (w->sync.status != 0)
        rc = err_set(&w->err, w->sync.status, "cannot sync the journal in %s: its disk is failing",
                     w->g->dir);
    if (rc == 0 && w->marked) {
        make_marker(w->g, true, &item, &marker);
        rc = store_write(w->g->store, &item, 1, &w->err);
    }
    if (rc == 0)
        rc = w->seal ? write_seal(w->g, &w->err) : write_images(w->g, &w->err);
    if (rc == 0)
        rc = w->seal ? store_flush(w->g->store, &w->err)
                     /* the next batch is made meanwhile */
                     : store_flush_begin(w->g->store, &w->err);
    w->status = rc;
}
