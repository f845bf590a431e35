/* topic.c: see topic.h. */
#include "tests/lib/topic.h"

#include "worker/data/kafka.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
    char *text; /* owned; NULL: the offset has no message */
    uint32_t time_s;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct part {
    struct message message[TOPIC_MESSAGES];
    uint64_t low, high;
} partition[TOPIC_PARTITIONS];
static uint32_t partition_count;
static char cluster[POSITION_MARK];
static bool is_away;
static struct later { /* text NULL: none waits */
    const char *text;
    uint32_t partition, time_s;
} later;

/* ---- the operations -------------------------------------------------------------------------- */

static int away(struct err *e)
{
    return err_set(e, SHOAL_E_UNAVAILABLE, "data.train: the brokers do not answer");
}

static int partitions(struct kafka *k, uint32_t *count, char id[POSITION_MARK], struct err *e)
{
    (void)k;
    *count = partition_count;
    (void)snprintf(id, POSITION_MARK, "%s", cluster);
    return is_away ? away(e) : 0;
}

static int bounds(struct kafka *k, uint32_t p, uint64_t *low, uint64_t *high, struct err *e)
{
    (void)k;
    pthread_mutex_lock(&lock);
    *low = partition[p].low;
    *high = partition[p].high;
    pthread_mutex_unlock(&lock);
    return is_away ? away(e) : 0;
}

static int at_time(struct kafka *k, uint32_t p, uint64_t ms, uint64_t *offset, struct err *e)
{
    (void)k;
    *offset = KAFKA_NO_OFFSET;
    pthread_mutex_lock(&lock);
    for (uint64_t i = partition[p].high; i-- > partition[p].low;)
        if (partition[p].message[i].text != NULL && partition[p].message[i].time_s * 1000ull >= ms)
            *offset = i;
    pthread_mutex_unlock(&lock);
    const struct later comes = later;
    later.text = NULL;
    if (comes.text != NULL)
        topic_put(comes.partition, comes.text, comes.time_s);
    return is_away ? away(e) : 0;
}

static int read_range(struct kafka *k, uint32_t p, uint64_t from, uint64_t until, kafka_sink sink,
                      void *to, struct err *e)
{
    int rc = 0;
    (void)k;
    pthread_mutex_lock(&lock);
    if (is_away)
        rc = away(e);
    else if (from < partition[p].low || until > partition[p].high)
        rc = err_set(e, SHOAL_E_DATA, "offsets of partition %u are gone", p);
    for (uint64_t i = from; rc == 0 && i < until; i++) {
        const char *text = partition[p].message[i].text;
        if (text != NULL)
            rc = sink(to, i, text, strlen(text), e);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static void close_it(struct kafka *k)
{
    (void)k;
}

static int open_it(const struct kafka_settings *s, const struct kafka_ops **ops, struct kafka **out,
                   struct err *e)
{
    static const struct kafka_ops all = {partitions, bounds, at_time, read_range, close_it};
    (void)s;
    (void)e;
    *ops = &all;
    *out = NULL;
    return 0;
}

/* ---- the test's side ------------------------------------------------------------------------- */

void topic_open(uint32_t count)
{
    topic_close();
    partition_count = count;
    is_away = false;
    topic_cluster("model");
    kafka_model_use(open_it);
}

void topic_close(void)
{
    kafka_model_use(NULL);
    for (uint32_t p = 0; p < TOPIC_PARTITIONS; p++)
        for (uint64_t i = 0; i < partition[p].high; i++)
            free(partition[p].message[i].text);
    memset(partition, 0, sizeof partition);
}

void topic_put(uint32_t p, const char *text, uint32_t time_s)
{
    pthread_mutex_lock(&lock);
    struct message *m = &partition[p].message[partition[p].high++];
    *m = (struct message){.text = text != NULL ? strdup(text) : NULL, .time_s = time_s};
    pthread_mutex_unlock(&lock);
}

void topic_put_later(uint32_t p, const char *text, uint32_t time_s)
{
    later = (struct later){text, p, time_s};
}

void topic_grow(uint32_t count)
{
    partition_count = count;
}

void topic_cut(uint32_t p, uint64_t low)
{
    partition[p].low = low;
}

void topic_cluster(const char *id)
{
    (void)snprintf(cluster, sizeof cluster, "%s", id);
}

void topic_away(bool now)
{
    is_away = now;
}
