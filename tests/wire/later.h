/* later.h: the wire of a later release: JOBS is new, and so is the field `ends` in STOP's reply. It
 * is included before wire.h. */
#ifndef TESTS_WIRE_LATER_H
#define TESTS_WIRE_LATER_H

#define WIRE_VERSION 12u
#define WIRE_OLDEST 11u
#define WIRE_SINCE(X) X(JOBS, 12)
#define WIRE_LATER(X) X(STOP_REPLY, 1)

#endif
