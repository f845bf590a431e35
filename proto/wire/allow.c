/* allow.c: looks rights up in the table of allow.h.
 *
 * 1. Every message has a right: without one this does not compile. [the compiler] */
#include "proto/wire/allow.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

static const struct {
    const char *name, *note;
    uint32_t roles[WIRE_SIDES];
    bool audited;
} right[] = {
#define X(name, note, coordinator, shard, worker, audited)                                         \
    {#name, note, {coordinator, shard, worker}, audited},
    WIRE_ALLOW(X)
#undef X
};

enum wire_right allow_right_of(const struct wire *w)
{
    if (w->type == WIRE_TYPE_PULL && w->u.PULL.lane != UINT32_MAX)
        return WIRE_RIGHT_PULL_LANE;
    if (w->type == WIRE_TYPE_PULL && w->u.PULL.parts != 0)
        return WIRE_RIGHT_PULL_STATE;
    if (w->type == WIRE_TYPE_ASSIGN && w->u.ASSIGN.key_count > 0)
        return WIRE_RIGHT_ASSIGN_ROWS;
    switch (w->type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        return WIRE_RIGHT_##name;
        WIRE_MAP(X) /* 1 */
#undef X
    case WIRE_TYPE_NONE:
        break;
    }
    return WIRE_RIGHTS;
}

const char *allow_text(enum wire_right r)
{
    SHOAL_ASSERT(r < WIRE_RIGHTS);
    return text_unless_empty(right[r].note, right[r].name);
}

uint32_t allow_roles(enum wire_right r, enum wire_side side)
{
    SHOAL_ASSERT(r < WIRE_RIGHTS);
    return right[r].roles[side];
}

bool allow_audited(enum wire_right r)
{
    return r < WIRE_RIGHTS && right[r].audited;
}

bool allow_may(enum wire_right r, enum wire_side side, enum role role, bool boss)
{
    uint32_t roles = 0;
    if (r < WIRE_RIGHTS)
        roles = right[r].roles[side];
    if (boss)
        return roles != 0;
    if (role == ROLE_LOCAL)
        return (roles & ~WIRE_ALLOW_BOSS) != 0;
    return role < ROLES && (roles & role_bit(role)) != 0;
}

bool allow_again(struct allow_recent *r, uint64_t peer, int result, const struct msg *m)
{
    uint64_t order = hash_bytes(&peer, sizeof peer, (uint64_t)result);
    for (uint32_t i = 0; i < m->frame_count; i++)
        order = hash_bytes(m->frame[i].data, m->frame[i].bytes, order);
    if (order == 0)
        order = 1;
    for (uint32_t i = 0; i < ALLOW_RECENT; i++)
        if (r->order[i] == order)
            return true;
    r->order[r->next++ % ALLOW_RECENT] = order;
    return false;
}

int allow_denied(enum wire_right r, enum wire_side side, const char *role, struct err *e)
{
    static const char *const place[WIRE_SIDES] = {"the coordinator", "a shard", "a worker"};
    const char *at = place[side];
    if (r < WIRE_RIGHTS && right[r].roles[side] == WIRE_ALLOW_BOSS)
        return err_set(e, SHOAL_E_DENIED, "%s takes %s from its coordinator alone", at,
                       allow_text(r));
    if (r == WIRE_RIGHTS || right[r].roles[side] == 0)
        return err_set(e, SHOAL_E_DENIED, "%s takes no %s", at,
                       r == WIRE_RIGHTS ? "such message" : allow_text(r));
    return err_set(
        e, SHOAL_E_DENIED,
        "the role %s may not send %s to %s: over tcp the coordinator's allow-list gives each key "
        "its role; over a socket root and the group shoal-admin may (adduser USER shoal-admin)",
        role, allow_text(r), at);
}
