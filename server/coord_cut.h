/* coord_cut.h: cuts: HOLD and GO on all shards, RESTORE, CUT_DROP. One at a time, at an epoch's end, when no lane is
 * held.
 *
 *   coord_cut_make -> HOLDING -all held-> GOING -all complete-> idle, done(cut)
 *                        |                  |
 *                        +-- refused, or held for HOLD_MAX_NS (HOLD ends by itself after 10 s) -> again under a new
 * number, ATTEMPTS times coord_cut_restore -> RESTORING -all restored-> idle, done(cut) Invariants:
 *  1. A cut's number is stored before a shard hears of it, and never drawn twice.
 *  2. A cut is complete when every shard has answered GO, or it is dropped and does not count. */
#ifndef SERVER_COORD_CUT_H
#define SERVER_COORD_CUT_H

#include <stdint.h>

struct coord;

enum coord_cut_state { CUT_IDLE, CUT_HOLDING, CUT_GOING, CUT_RESTORING };

/* status 0: the cut is complete (or restored). Else the text says why not. */
typedef void (*coord_cut_done)(struct coord *c, int status, const char *text, uint64_t cut);

struct coord_cut {
    enum coord_cut_state state;
    uint64_t cut;
    uint32_t attempt;
    uint64_t since_ns;
    coord_cut_done done;
};

void coord_cut_make(struct coord *c, coord_cut_done done);
void coord_cut_restore(struct coord *c, uint64_t cut, uint64_t run, coord_cut_done done);
void coord_cut_drop(struct coord *c, uint64_t cut); /* asked for, not waited for */
void coord_cut_tick(struct coord *c);
void coord_cut_cancel(struct coord *c);

#endif
