/* seed.h: the folder of a seed (copy.h), which takes the place of an engine's rows and journal.
 * seed_place.c has its invariants. */
#ifndef EMBEDDING_ENGINE_SEED_H
#define EMBEDDING_ENGINE_SEED_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>

/* Puts a seed in place for which that was decided, or removes one for which it was not. Before rows
 * and journal of dir are opened. IO. */
int seed_settle(const char *dir, struct err *e);
/* Makes dir, if it is missing, and in it the empty folders seed-rows and seed-journal. CONFIG, IO,
 * CANTCREATE. */
int seed_folders_make(const char *dir, struct err *e);
/* Both folders are complete and on disk: decides that they take their places. UNAVAILABLE: an
 * engine is open in dir. IO. */
int seed_decide(const char *dir, struct err *e);
bool seed_decided(const char *dir);
void seed_path(const char *dir, const char *name, char out[LIMIT_PATH]);

#endif
