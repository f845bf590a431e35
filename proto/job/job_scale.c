/* job_scale.c: the transforms of numbers by column, and the crosses of columns. */
#include "proto/job/job_inner.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 96

/* ---- numbers --------------------------------------------------------------------------------- */

static const char *path_of(size_t i, const char *key, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "data.columns[%zu].%s", i, key);
    return out;
}

static int borders_take(const struct config *c, const char *path, struct scale *s, struct err *e)
{
    struct string_list list = {0};
    int rc = 0;
    if (config_list(c, path, &list) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (list.count == 0 || list.count > SCALE_BORDERS)
        rc = job_refuse(c, path, e, ": %zu borders, 1 to %u are possible", list.count,
                        SCALE_BORDERS);
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        char *end;
        s->border[i] = strtod(list.item[i], &end);
        if (end == list.item[i] || *end != 0)
            rc = job_refuse(c, path, e, ": %s is no number", list.item[i]);
    }
    s->borders = (uint32_t)list.count;
    if (rc == 0 && !scale_borders_fit(s))
        rc = job_refuse(c, path, e,
                        " must be numbers in ascending order, of at most %u bytes together",
                        SCALE_TEXT - 64);
    config_list_free(&list);
    return rc;
}

/* Borders, or quantiles, of transform bucket. */
static int parts_take(const struct config *c, size_t i, struct column *k, struct err *e)
{
    char path[PATH_BYTES], other[PATH_BYTES];
    struct scale *s = &k->scale;
    bool borders = config_has(c, path_of(i, "borders", path)),
         quantiles = config_has(c, path_of(i, "quantiles", other));
    if (!borders && !quantiles)
        return 0;
    const char *said = borders ? path : other;
    if (borders && quantiles)
        return job_refuse(c, path, e, ": quantiles stand there too; keep one");
    if (!k->scaled || s->transform != NUMBER_BUCKET)
        return job_refuse(c, said, e, ": give the column transform: bucket as well");
    if (borders)
        return borders_take(c, path, s, e);
    s->quantiles = (uint32_t)config_int(c, other);
    s->known = false;
    return 0;
}

int job_scale_take(const struct config *c, size_t i, struct column *k, struct err *e)
{
    static const char *const keys[] = {"transform", "borders", "quantiles", "fill", "indicator"};
    char path[PATH_BYTES];
    for (size_t n = 0; n < sizeof keys / sizeof keys[0]; n++)
        if (k->type != COLUMN_NUMBER && config_has(c, path_of(i, keys[n], path)))
            return job_refuse(c, path, e, " is for columns of type number");
    k->scale.known = true;
    k->scaled = config_has(c, path_of(i, "transform", path));
    if (k->scaled)
        k->scale.transform = (enum number_transform)config_enum(c, path);
    if (k->scale.transform == NUMBER_STANDARD)
        k->scale.known = false;
    k->filled = config_has(c, path_of(i, "fill", path));
    if (k->filled)
        k->scale.fill = config_float_or(c, path, 0);
    k->scale.filled = k->filled;
    k->indicator = config_bool(c, path_of(i, "indicator", path));
    return parts_take(c, i, k, e);
}

/* ---- crosses --------------------------------------------------------------------------------- */

static int cross_take(const struct config *c, const char *path, struct job_cross *x, struct err *e)
{
    struct string_list list = {0};
    int rc = 0;
    if (config_list(c, path, &list) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (list.count < 2 || list.count > CROSS_PARTS)
        rc = job_refuse(c, path, e,
                        ": a cross is of 2 or 3 columns, as in [[site, hour]]; it has "
                        "%zu",
                        list.count);
    for (size_t i = 0; i < list.count && rc == 0; i++) {
        if (list.item[i][0] == 0 || strlen(list.item[i]) >= LIMIT_NAME)
            rc = job_refuse(c, path, e, ": a name must have 1 to %u bytes", LIMIT_NAME - 1);
        for (size_t k = 0; k < i && rc == 0; k++)
            if (strcmp(list.item[i], list.item[k]) == 0)
                rc = job_refuse(c, path, e, " names %s twice", list.item[i]);
        if (rc == 0)
            text_copy(x->column[i], LIMIT_NAME, list.item[i]);
    }
    x->columns = (uint32_t)list.count;
    config_list_free(&list);
    return rc;
}

int job_crosses_take(const struct config *c, struct job *j, struct err *e)
{
    char path[PATH_BYTES];
    size_t count = config_count(c, "features.crosses");
    int rc = 0;
    if (count > LIMIT_CROSSES)
        return job_refuse(c, "features.crosses", e, ": %zu crosses, at most %u are possible", count,
                          LIMIT_CROSSES);
    if (count == 0)
        return 0;
    j->features.cross = calloc(count, sizeof *j->features.cross);
    if (j->features.cross == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; i < count && rc == 0; i++) {
        (void)snprintf(path, sizeof path, "features.crosses[%zu]", i);
        rc = cross_take(c, path, &j->features.cross[i], e);
    }
    j->features.cross_count = (uint32_t)count;
    return rc;
}
