/* config.h: YAML files checked against a list of known keys. Used by job.c (job.yaml) and by the
 * daemons (server.yaml, coordinator.yaml).
 *
 * A spec is an array ended by a NULL path. A path is dotted ("journal.max"); "[]" stands for an
 * element of a list of mappings ("tables[].dim"), and "{}", at its end, for a name that the file
 * chooses ("memory.{}"); CONFIG_LIST takes a list of strings or one string. Every refusal names
 * file, line, key and, for an unknown key, the nearest known one. Sizes take k/M/G/KiB/MiB/GiB,
 * times ms/s/min/h/d. */
#ifndef PROTO_JOB_CONFIG_H
#define PROTO_JOB_CONFIG_H

#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_type {
    CONFIG_STRING,
    CONFIG_INT,
    CONFIG_FLOAT,
    CONFIG_BOOL,
    CONFIG_SIZE,
    CONFIG_ENUM,
    CONFIG_LIST,
    CONFIG_ANY
};

struct config_key {
    const char *path;
    enum config_type type;
    double min, max;     /* range of numbers and sizes; both 0: any */
    const char *choices; /* CONFIG_ENUM: "async|ssp|bsp", values 0, 1, 2 */
    /* The value when a file has none, written as in a file; NULL: the caller decides, or there is
     * none. */
    const char *fallback;
    /* For readers of the manual, all in Markdown; NULL where there is nothing to say: */
    const char *otherwise; /* the meaning of an absent key, if it is not the fallback itself */
    const char *values;    /* the content of a string or a list */
    const char *unit;      /* the unit of a CONFIG_SIZE's range */
    const char *text;      /* the purpose of the key */
    char letter;           /* the letter of an option: "-b" is the same as "--batch"; 0: none */
    size_t fact; /* offset of its default in struct optimizer_facts; 0: it has none there */
};

struct config; /* a parsed and checked file */

int config_parse(const char *text, size_t bytes, const char *name, const struct string_list *set,
                 const struct config_key *spec, struct config **out, struct err *e);
int config_load(const char *path, const struct string_list *set, const struct config_key *spec,
                struct config **out, struct err *e);
/* Reads a file's text, at most one byte more than config_parse accepts. The caller frees it.
 * NOINPUT, IO, NOMEM. */
int config_read(const char *path, char **text, size_t *bytes, struct err *e);
void config_free(struct config *c);
/* Logs a warning for each key of a former release that has no effect any more. Texts that are
 * stored in fleets and checkpoints have such keys, so config_parse accepts them without a word. */
void config_gone_say(const struct config *c);
/* The whole as YAML text, with the overrides applied; the caller frees it. */
char *config_text(const struct config *c);
/* Replaces each command by the word "hidden": in {cmd: ..} and {object: ..} of all lists, and in
 * the values at or below `also`. The result is still a valid file. NOMEM. */
int config_commands_hide(struct config *c, const char *also, struct err *e);
/* Quotes a value, so that a file or --set reads it back unchanged whatever it holds. out:
 * CONFIG_QUOTED(strlen(text)) bytes. */
#define CONFIG_QUOTED(bytes) (4 * (bytes) + 6)
void config_quote(const char *text, char *out);

/* Getters return the key's fallback where the key is absent; those with _or return `fallback`, for
 * a key that has none. index counts elements of "[]" lists: config_count(c, "tables") of them; the
 * caller passes the concrete path, "tables[2].dim". config_parse has checked the types; a getter of
 * another type is a bug of the caller (asserted). */
bool config_has(const struct config *c, const char *path);       /* the key, or a key below it */
bool config_has_value(const struct config *c, const char *path); /* the key itself */
size_t config_count(const struct config *c, const char *path);
/* The name of the index'th key below the path of a map with "{}"; NULL: there is none. It may have
 * dots; the getters take path, dot, name. */
const char *config_name(const struct config *c, const char *path, size_t index);
const char *config_string(const struct config *c, const char *path);
const char *config_string_or(const struct config *c, const char *path, const char *fallback);
int64_t config_int(const struct config *c, const char *path);
double config_float(const struct config *c, const char *path);
double config_float_or(const struct config *c, const char *path, double fallback);
bool config_bool(const struct config *c, const char *path);
bool config_bool_or(const struct config *c, const char *path, bool fallback);
uint64_t config_size(const struct config *c, const char *path);
uint64_t config_size_or(const struct config *c, const char *path, uint64_t fallback);
int config_enum(const struct config *c, const char *path);
int config_enum_or(const struct config *c, const char *path, int fallback);
/* The name of the choice, of an enum that is present. */
const char *config_word(const struct config *c, const char *path);
/* The items of a list. An absent list is its fallback, "400, 400", or empty. Among the items {cmd:
 * C} is "cmd:C", {kafka: T} is "kafka:T", and {object: {list: L, open: O}} is "object:L"
 * CONFIG_UNIT "O". The items are copies; the caller frees them with config_list_free. */
#define CONFIG_UNIT "\x1f"
int config_list(const struct config *c, const char *path, struct string_list *out);
/* An item as errors, logs and reports show it: "{cmd}", "{object}", or the item itself where it is
 * a file's name. Commands often hold passwords. */
const char *config_item_shown(const char *item);
int config_line(const struct config *c, const char *path); /* line of the key, 0 when absent */
/* "line 12: ", or "--set: " for a key from the command line, or "" for an absent one. */
#define CONFIG_WHERE 24
const char *config_where(const struct config *c, const char *path, char out[CONFIG_WHERE]);

int config_list_add(struct string_list *l, const char *s);
void config_list_free(struct string_list *l);

/* "libyaml 0.2.5" */
const char *config_library(void);

#endif
