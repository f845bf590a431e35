/* trainer_tables.c: tells the coordinator what follows from the job's input: the names of its
 * fields, the tables that the model needs, one after the other, and the profile of the input. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "worker/train/trainer_inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- names and tables ------------------------------------------------------------------------ */

static struct msg *tell_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, tell);
    struct wire w;
    char *line;
    size_t bytes;
    client_head(r, &w);
    w.u.LEGEND.pass = t->host.pass;
    if (legend_put("", 0, &t->job.legend, &line, &bytes, NULL) != 0)
        return NULL; /* no memory, because they fit: names_fit */
    struct msg *m = wire_encode(&w);
    void *data = NULL;
    if (m != NULL)
        data = msg_add(m, bytes);
    if (data != NULL)
        memcpy(data, line, bytes);
    free(line);
    if (data != NULL)
        return m;
    msg_free(m);
    return NULL;
}

/* Handles the reply to a request about the tables; false: the request is finished. */
static bool answered_well(struct trainer *t, const struct wire *w, enum request_verdict *verdict)
{
    *verdict = REQUEST_DONE;
    if (w->status == SHOAL_E_UNAVAILABLE)
        trainer_clear(t, true, 0, "");
    else if (client_passing(w->status))
        *verdict = REQUEST_LATER;
    else if (w->status != 0)
        trainer_end(t, w->status, wire_error(w));
    return w->status == 0;
}

static enum request_verdict tell_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, tell);
    enum request_verdict verdict;
    (void)m;
    if (answered_well(t, w, &verdict))
        client_start(t->client, &t->declare);
    return verdict;
}

static struct msg *declare_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, declare);
    const struct table_schema *schema = &t->schema[t->declared];
    SHOAL_ASSERT(t->declared < t->host.base.table_count);
    struct wire_TABLE_CREATE create;
    struct wire w;
    client_head(r, &w);
    wire_schema_to(schema, &create);
    _Static_assert(offsetof(struct wire_TABLE_DECLARE, declared_total) <= sizeof create,
                   "DECLARE is CREATE and one more field");
    memcpy(&w.u.TABLE_DECLARE, &create, offsetof(struct wire_TABLE_DECLARE, declared_total));
    w.u.TABLE_DECLARE.declared_total = t->host.base.table_count;
    struct msg *m = wire_encode(&w);
    size_t bytes = schema->field_rule_count * sizeof schema->field_rule[0];
    void *data = NULL;
    if (m != NULL)
        data = msg_add(m, bytes);
    if (data == NULL) {
        msg_free(m);
        return NULL;
    }
    memcpy(data, schema->field_rule, bytes);
    return m;
}

static enum request_verdict declare_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, declare);
    enum request_verdict verdict;
    (void)m;
    if (answered_well(t, w, &verdict) && ++t->declared < t->host.base.table_count)
        client_start(t->client, r);
    return verdict;
}

void trainer_tables_declare(struct trainer *t)
{
    t->declared = 0;
    client_start(t->client, &t->tell);
}

/* ---- the profile of the input ---------------------------------------------------------------- */

static struct msg *profile_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, profile);
    struct wire w;
    client_head(r, &w);
    w.u.PROFILE.pass = t->host.pass;
    size_t bytes = strlen(t->inputs.profile);
    struct msg *m = wire_encode(&w);
    void *data = NULL;
    if (m != NULL)
        data = msg_add(m, bytes);
    if (data != NULL) {
        memcpy(data, t->inputs.profile, bytes);
        return m;
    }
    msg_free(m);
    return NULL;
}

/* The job goes on without a profile where the coordinator refuses it. */
static enum request_verdict profile_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    (void)r;
    (void)m;

    if (client_passing(w->status))
        return REQUEST_LATER;

    return REQUEST_DONE;
}

void trainer_profile_tell(struct trainer *t)
{
    if (t->profiled || t->inputs.profile == NULL || t->state != WORKING)
        return;
    t->profiled = true;
    client_start(t->client, &t->profile);
}

void trainer_tables_init(struct trainer *t)
{
    t->tell = (struct request){.type = WIRE_TYPE_LEGEND,
                               .target = CLIENT_COORDINATOR,
                               .build = tell_build,
                               .reply = tell_reply};
    t->declare = (struct request){.type = WIRE_TYPE_TABLE_DECLARE,
                                  .target = CLIENT_COORDINATOR,
                                  .build = declare_build,
                                  .reply = declare_reply};
    t->profile = (struct request){.type = WIRE_TYPE_PROFILE,
                                  .target = CLIENT_COORDINATOR,
                                  .build = profile_build,
                                  .reply = profile_reply};
}
