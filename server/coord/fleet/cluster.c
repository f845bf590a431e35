/* cluster.c: the cluster's identity and map; cluster.h has the invariants and the diagram. */
#include "server/coord/fleet/cluster.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADVICE                                                                                     \
    "; bring the data_dir back from a copy, or empty it: the cluster is taken over from its "      \
    "servers"

static const char ID_KEY[] = "cluster", MAP_KEY[] = "map", TAKEN_KEY[] = "taken-over";

struct map_record { /* value of "map", then the owners, u16 each */
    uint64_t epoch;
    uint32_t tables, tablets;
    uint8_t bits[LIMIT_TABLES];
};
_Static_assert(sizeof(struct map_record) == 16 + LIMIT_TABLES, "map_record is stored");

bool coord_cluster_known(const struct coord_cluster *cl)
{
    return (cl->id[0] | cl->id[1]) != 0;
}

bool coord_cluster_ready(const struct coord_cluster *cl)
{
    return coord_cluster_known(cl) && cl->newest_epoch <= cl->map_epoch;
}

/* ---- the store ---- */

bool coord_cluster_found(struct coord_fleet *f, const uint64_t id[2], bool taken_over)
{
    struct coord_cluster *cl = &f->cluster;
    struct err e = {0};
    if (!coord_put(f, ID_KEY, id, sizeof cl->id))
        return false;
    memcpy(cl->id, id, sizeof cl->id);
    f->members.founded = f->options.shards;
    if (!coord_fleet_stored(f, coord_member_numbers_put(&f->members, f->store, &e), &e) ||
        !coord_copies_found(f, !taken_over))
        return false;
    cl->taken_over = taken_over;
    return !taken_over || coord_put(f, TAKEN_KEY, &cl->taken_over, sizeof cl->taken_over);
}

/* Stores the map and takes shard_of over; frees it when the store fails (false). */
static bool map_put(struct coord_fleet *f, const struct map_record *r, uint16_t *shard_of)
{
    struct coord_cluster *cl = &f->cluster;
    size_t bytes = sizeof *r + r->tablets * sizeof *shard_of;
    char *value = malloc(bytes);
    SHOAL_ASSERT(r->epoch > cl->map_epoch);
    if (value != NULL) {
        memcpy(value, r, sizeof *r);
        memcpy(value + sizeof *r, shard_of, r->tablets * sizeof *shard_of);
    }
    bool good = value != NULL && coord_put(f, MAP_KEY, value, bytes);
    free(value);
    if (!good) {
        free(shard_of);
        return false;
    }
    free(cl->shard_of);
    cl->shard_of = shard_of;
    cl->map_epoch = r->epoch;
    cl->tables = r->tables;
    cl->tablets = r->tablets;
    memcpy(cl->bits, r->bits, sizeof cl->bits);
    return true;
}

bool coord_cluster_move(struct coord_fleet *f, const uint32_t *tablet, uint32_t count,
                        uint32_t shard)
{
    const struct coord_cluster *cl = &f->cluster;
    struct map_record r = {
        .epoch = cl->map_epoch + 1, .tables = cl->tables, .tablets = cl->tablets};
    memcpy(r.bits, cl->bits, sizeof r.bits);
    uint16_t *shard_of = malloc(cl->tablets * sizeof *shard_of);
    if (shard_of == NULL)
        return false;
    memcpy(shard_of, cl->shard_of, cl->tablets * sizeof *shard_of);
    for (uint32_t i = 0; i < count; i++) {
        SHOAL_ASSERT(tablet[i] < cl->tablets && coord_member_used(&f->members, shard));
        shard_of[tablet[i]] = (uint16_t)shard;
    }
    return map_put(f, &r, shard_of);
}

static bool map_fits(const struct map_record *r, const uint16_t *shard_of,
                     const struct coord_members *members)
{
    uint64_t tablets = 0;
    if (r->epoch == 0 || r->tables > LIMIT_TABLES)
        return false;
    for (uint32_t t = 0; t < r->tables; t++)
        tablets += r->bits[t] < 32 ? 1ull << r->bits[t] : UINT32_MAX;
    /* 0 tables: a map that came from shards, which know no tables */
    bool good = r->tablets == tablets || r->tables == 0;
    for (uint32_t i = 0; good && i < r->tablets; i++)
        good = coord_member_used(members, shard_of[i]);
    return good;
}

static int map_load(struct coord_fleet *f, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    struct map_record r = {0};
    void *value;
    size_t bytes;
    int rc = coord_store_get(f->store, MAP_KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (bytes >= sizeof r)
        memcpy(&r, value, sizeof r);
    if (bytes < sizeof r || bytes != sizeof r + r.tablets * sizeof *cl->shard_of) {
        free(value);
        return err_set(e, SHOAL_E_CORRUPT, "the stored map has %zu bytes" ADVICE, bytes);
    }
    memmove(value, (char *)value + sizeof r, bytes - sizeof r);
    cl->shard_of = value;
    cl->map_epoch = r.epoch;
    cl->tables = r.tables;
    cl->tablets = r.tablets;
    memcpy(cl->bits, r.bits, sizeof cl->bits);
    if (!map_fits(&r, cl->shard_of, &f->members))
        return err_set(e, SHOAL_E_CORRUPT, "the stored map of epoch %" PRIu64 " cannot be" ADVICE,
                       r.epoch);
    return 0;
}

int coord_cluster_open(struct coord_fleet *f, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    SHOAL_ASSERT(!coord_cluster_known(cl));
    int rc = coord_store_get_fixed(f->store, ID_KEY, cl->id, sizeof cl->id, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (!coord_cluster_known(cl))
        return err_set(e, SHOAL_E_CORRUPT, "the stored cluster has no name" ADVICE);
    rc = coord_store_get_fixed(f->store, TAKEN_KEY, &cl->taken_over, sizeof cl->taken_over, e);
    if (coord_store_optional(rc) != 0)
        return rc;
    return map_load(f, e);
}

void coord_cluster_close(struct coord_cluster *cl)
{
    free(cl->shard_of);
    free(cl->claims.claim);
    free(cl->stranger);
    memset(cl, 0, sizeof *cl);
}

/* ---- refusing ---- */

static struct coord_stranger *stranger_of(struct coord_cluster *cl, const struct wire_SHARD_BEAT *b)
{
    for (uint32_t i = 0; i < cl->strangers; i++)
        if (cl->stranger[i].index == b->shard_index &&
            strcmp(cl->stranger[i].server, b->server) == 0)
            return &cl->stranger[i];
    return NULL;
}

/* Returns a place for one more, or that of a server that has left. NULL: the list is full, or there
 * is no memory. A server that is refused is not listed in place of another one that still beats:
 * each beat of the two would be news. */
static struct coord_stranger *stranger_place(struct coord_fleet *f)
{
    struct coord_cluster *cl = &f->cluster;
    for (uint32_t i = 0; i < cl->strangers; i++)
        if (!coord_cluster_stranger_heard(f, &cl->stranger[i])) {
            cl->stranger[i].text[0] = 0;
            return &cl->stranger[i];
        }
    if (cl->strangers == COORD_STRANGERS)
        cl->unlisted_ns = env_now_ns(f->env);
    if (cl->strangers == COORD_STRANGERS ||
        array_room(&cl->stranger, cl->strangers, &cl->stranger_capacity, 8) != 0)
        return NULL;
    cl->stranger[cl->strangers].text[0] = 0;
    return &cl->stranger[cl->strangers++];
}

void coord_cluster_note(struct coord_fleet *f, const struct wire_SHARD_BEAT *b,
                        const struct err *refused)
{
    struct coord_stranger *to = stranger_of(&f->cluster, b);
    if (refused->code == 0) {
        if (to != NULL)
            *to = f->cluster.stranger[--f->cluster.strangers];
        return;
    }
    if (to == NULL && (to = stranger_place(f)) == NULL)
        return;
    if (strcmp(to->text, refused->text) != 0)
        log_event(SERVER_NOT_TAKEN, b->server, "server %s is not taken: %s", b->server,
                  refused->text);
    memcpy(to->server, b->server, sizeof to->server);
    memcpy(to->zone, b->zone, sizeof to->zone);
    (void)snprintf(to->text, sizeof to->text, "%s", refused->text);
    to->waits = refused->code == SHOAL_E_BUSY;
    to->index = b->shard_index;
    to->beat_ns = env_now_ns(f->env);
}

/* ---- a known one ---- */

static int empty_check(const struct coord_shard *s, const struct wire_SHARD_BEAT *b,
                       uint32_t number, struct err *e)
{
    if (!s->placed || s->vacant || b->in_memory)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "server %s comes with an empty folder for shard %u of it, which held shard %u "
                   "of the cluster: its rows would read as new ones. Bring its data_dir back; if "
                   "it is lost: shoal replace %s --from CHECKPOINT",
                   b->server, b->shard_index, number, b->server);
}

/* Refuses a folder that holds fewer records than the shard had on its disk when it last beat. */
static int older_check(const struct coord_shard *s, const struct wire_SHARD_BEAT *b, struct err *e)
{
    if (s->incarnation == b->incarnation || b->in_memory || b->sequence >= s->synced)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "server %s comes with data that is older than it was: record %" PRIu64
                   " is its last, %" PRIu64 " was on its disk. Bring the newest data_dir back; if "
                   "it is lost, stop the server, empty its data_dir, then: shoal replace %s "
                   "--from CHECKPOINT",
                   b->server, b->sequence, s->synced, b->server);
}

static int before_text(const struct wire_SHARD_BEAT *b, struct err *e)
{
    return err_set(
        e, SHOAL_E_CONFIG,
        "shard %u of server %s comes with its rows of before it was replaced or drained: "
        "stop the server, remove shard-%u in its data_dir, and start it again",
        b->shard_index, b->server, b->shard_index);
}

/* A map that is newer than the coordinator's shows that the number has been given again since, and
 * that the folder may have rows. */
static int drained_text(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b, struct err *e)
{
    if (b->map_epoch > f->cluster.map_epoch)
        return err_set(e, SHOAL_E_CONFIG,
                       "server %s holds shard %u with a map that is newer than the coordinator's, "
                       "which says that this number was drained: the coordinator's data_dir is "
                       "older than it was",
                       b->server, b->number);
    return err_set(e, SHOAL_E_CONFIG,
                   "shard %u of server %s was drained (shoal drain), and no job needs it: switch "
                   "the server off, unless it has other shards. To use this one again, stop the "
                   "server, remove shard-%u in its data_dir, start it, then: shoal add %s",
                   b->shard_index, b->server, b->shard_index, b->server);
}

/* Refuses a folder of before the server was replaced or drained: the cluster has gone on without
 * it. */
static int replaced_check(const struct coord_shard *s, const struct wire_SHARD_BEAT *b,
                          struct err *e)
{
    bool before = b->newest_run != 0 && b->newest_run < s->replaced;
    if (!s->vacant && !before)
        return 0;
    return before_text(b, e);
}

/* Refuses a second process on a copy of the folder: the two beat in turn, so the first one beats
 * again after the second. If the second one is silent for a lease, this was only a late beat of a
 * dead process. */
static int copy_check(const struct coord_fleet *f, const struct coord_shard *s,
                      const struct wire_SHARD_BEAT *b, struct err *e)
{
    bool silent = env_now_ns(f->env) - s->beat_ns > coord_fleet_lease_ns(f);
    if (s->former == 0 || s->former != b->incarnation || silent)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "two servers run as %s, each on a copy of one data_dir: stop the wrong one, "
                   "then start the other one again",
                   b->server);
}

static int claim_known(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b, struct err *e)
{
    const struct coord_cluster *cl = &f->cluster;
    uint32_t number = coord_member_number(&f->members, b);
    const struct coord_shard *owner = NULL, *follower = NULL;
    if (number == COORD_NOBODY)
        follower = coord_copies_find(f, b, &number);
    else
        owner = &f->members.shard[number];
    if (!coord_member_belongs(b) && (owner == NULL || coord_copies_others(f, number)))
        return 0;
    if (!coord_member_belongs(b))
        return empty_check(owner, b, number, e);
    if (b->cluster_high != cl->id[0] || b->cluster_low != cl->id[1])
        return err_set(e, SHOAL_E_CONFIG,
                       "server %s has rows of cluster %016" PRIx64 "%016" PRIx64
                       ", this is %016" PRIx64 "%016" PRIx64
                       ": see `coordinator` and `data_dir` in its file",
                       b->server, b->cluster_high, b->cluster_low, cl->id[0], cl->id[1]);
    if (b->number >= f->members.shards)
        return err_set(e, SHOAL_E_CONFIG,
                       "server %s holds shard %u, which this cluster never had: the coordinator's "
                       "data_dir is older than it was",
                       b->server, b->number);
    if (f->members.shard[b->number].retired)
        return drained_text(f, b, e);
    const struct coord_shard *leader = &f->members.shard[b->number];
    if (number == COORD_NOBODY &&
        (leader->server[0] == 0 || coord_copies_room(f, b->number, b->server)))
        /* the store is older than the server's first beat: the server takes its place again */
        return 0;
    if (number == COORD_NOBODY && f->copies.of != NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "server %s has rows of shard %u, of which it has no place any more: it was "
                       "replaced (shoal replace), `replicas` was lowered, or a server in another "
                       "zone has its place (shoal rebalance). Empty the data_dir in its file, and "
                       "start it again to copy what lacks copies",
                       b->server, b->number);
    if (number != b->number)
        return err_set(e, SHOAL_E_CONFIG,
                       "server %s comes with the rows of shard %u, which server %s holds: it was "
                       "drained before that one joined, or one of the two runs on a copy of the "
                       "other's folder; see `data_dir` in its file",
                       b->server, b->number, leader->server);
    if (follower != NULL && follower->incarnation == 0) /* the place is new, the folder is not */
        return before_text(b, e);
    if (follower != NULL)
        return copy_check(f, follower, b, e);
    int rc = replaced_check(owner, b, e);
    if (rc == 0)
        rc = copy_check(f, owner, b, e);
    if (rc != 0 || coord_copies_others(f, number)) /* another copy has what this one lacks */
        return rc;
    return older_check(owner, b, e);
}

/* True when the endpoint is SCHEME:// and only printable bytes after it. Workers are told it, one
 * line each. */
static bool endpoint_fits(const char *endpoint)
{
    const char *rest = strstr(endpoint, "://");
    if (rest == NULL || rest == endpoint || rest[3] == 0)
        return false;
    for (const unsigned char *b = (const unsigned char *)endpoint; *b != 0; b++)
        if (*b <= ' ' || *b == 0x7f)
            return false;
    return true;
}

int coord_cluster_claim(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, struct err *e)
{
    if (beat->server[0] == 0 || beat->shard_index >= LIMIT_SHARDS)
        return err_set(e, SHOAL_E_MALFORMED, "a beat names its server and an index below %u",
                       LIMIT_SHARDS);
    if (!endpoint_fits(beat->endpoint))
        return err_set(e, SHOAL_E_MALFORMED,
                       "server %s beats with no endpoint that workers could use", beat->server);
    if (!coord_cluster_known(&f->cluster))
        return SHOAL_E_AGAIN;
    int rc = claim_known(f, beat, e);
    if (rc != 0)
        return rc;
    return coord_names_claim(f, beat, e);
}

/* ---- what shards know more of ---- */

#define NUMBER_MOST (1ull << 60)
#define ASK_AGAIN_NS UINT64_C(1000000000)

static void held(void *context, const struct coord_call *call, uint32_t shard,
                 const struct wire *reply, const struct msg *m)
{
    struct coord_fleet *f = context;
    const struct wire_MAP_HELD_reply *r = &reply->u.MAP_HELD_reply;
    struct map_record record = {.epoch = r->map_epoch, .tablets = r->tablet_count};
    (void)call;
    if (r->map_epoch <= f->cluster.map_epoch) {
        if (shard == f->cluster.newest_shard) /* that shard has other data by now */
            f->cluster.newest_epoch = f->cluster.map_epoch;
        return;
    }
    if (!map_fits(&record, m->frame[1].data, &f->members)) {
        log_error("the map of shard %u cannot be: it is not taken", shard);
        return;
    }
    uint16_t *copy = malloc(r->tablet_count * sizeof *copy + 1);
    if (copy == NULL)
        return; /* the next step asks again */
    if (r->tablet_count > 0)
        memcpy(copy, m->frame[1].data, r->tablet_count * sizeof *copy);
    if (!map_put(f, &record, copy))
        return;
    log_warn("the map of epoch %" PRIu64 " (%u tablets) is taken from shard %u: the coordinator's "
             "own was older",
             r->map_epoch, r->tablet_count, shard);
}

static void held_done(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    (void)call;
    if (status != 0)
        log_warn("a shard does not say its map: %s", text);
}

void coord_cluster_step(struct coord_fleet *f)
{
    struct coord_cluster *cl = &f->cluster;
    struct wire w = {.type = WIRE_TYPE_MAP_HELD};
    uint64_t now = env_now_ns(f->env);
    if (cl->newest_epoch <= cl->map_epoch || coord_call_open_type(&f->calls, f, WIRE_TYPE_MAP_HELD))
        return;
    if (cl->asked_ns != 0 && now - cl->asked_ns < ASK_AGAIN_NS)
        return; /* the shard's last reply could not be taken */
    cl->asked_ns = now;
    SHOAL_ASSERT(cl->newest_shard < f->members.shards);
    (void)coord_call_start(&f->calls, &(struct coord_call){.context = f,
                                                           .request = w,
                                                           .target = cl->newest_shard,
                                                           .owner = cl->newest_shard,
                                                           .on_reply = held,
                                                           .on_done = held_done});
}

bool coord_cluster_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *b)
{
    struct coord_cluster *cl = &f->cluster;
    if (!coord_member_belongs(b) || b->newest_run >= NUMBER_MOST || b->newest_cut >= NUMBER_MOST)
        return false;
    if (b->map_epoch > cl->map_epoch && b->map_epoch > cl->newest_epoch) {
        cl->newest_epoch = b->map_epoch;
        cl->newest_shard = shard;
    }
    if (b->newest_run < f->counters.next_run && b->newest_cut < f->counters.next_cut)
        return false;
    uint64_t run = f->counters.next_run, cut = f->counters.next_cut;
    f->counters.next_run = MAX(b->newest_run + 1, run);
    f->counters.next_cut = MAX(b->newest_cut + 1, cut);
    if (!coord_put(f, "counters", &f->counters, sizeof f->counters))
        return false;
    log_warn("shard %u knows run %" PRIu64 " and cut %" PRIu64
             ", newer than the coordinator's: its data_dir was put back",
             shard, b->newest_run, b->newest_cut);
    return true;
}

/* ---- the map ---- */

/* Returns how many of the job's first tables are in the map unchanged. */
static uint32_t tables_kept(const struct coord_cluster *cl, const struct table_schema *table,
                            uint32_t tables)
{
    uint32_t kept = 0;
    while (kept < tables && kept < cl->tables && cl->bits[kept] == table[kept].tablet_bits)
        kept++;
    return kept;
}

/* A map that came from shards names no tables. If it ends where one of the job's tables ends, it is
 * taken as the map of the tables up to that one. */
static void tables_adopt(struct coord_cluster *cl, const struct table_schema *table,
                         uint32_t tables)
{
    uint32_t at = 0;
    for (uint32_t t = 0; cl->tables == 0 && at < cl->tablets && t < tables; t++) {
        at += 1u << table[t].tablet_bits;
        cl->bits[t] = (uint8_t)table[t].tablet_bits;
        if (at == cl->tablets)
            cl->tables = t + 1;
    }
}

/* Refuses a map of other tables than the shards have. The shards would refuse it too, but by then
 * it would be stored, and no job could be set up any more. */
static int layout_check(const struct coord_fleet *f, const struct table_schema *table,
                        uint32_t kept, bool fresh, struct err *e)
{
    const struct coord_cluster *cl = &f->cluster;
    bool holds = false;
    for (uint32_t s = 0; s < f->members.shards; s++)
        holds |= f->members.shard[s].figures.holds;
    if (!holds || fresh || (kept == cl->tables && (cl->tables > 0 || cl->tablets == 0)))
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "table %s has %u tablets, the servers have another table in its place: set "
                   "tables[].tablets to what it was, or start a cluster with empty data_dirs",
                   table[kept].name, 1u << table[kept].tablet_bits);
}

/* Makes the map of the only job: its tables are the first ones. */
static int map_alone(struct coord_fleet *f, const struct table_schema *table, uint32_t tables,
                     bool fresh, uint64_t *numbers, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    *numbers = UINT64_MAX >> (LIMIT_TABLES - tables);
    tables_adopt(cl, table, tables);
    uint32_t kept = tables_kept(cl, table, tables), tablets = coord_map_tablets(table, tables);
    /* after a takeover the job may have fewer tables than the map: the map stays whole */
    if (kept == tables || (cl->tables == 0 && cl->tablets > tablets && !fresh))
        return 0;
    int rc = layout_check(f, table, kept, fresh, e);
    if (rc != 0)
        return rc;
    uint16_t *shard_of = calloc(tablets, sizeof *shard_of);
    if (shard_of == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", tablets);
    struct map_record r = {.epoch = cl->map_epoch + 1, .tables = tables, .tablets = tablets};
    rc = coord_map_make(table, tables, &f->members, shard_of, e);
    if (rc != 0) {
        free(shard_of);
        return rc;
    }
    for (uint32_t t = 0; t < tables; t++)
        r.bits[t] = (uint8_t)table[t].tablet_bits;
    uint32_t same = 0;
    if (kept > 0)
        same = table[kept - 1].tablet_first + (1u << table[kept - 1].tablet_bits);
    SHOAL_ASSERT(same <= cl->tablets); /* 1 */
    if (same > 0)
        memcpy(shard_of, cl->shard_of, same * sizeof *shard_of);
    if (!map_put(f, &r, shard_of))
        return err_set(e, SHOAL_E_IO, "the coordinator's store failed");
    return 0;
}

/* Chooses numbers for tables beside those of other jobs: first the numbers of the previous job in
 * its slot, then free places of the map with the same number of tablets, then places behind its
 * end. *end: where the map will end. */
static int numbers_beside(const struct coord_cluster *cl, uint64_t others,
                          const struct table_schema *table, uint32_t tables, uint64_t *numbers,
                          uint32_t *end, struct err *e)
{
    uint64_t had = *numbers;
    uint32_t n = 0;
    *numbers = 0;
    for (uint32_t t = 0; t < tables; t++, n++) {
        uint32_t own = wire_table_number(had, t);
        if (own >= n && own < cl->tables && cl->bits[own] == table[t].tablet_bits)
            n = own;
        while (n < cl->tables && ((others >> n & 1) != 0 || cl->bits[n] != table[t].tablet_bits))
            n++;
        if (n >= LIMIT_TABLES)
            return err_set(e, SHOAL_E_CONFIG,
                           "table %s: the tables of all jobs would be more than %u: declare fewer",
                           table[t].name, LIMIT_TABLES);
        *numbers |= UINT64_C(1) << n;
    }
    *end = MAX(n, cl->tables);
    return 0;
}

/* Extends the map by the tables of a second job. No tablet of the first job moves. */
static int map_beside(struct coord_fleet *f, uint64_t others, const struct table_schema *table,
                      uint32_t tables, uint64_t *numbers, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    uint32_t end = 0, tablets = coord_map_tablets(table, tables);
    if (cl->tables == 0)
        return err_set(e, SHOAL_E_BUSY,
                       "which tables the map is of is not known since the cluster was taken over: "
                       "submit the job again once no other job runs");
    int rc = numbers_beside(cl, others, table, tables, numbers, &end, e);
    if (rc != 0 || end == cl->tables)
        return rc;

    struct map_record r = {.epoch = cl->map_epoch + 1, .tables = end, .tablets = cl->tablets};
    uint16_t *dealt = calloc(tablets, sizeof *dealt),
             *shard_of = calloc(cl->tablets + tablets, sizeof *shard_of);
    memcpy(r.bits, cl->bits, sizeof r.bits);
    if (dealt == NULL || shard_of == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", cl->tablets + tablets);
    if (rc == 0)
        rc = coord_map_make(table, tables, &f->members, dealt, e);
    if (rc != 0) {
        free(dealt);
        free(shard_of);
        return rc;
    }
    memcpy(shard_of, cl->shard_of, cl->tablets * sizeof *shard_of);
    for (uint32_t t = 0; t < tables; t++) {
        uint32_t n = wire_table_number(*numbers, t), count = 1u << table[t].tablet_bits;
        if (n < cl->tables)
            continue;
        memcpy(shard_of + r.tablets, dealt + table[t].tablet_first, count * sizeof *shard_of);
        r.bits[n] = (uint8_t)table[t].tablet_bits;
        r.tablets += count;
    }
    free(dealt);
    if (!map_put(f, &r, shard_of))
        return err_set(e, SHOAL_E_IO, "the coordinator's store failed");
    return 0;
}

int coord_cluster_map(struct coord_fleet *f, const struct table_schema *table, uint32_t tables,
                      bool fresh, uint64_t *numbers, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    uint64_t others = cl->held & ~*numbers, now = *numbers;
    SHOAL_ASSERT(tables > 0 && tables <= LIMIT_TABLES && coord_cluster_ready(cl));
    int rc;
    if (others != 0)
        rc = map_beside(f, others, table, tables, &now, e);
    else
        rc = map_alone(f, table, tables, fresh, &now, e);
    if (rc != 0)
        return rc;
    cl->held = others | now;
    *numbers = now;
    coord_moves_map_changed(f);
    return 0;
}

size_t coord_cluster_map_wire(const struct coord_cluster *cl, struct wire *w)
{
    SHOAL_ASSERT(coord_cluster_ready(cl) && cl->map_epoch > 0);
    memset(w, 0, sizeof *w);
    w->type = WIRE_TYPE_MAP_SET;
    w->u.MAP_SET = (struct wire_MAP_SET){.map_epoch = cl->map_epoch,
                                         .tablet_count = cl->tablets,
                                         .cluster_high = cl->id[0],
                                         .cluster_low = cl->id[1]};
    return cl->tablets * sizeof *cl->shard_of;
}

uint32_t coord_cluster_led(const struct coord_cluster *cl, uint32_t shard)
{
    uint32_t led = 0;
    for (uint32_t i = 0; i < cl->tablets; i++)
        led += cl->shard_of[i] == shard;
    return led;
}

int coord_cluster_made_check(const struct coord_fleet *f, bool begins, struct err *e)
{
    const struct coord_members *m = &f->members;
    const struct coord_cluster *cl = &f->cluster;
    const struct coord_shard *lost = NULL, *kept = NULL;
    for (uint32_t s = 0; s < m->shards; s++) {
        const struct coord_shard *at = &m->shard[s];
        if (!at->figures.in_memory || at->made == 0 ||
            (cl->tablets > 0 && coord_cluster_led(cl, s) == 0))
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
    if (lost == NULL || kept == NULL)
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "server %s has started again and its rows were in memory, those of server %s "
                   "are still there: a job would go on with a part of them. Start all servers "
                   "again, then submit the job",
                   lost->server, kept->server);
}

bool coord_cluster_stranger_heard(const struct coord_fleet *f, const struct coord_stranger *s)
{
    return env_now_ns(f->env) - s->beat_ns <= 2 * coord_fleet_lease_ns(f);
}

const char *coord_cluster_refused(const struct coord_fleet *f, const char *server, uint32_t index)
{
    for (uint32_t i = 0; i < f->cluster.strangers; i++) {
        const struct coord_stranger *s = &f->cluster.stranger[i];
        if (s->index == index && strcmp(s->server, server) == 0 &&
            coord_cluster_stranger_heard(f, s))
            return s->text;
    }
    return NULL;
}
