/* ring_unable.c: counts how often a worker has given up its place in a ring. */
#include "server/coord/work/ring_unable.h"

#include <stdio.h>
#include <string.h>

static uint32_t find(const struct coord_unable *u, const char *name)
{
    for (uint32_t i = 0; i < COORD_UNABLE_MOST; i++)
        if (u->of[i].tries > 0 && strcmp(u->of[i].name, name) == 0)
            return i;
    return COORD_UNABLE_MOST;
}

static uint32_t oldest(const struct coord_unable *u)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < COORD_UNABLE_MOST; i++)
        if (u->of[i].ns < u->of[at].ns)
            at = i;
    return at;
}

void coord_unable_note(struct coord_unable *u, const char *name, const char *text, uint64_t now_ns)
{
    uint32_t at = find(u, name);
    bool again = at < COORD_UNABLE_MOST && now_ns - u->of[at].ns <= COORD_UNABLE_NS;
    if (at == COORD_UNABLE_MOST)
        at = oldest(u);
    if (!again)
        u->of[at].tries = 0;
    u->of[at].tries++;
    u->of[at].ns = now_ns;
    (void)snprintf(u->of[at].name, sizeof u->of[at].name, "%s", name);
    (void)snprintf(u->of[at].text, sizeof u->of[at].text, "%s", text);
}

void coord_unable_over(struct coord_unable *u, const char *name)
{
    uint32_t at = find(u, name);
    if (at < COORD_UNABLE_MOST)
        u->of[at].tries = 0;
}

bool coord_unable_text(const struct coord_unable *u, uint32_t at, uint64_t now_ns, char *text,
                       size_t bytes)
{
    if (u->of[at].tries < COORD_UNABLE_TRIES || now_ns - u->of[at].ns > COORD_UNABLE_NS)
        return false;
    (void)snprintf(text, bytes,
                   "worker %s has given up its place in the ring %u times in a row, and each time "
                   "all workers stand still: %.380s",
                   u->of[at].name, u->of[at].tries, u->of[at].text);
    return true;
}
