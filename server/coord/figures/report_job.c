/* report_job.c: identifies the job in its report, in strings that are cut to a length. */
#include "server/coord/figures/report_job.h"

#include "proto/job/config.h"
#include "proto/job/format.h"
#include "proto/job/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGUN_KEY "begun"
enum { NAMES_TOLD = 16 }; /* the most files of a split that are named */

/* As stored. */
struct begun {
    uint64_t job;    /* its number */
    uint64_t wall_s; /* seconds since 1970; 0: the env knows no calendar */
};

#define FORMAT_NAME(KIND, name, number) [DATA_##KIND] = #name,
static const char *const format_name[] = {DATA_FORMATS(FORMAT_NAME)};
#undef FORMAT_NAME

bool coord_report_job_begin(struct coord_job *j)
{
    const struct begun b = {j->at.number, env_wall_s(j->fleet->env)};
    return coord_job_note(j, BEGUN_KEY, &b, sizeof b);
}

void coord_report_job_date(struct json *to, const char *key, uint64_t at)
{
    static const struct zone utc;
    char label[32];
    if (at == 0) {
        json_set_null(to, key);
        return;
    }
    zone_label(&utc, at, label);
    json_set_string(to, key, label);
}

static struct json *names_json(const struct string_list *l)
{
    struct json *list = json_new_array();
    char more[48];
    for (size_t i = 0; i < l->count && i < NAMES_TOLD; i++)
        json_append_string(list, config_item_shown(l->item[i]));
    if (json_count(list) < l->count && json_count(list) == NAMES_TOLD) {
        (void)snprintf(more, sizeof more, "and %zu more", l->count - NAMES_TOLD);
        json_append_string(list, more);
    }
    return list;
}

void coord_report_job_dates(const struct coord_job *j, struct json *to)
{
    uint32_t phase = j->at.phase;
    bool ends = phase == PHASE_FINISH || phase == PHASE_DONE || phase == PHASE_FAILED;
    struct begun b = {0};
    int rc = coord_store_get_fixed(j->store, BEGUN_KEY, &b, sizeof b, NULL);
    coord_report_job_date(to, "began", rc == 0 && b.job == j->at.number ? b.wall_s : 0);
    coord_report_job_date(to, "ended", ends && j->phase_ns != 0 ? env_wall_s(j->fleet->env) : 0);
}

void coord_report_job_json(const struct coord_job *j, struct json *to)
{
    const struct job *job = &j->spec;
    struct json *data = json_new_object();
    json_set_string(data, "format", format_name[job->data.format]);
    json_set(data, "train", names_json(&job->data.train));
    json_set(data, "valid", names_json(&job->data.valid));
    json_set(data, "test", names_json(&job->data.test));
    json_set(to, "data", data);
    json_set_int(to, "batch", job->train.batch);
    json_set_int(to, "window", job_window(job));
    coord_report_job_dates(j, to);
    if (j->fleet->options.place != NULL)
        json_set_string(to, "place", j->fleet->options.place);
}

void coord_report_table_json(const struct table_schema *s, struct json *to)
{
    const struct optimizer_facts *f = optimizer_facts(s->optimizer.kind);
    char rate[32]; /* as a double 0.001f has nine digits more */
    (void)snprintf(rate, sizeof rate, "%.7g", (double)s->optimizer.lr);
    json_set_int(to, "dim", schema_vector(s));
    if (f != NULL)
        json_set_string(to, "optimizer", f->name);
    json_set_number(to, "lr", strtod(rate, NULL));
}
