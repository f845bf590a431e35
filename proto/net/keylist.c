/* keylist.c: reads an allow-list and searches it. */
#include "proto/net/keylist.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 256u
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct keylist_entry *)a)->key, ((const struct keylist_entry *)b)->key);
}

static bool role_of(const char *word, enum role *out)
{
    for (int r = 0; r < ROLES; r++)
        if (strcmp(word, role_text((enum role)r)) == 0) {
            *out = (enum role)r;
            return true;
        }
    return false;
}

bool keylist_name_ok(const char *name)
{
    size_t bytes = strspn(name, NAME_BYTES);
    return bytes > 0 && bytes < LIMIT_NAME && name[bytes] == 0;
}

/* Reads the entry of a line; a line without one leaves out->key empty. */
static int line_take(char *line, const char *name, uint32_t number, struct keylist_entry *out,
                     struct err *e)
{
    static const char blanks[] = " \t\r";
    char *save, *key = strtok_r(line, blanks, &save), *role = strtok_r(NULL, blanks, &save),
                *who = strtok_r(NULL, blanks, &save), *more = strtok_r(NULL, blanks, &save);
    *out = (struct keylist_entry){.role = ROLE_NOBODY};
    if (key == NULL || key[0] == '#')
        return 0;
    if (!keyfile_key_ok(key))
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%u: a line begins with a public key of 40 characters, as shoal keygen "
                       "prints it",
                       name, number);
    if (role == NULL || !role_of(role, &out->role))
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%u: behind the key stands what it may be: serve, worker, coord, metrics "
                       "or admin",
                       name, number);
    if (who == NULL || !keylist_name_ok(who))
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%u: behind the role stands a name of at most %u letters, digits, '.', "
                       "'_' and '-'",
                       name, number, LIMIT_NAME - 1);
    if (more != NULL && more[0] != '#')
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%u: nothing stands behind the name but # and a "
                       "comment",
                       name, number);
    memcpy(out->key, key, sizeof out->key);
    memcpy(out->name, who, strlen(who) + 1);
    return 0;
}

static int add(struct keylist *l, const struct keylist_entry *entry, struct err *e)
{
    if (l->count == LIMIT_KEYS_LISTED)
        return err_set(e, SHOAL_E_CONFIG, "more than %u keys are listed", LIMIT_KEYS_LISTED);
    if (l->count % 64 == 0) {
        struct keylist_entry *more = realloc(l->entry, (l->count + 64) * sizeof *more);
        if (more == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for a list of keys");
        l->entry = more;
    }
    l->entry[l->count++] = *entry;
    return 0;
}

static int lines_take(struct keylist *l, const char *text, size_t bytes, const char *name,
                      struct err *e)
{
    const char *end = text + bytes;
    uint32_t number = 0;
    int rc = 0;
    while (text < end && rc == 0) {
        size_t length = text_line(text, (size_t)(end - text));
        char line[LINE_BYTES];
        struct keylist_entry entry;
        number++;
        if (length >= sizeof line || memchr(text, 0, length) != NULL)
            return err_set(e, SHOAL_E_CONFIG, "%s:%u: a line has at most %u characters", name,
                           number, LINE_BYTES - 1);
        memcpy(line, text, length);
        line[length] = 0;
        rc = line_take(line, name, number, &entry, e);
        if (rc == 0 && entry.key[0] != 0)
            rc = add(l, &entry, e);
        text += length + 1;
    }
    return rc;
}

static int twice_check(const struct keylist *l, const char *name, struct err *e)
{
    for (uint32_t i = 1; i < l->count; i++)
        if (strcmp(l->entry[i - 1].key, l->entry[i].key) == 0)
            return err_set(e, SHOAL_E_CONFIG, "%s: the key %.10s... of %s is listed twice", name,
                           l->entry[i].key, l->entry[i].name);
    if (l->count <= 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s lists no key: put in the lines that shoal keygen printed", name);
    return 0;
}

int keylist_parse(const char *text, size_t bytes, const char *name, struct keylist **out,
                  struct err *e)
{
    struct keylist *l = calloc(1, sizeof *l);
    if (l == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a list of keys");
    int rc = lines_take(l, text, bytes, name, e);
    if (rc == 0 && l->count > 0)
        qsort(l->entry, l->count, sizeof *l->entry, by_key);
    if (rc == 0)
        rc = twice_check(l, name, e);
    if (rc != 0) {
        keylist_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

int keylist_of(const struct env_who *who, uint32_t count, struct keylist **out)
{
    struct keylist *l = calloc(1, sizeof *l);
    struct err silent;
    int rc = 0;
    if (l == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct keylist_entry entry = {.role = who[i].role};
        bool known = !keyfile_key_ok(who[i].key);
        for (uint32_t k = 0; k < l->count && !known; k++)
            known = strcmp(l->entry[k].key, who[i].key) == 0;
        if (known)
            continue;
        memcpy(entry.key, who[i].key, sizeof entry.key);
        memcpy(entry.name, who[i].name, sizeof entry.name);
        rc = add(l, &entry, &silent);
    }
    if (rc != 0) {
        keylist_free(l);
        return rc;
    }
    if (l->count > 0)
        qsort(l->entry, l->count, sizeof *l->entry, by_key);
    *out = l;
    return 0;
}

const struct keylist_entry *keylist_find(const struct keylist *l, const char *key)
{
    uint32_t low = 0, high = l->count;
    while (low < high) {
        uint32_t at = low + (high - low) / 2;
        int order = strcmp(key, l->entry[at].key);
        if (order == 0)
            return &l->entry[at];
        if (order < 0)
            high = at;
        else
            low = at + 1;
    }
    return NULL;
}

void keylist_free(struct keylist *l)
{
    if (l != NULL)
        free(l->entry);
    free(l);
}
