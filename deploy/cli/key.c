/* key.c: from field and value to key. */
#include "deploy/cli/key.h"
#include "deploy/cli/child.h"
#include "proto/base/key.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int key_place_open(const struct option_line *o, struct reader *c, struct key_place *out,
                   struct err *e)
{
    size_t at, bytes;
    *out = (struct key_place){.job = option_text(o, "job")};
    int rc = reader_job(c, &out->text, &out->text_bytes, e);
    if (rc == 0 && out->text != NULL && legend_line(out->text, out->text_bytes, &at, &bytes))
        rc = legend_parse(out->text + at, bytes, &out->names, e);
    if (rc != 0)
        key_place_close(out);
    return rc;
}

void key_place_close(struct key_place *at)
{
    free(at->text);
    legend_free(&at->names);
    *at = (struct key_place){.job = NULL};
}

/* ---- what the worker knows ------------------------------------------------------------------- */

/* Writes the tables' own job to a file for a child; the file vanishes when it is closed. */
static int text_file(const struct key_place *at, char path[64], struct err *e)
{
    int f = memfd_create("job", MFD_CLOEXEC);
    if (f < 0 || write(f, at->text, at->text_bytes) != (ssize_t)at->text_bytes) {
        if (f >= 0)
            close(f);
        return err_set(e, SHOAL_E_IO, "no room for the job's text: %s", strerror(errno));
    }
    (void)snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), f);
    return f;
}

/* The output of `shoal-worker fields`. */
static int fields_ask(const struct key_place *at, const char *field, const char *value,
                      struct json **out, struct err *e)
{
    char made_by[64], *text = NULL;
    size_t bytes = 0;
    int f = text_file(at, made_by, e);
    if (f < 0)
        return f;
    const char *argv[] = {"shoal-worker",
                          "fields",
                          "--config",
                          text_or(at->job, made_by),
                          "--made-by",
                          made_by,
                          field != NULL ? "--field" : NULL,
                          field,
                          "--value",
                          value,
                          NULL};
    int rc = child_output(argv, &text, &bytes, e);
    close(f);
    if (rc == 0)
        rc = json_parse(text, bytes, out, e);
    free(text);
    if (rc != 0 && at->job == NULL)
        return err_wrap(e, rc,
                        "the tables' own job does not tell columns here; give --job JOB.yaml with "
                        "paths that hold on this machine");
    return rc;
}

static int key_ask(struct key_place *at, const char *field, const char *value, uint64_t *key,
                   struct err *e)
{
    struct json *answer = NULL;
    if (at->asked++ == KEY_ASKED_MOST)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "the values of field %s become keys one at a time (a bucket, or rows that "
                       "fields share), at most %u in a command: give the keys themselves, as "
                       "`shoal inspect` shows them",
                       field, KEY_ASKED_MOST);
    int rc = fields_ask(at, field, value, &answer, e);
    if (rc == 0)
        *key = strtoull(json_get_string(answer, "key", "0"), NULL, 16);
    json_free(answer);
    return rc;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* "0x1f" or "31", digits only: strtoull would take 0123 for 83 and -1 for the last possible key. */
static bool number_take(const char *word, uint64_t *key)
{
    bool hex = word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
    const char *digits = word, *all = "0123456789abcdefABCDEF";
    int base = 16;
    if (hex) {
        digits += 2;
    } else {
        all = "0123456789";
        base = 10;
    }
    size_t count = strspn(digits, all);
    if (count == 0 || digits[count] != 0)
        return false;
    errno = 0;
    *key = strtoull(digits, NULL, base);
    return errno == 0;
}

static const struct legend_name *name_find(const struct legend *n, const char *field,
                                           bool by_number, uint64_t number)
{
    char name[LEGEND_NAME];
    legend_write(field, strlen(field), 1, name);
    uint32_t at = legend_find(n, LEGEND_FIELDS, name);
    for (uint32_t i = 0; at == LEGEND_NONE && by_number && i < n->count[LEGEND_FIELDS]; i++)
        if (n->name[LEGEND_FIELDS][i].number == number)
            at = i;
    if (at == LEGEND_NONE)
        return NULL;
    return &n->name[LEGEND_FIELDS][at];
}

static int unknown_name(const struct legend *n, const char *field, struct err *e)
{
    char names[256] = "";
    for (uint32_t i = 0; i < n->count[LEGEND_FIELDS]; i++) {
        size_t at = strlen(names);
        (void)snprintf(names + at, sizeof names - at, "%s%s", text_if(at > 0, ", "),
                       n->name[LEGEND_FIELDS][i].name);
    }
    return err_set(e, SHOAL_E_NOT_FOUND, "the tables have no field %s; their fields are: %s", field,
                   names);
}

/* As in training: an empty value has the key of an empty text. */
static int id_key(const struct legend_name *of, const char *value, uint64_t *key, struct err *e)
{
    if (value[0] == 0)
        *key = key_of_value((uint32_t)of->number, "", 0);
    else if (!key_of_id((uint32_t)of->number, value, strlen(value), key))
        return err_set(e, SHOAL_E_DATA, "field %s has ids, and %.80s is none: an id is %s",
                       of->name, value, KEY_ID_WORDS);
    return 0;
}

static int key_of(struct key_place *at, const char *field, const char *value, uint64_t *key,
                  struct err *e)
{
    uint64_t number = LIMIT_FIELDS;
    bool digits = field[strspn(field, "0123456789")] == 0;
    bool by_number = digits && number_take(field, &number) && number < LIMIT_FIELDS;
    if (!legend_known(&at->names) && at->text != NULL && (!by_number || at->job != NULL))
        return key_ask(at, field, value, key, e); /* numbered by their order in the job */
    const struct legend_name *x = name_find(&at->names, field, by_number, number);
    if (x == NULL && !by_number) {
        if (legend_known(&at->names))
            return unknown_name(&at->names, field, e);
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "field %s: no job is known there that would say what the tables call "
                       "their fields; give the field's number",
                       field);
    }
    if (x != NULL && at->table != NULL && strcmp(x->table, at->table) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "the rows of field %s are in table %s, not in %s",
                       x->name, x->table, at->table);
    if (x != NULL && (strcmp(x->what, "id") == 0 || strcmp(x->what, "multi id") == 0 ||
                      strcmp(x->what, "multi id weighted") == 0))
        return id_key(x, value, key, e);
    if (x != NULL && strcmp(x->what, "category") != 0 && strcmp(x->what, "multi") != 0 &&
        strcmp(x->what, "multi weighted") != 0)
        return key_ask(at, field, value, key, e);
    *key = key_of_value(x != NULL ? x->number : (uint32_t)number, value, strlen(value));
    return 0;
}

int key_take(struct key_place *at, const char *word, const char *field, const char *value,
             uint64_t *key, struct err *e)
{
    char name[LIMIT_NAME + 1];
    if (word == NULL) {
        if (field != NULL && value != NULL)
            return key_of(at, field, value, key, e);
        return err_set(e, SHOAL_E_USAGE, "name a key, or --field NAME and --value TEXT");
    }
    if (field != NULL || value != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "a key %s and --field or --value: one of the two says which row", word);
    if (number_take(word, key))
        return 0;
    const char *colon = strchr(word, ':');
    if (colon == NULL || colon == word || colon - word > (long)LIMIT_NAME)
        return err_set(
            e, SHOAL_E_USAGE,
            "%s is neither a key (0x... or decimal) nor FIELD:VALUE (such as C3:68fd1e64)", word);
    (void)snprintf(name, sizeof name, "%.*s", (int)(colon - word), word);
    return key_of(at, name, colon + 1, key, e);
}

int key_option(const struct option_line *o, struct reader *c, uint64_t *key, struct err *e)
{
    struct key_place place;
    int rc = key_place_open(o, c, &place, e);
    if (rc == 0)
        rc = key_take(&place, o->word[1], option_text(o, "field"), option_text(o, "value"), key, e);
    key_place_close(&place);
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct json *key_fields(const struct key_place *at)
{
    const struct legend *n = &at->names;
    struct json *answer = NULL, *fields = NULL;
    if (!legend_known(n)) {
        if (at->text != NULL && fields_ask(at, NULL, NULL, &answer, NULL) == 0)
            fields = json_hold(json_get(answer, "fields"));
        json_free(answer);
        return fields;
    }
    fields = json_new_array();
    for (uint32_t i = 0; i < n->count[LEGEND_FIELDS]; i++) {
        struct json *j = json_new_object();
        (void)json_set_string(j, "name", n->name[LEGEND_FIELDS][i].name);
        (void)json_set_int(j, "field", n->name[LEGEND_FIELDS][i].number);
        (void)json_set_string(j, "kind", n->name[LEGEND_FIELDS][i].what);
        (void)json_append(fields, j);
    }
    return fields;
}

/* The entry of a field; NULL: there is none. */
static const struct json *field_of(const struct json *fields, uint64_t number)
{
    for (size_t i = 0; i < json_count(fields); i++)
        if (json_get_int(json_array_at(fields, i), "field", -1) == (int64_t)number)
            return json_array_at(fields, i);
    return NULL;
}

const char *key_field_name(const struct json *fields, uint64_t number)
{
    return json_get_string(field_of(fields, number), "name", "");
}

bool key_field_is_id(const struct json *fields, uint64_t number)
{
    const char *kind = json_get_string(field_of(fields, number), "kind", "");
    return strncmp(kind, "id", 2) == 0 || strncmp(kind, "multi id", 8) == 0;
}
