/* ops_loss.cu: the logistic loss. */
#include "dense/cuda/stream.h"

struct loss_args {
    uint32_t tasks;
    float offset;
    const uint32_t *live; /* or NULL */
    const float *logit, *label, *weight, *factor;
    double *term; /* (count, tasks) */
    float *scores, *dlogit;
};

/* In double: it is one value an example. */
BODY void loss_at(const struct loss_args *a, size_t i)
{
    struct place p = place_of(i, a->tasks);
    if (a->live != NULL && p.row >= *a->live) {
        a->term[i] = 0.0;
        if (a->dlogit)
            a->dlogit[i] = 0.0f;
        return;
    }
    double of_example = a->weight ? (double)a->weight[p.row] : 1.0;
    double z = (double)a->logit[i] + (double)a->offset, y = (double)a->label[i];
    double e = exp(-fabs(z)), score = (z >= 0 ? 1.0 : e) / (1.0 + e);
    double loss = of_example * ((z > 0 ? z : 0.0) - z * y + log1p(e));
    a->term[i] = z == z ? loss : z; /* the comparisons above must not hide what is not a number */
    if (a->scores)
        a->scores[i] = (float)score;
    if (a->dlogit)
        a->dlogit[i] = (float)((double)a->factor[p.column] * of_example * (score - y));
}
KERNEL(loss)

static void loss_logistic(struct stream *s, uint32_t count, const uint32_t *live, uint32_t tasks,
                          const float *logit, float offset, const float *label, const float *weight,
                          const float *factor, double *loss, float *scores, float *dlogit)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    double *term = (double *)cuda_scratch(s, (size_t)count * tasks * sizeof *term);
    struct loss_args a = {tasks, offset, live, logit, label, weight, factor, term, scores, dlogit};
    if (term == NULL)
        return;
    loss_run(s, (size_t)count * tasks, &a);
    cuda_columns_add_double(s, term, count, tasks, loss);
    cuda_scratch_return(s, mark);
}

void cuda_loss_fill(struct backend_ops *o)
{
    o->loss_logistic = loss_logistic;
}
