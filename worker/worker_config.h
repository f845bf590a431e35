/* worker_config.h: worker.yaml, the file of a daemon that waits for jobs (shoal-worker run), as a
 * plain value. It has the settings of this machine; the work comes from the coordinator. An unknown
 * key, a wrong type or a value out of range is refused with file, line and the nearest known key
 * (SHOAL_E_CONFIG).
 *
 *     coordinator: tcp://10.0.0.1:7000
 *     keys: FILE                # over tcp; by default what the unit hands over
 *     listen: tcp://0.0.0.0:7090  # where other workers reach it (worker_listen.h)
 *     advertise: 10.0.0.3
 *     name: gpu-3               # by default HOST-INSTANCE of a unit, else HOST-PID
 *     lanes: 2                  # at a time, a computing thread each
 *     cores: 0                  # batches parsed at the same time; 0: as many as the CPUs
 *     backend: auto             # auto | cpu | cuda
 *     devices: [0, 1]           # which of several GPUs, modulo their number; device: 0 is [0]
 *     io_threads: 1
 *     cache: DIR                # folder of decoded input: data.cache of every job
 *     set: [data.train=/mnt/log-*.gz]  # overrides keys of every job, as --set of train
 *     allow_commands: false     # jobs may run {cmd: ...} here
 *     insecure_plaintext: false
 *     metrics: 127.0.0.1:9466   # http.h; empty: none
 *     metrics_token: FILE */
#ifndef WORKER_WORKER_CONFIG_H
#define WORKER_WORKER_CONFIG_H

#include "proto/base/device_list.h"
#include "proto/base/limits.h"
#include "proto/job/config.h"
#include "proto/job/job.h"
#include "proto/wire/coordinators.h"

#include <stdbool.h>
#include <stdint.h>

struct worker_config {
    char coordinator[COORDINATORS_LIST];
    char keys[LIMIT_PATH];                        /* empty: the unit's */
    char listen[256], advertise[240];             /* empty: worker_listen.h */
    char name[LIMIT_NAME];                        /* empty: HOST-INSTANCE or HOST-PID */
    char metrics[256], metrics_token[LIMIT_PATH]; /* may be empty */
    uint32_t lanes, cores, io_threads;
    char devices[DEVICE_LIST_TEXT]; /* "0,1"; empty: not set */
    enum backend_kind backend;
    bool backend_given, allow_commands, insecure_plaintext;
    struct string_list set; /* owned; begins with data.cache=CACHE if there is one */
};

/* path NULL: defaults and `set` ("key=value") alone. After 0 the caller calls
 * worker_config_free. */
int worker_config_load(const char *path, const struct string_list *set, struct worker_config *out,
                       struct err *e);
void worker_config_free(struct worker_config *c);

#endif
