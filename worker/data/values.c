/* values.c: maps hashes of a report to cells of the input. A report has the values with the most
 * examples, most of which occur near the beginning: the search ends when all are found. */
#include "worker/data/values.h"

#include "proto/base/array.h"
#include "proto/base/hash.h"
#include "proto/wire/wire.h"
#include "worker/data/dataset.h"
#include "worker/data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wanted {
    uint64_t key;
    struct json *item; /* borrowed; item of the report; NULL: its value was found */
};

struct by_values {
    struct wanted *wanted; /* owned */
    size_t count, capacity;
};

struct search {
    struct by_values column[LIMIT_BY]; /* in the order of evaluate.by */
    uint32_t columns;
    size_t missing;
};

static int column_collect(struct by_values *c, const struct json *values)
{
    for (size_t i = 0; i < json_count(values); i++) {
        struct json *item = json_array_at(values, i);
        const char *text = json_as_string(json_get(item, "key"), "");
        char *end;
        uint64_t key = strtoull(text, &end, 16);
        if (strncmp(text, "0x", 2) != 0 || *end != '\0')
            continue; /* the sum of the other values */
        if (array_room(&c->wanted, c->count, &c->capacity, 64) != 0)
            return SHOAL_E_NOMEM;
        c->wanted[c->count++] = (struct wanted){key, item};
    }
    return 0;
}

static int collect(struct search *s, const struct job *job, const struct json *by)
{
    int rc = 0;
    for (uint32_t c = 0; c < s->columns && rc == 0; c++)
        for (size_t i = 0; i < json_members(by) && rc == 0; i++)
            if (strcmp(json_member_name(by, i), job->evaluate.by.item[c]) == 0)
                rc = column_collect(&s->column[c], json_member_at(by, i));
    return rc;
}

static int by_key(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* The first wanted value with this key, or c->count: they are sorted. */
static size_t wanted_find(const struct by_values *c, uint64_t key)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->wanted[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool row_see(void *context, const struct cell *by)
{
    struct search *s = context;
    for (uint32_t c = 0; c < s->columns; c++) {
        uint64_t key = hash_bytes(by[c].text, by[c].bytes, 0);
        uint32_t bytes = LIMIT_NAME;
        if (by[c].bytes < LIMIT_NAME)
            bytes = by[c].bytes;

        char text[LIMIT_NAME + 1];
        memcpy(text, by[c].text, bytes);
        text[bytes] = '\0';
        for (size_t i = wanted_find(&s->column[c], key);
             i < s->column[c].count && s->column[c].wanted[i].key == key; i++) {
            struct wanted *w = &s->column[c].wanted[i];
            if (w->item == NULL)
                break; /* so are all behind it */
            json_set_string(w->item, "value", text);
            w->item = NULL;
            s->missing--;
        }
    }
    return s->missing > 0;
}

static bool streams(const struct string_list *list)
{
    bool any = false;
    for (size_t i = 0; i < list->count; i++)
        any |= source_is_stream(list->item[i]);
    return any;
}

/* Collects from one split's measures, or from its tasks. */
static int measures_collect(struct search *s, const struct job *job, const struct json *of)
{
    const struct json *tasks = json_get(of, "tasks");
    int rc = collect(s, job, json_get(of, "by"));
    for (size_t i = 0; i < json_count(tasks) && rc == 0; i++)
        rc = collect(s, job, json_get(json_array_at(tasks, i), "by"));
    return rc;
}

/* Collects from `of`, or from the figures of each of `days`. */
static int name(const struct job *job, uint32_t split, const struct json *of,
                const struct json *days, struct err *e)
{
    const struct string_list *list;
    if (split == WIRE_TRAIN)
        list = &job->data.train;
    else if (split == WIRE_VALID)
        list = &job->data.valid;
    else
        list = &job->data.test;

    struct search s = {.columns = (uint32_t)job->evaluate.by.count};
    struct dataset *d = NULL;
    if (list->count == 0 || streams(list) || s.columns > LIMIT_BY)
        return 0;
    int rc = measures_collect(&s, job, of);
    for (size_t i = 0; i < json_count(days) && rc == 0; i++)
        rc = measures_collect(&s, job, json_get(json_array_at(days, i), "figures"));
    if (rc != 0)
        err_set(e, rc, "no memory for the values of a report");
    for (uint32_t c = 0; c < s.columns; c++) {
        s.missing += s.column[c].count;
        if (s.column[c].count > 0)
            qsort(s.column[c].wanted, s.column[c].count, sizeof s.column[c].wanted[0], by_key);
    }
    if (rc == 0 && s.missing > 0)
        rc = dataset_open(job, split, &d, e);
    if (rc == 0 && s.missing > 0)
        rc = dataset_by(d, row_see, &s, e);
    dataset_close(d);
    for (uint32_t c = 0; c < s.columns; c++)
        free(s.column[c].wanted);
    return rc;
}

int values_name_split(const struct job *job, uint32_t split, struct json *of, struct err *e)
{
    return name(job, split, of, NULL, e);
}

int values_name(const struct job *job, struct json *report, struct err *e)
{
    int rc = name(job, WIRE_VALID, json_get(report, "valid"), NULL, e);
    if (rc == 0)
        rc = name(job, WIRE_TEST, json_get(report, "test"), NULL, e);
    const struct json *days = json_get(report, "replay.days");

    if (rc != 0 || json_count(days) == 0)
        return rc;

    return name(job, WIRE_TRAIN, NULL, days, e);
}
