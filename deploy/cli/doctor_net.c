/* doctor_net.c: checks of what a daemon finds over the network: names, the coordinator's
 * calendar. */
#include "deploy/cli/doctor.h"
#include "proto/net/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static void name_look(const struct doctor_host *h, struct doctor_report *r, const char *key,
                      const char *endpoint)
{
    char numeric[256];
    struct err e = {0};
    if (!name_in(endpoint))
        return;
    if (h->probe->resolve(endpoint, numeric, &e) != 0)
        doctor_wrong(r, "%s: %s: %s", key, endpoint, e.text);
    else
        doctor_fine(r, "%s: %s is %s", key, endpoint, numeric);
}

void doctor_check_names(const struct doctor_host *h, struct doctor_report *r)
{
    const struct doctor_settings *s = h->settings;
    static const char scheme[] = "zookeeper://";
    struct coordinators c;
    struct err e;
    char endpoint[300];
    name_look(h, r, "listen", s->listen);
    if (s->advertise[0] != '\0') {
        (void)snprintf(endpoint, sizeof endpoint, "tcp://%.200s:1", s->advertise);
        name_look(h, r, "advertise", endpoint);
    }
    if (s->coordinator[0] != '\0' && coordinators_parse(s->coordinator, &c, &e) == 0)
        for (uint32_t i = 0; i < c.count; i++)
            name_look(h, r, "coordinator", c.endpoint[i]);
    if (strncmp(s->store, scheme, strlen(scheme)) != 0)
        return;
    const char *at = s->store + strlen(scheme), *end = at + strcspn(at, "/");
    while (at < end) {
        size_t bytes = strcspn(at, ",/");
        (void)snprintf(endpoint, sizeof endpoint, "tcp://%.*s", (int)bytes, at);
        name_look(h, r, "store", endpoint);
        at += bytes + (at[bytes] == ',');
    }
}

/* ---- clock ---- */

void doctor_check_clock(const struct doctor_host *h, struct doctor_report *r)
{
    const char *coordinator = h->settings->coordinator;
    struct err e = {0};
    int64_t ahead_s;
    if (coordinator[0] == '\0')
        return;
    if (h->probe->clock(coordinator, &ahead_s, &e) != 0)
        doctor_wrong(r, "the coordinator at %s cannot be asked for its time: %s", coordinator,
                     e.text);
    else if (ahead_s > DOCTOR_CLOCK_S || ahead_s < -DOCTOR_CLOCK_S)
        doctor_wrong(r,
                     "this machine's calendar is %" PRId64
                     " s %s that of the coordinator at %s: " DOCTOR_CLOCK_ADVICE,
                     ahead_s < 0 ? -ahead_s : ahead_s, ahead_s > 0 ? "behind" : "ahead of",
                     coordinator);
    else
        doctor_fine(r, "this machine and the coordinator at %s agree within %d s", coordinator,
                    DOCTOR_CLOCK_S);
}
