/* test_broken_cut.c: breaks the invariants of cuts, checkpoints and the store on purpose: each
 * breach must be caught by its own assert. */
#include "server/coord/coord.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "tests/lib/broken.h"
#include "tests/lib/coord_put.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static char dir[64];
static struct coord *c;
static struct err e;
static uint64_t late; /* the sequence number of RocksDB is ahead by so much */
static bool changes_follow;

uint64_t __real_rocksdb_get_latest_sequence_number(void *db);
uint64_t __wrap_rocksdb_get_latest_sequence_number(void *db);
uint64_t __wrap_rocksdb_get_latest_sequence_number(void *db)
{
    late += changes_follow;
    return __real_rocksdb_get_latest_sequence_number(db) + late;
}

static struct sim *sim;

/* A coordinator of one shard, whose job trains. */
static void coord_make(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    struct coord_options o = {.shards = 1, .folder = &coord_folder_disk};
    sim = sim_new(&calm);
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    (void)snprintf(c->slot[0].spec.checkpoint.dir, sizeof c->slot[0].spec.checkpoint.dir, "%s",
                   dir);
    c->slot[0].at.phase = PHASE_TRAIN;
    c->slot[0].parsed = true; /* each case ends in an assert: nothing is freed */
    c->slot[0].tablets = 1;
    c->fleet.members.shard[0].seen = c->slot[0].setup.shard[0].done = true;
}

static void cut_done(struct coord_job *job, int status, const char *text, uint64_t cut)
{
    (void)job, (void)status, (void)text, (void)cut;
}

/* All shards have answered the newest call, or none has. */
static void answer(bool all)
{
    struct coord_call *call = c->fleet.calls.head;
    call->missing = all ? 0 : call->missing;
    call->on_done(call->context, call, 0, "");
}

static void checkpoint_ask(void)
{
    struct wire w = {.type = WIRE_TYPE_CHECKPOINT, .id = 1};
    (void)snprintf(w.u.CHECKPOINT.name, sizeof w.u.CHECKPOINT.name, "asked");
    struct coord_ask a = {.from = 1, .request = &w};
    (void)coord_checkpoint_request(&c->slot[0], &a);
}

static void a_cut_has_a_number_that_was_used(void)
{
    coord_make();
    c->slot[0].cut->stored = c->fleet.counters.next_cut;
    coord_cut_order(&c->slot[0], &(struct coord_cut_order){.done = cut_done});
}

static void a_shard_hears_of_a_number_that_is_not_stored(void)
{
    coord_make();
    coord_cut_order(&c->slot[0], &(struct coord_cut_order){.done = cut_done});
    c->slot[0].cut->stored--;
    answer(true);
}

static void a_cut_counts_that_a_shard_has_not_made(void)
{
    coord_make();
    coord_cut_order(&c->slot[0], &(struct coord_cut_order){.done = cut_done});
    answer(true);
    answer(false);
}

static void a_shard_does_not_hold_at_the_instant(void)
{
    coord_make();
    coord_cut_order(&c->slot[0], &(struct coord_cut_order){.done = cut_done});
    answer(false);
}

static void a_checkpoint_gets_its_name_without_a_part(void)
{
    struct coord_checkpoint_record record = {.rows = 0};
    coord_make();
    c->slot[0].checkpoint->state = CHECKPOINT_EXPORTING;
    c->slot[0].checkpoint->missing = 1;
    c->slot[0].checkpoint->saved = calloc(1, 1);
    c->slot[0].space->made->number = 1;
    c->slot[0].space->made->yaml = calloc(1, 1);
    c->slot[0].checkpoint->part = calloc(1, sizeof *c->slot[0].checkpoint->part);
    c->slot[0].checkpoint->manifest = json_new_object();
    (void)coord_checkpoint_write(&c->slot[0], &record, NULL, &e);
}

static void a_checkpoint_notes_what_is_not_of_its_instant(void)
{
    coord_make();
    checkpoint_ask();
    while (c->slot[0].checkpoint->state != CHECKPOINT_CUTTING)
        ck_assert(sim_step(sim));
    c->slot[0].cut->state = CUT_GOING;
    (void)c->slot[0].cut->order.held(&c->slot[0], &e);
}

static void a_checkpoint_begins_beside_another(void)
{
    coord_make();
    c->slot[0].checkpoint->making = calloc(1, sizeof *c->slot[0].checkpoint->making);
    checkpoint_ask();
}

static void a_put_is_answered_before_all_is_synced(void)
{
    struct coord_store *s;
    ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), 0);
    changes_follow = true;
    (void)coord_put_now(s, "key", "value", 5, &e);
}

static const struct broken list[] = {
    {"server/coord/keep/cut.c", 1, a_cut_has_a_number_that_was_used,
     "j->cut->stored == 0 || cut >"},
    {"server/coord/keep/cut.c", 1, a_shard_hears_of_a_number_that_is_not_stored,
     "!makes || cut =="},
    {"server/coord/keep/cut.c", 2, a_cut_counts_that_a_shard_has_not_made,
     "status != 0 || call->miss"},
    {"server/coord/keep/cut.c", 3, a_shard_does_not_hold_at_the_instant,
     "status != 0 || call->missing"},
    {"server/coord/keep/checkpoint_write.c", 1, a_checkpoint_gets_its_name_without_a_part,
     "k->state == CHECKPOINT_EXPORTING && k->missing == 0"},
    {"server/coord/keep/checkpoint.c", 2, a_checkpoint_notes_what_is_not_of_its_instant,
     "j->cut->state == CUT_HOLDING && j->cut->order.held == held"},
    {"server/coord/keep/checkpoint.c", 3, a_checkpoint_begins_beside_another,
     "k->state == CHECKPOINT_IDLE && k->making == NULL"},
    {"server/coord/store/store_disk.c", 1, a_put_is_answered_before_all_is_synced,
     "rc != 0 || !t->sync || d->synced == rocksdb_get_latest"},
};

START_TEST(broken_cut_is_noticed)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/shoal-broken-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

int main(void)
{
    Suite *s = suite_create("server/coord/broken_cut");
    tcase_add_test(suite_case(s, "broken", 60, setup, teardown), broken_cut_is_noticed);
    return suite_main(s);
}
