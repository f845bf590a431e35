/* move_rig.h: several engines that share the tablets of table 0, and pushes to one tablet. Checks
 * its own steps with Check. */
#ifndef TESTS_LIB_MOVE_RIG_H
#define TESTS_LIB_MOVE_RIG_H

#include "embedding/move.h"
#include "tests/lib/embedding_rig.h"

#define MOVE_TABLETS (1u << SHARD_TABLET_BITS)

/* owner[tablet]: the number of the engine that leads it. */
void move_lead(struct rig *s, const uint16_t owner[MOVE_TABLETS], uint16_t self);
/* Pushes batch `to` of a lane to one tablet of a table: the batch's keys that lie there. */
int move_push(struct rig *s, uint64_t run, uint32_t table, uint32_t lane, uint64_t to,
              uint32_t tablet);
/* The image of a global tablet, with its work; the caller frees it. NULL: *e says why. */
void *move_give(struct rig *s, uint32_t tablet, size_t *bytes, uint64_t *rows, struct err *e);
/* Takes a tablet from `from` into `to` and checks that both accept. */
void move_over(struct rig *from, struct rig *to, uint32_t tablet);
/* The digest of a whole tablet of table `table`. */
uint64_t move_digest(struct rig *s, uint32_t table, uint32_t tablet);

#endif
