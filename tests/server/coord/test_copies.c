/* test_copies.c: the copies of shards: founding, the in-sync list, takeover, copies that come back.
 * The real coordinator with fake shards. */
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "tests/lib/coord_kept.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define COPIES 8u
#define LEASE_MS 600u
#define DELAY (20 * MS)

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord_kept kept;
    struct coord *coord;
    uint32_t shards, replicas, min_in_sync, replace_after_ms;
    struct fake_shard *copy; /* (COPIES) */
    struct fake_worker worker;
    struct fake_client client;
    char yaml[512];
} r;

static int coord_try(struct err *e)
{
    struct coord_options o = {.shards = r.shards,
                              .replicas = r.replicas,
                              .min_in_sync = r.min_in_sync,
                              .shard_lease_ms = LEASE_MS,
                              .replace_after_ms = r.replace_after_ms,
                              .lease_ms = 1000,
                              .resend_ms = 200,
                              .version = "test"};
    r.node = sim_node_new(r.sim, "coordinator", NULL, NULL);
    r.store = coord_kept_open(&r.kept, sim_node_env(r.node));
    return coord_new(&o, sim_node_env(r.node), r.store, &r.coord, e);
}

static void coord_start(void)
{
    struct err e = {0};
    ck_assert_msg(coord_try(&e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void coord_kill(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_store_close(r.store);
    r.coord = NULL;
    r.store = NULL;
}

static void go(uint64_t ms)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ms * MS, NULL, NULL);
}

static void setup(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    memset(&r, 0, sizeof r);
    log_set_level(LOG_LEVEL_ERROR);
    r.sim = sim_new(&calm);
    r.kept = (struct coord_kept){.values = coord_store_memory(),
                                 .left = COORD_KEPT_ALL,
                                 .delay_ns = DELAY,
                                 .rng = rng_of(1, 2, 3)};
    r.copy = calloc(COPIES, sizeof *r.copy);
    r.shards = 1;
    r.replicas = 2;
}

static void teardown(void)
{
    if (r.coord != NULL)
        coord_kill();
    coord_store_close(r.kept.values);
    sim_free(r.sim);
    for (uint32_t i = 0; i < COPIES; i++)
        free(r.copy[i].shard_of);
    free(r.copy);
}

/* Starts a shard of "server-N". */
static void copy_start(uint32_t i, uint32_t server, uint32_t index, uint64_t incarnation)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", server);
    fake_shard_start(&r.copy[i], r.sim, name, index, incarnation);
}

/* It has an empty folder from now on. */
static void copy_wipe(uint32_t i)
{
    free(r.copy[i].shard_of);
    memset(&r.copy[i], 0, sizeof r.copy[i]);
}

/* Founds a cluster of one shard with a copy on each server. */
static void found(uint32_t replicas)
{
    r.replicas = replicas;
    coord_start();
    for (uint32_t i = 0; i < replicas; i++)
        copy_start(i, i, 0, 1 + 100 * i);
    go(2000);
    ck_assert(coord_cluster_known(&r.coord->fleet.cluster));
}

static const struct coord_copies_of *of(void)
{
    return &r.coord->fleet.copies.of[0];
}

/* Returns the only one of the living copies that believes to lead; COPIES: none does. */
static uint32_t leader(uint32_t dead)
{
    uint32_t found_at = COPIES;
    for (uint32_t i = 0; i < COPIES; i++)
        if (r.copy[i].node != NULL && i != dead && fake_shard_leads(&r.copy[i])) {
            ck_assert_uint_eq(found_at, COPIES);
            found_at = i;
        }
    return found_at;
}

/* Lets these copies be in sync; all have records of the term. */
static void in_sync(uint32_t set)
{
    uint32_t l = leader(COPIES);
    ck_assert_uint_lt(l, COPIES);
    for (uint32_t i = 0; i < COPIES; i++)
        if ((set >> i & 1) != 0)
            r.copy[i].last_term = of()->term;
    go(300);
    uint32_t places = 0;
    for (uint32_t i = 0; i < COPIES; i++)
        if ((set >> i & 1) != 0)
            places |= 1u << r.copy[i].copies.copy;
    fake_shard_in_sync(&r.copy[l], of()->term, places);
    go(1500);
    ck_assert_int_eq(r.copy[l].in_sync_status, 0);
    ck_assert_uint_eq(of()->in_sync, places);
}

/* [sentence]; the caller frees it. */
static struct json *problems_told(void)
{
    struct json *found = coord_sight_found(&r.coord->slot[0]), *list = coord_sight_texts(found);
    json_free(found);
    return list;
}

/* The first problem that people are told of has this text in it; NULL: there is none. */
static void problem_has(const char *text)
{
    struct json *problems = problems_told();
    const char *is = json_as_string(json_array_at(problems, 0), "");
    if (text == NULL)
        ck_assert_str_eq(is, "");
    else
        ck_assert_msg(strstr(is, text) != NULL, "%s", is);
    json_free(problems);
}

/* ---- founding -------------------------------------------------------------------------------- */

static const struct layout {
    uint32_t shards, replicas, servers, each;
} layouts[] = {{1, 2, 2, 1}, {2, 2, 2, 2}, {3, 2, 3, 2}, {4, 2, 4, 2}, {2, 3, 3, 2}, {2, 2, 4, 1}};

START_TEST(coord_copies_are_founded_on_different_servers)
{
    const struct layout *l = &layouts[_i];
    uint32_t leads[COPIES] = {0}, most = 0, least = COPIES;
    r.shards = l->shards;
    r.replicas = l->replicas;
    coord_start();
    for (uint32_t i = 0; i < l->servers * l->each; i++) {
        go(1500);
        ck_assert(!coord_cluster_known(&r.coord->fleet.cluster)); /* one is missing */
        copy_start(i, i % l->servers, i / l->servers, 1);         /* not server by server */
    }
    go(3000);
    ck_assert(coord_cluster_known(&r.coord->fleet.cluster));
    for (uint32_t s = 0; s < l->shards; s++) {
        uint32_t copies = 0, leaders = 0, servers = 0;
        for (uint32_t i = 0; i < l->servers * l->each; i++) {
            const struct fake_shard *c = &r.copy[i];
            if (c->number != s)
                continue;
            copies++;
            servers |= 1u << i % l->servers;
            leaders += fake_shard_leads(c);
            leads[i % l->servers] += fake_shard_leads(c);
            ck_assert_uint_eq(c->copies.term, 1);
            ck_assert_uint_eq(c->copies.copies, l->replicas);
            ck_assert_int_eq(__builtin_popcount(c->copies.in_sync), 1);
        }
        ck_assert_uint_eq(copies, l->replicas);
        ck_assert_int_eq(__builtin_popcount(servers), (int)l->replicas);
        ck_assert_uint_eq(leaders, 1);
    }
    for (uint32_t i = 0; i < l->servers; i++) {
        most = leads[i] > most ? leads[i] : most;
        least = leads[i] < least ? leads[i] : least;
    }
    ck_assert_uint_le(most - least, 1);
}
END_TEST

/* Two copies of a shard never lie on one server. */
START_TEST(coord_copies_want_enough_servers)
{
    coord_start();
    copy_start(0, 0, 0, 1);
    copy_start(1, 0, 1, 1);
    go(2000);
    ck_assert(!coord_cluster_known(&r.coord->fleet.cluster));
    const char *text = r.copy[0].refused[0] != 0 ? r.copy[0].refused : r.copy[1].refused;
    ck_assert_msg(strstr(text, "start another server") != NULL, "%s", text);
    copy_start(2, 1, 0, 1);
    go(2000);
    ck_assert(coord_cluster_known(&r.coord->fleet.cluster));
    ck_assert_uint_eq(r.copy[2].number, 0);
}
END_TEST

static int copies_key(void *context, const char *key, const void *value, size_t bytes)
{
    uint32_t *count = context;
    (void)value;
    (void)bytes;
    *count += strncmp(key, "copies/", 7) == 0;
    return 0;
}

/* With replicas: 1 no value is stored, and no field of a beat's reply is set. */
START_TEST(coord_copies_of_one_are_nothing)
{
    uint32_t keys = 0;
    found(1);
    const struct wire_SHARD_BEAT_reply *a = &r.copy[0].copies;
    ck_assert_uint_eq(a->copies | a->copy | a->in_sync | a->min_in_sync | a->shard_lease_ms, 0);
    ck_assert_uint_eq(a->term, 0);
    ck_assert_uint_eq(a->leader[0] | a->leader_key[0], 0);
    (void)coord_store_visit(r.kept.values, copies_key, &keys);
    ck_assert_uint_eq(keys, 0);
    fake_shard_in_sync(&r.copy[0], 0, 1);
    go(500);
    ck_assert_int_eq(r.copy[0].in_sync_status, SHOAL_E_NOT_LEADER);
}
END_TEST

START_TEST(coord_copies_are_told_in_beats)
{
    char text[80];
    r.min_in_sync = 2;
    found(2);
    uint32_t l = leader(COPIES), follower = 1 - l;
    const struct wire_SHARD_BEAT_reply *led = &r.copy[l].copies, *at = &r.copy[follower].copies;
    ck_assert_uint_eq(led->copies, 2);
    ck_assert_uint_eq(led->in_sync, 1u << led->copy);
    ck_assert_uint_eq(led->min_in_sync, 2);
    ck_assert_uint_eq(led->shard_lease_ms, LEASE_MS);
    ck_assert_uint_ne(led->copy, at->copy);
    ck_assert_uint_eq(at->term, led->term);
    (void)snprintf(text, sizeof text, "sim://%s", r.copy[l].server);
    ck_assert_str_eq(at->leader, text);
    struct json *problems = problems_told();
    ck_assert_ptr_nonnull(
        strstr(json_as_string(json_array_at(problems, 0), ""), "takes no pushes: 1 of its 2"));
    json_free(problems);
    in_sync(3);
    problems = problems_told();
    ck_assert_uint_eq(json_count(problems), 0);
    json_free(problems);
}
END_TEST

/* ---- the in-sync list ------------------------------------------------------------------------ */

START_TEST(coord_copies_in_sync_only_the_leader_says)
{
    found(3);
    uint32_t l = leader(COPIES), other = (l + 1) % 3;
    struct fake_shard *s = &r.copy[l];
    uint32_t own = 1u << s->copies.copy;
    r.copy[0].last_term = r.copy[1].last_term = r.copy[2].last_term = 1;
    go(300);
    const struct {
        struct fake_shard *from;
        uint64_t term;
        uint32_t set;
        int status;
    } asked[] = {{&r.copy[other], 1, 7, SHOAL_E_NOT_LEADER},
                 {s, 0, 7, SHOAL_E_NOT_LEADER},
                 {s, 2, 7, SHOAL_E_NOT_LEADER},
                 {s, 1, 7 & ~own, SHOAL_E_CONFIG},
                 {s, 1, 0, SHOAL_E_CONFIG},
                 {s, 1, 15, SHOAL_E_CONFIG},
                 {s, 1, 7, 0},
                 {s, 1, own, 0}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        fake_shard_in_sync(asked[i].from, asked[i].term, asked[i].set);
        go(1500);
        ck_assert_int_eq(asked[i].from->in_sync_status, asked[i].status);
        ck_assert_uint_eq(of()->in_sync, asked[i].status == 0 ? asked[i].set : own);
    }
    r.copy[other].last_term = 0; /* it has begun anew since */
    go(300);
    fake_shard_in_sync(s, 1, 7);
    go(1500);
    ck_assert_int_eq(s->in_sync_status, SHOAL_E_AGAIN);
    ck_assert_uint_eq(of()->in_sync, own);
}
END_TEST

START_TEST(coord_copies_a_late_in_sync_changes_nothing)
{
    found(3);
    struct fake_shard *s = &r.copy[leader(COPIES)];
    uint32_t own = 1u << s->copies.copy;
    const struct {
        uint64_t order;
        uint32_t set;
        int status;
    } asked[] = {{1, 7, 0}, {2, own, 0}, {1, 7, SHOAL_E_AGAIN}, {3, 7, 0}};
    r.copy[0].last_term = r.copy[1].last_term = r.copy[2].last_term = 1;
    go(300);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        s->in_sync_order = asked[i].order;
        fake_shard_in_sync(s, 1, asked[i].set);
        go(1500);
        ck_assert_int_eq(s->in_sync_status, asked[i].status);
        ck_assert_uint_eq(of()->in_sync, asked[i].status == 0 ? asked[i].set : own);
    }
}
END_TEST

static uint32_t stored_in_sync(void)
{
    void *value;
    size_t bytes;
    uint32_t set;
    ck_assert_int_eq(coord_store_get(r.kept.values, "copies/0", &value, &bytes, NULL), 0);
    memcpy(&set, (char *)value + 16, sizeof set);
    free(value);
    return set;
}

/* The coordinator dies at some moment after it was asked: an answer was given only for what is
 * stored, and the next one knows it. */
START_TEST(coord_copies_in_sync_is_stored_before_it_is_answered)
{
    uint32_t answered = 0, lost = 0;
    found(2);
    uint32_t l = leader(COPIES);
    struct fake_shard *s = &r.copy[l];
    r.copy[1 - l].last_term = 1;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t want = i % 2 == 0 ? 3 : 1u << s->copies.copy;
        go(1500);
        uint32_t was = stored_in_sync();
        fake_shard_in_sync(s, 1, want);
        (void)sim_run(r.sim, sim_now_ns(r.sim) + (i + 1) * MS, NULL, NULL);
        bool told = s->in_sync_status == 0;
        if (told)
            ck_assert_uint_eq(stored_in_sync(), want);
        coord_kill();
        coord_start();
        ck_assert_uint_eq(of()->in_sync, stored_in_sync());
        if (told)
            ck_assert_uint_eq(of()->in_sync, want);
        answered += told && was != want;
        lost += of()->in_sync != want;
        ck_assert_uint_eq(of()->term, 1);
    }
    ck_assert_uint_gt(answered, 0);
    ck_assert_uint_gt(lost, 0); /* some died before */
}
END_TEST

/* ---- takeover -------------------------------------------------------------------------------- */

/* Returns how long it takes until another one leads, in ms; at most 3000. */
static uint32_t next_leads(uint32_t l, uint32_t *next)
{
    for (uint32_t ms = 0; ms < 3000; ms += 10) {
        go(10);
        *next = leader(l);
        if (*next != COPIES)
            return ms;
    }
    return 3000;
}

/* The same, and the leader's process dies now. */
static uint32_t die(uint32_t l, uint32_t *next)
{
    sim_kill(r.copy[l].node);
    return next_leads(l, next);
}

/* The same, and the leader's process stands still, or its cable is cut. */
static uint32_t hang(uint32_t l, uint32_t *next)
{
    sim_pause(r.copy[l].node, sim_now_ns(r.sim) + 5 * SECOND);
    return next_leads(l, next);
}

/* _i 0: the copy with more is not in sync; 1: it is. */
START_TEST(coord_copies_takeover_takes_the_copy_in_sync_with_most)
{
    found(3);
    uint32_t l = leader(COPIES), a = (l + 1) % 3, b = (l + 2) % 3, next;
    r.copy[l].sequence = 110;
    r.copy[a].sequence = 100;
    r.copy[b].sequence = 105;
    in_sync(_i == 0 ? 1u << l | 1u << a : 7);
    ck_assert_uint_lt(die(l, &next), 3000);
    ck_assert_uint_eq(next, _i == 0 ? a : b);
    ck_assert_uint_eq(of()->term, 2);
    ck_assert_uint_eq(of()->in_sync & 1u << r.copy[l].copies.copy, 0);
    ck_assert_str_eq(r.coord->fleet.members.shard[0].server, r.copy[next].server);
    ck_assert_uint_gt(r.copy[next].copies_told, 0); /* at once, not with its next beat */
    ck_assert_uint_eq(r.copy[_i == 0 ? b : a].copies.term, 2);
}
END_TEST

/* A higher term is more than a higher sequence. */
START_TEST(coord_copies_takeover_counts_terms_first)
{
    uint32_t next;
    found(3);
    uint32_t l = leader(COPIES), a = (l + 1) % 3, b = (l + 2) % 3;
    in_sync(7);
    r.copy[a].sequence = 200;
    r.copy[a].last_term = 0;
    r.copy[b].sequence = 100;
    go(300);
    ck_assert_uint_lt(die(l, &next), 3000);
    ck_assert_uint_eq(next, b);
}
END_TEST

START_TEST(coord_copies_out_of_sync_never_take_over)
{
    uint32_t next;
    found(2);
    ck_assert_uint_eq(die(leader(COPIES), &next), 3000);
    ck_assert_uint_eq(of()->term, 1);
}
END_TEST

/* _i 0: the coordinator lives; 1: another one starts when the leader dies, and does not know when
 * its last beat was answered. */
START_TEST(coord_copies_no_second_leader_before_the_lease_is_over)
{
    uint32_t next;
    found(2);
    uint32_t l = leader(COPIES);
    in_sync(3);
    for (uint32_t i = 0; i < 50; i++) { /* a leader that beats stays */
        go(100);
        ck_assert_uint_eq(leader(COPIES), l);
    }
    if (_i == 1) {
        coord_kill();
        coord_start();
        ck_assert_uint_eq(of()->term, 1);
        ck_assert_uint_eq(of()->in_sync, 3);
    }
    uint32_t ms = hang(l, &next);
    ck_assert_uint_ge(ms, _i == 0 ? LEASE_MS - 110 : LEASE_MS - 20);
    ck_assert_uint_lt(ms, LEASE_MS + 1500); /* the store's delays */
    ck_assert_uint_eq(next, 1 - l);
    coord_kill(); /* the new term and list are stored */
    coord_start();
    ck_assert_uint_eq(of()->term, 2);
    ck_assert_uint_eq(of()->in_sync, 1u << r.copy[next].copies.copy);
    go(2000);
    ck_assert_uint_eq(leader(l), next);
    ck_assert_str_eq(r.coord->fleet.members.shard[0].server, r.copy[next].server);
}
END_TEST

/* The leader's connection closes. _i 0: nothing listens at its endpoint any more: its process has
 * ended; 1: a process listens there: the lease counts; 2: it still listens for a moment, as a
 * process that is being killed may. */
START_TEST(coord_copies_leader_that_has_ended_is_not_waited_for)
{
    uint32_t next;
    found(2);
    uint32_t l = leader(COPIES), ms;
    in_sync(3);
    if (_i == 0) {
        ms = die(l, &next);
    } else if (_i == 2) {
        struct sim_node *dying = sim_node_new(r.sim, "dying", NULL, NULL);
        sim_kill(r.copy[l].node);
        sim_listen(dying, "sim://server-0");
        sim_listen(dying, "sim://server-1");
        go(5);
        sim_kill(dying);
        ms = next_leads(l, &next);
    } else {
        sim_listen(r.copy[l].node, "sim://server-0");
        sim_listen(r.copy[l].node, "sim://server-1");
        env_disconnect(r.copy[l].env, r.copy[l].coordinator);
        ms = hang(l, &next);
    }
    ck_assert_uint_eq(next, 1 - l);
    ck_assert_uint_le(ms, _i != 1 ? 200 : LEASE_MS + 1500);
    ck_assert_uint_ge(ms, _i != 1 ? 0 : LEASE_MS - 110);
}
END_TEST

/* The coordinator hears that the leader's connection has closed before it reads its last message,
 * by which another copy is in sync. */
START_TEST(coord_copies_list_that_is_read_late_lets_a_copy_lead)
{
    uint32_t next;
    found(2);
    uint32_t l = leader(COPIES);
    r.copy[1 - l].last_term = 1;
    go(300);
    coord_handler.on_peer_gone(r.coord, r.coord->fleet.members.shard[0].peer);
    fake_shard_in_sync(&r.copy[l], 1, 3);
    go(5);
    ck_assert_uint_eq(of()->in_sync, 3);
    ck_assert_uint_lt(hang(l, &next), LEASE_MS / 2);
    ck_assert_uint_eq(next, 1 - l);
}
END_TEST

/* ---- copies that come back ------------------------------------------------------------------- */

START_TEST(coord_copies_old_leader_follows)
{
    uint32_t next;
    char text[80];
    found(2);
    uint32_t l = leader(COPIES);
    in_sync(3);
    (void)die(l, &next);
    go(500);
    copy_start(l, l, 0, 2);
    go(500);
    ck_assert_str_eq(r.copy[l].refused, "");
    ck_assert_uint_eq(leader(COPIES), next);
    ck_assert_uint_eq(r.copy[l].copies.term, 2);
    (void)snprintf(text, sizeof text, "sim://%s", r.copy[next].server);
    ck_assert_str_eq(r.copy[l].copies.leader, text);
    ck_assert_int_eq(__builtin_popcount(of()->in_sync), 1);
    fake_shard_in_sync(&r.copy[l], 1, 3); /* what it asked in its term counts no more */
    go(1500);
    ck_assert_int_eq(r.copy[l].in_sync_status, SHOAL_E_NOT_LEADER);
    in_sync(3);
    (void)die(next, &next); /* and back again */
    ck_assert_uint_eq(next, l);
    ck_assert_uint_eq(of()->term, 3);
}
END_TEST

/* The leader's process was replaced. _i 0: a copy is in sync, and takes over at once; 1: none is,
 * and it leads on in a term of its own. */
START_TEST(coord_copies_leader_that_starts_again)
{
    found(2);
    uint32_t l = leader(COPIES);
    if (_i == 0)
        in_sync(3);
    sim_kill(r.copy[l].node);
    copy_start(l, l, 0, 2);
    go(LEASE_MS / 2);
    ck_assert_uint_eq(of()->term, 2);
    ck_assert_str_eq(r.coord->fleet.members.shard[0].server, r.copy[_i == 0 ? 1 - l : l].server);
    go(1500);
    ck_assert_uint_eq(leader(COPIES), _i == 0 ? 1 - l : l);
}
END_TEST

/* _i 0: a follower's folder is empty; 1: its rows were in memory; 2: its folder is as it was: it
 * stays in sync; 3: its machine has lost power; 4: the same, and its journal was synced. */
START_TEST(coord_copies_follower_that_starts_again)
{
    bool stays = _i == 2 || _i == 4;
    found(2);
    uint32_t l = leader(COPIES), at = 1 - l;
    r.copy[at].in_memory = _i == 1;
    r.copy[at].durability = _i == 4 ? DURABLE_FSYNC + 1 : 0;
    in_sync(3);
    sim_kill(r.copy[at].node);
    go(200);
    if (_i == 0)
        copy_wipe(at);
    r.copy[at].boot += _i >= 3;
    copy_start(at, at, 0, 2);
    go(1000);
    ck_assert_str_eq(r.copy[at].refused, "");
    ck_assert_uint_eq(r.copy[at].number, 0);
    ck_assert_uint_eq(of()->in_sync, stays ? 3 : 1u << r.copy[l].copies.copy);
    ck_assert_uint_eq(leader(COPIES), l);
}
END_TEST

/* The leader's process dies and its folder is empty. _i 0: another copy is in sync, and takes over;
 * 1: none is: the folder is refused, as with one copy. */
START_TEST(coord_copies_leader_with_an_empty_folder)
{
    found(2);
    uint32_t l = leader(COPIES);
    if (_i == 0)
        in_sync(3);
    sim_kill(r.copy[l].node);
    copy_wipe(l);
    copy_start(l, l, 0, 2);
    go(2000);
    ck_assert_uint_eq(leader(COPIES), _i == 0 ? 1 - l : COPIES);
    ck_assert(_i == 0 || strstr(r.copy[l].refused, "empty folder") != NULL);
    ck_assert(_i == 1 || r.copy[l].refused[0] == 0);
    ck_assert_uint_eq(r.copy[l].number, _i == 0 ? 0 : UINT32_MAX);
}
END_TEST

/* A machine with an empty folder takes the name of a leader that is cut off: the lease of the one
 * before counts, and then the new one follows. */
START_TEST(coord_copies_empty_folder_waits_for_the_lease_of_the_one_before)
{
    found(2);
    uint32_t l = leader(COPIES);
    in_sync(3);
    sim_pause(r.copy[l].node, sim_now_ns(r.sim) + 60 * SECOND);
    copy_start(4, l, 0, 2);
    go(LEASE_MS - 120);
    ck_assert_uint_eq(of()->term, 1);
    ck_assert_uint_eq(r.copy[4].number, UINT32_MAX);
    go(2000);
    ck_assert_uint_eq(leader(l), 1 - l);
    ck_assert_uint_eq(r.copy[4].number, 0);
    ck_assert_uint_eq(r.copy[4].copies.term, 2);
}
END_TEST

/* All machines lost power, and the leader comes back alone: it may lack what it acknowledged, so it
 * waits for the other copy, which has more. _i 1: which has less. */
START_TEST(coord_copies_wait_for_each_other_after_a_loss_of_power)
{
    found(2);
    uint32_t l = leader(COPIES);
    r.copy[l].sequence = r.copy[1 - l].sequence = 100;
    in_sync(3);
    for (uint32_t i = 0; i < 2; i++) {
        sim_kill(r.copy[i].node);
        r.copy[i].boot++;
        r.copy[i].copies.leader[0] = '-';
    }
    go(2000);
    r.copy[l].sequence = 90;
    r.copy[1 - l].sequence = _i == 0 ? 95 : 85;
    copy_start(l, l, 0, 2);
    go(3000);
    ck_assert_uint_eq(leader(COPIES), COPIES);
    struct json *problems = problems_told();
    ck_assert_msg(strstr(json_as_string(json_array_at(problems, 0), ""), "has no leader") != NULL,
                  "%s", json_as_string(json_array_at(problems, 0), ""));
    json_free(problems);
    coord_kill(); /* this is stored, too */
    coord_start();
    go(2000);
    ck_assert_uint_eq(leader(COPIES), COPIES);
    copy_start(1 - l, 1 - l, 0, 2);
    go(2000);
    ck_assert_uint_eq(leader(COPIES), _i == 0 ? 1 - l : l);
    ck_assert_int_eq(__builtin_popcount(of()->in_sync), 1);
}
END_TEST

/* ---- for people ------------------------------------------------------------------------------ */

static double number(const struct json *list, uint32_t place, const char *name)
{
    const struct json *copies = json_get(json_array_at(list, 0), "copies");
    return json_as_number(json_get(json_array_at(copies, place), name), -1);
}

START_TEST(coord_copies_tell_how_far_a_follower_is_behind)
{
    found(2);
    uint32_t place = 1 - of()->leader;
    go(5000);
    problem_has(", not in sync for 6 s");
    struct json *list = coord_copies_json(&r.coord->fleet);
    ck_assert_double_ge(number(list, place, "out_ms"), 6000);
    ck_assert_double_eq(number(list, of()->leader, "lag_ms"), -1); /* a leader has no lag */
    json_free(list);
    in_sync(3);
    problem_has(NULL);
    struct wire_SHARD_BEAT *b = &of()->copy[place].figures;
    b->lag_ms = 250;
    b->record_bytes = 1000;
    r.coord->fleet.members.shard[0].figures.sequence = b->sequence + 12;
    list = coord_copies_json(&r.coord->fleet);
    ck_assert_double_eq(number(list, place, "lag"), 12);
    ck_assert_double_eq(number(list, place, "lag_bytes"), 12000);
    ck_assert_double_eq(number(list, place, "lag_ms"), 250);
    ck_assert_double_eq(number(list, place, "out_ms"), -1);
    ck_assert_double_eq(number(list, place, "copying.of"), -1);
    json_free(list);
    b->record_bytes = 0; /* no record has come */
    list = coord_copies_json(&r.coord->fleet);
    ck_assert_double_eq(number(list, place, "lag_bytes"), -1);
    json_free(list);
}
END_TEST

START_TEST(coord_copies_tell_how_far_a_copy_is)
{
    found(2);
    uint32_t place = 1 - of()->leader;
    struct wire_SHARD_BEAT *b = &of()->copy[place].figures;
    b->copy_bytes = 1; /* the first part has not come */
    struct json *list = coord_copies_json(&r.coord->fleet);
    ck_assert_double_eq(number(list, place, "copying.bytes"), 0);
    ck_assert_double_eq(number(list, place, "copying.seconds_left"), -1);
    json_free(list);
    b->copied = 100;
    b->copy_bytes = 400;
    b->copy_ms = 2000;
    problem_has("copies the leader's rows, not in sync for");
    list = coord_copies_json(&r.coord->fleet);
    ck_assert_double_eq(number(list, place, "copying.bytes"), 100);
    ck_assert_double_eq(number(list, place, "copying.of"), 400);
    ck_assert_double_eq(number(list, place, "copying.seconds_left"), 6);
    json_free(list);
}
END_TEST

START_TEST(coord_copies_count_a_lease_down)
{
    found(2);
    uint32_t l = leader(COPIES);
    struct json *list = coord_copies_json(&r.coord->fleet);
    double left = json_as_number(json_get(json_array_at(list, 0), "lease_left_ms"), -1);
    ck_assert_double_gt(left, 0);
    ck_assert_double_le(left, LEASE_MS);
    json_free(list);
    fake_shard_die(&r.copy[l]);
    go(LEASE_MS + 50);
    list = coord_copies_json(&r.coord->fleet);
    ck_assert_double_eq(json_as_number(json_get(json_array_at(list, 0), "lease_left_ms"), -1), 0);
    json_free(list);
}
END_TEST

START_TEST(coord_copies_on_one_machine_are_named)
{
    found(2);
    const struct json *copies;
    struct json *list = coord_copies_json(&r.coord->fleet);
    copies = json_get(json_array_at(list, 0), "copies");
    ck_assert(json_absent(json_get(json_array_at(copies, 0), "beside")));
    json_free(list);
    r.copy[0].boot = r.copy[1].boot = 77;
    go(500);
    list = coord_copies_json(&r.coord->fleet);
    copies = json_get(json_array_at(list, 0), "copies");
    ck_assert_str_eq(json_as_string(json_get(json_array_at(copies, 0), "beside"), ""),
                     json_as_string(json_get(json_array_at(copies, 1), "name"), "?"));
    json_free(list);
}
END_TEST

/* ---- another number of copies ---------------------------------------------------------------- */

/* _i 1: the leader is away when `replicas` is lowered: the copy in sync leads first. */
START_TEST(coord_copies_can_become_more_and_fewer)
{
    found(1);
    coord_kill();
    r.replicas = 2;
    coord_start();
    go(500);
    copy_start(1, 0, 1, 1); /* on the leader's server: no */
    go(500);
    ck_assert_ptr_nonnull(strstr(r.copy[1].refused, "there is no place"));
    problem_has("shard 0: 1 of its 2 copies are in sync; no server has room for 1 more");
    copy_start(2, 1, 0, 1);
    go(2000);
    ck_assert_uint_eq(r.copy[2].number, 0);
    ck_assert_uint_eq(leader(COPIES), 0);
    ck_assert_uint_eq(r.copy[0].copies.copies, 2);
    copy_start(3, 2, 0, 1); /* one too many */
    go(500);
    ck_assert_ptr_nonnull(strstr(r.copy[3].refused, "there is no place"));
    in_sync(1 | 4);
    uint32_t stays = _i == 0 ? 0 : 2;
    coord_kill();
    sim_kill(r.copy[1].node);
    sim_kill(r.copy[3].node);
    if (_i == 1)
        sim_kill(r.copy[0].node);
    r.replicas = 1;
    coord_start();
    go(3000);
    r.copy[2 - stays].last_term = 1;
    if (_i == 1) {
        r.copy[0].copies.leader[0] = '-';
        copy_start(0, 0, 0, 2);
    }
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(leader(2 - stays), stays);
        ck_assert_uint_eq(coord_copies_given(&r.coord->fleet, 0), 1);
        ck_assert_uint_eq(of()->in_sync, 1u << of()->leader);
        go(1000);
        ck_assert_ptr_nonnull(strstr(r.copy[2 - stays].refused, "`replicas` was lowered"));
        coord_kill(); /* this is stored */
        coord_start();
        go(1000);
    }
    coord_kill(); /* and more again */
    r.replicas = 2;
    coord_start();
    go(2000);
    ck_assert_uint_eq(coord_copies_given(&r.coord->fleet, 0), 2);
    ck_assert_uint_eq(leader(COPIES), stays);
    ck_assert_uint_eq(r.copy[2 - stays].copies.term, of()->term);
}
END_TEST

/* The coordinator's store is lost: the copy with most leads, in a term above all. It may be the one
 * that comes last. */
START_TEST(coord_copies_are_taken_over_with_a_lost_store)
{
    char text[ERR_TEXT_MAX], has[ERR_TEXT_MAX];
    found(2);
    r.copy[0].sequence = 50;
    r.copy[1].sequence = 60;
    r.copy[0].last_term = r.copy[1].last_term = 1;
    go(500);
    coord_kill();
    sim_kill(r.copy[1].node);
    coord_store_close(r.kept.values);
    r.kept.values = coord_store_memory();
    coord_start();
    go(3000);
    ck_assert(!coord_cluster_known(&r.coord->fleet.cluster));
    ck_assert(coord_claims_waits(&r.coord->fleet, text, sizeof text));
    (void)snprintf(has, sizeof has, "shard 0 has 1 of 2 copies, on %s. ", r.copy[0].server);
    ck_assert_msg(strstr(text, has) != NULL, "%s", text);
    copy_start(1, 1, 0, 102);
    go(3000);
    ck_assert_uint_eq(leader(COPIES), 1);
    ck_assert_uint_eq(of()->term, 2);
    ck_assert_uint_eq(of()->in_sync, 1u << r.copy[1].copies.copy);
}
END_TEST

/* ---- orders ---------------------------------------------------------------------------------- */

static int promote(bool accept_loss, char *told)
{
    const struct wire w = {.type = WIRE_TYPE_PROMOTE,
                           .u.PROMOTE = {.shard = 0, .accept_loss = accept_loss}};
    struct coord_ask a = {.from = 77, .request = &w};
    int rc = coord_copies_promote(&r.coord->fleet, &a);
    coord_fleet_end(&r.coord->fleet);
    (void)snprintf(told, ERR_TEXT_MAX, "%s", rc == 0 ? a.reply.u.PROMOTE_reply.told : a.e.text);
    return rc;
}

static int replace(const char *server, char *told)
{
    struct wire w = {.type = WIRE_TYPE_REPLACE};
    struct coord_ask a = {.from = 77, .request = &w};
    (void)snprintf(w.u.REPLACE.server, sizeof w.u.REPLACE.server, "%s", server);
    int rc = coord_copies_replace(&r.coord->fleet, &a);
    coord_fleet_end(&r.coord->fleet);
    (void)snprintf(told, ERR_TEXT_MAX, "%s", rc == 0 ? a.reply.u.REPLACE_reply.told : a.e.text);
    return rc;
}

/* The copy with most leads, once it is stored; what it lacks is told before. */
START_TEST(coord_copies_promote_counts_what_is_lost)
{
    char told[ERR_TEXT_MAX];
    found(3);
    uint32_t l = leader(COPIES), a = (l + 1) % 3, b = (l + 2) % 3;
    r.copy[l].sequence = 110;
    r.copy[a].sequence = 100;
    r.copy[b].sequence = 105;
    r.copy[a].last_term = r.copy[b].last_term = 1;
    go(500);
    ck_assert_int_eq(promote(true, told), SHOAL_E_EXISTS); /* the leader leads */
    sim_kill(r.copy[l].node);
    go(2000);
    ck_assert_uint_eq(leader(l), COPIES);
    coord_copies_shard(&r.coord->fleet, 0)->in_sync |= 1u << r.copy[a].copies.copy;
    ck_assert_int_eq(promote(true, told), SHOAL_E_EXISTS); /* it takes over by itself */
    coord_copies_shard(&r.coord->fleet, 0)->in_sync = 1u << r.copy[l].copies.copy;
    ck_assert_int_eq(promote(false, told), 0);
    ck_assert_msg(strstr(told, r.copy[b].server) != NULL, "%s", told);
    ck_assert_msg(strstr(told, ": 5 records may be lost, and all") != NULL, "%s", told);
    go(1000);
    ck_assert_uint_eq(of()->term, 1);
    ck_assert_uint_eq(leader(l), COPIES);
    ck_assert_int_eq(promote(true, told), 0);
    while (leader(l) != b)
        go(1);
    coord_kill(); /* it was told what is stored */
    coord_start();
    ck_assert_uint_eq(of()->term, 2);
    ck_assert_uint_eq(of()->in_sync, 1u << r.copy[b].copies.copy);
    ck_assert_str_eq(r.coord->fleet.members.shard[0].server, r.copy[b].server);
}
END_TEST

START_TEST(coord_copies_promote_wants_a_copy)
{
    char told[ERR_TEXT_MAX];
    found(2);
    sim_kill(r.copy[0].node);
    sim_kill(r.copy[1].node);
    go(2000);
    ck_assert_int_eq(promote(true, told), SHOAL_E_UNAVAILABLE);
    ck_assert_uint_eq(of()->term, 1);
}
END_TEST

/* _i 0: the server follows; 1: it led, and a copy in sync has taken over. */
START_TEST(coord_copies_replace_makes_a_copy_elsewhere)
{
    char told[ERR_TEXT_MAX];
    uint32_t next;
    found(2);
    copy_start(2, 2, 0, 1);
    go(500);
    ck_assert_ptr_nonnull(strstr(r.copy[2].refused, "there is no place"));
    uint32_t l = leader(COPIES), gone = _i == 0 ? 1 - l : l, place = r.copy[gone].copies.copy;
    in_sync(3);
    ck_assert_int_eq(replace(r.copy[gone].server, told), SHOAL_E_BUSY); /* it beats */
    ck_assert_uint_eq(of()->term, 1);
    ck_assert_int_eq(replace("server-9", told), SHOAL_E_NOT_FOUND);
    (void)die(gone, &next);
    go(1500);
    uint64_t term = of()->term;
    ck_assert_msg(replace(r.copy[gone].server, told) == 0, "%s", told);
    ck_assert_msg(strstr(told, "1 shards have fewer than 2 copies") != NULL, "%s", told);
    go(3000);
    ck_assert_uint_eq(leader(gone), 1 - gone);
    ck_assert_uint_eq(r.copy[2].number, 0);
    ck_assert_uint_eq(r.copy[2].copies.copy, place);
    ck_assert_uint_eq(of()->term, term + 1); /* what it says of the old one counts no more */
    ck_assert_int_eq(__builtin_popcount(of()->in_sync), 1);
    coord_kill();
    coord_start();
    ck_assert_uint_eq(coord_copies_given(&r.coord->fleet, 0), 2);
    ck_assert_str_eq(coord_copies_any(&r.coord->fleet, 0, place)->server, r.copy[2].server);
    go(1000);
    copy_start(gone, gone, 0, 2); /* it comes back with its folder */
    go(1000);
    ck_assert_msg(strstr(r.copy[gone].refused, "was replaced") != NULL, "%s", r.copy[gone].refused);
}
END_TEST

/* No other server has room, which the status tells; the server itself comes back, and follows. */
START_TEST(coord_copies_replaced_server_may_follow_again)
{
    char told[ERR_TEXT_MAX];
    found(2);
    uint32_t l = leader(COPIES), gone = 1 - l;
    in_sync(3);
    sim_kill(r.copy[gone].node);
    go(2500);
    ck_assert_int_eq(replace(r.copy[gone].server, told), 0);
    go(500);
    struct json *problems = problems_told();
    const char *problem = json_as_string(json_array_at(problems, 0), "");
    ck_assert_msg(strstr(problem, "no server has room for 1 more") != NULL, "%s", problem);
    json_free(problems);
    copy_start(gone, gone, 0, 2);
    go(1000);
    ck_assert_str_eq(r.copy[gone].refused, "");
    ck_assert_uint_eq(coord_copies_given(&r.coord->fleet, 0), 2);
    ck_assert_int_eq(__builtin_popcount(of()->in_sync), 1);
    ck_assert_uint_eq(leader(COPIES), l);
}
END_TEST

START_TEST(coord_copies_replace_leaves_no_shard_without_a_leader)
{
    char told[ERR_TEXT_MAX];
    uint32_t next;
    found(2);
    uint32_t l = leader(COPIES);
    (void)die(l, &next);
    go(1500);
    ck_assert_int_eq(replace(r.copy[l].server, told), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(told, "shoal promote 0"));
    ck_assert_uint_eq(of()->term, 1);
    ck_assert_int_eq(promote(true, told), 0);
    go(500);
    ck_assert_int_eq(replace(r.copy[l].server, told), 0);
    ck_assert_uint_eq(coord_copies_given(&r.coord->fleet, 0), 1);
}
END_TEST

/* _i 0: by itself, after a time; 1: not while the leader is away, too. */
START_TEST(coord_copies_replace_after_a_time)
{
    r.replace_after_ms = 5000;
    found(2);
    copy_start(2, 2, 0, 1);
    uint32_t l = leader(COPIES);
    in_sync(3);
    sim_kill(r.copy[1 - l].node);
    if (_i == 1)
        sim_kill(r.copy[l].node);
    go(4500);
    ck_assert_uint_eq(r.copy[2].number, UINT32_MAX);
    go(2000);
    ck_assert_uint_eq(r.copy[2].number, _i == 0 ? 0 : UINT32_MAX);
    ck_assert_int_eq(__builtin_popcount(of()->in_sync), _i == 0 ? 1 : 2);
}
END_TEST

/* ---- zones ----------------------------------------------------------------------------------- */

START_TEST(coord_copies_are_founded_in_different_zones)
{
    static const char *const zone[] = {"x", "y", "x", "y"};
    r.shards = 2;
    coord_start();
    for (uint32_t i = 0; i < 4; i++) {
        r.copy[i].zone = zone[i];
        copy_start(i, i, 0, 1);
    }
    go(3000);
    ck_assert(coord_cluster_known(&r.coord->fleet.cluster));
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < i; k++)
            ck_assert(r.copy[i].number != r.copy[k].number || zone[i] != zone[k]);
}
END_TEST

/* Two servers of one zone came first, then one of another zone: by order it gets a copy, and once
 * that is in sync one of the two gives its place up. _i 1: the new one dies before that. */
START_TEST(coord_copies_are_spread_over_zones)
{
    struct coord_fleet *f;
    r.copy[0].zone = r.copy[1].zone = "x";
    found(2);
    f = &r.coord->fleet;
    in_sync(1 | 2);
    problem_has(NULL); /* there is no other zone */
    r.copy[2].zone = "y";
    copy_start(2, 2, 0, 1);
    go(1000);
    problem_has("are both in zone x; server server-2 waits in zone y: shoal rebalance gives it");
    json_free(coord_copies_spread(f, true));
    ck_assert_uint_eq(coord_copies_given(f, 0), 2);
    for (uint32_t i = 0; i < 2; i++) { /* the order may come twice */
        struct json *told = coord_copies_spread(f, false);
        coord_fleet_end(f);
        ck_assert_uint_eq(json_count(told), 1 - i);
        json_free(told);
        ck_assert_uint_eq(coord_copies_given(f, 0), 3);
    }
    go(2000);
    ck_assert_uint_eq(r.copy[2].number, 0);
    ck_assert_uint_eq(coord_copies_given(f, 0), 3); /* not before it is in sync */
    problem_has(NULL);
    uint32_t l = leader(COPIES), doubled = 1 - l;
    if (_i == 1) {
        sim_kill(r.copy[2].node);
        go(3000);
        ck_assert_uint_eq(coord_copies_given(f, 0), 2);
        ck_assert(coord_copies_on(f, 0, r.copy[0].server) &&
                  coord_copies_on(f, 0, r.copy[1].server));
        return;
    }
    r.copy[2].last_term = of()->term;
    go(500);
    fake_shard_in_sync(&r.copy[l], of()->term, 7);
    go(3000);
    ck_assert_uint_eq(coord_copies_given(f, 0), 2);
    ck_assert(!coord_copies_on(f, 0, r.copy[doubled].server));
    ck_assert(coord_copies_on(f, 0, "server-2"));
    ck_assert_ptr_nonnull(strstr(r.copy[doubled].refused, "a server in another zone"));
    ck_assert_uint_eq(leader(doubled), l);
    ck_assert_uint_eq(__builtin_popcount(of()->in_sync), 2);
}
END_TEST

/* A server that is being drained gets no copy, nor does a shard that goes with it. */
START_TEST(coord_copies_do_not_go_where_a_drain_is)
{
    struct coord_fleet *f;
    struct err e;
    found(1);
    coord_kill();
    r.replicas = 2;
    coord_start();
    f = &r.coord->fleet;
    go(500);
    ck_assert(coord_copies_room(f, 0, "server-7"));
    ck_assert_int_eq(coord_moves_begin(f, MOVES_DRAIN, "server-7", NULL, &e), 0);
    ck_assert(!coord_copies_room(f, 0, "server-7") && coord_copies_room(f, 0, "server-6"));
    (void)snprintf(f->moves.drained, sizeof f->moves.drained, "%s", r.copy[0].server);
    ck_assert(!coord_copies_room(f, 0, "server-6"));
    f->moves.kind = MOVES_NONE;
}
END_TEST

/* A place is free, and two servers have room, at different moments. The one in a zone without a
 * copy gets it. */
START_TEST(coord_copies_go_to_another_zone)
{
    char told[ERR_TEXT_MAX];
    r.copy[0].zone = "x";
    r.copy[1].zone = "y";
    found(2);
    uint32_t l = leader(COPIES), gone = 1 - l;
    r.copy[2].zone = r.copy[l].zone;
    r.copy[3].zone = r.copy[gone].zone;
    copy_start(2, 2, 0, 1);
    go(50);
    copy_start(3, 3, 0, 1);
    sim_kill(r.copy[gone].node);
    go(2000 + 10 * (uint64_t)_i);
    ck_assert_int_eq(replace(r.copy[gone].server, told), 0);
    go(1000);
    ck_assert_uint_eq(r.copy[3].number, 0);
    ck_assert_uint_eq(r.copy[2].number, UINT32_MAX);
    sim_kill(r.copy[3].node); /* none is left in another zone */
    go(3000);
    ck_assert_int_eq(replace(r.copy[3].server, told), 0);
    go(1000);
    ck_assert_uint_eq(r.copy[2].number, 0);
}
END_TEST

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool job_over(void *context)
{
    (void)context;
    return r.client.state == WIRE_JOB_DONE || r.client.state == WIRE_JOB_FAILED;
}

static struct fake_shard *pushed_to[1];

static void job_start(void)
{
    struct fake_worker *w = &r.worker;
    (void)snprintf(r.yaml, sizeof r.yaml,
                   "job: t\ndata: {format: libsvm, train: [a]}\ntables: [{name: emb, dim: 4}]\n"
                   "model: {kind: probe}\n"
                   "train: {batch: 10, task_batches: 4, epochs: 1, consistency: ssp, lanes: 2}\n");
    w->rows[0] = 1005;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = 50 * MS;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    pushed_to[0] = &r.copy[leader(COPIES)];
    fake_worker_start(w, r.sim, "worker-0", pushed_to, 1);
    fake_client_start(&r.client, r.sim, r.yaml, 1);
}

/* A leader's process dies while a job trains, durability memory. _i 0: the other copy, which has
 * its rows, takes over, and the job goes on; 1: the other one is not in sync, the process starts
 * again, and the rows are lost. */
START_TEST(coord_copies_job_goes_on_with_another_leader)
{
    found(2);
    uint32_t l = leader(COPIES), other = 1 - l;
    r.copy[0].in_memory = r.copy[1].in_memory = true;
    job_start();
    if (_i == 0)
        in_sync(3);
    go(1500);
    ck_assert_uint_gt(r.copy[l].applied, 0);
    ck_assert_uint_eq(r.copy[other].map_epoch, r.coord->fleet.cluster.map_epoch);
    ck_assert_uint_eq(r.copy[other].names_version, r.coord->fleet.names.version);
    if (_i == 0) { /* the records */
        struct fake_shard *to = &r.copy[other], *from = &r.copy[l];
        memcpy(to->tablets, from->tablets, sizeof to->tablets);
        memcpy(to->seen, from->seen, sizeof to->seen);
        to->run = from->run;
        to->newest_run = from->newest_run;
        to->applied = from->applied;
        pushed_to[0] = to;
        sim_kill(from->node);
    } else {
        fake_shard_die(&r.copy[l]);
        copy_start(l, l, 0, 2);
    }
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL);
    ck_assert_uint_eq(r.coord->slot[0].went_back, 0);
    if (_i == 0)
        ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    else
        ck_assert_ptr_nonnull(strstr(r.client.text, "rows were in memory alone"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_copies");
    TCase *t = suite_case(s, "copies", 60, setup, teardown);
    tcase_add_loop_test(t, coord_copies_are_founded_on_different_servers, 0, 6);
    tcase_add_test(t, coord_copies_want_enough_servers);
    tcase_add_test(t, coord_copies_of_one_are_nothing);
    tcase_add_test(t, coord_copies_are_told_in_beats);
    tcase_add_test(t, coord_copies_in_sync_only_the_leader_says);
    tcase_add_test(t, coord_copies_a_late_in_sync_changes_nothing);
    tcase_add_test(t, coord_copies_in_sync_is_stored_before_it_is_answered);
    tcase_add_loop_test(t, coord_copies_takeover_takes_the_copy_in_sync_with_most, 0, 2);
    tcase_add_test(t, coord_copies_takeover_counts_terms_first);
    tcase_add_test(t, coord_copies_out_of_sync_never_take_over);
    tcase_add_loop_test(t, coord_copies_no_second_leader_before_the_lease_is_over, 0, 2);
    tcase_add_loop_test(t, coord_copies_leader_that_has_ended_is_not_waited_for, 0, 3);
    tcase_add_test(t, coord_copies_list_that_is_read_late_lets_a_copy_lead);
    tcase_add_test(t, coord_copies_old_leader_follows);
    tcase_add_loop_test(t, coord_copies_leader_that_starts_again, 0, 2);
    tcase_add_loop_test(t, coord_copies_follower_that_starts_again, 0, 5);
    tcase_add_loop_test(t, coord_copies_leader_with_an_empty_folder, 0, 2);
    tcase_add_test(t, coord_copies_empty_folder_waits_for_the_lease_of_the_one_before);
    tcase_add_loop_test(t, coord_copies_wait_for_each_other_after_a_loss_of_power, 0, 2);
    tcase_add_test(t, coord_copies_tell_how_far_a_follower_is_behind);
    tcase_add_test(t, coord_copies_tell_how_far_a_copy_is);
    tcase_add_test(t, coord_copies_count_a_lease_down);
    tcase_add_test(t, coord_copies_on_one_machine_are_named);
    tcase_add_loop_test(t, coord_copies_can_become_more_and_fewer, 0, 2);
    tcase_add_test(t, coord_copies_are_taken_over_with_a_lost_store);
    tcase_add_test(t, coord_copies_promote_counts_what_is_lost);
    tcase_add_test(t, coord_copies_promote_wants_a_copy);
    tcase_add_loop_test(t, coord_copies_replace_makes_a_copy_elsewhere, 0, 2);
    tcase_add_test(t, coord_copies_replaced_server_may_follow_again);
    tcase_add_test(t, coord_copies_replace_leaves_no_shard_without_a_leader);
    tcase_add_loop_test(t, coord_copies_replace_after_a_time, 0, 2);
    tcase_add_test(t, coord_copies_are_founded_in_different_zones);
    tcase_add_loop_test(t, coord_copies_are_spread_over_zones, 0, 2);
    tcase_add_test(t, coord_copies_do_not_go_where_a_drain_is);
    tcase_add_loop_test(t, coord_copies_go_to_another_zone, 0, 10);
    tcase_add_loop_test(t, coord_copies_job_goes_on_with_another_leader, 0, 2);
    return suite_main(s);
}
