/* from.c: reading a checkpoint that a job goes on from. */
#include "server/coord/from.h"
#include "proto/base/hash.h"
#include "proto/job/manifest.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_MAX (256u << 20)
#define PART_MANIFEST_MAX (64u << 20)

static const struct coord_folder_ops *ops_of(const struct coord *c)
{
    return c->options.folder;
}

/* A file that the manifest names, checked. */
static int file_read(const struct coord *c, const struct coord_from *f, const struct json *m,
                     const char *name, size_t most, void **bytes, size_t *count, struct err *e)
{
    int rc = ops_of(c)->get(f->path, name, most, bytes, count, e);
    if (rc != 0)
        return rc;
    rc = manifest_file_check(m, name, *bytes, *count, e);
    if (rc != 0) {
        free(*bytes);
        *bytes = NULL;
        return err_wrap(e, rc, "%s", f->path);
    }
    return 0;
}

static int parts_check(const struct coord *c, const struct coord_from *f, const struct json *m,
                       struct err *e)
{
    const struct json *parts = json_get(m, "parts");
    int rc = 0;
    for (size_t i = 0; i < json_count(parts) && rc == 0; i++) {
        const struct json *p = json_array_at(parts, i);
        char path[LIMIT_PATH];
        void *text;
        size_t count;
        uint64_t sum = 0;
        (void)manifest_hex(json_get(p, "manifest"), &sum);
        (void)snprintf(path, sizeof path, "%.1000s/%s", f->path,
                       json_as_string(json_get(p, "folder"), ""));
        rc = ops_of(c)->get(path, "manifest", PART_MANIFEST_MAX, &text, &count, e);
        if (rc != 0)
            break;
        if (hash_bytes(text, count, 0) != sum)
            rc = err_set(e, SHOAL_E_CHECKSUM,
                         "%s/manifest: its checksum does not match: it was changed, or is of "
                         "another checkpoint",
                         path);
        free(text);
    }
    return rc;
}

/* ---- whether the job fits -------------------------------------------------------------------- */

static int differs(const char *key, uint64_t was, uint64_t is, struct err *e)
{
    return err_set(e, SHOAL_E_CONFIG,
                   "%s is %" PRIu64 ", in the checkpoint it was %" PRIu64
                   ": batches already done would not be "
                   "the same ones; set it to %" PRIu64,
                   key, is, was, was);
}

static int spec_compare(const struct job *was, const struct job *is, const struct coord_saved *s,
                        struct err *e)
{
    static const char *const modes[] = {"async", "ssp", "bsp"};
    uint32_t lanes = is->train.lanes == 0 ? 2 : is->train.lanes;
    if (lanes != s->lanes)
        return differs("train.lanes", s->lanes, lanes, e);
    if (was->train.batch != is->train.batch)
        return differs("train.batch", was->train.batch, is->train.batch, e);
    if (was->train.seed != is->train.seed)
        return differs("train.seed", was->train.seed, is->train.seed, e);
    if (was->train.task_batches != is->train.task_batches)
        return differs("train.task_batches", was->train.task_batches, is->train.task_batches, e);
    if (was->data.shuffle != is->data.shuffle)
        return differs("data.shuffle", was->data.shuffle, is->data.shuffle, e);
    if (was->train.mode != is->train.mode)
        return err_set(e, SHOAL_E_CONFIG,
                       "train.consistency is %s, in the checkpoint it was %s: take that one",
                       modes[is->train.mode], modes[was->train.mode]);
    if (is->train.epochs < s->at.epoch)
        return err_set(e, SHOAL_E_CONFIG,
                       "train.epochs is %u, the checkpoint is of epoch %u: set it to that at least",
                       is->train.epochs, s->at.epoch);
    bool valid = s->at.phase == PHASE_EVAL || s->at.phase == PHASE_CUT,
         test = s->at.phase == PHASE_TEST;
    if ((valid && is->data.valid.count == 0) || (test && is->data.test.count == 0))
        return err_set(
            e, SHOAL_E_CONFIG,
            "the checkpoint was made while data.%s was evaluated: name it in the job file",
            valid ? "valid" : "test");
    return 0;
}

static bool same_words(const struct string_list *a, const struct string_list *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->item[i], b->item[i]) == 0;
    return same;
}

static int job_compare(const struct coord *c, struct coord_from *f, const struct json *m,
                       const struct job *spec, struct err *e)
{
    void *yaml;
    size_t bytes;
    struct job was;
    int rc = file_read(c, f, m, MANIFEST_JOB_FILE, LIMIT_CONFIG_BYTES, &yaml, &bytes, e);
    if (rc != 0)
        return rc;
    rc = job_parse(yaml, bytes, f->path, NULL, &was, e);
    free(yaml);
    if (rc != 0)
        return rc;
    rc = spec_compare(&was, spec, &f->saved, e);
    f->stops_alike = was.train.early_stop.metric == spec->train.early_stop.metric &&
                     same_words(&was.data.valid, &spec->data.valid);
    job_free(&was);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int coord_from_open(const struct coord *c, const char *path, const struct job *spec,
                    struct coord_from *f, struct err *e)
{
    struct json *m = NULL;
    void *text = NULL;
    size_t bytes = 0;
    memset(f, 0, sizeof *f);
    f->hold = COORD_FOLDER_NONE;
    if (ops_of(c) == NULL)
        return err_set(e, SHOAL_E_CONFIG, "this coordinator reads no checkpoints");
    if (path[0] != '/')
        return err_set(e, SHOAL_E_USAGE, "the checkpoint '%s' is not named by an absolute path",
                       path);
    if (spec->warm_start[0] != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "warm_start: a job that goes on from a checkpoint has its tables from "
                       "there: take the key away");
    (void)snprintf(f->path, sizeof f->path, "%s", path);
    int rc = ops_of(c)->hold(path, &f->hold, e);
    if (rc == 0)
        rc = ops_of(c)->get(path, MANIFEST_FILE, MANIFEST_BYTES_MAX, &text, &bytes, e);
    if (rc == 0 && (rc = manifest_parse(text, bytes, &m, e)) != 0)
        err_wrap(e, rc, "%s/" MANIFEST_FILE, path);
    free(text);
    if (rc == 0)
        rc = file_read(c, f, m, MANIFEST_STATE_FILE, STATE_MAX, &f->state, &bytes, e);
    if (rc == 0 && (rc = coord_saved_open(f->state, bytes, &f->saved, e)) != 0)
        err_wrap(e, rc, "%s/" MANIFEST_STATE_FILE, path);
    if (rc == 0)
        rc = job_compare(c, f, m, spec, e);
    if (rc == 0)
        rc = parts_check(c, f, m, e);
    json_free(m);
    return rc;
}

void coord_from_close(const struct coord *c, struct coord_from *f)
{
    free(f->state);
    f->state = NULL;
    if (ops_of(c) != NULL)
        ops_of(c)->let_go(&f->hold);
}

void coord_from_let_go(struct coord *c)
{
    if (ops_of(c) != NULL)
        ops_of(c)->let_go(&c->job.from_hold);
}
