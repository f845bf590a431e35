/* since.c: when facts were first found; since.h. */
#include "server/coord/fleet/since.h"

#include "proto/base/hash.h"

#include <stdio.h>
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

void coord_since_fact(const char *text, char *out, size_t bytes)
{
    size_t count = strcspn(text, ":;,(");
    for (size_t i = 1; i < count; i++)
        if (text[i - 1] == ' ' && text[i] >= '0' && text[i] <= '9')
            count = i;
    while (count > 0 && text[count - 1] == ' ')
        count--;
    (void)snprintf(out, bytes, "%.*s", (int)count, text);
}

double coord_since_seconds(struct coord_since *s, const char *fact, uint64_t now_ns)
{
    uint64_t hash = hash_bytes(fact, strlen(fact), 0);
    uint32_t at = 0, oldest = 0;
    while (at < s->count && s->of[at].fact != hash) {
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
    s->of[at].fact = hash;
    s->of[at].first_ns = s->of[at].last_ns = now_ns;
    return 0;
}
