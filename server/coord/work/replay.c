/* replay.c: windows, days and their figures. */
#include "server/coord/work/replay.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/metric/measure.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS_KEY "replay/windows" /* the job's number; struct wire_window (windows) */
#define RECORD_KEY "replay/0"
#define DAY_TRIES 3u
#define BY_VALUES 1024u
#define TASK_BATCHES 16u /* fixed, so that later windows change no earlier task */

/* ---- life ------------------------------------------------------------------------------------ */

int coord_replay_open(struct coord_replay *r, const struct job *job, struct err *e)
{
    uint32_t labels = MAX(job->data.label_count, 1);
    int rc = 0;
    *r = (struct coord_replay){.labels = labels, .real = job_real_labels(job)};
    if (!job->replay.on)
        return 0;
    r->by = calloc(job->evaluate.by.count + 1, sizeof *r->by);
    r->day = calloc(labels, sizeof *r->day);
    r->days = json_new_array();
    if (r->by == NULL || r->day == NULL || r->days == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the figures of days");
    metric_tally_clear(r->day, labels, r->real);
    for (; rc == 0 && r->by_count < job->evaluate.by.count; r->by_count += rc == 0)
        rc = metric_by_open(&r->by[r->by_count], labels, r->real, BY_VALUES, e);
    return rc;
}

static void hours_free(struct coord_replay *r)
{
    for (uint32_t i = 0; r->hour != NULL && i < r->segments; i++)
        free(r->hour[i]);
    free(r->hour);
    r->hour = NULL;
}

void coord_replay_close(struct coord_replay *r)
{
    hours_free(r);
    for (uint32_t i = 0; i < r->by_count; i++)
        metric_by_close(&r->by[i]);
    free(r->by);
    free(r->day);
    free(r->window);
    free(r->segment);
    free(r->piece);
    free(r->number);
    json_free(r->days);
    memset(r, 0, sizeof *r);
}

/* ---- windows --------------------------------------------------------------------------------- */

static bool meets(const struct job_span *s, uint64_t from, uint64_t to)
{
    return s->from < to && (s->to == 0 || s->to > from);
}

/* True when the window is trained. A window that a span meets is taken or left out whole. */
static bool taken(const struct job *job, uint32_t number)
{
    uint32_t from = zone_from(&job->data.zone, job->replay.window, number);
    uint64_t to = zone_end(&job->data.zone, job->replay.window, from);
    bool take = meets(&job->replay.range, from, to);
    for (uint32_t i = 0; take && i < job->replay.outs; i++)
        take = !meets(&job->replay.out[i], from, to);
    return take;
}

static uint32_t window_from(const struct coord_job *j, uint32_t segment)
{
    return zone_from(&j->spec.data.zone, j->spec.replay.window, j->replay->number[segment]);
}

/* Returns the time at which the segment's day begins. */
static uint32_t day_of(const struct coord_job *j, uint32_t segment)
{
    return zone_begin(&j->spec.data.zone, j->spec.replay.every, window_from(j, segment));
}

/* Counts the batches; no batch spans two pieces. */
static uint64_t segment_batches(const struct coord_segment *s, uint32_t batch)
{
    if (s->pieces == 0)
        return (s->rows + batch - 1) / batch;
    uint64_t sum = 0;
    for (uint32_t p = 0; p < s->pieces; p++)
        sum += (s->piece[p].rows + batch - 1) / batch;
    return sum;
}

/* Returns how many pieces from `at` on have `rows` rows in all: the pieces of a window. */
static uint32_t pieces_of(const struct coord_replay *r, uint32_t at, uint64_t rows)
{
    uint32_t pieces = 0;
    uint64_t sum = 0;
    while (r->piece != NULL && sum < rows)
        sum += r->piece[at + pieces++].rows;
    SHOAL_ASSERT(r->piece == NULL || sum == rows);
    return pieces;
}

int coord_replay_segments(struct coord_job *j, struct err *e)
{
    struct coord_replay *r = j->replay;
    uint64_t position = 0;
    uint32_t piece = 0, pieces;
    r->segment = malloc(r->windows * sizeof *r->segment);
    r->number = malloc(r->windows * sizeof *r->number);
    r->hour = calloc(r->windows, sizeof *r->hour);
    if (r->segment == NULL || r->number == NULL || r->hour == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u windows", r->windows);
    for (uint32_t i = 0; i < r->windows; position += r->window[i++].rows, piece += pieces) {
        pieces = pieces_of(r, piece, r->window[i].rows);
        if (!taken(&j->spec, r->window[i].number))
            continue;
        struct coord_segment *s = &r->segment[r->segments];
        *s = (struct coord_segment){.position = position, .rows = r->window[i].rows};
        s->pieces = pieces;
        if (pieces > 0)
            s->piece = r->piece + piece;
        r->number[r->segments++] = r->window[i].number;
        r->rows += s->rows;
        r->batches += segment_batches(s, job_batch_rows(&j->spec));
    }
    if (r->segments == 0)
        return err_set(e, SHOAL_E_DATA,
                       "replay: none of the %u windows of data.train is between replay.from and "
                       "replay.to and not left out",
                       r->windows);
    return 0;
}

bool coord_replay_windows_ok(const struct wire_window *w, uint32_t count, uint64_t rows)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (w[i].rows == 0 || w[i].rows > rows - sum || (i > 0 && w[i].number <= w[i - 1].number))
            return false;
        sum += w[i].rows;
    }
    return count > 0 && sum == rows;
}

static int windows_take(struct coord_job *j, const void *frame, uint32_t count, struct err *e)
{
    struct coord_replay *r = j->replay;
    r->window = malloc((count + 1ull) * sizeof *r->window);
    if (r->window == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u windows", count);
    memcpy(r->window, frame, count * sizeof *r->window);
    r->windows = count;
    return coord_replay_segments(j, e);
}

static int windows_put(struct coord_job *j, struct err *e)
{
    const struct coord_replay *r = j->replay;
    const struct coord_part windows = {r->window, r->windows * sizeof *r->window};
    return coord_job_put_parts(j, WINDOWS_KEY, &windows, 1, e);
}

int coord_replay_windows(struct coord_job *j, struct coord_ask *a, bool *ends)
{
    const struct wire_WINDOWS *q = &a->request->u.WINDOWS;
    const struct wire_window *frame = a->m->frame[1].data;
    size_t bytes = q->windows * sizeof *frame;
    if (!j->spec.replay.on || j->spec.data.objects.of[WIRE_TRAIN].on ||
        j->at.split[WIRE_TRAIN].used == 0)
        return err_set(&a->e, SHOAL_E_MALFORMED,
                       "this job is no replay, or one by objects: its log has no windows");
    struct wire_window *copy = malloc(bytes + 1); /* a frame may be unaligned */
    if (copy == NULL)
        return err_set(&a->e, SHOAL_E_NOMEM, "no memory for %u windows", q->windows);
    memcpy(copy, frame, bytes);
    int rc = 0;
    if (!coord_replay_windows_ok(copy, q->windows, q->rows))
        rc = err_set(&a->e, SHOAL_E_MALFORMED, "%u windows cannot be those of %" PRIu64 " rows",
                     q->windows, q->rows);
    else if (j->replay->windows != 0 &&
             (j->replay->windows != q->windows || memcmp(j->replay->window, copy, bytes) != 0))
        rc = err_set(&a->e, SHOAL_E_DATA,
                     "data.train: worker %s finds other windows than the others: all workers must "
                     "see the same files",
                     a->worker->name);
    *ends = rc == 0 && j->replay->windows == 0;
    if (*ends && (rc = windows_take(j, copy, q->windows, &a->e)) == 0 &&
        (rc = windows_put(j, &a->e)) == 0) {
        *ends = false;
        log_info("data.train: %u windows of %u s, %u of them trained", j->replay->windows,
                 j->spec.replay.window, j->replay->segments);
    }
    free(copy);
    return rc;
}

static uint64_t piece_hash(const struct coord_job *j, const struct coord_piece *p, uint64_t hash)
{
    const char *name = j->objects[WIRE_TRAIN].object[p->object].line;
    uint64_t of[] = {hash, hash_bytes(name, strcspn(name, "\t"), 0), p->position, p->rows, p->lane};
    return hash_bytes(of, sizeof of, 0);
}

/* Hashes the first `count` windows that are trained. */
static uint64_t segments_hash(const struct coord_job *j, uint32_t count)
{
    uint64_t hash = j->spec.replay.window;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t of[] = {hash, j->replay->number[i], j->replay->segment[i].position,
                         j->replay->segment[i].rows};
        hash = hash_bytes(of, sizeof of, 0);
        for (uint32_t p = 0; p < j->replay->segment[i].pieces; p++)
            hash = piece_hash(j, &j->replay->segment[i].piece[p], hash);
    }
    return hash;
}

int coord_replay_fits(const struct coord_job *j, struct err *e)
{
    const struct coord_replay *r = j->replay;
    if (r->segments == 0)
        return err_set(e, SHOAL_E_INTERNAL,
                       "the windows of data.train are not known: resume the newest checkpoint");
    if (r->begun == 0 || (r->begun <= r->segments && segments_hash(j, r->begun) == r->begun_hash))
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "the checkpoint has learnt windows that replay.from, replay.window or "
                   "replay.leave_out now say otherwise: take a checkpoint of before them");
}

/* ---- days ------------------------------------------------------------------------------------ */

/* Finds the first window of day `day`, from 0, and of the next day. False: no such day. */
static bool day_find(const struct coord_job *j, uint32_t day, uint32_t *first, uint32_t *next)
{
    const struct coord_replay *r = j->replay;
    uint32_t at = 0;
    for (uint32_t d = 0; at < r->segments; d++) {
        uint32_t end = at;
        while (end < r->segments && day_of(j, end) == day_of(j, at))
            end++;
        *first = at;
        *next = end;
        if (d == day)
            return true;
        at = end;
    }
    return false;
}

/* Returns the first task after a day. */
static uint32_t day_end(const struct coord_job *j, uint32_t day)
{
    uint32_t first, next;
    if (!day_find(j, day, &first, &next) || next == j->replay->segments)
        return j->tasks->tasks;
    return j->replay->segment[next].task;
}

static uint32_t task_batches(struct coord_job *j)
{
    uint32_t said = j->spec.train.task_batches;
    if (j->replay->task_batches == 0)
        j->replay->task_batches = said != 0 ? said : TASK_BATCHES;
    return j->replay->task_batches;
}

int coord_replay_stop(struct coord_job *j, bool scored, struct err *e)
{
    struct coord_replay *r = j->replay;
    uint32_t frontier = coord_task_frontier(j->tasks), day = r->ended;
    bool at_end = day > 0 && day_end(j, day - 1) == frontier;
    if (r->made < r->ended || (at_end && !scored))
        day--;
    uint32_t end = day_end(j, day);
    if (end < frontier)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the replay has ended %u days and begun more than the next one: resume a "
                       "checkpoint of it",
                       r->ended);
    if (end < j->tasks->stop)
        coord_task_stop(j->tasks, end);
    return 0;
}

static uint32_t segment_of(const struct coord_job *j, uint32_t task)
{
    uint32_t low = 0, high = j->replay->segments;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (j->replay->segment[middle].task <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Time counts from the window at hand on, also after a restart: a standstill is not made up for. */
void coord_replay_gate(struct coord_job *j)
{
    struct coord_replay *r = j->replay;
    uint64_t now = coord_now_ns(j);
    if (j->spec.replay.pace <= 0 || r->segments == 0)
        return;
    if (r->paced_ns == 0) {
        uint32_t at = coord_task_frontier(j->tasks);
        r->due = r->segments;
        r->paced_ns = now;
        r->paced_from = 0;
        if (at < j->tasks->tasks)
            r->due = segment_of(j, at);
        if (r->due < r->segments)
            r->paced_from = window_from(j, r->due);
    }
    double passed = (double)(now - r->paced_ns) * 1e-9 * j->spec.replay.pace;
    while (r->due < r->segments && window_from(j, r->due) <= r->paced_from + passed)
        r->due++;
    j->tasks->gate = j->tasks->tasks;
    if (r->due < r->segments)
        j->tasks->gate = r->segment[r->due].task;
}

/* ---- figures --------------------------------------------------------------------------------- */

struct metric_by *coord_replay_count(struct coord_job *j, uint32_t task,
                                     const struct metric_tally *told)
{
    struct coord_replay *r = j->replay;
    uint32_t segment = segment_of(j, task), first, next;
    if (!day_find(j, r->ended, &first, &next) || segment < first)
        return NULL; /* its day is closed already: the report came too late */
    struct metric_tally **hour = &r->hour[segment];
    if (*hour == NULL && (*hour = calloc(r->labels, sizeof **hour)) == NULL) {
        log_warn("no memory for the figures of a window: a task is missing in them");
        return NULL;
    }
    for (uint32_t l = 0; l < r->labels; l++) {
        metric_tally_sum(&(*hour)[l], &told[l]);
        metric_tally_sum(&r->day[l], &told[l]);
    }
    return r->by;
}

static struct json *figures_json(const struct coord_job *j, const struct metric_tally *tally,
                                 struct json *by, uint64_t from, uint64_t rows)
{
    struct metric of[LIMIT_TASKS];
    struct json *item = json_new_object();
    char label[32];
    zone_label(&j->spec.data.zone, from, label);
    json_set_string(item, "from", label);
    json_set_int(item, "rows", (int64_t)rows);
    for (uint32_t l = 0; tally != NULL && l < j->replay->labels; l++)
        metric_tally_figures(&tally[l], &of[l]);
    uint64_t examples = tally != NULL ? metric_most(of, j->replay->labels) : 0;
    json_set_int(item, "examples", (int64_t)examples);
    if (examples > 0)
        json_set(item, "figures", measure_json_report(of, &j->spec, by, false));
    else
        json_set_null(item, "figures");
    return item;
}

/* Returns the figures of the day at hand, and begins them anew. */
static struct json *day_close(struct coord_job *j, uint32_t first, uint32_t next)
{
    struct coord_replay *r = j->replay;
    struct json *hours = json_new_array();
    uint64_t rows = 0;
    for (uint32_t i = first; i < next; i++) {
        rows += r->segment[i].rows;
        json_append(hours,
                    figures_json(j, r->hour[i], NULL, window_from(j, i), r->segment[i].rows));
        free(r->hour[i]);
        r->hour[i] = NULL;
    }
    for (uint32_t f = 0; f < r->by_count; f++)
        metric_by_finish(&r->by[f], MEASURE_TOP);
    struct json *by = measure_json_by(r->by, &j->spec);
    struct json *day = figures_json(j, r->day, by, day_of(j, first), rows);
    json_free(by);
    json_set(day, "hours", hours);
    metric_tally_clear(r->day, r->labels, r->real);
    for (uint32_t f = 0; f < r->by_count; f++)
        metric_by_clear(&r->by[f]);
    return day;
}

/* ---- stored ---------------------------------------------------------------------------------- */

struct coord_replay_record coord_replay_record_of(const struct coord_job *j, bool of_day)
{
    const struct coord_replay *r = j->replay;
    uint32_t frontier = coord_task_frontier(j->tasks);
    /* at least the stored count: after a restart behind training no task is known to be appended */
    uint32_t begun = r->begun <= r->segments ? r->begun : 0;
    while (begun < r->segments && r->segment[begun].task < frontier)
        begun++;
    return (struct coord_replay_record){.job = j->at.number,
                                        .hash = segments_hash(j, begun),
                                        .made = of_day ? r->ended : r->made,
                                        .begun = begun,
                                        .task_batches = r->task_batches};
}

static bool record_put(struct coord_job *j)
{
    struct coord_replay_record record = coord_replay_record_of(j, false);
    return coord_job_put(j, RECORD_KEY, &record, sizeof record);
}

bool coord_replay_note(struct coord_job *j)
{
    return !j->spec.replay.on || record_put(j);
}

static char *day_text(const struct coord_job *j, uint32_t n)
{
    struct json *stored = json_new_object();
    json_set_int(stored, "job", (int64_t)j->at.number);
    json_set(stored, "day", json_hold(json_array_at(j->replay->days, n)));
    char *text = json_text(stored, 0);
    json_free(stored);
    return text;
}

/* The report and each checkpoint tell all days: past COORD_DAYS_BYTES without hours and values,
 * past half as much again without figures. */
static void day_shorten(struct coord_replay *r, struct json *day)
{
    char *text = json_text(day, 0);
    uint64_t bytes = strlen(text_or(text, ""));
    free(text);
    if (r->bytes + bytes > COORD_DAYS_BYTES) {
        if (!r->shortened)
            log_warn("replay: the figures of days have %u MiB: later ones are told without windows "
                     "and values",
                     COORD_DAYS_BYTES >> 20);
        r->shortened = true;
        json_set_null(day, "hours");
        bytes = 400;
        if (!json_absent(json_get(day, "figures")))
            json_set_null(json_get(day, "figures"), "by");
        if (r->bytes > 3 * (COORD_DAYS_BYTES / 2))
            json_set_null(day, "figures");
    }
    r->bytes += bytes;
}

static bool day_put(struct coord_job *j, uint32_t n)
{
    char *text = day_text(j, n);
    bool good = text != NULL && coord_job_put(j, coord_row_key("day", n).text, text, strlen(text));
    free(text);
    return good;
}

/* Loads a day. Returns 0 also when it is missing, damaged or another job's: *day is NULL then. */
static int day_load(struct coord_job *j, uint32_t n, struct json **day, struct err *e)
{
    struct json *stored = NULL;
    void *text;
    size_t bytes;
    *day = NULL;
    int rc = coord_store_get(j->store, coord_row_key("day", n).text, &text, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (json_parse(text, bytes, &stored, NULL) == 0 &&
        json_as_int(json_get(stored, "job"), -1) == (int64_t)j->at.number)
        *day = json_hold(json_get(stored, "day"));
    json_free(stored);
    free(text);
    return 0;
}

int coord_replay_windows_load(struct coord_job *j, struct err *e)
{
    if (!j->spec.replay.on || j->spec.data.objects.of[WIRE_TRAIN].on || j->replay->windows != 0)
        return 0; /* a log of objects: coord_objects_load */
    char *value;
    size_t bytes, head = sizeof j->at.number;
    int rc = coord_job_get(j, WINDOWS_KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    size_t count = (bytes - head) / sizeof(struct wire_window);
    if (count > 0 && count <= WIRE_WINDOWS_MAX)
        rc = windows_take(j, value + head, (uint32_t)count, e);
    free(value);
    return rc;
}

int coord_replay_load(struct coord_job *j, struct err *e)
{
    struct coord_replay *r = j->replay;
    struct coord_replay_record record;
    struct json *day;
    if (!j->spec.replay.on)
        return 0;
    int rc = coord_replay_windows_load(j, e);
    while (rc == 0 && (rc = day_load(j, r->ended, &day, e)) == 0 && day != NULL) {
        day_shorten(r, day);
        json_append(r->days, day);
        r->ended++;
    }
    r->made = SAT_SUB(r->ended, 1); /* at most one checkpoint is being made, whatever is stored */
    if (rc == 0)
        rc = coord_store_get_fixed(j->store, RECORD_KEY, &record, sizeof record, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (record.job != j->at.number)
        return 0;
    if (record.made >= r->ended)
        r->made = r->ended;
    r->task_batches = record.task_batches;
    r->begun = record.begun;
    r->begun_hash = record.hash;
    return 0;
}

/* ---- ends of days ---------------------------------------------------------------------------- */

bool coord_replay_due(const struct coord_job *j)
{
    const struct coord_replay *r = j->replay;
    return j->at.phase == PHASE_TRAIN && r->made < r->ended;
}

static bool keeps(const struct coord_job *j)
{
    return j->spec.replay.checkpoint && j->spec.checkpoint.dir[0] != 0;
}

void coord_replay_made(struct coord_job *j, bool made)
{
    struct coord_replay *r = j->replay;
    SHOAL_ASSERT(r->made + 1 == r->ended);
    if (!made && ++r->failed < DAY_TRIES)
        return;
    if (!made)
        log_warn("replay: the checkpoint of a day's end could not be made; the next day begins");
    r->failed = 0;
    r->made = r->ended;
    (void)record_put(j);
}

bool coord_replay_end(struct coord_job *j)
{
    struct coord_replay *r = j->replay;
    uint32_t first, next;
    if (r->made == r->ended && day_find(j, r->ended, &first, &next) &&
        j->tasks->stop == day_end(j, r->ended)) {
        SHOAL_ASSERT(j->tasks->pushed == j->tasks->stop); /* 1 */
        struct json *day = day_close(j, first, next);
        log_info("replay: the day of %s is learnt, %" PRId64 " rows",
                 json_as_string(json_get(day, "from"), ""), json_as_int(json_get(day, "rows"), 0));
        day_shorten(r, day);
        json_append(r->days, day);
        r->ended++;
        if (!day_put(j, r->ended - 1) || !record_put(j))
            return false;
        if (!keeps(j))
            coord_replay_made(j, true);
    }
    return r->made == r->ended;
}

uint64_t coord_replay_until(const struct coord_job *j)
{
    const struct coord_replay *r = j->replay;
    uint32_t begun = 0;
    if (r->segments > 0)
        begun = coord_replay_record_of(j, false).begun;
    if (begun == 0)
        return 0;
    return zone_end(&j->spec.data.zone, j->spec.replay.window, window_from(j, begun - 1));
}

/* ---- as a source ----------------------------------------------------------------------------- */

struct coord_amount coord_replay_amount(const struct coord_job *j)
{
    return coord_source_amount(j, j->replay->rows, j->replay->batches);
}

int coord_replay_plan(struct coord_job *j, struct coord_plan *p, struct err *e)
{
    p->segment = j->replay->segment;
    p->segments = j->replay->segments;
    p->task_batches = task_batches(j);
    return coord_replay_fits(j, e);
}

const struct coord_source coord_replay_source = {.amount = coord_replay_amount,
                                                 .plan = coord_replay_plan};
