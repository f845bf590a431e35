/* test_devices.c: several devices in one process: the stand-in finds what a card would punish,
 * models give the same bits on any number of devices, a network that one device cannot hold, and
 * how long devices wait for one another. */
#include "tests/lib/cuda_case.h"

#include "dense/model/run.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOATS = 64 };

/* Two streams on two devices, and an array of each. */
struct two {
    const struct backend_ops *k;
    struct stream *s[2];
    float *at[2]; /* (FLOATS) */
};

static void two_open(struct two *t)
{
    static const float value[2][FLOATS] = {{1.0f, 2.0f}, {3.0f, 4.0f}};
    setenv("SHOAL_DEVICE", "0,1", 1);
    t->k = backend_ops_of(cuda_backend());
    for (uint32_t i = 0; i < 2; i++) {
        const struct stream_spec spec = {.deterministic = true, .device = i};
        ck_assert_int_eq(t->k->stream_new(&spec, &t->s[i], NULL), 0);
        t->at[i] = t->k->alloc(t->s[i], sizeof value[i]);
        t->k->upload(t->s[i], t->at[i], value[i], sizeof value[i]);
        ck_assert_int_eq(t->k->stream_finish(t->s[i], NULL), 0);
    }
}

static void two_close(struct two *t)
{
    for (uint32_t i = 0; i < 2; i++) {
        t->k->release(t->s[i], t->at[i]);
        t->k->stream_free(t->s[i]);
    }
}

/* ---- what the stand-in finds ----------------------------------------------------------------- */

static void kernel_of_another(struct two *t)
{
    t->k->scale(t->s[0], FLOATS, 2.0f, t->at[1], t->at[0]);
}

static void product_of_another(struct two *t)
{
    t->k->gemm(t->s[0], false, false, 4, 4, 4, t->at[1], 4, t->at[0], 4, 0.0f, t->at[0] + 32, 4);
}

static void copy_of_another(struct two *t)
{
    t->k->copy(t->s[0], t->at[0], t->at[1], 16);
}

static void fetched_the_wrong_way(struct two *t)
{
    const struct strip m = {1, 4, t->at[1], t->at[0], 4, 4};
    t->k->fetch(t->s[0], t->s[1], &m);
}

static void nothing(struct two *t)
{
    const struct strip m = {2, 4, t->at[0], t->at[1], 8, 8};
    t->k->after(t->s[0], t->s[1]);
    t->k->fetch(t->s[0], t->s[1], &m);
}

static int caught(void (*plant)(struct two *t))
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct two t;
        (void)!freopen("/dev/null", "w", stderr);
        two_open(&t);
        plant(&t);
        _exit(t.k->stream_finish(t.s[0], NULL) + t.k->stream_finish(t.s[1], NULL));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

START_TEST(memory_of_another_device_is_caught)
{
    ck_assert_int_eq(caught(nothing), 0);
    ck_assert_int_eq(caught(kernel_of_another), SIGABRT);
    ck_assert_int_eq(caught(product_of_another), SIGABRT);
    ck_assert_int_eq(caught(copy_of_another), SIGABRT);
    ck_assert_int_eq(caught(fetched_the_wrong_way), SIGABRT);
}
END_TEST

/* The first value that device 0 fetches of what device 1 doubles, and adds to its own first. */
static float fetched(bool waits)
{
    struct two t;
    float value = 0.0f;
    two_open(&t);
    const struct strip m = {1, 1, t.at[0] + 1, t.at[1], 1, 1};
    t.k->scale(t.s[1], 1, 2.0f, t.at[1], t.at[1]);
    if (waits)
        t.k->after(t.s[0], t.s[1]);
    t.k->fetch(t.s[0], t.s[1], &m);
    t.k->scale(t.s[1], 1, 5.0f, t.at[1], t.at[1]); /* queued after the event: not waited for */
    t.k->add(t.s[0], 1, 1, t.at[0] + 1, 1, t.at[0], 1);
    t.k->download(t.s[0], &value, t.at[0], sizeof value);
    ck_assert_int_eq(t.k->stream_finish(t.s[0], NULL), 0);
    ck_assert_int_eq(t.k->stream_finish(t.s[1], NULL), 0);
    two_close(&t);
    return value;
}

START_TEST(stream_waits_for_another_up_to_its_event)
{
    ck_assert_float_eq(fetched(true), 1.0f + 6.0f);
    ck_assert_float_eq(fetched(false), 1.0f + 3.0f); /* data that is not there yet */
}
END_TEST

/* Streams that wait for each other in turn. */
START_TEST(streams_wait_in_turns)
{
    struct two t;
    float value = 0.0f;
    two_open(&t);
    for (uint32_t i = 0; i < 5000; i++) { /* longer than a queue that is run by itself */
        const struct strip m = {1, 1, t.at[i % 2], t.at[1 - i % 2], 1, 1};
        t.k->after(t.s[i % 2], t.s[1 - i % 2]);
        t.k->fetch(t.s[i % 2], t.s[1 - i % 2], &m);
        t.k->scale(t.s[i % 2], 1, i % 4 < 2 ? 2.0f : 0.5f, t.at[i % 2], t.at[i % 2]);
    }
    t.k->download(t.s[1], &value, t.at[1], sizeof value);
    ck_assert_int_eq(t.k->stream_finish(t.s[1], NULL), 0);
    ck_assert_int_eq(t.k->stream_finish(t.s[0], NULL), 0);
    ck_assert_float_eq(value, 3.0f);
    two_close(&t);
}
END_TEST

/* A failed stream holds no other up. */
START_TEST(stream_goes_on_when_one_that_it_waits_for_fails)
{
    struct two t;
    struct stream *fails = NULL;
    const struct stream_spec spec = {.deterministic = true, .device = 1};
    two_open(&t);
    setenv("SHOAL_CUDAHOST_FAIL", "1", 1);
    ck_assert_int_eq(t.k->stream_new(&spec, &fails, NULL), 0);
    t.k->zero(fails, t.at[1], 16);
    t.k->after(t.s[0], fails);
    t.k->scale(t.s[0], 1, 2.0f, t.at[0], t.at[0]);
    ck_assert_int_eq(t.k->stream_finish(t.s[0], NULL), 0);
    ck_assert_int_eq(t.k->stream_finish(fails, NULL), SHOAL_E_INTERNAL);
    t.k->stream_free(fails);
    two_close(&t);
}
END_TEST

START_TEST(device_has_a_limit_of_its_own)
{
    struct two t;
    setenv("SHOAL_CUDAHOST_MEMORY", "1048576", 1);
    two_open(&t);
    void *most = t.k->alloc(t.s[0], 1048576 - FLOATS * sizeof(float));
    ck_assert_ptr_nonnull(most);
    ck_assert_ptr_null(t.k->alloc(t.s[0], 1));
    float *other = t.k->alloc(t.s[1], 4096);
    ck_assert_ptr_nonnull(other);
    ck_assert_int_eq(t.k->stream_finish(t.s[0], NULL), 0);
    t.k->release(t.s[0], most);
    t.k->release(t.s[1], other);
    two_close(&t);
}
END_TEST

START_TEST(list_of_devices_is_checked)
{
    static const char *const bad[] = {
        "x", "0,", ",1", "-1", "0 1", "0,1,,2", "1;2", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"};
    struct backend *b;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = {0};
        setenv("SHOAL_DEVICE", bad[i], 1);
        ck_assert_int_eq(backend_load_module("libshoal_cudahost.so", &b, &e), SHOAL_E_CONFIG);
        ck_assert_msg(strstr(e.text, "SHOAL_DEVICE") != NULL, "%s", e.text);
    }
}
END_TEST

/* ---- models ---------------------------------------------------------------------------------- */

static void case_open(struct dense_case *c, uint32_t stages, uint32_t split, uint32_t micro_batches)
{
    dense_case_job(c, MODEL_DEEPFM);
    c->backend = cuda_backend();
    c->job.model.hidden = (struct widths){{40, 32, 36}, 3};
    c->job.model.norm = NORM_BATCH;
    c->job.model.dropout = 0.1;
    c->job.model.stages = stages;
    c->job.model.split = split;
    c->job.model.split_above = 16;
    c->job.train.micro_batches = micro_batches;
    c->job.train.clip_dense = 0.1;
}

/* The gradients of the fifth step, of a process of its own. */
static float *trained_on(const char *devices, size_t *floats)
{
    struct dense_case shape;
    case_open(&shape, 1, 1, 1);
    dense_case_batch(&shape, 50, 30, true);
    *floats = model_dense_floats(shape.model);
    dense_case_free(&shape);
    float *out = mmap(NULL, *floats * sizeof *out, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(out != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct dense_case c;
        double loss[5];
        struct backend *b;
        struct err e = {0};
        setenv("SHOAL_DEVICE", devices, 1);
        case_open(&c, 2, 2, 3);
        if (backend_load_module("libshoal_cudahost.so", &b, &e) != 0)
            _exit(1);
        c.backend = b;
        dense_case_batch(&c, 50, 30, true);
        dense_case_curve(&c, 5, 0.1f, loss);
        memcpy(out, c.out.dense_gradients, *floats * sizeof *out);
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    return out;
}

START_TEST(bits_do_not_depend_on_the_number_of_devices)
{
    static const char *const devices[] = {"0,1,2,3", "0", "3,1", "0,1,2"};
    size_t floats;
    float *first = NULL;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        float *gradients = trained_on(devices[i], &floats);
        if (first == NULL)
            first = gradients;
        ck_assert_int_eq(memcmp(first, gradients, floats * sizeof *first), 0);
    }
}
END_TEST

/* Every call of a run at two sites fails once: the step says so, and nothing hangs. */
START_TEST(every_failing_call_at_a_site_is_told)
{
    struct dense_case c;
    setenv("SHOAL_DEVICE", "0,1", 1);
    case_open(&c, 1, 2, 2);
    dense_case_batch(&c, 20, 12, true);
    for (uint32_t call = 1;; call++) {
        char text[24];
        struct err e = {0};
        struct model_run *run;
        snprintf(text, sizeof text, "%u:lost", call);
        setenv("SHOAL_CUDAHOST_FAIL", text, 1);
        int rc = model_run_new(c.model, 20, &run, &e);
        if (rc != 0) {
            ck_assert_int_eq(rc, SHOAL_E_UNAVAILABLE);
            continue;
        }
        rc = model_train(c.model, run, &c.in, DENSE_SEED, DENSE_LANE, 16, &c.out);
        ck_assert(rc == 0 ||
                  (rc == SHOAL_E_UNAVAILABLE && strstr(model_run_error(run), "planted") != NULL));
        model_run_free(run);
        if (rc == 0) { /* the run has fewer calls */
            ck_assert_uint_gt(call, 100);
            break;
        }
        ck_assert_uint_lt(call, 4000);
    }
    dense_case_free(&c);
}
END_TEST

/* ---- a network larger than a device ---------------------------------------------------------- */

#define MIB (1024.0 * 1024.0)

/* (11, 8064), (8064, 9800), (9800, 8064): the first and the third layer by columns, the second by
 * rows. All a quarter as wide, and a sixteenth as large, unless SHOAL_LARGE is set: the whole takes
 * 3 GiB of the host. */
static uint32_t large_part(void)
{
    if (getenv("SHOAL_LARGE") != NULL)
        return 1;
    return 4;
}

static void large_job(struct dense_case *c, uint32_t split)
{
    uint32_t part = large_part();
    dense_case_job(c, MODEL_WIDE_DEEP);
    c->backend = cuda_backend();
    c->job.model.hidden = (struct widths){{8064 / part, 9800 / part, 8064 / part}, 3};
    c->job.model.activation = ACT_RELU;
    c->job.model.split = split;
    c->job.model.split_above = 1024;
}

/* Half of it is 300 MiB (19 MiB), without its gradients. */
static void large_is_refused_in_two(void)
{
    struct dense_case c;
    struct err e = {0};
    large_job(&c, 2);
    ck_assert_int_eq(model_new(&c.job, &c.shape, c.backend, &c.model, &e), 0);
    ck_assert_int_eq(model_run_new(c.model, 2, &c.run, &e), SHOAL_E_NOMEM);
    ck_assert_msg(strstr(e.text, "model.split or model.stages larger") != NULL, "%s", e.text);
    model_free(c.model);
}

START_TEST(network_larger_than_a_device_trains_on_eight)
{
    struct dense_case c;
    double loss[2];
    char text[24];
    double device = 256 * MIB / (large_part() * large_part());
    snprintf(text, sizeof text, "%.0f", device);
    setenv("SHOAL_CUDAHOST_MEMORY", text, 1);
    setenv("SHOAL_DEVICE", "0,1,2,3,4,5,6,7", 1);
    large_is_refused_in_two();
    large_job(&c, 8);
    dense_case_batch(&c, 2, 4, false);
    size_t floats = model_dense_floats(c.model);
    ck_assert_double_ge((double)floats * sizeof(float), 2.3 * device);
    for (size_t i = 0; i < floats; i++)
        c.dense[i] *= 0.02f;
    dense_case_curve(&c, 2, 1e-3f, loss);
    printf("a network of %.0f MiB on 8 devices of %.0f MiB: loss %.4f, %.4f\n",
           (double)floats * sizeof(float) / MIB, device / MIB, loss[0], loss[1]);
    ck_assert_double_lt(loss[1], loss[0]);
    dense_case_free(&c);
}
END_TEST

/* ---- how long devices wait ------------------------------------------------------------------- */

/* Equal layers, so that stages take equal times. */
static void even_plan(struct plan *p)
{
    struct view x = plan_input(p, false, 0);
    for (uint32_t i = 0; i < p->job->model.hidden.count; i++)
        x = plan_linear(p, x, p->job->model.hidden.at[i], ACT_RELU, 0.0, NORM_NONE, VIEW_NONE);
    plan_head(p, x, 0);
}

#define STEPS 7 /* the median of so many: other programs disturb the caches of single ones */

static int compared(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double idle_share(uint32_t stages, uint32_t micro_batches)
{
    static const struct plan_kind kind = {
        .name = "even", .build = even_plan, .vectors = true, .network = true};
    struct dense_case c;
    double share[STEPS];
    dense_case_job(&c, MODEL_DCNV2);
    c.backend = cuda_backend();
    c.kind = &kind;
    c.table.dim = 128;
    c.job.model.hidden = (struct widths){{384, 384, 384, 384, 384, 384, 384, 384}, 8};
    c.job.model.stages = stages;
    c.job.train.micro_batches = micro_batches;
    dense_case_batch(&c, 128, 128, false);
    dense_case_train(&c, 1); /* the first step touches its memory for the first time */
    for (uint32_t batch = 0; batch < STEPS; batch++) {
        dense_case_train(&c, 16 * (batch + 1)); /* every 16th is watched */
        share[batch] = c.out.site_waited / c.out.site_time;
    }
    dense_case_free(&c);
    qsort(share, STEPS, sizeof *share, compared);
    return share[STEPS / 2];
}

START_TEST(idle_share_is_that_of_the_formula)
{
    static const uint32_t micro[] = {1, 4, 8}, stages[] = {2, 4};
    setenv("SHOAL_DEVICE", "0,1,2,3", 1);
    for (size_t p = 0; p < 2; p++)
        for (size_t m = 0; m < 3; m++) {
            double formula = (stages[p] - 1.0) / (micro[m] + stages[p] - 1.0);
            double share = idle_share(stages[p], micro[m]);
            printf("%u stages, %u micro-batches: idle %.3f, (p - 1) / (m + p - 1) = %.3f\n",
                   stages[p], micro[m], share, formula);
            fflush(stdout);
            ck_assert_double_eq_tol(share, formula, 0.05);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("devices");
    TCase *t = tcase_create("devices"), *models = tcase_create("models"),
          *large = tcase_create("large"), *idle = tcase_create("idle");
    tcase_set_timeout(models, 100);
    tcase_set_timeout(large, 300);
    tcase_set_timeout(idle, 300);
    tcase_add_test(t, memory_of_another_device_is_caught);
    tcase_add_test(t, stream_waits_for_another_up_to_its_event);
    tcase_add_test(t, streams_wait_in_turns);
    tcase_add_test(t, stream_goes_on_when_one_that_it_waits_for_fails);
    tcase_add_test(t, device_has_a_limit_of_its_own);
    tcase_add_test(t, list_of_devices_is_checked);
    tcase_add_test(models, bits_do_not_depend_on_the_number_of_devices);
    tcase_add_test(models, every_failing_call_at_a_site_is_told);
    tcase_add_test(large, network_larger_than_a_device_trains_on_eight);
    tcase_add_test(idle, idle_share_is_that_of_the_formula);
    suite_add_tcase(s, t);
    suite_add_tcase(s, models);
    suite_add_tcase(s, large);
    suite_add_tcase(s, idle);
    if (!cuda_is_host()) {
        puts("skipped: these devices are those of the host's module");
        srunner_free(srunner_create(s));
        return DENSE_SKIP;
    }
    return cuda_check_run(s);
}
