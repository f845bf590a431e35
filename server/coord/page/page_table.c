/* page_table.c: tables. What is wide scrolls inside its card, which the keyboard reaches, too. */
#include "proto/base/text.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

static void head_write(const struct page_table *t)
{
    fputs("<table><thead><tr>", t->out);
    for (size_t i = 0; i < t->heads; i++)
        fprintf(t->out, "<th scope=\"col\"%s>%s</th>", text_if(t->head[i].text, " class=\"t\""),
                t->head[i].name);
    fputs("</tr></thead><tbody>", t->out);
}

void page_table_begin(const struct page_table *t, const char *about)
{
    fprintf(t->out, "<section><h2>%s", t->name);
    if (about[0] != 0) {
        fputs(" <small>", t->out);
        html_text(t->out, about);
        fputs("</small>", t->out);
    }
    fprintf(t->out,
            "</h2><div class=\"card scroll\" id=\"%s\" role=\"group\" aria-label=\"%s\" "
            "tabindex=\"0\">",
            t->id, t->name);
    head_write(t);
}

void page_row(struct page_table *t, bool bad)
{
    if (t->written++ == PAGE_SHOWN) {
        fprintf(t->out, "</tbody></table><details id=\"more-%s\"><summary>%zu more</summary>",
                t->id, t->rows - PAGE_SHOWN);
        head_write(t);
    }
    fprintf(t->out, "<tr%s>", text_if(bad, " class=\"bad\""));
}

bool page_folded(const struct page_table *t)
{
    return t->written > PAGE_SHOWN;
}

void page_table_end(const struct page_table *t)
{
    fprintf(t->out, "</tbody></table>%s</div></section>", text_if(page_folded(t), "</details>"));
}

void page_number(FILE *out, const char *text)
{
    fputs("<td>", out);
    html_text(out, text);
    fputs("</td>", out);
}

void page_text(FILE *out, const char *text)
{
    fputs("<td class=\"t\">", out);
    html_text(out, text);
    fputs("</td>", out);
}
