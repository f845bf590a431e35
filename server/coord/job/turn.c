/* turn.c: another space comes to hand; turn.h. */
#include "server/coord/job/turn.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core/fresh.h"
#include "server/coord/fleet/fleet.h"
#include "server/coord/work/taken.h"

#include <stdlib.h>
#include <string.h>

static const char TAKEN_KEY[] = COORD_TAKEN_REST_KEY, FIELDS_KEY[] = "rest/fresh_fields";

static int put(struct coord_fleet *f, struct coord_space *s, const char *key, const void *value,
               size_t bytes, struct err *e)
{
    if (coord_fleet_store(f, s->store, key, value, bytes, true))
        return 0;
    return coord_store_failed(e);
}

static int taken_away(struct coord_fleet *f, struct coord_space *s, struct err *e)
{
    size_t bytes;
    if (f->taken->version == 0) /* none is known */
        return 0;
    void *record = coord_taken_record_make(&f->taken->is, 0, 0, &bytes);
    if (record == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for what space %s has learnt", s->name);
    int rc = put(f, s, TAKEN_KEY, record, bytes, e);
    free(record);
    return rc;
}

/* Reads the list of a space that comes to hand. */
static int taken_read(const struct coord_space *s, struct coord_taken_list *out, struct err *e)
{
    void *value;
    size_t bytes;
    int rc = coord_store_get(s->store, TAKEN_KEY, &value, &bytes, e);
    if (rc == SHOAL_E_NOT_FOUND)
        out->at.flags = COORD_TAKEN_UNSURE;
    if (rc != 0)
        return coord_store_optional(rc);
    rc = coord_taken_record_take(out, value, bytes, e);
    free(value);
    return rc;
}

int coord_turn(struct coord_fleet *f, struct coord_space *to, struct err *e)
{
    struct coord_space *from = f->spaces.at_hand;
    struct coord_fresh_fields fields = {.number = 0};
    struct coord_taken_list list = {.at = {.job = 0}};
    int rc = 0;
    SHOAL_ASSERT(to->number < LIMIT_SPACES);
    if (from == to)
        return 0;
    if (coord_space_holds(f, from))
        rc = taken_away(f, from, e);
    if (rc == 0 && coord_space_holds(f, from))
        rc = put(f, from, FIELDS_KEY, f->fresh_fields, sizeof *f->fresh_fields, e);
    if (rc == 0 && coord_space_holds(f, to))
        rc = taken_read(to, &list, e);
    if (rc == 0 && coord_space_holds(f, to))
        rc = coord_store_optional(
            coord_store_get_fixed(to->store, FIELDS_KEY, &fields, sizeof fields, e));
    if (rc != 0)
        return rc;
    coord_taken_list_close(&f->taken->is);
    coord_taken_moved(f);
    f->taken->is = list;
    rc = coord_taken_changed(f, e);
    if (rc == 0 && !coord_fresh_fields_put(f, &fields))
        rc = coord_store_failed(e);
    if (rc == 0)
        f->spaces.at_hand = to;
    return rc;
}
