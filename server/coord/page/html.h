/* html.h: texts and numbers in HTML. */
#ifndef SERVER_COORD_PAGE_HTML_H
#define SERVER_COORD_PAGE_HTML_H

#include "proto/base/json.h"

#include <stdio.h>

/* Writes text as content or as the value of an attribute in double quotes. A character that turns
 * the direction of a text is replaced. */
void html_text(FILE *out, const char *text);
/* The string at a path; nothing where there is none. */
void html_string(FILE *out, const struct json *of, const char *path);
/* The same as content that has its own direction: a name beside other text. */
void html_name(FILE *out, const struct json *of, const char *path);

/* The number at a path; NaN where there is none. */
double html_at(const struct json *of, const char *path);

#endif
