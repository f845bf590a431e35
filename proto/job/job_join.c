/* job_join.c: the section data.join of job.yaml: labels that come late. */
#include "proto/job/job_inner.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <string.h>

/* Event time has whole seconds. */
static int seconds_take(const struct config *c, const char *path, uint64_t ms, uint32_t *out,
                        struct err *e)
{
    *out = (uint32_t)(ms / 1000);
    if (ms % 1000 != 0)
        return job_refuse(c, path, e, ": whole seconds are possible");
    return 0;
}

static int columns_take(const struct config *c, struct job *j, struct err *e)
{
    if (!config_has(c, "data.join.id"))
        return err_set(e, SHOAL_E_CONFIG,
                       "data.join.id is missing: name the column by which clicks name impressions");
    int rc = job_name_take(c, "data.join.id", "", j->data.join.id, e);
    if (rc == 0)
        rc = job_name_take(c, "data.join.click_id", j->data.join.id, j->data.join.click_id, e);
    if (rc == 0)
        rc = job_name_take(c, "data.join.click_time", j->data.time, j->data.join.click_time, e);
    if (rc == 0 && strcmp(j->data.join.id, j->data.time) == 0)
        rc = job_refuse(c, "data.join.id", e, ": that is data.time; name another");
    return rc;
}

/* Checks the other keys of data: a join makes the label itself and needs named columns and
 * times. */
static int others_check(const struct config *c, const struct job *j, struct err *e)
{
    if (j->data.format != DATA_CSV || !j->data.header)
        return job_refuse(c, "data.join.clicks", e,
                          ": columns are found by their names: data.format: csv with data.header");
    if (j->data.time[0] == 0)
        return job_refuse(c, "data.join.clicks", e,
                          ": a click belongs to what was shown before it: name the impressions' "
                          "time in data.time");
    if (j->data.time_form.format[0] != '\0')
        return job_refuse(c, "data.time_format", e,
                          ": a join reads and writes numbers and ISO dates: take it away and write "
                          "the times so");
    if (j->data.label_count != 1 || !config_has(c, "data.label"))
        return job_refuse(c, "data.join.clicks", e,
                          " makes one label: say in data.label what to call it");
    if (j->data.delimiter[1] != '\0')
        return job_refuse(c, "data.delimiter", e,
                          ": a join writes csv with one character between cells: take one");
    if (j->data.label_positive.count > 0)
        return job_refuse(c, "data.label_positive", e,
                          ": a join makes labels 0 and 1: take it away");
    if (j->data.missing.count > 0)
        return job_refuse(c, "data.missing", e,
                          ": a join compares ids as they stand, and such a word would be one: take "
                          "it away, and have the clicks and impressions written without it");
    if (j->data.label_above < 0 || j->data.label_above >= 1)
        return job_refuse(c, "data.join.clicks", e,
                          " makes labels 0 and 1: take data.label_above "
                          "away");
    for (size_t i = 0; i < j->data.column_count; i++)
        if (j->data.column[i].type == COLUMN_LABEL &&
            strcmp(j->data.column[i].name, j->data.label[0]) != 0)
            return job_refuse(c, "data.join.clicks", e,
                              " makes the label %s: give column %s another type", j->data.label[0],
                              j->data.column[i].name);
    return 0;
}

int job_join_take(const struct config *c, struct job *j, struct err *e)
{
    SHOAL_ASSERT(j->data.train.count > 0); /* job.c, 1 */
    j->data.join.on = config_has(c, "data.join");
    if (!j->data.join.on)
        return 0;
    if (config_list(c, "data.join.clicks", &j->data.join.clicks) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (j->data.join.clicks.count == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.join.clicks is missing: name the files of what was clicked");
    uint64_t window = config_size(c, "data.join.window");
    j->data.join.learn = config_enum(c, "data.join.late") == 1;
    j->data.join.memory = config_size(c, "data.join.memory");
    j->data.join.checkpoint = config_size(c, "data.join.checkpoint");
    int rc = others_check(c, j, e);
    if (rc == 0)
        rc = columns_take(c, j, e);
    if (rc == 0)
        rc = seconds_take(c, "data.join.window", window, &j->data.join.window, e);
    if (rc == 0)
        rc = seconds_take(c, "data.join.keep", config_size_or(c, "data.join.keep", window),
                          &j->data.join.keep, e);
    if (rc != 0)
        return rc;
    return seconds_take(c, "data.join.disorder", config_size(c, "data.join.disorder"),
                        &j->data.join.disorder, e);
}
