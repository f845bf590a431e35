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
    uint32_t first[LIMIT_TABLES]; /* as in struct coord_cluster; not in MAP_OLD */
};
_Static_assert(sizeof(struct map_record) == 16 + 5 * LIMIT_TABLES, "map_record is stored");
/* The same of tables below 64, which older releases read. One without spaces, whose tables follow
 * each other, wrote it without `first`. */
struct map_record_64 {
    uint64_t epoch;
    uint32_t tables, tablets;
    uint8_t bits[64];
    uint32_t first[64];
};
_Static_assert(sizeof(struct map_record_64) == 16 + 5 * 64, "map_record_64 is stored");
#define MAP_OLD offsetof(struct map_record_64, first)

/* ---- the store ---- */

/* Writes the part before the owners, and returns its bytes. */
static size_t record_write(const struct map_record *r, struct map_record *out)
{
    struct map_record_64 near = {.epoch = r->epoch, .tables = r->tables, .tablets = r->tablets};
    if (r->tables > 64) {
        *out = *r;
        return sizeof *r;
    }
    memcpy(near.bits, r->bits, sizeof near.bits);
    memcpy(near.first, r->first, sizeof near.first);
    memcpy(out, &near, sizeof near);
    return sizeof near;
}

/* Stores the map and takes shard_of over; frees it when the store fails (false). */
static bool map_put(struct coord_fleet *f, const struct map_record *r, uint16_t *shard_of)
{
    struct coord_cluster *cl = &f->cluster;
    struct map_record head;
    size_t begin = record_write(r, &head), bytes = begin + r->tablets * sizeof *shard_of;
    char *value = malloc(bytes);
    /* a map of the same epoch gives no tablet to another shard */
    SHOAL_ASSERT(r->epoch > cl->map_epoch ||
                 (r->epoch == cl->map_epoch && r->tablets == cl->tablets)); /* 1 */
    if (value != NULL) {
        memcpy(value, &head, begin);
        memcpy(value + begin, shard_of, r->tablets * sizeof *shard_of);
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
    memcpy(cl->first, r->first, sizeof cl->first);
    return true;
}

/* The record of the map as it is, of the epoch that many later. */
static struct map_record record_of(const struct coord_cluster *cl, uint64_t later)
{
    struct map_record r = {
        .epoch = cl->map_epoch + later, .tables = cl->tables, .tablets = cl->tablets};
    memcpy(r.bits, cl->bits, sizeof r.bits);
    memcpy(r.first, cl->first, sizeof r.first);
    return r;
}

/* A copy of the owners, in which there is room for `tablets`; NULL: no memory. */
static uint16_t *owners_copy(const struct coord_cluster *cl, uint32_t tablets)
{
    uint16_t *shard_of = calloc(tablets + 1u, sizeof *shard_of);
    SHOAL_ASSERT(tablets >= cl->tablets);
    if (shard_of != NULL && cl->tablets > 0)
        memcpy(shard_of, cl->shard_of, cl->tablets * sizeof *shard_of);
    return shard_of;
}

bool coord_cluster_move(struct coord_fleet *f, const uint32_t *tablet, uint32_t count,
                        uint32_t shard)
{
    const struct coord_cluster *cl = &f->cluster;
    const struct map_record r = record_of(cl, 1);
    uint16_t *shard_of = owners_copy(cl, cl->tablets);
    if (shard_of == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        SHOAL_ASSERT(tablet[i] < cl->tablets && coord_member_used(&f->members, shard));
        shard_of[tablet[i]] = (uint16_t)shard;
    }
    return map_put(f, &r, shard_of);
}

/* True when the places lie beside each other in the map, or none is known. */
static bool places_fit(const struct map_record *r)
{
    if (r->tables > LIMIT_TABLES)
        return false;
    for (uint32_t t = 0; t < r->tables; t++) {
        if (r->bits[t] == COORD_NO_PLACE)
            continue;
        if (r->bits[t] >= 31 || r->first[t] > r->tablets ||
            1u << r->bits[t] > r->tablets - r->first[t])
            return false;
        for (uint32_t o = 0; o < t; o++) {
            bool beside = r->bits[o] == COORD_NO_PLACE ||
                          r->first[o] >= r->first[t] + (1u << r->bits[t]) ||
                          r->first[t] >= r->first[o] + (1u << r->bits[o]);
            if (!beside)
                return false;
        }
    }
    return true;
}

static bool map_fits(const struct map_record *r, const uint16_t *shard_of,
                     const struct coord_members *members)
{
    bool good = r->epoch != 0 && places_fit(r);
    for (uint32_t i = 0; good && i < r->tablets; i++)
        good = coord_member_used(members, shard_of[i]);
    return good;
}

/* Reads the part before the owners; returns its bytes, 0: they cannot be. */
static size_t record_read(const void *value, size_t bytes, struct map_record *r)
{
    struct map_record_64 old = {0};
    if (bytes < MAP_OLD)
        return 0;
    memcpy(&old, value, MAP_OLD);
    const size_t owners = old.tablets * sizeof(uint16_t);
    if (bytes == sizeof *r + owners) {
        memcpy(r, value, sizeof *r);
        return sizeof *r;
    }
    if (old.tables > 64)
        return 0;
    *r = (struct map_record){.epoch = old.epoch, .tables = old.tables, .tablets = old.tablets};
    memcpy(r->bits, old.bits, sizeof old.bits);
    if (bytes == sizeof old + owners) {
        memcpy(&old, value, sizeof old);
        memcpy(r->first, old.first, sizeof old.first);
        return sizeof old;
    }
    uint64_t at = 0;
    for (uint32_t t = 0; t < r->tables; t++) {
        r->first[t] = (uint32_t)at;
        at += r->bits[t] < 31 ? UINT64_C(1) << r->bits[t] : UINT32_MAX;
    }
    bool good = bytes == MAP_OLD + owners && (r->tables == 0 || at == r->tablets);
    return good ? MAP_OLD : 0;
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
    size_t head = record_read(value, bytes, &r);
    if (head == 0) {
        free(value);
        return err_set(e, SHOAL_E_CORRUPT, "the stored map has %zu bytes" COORD_CLUSTER_ADVICE,
                       bytes);
    }
    memmove(value, (char *)value + head, bytes - head);
    cl->shard_of = value;
    cl->map_epoch = r.epoch;
    cl->tables = r.tables;
    cl->tablets = r.tablets;
    memcpy(cl->bits, r.bits, sizeof cl->bits);
    memcpy(cl->first, r.first, sizeof cl->first);
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

/* Returns how many of the job's first tables are in the map, which is plain, unchanged. */
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
        cl->first[t] = at;
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
    return err_set(
        e, SHOAL_E_CONFIG,
        "table %s has %u tablets, the servers have another table in its place: set "
        "tables[].tablets to what it was, or begin anew: --set fresh=all drops the tables of "
        "this space for good, and no other ones",
        table[kept].name, 1u << table[kept].tablet_bits);
}

/* Makes the map of the only job: its tables are the first ones. */
static int map_alone(struct coord_fleet *f, const struct table_schema *table, uint32_t tables,
                     bool fresh, struct table_set *numbers, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    *numbers = table_set_first(tables);
    tables_adopt(cl, table, tables);
    uint32_t kept = 0, tablets = coord_map_tablets(table, tables);
    if (coord_map_plain(cl))
        kept = tables_kept(cl, table, tables);
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
    for (uint32_t t = 0; t < tables; t++) {
        r.bits[t] = (uint8_t)table[t].tablet_bits;
        r.first[t] = table[t].tablet_first;
    }
    uint32_t same = 0;
    if (kept > 0)
        same = table[kept - 1].tablet_first + (1u << table[kept - 1].tablet_bits);
    if (same > 0)
        memcpy(shard_of, cl->shard_of, same * sizeof *shard_of);
    if (!map_put(f, &r, shard_of))
        return coord_store_failed(e);
    return 0;
}

/* A space whose tables are in the map keeps them where they are: a table that moved to another
 * place would begin without its rows. */
static int numbers_keep(const struct coord_cluster *cl, const struct table_schema *table,
                        uint32_t tables, struct table_set had, struct err *e)
{
    for (uint32_t t = 0; t < tables; t++) {
        uint32_t n = table_set_nth(had, t);
        if (n < LIMIT_TABLES && coord_map_place(cl, n) && cl->bits[n] != table[t].tablet_bits)
            return err_set(e, SHOAL_E_CONFIG,
                           "table %s has %u tablets, the servers have another table in its place: "
                           "set tables[].tablets to what it was, or begin anew: --set fresh=all "
                           "drops the tables of this space for good, and no other ones",
                           table[t].name, 1u << table[t].tablet_bits);
    }
    return 0;
}

/* Chooses numbers for a space's tables: those that it has, then such as no place `taken` has. They
 * rise with the tables. */
static int numbers_choose(const struct table_schema *table, uint32_t tables, struct table_set had,
                          struct table_set taken, struct table_set *numbers, struct err *e)
{
    *numbers = TABLE_SET_NONE;
    for (uint32_t t = 0, n = 0; t < tables; t++, n++) {
        uint32_t own = table_set_nth(had, t);
        if (own < LIMIT_TABLES)
            n = own;
        while (own == LIMIT_TABLES && table_set_has(&taken, n))
            n++;
        if (n >= LIMIT_TABLES)
            return err_set(e, SHOAL_E_CONFIG,
                           "table %s: the tables of all spaces would be more than %u: declare "
                           "fewer, or drop a space (shoal drop SPACE)",
                           table[t].name, LIMIT_TABLES);
        table_set_add(numbers, n);
    }
    return 0;
}

/* Gives a number a place in the record. Spare tablets go to the shards that coord_map_make has
 * dealt; others, which the shards have still to drop, stay where they are. */
static void place_make(const struct coord_cluster *cl, const uint16_t *dealt, uint32_t number,
                       uint32_t bits, struct map_record *r, uint16_t *shard_of)
{
    struct table_set taken = TABLE_SET_NONE;
    uint32_t count = 1u << bits;
    for (uint32_t o = 0; o < LIMIT_TABLES; o++)
        if (r->bits[o] != COORD_NO_PLACE)
            table_set_add(&taken, o);
    uint32_t first = coord_map_room(r->bits, r->first, taken, count);
    r->first[number] = first;
    r->bits[number] = (uint8_t)bits;
    r->tables = MAX(r->tables, number + 1);
    /* a table that fits no gap goes behind all, so the map ends within the room of the owners */
    r->tablets = MAX(r->tablets, first + count);
    for (uint32_t i = 0; i < count; i++)
        if (first + i >= cl->tablets || coord_map_spare(cl, first + i))
            shard_of[first + i] = dealt[i];
}

/* Gives places to the numbers that have none in the record. */
static int places_make(struct coord_fleet *f, const struct table_schema *table, uint32_t tables,
                       struct table_set numbers, struct map_record *r, uint16_t **shard_of,
                       struct err *e)
{
    uint32_t tablets = coord_map_tablets(table, tables), was = r->tablets;
    uint16_t *dealt = calloc(tablets, sizeof *dealt);
    int rc = 0;
    *shard_of = owners_copy(&f->cluster, was + tablets);
    if (dealt == NULL || *shard_of == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", was + tablets);
    if (rc == 0)
        rc = coord_map_make(table, tables, &f->members, dealt, e);
    for (uint32_t t = 0; rc == 0 && t < tables; t++) {
        uint32_t n = table_set_nth(numbers, t);
        if (r->bits[n] == COORD_NO_PLACE)
            place_make(&f->cluster, dealt + table[t].tablet_first, n, table[t].tablet_bits, r,
                       *shard_of);
    }
    if (rc == 0 && r->tablets > LIMIT_FLEET_TABLETS)
        rc = err_set(e, SHOAL_E_TOO_BIG,
                     "the tables of all spaces would have more than %u tablets: take fewer "
                     "(tables[].tablets), or drop a space (shoal drop SPACE)",
                     LIMIT_FLEET_TABLETS);
    free(dealt);
    if (rc != 0)
        free(*shard_of);
    return rc;
}

/* Puts the tables of a space beside those of others. `own`: the places that it has, or has given
 * up; with `fresh` they are free. No tablet of another place moves. */
static int map_beside(struct coord_fleet *f, struct table_set own, const struct table_schema *table,
                      uint32_t tables, bool fresh, struct table_set *numbers, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    const struct table_set had = fresh ? TABLE_SET_NONE : *numbers;
    struct table_set taken = table_set_or(cl->held, coord_map_places(cl));
    uint16_t *shard_of;
    if (cl->tables == 0)
        return err_set(e, SHOAL_E_BUSY,
                       "which tables the map is of is not known since the cluster was taken over: "
                       "submit the job again once no other job runs");
    if (fresh)
        taken = table_set_less(taken, own);
    int rc = numbers_keep(cl, table, tables, had, e);
    if (rc == 0)
        rc = numbers_choose(table, tables, had, taken, numbers, e);
    if (rc != 0)
        return rc;

    struct map_record r = record_of(cl, 1);
    bool same = true;
    for (uint32_t n = 0; n < LIMIT_TABLES; n++) {
        bool there = coord_map_place(cl, n) && table_set_has(&taken, n);
        if (!there)
            r.bits[n] = COORD_NO_PLACE;
    }
    for (uint32_t t = 0; t < tables; t++) { /* tables of the same form stay where they are */
        uint32_t n = table_set_nth(*numbers, t);
        if (coord_map_place(cl, n) && cl->bits[n] == table[t].tablet_bits)
            r.bits[n] = cl->bits[n];
        same &= r.bits[n] != COORD_NO_PLACE;
    }
    for (uint32_t n = 0; n < cl->tables; n++)
        same &= r.bits[n] == cl->bits[n];
    if (same)
        return 0;
    rc = places_make(f, table, tables, *numbers, &r, &shard_of, e);
    if (rc != 0)
        return rc;
    if (!map_put(f, &r, shard_of))
        return coord_store_failed(e);
    return 0;
}

int coord_cluster_map(struct coord_fleet *f, const struct table_schema *table, uint32_t tables,
                      bool fresh, struct table_set *numbers, struct table_set *left, struct err *e)
{
    struct coord_cluster *cl = &f->cluster;
    const struct table_set own = table_set_or(*numbers, *left),
                           others = table_set_less(cl->held, own);
    struct table_set now = *numbers;
    SHOAL_ASSERT(tables > 0 && tables <= LIMIT_TABLES && coord_cluster_ready(cl));
    bool plain = cl->tables == 0 || (coord_map_plain(cl) && table_set_is_first(own));
    int rc;
    if (!table_set_any(others) && (plain || fresh))
        rc = map_alone(f, table, tables, fresh, &now, e);
    else
        rc = map_beside(f, own, table, tables, fresh, &now, e);
    if (rc != 0)
        return rc;
    /* places that the space does not use any more have its tables on the shards */
    *left = table_set_less(own, now);
    if (fresh)
        *left = own;
    *numbers = now;
    cl->held = table_set_or(others, table_set_or(now, *left));
    return 0;
}

bool coord_cluster_map_free(struct coord_fleet *f, struct table_set numbers)
{
    const struct coord_cluster *cl = &f->cluster;
    struct map_record r = record_of(cl, 0); /* the same map */
    if (!table_set_meet(coord_map_places(cl), numbers))
        return true;
    for (uint32_t n = 0; n < cl->tables; n++)
        if (table_set_has(&numbers, n))
            r.bits[n] = COORD_NO_PLACE;
    uint16_t *shard_of = owners_copy(cl, cl->tablets);
    return shard_of != NULL && map_put(f, &r, shard_of);
}

bool coord_cluster_map_sizes(struct coord_fleet *f, const struct catalog *c)
{
    const struct coord_cluster *cl = &f->cluster;
    struct map_record r = {.epoch = cl->map_epoch, .tablets = cl->tablets}; /* the same map */
    memset(r.bits, COORD_NO_PLACE, sizeof r.bits);
    for (uint32_t i = 0; i < c->count; i++) {
        const struct table_set all = table_set_or(c->space[i].tables, c->space[i].left);
        TABLE_SET_EACH (t, &all) {
            r.bits[t] = c->space[i].bits[t];
            r.first[t] = c->space[i].first[t];
            r.tables = MAX(r.tables, t + 1);
        }
    }
    if (cl->tables != 0 || cl->map_epoch == 0 || c->alone || !places_fit(&r))
        return true;
    r.tables = MAX(r.tables, 1); /* 0: no place is known, and here it is known that there is none */
    uint16_t *shard_of = owners_copy(cl, cl->tablets);
    return shard_of != NULL && map_put(f, &r, shard_of);
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

uint32_t coord_cluster_led_of(const struct coord_cluster *cl, uint32_t shard,
                              const struct table_set *tables)
{
    uint32_t led = 0;
    if (!table_set_any(table_set_and(*tables, coord_map_places(cl))))
        return coord_cluster_led(cl, shard);
    TABLE_SET_EACH (t, tables)
        for (uint32_t i = 0; cl->bits[t] != COORD_NO_PLACE && i < UINT32_C(1) << cl->bits[t]; i++)
            led += cl->shard_of[cl->first[t] + i] == shard;
    return led;
}
