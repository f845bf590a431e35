/* admit.c: applies the admission rule, counts, makes the row. */
#include "embedding/rows/admit.h"
#include "proto/base/key.h"

#include "embedding/rows/rules/stats.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/rng.h"

uint32_t admit_waiting_limit(const struct table_schema *s)
{
    if (s->rules.admit_waiting > 0)
        return s->rules.admit_waiting;

    return WAITING_DEFAULT;
}

/* The limit of keys for its sketch, which separates keys only while it has a column for each. */
static uint32_t sketch_limit(const struct table_schema *s)
{
    if (s->rules.admit_waiting > 0)
        return s->rules.admit_waiting;

    return s->rules.admit_sketch / SKETCH_ROWS;
}

struct appearance { /* a key's shows and clicks in one push */
    float show, click;
};

static struct appearance appearance_of(const struct table *t, const float *values)
{
    if (t->schema.rules.stats == 0)
        return (struct appearance){1, 0};
    return (struct appearance){values[t->schema.width], values[t->schema.width + 1]};
}

static uint32_t whole_times(float show)
{
    if (show < (float)SKETCH_MAX)
        return (uint32_t)(show + 0.5f);

    return SKETCH_MAX;
}

/* 1 - (1 - p)^times, by squaring. */
static double chance_of(float p, uint32_t times)
{
    double stay = 1, power = 1 - (double)p;
    for (; times > 0; times /= 2, power *= power)
        if (times & 1)
            stay *= power;
    return 1 - stay;
}

static bool drawn(const struct table *t, uint64_t key, float p, float show,
                  const struct push_args *args)
{
    struct rng by_key = rng_of(t->schema.seed, key, args->lane),
               r = rng_of(by_key.state, args->batch, 0);
    return rng_double(&r) < chance_of(p, whole_times(show));
}

static int count_in_sketch(struct table *t, struct tablet_life *life, uint64_t key, float threshold,
                           float show, bool *in)
{
    uint32_t count = 0;
    int rc = sketch_add(&life->sketch, t->schema.rules.admit_sketch, sketch_limit(&t->schema), key,
                        whole_times(show), &count);
    *in = (float)count >= threshold;
    return rc;
}

struct verdict {
    bool in;
    bool asked;                /* a rule had to admit it */
    struct waiting_key before; /* initial statistics of the row */
};

/* Admits by count or score, with exact counts. */
static int count_exactly(struct table *t, struct tablet_life *life, uint64_t key, uint32_t kind,
                         float threshold, struct appearance now, struct verdict *v)
{
    struct waiting_key known = waiting_find(&life->waiting, key);
    float show = known.show + now.show, click = known.click + now.click;
    float score = show;
    if (kind == ADMIT_SCORE)
        score = stats_score(&t->schema.rules, show, click);
    v->in = score >= threshold;
    if (!v->in && (now.show > 0 || now.click > 0))
        return waiting_add(&life->waiting, admit_waiting_limit(&t->schema), key, now.show,
                           now.click);
    if (v->in && kind == ADMIT_SCORE)
        v->before = known;
    return 0;
}

static int decide(struct table *t, uint32_t tablet, uint64_t key, const float *values,
                  const struct push_args *args, struct verdict *v)
{
    const struct row_rules *r = &t->schema.rules;
    const struct field_rule *f = NULL;
    if (t->schema.field_rule_count > 0)
        f = schema_field_rule(&t->schema, key_field(key));
    uint32_t kind = r->admit_kind;
    float threshold = r->admit_threshold;
    if (f != NULL && (f->has & FIELD_HAS_ADMIT) != 0) {
        kind = f->admit_kind;
        threshold = f->admit_threshold;
    }
    struct appearance now = appearance_of(t, values);
    v->in = kind == ADMIT_ALL;
    v->asked = kind != ADMIT_ALL;
    if (kind == ADMIT_PROBABILITY)
        v->in = drawn(t, key, threshold, now.show, args);
    if (kind != ADMIT_COUNT && kind != ADMIT_SCORE)
        return 0;
    struct tablet_life *life = table_life(t, tablet);
    if (life == NULL)
        return SHOAL_E_NOMEM;
    if (kind == ADMIT_COUNT && r->admit_sketch > 0)
        return count_in_sketch(t, life, key, threshold, now.show, &v->in);
    return count_exactly(t, life, key, kind, threshold, now, v);
}

/* Starts the row with the statistics that its key was counted with. */
static void begin_with(const struct table *t, float *row, const struct waiting_key *before)
{
    struct row_stats stats = stats_read(row + t->stats_at);
    stats.show = before->show;
    stats.click = before->click;
    stats.delta_score = stats_score(&t->schema.rules, before->show, before->click);
    stats_write(row + t->stats_at, &stats);
}

/* Applies the rules of the table to a key. */
static int ask(struct table *t, uint32_t tablet, uint64_t key, const float *values,
               const struct push_args *args, bool allowed, struct verdict *v)
{
    v->in = v->asked = allowed;
    int rc = 0;
    if (!allowed)
        rc = decide(t, tablet, key, values, args, v);
    if (rc != 0 || !v->in) {
        t->counts.not_admitted += rc == 0;
        return rc;
    }
    t->counts.admitted += v->asked;
    if (t->tablets[tablet].life != NULL)
        waiting_forget(&t->tablets[tablet].life->waiting, key);
    if (args->undo_clock == 0)
        return 0;
    table_absent(t, &t->tablets[tablet], key, t->fresh); /* the value of a pull before this clock */
    return table_undo_keep(t, tablet, key, t->fresh, args->undo_clock);
}

int admit_row(struct table *t, uint32_t tablet, uint64_t key, const float *values,
              const struct push_args *args, float **row)
{
    const struct tablet_life *life = t->tablets[tablet].life;
    enum name_kind name = NAME_NONE;
    if (life != NULL && life->named.count > 0)
        name = named_find(&life->named, key);

    struct verdict v = {.in = true};
    *row = NULL;
    if (name == NAME_ERASED || name == NAME_BLOCKED) {
        t->counts.blocked++;
        return 0;
    }
    int rc = 0;
    if (t->ruled)
        rc = ask(t, tablet, key, values, args, name == NAME_ALLOWED, &v);
    if (rc != 0 || !v.in)
        return rc;
    *row = table_insert(t, tablet, key);
    if (*row == NULL)
        return SHOAL_E_NOMEM;
    if (v.before.show > 0 || v.before.click > 0)
        begin_with(t, *row, &v.before);
    return 0;
}
