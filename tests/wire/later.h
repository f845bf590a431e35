/* later.h: the wire of a release that comes after this one: JOBS is new, as is what STOP's reply
 * says of `ends`. It stands before wire.h. */
#ifndef TESTS_WIRE_LATER_H
#define TESTS_WIRE_LATER_H

#define WIRE_VERSION 10u
#define WIRE_OLDEST 9u
#define WIRE_SINCE(X) X(JOBS, 10)
#define WIRE_LATER(X) X(STOP_REPLY, 1)

#endif
