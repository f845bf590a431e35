/* invariants.c: numbered invariants: 1 to 4 are held by nothing, 5 to 8 by what they name.
 *
 *  1. Nothing is named.
 *  2. The assert cites another number. [assert: asserted]
 *  3. No such case is there. [test: no_such_case]
 *  4. Nothing static is there. [static]
 *  5. The assert cites it. [assert: asserted]
 *  6. A case of that name is there. [test: invariants_hold]
 *  7. It is checked by the compiler. [static]
 *  8. Another file cites it, and this one. [assert: asserted_elsewhere] */
#include "proto/base/assert.h"

_Static_assert(sizeof(int) == 4, "7");                    /* 7 */
_Static_assert(sizeof(char) == 1, "of nobody's concern"); /* 17 */

static void asserted(int x)
{
    /* 5: what came before was positive */
    SHOAL_ASSERT(x > 0);
    SHOAL_ASSERT(x < 9); /* 17 */
}
