/* record.c: encodes, seals and checks journal records. Invariants 1 to 3: record.h. */
#include "embedding/journal/record.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/job/packed.h"

#include <string.h>

size_t record_head_bytes(const struct record_header *h)
{
    if (h->magic == RECORD_MAGIC_0_2_0)
        return offsetof(struct record_header, clock);
    return sizeof *h;
}

bool record_begins(const void *at)
{
    uint32_t magic;
    memcpy(&magic, at, sizeof magic);
    return magic == RECORD_MAGIC || magic == RECORD_MAGIC_0_2_0;
}

bool record_head(const void *at, size_t available, struct record_header *h)
{
    *h = (struct record_header){0};
    if (available < sizeof h->magic)
        return false;

    memcpy(&h->magic, at, sizeof h->magic);
    if (!record_begins(at))
        return false;
    if (available < record_head_bytes(h))
        return false;
    memcpy(h, at, record_head_bytes(h));
    return true;
}

/* The checksum covers the bytes from the next field on; the seed has magic, kind and flags. */
static uint64_t checksum_of(const struct record_header *h, const struct record_payload *payload)
{
    uint64_t seed = (uint64_t)h->magic << 32 | (uint64_t)h->kind << 16 | h->flags;
    size_t from = offsetof(struct record_header, sequence);
    uint64_t sum = hash_bytes((const char *)h + from, record_head_bytes(h) - from, seed);
    for (int i = 0; i < 2; i++)
        if (payload->bytes[i] > 0)
            sum = hash_bytes(payload->piece[i], payload->bytes[i], sum);
    return sum;
}

uint64_t record_segment_checksum(const struct segment_header *h)
{
    return hash_bytes(h, offsetof(struct segment_header, checksum), 0);
}

bool record_segment_good(const struct segment_header *h, uint64_t generation)
{
    return h->magic == SEGMENT_MAGIC && h->checksum == record_segment_checksum(h) &&
           h->first > h->previous && (generation == 0 || h->generation == generation);
}

static size_t padded(size_t bytes)
{
    return (bytes + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

size_t record_bytes(size_t payload_bytes)
{
    return padded(sizeof(struct record_header) + payload_bytes);
}

size_t record_length(const struct record_header *h)
{
    return padded(record_head_bytes(h) + h->payload_bytes);
}

void record_seal(struct record_header *h, const struct record_payload *payload)
{
    size_t bytes = payload->bytes[0] + payload->bytes[1];
    SHOAL_ASSERT(bytes <= UINT32_MAX);
    SHOAL_ASSERT(h->kind == RECORD_PUSH || payload->bytes[1] == 0); /* other kinds have one piece */
    h->magic = RECORD_MAGIC;
    h->payload_bytes = (uint32_t)bytes;
    h->checksum = checksum_of(h, payload);
}

/* A push's checksum covers keys and gradients as two pieces; this splits them again. */
static bool split_payload(const struct record_header *h, const void *at, struct record_payload *out)
{
    *out = (struct record_payload){{at, NULL}, {h->payload_bytes, 0}};
    if (h->kind != RECORD_PUSH)
        return true;
    size_t key_bytes = (size_t)h->key_count * sizeof(uint64_t);
    if (key_bytes > h->payload_bytes)
        return false;
    out->bytes[0] = key_bytes;
    out->piece[1] = (const char *)at + key_bytes;
    out->bytes[1] = h->payload_bytes - key_bytes;
    return true;
}

bool record_known(const struct record_header *h)
{
    if (h->kind == RECORD_PUSH)
        return packed_known(h->width);

    return h->kind > RECORD_PUSH && h->kind < RECORD_KINDS && h->clock == 0 && h->age == 0 &&
           h->width == 0;
}

int record_read(const void *at, size_t available, uint64_t segment, struct record_header *h,
                const void **payload)
{
    if (!record_head(at, available, h) || record_length(h) > available || h->segment != segment ||
        h->sequence == 0)
        return SHOAL_E_END;
    struct record_payload pieces;
    *payload = (const char *)at + record_head_bytes(h);
    if (!split_payload(h, *payload, &pieces) || checksum_of(h, &pieces) != h->checksum)
        return SHOAL_E_END;
    if (!record_known(h))
        return SHOAL_E_VERSION;
    return 0;
}

void record_reseal(void *at)
{
    struct record_header h;
    struct record_payload pieces;
    bool whole = record_head(at, sizeof h, &h) &&
                 split_payload(&h, (char *)at + record_head_bytes(&h), &pieces);
    SHOAL_ASSERT(whole);
    h.checksum = checksum_of(&h, &pieces);
    memcpy(at, &h, record_head_bytes(&h));
}

static uint16_t kind_of_push(const struct push_record *r)
{
    if (r->image != NULL)
        return RECORD_ASSIGN;
    if (r->rows != NULL)
        return RECORD_ROWS;
    return RECORD_PUSH;
}

void record_of_push(const struct push_record *r, uint32_t key_bytes, uint32_t flags,
                    struct record_header *h, struct record_payload *payload)
{
    SHOAL_ASSERT(flags <= UINT16_MAX && key_bytes > 0);
    SHOAL_ASSERT(r->image == NULL || (r->key_count == 0 && r->tablet_count == 1 && r->age == 0));
    SHOAL_ASSERT(r->rows == NULL || (r->key_count > 0 && r->run == 0 && r->image == NULL));
    *h = (struct record_header){
        .kind = kind_of_push(r),
        .flags = (uint16_t)(flags | r->parts),
        .run = r->run,
        .generation = r->generation,
        .from = r->from,
        .to = r->to,
        .lane = r->lane,
        .table = r->table,
        .tablet_first = r->tablet_first,
        .tablet_count = r->tablet_count,
        .lr_scale = r->lr_scale,
        .key_count = r->key_count,
        .event_time = r->event_time,
        .clock = r->clock,
        .age = r->age,
        .width = r->width,
    };
    if (r->image != NULL) {
        *payload = (struct record_payload){{r->image, NULL}, {r->image_bytes, 0}};
        return;
    }
    if (r->rows != NULL) {
        SHOAL_ASSERT((const char *)r->rows == (const char *)(r->keys + r->key_count));
        size_t bytes = (sizeof(uint64_t) + sizeof(float) * (size_t)r->row_floats) * r->key_count;
        *payload = (struct record_payload){{r->keys, NULL}, {bytes, 0}};
        return;
    }
    payload->piece[0] = r->keys;
    payload->bytes[0] = (size_t)r->key_count * sizeof(uint64_t);
    payload->piece[1] = r->gradients;
    payload->bytes[1] = (size_t)r->key_count * key_bytes;
}

/* False: the payload is not that of the kind. */
static bool payload_fits(const struct record_header *h, uint64_t per_key)
{
    if (h->kind == RECORD_ASSIGN)
        return h->key_count == 0 && h->tablet_count == 1 && h->payload_bytes > 0;
    if (h->kind == RECORD_ROWS)
        return h->key_count > 0 && (h->flags & ~RECORD_FLAGS_ROWS) == 0 && h->run == 0 &&
               h->payload_bytes > h->key_count * sizeof(uint64_t) &&
               (h->payload_bytes - h->key_count * sizeof(uint64_t)) %
                       (sizeof(float) * h->key_count) ==
                   0;
    return h->kind == RECORD_PUSH && h->payload_bytes == h->key_count * per_key;
}

int record_to_push(const struct record_header *h, const void *payload, uint32_t key_bytes,
                   struct push_record *r)
{
    uint64_t per_key = sizeof(uint64_t) + (uint64_t)key_bytes;
    if (!payload_fits(h, per_key))
        return SHOAL_E_MALFORMED;
    *r = (struct push_record){
        .run = h->run,
        .generation = h->generation,
        .from = h->from,
        .to = h->to,
        .lane = h->lane,
        .table = h->table,
        .tablet_first = h->tablet_first,
        .tablet_count = h->tablet_count,
        .lr_scale = h->lr_scale,
        .key_count = h->key_count,
        .event_time = h->event_time,
        .clock = h->clock,
        .age = h->age,
        .width = h->width,
    };
    if (h->kind == RECORD_ASSIGN) {
        r->image = payload;
        r->image_bytes = h->payload_bytes;
        return 0;
    }
    r->keys = payload;
    if (h->kind == RECORD_ROWS) {
        r->rows = (const float *)(const void *)(r->keys + h->key_count);
        r->row_floats = (uint32_t)(h->payload_bytes / h->key_count / sizeof(float)) - 2;
        r->parts = h->flags;
        return 0;
    }
    r->gradients = (const char *)payload + (size_t)h->key_count * sizeof(uint64_t);
    return 0;
}

/* ---- records with sets of tables ---- */

struct run_open {
    uint64_t run, tables;
    uint32_t lanes, mode;
};
struct restore {
    uint64_t cut, run, existing, tables;
    uint32_t lanes, mode;
};
_Static_assert(sizeof(struct run_open) == RECORD_RUN_OPEN_BYTES &&
                   sizeof(struct restore) == RECORD_RESTORE_BYTES,
               "records of runs are a disk format");

enum record_kind record_of_run_open(const struct record_run_open *r, void *out, size_t *bytes)
{
    const struct run_open near = {r->run, r->tables.word[0], r->lanes, r->mode};
    if (!table_set_is_word(r->tables)) {
        *bytes = sizeof *r;
        memcpy(out, r, sizeof *r);
        return RECORD_RUN_OPEN_FAR;
    }
    *bytes = sizeof near;
    memcpy(out, &near, sizeof near);
    return RECORD_RUN_OPEN;
}

void record_to_run_open(uint32_t kind, const void *payload, struct record_run_open *out)
{
    struct run_open near;
    SHOAL_ASSERT(record_opens(kind));
    if (kind == RECORD_RUN_OPEN_FAR) {
        memcpy(out, payload, sizeof *out);
        return;
    }
    memcpy(&near, payload, sizeof near);
    *out = (struct record_run_open){near.run, table_set_word(near.tables), near.lanes, near.mode};
}

enum record_kind record_of_restore(const struct record_restore *r, void *out, size_t *bytes)
{
    const struct restore near = {r->cut,   r->run, r->existing.word[0], r->tables.word[0],
                                 r->lanes, r->mode};
    if (!table_set_is_word(table_set_or(r->existing, r->tables))) {
        *bytes = sizeof *r;
        memcpy(out, r, sizeof *r);
        return RECORD_RESTORE_FAR;
    }
    *bytes = sizeof near;
    memcpy(out, &near, sizeof near);
    return RECORD_RESTORE;
}

void record_to_restore(uint32_t kind, const void *payload, struct record_restore *out)
{
    struct restore near;
    SHOAL_ASSERT(record_restores(kind));
    if (kind == RECORD_RESTORE_FAR) {
        memcpy(out, payload, sizeof *out);
        return;
    }
    memcpy(&near, payload, sizeof near);
    *out = (struct record_restore){.cut = near.cut,
                                   .run = near.run,
                                   .existing = table_set_word(near.existing),
                                   .tables = table_set_word(near.tables),
                                   .lanes = near.lanes,
                                   .mode = near.mode};
}
