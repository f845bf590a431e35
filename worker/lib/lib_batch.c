/* lib_batch.c: see lib_batch.h. */
#include "worker/lib/lib_batch.h"

#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

/* The name of the field with this number in its keys. Before the coordinator has numbered the
 * names, a name's place is its number. */
static const char *field_name(const struct job *job, uint16_t number)
{
    const struct legend *l = &job->legend;
    for (uint32_t i = 0; i < l->count[LEGEND_FIELDS]; i++) {
        const struct legend_name *x = &l->name[LEGEND_FIELDS][i];
        if ((x->number == LEGEND_NONE ? i : x->number) == number)
            return x->name;
    }
    return "";
}

static void tables_set(struct lib_batch *b, const struct job *job)
{
    uint32_t first = job->model.kind == MODEL_EXTERNAL && job->model.first_order ? 1 : 0;
    for (uint32_t t = 0; t < b->batch.tables; t++) {
        text_copy(b->table[t].name, sizeof b->table[t].name, job->table[t].name);
        b->table[t].first = first;
        b->table[t].dim = job->table[t].dim;
        b->table[t].width = first + job->table[t].dim;
    }
}

static void tensors_set(struct lib_batch *b, const struct job *job)
{
    for (uint32_t i = 0; i < b->batch.tensors; i++) {
        const struct job_tensor *from = &job->model.tensor[i];
        struct shoal_batch_tensor *t = &b->tensor[i];
        text_copy(t->name, sizeof t->name, from->name);
        t->rank = from->rank;
        t->floats = 1;
        for (uint32_t d = 0; d < from->rank; d++) {
            t->shape[d] = from->shape[d];
            t->floats *= from->shape[d];
        }
    }
}

int lib_batch_new(const struct job *job, const struct model_shape *shape, struct lib_batch **out)
{
    struct lib_batch *b = calloc(1, sizeof *b);
    *out = NULL;
    if (b == NULL)
        return SHOAL_E_NOMEM;
    b->batch.size = sizeof b->batch;
    b->batch.tables = (uint32_t)job->table_count;
    b->batch.tensors = job->model.kind == MODEL_EXTERNAL ? job->model.tensors : 0;
    b->batch.fields = shape->fields;
    b->batch.numerics = shape->numerics;
    b->table = calloc(b->batch.tables + 1u, sizeof *b->table);
    b->tensor = calloc(b->batch.tensors + 1u, sizeof *b->tensor);
    b->field = calloc(b->batch.fields + 1u, sizeof *b->field);
    if (b->table == NULL || b->tensor == NULL || b->field == NULL) {
        lib_batch_free(b);
        return SHOAL_E_NOMEM;
    }
    b->batch.table = b->table;
    b->batch.tensor = b->tensor;
    b->batch.field = b->field;
    tables_set(b, job);
    tensors_set(b, job);
    for (uint32_t f = 0; f < shape->fields; f++) {
        text_copy(b->field[f].name, sizeof b->field[f].name, field_name(job, shape->number[f]));
        b->field[f].table = shape->table[f];
        b->field[f].pooling = shape->pooling[f];
    }
    *out = b;
    return 0;
}

void lib_batch_free(struct lib_batch *b)
{
    if (b == NULL)
        return;
    free(b->table);
    free(b->tensor);
    free(b->field);
    free(b);
}

/* The part that both kinds of batches have. */
static void batch_take(struct lib_batch *b, const struct batch *from)
{
    struct shoal_batch *to = &b->batch;
    to->examples = from->examples;
    to->tasks = from->tasks;
    to->values = from->offset == NULL ? from->examples * from->fields : from->values;
    to->index = from->index;
    to->offset = from->offset;
    to->factor = from->factor;
    to->numeric = from->numeric;
    to->label = from->label;
    to->weight = from->weight;
    for (uint32_t t = 0; t < to->tables; t++) {
        b->table[t].base = from->table_first[t];
        b->table[t].count = from->table_first[t + 1] - from->table_first[t];
        b->table[t].keys = from->keys + from->table_first[t];
        b->table[t].rows = NULL;
        b->table[t].gradients = NULL;
    }
}

void lib_batch_of_lane(struct lib_batch *b, const struct outside_batch *from)
{
    size_t at = 0, flat = 0;
    batch_take(b, from->batch);
    b->batch.kind = from->train ? SHOAL_TRAIN : SHOAL_SCORE;
    b->batch.lane = from->lane;
    b->batch.number = from->number;
    b->batch.epoch = from->epoch;
    b->batch.scores = from->out->scores;
    for (uint32_t t = 0; t < b->batch.tables; t++) {
        b->table[t].rows = from->in->rows + at;
        b->table[t].gradients = from->train ? from->out->row_gradients + at : NULL;
        at += (size_t)b->table[t].count * b->table[t].width;
    }
    for (uint32_t i = 0; i < b->batch.tensors; i++) {
        b->tensor[i].values = from->in->dense + flat;
        b->tensor[i].gradients = from->train ? from->out->dense_gradients + flat : NULL;
        /* a tensor begins at a whole block (dense/layer/block.h) */
        flat += (b->tensor[i].floats + BLOCK_FLOATS - 1) / BLOCK_FLOATS * BLOCK_FLOATS;
    }
}

void lib_batch_of_read(struct lib_batch *b, const struct batch *from)
{
    batch_take(b, from);
    b->batch.scores = NULL;
}
