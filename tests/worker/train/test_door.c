/* test_door.c: the door of a worker: opening it, and every role with every message at it. */
#include "worker/train/door.h"

#include "proto/wire/allow.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define HERE "sim://worker"

static const char key_a[] = "y-gb8IpsJp6#:l!UECs[LX2oGC-a<aArTxd)5^-z",
                  key_b[] = "PiHv}[u:!/UEfVY8&&us%bp!#d+]%#9QKZ!tSn/i";

static struct sim *sim;
static struct sim_node *own, *guest;
static struct door door;
static int unknown; /* where_of fails with it; 0: it does not */
static uint32_t opened, requests;
static struct err opened_with;
static enum wire_type requested;
static peer_t to;
static struct wire in, answer; /* large: not on the stack */
static bool answered;

static int where_of(void *context, char endpoint[256], char host[256], struct err *e)
{
    ck_assert_ptr_eq(context, &sim);
    if (unknown != 0)
        return err_set(e, unknown, "no address");
    (void)snprintf(endpoint, 256, HERE);
    host[0] = 0;
    return 0;
}

static void on_opened(void *owner, const struct err *e)
{
    ck_assert_ptr_eq(owner, &door);
    opened++;
    opened_with = *e;
}

static void on_request(void *owner, peer_t from, const struct wire *w, const struct msg *m)
{
    ck_assert_ptr_eq(owner, &door);
    ck_assert(from != 0 && m->frame_count > 0);
    requests++;
    requested = w->type;
}

static void own_message(void *core, peer_t from, struct msg *m)
{
    struct err e = {0};
    (void)core;
    (void)wire_decode(m, &in, &e);
    door_message(&door, from, &in, m, &e);
    msg_free(m);
}

static void guest_message(void *core, peer_t from, struct msg *m)
{
    struct err e = {0};
    (void)core;
    (void)from;
    ck_assert_msg(wire_decode(m, &answer, &e) == 0, "%s", e.text);
    msg_free(m);
    answered = true;
}

static void drained(void *core)
{
    (void)core;
}

static void setup(void)
{
    static const struct env_handler mine = {own_message, drained, NULL},
                                    theirs = {guest_message, drained, NULL};
    const struct sim_options calm = {.seed = 1, .delay_min_ns = MS, .delay_max_ns = MS};
    sim = sim_new(&calm);
    own = sim_node_new(sim, "worker", &mine, NULL);
    guest = sim_node_new(sim, "guest", &theirs, NULL);
    const struct door_options options = {.env = sim_node_env(own),
                                         .where = where_of,
                                         .context = &sim,
                                         .opened = on_opened,
                                         .request = on_request,
                                         .owner = &door};
    door_init(&door, &options);
    unknown = 0;
    opened = requests = 0;
    ck_assert_int_eq(env_connect(sim_node_env(guest), HERE, "", &to), 0);
}

static void teardown(void)
{
    sim_free(sim);
}

static void run_ms(uint64_t ms)
{
    sim_run(sim, sim_now_ns(sim) + ms * MS, NULL, NULL);
}

static void open_it(void)
{
    door_open(&door);
    run_ms(10);
    ck_assert_msg(opened_with.code == 0, "%s", opened_with.text);
    ck_assert_str_eq(door_endpoint(&door), HERE);
}

static int frames_of(enum wire_type type)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        return request_frames;
        WIRE_MAP(X)
#undef X
    default:
        return 0;
    }
}

/* Sends a request of this kind, as empty as possible. */
static void ask(enum wire_type type)
{
    static struct wire w;
    static const uint8_t nothing[512];
    w = (struct wire){.type = type, .id = 7};
    struct msg *m = wire_encode(&w);
    for (int i = 0; i < frames_of(type); i++) {
        size_t bytes = type == WIRE_TYPE_TASK_DONE && i == 0 ? sizeof nothing : 0;
        memcpy(msg_add(m, bytes), nothing, bytes);
    }
    answered = false;
    ck_assert_int_eq(env_send(sim_node_env(guest), to, m), 0);
    run_ms(10);
}

static void guest_is(enum role role, const char *key)
{
    struct env_who who = {.role = role};
    (void)snprintf(who.key, sizeof who.key, "%s", key);
    sim_node_who(guest, &who);
}

/* ---- opening --------------------------------------------------------------------------------- */

START_TEST(door_opens_when_its_address_is_found)
{
    ask(WIRE_TYPE_RING_CHUNK);
    ck_assert(!answered && requests == 0); /* nothing listens yet */
    door_open(&door);
    ck_assert(door_busy(&door));
    ck_assert_str_eq(door_endpoint(&door), "");
    ck_assert_uint_eq(opened, 0);
    run_ms(10);
    ck_assert(!door_busy(&door));
    ck_assert_uint_eq(opened, 1);
    ck_assert_int_eq(opened_with.code, 0);
    ck_assert_str_eq(door_endpoint(&door), HERE);
    ask(WIRE_TYPE_RING_CHUNK);
    ck_assert_uint_eq(requests, 1);
}
END_TEST

/* The trainer tries again; a port may be free by then. */
START_TEST(door_that_cannot_listen_says_why)
{
    struct sim_node *other = sim_node_new(sim, "other", NULL, NULL);
    sim_listen(other, HERE);
    door_open(&door);
    run_ms(10);
    ck_assert_int_eq(opened_with.code, SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(opened_with.text, "cannot listen") != NULL, "%s", opened_with.text);
    ck_assert_msg(strstr(opened_with.text, HERE " is in use") != NULL, "%s", opened_with.text);
    ck_assert_str_eq(door_endpoint(&door), "");
    unknown = SHOAL_E_CONFIG;
    door_open(&door);
    run_ms(10);
    ck_assert_int_eq(opened_with.code, SHOAL_E_CONFIG);
    ck_assert_msg(strstr(opened_with.text, "no address") != NULL, "%s", opened_with.text);
    ck_assert_str_eq(door_endpoint(&door), "");
    unknown = 0;
    sim_kill(other);
    open_it();
    ck_assert_uint_eq(opened, 3);
}
END_TEST

/* ---- what comes in --------------------------------------------------------------------------- */

START_TEST(every_role_and_message_at_a_worker)
{
    static const struct {
        enum wire_right right;
        enum wire_type type;
    } cell[] = {
#define X(name, number, request_frames, reply_frames) {WIRE_RIGHT_##name, WIRE_TYPE_##name},
        WIRE_MAP(X)
#undef X
    };
    uint32_t passed = 0;
    open_it();
    for (int role = 0; role <= ROLE_NOBODY; role++) {
        guest_is((enum role)role, "");
        for (size_t i = 0; i < sizeof cell / sizeof *cell; i++) {
            bool ring = cell[i].type == WIRE_TYPE_RING_CHUNK || cell[i].type == WIRE_TYPE_RING_READ,
                 may = ring && (role == ROLE_LOCAL || role == ROLE_WORKER);
            const char *name = allow_text(cell[i].right);
            requests = 0;
            ask(cell[i].type);
            ck_assert_msg(requests == may && answered == !may, "%s of %s", name,
                          role_text((enum role)role));
            passed += requests;
            if (may)
                ck_assert_int_eq(requested, cell[i].type);
            else
                ck_assert_msg(answer.status == SHOAL_E_DENIED && answer.id == 7 &&
                                  (cell[i].type == WIRE_TYPE_PULL || /* PULL, or PULL of a lane */
                                   strstr(answer.error, name) != NULL),
                              "%s: %d %s", name, answer.status, answer.error);
        }
    }
    ck_assert_uint_eq(passed, 4);
}
END_TEST

/* The list is exactly that of the newest ring. */
START_TEST(door_admits_the_members_of_a_ring_alone)
{
    struct wire_ring_member member[2] = {{.worker = 3}, {.worker = 5}};
    open_it();
    guest_is(ROLE_WORKER, key_a); /* listed by the coordinator, but no ring has been told */
    ask(WIRE_TYPE_RING_CHUNK);
    ck_assert(requests == 0 && !answered);
    (void)snprintf(member[0].key, sizeof member[0].key, "%s", key_b);
    ck_assert_int_eq(door_admit(&door, member, 1), 0);
    ask(WIRE_TYPE_RING_CHUNK);
    ck_assert(requests == 0 && !answered); /* a worker that is no member */
    (void)snprintf(member[1].key, sizeof member[1].key, "%s", key_a);
    ck_assert_int_eq(door_admit(&door, member, 2), 0);
    ask(WIRE_TYPE_RING_CHUNK);
    ck_assert_uint_eq(requests, 1);
    guest_is(ROLE_ADMIN, key_a); /* the key counts, and its role is that of a member */
    ask(WIRE_TYPE_STATUS);
    ck_assert_int_eq(answer.status, SHOAL_E_DENIED);
    ck_assert_msg(strstr(answer.error, "a worker takes no STATUS") != NULL, "%s", answer.error);
    ck_assert_int_eq(door_admit(&door, NULL, 0), 0); /* the job is over */
    ask(WIRE_TYPE_RING_CHUNK);
    ck_assert(requests == 1 && !answered);
}
END_TEST

START_TEST(door_answers_what_is_malformed)
{
    open_it();
    struct wire w = {.type = WIRE_TYPE_RING_CHUNK, .id = 9};
    struct msg *m = wire_encode(&w); /* without its floats */
    answered = false;
    ck_assert_int_eq(env_send(sim_node_env(guest), to, m), 0);
    run_ms(10);
    ck_assert_uint_eq(requests, 0);
    ck_assert(answered && answer.id == 9 && answer.status != 0);
    m = msg_new();
    memset(msg_add(m, 100), 0xff, 100);
    answered = false;
    ck_assert_int_eq(env_send(sim_node_env(guest), to, m), 0);
    run_ms(10);
    ck_assert(requests == 0 && !answered);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("door");
    TCase *t = suite_case(suite, "door", 30, setup, teardown);
    tcase_add_test(t, door_opens_when_its_address_is_found);
    tcase_add_test(t, door_that_cannot_listen_says_why);
    tcase_add_test(t, every_role_and_message_at_a_worker);
    tcase_add_test(t, door_admits_the_members_of_a_ring_alone);
    tcase_add_test(t, door_answers_what_is_malformed);
    return suite_main(suite);
}
