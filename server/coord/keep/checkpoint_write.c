/* checkpoint_write.c: the folder of a checkpoint, and the coordinator's own files in it. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/keep/cut.h"
#include "server/coord/keep/saved.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_MANIFEST "manifest" /* in a shard's part: embedding/checkpoint.h */
#define PART_MANIFEST_MAX (64u << 20)

/* ---- facts ----------------------------------------------------------------------------------- */

/* Returns the map, in which shards have the numbers of their parts; neighbouring tablets of one
 * shard are one range. NULL: out of memory. */
static struct json *map_json(const struct coord_job *j)
{
    const struct coord_members *members = &j->fleet->members;
    uint32_t tablets = j->space->made->tablets;
    uint16_t *shard_of = calloc(tablets, sizeof *shard_of);
    if (shard_of == NULL)
        return NULL;
    coord_map_view(&j->fleet->cluster, j->space->made->numbers, j->space->made->table,
                   j->space->made->tables, shard_of);
    struct json *map = json_new_object(), *ranges = json_new_array();
    for (uint32_t from = 0, to; from < tablets; from = to) {
        struct json *range = json_new_array();
        for (to = from + 1; to < tablets && shard_of[to] == shard_of[from]; to++)
            continue;
        SHOAL_ASSERT(to <= tablets && coord_member_used(members, shard_of[from]));
        json_append(range, json_new_int(from));
        json_append(range, json_new_int(to - from));
        json_append(range, json_new_int(coord_member_rank(members, shard_of[from])));
        json_append(ranges, range);
    }
    free(shard_of);
    json_set_int(map, "epoch", (int64_t)j->fleet->cluster.map_epoch);
    json_set_int(map, "shards", coord_member_count(members));
    json_set_int(map, "tablets", tablets);
    json_set(map, "ranges", ranges);
    return map;
}

/* Returns a shard that the checkpoint leaves out, with the tablets that it has in the map. */
static struct json *missing_json(const struct coord_job *j, const uint16_t *shard_of,
                                 uint32_t shard)
{
    struct json *item = json_new_object(), *tables = json_new_array();
    json_set_int(item, "shard", shard);
    json_set_string(item, "server", j->fleet->members.shard[shard].server);
    for (uint32_t t = 0; t < j->space->made->tables; t++) {
        const struct table_schema *s = &j->space->made->table[t];
        struct json *table = json_new_object();
        int64_t tablets = 0;
        for (uint32_t i = 0; i < 1u << s->tablet_bits; i++)
            tablets += shard_of[s->tablet_first + i] == shard;
        json_set_string(table, "name", s->name);
        json_set_int(table, "tablets", tablets);
        json_set_int(table, "of", INT64_C(1) << s->tablet_bits);
        json_append(tables, table);
    }
    json_set(item, "tables", tables);
    return item;
}

/* Tells what the checkpoint lacks; NULL: out of memory, or it lacks nothing. */
static struct json *all_missing_json(const struct coord_job *j)
{
    uint16_t *shard_of = NULL;
    struct json *list = NULL;
    if (j->checkpoint->without[0] != 0)
        shard_of = calloc(j->space->made->tablets, sizeof *shard_of);
    if (shard_of == NULL)
        return NULL;
    coord_map_view(&j->fleet->cluster, j->space->made->numbers, j->space->made->table,
                   j->space->made->tables, shard_of);
    list = json_new_array();
    COORD_EACH_SHARD (&j->fleet->members, s)
        if (coord_checkpoint_leaves_out(j, s))
            json_append(list, missing_json(j, shard_of, s));
    free(shard_of);
    return list;
}

static struct json *tables_json(const struct coord_made *made, const char *space)
{
    struct json *list = json_new_array();
    for (uint32_t t = 0; t < made->tables; t++) {
        const struct table_schema *s = &made->table[t];
        SHOAL_ASSERT(s->table == t && s->tablet_first < made->tablets);
        json_append(list, manifest_table(s, space));
    }
    return list;
}

static struct json *lanes_json(const struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    struct json *list = json_new_array();
    for (uint32_t l = 0; l < t->lanes; l++) {
        struct json *item = json_new_object();
        uint64_t next = coord_saved_next_batch(j, l), mark = t->lane[l].mark;
        json_set_int(item, "lane", l);
        json_set_int(item, "generation", (int64_t)t->lane[l].generation);
        json_set_int(item, "next_batch", (int64_t)next);
        /* as far as known; the parts hold the mark of each tablet */
        json_set_int(item, "mark", (int64_t)(mark < next ? mark : next - 1));
        json_append(list, item);
    }
    return list;
}

/* Adds the position of the job in its training. */
static void place_set(struct json *m, const struct coord_job *j)
{
    if (coord_checkpoint_of_tables(j)) { /* the position is unknown */
        json_set_int(m, "run", (int64_t)j->space->made->number);
        json_set_int(m, "epoch", 0);
        json_set_int(m, "examples", 0);
        return;
    }
    json_set_int(m, "run", (int64_t)j->at.run);
    json_set_int(m, "epoch", j->at.epoch);
    json_set_int(m, "examples", (int64_t)coord_examples(j));
    /* for a growing log the phase does not tell it */
    if (j->checkpoint->reason >= CHECKPOINT_OF_END)
        json_set_bool(m, "end", true);
    if (coord_replay_until(j) != 0) /* event time up to which windows are begun */
        json_set_int(m, "until", (int64_t)coord_replay_until(j));
    json_set(m, "lanes", lanes_json(j));
}

struct json *coord_checkpoint_facts(struct coord_job *j)
{
    SHOAL_ASSERT(j->cut->state == CUT_HOLDING); /* checkpoint.h, 2 */
    struct json *m = json_new_object();
    time_t now = (time_t)j->fleet->options.folder->wall_s();
    char date[32] = "";
    struct tm t;
    if (gmtime_r(&now, &t) != NULL)
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &t);
    json_set_int(m, "format", MANIFEST_FORMAT);
    json_set_string(m, "version", text_or(j->fleet->options.version, ""));
    json_set_string(m, "name", j->checkpoint->name);
    json_set_int(m, "number", (int64_t)j->checkpoint->number);
    json_set_string(m, "job", coord_checkpoint_spec(j)->name);
    json_set_string(m, "date", date);
    json_set_string(m, "phase", coord_phase_text(coord_saved_as(j)));
    json_set(m, "map", map_json(j));
    json_set(m, "tables", tables_json(j->space->made, coord_checkpoint_spec(j)->space));
    place_set(m, j);
    if (j->checkpoint->without[0] != 0)
        json_set(m, "missing", all_missing_json(j));
    (void)manifest_lacks(m, j->checkpoint->lacks, sizeof j->checkpoint->lacks);
    return m;
}

/* ---- its folder, on the errand's thread ------------------------------------------------------ */

static struct coord_making *making_of(struct coord_errand *r)
{
    return container_of(r, struct coord_making, errand);
}

static int make_run(struct coord_errand *r, struct err *e)
{
    struct coord_making *m = making_of(r);
    char next[LIMIT_NAME];
    int rc = coord_checkpoint_dir(m->ops, m->root, m->dir, e);
    if (rc == 0)
        rc = coord_checkpoint_next_name(m->ops, m->dir, next, &m->number, e);
    if (rc == 0 && m->name[0] == 0)
        memcpy(m->name, next, sizeof next);
    if (rc != 0)
        return rc;
    (void)snprintf(m->path, sizeof m->path, "%.900s/%s", m->dir, m->name);
    (void)snprintf(m->tmp, sizeof m->tmp, "%.1000s.%06" PRIx32 ".tmp", m->path, m->random);
    struct coord_checkpoint_names names = {.want = m->name};
    rc = coord_checkpoint_names(m->ops, m->dir, &names, e);
    if (rc == 0 && names.found)
        rc = err_set(e, SHOAL_E_EXISTS, "%s exists already: take another name", m->path);
    if (rc == 0)
        rc = m->ops->begin(m->tmp, &m->hold, e);
    m->made = rc == 0;
    return rc;
}

static struct json *table_named(const struct json *tables, const char *name)
{
    for (size_t i = 0; i < json_count(tables); i++)
        if (strcmp(json_get_string(json_array_at(tables, i), "name", ""), name) == 0)
            return json_array_at(tables, i);
    return NULL;
}

/* Adds the rows and bytes of each table in a part to the sums. The numbers of tables are those of
 * the shards there. */
static void tables_count(const struct json *tables, const struct json *part)
{
    static const char *const keys[] = {"rows", "bytes"};
    const struct json *of_part = json_get(part, "tables");
    for (size_t i = 0; i < json_count(of_part); i++) {
        const struct json *from = json_array_at(of_part, i);
        struct json *to = table_named(tables, json_get_string(from, "name", ""));
        for (size_t k = 0; to != NULL && k < sizeof keys / sizeof *keys; k++)
            json_set_int(to, keys[k],
                         json_get_int(to, keys[k], 0) + json_get_int(from, keys[k], 0));
    }
}

/* Sums rows and bytes by table from the manifests of the servers' parts. A part whose manifest is
 * not in the frame (release 0.2.0) adds nothing. */
static int parts_seal(const struct coord_making *m, struct err *e)
{
    const struct json *parts = json_get(m->manifest, "parts");
    int rc = 0;
    for (size_t i = 0; i < json_count(parts) && rc == 0; i++) {
        struct json *part = json_array_at(parts, i);
        char path[LIMIT_PATH];
        void *text = NULL;
        size_t count = 0;
        (void)snprintf(path, sizeof path, "%.900s/%s", m->tmp, json_get_string(part, "folder", ""));
        rc = m->ops->get(path, PART_MANIFEST, PART_MANIFEST_MAX, &text, &count, e);
        json_set_hex(part, "manifest", rc == 0 ? hash_bytes(text, count, 0) : 0);
        struct json *own = NULL;
        if (rc == 0 && manifest_frame(text, count, &own, NULL) == 0)
            tables_count(json_get(m->manifest, "tables"), own);
        json_free(own);
        free(text);
    }
    return rc;
}

static int name_run(struct coord_errand *r, struct err *e)
{
    struct coord_making *m = making_of(r);
    int rc = parts_seal(m, e);
    char *text = NULL;
    if (rc == 0)
        text = manifest_text(m->manifest);
    if (rc == 0 && text == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the manifest");
    if (rc == 0)
        rc = m->ops->put(m->tmp, MANIFEST_STATE_FILE, m->saved, m->saved_bytes, e);
    if (rc == 0)
        rc = m->ops->put(m->tmp, MANIFEST_JOB_FILE, m->yaml, m->yaml_bytes, e);
    if (rc == 0)
        rc = m->ops->put(m->tmp, MANIFEST_FILE, text, strlen(text), e);
    if (rc == 0)
        rc = m->ops->publish(m->tmp, m->path, e);
    m->named = rc == 0;
    free(text);
    return rc;
}

/* Removes the folder of a checkpoint that is given up, even if it has just got its name: it is in
 * no list yet. */
static void making_undo(struct coord_errand *r)
{
    struct coord_making *m = making_of(r);
    struct err e = {0};
    m->ops->let_go(&m->hold);
    if (!m->made || m->stays)
        return;
    /* AGAIN: the sweeper removes the rest */
    int rc = m->ops->remove(m->named ? m->path : m->tmp, &e);
    if (rc != 0 && rc != SHOAL_E_AGAIN)
        log_warn("%s; what is left of it is removed when checkpoints are next made there", e.text);
}

static void making_free(struct coord_errand *r)
{
    struct coord_making *m = making_of(r);
    json_free(m->manifest);
    free(m->saved);
    free(m->yaml);
    free(m);
}

/* ---- its folder, on the loop ----------------------------------------------------------------- */

int coord_checkpoint_make(struct coord_job *j, const char *name, coord_errand_done made,
                          struct err *e)
{
    struct coord_making *m = calloc(1, sizeof *m);
    SHOAL_ASSERT(j->checkpoint->making == NULL);
    if (m == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a checkpoint");
    m->errand.run = make_run;
    m->errand.undo = making_undo;
    m->errand.free = making_free;
    text_copy(m->errand.folder, LIMIT_PATH, coord_checkpoint_spec(j)->checkpoint.dir);
    m->ops = j->fleet->options.folder;
    m->root = text_or(j->fleet->options.checkpoint_root, "");
    text_copy(m->dir, sizeof m->dir, coord_checkpoint_spec(j)->checkpoint.dir);
    text_copy(m->name, sizeof m->name, name);
    m->number = coord_checkpoint_last(j);
    m->random = (uint32_t)(env_random(j->fleet->env) & 0xffffff);
    m->hold = COORD_FOLDER_NONE;
    int rc = coord_errand_start(j->fleet, &m->errand, j, made, e);
    if (rc == 0)
        j->checkpoint->making = m;
    return rc;
}

static void parts_json(const struct coord_job *j, struct json *m, uint64_t *rows, uint64_t *bytes)
{
    const struct coord_checkpoint *k = j->checkpoint;
    struct json *parts = json_new_array();
    for (uint32_t s = 0; s < j->fleet->members.shards; s++) {
        if (!k->part[s].asked)
            continue; /* it is retired, left out, or has come since */
        struct json *p = json_new_object();
        char folder[32];
        (void)snprintf(folder, sizeof folder, "part-%04u", k->part[s].number);
        json_set_string(p, "folder", folder);
        json_set_string(p, "server", j->fleet->members.shard[s].server);
        json_set_int(p, "rows", (int64_t)k->part[s].rows);
        json_set_int(p, "bytes", (int64_t)k->part[s].bytes);
        json_append(parts, p);
        *rows += k->part[s].rows;
        *bytes += k->part[s].bytes;
    }
    json_set(m, "parts", parts);
}

static void file_json(struct json *files, const char *name, const void *bytes, size_t count)
{
    struct json *f = json_new_object();
    json_set_string(f, "file", name);
    json_set_int(f, "bytes", (int64_t)count);
    json_set_hex(f, "xxh3", hash_bytes(bytes, count, 0));
    json_append(files, f);
}

int coord_checkpoint_write(struct coord_job *j, struct coord_checkpoint_record *record,
                           coord_errand_done named, struct err *e)
{
    struct coord_checkpoint *k = j->checkpoint;
    struct coord_making *m = k->making;
    struct json *files = json_new_array();
    char *job = NULL;
    size_t job_bytes = 0;
    SHOAL_ASSERT(k->state == CHECKPOINT_EXPORTING && k->missing == 0); /* checkpoint.h, 1 */
    SHOAL_ASSERT(record->rows == 0 && record->bytes == 0);             /* sums */
    int rc = coord_made_text(j->space, true, &job, &job_bytes, e);
    if (rc != 0) {
        json_free(files);
        return rc;
    }
    parts_json(j, k->manifest, &record->rows, &record->bytes);
    file_json(files, MANIFEST_STATE_FILE, k->saved, k->saved_bytes);
    file_json(files, MANIFEST_JOB_FILE, job, job_bytes);
    record->bytes += k->saved_bytes + job_bytes;
    record->seconds = (double)(env_now_ns(j->fleet->env) - k->begun_ns) * 1e-9;
    record->held_seconds = (double)k->held_for_ns * 1e-9;
    text_copy(record->name, sizeof record->name, k->name);
    json_set_int(k->manifest, "rows", (int64_t)record->rows);
    json_set_int(k->manifest, "bytes", (int64_t)record->bytes);
    json_set_number(k->manifest, "seconds", record->seconds);
    json_set_number(k->manifest, "held_seconds", record->held_seconds);
    json_set(k->manifest, "files", files);
    m->yaml = job;
    m->yaml_bytes = job_bytes;
    m->manifest = k->manifest;
    m->saved = k->saved;
    m->saved_bytes = k->saved_bytes;
    k->manifest = NULL;
    k->saved = NULL;
    m->errand.run = name_run;
    if (!coord_checkpoint_coming_put(j)) /* no errand begins before that is in the store */
        return coord_store_failed(e);
    k->making = NULL;
    rc = coord_errand_start(j->fleet, &m->errand, j, named, e);
    if (rc == 0)
        k->making = m;
    return rc;
}
