/* given.c: the lines that the coordinator adds to a job's text. */
#include "proto/job/given.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/legend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WITHIN "data.shuffle.within: \""
#define CHANGES "data.zone_changes: \""
#define LIMIT "data.time_limit: \""
#define LANES "train.lanes_there: \""
#define END "\" # given by the coordinator\n"
#define LINES                                                                                      \
    (140u + ZONE_NAME + ZONE_TEXT + sizeof CHANGES + sizeof LIMIT + sizeof LANES + 3 * sizeof END)

/* The first table whose rows age by event time, or NULL. */
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

/* True when the coordinator added the line, which includes its end. */
static bool is_given(const char *line, size_t bytes, const char *key)
{
    size_t n = strlen(key);
    return bytes >= n + sizeof END && memcmp(line, key, n) == 0 &&
           memcmp(line + bytes - (sizeof END - 1), END, sizeof END - 1) == 0;
}

/* True when the line has the key, its value and no comment: a text that was written anew, as a
 * checkpoint's is at a restore, has the coordinator's lines in this form. */
static bool is_bare(const char *line, size_t bytes, const char *key)
{
    size_t n = strlen(key);
    return bytes > n + 1 && memcmp(line, key, n) == 0 && line[bytes - 1] == '\n' &&
           line[bytes - 2] == '"';
}

/* For keys whose value the coordinator would give again. */
static bool is_given_again(const char *line, size_t bytes, const char *key)
{
    return is_given(line, bytes, key) || is_bare(line, bytes, key);
}

/* The place after the newline of the line that begins at `start`. */
static size_t line_end(const char *text, size_t start, size_t bytes)
{
    size_t end = start + text_line(text + start, bytes - start) + 1;
    return MIN(end, bytes);
}

/* The added lines that a copy of the text leaves out. */
struct left_out {
    bool order, zone, limit, lanes;
};

/* Copies the text without such lines. Returns the length of the copy. */
static size_t plain_put(const char *text, size_t bytes, const struct left_out *without, char *to)
{
    size_t left = 0;
    for (size_t start = 0, end; start < bytes; start = end) {
        end = line_end(text, start, bytes);
        if ((without->order && is_given(text + start, end - start, WITHIN)) ||
            (without->zone && is_given_again(text + start, end - start, CHANGES)) ||
            (without->limit && is_given(text + start, end - start, LIMIT)) ||
            (without->lanes && is_given_again(text + start, end - start, LANES)))
            continue;
        memcpy(to + left, text + start, end - start);
        left += end - start;
    }
    return left;
}

bool given_limit(const char *text, size_t bytes)
{
    for (size_t start = 0, end; start < bytes; start = end) {
        end = line_end(text, start, bytes);
        if (is_given(text + start, end - start, LIMIT))
            return true;
    }
    return false;
}

static size_t lines_make(const struct given *g, char *out)
{
    char changes[ZONE_TEXT];
    size_t n = 0;
    if (g->within > 0)
        n = (size_t)snprintf(out, LINES, WITHIN "%us" END, g->within);
    if (g->zone != NULL && strcmp(g->zone->name, "UTC") != 0) {
        zone_text(g->zone, changes);
        n += (size_t)snprintf(out + n, LINES - n, CHANGES "%s %s" END, g->zone->name, changes);
    }
    if (g->limit > 0)
        n += (size_t)snprintf(out + n, LINES - n, LIMIT "%u" END, g->limit);
    if (g->lanes > 0)
        n += (size_t)snprintf(out + n, LINES - n, LANES "%u" END, g->lanes);
    return n;
}

int given_put(const char *text, size_t bytes, const struct given *g, char **out, size_t *out_bytes,
              struct err *e)
{
    size_t at, names = 0;
    char *made = malloc(bytes + LINES + 1), *lines = malloc(LINES);
    if (made == NULL || lines == NULL) {
        free(made);
        free(lines);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    }
    const struct left_out again = {g->within > 0, g->zone != NULL, g->limit > 0, g->lanes > 0};
    at = bytes = plain_put(text, bytes, &again, made);
    (void)legend_line(made, bytes, &at, &names); /* the line of names stays the last one */
    size_t fresh = lines_make(g, lines), gap = fresh > 0 && at > 0 && made[at - 1] != '\n';
    memmove(made + at + gap + fresh, made + at, bytes - at);
    memcpy(made + at, "\n", gap);
    memcpy(made + at + gap, lines, fresh);
    free(lines);
    *out_bytes = bytes + gap + fresh;
    made[*out_bytes] = 0;
    *out = made;
    return 0;
}

int given_strip(const char *text, size_t bytes, char **out, size_t *out_bytes, struct err *e)
{
    char *plain = malloc(bytes + 1);
    if (plain == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the job");
    const struct left_out all = {true, true, true, true};
    bytes = plain_put(text, bytes, &all, plain);
    int rc = legend_put(plain, bytes, NULL, out, out_bytes, e);
    free(plain);
    return rc;
}
