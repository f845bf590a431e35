/* block.c: tensors laid out as rows of a dense table. */
#include "dense/layer/block.h"

#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <stdlib.h>

size_t block_add(struct block_layout *b, size_t count, struct init_spec init, bool decay)
{
    SHOAL_ASSERT(count > 0);
    if (b->tensor_count == BLOCK_TENSORS_MAX) {
        b->overflow = true;
        return 0;
    }
    SHOAL_ASSERT(b->floats % BLOCK_FLOATS == 0);
    size_t first = b->floats, blocks = (count + BLOCK_FLOATS - 1) / BLOCK_FLOATS;
    uint32_t t = b->tensor_count++;
    b->tensor[t].first = first;
    b->tensor[t].count = count;
    b->tensor[t].init = init;
    b->tensor[t].decay = decay;
    b->floats += blocks * BLOCK_FLOATS;
    return first;
}

void block_inits(const struct block_layout *b, struct table_schema *out)
{
    out->init = (struct init_spec){INIT_ZERO, 0.0f};
    out->field_rule_count = 0;
    for (uint32_t t = 0; t < b->tensor_count; t++)
        if (b->tensor[t].init.kind != INIT_ZERO)
            out->field_rule[out->field_rule_count++] =
                (struct field_rule){.field = t,
                                    .has = FIELD_HAS_INIT,
                                    .kind = b->tensor[t].init.kind,
                                    .scale = b->tensor[t].init.scale};
}

struct placed_key {
    uint64_t key;
    uint32_t block;
};

static int placed_order(const void *a, const void *b)
{
    uint64_t x = key_mix(((const struct placed_key *)a)->key),
             y = key_mix(((const struct placed_key *)b)->key);
    return x < y ? -1 : x > y;
}

int block_keys(const struct block_layout *b, uint64_t **keys, uint32_t **block)
{
    size_t count = b->floats / BLOCK_FLOATS, n = 0;
    struct placed_key *placed = malloc((count + 1) * sizeof *placed);
    *keys = malloc((count + 1) * sizeof **keys);
    *block = malloc((count + 1) * sizeof **block);
    if (placed == NULL || *keys == NULL || *block == NULL) {
        free(placed);
        free(*keys);
        free(*block);
        *keys = NULL;
        *block = NULL;
        return SHOAL_E_NOMEM;
    }
    for (uint32_t t = 0; t < b->tensor_count; t++)
        for (size_t i = 0; i * BLOCK_FLOATS < b->tensor[t].count; i++, n++)
            placed[n] = (struct placed_key){key_make(t, i),
                                            (uint32_t)(b->tensor[t].first / BLOCK_FLOATS + i)};
    SHOAL_ASSERT(n == count);
    qsort(placed, n, sizeof *placed, placed_order);
    for (size_t i = 0; i < n; i++) {
        (*keys)[i] = placed[i].key;
        (*block)[i] = placed[i].block;
    }
    free(placed);
    return 0;
}
