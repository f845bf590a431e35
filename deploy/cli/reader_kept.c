/* reader_kept.c: tables that no daemon has: engines of this process on the folders of an ended run,
 * and the files of a checkpoint. */
#include "deploy/cli/checkpoint.h"
#include "deploy/cli/hold.h"
#include "deploy/cli/reader_inner.h"
#include "deploy/cli/run.h"
#include "embedding/row_json.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/key.h"
#include "proto/base/lockfile.h"
#include "proto/base/text.h"
#include "proto/job/catalog.h"
#include "proto/job/legend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is missing ------------------------------------------------------------------------- */

/* The newest map that a shard of the run keeps; shards: 0: there is none. */
static struct engine_place newest_place(const struct reader *r)
{
    struct engine_place newest = {.shards = 0};
    for (uint32_t i = 0; i < r->engines; i++) {
        const struct engine_place *p = engine_place(r->engine[i]);
        if (p->map_epoch > newest.map_epoch)
            newest = *p;
    }
    return newest;
}

static bool shard_there(const struct reader *r, uint32_t number)
{
    for (uint32_t i = 0; i < r->engines; i++)
        if (engine_place(r->engine[i])->number == number)
            return true;
    return false;
}

/* Notes the shards of the map whose folders are not there, and their tablets. */
static void run_lacks(struct reader *r)
{
    struct engine_place map = newest_place(r);
    const char *before = "no server-*/shard-* folder has the rows of shard ";
    bool any[LIMIT_SHARDS] = {false};
    size_t used = 0;
    for (uint32_t i = 0; i < r->tables; i++) {
        const struct table_schema *s = r->schema[i];
        for (uint32_t t = s->tablet_first; t < s->tablet_first + (1u << s->tablet_bits); t++) {
            if (t >= map.tablets || map.shard_of[t] >= LIMIT_SHARDS ||
                shard_there(r, map.shard_of[t]))
                continue;
            r->lost[i]++;
            any[map.shard_of[t]] = true;
        }
    }
    for (uint32_t n = 0; n < LIMIT_SHARDS && used < sizeof r->lacks; n++)
        if (any[n]) {
            used += (size_t)snprintf(r->lacks + used, sizeof r->lacks - used, "%s%u", before, n);
            before = ", ";
        }
}

/* ---- the space ------------------------------------------------------------------------------- */

/* The newest list of spaces that a shard keeps; NULL: there is none. */
static const struct engine_names *names_newest(const struct reader *r)
{
    const struct engine_names *newest = NULL;
    for (uint32_t i = 0; i < r->engines; i++) {
        const struct engine_names *n = engine_names(r->engine[i]);
        if (n->version > 0 && (newest == NULL || n->version > newest->version))
            newest = n;
    }
    return newest;
}

/* The space of a list that a name stands for; "": the first one with tables. A list of one line has
 * no name. NULL: there is none. */
static const struct catalog_space *space_find(const struct catalog *c, const char *name)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->alone || name[0] == 0 || strcmp(c->space[i].name, name) == 0)
            return &c->space[i];
    return NULL;
}

/* Writes the names of all spaces, with commas, as far as there is room. */
static void spaces_name(const struct catalog *c, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (at + LIMIT_NAME + 3 < room)
            at += (size_t)snprintf(out + at, room - at, "%s%s", text_if(i > 0, ", "),
                                   c->space[i].name);
}

/* Takes the tables of the space that the line names, or of the only one that there is. */
static int space_take(struct reader *r, struct err *e)
{
    const struct engine_names *newest = names_newest(r);
    struct catalog spaces;
    char names[ERR_TEXT_MAX / 2];
    r->numbers = TABLE_SET_ALL;
    if (newest == NULL)
        return 0;
    int rc = catalog_read(newest->line, newest->bytes, &spaces, e);
    if (rc != 0)
        return rc;
    spaces_name(&spaces, names, sizeof names);
    const struct catalog_space *s = space_find(&spaces, r->space);
    if (spaces.count > 1 && r->space[0] == 0)
        return err_set(e, SHOAL_E_USAGE,
                       "--space is missing: the folder has the tables of %u spaces (%s): say of "
                       "which one",
                       spaces.count, names);
    if (s == NULL && spaces.count > 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "the folder has no space %s, but %s", r->space, names);
    if (s == NULL || spaces.alone)
        return 0;
    if (s->state != CATALOG_THERE)
        return err_set(e, SHOAL_E_NOT_FOUND, "rows of space %s are missing: %s", s->name,
                       s->state == CATALOG_LOST ? "a server has lost them with its memory"
                                                : "it is half dropped (shoal drop)");
    text_copy(r->space, sizeof r->space, s->name);
    r->numbers = s->tables;
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Locks the folder of a server of the run. A server that is ending is waited for; one that starts
 * meanwhile waits for this process. */
static int server_hold(const char *run, uint32_t server, struct err *e)
{
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%.900s/server-%u", run, server);
    return hold_take(path, LOCKFILE_WAIT_MS, NULL, e);
}

static int shard_open(struct reader *r, struct err *e)
{
    const char *folder = r->folder[r->engines];
    struct engine_options options = {.dir = folder, .durability = DURABLE_JOURNAL};
    if (run_has(folder, "archive"))
        options.journal_keep = UINT64_MAX; /* nothing in the archive is dropped */
    int rc = engine_open(&options, net_env(r->net), &r->engine[r->engines], e);
    r->engines += rc == 0;
    return rc;
}

int reader_run_open(struct reader *r, const char *run, struct err *e)
{
    struct net_options none = {0};
    uint32_t held = UINT32_MAX;
    /* An engine on a folder without rows would create some, and then a server with rows in memory
     * would no longer start. */
    int rc = run_take(run, HOLD_WAIT_MS, e);
    if (rc == 0)
        rc = net_new(&none, &r->net, e);
    if (rc != 0)
        return rc;
    (void)snprintf(r->job, sizeof r->job, "%s/job.yaml", run);
    r->folder = calloc(RUN_SHARDS, sizeof *r->folder);
    if (r->folder == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");

    for (uint32_t n = 0; n < RUN_SHARDS && rc == 0; n++) {
        if (!run_shard(run, n, r->folder[r->engines]))
            continue;
        if (held != n / LIMIT_LOCAL_SHARDS) {
            held = n / LIMIT_LOCAL_SHARDS;
            rc = server_hold(run, held, e);
        }
        if (rc == 0)
            rc = shard_open(r, e);
    }
    if (rc == 0)
        rc = space_take(r, e);
    for (uint32_t t = 0; t < LIMIT_TABLES && rc == 0; t++) {
        const struct table *table = engine_table(r->engine[0], t);
        if (table != NULL && table_set_has(&r->numbers, t))
            rc = reader_schema_add(r, table_schema_of(table), e);
    }
    if (rc == 0)
        run_lacks(r);
    return rc;
}

/* A checkpoint is of one space, which older releases did not name. */
static int space_check(const struct json *m, const char *space, const char *folder, struct err *e)
{
    const struct json *first = json_array_at(json_get(m, "tables"), 0);
    const char *is = json_get_string(first, "space", "");
    if (space[0] == 0 || is[0] == 0 || strcmp(is, space) == 0)
        return 0;
    return err_set(e, SHOAL_E_NOT_FOUND, "%s is of space %s: take --space %s away", folder, is,
                   space);
}

int reader_checkpoint_check(const char *folder, const char *space, struct err *e)
{
    struct json *m = NULL;
    int rc = checkpoint_manifest(folder, &m, e);
    if (rc == 0)
        rc = space_check(m, space, folder, e);
    json_free(m);
    return rc;
}

int reader_checkpoint_open(struct reader *r, const char *folder, struct err *e)
{
    struct json *m = NULL;
    int rc = checkpoint_manifest(folder, &m, e);
    (void)manifest_lacks(m, r->lacks, sizeof r->lacks);
    if (rc == 0)
        rc = space_check(m, r->space, folder, e);
    json_free(m);
    if (rc == 0)
        rc = checkpoint_open(folder, NULL, &r->checkpoint, e);
    (void)snprintf(r->job, sizeof r->job, "%s/" MANIFEST_JOB_FILE, folder);
    for (uint32_t i = 0; rc == 0 && i < checkpoint_facts(r->checkpoint)->tables; i++) {
        r->lost[i] = checkpoint_missing(r->checkpoint, i);
        rc = reader_schema_add(r, checkpoint_table(r->checkpoint, i), e);
    }
    return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Uses tablets [first, first + count) of one shard. */
static int shard_tablets(struct reader *r, uint32_t i, uint32_t table, uint32_t first,
                         uint32_t count, reader_use use, void *context, struct err *e)
{
    r->own = engine_table(r->engine[i], table);
    if (r->own == NULL)
        return 0;
    for (uint32_t k = first; k < first + count; k++) {
        const struct table *whole = engine_whole(r->engine[i], table, k, e);
        if (whole == NULL)
            return err_wrap(e, e->code, "%s", r->folder[i]);
        int rc = 0;
        if (table_tablet_rows(whole, k) > 0 || table_tablet_holds(r->own, k))
            rc = use(context, whole, k);
        if (rc != 0)
            return err_set(e, rc, "%s: %s", r->folder[i], err_text(rc));
    }
    return 0;
}

int reader_tablets(struct reader *r, uint32_t index, reader_use use, void *context, struct err *e)
{
    const struct table_schema *s = r->schema[index];
    int rc = 0;
    if (r->checkpoint != NULL)
        return checkpoint_tablets(r->checkpoint, index, use, context, e);
    for (uint32_t i = 0; rc == 0 && i < r->engines; i++)
        rc = shard_tablets(r, i, s->table, 0, 1u << s->tablet_bits, use, context, e);
    return rc;
}

static int copy_use(void *context, const struct table *t, uint32_t tablet)
{
    size_t bytes = table_image_bytes(t, tablet);
    void *image = malloc(bytes);
    if (image == NULL)
        return SHOAL_E_NOMEM;
    table_image_write(t, tablet, image);
    int rc = table_image_read(context, tablet, image, bytes, NULL);
    free(image);
    return rc;
}

int reader_copy(struct reader *r, uint32_t index, uint32_t first, uint32_t count,
                struct arena *arena, struct table **out, struct err *e)
{
    const struct table_schema *s = r->schema[index];
    SHOAL_ASSERT(r->coordinator == NULL);
    if (r->checkpoint != NULL)
        return checkpoint_span_read(r->checkpoint, index, first, count, arena, out, e);
    int rc = table_new(s, arena, out, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; rc == 0 && i < r->engines; i++)
        rc = shard_tablets(r, i, s->table, first, count, copy_use, *out, e);
    if (rc != 0) {
        table_free(*out);
        *out = NULL;
    }
    return rc;
}

uint64_t reader_rows(const struct reader *r, uint32_t index)
{
    uint64_t rows = 0;
    if (r->checkpoint != NULL)
        return checkpoint_table_size(r->checkpoint, index).rows;
    for (uint32_t i = 0; i < r->engines; i++) {
        const struct table *t = engine_table(r->engine[i], r->schema[index]->table);
        if (t != NULL)
            rows += table_rows(t);
    }
    return rows;
}

/* A row of a checkpoint, from the part that has its tablet. */
static int part_row(struct reader *r, uint32_t index, uint64_t key, bool *found, struct json **out,
                    struct err *e)
{
    const struct table_schema *s = r->schema[index];
    uint32_t part =
        checkpoint_part_of(r->checkpoint, index, key_tablet(key_mix(key), s->tablet_bits));
    struct arena *arena;
    struct table *t = NULL;
    char name[LIMIT_PATH + 16];
    if (part == UINT32_MAX)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "the key's tablet is not in this checkpoint, so it is not known whether "
                       "there is such a row: %s",
                       r->lacks);
    if (arena_new(&arena) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = checkpoint_table_read(r->checkpoint, index, part, arena, &t, e);
    (void)snprintf(name, sizeof name, "part-%04u", part);
    if (rc == 0)
        *out = row_json(t, t, key, name, true, found);
    table_free(t);
    arena_free(arena);
    return rc;
}

int reader_kept_row(struct reader *r, uint32_t index, uint64_t key, bool *found, struct json **out,
                    struct err *e)
{
    const struct table_schema *s = r->schema[index];
    if (r->checkpoint != NULL)
        return part_row(r, index, key, found, out, e);
    for (uint32_t i = 0; i < r->engines && !*found; i++) {
        const struct table *own = engine_table(r->engine[i], s->table);
        bool stored;
        if (own == NULL)
            continue;
        const struct table *t = engine_row(r->engine[i], s->table, key, &stored, e);
        json_free(*out);
        *out = NULL;
        if (t == NULL)
            return err_wrap(e, e->code, "%s", r->folder[i]);
        *out = row_json(t, own, key, r->folder[i], stored, found);
    }
    return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* The newest names that a shard keeps; job.yaml has none before its run trains. */
static int names_kept(const struct reader *r, struct legend *out, struct err *e)
{
    const struct engine_names *newest = names_newest(r);
    struct catalog spaces;
    if (newest == NULL)
        return 0;
    int rc = catalog_read(newest->line, newest->bytes, &spaces, e);
    if (rc != 0)
        return rc;
    const struct catalog_space *s = space_find(&spaces, r->space);
    if (s == NULL && r->space[0] != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "the run has no space %s", r->space);
    if (s == NULL || s->line == NULL)
        return 0;
    return legend_parse(s->line, s->bytes, out, e);
}

int reader_kept_job(struct reader *r, char **text, size_t *bytes, struct err *e)
{
    struct legend names = {.input = NULL};
    char *named = NULL;
    size_t named_bytes;
    if (file_read_whole(r->job, LIMIT_CONFIG_BYTES + LEGEND_BYTES_MAX, text, bytes) != 0) {
        if (errno == ENOENT)
            return 0;
        return err_set(e, SHOAL_E_IO, "cannot read %s: %s", r->job, strerror(errno));
    }
    int rc = names_kept(r, &names, e);
    if (rc == 0 && legend_known(&names)) {
        rc = legend_put(*text, *bytes, &names, &named, &named_bytes, e);
        free(*text);
        *text = named;
        *bytes = rc == 0 ? named_bytes : 0;
    }
    legend_free(&names);
    return rc;
}
