/* evaluate.c: scores of an evaluation task. */
#include "worker/evaluate.h"
#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

void scores_init(struct scores *s)
{
    memset(s, 0, sizeof *s);
}

void scores_close(struct scores *s)
{
    free(s->score);
    free(s->label);
    scores_init(s);
}

int scores_reset(struct scores *s, uint64_t rows, struct err *e)
{
    if (rows > LIMIT_BATCH)
        return err_set(e, SHOAL_E_TOO_BIG, "an evaluation task of %llu rows is over the limit of %u",
                       (unsigned long long)rows, LIMIT_BATCH);
    s->count = 0;
    if (rows <= s->capacity)
        return 0;
    scores_close(s);
    s->score = malloc(rows * sizeof(float));
    s->label = malloc(rows * sizeof(float));
    if (s->score == NULL || s->label == NULL) {
        scores_close(s);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the scores of %llu rows", (unsigned long long)rows);
    }
    s->capacity = (uint32_t)rows;
    return 0;
}

void scores_add(struct scores *s, const float *score, const float *label, uint32_t count)
{
    SHOAL_ASSERT(count <= s->capacity - s->count);
    if (count == 0)
        return;
    memcpy(s->score + s->count, score, count * sizeof(float));
    memcpy(s->label + s->count, label, count * sizeof(float));
    s->count += count;
}

static int floats_add(struct msg *m, const float *floats, uint32_t count)
{
    void *data = msg_add(m, count * sizeof(float));

    if (data == NULL)
        return SHOAL_E_NOMEM;
    if (count > 0)
        memcpy(data, floats, count * sizeof(float));
    return 0;
}

struct msg *scores_message(const struct scores *s, uint64_t id, uint64_t worker, uint64_t task, uint64_t bad_lines)
{
    struct wire w;

    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_EVAL_DONE;
    w.id = id;
    w.u.EVAL_DONE.worker = worker;
    w.u.EVAL_DONE.task = task;
    w.u.EVAL_DONE.examples = s->count;
    w.u.EVAL_DONE.bad_lines = bad_lines;
    struct msg *m = wire_encode(&w);
    if (m != NULL && (floats_add(m, s->score, s->count) != 0 || floats_add(m, s->label, s->count) != 0)) {
        msg_free(m);
        m = NULL;
    }
    return m;
}
