/* parsed.h: the slices of a split in the order of its log: parsed lines or unpacked event files.
 * One thread at a time, except that any thread may read blocks of event files with a room of its
 * own. The source must outlive it. */
#ifndef WORKER_DATA_PARSED_H
#define WORKER_DATA_PARSED_H

#include "worker/data/events.h"
#include "worker/data/slice.h"

struct parsed; /* opaque */

/* events: its files are event files and have the features' columns. CONFIG, NOMEM, and the errors
 * of events_open. */
int parsed_open(const struct source *s, const struct features *f, bool events, struct parsed **out,
                struct err *e);
void parsed_close(struct parsed *p);
/* The features' columns, and the layout of their slices, which point to it. */
const struct columns *parsed_columns(const struct parsed *p);
const struct slice_layout *parsed_layout(const struct parsed *p);
/* Event files only: number of rows, a digest of the content, number of blocks, file by file. */
uint64_t parsed_rows(const struct parsed *p);
uint64_t parsed_digest(const struct parsed *p);
uint32_t parsed_blocks(const struct parsed *p);
const struct events_entry *parsed_entry(const struct parsed *p, uint32_t block);

/* Reads a block: 0, IO, CHECKSUM, CORRUPT, NOMEM. */
int parsed_read(const struct parsed *p, uint32_t block, struct events_room *r, struct slice *b,
                struct err *e);
/* The next slice, valid until the next call: 0, END, IO, CHECKSUM, CORRUPT, NOMEM. */
int parsed_next(struct parsed *p, struct slice **b, struct err *e);

#endif
