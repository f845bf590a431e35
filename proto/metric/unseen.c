/* unseen.c: sums by field, and the fields that stand out. */
#include "proto/metric/unseen.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_LEAST 50 /* values looked up; with fewer a share says little */
#define TOLD 6u         /* most fields in a sentence */
#define TEXT_LEAST 0.001

void unseen_add(struct unseen *to, const struct unseen_field *of, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        if (i < to->fields && to->of[i].field == of[i].field)
            at = i;
        while (at < to->fields && to->of[at].field != of[i].field)
            at++;
        if (at == LIMIT_FIELDS)
            continue;
        if (at == to->fields)
            to->of[to->fields++] = (struct unseen_field){.field = of[i].field};
        to->of[at].values += of[i].values;
        to->of[at].absent += of[i].absent;
    }
    SHOAL_ASSERT(to->fields <= LIMIT_FIELDS);
}

static void name_of(const struct legend *names, uint64_t field, char out[LEGEND_NAME])
{
    (void)snprintf(out, LEGEND_NAME, "%u", (unsigned)field);
    for (uint32_t i = 0; i < names->count[LEGEND_FIELDS]; i++) {
        const struct legend_name *n = &names->name[LEGEND_FIELDS][i];
        if (n->here && n->number == field)
            text_copy(out, LEGEND_NAME, n->name);
    }
}

static void figures_set(struct json *item, int64_t values, int64_t absent)
{
    json_set_int(item, "values", values);
    json_set_int(item, "absent", absent);
    json_set_number(item, "share", values > 0 ? (double)absent / (double)values : 0);
}

struct json *unseen_json(const struct unseen *u, const struct legend *names)
{
    struct json *list = NULL;
    if (u->fields > 0)
        list = json_new_array();
    for (uint32_t i = 0; i < u->fields; i++) {
        struct json *item = json_new_object();
        char name[LEGEND_NAME];
        name_of(names, u->of[i].field, name);
        json_set_string(item, "name", name);
        figures_set(item, (int64_t)u->of[i].values, (int64_t)u->of[i].absent);
        json_append(list, item);
    }
    return list;
}

static int64_t whole(const struct json *item, const char *key)
{
    return json_get_int(item, key, 0);
}

void unseen_json_add(struct json *to, const struct json *from)
{
    for (size_t i = 0; i < json_count(to) && i < json_count(from); i++) {
        struct json *item = json_array_at(to, i);
        const struct json *other = json_array_at(from, i);
        figures_set(item, whole(item, "values") + whole(other, "values"),
                    whole(item, "absent") + whole(other, "absent"));
    }
}

/* ---- fields that stand out ------------------------------------------------------------------- */

struct share {
    const char *name;
    double share;
    int64_t values;
};

static int larger_first(const void *a, const void *b)
{
    const struct share *x = a, *y = b;
    return x->share > y->share ? -1 : x->share < y->share;
}

/* Fills in all shares of the list, sorted. Returns their number. */
static size_t shares_of(const struct json *list, struct share out[LIMIT_FIELDS])
{
    size_t count = MIN(json_count(list), LIMIT_FIELDS);
    for (size_t i = 0; i < count; i++) {
        const struct json *item = json_array_at(list, i);
        out[i] = (struct share){json_get_string(item, "name", "?"),
                                json_get_number(item, "share", 0), whole(item, "values")};
    }
    qsort(out, count, sizeof *out, larger_first);
    return count;
}

/* The upper quartile of all shares except number `but`: a quarter of them reach or exceed it. */
static double quartile_without(const struct share *s, size_t count, size_t but)
{
    size_t at = (count - 1) / 4;
    if (at >= but)
        at++;
    return s[at].share;
}

static bool stands_out(const struct share *s, size_t count, size_t i)
{
    double share = s[i].share;
    if (s[i].values < VALUES_LEAST)
        return false;
    return share > 0.5 || (share >= UNSEEN_SHARE && count > 1 &&
                           share >= UNSEEN_TIMES * quartile_without(s, count, i));
}

/* Appends "NAME 12 %". */
static void share_append(char *text, size_t bytes, const struct share *s)
{
    size_t at = strlen(text);
    double percent = 100 * s->share;
    (void)snprintf(text + at, bytes - at, "%s%s %.*f %%", text_if(at > 0, ", "),
                   text_unless_empty(s->name, "\"\""), percent < 10 ? 1 : 0, percent);
}

static void more_append(char *text, size_t bytes, size_t count)
{
    size_t at = strlen(text);
    if (count > TOLD)
        (void)snprintf(text + at, bytes - at, " and %zu more", count - TOLD);
}

void unseen_note(const struct json *list, const char *where, char *text, size_t bytes)
{
    struct share share[LIMIT_FIELDS];
    char fields[TOLD * (LEGEND_NAME + 16)] = "";
    size_t count = shares_of(list, share), out = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (!stands_out(share, count, i))
            continue;
        if (out++ < TOLD)
            share_append(fields, sizeof fields, &share[i]);
    }
    if (out == 0)
        return;
    more_append(fields, sizeof fields, out);
    (void)snprintf(text, bytes,
                   "%s: many values of these fields have no row: %s; rare and new values are so, "
                   "and those that were not admitted; else compare how they are written here and "
                   "in data.train (\"34\" and \"34.0\" are two values, as are \"a\" and \"A\")",
                   where, fields);
    text_clean(text); /* names of columns */
}

void unseen_text(const struct json *list, char *text, size_t bytes)
{
    struct share share[LIMIT_FIELDS];
    size_t count = shares_of(list, share), some = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (share[i].share >= TEXT_LEAST && some++ < TOLD)
            share_append(text, bytes, &share[i]);
    more_append(text, bytes, some);
    text_clean(text);
}
