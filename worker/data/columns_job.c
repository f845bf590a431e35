/* columns_job.c: the job that reads parsed examples: the columns of a file, as a job has them. */
#include "worker/data/columns.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_DELIMITER "\x1f" /* no name contains it */

static const struct column *column_of_job(const struct job *job, const char *name)
{
    for (size_t i = 0; i < job->data.column_count; i++)
        if (strcmp(job->data.column[i].name, name) == 0)
            return &job->data.column[i];
    return NULL;
}

static struct column *column_find(const struct job *out, const char *name)
{
    for (size_t i = 0; i < out->data.column_count; i++)
        if (strcmp(out->data.column[i].name, name) == 0)
            return &out->data.column[i];
    return NULL;
}

/* Takes from the file what it fixes for a column: its type and its kind of values. */
static void type_take(const struct columns_one *one, struct column *to)
{
    const char *at = one->line;
    if (one->kind == COLUMNS_NUMBER)
        to->type = one->missing ? COLUMN_MISSING : COLUMN_NUMBER;
    if (one->scaled) {
        to->scale = columns_scale(one);
        to->scaled = true;
        to->filled = to->scale.filled;
    }
    if (one->kind != COLUMNS_FIELD)
        return;
    if (one->multi)
        to->type = COLUMN_MULTI;
    else if (one->scaled)
        to->type = COLUMN_NUMBER;
    else if (strncmp(at, "field cross", 11) == 0)
        to->type = COLUMN_CROSS;
    else
        to->type = COLUMN_CATEGORY;

    to->cross = one->cross;
    to->id = strncmp(at, "field id", 8) == 0 || strncmp(at, "field multi-id", 14) == 0;
    const char *last = strstr(at, " last ");
    uint32_t max = 0;
    if (one->multi && last != NULL)
        max = (uint32_t)strtoul(last + 6, NULL, 10);
    if (max >= FEATURE_SEQUENCE_MAX)
        max = 0;
    to->max = max;
    to->weighted = one->weighted;
}

/* A job that says that a column's values have no weights does not mean these. */
static int weighted_check(const struct column *of_job, const struct columns_one *one,
                          const char *file, struct err *e)
{
    if (of_job == NULL || !of_job->weighted_said || of_job->weighted == one->weighted ||
        one->kind != COLUMNS_FIELD)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "data.columns: column \"%s\" has %s of values in %s: say weighted: %s, or "
                   "convert its log again",
                   one->name, one->weighted ? "weights" : "no weights", file,
                   one->weighted ? "true" : "false");
}

/* Takes the scale that the job gives a column, if it gives one and the file has another: then the
 * difference is refused (columns_bind). The figures are the file's where the rule is the same. */
static void scale_wish(const struct job *job, const struct column *of_job, struct column *to)
{
    struct scale wish = {.transform = job->features.number};
    char is[SCALE_RULE_TEXT], was[SCALE_RULE_TEXT];
    bool own = of_job != NULL && of_job->type == COLUMN_NUMBER,
         said = job->features.number != NUMBER_NONE;
    wish.known = wish.transform != NUMBER_STANDARD;
    if (own && of_job->scaled)
        wish = of_job->scale;
    if (own && of_job->filled) {
        wish.filled = true;
        wish.fill = of_job->scale.fill;
    }
    said = said || (own && (of_job->scaled || of_job->filled));
    scale_rule(&wish, is);
    scale_rule(&to->scale, was);
    if (!said || to->type != COLUMN_NUMBER || strcmp(is, was) == 0)
        return;
    to->scale = wish;
    to->filled = wish.filled;
}

/* Takes from the job how it uses the column, but nothing that changes its values. */
static void use_take(const struct column *of_job, struct column *to)
{
    if (of_job->type == COLUMN_SKIP || of_job->type == COLUMN_LABEL)
        to->type = of_job->type;
    to->pooling = of_job->pooling;
    memcpy(to->share, of_job->share, sizeof to->share);
    memcpy(to->attend, of_job->attend, sizeof to->attend);
    to->indicator = of_job->indicator;
    if (of_job->max > 0)
        to->max = of_job->max;
}

static int columns_take(const struct columns *c, const struct job *job, const char *file,
                        struct job *out, struct err *e)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const struct columns_one *one = &c->one[i];
        struct column *to = column_find(out, one->name);
        if (strlen(one->name) >= LIMIT_NAME)
            return err_set(e, SHOAL_E_CONFIG,
                           "%s: no job can name the column \"%s\"; give it a shorter name in the "
                           "log and convert it again",
                           file, one->name);
        if (to == NULL) {
            to = &out->data.column[out->data.column_count++];
            *to = (struct column){.type = COLUMN_SKIP, .separator = '|'};
            snprintf(to->name, sizeof to->name, "%.*s", LIMIT_NAME - 1, one->name);
        }
        type_take(one, to);
        const struct column *of_job = column_of_job(job, one->name);
        if (of_job == NULL && job->data.rest_said)
            of_job = &job->data.rest;
        int rc = weighted_check(of_job, one, file, e);
        if (rc != 0)
            return rc;
        if (of_job != NULL)
            use_take(of_job, to);
        scale_wish(job, of_job, to);
    }
    for (size_t i = 0; i < job->data.column_count; i++)
        if (column_find(out, job->data.column[i].name) == NULL &&
            job->data.column[i].type != COLUMN_SKIP)
            return err_set(e, SHOAL_E_CONFIG, "data.columns names column \"%s\", which %s lacks",
                           job->data.column[i].name, file);
    return 0;
}

/* Labels that the job leaves open come from the file, as does the limit above which they count as
 * 1. */
static void labels_take(const struct columns *c, struct job *out)
{
    bool open = out->data.label_count <= 1 &&
                (strcmp(out->data.label[0], "0") == 0 || out->data.label[0][0] == '\0');
    uint32_t labels = 0;
    for (size_t i = 0; i < out->data.column_count; i++)
        open &= out->data.column[i].type != COLUMN_LABEL;
    for (uint32_t i = 0; i < c->count && c->one[i].kind == COLUMNS_LABEL; i++) {
        if (open)
            snprintf(out->data.label[labels++], LIMIT_NAME, "%.*s", LIMIT_NAME - 1, c->one[i].name);
        if (out->data.label_above == 0 && !c->one[i].real)
            out->data.label_above = strtod(c->one[i].line + strlen("label above "), NULL);
    }
    if (open)
        out->data.label_count = labels;
}

/* Times that came from names of files are a column of the event file. */
static void time_take(const struct columns *c, struct job *out)
{
    for (uint32_t i = 0; i < c->count && out->data.time[0] == '\0'; i++)
        if (c->one[i].kind == COLUMNS_TIME && out->data.partition.step > 0)
            snprintf(out->data.time, LIMIT_NAME, "%.*s", LIMIT_NAME - 1, c->one[i].name);
}

static char *head_of(const struct job *out)
{
    char *head = malloc(out->data.column_count * 2 * (LIMIT_NAME + 2) + 1), *to = head;
    for (size_t i = 0; head != NULL && i < out->data.column_count; i++) {
        if (i > 0)
            *to++ = HEAD_DELIMITER[0];
        *to++ = '"';
        for (const char *p = out->data.column[i].name; *p != '\0'; p++) {
            if (*p == '"')
                *to++ = '"';
            *to++ = *p;
        }
        *to++ = '"';
    }
    if (head != NULL)
        *to = '\0';
    return head;
}

int columns_job(const struct columns *c, const struct job *job, const char *file, struct job *out,
                char **head, struct err *e)
{
    *head = NULL;
    *out = *job;
    out->data.format = DATA_CSV;
    out->data.header = true;
    text_copy(out->data.delimiter, sizeof out->data.delimiter, HEAD_DELIMITER);
    out->data.column_count = 0;
    out->data.rest_said = false; /* each column has a type of its own */
    out->data.column = calloc(c->count, sizeof *out->data.column);
    int rc = SHOAL_E_NOMEM;
    if (out->data.column != NULL)
        rc = columns_take(c, job, file, out, e);
    if (rc == 0) {
        labels_take(c, out);
        time_take(c, out);
        *head = head_of(out);
        if (*head == NULL)
            rc = SHOAL_E_NOMEM;
    }
    if (rc == SHOAL_E_NOMEM)
        err_set(e, rc, "%s: no memory for its columns; free some", file);
    if (rc != 0)
        columns_job_free(out, *head);
    return rc;
}

void columns_job_free(struct job *out, char *head)
{
    free(out->data.column);
    out->data.column = NULL;
    free(head);
}
