/* fake_shoal.c: libshoal in memory, for tests of the Python package: two tables of KEYS rows each,
 * which are trained by sgd with a rate of 1, one tensor, and a job of BATCHES batches, of which
 * each third is an evaluation.
 *
 * The coordinator's name decides: "one": each field has one value; "many": 0 to 3 values, with
 * factors; "mean": as many, without factors, and field f1 is a mean; "idle": no batch comes;
 * "nothing": there is no job; "stuck": closing takes its time; any other name is UNREACHABLE.
 *
 * A handle in another process than its own ends the process with the status FORKED. */
#include "worker/lib/shoal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FORKED = 99,
    KEYS = 64,
    EXAMPLES = 5,
    FIELDS = 3,
    TABLES = 2,
    BATCHES = 6,
    FLOATS = 6,
    VALUES = EXAMPLES * FIELDS * 3
};
static const uint32_t width[TABLES] = {3, 4}, first[TABLES] = {1, 0};
static const char *const names[TABLES] = {"emb", "wide"};
static float store[TABLES][KEYS][4];
static float weights[FLOATS];
static int filled;

struct shoal_work {
    bool many, mean, idle, stuck, out;
    uint64_t at, done, failed;
    pid_t process;
    struct shoal_batch batch;
    struct shoal_batch_table table[TABLES];
    struct shoal_batch_tensor tensor;
    struct shoal_batch_field field[FIELDS];
    uint64_t keys[TABLES][KEYS];
    float rows[TABLES][KEYS * 4], gradients[TABLES][KEYS * 4], dense[FLOATS],
        dense_gradients[FLOATS];
    uint32_t index[VALUES], offset[EXAMPLES * FIELDS + 1];
    float factor[VALUES], label[EXAMPLES], numeric[EXAMPLES * 2], scores[EXAMPLES];
};
struct shoal_read {
    struct shoal_work work;
};
struct shoal_fleet {
    pid_t process;
};

/* A handle does not survive fork(). */
static void own(pid_t process)
{
    if (process != getpid())
        _exit(FORKED);
}

static int refuse(struct shoal_error *e, int code, const char *text)
{
    if (e != NULL) {
        e->code = code;
        snprintf(e->text, sizeof e->text, "%s", text);
    }
    return code;
}

static int ok(struct shoal_error *e)
{
    return refuse(e, SHOAL_OK, "");
}

static void fill(void)
{
    if (filled++ > 0)
        return;
    for (int t = 0; t < TABLES; t++)
        for (int k = 0; k < KEYS; k++)
            for (int i = 0; i < 4; i++)
                store[t][k][i] = (float)((t * 7 + k * 3 + i) % 11) / 10 - 0.5f;
    for (int i = 0; i < FLOATS; i++)
        weights[i] = (float)i / 10 - 0.2f;
}

const char *shoal_version(void)
{
    return "0.3.0";
}

static bool known(const char *c)
{
    return c != NULL &&
           (strcmp(c, "one") == 0 || strcmp(c, "many") == 0 || strcmp(c, "mean") == 0 ||
            strcmp(c, "idle") == 0 || strcmp(c, "nothing") == 0 || strcmp(c, "stuck") == 0);
}

int shoal_fleet_open(const struct shoal_fleet_options *o, shoal_fleet **out, struct shoal_error *e)
{
    fill();
    if (!known(o->coordinator))
        return refuse(e, SHOAL_ERROR_UNREACHABLE, "the fleet does not answer");
    *out = calloc(1, sizeof **out);
    (*out)->process = getpid();
    return ok(e);
}

void shoal_fleet_close(shoal_fleet *f)
{
    own(f->process);
    free(f);
}

uint32_t shoal_fleet_tables(const shoal_fleet *f)
{
    (void)f;
    return TABLES;
}

int shoal_fleet_table(const shoal_fleet *f, uint32_t t, struct shoal_table *out,
                      struct shoal_error *e)
{
    (void)f;
    snprintf(out->name, sizeof out->name, "%s", names[t]);
    snprintf(out->optimizer, sizeof out->optimizer, "sgd");
    out->width = width[t];
    out->first = first[t];
    out->dim = width[t] - first[t];
    out->state = 2;
    out->values = SHOAL_BF16;
    out->stats = 0;
    out->lr = 1;
    return ok(e);
}

int shoal_fleet_find(const shoal_fleet *f, const char *name, uint32_t *index, struct shoal_error *e)
{
    (void)f;
    for (uint32_t t = 0; t < TABLES; t++)
        if (strcmp(name, names[t]) == 0) {
            *index = t;
            return ok(e);
        }
    return refuse(e, SHOAL_ERROR_NOT_FOUND, "there is no such table: there are emb, wide");
}

int shoal_fleet_key(const shoal_fleet *f, uint32_t table, const char *field, const char *value,
                    size_t bytes, uint64_t *key, struct shoal_error *e)
{
    (void)f;
    (void)table;
    *key = ((uint64_t)field[0] << 48) + (bytes > 0 ? (unsigned char)value[bytes - 1] : 0);
    return ok(e);
}

int shoal_fetch(shoal_fleet *f, uint32_t t, const uint64_t *keys, size_t count, float *to,
                float *state, uint8_t *found, struct shoal_error *e)
{
    own(f->process);
    if (t >= TABLES)
        return refuse(e, SHOAL_ERROR_USAGE, "there is no table of this index");
    for (size_t i = 0; i < count; i++) {
        bool there = keys[i] < KEYS;
        for (uint32_t d = 0; d < width[t]; d++)
            to[i * width[t] + d] = there ? store[t][keys[i]][d] : 0;
        if (state != NULL)
            state[2 * i] = state[2 * i + 1] = (float)i;
        if (found != NULL)
            found[i] = there;
    }
    return ok(e);
}

int shoal_assign(shoal_fleet *f, uint32_t t, const uint64_t *keys, size_t count, const float *from,
                 const float *state, uint32_t flags, struct shoal_assigned *counts,
                 struct shoal_error *e)
{
    (void)f;
    (void)state;
    for (size_t i = 0; i < count; i++)
        if (keys[i] >= KEYS)
            return refuse(e, SHOAL_ERROR_DENIED, "the key's role may not do this");
    for (size_t i = 0; i < count && (flags & SHOAL_KEEP) == 0; i++)
        memcpy(store[t][keys[i]], from + i * width[t], width[t] * sizeof *from);
    counts->replaced = (flags & SHOAL_KEEP) == 0 ? count : 0;
    counts->kept = count - counts->replaced;
    return ok(e);
}

uint32_t shoal_fleet_tensors(const shoal_fleet *f)
{
    (void)f;
    return 1;
}

static void shape_set(char *name, size_t bytes, uint32_t *rank, uint32_t *shape, size_t *floats)
{
    snprintf(name, bytes, "deep.weight");
    *rank = 2;
    shape[0] = 1;
    shape[1] = FLOATS;
    *floats = FLOATS;
}

int shoal_fleet_tensor(const shoal_fleet *f, uint32_t i, struct shoal_tensor *out,
                       struct shoal_error *e)
{
    (void)f;
    (void)i;
    shape_set(out->name, sizeof out->name, &out->rank, out->shape, &out->floats);
    return ok(e);
}

int shoal_tensor_read(shoal_fleet *f, const char *name, float *to, size_t floats,
                      struct shoal_error *e)
{
    (void)f;
    (void)name;
    memcpy(to, weights, floats * sizeof *to);
    return ok(e);
}

int shoal_tensor_write(shoal_fleet *f, const char *name, const float *from, size_t floats,
                       struct shoal_error *e)
{
    (void)f;
    (void)name;
    memcpy(weights, from, floats * sizeof *from);
    return ok(e);
}

/* The key's place among the table's, which it joins if it is not there. */
static uint32_t place(struct shoal_work *w, uint32_t t, uint64_t key)
{
    uint32_t i = 0;
    while (i < w->table[t].count && w->keys[t][i] != key)
        i++;
    if (i == w->table[t].count)
        w->keys[t][w->table[t].count++] = key;
    return i;
}

static void values_make(struct shoal_work *w)
{
    struct shoal_batch *b = &w->batch;
    uint32_t at = 0, seed = (uint32_t)w->at * 2654435761u + 1;
    w->table[0].count = w->table[1].count = 0;
    for (uint32_t bag = 0; bag < EXAMPLES * FIELDS; bag++) {
        w->offset[bag] = at;
        seed = seed * 1664525u + 1013904223u;
        uint32_t count = w->many ? (seed >> 20) % 4 : 1;
        for (uint32_t v = 0; v < count; v++, at++) {
            seed = seed * 1664525u + 1013904223u;
            w->index[at] =
                place(w, w->field[bag % FIELDS].table, (seed >> 16) % 16 + bag % FIELDS * 16);
            w->factor[at] = 0.5f + (float)(seed >> 28) / 16;
        }
    }
    w->offset[EXAMPLES * FIELDS] = at;
    b->values = at;
    for (uint32_t bag = 0; bag < EXAMPLES * FIELDS; bag++)
        for (uint32_t v = w->offset[bag]; v < w->offset[bag + 1]; v++)
            w->index[v] += w->field[bag % FIELDS].table == 1 ? w->table[0].count : 0;
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        w->label[i] = (float)((seed >> i) & 1);
        w->numeric[2 * i] = w->numeric[2 * i + 1] = (float)i;
    }
}

static void batch_make(struct shoal_work *w, bool read)
{
    struct shoal_batch *b = &w->batch;
    *b = (struct shoal_batch){.size = sizeof *b,
                              .kind = !read && w->at % 3 == 2 ? SHOAL_SCORE : SHOAL_TRAIN,
                              .number = w->at + 1,
                              .epoch = 1,
                              .examples = EXAMPLES,
                              .fields = FIELDS,
                              .numerics = 2,
                              .tasks = 1,
                              .index = w->index,
                              .offset = w->many ? w->offset : NULL,
                              .factor = w->many && !w->mean ? w->factor : NULL,
                              .numeric = w->numeric,
                              .label = w->label,
                              .tables = TABLES,
                              .tensors = read ? 0 : 1,
                              .table = w->table,
                              .tensor = &w->tensor,
                              .field = w->field,
                              .scores = read ? NULL : w->scores};
    for (uint32_t i = 0; i < FIELDS; i++) {
        snprintf(w->field[i].name, sizeof w->field[i].name, "f%u", i);
        w->field[i].table = i == 2;
        w->field[i].pooling = w->mean && i == 1;
    }
    values_make(w);
    for (uint32_t t = 0; t < TABLES; t++) {
        struct shoal_batch_table *x = &w->table[t];
        snprintf(x->name, sizeof x->name, "%s", names[t]);
        x->width = width[t];
        x->first = first[t];
        x->dim = width[t] - first[t];
        x->base = t == 0 ? 0 : w->table[0].count;
        x->keys = w->keys[t];
        x->rows = read ? NULL : w->rows[t];
        x->gradients = read || b->kind == SHOAL_SCORE ? NULL : w->gradients[t];
        for (uint32_t i = 0; i < x->count; i++)
            memcpy(w->rows[t] + i * width[t], store[t][w->keys[t][i]], width[t] * sizeof(float));
    }
    memset(w->gradients, 0, sizeof w->gradients);
    memset(w->dense_gradients, 0, sizeof w->dense_gradients);
    memcpy(w->dense, weights, sizeof weights);
    shape_set(w->tensor.name, sizeof w->tensor.name, &w->tensor.rank, w->tensor.shape,
              &w->tensor.floats);
    w->tensor.values = w->dense;
    w->tensor.gradients = b->kind == SHOAL_SCORE ? NULL : w->dense_gradients;
}

static void say(const char *text)
{
    if (getenv("FAKE_SAYS") != NULL)
        puts(text);
    fflush(stdout);
}

int shoal_work_join(const struct shoal_work_options *o, shoal_work **out, struct shoal_error *e)
{
    fill();
    if (!known(o->coordinator))
        return refuse(e, SHOAL_ERROR_UNREACHABLE, "the fleet does not answer");
    while (strcmp(o->coordinator, "nothing") == 0 && o->goes_on(o->context))
        usleep(20000);
    if (strcmp(o->coordinator, "nothing") == 0)
        return say("gave up"), refuse(e, SHOAL_ERROR_STOPPED, "the program gave up waiting");
    *out = calloc(1, sizeof **out);
    (*out)->mean = strcmp(o->coordinator, "mean") == 0;
    (*out)->many = (*out)->mean || strcmp(o->coordinator, "many") == 0;
    (*out)->stuck = strcmp(o->coordinator, "stuck") == 0;
    (*out)->idle = strcmp(o->coordinator, "idle") == 0 || (*out)->stuck;
    (*out)->process = getpid();
    return ok(e);
}

const char *shoal_work_job(const shoal_work *w)
{
    (void)w;
    return "job: fake\n";
}

int shoal_work_next(shoal_work *w, uint32_t wait_ms, struct shoal_batch **out,
                    struct shoal_error *e)
{
    own(w->process);
    if (w->idle) {
        usleep(1000 * wait_ms);
        return refuse(e, SHOAL_AGAIN, "no batch came");
    }
    if (w->out)
        return refuse(e, SHOAL_ERROR_INTERNAL, "the lane's batch is out");
    if (w->at == BATCHES)
        return refuse(e, SHOAL_END, "the job is over");
    batch_make(w, false);
    w->out = true;
    *out = &w->batch;
    return ok(e);
}

int shoal_work_done(shoal_work *w, struct shoal_batch *b, struct shoal_error *e)
{
    own(w->process);
    if (!w->out)
        return refuse(e, SHOAL_ERROR_USAGE, "the batch is not out");
    w->out = false;
    w->at++;
    for (uint32_t i = 0; i < EXAMPLES; i++)
        if (!isfinite(b->scores[i]))
            return refuse(e, SHOAL_ERROR_NOT_FINITE, "lane 0: a score is not a finite number");
    if (b->kind == SHOAL_SCORE)
        return ok(e);
    w->done++;
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t i = 0; i < w->table[t].count * width[t]; i++)
            store[t][w->keys[t][i / width[t]]][i % width[t]] -= w->gradients[t][i];
    for (int i = 0; i < FLOATS; i++)
        weights[i] -= w->dense_gradients[i];
    return ok(e);
}

int shoal_work_fail(shoal_work *w, struct shoal_batch *b, const char *reason, struct shoal_error *e)
{
    (void)b;
    (void)reason;
    own(w->process);
    if (!w->out)
        return refuse(e, SHOAL_ERROR_USAGE, "the batch is not out");
    w->out = false;
    w->failed++;
    return ok(e);
}

void shoal_work_progress(shoal_work *w, struct shoal_progress *out)
{
    out->batches = out->acknowledged = w->done;
    out->examples = w->done * EXAMPLES;
    out->keys_pushed = w->failed; /* for tests alone */
}

void shoal_work_close(shoal_work *w)
{
    own(w->process);
    if (w->stuck)
        sleep(60);
    say("closed");
    free(w);
}

int shoal_read_open(const struct shoal_read_options *o, shoal_read **out, struct shoal_error *e)
{
    fill();
    if (strstr(o->job, "many") == NULL && strstr(o->job, "one") == NULL)
        return refuse(e, SHOAL_ERROR_NOT_FOUND, "there is no such file");
    if (strstr(o->job, "novalid") != NULL && strcmp(o->split, "valid") == 0)
        return refuse(e, SHOAL_ERROR_NO_INPUT, "data.valid: the job names no input");
    *out = calloc(1, sizeof **out);
    (*out)->work.many = strstr(o->job, "many") != NULL;
    return ok(e);
}

int shoal_read_next(shoal_read *r, struct shoal_batch **out, struct shoal_error *e)
{
    if (r->work.at == BATCHES)
        return refuse(e, SHOAL_END, "the input is at its end");
    batch_make(&r->work, true);
    r->work.at++;
    *out = &r->work.batch;
    return ok(e);
}

void shoal_read_close(shoal_read *r)
{
    free(r);
}
