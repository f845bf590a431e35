/* records.h: the form of state.log: a head, then records of values put and keys removed, in the
 * order in which they came.
 *
 * Each record says in a header with a checksum of its own how many bytes of the log were on disk
 * when it was written. So what cannot be read is one of two things, and which is known:
 *     a torn tail: nobody was told of it, in whatever order its pages came to disk; it is cut off
 *     damage:      a record, before it or behind, says that it had been on disk: CORRUPT
 * What says so last is a record without a key, a mark, behind each sync; behind the last one alone,
 * lost by a power cut before the disk has it, damage and a torn tail look the same.
 *
 * Version 1 had neither head nor marks; it is read, and never written. There a record is torn if
 * the file ends within it and none follows.
 *
 * Invariants:
 *  1. What is taken is what was put, in order, up to the first byte that is not as it was written.
 *     [test: coord_store_any_flipped_bit_is_found]
 *  2. Nothing that was synced is cut off. [assert: coord_records_read] [test:
 *     coord_store_any_flipped_bit_is_found, coord_store_torn_in_any_order_is_cut_off]
 *  3. What was on another disk page, in another log or in a value is no record here: a header's
 *     checksum hangs on its place and on the log's salt. [test:
 *     coord_records_of_another_log_or_place] */
#ifndef SERVER_COORD_RECORDS_H
#define SERVER_COORD_RECORDS_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COORD_RECORDS_VERSION 2u

/* A log that is written. Its file's owner sets synced to bytes when a sync has succeeded. */
struct coord_records {
    int fd;
    uint64_t salt;
    uint64_t bytes, synced;
};

/* The head, into an empty file. -1: errno; after an error of any of these three the log ends in
 * what cannot be read, and is not to be written again. */
int coord_records_begin(struct coord_records *l, int fd);
/* bytes: of the value; NULL: the key is removed. In one write. */
int coord_records_put(struct coord_records *l, const char *key, const void *value, size_t bytes);
/* "All before me is on disk": of l->bytes, whatever l->synced says. */
int coord_records_mark(struct coord_records *l);

/* A value that was put; NULL: the key was removed. Not 0 ends the reading, which answers it. */
typedef int (*coord_records_take)(void *context, const char *key, const void *value, size_t bytes,
                                  struct err *e);
/* Reads a log of `bytes`, named path in errors; *whole: the bytes before a torn tail. CORRUPT,
 * VERSION. */
int coord_records_read(const char *path, const void *log, uint64_t bytes, coord_records_take take,
                       void *context, uint64_t *whole, struct err *e);

#endif
