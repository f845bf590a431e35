/* life.h: a tablet's state beside its rows: its clock, waiting keys, named keys. Only tablets that
 * need it have one. */
#ifndef EMBEDDING_ROWS_RULES_LIFE_H
#define EMBEDDING_ROWS_RULES_LIFE_H

#include "embedding/rows/rules/named.h"
#include "embedding/rows/rules/sketch.h"
#include "embedding/rows/rules/waiting.h"

struct tablet_life {
    /* event time of the tablet in seconds since 1970 (age.h); 0: none known */
    uint32_t clock;
    struct waiting waiting;
    struct sketch sketch;
    struct named named;
};

struct tablet_life *life_new(void); /* NULL: no memory */
void life_free(struct tablet_life *l);

#endif
