/* parsed.h: the slices of a split in the order of its log: lines parsed, or event files unpacked.
 * One thread at a time, but for blocks of event files, which any thread may read with a room of its
 * own; the source stays as it is. */
#ifndef WORKER_DATA_PARSED_H
#define WORKER_DATA_PARSED_H

#include "worker/data/events.h"
#include "worker/data/slice.h"

struct parsed; /* opaque */

/* events: its files are event files, and have the features' columns. CONFIG, and as events_open;
 * NOMEM. */
int parsed_open(const struct source *s, const struct features *f, bool events, struct parsed **out,
                struct err *e);
void parsed_close(struct parsed *p);
/* The features' columns, and the layout of their slices, which hold on to it. */
const struct columns *parsed_columns(const struct parsed *p);
const struct slice_layout *parsed_layout(const struct parsed *p);
/* Of event files: all rows, a digest of their content, and all blocks, file by file. */
uint64_t parsed_rows(const struct parsed *p);
uint64_t parsed_digest(const struct parsed *p);
uint32_t parsed_blocks(const struct parsed *p);
const struct events_entry *parsed_entry(const struct parsed *p, uint32_t block);

/* A block: 0, IO, CHECKSUM, CORRUPT, NOMEM. */
int parsed_read(const struct parsed *p, uint32_t block, struct events_room *r, struct slice *b,
                struct err *e);
/* The next slice, good until the next call: 0, END, IO, CHECKSUM, CORRUPT, NOMEM. */
int parsed_next(struct parsed *p, struct slice **b, struct err *e);

#endif
