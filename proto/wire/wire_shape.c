/* wire_shape.c: the shape of every message: its fields in the plain struct, made from its list in
 * wire.h, beside the generated descriptor.
 *
 * 1. A message has here its two fields_* and a ROW; one that is left out does not compile, since
 *    WIRE_MAP names it below.
 * 2. Field i of the plain struct is field i of the proto message, with the number i + 1:
 *    wire_shape_assert. */
#include "proto/wire/wire_inner.h"

#include "proto/base/assert.h"
#include "proto/wire/wire.h"

#include "shoal.pb-c.h"

#include <stddef.h>

/* ---- fields, by list ------------------------------------------------------------------------- */

#define F_U32(n) {PROTOBUF_C_TYPE_UINT32, (uint32_t)offsetof(struct OWNER, n), 0},
#define F_U64(n) {PROTOBUF_C_TYPE_UINT64, (uint32_t)offsetof(struct OWNER, n), 0},
#define F_I32(n) {PROTOBUF_C_TYPE_SINT32, (uint32_t)offsetof(struct OWNER, n), 0},
#define F_F32(n) {PROTOBUF_C_TYPE_FLOAT, (uint32_t)offsetof(struct OWNER, n), 0},
#define F_F64(n) {PROTOBUF_C_TYPE_DOUBLE, (uint32_t)offsetof(struct OWNER, n), 0},
#define F_B(n) {PROTOBUF_C_TYPE_BOOL, (uint32_t)offsetof(struct OWNER, n), 0},
#define F_STR(n, size) {PROTOBUF_C_TYPE_STRING, (uint32_t)offsetof(struct OWNER, n), size},
#define FIELDS(LIST) LIST(F_U32, F_U64, F_I32, F_F32, F_F64, F_B, F_STR)

#define OWNER wire_HELLO
static const struct field fields_HELLO[] = {FIELDS(WIRE_HELLO)};
#undef OWNER
#define OWNER wire_HELLO_reply
static const struct field fields_HELLO_REPLY[] = {FIELDS(WIRE_HELLO_REPLY)};
#undef OWNER
#define OWNER wire_PULL
static const struct field fields_PULL[] = {FIELDS(WIRE_PULL)};
#undef OWNER
#define OWNER wire_PULL_reply
static const struct field fields_PULL_REPLY[] = {FIELDS(WIRE_PULL_REPLY)};
#undef OWNER
#define OWNER wire_PUSH
static const struct field fields_PUSH[] = {FIELDS(WIRE_PUSH)};
#undef OWNER
#define OWNER wire_PUSH_reply
static const struct field fields_PUSH_REPLY[] = {FIELDS(WIRE_PUSH_REPLY)};
#undef OWNER
#define OWNER wire_TABLE_CREATE
static const struct field fields_TABLE_CREATE[] = {FIELDS(WIRE_TABLE_CREATE)};
#undef OWNER
#define OWNER wire_TABLE_CREATE_reply
static const struct field fields_TABLE_CREATE_REPLY[] = {FIELDS(WIRE_TABLE_CREATE_REPLY)};
#undef OWNER
#define OWNER wire_RUN_OPEN
static const struct field fields_RUN_OPEN[] = {FIELDS(WIRE_RUN_OPEN)};
#undef OWNER
#define OWNER wire_RUN_OPEN_reply
static const struct field fields_RUN_OPEN_REPLY[] = {FIELDS(WIRE_RUN_OPEN_REPLY)};
#undef OWNER
#define OWNER wire_RUN_DROP
static const struct field fields_RUN_DROP[] = {FIELDS(WIRE_RUN_DROP)};
#undef OWNER
#define OWNER wire_RUN_DROP_reply
static const struct field fields_RUN_DROP_REPLY[] = {FIELDS(WIRE_RUN_DROP_REPLY)};
#undef OWNER
#define OWNER wire_FENCE
static const struct field fields_FENCE[] = {FIELDS(WIRE_FENCE)};
#undef OWNER
#define OWNER wire_FENCE_reply
static const struct field fields_FENCE_REPLY[] = {FIELDS(WIRE_FENCE_REPLY)};
#undef OWNER
#define OWNER wire_MAP_SET
static const struct field fields_MAP_SET[] = {FIELDS(WIRE_MAP_SET)};
#undef OWNER
#define OWNER wire_MAP_SET_reply
static const struct field fields_MAP_SET_REPLY[] = {FIELDS(WIRE_MAP_SET_REPLY)};
#undef OWNER
#define OWNER wire_HOLD
static const struct field fields_HOLD[] = {FIELDS(WIRE_HOLD)};
#undef OWNER
#define OWNER wire_HOLD_reply
static const struct field fields_HOLD_REPLY[] = {FIELDS(WIRE_HOLD_REPLY)};
#undef OWNER
#define OWNER wire_GO
static const struct field fields_GO[] = {FIELDS(WIRE_GO)};
#undef OWNER
#define OWNER wire_GO_reply
static const struct field fields_GO_REPLY[] = {FIELDS(WIRE_GO_REPLY)};
#undef OWNER
#define OWNER wire_RESTORE
static const struct field fields_RESTORE[] = {FIELDS(WIRE_RESTORE)};
#undef OWNER
#define OWNER wire_RESTORE_reply
static const struct field fields_RESTORE_REPLY[] = {FIELDS(WIRE_RESTORE_REPLY)};
#undef OWNER
#define OWNER wire_CUT_DROP
static const struct field fields_CUT_DROP[] = {FIELDS(WIRE_CUT_DROP)};
#undef OWNER
#define OWNER wire_CUT_DROP_reply
static const struct field fields_CUT_DROP_REPLY[] = {FIELDS(WIRE_CUT_DROP_REPLY)};
#undef OWNER
#define OWNER wire_DIGEST
static const struct field fields_DIGEST[] = {FIELDS(WIRE_DIGEST)};
#undef OWNER
#define OWNER wire_DIGEST_reply
static const struct field fields_DIGEST_REPLY[] = {FIELDS(WIRE_DIGEST_REPLY)};
#undef OWNER
#define OWNER wire_INSPECT
static const struct field fields_INSPECT[] = {FIELDS(WIRE_INSPECT)};
#undef OWNER
#define OWNER wire_INSPECT_reply
static const struct field fields_INSPECT_REPLY[] = {FIELDS(WIRE_INSPECT_REPLY)};
#undef OWNER
#define OWNER wire_SHARD_STATUS
static const struct field fields_SHARD_STATUS[] = {FIELDS(WIRE_SHARD_STATUS)};
#undef OWNER
#define OWNER wire_SHARD_STATUS_reply
static const struct field fields_SHARD_STATUS_REPLY[] = {FIELDS(WIRE_SHARD_STATUS_REPLY)};
#undef OWNER
#define OWNER wire_SHARD_BEAT
static const struct field fields_SHARD_BEAT[] = {FIELDS(WIRE_SHARD_BEAT)};
#undef OWNER
#define OWNER wire_SHARD_BEAT_reply
static const struct field fields_SHARD_BEAT_REPLY[] = {FIELDS(WIRE_SHARD_BEAT_REPLY)};
#undef OWNER
#define OWNER wire_WORKER_JOIN
static const struct field fields_WORKER_JOIN[] = {FIELDS(WIRE_WORKER_JOIN)};
#undef OWNER
#define OWNER wire_WORKER_JOIN_reply
static const struct field fields_WORKER_JOIN_REPLY[] = {FIELDS(WIRE_WORKER_JOIN_REPLY)};
#undef OWNER
#define OWNER wire_TABLE_GET
static const struct field fields_TABLE_GET[] = {FIELDS(WIRE_TABLE_GET)};
#undef OWNER
#define OWNER wire_TABLE_GET_reply
static const struct field fields_TABLE_GET_REPLY[] = {FIELDS(WIRE_TABLE_GET_REPLY)};
#undef OWNER
#define OWNER wire_MAP_GET
static const struct field fields_MAP_GET[] = {FIELDS(WIRE_MAP_GET)};
#undef OWNER
#define OWNER wire_MAP_GET_reply
static const struct field fields_MAP_GET_REPLY[] = {FIELDS(WIRE_MAP_GET_REPLY)};
#undef OWNER
#define OWNER wire_WORKER_BEAT
static const struct field fields_WORKER_BEAT[] = {FIELDS(WIRE_WORKER_BEAT)};
#undef OWNER
#define OWNER wire_WORKER_BEAT_reply
static const struct field fields_WORKER_BEAT_REPLY[] = {FIELDS(WIRE_WORKER_BEAT_REPLY)};
#undef OWNER
#define OWNER wire_INDEX_DONE
static const struct field fields_INDEX_DONE[] = {FIELDS(WIRE_INDEX_DONE)};
#undef OWNER
#define OWNER wire_INDEX_DONE_reply
static const struct field fields_INDEX_DONE_REPLY[] = {FIELDS(WIRE_INDEX_DONE_REPLY)};
#undef OWNER
#define OWNER wire_LANE_NEXT
static const struct field fields_LANE_NEXT[] = {FIELDS(WIRE_LANE_NEXT)};
#undef OWNER
#define OWNER wire_LANE_NEXT_reply
static const struct field fields_LANE_NEXT_REPLY[] = {FIELDS(WIRE_LANE_NEXT_REPLY)};
#undef OWNER
#define OWNER wire_TASK_DONE
static const struct field fields_TASK_DONE[] = {FIELDS(WIRE_TASK_DONE)};
#undef OWNER
#define OWNER wire_TASK_DONE_reply
static const struct field fields_TASK_DONE_REPLY[] = {FIELDS(WIRE_TASK_DONE_REPLY)};
#undef OWNER
#define OWNER wire_EVAL_DONE
static const struct field fields_EVAL_DONE[] = {FIELDS(WIRE_EVAL_DONE)};
#undef OWNER
#define OWNER wire_EVAL_DONE_reply
static const struct field fields_EVAL_DONE_REPLY[] = {FIELDS(WIRE_EVAL_DONE_REPLY)};
#undef OWNER
#define OWNER wire_WORKER_LEAVE
static const struct field fields_WORKER_LEAVE[] = {FIELDS(WIRE_WORKER_LEAVE)};
#undef OWNER
#define OWNER wire_WORKER_LEAVE_reply
static const struct field fields_WORKER_LEAVE_REPLY[] = {FIELDS(WIRE_WORKER_LEAVE_REPLY)};
#undef OWNER
#define OWNER wire_SUBMIT
static const struct field fields_SUBMIT[] = {FIELDS(WIRE_SUBMIT)};
#undef OWNER
#define OWNER wire_SUBMIT_reply
static const struct field fields_SUBMIT_REPLY[] = {FIELDS(WIRE_SUBMIT_REPLY)};
#undef OWNER
#define OWNER wire_STATUS
static const struct field fields_STATUS[] = {FIELDS(WIRE_STATUS)};
#undef OWNER
#define OWNER wire_STATUS_reply
static const struct field fields_STATUS_REPLY[] = {FIELDS(WIRE_STATUS_REPLY)};
#undef OWNER
#define OWNER wire_REPORT
static const struct field fields_REPORT[] = {FIELDS(WIRE_REPORT)};
#undef OWNER
#define OWNER wire_REPORT_reply
static const struct field fields_REPORT_REPLY[] = {FIELDS(WIRE_REPORT_REPLY)};
#undef OWNER
#define OWNER wire_STOP
static const struct field fields_STOP[] = {FIELDS(WIRE_STOP)};
#undef OWNER
#define OWNER wire_STOP_reply
static const struct field fields_STOP_REPLY[] = {FIELDS(WIRE_STOP_REPLY)};
#undef OWNER
#define OWNER wire_TABLE_DECLARE
static const struct field fields_TABLE_DECLARE[] = {FIELDS(WIRE_TABLE_DECLARE)};
#undef OWNER
#define OWNER wire_TABLE_DECLARE_reply
static const struct field fields_TABLE_DECLARE_REPLY[] = {FIELDS(WIRE_TABLE_DECLARE_REPLY)};
#undef OWNER
#define OWNER wire_CUT_EXPORT
static const struct field fields_CUT_EXPORT[] = {FIELDS(WIRE_CUT_EXPORT)};
#undef OWNER
#define OWNER wire_CUT_EXPORT_reply
static const struct field fields_CUT_EXPORT_REPLY[] = {FIELDS(WIRE_CUT_EXPORT_REPLY)};
#undef OWNER
#define OWNER wire_LOAD
static const struct field fields_LOAD[] = {FIELDS(WIRE_LOAD)};
#undef OWNER
#define OWNER wire_LOAD_reply
static const struct field fields_LOAD_REPLY[] = {FIELDS(WIRE_LOAD_REPLY)};
#undef OWNER
#define OWNER wire_LOAD_DROP
static const struct field fields_LOAD_DROP[] = {FIELDS(WIRE_LOAD_DROP)};
#undef OWNER
#define OWNER wire_LOAD_DROP_reply
static const struct field fields_LOAD_DROP_REPLY[] = {FIELDS(WIRE_LOAD_DROP_REPLY)};
#undef OWNER
#define OWNER wire_CUT_KEEP
static const struct field fields_CUT_KEEP[] = {FIELDS(WIRE_CUT_KEEP)};
#undef OWNER
#define OWNER wire_CUT_KEEP_reply
static const struct field fields_CUT_KEEP_REPLY[] = {FIELDS(WIRE_CUT_KEEP_REPLY)};
#undef OWNER
#define OWNER wire_KEYS
static const struct field fields_KEYS[] = {FIELDS(WIRE_KEYS)};
#undef OWNER
#define OWNER wire_KEYS_reply
static const struct field fields_KEYS_REPLY[] = {FIELDS(WIRE_KEYS_REPLY)};
#undef OWNER
#define OWNER wire_TABLE_STATS
static const struct field fields_TABLE_STATS[] = {FIELDS(WIRE_TABLE_STATS)};
#undef OWNER
#define OWNER wire_TABLE_STATS_reply
static const struct field fields_TABLE_STATS_REPLY[] = {FIELDS(WIRE_TABLE_STATS_REPLY)};
#undef OWNER
#define OWNER wire_BLAME
static const struct field fields_BLAME[] = {FIELDS(WIRE_BLAME)};
#undef OWNER
#define OWNER wire_BLAME_reply
static const struct field fields_BLAME_REPLY[] = {FIELDS(WIRE_BLAME_REPLY)};
#undef OWNER
#define OWNER wire_CHECKPOINT
static const struct field fields_CHECKPOINT[] = {FIELDS(WIRE_CHECKPOINT)};
#undef OWNER
#define OWNER wire_CHECKPOINT_reply
static const struct field fields_CHECKPOINT_REPLY[] = {FIELDS(WIRE_CHECKPOINT_REPLY)};
#undef OWNER
#define OWNER wire_WHO
static const struct field fields_WHO[] = {FIELDS(WIRE_WHO)};
#undef OWNER
#define OWNER wire_WHO_reply
static const struct field fields_WHO_REPLY[] = {FIELDS(WIRE_WHO_REPLY)};
#undef OWNER

#define ROW(NAME, proto_name)                                                                      \
    static const struct shape shape_##NAME = {&pb__##proto_name##__descriptor, fields_##NAME,      \
                                              sizeof fields_##NAME / sizeof fields_##NAME[0]};     \
    static const struct shape shape_##NAME##_REPLY = {                                             \
        &pb__##proto_name##_reply__descriptor, fields_##NAME##_REPLY,                              \
        sizeof fields_##NAME##_REPLY / sizeof fields_##NAME##_REPLY[0]};
ROW(HELLO, hello)
ROW(PULL, pull)
ROW(PUSH, push)
ROW(TABLE_CREATE, table_create)
ROW(RUN_OPEN, run_open)
ROW(RUN_DROP, run_drop)
ROW(FENCE, fence)
ROW(MAP_SET, map_set)
ROW(HOLD, hold)
ROW(GO, go)
ROW(RESTORE, restore)
ROW(CUT_DROP, cut_drop)
ROW(DIGEST, digest)
ROW(INSPECT, inspect)
ROW(SHARD_STATUS, shard_status)
ROW(SHARD_BEAT, shard_beat)
ROW(WORKER_JOIN, worker_join)
ROW(TABLE_GET, table_get)
ROW(MAP_GET, map_get)
ROW(WORKER_BEAT, worker_beat)
ROW(INDEX_DONE, index_done)
ROW(LANE_NEXT, lane_next)
ROW(TASK_DONE, task_done)
ROW(EVAL_DONE, eval_done)
ROW(WORKER_LEAVE, worker_leave)
ROW(SUBMIT, submit)
ROW(STATUS, status)
ROW(REPORT, report)
ROW(STOP, stop)
ROW(TABLE_DECLARE, table_declare)
ROW(CUT_EXPORT, cut_export)
ROW(LOAD, load)
ROW(KEYS, keys)
ROW(TABLE_STATS, table_stats)
ROW(BLAME, blame)
ROW(CHECKPOINT, checkpoint)
ROW(WHO, who)
ROW(LOAD_DROP, load_drop)
ROW(CUT_KEEP, cut_keep)
#undef ROW

/* ---- by type --------------------------------------------------------------------------------- */

const struct shape *wire_shape_of(uint32_t type, bool reply, uint32_t *frames)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case number:                                                                                   \
        *frames = reply ? (reply_frames) : (request_frames);                                       \
        return reply ? &shape_##name##_REPLY : &shape_##name;
        WIRE_MAP(X)
#undef X
    default:
        return NULL;
    }
}

const char *wire_type_name(enum wire_type t)
{
    switch (t) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        return #name;
        WIRE_MAP(X)
#undef X
    case WIRE_TYPE_NONE:
        break;
    }
    return "unknown";
}

void wire_shape_assert(const struct shape *s)
{
    SHOAL_ASSERT(s->proto->n_fields == s->field_count &&
                 s->proto->sizeof_message <= BODY_STRUCT_BYTES);
    for (uint32_t i = 0; i < s->field_count; i++)
        SHOAL_VERIFY_ASSERT(s->proto->fields[i].type == s->field[i].type &&
                            s->proto->fields[i].id == i + 1);
}
