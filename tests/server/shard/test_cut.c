/* test_cut.c: a shard's answers to GO (for a cut that is a copy), RESTORE, CUT_EXPORT and LOAD:
 * when they are done, repeated, and with other requests in between. */
#include "tests/lib/disk.h"
#include "tests/lib/table_sets.h"
#include "tests/server/shard_rig.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[512], path[600];

static void setup(void)
{
    snprintf(dir, sizeof dir, "%s/shoal-checkpoint-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/c", dir);
}

static void teardown(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static uint64_t send_cut(struct rig *r, enum wire_type type, uint64_t cut)
{
    struct wire w = rig_wire(r, type);
    if (type == WIRE_TYPE_HOLD)
        w.u.HOLD = (struct wire_HOLD){.cut = cut, .run = RIG_RUN};
    else
        w.u.GO.cut = cut;
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static uint64_t send_restore(struct rig *r, uint64_t cut, uint64_t run)
{
    struct wire w = rig_wire(r, WIRE_TYPE_RESTORE);
    w.u.RESTORE = (struct wire_RESTORE){.cut = cut, .run = run};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static uint64_t send_look(struct rig *r, uint64_t cut, uint64_t run)
{
    struct wire w = rig_wire(r, WIRE_TYPE_RESTORE);
    w.u.RESTORE = (struct wire_RESTORE){.cut = cut, .run = run, .look = true};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static uint64_t send_export(struct rig *r, uint64_t cut, uint32_t part, uint32_t parts)
{
    struct wire w = rig_wire(r, WIRE_TYPE_CUT_EXPORT);
    w.u.CUT_EXPORT = (struct wire_CUT_EXPORT){.cut = cut, .part = part, .parts = parts};
    (void)mkdir(path, 0700); /* as the coordinator does */
    snprintf(w.u.CUT_EXPORT.path, sizeof w.u.CUT_EXPORT.path, "%s", path);
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static uint64_t send_load(struct rig *r, uint64_t run, const char *from)
{
    struct wire w = rig_wire(r, WIRE_TYPE_LOAD);
    w.u.LOAD = (struct wire_LOAD){.run = run};
    snprintf(w.u.LOAD.path, sizeof w.u.LOAD.path, "%s", from);
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* Exports cut 5 of a shard with one row, -2, of tablet 3. */
static void save(struct rig *r)
{
    rig_new(r, WIRE_SSP, 2, OPT_SGD);
    rig_push(r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    rig_run(r, 5);
    send_cut(r, WIRE_TYPE_HOLD, 5);
    rig_run(r, 5);
    uint64_t go = send_cut(r, WIRE_TYPE_GO, 5);
    rig_run(r, 500);
    ck_assert_int_eq(rig_status(r, go), 0);
}

START_TEST(an_export_answers_when_it_is_done_and_others_go_on)
{
    struct rig r = {.dir = _i ? dir : NULL,
                    .durability = _i ? DURABLE_JOURNAL : DURABLE_MEMORY,
                    .work_ns = 100 * MS};
    save(&r);
    uint64_t lost = send_export(&r, 5, 0, 1);
    rig_run(&r, 5);
    uint64_t other = send_export(&r, 5, 1, 2), next = send_export(&r, 5, 1, 1),
             again = send_export(&r, 5, 0, 1);
    rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1});
    uint64_t pull = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&r, 20);
    ck_assert(rig_value(&r, pull) == -3);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_BUSY);
    ck_assert_int_eq(rig_status(&r, next), SHOAL_E_BUSY);
    ck_assert_int_eq(rig_status(&r, again), RIG_WAITING);
    rig_run(&r, 300);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert_int_eq(rig_status(&r, lost), RIG_WAITING); /* only the newest is answered */
    ck_assert_uint_eq(rig_reply(&r, again)->u.CUT_EXPORT_reply.rows, 1);
    uint64_t bytes = rig_reply(&r, again)->u.CUT_EXPORT_reply.bytes;
    ck_assert_uint_gt(bytes, 0);
    uint64_t late = send_export(&r, 5, 0, 1);
    rig_run(&r, 300);
    ck_assert_uint_eq(rig_reply(&r, late)->u.CUT_EXPORT_reply.bytes, bytes);
    uint64_t unknown = send_export(&r, 6, 0, 1);
    rig_run(&r, 300);
    ck_assert_int_eq(rig_status(&r, unknown), SHOAL_E_NOT_FOUND);
    rig_free(&r);
}
END_TEST

/* A cut that is a copy takes several batches: pulls are answered meanwhile; a push waits for its
 * tablets and is not in the cut. */
START_TEST(pulls_go_on_beside_a_copy_and_pushes_wait)
{
    struct rig r = {.dir = _i ? dir : NULL, .durability = DURABLE_MEMORY, .work_ns = 100 * MS};
    save(&r);
    send_cut(&r, WIRE_TYPE_HOLD, 6);
    rig_run(&r, 5);
    uint64_t go = send_cut(&r, WIRE_TYPE_GO, 6);
    rig_run(&r, 5);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1});
    uint64_t pull = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&r, 20);
    ck_assert(rig_value(&r, pull) == -2);
    ck_assert_int_eq(rig_status(&r, push), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, go), RIG_WAITING);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert_int_eq(rig_status(&r, go), 0);
    uint64_t back = send_restore(&r, 6, 90);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, back), 0);
    pull = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&r, 50);
    ck_assert(rig_value(&r, pull) == -2);
    rig_free(&r);
}
END_TEST

/* A repeated HOLD that arrives after GO gets the first answer, and holds no push. Once the cut is
 * dropped, its number is unknown. */
START_TEST(a_late_hold_holds_nothing)
{
    struct rig r = {.dir = _i ? dir : NULL, .durability = DURABLE_MEMORY};
    save(&r);
    uint64_t sequence = r.shard->hold.last_sequence;
    struct rig_push_args p = {.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1};
    rig_push(&r, p);
    rig_run(&r, 5);
    uint64_t late = send_cut(&r, WIRE_TYPE_HOLD, 5);
    p.from = 2, p.to = 3;
    uint64_t push = rig_push(&r, p);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, late), 0);
    ck_assert_uint_eq(rig_reply(&r, late)->u.HOLD_reply.sequence, sequence);
    ck_assert_int_eq(rig_status(&r, push), 0);
    uint64_t go = send_cut(&r, WIRE_TYPE_GO, 5);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, go), 0);
    if (_i == 0) {
        struct wire w = rig_wire(&r, WIRE_TYPE_CUT_DROP);
        w.u.CUT_DROP.cut = 5;
        rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    } else {
        struct wire w = rig_wire(&r, WIRE_TYPE_ROWS_GO);
        w.u.ROWS_GO = (struct wire_ROWS_GO){.run = RIG_RUN + 5, WIRE_TABLES_IS(TABLE_SET_ALL)};
        rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    }
    rig_run(&r, 200);
    go = send_cut(&r, WIRE_TYPE_GO, 5);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, go), SHOAL_E_NOT_FOUND);
    rig_free(&r);
}
END_TEST

static uint64_t send_hold(struct rig *r, uint64_t cut, uint64_t run)
{
    struct wire w = rig_wire(r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = cut, .run = run};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* While a cut is written, a repeated HOLD gets that cut's own sequence, not that of the cut before;
 * of two GO the newer one is answered. There is no cut 0. */
START_TEST(a_cut_that_is_written_answers_for_itself)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL, .work_ns = 100 * MS};
    save(&r);
    struct rig_push_args p = {.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1};
    rig_push(&r, p);
    rig_run(&r, 5);
    uint64_t none = send_hold(&r, 0, RIG_RUN), hold = send_hold(&r, 6, RIG_RUN);
    rig_run(&r, 5);
    uint64_t first = send_cut(&r, WIRE_TYPE_GO, 6);
    rig_run(&r, 5);
    uint64_t copy = send_hold(&r, 6, RIG_RUN), second = send_cut(&r, WIRE_TYPE_GO, 6);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, second), RIG_WAITING); /* the cut is still being written */
    ck_assert_uint_eq(rig_reply(&r, copy)->u.HOLD_reply.sequence,
                      rig_reply(&r, hold)->u.HOLD_reply.sequence);
    ck_assert_uint_ne(r.shard->hold.last_sequence, r.shard->hold.going_sequence);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, second), 0);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING);
    rig_free(&r);
}
END_TEST

/* A load without a map would fill no tablet. A LOAD of another folder does not get the first one's
 * answer. */
START_TEST(a_load_is_of_its_folder_and_of_what_is_led)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL, .work_ns = 100 * MS};
    save(&r);
    uint64_t saved = send_export(&r, 5, 0, 1);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, saved), 0);
    (void)send_load(&r, RIG_RUN + 1, path);
    rig_run(&r, 5);
    uint64_t other = send_load(&r, RIG_RUN + 1, dir);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_BUSY);
    rig_run(&r, 1000);
    rig_free(&r);
    struct rig bare = {0};
    rig_start(&bare, 1);
    uint64_t load = send_load(&bare, RIG_RUN, path);
    rig_run(&bare, 500);
    ck_assert_int_eq(rig_status(&bare, load), SHOAL_E_AGAIN);
    rig_free(&bare);
}
END_TEST

/* A repeated GO gets the same failure; the next cut succeeds. */
START_TEST(a_cut_that_failed_says_so_again_and_the_next_is_good)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    struct disk_fault fault = {.at = 1, .kind = DISK_ERROR, .why = EIO, .only = ".tmp"};
    struct disk *disk = disk_watch(dir);
    save(&r);
    send_cut(&r, WIRE_TYPE_HOLD, 6);
    rig_run(&r, 5);
    disk_fail(disk, &fault);
    for (uint32_t asked = 0; asked < 2; asked++) {
        uint64_t go = send_cut(&r, WIRE_TYPE_GO, 6);
        rig_run(&r, 500);
        ck_assert_msg(rig_status(&r, go) == SHOAL_E_CANTCREATE, "%u: %s", asked,
                      rig_reply(&r, go)->error);
        ck_assert_ptr_nonnull(strstr(rig_reply(&r, go)->error, "its part of cut 6"));
    }
    ck_assert(disk_failed(disk) && r.shard->fatal.code == 0);
    send_cut(&r, WIRE_TYPE_HOLD, 7);
    rig_run(&r, 5);
    for (uint32_t asked = 0; asked < 2; asked++) {
        uint64_t go = send_cut(&r, WIRE_TYPE_GO, 7);
        rig_run(&r, 500);
        ck_assert_msg(rig_status(&r, go) == 0, "%u: %d", asked, rig_status(&r, go));
        ck_assert_uint_eq(rig_reply(&r, go)->u.GO_reply.rows, 1);
    }
    disk_free(disk);
    rig_free(&r);
}
END_TEST

/* There is no memory for one more cut: pushes that waited for it go on, and a later cut succeeds
 * once there is memory. */
START_TEST(a_cut_that_cannot_begin_holds_nobody_up)
{
    struct rig r = {.dir = NULL};
    uint64_t cut = 5, id;
    save(&r);
    for (uint32_t i = 1; i < ENGINE_MEM_CUTS; i++) {
        send_cut(&r, WIRE_TYPE_HOLD, ++cut);
        rig_run(&r, 5);
        id = send_cut(&r, WIRE_TYPE_GO, cut);
        rig_run(&r, 50);
        ck_assert_int_eq(rig_status(&r, id), 0);
    }
    id = send_cut(&r, WIRE_TYPE_HOLD, ++cut);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, id), 0);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, push), RIG_WAITING);
    id = send_cut(&r, WIRE_TYPE_GO, cut);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, id), SHOAL_E_BUSY);
    ck_assert_int_eq(rig_status(&r, push), 0);
    struct wire w = rig_wire(&r, WIRE_TYPE_CUT_DROP);
    w.u.CUT_DROP.cut = 5;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    send_cut(&r, WIRE_TYPE_HOLD, ++cut);
    rig_run(&r, 5);
    id = send_cut(&r, WIRE_TYPE_GO, cut);
    rig_run(&r, 50);
    ck_assert_int_eq(rig_status(&r, id), 0);
    rig_free(&r);
}
END_TEST

/* A lane's held push of the former run is refused. */
START_TEST(a_restore_refuses_what_is_held_of_the_run_before)
{
    struct rig r = {.dir = _i ? dir : NULL, .durability = _i ? DURABLE_JOURNAL : DURABLE_MEMORY};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    send_cut(&r, WIRE_TYPE_HOLD, 5);
    rig_run(&r, 5);
    uint64_t go = send_cut(&r, WIRE_TYPE_GO, 5);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, go), 0);
    uint64_t held = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, held), RIG_WAITING);
    uint64_t back = send_restore(&r, 5, 90);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, back), 0);
    ck_assert_int_eq(rig_status(&r, held), SHOAL_E_OLD_RUN);
    rig_free(&r);
}
END_TEST

START_TEST(a_newer_hold_takes_the_place_of_the_older)
{
    struct rig r = {.dir = NULL};
    save(&r);
    struct rig_push_args p = {.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1};
    send_hold(&r, 6, RIG_RUN);
    rig_run(&r, 5);
    uint64_t push = rig_push(&r, p), newer = send_hold(&r, 7, _i ? RIG_RUN + 9 : RIG_RUN);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, newer), _i ? SHOAL_E_OLD_RUN : 0);
    ck_assert_int_eq(rig_status(&r, push), _i ? 0 : RIG_WAITING);
    uint64_t go = send_cut(&r, WIRE_TYPE_GO, 7);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, go), _i ? SHOAL_E_NOT_FOUND : 0);
    ck_assert_int_eq(rig_status(&r, push), 0);
    rig_free(&r);
}
END_TEST

/* A cut that is being written cannot be dropped. */
START_TEST(a_cut_is_dropped_when_it_is_written)
{
    struct rig r = {.dir = _i ? dir : NULL, .durability = DURABLE_MEMORY, .work_ns = 100 * MS};
    save(&r);
    send_cut(&r, WIRE_TYPE_HOLD, 6);
    rig_run(&r, 5);
    uint64_t go = send_cut(&r, WIRE_TYPE_GO, 6);
    rig_run(&r, 5);
    struct wire w = rig_wire(&r, WIRE_TYPE_CUT_DROP);
    w.u.CUT_DROP.cut = 6;
    uint64_t early = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, go), 0);
    ck_assert_int_eq(rig_status(&r, early), SHOAL_E_BUSY);
    w.id = r.next_id++;
    uint64_t late = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, late), 0);
    rig_free(&r);
}
END_TEST

/* A coordinator that lost its store reads this number, so that no number is used twice. */
START_TEST(the_highest_cut_is_told_not_the_last)
{
    static const uint64_t cut[] = {7, 6, 12, 8, 9};
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    save(&r);
    for (uint32_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        send_cut(&r, WIRE_TYPE_HOLD, cut[i]);
        rig_run(&r, 5);
        beat_now(r.shard);
        rig_run(&r, 5);
        ck_assert_uint_eq(r.beat.newest_cut, i == 1 ? 7 : i > 2 ? 12 : cut[i]);
        uint64_t go = send_cut(&r, WIRE_TYPE_GO, cut[i]);
        rig_run(&r, 500);
        ck_assert_int_eq(rig_status(&r, go), 0);
    }
    rig_restart(&r, false);
    ck_assert_uint_eq(r.beat.newest_cut, 12);
    rig_free(&r);
}
END_TEST

/* The coordinator has a new connection meanwhile, and the answer goes there. */
START_TEST(who_asked_last_is_answered_where_he_is)
{
    struct rig r = {.alone = true, .work_ns = 100 * MS};
    save(&r);
    (void)send_export(&r, 5, 0, 1);
    rig_run(&r, 5);
    peer_t former = r.to;
    ck_assert_int_eq(env_connect(sim_node_env(r.client), "sim://shard", ENV_COORDINATOR, &r.to), 0);
    env_disconnect(sim_node_env(r.client), former);
    uint64_t again = send_export(&r, 5, 0, 1);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, again), 0);
    rig_free(&r);
}
END_TEST

/* ---- RESTORE, in steps ---- */

/* Damages the rows of the cut only: the store's rows are in other files. */
static void rot(uint64_t cut)
{
    char command[1600];
    snprintf(command, sizeof command,
             "cd '%s/cuts/%u' && cp -r rows copy && rm -r rows && mv copy rows && cd rows && for f "
             "in $(ls *.sst *.blob); do printf XX | dd of=$f bs=1 seek=100 conv=notrunc "
             "2>/dev/null; done",
             dir, (unsigned)cut);
    ck_assert_int_eq(system(command), 0);
}

/* The first of two steps changes nothing, whatever it finds. */
START_TEST(a_look_at_a_cut_changes_nothing)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    save(&r);
    rig_restart(&r, true); /* images are in the store, not only in the cut's journal */
    send_cut(&r, WIRE_TYPE_HOLD, 6);
    rig_run(&r, 5);
    uint64_t go = send_cut(&r, WIRE_TYPE_GO, 6);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, go), 0);
    rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1});
    rig_run(&r, 5);
    if (_i == 1)
        rot(6);
    uint64_t first = send_look(&r, 6, RIG_RUN + 1), again = send_look(&r, 6, RIG_RUN + 1),
             other = send_look(&r, 5, RIG_RUN + 1), under = send_look(&r, 6, RIG_RUN + 2);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 2, .to = 3, .key = rig_key(3, 0), .gradient = 1});
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, first), RIG_WAITING); /* only the newest is answered */
    ck_assert_int_eq(rig_status(&r, again), _i == 1 ? SHOAL_E_CORRUPT : 0);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_BUSY);
    ck_assert_int_eq(rig_status(&r, under), SHOAL_E_BUSY);
    ck_assert_int_eq(rig_status(&r, push), 0);
    uint64_t pull = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == -4);
    uint64_t back = send_restore(&r, 6, RIG_RUN + 1);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, back), _i == 1 ? SHOAL_E_CORRUPT : 0);
    pull = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == (_i == 1 ? -4 : -2));
    rig_restart(&r, false); /* it starts */
    rig_free(&r);
}
END_TEST

/* A shard that died before its answer has the run after its restart, and gets the RESTORE once
 * more: then it accepts pushes of that run. */
START_TEST(a_restore_after_a_restart_opens_the_way)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    save(&r);
    for (int again = 0; again < 2; again++) {
        uint64_t back = send_restore(&r, 5, 90);
        rig_run(&r, 500);
        ck_assert_int_eq(rig_status(&r, back), 0);
        ck_assert(!shard_run_untold(r.shard, 90));
        if (again == 0) {
            rig_restart(&r, false);
            ck_assert(shard_run_untold(r.shard, 90));
        }
    }
    rig_free(&r);
}
END_TEST

/* A cut that was given up does not block a restore, and requests that waited for the cut are done
 * before. */
START_TEST(a_restore_ends_a_hold)
{
    struct rig r = {.dir = NULL};
    save(&r);
    send_cut(&r, WIRE_TYPE_HOLD, 6);
    rig_run(&r, 5);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1});
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, push), RIG_WAITING);
    uint64_t back = send_restore(&r, 5, 90);
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert_int_eq(rig_status(&r, back), 0);
    uint64_t pull = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == -2);
    rig_free(&r);
}
END_TEST

static const struct env_ops *quick;
static const struct env_timer *steps;

/* Each step of the engine's stepwise work takes 10 ms. */
static void slow_start(struct env *env, struct env_timer *t, uint64_t delay_ns)
{
    quick->timer_start(env, t, t == steps ? delay_ns + 10 * MS : delay_ns);
}

/* The restore is answered when it is done, to the newest request. Meanwhile the shard sends beats
 * and answers AGAIN; a pull without a lane waits. */
START_TEST(a_restore_answers_when_it_is_done_and_the_loop_turns)
{
    struct rig r = {.dir = _i ? dir : NULL, .durability = _i ? DURABLE_JOURNAL : DURABLE_MEMORY};
    static struct env_ops slow;
    save(&r);
    rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(3, 0), .gradient = 1});
    rig_run(&r, 5);
    struct env *env = sim_node_env(r.shard_node);
    quick = env->ops;
    slow = *quick;
    slow.timer_start = slow_start;
    env->ops = &slow;
    steps = &r.shard->engine->reload_timer;
    r.shard->engine->reload_rows = 1;
    uint64_t lost = send_restore(&r, 5, 90);
    rig_run(&r, 15);
    ck_assert(engine_restoring(r.shard->engine));
    uint64_t again = send_restore(&r, 5, 90), other = send_restore(&r, 5, 91),
             cut = send_restore(&r, 6, 90), pull = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0)),
             of_lane = rig_pull(&r, 0, 3, 0, rig_key(3, 0)),
             push = rig_push(
                 &r,
                 (struct rig_push_args){.from = 2, .to = 3, .key = rig_key(3, 0), .gradient = 1}),
             status = rig_simple(&r, WIRE_TYPE_SHARD_STATUS),
             digest = rig_simple(&r, WIRE_TYPE_DIGEST);
    r.beats = r.ready_beats = 0;
    beat_now(r.shard);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, lost), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, again), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, cut), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, pull), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, of_lane), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, push), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&r, status), 0);
    ck_assert_int_eq(rig_status(&r, digest), SHOAL_E_AGAIN);
    ck_assert_uint_eq(r.beats, 1);
    ck_assert_uint_eq(r.ready_beats, 1); /* its rows are not away: it needs no new set-up */
    rig_run(&r, 10000);
    ck_assert_int_eq(rig_status(&r, again), 0);
    ck_assert_uint_eq(rig_reply(&r, again)->u.RESTORE_reply.rows, 1);
    ck_assert_int_eq(rig_status(&r, lost), RIG_WAITING); /* only the newest is answered */
    ck_assert(rig_value(&r, pull) == -2);
    uint64_t late = send_restore(&r, 5, 90);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, late), 0);
    env->ops = quick;
    rig_free(&r);
}
END_TEST

/* Starts a shard with the two tables and the map, and without a run. */
static void empty(struct rig *r)
{
    rig_start(r, 2);
    rig_table(r, 0, OPT_SGD);
    rig_table(r, 1, OPT_SGD);
    rig_run(r, 5);
}

START_TEST(a_load_opens_its_run_and_answers_again)
{
    struct rig r = {.dir = NULL};
    char where[600];
    save(&r);
    uint64_t done = send_export(&r, 5, 0, 1);
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, done), 0);
    rig_free(&r);

    snprintf(where, sizeof where, "%s/b", dir);
    struct rig b = {.dir = _i ? where : NULL,
                    .durability = _i ? DURABLE_JOURNAL : DURABLE_MEMORY,
                    .work_ns = 100 * MS};
    empty(&b);
    uint64_t early = send_load(&b, 70, path);
    rig_run(&b, 5);
    ck_assert_int_eq(rig_status(&b, early), SHOAL_E_AGAIN);
    rig_map(&b, 1, 1000);
    rig_run(&b, 5);
    uint64_t lost = send_load(&b, 70, path);
    rig_run(&b, 5);
    uint64_t load = send_load(&b, 70, path), other = send_load(&b, 71, path);
    uint64_t pull = rig_pull(&b, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&b, 20);
    ck_assert(rig_value(&b, pull) == 0);
    ck_assert_int_eq(rig_status(&b, other), SHOAL_E_BUSY);
    rig_run(&b, 1000);
    ck_assert_msg(rig_status(&b, load) == 0, "%s", rig_reply(&b, load)->error);
    ck_assert_int_eq(rig_status(&b, lost), RIG_WAITING);
    ck_assert_uint_eq(rig_reply(&b, load)->u.LOAD_reply.rows, 1);
    pull = rig_pull(&b, UINT32_MAX, 0, 0, rig_key(3, 0));
    rig_run(&b, 20);
    ck_assert(rig_value(&b, pull) == -2);
    ck_assert_uint_eq(engine_mark(b.shard->engine, 70, 0, 0), 1);
    if (_i)
        rig_restart(&b, false);
    ck_assert(shard_run_untold(b.shard, 70) == (_i != 0));
    uint64_t again = send_load(&b, 70, path), damaged = send_load(&b, 71, dir);
    rig_run(&b, 500);
    ck_assert_int_eq(rig_status(&b, again), 0);
    ck_assert_uint_eq(rig_reply(&b, again)->u.LOAD_reply.rows, 1);
    ck_assert_int_eq(rig_status(&b, damaged), SHOAL_E_NOT_FOUND);
    ck_assert(!shard_run_untold(b.shard, 70)); /* lanes of it may be granted */
    rig_free(&b);
}
END_TEST

/* A table of an earlier job may be there. In the run it would hold the lanes' lowest marks down for
 * ever, because no lane pushes to it. */
START_TEST(a_load_is_of_the_tables_that_it_names)
{
    struct rig r = {.dir = NULL};
    save(&r);
    uint64_t done = send_export(&r, 5, 0, 1);
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, done), 0);
    rig_free(&r);
    for (uint64_t tables = 0; tables < 2; tables++) {
        struct rig b = {.dir = NULL};
        uint64_t mark;
        empty(&b);
        rig_map(&b, 1, 1000);
        struct wire w = rig_wire(&b, WIRE_TYPE_LOAD);
        w.u.LOAD = (struct wire_LOAD){.run = 70, WIRE_TABLES_IS(set_of(tables))};
        snprintf(w.u.LOAD.path, sizeof w.u.LOAD.path, "%s", path);
        uint64_t load = rig_send(&b, &w, 0, NULL, 0, NULL, 0);
        rig_run(&b, 1000);
        ck_assert_msg(rig_status(&b, load) == 0, "%s", rig_reply(&b, load)->error);
        ck_assert_int_eq(engine_fence(b.shard->engine, 70, 0, 1, true, NULL, &mark, NULL), 0);
        ck_assert_uint_eq(mark, tables == 0 ? 0 : 1);
        rig_free(&b);
    }
}
END_TEST

/* A load is dropped while it runs (a long work), and after it is done: the tables are empty then,
 * and the same checkpoint can be loaded as another run. */
START_TEST(a_load_is_dropped_and_goes_again)
{
    struct rig r = {.dir = NULL};
    char where[600];
    save(&r);
    uint64_t done = send_export(&r, 5, 0, 1);
    rig_run(&r, 100);
    ck_assert_int_eq(rig_status(&r, done), 0);
    rig_free(&r);

    snprintf(where, sizeof where, "%s/b", dir);
    struct rig b = {.dir = where, .durability = DURABLE_JOURNAL, .work_ns = 100 * MS};
    empty(&b);
    rig_map(&b, 1, 1000);
    rig_run(&b, 5);
    for (uint64_t run = 70; run < 72; run++) {
        uint64_t load = send_load(&b, run, path);
        rig_run(&b, run == 70 ? 5 : 1000);
        struct wire w = rig_wire(&b, WIRE_TYPE_ROWS_GO);
        w.u.ROWS_GO = (struct wire_ROWS_GO){
            .run = run, WIRE_TABLES_IS(TABLE_SET_ALL), .what = WIRE_ROWS_LOADED};
        int early = rig_status(&b, load);
        uint64_t lost = rig_send(&b, &w, 0, NULL, 0, NULL, 0);
        rig_run(&b, 5);
        w = rig_wire(&b, WIRE_TYPE_ROWS_GO);
        w.u.ROWS_GO = (struct wire_ROWS_GO){
            .run = run, WIRE_TABLES_IS(TABLE_SET_ALL), .what = WIRE_ROWS_LOADED};
        uint64_t drop = rig_send(&b, &w, 0, NULL, 0, NULL, 0);
        rig_run(&b, 1000);
        ck_assert_int_eq(early, run == 70 ? RIG_WAITING : 0);
        ck_assert_int_eq(rig_status(&b, load), run == 70 ? SHOAL_E_STOPPED : 0);
        ck_assert_int_eq(rig_status(&b, lost), RIG_WAITING); /* only the newest is answered */
        ck_assert_msg(rig_status(&b, drop) == 0, "%s", rig_reply(&b, drop)->error);
        uint64_t pull = rig_pull(&b, UINT32_MAX, 0, 0, rig_key(3, 0));
        rig_run(&b, 20);
        ck_assert(rig_value(&b, pull) == 0);
    }
    uint64_t load = send_load(&b, 72, path);
    rig_run(&b, 1000);
    ck_assert_msg(rig_status(&b, load) == 0, "%s", rig_reply(&b, load)->error);
    rig_free(&b);
}
END_TEST

/* A push that a hold releases is admitted while the journal is full although all is written. The
 * engine takes a step, and the drop that waited for the hold is done, while the group has an answer
 * and the queue is being walked. */
START_TEST(a_load_dropped_within_an_admission_is_answered)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    uint64_t other = rig_open(&r, RIG_RUN + 1, 1, WIRE_SSP);
    struct rig_push_args again = {.to = 1, .key = rig_key(3, 0), .gradient = 1},
                         next = {.lane = 1, .to = 1, .key = rig_key(4, 0), .gradient = 1};
    rig_push(&r, again);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, other), 0);
    r.shard->engine->options.journal_max = 1;
    rig_pull(&r, UINT32_MAX, 0, 0, again.key);
    rig_run(&r, 500);
    send_cut(&r, WIRE_TYPE_HOLD, 5);
    rig_run(&r, 5);
    struct wire w = rig_wire(&r, WIRE_TYPE_ROWS_GO);
    w.u.ROWS_GO = (struct wire_ROWS_GO){
        .run = RIG_RUN + 1, WIRE_TABLES_IS(TABLE_SET_ALL), .what = WIRE_ROWS_LOADED};
    uint64_t drop = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, drop), RIG_WAITING);
    uint64_t skipped = rig_push(&r, again), waits = rig_push(&r, next);
    rig_run(&r, 5);
    w = rig_wire(&r, WIRE_TYPE_CUT_DROP);
    w.u.CUT_DROP.cut = 5;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 2);
    ck_assert_int_eq(rig_status(&r, drop), 0);
    ck_assert_int_eq(rig_status(&r, skipped), 0);
    ck_assert_int_eq(rig_status(&r, waits), RIG_WAITING);
    r.shard->engine->options.journal_max = 0;
    rig_run(&r, 500);
    ck_assert_int_eq(rig_status(&r, waits), 0);
    rig_free(&r);
}
END_TEST

/* ---- ROWS_GO of all ---- */

static uint64_t send_clear(struct rig *r, uint64_t job)
{
    struct wire w = rig_wire(r, WIRE_TYPE_ROWS_GO);
    w.u.ROWS_GO = (struct wire_ROWS_GO){.run = job, WIRE_TABLES_IS(TABLE_SET_ALL)};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* A request that waits for a clock, for the other pushes of a clock, or for figures gets an answer:
 * nothing is left to wait for. */
START_TEST(what_waits_is_told_that_all_is_gone)
{
    struct rig r = {.dir = _i ? dir : NULL,
                    .durability = _i ? DURABLE_JOURNAL : DURABLE_MEMORY,
                    .work_ns = 20 * MS};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    rig_fence(&r, 0, 1, true);
    rig_fence(&r, 1, 1, true);
    rig_run(&r, 5);
    uint64_t held =
        rig_push(&r, (struct rig_push_args){
                         .generation = 1, .from = 0, .to = 1, .key = rig_key(3, 0), .gradient = 2});
    uint64_t waits = rig_pull(&r, 0, 2, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, held), RIG_WAITING);
    ck_assert_int_eq(rig_status(&r, waits), RIG_WAITING);
    uint64_t clear = send_clear(&r, RIG_RUN + 5);
    rig_run(&r, 2);
    uint64_t read = rig_pull(&r, UINT32_MAX, 0, 0, rig_key(3, 0)), again = 0;
    if (_i) {
        ck_assert_int_eq(rig_status(&r, clear), RIG_WAITING);
        again = send_clear(&r, RIG_RUN + 5);
    }
    rig_run(&r, 200);
    ck_assert_int_eq(rig_status(&r, _i ? again : clear), 0);
    ck_assert_int_eq(rig_status(&r, held), SHOAL_E_OLD_RUN);
    ck_assert_int_eq(rig_status(&r, waits), SHOAL_E_OLD_RUN);
    ck_assert_int_eq(rig_status(&r, read), SHOAL_E_NO_TABLE);
    ck_assert(!r.beat.holds);
    ck_assert_uint_eq(r.beat.newest_run, RIG_RUN);
    rig_free(&r);
}
END_TEST

/* A shard whose disk fails sends no answer and ends: the coordinator waits until it is back, and
 * asks again. The answer used to be the error of the disk, which ended the job. */
START_TEST(what_a_failing_disk_breaks_off_is_not_answered)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    struct disk_fault fault = {
        .at = 1, .last = 1000, .kind = DISK_ERROR, .why = EIO, .syncs = true};
    struct disk *disk = disk_watch(dir);
    save(&r);
    uint64_t asked;
    if (_i == 3) {
        asked = send_export(&r, 5, 0, 1);
        rig_run(&r, 500);
        ck_assert_int_eq(rig_status(&r, asked), 0);
        asked = send_clear(&r, RIG_RUN + 5);
        rig_run(&r, 500);
        ck_assert_int_eq(rig_status(&r, asked), 0);
        rig_map(&r, 2, 1000);
        rig_table(&r, 0, OPT_SGD);
        rig_table(&r, 1, OPT_SGD);
        rig_run(&r, 50);
    }
    disk_fail(disk, &fault);
    struct wire w = rig_wire(&r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){
        .run = RIG_RUN + 6, .lanes = 1, .mode = WIRE_SSP, WIRE_TABLES_IS(table_set_word(1))};
    if (_i == 0)
        asked = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    else if (_i == 1)
        asked = send_clear(&r, RIG_RUN + 6);
    else if (_i == 2)
        asked = send_restore(&r, 5, RIG_RUN + 6);
    else
        asked = send_load(&r, RIG_RUN + 6, path);
    rig_run(&r, 500);
    ck_assert_msg(rig_status(&r, asked) == RIG_WAITING, "%d: %s", rig_status(&r, asked),
                  rig_reply(&r, asked)->error);
    ck_assert(r.shard->fatal.code != 0);
    disk_free(disk);
    rig_free(&r);
}
END_TEST

/* Rows that a map could not leave behind are dropped, once for a job, even over a restart. */
START_TEST(a_map_with_fewer_tablets_is_taken_after_a_clear)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(9, 0), .gradient = 2});
    rig_run(&r, 5);
    uint64_t refused = rig_map(&r, 2, 8);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, refused), SHOAL_E_CONFIG);
    for (int again = 0; again < 2; again++) {
        uint64_t clear = send_clear(&r, RIG_RUN + 5);
        rig_run(&r, 200);
        ck_assert_int_eq(rig_status(&r, clear), 0);
        if (again == 0)
            rig_restart(&r, false);
    }
    uint64_t map = rig_map(&r, 2, 8);
    rig_run(&r, 5);
    ck_assert_msg(rig_status(&r, map) == 0, "%s", rig_reply(&r, map)->error);
    rig_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *c = tcase_create("checkpoint");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_late_hold_holds_nothing, 0, 2);
    tcase_add_loop_test(c, a_newer_hold_takes_the_place_of_the_older, 0, 2);
    tcase_add_loop_test(c, a_cut_is_dropped_when_it_is_written, 0, 2);
    tcase_add_test(c, a_cut_that_is_written_answers_for_itself);
    tcase_add_test(c, a_cut_that_failed_says_so_again_and_the_next_is_good);
    tcase_add_test(c, a_cut_that_cannot_begin_holds_nobody_up);
    tcase_add_test(c, a_load_is_of_its_folder_and_of_what_is_led);
    tcase_add_test(c, the_highest_cut_is_told_not_the_last);
    tcase_add_test(c, who_asked_last_is_answered_where_he_is);
    tcase_add_test(c, a_restore_after_a_restart_opens_the_way);
    tcase_add_test(c, a_restore_ends_a_hold);
    tcase_add_loop_test(c, a_restore_refuses_what_is_held_of_the_run_before, 0, 2);
    tcase_add_loop_test(c, a_look_at_a_cut_changes_nothing, 0, 2);
    tcase_add_loop_test(c, pulls_go_on_beside_a_copy_and_pushes_wait, 0, 2);
    tcase_add_loop_test(c, a_restore_answers_when_it_is_done_and_the_loop_turns, 0, 2);
    tcase_add_loop_test(c, an_export_answers_when_it_is_done_and_others_go_on, 0, 2);
    tcase_add_loop_test(c, a_load_opens_its_run_and_answers_again, 0, 2);
    tcase_add_test(c, a_load_is_of_the_tables_that_it_names);
    tcase_add_test(c, a_load_is_dropped_and_goes_again);
    tcase_add_test(c, a_load_dropped_within_an_admission_is_answered);
    tcase_add_loop_test(c, what_waits_is_told_that_all_is_gone, 0, 2);
    tcase_add_loop_test(c, what_a_failing_disk_breaks_off_is_not_answered, 0, 4);
    tcase_add_test(c, a_map_with_fewer_tablets_is_taken_after_a_clear);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
