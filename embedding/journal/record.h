/* record.h: a segment's head, and a journal record on disk: a fixed header and a payload,
 * little-endian, padded to 8 bytes.
 *
 * Invariants of the format:
 *  1. The checksum covers the segment's generation, the whole header but itself, and the payload: a
 *     record of a segment's earlier life never checks in its new one.
 *     [test: every_flipped_bit_is_found, another_generation_is_none]
 *  2. A push's payload is its keys and gradients as they came off the wire.
 *     [test: push_comes_back_as_it_was]
 *  3. `synced` names the highest sequence that was known to be on disk when the record was written.
 *     So a damaged record below it is damage, and one above it may be a torn tail.
 *     [assert: journal_append]
 * Pure functions; nothing here owns memory or touches a file. */
#ifndef EMBEDDING_JOURNAL_RECORD_H
#define EMBEDDING_JOURNAL_RECORD_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_kind {
    RECORD_PUSH = 1,
    RECORD_TABLE = 2,
    RECORD_RUN_OPEN = 3,
    RECORD_RUN_DROP = 4,
    RECORD_FENCE = 5,
    RECORD_RESTORE = 6,
    RECORD_KEYS = 7 /* keys erased, blocked, allowed; fields dropped */
};

/* A push. Its fixed part is on disk as struct record_header; the bulk parts follow it. Points into
 * the message. */
struct push_record {
    uint64_t run, generation, from, to;
    uint32_t lane, table, tablet_first, tablet_count; /* tablets of the table, not global numbers */
    float lr_scale;
    uint32_t key_count;
    uint32_t event_time;    /* seconds since 1970, 0: not known */
    uint64_t worker, task;  /* whose it is: for the quarantine alone, not journalled */
    const uint64_t *keys;   /* (key_count) */
    const float *gradients; /* (key_count, schema_push_floats) */
};

#define RECORD_MAGIC 0x4c4f4853u /* "SHOL" */
#define RECORD_ALIGN 8u
#define RECORD_FLAG_BSP 1u /* the push keeps undo for its clock */

struct record_header {
    uint32_t magic;
    uint16_t kind; /* enum record_kind */
    uint16_t flags;
    uint64_t checksum;
    uint64_t sequence;
    uint64_t segment; /* generation of the segment it was written to */
    uint64_t synced;
    uint64_t run, generation, from, to; /* of a push, as the rest */
    uint32_t lane, table, tablet_first, tablet_count;
    float lr_scale;
    uint32_t key_count;
    uint32_t payload_bytes;
    uint32_t event_time; /* of a push: seconds since 1970; else 0 */
};
_Static_assert(sizeof(struct record_header) == 104, "record_header is a disk format");

/* A segment: its head, then records. */
#define SEGMENT_MAGIC 0x314745534c4f4853ull /* "SHOLSEG1" */
/* Of what a segment holds. 2: schemas are names and values (record_schema.h). */
#define JOURNAL_VERSION 2u
#define SEGMENT_HEADER_BYTES 64u

struct segment_header {
    uint64_t magic;
    uint64_t generation;
    uint64_t first;    /* sequence of its first record */
    uint64_t previous; /* of the last record before it, as its writer knew */
    uint64_t bytes;
    uint32_t version; /* JOURNAL_VERSION */
    uint32_t zero;
    uint64_t reserved;
    uint64_t checksum;
};
_Static_assert(sizeof(struct segment_header) == SEGMENT_HEADER_BYTES,
               "segment_header is a disk format");

/* Payloads of the control records. */
struct record_run_open {
    uint64_t run, tables; /* tables: bit t set: table t counts in the run's clocks */
    uint32_t lanes, mode;
};
_Static_assert(sizeof(struct record_run_open) == 24, "record_run_open is a disk format");
struct record_run_drop {
    uint64_t run;
};
struct record_keys { /* action: enum key_action; then count keys, u64 */
    uint32_t table, action, count, zero;
};
_Static_assert(sizeof(struct record_keys) == 16, "record_keys is a disk format");
struct record_fence {
    uint64_t run, generation;
    int64_t offset;
    uint32_t lane, live;
};
_Static_assert(sizeof(struct record_fence) == 32, "record_fence is a disk format");
struct record_restore {
    uint64_t cut, run;
    uint64_t existing; /* bit t: the tablets of table t were put back; its runs ended */
    uint64_t tables;   /* of the run, as the rest */
    uint32_t lanes, mode;
};
_Static_assert(sizeof(struct record_restore) == 40, "record_restore is a disk format");

/* A record that was read, where it stands. */
struct journal_record {
    const struct record_header *head;
    const void *payload; /* (head->payload_bytes) */
};

/* A payload in at most two pieces (keys and gradients, or one control payload). */
struct record_payload {
    const void *piece[2];
    size_t bytes[2];
};

/* Of all before it in the head. */
uint64_t record_segment_checksum(const struct segment_header *h);
/* Whether a head checks and is of this generation (0: of any). Of whatever version it is. */
bool record_segment_good(const struct segment_header *h, uint64_t generation);

/* Bytes a record takes in a segment, padding included. */
size_t record_bytes(size_t payload_bytes);
/* Fills in magic, payload_bytes and checksum; everything else is the caller's. */
void record_seal(struct record_header *h, const struct record_payload *payload);
bool record_known(uint32_t kind);
/* Whether a record of this segment generation stands at `at`, `available` bytes long at most: END
 * when there is none (nothing, another generation's, torn or damaged), VERSION when there is one of
 * a kind that is not known, 0 with *h filled and *payload pointing into `at`. Called by the cursor
 * alone (cursor.h). */
int record_read(const void *at, size_t available, uint64_t segment, struct record_header *h,
                const void **payload);

/* Seals the whole record at `at` again: its payload was changed where it stands. */
void record_reseal(void *at);

/* Pushes. The header of a push, and the push of a header; width: floats of a key
 * (schema_push_floats). MALFORMED when the payload's size does not fit the key count. */
void record_of_push(const struct push_record *r, uint32_t width, uint32_t flags,
                    struct record_header *h, struct record_payload *payload);
int record_to_push(const struct record_header *h, const void *payload, uint32_t width,
                   struct push_record *r);

#endif
