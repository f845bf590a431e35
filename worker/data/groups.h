/* groups.h: the rows of event files in the order of an epoch. Files are read block by block: they
 * are neither unpacked in advance nor read again for each batch.
 *
 * Drawn order: all blocks in an order drawn from (seed, epoch), partitioned into groups of even
 * size, each at most GROUP_ROWS rows and about GROUP_BYTES unpacked bytes (slice.h); then the rows
 * of a group in an order drawn from (seed, epoch, group). A batch therefore lies in one or two
 * groups, and a process whose readers stay close together reads and decompresses each block once an
 * epoch. With one group rows are drawn as those of a text are. The order is a function of the
 * files' blocks, the job's columns, seed and epoch, and never changes between releases. In the
 * log's order a group is a block.
 *
 * The groups of an object are a quarter as large and are freed as soon as all their rows were read,
 * because a worker reads one object in each lane.
 *
 * Memory: as many groups as the readers' positions span, one more, and the next one, which is
 * decoded meanwhile: 3 to 8. In the log's order: blocks of at most GROUP_BYTES. Readers decode a
 * group together. Any thread, one hold each at a time. */
#ifndef WORKER_DATA_GROUPS_H
#define WORKER_DATA_GROUPS_H

#include "worker/data/index.h"
#include "worker/data/parsed.h"

#define GROUP_ROWS (1u << 19)
#define GROUP_BYTES (160u << 20)

struct groups; /* opaque */

struct groups_wish {
    bool drawn;       /* epochs from 1 on are drawn; else all have the log's order */
    bool object;      /* one of several objects that are read at the same time */
    uint64_t near;    /* rows: largest distance between positions read at the same time */
    uint32_t readers; /* batches read at the same time */
    /* for tests; 0: GROUP_ROWS, and the number that `near` needs */
    uint32_t rows, held;
};

/* Opens event files. Source and features must outlive it. Errors as parsed_open. */
int groups_open(const struct source *s, const struct features *f, const struct groups_wish *w,
                struct groups **out, struct err *e);
void groups_close(struct groups *g);
uint64_t groups_rows(const struct groups *g);
uint64_t groups_digest(const struct groups *g);
/* Groups of an epoch; most held at a time; decoded bytes of one. */
uint32_t groups_count(const struct groups *g);
uint32_t groups_held(const struct groups *g);
uint64_t groups_bytes(const struct groups *g);
/* Bytes of blocks read so far; bytes of decoded rows, valid while no thread decodes. */
uint64_t groups_read(struct groups *g);
uint64_t groups_memory(const struct groups *g);

/* A hold on a group, during which its rows are readable. */
struct groups_hold {
    uint64_t first, rows; /* positions in the group */
    uint64_t from;        /* the position given to groups_take */
    uint64_t file_ns;     /* time that reading files for it took, when clock_ns is given */
    struct plan *plan;
    struct group *group;
    struct index_draw draw;
};

/* Holds the decoded group of position < groups_rows. Waits while other threads decode it, or while
 * all groups are held. epoch 0: the log's order. IO, CHECKSUM, CORRUPT, NOMEM. */
int groups_take(struct groups *g, uint64_t seed, uint32_t epoch, uint64_t position,
                uint64_t (*clock_ns)(void), struct groups_hold *h, struct err *e);
/* Finds the row at a position of the hold, and its number in the log. */
void groups_row(const struct groups *g, const struct groups_hold *h, uint64_t position,
                const struct slice **rows, uint32_t *row, uint64_t *number);
/* Releases a hold whose rows were read up to position `end`; decodes an equal share of the next
 * group. */
void groups_give(struct groups *g, struct groups_hold *h, uint64_t end);

#endif
