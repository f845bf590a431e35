/* sample_events.h: samples rows of event files at several places, as sample.h does for text. */
#ifndef WORKER_DATA_SAMPLE_EVENTS_H
#define WORKER_DATA_SAMPLE_EVENTS_H

#include "worker/data/slice.h"
#include "worker/data/source.h"

/* Gets the first rows of a block. */
typedef int (*sample_events_see)(void *context, const struct slice *b, uint32_t rows);

/* Calls `see` with blocks until it returns other than 0: with whole blocks of all files when the
 * split has at most `most` of its `rows`; else with the first rows of SAMPLE_EVENTS_BLOCKS distant
 * blocks. Returns the result of `see`; CORRUPT, CHECKSUM, CONFIG (columns differ), IO, NOMEM. */
#define SAMPLE_EVENTS_BLOCKS 8u
int sample_events_walk(const struct source *s, const struct columns *wanted, uint64_t rows,
                       uint64_t most, sample_events_see see, void *context, struct err *e);

#endif
