/* sm.c: what a forbidden move does. */
#include "proto/base/sm.h"

#include <stdio.h>

static const char *name_of(const struct sm *m, uint32_t state)
{
    return state < m->count ? m->name[state] : "no state";
}

void sm_refuse(const struct sm *m, uint32_t from, uint32_t to, const char *file, int line)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %s (%u) must not become %s (%u)", m->what, name_of(m, from),
             from, name_of(m, to), to);
    assert_fail(file, line, text);
}
