/* restore.c: restores tablets to a cut: live in steps, and in one call when its record is replayed.
 *
 *     the record is on disk -> tablets emptied -> images of the cut in -> its records applied
 *         -> names of keys given back -> its run opened, marks taken over -> on_recovered
 *
 * 1. A RESTORE record acts only on tablets that are older than it. [assert: take_marks]
 * 2. A restored tablet begins a new epoch (cold.h): earlier pairs never count as its own, and a
 *    kill half way leaves the old image with its old pairs, so that the record can be repeated.
 *    Pairs of older epochs go once the new image is written (flush.c). [test: test_cold_restore]
 * 3. The cut's cold rows come in tablet by tablet, and rows leave when they fill the budget, with
 *    their pairs alone (spill.h): the tablet has no image before its contents are those of the
 *    record. [test: test_cold_restore, test_tier_random]
 * 4. Between two steps the engine is not back (engine.h): no row is read or changed, nothing is
 *    journalled, and nothing else is written to the store. A step has about reload_rows rows.
 *    [assert: step_cb] [test: a_restore_goes_in_steps] */
#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/recover.h"
#include "embedding/engine/reload.h"
#include "embedding/engine/share.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/journal/cursor.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- room ---- */

#define LEAVE_SHARE 4u /* one in this many rows of a tablet leaves at a time */

/* During a restore a tablet that is not restored equals its stored image, so its rows may leave,
 * too. */
int recover_make_room(struct recover *r, struct err *e)
{
    uint32_t table, tablet, count;
    int rc = 0;
    while (rc == 0 && tier_wants_room(r->to.g)) {
        struct tier_group *giver = share_giver(r->to.g);
        SHOAL_ASSERT(giver != NULL); /* tier_wants_room guarantees it */
        if (!tier_hand_next(r->to.g, &r->hand, &giver->is.tables, r->clean, &table, &tablet)) {
            if (r->clean)
                return 0; /* others will leave */
            tier_stuck(r->to.g, giver);
            continue;
        }
        struct table *t = r->to.g->table[table].table;
        uint64_t hot = table_tablet_rows(t, tablet) - table_cold_tablet(t, tablet);
        SHOAL_ASSERT(hot > 0); /* tier_hand_next guarantees it */
        /* A tablet that is not restored has an image, and the rows that it lists must stay
         * (spill.h). */
        bool fresh = r->epoch[table] != NULL && r->to.base[table][tablet] != UINT64_MAX;
        rc = spill_tablet(r->spill, t, tablet, fresh, (uint32_t)(hot / LEAVE_SHARE) + 1, &count, e);
    }
    return rc;
}

int recover_settle(struct recover *r, struct table *t, uint32_t tablet, struct err *e)
{
    int rc = fetch_whole(t, tablet, r->images, e);
    if (rc != 0 || r->spill == NULL)
        return rc;
    if (table_cold_begin(t, tablet, r->epoch[table_schema_of(t)->table][tablet]) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for tablet %u of table %s", tablet,
                       table_schema_of(t)->name);
    return recover_make_room(r, e);
}

/* ---- the state ---- */

enum restore_part { PART_EMPTY, PART_IMAGES, PART_RECORDS, PART_NAMES, PART_MARKS, PART_END };

#define TABLET_ROWS 64u /* a tablet costs as much as this many rows, whatever it contains */

struct restore {
    struct engine_job job;
    struct engine *g; /* borrowed */
    struct record_restore record;
    uint64_t sequence;
    bool past;
    enum restore_part part;
    uint32_t table, tablet; /* the next tablet of the part; for names `tablet` alone counts */
    uint32_t chunk;         /* images read next */
    uint32_t older;         /* number of restored tablets */
    struct recover replay;
    struct spill spill;
    struct runs then; /* runs of the cut; at the end the one whose marks count */
    struct cut_source source;
    struct journal_files files;
    struct journal_cursor cursor;
    uint64_t last;   /* last record of the cut's journal */
    struct run *run; /* borrowed; the opened run; NULL: not yet */
};

static void restore_free(struct restore *s)
{
    cursor_close(&s->cursor);
    cursor_files_free(&s->files);
    cut_source_close(&s->source);
    key_names_free(&s->replay.names);
    recover_free(&s->replay);
    spill_free(&s->spill);
    runs_free(&s->then);
    free(s);
}

/* Allocates for each tablet whether it is restored, and the epoch that it begins. */
static int bases_make(struct recover *r)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct engine_table *t = engine_slot(r->to.g, i);
        if (t == NULL)
            continue;
        if (recover_base(r, i) != 0)
            return SHOAL_E_NOMEM;
        if (r->spill != NULL &&
            (r->epoch[i] = calloc(t->scope.tablets, sizeof *r->epoch[i])) == NULL)
            return SHOAL_E_NOMEM;
        SHOAL_ASSERT(r->own[i]); /* the engine's would be overwritten */
    }
    return 0;
}

static int restore_new(struct engine *g, const struct record_restore *record, uint64_t sequence,
                       bool past, struct restore **out, struct err *e)
{
    struct restore *s = calloc(1, sizeof *s);
    SHOAL_ASSERT(!g->flush.busy && g->pending == 0); /* it writes to the store itself */
    SHOAL_ASSERT(reload_left(g) == 0);               /* so it is known which tablets are older */
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to restore cut %" PRIu64, record->cut);
    s->g = g;
    s->record = *record;
    s->sequence = sequence;
    s->past = past;
    s->chunk = 1;
    recover_init(&s->replay, g, g->store, &s->then, true);
    s->replay.to.kept = true;
    s->replay.to.but = table_set_less(
        TABLE_SET_ALL, record->tables); /* other jobs' may be others by now (clear.c) */
    if (g->store == NULL)
        s->replay.spill = NULL;
    else
        s->replay.spill = &s->spill;

    spill_init(&s->spill, g->store, g->options.memory);
    s->spill.on_flush = flush_save_read;
    s->spill.context = g;
    g->tier.written = false; /* rows that were to leave are chosen anew */
    tier_stay(g);
    if (bases_make(&s->replay) != 0) {
        restore_free(s);
        return err_set(e, SHOAL_E_NOMEM, "no memory to restore cut %" PRIu64, record->cut);
    }
    *out = s;
    return 0;
}

/* Moves to the part's next tablet. False: there is none. */
static bool at_tablet(struct restore *s)
{
    for (; s->table < LIMIT_TABLES; s->table++, s->tablet = 0) {
        const struct engine_table *t = engine_slot(s->g, s->table);
        if (t != NULL && s->tablet < t->scope.tablets)
            return true;
    }
    return false;
}

static void part_begin(struct restore *s, enum restore_part part)
{
    SHOAL_ASSERT(part > s->part);
    s->part = part;
    s->table = s->tablet = 0;
}

/* ---- emptied ---- */

static int clear_tablet(struct recover *r, uint32_t table, uint32_t tablet)
{
    struct table *t = r->to.g->table[table].table;
    uint32_t epoch = table_cold_epoch(t, tablet) + 1;
    if (key_names_take(&r->names, t, tablet) != 0)
        return SHOAL_E_NOMEM;
    table_clear(t, tablet);
    if (r->spill == NULL)
        return 0;
    r->epoch[table][tablet] = epoch;
    return table_cold_begin(t, tablet, epoch);
}

/* Empties the tablets that the record restores and marks the others as unwanted. */
static int empty_some(struct restore *s, uint64_t rows, struct err *e)
{
    struct recover *r = &s->replay;
    for (uint64_t gone = 0; gone < rows && at_tablet(s); s->tablet++) {
        const struct engine_table *t = &s->g->table[s->table];
        bool older = table_set_has(&s->record.existing, s->table) &&
                     (s->g->journal == NULL || t->durable[s->tablet] < s->sequence);
        gone += TABLET_ROWS;
        if (older)
            gone += table_tablet_rows(t->table, s->tablet);
        if (older && clear_tablet(r, s->table, s->tablet) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory to restore cut %" PRIu64, s->record.cut);
        if (!older)
            r->to.base[s->table][s->tablet] = UINT64_MAX;
        s->older += older;
    }
    if (!at_tablet(s))
        part_begin(s, s->older > 0 ? PART_IMAGES : PART_NAMES);
    return 0;
}

/* ---- filled: rows of the cut into the tablets concerned, its runs and marks into s->then ---- */

static int source_open(struct restore *s, struct err *e)
{
    int rc = cut_open(s->g, s->record.cut, CUT_SIZES, &s->source, e);
    if (rc != 0)
        return rc;
    s->replay.until = s->source.facts.sequence;
    s->replay.images = s->source.store;
    return recover_head(&s->replay, s->source.store, e);
}

static int images_some(struct restore *s, uint64_t rows, struct err *e)
{
    uint64_t come = 0;
    int rc = 0;
    if (s->source.store == NULL)
        rc = source_open(s, e);
    for (uint32_t go = 0; rc == 0 && go < RELOAD_STEP_GOES && come < rows && at_tablet(s); go++) {
        const struct engine_table *t = &s->g->table[s->table];
        uint64_t before = table_rows(t->table);
        uint32_t left = t->scope.tablets - s->tablet, n = MIN(left, s->chunk);
        rc = recover_tablets(&s->replay, s->source.store, s->table, s->tablet, s->tablet + n, e);
        uint64_t had = table_rows(t->table) - before;
        come += had;
        s->tablet += n;
        s->chunk = reload_chunk(s->chunk, had, s->g->reload_rows);
    }
    if (rc != 0 || at_tablet(s))
        return rc;
    part_begin(s, PART_RECORDS);
    if (s->source.journal != NULL)
        rc = cursor_gather(NULL, s->source.journal, &s->files, e);
    if (rc == 0)
        cursor_open(&s->cursor, &s->files, 0, s->replay.until, CURSOR_WHOLE);
    return rc;
}

/* All records are applied: keeps the one run whose marks count. */
static int source_end(struct restore *s, struct err *e)
{
    const struct cut_facts *f = &s->source.facts;
    const struct run *from = runs_find(&s->then, f->run);
    int rc = 0;
    if (s->source.journal != NULL)
        rc = recover_cut_end(&s->replay, s->last, e);
    if (rc != 0)
        return rc;
    if (from == NULL || from->lanes != s->record.lanes)
        return err_set(e, SHOAL_E_CORRUPT, "its run %" PRIu64 " is not among its records", f->run);
    for (uint32_t i = s->then.count; i-- > 0;)
        if (s->then.run[i] != from)
            runs_drop(&s->then, s->then.run[i]);
    cut_source_close(&s->source);
    s->replay.images = NULL;
    part_begin(s, PART_NAMES);
    return 0;
}

#define ROW_BYTES 128u /* size of a row in an image, about */

/* About how many rows a record changes. */
static uint64_t rows_of(const struct record_header *h)
{
    if (record_has_keys(h->kind))
        return 1 + h->key_count;
    return 1 + h->payload_bytes / ROW_BYTES;
}

static int records_some(struct restore *s, uint64_t rows, struct err *e)
{
    struct journal_record record;
    int rc = 0;
    if (s->source.journal == NULL)
        rc = SHOAL_E_END;
    for (uint64_t changed = 0; rc == 0 && changed < rows;) {
        rc = cursor_next(&s->cursor, &record, e);
        if (rc != 0)
            break;
        s->last = record.head->sequence;
        changed += rows_of(record.head);
        rc = apply_record(&s->replay.to, &record, e);
        SHOAL_ASSERT(rc != SHOAL_E_END); /* it would look like the journal's end */
    }
    if (rc != SHOAL_E_END)
        return rc;

    return source_end(s, e);
}

static int names_some(struct restore *s, uint64_t rows, struct err *e)
{
    const struct key_names *n = &s->replay.names;
    for (uint64_t given = 0; given < rows && s->tablet < n->count; s->tablet++) {
        given += TABLET_ROWS + n->tablet[s->tablet].count;
        if (key_names_give(n, s->tablet) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the names of keys");
    }
    if (s->tablet == n->count)
        part_begin(s, PART_MARKS);
    return 0;
}

/* ---- its run ---- */

static int take_marks(struct restore *s, const struct run *from, uint32_t table, uint32_t tablet)
{
    struct engine_table *t = &s->g->table[table];
    SHOAL_ASSERT(from->lanes == s->run->lanes);
    SHOAL_ASSERT(t->changed[tablet] < s->sequence); /* 1 */
    for (uint32_t lane = 0; lane < from->lanes; lane++)
        if (marks_set(s->run->marks, lane, table, t->scope.tablets, tablet,
                      marks_get(from->marks, lane, table, tablet)) != 0)
            return SHOAL_E_NOMEM;
    engine_touch(t, tablet, 1, NULL, s->sequence);
    return 0;
}

static int marks_some(struct restore *s, uint64_t rows, struct err *e)
{
    int rc = 0;
    if (s->run == NULL)
        rc = apply_restored_run(&s->g->runs, &s->record, s->sequence, s->past, &s->run);

    SHOAL_ASSERT(s->older == 0 || s->then.count == 1);
    for (uint64_t taken = 0; rc == 0 && s->older > 0 && taken < rows && at_tablet(s); s->tablet++) {
        taken += TABLET_ROWS + s->run->lanes;
        if (s->replay.to.base[s->table][s->tablet] != UINT64_MAX)
            rc = take_marks(s, s->then.run[0], s->table, s->tablet);
    }
    if (rc != 0)
        return err_set(e, rc, "the marks of cut %" PRIu64 " cannot be taken over: %s",
                       s->record.cut, err_text(rc));
    if (s->older > 0 && at_tablet(s))
        return 0;
    engine_refresh_marks(s->g);
    if (s->g->journal == NULL)
        runs_forget(&s->g->runs, UINT64_MAX);
    part_begin(s, PART_END);
    return 0;
}

/* ---- steps ---- */

static int step(struct restore *s, uint64_t rows, struct err *e)
{
    int rc;
    SHOAL_ASSERT(s->part < PART_END && rows > 0);
    switch (s->part) {
    case PART_EMPTY:
        return empty_some(s, rows, e);
    case PART_IMAGES:
    case PART_RECORDS:
        if (s->part == PART_IMAGES)
            rc = images_some(s, rows, e);
        else
            rc = records_some(s, rows, e);
        if (rc == 0)
            return 0;

        return err_wrap(e, rc, "cut %" PRIu64, s->record.cut);
    case PART_NAMES:
        return names_some(s, rows, e);
    default:
        return marks_some(s, rows, e);
    }
}

int engine_restore_apply(struct engine *g, const struct record_restore *record, uint64_t sequence,
                         bool past, struct err *e)
{
    struct restore *s;
    int rc = restore_new(g, record, sequence, past, &s, e);
    if (rc != 0)
        return rc;
    for (; rc == 0 && s->part < PART_END; engine_pulse(g, (uint64_t)s->part, PART_END))
        rc = step(s, g->reload_rows, e);
    restore_free(s);
    return rc;
}

static struct restore *restore_of(const struct engine *g)
{
    return container_of(g->job[JOB_RESTORE], struct restore, job);
}

/* The rows are counted as the engine's. */
static uint64_t restore_bytes(const struct engine *g)
{
    return runs_bytes(&restore_of(g)->then);
}

static void restore_close(struct engine *g)
{
    struct restore *s = restore_of(g);
    engine_job_end(g, JOB_RESTORE);
    if (g->reload_timer.due_ns != 0)
        env_timer_stop(g->env, &g->reload_timer);
    restore_free(s);
}

static void step_cb(struct env_timer *timer)
{
    struct engine *g = container_of(timer, struct engine, reload_timer);
    struct restore *s = restore_of(g);
    struct err e = {0};
    SHOAL_ASSERT(g->pending == 0 && g->sequence == s->sequence && !g->flush.busy); /* 4 */
    int rc = step(s, g->reload_rows, &e);
    if (rc != 0) {
        (void)engine_fail(g, &e); /* the next start repeats it from the record */
        return;
    }
    if (s->part < PART_END) {
        env_timer_start(g->env, timer, 0);
        return;
    }
    restore_close(g);
    space_back(g);
    g->options.on_recovered(g->options.context);
    if (g->options.on_fetched != NULL)
        g->options.on_fetched(g->options.context);
}

int engine_restore_start(struct engine *g, const struct record_restore *record, uint64_t sequence,
                         struct err *e)
{
    static const struct engine_job_ops ops = {NULL, NULL, restore_bytes, restore_close};
    struct restore *s;
    int rc = restore_new(g, record, sequence, false, &s, e);
    if (rc != 0)
        return rc;
    engine_job_begin(g, JOB_RESTORE, &s->job, &ops);
    g->reload_timer.fire = step_cb;
    env_timer_start(g->env, &g->reload_timer, 0);
    return 0;
}
