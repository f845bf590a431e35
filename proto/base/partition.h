/* partition.h: the time in the name of a file or object. By the pattern {date}/{hour}/part-*, the
 * name logs/2026-03-04/05/part-00.gz belongs to one hour.
 *
 * {date} is YYYY-MM-DD, {year} has four digits, and {month}, {day}, {hour} and {minute} have two;
 * {hour:6} and {minute:15} say how long a partition lasts. `*` matches any bytes within a path
 * part; other bytes match themselves. The pattern is compared with the last parts of the name
 * (separated by slashes), as many as it has itself. A plain value; no state, any thread. */
#ifndef PROTO_BASE_PARTITION_H
#define PROTO_BASE_PARTITION_H

#include "proto/base/zone.h"

#define PARTITION_ITEMS 128u
#define PARTITION_TEXT 256u

struct partition {
    char text[PARTITION_TEXT];
    uint32_t step; /* length of a partition in seconds: a day, hours, minutes; 0: no pattern */
    uint32_t items, slashes;
    struct partition_item {
        uint8_t kind, value; /* value: a byte, or the divisor of an hour or minute */
    } item[PARTITION_ITEMS];
};

/* CONFIG: *e says what is wrong with the pattern, without naming the key. */
int partition_parse(const char *text, struct partition *out, struct err *e);
/* The partition of a name, from its start to its end by the zone's clocks. CONFIG: the name does
 * not match, or names an hour that the clocks skip. */
int partition_of(const struct partition *p, const struct zone *zone, const char *name, size_t bytes,
                 uint32_t *from, uint32_t *to, struct err *e);

#endif
