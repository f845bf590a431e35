/* minmax.h: the lesser and the greater of two values of one type, and their difference. */
#ifndef PROTO_BASE_MINMAX_H
#define PROTO_BASE_MINMAX_H

/* An argument may be evaluated twice: it has no side effects. */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* a - b of unsigned values; 0 where b is greater. */
#define SAT_SUB(a, b) ((a) > (b) ? (a) - (b) : 0)

#endif
