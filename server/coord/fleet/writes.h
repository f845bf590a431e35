/* writes.h: how long the coordinator's store takes for its transactions. All answers that tell of a
 * change wait for one (fleet.h), so a slow store is a slow coordinator. Pure: time is an
 * argument. */
#ifndef SERVER_COORD_FLEET_WRITES_H
#define SERVER_COORD_FLEET_WRITES_H

#include "proto/meter/meter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many transactions are timed at once. While more are under way, the oldest lose their times. */
#define COORD_WRITES 64u
#define COORD_WRITE_SLOW_NS UINT64_C(2000000000)  /* it is told */
#define COORD_WRITE_TOLD_NS UINT64_C(30000000000) /* for so long after its end */

struct coord_writes {
    struct meter_times times;        /* how long complete writes took */
    uint64_t begun, complete;        /* numbers, as of the store */
    uint64_t begun_ns[COORD_WRITES]; /* number n's: at n % COORD_WRITES */
    uint64_t moved_ns;               /* the last end, or begin with none under way */
    uint64_t slow_ns, slow_end_ns;   /* the last slow one; 0: there was none */
};

/* All transactions up to `newest` have begun, those that had not before at begun_ns. */
void coord_writes_begun(struct coord_writes *w, uint64_t newest, uint64_t begun_ns);
/* All up to `complete` are complete. */
void coord_writes_complete(struct coord_writes *w, uint64_t complete, uint64_t now_ns);
/* For how long none of those under way has been completed; 0: none is under way. */
uint64_t coord_writes_stand_ns(const struct coord_writes *w, uint64_t now_ns);
/* The mean time of a transaction, and their count; NAN: there was none. */
double coord_writes_mean_s(const struct coord_writes *w, uint64_t *count);
/* Writes that the store at `place` stands still, or is slow, and what to do; false: neither. */
bool coord_writes_problem(const struct coord_writes *w, const char *place, uint64_t now_ns,
                          char *text, size_t bytes);

#endif
