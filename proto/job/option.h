/* option.h: command lines, checked against the same kind of table as the keys of files (keys.h).
 *
 * A command is a program, or a verb of one. An option is a key whose path is its name without
 * dashes. CONFIG_BOOL takes no value, CONFIG_LIST may be repeated, and the range of a CONFIG_FLOAT
 * excludes its minimum. Parsing, `--help`, the manual's table and completion are made from the
 * table.
 *
 *     option_parse -> help: option_help, and out
 *                  -> else: option_check -> option_text, option_int ..
 *
 * `--name=value` and `--name value` mean the same; the last value of an option that is not
 * repeatable counts. */
#ifndef PROTO_JOB_OPTION_H
#define PROTO_JOB_OPTION_H

#include "proto/job/config.h"

#include <stdio.h>

struct option_command {
    const char *name;  /* "shoal checkpoint list" */
    const char *brief; /* its text in the list of a program's verbs; NULL: not listed */
    const char *usage; /* the words after the name; a line for each form */
    const char *about; /* paragraphs before the options */
    const char *notes; /* after them, or NULL */
    /* OPTION_MAX at most, ended by a NULL path; always has "help" */
    const struct config_key *option;
    int words; /* the most words that are not options */
};

extern const struct option_command option_commands[]; /* ended by a NULL name */

enum { OPTION_MAX = 40, OPTION_WORDS_MAX = 1024 };

struct option_line { /* a parsed command line; its values point into argv */
    const struct option_command *command;
    const char *value[OPTION_MAX]; /* indexed by option: the last value, or NULL */
    struct string_list list[OPTION_MAX];
    const char *word[OPTION_WORDS_MAX];
    int words;
};

/* argv[0] is skipped. USAGE: an unknown option, a missing value, a word too many. The caller frees
 * l after an error, too. */
int option_parse(const char *command, int argc, char **argv, struct option_line *l, struct err *e);
void option_free(struct option_line *l);
/* The same for a daemon, with option_check; it answers --help and --version itself and returns 1,
 * and sets the form of the log (--log-format). keys: those of the daemon's file, which --help
 * lists; NULL: none. */
int option_program(const char *name, const struct config_key *keys, void (*version)(void), int argc,
                   char **argv, struct option_line *l, struct err *e);
/* Checks types, ranges and choices of the given values. USAGE. */
int option_check(const struct option_line *l, struct err *e);

/* The values of a checked line. The command must have the option, of this type (asserted). Without
 * the option the getter returns its fallback; a number without a fallback must have been given. */
bool option_given(const struct option_line *l, const char *name);
const char *option_text(const struct option_line *l, const char *name); /* NULL: neither */
int64_t option_int(const struct option_line *l, const char *name);
double option_float(const struct option_line *l, const char *name);
int option_choice(const struct option_line *l, const char *name);
/* The line's list; the caller may add to it. */
struct string_list *option_list(struct option_line *l, const char *name);

/* Prints the text of --help. */
void option_help(const struct option_command *c, FILE *f);
/* A line for each listed verb of a program, or of a verb of verbs: "shoal checkpoint". */
void option_verbs(const char *program, FILE *f);
/* The verb's name after the program's: "list" of "shoal checkpoint" and "shoal checkpoint list";
 * NULL: the command is not one of the program's verbs. */
const char *option_verb(const char *program, const struct option_command *c);
/* "--rows N", "--json". */
const char *option_form(const struct config_key *k, char text[64]);
/* "1..32, default 1"; empty where the option has neither. */
const char *option_range(const struct config_key *k, char text[256]);

#endif
