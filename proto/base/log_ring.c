/* log_ring.c: the last lines of the log in memory. A writer takes the next slot by one atomic
 * addition; the last byte of a slot is never written, so every slot ends. */
#include "proto/base/log_ring.h"

#include "proto/base/log_inner.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

static char ring[LOG_RING_LINES][LOG_RING_BYTES];
static atomic_uint written; /* lines so far; it may wrap, since LOG_RING_LINES divides 2^32 */

_Static_assert((LOG_RING_LINES & (LOG_RING_LINES - 1)) == 0, "a power of two");

void log_ring_put(const char *prefix, const char *text)
{
    unsigned slot = atomic_fetch_add(&written, 1) % LOG_RING_LINES;
    (void)snprintf(ring[slot], LOG_RING_BYTES - 1, "%s%s", prefix, text);
}

const char *log_ring_line(unsigned index)
{
    unsigned end = atomic_load(&written), begin = 0;
    if (end > LOG_RING_LINES)
        begin = end - LOG_RING_LINES;
    if (index >= end - begin)
        return NULL;
    return ring[(begin + index) % LOG_RING_LINES];
}
