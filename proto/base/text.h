/* text.h: text of others before a person sees it. */
#ifndef PROTO_BASE_TEXT_H
#define PROTO_BASE_TEXT_H

/* Turns what could speak to a terminal or begin a line of its own into '?', in place: bytes below
 * 0x20, 0x7f, the control characters of eight bits (0x80 to 0x9f, alone or as UTF-8), and every
 * byte that belongs to no character of UTF-8. The rest of UTF-8 stays. Returns text. */
char *text_clean(char *text);

/* The first byte that text_clean would turn, or NULL. A text in which there is one reaches the
 * reader of a message as another text, so it can be no name (wire.c). */
const char *text_unclean(const char *text);

#endif
