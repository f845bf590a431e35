/* lib_assign.c: rows by key go to the shards (worker/train/assigner.h), announced to the
 * coordinator before the first and behind the last of them (IMPORT): it refuses them beside a job
 * that trains in the table, and writes both into its audit log. */
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "worker/lib/lib_error.h"
#include "worker/lib/lib_fleet.h"
#include "worker/train/assigner.h"

#include <string.h>

struct assign {
    struct shoal_fleet *fleet;
    const char *what; /* the caller, for messages */
    const struct lib_fleet_rows *from;
    const struct table_schema *schema;
    uint32_t number; /* of the table on the shards */
    size_t at;       /* the next row */
    uint32_t state_floats;
    uint64_t token, checksum, rows;
    bool done; /* the announcement under way is that of the end */
    struct request announce;
};

static struct msg *announce_build(struct request *r)
{
    struct assign *a = container_of(r, struct assign, announce);
    struct wire w;
    client_head(r, &w);
    text_copy(w.u.IMPORT.table, sizeof w.u.IMPORT.table, a->schema->name);
    text_copy(w.u.IMPORT.file, sizeof w.u.IMPORT.file, "libshoal");
    w.u.IMPORT.number = a->number;
    w.u.IMPORT.checksum = a->checksum;
    w.u.IMPORT.rows = a->rows;
    w.u.IMPORT.done = a->done;
    w.u.IMPORT.token = a->token;
    return wire_encode(&w);
}

static enum request_verdict announce_reply(struct request *r, const struct wire *w,
                                           const struct msg *m)
{
    struct assign *a = container_of(r, struct assign, announce);
    (void)m;
    /* BUSY is a job that uses the table: the caller decides whether to wait */
    if (w->status != 0 && w->status != SHOAL_E_BUSY && client_passing(w->status))
        return REQUEST_LATER;
    lib_fleet_end(a->fleet, w->status, w->status != 0 ? wire_error(w) : "");
    return REQUEST_DONE;
}

static int announce(struct assign *a, bool done, struct err *e)
{
    struct shoal_fleet *f = a->fleet;
    a->done = done;
    a->announce = (struct request){.type = WIRE_TYPE_IMPORT,
                                   .target = CLIENT_COORDINATOR,
                                   .build = announce_build,
                                   .reply = announce_reply};
    lib_fleet_begin(f);
    client_start(f->client, &a->announce);
    int rc = lib_fleet_run(f, a->what, e);
    client_cancel(f->client, &a->announce);
    if (rc == SHOAL_E_STOPPED) /* a job began in between: later it may go */
        rc = SHOAL_E_BUSY;
    return rc;
}

static int rows_fill(void *context, uint64_t *keys, float *rows, uint32_t room, struct err *e)
{
    struct assign *a = context;
    const struct lib_fleet_rows *from = a->from;
    const uint32_t width = a->schema->width, floats = width + a->state_floats;
    const uint32_t n = (uint32_t)MIN(from->count - a->at, room);
    (void)e;
    memcpy(keys, from->keys + a->at, n * sizeof *keys);
    for (uint32_t i = 0; i < n; i++, a->at++, rows += floats) {
        memcpy(rows, from->weights + a->at * width, width * sizeof *rows);
        if (from->state != NULL)
            memcpy(rows + width, from->state + a->at * a->state_floats,
                   a->state_floats * sizeof *rows);
    }
    return (int)n;
}

static void rows_done(void *context, int status, const struct err *e)
{
    struct assign *a = context;
    lib_fleet_end(a->fleet, status, e != NULL ? e->text : "");
}

static int rows_send(struct assign *a, uint32_t flags, struct assigner_counts *counts,
                     struct err *e)
{
    struct shoal_fleet *f = a->fleet;
    const struct assigner_options o = {.client = f->client,
                                       .table = a->number,
                                       .tablet_first = a->schema->tablet_first,
                                       .tablet_bits = a->schema->tablet_bits,
                                       .floats = a->schema->width + a->state_floats,
                                       .parts = (a->from->state != NULL ? WIRE_ASSIGN_STATE : 0) |
                                                ((flags & SHOAL_KEEP) != 0 ? WIRE_ASSIGN_KEEP : 0),
                                       .fill = rows_fill,
                                       .done = rows_done,
                                       .context = a};
    int rc = assigner_new(&o, &f->assigner, e);
    if (rc != 0)
        return rc;
    lib_fleet_begin(f);
    assigner_start(f->assigner);
    rc = lib_fleet_run(f, a->what, e);
    *counts = *assigner_counts(f->assigner);
    assigner_free(f->assigner);
    f->assigner = NULL;
    return rc;
}

static uint64_t checksum_of(const struct assign *a)
{
    const struct lib_fleet_rows *from = a->from;
    uint64_t sum = hash_bytes(from->keys, from->count * sizeof *from->keys, 0);
    sum = hash_bytes(from->weights, from->count * a->schema->width * sizeof(float), sum);
    if (from->state != NULL)
        sum = hash_bytes(from->state, from->count * a->state_floats * sizeof(float), sum);
    return sum;
}

int lib_fleet_assign(struct shoal_fleet *f, const char *what, const struct lib_fleet_rows *rows,
                     uint32_t flags, struct assigner_counts *counts, struct err *e)
{
    struct assigner_counts sent = {0};
    struct assign a = {.fleet = f,
                       .what = what,
                       .from = rows,
                       .schema = &f->schema[rows->table],
                       .number = table_set_nth(f->numbers, rows->table),
                       .token = env_random(net_env(f->net)) | 1,
                       .rows = rows->count};
    if (rows->state != NULL)
        a.state_floats = lib_fleet_state_floats(a.schema);
    a.checksum = checksum_of(&a);
    int rc = lib_fleet_check(f, what, e);
    if (rc == 0)
        rc = announce(&a, false, e);
    if (rc == 0)
        rc = rows_send(&a, flags, &sent, e);
    a.rows = sent.made + sent.replaced;
    if (rc == 0)
        rc = announce(&a, true, e);
    if (counts != NULL)
        *counts = sent;
    return rc;
}

int shoal_assign(shoal_fleet *f, uint32_t table, const uint64_t *keys, size_t count,
                 const float *weights, const float *state, uint32_t flags,
                 struct shoal_assigned *counts, struct shoal_error *e)
{
    /* they are only read */
    const struct lib_fleet_rows rows = {.table = table,
                                        .keys = keys,
                                        .count = count,
                                        .weights = (float *)weights,
                                        .state = (float *)state};
    struct assigner_counts sent = {0};
    struct err own = {0};
    if (table >= f->sparse)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_assign: the fleet has %u tables, so none of index %u",
                             f->sparse, table);
    if ((count > 0 && (keys == NULL || weights == NULL)) || (flags & ~SHOAL_KEEP) != 0)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_assign: keys or weights are missing, or a flag is unknown");
    if (count > 0)
        own.code = lib_fleet_assign(f, "shoal_assign", &rows, flags, &sent, &own);
    if (counts != NULL) {
        const struct shoal_assigned told = {.size = counts->size,
                                            .made = sent.made,
                                            .replaced = sent.replaced,
                                            .kept = sent.kept,
                                            .blocked = sent.blocked};
        memcpy(counts, &told, MIN(sizeof told, counts->size));
    }
    return lib_error(e, &own);
}
