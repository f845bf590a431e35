/* legend.c: names and the numbers that belong to them, and their line in the job's text.
 *
 * 1. legend_parse reads exactly what legend_put wrote, and a text keeps all its other lines. [test:
 *    legend_come_back_as_they_were] */
#include "proto/job/legend_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE "names: "

const char *const legend_list_key[LEGEND_LISTS] = {"fields", "numbers", "tensors", "statistics"};

void legend_free(struct legend *n)
{
    for (uint32_t l = 0; l < LEGEND_LISTS; l++)
        free(n->name[l]);
    legend_figures_free(n);
    legend_reading_free(n);
    free(n->input);
    free(n->labels);
    memset(n, 0, sizeof *n);
}

uint32_t legend_find(const struct legend *n, enum legend_list list, const char *name)
{
    for (uint32_t i = 0; i < n->count[list]; i++)
        if (strcmp(n->name[list][i].name, name) == 0)
            return i;
    return LEGEND_NONE;
}

/* ---- adding ---------------------------------------------------------------------------------- */

void legend_write(const char *name, size_t bytes, uint32_t which, char out[LEGEND_NAME])
{
    size_t shown = MIN(bytes, (size_t)LIMIT_NAME - 1);
    (void)snprintf(out, LEGEND_NAME, "%.*s", (int)shown, name);
    struct json *j = json_new_string(out);
    bool whole = strlen(out) == bytes && strcmp(json_as_string(j, ""), out) == 0;
    json_free(j);
    for (char *p = out; *p != 0; p++) {
        whole &= (unsigned char)*p >= 0x20 && *p != 0x7f;
        if (!whole && ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f))
            *p = '?';
    }
    /* this also covers the bytes before the first illegal one */
    for (char *p = out; *p != 0 && !whole; p++)
        if ((unsigned char)*p >= 0x7f)
            *p = '?';
    size_t end = strlen(out);
    if (!whole) {
        end = MIN(end, (size_t)40);
        end += (size_t)snprintf(out + end, LEGEND_NAME - end, "~%016" PRIx64,
                                hash_bytes(name, bytes, 0));
    }
    if (which > 1)
        (void)snprintf(out + end, LEGEND_NAME - end, "#%u", which);
}

int legend_append(struct legend *n, enum legend_list list, const struct legend_name *x,
                  struct err *e)
{
    if (array_room(&n->name[list], n->count[list], &n->room[list], 32) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    n->name[list][n->count[list]++] = *x;
    return 0;
}

int legend_add(struct legend *n, enum legend_list list, const char *name, const char *table,
               const char *what, struct err *e)
{
    struct legend_name x = {.number = LEGEND_NONE, .here = true};
    SHOAL_ASSERT(strlen(name) < sizeof x.name && strlen(table) < sizeof x.table &&
                 strlen(what) < sizeof x.what);
    if (legend_find(n, list, name) != LEGEND_NONE)
        return err_set(e, SHOAL_E_CONFIG,
                       "two of the %s are called %s: give one of them another name",
                       legend_list_key[list], name);
    text_copy(x.name, sizeof x.name, name);
    text_copy(x.table, sizeof x.table, table);
    text_copy(x.what, sizeof x.what, what);
    return legend_append(n, list, &x, e);
}

/* ---- the line -------------------------------------------------------------------------------- */

bool legend_line(const char *text, size_t bytes, size_t *at, size_t *line_bytes)
{
    size_t word = sizeof LINE - 2; /* without the blank */
    for (size_t i = 0; i < bytes;) {
        size_t length = text_line(text + i, bytes - i);
        if (length >= word && memcmp(text + i, LINE, word) == 0) {
            *at = i;
            *line_bytes = length;
            return true;
        }
        i += length + 1;
    }
    return false;
}

static int list_parse(const struct json *j, enum legend_list list, struct legend *out,
                      struct err *e)
{
    int rc = 0;
    if (json_members(j) > LIMIT_FIELDS)
        return err_set(e, SHOAL_E_CONFIG, "names: more than %u %s", LIMIT_FIELDS,
                       legend_list_key[list]);
    for (size_t i = 0; i < json_members(j) && rc == 0; i++) {
        const struct json *v = json_member_at(j, i);
        struct legend_name x = {.here = true};
        const char *name = json_member_name(j, i);
        size_t at = 1; /* a field has a table, too */
        int64_t number = json_as_int(json_array_at(v, 0), -1);
        const char *table = "";
        if (list == LEGEND_FIELDS)
            table = json_as_string(json_array_at(v, at++), NULL);
        const char *what = json_as_string(json_array_at(v, at), NULL);
        if (strlen(name) >= sizeof x.name || number < 0 || number >= LIMIT_FIELDS ||
            table == NULL || strlen(table) >= sizeof x.table || what == NULL ||
            strlen(what) >= sizeof x.what)
            return err_set(e, SHOAL_E_CONFIG, "names.%s.%.80s is not as the coordinator writes it",
                           legend_list_key[list], name);
        text_copy(x.name, sizeof x.name, name);
        text_copy(x.table, sizeof x.table, table);
        text_copy(x.what, sizeof x.what, what);
        x.number = (uint32_t)number;
        x.here = json_absent(json_array_at(v, at + 1));
        for (uint32_t k = 0; k < out->count[list]; k++)
            if (out->name[list][k].number == x.number ||
                strcmp(out->name[list][k].name, x.name) == 0)
                return err_set(e, SHOAL_E_CONFIG, "names.%s: number %u, %.80s, is there twice",
                               legend_list_key[list], x.number, name);
        rc = legend_append(out, list, &x, e);
    }
    return rc;
}

int legend_parse(const char *line, size_t bytes, struct legend *out, struct err *e)
{
    struct json *j = NULL;
    memset(out, 0, sizeof *out);
    size_t word = sizeof LINE - 1;
    if (bytes > LEGEND_BYTES_MAX || bytes < word || memcmp(line, LINE, word) != 0 ||
        json_parse(line + word, bytes - word, &j, e) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "names: the coordinator writes this line; take it out, or leave it as it "
                       "was");
    int rc = 0;
    if (json_get_string(j, "input", NULL) == NULL)
        rc = err_set(e, SHOAL_E_CONFIG, "names: the coordinator writes them otherwise");
    for (uint32_t l = 0; l < LEGEND_LISTS && rc == 0; l++)
        rc = list_parse(json_get(j, legend_list_key[l]), (enum legend_list)l, out, e);
    if (rc == 0)
        rc = legend_figures_parse(json_get(j, "figures"), out, e);
    if (rc == 0)
        rc = legend_reading_parse(json_get(j, "cells"), out, e);
    out->input = strdup(json_get_string(j, "input", ""));
    out->labels = strdup(json_get_string(j, "labels", ""));
    out->real = (uint32_t)json_get_int(j, "real", 0) & ((1u << LIMIT_TASKS) - 1);
    text_copy(out->model, sizeof out->model, json_get_string(j, "model", ""));
    out->learnt = json_get_bool(j, "learnt", false);
    text_copy(out->place, sizeof out->place, json_get_string(j, "place", ""));
    int64_t columns = json_get_int(j, "columns", 0);
    out->columns = 0;
    if (columns > 0 && columns <= UINT16_MAX)
        out->columns = (uint32_t)columns;
    if (rc == 0 && (out->input == NULL || out->labels == NULL))
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    json_free(j);
    if (rc != 0)
        legend_free(out);
    return rc;
}

static struct json *list_json(const struct legend *n, enum legend_list list)
{
    struct json *j = json_new_object();
    for (uint32_t i = 0; i < n->count[list]; i++) {
        const struct legend_name *x = &n->name[list][i];
        struct json *v = json_new_array();
        (void)json_append(v, json_new_int(x->number));
        if (list == LEGEND_FIELDS)
            (void)json_append_string(v, x->table);
        (void)json_append_string(v, x->what);
        if (!x->here)
            (void)json_append_string(v, "gone");
        (void)json_set(j, x->name, v);
    }
    return j;
}

static char *line_text(const struct legend *n)
{
    struct json *j = json_new_object();
    (void)json_set(j, legend_list_key[LEGEND_FIELDS], list_json(n, LEGEND_FIELDS));
    (void)json_set(j, legend_list_key[LEGEND_NUMBERS], list_json(n, LEGEND_NUMBERS));
    if (n->figure_count > 0)
        (void)json_set(j, "figures", legend_figures_json(n));
    struct json *cells = legend_reading_json(n);
    if (cells != NULL)
        (void)json_set(j, "cells", cells);
    (void)json_set_string(j, "input", n->input);
    (void)json_set_string(j, "labels", n->labels);
    if (n->real != 0)
        (void)json_set_int(j, "real", n->real);
    (void)json_set_string(j, "model", n->model);
    if (n->learnt)
        (void)json_set_bool(j, "learnt", true);
    if (n->place[0] != 0) {
        (void)json_set_string(j, "place", n->place);
        (void)json_set_int(j, "columns", n->columns);
    }
    (void)json_set(j, legend_list_key[LEGEND_TENSORS], list_json(n, LEGEND_TENSORS));
    (void)json_set(j, legend_list_key[LEGEND_STATISTICS], list_json(n, LEGEND_STATISTICS));
    char *text = json_text(j, 0);
    json_free(j);
    return text;
}

/* Copies the text but for such lines, of which a text that was written by hand may have several. */
static size_t without_lines(const char *text, size_t bytes, char *out)
{
    size_t at, length, count = 0;
    while (legend_line(text, bytes, &at, &length)) {
        memcpy(out + count, text, at);
        count += at;
        length += at + length < bytes; /* the line's end */
        text += at + length;
        bytes -= at + length;
    }
    memcpy(out + count, text, bytes);
    return count + bytes;
}

int legend_put(const char *text, size_t bytes, const struct legend *n, char **out,
               size_t *out_bytes, struct err *e)
{
    size_t fresh = 0;
    char *line = NULL;
    if (n != NULL && legend_known(n)) {
        line = line_text(n);
        if (line == NULL)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        fresh = strlen(line);
    }
    if (fresh + sizeof LINE > LEGEND_BYTES_MAX) {
        free(line);
        return err_set(e, SHOAL_E_TOO_BIG,
                       "the names of the job's fields and tensors take %zu bytes, at most %u are "
                       "possible: give the columns shorter names, or take fewer of them",
                       fresh, LEGEND_BYTES_MAX);
    }
    char *made = malloc(bytes + fresh + sizeof LINE + 3);
    if (made == NULL) {
        free(line);
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    size_t count = without_lines(text, bytes, made);
    if (line != NULL)
        count += (size_t)snprintf(made + count, fresh + sizeof LINE + 2, "%s" LINE "%s\n",
                                  text_if(count > 0 && made[count - 1] != '\n', "\n"), line);
    made[count] = 0;
    free(line);
    *out = made;
    *out_bytes = count;
    return 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

int legend_copy(const struct legend *from, struct legend *to, struct err *e)
{
    int rc = 0;
    memset(to, 0, sizeof *to);
    for (uint32_t l = 0; l < LEGEND_LISTS && rc == 0; l++)
        for (uint32_t i = 0; i < from->count[l] && rc == 0; i++)
            rc = legend_append(to, (enum legend_list)l, &from->name[l][i], e);
    if (rc == 0)
        rc = legend_figures_copy(from, to, e);
    if (rc == 0)
        rc = legend_reading_copy(from, to, e);
    if (rc == 0 && legend_known(from)) {
        to->input = strdup(from->input);
        to->labels = strdup(from->labels);
        to->real = from->real;
        memcpy(to->model, from->model, sizeof to->model);
        to->learnt = from->learnt;
        memcpy(to->place, from->place, sizeof to->place);
        to->columns = from->columns;
        if (to->input == NULL || to->labels == NULL)
            rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    if (rc != 0)
        legend_free(to);
    return rc;
}

void legend_remove(struct legend *n, enum legend_list list, const char *name)
{
    uint32_t at = legend_find(n, list, name);
    if (at == LEGEND_NONE)
        return;
    memmove(&n->name[list][at], &n->name[list][at + 1],
            (n->count[list] - at - 1) * sizeof n->name[list][0]);
    n->count[list]--;
    if (list == LEGEND_FIELDS || list == LEGEND_NUMBERS)
        legend_figures_remove(n, name);
}
