/* block.c: tensors laid out as rows of a dense table. */
#include "dense/layer/block.h"

#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool named(const struct block_layout *b, const char *name)
{
    for (uint32_t t = 0; t < b->tensor_count; t++)
        if (strcmp(b->tensor[t].name, name) == 0)
            return true;
    return false;
}

size_t block_add(struct block_layout *b, const char *name, const char *shape, size_t count,
                 struct init_spec init, bool decay)
{
    SHOAL_ASSERT(count > 0 && strlen(name) < LEGEND_NAME - 8 && strlen(shape) < 40);
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
    b->tensor[t].number = t;
    text_copy(b->tensor[t].shape, sizeof b->tensor[t].shape, shape);
    b->tensor[t].name[0] = 0;
    char own[LEGEND_NAME];
    text_copy(own, sizeof own, name);
    for (uint32_t again = 2; named(b, own); again++)
        (void)snprintf(own, sizeof own, "%.80s#%u", name, again);
    text_copy(b->tensor[t].name, sizeof b->tensor[t].name, own);
    b->floats += blocks * BLOCK_FLOATS;
    return first;
}

int block_number(struct block_layout *b, const struct legend *names, enum legend_list list,
                 struct err *e)
{
    for (uint32_t t = 0; t < b->tensor_count && names->count[list] > 0; t++) {
        uint32_t at = legend_find(names, list, b->tensor[t].name);
        if (at == LEGEND_NONE || strcmp(names->name[list][at].what, b->tensor[t].shape) != 0)
            return err_set(e, SHOAL_E_CONFIG,
                           "the tables have no tensor %s of shape %s: the job has another model "
                           "than they were trained with",
                           b->tensor[t].name, b->tensor[t].shape);
        b->tensor[t].number = names->name[list][at].number;
    }
    return 0;
}

void block_inits(const struct block_layout *b, struct table_schema *out)
{
    out->init = (struct init_spec){INIT_ZERO, 0.0f};
    out->field_rule_count = 0;
    for (uint32_t t = 0; t < b->tensor_count; t++) {
        if (b->tensor[t].init.kind == INIT_ZERO)
            continue;
        uint32_t number = b->tensor[t].number, at = out->field_rule_count++;
        for (; at > 0 && out->field_rule[at - 1].field > number; at--)
            out->field_rule[at] = out->field_rule[at - 1];
        out->field_rule[at] = (struct field_rule){.field = number,
                                                  .has = FIELD_HAS_INIT,
                                                  .kind = b->tensor[t].init.kind,
                                                  .scale = b->tensor[t].init.scale};
    }
}

struct placed_key {
    uint64_t key;
    uint32_t block;
};

static int placed_order(const void *a, const void *b)
{
    uint64_t x = key_mix(((const struct placed_key *)a)->key),
             y = key_mix(((const struct placed_key *)b)->key);
    return (x > y) - (x < y);
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
            placed[n] = (struct placed_key){key_make(b->tensor[t].number, i),
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
