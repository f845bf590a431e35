/* move.c: gives, takes and drops tablets (move.h).
 *
 *     engine_give -> the tablet in memory is copied -> an I/O thread adds its rows of the store
 *         -> image -> done; without such rows at once
 *
 * 1. Giving changes nothing: rows of the store come into a copy, and leave no trace in the tablet's
 *    tier. [test: giving_leaves_rows_where_they_are]
 * 2. An image is checked as a whole before its record is written (moved.c, 1): a record that cannot
 *    be applied would end every start. [test: a_damaged_image_is_refused]
 * 3. A tablet that has nothing, and gets nothing, needs no record: a checkpoint can still be loaded
 *    into its table (load.c, 2). [test: an_empty_tablet_needs_no_record]
 * 4. Tables whose load may still be taken back do not move: taking it back has no record
 *    (unload.c, 2). [test: a_load_that_may_be_taken_back_stays]
 * 5. A row of the store that ended unnoticed ends in the copy as it would here, with its undo
 *    (cold.c, 3). [test: test_move_random] */
#include "embedding/move.h"

#include "embedding/engine/cut_copy.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/moved.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GIVES_MOST 4u
/* a message, or a follower's record, has some bytes beside it */
#define DROP_MOST 4096u /* tablets of one record */

/* ---- numbers ---- */

/* The table that has a global tablet; NULL: none here. */
static struct engine_table *table_of(const struct engine *g, uint32_t tablet, uint32_t *number,
                                     uint32_t *own)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct engine_table *t = &g->table[i];
        if (t->table == NULL)
            continue;
        uint32_t first = table_schema_of(t->table)->tablet_first;
        if (tablet >= first && tablet - first < t->scope.tablets) {
            *number = i;
            *own = tablet - first;
            return (struct engine_table *)t;
        }
    }
    return NULL;
}

static int no_table(uint32_t tablet, struct err *e)
{
    return err_set(e, SHOAL_E_NO_TABLE, "no table here has tablet %u", tablet);
}

static int check_quiet(const struct engine *g, struct err *e)
{
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (!engine_back(g))
        return err_set(e, SHOAL_E_AGAIN, "rows are being brought back; ask again");
    if (g->pending > 0)
        return err_set(e, SHOAL_E_AGAIN, "pushes are being applied; ask again");
    if (g->holding)
        return err_set(e, SHOAL_E_BUSY, "a cut is held; ask again");
    return 0;
}

static bool holds(const struct engine *g, uint32_t table, uint32_t tablet)
{
    return table_tablet_holds(g->table[table].table, tablet) ||
           runs_marked(&g->runs, table, tablet);
}

/* True when the table was filled by a load whose run has not trained. 4 */
static bool may_be_unloaded(const struct engine *g, uint32_t table)
{
    for (uint32_t i = 0; i < g->loads; i++) {
        const struct run *run = runs_find(&g->runs, g->loaded[i].run);
        bool trained = run == NULL || !table_set_has(&g->loaded[i].tables, table);
        for (uint32_t lane = 0; !trained && lane < run->lanes; lane++)
            trained = run->lane[lane].generation != 0;
        if (!trained)
            return true;
    }
    return false;
}

/* ---- giving ---- */

struct give {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    uint32_t table, tablet, cold;
    size_t column_bytes;
    char *image; /* owned; (room): head and column; the rows come last */
    size_t bytes;
    struct arena *arena; /* owned: the copy's */
    struct table *copy;  /* owned */
    engine_give_done done;
    void *context;
    int status;
    struct err err;
};

static void give_free(struct give *w)
{
    table_free(w->copy);
    arena_free(w->arena);
    free(w->image);
}

/* Completes the image: its rows, and the head. */
static int image_end(struct give *w, const struct table *t, struct err *e)
{
    size_t before = sizeof(struct record_tablet_in) + w->column_bytes,
           bytes = table_image_bytes(t, w->tablet);
    char *image = realloc(w->image, before + bytes);
    if (image == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the image of tablet %u of table %s",
                       w->tablet, table_schema_of(t)->name);
    w->image = image;
    w->bytes = before + bytes;
    table_image_write(t, w->tablet, image + before);
    struct record_tablet_in *h = (void *)image;
    *h = (struct record_tablet_in){.table = w->table,
                                   .tablet = w->tablet,
                                   .column_bytes = w->column_bytes,
                                   .rows = table_tablet_rows(t, w->tablet)};
    moved_seal(h);
    return 0;
}

static int take_pair(void *context, const void *key, size_t key_bytes, const void *value,
                     size_t value_bytes, struct err *e)
{
    struct give *w = context;
    uint32_t table, tablet, epoch;
    uint64_t row;
    int rc = SHOAL_E_CORRUPT;
    if (stored_is_row(key, key_bytes, &table, &tablet, &epoch, &row) && table == w->table &&
        key_tablet(key_mix(row), table_schema_of(w->copy)->tablet_bits) == w->tablet)
        rc = table_cold_take(w->copy, row, value, value_bytes);
    if (rc == 0)
        return 0;
    return err_set(e, rc, "a row of tablet %u of table %s cannot be read from the store: %s",
                   w->tablet, table_schema_of(w->copy)->name, err_text(rc));
}

static int rows_add(struct give *w, struct err *e)
{
    struct store_item from, below;
    stored_row_range(w->table, w->tablet, table_cold_epoch(w->copy, w->tablet), &from, &below);
    int rc = store_range(w->g->store, &from, &below, take_pair, w, e);
    if (rc == 0 && table_cold_tablet(w->copy, w->tablet) > 0)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "%u rows of tablet %u of table %s are missing in the store; restore a cut or "
                     "a checkpoint",
                     table_cold_tablet(w->copy, w->tablet), w->tablet,
                     table_schema_of(w->copy)->name);
    if (rc != 0)
        return rc;
    table_cold_forget(w->copy, w->tablet);
    return image_end(w, w->copy, e);
}

static void give_run(struct offload *work)
{
    struct give *w = container_of(work, struct give, work);
    w->status = rows_add(w, &w->err);
}

/* A row that came into memory meanwhile, and had ended, has perhaps no pair any more. */
static bool was_touched(const struct give *w)
{
    const struct table *t = w->g->table[w->table].table;
    return t == NULL || table_cold_tablet(t, w->tablet) != w->cold;
}

static void give_tell(struct give *w)
{
    const struct record_tablet_in *h = (const void *)w->image;
    if (w->status == 0)
        w->done(w->context, 0, "", w->image, w->bytes, h->rows);
    else
        w->done(w->context, w->status, w->err.text, NULL, 0, 0);
}

static void give_done(struct offload *work)
{
    struct give *w = container_of(work, struct give, work);
    SHOAL_ASSERT(w->g->gives > 0);
    w->g->gives--;
    if (w->status == SHOAL_E_CORRUPT && !work->cancelled && was_touched(w))
        w->status = err_set(&w->err, SHOAL_E_AGAIN, "rows came from the store; ask again");
    if (!work->cancelled)
        give_tell(w);
    give_free(w);
}

/* Copies the tablet's rows in memory, its other state and the keys of its rows in the store. */
static int copy_make(struct give *w, const struct table *t, struct err *e)
{
    size_t bytes = table_image_bytes(t, w->tablet);
    char *image = malloc(bytes);
    int rc = SHOAL_E_NOMEM;
    if (image != NULL)
        rc = arena_new(&w->arena);
    if (rc == 0)
        rc = table_new(table_schema_of(t), w->arena, &w->copy, e);
    if (rc == 0) {
        table_image_write(t, w->tablet, image);
        rc = table_image_read(w->copy, w->tablet, image, bytes, e);
    }
    free(image);
    if (rc == SHOAL_E_NOMEM)
        err_set(e, rc, "no memory to read tablet %u of table %s", w->tablet,
                table_schema_of(t)->name);
    return rc;
}

static int check_give(const struct engine *g, const struct engine_table *t, uint32_t table,
                      uint32_t tablet, struct err *e)
{
    const char *name = table_schema_of(t->table)->name;
    int rc = check_quiet(g, e);
    if (rc != 0)
        return rc;
    if (g->cut_busy || table_set_has(&g->loading, table) || may_be_unloaded(g, table) ||
        g->job[JOB_CHANGE] != NULL || g->gives == GIVES_MOST)
        return err_set(e, SHOAL_E_BUSY,
                       "a cut, a load, a change of a schema or other tablets are under way; ask "
                       "again");
    uint64_t bytes = sizeof(struct record_tablet_in) + runs_column_bytes(&g->runs, table, tablet) +
                     table_image_bytes(t->table, tablet) +
                     table_cold_tablet(t->table, tablet) * table_row_bytes(t->table);
    if (bytes > TABLE_IMAGE_MOST)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "tablet %u of table %s has %" PRIu64
                       " bytes, a message takes %u: it cannot move; give the table more tablets",
                       tablet, name, bytes, TABLE_IMAGE_MOST);
    return 0;
}

int engine_give(struct engine *g, uint32_t tablet, engine_give_done done, void *context,
                struct err *e)
{
    uint32_t number, own;
    const struct engine_table *t = table_of(g, tablet, &number, &own);
    if (t == NULL)
        return no_table(tablet, e);
    int rc = check_give(g, t, number, own, e);
    if (rc != 0)
        return rc;
    struct give *w = calloc(1, sizeof *w);
    if (w == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to give tablet %u", tablet);
    w->g = g;
    w->table = number;
    w->tablet = own;
    w->cold = table_cold_tablet(t->table, own);
    w->column_bytes = runs_column_bytes(&g->runs, number, own);
    w->done = done;
    w->context = context;
    w->image = malloc(sizeof(struct record_tablet_in) + w->column_bytes);
    if (w->image == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to give tablet %u", tablet);
    else
        runs_column_write(&g->runs, number, own, w->image + sizeof(struct record_tablet_in));
    if (rc == 0 && w->cold > 0) {
        rc = copy_make(w, t->table, e);
        if (rc == 0) {
            g->gives++;
            engine_work(g, &w->work, give_run, give_done);
            return 0;
        }
    } else if (rc == 0) {
        rc = image_end(w, t->table, e);
        if (rc == 0)
            give_tell(w);
    }
    give_free(w);
    free(w);
    return rc;
}

/* ---- taking ---- */

static int check_room(struct engine *g, uint32_t table, size_t bytes, struct err *e)
{
    if (g->journal != NULL && bytes > journal_payload_max(g->journal))
        return err_set(e, SHOAL_E_TOO_BIG,
                       "a tablet of %zu bytes does not fit a journal segment of %u: raise "
                       "journal.segment, and restart the server",
                       bytes, g->segment_bytes);
    int rc = 0;
    if (g->journal != NULL)
        rc = space_check(g, e);
    if (rc == 0)
        rc = tier_check_room(g, table, false, e); /* the rows are its space's already */
    if (rc != 0 || g->journal == NULL ||
        journal_bytes(g->journal) + record_bytes(bytes) <= flush_journal_max(g))
        return rc;
    engine_flush_step(g);
    return err_set(e, SHOAL_E_BUSY,
                   "the journal is full (%" PRIu64 " bytes); rows are being written, ask again",
                   journal_bytes(g->journal));
}

static int check_idle(const struct engine *g, uint32_t table, uint32_t tablet, struct err *e)
{
    if (cut_copy_waits(g, table, tablet, 1))
        return err_set(e, SHOAL_E_BUSY, "a cut is being copied; ask again");
    if (table_set_has(&g->loading, table) || may_be_unloaded(g, table))
        return err_set(e, SHOAL_E_BUSY, "table %s is being filled from a checkpoint; ask again",
                       table_schema_of(g->table[table].table)->name);
    return 0;
}

/* True when the image, which was checked, is that of an empty tablet, as it is here. 3 */
static bool is_nothing(const struct engine *g, const struct record_tablet_in *h, const char *image)
{
    bool marked = h->column_bytes != 2 * sizeof(uint32_t);
    return !holds(g, h->table, h->tablet) && !marked &&
           !table_image_holds(image + sizeof *h + h->column_bytes);
}

int engine_take(struct engine *g, uint32_t tablet, const void *image, size_t bytes,
                uint64_t *sequence, struct err *e)
{
    struct record_tablet_in h;
    uint32_t number, own;
    const struct engine_table *t = table_of(g, tablet, &number, &own);
    if (t == NULL)
        return no_table(tablet, e);
    int rc = check_quiet(g, e);
    if (rc == 0)
        rc = check_idle(g, number, own, e);
    if (rc == 0 && t->scope.led[own])
        rc = err_set(e, SHOAL_E_EXISTS, "tablet %u of table %s is led here", own,
                     table_schema_of(t->table)->name);
    if (rc == 0)
        rc = check_room(g, number, bytes, e);
    if (rc == 0)
        rc = moved_check(g, image, bytes, &h, e); /* 2 */
    if (rc == 0 && (h.table != number || h.tablet != own))
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "the image is of tablet %u of table %u, not of tablet %u of table %u",
                     h.tablet, h.table, own, number);
    if (rc == 0 && !is_nothing(g, &h, image))
        rc = engine_record(g, RECORD_TABLET_IN, image, bytes, e);
    *sequence = g->sequence;
    return rc;
}

/* ---- dropping ---- */

int engine_tablets_drop(struct engine *g, const uint32_t *tablet, uint32_t count, struct err *e)
{
    struct record_tablet_out *out;
    struct record_tablet *list;
    int rc = check_quiet(g, e);
    for (uint32_t i = 0, number, own; rc == 0 && i < count; i++) {
        const struct engine_table *t = table_of(g, tablet[i], &number, &own);
        SHOAL_ASSERT(t == NULL || !t->scope.led[own]);
        if (t != NULL && holds(g, number, own))
            rc = check_idle(g, number, own, e);
    }
    if (rc != 0)
        return rc;
    out = malloc(sizeof *out + DROP_MOST * sizeof *list);
    if (out == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to drop %u tablets", count);
    list = (struct record_tablet *)(void *)(out + 1);
    *out = (struct record_tablet_out){0};
    for (uint32_t i = 0, number, own; rc == 0 && i < count; i++) {
        const struct engine_table *t = table_of(g, tablet[i], &number, &own);
        if (t != NULL && holds(g, number, own))
            list[out->count++] = (struct record_tablet){number, own};
        if (out->count == 0 || (out->count < DROP_MOST && i + 1 < count))
            continue;
        rc = engine_record(g, RECORD_TABLET_OUT, out, sizeof *out + out->count * sizeof *list, e);
        out->count = 0;
    }
    free(out);
    return rc;
}

uint32_t engine_strays(const struct engine *g, uint32_t *out, uint32_t most)
{
    const struct engine_place *p = &g->place;
    uint32_t found = 0;
    if (!engine_back(g) || p->map_epoch == 0)
        return 0;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        const struct table *table = g->table[t].table;
        for (uint32_t i = 0; table != NULL && i < g->table[t].scope.tablets && found < most; i++) {
            uint32_t global = table_schema_of(table)->tablet_first + i;
            bool ours = global < p->tablets && p->shard_of[global] == p->number;
            if (!ours && holds(g, t, i))
                out[found++] = global;
        }
    }
    return found;
}
