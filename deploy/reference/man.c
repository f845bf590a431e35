/* man.c: manual pages in the language man(7). A page in deploy/man is written by hand; lists of
 * options, keys and exit statuses are inserted into it. The page of a verb is made from the verb's
 * own table.
 *
 * A line of a page that begins with @ is a mark:
 *
 *     @head NAME SECTION    the page's first line
 *     @usage COMMAND, @about COMMAND, @options COMMAND, @notes COMMAND    from option_commands
 *     @verbs COMMAND        its verbs, with the purpose of each
 *     @keys FILE            from reference_keys
 *     @exit                 the list of exit statuses */
#include "deploy/reference/reference.h"

#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/keys.h"
#include "proto/job/option.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 76 }; /* linters require lines under 80 */

/* ---- text ------------------------------------------------------------------------------------ */

struct text { /* the state of text that is being broken into lines */
    int column;
    bool code; /* between back quotes */
};

/* typed: the text is input for a terminal, so its dashes are not hyphens. */
static int byte_print(char c, bool typed)
{
    if (c == '\\')
        return printf("\\e");
    if (c == '-' && typed)
        return printf("\\-");
    return printf("%c", c);
}

static void typed_print(const char *text)
{
    for (; *text != '\0'; text++)
        (void)byte_print(*text, true);
}

/* The number of bytes to skip in a link [words](place): its words are printed, its place is not. */
static size_t link_skip(const char *p)
{
    const char *end = NULL;
    if (*p == ']' && p[1] == '(')
        end = strchr(p, ')');
    if (end != NULL)
        return (size_t)(end - p) + 1;
    return *p == '[' && strstr(p, "](") != NULL;
}

/* Prints a paragraph, or part of one, in lines. A dot or quote at the start of a line is
 * escaped. */
static void text_print(struct text *t, const char *text)
{
    for (const char *p = text; *p != '\0';) {
        size_t bytes = strcspn(p, " \n");
        if (t->column > 0 && t->column + 1 + (int)bytes > WIDTH) {
            putchar('\n');
            t->column = 0;
        } else if (t->column > 0) {
            t->column += printf(" ");
        }
        if (t->column == 0 && (*p == '.' || *p == '\''))
            printf("\\&");
        for (const char *end = p + bytes; p < end;) {
            size_t skip = link_skip(p);
            if (skip == 0 && *p == '`')
                t->column += printf("%s", (t->code = !t->code) ? "\\fB" : "\\fP");
            else if (skip == 0)
                t->column += byte_print(*p, t->code);
            p += MAX(skip, 1);
        }
        p += strspn(p, " \n");
    }
}

static void line_end(struct text *t)
{
    if (t->column > 0)
        putchar('\n');
    *t = (struct text){.column = 0};
}

static void paragraph(const char *text)
{
    struct text t = {.column = 0};
    text_print(&t, text);
    line_end(&t);
}

/* Prints each line of a text as a paragraph. */
static void paragraphs(const char *text)
{
    char line[1024];
    for (size_t bytes; *text != '\0'; text += bytes + (text[bytes] == '\n')) {
        bytes = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)bytes, text);
        paragraph(line);
        if (text[bytes] == '\n')
            puts(".PP");
    }
}

/* Prints the name of a list's entry. */
static void entry(const char *name)
{
    fputs(".TP\n.B ", stdout);
    typed_print(name);
    putchar('\n');
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const struct option_command *command_of(const char *name)
{
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

static void usage_print(const struct option_command *c)
{
    for (const char *line = c->usage; *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        char rest[512];
        (void)snprintf(rest, sizeof rest, "%.*s", (int)bytes, line);
        fputs(".B ", stdout);
        typed_print(c->name);
        putchar('\n');
        paragraph(rest);
        line += bytes + (line[bytes] == '\n');
        if (*line != '\0')
            puts(".br");
    }
}

static void options_print(const struct option_command *c)
{
    char form[64], range[256], said[300];
    for (const struct config_key *k = c->option; k->path != NULL; k++) {
        struct text t = {.column = 0};
        entry(option_form(k, form));
        text_print(&t, text_or(k->text, ""));
        option_range(k, range);
        (void)snprintf(said, sizeof said, "(%s%s%s)", range,
                       text_if(range[0] != '\0' && k->type == CONFIG_LIST, "; "),
                       text_if(k->type == CONFIG_LIST, "may be repeated"));
        text_print(&t, text_if(strlen(said) > 2, said));
        line_end(&t);
    }
}

static void verbs_print(const char *program)
{
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        if (c->brief != NULL && option_verb(program, c) != NULL) {
            entry(c->name);
            paragraph(c->brief);
        }
}

static void keys_list(const struct config_key *keys)
{
    char values[KEYS_TEXT_MAX], fallback[KEYS_TEXT_MAX], said[2 * KEYS_TEXT_MAX + 32];
    for (const struct config_key *k = keys; k->path != NULL; k++) {
        struct text t = {.column = 0};
        entry(k->path);
        keys_values(k, values);
        keys_default(k, fallback);
        (void)snprintf(said, sizeof said, "%s%s%s%s", values,
                       text_if(fallback[0] != '\0', " (default "), fallback,
                       text_if(fallback[0] != '\0', ")"));
        text_print(&t, said);
        if (k->text != NULL && said[0] != '\0')
            t.column += printf(":");
        text_print(&t, text_or(k->text, ""));
        line_end(&t);
    }
}

/* Prints each status once, with the text of the first code that has it. */
static void exits_print(void)
{
    static const struct {
        int status;
        const char *text;
    } all[] = {{0, "done"},
#define X(name, wire, status, text) {status, text},
               SHOAL_ERR_MAP(X)
#undef X
    };
    char number[16];
    for (int status = 0; status < 128; status++)
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            if (all[i].status == status) {
                (void)snprintf(number, sizeof number, "%d", status);
                entry(number);
                paragraph(all[i].text);
                break;
            }
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void head_print(const char *name, const char *section)
{
    printf(".TH \"");
    for (const char *p = name; *p != '\0'; p++)
        putchar(toupper((unsigned char)*p));
    printf("\" \"%s\" \"" SHOAL_DATE "\" \"shoal " SHOAL_VERSION "\" \"Shoal\"\n", section);
}

static void name_print(const char *page, const char *brief)
{
    puts(".SH NAME");
    typed_print(page);
    printf(" \\- %s\n", brief);
}

static void command_print(const struct option_command *c)
{
    puts(".SH SYNOPSIS");
    usage_print(c);
    puts(".SH DESCRIPTION");
    paragraphs(text_unless_empty(c->about, c->brief));
    puts(".SH OPTIONS");
    options_print(c);
    if (c->notes != NULL) {
        puts(".SH NOTES");
        paragraphs(c->notes);
    }
}

/* The verbs of a verb such as "checkpoint", a section for each. */
static void verbs_of_verb(const char *program)
{
    puts(".SH COMMANDS");
    for (const struct option_command *c = option_commands; c->name != NULL; c++) {
        if (c->brief == NULL || option_verb(program, c) == NULL)
            continue;
        printf(".SS %s\n", c->name);
        usage_print(c);
        puts(".PP");
        paragraphs(c->about);
        options_print(c);
        if (c->notes != NULL) {
            puts(".PP");
            paragraphs(c->notes);
        }
    }
}

static int verb_page(const char *verb, struct err *e)
{
    char name[64], page[64];
    (void)snprintf(name, sizeof name, "shoal %s", verb);
    (void)snprintf(page, sizeof page, "shoal-%s", verb);
    const struct option_command *c = command_of(name);
    if (c == NULL || c->brief == NULL)
        return err_set(e, SHOAL_E_USAGE, "no verb is called %s; `shoal --help` has them", verb);
    head_print(page, "1");
    name_print(page, c->brief);
    command_print(c);
    bool more = false;
    for (const struct option_command *o = option_commands; o->name != NULL; o++)
        more |= o->brief != NULL && option_verb(name, o) != NULL;
    if (more)
        verbs_of_verb(name);
    puts(".SH EXIT STATUS");
    exits_print();
    puts(".SH SEE ALSO\n.BR shoal (1),\n.BR shoal-job.yaml (5),\n.BR shoal (7)");
    return 0;
}

static int mark_print(char *mark, struct err *e)
{
    char *save, *word = strtok_r(mark, " \n", &save), *of = strtok_r(NULL, "\n", &save);
    const struct option_command *c = NULL;
    const struct config_key *keys = NULL;
    char *section = NULL;
    if (of != NULL) {
        c = command_of(of);
        keys = reference_keys(of);
        section = strrchr(of, ' ');
    }
    if (strcmp(word, "@exit") == 0 && of == NULL) {
        exits_print();
    } else if (strcmp(word, "@head") == 0 && section != NULL) {
        *section = '\0';
        head_print(of, section + 1);
    } else if (strcmp(word, "@keys") == 0 && keys != NULL) {
        keys_list(keys);
    } else if (strcmp(word, "@usage") == 0 && c != NULL) {
        usage_print(c);
    } else if (strcmp(word, "@about") == 0 && c != NULL) {
        paragraphs(c->about);
    } else if (strcmp(word, "@notes") == 0 && c != NULL && c->notes != NULL) {
        paragraphs(c->notes);
    } else if (strcmp(word, "@options") == 0 && c != NULL) {
        options_print(c);
    } else if (strcmp(word, "@verbs") == 0 && c != NULL) {
        verbs_print(of);
    } else {
        return err_set(e, SHOAL_E_DATA, "no such mark: %s %s", word, text_or(of, ""));
    }
    return 0;
}

static int file_page(const char *path, struct err *e)
{
    char *line = NULL;
    size_t room = 0;
    int rc = 0, number = 0;
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "%s does not open", path);
    while (rc == 0 && getline(&line, &room, f) > 0) {
        number++;
        if (line[0] == '@')
            rc = mark_print(line, e);
        else
            fputs(line, stdout);
    }
    if (rc != 0)
        rc = err_wrap(e, rc, "%s:%d", path, number);
    free(line);
    fclose(f);
    return rc;
}

int reference_man(const char *page, struct err *e)
{
    if (strchr(page, '/') != NULL)
        return file_page(page, e);
    return verb_page(page, e);
}
