/* catalog.c: reads and writes the list of a fleet's spaces; catalog.h has its form.
 *
 * 1. No two spaces have one number, one name or a table in common. [test:
 *    catalog_refuses_what_cannot_be] */
#include "proto/job/catalog.h"

#include "proto/base/json.h"
#include "proto/base/text.h"
#include "proto/job/legend.h"
#include "proto/job/manifest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE_LINE "space: "
#define NAMES_LINE "names: "
#define NO_SPACE "none"

static int refuse(struct err *e, const char *what)
{
    return err_set(e, SHOAL_E_CONFIG, "the list of spaces is not as a coordinator writes it: %s",
                   what);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool begins(const char *line, size_t bytes, const char *word)
{
    return bytes >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

/* Reads where the space's tables lie in the map. */
static int places_take(const struct json *bits, const struct json *first, struct catalog_space *s,
                       struct err *e)
{
    size_t at = 0;
    const struct table_set all = table_set_or(s->tables, s->left);
    TABLE_SET_EACH (t, &all) {
        int64_t log2 = json_as_int(json_array_at(bits, at), -1),
                begin = json_as_int(json_array_at(first, at), -1);
        at++;
        if (log2 < 0 || log2 > 31 || UINT32_C(1) << log2 > LIMIT_TABLETS || begin < 0 ||
            begin > LIMIT_FLEET_TABLETS)
            return refuse(e, "a table has no number of tablets, or no place");
        s->bits[t] = (uint8_t)log2;
        s->first[t] = (uint32_t)begin;
    }
    if (at != json_count(bits) || at != json_count(first))
        return refuse(e, "it has more places than tables");
    return 0;
}

static int state_take(const struct json *j, struct catalog_space *s, struct err *e)
{
    const char *state = json_get_string(j, "state", ""), *half = json_get_string(j, "half", "");
    if (strcmp(state, "lost") == 0)
        s->state = CATALOG_LOST;
    else if (strcmp(state, "half") == 0)
        s->state = CATALOG_HALF;
    else if (state[0] != 0)
        return refuse(e, "a space is in no state that there is");
    if (strlen(half) >= LIMIT_NAME || (half[0] != 0 && s->state != CATALOG_HALF))
        return refuse(e, "a table is half dropped that cannot be");
    text_copy(s->half, sizeof s->half, half);
    return 0;
}

static int space_take(const struct json *j, struct catalog *c, struct err *e)
{
    int64_t number = json_get_int(j, "number", -1);
    const char *name = json_get_string(j, "name", NULL);
    struct catalog_space s = {.number = (uint32_t)number};
    if (c->count == LIMIT_SPACES || number < 0 || number >= LIMIT_SPACES)
        return refuse(e, "a space has no number");
    if (name == NULL || strlen(name) >= LIMIT_NAME ||
        !table_set_parse(json_get_string(j, "tables", ""), &s.tables) ||
        !table_set_parse(json_get_string(j, "left", ""), &s.left))
        return refuse(e, "a space has no name, or no tables");
    text_copy(s.name, sizeof s.name, name);
    if (c->count > 0 && c->space[c->count - 1].number >= s.number)
        return refuse(e, "its spaces are not in order");
    if (table_set_meet(s.tables, s.left))
        return refuse(e, "a space has a table, and has it no more");
    for (uint32_t i = 0; i < c->count; i++) /* 1 */
        if (table_set_meet(table_set_or(c->space[i].tables, c->space[i].left),
                           table_set_or(s.tables, s.left)) ||
            (s.name[0] != 0 && strcmp(c->space[i].name, s.name) == 0))
            return refuse(e, "two spaces have one name, or share a table");
    int rc = places_take(json_get(j, "bits"), json_get(j, "first"), &s, e);
    if (rc == 0)
        rc = state_take(j, &s, e);
    if (rc == 0)
        c->space[c->count++] = s;
    return rc;
}

static int space_line(const char *line, size_t bytes, struct catalog *c, struct err *e)
{
    struct json *j = NULL;
    size_t word = sizeof SPACE_LINE - 1;
    if (json_parse(line + word, bytes - word, &j, NULL) != 0)
        return refuse(e, "a line of a space cannot be read");
    int rc = space_take(j, c, e);
    json_free(j);
    return rc;
}

static int names_line(const char *line, size_t bytes, struct catalog *c, struct err *e)
{
    struct legend names;
    if (c->count == 0 || c->space[c->count - 1].line != NULL)
        return refuse(e, "names belong to no space");
    int rc = legend_parse(line, bytes, &names, e);
    if (rc != 0)
        return rc;
    legend_free(&names);
    c->space[c->count - 1].line = line;
    c->space[c->count - 1].bytes = bytes;
    return 0;
}

int catalog_read(const char *text, size_t bytes, struct catalog *out, struct err *e)
{
    int rc = 0;
    memset(out, 0, sizeof *out);
    if (bytes == 0 || bytes > CATALOG_BYTES_MAX || text[bytes - 1] == '\n')
        return refuse(e, "it is empty, too long, or cut off");
    if (bytes == strlen(NO_SPACE) && memcmp(text, NO_SPACE, bytes) == 0)
        return 0;
    if (begins(text, bytes, NAMES_LINE)) { /* the only space */
        out->count = 1;
        out->alone = true;
    }
    for (size_t at = 0; at < bytes && rc == 0;) {
        const char *line = text + at, *end = memchr(line, '\n', bytes - at);
        size_t length = end == NULL ? bytes - at : (size_t)(end - line);
        if (begins(line, length, SPACE_LINE))
            rc = space_line(line, length, out, e);
        else if (begins(line, length, NAMES_LINE))
            rc = names_line(line, length, out, e);
        else
            rc = refuse(e, "a line is of no kind that it has");
        at += length + 1;
    }
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void tables_set(struct json *j, const char *key, struct table_set tables)
{
    char text[TABLE_SET_TEXT];
    table_set_text(tables, text);
    (void)json_set_string(j, key, text);
}

static char *space_text(const struct catalog_space *s)
{
    struct json *j = json_new_object(), *bits = json_new_array(), *first = json_new_array();
    (void)json_set_string(j, "name", s->name);
    (void)json_set_int(j, "number", s->number);
    tables_set(j, "tables", s->tables);
    tables_set(j, "left", s->left);
    const struct table_set all = table_set_or(s->tables, s->left);
    TABLE_SET_EACH (t, &all) {
        (void)json_append(bits, json_new_int(s->bits[t]));
        (void)json_append(first, json_new_int(s->first[t]));
    }
    (void)json_set(j, "bits", bits);
    (void)json_set(j, "first", first);
    if (s->state != CATALOG_THERE)
        (void)json_set_string(j, "state", s->state == CATALOG_LOST ? "lost" : "half");
    if (s->half[0] != 0)
        (void)json_set_string(j, "half", s->half);
    char *text = json_text(j, 0);
    json_free(j);
    return text;
}

/* Writes to the stream what belongs to a space, with an end before each line but the first. */
static bool space_write(FILE *f, const struct catalog *c, uint32_t i)
{
    const struct catalog_space *s = &c->space[i];
    if (c->alone)
        return fwrite(s->line, 1, s->bytes, f) == s->bytes;
    char *text = space_text(s);
    bool good = text != NULL && fprintf(f, "%s" SPACE_LINE "%s", text_if(i > 0, "\n"), text) > 0;
    free(text);
    if (good && s->line != NULL)
        good = fputc('\n', f) != EOF && fwrite(s->line, 1, s->bytes, f) == s->bytes;
    return good;
}

int catalog_text(const struct catalog *c, char **out, size_t *bytes, struct err *e)
{
    *out = NULL;
    FILE *f = open_memstream(out, bytes);
    bool good = f != NULL && (c->count > 0 || fputs(NO_SPACE, f) != EOF);
    for (uint32_t i = 0; good && i < c->count; i++)
        good = space_write(f, c, i);
    if (f != NULL)
        good = fclose(f) == 0 && good;
    if (good && *bytes <= CATALOG_BYTES_MAX)
        return 0;
    free(*out);
    *out = NULL;
    if (!good)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the list of spaces");
    return err_set(e, SHOAL_E_TOO_BIG,
                   "the names of all spaces' fields and tensors take %zu bytes, at most %u are "
                   "possible: drop a space (shoal drop SPACE), or give columns shorter names",
                   *bytes, CATALOG_BYTES_MAX);
}
