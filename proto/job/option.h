/* option.h: command lines, held against the same kind of table as the files' keys (keys.h).
 *
 * A command is a program, or a verb of one. An option is a key whose path is its name without
 * dashes; CONFIG_BOOL takes no value, CONFIG_LIST may be repeated, of a CONFIG_FLOAT the least is
 * not in the range. From the table come parsing, `--help`, the manual's table and completion.
 *
 *     option_parse -> help: option_help, and out
 *                  -> else: option_check -> option_text, option_int ..
 *
 * `--name=value` and `--name value`; of an option that is not repeatable the last one counts. */
#ifndef PROTO_JOB_OPTION_H
#define PROTO_JOB_OPTION_H

#include "proto/job/config.h"

#include <stdio.h>

struct option_command {
    const char *name;  /* "shoal checkpoint list" */
    const char *brief; /* what the list of a program's verbs says of it; NULL: not listed */
    const char *usage; /* what stands behind the name; a line for each way to say it */
    const char *about; /* paragraphs before the options */
    const char *notes; /* after them, or NULL */
    /* OPTION_MAX at most, ended by a NULL path; always has "help" */
    const struct config_key *option;
    int words; /* at most so many that are no option */
};

extern const struct option_command option_commands[]; /* ended by a NULL name */

enum { OPTION_MAX = 32, OPTION_WORDS_MAX = 2 };

struct option_line { /* a command line; its values are argv's */
    const struct option_command *command;
    const char *value[OPTION_MAX]; /* by option: the last one given, or NULL */
    struct string_list list[OPTION_MAX];
    const char *word[OPTION_WORDS_MAX];
    int words;
};

/* argv[0] is not looked at. An option that is unknown or lacks its value, a word too many: USAGE.
 * Free l whatever comes back. */
int option_parse(const char *command, int argc, char **argv, struct option_line *l, struct err *e);
void option_free(struct option_line *l);
/* The same of a program, which answers --help and --version itself: 1. keys: of its file, listed by
 * --help; NULL: none are. */
int option_program(const char *name, const struct config_key *keys, void (*version)(void), int argc,
                   char **argv, struct option_line *l, struct err *e);
/* Types, ranges and choices of what was given. USAGE. */
int option_check(const struct option_line *l, struct err *e);

/* Of a checked line; that the command has the option, of this type, is asserted. Without the
 * option its fallback; a number that has none must have been given. */
bool option_given(const struct option_line *l, const char *name);
const char *option_text(const struct option_line *l, const char *name); /* NULL: neither */
int64_t option_int(const struct option_line *l, const char *name);
double option_float(const struct option_line *l, const char *name);
int option_choice(const struct option_line *l, const char *name);
/* The line's; may be added to. */
struct string_list *option_list(struct option_line *l, const char *name);

/* What --help says. */
void option_help(const struct option_command *c, FILE *f);
/* A line for each listed verb of a program, or of a verb of verbs: "shoal checkpoint". */
void option_verbs(const char *program, FILE *f);
/* The verb's name behind the program's: "list" of "shoal checkpoint" and "shoal checkpoint list";
 * NULL: it is none of its verbs. */
const char *option_verb(const char *program, const struct option_command *c);
/* "--rows N", "--json". */
const char *option_form(const struct config_key *k, char text[64]);
/* "1..32, default 1"; empty where there is nothing to say. */
const char *option_range(const struct config_key *k, char text[256]);

#endif
