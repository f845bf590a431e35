/* drop.c: drops a field or a space; drop.h has the invariants and the diagram. */
#include "server/coord/fleet/drop.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- answers --------------------------------------------------------------------------------- */

static void answer_again(struct coord_fleet *f)
{
    const struct coord_drop *d = &f->drop;
    struct wire w = {.type = WIRE_TYPE_DROP,
                     .reply = true,
                     .id = d->answered.id,
                     .status = d->answered.status,
                     .u.DROP_reply.rows = d->answered.rows};
    text_copy(w.error, sizeof w.error, d->answered.text);
    coord_send(f, d->answered.peer, wire_encode(&w));
}

static void answer(struct coord_fleet *f, int status, const char *text)
{
    struct coord_drop *d = &f->drop;
    SHOAL_ASSERT(d->asker != 0);
    d->answered.peer = d->asker;
    d->answered.id = d->asker_id;
    d->answered.rows = d->rows;
    d->answered.status = status;
    text_copy(d->answered.text, sizeof d->answered.text, text);
    d->asker = 0;
    if (status != 0)
        log_warn("%s is not dropped: %s", d->name, text);
    answer_again(f);
}

/* ---- which one ------------------------------------------------------------------------------- */

/* Returns the table that has the rows of such a name; NULL: none has. */
static const char *table_of(enum legend_list list, const struct legend_name *x)
{
    static const char *const network[LEGEND_LISTS] = {[LEGEND_NUMBERS] = "numbers",
                                                      [LEGEND_TENSORS] = "dense",
                                                      [LEGEND_STATISTICS] = "dense_stats"};
    return list == LEGEND_FIELDS ? x->table : network[list];
}

/* Lists the names that may be dropped, as far as there is room. */
static void gone_say(const struct legend *n, char out[ERR_TEXT_MAX / 2])
{
    size_t at = 0, most = ERR_TEXT_MAX / 2;
    out[0] = 0;
    for (uint32_t l = 0; l < LEGEND_LISTS; l++)
        for (uint32_t i = 0; i < n->count[l]; i++) {
            const struct legend_name *x = &n->name[l][i];
            if (x->here)
                continue;
            int said = snprintf(out + at, most - at, "%s%s/%s", text_if(at > 0, ", "),
                                table_of((enum legend_list)l, x), x->name);
            if (at + (size_t)said >= most) {
                out[at] = 0;
                return;
            }
            at += (size_t)said;
        }
}

static int find(const struct legend *n, const struct wire_DROP *w, enum legend_list *list,
                const struct legend_name **out, struct err *e)
{
    char gone[ERR_TEXT_MAX / 2];
    for (uint32_t l = 0; l < LEGEND_LISTS; l++) {
        uint32_t at = legend_find(n, (enum legend_list)l, w->field);
        if (at == LEGEND_NONE)
            continue;
        const struct legend_name *x = &n->name[l][at];
        if (strcmp(table_of((enum legend_list)l, x), w->table) != 0)
            continue;
        if (x->here)
            return err_set(e, SHOAL_E_EXISTS,
                           "%s/%s is one of the last job's: only what the job does not have any "
                           "more is dropped; take it out of the job first, or begin it anew: "
                           "fresh: [%s]",
                           w->table, w->field, w->field);
        *list = (enum legend_list)l;
        *out = x;
        return 0;
    }
    gone_say(n, gone);
    const char *say = "what it does not have any more is ";
    if (gone[0] == 0)
        say = "the last job has all fields that there are";
    return err_set(e, SHOAL_E_NOT_FOUND, "there is no %s/%s here: %s%s", w->table, w->field, say,
                   gone);
}

static int ready_check(const struct coord_fleet *f, struct err *e)
{
    if (!coord_cluster_ready(&f->cluster) || !coord_names_ready(&f->names))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the servers know names of fields that this coordinator is still learning: "
                       "ask again in a moment");
    const struct coord_shard *silent = coord_fleet_silent(f);
    if (silent != NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "server %s is away: ask again when it is back",
                       silent->seen ? silent->server : "that has not come yet");
    return coord_drop_check(f, e);
}

/* Finds the space of the request. Only a whole space is named by its name alone. */
static int space_of(struct coord_fleet *f, const struct wire_DROP *r, struct coord_space **out,
                    struct err *e)
{
    int rc = coord_space_asked(f, r->space, out, e);
    bool whole = r->table[0] == 0;
    if (rc != 0)
        return rc;
    if (*out == NULL || (!whole && !(*out)->named))
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no names of fields are known: no job has made tables");
    if (r->space[0] != 0 && strcmp((*out)->name, r->space) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no space %s here, but %s", r->space,
                       text_unless_empty((*out)->name, "one whose name is not known"));
    if (whole && (*out)->numbers == 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "which tables space %s has is not known: submit a job of it with "
                       "--set fresh=all, which drops them",
                       r->space);
    return 0;
}

/* ---- the way --------------------------------------------------------------------------------- */

static void told(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    (void)call;
    log_info("%s is dropped: %" PRIu64 " rows", f->drop.name, f->drop.rows);
    answer(f, status, text);
}

static void rows_of(void *context, const struct coord_call *call, uint32_t shard,
                    const struct wire *reply, const struct msg *m)
{
    struct coord_fleet *f = context;
    (void)call;
    (void)shard;
    (void)m;
    f->drop.rows += reply->u.ROWS_GO_reply.rows;
}

static void rows_gone(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    const struct coord_drop *d = &f->drop;
    struct err e = {0};
    (void)call;
    SHOAL_ASSERT(d->asker != 0);
    /* rows first: the order can be repeated until the names are stored */
    if (status == 0 && d->whole &&
        (!coord_cluster_map_free(f, coord_space_tables(d->space)) ||
         !f->spaces.forget(f, d->space)))
        return; /* the coordinator stops */
    if (status == 0) {
        status = coord_names_forget(f, d->space, d->list, d->whole ? NULL : d->name, told, &e);
        text = e.text;
    }
    if (status != 0)
        answer(f, status, text);
}

static int begin(struct coord_fleet *f, struct coord_ask *a, const struct err *used)
{
    const struct wire_DROP *r = &a->request->u.DROP;
    const struct legend_name *x = NULL;
    struct coord_drop *d = &f->drop;
    enum legend_list list = LEGEND_FIELDS;
    struct coord_space *s = NULL;
    bool whole = r->table[0] == 0;
    struct wire w = {.type = WIRE_TYPE_ROWS_GO, .u.ROWS_GO = {.what = WIRE_ROWS_FIELDS}};
    if (used->code != 0) {
        a->e = *used;
        return used->code;
    }
    int rc = ready_check(f, &a->e);
    if (rc == 0)
        rc = space_of(f, r, &s, &a->e);
    if (rc == 0 && !whole)
        rc = find(&s->legend, r, &list, &x, &a->e);
    if (rc != 0)
        return rc;
    w.u.ROWS_GO.tables = s->numbers != 0 ? s->numbers : UINT64_MAX;
    if (whole) { /* under a number above those of all runs that the tables had */
        w.u.ROWS_GO = (struct wire_ROWS_GO){
            .run = f->counters.next_run++, .tables = coord_space_tables(s), .what = WIRE_ROWS_ALL};
        if (!coord_put(f, "counters", &f->counters, sizeof f->counters))
            return coord_store_failed(&a->e);
    } else {
        (void)snprintf(w.u.ROWS_GO.fields, sizeof w.u.ROWS_GO.fields, "%s:%u", r->table, x->number);
    }
    text_copy(d->name, sizeof d->name, whole ? s->name : x->name);
    if (whole && !coord_space_put(f, s, s->name, SPACE_HALF))
        return coord_store_failed(&a->e);
    if (!coord_call_start(&f->calls, &(struct coord_call){.context = f,
                                                          .request = w,
                                                          .target = COORD_NOBODY,
                                                          .owner = COORD_NOBODY,
                                                          .on_reply = rows_of,
                                                          .on_done = rows_gone}))
        return err_set(&a->e, SHOAL_E_NOMEM, "no memory to drop %s", d->name);
    d->space = s;
    d->whole = whole;
    d->list = list;
    d->rows = 0;
    d->asker = a->from;
    d->asker_id = a->request->id;
    return 0;
}

int coord_drop_request(struct coord_fleet *f, struct coord_ask *a, const struct err *used)
{
    const struct coord_drop *d = &f->drop;
    a->silent = true; /* answered when the drop is done */
    if (d->asker == a->from && d->asker_id == a->request->id)
        return 0; /* a repeated request */
    if (d->answered.peer == a->from && d->answered.id == a->request->id) {
        answer_again(f);
        return 0;
    }
    return begin(f, a, used);
}

void coord_drop_step(struct coord_fleet *f)
{
    if (f->drop.asker == 0)
        return;
    const struct coord_shard *silent = coord_fleet_silent(f);
    char why[ERR_TEXT_MAX];
    if (silent == NULL)
        return;
    bool rows = coord_call_open_type(&f->calls, f, WIRE_TYPE_ROWS_GO);
    coord_call_cancel(&f->calls, f, rows ? WIRE_TYPE_ROWS_GO : WIRE_TYPE_NAMES_SET, COORD_NOBODY);
    (void)snprintf(why, sizeof why, "server %s is not heard any more: say it again when it is back",
                   silent->server);
    answer(f, rows ? SHOAL_E_UNAVAILABLE : 0, text_if(rows, why));
}
