/* model_graph.c: the network as a graph of operators: its plan, lowered, and the scores. */
#include "dense/layer/lower.h"
#include "dense/model/models.h"
#include "proto/base/minmax.h"

#include <math.h>
#include <stdlib.h>

/* The score of a task from its logit (batch, 1): a probability or a number (batch). Training that
 * keeps a share of the negatives moves the logit by the logarithm of that share. */
static void score_add(const struct job *job, struct graph *g, uint32_t logit, uint32_t task,
                      uint32_t tasks)
{
    char name[FEED_NAME];
    if (job->data.negatives > 0 && job->data.negatives < 1)
        logit = graph_binary(g, "Add", logit, graph_number(g, (float)log(job->data.negatives)));
    if (job->model.loss[task] == LOSS_LOGLOSS)
        logit = graph_unary(g, "Sigmoid", logit);
    feed_score(job->data.label[task], tasks, name);
    graph_output(g, graph_reshape(g, logit, (int64_t[]){-1}, 1), name);
}

static int plan_graph(const struct job *job, const struct plan *p, const struct feed_names *names,
                      struct graph *g, struct err *e)
{
    uint32_t logit[LIMIT_TASKS];
    if (!p->has_loss)
        return err_set(e, SHOAL_E_CONFIG, "model.kind %s has no scores: it is no network",
                       job_model_name(job->model.kind));
    if (p->shape.fields == 0 && p->shape.numerics == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "the model reads neither fields nor numbers: its score is a constant");
    int rc = lower_plan(p, names, g, logit, e);
    if (rc != 0)
        return rc;
    graph_scope(g, "score", 0);
    for (uint32_t t = 0; t < p->tasks && graph_complete(g); t++)
        score_add(job, g, logit[t], t, p->tasks);
    return 0;
}

int model_graph(const struct job *job, const struct model_shape *shape,
                const struct feed_names *names, struct graph *g, struct err *e)
{
    struct plan *p = malloc(sizeof *p);
    struct job whole = *job; /* the network of one device; shares all other members */
    if (p == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the plan of job %s", job->name);
    whole.model.stages = whole.model.split = 1;
    int rc = models_plan(&whole, shape, p, e);
    if (rc == 0)
        rc = plan_graph(job, p, names, g, e);
    free(p);
    return rc;
}
