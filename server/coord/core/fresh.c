/* fresh.c: stores which rows are to be dropped; fresh.h has the invariants. */
#include "server/coord/core/fresh.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"

#include <stdio.h>
#include <string.h>

static const char CLEAR_KEY[] = "clear", FIELDS_KEY[] = "fresh_fields";

_Static_assert(sizeof(struct coord_fresh) == 16, "coord_fresh is stored");
_Static_assert(sizeof(struct coord_fresh_fields) == 16 + WIRE_WITHOUT, "it is stored");

int coord_fresh_open(struct coord_fleet *fleet, struct err *e)
{
    int rc = 0;
    COORD_EACH_SPACE (fleet, s) {
        struct coord_fresh_fields *f = s->fresh_fields;
        if (rc == 0)
            rc = coord_store_optional(
                coord_store_get_fixed(s->store, CLEAR_KEY, &s->fresh, sizeof s->fresh, e));
        if (rc == 0)
            rc = coord_store_optional(coord_store_get_fixed(s->store, FIELDS_KEY, f, sizeof *f, e));
        f->what[sizeof f->what - 1] = 0;
    }
    return rc;
}

static bool put(struct coord_fleet *f, struct coord_space *s, struct coord_fresh to)
{
    if (!coord_fleet_store(f, s->store, CLEAR_KEY, &to, sizeof to, true))
        return false;
    s->fresh = to;
    return true;
}

static bool put_fields(struct coord_fleet *f, struct coord_space *s, uint64_t number,
                       uint64_t begun, const char *what)
{
    struct coord_fresh_fields to = {.number = number, .begun = begun};
    text_copy(to.what, sizeof to.what, what);
    if (!coord_fleet_store(f, s->store, FIELDS_KEY, &to, sizeof to, true))
        return false;
    *s->fresh_fields = to;
    return true;
}

bool coord_fresh_want(struct coord_fleet *f, struct coord_space *s, uint64_t number, bool all,
                      const char *fields)
{
    const struct coord_fresh to = {all ? number : 0, all && coord_fresh_half(s)};
    const struct coord_fresh_fields *is = s->fresh_fields;
    /* a half drop stays noted until a job has dropped the rest (2) */
    bool half = is->begun != 0;
    if (fields[0] != 0 && !put_fields(f, s, number, half, fields))
        return false;
    if (fields[0] == 0 && !half && is->number != 0 && !put_fields(f, s, 0, 0, ""))
        return false;
    return (!all && s->fresh.number == 0) || put(f, s, to);
}

bool coord_fresh_again(struct coord_fleet *f, struct coord_space *s, uint64_t number)
{
    return put(f, s, (struct coord_fresh){number, 1});
}

bool coord_fresh_gone(struct coord_fleet *f, struct coord_space *s)
{
    static const struct coord_fresh none;
    bool clear = s->fresh.number != 0 || s->fresh.begun != 0;
    bool fields = s->fresh_fields->number != 0;
    return (!clear || put(f, s, none)) && (!fields || put_fields(f, s, 0, 0, ""));
}

bool coord_fresh_due(const struct coord_job *j)
{
    return j->space->fresh.number != 0 && j->space->fresh.number == j->at.number &&
           coord_phase_running(j);
}

const char *coord_fresh_fields_due(const struct coord_job *j)
{
    const struct coord_fresh_fields *f = j->space->fresh_fields;
    if (f->number == 0 || f->number != j->at.number || !coord_phase_running(j))
        return NULL;
    return f->what;
}

const char *coord_fresh_fields_half(const struct coord_space *s)
{
    return text_if(s->fresh_fields->begun != 0, s->fresh_fields->what);
}

bool coord_fresh_half(const struct coord_space *s)
{
    return s->fresh.begun != 0;
}

bool coord_fresh_begin(struct coord_job *j)
{
    const struct coord_fresh to = {j->space->fresh.number, 1};
    return !coord_fresh_due(j) || (coord_made_forget(j) && put(j->fleet, j->space, to));
}

bool coord_fresh_fields_begin(struct coord_job *j)
{
    const struct coord_fresh_fields *f = j->space->fresh_fields;
    char what[WIRE_WITHOUT];
    memcpy(what, f->what, sizeof what);
    return f->begun != 0 || put_fields(j->fleet, j->space, f->number, 1, what);
}

/* All shards are set up: the drops are done, and nothing is left of tables that the space had.
 * Fields that were half dropped are gone too, dropped with all rows or replaced by a checkpoint's
 * tables, which are loaded into empty ones. */
bool coord_fresh_done(struct coord_job *j)
{
    static const struct coord_fresh none;
    struct coord_space *s = j->space;
    if (s->fresh_fields->number != 0 && !put_fields(j->fleet, s, 0, 0, ""))
        return false;
    if (!coord_fresh_due(j))
        return true;
    /* a job that went back has left their places in the map */
    bool free = coord_cluster_map_free(j->fleet, table_set_less(s->left, s->numbers));
    s->left = TABLE_SET_NONE;
    s->drops_all = false;
    return free && coord_space_numbers_put(j->fleet, s) && put(j->fleet, s, none);
}
