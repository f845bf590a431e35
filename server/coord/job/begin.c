/* begin.c: the values that a new job gets from the coordinator; begin.h. */
#include "server/coord/job/begin.h"

#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/given.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/names_job.h"
#include "server/coord/job/sight.h"
#include "server/coord/keep/from.h"
#include "server/coord/work/task.h"
#include "server/coord/work/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the names of fields and tensors --------------------------------------------------------- */

bool coord_begin_fresh(const struct job *spec, const char *name)
{
    for (size_t i = 0; i < spec->fresh.count; i++)
        if (strcmp(spec->fresh.item[i], name) == 0)
            return true;
    return false;
}

static bool fresh_table(const struct string_list *fresh, const char *table)
{
    for (size_t i = 0; i < fresh->count; i++)
        if (legend_whole_table(fresh->item[i], table))
            return true;
    return false;
}

/* Returns the table that has the rows of the name; NULL: there is none. */
static const char *table_of(enum legend_list list, const struct legend_name *x)
{
    static const char *const network[LEGEND_LISTS] = {
        [LEGEND_TENSORS] = "dense", [LEGEND_STATISTICS] = "dense_stats"};
    return list == LEGEND_FIELDS ? x->table : network[list];
}

/* Adds a word to j->without, unless it is there; false: there is no room. */
static bool without_add(struct coord_job *j, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *p = j->without; (p = strstr(p, word)) != NULL; p += bytes)
        if ((p == j->without || p[-1] == ' ') && (p[bytes] == 0 || p[bytes] == ' '))
            return true;
    size_t at = strlen(j->without), most = sizeof j->without - at;
    int n = snprintf(j->without + at, most, "%s%s", text_if(at > 0, " "), word);
    return n >= 0 && (size_t)n < most;
}

/* Lists the rows that the job begins anew although it begins with tables, in the form of LOAD and
 * ROWS_GO. half: the rows that a former job has begun to drop. */
static int without_make(struct coord_job *j, const struct legend *was, const char *half,
                        struct err *e)
{
    const struct string_list *fresh = &j->spec.fresh;
    char word[2 * LIMIT_NAME];
    bool room = half[0] == 0 || without_add(j, half);
    if (coord_begin_fresh(&j->spec, "dense"))
        room = room && without_add(j, "dense:*") && without_add(j, "dense_stats:*");
    for (uint32_t l = 0; l < LEGEND_LISTS; l++)
        for (uint32_t i = 0; i < was->count[l]; i++) {
            const struct legend_name *x = &was->name[l][i];
            const char *table = table_of((enum legend_list)l, x);
            bool whole = l == LEGEND_FIELDS && fresh_table(fresh, table);
            if (table == NULL || (!whole && !coord_begin_fresh(&j->spec, x->name)))
                continue;
            if (strchr(table, ' ') != NULL)
                return err_set(e, SHOAL_E_CONFIG,
                               "fresh: %s: its rows lie in table \"%s\", and a list of rows to "
                               "leave out names no table with a blank: take it away",
                               x->name, table);
            if (whole)
                (void)snprintf(word, sizeof word, "%s:*", table);
            else
                (void)snprintf(word, sizeof word, "%s:%u", table, x->number);
            room = room && without_add(j, word);
        }
    if (!room)
        return err_set(e, SHOAL_E_CONFIG,
                       "fresh names too much at once: say dense for the whole network");
    return 0;
}

/* True when a job that begins with these tables begins with a trained network: all that is fresh
 * are fields. */
static bool network_goes_on(const struct string_list *fresh, const struct legend *was,
                            const char *half)
{
    bool fields = strncmp(half, "dense", 5) != 0 && strstr(half, " dense") == NULL;
    for (size_t i = 0; i < fresh->count; i++)
        fields &= strchr(fresh->item[i], ':') != NULL || legend_is_reading(fresh->item[i]) ||
                  legend_find(was, LEGEND_FIELDS, fresh->item[i]) != LEGEND_NONE;
    return legend_known(was) && fields;
}

/* Tables that an older release made have no names. Then every key that affects rows must be the
 * same. */
static int older_check(const struct coord_job *j, struct err *e)
{
    if (j->space->made->number == 0 && j->fleet->cluster.map_epoch > 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "start_from: fleet: neither this coordinator nor a server knows what the "
                       "fields of the tables are called: bring the coordinator's data_dir back, or "
                       "begin with a checkpoint on servers that are new");
    if (j->space->made->number == 0)
        return 0;
    return job_same_model(&j->space->made->spec, &j->spec, e);
}

int coord_begin_names(struct coord_job *j, const struct coord_from *from, bool fleet, struct err *e)
{
    static const struct legend none;
    const struct legend *was = &none;
    bool begins = from != NULL && from->start;
    if (from != NULL)
        was = &from->legend;
    int rc = 0;
    if (fleet)
        rc = coord_names_of_fleet(j, &was, e);
    if (rc != 0)
        return rc;
    if (j->spec.fresh.count > 0 && from == NULL && !fleet)
        return err_set(e, SHOAL_E_CONFIG,
                       "fresh: %s: only a job that begins with tables (start_from) leaves some of "
                       "their rows out: take the key away",
                       j->spec.fresh.item[0]);
    if (j->spec.fresh.count > 0 && !legend_known(was))
        return err_set(e, SHOAL_E_CONFIG,
                       "fresh: %s: the %s of a release that kept no names; take the key away",
                       j->spec.fresh.item[0], fleet ? "tables are" : "checkpoint is");
    const char *half = text_if(fleet, coord_fresh_fields_half(j->space));
    bool learnt = was->learnt;
    if (begins || fleet) {
        rc = without_make(j, was, half, e);
        learnt = network_goes_on(&j->spec.fresh, was, half);
    }
    if (fleet && !legend_known(was))
        rc = older_check(j, e);
    if (rc != 0)
        return rc;
    return coord_begin_name(j, was, learnt, e);
}

/* ---- lanes, order and times ------------------------------------------------------------------ */

/* True when another job runs, which will have some of the workers that wait. */
static bool beside_others(const struct coord_job *j)
{
    bool others = false;
    COORD_EACH_SPACE (j->fleet, s)
        others = others || (s != j->space && j->fleet->spaces.use(j->fleet, s).runs);
    return others;
}

/* Returns the lanes of a job with train.lanes: 0: as many as the workers that wait, or that the job
 * waits for, have places for; beside other jobs the latter alone. A worker that comes later gets a
 * lane of another one (pace.h). A lane that no worker holds would count in what goes by lane:
 * schedules, warm-up, batch norm. goes_on: those of the checkpoint. 0: the job says a number. */
static uint32_t lanes_begin(const struct coord_job *j, const struct coord_from *goes_on,
                            uint32_t workers)
{
    uint32_t most = beside_others(j) ? MAX(workers, 1) : 0, waiting;
    bool external = j->spec.model.kind == MODEL_EXTERNAL;
    uint32_t places = coord_sight_places(j->fleet, external, most, &waiting);
    if (j->spec.train.lanes > 0)
        return 0;
    if (goes_on != NULL)
        return goes_on->saved.lanes;
    if (workers > waiting)
        places += (workers - waiting) * JOB_LANES;
    places = MIN(places, LIMIT_LANES);
    return MAX(places, 2);
}

int coord_begin_lanes(struct coord_job *j, struct err *e)
{
    int rc = coord_task_open(j->tasks, job_lanes(&j->spec), j->spec.train.mode, e);
    j->tasks->dealt = j->tasks->dealt || j->spec.train.allreduce;
    return rc;
}

static int lanes_given(struct coord_job *j, uint32_t lanes, struct err *e)
{
    j->spec.train.lanes_there = lanes;
    coord_task_close(j->tasks);
    log_info("job %s: %u lanes, for the workers that are there", j->spec.name, lanes);
    return coord_begin_lanes(j, e);
}

int coord_begin_given(struct coord_job *j, const struct coord_from *from, uint32_t workers,
                      struct err *e)
{
    struct job *spec = &j->spec;
    bool goes_on = from != NULL && !from->start;
    struct given given = {.zone = &spec->data.zone};
    char *text;
    size_t bytes;
    if (goes_on && strcmp(from->zone.name, spec->data.zone.name) == 0)
        spec->data.zone = from->zone;
    bool says = spec->data.time_limit != 0 && !given_limit(j->yaml, j->yaml_bytes);
    uint32_t limit = 0, within = 0;
    if (goes_on) {
        limit = from->time_limit;
        within = from->within;
    }
    if (!says)
        given.limit = coord_times_limit(j->fleet, spec, limit);
    given.lanes = lanes_begin(j, goes_on ? from : NULL, workers);
    int rc = given_within(spec, goes_on, within, &given.within, e);
    if (rc == 0)
        rc = given_put(j->yaml, j->yaml_bytes, &given, &text, &bytes, e);
    if (rc != 0)
        return rc;
    struct job told; /* every worker must be able to read the stored text, also after a restart */
    rc = job_parse(text, bytes, "the job, with what the coordinator gives it", NULL, &told, e);
    if (rc != 0) {
        free(text);
        return rc;
    }
    job_free(&told);
    free(j->yaml);
    j->yaml = text;
    j->yaml_bytes = bytes;
    if (given.limit != 0)
        spec->data.time_limit = given.limit;
    if (given.lanes != 0)
        rc = lanes_given(j, given.lanes, e);
    if (rc != 0 || given.within == 0)
        return rc;
    spec->data.shuffle_within = given.within;
    log_info("job %s: each epoch is drawn within windows of %u s of event time%s", spec->name,
             given.within, text_if(goes_on, ", as in the checkpoint"));
    return 0;
}

int coord_begin_name(struct coord_job *j, const struct legend *names, bool learnt, struct err *e)
{
    struct legend own;
    char *text;
    size_t bytes;
    int rc = legend_copy(names, &own, e);
    own.learnt = learnt;
    if (rc == 0 && (rc = legend_put(j->yaml, j->yaml_bytes, &own, &text, &bytes, e)) != 0)
        legend_free(&own);
    if (rc != 0)
        return rc;
    free(j->yaml);
    j->yaml = text;
    j->yaml_bytes = bytes;
    legend_free(&j->spec.legend);
    j->spec.legend = own;
    return 0;
}
