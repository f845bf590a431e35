/* reload_away.c: which tablets are away, and who asks for them. Invariants: reload.c. */
#include "embedding/engine/reload_inner.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"

struct reload *reload_of(const struct engine *g)
{
    return g->job[JOB_RELOAD] == NULL ? NULL : container_of(g->job[JOB_RELOAD], struct reload, job);
}

bool reload_is_away(const struct engine *g, uint32_t table, uint32_t tablet)
{
    const struct reload *l = reload_of(g);
    return l != NULL && l->place[table] != NULL && l->place[table][tablet] != PLACE_BACK;
}

uint32_t reload_left(const struct engine *g)
{
    return reload_of(g) == NULL ? 0 : reload_of(g)->left;
}

bool reload_has(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    struct reload *l = reload_of(g);
    uint8_t *place = l == NULL ? NULL : l->place[table];
    bool all = true;
    for (uint32_t i = 0; place != NULL && i < count; i++) {
        uint32_t tablet =
            key_tablet(key_mix(keys[i]), table_schema_of(g->table[table].table)->tablet_bits);
        all &= place[tablet] == PLACE_BACK;
        if (place[tablet] == PLACE_AWAY) {
            place[tablet] = PLACE_ASKED;
            l->asked[l->asked_count++] = (struct tier_tablet){table, tablet};
        }
    }
    return all;
}
