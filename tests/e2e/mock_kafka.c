/* mock_kafka.c: librdkafka's mock cluster as a process of its own, for e2e/test_kafka.py. It prints
 * its brokers, then obeys lines of standard input, each answered by "ok" or by a sentence:
 *
 *     topic NAME PARTITIONS
 *     file NAME PATH            lines of a file, line i to partition i mod PARTITIONS
 *     send NAME PARTITION TEXT  one message; without TEXT one that has no value
 *     long NAME PARTITION BYTES one message of so many letters x
 *     down BROKER, up BROKER    brokers are counted from 1 */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BROKERS 2
#define TOPICS 8

static rd_kafka_t *producer;
static rd_kafka_mock_cluster_t *cluster;
static struct {
    char name[64];
    int partitions;
} topics[TOPICS];
static unsigned long failed; /* messages that were not delivered */

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *m, void *opaque)
{
    (void)client;
    (void)opaque;
    failed += m->err != RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_t *client_new(const char *brokers)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof why);
    rd_kafka_conf_set(conf, "message.max.bytes", "4000000", why, sizeof why);
    rd_kafka_conf_set(conf, "linger.ms", "5", why, sizeof why);
    rd_kafka_conf_set(conf, "queue.buffering.max.messages", "10000000", why, sizeof why);
    rd_kafka_conf_set(conf, "enable.idempotence", "true", why, sizeof why);
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    return rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
}

static int partitions_of(const char *name)
{
    for (int i = 0; i < TOPICS; i++)
        if (strcmp(topics[i].name, name) == 0)
            return topics[i].partitions;
    return 0;
}

static bool topic_make(const char *name, int partitions)
{
    for (int i = 0; i < TOPICS; i++)
        if (topics[i].name[0] == '\0') {
            snprintf(topics[i].name, sizeof topics[i].name, "%s", name);
            topics[i].partitions = partitions;
            return rd_kafka_mock_topic_create(cluster, name, partitions, 1) == 0;
        }
    return false;
}

static bool give(const char *name, int partition, char *text, size_t bytes)
{
    rd_kafka_resp_err_t rc;
    void *value = bytes > 0 ? text : NULL;
    do {
        rc = rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(name), RD_KAFKA_V_PARTITION(partition),
                               RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                               RD_KAFKA_V_VALUE(value, bytes), RD_KAFKA_V_END);
        rd_kafka_poll(producer, rc == RD_KAFKA_RESP_ERR__QUEUE_FULL ? 100 : 0);
    } while (rc == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    return rc == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static bool all_delivered(void)
{
    bool good = rd_kafka_flush(producer, 60000) == RD_KAFKA_RESP_ERR_NO_ERROR && failed == 0;
    failed = 0;
    return good;
}

static bool file_give(const char *name, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    bool good = true;
    int partitions = partitions_of(name);
    FILE *f = fopen(path, "r");
    if (f == NULL || partitions == 0) {
        if (f != NULL)
            fclose(f);
        return false;
    }
    for (int i = 0; good && (n = getline(&line, &room, f)) > 0; i++)
        good = give(name, i % partitions, line, (size_t)n - (line[n - 1] == '\n'));
    free(line);
    fclose(f);
    return all_delivered() && good;
}

static bool long_give(const char *name, int partition, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return false;
    memset(text, 'x', bytes);
    bool good = give(name, partition, text, bytes) && all_delivered();
    free(text);
    return good;
}

static bool obey(char *line)
{
    char name[64], path[512];
    int number, at = 0;
    size_t bytes;
    if (sscanf(line, "topic %63s %d", name, &number) == 2)
        return topic_make(name, number);
    if (sscanf(line, "file %63s %511s", name, path) == 2)
        return file_give(name, path);
    if (sscanf(line, "send %63s %d%n", name, &number, &at) == 2 && at > 0) {
        char *text = line + at + (line[at] == ' ');
        return give(name, number, text, strlen(text)) && all_delivered();
    }
    if (sscanf(line, "long %63s %d %zu", name, &number, &bytes) == 3)
        return long_give(name, number, bytes);
    if (sscanf(line, "down %d", &number) == 1)
        return rd_kafka_mock_broker_set_down(cluster, number) == 0;
    if (sscanf(line, "up %d", &number) == 1)
        return rd_kafka_mock_broker_set_up(cluster, number) == 0;
    return false;
}

int main(void)
{
    char why[256];
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    rd_kafka_t *owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);
    cluster = owner != NULL ? rd_kafka_mock_cluster_new(owner, BROKERS) : NULL;
    if (cluster == NULL)
        return 1;
    producer = client_new(rd_kafka_mock_cluster_bootstraps(cluster));
    if (producer == NULL)
        return 1;
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while ((n = getline(&line, &room, stdin)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        printf("%s\n", obey(line) ? "ok" : "it failed");
        fflush(stdout);
    }
    return 0;
}
