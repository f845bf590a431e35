/* taken.c: invariants and diagram in taken.h. */
#include "server/coord/work/taken.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char BEGIN_KEY[] = "taken/0";

#define VERSION_MOST (1ull << 60)
#define AGAIN_NS UINT64_C(1000000000)
#define STORE_FAILED "the coordinator's store failed"
#define NO_MEMORY "no memory for the names of what the tables have learnt"
#define ADVICE                                                                                     \
    "; bring the data_dir back from a copy, or empty it: the cluster is taken over from its "      \
    "servers"

_Static_assert(COORD_TAKEN_RECORD_MAX <= WIRE_TAKEN_BYTES_MAX, "it is one frame");

/* Returns the shard that keeps the list: the first one. */
static uint32_t keeper(const struct coord_fleet *f)
{
    return coord_member_next(&f->members, 0);
}

void coord_taken_close(struct coord_fleet *f)
{
    COORD_EACH_SPACE (f, s) {
        coord_taken_list_close(&s->taken->is);
        free(s->taken->gone);
        *s->taken = (struct coord_taken){.version = 0};
    }
}

static int list_open(struct coord_fleet *f, const struct coord_space *s, struct err *e)
{
    void *value;
    size_t bytes;
    uint64_t version = 0;
    int rc = coord_store_get(s->store, COORD_TAKEN_KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (bytes >= sizeof version)
        memcpy(&version, value, sizeof version);
    rc = SHOAL_E_CORRUPT;
    if (version > 0 && version < VERSION_MOST)
        rc = coord_taken_record_take(&s->taken->is, (char *)value + sizeof version,
                                     bytes - sizeof version, e);
    free(value);
    s->taken->version = version;
    f->taken->version = MAX(f->taken->version, version);
    if (rc == SHOAL_E_CORRUPT)
        return err_set(e, rc, "the stored names of learnt objects cannot be" ADVICE);
    return rc;
}

int coord_taken_open(struct coord_fleet *f, struct err *e)
{
    int rc = 0;
    COORD_EACH_SPACE (f, s)
        if (rc == 0)
            rc = list_open(f, s, e);
    return rc;
}

static int begin_put(struct coord_job *j, const struct coord_taken_list *l, struct err *e)
{
    size_t bytes;
    void *record = coord_taken_record_make(l, 0, &bytes);
    if (record == NULL)
        return err_set(e, SHOAL_E_NOMEM, NO_MEMORY);
    bool good = coord_job_put(j, BEGIN_KEY, record, bytes);
    free(record);
    if (!good)
        return err_set(e, SHOAL_E_IO, STORE_FAILED);
    return 0;
}

static int begin_get(struct coord_job *j, struct err *e)
{
    void *value;
    size_t bytes;
    int rc = coord_store_get(j->store, BEGIN_KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    rc = coord_taken_record_take(j->taken, value, bytes, e);
    free(value);
    if (rc == 0 && j->taken->at.job != j->at.number)
        coord_taken_list_close(j->taken);
    return rc;
}

int coord_taken_load(struct coord_job *j, struct err *e)
{
    const struct coord_taken_head *at = &j->space->taken->is.at;
    int rc = begin_get(j, e);
    bool ahead = at->job == j->at.number && at->round > j->at.epoch;
    if (rc != 0 || coord_taken_begins(j) || !ahead)
        return rc;
    if (!coord_taken_undo(j)) /* 2 */
        return err_set(e, SHOAL_E_IO, STORE_FAILED);
    return 0;
}

/* ---- a job that is submitted ----------------------------------------------------------------- */

#define ALL_NEW                                                                                    \
    "where data.train lists only what they have not learnt, from a later date on, say, set "       \
    "data.objects.all_new: true"

/* The count of objects and streams that the last round has begun to learn. */
static uint32_t begun_count(const struct coord_taken_list *l)
{
    uint32_t count = l->at.hand;
    for (uint32_t i = 0; i < l->positions.count; i++)
        count += l->positions.of[i].from != l->positions.of[i].to;
    return count;
}

/* Checks that a log that grows can begin with tables of these names. */
static int known_check(const struct coord_job *j, const struct coord_taken_head *at, bool fleet,
                       struct err *e)
{
    const char *from = fleet ? "start_from: fleet" : "the checkpoint";
    if (!coord_grow_on(j) || j->spec.data.objects.all_new)
        return 0;
    if ((at->flags & COORD_TAKEN_UNSURE) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: it is not known what its tables have learnt of data.train: they are of "
                       "a release that kept no names, or have learnt of a stream, or of a job that "
                       "ended half way; " ALL_NEW
                       "; else begin with none: --set fresh=all, without "
                       "%s, drops the tables of its space for good",
                       from, fleet ? "start_from" : "the checkpoint");
    if ((at->flags & COORD_TAKEN_BEGUN) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: %u files or objects are learnt in part, as their job was stopped, or "
                       "saved, before it was through with them: go on at the very batch with "
                       "--resume CHECKPOINT, its newest (checkpoint.at_end makes one when it is "
                       "stopped)%s, or begin with one of another moment; " ALL_NEW,
                       from, begun_count(j->taken),
                       text_if(fleet, ", and --set fresh=all, which drops the tables that are here "
                                      "for those of the checkpoint"));
    return 0;
}

/* A space that was dropped has left a list under the number that a new one gets. */
static int former_clear(struct coord_job *j, struct err *e)
{
    struct coord_taken *t = j->space->taken;
    if (t->version == 0 || coord_space_holds(j->fleet, j->space))
        return 0;
    coord_taken_list_close(&t->is);
    coord_taken_moved(t);
    return coord_taken_changed(j->fleet, j->space, e);
}

/* j->taken has the names that the job begins with. If a former job had begun to learn some of them,
 * no job completes them: the tables become UNSURE. */
static int begin(struct coord_job *j, bool fleet, struct err *e)
{
    struct coord_taken_head *at = &j->taken->at;
    int rc = known_check(j, at, fleet, e);
    if (rc == 0)
        rc = former_clear(j, e);
    if (rc != 0)
        return rc;
    bool begun = (at->flags & COORD_TAKEN_BEGUN) != 0;
    if (begun && !j->spec.train.skip)
        at->flags = COORD_TAKEN_UNSURE;
    at->flags &= ~(uint32_t)COORD_TAKEN_NAMED;
    at->job = j->at.number;
    at->round = 0;
    if (coord_grow_on(j) && j->taken->names.count > 0)
        log_info("job %s: %u files and objects that its tables have learnt are not taken again",
                 j->spec.name, j->taken->names.count);
    return begin_put(j, j->taken, e);
}

int coord_taken_none(struct coord_job *j, struct err *e)
{
    coord_taken_list_close(j->taken);
    return begin(j, false, e);
}

int coord_taken_fleet(struct coord_job *j, struct err *e)
{
    const struct coord_taken *t = j->space->taken;
    const struct coord_taken_all *all = j->fleet->taken;
    const struct coord_members *m = &j->fleet->members;
    bool heard = t->version > 0 || m->shards == 0 || m->shard[keeper(j->fleet)].seen;
    if (all->newest > all->version || !heard)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "start_from: fleet: not all servers have said yet what their tables have "
                       "learnt: submit again in a moment");
    if (coord_taken_copy(j->taken, &t->is) != 0)
        return err_set(e, SHOAL_E_NOMEM, NO_MEMORY);
    if (t->version == 0)
        j->taken->at.flags = COORD_TAKEN_UNSURE;
    return begin(j, true, e);
}

int coord_taken_saved(struct coord_job *j, const void *record, size_t bytes, bool goes_on,
                      struct err *e)
{
    coord_taken_list_close(j->taken);
    int rc = 0;
    if (record != NULL)
        rc = coord_taken_record_take(j->taken, record, bytes, e);
    if (rc == SHOAL_E_CORRUPT)
        rc = err_wrap(e, rc, "coordinator.state");
    if (rc != 0)
        return rc;
    if (record == NULL)
        j->taken->at.flags = COORD_TAKEN_UNSURE;
    if (!goes_on)
        return begin(j, false, e);
    j->taken->at.job = j->at.number;
    return begin_put(j, j->taken, e);
}

/* ---- what the job adds ----------------------------------------------------------------------- */

/* The tables are there: makes the job's names those of its space, with those of the objects that
 * the job is to learn now. */
static int take_over(struct coord_job *j, struct err *e)
{
    struct coord_taken *t = j->space->taken;
    struct coord_taken_list *l = j->taken;
    static const struct coord_taken_list none;
    bool learns = !j->spec.train.skip && !coord_from_resumes(&j->at);
    bool objects = j->spec.data.objects.of[WIRE_TRAIN].on;
    int rc = 0;
    if (learns && objects)
        rc = coord_taken_objects_add(j, l, e);
    if (rc != 0)
        return rc;
    if (learns && !objects && (l->at.flags & COORD_TAKEN_NAMED) == 0)
        l->at.flags |= COORD_TAKEN_UNSURE; /* the worker's release tells no names */
    if (learns) {
        l->at.flags |= COORD_TAKEN_BEGUN;
        l->at.round = j->at.epoch;
    }
    l->at.flags &= ~(uint32_t)COORD_TAKEN_NAMED;
    coord_taken_list_close(&t->is);
    coord_taken_moved(t);
    t->is = *l;
    *l = none;
    rc = coord_taken_changed(j->fleet, j->space, e);
    if (rc != 0)
        return rc;
    return begin_put(j, &none, e);
}

/* Returns the space whose list is the oldest of those newer than `version`; NULL: there is none. */
static struct coord_space *next_above(const struct coord_fleet *f, uint64_t version)
{
    struct coord_space *next = NULL;
    COORD_EACH_SPACE (f, s)
        if (s->taken->version > version &&
            (next == NULL || s->taken->version < next->taken->version))
            next = s;
    return next;
}

/* True when shard 0 has the job's list. */
static bool told(const struct coord_job *j)
{
    const struct coord_fleet *f = j->fleet;
    return f->taken->told >= j->space->taken->version || f->members.shards == 0;
}

bool coord_taken_settled(struct coord_job *j)
{
    struct err e = {0};
    SHOAL_ASSERT(j->at.phase == PHASE_SETUP);
    int rc = 0;
    if (coord_taken_begins(j))
        rc = take_over(j, &e);
    if (rc != 0)
        return coord_end_fail(j, rc, "%s", e.text);
    coord_taken_step(j->fleet);
    return told(j);
}

int coord_taken_round(struct coord_job *j, uint32_t round, bool *is_told, struct err *e)
{
    struct coord_taken_list *l = &j->space->taken->is;
    *is_told = false;
    if (l->at.job != j->at.number || l->at.round != round) {
        int rc = coord_taken_objects_add(j, l, e);
        if (rc != 0)
            return rc;
        l->at.job = j->at.number;
        l->at.round = round;
        l->at.flags |= COORD_TAKEN_BEGUN;
        rc = coord_taken_changed(j->fleet, j->space, e);
        if (rc != 0)
            return rc;
        coord_taken_step(j->fleet);
    }
    *is_told = told(j);
    return 0;
}

bool coord_taken_undo(struct coord_job *j)
{
    struct coord_taken_list *l = &j->space->taken->is;
    struct err e = {0};
    if (l->at.job != j->at.number || l->at.round <= j->at.epoch)
        return true;
    coord_taken_list_undo(l);
    coord_taken_moved(j->space->taken);
    l->at.round = j->at.epoch;
    return coord_taken_changed(j->fleet, j->space, &e) == 0;
}

/* True when all rows of the job's names are learnt. A plain job learns them in its first epoch, and
 * again in later ones; a replay must go through all its days. */
static bool is_whole(const struct coord_job *j)
{
    if (coord_grow_on(j))
        return j->at.train_rows >= j->grow->at.before_rows + j->grow->at.rows;
    if (j->spec.replay.on)
        return j->at.epoch == coord_epochs(j) && j->tasks->pushed == j->tasks->tasks;
    return j->at.train_rows >= j->at.split[WIRE_TRAIN].rows;
}

bool coord_taken_learnt(struct coord_job *j)
{
    struct coord_taken_list *l = &j->space->taken->is;
    struct err e = {0};
    bool begun = (l->at.flags & COORD_TAKEN_BEGUN) != 0 && l->at.job == j->at.number;
    if (!begun || !is_whole(j))
        return true;
    l->at.flags &= ~(uint32_t)COORD_TAKEN_BEGUN;
    if (coord_taken_changed(j->fleet, j->space, &e) == 0)
        return true;
    return coord_end_fail(j, e.code, "%s", e.text);
}

/* ---- requests of workers --------------------------------------------------------------------- */

/* Sends names and positions. Without positions, the request's frame is the names themselves. */
static int list_answer(struct coord_job *j, struct coord_ask *a, const struct coord_taken_list *l)
{
    size_t items = l->names.count * sizeof l->names.item[0], text;
    a->reply.u.TAKEN_reply.count = l->names.count;
    if (items > 0)
        a->frame = l->names.item;
    a->frame_bytes = items;
    if (l->positions.count == 0)
        return 0;
    char *positions = positions_text(&l->positions, &text), *all = NULL;
    if (positions != NULL)
        all = malloc(items + text);
    if (all != NULL) {
        if (items > 0)
            memcpy(all, l->names.item, items);
        memcpy(all + items, positions, text);
        a->reply.u.TAKEN_reply.positions = (uint32_t)text;
        (void)coord_send_frame(j->fleet, a->from, &a->reply, all, items + text);
        a->silent = true;
        a->frame = NULL;
    }
    free(positions);
    free(all);
    if (a->silent)
        return 0;
    return err_set(&a->e, SHOAL_E_AGAIN, NO_MEMORY);
}

int coord_taken_ask(struct coord_job *j, struct coord_ask *a)
{
    if (!coord_phase_running(j) || !coord_grow_on(j))
        return err_set(&a->e, SHOAL_E_AGAIN, "there is no log that grows");
    const struct coord_taken_list *l = coord_taken_names(j);
    int rc = 0;
    uint64_t digest = nameset_digest(&l->names) ^ positions_digest(&l->positions);
    bool same = digest == a->request->u.TAKEN.digest;
    a->reply.u.TAKEN_reply.digest = digest;
    a->frame = "";
    if (!same)
        rc = list_answer(j, a, l);
    j->space->taken->counted = true;
    return rc;
}

int coord_taken_streams(struct coord_job *j, const struct positions *streams, struct err *e)
{
    struct coord_taken_list *l = &j->space->taken->is;
    if (coord_taken_begins(j))
        l = j->taken;
    bool more = false;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < streams->count; i++) {
        struct position begin = streams->of[i];
        const struct position *is = positions_find(&l->positions, begin.stream);
        if (is != NULL && (strcmp(is->mark, begin.mark) == 0 || !j->spec.data.objects.all_new))
            continue;
        begin.to = begin.from;
        rc = positions_put(&l->positions, &begin);
        more = true;
    }
    if (rc == SHOAL_E_TOO_BIG)
        return err_set(e, rc, "the tables would know more than %u partitions", POSITIONS_MAX);
    if (rc != 0)
        return err_set(e, rc, NO_MEMORY);
    if (!more)
        return 0;
    if (l == j->taken)
        return begin_put(j, l, e);
    return coord_taken_changed(j->fleet, j->space, e);
}

int coord_taken_files(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_FILES *q = &a->request->u.FILES;
    struct coord_taken_list *l = j->taken;
    if (!coord_phase_running(j) || !coord_taken_begins(j) || j->spec.data.objects.of[WIRE_TRAIN].on)
        return 0; /* the tables are there: the request is a repeated one */
    if ((l->at.flags & COORD_TAKEN_NAMED) != 0)
        return 0;
    int rc = 0;
    if (!coord_from_resumes(&j->at))
        rc = nameset_add_all(&l->names, a->m->frame[1].data, q->count);
    if (rc == SHOAL_E_NOMEM)
        return err_set(&a->e, rc, NO_MEMORY);
    if (rc != 0 || q->unknown)
        l->at.flags |= COORD_TAKEN_UNSURE;
    l->at.flags |= COORD_TAKEN_NAMED;
    l->at.hand = q->count;
    if (l->at.hand > l->names.count)
        l->at.hand = l->names.count;
    return begin_put(j, l, &a->e);
}

/* ---- what shards know ------------------------------------------------------------------------ */

bool coord_taken_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *b)
{
    struct coord_taken_all *t = f->taken;
    if (shard == keeper(f))
        t->told = b->taken_version;
    if (b->taken_version <= t->version || b->taken_version >= VERSION_MOST)
        return false;
    if (b->taken_version > t->newest) {
        t->newest = b->taken_version;
        t->newest_shard = shard;
        t->asks = 0;
    }
    return true;
}

/* Takes the list of a space from a shard that knows a newer one. */
static int list_take(struct coord_fleet *f, struct coord_space *s, uint32_t shard, uint64_t version,
                     const struct msg *m)
{
    struct err e = {0};
    int rc = coord_taken_record_take(&s->taken->is, m->frame[1].data, m->frame[1].bytes, &e);
    if (rc == 0 && !coord_taken_put(f, s, version, &e))
        rc = e.code;
    if (rc != 0) {
        log_error("what the tables of shard %u have learnt is not taken: %s", shard, e.text);
        return rc;
    }
    coord_taken_moved(s->taken);
    log_warn("%u names of what the tables of space %s have learnt, version %" PRIu64
             ", are taken from shard %u: the coordinator's own were older",
             s->taken->is.names.count, s->name, version, shard);
    return 0;
}

static void held(void *context, const struct coord_call *call, uint32_t shard,
                 const struct wire *reply, const struct msg *m)
{
    struct coord_fleet *f = context;
    struct coord_taken_all *t = f->taken;
    uint64_t version = reply->u.TAKEN_HELD_reply.version;
    uint32_t space = call->request.u.TAKEN_HELD.space;
    struct coord_space *s = &f->spaces.space[space];
    bool newer = version > s->taken->version && version < VERSION_MOST;
    if (shard != t->newest_shard || space != t->asks)
        return; /* another shard is asked by now */
    if (newer && list_take(f, s, shard, version, m) != 0)
        return; /* it is asked again */
    t->asks++;
    t->asked_ns = 0;
}

static void held_done(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    (void)call;
    if (status != 0)
        log_warn("a shard does not say what its tables have learnt: %s", text);
}

/* Asks for the next list. When all have come, what remains newer on the shard is of a space that
 * was dropped. */
static void hear(struct coord_fleet *f, uint64_t now)
{
    struct coord_taken_all *t = f->taken;
    if (coord_call_open_type(&f->calls, f, WIRE_TYPE_TAKEN_HELD) ||
        (t->asked_ns != 0 && now - t->asked_ns < AGAIN_NS))
        return; /* its last answer could not be taken */
    while (t->asks < LIMIT_SPACES && !coord_space_holds(f, &f->spaces.space[t->asks]))
        t->asks++;
    if (t->asks == LIMIT_SPACES) {
        t->version = MAX(t->version, t->newest);
        return;
    }
    t->asked_ns = now;
    SHOAL_ASSERT(t->newest_shard < f->members.shards);
    struct wire w = {.type = WIRE_TYPE_TAKEN_HELD, .u.TAKEN_HELD.space = t->asks};
    (void)coord_call_start(&f->calls, &(struct coord_call){.context = f,
                                                           .request = w,
                                                           .target = t->newest_shard,
                                                           .owner = t->newest_shard,
                                                           .on_reply = held,
                                                           .on_done = held_done});
}

static void tell_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    uint64_t version = call->request.u.TAKEN_SET.version;
    if (status == 0)
        f->taken->told = MAX(f->taken->told, version);
    else {
        f->taken->failed_ns = env_now_ns(f->env);
        log_warn("server %s does not keep what the tables have learnt: %s",
                 f->members.shard[keeper(f)].server, text);
    }
}

static void *record_wire(const struct coord_fleet *f, const struct coord_space *s, struct wire *w,
                         size_t *bytes)
{
    *w = (struct wire){.type = WIRE_TYPE_TAKEN_SET};
    w->u.TAKEN_SET = (struct wire_TAKEN_SET){.version = s->taken->version,
                                             .cluster_high = f->cluster.id[0],
                                             .cluster_low = f->cluster.id[1],
                                             .space = s->number};
    return coord_taken_record_make(&s->taken->is, 0, bytes);
}

void coord_taken_send(struct coord_fleet *f, uint32_t shard, const struct coord_shard *s)
{
    const struct coord_taken_all *t = f->taken;
    const struct coord_space *next = next_above(f, s->figures.taken_version);
    struct wire w;
    size_t bytes;
    if (shard != keeper(f) || t->newest > t->version || next == NULL)
        return;
    void *record = record_wire(f, next, &w, &bytes);
    if (record != NULL)
        (void)coord_send_frame(f, s->peer, &w, record, bytes);
    free(record);
}

static void tell(struct coord_fleet *f, const struct coord_space *s, uint64_t now)
{
    struct coord_taken_all *t = f->taken;
    if (coord_call_open_type(&f->calls, f, WIRE_TYPE_TAKEN_SET) ||
        (t->failed_ns != 0 && now - t->failed_ns < AGAIN_NS))
        return;
    struct wire w;
    size_t bytes;
    void *record = record_wire(f, s, &w, &bytes);
    if (record != NULL) /* without memory the next step tries again */
        (void)coord_call_start(&f->calls, &(struct coord_call){.context = f,
                                                               .request = w,
                                                               .frame = record,
                                                               .frame_bytes = bytes,
                                                               .target = keeper(f),
                                                               .owner = keeper(f),
                                                               .on_done = tell_done});
    free(record);
}

void coord_taken_step(struct coord_fleet *f)
{
    const struct coord_taken_all *t = f->taken;
    if (f->members.shards == 0 || !coord_cluster_ready(&f->cluster))
        return;
    const struct coord_shard *s = &f->members.shard[keeper(f)];
    /* before the spaces are known, a list of one of several would seem that of the only one */
    if (t->newest > t->version && !coord_names_ready(&f->names))
        return;
    const struct coord_space *next = next_above(f, t->told);
    if (t->newest > t->version)
        hear(f, env_now_ns(f->env));
    else if (next != NULL && s->seen && s->ready)
        tell(f, next, env_now_ns(f->env));
}
