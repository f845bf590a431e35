/* test_broken.c: breaks the invariants of choice.c on purpose: each breach must be caught by its
 * own assert. The stream and the device are replaced by the functions here. */
#include "dense/cuda/choice.c"

#include "tests/lib/broken.h"

#include <check.h>
#include <stdarg.h>

struct cuda_counters cuda_counters;

void cuda_counter_add(uint64_t *counter)
{
    (*counter)++;
}

void stream_fail(struct stream *s, int code, const char *format, ...)
{
    (void)format;
    s->error.code = code;
}

struct scratch_mark cuda_scratch_mark(const struct stream *s)
{
    (void)s;
    return (struct scratch_mark){0};
}

void cuda_scratch_return(struct stream *s, struct scratch_mark mark)
{
    (void)s, (void)mark;
}

void *cuda_scratch(struct stream *s, size_t bytes)
{
    (void)s, (void)bytes;
    return NULL;
}

void cuda_narrow(struct stream *s, enum product_type type, uint32_t rows, uint32_t columns,
                 const float *from, uint32_t ld, void *to, uint32_t ld_to)
{
    (void)s, (void)type, (void)rows, (void)columns, (void)from, (void)ld, (void)to, (void)ld_to;
}

void cuda_bias_add(struct stream *s, uint32_t m, uint32_t n, const float *bias, float *c,
                   uint32_t ldc)
{
    (void)s, (void)m, (void)n, (void)bias, (void)c, (void)ldc;
}

void cuda_matrix_copy(struct stream *s, uint32_t rows, uint32_t columns, const float *from,
                      uint32_t ld, float *to, uint32_t ld_to)
{
    (void)s, (void)rows, (void)columns, (void)from, (void)ld, (void)to, (void)ld_to;
}

const char *device_library(void)
{
    return "none";
}

static struct product_ways *const some_ways = (struct product_ways *)(void *)&cuda_counters;

struct product_ways *device_ways_new(struct stream *s, const struct product *p, uint32_t *count)
{
    (void)s, (void)p;
    *count = 1;
    return some_ways;
}

bool device_ways_run(struct stream *s, struct product_ways *w, uint32_t way,
                     const struct product *p)
{
    (void)s, (void)w, (void)way, (void)p;
    return true;
}

void device_ways_free(struct stream *s, struct product_ways *w)
{
    (void)s, (void)w;
}

/* ---- a stream with products ------------------------------------------------------------------ */

static struct stream stream;
static float a[16], b[16], c[16];

static struct product product_of(uint32_t m)
{
    return (struct product){
        .m = m, .n = 4, .k = 4, .a = a, .b = b, .c = c, .lda = 4, .ldb = 4, .ldc = 4};
}

static void some_are_chosen(void)
{
    for (uint32_t m = 1; m <= 4; m++) {
        struct product p = product_of(m);
        cuda_product_compute(&stream, &p);
    }
}

static void a_choice_is_made_while_recording(void)
{
    struct choice fresh = {.rung = BARE};
    struct product p = product_of(1);
    stream.recorded = &stream.recording[0];
    ladder_try(&stream, &fresh, &p);
}

static void a_choice_is_forgotten(void)
{
    some_are_chosen();
    for (uint32_t i = 0; i < stream.choices->places; i++)
        if (stream.choices->choice[i].shape.m == 2)
            stream.choices->choice[i].shape.type = 0;
    choices_grow(&stream, stream.choices);
}

static void a_shape_is_asked_about_again(void)
{
    struct product p = product_of(3);
    some_are_chosen();
    choice_of(&stream, &p)->asked = false;
    cuda_product_compute(&stream, &p);
}

static const struct broken list[] = {
    {"dense/cuda/choice.c", 1, a_choice_is_made_while_recording, "s->recorded == NULL && "},
    {"dense/cuda/choice.c", 2, a_choice_is_forgotten, "kept == all->count"},
    {"dense/cuda/choice.c", 3, a_shape_is_asked_about_again, "s->recorded == NULL && c->ways"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broken");
    TCase *t = tcase_create("broken");
    tcase_add_test(t, each_broken_invariant_ends_the_process_by_its_own_assert);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
