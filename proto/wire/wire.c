/* wire.c: converts plain structs to protobuf-c and back, by the shapes in wire_shape.c. Only these
 * two files see the generated types of messages.
 *
 * 1. A header is unpacked by a capped bump allocator: there is no malloc, and no peer can make it
 *    take more than LIMIT_UNPACK_BYTES. [test: wire_decoding_allocates_nothing]
 * 2. Struct and proto message are made from the same list in wire.h: field i of one is field i of
 *    the other; asserted whenever a type is used (wire_shape_assert).
 *    [test: wire_every_type_encodes_and_decodes]
 * 3. A message that wire_decode accepts has the right frame count, and frames whose bytes agree
 *    with the counts in the header. [test: wire_wrong_frame_count_is_refused,
 *    wire_count_that_does_not_fit_its_frame_is_refused] */
#include "proto/wire/wire.h"
#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "proto/job/half.h"
#include "proto/wire/wire_inner.h"

#include "shoal.pb-c.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- one message, both ways ------------------------------------------------------------------ */

/* Bytes of a number of this type, in the generated struct and in the plain one; bool differs and is
 * copied by value. */
static size_t number_bytes(ProtobufCType type)
{
    if (type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_DOUBLE)
        return 8;
    return 4;
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
        if (s->proto->fields[i].label == PROTOBUF_C_LABEL_OPTIONAL &&
            s->field[i].type != PROTOBUF_C_TYPE_STRING)
            *(protobuf_c_boolean *)((char *)proto + s->proto->fields[i].quantifier_offset) = 1;
    }
}

static int body_from_proto(const struct shape *s, const ProtobufCMessage *proto, void *plain,
                           struct err *e)
{
    for (uint32_t i = 0; i < s->field_count; i++) {
        char *to = (char *)plain + s->field[i].offset;
        const char *from = (const char *)proto + s->proto->fields[i].offset;
        if (s->field[i].type == PROTOBUF_C_TYPE_STRING) {
            const char *text;
            memcpy(&text, from, sizeof text);
            text = text_or(text, "");
            size_t length = strlen(text);
            if (length >= s->field[i].capacity)
                return err_set(e, SHOAL_E_TOO_BIG, "%s.%s has %zu bytes, at most %u",
                               s->proto->short_name, s->proto->fields[i].name, length,
                               s->field[i].capacity - 1);
            memcpy(to, text, length + 1);
            text_clean(to);
        } else if (s->field[i].type == PROTOBUF_C_TYPE_BOOL) {
            *(bool *)(void *)to = *(const protobuf_c_boolean *)(const void *)from != 0;
        } else {
            memcpy(to, from, number_bytes(s->field[i].type));
        }
    }
    return 0;
}

/* ---- the capped allocator (1) ---------------------------------------------------------------- */

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
    (void)pointer; /* all is freed at once, when the next header is decoded */
}

static ProtobufCAllocator space_allocator = {space_alloc, space_free, NULL};

/* ---- frames against counts (3) --------------------------------------------------------------- */

static int frame_expect(const struct msg *m, uint32_t frame, uint64_t count, uint64_t item_bytes,
                        uint64_t count_max, struct err *e)
{
    if (count > count_max)
        return err_set(e, SHOAL_E_TOO_BIG, "count %" PRIu64 " is over the limit of %" PRIu64, count,
                       count_max);
    if (m->frame[frame].bytes != count * item_bytes)
        return err_set(e, SHOAL_E_MALFORMED, "frame %u has %zu bytes, its count says %" PRIu64,
                       frame, m->frame[frame].bytes, count * item_bytes);
    return 0;
}

static int eval_frames_check(const struct msg *m, const struct wire_EVAL_DONE *q, struct err *e)
{
    if (q->tasks > LIMIT_TASKS || q->by_count > LIMIT_BY || q->fields > LIMIT_FIELDS)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "predictions of %u labels, by %u fields and with %u, at most %u, %u and %u",
                       q->tasks, q->by_count, q->fields, LIMIT_TASKS, LIMIT_BY, LIMIT_FIELDS);
    int rc = frame_expect(m, 1, q->examples, 8ull * q->tasks, LIMIT_BATCH, e);
    uint64_t words = (uint64_t)q->examples * ((q->grouped != 0) + q->by_count),
             bytes = 8 * words + sizeof(struct wire_unseen) * q->fields;
    if (rc != 0)
        return rc;
    return frame_expect(m, 2, bytes, 1, UINT32_MAX, e);
}

/* The bitmap has as many bits set as the header says, and each of them is a key's. */
static int echo_frame_check(const struct msg *m, const struct wire_PUSH *q, struct err *e)
{
    const unsigned char *bits = m->frame[3].data;
    uint64_t bytes = 0, set = 0;
    if (q->echo > 0)
        bytes = ((uint64_t)q->key_count + 7) / 8;
    int rc = frame_expect(m, 3, bytes, 1, LIMIT_KEYS / 8, e);
    if (rc != 0)
        return rc;
    for (uint64_t i = 0; i < bytes; i++)
        set += (uint64_t)__builtin_popcount(bits[i]);
    bool beyond = bytes > 0 && q->key_count % 8 != 0 && bits[bytes - 1] >> q->key_count % 8 != 0;
    if (set != q->echo || beyond)
        return err_set(e, SHOAL_E_MALFORMED,
                       "a bitmap of %u keys has %" PRIu64 " bits, its count says %u", q->key_count,
                       set, q->echo);
    return 0;
}

/* Each key has the same number of floats. Only the shard knows the table, and so the right
 * number. */
static int push_frames_check(const struct msg *m, const struct wire_PUSH *q, struct err *e)
{
    size_t bytes = m->frame[2].bytes;
    if (q->key_count == 0 ? bytes != 0 : bytes % (4ull * q->key_count) != 0)
        return err_set(e, SHOAL_E_MALFORMED, "%zu bytes of gradients do not fit %u keys", bytes,
                       q->key_count);
    return echo_frame_check(m, q, e);
}

/* Keys, then the same number of floats for each. An image is checked by the shard. */
static int assign_frame_check(const struct msg *m, const struct wire_ASSIGN *q, struct err *e)
{
    const size_t bytes = m->frame[1].bytes, keys = sizeof(uint64_t) * (size_t)q->key_count;
    if (q->key_count == 0 && q->parts == 0 && q->tablet_count == 0)
        return 0;
    if (q->key_count > LIMIT_KEYS)
        return err_set(e, SHOAL_E_TOO_BIG, "rows of %u keys are assigned, at most %u", q->key_count,
                       LIMIT_KEYS);
    if ((q->parts & ~WIRE_ASSIGN_PARTS) != 0)
        return err_set(e, SHOAL_E_VERSION,
                       "rows with parts %x are assigned, which this release does not know",
                       q->parts);
    if (q->key_count == 0 || bytes <= keys || (bytes - keys) % (4ull * q->key_count) != 0)
        return err_set(e, SHOAL_E_MALFORMED, "%zu bytes do not fit %u keys and a row of each",
                       bytes, q->key_count);
    if (q->run != 0 || q->lane != 0 || q->generation != 0 || q->from != 0 || q->to != 0)
        return err_set(e, SHOAL_E_MALFORMED,
                       "rows are assigned by key as of run %" PRIu64 ": they are of no run",
                       q->run);
    return 0;
}

static int ring_frames_check(const struct msg *m, const struct wire_RING_CHUNK *q, struct err *e)
{
    if (q->values != VALUES_FP32 && q->values != VALUES_BF16)
        return err_set(e, SHOAL_E_MALFORMED, "a chunk of values of kind %u, fp32 or bf16 expected",
                       q->values);
    if (q->chunk >= WIRE_RING_CHUNKS)
        return err_set(e, SHOAL_E_TOO_BIG, "chunk %u of a ring, which has at most %u", q->chunk,
                       WIRE_RING_CHUNKS);
    if (q->weight == 0 && q->floats != 0)
        return err_set(e, SHOAL_E_MALFORMED, "a chunk without examples has %u floats", q->floats);
    return frame_expect(m, 1, q->floats, half_bytes((enum value_kind)q->values), WIRE_RING_FLOATS,
                        e);
}

static int task_frames_check(const struct msg *m, const struct wire_TASK_DONE *q, struct err *e)
{
    int rc = frame_expect(m, 1, 64, 8, 64, e);
    if (rc == 0 &&
        (q->tasks > LIMIT_TASKS || q->cells > WIRE_TALLY_CELLS || q->by_count > LIMIT_BY ||
         q->values > WIRE_BY_VALUES || q->value_cells > WIRE_BY_CELLS))
        rc = err_set(e, SHOAL_E_TOO_BIG,
                     "%u labels, %u cells, %u fields, %u values and %u cells of theirs, at most "
                     "%u, %u, %u, %u and %u",
                     q->tasks, q->cells, q->by_count, q->values, q->value_cells, LIMIT_TASKS,
                     WIRE_TALLY_CELLS, LIMIT_BY, WIRE_BY_VALUES, WIRE_BY_CELLS);
    uint64_t bytes = (8ull + WIRE_TALLY_SUMS) * q->tasks + (uint64_t)WIRE_TALLY_CELL * q->cells +
                     (uint64_t)WIRE_BY_HEAD * q->by_count +
                     (WIRE_BY_VALUE + (uint64_t)WIRE_BY_SUMS * q->tasks) * q->values +
                     (uint64_t)WIRE_BY_CELL * q->value_cells + 8ull * q->experts;
    if (q->more)
        bytes += (uint64_t)WIRE_BY_MORE * q->tasks * q->values;
    if (rc == 0 && q->experts > LIMIT_EXPERTS)
        rc = err_set(e, SHOAL_E_TOO_BIG, "examples of %u experts, at most %u", q->experts,
                     LIMIT_EXPERTS);
    if (rc != 0)
        return rc;
    return frame_expect(m, 2, bytes, 1, UINT32_MAX, e);
}

/* A pulled row with its optimizer's state has a few times the floats of its weights. */
#define ROW_FLOATS_MOST (4u * LIMIT_WIDTH)

/* most: floats of a row */
static int rows_frames_check(const struct msg *m, uint32_t key_count, uint32_t width, uint32_t most,
                             uint32_t values, struct err *e)
{
    if (width > most)
        return err_set(e, SHOAL_E_TOO_BIG, "rows of %u floats, at most %u", width, most);
    if (values > VALUES_BF16)
        return err_set(e, SHOAL_E_MALFORMED, "rows of values of kind %u, which is not known",
                       values);
    return frame_expect(m, 1, key_count, (uint64_t)width * half_bytes((enum value_kind)values),
                        LIMIT_KEYS, e);
}

/* Checks the frames in the lists WIRE_COUNTED and WIRE_COUNTED_REPLY. */
static int counted_check(const struct msg *m, const struct wire *w, struct err *e)
{
    switch (w->type) {
#define X(name, frame, count, bytes, most)                                                         \
    case WIRE_TYPE_##name:                                                                         \
        return frame_expect(m, frame, w->u.name.count, bytes, most, e);
        WIRE_COUNTED(X)
#undef X
    default:
        return 0;
    }
}

static int request_frames_check(const struct msg *m, const struct wire *w, struct err *e)
{
    int rc = counted_check(m, w, e);
    if (rc != 0)
        return rc;
    switch (w->type) {
    case WIRE_TYPE_PUSH:
        return push_frames_check(m, &w->u.PUSH, e);
    case WIRE_TYPE_ASSIGN:
        return assign_frame_check(m, &w->u.ASSIGN, e);
    case WIRE_TYPE_RING_CHUNK:
        return ring_frames_check(m, &w->u.RING_CHUNK, e);
    case WIRE_TYPE_MOVE_MAP:
        return frame_expect(m, 2, w->u.MOVE_MAP.gone_count, 4, WIRE_MOVE_TABLETS, e);
    case WIRE_TYPE_TASK_DONE:
        return task_frames_check(m, &w->u.TASK_DONE, e);
    case WIRE_TYPE_EVAL_DONE:
        return eval_frames_check(m, &w->u.EVAL_DONE, e);
    case WIRE_TYPE_PROFILE:
        if (m->frame[1].bytes > WIRE_PROFILE_MAX)
            return err_set(e, SHOAL_E_TOO_BIG, "a profile of %zu bytes, at most %u",
                           m->frame[1].bytes, WIRE_PROFILE_MAX);
        return 0;
    default:
        return 0;
    }
}

static int taken_frame_check(const struct msg *m, const struct wire_TAKEN_reply *q, struct err *e)
{
    size_t items = q->count * sizeof(struct nameset_item);
    if (q->count > NAMESET_MAX || q->positions > POSITIONS_TEXT_MAX ||
        m->frame[1].bytes != items + q->positions)
        return err_set(e, SHOAL_E_MALFORMED,
                       "%u names and %u bytes of positions in a frame of %zu bytes", q->count,
                       q->positions, m->frame[1].bytes);
    return 0;
}

static int reply_frames_check(const struct msg *m, const struct wire *w, struct err *e)
{
    switch (w->type) {
#define X(name, frame, count, bytes, most)                                                         \
    case WIRE_TYPE_##name:                                                                         \
        return frame_expect(m, frame, w->u.name##_reply.count, bytes, most, e);
        WIRE_COUNTED_REPLY(X)
#undef X
    case WIRE_TYPE_PULL:
        return rows_frames_check(m, w->u.PULL_reply.key_count, w->u.PULL_reply.width,
                                 ROW_FLOATS_MOST, w->u.PULL_reply.values, e);
    case WIRE_TYPE_TAKEN:
        return taken_frame_check(m, &w->u.TAKEN_reply, e);
    case WIRE_TYPE_PUSH:
        return rows_frames_check(m, w->u.PUSH_reply.key_count, w->u.PUSH_reply.width, LIMIT_WIDTH,
                                 w->u.PUSH_reply.values, e);
    default:
        return 0;
    }
}

/* ---- decode ---------------------------------------------------------------------------------- */

static int body_decode(const Pb__Header *h, const struct shape *s, struct wire *out, struct err *e)
{
    wire_shape_assert(s);
    ProtobufCMessage *body =
        protobuf_c_message_unpack(s->proto, &space_allocator, h->body.len, h->body.data);
    if (body == NULL)
        return err_set(e, SHOAL_E_MALFORMED, "%s header cannot be unpacked", s->proto->short_name);
    return body_from_proto(s, body, &out->u, e);
}

/* The version in a header is the oldest release that takes its message; releases before WIRE_OLDEST
 * sent their own. */
static int version_check(const Pb__Header *h, const char *name, struct err *e)
{
    if (h->version > WIRE_VERSION)
        return err_set(e, SHOAL_E_VERSION,
                       "message %s is of protocol %u, this release takes %u to %u: upgrade this "
                       "side first",
                       name, h->version, WIRE_OLDEST, WIRE_VERSION);
    if (h->version < wire_shape_since(h->type))
        return err_set(e, SHOAL_E_VERSION,
                       "message %s is of protocol %u, this release takes it from %u on: upgrade "
                       "the other side",
                       name, h->version, wire_shape_since(h->type));
    return 0;
}

static int header_decode(const struct frame *f, struct wire *out, const Pb__Header **header,
                         struct err *e)
{
    if (f->bytes > LIMIT_HEADER_BYTES)
        return err_set(e, SHOAL_E_TOO_BIG, "header of %zu bytes, at most %u", f->bytes,
                       LIMIT_HEADER_BYTES);
    space.used = 0;
    const Pb__Header *h = pb__header__unpack(&space_allocator, f->bytes, f->data);
    if (h == NULL)
        return err_set(e, SHOAL_E_MALFORMED, "%zu bytes are not a header", f->bytes);
    uint32_t frames;
    /* Filled in even when the version is not ours, so that a refusal can be sent; but never with a
     * type that is not in the list. */
    out->type = (enum wire_type)h->type;
    if (wire_shape_of(h->type, false, &frames) == NULL)
        out->type = WIRE_TYPE_NONE;
    out->reply = h->reply != 0;
    out->id = h->id;
    out->status = h->status;
    text_copy(out->error, sizeof out->error, text_or(h->error, ""));
    *header = h;
    return version_check(h, wire_type_name(out->type), e);
}

int wire_decode(const struct msg *m, struct wire *out, struct err *e)
{
    const Pb__Header *h = NULL;
    uint32_t frames = 0;
    out->type = WIRE_TYPE_NONE;
    out->id = 0;
    if (m->frame_count == 0)
        return err_set(e, SHOAL_E_MALFORMED, "message without a header");
    int rc = header_decode(&m->frame[0], out, &h, e);
    if (rc != 0)
        return rc;
    const struct shape *s = wire_shape_of(h->type, out->reply, &frames);
    if (s == NULL)
        return err_set(e, SHOAL_E_MALFORMED, "unknown message type %u", h->type);
    if (out->reply && out->status != 0)
        frames = 0;
    if (m->frame_count != 1 + frames)
        return err_set(e, SHOAL_E_MALFORMED, "%s with %u raw frames, it has %u",
                       wire_type_name(out->type), m->frame_count - 1, frames);
    rc = body_decode(h, s, out, e);
    if (rc != 0)
        return rc;
    if (!out->reply)
        return request_frames_check(m, out, e);
    if (out->status != 0)
        return 0;
    return reply_frames_check(m, out, e);
}

/* ---- encode ---------------------------------------------------------------------------------- */

struct msg *wire_encode(const struct wire *w)
{
    _Alignas(16) unsigned char generated[BODY_STRUCT_BYTES];
    unsigned char packed[4096];
    uint32_t frames;
    const struct shape *s = wire_shape_of((uint32_t)w->type, w->reply, &frames);

    SHOAL_ASSERT(s != NULL);
    wire_shape_assert(s);
    ProtobufCMessage *body = (ProtobufCMessage *)(void *)generated;
    protobuf_c_message_init(s->proto, body);
    body_to_proto(s, &w->u, body);
    SHOAL_ASSERT(protobuf_c_message_get_packed_size(body) <= sizeof packed);
    Pb__Header h = PB__HEADER__INIT;
    h.version = wire_shape_since((uint32_t)w->type);
    h.type = (uint32_t)w->type;
    h.reply = w->reply;
    h.id = w->id;
    h.status = w->reply ? w->status : 0;
    h.error = w->reply && w->status != 0 ? (char *)(uintptr_t)w->error : (char *)(uintptr_t) "";
    h.body.len = protobuf_c_message_pack(body, packed);
    h.body.data = packed;
    struct msg *m = msg_new();
    void *frame = msg_add(m, pb__header__get_packed_size(&h));
    if (frame == NULL) {
        msg_free(m);
        return NULL;
    }
    (void)pb__header__pack(&h, frame);
    return m;
}

const char *wire_error(const struct wire *refusal)
{
    if (refusal->error[0] == '\0')
        return err_text(refusal->status);
    return refusal->error;
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

/* ---- table schemas --------------------------------------------------------------------------- */

void wire_schema_to(const struct table_schema *s, struct wire_TABLE_CREATE *out)
{
    *out = (struct wire_TABLE_CREATE){.table = s->table,
                                      .dense = s->dense,
                                      .width = s->width,
                                      .zero_first = s->zero_first,
                                      .tablet_bits = s->tablet_bits,
                                      .tablet_first = s->tablet_first,
                                      .seed = s->seed,
                                      .init_kind = (uint32_t)s->init.kind,
                                      .init_scale = s->init.scale,
                                      .opt_kind = (uint32_t)s->optimizer.kind,
                                      .lr = s->optimizer.lr,
                                      .beta1 = s->optimizer.beta1,
                                      .beta2 = s->optimizer.beta2,
                                      .eps = s->optimizer.eps,
                                      .initial = s->optimizer.initial,
                                      .l1 = s->optimizer.l1,
                                      .l2 = s->optimizer.l2,
                                      .beta = s->optimizer.beta,
                                      .decay = s->optimizer.decay,
                                      .fixed_lr = s->optimizer.fixed_lr,
                                      .field_rule_count = s->field_rule_count,
                                      .values = s->values};
#define RULE(n) out->n = s->rules.n;
    ROW_RULES(RULE, RULE)
#undef RULE
    memcpy(out->name, s->name, sizeof out->name);
}

int wire_schema_from(const struct wire_TABLE_CREATE *in, const struct frame *field_rule,
                     struct table_schema *out, struct err *e)
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
    out->optimizer = (struct optimizer_spec){.kind = (enum optimizer_kind)in->opt_kind,
                                             .lr = in->lr,
                                             .beta1 = in->beta1,
                                             .beta2 = in->beta2,
                                             .eps = in->eps,
                                             .initial = in->initial,
                                             .l1 = in->l1,
                                             .l2 = in->l2,
                                             .beta = in->beta,
                                             .decay = in->decay,
                                             .fixed_lr = in->fixed_lr};
#define RULE(n) out->rules.n = in->n;
    ROW_RULES(RULE, RULE)
#undef RULE
    if (in->field_rule_count > LIMIT_FIELDS ||
        field_rule->bytes != in->field_rule_count * sizeof(struct field_rule))
        return err_set(e, SHOAL_E_MALFORMED, "table %s: rules by field do not fit their count",
                       in->name);
    out->field_rule_count = in->field_rule_count;
    out->values = in->values;
    if (field_rule->bytes > 0)
        memcpy(out->field_rule, field_rule->data, field_rule->bytes);
    return schema_check(out, e);
}

const char *wire_library(void)
{
    static char text[32];
    (void)snprintf(text, sizeof text, "protobuf-c %s", protobuf_c_version());
    return text;
}
