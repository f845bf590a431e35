/* since.c: when sentences were first found; since.h. */
#include "server/coord/fleet/since.h"

#include "proto/base/hash.h"

#include <string.h>

uint64_t coord_since_words(const char *text)
{
    uint64_t words = 0;
    while (*text != 0) {
        size_t bytes = strcspn(text, " "), digits = strspn(text, "0123456789.,:;()");
        if (digits < bytes && strncmp(text, "shard-", strlen("shard-")) != 0)
            words = hash_bytes(text, bytes, words);
        text += bytes;
        text += strspn(text, " ");
    }
    return words;
}

double coord_since_seconds(struct coord_since *s, const char *text, uint64_t now_ns)
{
    uint64_t words = coord_since_words(text);
    uint32_t at = 0, oldest = 0;
    while (at < s->count && s->of[at].words != words) {
        if (s->of[at].last_ns < s->of[oldest].last_ns)
            oldest = at;
        at++;
    }
    if (at == COORD_SINCE_MAX)
        at = oldest;
    else if (at == s->count)
        s->count++;
    else if (now_ns - s->of[at].last_ns <= COORD_SINCE_GONE_NS) {
        s->of[at].last_ns = now_ns;
        return (double)(now_ns - s->of[at].first_ns) * 1e-9;
    }
    s->of[at].words = words;
    s->of[at].first_ns = s->of[at].last_ns = now_ns;
    return 0;
}
