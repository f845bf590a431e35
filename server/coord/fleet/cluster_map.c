/* cluster_map.c: the stored map of tablets; cluster_map.h has the invariant. */
#include "server/coord/fleet/cluster_map.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/job/catalog.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MAP_KEY[] = "map";

struct map_record { /* value of "map", then the owners, u16 each */
    uint64_t epoch;
    uint32_t tables, tablets;
    uint8_t bits[LIMIT_TABLES];
};
_Static_assert(sizeof(struct map_record) == 16 + LIMIT_TABLES, "map_record is stored");

/* ---- the store ---- */

/* Stores the map and takes shard_of over; frees it when the store fails (false). */
static bool map_put(struct coord_fleet *f, const struct map_record *r, uint16_t *shard_of)
{
    struct coord_cluster *cl = &f->cluster;
    size_t bytes = sizeof *r + r->tablets * sizeof *shard_of;
    char *value = malloc(bytes);
    SHOAL_ASSERT(r->epoch > cl->map_epoch || (r->epoch == cl->map_epoch && cl->tables == 0));
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

int coord_cluster_map_open(struct coord_fleet *f, struct err *e)
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
        return err_set(e, SHOAL_E_CORRUPT, "the stored map has %zu bytes" COORD_CLUSTER_ADVICE,
                       bytes);
    }
    memmove(value, (char *)value + sizeof r, bytes - sizeof r);
    cl->shard_of = value;
    cl->map_epoch = r.epoch;
    cl->tables = r.tables;
    cl->tablets = r.tablets;
    memcpy(cl->bits, r.bits, sizeof cl->bits);
    if (!map_fits(&r, cl->shard_of, &f->members))
        return err_set(e, SHOAL_E_CORRUPT,
                       "the stored map of epoch %" PRIu64 " cannot be" COORD_CLUSTER_ADVICE,
                       r.epoch);
    return 0;
}

/* ---- a newer one of a shard ---- */

bool coord_cluster_ready(const struct coord_cluster *cl)
{
    return coord_cluster_known(cl) && cl->newest_epoch <= cl->map_epoch;
}

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

/* ---- the tables of a job ---- */

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
        return coord_store_failed(e);
    return 0;
}

/* A space whose tables are in the map keeps them where they are: a table that moved to another
 * place would begin without its rows. */
static int numbers_keep(const struct coord_cluster *cl, const struct table_schema *table,
                        uint32_t tables, uint64_t had, struct err *e)
{
    for (uint32_t t = 0; t < tables; t++) {
        uint32_t n = wire_table_number(had, t);
        if (n < cl->tables && cl->bits[n] != table[t].tablet_bits)
            return err_set(e, SHOAL_E_CONFIG,
                           "table %s has %u tablets, the servers have another table in its place: "
                           "set tables[].tablets to what it was, or drop the space first (shoal "
                           "drop SPACE)",
                           table[t].name, 1u << table[t].tablet_bits);
    }
    return 0;
}

/* Chooses numbers for tables beside those of other spaces: first those of the space's own, then
 * free places of the map with the same number of tablets, then places behind its end. *end: where
 * the map will end. */
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
                           "table %s: the tables of all spaces would be more than %u, with those "
                           "that were dropped, whose places are kept: declare fewer, or begin all "
                           "anew (--set fresh=all, once one space at most holds tables)",
                           table[t].name, LIMIT_TABLES);
        *numbers |= UINT64_C(1) << n;
    }
    *end = MAX(n, cl->tables);
    return 0;
}

/* Extends the map by the tables of a further space. No tablet of another one moves. */
static int map_beside(struct coord_fleet *f, uint64_t others, const struct table_schema *table,
                      uint32_t tables, bool fresh, uint64_t *numbers, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    uint32_t end = 0, tablets = coord_map_tablets(table, tables);
    if (cl->tables == 0)
        return err_set(e, SHOAL_E_BUSY,
                       "which tables the map is of is not known since the cluster was taken over: "
                       "submit the job again once no other job runs");
    int rc = 0;
    if (!fresh)
        rc = numbers_keep(cl, table, tables, *numbers, e);
    if (rc == 0)
        rc = numbers_beside(cl, others, table, tables, numbers, &end, e);
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
        return coord_store_failed(e);
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
        rc = map_beside(f, others, table, tables, fresh, &now, e);
    else
        rc = map_alone(f, table, tables, fresh, &now, e);
    if (rc != 0)
        return rc;
    cl->held = now;
    if (others != 0) /* places that the space does not use any more have its tables on the shards */
        cl->held |= others | *numbers;
    *numbers = now;
    return 0;
}

bool coord_cluster_map_sizes(struct coord_fleet *f, const struct catalog *c)
{
    const struct coord_cluster *cl = &f->cluster;
    struct map_record r = {.epoch = cl->map_epoch, .tablets = cl->tablets}; /* the same map */
    uint64_t all = 0, tablets = 0;
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t t = 0; t < LIMIT_TABLES; t++)
            if ((c->space[i].tables >> t & 1) != 0) {
                all |= UINT64_C(1) << t;
                r.bits[t] = c->space[i].bits[t];
                r.tables = MAX(r.tables, t + 1);
                tablets += UINT64_C(1) << r.bits[t];
            }
    bool whole = all != 0 && (all & (all + 1)) == 0 && tablets == cl->tablets;
    if (cl->tables != 0 || cl->map_epoch == 0 || !whole)
        return true;
    uint16_t *shard_of = malloc(cl->tablets * sizeof *shard_of);
    if (shard_of == NULL)
        return false;
    memcpy(shard_of, cl->shard_of, cl->tablets * sizeof *shard_of);
    return map_put(f, &r, shard_of);
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
