/* reference.c: the program `reference` prints everything that is generated from the tables of keys,
 * options, rights and events:
 *
 *     reference page FILE           FILE, a page of the manual, with its tables made anew
 *     reference schema              a JSON Schema of job.yaml
 *     reference completion [zsh]    completion for bash, or for zsh
 *     reference man VERB            the manual page of a verb of `shoal`
 *     reference man FOLDER/PAGE     a manual page written by hand, with its marks filled in
 *     reference catalog             the catalog of events, for journalctl -x
 *     reference keys, options       the tables themselves, a line for each row
 *
 * A table of a page stands between "<!-- keys: job|server|coordinator|worker [[-]KEY]... -->" and
 * "<!-- /keys -->". It has all keys at or below one of the KEYs, without those at or below a -KEY.
 * "keys: options" is the table of all options, "keys: roles" that of all rights, "keys: metrics"
 * that of all metrics. */
#include "deploy/reference/reference.h"

#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/job/keys.h"
#include "proto/job/option.h"
#include "proto/meter/meter.h"
#include "proto/wire/allow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "<!-- keys: "
#define MARK_END "<!-- /keys -->"

static const struct {
    const char *name;
    const struct config_key *keys;
} files[] = {{"job", keys_job},
             {"server", keys_server},
             {"coordinator", keys_coordinator},
             {"worker", keys_worker}};
enum { FILES = sizeof files / sizeof files[0] };

const struct config_key *reference_keys(const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (strcmp(files[i].name, name) == 0)
            return files[i].keys;
    return NULL;
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static bool at_or_below(const char *path, const char *word)
{
    size_t n = strlen(word);
    return strncmp(path, word, n) == 0 &&
           (path[n] == '\0' || path[n] == '.' || path[n] == '[' || word[n - 1] == '.');
}

static bool chosen(const char *path, char *const *word, int count)
{
    bool any = count == 0;
    for (int i = 0; i < count; i++)
        if (at_or_below(path, word[i] + (word[i][0] == '-')))
            any = word[i][0] != '-';
    return any;
}

static void row_print(const struct config_key *k)
{
    char values[KEYS_TEXT_MAX], fallback[KEYS_TEXT_MAX];
    printf("`%s`|%s|%s|%s\n", k->path, keys_values(k, values), keys_default(k, fallback),
           text_or(k->text, ""));
}

/* ---- options --------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_option(const struct config_key *a, const struct config_key *b)
{
    char x[256], y[256], form[64], other[64];
    return same_text(option_form(a, form), option_form(b, other)) && a->type == b->type &&
           same_text(option_range(a, x), option_range(b, y)) && same_text(a->text, b->text);
}

static const struct config_key *option_like(const struct option_command *c,
                                            const struct config_key *k)
{
    for (const struct config_key *o = c->option; o->path != NULL; o++)
        if (same_option(o, k))
            return o;
    return NULL;
}

/* Prints a cell; a bar is escaped because it would end the cell. */
static void cell_print(const char *text)
{
    for (; *text != '\0'; text++)
        putchar(*text == '|' ? '/' : *text);
}

/* The command that an option belongs to: "local", "checkpoint list", "shoal-worker". */
static const char *owner(const struct option_command *c)
{
    if (strncmp(c->name, "shoal ", 6) == 0)
        return c->name + 6;
    return c->name;
}

/* The roles that have a right on one side: "worker, admin". */
static void roles_print(enum wire_right r, enum wire_side side)
{
    uint32_t roles = allow_roles(r, side);
    const char *comma = "";
    for (int role = 0; role < ROLES; role++)
        if ((roles & role_bit((enum role)role)) != 0) {
            printf("%s%s", comma, role_text((enum role)role));
            comma = ", ";
        }
    if ((roles & WIRE_ALLOW_BOSS) != 0)
        printf("%sits coordinator", comma);
}

static void roles_table_print(void)
{
    puts("message|a coordinator takes it from|a shard takes it from|a worker takes it from|"
         "in the audit log\n---|---|---|---|---");
    for (int r = 0; r < WIRE_RIGHTS; r++) {
        printf("%s|", allow_text((enum wire_right)r));
        roles_print((enum wire_right)r, WIRE_COORDINATOR);
        putchar('|');
        roles_print((enum wire_right)r, WIRE_SHARD);
        putchar('|');
        roles_print((enum wire_right)r, WIRE_WORKER);
        printf("|%s\n", text_if(allow_audited((enum wire_right)r), "yes"));
    }
}

/* A row for each metric, by the name that its samples have. */
static void metrics_table_print(void)
{
    static const char *const type[] = {[METER_COUNTER] = "counter",
                                       [METER_GAUGE] = "gauge",
                                       [METER_HISTOGRAM] = "histogram",
                                       [METER_INFO] = "info"};
    puts("metric|type|labels|of|meaning\n---|---|---|---|---");
    for (const struct meter_row *r = meter_rows; r < meter_rows + METER_ROWS; r++) {
        printf("`%s%s%s`|%s|%s|", r->name, text_if(r->type == METER_COUNTER, "_total"),
               text_if(r->type == METER_INFO, "_info"), type[r->type], r->labels);
        for (const char *of = r->of; *of != '\0'; of++)
            printf("%s%s", text_if(of != r->of, ", "),
                   *of == 's'   ? "server"
                   : *of == 'c' ? "coordinator"
                                : "worker");
        printf("|%s\n", r->help);
    }
}

/* A row for each option; commands with exactly the same option share its row. --help has no row
 * because every command has it. */
static void options_table_print(void)
{
    char form[64], range[256];
    puts("option|of|values\n---|---|---");
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        for (const struct config_key *k = c->option; k->path != NULL; k++) {
            const struct option_command *first = option_commands;
            while (option_like(first, k) == NULL)
                first++;
            if (first != c || strcmp(k->path, "help") == 0)
                continue;
            putchar('`');
            cell_print(option_form(k, form));
            printf("`|%s", owner(c));
            for (const struct option_command *o = c + 1; o->name != NULL; o++)
                if (option_like(o, k) != NULL)
                    printf(", %s", owner(o));
            putchar('|');
            cell_print(option_range(k, range));
            putchar('\n');
        }
}

/* "shoal checkpoint|list) words=.. ;;" for each command: its verbs and options. */
static void completion_words(void)
{
    for (const struct option_command *c = option_commands; c->name != NULL; c++) {
        printf("    '%s') words='", c->name);
        for (const struct option_command *v = option_commands; v->name != NULL; v++)
            if (v->brief != NULL && option_verb(c->name, v) != NULL)
                printf("%s ", option_verb(c->name, v));
        for (const struct config_key *k = c->option; k->path != NULL; k++)
            printf("--%s%s", k->path, text_if(k[1].path != NULL, " "));
        puts("' ;;");
    }
}

static void completion_choices(void)
{
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        for (const struct config_key *k = c->option; k->path != NULL; k++) {
            if (k->type == CONFIG_BOOL)
                continue;
            printf("    '%s --%s') words='", c->name, k->path);
            for (const char *p = k->choices; p != NULL && *p != '\0'; p++)
                putchar(*p == '|' ? ' ' : *p);
            puts("'; file=yes ;;");
        }
}

/* After an option that takes a value, the completion offers its choices, else file names. */
static void completion_print(void)
{
    puts("# Completion of shoal, shoal-server, shoal-coordinator and shoal-worker for bash:\n"
         "# made by tests/reference.py --write from proto/job/option_commands.c.\n"
         "_shoal()\n{\n"
         "    local at=${COMP_WORDS[0]##*/} word words='' file='' i\n"
         "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "        word=\"$at ${COMP_WORDS[i]}\"\n"
         "        case $word in");
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        if (strchr(c->name, ' ') != NULL)
            printf("        '%s') at=$word ;;\n", c->name);
    puts("        esac\n    done\n    case $at in");
    completion_words();
    puts("    esac\n    case \"$at ${COMP_WORDS[COMP_CWORD - 1]}\" in");
    completion_choices();
    puts("    esac\n"
         "    word=${COMP_WORDS[COMP_CWORD]}\n"
         "    [[ -n $file && -z $words ]] && COMPREPLY=() ||\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "}\n"
         "complete -o default -F _shoal shoal shoal-server shoal-coordinator shoal-worker");
}

/* PROGRAM|OPTION|FORM|RANGE of every option. */
static void options_list(void)
{
    char form[64], range[256];
    for (const struct option_command *c = option_commands; c->name != NULL; c++)
        for (const struct config_key *k = c->option; k->path != NULL; k++)
            printf("%s\t--%s\t%s\t%s\n", c->name, k->path, option_form(k, form),
                   option_range(k, range));
}

/* mark: the text that follows MARK, "job data -data.columns -->". */
static int table_print(char *mark, struct err *e)
{
    char *word[32], *save;
    int count = 0;
    for (char *w = strtok_r(mark, " \n", &save); w != NULL && strcmp(w, "-->") != 0 && count < 32;
         w = strtok_r(NULL, " \n", &save))
        word[count++] = w;
    if (count == 1 && strcmp(word[0], "options") == 0) {
        options_table_print();
        return 0;
    }
    if (count == 1 && strcmp(word[0], "roles") == 0) {
        roles_table_print();
        return 0;
    }
    if (count == 1 && strcmp(word[0], "metrics") == 0) {
        metrics_table_print();
        return 0;
    }
    const struct config_key *keys = NULL;
    if (count > 0)
        keys = reference_keys(word[0]);
    if (keys != NULL) {
        puts("key|values|default|meaning\n---|---|---|---");
        for (const struct config_key *k = keys; k->path != NULL; k++)
            if (chosen(k->path, word + 1, count - 1))
                row_print(k);
        return 0;
    }
    return err_set(e, SHOAL_E_DATA,
                   "%s%s: name job, server, coordinator, worker, options, roles or metrics", MARK,
                   mark);
}

static int page_print(const char *path, struct err *e)
{
    char *line = NULL;
    size_t room = 0;
    bool inside = false;
    int rc = 0;
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "%s does not open", path);
    while (rc == 0 && getline(&line, &room, f) > 0) {
        if (strncmp(line, MARK_END, strlen(MARK_END)) == 0)
            inside = false;
        if (!inside)
            fputs(line, stdout);
        if (strncmp(line, MARK, strlen(MARK)) == 0) {
            rc = table_print(line + strlen(MARK), e);
            inside = true;
        }
    }
    if (rc == 0 && inside)
        rc = err_set(e, SHOAL_E_DATA, "%s: no %s behind the last table", path, MARK_END);
    free(line);
    fclose(f);
    return rc;
}

/* ---- JSON Schema ----------------------------------------------------------------------------- */

static struct json *node_new(const char *type)
{
    struct json *node = json_new_object();
    json_set_string(node, "type", type);
    if (strcmp(type, "object") == 0) {
        json_set_bool(node, "additionalProperties", false);
        json_set(node, "properties", json_new_object());
    }
    return node;
}

/* The member `name` of a mapping, created if it is missing. "name[]": the element type of that
 * list. */
static struct json *node_below(struct json *node, const char *name)
{
    char bare[LIMIT_NAME];
    size_t bytes = strcspn(name, "[");
    bool list = name[bytes] == '[';
    (void)snprintf(bare, sizeof bare, "%.*s", (int)bytes, name);
    struct json *members = json_get(node, "properties"), *one = json_get(members, bare);
    if (one == NULL) {
        one = node_new(list ? "array" : "object");
        if (list)
            json_set(one, "items", node_new("object"));
        json_set(members, bare, one);
    } else if (json_get(one, "properties") == NULL && !list) { /* a value, or a mapping */
        struct json *types = json_new_array();
        json_append_string(types, json_get_string(one, "type", ""));
        json_append_string(types, "object");
        json_set(one, "type", types);
        json_set_bool(one, "additionalProperties", false);
        json_set(one, "properties", json_new_object());
    }
    if (list)
        return json_get(one, "items");
    return one;
}

/* types: "array string": the value has one of them. */
static void types_set(struct json *leaf, const char *types)
{
    struct json *list = json_new_array();
    char text[64], *save;
    text_copy(text, sizeof text, types);
    for (char *t = strtok_r(text, " ", &save); t != NULL; t = strtok_r(NULL, " ", &save))
        json_append_string(list, t);
    json_set(leaf, "type", list);
}

static void choices_set(struct json *leaf, const char *choices)
{
    struct json *list = json_new_array();
    char one[LIMIT_NAME];
    for (const char *p = choices; *p != '\0';) {
        size_t bytes = strcspn(p, "|");
        (void)snprintf(one, sizeof one, "%.*s", (int)bytes, p);
        json_append_string(list, one);
        p += bytes;
        p += *p == '|';
    }
    json_set(leaf, "enum", list);
}

/* A size is a number, or a number with a unit. A name may also be written as a YAML number. */
static struct json *leaf_new(const struct config_key *k)
{
    char text[2 * KEYS_TEXT_MAX + 512], fallback[KEYS_TEXT_MAX];
    struct json *leaf = json_new_object();
    const char *about = text_or(k->text, "");
    (void)snprintf(text, sizeof text, "%s%sDefault: %s", about, text_if(k->text != NULL, ". "),
                   keys_default(k, fallback));
    if (fallback[0] != '\0')
        about = text;
    json_set_string(leaf, "description", about);
    if (k->type == CONFIG_ENUM)
        choices_set(leaf, k->choices);
    else if (k->type == CONFIG_BOOL)
        json_set_string(leaf, "type", "boolean");
    else if (k->type == CONFIG_INT)
        json_set_string(leaf, "type", "integer");
    else if (k->type == CONFIG_FLOAT)
        json_set_string(leaf, "type", "number");
    else if (k->type == CONFIG_SIZE)
        types_set(leaf, "number string");
    else if (k->type == CONFIG_STRING)
        types_set(leaf, "string number");
    else
        types_set(leaf, "array string number object");
    if (k->min != 0 || k->max != 0) {
        json_set_number(leaf, "minimum", k->min);
        json_set_number(leaf, "maximum", k->max);
    }
    return leaf;
}

/* "name[]": a list of such values. */
static void leaf_put(struct json *members, const char *name, struct json *leaf)
{
    char bare[LIMIT_NAME];
    size_t bytes = strcspn(name, "[");
    struct json *of = leaf;
    (void)snprintf(bare, sizeof bare, "%.*s", (int)bytes, name);
    if (name[bytes] == '[') {
        of = json_new_object();
        json_set_string(of, "type", "array");
        json_set(of, "items", leaf);
    }
    json_set(members, bare, of);
}

static void schema_print(const struct config_key *keys)
{
    struct json *top = json_new_object();
    json_set_string(top, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_set_string(top, "title", "Shoal's job.yaml");
    json_set_string(top, "type", "object");
    json_set_bool(top, "additionalProperties", false);
    json_set(top, "properties", json_new_object());
    for (const struct config_key *k = keys; k->path != NULL; k++) {
        char path[LIMIT_PATH], *name = path, *dot;
        struct json *node = top;
        text_copy(path, sizeof path, k->path);
        for (; (dot = strchr(name, '.')) != NULL; name = dot + 1) {
            *dot = '\0';
            node = node_below(node, name);
        }
        leaf_put(json_get(node, "properties"), name, leaf_new(k));
    }
    char *text = json_text(top, 2);
    puts(text_or(text, ""));
    free(text);
    json_free(top);
}

/* ---- events ---- */

/* Prints the catalog's text in lines of up to 80 columns. */
static void text_fold(const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (column > 0 && column + 1 + n > 80) {
            putchar('\n');
            column = 0;
        }
        printf("%s%.*s", text_if(column > 0, " "), (int)n, text);
        column += n + (column > 0);
        text += n + strspn(text + n, " ");
    }
    putchar('\n');
}

/* Prints the catalog for journalctl -x. */
static void catalog_print(void)
{
    puts("# What each event means and what to do (journalctl -x): made by tests/reference.py "
         "--write\n"
         "# from proto/base/log_events.h.");
    for (int i = LOG_EVENT_NONE + 1; i < LOG_EVENT_COUNT; i++) {
        const struct log_event_text *t = &log_events[i];
        printf("\n-- %s\nSubject: %s\nDefined-By: shoal\nDocumentation: man:shoal(7)\n\n", t->id,
               t->subject);
        text_fold(t->meaning);
        putchar('\n');
        text_fold(t->advice);
    }
}

int main(int argc, char **argv)
{
    struct err e = {0};
    int rc = 0;
    if (argc == 3 && strcmp(argv[1], "page") == 0)
        rc = page_print(argv[2], &e);
    else if (argc == 2 && strcmp(argv[1], "schema") == 0)
        schema_print(keys_job);
    else if (argc == 2 && strcmp(argv[1], "keys") == 0)
        for (int i = 0; i < FILES; i++)
            for (const struct config_key *k = files[i].keys; k->path != NULL; k++)
                printf("%s %s\n", files[i].name, k->path);
    else if (argc == 2 && strcmp(argv[1], "options") == 0)
        options_list();
    else if (argc == 2 && strcmp(argv[1], "completion") == 0)
        completion_print();
    else if (argc == 2 && strcmp(argv[1], "catalog") == 0)
        catalog_print();
    else if (argc == 3 && strcmp(argv[1], "completion") == 0 && strcmp(argv[2], "zsh") == 0)
        reference_zsh();
    else if (argc == 3 && strcmp(argv[1], "man") == 0)
        rc = reference_man(argv[2], &e);
    else
        rc = err_set(&e, SHOAL_E_USAGE,
                     "usage: reference page FILE.md | schema | keys | options | completion [zsh] "
                     "| man VERB | man FOLDER/PAGE | catalog");
    if (rc == 0 && fflush(stdout) != 0)
        rc = err_set(&e, SHOAL_E_IO, "standard output cannot be written");
    if (rc == 0)
        return 0;
    fprintf(stderr, "reference: %s\n", e.text);
    return err_exit_status(rc);
}
