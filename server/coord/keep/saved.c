/* saved.c: rows of the store as one file, and back. */
#include "server/coord/keep/saved.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/wire/wire.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/judge.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/figures/trace.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/taken_names.h"
#include "server/coord/work/task.h"

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
    if (coord_checkpoint_of_tables(j) && j->checkpoint->state != CHECKPOINT_IDLE)
        return PHASE_TABLES;
    bool ended = phase == PHASE_DONE || phase == PHASE_DIGEST || phase == PHASE_TEST;
    uint64_t rows = 0;
    if (coord_grow_on(j))
        rows = j->grow->at.before_rows + j->grow->at.rows;
    if (ended && rows > 0 && j->at.train_rows == rows)
        return PHASE_GROW; /* more rows may come in a log that grows */
    if (phase == PHASE_DONE)
        return PHASE_DIGEST;
    return phase;
}

bool coord_saved_tables_kept(uint32_t phase)
{
    return phase == PHASE_TEST || phase == PHASE_DIGEST;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows of a job under "NAME/N", or NAME when it ends without a slash. Each names its job or run;
 * when a job goes on from the checkpoint, the new number replaces it. */
static const struct kind {
    const char *name;
    uint32_t most;           /* highest N */
    size_t bytes, number_at; /* the least number of bytes; offset of the job or run */
    size_t more;             /* further bytes, at most; 0: none */
    bool of_run;             /* it names a run; else a job */
    bool made;               /* made at the instant of the cut; else as the store has it */
    bool text;               /* JSON with a member "job" */
} kinds[] = {
#define RECORD(type, member)                                                                       \
    .bytes = sizeof(struct type), .number_at = offsetof(struct type, member)
    {"task/", COORD_TASKS_MAX - 1, RECORD(coord_task_record, run), .of_run = true},
    {"epoch/", COORD_EPOCHS_MAX, RECORD(coord_epoch, number)},
    {"valid/", COORD_EVALUATIONS_MAX, RECORD(coord_evaluation, number)},
    {"trained/", COORD_EPOCHS_MAX, RECORD(coord_trained, job)},
    {"window/", COORD_WINDOW_EPOCH, RECORD(coord_progressive_record, job),
     .more = COORD_WINDOW_BYTES_MAX},
    {"curve/", COORD_CURVE_MAX - 1, RECORD(coord_point, job)},
    {"day/", WIRE_WINDOWS_MAX, .more = COORD_VALUE_MAX, .text = true},
    {"details/valid", .more = COORD_VALUE_MAX, .text = true},
    {"grow/", 0, RECORD(coord_grow_record, job), .more = COORD_VALUE_MAX, .made = true},
    {"taken/", 0, RECORD(coord_taken_head, job), .more = COORD_TAKEN_RECORD_MAX, .made = true},
    {"replay/", 0, RECORD(coord_replay_record, job), .made = true},
    {"ring", 0, RECORD(coord_ring_record, run), .of_run = true, .made = true},
#undef RECORD
};

static bool is_of(const char *key, const struct kind *kind)
{
    size_t bytes = strlen(kind->name);
    if (strncmp(key, kind->name, bytes) != 0)
        return false;
    if (kind->name[bytes - 1] != '/')
        return key[bytes] == 0;
    size_t digits = strspn(key + bytes, "0123456789");
    return digits > 0 && digits <= 9 && key[bytes + digits] == 0 &&
           strtoul(key + bytes, NULL, 10) <= kind->most;
}

/* NULL: a key of no kind. */
static const struct kind *kind_of(const char *key)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is_of(key, &kinds[i]))
            return &kinds[i];
    return NULL;
}

static bool fits(const struct kind *kind, size_t bytes)
{
    return bytes == kind->bytes || (bytes > kind->bytes && bytes <= kind->more);
}

/* Returns the job or run that a row names; 0: none. */
static uint64_t owner_of(const struct kind *kind, const void *value, size_t bytes)
{
    uint64_t owner = 0;
    struct json *stored = NULL;
    if (kind->text && json_parse(value, bytes, &stored, NULL) == 0)
        owner = (uint64_t)json_as_int(json_get(stored, "job"), 0);
    else if (!kind->text && bytes >= kind->bytes)
        memcpy(&owner, (const char *)value + kind->number_at, sizeof owner);
    json_free(stored);
    return owner;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
    const struct coord_job *j;
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

/* Writes the progress with time counted up to now, and without what belongs to this cluster
 * alone. */
static void progress_write(struct writer *w, const struct coord_job *j)
{
    struct coord_progress at = j->at;
    uint64_t now = env_now_ns(j->fleet->env);
    at.phase = coord_saved_as(j);
    if (at.phase == PHASE_TABLES) { /* a checkpoint of the tables alone, without a job */
        at = (struct coord_progress){.number = j->space->made->number, .phase = PHASE_TABLES};
        write_pair(w, "progress", &at, sizeof at);
        return;
    }
    if (j->started_ns != 0 && coord_phase_running(j))
        at.elapsed_ns += now - j->started_ns;
    if (at.phase == PHASE_TRAIN)
        at.counted_ns = coord_phase_trained_ns(j); /* as after a restart: coord_trace_load */
    at.cuts = at.restarts = at.worker_deaths = 0;
    at.best_cut = 0;
    at.cut_of = 0;
    if (!coord_saved_tables_kept(at.phase) && at.phase != PHASE_CUT) {
        at.kept = 0;
        at.kept_value = 0;
    }
    write_pair(w, "progress", &at, sizeof at);
}

uint64_t coord_saved_next_batch(const struct coord_job *j, uint32_t lane)
{
    SHOAL_ASSERT(lane < j->tasks->lanes);
    bool anew = j->checkpoint->reason == CHECKPOINT_OF_DONE && coord_saved_as(j) == PHASE_GROW;
    if (anew)
        return 1;
    return j->tasks->lane[lane].next_batch;
}

static void lanes_write(struct writer *w, const struct coord_job *j)
{
    struct coord_lane_record record[LIMIT_LANES];
    const struct coord_tasks *t = j->tasks;
    SHOAL_ASSERT(t->lanes >= 1 && t->lanes <= LIMIT_LANES);
    for (uint32_t l = 0; l < t->lanes; l++)
        record[l] = (struct coord_lane_record){t->lane[l].generation, coord_saved_next_batch(j, l)};
    write_pair(w, "lanes", record, t->lanes * sizeof record[0]);
}

/* A lane that begins anew has no mark, nor has the network then (coord_saved_next_batch). */
static void ring_write(struct writer *w, const struct coord_job *j)
{
    struct coord_ring_record record;
    coord_ring_saved(j, coord_saved_next_batch(j, 0) > 1, &record);
    write_pair(w, "ring", &record, sizeof record);
}

/* When the checkpoint is that of a day's end, the day counts as kept. */
static void replay_write(struct writer *w, const struct coord_job *j)
{
    struct coord_replay_record record =
        coord_replay_record_of(j, j->checkpoint->reason == CHECKPOINT_OF_DAY);
    write_pair(w, "replay/0", &record, sizeof record);
}

/* A coordinator that has run since a release without names knows none, and writes nothing. */
static void taken_write(struct writer *w, const struct coord_job *j)
{
    size_t bytes;
    void *record = coord_taken_record(j, &bytes);
    if (record != NULL)
        write_pair(w, "taken/0", record, bytes);
    else if (j->space->taken->version > 0)
        w->failed = true;
    free(record);
}

/* Writes a stored row of the job unchanged. */
static int row_write(void *context, const char *key, const void *value, size_t bytes)
{
    struct writer *w = context;
    const struct coord_job *j = w->j;
    const struct kind *kind = kind_of(key);
    if (kind == NULL || kind->made || !fits(kind, bytes))
        return 0;
    if (owner_of(kind, value, bytes) == (kind->of_run ? j->at.run : j->at.number))
        write_pair(w, key, value, bytes);
    if (w->failed)
        return SHOAL_E_NOMEM;
    return 0;
}

/* Writes all rows except the progress and what the tables have learnt. */
static void job_write(struct writer *w, const struct coord_job *j)
{
    SHOAL_ASSERT(j->at.epoch >= 1 && j->at.epoch <= coord_epochs(j));
    lanes_write(w, j);
    if (coord_grow_on(j)) {
        SHOAL_ASSERT(j->grow->record != NULL && j->grow->at.round == j->at.epoch); /* grow.h, 2 */
        write_pair(w, "grow/0", j->grow->record, j->grow->record_bytes);
    }
    if (j->spec.replay.on)
        replay_write(w, j);
    if (coord_ring_on(j))
        ring_write(w, j);
    (void)coord_store_visit(j->store, row_write, w);
}

int coord_saved_make(const struct coord_job *j, void **bytes, size_t *count, struct err *e)
{
    struct writer w = {.j = j};
    SHOAL_ASSERT(j->cut->state == CUT_HOLDING); /* the state is that of one instant: cut.h */
    write_bytes(&w, magic, sizeof magic);
    progress_write(&w, j);
    if (!coord_checkpoint_of_tables(j))
        job_write(&w, j);
    taken_write(&w, j);
    if (w.failed) {
        free(w.bytes);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the coordinator's part of a checkpoint");
    }
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

/* Reads the pair at *at, and moves *at on; false: there is none, or it does not fit. */
static bool pair_next(const uint8_t *bytes, size_t count, size_t *at, struct pair *out)
{
    uint32_t head[2];
    SHOAL_ASSERT(*at <= count);
    if (count - *at < sizeof head)
        return false;
    memcpy(head, bytes + *at, sizeof head);
    *at += sizeof head;
    if (head[0] == 0 || head[0] >= COORD_KEY_MAX || count - *at < head[0] ||
        head[1] > count - *at - head[0] || memchr(bytes + *at, 0, head[0]) != NULL)
        return false;
    memcpy(out->key, bytes + *at, head[0]);
    out->key[head[0]] = 0;
    out->value = bytes + *at + head[0];
    out->bytes = head[1];
    *at += (size_t)head[0] + head[1];
    SHOAL_ASSERT(*at <= count);
    return true;
}

/* A number that only counts up from 1 must be far from the end at which it could wrap. */
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
        SHOAL_ASSERT(p->bytes - at >= sizeof lane); /* size_ok has checked it */
        memcpy(&lane, p->value + at, sizeof lane);
        if (!number_ok(lane.next_batch, 1) || !number_ok(lane.generation, 0))
            return false;
    }
    if (strncmp(p->key, "task/", 5) != 0)
        return true;
    SHOAL_ASSERT(p->bytes == sizeof task); /* size_ok has checked it */
    memcpy(&task, p->value, sizeof task);
    return number_ok(task.first_batch, 1);
}

static bool size_ok(const struct pair *p)
{
    const struct kind *kind = kind_of(p->key);
    if (kind != NULL)
        return fits(kind, p->bytes);
    if (strcmp(p->key, "progress") == 0)
        return p->bytes == sizeof(struct coord_progress);
    if (strcmp(p->key, "lanes") == 0)
        return p->bytes > 0 && p->bytes % sizeof(struct coord_lane_record) == 0 &&
               p->bytes / sizeof(struct coord_lane_record) <= LIMIT_LANES;
    return false;
}

/* Checks the state of early stopping. A cut belongs to the cluster that made it, so the checkpoint
 * has none. */
static bool best_ok(const struct coord_progress *at, uint32_t evaluations)
{
    bool same = at->kept != 0 && at->kept == at->best;
    return at->best <= evaluations && at->kept <= evaluations && isfinite(at->best_value) &&
           isfinite(at->kept_value) && (!same || fabs(at->kept_value - at->best_value) <= 1e-6) &&
           (at->kept == 0 || coord_saved_tables_kept(at->phase) || at->phase == PHASE_CUT) &&
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
    if (!best_ok(at, evaluations))
        return err_set(e, SHOAL_E_CORRUPT,
                       "the saved job's best evaluation is %u (%.9g), the one kept %u (%.9g), of "
                       "%u: that cannot be; somebody has changed it, take another checkpoint",
                       at->best, at->best_value, at->kept, at->kept_value, evaluations);
    return 0;
}

/* Checks one pair and puts it into the rows. */
static int pair_take(struct coord_saved *s, const struct pair *p, struct err *e)
{
    if (!size_ok(p))
        return err_set(
            e, SHOAL_E_VERSION,
            "'%s' of %u bytes is not of this release: restore with the release that wrote it",
            p->key, p->bytes);
    if (!content_ok(p))
        return err_set(e, SHOAL_E_CORRUPT, "'%s' has batch numbers that cannot be", p->key);
    if (strcmp(p->key, "lanes") == 0)
        s->lanes = p->bytes / (uint32_t)sizeof(struct coord_lane_record);
    uint32_t n = 0;
    if (strncmp(p->key, "valid/", 6) == 0)
        n = (uint32_t)strtoul(p->key + 6, NULL, 10);
    s->evaluations = MAX(n, s->evaluations);
    return coord_store_put(s->rows, p->key, p->value, p->bytes, e);
}

static int rows_take(struct coord_saved *s, const uint8_t *bytes, size_t count, struct err *e)
{
    struct pair p;
    size_t at = sizeof magic;
    if (count < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return err_set(e, SHOAL_E_CORRUPT, "it does not begin as the state of a coordinator");
    while (at < count) {
        if (!pair_next(bytes, count, &at, &p))
            return err_set(e, SHOAL_E_CORRUPT, "it is cut short at byte %zu", at);
        int rc = pair_take(s, &p, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int coord_saved_open(const void *bytes, size_t count, struct coord_saved *out, struct err *e)
{
    *out = (struct coord_saved){.rows = coord_store_memory()};
    if (out->rows == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the state of a coordinator");
    int rc = rows_take(out, bytes, count, e);
    if (rc != 0)
        return rc;
    rc = coord_store_get_fixed(out->rows, "progress", &out->at, sizeof out->at, e);
    if (rc == 0 && out->at.phase == PHASE_TABLES)
        return 0; /* a checkpoint of the tables alone */
    if (rc == SHOAL_E_NOT_FOUND || out->lanes == 0)
        return err_set(e, SHOAL_E_CORRUPT, "progress or lanes are missing");
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(out->lanes <= LIMIT_LANES);
    /* in older releases evaluations had no records, and had their epochs' numbers */
    uint32_t most = MAX(out->evaluations, out->at.epoch);
    return progress_check(&out->at, most, e);
}

void coord_saved_close(struct coord_saved *s)
{
    coord_store_close(s->rows);
    s->rows = NULL;
}

/* ---- taking over ----------------------------------------------------------------------------- */

struct taking {
    struct coord_job *j;
    const struct coord_saved *s;
    uint64_t run;
};

/* Makes a stored row void that the checkpoint does not have: its event is to come again. */
static int row_forget(void *context, const char *key, const void *value, size_t bytes)
{
    static const union {
        struct coord_epoch epoch;
        struct coord_evaluation evaluation;
        struct coord_trained trained;
        struct coord_progressive_record window;
        struct coord_point point;
    } none;
    const struct taking *t = context;
    const struct kind *kind = kind_of(key);
    void *had;
    size_t had_bytes;
    if (kind == NULL || kind->made || kind->of_run ||
        owner_of(kind, value, bytes) != t->j->at.number)
        return 0;
    int rc = coord_store_get(t->s->rows, key, &had, &had_bytes, NULL);
    if (rc == 0)
        free(had);
    if (rc != SHOAL_E_NOT_FOUND)
        return rc;
    SHOAL_ASSERT(kind->bytes <= sizeof none);
    bool good;
    if (kind->text)
        good = coord_job_note(t->j, key, "{}", 2);
    else
        good = coord_job_note(t->j, key, &none, kind->bytes);
    if (!good)
        return SHOAL_E_IO;
    return 0;
}

/* Puts the lanes; a generation that was granted since the checkpoint is not granted again. */
static bool lanes_put(struct coord_job *j, const void *value, size_t bytes)
{
    struct coord_lane_record record[LIMIT_LANES];
    SHOAL_ASSERT(bytes <= sizeof record); /* size_ok has checked it */
    memcpy(record, value, bytes);
    for (uint32_t l = 0; l < j->tasks->lanes && l < bytes / sizeof record[0]; l++)
        if (record[l].generation < j->tasks->lane[l].generation)
            record[l].generation = j->tasks->lane[l].generation;
    return coord_job_note(j, "lanes", record, bytes);
}

static bool text_put(struct coord_job *j, const char *key, const void *value, size_t bytes)
{
    struct json *stored = NULL;
    if (json_parse(value, bytes, &stored, NULL) != 0)
        return true; /* the report is shorter without it */
    json_set_int(stored, "job", (int64_t)j->at.number);
    char *text = json_text(stored, 0);
    json_free(stored);
    bool good = text == NULL || coord_job_note(j, key, text, strlen(text));
    free(text);
    return good;
}

static bool record_put(const struct taking *t, const struct kind *kind, const char *key,
                       const void *value, size_t bytes)
{
    const uint64_t *number = kind->of_run ? &t->run : &t->j->at.number;
    char round[COORD_KEY_MAX];
    SHOAL_ASSERT(bytes >= kind->bytes); /* size_ok has checked it */
    unsigned char *record = malloc(bytes);
    if (record == NULL)
        return false;
    memcpy(record, value, bytes);
    memcpy(record + kind->number_at, number, sizeof *number);
    if (strcmp(key, "grow/0") == 0) {
        coord_grow_key(t->run, t->s->at.epoch, round);
        key = round;
    }
    bool good = coord_job_note(t->j, key, record, bytes);
    free(record);
    return good;
}

static int row_put(void *context, const char *key, const void *value, size_t bytes)
{
    const struct taking *t = context;
    const struct kind *kind = kind_of(key);
    bool good = true;
    if (strcmp(key, "lanes") == 0)
        good = lanes_put(t->j, value, bytes);
    else if (kind != NULL && kind->text)
        good = text_put(t->j, key, value, bytes);
    else if (kind != NULL && strcmp(key, "taken/0") != 0)
        good = record_put(t, kind, key, value, bytes);
    if (!good)
        return SHOAL_E_IO;
    return 0;
}

bool coord_saved_put(struct coord_job *j, const struct coord_saved *s, uint64_t run)
{
    struct taking t = {.j = j, .s = s, .run = run};
    return coord_store_visit(j->store, row_forget, &t) == 0 &&
           coord_store_visit(s->rows, row_put, &t) == 0;
}
