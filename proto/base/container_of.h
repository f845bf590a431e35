/* container_of.h: from a pointer to an embedded struct to the struct that contains it, its owner. A
 * pointer whose type is not the member's does not compile. */
#ifndef PROTO_BASE_CONTAINER_OF_H
#define PROTO_BASE_CONTAINER_OF_H

#include <stddef.h>

#define container_of(pointer, type, member)                                                        \
    ((type *)((char *)(pointer)-offsetof(type, member) +                                           \
              0 * sizeof((pointer) == &((type *)NULL)->member)))

#endif
