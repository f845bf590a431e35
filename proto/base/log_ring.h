/* log_ring.h: the last lines of the log in memory, for the report of a crash (crash.h). */
#ifndef PROTO_BASE_LOG_RING_H
#define PROTO_BASE_LOG_RING_H

enum { LOG_RING_LINES = 64, LOG_RING_BYTES = 256 };

/* Line `index`, 0 is the oldest that is kept; NULL behind the newest. Valid until LOG_RING_LINES
 * more lines are logged. Async-signal-safe: no lock is taken, and a line that is just being written
 * may be mixed with an older one. */
const char *log_ring_line(unsigned index);

#endif
