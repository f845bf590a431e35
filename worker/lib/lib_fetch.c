/* lib_fetch.c: rows by key come from the shards (worker/train/fetcher.h) into the caller's
 * arrays. */
#include "worker/lib/lib_error.h"
#include "worker/lib/lib_fleet.h"
#include "worker/train/fetcher.h"

static void rows_done(void *context, int status, const struct err *e)
{
    lib_fleet_end(context, status, e != NULL ? e->text : "");
}

int lib_fleet_fetch(struct shoal_fleet *f, const char *what, const struct lib_fleet_rows *rows,
                    struct err *e)
{
    const struct table_schema *s = &f->schema[rows->table];
    const struct fetcher_options o = {.client = f->client,
                                      .schema = s,
                                      .number =
                                          table_set_nth(client_map(f->client)->tables, rows->table),
                                      .keys = rows->keys,
                                      .count = rows->count,
                                      .rows = rows->weights,
                                      .state = rows->state,
                                      .state_floats = lib_fleet_state_floats(s),
                                      .found = rows->found,
                                      .done = rows_done,
                                      .context = f};
    if (rows->count == 0)
        return 0;
    int rc = lib_fleet_check(f, what, e);
    if (rc == 0)
        rc = fetcher_new(&o, &f->fetcher, e);
    if (rc != 0)
        return rc;
    lib_fleet_begin(f);
    fetcher_start(f->fetcher);
    rc = lib_fleet_run(f, what, e);
    fetcher_free(f->fetcher);
    f->fetcher = NULL;
    return rc;
}

int shoal_fetch(shoal_fleet *f, uint32_t table, const uint64_t *keys, size_t count, float *weights,
                float *state, uint8_t *found, struct shoal_error *e)
{
    const struct lib_fleet_rows rows = {.table = table,
                                        .keys = keys,
                                        .count = count,
                                        .weights = weights,
                                        .state = state,
                                        .found = found};
    struct err own = {0};
    if (table >= f->sparse)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_fetch: the fleet has %u tables, so none of index %u", f->sparse,
                             table);
    if (count > UINT32_MAX || (count > 0 && (keys == NULL || weights == NULL)))
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_fetch: keys or weights are missing, or more than 4,294,967,295 "
                             "keys");
    own.code = lib_fleet_fetch(f, "shoal_fetch", &rows, &own);
    return lib_error(e, &own);
}
