/* test_host.c: the host's stand-in for a card finds faults that a card would punish: host
 * pointers given to the device, device pointers used on the host, data that is read before it is
 * there. Each fault is made in a child process. */
#include "tests/lib/cuda_case.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOATS = 64 };

/* The data that a child uses for its fault. */
struct plant {
    struct dense_device d;
    float *device;      /* (FLOATS), on the device */
    float here[FLOATS]; /* on the host */
};

/* Returns the signal that ended the child after its fault; 0: the fault was not found. */
static int caught(void (*plant)(struct plant *p))
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct plant p = {.here = {0}};
        (void)!freopen("/dev/null", "w", stderr);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit status */
        cuda_device_open(&p.d, cuda_name(), PRECISION_FP32);
        p.device = dense_up(&p.d, NULL, sizeof p.here);
        ck_assert_int_eq(p.d.k->stream_finish(p.d.s, NULL), 0);
        plant(&p);
        p.d.k->stream_finish(p.d.s, NULL);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void nothing(struct plant *p)
{
    p->d.k->upload(p->d.s, p->device, p->here, sizeof p->here);
    p->d.k->scale(p->d.s, FLOATS, 2.0f, p->device, p->device);
    p->d.k->download(p->d.s, p->here, p->device, sizeof p->here);
}

static void kernel_of_the_host(struct plant *p)
{
    p->d.k->scale(p->d.s, FLOATS, 2.0f, p->here, p->device);
}

static void product_of_the_host(struct plant *p)
{
    p->d.k->gemm(p->d.s, false, false, 4, 4, 4, p->here, 4, p->device, 4, 0.0f, p->device + 32, 4);
}

static void read_by_the_host(struct plant *p)
{
    p->here[0] = *(volatile float *)p->device;
}

static void written_by_the_host(struct plant *p)
{
    memset(p->device, 0, 4);
}

static void upload_turned(struct plant *p)
{
    p->d.k->upload(p->d.s, p->here, p->device, sizeof p->here);
}

static void download_turned(struct plant *p)
{
    p->d.k->download(p->d.s, p->device, p->here, sizeof p->here);
}

static void copy_from_the_host(struct plant *p)
{
    p->d.k->copy(p->d.s, p->device, p->here, sizeof p->here);
}

static void zero_of_the_host(struct plant *p)
{
    p->d.k->zero(p->d.s, p->here, sizeof p->here);
}

static void copy_too_long(struct plant *p)
{
    p->d.k->copy(p->d.s, p->device + 8, p->device, sizeof p->here);
}

static void use_after_release(struct plant *p)
{
    p->d.k->release(p->d.s, p->device);
    p->d.k->stream_finish(p->d.s, NULL);
    p->d.k->zero(p->d.s, p->device, 4);
}

START_TEST(mixed_up_pointers_are_caught)
{
    ck_assert_int_eq(caught(nothing), 0);
    ck_assert_int_eq(caught(kernel_of_the_host), SIGABRT);
    ck_assert_int_eq(caught(product_of_the_host), SIGABRT);
    ck_assert_int_eq(caught(read_by_the_host), SIGSEGV);
    ck_assert_int_eq(caught(written_by_the_host), SIGSEGV);
    ck_assert_int_eq(caught(upload_turned), SIGABRT);
    ck_assert_int_eq(caught(download_turned), SIGABRT);
    ck_assert_int_eq(caught(copy_from_the_host), SIGABRT);
    ck_assert_int_eq(caught(zero_of_the_host), SIGABRT);
    ck_assert_int_eq(caught(copy_too_long), SIGABRT);
    ck_assert_int_eq(caught(use_after_release), SIGABRT);
}
END_TEST

/* A download is complete after a wait, and not before. An upload from pinned memory is read when it
 * runs, one from other memory at once. */
START_TEST(copies_happen_when_a_card_may_do_them)
{
    struct dense_device d;
    cuda_device_open(&d, cuda_name(), PRECISION_FP32);
    float *pinned = d.k->host_alloc(sizeof *pinned), other = 1.0f, down[2] = {5.0f, 5.0f};
    float *to = dense_up(&d, NULL, 2 * sizeof *to);

    *pinned = 1.0f;
    d.k->upload(d.s, to, pinned, sizeof *pinned);
    d.k->upload(d.s, to + 1, &other, sizeof other);
    d.k->download(d.s, down, to, sizeof down);
    ck_assert_float_eq(down[0], 5.0f);
    *pinned = other = 2.0f;
    ck_assert_int_eq(d.k->stream_finish(d.s, NULL), 0);
    ck_assert_float_eq(down[0], 2.0f);
    ck_assert_float_eq(down[1], 1.0f);
    d.k->host_free(pinned);
    dense_device_close(&d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda_host");
    TCase *t = tcase_create("cuda_host");
    if (cuda_is_host()) {
        tcase_add_test(t, mixed_up_pointers_are_caught);
        tcase_add_test(t, copies_happen_when_a_card_may_do_them);
    }
    suite_add_tcase(s, t);
    return cuda_check_run(s);
}
