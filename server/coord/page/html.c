/* html.c: texts and numbers in HTML; html.h. */
#include "server/coord/page/html.h"

#include <math.h>

void html_text(FILE *out, const char *text)
{
    for (; *text != 0; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

void html_string(FILE *out, const struct json *of, const char *path)
{
    html_text(out, json_as_string(json_get(of, path), ""));
}

double html_at(const struct json *of, const char *path)
{
    return json_as_number(json_get(of, path), (double)NAN);
}
