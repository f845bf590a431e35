/* seed.h: what a kill has left of a seed (copy.h), for the start of an engine. */
#ifndef EMBEDDING_ENGINE_SEED_H
#define EMBEDDING_ENGINE_SEED_H

#include "proto/base/err.h"

/* Puts a seed in place for which that was decided, or removes one for which it was not. Before rows
 * and journal of dir are opened. IO. */
int seed_settle(const char *dir, struct err *e);

#endif
