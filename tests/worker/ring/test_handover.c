/* test_handover.c: the network goes from one worker to another in the simulator, over a network
 * that loses and doubles, from sources that are late, of another ring, or that die. */
#include "tests/sim/sim.h"
#include "tests/worker/ring/network_case.h"
#include "worker/ring/handover.h"

#define MS UINT64_C(1000000)

struct node {
    struct sim_node *node;
    struct network *network;
    struct handover *handover;
    struct handover_source source; /* what it gives; env NULL: nothing */
    uint32_t done;
    int status;
};

static struct sim *sim;
static struct node source, spare, newcomer;
static struct case_blocks dense, stats;
static const char keys[2][48] = {"one", "two"};

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct node *n = core;
    struct wire w;
    struct err e = {0};
    ck_assert_msg(wire_decode(m, &w, &e) == 0, "%s", e.text);
    if (!w.reply && n->source.env != NULL)
        handover_serve(&n->source, from, &w);
    else if (w.reply && n->handover != NULL)
        (void)handover_message(n->handover, from, &w, m);
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core; /* no message waits for a commit */
}

static void on_done(void *owner, int status, const char *text)
{
    struct node *n = owner;
    ck_assert(status == 0 || text[0] != '\0');
    n->done++;
    n->status = status;
    handover_stop(n->handover);
    n->handover = NULL;
}

static void node_new(struct node *n, const char *name, uint64_t step)
{
    static const struct env_handler handler = {.on_message = on_message, .on_drained = on_drained};
    char endpoint[40];
    (void)snprintf(endpoint, sizeof endpoint, "sim://%s", name);
    *n = (struct node){.node = sim_node_new(sim, name, &handler, n),
                       .network = case_network(&dense, &stats, OPT_ADAM, 0)};
    sim_listen(n->node, endpoint);
    case_steps(n->network, step);
    n->source = (struct handover_source){.env = sim_node_env(n->node),
                                         .network = n->network,
                                         .run = 3,
                                         .ring = 4,
                                         .keys = keys,
                                         .members = 2};
}

static void begin(uint64_t seed, double lost, uint64_t step)
{
    const struct sim_options o = {.seed = seed,
                                  .drop = lost,
                                  .duplicate = lost,
                                  .delay_min_ns = MS / 10,
                                  .delay_max_ns = 2 * MS,
                                  .reorder = lost > 0};
    sim = sim_new(&o);
    node_new(&source, "source", step);
    node_new(&spare, "spare", step);
    node_new(&newcomer, "newcomer", 0);
}

static void ask(const char *endpoint, uint64_t ring, uint64_t step)
{
    struct err e = {0};
    const struct handover_options o = {.env = sim_node_env(newcomer.node),
                                       .run = 3,
                                       .ring = ring,
                                       .step = step,
                                       .network = newcomer.network,
                                       .endpoint = endpoint,
                                       .key = "",
                                       .resend_ms = 20,
                                       .done = on_done,
                                       .owner = &newcomer};
    ck_assert_msg(handover_start(&o, &newcomer.handover, &e) == 0, "%s", e.text);
}

static bool over(void *context)
{
    (void)context;
    return newcomer.done > 0;
}

static bool run(uint64_t ms)
{
    return sim_run(sim, sim_now_ns(sim) + ms * MS, over, NULL);
}

static void end(void)
{
    handover_stop(newcomer.handover);
    network_free(source.network);
    network_free(spare.network);
    network_free(newcomer.network);
    sim_free(sim);
}

/* Equal now, in the step before, and in the steps that follow. */
static void check_equal(uint64_t step)
{
    uint64_t one, two;
    ck_assert_uint_eq(newcomer.done, 1);
    ck_assert_int_eq(newcomer.status, 0);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(network_at(newcomer.network), step + i);
        for (enum network_part p = 0; p < NETWORK_PARTS; p++) {
            size_t bytes = network_floats(source.network, p) * sizeof(float);
            ck_assert_mem_eq(network_weights(newcomer.network, p),
                             network_weights(source.network, p), bytes);
            ck_assert_mem_eq(network_before(newcomer.network, p), network_before(source.network, p),
                             bytes);
        }
        ck_assert_int_eq(network_digest(source.network, &one), 0);
        ck_assert_int_eq(network_digest(newcomer.network, &two), 0);
        ck_assert_uint_eq(one, two);
        case_steps(source.network, step + i + 1);
        case_steps(newcomer.network, step + i + 1);
    }
}

START_TEST(handover_makes_a_newcomer_equal)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        begin(seed, seed > 1 ? 0.2 : 0, 7);
        ask("sim://source", 4, 7);
        ck_assert(run(100000));
        check_equal(7);
        end();
    }
}
END_TEST

/* The source is in the ring before, and a step behind: it is asked again until it has both. */
START_TEST(handover_waits_for_ring_and_step)
{
    begin(1, 0, 6);
    source.source.ring = 3;
    ask("sim://source", 4, 7);
    ck_assert(!run(300));
    source.source.ring = 4;
    ck_assert(!run(300));
    case_steps(source.network, 7);
    ck_assert(run(1000));
    check_equal(7);
    end();
}
END_TEST

START_TEST(handover_of_an_older_ring_gives_nothing)
{
    begin(1, 0, 7);
    source.source.ring = 5;
    ask("sim://source", 4, 7);
    ck_assert(!run(1000));
    source.source = (struct handover_source){.env = source.source.env, .run = 9, .ring = 4};
    ck_assert(!run(1000));
    ck_assert_uint_eq(network_at(newcomer.network), 0);
    end();
}
END_TEST

/* The source dies in the middle; a ring of the next number names another one. */
START_TEST(handover_goes_on_from_another_source)
{
    for (uint32_t events = 0; events < 60; events += 4) {
        begin(events + 1, 0.1, 7);
        ask("sim://source", 4, 7);
        for (uint32_t i = 0; i < events && newcomer.done == 0; i++)
            (void)sim_step(sim);
        if (newcomer.done == 0) {
            sim_kill(source.node);
            (void)run(100);
            handover_stop(newcomer.handover);
            spare.source.ring = 5;
            ask("sim://spare", 5, 7);
            ck_assert(run(100000));
        }
        check_equal(7);
        end();
    }
}
END_TEST

START_TEST(handover_is_for_workers_of_the_ring_alone)
{
    static const struct {
        const char *key;
        bool given;
    } reader[] = {{"two", true}, {"three", false}, {"", false}};
    for (size_t i = 0; i < sizeof reader / sizeof *reader; i++) {
        struct env_who who = {.role = ROLE_WORKER, .name = "somebody"};
        begin(1, 0, 7);
        (void)snprintf(who.key, sizeof who.key, "%s", reader[i].key);
        sim_node_who(newcomer.node, &who);
        ask("sim://source", 4, 7);
        ck_assert_int_eq(run(1000), reader[i].given);
        end();
    }
}
END_TEST

/* A piece that the network does not have ends the handover with the source's words. */
START_TEST(handover_of_another_network_ends)
{
    begin(1, 0, 7);
    struct case_blocks d;
    network_free(source.network);
    case_blocks_make(&d, "dense", OPT_ADAM, 3);
    const struct network_options o = {.part = {{&d.schema, d.keys, d.block, 3}}};
    ck_assert_int_eq(network_new(&o, &source.network, NULL), 0);
    for (uint64_t step = 1; step <= 7; step++)
        network_skip(source.network, step);
    source.source.network = source.network;
    ask("sim://source", 4, 7);
    ck_assert(run(1000));
    ck_assert_int_eq(newcomer.status, SHOAL_E_NOT_FOUND);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("handover");
    TCase *t = suite_case(s, "handover", 60, NULL, NULL);
    tcase_add_test(t, handover_makes_a_newcomer_equal);
    tcase_add_test(t, handover_waits_for_ring_and_step);
    tcase_add_test(t, handover_of_an_older_ring_gives_nothing);
    tcase_add_test(t, handover_goes_on_from_another_source);
    tcase_add_test(t, handover_is_for_workers_of_the_ring_alone);
    tcase_add_test(t, handover_of_another_network_ends);
    return suite_main(s);
}
