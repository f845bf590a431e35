/* work.h: what workers report: indexes, tables, finished tasks, scores, their leaving. Each
 * answers its request; asking twice is harmless. Those of a worker that must be known are called
 * only when coord_work_known has said so (the table of coord.c). Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WORK_H
#define SERVER_COORD_WORK_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct coord;

/* Renews the lease of the worker that asks; false: it is not known, and was told so. */
bool coord_work_known(struct coord *c, peer_t from, const struct wire *request, uint64_t number);
void coord_work_join(struct coord *c, peer_t from, const struct wire *request, const struct msg *m);
void coord_work_beat(struct coord *c, peer_t from, const struct wire *request, const struct msg *m);
void coord_work_index(struct coord *c, peer_t from, const struct wire *request,
                      const struct msg *m);
void coord_work_declare(struct coord *c, peer_t from, const struct wire *request,
                        const struct msg *m);
void coord_work_task(struct coord *c, peer_t from, const struct wire *request, const struct msg *m);
void coord_work_eval(struct coord *c, peer_t from, const struct wire *request, const struct msg *m);
void coord_work_leave(struct coord *c, peer_t from, const struct wire *request,
                      const struct msg *m);
void coord_work_table_get(struct coord *c, peer_t from, const struct wire *request,
                          const struct msg *m);
void coord_work_map_get(struct coord *c, peer_t from, const struct wire *request,
                        const struct msg *m);
/* Workers whose lease has run out are dead: what they had goes to others. */
void coord_work_expire(struct coord *c);

#endif
