/* taken.c: invariants and diagram in taken.h. */
#include "server/coord/taken.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core.h"
#include "server/coord/phase.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char KEY[] = "taken", BEGIN_KEY[] = "taken/0";

#define KEEPER 0u /* the shard that has them */
#define VERSION_MOST (1ull << 60)
#define AGAIN_NS UINT64_C(1000000000)
#define STORE_FAILED "the coordinator's store failed"
#define NO_MEMORY "no memory for the names of what the tables have learnt"
#define ADVICE                                                                                     \
    "; bring the data_dir back from a copy, or empty it: the cluster is taken over from its "      \
    "servers"

_Static_assert(COORD_TAKEN_RECORD_MAX + sizeof(uint64_t) <= COORD_VALUE_MAX, "it is one value");
_Static_assert(COORD_TAKEN_RECORD_MAX <= WIRE_TAKEN_BYTES_MAX, "it is one frame");

void coord_taken_list_close(struct coord_taken_list *l)
{
    nameset_close(&l->names);
    *l = (struct coord_taken_list){.at = {.job = 0}};
}

void coord_taken_close(struct coord_taken *t)
{
    coord_taken_list_close(&t->is);
    free(t->gone);
    *t = (struct coord_taken){.version = 0};
}

/* Whether the job is still to take its names over. */
static bool begins(const struct coord *c)
{
    return c->job.taken.at.job != 0 && c->job.taken.at.job == c->job.at.number;
}

static const struct coord_taken_list *names_of(const struct coord *c)
{
    return begins(c) ? &c->job.taken : &c->taken.is;
}

/* ---- records --------------------------------------------------------------------------------- */

/* With so many bytes before it; the caller's. The last `without` names are left out. */
static void *record_make(const struct coord_taken_list *l, size_t before, uint32_t without,
                         size_t *bytes)
{
    struct coord_taken_head head = l->at;
    SHOAL_ASSERT(without <= l->names.count);
    head.count = l->names.count - without;
    size_t items = head.count * sizeof l->names.item[0];
    *bytes = before + sizeof head + items;
    char *record = malloc(*bytes);
    if (record == NULL)
        return NULL;
    memcpy(record + before, &head, sizeof head);
    if (items > 0)
        memcpy(record + before + sizeof head, l->names.item, items);
    return record;
}

/* Bytes of a store, a checkpoint or a shard: nothing is believed. */
static int record_take(struct coord_taken_list *l, const void *bytes, size_t count, struct err *e)
{
    struct coord_taken_list made = {.at = {.job = 0}};
    const uint32_t flags = COORD_TAKEN_BEGUN | COORD_TAKEN_UNSURE | COORD_TAKEN_NAMED;
    if (count >= sizeof made.at)
        memcpy(&made.at, bytes, sizeof made.at);
    if (count < sizeof made.at || made.at.count > NAMESET_MAX || made.at.hand > made.at.count ||
        made.at.flags > flags ||
        count - sizeof made.at != made.at.count * sizeof(struct nameset_item))
        return err_set(e, SHOAL_E_CORRUPT, "names of learnt objects in %zu bytes cannot be", count);
    int rc = nameset_add_all(&made.names, (const char *)bytes + sizeof made.at, made.at.count);
    if (rc == 0 && made.names.count != made.at.count)
        rc = err_set(e, SHOAL_E_CORRUPT, "a learnt object is named twice");
    else if (rc != 0)
        rc = err_set(e, rc, NO_MEMORY);
    if (rc != 0) {
        coord_taken_list_close(&made);
        return rc;
    }
    coord_taken_list_close(l);
    *l = made;
    return 0;
}

void *coord_taken_record(const struct coord *c, size_t *bytes)
{
    struct coord_taken_list l = c->taken.is;
    bool ahead = l.at.job == c->job.at.number && l.at.round > c->job.at.epoch;
    if (c->taken.version == 0)
        return NULL;
    if (ahead) { /* a round that is not at hand yet is none of the checkpoint's */
        l.at.flags &= ~(uint32_t)COORD_TAKEN_BEGUN;
        l.at.round = c->job.at.epoch;
    }
    uint32_t without = ahead ? l.at.hand : 0;
    l.at.hand = ahead ? 0 : l.at.hand;
    return record_make(&l, 0, without, bytes);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* Under a new version. False: it failed, or there is no memory, and *e says so. */
static bool names_put(struct coord *c, uint64_t version, const struct coord_taken_list *l,
                      struct err *e)
{
    size_t bytes;
    char *record = record_make(l, sizeof version, 0, &bytes);
    if (record == NULL) {
        err_set(e, SHOAL_E_NOMEM, NO_MEMORY);
        return false;
    }
    memcpy(record, &version, sizeof version);
    bool good = coord_put(c, KEY, record, bytes);
    free(record);
    if (!good)
        err_set(e, SHOAL_E_IO, STORE_FAILED);
    else
        c->taken.version = version;
    return good;
}

static int changed(struct coord *c, struct err *e)
{
    struct coord_taken *t = &c->taken;
    uint64_t known = t->newest > t->version ? t->newest : t->version;
    return names_put(c, known + 1, &t->is, e) ? 0 : e->code;
}

int coord_taken_open(struct coord *c, struct err *e)
{
    void *value;
    size_t bytes;
    uint64_t version = 0;
    int rc = coord_store_get(c->store, KEY, &value, &bytes, e);
    if (rc != 0)
        return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
    if (bytes >= sizeof version)
        memcpy(&version, value, sizeof version);
    rc = version == 0 || version >= VERSION_MOST
             ? SHOAL_E_CORRUPT
             : record_take(&c->taken.is, (char *)value + sizeof version, bytes - sizeof version, e);
    free(value);
    c->taken.version = version;
    return rc == SHOAL_E_CORRUPT
               ? err_set(e, rc, "the stored names of learnt objects cannot be" ADVICE)
               : rc;
}

static int begin_put(struct coord *c, const struct coord_taken_list *l, struct err *e)
{
    size_t bytes;
    void *record = record_make(l, 0, 0, &bytes);
    if (record == NULL)
        return err_set(e, SHOAL_E_NOMEM, NO_MEMORY);
    bool good = coord_put(c, BEGIN_KEY, record, bytes);
    free(record);
    return good ? 0 : err_set(e, SHOAL_E_IO, STORE_FAILED);
}

static int begin_get(const struct coord *c, struct coord_job *j, struct err *e)
{
    void *value;
    size_t bytes;
    int rc = coord_store_get(c->store, BEGIN_KEY, &value, &bytes, e);
    if (rc != 0)
        return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
    rc = record_take(&j->taken, value, bytes, e);
    free(value);
    if (rc == 0 && j->taken.at.job != j->at.number)
        coord_taken_list_close(&j->taken);
    return rc;
}

int coord_taken_load(struct coord *c, struct err *e)
{
    const struct coord_taken_head *at = &c->taken.is.at;
    int rc = begin_get(c, &c->job, e);
    bool ahead = at->job == c->job.at.number && at->round > c->job.at.epoch;
    if (rc != 0 || begins(c) || !ahead)
        return rc;
    return coord_taken_undo(c) ? 0 : err_set(e, SHOAL_E_IO, STORE_FAILED); /* 2 */
}

/* ---- a job that is submitted ----------------------------------------------------------------- */

#define ALL_NEW                                                                                    \
    "where data.train lists only what they have not learnt, from a later date on, say, set "       \
    "data.objects.all_new: true"

/* Names of tables that a log that grows cannot begin with. */
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
                       "ended half way; " ALL_NEW "; else begin with none: --set fresh=all",
                       from);
    if ((at->flags & COORD_TAKEN_BEGUN) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: %u files or objects are learnt in part, as their job was stopped, or "
                       "saved, before it was through with them: go on at the very batch with "
                       "--resume CHECKPOINT%s, its newest (checkpoint.at_end makes one when it is "
                       "stopped), or begin with one of another moment; " ALL_NEW,
                       from, at->hand, fleet ? " --set fresh=all" : "");
    return 0;
}

/* j->taken is what it goes on with: nobody goes through with what was begun. */
static int begin(struct coord *c, struct coord_job *j, bool fleet, struct err *e)
{
    struct coord_taken_head *at = &j->taken.at;
    int rc = known_check(j, at, fleet, e);
    if (rc != 0)
        return rc;
    bool begun = (at->flags & COORD_TAKEN_BEGUN) != 0;
    if (begun && !j->spec.train.skip)
        at->flags = COORD_TAKEN_UNSURE;
    at->flags &= ~(uint32_t)COORD_TAKEN_NAMED;
    at->job = j->at.number;
    at->round = 0;
    if (coord_grow_on(j) && j->taken.names.count > 0)
        log_info("job %s: %u files and objects that its tables have learnt are not taken again",
                 j->spec.name, j->taken.names.count);
    return begin_put(c, &j->taken, e);
}

int coord_taken_none(struct coord *c, struct coord_job *j, struct err *e)
{
    coord_taken_list_close(&j->taken);
    return begin(c, j, false, e);
}

int coord_taken_fleet(struct coord *c, struct coord_job *j, struct err *e)
{
    const struct coord_taken *t = &c->taken;
    const struct coord_members *m = &c->members;
    bool heard = t->version > 0 || m->shards == 0 || m->shard[KEEPER].seen;
    if (t->newest > t->version || !heard)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "start_from: fleet: not all servers have said yet what their tables have "
                       "learnt: submit again in a moment");
    coord_taken_list_close(&j->taken);
    if (nameset_add_all(&j->taken.names, t->is.names.item, t->is.names.count) != 0)
        return err_set(e, SHOAL_E_NOMEM, NO_MEMORY);
    j->taken.at = t->is.at;
    if (t->version == 0)
        j->taken.at.flags = COORD_TAKEN_UNSURE;
    return begin(c, j, true, e);
}

int coord_taken_saved(struct coord *c, struct coord_job *j, const void *record, size_t bytes,
                      bool goes_on, struct err *e)
{
    coord_taken_list_close(&j->taken);
    int rc = record == NULL ? 0 : record_take(&j->taken, record, bytes, e);
    if (rc == SHOAL_E_CORRUPT)
        rc = err_wrap(e, rc, "coordinator.state");
    if (rc != 0)
        return rc;
    if (record == NULL)
        j->taken.at.flags = COORD_TAKEN_UNSURE;
    if (!goes_on)
        return begin(c, j, false, e);
    j->taken.at.job = j->at.number;
    return begin_put(c, &j->taken, e);
}

/* ---- what the job adds ----------------------------------------------------------------------- */

/* No name stays in its place. */
static void moved(struct coord *c)
{
    free(c->taken.gone);
    c->taken.gone = NULL;
    c->taken.gone_count = 0;
    c->taken.counted = false;
}

static struct nameset_item item_of(const char *line)
{
    return nameset_item(line, strcspn(line, "\t"));
}

/* Room is made by those that the last list had not. */
static void room_make(struct coord *c, struct nameset *names, uint32_t more)
{
    uint32_t free_places = NAMESET_MAX - names->count;
    if (more <= free_places)
        return;
    uint32_t gone = nameset_drop(names, c->taken.gone, c->taken.gone_count, more - free_places);
    log_info("%u learnt objects that are not listed any more are forgotten", gone);
    moved(c);
}

/* The names of the objects at hand; *hand: how many were none of it. */
static int objects_add(struct coord *c, struct coord_taken_list *l, struct err *e)
{
    const struct coord_objects *o = &c->job.objects[WIRE_TRAIN];
    int rc = 0;
    room_make(c, &l->names, o->count);
    uint32_t before = l->names.count;
    for (uint32_t i = 0; rc == 0 && i < o->count; i++)
        rc = nameset_add(&l->names, item_of(o->object[i].line));
    l->at.hand = l->names.count - before;
    if (rc == SHOAL_E_TOO_BIG && !coord_grow_on(&c->job)) {
        l->at.flags |= COORD_TAKEN_UNSURE; /* a log that grows later begins with its own list */
        return 0;
    }
    return rc == 0 ? 0 : err_set(e, rc, "no room for the names of %u objects more", o->count);
}

/* The tables are there: what they have learnt, and what the job is to learn now. */
static int take_over(struct coord *c, struct err *e)
{
    struct coord_job *j = &c->job;
    struct coord_taken_list *l = &j->taken;
    static const struct coord_taken_list none;
    bool learns = !j->spec.train.skip && !coord_from_resumes(&j->at);
    bool objects = j->spec.data.objects.of[WIRE_TRAIN].on;
    int rc = learns && objects ? objects_add(c, l, e) : 0;
    if (rc != 0)
        return rc;
    if (learns && !objects && (l->at.flags & COORD_TAKEN_NAMED) == 0)
        l->at.flags |= COORD_TAKEN_UNSURE; /* a worker of a release that tells no names */
    if (learns) {
        l->at.flags |= COORD_TAKEN_BEGUN;
        l->at.round = j->at.epoch;
    }
    l->at.flags &= ~(uint32_t)COORD_TAKEN_NAMED;
    coord_taken_list_close(&c->taken.is);
    moved(c);
    c->taken.is = *l;
    *l = none;
    rc = changed(c, e);
    return rc == 0 ? begin_put(c, &none, e) : rc;
}

static bool told(const struct coord *c)
{
    return c->taken.told == c->taken.version || c->members.shards == 0;
}

bool coord_taken_settled(struct coord *c)
{
    struct err e = {0};
    SHOAL_ASSERT(c->job.at.phase == PHASE_SETUP);
    int rc = begins(c) ? take_over(c, &e) : 0;
    if (rc != 0)
        return coord_end_fail(c, rc, "%s", e.text);
    coord_taken_step(c);
    return told(c);
}

int coord_taken_round(struct coord *c, uint32_t round, bool *is_told, struct err *e)
{
    struct coord_taken_list *l = &c->taken.is;
    *is_told = false;
    if (l->at.job != c->job.at.number || l->at.round != round) {
        int rc = objects_add(c, l, e);
        if (rc != 0)
            return rc;
        l->at.job = c->job.at.number;
        l->at.round = round;
        l->at.flags |= COORD_TAKEN_BEGUN;
        rc = changed(c, e);
        if (rc != 0)
            return rc;
        coord_taken_step(c);
    }
    *is_told = told(c);
    return 0;
}

int coord_taken_empty(struct coord *c, struct err *e)
{
    int rc = objects_add(c, &c->taken.is, e);
    c->taken.is.at.hand = 0;
    return rc == 0 ? changed(c, e) : rc;
}

bool coord_taken_undo(struct coord *c)
{
    struct coord_taken_list *l = &c->taken.is;
    struct err e = {0};
    if (l->at.job != c->job.at.number || l->at.round <= c->job.at.epoch)
        return true;
    nameset_drop_last(&l->names, l->at.hand);
    moved(c);
    l->at.hand = 0;
    l->at.round = c->job.at.epoch;
    l->at.flags &= ~(uint32_t)COORD_TAKEN_BEGUN;
    return changed(c, &e) == 0;
}

/* Whether all rows of the names at hand are learnt. What a plain job learns again in its next
 * epochs is learnt already; of a replay all days are gone through. */
static bool is_whole(const struct coord_job *j)
{
    if (coord_grow_on(j))
        return j->at.train_rows >= j->grow.at.before_rows + j->grow.at.rows;
    if (j->spec.replay.on)
        return j->at.epoch == coord_epochs(j) && j->tasks.pushed == j->tasks.tasks;
    return j->at.train_rows >= j->at.split[WIRE_TRAIN].rows;
}

bool coord_taken_learnt(struct coord *c)
{
    struct coord_taken_list *l = &c->taken.is;
    struct err e = {0};
    bool begun = (l->at.flags & COORD_TAKEN_BEGUN) != 0 && l->at.job == c->job.at.number;
    if (!begun || !is_whole(&c->job))
        return true;
    l->at.flags &= ~(uint32_t)COORD_TAKEN_BEGUN;
    if (changed(c, &e) == 0)
        return true;
    return coord_end_fail(c, e.code, "%s", e.text);
}

/* ---- what is asked of them ------------------------------------------------------------------- */

bool coord_taken_has(const struct coord *c, const char *line)
{
    return nameset_has(&names_of(c)->names, item_of(line));
}

uint32_t coord_taken_count(const struct coord *c)
{
    return names_of(c)->names.count;
}

uint32_t coord_taken_room(const struct coord *c)
{
    uint32_t room = NAMESET_MAX - names_of(c)->names.count;
    for (uint32_t i = 0; i < c->taken.gone_count; i++)
        room += c->taken.gone[i / 8] >> (i % 8) & 1;
    return room;
}

void coord_taken_gone(struct coord *c, const void *bits, size_t bytes)
{
    struct coord_taken *t = &c->taken;
    uint32_t count = names_of(c)->names.count;
    bool counted = t->counted;
    moved(c);
    t->counted = counted;
    if (!counted || bytes == 0 || bytes > (count + 7u) / 8 || (t->gone = malloc(bytes)) == NULL)
        return;
    memcpy(t->gone, bits, bytes);
    t->gone_count = 8 * bytes < count ? (uint32_t)(8 * bytes) : count;
}

int coord_taken_ask(struct coord *c, struct coord_ask *a)
{
    if (!coord_phase_running(c) || !coord_grow_on(&c->job))
        return err_set(&a->e, SHOAL_E_AGAIN, "there is no log that grows");
    const struct nameset *names = &names_of(c)->names;
    uint64_t digest = nameset_digest(names);
    bool same = digest == a->request->u.TAKEN.digest;
    a->reply.u.TAKEN_reply.digest = digest;
    a->reply.u.TAKEN_reply.count = same ? 0 : names->count;
    a->frame = same || names->count == 0 ? "" : (const void *)names->item;
    a->frame_bytes = a->reply.u.TAKEN_reply.count * sizeof names->item[0];
    c->taken.counted = true;
    return 0;
}

int coord_taken_files(struct coord *c, struct coord_ask *a)
{
    const struct wire_FILES *q = &a->request->u.FILES;
    struct coord_taken_list *l = &c->job.taken;
    if (!coord_phase_running(c) || !begins(c) || c->job.spec.data.objects.of[WIRE_TRAIN].on)
        return 0; /* the tables are there: they are told again */
    if ((l->at.flags & COORD_TAKEN_NAMED) != 0)
        return 0;
    int rc = coord_from_resumes(&c->job.at)
                 ? 0
                 : nameset_add_all(&l->names, a->m->frame[1].data, q->count);
    if (rc == SHOAL_E_NOMEM)
        return err_set(&a->e, rc, NO_MEMORY);
    if (rc != 0 || q->unknown)
        l->at.flags |= COORD_TAKEN_UNSURE;
    l->at.flags |= COORD_TAKEN_NAMED;
    l->at.hand = q->count;
    if (l->at.hand > l->names.count)
        l->at.hand = l->names.count;
    return begin_put(c, l, &a->e);
}

/* ---- what shards know ------------------------------------------------------------------------ */

void coord_taken_learn(struct coord *c, uint32_t shard, const struct wire_SHARD_BEAT *b)
{
    struct coord_taken *t = &c->taken;
    if (shard == KEEPER)
        t->told = b->taken_version;
    if (b->taken_version <= t->version || b->taken_version >= VERSION_MOST)
        return;
    if (b->taken_version > t->newest) {
        t->newest = b->taken_version;
        t->newest_shard = shard;
    }
    bool has_tables = c->job.at.phase >= PHASE_SETUP && !begins(c);
    if (coord_phase_running(c) && (has_tables || c->job.asked.path[0] != 0))
        coord_end_fail(c, SHOAL_E_STOPPED,
                       "the coordinator's data_dir is older than it was: server %s knows more of "
                       "what its tables have learnt than this job began with; submit the job again",
                       b->server);
}

static void held(void *context, const struct coord_call *call, uint32_t shard,
                 const struct wire *reply, const struct msg *m)
{
    struct coord *c = context;
    struct coord_taken *t = &c->taken;
    struct err e = {0};
    uint64_t version = reply->u.TAKEN_HELD_reply.version;
    (void)call;
    if (version <= t->version || version >= VERSION_MOST) {
        if (shard == t->newest_shard) /* it has other data by now */
            t->newest = t->version;
        return;
    }
    int rc = record_take(&t->is, m->frame[1].data, m->frame[1].bytes, &e);
    if (rc == 0 && !names_put(c, version, &t->is, &e))
        rc = e.code;
    if (rc != 0) {
        log_error("what the tables of shard %u have learnt is not taken: %s", shard, e.text);
        return;
    }
    moved(c);
    log_warn("%u names of what the tables have learnt, version %" PRIu64
             ", are taken from shard %u: the coordinator's own were older",
             t->is.names.count, version, shard);
}

static void held_done(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    (void)call;
    if (status != 0)
        log_warn("a shard does not say what its tables have learnt: %s", text);
}

static void hear(struct coord *c, uint64_t now)
{
    struct coord_taken *t = &c->taken;
    if (coord_call_open_type(&c->calls, WIRE_TYPE_TAKEN_HELD) ||
        (t->asked_ns != 0 && now - t->asked_ns < AGAIN_NS))
        return; /* what it said could not be taken */
    t->asked_ns = now;
    SHOAL_ASSERT(t->newest_shard < c->members.shards);
    struct wire w = {.type = WIRE_TYPE_TAKEN_HELD};
    (void)coord_call_start(&c->calls, &(struct coord_call){.request = w,
                                                           .target = t->newest_shard,
                                                           .early = true,
                                                           .owner = t->newest_shard,
                                                           .on_reply = held,
                                                           .on_done = held_done});
}

static void tell_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    uint64_t version = call->request.u.TAKEN_SET.version;
    if (status == 0 || status == SHOAL_E_VERSION || status == SHOAL_E_MALFORMED)
        c->taken.told = version; /* a release that does not know the message keeps none */
    if (status != 0) {
        c->taken.failed_ns = env_now_ns(c->env);
        log_warn("server %s does not keep what the tables have learnt: %s",
                 c->members.shard[KEEPER].server, text);
    }
}

static void tell(struct coord *c, uint64_t now)
{
    struct coord_taken *t = &c->taken;
    if (coord_call_open_type(&c->calls, WIRE_TYPE_TAKEN_SET) ||
        (t->failed_ns != 0 && now - t->failed_ns < AGAIN_NS))
        return;
    size_t bytes;
    void *record = record_make(&t->is, 0, 0, &bytes);
    struct wire w = {.type = WIRE_TYPE_TAKEN_SET};
    w.u.TAKEN_SET = (struct wire_TAKEN_SET){t->version, c->cluster.id[0], c->cluster.id[1]};
    if (record != NULL) /* else it is tried again */
        (void)coord_call_start(&c->calls, &(struct coord_call){.request = w,
                                                               .frame = record,
                                                               .frame_bytes = bytes,
                                                               .target = KEEPER,
                                                               .early = true,
                                                               .owner = KEEPER,
                                                               .on_done = tell_done});
    free(record);
}

void coord_taken_step(struct coord *c)
{
    const struct coord_taken *t = &c->taken;
    if (c->members.shards == 0 || !coord_cluster_ready(&c->cluster))
        return;
    const struct coord_shard *s = &c->members.shard[KEEPER];
    if (t->newest > t->version)
        hear(c, env_now_ns(c->env));
    else if (!told(c) && s->seen && s->ready)
        tell(c, env_now_ns(c->env));
}
