/* option.c: command lines are parsed, checked and explained. option_commands.c has the table of
 * commands. */
#include "proto/job/option.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/job/config_inner.h"
#include "proto/job/keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN = 22, WIDTH = 100 };

/* ---- the table ------------------------------------------------------------------------------- */

static const struct option_command *command_find(const char *name)
{
    const struct option_command *c = option_commands;
    while (c->name != NULL && strcmp(c->name, name) != 0)
        c++;
    SHOAL_ASSERT(c->name != NULL); /* only the program's own verbs are looked up */
    return c;
}

const char *option_verb(const char *program, const struct option_command *c)
{
    size_t n = strlen(program);
    const char *verb = c->name + n + 1;
    if (strncmp(c->name, program, n) == 0 && c->name[n] == ' ' && strchr(verb, ' ') == NULL)
        return verb;
    return NULL;
}

static int index_of(const struct option_command *c, const char *name, size_t bytes)
{
    for (int i = 0; c->option[i].path != NULL; i++)
        if (strlen(c->option[i].path) == bytes && strncmp(c->option[i].path, name, bytes) == 0)
            return i;
    return -1;
}

static int index_of_letter(const struct option_command *c, char letter)
{
    for (int i = 0; c->option[i].path != NULL; i++)
        if (c->option[i].letter == letter)
            return i;
    return -1;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* True for "-b" where the command has an option of this letter. */
static bool is_letter(const struct option_command *c, const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0' && argument[1] != '-' && argument[2] == '\0' &&
           index_of_letter(c, argument[1]) >= 0;
}

/* Takes an argument that begins with "--", or is a letter of an option, and its value in the next
 * argument, if there is one. Returns the number of arguments taken, or an error. */
static int argument_take(struct option_line *l, const char *argument, const char *next,
                         struct err *e)
{
    size_t bytes = strcspn(argument + 2, "=");
    int i = index_of(l->command, argument + 2, bytes);
    if (is_letter(l->command, argument))
        i = index_of_letter(l->command, argument[1]);
    if (i < 0)
        return err_set(e, SHOAL_E_USAGE, "unknown option %s; see `%s --help`", argument,
                       l->command->name);
    const struct config_key *k = &l->command->option[i];
    bool joined = argument[2 + bytes] == '=';
    if (k->type == CONFIG_BOOL) {
        l->value[i] = "yes";
        return 1;
    }
    if (!joined && next == NULL)
        return err_set(e, SHOAL_E_USAGE, "--%s needs a value", k->path);
    l->value[i] = joined ? argument + 3 + bytes : next;
    if (k->type == CONFIG_LIST && config_list_add(&l->list[i], l->value[i]) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return joined ? 1 : 2;
}

static int options_of(const struct option_command *c)
{
    int count = 0;
    while (c->option[count].path != NULL)
        count++;
    return count;
}

int option_parse(const char *command, int argc, char **argv, struct option_line *l, struct err *e)
{
    *l = (struct option_line){.command = command_find(command)};
    SHOAL_ASSERT(l->command->words <= OPTION_WORDS_MAX && options_of(l->command) <= OPTION_MAX);
    for (int i = 1; i < argc;) {
        int rc = 1;
        if (strncmp(argv[i], "--", 2) == 0 || is_letter(l->command, argv[i]))
            rc = argument_take(l, argv[i], i + 1 < argc ? argv[i + 1] : NULL, e);
        else if (l->words == l->command->words)
            return err_set(e, SHOAL_E_USAGE, "one word too many: %s; see `%s --help`", argv[i],
                           command);
        else
            l->word[l->words++] = argv[i];
        if (rc < 0)
            return rc;
        i += rc;
    }
    return 0;
}

int option_program(const char *name, const struct config_key *keys, void (*version)(void), int argc,
                   char **argv, struct option_line *l, struct err *e)
{
    int rc = option_parse(name, argc, argv, l, e);
    if (rc != 0)
        return rc;
    if (option_given(l, "help")) {
        option_help(l->command, stdout);
        if (keys != NULL) {
            puts("\nKeys, what they hold and (by default):");
            keys_print(keys, stdout);
        }
        return 1;
    }
    if (option_given(l, "version")) {
        version();
        return 1;
    }
    rc = option_check(l, e);
    if (rc == 0)
        log_json_set(option_choice(l, "log-format") == 1);
    return rc;
}

void option_free(struct option_line *l)
{
    for (int i = 0; i < OPTION_MAX; i++)
        config_list_free(&l->list[i]);
}

/* Writes the choices "tsv|csv|binary" as "tsv, csv or binary". */
static const char *choices_said(const char *choices, char text[128])
{
    size_t at = 0;
    for (const char *p = choices; at < 120 && *p != '\0'; p++) {
        const char *between = *p != '|' ? NULL : strchr(p + 1, '|') != NULL ? ", " : " or ";
        if (between == NULL)
            text[at++] = *p;
        for (; between != NULL && *between != '\0'; between++)
            text[at++] = *between;
    }
    text[at] = '\0';
    return text;
}

static int value_check(const struct config_key *k, const char *value, struct err *e)
{
    char *end, words[128];
    if (k->type == CONFIG_INT) {
        int64_t x;
        bool whole = strpbrk(value, ".eExX") == NULL && config_int_parse(value, &x);
        bool over = k->max < 9e18 && whole && (double)x > k->max;
        if (!whole || (double)x < k->min || over)
            return err_set(e, SHOAL_E_USAGE,
                           "--%s %s: expected a whole number from %" PRId64 " to %" PRId64, k->path,
                           value, (int64_t)k->min, k->max < 9e18 ? (int64_t)k->max : INT64_MAX);
    } else if (k->type == CONFIG_FLOAT) {
        double x = strtod(value, &end);
        if (end == value || *end != '\0' || !(x > k->min && x <= k->max))
            return err_set(e, SHOAL_E_USAGE, "--%s %s: expected a number above %g, at most %g",
                           k->path, value, k->min, k->max);
    } else if (k->type == CONFIG_ENUM && config_choice_parse(value, k->choices) < 0) {
        return err_set(e, SHOAL_E_USAGE, "--%s %s: expected %s", k->path, value,
                       choices_said(k->choices, words));
    }
    return 0;
}

int option_check(const struct option_line *l, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && l->command->option[i].path != NULL; i++)
        if (l->value[i] != NULL)
            rc = value_check(&l->command->option[i], l->value[i], e);
    return rc;
}

/* ---- values of a line ------------------------------------------------------------------------ */

/* The index of an option, which the command must have. */
static int at(const struct option_line *l, const char *name, enum config_type type)
{
    int i = index_of(l->command, name, strlen(name));
    SHOAL_ASSERT(i >= 0 && (type == CONFIG_ANY || l->command->option[i].type == type));
    return i;
}

static const char *said(const struct option_line *l, int i)
{
    return text_or(l->value[i], l->command->option[i].fallback);
}

bool option_given(const struct option_line *l, const char *name)
{
    return l->value[at(l, name, CONFIG_ANY)] != NULL;
}

const char *option_text(const struct option_line *l, const char *name)
{
    return said(l, at(l, name, CONFIG_ANY));
}

int64_t option_int(const struct option_line *l, const char *name)
{
    int64_t x = 0;
    bool good = config_int_parse(said(l, at(l, name, CONFIG_INT)), &x);
    SHOAL_ASSERT(good); /* option_check has checked it */
    return x;
}

double option_float(const struct option_line *l, const char *name)
{
    return strtod(said(l, at(l, name, CONFIG_FLOAT)), NULL);
}

int option_choice(const struct option_line *l, const char *name)
{
    int i = at(l, name, CONFIG_ENUM);
    int choice = config_choice_parse(said(l, i), l->command->option[i].choices);
    SHOAL_ASSERT(choice >= 0); /* option_check has checked it */
    return choice;
}

struct string_list *option_list(struct option_line *l, const char *name)
{
    return &l->list[at(l, name, CONFIG_LIST)];
}

/* ---- help ------------------------------------------------------------------------------------ */

const char *option_form(const struct config_key *k, char text[64])
{
    const char *value = text_or(k->values, "N");
    char letter[8] = "";
    if (k->type == CONFIG_ENUM)
        value = k->choices;
    if (k->type == CONFIG_BOOL)
        value = "";
    if (k->letter != 0)
        (void)snprintf(letter, sizeof letter, "-%c, ", k->letter);
    (void)snprintf(text, 64, "%s--%s%s%s", letter, k->path, text_if(value[0] != 0, " "), value);
    return text;
}

const char *option_range(const struct config_key *k, char text[256])
{
    char values[64], fallback[160];
    bool number = (k->type == CONFIG_INT || k->type == CONFIG_FLOAT) && k->max != 0;
    const char *otherwise = text_or(k->otherwise, k->fallback);
    (void)snprintf(fallback, sizeof fallback, "%s%s", text_if(otherwise != NULL, "default "),
                   text_or(otherwise, ""));
    if (!number)
        values[0] = '\0';
    else if (k->max > 9e18)
        (void)snprintf(values, sizeof values, "from %.0f", k->min);
    else
        (void)snprintf(values, sizeof values, "%.0f..%.0f", k->min, k->max);
    (void)snprintf(text, 256, "%s%s%s", values,
                   text_if(values[0] != '\0' && fallback[0] != '\0', ", "), fallback);
    return text;
}

/* Prints the words of text from column `from` on; `at` columns are taken already. Returns the
 * column. */
static int fill(const char *text, int from, int at, FILE *f)
{
    while (*text != '\0') {
        int bytes = (int)strcspn(text, " ");
        if (at > from && at + 1 + bytes > WIDTH) {
            fprintf(f, "\n%*s", from, "");
            at = from;
        }
        at += fprintf(f, "%s%.*s", text_if(at > from, " "), bytes, text);
        text += bytes;
        text += strspn(text, " ");
    }
    return at;
}

static void option_print(const struct config_key *k, FILE *f)
{
    char form[64], range[256], text[300];
    int column = fprintf(f, "  %s", option_form(k, form));
    if (column >= COLUMN)
        column = fprintf(f, "\n") - 1;
    column += fprintf(f, "%*s", COLUMN - column, "");
    column = fill(text_or(k->text, ""), COLUMN, column, f);
    if (option_range(k, range)[0] != '\0') {
        (void)snprintf(text, sizeof text, "(%s%s)", range,
                       text_if(k->type == CONFIG_LIST, "; may be repeated"));
        (void)fill(text, COLUMN, column, f);
    } else if (k->type == CONFIG_LIST) {
        (void)fill("(may be repeated)", COLUMN, column, f);
    }
    fputc('\n', f);
}

/* Prints each line of text, wrapped separately. */
static void paragraphs_print(const char *text, FILE *f)
{
    char line[1024];
    for (size_t bytes; *text != '\0'; text += bytes + (text[bytes] == '\n')) {
        bytes = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)bytes, text);
        (void)fill(line, 0, 0, f);
        fputc('\n', f);
    }
}

void option_help(const struct option_command *c, FILE *f)
{
    const char *line = c->usage;
    for (size_t bytes; *line != '\0'; line += bytes + (line[bytes] == '\n')) {
        bytes = strcspn(line, "\n");
        fprintf(f, "%s %s %.*s\n", line == c->usage ? "usage:" : "      ", c->name, (int)bytes,
                line);
    }
    fputc('\n', f);
    paragraphs_print(c->about, f);
    fputc('\n', f);
    for (const struct config_key *k = c->option; k->path != NULL; k++)
        option_print(k, f);
    if (c->notes != NULL) {
        fputc('\n', f);
        paragraphs_print(c->notes, f);
    }
}

void option_verbs(const char *program, FILE *f)
{
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        if (c->brief != NULL && option_verb(program, c) != NULL)
            fprintf(f, "  %-10s %s\n", option_verb(program, c), c->brief);
}
