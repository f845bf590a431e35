/* text.c: one walk over the bytes. */
#include "proto/base/text.h"

#include <stdbool.h>
#include <stddef.h>

void text_clean(char *text)
{
    unsigned char before = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool upper = byte >= 0x80 && byte < 0xa0; /* a control character, or the rest of another */
        if (upper && before == 0xc2)
            text[i - 1] = '?';
        if (byte < 0x20 || byte == 0x7f || (upper && (before < 0x80 || before == 0xc2)))
            text[i] = '?';
        before = byte;
    }
}
