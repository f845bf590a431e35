/* test_ring.c: a network kept in step by workers that die, join and freeze, over a network that
 * loses and doubles: every worker has the bits that an undisturbed computation gives. Each
 * contribution depends on the weights of the step before, so a batch that was lost, counted twice,
 * or computed with other weights shows in all later bits.
 *
 * The rings are of the coordinator's code (server/coord/work/ring.h). The test stands for its
 * messages: it tells the members of a gathering after a delay, takes their reports after another
 * one, and answers them after a third. It also stands for the tables: member 0 publishes each third
 * step when it has the step after it. */
#include "server/coord/work/ring.h"
#include "tests/sim/sim.h"
#include "tests/worker/ring/network_case.h"
#include "tests/worker/ring/ring_case.h"
#include "worker/ring/handover.h"
#include "worker/ring/ring.h"

#include "proto/base/container_of.h"

#define MS UINT64_C(1000000)
enum { WORKERS = 40, LANES = 6, LAST = 14, PUBLISH = 3 };
#define WEIGHTED ((uint64_t)CASE_DENSE * CASE_WIDTH)

enum stage { STAGE_TOLD, STAGE_REPORTS, STAGE_ANSWERED, STAGE_WORKS };

struct worker {
    struct sim_node *node;
    struct network *network;
    struct ring *ring;
    struct handover *handover;
    bool alive, given_up; /* given up: the coordinator has dropped it; it may still run */
    bool has;             /* its network is whole */
    uint64_t number;      /* of the ring that it knows */
    uint32_t first, end;  /* its lanes in that ring */
    enum stage stage;
    struct env_timer timer;
    float given[LANES * CASE_FLOATS];
    struct exchange_part part[LANES];
};

static struct sim *sim;
static struct worker worker[WORKERS];
static uint32_t workers;
static struct coord_ring ring;
static struct way_cut cut;
static struct case_blocks dense, stats;
static struct network *tables; /* what was published */
static uint64_t made;          /* steps of all workers */

/* ---- contributions --------------------------------------------------------------------------- */

/* Contributions of lanes [first, end) to the step after the network's. */
static void given_make(const struct network *n, uint32_t first, uint32_t end, float *floats,
                       struct exchange_part *part)
{
    case_parts(first, end, network_at(n) + 1, &cut, floats, part);
    for (uint32_t lane = 0; lane < end - first; lane++)
        for (uint64_t i = 0; i < CASE_FLOATS; i++)
            if (i < WEIGHTED)
                floats[lane * CASE_FLOATS + i] += 0.1f * network_weights(n, NETWORK_DENSE)[i];
            else
                floats[lane * CASE_FLOATS + i] -=
                    0.1f * network_weights(n, NETWORK_STATS)[i - WEIGHTED];
}

static void step_make(struct network *n, const float *sum, uint64_t weight)
{
    uint64_t step = network_at(n) + 1;
    if (weight == 0)
        network_skip(n, step);
    else
        ck_assert_int_eq(network_step(n, sum, weight, 1, step, NULL), 0);
}

/* A float of all lanes, added up from a lane on. */
static float float_sum(const float *floats, const struct exchange_part *part, uint32_t first,
                       uint64_t i, bool weighted)
{
    float sum = 0;
    bool any = false;
    for (uint32_t k = 0; k < LANES; k++) {
        uint32_t lane = (first + k) % LANES;
        float x = floats[lane * CASE_FLOATS + i];
        if (part[lane].weight == 0)
            continue;
        if (weighted)
            x = (float)part[lane].weight * x;
        sum = any ? sum + x : x;
        any = true;
    }
    return sum;
}

/* All lanes in one place, added up in the order of the starts. */
static uint64_t undisturbed_run(uint32_t starts)
{
    static float floats[LANES * CASE_FLOATS], sum[CASE_FLOATS];
    struct exchange_part part[LANES];
    struct network *n = case_network(&dense, &stats, OPT_ADAM, 0);
    uint64_t digest;
    while (network_at(n) < LAST) {
        uint64_t step = network_at(n) + 1;
        given_make(n, 0, LANES, floats, part);
        for (uint32_t c = 0; c < cut.chunks; c++) {
            struct way_place p = way_place(&cut, c);
            for (uint64_t i = p.at; i < p.at + p.floats; i++)
                sum[i] = float_sum(floats, part, c % starts * LANES / starts, i, p.weighted);
        }
        step_make(n, sum, case_weights(LANES, step));
    }
    ck_assert_int_eq(network_digest(n, &digest), 0);
    network_free(n);
    return digest;
}

/* ---- a worker -------------------------------------------------------------------------------- */

static void network_copy(struct network *to, const struct network *from)
{
    static float before[CASE_FLOATS];
    memcpy(before, network_before(from, NETWORK_DENSE), WEIGHTED * sizeof *before);
    memcpy(before + WEIGHTED, network_before(from, NETWORK_STATS),
           (CASE_FLOATS - WEIGHTED) * sizeof *before);
    for (enum network_part p = 0; p < NETWORK_PARTS; p++)
        for (uint32_t t = 0; t < network_tablets(from, p); t++) {
            size_t bytes = network_image_bytes(from, p, t);
            void *image = malloc(bytes);
            network_image_write(from, p, t, image);
            ck_assert_int_eq(network_image_take(to, p, t, image, bytes, NULL), 0);
            free(image);
        }
    network_settle(to, network_at(from), before);
}

static uint32_t number_of(const struct worker *w)
{
    return (uint32_t)(w - worker) + 1;
}

static void worker_reduce(struct worker *w)
{
    given_make(w->network, w->first, w->end, w->given, w->part);
    ring_reduce(w->ring, w->part);
}

static void on_done(void *owner)
{
    struct worker *w = owner;
    uint64_t weight;
    const float *sum = ring_sum(w->ring, &weight);
    /* the tables get a step when the next one is whole, from the holder of lane 0 */
    if (!w->given_up && w->first == 0 && network_at(w->network) % PUBLISH == 0 &&
        network_at(w->network) > ring.published) {
        network_copy(tables, w->network);
        coord_ring_published(&ring, network_at(w->network));
    }
    step_make(w->network, sum, weight);
    made++;
    if (network_at(w->network) < LAST && !w->given_up)
        worker_reduce(w);
}

static void on_stale(void *owner, uint64_t number)
{
    (void)owner;
    (void)number;
}

static void worker_open(struct worker *w)
{
    const struct coord_ring_member *m = coord_ring_find(&ring, number_of(w));
    uint32_t index = (uint32_t)(m - ring.member);
    struct way_shape shape;
    char next[32];
    ck_assert_int_eq(way_shape_even(LANES, ring.starts, ring.count, &shape, NULL), 0);
    ck_assert_uint_eq(shape.first[index], m->first);
    w->first = m->first;
    w->end = m->first + m->lanes;
    (void)snprintf(next, sizeof next, "sim://w%u",
                   (uint32_t)ring.member[(index + 1) % ring.count].worker);
    const struct ring_options o = {
        .env = sim_node_env(w->node),
        .run = 1,
        .ring = ring.number,
        .sum = {.shape = shape, .member = index, .step = network_at(w->network), .cut = cut},
        .next_endpoint = next,
        .next_key = "",
        .before_key = "",
        .resend_ms = 20,
        .done = on_done,
        .stale = on_stale,
        .owner = w};
    ck_assert_int_eq(ring_open(&o, &w->ring, NULL), 0);
    w->stage = STAGE_WORKS;
    if (network_at(w->network) < LAST)
        worker_reduce(w);
}

static void on_handed(void *owner, int status, const char *text)
{
    struct worker *w = owner;
    ck_assert_msg(status == 0, "%s", text);
    handover_stop(w->handover);
    w->handover = NULL;
    w->has = true;
    if (w->number == ring.number) /* else the next gathering is on its way to it */
        worker_open(w);
}

/* The answer to its report: the ring stands. */
static void worker_answered(struct worker *w)
{
    struct err e = {0};
    if (ring.source == COORD_RING_TABLES && (!w->has || network_at(w->network) != ring.step)) {
        network_free(w->network);
        w->network = case_network(&dense, &stats, OPT_ADAM, 0);
        network_copy(w->network, tables);
        w->has = true;
    }
    if (w->has && network_at(w->network) == ring.step) {
        worker_open(w);
        return;
    }
    char from[32];
    (void)snprintf(from, sizeof from, "sim://w%u", (uint32_t)ring.member[ring.source].worker);
    w->has = false; /* until it is whole */
    const struct handover_options o = {.env = sim_node_env(w->node),
                                       .run = 1,
                                       .ring = ring.number,
                                       .step = ring.step,
                                       .network = w->network,
                                       .endpoint = from,
                                       .key = "",
                                       .resend_ms = 20,
                                       .done = on_handed,
                                       .owner = w};
    ck_assert_msg(handover_start(&o, &w->handover, &e) == 0, "%s", e.text);
}

static void later(struct worker *w, enum stage stage)
{
    w->stage = stage;
    env_timer_start(sim_node_env(w->node), &w->timer,
                    env_random(sim_node_env(w->node)) % (40 * MS));
}

static void worker_stop(struct worker *w)
{
    ring_close(w->ring);
    handover_stop(w->handover);
    w->ring = NULL;
    w->handover = NULL;
}

/* It learns of the gathering; it reports; it is answered once all have reported. */
static void on_timer(struct env_timer *t)
{
    struct worker *w = container_of(t, struct worker, timer);
    if (w->given_up)
        return;
    if (w->stage == STAGE_TOLD) {
        worker_stop(w);
        w->number = ring.number;
        later(w, STAGE_REPORTS);
    } else if (w->stage == STAGE_REPORTS) {
        (void)coord_ring_report(&ring, number_of(w), w->number, w->has, network_at(w->network), 0);
        later(w, STAGE_ANSWERED);
    } else if (ring.state == RING_STANDS && w->number == ring.number) {
        worker_answered(w);
    } else if (w->number == ring.number) {
        later(w, STAGE_ANSWERED);
    }
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct worker *w = core;
    struct wire in;
    struct err e = {0};
    ck_assert_msg(wire_decode(m, &in, &e) == 0, "%s", e.text);
    const struct handover_source source = {.env = sim_node_env(w->node),
                                           .network = w->has ? w->network : NULL,
                                           .run = 1,
                                           .ring = w->number};
    if (in.type == WIRE_TYPE_RING_READ && !in.reply)
        handover_serve(&source, from, &in);
    else if (in.type == WIRE_TYPE_RING_READ && w->handover != NULL)
        (void)handover_message(w->handover, from, &in, m);
    else if (w->ring != NULL)
        (void)ring_message(w->ring, from, &in, m);
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core; /* no message waits for a commit */
}

/* ---- the fleet ------------------------------------------------------------------------------- */

static void gather(void)
{
    uint64_t live[WORKERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < workers; i++)
        if (worker[i].alive && !worker[i].given_up)
            live[count++] = i + 1;
    if (!coord_ring_gather(&ring, live, count))
        return;
    for (uint32_t i = 0; i < workers; i++)
        if (worker[i].alive && !worker[i].given_up && coord_ring_find(&ring, i + 1) != NULL)
            later(&worker[i], STAGE_TOLD);
}

static void worker_add(void)
{
    static const struct env_handler handler = {.on_message = on_message, .on_drained = on_drained};
    struct worker *w = &worker[workers++];
    char name[16], endpoint[32];
    ck_assert_uint_le(workers, WORKERS);
    (void)snprintf(name, sizeof name, "w%u", workers);
    (void)snprintf(endpoint, sizeof endpoint, "sim://%s", name);
    *w = (struct worker){.alive = true, .timer.fire = on_timer};
    w->node = sim_node_new(sim, name, &handler, w);
    w->network = case_network(&dense, &stats, OPT_ADAM, 0);
    sim_listen(w->node, endpoint);
}

static void worker_kill(struct worker *w)
{
    worker_stop(w);
    sim_kill(w->node);
    w->alive = false;
}

static bool over(void *context)
{
    (void)context;
    for (uint32_t i = 0; i < workers; i++)
        if (worker[i].alive && !worker[i].given_up && coord_ring_find(&ring, i + 1) != NULL &&
            (!worker[i].has || network_at(worker[i].network) < LAST))
            return false;
    return true;
}

static void fleet_begin(uint64_t seed, uint32_t count, double lost)
{
    const struct sim_options o = {.seed = seed,
                                  .drop = lost,
                                  .duplicate = lost,
                                  .delay_min_ns = MS / 10,
                                  .delay_max_ns = 2 * MS,
                                  .reorder = lost > 0};
    case_cut(WEIGHTED, CASE_FLOATS - WEIGHTED, count, &cut);
    sim = sim_new(&o);
    workers = 0;
    made = 0;
    tables = case_network(&dense, &stats, OPT_ADAM, 0);
    coord_ring_open(&ring, LANES);
    for (uint32_t i = 0; i < count; i++)
        worker_add();
    gather();
}

static void fleet_end(void)
{
    uint32_t checked = 0;
    ck_assert(sim_run(sim, sim_now_ns(sim) + 600000 * MS, over, NULL));
    const uint64_t undisturbed = undisturbed_run(ring.starts);
    for (uint32_t i = 0; i < workers; i++) {
        uint64_t digest;
        if (worker[i].alive && !worker[i].given_up && coord_ring_find(&ring, i + 1) != NULL) {
            ck_assert_int_eq(network_digest(worker[i].network, &digest), 0);
            ck_assert_uint_eq(digest, undisturbed);
            checked++;
        }
        worker_stop(&worker[i]);
        network_free(worker[i].network);
    }
    ck_assert_uint_gt(checked, 0);
    network_free(tables);
    sim_free(sim);
}

static bool made_so_many(void *context)
{
    return made >= *(uint64_t *)context;
}

/* Runs until so many steps were made in all, and some events more; false: the job is over. */
static bool until(uint64_t steps, uint32_t events)
{
    (void)sim_run(sim, sim_now_ns(sim) + 100000 * MS, made_so_many, &steps);
    for (uint32_t i = 0; i < events && !over(NULL); i++)
        (void)sim_step(sim);
    return !over(NULL);
}

START_TEST(ring_is_in_step_without_a_fault)
{
    for (uint32_t count = 1; count <= LANES; count++) {
        fleet_begin(count, count, 0.1);
        fleet_end();
    }
}
END_TEST

/* One worker dies after each step, at several places within it. */
START_TEST(ring_is_in_step_after_a_death_at_each_step)
{
    for (uint32_t count = 2; count <= 4; count++)
        for (uint64_t at = 0; at < count * (LAST - 1); at += 2)
            for (uint32_t events = 0; events < 50; events += 23) {
                fleet_begin(at * 50 + events, count, 0.05);
                if (until(at, events)) {
                    worker_kill(&worker[(at + events) % count]);
                    (void)sim_run(sim, sim_now_ns(sim) + 200 * MS, NULL, NULL);
                    gather();
                }
                fleet_end();
            }
}
END_TEST

/* Deaths and newcomers one after the other, some before the ring of the last one stands; a worker
 * that was frozen goes on with its old ring. */
START_TEST(ring_is_in_step_after_many_changes)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rng r = rng_of(seed, 1, 1);
        fleet_begin(seed, 3, 0.05);
        for (uint32_t change = 0; change < 8; change++) {
            if (!until(made + rng_below(&r, 6), (uint32_t)rng_below(&r, 60)))
                break;
            struct worker *w = &worker[rng_below(&r, workers)];
            uint64_t what = rng_below(&r, 4);
            if (what > 0)
                worker_add();
            if (what < 2 && w->alive && !w->given_up)
                worker_kill(w);
            if (what == 2 && w->alive && !w->given_up) {
                sim_pause(w->node, sim_now_ns(sim) + 60 * MS);
                w->given_up = true;
            }
            if (rng_below(&r, 2) == 0)
                (void)sim_run(sim, sim_now_ns(sim) + 100 * MS, NULL, NULL);
            worker_add();
            gather();
        }
        fleet_end();
    }
}
END_TEST

/* All workers die: others take the network from the tables, and the steps since come again. */
START_TEST(ring_is_in_step_after_all_have_died)
{
    for (uint64_t at = 0; at < 3 * (LAST - 1); at += 2) {
        fleet_begin(at, 3, 0.05);
        if (until(at, 11)) {
            for (uint32_t i = 0; i < 3; i++)
                worker_kill(&worker[i]);
            gather();
            ck_assert_int_eq(ring.state, RING_NONE);
            worker_add();
            worker_add();
            gather();
        }
        fleet_end();
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring");
    TCase *t = suite_case(s, "ring", 100, NULL, NULL);
    tcase_add_test(t, ring_is_in_step_without_a_fault);
    tcase_add_test(t, ring_is_in_step_after_a_death_at_each_step);
    tcase_add_test(t, ring_is_in_step_after_many_changes);
    tcase_add_test(t, ring_is_in_step_after_all_have_died);
    return suite_main(s);
}
