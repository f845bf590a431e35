/* config_get.c: what a checked file says: values by path, with a fallback for keys that are absent;
 * and the lists of strings that they come in. Values were checked (config_check.c, 1); asking for
 * another type than the key's is our own error. */
#include "proto/job/config_inner.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists of strings ------------------------------------------------------------------------ */

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

/* ---- getters --------------------------------------------------------------------------------- */

bool config_has(const struct config *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (config_path_under(c->entry[i].path, path))
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

static const struct entry *entry_typed(const struct config *c, const char *path,
                                       enum config_type type)
{
    const struct entry *n = config_entry_find(c, path);
    SHOAL_ASSERT(n == NULL || n->key->type == type);
    return n;
}

const char *config_string(const struct config *c, const char *path, const char *fallback)
{
    const struct entry *n = config_entry_find(c, path);
    SHOAL_ASSERT(n == NULL || n->key->type == CONFIG_STRING || n->key->type == CONFIG_ANY);
    return n == NULL ? fallback : n->value;
}

int64_t config_int(const struct config *c, const char *path, int64_t fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_INT);
    int64_t x = 0;
    if (n == NULL)
        return fallback;
    (void)config_int_parse(n->value, &x);
    return x;
}

double config_float(const struct config *c, const char *path, double fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_FLOAT);
    double x;
    if (n == NULL)
        return fallback;
    (void)config_number_parse(n->value, &x);
    return x;
}

bool config_bool(const struct config *c, const char *path, bool fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_BOOL);
    return n == NULL ? fallback : config_bool_parse(n->value) == 1;
}

uint64_t config_size(const struct config *c, const char *path, uint64_t fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_SIZE);
    double x;
    if (n == NULL)
        return fallback;
    (void)config_size_parse(n->value, &x);
    return (uint64_t)x;
}

int config_enum(const struct config *c, const char *path, int fallback)
{
    const struct entry *n = entry_typed(c, path, CONFIG_ENUM);
    return n == NULL ? fallback : config_choice_parse(n->value, n->key->choices);
}

const char *config_word(const struct config *c, const char *path)
{
    const struct entry *n = entry_typed(c, path, CONFIG_ENUM);
    SHOAL_ASSERT(n != NULL);
    return n->value;
}

int config_line(const struct config *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (config_path_under(c->entry[i].path, path))
            return c->entry[i].line;
    return 0;
}

/* One item of a list at `path`: a string, or a command as "cmd:...". */
static int list_item(const struct config *c, const char *path, struct string_list *out)
{
    char below[PATH_MAX_BYTES + 8];
    const struct entry *n = config_entry_find(c, path);
    if (n != NULL)
        return n->value == NULL ? 0 : string_list_add(out, n->value);
    (void)snprintf(below, sizeof below, "%s.cmd", path);
    n = config_entry_find(c, below);
    if (n == NULL || n->value == NULL)
        return 0;
    char *command = malloc(strlen(n->value) + 5);
    if (command == NULL)
        return SHOAL_E_NOMEM;
    (void)sprintf(command, "cmd:%s", n->value);
    int rc = string_list_add(out, command);
    free(command);
    return rc;
}

int config_list(const struct config *c, const char *path, struct string_list *out)
{
    char item[PATH_MAX_BYTES + 16];
    size_t count = config_count(c, path);
    int rc = 0;
    if (count == 0)
        return list_item(c, path, out);
    for (size_t i = 0; i < count && rc == 0; i++) {
        (void)snprintf(item, sizeof item, "%s[%zu]", path, i);
        rc = list_item(c, item, out);
    }
    return rc;
}
