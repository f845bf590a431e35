/* recent.c: reported connections, by hash. */
#include "proto/net/recent.h"

#include "proto/base/hash.h"

#include <string.h>

static uint64_t hash_of(const char *key, const char *address, const char *result)
{
    uint64_t h = hash_bytes(key, strlen(key), 0);
    h = hash_bytes(address, strlen(address), h);
    h = hash_bytes(result, strlen(result), h);
    if (h != 0)
        return h;
    return 1;
}

bool recent_tell(struct recent *r, const char *key, const char *address, const char *result,
                 uint64_t now_ns, uint64_t *before)
{
    uint64_t what = hash_of(key, address, result);
    uint32_t at = 0; /* its entry, else a free one or the oldest */
    for (uint32_t i = 0; i < RECENT_PLACES && r->place[at].what != what; i++)
        if (r->place[i].what == what || r->place[i].told_ns < r->place[at].told_ns)
            at = i;
    bool known = r->place[at].what == what;
    if (known && now_ns - r->place[at].told_ns < RECENT_NS) {
        r->place[at].count++;
        return false;
    }
    *before = 0;
    if (known)
        *before = r->place[at].count;
    r->place[at].what = what;
    r->place[at].told_ns = now_ns;
    r->place[at].count = 0;
    return true;
}
