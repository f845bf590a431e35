/* moves.h: one plan at a time by which tablets go from shard to shard while jobs run
 * (server/shard/move.h has the shards' side).
 *
 * A plan is a goal: the shard that is to lead each tablet. Groups of tablets with the same giver
 * and taker go one after another:
 *
 *     IDLE --no call is open--> TAKING: MOVE_TAKE to the taker; all other calls are held back
 *      ^                          |  all tablets are on the taker's disks
 *      |                          v
 *      |                        the map with the group's new owners is stored, with the group
 *      |                          |
 *      +--both have the map-----TELLING: MOVE_MAP to the taker, then to the giver, which goes on
 *
 *     TAKING --the taker refuses, or giver or taker starts again--> a map of a new epoch without
 *     a change is stored and told: it ends the freeze
 *
 * The giver takes no push while a group moves. So a group is kept so small that this lasts
 * COORD_MOVE_FREEZE_NS. Groups of less than COORD_MOVE_BYTES grow up to COORD_MOVE_LIGHT tablets
 * all the same: a slow disk or a busy machine takes their time, and more groups would take it more
 * often. Where the bytes of tablets are known (heat.h: an order's plan is made of them), a group
 * has at most COORD_MOVE_BYTES, or twice those of the group before it, but at least one tablet: a
 * group that grew over light tablets may meet heavy ones. A pause of COORD_MOVE_PAUSE times as long
 * follows; one as long where no job trains, and while a job waits for its tablets (below).
 *
 * Tablets that are no table's (cluster_map.h) go by the map alone. Where the taker lacks their
 * table, and no coordinator knows its schema, they stay where they are, but the plan of a drain
 * waits for them: a job of their space makes the schema known.
 *
 * A plan that drains a server ends when the server's shards are retired (add.h). A plan ends early
 * when a tablet is too large to move: trying again changes nothing before servers are restarted
 * with other settings.
 *
 * The plan and the newest group are stored. A coordinator that starts in the middle stores a map of
 * a new epoch and tells it to all shards with that group's tablets, then goes on.
 *
 * A job that goes back to a cut needs each tablet on the shard that led it then (keep/home.h).
 * While it goes back its tablets go there, and no other tablet moves. Then the plan goes on; where
 * there was none, the tablets return to where they were. They move whole: the names of keys that
 * were erased or blocked since the cut lie in the tablet as it is now, and outlive the return.
 *
 * Invariants:
 *  1. The map gives a tablet to its taker only after the taker has said that its rows are on disk,
 *     and only if the giver has not started again since they were read. [test:
 *     coord_moves_giver_that_starts_again_ends_the_group]
 *  2. While a group moves no other call is sent: a fence, a cut or a digest counts each tablet
 *     once. [test: coord_moves_hold_other_calls]
 *  3. The giver hears of the map after the taker, so at each moment one of them counts the tablet's
 *     marks. [test: coord_moves_tell_the_taker_first] */
#ifndef SERVER_COORD_FLEET_MOVES_H
#define SERVER_COORD_FLEET_MOVES_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;
struct coord_call;

#define COORD_MOVE_FREEZE_NS UINT64_C(20000000)
#define COORD_MOVE_BYTES (UINT64_C(1) << 20)
#define COORD_MOVE_LIGHT 32u
#define COORD_MOVE_PAUSE 9u

enum coord_moves_kind { MOVES_NONE, MOVES_REBALANCE, MOVES_DRAIN };
enum coord_moves_state { MOVES_IDLE, MOVES_TAKING, MOVES_TELLING };

struct coord_group { /* stored, then its tablets */
    uint64_t epoch;  /* the epoch of the map that gives them to the taker */
    uint32_t giver, taker, count, unused;
    uint32_t tablet[WIRE_MOVE_TABLETS];
};

struct coord_moves {
    enum coord_moves_kind kind; /* MOVES_NONE: there is no plan */
    char drained[LIMIT_NAME];   /* the server that MOVES_DRAIN empties */
    uint16_t *goal;             /* owned, (tablets) */
    uint32_t tablets;
    enum coord_moves_state state;
    struct coord_group group;
    bool given_up;    /* the map that is told changes no owner */
    bool stops;       /* the plan ends with the group */
    bool all;         /* every shard is told, since a former coordinator ended in the middle */
    uint32_t telling; /* the shard that is told now */
    uint64_t giver_incarnation, taker_incarnation;
    uint32_t at;         /* no tablet below has another goal than its owner */
    uint32_t size;       /* tablets of the next group */
    uint64_t began_ns;   /* the time at which the group began */
    uint64_t took_bytes; /* bytes of the group, as the taker has read it */
    uint64_t next_ns;    /* no group begins before */
    /* for people */
    uint32_t total,
        moved; /* tablets of the plan; those that have moved since this coordinator began */
    uint64_t rows, bytes, longest_ns, plan_ns, tries;
    char text[ERR_TEXT_MAX]; /* why the last group was given up; empty: none was */
    /* why the plan before ended early; empty: it did not, or a coordinator has started since */
    char ended[ERR_TEXT_MAX];
    bool fails;           /* no group has moved since */
    char job[LIMIT_NAME]; /* the plan waits while this job goes back to a cut; empty: for none */
    bool trains;          /* a job pushes: groups leave it time between them */
};

/* A job that goes back to a cut. */
struct coord_home {
    const char *job; /* borrowed: its name */
    /* borrowed, (tablets): the shard that led each tablet of the job; COORD_HOME_ANY: the tablet
     * is not the job's */
    const uint16_t *owner;
    uint32_t tablets;
};
#define COORD_HOME_ANY UINT16_MAX

/* Reads the plan back. CORRUPT, IO, NOMEM. */
int coord_moves_open(struct coord_fleet *f, struct err *e);
void coord_moves_close(struct coord_fleet *f);
/* Takes a goal (tablets of the map) as the plan, stored; the goal is copied. EXISTS: there is one.
 * NOT_FOUND: no tablet would move, and no server is drained. NOMEM, IO. */
int coord_moves_begin(struct coord_fleet *f, enum coord_moves_kind kind, const char *drained,
                      const uint16_t *goal, struct err *e);
/* Ends the plan with the present group. NOT_FOUND: there is none. */
int coord_moves_stop(struct coord_fleet *f, struct err *e);
/* True when a plan has moved all tablets away from the server that it drains. Its shards are to be
 * retired, then the plan ends (add.h). */
bool coord_moves_emptied(const struct coord_fleet *f);
/* The plan is over. */
void coord_moves_end(struct coord_fleet *f);
/* Begins what is due. Cheap. home: the jobs (homes) that go back to a cut now; trains: a job pushes
 * now. */
void coord_moves_step(struct coord_fleet *f, const struct coord_home *home, uint32_t homes,
                      bool trains);
/* True when all tablets of the job are at home and none is moving. None of them begins to move
 * before a step without this home. */
bool coord_moves_at_home(const struct coord_fleet *f, const struct coord_home *home);
/* A job's tables have changed the map: tablets that the goal does not know stay where they are,
 * unless their server is drained. */
void coord_moves_map_changed(struct coord_fleet *f);
/* Writes why the next tablets do not move, and what to do; false: they do, or none is to. */
bool coord_moves_problem(const struct coord_fleet *f, char *text, size_t bytes);
/* The plan for people: {"kind", "tablets", "left", "moved", "rows", "bytes", "longest_freeze_ms",
 * "seconds", "seconds_left", "given_up", "last_failure", "goes_back"}; NULL: there is none. */
struct json *coord_moves_json(const struct coord_fleet *f);

#endif
