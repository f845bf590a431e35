/* replay.c: records above what is stored, one by one, and what that takes beside (apply.h):
 * tablets that come back, rows that come into memory, rows that leave it. Invariants:
 * recover.c. */
#include "embedding/engine/replay.h"

#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/reload.h"
#include "embedding/journal/cursor.h"
#include "proto/base/container_of.h"

#include <inttypes.h>
#include <stdlib.h>

static int base_of(struct apply *a, uint32_t table, struct err *e)
{
    return replay_base(container_of(a, struct replay, to), table) == 0
               ? 0
               : err_set(e, SHOAL_E_NOMEM, "no memory for the tablets of table %u", table);
}

static int tablets_back(struct apply *a, uint32_t table, uint32_t first, uint32_t count,
                        struct err *e)
{
    return reload_bring(a->g, table, first, count, e);
}

static int rows_in(struct apply *a, uint32_t table, const uint64_t *keys, uint32_t count,
                   struct err *e)
{
    return fetch_bring(a->g->table[table].table, container_of(a, struct replay, to)->store, keys,
                       count, e);
}

static int room_beside(struct apply *a, uint64_t sequence, struct err *e)
{
    return flush_make_room(a->g, sequence, sequence > a->control, e);
}

static int room_of_cut(struct apply *a, uint64_t sequence, struct err *e)
{
    struct replay *r = container_of(a, struct replay, to);
    (void)sequence;
    return r->spill == NULL ? 0 : replay_make_room(r, e);
}

static int run_alone(struct apply *a, const struct record_restore *record, uint64_t sequence,
                     bool past, struct err *e)
{
    struct run *run;
    int rc = apply_restored_run(a->runs, record, sequence, past, &run);
    return rc == 0 ? 0
                   : err_set(e, rc, "record %" PRIu64 " cannot be replayed: %s", sequence,
                             err_text(rc));
}

/* A cut never leans on another one (cut.c, 3): its tablets are all of later than a restore among
 * its records. */
static int restored_in_cut(struct apply *a, const struct record_restore *record, uint64_t sequence,
                           bool past, struct err *e)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = 0;
             a->base[i] != NULL && (record->existing >> i & 1) && k < a->g->table[i].scope.tablets;
             k++)
            if (a->base[i][k] < sequence)
                return err_set(e, SHOAL_E_CORRUPT,
                               "tablet %u of table %u is older than the restore in record %" PRIu64,
                               k, i, sequence);
    return run_alone(a, record, sequence, past, e);
}

/* Which tablets are older is known once they are back; where none is, its run is all that it leaves
 * behind. */
static int restored(struct apply *a, const struct record_restore *record, uint64_t sequence,
                    bool past, struct err *e)
{
    if (cut_ref_add(a->g, record->cut, sequence) != 0)
        return err_set(e, SHOAL_E_CORRUPT, "more than %u restores stand in the journal",
                       ENGINE_CUT_REFS);
    if (sequence <= a->floor)
        return run_alone(a, record, sequence, past, e);
    int rc = reload_bring_all(a->g, e);
    return rc == 0 ? engine_restore_apply(a->g, record, sequence, past, e) : rc;
}

static const struct apply_ops beside = {base_of, tablets_back, rows_in, room_beside, restored};
static const struct apply_ops in_cut = {base_of, NULL, rows_in, room_of_cut, restored_in_cut};

void replay_init(struct replay *r, struct engine *g, struct store *store, struct runs *runs,
                 bool of_cut)
{
    *r = (struct replay){
        .to = {.g = g, .runs = runs, .of_cut = of_cut, .ops = of_cut ? &in_cut : &beside},
        .store = store,
        .until = UINT64_MAX};
}

void replay_free(struct replay *r)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        if (r->own[i])
            free(r->to.base[i]);
        free(r->epoch[i]);
    }
}

int replay_journal(struct replay *r, struct journal *j, uint64_t *first, uint64_t *last,
                   struct err *e)
{
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record record;
    *first = *last = 0;
    int rc = cursor_gather(NULL, j, &files, e);
    if (rc != 0)
        return rc;
    cursor_open(&c, &files, 0, r->until, CURSOR_WHOLE);
    while ((rc = cursor_next(&c, &record, e)) == 0 &&
           (rc = apply_record(&r->to, &record, e)) == 0) {
        *first = *first == 0 ? record.head->sequence : *first;
        *last = record.head->sequence;
        r->to.g->replayed += !r->to.of_cut;
    }
    if (rc == SHOAL_E_END) {
        rc = 0;
        if (!r->to.of_cut)
            journal_take_end(j, &c);
    }
    cursor_close(&c);
    cursor_files_free(&files);
    return rc;
}

int replay_cut(struct replay *r, struct journal *j, struct err *e)
{
    uint64_t first, last;
    int rc = replay_journal(r, j, &first, &last, e);
    if (rc == 0 && last < r->until && r->to.control < r->until)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "its journal ends at record %" PRIu64 ", it needs %" PRIu64, last, r->until);
    return rc;
}
