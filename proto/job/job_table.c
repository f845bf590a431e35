/* job_table.c: tables[] of job.yaml: shape, optimizer, and the rules for rows.
 *
 * A table begins with the values of its preset; keys beside the preset override them. The rules
 * work on the rows' statistics and on event time, so:
 * 1. Statistics are kept where a rule needs them; `stats: false` beside such a rule is refused.
 *    [assert: statistics_take] [test: job_table_rules_that_contradict_are_refused]
 * 2. Ageing and the least recently used need data.time; without it nothing would ever age, and that
 *    is refused too. [test: job_ageing_needs_event_times]
 * 3. A rule that is switched off leaves no trace: two jobs that mean the same make the same schema.
 *    [test: job_tables_have_no_rules_by_default] */
#include "proto/base/text.h"
#include "proto/job/job_inner.h"
#include "proto/job/keys.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_S 3600.0
#define DAY_S 86400.0
#define SKETCH_COUNT_MAX 65535u /* the largest count of a cell in a sketch */

/* ---- keys under a prefix --------------------------------------------------------------------- */

struct place {
    const struct config *c;
    char prefix[96];
    const char *preset; /* the table's preset; NULL: this place has none */
};

#define PATH_BYTES 160

static const char *path_of(const struct place *p, const char *key, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s.%s", p->prefix, key);
    return out;
}

static bool has(const struct place *p, const char *key)
{
    char path[PATH_BYTES];
    return config_has(p->c, path_of(p, key, path));
}

/* The value in the table's preset, or NULL. */
static const char *preset_value(const struct place *p, const char *key)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "tables[].%s", key);
    if (p->preset == NULL)
        return NULL;
    return keys_preset(p->preset, path);
}

/* The number of the job, else of the preset, else the fallback. */
static double number(const struct place *p, const char *key, double fallback)
{
    char path[PATH_BYTES];
    const char *preset = preset_value(p, key);
    if (preset != NULL)
        fallback = strtod(preset, NULL);
    return config_float_or(p->c, path_of(p, key, path), fallback);
}

static float number_f(const struct place *p, const char *key, float fallback)
{
    return (float)number(p, key, (double)fallback);
}

static uint64_t size(const struct place *p, const char *key, uint64_t fallback)
{
    char path[PATH_BYTES];
    const char *preset = preset_value(p, key);
    if (preset != NULL)
        fallback = strtoull(preset, NULL, 10);
    return config_size_or(p->c, path_of(p, key, path), fallback);
}

static bool truth(const struct place *p, const char *key, bool fallback)
{
    char path[PATH_BYTES];
    const char *preset = preset_value(p, key);
    if (preset != NULL)
        fallback = strcmp(preset, "true") == 0;
    return config_bool_or(p->c, path_of(p, key, path), fallback);
}

/* The name of the choice; the job must give the key. */
static const char *word(const struct place *p, const char *key)
{
    char path[PATH_BYTES];
    return config_word(p->c, path_of(p, key, path));
}

static int choice(const struct place *p, const char *key, int fallback)
{
    char path[PATH_BYTES];
    return config_enum_or(p->c, path_of(p, key, path), fallback);
}

/* For keys with a fallback of their own (keys_job.c). */
static double plain_number(const struct place *p, const char *key)
{
    char path[PATH_BYTES];
    return config_float(p->c, path_of(p, key, path));
}

static int plain_choice(const struct place *p, const char *key)
{
    char path[PATH_BYTES];
    return config_enum(p->c, path_of(p, key, path));
}

static int refuse(const struct place *p, const char *key, struct err *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int refuse(const struct place *p, const char *key, struct err *e, const char *format, ...)
{
    char path[PATH_BYTES], text[256], where[CONFIG_WHERE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)path_of(p, key, path);
    (void)config_where(p->c, config_has(p->c, path) ? path : p->prefix, where);
    return err_set(e, SHOAL_E_CONFIG, "%s%s: %s", where, path, text);
}

/* ---- optimizer ------------------------------------------------------------------------------- */

struct optimizer_spec job_optimizer_take(const struct config *c, const char *prefix,
                                         const struct optimizer_spec *fallback)
{
    struct place p = {.c = c};
    text_copy(p.prefix, sizeof p.prefix, prefix);
    struct optimizer_spec o = {.kind = fallback->kind};
    if (has(&p, "kind"))
        o.kind = optimizer_named(word(&p, "kind"));
    const struct optimizer_facts *facts = optimizer_facts(o.kind);
    bool same = o.kind == fallback->kind;
    float lr = (float)facts->lr, initial = (float)facts->initial;
    if (same && fallback->lr > 0)
        lr = fallback->lr;
    if (same && fallback->initial > 0)
        initial = fallback->initial;

    o.lr = number_f(&p, "lr", lr);
    o.beta1 = (float)number(&p, "beta1", facts->beta1);
    o.beta2 = (float)number(&p, "beta2", facts->beta2);
    o.eps = (float)number(&p, "eps", facts->eps);
    o.initial = number_f(&p, "initial", initial);
    o.l1 = (float)plain_number(&p, "l1");
    o.l2 = (float)plain_number(&p, "l2");
    o.beta = (float)number(&p, "beta", facts->beta);
    return o;
}

static int decay_take(const struct place *p, struct optimizer_spec *o, struct err *e)
{
    const struct optimizer_facts *facts = optimizer_facts(o->kind);
    float decay = (float)plain_number(p, "optimizer.decay");
    char names[128];
    if (decay < 1 && !facts->decays)
        return refuse(p, "optimizer.decay", e, "only %s have sums that decay",
                      optimizer_decaying(names, sizeof names));
    o->decay = decay < 1 ? decay : 0; /* (3) */
    if (facts->by_initial && o->initial <= 0)
        return refuse(p, "optimizer.initial", e, "%s divides by it; it must be above 0",
                      facts->name);
    return 0;
}

/* ---- admission ------------------------------------------------------------------------------- */

/* *given: true when the job sets admission here. */
static int admit_take(const struct place *p, uint32_t *kind, float *threshold, bool *given,
                      struct err *e)
{
    static const struct {
        const char *key;
        enum admit_kind kind;
    } way[] = {{"admit.min_count", ADMIT_COUNT},
               {"admit.probability", ADMIT_PROBABILITY},
               {"admit.min_score", ADMIT_SCORE}};
    char path[PATH_BYTES];

    *given = false;
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++) {
        if (!has(p, way[i].key))
            continue;
        if (*given)
            return refuse(p, way[i].key, e,
                          "admission goes by one of min_count, probability, min_score and none");
        *given = true;
        *kind = way[i].kind;
        if (i == 0)
            *threshold = (float)(double)config_int(p->c, path_of(p, way[i].key, path));
        else
            *threshold = (float)number(p, way[i].key, 0);
    }
    if (truth(p, "admit.none", false)) {
        if (*given)
            return refuse(p, "admit.none", e,
                          "admission goes by one of min_count, probability, min_score and none");
        *given = true;
        *kind = ADMIT_NONE;
        *threshold = 0;
    }
    if ((*kind == ADMIT_COUNT && *threshold <= 1) ||
        (*kind == ADMIT_PROBABILITY && *threshold >= 1) ||
        (*kind == ADMIT_SCORE && *threshold <= 0)) { /* (3) */
        *kind = ADMIT_ALL;
        *threshold = 0;
    }
    return 0;
}

static bool counts(uint32_t kind, float threshold, const struct job_table *t, float *most)
{
    bool any = kind == ADMIT_COUNT;
    *most = 0;
    if (any)
        *most = threshold;
    for (size_t i = 0; i < t->rule_count; i++) {
        const struct field_rule *r = &t->rule[i].rule;
        if ((r->has & FIELD_HAS_ADMIT) == 0 || r->admit_kind != ADMIT_COUNT)
            continue;
        any = true;
        *most = MAX(r->admit_threshold, *most);
    }
    return any;
}

/* True when keys wait for their rows: by count or by score, in the table or in a field. */
static bool waits(const struct job_table *t)
{
    float most;
    bool any = counts(t->rules.admit_kind, t->rules.admit_threshold, t, &most) ||
               t->rules.admit_kind == ADMIT_SCORE;
    for (size_t i = 0; i < t->rule_count; i++)
        any = any || ((t->rule[i].rule.has & FIELD_HAS_ADMIT) != 0 &&
                      t->rule[i].rule.admit_kind == ADMIT_SCORE);
    return any;
}

static int waiting_take(const struct place *p, struct job_table *t, struct err *e)
{
    struct row_rules *r = &t->rules;
    float most;
    bool counted = counts(r->admit_kind, r->admit_threshold, t, &most);
    r->admit_sketch = (uint32_t)size(p, "admit.sketch", 0);
    r->admit_waiting = (uint32_t)size(p, "admit.waiting", 0);
    if ((r->admit_sketch & (r->admit_sketch - 1)) != 0)
        return refuse(p, "admit.sketch", e, "%u cells is no power of two", r->admit_sketch);
    if (counted && r->admit_sketch > 0 && most > (float)SKETCH_COUNT_MAX)
        return refuse(p, "admit.sketch", e,
                      "a sketch counts to %u, min_count is %.0f: leave the sketch out",
                      SKETCH_COUNT_MAX, (double)most);
    if (!counted)
        r->admit_sketch = 0; /* (3) */
    if (!waits(t))
        r->admit_waiting = 0;
    return 0;
}

/* ---- rules by field -------------------------------------------------------------------------- */

/* A time in seconds; 0 without the key, and at least a second when it is not 0. */
static uint32_t days(const struct place *p, const char *key)
{
    double seconds = number(p, key, 0) * DAY_S;
    if (seconds > 0 && seconds < 1)
        return 1;
    return (uint32_t)lround(seconds);
}

static int field_rule_take(const struct place *p, struct job_field_rule *out, struct err *e)
{
    struct field_rule *r = &out->rule;
    char path[PATH_BYTES];
    bool admit;
    int rc = job_name_take(p->c, path_of(p, "field", path), "", out->field, e);
    if (rc == 0)
        rc = admit_take(p, &r->admit_kind, &r->admit_threshold, &admit, e);
    if (rc != 0)
        return rc;
    bool init = has(p, "init.kind") || has(p, "init.scale"), ttl = has(p, "ttl_days");
    if (!init && !admit && !ttl)
        return refuse(p, "field", e,
                      "the rule for %s says nothing; give it init, admit or ttl_days", out->field);
    r->has = r->kind = 0;
    r->scale = 0;
    if (init) {
        r->has |= FIELD_HAS_INIT;
        r->kind = (uint32_t)plain_choice(p, "init.kind");
        r->scale = (float)plain_number(p, "init.scale");
    }
    if (admit)
        r->has |= FIELD_HAS_ADMIT;
    if (ttl)
        r->has |= FIELD_HAS_TTL;
    r->ttl = days(p, "ttl_days");
    return 0;
}

static int field_rules_take(const struct place *p, struct job_table *t, struct err *e)
{
    char path[PATH_BYTES];
    int rc = 0;
    t->rule_count = config_count(p->c, path_of(p, "rules", path));
    if (t->rule_count == 0)
        return 0;
    if (t->rule_count > LIMIT_FIELDS)
        return refuse(p, "rules", e, "at most %u", LIMIT_FIELDS);
    t->rule = calloc(t->rule_count, sizeof *t->rule);
    if (t->rule == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < t->rule_count && rc == 0; i++) {
        struct place at = {.c = p->c};
        (void)snprintf(at.prefix, sizeof at.prefix, "%.40s.rules[%zu]", p->prefix, i);
        rc = field_rule_take(&at, &t->rule[i], e);
        for (size_t k = 0; k < i && rc == 0; k++)
            if (strcmp(t->rule[k].field, t->rule[i].field) == 0)
                rc = refuse(&at, "field", e, "there is a rule for %s already", t->rule[i].field);
    }
    return rc;
}

/* ---- ageing ---------------------------------------------------------------------------------- */

static bool field_expires(const struct job_table *t)
{
    for (size_t i = 0; i < t->rule_count; i++)
        if (t->rule[i].rule.ttl > 0)
            return true;
    return false;
}

/* every_hours: 0 switches ageing off, whatever the other keys of ageing are (3). */
static void ageing_off(struct job_table *t)
{
    t->rules.age_every = 0;
    t->rules.age_decay = t->rules.age_score = 0;
    t->rules.age_ttl = 0;
    for (size_t i = 0; i < t->rule_count; i++) {
        t->rule[i].rule.has &= ~FIELD_HAS_TTL;
        t->rule[i].rule.ttl = 0;
    }
}

static int ageing_take(const struct place *p, const struct job *j, struct job_table *t,
                       struct err *e)
{
    struct row_rules *r = &t->rules;
    float decay = number_f(p, "evict.decay", 1);
    r->age_decay = decay < 1 ? decay : 0;
    r->age_score = number_f(p, "evict.min_score", 0);
    r->age_ttl = days(p, "evict.ttl_days");
    t->capacity = size(p, "evict.capacity", 0);
    r->age_by = 0;
    if (t->capacity > 0)
        r->age_by = (uint32_t)plain_choice(p, "evict.by");
    bool ages = r->age_decay > 0 || r->age_score > 0 || r->age_ttl > 0 || field_expires(t);
    double hours = number(p, "evict.every_hours", 24);
    uint32_t every = (uint32_t)lround(hours * HOUR_S);
    if (every == 0 && hours > 0)
        return refuse(p, "evict.every_hours", e, "%g is less than a second", hours);
    r->age_every = ages ? every : 0;
    if (r->age_every == 0)
        ageing_off(t);
    if (r->age_every > 0 && !job_timed(j))
        return refuse(
            p, "evict", e,
            "rows age by event time: name its column in data.time, or say evict: {every_hours: 0}");
    if (t->capacity > 0 && r->age_by == EVICT_LRU && !job_timed(j))
        return refuse(
            p, "evict.capacity", e,
            "who was used least recently is told by event time: name its column in data.time, or "
            "say evict: {by: score}");
    return 0;
}

/* ---- statistics ------------------------------------------------------------------------------ */

/* The key that needs statistics, or NULL (1). */
static const char *statistics_needed(const struct job_table *t)
{
    const struct row_rules *r = &t->rules;
    for (size_t i = 0; i < t->rule_count; i++)
        if ((t->rule[i].rule.has & FIELD_HAS_ADMIT) != 0 &&
            t->rule[i].rule.admit_kind == ADMIT_SCORE)
            return "rules";
    if (r->age_every > 0)
        return "evict";
    if (t->capacity > 0)
        return "evict.capacity";
    if (r->admit_kind == ADMIT_SCORE)
        return "admit.min_score";
    if (r->vector_score > 0)
        return "vector_score";
    if (r->by_shows > 0)
        return "by_shows";
    return NULL;
}

static int statistics_take(const struct place *p, struct job_table *t, struct err *e)
{
    struct row_rules *r = &t->rules;
    const char *needed = statistics_needed(t);
    bool stats = truth(p, "stats", needed != NULL);
    if (!stats && needed != NULL)
        return refuse(p, "stats", e,
                      "%s goes by statistics of rows: take `stats: false` away, or %s", needed,
                      needed);
    SHOAL_ASSERT(stats || (r->age_every == 0 && t->capacity == 0)); /* 1 */
    r->stats = stats;
    r->score_show = r->score_click = 0;
    if (stats) {
        r->score_show = number_f(p, "score.show", 0.1f);
        r->score_click = number_f(p, "score.click", 1);
    }
    return 0;
}

static int rules_take(const struct place *p, const struct job *j, struct job_table *t,
                      struct err *e)
{
    struct row_rules *r = &t->rules;
    bool given;
    int rc = field_rules_take(p, t, e);
    if (rc == 0)
        rc = admit_take(p, &r->admit_kind, &r->admit_threshold, &given, e);
    if (rc == 0)
        rc = waiting_take(p, t, e);
    if (rc == 0)
        rc = ageing_take(p, j, t, e);
    if (rc != 0)
        return rc;
    r->vector_score = number_f(p, "vector_score", 0);
    r->weight_max = number_f(p, "clamp", 0);
    r->by_shows = truth(p, "by_shows", false);
    r->norm_max = number_f(p, "guard.norm", 0);
    r->norm_refuse = r->norm_max > 0 && plain_choice(p, "guard.action") == 1;
    return statistics_take(p, t, e);
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* worker/data/feature_plan.c checks whether the input has columns with these names. */
static int fields_take(const struct place *p, struct job_table *t, struct err *e)
{
    char path[PATH_BYTES];
    (void)path_of(p, "fields", path);
    t->fields_line = config_line(p->c, config_has(p->c, path) ? path : p->prefix);
    if (config_list(p->c, path, &t->fields) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < t->fields.count; i++) {
        size_t bytes = strlen(t->fields.item[i]);
        if (bytes == 0 || bytes >= LIMIT_NAME)
            return refuse(p, "fields", e, "a name has 1 to %u bytes, this one %zu", LIMIT_NAME - 1,
                          bytes);
        for (size_t k = 0; k < i; k++)
            if (strcmp(t->fields.item[k], t->fields.item[i]) == 0)
                return refuse(p, "fields", e, "%s is named twice; take one out", t->fields.item[i]);
    }
    return 0;
}

static bool names_field(const struct job_table *t, const char *name)
{
    for (size_t i = 0; i < t->fields.count; i++)
        if (strcmp(t->fields.item[i], name) == 0)
            return true;
    return false;
}

/* Two tables of one job must differ in name and in their fields. */
static int tables_apart(const struct config *c, const struct job_table *a, size_t at,
                        const struct job_table *b, size_t before, struct err *e)
{
    struct place p = {.c = c};
    (void)snprintf(p.prefix, sizeof p.prefix, "tables[%zu]", at);
    if (strcmp(a->name, b->name) == 0)
        return refuse(&p, "name", e,
                      "tables[%zu] is named %s too; give each table a name of its own", before,
                      a->name);
    if (a->fields.count == 0 && b->fields.count == 0)
        return refuse(&p, "name", e,
                      "neither table %s nor table %s says which fields it is for; name them in "
                      "`fields` of one of "
                      "them, the other takes the rest",
                      b->name, a->name);
    for (size_t i = 0; i < a->fields.count; i++)
        if (names_field(b, a->fields.item[i]))
            return refuse(&p, "fields", e, "%s is in the fields of table %s already; name it once",
                          a->fields.item[i], b->name);
    return 0;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int table_take(const struct config *c, size_t i, const struct job *j, struct job_table *t,
                      struct err *e)
{
    struct place p = {.c = c};
    char path[PATH_BYTES];
    char where[CONFIG_WHERE];
    (void)snprintf(p.prefix, sizeof p.prefix, "tables[%zu]", i);
    int rc = job_name_take(c, path_of(&p, "name", path), NULL, t->name, e);
    if (rc != 0)
        return rc;
    if (strcmp(t->name, "dense") == 0 || strcmp(t->name, "dense_stats") == 0)
        return err_set(e, SHOAL_E_CONFIG, "%sthe name %s is taken by the network's own table",
                       config_where(c, path, where), t->name);
    rc = fields_take(&p, t, e);
    if (rc != 0)
        return rc;
    t->dim = (uint32_t)config_int(c, path_of(&p, "dim", path));
    t->tablets = (uint32_t)config_int(c, path_of(&p, "tablets", path));
    if ((t->tablets & (t->tablets - 1)) != 0 && t->tablets != 0)
        return refuse(&p, "tablets", e, "%u is no power of two", t->tablets);
    t->values = (uint32_t)plain_choice(&p, "values");
    int preset = plain_choice(&p, "preset");
    p.preset = NULL;
    if (preset != 0)
        p.preset = config_word(c, path_of(&p, "preset", path));
    const char *kind = preset_value(&p, "optimizer.kind");
    struct optimizer_spec optimizer = {.kind = OPT_ADAGRAD};
    if (kind != NULL) {
        optimizer.kind = optimizer_named(kind);
        optimizer.lr = (float)number(&p, "optimizer.lr", 0);
        optimizer.initial = (float)number(&p, "optimizer.initial", 0);
    }
    t->init.kind = (enum init_kind)choice(&p, "init.kind", INIT_UNIFORM);
    t->init.scale = number_f(&p, "init.scale", 0.01f);
    t->seed = (uint64_t)config_int(c, path_of(&p, "init.seed", path));
    t->optimizer = job_optimizer_take(c, path_of(&p, "optimizer", path), &optimizer);
    rc = decay_take(&p, &t->optimizer, e);
    if (rc != 0)
        return rc;
    return rules_take(&p, j, t, e);
}

int job_tables_take(const struct config *c, struct job *j, struct err *e)
{
    char where[CONFIG_WHERE];
    int rc = 0;
    SHOAL_ASSERT(j->data.train.count > 0 && j->table == NULL); /* job.c, 1 */
    j->table_count = config_count(c, "tables");
    if (j->table_count == 0)
        j->table_count = 1; /* one table with every default */
    if (j->table_count > LIMIT_JOB_TABLES)
        return err_set(e, SHOAL_E_CONFIG, "%sat most %u tables, not %zu",
                       config_where(c, "tables[0]", where), LIMIT_JOB_TABLES, j->table_count);
    j->table = calloc(j->table_count, sizeof *j->table);
    if (j->table == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < j->table_count && rc == 0; i++)
        rc = table_take(c, i, j, &j->table[i], e);
    for (size_t i = 1; i < j->table_count && rc == 0; i++)
        for (size_t k = 0; k < i && rc == 0; k++)
            rc = tables_apart(c, &j->table[i], i, &j->table[k], k, e);
    return rc;
}
