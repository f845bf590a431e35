/* container_of.h: from a struct embedded in another to that other, its owner. A pointer of another
 * type than the member's does not compile. */
#ifndef PROTO_BASE_CONTAINER_OF_H
#define PROTO_BASE_CONTAINER_OF_H

#include <stddef.h>

#define container_of(pointer, type, member)                                                        \
    ((type *)((char *)(pointer)-offsetof(type, member) +                                           \
              0 * sizeof((pointer) == &((type *)NULL)->member)))

#endif
