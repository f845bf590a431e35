/* life.c: makes and frees a tablet's life. */
#include "embedding/rows/rules/life.h"

#include <stdlib.h>

struct tablet_life *life_new(void)
{
    return calloc(1, sizeof(struct tablet_life));
}

void life_free(struct tablet_life *l)
{
    if (l == NULL)
        return;
    waiting_clear(&l->waiting);
    sketch_clear(&l->sketch);
    named_clear(&l->named);
    free(l);
}
