/* no_room.c: a source outside of every room. */
#include "proto/base/err.h"
