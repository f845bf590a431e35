/* salt.c: one random number from the kernel, and a sequence that follows from it. */
#include "proto/base/salt.h"

#include "proto/base/rng.h"

#include <stdatomic.h>
#include <sys/random.h>

#define STEP 0x9e3779b97f4a7c15ULL /* splitmix64 */

uint64_t salt_draw(void)
{
    static _Atomic uint64_t state; /* 0: not drawn yet */
    if (atomic_load(&state) == 0) {
        uint64_t first, none = 0;
        if (getrandom(&first, sizeof first, 0) != sizeof first)
            return 0;
        /* another thread's number is as good */
        (void)atomic_compare_exchange_strong(&state, &none, first);
    }
    uint64_t salt = rng_mix(atomic_fetch_add(&state, STEP));
    return salt == 0 ? STEP : salt;
}
