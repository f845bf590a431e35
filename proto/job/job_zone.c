/* job_zone.c: data.zone of job.yaml. */
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/config_inner.h"
#include "proto/job/job.h"
#include "proto/job/job_inner.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct nearest {
    char wanted[ZONE_NAME], best[ZONE_NAME];
    unsigned least;
};

static void lower(const char *in, char out[ZONE_NAME])
{
    size_t n = 0;
    for (; in[n] != '\0' && n + 1 < ZONE_NAME; n++)
        out[n] = (char)tolower((unsigned char)in[n]);
    out[n] = '\0';
}

/* Compares whole names, and towns: "berlin" is near Europe/Berlin. */
static bool name_look(void *context, const char *name)
{
    struct nearest *n = context;
    char low[ZONE_NAME];
    lower(name, low);
    const char *town = strrchr(low, '/');
    if (town == NULL)
        town = low;
    else
        town++;
    unsigned whole = config_distance(n->wanted, low), part = config_distance(n->wanted, town) + 1;
    unsigned distance = MIN(whole, part);
    if (distance < n->least) {
        n->least = distance;
        text_copy(n->best, sizeof n->best, name);
    }
    return true;
}

static int refuse(const struct config *c, const char *name, const struct err *why, struct err *e)
{
    struct nearest n = {.least = ~0u};
    lower(name, n.wanted);
    zone_names(name_look, &n);
    if (n.best[0] == '\0')
        return job_refuse(c, "data.zone", e, ": %s: install tzdata", why->text);
    return job_refuse(c, "data.zone", e, ": %s; the nearest name is %s", why->text, n.best);
}

int job_zone_take(const struct config *c, struct job *j, struct err *e)
{
    const char *name = config_string(c, "data.zone"),
               *given = config_string(c, "data.zone_changes");
    size_t bytes = strlen(name);
    struct err why = {0};
    if (bytes == 0 || bytes >= ZONE_NAME)
        return job_refuse(c, "data.zone", e, ": a name has 1 to %u bytes", ZONE_NAME - 1);
    j->data.zone = ZONE_UTC;
    /* the changes are of another zone, or absent */
    if (strncmp(given, name, bytes) != 0 || given[bytes] != ' ') {
        int rc = zone_load(name, &j->data.zone, &why);
        if (rc != 0)
            return refuse(c, name, &why, e);
        return 0;
    }
    text_copy(j->data.zone.name, sizeof j->data.zone.name, name);
    if (zone_parse(given + bytes + 1, &j->data.zone) != 0)
        return job_refuse(c, "data.zone_changes", e, ": it is no table of a zone: take it away");
    return 0;
}
