/* roll.c: the workers that have computed for a job. */
#include "server/coord/core/roll.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void coord_compute_of(const struct wire_WORKER_JOIN *join, struct coord_compute *out)
{
    memset(out, 0, sizeof *out); /* compared as bytes */
    text_copy(out->backend, sizeof out->backend, join->backend);
    text_copy(out->kernel, sizeof out->kernel, join->kernel);
    text_copy(out->device, sizeof out->device, join->device);
    text_copy(out->why, sizeof out->why, join->why);
}

void coord_compute_set(struct json *to, const struct coord_compute *by)
{
    json_set_string(to, "backend", by->backend);
    json_set_string(to, "kernel", by->kernel);
    json_set_string(to, "device", by->device);
    json_set_string(to, "why", by->why);
}

void coord_roll_close(struct coord_roll *r)
{
    free(r->entry);
    memset(r, 0, sizeof *r);
}

/* Returns room for one more entry, or NULL. */
static struct coord_roll_entry *entry_add(struct coord_roll *r)
{
    SHOAL_ASSERT(r->count <= r->capacity && r->count <= COORD_ROLL_MAX);
    if (r->count == COORD_ROLL_MAX)
        return NULL;
    if (array_room(&r->entry, r->count, &r->capacity, 8) != 0)
        return NULL;
    return &r->entry[r->count++];
}

/* Sets `broken` in all entries of the name. True: it changed in one. */
static bool broken_set(struct coord_roll *r, const char *name, bool broken)
{
    bool was = false;
    for (uint32_t i = 0; i < r->count; i++)
        if (strcmp(r->entry[i].name, name) == 0) {
            was = was || r->entry[i].broken;
            r->entry[i].broken = broken;
        }
    return was;
}

bool coord_roll_broken(struct coord_roll *r, const char *name)
{
    return !broken_set(r, name, true);
}

bool coord_roll_note(struct coord_roll *r, const char *name, const struct coord_compute *by)
{
    bool back = broken_set(r, name, false);
    for (uint32_t i = 0; i < r->count; i++)
        if (strcmp(r->entry[i].name, name) == 0 && memcmp(&r->entry[i].by, by, sizeof *by) == 0) {
            r->entry[i].joined++;
            return back;
        }
    struct coord_roll_entry *e = entry_add(r);
    if (e == NULL)
        return back;
    text_copy(e->name, sizeof e->name, name);
    e->by = *by;
    e->joined = 1;
    e->broken = false;
    return back;
}

struct json *coord_roll_json(const struct coord_roll *r)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < r->count; i++) {
        struct json *item = json_new_object();
        json_set_string(item, "name", r->entry[i].name);
        coord_compute_set(item, &r->entry[i].by);
        json_set_int(item, "joined", r->entry[i].joined);
        json_append(list, item);
    }
    return list;
}
