/* salt.h: numbers that only this process knows, against keys that were made to meet.
 *
 * Whoever may write keys can compute key_mix and its inverse, and so choose keys that all want one
 * place of a hash table: each search among them then walks past all others (Crosby and Wallach,
 * "Denial of Service via Algorithmic Complexity Attacks", 2003). Where the place hangs on a salt
 * too, nobody outside can aim at it.
 *
 * A salt is never stored, sent or logged, and no result may hang on one: which keys are in a table
 * does not, in which order they lie in memory does. */
#ifndef PROTO_BASE_SALT_H
#define PROTO_BASE_SALT_H

#include "proto/base/key.h"

#include <stdint.h>

/* Another one each time, from any thread. 0, no salt, where the kernel gives no random numbers:
 * crafted keys are slow then, as they were, and nothing is wrong. */
uint64_t salt_draw(void);

/* What decides about the place of a mixed key; without a salt the mixed key itself. Two rounds:
 * through one alone some differences of keys come unharmed, whatever the salt. */
static inline uint64_t salt_mix(uint64_t salt, uint64_t mixed)
{
    return salt == 0 ? mixed : key_mix(key_mix(mixed ^ salt) + salt);
}

#endif
