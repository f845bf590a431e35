/* partition.h: the time that stands in a name: logs/2026-03-04/05/part-00.gz has all of an hour, by
 * the pattern {date}/{hour}/part-*.
 *
 * {date} is YYYY-MM-DD, {year} of four digits, {month}, {day}, {hour} and {minute} of two; {hour:6}
 * and {minute:15} say how long a partition lasts. `*` is any bytes of a part, all others are
 * themselves. As many parts as the pattern has, parted by slashes, are compared with the last ones
 * of the name. A plain value; no state, any thread. */
#ifndef PROTO_BASE_PARTITION_H
#define PROTO_BASE_PARTITION_H

#include "proto/base/zone.h"

#define PARTITION_ITEMS 128u
#define PARTITION_TEXT 256u

struct partition {
    char text[PARTITION_TEXT];
    uint32_t step; /* seconds that one lasts: a day, hours, minutes; 0: there is no pattern */
    uint32_t items, slashes;
    struct partition_item {
        uint8_t kind, value; /* value: a byte, or of what an hour or a minute is a multiple */
    } item[PARTITION_ITEMS];
};

/* CONFIG: *e says what is wrong with it, without naming the key. */
int partition_parse(const char *text, struct partition *out, struct err *e);
/* The partition of a name: from its begin up to its end by the zone's clocks. CONFIG: the name does
 * not match, or is of an hour that clocks leave out. */
int partition_of(const struct partition *p, const struct zone *zone, const char *name, size_t bytes,
                 uint32_t *from, uint32_t *to, struct err *e);

#endif
