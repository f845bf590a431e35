/* lib_tensor.c: dense tensors by name. A tensor lies in blocks, which are the rows of a dense table
 * (dense/model.h): "dense" has those that are trained, "dense_stats" the statistics of batch
 * norms. */
#include "proto/base/key.h"
#include "proto/base/text.h"
#include "proto/job/shape.h"
#include "worker/lib/lib_error.h"
#include "worker/lib/lib_fleet.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    enum legend_list list;
    const char *table;
} lists[] = {{LEGEND_TENSORS, "dense"}, {LEGEND_STATISTICS, "dense_stats"}};
#define LISTS (sizeof lists / sizeof *lists)

/* A tensor, and the rows that it consists of. */
struct tensor {
    const struct legend_name *name;
    struct shape shape;
    uint32_t table; /* index among all tables of the space */
    size_t blocks;
};

/* The index of a dense table; f->tables: the space has none of this name. */
static uint32_t table_find(const struct shoal_fleet *f, const char *name)
{
    for (uint32_t i = f->sparse; i < f->tables; i++)
        if (strcmp(f->schema[i].name, name) == 0)
            return i;
    return f->tables;
}

/* The tensor with this index, or where name is not NULL the one of this name. *count: how many
 * were passed. */
static bool tensor_find(const struct shoal_fleet *f, const char *name, uint32_t index,
                        struct tensor *out, uint32_t *count)
{
    *count = 0;
    for (size_t l = 0; l < LISTS && f->have_job; l++) {
        const struct legend *n = &f->job.legend;
        out->table = table_find(f, lists[l].table);
        for (uint32_t i = 0; i < n->count[lists[l].list] && out->table < f->tables; i++) {
            out->name = &n->name[lists[l].list][i];
            if (!out->name->here || !shape_read(out->name->what, &out->shape))
                continue;
            if (name != NULL ? strcmp(name, out->name->name) == 0 : *count == index)
                return true;
            ++*count;
        }
    }
    return false;
}

uint32_t shoal_fleet_tensors(const shoal_fleet *fleet)
{
    struct tensor t;
    uint32_t count;
    (void)tensor_find(fleet, NULL, UINT32_MAX, &t, &count);
    return count;
}

int shoal_fleet_tensor(const shoal_fleet *fleet, uint32_t index, struct shoal_tensor *out,
                       struct shoal_error *e)
{
    struct shoal_tensor told = {.size = out->size};
    struct tensor t;
    uint32_t count;
    if (out->size < sizeof out->size || !tensor_find(fleet, NULL, index, &t, &count))
        return lib_error_set(
            e, SHOAL_ERROR_USAGE,
            "shoal_fleet_tensor: the fleet has %u tensors, so none of index %u (or "
            "out->size is not set)",
            shoal_fleet_tensors(fleet), index);
    text_copy(told.name, sizeof told.name, t.name->name);
    told.rank = t.shape.rank;
    told.floats = t.shape.count;
    if (told.rank > sizeof told.shape / sizeof *told.shape)
        return lib_error_set(e, SHOAL_ERROR_INTERNAL, "tensor %s has %u axes, at most 4 are known",
                             told.name, told.rank);
    for (uint32_t i = 0; i < told.rank; i++)
        told.shape[i] = (uint32_t)t.shape.size[i];
    memcpy(out, &told, sizeof told < out->size ? sizeof told : out->size);
    return lib_error_none(e);
}

/* Finds a tensor, and makes the keys of its blocks and room for them. */
static int blocks_make(const struct shoal_fleet *f, const char *what, const char *name,
                       size_t floats, struct tensor *t, struct lib_fleet_rows *rows, struct err *e)
{
    uint32_t count;
    if (name == NULL)
        return err_set(e, SHOAL_E_USAGE, "%s: no tensor is named", what);
    int rc = lib_fleet_job(f, what, e);
    if (rc != 0)
        return rc;
    if (!tensor_find(f, name, 0, t, &count))
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "%s: the network of the space has no tensor %.95s; it has %u "
                       "(shoal_fleet_tensor tells them)",
                       what, name, count);
    if (floats != t->shape.count)
        return err_set(e, SHOAL_E_USAGE, "%s: tensor %s has %zu floats, %zu are given", what,
                       t->name->name, (size_t)t->shape.count, floats);
    const size_t width = f->schema[t->table].width, blocks = (floats + width - 1) / width;
    uint64_t *keys = malloc(blocks * sizeof *keys);
    float *room = calloc(blocks, width * sizeof *room);
    if (keys == NULL || room == NULL) {
        free(keys);
        free(room);
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for %zu floats", what, floats);
    }
    for (size_t i = 0; i < blocks; i++)
        keys[i] = key_make(t->name->number, i);
    *rows = (struct lib_fleet_rows){
        .table = t->table, .keys = keys, .owned = keys, .count = blocks, .weights = room};
    return 0;
}

static void blocks_free(struct lib_fleet_rows *rows)
{
    free(rows->owned);
    free(rows->weights);
}

int shoal_tensor_read(shoal_fleet *f, const char *name, float *values, size_t floats,
                      struct shoal_error *e)
{
    struct lib_fleet_rows rows = {0};
    struct tensor t;
    struct err own = {0};
    own.code = blocks_make(f, "shoal_tensor_read", name, floats, &t, &rows, &own);
    if (own.code == 0)
        own.code = lib_fleet_fetch(f, "shoal_tensor_read", &rows, &own);
    if (own.code == 0)
        memcpy(values, rows.weights, floats * sizeof *values);
    blocks_free(&rows);
    return lib_error(e, &own);
}

int shoal_tensor_write(shoal_fleet *f, const char *name, const float *values, size_t floats,
                       struct shoal_error *e)
{
    struct lib_fleet_rows rows = {0};
    struct tensor t;
    struct err own = {0};
    own.code = blocks_make(f, "shoal_tensor_write", name, floats, &t, &rows, &own);
    if (own.code == 0) {
        memcpy(rows.weights, values, floats * sizeof *values);
        own.code = lib_fleet_assign(f, "shoal_tensor_write", &rows, 0, NULL, &own);
    }
    blocks_free(&rows);
    return lib_error(e, &own);
}
