/* queue.c: the jobs that wait for their turn; queue.h has the rules. */
#include "server/coord/figures/queue.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "proto/job/job.h"
#include "server/coord/figures/report_job.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "queue/"

_Static_assert(sizeof(struct coord_queue_head) == 24 + 3 * LIMIT_NAME + LIMIT_PATH, "it is stored");

/* The keys of a store are in order, and numbers rise. */
static void key_of(uint64_t number, char out[COORD_KEY_MAX])
{
    (void)snprintf(out, COORD_KEY_MAX, KEY "%020" PRIu64, number);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* Notes what turns.c asks of the text at each step. A text that this release cannot read any more
 * is refused at its turn. */
static void text_look(struct coord_queued *item)
{
    struct job spec;
    if (job_parse(item->yaml, item->bytes, "job", NULL, &spec, NULL) != 0)
        return;
    item->looks = spec.checkpoint.dir[0] != 0 || item->head.from[0] != 0;
    job_free(&spec);
}

static int item_add(struct coord_queue *q, const struct coord_queue_head *head, const char *yaml,
                    size_t bytes, peer_t peer)
{
    struct coord_queued *to = &q->item[q->count];
    char *copy = malloc(bytes + 1);
    SHOAL_ASSERT(q->count < COORD_QUEUE_MAX);
    if (copy == NULL)
        return SHOAL_E_NOMEM;
    memcpy(copy, yaml, bytes);
    *to = (struct coord_queued){.head = *head, .yaml = copy, .bytes = bytes, .peer = peer};
    text_look(to);
    q->count++;
    q->bytes += bytes;
    return 0;
}

static bool ended(const char *text, size_t bytes)
{
    return text[bytes - 1] == 0;
}

static int item_read(void *context, const char *key, const void *value, size_t bytes)
{
    struct coord_queue *q = context;
    struct coord_queue_head head;
    if (strncmp(key, KEY, strlen(KEY)) != 0)
        return 0;
    if (bytes < sizeof head || q->count == COORD_QUEUE_MAX)
        return SHOAL_E_CORRUPT;
    memcpy(&head, value, sizeof head);
    if (!ended(head.job, sizeof head.job) || !ended(head.space, sizeof head.space) ||
        !ended(head.by, sizeof head.by) || !ended(head.from, sizeof head.from))
        return SHOAL_E_CORRUPT;
    return item_add(q, &head, (const char *)value + sizeof head, bytes - sizeof head, 0);
}

int coord_queue_open(struct coord_fleet *f, struct err *e)
{
    int rc = coord_store_visit(f->store, item_read, f->queue);
    if (rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "no memory for the jobs that wait");
    if (rc != 0)
        return err_set(e, rc, "a stored job that waits cannot be" COORD_STORE_ADVICE);
    return 0;
}

void coord_queue_close(struct coord_queue *q)
{
    for (uint32_t i = 0; i < q->count; i++)
        free(q->item[i].yaml);
    *q = (struct coord_queue){.count = 0};
}

static int full_check(const struct coord_queue *q, size_t bytes, struct err *e)
{
    if (q->count < COORD_QUEUE_MAX && q->bytes + bytes <= COORD_QUEUE_BYTES)
        return 0;
    return err_set(e, SHOAL_E_BUSY,
                   "%u jobs wait already, with %" PRIu64
                   " bytes of text; at most %u and %u: submit "
                   "again when some have ended (shoal jobs), or take one out (shoal stop NUMBER)",
                   q->count, q->bytes, COORD_QUEUE_MAX, COORD_QUEUE_BYTES);
}

int coord_queue_add(struct coord_fleet *f, struct coord_queue_head *head, const char *yaml,
                    size_t bytes, peer_t peer, struct err *e)
{
    char key[COORD_KEY_MAX];
    int rc = full_check(f->queue, bytes, e);
    if (rc != 0)
        return rc;
    char *value = malloc(sizeof *head + bytes);
    if (value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a job that waits");
    head->number = f->counters.next_run++;
    memcpy(value, head, sizeof *head);
    memcpy(value + sizeof *head, yaml, bytes);
    key_of(head->number, key);
    bool good = coord_put(f, "counters", &f->counters, sizeof f->counters) &&
                coord_put(f, key, value, sizeof *head + bytes);
    free(value);
    if (!good)
        return coord_store_failed(e);
    if (item_add(f->queue, head, yaml, bytes, peer) == 0)
        return 0;
    (void)coord_remove(f, key);
    return err_set(e, SHOAL_E_NOMEM, "no memory for a job that waits");
}

bool coord_queue_remove(struct coord_fleet *f, uint32_t place)
{
    struct coord_queue *q = f->queue;
    char key[COORD_KEY_MAX];
    SHOAL_ASSERT(place < q->count);
    struct coord_queued *item = &q->item[place];
    key_of(item->head.number, key);
    if (!coord_remove(f, key))
        return false;
    q->bytes -= item->bytes;
    free(item->yaml);
    memmove(item, item + 1, (q->count - place - 1) * sizeof *item);
    q->count--;
    return true;
}

/* ---- looking --------------------------------------------------------------------------------- */

uint32_t coord_queue_find(const struct coord_queue *q, uint64_t number)
{
    uint32_t at = 0;
    while (at < q->count && q->item[at].head.number != number)
        at++;
    return at;
}

uint32_t coord_queue_again(const struct coord_queue *q, const struct coord_queue_head *head,
                           const char *yaml, size_t bytes, peer_t peer)
{
    uint32_t at = 0;
    for (; at < q->count; at++) {
        const struct coord_queued *x = &q->item[at];
        bool same = x->peer == peer || x->peer == 0; /* 0: it came before a restart */
        if (same && x->bytes == bytes && memcmp(x->yaml, yaml, bytes) == 0 &&
            x->head.start == head->start && strcmp(x->head.from, head->from) == 0)
            break;
    }
    return at;
}

struct json *coord_queue_line(const struct coord_queued *item, const char *state, int status,
                              const char *reason)
{
    struct json *line = json_new_object();
    json_set_int(line, "number", (int64_t)item->head.number);
    json_set_string(line, "job", item->head.job);
    json_set_string(line, "space", item->head.space);
    json_set_string(line, "state", state);
    json_set_int(line, "status", status);
    if (reason[0] != 0)
        json_set_string(line, "reason", reason);
    coord_report_job_date(line, "submitted", item->head.wall_s);
    if (item->head.by[0] != 0)
        json_set_string(line, "by", item->head.by);
    json_set_null(line, "began");
    json_set_null(line, "ended");
    json_set(line, "tables", json_new_array());
    return line;
}

void coord_queue_lines(const struct coord_queue *q, struct json *list)
{
    for (uint32_t i = 0; i < q->count; i++)
        json_append(list, coord_queue_line(&q->item[i], "submitted", 0, q->item[i].why));
}
