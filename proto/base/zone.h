/* zone.h: time zones: the offset of local clocks from UTC over time, local days, and windows
 * aligned to them.
 *
 * A zone is a table from 1970 to 2106. It is read once from the machine's compiled zone files (RFC
 * 8536) and then passed on as text. So another machine needs no such files and computes the same. A
 * plain value; no state, any thread.
 *
 * A local day begins at the last moment at which the clocks reach its midnight, or pass it where
 * they skip it. So days follow one another without gaps and last 23, 24 or 25 hours. */
#ifndef PROTO_BASE_ZONE_H
#define PROTO_BASE_ZONE_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_DAY 86400u
#define ZONE_NAME 64u
#define ZONE_CHANGES 512u
#define ZONE_TEXT (ZONE_CHANGES * 18u + 1u)

struct zone_change {
    uint32_t from; /* seconds since 1970 */
    int32_t ahead; /* offset from UTC in seconds; positive: ahead */
};

struct zone {
    char name[ZONE_NAME]; /* IANA's: "Europe/Berlin" */
    uint32_t count;       /* 0: UTC; else change[0].from is 0 */
    struct zone_change change[ZONE_CHANGES];
};

#define ZONE_UTC ((struct zone){.name = "UTC"})

/* Reads a zone from this machine's zone files. NOT_FOUND (no zone has that name, or there are no
 * files), CORRUPT. */
int zone_load(const char *name, struct zone *out, struct err *e);
/* Parses a zone file, which may be any bytes; the name is the caller's. CORRUPT, without a text. */
int zone_read(const void *file, size_t bytes, struct zone *out);
/* Calls `see` for each zone name of this machine, until it returns false. */
void zone_names(bool (*see)(void *context, const char *name), void *context);

/* Writes "0+3600 323830800+7200 ..", empty for UTC; zone_parse reads it. CORRUPT, without a
 * text. */
void zone_text(const struct zone *z, char out[ZONE_TEXT]);
int zone_parse(const char *text, struct zone *out);
bool zone_same(const struct zone *a, const struct zone *b); /* ignores names */
/* A hash of the table; 0 for UTC. */
uint64_t zone_hash(const struct zone *z);

int32_t zone_ahead(const struct zone *z, uint64_t at);
/* The time when the clocks show `local` (seconds since 1970, as if they showed UTC). An hour that
 * occurs twice: the first time. A skipped hour: as if the offset before it still held. May be
 * negative. */
int64_t zone_time(const struct zone *z, int64_t local);
/* The start of the local day that is `later` days after the one that contains `at`. */
uint64_t zone_midnight(const struct zone *z, uint64_t at, uint32_t later);

/* The time span in which the clocks show `local` and the next `lasts` seconds, at most a day. An
 * hour that occurs twice counts twice. False: the clocks skip it, or it is before 1970. */
bool zone_span(const struct zone *z, int64_t local, uint32_t lasts, uint32_t *from,
               uint32_t *seconds);

/* True when windows of `seconds` exist. In UTC they follow one another from 1970 on. In other
 * zones, a window of whole days is that many local days, counted from 1970-01-01. Shorter windows
 * begin at each midnight, and the last of a day may be cut short. Other lengths are not allowed. */
bool zone_fits(const struct zone *z, uint32_t seconds);
/* The first second of the window that contains `at`, and the first one behind it. */
uint32_t zone_begin(const struct zone *z, uint32_t seconds, uint32_t at);
uint64_t zone_end(const struct zone *z, uint32_t seconds, uint32_t begin);
/* The number of a window, which rises with time, and the start of the window of a number. */
uint32_t zone_number(const struct zone *z, uint32_t seconds, uint32_t at);
uint32_t zone_from(const struct zone *z, uint32_t seconds, uint32_t number);

/* "2026-03-29T00:00:00+01:00"; UTC ends in Z. */
void zone_label(const struct zone *z, uint64_t at, char out[32]);

#endif
