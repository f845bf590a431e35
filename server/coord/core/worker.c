/* worker.c: the workers of a job. */
#include "server/coord/core/worker.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int worker_add(struct coord_workers *ws, struct coord_worker **out)
{
    if (array_room(&ws->worker, ws->count, &ws->capacity, 16) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(ws->count < ws->capacity && ws->count < LIMIT_WORKERS);
    *out = &ws->worker[ws->count++];
    memset(*out, 0, sizeof **out);
    return 0;
}

/* Limits the workers of one key and of one process, so that others find places. */
static int room_check(const struct coord_workers *ws, peer_t peer, const char *holder,
                      struct err *e)
{
    uint32_t of_holder = 0, of_peer = 0;
    for (uint32_t i = 0; i < ws->count; i++) {
        of_holder += strcmp(ws->worker[i].holder, holder) == 0;
        of_peer += ws->worker[i].peer == peer;
    }
    if (ws->count >= LIMIT_WORKERS)
        return err_set(e, SHOAL_E_BUSY,
                       "there are %u workers already, the most that a coordinator takes",
                       ws->count);
    if (of_peer >= LIMIT_WORKERS_PEER)
        return err_set(e, SHOAL_E_BUSY,
                       "this connection has joined as %u workers already: a process is one worker",
                       of_peer);
    if (of_holder >= LIMIT_WORKERS_HOLDER)
        return err_set(e, SHOAL_E_BUSY,
                       "%u workers have come with this key (%.10s) already: give each machine's "
                       "workers a key of their own (shoal keygen)",
                       of_holder, holder);
    return 0;
}

int coord_worker_join(struct coord_workers *ws, struct coord_members *m, struct coord_store *store,
                      const struct wire_WORKER_JOIN *join, const struct coord_caller *caller,
                      struct coord_worker **out, struct err *e)
{
    struct coord_worker *w;
    for (uint32_t i = 0; i < ws->count; i++) {
        w = &ws->worker[i];
        if (w->peer == caller->peer && w->pid == join->pid && strcmp(w->name, join->name) == 0) {
            w->beat_ns = caller->now_ns;
            *out = w;
            return 0;
        }
    }
    const char *key = text_or(caller->key, ""),
               *holder = key[0] != 0 || caller->address == NULL ? key : caller->address;
    int rc = room_check(ws, caller->peer, holder, e);
    if (rc != 0)
        return rc;
    uint64_t number;
    rc = coord_member_worker_number(m, store, &number, e);
    if (rc != 0)
        return rc;
    if (worker_add(ws, &w) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for one more worker");
    w->number = number;
    SHOAL_ASSERT(w == ws->worker || w[-1].number < w->number); /* they are sorted */
    memcpy(w->name, join->name, sizeof w->name);
    memcpy(w->build, join->build, sizeof w->build);
    w->pid = join->pid;
    w->lanes_max = join->lanes_max;
    w->stays = join->stays;
    w->pass = caller->pass;
    w->peer = caller->peer;
    text_copy(w->key, sizeof w->key, key);
    text_copy(w->holder, sizeof w->holder, holder);
    w->joined_ns = w->beat_ns = w->moved_ns = caller->now_ns;
    *out = w;
    return 0;
}

static uint32_t index_of(const struct coord_workers *ws, uint64_t number)
{
    uint32_t low = 0, high = ws->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ws->worker[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < ws->count && ws->worker[low].number == number)
        return low;
    return COORD_NOBODY;
}

struct coord_worker *coord_worker_find(struct coord_workers *ws, uint64_t number)
{
    uint32_t at = index_of(ws, number);
    if (at == COORD_NOBODY)
        return NULL;
    return &ws->worker[at];
}

struct coord_worker *coord_worker_of_pass(struct coord_workers *ws, uint64_t pass, const char *key)
{
    for (uint32_t i = 0; i < ws->count; i++)
        if (ws->worker[i].pass == pass && strcmp(ws->worker[i].key, key) == 0)
            return &ws->worker[i];
    return NULL;
}

struct coord_worker *coord_worker_of_peer(struct coord_workers *ws, peer_t peer)
{
    for (uint32_t i = 0; i < ws->count; i++)
        if (ws->worker[i].peer == peer)
            return &ws->worker[i];
    return NULL;
}

/* Adds all that a beat counts; `pass` of the sum has no meaning. */
static void figures_add(struct wire_WORKER_BEAT *sum, const struct wire_WORKER_BEAT *f)
{
#define ADD(name) sum->name += f->name;
#define NONE(name)
    WIRE_WORKER_BEAT(NONE, ADD, NONE, NONE, ADD, NONE, NONE)
#undef NONE
#undef ADD
}

void coord_worker_remove(struct coord_workers *ws, uint64_t number)
{
    uint32_t at = index_of(ws, number);
    if (at == COORD_NOBODY)
        return;
    figures_add(&ws->gone, &ws->worker[at].figures);
    SHOAL_ASSERT(ws->count > at && ws->worker[at].number == number);
    ws->count--;
    memmove(ws->worker + at, ws->worker + at + 1, (ws->count - at) * sizeof *ws->worker);
}

int coord_worker_failed(const struct coord_worker *w, int status, const char *text, struct err *e)
{
    return err_set(e, status < 0 ? status : SHOAL_E_INTERNAL, "worker %s: %s", w->name,
                   text_unless_empty(text, "it gave no reason"));
}

uint64_t coord_worker_expired(const struct coord_workers *ws, uint64_t now_ns, uint64_t lease_ns)
{
    for (uint32_t i = 0; i < ws->count; i++) {
        SHOAL_ASSERT(ws->worker[i].beat_ns <= now_ns);
        if (now_ns - ws->worker[i].beat_ns > lease_ns)
            return ws->worker[i].number;
    }
    return 0;
}

uint32_t coord_worker_heard(const struct coord_workers *ws)
{
    uint32_t heard = 0;
    for (uint32_t i = 0; i < ws->count; i++) /* sorted by number: the last one is the newest */
        heard += ws->worker[i].beat_ns >= ws->worker[ws->count - 1].joined_ns;
    return heard;
}

void coord_worker_remove_all(struct coord_workers *ws)
{
    while (ws->count > 0)
        coord_worker_remove(ws, ws->worker[ws->count - 1].number);
}

void coord_worker_sums(const struct coord_workers *ws, struct wire_WORKER_BEAT *out)
{
    *out = ws->gone;
    for (uint32_t i = 0; i < ws->count; i++)
        figures_add(out, &ws->worker[i].figures);
}

void coord_worker_forget_figures(struct coord_workers *ws)
{
    memset(&ws->gone, 0, sizeof ws->gone);
    for (uint32_t i = 0; i < ws->count; i++)
        memset(&ws->worker[i].figures, 0, sizeof ws->worker[i].figures);
}

void coord_worker_forgive(struct coord_workers *ws, uint64_t gap_ns, uint64_t now_ns)
{
    for (uint32_t i = 0; i < ws->count; i++) {
        ws->worker[i].joined_ns = coord_later(ws->worker[i].joined_ns, gap_ns, now_ns);
        ws->worker[i].beat_ns = coord_later(ws->worker[i].beat_ns, gap_ns, now_ns);
        ws->worker[i].moved_ns = coord_later(ws->worker[i].moved_ns, gap_ns, now_ns);
    }
}

void coord_worker_close(struct coord_workers *ws)
{
    free(ws->worker);
    memset(ws, 0, sizeof *ws);
}
