/* wire.c: plain structs <-> protobuf-c. The only file that sees the generated types of messages.
 *
 * 1. A header is unpacked by a capped bump allocator: no malloc, and no peer makes us take more than LIMIT_UNPACK_BYTES.
 * 2. Struct and proto message are two readings of the same list in wire.h: field i of one is field i of the other; asserted
 *    whenever a type is used.
 * 3. What wire_decode lets through has the right frame count, and frames whose bytes agree with the counts in the header. */
#include "proto/wire/wire.h"
#include "proto/base/assert.h"

#include "shoal.pb-c.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- fields, by list -------------------------------------------------------------------------------------- */

struct field {
    ProtobufCType type;
    uint32_t offset;   /* in the plain struct */
    uint32_t capacity; /* of a string, NUL counted */
};

struct shape { /* of one message, request or reply */
    const ProtobufCMessageDescriptor *proto;
    const struct field *field;
    uint32_t field_count;
};

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

#define ROW(NAME, proto_name)                                                                                  \
    static const struct shape shape_##NAME = {&pb__##proto_name##__descriptor, fields_##NAME,                  \
                                              sizeof fields_##NAME / sizeof fields_##NAME[0]};              \
    static const struct shape shape_##NAME##_REPLY = {&pb__##proto_name##_reply__descriptor, fields_##NAME##_REPLY, \
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

/* Shape and raw frame count of a type; NULL for a type that is not in the list. */
static const struct shape *shape_of(uint32_t type, bool reply, uint32_t *frames)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)      \
    case number:                                           \
        *frames = reply ? (reply_frames) : (request_frames); \
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
#define X(name, number, request_frames, reply_frames) \
    case WIRE_TYPE_##name:                            \
        return #name;
        WIRE_MAP(X)
#undef X
    case WIRE_TYPE_NONE:
        break;
    }
    return "unknown";
}

/* ---- one message, both ways ------------------------------------------------------------------------------- */

enum { BODY_STRUCT_BYTES = 2048 }; /* the largest generated struct; asserted */

static void shape_assert(const struct shape *s)
{
    SHOAL_ASSERT(s->proto->n_fields == s->field_count && s->proto->sizeof_message <= BODY_STRUCT_BYTES);
    for (uint32_t i = 0; i < s->field_count; i++)
        SHOAL_VERIFY_ASSERT(s->proto->fields[i].type == s->field[i].type && s->proto->fields[i].id == i + 1);
}

/* Bytes of a number of this type in the generated struct and in ours; bool differs and is copied by value. */
static size_t number_bytes(ProtobufCType type)
{
    return type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_DOUBLE ? 8 : 4;
}

static void body_to_proto(const struct shape *s, const void *plain, ProtobufCMessage *proto)
{
    for (uint32_t i = 0; i < s->field_count; i++) {
        const char *from = (const char *)plain + s->field[i].offset;
        char *to = (char *)proto + s->proto->fields[i].offset;
        if (s->field[i].type == PROTOBUF_C_TYPE_STRING)
            memcpy(to, &from, sizeof from);
        else if (s->field[i].type == PROTOBUF_C_TYPE_BOOL)
            *(protobuf_c_boolean *)(void *)to = *(const bool *)(const void *)from;
        else
            memcpy(to, from, number_bytes(s->field[i].type));
    }
}

static int body_from_proto(const struct shape *s, const ProtobufCMessage *proto, void *plain, struct err *e)
{
    for (uint32_t i = 0; i < s->field_count; i++) {
        char *to = (char *)plain + s->field[i].offset;
        const char *from = (const char *)proto + s->proto->fields[i].offset;
        if (s->field[i].type == PROTOBUF_C_TYPE_STRING) {
            const char *text;
            memcpy(&text, from, sizeof text);
            size_t length = text == NULL ? 0 : strlen(text);
            if (length >= s->field[i].capacity)
                return err_set(e, SHOAL_E_TOO_BIG, "%s.%s has %zu bytes, at most %u", s->proto->short_name,
                               s->proto->fields[i].name, length, s->field[i].capacity - 1);
            memcpy(to, length == 0 ? "" : text, length + 1);
        } else if (s->field[i].type == PROTOBUF_C_TYPE_BOOL) {
            *(bool *)(void *)to = *(const protobuf_c_boolean *)(const void *)from != 0;
        } else {
            memcpy(to, from, number_bytes(s->field[i].type));
        }
    }
    return 0;
}

/* ---- the capped allocator (1) ----------------------------------------------------------------------------- */

static _Thread_local struct {
    _Alignas(16) unsigned char byte[LIMIT_UNPACK_BYTES];
    size_t used;
} space;

static void *space_alloc(void *unused, size_t bytes)
{
    (void)unused;
    size_t at = (space.used + 15) & ~(size_t)15;
    if (bytes > sizeof space.byte || at > sizeof space.byte - bytes)
        return NULL;
    space.used = at + bytes;
    return space.byte + at;
}

static void space_free(void *unused, void *pointer)
{
    (void)unused;
    (void)pointer; /* all at once, when the next header is decoded */
}

static ProtobufCAllocator space_allocator = {space_alloc, space_free, NULL};

/* ---- frames against counts (3) ---------------------------------------------------------------------------- */

static int frame_expect(const struct msg *m, uint32_t frame, uint64_t count, uint64_t item_bytes, uint64_t count_max, struct err *e)
{
    if (count > count_max)
        return err_set(e, SHOAL_E_TOO_BIG, "count %llu is over the limit of %llu", (unsigned long long)count,
                       (unsigned long long)count_max);
    if (m->frame[frame].bytes != count * item_bytes)
        return err_set(e, SHOAL_E_MALFORMED, "frame %u has %zu bytes, its count says %llu", frame, m->frame[frame].bytes,
                       (unsigned long long)(count * item_bytes));
    return 0;
}

static int eval_frames_check(const struct msg *m, const struct wire_EVAL_DONE *q, struct err *e)
{
    if (q->tasks > LIMIT_TASKS || q->by_count > LIMIT_BY)
        return err_set(e, SHOAL_E_TOO_BIG, "predictions of %u labels and %u fields, at most %u and %u", q->tasks, q->by_count,
                       LIMIT_TASKS, LIMIT_BY);
    int status = frame_expect(m, 1, q->examples, 8ull * q->tasks, LIMIT_BATCH, e);
    return status != 0 ? status : frame_expect(m, 2, q->examples, 8ull * ((q->grouped ? 1 : 0) + q->by_count), LIMIT_BATCH, e);
}

static int request_frames_check(const struct msg *m, const struct wire *w, struct err *e)
{
    const uint64_t tablets_max = (uint64_t)LIMIT_TABLES * LIMIT_TABLETS;
    int status;

    switch (w->type) {
    case WIRE_TYPE_PULL:
        return frame_expect(m, 1, w->u.PULL.key_count, 8, LIMIT_KEYS, e);
    case WIRE_TYPE_PUSH:
        status = frame_expect(m, 1, w->u.PUSH.key_count, 8, LIMIT_KEYS, e);
        if (status != 0)
            return status;
        if (w->u.PUSH.key_count == 0 ? m->frame[2].bytes != 0 : m->frame[2].bytes % (4ull * w->u.PUSH.key_count) != 0)
            return err_set(e, SHOAL_E_MALFORMED, "%zu bytes of gradients do not fit %u keys", m->frame[2].bytes,
                           w->u.PUSH.key_count);
        return 0;
    case WIRE_TYPE_TABLE_CREATE:
        return frame_expect(m, 1, w->u.TABLE_CREATE.field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS, e);
    case WIRE_TYPE_TABLE_DECLARE:
        return frame_expect(m, 1, w->u.TABLE_DECLARE.field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS, e);
    case WIRE_TYPE_MAP_SET:
        return frame_expect(m, 1, w->u.MAP_SET.tablet_count, 2, tablets_max, e);
    case WIRE_TYPE_TASK_DONE:
        status = frame_expect(m, 1, 64, 8, 64, e);
        return status != 0 ? status : frame_expect(m, 2, w->u.TASK_DONE.tasks, 8, LIMIT_TASKS, e);
    case WIRE_TYPE_EVAL_DONE:
        return eval_frames_check(m, &w->u.EVAL_DONE, e);
    case WIRE_TYPE_KEYS:
        return frame_expect(m, 1, w->u.KEYS.key_count, 8, LIMIT_KEYS, e);
    case WIRE_TYPE_WHO:
        return frame_expect(m, 1, w->u.WHO.count, sizeof(struct wire_batch_name), WIRE_WHO_MAX, e);
    default:
        return 0;
    }
}

static int reply_frames_check(const struct msg *m, const struct wire *w, struct err *e)
{
    const uint64_t tablets_max = (uint64_t)LIMIT_TABLES * LIMIT_TABLETS;

    switch (w->type) {
    case WIRE_TYPE_PULL:
        if (w->u.PULL_reply.width > LIMIT_WIDTH)
            return err_set(e, SHOAL_E_TOO_BIG, "rows of %u floats, at most %u", w->u.PULL_reply.width, LIMIT_WIDTH);
        return frame_expect(m, 1, w->u.PULL_reply.key_count, 4ull * w->u.PULL_reply.width, LIMIT_KEYS, e);
    case WIRE_TYPE_TABLE_GET:
        return frame_expect(m, 1, w->u.TABLE_GET_reply.field_rule_count, sizeof(struct field_rule), LIMIT_FIELDS, e);
    case WIRE_TYPE_MAP_GET:
        return frame_expect(m, 1, w->u.MAP_GET_reply.tablet_count, 2, tablets_max, e);
    case WIRE_TYPE_DIGEST:
        return frame_expect(m, 1, w->u.DIGEST_reply.tablet_count, 8, LIMIT_TABLETS, e);
    default:
        return 0;
    }
}

/* ---- decode ----------------------------------------------------------------------------------------------- */

static int body_decode(const Pb__Header *h, const struct shape *s, struct wire *out, struct err *e)
{
    shape_assert(s);
    ProtobufCMessage *body = protobuf_c_message_unpack(s->proto, &space_allocator, h->body.len, h->body.data);
    if (body == NULL)
        return err_set(e, SHOAL_E_MALFORMED, "%s header cannot be unpacked", s->proto->short_name);
    return body_from_proto(s, body, &out->u, e);
}

static int header_decode(const struct frame *f, struct wire *out, const Pb__Header **header, struct err *e)
{
    if (f->bytes > LIMIT_HEADER_BYTES)
        return err_set(e, SHOAL_E_TOO_BIG, "header of %zu bytes, at most %u", f->bytes, LIMIT_HEADER_BYTES);
    space.used = 0;
    const Pb__Header *h = pb__header__unpack(&space_allocator, f->bytes, f->data);
    if (h == NULL)
        return err_set(e, SHOAL_E_MALFORMED, "%zu bytes are not a header", f->bytes);
    uint32_t frames;
    /* Known even when the version is not ours, so that a refusal can be sent; but never a type that is not in the list. */
    out->type = shape_of(h->type, false, &frames) == NULL ? WIRE_TYPE_NONE : (enum wire_type)h->type;
    out->reply = h->reply != 0;
    out->id = h->id;
    out->status = h->status;
    (void)snprintf(out->error, sizeof out->error, "%s", h->error == NULL ? "" : h->error);
    *header = h;
    if (h->version != WIRE_VERSION)
        return err_set(e, SHOAL_E_VERSION, "peer speaks protocol version %u, this is version %u: run the same release on both sides",
                       h->version, WIRE_VERSION);
    return 0;
}

int wire_decode(const struct msg *m, struct wire *out, struct err *e)
{
    const Pb__Header *h = NULL;
    uint32_t frames = 0;

    out->type = WIRE_TYPE_NONE;
    out->id = 0;
    if (m->frame_count == 0)
        return err_set(e, SHOAL_E_MALFORMED, "message without a header");
    int status = header_decode(&m->frame[0], out, &h, e);
    if (status != 0)
        return status;
    const struct shape *s = shape_of(h->type, out->reply, &frames);
    if (s == NULL)
        return err_set(e, SHOAL_E_MALFORMED, "unknown message type %u", h->type);
    if (out->reply && out->status != 0)
        frames = 0;
    if (m->frame_count != 1 + frames)
        return err_set(e, SHOAL_E_MALFORMED, "%s with %u raw frames, it has %u", wire_type_name(out->type), m->frame_count - 1,
                       frames);
    status = body_decode(h, s, out, e);
    if (status != 0)
        return status;
    if (!out->reply)
        return request_frames_check(m, out, e);
    return out->status != 0 ? 0 : reply_frames_check(m, out, e);
}

/* ---- encode ----------------------------------------------------------------------------------------------- */

struct msg *wire_encode(const struct wire *w)
{
    _Alignas(16) unsigned char generated[BODY_STRUCT_BYTES];
    unsigned char packed[4096];
    uint32_t frames;
    const struct shape *s = shape_of((uint32_t)w->type, w->reply, &frames);

    SHOAL_ASSERT(s != NULL);
    shape_assert(s);
    ProtobufCMessage *body = (ProtobufCMessage *)(void *)generated;
    protobuf_c_message_init(s->proto, body);
    body_to_proto(s, &w->u, body);
    SHOAL_ASSERT(protobuf_c_message_get_packed_size(body) <= sizeof packed);
    Pb__Header h = PB__HEADER__INIT;
    h.version = WIRE_VERSION;
    h.type = (uint32_t)w->type;
    h.reply = w->reply;
    h.id = w->id;
    h.status = w->reply ? w->status : 0;
    h.error = w->reply && w->status != 0 ? (char *)(uintptr_t)w->error : (char *)(uintptr_t)"";
    h.body.len = protobuf_c_message_pack(body, packed);
    h.body.data = packed;
    struct msg *m = msg_new();
    void *frame = m == NULL ? NULL : msg_add(m, pb__header__get_packed_size(&h));
    if (frame == NULL) {
        msg_free(m);
        return NULL;
    }
    (void)pb__header__pack(&h, frame);
    return m;
}

void wire_reply_to(const struct wire *request, int status, struct wire *out)
{
    memset(&out->u, 0, sizeof out->u);
    out->type = request->type;
    out->reply = true;
    out->id = request->id;
    out->status = status;
    out->error[0] = 0;
}

struct msg *wire_refusal(const struct wire *request, int status, const char *format, ...)
{
    struct wire w;
    va_list arguments;

    wire_reply_to(request, status, &w);
    va_start(arguments, format);
    (void)vsnprintf(w.error, sizeof w.error, format, arguments);
    va_end(arguments);
    return wire_encode(&w);
}

/* ---- table schemas ---------------------------------------------------------------------------------------- */

void wire_schema_to(const struct table_schema *s, struct wire_TABLE_CREATE *out)
{
    *out = (struct wire_TABLE_CREATE){
        .table = s->table, .dense = s->dense, .width = s->width, .zero_first = s->zero_first, .tablet_bits = s->tablet_bits,
        .tablet_first = s->tablet_first, .seed = s->seed, .init_kind = (uint32_t)s->init.kind, .init_scale = s->init.scale,
        .opt_kind = (uint32_t)s->optimizer.kind, .lr = s->optimizer.lr, .beta1 = s->optimizer.beta1, .beta2 = s->optimizer.beta2,
        .eps = s->optimizer.eps, .initial = s->optimizer.initial, .l1 = s->optimizer.l1, .l2 = s->optimizer.l2,
        .beta = s->optimizer.beta, .decay = s->optimizer.decay, .fixed_lr = s->optimizer.fixed_lr,
        .field_rule_count = s->field_rule_count, .values = s->values};
#define RULE(n) out->n = s->rules.n;
    ROW_RULES(RULE, RULE)
#undef RULE
    memcpy(out->name, s->name, sizeof out->name);
}

int wire_schema_from(const struct wire_TABLE_CREATE *in, const struct frame *field_rule, struct table_schema *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    memcpy(out->name, in->name, sizeof out->name);
    out->table = in->table;
    out->dense = in->dense;
    out->width = in->width;
    out->zero_first = in->zero_first;
    out->tablet_bits = in->tablet_bits;
    out->tablet_first = in->tablet_first;
    out->seed = in->seed;
    out->init = (struct init_spec){(enum init_kind)in->init_kind, in->init_scale};
    out->optimizer = (struct optimizer_spec){
        .kind = (enum optimizer_kind)in->opt_kind, .lr = in->lr, .beta1 = in->beta1, .beta2 = in->beta2, .eps = in->eps,
        .initial = in->initial, .l1 = in->l1, .l2 = in->l2, .beta = in->beta, .decay = in->decay, .fixed_lr = in->fixed_lr};
#define RULE(n) out->rules.n = in->n;
    ROW_RULES(RULE, RULE)
#undef RULE
    if (in->field_rule_count > LIMIT_FIELDS || field_rule->bytes != in->field_rule_count * sizeof(struct field_rule))
        return err_set(e, SHOAL_E_MALFORMED, "table %s: rules by field do not fit their count", in->name);
    out->field_rule_count = in->field_rule_count;
    out->values = in->values;
    if (field_rule->bytes > 0)
        memcpy(out->field_rule, field_rule->data, field_rule->bytes);
    return schema_check(out, e);
}
