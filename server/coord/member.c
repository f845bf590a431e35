/* member.c: shards and workers.
 *
 * 1. A number is in the store before anybody is told it. [test:
 *    coord_member_worker_number_is_never_used_again] [assert: coord_work_join]
 * 2. (server, index) -> shard number never changes. [test:
 *    coord_member_server_keeps_its_numbers_over_a_restart] [assert: coord_member_shard_beat] */
#include "server/coord/member.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/plant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shard_record { /* value of "shard/N" */
    char server[LIMIT_NAME];
    uint32_t index;
    uint32_t placed; /* 1: its folder knows where it belongs */
    /* of its process: a server that died while no coordinator was there is noticed */
    uint64_t incarnation;
};
_Static_assert(sizeof(struct shard_record) == LIMIT_NAME + 16, "shard_record is stored");

static const char WORKER_KEY[] = "next-worker";
#define SYNCED_NS UINT64_C(1000000000)

/* How far a shard was on disk: noted now and then, beside its record. */
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
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
}

static int synced_load(struct coord_shard *s, uint32_t shard, struct coord_store *store,
                       struct err *e)
{
    char key[COORD_KEY_MAX];
    synced_key(shard, key);
    int rc = coord_store_get_fixed(store, key, &s->synced, sizeof s->synced, e);
    s->noted = s->synced;
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
}

int coord_member_open(struct coord_members *m, uint32_t shards, struct coord_store *store,
                      struct err *e)
{
    SHOAL_ASSERT(shards > 0 && shards <= LIMIT_SHARDS);
    memset(m, 0, sizeof *m);
    m->shard = calloc(shards, sizeof *m->shard);
    if (m->shard == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u shards", shards);
    m->shards = shards;
    m->next_worker = 1;
    for (uint32_t s = 0; s < shards; s++) {
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
        if (rc != 0)
            return rc;
    }
    int rc = coord_store_get_fixed(store, WORKER_KEY, &m->next_worker, sizeof m->next_worker, e);
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
}

int coord_member_given(const struct coord_members *m, struct coord_store *store, uint32_t *given,
                       struct err *e)
{
    char key[COORD_KEY_MAX];
    *given = 0;
    for (uint32_t s = 0; s < m->shards; s++)
        *given += m->shard[s].server[0] != 0;
    for (uint32_t s = m->shards; s < LIMIT_SHARDS; s++) { /* numbers are given from 0 on */
        struct shard_record record;
        (void)snprintf(key, sizeof key, "shard/%u", s);
        int rc = coord_store_get_fixed(store, key, &record, sizeof record, e);
        if (rc == SHOAL_E_NOT_FOUND)
            break;
        if (rc != 0)
            return rc;
        (*given)++;
    }
    return 0;
}

void coord_member_close(struct coord_members *m)
{
    free(m->shard);
    free(m->worker);
    memset(m, 0, sizeof *m);
}

bool coord_member_all_set_up(const struct coord_members *m)
{
    for (uint32_t i = 0; i < m->shards; i++)
        if (!m->shard[i].set_up)
            return false;
    return true;
}

uint32_t coord_member_number(const struct coord_members *m, const struct wire_SHARD_BEAT *beat)
{
    for (uint32_t s = 0; s < m->shards; s++)
        if ((m->shard[s].index == beat->shard_index || PLANTED("one_shard_a_server")) &&
            strcmp(m->shard[s].server, beat->server) == 0)
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

/* Its rows are on disk now: none are in a process that it had before, also for the coordinator
 * after this one. */
static int made_forget(struct coord_shard *s, uint32_t shard, struct coord_store *store,
                       struct err *e)
{
    static const uint64_t none = 0;
    char key[COORD_KEY_MAX];
    made_key(shard, key);
    int rc = coord_store_put(store, key, &none, sizeof none, e);
    s->made = rc == 0 ? 0 : s->made;
    return rc;
}

static int shard_give(struct coord_members *m, const struct wire_SHARD_BEAT *beat, uint32_t *shard,
                      struct err *e)
{
    for (uint32_t s = 0; s < m->shards; s++) {
        /* its folder has the number: the store was lost, or put back */
        if (m->shard[s].server[0] != 0 ||
            (coord_member_belongs(beat) && !PLANTED("numbers_of_others") && beat->number != s))
            continue;
        *shard = s;
        return 0;
    }
    return err_set(e, SHOAL_E_BUSY,
                   "server %s: all %u shard numbers belong to other servers; a server keeps its "
                   "name in its data_dir: start the one that is missing on its own; `shards` of "
                   "the coordinator can be raised until the first job has made tables",
                   beat->server, m->shards);
}

static void rss_note(struct coord_members *m)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < m->shards; s++)
        if (m->shard[s].seen && m->shard[s].index == 0) /* once a process */
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
    if (s->server[0] == 0 || (s->incarnation != beat->incarnation && !PLANTED("process_unnoted")) ||
        s->placed != coord_member_belongs(beat)) {
        int rc = shard_put(store, *shard, beat, e);
        if (rc != 0)
            return rc;
    }
    if (!beat->in_memory && s->made != 0) {
        int rc = made_forget(s, *shard, store, e);
        if (rc != 0)
            return rc;
    }
    SHOAL_ASSERT(s->server[0] == 0 ||
                 (s->index == beat->shard_index && strcmp(s->server, beat->server) == 0)); /* 2 */
    *what = !s->seen ? COORD_BEAT_NEW : COORD_BEAT_SAME;
    if (s->seen && beat->ready && !s->ready)
        *what = COORD_BEAT_READY;
    if (s->incarnation != 0 && s->incarnation != beat->incarnation)
        *what = COORD_BEAT_RESTARTED;
    if (s->incarnation != beat->incarnation) {
        s->map_told = PLANTED("map_told_before") ? s->map_told : 0;
        s->former = s->seen ? s->incarnation : 0;
        s->rebooted = s->seen && s->figures.boot != beat->boot;
    }
    s->placed = coord_member_belongs(beat);
    s->synced = beat->synced > s->synced ? beat->synced : s->synced;
    memcpy(s->server, beat->server, LIMIT_NAME);
    s->index = beat->shard_index;
    s->seen = true;
    s->ready = beat->ready;
    s->incarnation = beat->incarnation;
    s->peer = peer;
    s->beat_ns = now_ns;
    if (!beat->disk_short && !PLANTED("short_for_ever"))
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
    if (synced <= s->noted || PLANTED("digest_unnoted"))
        return 0;
    s->synced = synced > s->synced ? synced : s->synced;
    return coord_member_note_synced(m, shard, store, s->noted_ns + SYNCED_NS, e);
}

bool coord_shard_in_memory(const struct coord_shard *s)
{
    return s->seen ? s->figures.in_memory : s->made != 0;
}

/* A shard of a release that does not say it keeps a journal at least. */
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
    if (!s->figures.in_memory || s->made == s->incarnation)
        return 0;
    s->made = s->incarnation;
    made_key(shard, key);
    return coord_store_note(store, key, &s->made, sizeof s->made, e);
}

int coord_member_made_check(const struct coord_members *m, bool begins, struct err *e)
{
    const struct coord_shard *lost = NULL, *kept = NULL;
    for (uint32_t s = 0; s < m->shards; s++) {
        const struct coord_shard *at = &m->shard[s];
        if (!at->figures.in_memory || at->made == 0)
            continue;
        if (at->made == at->incarnation)
            kept = at;
        else
            lost = at;
    }
    if (lost != NULL && kept == NULL && begins)
        return err_set(e, SHOAL_E_NOINPUT,
                       "start_from: fleet: server %s has started again, and the rows were in "
                       "memory: none are left. Begin with a checkpoint (--start-from CHECKPOINT), "
                       "or without start_from",
                       lost->server);
    if (lost == NULL || kept == NULL || PLANTED("half_in_memory"))
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "server %s has started again and its rows were in memory, those of server %s "
                   "are still there: a job would go on with a part of them. Start all servers "
                   "again, then submit the job",
                   lost->server, kept->server);
}

bool coord_shard_there(const struct coord_shard *s, uint64_t now_ns, uint64_t lease_ns)
{
    SHOAL_ASSERT(s->beat_ns <= now_ns);
    return s->seen && s->set_up && now_ns - s->beat_ns <= lease_ns;
}

uint64_t coord_later(uint64_t then_ns, uint64_t gap_ns, uint64_t now_ns)
{
    return now_ns - then_ns < gap_ns ? now_ns : then_ns + gap_ns;
}

void coord_member_forgive(struct coord_members *m, uint64_t gap_ns, uint64_t now_ns)
{
    for (uint32_t s = 0; s < m->shards; s++)
        if (m->shard[s].seen)
            m->shard[s].beat_ns = coord_later(m->shard[s].beat_ns, gap_ns, now_ns);
    for (uint32_t i = 0; i < m->workers; i++) {
        m->worker[i].beat_ns = coord_later(m->worker[i].beat_ns, gap_ns, now_ns);
        m->worker[i].moved_ns = coord_later(m->worker[i].moved_ns, gap_ns, now_ns);
    }
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
    for (uint32_t s = 0; s < m->shards; s++)
        if (!m->shard[s].seen || !m->shard[s].ready)
            return false;
    return true;
}

static int worker_add(struct coord_members *m, struct coord_worker **out)
{
    if (array_room(&m->worker, m->workers, &m->worker_capacity, 16) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(m->workers < m->worker_capacity && m->workers < LIMIT_WORKERS);
    *out = &m->worker[m->workers++];
    memset(*out, 0, sizeof **out);
    return 0;
}

/* One key, or one process, leaves places to others. */
static int room_check(const struct coord_members *m, peer_t peer, const char *holder, struct err *e)
{
    uint32_t of_holder = 0, of_peer = 0;
    for (uint32_t i = 0; i < m->workers; i++) {
        of_holder += strcmp(m->worker[i].holder, holder) == 0;
        of_peer += m->worker[i].peer == peer;
    }
    if (m->workers >= LIMIT_WORKERS)
        return err_set(e, SHOAL_E_BUSY,
                       "there are %u workers already, the most that a coordinator takes",
                       m->workers);
    if (of_peer >= LIMIT_WORKERS_PEER)
        return err_set(e, SHOAL_E_BUSY,
                       "this connection has joined as %u workers already: a process is one worker",
                       of_peer);
    if (of_holder >= LIMIT_WORKERS_HOLDER)
        return err_set(e, SHOAL_E_BUSY,
                       "%u workers have come with this key (%.10s) already: give each machine's "
                       "workers a key of their own (shoal keygen)",
                       of_holder, holder);
    return 0;
}

int coord_member_join(struct coord_members *m, struct coord_store *store,
                      const struct wire_WORKER_JOIN *join, const struct coord_caller *caller,
                      struct coord_worker **out, struct err *e)
{
    struct coord_worker *w;
    for (uint32_t i = 0; i < m->workers; i++) {
        w = &m->worker[i];
        if ((w->peer == caller->peer || PLANTED("alike_workers")) &&
            (w->pid == join->pid || PLANTED("alike_processes")) &&
            strcmp(w->name, join->name) == 0) {
            w->beat_ns = caller->now_ns;
            *out = w;
            return 0;
        }
    }
    const char *key = caller->key != NULL ? caller->key : "",
               *holder = key[0] != 0 || caller->address == NULL ? key : caller->address;
    int rc = room_check(m, caller->peer, holder, e);
    if (rc != 0)
        return rc;
    uint64_t next = m->next_worker + 1;
    rc = coord_store_put(store, WORKER_KEY, &next, sizeof next, e);
    if (rc != 0)
        return rc;
    if (worker_add(m, &w) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for one more worker");
    w->number = m->next_worker;
    SHOAL_ASSERT(w == m->worker || w[-1].number < w->number); /* they are sorted */
    m->next_worker = next;
    memcpy(w->name, join->name, sizeof w->name);
    w->pid = join->pid;
    w->lanes_max = join->lanes_max;
    w->pass = caller->pass;
    w->peer = caller->peer;
    (void)snprintf(w->key, sizeof w->key, "%s", key);
    (void)snprintf(w->holder, sizeof w->holder, "%s", holder);
    w->beat_ns = w->moved_ns = caller->now_ns;
    *out = w;
    return 0;
}

static uint32_t worker_find(const struct coord_members *m, uint64_t number)
{
    uint32_t low = 0, high = m->workers;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->worker[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->workers && m->worker[low].number == number ? low : COORD_NOBODY;
}

struct coord_worker *coord_member_worker(struct coord_members *m, uint64_t number)
{
    uint32_t at = worker_find(m, number);
    return at == COORD_NOBODY ? NULL : &m->worker[at];
}

struct coord_worker *coord_member_of_pass(struct coord_members *m, uint64_t pass, const char *key)
{
    for (uint32_t i = 0; i < m->workers; i++)
        if ((m->worker[i].pass == pass || (m->worker[i].number == pass && PLANTED("pass"))) &&
            (strcmp(m->worker[i].key, key) == 0 || PLANTED("any_key_of_a_worker")))
            return &m->worker[i];
    return NULL;
}

/* All that a beat counts; `pass` of a sum means nothing. */
static void figures_add(struct wire_WORKER_BEAT *sum, const struct wire_WORKER_BEAT *f)
{
#define ADD(name) sum->name += f->name;
#define NONE(name)
    WIRE_WORKER_BEAT(NONE, ADD, NONE, NONE, ADD, NONE, NONE)
#undef NONE
#undef ADD
}

void coord_member_worker_gone(struct coord_members *m, uint64_t number)
{
    uint32_t at = worker_find(m, number);
    if (at == COORD_NOBODY)
        return;
    figures_add(&m->gone, &m->worker[at].figures);
    SHOAL_ASSERT(m->workers > at && m->worker[at].number == number);
    m->workers--;
    memmove(m->worker + at, m->worker + at + 1, (m->workers - at) * sizeof *m->worker);
}

uint64_t coord_member_expired(const struct coord_members *m, uint64_t now_ns, uint64_t lease_ns)
{
    for (uint32_t i = 0; i < m->workers; i++) {
        SHOAL_ASSERT(m->worker[i].beat_ns <= now_ns);
        if (now_ns - m->worker[i].beat_ns > lease_ns)
            return m->worker[i].number;
    }
    return 0;
}

void coord_member_workers_forget(struct coord_members *m)
{
    while (m->workers > 0)
        coord_member_worker_gone(m, m->worker[m->workers - 1].number);
}

void coord_member_sums(const struct coord_members *m, struct wire_WORKER_BEAT *out)
{
    *out = m->gone;
    for (uint32_t i = 0; i < m->workers; i++)
        figures_add(out, &m->worker[i].figures);
}

void coord_member_forget_figures(struct coord_members *m)
{
    memset(&m->gone, 0, sizeof m->gone);
    for (uint32_t i = 0; i < m->workers; i++)
        memset(&m->worker[i].figures, 0, sizeof m->worker[i].figures);
    m->rss_peak_bytes = 0;
}

/* ---- map ---- */

int coord_map_check(const struct table_schema *table, uint32_t count, struct err *e)
{
    uint32_t next = 0;
    if (count == 0 || count > LIMIT_TABLES)
        return err_set(e, SHOAL_E_SCHEMA, "a job has 1 to %u tables, this one declares %u",
                       LIMIT_TABLES, count);
    for (uint32_t t = 0; t < count; t++) {
        int rc = schema_check(&table[t], e);
        if (rc != 0)
            return rc;
        if (table[t].table != t || table[t].tablet_first != next)
            return err_set(e, SHOAL_E_SCHEMA,
                           "table %s: number %u and first tablet %u, expected %u and %u",
                           table[t].name, table[t].table, table[t].tablet_first, t, next);
        for (uint32_t other = 0; other < t; other++)
            if (strcmp(table[other].name, table[t].name) == 0)
                return err_set(e, SHOAL_E_SCHEMA, "tables %u and %u are both named %s", other, t,
                               table[t].name);
        next += 1u << table[t].tablet_bits;
    }
    return 0;
}

uint32_t coord_map_tablets(const struct table_schema *table, uint32_t count)
{
    uint32_t sum = 0;
    SHOAL_ASSERT(count > 0 && count <= LIMIT_TABLES);
    for (uint32_t t = 0; t < count; t++)
        sum += 1u << table[t].tablet_bits;
    return sum;
}

int coord_map_make(const struct table_schema *table, uint32_t count, uint32_t shards,
                   uint16_t *shard_of, struct err *e)
{
    SHOAL_ASSERT(shards > 0 && shards <= LIMIT_SHARDS && count <= LIMIT_TABLES);
    for (uint32_t t = 0; t < count; t++) {
        uint64_t tablets = 1ull << table[t].tablet_bits;
        if (table[t].dense == 0 && tablets / shards < LIMIT_SHARD_TABLETS_MIN)
            return err_set(e, SHOAL_E_CONFIG,
                           "table %s has %" PRIu64
                           " tablets for %u shards, at least %u a shard are needed: raise "
                           "tables.tablets or take fewer shards",
                           table[t].name, tablets, shards, LIMIT_SHARD_TABLETS_MIN);
        for (uint64_t i = 0; i < tablets; i++)
            shard_of[table[t].tablet_first + i] = (uint16_t)(i * shards / tablets);
    }
    return 0;
}

/* ---- roll ---- */

void coord_compute_of(const struct wire_WORKER_JOIN *join, struct coord_compute *out)
{
    memset(out, 0, sizeof *out); /* compared as bytes */
    (void)snprintf(out->backend, sizeof out->backend, "%s", join->backend);
    (void)snprintf(out->kernel, sizeof out->kernel, "%s", join->kernel);
    (void)snprintf(out->device, sizeof out->device, "%s", join->device);
    (void)snprintf(out->why, sizeof out->why, "%s", join->why);
}

void coord_compute_set(struct json *to, const struct coord_compute *by)
{
    json_set_string(to, "backend", by->backend);
    json_set_string(to, "kernel", by->kernel);
    json_set_string(to, "device", by->device);
    json_set_string(to, "why", by->why);
}

void coord_roll_close(struct coord_roll *r)
{
    free(r->entry);
    memset(r, 0, sizeof *r);
}

/* Room for one more, or NULL. */
static struct coord_roll_entry *entry_add(struct coord_roll *r)
{
    SHOAL_ASSERT(r->count <= r->capacity && r->count <= COORD_ROLL_MAX);
    if (r->count == COORD_ROLL_MAX)
        return NULL;
    if (array_room(&r->entry, r->count, &r->capacity, 8) != 0)
        return NULL;
    return &r->entry[r->count++];
}

/* Whether any entry of the name was broken; all of them are `broken` now. */
static bool broken_set(struct coord_roll *r, const char *name, bool broken)
{
    bool was = false;
    for (uint32_t i = 0; i < r->count; i++)
        if (strcmp(r->entry[i].name, name) == 0) {
            was = was || r->entry[i].broken;
            r->entry[i].broken = broken;
        }
    return was;
}

bool coord_roll_broken(struct coord_roll *r, const char *name)
{
    return !broken_set(r, name, true);
}

bool coord_roll_note(struct coord_roll *r, const char *name, const struct coord_compute *by)
{
    bool back = broken_set(r, name, false);
    for (uint32_t i = 0; i < r->count; i++)
        if (strcmp(r->entry[i].name, name) == 0 && memcmp(&r->entry[i].by, by, sizeof *by) == 0) {
            r->entry[i].joined++;
            return back;
        }
    struct coord_roll_entry *e = entry_add(r);
    if (e == NULL)
        return back;
    (void)snprintf(e->name, sizeof e->name, "%s", name);
    e->by = *by;
    e->joined = 1;
    e->broken = false;
    return back;
}

struct json *coord_roll_json(const struct coord_roll *r)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < r->count; i++) {
        struct json *item = json_new_object();
        json_set_string(item, "name", r->entry[i].name);
        coord_compute_set(item, &r->entry[i].by);
        json_set_int(item, "joined", r->entry[i].joined);
        json_append(list, item);
    }
    return list;
}
