/* moves_order.c: makes plans of orders, and lets servers join. */
#include "server/coord/fleet/moves_order.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/add.h"
#include "server/coord/fleet/fleet.h"
#include "server/coord/fleet/plan.h"

#include <stdlib.h>
#include <string.h>

/* The figures that a plan is made of, and the plan. */
struct drawn {
    uint32_t tablets, shards;
    uint64_t *bytes, *load; /* owned, (tablets) */
    uint16_t *goal;         /* owned, (tablets) */
    bool leaves[LIMIT_SHARDS];
};

static void drawn_free(struct drawn *d)
{
    free(d->bytes);
    free(d->load);
    free(d->goal);
}

/* Marks the shards that have a copy on the server that is to be empty. */
static int leaves_mark(const struct coord_fleet *f, const char *server, struct drawn *d,
                       struct err *e)
{
    uint32_t of_it = 0;
    COORD_EACH_SHARD (&f->members, s) {
        d->leaves[s] = coord_copies_on(f, s, server);
        of_it += d->leaves[s];
    }
    if (of_it == 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no shard is on a server %s: see `shoal status` for the names", server);
    if (of_it == coord_member_count(&f->members))
        return err_set(e, SHOAL_E_CONFIG,
                       "server %s has a copy of each shard: no other shard could take its tablets",
                       server);
    return 0;
}

static int draw(const struct coord_fleet *f, const struct wire_MOVES *order, struct drawn *d,
                struct err *e)
{
    const struct coord_cluster *cl = &f->cluster;
    d->tablets = cl->tablets;
    d->shards = f->members.shards;
    for (uint32_t s = 0; s < d->shards; s++)
        d->leaves[s] = f->members.shard[s].retired; /* it gets none */
    if (order->order == WIRE_MOVES_DRAIN && leaves_mark(f, order->server, d, e) != 0)
        return e->code;
    d->bytes = calloc(MAX(d->tablets, 1u), sizeof *d->bytes);
    d->load = calloc(MAX(d->tablets, 1u), sizeof *d->load);
    d->goal = calloc(MAX(d->tablets, 1u), sizeof *d->goal);
    if (d->bytes == NULL || d->load == NULL || d->goal == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a plan of %u tablets", d->tablets);
    for (uint32_t i = 0; i < d->tablets && i < f->heat.tablets; i++) {
        d->bytes[i] = f->heat.of[i].bytes;
        d->load[i] = f->heat.of[i].load;
    }
    const struct coord_plan p = {cl->shard_of, d->bytes, d->load, d->leaves, d->tablets, d->shards};
    if (d->tablets > 0 && !coord_plan_make(&p, d->goal))
        return err_set(e, SHOAL_E_NOMEM, "no memory for a plan of %u tablets", d->tablets);
    return 0;
}

/* {"tablets", "bytes", "shards": [{"shard", "server", "tablets", "bytes", "load",
 * "tablets_after", "bytes_after", "load_after"}]} */
static struct json *drawn_json(const struct coord_fleet *f, const struct drawn *d)
{
    const uint16_t *owner = f->cluster.shard_of;
    struct json *j = json_new_object(), *list = json_new_array();
    int64_t moved = 0, bytes = 0;
    for (uint32_t i = 0; i < d->tablets; i++)
        if (owner[i] != d->goal[i]) {
            moved++;
            bytes += (int64_t)d->bytes[i];
        }
    json_set_int(j, "tablets", moved);
    json_set_int(j, "bytes", bytes);
    COORD_EACH_SHARD (&f->members, s) {
        int64_t sum[6] = {0};
        for (uint32_t i = 0; i < d->tablets; i++) {
            int64_t before = owner[i] == s, after = d->goal[i] == s;
            sum[0] += before;
            sum[1] += before * (int64_t)d->bytes[i];
            sum[2] += before * (int64_t)d->load[i];
            sum[3] += after;
            sum[4] += after * (int64_t)d->bytes[i];
            sum[5] += after * (int64_t)d->load[i];
        }
        static const char *const name[] = {"tablets",       "bytes",       "load",
                                           "tablets_after", "bytes_after", "load_after"};
        struct json *one = json_new_object();
        json_set_int(one, "shard", s);
        json_set_string(one, "server", f->members.shard[s].server);
        for (uint32_t k = 0; k < 6; k++)
            json_set_int(one, name[k], sum[k]);
        json_append(list, one);
    }
    json_set(j, "shards", list);
    return j;
}

static void answer(struct coord_fleet *f, int status, const char *why, const struct json *plan)
{
    struct coord_moves_asker *a = &f->moves_asker;
    struct wire w = {.type = WIRE_TYPE_MOVES, .reply = true, .id = a->id, .status = status};
    char *text = plan != NULL ? json_text(plan, 0) : NULL;
    if (status != 0) {
        const struct wire request = {.type = WIRE_TYPE_MOVES, .id = a->id};
        coord_send(f, a->peer, wire_refusal(&request, status, "%s", why));
    } else if (text != NULL) {
        (void)coord_send_frame(f, a->peer, &w, text, strlen(text));
    } /* else out of memory: the client asks again */
    free(text);
    a->peer = 0;
}

/* The figures of all shards are there. */
static void figures_there(void *context, int status, const char *text)
{
    struct coord_fleet *f = context;
    const struct wire_MOVES *order = &f->moves_asker.order;
    struct drawn d = {0};
    struct json *plan = NULL;
    struct err e = {0};
    enum coord_moves_kind kind = MOVES_REBALANCE;
    if (order->order == WIRE_MOVES_DRAIN)
        kind = MOVES_DRAIN;
    int rc = status;
    if (rc != 0)
        (void)err_set(&e, rc, "%s", text);
    if (rc == 0)
        rc = draw(f, order, &d, &e);
    if (rc == 0)
        plan = drawn_json(f, &d);
    if (rc == 0 && kind == MOVES_REBALANCE)
        json_set(plan, "copies", coord_copies_spread(f, order->dry_run));
    if (rc == 0 && !order->dry_run && (d.tablets > 0 || kind == MOVES_DRAIN))
        rc = coord_moves_begin(f, kind, order->server, d.goal, &e);
    if (rc == SHOAL_E_NOT_FOUND && d.goal != NULL)
        rc = 0; /* nothing has to move, as the plan says */
    answer(f, rc, e.text, plan);
    json_free(plan);
    drawn_free(&d);
}

/* Orders that are carried out at once: servers join, or one that is away leaves. */
static int at_once(struct coord_fleet *f, struct coord_ask *a, const struct err *busy)
{
    const char *servers = a->request->u.MOVES.server;
    struct json *told = NULL;
    int rc;
    if (a->request->u.MOVES.order == WIRE_MOVES_ADD)
        rc = coord_add_order(f, servers, busy, &told, &a->e);
    else
        rc = coord_add_take_back(f, servers, busy, &told, &a->e);
    if (rc != 0)
        return rc;
    char *text = json_text(told, 0);
    a->silent = true;
    if (text != NULL) /* else out of memory: the client asks again */
        (void)coord_send_frame(f, a->from, &a->reply, text, strlen(text));
    free(text);
    json_free(told);
    return 0;
}

int coord_moves_order(struct coord_fleet *f, struct coord_ask *a, const struct err *busy)
{
    const struct wire_MOVES *order = &a->request->u.MOVES;
    struct coord_moves_asker *asker = &f->moves_asker;
    if (order->order == WIRE_MOVES_STOP) {
        a->frame = "{}";
        a->frame_bytes = 2;
        return coord_moves_stop(f, &a->e);
    }
    bool leaves = order->order == WIRE_MOVES_DRAIN && !order->dry_run;
    if (order->order == WIRE_MOVES_ADD || (leaves && coord_add_absent(f, order->server)))
        return at_once(f, a, busy);
    if (order->order != WIRE_MOVES_REBALANCE && order->order != WIRE_MOVES_DRAIN)
        return err_set(&a->e, SHOAL_E_MALFORMED, "there is no order %u", order->order);
    a->silent = true;
    if (asker->peer == a->from && asker->id == a->request->id)
        return 0; /* it is sent again, and is being answered */
    if (asker->peer != 0)
        return err_set(&a->e, SHOAL_E_BUSY, "another plan is being made: ask again in a moment");
    if (f->moves.kind != MOVES_NONE && !order->dry_run)
        return err_set(&a->e, SHOAL_E_EXISTS,
                       "tablets are being moved already: wait for the end of that plan (shoal "
                       "status), or stop it first (shoal rebalance --stop)");
    *asker = (struct coord_moves_asker){a->from, a->request->id, *order};
    bool bare = f->cluster.tables > 0 && !table_set_any(coord_map_places(&f->cluster));
    if (coord_cluster_ready(&f->cluster) && (f->cluster.tablets == 0 || bare)) {
        /* there are no figures, and no tablet with rows to move */
        figures_there(f, 0, "");
        return 0;
    }
    int rc = coord_heat_ask(f, figures_there, f, &a->e);
    if (rc != 0)
        asker->peer = 0;
    return rc;
}
