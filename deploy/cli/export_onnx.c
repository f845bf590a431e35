/* export_onnx.c: the network of an export as ONNX, for services that look up rows by themselves:
 *
 *     tensors -> weights  job, features -> plan -> operators  -> model.onnx
 *
 * The file's metadata say what each input is, so that the file alone tells a service how to feed
 * it. */
#include "dense/model.h"
#include "deploy/cli/export.h"
#include "deploy/cli/export_file.h"
#include "deploy/cli/reader.h"
#include "proto/base/container_of.h"
#include "proto/job/job.h"
#include "proto/wire/onnx.h"
#include "worker/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An export whose format adds tensors to a graph. */
struct kept {
    struct export export;
    struct graph graph;
};

struct network {
    struct reader *from; /* borrowed */
    const char *where;   /* for messages */
    struct job job;
    struct dataset_inputs *in; /* owned */
    struct kept kept;
};

/* ---- weights --------------------------------------------------------------------------------- */

static int kept_nothing(struct export_list *l, struct err *e)
{
    (void)l;
    (void)e;
    return 0;
}

static int kept_tensor(struct export_list *l, const struct export_tensor *t, struct err *e)
{
    struct kept *k = container_of(l->export, struct kept, export);
    int64_t dim[NPY_DIMS];
    for (uint32_t i = 0; i < t->values.dims; i++)
        dim[i] = (int64_t)t->values.shape[i];
    (void)graph_weight(&k->graph, t->values.name, dim, t->values.dims, t->value);
    if (!graph_complete(&k->graph))
        return err_set(e, SHOAL_E_NOMEM, "no memory for tensor %s", t->name);
    return 0;
}

static const struct export_format kept_format = {
    .name = "onnx", .begin = kept_nothing, .tensor = kept_tensor, .end = kept_nothing};

/* Adds the tensors of a dense table as weights; a model without batch norm has no dense_stats. */
static int weights_add(struct network *n, const char *table, enum legend_list list, struct err *e)
{
    const struct legend *names = &n->job.legend;
    struct export_counts none = {0};
    uint32_t index;
    if (names->count[list] == 0 || reader_table(n->from, table, &index, NULL) != 0)
        return 0;
    struct json *told = json_new_array();
    int rc = export_tensors(&n->kept.export, n->from, index, names->name[list], names->count[list],
                            told, &none, e);
    json_free(told);
    return rc;
}

/* ---- the job --------------------------------------------------------------------------------- */

static int job_read(struct network *n, struct err *e)
{
    char *text;
    size_t bytes;
    int rc = reader_job(n->from, &text, &bytes, e);
    if (rc != 0)
        return rc;
    if (text == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "%s has no job file, which says what its model is",
                       n->where);
    rc = job_parse(text, bytes, n->where, NULL, &n->job, e);
    free(text);
    if (rc == 0 && n->job.model.kind == MODEL_EXTERNAL)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s has model.kind: external: its network is a program's, which writes it as "
                     "ONNX by itself, as with torch.onnx.export; without --onnx this command "
                     "writes the rows, and the tensors that the servers keep",
                     n->where);
    if (rc == 0 && !legend_known(&n->job.legend))
        rc = err_set(e, SHOAL_E_NOINPUT,
                     "%s does not name the tensors of its network: no job has trained there",
                     n->where);
    return rc;
}

static void names_take(const struct network *n, struct feed_names *out)
{
    for (uint32_t i = 0; i < n->in->shape.fields; i++)
        out->field[i] = n->in->field[i];
    for (uint32_t i = 0; i < n->in->shape.numerics; i++)
        out->numeric[i] = n->in->numeric[i];
}

static int graph_make(struct network *n, struct err *e)
{
    struct feed_names *names = calloc(1, sizeof *names);
    if (names == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    names_take(n, names);
    int rc = weights_add(n, "dense", LEGEND_TENSORS, e);
    if (rc == 0)
        rc = weights_add(n, "dense_stats", LEGEND_STATISTICS, e);
    if (rc == 0)
        rc = model_graph(&n->job, &n->in->shape, names, &n->kept.graph, e);
    free(names);
    return rc;
}

/* ---- what the inputs are --------------------------------------------------------------------- */

/* What the tables' names say of a field or number: "category", "number log1p". */
static const char *kind_of(const struct legend *names, enum legend_list list, const char *name)
{
    uint32_t at = legend_find(names, list, name);
    return at == LEGEND_NONE ? "" : names->name[list][at].what;
}

/* Tells the graph's input of that kind and name, if it has one. */
static bool input_told(const struct network *n, struct json *j, const char *member,
                       enum feed_kind kind, const char *name)
{
    char full[FEED_NAME];
    feed_name(kind, name, full);
    if (graph_find(&n->kept.graph, full) == GRAPH_NONE)
        return false;
    (void)json_set_string(j, member, full);
    return true;
}

static struct json *field_told(const struct network *n, uint32_t f)
{
    static const char *const pooled[] = {
        [POOL_SUM] = "sum", [POOL_MEAN] = "mean", [POOL_ATTENTION] = "attention"};
    const struct model_shape *s = &n->in->shape;
    const struct job_table *table = &n->job.table[s->table[f]];
    bool attends = s->pooling[f] == POOL_ATTENTION;
    struct json *j = json_new_object();
    (void)json_set_string(j, "name", n->in->field[f]);
    (void)json_set_string(j, "table", table->name);
    if (input_told(n, j, "input", attends ? FEED_VECTORS : FEED_VECTOR, n->in->field[f]))
        (void)json_set_int(j, "dim", table->dim);
    (void)input_told(n, j, "first", FEED_FIRST, n->in->field[f]);
    (void)json_set_int(j, "number", n->in->key_field[f]);
    (void)json_set_string(j, "kind", kind_of(&n->job.legend, LEGEND_FIELDS, n->in->field[f]));
    (void)json_set_string(j, "pooling", pooled[s->pooling[f]]);
    if (attends)
        (void)json_set_string(j, "attend", n->in->field[s->attend[f]]);
    if (s->most[f] > 0)
        (void)json_set_int(j, "last", s->most[f]);
    return j;
}

static struct json *number_told(const struct network *n, uint32_t i)
{
    const char *name = n->in->numeric[i], *figures = legend_figures_of(&n->job.legend, name);
    struct json *j = json_new_object();
    (void)json_set_string(j, "name", name);
    (void)input_told(n, j, "input", FEED_NUMBER, name);
    (void)json_set_string(j, "kind", kind_of(&n->job.legend, LEGEND_NUMBERS, name));
    if (figures != NULL)
        (void)json_set_string(j, "figures", figures);
    return j;
}

static struct json *score_told(const struct network *n, uint32_t t, uint32_t tasks)
{
    static const char *const loss[] = {
        [LOSS_LOGLOSS] = "logloss", [LOSS_MSE] = "mse", [LOSS_HUBER] = "huber"};
    char name[FEED_NAME];
    struct json *j = json_new_object();
    feed_score(n->job.data.label[t], tasks, name);
    (void)json_set_string(j, "output", name);
    (void)json_set_string(j, "label", n->job.data.label[t]);
    (void)json_set_string(j, "loss", loss[n->job.model.loss[t]]);
    return j;
}

/* Adds the list to the file's metadata. */
static void list_note(struct graph *g, const char *key, struct json *list)
{
    char *text = json_text(list, 0);
    json_free(list);
    if (text == NULL)
        g->failed = true;
    else
        graph_note(g, key, text);
    free(text);
}

static void graph_tell(struct network *n)
{
    struct graph *g = &n->kept.graph;
    const struct model_shape *s = &n->in->shape;
    struct json *fields = json_new_array(), *numbers = json_new_array(), *scores = json_new_array();
    uint32_t tasks = s->tasks > 0 ? s->tasks : 1;
    char about[512];
    for (uint32_t i = 0; i < s->fields; i++)
        (void)json_append(fields, field_told(n, i));
    for (uint32_t i = 0; i < s->numerics; i++)
        (void)json_append(numbers, number_told(n, i));
    for (uint32_t i = 0; i < tasks; i++)
        (void)json_append(scores, score_told(n, i, tasks));

    (void)snprintf(about, sizeof about,
                   "Model %s of the job %s, trained by Shoal. A service looks up the rows of an "
                   "example's values, pools them by field, and feeds them by name; the rows of "
                   "values that the tables do not have are zeros. The metadata shoal.fields, "
                   "shoal.numbers and shoal.scores describe inputs and outputs.",
                   job_model_name(n->job.model.kind), n->job.name);
    graph_about(g, about);
    graph_note(g, "shoal.job", n->job.name);
    graph_note(g, "shoal.model", job_model_name(n->job.model.kind));
    list_note(g, "shoal.fields", fields);
    list_note(g, "shoal.numbers", numbers);
    list_note(g, "shoal.scores", scores);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void file_take(void *context, const void *data, size_t bytes)
{
    export_file_add(context, data, bytes);
}

static int graph_write(const struct network *n, const struct export *x, struct err *e)
{
    struct export_file *f;
    int rc = export_file_open(x->folder, EXPORT_ONNX, 0, &f, e);
    if (rc != 0)
        return rc;
    rc = onnx_write(&n->kept.graph, n->job.name, file_take, f, e);
    if (rc != 0) {
        export_file_free(f);
        return rc;
    }
    return export_file_end(f, NULL, e);
}

int export_onnx(const struct export *x, struct reader *from, const char *where, struct err *e)
{
    struct network n = {.from = from, .where = where, .kept.export.format = &kept_format};
    int rc = job_read(&n, e);
    if (rc != 0)
        return rc;
    n.in = calloc(1, sizeof *n.in);
    if (n.in == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = dataset_inputs(&n.job, n.in, e);
    if (rc == 0)
        rc = graph_make(&n, e);
    if (rc == 0) {
        graph_tell(&n);
        rc = graph_write(&n, x, e);
    }
    graph_free(&n.kept.graph);
    free(n.in);
    job_free(&n.job);
    return rc;
}
