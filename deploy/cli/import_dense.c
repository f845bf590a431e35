/* import_dense.c: the network's tensors of an export's folder, as rows of a dense table: a row is a
 * block of `width` elements of a tensor, its key the tensor's number here and the block's.
 *
 * Tensors are matched by name; a tensor that the export lacks stays as it is. The padding behind
 * the last element of a tensor is 0, and its state too: no model reads it. */
#include "deploy/cli/import.h"
#include "deploy/cli/import_files.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/job/legend.h"
#include "proto/job/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dense_tensor {
    struct tensor_in weight, state, blocks; /* (shape), (per_element, shape), (blocks, per block) */
    uint32_t number;
    uint64_t rows;
};

struct dense_source {
    struct import_source source;
    struct import_files files;
    struct dense_tensor *tensor; /* owned; (count) */
    uint32_t count, in;          /* in: the tensor of the next row */
    uint64_t block;              /* its block */
    const struct table_schema *schema;
    uint32_t per_element, per_block; /* floats of state */
};

static struct dense_source *of(const struct import_source *s)
{
    return container_of((struct import_source *)(uintptr_t)s, struct dense_source, source);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int dense_next(struct import_source *s, struct import_key *key, float *row, struct err *e)
{
    struct dense_source *d = of(s);
    const uint32_t width = d->schema->width;
    (void)e;
    while (d->in < d->count && d->block == d->tensor[d->in].rows) {
        d->in++;
        d->block = 0;
    }
    if (d->in == d->count)
        return 0;
    const struct dense_tensor *t = &d->tensor[d->in];
    const uint64_t all = t->weight.tensor.elements, at = d->block * width;
    const uint64_t floats = MIN(all - at, width);
    memset(row, 0, s->floats * sizeof *row);
    tensor_floats(&t->weight.tensor, t->weight.data, at, floats, row);
    row += width;
    for (uint32_t i = 0; (s->parts & ASSIGN_STATE) != 0 && i < d->per_element; i++) {
        tensor_floats(&t->state.tensor, t->state.data, i * all + at, floats, row);
        row += width;
    }
    if ((s->parts & ASSIGN_STATE) != 0 && d->per_block > 0)
        tensor_floats(&t->blocks.tensor, t->blocks.data, d->block * d->per_block, d->per_block,
                      row);
    *key = (struct import_key){.number = key_make(t->number, d->block)};
    d->block++;
    return 1;
}

static void dense_rewind(struct import_source *s)
{
    of(s)->in = 0;
    of(s)->block = 0;
}

static void dense_place(const struct import_source *s, char *out, size_t bytes)
{
    const struct dense_source *d = of(s);
    const struct dense_tensor *t = &d->tensor[d->in < d->count ? d->in : d->count - 1];
    (void)snprintf(out, bytes, "%s %s block %" PRIu64, t->weight.path, t->weight.tensor.name,
                   d->block > 0 ? d->block - 1 : 0);
}

static uint64_t dense_sum(const struct import_source *s)
{
    return import_files_checksum(&of(s)->files);
}

static void dense_close(struct import_source *s)
{
    struct dense_source *d = of(s);
    import_files_close(&d->files);
    free(d->tensor);
    free(d);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* True when the array has the shape that the legend tells: "32x17 input". */
static bool has_shape(const struct tensor *t, const char *what)
{
    struct shape here;
    return shape_read(what, &here) && here.rank == t->rank &&
           memcmp(here.size, t->shape, here.rank * sizeof *here.size) == 0;
}

static const struct legend_name *tensor_named(const struct legend *names, const char *table,
                                              const char *name)
{
    const bool stats = strcmp(table, "dense_stats") == 0;
    const enum legend_list list = stats ? LEGEND_STATISTICS : LEGEND_TENSORS;
    const uint32_t at = legend_find(names, list, name);
    return at == LEGEND_NONE ? NULL : &names->name[list][at];
}

/* An array of state; *found is false where there is none. */
static int state_find(struct dense_source *d, const char *name, const char *part, uint64_t floats,
                      struct tensor_in *out, bool *found, struct err *e)
{
    char full[TENSOR_NAME];
    (void)snprintf(full, sizeof full, "%.200s.%s", name, part);
    int rc = import_files_find(&d->files, full, out, e);
    *found = rc == 0;
    if (rc == 0 && (tensor_whole(out->tensor.type) || out->tensor.elements != floats))
        return err_set(e, SHOAL_E_DATA, "%s: %s has %" PRIu64 " elements, %" PRIu64 " are expected",
                       out->path, full, out->tensor.elements, floats);
    return rc < 0 ? rc : 0;
}

static int tensor_state(struct dense_source *d, struct dense_tensor *t, const char *name,
                        struct err *e)
{
    const uint64_t all = t->weight.tensor.elements;
    bool elements = true, blocks = true;
    int rc = 0;
    if (d->per_element > 0)
        rc = state_find(d, name, "state", all * d->per_element, &t->state, &elements, e);
    if (rc == 0 && d->per_block > 0)
        rc = state_find(d, name, "blocks", t->rows * d->per_block, &t->blocks, &blocks, e);
    if (rc != 0)
        return rc;
    const bool whole = elements && blocks && d->per_element + d->per_block > 0;
    if (d->count > 0 && whole != ((d->source.parts & ASSIGN_STATE) != 0))
        return err_set(e, SHOAL_E_DATA, "%s: some tensors have their state, and others lack it",
                       d->files.what);
    d->source.parts = whole ? ASSIGN_STATE : 0;
    return 0;
}

/* Adds a tensor of export.json. */
static int tensor_add(struct dense_source *d, const struct import_line *l, const char *name,
                      struct err *e)
{
    const size_t prefix = strlen(d->schema->name) + 1;
    const struct legend_name *n = tensor_named(l->names, d->schema->name, name + prefix);
    struct dense_tensor *t = &d->tensor[d->count];
    if (n == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "the export has tensor %s, which the network has not here", name);
    int rc = import_files_find(&d->files, name, &t->weight, e);
    if (rc == 1)
        rc = err_set(e, SHOAL_E_DATA, "%s has no array %s", d->files.what, name);
    if (rc != 0)
        return rc;
    if (tensor_whole(t->weight.tensor.type) || !has_shape(&t->weight.tensor, n->what))
        return err_set(e, SHOAL_E_CONFIG,
                       "tensor %s has another shape in the export than here (%s)", name, n->what);
    t->number = n->number;
    t->rows = (t->weight.tensor.elements + d->schema->width - 1) / d->schema->width;
    rc = tensor_state(d, t, name, e);
    d->count += rc == 0;
    return rc;
}

static int tensors_add(struct dense_source *d, const struct import_line *l, struct err *e)
{
    const struct json *list = json_get(d->files.about, "tensors");
    int rc = 0;
    d->tensor = calloc(json_count(list) + 1, sizeof *d->tensor);
    if (d->tensor == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        const struct json *of_list = json_array_at(list, i);
        const char *name = json_get_string(of_list, "name", "");
        if (strcmp(json_get_string(of_list, "table", ""), d->schema->name) == 0 &&
            strlen(name) > strlen(d->schema->name) + 1)
            rc = tensor_add(d, l, name, e);
    }
    if (rc == 0 && d->count == 0)
        rc = err_set(e, SHOAL_E_NOT_FOUND, "%s has no tensors of table %s", d->files.what,
                     d->schema->name);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_text(const struct json *about)
{
    const char *format = json_get_string(about, "format", "");
    return strcmp(format, "tsv") == 0 || strcmp(format, "csv") == 0;
}

int import_dense_open(struct import_line *l, struct import_source **out, struct err *e)
{
    const uint32_t state = table_assign_floats(l->schema, ASSIGN_STATE) - l->schema->width;
    struct dense_source *d = calloc(1, sizeof *d);
    if (d == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    d->source = (struct import_source){.form = IMPORT_RAW,
                                       .next = dense_next,
                                       .rewind = dense_rewind,
                                       .place = dense_place,
                                       .sum = dense_sum,
                                       .close = dense_close};
    d->schema = l->schema;
    d->per_element = state / l->schema->width;
    d->per_block = state % l->schema->width;
    int rc = 0;
    if (l->path == NULL || l->ids != NULL)
        rc =
            err_set(e, SHOAL_E_USAGE,
                    "table %s has the network's tensors: they come from a folder of `shoal export`",
                    l->schema->name);
    if (rc == 0)
        rc = import_files_open(&d->files, l, e);
    if (rc == 0 && d->files.about == NULL)
        rc = err_set(e, SHOAL_E_USAGE, "%s: name the folder of `shoal export`", l->path);
    if (rc == 0 && is_text(d->files.about))
        rc = err_set(e, SHOAL_E_USAGE,
                     "%s: tensors come back from the formats npy and safetensors, not from text",
                     l->path);
    if (rc == 0)
        rc = tensors_add(d, l, e);
    if (rc != 0) {
        dense_close(&d->source);
        return rc;
    }
    d->source.floats = table_assign_floats(l->schema, d->source.parts);
    d->source.checksum = dense_sum(&d->source);
    (void)snprintf(d->source.names, sizeof d->source.names, "%.90s", l->path);
    *out = &d->source;
    return 0;
}
