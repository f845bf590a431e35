/* checkpoint_write.c: the coordinator's own files of a checkpoint. */
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/job/manifest.h"
#include "server/coord/checkpoint_keep.h"
#include "server/coord/phase.h"
#include "server/coord/saved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_MANIFEST "manifest" /* of a shard's part: embedding/checkpoint.h */
#define PART_MANIFEST_MAX (64u << 20)

/* ---- facts ----------------------------------------------------------------------------------- */

/* Neighbouring tablets of one shard as one range. */
static struct json *map_json(const struct coord *c)
{
    const struct coord_cluster *cl = &c->cluster;
    uint32_t shards = c->members.shards, tablets = c->made.tablets;
    struct json *map = json_new_object(), *ranges = json_new_array();
    for (uint32_t from = 0, to; from < tablets; from = to) {
        struct json *range = json_new_array();
        for (to = from + 1; to < tablets && cl->shard_of[to] == cl->shard_of[from]; to++)
            continue;
        SHOAL_ASSERT(to <= tablets && cl->shard_of[from] < shards);
        json_append(range, json_new_int(from));
        json_append(range, json_new_int(to - from));
        json_append(range, json_new_int(cl->shard_of[from]));
        json_append(ranges, range);
    }
    json_set_int(map, "epoch", (int64_t)cl->map_epoch);
    json_set_int(map, "shards", shards);
    json_set_int(map, "tablets", tablets);
    json_set(map, "ranges", ranges);
    return map;
}

static struct json *tables_json(const struct coord_made *made)
{
    struct json *list = json_new_array();
    for (uint32_t t = 0; t < made->tables; t++) {
        const struct table_schema *s = &made->table[t];
        SHOAL_ASSERT(s->table == t && s->tablet_first < made->tablets);
        struct json *item = json_new_object();
        json_set_string(item, "name", s->name);
        json_set_int(item, "table", s->table);
        json_set_int(item, "dense", s->dense);
        json_set_int(item, "width", s->width);
        json_set_int(item, "tablet_bits", s->tablet_bits);
        json_set_int(item, "tablet_first", s->tablet_first);
        json_append(list, item);
    }
    return list;
}

static struct json *lanes_json(const struct coord *c)
{
    const struct coord_tasks *t = &c->job.tasks;
    struct json *list = json_new_array();
    for (uint32_t l = 0; l < t->lanes; l++) {
        struct json *item = json_new_object();
        uint64_t next = coord_saved_next_batch(c, l), mark = t->lane[l].mark;
        json_set_int(item, "lane", l);
        json_set_int(item, "generation", (int64_t)t->lane[l].generation);
        json_set_int(item, "next_batch", (int64_t)next);
        /* as far as known; each tablet's is in the parts */
        json_set_int(item, "mark", (int64_t)(mark < next ? mark : next - 1));
        json_append(list, item);
    }
    return list;
}

/* Where the job stands. */
static void place_set(struct json *m, const struct coord *c)
{
    const struct coord_job *j = &c->job;
    bool tables = c->checkpoint.of_tables; /* nobody knows */
    json_set_int(m, "run", (int64_t)(tables ? c->made.number : j->at.run));
    json_set_int(m, "epoch", tables ? 0 : j->at.epoch);
    json_set_int(m, "examples", tables ? 0 : (int64_t)coord_examples(j));
    if (tables)
        return;
    if (c->checkpoint.of_end || c->checkpoint.of_done) /* of a log that grows no phase says so */
        json_set_bool(m, "end", true);
    if (coord_replay_until(j) != 0) /* event time up to which windows are begun */
        json_set_int(m, "until", (int64_t)coord_replay_until(j));
    json_set(m, "lanes", lanes_json(c));
}

struct json *coord_checkpoint_facts(struct coord *c)
{
    SHOAL_ASSERT(c->cut.state == CUT_HOLDING); /* checkpoint.h, 2 */
    struct json *m = json_new_object();
    time_t now = (time_t)c->options.folder->wall_s();
    char date[32] = "";
    struct tm t;
    if (gmtime_r(&now, &t) != NULL)
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &t);
    json_set_int(m, "format", MANIFEST_FORMAT);
    json_set_string(m, "version", c->options.version == NULL ? "" : c->options.version);
    json_set_string(m, "name", c->checkpoint.name);
    json_set_int(m, "number", (int64_t)c->checkpoint.number);
    json_set_string(m, "job", coord_checkpoint_spec(c)->name);
    json_set_string(m, "date", date);
    json_set_string(m, "phase", coord_phase_text(coord_saved_as(c)));
    json_set(m, "map", map_json(c));
    json_set(m, "tables", tables_json(&c->made));
    place_set(m, c);
    return m;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int parts_json(struct coord *c, struct json *m, uint64_t *rows, uint64_t *bytes,
                      struct err *e)
{
    struct coord_checkpoint *k = &c->checkpoint;
    struct json *parts = json_new_array();
    int rc = 0;
    for (uint32_t s = 0; s < c->members.shards && rc == 0; s++) {
        struct json *p = json_new_object();
        char folder[32], path[LIMIT_PATH];
        void *text = NULL;
        size_t count = 0;
        (void)snprintf(folder, sizeof folder, "part-%04u", s);
        (void)snprintf(path, sizeof path, "%.900s/%s", k->tmp, folder);
        rc = c->options.folder->get(path, PART_MANIFEST, PART_MANIFEST_MAX, &text, &count, e);
        json_set_string(p, "folder", folder);
        json_set_string(p, "server", c->members.shard[s].server);
        json_set_int(p, "rows", (int64_t)k->part[s].rows);
        json_set_int(p, "bytes", (int64_t)k->part[s].bytes);
        json_set_hex(p, "manifest", rc == 0 ? hash_bytes(text, count, 0) : 0);
        json_append(parts, p);
        free(text);
        *rows += k->part[s].rows;
        *bytes += k->part[s].bytes;
    }
    json_set(m, "parts", parts);
    return rc;
}

static void file_json(struct json *files, const char *name, const void *bytes, size_t count)
{
    struct json *f = json_new_object();
    json_set_string(f, "file", name);
    json_set_int(f, "bytes", (int64_t)count);
    json_set_hex(f, "xxh3", hash_bytes(bytes, count, 0));
    json_append(files, f);
}

int coord_checkpoint_write(struct coord *c, struct coord_checkpoint_record *record, struct err *e)
{
    struct coord_checkpoint *k = &c->checkpoint;
    const struct coord_folder_ops *ops = c->options.folder;
    struct json *m = k->manifest, *files = json_new_array();
    char *job = NULL;
    size_t job_bytes = 0;
    SHOAL_ASSERT(record->rows == 0 && record->bytes == 0); /* sums */
    int rc = coord_made_text(c, &job, &job_bytes, e);
    if (rc == 0)
        rc = parts_json(c, m, &record->rows, &record->bytes, e);
    file_json(files, MANIFEST_STATE_FILE, k->saved, k->saved_bytes);
    file_json(files, MANIFEST_JOB_FILE, job, job_bytes);
    record->bytes += k->saved_bytes + job_bytes;
    record->seconds = (double)(env_now_ns(c->env) - k->begun_ns) * 1e-9;
    record->held_seconds = (double)k->held_for_ns * 1e-9;
    json_set_int(m, "rows", (int64_t)record->rows);
    json_set_int(m, "bytes", (int64_t)record->bytes);
    json_set_number(m, "seconds", record->seconds);
    json_set_number(m, "held_seconds", record->held_seconds);
    json_set(m, "files", files);
    char *text = rc == 0 ? manifest_text(m) : NULL;
    if (rc == 0 && text == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the manifest");
    if (rc == 0)
        rc = ops->put(k->tmp, MANIFEST_STATE_FILE, k->saved, k->saved_bytes, e);
    if (rc == 0)
        rc = ops->put(k->tmp, MANIFEST_JOB_FILE, job, job_bytes, e);
    if (rc == 0)
        rc = ops->put(k->tmp, MANIFEST_FILE, text, strlen(text), e);
    SHOAL_ASSERT(k->state == CHECKPOINT_EXPORTING && k->missing == 0); /* checkpoint.h, 1 */
    if (rc == 0)
        rc = ops->publish(k->tmp, k->path, e);
    free(job);
    free(text);
    return rc;
}
