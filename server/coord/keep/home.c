/* home.c: the owners of a kept cut; home.h has the invariants. */
#include "server/coord/keep/home.h"

#include "proto/base/assert.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/map.h"
#include "server/coord/keep/cut.h"

#include <stdlib.h>
#include <string.h>

static const char KEY[] = "cut-owners";

struct home_record { /* then the owners, u16 each */
    uint64_t cut;
    uint32_t tablets, unused;
};

static void take(struct coord_job *j, uint64_t cut, uint16_t *owner, uint32_t tablets)
{
    coord_home_close(j);
    j->cut->home = (struct coord_home_kept){cut, owner, tablets};
}

/* Writes the present owners; those of other jobs' tablets do not matter. */
static void owners_take(const struct coord_job *j, uint16_t *owner)
{
    const struct coord_cluster *cl = &j->fleet->cluster;
    bool all = !table_set_any(j->space->numbers) || cl->tables == 0;
    for (uint32_t i = 0; i < cl->tablets; i++)
        owner[i] = all ? cl->shard_of[i] : COORD_HOME_ANY;
    for (uint32_t t = 0; t < cl->tables; t++)
        if (table_set_has(&j->space->numbers, t) && coord_map_place(cl, t))
            memcpy(owner + cl->first[t], cl->shard_of + cl->first[t],
                   (1u << cl->bits[t]) * sizeof *owner);
}

int coord_home_keep(struct coord_job *j, uint64_t cut, struct err *e)
{
    struct home_record r = {.cut = cut, .tablets = j->fleet->cluster.tablets};
    size_t bytes = r.tablets * sizeof(uint16_t);
    char *value = malloc(sizeof r + bytes);
    uint16_t *owner = malloc(bytes + 1);
    SHOAL_ASSERT(cut != 0);
    if (value == NULL || owner == NULL) {
        free(value);
        free(owner);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the owners of %u tablets", r.tablets);
    }
    owners_take(j, owner);
    memcpy(value, &r, sizeof r);
    memcpy(value + sizeof r, owner, bytes);
    bool good = coord_job_note(j, KEY, value, sizeof r + bytes);
    free(value);
    take(j, cut, owner, r.tablets);
    if (good)
        return 0;
    return coord_store_failed(e);
}

static bool fits(const struct coord_job *j, const struct home_record *r, const uint16_t *owner,
                 size_t bytes)
{
    bool good = r->tablets <= j->fleet->cluster.tablets && bytes == r->tablets * sizeof *owner;
    for (uint32_t i = 0; good && i < r->tablets; i++)
        good = owner[i] == COORD_HOME_ANY || coord_member_used(&j->fleet->members, owner[i]);
    return good;
}

int coord_home_open(struct coord_job *j, uint64_t cut, struct err *e)
{
    struct home_record r = {0};
    void *value;
    size_t bytes;
    int rc = coord_store_get(j->store, KEY, &value, &bytes, e);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        return rc;
    if (rc == 0 && bytes >= sizeof r)
        memcpy(&r, value, sizeof r);
    if (r.cut != cut) { /* stored by a release under which no tablet moved after a cut was kept */
        if (rc == 0)
            free(value);
        return coord_home_keep(j, cut, e);
    }
    bytes -= sizeof r;
    memmove(value, (char *)value + sizeof r, bytes);
    take(j, cut, value, r.tablets);
    if (fits(j, &r, j->cut->home.owner, bytes))
        return 0;
    coord_home_close(j);
    return err_set(e, SHOAL_E_CORRUPT,
                   "the stored owners of its best epoch's cut (%zu bytes) do not fit the map",
                   bytes);
}

void coord_home_close(struct coord_job *j)
{
    free(j->cut->home.owner);
    j->cut->home = (struct coord_home_kept){0};
}

bool coord_home_of(const struct coord_job *j, struct coord_home *out)
{
    const struct coord_home_kept *h = &j->cut->home;
    bool goes =
        j->at.phase == PHASE_RESTORE || (j->at.phase == PHASE_SETUP && j->resume == PHASE_RESTORE);
    if (!goes || h->cut == 0 || h->cut != j->at.best_cut)
        return false;
    *out = (struct coord_home){j->spec.name, h->owner, h->tablets};
    return true;
}

bool coord_home_reached(const struct coord_job *j)
{
    struct coord_home home;
    return !coord_home_of(j, &home) || coord_moves_at_home(j->fleet, &home);
}

bool coord_home_has(const struct coord_job *j, uint32_t shard)
{
    const struct coord_home_kept *h = &j->cut->home;
    bool has = h->cut == 0;
    for (uint32_t i = 0; i < h->tablets && !has; i++)
        has = h->owner[i] == shard;
    return has;
}

bool coord_home_needs(const struct coord_job *j, uint32_t shard)
{
    return coord_phase_running(j) && j->at.best_cut != 0 && j->cut->home.cut == j->at.best_cut &&
           coord_home_has(j, shard);
}
