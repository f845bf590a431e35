/* optimizer.c: chooses the functions of a table's optimizer. */
#include "embedding/rows/optimizer/optimizer.h"

#include "proto/base/assert.h"

#define FUNCTIONS(number, KIND, name, ...)                                                         \
    [number] = {optimizer_##name##_start, optimizer_##name##_update},
static const struct {
    void (*start)(float *row, const struct table_schema *s);
    opt_update_fn (*update)(enum isa isa, uint32_t width);
} functions[] = {OPTIMIZER_KINDS(FUNCTIONS)};

struct optimizer optimizer_of(const struct table_schema *s, enum isa isa)
{
    const uint32_t kind = s->optimizer.kind;
    /* schema_check refuses all others */
    SHOAL_ASSERT(optimizer_facts(kind) != NULL && isa < ISA_COUNT);
    SHOAL_ASSERT(s->width > 0 && kind < sizeof functions / sizeof functions[0]);
    return (struct optimizer){functions[kind].start, functions[kind].update(isa, s->width)};
}

void optimizer_step(const struct table_schema *s, float lr_scale, struct opt_step *out)
{
    const struct optimizer_spec *o = &s->optimizer;
    float scale = lr_scale;
    if (o->fixed_lr)
        scale = 1.0f;
    *out = (struct opt_step){
        .lr = o->lr * scale,
        .lr_whole = o->lr,
        .scale = scale,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = o->eps,
        .l1 = o->l1,
        .l2 = o->l2,
        .beta = o->beta,
        .initial = o->initial,
        .decay = o->decay > 0 ? o->decay : 1.0f,
        .width = s->width,
        .zero_first = s->zero_first,
    };
}
