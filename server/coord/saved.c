/* saved.c: pairs of the store as one file, and back. */
#include "server/coord/saved.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/plant.h"
#include "proto/job/manifest.h"
#include "proto/wire/wire.h"
#include "server/coord/phase.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'C', 'S', '1'};
#define SAVED_MAX (256u << 20)

bool coord_saved_phase(uint32_t phase)
{
    return phase == PHASE_LANES || phase == PHASE_TRAIN || phase == PHASE_EVAL ||
           phase == PHASE_CUT || phase == PHASE_TEST || phase == PHASE_DIGEST ||
           phase == PHASE_GROW;
}

enum coord_phase coord_saved_as(const struct coord_job *j)
{
    enum coord_phase phase = (enum coord_phase)j->at.phase;
    if (j->checkpoint.of_tables && j->checkpoint.state != CHECKPOINT_IDLE)
        return PHASE_TABLES;
    bool ended = phase == PHASE_DONE || phase == PHASE_DIGEST || phase == PHASE_TEST;
    uint64_t rows = coord_grow_on(j) ? j->grow.at.before_rows + j->grow.at.rows : 0;
    if (ended && rows > 0 && j->at.train_rows == rows)
        return PHASE_GROW; /* of a log that grows more may come */
    return phase == PHASE_DONE ? PHASE_DIGEST : phase;
}

/* Whether the tables, and the checkpoint's, are those of the kept epoch; in PHASE_CUT they are
 * too. */
static bool tables_are_kept(uint32_t phase)
{
    return phase == PHASE_TEST || phase == PHASE_DIGEST;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
    uint8_t *bytes; /* owned */
    size_t count, capacity;
    bool failed;
};

static void write_bytes(struct writer *w, const void *from, size_t count)
{
    SHOAL_ASSERT(w->count <= w->capacity && w->count <= SAVED_MAX);
    if (w->failed || count > SAVED_MAX - w->count) {
        w->failed = true;
        return;
    }
    if (w->count + count > w->capacity &&
        array_reserve(&w->bytes, 2 * (w->count + count), &w->capacity) != 0) {
        w->failed = true;
        return;
    }
    if (count > 0)
        memcpy(w->bytes + w->count, from, count);
    w->count += count;
}

static void write_pair(struct writer *w, const char *key, const void *value, size_t bytes)
{
    uint32_t head[2] = {(uint32_t)strlen(key), (uint32_t)bytes};
    SHOAL_ASSERT(head[0] > 0 && head[0] < COORD_KEY_MAX && head[1] == bytes);
    write_bytes(w, head, sizeof head);
    write_bytes(w, key, head[0]);
    write_bytes(w, value, bytes);
}

static void write_numbered(struct writer *w, const char *kind, uint32_t n, const void *value,
                           size_t bytes)
{
    char key[COORD_KEY_MAX];
    (void)snprintf(key, sizeof key, "%s/%u", kind, n);
    write_pair(w, key, value, bytes);
}

/* Time is counted up to now; what is of this cluster alone stays behind. */
static void progress_write(struct writer *w, const struct coord_job *j)
{
    struct coord_progress at = j->at;
    uint64_t now = env_now_ns(j->fleet->env);
    at.phase = coord_saved_as(j);
    if (at.phase == PHASE_TABLES) { /* nothing of a job */
        at = (struct coord_progress){.number = j->fleet->made.number, .phase = PHASE_TABLES};
        write_pair(w, "progress", &at, sizeof at);
        return;
    }
    if (j->started_ns != 0 && coord_phase_running(j))
        at.elapsed_ns += PLANTED("time_of_before") ? 0 : now - j->started_ns;
    if (at.phase == PHASE_TRAIN)
        at.counted_ns = coord_phase_trained_ns(j); /* as after a restart: coord_trace_load */
    at.cuts = at.restarts = at.worker_deaths = 0;
    at.best_cut = 0;
    at.cut_of = 0;
    if (!tables_are_kept(at.phase) && at.phase != PHASE_CUT) {
        at.kept = 0;
        at.kept_value = 0;
    }
    write_pair(w, "progress", &at, sizeof at);
}

uint64_t coord_saved_next_batch(const struct coord_job *j, uint32_t lane)
{
    SHOAL_ASSERT(lane < j->tasks.lanes);
    bool anew = j->checkpoint.of_done && coord_saved_as(j) == PHASE_GROW;
    return anew ? 1 : j->tasks.lane[lane].next_batch;
}

static void lanes_write(struct writer *w, const struct coord_job *j)
{
    struct coord_lane_record record[LIMIT_LANES];
    const struct coord_tasks *t = &j->tasks;
    SHOAL_ASSERT(t->lanes >= 1 && t->lanes <= LIMIT_LANES);
    for (uint32_t l = 0; l < t->lanes; l++)
        record[l] = (struct coord_lane_record){t->lane[l].generation, coord_saved_next_batch(j, l)};
    write_pair(w, "lanes", record, t->lanes * sizeof record[0]);
}

static void windows_write(struct writer *w, const struct coord_job *j)
{
    for (uint32_t n = 0; n <= COORD_WINDOW_EPOCH; n++) {
        size_t bytes;
        void *record = coord_window_record_of(j, n, &bytes);
        if (record != NULL)
            write_numbered(w, "window", n, record, bytes);
        free(record);
    }
    for (uint32_t n = coord_epoch_first(j); n <= j->at.epoch; n++) {
        uint32_t slot = coord_epoch_slot(j, n);
        if (j->windows.trained[slot].job == j->at.number)
            write_numbered(w, "trained", slot + 1, &j->windows.trained[slot],
                           sizeof j->windows.trained[0]);
    }
}

static void days_write(struct writer *w, const struct coord_job *j)
{
    if (!j->spec.replay.on)
        return;
    struct coord_replay_record record = coord_replay_record_of(j, j->checkpoint.of_day);
    write_numbered(w, "replay", 0, &record, sizeof record);
    for (uint32_t n = 0; n < j->replay.ended; n++) {
        char *text = coord_replay_day_text(j, n);
        if (text == NULL)
            w->failed = true;
        else
            write_numbered(w, "day", n, text, strlen(text));
        free(text);
    }
}

static void details_write(struct writer *w, const char *key, struct json *details)
{
    if (details == NULL)
        return;
    struct json *stored = json_new_object();
    json_set_int(stored, "job", 0);
    json_set(stored, "details", json_hold(details));
    char *text = json_text(stored, 0);
    if (text != NULL)
        write_pair(w, key, text, strlen(text));
    json_free(stored);
    free(text);
}

/* A coordinator that has run since before there were names knows none. */
static void taken_write(struct writer *w, const struct coord_job *j)
{
    size_t bytes;
    void *record = coord_taken_record(j, &bytes);
    if (record != NULL)
        write_pair(w, "taken/0", record, bytes);
    else if (j->fleet->taken.version > 0)
        w->failed = true;
    free(record);
}

/* All but the progress, and what the tables have learnt. */
static void job_write(struct writer *w, const struct coord_job *j)
{
    SHOAL_ASSERT(j->at.epoch >= 1 && j->at.epoch <= coord_epochs(j));
    SHOAL_ASSERT(j->tasks.tasks <= COORD_TASKS_MAX && j->trace.curve.count <= COORD_CURVE_MAX);
    lanes_write(w, j);
    for (uint32_t i = 0; i < j->tasks.tasks; i++) {
        struct coord_task_record record;
        if (j->tasks.task[i].first_batch == 0)
            continue;
        coord_task_to_record(&j->tasks, i, j->at.run, &record);
        write_numbered(w, "task", i, &record, sizeof record);
    }
    for (uint32_t n = coord_epoch_first(j); n <= j->at.epoch; n++) {
        uint32_t slot = coord_epoch_slot(j, n);
        if (j->epoch[slot].number == j->at.number)
            write_numbered(w, "epoch", slot + 1, &j->epoch[slot], sizeof j->epoch[0]);
    }
    if (coord_grow_on(j)) {
        SHOAL_ASSERT(j->grow.record != NULL && j->grow.at.round == j->at.epoch); /* grow.h, 2 */
        write_pair(w, "grow/0", j->grow.record, j->grow.record_bytes);
    }
    for (uint32_t n = 1; n <= j->valid.count; n++)
        write_numbered(w, "valid", n, &j->valid.item[n - 1], sizeof j->valid.item[0]);
    windows_write(w, j);
    days_write(w, j);
    details_write(w, "details/valid", j->details[WIRE_VALID]);
    for (uint32_t i = 0; i < j->trace.curve.count; i++)
        write_numbered(w, "curve", i, &j->trace.curve.point[i], sizeof j->trace.curve.point[0]);
}

int coord_saved_make(const struct coord_job *j, void **bytes, size_t *count, struct err *e)
{
    struct writer w = {.count = 0};
    SHOAL_ASSERT(j->cut.state == CUT_HOLDING); /* the state of an instant: cut.h */
    write_bytes(&w, magic, sizeof magic);
    progress_write(&w, j);
    if (!j->checkpoint.of_tables)
        job_write(&w, j);
    taken_write(&w, j);
    if (w.failed) {
        free(w.bytes);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the coordinator's part of a checkpoint");
    }
    SHOAL_VERIFY_ASSERT(coord_saved_open(w.bytes, w.count, &(struct coord_saved){0}, NULL) == 0);
    *bytes = w.bytes;
    *count = w.count;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct pair {
    char key[COORD_KEY_MAX];
    const uint8_t *value; /* not aligned */
    uint32_t bytes;
};

/* The pair at *at, which moves on; false: there is none, or it does not fit. */
static bool pair_next(const struct coord_saved *s, size_t *at, struct pair *out)
{
    uint32_t head[2];
    SHOAL_ASSERT(*at <= s->count);
    if (s->count - *at < sizeof head)
        return false;
    memcpy(head, s->bytes + *at, sizeof head);
    *at += sizeof head;
    if (head[0] == 0 || head[0] >= COORD_KEY_MAX || s->count - *at < head[0] ||
        head[1] > s->count - *at - head[0] || memchr(s->bytes + *at, 0, head[0]) != NULL)
        return false;
    memcpy(out->key, s->bytes + *at, head[0]);
    out->key[head[0]] = 0;
    out->value = s->bytes + *at + head[0];
    out->bytes = head[1];
    *at += (size_t)head[0] + head[1];
    SHOAL_ASSERT(*at <= s->count);
    return true;
}

/* Values under "NAME/N". In each is the number of its job or run: the new one's, when it is taken
 * over. */
static const struct kind {
    const char *name;
    uint32_t most;           /* of N */
    size_t bytes, number_at; /* at least so many */
    bool of_run;             /* else of the job */
    size_t more;             /* bytes, up to so many; 0: none */
} kinds[] = {
    {"task/", COORD_TASKS_MAX - 1, sizeof(struct coord_task_record),
     offsetof(struct coord_task_record, run), true, 0},
    {"epoch/", COORD_EPOCHS_MAX, sizeof(struct coord_epoch), offsetof(struct coord_epoch, number),
     false, 0},
    {"valid/", COORD_EVALUATIONS_MAX, sizeof(struct coord_evaluation),
     offsetof(struct coord_evaluation, number), false, 0},
    {"trained/", COORD_EPOCHS_MAX, sizeof(struct coord_trained),
     offsetof(struct coord_trained, job), false, 0},
    {"window/", COORD_WINDOW_EPOCH, sizeof(struct coord_window_record),
     offsetof(struct coord_window_record, job), false, COORD_WINDOW_BYTES_MAX},
    {"grow/", 0, sizeof(struct coord_grow_record), offsetof(struct coord_grow_record, job), false,
     COORD_VALUE_MAX},
    {"taken/", 0, sizeof(struct coord_taken_head), offsetof(struct coord_taken_head, job), false,
     COORD_TAKEN_RECORD_MAX},
    {"replay/", 0, sizeof(struct coord_replay_record), offsetof(struct coord_replay_record, job),
     false, 0},
    {"curve/", COORD_CURVE_MAX - 1, sizeof(struct coord_point), offsetof(struct coord_point, job),
     false, 0},
};

static bool numbered(const char *key, const char *name, uint32_t most)
{
    size_t bytes = strlen(name);
    if (strncmp(key, name, bytes) != 0)
        return false;
    size_t digits = strspn(key + bytes, "0123456789");
    return digits > 0 && digits <= 9 && key[bytes + digits] == 0 &&
           strtoul(key + bytes, NULL, 10) <= most;
}

/* Figures, as text: of a day (replay.h), or of the last evaluation. */
static bool is_text(const char *key)
{
    return numbered(key, "day/", WIRE_WINDOWS_MAX) || strcmp(key, "details/valid") == 0;
}

/* NULL: it is none of these. */
static const struct kind *kind_of(const char *key)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (numbered(key, kinds[i].name, kinds[i].most))
            return &kinds[i];
    return NULL;
}

/* Numbers that only count up from 1: far from an end that they could wrap at. */
static bool number_ok(uint64_t n, uint64_t least)
{
    return n >= least && n < 1ull << 60;
}

static bool content_ok(const struct pair *p)
{
    struct coord_lane_record lane;
    struct coord_task_record task;
    for (uint32_t at = 0; strcmp(p->key, "lanes") == 0 && at < p->bytes;
         at += (uint32_t)sizeof lane) {
        SHOAL_ASSERT(p->bytes - at >= sizeof lane); /* size_ok has said so */
        memcpy(&lane, p->value + at, sizeof lane);
        if (!number_ok(lane.next_batch, 1) || !number_ok(lane.generation, 0))
            return false;
    }
    if (strncmp(p->key, "task/", 5) != 0)
        return true;
    SHOAL_ASSERT(p->bytes == sizeof task); /* size_ok has said so */
    memcpy(&task, p->value, sizeof task);
    return number_ok(task.first_batch, 1);
}

static bool size_ok(const struct pair *p)
{
    const struct kind *kind = kind_of(p->key);
    if (kind != NULL)
        return p->bytes == kind->bytes || (p->bytes > kind->bytes && p->bytes <= kind->more);
    if (strcmp(p->key, "progress") == 0)
        return p->bytes == sizeof(struct coord_progress);
    if (strcmp(p->key, "lanes") == 0)
        return p->bytes > 0 && p->bytes % sizeof(struct coord_lane_record) == 0 &&
               p->bytes / sizeof(struct coord_lane_record) <= LIMIT_LANES;
    return is_text(p->key) && p->bytes <= COORD_VALUE_MAX;
}

/* What early stopping says of itself. Cuts are of the cluster that made them: none goes along. */
static bool best_ok(const struct coord_progress *at, uint32_t evaluations)
{
    bool same = at->kept != 0 && at->kept == at->best;
    return at->best <= evaluations && at->kept <= evaluations && isfinite(at->best_value) &&
           isfinite(at->kept_value) && (!same || fabs(at->kept_value - at->best_value) <= 1e-6) &&
           (at->kept == 0 || tables_are_kept(at->phase) || at->phase == PHASE_CUT) &&
           at->best_cut == 0 && at->cut_of == 0;
}

static int progress_check(const struct coord_progress *at, uint32_t evaluations, struct err *e)
{
    if (!coord_saved_phase(at->phase) || at->epoch < 1 || at->epoch > COORD_ROUNDS_MAX ||
        !isfinite(at->lr_scale) || at->lr_scale < 0 || at->lr_scale > 1 ||
        at->split[WIRE_TRAIN].rows == 0)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the saved job is in phase %u, epoch %u, which cannot be", at->phase,
                       at->epoch);
    if (!best_ok(at, evaluations) && !PLANTED("crafted_checkpoint"))
        return err_set(e, SHOAL_E_CORRUPT,
                       "the saved job's best evaluation is %u (%.9g), the one kept %u (%.9g), of "
                       "%u: that cannot be; somebody has changed it, take another checkpoint",
                       at->best, at->best_value, at->kept, at->kept_value, evaluations);
    return 0;
}

int coord_saved_open(const void *bytes, size_t count, struct coord_saved *out, struct err *e)
{
    struct pair p;
    size_t at = sizeof magic;
    bool progress = false;
    *out = (struct coord_saved){.bytes = bytes, .count = count};
    if (count < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return err_set(e, SHOAL_E_CORRUPT, "it does not begin as the state of a coordinator");
    while (at < count) {
        if (!pair_next(out, &at, &p))
            return err_set(e, SHOAL_E_CORRUPT, "it is cut short at byte %zu", at);
        if (!size_ok(&p))
            return err_set(
                e, SHOAL_E_VERSION,
                "'%s' of %u bytes is not of this release: restore with the release that wrote it",
                p.key, p.bytes);
        if (!content_ok(&p))
            return err_set(e, SHOAL_E_CORRUPT, "'%s' has batch numbers that cannot be", p.key);
        if (strcmp(p.key, "progress") == 0) {
            memcpy(&out->at, p.value, sizeof out->at);
            progress = true;
        } else if (strcmp(p.key, "lanes") == 0) {
            out->lanes = p.bytes / (uint32_t)sizeof(struct coord_lane_record);
        } else if (strncmp(p.key, "valid/", 6) == 0) {
            uint32_t n = (uint32_t)strtoul(p.key + 6, NULL, 10);
            out->evaluations = n > out->evaluations ? n : out->evaluations;
        }
    }
    if (progress && out->at.phase == PHASE_TABLES)
        return 0; /* the tables alone */
    if (!progress || out->lanes == 0)
        return err_set(e, SHOAL_E_CORRUPT, "progress or lanes are missing");
    SHOAL_ASSERT(at == count && out->lanes <= LIMIT_LANES);
    /* before evaluations had records of their own they had their epochs' numbers */
    uint32_t most = out->evaluations > out->at.epoch ? out->evaluations : out->at.epoch;
    return progress_check(&out->at, most, e);
}

/* ---- taking over ----------------------------------------------------------------------------- */

static bool kind_put(struct coord_job *j, const struct kind *kind, const struct pair *p,
                     uint64_t number)
{
    SHOAL_ASSERT(p->bytes >= kind->bytes); /* coord_saved_open has checked */
    unsigned char *value = malloc(p->bytes);
    if (value == NULL)
        return false;
    memcpy(value, p->value, p->bytes);
    memcpy(value + kind->number_at, &number, sizeof number);
    bool good = coord_job_note(j, p->key, value, p->bytes);
    free(value);
    return good;
}

static bool details_put(struct coord_job *j, const struct pair *p, uint64_t number)
{
    struct json *stored = NULL;
    if (json_parse((const char *)p->value, p->bytes, &stored, NULL) != 0)
        return true; /* the report is shorter without them */
    json_set_int(stored, "job", (int64_t)number);
    char *text = json_text(stored, 0);
    json_free(stored);
    bool good = text == NULL || coord_job_note(j, p->key, text, strlen(text));
    free(text);
    return good;
}

bool coord_saved_put(struct coord_job *j, const struct coord_saved *s, uint64_t number,
                     uint64_t run)
{
    struct pair p;
    size_t at = sizeof magic;
    bool good = true;
    SHOAL_ASSERT(s->lanes > 0 && s->at.epoch >= 1); /* opened, so checked */
    while (good && at < s->count && pair_next(s, &at, &p)) {
        const struct kind *kind = kind_of(p.key);
        if (strcmp(p.key, "taken/0") == 0)
            continue;
        if (strcmp(p.key, "grow/0") == 0)
            coord_grow_key(run, s->at.epoch, p.key);
        if (kind != NULL)
            good = kind_put(j, kind, &p, kind->of_run ? run : number);
        else if (is_text(p.key))
            good = details_put(j, &p, number);
        else if (strcmp(p.key, "lanes") == 0)
            good = coord_job_note(j, p.key, p.value, p.bytes);
    }
    SHOAL_ASSERT(!good || at == s->count);
    return good;
}

const void *coord_saved_taken(const struct coord_saved *s, size_t *bytes)
{
    struct pair p;
    size_t at = sizeof magic;
    while (at < s->count && pair_next(s, &at, &p))
        if (strcmp(p.key, "taken/0") == 0) {
            *bytes = p.bytes;
            return p.value;
        }
    return NULL;
}

/* ---- from ---- */

#define STATE_MAX (256u << 20)
#define PART_MANIFEST_MAX (64u << 20)

/* A file of the folder, or of a part of it: what was read is what was signed. */
static int signed_read(const struct coord_options *o, const struct coord_from *f, const char *part,
                       const char *file, size_t most, void **bytes, size_t *count, struct err *e)
{
    char path[LIMIT_PATH], name[SIGNATURE_NAME];
    (void)snprintf(path, sizeof path, "%.1000s%s%.20s", f->path, part[0] != 0 ? "/" : "", part);
    (void)snprintf(name, sizeof name, "%.64s%s%.40s", part, part[0] != 0 ? "/" : "", file);
    int rc = o->folder->get(path, file, most, bytes, count, e);
    if (rc != 0 || f->signature == NULL || PLANTED("unsigned_job"))
        return rc;
    rc = signature_check_bytes(f->signature, name, *bytes, *count, e);
    if (rc != 0) {
        free(*bytes);
        *bytes = NULL;
    }
    return rc;
}

/* A file that the manifest names, checked. */
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

/* One that is kept and not the best is no better than that. */
static int kept_check(const struct job *was, const struct coord_progress *at, struct err *e)
{
    double more = at->kept_value - at->best_value;
    if (was->train.early_stop.metric == METRIC_LOGLOSS)
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

/* Of a job whose training is over: what ended it is as it was, for there is nothing more to end. */
static int limits_compare(const struct job *was, const struct job *is, struct err *e)
{
    static const char *const metrics[] = {
        [METRIC_AUC] = "auc", [METRIC_LOGLOSS] = "logloss", [METRIC_GAUC] = "gauc"};
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
                     metrics[is->train.early_stop.metric], metrics[was->train.early_stop.metric]);
    return rc;
}

/* Of windows that the job leaves open the checkpoint's hold (given.h). */
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
    if ((before > 0 || was->replay.on) && !PLANTED("time_of_the_checkpoint") &&
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

/* Which rows a batch has, and where days end; windows to come may be others (coord_replay_fits). */
static int replay_compare(const struct job *was, const struct job *is, uint32_t phase,
                          struct err *e)
{
    if (was->replay.on != is->replay.on)
        return err_set(e, SHOAL_E_CONFIG,
                       "the checkpoint is of a %s, and this job is %s: batches already done would "
                       "not be the same ones; %s",
                       was->replay.on ? "replay" : "job that is none",
                       is->replay.on ? "a replay" : "none",
                       was->replay.on ? "go on with shoal replay, or a section replay as it had"
                                      : "take the section replay away");
    if (!is->replay.on)
        return 0;
    if (was->replay.window != is->replay.window)
        return differs("replay.window, in seconds,", was->replay.window, is->replay.window, e);
    if (was->replay.every != is->replay.every)
        return differs("replay.every, in seconds,", was->replay.every, is->replay.every, e);
    if (tables_are_kept(phase) && !same_spans(was, is))
        return err_set(e, SHOAL_E_CONFIG,
                       "the checkpoint is of the end of a replay, and replay.from, to or leave_out "
                       "are others now: it is over; take the checkpoint of its last day");
    return 0;
}

static int spec_compare(const struct job *was, const struct job *is, const struct coord_saved *s,
                        struct err *e)
{
    static const char *const modes[] = {"async", "ssp", "bsp"};
    SHOAL_ASSERT(was->train.mode < sizeof modes / sizeof modes[0]);
    SHOAL_ASSERT(is->train.mode < sizeof modes / sizeof modes[0]);
    uint32_t lanes = is->train.lanes == 0 ? 2 : is->train.lanes;
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
        return 0; /* there are no further batches */
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
    rc = replay_compare(was, is, s->at.phase, e);
    if (rc == 0)
        rc = windows_compare(was, is, e);
    if (rc != 0)
        return rc;
    if (was->train.mode != is->train.mode)
        return err_set(e, SHOAL_E_CONFIG,
                       "train.consistency is %s, in the checkpoint it was %s: take that one",
                       modes[is->train.mode], modes[was->train.mode]);
    rc = tables_are_kept(s->at.phase) ? limits_compare(was, is, e) : 0;
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
    if (rc == 0 && !f->start)
        rc = spec_compare(&was, spec, &f->saved, e);
    /* what a tensor or a field is, names say; who goes on has all of it, and older ones no names */
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

/* ---- the whole ------------------------------------------------------------------------------- */

/* Before a byte of the rest is believed. */
static int signature_take(const struct coord_options *o, struct coord_from *f, struct err *e)
{
    const char *signers = o->checkpoint_signers;
    return signers == NULL || signers[0] == 0
               ? 0
               : o->folder->signature(f->path, signers, &f->signature, e);
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
    const char *root = o->checkpoint_root == NULL ? "" : o->checkpoint_root;
    int rc = o->folder->below(root, path, e);
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
        rc = file_read(o, f, m, MANIFEST_STATE_FILE, STATE_MAX, &f->state, &bytes, e);
    if (rc == 0 && (rc = coord_saved_open(f->state, bytes, &f->saved, e)) != 0)
        err_wrap(e, rc, "%s/" MANIFEST_STATE_FILE, path);
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
    json_free(m);
    return rc;
}

void coord_from_close(const struct coord_options *o, struct coord_from *f)
{
    free(f->state);
    f->state = NULL;
    legend_free(&f->legend);
    signature_free(f->signature);
    f->signature = NULL;
    if (o->folder != NULL)
        o->folder->let_go(&f->hold);
    SHOAL_ASSERT(f->hold == COORD_FOLDER_NONE);
}

void coord_from_progress(const struct coord_from *f, const struct coord_progress *job,
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
    if (!f->stops_alike && !tables_are_kept(was->phase)) {
        /* the best value so far says nothing of those that come */
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

void coord_from_let_go(struct coord_job *j)
{
    if (j->fleet->options.folder != NULL)
        coord_errand_let_go(j->fleet, j->at.from_path, &j->from_hold);
}
