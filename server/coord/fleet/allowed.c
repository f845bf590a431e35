/* allowed.c: invariants and diagram in allowed.h. */
#include "server/coord/fleet/allowed.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void holder_key(uint32_t shard, char key[COORD_KEY_MAX])
{
    (void)snprintf(key, COORD_KEY_MAX, "holder/%u", shard);
}

int coord_allowed_open(struct coord_fleet *f, struct err *e)
{
    for (uint32_t s = 0; s < f->members.shards; s++) {
        struct coord_shard *at = &f->members.shard[s];
        char key[COORD_KEY_MAX];
        holder_key(s, key);
        int rc = coord_store_get_fixed(f->store, key, at->holder, sizeof at->holder, e);
        if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
            return rc;
        at->holder[sizeof at->holder - 1] = 0;
    }
    return 0;
}

void coord_allowed_close(struct coord_allowed *k)
{
    free(k->text);
    *k = (struct coord_allowed){0};
}

/* ---- the list -------------------------------------------------------------------------------- */

int coord_allowed_take(struct coord_fleet *f, const char *text, size_t bytes, struct err *e)
{
    struct coord_allowed *k = &f->keys;
    char *copy = malloc(bytes + 1);
    if (copy == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the allow-list");
    memcpy(copy, text, bytes);
    free(k->text);
    k->text = copy;
    k->bytes = bytes;
    if (k->version == 0)
        k->version = (env_random(f->env) | 1) << 32 | 1;
    else
        k->version++;
    for (uint32_t s = 0; s < f->members.shards; s++)
        f->members.shard[s].keys_sent_ns = 0; /* at once */
    COORD_EACH_FOLLOWER(f, s, p, follower)
    follower->keys_sent_ns = 0;
    coord_allowed_tick(f);
    return 0;
}

static void tell(struct coord_fleet *f, struct coord_shard *s)
{
    struct wire w = {.type = WIRE_TYPE_KEYLIST, .id = f->keys.version};
    uint64_t now = env_now_ns(f->env), again_ns = f->options.resend_ms * UINT64_C(1000000);
    if (!s->seen || s->keys_version == f->keys.version ||
        (s->keys_sent_ns != 0 && now - s->keys_sent_ns < again_ns))
        return;
    w.u.KEYLIST.version = f->keys.version;
    s->keys_sent_ns = now;
    (void)coord_send_frame(f, s->peer, &w, f->keys.text, f->keys.bytes);
}

void coord_allowed_tick(struct coord_fleet *f)
{
    if (f->keys.version == 0)
        return;
    for (uint32_t i = 0; i < f->members.shards; i++)
        tell(f, &f->members.shard[i]);
    COORD_EACH_FOLLOWER(f, s, p, follower)
    tell(f, follower); /* its next beat says that it has the list */
}

void coord_allowed_answer(struct coord_fleet *f, peer_t from, const struct wire *reply)
{
    uint32_t shard = coord_member_shard_of(&f->members, from);
    if (shard == COORD_NOBODY)
        return;
    struct coord_shard *s = &f->members.shard[shard];
    if (reply->status == 0)
        s->keys_version = reply->u.KEYLIST_reply.version;
    else
        log_warn("server %s does not take the allow-list: %s", s->server, reply->error);
}

/* ---- whose is whose -------------------------------------------------------------------------- */

static int claim(const struct coord_shard *s, const char *server, const struct env_who *who,
                 struct err *e)
{
    if (who->key[0] == 0 || s->holder[0] == 0 || strcmp(s->server, server) != 0 ||
        strcmp(s->holder, who->name) == 0)
        return 0;
    return err_set(e, SHOAL_E_DENIED,
                   "server %s belongs to the key of the name %s, and this beat comes with one "
                   "of %s: give the new key's line in the allow-list the old name",
                   server, s->holder, who->name);
}

int coord_allowed_claim(const struct coord_fleet *f, const char *server, const struct env_who *who,
                        struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < f->members.shards; i++)
        rc = claim(&f->members.shard[i], server, who, e);
    COORD_EACH_FOLLOWER(f, s, p, follower)
    if (rc == 0)
        rc = claim(follower, server, who, e);
    return rc;
}

bool coord_allowed_note(struct coord_fleet *f, struct coord_shard *s, peer_t from, uint64_t version)
{
    const struct env_who *who = env_who(f->env, from);
    text_copy(s->key, sizeof s->key, who->key); /* 2 */
    if (s->keys_version != version)
        s->keys_sent_ns = 0; /* another process: tell it at once */
    s->keys_version = version;
    if (who->name[0] == 0 || strcmp(who->name, s->holder) == 0)
        return false;
    text_copy(s->holder, sizeof s->holder, who->name);
    return true;
}

bool coord_allowed_keep(struct coord_fleet *f, uint32_t shard)
{
    const struct coord_shard *s = &f->members.shard[shard];
    char key[COORD_KEY_MAX];
    holder_key(shard, key);
    return coord_put(f, key, s->holder, sizeof s->holder); /* 1 */
}

int coord_allowed_learn(struct coord_fleet *f, uint32_t shard, peer_t from, uint64_t version,
                        struct err *e)
{
    if (!coord_allowed_note(f, &f->members.shard[shard], from, version) ||
        coord_allowed_keep(f, shard))
        return 0;
    return coord_store_failed(e);
}
