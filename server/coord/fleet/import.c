/* import.c: the invariant is in import.h. */
#include "server/coord/fleet/import.h"

#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>

static void key_of(uint32_t number, char out[COORD_KEY_MAX])
{
    (void)snprintf(out, COORD_KEY_MAX, "import/%u", number);
}

/* The stored token; 0: there is none, or a job has begun since. */
static int token_get(struct coord_fleet *f, uint32_t number, uint64_t *token, struct err *e)
{
    char key[COORD_KEY_MAX];
    key_of(number, key);
    *token = 0;
    return coord_store_optional(coord_store_get_fixed(f->store, key, token, sizeof *token, e));
}

static int token_put(struct coord_fleet *f, uint32_t number, uint64_t token, struct err *e)
{
    char key[COORD_KEY_MAX];
    key_of(number, key);
    return coord_put(f, key, &token, sizeof token) ? 0 : coord_store_failed(e);
}

/* Checks that the table is of a space whose rows are all there. */
static int table_check(const struct coord_fleet *f, const struct wire_IMPORT *w, struct err *e)
{
    COORD_EACH_SPACE (f, s)
        if (coord_space_holds(f, s) && table_set_has(&s->numbers, w->number))
            return coord_space_there(f, s, SHOAL_E_NOT_FOUND, e);
    if (!table_set_any(f->cluster.held)) /* the spaces are not known yet */
        return 0;
    return err_set(e, SHOAL_E_NOT_FOUND,
                   "table %s, number %u, is of no space here: it was dropped (shoal tables lists "
                   "those that there are)",
                   w->table, w->number);
}

int coord_import_begin(struct coord_fleet *f, const struct wire_IMPORT *w, struct err *e)
{
    if (w->token == 0)
        return err_set(e, SHOAL_E_MALFORMED, "an import into table %s has no token", w->table);
    int rc = coord_drop_check(f, e);
    if (rc == 0)
        rc = table_check(f, w, e);
    return rc == 0 ? token_put(f, w->number, w->token, e) : rc;
}

int coord_import_done(struct coord_fleet *f, const struct wire_IMPORT *w, struct err *e)
{
    char how[LIMIT_NAME + 96];
    uint64_t token;
    int rc = table_check(f, w, e);
    if (rc == 0)
        rc = token_get(f, w->number, &token, e);
    if (rc != 0)
        return rc;
    if (token == w->token && token != 0) /* 1 */
        return 0;
    if (token == 0)
        (void)snprintf(how, sizeof how,
                       "a job has begun in table %s, or its rows were dropped (shoal drop),",
                       w->table);
    else
        (void)snprintf(how, sizeof how, "another import has begun in table %s", w->table);
    return err_set(e, SHOAL_E_STOPPED,
                   "%s since this import began, so the table may lack some of its rows: import "
                   "them again when it is over",
                   how);
}

int coord_import_break(struct coord_fleet *f, struct table_set tables, struct err *e)
{
    TABLE_SET_EACH (i, &tables) {
        uint64_t token = 0;
        int rc = token_get(f, i, &token, e);
        if (rc == 0 && token != 0)
            rc = token_put(f, i, 0, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}
