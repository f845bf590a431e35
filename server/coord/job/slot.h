/* slot.h: the jobs at hand, one in each slot, and which of them a request is about.
 *
 * At most coord_options.jobs run at the same time. A job that has ended stays in its slot until
 * another one takes it: its report, and a checkpoint of its tables, can still be asked for. One
 * space is in one slot at most, so two jobs of a space never run at the same time. A slot that
 * comes back, since more jobs are allowed again, gives up a space that a later job of another slot
 * has. [test: a_space_is_in_one_slot_when_slots_come_back] */
#ifndef SERVER_COORD_JOB_SLOT_H
#define SERVER_COORD_JOB_SLOT_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/allow.h"
#include "server/coord/core/core.h"
#include "server/coord/core/fresh.h"
#include "server/coord/figures/jobs.h"
#include "server/coord/figures/queue.h"
#include "server/coord/job/parts.h"
#include "server/coord/job/picture.h"
#include "server/coord/job/replace.h"
#include "server/coord/job/sight.h"
#include "server/coord/work/taken.h"

#include <stdint.h>

struct coord_submit;

/* The greatest number of jobs at the same time, one in each slot. */
#define COORD_SLOTS COORD_JOBS
_Static_assert(COORD_SLOTS + 1 == COORD_HOLD_LINE, "each slot, and aside, may want to hold them");
/* Above the greatest value of an error on the wire (err.h). */
#define COORD_REASONS 32u

struct coord {
    struct coord_fleet fleet;
    struct { /* the states of the fleet that rooms beside it keep */
        struct coord_jobs jobs;
        struct coord_queue queue;
        struct coord_taken_all versions;
        struct coord_visitors visitors;
        struct coord_hold_line hold_line;
        /* by the space's number */
        struct coord_made made[LIMIT_SPACES + 1];
        struct coord_taken taken[LIMIT_SPACES + 1];
        struct coord_fresh_fields fresh_fields[LIMIT_SPACES + 1];
    } beside;
    struct coord_job slot[COORD_SLOTS]; /* (slots) */
    struct coord_parts part[COORD_SLOTS];
    struct coord_job aside; /* has no job: job/aside.h */
    struct coord_parts aside_part;
    /* coord_options.jobs; more while a job runs that was begun when more were allowed */
    uint32_t slots;
    struct env_timer timer;
    struct coord_look *look; /* the check of the folders of a job that is submitted; NULL: none */
    struct coord_replacing *replacing; /* reads the checkpoint of a REPLACE; NULL: none */
    struct coord_replaced replaced;
    /* the last answer to STATUS about each slot's job; making one visits all tasks, lanes and
     * members */
    struct coord_told {
        char *text; /* owned; NULL: none yet */
        uint64_t made_ns;
        uint64_t run; /* the run and the phase at that time */
        uint32_t phase;
        uint32_t made; /* number of texts made so far */
    } told[COORD_SLOTS];
    struct { /* the last STOP: its id and answer */
        uint64_t id;
        bool ends;
    } stopped;
    struct allow_recent ordered;
    struct coord_picture picture;
    uint64_t ticked_ns;                 /* time of the last tick */
    uint64_t refused_as[COORD_REASONS]; /* requests that were refused, by -status */
};

#define COORD_EACH_JOB(c, j) for (struct coord_job *j = (c)->slot; j < (c)->slot + (c)->slots; j++)

/* Each slot and, last, the one that never has a job. */
#define COORD_EACH_KEEPER(c, j)                                                                    \
    for (struct coord_job *j = (c)->slot; j != NULL; j = coord_slot_keeper_after(c, j))
static inline struct coord_job *coord_slot_keeper_after(struct coord *c, struct coord_job *j)
{
    if (j == &c->aside)
        return NULL;
    return j + 1 < c->slot + c->slots ? j + 1 : &c->aside;
}

/* The fleet and the jobs find the states that other rooms keep of them; c is zeroed. */
void coord_slot_wire(struct coord *c);
/* Makes `slots` slots, and reads back the job of each. IO, CORRUPT, NOMEM: call coord_slot_close
 * also after a failure. */
int coord_slot_open(struct coord *c, uint32_t slots, struct err *e);
void coord_slot_close(struct coord *c);
/* Returns the number of jobs that run. */
uint32_t coord_slot_running(const struct coord *c);
/* The job that was submitted last, of those that run if any does. */
struct coord_job *coord_slot_newest(struct coord *c);
/* Returns the job with this number; 0: as coord_slot_newest. NULL: it is in no slot. */
struct coord_job *coord_slot_numbered(struct coord *c, uint64_t number);
/* Returns the job that a repeated SUBMIT is about; NULL: the SUBMIT is a new one. */
struct coord_job *coord_slot_again(struct coord *c, peer_t from, const struct coord_submit *submit);
/* Returns the slot that a job of the space can take now: that of the space, else one that never had
 * a job, else that of a job which ended, first one without tables, then the oldest. NULL: it
 * waits for another job, which *why names. */
struct coord_job *coord_slot_free(struct coord *c, const char *space, const struct coord_job **why);
/* Returns the job of the worker that shows the pass. A request without one (NULL) is about the job
 * of the worker that joined over this connection; else the newest. key: the key that the peer has
 * shown. */
struct coord_job *coord_slot_of(struct coord *c, peer_t from, const uint64_t *pass,
                                const char *key);
#endif
