/* fresh.c: invariants in fresh.h. */
#include "server/coord/fresh.h"

#include "proto/base/assert.h"
#include "proto/base/plant.h"
#include "server/coord/core.h"
#include "server/coord/phase.h"

#include <stdio.h>
#include <string.h>

static const char CLEAR_KEY[] = "clear", FIELDS_KEY[] = "fresh_fields";

_Static_assert(sizeof(struct coord_fresh) == 16, "coord_fresh is stored");
_Static_assert(sizeof(struct coord_fresh_fields) == 16 + WIRE_WITHOUT, "it is stored");

int coord_fresh_open(struct coord *c, struct err *e)
{
    struct coord_fresh_fields *f = &c->fresh_fields;
    int rc = coord_store_get_fixed(c->store, CLEAR_KEY, &c->fresh, sizeof c->fresh, e);
    if (rc == 0 || rc == SHOAL_E_NOT_FOUND)
        rc = coord_store_get_fixed(c->store, FIELDS_KEY, f, sizeof *f, e);
    f->what[sizeof f->what - 1] = 0;
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
}

static bool put(struct coord *c, struct coord_fresh to)
{
    if (!coord_put(c, CLEAR_KEY, &to, sizeof to))
        return false;
    c->fresh = to;
    return true;
}

static bool put_fields(struct coord *c, uint64_t number, uint64_t begun, const char *what)
{
    struct coord_fresh_fields to = {.number = number, .begun = begun};
    (void)snprintf(to.what, sizeof to.what, "%s", what);
    if (!coord_put(c, FIELDS_KEY, &to, sizeof to))
        return false;
    c->fresh_fields = to;
    return true;
}

bool coord_fresh_want(struct coord *c, uint64_t number, bool all, const char *fields)
{
    const struct coord_fresh to = {all ? number : 0, all && coord_fresh_half(c)};
    /* half gone stays half gone until a job has dropped the rest (2) */
    bool half = c->fresh_fields.begun != 0;
    if (fields[0] != 0 && !put_fields(c, number, half, fields))
        return false;
    if (fields[0] == 0 && !half && c->fresh_fields.number != 0 && !put_fields(c, 0, 0, ""))
        return false;
    return (!all && c->fresh.number == 0) || put(c, to);
}

bool coord_fresh_again(struct coord *c, uint64_t number)
{
    return put(c, (struct coord_fresh){number, 1});
}

bool coord_fresh_due(const struct coord *c)
{
    return c->fresh.number != 0 && c->fresh.number == c->job.at.number && coord_phase_running(c);
}

const char *coord_fresh_fields_due(const struct coord *c)
{
    const struct coord_fresh_fields *f = &c->fresh_fields;
    return f->number != 0 && f->number == c->job.at.number && coord_phase_running(c) ? f->what
                                                                                     : NULL;
}

const char *coord_fresh_fields_half(const struct coord *c)
{
    return c->fresh_fields.begun != 0 && !PLANTED("half_fresh") ? c->fresh_fields.what : "";
}

bool coord_fresh_half(const struct coord *c)
{
    return c->fresh.begun != 0 && !PLANTED("half_cleared");
}

bool coord_fresh_begin(struct coord *c)
{
    const struct coord_fresh to = {c->fresh.number, 1};
    return !coord_fresh_due(c) || (coord_made_forget(c) && put(c, to));
}

bool coord_fresh_fields_begin(struct coord *c)
{
    const struct coord_fresh_fields *f = &c->fresh_fields;
    char what[WIRE_WITHOUT];
    memcpy(what, f->what, sizeof what);
    return f->begun != 0 || put_fields(c, f->number, 1, what);
}

/* With all that was there, or with a checkpoint's tables, which go into empty ones, fields that
 * were half gone are gone too. */
bool coord_fresh_done(struct coord *c)
{
    static const struct coord_fresh none;
    if (c->fresh_fields.number != 0 && !put_fields(c, 0, 0, ""))
        return false;
    return !coord_fresh_due(c) || PLANTED("clear_again") || put(c, none);
}
