/* export_npy.c: the format npy: a file for each array. */
#include "deploy/cli/export.h"
#include "deploy/cli/export_file.h"

#include <stdio.h>

static int array_open(struct export *x, const struct export_array *a, struct export_file **out,
                      struct err *e)
{
    char name[EXPORT_FILE], file[EXPORT_FILE + 8];
    export_file_name(a->name, name);
    (void)snprintf(file, sizeof file, "%s.npy", name);
    return export_file_open(x->folder, file, NPY_HEAD, out, e);
}

static int array_end(struct export_file *f, const struct export_array *a, struct json *arrays,
                     struct err *e)
{
    char head[NPY_HEAD], name[EXPORT_FILE], file[EXPORT_FILE + 8];
    npy_head(export_type_facts(a->type)->npy, a->shape, a->dims, head);
    export_file_name(a->name, name);
    (void)snprintf(file, sizeof file, "%s.npy", name);
    export_array_note(arrays, a, file);
    return export_file_end(f, head, e);
}

static int npy_begin(struct export_list *l, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < l->layout.columns && rc == 0; i++) {
        struct export_array a = export_column_array(&l->layout, i, 0, UINT32_MAX);
        rc = array_open(l->export, &a, &l->file[i], e);
    }
    return rc;
}

static int npy_row(struct export_list *l, const unsigned char *row, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < l->layout.columns && rc == 0; i++) {
        const struct export_column *c = &l->layout.column[i];
        export_file_add(l->file[i], row + c->at,
                        (size_t)export_values(c) * export_type_facts(c->type)->bytes);
        rc = export_file_check(l->file[i], e);
    }
    l->rows++;
    return rc;
}

static int npy_end(struct export_list *l, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < l->layout.columns && rc == 0; i++) {
        struct export_array a = export_column_array(&l->layout, i, l->rows, UINT32_MAX);
        rc = array_end(l->file[i], &a, l->arrays, e);
        l->file[i] = NULL;
    }
    return rc;
}

static int array_write(struct export_list *l, const struct export_array *a, const void *data,
                       struct err *e)
{
    struct export_file *f;
    int rc = array_open(l->export, a, &f, e);
    if (rc != 0)
        return rc;
    export_file_add(f, data, export_array_bytes(a));
    return array_end(f, a, l->arrays, e);
}

static int npy_tensor(struct export_list *l, const struct export_tensor *t, struct err *e)
{
    return export_tensor_write(l, t, array_write, e);
}

const struct export_format export_npy = {
    .name = "npy",
    .begin = npy_begin,
    .row = npy_row,
    .tensor = npy_tensor,
    .end = npy_end,
};
