/* given.c: lines of the coordinator's own in a job's text. */
#include "proto/job/given.h"
#include "proto/job/legend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "data.shuffle.within: \""
#define END "s\" # given by the coordinator\n"

/* The first table whose rows go by event time, or NULL. */
static const struct job_table *table_by_time(const struct job *j)
{
    for (uint32_t i = 0; i < j->table_count; i++)
        if (j->table[i].rules.age_every > 0 ||
            (j->table[i].capacity > 0 && j->table[i].rules.age_by == EVICT_LRU))
            return &j->table[i];
    return NULL;
}

int given_within(const struct job *job, bool goes_on, uint32_t was, uint32_t *seconds,
                 struct err *e)
{
    const struct job_table *t = table_by_time(job);
    *seconds = 0;
    if (job->replay.on || !job->data.shuffle || job->data.shuffle_within > 0 || job->train.skip)
        return 0;
    if (goes_on)
        *seconds = job->data.shuffle_said ? 0 : was;
    else if (t == NULL)
        return 0;
    else if (!job->data.shuffle_said)
        *seconds = GIVEN_WITHIN_S;
    else
        return err_set(e, SHOAL_E_CONFIG,
                       "data.shuffle is true, and rows of table %s go by event time: drawn from "
                       "the whole log, every batch is of the same time, and within it no row ages. "
                       "Say data.shuffle: {within: 1h}, or {within: 1d} where a log is a day; "
                       "false is the log's own order; evict: {every_hours: 0} lets no row age",
                       t->name);
    return 0;
}

/* The line that was given. */
static bool line_find(const char *text, size_t bytes, size_t *at, size_t *line)
{
    for (size_t start = 0, end; start < bytes; start = end) {
        const char *newline = memchr(text + start, '\n', bytes - start);
        end = newline != NULL ? (size_t)(newline - text) + 1 : bytes;
        if (end - start < sizeof KEY + sizeof END ||
            memcmp(text + start, KEY, sizeof KEY - 1) != 0 ||
            memcmp(text + end - (sizeof END - 1), END, sizeof END - 1) != 0)
            continue;
        *at = start;
        *line = end - start;
        return true;
    }
    return false;
}

int given_put(const char *text, size_t bytes, uint32_t within, char **out, size_t *out_bytes,
              struct err *e)
{
    char line[80] = "";
    size_t at = bytes, old = 0, names = 0;
    char *made = malloc(bytes + sizeof line);
    if (made == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    if (line_find(text, bytes, &at, &old))
        bytes -= old;
    memcpy(made, text, at);
    memcpy(made + at, text + at + old, bytes - at);
    at = bytes;
    (void)legend_line(made, bytes, &at, &names); /* which stays the last one */
    if (within > 0)
        (void)snprintf(line, sizeof line, "%s" KEY "%u" END,
                       at > 0 && made[at - 1] != '\n' ? "\n" : "", within);
    size_t fresh = strlen(line);
    memmove(made + at + fresh, made + at, bytes - at);
    memcpy(made + at, line, fresh);
    *out_bytes = bytes + fresh;
    made[*out_bytes] = 0;
    *out = made;
    return 0;
}

int given_strip(const char *text, size_t bytes, char **out, size_t *out_bytes, struct err *e)
{
    char *plain;
    int rc = given_put(text, bytes, 0, &plain, &bytes, e);
    if (rc != 0)
        return rc;
    rc = legend_put(plain, bytes, NULL, out, out_bytes, e);
    free(plain);
    return rc;
}
