/* evaluate.c: predictions of an evaluation task. */
#include "worker/train/evaluate.h"
#include "proto/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void evaluate_scores_init(struct scores *s)
{
    memset(s, 0, sizeof *s);
}

void evaluate_scores_close(struct scores *s)
{
    free(s->score);
    free(s->label);
    free(s->group);
    free(s->by);
    free(s->row);
    passed_free(&s->passed);
    evaluate_scores_init(s);
}

_Static_assert(sizeof(struct unseen_field) == sizeof(struct wire_unseen),
               "they travel as they are");

static int scores_room(struct scores *s, const struct job *job, uint64_t rows, struct err *e)
{
    bool grouped = job->evaluate.group[0] != '\0';
    SHOAL_ASSERT(rows > s->capacity && rows <= LIMIT_BATCH);
    evaluate_scores_close(s);
    s->tasks = job->data.label_count;
    if (job->data.label_count == 0)
        s->tasks = 1;

    s->by_count = (uint32_t)job->evaluate.by.count;
    s->score = malloc(rows * s->tasks * sizeof(float));
    s->label = malloc(rows * s->tasks * sizeof(float));
    s->group = NULL;
    if (grouped)
        s->group = malloc(rows * sizeof(uint64_t));

    if (s->by_count > 0)
        s->by = malloc(rows * s->by_count * sizeof(uint64_t));
    else
        s->by = NULL;

    s->row = NULL;
    if (job->predict.on)
        s->row = malloc(rows * sizeof(uint32_t));

    if (s->score == NULL || s->label == NULL || (grouped && s->group == NULL) ||
        (s->by_count > 0 && s->by == NULL) || (job->predict.on && s->row == NULL)) {
        evaluate_scores_close(s);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the predictions of %" PRIu64 " rows", rows);
    }
    s->capacity = (uint32_t)rows;
    return 0;
}

int evaluate_scores_reset(struct scores *s, const struct job *job, uint64_t rows, struct err *e)
{
    if (rows > LIMIT_BATCH)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "an evaluation task of %" PRIu64 " rows is over the limit of %u", rows,
                       LIMIT_BATCH);
    s->count = s->rows = 0;
    s->unseen.fields = 0;
    passed_clear(&s->passed);

    if (rows <= s->capacity)
        return 0;

    return scores_room(s, job, rows, e);
}

/* Appends examples; the arrays have the shapes of struct scores. */
static void scores_append(struct scores *s, const float *score, const float *label,
                          const uint64_t *group, const uint64_t *by, uint32_t count)
{
    size_t floats = (size_t)count * s->tasks * sizeof(float), at = (size_t)s->count * s->tasks;
    SHOAL_ASSERT(count <= s->capacity - s->count);
    memcpy(s->score + at, score, floats);
    memcpy(s->label + at, label, floats);
    if (s->group != NULL)
        memcpy(s->group + s->count, group, count * sizeof(uint64_t));
    if (s->by != NULL)
        memcpy(s->by + (size_t)s->count * s->by_count, by,
               (size_t)count * s->by_count * sizeof(uint64_t));
    s->count += count;
}

/* Appends the rows of the next examples, and the passed cells of all rows that were read. */
static int rows_append(struct scores *s, const uint32_t *row, uint32_t count, uint32_t rows,
                       const struct passed *passed)
{
    SHOAL_ASSERT(count <= s->capacity - s->count && count <= rows);
    for (uint32_t i = 0; i < count; i++)
        s->row[s->count + i] = s->rows + row[i];
    s->rows += rows;
    return passed_append(&s->passed, passed);
}

int evaluate_scores_add(struct scores *s, const float *score, const struct batch *batch)
{
    SHOAL_ASSERT((s->row != NULL) == (batch->row != NULL));
    if (s->row != NULL && rows_append(s, batch->row, batch->examples,
                                      batch->examples + batch->bad_lines, &batch->passed) != 0)
        return SHOAL_E_NOMEM;
    if (batch->examples == 0)
        return 0;
    SHOAL_ASSERT(batch->tasks == s->tasks && (s->group == NULL || batch->group != NULL));
    SHOAL_ASSERT(s->by == NULL || (batch->by != NULL && batch->by_count == s->by_count));
    scores_append(s, score, batch->label, batch->group, batch->by, batch->examples);
    return 0;
}

int evaluate_scores_copy(struct scores *to, const struct scores *from, const struct job *job,
                         struct err *e)
{
    SHOAL_ASSERT(to != from);
    int rc = evaluate_scores_reset(to, job, from->capacity, e);
    if (rc == 0 && to->row != NULL &&
        rows_append(to, from->row, from->count, from->rows, &from->passed) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the cells of %u rows", from->rows);
    if (rc == 0)
        unseen_add(&to->unseen, from->unseen.of, from->unseen.fields);
    if (rc == 0 && from->count > 0)
        scores_append(to, from->score, from->label, from->group, from->by, from->count);
    return rc;
}

/* A frame of arrays, one after the other; any may be empty. */
struct array {
    const void *at;
    size_t bytes;
};

static int frame_add(struct msg *m, const struct array *of, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += of[i].bytes;
    char *data = msg_add(m, bytes);
    for (size_t i = 0; i < count && data != NULL; i++) {
        if (of[i].bytes > 0)
            memcpy(data, of[i].at, of[i].bytes);
        data += of[i].bytes;
    }
    if (data == NULL)
        return SHOAL_E_NOMEM;
    return 0;
}

struct msg *evaluate_scores_message(const struct scores *s, uint64_t id, uint64_t pass,
                                    uint64_t task, uint64_t bad_lines)
{
    size_t floats = (size_t)s->count * s->tasks * sizeof(float),
           words = s->count * sizeof(uint64_t);
    struct wire w;
    SHOAL_ASSERT(s->count <= s->capacity && s->by_count <= LIMIT_BY);
    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_EVAL_DONE;
    w.id = id;
    w.u.EVAL_DONE = (struct wire_EVAL_DONE){.pass = pass,
                                            .task = task,
                                            .examples = s->count,
                                            .bad_lines = bad_lines,
                                            .tasks = s->tasks,
                                            .grouped = s->group != NULL,
                                            .by_count = s->by_count,
                                            .fields = s->unseen.fields};
    struct msg *m = wire_encode(&w);
    const struct array first[] = {{s->score, floats}, {s->label, floats}},
                       second[] = {{s->group, s->group == NULL ? 0 : words},
                                   {s->by, words * s->by_count},
                                   {s->unseen.of, s->unseen.fields * sizeof s->unseen.of[0]}};
    if (m != NULL && (frame_add(m, first, 2) != 0 || frame_add(m, second, 3) != 0)) {
        msg_free(m);
        m = NULL;
    }
    return m;
}
