/* wire.h: the messages. All code outside proto/wire uses these plain structs; protobuf-c is visible
 * only in wire.c and wire_shape.c.
 *
 * A message is a header (proto2, at most 64 KiB) and the exact number of raw little-endian frames
 * that WIRE_MAP gives for its type. A request carries an `id` of the sender's choice. The reply has
 * the same id, the type of the request with `reply` set, and a status (0 or SHOAL_E_*). A reply
 * with a status other than 0 has no frames, and its text is in `error`. Where such a reply carries
 * more, the message's comment says so.
 *
 * Fields: every message struct is made from one list, from which struct, encoder, decoder, tests
 * and proto file are generated, so that they always agree. Types are U32, U64, I32, F32, F64,
 * B(ool) and STR (name, capacity with NUL; control characters arrive as '?'). A field's number is
 * its place in the list, so new fields go to the end.
 *
 * Neighbouring releases can talk: the newer one understands the older one's messages and sends
 * messages that the older one understands. The version in a header is not the sender's release but
 * the oldest release that can take this message (WIRE_SINCE). An older release does not know later
 * fields (WIRE_LATER). A missing field is 0, and 0 must mean what the older release did. A release
 * drops a message of more frames than its LIMIT_FRAMES unread, without an answer: where that limit
 * grows, WIRE_OLDEST grows too, so that peers refuse each other by name before they send such a
 * message. */
#ifndef PROTO_WIRE_WIRE_H
#define PROTO_WIRE_WIRE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/msg.h"
#include "proto/base/nameset.h"
#include "proto/base/positions.h"
#include "proto/base/table_set.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef WIRE_VERSION     /* tests/wire/later.h simulates a later release */
#define WIRE_VERSION 11u /* the newest protocol version that this release takes */
#define WIRE_OLDEST 11u  /* the release before this one, once there is one */
#endif

/* Batches are numbered from 1 in each lane; mark 0: none yet. */
#define WIRE_BOUND_ASYNC UINT32_MAX /* `bound` of a pull that never waits */

/* A set of tables (proto/base/table_set.h) is four fields: its words. WIRE_TABLES_OF is the set of
 * a message; WIRE_TABLES_IS initializes the fields by a set. */
#define WIRE_TABLES(U64) U64(tables_0) U64(tables_1) U64(tables_2) U64(tables_3)
#define WIRE_TABLES_OF(m)                                                                          \
    ((struct table_set){{(m).tables_0, (m).tables_1, (m).tables_2, (m).tables_3}})
#define WIRE_TABLES_IS(s)                                                                          \
    .tables_0 = (s).word[0], .tables_1 = (s).word[1], .tables_2 = (s).word[2],                     \
    .tables_3 = (s).word[3]

/* a list of fields fills its lines */
/* clang-format off */

/* ---- data plane: worker -> shard ------------------------------------------------------------- */

/* The first message on a connection to any port. Reply: version and name of the answering
 * process; build: its version and build id (crash_build); wall_s: its calendar, in seconds since
 * 1970, 0: it has none. */
#define WIRE_BUILD 64
#define WIRE_HELLO(U32, U64, I32, F32, F64, B, STR) U32(version) STR(role, 16) STR(name, LIMIT_NAME)
#define WIRE_HELLO_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(version) STR(name, LIMIT_NAME) U64(map_epoch) STR(build, WIRE_BUILD) U64(wall_s)

/* Reads the rows of keys. frame 1: keys, u64 (key_count), sorted by key_mix. A pull with lane ==
 * UINT32_MAX belongs to no lane (eval, CLI) and never waits. Any other waits until every live lane
 * of the run has reached clock(batch) - bound - 1. Reply frame 1: rows (key_count, width) of the
 * reply's `values` (enum value_kind). The request's `values`: 0: f32; WIRE_VALUES + an enum
 * value_kind: as the table stores them, or of this kind where it stores f32. An absent key stays
 * absent and gives its initial value; in a pull without a lane, an absent key of a sparse table
 * gives negative zeros instead, which no stored row consists of. clock: this pull's
 * clock here; low: the lowest clock of the live lanes at the reply (staleness = clock - 1 - low);
 * steps: how many batches, over all lanes of the run, the rows include (engine_steps); waited_ns:
 * how long the shard held the pull. traced: the shard notes its times (SPANS).
 *
 * parts: 0: weights. WIRE_ASSIGN_STATE, in a pull without a lane, by an administrator: the rows as
 * ASSIGN takes them: weights, fp32, and the optimizer's state behind them; `width` is then the
 * floats of both, and the row of an absent key is all negative zeros. */
#define WIRE_VALUES 1u
#define WIRE_PULL(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(table) U32(lane) U64(batch) U32(bound) U32(key_count) U64(map_epoch) B(traced) \
    U32(values) U32(parts)
#define WIRE_PULL_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(key_count) U32(width) U64(clock) U64(low) U64(waited_ns) U32(values) U64(steps)

/* Gradients of batch `to` of a lane for the tablets [tablet_first, tablet_first + tablet_count) of
 * the table; the batches in (from, to) had no keys for these tablets. frame 1: keys, u64
 * (key_count), unique, sorted by key_mix; frame 2: gradients (key_count, packed_bytes), each with
 * the key's shows and clicks behind it where the table has statistics (packed.h). A push of zero
 * keys is a tick. lr_scale multiplies the table's learning rate for this push. worker, task: the
 * source of the push, only for messages and the quarantine. event_time: seconds since 1970, the
 * median of the batch's examples; 0: not known. width: enum packed_width. clock: the lowest `steps`
 * of the replies whose rows the gradients were computed from; 0: not known. traced: the shard notes
 * its times (SPANS). A shard refuses a push of an unknown width, or with an age, which no release
 * sets (VERSION).
 *
 * Echo: the reply gives the rows of `echo` of the keys as they are after the push, so that the
 * sender need not pull them. frame 3: a bit for each key, (key_count + 7) / 8 bytes; bit i % 8 of
 * byte i / 8 is set for key i if its row is wanted. Empty where echo is 0. values: as in PULL.
 *
 * Reply: how many tablets applied it and skipped it, and the lowest mark of the covered tablets.
 * frame 1: rows (key_count, width) of the reply's `values` (enum value_kind), in the order of the
 * set bits. key_count: `echo`, or 0: the shard gives no rows, and the sender pulls them. A push
 * that was skipped gets none, nor does one under bsp. clock, steps: as in PULL's reply, of batch
 * `to`, at the instant of the rows. low: the lowest clock of the other live lanes then, without the
 * sender's own; UINT64_MAX: there is none (server/shard/echo.h).
 *
 * Status GAP: nothing was done, send on from `mark` + 1 (GAP fills in `mark` too). FENCED, OLD_RUN,
 * NOT_LEADER, NOT_FINITE, NO_SPACE: nothing was done. */
#define WIRE_PUSH(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(table) U32(lane) U64(generation) U64(from) U64(to) U32(tablet_first) \
    U32(tablet_count) F32(lr_scale) U32(key_count) U64(map_epoch) U64(worker) U64(task) \
    U32(event_time) U64(clock) U32(age) U32(width) B(traced) U32(echo) U32(values)
#define WIRE_PUSH_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(applied) U32(skipped) U64(mark) U32(key_count) U32(width) U32(values) U64(clock) U64(low) \
    U64(steps)

/* Rows take the place of those that a table has. Two forms:
 *
 * key_count 0: the network of a job whose workers keep it in step goes to the tables of the
 * servers: a tablet of a dense table, whole, as of batch `to` of the lane, by the worker that holds
 * it. frame 1: the tablet's image (embedding/table.h). Admission is a push's: journalled once,
 * skipped if the tablet's mark of the lane is at or above `to`, GAP if it is below `from`; FENCED,
 * OLD_RUN, NOT_LEADER, NO_SPACE and NOT_FINITE: nothing was done. SCHEMA, MALFORMED: the image is
 * none of this tablet, has more than rows, or the table is not dense. Reply, once it is on disk,
 * with durability `journal`, too: whether it was applied, and the tablet's mark.
 *
 * key_count > 0: rows by key, of any table, by a program that is no worker of a job: run, lane,
 * generation, from and to are 0. frame 1: keys, u64 (key_count), all in tablets [tablet,
 * +tablet_count); then a row of each (table_assign_floats, embedding/table.h), fp32 whatever the
 * table stores. parts: WIRE_ASSIGN_*. No mark moves, and the same request again has the same
 * effect. OLD_RUN: a run is open that trains in the table. NOT_FINITE: a value is not finite, or
 * larger than the table stores. Reply: the keys that got a row, whose row was replaced, was left as
 * it is (KEEP), or that are blocked and got none. */
#define WIRE_ASSIGN(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(table) U32(lane) U64(generation) U64(from) U64(to) U32(tablet) U64(map_epoch) \
    U64(worker) U32(tablet_count) U32(key_count) U32(parts)
#define WIRE_ASSIGN_REPLY(U32, U64, I32, F32, F64, B, STR) \
    B(applied) U64(mark) U64(made) U64(replaced) U64(kept) U64(blocked)
/* Reads a tablet of a dense table whole. Reply frame 1: its image; mark: of the lane, in the run
 * (0: the run is not open here, or the lane has pushed nothing). Nothing is held for it. AGAIN: its
 * newest change is not acknowledged yet. TOO_BIG: no frame has room for it. */
#define WIRE_IMAGE(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(table) U32(lane) U32(tablet) U64(map_epoch)
#define WIRE_IMAGE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(mark) U64(rows)

/* ---- control plane: coordinator -> shard ----------------------------------------------------- */

/* Creates a table. frame 1: field_rule, (field_rule_count). A repeated request with the same schema
 * is fine. */
#define WIRE_TABLE_CREATE(U32, U64, I32, F32, F64, B, STR) \
    STR(name, LIMIT_NAME) U32(table) U32(dense) U32(width) U32(zero_first) U32(tablet_bits) \
    U32(tablet_first) U64(seed) U32(init_kind) F32(init_scale) U32(opt_kind) F32(lr) F32(beta1) \
    F32(beta2) F32(eps) F32(initial) F32(l1) F32(l2) F32(beta) F32(decay) U32(fixed_lr) \
    ROW_RULES(U32, F32) U32(field_rule_count) U32(values)
#define WIRE_TABLE_CREATE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* Opens a run with `lanes` lanes on this shard; mode: enum wire_mode. tables: those to which the
 * run pushes, so that they count in the run's clocks and lowest marks; an empty set: all
 * tables. Journalled. All marks start at 0. A repeated request changes nothing. must_exist: the run
 * was open here before, so none is made: NOT_FOUND where there is none. */
#define WIRE_RUN_OPEN(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(lanes) U32(mode) WIRE_TABLES(U64) B(must_exist)
#define WIRE_RUN_OPEN_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)
#define WIRE_RUN_DROP(U32, U64, I32, F32, F64, B, STR) U64(run)
#define WIRE_RUN_DROP_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)

/* Raises a lane's generation; live says whether the lane counts in the clock from now on. A lane
 * that becomes live and is `placed` has clock `clock` at batch `at`, the same on every shard. If it
 * is not placed, it has its mark as its clock under bsp, else the smallest clock of the live lanes
 * at its mark. Journalled before the reply. A generation below the lane's is FENCED; the same one
 * again gets a new reply, and makes no lane less live. Reply: the lane's lowest mark over all
 * tablets of the run that this shard leads (UINT64_MAX: it leads none); under bsp the newest clock
 * of any lane here; the smallest clock of the live lanes here (0: none). */
#define WIRE_FENCE(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U32(lane) U64(generation) B(live) B(placed) U64(at) U64(clock)
#define WIRE_FENCE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(mark) U64(high) U64(low)
/* The current fences of a run, for a shard that has come back. Until the shard has them it takes no
 * push of a run that it found in its folder. frame 1: wire_lane_fence, (lane_count), of lanes that
 * were ever fenced. */
#define WIRE_FENCES(U32, U64, I32, F32, F64, B, STR) U64(run) U32(lane_count)
#define WIRE_FENCES_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)

/* Sets the map. frame 1: u16 shard of each global tablet number. Stored on disk before the reply.
 * Refused (CONFIG): the map of another cluster, one older than the shard's, another one of the same
 * epoch, and one that would take away tablets with rows or marks here. */
#define WIRE_MAP_SET(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) U32(tablet_count) U64(cluster_high) U64(cluster_low)
#define WIRE_MAP_SET_REPLY(U32, U64, I32, F32, F64, B, STR) U64(map_epoch)
/* The map that a shard keeps, for a coordinator that has lost its own or has an older one. Reply
 * frame 1 as in MAP_SET. */
#define WIRE_MAP_HELD(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_MAP_HELD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(map_epoch) U32(tablet_count)

/* The fleet's spaces, and the meaning of the numbers in keys of each. frame 1: the text
 * (proto/job/catalog.h). Stored on disk before the reply, so before a row of a new number is
 * pushed. Refused (CONFIG): an older version than the shard's, and another text of the same
 * version. */
#define WIRE_NAMES_SET(U32, U64, I32, F32, F64, B, STR) \
    U64(version) U64(cluster_high) U64(cluster_low)
#define WIRE_NAMES_SET_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)
/* The names that a shard keeps, for a coordinator that has lost its own. Reply frame 1 as in
 * NAMES_SET; empty with version 0: the shard has none. */
#define WIRE_NAMES_HELD(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_NAMES_HELD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)

/* The parts of logs that the tables have learnt: a head (server/coord/work/taken.h) and names in
 * the form of nameset.h; a shard reads neither. frame 1: both. Shard 0 stores them on disk before
 * it replies, so before any of their rows is pushed. space: number of the space whose tables they
 * are. A version is of one list alone, and the lists are told in order of their versions, so that
 * the greatest one that a shard has (SHARD_BEAT) tells which lists it lacks. Refused (CONFIG): an
 * older version than the shard's for that space. */
#define WIRE_TAKEN_BYTES_MAX (LIMIT_FRAME_BYTES - 4096u)
#define WIRE_TAKEN_SET(U32, U64, I32, F32, F64, B, STR) \
    U64(version) U64(cluster_high) U64(cluster_low) U32(space)
#define WIRE_TAKEN_SET_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)
/* The record of TAKEN_SET as a shard keeps it for the space, for a coordinator that has lost its
 * own. Reply frame 1 as in TAKEN_SET; empty with version 0: the shard has none. */
#define WIRE_TAKEN_HELD(U32, U64, I32, F32, F64, B, STR) U32(unused) U32(space)
#define WIRE_TAKEN_HELD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)

/* The allow-list from the coordinator's file (proto/net/keylist.h). frame 1: its text. version: a
 * number of the coordinator's process in the high half, a counter of its lists in the low half. A
 * lower version of the same process is ignored. */
#define WIRE_KEYLIST(U32, U64, I32, F32, F64, B, STR) U64(version)
#define WIRE_KEYLIST_REPLY(U32, U64, I32, F32, F64, B, STR) U64(version)

/* Shares of the memory. frame 1: struct wire_share (count): the tables of a space, and its part of
 * the memory, of WIRE_SHARE_PARTS. All of these shares replace those before; a shard
 * keeps them in memory only. Tables in no share have the parts that are left; count 0: all tables
 * have all. The beat tells the digest of the list that the shard has. Reply frame 1: struct
 * wire_share_use (count), in the same order. MALFORMED: tables with two shares, too many parts. */
#define WIRE_SHARE_PARTS 65536u
struct wire_share {
    struct table_set tables;
    uint32_t parts, zero;
    char space[LIMIT_NAME];
};
_Static_assert(sizeof(struct wire_share) == 104, "wire_share is a wire format");
/* rows, and those of them in the store; bytes in memory, and its share of it (0: memory has no
 * limit); pushes that the share has put off, and refused, since it was set. */
struct wire_share_use {
    uint64_t rows, cold_rows, bytes, limit, waits, refused;
};
#define WIRE_SHARES(U32, U64, I32, F32, F64, B, STR) U32(count)
#define WIRE_SHARES_REPLY(U32, U64, I32, F32, F64, B, STR) U32(count)

/* The cut. HOLD queues pushes and records the sequence and the marks of run `run` (OLD_RUN: the
 * run is not open; run 0: the cut belongs to no run and cannot be restored; tables: those
 * that it is made for). GO makes the shard's part of cut `cut` and releases the
 * pushes at once; its reply comes when the part is complete on disk. A HOLD without a GO ends by
 * itself after 10 s. ahead: no push is held yet; rows are written while pushes go on, so that
 * the cut itself writes few records. RESTORE puts the tables of the cut's run back to cut `cut`
 * (journalled), opens run `run` with the marks of the cut and drops every other run of these
 * tables; look: the cut is only read as a whole, and nothing is changed. CUT_DROP deletes a cut. */
#define WIRE_HOLD(U32, U64, I32, F32, F64, B, STR) U64(cut) U64(run) B(ahead) WIRE_TABLES(U64)
#define WIRE_HOLD_REPLY(U32, U64, I32, F32, F64, B, STR) U64(sequence)
#define WIRE_GO(U32, U64, I32, F32, F64, B, STR) U64(cut)
#define WIRE_GO_REPLY(U32, U64, I32, F32, F64, B, STR) U64(sequence) U64(rows) U64(bytes)
#define WIRE_RESTORE(U32, U64, I32, F32, F64, B, STR) U64(cut) U64(run) B(look)
#define WIRE_RESTORE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)
#define WIRE_CUT_DROP(U32, U64, I32, F32, F64, B, STR) U64(cut)
#define WIRE_CUT_DROP_REPLY(U32, U64, I32, F32, F64, B, STR) U64(cut)
/* Sent at every registration. Of the cuts below number `below` only `keep` (0: none) is still
 * needed; the others are deleted. No run below number `runs` will continue: such runs are dropped,
 * except one that ROWS_GO may still undo. tables: the job's; an empty set: all
 * tables. Cuts and runs that share no table with the job belong to another job, and stay. */
#define WIRE_CUT_KEEP(U32, U64, I32, F32, F64, B, STR) \
    U64(below) U64(keep) U64(runs) WIRE_TABLES(U64)
#define WIRE_CUT_KEEP_REPLY(U32, U64, I32, F32, F64, B, STR) U32(dropped)

/* Reply frame 1: u64 digest of each tablet of the table from tablet_first on, the first that this
 * shard leads, to the last one; 0 for one between them that it does not lead. A digest is the XXH3
 * over the tablet's rows (key, weights, state) sorted by key; an empty tablet gives 0. The reply
 * comes when all that it covers is on the shard's disk, whatever the durability: `synced` is the
 * sequence up to there (0: in memory). rss_peak_bytes is the peak of the process: a job may end
 * before the next beat, and the digest itself takes memory. */
#define WIRE_DIGEST(U32, U64, I32, F32, F64, B, STR) U32(table)
#define WIRE_DIGEST_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(tablet_first) U32(tablet_count) U64(rows) U64(synced) U64(rss_peak_bytes)

/* INSPECT: one row by key, as JSON text in reply frame 1. SHARD_STATUS: the shard's own figures in
 * the same form: all of them (part 0), or `gradients` alone (1). */
#define WIRE_INSPECT(U32, U64, I32, F32, F64, B, STR) U32(table) U64(key)
#define WIRE_INSPECT_REPLY(U32, U64, I32, F32, F64, B, STR) B(found)
#define WIRE_SHARD_STATUS(U32, U64, I32, F32, F64, B, STR) U32(part)
#define WIRE_SHARD_STATUS_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* Checkpoints. CUT_EXPORT: the shard puts its complete cut into the new folder path/part-PART (hard
 * links where the file system allows, else copies), with the checksum of each file in the part's
 * manifest; it is part `part` of `parts`. tables: those that belong to it, where the
 * cut is of no run, whose tables they are else; an empty set: all tables. A repeated request gets
 * the same reply.
 *
 * LOAD: the shard fills its empty tables with the tablets that it leads, from all parts under
 * `path` (as many as there were shards then). The marks of the checkpoint's run are set under the
 * new number `run`. The reply comes when all of it is durable here. lanes above 0: the run starts
 * new, with that many lanes, this mode and no marks. without: rows that are left out, as
 * "TABLE:NUMBER" (a field) or "TABLE:*", by name, separated by blanks. tables: as in RUN_OPEN;
 * other tables stay unchanged. translated: what happened to rows of another schema, one sentence a
 * line; only the first ones when there are too many. */
#define WIRE_WITHOUT 2048
#define WIRE_TRANSLATED 2048
#define WIRE_CUT_EXPORT(U32, U64, I32, F32, F64, B, STR) \
    U64(cut) U32(part) U32(parts) STR(path, LIMIT_PATH) WIRE_TABLES(U64)
#define WIRE_CUT_EXPORT_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows) U64(bytes)
#define WIRE_LOAD(U32, U64, I32, F32, F64, B, STR) \
    U64(run) STR(path, LIMIT_PATH) U32(lanes) U32(mode) STR(without, WIRE_WITHOUT) \
    WIRE_TABLES(U64)
#define WIRE_LOAD_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(rows) STR(translated, WIRE_TRANSLATED)

/* Removes rows of a job's tables; what: enum wire_rows. run: number of the operation, which is that
 * of the run that asks. tables: the job's. A repeated request, also
 * after a restart, finishes the rest. The reply comes when the removal is durable. rows: the rows
 * removed since the first request, where they are counted (fields). */
#define WIRE_ROWS_GO(U32, U64, I32, F32, F64, B, STR) \
    U64(run) WIRE_TABLES(U64) U32(what) STR(fields, WIRE_WITHOUT)
#define WIRE_ROWS_GO_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* frame 1: keys, u64 (key_count); keys that the shard does not lead are skipped. action: enum
 * wire_key_action. Journalled. Reply: the number of keys that changed (EVICT: that had a row), and
 * of those skipped: the newest map says which shards lead them. */
#define WIRE_KEYS(U32, U64, I32, F32, F64, B, STR) U32(table) U32(action) U32(key_count)
#define WIRE_KEYS_REPLY(U32, U64, I32, F32, F64, B, STR) U64(changed) U32(skipped)

/* Lists the keys that have a name (KEYS), in the order of key_mix, from the mixed key `from` on: of
 * the tablet of `from`, and of the tablets behind it as far as the shard leads them. Reply frame 1:
 * struct wire_named (count), at most WIRE_NAMED_MAX. next: the mixed key to go on from, at the
 * shard that leads its tablet; 0: no tablet is left. A key whose name does not change meanwhile is
 * listed once, wherever its tablet moves. NOT_LEADER: of the tablet of `from`. AGAIN and BUSY as
 * for KEYS. */
#define WIRE_NAMED_MAX 65536u
struct wire_named {
    uint64_t key;
    uint32_t action, zero; /* WIRE_KEY_ERASE: erased; WIRE_KEY_BLOCK; WIRE_KEY_ALLOW */
};
_Static_assert(sizeof(struct wire_named) == 16, "wire_named is a wire format");
#define WIRE_NAMED(U32, U64, I32, F32, F64, B, STR) U32(table) U64(from)
#define WIRE_NAMED_REPLY(U32, U64, I32, F32, F64, B, STR) U32(count) U64(next)

/* Rows and bytes by field, histograms of norms, shows and ages, of the tablets that the shard
 * leads, as JSON text in reply frame 1. With what_if it also says what another rule would keep:
 * least shows, least score, ttl in seconds, rows in all (0: not asked). Walks the table in
 * steps. */
#define WIRE_TABLE_STATS(U32, U64, I32, F32, F64, B, STR) \
    U32(table) B(what_if) F32(shows) F32(score) U32(ttl) U64(budget_rows)
#define WIRE_TABLE_STATS_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)

/* Rows, bytes of rows, and nanoseconds of pulls and pushes (server/shard/heat.h) of each tablet of
 * a table that the shard leads. Reply frame 1: struct wire_heat (tablet_count), from tablet_first;
 * all 0 for a tablet between them that another shard leads. tablet_count 0: it leads none of this
 * table. */
struct wire_heat {
    uint64_t rows, bytes, pull_ns, push_ns;
};
#define WIRE_HEAT(U32, U64, I32, F32, F64, B, STR) U32(table)
#define WIRE_HEAT_REPLY(U32, U64, I32, F32, F64, B, STR) U32(tablet_first) U32(tablet_count)

/* Pushes in the journal and its archive that changed a key; the newest `limit` of them, as JSON
 * text in reply frame 1: sequence, run, lane, generation, batch, event time, gradient norm;
 * assigned: the push brought the key's tablet whole (ASSIGN).
 * complete: the journal reaches back to the row's first push. */
#define WIRE_BLAME(U32, U64, I32, F32, F64, B, STR) U32(table) U64(key) U32(limit)
#define WIRE_BLAME_REPLY(U32, U64, I32, F32, F64, B, STR) B(complete)

/* Where the time of a traced pull or push went at a shard (server/shard/span.h): from its arrival
 * to its answer, ns says how long it did what. Reply frame 1: struct wire_span (count), those of
 * the run that the shard still has, the newest last; batch above 0: only those of this batch of the
 * lane. id: that of the request, as in the worker's trace. */
enum wire_span_kind {
    WIRE_SPAN_LOOP,    /* waits for the shard's loop, which has other requests */
    WIRE_SPAN_HELD,    /* a push: a cut or a move of tablets holds it */
    WIRE_SPAN_CLOCK,   /* waits for slower lanes: for the bound, under bsp for the clock */
    WIRE_SPAN_ROWS,    /* waits for rows from the store, a push also for room */
    WIRE_SPAN_JOURNAL, /* a push: the records of its group are written */
    WIRE_SPAN_WORK,    /* its rows are read, its gradients applied */
    WIRE_SPAN_SYNC,    /* a push: waits for the journal's sync */
    WIRE_SPAN_COPIES,  /* a push: waits for the copies in sync */
    WIRE_SPAN_KINDS
};
struct wire_span {
    uint64_t run, batch, id, ns[WIRE_SPAN_KINDS];
    uint32_t lane, table, keys, push; /* push: 1, a pull: 0 */
};
_Static_assert(sizeof(struct wire_span) == 104, "wire_span is a wire format");
#define WIRE_SPANS_MAX 4096u
#define WIRE_SPANS(U32, U64, I32, F32, F64, B, STR) U64(run) U32(lane) U64(batch)
#define WIRE_SPANS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(count)

/* ---- shard -> coordinator -------------------------------------------------------------------- */

/* Beats of shards and of workers come each third of the lease, and after this time at most, so that
 * the coordinator tells of a silence of seconds though it waits for a lease of minutes. */
#define WIRE_BEAT_MS 1000u

/* A shard reports where it listens, at start and with each beat. server is the name kept
 * in its data_dir, so a server that comes back gets its shard numbers back. Figures for `shoal
 * status`: rss_bytes of the process, rows in the store (cold), rows that came from it (fetched) and
 * went there (evicted; clean: without a write), bytes of memory and disk against the shard's part
 * of the budgets (0: none), requests that wait for rows or room (parked), and whether pushes are
 * refused for lack of disk.
 *
 * Membership, from its folder: the cluster (0, 0: none yet), its number there and the cluster's
 * number of shards, and the epoch of the map that it keeps. Content: whether it has tables (holds),
 * the newest open run and the newest cut, the sequence of its last record, and the sequence up to
 * which all is on disk (0 in memory mode: in_memory). The version of the names that it keeps and
 * the XXH3 of their line (0, 0: none). The allow-list that it uses (KEYLIST's version; 0: none
 * yet), and whether it listens on tcp without keys. boot: a number of the machine's boot; when it
 * changes, power may have been lost. durability: enum durability from its file, plus 1; 0: not
 * told. The reply gives cluster and number; shard 4294967295: they are not known yet, ask again.
 *
 * zone: of its server's file; copies of a shard go to different ones. sync_ms: for how long the
 * journal's sync under way has lasted; 0: there is none, or it has just begun.
 *
 * Copies: term is the leader's term that the sender knows, last_term that of its last record (0: no
 * leader was ever named). The reply: the sender's place in the shard's list of copies (below
 * LIMIT_COPIES), how many the list has (0: no followers), the term of the leader, the copies that
 * are in sync (a bit for each place) and how many of them a push needs. leader: the endpoint of the
 * copy that leads, and the key that it shows; empty: the sender leads, until shard_lease_ms after
 * it sent this beat.
 *
 * A copy that follows tells lag_ms: for how long it has lacked a record of the leader (0: it has
 * all that it knows of); record_bytes: bytes of a record, on average; while it copies the leader's
 * rows: copied of about copy_bytes bytes, for copy_ms until now or until all were there (copy_bytes
 * 0: it copies nothing). */
#define WIRE_SHARD_BEAT(U32, U64, I32, F32, F64, B, STR) \
    STR(server, LIMIT_NAME) U32(shard_index) U32(shard_count) STR(endpoint, 256) U64(incarnation) \
    B(ready) U64(rows) U64(row_bytes) U64(journal_bytes) U64(rss_bytes) U64(rss_peak_bytes) \
    U64(keys_pulled) U64(keys_pushed) U64(skipped) U64(cold_rows) U64(fetched) U64(evicted) \
    U64(evicted_clean) U64(memory_bytes) U64(memory_max) U64(disk_bytes) U64(disk_max) U64(parked) \
    B(disk_short) U64(cluster_high) U64(cluster_low) U32(number) U32(shards) U64(map_epoch) \
    B(holds) B(in_memory) U64(newest_run) U64(newest_cut) U64(sequence) U64(synced) \
    U64(names_version) U64(names_digest) U64(keylist) B(insecure) U64(boot) U32(durability) \
    U64(taken_version) U64(term) U64(last_term) U64(lag_ms) U32(record_bytes) U64(copied) \
    U64(copy_bytes) U64(copy_ms) STR(zone, LIMIT_NAME) U32(sync_ms) U64(shares)
#define WIRE_SHARD_BEAT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(shard) U64(map_epoch) U32(lease_ms) U64(cluster_high) U64(cluster_low) U32(shards) \
    U32(copy) U32(copies) U64(term) U32(in_sync) U32(min_in_sync) U32(shard_lease_ms) \
    STR(leader, 256) STR(leader_key, 48)
#define WIRE_NO_SHARD UINT32_MAX

/* The leader of a shard asks that these copies be in sync (a bit for each place, its own among
 * them), as of its term. The reply comes when that is stored: only then the leader counts on it.
 * order: rises with each request of a term, so that a late copy of an older one changes nothing.
 * NOT_LEADER: the term is over. */
#define WIRE_IN_SYNC(U32, U64, I32, F32, F64, B, STR) U32(shard) U64(term) U32(in_sync) U64(order)
#define WIRE_IN_SYNC_REPLY(U32, U64, I32, F32, F64, B, STR) U32(in_sync)

/* ---- follower -> leader of the same shard ---------------------------------------------------- */

/* The records behind record `after`. The sender has all records up to it, to the degree that its
 * durability says; last_term is the term of that record. term: the leader's, as the coordinator
 * told it. The leader holds the request until it has such records, for a third of the lease at
 * most. Reply frame 1: whole records (embedding/journal/record.h) in order, perhaps none; last: the
 * newest record of the leader. back: no record is sent, because the sender's records behind `back`
 * are not the shard's: it drops them (UINT64_MAX: all are). NOT_LEADER: the term is another one.
 * NOT_FOUND: these records are no longer here, or the sender's do not lead to them: it begins anew
 * with COPY. */
#define WIRE_FOLLOW(U32, U64, I32, F32, F64, B, STR) \
    U32(shard) U32(copy) U64(term) U64(after) U64(last_term)
#define WIRE_FOLLOW_REPLY(U32, U64, I32, F32, F64, B, STR) U64(term) U64(last) U64(back)
/* A part of a cut of the shard, for a copy that begins anew. number 0: the leader makes the cut;
 * else the number that the first reply gave. most: bytes of a part, about. frame 1: the position of
 * this part, as the last reply gave it (empty: the first part). Reply frame 1: the part; frame 2:
 * the position of the next one (empty: this was the last). sequence: the record that the cut is
 * complete up to; bytes: an estimate of all parts. NOT_FOUND: the leader has given the cut up:
 * begin again. */
#define WIRE_COPY_POSITION 64u
#define WIRE_COPY(U32, U64, I32, F32, F64, B, STR) \
    U32(shard) U32(copy) U64(term) U64(number) U32(most)
#define WIRE_COPY_REPLY(U32, U64, I32, F32, F64, B, STR) U64(number) U64(sequence) U64(bytes)

/* ---- moves: coordinator -> taker -> giver (server/shard/move.h) ------------------------------ */

/* The shard takes tablets from the shard at `endpoint`, which shows `key`. frame 1: u32 global
 * tablet numbers, (tablet_count). map_epoch: the map that will give it the tablets. The reply comes
 * when their rows and marks are on disk here and in every copy that is in sync; the shard leads
 * them when that map has come (MOVE_MAP). A repeated request of the same epoch joins the first. */
#define WIRE_MOVE_TAKE(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) STR(endpoint, 256) STR(key, 48) U32(tablet_count)
#define WIRE_MOVE_TAKE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(map_epoch) U64(rows) U64(bytes)
/* Taker to giver: freezes the shard's pushes until a map of this epoch, or of a later one, has come
 * (MOVE_MAP). Reply frame 1: the tablet's image (embedding/move.h). TOO_BIG: no frame has room for
 * it. pull_ns, push_ns: its load, as of HEAT, which goes with it. */
#define WIRE_MOVE_READ(U32, U64, I32, F32, F64, B, STR) U64(map_epoch) U32(tablet)
#define WIRE_MOVE_READ_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) U32(tablet) U64(rows) U64(pull_ns) U64(push_ns)
/* As MAP_SET, to giver and taker. frame 2: u32 global tablet numbers, (gone_count): these tablets
 * may leave the shard with rows and marks, because the taker has them on disk. */
#define WIRE_MOVE_MAP(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) U32(tablet_count) U64(cluster_high) U64(cluster_low) U32(gone_count)
#define WIRE_MOVE_MAP_REPLY(U32, U64, I32, F32, F64, B, STR) U64(map_epoch)
#define WIRE_MOVE_TABLETS 256u /* most tablets of one MOVE_TAKE */

/* A server reports every second for how many seconds the disk of its data_dir has not answered, and
 * the loop that has made no progress for longest: the shard, by its number within the server, and
 * for how many seconds. 0: it answers, all make progress; this is reported once, when both do
 * again. The main thread sends it, because the shards, which send beats, hang. */
#define WIRE_SERVER_DISK(U32, U64, I32, F32, F64, B, STR) \
    STR(server, LIMIT_NAME) U32(seconds) U32(shard_index) U32(loop_seconds)
#define WIRE_SERVER_DISK_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* ---- worker -> coordinator ------------------------------------------------------------------- */

/* Joins the job (AGAIN: there is none yet). kernel: all that decides the bits of a matrix product,
 * compared between workers under bsp. For people: device (and its libraries), why this backend was
 * chosen, and the build, as in HELLO. Reply frame 1: the job file as submitted (YAML text, --set
 * applied). The worker number is never used again. pass: a secret that the worker sends with every
 * later request, on this connection or another; no other program knows it. job: its number, which
 * no other job of this coordinator has, even with the same file. trace_every: as in TRACE_EVERY.
 * endpoint: where other workers reach this one (RING_CHUNK); empty: it does not listen. stays: it
 * joins again when it is told END. */
/* large enough for the longest text of a device: two truncated texts could be equal */
#define WIRE_KERNEL 192
#define WIRE_DEVICE 256
#define WIRE_WHY (ERR_TEXT_MAX + 64)
#define WIRE_WORKER_JOIN(U32, U64, I32, F32, F64, B, STR) \
    STR(name, LIMIT_NAME) U32(pid) STR(kernel, WIRE_KERNEL) STR(backend, 32) U32(lanes_max) \
    STR(device, WIRE_DEVICE) STR(why, WIRE_WHY) STR(build, WIRE_BUILD) STR(endpoint, 256) \
    B(stays)
#define WIRE_WORKER_JOIN_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(worker) U64(run) U32(lanes) U32(lease_ms) U32(tables) U32(shards) U64(map_epoch) U64(pass) \
    U64(job) U64(wall_s) U32(trace_every)

/* A worker whose join returned no tables (`tables` 0) declares all tables of the job after INDEX,
 * because only the model knows them. The first declaration stands; another one must be equal bit
 * for bit, else SCHEMA. declared_total: how many tables the job has. frame 1 as in TABLE_CREATE. */
#define WIRE_TABLE_DECLARE(U32, U64, I32, F32, F64, B, STR) \
    WIRE_TABLE_CREATE(U32, U64, I32, F32, F64, B, STR) U32(declared_total)
#define WIRE_TABLE_DECLARE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* Before TABLE_DECLARE a worker sends its names of fields and tensors. frame 1: a line as
 * legend_put writes it, with the numbers that follow from the job's text. CONFIG, for all: the
 * existing tables, or another worker's input, have other names. */
#define WIRE_LEGEND(U32, U64, I32, F32, F64, B, STR) U64(pass)
#define WIRE_LEGEND_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* The text of the job that made the tables of a space (as in MAP_GET); AGAIN: there is none yet.
 * Reply frame 1: YAML. */
#define WIRE_JOB_TEXT(U32, U64, I32, F32, F64, B, STR) U32(unused) STR(space, LIMIT_NAME)
#define WIRE_JOB_TEXT_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run)

/* The tables of a space, and the map. reads: the client reads these tables, whatever job runs;
 * without it a worker of the current job waits until that job has made its own. space: its name;
 * one that holds tables alone is meant by any name. Empty where several do: USAGE, which names
 * them; the reply of MAP_GET tells whose tables they are ("": not known). Both count tables and
 * tablets as the job that made them: its table 0 comes first, and its tablet 0.
 *
 * TABLE_GET: reply frame 1 as in TABLE_CREATE. MAP_GET: `tables` has the numbers by which shards
 * know these tables, in their order (table_set_nth); PULL, PUSH and all other requests to a shard
 * name a table by it. Reply frame 1: u16 shard of each tablet of these tables. Frame 2: one
 * LF-ended line for each shard number: its endpoint, a blank, and the public key that it has shown
 * to the coordinator, if any; empty while unknown. */
#define WIRE_TABLE_GET(U32, U64, I32, F32, F64, B, STR) U32(table) STR(space, LIMIT_NAME)
#define WIRE_TABLE_GET_REPLY(U32, U64, I32, F32, F64, B, STR) \
    WIRE_TABLE_CREATE(U32, U64, I32, F32, F64, B, STR)
#define WIRE_MAP_GET(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) B(reads) STR(space, LIMIT_NAME)
#define WIRE_MAP_GET_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(map_epoch) U32(tablet_count) U32(shards) WIRE_TABLES(U64) STR(space, LIMIT_NAME)

/* Renews the worker's lease with each beat and carries the worker's figures (sums since it
 * joined; worker/train/stats.h explains them). Reply: the number of lanes that it holds. Status
 * UNAVAILABLE: the worker is no longer known (its lease ran out): it must stop writing and join
 * again. state: enum wire_job_state; list: the worker should send OBJECTS, for a log that grows.
 * clock_ahead_s: by how much the worker's calendar is ahead of wall_s in WORKER_JOIN's reply
 * (seconds since 1970; 0: the coordinator knows none). trace_every: as in TRACE_EVERY. ring_bytes,
 * ring_steps: of a network that the workers keep in step: sent to other workers, steps made;
 * ring_wait_s: time that lanes waited for a step. site_s,
 * site_waited_s: in the measured steps of a network over several devices, the devices' time, and
 * how much of it they waited for one another. */
#define WIRE_WORKER_BEAT(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U64(examples) U64(batches) U64(skipped) U64(recomputed) U64(bad_lines) \
    U64(keys_pulled) U64(keys_pushed) F64(read_s) F64(pull_s) F64(compute_s) F64(push_s) \
    F64(wait_s) U64(skipped_steps) U64(keys_echoed) U64(keys_missed) F64(held_s) F64(file_busy_s) \
    F64(parse_busy_s) F64(pull_busy_s) F64(compute_busy_s) F64(push_busy_s) F64(read_least_s) \
    F64(pull_least_s) F64(push_least_s) U64(clamped_times) U64(outside_partition) \
    U64(read_bytes) U32(waits) U32(late_shard) U32(late_ms) B(unnamed) U32(slow_shard) \
    U32(slow_us) U32(usual_us) I32(clock_ahead_s) U64(ring_bytes) F64(ring_wait_s) U64(ring_steps) \
    F64(site_s) F64(site_waited_s)
#define WIRE_WORKER_BEAT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(state) U32(lanes_held) B(list) U32(trace_every)

/* True when the difference of clocks is large enough to report. */
static inline bool wire_clock_apart(int32_t ahead_s)
{
    return ahead_s > 60 || ahead_s < -60;
}

/* The rows and the digest of the input. A worker that gets LANE_NEXT's kind INDEX indexes all files
 * of a split and reports them. All workers must find the same digest. split: enum wire_split. A
 * failure to read is sent as fail_status and text. */
#define WIRE_INDEX_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(split) U64(rows) U64(digest) I32(fail_status) STR(fail_text, ERR_TEXT_MAX) \
    STR(warning, ERR_TEXT_MAX)
#define WIRE_INDEX_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* The worker's profile of the fields of data.train (worker/data/profile.h), sent before INDEX_DONE;
 * the first one stands. frame 1: JSON text, at most WIRE_PROFILE_MAX bytes. */
#define WIRE_PROFILE_MAX (1u << 20)
#define WIRE_PROFILE(U32, U64, I32, F32, F64, B, STR) U64(pass)
#define WIRE_PROFILE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* The INDEX_DONE of a replay whose data.train could be read. It adds the windows of event time,
 * which make up an epoch in order. frame 1: struct wire_window (windows). */
struct wire_window {
    uint64_t rows;
    uint32_t number, first; /* zone_number of its event times; the first event time, in seconds */
};
#define WIRE_WINDOWS_MAX (1u << 16)
#define WIRE_WINDOWS(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U64(rows) U64(digest) U32(windows) STR(warning, ERR_TEXT_MAX)
#define WIRE_WINDOWS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* A log of objects. Before a worker makes its model it asks (count 0) for the first line of an
 * object. Replies: head (frame 1; empty where the format needs none) of a log of `count` objects;
 * or `list`: no list exists yet, so this worker lists the objects and sends them; or AGAIN: another
 * worker is listing. A list has count above 0; frame 1: its lines in the form of the worker's
 * object.h, LF-ended, in byte order; frame 2: the head. The first list stands. Each split of
 * objects has its own list; only data.train has a head. A split that the job does not use has no
 * list: count 0.
 *
 * A log that grows (data.objects.grow) is listed again and again. The worker that WORKER_BEAT's
 * reply asks sends a request with `due`, and then its list with `listed` and the reply's token: as
 * many lines as fit, of objects whose names are not among TAKEN's; count may be 0. gone: bytes
 * behind the head in frame 2, with a bit for each of TAKEN's names, in their order; set: the store
 * no longer lists it. The worker omits these bits while there is plenty of room for names.
 * fail_status: the listing failed. frame 3: of a log with streams, positions (positions.h) of all
 * of them, from where the job goes on to where the stream ends now. last: the log has an end, and
 * all objects up to it are listed or taken. */
#define WIRE_OBJECTS(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(count) B(due) B(listed) U64(token) I32(fail_status) \
    STR(fail_text, ERR_TEXT_MAX) U32(split) U32(gone) B(last)
#define WIRE_OBJECTS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(count) B(list) U64(token)
/* For a log that grows, before it is listed: the names (nameset.h) of objects that the tables have
 * learnt. digest: of the names that the worker has, nameset_digest ^ positions_digest. Reply frame
 * 1: struct nameset_item (count), then the text of positions (positions.h), of so many bytes;
 * nothing where the worker's digest is the same. */
#define WIRE_TAKEN(U32, U64, I32, F32, F64, B, STR) U64(pass) U64(digest)
#define WIRE_TAKEN_REPLY(U32, U64, I32, F32, F64, B, STR) U32(count) U64(digest) U32(positions)
/* The names of the files of data.train, sent before INDEX_DONE or WINDOWS. frame 1: struct
 * nameset_item (count). unknown: a part of the input is a stream, which has no name. */
#define WIRE_FILES(U32, U64, I32, F32, F64, B, STR) U64(pass) U32(count) B(unknown)
#define WIRE_FILES_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* The INDEX_DONE of one object. frame 1: in a replay its windows as in WINDOWS: struct wire_window
 * (windows); else empty. salt: hash_bytes(its name, 1), because another object may have its number
 * by now. */
#define WIRE_OBJECT_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(object) U64(rows) U64(digest) I32(fail_status) STR(fail_text, ERR_TEXT_MAX) \
    STR(warning, ERR_TEXT_MAX) U32(windows) U64(salt) U32(split)
#define WIRE_OBJECT_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* Asks for work. A worker asks without a lane (lane == UINT32_MAX) whenever it has a free compute
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
 *   LEAVE  the lane no longer belongs to this worker (fenced): drop it without a write
 *   END    the job is over: send a last beat and WORKER_LEAVE, exit 0
 * object: 0, or the work concerns only this object of `split`, counted from 1; then the reply has
 * its name and the rest of its line, where blanks replace tabs, because a string has none.
 * Positions of TASK and EVAL then refer to the object's own order, and the worker must find the
 * same rows and digest. unseen: EVAL_DONE may report values without a row. run: the run whose rows
 * TASK and EVAL mean. A restore opens a new one, so the worker follows the newest reply. In a
 * request without a lane `batch` is the number of lanes that this worker knows it holds: a grant
 * whose reply was lost is then sent again. A worker ignores a grant of a lane that it already runs.
 * time_limit: in a TASK, later event times count as this one; 0: no limit. */
#define WIRE_LANE_NEXT(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(lane) U64(generation) U64(batch)
#define WIRE_LANE_NEXT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(kind) U32(retry_ms) U32(lane) U64(generation) U64(mark) U64(task) U32(epoch) U32(split) \
    U64(position) U64(rows) U64(first_batch) U32(batch_count) F32(lr_scale) U64(run) U32(object) \
    STR(object_name, LIMIT_PATH) STR(object_mark, LIMIT_PATH) U64(object_rows) U64(object_digest) \
    B(unseen) U32(time_limit)

/* One finished task of training, for the report. Losses and weights are sums over the task's
 * examples. batches: batches with examples; skipped: those of them whose gradients overflowed
 * (precision fp16). Norms of the gradients, before clipping, are sums over the `measured` batches
 * for which they are known. lr_scale: the factor of the learning rates at the last batch. drawn:
 * lines that data.negatives selected, whatever their content, malformed ones (bad_lines) included;
 * without negatives all lines. refused: batches of which a shard refused a push for its values, so
 * that a tick was pushed instead; refused_where: the shard's error for the first one. tasks: labels
 * of an example. clamped: examples whose event time was past the task's time_limit; first_time,
 * last_time: the range of event times in the log; 0: there are none.
 *
 * frame 1: u64 histogram, (64): pulls by clocks of staleness, the last cell for all beyond. frame
 * 2: f64 (tasks): the sum of each label's loss. Then the examples with their scores before they
 * were learnt (proto/metric/metric_tally.h): sums (tasks) and cells (cells). Then, for the fields
 * of evaluate.by (metric_by.h): heads (by_count), values (values), sums (values, tasks) and their
 * cells (value_cells). With `more`, a label may be missing or be a number: for each of these sums
 * the examples that have the label, and the sum of labels that are numbers. Last, u64 (experts):
 * the examples that chose each expert (model.top_k). */
#define WIRE_TALLY_SUMS 16u /* bytes */
#define WIRE_TALLY_CELL 24u
#define WIRE_TALLY_CELLS (LIMIT_TASKS * 2049u)
#define WIRE_BY_HEAD 16u
#define WIRE_BY_VALUE 32u
#define WIRE_BY_SUMS 24u
#define WIRE_BY_CELL 16u
#define WIRE_BY_MORE 16u
#define WIRE_BY_VALUES (LIMIT_BY * 32u)
#define WIRE_BY_CELLS 65536u
#define WIRE_TASK_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U32(lane) U64(generation) U64(task) U64(examples) U64(bad_lines) F64(loss_sum) \
    STR(bad_where, 256) F64(weight_sum) U64(batches) U64(skipped) F64(dense_norm_sum) \
    F64(row_norm_sum) F32(lr_scale) U32(tasks) U64(measured) U64(drawn) U64(refused) \
    STR(refused_where, ERR_TEXT_MAX) U32(cells) U32(by_count) U32(values) U32(value_cells) \
    U64(clamped) U32(first_time) U32(last_time) U32(experts) B(more)
#define WIRE_TASK_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* The ring of workers that keep a job's network in step (train.dense: allreduce;
 * server/coord/work/ring.h). A worker always has one such request at the coordinator: it says what
 * the worker has, and the answer comes when there is something that the worker does not know yet,
 * or after WIRE_BEAT_MS. A later request of the worker takes the place of the one before, which
 * gets no answer.
 *
 * Request. seen: `news` of the newest answer that the worker has obeyed. ring: the ring that it
 * knows. has, step: it has the network whole, as of its newest complete step. marks_low,
 * marks_high: of the network that it has read from the tables (IMAGE), the lowest and the highest
 * mark of the tablets; both 0: it has read none. begun: the newest step that it has given a
 * contribution to; 0: none. rest: it holds for the rest of this number, so `begun` stays. settled:
 * it has the step `rest_at` whole, and all its pushes up to there are acknowledged. published: the
 * newest step that it has assigned to the tables of the servers, all tablets acknowledged; 0: none.
 * digest: of the network as of `digest_step` (network_digest); both 0: not told. unreached: a
 * member that has taken nothing from this worker, and given nothing, for a lease, though it was
 * asked; 0: none. of: the last ring that stood in which the worker had `step`; 0: none. lanes: the
 * number of lanes that it runs. keeps: with train.dense_state: sharded, the shares of the
 * optimizer's state that it has as of `step`, a bit for each (worker/ring/network.h). state_bytes:
 * memory of the optimizer's state of the network, at this worker.
 *
 * Reply. ring: the number of the newest ring; its state: enum wire_ring_state. member: the worker's
 * place in it, WIRE_RING_MEMBERS: it is no member, and waits. starts, step: as in way.h and ring.h
 * of the coordinator. source: the member that has `step`, or WIRE_RING_TABLES: the tables have it.
 * published: the newest step that the tables have. rest: the number of the rest that the worker is
 * to keep, 0: none. rest_at: 0: not yet known, it gives no contribution to a new step and says
 * which was its last one; else it goes on up to this step, and no further. publish: this worker is
 * to assign the network as of rest_at to the tables now; with dense_state: sharded each member
 * assigns its shares. generation: of lane 0 on all shards, with which it assigns; 0: to a member
 * that assigns nothing, or a fence is under way. there: what the worker has reported in this
 * gathering is the network as of `step`; else it takes it from `source`, whatever it has. CORRUPT:
 * its network differs from that of most members, and it leaves. Frame 1: struct wire_ring_member
 * (members), in the order of the ring; none unless it stands. */
enum wire_ring_state { WIRE_RING_NONE = 0, WIRE_RING_GATHERS, WIRE_RING_STANDS };
#define WIRE_RING_MEMBERS 64u
#define WIRE_RING_TABLES UINT32_MAX
struct wire_ring_member {
    uint64_t worker;
    uint32_t first, lanes; /* its stretch of lanes */
    uint64_t keeps;        /* shares of the state that it has as of `step`, or can make of it */
    char endpoint[256], key[48];
};
_Static_assert(sizeof(struct wire_ring_member) == 328, "wire_ring_member is a wire format");
#define WIRE_RING(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U64(run) U64(seen) U64(ring) B(has) U64(step) U64(marks_low) U64(marks_high) \
    U64(rest) U64(begun) B(settled) U64(published) U64(digest) U64(digest_step) U64(unreached) \
    U64(of) U32(lanes) U64(keeps) U64(state_bytes)
#define WIRE_RING_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U64(news) U64(ring) U32(state) U32(member) U32(members) U32(lanes) U32(starts) \
    U64(step) U32(source) U64(published) U64(rest) U64(rest_at) B(publish) U64(generation) \
    B(there)

/* Traces of training batches: the way of a batch through its worker, in stages that follow each
 * other from the start of its read to the last acknowledgement of its push. Times are nanoseconds
 * of the worker's clock. beside_ns: the part of a stage in which the lane computed other batches;
 * the rest of it the lane may have waited for. frame 1: struct wire_trace (count). */
enum wire_stage {
    WIRE_STAGE_READ,    /* read, parsed, keys made unique and sorted */
    WIRE_STAGE_PLACE,   /* waits for memory and a place among 1 + prefetch */
    WIRE_STAGE_PLAN,    /* keys divided between its pull and earlier pushes */
    WIRE_STAGE_PULL,    /* until its last row is there, of a pull or of an earlier push */
    WIRE_STAGE_TURN,    /* ready; earlier batches are computed */
    WIRE_STAGE_COMPUTE, /* forward and backward */
    WIRE_STAGE_ORDER,   /* computed; under bsp an earlier push is not acknowledged */
    WIRE_STAGE_PUSH,    /* until the last shard has acknowledged */
    WIRE_STAGES
};
/* A part of its pull or push: a request to one shard, from the start of the stage to its answer. */
struct wire_trace_part {
    uint64_t id, took_ns;
    uint32_t shard, table, keys, tries; /* table: its number on the shards; tries: sendings */
};
_Static_assert(sizeof(struct wire_trace_part) == 32, "wire_trace_part is a wire format");
#define WIRE_TRACE_PARTS 16u
struct wire_trace {
    uint64_t run, batch, generation, worker;
    uint64_t begun_ns, wall_ns;
    uint64_t stage_ns[WIRE_STAGES], beside_ns[WIRE_STAGES];
    uint64_t file_ns, parse_ns, plan_ns, compute_ns; /* on threads, waits for a thread left out */
    uint32_t lane, epoch, examples, keys;
    uint32_t parts[2]; /* parts of its pull, of its push; the slowest of them are told: */
    struct wire_trace_part part[2][WIRE_TRACE_PARTS];
};
_Static_assert(sizeof(struct wire_trace) == 1256, "wire_trace is a wire format");
#define WIRE_TRACES_MAX 512u
#define WIRE_TRACES(U32, U64, I32, F32, F64, B, STR) U64(pass) U32(count)
#define WIRE_TRACES_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* Predictions of an evaluation task, in file order. frame 1: scores f32 (examples, tasks), then
 * labels f32 (examples, tasks). frame 2: u64 (examples) of evaluate.group where `grouped`, then u64
 * (examples, by_count) of the fields of evaluate.by; then struct wire_unseen (fields); fields 0:
 * not reported, or there was no example. */
struct wire_unseen {
    uint64_t field, values, absent; /* its number in keys; values looked up; values without a row */
};
_Static_assert(sizeof(struct wire_unseen) == 24, "wire_unseen is a wire format");
#define WIRE_EVAL_DONE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) U64(task) U32(examples) U64(bad_lines) U32(tasks) B(grouped) U32(by_count) \
    U32(fields)
#define WIRE_EVAL_DONE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* ---- worker -> worker ------------------------------------------------------------------------ */

/* A chunk of the sum of a step, to the next member of a ring (worker/ring/way.h says which hop it
 * is on). ring: number of the ring within the run. weight: examples in the sum so far; 0: none, and
 * it has no floats. frame 1: the chunk (floats) of `values` (enum value_kind, fp32 or bf16). With
 * train.dense_state: sharded the last hops carry new parameters, always of fp32 (exchange.h).
 * refused: the sum of this chunk is not finite, the step changes nothing, and there are no floats.
 *
 * Reply: the newest ring that the receiver knows, also with a status. 0: the chunk is taken, or was
 * before. AGAIN: the receiver does not have this ring yet: send again later. OLD_RUN: it has a
 * newer ring or another run, and the sender asks the coordinator. MALFORMED: the ring has no such
 * chunk. */
#define WIRE_RING_FLOATS 65536u /* floats of a chunk */
#define WIRE_RING_CHUNKS (1u << 20)
#define WIRE_RING_CHUNK(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U64(ring) U64(step) U32(chunk) U32(hop) U64(weight) U32(floats) U32(values) \
    B(refused)
#define WIRE_RING_CHUNK_REPLY(U32, U64, I32, F32, F64, B, STR) U64(ring)

/* A piece of the network after step `step`, for a worker that lacks it, from one that the
 * coordinator has named (worker/ring/handover.h). what: enum wire_ring_read; at: the tablet of the
 * dense table `part`, or the first of the floats that are wanted. Reply frame 1: the tablet's image
 * (embedding/table.h), or WIRE_RING_FLOATS floats from `at` on, fewer at the end: the weights of
 * the step before, or of the step. skipped: the step has changed nothing. AGAIN: the worker is not
 * yet in this ring, or does not have the step yet. OLD_RUN: it has a newer ring or another run. */
enum wire_ring_read {
    WIRE_RING_IMAGE = 0,
    WIRE_RING_BEFORE = 1,
    WIRE_RING_WEIGHTS = 2,
    WIRE_RING_KINDS
};
#define WIRE_RING_READ(U32, U64, I32, F32, F64, B, STR) \
    U64(run) U64(ring) U64(step) U32(what) U32(part) U64(at)
#define WIRE_RING_READ_REPLY(U32, U64, I32, F32, F64, B, STR) U64(ring) U64(step) B(skipped)

/* A worker leaves in good order, or says why it cannot go on (when fatal, status and text end the
 * job). */
#define WIRE_WORKER_LEAVE(U32, U64, I32, F32, F64, B, STR) \
    U64(pass) B(fatal) I32(fail_status) STR(fail_text, ERR_TEXT_MAX)
#define WIRE_WORKER_LEAVE_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* ---- CLI -> coordinator ---------------------------------------------------------------------- */

/* A job waits for its turn while another one uses its space, or all places of jobs are taken
 * (server/coord/job/turns.h). frame 1: job file (YAML text).
 * workers: how many workers to wait for before lanes are assigned (0: none). from: folder of the
 * checkpoint that the job resumes; with `start`, of the one whose tables it starts with ("fleet":
 * the tables that the servers hold of its space); empty: none. Reply: the run; said: a sentence
 * for the person that submits it, or empty. */
#define WIRE_SUBMIT(U32, U64, I32, F32, F64, B, STR) U32(workers) STR(from, LIMIT_PATH) B(start)
#define WIRE_SUBMIT_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run) STR(said, ERR_TEXT_MAX)
/* run: the number of a job; 0: the newest that runs, else the newest. Reply frame 1: JSON text:
 * servers, all jobs that run in short, and of that job workers, lanes and progress. NOT_FOUND: that
 * job is none of those at hand (JOBS). */
#define WIRE_STATUS(U32, U64, I32, F32, F64, B, STR) U32(unused) U64(run)
#define WIRE_STATUS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(state) I32(job_status)
#define WIRE_REPORT(U32, U64, I32, F32, F64, B, STR) U64(run)
#define WIRE_REPORT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(state) I32(job_status) STR(job_text, ERR_TEXT_MAX)
/* The jobs that ran here. Reply frame 1: JSON text: a list, the newest last
 * (server/coord/figures/jobs.h). */
#define WIRE_JOBS(U32, U64, I32, F32, F64, B, STR) U32(unused)
#define WIRE_JOBS_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* Has workers trace one batch in `every` of each lane, of all jobs, from their next beat or join
 * on; 0: none. Not stored: a coordinator that starts traces none. */
#define WIRE_TRACE_EVERY(U32, U64, I32, F32, F64, B, STR) U32(every)
#define WIRE_TRACE_EVERY_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* The traces that the coordinator has of a run; run 0: of the run that was traced last. batch above
 * 0: only that of this batch of the lane. Reply frame 1: struct wire_trace (count), the newest
 * last. every: as in TRACE_EVERY. */
#define WIRE_TRACE(U32, U64, I32, F32, F64, B, STR) U64(run) U32(lane) U64(batch)
#define WIRE_TRACE_REPLY(U32, U64, I32, F32, F64, B, STR) U64(run) U32(every) U32(count)
/* Ends the job (job_only) or the process, with all jobs that run. run: the number of the job, which
 * may wait for its turn; 0: of the only one that runs. ends: the job will end in good order. said:
 * what became of a job that had ended before. USAGE: several run and none is named; NOT_FOUND: no
 * job has this number. */
#define WIRE_STOP(U32, U64, I32, F32, F64, B, STR) B(job_only) U64(run)
#define WIRE_STOP_REPLY(U32, U64, I32, F32, F64, B, STR) \
    U32(unused) B(ends) STR(said, ERR_TEXT_MAX)

/* Makes a checkpoint of a space while its job goes on, or while no job uses it; the reply comes
 * when it is complete (or refused). space: empty: that of the job that runs, else the only one.
 * name empty: a number. without: the names of servers that are away, with commas: the checkpoint
 * is of the tables alone, and lacks the tablets of their shards. Reply: its folder, and a
 * sentence on what it lacks. */
#define WIRE_CHECKPOINT(U32, U64, I32, F32, F64, B, STR) \
    STR(name, LIMIT_NAME) STR(without, WIRE_LEFT_OUT) STR(space, LIMIT_NAME)
#define WIRE_LEFT_OUT 256u
#define WIRE_CHECKPOINT_REPLY(U32, U64, I32, F32, F64, B, STR) \
    STR(path, LIMIT_PATH) U64(rows) U64(bytes) STR(lacks, WIRE_TOLD)
/* Removes a finished checkpoint from the checkpoint.dir of a space's job (space: as above); the
 * reply comes when its name is gone (or it is refused). Reply: its former folder. */
#define WIRE_CHECKPOINT_REMOVE(U32, U64, I32, F32, F64, B, STR) \
    STR(name, LIMIT_NAME) STR(space, LIMIT_NAME)
#define WIRE_CHECKPOINT_REMOVE_REPLY(U32, U64, I32, F32, F64, B, STR) STR(path, LIMIT_PATH)
/* Has tablets moved, so that shards carry the same bytes and load, or server `server` none (order:
 * enum wire_moves), while jobs run. A drained server's shards are retired. ADD: gives servers that
 * wait (`server`: names, separated by blanks) shards. dry_run: only tells what would move. Reply
 * frame 1: the plan, or the shards of the servers, as JSON (server/coord/fleet/moves_order.c,
 * add.h). EXISTS: tablets are being moved already; NOT_FOUND: no such server, or with STOP no
 * plan. */
enum wire_moves { WIRE_MOVES_REBALANCE = 1, WIRE_MOVES_DRAIN, WIRE_MOVES_STOP, WIRE_MOVES_ADD };
#define WIRE_MOVES_SERVERS 512u
#define WIRE_MOVES(U32, U64, I32, F32, F64, B, STR) \
    U32(order) B(dry_run) STR(server, WIRE_MOVES_SERVERS)
#define WIRE_MOVES_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)
/* Removes from all servers the rows of a field, or of one of the network's tensors, that the last
 * job of the space no longer has. Its number may then be assigned again. Without a field, or with
 * "*", all rows of the table go, and without a table the whole space. space: empty: the only one;
 * then table and field may also stand for a space and its table. The reply comes when that is done
 * (or refused). */
#define WIRE_DROP(U32, U64, I32, F32, F64, B, STR) \
    STR(table, LIMIT_NAME) STR(field, 96) STR(space, LIMIT_NAME)
#define WIRE_DROP_REPLY(U32, U64, I32, F32, F64, B, STR) U64(rows)
/* Rows of files go into a table by key (ASSIGN): sent before the first of them, and (done) behind
 * the last one; both go into the audit log. BUSY: a job that uses the table runs. number: the
 * table's number on the shards; file, checksum (XXH3 of what was read) and rows: for the log; rows
 * with done: those that the table got. asks: nothing is ordered; it is asked in between whether the
 * import may still end well. token: a number that the sender draws, not 0. STOPPED, with done or
 * asks: since the request with this token a job has begun in the table, or another import, or its
 * rows were dropped. */
#define WIRE_IMPORT(U32, U64, I32, F32, F64, B, STR) \
    STR(table, LIMIT_NAME) U32(number) STR(file, 96) U64(checksum) U64(rows) B(done) \
    U64(token) B(asks)
#define WIRE_IMPORT_REPLY(U32, U64, I32, F32, F64, B, STR) U64(map_epoch)
/* Names a copy that is not in sync as the shard's leader, when no copy in sync is there. Without
 * accept_loss nothing changes. Reply: told says which copy leads or would lead, and which records
 * may be lost. */
#define WIRE_PROMOTE(U32, U64, I32, F32, F64, B, STR) U32(shard) B(accept_loss)
#define WIRE_PROMOTE_REPLY(U32, U64, I32, F32, F64, B, STR) STR(told, WIRE_TOLD)
/* The server is gone for good: the places of its copies are given up, and servers that have room
 * get them. from: without replicas, the absolute path of the checkpoint to which all shards go
 * back; the next server with an empty folder takes the lost shards. The reply comes when the order
 * is stored (or refused). told: what comes, and what is lost. */
#define WIRE_REPLACE(U32, U64, I32, F32, F64, B, STR) STR(server, LIMIT_NAME) STR(from, LIMIT_PATH)
#define WIRE_REPLACE_REPLY(U32, U64, I32, F32, F64, B, STR) STR(told, WIRE_TOLD)
#define WIRE_TOLD 512u
/* Tells which workers computed batches, and from which rows of the input. frame 1: struct
 * wire_batch_name (count). Reply frame 1: JSON text, a list in the same order: worker, task, epoch,
 * position and rows of the input; null where it is no longer known. */
#define WIRE_WHO(U32, U64, I32, F32, F64, B, STR) U64(run) U32(count)
#define WIRE_WHO_REPLY(U32, U64, I32, F32, F64, B, STR) U32(unused)

/* Messages that are newer than WIRE_OLDEST, or changed their meaning since: an older release
 * refuses them by name. X(NAME, version) */
#ifndef WIRE_SINCE
#define WIRE_SINCE(X)
/* Fields that are newer than their message: those past its first `count`. X(NAME or NAME_REPLY,
 * count) */
#define WIRE_LATER(X)
#endif

/* X(NAME, wire number, raw frames of the request, raw frames of a good reply) */
#define WIRE_MAP(X)                                                                                \
    X(HELLO, 1, 0, 0)                                                                              \
    X(PULL, 2, 1, 1)                                                                               \
    X(PUSH, 3, 3, 1)                                                                               \
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
    X(OBJECTS, 50, 3, 1)                                                                           \
    X(OBJECT_DONE, 51, 1, 0)                                                                       \
    X(FENCES, 52, 1, 0)                                                                            \
    X(PROFILE, 53, 1, 0)                                                                           \
    X(TAKEN_SET, 54, 1, 0)                                                                         \
    X(TAKEN_HELD, 55, 0, 1)                                                                        \
    X(TAKEN, 56, 0, 1)                                                                             \
    X(FILES, 57, 1, 0)                                                                             \
    X(SERVER_DISK, 58, 0, 0)                                                                       \
    X(CHECKPOINT_REMOVE, 59, 0, 0)                                                                 \
    X(JOBS, 60, 0, 1)                                                                              \
    X(IN_SYNC, 61, 0, 0)                                                                           \
    X(FOLLOW, 62, 0, 1)                                                                            \
    X(COPY, 63, 1, 2)                                                                              \
    X(HEAT, 64, 0, 1)                                                                              \
    X(MOVE_TAKE, 65, 1, 0)                                                                         \
    X(MOVE_READ, 66, 0, 1)                                                                         \
    X(MOVE_MAP, 67, 2, 0)                                                                          \
    X(PROMOTE, 68, 0, 0)                                                                           \
    X(REPLACE, 69, 0, 0)                                                                           \
    X(MOVES, 70, 0, 1)                                                                             \
    X(TRACES, 71, 1, 0)                                                                            \
    X(TRACE, 72, 0, 1)                                                                             \
    X(TRACE_EVERY, 73, 0, 0)                                                                       \
    X(SPANS, 74, 0, 1)                                                                             \
    X(RING_CHUNK, 75, 1, 0)                                                                        \
    X(RING_READ, 76, 0, 1)                                                                         \
    X(RING, 77, 0, 1)                                                                              \
    X(ASSIGN, 78, 1, 0)                                                                            \
    X(IMAGE, 79, 0, 1)                                                                             \
    X(NAMED, 80, 0, 1)                                                                             \
    X(IMPORT, 81, 0, 0)                                                                            \
    X(SHARES, 84, 1, 1)

/* Frames of items that a field of the header counts: X(NAME, frame, count, bytes of an item, most
 * items). wire_decode refuses a frame that does not fit its count. wire.c has the checks that are
 * more than that. */
#define WIRE_COUNTED(X)                                                                            \
    X(PULL, 1, key_count, 8, LIMIT_KEYS)                                                           \
    X(PUSH, 1, key_count, 8, LIMIT_KEYS)                                                           \
    X(TABLE_CREATE, 1, field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS)                  \
    X(TABLE_DECLARE, 1, field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS)                 \
    X(MAP_SET, 1, tablet_count, 2, LIMIT_FLEET_TABLETS)                                            \
    X(MOVE_TAKE, 1, tablet_count, 4, WIRE_MOVE_TABLETS)                                            \
    X(MOVE_MAP, 1, tablet_count, 2, LIMIT_FLEET_TABLETS)                                           \
    X(FENCES, 1, lane_count, sizeof(struct wire_lane_fence), LIMIT_LANES)                          \
    X(KEYS, 1, key_count, 8, LIMIT_KEYS)                                                           \
    X(SHARES, 1, count, sizeof(struct wire_share), LIMIT_SPACES)                                   \
    X(WHO, 1, count, sizeof(struct wire_batch_name), WIRE_WHO_MAX)                                 \
    X(TRACES, 1, count, sizeof(struct wire_trace), WIRE_TRACES_MAX)                                \
    X(WINDOWS, 1, windows, sizeof(struct wire_window), WIRE_WINDOWS_MAX)                           \
    X(FILES, 1, count, sizeof(struct nameset_item), LIMIT_OBJECTS)                                 \
    X(OBJECT_DONE, 1, windows, sizeof(struct wire_window), WIRE_WINDOWS_MAX)
#define WIRE_COUNTED_REPLY(X)                                                                      \
    X(RING, 1, members, sizeof(struct wire_ring_member), WIRE_RING_MEMBERS)                        \
    X(TABLE_GET, 1, field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS)                     \
    X(MAP_GET, 1, tablet_count, 2, LIMIT_FLEET_TABLETS)                                            \
    X(MAP_HELD, 1, tablet_count, 2, LIMIT_FLEET_TABLETS)                                           \
    X(DIGEST, 1, tablet_count, 8, LIMIT_TABLETS)                                                   \
    X(HEAT, 1, tablet_count, sizeof(struct wire_heat), LIMIT_TABLETS)                              \
    X(NAMED, 1, count, sizeof(struct wire_named), WIRE_NAMED_MAX)                                  \
    X(SHARES, 1, count, sizeof(struct wire_share_use), LIMIT_SPACES)                               \
    X(TRACE, 1, count, sizeof(struct wire_trace), WIRE_TRACES_MAX)                                 \
    X(SPANS, 1, count, sizeof(struct wire_span), WIRE_SPANS_MAX)

enum wire_type {
    WIRE_TYPE_NONE = 0,
#define X(name, number, request_frames, reply_frames) WIRE_TYPE_##name = (number),
    WIRE_MAP(X)
#undef X
};

/* APART is a bit beside one of the others, in RUN_OPEN and LOAD alone: the workers keep the network
 * in step (RING), so the dense tables of the run count in no clock and in no lowest mark. A cut, a
 * checkpoint and a restore keep it. */
enum wire_mode { WIRE_ASYNC = 0, WIRE_SSP = 1, WIRE_BSP = 2, WIRE_APART = 4 };
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

/* ALL: removes `tables` (none: all), their runs, marks and cuts before run `run` is opened; once
 * for a run and a table. Other tables keep theirs. FIELDS: removes all rows of the fields in
 * `fields` (as LOAD's without; tables that are not here are skipped). With a run, the one that
 * starts these fields again: nothing is done once that run was opened here, and the names of their
 * keys stay. With run 0 the names of their keys go too. TABLES: the same for all fields of
 * `tables`. LOADED: empties again what a LOAD for `run`, or for an older run that never trained,
 * did or does in `tables`. A running LOAD is cancelled, and `run` is dropped in any case. */
enum wire_rows {
    WIRE_ROWS_ALL = 0,
    WIRE_ROWS_FIELDS = 1,
    WIRE_ROWS_LOADED = 2,
    WIRE_ROWS_TABLES = 3
};

/* ERASE: the row is removed and the key is blocked. BLOCK: no row is made for the key. ALLOW: the
 * key is admitted whatever the table's admission says. RESET: the key is neither blocked nor
 * allowed any more. SCRUB, for erased keys: journal, archive and store are rewritten so that
 * nothing of their rows and gradients is left. The reply comes when it is done; `changed` is then
 * the journal's sequence up to which that is so. BUSY: another scrub runs. EVICT: the row is
 * removed, and the key keeps its name, if it has one. */
enum wire_key_action {
    WIRE_KEY_ERASE = 0,
    WIRE_KEY_BLOCK = 1,
    WIRE_KEY_ALLOW = 2,
    WIRE_KEY_RESET = 3,
    WIRE_KEY_SCRUB = 4,
    WIRE_KEY_EVICT = 6
};
/* parts of ASSIGN's rows; the values are those of embedding/table.h */
#define WIRE_ASSIGN_STATE 2u
#define WIRE_ASSIGN_STATS 4u
#define WIRE_ASSIGN_KEEP 8u
#define WIRE_ASSIGN_PARTS (WIRE_ASSIGN_STATE | WIRE_ASSIGN_STATS | WIRE_ASSIGN_KEEP)
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
    uint32_t lane, live; /* live: WIRE_LIVE, and WIRE_PLACED with it */
    uint64_t at, clock; /* where it is placed; as in FENCE */
};
_Static_assert(sizeof(struct wire_lane_fence) == 32, "wire_lane_fence is a wire format");

/* clang-format on */

/* struct wire_HELLO { uint32_t version; char role[16]; ... }; struct wire_HELLO_reply; and so on
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
/* Makes a new message whose frame 0 is the packed header; the caller adds raw frames with msg_add.
 * NULL when out of memory. */
struct msg *wire_encode(const struct wire *w);
/* Starts a reply to request, with the same id and type; the caller fills u.NAME_reply, then
 * encodes. */
void wire_reply_to(const struct wire *request, int status, struct wire *out);
/* Makes and encodes a refusal with status and sentence. */
struct msg *wire_refusal(const struct wire *request, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The sentence of a refusal; without one, the text of its status. */
const char *wire_error(const struct wire *refusal);
const char *wire_type_name(enum wire_type t); /* "PULL" */

/* Converts struct table_schema <-> TABLE_CREATE (field_rule goes in and out of the raw frame). */
void wire_schema_to(const struct table_schema *s, struct wire_TABLE_CREATE *out);
int wire_schema_from(const struct wire_TABLE_CREATE *in, const struct frame *field_rule,
                     struct table_schema *out, struct err *e);

/* "protobuf-c 1.4.1" */
const char *wire_library(void);

#endif
