/* topic.h: a model of a topic of Kafka in memory, in the place of the module (kafka.h). One topic;
 * messages have an offset, a text and a time. Any thread may read while another one adds. */
#ifndef TESTS_LIB_TOPIC_H
#define TESTS_LIB_TOPIC_H

#include <stdbool.h>
#include <stdint.h>

#define TOPIC_PARTITIONS 8u
#define TOPIC_MESSAGES 4096u /* of a partition */

/* An empty topic of so many partitions, which kafka.c reads from now on. */
void topic_open(uint32_t partitions);
void topic_close(void);
/* Adds a message behind the others; text NULL: an offset that has no message. */
void topic_put(uint32_t partition, const char *text, uint32_t time_s);
/* Adds it once the offset of a time has been asked for, behind the answer; only one waits. */
void topic_put_later(uint32_t partition, const char *text, uint32_t time_s);
/* More partitions; messages before that offset are gone; another cluster; no broker answers. */
void topic_grow(uint32_t partitions);
void topic_cut(uint32_t partition, uint64_t low);
void topic_cluster(const char *id);
void topic_away(bool away);

#endif
