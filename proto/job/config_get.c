/* config_get.c: the values of a checked file, by path, with a fallback for absent keys, and lists
 * of strings. config_check.c has checked the values (1); a getter of another type than the key's is
 * a bug of the caller. */
#include "proto/job/config_inner.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists of strings ------------------------------------------------------------------------ */

int config_list_add(struct string_list *l, const char *s)
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

void config_list_free(struct string_list *l)
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

bool config_has_value(const struct config *c, const char *path)
{
    return config_entry_find(c, path) != NULL;
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

const char *config_name(const struct config *c, const char *path, size_t index)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < c->count; i++)
        if (strncmp(c->entry[i].path, path, n) == 0 && c->entry[i].path[n] == '.' && index-- == 0)
            return c->entry[i].path + n + 1;
    return NULL;
}

static const struct entry *entry_typed(const struct config *c, const char *path,
                                       enum config_type type)
{
    const struct entry *n = config_entry_find(c, path);
    SHOAL_ASSERT(n == NULL || n->key->type == type);
    return n;
}

/* The value in the file, or the key's fallback. */
static const char *value_of(const struct config *c, const char *path, enum config_type type,
                            const struct config_key **key)
{
    const struct entry *n = entry_typed(c, path, type);
    if (n != NULL)
        *key = n->key;
    else
        *key = config_key_find(c->spec, path);
    SHOAL_ASSERT(*key != NULL && (*key)->type == type);
    const char *value = (*key)->fallback;
    if (n != NULL)
        value = n->value;
    SHOAL_ASSERT(value != NULL); /* job.c, 2 */
    return value;
}

const char *config_string(const struct config *c, const char *path)
{
    const struct config_key *key;
    return value_of(c, path, CONFIG_STRING, &key);
}

int64_t config_int(const struct config *c, const char *path)
{
    const struct config_key *key;
    int64_t x = 0;
    bool whole = config_int_parse(value_of(c, path, CONFIG_INT, &key), &x);
    SHOAL_ASSERT(whole); /* config_check.c, 1 */
    return x;
}

double config_float(const struct config *c, const char *path)
{
    const struct config_key *key;
    double x = 0;
    bool number = config_number_parse(value_of(c, path, CONFIG_FLOAT, &key), &x);
    SHOAL_ASSERT(number); /* config_check.c, 1 */
    return x;
}

bool config_bool(const struct config *c, const char *path)
{
    const struct config_key *key;
    int truth = config_bool_parse(value_of(c, path, CONFIG_BOOL, &key));
    SHOAL_ASSERT(truth >= 0); /* config_check.c, 1 */
    return truth == 1;
}

uint64_t config_size(const struct config *c, const char *path)
{
    const struct config_key *key;
    double x = 0;
    bool size = config_size_parse(value_of(c, path, CONFIG_SIZE, &key), &x);
    SHOAL_ASSERT(size && x >= 0); /* config_check.c, 1 */
    return (uint64_t)x;
}

int config_enum(const struct config *c, const char *path)
{
    const struct config_key *key;
    const char *value = value_of(c, path, CONFIG_ENUM, &key);
    int choice = config_choice_parse(value, key->choices);
    SHOAL_ASSERT(choice >= 0); /* config_check.c, 1 */
    return choice;
}

const char *config_string_or(const struct config *c, const char *path, const char *fallback)
{
    if (entry_typed(c, path, CONFIG_STRING) == NULL)
        return fallback;
    return config_string(c, path);
}

double config_float_or(const struct config *c, const char *path, double fallback)
{
    if (entry_typed(c, path, CONFIG_FLOAT) == NULL)
        return fallback;
    return config_float(c, path);
}

bool config_bool_or(const struct config *c, const char *path, bool fallback)
{
    if (entry_typed(c, path, CONFIG_BOOL) == NULL)
        return fallback;
    return config_bool(c, path);
}

uint64_t config_size_or(const struct config *c, const char *path, uint64_t fallback)
{
    if (entry_typed(c, path, CONFIG_SIZE) == NULL)
        return fallback;
    return config_size(c, path);
}

int config_enum_or(const struct config *c, const char *path, int fallback)
{
    if (entry_typed(c, path, CONFIG_ENUM) == NULL)
        return fallback;
    return config_enum(c, path);
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

const char *config_where(const struct config *c, const char *path, char out[CONFIG_WHERE])
{
    const struct entry *n = NULL;
    for (size_t i = 0; i < c->count && n == NULL; i++)
        if (config_path_under(c->entry[i].path, path))
            n = &c->entry[i];
    out[0] = 0;
    if (n != NULL && n->set)
        (void)snprintf(out, CONFIG_WHERE, "--set: ");
    else if (n != NULL)
        (void)snprintf(out, CONFIG_WHERE, "line %d: ", n->line);
    return out;
}

static const char *text_below(const struct config *c, const char *path, const char *key)
{
    char below[PATH_MAX_BYTES + 32];
    (void)snprintf(below, sizeof below, "%s.%s", path, key);
    const struct entry *n = config_entry_find(c, below);
    if (n == NULL)
        return NULL;
    return n->value;
}

/* Adds one item of a list at `path`: a string, or the command forms of config.h. */
static int list_item(const struct config *c, const char *path, struct string_list *out)
{
    const struct entry *n = config_entry_find(c, path);
    const char *command = text_below(c, path, "cmd"), *list = text_below(c, path, "object.list"),
               *open = text_below(c, path, "object.open"), *topic = text_below(c, path, "kafka");
    if (n != NULL)
        return n->value == NULL ? 0 : config_list_add(out, n->value);
    bool object = list != NULL || open != NULL;
    if (command == NULL && topic == NULL && !object)
        return 0;
    list = text_or(list, "");
    open = text_or(open, "");
    size_t bytes = 16;
    if (object)
        bytes += strlen(list) + strlen(open);
    else
        bytes += strlen(topic != NULL ? topic : command);
    char *item = malloc(bytes);
    if (item == NULL)
        return SHOAL_E_NOMEM;
    if (object)
        (void)snprintf(item, bytes, "object:%s" CONFIG_UNIT "%s", list, open);
    else if (topic != NULL)
        (void)snprintf(item, bytes, "kafka:%s", topic);
    else
        (void)snprintf(item, bytes, "cmd:%s", command);
    int rc = config_list_add(out, item);
    free(item);
    return rc;
}

const char *config_item_shown(const char *item)
{
    if (strncmp(item, "cmd:", 4) == 0)
        return "{cmd}";
    if (strncmp(item, "object:", 7) == 0)
        return "{object}";
    return item;
}

/* "400, 400" */
static int list_fallback(const char *text, struct string_list *out)
{
    char item[LIMIT_NAME];
    int rc = 0;
    while (text != NULL && rc == 0) {
        const char *comma = strstr(text, ", "), *next = NULL;
        size_t bytes = strlen(text);
        if (comma != NULL) {
            bytes = (size_t)(comma - text);
            next = comma + 2;
        }
        (void)snprintf(item, sizeof item, "%.*s", (int)bytes, text);
        rc = config_list_add(out, item);
        text = next;
    }
    return rc;
}

int config_list(const struct config *c, const char *path, struct string_list *out)
{
    char item[PATH_MAX_BYTES + 16];
    size_t count = config_count(c, path);
    int rc = 0;
    if (!config_has(c, path)) {
        const struct config_key *key = config_key_find(c->spec, path);
        SHOAL_ASSERT(key != NULL && key->type == CONFIG_LIST);
        return list_fallback(key->fallback, out);
    }
    if (count == 0)
        return list_item(c, path, out);
    for (size_t i = 0; i < count && rc == 0; i++) {
        (void)snprintf(item, sizeof item, "%s[%zu]", path, i);
        rc = list_item(c, item, out);
    }
    return rc;
}
