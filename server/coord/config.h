/* config.h: coordinator.yaml as a plain value. Everything is checked: an unknown key, a wrong
 * type or a value out of range is refused with file, line and the nearest known key
 * (SHOAL_E_CONFIG).
 *
 *     listen: tcp://127.0.0.1:7000
 *     data_dir: /var/lib/shoal/coordinator
 *     shards: 1                 # of all servers together: a job waits until so many are ready
 *     lease: 10s                # a worker silent for so long is dead
 *     resend: 500ms             # requests to shards are sent again after this
 *     report: DIR/report.json   # written when a job is done; empty: only kept for `shoal`
 *     tensorboard: DIR          # event files of the jobs that run; empty: none
 *     publish: false            # whether jobs may have a command run here (checkpoint.publish)
 *     net: {drop: 0}
 *     insecure_plaintext: false # allow an address that is not loopback */
#ifndef SERVER_COORD_CONFIG_H
#define SERVER_COORD_CONFIG_H

#include "proto/base/limits.h"
#include "proto/job/config.h"

struct coord_config {
    char listen[256];
    char data_dir[LIMIT_PATH];
    char report[LIMIT_PATH], tensorboard[LIMIT_PATH]; /* may be empty */
    uint32_t shards, lease_ms, resend_ms;
    double drop;
    bool insecure_plaintext;
    bool publish;
};

/* path NULL: defaults and `set` ("dotted.key=value") alone. */
int coord_config_load(const char *path, const struct string_list *set, struct coord_config *out,
                      struct err *e);
int coord_config_parse(const char *text, size_t bytes, const char *name,
                       const struct string_list *set, struct coord_config *out, struct err *e);

#endif
