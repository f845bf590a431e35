/* objects.c: the list of objects, and the pieces of an epoch that it makes. */
#include "server/coord/work/objects.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/base/text.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/grow.h"
#include "server/coord/work/objects_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stored for each split: the job's number; bytes of the lines; the lines; the head */
static const char *const list_key[JOB_SPLITS] = {"objects/list", "objects/valid/list",
                                                 "objects/test/list"};

#define ORDER_SALT 0x6f626a65637473ULL
#define TEXT_BYTES (4u << 20)

void coord_objects_close(struct coord_objects *o)
{
    for (uint32_t i = 0; o->object != NULL && i < o->count; i++)
        free(o->object[i].window);
    free(o->text);
    free(o->head);
    free(o->object);
    free(o->holder);
    free(o->piece);
    memset(o, 0, sizeof *o);
}

void coord_objects_forget(struct coord_objects *o)
{
    struct coord_objects kept = {.head = o->head, .head_bytes = o->head_bytes, .item = o->item};
    o->head = NULL;
    coord_objects_close(o);
    *o = kept;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Checks a line: a name, then perhaps tabs and more text, which workers get as it is. Names rise,
 * so no name occurs twice. */
static bool line_ok(const char *line, size_t bytes, const char *before)
{
    size_t name = strcspn(line, "\t");
    if (bytes == 0 || bytes >= LIMIT_PATH || name == 0)
        return false;
    uint32_t tabs = 0;
    for (const char *p = line; (p = text_unclean(p)) != NULL; p++)
        if (*p != '\t' || ++tabs > 2)
            return false;
    if (before == NULL)
        return true;
    size_t was = strcspn(before, "\t");
    return strcmp(before, line) < 0 && !(was == name && memcmp(before, line, name) == 0);
}

/* Splits o->text into `count` lines, each ended by a LF, or by a NUL as in the store. */
static bool lines_take(struct coord_objects *o, uint32_t count)
{
    size_t at = 0;
    const char *before = NULL;
    o->object = calloc(count, sizeof *o->object);
    o->holder = calloc(count, sizeof *o->holder);
    o->piece = calloc(count, sizeof *o->piece);
    if (o->object == NULL || o->holder == NULL || o->piece == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        char *line = o->text + at, *end = line + strcspn(line, "\n");
        if (end == o->text + o->bytes)
            return false;
        *end = '\0';
        if (!line_ok(line, (size_t)(end - line), before))
            return false;
        before = o->object[i].line = line;
        at = (size_t)(end - o->text) + 1;
    }
    o->count = count;
    return at == o->bytes;
}

int coord_objects_take(struct coord_objects *o, const void *lines, size_t bytes, uint32_t count,
                       const void *head, size_t head_bytes, struct err *e)
{
    if (count == 0 || count > LIMIT_OBJECTS || bytes > TEXT_BYTES ||
        head_bytes > LIMIT_LINE_BYTES || (head_bytes > 0 && memchr(head, '\0', head_bytes) != NULL))
        return err_set(e, SHOAL_E_MALFORMED,
                       "a list of %u objects in %zu bytes, with a first line of %zu: up to %u in "
                       "%u are possible",
                       count, bytes, head_bytes, LIMIT_OBJECTS, TEXT_BYTES);
    struct coord_objects made = {.text = malloc(bytes + 1),
                                 .bytes = bytes,
                                 .head = malloc(head_bytes + 1),
                                 .head_bytes = head_bytes,
                                 .item = o->item};
    int rc = SHOAL_E_NOMEM;
    if (made.text != NULL && made.head != NULL) {
        memcpy(made.text, lines, bytes);
        if (head_bytes > 0)
            memcpy(made.head, head, head_bytes);
        made.text[bytes] = made.head[head_bytes] = '\0';
        rc = lines_take(&made, count) ? 0 : SHOAL_E_MALFORMED;
    }
    if (rc == 0) {
        coord_objects_close(o);
        *o = made;
        return 0;
    }
    coord_objects_close(&made);
    return err_set(e, rc, "the list of %u objects is none, or there is no memory for it", count);
}

struct begun {
    uint32_t from, object; /* from: the begin of its partition; 0: names tell no times */
};

static int by_begin(const void *a, const void *b)
{
    const struct begun *x = a, *y = b;
    if (x->from != y->from)
        return (x->from > y->from) - (x->from < y->from);
    return (x->object > y->object) - (x->object < y->object);
}

/* A function of job and list, independent of the workers. Objects of one time are spread over the
 * lanes. */
int coord_objects_deal(struct coord_job *j, struct err *e)
{
    const struct coord_objects *o = &j->objects[WIRE_TRAIN];
    bool dated = j->spec.data.partition.step > 0 && j->spec.data.format != DATA_EVENTS;
    struct begun *begun = malloc(o->count * sizeof *begun);
    if (begun == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the list of %u objects", o->count);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < o->count; i++) {
        const char *name = o->object[i].line;
        uint32_t to;
        begun[i] = (struct begun){0, i};
        if (dated)
            rc = partition_of(&j->spec.data.partition, &j->spec.data.zone, name,
                              strcspn(name, "\t"), &begun[i].from, &to, e);
    }
    if (rc == 0)
        qsort(begun, o->count, sizeof *begun, by_begin);
    for (uint32_t i = 0; rc == 0 && i < o->count; i++)
        o->object[begun[i].object].lane = i % j->tasks->lanes;
    free(begun);
    return rc;
}

static int list_put(struct coord_job *j, uint32_t split, struct err *e)
{
    const struct coord_objects *o = &j->objects[split];
    const uint64_t bytes = o->bytes;
    const struct coord_part part[] = {
        {&bytes, sizeof bytes}, {o->text, o->bytes}, {o->head, o->head_bytes}};
    return coord_job_put_parts(j, list_key[split], part, 3, e);
}

/* Answers the question for a list: it is known, or the asker is to list the objects, or another
 * worker is. */
static int list_asked(struct coord_job *j, uint32_t split, struct coord_ask *a)
{
    struct coord_objects *o = &j->objects[split];
    uint64_t now = coord_now_ns(j), me = a->worker->number;
    if (o->count > 0) {
        a->reply.u.OBJECTS_reply.count = o->count;
        a->frame = o->head;
        a->frame_bytes = o->head_bytes;
        return 0;
    }
    if (split != WIRE_TRAIN && j->at.split[split].used == 0) {
        a->frame = "";
        return 0;
    }
    if (!coord_item_free(&o->item, me, now))
        return err_set(&a->e, SHOAL_E_AGAIN, "another worker lists the objects");
    coord_item_give(&o->item, me, now);
    a->reply.u.OBJECTS_reply.list = true;
    a->frame = "";
    return 0;
}

void coord_objects_opened(struct coord_job *j, uint64_t worker)
{
    struct coord_objects *o = &j->objects[WIRE_TRAIN];
    o->holder[0] = worker;
    if (j->tasks->dealt)
        j->tasks->lane[o->object[0].lane].owner = worker;
}

int coord_objects_list(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_OBJECTS *q = &a->request->u.OBJECTS;
    SHOAL_ASSERT(q->split < JOB_SPLITS);
    struct coord_objects *o = &j->objects[q->split];
    bool train = q->split == WIRE_TRAIN;
    if (q->count > 0 && o->count == 0 && j->at.split[q->split].used != 0) { /* 1 */
        int rc = coord_objects_take(o, a->m->frame[1].data, a->m->frame[1].bytes, q->count,
                                    a->m->frame[2].data, a->m->frame[2].bytes, &a->e);
        if (rc == 0 && train && (rc = coord_objects_deal(j, &a->e)) != 0)
            coord_objects_close(o);
        if (rc != 0)
            return rc;
        if (train)
            coord_objects_opened(j, a->worker->number);
        o->item.worker = 0;
        o->listed_ns = coord_now_ns(j);
        rc = list_put(j, q->split, &a->e);
        if (rc != 0)
            return rc;
        log_info("data.%s: %u objects", coord_split_name[q->split], o->count);
    }
    return list_asked(j, q->split, a);
}

/* ---- an epoch and its tasks ------------------------------------------------------------------ */

void coord_objects_put(const struct coord_job *j, uint32_t split, uint32_t object,
                       struct wire_LANE_NEXT_reply *reply)
{
    const struct coord_object *of = &j->objects[split].object[object];
    SHOAL_ASSERT(object < j->objects[split].count);
    reply->object = object + 1;
    reply->object_rows = of->rows;
    reply->object_digest = of->digest;
    size_t name = strcspn(of->line, "\t");
    (void)snprintf(reply->object_name, sizeof reply->object_name, "%.*s", (int)name, of->line);
    (void)snprintf(reply->object_mark, sizeof reply->object_mark, "%s",
                   of->line + name + (of->line[name] != '\0'));
    char *tab = strchr(reply->object_mark, '\t');
    if (tab != NULL)
        *tab = ' ';
}

const struct coord_piece *coord_objects_pieces(struct coord_job *j, uint32_t split, uint32_t epoch,
                                               uint32_t *pieces)
{
    struct coord_objects *o = &j->objects[split];
    struct rng rng = rng_of(j->spec.train.seed ^ ORDER_SALT, epoch, 0);
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->count; i++)
        if (o->object[i].rows > 0)
            o->piece[count++] = (struct coord_piece){
                .rows = o->object[i].rows, .object = i, .lane = o->object[i].lane};
    bool drawn = epoch > 0 && j->spec.data.shuffle && j->spec.data.shuffle_within == 0;
    for (uint32_t i = count; drawn && i > 1; i--) {
        uint32_t k = (uint32_t)(rng_next(&rng) % i);
        struct coord_piece swap = o->piece[i - 1];
        o->piece[i - 1] = o->piece[k];
        o->piece[k] = swap;
    }
    *pieces = count;
    return o->piece;
}

uint64_t coord_objects_batches(const struct coord_job *j)
{
    uint64_t sum = 0, batch = job_batch_rows(&j->spec);
    const struct coord_objects *o = &j->objects[WIRE_TRAIN];
    for (uint32_t i = 0; i < o->count; i++)
        sum += (o->object[i].rows + batch - 1) / batch;
    return sum;
}

uint64_t coord_objects_base(const struct coord_job *j, uint32_t object)
{
    const struct coord_objects *o = &j->objects[WIRE_TRAIN];
    SHOAL_ASSERT(object == COORD_NO_OBJECT || object < o->count);
    return object == COORD_NO_OBJECT ? 0 : o->object[object].base;
}

uint64_t coord_objects_at(const struct coord_job *j, uint64_t row, const char **object)
{
    const struct coord_objects *o = &j->objects[WIRE_TRAIN];
    uint32_t low = 0, high = o->count;
    SHOAL_ASSERT(o->count > 0);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (o->object[middle].base <= row)
            low = middle;
        else
            high = middle;
    }
    *object = o->object[low].line;
    return row - o->object[low].base;
}

void coord_objects_json(const struct coord_job *j, struct json *to)
{
    struct json *all = json_new_object();
    bool any = false;
    for (uint32_t s = 0; s < JOB_SPLITS; s++) {
        const struct coord_objects *o = &j->objects[s];
        bool grows = s == WIRE_TRAIN && coord_grow_on(j);
        if (o->count == 0 && !grows)
            continue;
        struct json *of = s == WIRE_TRAIN ? all : json_new_object();
        if (grows) {
            coord_grow_json(j, of);
        } else {
            json_set_int(of, "read", o->count - o->left_out);
            json_set_int(of, "left_out", o->left_out);
        }
        if (s != WIRE_TRAIN)
            json_set(all, coord_split_name[s], of);
        any = true;
    }
    if (any)
        json_set(to, "objects", all);
    else
        json_free(all);
}

/* ---- after a restart ------------------------------------------------------------------------- */

static int list_load(struct coord_job *j, uint32_t split, struct err *e)
{
    char *value;
    size_t bytes;
    uint64_t text = UINT64_MAX;
    int rc = coord_job_get(j, list_key[split], &value, &bytes, e);
    if (rc != 0)
        return rc;
    const size_t head = sizeof j->at.number + sizeof text;
    const char *lines = value + head;
    uint32_t count = 0;
    if (bytes >= head)
        memcpy(&text, value + sizeof j->at.number, sizeof text);
    bool good = bytes >= head && text <= bytes - head;
    for (size_t i = 0; good && i < text; i++)
        count += lines[i] == '\0';
    rc = SHOAL_E_NOT_FOUND;
    if (good)
        rc = coord_objects_take(&j->objects[split], lines, text, count, lines + text,
                                bytes - head - text, e);
    if (rc == 0 && split == WIRE_TRAIN)
        rc = coord_objects_deal(j, e);
    free(value);
    return rc;
}

static int stored_load(struct coord_job *j, uint32_t split, struct err *e)
{
    int rc = list_load(j, split, e);
    if (rc != 0)
        return rc;
    return coord_objects_rows_load(j, split, e);
}

int coord_objects_stored(struct coord_job *j, struct err *e)
{
    return stored_load(j, WIRE_TRAIN, e);
}

static int split_load(struct coord_job *j, uint32_t split, struct err *e)
{
    int rc = split == WIRE_TRAIN ? j->source->load(j, e) : stored_load(j, split, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the objects of data.%s are not in the coordinator's store: resume the "
                       "newest checkpoint",
                       coord_split_name[split]);
    return rc;
}

int coord_objects_load(struct coord_job *j, struct err *e)
{
    int rc = 0;
    for (uint32_t s = 0; s < JOB_SPLITS && rc == 0; s++)
        if (j->spec.data.objects.of[s].on && j->at.split[s].used != 0)
            rc = split_load(j, s, e);
    return rc;
}

/* ---- as a source ----------------------------------------------------------------------------- */

static struct coord_amount amount(const struct coord_job *j)
{
    return coord_source_amount(j, j->at.split[WIRE_TRAIN].rows, coord_objects_batches(j));
}

int coord_objects_plan(struct coord_job *j, struct coord_plan *p, struct err *e)
{
    (void)e;
    p->whole.piece = coord_objects_pieces(j, WIRE_TRAIN, j->at.epoch, &p->whole.pieces);
    return 0;
}

const struct coord_source coord_objects_source = {.list = coord_objects_list,
                                                  .known = coord_objects_put_rows,
                                                  .load = coord_objects_stored,
                                                  .amount = amount,
                                                  .plan = coord_objects_plan};
