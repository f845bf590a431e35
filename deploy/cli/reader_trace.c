/* reader_trace.c: traces of batches, from the coordinator, and the shards' shares of them. */
#include "deploy/cli/reader_inner.h"

#include <stdlib.h>
#include <string.h>

/* Takes the items of frame 1; *out: the caller's. */
static int items_take(struct msg *m, uint32_t count, size_t bytes, void **out, struct err *e)
{
    *out = malloc(count * bytes + 1);
    if (*out != NULL)
        memcpy(*out, m->frame[1].data, count * bytes); /* wire_decode has compared the two */
    msg_free(m);
    if (*out == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return 0;
}

int reader_trace_every(struct reader *r, uint32_t every, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_TRACE_EVERY, .u.TRACE_EVERY.every = every}, reply;
    return cli_ask(r->coordinator, &w, NULL, QUESTION_MS, &reply, NULL, e);
}

int reader_traces(struct reader *r, const struct wire_TRACE *ask, struct wire_TRACE_reply *told,
                  struct wire_trace **out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_TRACE, .u.TRACE = *ask}, reply;
    struct msg *m;
    void *items;
    int rc = cli_ask(r->coordinator, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc != 0)
        return rc;
    *told = reply.u.TRACE_reply;
    rc = items_take(m, told->count, sizeof **out, &items, e);
    *out = items;
    return rc;
}

int reader_spans(struct reader *r, uint32_t shard, const struct wire_SPANS *ask,
                 struct wire_span **out, uint32_t *count, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SPANS, .u.SPANS = *ask}, reply;
    struct wire_HELLO_reply hello;
    struct ask *to;
    struct msg *m;
    void *items;
    int rc = 0;
    if (r->endpoint == NULL)
        rc = reader_live_known(r, e);
    if (rc == 0 && shard < r->shards) /* one that is away holds the others up for 3 s only */
        rc = reader_dial(r, shard, r->endpoint[shard], &hello, e);
    if (rc == 0)
        rc = reader_shard(r, shard, &to, e);
    if (rc == 0)
        rc = cli_ask(to, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc != 0)
        return rc;
    *count = reply.u.SPANS_reply.count;
    rc = items_take(m, *count, sizeof **out, &items, e);
    *out = items;
    return rc;
}
