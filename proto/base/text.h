/* text.h: text from other programs, before a person sees it, and parts of sentences. */
#ifndef PROTO_BASE_TEXT_H
#define PROTO_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Replaces bytes that could control a terminal or begin a line of their own by '?', in place: bytes
 * below 0x20, 0x7f, the 8-bit control characters (0x80 to 0x9f, alone or as UTF-8), and every byte
 * that is not part of valid UTF-8. Other UTF-8 stays. Returns text. */
char *text_clean(char *text);

/* The first byte that text_clean would replace, or NULL. A text with such a byte would be shown
 * changed, so it cannot be a name (wire.c). */
const char *text_unclean(const char *text);

/* Overwrites USER:PASSWORD in each SCHEME://USER:PASSWORD@HOST by '*', in place. A text that is cut
 * inside of one keeps it. */
void text_passwords_hide(char *text, size_t bytes);

/* Copies text into out (bytes), cut where it does not fit; out always ends with 0. */
void text_copy(char *out, size_t bytes, const char *text);

/* The length of the first line, without its newline. */
size_t text_line(const char *text, size_t bytes);

/* 1234567 -> "1,234,567" */
char *text_count(uint64_t n, char out[32]);

/* The text, or the other one where it is NULL. */
static inline const char *text_or(const char *text, const char *other)
{
    return text != NULL ? text : other;
}

/* The text, or the other one where it is empty. */
static inline const char *text_unless_empty(const char *text, const char *other)
{
    return text[0] != '\0' ? text : other;
}

/* The text, or "". */
static inline const char *text_if(bool shown, const char *text)
{
    return shown ? text : "";
}

#endif
