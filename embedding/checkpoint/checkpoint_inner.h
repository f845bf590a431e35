/* checkpoint_inner.h: struct checkpoint, for checkpoint.c, checkpoint_read.c and load.c only. */
#ifndef EMBEDDING_CHECKPOINT_CHECKPOINT_INNER_H
#define EMBEDDING_CHECKPOINT_CHECKPOINT_INNER_H

#include "embedding/checkpoint.h"
#include "embedding/engine/part.h"

struct checkpoint {
    char path[LIMIT_PATH];
    int reading; /* reading.h */
    struct checkpoint_facts facts;
    struct signature *signature; /* owned; NULL: none is required */
    struct part *part;           /* owned; (facts.parts) */
    /* owned; by table; (2^tablet_bits): the part that has the tablet */
    uint16_t *owner[LIMIT_TABLES];
    uint64_t lowest[LIMIT_LANES];
};

/* Makes an engine in memory with the checkpoint's tables, whose rows are in `arena` (borrowed until
 * checkpoint_scratch_free). */
int checkpoint_scratch(const struct checkpoint *c, struct arena *arena, struct engine **out,
                       struct err *e);
void checkpoint_scratch_free(struct engine *g);
/* Allocates base[table number] (2^tablet_bits), all UINT64_MAX, for cut_recover;
 * checkpoint_base_free frees it. */
int checkpoint_base(const struct checkpoint *c, uint64_t *base[LIMIT_TABLES]);
void checkpoint_base_free(uint64_t *base[LIMIT_TABLES]);
/* Reads the tablets of one part that base asks for into g's tables, with all their rows in memory,
 * and their runs and marks into `runs`. verified: the part's files have just been checked, so their
 * blocks are not checked again; images are checked in any case. */
int checkpoint_part_load(const struct checkpoint *c, uint32_t part, bool verified, struct engine *g,
                         uint64_t *const base[LIMIT_TABLES], struct runs *runs, struct err *e);

#endif
