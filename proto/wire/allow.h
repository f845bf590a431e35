/* allow.h: the rights of peers: the one table of which role may send which message to a
 * coordinator, a shard or a worker. Checks, tests and the manual's page are generated from it.
 *
 * A row is a right: a message, or (PULL_LANE, PULL_STATE, ASSIGN_ROWS) a kind of one. X(RIGHT, its
 * text where that is not the name, roles at a coordinator, at a shard, at a worker, true when it
 * goes into the audit log).
 * Roles are bits (proto/base/role.h). BOSS is the coordinator, on the connection that the shard
 * itself has opened: it has every right at the shard. LOCAL peers have every right except those
 * that only BOSS has. */
#ifndef PROTO_WIRE_ALLOW_H
#define PROTO_WIRE_ALLOW_H

#include "proto/base/err.h"
#include "proto/base/msg.h"
#include "proto/base/role.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum wire_side { WIRE_COORDINATOR, WIRE_SHARD, WIRE_WORKER };
#define WIRE_SIDES 3

/* each row takes one line */
/* clang-format off */

#define WIRE_ALLOW_S (1u << ROLE_SERVE)
#define WIRE_ALLOW_W (1u << ROLE_WORKER)
#define WIRE_ALLOW_C (1u << ROLE_COORD)
#define WIRE_ALLOW_M (1u << ROLE_METRICS)
#define WIRE_ALLOW_A (1u << ROLE_ADMIN)
#define WIRE_ALLOW_BOSS (1u << 16)

#define WIRE_ALLOW_MAP(X, S, W, C, M, A, BOSS) \
    X(HELLO, "", S | W | C | M | A, S | W | C | M | A, 0, false) \
    X(PULL, "PULL without a lane", 0, S | W | A, 0, false) \
    X(PULL_LANE, "PULL of a lane", 0, W, 0, false) \
    X(PULL_STATE, "PULL of optimizer state", 0, A, 0, false) \
    X(PUSH, "", 0, W, 0, false) \
    X(STATUS, "", S | W | M | A, 0, 0, false) \
    X(SHARD_STATUS, "", 0, M | A | BOSS, 0, false) \
    X(TABLE_STATS, "", 0, M | A, 0, false) \
    X(HEAT, "", 0, M | A | BOSS, 0, false) \
    X(SPANS, "", 0, M | A, 0, false) \
    X(TRACE, "", M | A, 0, 0, false) \
    X(MAP_GET, "", S | W | M | A, 0, 0, false) \
    X(TABLE_GET, "", S | W | M | A, 0, 0, false) \
    X(JOB_TEXT, "", S | W | A, 0, 0, false) \
    X(WORKER_JOIN, "", W, 0, 0, false) \
    X(WORKER_BEAT, "", W, 0, 0, false) \
    X(WORKER_LEAVE, "", W, 0, 0, false) \
    X(INDEX_DONE, "", W, 0, 0, false) \
    X(WINDOWS, "", W, 0, 0, false) \
    X(PROFILE, "", W, 0, 0, false) \
    X(OBJECTS, "", W, 0, 0, false) \
    X(OBJECT_DONE, "", W, 0, 0, false) \
    X(TAKEN, "", W, 0, 0, false) \
    X(FILES, "", W, 0, 0, false) \
    X(LEGEND, "", W, 0, 0, false) \
    X(TABLE_DECLARE, "", W, 0, 0, false) \
    X(LANE_NEXT, "", W, 0, 0, false) \
    X(TASK_DONE, "", W, 0, 0, false) \
    X(TRACES, "", W, 0, 0, false) \
    X(EVAL_DONE, "", W, 0, 0, false) \
    X(RING, "", W, 0, 0, false) \
    X(SHARD_BEAT, "", C, 0, 0, false) \
    X(SERVER_DISK, "", C, 0, 0, false) \
    X(IN_SYNC, "", C, 0, 0, false) \
    X(ASSIGN, "ASSIGN of a tablet", 0, W, 0, false) \
    X(IMAGE, "", 0, W, 0, false) \
    X(RING_CHUNK, "", 0, 0, W, false) \
    X(RING_READ, "", 0, 0, W, false) \
    X(FOLLOW, "", 0, C, 0, false) \
    X(COPY, "", 0, C, 0, false) \
    X(MOVE_READ, "", 0, C, 0, false) \
    X(SUBMIT, "", A, 0, 0, true) \
    X(REPORT, "", A, 0, 0, false) \
    X(JOBS, "", M | A, 0, 0, false) \
    X(WHO, "", A, 0, 0, false) \
    X(CHECKPOINT, "", A, 0, 0, true) \
    X(CHECKPOINT_REMOVE, "", A, 0, 0, true) \
    X(TRACE_EVERY, "", A, 0, 0, true) \
    X(DROP, "", A, 0, 0, true) \
    X(IMPORT, "", A, 0, 0, true) \
    X(PROMOTE, "", A, 0, 0, true) \
    X(REPLACE, "", A, 0, 0, true) \
    X(MOVES, "", A, 0, 0, true) \
    X(STOP, "", A, BOSS, 0, true) \
    X(DIGEST, "", 0, A | BOSS, 0, false) \
    X(INSPECT, "", 0, A, 0, false) \
    X(BLAME, "", 0, A, 0, false) \
    X(KEYS, "", 0, A, 0, true) \
    X(NAMED, "", 0, A, 0, false) \
    X(ASSIGN_ROWS, "ASSIGN of rows", 0, A, 0, false) \
    X(KEYLIST, "", 0, BOSS, 0, false) \
    X(SHARES, "", 0, BOSS, 0, false) \
    X(TABLE_CREATE, "", 0, BOSS, 0, true) \
    X(RUN_OPEN, "", 0, BOSS, 0, false) \
    X(RUN_DROP, "", 0, BOSS, 0, true) \
    X(FENCE, "", 0, BOSS, 0, false) \
    X(FENCES, "", 0, BOSS, 0, false) \
    X(MAP_SET, "", 0, BOSS, 0, false) \
    X(MAP_HELD, "", 0, BOSS, 0, false) \
    X(MOVE_TAKE, "", 0, BOSS, 0, false) \
    X(MOVE_MAP, "", 0, BOSS, 0, false) \
    X(NAMES_SET, "", 0, BOSS, 0, false) \
    X(NAMES_HELD, "", 0, BOSS, 0, false) \
    X(TAKEN_SET, "", 0, BOSS, 0, false) \
    X(TAKEN_HELD, "", 0, BOSS, 0, false) \
    X(HOLD, "", 0, BOSS, 0, false) \
    X(GO, "", 0, BOSS, 0, false) \
    X(RESTORE, "", 0, BOSS, 0, true) \
    X(CUT_DROP, "", 0, BOSS, 0, false) \
    X(CUT_KEEP, "", 0, BOSS, 0, false) \
    X(CUT_EXPORT, "", 0, BOSS, 0, true) \
    X(LOAD, "", 0, BOSS, 0, true) \
    X(ROWS_GO, "", 0, BOSS, 0, true)

/* clang-format on */

/* The table with the roles' bits in place of the letters. */
#define WIRE_ALLOW(X)                                                                              \
    WIRE_ALLOW_MAP(X, WIRE_ALLOW_S, WIRE_ALLOW_W, WIRE_ALLOW_C, WIRE_ALLOW_M, WIRE_ALLOW_A,        \
                   WIRE_ALLOW_BOSS)

enum wire_right {
#define X(name, note, coordinator, shard, worker, audited) WIRE_RIGHT_##name,
    WIRE_ALLOW(X)
#undef X
        WIRE_RIGHTS
};

/* The right that a request needs. */
enum wire_right allow_right_of(const struct wire *w);
/* The text of a right: "PULL of a lane". */
const char *allow_text(enum wire_right r);
/* The roles that have the right on that side, as bits. */
uint32_t allow_roles(enum wire_right r, enum wire_side side);
bool allow_audited(enum wire_right r);
/* True when a peer of this role has the right; boss: the peer is the coordinator that the shard
 * follows. */
bool allow_may(enum wire_right r, enum wire_side side, enum role role, bool boss);
/* The latest orders, so that an order that is sent again, because its reply was lost, is not
 * audited again. */
#define ALLOW_RECENT 16u
struct allow_recent {
    uint64_t order[ALLOW_RECENT]; /* a hash */
    uint32_t next;
};
/* True when the same bytes (with their id) came over the same connection and had the same
 * result. */
bool allow_again(struct allow_recent *r, uint64_t peer, int result, const struct msg *m);
/* DENIED, with a sentence that names role and message. */
int allow_denied(enum wire_right r, enum wire_side side, const char *role, struct err *e);

#endif
