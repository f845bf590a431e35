/* reader_keys.c: names of keys: given by the shards that lead the keys, and listed.
 *
 * Keys are sent by the map. A shard that does not lead some of them any more says so, and one that
 * is away does not answer: in both cases the portion's keys of that shard are sent again by a new
 * map. A repeated change changes nothing, so no key is lost and none is counted twice. */
#include "deploy/cli/reader_inner.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long the shards of a portion are waited for while none of them answers. */
enum { PATIENCE_MS = 60000, PAUSE_MS = 500 };

/* True when another try may succeed. */
static bool passes(int rc)
{
    return rc == SHOAL_E_AGAIN || rc == SHOAL_E_BUSY || rc == SHOAL_E_NOT_LEADER ||
           rc == SHOAL_E_UNAVAILABLE || rc == SHOAL_E_TIMEOUT;
}

/* Waits, and then loads the map anew. False: the patience is over. A map that does not come is
 * asked for again with the next try. */
static bool retry(struct reader *r, int rc, uint32_t *waited_ms)
{
    struct err none;
    if (*waited_ms >= PATIENCE_MS)
        return false;
    *waited_ms += PAUSE_MS;
    if (rc == SHOAL_E_UNAVAILABLE || rc == SHOAL_E_TIMEOUT)
        *waited_ms += QUESTION_MS;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    if (rc != SHOAL_E_AGAIN && rc != SHOAL_E_BUSY)
        (void)reader_map_renew(r, &none);
    return true;
}

/* The shard that leads the tablet of a mixed key. */
static int leader_of(const struct reader *r, const struct table_schema *s, uint64_t mixed,
                     uint32_t *shard, struct err *e)
{
    uint32_t tablet = s->tablet_first + key_tablet(mixed, s->tablet_bits);
    if (tablet >= r->tablet_count)
        return err_set(e, SHOAL_E_NOT_LEADER, "the map does not have all tablets of table %s yet",
                       s->name);
    *shard = r->shard_of[tablet];
    return 0;
}

static int sparse_check(const struct table_schema *s, struct err *e)
{
    if (!s->dense)
        return 0;
    return err_set(
        e, SHOAL_E_USAGE,
        "table %s is dense: its rows are blocks of the network, and keys of a field have "
        "no rows there",
        s->name);
}

/* ---- given ----------------------------------------------------------------------------------- */

/* A portion under way. */
struct portion {
    struct reader *r;
    const struct table_schema *schema;
    enum wire_key_action action;
    uint64_t left[LIMIT_KEYS], mine[LIMIT_KEYS]; /* to do; those of them that one shard leads */
    uint32_t left_count, mine_count;
    struct reader_named *out; /* borrowed */
};

/* Takes the keys that this shard leads from `left`. */
static void mine_take(struct portion *p, uint32_t shard)
{
    uint32_t kept = 0, leads = 0;
    p->mine_count = 0;
    for (uint32_t i = 0; i < p->left_count; i++) {
        struct err none;
        bool led = leader_of(p->r, p->schema, key_mix(p->left[i]), &leads, &none) == 0;
        if (led && leads == shard)
            p->mine[p->mine_count++] = p->left[i];
        else
            p->left[kept++] = p->left[i];
    }
    p->left_count = kept;
}

static void mine_return(struct portion *p)
{
    memcpy(p->left + p->left_count, p->mine, p->mine_count * sizeof *p->mine);
    p->left_count += p->mine_count;
    p->mine_count = 0;
}

/* Sends the shard its keys. NOT_LEADER: it does not lead all of them any more. */
static int mine_send(struct portion *p, uint32_t shard, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_KEYS}, reply;
    const struct frame frame = {.data = p->mine, .bytes = p->mine_count * sizeof *p->mine};
    struct ask *a;
    int rc = reader_shard(p->r, shard, &a, e);
    if (rc != 0)
        return rc;
    w.u.KEYS = (struct wire_KEYS){p->schema->table, p->action, p->mine_count};
    rc = cli_ask(a, &w, &frame, QUESTION_MS, &reply, NULL, e);
    if (rc == SHOAL_E_UNAVAILABLE || rc == SHOAL_E_TIMEOUT)
        p->out->resent += p->mine_count;
    if (rc != 0)
        return err_wrap(e, rc, "shard %u", shard);
    p->out->changed += reply.u.KEYS_reply.changed;
    p->out->changed_of[shard] += reply.u.KEYS_reply.changed;
    if (reply.u.KEYS_reply.skipped > 0)
        return err_set(e, SHOAL_E_NOT_LEADER, "shard %u does not lead %u of the keys any more",
                       shard, reply.u.KEYS_reply.skipped);
    p->out->keys_of[shard] += p->mine_count;
    return 0;
}

static int portion_name(struct portion *p, struct err *e)
{
    uint32_t waited_ms = 0, shard = 0;
    while (p->left_count > 0) {
        int rc = leader_of(p->r, p->schema, key_mix(p->left[0]), &shard, e);
        if (rc == 0) {
            mine_take(p, shard);
            rc = mine_send(p, shard, e);
        }
        if (rc == 0) {
            waited_ms = 0;
            continue;
        }
        mine_return(p);
        if (!passes(rc) || !retry(p->r, rc, &waited_ms))
            return rc;
    }
    return 0;
}

int reader_name(struct reader *r, uint32_t index, const struct reader_naming *n,
                struct reader_named *out, struct err *e)
{
    *out = (struct reader_named){.changed = 0};
    int rc = sparse_check(r->schema[index], e);
    if (rc != 0)
        return rc;
    if (r->coordinator == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "names of keys are changed while the cluster runs: start it");
    struct portion *p = calloc(1, sizeof *p);
    if (p == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    p->r = r;
    p->schema = r->schema[index];
    p->action = n->action;
    p->out = out;
    for (size_t done = 0; rc == 0 && done < n->count;) {
        size_t count = n->count - done;
        if (count > LIMIT_KEYS)
            count = LIMIT_KEYS;
        memcpy(p->left, n->keys + done, count * sizeof *n->keys);
        p->left_count = (uint32_t)count;
        rc = portion_name(p, e);
        done += count;
        if (rc == 0 && n->progress != NULL)
            n->progress(done, n->count);
    }
    free(p);
    return rc;
}

/* ---- listed ---------------------------------------------------------------------------------- */

/* Checks an answer, which a peer has made. */
static int page_check(const struct wire_NAMED_reply *page, const struct wire_named *name,
                      uint64_t from, struct err *e)
{
    bool good = page->next == 0 || page->next > from;
    for (uint32_t i = 0; good && i < page->count; i++)
        good = name[i].action <= WIRE_KEY_ALLOW;
    if (good)
        return 0;
    return err_set(e, SHOAL_E_DATA, "the shard's list of names makes no sense");
}

/* Asks for a page, and passes it on. *from: as in NAMED, then where to go on. */
static int page_take(struct reader *r, const struct table_schema *s, uint64_t *from,
                     reader_names_use use, void *context, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_NAMED, .u.NAMED = {s->table, *from}}, reply;
    struct ask *a = NULL;
    struct msg *m;
    uint32_t shard = 0;
    int rc = leader_of(r, s, *from, &shard, e);
    if (rc == 0)
        rc = reader_shard(r, shard, &a, e);
    if (rc == 0)
        rc = cli_ask(a, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc != 0)
        return rc;
    const struct wire_NAMED_reply *page = &reply.u.NAMED_reply;
    rc = page_check(page, m->frame[1].data, *from, e);
    if (rc == 0 && page->count > 0)
        rc = use(context, m->frame[1].data, page->count);
    *from = page->next;
    msg_free(m);
    return rc;
}

static int live_names(struct reader *r, const struct table_schema *s, reader_names_use use,
                      void *context, struct err *e)
{
    uint32_t waited_ms = 0;
    uint64_t from = 0;
    for (bool more = true; more;) {
        int rc = page_take(r, s, &from, use, context, e);
        if (rc == 0) {
            waited_ms = 0;
            more = from != 0;
        } else if (!passes(rc) || !retry(r, rc, &waited_ms)) {
            return rc;
        }
    }
    return 0;
}

struct kept {
    reader_names_use use;
    void *context;
    struct table_name some[1024];
    struct wire_named named[1024];
};

/* The names of a tablet of an ended run or a checkpoint. */
static int tablet_names(void *context, const struct table *t, uint32_t tablet)
{
    struct kept *k = context;
    uint64_t from = 0;
    int rc = 0;
    do {
        uint32_t count = table_names(t, tablet, from, k->some, 1024);
        if (count == 0)
            break;
        for (uint32_t i = 0; i < count; i++)
            k->named[i] = (struct wire_named){k->some[i].key, (uint32_t)k->some[i].action, 0};
        rc = k->use(k->context, k->named, count);
        from = key_mix(k->some[count - 1].key) + 1;
    } while (rc == 0 && from != 0);
    return rc;
}

int reader_names(struct reader *r, uint32_t index, reader_names_use use, void *context,
                 struct err *e)
{
    int rc = sparse_check(r->schema[index], e);
    if (rc != 0)
        return rc;
    if (r->coordinator != NULL)
        return live_names(r, r->schema[index], use, context, e);
    struct kept *k = calloc(1, sizeof *k);
    if (k == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    k->use = use;
    k->context = context;
    if (r->checkpoint != NULL)
        rc = reader_tablets(r, index, tablet_names, k, e);
    for (uint32_t i = 0; i < r->engines && rc == 0; i++) {
        const struct table *own = engine_table(r->engine[i], r->schema[index]->table);
        for (uint32_t t = 0; own != NULL && rc == 0 && t < 1u << table_schema_of(own)->tablet_bits;
             t++)
            rc = tablet_names(k, own, t);
    }
    free(k);
    return rc;
}
