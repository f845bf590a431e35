/* config.c: YAML -> a flat list of (path, value, line). Only this file includes yaml.h.
 * config_check.c checks the entries against the known keys, config_get.c reads them.
 *
 * A file is flattened to entries like "tables[0].init.kind" = "uniform" (line 12); --set replaces
 * or adds entries; then every entry must be a known key with a value of its type. config_text
 * writes the entries back, one in each line: dotted keys are read like nested ones. */
#include "proto/job/config_inner.h"

#include "proto/base/array.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 8, VISITS_MAX = 65536 };

/* ---- entries --------------------------------------------------------------------------------- */

/* The index in `slot` of the path's entry, or the free one where it would be added. */
static uint32_t slot_of(const struct config *c, const char *path)
{
    uint32_t at = (uint32_t)hash_bytes(path, strlen(path), 0) % SLOTS;
    while (c->slot[at] != 0 && strcmp(c->entry[c->slot[at] - 1].path, path) != 0)
        at = (at + 1) % SLOTS;
    return at;
}

struct entry *config_entry_find(const struct config *c, const char *path)
{
    uint32_t place = c->slot[slot_of(c, path)];
    if (place == 0)
        return NULL;
    return &c->entry[place - 1];
}

static int entry_add(struct config *c, const char *path, const char *value, int line, bool quoted,
                     struct err *e)
{
    if (c->count >= ENTRIES_MAX)
        return err_set(e, SHOAL_E_CONFIG, "%s: more than %d values", c->name, ENTRIES_MAX);
    if (strlen(path) >= PATH_MAX_BYTES)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: key %.60s... is too long", c->name, line, path);
    if (config_entry_find(c, path) != NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: key %s stands twice; keep one", c->name, line,
                       path);
    if (array_room(&c->entry, c->count, &c->capacity, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", c->name);
    struct entry *n = &c->entry[c->count];
    *n = (struct entry){.line = line, .quoted = quoted};
    text_copy(n->path, sizeof n->path, path);
    if (value != NULL && (n->value = strdup(value)) == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", c->name);
    c->count++;
    c->slot[slot_of(c, path)] = (uint16_t)c->count;
    return 0;
}

bool config_path_under(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(path, prefix, n) == 0 && (path[n] == 0 || path[n] == '.' || path[n] == '[');
}

static void entry_remove_under(struct config *c, const char *prefix)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (config_path_under(c->entry[i].path, prefix))
            free(c->entry[i].value);
        else
            c->entry[kept++] = c->entry[i];
    memset(c->slot, 0, sizeof c->slot);
    for (c->count = 0; c->count < kept; c->count++) /* in order: each finds its own place */
        c->slot[slot_of(c, c->entry[c->count].path)] = (uint16_t)(c->count + 1);
}

/* ---- YAML -> entries ------------------------------------------------------------------------- */

static int node_flatten(struct config *c, yaml_document_t *d, yaml_node_t *node, const char *path,
                        int depth, struct err *e)
{
    char below[2 * PATH_MAX_BYTES];
    int line = (int)node->start_mark.line + 1, rc = 0;
    if (depth > DEPTH_MAX)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: nested deeper than %d levels", c->name, line,
                       DEPTH_MAX);
    if (++c->visits > VISITS_MAX)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%d: more than %d values, each alias (*name) counted as what it names",
                       c->name, line, VISITS_MAX);
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return entry_add(c, path, (const char *)node->data.scalar.value, line,
                         node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE, e);
    case YAML_SEQUENCE_NODE: {
        int index = 0;
        if (node->data.sequence.items.start == node->data.sequence.items.top)
            return entry_add(c, path, NULL, line, false, e);
        for (yaml_node_item_t *i = node->data.sequence.items.start;
             i < node->data.sequence.items.top && rc == 0; i++) {
            (void)snprintf(below, sizeof below, "%.*s[%d]", PATH_MAX_BYTES, path, index++);
            rc = node_flatten(c, d, yaml_document_get_node(d, *i), below, depth + 1, e);
        }
        return rc;
    }
    case YAML_MAPPING_NODE:
        for (yaml_node_pair_t *p = node->data.mapping.pairs.start;
             p < node->data.mapping.pairs.top && rc == 0; p++) {
            yaml_node_t *key = yaml_document_get_node(d, p->key);
            if (key->type != YAML_SCALAR_NODE)
                return err_set(e, SHOAL_E_CONFIG, "%s:%d: a key must be a word", c->name, line);
            (void)snprintf(below, sizeof below, "%.*s%s%.*s", PATH_MAX_BYTES, path,
                           text_if(path[0] != 0, "."), PATH_MAX_BYTES / 2,
                           (const char *)key->data.scalar.value);
            rc = node_flatten(c, d, yaml_document_get_node(d, p->value), below, depth + 1, e);
            if (rc == 0 && c->count > 0 && strcmp(c->entry[c->count - 1].path, below) == 0)
                c->entry[c->count - 1].line = (int)key->start_mark.line + 1;
        }
        return rc;
    case YAML_NO_NODE:
        break;
    }
    return err_set(e, SHOAL_E_CONFIG, "%s:%d: not understood", c->name, line);
}

/* Adds the entries of a YAML text under `prefix` ("" for a file). */
static int text_flatten(struct config *c, const char *text, size_t bytes, const char *prefix,
                        struct err *e)
{
    yaml_parser_t parser;
    yaml_document_t document;
    int rc;
    if (bytes > LIMIT_CONFIG_BYTES)
        return err_set(e, SHOAL_E_CONFIG, "%s: %zu bytes, at most %u", c->name, bytes,
                       LIMIT_CONFIG_BYTES);
    if (!yaml_parser_initialize(&parser))
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", c->name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    if (!yaml_parser_load(&parser, &document)) {
        const char *problem = text_or(parser.problem, "not YAML"), *hint = "";
        if (strncmp(problem, "block sequence", 14) == 0)
            hint = " (a - alone begins a list; for standard input write '-')";
        rc = err_set(e, SHOAL_E_CONFIG, "%s:%d: %s%s%s%s", c->name,
                     (int)parser.problem_mark.line + 1, text_or(parser.context, ""),
                     text_if(parser.context != NULL, ", "), problem, hint);
        yaml_parser_delete(&parser);
        return rc;
    }
    yaml_node_t *root = yaml_document_get_root_node(&document);
    if (root == NULL)
        rc = prefix[0] != 0 ? entry_add(c, prefix, "", 0, true, e) : 0;
    else if (prefix[0] == 0 && root->type != YAML_MAPPING_NODE)
        rc = err_set(e, SHOAL_E_CONFIG, "%s:1: expected \"key: value\" lines", c->name);
    else
        rc = node_flatten(c, &document, root, prefix, 0, e);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return rc;
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

/* True when a --set text for a key of type string is taken as it is, because it is no YAML scalar,
 * such as "::" or "|". */
static bool is_verbatim(const struct config *c, const char *path, const char *text)
{
    const struct config_key *key = config_key_find(c->spec, path);
    yaml_parser_t parser;
    yaml_document_t document;
    if (key == NULL || key->type != CONFIG_STRING || !yaml_parser_initialize(&parser))
        return false;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    bool parsed = yaml_parser_load(&parser, &document) != 0;
    const yaml_node_t *root = parsed ? yaml_document_get_root_node(&document) : NULL;
    bool scalar = root != NULL && root->type == YAML_SCALAR_NODE &&
                  root->data.scalar.style != YAML_LITERAL_SCALAR_STYLE &&
                  root->data.scalar.style != YAML_FOLDED_SCALAR_STYLE;
    bool verbatim = text[0] != 0 && !scalar;
    if (parsed)
        yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return verbatim;
}

static int overrides_apply(struct config *c, const struct string_list *set, struct err *e)
{
    char path[PATH_MAX_BYTES];
    for (size_t i = 0; set != NULL && i < set->count; i++) {
        const char *equals = strchr(set->item[i], '=');
        if (equals == NULL || equals == set->item[i])
            return err_set(e, SHOAL_E_USAGE,
                           "--set %s: expected KEY=VALUE, such as train.batch=4096", set->item[i]);
        path_normalise(set->item[i], (size_t)(equals - set->item[i]), path);
        entry_remove_under(c, path);
        size_t before = c->count;
        /* "-" is standard input here; to YAML it is an empty list */
        int rc;
        if (strcmp(equals + 1, "-") == 0 || is_verbatim(c, path, equals + 1))
            rc = entry_add(c, path, equals + 1, 0, true, e);
        else
            rc = text_flatten(c, equals + 1, strlen(equals + 1), path, e);
        for (size_t k = before; k < c->count; k++)
            c->entry[k].set = true;
        if (rc != 0)
            return err_wrap(e, rc, "--set %s", set->item[i]);
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

int config_parse(const char *text, size_t bytes, const char *name, const struct string_list *set,
                 const struct config_key *spec, struct config **out, struct err *e)
{
    struct config *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", name);
    text_copy(c->name, sizeof c->name, name);
    c->spec = spec;
    int rc = text_flatten(c, text, bytes, "", e);
    if (rc == 0)
        rc = overrides_apply(c, set, e);
    if (rc == 0)
        rc = config_entries_check(c, spec, e);
    if (rc != 0) {
        config_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

int config_read(const char *path, char **text, size_t *bytes, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "%s: cannot open it: %s", path, strerror(errno));
    *text = malloc(LIMIT_CONFIG_BYTES + 1);
    if (*text == NULL) {
        fclose(f);
        return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", path);
    }
    *bytes = fread(*text, 1, LIMIT_CONFIG_BYTES + 1, f);
    int failed = ferror(f);
    fclose(f);
    if (failed == 0)
        return 0;
    free(*text);
    return err_set(e, SHOAL_E_IO, "%s: cannot read it: %s", path, strerror(errno));
}

int config_load(const char *path, const struct string_list *set, const struct config_key *spec,
                struct config **out, struct err *e)
{
    char *text;
    size_t bytes;
    int rc = config_read(path, &text, &bytes, e);
    if (rc != 0)
        return rc;
    rc = config_parse(text, bytes, path, set, spec, out, e);
    free(text);
    return rc;
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

/* The form of a byte between quotes. */
static const char *byte_quote(unsigned char c, char out[5])
{
    if (c == '"' || c == '\\')
        (void)snprintf(out, 5, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
        (void)snprintf(out, 5, "\\x%02x", c);
    else
        (void)snprintf(out, 5, "%c", c);
    return out;
}

static void text_quote(FILE *f, const char *value)
{
    char byte[5];
    fputc('"', f);
    for (; *value != 0; value++)
        fputs(byte_quote((unsigned char)*value, byte), f);
    fputc('"', f);
}

void config_quote(const char *text, char *out)
{
    *out++ = '"';
    for (; *text != 0; text++)
        out += strlen(byte_quote((unsigned char)*text, out));
    memcpy(out, "\"", 2);
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

/* ---- commands -------------------------------------------------------------------------------- */

/* The text that replaces the entry's value where that is a command or has one; NULL: it has
 * none. */
static const char *hidden_of(const struct entry *n, const char *also)
{
    static const char *const forms[] = {".cmd", ".object.list", ".object.open"};
    size_t bytes = strlen(n->path);
    if (n->value == NULL)
        return NULL;
    if (config_path_under(n->path, also))
        return "hidden";
    if (n->key->type != CONFIG_LIST)
        return NULL;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t form = strlen(forms[i]);
        if (bytes > form && strcmp(n->path + bytes - form, forms[i]) == 0)
            return "hidden";
    }
    if (strncmp(n->value, "cmd:", 4) == 0)
        return "cmd:hidden";
    if (strncmp(n->value, "object:", 7) == 0)
        return "object:hidden" CONFIG_UNIT "hidden";
    return NULL;
}

int config_commands_hide(struct config *c, const char *also, struct err *e)
{
    for (size_t i = 0; i < c->count; i++) {
        struct entry *n = &c->entry[i];
        const char *word = hidden_of(n, also);
        if (word == NULL)
            continue;
        char *value = strdup(word);
        if (value == NULL)
            return err_set(e, SHOAL_E_NOMEM, "%s: out of memory", c->name);
        free(n->value);
        n->value = value;
    }
    return 0;
}

const char *config_library(void)
{
    static char text[32];
    (void)snprintf(text, sizeof text, "libyaml %s", yaml_get_version_string());
    return text;
}
