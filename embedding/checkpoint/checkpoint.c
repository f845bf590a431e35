/* checkpoint.c: opens a checkpoint and checks it; checkpoint_read.c reads its rows.
 *
 * 1. All parts belong to one cut, one run and one set of schemas, and each tablet is in exactly one
 *    part: a part of another checkpoint, a missing or a duplicate part is found before any row is
 *    read. [test: parts_that_do_not_belong_together_are_refused]
 *    A tablet is in no part only where the coordinator's manifest, with its own checksum, has a
 *    list of what is missing. [test: tablets_may_be_missing_where_the_manifest_says_so]
 * 2. Folders PATH/part-PPPP.tmp remain from an unfinished export and are ignored.
 *    [test: an_export_is_whole_or_not_there] */
#include "embedding/checkpoint/checkpoint_inner.h"
#include "embedding/engine/cut.h"
#include "embedding/rows/translate.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "proto/job/reading.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_PART UINT16_MAX
_Static_assert(LIMIT_SHARDS < NO_PART, "parts fit 16 bits");

/* ---- opening ---- */

/* Reads the number of parts from the manifest of the lowest part folder. A folder with that number
 * or a higher one is CORRUPT. */
static int count_parts(const struct checkpoint *c, uint32_t *parts, struct err *e)
{
    struct file_walk walk;
    const char *path = c->path, *entry;
    uint32_t lowest = UINT32_MAX, highest = 0, number;
    int end;
    if (!file_walk_open(&walk, path))
        return err_set(e, SHOAL_E_NOT_FOUND, "cannot open the checkpoint %s: %s", path,
                       strerror(errno));
    while ((entry = file_walk_next(&walk)) != NULL) {
        if (sscanf(entry, "part-%u%n", &number, &end) != 1 || entry[end] != '\0')
            continue;
        lowest = MIN(number, lowest);
        highest = MAX(number, highest);
    }
    file_walk_close(&walk);
    if (lowest == UINT32_MAX)
        return err_set(e, SHOAL_E_NOT_FOUND, "%s is no checkpoint: there is no part-0000 in it",
                       path);
    struct part first;
    char dir[LIMIT_PATH];
    part_path(path, lowest, "", dir);
    int rc = part_read(dir, c->signature, &first, e);
    *parts = first.parts;
    if (rc == 0 && highest >= first.parts)
        rc =
            err_set(e, SHOAL_E_CORRUPT, "%s/part-%04u does not belong there: %s is one of %u parts",
                    path, highest, dir, first.parts);
    part_free(&first);
    return rc;
}

/* True when two parts belong to one checkpoint (1). */
static bool agree(const struct part *a, const struct part *b)
{
    const struct cut_facts *f = &a->facts, *g = &b->facts;
    if (a->parts != b->parts || a->tables != b->tables || f->cut != g->cut || f->run != g->run ||
        !table_set_equal(f->tables, g->tables) || f->lanes != g->lanes || f->mode != g->mode)
        return false;
    for (uint32_t i = 0; i < a->tables; i++)
        if (!schema_equal(&a->schema[i], &b->schema[i]))
            return false;
    return true;
}

static int open_part(struct checkpoint *c, uint32_t number, struct err *e)
{
    char dir[LIMIT_PATH];
    struct part *p = &c->part[number];
    SHOAL_ASSERT(number < c->facts.parts && p->files == 0);
    part_path(c->path, number, "", dir);
    int rc = part_read(dir, c->signature, p, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s is missing or has no manifest: the checkpoint has %u parts", dir,
                       c->facts.parts);
    if (rc != 0)
        return rc;
    if (p->part != number || !agree(p, &c->part[0]))
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s does not belong there: it is part %u of %u of cut %" PRIu64
                       ", as run %" PRIu64,
                       dir, p->part, p->parts, p->facts.cut, p->facts.run);
    for (uint32_t i = 0; i < p->files && rc == 0; i++)
        rc = part_check_file(p, i, false, e);
    c->facts.rows += p->facts.rows;
    c->facts.bytes += p->facts.bytes;
    for (uint32_t lane = 0; p->ranges > 0 && lane < p->facts.lanes; lane++)
        if (p->facts.lowest[lane] < c->lowest[lane])
            c->lowest[lane] = p->facts.lowest[lane];
    return rc;
}

static int own_tablets(struct checkpoint *c, uint32_t number, struct err *e)
{
    const struct part *p = &c->part[number];
    SHOAL_ASSERT(number < NO_PART && p->tables == c->facts.tables);
    for (uint32_t i = 0; i < p->ranges; i++) {
        const struct part_range *r = &p->range[i];
        uint32_t at = 0;
        while (at < p->tables && p->schema[at].table != r->table)
            at++;
        SHOAL_ASSERT(at < p->tables && r->first + r->count <= 1u << p->schema[at].tablet_bits);
        for (uint32_t k = r->first; k < r->first + r->count; k++) {
            if (c->owner[at][k] != NO_PART)
                return err_set(e, SHOAL_E_CORRUPT,
                               "tablet %u of table %s is in %s and in part %u as well", k,
                               p->schema[at].name, p->dir, c->owner[at][k]);
            c->owner[at][k] = (uint16_t)number;
        }
    }
    return 0;
}

/* True when the coordinator's manifest says that the checkpoint was made without some shards. */
static bool may_lack(const struct checkpoint *c)
{
    char path[LIMIT_PATH + 16], *text;
    struct json *m = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/" MANIFEST_FILE, c->path);
    if (file_read_whole(path, MANIFEST_BYTES_MAX, &text, &bytes) != 0)
        return false;
    int rc = 0;
    if (c->signature != NULL)
        rc = signature_check_bytes(c->signature, MANIFEST_FILE, text, bytes, NULL);
    if (rc == 0)
        rc = manifest_frame(text, bytes, &m, NULL);
    bool lacks = rc == 0 && json_count(json_get(m, "missing")) > 0;
    json_free(m);
    free(text);
    return lacks;
}

static int all_owned(struct checkpoint *c, struct err *e)
{
    for (uint32_t i = 0; i < c->facts.tables; i++)
        for (uint32_t k = 0; k < 1u << c->part[0].schema[i].tablet_bits; k++) {
            if (c->owner[i][k] != NO_PART)
                continue;
            if (c->facts.missing++ == 0 && !may_lack(c))
                return err_set(e, SHOAL_E_CORRUPT, "tablet %u of table %s is in no part of %s", k,
                               c->part[0].schema[i].name, c->path);
        }
    return 0;
}

static int open_all(struct checkpoint *c, struct err *e)
{
    int rc = count_parts(c, &c->facts.parts, e);
    if (rc == 0 && (c->part = calloc(c->facts.parts, sizeof *c->part)) == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the %u parts of %s", c->facts.parts, c->path);
    memset(c->lowest, 0xff, sizeof c->lowest);
    for (uint32_t i = 0; i < c->facts.parts && rc == 0; i++)
        rc = open_part(c, i, e);
    if (rc != 0)
        return rc;
    const struct part *first = &c->part[0];
    SHOAL_ASSERT(first->tables <= LIMIT_TABLES);
    c->facts.cut = first->facts.cut;
    c->facts.run = first->facts.run;
    c->facts.run_tables = first->facts.tables;
    c->facts.lanes = first->facts.lanes;
    c->facts.mode = first->facts.mode;
    c->facts.tables = first->tables;
    for (uint32_t i = 0; i < first->tables && rc == 0; i++) {
        size_t bytes = sizeof *c->owner[i] << first->schema[i].tablet_bits;
        if ((c->owner[i] = malloc(bytes)) == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the tablets of %s", c->path);
        memset(c->owner[i], 0xff, bytes);
    }
    for (uint32_t i = 0; i < c->facts.parts && rc == 0; i++)
        rc = own_tablets(c, i, e);
    if (rc != 0)
        return rc;

    return all_owned(c, e);
}

int checkpoint_open(const char *path, const char *signers, struct checkpoint **out, struct err *e)
{
    if (strlen(path) + 64 > LIMIT_PATH)
        return err_set(e, SHOAL_E_NOT_FOUND, "the path %.100s... is too long", path);
    struct checkpoint *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to open %s", path);
    text_copy(c->path, sizeof c->path, path);
    int rc = reading_begin(path, &c->reading, e);
    if (rc == SHOAL_E_NOINPUT) /* parts alone; if it has just been deleted, they are missing, too */
        rc = 0;
    if (rc == 0 && signers != NULL && signers[0] != '\0')
        rc = signature_open(path, signers, &c->signature, e);
    if (rc == 0)
        rc = open_all(c, e);
    if (rc != 0)
        checkpoint_close(c);
    else
        *out = c;
    return rc;
}

void checkpoint_close(struct checkpoint *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; c->part != NULL && i < c->facts.parts; i++)
        part_free(&c->part[i]);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        free(c->owner[i]);
    free(c->part);
    signature_free(c->signature);
    reading_end(&c->reading);
    free(c);
}

const struct checkpoint_facts *checkpoint_facts(const struct checkpoint *c)
{
    return &c->facts;
}

const struct table_schema *checkpoint_table(const struct checkpoint *c, uint32_t i)
{
    SHOAL_ASSERT(i < c->facts.tables);
    return &c->part[0].schema[i];
}

/* The widest table, among sparse tables if there are any. */
static uint32_t widest(const struct checkpoint *c)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < c->facts.tables; i++) {
        const struct table_schema *a = checkpoint_table(c, most), *b = checkpoint_table(c, i);
        bool wider = checkpoint_row_bytes(b) > checkpoint_row_bytes(a);
        if (b->dense < a->dense || (b->dense == a->dense && wider))
            most = i;
    }
    return most;
}

struct checkpoint_size checkpoint_table_size(const struct checkpoint *c, uint32_t i)
{
    const struct table_schema *s = checkpoint_table(c, i);
    struct checkpoint_size size = {0, 0};
    for (uint32_t part = 0; part < c->facts.parts; part++) {
        const struct cut_facts *f = &c->part[part].facts;
        if (f->sized) {
            size.rows += f->table_rows[s->table];
            size.bytes += f->table_bytes[s->table];
        } else if (i == widest(c)) {
            size.rows += f->rows;
            size.bytes += f->rows * checkpoint_row_bytes(s);
        }
    }
    return size;
}

uint32_t checkpoint_find(const struct checkpoint *c, const char *name)
{
    for (uint32_t i = 0; i < c->facts.tables; i++)
        if (strcmp(c->part[0].schema[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

uint64_t checkpoint_mark(const struct checkpoint *c, uint32_t lane)
{
    if (lane < c->facts.lanes && c->lowest[lane] != UINT64_MAX)
        return c->lowest[lane];

    return 0;
}

uint32_t checkpoint_missing(const struct checkpoint *c, uint32_t i)
{
    uint32_t missing = 0;
    for (uint32_t k = 0; k < 1u << checkpoint_table(c, i)->tablet_bits; k++)
        missing += c->owner[i][k] == NO_PART;
    return missing;
}

uint32_t checkpoint_part_of(const struct checkpoint *c, uint32_t i, uint32_t tablet)
{
    SHOAL_ASSERT(i < c->facts.tables && tablet >> c->part[0].schema[i].tablet_bits == 0);
    if (c->owner[i][tablet] == NO_PART)
        return UINT32_MAX;
    return c->owner[i][tablet];
}

/* ---- verifying ---- */

struct verify {
    const struct checkpoint *c;
    const struct part *part;
    checkpoint_damage_visit visit;
    void *context;
    int status;     /* status of the first damage */
    struct err err; /* its message */
    /* about the current part, to name a tablet */
    bool looked;
    char table[LIMIT_NAME];
    uint32_t tablet;
};

struct look {
    struct verify *v;
    struct engine *g;
    struct runs *runs;
    uint32_t next; /* the tablet that must come next */
};

static int look_at(void *context, const void *key, size_t key_bytes, const void *value,
                   size_t value_bytes, struct err *e)
{
    struct look *l = context;
    uint32_t number, tablet;
    if (!stored_is_tablet(key, key_bytes, &number, &tablet) || engine_slot(l->g, number) == NULL)
        return SHOAL_E_CORRUPT;
    struct table *t = l->g->table[number].table;
    l->next = tablet;
    int rc = stored_tablet_read(value, value_bytes, t, l->runs, tablet, e);
    table_clear(t, tablet);
    l->next = tablet + 1;
    return rc;
}

/* Finds the first tablet of the part whose image cannot be read: v->table and v->tablet. */
static void find_tablet(struct verify *v)
{
    char path[LIMIT_PATH + 8];
    struct store *store = NULL;
    struct arena *arena = NULL;
    struct runs runs = {0};
    struct look l = {.v = v, .runs = &runs};
    v->looked = true;
    v->table[0] = '\0';
    snprintf(path, sizeof path, "%s/rows", v->part->dir);
    bool ready = store_rocks_open_copy(path, &store, NULL) == 0 && arena_new(&arena) == 0 &&
                 checkpoint_scratch(v->c, arena, &l.g, NULL) == 0;
    for (uint32_t i = 0; ready && i < v->part->ranges && v->table[0] == '\0'; i++) {
        const struct part_range *r = &v->part->range[i];
        struct store_item from, to;
        l.next = r->first;
        stored_tablet_key(r->table, r->first, &from);
        stored_tablet_key(r->table, r->first + r->count, &to);
        if (store_range(store, &from, &to, look_at, &l, NULL) != 0) {
            text_copy(v->table, sizeof v->table, table_schema_of(l.g->table[r->table].table)->name);
            v->tablet = l.next;
        }
    }
    checkpoint_scratch_free(l.g);
    arena_free(arena);
    runs_free(&runs);
    store_close(store);
}

static void damage(struct verify *v, const char *file, bool rows, int status, const struct err *e)
{
    if (v->status == 0) {
        v->status = status;
        v->err = *e;
    }
    if (v->visit == NULL)
        return;
    if (rows && !v->looked)
        find_tablet(v);
    bool named = rows && v->table[0] != '\0';
    v->visit(v->context, &(struct checkpoint_damage){.file = file,
                                                     .text = e->text,
                                                     .table = named ? v->table : NULL,
                                                     .tablet = named ? v->tablet : 0});
}

static int foreign(void *context, const char *path, struct err *e)
{
    struct verify *v = context;
    struct err own;
    err_set(&own, SHOAL_E_CORRUPT,
            "%s does not belong there: the manifest does not name it; take it away", path);
    damage(v, path, false, SHOAL_E_CORRUPT, &own);

    if (v->visit != NULL)
        return 0;

    return err_set(e, SHOAL_E_CORRUPT, "%s", own.text);
}

static void verify_part(struct verify *v, const struct part *part)
{
    struct err own;
    v->part = part;
    v->looked = false;
    int rc = part_foreign(part, foreign, v, &own);
    if (rc != 0 && v->status == 0)
        damage(v, part->dir, false, rc, &own);
    for (uint32_t k = 0; k < part->files && (v->status == 0 || v->visit != NULL); k++) {
        char path[LIMIT_PATH + PART_NAME_BYTES];
        snprintf(path, sizeof path, "%s/%s", part->dir, part->file[k].name);
        rc = part_check_file(part, k, true, &own);
        if (rc != 0)
            damage(v, path, strncmp(part->file[k].name, "rows/", 5) == 0, rc, &own);
    }
}

int checkpoint_verify(struct checkpoint *c, checkpoint_damage_visit visit, void *context,
                      struct err *e)
{
    struct verify v = {.c = c, .visit = visit, .context = context};
    for (uint32_t i = 0; i < c->facts.parts && (v.status == 0 || visit != NULL); i++)
        verify_part(&v, &c->part[i]);

    if (v.status == 0)
        return 0;

    return err_set(e, v.status, "%s", v.err.text);
}

int checkpoint_verify_part(struct checkpoint *c, uint32_t part, struct err *e)
{
    SHOAL_ASSERT(part < c->facts.parts);
    struct verify v = {.c = c};
    verify_part(&v, &c->part[part]);

    if (v.status == 0)
        return 0;

    return err_set(e, v.status, "%s", v.err.text);
}

int checkpoint_files(const struct checkpoint *c,
                     int (*visit)(void *context, const char *name, struct err *e), void *context,
                     struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < c->facts.parts && rc == 0; i++) {
        const struct part *p = &c->part[i];
        char name[SIGNATURE_NAME];
        snprintf(name, sizeof name, "part-%04u/manifest", i);
        rc = visit(context, name, e);
        for (uint32_t k = 0; k < p->files && rc == 0; k++) {
            snprintf(name, sizeof name, "part-%04u/%s", i, p->file[k].name);
            rc = visit(context, name, e);
        }
    }
    return rc;
}

/* ---- translation ---- */

int checkpoint_translation(const struct checkpoint *c, const struct table_schema *to,
                           uint32_t count, struct table_set without, char **notes, struct err *e)
{
    size_t bytes;
    bool used[LIMIT_TABLES] = {false};
    FILE *out = open_memstream(notes, &bytes);
    if (out == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to compare schemas");
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        uint32_t at = checkpoint_find(c, to[i].name);
        if (at == UINT32_MAX) {
            fprintf(out, "table %s: it is not in the checkpoint and begins empty\n", to[i].name);
            continue;
        }
        used[at] = true;
        if (checkpoint_missing(c, at) > 0)
            fprintf(
                out,
                "table %s: %u of %u tablets are not in the checkpoint, which was made without a "
                "server that was away: they begin empty\n",
                to[i].name, checkpoint_missing(c, at), 1u << checkpoint_table(c, at)->tablet_bits);
        if (table_set_has(&without, i))
            fprintf(out, "table %s: its rows are left out (fresh): it begins empty\n", to[i].name);
        else
            rc = translate_check(checkpoint_table(c, at), &to[i], out, e);
    }
    for (uint32_t i = 0; i < c->facts.tables && rc == 0; i++)
        if (!used[i])
            fprintf(out, "table %s: the job has none of this name; its rows are passed over\n",
                    checkpoint_table(c, i)->name);
    bool failed = fclose(out) != 0;
    if (rc == 0 && !failed)
        return 0;
    free(*notes);
    *notes = NULL;

    if (rc != 0)
        return rc;

    return err_set(e, SHOAL_E_NOMEM, "no memory to compare schemas");
}
