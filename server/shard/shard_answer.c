/* shard_answer.c: functions for all modules of a shard: replies, refusals, the fatal error. */
#include "proto/base/assert.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shard_fatal(struct shard *s, const struct err *e)
{
    if (s->fatal.code)
        return;
    s->fatal = *e;
    if (!s->fatal.code)
        s->fatal.code = SHOAL_E_IO;
    log_error("shard %s stops: %s", s->name, e->text);
    if (s->options.on_fatal != NULL)
        s->options.on_fatal(s->options.context, &s->fatal);
    else
        env_stop(s->env);
}

struct wire *shard_reply(struct shard *s, enum wire_type type, uint64_t id)
{
    struct wire *w = &s->out;
    SHOAL_ASSERT(type != WIRE_TYPE_NONE);
    w->type = type;
    w->reply = true;
    w->id = id;
    w->status = 0;
    w->error[0] = 0;
    return w;
}

void shard_send_reply(struct shard *s, peer_t to)
{
    SHOAL_ASSERT(s->out.reply); /* no beat went out since shard_reply */
    shard_send(s, to, wire_encode(&s->out));
}

void shard_send(struct shard *s, peer_t to, struct msg *m)
{
    SHOAL_ASSERT(to != 0); /* a peer waits for it */
    if (s->copies.role != COPIES_ALONE && copies_delay(s, to, m))
        return;
    if (m == NULL || env_send(s->env, to, m))
        s->counts.unsent++;
}

void shard_send_json(struct shard *s, peer_t to, struct json *j)
{
    SHOAL_ASSERT(s->out.reply && s->out.status == 0);
    char *text = json_text(j, 0);
    json_free(j);
    struct msg *m = wire_encode(&s->out);
    void *frame = NULL;
    if (text != NULL)
        frame = msg_add(m, strlen(text));
    if (frame != NULL) {
        memcpy(frame, text, strlen(text));
        shard_send(s, to, m);
    } else {
        msg_free(m);
        shard_refuse(s, to, s->out.type, s->out.id, SHOAL_E_NOMEM,
                     "shard %s: no memory for the reply", s->name);
    }
    free(text);
}

void shard_refuse(struct shard *s, peer_t to, enum wire_type type, uint64_t id, int status,
                  const char *format, ...)
{
    SHOAL_ASSERT(status < 0); /* a status of 0 would mean success */
    if (s->fatal.code && status == SHOAL_E_IO)
        return; /* the disk failed and the shard ends: the peer asks again when it is back */
    struct wire *w = shard_reply(s, type, id);
    memset(&w->u, 0, sizeof w->u); /* the union still has the last reply, of another type */
    va_list args;
    va_start(args, format);
    vsnprintf(w->error, sizeof w->error, format, args);
    va_end(args);
    w->status = status;
    shard_count_refusal(s, status);
    shard_send_reply(s, to);
}

void shard_count_refusal(struct shard *s, int status)
{
    SHOAL_ASSERT(status < 0 && status > -(int)METER_REASONS);
    s->counts.refused++;
    s->counts.refused_as[-status]++;
}

void shard_not_back(struct shard *s, peer_t to, enum wire_type type, uint64_t id)
{
    const char *what = "reads its rows back after a start";
    if (engine_restoring(s->engine))
        what = "puts its rows back to a cut";
    shard_refuse(s, to, type, id, SHOAL_E_AGAIN, "shard %s %s; ask again", s->name, what);
}

bool shard_lacks_table(struct shard *s, peer_t to, enum wire_type type, uint64_t id, uint32_t table)
{
    if (!lead_ready(&s->lead))
        shard_refuse(s, to, type, id, SHOAL_E_AGAIN,
                     "shard %s has no map yet for table %u; ask again", s->name, table);
    else if (engine_table(s->engine, table) == NULL)
        shard_refuse(s, to, type, id, SHOAL_E_NO_TABLE, "shard %s has no table %u", s->name, table);
    else
        return false;
    return true;
}

void shard_refuse_request(struct shard *s, struct request *q, int status, const char *text)
{
    shard_refuse(s, q->peer, q->type, q->id, status, "shard %s: %s", s->name, text);
    request_give(&s->pool, q);
}

static bool run_is_told(const struct shard *s, uint64_t run)
{
    for (uint32_t i = 0; i < LIMIT_RUNS; i++)
        if (s->run_told[i] == run)
            return true;
    return false;
}

bool shard_run_untold(const struct shard *s, uint64_t run)
{
    return run <= s->run_found && !run_is_told(s, run);
}

/* A run that is no longer open leaves its place. At most LIMIT_RUNS are open, so there is a free
 * one. */
void shard_run_told(struct shard *s, uint64_t run)
{
    uint32_t mode, lanes, free = LIMIT_RUNS;
    if (run_is_told(s, run))
        return;

    for (uint32_t i = 0; i < LIMIT_RUNS && free == LIMIT_RUNS; i++)
        if (s->run_told[i] == 0 || engine_run_mode(s->engine, s->run_told[i], &mode, &lanes) != 0)
            free = i;
    SHOAL_ASSERT(free < LIMIT_RUNS);
    s->run_told[free] = run;
}

int shard_schema(struct shard *s, uint64_t run, uint32_t table, const struct table_schema **out,
                 struct err *e)
{
    const struct table *t = engine_table(s->engine, table);
    const struct table_set of_run = engine_run_tables(s->engine, run);
    if (!lead_ready(&s->lead))
        return err_set(e, SHOAL_E_AGAIN, "shard %s has no map yet; send again", s->name);
    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "no table %u on shard %s", table, s->name);
    if (!table_set_has(&of_run, table) && table_set_any(of_run))
        return err_set(e, SHOAL_E_NOT_LEADER, "table %u on shard %s is not of run %" PRIu64, table,
                       s->name, run);
    *out = table_schema_of(t);
    return 0;
}
