/* term.c: terms and the newest common record. Invariants 1 and 2: term.h. */
#include "embedding/journal/term.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/minmax.h"

#include <stdbool.h>
#include <string.h>

uint64_t term_last(const struct terms *t)
{
    if (t->count == 0)
        return 0;
    return t->begin[t->count - 1].term;
}

void term_add(struct terms *t, uint64_t term, uint64_t sequence)
{
    SHOAL_ASSERT(t->count <= TERMS_KEPT && term > term_last(t)); /* 1 */
    SHOAL_ASSERT(t->count == 0 || sequence > t->begin[t->count - 1].sequence);
    if (t->count == TERMS_KEPT) {
        t->dropped = t->begin[0].term;
        memmove(&t->begin[0], &t->begin[1], (TERMS_KEPT - 1) * sizeof t->begin[0]);
        t->count--;
    }
    t->begin[t->count++] = (struct term_begin){term, sequence};
}

int term_common(const struct terms *t, uint64_t newest, uint64_t term, uint64_t sequence,
                uint64_t *common)
{
    bool known = term == 0 && t->dropped == 0; /* the records before the first term */
    uint64_t end = newest;
    for (uint32_t i = t->count; i-- > 0 && t->begin[i].term >= term;) {
        known |= t->begin[i].term == term;
        if (t->begin[i].term > term)
            end = t->begin[i].sequence - 1;
    }
    if (!known)
        return SHOAL_E_NOT_FOUND;
    *common = MIN(end, sequence);
    return 0;
}
