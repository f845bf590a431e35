/* wire.h: the messages. Everybody outside proto/wire sees these plain structs; protobuf-c stops in
 * wire.c and wire_shape.c.
 *
 * A message is a header (proto2, at most 64 KiB) and exactly the number of raw little-endian frames
 * that its type has: WIRE_MAP says how many. A request carries an `id` of the sender's choice; the
 * reply has the same id, the type of the request with `reply` set, and a status (0 or SHOAL_E_*). A
 * reply with a status other than 0 has no frames and its text is in `error`, except where
 * WIRE_MAP's fields say what else it carries.
 *
 * Fields: every message struct is made from one list, so that struct, encoder, decoder and tests
 * never part: the proto file too is made from it. U32, U64, I32, F32, F64, B(ool), STR (name,
 * capacity with NUL; control characters arrive as '?'). A field's number is its place in the list,
 * so that new ones go to the end.
 *
 * Releases side by side: the newer of two neighbours understands what the older says, and speaks so
 * that the older understands. The number in a header is not the sender's release but the oldest
 * that can take this message (WIRE_SINCE); of fields that came later (WIRE_LATER) the older knows
 * nothing, and where they are missing they are 0, which must mean what the older did. */
#ifndef PROTO_WIRE_WIRE_H
#define PROTO_WIRE_WIRE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/msg.h"
#include "proto/base/nameset.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef WIRE_VERSION    /* tests/wire/later.h is a release that comes later */
#define WIRE_VERSION 9u /* the newest message that this release takes */
#define WIRE_OLDEST 9u  /* the release before it, from the first one on that has one */
#endif

/* Batches are numbered from 1 in each lane; mark 0 means none yet. */
#define WIRE_BOUND_ASYNC UINT32_MAX /* `bound` of a pull that never waits */

/* a list of fields fills its lines */
/* clang-format off */

/* ---- data plane: worker -> shard ------------------------------------------------------------- */

/* First message on a connection to any port. Reply: version and name of who answers. */
#define WIRE_HELLO(U32, U64, I32, F32, F64, B, STR) U32(version) STR(role, 16) STR(name, LIMIT_NAME)
#define WIRE_HELLO_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(version) STR(name, LIMIT_NAME) U64(map_epoch)

/* Rows of keys. frame 1: keys, u64 (key_count), sorted by key_mix. A pull with lane == UINT32_MAX
 * belongs to no lane (eval, CLI) and never waits. Else it waits until every live lane of the run
 * has reached clock(batch) - bound - 1. Reply frame 1: rows, f32 (key_count, width); absent keys
 * give their initial value, without a lane and of a sparse table zeros, and stay absent. reply:
 * clock: this pull's clock here; low: the lowest clock of the live lanes when answered (staleness =
 * clock - 1 - low); waited_ns: how long the shard held it. Without a lane those zeros are negative
 * ones, which no row consists of. */
#define WIRE_PULL(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(table) U32(lane) U64(batch) U32(bound) U32(key_count) U64(map_epoch)
#define WIRE_PULL_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(key_count) U32(width) U64(clock) U64(low) U64(waited_ns)

/* Gradients of batch `to` of a lane for the tablets [tablet_first, tablet_first + tablet_count) of
 * the table; for these the batches in (from, to) had no keys. frame 1: keys, u64 (key_count),
 * unique, sorted by key_mix; frame 2: gradients, f32 (key_count, schema_push_floats: the gradient,
 * then with statistics the key's shows and clicks). Zero keys = a tick. A reply says how many
 * tablets took it and skipped it, and the lowest mark of the covered tablets; status GAP: nothing
 * was done, send on from `mark` + 1; FENCED, OLD_RUN, NOT_LEADER, NOT_FINITE, NO_SPACE likewise.
 * `mark` is filled in for GAP too. lr_scale multiplies the table's learning rate for this push.
 * worker, task: whose it is, for messages and the quarantine alone. event_time: seconds since 1970,
 * the median of the batch's examples; 0: none is known. */
#define WIRE_PUSH(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(table) U32(lane) U64(generation) U64(from) U64(to) U32(tablet_first) \
    U32(tablet_count) F32(lr_scale) U32(key_count) U64(map_epoch) U64(worker) U64(task) \
    U32(event_time)
#define WIRE_PUSH_REPLY(U32, U64, I32, F32, F64, B, STR) U32(applied) U32(skipped) U64(mark)

/* ---- control plane: coordinator -> shard ----------------------------------------------------- */

/* frame 1: field_rule, (field_rule_count). Creating it again with the same schema is fine. */
#define WIRE_TABLE_CREATE(U32, U64, I32, F32, F64, B, STR) \
    STR(name, LIMIT_NAME) U32(table) U32(dense) U32(width) U32(zero_first) U32(tablet_bits) \
    U32(tablet_first) U64(seed) U32(init_kind) F32(init_scale) U32(opt_kind) F32(lr) F32(beta1) \
    F32(beta2) F32(eps) F32(initial) F32(l1) F32(l2) F32(beta) F32(decay) U32(fixed_lr) \
    ROW_RULES(U32, F32) U32(field_rule_count) U32(values)
#define WIRE_TABLE_CREATE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* Opens a run with `lanes` lanes on this shard; mode: enum wire_mode. tables: bit t says that the
 * run pushes to table t, so that it counts in the run's clocks and lowest marks; 0: all tables.
 * Journalled. All marks start at 0. Again: no change. must_exist: it was open here before, so
 * nothing is made: NOT_FOUND where it is not. */
#define WIRE_RUN_OPEN(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(lanes) U32(mode) U64(tables) B(must_exist)
#define WIRE_RUN_OPEN_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)
#define WIRE_RUN_DROP(U32, U64, I32, F32, F64, B, STR) U64(run)
#define WIRE_RUN_DROP_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)

/* Raises a lane's generation; live says whether the lane counts in the clock from now on. One that
 * becomes live and is placed has clock `clock` at batch `at`, the same on every shard; not placed:
 * its mark under bsp, else the smallest clock of the live lanes at its mark. Journalled before the
 * reply. A generation below the lane's is FENCED; the same one again answers
 * anew, and makes no lane less live. Reply: the lane's lowest mark over all tablets that this shard
 * leads; under bsp the newest clock of any lane here; the smallest clock of the live lanes here (0:
 * none). */
#define WIRE_FENCE(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(lane) U64(generation) B(live) B(placed) U64(at) U64(clock)
#define WIRE_FENCE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(mark) U64(high) U64(low)
/* The fences of a run as they stand, to a shard that has come back: until it has them it takes no
 * push of a run that it found in its folder. frame 1: wire_lane_fence,
 * (lane_count), of lanes that were ever fenced. */
#define WIRE_FENCES(U32, U64, I32, F32, F64, B, STR) U64(run) U32(lane_count)
#define WIRE_FENCES_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)

/* frame 1: u16 shard of each global tablet number. Kept on disk before it is answered. Refused
 * (CONFIG): the map of another cluster, one older than the shard has, another one of the same
 * epoch, and one that would take tablets away that have rows or marks here. */
#define WIRE_MAP_SET(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) U32(tablet_count) U64(cluster_high) U64(cluster_low)
#define WIRE_MAP_SET_REPLY(U32, U64, I32, F32, F64, B, STR) U64(map_epoch)
/* The map that a shard keeps: a coordinator that has lost its own, or has an older one, takes it.
 * Reply frame 1 as in MAP_SET. */
#define WIRE_MAP_HELD(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_MAP_HELD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(map_epoch) U32(tablet_count)

/* What the numbers in the keys mean (proto/job/legend.h). frame 1: the line, without its end. Kept
 * on disk before it is answered, so before any row of a new number is pushed. Refused (CONFIG): an
 * older version than the shard has, and another line of the same version. */
#define WIRE_NAMES_SET(U32, U64, I32, F32, F64, B, STR) \
    U64(version) U64(cluster_high) U64(cluster_low)
#define WIRE_NAMES_SET_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)
/* Those that a shard keeps, for a coordinator that has lost its own. Reply frame 1 as in NAMES_SET,
 * empty with version 0: it knows none. */
#define WIRE_NAMES_HELD(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_NAMES_HELD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)

/* What of logs the tables have learnt: a head (server/coord/taken.h) and names as nameset.h has
 * them; a shard reads neither. frame 1: both. Shard 0 keeps them on disk before it answers, so
 * before any row of theirs is pushed. Refused (CONFIG): an older version than the shard has. */
#define WIRE_TAKEN_BYTES_MAX (LIMIT_FRAME_BYTES - 4096u)
#define WIRE_TAKEN_SET(U32, U64, I32, F32, F64, B, STR) \
    U64(version) U64(cluster_high) U64(cluster_low)
#define WIRE_TAKEN_SET_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)
/* Those that a shard keeps, for a coordinator that has lost its own. Reply frame 1 as in TAKEN_SET,
 * empty with version 0: it knows none. */
#define WIRE_TAKEN_HELD(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_TAKEN_HELD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)

/* Who may come, as the coordinator's file of it says (proto/net/keylist.h). frame 1: its text.
 * version: in its high half a number of the coordinator's process, in its low half counted up by
 * each list: of one process a lower one is not taken again. */
#define WIRE_KEYLIST(U32, U64, I32, F32, F64, B, STR) U64(version)
#define WIRE_KEYLIST_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)

/* The cut: HOLD queues pushes and notes sequence and the marks of run `run` (OLD_RUN where it is
 * not open; 0: the cut is of no run, and cannot be restored); GO makes the shard's part of cut
 * `cut` and lets pushes go on at once; its reply comes when the part is complete on disk. HOLD
 * alone ends by itself after 10 s. ahead: nothing is held yet; rows are written while pushes go on,
 * so that the cut brings few records along. RESTORE puts the
 * tables of the cut's run back to cut `cut` (journalled), opens run `run` with the marks of the cut
 * and drops every other run of these tables; look: the cut is read as a whole, and nothing is
 * changed. CUT_DROP deletes a cut. */
#define WIRE_HOLD(U32, U64, I32, F32, F64, B, STR) U64(cut) U64(run) B(ahead)
#define WIRE_HOLD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(sequence)
#define WIRE_GO(U32, U64, I32, F32, F64, B, STR) U64(cut)
#define WIRE_GO_REPLY(U32, U64, I32, F32, F64, B, STR) U64(sequence) U64(rows) U64(bytes)
#define WIRE_RESTORE(U32, U64, I32, F32, F64, B, STR) U64(cut) U64(run) B(look)
#define WIRE_RESTORE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)
#define WIRE_CUT_DROP(U32, U64, I32, F32, F64, B, STR) U64(cut)
#define WIRE_CUT_DROP_REPLY(U32, U64, I32, F32, F64, B, STR) U64(cut)
/* Told at every registration: of the cuts below number `below` only `keep` (0: none) is still
 * wanted; the others are deleted. No run below number `runs` is gone on with: they are dropped, but
 * for one that ROWS_GO may yet take back. tables: bit t says that table t is the job's. Cuts and
 * runs that share no table with it are another job's, and stay. 0: all tables. */
#define WIRE_CUT_KEEP(U32, U64, I32, F32, F64, B, STR) U64(below) U64(keep) U64(runs) U64(tables)
#define WIRE_CUT_KEEP_REPLY(U32, U64, I32, F32, F64, B, STR) U32(dropped)

/* Reply frame 1: u64 digest of each tablet of the table that this shard leads, in order of tablet
 * number from tablet_first; XXH3 over the tablet's rows (key, weights, state) sorted by key; an
 * empty tablet gives 0. It comes once all that it counts is on the shard's disk, whatever the
 * durability: `synced` is the sequence up to there (0: in memory). rss_peak_bytes of the process: a
 * job may end before the next beat, and the digest itself takes memory. */
#define WIRE_DIGEST(U32, U64, I32, F32, F64, B, STR) U32(table)
#define WIRE_DIGEST_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(tablet_first) U32(tablet_count) U64(rows) U64(synced) U64(rss_peak_bytes)

/* One row by key, as JSON text in reply frame 1; and the shard's own figures likewise: all of them
 * (part 0), or `gradients` alone (1). */
#define WIRE_INSPECT(U32, U64, I32, F32, F64, B, STR) U32(table) U64(key)
#define WIRE_INSPECT_REPLY(U32, U64, I32, F32, F64, B, STR) B(found)
#define WIRE_SHARD_STATUS(U32, U64, I32, F32, F64, B, STR) U32(part)
#define WIRE_SHARD_STATUS_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* Checkpoints. CUT_EXPORT: the shard puts its complete cut into the new folder path/part-PART (hard
 * links where the file system allows, else copies), each file with its checksum in the part's
 * manifest; part of parts. Again: the same answer. LOAD: the shard fills its empty tables with the
 * tablets that it leads, from all parts under `path` (as many as there were shards then), with the
 * marks of the checkpoint's run under the new number `run`, and answers when all of it is durable
 * here. lanes above 0: the run begins instead, with so many lanes, this mode and no marks. without:
 * rows that are left out, "TABLE:NUMBER" (of a field) or "TABLE:*", by name, separated by blanks.
 * tables: as RUN_OPEN's, others stay as they are. translated: what became of rows whose schema was
 * another, a sentence a line; of too many the first. */
#define WIRE_WITHOUT 2048
#define WIRE_TRANSLATED 2048
#define WIRE_CUT_EXPORT(U32, U64, I32, F32, F64, B, STR) \
    U64(cut) U32(part) U32(parts) STR(path, LIMIT_PATH)
#define WIRE_CUT_EXPORT_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows) U64(bytes)
#define WIRE_LOAD(U32, U64, I32, F32, F64, B, STR) \
    U64(run) STR(path, LIMIT_PATH) U32(lanes) U32(mode) STR(without, WIRE_WITHOUT) \
    U64(tables)
#define WIRE_LOAD_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(rows) STR(translated, WIRE_TRANSLATED)

/* Rows of a job's tables go; what: enum wire_rows. run: number of the operation, that of the run
 * which asks. tables: bit t says that table t is the job's. Asked again, also after a restart, what
 * is left of it goes. Answered when it is durable: rows that went since it was asked first, where
 * they are counted (fields). */
#define WIRE_ROWS_GO(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U64(tables) U32(what) STR(fields, WIRE_WITHOUT)
#define WIRE_ROWS_GO_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* frame 1: keys, u64 (key_count); those that the shard does not lead are passed over. action: enum
 * wire_key_action. Journalled. Reply: how many keys it changed. */
#define WIRE_KEYS(U32, U64, I32, F32, F64, B, STR) U32(table) U32(action) U32(key_count)
#define WIRE_KEYS_REPLY(U32, U64, I32, F32, F64, B, STR) U64(changed)

/* Rows and bytes by field, histograms of norms, shows and ages of the tablets led, as JSON text in
 * reply frame 1; with what_if also what would be left with another rule: least shows, least score,
 * ttl in seconds, rows in all (0: not asked). Walks the table in steps. */
#define WIRE_TABLE_STATS(U32, U64, I32, F32, F64, B, STR) \
    U32(table) B(what_if) F32(shows) F32(score) U32(ttl) U64(budget_rows)
#define WIRE_TABLE_STATS_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* Pushes in the journal, and in its archive, that changed a key; the newest `limit` of them, as
 * JSON text in reply frame 1: sequence, run, lane, generation, batch, event time, gradient norm.
 * complete: the journal reaches back to the row's first push. */
#define WIRE_BLAME(U32, U64, I32, F32, F64, B, STR) U32(table) U64(key) U32(limit)
#define WIRE_BLAME_REPLY(U32, U64, I32, F32, F64, B, STR) B(complete)

/* ---- shard -> coordinator -------------------------------------------------------------------- */

/* A shard says where it listens, at start and again every lease_ms / 3; server is the name kept in
 * its data_dir, so a server that comes back gets its shard numbers back. rss_bytes of the process;
 * free figures for `shoal status`: rows in the store (cold), rows that came from it (fetched) and
 * went there (evicted; clean: without a write), bytes of memory and disk against the shard's part
 * of the budgets (0: none), requests that wait for rows or room (parked), whether pushes are
 * refused for lack of disk.
 *
 * Where it belongs, as its folder says: the cluster (0, 0: none yet), its number there and the
 * cluster's number of shards, the epoch of the map that it keeps. What it has: tables at all
 * (holds), the newest run that is open and the newest cut, the sequence of its last record, and the
 * one up to which all is on disk (0 in memory mode: in_memory), the version of the names that it
 * keeps and the XXH3 of their line (0, 0: none). The allow-list that it goes by (KEYLIST's version;
 * 0: none yet), whether it listens on tcp without keys, and a number of its machine's start: with
 * another one power may have been gone. durability: what its file says, as enum durability, plus 1;
 * 0: not told. The reply says cluster and number; shard 4294967295: they are not known
 * yet, ask again. */
#define WIRE_SHARD_BEAT(U32, U64, I32, F32, F64, B, STR) \
    STR(server, LIMIT_NAME) U32(shard_index) U32(shard_count) STR(endpoint, 256) U64(incarnation) \
    B(ready) U64(rows) U64(row_bytes) U64(journal_bytes) U64(rss_bytes) U64(rss_peak_bytes) \
    U64(keys_pulled) U64(keys_pushed) U64(skipped) U64(cold_rows) U64(fetched) U64(evicted) \
    U64(evicted_clean) U64(memory_bytes) U64(memory_max) U64(disk_bytes) U64(disk_max) U64(parked) \
    B(disk_short) U64(cluster_high) U64(cluster_low) U32(number) U32(shards) U64(map_epoch) \
    B(holds) B(in_memory) U64(newest_run) U64(newest_cut) U64(sequence) U64(synced) \
    U64(names_version) U64(names_digest) U64(keylist) B(insecure) U64(boot) U32(durability) \
    U64(taken_version)
#define WIRE_SHARD_BEAT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(shard) U64(map_epoch) U32(lease_ms) U64(cluster_high) U64(cluster_low) U32(shards)
#define WIRE_NO_SHARD UINT32_MAX

/* A server says how long the disk of its data_dir has not answered, in seconds, each few seconds;
 * and once 0, when it answers again. The main thread says it: the shards, which beat, hang. */
#define WIRE_SERVER_DISK(U32, U64, I32, F32, F64, B, STR) STR(server, LIMIT_NAME) U32(seconds)
#define WIRE_SERVER_DISK_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* ---- worker -> coordinator ------------------------------------------------------------------- */

/* Joins the job (or learns that there is none yet: AGAIN). kernel: what decides the bits of a
 * matrix product, compared between workers under bsp. For people: device (and its libraries), and
 * why this backend was taken. Reply frame 1: the job file as submitted (YAML text, --set applied);
 * the worker number is never used again. pass: what the worker shows with whatever it asks
 * afterwards, on this connection or a later one; nobody else knows it. job: its number, which no
 * other job of this coordinator has, though its file be the same. */
/* as long as the longest text of a device: a text cut short may equal another */
#define WIRE_KERNEL 192
#define WIRE_DEVICE 256
#define WIRE_WHY (ERR_TEXT_MAX + 64)
#define WIRE_WORKER_JOIN(U32, U64, I32, F32, F64, B, STR) \
    STR(name, LIMIT_NAME) U32(pid) STR(kernel, WIRE_KERNEL) STR(backend, 32) U32(lanes_max) \
    STR(device, WIRE_DEVICE) STR(why, WIRE_WHY)
#define WIRE_WORKER_JOIN_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(worker) U64(run) U32(lanes) U32(lease_ms) U32(tables) U32(shards) U64(map_epoch) U64(pass) \
    U64(job) U64(wall_s)

/* A worker that joined and learnt of no tables (`tables` 0 in the reply) declares all of the job's
 * after INDEX: only the model knows them. The first declaration stands; another one must be equal
 * bit for bit, else SCHEMA. declared_total: how many tables the job has. frame 1 as in
 * TABLE_CREATE. */
#define WIRE_TABLE_DECLARE(U32, U64, I32, F32, F64, B, STR) \
    WIRE_TABLE_CREATE(U32, U64, I32, F32, F64, B, STR) U32(declared_total)
#define WIRE_TABLE_DECLARE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* Before that it says by what names it knows fields and tensors. frame 1: a line as legend_put
 * writes it, with the numbers that follow from the job's text. CONFIG, for all: the tables that are
 * there, or another worker's input, have others. */
#define WIRE_LEGEND(U32, U64, I32, F32, F64, B, STR) U64(pass)
#define WIRE_LEGEND_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* The text of the job that made the tables that the servers hold; AGAIN: there was none yet. Reply
 * frame 1: YAML. */
#define WIRE_JOB_TEXT(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_JOB_TEXT_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)

/* The tables that the servers hold, and the map. reads: the asker reads these tables, whatever job
 * runs; without it a worker of the job at hand waits until that has made its own. Both count as the
 * job does that made the tables: its table 0 comes first, and its tablet 0. TABLE: reply frame 1 as
 * in TABLE_CREATE. MAP: `tables` has a bit for each number by which shards know one of these
 * tables (wire_table_number); PULL, PUSH and all else that a shard is asked name a table by it.
 * Reply frame 1: u16 shard of each tablet of these tables; frame 2: one LF-ended line a shard
 * number: its endpoint, a blank, and the public key that it has shown to the coordinator, if it has
 * one; empty while unknown. */
#define WIRE_TABLE_GET(U32, U64, I32, F32, F64, B, STR) U32(table)
#define WIRE_TABLE_GET_REPLY(U32, U64, I32, F32, F64, B, STR) \
    WIRE_TABLE_CREATE(U32, U64, I32, F32, F64, B, STR)
#define WIRE_MAP_GET(U32, U64, I32, F32, F64, B, STR) U64(map_epoch) B(reads)
#define WIRE_MAP_GET_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) U32(tablet_count) U32(shards) U64(tables)

/* Renews the worker's lease every lease_ms / 3; the worker's own figures travel along (sums since
 * it joined). The reply tells how many lanes it holds; UNAVAILABLE in status: the worker is no
 * longer known (its lease ran out): stop writing, join again. Reply frame 1: nothing; state: enum
 * wire_job_state; list: of a log that grows, ask OBJECTS. What the figures mean:
 * worker/train/stats.h. clock_ahead_s: by how much the worker's calendar is ahead of the one that
 * WORKER_JOIN's reply told, wall_s (seconds since 1970; 0: it knows none). */
#define WIRE_WORKER_BEAT(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U64(examples) U64(batches) U64(skipped) U64(recomputed) U64(bad_lines) \
    U64(keys_pulled) U64(keys_pushed) F64(read_s) F64(pull_s) F64(compute_s) F64(push_s) \
    F64(wait_s) U64(skipped_steps) U64(cache_hits) U64(cache_misses) F64(held_s) F64(file_busy_s) \
    F64(parse_busy_s) F64(pull_busy_s) F64(compute_busy_s) F64(push_busy_s) F64(read_least_s) \
    F64(pull_least_s) F64(push_least_s) U64(clamped_times) U64(outside_partition) \
    U64(read_bytes) U32(waits) U32(late_shard) U32(late_ms) B(unnamed) U32(slow_shard) \
    U32(slow_us) U32(usual_us) I32(clock_ahead_s)
#define WIRE_WORKER_BEAT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(state) U32(lanes_held) B(list)

/* A difference of clocks that is told. */
static inline bool wire_clock_apart(int32_t ahead_s)
{
    return ahead_s > 60 || ahead_s < -60;
}

/* What the input is: the worker that is told to (LANE_NEXT answers kind INDEX) indexes all files of
 * a split and reports. All workers must find the same digest. split: enum wire_split. A failure to
 * read travels as fail_status and text. */
#define WIRE_INDEX_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(split) U64(rows) U64(digest) I32(fail_status) STR(fail_text, ERR_TEXT_MAX) \
    STR(warning, ERR_TEXT_MAX)
#define WIRE_INDEX_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* What the worker saw of data.train's fields before INDEX_DONE (worker/data/profile.h): the first
 * that comes stands. frame 1: JSON text, at most WIRE_PROFILE_MAX bytes. */
#define WIRE_PROFILE_MAX (1u << 20)
#define WIRE_PROFILE(U32, U64, I32, F32, F64, B, STR) U64(pass)
#define WIRE_PROFILE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* INDEX_DONE of a replay's data.train that could be read: with its windows of event time, which are
 * an epoch, one after the other. frame 1: struct wire_window (windows). */
struct wire_window {
    uint64_t rows;
    uint32_t number, first; /* zone_number of its event times; the first one, in seconds */
};
#define WIRE_WINDOWS_MAX (1u << 16)
#define WIRE_WINDOWS(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U64(rows) U64(digest) U32(windows) STR(warning, ERR_TEXT_MAX)
#define WIRE_WINDOWS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* A log of objects: before a worker makes its model it asks (count 0) for the first line of one.
 * The reply: head (frame 1; empty where the format needs none) of a log of `count` objects, or
 * `list`: nobody knows yet, list them and say (count above 0; frame 1: their lines as the worker's
 * object.h has them, LF-ended, in byte order; frame 2: the head), or AGAIN: another worker is at
 * it. The list that was told first stands. Each split of objects has its own; only data.train has a
 * head, and of what the job does not use there is no list: count 0.
 * Of a log that grows (data.objects.grow) it is listed again and again: whom WORKER_BEAT's reply
 * tells so asks with `due`, and says what is there with `listed`: the first lines that fit of those
 * whose names are none of TAKEN's, with the reply's token; count may be 0. gone: bytes behind the
 * head in frame 2, a bit for each of TAKEN's names, in their order: the list has it no more. The
 * lister leaves them out as long as there is much room for names. fail_status: it could not be
 * listed. */
#define WIRE_OBJECTS(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(count) B(due) B(listed) U64(token) I32(fail_status) \
    STR(fail_text, ERR_TEXT_MAX) U32(split) U32(gone)
#define WIRE_OBJECTS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(count) B(list) U64(token)
/* Of a log that grows, before it is listed: the names (nameset.h) of what its tables have learnt.
 * digest: nameset_digest of those that the asker knows. Reply frame 1: struct nameset_item (count);
 * none where these are the same. */
#define WIRE_TAKEN(U32, U64, I32, F32, F64, B, STR) U64(pass) U64(digest)
#define WIRE_TAKEN_REPLY(U32, U64, I32, F32, F64, B, STR) U32(count) U64(digest)
/* Before INDEX_DONE, or WINDOWS, of data.train of files: their names. frame 1: struct nameset_item
 * (count). unknown: a part of the input is a stream, which has no name. */
#define WIRE_FILES(U32, U64, I32, F32, F64, B, STR) U64(pass) U32(count) B(unknown)
#define WIRE_FILES_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* INDEX_DONE of one object. frame 1: of a replay its windows, as WINDOWS has them: struct
 * wire_window (windows); else there are none. salt: hash_bytes(its name, 1), for another one may
 * have its number by now. */
#define WIRE_OBJECT_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(object) U64(rows) U64(digest) I32(fail_status) STR(fail_text, ERR_TEXT_MAX) \
    STR(warning, ERR_TEXT_MAX) U32(windows) U64(salt) U32(split)
#define WIRE_OBJECT_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* "What next?" A worker asks without a lane (lane == UINT32_MAX) whenever it has a free compute
 * slot, and with a lane when the lane's task is fully pushed (batch = its last acknowledged batch).
 * Reply, kind: enum wire_next:
 *   WAIT   ask again after retry_ms (or on the next beat)
 *   INDEX  index `split`, then INDEX_DONE
 *   TASK   train: lane, generation; batches first_batch .. first_batch + batch_count - 1 of the
 *          lane come from the rows at positions [position, position + rows) of epoch's order
 *          (worker/data/index.h), `batch` of the job file each; of these, batches <= mark are done
 *          everywhere (skip them). Batches beyond ceil(rows / batch) are empty (bsp pads lanes to
 *          equal length: they are ticks).
 *   EVAL   a read-only task: positions [position, position + rows) of split in file order; then
 *          EVAL_DONE with `task`
 *   LEAVE  the lane is no longer this worker's (fenced): drop it without a write
 *   END    the job is over: send a last beat and WORKER_LEAVE, exit 0
 * object: 0, or the work is of that object of `split` alone, counted from 1; name and what stands
 * behind it in its line, a blank for the tab within that, for a string has none. Of TASK and EVAL
 * positions are of its own order, and rows and digest must be those that the worker finds. unseen:
 * EVAL_DONE may tell of values without a row.
 * run: the run whose rows TASK and EVAL mean; a restore opens a new one, so the worker goes by the
 * newest answer. In a request without a lane `batch` is the number of lanes that this worker knows
 * it holds: a grant whose answer was lost is then answered again. A worker that is told of a lane
 * that it runs already does nothing. time_limit: of TASK, event times later than this count as
 * this one; 0: none does. */
#define WIRE_LANE_NEXT(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(lane) U64(generation) U64(batch)
#define WIRE_LANE_NEXT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(kind) U32(retry_ms) U32(lane) U64(generation) U64(mark) U64(task) U32(epoch) U32(split) \
    U64(position) U64(rows) U64(first_batch) U32(batch_count) F32(lr_scale) U64(run) U32(object) \
    STR(object_name, LIMIT_PATH) STR(object_mark, LIMIT_PATH) U64(object_rows) U64(object_digest) \
    B(unseen) U32(time_limit)

/* One finished task of training: what the report needs. Losses and weights are sums over the task's
 * examples; batches: those with examples; skipped: of these, whose gradients overflowed (precision
 * fp16); norms of the gradients, before clipping, are sums over the `measured` batches of which
 * they are known. lr_scale: what the learning rates were multiplied by at the last batch. drawn:
 * lines that data.negatives' draw took whatever is in them, malformed ones (bad_lines) among them;
 * without negatives all. refused: batches of which a shard refused a push for its values, which
 * then was pushed as a tick; what it said of the first. frame 1: u64 histogram, (64): pulls by
 * clocks of staleness, the last cell all beyond. frame 2: f64 (tasks): the sum of each label's
 * loss; tasks here is the labels of an example. Then the examples as they were scored before they
 * were learnt (proto/metric/metric_tally.h): sums (tasks) and cells (cells) of them; and by the
 * fields of evaluate.by (metric_by.h): heads (by_count), values (values), sums (values, tasks),
 * cells of theirs (value_cells). clamped: examples whose event time was past the task's time_limit;
 * first_time, last_time: the range of event times as they stand in the log; 0: it has none. */
#define WIRE_TALLY_SUMS 16u /* bytes */
#define WIRE_TALLY_CELL 24u
#define WIRE_TALLY_CELLS (LIMIT_TASKS * 2049u)
#define WIRE_BY_HEAD 16u
#define WIRE_BY_VALUE 32u
#define WIRE_BY_SUMS 24u
#define WIRE_BY_CELL 16u
#define WIRE_BY_VALUES (LIMIT_BY * 32u)
#define WIRE_BY_CELLS 65536u
#define WIRE_TASK_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(lane) U64(generation) U64(task) U64(examples) U64(bad_lines) F64(loss_sum) \
    STR(bad_where, 256) F64(weight_sum) U64(batches) U64(skipped) F64(dense_norm_sum) \
    F64(row_norm_sum) F32(lr_scale) U32(tasks) U64(measured) U64(drawn) U64(refused) \
    STR(refused_where, ERR_TEXT_MAX) U32(cells) U32(by_count) U32(values) U32(value_cells) \
    U64(clamped) U32(first_time) U32(last_time)
#define WIRE_TASK_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* Predictions of an evaluation task, in file order. frame 1: scores f32 (examples, tasks), then
 * labels f32 (examples, tasks). frame 2: u64 (examples) of evaluate.group where `grouped`, then u64
 * (examples, by_count) of the fields of evaluate.by; then struct wire_unseen (fields): 0: not told,
 * or there was no example. */
struct wire_unseen {
    uint64_t field, values, absent; /* its number in keys; values looked up; without a row */
};
_Static_assert(sizeof(struct wire_unseen) == 24, "wire_unseen is a wire format");
#define WIRE_EVAL_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U64(task) U32(examples) U64(bad_lines) U32(tasks) B(grouped) U32(by_count) \
    U32(fields)
#define WIRE_EVAL_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* A worker leaves in good order, or says why it cannot go on (status and text end the job when
 * fatal). */
#define WIRE_WORKER_LEAVE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) B(fatal) I32(fail_status) STR(fail_text, ERR_TEXT_MAX)
#define WIRE_WORKER_LEAVE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* ---- CLI -> coordinator ---------------------------------------------------------------------- */

/* frame 1: job file (YAML text). workers: how many to wait for before lanes are dealt (0: none).
 * from: folder of a checkpoint that the job goes on from, or, with `start`, with whose tables it
 * begins ("fleet": those that the servers hold); empty: with none. Reply: the run. */
#define WIRE_SUBMIT(U32, U64, I32, F32, F64, B, STR) U32(workers) STR(from, LIMIT_PATH) B(start)
#define WIRE_SUBMIT_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)
/* Reply frame 1: JSON text: servers, workers, lanes, progress; and, once the job is over, the
 * report. */
#define WIRE_STATUS(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_STATUS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(state) I32(job_status)
#define WIRE_REPORT(U32, U64, I32, F32, F64, B, STR) U64(run)
#define WIRE_REPORT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(state) I32(job_status) STR(job_text, ERR_TEXT_MAX)
/* Jobs that ran here. Reply frame 1: JSON text: a list, the newest last (server/coord/jobs.h). */
#define WIRE_JOBS(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_JOBS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* Ends the job (now: true) or the process. ends: it is a job that will end, and well. */
#define WIRE_STOP(U32, U64, I32, F32, F64, B, STR) B(job_only)
#define WIRE_STOP_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused) B(ends)

/* Makes a checkpoint while the job goes on; answered when it is complete (or refused). name: empty:
 * a number. Reply: its folder. */
#define WIRE_CHECKPOINT(U32, U64, I32, F32, F64, B, STR) STR(name, LIMIT_NAME)
#define WIRE_CHECKPOINT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    STR(path, LIMIT_PATH) U64(rows) U64(bytes)
/* Removes a finished checkpoint from the job's checkpoint.dir; answered when its name has gone (or
 * it is refused). Reply: the folder that it had. */
#define WIRE_CHECKPOINT_REMOVE(U32, U64, I32, F32, F64, B, STR) STR(name, LIMIT_NAME)
#define WIRE_CHECKPOINT_REMOVE_REPLY(U32, U64, I32, F32, F64, B, STR) STR(path, LIMIT_PATH)
/* Rows of a field, or of one of the network's tensors, that the last job does not have any more go
 * from all servers, and its number may be given again. Answered when that is done (or refused). */
#define WIRE_DROP(U32, U64, I32, F32, F64, B, STR) STR(table, LIMIT_NAME) STR(field, 96)
#define WIRE_DROP_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)
/* Who computed batches, and from which rows of the input. frame 1: struct wire_batch_name (count).
 * Reply frame 1: JSON text, a list in the same order: worker, task, epoch, position and rows of the
 * input; null where it is not known any more. */
#define WIRE_WHO(U32, U64, I32, F32, F64, B, STR) U64(run) U32(count)
#define WIRE_WHO_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* Messages that came after WIRE_OLDEST, or mean something else since: an older release refuses them
 * by name. X(NAME, version) */
#ifndef WIRE_SINCE
#define WIRE_SINCE(X)
/* Fields that came later than their message: those past its first `count`. X(NAME or NAME_REPLY,
 * count) */
#define WIRE_LATER(X)
#endif

/* X(NAME, wire number, raw frames of the request, raw frames of a good reply) */
#define WIRE_MAP(X)                                                                                \
    X(HELLO, 1, 0, 0)                                                                              \
    X(PULL, 2, 1, 1)                                                                               \
    X(PUSH, 3, 2, 0)                                                                               \
    X(TABLE_CREATE, 4, 1, 0)                                                                       \
    X(RUN_OPEN, 5, 0, 0)                                                                           \
    X(RUN_DROP, 6, 0, 0)                                                                           \
    X(FENCE, 7, 0, 0)                                                                              \
    X(MAP_SET, 8, 1, 0)                                                                            \
    X(HOLD, 9, 0, 0)                                                                               \
    X(GO, 10, 0, 0)                                                                                \
    X(RESTORE, 11, 0, 0)                                                                           \
    X(CUT_DROP, 12, 0, 0)                                                                          \
    X(DIGEST, 13, 0, 1)                                                                            \
    X(INSPECT, 14, 0, 1)                                                                           \
    X(SHARD_STATUS, 15, 0, 1)                                                                      \
    X(SHARD_BEAT, 16, 0, 0)                                                                        \
    X(WORKER_JOIN, 17, 0, 1)                                                                       \
    X(TABLE_GET, 18, 0, 1)                                                                         \
    X(MAP_GET, 19, 0, 2)                                                                           \
    X(WORKER_BEAT, 20, 0, 0)                                                                       \
    X(INDEX_DONE, 21, 0, 0)                                                                        \
    X(LANE_NEXT, 22, 0, 0)                                                                         \
    X(TASK_DONE, 23, 2, 0)                                                                         \
    X(EVAL_DONE, 24, 2, 0)                                                                         \
    X(WORKER_LEAVE, 25, 0, 0)                                                                      \
    X(SUBMIT, 26, 1, 0)                                                                            \
    X(STATUS, 27, 0, 1)                                                                            \
    X(REPORT, 28, 0, 1)                                                                            \
    X(STOP, 29, 0, 0)                                                                              \
    X(TABLE_DECLARE, 30, 1, 0)                                                                     \
    X(CUT_EXPORT, 31, 0, 0)                                                                        \
    X(LOAD, 32, 0, 0)                                                                              \
    X(KEYS, 33, 1, 0)                                                                              \
    X(TABLE_STATS, 34, 0, 1)                                                                       \
    X(BLAME, 35, 0, 1)                                                                             \
    X(CHECKPOINT, 36, 0, 0)                                                                        \
    X(WHO, 37, 1, 1)                                                                               \
    X(CUT_KEEP, 39, 0, 0)                                                                          \
    X(MAP_HELD, 40, 0, 1)                                                                          \
    X(LEGEND, 41, 1, 0)                                                                            \
    X(JOB_TEXT, 42, 0, 1)                                                                          \
    X(NAMES_SET, 43, 1, 0)                                                                         \
    X(NAMES_HELD, 44, 0, 1)                                                                        \
    X(ROWS_GO, 45, 0, 0)                                                                           \
    X(DROP, 47, 0, 0)                                                                              \
    X(KEYLIST, 48, 1, 0)                                                                           \
    X(WINDOWS, 49, 1, 0)                                                                           \
    X(OBJECTS, 50, 2, 1)                                                                           \
    X(OBJECT_DONE, 51, 1, 0)                                                                       \
    X(FENCES, 52, 1, 0)                                                                            \
    X(PROFILE, 53, 1, 0)                                                                           \
    X(TAKEN_SET, 54, 1, 0)                                                                         \
    X(TAKEN_HELD, 55, 0, 1)                                                                        \
    X(TAKEN, 56, 0, 1)                                                                             \
    X(FILES, 57, 1, 0)                                                                             \
    X(SERVER_DISK, 58, 0, 0)                                                                       \
    X(CHECKPOINT_REMOVE, 59, 0, 0)                                                                 \
    X(JOBS, 60, 0, 1)

/* Frames of items that a field of the header counts: X(NAME, frame, count, bytes of an item, most
 * items). wire_decode refuses those that do not agree. What else there is to agree on, or is not as
 * simple, is in wire.c. */
#define WIRE_TABLETS_MAX ((uint64_t)LIMIT_TABLES * LIMIT_TABLETS)
#define WIRE_COUNTED(X)                                                                            \
    X(PULL, 1, key_count, 8, LIMIT_KEYS)                                                           \
    X(PUSH, 1, key_count, 8, LIMIT_KEYS)                                                           \
    X(TABLE_CREATE, 1, field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS)                  \
    X(TABLE_DECLARE, 1, field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS)                 \
    X(MAP_SET, 1, tablet_count, 2, WIRE_TABLETS_MAX)                                               \
    X(FENCES, 1, lane_count, sizeof(struct wire_lane_fence), LIMIT_LANES)                          \
    X(KEYS, 1, key_count, 8, LIMIT_KEYS)                                                           \
    X(WHO, 1, count, sizeof(struct wire_batch_name), WIRE_WHO_MAX)                                 \
    X(WINDOWS, 1, windows, sizeof(struct wire_window), WIRE_WINDOWS_MAX)                           \
    X(FILES, 1, count, sizeof(struct nameset_item), LIMIT_OBJECTS)                                 \
    X(OBJECT_DONE, 1, windows, sizeof(struct wire_window), WIRE_WINDOWS_MAX)
#define WIRE_COUNTED_REPLY(X)                                                                      \
    X(TABLE_GET, 1, field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS)                     \
    X(MAP_GET, 1, tablet_count, 2, WIRE_TABLETS_MAX)                                               \
    X(MAP_HELD, 1, tablet_count, 2, WIRE_TABLETS_MAX)                                              \
    X(TAKEN, 1, count, sizeof(struct nameset_item), NAMESET_MAX)                                   \
    X(DIGEST, 1, tablet_count, 8, LIMIT_TABLETS)

enum wire_type {
    WIRE_TYPE_NONE = 0,
#define X(name, number, request_frames, reply_frames) WIRE_TYPE_##name = (number),
    WIRE_MAP(X)
#undef X
};

enum wire_mode { WIRE_ASYNC = 0, WIRE_SSP = 1, WIRE_BSP = 2 };
enum wire_split { WIRE_TRAIN = 0, WIRE_VALID = 1, WIRE_TEST = 2 };
enum wire_next {
    WIRE_NEXT_WAIT = 0,
    WIRE_NEXT_INDEX,
    WIRE_NEXT_TASK,
    WIRE_NEXT_EVAL,
    WIRE_NEXT_LEAVE,
    WIRE_NEXT_END
};
enum wire_job_state {
    WIRE_JOB_NONE = 0,
    WIRE_JOB_WAITING,
    WIRE_JOB_INDEX,
    WIRE_JOB_TRAIN,
    WIRE_JOB_EVAL,
    WIRE_JOB_DONE,
    WIRE_JOB_FAILED
};

/* all: tables, runs, marks and cuts, before run `run` is opened; once per run. BUSY: a run that
 * shares no table with `tables` is open. fields: all rows of those in `fields` (as LOAD's without;
 * tables that are not here are passed over). With a run, the one that begins them anew: nothing is
 * done once it was opened here, and names of their keys stay. run 0: names of their keys go too.
 * loaded: what a LOAD for `run`, or for an older run that never trained, did or does in `tables`:
 * these are empty again. A LOAD under way is called off, and `run` is dropped in any case. */
enum wire_rows { WIRE_ROWS_ALL = 0, WIRE_ROWS_FIELDS = 1, WIRE_ROWS_LOADED = 2 };

/* erase: the row goes and the key is blocked; block: no row is made for it; allow: it is let in
 * whatever the table's admission says; reset: neither blocked nor allowed any more. scrub, of
 * erased keys: journal, archive and store are rewritten so that nothing of their rows and gradients
 * is left; answered when it is done, `changed` is then the journal's sequence up to which that is
 * so. BUSY: another one is under way. */
enum wire_key_action {
    WIRE_KEY_ERASE = 0,
    WIRE_KEY_BLOCK = 1,
    WIRE_KEY_ALLOW = 2,
    WIRE_KEY_RESET = 3,
    WIRE_KEY_SCRUB = 4
};
struct wire_batch_name {
    uint64_t generation, batch;
    uint32_t lane, zero;
};
_Static_assert(sizeof(struct wire_batch_name) == 24, "wire_batch_name is a wire format");
#define WIRE_WHO_MAX 4096u
#define WIRE_LIVE 1u
#define WIRE_PLACED 2u
struct wire_lane_fence {
    uint64_t generation;
    uint32_t lane, live; /* live: WIRE_LIVE, with it WIRE_PLACED */
    uint64_t at, clock; /* of one that is placed; as in FENCE */
};
_Static_assert(sizeof(struct wire_lane_fence) == 32, "wire_lane_fence is a wire format");

/* clang-format on */

/* struct wire_hello { uint32_t version; char role[16]; ... }; struct wire_hello_reply; and so on
 * for every type. */
#define WIRE_F_U32(n) uint32_t n;
#define WIRE_F_U64(n) uint64_t n;
#define WIRE_F_I32(n) int32_t n;
#define WIRE_F_F32(n) float n;
#define WIRE_F_F64(n) double n;
#define WIRE_F_B(n) bool n;
#define WIRE_F_STR(n, capacity) char n[capacity];
#define WIRE_STRUCT(LIST)                                                                          \
    {                                                                                              \
        LIST(WIRE_F_U32, WIRE_F_U64, WIRE_F_I32, WIRE_F_F32, WIRE_F_F64, WIRE_F_B, WIRE_F_STR)     \
    }
#define X(name, number, request_frames, reply_frames)                                              \
    struct wire_##name WIRE_STRUCT(WIRE_##name);                                                   \
    struct wire_##name##_reply WIRE_STRUCT(WIRE_##name##_REPLY);
WIRE_MAP(X)
#undef X

/* A decoded header. */
struct wire {
    enum wire_type type;
    bool reply;
    uint64_t id;
    int status;               /* replies only */
    char error[ERR_TEXT_MAX]; /* replies with a status: one sentence */
    union {
#define X(name, number, request_frames, reply_frames)                                              \
    struct wire_##name name;                                                                       \
    struct wire_##name##_reply name##_reply;
        WIRE_MAP(X)
#undef X
    } u;
};

/* Decodes frame 0 of m and checks the frame count, sizes against limits, and every count against
 * the bytes of its frame (keys 8 bytes each, rows and gradients a multiple of 4 per key, and so
 * on). Never allocates more than LIMIT_UNPACK_BYTES. 0 or MALFORMED, TOO_BIG, VERSION. */
int wire_decode(const struct msg *m, struct wire *out, struct err *e);
/* A new message whose frame 0 is the packed header; raw frames are added by the caller with
 * msg_add. NULL when out of memory. */
struct msg *wire_encode(const struct wire *w);
/* A reply to request: same id and type; the caller fills u.NAME_reply, then encodes. */
void wire_reply_to(const struct wire *request, int status, struct wire *out);
/* A refusal in one go: status and sentence. */
struct msg *wire_refusal(const struct wire *request, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *wire_type_name(enum wire_type t); /* "PULL" */

/* The number by which shards know a job's table, counted within the job: the place of the index-th
 * bit of `tables` that is set (MAP_GET); LIMIT_TABLES: the job has no such table. */
uint32_t wire_table_number(uint64_t tables, uint32_t index);
/* struct table_schema <-> TABLE_CREATE (field_rule goes in and out of the raw frame). */
void wire_schema_to(const struct table_schema *s, struct wire_TABLE_CREATE *out);
int wire_schema_from(const struct wire_TABLE_CREATE *in, const struct frame *field_rule,
                     struct table_schema *out, struct err *e);

/* "protobuf-c 1.4.1" */
const char *wire_library(void);

#endif
