/* life.h: what a tablet keeps beside its rows: its clock, who waits for a row, who is named. Only
 * tablets that need it have one. */
#ifndef EMBEDDING_ROWS_RULES_LIFE_H
#define EMBEDDING_ROWS_RULES_LIFE_H

#include "embedding/rows/rules/named.h"
#include "embedding/rows/rules/sketch.h"
#include "embedding/rows/rules/waiting.h"

struct tablet_life {
    /* event time that the tablet has come to, in seconds since 1970 (age.h); 0: none was told */
    uint32_t clock;
    struct waiting waiting;
    struct sketch sketch;
    struct named named;
};

struct tablet_life *life_new(void); /* NULL: no memory */
void life_free(struct tablet_life *l);

#endif
