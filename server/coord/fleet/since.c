/* since.c: when sentences were first found; since.h. */
#include "server/coord/fleet/since.h"

#include "proto/base/hash.h"

#include <stdbool.h>
#include <string.h>

static bool ends_in(const char *word, size_t bytes, const char *end)
{
    size_t of = strlen(end);
    return bytes >= of && memcmp(word + bytes - of, end, of) == 0;
}

/* The hash of the words that name: all but numbers, and the number of a shard. */
static uint64_t words_of(const char *text)
{
    uint64_t words = 0;
    bool names = false; /* the next word is the number of a shard */
    while (*text != 0) {
        size_t bytes = strcspn(text, " "), digits = strspn(text, "0123456789.,:;()");
        if (digits < bytes || names)
            words = hash_bytes(text, bytes, words);
        names = ends_in(text, bytes, "shard");
        text += bytes;
        text += strspn(text, " ");
    }
    return words;
}

double coord_since_seconds(struct coord_since *s, const char *text, uint64_t now_ns)
{
    uint64_t words = words_of(text);
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
