/* kafka_library.c: the operations of kafka.h over librdkafka's simple consumer, which joins no
 * group and commits nothing: the positions are the coordinator's. It is a shared object, so that
 * shoal-worker does not link the library.
 *
 * The library retries by itself and reports what it meets through error_said, which runs inside of
 * rd_kafka_poll; its own log is not written, because its lines may have parts of the configuration.
 * A property's value is not printed either. */
#include "worker/data/kafka.h"

#include "proto/base/minmax.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAID_BYTES 200
#define LINE_BYTES 16384 /* of the file of properties: a certificate in one line fits */
#define TOGETHER 1000    /* messages taken from the library at a time */
#define WAIT_MS 100

struct kafka {
    rd_kafka_t *client;      /* owned */
    rd_kafka_topic_t *topic; /* owned */
    char *brokers, *name;    /* owned; name: the topic's */
    int timeout_ms;
    char said[SAID_BYTES]; /* the last error that the library met; empty: none */
};

static void close_it(struct kafka *k)
{
    if (k->topic != NULL)
        rd_kafka_topic_destroy(k->topic);
    if (k->client != NULL)
        rd_kafka_destroy(k->client);
    free(k->brokers);
    free(k->name);
    free(k);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Beginnings of the names that the file may set. What the client reads, and how, is Shoal's. */
static const char *const allowed[] = {"security.protocol", "sasl.",   "ssl.",       "enable.ssl.",
                                      "enable.sasl.",      "socket.", "reconnect.", "metadata.",
                                      "broker.",           "client.", "fetch.",     "receive.",
                                      "api.version.",      "https."};
/* These run a command or load code. */
static const char *const refused[] = {"sasl.kerberos.kinit.cmd", "ssl.engine.", "ssl.engine_",
                                      "ssl.providers"};

static bool begins_with(const char *name, const char *const list[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, list[i], strlen(list[i])) == 0)
            return true;
    return false;
}

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static int property_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct err *e)
{
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
        return 0;
    return err_set(e, SHOAL_E_CONFIG, "librdkafka %s does not take the setting of %s",
                   rd_kafka_version_str(), name);
}

static char *trimmed(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        text[--n] = '\0';
    return text + strspn(text, " \t");
}

static int line_set(rd_kafka_conf_t *conf, char *line, struct err *e)
{
    char *name = trimmed(line), *equals = strchr(name, '=');
    if (*name == '\0' || *name == '#')
        return 0;
    if (equals == NULL)
        return err_set(e, SHOAL_E_CONFIG, "it is no NAME=VALUE");
    *equals = '\0';
    (void)trimmed(name);
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz._")] != '\0')
        return err_set(e, SHOAL_E_CONFIG, "its name is none of librdkafka's");
    if (!begins_with(name, allowed, COUNT(allowed)) || begins_with(name, refused, COUNT(refused)))
        return err_set(e, SHOAL_E_CONFIG, "%.60s cannot be set here: take the line away", name);
    return property_set(conf, name, trimmed(equals + 1), e);
}

static int file_set(rd_kafka_conf_t *conf, const char *path, struct err *e)
{
    static const char key[] = "data.kafka.config";
    char *line = malloc(LINE_BYTES);
    FILE *f = fopen(path, "re");
    int rc = 0;
    uint32_t number = 0;
    if (f == NULL)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s: %s cannot be read on this machine; each worker's machine needs it", key,
                     path);
    else if (line == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory", key);
    while (rc == 0 && fgets(line, LINE_BYTES, f) != NULL) {
        struct err why = {0};
        number++;
        if (strlen(line) == LINE_BYTES - 1)
            rc = err_set(&why, SHOAL_E_CONFIG, "it is longer than %d bytes", LINE_BYTES - 2);
        else
            rc = line_set(conf, line, &why);
        if (rc != 0)
            rc = err_set(e, rc, "%s: %s line %u: %s", key, path, number, why.text);
    }
    if (f != NULL)
        (void)fclose(f);
    free(line);
    return rc;
}

static int settings_take(rd_kafka_conf_t *conf, const struct kafka_settings *s, struct err *e)
{
    static const char *const own[][2] = {{"isolation.level", "read_committed"},
                                         {"auto.offset.reset", "error"},
                                         {"enable.partition.eof", "true"},
                                         {"allow.auto.create.topics", "false"},
                                         {"check.crcs", "true"},
                                         {"queued.min.messages", "20000"},
                                         {"queued.max.messages.kbytes", "32768"},
                                         {"reconnect.backoff.max.ms", "1000"},
                                         {"client.id", "shoal"}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < COUNT(own); i++)
        rc = property_set(conf, own[i][0], own[i][1], e);
    if (rc == 0)
        rc = property_set(conf, "bootstrap.servers", s->brokers, e);
    if (rc == 0 && s->config != NULL)
        rc = file_set(conf, s->config, e);
    return rc;
}

/* ---- what the library says ------------------------------------------------------------------- */

static void log_nothing(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    (void)client;
    (void)level;
    (void)facility;
    (void)text;
}

static void error_said(rd_kafka_t *client, int error, const char *reason, void *opaque)
{
    struct kafka *k = opaque;
    (void)client;
    (void)error;
    (void)snprintf(k->said, sizeof k->said, ": %s", reason);
    for (char *p = k->said; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

/* The sentence for a request that failed. */
static int failed(struct kafka *k, rd_kafka_resp_err_t error, struct err *e)
{
    (void)rd_kafka_poll(k->client, 0);
    switch (error) {
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        return err_set(e, SHOAL_E_NOINPUT,
                       "data.train: the brokers %s have no topic %s: make it, or name another one",
                       k->brokers, k->name);
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        return err_set(e, SHOAL_E_DENIED,
                       "data.train: the brokers %s do not let this user read topic %s: it needs "
                       "READ and DESCRIBE of the topic",
                       k->brokers, k->name);
    default:
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "data.train: topic %s: the brokers %s do not answer: %s%s", k->name,
                       k->brokers, rd_kafka_err2str(error), k->said);
    }
}

/* ---- operations ------------------------------------------------------------------------------ */

static int partitions(struct kafka *k, uint32_t *count, char cluster[POSITION_MARK], struct err *e)
{
    const struct rd_kafka_metadata *m;
    rd_kafka_resp_err_t rc = rd_kafka_metadata(k->client, 0, k->topic, &m, k->timeout_ms);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return failed(k, rc, e);
    rc = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (m->topic_cnt == 1) {
        rc = m->topics[0].err;
        *count = (uint32_t)m->topics[0].partition_cnt;
    }
    rd_kafka_metadata_destroy(m);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return failed(k, rc, e);
    char *id = rd_kafka_clusterid(k->client, k->timeout_ms);
    cluster[0] = '\0';
    for (size_t i = 0; id != NULL && id[i] != '\0' && i < POSITION_MARK - 1; i++) {
        cluster[i] = id[i] > ' ' && id[i] <= '~' ? id[i] : '?';
        cluster[i + 1] = '\0';
    }
    if (id != NULL)
        rd_kafka_mem_free(k->client, id);
    return 0;
}

static int bounds(struct kafka *k, uint32_t partition, uint64_t *low, uint64_t *high, struct err *e)
{
    int64_t first, last;
    rd_kafka_resp_err_t rc = rd_kafka_query_watermark_offsets(
        k->client, k->name, (int32_t)partition, &first, &last, k->timeout_ms);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return failed(k, rc, e);
    if (first < 0 || last < first || (uint64_t)last > POSITION_OFFSET_MAX)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "data.train: topic %s: a broker tells offsets %" PRId64 " to %" PRId64
                       " of partition %u",
                       k->name, first, last, partition);
    *low = (uint64_t)first;
    *high = (uint64_t)last;
    return 0;
}

static int at_time(struct kafka *k, uint32_t partition, uint64_t ms, uint64_t *offset,
                   struct err *e)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, k->name, (int32_t)partition)->offset = (int64_t)ms;
    rd_kafka_resp_err_t rc = rd_kafka_offsets_for_times(k->client, list, k->timeout_ms);
    if (rc == RD_KAFKA_RESP_ERR_NO_ERROR)
        rc = list->elems[0].err;
    int64_t at = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return failed(k, rc, e);
    *offset = at >= 0 ? (uint64_t)at : KAFKA_NO_OFFSET; /* below 0: the partition's end */
    return 0;
}

/* ---- a range --------------------------------------------------------------------------------- */

struct reading {
    struct kafka *k;
    uint32_t partition;
    uint64_t from, until;
    kafka_sink sink;
    void *to;
    bool over;
    int64_t heard_ms;
};

static int gone(const struct reading *r, struct err *e)
{
    return err_set(e, SHOAL_E_DATA,
                   "offsets %" PRIu64 " to %" PRIu64 " of %s/%u are gone, or some of them: the "
                   "topic keeps its messages not long enough (retention.ms); data.objects.failed: "
                   "leave_out goes on without them",
                   r->from, r->until - 1, r->k->name, r->partition);
}

/* The library goes on behind messages that it cannot read, which are not to become empty lines:
 * the range ends. What may pass is UNAVAILABLE, and the range is read again. */
static int unread(const struct reading *r, const rd_kafka_message_t *m, struct err *e)
{
    bool bad = m->err == RD_KAFKA_RESP_ERR__BAD_MSG ||
               m->err == RD_KAFKA_RESP_ERR__BAD_COMPRESSION ||
               m->err == RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED ||
               m->err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    const char *why = rd_kafka_message_errstr(m);
    if (!bad)
        return err_set(e, SHOAL_E_UNAVAILABLE, "%s/%u cannot be read: %.200s", r->k->name,
                       r->partition, why);
    return err_set(e, SHOAL_E_DATA,
                   "a message of %s/%u, of offsets %" PRIu64 " to %" PRIu64
                   ", cannot be read: %.200s; data.objects.failed: leave_out goes on without these "
                   "offsets",
                   r->k->name, r->partition, r->from, r->until - 1, why);
}

/* Takes a message, or a note of the library. */
static int message_take(struct reading *r, const rd_kafka_message_t *m, struct err *e)
{
    switch (m->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        r->heard_ms = now_ms();
        r->over = (uint64_t)m->offset >= r->until;
        if (r->over)
            return 0;
        r->over = (uint64_t)m->offset == r->until - 1;
        return r->sink(r->to, (uint64_t)m->offset, m->payload, m->payload == NULL ? 0 : m->len, e);
    case RD_KAFKA_RESP_ERR__PARTITION_EOF: /* its offset is the next one */
        r->over = (uint64_t)m->offset >= r->until;
        return 0;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
        return gone(r, e);
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        return failed(r->k, m->err, e);
    case RD_KAFKA_RESP_ERR__TRANSPORT: /* the library tries again */
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
        (void)snprintf(r->k->said, sizeof r->k->said, ": %s", rd_kafka_err2str(m->err));
        return 0;
    default:
        return unread(r, m, e);
    }
}

static int messages_take(struct reading *r, struct err *e)
{
    rd_kafka_message_t *message[TOGETHER];
    int rc = 0;
    (void)rd_kafka_poll(r->k->client, 0);
    ssize_t n =
        rd_kafka_consume_batch(r->k->topic, (int32_t)r->partition, WAIT_MS, message, TOGETHER);
    for (ssize_t i = 0; i < n; i++) {
        if (rc == 0 && !r->over)
            rc = message_take(r, message[i], e);
        rd_kafka_message_destroy(message[i]);
    }
    if (rc != 0 || r->over || now_ms() - r->heard_ms < r->k->timeout_ms)
        return rc;
    return err_set(e, SHOAL_E_UNAVAILABLE, "no message of %s/%u has come for %d s%s", r->k->name,
                   r->partition, r->k->timeout_ms / 1000, r->k->said);
}

static int read_range(struct kafka *k, uint32_t partition, uint64_t from, uint64_t until,
                      kafka_sink sink, void *to, struct err *e)
{
    struct reading r = {.k = k,
                        .partition = partition,
                        .from = from,
                        .until = until,
                        .sink = sink,
                        .to = to,
                        .over = from >= until,
                        .heard_ms = now_ms()};
    if (r.over)
        return 0;
    if (rd_kafka_consume_start(k->topic, (int32_t)partition, (int64_t)from) != 0)
        return failed(k, rd_kafka_last_error(), e);
    int rc = 0;
    while (rc == 0 && !r.over)
        rc = messages_take(&r, e);
    (void)rd_kafka_consume_stop(k->topic, (int32_t)partition);
    return rc;
}

/* ---- a client -------------------------------------------------------------------------------- */

static const struct kafka_ops ops = {partitions, bounds, at_time, read_range, close_it};

int kafka_library_open(const struct kafka_settings *s, const struct kafka_ops **out_ops,
                       struct kafka **out, struct err *e)
{
    char why[256];
    struct kafka *k = calloc(1, sizeof *k);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int rc = SHOAL_E_NOMEM;
    if (k != NULL) {
        k->brokers = strdup(s->brokers);
        k->name = strdup(s->topic);
        k->timeout_ms = (int)s->timeout_ms;
        rd_kafka_conf_set_opaque(conf, k);
        rd_kafka_conf_set_error_cb(conf, error_said);
        rd_kafka_conf_set_log_cb(conf, log_nothing);
        rc = settings_take(conf, s, e);
    }
    if (rc == 0 && (k->brokers == NULL || k->name == NULL))
        rc = SHOAL_E_NOMEM;
    if (rc == 0) {
        k->client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
        if (k->client != NULL)
            conf = NULL; /* the client has it */
        else
            rc = err_set(e, SHOAL_E_CONFIG,
                         "data.kafka: librdkafka %s cannot make a client of these settings; try "
                         "them with another program on this machine",
                         rd_kafka_version_str());
    }
    if (rc == 0 && (k->topic = rd_kafka_topic_new(k->client, k->name, NULL)) == NULL)
        rc = SHOAL_E_NOMEM;
    if (conf != NULL)
        rd_kafka_conf_destroy(conf);
    if (rc == 0) {
        *out_ops = &ops;
        *out = k;
        return 0;
    }
    if (k != NULL)
        close_it(k);
    if (rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "no memory for a client of Kafka");
    return rc;
}
