/* zsh.c: completion for zsh: the arguments of _arguments for each command. */
#include "deploy/reference/reference.h"

#include "proto/base/text.h"
#include "proto/job/option.h"

#include <stdio.h>
#include <string.h>

/* Prints text inside single quotes. `special` escapes what would end the text: a bracket in a
 * description, a colon in a message. */
static void said(const char *text, const char *special)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", text_if(strchr(special, *text) != NULL, "\\"), *text);
}

/* '--rows=[rows of it]:N:', '*--set=[..]:KEY=VALUE:_files', '--format=[..]:format:(csv tsv)' */
static void option_print(const struct config_key *k)
{
    printf("            '%s--%s%s[", text_if(k->type == CONFIG_LIST, "*"), k->path,
           text_if(k->type != CONFIG_BOOL, "="));
    said(text_or(k->text, k->path), "[]\\");
    putchar(']');
    if (k->type == CONFIG_ENUM) {
        printf(":%s:(", k->path);
        for (const char *p = k->choices; *p != '\0'; p++)
            putchar(*p == '|' ? ' ' : *p);
        putchar(')');
    } else if (k->type != CONFIG_BOOL) {
        putchar(':');
        said(text_or(k->values, "N"), ":\\");
        fputs(k->type == CONFIG_INT || k->type == CONFIG_FLOAT ? ":" : ":_files", stdout);
    }
    puts("'");
}

/* '1:verb:((local\:"run a job ..." ..))' */
static bool verbs_print(const char *program)
{
    bool any = false;
    for (const struct option_command *c = option_commands; c->name != NULL; c++) {
        if (c->brief == NULL || option_verb(program, c) == NULL)
            continue;
        printf("%s%s\\:\"", any ? " " : "            '1:verb:((", option_verb(program, c));
        said(c->brief, "\"\\");
        putchar('"');
        any = true;
    }
    if (any)
        puts("))'");
    return any;
}

void reference_zsh(void)
{
    puts("#compdef shoal shoal-server shoal-coordinator shoal-worker\n"
         "# made by tests/reference.py --write from proto/job/option_commands.c.\n"
         "local at=${words[1]:t}\n"
         "local -a takes\n"
         "while (( CURRENT > 2 )); do\n"
         "    case \"$at ${words[2]}\" in");
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        if (strchr(c->name, ' ') != NULL)
            printf("    ('%s') ;;\n", c->name);
    puts("    (*) break ;;\n"
         "    esac\n"
         "    at+=\" ${words[2]}\"\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "done\n"
         "case $at in");
    for (const struct option_command *c = option_commands; c->name != NULL; c++) {
        printf("    ('%s')\n        takes=(\n", c->name);
        for (const struct config_key *k = c->option; k->path != NULL; k++)
            option_print(k);
        if (!verbs_print(c->name))
            puts("            '*:file:_files'");
        puts("        ) ;;");
    }
    puts("esac\n_arguments : $takes");
}
