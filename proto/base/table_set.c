/* table_set.c: sets of tables. */
#include "proto/base/table_set.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint32_t table_set_lowest(struct table_set s)
{
    return table_set_next(&s, 0);
}

uint32_t table_set_count(struct table_set s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TABLE_SET_WORDS; i++)
        count += (uint32_t)__builtin_popcountll(s.word[i]);
    return count;
}

struct table_set table_set_first(uint32_t count)
{
    struct table_set s = TABLE_SET_NONE;
    SHOAL_ASSERT(count <= LIMIT_TABLES);
    for (uint32_t t = 0; t < count; t++)
        table_set_add(&s, t);
    return s;
}

bool table_set_is_first(struct table_set s)
{
    return table_set_equal(s, table_set_first(table_set_count(s)));
}

uint32_t table_set_nth(struct table_set s, uint32_t index)
{
    TABLE_SET_EACH (t, &s)
        if (index-- == 0)
            return t;
    return LIMIT_TABLES;
}

void table_set_text(struct table_set s, char out[TABLE_SET_TEXT])
{
    uint32_t words = TABLE_SET_WORDS, at = 2;
    if (table_set_is_word(s))
        words = 1;
    memcpy(out, "0x", 3);
    for (; words > 0; words--, at += 16)
        (void)snprintf(out + at, 17, "%016" PRIx64, s.word[words - 1]);
}

bool table_set_parse(const char *text, struct table_set *out)
{
    static const char digits[] = "0123456789abcdef";
    *out = TABLE_SET_NONE;
    const size_t length = strlen(text);
    if (strncmp(text, "0x", 2) != 0 || (length != 2 + 16 && length != TABLE_SET_TEXT - 1))
        return false;
    for (size_t i = 2; i < length; i++) {
        const char *digit = strchr(digits, text[i]);
        const size_t bit = 4 * (length - 1 - i);
        if (digit == NULL)
            return false;
        out->word[bit / 64] |= (uint64_t)(digit - digits) << bit % 64;
    }
    return true;
}
