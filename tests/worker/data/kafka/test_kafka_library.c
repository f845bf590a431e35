/* test_kafka_library.c: the operations of the module over librdkafka, on its mock cluster. */
#include "worker/data/kafka.h"

#include <check.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rd_kafka_t *owner, *producer;
static rd_kafka_mock_cluster_t *cluster;
static const struct kafka_ops *ops;
static struct kafka *k;
static struct err e;

static rd_kafka_t *client(const char *brokers)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (brokers != NULL)
        rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof why);
    return rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
}

static void set_up(void)
{
    owner = client(NULL);
    cluster = rd_kafka_mock_cluster_new(owner, 1);
    ck_assert_int_eq(rd_kafka_mock_topic_create(cluster, "clicks", 3, 1), 0);
    producer = client(rd_kafka_mock_cluster_bootstraps(cluster));
    e = (struct err){.code = 0};
}

static void tear_down(void)
{
    rd_kafka_destroy(producer);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(owner);
}

static void put(int partition, void *value, size_t bytes)
{
    rd_kafka_resp_err_t rc = rd_kafka_producev(
        producer, RD_KAFKA_V_TOPIC("clicks"), RD_KAFKA_V_PARTITION(partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_VALUE(value, bytes), RD_KAFKA_V_END);
    ck_assert_int_eq(rc, 0);
}

static void given(void)
{
    ck_assert_int_eq(rd_kafka_flush(producer, 30000), 0);
}

static int open_with(const char *topic, const char *config)
{
    struct kafka_settings s = {.brokers = rd_kafka_mock_cluster_bootstraps(cluster),
                               .topic = topic,
                               .config = config,
                               .timeout_ms = 3000};
    return kafka_library_open(&s, &ops, &k, &e);
}

static void open_it(void)
{
    uint32_t count;
    char id[POSITION_MARK];
    ck_assert_msg(open_with("clicks", NULL) == 0, "%s", e.text);
    ck_assert_msg(ops->partitions(k, &count, id, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(count, 3);
    ck_assert_str_ne(id, "");
}

struct seen {
    char text[256];
    uint64_t last;
    uint32_t count;
};

static int see(void *to, uint64_t offset, const char *message, size_t bytes, struct err *why)
{
    struct seen *s = to;
    (void)why;
    s->last = offset;
    s->count++;
    if (strlen(s->text) + bytes + 2 < sizeof s->text)
        (void)snprintf(s->text + strlen(s->text), 64, "%.*s,", (int)bytes, message);
    return 0;
}

START_TEST(a_range_is_its_messages)
{
    struct seen s = {.count = 0};
    uint64_t low, high;
    char text[16];
    for (int i = 0; i < 9; i++)
        put(1, text, (size_t)snprintf(text, sizeof text, "m%d", i));
    put(1, NULL, 0); /* a message without a value */
    given();
    open_it();
    ck_assert_int_eq(ops->bounds(k, 1, &low, &high, &e), 0);
    ck_assert_uint_eq(low, 0);
    ck_assert_uint_eq(high, 10);
    ck_assert_int_eq(ops->bounds(k, 2, &low, &high, &e), 0);
    ck_assert_uint_eq(high, 0);
    ck_assert_msg(ops->read(k, 1, 2, 5, see, &s, &e) == 0, "%s", e.text);
    ck_assert_str_eq(s.text, "m2,m3,m4,");
    ck_assert_int_eq(ops->read(k, 1, 8, 10, see, &s, &e), 0); /* to the end; a second range */
    ck_assert_str_eq(s.text, "m2,m3,m4,m8,,");
    ck_assert_uint_eq(s.last, 9);
    ops->close(k);
}
END_TEST

START_TEST(what_is_gone_is_refused)
{
    struct seen s = {.count = 0};
    uint64_t low, high;
    char *big = calloc(1, 100000); /* the mock cluster keeps 5 MiB of a partition */
    for (int i = 0; i < 80; i++)
        put(0, big, 100000);
    given();
    free(big);
    open_it();
    ck_assert_int_eq(ops->bounds(k, 0, &low, &high, &e), 0);
    ck_assert_uint_gt(low, 1);
    ck_assert_int_eq(ops->read(k, 0, 1, 3, see, &s, &e), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "offsets 1 to 2 of clicks/0 are gone") != NULL, "%s", e.text);
    ck_assert_uint_eq(s.count, 0);
    ops->close(k);
}
END_TEST

#define FETCH 1 /* the number of the request */

/* The library goes on behind messages that it cannot read, and they are no empty lines. What may
 * pass is no message that is gone. */
START_TEST(what_cannot_be_read_ends_the_range)
{
    static const struct {
        int error, status;
    } cases[] = {{RD_KAFKA_RESP_ERR__BAD_MSG, SHOAL_E_DATA},
                 {RD_KAFKA_RESP_ERR__BAD_COMPRESSION, SHOAL_E_DATA},
                 {RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED, SHOAL_E_DATA},
                 {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, SHOAL_E_DATA},
                 {RD_KAFKA_RESP_ERR_INVALID_MSG, SHOAL_E_UNAVAILABLE},
                 {RD_KAFKA_RESP_ERR_UNKNOWN, SHOAL_E_UNAVAILABLE}};
    put(1, "a", 1);
    given();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen s = {.count = 0};
        open_it();
        rd_kafka_mock_push_request_errors(cluster, FETCH, 1, cases[i].error);
        int rc = ops->read(k, 1, 0, 1, see, &s, &e);
        ck_assert_msg(rc == cases[i].status, "case %zu: %d %s", i, rc, e.text);
        ck_assert_msg(strstr(e.text, "clicks/1") != NULL, "%s", e.text);
        ops->close(k);
    }
}
END_TEST

START_TEST(a_topic_that_is_missing_is_named)
{
    uint32_t count;
    char id[POSITION_MARK];
    rd_kafka_mock_topic_set_error(cluster, "views", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    ck_assert_int_eq(open_with("views", NULL), 0);
    ck_assert_int_eq(ops->partitions(k, &count, id, &e), SHOAL_E_NOINPUT);
    ck_assert_msg(strstr(e.text, "have no topic views") != NULL, "%s", e.text);
    ops->close(k);
    rd_kafka_mock_topic_set_error(cluster, "views", RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    ck_assert_int_eq(open_with("views", NULL), 0);
    ck_assert_int_eq(ops->partitions(k, &count, id, &e), SHOAL_E_DENIED);
    ops->close(k);
}
END_TEST

START_TEST(brokers_that_are_away_are_named)
{
    uint32_t count;
    char id[POSITION_MARK];
    rd_kafka_mock_broker_set_down(cluster, 1);
    ck_assert_int_eq(open_with("clicks", NULL), 0);
    ck_assert_int_eq(ops->partitions(k, &count, id, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(e.text, "do not answer") != NULL, "%s", e.text);
    rd_kafka_mock_broker_set_up(cluster, 1);
    for (int i = 0; i < 10 && ops->partitions(k, &count, id, &e) != 0; i++)
        continue;
    ck_assert_int_eq(ops->partitions(k, &count, id, &e), 0); /* the same client goes on */
    ops->close(k);
}
END_TEST

/* Writes a file of properties and opens with it. */
static int with_properties(const char *text)
{
    char path[] = "/tmp/shoal-kafka-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    e = (struct err){.code = 0};
    int rc = open_with("clicks", path);
    (void)unlink(path);
    if (rc == 0)
        ops->close(k);
    return rc;
}

START_TEST(properties_are_those_of_the_connection)
{
    ck_assert_int_eq(with_properties("# a comment\n\n client.rack = a \nsocket.timeout.ms=9000\n"),
                     0);
    static const char *const bad[] = {"sasl.kerberos.kinit.cmd=touch hunter2\n",
                                      "ssl.engine.location=hunter2\n",
                                      "plugin.library.paths=hunter2\n",
                                      "isolation.level=hunter2\n",
                                      "bootstrap.servers=hunter2\n",
                                      "security.protocol=hunter2\n",
                                      "root:hunter2:x\n",
                                      "hunter2=1\n",
                                      "sasl.mechanism\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(with_properties(bad[i]) == SHOAL_E_CONFIG, "%s", bad[i]);
        ck_assert_msg(strstr(e.text, "hunter2") == NULL && strstr(e.text, "line 1") != NULL, "%s",
                      e.text);
    }
    ck_assert_int_eq(open_with("clicks", "/nowhere/kafka.properties"), SHOAL_E_CONFIG);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kafka_library");
    TCase *c = tcase_create("kafka_library");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 90);
    tcase_add_test(c, a_range_is_its_messages);
    tcase_add_test(c, what_is_gone_is_refused);
    tcase_add_test(c, what_cannot_be_read_ends_the_range);
    tcase_add_test(c, a_topic_that_is_missing_is_named);
    tcase_add_test(c, brokers_that_are_away_are_named);
    tcase_add_test(c, properties_are_those_of_the_connection);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
