/* html.h: a page that needs nothing but itself: style sheet, escaping, numbers as people write
 * them. */
#ifndef DEPLOY_CLI_HTML_H
#define DEPLOY_CLI_HTML_H

#include <stdio.h>

/* The document up to <main>, and its end. title is escaped. */
void html_begin(FILE *out, const char *title);
void html_end(FILE *out);
/* Text as text: &, <, >, " and ' become entities, control characters '?'. NULL is nothing. */
void html_text(FILE *out, const char *text);
/* 1234567 -> "1,234,567"; 1.2345e-5 -> "1.23e-05"; not finite -> "–". At most `digits` behind the
 * point. */
const char *html_number(double x, int digits, char out[32]);
/* 1234567 -> "1.2M": short, for axes. */
const char *html_short(double x, char out[32]);

#endif
