/* optimizer.c: picks the functions of a table's optimizer. */
#include "embedding/rows/optimizer/optimizer.h"

#include "proto/base/assert.h"

struct optimizer optimizer_of(const struct table_schema *s, enum isa isa)
{
    /* schema_check lets no other through */
    SHOAL_ASSERT((unsigned)s->optimizer.kind <= OPT_CTR_ADAGRAD && isa < ISA_COUNT);
    switch (s->optimizer.kind) {
    case OPT_SGD:
        return (struct optimizer){opt_sgd_start, opt_sgd_update(isa, s->width)};
    case OPT_ADAGRAD:
        return (struct optimizer){opt_adagrad_start, opt_adagrad_update(isa, s->width)};
    case OPT_ROW_ADAGRAD:
        return (struct optimizer){opt_adagrad_row_start, opt_adagrad_row_update(isa, s->width)};
    case OPT_ADAM:
        return (struct optimizer){opt_adam_start, opt_adam_update(isa, s->width)};
    case OPT_FTRL:
        return (struct optimizer){opt_ftrl_start, opt_ftrl_update(isa, s->width)};
    case OPT_CTR_ADAGRAD:
        return (struct optimizer){opt_ctr_adagrad_start, opt_ctr_adagrad_update(isa, s->width)};
    }
    return (struct optimizer){0};
}

void optimizer_step(const struct table_schema *s, float lr_scale, struct opt_step *out)
{
    const struct optimizer_spec *o = &s->optimizer;
    *out = (struct opt_step){
        .lr = o->fixed_lr ? o->lr : o->lr * lr_scale,
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
