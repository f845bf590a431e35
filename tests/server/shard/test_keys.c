/* test_keys.c: KEYS: rows are erased at once and for good, a repeated request changes nothing, and
 * a restarted shard still knows. */
#include "tests/server/shard_rig.h"

static uint64_t name_keys(struct rig *r, uint32_t table, uint32_t action, const uint64_t *keys,
                          uint32_t count)
{
    struct wire w = rig_wire(r, WIRE_TYPE_KEYS);
    w.u.KEYS = (struct wire_KEYS){.table = table, .action = action, .key_count = count};
    return rig_send(r, &w, 1, keys, count * sizeof *keys, NULL, 0);
}

START_TEST(erased_key_is_gone_for_the_pull_behind_it)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t keys[2] = {rig_key(3, 0), rig_key(9, 0)};
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = keys[0], .gradient = 2});
    /* behind a push that is not applied yet */
    uint64_t erase = name_keys(&r, 0, WIRE_KEY_ERASE, keys, 2);
    uint64_t pull = rig_pull(&r, UINT32_MAX, 0, 0, keys[0]);
    uint64_t push =
        rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = keys[0], .gradient = 2});
    uint64_t again = name_keys(&r, 0, WIRE_KEY_ERASE, keys, 2),
             later = rig_pull(&r, UINT32_MAX, 0, 0, keys[0]);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, erase), 0);
    ck_assert_uint_eq(rig_reply(&r, erase)->u.KEYS_reply.changed, 2);
    ck_assert(rig_value(&r, pull) == 0);
    ck_assert_int_eq(rig_status(&r, push), 0); /* taken; the key's gradient is dropped */
    ck_assert_uint_eq(rig_reply(&r, again)->u.KEYS_reply.changed, 0);
    ck_assert(rig_value(&r, later) == 0);
    ck_assert_uint_eq(table_rows(engine_table(r.shard->engine, 0)), 0);
    uint64_t reset = name_keys(&r, 0, WIRE_KEY_RESET, keys, 1);
    rig_push(&r, (struct rig_push_args){.from = 2, .to = 3, .key = keys[0], .gradient = 2});
    later = rig_pull(&r, UINT32_MAX, 0, 0, keys[0]);
    rig_run(&r, 20);
    ck_assert_uint_eq(rig_reply(&r, reset)->u.KEYS_reply.changed, 1);
    ck_assert(rig_value(&r, later) == -2);
    rig_free(&r);
}
END_TEST

/* An evicted row is gone for the pull behind it, and begins anew with the next push. */
START_TEST(evicted_row_begins_anew)
{
    struct rig r = {0};
    char object[NAMING_OBJECT];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t keys[2] = {rig_key(3, 0), rig_key(9, 0)};
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = keys[0], .gradient = 2});
    uint64_t evict = name_keys(&r, 0, WIRE_KEY_EVICT, keys, 2);
    uint64_t pull = rig_pull(&r, UINT32_MAX, 0, 0, keys[0]);
    uint64_t none = name_keys(&r, 0, 5, keys, 2);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, evict), 0);
    ck_assert_uint_eq(rig_reply(&r, evict)->u.KEYS_reply.changed, 1);
    ck_assert(rig_value(&r, pull) == 0);
    ck_assert_uint_eq(table_rows(engine_table(r.shard->engine, 0)), 0);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_MALFORMED);
    rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = keys[0], .gradient = 2});
    uint64_t later = rig_pull(&r, UINT32_MAX, 0, 0, keys[0]);
    rig_run(&r, 20);
    ck_assert(rig_value(&r, later) == -2);
    naming_object(r.shard, &(struct wire_KEYS){0, WIRE_KEY_EVICT, 2}, object);
    ck_assert_ptr_nonnull(strstr(object, "evict 2 keys of"));
    naming_object(r.shard, &(struct wire_KEYS){0, 5, 2}, object);
    ck_assert_ptr_nonnull(strstr(object, "no action on 2 keys"));
    rig_free(&r);
}
END_TEST

static const struct env_ops *quick;
static const struct env_timer *steps;

/* Each step takes 10 ms. */
static void slow_start(struct env *env, struct env_timer *t, uint64_t delay_ns)
{
    quick->timer_start(env, t, t == steps ? delay_ns + 10 * MS : delay_ns);
}

/* Keys of 16 tablets with one row each; a step takes one key. Pulls and pushes go on in between,
 * and the answer comes after the last step. */
START_TEST(many_keys_are_erased_in_steps)
{
    struct rig r = {0};
    static struct env_ops slow;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t keys[16];
    for (uint32_t i = 0; i < 16; i++) {
        keys[i] = rig_key(15 - i, 0);
        rig_push(&r, (struct rig_push_args){.from = i, .to = i + 1, .key = keys[i], .gradient = 2});
    }
    rig_run(&r, 5);
    struct env *env = sim_node_env(r.shard_node);
    quick = env->ops;
    slow = *quick;
    slow.timer_start = slow_start;
    env->ops = &slow;
    steps = &r.shard->naming.timer;
    r.shard->naming.step_rows = 1;
    uint64_t erase = name_keys(&r, 0, WIRE_KEY_ERASE, keys, 16);
    rig_run(&r, 85);
    ck_assert_int_eq(rig_status(&r, erase), RIG_WAITING);
    ck_assert_uint_ge(table_rows(engine_table(r.shard->engine, 0)), 6);
    ck_assert_uint_le(table_rows(engine_table(r.shard->engine, 0)), 8);
    uint64_t first = rig_pull(&r, UINT32_MAX, 0, 0, keys[15]),
             last = rig_pull(&r, UINT32_MAX, 0, 0, keys[0]),
             other = name_keys(&r, 0, WIRE_KEY_BLOCK, keys, 1),
             push = rig_push(
                 &r, (struct rig_push_args){.from = 16, .to = 17, .key = keys[1], .gradient = 1});
    rig_run(&r, 5);
    ck_assert(rig_value(&r, first) == 0);
    ck_assert(rig_value(&r, last) == -2);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_AGAIN);
    rig_run(&r, 200);
    ck_assert_int_eq(rig_status(&r, erase), 0);
    ck_assert_uint_eq(rig_reply(&r, erase)->u.KEYS_reply.changed, 16);
    ck_assert_uint_eq(table_rows(engine_table(r.shard->engine, 0)), 0);
    env->ops = quick;
    rig_free(&r);
}
END_TEST

START_TEST(only_led_keys_are_named)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_map(&r, 2, 10);
    rig_run(&r, 5);
    uint64_t keys[16];
    for (uint32_t i = 0; i < 16; i++)
        keys[i] = rig_key(i, 0);
    uint64_t id = name_keys(&r, 0, WIRE_KEY_BLOCK, keys, 16);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, id)->u.KEYS_reply.changed, 10);
    ck_assert_uint_eq(rig_reply(&r, id)->u.KEYS_reply.skipped, 6);
    rig_free(&r);
}
END_TEST

/* A client sends again until it is answered, so a copy may be late. */
START_TEST(a_late_copy_of_a_request_changes_nothing)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t key = rig_key(3, 0);
    struct table_name is;
    struct wire w = rig_wire(&r, WIRE_TYPE_KEYS);
    w.u.KEYS = (struct wire_KEYS){.action = WIRE_KEY_ALLOW, .key_count = 1};
    rig_send(&r, &w, 1, &key, sizeof key, NULL, 0);
    rig_run(&r, 5);
    uint64_t block = name_keys(&r, 0, WIRE_KEY_BLOCK, &key, 1);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, block)->u.KEYS_reply.changed, 1);
    rig_send(&r, &w, 1, &key, sizeof key, NULL, 0);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, w.id)->u.KEYS_reply.changed, 1);
    uint32_t tablet = key_tablet(key_mix(key), RIG_BITS);
    ck_assert_uint_eq(table_names(engine_table(r.shard->engine, 0), tablet, 0, &is, 1), 1);
    ck_assert_int_eq(is.action, KEY_BLOCK);
    rig_free(&r);
}
END_TEST

static uint64_t list_names(struct rig *r, uint32_t table, uint64_t from)
{
    struct wire w = rig_wire(r, WIRE_TYPE_NAMED);
    w.u.NAMED = (struct wire_NAMED){table, from};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Pages end where another shard leads, and say where to go on. */
START_TEST(names_are_listed_as_far_as_tablets_are_led)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    static const uint32_t first[] = {WIRE_KEY_ERASE, WIRE_KEY_BLOCK, WIRE_KEY_BLOCK};
    uint64_t keys[16];
    for (uint32_t i = 0; i < 16; i++)
        keys[i] = rig_key(i, 0);
    name_keys(&r, 0, WIRE_KEY_ALLOW, keys, 16);
    name_keys(&r, 0, WIRE_KEY_BLOCK, keys, 3);
    name_keys(&r, 0, WIRE_KEY_ERASE, keys, 1);
    uint64_t all = list_names(&r, 0, 0), behind = list_names(&r, 0, key_mix(keys[2]) + 1);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, all)->u.NAMED_reply.count, 16);
    ck_assert_uint_eq(rig_reply(&r, all)->u.NAMED_reply.next, 0);
    const struct wire_named *name = r.answer[all].m->frame[1].data;
    for (uint32_t i = 0; i < 16; i++) {
        ck_assert_uint_eq(name[i].key, keys[i]);
        ck_assert_uint_eq(name[i].action, i < 3 ? first[i] : WIRE_KEY_ALLOW);
    }
    ck_assert_uint_eq(rig_reply(&r, behind)->u.NAMED_reply.count, 13);
    rig_map(&r, 2, 10);
    rig_run(&r, 5);
    uint64_t led = list_names(&r, 0, 0), away = list_names(&r, 0, UINT64_C(10) << 60),
             none = list_names(&r, 9, 0);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, led)->u.NAMED_reply.count, 10);
    ck_assert_uint_eq(rig_reply(&r, led)->u.NAMED_reply.next, UINT64_C(10) << 60);
    ck_assert_int_eq(rig_status(&r, away), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_NO_TABLE);
    rig_free(&r);
}
END_TEST

/* A page has room for WIRE_NAMED_MAX names; the next one goes on behind the last. */
START_TEST(many_names_are_listed_in_pages)
{
    enum { MORE = 100, ALL = WIRE_NAMED_MAX + MORE };
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t *keys = calloc(ALL, sizeof *keys);
    for (uint32_t i = 0; i < ALL; i++)
        keys[i] = i;
    name_keys(&r, 0, WIRE_KEY_BLOCK, keys, LIMIT_KEYS);
    name_keys(&r, 0, WIRE_KEY_BLOCK, keys + LIMIT_KEYS, ALL - LIMIT_KEYS);
    rig_run(&r, 50);
    uint64_t one = list_names(&r, 0, 0);
    rig_run(&r, 5);
    const struct wire_NAMED_reply *page = &rig_reply(&r, one)->u.NAMED_reply;
    const struct wire_named *name = r.answer[one].m->frame[1].data;
    ck_assert_uint_eq(page->count, WIRE_NAMED_MAX);
    ck_assert_uint_eq(page->next, key_mix(name[WIRE_NAMED_MAX - 1].key) + 1);
    uint64_t two = list_names(&r, 0, page->next);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, two)->u.NAMED_reply.count, MORE);
    ck_assert_uint_eq(rig_reply(&r, two)->u.NAMED_reply.next, 0);
    free(keys);
    rig_free(&r);
}
END_TEST

START_TEST(keys_that_cannot_be_named_are_refused)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t key = rig_key(3, 0);
    uint64_t none = name_keys(&r, 9, WIRE_KEY_ERASE, &key, 1),
             what = name_keys(&r, 0, WIRE_KEY_SCRUB + 1, &key, 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_NO_TABLE);
    ck_assert_int_eq(rig_status(&r, what), SHOAL_E_MALFORMED);
    rig_free(&r);
}
END_TEST

/* A request that cannot begin is answered at once with AGAIN; one that has begun ends by itself. */
START_TEST(keys_wait_for_nothing_before_they_have_begun)
{
    struct rig r = {.dir = NULL, .durability = DURABLE_MEMORY, .work_ns = 100 * MS};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t key = rig_key(3, 0);
    rig_push(&r, (struct rig_push_args){.to = 1, .key = key, .gradient = 1});
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 5, .run = RIG_RUN};
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    w = rig_wire(&r, WIRE_TYPE_GO);
    w.u.GO.cut = 5;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    uint64_t id = name_keys(&r, 0, WIRE_KEY_ERASE, &key, 1);
    rig_run(&r, 2);
    ck_assert_int_eq(rig_status(&r, id), SHOAL_E_AGAIN);
    rig_run(&r, 500);
    id = name_keys(&r, 0, WIRE_KEY_ERASE, &key, 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, id), 0);
    rig_free(&r);
}
END_TEST

/* Keys are erased and then scrubbed: the answer comes when the journal has no more records of them.
 * Here there is no journal. */
START_TEST(scrub_is_answered)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t key = rig_key(3, 0);
    name_keys(&r, 0, WIRE_KEY_ERASE, &key, 1);
    uint64_t scrub = name_keys(&r, 0, WIRE_KEY_SCRUB, &key, 1);
    rig_run(&r, 50);
    ck_assert_int_ne(rig_status(&r, scrub), RIG_WAITING);
    ck_assert_int_ne(rig_status(&r, scrub), SHOAL_E_MALFORMED);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        erased_key_is_gone_for_the_pull_behind_it,
        evicted_row_begins_anew,
        many_keys_are_erased_in_steps,
        only_led_keys_are_named,
        a_late_copy_of_a_request_changes_nothing,
        names_are_listed_as_far_as_tablets_are_led,
        many_names_are_listed_in_pages,
        keys_that_cannot_be_named_are_refused,
        keys_wait_for_nothing_before_they_have_begun,
        scrub_is_answered,
    };
    return rig_main("keys", tests, sizeof tests / sizeof tests[0]);
}
