/* test_refused.c: refusals of a device and its library of products, at every possible place:
 * each ends in a correct step, or in an error with enough detail. It uses the host's stand-in,
 * which refuses on demand. */
#include "tests/lib/cuda_case.h"

#include "dense/model/run.h"

#include <inttypes.h>
#include <stdio.h>

/* Under tsan, where a run takes seconds, only each 17th call. */
#ifdef __SANITIZE_THREAD__
enum { EACH = 17 };
#else
enum { EACH = 1 };
#endif
enum { EXAMPLES = 150, ROWS = 60, STEPS = 4, FLOATS_MAX = 1 << 16 };

/* The result of a run whose device refuses something. */
struct play {
    int code;
    char text[ERR_TEXT_MAX];
    bool opened;
    float bits[FLOATS_MAX]; /* the last step's gradients, and the scores of a prediction */
    size_t floats;
    struct cuda_counters before, after;
};

static void case_open(struct dense_case *c, enum model_kind kind, enum precision precision)
{
    dense_case_job(c, kind);
    c->backend = cuda_backend();
    c->shape.fields = 5;
    c->table.dim = 7;
    c->job.model.hidden = (struct widths){.at = {33, 20}, .count = 2};
    c->job.model.norm = kind == MODEL_DEEPFM ? NORM_BATCH : NORM_NONE;
    c->job.model.dropout = 0.2;
    c->job.train.precision = precision;
    if (kind == MODEL_MMOE || kind == MODEL_PLE)
        c->shape.tasks = c->job.data.label_count = 2;
    if (kind == MODEL_DIN) {
        c->shape.pooling[2] = POOL_ATTENTION;
        c->shape.most[2] = 3;
    }
    dense_case_batch(c, EXAMPLES, ROWS, true);
}

static void keep(struct play *p, const float *x, size_t floats)
{
    ck_assert_uint_le(p->floats + floats, FLOATS_MAX);
    memcpy(p->bits + p->floats, x, floats * sizeof *x);
    p->floats += floats;
}

/* Runs queued, recorded and played steps, and a prediction, while `variable` is `value`. */
static void play(struct play *p, enum model_kind kind, enum precision precision,
                 const char *variable, const char *value)
{
    struct dense_case c;
    struct model_run *run;
    struct err e = {0};
    memset(p, 0, sizeof *p);
    case_open(&c, kind, precision);
    p->before = cuda_counted();
    setenv(variable, value, 1);
    p->code = model_run_new(c.model, EXAMPLES, &run, &e);
    unsetenv(variable);
    snprintf(p->text, sizeof p->text, "%s", e.text);
    p->opened = p->code == 0;
    for (uint64_t step = 1; step <= STEPS && p->code == 0; step++)
        p->code = model_train(c.model, run, &c.in, 1, 2, step, &c.out);
    if (p->code == 0) {
        keep(p, c.out.row_gradients, (size_t)ROWS * model_row_width(c.model));
        keep(p, c.out.dense_gradients, model_dense_floats(c.model));
        p->code = model_predict(c.model, run, &c.in, &c.out);
        keep(p, c.out.scores, (size_t)EXAMPLES * c.shape.tasks);
    }
    p->after = cuda_counted();
    if (p->opened && p->code != 0) {
        snprintf(p->text, sizeof p->text, "%s", model_run_error(run));
        if (p->code != SHOAL_E_NOMEM) /* the error stays, except a shortage */
            ck_assert_int_eq(model_train(c.model, run, &c.in, 1, 2, 9, &c.out), p->code);
    }
    if (p->opened)
        model_run_free(run);
    dense_case_free(&c);
}

static bool same_bits(const struct play *a, const struct play *b)
{
    return a->floats == b->floats && memcmp(a->bits, b->bits, a->floats * sizeof *a->bits) == 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The n-th call fails, for every n: during opening, queueing, recording, playing. If only a
 * recording fails, the step is queued again, with a correct result. */
START_TEST(every_failing_call_is_told_or_made_good)
{
    static struct play well, p;
    uint32_t told = 0, good = 0;
    char text[32];
    play(&well, MODEL_DEEPFM, PRECISION_FP16, "SHOAL_CUDAHOST_FAIL", "");
    ck_assert_msg(well.code == 0, "%s", well.text);
    uint64_t calls = well.after.calls - well.before.calls;
    for (uint64_t n = 1; n <= calls; n += EACH) {
        snprintf(text, sizeof text, "%" PRIu64, n);
        play(&p, MODEL_DEEPFM, PRECISION_FP16, "SHOAL_CUDAHOST_FAIL", text);
        if (p.code == 0) {
            ck_assert_msg(same_bits(&p, &well), "call %s", text);
            ck_assert_uint_eq(p.after.spoiled, p.before.spoiled + 1);
            good++;
        } else {
            ck_assert_msg(p.code == SHOAL_E_INTERNAL, "call %s: %d: %s", text, p.code, p.text);
            ck_assert_msg(strstr(p.text, "planted failure") != NULL, "call %s: %s", text, p.text);
            told++;
        }
    }
    printf("%" PRIu64
           " calls, each of which failed once: %u runs ended with its error, %u went on from a "
           "spoiled recording\n",
           calls, told, good);
    ck_assert_uint_gt(told, 200 / EACH);
    ck_assert_uint_gt(good, 40 / EACH);
}
END_TEST

/* The device is lost at the n-th call, for every n: there is never a result, and always the status
 * with which the worker ends with 69. */
START_TEST(every_lost_device_is_told)
{
    static struct play well, p;
    char text[32];
    play(&well, MODEL_DEEPFM, PRECISION_FP32, "SHOAL_CUDAHOST_FAIL", "");
    uint64_t calls = well.after.calls - well.before.calls;
    for (uint64_t n = 1; n <= calls; n += EACH) {
        snprintf(text, sizeof text, "%" PRIu64 ":lost", n);
        play(&p, MODEL_DEEPFM, PRECISION_FP32, "SHOAL_CUDAHOST_FAIL", text);
        ck_assert_msg(p.code == SHOAL_E_UNAVAILABLE, "call %s: %d: %s", text, p.code, p.text);
        ck_assert_msg(strstr(p.text, "planted failure") != NULL, "call %s: %s", text, p.text);
    }
    printf("%" PRIu64 " calls: a device lost at each was told\n", calls);
    ck_assert_uint_gt(calls, 300);
}
END_TEST

/* From the n-th call on there is no memory, for every n: an error that names the keys to lower,
 * unless no more memory was needed. */
START_TEST(every_shortage_is_told)
{
    static struct play well, p;
    uint32_t told = 0, good = 0;
    char text[32];
    play(&well, MODEL_DIN, PRECISION_BF16, "SHOAL_CUDAHOST_FAIL", "");
    uint64_t calls = well.after.calls - well.before.calls;
    for (uint64_t n = 1; n <= calls; n += EACH) {
        snprintf(text, sizeof text, "%" PRIu64 ":full", n);
        play(&p, MODEL_DIN, PRECISION_BF16, "SHOAL_CUDAHOST_FAIL", text);
        if (p.code == 0) {
            ck_assert_msg(same_bits(&p, &well), "call %s", text);
            good++;
        } else {
            ck_assert_msg(p.code == SHOAL_E_NOMEM, "call %s: %d: %s", text, p.code, p.text);
            ck_assert_msg(strstr(p.text, "train.batch") != NULL, "call %s: %s", text, p.text);
            told++;
        }
    }
    printf("%" PRIu64 " calls: %u runs without memory from one on were told, %u needed no more\n",
           calls, told, good);
    ck_assert_uint_gt(told, 20 / EACH);
    ck_assert_uint_gt(good, 20 / EACH);
}
END_TEST

/* ---- the library of products ----------------------------------------------------------------- */

static const struct {
    enum model_kind kind;
    enum precision precision;
} jobs[] = {{MODEL_DEEPFM, PRECISION_FP32},
            {MODEL_DCNV2, PRECISION_FP32},
            {MODEL_DIN, PRECISION_TF32},
            {MODEL_PLE, PRECISION_FP32},
            {MODEL_FINALMLP, PRECISION_BF16}};
enum { JOBS = sizeof jobs / sizeof *jobs };

static bool was_disturbed(const struct play *p, const struct play *well)
{
    return p->after.choices - p->before.choices > well->after.choices - well->before.choices ||
           p->after.refusals > p->before.refusals || p->after.spoiled > p->before.spoiled;
}

/* Refuses `what` at each n from 1 on, `most` times, or, with 0, until no call is refused any more;
 * every run must give the same result as an undisturbed one. Returns the number of runs with a
 * refusal. */
static uint32_t made_good(int job, const char *what, uint64_t most, const struct play *well)
{
    static struct play p;
    uint32_t disturbed = 0;
    char text[32];
    for (uint64_t n = 1; n <= most || (most == 0 && disturbed * EACH + 1 == n); n += EACH) {
        snprintf(text, sizeof text, "%s:%" PRIu64, what, n);
        play(&p, jobs[job].kind, jobs[job].precision, "SHOAL_CUDAHOST_REFUSE", text);
        ck_assert_msg(p.code == 0, "job %d, %s: %s", job, text, p.text);
        ck_assert_msg(same_bits(&p, well), "job %d, %s: another result", job, text);
        disturbed += was_disturbed(&p, well);
    }
    return disturbed;
}

/* No algorithm can compute the product: the message has all facts that an analysis needs. */
START_TEST(product_without_any_way_is_told_with_its_facts)
{
    static const char *const facts[] = {"(",       "rows of a, b, c",      "bytes",
                                        "planted", "train.backend to cpu", "the stand-in"};
    static struct play well, p;
    char text[32];
    play(&well, jobs[_i].kind, jobs[_i].precision, "SHOAL_CUDAHOST_REFUSE", "");
    ck_assert_msg(well.code == 0, "%s", well.text);
    uint64_t products = well.after.choices - well.before.choices, told = 0;
    for (uint64_t n = 1; n <= products; n += EACH) {
        snprintf(text, sizeof text, "none:%" PRIu64, n);
        play(&p, jobs[_i].kind, jobs[_i].precision, "SHOAL_CUDAHOST_REFUSE", text);
        if (p.code == 0) /* equal products side by side count as one there */
            continue;
        told++;
        ck_assert_msg(p.code == SHOAL_E_INTERNAL, "%s: %d", text, p.code);
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
            ck_assert_msg(strstr(p.text, facts[i]) != NULL, "%s: \"%s\" is not in: %s", text,
                          facts[i], p.text);
        ck_assert((jobs[_i].precision == PRECISION_FP32) ==
                  (strstr(p.text, "train.precision") == NULL));
    }
    ck_assert_uint_gt(told, products / 2 / EACH);
    ck_assert_uint_ge(told, EACH == 1 ? 6 : 1);
    printf("job %d: %" PRIu64 " of %" PRIu64 " shapes refused, each told\n", _i, told, products);
}
END_TEST

/* A product fits only without its bias; or only with rows of 16 bytes; or is refused when it runs;
 * or a recording fails at its n-th call: the step is correct each time. */
START_TEST(products_that_are_refused_are_computed_otherwise)
{
    static struct play well;
    play(&well, jobs[_i].kind, jobs[_i].precision, "SHOAL_CUDAHOST_REFUSE", "");
    ck_assert_msg(well.code == 0, "%s", well.text);
    uint32_t rows = made_good(_i, "rows", well.after.choices - well.before.choices, &well);
    uint32_t launch = made_good(_i, "launch", 0, &well),
             capture = made_good(_i, "capture", 0, &well);
    printf("job %d: refused but for aligned rows %u, at launch %u, recordings spoiled %u\n", _i,
           rows, launch, capture);
    ck_assert(rows > 0 || EACH > 1);
    ck_assert_uint_ge(launch, (well.after.products - well.before.products) / EACH);
    ck_assert_uint_gt(capture, 20 / EACH);
}
END_TEST

/* y = x w' + bias, the product in which the library adds the bias; the bias begins at `offset`
 * floats. */
static void biased(const char *refuse, uint32_t offset, float y[12])
{
    struct dense_device d;
    struct err e = {0};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[12] = {1, 0, 2, 0.5f, 3, 1, 0.25f, 1, 2, 1, 1, 5},
          bias[8] = {0};
    for (uint32_t i = 0; i < 3; i++)
        bias[offset + i] = 0.1f * (float)(i + 1);
    setenv("SHOAL_CUDAHOST_REFUSE", refuse, 1);
    cuda_device_open(&d, cuda_name(), PRECISION_FP32);
    unsetenv("SHOAL_CUDAHOST_REFUSE");
    float *out = dense_up(&d, NULL, 6 * sizeof *y);
    struct linear_args a = {.count = 2,
                            .in = 4,
                            .out = 3,
                            .x = dense_up(&d, x, sizeof x),
                            .ldx = 4,
                            .act = ACT_NONE,
                            .w = dense_up(&d, w, sizeof w),
                            .bias = (float *)dense_up(&d, bias, sizeof bias) + offset,
                            .y = out,
                            .ldy = 3};
    d.k->linear_forward(d.s, &a);
    d.k->linear_forward(d.s, &a); /* once more, with the same choice */
    dense_down(&d, out, y, 6 * sizeof *y);
    ck_assert_msg(d.k->stream_finish(d.s, &e) == 0, "%s", e.text);
    dense_device_close(&d);
}

/* A kernel of ours adds the bias if the library refuses to, or if the bias does not begin at a
 * multiple of 16 bytes, which the library does not check. */
START_TEST(bias_is_added_whatever_the_library_says)
{
    float well[12], found[12];
    struct cuda_counters before = cuda_counted();
    biased("", 0, well);
    ck_assert_float_eq_tol(well[5], 5 * 2 + 6 + 7 + 8 * 5 + 0.3f, 1e-5f);
    ck_assert_uint_eq(cuda_counted().launches, before.launches);
    biased("bias:1", 0, found);
    ck_assert_mem_eq(found, well, 6 * sizeof *well);
    ck_assert_uint_eq(cuda_counted().launches, before.launches + 2);
    biased("rows:1", 0, found);
    ck_assert_mem_eq(found, well, 6 * sizeof *well);
    before = cuda_counted();
    biased("", 1, found);
    ck_assert_mem_eq(found, well, 6 * sizeof *well);
    ck_assert_uint_eq(cuda_counted().launches, before.launches + 2);
}
END_TEST

/* A recording is tried twice, and then its section is always queued. */
START_TEST(recording_that_cannot_be_made_is_given_up)
{
    struct dense_device d;
    float x[4] = {1, 2, 3, 4}, y[4];
    struct cuda_counters before = cuda_counted();
    cuda_device_open(&d, cuda_name(), PRECISION_FP32);
    float *from = dense_up(&d, x, sizeof x), *to = dense_up(&d, NULL, sizeof x);
    for (int step = 1; step <= 6; step++) {
        ck_assert(d.k->graph_begin(d.s, 7));
        int times = 0;
        do {
            d.k->scale(d.s, 4, (float)step, from, to);
            if (times++ == 0 && d.s->recorded != NULL)
                d.s->spoiled.code = SHOAL_E_INTERNAL; /* as stream_fail would set it */
        } while (d.k->graph_end(d.s));
        ck_assert_int_eq(times, step == 2 || step == 3 ? 2 : 1);
        dense_down(&d, to, y, sizeof y);
        ck_assert_float_eq(y[3], 4.0f * (float)step);
    }
    ck_assert_uint_eq(cuda_counted().spoiled, before.spoiled + 2);
    ck_assert_uint_eq(cuda_counted().recordings, before.recordings);
    dense_device_close(&d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda_refused");
    TCase *t = tcase_create("cuda_refused");
    tcase_set_timeout(t, 200);
    if (cuda_is_host()) {
        tcase_add_test(t, every_failing_call_is_told_or_made_good);
        tcase_add_test(t, every_lost_device_is_told);
        tcase_add_test(t, every_shortage_is_told);
        tcase_add_loop_test(t, product_without_any_way_is_told_with_its_facts, 0, JOBS);
        tcase_add_loop_test(t, products_that_are_refused_are_computed_otherwise, 0, JOBS);
        tcase_add_test(t, bias_is_added_whatever_the_library_says);
        tcase_add_test(t, recording_that_cannot_be_made_is_given_up);
    }
    suite_add_tcase(s, t);
    return cuda_check_run(s);
}
