/* fresh.c: invariants in fresh.h. */
#include "server/coord/fresh.h"

#include "proto/base/assert.h"
#include "proto/base/plant.h"
#include "server/coord/core.h"
#include "server/coord/phase.h"

#include <stdlib.h>
#include <string.h>

static const char CLEAR_KEY[] = "clear", NAMES_KEY[] = "names";

_Static_assert(sizeof(struct coord_fresh) == 16, "coord_fresh is stored");

int coord_fresh_open(struct coord *c, struct err *e)
{
    int rc = coord_store_get_fixed(c->store, CLEAR_KEY, &c->fresh, sizeof c->fresh, e);
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
}

static bool put(struct coord *c, struct coord_fresh to)
{
    if (!coord_put(c, CLEAR_KEY, &to, sizeof to))
        return false;
    c->fresh = to;
    return true;
}

bool coord_fresh_want(struct coord *c, uint64_t number, bool all)
{
    const struct coord_fresh to = {all ? number : 0, all && coord_fresh_half(c)};
    return (!all && c->fresh.number == 0) || put(c, to);
}

bool coord_fresh_due(const struct coord *c)
{
    return c->fresh.number != 0 && c->fresh.number == c->job.at.number && coord_phase_running(c);
}

bool coord_fresh_half(const struct coord *c)
{
    return c->fresh.begun != 0 && !PLANTED("half_cleared");
}

bool coord_fresh_begin(struct coord *c)
{
    const struct coord_fresh to = {c->fresh.number, 1};
    return !coord_fresh_due(c) || put(c, to);
}

/* The line of the job's text that has them; without one (a test's worker told none) they are what
 * the last job says. */
static bool names_put(struct coord *c)
{
    const struct coord_job *j = &c->job;
    size_t at, bytes;
    struct err e = {0};
    if (legend_line(j->yaml, j->yaml_bytes, &at, &bytes))
        return coord_put(c, NAMES_KEY, j->yaml + at, bytes);
    return coord_store_remove(c->store, NAMES_KEY, &e) == 0;
}

bool coord_fresh_done(struct coord *c)
{
    static const struct coord_fresh none;
    return names_put(c) && (!coord_fresh_due(c) || PLANTED("clear_again") || put(c, none));
}

int coord_fresh_names(const struct coord *c, struct legend *out, struct err *e)
{
    void *text;
    size_t bytes;
    int rc = coord_store_get(c->store, NAMES_KEY, &text, &bytes, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return legend_copy(&c->job.spec.legend, out, e);
    if (rc != 0)
        return rc;
    rc = legend_parse(text, bytes, out, e);
    free(text);
    return rc == 0 ? 0 : err_wrap(e, rc, "stored names of the servers' tables");
}

int coord_fresh_text(const struct coord *c, char **text, size_t *bytes, struct err *e)
{
    const struct coord_job *j = &c->job;
    struct legend held = {0};
    if (j->at.phase != PHASE_FAILED) {
        *text = malloc(j->yaml_bytes + 1);
        if (*text == NULL)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        memcpy(*text, j->yaml, *bytes = j->yaml_bytes);
        return 0;
    }
    int rc = coord_fresh_names(c, &held, e);
    if (rc == 0)
        rc = legend_put(j->yaml, j->yaml_bytes, &held, text, bytes, e);
    legend_free(&held);
    return rc;
}
