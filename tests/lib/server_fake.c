/* server_fake.c: scripted shards, workers and a client. */
#include "tests/lib/server_fake.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "tests/lib/ring_fake.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)

static void reply_send(struct env *env, peer_t to, struct wire *w, const void *frame, size_t bytes,
                       bool has_frame)
{
    struct msg *m = wire_encode(w);
    if (has_frame && w->status == 0) {
        void *at = msg_add(m, bytes);
        if (bytes > 0)
            memcpy(at, frame, bytes);
    }
    (void)env_send(env, to, m);
}

/* ---- shard ----------------------------------------------------------------------------------- */

static void shard_beat(struct env_timer *t)
{
    struct fake_shard *s = container_of(t, struct fake_shard, beat);
    struct wire w;
    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_SHARD_BEAT;
    w.id = 1;
    w.u.SHARD_BEAT = (struct wire_SHARD_BEAT){.shard_index = s->index,
                                              .shard_count = 1,
                                              .incarnation = s->incarnation,
                                              .boot = s->boot,
                                              .ready = s->ready,
                                              .rss_peak_bytes = 1000,
                                              .cluster_high = s->cluster[0],
                                              .cluster_low = s->cluster[1],
                                              .number = s->number,
                                              .shards = s->shards,
                                              .map_epoch = s->map_epoch,
                                              .holds = s->tablets[0] != 0,
                                              .in_memory = s->in_memory,
                                              .durability = s->durability,
                                              .term = s->copies.term,
                                              .last_term = s->last_term,
                                              .newest_run = s->newest_run,
                                              .newest_cut = s->held > s->cut ? s->held : s->cut,
                                              .sequence = s->sequence,
                                              .synced = s->in_memory ? 0 : s->sequence,
                                              .names_version = s->names_version,
                                              .taken_version = s->taken_newest};
    if (s->names_version > 0)
        w.u.SHARD_BEAT.names_digest = hash_bytes(s->names, strlen(s->names), 0);
    w.u.SHARD_BEAT.shares = s->shares_digest;
    (void)snprintf(w.u.SHARD_BEAT.server, LIMIT_NAME, "%s", s->server);
    (void)snprintf(w.u.SHARD_BEAT.endpoint, 256, "sim://%s", s->server);
    if (s->zone != NULL)
        (void)snprintf(w.u.SHARD_BEAT.zone, LIMIT_NAME, "%s", s->zone);
    (void)env_send(s->env, s->coordinator, wire_encode(&w));
    env_timer_start(s->env, t, 100 * MS);
}

void fake_shard_in_sync(struct fake_shard *s, uint64_t term, uint32_t in_sync)
{
    struct wire w = {.type = WIRE_TYPE_IN_SYNC, .id = 2};
    w.u.IN_SYNC = (struct wire_IN_SYNC){
        .shard = s->number, .term = term, .in_sync = in_sync, .order = s->in_sync_order};
    s->in_sync_status = 1;
    (void)env_send(s->env, s->coordinator, wire_encode(&w));
}

bool fake_shard_leads(const struct fake_shard *s)
{
    return s->copies.copies > 1 && s->copies.leader[0] == 0;
}

int fake_push(struct fake_shard *s, uint64_t run, uint32_t lane, uint64_t generation,
              uint64_t batch)
{
    if (s->held != 0 && env_now_ns(s->env) - s->held_ns < 10000 * MS)
        return SHOAL_E_BUSY;
    if (s->run.run != run)
        return SHOAL_E_OLD_RUN;
    if (generation < s->run.lane[lane].generation)
        return SHOAL_E_FENCED;
    if (batch <= s->run.lane[lane].mark)
        return 1;
    if (batch != s->run.lane[lane].mark + 1)
        return SHOAL_E_GAP;
    s->run.lane[lane].mark = batch;
    s->applied++;
    return 0;
}

static int shard_fence(struct fake_shard *s, const struct wire_FENCE *q, struct wire *out)
{
    if (s->run.run != q->run)
        return SHOAL_E_OLD_RUN;
    if (q->generation < s->run.lane[q->lane].generation)
        return SHOAL_E_FENCED;
    struct fake_lane *l = &s->run.lane[q->lane];
    l->live = q->live || (l->live && q->generation == l->generation);
    l->generation = q->generation;
    if (q->placed) {
        l->at = q->at;
        l->clock = q->clock;
    }
    s->fences++;
    out->u.FENCE_reply = (struct wire_FENCE_reply){
        .mark = l->mark, .high = s->ahead == 0 ? 0 : l->mark + s->ahead, .low = s->low};
    return 0;
}

static int shard_fences(struct fake_shard *s, const struct wire_FENCES *q, const struct msg *m)
{
    const struct wire_lane_fence *f = m->frame[1].data;
    int rc = s->run.run == q->run ? 0 : SHOAL_E_OLD_RUN;
    for (uint32_t i = 0; rc == 0 && i < q->lane_count; i++) {
        struct fake_lane *l = &s->run.lane[f[i].lane];
        if (f[i].generation < l->generation)
            return SHOAL_E_FENCED;
        l->generation = f[i].generation;
        l->live = f[i].live != 0;
        l->at = f[i].at;
        l->clock = f[i].clock;
    }
    s->told += rc == 0;
    return rc;
}

static uint32_t shard_digest(const struct fake_shard *s, uint32_t table, uint64_t *value,
                             uint32_t *from)
{
    uint32_t count = 0, first = table == 0 ? 0 : s->tablets[0];
    for (uint32_t t = first; t < first + s->tablets[table]; t++)
        if (s->shard_of[t] == s->number) {
            if (count == 0)
                *from = t - first;
            value[count++] = key_mix(t + 1);
        }
    return count;
}

/* ---- cuts of a shard ---- */

static bool share_tables(struct table_set a, struct table_set b)
{
    return table_set_meet(table_set_or_all(a), table_set_or_all(b));
}

static struct fake_cut *cut_find(struct fake_shard *s, uint64_t cut)
{
    for (uint32_t i = 0; i < FAKE_CUTS; i++)
        if (s->kept[i].cut == cut)
            return &s->kept[i];
    return NULL;
}

static void shard_hold(struct fake_shard *s, uint64_t cut, struct table_set tables)
{
    if (s->held != cut) {
        s->noted.cut = cut;
        s->noted.tables = tables;
        s->noted.run = s->run;
        memcpy(s->noted.seen, s->seen, sizeof s->seen);
    }
    s->held = cut;
    s->held_ns = env_now_ns(s->env);
}

static int shard_go(struct fake_shard *s, uint64_t cut)
{
    struct fake_cut *free_one = cut_find(s, 0);
    if (s->refuse_go || s->held != cut) {
        s->refuse_go = false;
        return cut_find(s, cut) != NULL ? 0 : SHOAL_E_NOT_FOUND;
    }
    if (free_one == NULL)
        return SHOAL_E_NO_SPACE; /* the coordinator did not drop its cuts */
    *free_one = s->noted;
    s->cut = cut;
    s->held = 0;
    return 0;
}

static int part_path(char out[LIMIT_PATH], const char *path, uint32_t part)
{
    return snprintf(out, LIMIT_PATH, "%.900s/part-%04u/manifest", path, part);
}

static int shard_export(struct fake_shard *s, const struct wire_CUT_EXPORT *q, struct wire *w)
{
    const struct fake_cut *cut = cut_find(s, q->cut);
    char path[LIMIT_PATH];
    if (cut == NULL)
        return SHOAL_E_NOT_FOUND;
    if (s->export_how == FAKE_EXPORT_FAILS)
        return SHOAL_E_NO_SPACE;
    (void)part_path(path, q->path, q->part);
    *strrchr(path, '/') = 0;
    (void)mkdir(path, 0700);
    (void)part_path(path, q->path, q->part);
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return SHOAL_E_IO;
    (void)fwrite(cut, sizeof *cut, 1, f);
    (void)fclose(f);
    s->exports++;
    w->u.CUT_EXPORT_reply = (struct wire_CUT_EXPORT_reply){.rows = 10, .bytes = sizeof *cut};
    return 0;
}

void fake_shard_forget(struct fake_shard *s)
{
    s->loaded = false;
    s->applied = 0;
    s->run = (struct fake_run){0};
    memset(s->seen, 0, sizeof s->seen);
}

void fake_shard_die(struct fake_shard *s)
{
    sim_kill(s->node);
    fake_shard_forget(s);
    memset(s->kept, 0, sizeof s->kept);
    s->noted = (struct fake_cut){0};
    s->held = s->cut = s->map_count = s->tablets[0] = s->tablets[1] = 0;
    s->map_epoch = s->newest_run = 0;
}

/* Makes this run the open one. */
static void run_named(struct fake_shard *s, uint64_t run)
{
    s->run.run = run;
    s->newest_run = run > s->newest_run ? run : s->newest_run;
}

/* The number of shards is that of the checkpoint, so each loads its own part. */
static bool has_table(const struct fake_shard *s)
{
    bool has = false;
    for (uint32_t t = 0; t < sizeof s->tablets / sizeof s->tablets[0]; t++)
        has = has || s->tablets[t] != 0;
    return has;
}

static int shard_load(struct fake_shard *s, const struct wire_LOAD *q)
{
    static struct fake_cut cut;
    char path[LIMIT_PATH];
    if (!has_table(s))
        return SHOAL_E_INTERNAL; /* order: tables first */
    if (s->run.run == q->run)
        return 0;
    if (s->loaded || s->applied > 0)
        return SHOAL_E_EXISTS;
    if (s->full_after != NULL)
        return s->full_after->loaded ? SHOAL_E_NO_SPACE : SHOAL_E_BUSY;
    (void)part_path(path, q->path, s->number);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return SHOAL_E_NOT_FOUND;
    bool good = fread(&cut, sizeof cut, 1, f) == 1;
    (void)fclose(f);
    if (!good)
        return SHOAL_E_CORRUPT;
    s->run = cut.run;
    run_named(s, q->run);
    memcpy(s->seen, cut.seen, sizeof s->seen);
    s->loads++;
    s->loaded = true;
    return 0;
}

/* Drops tables; where others stay, so does what the shard knows of map and cuts. */
static int shard_clear(struct fake_shard *s, uint64_t job, struct table_set tables)
{
    s->clears_asked++;
    if (s->refuse_clear)
        return SHOAL_E_IO;
    if (s->drop_slow)
        return SHOAL_E_AGAIN;
    s->clear_tables = tables;
    if (job <= s->cleared)
        return 0;
    if (job <= s->newest_run)
        return SHOAL_E_CONFIG;
    if (table_set_equal(tables, TABLE_SET_ALL))
        fake_shard_forget(s);
    s->loaded = false;
    s->applied = 0;
    TABLE_SET_EACH (t, &tables)
        s->tablets[t] = 0;
    s->cleared = job;
    s->clears++;
    return 0;
}

static int shard_unload(struct fake_shard *s)
{
    s->unloads += s->loaded;
    fake_shard_forget(s);
    return 0;
}

static int shard_run_open(struct fake_shard *s, const struct wire_RUN_OPEN *q, struct wire *w)
{
    if (!has_table(s))
        return SHOAL_E_INTERNAL; /* order: tables first */
    if (s->run.run == q->run)
        return 0;
    if (q->run <= s->newest_run) {
        (void)snprintf(w->error, sizeof w->error, "run %" PRIu64 " is over; submit the job again",
                       q->run);
        return SHOAL_E_CONFIG;
    }
    if (q->must_exist)
        return SHOAL_E_NOT_FOUND;
    s->run = (struct fake_run){0};
    run_named(s, q->run);
    return 0;
}

/* Lists come in order of their versions (TAKEN_SET). */
static int taken_set(struct fake_shard *s, const struct wire_TAKEN_SET *q, const struct msg *m)
{
    ck_assert_uint_lt(q->space, LIMIT_SPACES);
    ck_assert(q->version > s->taken_newest || q->version == s->taken[q->space].version);
    s->taken_newest = MAX(s->taken_newest, q->version);
    s->taken[q->space].version = q->version;
    s->taken[q->space].bytes = MIN(m->frame[1].bytes, sizeof s->taken[0].text);
    (void)memcpy(s->taken[q->space].text, m->frame[1].data, s->taken[q->space].bytes);
    return 0;
}

static int shard_answer(struct fake_shard *s, const struct wire *q, const struct msg *m,
                        struct wire *w)
{
    switch (q->type) {
    case WIRE_TYPE_MAP_SET:
        free(s->shard_of);
        s->shard_of = malloc(m->frame[1].bytes);
        memcpy(s->shard_of, m->frame[1].data, m->frame[1].bytes);
        s->map_count = q->u.MAP_SET.tablet_count;
        s->map_epoch = q->u.MAP_SET.map_epoch;
        return 0;
    case WIRE_TYPE_MOVE_MAP:
        free(s->shard_of);
        s->shard_of = malloc(m->frame[1].bytes);
        memcpy(s->shard_of, m->frame[1].data, m->frame[1].bytes);
        s->map_count = q->u.MOVE_MAP.tablet_count;
        s->map_epoch = q->u.MOVE_MAP.map_epoch;
        s->gone = q->u.MOVE_MAP.gone_count;
        s->map_ns = env_now_ns(s->env);
        return 0;
    case WIRE_TYPE_MOVE_TAKE:
        s->takes++;
        s->take = q->u.MOVE_TAKE;
        memcpy(&s->take_first, m->frame[1].data, sizeof s->take_first);
        if (s->take_fails != NULL)
            (void)snprintf(w->error, sizeof w->error, "%s", s->take_fails);
        if (s->take_slow)
            return SHOAL_E_BUSY;
        w->u.MOVE_TAKE_reply.bytes = q->u.MOVE_TAKE.tablet_count * s->take_bytes;
        if (s->take_fails == NULL)
            return 0;
        return s->take_status != 0 ? s->take_status : SHOAL_E_CONFIG;
    case WIRE_TYPE_MAP_HELD:
        if (s->map_slow)
            return SHOAL_E_BUSY;
        w->u.MAP_HELD_reply = (struct wire_MAP_HELD_reply){s->map_epoch, s->map_count};
        return 0;
    case WIRE_TYPE_NAMES_SET:
        if (s->names_slow)
            return SHOAL_E_BUSY;
        s->names_version = q->u.NAMES_SET.version;
        (void)snprintf(s->names, sizeof s->names, "%.*s", (int)m->frame[1].bytes,
                       (const char *)m->frame[1].data);
        return 0;
    case WIRE_TYPE_NAMES_HELD:
        if (s->names_held_slow)
            return SHOAL_E_BUSY;
        s->names_asked++;
        w->u.NAMES_HELD_reply.version = s->names_version;
        return 0;
    case WIRE_TYPE_TAKEN_SET:
        return taken_set(s, &q->u.TAKEN_SET, m);
    case WIRE_TYPE_TAKEN_HELD:
        w->u.TAKEN_HELD_reply.version = s->taken[q->u.TAKEN_HELD.space].version;
        return 0;
    case WIRE_TYPE_TABLE_CREATE:
        if (s->create_later != NULL) {
            (void)snprintf(w->error, sizeof w->error, "%s", s->create_later);
            return SHOAL_E_AGAIN;
        }
        s->tablets[q->u.TABLE_CREATE.table] = 1u << q->u.TABLE_CREATE.tablet_bits;
        return s->map_count == 0 ? SHOAL_E_INTERNAL : 0; /* order: the map first */
    case WIRE_TYPE_RUN_OPEN:
        return shard_run_open(s, &q->u.RUN_OPEN, w);
    case WIRE_TYPE_RUN_DROP:
        if (s->run.run == q->u.RUN_DROP.run)
            s->run.run = 0;
        return 0;
    case WIRE_TYPE_FENCE:
        return shard_fence(s, &q->u.FENCE, w);
    case WIRE_TYPE_FENCES:
        return shard_fences(s, &q->u.FENCES, m);
    case WIRE_TYPE_HOLD:
        if (q->u.HOLD.ahead) /* nothing is held yet */
            return 0;
        if (s->no_room)
            return SHOAL_E_NO_SPACE;
        shard_hold(s, q->u.HOLD.cut, WIRE_TABLES_OF(q->u.HOLD));
        w->u.HOLD_reply.sequence = 7;
        return 0;
    case WIRE_TYPE_GO:
        w->u.GO_reply.sequence = 7 + s->lets_go;
        s->lets_go = false;
        return shard_go(s, q->u.GO.cut);
    case WIRE_TYPE_CUT_EXPORT:
        return shard_export(s, &q->u.CUT_EXPORT, w);
    case WIRE_TYPE_LOAD:
        return shard_load(s, &q->u.LOAD);
    case WIRE_TYPE_ROWS_GO:
        if (q->u.ROWS_GO.what == WIRE_ROWS_ALL)
            return shard_clear(s, q->u.ROWS_GO.run, WIRE_TABLES_OF(q->u.ROWS_GO));
        if (q->u.ROWS_GO.what == WIRE_ROWS_LOADED)
            return shard_unload(s);
        if (s->drop_slow)
            return SHOAL_E_AGAIN;
        w->u.ROWS_GO_reply.rows = 5;
        (void)snprintf(s->what, sizeof s->what, "%.63s", q->u.ROWS_GO.fields);
        s->drops += q->u.ROWS_GO.run == 0 || q->u.ROWS_GO.run > s->newest_run;
        return 0;
    case WIRE_TYPE_RESTORE:
        if (cut_find(s, q->u.RESTORE.cut) == NULL)
            return SHOAL_E_NOT_FOUND;
        s->looks += q->u.RESTORE.look;
        if (s->rotten || q->u.RESTORE.look) {
            (void)snprintf(w->error, sizeof w->error, "block checksum mismatch");
            return s->rotten ? SHOAL_E_CORRUPT : 0;
        }
        s->run = cut_find(s, q->u.RESTORE.cut)->run;
        run_named(s, q->u.RESTORE.run);
        s->restores++;
        return 0;
    case WIRE_TYPE_CUT_DROP:
        s->dropped = q->u.CUT_DROP.cut;
        if (s->held == s->dropped)
            s->held = 0;
        if (s->dropped != 0 && cut_find(s, s->dropped) != NULL)
            cut_find(s, s->dropped)->cut = 0;
        return 0;
    case WIRE_TYPE_CUT_KEEP:
        for (uint32_t i = 0; i < FAKE_CUTS; i++)
            if (s->kept[i].cut < q->u.CUT_KEEP.below && s->kept[i].cut != q->u.CUT_KEEP.keep &&
                share_tables(s->kept[i].tables, WIRE_TABLES_OF(q->u.CUT_KEEP)))
                s->kept[i].cut = 0;
        return 0;
    case WIRE_TYPE_SHARD_STATUS:
        return 0;
    case WIRE_TYPE_SHARES:
        s->shares_told++;
        s->shares = w->u.SHARES_reply.count = q->u.SHARES.count;
        memcpy(s->share, m->frame[1].data, m->frame[1].bytes);
        s->shares_digest = s->shares > 0 ? hash_bytes(s->share, m->frame[1].bytes, 0) : 0;
        return 0;
    default:
        return SHOAL_E_USAGE;
    }
}

static void shard_told(struct fake_shard *s, const struct wire *q)
{
    const struct wire_SHARD_BEAT_reply *r = &q->u.SHARD_BEAT_reply;
    if (q->status != 0) {
        (void)snprintf(s->refused, sizeof s->refused, "%s", q->error);
        return;
    }
    s->refused[0] = 0;
    if (r->shard == WIRE_NO_SHARD)
        return;
    s->copies = *r;
    s->copies_told += q->id == 0;
    if (fake_shard_leads(s))
        s->last_term = r->term;
    s->number = r->shard;
    s->shards = r->shards;
    s->cluster[0] = r->cluster_high;
    s->cluster[1] = r->cluster_low;
}

static void shard_message(void *core, peer_t from, struct msg *m)
{
    struct fake_shard *s = core;
    struct wire q, w;
    uint64_t value[1024];
    if (wire_decode(m, &q, NULL) == 0) {
        if (q.reply) {
            if (q.type == WIRE_TYPE_SHARD_BEAT)
                shard_told(s, &q);
            if (q.type == WIRE_TYPE_IN_SYNC) {
                s->in_sync_status = q.status;
                s->in_sync = q.status == 0 ? q.u.IN_SYNC_reply.in_sync : 0;
            }
        } else {
            wire_reply_to(&q, 0, &w);
            if (q.type == WIRE_TYPE_CUT_EXPORT && s->export_how == FAKE_EXPORT_NEVER) {
                msg_free(m);
                return;
            }
            uint32_t count = 0;
            if (q.type == WIRE_TYPE_DIGEST)
                w.u.DIGEST_reply.tablet_count = count =
                    shard_digest(s, q.u.DIGEST.table, value, &w.u.DIGEST_reply.tablet_first);
            else
                w.status = shard_answer(s, &q, m, &w);
            if (q.type == WIRE_TYPE_DIGEST) {
                w.u.DIGEST_reply.rows = count;
                w.u.DIGEST_reply.synced = s->digested;
            }
            const char *status = s->status == NULL ? "{}" : s->status;
            if (q.type == WIRE_TYPE_SHARD_STATUS)
                reply_send(s->env, from, &w, status, strlen(status), true);
            else if (q.type == WIRE_TYPE_TAKEN_HELD)
                reply_send(s->env, from, &w, s->taken[q.u.TAKEN_HELD.space].text,
                           s->taken[q.u.TAKEN_HELD.space].bytes, true);
            else if (q.type == WIRE_TYPE_NAMES_HELD)
                reply_send(s->env, from, &w, s->names, strlen(s->names), true);
            else if (q.type == WIRE_TYPE_SHARES)
                reply_send(s->env, from, &w, s->use, s->shares * sizeof s->use[0], true);
            else if (q.type == WIRE_TYPE_MAP_HELD)
                reply_send(s->env, from, &w, s->shard_of, 2ull * s->map_count, true);
            else
                reply_send(s->env, from, &w, value, 8ull * count, q.type == WIRE_TYPE_DIGEST);
        }
    }
    msg_free(m);
}

static void nothing_drained(void *core)
{
    (void)core;
}

const struct env_handler fake_shard_handler = {shard_message, nothing_drained, NULL};

void fake_shard_start(struct fake_shard *s, struct sim *sim, const char *server, uint32_t index,
                      uint64_t incarnation)
{
    (void)snprintf(s->server, sizeof s->server, "%s", server);
    s->index = index;
    s->incarnation = incarnation;
    s->ready = true;
    if (s->cluster[0] == 0) /* the number is in its folder */
        s->number = UINT32_MAX;
    s->node = sim_node_new(sim, server, &fake_shard_handler, s);
    s->env = sim_node_env(s->node);
    (void)env_connect(s->env, "sim://coordinator", ENV_COORDINATOR, &s->coordinator);
    s->beat = (struct env_timer){.fire = shard_beat}; /* the timer of a killed node is gone */
    env_timer_start(s->env, &s->beat, MS);
}

/* ---- worker ---------------------------------------------------------------------------------- */

static void seat_ask(struct fake_seat *seat);
static void seat_report(struct fake_seat *seat);
static void seat_work(struct fake_seat *seat);

/* Sends a message without frames, or with two. */
static void worker_send(struct fake_worker *w, struct wire *q, const void *frame, size_t bytes,
                        const void *second, size_t second_bytes)
{
    struct msg *m = wire_encode(q);
    if (frame != NULL) {
        memcpy(msg_add(m, bytes), frame, bytes);
        void *at = msg_add(m, second_bytes);
        if (second_bytes > 0)
            memcpy(at, second, second_bytes);
    }
    (void)env_send(w->env, w->coordinator, m);
}

static uint32_t worker_held(const struct fake_worker *w)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < w->seats; i++)
        held += w->seat[i].lane != UINT32_MAX;
    return held;
}

static void seat_ask(struct fake_seat *seat)
{
    struct fake_worker *w = seat->worker;
    struct wire q = {.type = WIRE_TYPE_LANE_NEXT};
    seat->state = FAKE_ASKING;
    seat->id = q.id = w->next_id++;
    q.u.LANE_NEXT = (struct wire_LANE_NEXT){
        .pass = w->pass, .lane = seat->lane, .generation = seat->generation, .batch = seat->batch};
    if (seat->lane == UINT32_MAX)
        q.u.LANE_NEXT.batch = worker_held(w);
    worker_send(w, &q, NULL, 0, NULL, 0);
    env_timer_start(w->env, &seat->timer, w->resend_ns);
}

/* Makes scores with labels behind them, and a group and a field if the test's job has them. */
static void eval_scores(const struct fake_worker *w, const struct wire_LANE_NEXT_reply *task,
                        float *score, uint64_t *context)
{
    float *label = score + task->rows;
    double quality = w->quality_now != NULL ? w->quality_now(w) : w->quality[task->epoch];
    for (uint64_t i = 0; i < task->rows; i++) {
        uint64_t row = task->position + i;
        bool right = (double)(key_mix(row + 1) % 1000) < 1000 * quality;
        label[i] = (float)(row % 2);
        score[i] = (label[i] == 1.0f) == right ? 0.75f : 0.25f;
        context[i] = row % 7;
        context[task->rows + i] = row % 3;
    }
}

static float fake_score(uint64_t row)
{
    return (float)(key_mix(row + 1) % 97 + row % 2 * 20) / 128;
}

/* Adds the rows at these positions, with a worker's scores from before it learned them. */
void fake_tally(uint64_t position, uint64_t examples, struct metric_tally *tally)
{
    for (uint64_t row = position; row < position + examples; row++)
        metric_tally_add(tally, fake_score(row), (float)(row % 2),
                         metric_loss(fake_score(row), (float)(row % 2)));
}

/* Does the same by row % 3, the only field of evaluate.by. */
static void fake_by(uint64_t position, uint64_t examples, struct metric_by_part *part)
{
    struct metric_by b;
    struct err e;
    if (metric_by_open(&b, 1, 0, 4, &e) != 0)
        abort();
    for (uint64_t row = position; row < position + examples; row++) {
        float p = fake_score(row), y = (float)(row % 2);
        double loss = metric_loss(p, y);
        metric_by_add(&b, row % 3, &p, &y, &loss);
    }
    metric_by_finish(&b, METRIC_BY_TOLD);
    if (metric_by_put(&b, part)) /* every example has its label */
        abort();
    metric_by_close(&b);
}

static void frame_add(char **at, const void *from, size_t bytes)
{
    memcpy(*at, from, bytes);
    *at += bytes;
}

/* Makes frame 2 of TASK_DONE, with *bytes. */
static const void *task_frame(struct wire_TASK_DONE *q, uint64_t position, double loss, bool by,
                              size_t *bytes)
{
    static struct metric_tally_entry entry[METRIC_TALLY_CELLS];
    static struct metric_by_entry cells[METRIC_BY_ENTRIES];
    static uint64_t frame[1 << 17];
    static struct metric_tally tally;
    struct metric_tally_sums sums;
    struct metric_by_head head;
    struct metric_by_told told[4];
    struct metric_by_task task[4];
    struct metric_by_more more[4];
    struct metric_by_part part = {
        .head = &head, .told = told, .task = task, .more = more, .entry = cells};
    char *at = (char *)frame;
    memset(&tally, 0, sizeof tally);
    fake_tally(position, q->examples, &tally);
    if (by)
        fake_by(position, q->examples, &part);
    q->cells = metric_tally_put(&tally, 1, &sums, entry);
    q->by_count = part.fields;
    q->values = part.values;
    q->value_cells = part.entries;
    frame_add(&at, &loss, sizeof loss);
    frame_add(&at, &sums, sizeof sums);
    frame_add(&at, entry, q->cells * sizeof entry[0]);
    frame_add(&at, &head, part.fields * sizeof head);
    frame_add(&at, told, part.values * sizeof told[0]);
    frame_add(&at, task, part.values * sizeof task[0]);
    frame_add(&at, cells, part.entries * sizeof cells[0]);
    *bytes = (size_t)(at - (char *)frame);
    return frame;
}

static void seat_report(struct fake_seat *seat)
{
    struct fake_worker *w = seat->worker;
    static float score[2 * FAKE_ROWS];
    static uint64_t context[2 * FAKE_ROWS];
    static const uint64_t histogram[64] = {3, 1};
    double loss = 0.5 * (double)seat->task.rows;
    struct wire q;
    memset(&q, 0, sizeof q);
    seat->state = FAKE_REPORTING;
    seat->id = q.id = w->next_id++;
    if (seat->task.kind == WIRE_NEXT_INDEX) {
        q.type = WIRE_TYPE_INDEX_DONE;
        q.u.INDEX_DONE.pass = w->pass;
        q.u.INDEX_DONE.split = seat->task.split;
        q.u.INDEX_DONE.rows = w->rows[seat->task.split];
        q.u.INDEX_DONE.digest = w->digest;
        q.u.INDEX_DONE.fail_status = w->fatal_status;
        (void)snprintf(q.u.INDEX_DONE.fail_text, ERR_TEXT_MAX, "%s",
                       w->fatal_status != 0 ? "no such file" : "");
        worker_send(w, &q, NULL, 0, NULL, 0);
    } else if (seat->task.kind == WIRE_NEXT_EVAL) {
        uint64_t bad = seat->task.position == 0 ? w->eval_bad_lines : 0;
        struct wire_LANE_NEXT_reply good = seat->task;
        good.rows -= bad;
        q.type = WIRE_TYPE_EVAL_DONE;
        q.u.EVAL_DONE = (struct wire_EVAL_DONE){.pass = w->pass,
                                                .task = seat->task.task,
                                                .examples = (uint32_t)good.rows,
                                                .bad_lines = bad,
                                                .tasks = 1,
                                                .grouped = w->context,
                                                .by_count = w->context};
        eval_scores(w, &good, score, context);
        worker_send(w, &q, score, good.rows * 8, context, w->context ? good.rows * 16 : 0);
    } else {
        q.type = WIRE_TYPE_TASK_DONE;
        q.u.TASK_DONE = (struct wire_TASK_DONE){.pass = w->pass,
                                                .lane = seat->lane,
                                                .generation = seat->generation,
                                                .task = seat->task.task,
                                                .examples = seat->task.rows - w->bad_lines,
                                                .bad_lines = w->bad_lines,
                                                .drawn = seat->task.rows - w->undrawn,
                                                .loss_sum = loss,
                                                .weight_sum = (double)seat->task.rows,
                                                .batches = seat->task.batch_count,
                                                .measured = seat->task.batch_count,
                                                .dense_norm_sum = 2.0 * seat->task.batch_count,
                                                .row_norm_sum = 3.0 * seat->task.batch_count,
                                                .lr_scale = seat->task.lr_scale,
                                                .tasks = 1};
        q.u.TASK_DONE.refused = w->refused_batches < seat->task.batch_count
                                    ? w->refused_batches
                                    : seat->task.batch_count;
        (void)snprintf(
            q.u.TASK_DONE.refused_where, ERR_TEXT_MAX,
            "shard 0: table emb, key 0x0005 of field 5; worker 1; kept in /x/quarantine.jsonl");
        (void)snprintf(q.u.TASK_DONE.bad_where, 256, "%s",
                       w->bad_lines > 0 ? "train.txt:7: no label" : "");
        size_t bytes;
        const void *frame =
            task_frame(&q.u.TASK_DONE, seat->task.position, loss, w->context, &bytes);
        worker_send(w, &q, histogram, sizeof histogram, frame, bytes);
    }
    env_timer_start(w->env, &seat->timer, w->resend_ns);
}

static void seat_leave(struct fake_seat *seat)
{
    seat->lane = UINT32_MAX;
    seat->generation = seat->batch = 0;
    seat->state = FAKE_RESTING;
    env_timer_start(seat->worker->env, &seat->timer, MS);
}

/* Pushes one batch to every shard; the first one counts it by row. */
static int batch_push(struct fake_seat *seat)
{
    struct fake_worker *w = seat->worker;
    const struct wire_LANE_NEXT_reply *task = &seat->task;
    for (uint32_t s = 0; s < w->shards; s++) {
        int got = fake_push(w->shard[s], task->run, seat->lane, seat->generation, seat->at);
        if (got < 0)
            return got;
        uint64_t from = (seat->at - task->first_batch) * w->batch;
        if (s > 0 || got != 0)
            continue;
        if (from >= task->rows)
            w->shard[0]->ticks++;
        for (uint64_t r = from; r < from + w->batch && r < task->rows; r++)
            w->shard[0]->seen[task->epoch][task->position + r]++;
    }
    return 0;
}

/* True when the ring lets the seat's lane compute its batch; drops a lane of another member. */
static bool seat_may(struct fake_seat *seat)
{
    struct fake_side *side = seat->worker->side;
    if (side == NULL || fake_side_may(side, seat->lane, seat->at))
        return true;
    if (side->told.state == WIRE_RING_STANDS && !fake_side_holds(side, seat->lane))
        seat_leave(seat);
    else
        env_timer_start(seat->worker->env, &seat->timer, MS);
    return false;
}

static void seat_work(struct fake_seat *seat)
{
    struct fake_worker *w = seat->worker;
    if (seat->task.kind == WIRE_NEXT_TASK &&
        seat->at < seat->task.first_batch + seat->task.batch_count) {
        if (!seat_may(seat))
            return;
        if (w->side != NULL && w->side->network->bsp && seat->at > w->side->step) {
            if (w->side->mine[seat->lane] < seat->at)
                fake_side_given(w->side, seat->lane, seat->at);
            env_timer_start(w->env, &seat->timer, MS);
            return;
        }
        int rc = batch_push(seat);
        if (rc == SHOAL_E_BUSY) {
            env_timer_start(w->env, &seat->timer, MS);
            return;
        }
        if (rc < 0) {
            w->fenced++;
            seat_leave(seat);
            return;
        }
        if (w->side != NULL)
            fake_side_given(w->side, seat->lane, seat->at);
        w->batches++;
        seat->batch = seat->at++;
        env_timer_start(w->env, &seat->timer, w->step_ns);
        if (w->dead_batch != 0 && w->batches >= w->dead_batch)
            sim_kill(w->node);
        return;
    }
    seat_report(seat);
}

static void seat_timer(struct env_timer *t)
{
    struct fake_seat *seat = container_of(t, struct fake_seat, timer);
    struct fake_worker *w = seat->worker;
    if (w->ended || !w->joined)
        return;
    if (w->wedge_kind != 0 && seat->state == FAKE_WORKING && seat->task.kind == w->wedge_kind &&
        w->batches >= w->wedge_batch)
        w->wedged = true;
    if (w->wedged)
        return;
    switch (seat->state) {
    case FAKE_ASKING:
    case FAKE_RESTING:
        seat_ask(seat);
        break;
    case FAKE_WORKING:
        seat_work(seat);
        break;
    case FAKE_REPORTING:
        seat_report(seat);
        break;
    }
}

static bool lane_elsewhere(const struct fake_seat *seat, uint32_t lane)
{
    for (uint32_t i = 0; i < seat->worker->seats; i++)
        if (&seat->worker->seat[i] != seat && seat->worker->seat[i].lane == lane)
            return true;
    return false;
}

static void worker_end(struct fake_worker *w)
{
    struct wire q;
    memset(&q, 0, sizeof q);
    w->ended = true;
    q.type = WIRE_TYPE_WORKER_LEAVE;
    q.u.WORKER_LEAVE.pass = w->pass;
    worker_send(w, &q, NULL, 0, NULL, 0);
}

static void seat_answered(struct fake_seat *seat, const struct wire *r)
{
    struct fake_worker *w = seat->worker;
    seat->task = r->u.LANE_NEXT_reply;
    switch (seat->task.kind) {
    case WIRE_NEXT_WAIT:
        seat->state = FAKE_RESTING;
        env_timer_start(w->env, &seat->timer, seat->task.retry_ms * MS);
        break;
    case WIRE_NEXT_LEAVE:
        w->leaves++;
        seat_leave(seat);
        break;
    case WIRE_NEXT_END:
        worker_end(w);
        break;
    case WIRE_NEXT_TASK:
        if (lane_elsewhere(seat, seat->task.lane)) {
            w->repeats++;
            seat_leave(seat);
            break;
        }
        seat->lane = seat->task.lane;
        seat->generation = seat->task.generation;
        seat->at = seat->task.mark + 1 > seat->task.first_batch ? seat->task.mark + 1
                                                                : seat->task.first_batch;
        seat->batch = seat->at - 1;
        w->tasks_seen++;
        if (w->side != NULL)
            fake_side_granted(w->side, seat->lane, seat->task.mark);
        seat->state = FAKE_WORKING;
        env_timer_start(w->env, &seat->timer, w->step_ns);
        break;
    default:
        w->evals += seat->task.kind == WIRE_NEXT_EVAL;
        w->indexes += seat->task.kind == WIRE_NEXT_INDEX;
        seat->state = FAKE_WORKING;
        env_timer_start(w->env, &seat->timer, w->step_ns);
        break;
    }
}

static void worker_declare(struct fake_worker *w)
{
    uint32_t bits = FAKE_TABLET_BITS;
    if (w->tablet_bits != 0)
        bits = w->tablet_bits;
    for (uint32_t t = 0; t < 2; t++) {
        struct table_schema s = {.table = t,
                                 .dense = t,
                                 .width = 4,
                                 .tablet_bits = t == 0 ? bits : 4,
                                 .tablet_first = t == 0 ? 0 : 1u << bits,
                                 .optimizer = {.kind = OPT_SGD, .lr = 0.1f}};
        struct wire_TABLE_CREATE create;
        struct wire q;
        memset(&q, 0, sizeof q);
        (void)snprintf(s.name, sizeof s.name, "table%u", t);
        wire_schema_to(&s, &create);
        q.type = WIRE_TYPE_TABLE_DECLARE;
        q.id = w->next_id++;
        memcpy(&q.u.TABLE_DECLARE, &create, sizeof create);
        q.u.TABLE_DECLARE.declared_total = 2;
        struct msg *m = wire_encode(&q);
        (void)msg_add(m, 0);
        (void)env_send(w->env, w->coordinator, m);
    }
}

static void worker_join(struct fake_worker *w)
{
    struct wire q;
    memset(&q, 0, sizeof q);
    q.type = WIRE_TYPE_WORKER_JOIN;
    w->join_id = q.id = w->next_id++;
    (void)snprintf(q.u.WORKER_JOIN.name, LIMIT_NAME, "%s", w->name);
    q.u.WORKER_JOIN.pid = w->pid;
    (void)snprintf(q.u.WORKER_JOIN.kernel, sizeof q.u.WORKER_JOIN.kernel, "%s",
                   w->kernel == NULL ? "k" : w->kernel);
    (void)snprintf(q.u.WORKER_JOIN.backend, 32, "cpu");
    (void)snprintf(q.u.WORKER_JOIN.device, sizeof q.u.WORKER_JOIN.device, "device of %s", w->name);
    (void)snprintf(q.u.WORKER_JOIN.why, sizeof q.u.WORKER_JOIN.why, "%s",
                   w->why == NULL ? "a test" : w->why);
    (void)snprintf(q.u.WORKER_JOIN.build, sizeof q.u.WORKER_JOIN.build, "1.2.3 abc");
    q.u.WORKER_JOIN.lanes_max = w->seats;
    if (w->side != NULL && !w->side->endpoint_late)
        (void)snprintf(q.u.WORKER_JOIN.endpoint, 256, "sim://%s", w->name);
    worker_send(w, &q, NULL, 0, NULL, 0);
}

static void worker_beat(struct env_timer *t)
{
    struct fake_worker *w = container_of(t, struct fake_worker, beat);
    struct wire q;
    if (w->ended)
        return;
    if (!w->joined) {
        worker_join(w);
    } else {
        memset(&q, 0, sizeof q);
        q.type = WIRE_TYPE_WORKER_BEAT;
        q.id = w->next_id++;
        q.u.WORKER_BEAT = w->held_up;
        q.u.WORKER_BEAT.pass = w->pass;
        q.u.WORKER_BEAT.batches = w->batches;
        /* in jumps, at the ends of tasks */
        q.u.WORKER_BEAT.examples = w->batches / 8 * 8 * w->batch;
        q.u.WORKER_BEAT.compute_s = 1;
        worker_send(w, &q, NULL, 0, NULL, 0);
        if (w->tables_declared < 5) { /* several times, because some may be lost */
            w->tables_declared++;
            worker_declare(w);
        }
    }
    env_timer_start(w->env, t, 200 * MS);
}

static void worker_break(struct fake_worker *w)
{
    struct wire q;
    memset(&q, 0, sizeof q);
    q.type = WIRE_TYPE_WORKER_LEAVE;
    q.id = w->next_id++;
    q.u.WORKER_LEAVE.pass = w->pass;
    q.u.WORKER_LEAVE.fail_status = w->broken;
    (void)snprintf(q.u.WORKER_LEAVE.fail_text, sizeof q.u.WORKER_LEAVE.fail_text,
                   "the device is lost");
    worker_send(w, &q, NULL, 0, NULL, 0);
    w->leaves++;
    w->ended = true;
}

static void worker_joined(struct fake_worker *w, const struct wire *r)
{
    w->joined = true;
    w->number = r->u.WORKER_JOIN_reply.worker;
    w->pass = r->u.WORKER_JOIN_reply.pass;
    w->run = r->u.WORKER_JOIN_reply.run;
    if (w->broken != 0) {
        worker_break(w);
        return;
    }
    for (uint32_t i = 0; i < w->seats; i++) {
        w->seat[i] =
            (struct fake_seat){.worker = w, .lane = UINT32_MAX, .timer = {.fire = seat_timer}};
        seat_ask(&w->seat[i]);
    }
    worker_declare(w);
    if (w->side != NULL)
        fake_side_joined(w->side);
}

static void worker_unknown(struct fake_worker *w)
{
    w->unknown++;
    w->joined = false;
    for (uint32_t i = 0; i < w->seats; i++)
        env_timer_stop(w->env, &w->seat[i].timer);
    worker_join(w);
}

static void worker_refused(struct fake_worker *w, const struct wire *r)
{
    w->refused = r->status;
    (void)snprintf(w->refused_text, sizeof w->refused_text, "%s", r->error);
}

static void worker_reply(struct fake_worker *w, const struct wire *r)
{
    if (r->type == WIRE_TYPE_WORKER_JOIN) {
        if (r->id == w->join_id && r->status == 0 && !w->joined)
            worker_joined(w, r);
        else if (r->status != 0 && r->status != SHOAL_E_AGAIN)
            worker_refused(w, r);
        return;
    }
    if (r->status == SHOAL_E_UNAVAILABLE && w->joined) {
        worker_unknown(w);
        return;
    }
    if (r->status != 0 && r->status != SHOAL_E_AGAIN)
        worker_refused(w, r);
    for (uint32_t i = 0; i < w->seats; i++) {
        struct fake_seat *seat = &w->seat[i];
        if (!w->joined || seat->id != r->id || w->ended)
            continue;
        seat->id = 0;
        if (r->type == WIRE_TYPE_LANE_NEXT && r->status == 0)
            seat_answered(seat, r);
        else if (r->status == SHOAL_E_FENCED)
            seat_leave(seat);
        else
            seat_ask(seat);
    }
}

static void worker_message(void *core, peer_t from, struct msg *m)
{
    struct wire r;
    (void)from;
    struct fake_worker *w = core;
    if (wire_decode(m, &r, NULL) == 0 && r.reply && !w->ended) {
        if (r.type == WIRE_TYPE_RING && w->side != NULL)
            fake_side_reply(w->side, &r, m);
        worker_reply(core, &r);
    }
    msg_free(m);
}

const struct env_handler fake_worker_handler = {worker_message, nothing_drained, NULL};

void fake_worker_start(struct fake_worker *w, struct sim *sim, const char *name,
                       struct fake_shard **shards, uint32_t count)
{
    (void)snprintf(w->name, sizeof w->name, "%s", name);
    w->shard = shards;
    w->shards = count;
    w->next_id = 100;
    w->node = sim_node_new(sim, name, &fake_worker_handler, w);
    w->env = sim_node_env(w->node);
    (void)env_connect(w->env, "sim://coordinator", ENV_COORDINATOR, &w->coordinator);
    w->beat.fire = worker_beat;
    env_timer_start(w->env, &w->beat, MS);
}

/* ---- client ---------------------------------------------------------------------------------- */

static void client_timer(struct env_timer *t)
{
    struct fake_client *c = container_of(t, struct fake_client, timer);
    struct wire q = {.type = c->run == 0 ? WIRE_TYPE_SUBMIT : WIRE_TYPE_REPORT, .id = c->next_id++};
    if (c->submit_status == 0) {
        if (c->run == 0) {
            q.u.SUBMIT.workers = c->workers;
            (void)snprintf(q.u.SUBMIT.from, LIMIT_PATH, "%s", c->from == NULL ? "" : c->from);
            q.u.SUBMIT.start = c->start || (c->from != NULL && strcmp(c->from, "fleet") == 0);
        } else
            q.u.REPORT.run = c->run;
        struct msg *m = wire_encode(&q);
        if (c->run == 0)
            memcpy(msg_add(m, strlen(c->yaml)), c->yaml, strlen(c->yaml));
        (void)env_send(c->env, c->coordinator, m);
    }
    if (c->checkpoint.asked && !c->checkpoint.answered) {
        struct wire k = {.type = WIRE_TYPE_CHECKPOINT, .id = c->checkpoint.id};
        memcpy(k.u.CHECKPOINT.name, c->checkpoint.name, LIMIT_NAME);
        memcpy(k.u.CHECKPOINT.without, c->checkpoint.without, sizeof k.u.CHECKPOINT.without);
        (void)env_send(c->env, c->coordinator, wire_encode(&k));
    }
    env_timer_start(c->env, t, 200 * MS);
}

void fake_client_checkpoint(struct fake_client *c, const char *name)
{
    fake_client_checkpoint_without(c, name, "");
}

void fake_client_checkpoint_without(struct fake_client *c, const char *name, const char *servers)
{
    memset(&c->checkpoint, 0, sizeof c->checkpoint);
    (void)snprintf(c->checkpoint.without, sizeof c->checkpoint.without, "%s", servers);
    c->checkpoint.asked = true;
    c->checkpoint.id = 1000000 + c->next_id++;
    (void)snprintf(c->checkpoint.name, LIMIT_NAME, "%s", name);
    env_timer_start(c->env, &c->timer, MS);
}

static void client_message(void *core, peer_t from, struct msg *m)
{
    struct fake_client *c = core;
    struct wire r;
    if (wire_decode(m, &r, NULL) == 0 && coordinators_heard(&c->coordinators, from, &r)) {
        msg_free(m);
        return;
    }
    if (wire_decode(m, &r, NULL) == 0 && r.type == WIRE_TYPE_SUBMIT) {
        c->submit_status = r.status;
        if (r.status == SHOAL_E_EXISTS && strstr(r.error, "--start-from fleet") != NULL) {
            c->from = "fleet"; /* as the text advises: the next job on the same tables */
            c->submit_status = 0;
        }
        if (r.status == SHOAL_E_UNAVAILABLE && strstr(r.error, "submit again") != NULL)
            c->submit_status = 0;
        if (r.status == 0)
            c->run = r.u.SUBMIT_reply.run;
        else
            (void)snprintf(c->text, sizeof c->text, "%s", r.error);
    } else if (r.type == WIRE_TYPE_REPORT && r.status == 0) {
        c->state = r.u.REPORT_reply.state;
        c->status = r.u.REPORT_reply.job_status;
        (void)snprintf(c->text, sizeof c->text, "%s", r.u.REPORT_reply.job_text);
        size_t bytes =
            m->frame[1].bytes < sizeof c->report - 1 ? m->frame[1].bytes : sizeof c->report - 1;
        memcpy(c->report, m->frame[1].data, bytes);
        c->report[bytes] = 0;
    }
    if (wire_decode(m, &r, NULL) == 0 && r.type == WIRE_TYPE_CHECKPOINT &&
        r.id == c->checkpoint.id) {
        c->checkpoint.answered = true;
        c->checkpoint.status = r.status;
        (void)snprintf(c->checkpoint.text, ERR_TEXT_MAX, "%s", r.status != 0 ? r.error : "");
        if (r.status == 0)
            c->checkpoint.reply = r.u.CHECKPOINT_reply;
    }
    msg_free(m);
}

/* The timer sends what waits for an answer. */
static void client_moved(struct coordinators *of, peer_t before)
{
    struct fake_client *c = container_of(of, struct fake_client, coordinators);
    (void)before;
    c->coordinator = of->peer;
}

static void client_gone(void *core, peer_t peer)
{
    struct fake_client *c = core;
    coordinators_gone(&c->coordinators, peer);
}

const struct env_handler fake_client_handler = {client_message, nothing_drained, client_gone};

void fake_client_start(struct fake_client *c, struct sim *sim, const char *yaml, uint32_t workers)
{
    c->yaml = yaml;
    c->workers = workers;
    c->next_id = 1;
    c->node = sim_node_new(sim, "client", &fake_client_handler, c);
    c->env = sim_node_env(c->node);
    c->coordinators = (struct coordinators){.moved = client_moved};
    struct err e;
    const char *list = c->list != NULL ? c->list : "sim://coordinator";
    ck_assert_int_eq(coordinators_open(&c->coordinators, c->env, list, &e), 0);
    c->coordinator = c->coordinators.peer;
    c->timer.fire = client_timer;
    env_timer_start(c->env, &c->timer, MS);
}
