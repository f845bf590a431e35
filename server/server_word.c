/* server_word.c: the main thread's own connection to the coordinator. */
#include "server/server_word.h"

#include "proto/base/container_of.h"
#include "proto/net/net.h"
#include "server/shard/beat.h"

#define ANSWER_NS UINT64_C(500000000)

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct server_word *w = core;
    struct wire in;
    struct err e;
    /* the refusal of a coordinator that leads, too, is an answer */
    bool passed = wire_decode(m, &in, &e) == 0 && coordinators_heard(&w->list, from, &in);
    msg_free(m);
    if (!passed)
        env_stop(net_env(w->net));
}

static void on_peer_gone(void *core, peer_t peer)
{
    struct server_word *w = core;
    coordinators_gone(&w->list, peer);
}

static void on_drained(void *core)
{
    (void)core;
}

static void word_send(struct server_word *w)
{
    struct msg *m = beat_disk(&w->hang, ++w->id);
    if (m != NULL)
        (void)env_send(net_env(w->net), w->list.peer, m);
    coordinators_asked(&w->list);
}

static void moved(struct coordinators *c, peer_t before)
{
    (void)before;
    word_send(container_of(c, struct server_word, list));
}

static void over_fire(struct env_timer *t)
{
    struct server_word *w = container_of(t, struct server_word, over);
    env_stop(net_env(w->net));
}

static void word_close(struct server_word *w)
{
    if (w->net == NULL)
        return;
    coordinators_close(&w->list);
    net_free(w->net);
    w->net = NULL;
}

static bool word_open(struct server_word *w)
{
    static const struct env_handler handler = {on_message, on_drained, on_peer_gone};
    const struct net_options options = {.keys = w->keys};
    struct err e;
    if (w->net != NULL)
        return true;
    if (net_new(&options, &w->net, &e) != 0)
        return false;
    w->over.fire = over_fire;
    net_set_handler(w->net, &handler, w);
    w->list = (struct coordinators){.moved = moved};
    if (coordinators_open(&w->list, net_env(w->net), w->coordinator, &e) == 0)
        return true;
    word_close(w);
    return false;
}

void server_word_hang(struct server_word *w, uint32_t disk_s, uint32_t shard_index, uint32_t loop_s)
{
    bool well = disk_s == 0 && loop_s == 0;
    if (w->coordinator[0] == 0 || (well && w->net == NULL) || !word_open(w))
        return;
    w->hang.seconds = disk_s;
    w->hang.shard_index = shard_index;
    w->hang.loop_seconds = loop_s;
    word_send(w);
    env_timer_start(net_env(w->net), &w->over, ANSWER_NS);
    net_run(w->net);
    env_timer_stop(net_env(w->net), &w->over);
    if (well)
        word_close(w);
}
