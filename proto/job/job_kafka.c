/* job_kafka.c: data.kafka, and {kafka: TOPIC} among the inputs. */
#include "proto/job/job_inner.h"

#include "proto/base/positions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "kafka:"

/* Returns the index of the topic in the list, or its count; *topics: how many there are. */
static size_t topic_in(const struct string_list *list, uint32_t *topics)
{
    size_t at = list->count;
    *topics = 0;
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->item[i], PREFIX, strlen(PREFIX)) == 0) {
            at = i;
            ++*topics;
        }
    return at;
}

/* "2026-03-04T05:30", in data.zone. */
static int time_take(const struct config *c, const struct job *j, const char *key, uint32_t *out,
                     struct err *e)
{
    struct job_span span;
    const char *text = config_string(c, key);
    if (!job_span_parse(text, &j->data.zone, &span) || strstr(text, "..") != NULL)
        return job_refuse(c, key, e, ": %.60s is none of 2026-03-04, 2026-03-04T05:30%s", text,
                          strcmp(key, "data.kafka.from") == 0 ? ", earliest, latest" : "");
    *out = span.from;
    return 0;
}

static int from_take(const struct config *c, struct job *j, struct err *e)
{
    const char *text = config_string(c, "data.kafka.from");
    j->data.kafka.from = KAFKA_EARLIEST;
    if (strcmp(text, "earliest") == 0)
        return 0;
    j->data.kafka.from = KAFKA_LATEST;
    if (strcmp(text, "latest") == 0)
        return 0;
    j->data.kafka.from = KAFKA_TIME;
    return time_take(c, j, "data.kafka.from", &j->data.kafka.from_s, e);
}

/* Refuses what messages cannot have. */
static int rows_check(const struct config *c, const struct job *j, struct err *e)
{
    if (j->data.format == DATA_EVENTS)
        return job_refuse(c, "data.format", e,
                          ": a message of Kafka is a line of text, not an event file");
    if (j->data.format == DATA_CSV && j->data.header)
        return job_refuse(c, "data.train", e,
                          ": a message of Kafka is a row, and no message has the columns' names: "
                          "say data.header: false, and all columns in data.columns, in order");
    if (config_has_value(c, "data.partition"))
        return job_refuse(c, "data.partition", e,
                          ": ranges of messages have no time in their names: name a column in "
                          "data.time");
    return 0;
}

static int strings_take(const struct config *c, struct job *j, const char *topic, struct err *e)
{
    const char *brokers = config_string(c, "data.kafka.brokers"),
               *config = config_string(c, "data.kafka.config");
    if (brokers[0] == '\0')
        return job_refuse(c, "data.kafka.brokers", e,
                          " is missing: name some brokers, such as --set "
                          "data.kafka.brokers=HOST:9092");
    if (!position_topic_ok(topic))
        return job_refuse(c, "data.train", e,
                          ": {kafka: %.60s}: a topic's name has 1 to 249 letters, digits, dots, "
                          "underscores and dashes",
                          topic);
    j->data.kafka.brokers = strdup(brokers);
    j->data.kafka.topic = strdup(topic);
    if (config[0] != '\0')
        j->data.kafka.config = strdup(config);
    if (j->data.kafka.brokers == NULL || j->data.kafka.topic == NULL ||
        (config[0] != '\0' && j->data.kafka.config == NULL))
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return 0;
}

int job_kafka_take(const struct config *c, struct job *j, struct err *e)
{
    uint32_t topics;
    for (uint32_t split = 1; split < JOB_SPLITS; split++) {
        const char *what;
        (void)topic_in(job_input(j, split, &what), &topics);
        if (topics > 0)
            return job_refuse(c, what, e,
                              ": only data.train is read from Kafka: write messages of a time to a "
                              "file, and name that");
    }
    size_t at = topic_in(&j->data.train, &topics);
    if (topics == 0 && config_has(c, "data.kafka"))
        return job_refuse(c, "data.kafka", e,
                          ": data.train names no topic: say {kafka: TOPIC} there");
    if (topics == 0)
        return 0;
    if (topics > 1)
        return job_refuse(c, "data.train", e, ": %u topics; a job reads one", topics);
    j->data.kafka.on = true;
    j->data.kafka.range = (uint32_t)config_int(c, "data.kafka.range");
    int rc = strings_take(c, j, j->data.train.item[at] + strlen(PREFIX), e);
    if (rc == 0)
        rc = from_take(c, j, e);
    if (rc == 0 && config_string(c, "data.kafka.until")[0] != '\0')
        rc = time_take(c, j, "data.kafka.until", &j->data.kafka.until_s, e);
    if (rc != 0)
        return rc;
    return rows_check(c, j, e);
}
