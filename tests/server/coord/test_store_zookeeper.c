/* test_store_zookeeper.c: the keep over ZooKeeper, on a model of it without a server: values come
 * back, large ones too, waiting transactions become one request, lost answers change nothing, one
 * of several coordinators leads, and one that no longer leads writes and sends nothing. */
#include "server/coord/store/lead.h"
#include "server/coord/store/store_zookeeper.h"
#include "tests/lib/coord_put.h"

#include <check.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NODES 4096

struct node {
    char path[ZOO_PATH_MAX];
    char *data;
    size_t bytes;
    int32_t version;
    struct zoo *owner;
};

struct zoo {
    bool ended;
};

static struct {
    struct node node[NODES];
    size_t count;
    uint32_t multis, lose_at; /* the answer of this one is lost; 0: of none */
    bool done;                /* the lost one was done */
    uint32_t down;            /* further operations that find no connection */
    uint32_t delay_us;
} model;

static struct node *node_find(const char *path)
{
    for (size_t i = 0; i < model.count; i++)
        if (strcmp(model.node[i].path, path) == 0)
            return &model.node[i];
    return NULL;
}

static int step_check(const struct zoo_step *s)
{
    const struct node *n = node_find(s->path);
    if (s->kind == ZOO_MAKE || s->kind == ZOO_MAKE_OWN)
        return n == NULL ? 0 : SHOAL_E_EXISTS;
    if (n == NULL)
        return SHOAL_E_NOT_FOUND;
    return s->kind == ZOO_REMOVE || n->version == s->version ? 0 : SHOAL_E_FENCED;
}

static void step_do(const struct zoo_step *s)
{
    struct node *n = node_find(s->path);
    if (s->kind == ZOO_CHECK)
        return;
    if (s->kind == ZOO_REMOVE) {
        free(n->data);
        *n = model.node[--model.count];
        return;
    }
    if (n == NULL) {
        ck_assert_uint_lt(model.count, NODES);
        n = &model.node[model.count++];
        *n = (struct node){.version = -1};
        (void)snprintf(n->path, sizeof n->path, "%s", s->path);
    }
    free(n->data);
    n->data = malloc(s->bytes + 1);
    if (s->bytes > 0)
        memcpy(n->data, s->data, s->bytes);
    n->bytes = s->bytes;
    n->version++;
}

/* True when the folder of the path is there. */
static bool placed(const char *path)
{
    char folder[ZOO_PATH_MAX];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return slash == path || node_find(folder) != NULL;
}

static int multi(struct zoo *z, const struct zoo_step *step, size_t count, struct err *e)
{
    size_t bytes = 0;
    if (model.delay_us > 0)
        nanosleep(&(struct timespec){.tv_nsec = model.delay_us * 1000L}, NULL);
    bool lost = ++model.multis == model.lose_at;
    if (lost && !model.done)
        return SHOAL_E_UNAVAILABLE;
    for (size_t i = 0; i < count; i++) {
        int rc = placed(step[i].path) ? step_check(&step[i]) : SHOAL_E_NOT_FOUND;
        bytes += step[i].bytes + strlen(step[i].path) + 64;
        if (rc != 0)
            return err_set(e, rc, "model");
    }
    ck_assert_uint_lt(bytes, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        step_do(&step[i]);
        if (step[i].kind == ZOO_MAKE_OWN)
            node_find(step[i].path)->owner = z;
    }
    return lost ? SHOAL_E_UNAVAILABLE : 0;
}

static int get(struct zoo *z, struct zoo_node *node, size_t count, struct err *e)
{
    (void)z;
    if (model.down > 0) {
        model.down--;
        return SHOAL_E_UNAVAILABLE;
    }
    for (size_t i = 0; i < count; i++)
        if (node_find(node[i].path) == NULL)
            return err_set(e, SHOAL_E_NOT_FOUND, "model");
    for (size_t i = 0; i < count; i++) {
        const struct node *n = node_find(node[i].path);
        node[i].data = malloc(n->bytes + 1);
        memcpy(node[i].data, n->data, n->bytes);
        node[i].bytes = n->bytes;
        node[i].version = n->version;
    }
    return 0;
}

static int children(struct zoo *z, const char *path, int (*visit)(void *, const char *),
                    void *context, struct err *e)
{
    (void)z;
    (void)e;
    size_t length = strlen(path);
    for (size_t i = 0; i < model.count; i++)
        if (strncmp(model.node[i].path, path, length) == 0 && model.node[i].path[length] == '/')
            (void)visit(context, model.node[i].path + length + 1);
    return 0;
}

static int await(struct zoo *z, int wake_fd, const char *own, struct err *e)
{
    struct pollfd p = {.fd = wake_fd, .events = POLLIN};
    while (poll(&p, 1, own == NULL ? -1 : 5) == 0)
        if (node_find(own) == NULL || node_find(own)->owner != z)
            return err_set(e, SHOAL_E_FENCED, "model");
    return 0;
}

static bool lives(const struct zoo *z)
{
    return z == NULL || !z->ended;
}

static uint32_t timeout_ms(const struct zoo *z)
{
    (void)z;
    return 1000;
}

/* The nodes of the session go. */
static void end(struct zoo *z)
{
    for (size_t i = 0; z != NULL && i < model.count; i++)
        if (model.node[i].owner == z) {
            free(model.node[i].data);
            model.node[i--] = model.node[--model.count];
        }
}

static const struct zoo_ops ops = {multi, get, children, await, lives, timeout_ms, end};

static void teardown(void)
{
    while (model.count > 0)
        free(model.node[--model.count].data);
    memset(&model, 0, sizeof model);
}

static struct coord_store *store_open(struct env *env)
{
    static uint64_t writer;
    struct coord_store *s;
    struct err e = {0};
    const struct coord_zookeeper o = {.ops = &ops, .path = "/a/b", .env = env, .writer = ++writer};
    ck_assert_msg(coord_zookeeper_open(&o, &s, &e) == 0, "%s", e.text);
    return s;
}

static void has(struct coord_store *s, const char *key, const char *value)
{
    void *got;
    size_t bytes;
    ck_assert_int_eq(coord_store_get(s, key, &got, &bytes, NULL), 0);
    ck_assert_uint_eq(bytes, strlen(value));
    ck_assert_int_eq(memcmp(got, value, bytes), 0);
    free(got);
}

START_TEST(coord_zookeeper_keeps_over_a_restart)
{
    struct coord_store *s = store_open(NULL);
    void *got;
    size_t bytes;
    ck_assert_int_eq(coord_put_now(s, "a/b", "one", 3, NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "b", "two", 3, NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "a/b", "three", 5, NULL), 0);
    ck_assert_int_eq(coord_remove_now(s, "b", NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "c", "", 0, NULL), 0);
    for (int restart = 0; restart < 3; restart++) {
        has(s, "a/b", "three");
        has(s, "c", "");
        ck_assert_int_eq(coord_store_get(s, "b", &got, &bytes, NULL), SHOAL_E_NOT_FOUND);
        coord_store_close(s);
        s = store_open(NULL);
    }
    coord_store_close(s);
}
END_TEST

/* The model checks that no request has more than 1 MiB. */
START_TEST(coord_zookeeper_greatest_value_comes_back_and_the_log_is_shortened)
{
    struct coord_store *s = store_open(NULL);
    char *value = malloc(COORD_VALUE_MAX);
    for (int i = 0; i < 6; i++) {
        memset(value, 'a' + i, COORD_VALUE_MAX);
        ck_assert_int_eq(coord_put_now(s, "big", value, COORD_VALUE_MAX, NULL), 0);
        ck_assert_int_eq(coord_put_now(s, "small", value, 1, NULL), 0);
    }
    coord_store_close(s);
    ck_assert_uint_lt(model.count, 70);
    s = store_open(NULL);
    has(s, "small", "f");
    ck_assert_int_eq(coord_store_get_fixed(s, "big", value, COORD_VALUE_MAX, NULL), 0);
    ck_assert(value[0] == 'f' && value[COORD_VALUE_MAX - 1] == 'f');
    coord_store_close(s);
    free(value);
}
END_TEST

/* A former coordinator's next transaction fails, and all later ones. */
START_TEST(coord_zookeeper_former_coordinator_writes_nothing)
{
    struct coord_store *old = store_open(NULL), *new;
    struct err e = {0};
    ck_assert_int_eq(coord_put_now(old, "a", "1", 1, &e), 0);
    new = store_open(NULL);
    ck_assert_int_eq(coord_put_now(old, "a", "2", 1, &e), SHOAL_E_FENCED);
    ck_assert_ptr_nonnull(strstr(e.text, "another coordinator leads"));
    ck_assert_int_eq(coord_put_now(new, "b", "3", 1, &e), 0);
    ck_assert_int_eq(coord_put_now(old, "a", "2", 1, &e), SHOAL_E_FENCED);
    coord_store_close(old);
    coord_store_close(new);
    new = store_open(NULL);
    has(new, "a", "1");
    has(new, "b", "3");
    coord_store_close(new);
}
END_TEST

/* The answer of any request is lost, of one that was done or was not; then there is no connection
 * for a while. Everything goes on as if nothing had been. */
START_TEST(coord_zookeeper_lost_answers_change_nothing)
{
    static char large[3 << 20];
    memset(large, 'x', sizeof large);
    uint32_t all = 1;
    for (uint32_t at = 1; at <= all; at++) {
        teardown();
        model.lose_at = at;
        model.done = _i == 1;
        model.down = at % 3;
        struct coord_store *s = store_open(NULL);
        ck_assert_int_eq(coord_put_now(s, "a", "1", 1, NULL), 0);
        for (int i = 0; i < 3; i++) {
            large[0] = (char)('a' + i);
            ck_assert_int_eq(coord_put_now(s, "large", large, sizeof large, NULL), 0);
        }
        ck_assert_int_eq(coord_put_now(s, "a", "2", 1, NULL), 0);
        coord_store_close(s);
        all = model.multis;
        s = store_open(NULL);
        has(s, "a", "2");
        ck_assert_int_eq(coord_store_get_fixed(s, "large", large, sizeof large, NULL), 0);
        ck_assert_int_eq(large[0], 'c');
        coord_store_close(s);
    }
    ck_assert_uint_gt(all, 12);
}
END_TEST

/* What a crash left beyond the head is removed. */
START_TEST(coord_zookeeper_leftovers_are_removed)
{
    struct coord_store *s = store_open(NULL);
    ck_assert_int_eq(coord_put_now(s, "a", "1", 1, NULL), 0);
    coord_store_close(s);
    size_t count = model.count;
    for (int i = 1; i < 150; i++) {
        struct zoo_step left = {.kind = ZOO_MAKE, .data = "junk", .bytes = 4};
        (void)snprintf(left.path, sizeof left.path, "/a/b/log/%016x", i);
        step_do(&left);
    }
    s = store_open(NULL);
    ck_assert_uint_eq(model.count, count);
    has(s, "a", "1");
    ck_assert_int_eq(coord_put_now(s, "a", "2", 1, NULL), 0);
    coord_store_close(s);
}
END_TEST

/* ---- several coordinators -------------------------------------------------------------------- */

static const struct coord_zookeeper *session(struct zoo *z)
{
    static struct coord_zookeeper o[4];
    static uint64_t writer = 1000;
    struct coord_zookeeper *one = &o[writer % 4];
    *one = (struct coord_zookeeper){
        .ops = &ops, .zoo = z, .path = "/a/b", .writer = ++writer, .led = true};
    return one;
}

START_TEST(coord_zookeeper_one_of_several_leads)
{
    struct zoo z[2] = {{false}, {false}};
    const struct coord_zookeeper *one = session(&z[0]), *two = session(&z[1]);
    char leader[COORD_ENDPOINT];
    struct coord_store *s;
    struct err e = {0};
    ck_assert_int_eq(coord_lead_try(one, "tcp://h1:7000", leader, &e), 0);
    ck_assert_int_eq(coord_zookeeper_open(one, &s, &e), 0);
    ck_assert_int_eq(coord_lead_try(two, "tcp://h2:7000", leader, &e), SHOAL_E_AGAIN);
    ck_assert_str_eq(leader, "tcp://h1:7000");
    ck_assert_int_eq(coord_put_now(s, "a", "1", 1, &e), 0);
    coord_store_close(s); /* its session ends */
    ck_assert_int_eq(coord_lead_try(two, "tcp://h2:7000", leader, &e), 0);
    ck_assert_int_eq(coord_zookeeper_open(two, &s, &e), 0);
    has(s, "a", "1");
    coord_store_close(s);
}
END_TEST

/* The answer of the first try is lost, of one that was done or was not. */
START_TEST(coord_zookeeper_lost_try_to_lead_is_repeated)
{
    struct zoo z = {false};
    const struct coord_zookeeper *one = session(&z);
    char leader[COORD_ENDPOINT];
    struct err e = {0};
    ck_assert_int_eq(coord_zookeeper_make(one, &e), 0);
    model.lose_at = model.multis + 1;
    model.done = _i == 1;
    ck_assert_int_eq(coord_lead_try(one, "x", leader, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_int_eq(coord_lead_try(one, "x", leader, &e), 0);
    end(&z);
}
END_TEST

static bool owned_within_a_second(struct coord_store *s)
{
    for (int i = 0; i < 200 && coord_store_owned(s); i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return coord_store_owned(s);
}

/* Without a write of its own a leader learns that its node is gone, or its session. */
START_TEST(coord_zookeeper_idle_leader_learns_that_it_leads_no_longer)
{
    struct zoo z = {false};
    const struct coord_zookeeper *one = session(&z);
    char leader[COORD_ENDPOINT];
    struct coord_store *s;
    struct err e = {0};
    ck_assert_int_eq(coord_lead_try(one, "x", leader, &e), 0);
    ck_assert_int_eq(coord_zookeeper_open(one, &s, &e), 0);
    ck_assert(coord_store_owned(s));
    if (_i == 0)
        z.ended = true;
    else
        node_find("/a/b/leader")->owner = NULL;
    ck_assert(!owned_within_a_second(s));
    coord_store_close(s);
}
END_TEST

/* ---- completions on a loop ------------------------------------------------------------------- */

static struct env_work *started;

static void work(struct env *env, struct env_work *w)
{
    (void)env;
    ck_assert_ptr_null(started);
    started = w;
}

static void work_end(void)
{
    struct env_work *w = started;
    started = NULL;
    w->run(w);
    w->done(w);
}

static void told(void *context, int rc, const struct err *e)
{
    (void)e;
    *(int *)context = rc;
}

START_TEST(coord_zookeeper_waiting_transactions_are_one_request)
{
    static const struct env_ops env_ops = {.work = work};
    struct env env = {&env_ops};
    struct coord_store *s = store_open(&env), *other;
    struct timespec from, to;
    int rc = 0;
    model.delay_us = 5000;
    uint32_t before = model.multis;
    coord_store_watch(s, told, &rc);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 20000; i++)
        ck_assert_int_eq(coord_put_now(s, "k", &i, sizeof i, NULL), 0);
    while (started != NULL)
        work_end();
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    printf("%.0f transactions a second at 5 ms, in %u requests\n", 20000e9 / ns,
           model.multis - before);
    ck_assert_uint_eq(coord_store_complete(s), 20000);
    ck_assert_uint_lt(model.multis - before, 200);

    model.delay_us = 0;
    other = store_open(NULL);
    ck_assert_int_eq(coord_put_now(s, "k", "x", 1, NULL), 0);
    work_end();
    ck_assert_int_eq(rc, SHOAL_E_FENCED);
    ck_assert_ptr_null(started);
    coord_store_close(other);
    coord_store_close(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_store_zookeeper");
    TCase *c = tcase_create("zookeeper");
    tcase_add_checked_fixture(c, NULL, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, coord_zookeeper_keeps_over_a_restart);
    tcase_add_test(c, coord_zookeeper_greatest_value_comes_back_and_the_log_is_shortened);
    tcase_add_test(c, coord_zookeeper_former_coordinator_writes_nothing);
    tcase_add_loop_test(c, coord_zookeeper_lost_answers_change_nothing, 0, 2);
    tcase_add_test(c, coord_zookeeper_leftovers_are_removed);
    tcase_add_test(c, coord_zookeeper_one_of_several_leads);
    tcase_add_loop_test(c, coord_zookeeper_lost_try_to_lead_is_repeated, 0, 2);
    tcase_add_loop_test(c, coord_zookeeper_idle_leader_learns_that_it_leads_no_longer, 0, 2);
    tcase_add_test(c, coord_zookeeper_waiting_transactions_are_one_request);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
