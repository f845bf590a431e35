/* member.c: shards.
 *
 * 1. A worker's number is in the store before the worker is told it. [test:
 *    coord_member_worker_number_is_never_used_again] [assert: coord_handle_join]
 * 2. (server, index) -> shard number changes only while the number is vacant. [test:
 *    coord_member_server_keeps_its_numbers_over_a_restart] [assert: coord_member_shard_beat] */
#include "server/coord/fleet/member.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/member_numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shard_record { /* value of "shard/N" */
    char server[LIMIT_NAME];
    uint32_t index;
    uint32_t placed; /* 1: its folder records its cluster and number */
    /* the process's: shows that a server died while no coordinator was there */
    uint64_t incarnation;
};
_Static_assert(sizeof(struct shard_record) == LIMIT_NAME + 16, "shard_record is stored");

struct replaced_record { /* value of "replaced/N" */
    uint64_t run;
    uint64_t vacant;
};

static const char WORKER_KEY[] = "next-worker";
#define SYNCED_NS UINT64_C(1000000000)

/* The key of how far a shard was on disk, which is noted now and then, beside its record. */
static void synced_key(uint32_t shard, char key[COORD_KEY_MAX])
{
    (void)snprintf(key, COORD_KEY_MAX, "synced/%u", shard);
}

static void made_key(uint32_t shard, char key[COORD_KEY_MAX])
{
    (void)snprintf(key, COORD_KEY_MAX, "made/%u", shard);
}

static int made_load(struct coord_shard *s, uint32_t shard, struct coord_store *store,
                     struct err *e)
{
    char key[COORD_KEY_MAX];
    made_key(shard, key);
    int rc = coord_store_get_fixed(store, key, &s->made, sizeof s->made, e);
    return coord_store_optional(rc);
}

static int synced_load(struct coord_shard *s, uint32_t shard, struct coord_store *store,
                       struct err *e)
{
    char key[COORD_KEY_MAX];
    synced_key(shard, key);
    int rc = coord_store_get_fixed(store, key, &s->synced, sizeof s->synced, e);
    s->noted = s->synced;
    return coord_store_optional(rc);
}

static int replaced_put(struct coord_store *store, uint32_t shard, uint64_t run, bool vacant,
                        struct err *e)
{
    char key[COORD_KEY_MAX];
    struct replaced_record record = {run, vacant};
    (void)snprintf(key, sizeof key, "replaced/%u", shard);
    return coord_store_put(store, key, &record, sizeof record, e);
}

/* A vacant number belongs to no process yet. */
static int replaced_load(struct coord_shard *s, uint32_t shard, struct coord_store *store,
                         struct err *e)
{
    char key[COORD_KEY_MAX];
    struct replaced_record record = {0};
    (void)snprintf(key, sizeof key, "replaced/%u", shard);
    int rc = coord_store_get_fixed(store, key, &record, sizeof record, e);
    s->replaced = record.run;
    s->vacant = record.vacant != 0;
    if (s->vacant)
        s->incarnation = 0;
    return coord_store_optional(rc);
}

int coord_member_open(struct coord_members *m, uint32_t shards, struct coord_store *store,
                      struct err *e)
{
    SHOAL_ASSERT(shards > 0 && shards <= LIMIT_SHARDS);
    memset(m, 0, sizeof *m);
    m->shard = calloc(LIMIT_SHARDS, sizeof *m->shard);
    if (m->shard == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for shards");
    m->shards = shards;
    m->next_worker = 1;
    if (coord_member_numbers_load(m, store, e) != 0)
        return e->code;
    COORD_EACH_SHARD (m, s) {
        char key[COORD_KEY_MAX];
        struct shard_record record;
        (void)snprintf(key, sizeof key, "shard/%u", s);
        int rc = coord_store_get_fixed(store, key, &record, sizeof record, e);
        if (rc == SHOAL_E_NOT_FOUND)
            continue;
        if (rc != 0)
            return rc;
        record.server[LIMIT_NAME - 1] = 0;
        memcpy(m->shard[s].server, record.server, LIMIT_NAME);
        m->shard[s].index = record.index;
        m->shard[s].incarnation = record.incarnation;
        m->shard[s].placed = record.placed != 0;
        rc = synced_load(&m->shard[s], s, store, e);
        if (rc == 0)
            rc = made_load(&m->shard[s], s, store, e);
        if (rc == 0)
            rc = replaced_load(&m->shard[s], s, store, e);
        if (rc != 0)
            return rc;
    }
    int rc = coord_store_get_fixed(store, WORKER_KEY, &m->next_worker, sizeof m->next_worker, e);
    return coord_store_optional(rc);
}

void coord_member_close(struct coord_members *m)
{
    free(m->shard);
    memset(m, 0, sizeof *m);
}

uint32_t coord_member_number(const struct coord_members *m, const struct wire_SHARD_BEAT *beat)
{
    for (uint32_t s = 0; s < m->shards; s++)
        if (m->shard[s].index == beat->shard_index && strcmp(m->shard[s].server, beat->server) == 0)
            return s;
    return COORD_NOBODY;
}

bool coord_member_belongs(const struct wire_SHARD_BEAT *beat)
{
    return (beat->cluster_high | beat->cluster_low) != 0;
}

static int shard_put(struct coord_store *store, uint32_t shard, const struct wire_SHARD_BEAT *beat,
                     struct err *e)
{
    char key[COORD_KEY_MAX];
    struct shard_record record = {.index = beat->shard_index,
                                  .placed = coord_member_belongs(beat),
                                  .incarnation = beat->incarnation};
    memcpy(record.server, beat->server, LIMIT_NAME);
    (void)snprintf(key, sizeof key, "shard/%u", shard);
    return coord_store_put(store, key, &record, sizeof record, e);
}

/* The shard's rows are on disk now: forgets the incarnation whose memory had them, also in the
 * store. */
static int made_forget(struct coord_shard *s, uint32_t shard, struct coord_store *store,
                       struct err *e)
{
    static const uint64_t none = 0;
    char key[COORD_KEY_MAX];
    made_key(shard, key);
    int rc = coord_store_put(store, key, &none, sizeof none, e);
    if (rc == 0)
        s->made = 0;
    return rc;
}

static int shard_give(struct coord_members *m, const struct wire_SHARD_BEAT *beat, uint32_t *shard,
                      struct err *e)
{
    COORD_EACH_SHARD (m, s) {
        bool any = m->shard[s].vacant && m->shard[s].replaced != 0;
        if (any && !coord_member_belongs(beat)) {
            *shard = s;
            return 0;
        }
        /* a folder that has a number keeps it, although the store was lost or put back */
        if (m->shard[s].server[0] != 0 || (coord_member_belongs(beat) && beat->number != s))
            continue;
        *shard = s;
        return 0;
    }
    return err_set(e, SHOAL_E_BUSY,
                   "server %s waits: the %u shards belong to other servers. To give it one more: "
                   "shoal add %s. If it is one of those under another name, start it on its own "
                   "data_dir",
                   beat->server, coord_member_count(m), beat->server);
}

static void rss_note(struct coord_members *m)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < m->shards; s++)
        if (m->shard[s].seen && m->shard[s].index == 0) /* one shard for each process */
            sum += m->shard[s].figures.rss_peak_bytes;
    if (sum > m->rss_peak_bytes)
        m->rss_peak_bytes = sum;
}

void coord_member_note_rss(struct coord_members *m, uint32_t shard, uint64_t peak_bytes)
{
    SHOAL_ASSERT(shard < m->shards);
    if (peak_bytes > m->shard[shard].figures.rss_peak_bytes)
        m->shard[shard].figures.rss_peak_bytes = peak_bytes;
    rss_note(m);
}

int coord_member_vacate(struct coord_members *m, uint32_t shard, uint64_t run,
                        struct coord_store *store, struct err *e)
{
    static const uint64_t none = 0;
    struct coord_shard *s = &m->shard[shard];
    char key[COORD_KEY_MAX];
    SHOAL_ASSERT(shard < m->shards && s->server[0] != 0);
    int rc = replaced_put(store, shard, run, true, e);
    synced_key(shard, key);
    if (rc == 0)
        rc = coord_store_put(store, key, &none, sizeof none, e);
    if (rc == 0)
        rc = made_forget(s, shard, store, e);
    if (rc != 0)
        return rc;
    struct coord_shard vacant = {.index = s->index, .vacant = true, .replaced = run};
    memcpy(vacant.server, s->server, sizeof vacant.server);
    *s = vacant;
    return 0;
}

int coord_member_reserve(struct coord_members *m, struct coord_store *store, uint32_t shard,
                         uint64_t now_ns, struct err *e)
{
    struct coord_shard *s = &m->shard[shard];
    struct wire_SHARD_BEAT named = {.shard_index = s->index};
    SHOAL_ASSERT(coord_member_used(m, shard) && !s->seen);
    memcpy(named.server, s->server, sizeof named.server);
    *s = (struct coord_shard){.index = named.shard_index, .vacant = true, .beat_ns = now_ns};
    memcpy(s->server, named.server, sizeof s->server);
    int rc = shard_put(store, shard, &named, e);
    if (rc == 0)
        rc = replaced_put(store, shard, 0, true, e);
    return rc;
}

int coord_member_retire(struct coord_members *m, struct coord_store *store, uint32_t shard,
                        struct err *e)
{
    static const char *const of_it[] = {"shard", "synced", "made", "replaced", "holder"};
    char key[COORD_KEY_MAX];
    SHOAL_ASSERT(coord_member_used(m, shard));
    m->shard[shard] = (struct coord_shard){.retired = true};
    int rc = coord_member_numbers_put(m, store, e);
    for (uint32_t i = 0; i < sizeof of_it / sizeof of_it[0] && rc == 0; i++) {
        (void)snprintf(key, sizeof key, "%s/%u", of_it[i], shard);
        rc = coord_store_remove(store, key, e);
    }
    return rc;
}

/* Notes the keys a second since the beat before; a process that has just started counts from 0. */
static void rates_note(struct coord_shard *s, const struct wire_SHARD_BEAT *beat, uint64_t now_ns)
{
    double seconds = (double)(now_ns - s->beat_ns) * 1e-9;
    if (!s->seen || s->incarnation != beat->incarnation) {
        s->pull_rate = s->push_rate = 0;
        return;
    }
    if (seconds <= 0)
        return;
    s->pull_rate = (double)SAT_SUB(beat->keys_pulled, s->figures.keys_pulled) / seconds;
    s->push_rate = (double)SAT_SUB(beat->keys_pushed, s->figures.keys_pushed) / seconds;
}

int coord_member_shard_beat(struct coord_members *m, struct coord_store *store,
                            const struct wire_SHARD_BEAT *beat, peer_t peer, uint64_t now_ns,
                            uint32_t *shard, enum coord_beat *what, struct err *e)
{
    if (beat->server[0] == 0 || beat->shard_index >= LIMIT_SHARDS)
        return err_set(e, SHOAL_E_MALFORMED, "a beat names its server and an index below %u",
                       LIMIT_SHARDS);
    *shard = coord_member_number(m, beat);
    if (*shard == COORD_NOBODY) {
        int rc = shard_give(m, beat, shard, e);
        if (rc != 0)
            return rc;
    }
    struct coord_shard *s = &m->shard[*shard];
    if (s->server[0] == 0 || s->incarnation != beat->incarnation ||
        s->placed != coord_member_belongs(beat)) {
        int rc = shard_put(store, *shard, beat, e);
        if (rc == 0 && s->vacant)
            rc = replaced_put(store, *shard, s->replaced, false, e);
        if (rc != 0)
            return rc;
    }
    SHOAL_ASSERT(s->server[0] == 0 || s->vacant ||
                 (s->index == beat->shard_index && strcmp(s->server, beat->server) == 0)); /* 2 */
    *what = !s->seen ? COORD_BEAT_NEW : COORD_BEAT_SAME;
    if (s->seen && beat->ready && !s->ready)
        *what = COORD_BEAT_READY;
    if (s->incarnation != 0 && s->incarnation != beat->incarnation)
        *what = COORD_BEAT_RESTARTED;
    if (s->incarnation != beat->incarnation) {
        s->map_told = 0;
        s->former = s->seen ? s->incarnation : 0;
        s->rebooted = s->seen && s->figures.boot != beat->boot;
    }
    s->vacant = false;
    s->placed = coord_member_belongs(beat);
    s->synced = MAX(beat->synced, s->synced);
    if (beat->in_memory) /* it has led no tablet since it had a disk (cluster.c) */
        s->synced = beat->synced;
    memcpy(s->server, beat->server, LIMIT_NAME);
    s->index = beat->shard_index;
    rates_note(s, beat, now_ns);
    s->seen = true;
    s->ready = beat->ready;
    s->incarnation = beat->incarnation;
    s->peer = peer;
    s->beat_ns = now_ns;
    if (!beat->disk_short)
        s->short_ns = 0;
    else if (s->short_ns == 0)
        s->short_ns = now_ns;
    s->figures = *beat;
    memcpy(s->endpoint, beat->endpoint, sizeof s->endpoint);
    rss_note(m);
    return 0;
}

int coord_member_note_synced(struct coord_members *m, uint32_t shard, struct coord_store *store,
                             uint64_t now_ns, struct err *e)
{
    struct coord_shard *s = &m->shard[shard];
    char key[COORD_KEY_MAX];
    SHOAL_ASSERT(shard < m->shards);
    if (s->synced == s->noted || (s->noted != 0 && now_ns - s->noted_ns < SYNCED_NS))
        return 0;
    s->noted = s->synced;
    s->noted_ns = now_ns;
    synced_key(shard, key);
    return coord_store_note(store, key, &s->synced, sizeof s->synced, e);
}

int coord_member_note_digested(struct coord_members *m, uint32_t shard, struct coord_store *store,
                               uint64_t synced, struct err *e)
{
    struct coord_shard *s = &m->shard[shard];
    SHOAL_ASSERT(shard < m->shards);
    if (synced <= s->noted)
        return 0;
    s->synced = MAX(synced, s->synced);
    return coord_member_note_synced(m, shard, store, s->noted_ns + SYNCED_NS, e);
}

bool coord_shard_in_memory(const struct coord_shard *s)
{
    if (s->seen)
        return s->figures.in_memory;
    return s->made != 0;
}

bool coord_shard_lost(const struct coord_shard *s)
{
    return s->seen && s->made != 0 && s->made != s->incarnation;
}

/* Returns the shard's durability; a shard that does not tell it keeps a journal at least. */
static enum durability durability_of(const struct coord_shard *s)
{
    uint32_t said = s->figures.durability;
    if (s->figures.in_memory)
        return DURABLE_MEMORY;
    return said == 0 || said > DURABLE_FSYNC + 1 ? DURABLE_JOURNAL : (enum durability)(said - 1);
}

enum durability coord_member_durability(const struct coord_members *m)
{
    enum durability least = DURABLE_FSYNC;
    for (uint32_t s = 0; s < m->shards; s++)
        if (m->shard[s].seen && durability_of(&m->shard[s]) < least)
            least = durability_of(&m->shard[s]);
    return least;
}

int coord_member_durability_check(const struct coord_members *m, const struct job *job,
                                  struct err *e)
{
    for (uint32_t s = 0; s < m->shards && job->durability_given; s++) {
        const struct coord_shard *at = &m->shard[s];
        if (at->seen && at->figures.durability != 0 && durability_of(at) != job->durability)
            return err_set(e, SHOAL_E_CONFIG,
                           "durability: the job says %s, and server %s keeps rows by %s, as its "
                           "file says: take the key out of the job to train by what the servers "
                           "do, or change `durability` in the file of every server and start "
                           "them again",
                           job_durability_name(job->durability), at->server,
                           job_durability_name(durability_of(at)));
    }
    return 0;
}

int coord_member_note_made(struct coord_members *m, uint32_t shard, struct coord_store *store,
                           struct err *e)
{
    struct coord_shard *s = &m->shard[shard];
    char key[COORD_KEY_MAX];
    SHOAL_ASSERT(shard < m->shards && s->incarnation != 0);
    if (!s->figures.in_memory && s->made != 0)
        return made_forget(s, shard, store, e);
    if (!s->figures.in_memory || s->made == s->incarnation)
        return 0;
    s->made = s->incarnation;
    made_key(shard, key);
    return coord_store_note(store, key, &s->made, sizeof s->made, e);
}

int coord_member_lead(struct coord_members *m, struct coord_store *store, uint32_t shard,
                      const struct coord_shard *copy, bool whole, struct err *e)
{
    struct coord_shard *s = &m->shard[shard];
    char key[COORD_KEY_MAX];
    uint64_t made = s->made;
    SHOAL_ASSERT(shard < m->shards && copy->seen);
    *s = *copy;
    s->vacant = false;
    s->former = s->map_told = s->noted_ns = s->replaced = 0;
    s->rebooted = !whole;
    s->synced = s->noted = copy->figures.synced;
    s->made = made;
    if (made != 0 && whole)
        s->made = s->incarnation;
    int rc = shard_put(store, shard, &copy->figures, e);
    synced_key(shard, key);
    if (rc == 0)
        rc = coord_store_put(store, key, &s->synced, sizeof s->synced, e);
    made_key(shard, key);
    if (rc == 0 && made != 0)
        rc = coord_store_put(store, key, &s->made, sizeof s->made, e);
    return rc;
}

bool coord_shard_there(const struct coord_shard *s, bool set_up, uint64_t now_ns, uint64_t lease_ns)
{
    SHOAL_ASSERT(s->beat_ns <= now_ns);
    return s->seen && set_up && now_ns - s->beat_ns <= lease_ns;
}

uint64_t coord_later(uint64_t then_ns, uint64_t gap_ns, uint64_t now_ns)
{
    if (now_ns - then_ns < gap_ns)
        return now_ns;
    return then_ns + gap_ns;
}

void coord_member_forgive(struct coord_members *m, uint64_t gap_ns, uint64_t now_ns)
{
    for (uint32_t s = 0; s < m->shards; s++)
        if (m->shard[s].seen)
            m->shard[s].beat_ns = coord_later(m->shard[s].beat_ns, gap_ns, now_ns);
}

uint32_t coord_member_shard_of(const struct coord_members *m, peer_t peer)
{
    for (uint32_t s = 0; s < m->shards; s++)
        if (m->shard[s].seen && m->shard[s].peer == peer)
            return s;
    return COORD_NOBODY;
}

bool coord_member_shards_ready(const struct coord_members *m)
{
    COORD_EACH_SHARD (m, s)
        if (!m->shard[s].seen || !m->shard[s].ready)
            return false;
    return true;
}

void coord_member_forget_rss(struct coord_members *m)
{
    m->rss_peak_bytes = 0;
}

int coord_member_worker_number(struct coord_members *m, struct coord_store *store, uint64_t *number,
                               struct err *e)
{
    uint64_t next = m->next_worker + 1;
    int rc = coord_store_put(store, WORKER_KEY, &next, sizeof next, e);
    if (rc != 0)
        return rc;
    *number = m->next_worker;
    m->next_worker = next;
    return 0;
}

const char *coord_member_ways(uint32_t replicas, const char *server, char out[ERR_TEXT_MAX])
{
    if (replicas > 1)
        (void)snprintf(out, ERR_TEXT_MAX, "if it is gone for good, shoal replace %s", server);
    else
        (void)snprintf(out, ERR_TEXT_MAX,
                       "if its data_dir is gone for good, shoal replace %s --from CHECKPOINT; what "
                       "the other servers hold now can be kept before that: shoal checkpoint "
                       "create NAME --without %s",
                       server, server);
    return out;
}
