/* named.h: keys of one tablet that an operator named erased, blocked or allowed, which overrides
 * the table's admission.
 *
 * A list sorted by mixed key. It is short, so a search costs little and a change rewrites the list.
 * An erased key is blocked and has no row. Owned by its tablet, part of its image. Thread: the
 * shard's. */
#ifndef EMBEDDING_ROWS_RULES_NAMED_H
#define EMBEDDING_ROWS_RULES_NAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most names that a tablet gets: they take half of what a message carries, so that the tablet can
 * still move (embedding/move.h). Tablets of 0.2 may have up to NAMED_READ_MAX, which an image
 * keeps; such a tablet takes no further names, and engine_give refuses it once it exceeds a
 * message. */
#define NAMED_MAX (1u << 19)
#define NAMED_READ_MAX (1u << 20)

enum name_kind { NAME_NONE = 0, NAME_ERASED = 1, NAME_BLOCKED = 2, NAME_ALLOWED = 3 };

struct named_key {
    uint64_t key;
    uint32_t kind; /* NAME_ERASED .. NAME_ALLOWED */
    uint32_t zero;
};
_Static_assert(sizeof(struct named_key) == 16, "named_key is a disk format");

struct named {
    struct named_key *list; /* owned; sorted by key_mix */
    uint32_t count;
};

void named_clear(struct named *n);
enum name_kind named_find(const struct named *n, uint64_t key);
static inline bool named_blocked(const struct named *n, uint64_t key)
{
    enum name_kind kind = NAME_NONE;
    if (n->count != 0)
        kind = named_find(n, key);
    return kind == NAME_ERASED || kind == NAME_BLOCKED;
}
/* Names keys (count; sorted by key_mix, each once); NAME_NONE removes names. *changed: number of
 * keys that had another name before. 0, or SHOAL_E_NOMEM with nothing changed. */
int named_set(struct named *n, const uint64_t *keys, size_t count, enum name_kind kind,
              uint64_t *changed);

#endif
