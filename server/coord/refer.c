/* refer.c: the answer of a coordinator that stands by. */
#include "server/coord/refer.h"

#include "proto/wire/coordinators.h"
#include "proto/wire/wire.h"

void coord_refer(struct env *env, peer_t from, struct msg *m, const char *leader)
{
    struct err e = {0};
    struct wire w;
    struct msg *reply = NULL;
    int rc = wire_decode(m, &w, &e);
    if (rc == 0)
        env_known(env, from);
    if (rc == 0 && !w.reply && leader[0] != '\0')
        reply = wire_refusal(&w, SHOAL_E_NOT_LEADER, COORDINATORS_LEADS, leader);
    else if (rc == 0 && !w.reply)
        reply = wire_refusal(&w, SHOAL_E_NOT_LEADER, COORDINATORS_NONE);
    if (reply != NULL)
        (void)env_send(env, from, reply);
    msg_free(m);
}
