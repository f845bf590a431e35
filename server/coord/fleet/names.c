/* names.c: invariants and diagram in names.h. */
#include "server/coord/fleet/names.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/catalog.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char KEY[] = "names"; /* value: the version, u64, then the text */

#define VERSION_MOST (1ull << 60)
#define ASK_AGAIN_NS UINT64_C(1000000000)
#define ADVICE                                                                                     \
    "; bring the data_dir back from a copy, or empty it: the cluster is taken over from its "      \
    "servers"

/* ---- the store ------------------------------------------------------------------------------- */

/* Puts the names of each space into `out` (LIMIT_SPACES). */
static int legends_read(const struct catalog *c, struct legend *out, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < c->count && rc == 0; i++)
        if (c->space[i].line != NULL)
            rc = legend_parse(c->space[i].line, c->space[i].bytes, &out[c->space[i].number], e);
    return rc;
}

static void legends_free(struct legend *legend)
{
    for (uint32_t i = 0; legend != NULL && i < LIMIT_SPACES; i++)
        legend_free(&legend[i]);
    free(legend);
}

/* Reads the names of each space from a text; *out: (LIMIT_SPACES). CONFIG: it cannot be read. */
static int text_read(const char *line, size_t bytes, struct legend **out, struct err *e)
{
    struct catalog c;
    struct legend *legend = calloc(LIMIT_SPACES, sizeof *legend);
    int rc = 0;
    if (legend == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the names of fields");
    if (rc == 0)
        rc = catalog_read(line, bytes, &c, e);
    if (rc == 0)
        rc = legends_read(&c, legend, e);
    if (rc != 0) {
        legends_free(legend);
        return rc;
    }
    *out = legend;
    return 0;
}

/* Takes the text over, and its names. */
static void take(struct coord_fleet *f, uint64_t version, char *line, size_t bytes,
                 struct legend *legend)
{
    struct coord_names *n = &f->names;
    COORD_EACH_SPACE (f, s) {
        legend_free(&s->legend);
        s->legend = legend[s->number];
        s->named = legend_known(&s->legend);
    }
    free(legend);
    free(n->line);
    n->version = version;
    n->line = line;
    n->bytes = bytes;
    n->digest = hash_bytes(line, bytes, 0);
}

/* Lists a space, whose names are `line`. */
static void space_list(const struct coord_fleet *f, const struct coord_space *s, const char *line,
                       size_t bytes, struct catalog *c)
{
    struct catalog_space *to = &c->space[c->count++];
    const struct coord_cluster *cl = &f->cluster;
    *to = (struct catalog_space){
        .number = s->number,
        .tables = s->numbers,
        .left = table_set_less(table_set_and(s->left, coord_map_places(cl)), s->numbers),
        .line = line,
        .bytes = bytes};
    text_copy(to->name, sizeof to->name, s->name);
    if (s->state == SPACE_LOST)
        to->state = CATALOG_LOST;
    else if (s->state == SPACE_HALF)
        to->state = CATALOG_HALF;
    text_copy(to->half, sizeof to->half, s->half);
    const struct table_set all = coord_space_tables(s);
    TABLE_SET_EACH (t, &all)
        if (coord_map_place(cl, t)) {
            to->bits[t] = cl->bits[t];
            to->first[t] = cl->first[t];
        }
}

/* True when the line of the only space's names says it all: its tables are the map. */
static bool is_alone(const struct coord_fleet *f, const struct catalog *c)
{
    const struct coord_cluster *cl = &f->cluster;
    const struct table_set tables = c->space[0].tables;
    bool whole =
        cl->tables == 0 || (coord_map_plain(cl) && table_set_equal(tables, coord_map_places(cl)));
    return c->count == 1 && c->space[0].number == 0 && c->space[0].line != NULL && whole &&
           c->space[0].state == CATALOG_THERE;
}

/* Makes the text in which space `of` has the names `line`; NULL: none. */
static int text_make(const struct coord_fleet *f, const struct coord_space *of, const char *line,
                     size_t bytes, char **text, size_t *count, struct err *e)
{
    struct catalog *c = calloc(1, sizeof *c), was = {.count = 0};
    int rc = 0;
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the list of spaces");
    if (f->names.version > 0)
        rc = catalog_read(f->names.line, f->names.bytes, &was, e);
    COORD_EACH_SPACE (f, s) {
        const struct catalog_space *named = NULL;
        for (uint32_t i = 0; i < was.count; i++)
            if (was.space[i].number == s->number && was.space[i].line != NULL)
                named = &was.space[i];
        if (s == of && (line != NULL || table_set_any(s->numbers)))
            space_list(f, s, line, bytes, c);
        else if (s != of && named != NULL)
            space_list(f, s, named->line, named->bytes, c);
        else if (s != of && table_set_any(s->numbers))
            space_list(f, s, NULL, 0, c);
    }
    c->alone = is_alone(f, c);
    if (rc == 0)
        rc = catalog_text(c, text, count, e);
    free(c);
    return rc;
}

/* Stores the text, which a later start of the coordinator must be able to read, and takes it. */
static int names_put(struct coord_fleet *f, uint64_t version, const char *line, size_t bytes,
                     struct err *e)
{
    SHOAL_ASSERT(version > f->names.version && bytes > 0); /* 2 */
    struct legend *legend;
    int rc = text_read(line, bytes, &legend, e);
    if (rc != 0)
        return rc;
    char *value = malloc(sizeof version + bytes), *copy = malloc(bytes + 1);
    if (value == NULL || copy == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the names of fields");
    if (rc == 0) {
        memcpy(value, &version, sizeof version);
        memcpy(value + sizeof version, line, bytes);
        memcpy(copy, line, bytes);
        if (!coord_put(f, KEY, value, sizeof version + bytes))
            rc = coord_store_failed(e);
    }
    free(value);
    if (rc == 0) {
        take(f, version, copy, bytes, legend);
        return 0;
    }
    free(copy);
    legends_free(legend);
    return rc;
}

int coord_names_open(struct coord_fleet *f, struct err *e)
{
    void *value;
    size_t bytes;
    uint64_t version;
    struct legend *legend;
    int rc = coord_store_get(f->store, KEY, &value, &bytes, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (bytes <= sizeof version) {
        free(value);
        return err_set(e, SHOAL_E_CORRUPT, "the stored names have %zu bytes" ADVICE, bytes);
    }
    memcpy(&version, value, sizeof version);
    memmove(value, (char *)value + sizeof version, bytes - sizeof version);
    rc = text_read(value, bytes - sizeof version, &legend, e);
    if (rc == 0 && version > 0 && version < VERSION_MOST) {
        take(f, version, value, bytes - sizeof version, legend);
        return 0;
    }
    if (rc == 0)
        legends_free(legend);
    free(value);
    if (rc == SHOAL_E_NOMEM)
        return rc;
    return err_set(e, SHOAL_E_CORRUPT, "the stored names of version %" PRIu64 " cannot be" ADVICE,
                   version);
}

void coord_names_close(struct coord_names *n)
{
    free(n->line);
    memset(n, 0, sizeof *n);
}

bool coord_names_ready(const struct coord_names *n)
{
    return n->newest <= n->version;
}

int coord_names_store(struct coord_fleet *f, struct coord_space *s, const struct legend *legend,
                      uint64_t number, struct err *e)
{
    struct coord_names *n = &f->names;
    char *line, *text;
    size_t line_bytes, bytes;
    int rc = legend_put("", 0, legend, &line, &line_bytes, e);
    if (rc != 0)
        return rc;
    while (line_bytes > 0 && line[line_bytes - 1] == '\n')
        line_bytes--;
    rc = text_make(f, s, line_bytes > 0 ? line : NULL, line_bytes, &text, &bytes, e);
    free(line);
    if (rc != 0)
        return rc;
    uint64_t known = MAX(n->newest, n->version); /* perhaps a shard's version */
    uint64_t next = MAX(known + 1, number);
    if (n->version < known || n->version == 0 || n->bytes != bytes ||
        memcmp(n->line, text, bytes) != 0)
        rc = names_put(f, next, text, bytes, e);
    free(text);
    return rc;
}

/* ---- what shards know ------------------------------------------------------------------------ */

int coord_names_claim(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b, struct err *e)
{
    const struct coord_names *n = &f->names;
    if (b->names_version == 0 || b->names_version != n->version || b->names_digest == n->digest)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "server %s has other names of fields than the coordinator, both of version "
                   "%" PRIu64 ": two coordinators have run on copies of one data_dir; bring back "
                   "the data_dir that these servers belong to",
                   b->server, n->version);
}

bool coord_names_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *b)
{
    struct coord_names *n = &f->names;
    if (b->names_version <= n->version || b->names_version >= VERSION_MOST)
        return false;
    if (b->names_version > n->newest) {
        n->newest = b->names_version;
        n->newest_shard = shard;
    }
    return true;
}

/* The state that a text tells of a space. */
static enum coord_space_state told_state(const struct catalog_space *is)
{
    if (is->state == CATALOG_LOST)
        return SPACE_LOST;
    return is->state == CATALOG_HALF ? SPACE_HALF : SPACE_IS;
}

/* True when the text of a shard has the space as this coordinator knows it. */
static bool known(const struct catalog *c, const struct coord_space *s)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const struct catalog_space *is = &c->space[i];
        if (is->number != s->number)
            continue;
        if (c->alone) /* the line of names alone says neither name nor tables */
            return true;
        return table_set_equal(is->tables, s->numbers) && strcmp(is->name, s->name) == 0 &&
               told_state(is) == s->state && strcmp(is->half, s->half) == 0;
    }
    return false;
}

/* Takes the spaces of a shard's text, which is newer, in place of this coordinator's: a space that
 * the text lacks was dropped since, and a number may be that of another one by now. False: the
 * store failed. */
static bool spaces_learn(struct coord_fleet *f, const struct catalog *c)
{
    COORD_EACH_SPACE (f, s) {
        bool has = table_set_any(coord_space_tables(s)) || s->name[0] != 0 || s->state != SPACE_IS;
        if (has && !known(c, s) && !f->spaces.forget(f, s))
            return false;
    }
    for (uint32_t i = 0; i < c->count && !c->alone; i++) {
        const struct catalog_space *is = &c->space[i];
        struct coord_space *s = &f->spaces.space[is->number];
        const bool same = known(c, s);
        if (same && table_set_equal(s->left, is->left))
            continue;
        s->numbers = is->tables;
        s->left = is->left;
        if (!coord_space_numbers_put(f, s) ||
            (!same && !coord_space_put(f, s, is->name, told_state(is))) ||
            (!same && is->state == CATALOG_HALF && !coord_space_half_put(f, s, is->half)))
            return false;
    }
    coord_spaces_hold(f);
    return coord_cluster_map_sizes(f, c);
}

static void held(void *context, const struct coord_call *call, uint32_t shard,
                 const struct wire *reply, const struct msg *m)
{
    struct coord_fleet *f = context;
    struct err e = {0};
    struct catalog *c;
    uint64_t version = reply->u.NAMES_HELD_reply.version;
    (void)call;
    if (version <= f->names.version || version >= VERSION_MOST) {
        if (shard == f->names.newest_shard) /* the shard has other data by now */
            f->names.newest = f->names.version;
        return;
    }
    if ((c = calloc(1, sizeof *c)) == NULL)
        return; /* the next step asks again */
    int rc = catalog_read(m->frame[1].data, m->frame[1].bytes, c, &e);
    if (rc == 0)
        rc = names_put(f, version, m->frame[1].data, m->frame[1].bytes, &e);
    if (rc == 0 && !spaces_learn(f, c))
        rc = coord_store_failed(&e);
    free(c);
    if (rc != 0)
        log_error("the names of shard %u are not taken: %s", shard, e.text);
    else
        log_warn("names of fields, version %" PRIu64 ", are taken from shard %u: the coordinator's "
                 "own were older",
                 version, shard);
}

static void held_done(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    (void)call;
    if (status != 0)
        log_warn("a shard does not say its names: %s", text);
}

void coord_names_step(struct coord_fleet *f)
{
    struct coord_names *n = &f->names;
    struct wire w = {.type = WIRE_TYPE_NAMES_HELD};
    uint64_t now = env_now_ns(f->env);
    /* a shard needs its map first: with names and no map it would seem that no tables were made
     * yet */
    bool map = coord_cluster_ready(&f->cluster);
    if (n->newest <= n->version || !map || coord_call_open_type(&f->calls, f, WIRE_TYPE_NAMES_HELD))
        return;
    if (n->asked_ns != 0 && now - n->asked_ns < ASK_AGAIN_NS)
        return; /* its last answer could not be taken */
    n->asked_ns = now;
    SHOAL_ASSERT(n->newest_shard < f->members.shards);
    (void)coord_call_start(&f->calls, &(struct coord_call){.context = f,
                                                           .request = w,
                                                           .target = n->newest_shard,
                                                           .owner = n->newest_shard,
                                                           .on_reply = held,
                                                           .on_done = held_done});
}

/* ---- telling --------------------------------------------------------------------------------- */

static struct wire names_wire(const struct coord_fleet *f)
{
    struct wire w = {.type = WIRE_TYPE_NAMES_SET};
    w.u.NAMES_SET = (struct wire_NAMES_SET){f->names.version, f->cluster.id[0], f->cluster.id[1]};
    return w;
}

void coord_names_send(struct coord_fleet *f, const struct coord_shard *s)
{
    const struct coord_names *n = &f->names;
    struct wire w = names_wire(f);
    if (n->version != 0 && coord_names_ready(n) && s->figures.names_version != n->version)
        (void)coord_send_frame(f, s->peer, &w, n->line, n->bytes);
}

bool coord_names_tell(struct coord_fleet *f, const struct coord_call *to)
{
    struct coord_names *n = &f->names;
    struct coord_call call = *to;
    SHOAL_ASSERT(n->version > 0);
    call.request = names_wire(f);
    call.frame = n->line;
    call.frame_bytes = n->bytes;
    return coord_call_start(&f->calls, &call);
}

static void greeted(void *context, const struct coord_call *call, int status, const char *text)
{
    const struct coord_fleet *f = context;
    if (status != 0)
        log_warn("server %s refused the names: %s", f->members.shard[call->owner].server, text);
}

bool coord_names_greet(struct coord_fleet *f, uint32_t shard)
{
    const struct coord_names *n = &f->names;
    if (n->version == 0 || !coord_names_ready(n))
        return true;
    return coord_names_tell(
        f, &(struct coord_call){.context = f, .target = shard, .owner = shard, .on_done = greeted});
}

bool coord_names_past(const struct coord_fleet *f, const struct coord_call *call)
{
    return call->request.u.NAMES_SET.version < f->names.version;
}

static void told_again(void *context, const struct coord_call *call, int status, const char *text)
{
    if (status != 0 && !coord_names_past(context, call))
        log_warn("a server refused the list of spaces: %s", text);
}

int coord_names_again(struct coord_fleet *f, coord_call_done done, struct err *e)
{
    if (!coord_names_ready(&f->names))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "a server has come that knows newer names of fields: ask again in a moment");
    int rc = coord_names_store(f, NULL, NULL, f->counters.next_run - 1, e);
    if (rc != 0)
        return rc;
    if (coord_names_tell(f, &(struct coord_call){.context = f,
                                                 .target = COORD_NOBODY,
                                                 .owner = COORD_NOBODY,
                                                 .on_done = done != NULL ? done : told_again}))
        return 0;
    return err_set(e, SHOAL_E_NOMEM, "no memory to tell the servers");
}

/* ---- one that is dropped --------------------------------------------------------------------- */

int coord_names_forget(struct coord_fleet *f, struct coord_space *s, enum legend_list list,
                       const char *name, coord_call_done done, struct err *e)
{
    struct legend without = {.input = NULL};
    int rc = 0;
    if (!coord_names_ready(&f->names))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "a server has come that knows newer names of fields: ask again in a moment");
    if (name != NULL)
        rc = legend_copy(&s->legend, &without, e);
    if (rc != 0)
        return rc;
    if (name != NULL)
        legend_remove(&without, list, name);
    rc = coord_names_store(f, s, &without, f->counters.next_run - 1, e);
    legend_free(&without);
    if (rc == 0 && !coord_names_tell(f, &(struct coord_call){.context = f,
                                                             .target = COORD_NOBODY,
                                                             .owner = COORD_NOBODY,
                                                             .on_done = done}))
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to tell the servers");
    return rc;
}

/* ---- a job that begins with the tables that are there ---------------------------------------- */

bool coord_names_sure(const struct coord_fleet *f)
{
    const struct coord_names *n = &f->names;
    bool sure = coord_cluster_ready(&f->cluster) && coord_names_ready(n);
    COORD_EACH_SHARD (&f->members, s)
        sure &= n->version != 0 || f->members.shard[s].seen;
    return sure;
}
