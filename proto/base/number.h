/* number.h: numbers as people read them, on a terminal and on the status page. NaN and what no unit
 * can show is "-". All write into `text` and return it. */
#ifndef PROTO_BASE_NUMBER_H
#define PROTO_BASE_NUMBER_H

#define NUMBER_TEXT 48
const char *number_count(double x, char text[NUMBER_TEXT]); /* "1,234,567" */
const char *number_short(double x, char text[NUMBER_TEXT]); /* "1.23 M", "12.3 k", "123", "0.012" */
const char *number_bytes(double x, char text[NUMBER_TEXT]); /* "1.23 GB" */
const char *number_seconds(double x, char text[NUMBER_TEXT]); /* "12 s", "3 min 5 s", "2 h 5 min" */
const char *number_figure(double x, char text[NUMBER_TEXT]);  /* four digits behind the point */

#endif
