/* from.c: reads a checkpoint and compares it with the job that begins from it. */
#include "server/coord/keep/from.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/work/taken.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_MAX (256u << 20)
#define PART_MANIFEST_MAX (64u << 20)

/* Reads a file of the folder or of a part, and checks that these bytes are the signed ones. */
static int signed_read(const struct coord_options *o, const struct coord_from *f, const char *part,
                       const char *file, size_t most, void **bytes, size_t *count, struct err *e)
{
    char path[LIMIT_PATH], name[SIGNATURE_NAME];
    (void)snprintf(path, sizeof path, "%.1000s%s%.20s", f->path, text_if(part[0] != 0, "/"), part);
    (void)snprintf(name, sizeof name, "%.64s%s%.40s", part, text_if(part[0] != 0, "/"), file);
    int rc = o->folder->get(path, file, most, bytes, count, e);
    if (rc != 0 || f->signature == NULL)
        return rc;
    rc = signature_check_bytes(f->signature, name, *bytes, *count, e);
    if (rc != 0) {
        free(*bytes);
        *bytes = NULL;
    }
    return rc;
}

/* Reads a file that the manifest names, and checks it. */
static int file_read(const struct coord_options *o, const struct coord_from *f,
                     const struct json *m, const char *name, size_t most, void **bytes,
                     size_t *count, struct err *e)
{
    int rc = signed_read(o, f, "", name, most, bytes, count, e);
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

static int parts_check(const struct coord_options *o, const struct coord_from *f,
                       const struct json *m, struct err *e)
{
    const struct json *parts = json_get(m, "parts");
    int rc = 0;
    for (size_t i = 0; i < json_count(parts) && rc == 0; i++) {
        const struct json *p = json_array_at(parts, i);
        const char *part = json_as_string(json_get(p, "folder"), "");
        void *text;
        size_t count;
        uint64_t sum = 0;
        (void)manifest_hex(json_get(p, "manifest"), &sum);
        rc = signed_read(o, f, part, "manifest", PART_MANIFEST_MAX, &text, &count, e);
        if (rc != 0)
            break;
        if (hash_bytes(text, count, 0) != sum)
            rc = err_set(e, SHOAL_E_CHECKSUM,
                         "%s/%s/manifest: its checksum does not match: it was changed, or is of "
                         "another checkpoint",
                         f->path, part);
        free(text);
    }
    return rc;
}

/* ---- whether the job fits -------------------------------------------------------------------- */

static int differs(const char *key, uint64_t was, uint64_t is, struct err *e)
{
    return err_set(e, SHOAL_E_CONFIG,
                   "%s is %" PRIu64 ", in the checkpoint it was %" PRIu64
                   ": batches already done would not be the same ones; set it to %" PRIu64,
                   key, is, was, was);
}

/* Refuses a kept evaluation that is better than the best one. */
static int kept_check(const struct job *was, const struct coord_progress *at, struct err *e)
{
    double more = at->kept_value - at->best_value;
    if (job_metric_falls(was->train.early_stop.metric))
        more = -more;
    if (at->kept == 0 || at->best == 0 || more <= was->train.early_stop.min_delta)
        return 0;
    return err_set(e, SHOAL_E_CORRUPT,
                   "the saved job's best evaluation is %u (%.9g), and the one kept, %u, is better "
                   "(%.9g): that cannot be; somebody has changed it, take another checkpoint",
                   at->best, at->best_value, at->kept, at->kept_value);
}

static int number_kept(const char *key, double was, double is, struct err *e)
{
    if (was == is)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s is %g, and the checkpoint is of the end of a job with %g: it is over; "
                   "--start-from begins another one with its tables",
                   key, is, was);
}

/* For a job whose training is over: the settings that ended it must be the same, because training
 * does not continue. */
static int limits_compare(const struct job *was, const struct job *is, struct err *e)
{
    int rc = number_kept("train.epochs", was->train.epochs, is->train.epochs, e);
    if (rc == 0)
        rc = number_kept("train.max_minutes", was->train.max_minutes, is->train.max_minutes, e);
#define KEPT(key)                                                                                  \
    if (rc == 0)                                                                                   \
        rc = number_kept("train.early_stop." #key, was->train.early_stop.key,                      \
                         is->train.early_stop.key, e);
    KEPT(patience)
    KEPT(lr_decay)
    KEPT(lr_patience)
    KEPT(min_delta)
#undef KEPT
    if (rc == 0 && was->train.early_stop.metric != is->train.early_stop.metric)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "train.early_stop.metric is %s, and the checkpoint is of the end of a job "
                     "with %s: it is over; --start-from begins another one with its tables",
                     job_metric_name(is->train.early_stop.metric),
                     job_metric_name(was->train.early_stop.metric));
    return rc;
}

/* Compares the windows of shuffling. If the job does not set them, the checkpoint's are used
 * (given.h). */
static int windows_compare(const struct job *was, const struct job *is, struct err *e)
{
    static const char *const units[] = {"s", "ms", "us"};
    uint32_t before = was->data.shuffle_within, now = is->data.shuffle_within;
    if (is->data.shuffle_said && before != now)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.shuffle.within is %us, in the checkpoint it was %us (0: the whole "
                       "log): batches already done would not be the same ones; take data.shuffle "
                       "away, and the order stays as it was",
                       now, before);
    if ((before > 0 || was->replay.on) &&
        (was->data.time_form.unit != is->data.time_form.unit ||
         strcmp(was->data.time_form.format, is->data.time_form.format) != 0 ||
         strcmp(was->data.time, is->data.time) != 0))
        return err_set(
            e, SHOAL_E_CONFIG,
            "data.time is %s in %s, in the checkpoint it was %s in %s: batches already "
            "done, drawn within windows of it, would not be the same ones; take that one",
            is->data.time, units[is->data.time_form.unit], was->data.time,
            units[was->data.time_form.unit]);
    if ((before > 0 || was->replay.on) &&
        strcmp(was->data.partition.text, is->data.partition.text) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.partition is '%s', in the checkpoint it was '%s': batches already "
                       "done would not be the same ones; take that one",
                       is->data.partition.text, was->data.partition.text);
    if (job_timed(was) && strcmp(was->data.zone.name, is->data.zone.name) != 0 &&
        !zone_same(&was->data.zone, &is->data.zone))
        return err_set(
            e, SHOAL_E_CONFIG,
            "data.zone is %s, in the checkpoint it was %s: days and times without a zone "
            "would not be the same ones; take that one",
            is->data.zone.name, was->data.zone.name);
    return 0;
}

static bool same_spans(const struct job *a, const struct job *b)
{
    return a->replay.range.from == b->replay.range.from &&
           a->replay.range.to == b->replay.range.to && a->replay.outs == b->replay.outs &&
           memcmp(a->replay.out, b->replay.out, a->replay.outs * sizeof a->replay.out[0]) == 0;
}

/* Compares which rows a batch has, and where days end. Windows that are still to come may differ
 * (coord_replay_fits). */
static int replay_compare(const struct job *was, const struct job *is, uint32_t phase,
                          struct err *e)
{
    if (was->replay.on && !is->replay.on)
        return err_set(e, SHOAL_E_CONFIG,
                       "the checkpoint is of a replay, and this job is none: batches already done "
                       "would not be the same ones; go on with shoal replay, or a section replay "
                       "as it had");
    if (!was->replay.on && is->replay.on)
        return err_set(e, SHOAL_E_CONFIG,
                       "the checkpoint is of a job that is none, and this job is a replay: batches "
                       "already done would not be the same ones; take the section replay away");
    if (!is->replay.on)
        return 0;
    if (was->replay.window != is->replay.window)
        return differs("replay.window, in seconds,", was->replay.window, is->replay.window, e);
    if (was->replay.every != is->replay.every)
        return differs("replay.every, in seconds,", was->replay.every, is->replay.every, e);
    if (coord_saved_tables_kept(phase) && !same_spans(was, is))
        return err_set(e, SHOAL_E_CONFIG,
                       "the checkpoint is of the end of a replay, and replay.from, to or leave_out "
                       "are others now: it is over; take the checkpoint of its last day");
    return 0;
}

static const char *dense_name(const struct job *j)
{
    return j->train.allreduce ? "allreduce" : "servers";
}

static int spec_compare(const struct job *was, const struct job *is, const struct coord_saved *s,
                        struct err *e)
{
    static const char *const modes[] = {"async", "ssp", "bsp"};
    SHOAL_ASSERT(was->train.mode < sizeof modes / sizeof modes[0]);
    SHOAL_ASSERT(is->train.mode < sizeof modes / sizeof modes[0]);
    int rc;
    bool grew = was->data.objects.grow_ms > 0, grows = is->data.objects.grow_ms > 0;
    if (grew != grows && !is->train.skip)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.objects.grow is %s, and the checkpoint is of a log that %s: "
                       "--start-from begins another job with its tables",
                       grows ? "there" : "absent", grew ? "grows" : "does not grow");
    if (grew && is->train.skip && is->train.epochs < s->at.epoch)
        return err_set(
            e, SHOAL_E_CONFIG,
            "train.skip: the checkpoint is of round %u of a log that grows, and no round "
            "is gone on with: --start-from measures its tables",
            s->at.epoch);
    if (!grew && is->train.epochs < s->at.epoch)
        return err_set(e, SHOAL_E_CONFIG,
                       "train.epochs is %u, the checkpoint is of epoch %u: set it to that at least",
                       is->train.epochs, s->at.epoch);
    if (is->train.skip)
        return 0;                                            /* there are no further batches */
    if (is->train.lanes != 0 && is->train.lanes != s->lanes) /* 0: the checkpoint's */
        return differs("train.lanes", s->lanes, is->train.lanes, e);
    if (was->train.batch != is->train.batch)
        return differs("train.batch", was->train.batch, is->train.batch, e);
    if (was->train.window != is->train.window)
        return differs("train.window", was->train.window, is->train.window, e);
    if (was->train.seed != is->train.seed)
        return differs("train.seed", was->train.seed, is->train.seed, e);
    if (was->data.sample != is->data.sample || strcmp(was->data.sample_by, is->data.sample_by) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.sample is %g%s%s, in the checkpoint it was %g%s%s, and other examples "
                       "would be trained: set it to what it was, or begin another job with its "
                       "tables (--start-from)",
                       is->data.sample, text_if(is->data.sample_by[0] != 0, " by "),
                       is->data.sample_by, was->data.sample,
                       text_if(was->data.sample_by[0] != 0, " by "), was->data.sample_by);
    if (was->train.task_batches != is->train.task_batches)
        return differs("train.task_batches", was->train.task_batches, is->train.task_batches, e);
    if (was->data.shuffle != is->data.shuffle)
        return differs("data.shuffle", was->data.shuffle, is->data.shuffle, e);
    rc = replay_compare(was, is, s->at.phase, e);
    if (rc == 0)
        rc = windows_compare(was, is, e);
    if (rc != 0)
        return rc;
    if (was->train.mode != is->train.mode)
        return err_set(e, SHOAL_E_CONFIG,
                       "train.consistency is %s, in the checkpoint it was %s: take that one",
                       modes[is->train.mode], modes[was->train.mode]);
    if (was->train.allreduce != is->train.allreduce)
        return err_set(e, SHOAL_E_CONFIG,
                       "train.dense is %s, in the checkpoint it was %s: batches already done would "
                       "count twice in the network, or not at all; take that one, or begin another "
                       "job with its tables (--start-from)",
                       dense_name(is), dense_name(was));
    if (coord_saved_tables_kept(s->at.phase))
        rc = limits_compare(was, is, e);
    if (rc != 0)
        return rc;
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

static int job_compare(const struct coord_options *o, struct coord_from *f, const struct json *m,
                       const struct job *spec, struct err *e)
{
    void *yaml;
    size_t bytes;
    struct job was;
    int rc = file_read(o, f, m, MANIFEST_JOB_FILE, LIMIT_CONFIG_BYTES, &yaml, &bytes, e);
    if (rc != 0)
        return rc;
    rc = job_parse(yaml, bytes, f->path, NULL, &was, e);
    free(yaml);
    if (rc != 0)
        return rc;
    rc = kept_check(&was, &f->saved.at, e);
    /* the metric that ended a job follows from its loss, so the loss is named first */
    if (rc == 0 && !f->start)
        rc = job_same_losses(&was, spec, e);
    if (rc == 0 && !f->start)
        rc = spec_compare(&was, spec, &f->saved, e);
    /* names identify tensors and fields; a job that resumes needs all of them, and older ones have
     * no names */
    if (rc == 0 && (!f->start || !legend_known(&was.legend)))
        rc = job_same_model(&was, spec, e);
    if (rc == 0)
        rc = legend_copy(&was.legend, &f->legend, e);
    f->within = was.data.shuffle_within;
    f->zone = was.data.zone;
    f->time_limit = was.data.time_limit;
    f->stops_alike = was.train.early_stop.metric == spec->train.early_stop.metric &&
                     same_words(&was.data.valid, &spec->data.valid);
    job_free(&was);
    return rc;
}

static int state_read(const struct coord_options *o, struct coord_from *f, const struct json *m,
                      struct err *e)
{
    void *bytes;
    size_t count;
    int rc = file_read(o, f, m, MANIFEST_STATE_FILE, STATE_MAX, &bytes, &count, e);
    if (rc != 0)
        return rc;
    rc = coord_saved_open(bytes, count, &f->saved, e);
    free(bytes);
    if (rc != 0)
        return err_wrap(e, rc, "%s/" MANIFEST_STATE_FILE, f->path);
    return 0;
}

/* How far the checkpoint's job was. */
static void place_take(struct coord_from *f, const struct json *m)
{
    const struct json *lanes = json_get(m, "lanes");
    f->examples = (uint64_t)json_as_int(json_get(m, "examples"), 0);
    for (size_t i = 0; i < json_count(lanes); i++)
        f->batches += (uint64_t)json_as_int(json_get(json_array_at(lanes, i), "mark"), 0);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Checks the signature before any other byte is used. */
static int signature_take(const struct coord_options *o, struct coord_from *f, struct err *e)
{
    const char *signers = o->checkpoint_signers;
    if (signers == NULL || signers[0] == 0)
        return 0;
    return o->folder->signature(f->path, signers, &f->signature, e);
}

int coord_from_open(const struct coord_options *o, const char *path, bool start,
                    const struct job *spec, struct coord_from *f, struct err *e)
{
    struct json *m = NULL;
    void *text = NULL;
    size_t bytes = 0;
    memset(f, 0, sizeof *f);
    f->hold = COORD_FOLDER_NONE;
    if (o->folder == NULL)
        return err_set(e, SHOAL_E_CONFIG, "this coordinator reads no checkpoints");
    int rc = o->folder->below(text_or(o->checkpoint_root, ""), path, e);
    if (rc != 0)
        return rc;
    (void)snprintf(f->path, sizeof f->path, "%s", path);
    f->start = start;
    rc = o->folder->hold(path, &f->hold, e);
    if (rc == 0)
        rc = signature_take(o, f, e);
    if (rc == 0)
        rc = signed_read(o, f, "", MANIFEST_FILE, MANIFEST_BYTES_MAX, &text, &bytes, e);
    if (rc == 0 && (rc = manifest_parse(text, bytes, &m, e)) != 0)
        err_wrap(e, rc, "%s/" MANIFEST_FILE, path);
    free(text);
    if (rc == 0)
        rc = state_read(o, f, m, e);
    if (rc == 0 && !start && f->saved.at.phase == PHASE_TABLES)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s holds tables, and not where a job stood in its input: no job goes on with "
                     "it. --start-from %s begins one with the tables; with --set train.skip=true "
                     "that one loads them and trains nothing",
                     path, path);
    if (rc == 0)
        rc = job_compare(o, f, m, spec, e);
    if (rc == 0)
        rc = parts_check(o, f, m, e);
    if (rc == 0)
        place_take(f, m);
    json_free(m);
    return rc;
}

void coord_from_close(const struct coord_options *o, struct coord_from *f)
{
    coord_saved_close(&f->saved);
    legend_free(&f->legend);
    signature_free(f->signature);
    f->signature = NULL;
    if (o->folder != NULL)
        o->folder->let_go(&f->hold);
    SHOAL_ASSERT(f->hold == COORD_FOLDER_NONE);
}

static void progress_make(const struct coord_from *f, const struct coord_progress *job,
                          enum coord_from_state state, struct coord_progress *out)
{
    const struct coord_progress *was = &f->saved.at;
    SHOAL_ASSERT(job->number != 0 && job->run != 0);
    *out = *was;
    out->number = job->number;
    out->run = job->run;
    out->map_epoch = job->map_epoch;
    out->workers_wanted = job->workers_wanted;
    memcpy(out->split, job->split, sizeof out->split);
    out->phase = job->phase;
    out->tables = job->tables;
    out->restarts = job->restarts;
    out->worker_deaths = job->worker_deaths;
    out->cuts = job->cuts;
    out->status = 0;
    out->text[0] = 0;
    memset(out->test, 0, sizeof out->test);
    if (!f->stops_alike && !coord_saved_tables_kept(was->phase)) {
        /* the best value so far is not comparable with the values to come */
        out->best = out->misses = out->kept = 0;
        out->best_value = 0;
    }
    out->best_cut = 0;
    out->cut_of = 0;
    out->from = state;
    out->from_phase = was->phase;
    out->from_rows = was->split[WIRE_TRAIN].rows;
    out->from_digest = was->split[WIRE_TRAIN].digest;
    memcpy(out->from_path, f->path, sizeof out->from_path);
}

int coord_from_begin(struct coord_job *j, const struct coord_from *f,
                     const struct coord_progress *job, enum coord_from_state state,
                     struct coord_progress *out, struct err *e)
{
    void *taken = NULL;
    size_t bytes = 0;
    int rc = coord_store_get(f->saved.rows, "taken/0", &taken, &bytes, e);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        return rc;
    rc = coord_taken_saved(j, taken, bytes, !f->start, e);
    free(taken);
    if (rc != 0)
        return rc;
    if (!f->start) {
        progress_make(f, job, state, out);
        if (!coord_saved_put(j, &f->saved, job->run))
            return coord_store_failed(e);
        return 0;
    }
    *out = *job;
    out->from = state;
    memcpy(out->from_path, f->path, sizeof out->from_path);
    return 0;
}
