/* job_inner.h: declarations that the files of job.h share. Each *_take reads one part of the file:
 * CONFIG, NOMEM. */
#ifndef PROTO_JOB_JOB_INNER_H
#define PROTO_JOB_JOB_INNER_H

#include "proto/job/config.h"
#include "proto/job/keys.h"

/* Returns CONFIG: "line N: PATH" and the formatted text, which begins with ": " or with a verb. */
int job_refuse(const struct config *c, const char *path, struct err *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Takes data.kafka and {kafka: ..} of data.train, before the objects. CONFIG. */
int job_kafka_take(const struct config *c, struct job *j, struct err *e);
/* A name of 1 to LIMIT_NAME - 1 bytes. fallback: NULL for a key that has one. CONFIG. */
int job_name_take(const struct config *c, const char *path, const char *fallback,
                  char out[LIMIT_NAME], struct err *e);
/* Reads the optimizer under `prefix`. fallback: its kind, and, unless the job names another kind,
 * its lr and initial where they are not 0. */
struct optimizer_spec job_optimizer_take(const struct config *c, const char *prefix,
                                         const struct optimizer_spec *fallback);
int job_data_take(const struct config *c, struct job *j, struct err *e);
int job_time_take(const struct config *c, struct job *j, struct err *e);
/* data.zone: the zone that the coordinator added (given.h), else the zone of this machine's
 * files. */
int job_zone_take(const struct config *c, struct job *j, struct err *e);
/* data.join; after data, whose format, label and time it needs. */
int job_join_take(const struct config *c, struct job *j, struct err *e);
/* features; after data: the default for numbers depends on the format. */
int job_features_take(const struct config *c, struct job *j, struct err *e);
/* The transform of the numbers of entry i of data.columns, whose type is known. */
int job_scale_take(const struct config *c, size_t i, struct column *k, struct err *e);
/* features.crosses; after data. */
int job_crosses_take(const struct config *c, struct job *j, struct err *e);
/* All of tables[]; after data, since ageing needs a time. */
int job_tables_take(const struct config *c, struct job *j, struct err *e);
/* model and dense_optimizer; after data, whose labels are the tasks. */
int job_model_take(const struct config *c, struct job *j, struct err *e);
/* train.dense, train.dense_publish, net.dense; after model and train. */
int job_dense_take(const struct config *c, struct job *j, struct err *e);
int job_external_take(const struct config *c, struct job *j, struct err *e);
/* replay; after all others, some of which it excludes. */
int job_replay_take(const struct config *c, struct job *j, struct err *e);

#endif
