/* groups.h: the rows of event files in the order of an epoch, read block by block: files are
 * neither unpacked before nor read again for each batch.
 *
 * Drawn: all blocks in an order drawn from (seed, epoch), cut into groups of even size, at most
 * GROUP_ROWS rows and GROUP_BYTES unpacked (slice.h; of fields with several values, about); then
 * the rows of a group in an order drawn from (seed, epoch, group). So a batch lies in a group or
 * two, and each block is read and decompressed once an epoch, by a process whose readers stay near
 * each other. A log of one group is drawn row by row, as a text of so many rows is. A function of
 * the files' blocks, the job's columns, seed and epoch, fixed for ever. In the log's order a group
 * is a block.
 *
 * An object's groups are a quarter as large, and go as soon as all their rows are read: a worker
 * reads one in each lane.
 *
 * Memory: as many groups as positions lie apart that are read at a time, one more, and the next,
 * which is decoded while one is read: 3 to 8. Blocks of the log's order: of GROUP_BYTES at most.
 * Readers decode a group together. Thread: any, one hold each at a time. */
#ifndef WORKER_DATA_GROUPS_H
#define WORKER_DATA_GROUPS_H

#include "worker/data/index.h"
#include "worker/data/parsed.h"

#define GROUP_ROWS (1u << 19)
#define GROUP_BYTES (160u << 20)

struct groups; /* opaque */

struct groups_wish {
    bool drawn;       /* epochs from 1 on; else all are in the log's order */
    bool object;      /* one of several that are read at a time */
    uint64_t near;    /* rows: positions read at a time lie no farther apart */
    uint32_t readers; /* batches read at a time */
    /* for tests; 0: GROUP_ROWS, and what `near` asks for */
    uint32_t rows, held;
};

/* As parsed_open of event files. Source and features stay as they are. */
int groups_open(const struct source *s, const struct features *f, const struct groups_wish *w,
                struct groups **out, struct err *e);
void groups_close(struct groups *g);
uint64_t groups_rows(const struct groups *g);
uint64_t groups_digest(const struct groups *g);
/* Groups of an epoch; how many are held at most; bytes of one, laid out. */
uint32_t groups_count(const struct groups *g);
uint32_t groups_held(const struct groups *g);
uint64_t groups_bytes(const struct groups *g);
/* Bytes of blocks read so far; of rows laid out now, while nobody decodes. */
uint64_t groups_read(struct groups *g);
uint64_t groups_memory(const struct groups *g);

/* A group while its rows are read. */
struct groups_hold {
    uint64_t first, rows; /* its positions */
    uint64_t from;        /* the position asked for */
    uint64_t file_ns;     /* how long files were read for it, if clock_ns was given */
    struct plan *plan;
    struct group *group;
    struct index_draw draw;
};

/* The group that has the position < groups_rows, decoded: waits while others decode it, or while
 * all groups held are being read. epoch 0: the log's order. IO, CHECKSUM, CORRUPT, NOMEM. */
int groups_take(struct groups *g, uint64_t seed, uint32_t epoch, uint64_t position,
                uint64_t (*clock_ns)(void), struct groups_hold *h, struct err *e);
/* Where the row at a position of the hold is, and its number in the log. */
void groups_row(const struct groups *g, const struct groups_hold *h, uint64_t position,
                const struct slice **rows, uint32_t *row, uint64_t *number);
/* Read up to `end`, a position: decodes as much of the next group as is read of this one. */
void groups_give(struct groups *g, struct groups_hold *h, uint64_t end);

#endif
