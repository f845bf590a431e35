/* inside.c: enters a house by the window, and a header by its first name. Included by nobody. */
#include "embedding/rows/cold.h"

#include "inside.h"
