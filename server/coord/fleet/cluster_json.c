/* cluster_json.c: the cluster for people; cluster.h. */
#include "server/coord/fleet/cluster.h"

#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>

struct json *coord_cluster_json(const struct coord_fleet *f)
{
    const struct coord_cluster *cl = &f->cluster;
    struct json *j = json_new_object(), *come = json_new_array(), *strangers = json_new_array();
    char id[40];
    (void)snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, cl->id[0], cl->id[1]);
    json_set_string(j, "id", text_if(coord_cluster_known(cl), id));
    json_set_int(j, "shards", coord_member_count(&f->members));
    json_set_int(j, "map_epoch", (int64_t)cl->map_epoch);
    json_set_int(j, "tablets", cl->tablets);
    json_set_bool(j, "names", coord_names_sure(f));
    for (uint32_t i = 0; i < cl->claims.count && !coord_cluster_known(cl); i++) {
        struct json *item = json_new_object();
        json_set_string(item, "name", cl->claims.claim[i].beat.server);
        json_set_int(item, "index", cl->claims.claim[i].beat.shard_index);
        json_append(come, item);
    }
    for (uint32_t i = 0; i < cl->strangers; i++) {
        struct json *item = json_new_object();
        json_set_string(item, "name", cl->stranger[i].server);
        json_set_int(item, "index", cl->stranger[i].index);
        json_set_string(item, "why", cl->stranger[i].text);
        json_set_bool(item, "drained", cl->stranger[i].drained);
        json_set_int(item, "silent_ms",
                     (int64_t)((env_now_ns(f->env) - cl->stranger[i].beat_ns) / 1000000));
        json_append(strangers, item);
    }
    json_set(j, "come", come);
    json_set(j, "strangers", strangers);
    struct json *moves = coord_moves_json(f);
    if (moves != NULL)
        json_set(j, "moves", moves);
    struct json *copies = coord_copies_json(f);
    if (copies != NULL)
        json_set(j, "copies", copies);
    return j;
}
