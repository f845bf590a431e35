/* dataset_objects.c: lists the objects of a split, and reads the head that defines its columns. */
#include "worker/data/dataset_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "worker/data/kafka.h"
#include "worker/data/object.h"

#include <stdlib.h>
#include <string.h>

int dataset_header(const struct source *s, uint32_t i, struct lines *lines, struct line *line,
                   struct err *e)
{
    SHOAL_ASSERT(i < s->count);
    if (s->file[i].bytes == 0)
        return SHOAL_E_END;
    lines_start(lines, s, ROW_FORM_LINES, s->file[i].base, s->file[i].base + s->file[i].bytes, 0);
    return lines_next(lines, line, e);
}

#define LINES_BYTES (64u << 10) /* the first lines of an object, whose format looks at many */

/* Appends the lines that follow the first one. */
static int lines_follow(struct lines *lines, char **text, struct err *e)
{
    size_t bytes = strlen(*text), capacity = bytes + 1;
    struct line line;
    int rc = 0;
    while (rc == 0 && bytes < LINES_BYTES && (rc = lines_next(lines, &line, e)) == 0) {
        if (line.fault != NULL || bytes + line.bytes + 1 > LINES_BYTES ||
            memchr(line.text, '\0', line.bytes) != NULL)
            break;
        if (array_reserve(text, bytes + line.bytes + 2, &capacity) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the first lines of the input");
        (*text)[bytes++] = '\n';
        memcpy(*text + bytes, line.text, line.bytes);
        bytes += line.bytes;
        (*text)[bytes] = '\0';
    }
    return rc == SHOAL_E_END ? 0 : rc;
}

/* The first line, or of a format that looks at many the first lines; the caller owns *line. END:
 * there is none. */
static int first_line(const struct source *s, bool many, char **line, struct err *e)
{
    struct lines lines;
    struct line first;
    int rc = lines_init(&lines, e);
    if (rc != 0)
        return rc;
    rc = dataset_header(s, 0, &lines, &first, e);
    if (rc == 0 && first.fault != NULL)
        rc = err_set(e, SHOAL_E_DATA,
                     "data.train: object %s: its first line is longer than 1 MiB; look at it",
                     s->file[0].name);
    *line = NULL;
    if (rc == 0)
        *line = strndup(first.text, first.bytes);
    if (rc == 0 && *line == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the first line of the input");
    if (rc == 0 && many)
        rc = lines_follow(&lines, line, e);
    lines_free(&lines);
    return rc;
}

int dataset_object_fault(int rc, const char *what, struct err *e)
{
    struct err was;
    if (e != NULL)
        was = *e;
    else
        was = (struct err){0};

    if (rc == SHOAL_E_CORRUPT || rc == SHOAL_E_CHECKSUM)
        return err_set(e, SHOAL_E_DATA, "%s: object %s", what, was.text);

    return rc;
}

/* The head of an object, which defines the columns; the caller owns it. END: the object is
 * empty. */
static int object_head(const struct job *job, const char *object, const struct cache *cache,
                       char **head, struct err *e)
{
    struct source s;
    int rc = object_open(job, WIRE_TRAIN, object, cache, &s, e);
    if (rc != 0)
        return rc;
    if (job->data.format == DATA_EVENTS)
        rc = dataset_object_fault(dataset_head_of_events(&s, head, e), "data.train", e);
    else
        rc = first_line(&s, format_of(job->data.format)->look != NULL, head, e);

    source_close(&s);
    return rc;
}

static bool may_be_left_out(const struct job *job, int rc)
{
    return job->data.objects.leave_out &&
           (rc == SHOAL_E_DATA || rc == SHOAL_E_NOINPUT || rc == SHOAL_E_UNAVAILABLE);
}

/* The head of the first object that is not empty. END: all are empty. */
static int objects_head(const struct job *job, const struct string_list *lines,
                        const struct cache *cache, char **head, struct err *e)
{
    int rc = SHOAL_E_END;
    for (size_t i = 0; i < lines->count && (rc == SHOAL_E_END || may_be_left_out(job, rc)); i++)
        rc = object_head(job, lines->item[i], cache, head, e);
    return rc;
}

int dataset_objects(const struct job *job, uint32_t split, struct string_list *lines, char **head,
                    struct err *e)
{
    struct cache cache;
    *head = NULL;
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc == 0)
        rc = object_list(job, split, lines, e);
    if (rc != 0 || split != WIRE_TRAIN || format_of(job->data.format)->columns != NULL)
        return rc;
    rc = objects_head(job, lines, &cache, head, e);
    if (rc == SHOAL_E_END)
        rc = err_set(e, SHOAL_E_DATA,
                     "data.train: there is no line in any of the %zu objects; look at them",
                     lines->count);
    if (rc != 0)
        config_list_free(lines);
    return rc;
}

void dataset_listed_free(struct dataset_listed *l)
{
    config_list_free(&l->lines);
    free(l->head);
    free(l->gone);
    positions_close(&l->streams);
    *l = (struct dataset_listed){.head = NULL};
}

/* Adds the ranges of the topic, behind the archive's files. */
static int topic_list(const struct job *job, const struct positions *known,
                      struct dataset_listed *out, struct err *e)
{
    struct kafka_listed got;
    bool files = out->lines.count > 0;
    int rc = kafka_list(job, known, &got, e);
    if (rc != 0)
        return rc;
    out->streams = got.streams;
    out->last = got.last && !files;
    if (files) {
        config_list_free(&got.lines);
        return 0;
    }
    config_list_free(&out->lines);
    out->lines = got.lines;
    return 0;
}

int dataset_objects_again(const struct job *job, const struct nameset *taken,
                          const struct positions *positions, bool first, struct dataset_listed *out,
                          struct err *e)
{
    struct cache cache;
    *out = (struct dataset_listed){.head = NULL};
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc == 0)
        rc = object_list_again(job, taken, &out->lines, &out->gone, &out->gone_bytes, e);
    if (rc == 0 && job->data.kafka.on)
        rc = topic_list(job, positions, out, e);
    if (rc != 0)
        dataset_listed_free(out);
    if (rc != 0 || !first || out->lines.count == 0 || format_of(job->data.format)->columns != NULL)
        return rc;
    rc = objects_head(job, &out->lines, &cache, &out->head, e);
    if (rc != 0)
        dataset_listed_free(out);
    if (rc == SHOAL_E_END)
        return 0; /* as if no object existed yet */
    return rc;
}

struct nameset_item *dataset_files(const struct dataset *d, uint32_t *count, bool *unknown)
{
    const struct source *s = &d->source;
    struct nameset_item *item = malloc((s->count + 1ull) * sizeof *item);
    *count = 0;
    *unknown = d->joined;
    for (uint32_t i = 0; item != NULL && i < s->count && !d->joined; i++) {
        *unknown |= s->file[i].stream;
        if (!s->file[i].stream)
            item[(*count)++] = nameset_item(s->file[i].name, strlen(s->file[i].name));
    }
    return item;
}
