/* sm.h: a state machine whose allowed moves are a table, checked at every move.
 *
 *     static const char *const names[] = {[SHUT] = "shut", [OPEN] = "open"};
 *     static const uint32_t moves[] = {[SHUT] = SM_TO(OPEN), [OPEN] = SM_TO(SHUT)};
 *     const struct sm door_moves = SM("a door", names, moves);
 *     ...
 *     sm_move(&door_moves, &door->state, OPEN);
 *
 * The diagram in the machine's header and its table say the same. Only sm_move assigns the state,
 * except where the whole struct is initialized. */
#ifndef PROTO_BASE_SM_H
#define PROTO_BASE_SM_H

#include "proto/base/assert.h"

#include <stdbool.h>
#include <stdint.h>

struct sm {
    const char *what;        /* the thing that has the states: "a lane's batch" */
    const char *const *name; /* (count): a name for each state, for the message */
    const uint32_t *moves;   /* (count): SM_TO of all states that may follow */
    uint32_t count;          /* at most 32 */
};

#define SM_TO(state) (UINT32_C(1) << (state))
#define SM(what, names, moves)                                                                     \
    {                                                                                              \
        what, names, moves, sizeof(moves) / sizeof(moves)[0]                                       \
    }

static inline bool sm_may(const struct sm *m, uint32_t from, uint32_t to)
{
    return from < m->count && to < m->count && (m->moves[from] & SM_TO(to)) != 0;
}

/* Reports the forbidden move and aborts. */
_Noreturn void sm_refuse(const struct sm *m, uint32_t from, uint32_t to, const char *file,
                         int line);

/* state may point to any enum, or to a number that is stored. */
#define sm_move(machine, state, to)                                                                \
    do {                                                                                           \
        if (__builtin_expect(!sm_may((machine), (uint32_t) * (state), (uint32_t)(to)), 0))         \
            sm_refuse((machine), (uint32_t) * (state), (uint32_t)(to), __FILE__, __LINE__);        \
        *(state) = (to);                                                                           \
    } while (0)

#endif
