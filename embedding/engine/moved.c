/* moved.c: checks and applies the records of moved tablets.
 *
 * 1. An image comes from another process: no count, number or row of it is used before it was
 *    checked, and a record is written only of a checked image. [test: a_damaged_image_is_refused]
 * 2. A tablet that came or went begins a new epoch (cold.h): pairs of before never count as its
 *    own, and go once its new image is written. [test: old_rows_of_the_store_stay_away]
 * 3. The effect depends on the record alone, not on what the tablet had: a replay, which may
 *    meet an older image of it, ends in the same state. [test: test_move_random, test_power] */
#include "embedding/engine/moved.h"

#include "embedding/rows/image.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"

#include <inttypes.h>
#include <string.h>

/* ---- the format ---- */

static uint64_t checksum_of(const struct record_tablet_in *h, const void *column)
{
    size_t from = offsetof(struct record_tablet_in, version);
    return hash_bytes(column, h->column_bytes,
                      hash_bytes((const char *)h + from, sizeof *h - from, h->magic));
}

void moved_seal(struct record_tablet_in *h)
{
    h->magic = RECORD_TABLET_MAGIC;
    h->version = RECORD_TABLET_VERSION;
    h->checksum = checksum_of(h, h + 1);
}

/* Reads and checks the head and the column's bytes; nothing else. */
static int head_read(const void *image, size_t bytes, struct record_tablet_in *h, struct err *e)
{
    bool good = bytes >= sizeof *h;
    if (good)
        memcpy(h, image, sizeof *h);
    good = good && h->magic == RECORD_TABLET_MAGIC;
    if (good && h->version != RECORD_TABLET_VERSION)
        return err_set(e, SHOAL_E_VERSION,
                       "the image of a moved tablet has version %u, this Shoal reads %u: install "
                       "the same release on all servers",
                       h->version, RECORD_TABLET_VERSION);
    if (!good || h->column_bytes > bytes - sizeof *h)
        return err_set(e, SHOAL_E_CORRUPT, "%zu bytes are no image of a moved tablet", bytes);
    if (h->checksum != checksum_of(h, (const char *)image + sizeof *h))
        return err_set(e, SHOAL_E_CHECKSUM,
                       "the image of a moved tablet is damaged: its checksum does not match");
    return 0;
}

static const void *column_of(const void *image)
{
    return (const char *)image + sizeof(struct record_tablet_in);
}

static const void *rows_of(const void *image, const struct record_tablet_in *h)
{
    return (const char *)image + sizeof *h + h->column_bytes;
}

static size_t rows_bytes(size_t bytes, const struct record_tablet_in *h)
{
    return bytes - sizeof *h - h->column_bytes;
}

/* ---- checks ---- */

static const struct engine_table *table_at(const struct engine *g, uint32_t table, uint32_t tablet)
{
    if (table >= LIMIT_TABLES || g->table[table].table == NULL ||
        tablet >= g->table[table].scope.tablets)
        return NULL;
    return &g->table[table];
}

int moved_check(const struct engine *g, const void *image, size_t bytes, struct record_tablet_in *h,
                struct err *e)
{
    struct table_image_found found = {0};
    uint64_t run = 0;
    int rc = head_read(image, bytes, h, e);
    if (rc != 0)
        return rc;
    const struct engine_table *t = table_at(g, h->table, h->tablet);
    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no tablet %u of table %u here", h->tablet,
                       h->table);
    const struct table_schema *s = table_schema_of(t->table);
    rc = runs_column_check(&g->runs, column_of(image), h->column_bytes, &run);
    if (rc == SHOAL_E_AGAIN)
        return err_set(
            e, rc, "tablet %u of table %s has marks of run %" PRIu64 ", which is not open here yet",
            h->tablet, s->name, run);
    if (rc != 0)
        return err_set(e, rc, "the marks of tablet %u of table %s are malformed", h->tablet,
                       s->name);
    rc = table_image_check(t->table, h->tablet, rows_of(image, h), rows_bytes(bytes, h), &found, e);
    if (rc == 0 && found.rows != h->rows)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "the image of tablet %u of table %s has %" PRIu64 " rows, its head says "
                     "%" PRIu64,
                     h->tablet, s->name, found.rows, h->rows);
    return rc;
}

static const struct record_tablet *list_of(const struct record_tablet_out *out)
{
    return (const struct record_tablet *)(const void *)(out + 1);
}

/* The same for a record that does nothing to some tables. */
static int check_out(const struct engine *g, const struct record_tablet_out *out, size_t bytes,
                     const struct table_set *spared, struct err *e)
{
    bool good = bytes == sizeof *out + (uint64_t)out->count * sizeof(struct record_tablet);
    for (uint32_t i = 0; good && i < out->count; i++)
        good = table_set_has(spared, list_of(out)[i].table) ||
               table_at(g, list_of(out)[i].table, list_of(out)[i].tablet) != NULL;
    if (good)
        return 0;
    return err_set(e, SHOAL_E_CORRUPT, "a list of %u moved tablets fits no table here", out->count);
}

int moved_check_out(const struct engine *g, const struct record_tablet_out *out, size_t bytes,
                    struct err *e)
{
    return check_out(g, out, bytes, &TABLE_SET_NONE, e);
}

/* ---- effects ---- */

/* Prepares a tablet for its new contents. *acts: the record is news to it. */
static int begin(struct apply *a, const struct record_header *h, uint32_t table, uint32_t tablet,
                 bool *acts, struct err *e)
{
    struct engine_table *t = &a->g->table[table];
    int rc = 0;
    *acts = false;
    if (!a->live && h->sequence <= a->floor)
        return 0;
    if (a->ops->tablets != NULL)
        rc = a->ops->tablets(a, table, tablet, 1, e);
    if (rc != 0 || (!a->live && a->base[table][tablet] >= h->sequence))
        return rc;
    if (!a->of_cut && (!a->live || a->g->journal != NULL))
        engine_touch(t, tablet, 1, NULL, h->sequence);
    *acts = true;
    return 0;
}

static int detach(struct apply *a, struct table *t, uint32_t tablet, uint32_t epoch) /* 2 */
{
    if (a->g->store != NULL)
        return table_cold_begin(t, tablet, epoch + 1);
    table_cold_forget(t, tablet);
    return 0;
}

/* The record may be one of a follower, whose map is the new one or still the former one. */
static void recount(struct apply *a, uint32_t table, uint32_t tablet)
{
    const struct mark_scope *s = &a->g->table[table].scope;
    for (uint32_t i = 0; a->live && s->led[tablet] && i < a->runs->count; i++)
        run_refresh(a->runs->run[i], table, s);
}

static int no_memory(const struct record_header *h, struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory to apply record %" PRIu64, h->sequence);
}

static bool is_known(const struct apply *a, uint32_t table, uint32_t tablet)
{
    return table_at(a->g, table, tablet) != NULL && (a->live || a->base[table] != NULL);
}

/* A record that every stored tablet includes may have been blanked (archive.c): its rows are not
 * looked at. */
int moved_in(struct apply *a, const struct record_header *h, const void *payload, struct err *e)
{
    struct record_tablet_in in;
    bool acts;
    uint64_t run;
    memcpy(&in, payload, sizeof in); /* apply_fits */
    if (!is_known(a, in.table, in.tablet))
        return err_set(e, SHOAL_E_CORRUPT,
                       "record %" PRIu64 " is a moved tablet that fits no table", h->sequence);
    int rc = begin(a, h, in.table, in.tablet, &acts, e);
    if (rc != 0 || !acts)
        return rc;
    rc = head_read(payload, h->payload_bytes, &in, e);
    if (rc == 0 &&
        runs_column_check(a->runs, column_of(payload), in.column_bytes, &run) == SHOAL_E_CORRUPT)
        rc = err_set(e, SHOAL_E_CORRUPT,
                     "record %" PRIu64 " is a moved tablet whose marks fit no run", h->sequence);
    if (rc != 0)
        return rc;
    const struct engine_table *t = &a->g->table[in.table];
    uint32_t epoch = table_cold_epoch(t->table, in.tablet);
    rc = table_image_read(t->table, in.tablet, rows_of(payload, &in),
                          rows_bytes(h->payload_bytes, &in), e);
    if (rc != 0)
        return rc;
    if (detach(a, t->table, in.tablet, epoch) != 0 ||
        runs_column_take(a->runs, in.table, t->scope.tablets, in.tablet, column_of(payload),
                         in.column_bytes) != 0)
        return no_memory(h, e);
    recount(a, in.table, in.tablet);
    if (a->ops->room == NULL)
        return 0;
    return a->ops->room(a, h->sequence, e);
}

static int drop_one(struct apply *a, const struct record_header *h, const struct record_tablet *at,
                    struct err *e)
{
    struct table *t = a->g->table[at->table].table;
    bool acts;
    int rc = begin(a, h, at->table, at->tablet, &acts, e);
    if (rc != 0 || !acts)
        return rc;
    uint32_t epoch = table_cold_epoch(t, at->tablet);
    table_clear(t, at->tablet);
    if (detach(a, t, at->tablet, epoch) != 0 ||
        runs_column_take(a->runs, at->table, a->g->table[at->table].scope.tablets, at->tablet, NULL,
                         0) != 0)
        return no_memory(h, e);
    recount(a, at->table, at->tablet);
    return 0;
}

int moved_out(struct apply *a, const struct record_header *h, const void *payload, struct err *e)
{
    const struct record_tablet_out *out = payload;
    const struct table_set spared = apply_spared(a, h); /* apply.h, 3 */
    int rc = check_out(a->g, out, h->payload_bytes, &spared, e);
    for (uint32_t i = 0; rc == 0 && i < out->count; i++)
        if (!table_set_has(&spared, list_of(out)[i].table) &&
            !is_known(a, list_of(out)[i].table, list_of(out)[i].tablet))
            rc = err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " drops tablets of no table",
                         h->sequence);
    for (uint32_t i = 0; rc == 0 && i < out->count; i++)
        if (!table_set_has(&spared, list_of(out)[i].table))
            rc = drop_one(a, h, &list_of(out)[i], e);
    return rc;
}
