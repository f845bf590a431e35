/* counting_worker.c: a worker of another network by libshoal: each value of an example takes 1 off
 * the gradient of its row, so that with sgd and a rate of 1 a row is the number of its values.
 * SHOAL_TEST_FAIL: a batch of this number is given back undone once, by this process. */
#include <shoal.h>
#include <stdio.h>
#include <stdlib.h>

static void count(const struct shoal_batch *b)
{
    for (uint32_t i = 0; i < b->values; i++) {
        uint32_t t = 0;
        while (b->index[i] >= b->table[t].base + b->table[t].count)
            t++;
        const struct shoal_batch_table *own = &b->table[t];
        own->gradients[(size_t)(b->index[i] - own->base) * own->width] -= 1;
    }
}

int main(void)
{
    struct shoal_error e;
    struct shoal_work_options o = {.size = sizeof o, .lanes = 4};
    struct shoal_batch *b;
    shoal_work *work;
    unsigned long trained = 0, scored = 0, batches = 0;
    const char *fail = getenv("SHOAL_TEST_FAIL");
    int rc = shoal_work_join(&o, &work, &e);
    if (rc != SHOAL_OK) {
        fprintf(stderr, "join: %d: %s\n", rc, e.text);
        return 69;
    }
    while ((rc = shoal_work_next(work, UINT32_MAX, &b, &e)) == SHOAL_OK) {
        if (fail != NULL && ++batches == strtoul(fail, NULL, 10)) {
            rc = shoal_work_fail(work, b, "the test says so", &e);
            if (rc != SHOAL_OK)
                break;
            continue;
        }
        for (uint32_t i = 0; i < b->examples; i++)
            b->scores[i] = 0.25f;
        if (b->kind == SHOAL_TRAIN) {
            count(b);
            trained += b->examples;
        } else {
            scored += b->examples;
        }
        rc = shoal_work_done(work, b, &e);
        if (rc != SHOAL_OK)
            break;
    }
    fprintf(stderr, "trained %lu, scored %lu, ended with %d: %s\n", trained, scored, rc, e.text);
    shoal_work_close(work);
    return rc == SHOAL_END ? 0 : 70;
}
