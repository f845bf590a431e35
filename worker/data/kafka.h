/* kafka.h: a topic of Kafka as a log of objects: ranges of offsets of its partitions
 * (proto/base/positions.h). The client is a module, which is loaded when a job reads a topic. Any
 * thread; blocks.
 *
 * A range is immutable: it holds the messages of its offsets that a reader of committed messages
 * gets. Offsets without a message (of a transaction's marker, an aborted or a compacted message)
 * are empty lines in the range's text, as are messages without a value, so line N is offset FROM +
 * N - 1 as long as no message has several lines. */
#ifndef WORKER_DATA_KAFKA_H
#define WORKER_DATA_KAFKA_H

#include "proto/base/positions.h"
#include "proto/job/job.h"
#include "worker/data/decode.h"

#define KAFKA_NO_OFFSET UINT64_MAX

struct kafka; /* a client of one topic */

struct kafka_settings {
    const char *brokers, *topic;
    const char *config;  /* a file of librdkafka's properties; NULL: none */
    uint32_t timeout_ms; /* of a request, and of a read without a message */
};

/* Takes a message at its offset; bytes may be 0. 0: go on; else the error. */
typedef int (*kafka_sink)(void *to, uint64_t offset, const char *message, size_t bytes,
                          struct err *e);

/* Errors: UNAVAILABLE: no broker has answered in time; NOINPUT: there is no such topic; DENIED;
 * DATA: messages are gone. */
struct kafka_ops {
    /* Partitions are numbered from 0. cluster: its id, empty for brokers that tell none. */
    int (*partitions)(struct kafka *k, uint32_t *count, char cluster[POSITION_MARK], struct err *e);
    /* low: the first offset that is kept; high: past the last committed one. */
    int (*bounds)(struct kafka *k, uint32_t partition, uint64_t *low, uint64_t *high,
                  struct err *e);
    /* Finds the first offset whose message is not older than `ms` since 1970; KAFKA_NO_OFFSET:
     * there is none. */
    int (*at_time)(struct kafka *k, uint32_t partition, uint64_t ms, uint64_t *offset,
                   struct err *e);
    /* Hands the messages of offsets from `from` up to and without `until` to the sink. */
    int (*read)(struct kafka *k, uint32_t partition, uint64_t from, uint64_t until, kafka_sink sink,
                void *to, struct err *e);
    void (*close)(struct kafka *k);
};

/* Makes a client; no broker is asked yet. CONFIG: a setting. In the module libshoal_kafka.so it is
 * found by its name. */
int kafka_library_open(const struct kafka_settings *s, const struct kafka_ops **ops,
                       struct kafka **out, struct err *e);
typedef int kafka_open_function(const struct kafka_settings *s, const struct kafka_ops **ops,
                                struct kafka **out, struct err *e);
/* For tests: a model takes the place of the module; NULL: the module again. */
void kafka_model_use(kafka_open_function *open);

/* A list of the job's topic. */
struct kafka_listed {
    struct string_list lines; /* owned: of ranges that follow the positions, in byte order */
    /* owned: of all partitions, from where the job goes on to where they end now */
    struct positions streams;
    bool last; /* the job has data.kafka.until, and no more lines will come */
};
/* Lists the topic. CONFIG: `known` are positions of another cluster, or of a topic that was made
 * anew. */
int kafka_list(const struct job *job, const struct positions *known, struct kafka_listed *out,
               struct err *e);
void kafka_listed_free(struct kafka_listed *l);

/* Hands the text of a range to the sink, a line for each offset. */
int kafka_read(const struct job *job, const struct position *range, decode_sink sink, void *to,
               struct err *e);

#endif
