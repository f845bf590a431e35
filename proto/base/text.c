/* text.c: one walk over the bytes. */
#include "proto/base/text.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool follows(unsigned char byte)
{
    return byte >= 0x80 && byte < 0xc0;
}

/* The length of the UTF-8 character at `p`, above 0x9f; 0: there is none. In a truncated character
 * the final '\0' stands where a continuation byte would, so it is not accepted. */
static size_t character(const unsigned char *p)
{
    /* after these lead bytes fewer second bytes are valid: no overlong forms, surrogates or code
     * points above U+10FFFF */
    bool narrow = (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xe0 && p[1] < 0xa0) ||
                  (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
                  (p[0] == 0xf4 && p[1] > 0x8f);
    if (p[0] < 0xc2 || p[0] > 0xf4 || !follows(p[1]) || narrow)
        return 0;
    if (p[0] < 0xe0)
        return 2;
    if (!follows(p[2]))
        return 0;
    if (p[0] < 0xf0)
        return 3;
    if (follows(p[3]))
        return 4;
    return 0;
}

const char *text_unclean(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p != '\0') {
        size_t more = 0;
        if (*p >= 0x80)
            more = character(p);
        if (more == 0 && (*p < 0x20 || *p >= 0x7f))
            return (const char *)p;
        p += MAX(more, 1);
    }
    return NULL;
}

void text_copy(char *out, size_t bytes, const char *text)
{
    size_t count = strnlen(text, bytes - 1);
    memcpy(out, text, count);
    out[count] = 0;
}

size_t text_line(const char *text, size_t bytes)
{
    const char *newline = memchr(text, '\n', bytes);
    if (newline == NULL)
        return bytes;
    return (size_t)(newline - text);
}

char *text_clean(char *text)
{
    const char *p = text;
    while ((p = text_unclean(p)) != NULL) {
        text[p - text] = '?';
        p++;
    }
    return text;
}

/* True for a byte behind which no host of the same URL comes. */
static bool ends_user(char c)
{
    return c == '/' || c == '"' || c == '\'' || (unsigned char)c <= ' ';
}

void text_passwords_hide(char *text, size_t bytes)
{
    char *end = text + bytes, *at = text;
    while ((at = memmem(at, (size_t)(end - at), "://", 3)) != NULL) {
        char *begin = at + 3, *last = begin; /* last: the last '@' */
        for (at = begin; at < end && !ends_user(*at); at++)
            if (*at == '@')
                last = at;
        memset(begin, '*', (size_t)(last - begin));
    }
}

char *text_count(uint64_t n, char out[32])
{
    char digit[24];
    int digits = snprintf(digit, sizeof digit, "%" PRIu64, n), at = 0;
    for (int i = 0; i < digits; i++) {
        if (i > 0 && (digits - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digit[i];
    }
    out[at] = '\0';
    return out;
}
