/* setup.c: map, tables and run to the shards; digests back. */
#include "server/coord/job/setup.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/import.h"
#include "server/coord/job/back.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "server/coord/work/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void step_done(void *context, const struct coord_call *call, int status, const char *text);

/* Takes the tablets of the job's tables, which are in the map. */
static int tablets_take(struct coord_job *j, struct err *e)
{
    uint32_t tablets = coord_map_tablets(j->table, j->at.tables);
    if (tablets > j->fleet->cluster.tablets)
        return err_set(e, SHOAL_E_CORRUPT, "the map has %u tablets, the job's tables %u",
                       j->fleet->cluster.tablets, tablets);
    free(j->digest);
    j->digest = calloc(tablets, sizeof *j->digest);
    if (j->digest == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the digests of %u tablets", tablets);
    j->tablets = tablets;
    j->at.map_epoch = j->fleet->cluster.map_epoch;
    return 0;
}

int coord_setup_map(struct coord_job *j, struct err *e)
{
    SHOAL_ASSERT(j->at.phase == PHASE_TABLES);
    int rc = coord_map_check(j->table, j->declared_total, e);
    if (rc != 0)
        return rc;
    rc = coord_cluster_map(j->fleet, j->table, j->declared_total, coord_fresh_due(j),
                           &j->space->numbers, &j->space->left, e);
    if (rc == 0) /* rows of an import into a table that had this number would come in */
        rc = coord_import_break(j->fleet, j->space->numbers, e);
    if (rc != 0)
        return rc;
    coord_moves_map_changed(j->fleet);
    bool named = j->space->state == SPACE_IS && strcmp(j->space->name, j->spec.space) == 0;
    if (!named && !coord_space_put(j->fleet, j->space, j->spec.space, SPACE_IS))
        return coord_store_failed(e);
    j->at.tables = j->declared_total;
    rc = tablets_take(j, e);
    if (rc != 0)
        return rc;
    bool good = coord_space_numbers_put(j->fleet, j->space) &&
                coord_job_put(j, "tables", j->table, j->at.tables * sizeof *j->table);
    if (!good)
        return SHOAL_E_IO;
    return 0;
}

void coord_setup_space(struct coord_job *j, struct coord_space *s)
{
    j->space->used = false;
    j->space = s;
    s->used = s->number < LIMIT_SPACES;
}

int coord_setup_open(struct coord_job *j, bool first, struct err *e)
{
    struct coord_spaces *spaces = &j->fleet->spaces;
    uint32_t number = first ? 0 : LIMIT_SPACES;
    int rc = coord_store_get_fixed(j->store, COORD_SPACE_KEY, &number, sizeof number, e);
    if (rc == 0 && number >= LIMIT_SPACES)
        rc =
            err_set(e, SHOAL_E_CORRUPT, "the stored job is of space %u" COORD_STORE_ADVICE, number);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        return rc;
    coord_setup_space(j, &spaces->space[number]);
    return 0;
}

/* Release 0.2.0 stored no numbers: the tables of its only job have the first ones. */
static int numbers_check(struct coord_job *j, struct err *e)
{
    struct table_set stored;
    if (j->space->number >= LIMIT_SPACES)
        return err_set(e, SHOAL_E_NOT_FOUND, "they are those of a later job of its space");
    int rc = coord_space_set_get(j->space->store, "numbers", &stored, e);
    if (rc == SHOAL_E_NOT_FOUND)
        j->space->numbers = table_set_first(j->at.tables);
    else if (rc != 0)
        return rc;
    if (!coord_map_has(&j->fleet->cluster, j->space->numbers, j->table, j->at.tables))
        return err_set(
            e, SHOAL_E_CORRUPT,
            "the stored job's %u tables are not in the map; submit it again with --resume "
            "and its newest checkpoint",
            j->at.tables);
    coord_spaces_hold(j->fleet);
    return 0;
}

int coord_setup_load(struct coord_job *j, struct err *e)
{
    if (j->at.tables == 0 || j->at.tables > LIMIT_TABLES)
        return err_set(e, SHOAL_E_CORRUPT, "the stored job has %u tables", j->at.tables);
    if (j->table == NULL && (j->table = calloc(LIMIT_TABLES, sizeof *j->table)) == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the tables");
    int rc =
        coord_store_get_fixed(j->store, "tables", j->table, j->at.tables * sizeof *j->table, e);
    if (rc == 0)
        rc = coord_map_check(j->table, j->at.tables, e);
    if (rc == 0)
        rc = numbers_check(j, e);
    if (rc == 0 && j->fleet->cluster.map_epoch == 0)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "the stored tables have no map; submit the job again with --resume "
                     "and its newest checkpoint");
    if (rc == 0)
        rc = tablets_take(j, e);
    j->declared_total = j->at.tables;
    for (uint32_t t = 0; rc == 0 && t < j->at.tables; t++)
        j->declared[t] = true;
    return rc;
}

/* ---- at every registration, with or without a job -------------------------------------------- */

static void greeted(void *context, const struct coord_call *call, int status, const char *text)
{
    const struct coord_job *j = context;
    if (status != 0)
        log_warn("server %s refused %s: %s", j->fleet->members.shard[call->owner].server,
                 wire_type_name(call->request.type), text);
}

/* The shard has the map. Its next beat says so too, but a person may ask before. */
static void map_taken(void *context, const struct coord_call *call, uint32_t shard,
                      const struct wire *reply, const struct msg *m)
{
    struct coord_job *j = context;
    (void)call;
    (void)m;
    if (reply->type == WIRE_TYPE_MAP_SET)
        j->fleet->members.shard[shard].figures.map_epoch = reply->u.MAP_SET_reply.map_epoch;
}

/* Asks one shard, which need not be set up for it; frame NULL: the request has none. */
static bool shard_ask(struct coord_job *j, uint32_t shard, const struct wire *w, void *frame,
                      size_t bytes, coord_call_done done)
{
    return coord_call_start(&j->fleet->calls, &(struct coord_call){.context = j,
                                                                   .request = *w,
                                                                   .frame = frame,
                                                                   .frame_bytes = bytes,
                                                                   .target = shard,
                                                                   .owner = shard,
                                                                   .on_reply = map_taken,
                                                                   .on_done = done});
}

/* All shards reply the same, since the schemas are the same. */
static void load_reply(void *context, const struct coord_call *call, uint32_t shard,
                       const struct wire *reply, const struct msg *m)
{
    struct coord_job *j = context;
    (void)call;
    (void)shard;
    (void)m;
    if (j->translated[0] != 0 || reply->u.LOAD_reply.translated[0] == 0)
        return;
    memcpy(j->translated, reply->u.LOAD_reply.translated, sizeof j->translated);
    (void)coord_job_note(j, "translated", j->translated, sizeof j->translated);
    for (const char *line = j->translated; *line != 0;) {
        size_t bytes = strcspn(line, "\n");
        log_info("job %s: %.*s", j->spec.name, (int)bytes, line);
        line += bytes + (line[bytes] == '\n');
    }
}

static bool load_ask(struct coord_job *j, uint32_t shard, const struct wire *w)
{
    return coord_call_start(&j->fleet->calls, &(struct coord_call){.context = j,
                                                                   .request = *w,
                                                                   .target = shard,
                                                                   .owner = shard,
                                                                   .on_reply = load_reply,
                                                                   .on_done = step_done});
}

static bool map_tell(struct coord_job *j, uint32_t shard, coord_call_done done)
{
    struct wire w;
    if (j->fleet->calls.held) /* tablets are moving: another map comes soon */
        return false;
    size_t bytes = coord_cluster_map_wire(&j->fleet->cluster, &w);
    return shard_ask(j, shard, &w, j->fleet->cluster.shard_of, bytes, done);
}

/* False while a shard has a newer map, which is taken first. */
static bool map_there(const struct coord_fleet *f)
{
    return coord_cluster_ready(&f->cluster) && f->cluster.map_epoch > 0;
}

void coord_setup_map_early(struct coord_job *j, uint32_t shard)
{
    struct coord_shard *s = &j->fleet->members.shard[shard];
    struct wire w;
    SHOAL_ASSERT(shard < j->fleet->members.shards && s->seen);
    if (!map_there(j->fleet) || j->fleet->calls.held ||
        s->map_told == j->fleet->cluster.map_epoch || coord_fresh_due(j))
        return;
    size_t bytes = coord_cluster_map_wire(&j->fleet->cluster, &w);
    if (coord_send_frame(j->fleet, s->peer, &w, j->fleet->cluster.shard_of, bytes))
        s->map_told = j->fleet->cluster.map_epoch;
}

/* Asks a shard for a table, which is known to the shards by these numbers. */
static bool table_ask(struct coord_job *j, uint32_t shard, const struct table_schema *s,
                      struct table_set numbers, coord_call_done done)
{
    struct wire w;
    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_TABLE_CREATE;
    wire_schema_to(s, &w.u.TABLE_CREATE);
    w.u.TABLE_CREATE.table = table_set_nth(numbers, s->table);
    w.u.TABLE_CREATE.tablet_first = coord_map_first(&j->fleet->cluster, numbers, s);
    return shard_ask(j, shard, &w, (void *)s->field_rule,
                     s->field_rule_count * sizeof s->field_rule[0], done);
}

static void table_there(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    struct err e = {0};
    greeted(context, call, status, text);
    if (status == 0)
        (void)coord_fleet_stored(
            j->fleet,
            coord_member_note_made(&j->fleet->members, (uint32_t)call->owner, j->fleet->store, &e),
            &e);
}

/* True when the schemas of a space's tables are known and its tablets are in the map. */
static bool schemas_known(const struct coord_fleet *f, const struct coord_space *s)
{
    const struct coord_made *m = s->made;
    return m->number != 0 && coord_map_has(&f->cluster, m->numbers, m->table, m->tables);
}

static bool space_tell(struct coord_job *j, uint32_t shard, const struct coord_space *s)
{
    const struct coord_made *m = s->made;
    bool good = true, known = schemas_known(j->fleet, s);
    for (uint32_t t = 0; known && good && t < m->tables; t++)
        good = table_ask(j, shard, &m->table[t], m->numbers, table_there);
    return good;
}

/* Between two jobs tablets may move to a shard that was added since the last one began. */
static bool tables_tell(struct coord_job *j, uint32_t shard)
{
    return space_tell(j, shard, j->space);
}

/* The same for spaces that rest, whose tablets may move while another space's job runs. Their runs
 * are over, and their cuts but the one of which a checkpoint is made (aside.h). */
static bool resting_tell(struct coord_job *j, uint32_t shard)
{
    const struct coord_fleet *f = j->fleet;
    const struct table_set resting = coord_spaces_resting(f);
    struct wire w = {.type = WIRE_TYPE_CUT_KEEP, .u.CUT_KEEP = {WIRE_TABLES_IS(resting)}};
    bool good = true, anew = coord_cluster_led(&f->cluster, shard) == 0;
    w.u.CUT_KEEP.below = coord_cut_known(f->aside, &w.u.CUT_KEEP.keep);
    w.u.CUT_KEEP.runs = f->counters.next_run;
    if (!table_set_any(resting))
        return true;
    COORD_EACH_SPACE (f, s)
        if (good && anew && !s->used && f->members.shard[shard].placed)
            good = space_tell(j, shard, s);
    return good && shard_ask(j, shard, &w, NULL, 0, greeted);
}

/* True when the shard leads no tablet, which is looked at once for each map. */
static bool tables_due(struct coord_job *j, uint32_t shard)
{
    const struct coord_cluster *cl = &j->fleet->cluster;
    struct coord_setup_shard *at = &j->setup.shard[shard];
    if (coord_phase_running(j) || at->leads == cl->map_epoch ||
        !schemas_known(j->fleet, j->space) || !j->fleet->members.shard[shard].placed)
        return false;
    if (coord_cluster_led(cl, shard) > 0)
        at->leads = cl->map_epoch;
    return at->leads != cl->map_epoch;
}

static bool greet(struct coord_job *j, uint32_t shard)
{
    struct wire w;
    /* the setup of a job tells the map again, but the job may end before, or be past it; rows that
     * are to be dropped first may not fit the map */
    if (map_there(j->fleet) && !coord_fresh_due(j) && !map_tell(j, shard, greeted))
        return false;
    if (!coord_names_greet(j->fleet, shard) || !resting_tell(j, shard))
        return false;

    if (!table_set_any(j->space->numbers) && table_set_any(j->fleet->cluster.held))
        return true; /* a space without tables does not know what others keep */
    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_CUT_KEEP;
    /* none when no space has tables: all */
    w.u.CUT_KEEP = (struct wire_CUT_KEEP){WIRE_TABLES_IS(j->space->numbers)};
    w.u.CUT_KEEP.below = coord_cut_known(j, &w.u.CUT_KEEP.keep);
    /* one job at a time uses these tables, and runs are drawn rising; RUN_DROP of a run that is
     * over goes only to shards that are set up, and no other shard takes a tablet with its marks */
    bool over = !coord_phase_running(j) && !coord_checkpoint_opening(j) &&
                !coord_from_loading(&j->at); /* taking a load back needs its run */
    w.u.CUT_KEEP.runs = j->at.run + over;
    return shard_ask(j, shard, &w, NULL, 0, greeted);
}

void coord_setup_greet(struct coord_job *j)
{
    for (uint32_t i = 0; i < j->fleet->members.shards; i++) {
        const struct coord_shard *s = &j->fleet->members.shard[i];
        struct coord_setup_shard *at = &j->setup.shard[i];
        if (s->seen && s->ready && !at->greeted && coord_cluster_ready(&j->fleet->cluster))
            at->greeted = greet(j, i); /* false when out of memory: the next step tries again */
        if (at->greeted && !at->tables && s->ready && tables_due(j, i))
            at->tables = tables_tell(j, i);
    }
}

/* ---- one shard, step by step ----------------------------------------------------------------- */

/* Writes the fences as they stand; for a lane with a pending fence the shard is then sent the fence
 * itself. Before all generations are raised there is nothing to send. */
static uint32_t fences_take(const struct coord_job *j, struct wire_lane_fence *out)
{
    const struct coord_tasks *t = j->tasks;
    bool raised = j->at.phase == PHASE_SETUP && j->resume == PHASE_LANES;
    uint32_t count = 0;
    for (uint32_t i = 0; !raised && i < t->lanes; i++) {
        const struct coord_lane *l = &t->lane[i];
        bool live = t->mode == WIRE_BSP || l->state == LANE_HELD ||
                    (l->state == LANE_GRANTING && l->placed);
        uint32_t how = 0;
        if (live)
            how |= WIRE_LIVE;
        if (live && l->placed)
            how |= WIRE_PLACED;
        if (l->generation != 0)
            out[count++] = (struct wire_lane_fence){l->generation, i, how, l->at, l->clock};
        SHOAL_ASSERT(l->stored == 0 || l->stored == l->generation); /* grant.c, 1 */
    }
    return count;
}

static bool fences_tell(struct coord_job *j, uint32_t shard)
{
    struct wire_lane_fence fence[LIMIT_LANES];
    struct wire w = {.type = WIRE_TYPE_FENCES};
    uint32_t count = fences_take(j, fence);
    w.u.FENCES = (struct wire_FENCES){.run = j->at.run, .lane_count = count};
    return shard_ask(j, shard, &w, fence, count * sizeof fence[0], step_done);
}

/* The mode of the job's run: enum wire_mode. */
static uint32_t run_mode(const struct coord_job *j)
{
    if (j->spec.train.allreduce)
        return j->spec.train.mode | WIRE_APART;
    return j->spec.train.mode;
}

/* The tables that go before the job begins: those of its space. Where no other space has any, that
 * is whatever the shards hold: some may have a table that this coordinator does not know. */
static struct table_set tables_go(struct coord_job *j)
{
    const struct table_set own = coord_space_tables(j->space);
    j->space->drops_all = table_set_within(j->fleet->cluster.held, own);
    return j->space->drops_all ? TABLE_SET_ALL : own;
}

static bool step_start(struct coord_job *j, uint32_t shard)
{
    uint32_t step = j->setup.shard[shard].step;
    struct wire w;
    memset(&w, 0, sizeof w);
    if (step == 0 && coord_fresh_due(j)) {
        const struct table_set go = tables_go(j);
        w.type = WIRE_TYPE_ROWS_GO;
        w.u.ROWS_GO =
            (struct wire_ROWS_GO){.run = j->at.run, WIRE_TABLES_IS(go), .what = WIRE_ROWS_ALL};
        return shard_ask(j, shard, &w, NULL, 0, step_done);
    }
    step -= coord_fresh_due(j);
    if (step == 0)
        return map_there(j->fleet) && map_tell(j, shard, step_done);
    if (step <= j->at.tables)
        return table_ask(j, shard, &j->table[step - 1], j->space->numbers, step_done);
    if (coord_from_loading(&j->at)) { /* LOAD opens the run with the marks of the checkpoint */
        w.type = WIRE_TYPE_LOAD;
        w.u.LOAD = (struct wire_LOAD){.run = j->at.run, WIRE_TABLES_IS(j->space->numbers)};
        if (j->at.from == FROM_TO_START) {
            w.u.LOAD.lanes = j->tasks->lanes;
            w.u.LOAD.mode = run_mode(j);
            (void)snprintf(w.u.LOAD.without, sizeof w.u.LOAD.without, "%s", j->without);
        }
        (void)snprintf(w.u.LOAD.path, LIMIT_PATH, "%s", j->at.from_path);
        return load_ask(j, shard, &w);
    }
    const char *fields = coord_fresh_fields_due(j);
    if (step == j->at.tables + 2 + (fields != NULL))
        return fences_tell(j, shard);
    if (fields != NULL && step == j->at.tables + 1) {
        if (!coord_fresh_fields_begin(j))
            return false;
        w.type = WIRE_TYPE_ROWS_GO;
        w.u.ROWS_GO = (struct wire_ROWS_GO){
            .run = j->at.run, WIRE_TABLES_IS(j->space->numbers), .what = WIRE_ROWS_FIELDS};
        (void)snprintf(w.u.ROWS_GO.fields, sizeof w.u.ROWS_GO.fields, "%s", fields);
        return shard_ask(j, shard, &w, NULL, 0, step_done);
    }
    w.type = WIRE_TYPE_RUN_OPEN;
    /* a shard without tablets of the tables has no row of the run to lose: it may have been added
     * since, or have lost those of other spaces */
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){
        .run = j->at.run,
        .lanes = j->tasks->lanes,
        .mode = run_mode(j),
        WIRE_TABLES_IS(j->space->numbers),
        .must_exist = j->opened == j->at.run &&
                      coord_cluster_led_of(&j->fleet->cluster, shard, &j->space->numbers) > 0};
    return shard_ask(j, shard, &w, NULL, 0, step_done);
}

/* The shard has all that the job needs: notes its process as the one that has the tables (back.h,
 * 3). False: not yet. */
static bool rows_note(struct coord_job *j, uint32_t shard)
{
    struct coord_fleet *f = j->fleet;
    struct err e = {0};
    if (coord_cluster_lost(f, shard) && !coord_spaces_lost(f, shard))
        return false;
    SHOAL_ASSERT(!coord_back_rows_lost(j, shard)); /* back.h, 3 */
    if (coord_member_note_made(&f->members, shard, f->store, &e) == 0)
        return true;
    return coord_end_fail(j, e.code, "%s", e.text);
}

static void step_next(struct coord_job *j, uint32_t shard)
{
    struct coord_setup_shard *at = &j->setup.shard[shard];
    /* RESTORE and LOAD open the new run themselves, and the new run has no fences yet */
    uint32_t opens = 3;
    if (j->at.phase == PHASE_RESTORE && coord_home_has(j, shard))
        opens = 1;
    else if (j->at.phase == PHASE_RESTORE)
        opens = 2;
    else if (coord_from_loading(&j->at) || !coord_phase_running(j))
        opens = 2;
    uint32_t steps =
        j->at.tables + opens + coord_fresh_due(j) + (coord_fresh_fields_due(j) != NULL);
    SHOAL_ASSERT(!at->busy && !at->done);
    /* the shard was opening the earlier run when RESTORE began, so it is past the last step */
    if (at->step >= steps) {
        if (!rows_note(j, shard))
            return;
        at->done = true;
        log_info("shard %u (%s) has map, tables and run", shard,
                 j->fleet->members.shard[shard].server);
        coord_call_shard_ready(&j->fleet->calls, shard);
        return;
    }
    /* false when out of memory: coord_setup_step begins it again */
    at->busy = step_start(j, shard);
}

static void step_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    uint32_t shard = (uint32_t)call->owner;
    struct coord_setup_shard *at = &j->setup.shard[shard];
    const char *server = j->fleet->members.shard[shard].server;
    SHOAL_ASSERT(at->busy && !at->done); /* otherwise the call was taken back with its step */
    at->busy = false;
    if (status != 0 && coord_checkpoint_opening(j)) {
        coord_checkpoint_give_up(j, status, text);
        return;
    }
    if (status == SHOAL_E_FENCED && call->request.type == WIRE_TYPE_FENCES)
        coord_end_fail(j, SHOAL_E_UNAVAILABLE,
                       "the coordinator's data_dir is older than it was: server %s has lanes of a "
                       "newer generation than this job (%s); submit the job again",
                       server, text);
    else if (status != 0)
        coord_end_fail(j, status, "server %s refused %s: %s", server,
                       wire_type_name(call->request.type), text);
    if (status != 0)
        return;
    at->step++;
    step_next(j, shard);
}

void coord_setup_step(struct coord_job *j)
{
    SHOAL_ASSERT(j->at.phase >= PHASE_SETUP);
    SHOAL_ASSERT(coord_phase_running(j) || coord_checkpoint_opening(j));
    for (uint32_t i = 0; i < j->fleet->members.shards; i++) {
        const struct coord_shard *s = &j->fleet->members.shard[i];
        if (s->seen && s->ready && !j->setup.shard[i].done && !j->setup.shard[i].busy)
            step_next(j, i);
    }
}

/* ---- digests --------------------------------------------------------------------------------- */

/* A shard answers for the tablets from the first that it leads to the last one. The map names those
 * that it leads. */
static void digest_reply(void *context, const struct coord_call *call, uint32_t shard,
                         const struct wire *reply, const struct msg *m)
{
    struct coord_job *j = context;
    const struct table_schema *s = &j->table[call->owner];
    const uint64_t *value = m->frame[1].data;
    uint32_t from = reply->u.DIGEST_reply.tablet_first;
    uint32_t first = coord_map_first(&j->fleet->cluster, j->space->numbers, s);
    SHOAL_ASSERT(call->owner < j->at.tables);
    SHOAL_ASSERT(s->tablet_first + (1u << s->tablet_bits) <= j->tablets);
    j->table_rows[call->owner] += reply->u.DIGEST_reply.rows;
    coord_member_note_rss(&j->fleet->members, shard, reply->u.DIGEST_reply.rss_peak_bytes);
    for (uint32_t t = 0; t < 1u << s->tablet_bits; t++)
        if (j->fleet->cluster.shard_of[first + t] == shard && t >= from &&
            t - from < reply->u.DIGEST_reply.tablet_count)
            j->digest[s->tablet_first + t] = value[t - from];
    struct err e;
    /* when the store fails here, it fails for the progress that follows, too */
    (void)coord_member_note_digested(&j->fleet->members, shard, j->fleet->store,
                                     reply->u.DIGEST_reply.synced, &e);
}

static void digest_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    if (status != 0)
        coord_end_fail(j, status, "digest of table %s: %s", j->table[call->owner].name, text);
    else
        j->digested++;
    SHOAL_ASSERT(j->digested <= j->at.tables);
}

void coord_setup_digest(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_DIGEST};
    SHOAL_ASSERT(j->at.phase == PHASE_DIGEST);
    j->digested = 0;
    memset(j->table_rows, 0, sizeof j->table_rows);
    for (uint32_t t = 0; t < j->at.tables; t++) {
        w.u.DIGEST.table = table_set_nth(j->space->numbers, t);
        if (!coord_call_start(&j->fleet->calls, &(struct coord_call){.context = j,
                                                                     .set_up = &j->setup,
                                                                     .request = w,
                                                                     .target = COORD_NOBODY,
                                                                     .owner = t,
                                                                     .on_reply = digest_reply,
                                                                     .on_done = digest_done})) {
            coord_end_fail(j, SHOAL_E_NOMEM, "no memory to ask for digests");
            return;
        }
    }
}
