/* lead.c: the leader's node: 16 hexadecimal digits of its writer, a space, its endpoint. */
#include "server/coord/store/lead.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITER 17u /* bytes before the endpoint */

/* Reads the node. 0: it is this session's, of an earlier try whose answer was lost. */
static int leader_read(const struct coord_zookeeper *o, char leader[COORD_ENDPOINT], struct err *e)
{
    struct zoo_node n = {.data = NULL};
    char mine[WRITER + 1];
    (void)snprintf(n.path, sizeof n.path, "%s/leader", o->path);
    (void)snprintf(mine, sizeof mine, "%016" PRIx64 " ", o->writer);
    int rc = o->ops->get(o->zoo, &n, 1, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return SHOAL_E_AGAIN; /* the leader has ended since */
    if (rc != 0)
        return rc;
    size_t bytes = 0;
    if (n.bytes >= WRITER && n.bytes - WRITER < COORD_ENDPOINT)
        bytes = n.bytes - WRITER;
    if (bytes > 0)
        memcpy(leader, (const char *)n.data + WRITER, bytes);
    leader[bytes] = '\0';
    bool own = n.bytes >= WRITER && memcmp(n.data, mine, WRITER) == 0;
    free(n.data);
    return own ? 0 : SHOAL_E_AGAIN;
}

int coord_lead_try(const struct coord_zookeeper *o, const char *endpoint,
                   char leader[COORD_ENDPOINT], struct err *e)
{
    char text[WRITER + COORD_ENDPOINT];
    struct zoo_step s = {.kind = ZOO_MAKE_OWN, .data = text};
    (void)snprintf(s.path, sizeof s.path, "%s/leader", o->path);
    s.bytes = (size_t)snprintf(text, sizeof text, "%016" PRIx64 " %.255s", o->writer, endpoint);
    leader[0] = '\0';
    int rc = o->ops->multi(o->zoo, &s, 1, e);
    if (rc == SHOAL_E_NOT_FOUND) {
        rc = coord_zookeeper_make(o, e);
        if (rc == 0)
            rc = o->ops->multi(o->zoo, &s, 1, e);
    }
    if (rc == SHOAL_E_EXISTS)
        rc = leader_read(o, leader, e);
    return rc;
}
