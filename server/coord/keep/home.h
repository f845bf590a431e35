/* home.h: the shard that led each tablet when the cut of the best epoch was made.
 *
 * A cut has each tablet on the shard that led it then, and tablets may move afterwards. So a job
 * that goes back to the cut first waits until its tablets are there again (fleet/moves.h):
 *
 *     cut made -> coord_home_keep, stored with best_cut -> tablets move
 *     PHASE_RESTORE -> coord_home_of -> coord_moves_step: tablets go home -> coord_home_reached
 *         -> each shard with a part of the cut restores (cut.h); the others open the new run
 *
 * Invariants:
 *  1. The owners are stored no later than the progress that names the cut: a coordinator that
 *     starts again takes no other owners for those of the cut.
 *     [test: moves_lose_no_acknowledged_push]
 *  2. From PHASE_RESTORE, or its setup after a restart, to the restore's end no tablet of the job
 *     leaves its home. [test: coord_moves_tablets_go_home_and_return] */
#ifndef SERVER_COORD_KEEP_HOME_H
#define SERVER_COORD_KEEP_HOME_H

#include "proto/base/err.h"
#include "server/coord/fleet/moves.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

struct coord_home_kept {
    uint64_t cut;    /* 0: none */
    uint16_t *owner; /* owned, (tablets), as in coord_home */
    uint32_t tablets;
};

/* Notes the present owners of the job's tablets as those of a cut, for the next put of its
 * progress. NOMEM, IO. */
int coord_home_keep(struct coord_job *j, uint64_t cut, struct err *e);
/* After a restart: reads the owners of the kept cut. CORRUPT, NOMEM, IO. */
int coord_home_open(struct coord_job *j, uint64_t cut, struct err *e);
void coord_home_close(struct coord_job *j);
/* True while the job goes back to its cut; fills in *out. */
bool coord_home_of(const struct coord_job *j, struct coord_home *out);
/* True when the tablets of the job, which goes back, are at home. */
bool coord_home_reached(const struct coord_job *j);
/* True when the shard led some of the job's tablets in its kept cut, so that it has a part of it.
 * Without a kept cut every shard counts. */
bool coord_home_has(const struct coord_job *j, uint32_t shard);
/* True when the job may still go back to a cut of which the shard has a part: the shard's server
 * must stay. */
bool coord_home_needs(const struct coord_job *j, uint32_t shard);

#endif
