/* config.c: YAML -> a flat list of (path, value, line), checked against the known keys. The one door to yaml.h.
 *
 * A file is flattened to entries like "tables[0].init.kind" = "uniform" (line 12); --set replaces or adds entries; then every entry
 * must be a known key with a value of its type. config_text writes the entries back one a line: such dotted keys are read like nested ones. */
#include "proto/base/config.h"
#include "proto/base/assert.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { ENTRIES_MAX = 4096, DEPTH_MAX = 8, PATH_MAX_BYTES = 192 };

struct entry {
    char path[PATH_MAX_BYTES];
    char *value; /* owned; NULL for an empty list */
    int line;
    bool set; /* by --set */
    bool quoted; /* so that "" is a value */
    const struct config_key *key;
};

struct config {
    char name[LIMIT_PATH];
    struct entry *entry; /* owned */
    size_t count;
};

/* ---- lists of strings ------------------------------------------------------------------------------------- */

int string_list_add(struct string_list *l, const char *s)
{
    char **grown = realloc(l->item, (l->count + 1) * sizeof *grown);
    if (grown == NULL)
        return SHOAL_E_NOMEM;
    l->item = grown;
    l->item[l->count] = strdup(s);
    if (l->item[l->count] == NULL)
        return SHOAL_E_NOMEM;
    l->count++;
    return 0;
}

void string_list_free(struct string_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->item[i]);
    free(l->item);
    *l = (struct string_list){0};
}

/* ---- entries ---------------------------------------------------------------------------------------------- */

static struct entry *entry_find(const struct config *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->entry[i].path, path) == 0)
            return &c->entry[i];
    return NULL;
}

static int entry_add(struct config *c, const char *path, const char *value, int line, bool quoted, struct err *e)
{
    if (c->count >= ENTRIES_MAX)
        return err_set(e, SHOAL_E_CONFIG, "%s: more than %d values", c->name, ENTRIES_MAX);
    if (strlen(path) >= PATH_MAX_BYTES)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: key %.60s... is too long", c->name, line, path);
    if (entry_find(c, path) != NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: key %s stands twice; keep one", c->name, line, path);
    struct entry *grown = realloc(c->entry, (c->count + 1) * sizeof *grown);
    if (grown == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", c->name);
    c->entry = grown;
    struct entry *n = &c->entry[c->count];
    *n = (struct entry){.line = line, .quoted = quoted};
    (void)snprintf(n->path, sizeof n->path, "%s", path);
    if (value != NULL && (n->value = strdup(value)) == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", c->name);
    c->count++;
    return 0;
}

/* Whether path lies at or under prefix. */
static bool path_under(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(path, prefix, n) == 0 && (path[n] == 0 || path[n] == '.' || path[n] == '[');
}

static void entry_remove_under(struct config *c, const char *prefix)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->count; i++) {
        if (path_under(c->entry[i].path, prefix))
            free(c->entry[i].value);
        else
            c->entry[kept++] = c->entry[i];
    }
    c->count = kept;
}

/* ---- YAML -> entries -------------------------------------------------------------------------------------- */

static int node_flatten(struct config *c, yaml_document_t *d, yaml_node_t *node, const char *path, int depth, struct err *e)
{
    char below[2 * PATH_MAX_BYTES];
    int line = (int)node->start_mark.line + 1, status = 0;

    if (depth > DEPTH_MAX)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: nested deeper than %d levels", c->name, line, DEPTH_MAX);
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return entry_add(c, path, (const char *)node->data.scalar.value, line,
                         node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE, e);
    case YAML_SEQUENCE_NODE: {
        int index = 0;
        if (node->data.sequence.items.start == node->data.sequence.items.top)
            return entry_add(c, path, NULL, line, false, e);
        for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top && status == 0; i++) {
            (void)snprintf(below, sizeof below, "%.*s[%d]", PATH_MAX_BYTES, path, index++);
            status = node_flatten(c, d, yaml_document_get_node(d, *i), below, depth + 1, e);
        }
        return status;
    }
    case YAML_MAPPING_NODE:
        for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top && status == 0; p++) {
            yaml_node_t *key = yaml_document_get_node(d, p->key);
            if (key->type != YAML_SCALAR_NODE)
                return err_set(e, SHOAL_E_CONFIG, "%s:%d: a key must be a word", c->name, line);
            (void)snprintf(below, sizeof below, "%.*s%s%.*s", PATH_MAX_BYTES, path, path[0] != 0 ? "." : "", PATH_MAX_BYTES / 2,
                           (const char *)key->data.scalar.value);
            status = node_flatten(c, d, yaml_document_get_node(d, p->value), below, depth + 1, e);
            if (status == 0 && c->count > 0 && strcmp(c->entry[c->count - 1].path, below) == 0)
                c->entry[c->count - 1].line = (int)key->start_mark.line + 1;
        }
        return status;
    case YAML_NO_NODE:
        break;
    }
    return err_set(e, SHOAL_E_CONFIG, "%s:%d: not understood", c->name, line);
}

/* Adds the entries of a YAML text under `prefix` ("" for a file). */
static int text_flatten(struct config *c, const char *text, size_t bytes, const char *prefix, struct err *e)
{
    yaml_parser_t parser;
    yaml_document_t document;
    int status;

    if (bytes > LIMIT_CONFIG_BYTES)
        return err_set(e, SHOAL_E_CONFIG, "%s: %zu bytes, at most %u", c->name, bytes, LIMIT_CONFIG_BYTES);
    if (!yaml_parser_initialize(&parser))
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", c->name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    if (!yaml_parser_load(&parser, &document)) {
        status = err_set(e, SHOAL_E_CONFIG, "%s:%d: %s%s%s", c->name, (int)parser.problem_mark.line + 1,
                         parser.context != NULL ? parser.context : "", parser.context != NULL ? ", " : "",
                         parser.problem != NULL ? parser.problem : "not YAML");
        yaml_parser_delete(&parser);
        return status;
    }
    yaml_node_t *root = yaml_document_get_root_node(&document);
    if (root == NULL)
        status = prefix[0] != 0 ? entry_add(c, prefix, "", 0, true, e) : 0;
    else if (prefix[0] == 0 && root->type != YAML_MAPPING_NODE)
        status = err_set(e, SHOAL_E_CONFIG, "%s:1: expected \"key: value\" lines", c->name);
    else
        status = node_flatten(c, &document, root, prefix, 0, e);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return status;
}

/* "tables.0.dim" means "tables[0].dim". */
static void path_normalise(const char *in, size_t bytes, char out[PATH_MAX_BYTES])
{
    size_t n = 0;

    for (size_t i = 0; i < bytes && n + 3 < PATH_MAX_BYTES; i++) {
        if (in[i] == '.' && i + 1 < bytes && in[i + 1] >= '0' && in[i + 1] <= '9') {
            out[n++] = '[';
            for (i++; i < bytes && in[i] >= '0' && in[i] <= '9' && n + 3 < PATH_MAX_BYTES; i++)
                out[n++] = in[i];
            out[n++] = ']';
            i--;
        } else {
            out[n++] = in[i];
        }
    }
    out[n] = 0;
}

static int overrides_apply(struct config *c, const struct string_list *set, struct err *e)
{
    char path[PATH_MAX_BYTES];

    for (size_t i = 0; set != NULL && i < set->count; i++) {
        const char *equals = strchr(set->item[i], '=');
        if (equals == NULL || equals == set->item[i])
            return err_set(e, SHOAL_E_USAGE, "--set %s: expected KEY=VALUE, such as train.batch=4096", set->item[i]);
        path_normalise(set->item[i], (size_t)(equals - set->item[i]), path);
        entry_remove_under(c, path);
        size_t before = c->count;
        int status = text_flatten(c, equals + 1, strlen(equals + 1), path, e);
        for (size_t k = before; k < c->count; k++)
            c->entry[k].set = true;
        if (status != 0)
            return err_wrap(e, status, "--set %s", set->item[i]);
    }
    return 0;
}

/* ---- entries against the known keys ----------------------------------------------------------------------- */

/* "tables[3].dim" -> "tables[].dim" */
static void path_generic(const char *in, char out[PATH_MAX_BYTES])
{
    size_t n = 0;

    for (const char *p = in; *p != 0; p++) {
        out[n++] = *p;
        if (*p == '[')
            while (p[1] >= '0' && p[1] <= '9')
                p++;
    }
    out[n] = 0;
}

static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[PATH_MAX_BYTES + 1];
    size_t n = strlen(b);

    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1] != 0; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]), least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < least ? change : least;
        }
    }
    return row[n];
}

static const char *nearest_key(const struct config_key *spec, const char *path)
{
    const char *best = "";
    unsigned least = ~0u;

    for (; spec->path != NULL; spec++) {
        unsigned d = edit_distance(path, spec->path);
        if (d < least) {
            least = d;
            best = spec->path;
        }
    }
    return best;
}

static const struct config_key *key_find(const struct config_key *spec, const char *generic)
{
    size_t n = strlen(generic);

    for (; spec->path != NULL; spec++) {
        if (strcmp(spec->path, generic) == 0)
            return spec;
        if (spec->type == CONFIG_LIST) { /* its elements: "x[]", "x[].cmd", "x.cmd" */
            size_t k = strlen(spec->path);
            if (n > k && strncmp(spec->path, generic, k) == 0 &&
                (strcmp(generic + k, "[]") == 0 || strcmp(generic + k, "[].cmd") == 0 || strcmp(generic + k, ".cmd") == 0))
                return spec;
        }
    }
    return NULL;
}

#define SIZE_LARGEST 9e18 /* bytes or ms: fits 63 bits */

/* A number with an optional suffix out of `suffix` pairs; false when it is none. */
static bool size_parse(const char *text, double *out)
{
    static const struct {
        const char *suffix;
        double factor;
    } unit[] = {{"", 1},           {"k", 1e3},         {"M", 1e6},         {"G", 1e9},  {"T", 1e12},  {"KiB", 1024.0},
                {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}, {"ms", 1},   {"s", 1e3},   {"min", 6e4}};
    char *end;
    double x = strtod(text, &end);

    if (end == text)
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++)
        if (strcmp(end, unit[i].suffix) == 0) {
            *out = x * unit[i].factor;
            return isfinite(*out);
        }
    return false;
}

static bool number_parse(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*out);
}

/* Plain digits are exact up to 63 bits, for seeds; 1e6 and 0x1f are taken as far as a double holds every whole number. */
static bool int_parse(const char *text, int64_t *out)
{
    double x;

    if (strpbrk(text, ".eExX") == NULL) {
        char *end;
        errno = 0;
        *out = (int64_t)strtoll(text, &end, 10);
        return end != text && *end == 0 && errno == 0;
    }
    if (!number_parse(text, &x) || x != floor(x) || fabs(x) > 9007199254740992.0)
        return false;
    *out = (int64_t)x;
    return true;
}

static int bool_parse(const char *text)
{
    static const char *const word[] = {"false", "true", "no", "yes", "off", "on"};

    for (int i = 0; i < 6; i++)
        if (strcmp(text, word[i]) == 0)
            return i % 2;
    return -1;
}

static int choice_parse(const char *text, const char *choices)
{
    size_t n = strlen(text);
    int index = 0;

    for (const char *p = choices; p != NULL; p = strchr(p, '|') == NULL ? NULL : strchr(p, '|') + 1, index++)
        if (strncmp(p, text, n) == 0 && (p[n] == 0 || p[n] == '|'))
            return index;
    return -1;
}

#define PLACE_BYTES (LIMIT_PATH + 16)

/* "job.yaml:12", or "--set" where the command line said it. */
static const char *place_of(const struct config *c, const struct entry *n, char out[PLACE_BYTES])
{
    if (n->set)
        return "--set";
    (void)snprintf(out, PLACE_BYTES, "%.*s:%d", (int)LIMIT_PATH, c->name, n->line);
    return out;
}

static int value_check(const struct config *c, const struct entry *n, const struct config_key *k, struct err *e)
{
    char where[PLACE_BYTES];
    double x = 0;
    int64_t whole;

    if (n->value == NULL) /* an empty list */
        return k->type == CONFIG_LIST ? 0
                                      : err_set(e, SHOAL_E_CONFIG, "%s: %s: an empty list is no value here", place_of(c, n, where), n->path);
    if (n->value[0] == 0 && !n->quoted)
        return err_set(e, SHOAL_E_CONFIG, "%s: %s has no value; give one or take the line out", place_of(c, n, where), n->path);
    switch (k->type) {
    case CONFIG_STRING:
    case CONFIG_LIST:
    case CONFIG_ANY:
        return 0;
    case CONFIG_BOOL:
        return bool_parse(n->value) >= 0
                   ? 0
                   : err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not true or false", place_of(c, n, where), n->path, n->value);
    case CONFIG_ENUM:
        return choice_parse(n->value, k->choices) >= 0
                   ? 0
                   : err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not one of %s", place_of(c, n, where), n->path, n->value, k->choices);
    case CONFIG_SIZE:
        if (!size_parse(n->value, &x) || x < 0 || x > SIZE_LARGEST)
            return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not a size or time (such as 512MiB, 4GiB, 10s)", place_of(c, n, where),
                           n->path, n->value);
        break;
    case CONFIG_INT:
    case CONFIG_FLOAT:
        if (!number_parse(n->value, &x))
            return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not a number", place_of(c, n, where), n->path, n->value);
        if (k->type == CONFIG_INT && !int_parse(n->value, &whole))
            return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not a whole number of at most 63 bits", place_of(c, n, where), n->path, n->value);
        break;
    }
    if ((k->min != 0 || k->max != 0) && (x < k->min || x > k->max))
        return err_set(e, SHOAL_E_CONFIG, "%s: %s: %s is not between %g and %g", place_of(c, n, where), n->path, n->value, k->min, k->max);
    return 0;
}

static int entries_check(struct config *c, const struct config_key *spec, struct err *e)
{
    char generic[PATH_MAX_BYTES], where[PLACE_BYTES];

    for (size_t i = 0; i < c->count; i++) {
        struct entry *n = &c->entry[i];
        path_generic(n->path, generic);
        n->key = key_find(spec, generic);
        if (n->key == NULL) {
            for (const struct config_key *k = spec; k->path != NULL; k++)
                if (path_under(k->path, generic) && k->path[strlen(generic)] != 0)
                    return err_set(e, SHOAL_E_CONFIG, "%s: %s holds further keys (such as %s), not a value", place_of(c, n, where), n->path,
                                   k->path);
            return err_set(e, SHOAL_E_CONFIG, "%s: unknown key %s; the nearest known key is %s", place_of(c, n, where), n->path,
                           nearest_key(spec, generic));
        }
        int status = value_check(c, n, n->key, e);
        if (status != 0)
            return status;
    }
    return 0;
}

/* ---- opening ---------------------------------------------------------------------------------------------- */

int config_parse(const char *text, size_t bytes, const char *name, const struct string_list *set, const struct config_key *spec,
                 struct config **out, struct err *e)
{
    struct config *c = calloc(1, sizeof *c);

    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", name);
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    int status = text_flatten(c, text, bytes, "", e);
    if (status == 0)
        status = overrides_apply(c, set, e);
    if (status == 0)
        status = entries_check(c, spec, e);
    if (status != 0) {
        config_free(c);
        return status;
    }
    *out = c;
    return 0;
}

int config_load(const char *path, const struct string_list *set, const struct config_key *spec, struct config **out, struct err *e)
{
    FILE *f = fopen(path, "rb");

    if (f == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "%s: cannot open it: %s", path, strerror(errno));
    char *text = malloc(LIMIT_CONFIG_BYTES + 1);
    if (text == NULL) {
        fclose(f);
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", path);
    }
    size_t bytes = fread(text, 1, LIMIT_CONFIG_BYTES + 1, f);
    int failed = ferror(f);
    fclose(f);
    int status = failed ? err_set(e, SHOAL_E_IO, "%s: cannot read it: %s", path, strerror(errno))
                        : config_parse(text, bytes, path, set, spec, out, e);
    free(text);
    return status;
}

void config_free(struct config *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->count; i++)
        free(c->entry[i].value);
    free(c->entry);
    free(c);
}

static void text_quote(FILE *f, const char *value)
{
    fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)value; *p != 0; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(f, "\\x%02x", *p);
        else
            fputc(*p, f);
    }
    fputc('"', f);
}

char *config_text(const struct config *c)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    if (f == NULL)
        return NULL;
    for (size_t i = 0; i < c->count; i++) {
        fprintf(f, "%s: ", c->entry[i].path);
        if (c->entry[i].value == NULL)
            fputs("[]", f);
        else
            text_quote(f, c->entry[i].value);
        fputc('\n', f);
    }
    if (c->count == 0)
        fputs("{}\n", f);
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- getters ---------------------------------------------------------------------------------------------- */

bool config_has(const struct config *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (path_under(c->entry[i].path, path))
            return true;
    return false;
}

size_t config_count(const struct config *c, const char *path)
{
    size_t n = strlen(path), count = 0;

    for (size_t i = 0; i < c->count; i++)
        if (strncmp(c->entry[i].path, path, n) == 0 && c->entry[i].path[n] == '[') {
            size_t index = (size_t)strtoul(c->entry[i].path + n + 1, NULL, 10);
            if (index < ENTRIES_MAX && index + 1 > count)
                count = index + 1;
        }
    return count;
}

static const struct entry *entry_typed(const struct config *c, const char *path, enum config_type type)
{
    const struct entry *n = entry_find(c, path);

    SHOAL_ASSERT(n == NULL || n->key->type == type);
    return n;
}

const char *config_string(const struct config *c, const char *path, const char *fallback)
{
    const struct entry *n = entry_find(c, path);

    SHOAL_ASSERT(n == NULL || n->key->type == CONFIG_STRING || n->key->type == CONFIG_ANY);
    return n == NULL ? fallback : n->value;
}

int64_t config_int(const struct config *c, const char *path, int64_t fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_INT);
    int64_t x = 0;

    if (n == NULL)
        return fallback;
    (void)int_parse(n->value, &x);
    return x;
}

double config_float(const struct config *c, const char *path, double fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_FLOAT);
    double x;

    if (n == NULL)
        return fallback;
    (void)number_parse(n->value, &x);
    return x;
}

bool config_bool(const struct config *c, const char *path, bool fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_BOOL);

    return n == NULL ? fallback : bool_parse(n->value) == 1;
}

uint64_t config_size(const struct config *c, const char *path, uint64_t fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_SIZE);
    double x;

    if (n == NULL)
        return fallback;
    (void)size_parse(n->value, &x);
    return (uint64_t)x;
}

int config_enum(const struct config *c, const char *path, int fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_ENUM);

    return n == NULL ? fallback : choice_parse(n->value, n->key->choices);
}

int config_line(const struct config *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (path_under(c->entry[i].path, path))
            return c->entry[i].line;
    return 0;
}

/* One item of a list at `path`: a string, or a command as "cmd:...". */
static int list_item(const struct config *c, const char *path, struct string_list *out)
{
    char below[PATH_MAX_BYTES + 8];
    const struct entry *n = entry_find(c, path);

    if (n != NULL)
        return n->value == NULL ? 0 : string_list_add(out, n->value);
    (void)snprintf(below, sizeof below, "%s.cmd", path);
    n = entry_find(c, below);
    if (n == NULL || n->value == NULL)
        return 0;
    char *command = malloc(strlen(n->value) + 5);
    if (command == NULL)
        return SHOAL_E_NOMEM;
    (void)sprintf(command, "cmd:%s", n->value);
    int status = string_list_add(out, command);
    free(command);
    return status;
}

int config_list(const struct config *c, const char *path, struct string_list *out)
{
    char item[PATH_MAX_BYTES + 16];
    size_t count = config_count(c, path);
    int status = 0;

    if (count == 0)
        return list_item(c, path, out);
    for (size_t i = 0; i < count && status == 0; i++) {
        (void)snprintf(item, sizeof item, "%s[%zu]", path, i);
        status = list_item(c, item, out);
    }
    return status;
}
