/* plant.h: faults that are planted on purpose, one for each kind that the tests must find:
 * tests/plants.
 *
 * In a build with SHOAL_PLANTS=ON, PLANTED(name) is true when the environment variable SHOAL_PLANT
 * names that fault. In every other build it is the constant false and leaves no code. */
#ifndef PROTO_BASE_PLANT_H
#define PROTO_BASE_PLANT_H

#include <stdbool.h>

#ifdef SHOAL_PLANTS
#include <stdlib.h>
#include <string.h>

static inline bool plant_named(const char *name)
{
    const char *asked = getenv("SHOAL_PLANT");
    return asked != NULL && strcmp(asked, name) == 0;
}
#define PLANTED(name) plant_named(name)
#else
#define PLANTED(name) false
#endif

#endif
