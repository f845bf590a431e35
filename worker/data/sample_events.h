/* sample_events.h: rows of event files from several places, as sample.h's of text. */
#ifndef WORKER_DATA_SAMPLE_EVENTS_H
#define WORKER_DATA_SAMPLE_EVENTS_H

#include "worker/data/slice.h"
#include "worker/data/source.h"

/* The first rows of a block. */
typedef int (*sample_events_see)(void *context, const struct slice *b, uint32_t rows);

/* Shows blocks, until `see` returns something else than 0: of all files, each whole, where the
 * split has no more than `most` of its `rows`; else the first rows of SAMPLE_EVENTS_BLOCKS blocks
 * that lie apart. Returns what `see` returned; CORRUPT, CHECKSUM, CONFIG (columns differ), IO,
 * NOMEM. */
#define SAMPLE_EVENTS_BLOCKS 8u
int sample_events_walk(const struct source *s, const struct columns *wanted, uint64_t rows,
                       uint64_t most, sample_events_see see, void *context, struct err *e);

#endif
