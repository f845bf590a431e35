/* slot_find.c: which job a request is for; slot.h. */
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"

uint32_t coord_slot_running(const struct coord *c)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < c->slots; i++)
        running += coord_phase_running(&c->slot[i]);
    return running;
}

struct coord_job *coord_slot_newest(struct coord *c)
{
    struct coord_job *newest = c->slot;
    COORD_EACH_JOB (c, j) {
        bool runs = coord_phase_running(j), before = coord_phase_running(newest);
        if (runs != before ? runs : j->at.number > newest->at.number)
            newest = j;
    }
    return newest;
}

struct coord_job *coord_slot_numbered(struct coord *c, uint64_t number)
{
    if (number == 0)
        return coord_slot_newest(c);
    COORD_EACH_JOB (c, j)
        if (j->at.number == number)
            return j;
    return NULL;
}

struct coord_job *coord_slot_of(struct coord *c, peer_t from, const uint64_t *pass, const char *key)
{
    COORD_EACH_JOB (c, j)
        if ((pass != NULL && coord_worker_of_pass(&j->workers, *pass, key) != NULL) ||
            (pass == NULL && coord_worker_of_peer(&j->workers, from) != NULL))
            return j;
    return coord_slot_newest(c);
}
