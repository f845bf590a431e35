/* task.c: invariants and diagram in task.h. */
#include "server/coord/work/task.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/wire/wire.h"
#include "server/coord/work/item.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int coord_task_open(struct coord_tasks *t, uint32_t lanes, uint32_t mode, struct err *e)
{
    SHOAL_ASSERT(mode <= WIRE_BSP);
    memset(t, 0, sizeof *t);
    if (lanes == 0 || lanes > LIMIT_LANES)
        return err_set(e, SHOAL_E_CONFIG, "train.lanes: %u, 1 to %u are possible", lanes,
                       LIMIT_LANES);
    t->lane = calloc(lanes, sizeof *t->lane);
    if (t->lane == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u lanes", lanes);
    t->lanes = lanes;
    t->mode = mode;
    t->dealt = mode == WIRE_BSP;
    for (uint32_t l = 0; l < lanes; l++) {
        t->lane[l].task = t->lane[l].again = COORD_NO_TASK;
        t->lane[l].next_batch = 1;
        t->lane[l].next_task = l;
    }
    return 0;
}

void coord_task_close(struct coord_tasks *t)
{
    free(t->lane);
    free(t->task);
    memset(t, 0, sizeof *t);
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

uint32_t coord_task_batches(uint64_t rows, uint32_t batch, uint32_t lanes, uint32_t wanted,
                            uint32_t shortest)
{
    SHOAL_ASSERT(batch > 0 && lanes > 0 && lanes < COORD_TASKS_MAX);
    uint64_t batches = ceil_div(rows, batch), part = batches / lanes;
    uint64_t least = ceil_div(batches, COORD_TASKS_MAX - lanes);
    uint64_t k = wanted;
    if (wanted == 0) {
        k = MIN(part / 4, shortest);
        k = MAX(k, part / 8);
        k = MIN(k, 64);
    }
    k = MAX(k, least);
    k = MAX(k, 1);
    return (uint32_t)MIN(k, UINT32_MAX / 2);
}

/* The rows that tasks are cut from: a segment, or a piece of one. */
struct cut {
    uint64_t position, rows;
    uint32_t object;
};

static struct cut cut_of(const struct coord_segment *s, uint32_t piece)
{
    if (s->pieces == 0)
        return (struct cut){s->position, s->rows, COORD_NO_OBJECT};
    const struct coord_piece *p = &s->piece[piece];
    return (struct cut){p->position, p->rows, p->object};
}

static uint32_t cuts_of(const struct coord_segment *s)
{
    return MAX(s->pieces, 1);
}

/* Cuts the next task: batches [first, first + count), clipped to the end. NULL: no room. */
static struct coord_task *task_cut(struct coord_tasks *t, const struct cut *c, uint64_t first,
                                   uint64_t count)
{
    uint64_t from = first * t->batch, to = (first + count) * t->batch;
    from = MIN(from, c->rows);
    to = MIN(to, c->rows);
    if (t->tasks == COORD_TASKS_MAX || array_room(&t->task, t->tasks, &t->capacity, 64) != 0)
        return NULL;
    struct coord_task *task = &t->task[t->tasks++];
    *task = (struct coord_task){.position = c->position + from,
                                .rows = to - from,
                                .before = t->batches,
                                .batch_count = (uint32_t)ceil_div(to - from, t->batch),
                                .lane = COORD_NO_LANE,
                                .object = to > from ? c->object : COORD_NO_OBJECT,
                                .segment = t->segments,
                                .begins = first == 0};
    t->batches += task->batch_count;
    return task;
}

/* bsp: cuts a lane's task of a round, padded to the round's length. False: no room. */
static bool round_cut(struct coord_tasks *t, const struct cut *c, uint64_t first, uint64_t each,
                      uint32_t lane)
{
    struct coord_task *task = task_cut(t, c, first, each);
    if (task == NULL)
        return false;
    task->lane = lane;
    task->batch_count = (uint32_t)each;
    return true;
}

/* Round r has up to task_batches batches a lane; the last round is dealt evenly, so that a lane is
 * padded by little. */
static bool rounds_cut(struct coord_tasks *t, const struct coord_segment *s, uint32_t task_batches)
{
    uint64_t round = (uint64_t)task_batches * t->lanes, batches = ceil_div(s->rows, t->batch);
    const struct cut whole = cut_of(s, 0);
    for (uint64_t first = 0; first < batches; first += round) {
        uint64_t left = ceil_div(batches - first, t->lanes);
        uint64_t each = MIN(left, task_batches);
        for (uint32_t l = 0; l < t->lanes; l++)
            if (!round_cut(t, &whole, first + l * each, each, l))
                return false;
    }
    return true;
}

/* The piece of a segment that a lane has reached, and how many of its batches are dealt. */
struct queue {
    uint32_t piece;
    uint64_t done;
};

/* Returns the batches left of the lane's piece, or of its next one; 0: it has none left. */
static uint64_t queue_left(const struct coord_tasks *t, const struct coord_segment *s,
                           uint32_t lane, struct queue *q)
{
    for (; q->piece < s->pieces; q->piece++, q->done = 0) {
        uint64_t batches = ceil_div(s->piece[q->piece].rows, t->batch);
        if (s->piece[q->piece].lane == lane && q->done < batches)
            return batches - q->done;
    }
    return 0;
}

/* Returns the batches of each lane in the next round: the fewest left in any lane's piece. */
static uint64_t round_length(const struct coord_tasks *t, const struct coord_segment *s,
                             uint32_t task_batches, struct queue *queue)
{
    uint64_t each = 0;
    for (uint32_t l = 0; l < t->lanes; l++) {
        uint64_t left = queue_left(t, s, l, &queue[l]);
        if (left > 0 && (each == 0 || left < each))
            each = left;
    }
    return MIN(each, task_batches);
}

/* Deals pieces in rounds; queue (lanes). */
static bool pieces_deal(struct coord_tasks *t, const struct coord_segment *s, uint32_t task_batches,
                        struct queue *queue)
{
    uint64_t each;
    memset(queue, 0, t->lanes * sizeof *queue);
    while ((each = round_length(t, s, task_batches, queue)) > 0)
        for (uint32_t l = 0; l < t->lanes; l++) {
            struct cut of = {0, 0, COORD_NO_OBJECT};
            uint64_t first = 0;
            if (queue[l].piece < s->pieces) {
                of = cut_of(s, queue[l].piece);
                first = queue[l].done;
            }
            if (!round_cut(t, &of, first, each, l))
                return false;
            queue[l].done += each;
        }
    return true;
}

static bool segment_cut(struct coord_tasks *t, const struct coord_segment *s, uint32_t task_batches,
                        struct queue *queue)
{
    if (t->dealt && s->pieces > 0)
        return pieces_deal(t, s, task_batches, queue);
    if (t->dealt)
        return rounds_cut(t, s, task_batches);
    for (uint32_t p = 0; p < cuts_of(s); p++) {
        const struct cut of = cut_of(s, p);
        for (uint64_t first = 0; first < ceil_div(of.rows, t->batch); first += task_batches)
            if (task_cut(t, &of, first, task_batches) == NULL)
                return false;
    }
    return true;
}

/* A worker may report more rows than can exist: these are not checked, since products wrap. */
static bool plan_covers(const struct coord_tasks *t, const struct coord_segment *segment,
                        uint32_t count)
{
    uint32_t i = 0;
    for (uint32_t s = 0; s < count; s++) {
        uint64_t next = segment[s].position, end = next + segment[s].rows;
        if (segment[s].rows >= UINT64_C(1) << 60 || segment[s].pieces > 0)
            return true;
        for (; i < t->tasks && (next < end || t->task[i].rows == 0); i++) {
            if (t->task[i].position != next)
                return false;
            next += t->task[i].rows;
        }
        if (next != end)
            return false;
    }
    return i == t->tasks;
}

int coord_task_plan(struct coord_tasks *t, uint32_t epoch, struct coord_segment *segment,
                    uint32_t count, uint32_t batch, uint32_t task_batches, uint64_t now_ns,
                    struct err *e)
{
    struct queue *queue = calloc(t->lanes, sizeof *queue);
    bool good = queue != NULL;
    SHOAL_ASSERT(epoch > t->epoch && task_batches > 0);
    t->epoch = epoch;
    t->batch = batch;
    t->tasks = t->next = t->frontier = t->pushed = t->reported = 0;
    t->examples = t->bad_lines = t->drawn = t->batches = 0;
    t->planned_ns = now_ns;
    for (uint32_t l = 0; l < t->lanes; l++) {
        SHOAL_ASSERT(t->lane[l].task == COORD_NO_TASK);
        t->lane[l].next_task = l;
        t->lane[l].again = COORD_NO_TASK;
    }
    for (t->segments = 0; good && t->segments < count; t->segments++) {
        segment[t->segments].task = t->tasks;
        good = segment_cut(t, &segment[t->segments], task_batches, queue);
    }
    free(queue);
    t->stop = t->gate = t->tasks;
    if (good) {
        SHOAL_ASSERT(plan_covers(t, segment, count)); /* 3 */
        return 0;
    }
    bool full = t->tasks == COORD_TASKS_MAX;
    t->tasks = t->stop = t->gate = 0;
    if (!full)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the tasks of an epoch");
    return err_set(e, SHOAL_E_TOO_BIG,
                   "an epoch of more than %u tasks, which is the most that are kept: raise "
                   "train.task_batches, train.batch or replay.window; of objects under bsp take "
                   "fewer lanes, or fewer and larger objects",
                   COORD_TASKS_MAX);
}

uint64_t coord_task_number(const struct coord_tasks *t, uint32_t index)
{
    SHOAL_ASSERT(index < t->tasks);
    return (uint64_t)t->epoch << 32 | index;
}

uint32_t coord_task_index(const struct coord_tasks *t, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    return number >> 32 == t->epoch && index < t->tasks ? index : COORD_NO_TASK;
}

uint64_t coord_task_last(const struct coord_task *task)
{
    SHOAL_ASSERT(task->first_batch != 0);
    return task->first_batch + task->batch_count - 1;
}

/* Returns the index after the last task that may be given out of the segment at hand, which is the
 * segment of the first task that is not appended. */
static uint32_t segment_end(const struct coord_tasks *t)
{
    uint32_t end = t->next;
    while (end < t->stop && end < t->gate && t->task[end].segment == t->task[t->next].segment)
        end++;
    return end;
}

static bool not_begun(const struct coord_tasks *t, uint32_t i)
{
    return t->task[i].begins && t->task[i].first_batch == 0;
}

/* Returns the first task of the last piece before `end` that is not begun and whose holder has
 * another such piece. */
static uint32_t task_spared(const struct coord_tasks *t, uint32_t end)
{
    for (uint32_t i = end; i > t->next; i--) {
        uint64_t holder = t->holder[t->task[i - 1].object];
        for (uint32_t k = t->next; not_begun(t, i - 1) && k < i - 1; k++)
            if (not_begun(t, k) && t->holder[t->task[k].object] == holder)
                return i - 1;
    }
    return COORD_NO_TASK;
}

/* async, ssp: returns the next task for a lane of this worker: of objects that it holds, else of an
 * object that no worker holds. A late worker gets the last object of another worker that is not
 * begun. */
static uint32_t task_held(const struct coord_tasks *t, uint64_t worker)
{
    uint32_t nobodys = COORD_NO_TASK, others = COORD_NO_TASK, end = segment_end(t);
    for (uint32_t i = t->next; i < end; i++) {
        if (t->task[i].first_batch != 0)
            continue;
        uint64_t holder = t->holder[t->task[i].object];
        if (holder == worker)
            return i;
        if (holder == 0 && nobodys == COORD_NO_TASK)
            nobodys = i;
        if (t->task[i].begins)
            others = i;
    }
    if (nobodys != COORD_NO_TASK || others == COORD_NO_TASK)
        return nobodys;
    if (worker >= t->late && coord_item_holds(t->holder, t->objects, worker) < t->fair)
        return others;
    if (t->segments > 1)
        return task_spared(t, end);
    return COORD_NO_TASK;
}

/* Returns the lane's next task that is done again, or COORD_NO_TASK. */
static uint32_t task_again(const struct coord_tasks *t, uint32_t lane)
{
    uint32_t i = t->lane[lane].again;
    if (i >= t->tasks || t->task[i].first_batch == 0)
        return COORD_NO_TASK;
    return i;
}

/* Returns the task that this lane would get while this worker holds it. */
static uint32_t task_left(const struct coord_tasks *t, uint32_t lane, uint64_t worker)
{
    SHOAL_ASSERT(lane < t->lanes && t->next <= t->tasks && t->stop <= t->tasks);
    if (task_again(t, lane) != COORD_NO_TASK)
        return t->lane[lane].again;
    if (!t->dealt && t->holder != NULL)
        return task_held(t, worker);
    uint32_t index = t->dealt ? t->lane[lane].next_task : t->next;
    return index < t->stop && index < t->gate ? index : COORD_NO_TASK;
}

/* The worker that gets a task of an object opens the object, and so holds it. */
static void object_hold(struct coord_tasks *t, uint32_t task, uint64_t worker)
{
    if (t->holder != NULL && t->task[task].object != COORD_NO_OBJECT)
        t->holder[t->task[task].object] = worker;
}

/* Cursors skip appended tasks (after a restart tasks come back out of order). */
static void cursors_advance(struct coord_tasks *t, struct coord_lane *lane)
{
    while (t->next < t->tasks && t->task[t->next].first_batch != 0)
        t->next++;
    while (lane->next_task < t->tasks && t->task[lane->next_task].first_batch != 0)
        lane->next_task += t->lanes;
}

uint32_t coord_task_next(const struct coord_tasks *t, uint32_t lane, uint64_t worker)
{
    SHOAL_ASSERT(worker != 0);
    return task_left(t, lane, worker);
}

uint32_t coord_task_append(struct coord_tasks *t, uint32_t lane)
{
    struct coord_lane *l = &t->lane[lane];
    SHOAL_ASSERT(lane < t->lanes && l->task == COORD_NO_TASK);
    SHOAL_ASSERT(l->appended == 0 || l->next_batch == l->appended + 1); /* 1 */
    uint32_t index = task_left(t, lane, l->worker);
    if (index == COORD_NO_TASK)
        return COORD_NO_TASK;
    if (index == task_again(t, lane)) { /* it keeps its batch numbers */
        SHOAL_ASSERT(t->task[index].lane == lane && !t->task[index].pushed);
        l->again += t->lanes;
        object_hold(t, index, l->worker);
        l->task = index;
        return index;
    }
    SHOAL_ASSERT(t->task[index].first_batch == 0 && index < t->stop); /* 3, 4 */
    SHOAL_ASSERT(t->task[index].lane == (t->dealt ? lane : COORD_NO_LANE));
    t->task[index].lane = lane;
    t->task[index].first_batch = l->next_batch;
    l->again = COORD_NO_TASK;
    t->frontier = MAX(t->frontier, index + 1);
    object_hold(t, index, l->worker);
    l->task = index;
    l->next_batch += t->task[index].batch_count;
    l->appended = l->next_batch - 1;
    cursors_advance(t, l);
    return index;
}

void coord_task_pushed(struct coord_tasks *t, uint32_t lane)
{
    struct coord_lane *l = &t->lane[lane];
    SHOAL_ASSERT(lane < t->lanes && l->task < t->tasks && t->pushed < t->tasks);
    struct coord_task *task = &t->task[l->task];
    SHOAL_ASSERT(task->lane == lane && !task->pushed);
    task->pushed = true;
    t->pushed++;
    l->mark = coord_task_last(task);
    l->task = COORD_NO_TASK;
}

bool coord_task_again(struct coord_tasks *t, uint32_t lane, uint64_t batch)
{
    struct coord_lane *l = &t->lane[lane];
    uint32_t first = COORD_NO_TASK, next = l->task;
    SHOAL_ASSERT(lane < t->lanes && t->dealt && l->state != LANE_HELD);
    for (uint32_t i = lane; i < t->tasks && t->task[i].first_batch != 0; i += t->lanes) {
        SHOAL_ASSERT(t->task[i].lane == lane);
        if (coord_task_last(&t->task[i]) < batch)
            continue;
        if (first == COORD_NO_TASK)
            first = i;
        t->pushed -= t->task[i].pushed;
        t->task[i].pushed = false;
    }
    if (first == COORD_NO_TASK)
        return batch >= l->next_batch;
    if (next == COORD_NO_TASK) /* some may be left of an earlier time */
        next = task_again(t, lane);
    l->task = MIN(first, next);
    l->again = l->task + t->lanes;
    return t->task[first].first_batch <= batch;
}

bool coord_task_report(struct coord_tasks *t, uint32_t index, const struct coord_losses *sum)
{
    SHOAL_ASSERT(index < t->tasks);
    struct coord_task *task = &t->task[index];
    if (task->reported)
        return false;
    SHOAL_ASSERT(t->reported < t->tasks);
    task->reported = true;
    task->sum = *sum;
    t->reported++;
    t->examples += sum->examples;
    t->bad_lines += sum->bad_lines;
    t->drawn += sum->drawn;
    return true;
}

uint64_t coord_task_before(const struct coord_tasks *t, uint32_t index)
{
    SHOAL_ASSERT(index <= t->tasks && t->batch > 0);
    return index < t->tasks ? t->task[index].before : t->batches;
}

uint32_t coord_task_frontier(const struct coord_tasks *t)
{
    uint32_t round = t->dealt ? t->lanes : 1;
    SHOAL_ASSERT(t->frontier <= t->tasks && t->tasks % round == 0);
    return (t->frontier + round - 1) / round * round;
}

uint32_t coord_task_after(const struct coord_tasks *t, uint64_t batches)
{
    uint32_t index = 0, step = t->dealt ? t->lanes : 1;
    while (index < t->tasks && coord_task_before(t, index) < batches)
        index += step;
    return index;
}

void coord_task_stop(struct coord_tasks *t, uint32_t index)
{
    uint32_t frontier = coord_task_frontier(t);
    t->stop = MAX(index, frontier);
    SHOAL_ASSERT(t->stop <= t->tasks && (!t->dealt || t->stop % t->lanes == 0)); /* 4 */
}

bool coord_task_drained(const struct coord_tasks *t)
{
    SHOAL_ASSERT(t->pushed <= t->stop && t->reported <= t->tasks);
    if (t->pushed < t->stop)
        return false;
    for (uint32_t l = 0; l < t->lanes; l++) {
        SHOAL_ASSERT(t->lane[l].task == COORD_NO_TASK);
        if (t->lane[l].state != LANE_FREE)
            return false;
    }
    return true;
}

uint32_t coord_lane_held(const struct coord_tasks *t, uint64_t worker)
{
    uint32_t held = 0;
    for (uint32_t l = 0; l < t->lanes; l++)
        held += t->lane[l].worker == worker &&
                (t->lane[l].state == LANE_HELD || t->lane[l].state == LANE_GRANTING);
    return held;
}

/* How well a free lane suits this worker: 0 not; 1 another owns it; 2 no owner; 3 its own. */
static uint32_t lane_suits(const struct coord_tasks *t, uint32_t lane, uint64_t worker, bool any)
{
    const struct coord_lane *l = &t->lane[lane];
    if (l->state != LANE_FREE || (l->kept_for != 0 && l->kept_for != worker) ||
        task_left(t, lane, worker) == COORD_NO_TASK)
        return 0;
    if (!t->dealt || t->holder == NULL || l->owner == worker)
        return 3;
    if (l->owner == 0)
        return 2;
    return any;
}

uint32_t coord_lane_pick(const struct coord_tasks *t, uint64_t worker, uint32_t share)
{
    uint32_t best = COORD_NO_LANE, how = 0;
    SHOAL_ASSERT(worker != 0 && share > 0);
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state == LANE_FREE && t->lane[l].task != COORD_NO_TASK)
            return l;
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].kept_for == worker && lane_suits(t, l, worker, false) > 0)
            return l;
    if (coord_lane_held(t, worker) >= share)
        return COORD_NO_LANE;
    for (uint32_t l = 0; l < t->lanes && how < 3; l++) {
        uint32_t suits = lane_suits(t, l, worker, share >= t->lanes);
        if (suits > how) {
            best = l;
            how = suits;
        }
    }
    return best;
}

void coord_lane_grant(struct coord_tasks *t, uint32_t lane, uint64_t worker)
{
    struct coord_lane *l = &t->lane[lane];
    SHOAL_ASSERT(lane < t->lanes && l->state == LANE_FREE && worker != 0);
    SHOAL_ASSERT(l->worker == 0 && l->ask_peer == 0); /* no pending answer is lost */
    l->state = LANE_GRANTING;
    l->worker = l->owner = worker;
    if (l->task != COORD_NO_TASK)
        object_hold(t, l->task, worker);
    l->generation++;
    l->used = l->placed = false;
    l->answered_ns = 0;
    l->kept_for = 0;
    l->ask_peer = 0;
}

void coord_lane_granted(struct coord_tasks *t, uint32_t lane, uint64_t mark)
{
    struct coord_lane *l = &t->lane[lane];
    SHOAL_ASSERT(lane < t->lanes && l->state == LANE_GRANTING && l->worker != 0);
    l->state = LANE_HELD;
    l->mark = mark;
}

void coord_lane_close(struct coord_tasks *t, uint32_t lane)
{
    struct coord_lane *l = &t->lane[lane];
    SHOAL_ASSERT(lane < t->lanes && l->state != LANE_CLOSING);
    SHOAL_ASSERT((l->worker != 0) == (l->state != LANE_FREE));
    l->state = LANE_CLOSING;
    l->generation++;
    l->worker = 0;
    l->ask_peer = 0;
}

void coord_lane_closed(struct coord_tasks *t, uint32_t lane)
{
    SHOAL_ASSERT(lane < t->lanes && t->lane[lane].state == LANE_CLOSING);
    SHOAL_ASSERT(t->lane[lane].worker == 0 && t->lane[lane].ask_peer == 0);
    t->lane[lane].state = LANE_FREE;
}

void coord_task_to_record(const struct coord_tasks *t, uint32_t index, uint64_t run,
                          struct coord_task_record *out)
{
    SHOAL_ASSERT(index < t->tasks);
    const struct coord_task *task = &t->task[index];
    *out = (struct coord_task_record){.run = run,
                                      .first_batch = task->first_batch,
                                      .sum = task->sum,
                                      .epoch = t->epoch,
                                      .lane = task->lane,
                                      .batch_count = task->batch_count,
                                      .reported = task->reported};
}

static bool record_fits(const struct coord_tasks *t, const struct coord_task *task,
                        const struct coord_task_record *in)
{
    if (in->first_batch == 0 || in->lane >= t->lanes || in->batch_count != task->batch_count)
        return false;
    return !t->dealt || in->lane == task->lane;
}

int coord_task_from_record(struct coord_tasks *t, uint32_t index, uint64_t run,
                           const struct coord_task_record *in, struct err *e)
{
    SHOAL_ASSERT(index < t->tasks);
    struct coord_task *task = &t->task[index];
    if (in->run != run || in->epoch != t->epoch)
        return 0;
    if (!record_fits(t, task, in))
        return err_set(e, SHOAL_E_CORRUPT,
                       "task %u is stored with %u batches from batch %" PRIu64
                       " of lane %u on, and is cut to %u: another release has gone on with this "
                       "epoch, so it is not known which rows are learnt",
                       index, in->batch_count, in->first_batch, in->lane, task->batch_count);
    SHOAL_ASSERT(task->first_batch == 0); /* freshly planned */
    task->lane = in->lane;
    task->first_batch = in->first_batch;
    task->stored = true;
    t->frontier = MAX(t->frontier, index + 1);
    if (in->reported)
        (void)coord_task_report(t, index, &in->sum);
    return 0;
}

void coord_task_resume(struct coord_tasks *t)
{
    SHOAL_ASSERT(t->pushed == 0 && t->next == 0);
    for (uint32_t i = 0; i < t->tasks; i++) {
        struct coord_task *task = &t->task[i];
        if (task->first_batch == 0)
            continue;
        struct coord_lane *l = &t->lane[task->lane];
        uint32_t done =
            /* the earlier of two tasks of a lane is done: a lane gets a task only when its last one
             * is */
            i;
        if (l->task == COORD_NO_TASK || t->task[l->task].first_batch < task->first_batch) {
            done = l->task;
            l->task = i;
        }
        if (done != COORD_NO_TASK) {
            t->task[done].pushed = true;
            t->pushed++;
        }
        if (coord_task_last(task) >= l->next_batch)
            l->next_batch = coord_task_last(task) + 1;
    }
    for (uint32_t l = 0; l < t->lanes; l++)
        cursors_advance(t, &t->lane[l]);
    SHOAL_ASSERT(t->pushed <= t->tasks && t->next <= t->tasks);
}

void coord_task_settle(struct coord_tasks *t)
{
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].task != COORD_NO_TASK)
            coord_task_pushed(t, l);
}
