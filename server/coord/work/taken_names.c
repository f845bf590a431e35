/* taken_names.c: see taken_names.h. */
#include "server/coord/work/taken_names.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/core.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/taken.h"

#include <stdlib.h>
#include <string.h>

#define STORE_FAILED "the coordinator's store failed"
#define NO_MEMORY "no memory for the names of what the tables have learnt"

_Static_assert(COORD_TAKEN_RECORD_MAX + sizeof(uint64_t) <= COORD_VALUE_MAX, "it is one value");

void coord_taken_list_close(struct coord_taken_list *l)
{
    nameset_close(&l->names);
    positions_close(&l->positions);
    *l = (struct coord_taken_list){.at = {.job = 0}};
}

bool coord_taken_begins(const struct coord_job *j)
{
    return j->taken->at.job != 0 && j->taken->at.job == j->at.number;
}

const struct coord_taken_list *coord_taken_names(const struct coord_job *j)
{
    return coord_taken_begins(j) ? j->taken : &j->space->taken->is;
}

/* ---- records --------------------------------------------------------------------------------- */

void *coord_taken_record_make(const struct coord_taken_list *l, size_t before, size_t *bytes)
{
    struct coord_taken_head head = l->at;
    head.count = l->names.count;
    size_t items = head.count * sizeof l->names.item[0], text;
    char *positions = positions_text(&l->positions, &text), *record = NULL;
    *bytes = before + sizeof head + items + text;
    if (positions != NULL)
        record = malloc(*bytes);
    if (record != NULL) {
        memcpy(record + before, &head, sizeof head);
        if (items > 0)
            memcpy(record + before + sizeof head, l->names.item, items);
        memcpy(record + before + sizeof head + items, positions, text);
    }
    free(positions);
    return record;
}

int coord_taken_copy(struct coord_taken_list *to, const struct coord_taken_list *from)
{
    struct coord_taken_list made = {.at = from->at};
    int rc = nameset_add_all(&made.names, from->names.item, from->names.count);
    if (rc == 0)
        rc = positions_copy(&made.positions, &from->positions);
    if (rc != 0) {
        coord_taken_list_close(&made);
        return SHOAL_E_NOMEM;
    }
    coord_taken_list_close(to);
    *to = made;
    return 0;
}

void coord_taken_list_undo(struct coord_taken_list *l)
{
    nameset_drop_last(&l->names, l->at.hand);
    positions_undo(&l->positions);
    l->at.hand = 0;
    l->at.flags &= ~(uint32_t)COORD_TAKEN_BEGUN;
}

int coord_taken_record_take(struct coord_taken_list *l, const void *bytes, size_t count,
                            struct err *e)
{
    struct coord_taken_list made = {.at = {.job = 0}};
    const uint32_t flags = COORD_TAKEN_BEGUN | COORD_TAKEN_UNSURE | COORD_TAKEN_NAMED;
    if (count >= sizeof made.at)
        memcpy(&made.at, bytes, sizeof made.at);
    size_t items = made.at.count * sizeof(struct nameset_item);
    if (count < sizeof made.at || made.at.count > NAMESET_MAX || made.at.hand > made.at.count ||
        made.at.flags > flags || count - sizeof made.at < items)
        return err_set(e, SHOAL_E_CORRUPT, "names of learnt objects in %zu bytes cannot be", count);
    const char *names = (const char *)bytes + sizeof made.at;
    int rc = nameset_add_all(&made.names, names, made.at.count);
    if (rc == 0)
        rc = positions_take(&made.positions, names + items, count - sizeof made.at - items);
    if (rc == 0 && made.names.count != made.at.count)
        rc = err_set(e, SHOAL_E_CORRUPT, "a learnt object is named twice");
    else if (rc != 0 && rc != SHOAL_E_NOMEM)
        rc = err_set(e, SHOAL_E_CORRUPT, "the positions of streams in %zu bytes cannot be",
                     count - sizeof made.at - items);
    else if (rc != 0)
        rc = err_set(e, rc, NO_MEMORY);
    if (rc != 0) {
        coord_taken_list_close(&made);
        return rc;
    }
    coord_taken_list_close(l);
    *l = made;
    return 0;
}

void *coord_taken_record(const struct coord_job *j, size_t *bytes)
{
    const struct coord_taken_list *is = &j->space->taken->is;
    struct coord_taken_list l = {.at = {.job = 0}};
    if (j->space->taken->version == 0)
        return NULL;
    if (is->at.job != j->at.number || is->at.round <= j->at.epoch)
        return coord_taken_record_make(is, 0, bytes);
    /* the checkpoint leaves out a round that has not begun */
    void *record = NULL;
    if (coord_taken_copy(&l, is) == 0) {
        coord_taken_list_undo(&l);
        l.at.round = j->at.epoch;
        record = coord_taken_record_make(&l, 0, bytes);
    }
    coord_taken_list_close(&l);
    return record;
}

/* ---- the store ------------------------------------------------------------------------------- */

bool coord_taken_put(struct coord_fleet *f, struct coord_space *s, uint64_t version, struct err *e)
{
    size_t bytes;
    char *record = coord_taken_record_make(&s->taken->is, sizeof version, &bytes);
    if (record == NULL) {
        err_set(e, SHOAL_E_NOMEM, NO_MEMORY);
        return false;
    }
    memcpy(record, &version, sizeof version);
    bool good = coord_fleet_store(f, s->store, COORD_TAKEN_KEY, record, bytes, true);
    free(record);
    if (!good) {
        err_set(e, SHOAL_E_IO, STORE_FAILED);
        return false;
    }
    s->taken->version = version;
    f->taken->version = MAX(f->taken->version, version);
    return true;
}

int coord_taken_changed(struct coord_fleet *f, struct coord_space *s, struct err *e)
{
    uint64_t known = MAX(f->taken->newest, f->taken->version);
    if (!coord_taken_put(f, s, known + 1, e))
        return e->code;
    return 0;
}

void coord_taken_moved(struct coord_taken *t)
{
    free(t->gone);
    t->gone = NULL;
    t->gone_count = 0;
    t->counted = false;
}

static struct nameset_item item_of(const char *line)
{
    return nameset_item(line, strcspn(line, "\t"));
}

bool coord_taken_range(const struct coord_job *j, const char *line, struct position *out)
{
    return j->spec.data.kafka.on && position_of(line, out);
}

/* Adds an object's name, or moves the position of its stream. */
static int object_add(const struct coord_job *j, struct coord_taken_list *l, const char *line)
{
    struct position range;
    if (!coord_taken_range(j, line, &range))
        return nameset_add(&l->names, item_of(line));
    return positions_move(&l->positions, &range) ? 0 : SHOAL_E_CORRUPT;
}

/* Makes room by forgetting the names that the log's last list no longer had. */
static void room_make(struct coord_taken *t, struct nameset *names, uint32_t more)
{
    uint32_t free_places = NAMESET_MAX - names->count;
    if (more <= free_places)
        return;
    uint32_t gone = nameset_drop(names, t->gone, t->gone_count, more - free_places);
    log_info("%u learnt objects that are not listed any more are forgotten", gone);
    coord_taken_moved(t);
}

/* The count of objects at hand that are no ranges. */
static uint32_t named_count(const struct coord_job *j)
{
    const struct coord_objects *o = &j->objects[WIRE_TRAIN];
    struct position range;
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->count; i++)
        count += !coord_taken_range(j, o->object[i].line, &range);
    return count;
}

int coord_taken_objects_add(struct coord_job *j, struct coord_taken_list *l, struct err *e)
{
    const struct coord_objects *o = &j->objects[WIRE_TRAIN];
    int rc = 0;
    room_make(j->space->taken, &l->names, named_count(j));
    positions_settle(&l->positions);
    uint32_t before = l->names.count;
    for (uint32_t i = 0; rc == 0 && i < o->count; i++)
        rc = object_add(j, l, o->object[i].line);
    if (rc == SHOAL_E_CORRUPT) {
        nameset_drop_last(&l->names, l->names.count - before);
        positions_undo(&l->positions);
        return err_set(e, rc,
                       "a range of messages does not begin where its stream was learnt up to");
    }
    l->at.hand = l->names.count - before;
    if (rc == SHOAL_E_TOO_BIG && !coord_grow_on(j)) {
        l->at.flags |= COORD_TAKEN_UNSURE; /* a log that grows later begins with its own list */
        return 0;
    }
    if (rc != 0)
        return err_set(e, rc, "no room for the names of %u objects more", o->count);
    return 0;
}

int coord_taken_empty(struct coord_job *j, struct err *e)
{
    int rc = coord_taken_objects_add(j, &j->space->taken->is, e);
    j->space->taken->is.at.hand = 0;
    if (rc != 0)
        return rc;
    return coord_taken_changed(j->fleet, j->space, e);
}

bool coord_taken_has(const struct coord_job *j, const char *line)
{
    return nameset_has(&coord_taken_names(j)->names, item_of(line));
}

uint32_t coord_taken_count(const struct coord_job *j)
{
    return coord_taken_names(j)->names.count;
}

uint32_t coord_taken_room(const struct coord_job *j)
{
    const struct coord_taken *t = j->space->taken;
    uint32_t room = NAMESET_MAX - coord_taken_names(j)->names.count;
    for (uint32_t i = 0; i < t->gone_count; i++)
        room += t->gone[i / 8] >> (i % 8) & 1;
    return room;
}

void coord_taken_gone(struct coord_job *j, const void *bits, size_t bytes)
{
    struct coord_taken *t = j->space->taken;
    uint32_t count = coord_taken_names(j)->names.count;
    bool counted = t->counted;
    coord_taken_moved(t);
    t->counted = counted;
    if (!counted || bytes == 0 || bytes > (count + 7u) / 8 || (t->gone = malloc(bytes)) == NULL)
        return;
    memcpy(t->gone, bits, bytes);
    t->gone_count = (uint32_t)MIN(8 * bytes, count);
}
