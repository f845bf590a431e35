/* made.c: see made.h. */
#include "server/coord/core/made.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/phase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* value: struct head, the schemas, the text, and from the release after 0.2.0 on
 * coord_made.numbers, or its first word: those of 0.2.0 are the first ones */
static const char KEY[] = "made";

struct head {
    uint64_t number;
    uint32_t tables, yaml_bytes;
};
_Static_assert(sizeof(struct head) == 16, "head is stored");

/* ---- the store ------------------------------------------------------------------------------- */

void coord_made_close(struct coord_made *m)
{
    if (m->number != 0)
        job_free(&m->spec);
    free(m->table);
    free(m->yaml);
    *m = (struct coord_made){.number = 0};
}

/* Copies the record's parts. CORRUPT, CONFIG (another release's text), NOMEM. */
static int take(struct coord_made *m, const struct head *head, const void *tables, const char *yaml,
                struct table_set numbers, struct err *e)
{
    size_t bytes = head->tables * sizeof *m->table;
    struct coord_made to = {.tables = head->tables, .yaml_bytes = head->yaml_bytes};
    to.table = malloc(bytes);
    to.yaml = malloc(head->yaml_bytes + 1u);
    int rc;
    if (to.table == NULL || to.yaml == NULL) {
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the tables of the last job");
        goto out;
    }
    memcpy(to.table, tables, bytes);
    memcpy(to.yaml, yaml, head->yaml_bytes);
    rc = coord_map_check(to.table, to.tables, e);
    if (rc != 0)
        goto out;
    rc = job_parse(to.yaml, to.yaml_bytes, "the last job", NULL, &to.spec, e);
    if (rc != 0)
        goto out;

    to.number = head->number;
    to.numbers = numbers;
    to.tablets = coord_map_tablets(to.table, to.tables);
    coord_made_close(m);
    *m = to;
    return 0;

out:
    free(to.table);
    free(to.yaml);
    return rc;
}

static int record_take(struct coord_made *m, const char *value, size_t bytes, struct err *e)
{
    struct head head;
    if (bytes < sizeof head)
        return err_set(e, SHOAL_E_CORRUPT, "a record of %zu bytes", bytes);
    memcpy(&head, value, sizeof head);
    size_t tables = head.tables * sizeof *m->table;
    if (head.number == 0)
        return 0; /* the tables were dropped */
    size_t base = sizeof head + tables + head.yaml_bytes;
    if (head.tables == 0 || head.tables > LIMIT_TABLES ||
        (bytes != base && bytes != base + sizeof m->numbers.word[0] &&
         bytes != base + sizeof m->numbers))
        return err_set(e, SHOAL_E_CORRUPT, "a record of %zu bytes for %u tables", bytes,
                       head.tables);
    struct table_set numbers = table_set_first(head.tables);
    if (bytes > base) {
        numbers = TABLE_SET_NONE;
        memcpy(&numbers, value + base, bytes - base);
    }
    return take(m, &head, value + sizeof head, value + sizeof head + tables, numbers, e);
}

int coord_made_open(const struct coord_space *s, struct err *e)
{
    void *value;
    size_t bytes;
    struct err why = {0};
    int rc = coord_store_get(s->store, KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    rc = record_take(s->made, value, bytes, &why);
    free(value);
    if (rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "%s", why.text);
    if (rc != 0) /* the rows are there all the same, and the next job makes the record anew */
        log_warn("tables of the last job: %s", why.text);
    return 0;
}

bool coord_made_known(const struct coord_fleet *f, const struct coord_space *s)
{
    const struct coord_made *m = s->made;
    return m->number != 0 && coord_map_has(&f->cluster, m->numbers, m->table, m->tables);
}

/* Stores the record of a space. */
static bool record_put(struct coord_fleet *f, struct coord_space *s, const void *record,
                       size_t bytes)
{
    return coord_fleet_store(f, s->store, KEY, record, bytes, true);
}

static bool same(const struct coord_made *m, const struct coord_job *j)
{
    return m->number == j->at.number && m->tables == j->at.tables &&
           table_set_equal(m->numbers, j->space->numbers) && m->yaml_bytes == j->yaml_bytes &&
           memcmp(m->table, j->table, m->tables * sizeof *m->table) == 0 &&
           memcmp(m->yaml, j->yaml, m->yaml_bytes) == 0;
}

bool coord_made_take(struct coord_job *j)
{
    const struct head head = {j->at.number, j->at.tables, (uint32_t)j->yaml_bytes};
    size_t tables = head.tables * sizeof *j->table, base = sizeof head + tables + head.yaml_bytes,
           bytes = base + coord_space_set_bytes(&j->space->numbers);
    struct err e = {0};
    SHOAL_ASSERT(j->yaml_bytes <= UINT32_MAX && j->tablets > 0);
    if (same(j->space->made, j))
        return true;
    char *record = malloc(bytes);
    if (record == NULL)
        return false;
    memcpy(record, &head, sizeof head);
    memcpy(record + sizeof head, j->table, tables);
    memcpy(record + sizeof head + tables, j->yaml, head.yaml_bytes);
    memcpy(record + base, &j->space->numbers, bytes - base);
    bool good = record_put(j->fleet, j->space, record, bytes);
    if (good && take(j->space->made, &head, j->table, j->yaml, j->space->numbers, &e) != 0) {
        log_warn("tables of the job: %s; noted again in a moment", e.text);
        good = false;
    }
    free(record);
    return good;
}

void coord_made_adopt(struct coord_job *j)
{
    void *yaml = NULL;
    SHOAL_ASSERT(!coord_phase_running(j));
    if (j->space->made->number != 0 || j->tablets == 0 || coord_fresh_half(j->space))
        return;
    if (j->yaml == NULL && coord_store_get(j->store, "job", &yaml, &j->yaml_bytes, NULL) == 0)
        j->yaml = yaml;
    if (j->yaml != NULL)
        (void)coord_made_take(j);
}

static bool forget(struct coord_fleet *f, struct coord_space *s)
{
    static const struct head none;
    if (s->made->number == 0)
        return true;
    coord_made_close(s->made);
    return record_put(f, s, &none, sizeof none);
}

bool coord_made_forget(struct coord_job *j)
{
    return forget(j->fleet, j->space);
}

bool coord_made_gone(struct coord_fleet *f, struct coord_space *s)
{
    return forget(f, s) && coord_fresh_gone(f, s) && coord_space_forget(f, s);
}

int coord_made_text(const struct coord_space *s, bool whole, char **text, size_t *bytes,
                    struct err *e)
{
    const struct coord_made *m = s->made;
    const struct legend *names = s->named ? &s->legend : &m->spec.legend;
    SHOAL_ASSERT(m->number != 0);
    if (whole)
        return legend_put(m->yaml, m->yaml_bytes, names, text, bytes, e);
    char *bare;
    size_t bare_bytes;
    int rc = job_text_bare(m->yaml, m->yaml_bytes, &bare, &bare_bytes, e);
    if (rc != 0)
        return rc;
    rc = legend_put(bare, bare_bytes, names, text, bytes, e);
    free(bare);
    return rc;
}

struct json *coord_made_json(const struct coord_fleet *f)
{
    static const char *const state[] = {
        [SPACE_IS] = "there", [SPACE_LOST] = "lost", [SPACE_HALF] = "half"};
    struct json *list = json_new_array();
    COORD_EACH_SPACE (f, s) {
        const struct coord_made *m = s->made;
        if (!coord_space_holds(f, s))
            continue;
        struct json *item = json_new_object(), *tables = json_new_array();
        json_set_string(item, "space", s->name);
        bool lost = s->state == SPACE_IS && coord_space_there(f, s, SHOAL_E_NOT_FOUND, NULL) != 0;
        json_set_string(item, "state", state[lost ? SPACE_LOST : s->state]);
        for (uint32_t t = 0; m->number != 0 && t < m->tables; t++)
            json_append_string(tables, m->table[t].name);
        json_set(item, "tables", tables);
        if (m->number != 0)
            json_set_string(item, "job", m->spec.name);
        json_set_int(item, "number", (int64_t)m->number);
        json_set_bool(item, "runs", f->spaces.use(f, s).runs);
        coord_shares_json(f, s, item);
        json_append(list, item);
    }
    return list;
}

/* ---- readers --------------------------------------------------------------------------------- */

/* The error when no tables are known. */
static int unknown(const struct coord_fleet *f, struct err *e)
{
    if (f->cluster.map_epoch == 0)
        return err_set(e, SHOAL_E_AGAIN, "no job has made tables here yet");
    return err_set(e, SHOAL_E_BUSY,
                   "the tables that the servers hold cannot be seen now: no job that this "
                   "coordinator knows of has made them; ask again once a job has made its own");
}

/* Finds the space that a request asks for; *out NULL: no space holds tables. */
static int space_of(struct coord_job *j, const char *name, struct coord_space **out, struct err *e)
{
    int rc = coord_space_asked(j->fleet, name, out, e);
    if (rc == 0 && *out != NULL)
        rc = coord_space_there(j->fleet, *out, SHOAL_E_NOT_FOUND, e);
    return rc;
}

int coord_made_job_text(struct coord_job *j, struct coord_ask *a)
{
    char *text;
    size_t bytes;
    struct coord_space *s;
    int rc = space_of(j, a->request->u.JOB_TEXT.space, &s, &a->e);
    if (rc != 0)
        return rc;
    if (s == NULL || s->made->number == 0) /* a reader of tables must not number fields by itself */
        return unknown(j->fleet, &a->e);
    /* a scorer needs the meaning of the tables, not how their log was read */
    bool whole = a->who.role != ROLE_SERVE;
    rc = coord_made_text(s, whole, &text, &bytes, &a->e);
    if (rc != 0)
        return rc;
    a->reply.u.JOB_TEXT_reply.run = s->made->number;
    a->silent = true; /* without memory the peer asks again */
    (void)coord_send_frame(j->fleet, a->from, &a->reply, text, bytes);
    free(text);
    return 0;
}

int coord_made_table_get(struct coord_job *j, struct coord_ask *a)
{
    uint32_t table = a->request->u.TABLE_GET.table;
    struct wire_TABLE_CREATE create;
    struct coord_space *space;
    int rc = space_of(j, a->request->u.TABLE_GET.space, &space, &a->e);
    if (rc != 0)
        return rc;
    bool known = space != NULL && space->made->number != 0;
    if (!known && coord_phase_running(j))
        return unknown(j->fleet, &a->e);
    if (!known || table >= space->made->tables)
        return err_set(&a->e, SHOAL_E_NO_TABLE, "there is no table %u", table);
    const struct table_schema *s = &space->made->table[table];
    wire_schema_to(s, &create);
    _Static_assert(sizeof create == sizeof a->reply.u.TABLE_GET_reply, "both are the same list");
    memcpy(&a->reply.u.TABLE_GET_reply, &create, sizeof create);
    a->frame = s->field_rule;
    a->frame_bytes = s->field_rule_count * sizeof s->field_rule[0];
    return 0;
}

/* Writes the endpoint of a shard and its key; returns the bytes. */
static size_t map_line(const struct coord_shard *s, char line[320])
{
    int n = snprintf(line, 320, "%s%s%s\n", s->endpoint, text_if(s->key[0] != 0, " "), s->key);
    SHOAL_ASSERT(n > 0 && n < 320);
    return (size_t)n;
}

int coord_made_map_get(struct coord_job *j, struct coord_ask *a)
{
    char line[320];
    const struct coord_members *members = &j->fleet->members;
    bool works = coord_phase_running(j) && !a->request->u.MAP_GET.reads;
    struct coord_space *of = j->space;
    int rc = 0;
    if (works && j->tablets == 0)
        return err_set(&a->e, SHOAL_E_AGAIN, "job %s has not made its tables yet", j->spec.name);
    if (!works)
        rc = space_of(j, a->request->u.MAP_GET.space, &of, &a->e);
    if (rc != 0)
        return rc;
    if (!works && (of == NULL || !coord_made_known(j->fleet, of)))
        return unknown(j->fleet, &a->e);
    const struct coord_made *made = of->made;
    struct table_set numbers = made->numbers;
    const struct table_schema *table = made->table;
    uint32_t tables = made->tables, tablets = made->tablets;
    if (works) {
        numbers = of->numbers;
        table = j->table;
        tables = j->at.tables;
        tablets = j->tablets;
    }
    a->reply.u.MAP_GET_reply = (struct wire_MAP_GET_reply){.map_epoch = j->fleet->cluster.map_epoch,
                                                           .tablet_count = tablets,
                                                           .shards = members->shards,
                                                           WIRE_TABLES_IS(numbers)};
    text_copy(a->reply.u.MAP_GET_reply.space, LIMIT_NAME, of->name);
    struct msg *reply = wire_encode(&a->reply);
    void *map = reply == NULL ? NULL : msg_add(reply, tablets * sizeof(uint16_t));
    size_t bytes = 0;
    for (uint32_t s = 0; s < members->shards; s++)
        bytes += map_line(&members->shard[s], line);
    char *lines = map == NULL ? NULL : msg_add(reply, bytes);
    a->silent = true; /* it has two frames; without memory the peer asks again */
    if (lines == NULL) {
        msg_free(reply);
        return 0;
    }
    const char *end = lines + bytes;
    coord_map_view(&j->fleet->cluster, numbers, table, tables, map);
    for (uint32_t s = 0; s < members->shards; s++) {
        size_t length = map_line(&members->shard[s], line);
        memcpy(lines, line, length);
        lines += length;
    }
    SHOAL_ASSERT(lines == end);
    coord_send(j->fleet, a->from, reply);
    return 0;
}
