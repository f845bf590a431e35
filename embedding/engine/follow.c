/* follow.c: a follower takes the leader's records, one by one; and the leader's records that are
 * for followers alone.
 *
 * 1. A follower takes only the record behind its last one, and journals it under the same sequence.
 *    [assert: engine_follow] [test: a_gap_is_refused]
 * 2. It takes a record only if the leader could have made it in the state here: then its effect is
 *    the same (apply.h, 1). Otherwise nothing changes. [test: a_flipped_bit_is_refused,
 *    an_unknown_run_is_refused]
 * 3. Behind RECORD_BASE the state does not follow from the records: the record is never taken.
 *    [test: a_base_is_refused] */
#include "embedding/follow.h"

#include "embedding/engine/apply.h"
#include "embedding/engine/assign.h"
#include "embedding/engine/change.h"
#include "embedding/engine/cut.h"
#include "embedding/engine/cut_copy.h"
#include "embedding/engine/moved.h"
#include "embedding/engine/restore_check.h"
#include "embedding/engine/tier.h"
#include "embedding/journal/record_schema.h"
#include "proto/base/assert.h"
#include "proto/job/packed.h"

#include <inttypes.h>

/* ---- records for followers alone ---- */

int engine_term_begin(struct engine *g, uint64_t term, struct err *e)
{
    const struct record_term r = {term};
    if (term <= term_last(&g->terms))
        return err_set(e, SHOAL_E_CONFIG,
                       "term %" PRIu64 " cannot begin here: term %" PRIu64 " has begun", term,
                       term_last(&g->terms));
    return engine_record(g, RECORD_TERM, &r, sizeof r, e);
}

uint64_t engine_last_term(const struct engine *g)
{
    return term_last(&g->terms);
}

int engine_common(const struct engine *g, uint64_t term, uint64_t sequence, uint64_t *common)
{
    return term_common(&g->terms, g->committed, term, sequence, common);
}

int engine_base_mark(struct engine *g, struct err *e)
{
    return engine_record(g, RECORD_BASE, NULL, 0, e);
}

int engine_cut_mark(struct engine *g, uint64_t cut, uint64_t run, struct err *e)
{
    const struct record_cut r = {cut, run};
    return engine_record(g, RECORD_CUT, &r, sizeof r, e);
}

int engine_cut_drop_mark(struct engine *g, uint64_t cut, struct err *e)
{
    const struct record_cut r = {.cut = cut};
    return engine_record(g, RECORD_CUT_DROP, &r, sizeof r, e);
}

/* ---- reading a record ---- */

uint32_t engine_follow_kind(const void *at, size_t available)
{
    struct record_header h;
    if (!record_head(at, available, &h))
        return 0;
    return h.kind;
}

static int read_push(const struct engine *g, const struct record_header *h, const void *payload,
                     struct push_record *out, struct err *e)
{
    const struct table *t = NULL;
    if (h->table < LIMIT_TABLES)
        t = g->table[h->table].table;
    if (t == NULL ||
        record_to_push(h, payload, packed_bytes(table_schema_of(t), h->width), out) != 0 ||
        (out->rows != NULL && assign_keys_fit(out, &g->table[h->table], NULL) != 0))
        return err_set(e, SHOAL_E_CORRUPT,
                       "record %" PRIu64 " of the leader is a push that fits no table here",
                       h->sequence);
    return 0;
}

static int read_record(const struct engine *g, const void *at, size_t available,
                       struct record_header *h, const void **payload, struct engine_followed *out,
                       struct err *e)
{
    *out = (struct engine_followed){0};
    SHOAL_ASSERT((uintptr_t)at % RECORD_ALIGN == 0);
    bool found = record_head(at, available, h);
    int rc = SHOAL_E_END;
    if (found)
        rc = record_read(at, available, h->segment, h, payload);
    if (rc == SHOAL_E_VERSION)
        return err_set(e, rc,
                       "record %" PRIu64 " of the leader, of kind %u, is a later Shoal's: install "
                       "it here, too",
                       h->sequence, h->kind);
    if (rc != 0 || !apply_fits(h))
        return err_set(e, SHOAL_E_CORRUPT, "a record of the leader is damaged (%zu bytes)",
                       available);

    out->kind = h->kind;
    out->sequence = h->sequence;
    out->bytes = record_length(h);
    if (h->kind == RECORD_TERM)
        out->term = ((const struct record_term *)*payload)->term;
    if (h->kind == RECORD_CUT || h->kind == RECORD_CUT_DROP) {
        out->cut = ((const struct record_cut *)*payload)->cut;
        out->run = ((const struct record_cut *)*payload)->run;
    }
    if (!record_pushes(h->kind))
        return 0;
    return read_push(g, h, *payload, &out->push, e);
}

int engine_follow_peek(const struct engine *g, const void *at, size_t available,
                       struct engine_followed *out, struct err *e)
{
    struct record_header h;
    const void *payload;
    return read_record(g, at, available, &h, &payload, out, e);
}

/* ---- checks: the leader's conditions for a control record ---- */

static int differs(const char *what, uint64_t number, const char *how, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT,
                   "a record of the leader about %s %" PRIu64
                   " does not follow from what is here: %s",
                   what, number, how);
}

/* The status of a condition that the leader has found true: it comes true, or never does. */
static int status_of(int rc, const char *what, uint64_t number, struct err *e)
{
    struct err why = *e;
    if (rc == SHOAL_E_AGAIN || rc == SHOAL_E_BUSY || rc == SHOAL_E_NO_SPACE)
        return err_set(e, SHOAL_E_BUSY, "%s", why.text);
    if (rc == SHOAL_E_NOMEM || rc == SHOAL_E_IO)
        return rc;
    return differs(what, number, why.text, e);
}

static int check_table(struct engine *g, const struct record_header *h, const void *payload,
                       struct err *e)
{
    struct table_schema s;
    int rc = record_schema_read(payload, h->payload_bytes, &s, e);
    if (rc == 0)
        rc = schema_check(&s, e);
    if (rc != 0)
        return status_of(rc, "table", 0, e);
    const struct engine_table *t = engine_slot(g, s.table);
    if (t != NULL && schema_equal(table_schema_of(t->table), &s))
        return differs("table", s.table, "it has that schema", e);
    if (t != NULL)
        rc = change_ready(g, &s, e);
    else
        rc = engine_overlap(g, &s, e);
    return rc == 0 ? 0 : status_of(rc, "table", s.table, e);
}

static int check_run_open(struct engine *g, const struct record_header *h, const void *payload,
                          struct err *e)
{
    struct record_run_open r;
    record_to_run_open(h->kind, payload, &r);
    if (r.run == 0 || r.lanes == 0 || r.lanes > LIMIT_LANES || !run_mode_known(r.mode))
        return differs("run", r.run, "it is malformed", e);
    if (r.run <= runs_newest(&g->runs, r.tables) || runs_open(&g->runs) >= LIMIT_RUNS)
        return differs("run", r.run, "it was open, or too many are", e);
    int rc = tier_check_marks(g, r.run, r.lanes, r.tables, e);
    return rc == 0 ? 0 : status_of(rc, "run", r.run, e);
}

static int check_run_drop(struct engine *g, const struct record_run_drop *r, struct err *e)
{
    if (runs_find(&g->runs, r->run) == NULL)
        return differs("run", r->run, "it is not open", e);
    if (cut_copy_under_way(g))
        return err_set(e, SHOAL_E_BUSY, "a cut is being copied; ask again");
    return 0;
}

static int check_fence(struct engine *g, const struct record_fence *r, struct err *e)
{
    const struct run *run = runs_find(&g->runs, r->run);
    if (run == NULL || r->lane >= run->lanes)
        return differs("run", r->run, "there is no such lane", e);
    if (r->generation < run->lane[r->lane].generation)
        return differs("run", r->run, "the lane has a newer generation", e);
    return 0;
}

static int no_table(struct engine *g, const struct table_schema *s, struct err *e)
{
    (void)g;
    return err_set(e, SHOAL_E_CORRUPT, "table %s is not here", s->name);
}

static int check_restore(struct engine *g, const struct record_restore *r, struct err *e)
{
    struct cut_source source;
    if (!table_set_within(r->existing, g->here))
        return differs("cut", r->cut, "a table is missing", e);
    if (runs_find(&g->runs, r->run) != NULL)
        return differs("run", r->run, "it is open", e);
    if (g->holding || g->cut_busy)
        return err_set(e, SHOAL_E_BUSY, "a cut is under way; ask again");
    if (g->journal != NULL && g->ref_count == ENGINE_CUT_REFS) {
        engine_flush_step(g);
        return err_set(e, SHOAL_E_BUSY, "%u restores are still in the journal", ENGINE_CUT_REFS);
    }
    bool checked = cut_checked(g, r->cut);
    int rc = cut_open(g, r->cut, checked ? CUT_SIZES : CUT_READ, &source, e);
    if (rc != 0)
        return status_of(rc, "cut", r->cut, e);
    const struct cut_facts *f = &source.facts;
    bool same = f->run != 0 && table_set_equal(f->tables, r->tables) && f->lanes == r->lanes &&
                f->mode == r->mode;
    if (!checked)
        rc = restore_check_read(&source, e);
    if (rc == 0)
        rc = restore_check_tables(g, &source, no_table, e);
    cut_source_close(&source);
    if (rc != 0)
        return status_of(rc, "cut", r->cut, e);
    return same ? 0 : differs("cut", r->cut, "it is another one", e);
}

static int check_keys(struct engine *g, const struct record_keys *r, size_t bytes, struct err *e)
{
    if (r->count > LIMIT_KEYS || bytes != sizeof *r + r->count * sizeof(uint64_t))
        return differs("table", r->table, "it is malformed", e);
    int rc = engine_keys_check(g, r->table, (enum key_action)r->action, r->count, e);
    return rc == 0 ? 0 : status_of(rc, "table", r->table, e);
}

static int check_tablet_in(struct engine *g, const void *image, size_t bytes, struct err *e)
{
    struct record_tablet_in h = {0};
    int rc = moved_check(g, image, bytes, &h, e);
    if (rc == 0)
        rc = tier_check_room(g, h.table, false, e);
    if (rc == 0 && cut_copy_waits(g, h.table, h.tablet, 1))
        rc = err_set(e, SHOAL_E_BUSY, "a cut is being copied; ask again");
    return rc == 0 ? 0 : status_of(rc, "tablet", h.tablet, e);
}

static int check_tablet_out(struct engine *g, const void *out, size_t bytes, struct err *e)
{
    if (cut_copy_under_way(g))
        return err_set(e, SHOAL_E_BUSY, "a cut is being copied; ask again");
    return moved_check_out(g, out, bytes, e);
}

static int check_control(struct engine *g, const struct record_header *h, const void *payload,
                         struct err *e)
{
    const struct record_term *term = payload;
    struct record_restore restore;
    switch ((enum record_kind)h->kind) {
    case RECORD_TABLE:
        return check_table(g, h, payload, e);
    case RECORD_RUN_OPEN:
    case RECORD_RUN_OPEN_FAR:
        return check_run_open(g, h, payload, e);
    case RECORD_RUN_DROP:
        return check_run_drop(g, payload, e);
    case RECORD_FENCE:
        return check_fence(g, payload, e);
    case RECORD_RESTORE:
    case RECORD_RESTORE_FAR:
        record_to_restore(h->kind, payload, &restore);
        return check_restore(g, &restore, e);
    case RECORD_KEYS:
        return check_keys(g, payload, h->payload_bytes, e);
    case RECORD_TERM:
        if (term->term <= term_last(&g->terms))
            return differs("term", term->term, "a later one has begun", e);
        return 0;
    case RECORD_TABLET_IN:
        return check_tablet_in(g, payload, h->payload_bytes, e);
    case RECORD_TABLET_OUT:
        return check_tablet_out(g, payload, h->payload_bytes, e);
    case RECORD_BASE: /* 3 */
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "the leader's state behind record %" PRIu64
                       " does not follow from its records: this copy begins anew",
                       h->sequence);
    default:
        return 0;
    }
}

/* ---- taking a record ---- */

static int take_control(struct engine *g, const struct record_header *h, const void *payload,
                        struct err *e)
{
    if (g->pending > 0)
        return err_set(e, SHOAL_E_BUSY, "pushes before record %" PRIu64 " are not applied yet",
                       h->sequence);
    if (g->journal != NULL && h->payload_bytes > journal_payload_max(g->journal))
        return err_set(e, SHOAL_E_TOO_BIG,
                       "record %" PRIu64 " of the leader, of %u bytes, does not fit a journal "
                       "segment of %u here: raise journal.segment, and restart the server",
                       h->sequence, h->payload_bytes, g->segment_bytes);
    int rc = check_control(g, h, payload, e);
    if (rc != 0)
        return rc;
    struct record_restore restore;
    if (record_restores(h->kind)) {
        record_to_restore(h->kind, payload, &restore);
        return engine_record_restore(g, &restore, e);
    }

    rc = engine_record(g, (enum record_kind)h->kind, payload, h->payload_bytes, e);
    if (rc == 0 && h->kind == RECORD_RUN_DROP && g->journal == NULL)
        runs_forget(&g->runs, UINT64_MAX);
    return rc;
}

int engine_follow(struct engine *g, const void *at, size_t available, struct engine_followed *out,
                  struct err *e)
{
    struct record_header h;
    const void *payload;
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (!engine_back(g))
        return err_set(e, SHOAL_E_AGAIN, "rows are being brought back; ask again");
    if (g->holding)
        return err_set(e, SHOAL_E_BUSY, "a cut is held; ask again");
    int rc = read_record(g, at, available, &h, &payload, out, e);
    if (rc != 0)
        return rc;
    if (h.sequence != g->sequence + 1)
        return err_set(e, SHOAL_E_CORRUPT,
                       "record %" PRIu64 " of the leader does not follow record %" PRIu64 " here",
                       h.sequence, g->sequence);
    if (record_pushes(h.kind))
        rc = engine_admit_followed(g, &out->push, (h.flags & RECORD_FLAG_BSP) != 0, &out->plan, e);
    else
        rc = take_control(g, &h, payload, e);
    SHOAL_ASSERT(rc != 0 || g->sequence == h.sequence); /* 1 */
    return rc;
}
