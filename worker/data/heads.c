/* heads.c: compares the first line of a file with the job's format. */
#include "worker/data/heads.h"

#include "proto/wire/wire.h"
#include "worker/data/feature.h"
#include "worker/data/kind.h"
#include "worker/data/source.h"

#include <stdlib.h>

static void look_hint(const struct job *job, char *line, size_t bytes, char hint[KIND_HINT_BYTES])
{
    struct format_look *look = calloc(1, sizeof *look);
    char reason[REASON_BYTES];
    if (look != NULL)
        look->words = job->data.label_positive.count > 0;
    if (look != NULL && format_of(job->data.format)->look(line, bytes, look, reason) != 0)
        kind_hint(line, bytes, ' ', hint);
    free(look);
}

/* A format that has neither names nor columns of its own has no delimiter to check: only a line
 * that it cannot read is compared with other formats. */
static void line_hint(const struct job *job, char *line, size_t bytes, char hint[KIND_HINT_BYTES])
{
    const struct format *format = format_of(job->data.format);
    const char comma = job->data.delimiter[0] != '\0' ? job->data.delimiter[0] : ',';
    struct cell *cell;
    char reason[REASON_BYTES];
    uint32_t count;
    if (format->named || format->columns != NULL) {
        kind_hint(line, bytes, format->named ? comma : '\t', hint);
        return;
    }
    hint[0] = '\0';
    if (format->look != NULL) {
        if (*line != '#') /* a comment tells nothing */
            look_hint(job, line, bytes, hint);
        return;
    }
    cell = malloc(sizeof *cell * CELLS_MAX);
    if (cell != NULL && format->head(NULL, line, bytes, cell, &count, reason) != 0)
        kind_hint(line, bytes, ' ', hint);
    free(cell);
}

static int head_see(void *context, const char *name, char *line, size_t bytes, struct err *e)
{
    char hint[KIND_HINT_BYTES];
    line_hint(context, line, bytes, hint);

    if (hint[0] == '\0')
        return 0;

    return err_set(e, SHOAL_E_DATA, "%s:1: %s", name, hint);
}

static int list_check(const struct job *job, const struct string_list *list, const char *what,
                      struct err *e)
{
    return source_heads(list, what, head_see, (void *)(uintptr_t)job, e);
}

/* False for predictions: a line to be scored may have one column, which may contain any character.
 * Records are no lines. */
static bool has_lines(const struct job *job)
{
    return job->data.format != DATA_EVENTS && !format_of(job->data.format)->keyed &&
           !job->predict.on;
}

int heads_check(const struct job *job, uint32_t split, struct err *e)
{
    const char *what;
    const struct string_list *list = job_input(job, split, &what);

    if (!has_lines(job))
        return 0;

    return list_check(job, list, what, e);
}

int heads_check_all(const struct job *job, struct err *e)
{
    int rc = 0;
    for (uint32_t split = WIRE_TRAIN; split <= WIRE_TEST && rc == 0; split++)
        rc = heads_check(job, split, e);
    if (rc == 0 && job->data.join.on && has_lines(job))
        rc = list_check(job, &job->data.join.clicks, "data.join.clicks", e);
    return rc;
}
