/* setup_state.h: how far each shard is set up for a job; job/setup.h takes the steps. */
#ifndef SERVER_COORD_CORE_SETUP_STATE_H
#define SERVER_COORD_CORE_SETUP_STATE_H

#include "server/coord/core/core.h"

#include <stdbool.h>
#include <stdint.h>

/* A shard has started again: its setup is lost. */
void coord_setup_lost(struct coord_job *j, uint32_t shard);
/* The shard is set up anew. Its pending request of the setup is taken back. */
void coord_setup_again(struct coord_job *j, uint32_t shard);
/* No shard is set up any more, since another run begins. Pending requests of the setup are taken
 * back. */
void coord_setup_forget(struct coord_job *j);
bool coord_setup_all(const struct coord_job *j);
/* Every shard has answered what it was told of wanted cuts and runs. */
bool coord_setup_greeted(const struct coord_job *j);

#endif
