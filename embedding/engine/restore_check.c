/* restore_check.c: reads a cut from end to end on an I/O thread; changes nothing.
 *
 * 1. A RESTORE record is journalled only for a cut that this process has read as a whole: every
 *    pair was compared with RocksDB's checksums and every tablet with its own, and every record up
 *    to the cut's instant was read. A cut's files do not change; a replaced or dropped cut is
 *    forgotten. [test: a_rotten_cut_is_refused_before_its_record] */
#include "embedding/engine/restore_check.h"

#include "embedding/engine/change.h"
#include "embedding/journal/cursor.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- reading ---- */

struct reading {
    const struct cut_source *source;
    struct stored_as_of as_of;
    struct table_schema schema[LIMIT_TABLES];
    bool known[LIMIT_TABLES];
};

static int note_schema(void *context, const struct table_schema *s, const struct table_past *past,
                       struct err *e)
{
    struct reading *r = context;
    (void)past, (void)e;
    SHOAL_ASSERT(s->table < LIMIT_TABLES);
    r->schema[s->table] = *s;
    r->known[s->table] = true;
    return 0;
}

static int look_at_tablet(const struct reading *r, uint32_t table, uint32_t tablet,
                          const void *value, size_t bytes, struct err *e)
{
    uint64_t flushed;
    if (table >= LIMIT_TABLES || !r->known[table])
        return err_set(e, SHOAL_E_CORRUPT, "tablet %u of table %u is stored, but no such table is",
                       tablet, table);
    int rc = stored_tablet_check(value, bytes, &r->schema[table], tablet, &flushed, e);
    if (rc == 0 && (flushed > r->source->facts.sequence || flushed > r->as_of.sequence))
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "tablet %u of table %s is stored as of record %" PRIu64 ", beyond the cut",
                     tablet, r->schema[table].name, flushed);
    return rc;
}

static int look_at(void *context, const void *key, size_t key_bytes, const void *value,
                   size_t value_bytes, struct err *e)
{
    struct reading *r = context;
    uint32_t table, tablet;
    if (stored_is_control(key, key_bytes))
        return stored_control_read(value, value_bytes, NULL, &r->as_of, note_schema, r, e);
    if (stored_is_tablet(key, key_bytes, &table, &tablet))
        return look_at_tablet(r, table, tablet, value, value_bytes, e);
    return 0; /* RocksDB has checked it */
}

static int read_journal(const struct reading *r, struct err *e)
{
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record record;
    uint64_t last = 0, until = r->source->facts.sequence;
    int rc = cursor_gather(NULL, r->source->journal, &files, e);
    if (rc != 0)
        return rc;
    cursor_open(&c, &files, 0, until, CURSOR_WHOLE);
    while ((rc = cursor_next(&c, &record, e)) == 0)
        last = record.head->sequence;
    cursor_close(&c);
    cursor_files_free(&files);
    if (rc != SHOAL_E_END)
        return rc;

    if (last >= until || r->as_of.sequence >= until)
        return 0;

    return err_set(e, SHOAL_E_CORRUPT, "its journal ends at record %" PRIu64 ", it needs %" PRIu64,
                   last, until);
}

int restore_check_read(const struct cut_source *s, struct err *e)
{
    struct reading *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read cut %" PRIu64, s->facts.cut);
    r->source = s;
    int rc = store_scan(s->store, look_at, r, e);
    if (rc == 0 && s->journal != NULL)
        rc = read_journal(r, e);
    free(r);

    if (rc == 0)
        return 0;

    return err_wrap(e, rc, "cut %" PRIu64, s->facts.cut);
}

/* ---- its tables ---- */

struct tables {
    struct engine *g;
    const struct cut_facts *facts;
    int (*absent)(struct engine *g, const struct table_schema *s, struct err *e);
};

static int table_of_cut(void *context, const struct table_schema *s, const struct table_past *past,
                        struct err *e)
{
    const struct tables *c = context;
    (void)past;
    if (!table_set_has(&c->facts->tables, s->table))
        return 0; /* another job's, which may have been dropped since */
    if (engine_slot(c->g, s->table) == NULL)
        return c->absent(c->g, s, e);
    return change_check_then(c->g, s, c->facts, e);
}

static int take_control(void *context, const void *key, size_t key_bytes, const void *value,
                        size_t value_bytes, struct err *e)
{
    struct stored_as_of as_of;
    if (stored_is_load(key, key_bytes))
        return 0;
    if (!stored_is_control(key, key_bytes))
        return SHOAL_E_END; /* tablets sort behind it */
    return stored_control_read(value, value_bytes, NULL, &as_of, table_of_cut, context, e);
}

int restore_check_tables(struct engine *g, const struct cut_source *s,
                         int (*absent)(struct engine *g, const struct table_schema *s,
                                       struct err *e),
                         struct err *e)
{
    struct tables c = {.g = g, .facts = &s->facts, .absent = absent};
    int rc = change_check_cut(g, &s->facts, e);
    if (rc == 0 && s->facts.run == 0)
        rc =
            err_set(e, SHOAL_E_NOT_FOUND,
                    "no run was open when cut %" PRIu64 " was made: there is nothing to go on from",
                    s->facts.cut);
    if (rc == 0)
        rc = store_scan(s->store, take_control, &c, e);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

/* ---- requests ---- */

struct check_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    uint64_t cut;
    engine_restore_checked done;
    void *context;
    int status;
    struct err err;
};

static void check_run(struct offload *w)
{
    struct check_work *c = container_of(w, struct check_work, work);
    struct cut_source source;
    c->status = cut_open(c->g, c->cut, CUT_READ, &source, &c->err);
    if (c->status != 0)
        return;
    c->status = restore_check_read(&source, &c->err);
    cut_source_close(&source);
}

/* Compares with the current tables. */
static int look_again(struct engine *g, uint64_t cut, struct err *e)
{
    struct cut_source source;
    int rc = cut_open(g, cut, CUT_SIZES, &source, e);
    if (rc != 0)
        return rc;
    rc = restore_check_tables(g, &source, engine_overlap, e);
    cut_source_close(&source);
    return rc;
}

static void check_done(struct offload *w)
{
    struct check_work *c = container_of(w, struct check_work, work);
    struct engine *g = c->g;
    bool same = g->check.cut == c->cut; /* otherwise it was dropped meanwhile */
    g->check.busy = false;
    if (w->cancelled)
        return;
    if (c->status == 0 && !same)
        c->status = err_set(&c->err, SHOAL_E_NOT_FOUND, "cut %" PRIu64 " has gone", c->cut);
    if (c->status == 0)
        c->status = look_again(g, c->cut, &c->err);
    g->check.good = same && c->status == 0;
    c->done(c->context, c->status, c->status == 0 ? "" : c->err.text);
}

int engine_restore_check(struct engine *g, uint64_t cut, uint64_t run, engine_restore_checked done,
                         void *context, struct err *e)
{
    if (run == 0 || cut == 0)
        return err_set(e, SHOAL_E_MALFORMED, "cut %" PRIu64 " as run %" PRIu64 ": 0 is none", cut,
                       run);
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (runs_find(&g->runs, run) != NULL) {
        done(context, 0, "");
        return 0;
    }
    if (g->check.busy)
        return err_set(e, SHOAL_E_BUSY, "a cut is being read; ask again");
    if (cut_checked(g, cut)) {
        int rc = look_again(g, cut, e);
        if (rc == 0)
            done(context, 0, "");
        return rc;
    }
    struct check_work *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read cut %" PRIu64, cut);
    c->g = g;
    c->cut = cut;
    c->done = done;
    c->context = context;
    g->check.cut = cut;
    g->check.good = false;
    g->check.busy = true;
    engine_work(g, &c->work, check_run, check_done);
    return 0;
}
