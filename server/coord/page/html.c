/* html.c: texts and numbers in HTML; html.h. */
#include "server/coord/page/html.h"

#include <math.h>
#include <stdbool.h>

/* True for a character that changes the direction of what follows it (U+202A to U+202E, U+2066 to
 * U+2069): a name with one would reorder the sentence that it stands in. */
static bool turns(const unsigned char *p)
{
    return p[0] == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
                            (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}

void html_text(FILE *out, const char *text)
{
    for (; *text != 0; text++) {
        if (turns((const unsigned char *)text)) {
            fputs("\xef\xbf\xbd", out); /* the character for what cannot be shown */
            text += 2;
            continue;
        }
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
    html_text(out, json_get_string(of, path, ""));
}

void html_name(FILE *out, const struct json *of, const char *path)
{
    fputs("<bdi>", out);
    html_string(out, of, path);
    fputs("</bdi>", out);
}

double html_at(const struct json *of, const char *path)
{
    return json_get_number(of, path, (double)NAN);
}
