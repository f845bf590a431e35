/* record.h: a segment's head, and a journal record on disk: a fixed header and a payload,
 * little-endian, padded to 8 bytes.
 *
 * Invariants of the format:
 * 1. The checksum covers the segment's generation, the whole header except itself, and the payload:
 *    a record from a segment's earlier use never checks in its new one.
 *    [test: every_flipped_bit_is_found, another_generation_is_none]
 * 2. A push's payload has its keys and gradients as received. [test: push_comes_back_as_it_was]
 * 3. `synced` is the highest sequence that was known to be on disk when the record was written. A
 *    record at or below it that does not check is damage; one above it may be a torn tail.
 *    [assert: journal_append]
 * Pure functions; nothing here owns memory or touches a file. */
#ifndef EMBEDDING_JOURNAL_RECORD_H
#define EMBEDDING_JOURNAL_RECORD_H

#include "proto/base/err.h"
#include "proto/base/table_set.h"

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
    RECORD_KEYS = 7, /* keys erased, blocked, allowed; fields dropped */
    /* Records of a shard with followers (embedding/follow.h). RECORD_BASE has no payload: the state
     * behind it does not follow from the records before it. */
    RECORD_TERM = 8,
    RECORD_BASE = 9,
    RECORD_CUT = 10,
    RECORD_CUT_DROP = 11,
    /* a tablet comes from another shard, tablets have gone to another one (embedding/move.h) */
    RECORD_TABLET_IN = 12,
    RECORD_TABLET_OUT = 13,
    RECORD_ASSIGN = 14, /* a push that brings a tablet whole (push_record.image) */
    RECORD_ROWS = 15,   /* rows by key, of no run (push_record.rows) */
    /* RUN_OPEN and RESTORE with a table number of 64 or more */
    RECORD_RUN_OPEN_FAR = 16,
    RECORD_RESTORE_FAR = 17,
    RECORD_KINDS
};

/* A push. Its fixed part is on disk as struct record_header; keys and gradients follow. With an
 * image it is RECORD_ASSIGN: it has no keys, covers one tablet, and the image (table.h) takes the
 * place of the tablet's rows. With rows it is RECORD_ROWS: each key's row (table_assign) follows
 * the keys in the place of the gradients; run, lane, generation and batches are 0, and no mark
 * moves. Points into the message. */
struct push_record {
    uint64_t run, generation, from, to;
    uint32_t lane, table, tablet_first, tablet_count; /* numbers within the table */
    float lr_scale;
    uint32_t key_count;
    uint32_t event_time;   /* seconds since 1970; 0: unknown */
    uint64_t worker, task; /* origin of the push, for the quarantine only; not in the journal */
    uint32_t width;        /* width of a gradient, enum packed_width */
    uint64_t clock;        /* steps of the oldest rows that it was computed from; 0: unknown */
    uint32_t age;          /* steps that the table has gone since, up to its admission */
    const uint64_t *keys;  /* (key_count) */
    const void *gradients; /* (key_count) of packed_bytes */
    const void *image;     /* (image_bytes); NULL: none */
    uint32_t image_bytes;
    const float *rows;   /* (key_count, row_floats), directly behind the keys; NULL: none */
    uint32_t row_floats; /* table_assign_floats */
    uint32_t parts;      /* parts of the rows: ASSIGN_* (table.h), which are flags of the record */
};

/* True for a record with the head of a push. */
static inline bool record_pushes(uint32_t kind)
{
    return kind == RECORD_PUSH || kind == RECORD_ASSIGN || kind == RECORD_ROWS;
}
/* True for a record whose payload begins with its keys (key_count), the data of each behind. */
static inline bool record_has_keys(uint32_t kind)
{
    return kind == RECORD_PUSH || kind == RECORD_ROWS;
}

#define RECORD_MAGIC 0x324f4853u       /* "SHO2" */
#define RECORD_MAGIC_0_2_0 0x4c4f4853u /* "SHOL": the head ends before `clock` */
#define RECORD_ALIGN 8u
#define RECORD_FLAG_BSP 1u    /* the push keeps undo for its clock */
#define RECORD_FLAGS_ROWS 14u /* RECORD_ROWS: ASSIGN_* (table.h) */

struct record_header {
    uint32_t magic;
    uint16_t kind; /* enum record_kind */
    uint16_t flags;
    uint64_t checksum;
    uint64_t sequence;
    uint64_t segment; /* generation of its segment */
    uint64_t synced;
    uint64_t run, generation, from, to; /* push and assign only; 0 in RECORD_ROWS */
    uint32_t lane, table, tablet_first, tablet_count;
    float lr_scale;
    uint32_t key_count;
    uint32_t payload_bytes;
    uint32_t event_time; /* push: seconds since 1970; else 0 */
    /* These three belong to a push with keys; another record in which one of them is not 0 is
     * refused (VERSION), and so is a push of an unknown width. */
    uint64_t clock; /* as in push_record */
    uint32_t age;   /* in steps */
    uint32_t width; /* enum packed_width */
};
_Static_assert(sizeof(struct record_header) == 120, "record_header is a disk format");

/* A segment: its head, then records. */
#define SEGMENT_MAGIC 0x314745534c4f4853ull /* "SHOLSEG1" */
/* The version of a segment's contents. 2, of release 0.2.0, is read, too: it has no record with
 * clock, age and width. */
#define JOURNAL_VERSION 3u
#define JOURNAL_VERSION_LEAST 2u
#define SEGMENT_HEADER_BYTES 64u

struct segment_header {
    uint64_t magic;
    uint64_t generation;
    uint64_t first;    /* sequence of its first record */
    uint64_t previous; /* sequence of the last record before it that its writer knew */
    uint64_t bytes;
    uint32_t version; /* JOURNAL_VERSION */
    uint32_t zero;
    uint64_t reserved;
    uint64_t checksum;
};
_Static_assert(sizeof(struct segment_header) == SEGMENT_HEADER_BYTES,
               "segment_header is a disk format");

/* Payloads of the control records. */
struct record_run_open { /* as in RECORD_RUN_OPEN_FAR; record_of_run_open has the other form */
    uint64_t run;
    struct table_set tables; /* tables that count in the run's clocks */
    uint32_t lanes, mode;
};
_Static_assert(sizeof(struct record_run_open) == 48, "record_run_open is a disk format");
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
struct record_restore { /* as in RECORD_RESTORE_FAR */
    uint64_t cut, run;
    struct table_set existing; /* the restore filled their tablets; their runs ended */
    struct table_set tables;   /* the run's, as the members below */
    uint32_t lanes, mode;
};
_Static_assert(sizeof(struct record_restore) == 88, "record_restore is a disk format");
/* The same in RECORD_RUN_OPEN and RECORD_RESTORE, of tables 0 to 63: each set is one word. */
#define RECORD_RUN_OPEN_BYTES 24u
#define RECORD_RESTORE_BYTES 40u
struct record_term {
    uint64_t term;
};
/* RECORD_CUT: a cut of the records before this one was made; run 0: of no run. RECORD_CUT_DROP: the
 * cut is dropped; run is 0. */
struct record_cut {
    uint64_t cut, run;
};
_Static_assert(sizeof(struct record_term) == 8 && sizeof(struct record_cut) == 16,
               "records of a shard with followers are a disk format");

/* RECORD_TABLET_IN: its payload is the image of engine_give, which begins with this. `checksum`
 * covers the rest of the head and the column of marks, which follows; the rows' image, behind it,
 * has its own. */
#define RECORD_TABLET_MAGIC 0x31564f4d4c4f4853ull /* "SHOLMOV1" */
#define RECORD_TABLET_VERSION 1u
struct record_tablet_in {
    uint64_t magic, checksum;
    uint32_t version, table, tablet, zero; /* tablet: its number in its table */
    uint64_t column_bytes, rows;
};
/* RECORD_TABLET_OUT: `count` of struct record_tablet follow. */
struct record_tablet_out {
    uint32_t count, zero;
};
struct record_tablet {
    uint32_t table, tablet;
};
_Static_assert(sizeof(struct record_tablet_in) == 48 && sizeof(struct record_tablet_out) == 8 &&
                   sizeof(struct record_tablet) == 8,
               "records of moved tablets are a disk format");

/* A record in the reader's buffer. */
struct journal_record {
    const struct record_header *head;
    const void *payload; /* (head->payload_bytes) */
};

/* A payload in at most two pieces (keys and gradients, or one control payload). */
struct record_payload {
    const void *piece[2];
    size_t bytes[2];
};

/* Converts the opening of a run to a payload and back: the kind of its record, and its bytes in
 * `out`, which has room for the struct. The payload has the bytes of its kind. */
enum record_kind record_of_run_open(const struct record_run_open *r, void *out, size_t *bytes);
void record_to_run_open(uint32_t kind, const void *payload, struct record_run_open *out);
/* The same for a restore. */
enum record_kind record_of_restore(const struct record_restore *r, void *out, size_t *bytes);
void record_to_restore(uint32_t kind, const void *payload, struct record_restore *out);
static inline bool record_opens(uint32_t kind)
{
    return kind == RECORD_RUN_OPEN || kind == RECORD_RUN_OPEN_FAR;
}
static inline bool record_restores(uint32_t kind)
{
    return kind == RECORD_RESTORE || kind == RECORD_RESTORE_FAR;
}

/* Checksum of all earlier members of the head. */
uint64_t record_segment_checksum(const struct segment_header *h);
/* True when a head checks and has this generation (0: any). Its version may be any. */
bool record_segment_good(const struct segment_header *h, uint64_t generation);

/* Bytes of a record that this release writes, with padding. */
size_t record_bytes(size_t payload_bytes);
bool record_begins(const void *at); /* true when the 4 bytes there are a record's magic */
/* Copies the head of a record from at most `available` bytes; what a head of 0.2.0 lacks is 0.
 * False: there is none. */
bool record_head(const void *at, size_t available, struct record_header *h);
/* Bytes of a head in a segment, and of its record with padding. */
size_t record_head_bytes(const struct record_header *h);
size_t record_length(const struct record_header *h);
/* Fills in magic, payload_bytes and checksum; the caller fills the other fields. */
void record_seal(struct record_header *h, const struct record_payload *payload);
/* False: the record is a later release's, by its kind or by values that this one does not set. */
bool record_known(const struct record_header *h);
/* Reads the record of this segment generation at `at`, at most `available` bytes long. 0: *h is
 * filled, and *payload points into `at`. END: there is none (no record, another generation's, a
 * torn or damaged one). VERSION: it is not known. The cursor calls it for files (cursor.h),
 * follow.c for a leader's records. */
int record_read(const void *at, size_t available, uint64_t segment, struct record_header *h,
                const void **payload);

/* Seals the record at `at` again after its payload was changed in place. */
void record_reseal(void *at);

/* Converts a push, with gradients, with an image or with rows, to a header and back. key_bytes: of
 * a key's gradient (packed_bytes). MALFORMED: the payload's size does not match the key count; an
 * image is empty, or not of one tablet; rows have other flags than those of their parts. */
void record_of_push(const struct push_record *r, uint32_t key_bytes, uint32_t flags,
                    struct record_header *h, struct record_payload *payload);
int record_to_push(const struct record_header *h, const void *payload, uint32_t key_bytes,
                   struct push_record *r);

#endif
