/* zone.h: time zones: how far local clocks are ahead of UTC from when on; local days, and windows
 * that keep to them.
 *
 * A zone is a table, from 1970 to 2106: read once from the machine's compiled zone files (RFC
 * 8536), then handed on as text, so that who computes with it needs no such files, and equals who
 * read them. A plain value; no state, any thread.
 *
 * A local day begins at the last moment at which clocks get to its midnight, or past it where there
 * is none: days follow one another without gaps, of 23, 24 or 25 hours. */
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
    int32_t ahead; /* of UTC, seconds */
};

struct zone {
    char name[ZONE_NAME]; /* IANA's: "Europe/Berlin" */
    uint32_t count;       /* 0: UTC; else change[0].from is 0 */
    struct zone_change change[ZONE_CHANGES];
};

#define ZONE_UTC ((struct zone){.name = "UTC"})

/* Of this machine's zone files. NOT_FOUND (there is none of that name, or there are no files),
 * CORRUPT. */
int zone_load(const char *name, struct zone *out, struct err *e);
/* What a zone file says, any bytes; the name is the caller's. CORRUPT, without a text. */
int zone_read(const void *file, size_t bytes, struct zone *out);
/* All names that the machine has files of, one after the other, until `see` says false. */
void zone_names(bool (*see)(void *context, const char *name), void *context);

/* "0+3600 323830800+7200 ..", of UTC empty, and back: CORRUPT, without a text. */
void zone_text(const struct zone *z, char out[ZONE_TEXT]);
int zone_parse(const char *text, struct zone *out);
bool zone_same(const struct zone *a, const struct zone *b); /* whatever their names */
/* Of a table; 0 of UTC. */
uint64_t zone_hash(const struct zone *z);

int32_t zone_ahead(const struct zone *z, uint64_t at);
/* When clocks show `local` (seconds since 1970, as if they showed UTC): of an hour that comes twice
 * the first; of one left out as clocks went before. May be negative. */
int64_t zone_time(const struct zone *z, int64_t local);
/* When the local day begins that has `at`, and the day so many days later. */
uint64_t zone_midnight(const struct zone *z, uint64_t at, uint32_t later);

/* What clocks show from `local` on, for so many seconds of them, at most a day: an hour that comes
 * twice is both. False: it is left out, or before 1970. */
bool zone_span(const struct zone *z, int64_t local, uint32_t lasts, uint32_t *from,
               uint32_t *seconds);

/* Windows of so many seconds: of UTC they follow one another from 1970 on. Else: those of whole
 * days are that many local days, from 1970-01-01 on; shorter ones begin at each midnight, and the
 * last of a day may be cut short; others are none. */
bool zone_fits(const struct zone *z, uint32_t seconds);
/* First second of the window that has `at`, and the first one behind it. */
uint32_t zone_begin(const struct zone *z, uint32_t seconds, uint32_t at);
uint64_t zone_end(const struct zone *z, uint32_t seconds, uint32_t begin);
/* A window's number, which rises with time, and where the window of a number begins. */
uint32_t zone_number(const struct zone *z, uint32_t seconds, uint32_t at);
uint32_t zone_from(const struct zone *z, uint32_t seconds, uint32_t number);

/* "2026-03-29T00:00:00+01:00"; of UTC with a Z. */
void zone_label(const struct zone *z, uint64_t at, char out[32]);

#endif
