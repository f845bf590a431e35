/* container_of.h: from a struct embedded in another to that other, its owner. */
#ifndef PROTO_BASE_CONTAINER_OF_H
#define PROTO_BASE_CONTAINER_OF_H

#include <stddef.h>

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
