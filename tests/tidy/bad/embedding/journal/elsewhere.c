/* elsewhere.c: holds an invariant of another file. */
#include "proto/base/assert.h"

static void asserted_elsewhere(int x)
{
    SHOAL_VERIFY_ASSERT(x > 0); /* invariants.c, 8 */
}
