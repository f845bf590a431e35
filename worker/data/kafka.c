/* kafka.c: lists a topic as ranges, and reads a range as text. */
#include "worker/data/kafka.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/module.h"
#include "proto/base/time.h"
#include "proto/job/config.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE "libshoal_kafka.so"
#define LIST_RANGES 256u       /* of one list, over all partitions; at least one of each */
#define LIST_TIMEOUT_MS 10000u /* a list that fails is made again soon */

/* ---- the client ------------------------------------------------------------------------------ */

static _Atomic(kafka_open_function *) model;

void kafka_model_use(kafka_open_function *open)
{
    model = open;
}

static int function_find(kafka_open_function **open, struct err *e)
{
    *open = model;
    if (*open != NULL)
        return 0;
    struct err why = {0};
    void *module = module_open(MODULE, &why); /* each opening after the first finds it there */
    if (module == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.train reads Kafka: install the package shoal-kafka on each worker's "
                       "machine: %s",
                       why.text);
    void *found = dlsym(module, "kafka_library_open");
    if (found == NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s is of another release: install that of this one",
                       MODULE);
    memcpy(open, &found, sizeof found);
    return 0;
}

struct client {
    const struct kafka_ops *ops;
    struct kafka *kafka; /* owned */
    uint32_t partitions;
    char cluster[POSITION_MARK];
};

static int client_open(const struct job *job, uint32_t timeout_ms, struct client *c, struct err *e)
{
    const struct kafka_settings s = {.brokers = job->data.kafka.brokers,
                                     .topic = job->data.kafka.topic,
                                     .config = job->data.kafka.config,
                                     .timeout_ms = timeout_ms};
    kafka_open_function *open;
    *c = (struct client){.partitions = 0};
    int rc = function_find(&open, e);
    if (rc == 0)
        rc = open(&s, &c->ops, &c->kafka, e);
    if (rc != 0)
        return rc;
    rc = c->ops->partitions(c->kafka, &c->partitions, c->cluster, e);
    if (rc != 0)
        c->ops->close(c->kafka);
    return rc;
}

/* ---- the list -------------------------------------------------------------------------------- */

struct listing {
    const struct job *job;
    const struct positions *known;
    struct client client;
    struct kafka_listed *out;
    bool begun;    /* some partition of the topic is known */
    uint32_t most; /* ranges of a partition */
};

void kafka_listed_free(struct kafka_listed *l)
{
    config_list_free(&l->lines);
    positions_close(&l->streams);
    *l = (struct kafka_listed){.last = false};
}

static void stream_name(const struct job *job, uint32_t partition, char out[POSITION_STREAM])
{
    (void)snprintf(out, POSITION_STREAM, "kafka:%s/%" PRIu32, job->data.kafka.topic, partition);
}

static bool topic_known(const struct listing *l)
{
    char name[POSITION_STREAM];
    bool known = false;
    for (uint32_t i = 0; !known && i < l->client.partitions; i++) {
        stream_name(l->job, i, name);
        const struct position *is = positions_find(l->known, name);
        known = is != NULL && strcmp(is->mark, l->client.cluster) == 0;
    }
    return known;
}

/* Where a partition begins that no table has learnt of. A partition that came after the first list
 * is new as a whole. */
static int begin_of(const struct listing *l, uint32_t partition, uint64_t low, uint64_t high,
                    uint64_t *from, struct err *e)
{
    int rc = 0;
    *from = low;
    if (l->job->data.kafka.from == KAFKA_LATEST && !l->begun)
        *from = high;
    if (l->job->data.kafka.from != KAFKA_TIME)
        return 0;
    rc = l->client.ops->at_time(l->client.kafka, partition, l->job->data.kafka.from_s * 1000ull,
                                from, e);
    if (rc == 0 && *from == KAFKA_NO_OFFSET)
        *from = high;
    *from = MIN(MAX(*from, low), high);
    return rc;
}

/* Where the job ends in this partition, as far as is known now. *open: it may come to be later.
 * A message that comes while this asks may be one before that time, so it keeps the end open. */
static int end_of(const struct listing *l, uint32_t partition, uint64_t high, uint64_t *end,
                  bool *open, struct err *e)
{
    const uint32_t until_s = l->job->data.kafka.until_s;
    *end = high;
    *open = true;
    if (until_s == 0)
        return 0;
    const struct kafka_ops *ops = l->client.ops;
    uint64_t at, low, now = high;
    int rc = ops->at_time(l->client.kafka, partition, until_s * 1000ull, &at, e);
    bool early = time_wall_ns() / UINT64_C(1000000000) < until_s;
    if (rc == 0 && at == KAFKA_NO_OFFSET && !early)
        rc = ops->bounds(l->client.kafka, partition, &low, &now, e);
    if (rc != 0)
        return rc;
    *open = at > high; /* it is not committed yet, or has come meanwhile */
    if (at == KAFKA_NO_OFFSET)
        *open = early || now != high;
    *end = MIN(at, high);
    return 0;
}

/* Checks that a known position is one of this topic. */
static int known_check(const struct listing *l, const struct position *is, uint64_t high,
                       struct err *e)
{
    const char *stream = is->stream;
    if (strcmp(is->mark, l->client.cluster) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.train: the tables have learnt %s up to offset %" PRIu64
                       " of cluster %s, and data.kafka.brokers are of cluster %s: name brokers of "
                       "the former, or say data.objects.all_new: true where all that "
                       "data.kafka.from leads to is new",
                       stream, is->to, is->mark, l->client.cluster);
    if (is->to > high)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.train: the tables have learnt %s up to offset %" PRIu64
                       ", and it ends at %" PRIu64
                       ": the topic was made anew, or has lost messages: its offsets cannot be "
                       "told from the old ones, so let its messages come in a topic of another "
                       "name",
                       stream, is->to, high);
    return 0;
}

static int range_add(struct listing *l, const struct position *p, uint64_t from, uint64_t to,
                     struct err *e)
{
    char line[POSITION_LINE];
    struct position range = *p;
    range.from = from;
    range.to = to;
    position_line(&range, line);
    if (config_list_add(&l->out->lines, line) != 0)
        return err_set(e, SHOAL_E_NOMEM, "data.train: no memory for the list of ranges");
    return 0;
}

/* Adds the ranges of a stream, from p->from to p->to. Messages before `low` are gone: they make a
 * range of their own, which fails when it is read. */
static int ranges_add(struct listing *l, const struct position *p, uint64_t low, struct err *e)
{
    uint64_t at = p->from, step = l->job->data.kafka.range;
    int rc = 0;
    if (at < low && at < p->to) {
        uint64_t to = MIN(low, p->to);
        rc = range_add(l, p, at, to, e);
        at = to;
    }
    for (uint32_t i = 0; rc == 0 && i < l->most && at < p->to; i++) {
        uint64_t to = MIN(at + step, p->to);
        rc = range_add(l, p, at, to, e);
        at = to;
    }
    l->out->last &= at == p->to;
    return rc;
}

static int partition_list(struct listing *l, uint32_t partition, struct err *e)
{
    struct position p = {.from = 0};
    uint64_t low, high, end;
    bool open;
    stream_name(l->job, partition, p.stream);
    (void)snprintf(p.mark, sizeof p.mark, "%s", l->client.cluster);
    int rc = l->client.ops->bounds(l->client.kafka, partition, &low, &high, e);
    if (rc == 0)
        rc = end_of(l, partition, high, &end, &open, e);
    if (rc != 0)
        return rc;
    const struct position *is = positions_find(l->known, p.stream);
    bool other = is != NULL && strcmp(is->mark, p.mark) != 0;
    if (other && l->job->data.objects.all_new)
        is = NULL;
    if (is != NULL)
        rc = known_check(l, is, high, e);
    if (rc == 0 && is == NULL)
        rc = begin_of(l, partition, low, high, &p.from, e);
    if (rc != 0)
        return rc;
    if (is != NULL)
        p.from = is->to;
    p.to = MAX(p.from, end);
    l->out->last &= !open;
    if (positions_put(&l->out->streams, &p) != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.train: topic %s has %u partitions, and %u are possible",
                       l->job->data.kafka.topic, l->client.partitions, POSITIONS_MAX);
    return ranges_add(l, &p, low, e);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int kafka_list(const struct job *job, const struct positions *known, struct kafka_listed *out,
               struct err *e)
{
    struct listing l = {.job = job, .known = known, .out = out};
    *out = (struct kafka_listed){.last = true};
    uint32_t timeout = MIN(LIST_TIMEOUT_MS, job->data.objects.quiet_s * 1000);
    int rc = client_open(job, timeout, &l.client, e);
    if (rc != 0)
        return rc;
    l.most = MAX(LIST_RANGES / MAX(l.client.partitions, 1u), 1u);
    l.begun = topic_known(&l);
    for (uint32_t i = 0; rc == 0 && i < l.client.partitions; i++)
        rc = partition_list(&l, i, e);
    l.client.ops->close(l.client.kafka);
    if (rc != 0) {
        kafka_listed_free(out);
        return rc;
    }
    if (out->lines.count > 0)
        qsort(out->lines.item, out->lines.count, sizeof out->lines.item[0], compare_lines);
    return 0;
}

/* ---- a range --------------------------------------------------------------------------------- */

#define HELD_BYTES (1u << 14)

struct reading {
    const struct position *range;
    uint64_t at; /* the offset whose line comes next */
    decode_sink sink;
    void *to;
    size_t held;
    char text[HELD_BYTES]; /* (held): what the sink gets next */
};

static int held_give(struct reading *r, struct err *e)
{
    int rc = 0;
    if (r->held > 0)
        rc = r->sink(r->to, r->text, r->held, e);
    r->held = 0;
    return rc;
}

static int text_add(struct reading *r, const char *text, size_t bytes, struct err *e)
{
    int rc = 0;
    if (bytes > HELD_BYTES - r->held)
        rc = held_give(r, e);
    if (rc != 0)
        return rc;
    if (bytes > HELD_BYTES)
        return r->sink(r->to, text, bytes, e);
    memcpy(r->text + r->held, text, bytes);
    r->held += bytes;
    return 0;
}

/* Writes the lines of offsets without a message. */
static int holes_add(struct reading *r, uint64_t until, struct err *e)
{
    int rc = 0;
    for (; rc == 0 && r->at < until; r->at++)
        rc = text_add(r, "\n", 1, e);
    return rc;
}

static int message_add(void *to, uint64_t offset, const char *message, size_t bytes, struct err *e)
{
    struct reading *r = to;
    if (offset < r->at || offset >= r->range->to)
        return err_set(e, SHOAL_E_DATA, "message %" PRIu64 " came behind %" PRIu64, offset, r->at);
    int rc = holes_add(r, offset, e);
    while (bytes > 0 && message[bytes - 1] == '\n')
        bytes--;
    if (rc == 0 && bytes > 0)
        rc = text_add(r, message, bytes, e);
    if (rc == 0)
        rc = text_add(r, "\n", 1, e);
    r->at = offset + 1;
    return rc;
}

int kafka_read(const struct job *job, const struct position *range, decode_sink sink, void *to,
               struct err *e)
{
    struct reading r;
    r.range = range;
    r.at = range->from;
    r.sink = sink;
    r.to = to;
    r.held = 0;
    const char *number = strrchr(range->stream, '/');
    uint32_t partition = (uint32_t)strtoul(number + 1, NULL, 10);
    struct client c;
    int rc = client_open(job, job->data.objects.quiet_s * 1000, &c, e);
    if (rc != 0)
        return rc;
    if (strcmp(c.cluster, range->mark) != 0)
        rc = err_set(e, SHOAL_E_DATA, "it was listed on cluster %s, and the brokers are of %s",
                     range->mark, c.cluster);
    else
        rc = c.ops->read(c.kafka, partition, range->from, range->to, message_add, &r, e);
    c.ops->close(c.kafka);
    if (rc == 0)
        rc = holes_add(&r, range->to, e);
    if (rc == 0)
        rc = held_give(&r, e);
    return rc;
}
