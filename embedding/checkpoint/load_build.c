/* load_build.c: the I/O thread's part of a load: from a checkpoint's folder to tables and marks,
 * and from these to the store: images, and the pairs of rows that memory has no room for. Building
 * uses the checkpoint and the copies that engine_load made, never the engine; while images are
 * written nothing else writes to the store. load.c has the order of the steps.
 *
 * 1. All files of the parts that have tablets for this shard are verified before the first row is
 *    read. [assert: load_build_run, build_group] [test: a_load_verifies_the_parts_it_needs] If a
 *    signature is required they are compared with it, and the manifests are read once. RocksDB and
 *    the journal open the files again by name, so a change of the folder between the check and that
 *    is not noticed. [test: a_load_asks_for_a_signature]
 * 2. Tables are matched by name. A tablet is read from the one part that has it, under the schema
 *    with which it was written, and moved or translated (translate.h) into the future table of the
 *    engine. [assert: take_tablets]
 * 3. Marks: a tablet brings its own, split tablets get that of their origin, merged ones the
 *    highest. Tablets of a table that the checkpoint lacks start at the lane's lowest mark in the
 *    whole checkpoint, because the lane's batches continue from there. [assert: take_marks]
 *    [test: another_number_of_tablets, a_table_more_and_a_table_less]
 * 4. The journal is synced first: any later flush of the store may make images of other tables
 *    durable. [assert: load_write_run]
 * 5. The memory for kept rows grows with the tablets written, so that each table keeps its share. A
 *    tablet's pairs are written before its image; after a kill in between, the whole load is
 *    removed (load.c, 3). [assert: leave_room]
 *    [test: killed_in_a_load_it_is_all_there_or_not_at_all] */
#include "embedding/checkpoint/load.h"

#include "embedding/checkpoint/checkpoint_inner.h"
#include "embedding/engine/flush.h"
#include "embedding/rows/arena_inner.h"
#include "embedding/rows/table_cold.h"
#include "embedding/rows/translate.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct build {
    struct load *l;
    struct engine *source; /* has tables with the checkpoint's schemas */
    uint64_t *base[LIMIT_TABLES];
};

/* ---- choosing tables ---- */

static int match(struct build *b, struct err *e)
{
    struct load *l = b->l;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        b->l->from[i] = UINT32_MAX;
        if (!table_set_has(&l->existing, i) ||
            (table_set_any(l->asked) && !table_set_has(&l->asked, i)))
            continue;
        b->l->from[i] = checkpoint_find(b->l->checkpoint, l->schema[i].name);
        bool empty = table_set_has(&l->untouched, i);
        if (!empty && b->l->from[i] != UINT32_MAX)
            return err_set(e, SHOAL_E_EXISTS,
                           "table %s has been trained here already, or was there at a restore; a "
                           "checkpoint goes into tables as they were made: --set fresh=all first "
                           "drops the tables of the job's space for good, and no other ones",
                           l->schema[i].name);
        if (b->l->from[i] != UINT32_MAX)
            table_set_add(&l->filled, i);
        else if (empty)
            table_set_add(&l->added, i);
    }
    SHOAL_ASSERT(!table_set_meet(l->filled, l->added) &&
                 table_set_within(table_set_or(l->filled, l->added), l->existing));

    if (table_set_any(l->filled))
        return 0;

    return err_set(e, SHOAL_E_NO_TABLE,
                   "none of the tables of checkpoint %s is here by name; create them first",
                   l->path);
}

/* True when all rows of a table are left out. */
static bool is_left_out(const struct load *l, uint32_t table)
{
    bool all = true;
    for (uint32_t i = 0; i < LIMIT_FIELDS / 64; i++)
        all &= l->without.of[table][i] == UINT64_MAX;
    return all;
}

static int say(struct build *b, struct err *e)
{
    struct load *l = b->l;
    struct table_schema *to = calloc(LIMIT_TABLES, sizeof *to);
    const struct table_set taken = table_set_or(l->filled, l->added);
    struct table_set without = TABLE_SET_NONE; /* by index in `to` */
    uint32_t count = 0;
    if (to == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to load %s", l->path);
    TABLE_SET_EACH (t, &taken) {
        if (is_left_out(l, t))
            table_set_add(&without, count);
        to[count++] = l->schema[t];
    }
    int rc = checkpoint_translation(b->l->checkpoint, to, count, without, &l->notes, e);
    free(to);
    return rc;
}

static int make(struct build *b, struct err *e)
{
    struct load *l = b->l;
    const struct checkpoint_facts *f = checkpoint_facts(b->l->checkpoint);
    struct run *run;
    const struct table_set taken = table_set_or(l->filled, l->added);
    struct table_set tables = l->added;
    int rc = 0;
    SHOAL_ASSERT(l->runs.count == 0 && table_set_any(l->filled));
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++) {
        if (table_set_has(&taken, i))
            rc = table_new(&l->schema[i], l->arena, &l->made[i], e);
        /* a table still does not count if the run did not push to it */
        if (table_set_has(&l->filled, i) &&
            table_set_has(&f->run_tables, checkpoint_table(b->l->checkpoint, b->l->from[i])->table))
            table_set_add(&tables, i);
    }
    uint32_t lanes = f->lanes, mode = f->mode;
    if (l->lanes > 0) { /* the run pushes to skipped tables, too */
        tables = table_set_or(taken, table_set_and(l->asked, l->existing));
        lanes = l->lanes;
        mode = l->mode;
    }
    if (rc == 0 && runs_add(&l->runs, l->run, tables, lanes, mode, &run) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the marks of run %" PRIu64, l->run);
    return rc;
}

/* ---- one part ---- */

/* True when this tablet of the checkpoint is in the current group. */
static bool in_group(const struct load *l, uint32_t i, const struct table_schema *from,
                     uint32_t tablet)
{
    SHOAL_ASSERT(from->tablet_bits >= l->bits[i] && tablet >> from->tablet_bits == 0);
    uint32_t place = l->first[i] + (tablet >> (from->tablet_bits - l->bits[i]));
    return place >= l->done_to && place < l->group_to;
}

/* Requests the group's tablets in the part that have keys of tablets led here. */
static bool want(struct build *b, uint32_t part)
{
    const struct load *l = b->l;
    bool any = false;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        if (!table_set_has(&l->filled, i))
            continue;
        const struct table_schema *s = checkpoint_table(b->l->checkpoint, b->l->from[i]);
        for (uint32_t k = 0; k < 1u << s->tablet_bits; k++) {
            uint32_t first, count, led = 0;
            translate_tablets(s->tablet_bits, l->schema[i].tablet_bits, k, &first, &count);
            for (uint32_t t = first; t < first + count; t++)
                led += l->led[i][t];
            bool wanted = led > 0 && in_group(l, i, s, k) &&
                          checkpoint_part_of(b->l->checkpoint, b->l->from[i], k) == part;
            b->base[s->table][k] = UINT64_MAX;
            if (wanted)
                b->base[s->table][k] = 0;

            any |= wanted;
        }
    }
    return any;
}

/* Applies the marks of tablet k of the checkpoint's table to the tablets here that get its keys. */
static int take_marks(struct build *b, const struct run *from, uint32_t i, uint32_t k)
{
    const struct table_schema *s = checkpoint_table(b->l->checkpoint, b->l->from[i]),
                              *to = &b->l->schema[i];
    struct marks *marks = b->l->runs.run[0]->marks;
    uint32_t first, count;
    translate_tablets(s->tablet_bits, to->tablet_bits, k, &first, &count);
    SHOAL_ASSERT(count > 0 && first + count <= 1u << to->tablet_bits); /* 3 */
    for (uint32_t t = first; t < first + count; t++)
        for (uint32_t lane = 0; lane < from->lanes; lane++) {
            uint64_t mark = marks_get(from->marks, lane, s->table, k);
            if (mark > marks_get(marks, lane, i, t) &&
                marks_set(marks, lane, i, 1u << to->tablet_bits, t, mark) != 0)
                return SHOAL_E_NOMEM;
        }
    return 0;
}

/* Checksums find rot, not intent: no push can have made such a row (engine/guard.h). */
static int finite_check(const struct table *t, uint32_t tablet, struct err *e)
{
    uint64_t bad;
    if (table_finite(t, tablet, &bad))
        return 0;
    return err_set(e, SHOAL_E_CORRUPT,
                   "table %s, tablet %u: the row of key %u:%012" PRIx64
                   " has a number that is not finite: somebody has made or changed this "
                   "checkpoint by hand; take another one",
                   table_schema_of(t)->name, tablet, (unsigned)(bad >> 48), bad & 0xffffffffffff);
}

static int take_tablets(struct build *b, const struct run *from, uint32_t i, struct err *e)
{
    struct load *l = b->l;
    const struct table_schema *s = checkpoint_table(b->l->checkpoint, b->l->from[i]);
    struct table *source = b->source->table[s->table].table;
    static const uint64_t nothing[LIMIT_FIELDS / 64];
    bool as_it_is = memcmp(l->without.of[i], nothing, sizeof nothing) == 0 &&
                    translate_as_it_is(s, &l->schema[i]);
    int rc = 0;
    SHOAL_ASSERT(schema_equal(table_schema_of(source), s) &&
                 strcmp(s->name, l->schema[i].name) == 0); /* 2 */
    for (uint32_t k = 0; k < 1u << s->tablet_bits && rc == 0; k++) {
        if (b->base[s->table][k] == UINT64_MAX)
            continue;
        if ((rc = finite_check(source, k, e)) != 0)
            return rc;
        if (l->lanes == 0)
            rc = take_marks(b, from, i, k);
        if (as_it_is)
            translate_move(source, l->made[i], k, from == NULL ? 0 : from->id, l->run);
        else if (rc == 0)
            rc = translate_rows(source, k, l->made[i], l->led[i], l->without.of[i]);
        table_clear(source, k);
    }
    if (l->lanes > 0) /* clocks of a new run do not match the saved undo */
        table_undo_drop(l->made[i], l->run);

    if (rc == 0)
        return 0;

    return err_set(e, rc, "no memory for the rows of table %s", l->schema[i].name);
}

static int verify(struct build *b, struct err *e)
{
    int rc = 0;
    for (uint32_t part = 0; rc == 0 && part < checkpoint_facts(b->l->checkpoint)->parts; part++)
        if (want(b, part))
            rc = checkpoint_verify_part(b->l->checkpoint, part, e);
    return rc;
}

static int take_part(struct build *b, uint32_t part, struct err *e)
{
    struct runs runs = {0};
    if (!want(b, part))
        return 0;
    int rc = checkpoint_part_load(b->l->checkpoint, part, true, b->source, b->base, &runs, e);
    const struct run *from = NULL;
    if (rc == 0)
        from = runs_find(&runs, checkpoint_facts(b->l->checkpoint)->run);
    /* otherwise its marks are not needed */
    SHOAL_ASSERT(rc != 0 || from != NULL || b->l->lanes > 0);
    SHOAL_ASSERT(part < checkpoint_facts(b->l->checkpoint)->parts);
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++)
        if (table_set_has(&b->l->filled, i))
            rc = take_tablets(b, from, i, e);
    runs_free(&runs);
    return rc;
}

/* ---- the whole load ---- */

static int mark_added(struct build *b)
{
    struct load *l = b->l;
    SHOAL_ASSERT(l->runs.count == 1 && l->runs.run[0]->id == l->run);
    TABLE_SET_EACH (i, &l->added)
        for (uint32_t k = 0; k < 1u << l->schema[i].tablet_bits; k++)
            for (uint32_t lane = 0; l->led[i][k] && lane < l->runs.run[0]->lanes; lane++)
                if (marks_set(l->runs.run[0]->marks, lane, i, 1u << l->schema[i].tablet_bits, k,
                              checkpoint_mark(b->l->checkpoint, lane)) != 0)
                    return SHOAL_E_NOMEM;
    return 0;
}

/* minimum for a tablet: a page of rows and an index */
#define TABLET_BYTES (8u << 10)

/* Estimates the size of this shard's part of a table, as images and in memory; more if its rows are
 * wider here. In memory a row needs a place in an index, and pages are not all full. */
static void table_need(struct load *l, uint32_t table)
{
    const struct table_schema *from = checkpoint_table(l->checkpoint, l->from[table]),
                              *to = &l->schema[table];
    struct checkpoint_size all = checkpoint_table_size(l->checkpoint, l->from[table]);
    uint64_t led = 0, was = checkpoint_row_bytes(from), is = table_row_bytes(l->made[table]);
    for (uint32_t k = 0; k < 1u << to->tablet_bits; k++)
        led += l->led[table][k];
    double share = is_left_out(l, table) ? 0 : (double)led / (double)(1u << to->tablet_bits),
           bytes = (double)all.bytes * share * (is > was ? (double)is / (double)was : 1);
    l->need += (uint64_t)bytes;
    l->need_memory +=
        (uint64_t)((bytes + 16 * share * (double)all.rows) * 9 / 8) + led * (TABLET_BYTES + is);
}

/* Numbers the places of all tables, and estimates the bytes of their rows. */
static void lay_out(struct load *l)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        l->first[i + 1] = l->first[i];
        if (!table_set_has(&l->filled, i))
            continue;
        const struct table_schema *from = checkpoint_table(l->checkpoint, l->from[i]),
                                  *to = &l->schema[i];
        l->bits[i] = to->tablet_bits;
        if (from->tablet_bits < to->tablet_bits)
            l->bits[i] = from->tablet_bits;

        l->first[i + 1] += 1u << l->bits[i];
        table_need(l, i);
    }
    SHOAL_ASSERT(l->first[LIMIT_TABLES] > 0);
}

/* The first step: opens and verifies the checkpoint. */
static int prepare(struct build *b, struct err *e)
{
    struct load *l = b->l;
    int rc = checkpoint_open(l->path, l->signers, &l->checkpoint, e);
    if (rc == 0 && checkpoint_facts(l->checkpoint)->run == 0 && l->lanes == 0)
        rc = err_set(e, SHOAL_E_NOT_FOUND,
                     "no run was open when checkpoint %s was made: there is nothing to go on from",
                     l->path);
    if (rc == 0)
        rc = match(b, e);
    if (rc == 0)
        rc = say(b, e);
    if (rc == 0 && arena_new(&l->arena) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to load %s", l->path);
    if (rc == 0)
        rc = make(b, e);
    if (rc == 0 && l->lanes == 0 && mark_added(b) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the marks of run %" PRIu64, l->run);
    if (rc == 0)
        lay_out(l);
    return rc;
}

/* ---- in groups ---- */

#define GROUP_SHARE 4u /* share of the rows' memory */

static bool place_led(const struct load *l, uint32_t table, uint32_t place)
{
    bool led = false;
    for (uint32_t k = load_tablets_below(l, table, place);
         k < load_tablets_below(l, table, place + 1); k++)
        led |= l->led[table][k] != 0;
    return led;
}

/* Chooses the end of the next group: the last place if all rows fit; otherwise, within one table,
 * one place to measure, then as many as fit. *led: places with tablets for this shard. */
static void next_group(struct load *l, uint32_t *led)
{
    uint32_t table = 0, end = l->first[LIMIT_TABLES];
    SHOAL_ASSERT(l->done_to <= l->group_to && l->group_to < end);
    l->done_to = l->group_to;
    *led = 0;
    if (l->room == 0 || l->need_memory <= l->room / 16 * 15) {
        l->group_to = end;
        return;
    }
    while (l->first[table + 1] <= l->done_to)
        table++;
    if (l->first[table] == l->done_to)
        l->place_bytes = 0;
    uint64_t most = 1;
    if (l->place_bytes != 0)
        most = l->room / GROUP_SHARE / l->place_bytes + 1;

    for (end = l->first[table + 1]; l->group_to < end; l->group_to++) {
        bool here = place_led(l, table, l->group_to);
        if (here && *led == most)
            return;
        *led += here;
    }
}

static void count_made(struct load *l)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = load_tablets_below(l, i, l->done_to);
             l->made[i] != NULL && k < load_tablets_below(l, i, l->group_to); k++) {
            l->rows += table_tablet_rows(l->made[i], k);
            l->bytes += table_image_bytes(l->made[i], k);
        }
}

static int build_group(struct build *b, struct err *e)
{
    struct load *l = b->l;
    SHOAL_ASSERT(l->verified && !load_all_built(l)); /* 1 */
    uint64_t before = arena_used(l->arena);
    uint32_t led;
    next_group(l, &led);
    SHOAL_ASSERT(l->done_to < l->group_to && l->group_to <= l->first[LIMIT_TABLES]);
    int rc = checkpoint_scratch(l->checkpoint, l->arena, &b->source, e);
    for (uint32_t part = 0; rc == 0 && part < checkpoint_facts(l->checkpoint)->parts; part++)
        rc = take_part(b, part, e);
    checkpoint_scratch_free(b->source);
    if (rc != 0)
        return rc;
    count_made(l);
    uint64_t each = 0;
    if (led != 0)
        each = (arena_used(l->arena) - before) / led;
    if (l->place_bytes < each)
        l->place_bytes = each;

    return 0;
}

void load_build_run(struct offload *w)
{
    struct load_build *out = container_of(w, struct load_build, work);
    struct build b = {.l = out->load};
    bool begins = b.l->checkpoint == NULL;
    int rc = 0;
    if (begins)
        rc = prepare(&b, &out->err);
    if (rc == 0 && checkpoint_base(b.l->checkpoint, b.base) != 0)
        rc = err_set(&out->err, SHOAL_E_NOMEM, "no memory to load %s", b.l->path);
    if (rc == 0 && begins) {
        b.l->group_to = b.l->first[LIMIT_TABLES];
        rc = verify(&b, &out->err);
        b.l->group_to = 0;
        b.l->verified = rc == 0;
    }
    SHOAL_ASSERT(rc != 0 || b.l->verified); /* 1 */
    if (rc == 0)
        rc = build_group(&b, &out->err);
    checkpoint_base_free(b.base);
    out->status = rc;
}

/* ---- to the store ---- */

/* value: (STORED_LOAD_BYTES); the item borrows it. */
static void make_marker(const struct engine *g, bool under_way, struct store_item *item,
                        char *value)
{
    const struct stored_load marker = {.run = load_of(g)->run,
                                       .tables =
                                           table_set_or(load_of(g)->filled, load_of(g)->added),
                                       .under_way = under_way};
    stored_load_write(&marker, value, item);
}

/* The place of a tablet here. */
static uint32_t place_of(const struct load *l, uint32_t table, uint32_t tablet)
{
    if (l->first[table + 1] == l->first[table])
        return l->first[table];

    return l->first[table] + (tablet >> (l->schema[table].tablet_bits - l->bits[table]));
}

/* Makes rows of the tablet cold if more would stay in memory than its share by now; never if all
 * tablets were built at once and fit. */
static int leave_room(struct load *l, struct table *t, uint32_t tablet, struct err *e)
{
    uint64_t places = l->first[LIMIT_TABLES], to = place_of(l, l->table, tablet) + 1ull;
    uint64_t most = l->room / 4 * 3 * to / places, bytes = table_tablet_memory(t, tablet);
    SHOAL_ASSERT(tablet < load_tablets_below(l, l->table, l->group_to)); /* 5 */
    bool whole = load_all_built(l) && l->done_to == 0 && arena_used(l->arena) <= l->room;
    uint64_t each = table_row_bytes(t) + 16, rows = table_tablet_rows(t, tablet);
    uint32_t count = 0;
    int rc = 0;
    if (l->room > 0 && !whole && table_cold_may(t) && rows > 0 && l->kept + bytes > most) {
        uint64_t over = l->kept + bytes - most, go = over / each + 1;
        rc = spill_tablet(&l->spill, t, tablet, true, (uint32_t)MIN(go, rows), &count, e);
    }
    l->kept += table_tablet_memory(t, tablet);
    return rc;
}

static int write_image(struct engine *g, struct table *t, uint64_t *bytes, struct err *e)
{
    struct load *l = load_of(g);
    SHOAL_ASSERT(l->marked && l->led[l->table][l->tablet] != 0); /* load.c, 3 */
    int rc = leave_room(l, t, l->tablet, e);
    if (rc != 0)
        return rc;

    return flush_copy_image(g->store, t, &l->runs, l->tablet, l->sequence, bytes, e);
}

/* Writes the built images from the current position, up to the size of a journal segment (usually
 * 64 MiB), or less if memory is short. */
static int write_images(struct engine *g, struct err *e)
{
    struct load *l = load_of(g);
    uint64_t bytes = 0, most = g->segment_bytes;
    if (l->room > 0)
        most = MIN(most, l->spill.batch);
    int rc = 0;
    for (; l->table < LIMIT_TABLES && rc == 0; l->table++, l->tablet = 0) {
        struct table *t = l->made[l->table];
        uint32_t tablets = 0;
        if (t != NULL)
            tablets = load_tablets_below(l, l->table, l->group_to);
        SHOAL_ASSERT(l->tablet <= tablets); /* only built tablets are written */
        for (; l->tablet < tablets && rc == 0; l->tablet++) {
            if (!l->led[l->table][l->tablet])
                continue;
            if (bytes >= most)
                return 0;
            rc = write_image(g, t, &bytes, e);
        }
        if (l->group_to < l->first[l->table + 1])
            break; /* the rest of the table is not built yet */
    }
    return rc;
}

static int write_seal(struct engine *g, struct err *e)
{
    struct store_item item[2];
    char marker[STORED_LOAD_BYTES];
    SHOAL_ASSERT(load_of(g)->control_bytes > 0 && load_all_built(load_of(g)));
    make_marker(g, false, &item[0], marker);
    stored_control_key(&item[1]);
    item[1].value = load_of(g)->control;
    item[1].value_bytes = load_of(g)->control_bytes;
    return store_write(g->store, item, 2, e);
}

void load_write_run(struct offload *work)
{
    struct load_write *w = container_of(work, struct load_write, work);
    struct store_item item;
    char marker[STORED_LOAD_BYTES];
    SHOAL_ASSERT(w->sync.count > 0); /* 4 */
    /* load.c, 3: the marker was written before the first image */
    SHOAL_ASSERT(!w->seal || !w->marked);
    int rc = flush_sync(w->g, &w->sync, &w->err);
    if (rc == 0 && w->marked) {
        make_marker(w->g, true, &item, marker);
        rc = store_write(w->g->store, &item, 1, &w->err);
    }
    if (rc == 0 && w->seal) {
        rc = write_seal(w->g, &w->err);
        if (rc == 0)
            rc = store_flush(w->g->store, &w->err);
    } else if (rc == 0) {
        rc = write_images(w->g, &w->err);
        if (rc == 0)
            rc = store_flush_begin(w->g->store, &w->err); /* the next batch is built meanwhile */
    }
    w->status = rc;
}
