/* restore.c: tablets put back to a cut, live and when its record is replayed.
 *
 *  1. A RESTORE record acts on the tablets that are older than it and on no other.
 *     [assert: take_marks]
 *  2. A tablet that is put back begins a new epoch (cold.h): no pair of before is ever taken for
 *     its own, and a kill on the way leaves the old image with its old pairs, so that the record
 *     can be repeated. The pairs of older epochs go once the new image is written (flush.c).
 *     [test: test_cold_restore]
 *  3. The cut's cold rows come in tablet by tablet, and rows leave whenever they fill the budget,
 *     with their pairs alone (spill.h): no image of the tablet is there before its content is that
 *     of the record. [test: test_cold_restore, test_tier_random]
 */
#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/reload.h"
#include "embedding/engine/replay.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- room ---- */

#define LEAVE_SHARE 4u /* of a tablet's rows one in so many goes at a time */

/* A tablet that is not put back is, as long as a restore lasts, what its stored image says, and may
 * lose rows too. */
int replay_make_room(struct replay *r, struct err *e)
{
    uint32_t table, tablet, count;
    int rc = 0;
    while (rc == 0 && tier_wants_room(r->to.g)) {
        if (!tier_hand_next(r->to.g, &r->hand, r->clean, &table, &tablet)) {
            if (r->clean)
                return 0; /* there will be others */
            tier_stuck(r->to.g);
            return 0;
        }
        struct table *t = r->to.g->table[table].table;
        uint64_t hot = table_tablet_rows(t, tablet) - table_cold_tablet(t, tablet);
        SHOAL_ASSERT(hot > 0); /* tier_hand_next promises it */
        /* Of a tablet that is not put back there is an image, and what it lists must stay
         * (spill.h). */
        bool fresh = r->epoch[table] != NULL && r->to.base[table][tablet] != UINT64_MAX;
        rc = spill_tablet(r->spill, t, tablet, fresh, (uint32_t)(hot / LEAVE_SHARE) + 1, &count, e);
    }
    return rc;
}

int replay_settle(struct replay *r, struct table *t, uint32_t tablet, struct err *e)
{
    int rc = fetch_whole(t, tablet, r->images, e);
    if (rc != 0 || r->spill == NULL)
        return rc;
    if (table_cold_begin(t, tablet, r->epoch[table_schema_of(t)->table][tablet]) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for tablet %u of table %s", tablet,
                       table_schema_of(t)->name);
    return replay_make_room(r, e);
}

/* ---- emptied ---- */

static int clear_tablet(struct replay *r, uint32_t table, uint32_t tablet)
{
    struct table *t = r->to.g->table[table].table;
    uint32_t epoch = table_cold_epoch(t, tablet) + 1;
    if (names_take(&r->names, t, tablet) != 0)
        return SHOAL_E_NOMEM;
    table_clear(t, tablet);
    if (r->spill == NULL)
        return 0;
    r->epoch[table][tablet] = epoch;
    return table_cold_begin(t, tablet, epoch);
}

/* Empties every tablet that the record puts back and marks the others as none of our business.
 * Answers how many in *count. */
static int clear_older(struct replay *r, const struct record_restore *record, uint64_t sequence,
                       uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct engine_table *t = engine_slot(r->to.g, i);
        if (t == NULL)
            continue;
        if (replay_base(r, i) != 0)
            return SHOAL_E_NOMEM;
        if (r->spill != NULL &&
            (r->epoch[i] = calloc(t->scope.tablets, sizeof *r->epoch[i])) == NULL)
            return SHOAL_E_NOMEM;
        SHOAL_ASSERT(r->own[i]); /* not the engine's: it is written to */
        for (uint32_t k = 0; k < t->scope.tablets; k++) {
            bool older = (record->existing >> i & 1) &&
                         (r->to.g->journal == NULL || t->durable[k] < sequence);
            if (older && clear_tablet(r, i, k) != 0)
                return SHOAL_E_NOMEM;
            if (!older)
                r->to.base[i][k] = UINT64_MAX;
            *count += older;
        }
    }
    return 0;
}

/* ---- filled ---- */

/* Rows of the cut into the tablets concerned, its runs and marks into r->to.runs. */
static int load_cut(struct replay *r, const struct record_restore *record, struct err *e)
{
    struct cut_source source;
    int rc = cut_open(r->to.g, record->cut, &source, e);
    if (rc != 0)
        return rc;
    r->until = source.facts.sequence;
    r->images = source.store;
    rc = replay_images(r, source.store, e);
    if (rc == 0 && source.journal != NULL)
        rc = replay_cut(r, source.journal, e);
    const struct run *from = runs_find(r->to.runs, source.facts.run);
    if (rc == 0 && (from == NULL || from->lanes != record->lanes))
        rc = err_set(e, SHOAL_E_CORRUPT, "its run %" PRIu64 " is not among its records",
                     source.facts.run);
    if (rc == 0)
        for (uint32_t i = r->to.runs->count;
             i-- > 0;) /* what is left is the run whose marks count */
            if (r->to.runs->run[i] != from)
                runs_drop(r->to.runs, r->to.runs->run[i]);
    cut_source_close(&source);
    return rc == 0 ? 0 : err_wrap(e, rc, "cut %" PRIu64, record->cut);
}

static int take_marks(struct replay *r, struct run *run, uint64_t sequence)
{
    SHOAL_ASSERT(r->to.runs->count == 1 && r->to.runs->run[0]->lanes == run->lanes);
    const struct run *from = r->to.runs->run[0];
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct engine_table *t = engine_slot(r->to.g, i);
        for (uint32_t k = 0; t != NULL && k < t->scope.tablets; k++) {
            if (r->to.base[i][k] == UINT64_MAX)
                continue;
            for (uint32_t lane = 0; lane < from->lanes; lane++)
                if (marks_set(run->marks, lane, i, t->scope.tablets, k,
                              marks_get(from->marks, lane, i, k)) != 0)
                    return SHOAL_E_NOMEM;
            SHOAL_ASSERT(t->changed[k] < sequence); /* 1 */
            engine_touch(t, k, 1, NULL, sequence);
        }
    }
    return 0;
}

int engine_restore_apply(struct engine *g, const struct record_restore *record, uint64_t sequence,
                         bool past, struct err *e)
{
    struct runs then = {0};
    struct spill spill;
    struct replay r;
    struct run *run = NULL;
    SHOAL_ASSERT(!g->flush.busy && g->pending == 0); /* it writes to the store itself */
    SHOAL_ASSERT(reload_left(g) == 0);               /* which tablets are older is known */
    replay_init(&r, g, g->store, &then, true);
    r.spill = g->store == NULL ? NULL : &spill;
    spill_init(&spill, g->store, g->options.memory);
    g->tier.written = false; /* who was to leave has been put back */
    tier_stay(g);
    uint32_t older = 0;
    int rc = clear_older(&r, record, sequence, &older);
    if (rc != 0)
        err_set(e, rc, "no memory to restore cut %" PRIu64, record->cut);
    if (rc == 0 && older > 0)
        rc = load_cut(&r, record, e);
    if (rc == 0 && names_give(&r.names) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the names of keys");
    names_free(&r.names);
    if (rc == 0) {
        rc = apply_restored_run(&g->runs, record, sequence, past, &run);
        if (rc == 0 && older > 0)
            rc = take_marks(&r, run, sequence);
        if (rc != 0)
            err_set(e, rc, "the marks of cut %" PRIu64 " cannot be taken over: %s", record->cut,
                    err_text(rc));
    }
    if (rc == 0)
        engine_refresh_marks(g);
    if (g->journal == NULL)
        runs_forget(&g->runs, UINT64_MAX);
    replay_free(&r);
    spill_free(&spill);
    runs_free(&then);
    return rc;
}
