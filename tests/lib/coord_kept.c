/* coord_kept.c: see coord_kept.h. */
#include "tests/lib/coord_kept.h"

#include "proto/base/container_of.h"
#include "proto/base/minmax.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A transaction that is under way. */
struct under_way {
    struct under_way *next;
    uint64_t due_ns, owner;
    struct coord_store *put; /* owned */
    size_t removed;
    char key[][COORD_KEY_MAX]; /* (removed) */
};

/* The keep of one store. */
struct keeping {
    struct coord_keep base;
    struct coord_kept *kept;   /* borrowed, as all below */
    struct coord_store *store; /* the coordinator's */
    struct env *env;           /* NULL: no delays */
    struct env_timer timer;
    struct under_way *head, *last;
};

static int value_copy(void *context, const char *key, const void *value, size_t bytes)
{
    return coord_store_put(context, key, value, bytes, NULL);
}

static struct under_way *under_way_new(const struct coord_transaction *t)
{
    struct under_way *u = calloc(1, sizeof *u + t->count * sizeof u->key[0]);
    ck_assert_ptr_nonnull(u);
    u->owner = t->owner;
    u->put = coord_store_memory();
    for (size_t i = 0; i < t->count; i++) {
        const struct coord_change *c = &t->change[i];
        if (c->value == NULL)
            (void)snprintf(u->key[u->removed++], COORD_KEY_MAX, "%s", c->key);
        else
            ck_assert_int_eq(coord_store_put(u->put, c->key, c->value, c->bytes, NULL), 0);
    }
    return u;
}

static void under_way_free(struct under_way *u)
{
    coord_store_close(u->put);
    free(u);
}

static int apply(struct coord_kept *k, const struct under_way *u, struct err *e)
{
    uint64_t owner = 0;
    (void)coord_store_get_fixed(k->values, COORD_STORE_OWNER, &owner, sizeof owner, NULL);
    if (owner != u->owner)
        return err_set(e, SHOAL_E_FENCED, "another coordinator owns the values now");
    if (k->left == 0)
        return err_set(e, SHOAL_E_IO, "it takes no transaction any more");
    k->left -= k->left != COORD_KEPT_ALL;
    for (size_t i = 0; i < u->removed; i++)
        ck_assert_int_eq(coord_store_remove(k->values, u->key[i], NULL), 0);
    ck_assert_int_eq(coord_store_visit(u->put, value_copy, k->values), 0);
    return 0;
}

static struct under_way *take_first(struct keeping *g)
{
    struct under_way *u = g->head;
    g->head = u->next;
    return u;
}

static void fire(struct env_timer *t)
{
    struct keeping *g = container_of(t, struct keeping, timer);
    struct err e = {0};
    struct under_way *u = take_first(g);
    int rc = apply(g->kept, u, &e);
    under_way_free(u);
    if (g->head != NULL)
        env_timer_start(g->env, t, g->head->due_ns - MIN(g->head->due_ns, env_now_ns(g->env)));
    coord_store_done(g->store, rc, &e);
}

static int begin(struct coord_keep *b, const struct coord_transaction *t, struct err *e)
{
    struct keeping *g = container_of(b, struct keeping, base);
    struct under_way *u = under_way_new(t);
    uint64_t delay = g->kept->delay_ns;
    if (g->env == NULL || delay == 0) {
        int rc = apply(g->kept, u, e);
        under_way_free(u);
        return rc;
    }
    delay *= rng_below(&g->kept->rng, 32) == 0 ? 50 : 1;
    u->due_ns = env_now_ns(g->env) + 1 + rng_below(&g->kept->rng, delay);
    g->kept->delayed++;
    if (g->head == NULL) {
        g->head = u;
        env_timer_start(g->env, &g->timer, u->due_ns - env_now_ns(g->env));
    } else {
        g->last->next = u;
        u->due_ns = MAX(u->due_ns, g->last->due_ns);
    }
    g->last = u;
    return SHOAL_E_AGAIN;
}

static void close_it(struct coord_keep *b)
{
    struct keeping *g = container_of(b, struct keeping, base);
    bool lost = false;
    while (g->head != NULL) {
        struct under_way *u = take_first(g);
        lost = lost || rng_below(&g->kept->rng, 3) == 0 || apply(g->kept, u, NULL) != 0;
        g->kept->lost += lost;
        g->kept->unheard += !lost;
        under_way_free(u);
    }
    free(g);
}

static void keep_by(struct coord_kept *k, struct coord_store *s, struct env *env)
{
    struct keeping *g = calloc(1, sizeof *g);
    ck_assert_ptr_nonnull(g);
    *g = (struct keeping){.base = {.begin = begin, .close = close_it},
                          .kept = k,
                          .store = s,
                          .env = env,
                          .timer.fire = fire};
    coord_store_keep(s, &g->base);
}

void coord_kept_attach(struct coord_kept *k, struct coord_store *s, struct env *env)
{
    k->values = coord_store_memory();
    ck_assert_int_eq(coord_store_visit(s, value_copy, k->values), 0);
    keep_by(k, s, env);
}

struct coord_store *coord_kept_open(struct coord_kept *k, struct env *env)
{
    struct coord_store *s = coord_store_memory();
    ck_assert_int_eq(coord_store_visit(k->values, value_copy, s), 0);
    keep_by(k, s, env);
    return s;
}
