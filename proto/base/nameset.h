/* nameset.h: a set of names that keeps the order in which they came. A name is known by two hashes
 * of 64 bits, so that each takes 16 bytes, however long it is; of a million names that are there
 * another one is taken for one of them with chance 3e-33. Any thread, one at a time. */
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
    struct nameset_item *item; /* owned (count), in the order in which they came */
    uint32_t count, capacity;
    uint32_t *place; /* owned (places): of an item, counted from 1, by its hash; 0: free */
    uint32_t places; /* a power of two, or 0 */
};

struct nameset_item nameset_item(const char *name, size_t bytes);
bool nameset_has(const struct nameset *s, struct nameset_item item);
/* One that is there stays where it is. NOMEM; TOO_BIG: there are NAMESET_MAX. */
int nameset_add(struct nameset *s, struct nameset_item item);
/* Those at `from` (count), which may lie anywhere and may have one twice, as nameset_add. */
int nameset_add_all(struct nameset *s, const void *from, size_t count);
/* Those that came last go. */
void nameset_drop_last(struct nameset *s, uint32_t count);
/* The first `count` go of those that have their bit in `bits` (bits_count). How many went. */
uint32_t nameset_drop(struct nameset *s, const uint8_t *bits, uint32_t bits_count, uint32_t count);
/* Of all, in their order. */
uint64_t nameset_digest(const struct nameset *s);
void nameset_close(struct nameset *s);

#endif
