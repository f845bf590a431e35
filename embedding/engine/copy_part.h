/* copy_part.h: the parts of a copy, as copy.c writes and seed.c reads them. Little-endian.
 *
 *     part: copy_head; in the first part copy_load (loads); copy_item with its bytes (items)
 *
 * An item is a pair of the row store, or a record: its record_header and its payload. One that does
 * not fit a part comes in pieces, in parts that follow each other. Bytes are padded to 8. */
#ifndef EMBEDDING_ENGINE_COPY_PART_H
#define EMBEDDING_ENGINE_COPY_PART_H

#include "embedding/copy.h"
#include "proto/base/hash.h"

#define COPY_MAGIC 0x31594f434c4f4853ull /* "SHOLCOY1" */
#define COPY_ALIGN 8u

enum copy_stage { COPY_PAIRS = 1, COPY_RECORDS, COPY_END };

/* A position: the item that a part begins with. */
struct copy_at {
    uint64_t salt;   /* salt of the copy: no two have the same */
    uint64_t index;  /* index of the part */
    uint64_t record; /* COPY_RECORDS: sequence of the next record */
    uint64_t offset; /* bytes of the item that earlier parts have */
    char key[16];    /* COPY_PAIRS: no pair below it is left; with an offset its own key */
    uint32_t key_bytes, stage;
};
_Static_assert(sizeof(struct copy_at) == 56 && sizeof(struct copy_at) <= ENGINE_COPY_POSITION,
               "copy_at is a wire format");

struct copy_head {
    uint64_t magic, checksum; /* checksum: of all bytes of the part that follow it */
    uint64_t number, sequence, bytes;
    uint32_t items, loads;
    struct copy_at from, next;
};
_Static_assert(sizeof(struct copy_head) == 160, "copy_head is a wire format");

struct copy_load { /* a finished load of the leader */
    uint64_t run;
    struct table_set tables;
};
_Static_assert(sizeof(struct copy_load) == 40, "copy_load is a wire format");

struct copy_item {
    uint64_t total, offset;    /* bytes of the item; those that earlier parts have */
    uint32_t bytes, key_bytes; /* key_bytes 0: a record */
    char key[16];
};
_Static_assert(sizeof(struct copy_item) == 40, "copy_item is a wire format");

static inline uint64_t copy_checksum(const void *part, size_t bytes)
{
    size_t from = offsetof(struct copy_head, number);
    return hash_bytes((const char *)part + from, bytes - from, COPY_MAGIC);
}

static inline size_t copy_padded(size_t bytes)
{
    return (bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
}

#endif
