/* html.c: style sheet, escaping, numbers. */
#include "deploy/cli/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: a rule a line */
static const char style[] =
    ":root{color-scheme:light "
    "dark;--paper:#f6f7f9;--card:#fff;--ink:#1b2230;--soft:#5b6577;--line:#e3e7ee;--grid:#edf0f4;\n"
    "--c1:#2563eb;--c2:#d9730d;--c3:#0f8a6a;--c4:#8b5cf6;--c5:#98a2b3;--tint:#eaf1fe;--shade:#"
    "1b223042}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#0f131a;--card:#171d27;--ink:#e6eaf2;--soft:#"
    "9aa5b8;--line:#2a3342;\n"
    "--grid:#222a37;--c1:#6ea2ff;--c2:#f0a04b;--c3:#3ec9a0;--c4:#b79bff;--c5:#66728a;--tint:#"
    "1b2840;--shade:#9aa5b85a}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);\n"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",\"DejaVu "
    "Sans\",sans-serif}\n"
    "main{max-width:1120px;margin:0 auto;padding:36px 24px 64px}\n"
    "header,.note,.said{overflow-wrap:anywhere}\n"
    "header{margin-bottom:26px}\n"
    "h1{font-size:30px;line-height:1.2;margin:0 0 "
    "6px;letter-spacing:-.02em;overflow-wrap:anywhere}\n"
    "h2{font-size:19px;margin:40px 0 14px;letter-spacing:-.01em}\n"
    "h3{font-size:14px;margin:0 0 2px;font-weight:600;overflow-wrap:anywhere}\n"
    "p{margin:0 0 10px}\n"
    ".note{color:var(--soft);font-size:13px;margin:4px 0 8px}\n"
    ".said{border-left:3px solid var(--line);padding:2px 10px;margin:6px 0;font-size:14px}\n"
    ".line{line-height:1.8}\n"
    ".p{display:inline-block;margin-right:14px;max-width:100%}\n"
    ".p span{color:var(--soft)}\n"
    ".p b{font-weight:500}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:12px}\n"
    ".tile,.card{background:var(--card);border:1px solid var(--line);border-radius:12px}\n"
    ".tile{padding:13px 15px}\n"
    ".tile .k{font-size:13px;color:var(--soft)}\n"
    ".tile "
    ".v{font-size:25px;font-weight:600;letter-spacing:-.02em;font-variant-numeric:tabular-nums}\n"
    ".tile .s{font-size:12.5px;color:var(--soft)}\n"
    ".cards+.card,.cards+details{margin-top:16px}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(440px,100%),1fr));gap:"
    "16px}\n"
    ".card{padding:16px 18px;min-width:0}\n"
    ".wide{grid-column:1/-1}\n"
    "svg{display:block;width:100%;height:auto;overflow:visible}\n"
    "svg.ranks{max-width:640px}\n"
    "svg text{font-size:11px;fill:var(--soft);font-family:inherit}\n"
    "svg .name{fill:var(--ink)}\n"
    "svg .grid{stroke:var(--grid)}\n"
    "svg .axis{stroke:var(--line)}\n"
    "svg .mark{stroke:var(--line);stroke-dasharray:2 3}\n"
    "svg .diag{stroke:var(--soft);stroke-dasharray:5 4;stroke-width:1.2}\n"
    "svg .band{fill:var(--tint)}\n"
    "svg .whisker{stroke:var(--soft);stroke-width:1.2}\n"
    "svg .bars rect{fill:var(--c5);opacity:.28}\n"
    "svg path{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
    "svg path.faint{stroke-width:1;opacity:.32}\n"
    "svg circle{stroke:var(--card);stroke-width:1.5}\n"
    "path.c1{stroke:var(--c1)}circle.c1,rect.c1{fill:var(--c1)}i.c1{background:var(--c1)}\n"
    "path.c2{stroke:var(--c2)}circle.c2,rect.c2{fill:var(--c2)}i.c2{background:var(--c2)}\n"
    "path.c3{stroke:var(--c3)}circle.c3,rect.c3{fill:var(--c3)}i.c3{background:var(--c3)}\n"
    "path.c4{stroke:var(--c4)}circle.c4,rect.c4{fill:var(--c4)}i.c4{background:var(--c4)}\n"
    "path.c5{stroke:var(--c5)}circle.c5,rect.c5{fill:var(--c5)}i.c5{background:var(--c5)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:8px 0 "
    "0;font-size:13px;color:var(--soft)}\n"
    ".legend i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}\n"
    ".legend b{color:var(--ink);font-weight:500}\n"
    /* a shade at the edge behind which there is more: covers of the card's colour go with what is
     * scrolled and hide it at the ends */
    ".scroll{overflow-x:auto;background:\n"
    "linear-gradient(90deg,var(--card) 40%,transparent) 0 0/44px 100% local no-repeat,\n"
    "linear-gradient(270deg,var(--card) 40%,transparent) 100% 0/44px 100% local no-repeat,\n"
    "linear-gradient(90deg,var(--shade),transparent) 0 0/18px 100% scroll no-repeat,\n"
    "linear-gradient(270deg,var(--shade),transparent) 100% 0/18px 100% scroll no-repeat,\n"
    "var(--card)}\n"
    "table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}"
    "\n"
    "th,td{padding:7px 12px 7px 0;text-align:right;border-bottom:1px solid "
    "var(--line);white-space:nowrap}\n"
    "th{font-weight:500;color:var(--soft)}\n"
    "th:first-child,td:first-child{text-align:left}\n"
    "tr:last-child td{border-bottom:0}\n"
    ".counts td:first-child{white-space:normal}\n"
    "@media(max-width:560px){main{padding:24px 14px 48px}svg text{font-size:17px}}\n"
    "tr.best td{background:var(--tint)}\n"
    ".code{font-family:ui-monospace,SFMono-Regular,Menlo,\"DejaVu Sans "
    "Mono\",monospace;font-size:12.5px}\n"
    "td "
    ".bar{display:inline-block;width:90px;height:8px;border-radius:4px;background:var(--grid);"
    "position:relative;\n"
    "vertical-align:middle;margin-left:10px}\n"
    "td .bar i{position:absolute;top:0;bottom:0;border-radius:4px}\n"
    ".over{background:var(--c2)}\n"
    ".under{background:var(--c1)}\n"
    "details summary{cursor:pointer;color:var(--soft);font-size:13.5px;margin-top:10px}\n"
    "footer{margin-top:44px;color:var(--soft);font-size:13px}\n"
    "@media print{body{background:#fff}.card,.tile{break-inside:avoid}}\n";
/* clang-format on */

void html_begin(FILE *out, const char *title)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    html_text(out, title);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", style);
}

void html_end(FILE *out)
{
    fputs("</main>\n</body>\n</html>\n", out);
}

void html_text(FILE *out, const char *text)
{
    for (const char *p = text == NULL ? "" : text; *p != '\0'; p++) {
        switch (*p) {
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
            fputc((unsigned char)*p < 0x20 ? '?' : *p, out);
        }
    }
}

/* Commas between thousands, in front of a point if there is one. */
static void group(char *digits, char out[32])
{
    size_t first = digits[0] == '-', point = strcspn(digits, "."), k = 0;
    for (size_t i = 0; digits[i] != '\0' && k < 30; i++) {
        if (i > first && i < point && (point - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

const char *html_number(double x, int digits, char out[32])
{
    char text[64];
    if (!isfinite(x)) {
        memcpy(out, "\u2013", sizeof "\u2013");
    } else if (x != 0 && (fabs(x) >= 1e15 || fabs(x) < 0.5 * pow(10, -digits))) {
        (void)snprintf(out, 32, "%.3g", x);
    } else {
        (void)snprintf(text, sizeof text, "%.*f", digits, x);
        group(text, out);
    }
    return out;
}

const char *html_short(double x, char out[32])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (fabs(x) >= units[i].unit) {
            (void)snprintf(out, 32, "%.4g%s", x / units[i].unit, units[i].name);
            return out;
        }
    (void)snprintf(out, 32, "%.4g", fabs(x) < 1e-12 ? 0 : x);
    return out;
}
