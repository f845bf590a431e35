/* nameset.h: a set of names that keeps their order of insertion. Two hashes of 64 bits stand for a
 * name, so each takes 16 bytes, whatever its length. With a million names in the set, a new name is
 * taken for one of them with probability 3e-33. Any thread, one at a time. */
#ifndef PROTO_BASE_NAMESET_H
#define PROTO_BASE_NAMESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMESET_MAX 1000000u

struct nameset_item { /* on the wire and on disks: little-endian */
    uint64_t hash[2];
};
_Static_assert(sizeof(struct nameset_item) == 16, "nameset_item is stored");

struct nameset {
    struct nameset_item *item; /* owned (count), in order of insertion */
    uint32_t count, capacity;
    uint32_t *place; /* owned (places): index of an item + 1, by its hash; 0: free */
    uint32_t places; /* a power of two, or 0 */
};

struct nameset_item nameset_item(const char *name, size_t bytes);
bool nameset_has(const struct nameset *s, struct nameset_item item);
/* A name that is in the set keeps its place. NOMEM; TOO_BIG: there are NAMESET_MAX. */
int nameset_add(struct nameset *s, struct nameset_item item);
/* Adds the items at `from` (count), which may be unaligned and may contain duplicates, by
 * nameset_add. */
int nameset_add_all(struct nameset *s, const void *from, size_t count);
/* Removes the `count` items that were added last. */
void nameset_drop_last(struct nameset *s, uint32_t count);
/* Removes the first `count` items whose bit in `bits` (bits_count) is set. Returns how many it
 * removed. */
uint32_t nameset_drop(struct nameset *s, const uint8_t *bits, uint32_t bits_count, uint32_t count);
/* A hash of all items, in their order. */
uint64_t nameset_digest(const struct nameset *s);
void nameset_close(struct nameset *s);

#endif
