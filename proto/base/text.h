/* text.h: text from other programs, before a person sees it. */
#ifndef PROTO_BASE_TEXT_H
#define PROTO_BASE_TEXT_H

/* Replaces bytes that could control a terminal or begin a line of their own by '?', in place: bytes
 * below 0x20, 0x7f, the 8-bit control characters (0x80 to 0x9f, alone or as UTF-8), and every byte
 * that is not part of valid UTF-8. Other UTF-8 stays. Returns text. */
char *text_clean(char *text);

/* The first byte that text_clean would replace, or NULL. A text with such a byte would be shown
 * changed, so it cannot be a name (wire.c). */
const char *text_unclean(const char *text);

#endif
