/* sweep_grid.c: makes the variants from the command line. */
#include "deploy/cli/sweep.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"
#include "proto/job/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "out of memory");
}

/* The length of the value at `text`: it ends at a comma outside brackets and quotes, or at the end
 * of the text. */
static size_t value_bytes(const char *text)
{
    int depth = 0;
    char quote = 0;
    size_t i = 0;
    for (; text[i] != 0; i++)
        if (quote != 0) {
            if (text[i] == quote)
                quote = 0;
        } else if (text[i] == '"' || text[i] == '\'')
            quote = text[i];
        else if (text[i] == '[' || text[i] == '{')
            depth++;
        else if (text[i] == ']' || text[i] == '}')
            depth--;
        else if (text[i] == ',' && depth <= 0)
            break;
    return i;
}

static int values_take(struct sweep_key *k, const char *item, const char *text, struct err *e)
{
    for (;; text++) {
        size_t bytes = value_bytes(text);
        if (bytes == 0)
            return err_set(e, SHOAL_E_USAGE,
                           "--set %s: a value is empty; an empty string is \"\", and a comma that "
                           "is part of a value stands in quotes or brackets",
                           item);
        char *value = strndup(text, bytes);
        bool twice = false;
        for (size_t i = 0; value != NULL && i < k->value.count; i++)
            twice |= strcmp(k->value.item[i], value) == 0;
        int rc = 0;
        if (value == NULL)
            rc = SHOAL_E_NOMEM;
        else if (!twice)
            rc = config_list_add(&k->value, value);
        free(value);
        if (rc != 0)
            return no_memory(e);
        if (twice)
            return err_set(e, SHOAL_E_USAGE, "--set %s: a value stands there twice", item);
        text += bytes;
        if (*text == 0)
            return 0;
    }
}

static int twice(const char *key, struct err *e)
{
    return err_set(e, SHOAL_E_USAGE,
                   "--set %s: the key stands there twice; give it once, with all its values", key);
}

/* True when the item, KEY=VALUE, has this key. */
static bool same_key(const char *item, const char *key)
{
    size_t n = strlen(key);
    return strncmp(item, key, n) == 0 && item[n] == '=';
}

static int key_take(struct sweep *s, const char *item, struct err *e)
{
    const char *equals = strchr(item, '=');
    struct sweep_key *k = &s->key[s->keys];
    if (equals == NULL || equals[1 + value_bytes(equals + 1)] == 0) { /* one for all variants */
        if (config_list_add(&s->fixed, item) != 0)
            return no_memory(e);
        return 0;
    }
    if (s->keys == SWEEP_KEYS_MAX)
        return err_set(e, SHOAL_E_USAGE, "more than %d keys have several values", SWEEP_KEYS_MAX);
    k->name = strndup(item, (size_t)(equals - item));
    if (k->name == NULL)
        return no_memory(e);
    s->keys++;
    for (size_t i = 0; i + 1 < s->keys; i++)
        if (strcmp(s->key[i].name, k->name) == 0)
            return twice(k->name, e);
    return values_take(k, item, equals + 1, e);
}

/* The brief name of a key is its part after the last dot, unless another key ends in the same
 * part. */
static void keys_shorten(struct sweep *s)
{
    for (size_t i = 0; i < s->keys; i++) {
        const char *dot = strrchr(s->key[i].name, '.');
        s->key[i].brief = dot == NULL ? s->key[i].name : dot + 1;
    }
    for (size_t i = 0; i < s->keys; i++)
        for (size_t k = 0; k < s->keys; k++) {
            const char *dot = strrchr(s->key[k].name, '.');
            if (k != i && dot != NULL && strcmp(dot + 1, s->key[i].brief) == 0)
                s->key[i].brief = s->key[i].name;
        }
}

/* Makes the variant's folder name, which depends on no other variant. A name that was cut, or that
 * had characters unfit for a path, ends with a hash of the whole. */
static int name_make(const struct sweep *s, struct sweep_variant *v)
{
    static const char good[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.=,+[]";
    char *whole = NULL;
    size_t bytes;
    FILE *f = open_memstream(&whole, &bytes);
    for (size_t k = 0; k < s->keys && f != NULL; k++)
        fprintf(f, "%s%s=%s", text_if(k != 0, ","), s->key[k].brief,
                s->key[k].value.item[v->at[k]]);
    if (f == NULL || fclose(f) != 0) {
        free(whole);
        return SHOAL_E_NOMEM;
    }
    (void)snprintf(v->name, sizeof v->name, "%.*s", SWEEP_NAME - 10, whole);
    for (char *p = v->name; *p != 0; p++)
        *p = strchr(good, *p) == NULL ? '_' : *p;
    if (strcmp(v->name, whole) != 0)
        (void)snprintf(v->name + strlen(v->name), 10, "-%08x",
                       (unsigned)hash_bytes(whole, bytes, 0));
    free(whole);
    return 0;
}

static int variant_make(struct sweep *s, size_t i, struct err *e)
{
    struct sweep_variant *v = &s->variant[i];
    size_t rest = i;
    int rc = 0;
    for (size_t k = s->keys; k-- > 0;) { /* the last key changes fastest */
        v->at[k] = rest % s->key[k].value.count;
        rest /= s->key[k].value.count;
    }
    for (size_t k = 0; k < s->fixed.count && rc == 0; k++)
        rc = config_list_add(&v->set, s->fixed.item[k]);
    for (size_t k = 0; k < s->keys && rc == 0; k++) {
        char *item = NULL;
        if (asprintf(&item, "%s=%s", s->key[k].name, s->key[k].value.item[v->at[k]]) < 0)
            rc = SHOAL_E_NOMEM;
        else
            rc = config_list_add(&v->set, item);
        free(item);
    }
    if (rc == 0)
        rc = name_make(s, v);
    if (rc != 0)
        return no_memory(e);
    return 0;
}

int sweep_grid(struct sweep *s, const struct string_list *set, struct err *e)
{
    size_t count = 1;
    for (size_t i = 0; i < set->count; i++) {
        int rc = key_take(s, set->item[i], e);
        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; i < s->fixed.count; i++)
        for (size_t k = 0; k < s->keys; k++)
            if (same_key(s->fixed.item[i], s->key[k].name))
                return twice(s->key[k].name, e);
    if (s->keys == 0)
        return err_set(e, SHOAL_E_USAGE,
                       "no key has several values: --set tables[0].dim=8,16 gives it two");
    for (size_t k = 0; k < s->keys && count <= SWEEP_VARIANTS_MAX; k++)
        count *= s->key[k].value.count;
    if (count > SWEEP_VARIANTS_MAX)
        return err_set(e, SHOAL_E_USAGE,
                       "the values make more than %d variants: take fewer of them",
                       SWEEP_VARIANTS_MAX);
    keys_shorten(s);
    s->variant = calloc(count, sizeof *s->variant);
    if (s->variant == NULL)
        return no_memory(e);
    s->count = count;
    for (size_t i = 0; i < count; i++) {
        int rc = variant_make(s, i, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

void sweep_free(struct sweep *s)
{
    for (size_t i = 0; i < s->count; i++) {
        config_list_free(&s->variant[i].set);
        free(s->variant[i].line);
        free(s->variant[i].text);
        json_free(s->variant[i].report);
    }
    free(s->variant);
    for (size_t k = 0; k < s->keys; k++) {
        free(s->key[k].name);
        config_list_free(&s->key[k].value);
    }
    config_list_free(&s->fixed);
}
