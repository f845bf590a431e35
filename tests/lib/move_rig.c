/* move_rig.c: engines that share tablets. */
#include "tests/lib/move_rig.h"

#include "proto/base/key.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

void move_lead(struct rig *s, const uint16_t owner[MOVE_TABLETS], uint16_t self)
{
    ck_assert_int_eq(engine_lead(s->g, owner, MOVE_TABLETS, self), 0);
}

int move_push(struct rig *s, uint64_t run, uint32_t table, uint32_t lane, uint64_t to,
              uint32_t tablet)
{
    static struct rig_push p;
    struct push_plan plan;
    uint32_t count = 0;
    rig_push_make(&p, run, table, lane, 0, to - 1, to);
    for (uint32_t i = 0; i < SHARD_KEYS; i++) {
        if (key_tablet(key_mix(p.keys[i]), SHARD_TABLET_BITS) != tablet)
            continue;
        p.keys[count] = p.keys[i];
        memmove(p.gradients + (size_t)count * SHARD_WIDTH, p.gradients + (size_t)i * SHARD_WIDTH,
                SHARD_WIDTH * sizeof(float));
        count++;
    }
    p.record.key_count = count;
    p.record.tablet_first = tablet;
    p.record.tablet_count = 1;
    while (!engine_warm(s->g, table, p.keys, count)) {
        engine_flush_step(s->g);
        embedding_env_step(&s->env);
    }
    int rc = rig_push(s, &p, &plan);
    for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
        engine_flush_step(s->g);
        embedding_env_run(&s->env);
        rc = rig_push(s, &p, &plan);
    }
    return rc;
}

struct given {
    int status;
    void *image;
    size_t bytes;
    uint64_t rows;
    struct err err;
    unsigned calls;
};

static void given(void *context, int status, const char *text, const void *image, size_t bytes,
                  uint64_t rows)
{
    struct given *w = context;
    w->calls++;
    w->status = status;
    if (status != 0) {
        err_set(&w->err, status, "%s", text);
        return;
    }
    w->image = malloc(bytes);
    ck_assert_ptr_nonnull(w->image);
    memcpy(w->image, image, bytes);
    w->bytes = bytes;
    w->rows = rows;
}

void *move_give(struct rig *s, uint32_t tablet, size_t *bytes, uint64_t *rows, struct err *e)
{
    struct given w = {0};
    int rc = engine_give(s->g, tablet, given, &w, e);
    if (rc != 0)
        return NULL;
    while (w.calls == 0)
        ck_assert(embedding_env_step(&s->env));
    embedding_env_run(&s->env);
    ck_assert_uint_eq(w.calls, 1);
    *e = w.err;
    *bytes = w.bytes;
    *rows = w.rows;
    return w.image;
}

void move_over(struct rig *from, struct rig *to, uint32_t tablet)
{
    struct err e = {0};
    size_t bytes;
    uint64_t rows, sequence, before;
    struct engine_stats stats;
    void *image = move_give(from, tablet, &bytes, &rows, &e);
    ck_assert_msg(image != NULL, "give: %s", e.text);
    engine_stats_get(to->g, &stats);
    before = stats.sequence;
    int rc = engine_take(to->g, tablet, image, bytes, &sequence, &e);
    for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
        engine_flush_step(to->g);
        embedding_env_run(&to->env);
        rc = engine_take(to->g, tablet, image, bytes, &sequence, &e);
    }
    ck_assert_msg(rc == 0, "take: %s", e.text);
    ck_assert_uint_eq(sequence, before + 1);
    free(image);
}

uint64_t move_digest(struct rig *s, uint32_t table, uint32_t tablet)
{
    struct err e = {0};
    uint64_t digest;
    const struct table *t = engine_whole(s->g, table, tablet, &e);
    ck_assert_msg(t != NULL, "%s", e.text);
    ck_assert_int_eq(table_digest(t, tablet, &digest), 0);
    return digest;
}
