/* minmax.h: the lesser and the greater of two values of one type. */
#ifndef PROTO_BASE_MINMAX_H
#define PROTO_BASE_MINMAX_H

/* An argument may be evaluated twice: it has no side effects. */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
