/* trace.c: `shoal trace`: asks for traces, and makes them JSON; trace.h. */
#include "deploy/cli/trace.h"

#include "deploy/cli/reader.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The answers of shards; each is asked once, when a trace first names it. */
struct shares {
    struct reader *r;
    struct wire_SPANS ask;
    bool asked[LIMIT_SHARDS];
    struct wire_span *span[LIMIT_SHARDS]; /* owned (count) */
    uint32_t count[LIMIT_SHARDS];
    struct json *silent;
};

static void shares_close(struct shares *s)
{
    for (uint32_t i = 0; i < LIMIT_SHARDS; i++)
        free(s->span[i]);
}

static void shard_ask(struct shares *s, uint32_t shard)
{
    struct err e;
    s->asked[shard] = true;
    if (reader_spans(s->r, shard, &s->ask, &s->span[shard], &s->count[shard], &e) == 0)
        return;
    s->count[shard] = 0;
    struct json *one = json_new_object();
    json_set_int(one, "shard", shard);
    json_set_string(one, "why", e.text);
    json_append(s->silent, one);
}

/* The shard's share of a part; NULL: it does not have it. A request that was sent again may have
 * two: the newer one. */
static const struct wire_span *share_of(struct shares *s, const struct wire_trace *t,
                                        const struct wire_trace_part *p)
{
    const struct wire_span *found = NULL;
    if (p->shard >= LIMIT_SHARDS)
        return NULL;
    if (!s->asked[p->shard])
        shard_ask(s, p->shard);
    for (uint32_t i = 0; i < s->count[p->shard]; i++) {
        const struct wire_span *of = &s->span[p->shard][i];
        if (of->id == p->id && of->lane == t->lane && of->batch == t->batch)
            found = of;
    }
    return found;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static const char *const stages[WIRE_STAGES] = {"read", "place",   "plan",  "pull",
                                                "turn", "compute", "order", "push"};
static const char *const kinds[WIRE_SPAN_KINDS] = {"loop",    "held", "clock", "rows",
                                                   "journal", "work", "sync",  "copies"};

static void ms_set(struct json *j, const char *key, uint64_t ns)
{
    json_set_number(j, key, (double)ns / 1e6);
}

/* Returns the sum of a shard's share, added to the part as shard_ms. */
static uint64_t share_put(struct json *part, const struct wire_span *of)
{
    uint64_t sum = 0;
    if (of == NULL) {
        json_set_null(part, "shard_ms");
        return 0;
    }
    struct json *j = json_new_object();
    for (int k = 0; k < WIRE_SPAN_KINDS; k++) {
        ms_set(j, kinds[k], of->ns[k]);
        sum += of->ns[k];
    }
    json_set(part, "shard_ms", j);
    return sum;
}

static const char *table_name(struct reader *r, uint32_t number)
{
    for (uint32_t i = 0; i < reader_tables(r); i++)
        if (reader_schema(r, i)->table == number)
            return reader_schema(r, i)->name;
    return "?";
}

static struct json *part_json(struct shares *s, const struct wire_trace *t,
                              const struct wire_trace_part *p)
{
    struct json *j = json_new_object();
    const struct wire_span *of = share_of(s, t, p);
    json_set_int(j, "shard", p->shard);
    json_set_string(j, "table", table_name(s->r, p->table));
    json_set_int(j, "keys", p->keys);
    json_set_int(j, "tries", p->tries);
    ms_set(j, "ms", p->took_ns);
    uint64_t at_shard = share_put(j, of);
    ms_set(j, "way_ms", SAT_SUB(p->took_ns, at_shard));
    return j;
}

static int slower(const void *a, const void *b)
{
    const struct wire_trace_part *x = a, *y = b;
    return (x->took_ns < y->took_ns) - (x->took_ns > y->took_ns);
}

static void parts_put(struct json *stage, struct shares *s, const struct wire_trace *t, int push)
{
    struct wire_trace_part part[WIRE_TRACE_PARTS];
    struct json *list = json_new_array();
    uint32_t count = MIN(t->parts[push], WIRE_TRACE_PARTS);
    for (uint32_t i = 0; i < count; i++)
        part[i] = t->part[push][i];
    qsort(part, count, sizeof part[0], slower);
    for (uint32_t i = 0; i < count; i++)
        json_append(list, part_json(s, t, &part[i]));
    json_set_int(stage, "parts", t->parts[push]);
    json_set(stage, "slowest", list);
}

static struct json *stage_json(struct shares *s, const struct wire_trace *t, enum wire_stage stage)
{
    struct json *j = json_new_object();
    json_set_string(j, "stage", stages[stage]);
    ms_set(j, "ms", t->stage_ns[stage]);
    ms_set(j, "beside_ms", t->beside_ns[stage]);
    if (stage == WIRE_STAGE_READ) {
        ms_set(j, "file_ms", t->file_ns);
        ms_set(j, "parse_ms", t->parse_ns);
    } else if (stage == WIRE_STAGE_PLAN) {
        ms_set(j, "thread_ms", t->plan_ns);
    } else if (stage == WIRE_STAGE_COMPUTE) {
        ms_set(j, "thread_ms", t->compute_ns);
    } else if (stage == WIRE_STAGE_PULL && s != NULL) {
        parts_put(j, s, t, 0);
    } else if (stage == WIRE_STAGE_PUSH && s != NULL) {
        parts_put(j, s, t, 1);
    }
    return j;
}

/* s NULL: without the parts of pull and push. */
static struct json *trace_json(struct shares *s, const struct wire_trace *t)
{
    struct json *j = json_new_object(), *list = json_new_array();
    json_set_int(j, "lane", t->lane);
    json_set_int(j, "batch", (int64_t)t->batch);
    json_set_int(j, "generation", (int64_t)t->generation);
    json_set_int(j, "worker", (int64_t)t->worker);
    json_set_int(j, "epoch", t->epoch);
    json_set_int(j, "examples", t->examples);
    json_set_int(j, "keys", t->keys);
    ms_set(j, "begun_ms", t->begun_ns);
    ms_set(j, "wall_ms", t->wall_ns);
    for (int i = 0; i < WIRE_STAGES; i++)
        json_append(list, stage_json(s, t, (enum wire_stage)i));
    json_set(j, "stages", list);
    return j;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static bool number_take(const char *word, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long x = strtoull(word, &end, 10);
    *out = x;
    return word[0] >= '0' && word[0] <= '9' && *end == 0 && errno == 0 && x <= most;
}

static int words_take(const struct option_line *o, struct wire_TRACE *ask, struct err *e)
{
    uint64_t lane = 0;
    *ask = (struct wire_TRACE){0};
    if (option_given(o, "every") && o->words > 0)
        return err_set(e, SHOAL_E_USAGE, "--every is for all jobs: leave RUN, LANE and BATCH out");
    if (o->words == 2 || (o->words > 0 && !number_take(o->word[0], INT64_MAX, &ask->run)) ||
        (o->words > 2 && (!number_take(o->word[1], LIMIT_LANES - 1, &lane) ||
                          !number_take(o->word[2], INT64_MAX, &ask->batch) || ask->batch == 0)))
        return err_set(e, SHOAL_E_USAGE,
                       "name nothing, a RUN, or RUN LANE BATCH, as numbers that `shoal trace` "
                       "lists; see `shoal trace --help`");
    ask->lane = (uint32_t)lane;
    return 0;
}

/* The reason why there is no trace. */
static int none(const struct wire_TRACE *ask, const struct wire_TRACE_reply *told, struct err *e)
{
    if (ask->batch != 0 && told->every != 0 && ask->batch % told->every != 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "batch %" PRIu64 " is not traced: one in %u is, by its number, such as "
                       "batch %" PRIu64,
                       ask->batch, told->every,
                       ask->batch - ask->batch % told->every + told->every);
    if (ask->batch != 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no trace of run %" PRIu64 ", lane %u, batch %" PRIu64
                       " is here: `shoal trace %" PRIu64 "` lists those that are",
                       ask->run, ask->lane, ask->batch, ask->run);
    if (told->every == 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no traced batch is here, and none is traced now: `shoal trace --every 100` "
                       "begins it while a job runs, `--every 0` ends it");
    return err_set(
        e, SHOAL_E_NOT_FOUND,
        "no traced batch is here yet: one in %u of each lane is traced, and workers send "
        "them every few seconds while the job trains",
        told->every);
}

/* shares: of pull and push; NULL: without them. */
static struct json *told_json(const struct wire_TRACE_reply *told, const struct wire_trace *trace,
                              struct shares *shares)
{
    struct json *j = json_new_object(), *list = json_new_array();
    for (uint32_t i = 0; i < told->count; i++)
        json_append(list, trace_json(shares, &trace[i]));
    json_set_int(j, "run", (int64_t)told->run);
    json_set_int(j, "every", told->every);
    json_set(j, "traces", list);
    return j;
}

static int with_shares(struct reader *r, const struct wire_TRACE *ask,
                       const struct wire_TRACE_reply *told, const struct wire_trace *trace,
                       struct json **out, struct err *e)
{
    struct shares *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    s->r = r;
    s->ask = (struct wire_SPANS){told->run, ask->lane, ask->batch};
    s->silent = json_new_array();
    *out = told_json(told, trace, s);
    json_set(*out, "silent", s->silent);
    shares_close(s);
    free(s);
    return 0;
}

static int tell(struct reader *r, const struct option_line *o, const struct wire_TRACE *ask,
                struct err *e)
{
    struct wire_TRACE_reply told;
    struct wire_trace *trace = NULL;
    struct json *j = NULL;
    bool as_json = option_given(o, "json"), one = ask->batch != 0;
    int rc = reader_traces(r, ask, &told, &trace, e);
    if (rc == 0 && told.count == 0 && (one || !as_json))
        rc = none(ask, &told, e);
    if (rc == 0 && (one || as_json))
        rc = with_shares(r, ask, &told, trace, &j, e);
    else if (rc == 0)
        j = told_json(&told, trace, NULL);
    if (rc == 0 && as_json)
        cli_json_print(j);
    else if (rc == 0 && one)
        trace_one_print(j);
    else if (rc == 0)
        trace_list_print(j);
    json_free(j);
    free(trace);
    return rc;
}

static int every_order(struct reader *r, uint32_t every, struct err *e)
{
    int rc = reader_trace_every(r, every, e);
    if (rc == 0 && every == 0)
        puts("workers trace no more batches");
    else if (rc == 0)
        printf("workers trace one batch in %u of each lane, from their next beat on; `shoal trace` "
               "lists them\n",
               every);
    return rc;
}

int cli_trace(struct option_line *o, struct err *e)
{
    struct reader *r = NULL;
    struct reader_place at;
    struct wire_TRACE ask;
    int rc = words_take(o, &ask, e);
    if (rc == 0)
        rc = reader_find(o, &at, e);
    if (rc == 0 && at.kind != READER_LIVE)
        rc = err_set(e, SHOAL_E_UNAVAILABLE,
                     "traces are in the memory of a coordinator that runs; that of %s does not "
                     "answer, or it has ended",
                     at.folder);
    if (rc == 0)
        rc = reader_open_live(o, &r, e);
    if (rc == 0 && option_given(o, "every"))
        rc = every_order(r, (uint32_t)option_int(o, "every"), e);
    else if (rc == 0)
        rc = tell(r, o, &ask, e);
    reader_close(r);
    return rc;
}
