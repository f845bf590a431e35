/* allow.h: who may send what to whom: the one table of it. Checks, tests and the manual's page are
 * made of it.
 *
 * A row is a right: a message, or (PULL_LANE) a kind of it. X(RIGHT, how it is told where that is
 * not its name, roles at a coordinator, roles at a shard, whether it goes into the audit log).
 * Roles are bits (proto/base/role.h); BOSS is the coordinator, over the connection that the shard
 * itself has opened: it may all that a shard takes. LOCAL peers may all but what is BOSS's
 * alone. */
#ifndef PROTO_WIRE_ALLOW_H
#define PROTO_WIRE_ALLOW_H

#include "proto/base/err.h"
#include "proto/base/msg.h"
#include "proto/base/role.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum wire_side { WIRE_COORDINATOR, WIRE_SHARD };

/* a row fills its line */
/* clang-format off */

#define WIRE_ALLOW_S (1u << ROLE_SERVE)
#define WIRE_ALLOW_W (1u << ROLE_WORKER)
#define WIRE_ALLOW_C (1u << ROLE_COORD)
#define WIRE_ALLOW_M (1u << ROLE_METRICS)
#define WIRE_ALLOW_A (1u << ROLE_ADMIN)
#define WIRE_ALLOW_BOSS (1u << 16)

#define WIRE_ALLOW_MAP(X, S, W, C, M, A, BOSS) \
    X(HELLO, "", S | W | C | M | A, S | W | C | M | A, false) \
    X(PULL, "PULL without a lane", 0, S | W | A, false) \
    X(PULL_LANE, "PULL of a lane", 0, W, false) \
    X(PUSH, "", 0, W, false) \
    X(STATUS, "", S | W | M | A, 0, false) \
    X(SHARD_STATUS, "", 0, M | A | BOSS, false) \
    X(TABLE_STATS, "", 0, M | A, false) \
    X(MAP_GET, "", S | W | M | A, 0, false) \
    X(TABLE_GET, "", S | W | M | A, 0, false) \
    X(JOB_TEXT, "", S | W | A, 0, false) \
    X(WORKER_JOIN, "", W, 0, false) \
    X(WORKER_BEAT, "", W, 0, false) \
    X(WORKER_LEAVE, "", W, 0, false) \
    X(INDEX_DONE, "", W, 0, false) \
    X(WINDOWS, "", W, 0, false) \
    X(PROFILE, "", W, 0, false) \
    X(OBJECTS, "", W, 0, false) \
    X(OBJECT_DONE, "", W, 0, false) \
    X(TAKEN, "", W, 0, false) \
    X(FILES, "", W, 0, false) \
    X(LEGEND, "", W, 0, false) \
    X(TABLE_DECLARE, "", W, 0, false) \
    X(LANE_NEXT, "", W, 0, false) \
    X(TASK_DONE, "", W, 0, false) \
    X(EVAL_DONE, "", W, 0, false) \
    X(SHARD_BEAT, "", C, 0, false) \
    X(SERVER_DISK, "", C, 0, false) \
    X(SUBMIT, "", A, 0, true) \
    X(REPORT, "", A, 0, false) \
    X(JOBS, "", M | A, 0, false) \
    X(WHO, "", A, 0, false) \
    X(CHECKPOINT, "", A, 0, true) \
    X(CHECKPOINT_REMOVE, "", A, 0, true) \
    X(DROP, "", A, 0, true) \
    X(STOP, "", A, BOSS, true) \
    X(DIGEST, "", 0, A | BOSS, false) \
    X(INSPECT, "", 0, A, false) \
    X(BLAME, "", 0, A, false) \
    X(KEYS, "", 0, A, true) \
    X(KEYLIST, "", 0, BOSS, false) \
    X(TABLE_CREATE, "", 0, BOSS, true) \
    X(RUN_OPEN, "", 0, BOSS, false) \
    X(RUN_DROP, "", 0, BOSS, true) \
    X(FENCE, "", 0, BOSS, false) \
    X(FENCES, "", 0, BOSS, false) \
    X(MAP_SET, "", 0, BOSS, false) \
    X(MAP_HELD, "", 0, BOSS, false) \
    X(NAMES_SET, "", 0, BOSS, false) \
    X(NAMES_HELD, "", 0, BOSS, false) \
    X(TAKEN_SET, "", 0, BOSS, false) \
    X(TAKEN_HELD, "", 0, BOSS, false) \
    X(HOLD, "", 0, BOSS, false) \
    X(GO, "", 0, BOSS, false) \
    X(RESTORE, "", 0, BOSS, true) \
    X(CUT_DROP, "", 0, BOSS, false) \
    X(CUT_KEEP, "", 0, BOSS, false) \
    X(CUT_EXPORT, "", 0, BOSS, true) \
    X(LOAD, "", 0, BOSS, true) \
    X(ROWS_GO, "", 0, BOSS, true)

/* clang-format on */

/* With the letters filled in. */
#define WIRE_ALLOW(X)                                                                              \
    WIRE_ALLOW_MAP(X, WIRE_ALLOW_S, WIRE_ALLOW_W, WIRE_ALLOW_C, WIRE_ALLOW_M, WIRE_ALLOW_A,        \
                   WIRE_ALLOW_BOSS)

enum wire_right {
#define X(name, note, coordinator, shard, audited) WIRE_RIGHT_##name,
    WIRE_ALLOW(X)
#undef X
        WIRE_RIGHTS
};

/* The right that a request needs. */
enum wire_right allow_right_of(const struct wire *w);
/* "PULL of a lane". */
const char *allow_text(enum wire_right r);
/* Bits of those who have it there. */
uint32_t allow_roles(enum wire_right r, enum wire_side side);
bool allow_audited(enum wire_right r);
/* Whether a peer of this role may have it; boss: it is the coordinator that the shard follows. */
bool allow_may(enum wire_right r, enum wire_side side, enum role role, bool boss);
/* Orders that came last, so that one sent again, for want of an answer, is not audited again. */
#define ALLOW_RECENT 16u
struct allow_recent {
    uint64_t order[ALLOW_RECENT]; /* a hash */
    uint32_t next;
};
/* Whether the same bytes (with their id) came over the same connection, with the same result. */
bool allow_again(struct allow_recent *r, uint64_t peer, int result, const struct msg *m);
/* DENIED, in words that name role and message. */
int allow_denied(enum wire_right r, enum wire_side side, const char *role, struct err *e);

#endif
