/* salt.h: secret numbers of this process, against crafted keys.
 *
 * A client that writes keys can compute key_mix and its inverse. So it can choose keys that all
 * hash to one slot of a table, and each search among them walks past all others (Crosby and
 * Wallach, "Denial of Service via Algorithmic Complexity Attacks", 2003). A slot that also depends
 * on a salt cannot be predicted from outside.
 *
 * A salt is never stored, sent or logged, and no result may depend on one: the set of keys in a
 * table does not, their order in memory does. */
#ifndef PROTO_BASE_SALT_H
#define PROTO_BASE_SALT_H

#include "proto/base/key.h"

#include <stdint.h>

/* Returns another salt at each call; any thread. 0, no salt, where the kernel gives no random
 * numbers: crafted keys are then slow, but results stay right. */
uint64_t salt_draw(void);

/* The hash that decides the slot of a mixed key; without a salt it is the mixed key itself. It
 * takes two rounds: some differences of keys pass a single round unchanged, whatever the salt. */
static inline uint64_t salt_mix(uint64_t salt, uint64_t mixed)
{
    return salt == 0 ? mixed : key_mix(key_mix(mixed ^ salt) + salt);
}

#endif
