/* queue.h: the jobs that wait for their turn (job/turns.h).
 *
 *   key            value
 *   "queue/N"      struct coord_queue_head, then the job's text; N: its number, with leading zeros
 *
 * A job has its number from its SUBMIT on; its run is drawn when it begins, since jobs that began
 * before it may have drawn others meanwhile.
 *
 *     SUBMIT -> stored -> answered -> its turn -> it is the job at hand, and no longer stored here
 *                                             -> refused: in the list of ended jobs (jobs.h)
 *            STOP of its number ------------------------> likewise, stopped
 *
 * Invariants:
 *  1. A job is stored before its SUBMIT is answered, and leaves in the transaction in which it
 *     begins or ends: a coordinator that dies loses none, and begins none twice.
 *     [test: queue_survives_a_restart]
 *  2. At most COORD_QUEUE_MAX jobs wait, with COORD_QUEUE_BYTES of text. [test: queue_has_a_bound]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FIGURES_QUEUE_H
#define SERVER_COORD_FIGURES_QUEUE_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord_fleet;

#define COORD_QUEUE_MAX 100u
#define COORD_QUEUE_BYTES (16u << 20)

struct coord_queue_head { /* the head of the stored value */
    uint64_t number, wall_s;
    uint32_t workers, start;
    char job[LIMIT_NAME], space[LIMIT_NAME], by[LIMIT_NAME];
    char from[LIMIT_PATH];
};

struct coord_queued {
    struct coord_queue_head head;
    char *yaml; /* owned (bytes) */
    size_t bytes;
    peer_t peer; /* that has submitted it; 0: not known after a restart */
    bool looks;  /* as its text says: folders are looked at before it begins */
    /* how often it was tried, when it last was, and turns.c's stamp of the fleet then */
    uint32_t tries;
    uint64_t tried_ns, stamp;
    /* why it could not begin at its turn; "": its turn has not come */
    char why[ERR_TEXT_MAX];
};

struct coord_queue {
    struct coord_queued item[COORD_QUEUE_MAX]; /* (count), the oldest first */
    uint32_t count;
    uint64_t bytes; /* bytes of all texts */
};

/* Reads the queue back. NOMEM, IO, CORRUPT. */
int coord_queue_open(struct coord_fleet *f, struct err *e);
void coord_queue_close(struct coord_queue *q);
/* Stores a job (its number is drawn, and put into head) at the end. BUSY: the queue is full; NOMEM,
 * IO. */
int coord_queue_add(struct coord_fleet *f, struct coord_queue_head *head, const char *yaml,
                    size_t bytes, peer_t peer, struct err *e);
/* Returns the place of the job with this number; count: there is none. */
uint32_t coord_queue_find(const struct coord_queue *q, uint64_t number);
/* The same for a SUBMIT that the peer sends again, or any peer after a restart. */
uint32_t coord_queue_again(const struct coord_queue *q, const struct coord_queue_head *head,
                           const char *yaml, size_t bytes, peer_t peer);
/* Takes a job out. False: the store failed. */
bool coord_queue_remove(struct coord_fleet *f, uint32_t place);
/* Appends a line for each job, as `shoal jobs` has them (jobs.h). */
void coord_queue_lines(const struct coord_queue *q, struct json *list);
/* Returns the line of a job that ends without having begun: refused at its turn, or stopped. */
struct json *coord_queue_line(const struct coord_queued *item, const char *state, int status,
                              const char *reason);

#endif
