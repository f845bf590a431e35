/* drop.c: drops a field, a table's rows or a space; drop.h has the invariants and the diagram. */
#include "server/coord/fleet/drop.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"
#include "server/coord/fleet/import.h"

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

/* Returns a name of a field that is in the table; NULL: there is none. */
static const struct legend_name *field_of(const struct legend *n, const char *table,
                                          const char *field, enum legend_list *list)
{
    for (uint32_t l = 0; l < LEGEND_LISTS; l++) {
        uint32_t at = legend_find(n, (enum legend_list)l, field);
        if (at == LEGEND_NONE)
            continue;
        *list = (enum legend_list)l;
        if (strcmp(table_of(*list, &n->name[l][at]), table) == 0)
            return &n->name[l][at];
    }
    return NULL;
}

static int field_find(const struct legend *n, const struct wire_DROP *w, enum legend_list *list,
                      const struct legend_name **out, struct err *e)
{
    char gone[ERR_TEXT_MAX / 2];
    *out = field_of(n, w->table, w->field, list);
    if (*out != NULL && !(*out)->here)
        return 0;
    if (*out != NULL)
        return err_set(e, SHOAL_E_EXISTS,
                       "%s/%s is one of the last job's: only what the job does not have any more "
                       "is dropped; take it out of the job first, or begin it anew: fresh: [%s]",
                       w->table, w->field, w->field);
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

/* The object of a request. */
struct target {
    enum coord_drop_what what;
    struct coord_space *space;
    const char *table;               /* NULL: all */
    const struct legend_name *field; /* NULL: all */
    enum legend_list list;
};

/* Finds a space by its name; "": the only one. */
static int space_find(struct coord_fleet *f, const char *name, struct coord_space **out,
                      struct err *e)
{
    int rc = coord_space_asked(f, name, out, e);
    if (rc != 0)
        return rc;
    if (*out == NULL)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no names of fields are known: no job has made tables");
    if (name[0] != 0 && strcmp((*out)->name, name) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no space %s here, but %s", name,
                       text_unless_empty((*out)->name, "one whose name is not known"));
    return 0;
}

/* True when fields of the space have their rows in the table. */
static bool has_table(const struct coord_space *s, const char *table)
{
    bool has = s->half[0] != 0 && strcmp(s->half, table) == 0;
    for (uint32_t i = 0; i < s->legend.count[LEGEND_FIELDS]; i++)
        has = has || strcmp(s->legend.name[LEGEND_FIELDS][i].table, table) == 0;
    return has;
}

/* Lists the tables of the space that have fields, as far as there is room. */
static void tables_say(const struct coord_space *s, char out[ERR_TEXT_MAX / 2])
{
    size_t at = 0, most = ERR_TEXT_MAX / 2;
    out[0] = 0;
    for (uint32_t i = 0; i < s->legend.count[LEGEND_FIELDS]; i++) {
        const char *table = s->legend.name[LEGEND_FIELDS][i].table;
        bool said = false;
        for (uint32_t k = 0; k < i; k++)
            said = said || strcmp(s->legend.name[LEGEND_FIELDS][k].table, table) == 0;
        if (!said && at + LIMIT_NAME + 3 < most)
            at += (size_t)snprintf(out + at, most - at, "%s%s", text_if(at > 0, ", "), table);
    }
}

/* A space of which rows are missing may have only the same rows dropped once more. */
static int whole_check(const struct target *t, struct err *e)
{
    const struct coord_space *s = t->space;
    bool again =
        s->state == SPACE_HALF && t->what == COORD_DROP_TABLE && strcmp(s->half, t->table) == 0;
    if (t->what == COORD_DROP_SPACE || again)
        return 0;
    return coord_space_whole(s, SHOAL_E_NOT_FOUND, e);
}

static int table_check(const struct target *t, struct err *e)
{
    const struct coord_space *s = t->space;
    char tables[ERR_TEXT_MAX / 2];
    if (has_table(s, t->table))
        return 0;
    if (strcmp(t->table, "dense") == 0 || strcmp(t->table, "dense_stats") == 0)
        return err_set(e, SHOAL_E_USAGE,
                       "%s/%s has the network, which is not dropped alone: the next job begins it "
                       "anew with --start-from fleet --set fresh=[dense]",
                       s->name, t->table);
    tables_say(s, tables);
    return err_set(e, SHOAL_E_NOT_FOUND, "there is no table %s in space %s, but %s", t->table,
                   s->name, text_unless_empty(tables, "none whose fields are known"));
}

/* Finds what two words stand for, SPACE/TABLE or TABLE/FIELD of the only space. */
static int two_words(struct coord_fleet *f, const struct wire_DROP *r, struct target *t,
                     struct err *e)
{
    struct coord_space *named = NULL, *only;
    struct err why = {0};
    COORD_EACH_SPACE (f, s)
        if (coord_space_holds(f, s) && strcmp(s->name, r->table) == 0)
            named = s;
    int rc = space_find(f, "", &only, &why);
    if (rc == 0)
        t->field = field_of(&only->legend, r->table, r->field, &t->list);
    if (named != NULL && has_table(named, r->field) && t->field != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "%s/%s may be field %s of table %s, or table %s of space %s: say "
                       "%s/%s/%s, or '%s/%s/*'",
                       r->table, r->field, r->field, r->table, r->field, named->name, only->name,
                       r->table, r->field, named->name, r->field);
    if (named != NULL && t->field == NULL) {
        t->what = COORD_DROP_TABLE;
        t->space = named;
        t->table = r->field;
        return table_check(t, e);
    }
    if (rc != 0)
        return err_set(e, rc, "%s", why.text);
    t->what = COORD_DROP_FIELD;
    t->space = only;
    t->table = r->table;
    return field_find(&only->legend, r, &t->list, &t->field, e);
}

static int target_find(struct coord_fleet *f, const struct wire_DROP *r, struct target *t,
                       struct err *e)
{
    bool all = r->field[0] == 0 || strcmp(r->field, "*") == 0;
    int rc = 0;
    *t = (struct target){.what = COORD_DROP_SPACE};
    if (r->space[0] == 0 && r->table[0] != 0 && !all)
        return two_words(f, r, t, e);
    rc = space_find(f, r->space, &t->space, e);
    if (rc != 0)
        return rc;
    if (r->table[0] != 0) {
        t->what = all ? COORD_DROP_TABLE : COORD_DROP_FIELD;
        t->table = r->table;
    }
    if (t->what == COORD_DROP_TABLE)
        return table_check(t, e);
    if (t->what == COORD_DROP_FIELD)
        return field_find(&t->space->legend, r, &t->list, &t->field, e);
    if (!table_set_any(t->space->numbers))
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "which tables space %s has is not known: submit a job of it with "
                       "--set fresh=all, which drops them",
                       r->space);
    return 0;
}

/* ---- the way --------------------------------------------------------------------------------- */

/* All servers have the newest list of spaces, or cannot be told now: they get it later. */
static void told(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    SHOAL_ASSERT(f->drop.asker != 0 && f->drop.step == COORD_DROP_NAMES);
    log_info("%s is dropped: %" PRIu64 " rows", f->drop.name, f->drop.rows);
    if (coord_names_past(f, call))
        status = 0;
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

/* Stores what has become of the space: the rows are gone. NOMEM, TOO_BIG, IO. */
static int names_begin(struct coord_fleet *f, struct err *e)
{
    const struct coord_drop *d = &f->drop;
    struct coord_space *s = d->space;
    if (d->what == COORD_DROP_FIELD)
        return coord_names_forget(f, s, d->list, d->name, told, e);
    if (d->what == COORD_DROP_SPACE) {
        if (!coord_cluster_map_free(f, coord_space_tables(s)) || !f->spaces.forget(f, s))
            return coord_store_failed(e);
        return coord_names_forget(f, s, d->list, NULL, told, e);
    }
    /* other rows of it may have been lost meanwhile */
    if ((s->state == SPACE_HALF && !coord_space_put(f, s, s->name, SPACE_IS)) ||
        !coord_space_emptied_put(f, s, d->name))
        return coord_store_failed(e);
    return coord_names_again(f, told, e);
}

static void rows_gone(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    struct coord_drop *d = &f->drop;
    struct err e = {0};
    (void)call;
    SHOAL_ASSERT(d->asker != 0 && d->step == COORD_DROP_ROWS);
    /* rows first: the order can be repeated until the names are stored */
    if (status == 0) {
        d->step = COORD_DROP_NAMES;
        status = names_begin(f, &e);
        text = e.text;
    }
    if (status != 0)
        answer(f, status, text);
}

/* Lets the rows go, those of a table or a space under a number above those of all runs that the
 * tables had. The names of a table's keys stay, as its schema does. NOMEM, IO. */
static int rows_begin(struct coord_fleet *f, const struct legend_name *field, const char *table,
                      struct err *e)
{
    struct coord_drop *d = &f->drop;
    struct table_set tables = TABLE_SET_ALL;
    if (d->what == COORD_DROP_SPACE)
        tables = coord_space_tables(d->space);
    else if (table_set_any(d->space->numbers))
        tables = d->space->numbers;

    struct wire w = {.type = WIRE_TYPE_ROWS_GO,
                     .u.ROWS_GO = {.what = WIRE_ROWS_FIELDS, WIRE_TABLES_IS(tables)}};
    struct wire_ROWS_GO *r = &w.u.ROWS_GO;
    if (d->what == COORD_DROP_SPACE)
        r->what = WIRE_ROWS_ALL;
    else if (d->what == COORD_DROP_TABLE)
        (void)snprintf(r->fields, sizeof r->fields, "%s:*", table);
    else
        (void)snprintf(r->fields, sizeof r->fields, "%s:%u", table, field->number);
    if (d->what != COORD_DROP_FIELD) {
        r->run = f->counters.next_run++;
        if (!coord_put(f, "counters", &f->counters, sizeof f->counters))
            return coord_store_failed(e);
    }
    if (coord_import_break(f, tables, e) != 0)
        return e->code;
    d->step = COORD_DROP_ROWS;
    if (coord_call_start(&f->calls, &(struct coord_call){.context = f,
                                                         .request = w,
                                                         .target = COORD_NOBODY,
                                                         .owner = COORD_NOBODY,
                                                         .on_reply = rows_of,
                                                         .on_done = rows_gone}))
        return 0;
    return err_set(e, SHOAL_E_NOMEM, "no memory to drop %s", d->name);
}

/* No row has gone: the space is again what it was. */
static void unmark(struct coord_fleet *f)
{
    const struct coord_drop *d = &f->drop;
    struct err e = {0};
    if (d->was == SPACE_HALF || d->space->state != SPACE_HALF ||
        !coord_space_put(f, d->space, d->space->name, (enum coord_space_state)d->was))
        return;
    if (coord_names_again(f, NULL, &e) != 0)
        log_warn("the servers are not told that space %s stays: %s", d->space->name, e.text);
}

/* Every server knows that the space is half dropped (3). */
static void marked(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_fleet *f = context;
    struct coord_drop *d = &f->drop;
    struct err e = {0};
    SHOAL_ASSERT(d->asker != 0 && d->step == COORD_DROP_MARKS);
    if (status != 0 && coord_names_past(f, call)) /* the newer ones are told in their place */
        status = coord_names_again(f, marked, &e);
    else if (status == 0)
        status = rows_begin(f, NULL, d->name, &e);
    else
        (void)err_set(&e, status, "%s", text);
    if (status == 0)
        return;
    if (d->step == COORD_DROP_MARKS)
        unmark(f);
    answer(f, status, e.text);
}

static int begin(struct coord_fleet *f, struct coord_ask *a, coord_drop_used used, void *context)
{
    struct coord_drop *d = &f->drop;
    struct target t;
    struct err why = {0};
    int rc = ready_check(f, &a->e);
    if (rc != 0)
        return rc;
    rc = target_find(f, &a->request->u.DROP, &t, &a->e);
    /* a space that is in use is said to be, also where it lacks what is to go */
    if (t.space != NULL && used(context, t.space, &why) != 0)
        return err_set(&a->e, why.code, "%s", why.text);
    if (rc == 0)
        rc = whole_check(&t, &a->e);
    if (rc != 0)
        return rc;
    d->what = t.what;
    d->space = t.space;
    d->list = t.list;
    d->rows = 0;
    const char *name = t.space->name;
    if (t.what == COORD_DROP_FIELD)
        name = t.field->name;
    else if (t.what == COORD_DROP_TABLE)
        name = t.table;
    text_copy(d->name, sizeof d->name, name);
    if (t.what == COORD_DROP_FIELD) {
        rc = rows_begin(f, t.field, t.table, &a->e);
    } else {
        d->step = COORD_DROP_MARKS;
        d->was = t.space->state;
        if (!coord_space_half_put(f, t.space, text_if(t.what == COORD_DROP_TABLE, t.table)))
            return coord_store_failed(&a->e);
        rc = coord_names_again(f, marked, &a->e);
    }
    if (rc != 0)
        return rc;
    d->asker = a->from;
    d->asker_id = a->request->id;
    return 0;
}

int coord_drop_request(struct coord_fleet *f, struct coord_ask *a, coord_drop_used used,
                       void *context)
{
    const struct coord_drop *d = &f->drop;
    a->silent = true; /* answered when the drop is done */
    if (d->asker == a->from && d->asker_id == a->request->id)
        return 0; /* a repeated request */
    if (d->answered.peer == a->from && d->answered.id == a->request->id) {
        answer_again(f);
        return 0;
    }
    return begin(f, a, used, context);
}

void coord_drop_step(struct coord_fleet *f)
{
    if (f->drop.asker == 0)
        return;
    const struct coord_shard *silent = coord_fleet_silent(f);
    char why[ERR_TEXT_MAX];
    if (silent == NULL)
        return;
    bool names = f->drop.step == COORD_DROP_NAMES;
    coord_call_cancel(&f->calls, f,
                      f->drop.step == COORD_DROP_ROWS ? WIRE_TYPE_ROWS_GO : WIRE_TYPE_NAMES_SET,
                      COORD_NOBODY);
    if (f->drop.step == COORD_DROP_MARKS)
        unmark(f);
    (void)snprintf(why, sizeof why, "server %s is not heard any more: say it again when it is back",
                   silent->server);
    answer(f, names ? 0 : SHOAL_E_UNAVAILABLE, text_if(!names, why));
}
