/* cluster.c: the servers of the cluster; cluster.h has the invariants and the diagram. */
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

static const char ID_KEY[] = "cluster", TAKEN_KEY[] = "taken-over";

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

int coord_cluster_open(struct coord_fleet *f, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    SHOAL_ASSERT(!coord_cluster_known(cl));
    int rc = coord_store_get_fixed(f->store, ID_KEY, cl->id, sizeof cl->id, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (!coord_cluster_known(cl))
        return err_set(e, SHOAL_E_CORRUPT, "the stored cluster has no name" COORD_CLUSTER_ADVICE);
    rc = coord_store_get_fixed(f->store, TAKEN_KEY, &cl->taken_over, sizeof cl->taken_over, e);
    if (coord_store_optional(rc) != 0)
        return rc;
    return coord_cluster_map_open(f, e);
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

/* True for a shard that left the cluster by an order, with all that the coordinator knows. */
static bool drained(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b)
{
    const struct coord_cluster *cl = &f->cluster;
    return coord_member_belongs(b) && b->cluster_high == cl->id[0] && b->cluster_low == cl->id[1] &&
           b->number < f->members.shards && f->members.shard[b->number].retired &&
           b->map_epoch <= cl->map_epoch;
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
    to->drained = drained(f, b);
    if (strcmp(to->text, refused->text) != 0 && to->drained)
        log_info("%s", refused->text);
    else if (strcmp(to->text, refused->text) != 0)
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

static int empty_check(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b,
                       uint32_t number, struct err *e)
{
    const struct coord_shard *s = &f->members.shard[number];
    /* rows that were made in memory are not on the disk that an earlier durability had */
    bool on_disk = s->made == 0 && s->synced != 0 && s->incarnation != b->incarnation;
    if (b->in_memory && s->placed && !s->vacant && on_disk &&
        coord_cluster_led(&f->cluster, number) > 0 && coord_spaces_have(f))
        return err_set(e, SHOAL_E_CONFIG,
                       "server %s comes with durability: memory, and shard %u of the cluster has "
                       "rows on its disk, which it would not read: say in its file the durability "
                       "that it had, with its data_dir. To keep rows in memory from now on, start "
                       "it so, drop all spaces (shoal drop SPACE), then change the durability",
                       b->server, number);
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
        return empty_check(f, b, number, e);
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

bool coord_cluster_endpoint_fits(const char *endpoint)
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
    if (!coord_cluster_endpoint_fits(beat->endpoint))
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

bool coord_cluster_lost(const struct coord_fleet *f, uint32_t shard)
{
    return coord_shard_lost(&f->members.shard[shard]) &&
           (f->cluster.tablets == 0 || coord_cluster_led(&f->cluster, shard) > 0);
}

bool coord_cluster_lost_of(const struct coord_fleet *f, uint32_t shard,
                           const struct table_set *tables)
{
    return coord_cluster_lost(f, shard) &&
           (f->cluster.tablets == 0 || coord_cluster_led_of(&f->cluster, shard, tables) > 0);
}

/* A REPLACE notes the next run beside each number that it makes vacant (member.h), so the newest
 * one's numbers have the highest one. */
bool coord_cluster_replaced_of(const struct coord_fleet *f, const struct table_set *tables)
{
    const struct coord_members *m = &f->members;
    uint64_t newest = 1;
    bool took = false;
    for (uint32_t s = 0; s < m->shards; s++)
        newest = MAX(newest, m->shard[s].replaced);
    for (uint32_t s = 0; s < m->shards; s++)
        took =
            took || (m->shard[s].replaced == newest &&
                     (f->cluster.tablets == 0 || coord_cluster_led_of(&f->cluster, s, tables) > 0));
    return took;
}

int coord_cluster_made_check(const struct coord_fleet *f, const struct table_set *tables,
                             bool begins, struct err *e)
{
    const struct coord_members *m = &f->members;
    const struct coord_cluster *cl = &f->cluster;
    const struct coord_shard *lost = NULL, *kept = NULL;
    for (uint32_t s = 0; s < m->shards; s++) {
        const struct coord_shard *at = &m->shard[s];
        if (!at->seen || at->made == 0 ||
            (cl->tablets > 0 && coord_cluster_led_of(cl, s, tables) == 0))
            continue;
        if (coord_cluster_lost_of(f, s, tables))
            lost = at;
        else
            kept = at;
    }
    if (lost != NULL && kept == NULL && begins)
        return err_set(e, SHOAL_E_NOINPUT,
                       "start_from: fleet: server %s has started again, and the rows were in "
                       "memory: none are left. --set fresh=all without start_from begins anew, "
                       "and with --start-from CHECKPOINT beside it with a checkpoint's tables",
                       lost->server);
    if (lost == NULL || kept == NULL)
        return 0;
    return err_set(e, SHOAL_E_EXISTS,
                   "server %s has started again and its rows were in memory, those of server %s "
                   "are still there: a job would go on with a part of them. --set fresh=all "
                   "without start_from drops that part of its space for good and begins anew, and "
                   "with --start-from CHECKPOINT beside it with a checkpoint's tables",
                   lost->server, kept->server);
}

bool coord_cluster_stranger_heard(const struct coord_fleet *f, const struct coord_stranger *s)
{
    const uint64_t beats_ns = UINT64_C(3000000) * WIRE_BEAT_MS;
    return env_now_ns(f->env) - s->beat_ns <= MIN(2 * coord_fleet_lease_ns(f), beats_ns);
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
