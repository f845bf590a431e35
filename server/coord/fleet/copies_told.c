/* copies_told.c: the replies to copies, and the words for people on them; copies.h. */
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/fleet/copies.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool in_sync(const struct coord_copies_of *of, uint32_t place)
{
    return (of->in_sync >> place & 1) != 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void copies_fill(const struct coord_fleet *f, uint32_t shard, uint32_t place,
                        struct wire_SHARD_BEAT_reply *r)
{
    const struct coord_copies_of *of = &f->copies.of[shard];
    const struct coord_shard *m = &f->members.shard[shard];
    r->copy = place;
    r->copies = of->count;
    r->term = of->term;
    r->in_sync = of->in_sync;
    r->min_in_sync = f->options.min_in_sync;
    r->shard_lease_ms = f->options.shard_lease_ms;
    if (place == of->leader)
        return; /* an empty leader: it leads */
    memcpy(r->leader, m->endpoint, sizeof r->leader);
    memcpy(r->leader_key, m->key, sizeof r->leader_key);
}

void coord_copies_answer(struct coord_fleet *f, peer_t to, uint64_t id, uint32_t shard,
                         uint32_t place)
{
    const struct coord_copies_of *of = NULL;
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT, .reply = true, .id = id};
    struct wire_SHARD_BEAT_reply *r = &w.u.SHARD_BEAT_reply;
    if (shard != WIRE_NO_SHARD && f->copies.of != NULL && f->copies.of[shard].count > 0)
        of = &f->copies.of[shard];
    if (of != NULL && place == COORD_NOBODY)
        place = of->leader;
    if (of != NULL && place != of->leader && f->members.shard[shard].endpoint[0] == 0)
        shard = WIRE_NO_SHARD; /* an empty endpoint would say that this copy leads */
    *r = (struct wire_SHARD_BEAT_reply){.shard = shard,
                                        .map_epoch = f->cluster.map_epoch,
                                        .lease_ms = f->options.lease_ms,
                                        .cluster_high = f->cluster.id[0],
                                        .cluster_low = f->cluster.id[1],
                                        .shards = coord_member_count(&f->members)};
    if (of != NULL && shard != WIRE_NO_SHARD)
        copies_fill(f, shard, place, r);
    coord_send(f, to, wire_encode(&w));
}

void coord_copies_map(struct coord_fleet *f, const struct coord_shard *s)
{
    const struct coord_cluster *cl = &f->cluster;
    struct wire w;
    if (!coord_cluster_ready(cl) || cl->map_epoch == 0 || f->calls.held ||
        s->figures.map_epoch == cl->map_epoch)
        return;
    size_t bytes = coord_cluster_map_wire(cl, &w);
    (void)coord_send_frame(f, s->peer, &w, cl->shard_of, bytes);
}

/* ---- people ---------------------------------------------------------------------------------- */

static uint64_t lag_of(const struct coord_shard *leader, const struct coord_shard *s)
{
    return SAT_SUB(leader->figures.sequence, s->figures.sequence);
}

static uint64_t silent_ms(const struct coord_fleet *f, const struct coord_shard *s)
{
    return (env_now_ns(f->env) - s->beat_ns) / 1000000;
}

static bool heard(const struct coord_fleet *f, const struct coord_shard *s)
{
    return s->seen && silent_ms(f, s) <= f->options.lease_ms;
}

/* Returns the seconds until a copy that begins anew has all rows, by its rate so far; -1: it is not
 * known yet. */
static int64_t copy_seconds(const struct wire_SHARD_BEAT *b)
{
    if (b->copied == 0)
        return -1;
    double left = (double)SAT_SUB(b->copy_bytes, b->copied);
    return (int64_t)(left / (double)b->copied * (double)b->copy_ms / 1000 + 0.5);
}

static size_t put(char *text, size_t bytes, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes at `at`, as far as there is room; returns the new end. */
static size_t put(char *text, size_t bytes, size_t at, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int n = vsnprintf(text + at, bytes - at, format, values);
    va_end(values);
    return MIN(at + (size_t)MAX(n, 0), bytes - 1);
}

/* Writes e.g. "server b is 12 records behind, not in sync for 35 s; server c is not heard". */
static void behind_text(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes)
{
    const struct coord_copies_of *of = &f->copies.of[shard];
    char ways[ERR_TEXT_MAX];
    size_t n = 0;
    text[0] = 0;
    for (uint32_t p = 0; p < of->count; p++) {
        const struct coord_shard *s = coord_copies_at(f, shard, p);
        if (s == NULL || (in_sync(of, p) && (of->suspect >> p & 1) == 0))
            continue;
        n = put(text, bytes, n, "%sserver %s ", text_if(n > 0, "; "), s->server);
        if (!heard(f, s))
            n = put(text, bytes, n, "is not heard: start it again");
        else if (s->figures.copy_bytes > 0)
            n = put(text, bytes, n, "copies the leader's rows");
        else
            n = put(text, bytes, n, "is %" PRIu64 " records behind",
                    lag_of(&f->members.shard[shard], s));
        if (of->out_ns[p] != 0)
            n = put(text, bytes, n, ", not in sync for %" PRIu64 " s",
                    (env_now_ns(f->env) - of->out_ns[p]) / 1000000000);
        if (!heard(f, s))
            n = put(text, bytes, n, " (%s)",
                    coord_member_ways(f->options.replicas, s->server, ways));
    }
    if (coord_copies_given(f, shard) < f->options.replicas)
        (void)put(text, bytes, n,
                  "%sno server has room for %u more of its copies: start one more server with as "
                  "many shards, or lower replicas",
                  text_if(n > 0, "; "), f->options.replicas - coord_copies_given(f, shard));
}

/* Names the copies that are in sync, or those that are not. */
static void copies_text(const struct coord_fleet *f, uint32_t shard, bool are, char *text,
                        size_t bytes)
{
    const struct coord_copies_of *of = &f->copies.of[shard];
    size_t n = 0;
    text[0] = 0;
    for (uint32_t p = 0; p < of->count; p++) {
        const struct coord_shard *s = coord_copies_at(f, shard, p);
        if (s != NULL && in_sync(of, p) == are)
            n = put(text, bytes, n, "%s%s", text_if(n > 0, ", "), s->server);
    }
}

void coord_copies_behind(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes)
{
    copies_text(f, shard, false, text, bytes);
}

bool coord_copies_leaderless(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes)
{
    char more[ERR_TEXT_MAX / 2];
    if (f->copies.of == NULL ||
        (f->copies.of[shard].suspect >> f->copies.of[shard].leader & 1) == 0)
        return false;
    copies_text(f, shard, true, more, sizeof more);
    (void)snprintf(text, bytes,
                   "shard %u has no leader: server %s has come back without all records that it "
                   "had acknowledged; start the copies in sync: %s",
                   shard, f->members.shard[shard].server, more);
    return true;
}

bool coord_copies_problem(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes)
{
    char more[ERR_TEXT_MAX / 2];
    if (f->copies.of == NULL || !coord_cluster_known(&f->cluster) ||
        !coord_member_used(&f->members, shard))
        return false;
    const struct coord_copies_of *of = &f->copies.of[shard];
    uint32_t now = (uint32_t)__builtin_popcount(of->in_sync), all = f->options.replicas;
    bool alone = of->count == 0; /* replicas was 1 before: pushes wait for nothing */
    if (alone)
        now = 1;
    if (coord_copies_leaderless(f, shard, text, bytes))
        return true;
    behind_text(f, shard, more, sizeof more);
    if (now < f->options.min_in_sync && !alone)
        (void)snprintf(text, bytes,
                       "shard %u takes no pushes: %u of its %u copies are in sync, min_in_sync "
                       "says %u; %s",
                       shard, now, all, f->options.min_in_sync, more);
    else if (now < all)
        (void)snprintf(text, bytes, "shard %u: %u of its %u copies are in sync; %s", shard, now,
                       all, more);
    return now < all;
}

/* Returns another copy of the shard that is on the machine of this one; NULL: there is none. */
static const struct coord_shard *beside(const struct coord_fleet *f, uint32_t shard, uint32_t place)
{
    const struct coord_shard *s = coord_copies_any(f, shard, place);
    for (uint32_t p = 0; p < f->copies.of[shard].count; p++) {
        const struct coord_shard *other = coord_copies_any(f, shard, p);
        if (p != place && s->figures.boot != 0 && other->figures.boot == s->figures.boot)
            return other;
    }
    return NULL;
}

static void follower_json(const struct coord_fleet *f, uint32_t shard, uint32_t place,
                          struct json *item)
{
    const struct coord_copies_of *of = &f->copies.of[shard];
    const struct wire_SHARD_BEAT *b = &of->copy[place].figures;
    uint64_t lag = lag_of(&f->members.shard[shard], &of->copy[place]);
    if (lag == 0 || b->record_bytes != 0)
        json_set_int(item, "lag_bytes", (int64_t)(lag * b->record_bytes));
    json_set_int(item, "lag_ms", (int64_t)b->lag_ms);
    if (!in_sync(of, place) && of->out_ns[place] != 0) /* the next step ends it */
        json_set_int(item, "out_ms", (int64_t)((env_now_ns(f->env) - of->out_ns[place]) / 1000000));
    if (b->copy_bytes == 0)
        return;
    struct json *copying = json_new_object();
    json_set_int(copying, "bytes", (int64_t)b->copied);
    json_set_int(copying, "of", (int64_t)b->copy_bytes);
    json_set_int(copying, "seconds_left", copy_seconds(b));
    json_set(item, "copying", copying);
}

static struct json *copy_json(const struct coord_fleet *f, uint32_t shard, uint32_t place)
{
    const struct coord_copies_of *of = &f->copies.of[shard];
    const struct coord_shard *m = &f->members.shard[shard], *s = coord_copies_at(f, shard, place);
    struct json *item = json_new_object();
    bool leads = s == NULL;
    if (leads)
        s = m;
    json_set_string(item, "name", s->server);
    json_set_int(item, "index", s->index);
    json_set_int(item, "place", place);
    json_set_string(item, "endpoint", s->endpoint);
    json_set_string(item, "key", s->key);
    json_set_string(item, "zone", s->figures.zone);
    json_set_bool(item, "leads", leads);
    json_set_bool(item, "in_sync", in_sync(of, place));
    json_set_bool(item, "ready", heard(f, s) && s->ready);
    json_set_int(item, "silent_ms", s->seen ? (int64_t)silent_ms(f, s) : -1);
    json_set_int(item, "sequence", (int64_t)s->figures.sequence);
    json_set_int(item, "lag", (int64_t)lag_of(m, s));
    const struct coord_shard *other = beside(f, shard, place);
    if (other != NULL)
        json_set_string(item, "beside", other->server);
    if (!leads)
        follower_json(f, shard, place, item);
    return item;
}

struct json *coord_copies_json(const struct coord_fleet *f)
{
    struct json *list = json_new_array();
    for (uint32_t s = 0; f->copies.of != NULL && s < f->members.shards; s++) {
        const struct coord_copies_of *of = &f->copies.of[s];
        struct json *item, *copies;
        if (of->count == 0)
            continue;
        item = json_new_object();
        copies = json_new_array();
        json_set_int(item, "shard", s);
        json_set_int(item, "term", (int64_t)of->term);
        json_set_string(item, "leader", f->members.shard[s].server);
        json_set_int(item, "in_sync", __builtin_popcount(of->in_sync));
        if (f->members.shard[s].seen)
            json_set_int(
                item, "lease_left_ms",
                (int64_t)SAT_SUB(f->copies.lease_ns / 1000000, silent_ms(f, &f->members.shard[s])));
        for (uint32_t p = 0; p < of->count; p++)
            if (p == of->leader || coord_copies_at(f, s, p) != NULL)
                json_append(copies, copy_json(f, s, p));
        json_set(item, "copies", copies);
        json_append(list, item);
    }
    if (json_count(list) > 0)
        return list;
    json_free(list);
    return NULL;
}
