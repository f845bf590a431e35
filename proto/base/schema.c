/* schema.c: checking and comparing table schemas. */
#include "proto/base/schema.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool number_ok(float x, float low, float high)
{
    return isfinite(x) && x >= low && x <= high;
}

static int optimizer_check(const struct optimizer_spec *o, const char *table, struct err *e)
{
    if ((unsigned)o->kind > OPT_FTRL)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: unknown optimizer %d", table, (int)o->kind);
    if (!number_ok(o->lr, 1e-30f, 1e10f))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: lr must be above 0 and finite, it is %g", table, (double)o->lr);
    if (!number_ok(o->beta1, 0, 0.9999999f) || !number_ok(o->beta2, 0, 0.9999999f))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: beta1 and beta2 must be in [0, 1)", table);
    if (!number_ok(o->eps, 0, 1e10f) || !number_ok(o->initial, 0, 1e10f) || !number_ok(o->l1, 0, 1e10f) ||
        !number_ok(o->l2, 0, 1e10f) || !number_ok(o->beta, 0, 1e10f))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: eps, initial, l1, l2 and beta must be finite and not negative", table);
    if (o->fixed_lr > 1)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: fixed_lr must be 0 or 1", table);
    return 0;
}

static int field_init_check(const struct table_schema *s, struct err *e)
{
    if (s->field_init_count > LIMIT_FIELDS)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: %u initial values by field, at most %u", s->name, s->field_init_count,
                       LIMIT_FIELDS);
    for (uint32_t i = 0; i < s->field_init_count; i++) {
        const struct field_init *f = &s->field_init[i];
        if (f->kind > INIT_CONSTANT || !number_ok(f->scale, -1e10f, 1e10f) || f->field > 0xffff)
            return err_set(e, SHOAL_E_SCHEMA, "table %s: initial value %u is not valid", s->name, i);
        if (i > 0 && s->field_init[i - 1].field >= f->field)
            return err_set(e, SHOAL_E_SCHEMA, "table %s: initial values are not sorted by field", s->name);
    }
    return 0;
}

int schema_check(const struct table_schema *s, struct err *e)
{
    if (memchr(s->name, 0, sizeof s->name) == NULL || s->name[0] == 0)
        return err_set(e, SHOAL_E_SCHEMA, "a table has no name, or one over %u bytes", LIMIT_NAME - 1);
    if (s->table >= LIMIT_TABLES || s->dense > 1)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: number %u is over the limit of %u tables", s->name, s->table, LIMIT_TABLES);
    if (s->width == 0 || s->width > LIMIT_WIDTH || s->zero_first > s->width)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: width %u is not in 1..%u", s->name, s->width, LIMIT_WIDTH);
    if (s->tablet_bits > 16 || s->tablet_first > LIMIT_TABLES * LIMIT_TABLETS - (1u << s->tablet_bits))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: 2^%u tablets from %u on are over the limit", s->name, s->tablet_bits,
                       s->tablet_first);
    if ((unsigned)s->init.kind > INIT_CONSTANT || !number_ok(s->init.scale, -1e10f, 1e10f))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: initial value is not valid", s->name);
    int status = optimizer_check(&s->optimizer, s->name, e);
    return status != 0 ? status : field_init_check(s, e);
}

/* Compared field by field: a struct's padding is nobody's. */
int schema_equal(const struct table_schema *a, const struct table_schema *b)
{
    const struct optimizer_spec *p = &a->optimizer, *q = &b->optimizer;

    if (strcmp(a->name, b->name) != 0 || a->table != b->table || a->dense != b->dense || a->width != b->width ||
        a->zero_first != b->zero_first || a->tablet_bits != b->tablet_bits || a->tablet_first != b->tablet_first ||
        a->seed != b->seed || a->init.kind != b->init.kind || memcmp(&a->init.scale, &b->init.scale, 4) != 0)
        return 0;
    const float x[] = {p->lr, p->beta1, p->beta2, p->eps, p->initial, p->l1, p->l2, p->beta};
    const float y[] = {q->lr, q->beta1, q->beta2, q->eps, q->initial, q->l1, q->l2, q->beta};
    if (p->kind != q->kind || p->fixed_lr != q->fixed_lr || memcmp(x, y, sizeof x) != 0)
        return 0;
    return a->field_init_count == b->field_init_count &&
           memcmp(a->field_init, b->field_init, a->field_init_count * sizeof a->field_init[0]) == 0;
}

int schema_has_last(const struct table_schema *s)
{
    return s->optimizer.kind != OPT_FTRL && s->optimizer.l2 > 0;
}

static uint32_t optimizer_floats(const struct table_schema *s)
{
    switch (s->optimizer.kind) {
    case OPT_SGD:
        return 0;
    case OPT_ADAGRAD:
        return s->width;
    case OPT_ROW_ADAGRAD:
        return 1;
    case OPT_ADAM:
        return 2 * s->width + 2;
    case OPT_FTRL:
        return 2 * s->width;
    }
    return 0;
}

uint32_t schema_state_floats(const struct table_schema *s)
{
    return optimizer_floats(s) + (schema_has_last(s) ? 1 : 0);
}
