/* grow.c: takes repeated lists of a growing log, chooses objects from them, and stores each
 * round. */
#include "server/coord/work/grow.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/work/objects_index.h"
#include "server/coord/work/taken.h"
#include "server/coord/work/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORE_FAILED "the coordinator's store failed"

void coord_grow_close(struct coord_grow *g)
{
    coord_objects_close(&g->list);
    positions_close(&g->streams);
    free(g->since);
    free(g->record);
    memset(g, 0, sizeof *g);
}

static uint64_t grow_ns(const struct coord_job *j)
{
    return j->spec.data.objects.grow_ms * UINT64_C(1000000);
}

/* ---- names ----------------------------------------------------------------------------------- */

static size_t name_bytes(const char *line)
{
    return strcspn(line, "\t");
}

/* Compares the names at the beginning of two lines. A tab is less than any byte of a name. */
static int names_compare(const char *a, const char *b)
{
    size_t n = name_bytes(a), m = name_bytes(b);
    int order = memcmp(a, b, MIN(n, m));
    if (order != 0)
        return order;
    return (n > m) - (n < m);
}

/* Returns the place of a name in the sorted list, or where it would be inserted. */
static uint32_t place_of(const struct coord_objects *o, const char *line, bool *there)
{
    uint32_t low = 0, high = o->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (names_compare(o->object[middle].line, line) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *there = low < o->count && names_compare(o->object[low].line, line) == 0;
    return low;
}

/* ---- what is stored -------------------------------------------------------------------------- */

/* The record of the previous round, or of the previous run (back.h), is valid until the progress is
 * stored, so the key alternates with both. */
void coord_grow_key(uint64_t run, uint32_t round, char key[])
{
    (void)snprintf(key, COORD_KEY_MAX, "grow/%u", (uint32_t)((run & 1) * 2 + (round & 1)));
}

static int record_make(struct coord_grow *g, const struct coord_objects *o, struct err *e)
{
    size_t most = sizeof g->at + o->bytes + o->head_bytes + coord_objects_records_bytes(o);
    char *record = malloc(most), *head = record + sizeof g->at + o->bytes;
    if (record == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the record of %u objects", o->count);
    SHOAL_ASSERT(most <= COORD_VALUE_MAX);
    g->at.list_bytes = o->bytes;
    g->at.head_bytes = o->head_bytes;
    g->at.objects = o->count;
    memcpy(record, &g->at, sizeof g->at);
    memcpy(record + sizeof g->at, o->text, o->bytes);
    memcpy(head, o->head, o->head_bytes);
    coord_objects_records(o, head + o->head_bytes);
    free(g->record);
    g->record = record;
    g->record_bytes = most;
    return 0;
}

static int record_put(struct coord_job *j, struct err *e)
{
    const struct coord_grow *g = j->grow;
    char key[COORD_KEY_MAX];
    coord_grow_key(j->at.run, g->at.round, key);
    if (!coord_job_put(j, key, g->record, g->record_bytes))
        return err_set(e, SHOAL_E_IO, STORE_FAILED);
    return 0;
}

bool coord_grow_run(struct coord_job *j)
{
    return !coord_grow_on(j) || j->grow->record == NULL || record_put(j, &(struct err){0}) == 0;
}

static int damaged(struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT,
                   "the objects of data.train are not in the coordinator's store, or damaged: "
                   "resume the newest checkpoint");
}

/* Reads a record from a store or a checkpoint; none of its bytes is trusted. On success the job
 * owns `value`, the record of the current round. */
static int record_take(struct coord_job *j, char *value, size_t bytes, struct err *e)
{
    struct coord_grow *g = j->grow;
    struct coord_grow_record at;
    if (bytes < sizeof at)
        return damaged(e);
    memcpy(&at, value, sizeof at);
    const char *list = value + sizeof at;
    size_t left = bytes - sizeof at;
    if (at.job != j->at.number || at.round != j->at.epoch || at.objects > LIMIT_OBJECTS ||
        at.list_bytes > left || at.head_bytes > left - at.list_bytes || at.rows == 0 ||
        memchr(at.last, 0, sizeof at.last) == NULL)
        return damaged(e);
    struct coord_objects *o = &j->objects[WIRE_TRAIN];
    const char *head = list + at.list_bytes;
    left -= at.list_bytes + at.head_bytes;
    if (coord_objects_take(o, list, at.list_bytes, at.objects, head, at.head_bytes, e) != 0 ||
        coord_objects_deal(j, e) != 0 || !coord_objects_known(o, head + at.head_bytes, left))
        return damaged(e);
    free(g->record);
    g->at = at;
    g->record = value;
    g->record_bytes = bytes;
    return 0;
}

int coord_grow_load(struct coord_job *j, struct err *e)
{
    void *value;
    size_t bytes;
    char key[COORD_KEY_MAX];
    if (!coord_grow_on(j) || j->at.epoch == 0)
        return 0;
    coord_grow_key(j->at.run, j->at.epoch, key);
    int rc = coord_store_get(j->store, key, &value, &bytes, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return damaged(e);
    if (rc != 0)
        return rc;
    rc = record_take(j, value, bytes, e);
    if (rc != 0) {
        free(value);
        return rc;
    }
    j->at.split[WIRE_TRAIN] = (struct coord_split){
        .rows = j->grow->at.rows, .digest = j->grow->at.digest, .used = 1, .known = 1};
    return 0;
}

/* ---- a list ---------------------------------------------------------------------------------- */

/* Takes the positions of all streams as the lister sees them. */
static int streams_take(struct coord_job *j, const struct coord_ask *a, struct err *e)
{
    const struct frame *f = &a->m->frame[3];
    struct coord_grow *g = j->grow;
    int rc = positions_take(&g->streams, f->data, f->bytes);
    if (rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "no memory for the positions of streams");
    if (rc != 0 || (g->streams.count > 0 && !j->spec.data.kafka.on))
        return err_set(e, SHOAL_E_MALFORMED, "the positions of streams in %zu bytes cannot be",
                       f->bytes);
    return coord_taken_streams(j, &g->streams, e);
}

/* True for a range that follows the position of its stream, or the range `before` it. */
static bool range_follows(const struct coord_job *j, const struct position *range,
                          const struct position *before)
{
    const struct position *is = before;
    if (strcmp(before->stream, range->stream) != 0)
        is = positions_find(&coord_taken_names(j)->positions, range->stream);
    return is != NULL && is->to == range->from && range->from < range->to &&
           strcmp(is->mark, range->mark) == 0;
}

/* True when the object is not taken yet. *before: the last range that is not. */
static bool is_new(const struct coord_job *j, const char *line, struct position *before)
{
    struct position range;
    if (!coord_taken_range(j, line, &range))
        return !coord_taken_has(j, line);
    if (!range_follows(j, &range, before))
        return false;
    *before = range;
    return true;
}

/* Notes for each object since when it has been listed unchanged. */
static int seen_take(struct coord_job *j, const struct coord_ask *a, struct err *e)
{
    const struct wire_OBJECTS *q = &a->request->u.OBJECTS;
    struct coord_grow *g = j->grow;
    struct coord_objects list = {0};
    uint64_t now = coord_now_ns(j), *since = NULL;
    int rc = 0;
    if (q->count > 0)
        rc = coord_objects_take(&list, a->m->frame[1].data, a->m->frame[1].bytes, q->count, "", 0,
                                e);
    if (rc == 0 && q->count > 0 && (since = calloc(q->count, sizeof *since)) == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a list of %u objects", q->count);
    if (rc != 0) {
        coord_objects_close(&list);
        return rc;
    }
    struct position before = {.from = 0};
    for (uint32_t i = 0; i < list.count; i++) {
        bool there;
        uint32_t was = place_of(&g->list, list.object[i].line, &there);
        if (!is_new(j, list.object[i].line, &before))
            continue;
        since[i] = now;
        if (there && strcmp(g->list.object[was].line, list.object[i].line) == 0 &&
            g->since[was] != 0)
            since[i] = g->since[was];
    }
    coord_objects_close(&g->list);
    free(g->since);
    g->list = list;
    g->since = since;
    g->listed_ns = now;
    g->last = q->last;
    return 0;
}

static void failed_note(struct coord_job *j, const struct coord_ask *a)
{
    const struct wire_OBJECTS *q = &a->request->u.OBJECTS;
    struct coord_grow *g = j->grow;
    if (strcmp(g->failed, q->fail_text) != 0)
        log_warn("worker %s cannot list the log, which is tried again: %s", a->worker->name,
                 q->fail_text);
    (void)snprintf(g->failed, sizeof g->failed, "%s", q->fail_text);
}

static bool is_stable(const struct coord_job *j, uint32_t i)
{
    const struct coord_grow *g = j->grow;
    struct position range;
    if (g->since[i] == 0)
        return false;
    return g->listed_ns - g->since[i] >= grow_ns(j) ||
           coord_taken_range(j, g->list.object[i].line, &range);
}

/* Collects the lines of objects that are not written any more, as many as fit and as names have
 * room. */
static uint32_t stable_lines(const struct coord_job *j, char *text, size_t *bytes)
{
    const struct coord_grow *g = j->grow;
    uint32_t count = 0, room = coord_taken_room(j);
    struct position range;
    char *to = text;
    for (uint32_t i = 0; i < g->list.count && count < LIMIT_OBJECTS; i++) {
        const char *line = g->list.object[i].line;
        bool named = !coord_taken_range(j, line, &range);
        if (!is_stable(j, i) || (named && room == 0))
            continue;
        room -= named;
        to = stpcpy(to, line) + 1; /* each line with its NUL */
        count++;
    }
    *bytes = (size_t)(to - text);
    return count;
}

/* Makes these objects the current ones; returns 0 also when there are none. */
static int stable_take(struct coord_job *j, const void *head, size_t head_bytes, struct err *e)
{
    size_t bytes;
    char *text = malloc(j->grow->list.bytes + 1);
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a list of objects");
    uint32_t count = stable_lines(j, text, &bytes);
    int rc = 0;
    if (count > 0)
        rc = coord_objects_take(&j->objects[WIRE_TRAIN], text, bytes, count, head, head_bytes, e);
    free(text);
    if (rc == 0 && count > 0 && (rc = coord_objects_deal(j, e)) != 0)
        coord_objects_forget(&j->objects[WIRE_TRAIN]);
    if (rc == 0 && count > 0) {
        j->objects[WIRE_TRAIN].listed_ns = coord_now_ns(j);
        log_info("data.train: %u objects have come", count);
    }
    return rc;
}

/* False for an object listed with 0 bytes; an unknown size may have lines. */
static bool may_have_lines(const char *line)
{
    const char *bytes = line + name_bytes(line);
    return strcmp(bytes, "\t0") != 0 && strncmp(bytes, "\t0\t", 3) != 0;
}

/* Returns the size of the head in a list's frame 2; the bits of coord_taken_gone follow it. */
static size_t head_bytes(const struct coord_ask *a)
{
    return a->m->frame[2].bytes - a->request->u.OBJECTS.gone;
}

/* Takes the first objects, before there is a model. The list contains the first line of all, so the
 * object with that line must be complete; and empty objects alone do not begin a job. */
static int first_take(struct coord_job *j, struct coord_ask *a)
{
    const struct coord_grow *g = j->grow;
    uint32_t first = g->list.count, lines = 0;
    for (uint32_t i = g->list.count; i-- > 0;)
        if (may_have_lines(g->list.object[i].line)) {
            first = i;
            lines += is_stable(j, i);
        }
    bool good = first < g->list.count && (g->since[first] == 0 || is_stable(j, first)),
         waits = lines == 0 || (head_bytes(a) > 0 && !good);
    if (j->objects[WIRE_TRAIN].count > 0 || waits || j->at.phase > PHASE_INDEX)
        return 0;
    int rc = stable_take(j, a->m->frame[2].data, head_bytes(a), &a->e);
    if (rc == 0 && j->objects[WIRE_TRAIN].count > 0 && g->since[0] != 0)
        coord_objects_opened(j, a->worker->number);
    return rc;
}

static int listed(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_OBJECTS *q = &a->request->u.OBJECTS;
    struct coord_grow *g = j->grow;
    struct coord_item *item = &j->objects[WIRE_TRAIN].item;
    if (item->worker != a->worker->number || item->given_ns != q->token)
        return 0; /* a repeated or late reply */
    item->worker = 0;
    g->due_ns = coord_now_ns(j) + grow_ns(j);
    if (q->fail_status != 0) {
        failed_note(j, a);
        return 0;
    }
    g->failed[0] = 0;
    if (q->gone > a->m->frame[2].bytes)
        return err_set(&a->e, SHOAL_E_MALFORMED,
                       "%u bytes of names that are gone, in a frame of %zu", q->gone,
                       a->m->frame[2].bytes);
    int rc = streams_take(j, a, &a->e);
    if (rc == 0)
        rc = seen_take(j, a, &a->e);
    if (rc != 0)
        return rc;
    coord_taken_gone(j, (const char *)a->m->frame[2].data + head_bytes(a), q->gone);
    return first_take(j, a);
}

static bool may_list(const struct coord_job *j, uint64_t worker)
{
    uint64_t now = coord_now_ns(j);
    return now >= j->grow->due_ns && coord_item_free(&j->objects[WIRE_TRAIN].item, worker, now);
}

bool coord_grow_due(const struct coord_job *j, uint64_t worker)
{
    uint32_t phase = j->at.phase;
    return coord_grow_on(j) && !j->stop.asked && may_list(j, worker) &&
           (phase == PHASE_TRAIN || phase == PHASE_EVAL || phase == PHASE_GROW);
}

static int grow_list(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_OBJECTS *q = &a->request->u.OBJECTS;
    struct coord_objects *o = &j->objects[WIRE_TRAIN];
    uint64_t me = a->worker->number;
    int rc = 0;
    if (q->listed)
        rc = listed(j, a);
    if (rc != 0)
        return rc;
    a->frame = "";
    if (q->due && q->listed)
        return 0;
    if (!q->due && o->head != NULL) {
        a->reply.u.OBJECTS_reply.count = o->count;
        a->frame = o->head;
        a->frame_bytes = o->head_bytes;
        return 0;
    }
    if (q->listed || (q->due ? !coord_grow_due(j, me) : !may_list(j, me)))
        return err_set(&a->e, SHOAL_E_AGAIN, "the log is listed again in a while");
    coord_item_give(&o->item, me, coord_now_ns(j));
    a->reply.u.OBJECTS_reply.list = true;
    a->reply.u.OBJECTS_reply.token = o->item.given_ns;
    return 0;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

void coord_grow_wait(struct coord_job *j)
{
    j->tasks->holder = NULL;
    j->tasks->objects = 0;
    coord_objects_forget(&j->objects[WIRE_TRAIN]);
}

int coord_grow_take(struct coord_job *j, struct err *e)
{
    struct coord_objects *o = &j->objects[WIRE_TRAIN];
    SHOAL_ASSERT(j->at.phase == PHASE_GROW);
    if (o->count > 0 || j->grow->list.count == 0)
        return 0;
    return stable_take(j, o->head, o->head_bytes, e);
}

/* Marks the taken objects in the list, so that they are not taken again; and the ranges that do not
 * follow, because the list came before the positions moved: the next one has them aligned. */
static void seen_forget(struct coord_job *j)
{
    struct coord_grow *g = j->grow;
    struct position before = {.from = 0};
    for (uint32_t i = 0; i < g->list.count; i++) {
        bool there;
        (void)place_of(&j->objects[WIRE_TRAIN], g->list.object[i].line, &there);
        if (!is_new(j, g->list.object[i].line, &before) || there)
            g->since[i] = 0;
    }
}

/* Notes the greatest name of all objects that the job has taken in. */
static void last_note(struct coord_grow *g, const struct coord_objects *o)
{
    const char *line = o->object[o->count - 1].line;
    if (g->at.last[0] == 0 || names_compare(g->at.last, line) < 0)
        (void)snprintf(g->at.last, sizeof g->at.last, "%.*s", (int)name_bytes(line), line);
}

void coord_grow_again(struct coord_job *j)
{
    seen_forget(j);
    coord_grow_wait(j);
    j->grow->due_ns = 0;
}

int coord_grow_round(struct coord_job *j, const struct coord_split *whole, uint32_t round,
                     struct err *e)
{
    struct coord_grow *g = j->grow;
    SHOAL_ASSERT(round == 1 || j->at.phase == PHASE_GROW); /* 1 */
    SHOAL_ASSERT(whole->rows == 0 || round == g->at.round + 1);
    SHOAL_ASSERT(whole->rows == 0 || round == 1 ||
                 j->space->taken->is.at.round == round); /* taken.h, 1 */
    int rc = 0;
    if (whole->rows == 0)
        rc = coord_taken_empty(j, e);
    if (rc != 0)
        return rc;
    if (whole->rows > 0) {
        g->at.before_rows += g->at.rows;
        g->at.before_batches += g->at.batches;
        if (round > 1)
            coord_losses_add(&g->at.before, &j->epoch[coord_epoch_slot(j, round - 1)].train);
        g->at.rows = whole->rows;
        g->at.digest = whole->digest;
        g->at.batches = coord_objects_batches(j);
        g->at.round = round;
        g->at.limit = coord_times_limit_of_round(j);
    }
    g->at.job = j->at.number;
    g->at.read += j->objects[WIRE_TRAIN].count - j->objects[WIRE_TRAIN].left_out;
    g->at.left_out += j->objects[WIRE_TRAIN].left_out;
    last_note(g, &j->objects[WIRE_TRAIN]);
    seen_forget(j);
    rc = record_make(g, &j->objects[WIRE_TRAIN], e);
    if (rc != 0)
        return rc;
    return record_put(j, e);
}

/* ---- the end, and what is told --------------------------------------------------------------- */

bool coord_grow_ended(struct coord_job *j)
{
    struct coord_grow *g = j->grow;
    bool idle = j->at.phase == PHASE_GROW || j->at.phase == PHASE_INDEX;
    if (!coord_grow_on(j) || g->ended || !idle || !g->last)
        return coord_grow_on(j) && g->ended;
    for (uint32_t i = 0; i < g->list.count; i++)
        if (g->since[i] != 0)
            return false;
    /* the list may be older than the positions, so that none of its ranges follows them */
    for (uint32_t i = 0; i < g->streams.count; i++)
        if (coord_grow_behind(j, &g->streams.of[i]) > 0)
            return false;
    g->ended = j->objects[WIRE_TRAIN].count == 0;
    return g->ended;
}

uint64_t coord_grow_behind(const struct coord_job *j, const struct position *stream)
{
    const struct position *is = positions_find(&coord_taken_names(j)->positions, stream->stream);
    if (is == NULL)
        return stream->to - stream->from;
    return stream->to > is->to ? stream->to - is->to : 0;
}

bool coord_grow_waits(const struct coord_job *j, char *text, size_t bytes)
{
    const struct coord_grow *g = j->grow;
    bool first = j->at.phase <= PHASE_INDEX && g->listed_ns != 0 && g->list.count == 0;
    if (!coord_grow_on(j) || (g->failed[0] == 0 && !first) || j->stop.asked)
        return false;
    if (g->failed[0] == 0)
        (void)snprintf(text, bytes,
                       "waits for objects: data.train lists none yet%s; is it what was "
                       "meant?",
                       text_if(coord_taken_count(j) > 0, " that its tables have not learnt"));
    else
        (void)snprintf(text, bytes, "waits for objects: the log cannot be listed: %.400s",
                       g->failed);
    return true;
}

#define STREAMS_SHOWN 64u

/* {"behind": of all streams, "streams": [{"stream", "learnt", "end", "behind"}]}: the first
 * STREAMS_SHOWN. */
static void streams_json(const struct coord_job *j, struct json *to)
{
    const struct coord_grow *g = j->grow;
    struct json *list = json_new_array();
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->streams.count; i++) {
        const struct position *p = &g->streams.of[i];
        uint64_t behind = coord_grow_behind(j, p);
        sum += behind;
        if (i >= STREAMS_SHOWN)
            continue;
        struct json *of = json_new_object();
        json_set_string(of, "stream", p->stream);
        json_set_int(of, "learnt", (int64_t)(p->to - behind));
        json_set_int(of, "end", (int64_t)p->to);
        json_set_int(of, "behind", (int64_t)behind);
        (void)json_append(list, of);
    }
    json_set_int(to, "behind", (int64_t)sum);
    json_set(to, "streams", list);
}

void coord_grow_json(const struct coord_job *j, struct json *to)
{
    const struct coord_grow *g = j->grow;
    uint32_t coming = 0;
    json_set_int(to, "read", (int64_t)g->at.read);
    json_set_int(to, "left_out", (int64_t)g->at.left_out);
    for (uint32_t i = 0; i < g->list.count; i++)
        coming += g->since[i] != 0;
    json_set_int(to, "coming", coming);
    if (g->at.last[0] != 0)
        json_set_string(to, "last", g->at.last);
    if (j->spec.data.kafka.on)
        streams_json(j, to);
}

/* ---- as a source ----------------------------------------------------------------------------- */

static int first_round(struct coord_job *j, struct err *e)
{
    return coord_grow_round(j, &j->objects[WIRE_TRAIN].whole, 1, e);
}

/* The round's objects may have been released. */
static struct coord_amount amount(const struct coord_job *j)
{
    const struct coord_grow_record *round = &j->grow->at;
    return (struct coord_amount){j->at.split[WIRE_TRAIN].rows, round->batches, round->before_rows,
                                 round->before_batches};
}

const struct coord_source coord_grow_source = {.list = grow_list,
                                               .known = first_round,
                                               .load = coord_grow_load,
                                               .amount = amount,
                                               .plan = coord_objects_plan};
