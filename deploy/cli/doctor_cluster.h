/* doctor_cluster.h: the checks of a cluster: each compares what the coordinator's status and the
 * daemons' own answers tell, and asks nothing itself, so that a test can plant a fault. */
#ifndef DEPLOY_CLI_DOCTOR_CLUSTER_H
#define DEPLOY_CLI_DOCTOR_CLUSTER_H

#include "deploy/cli/doctor.h"
#include "deploy/cli/reader.h"

/* ---- what they look at ---- */

struct doctor_met {     /* the answer of a shard, or the coordinator, to a question from here */
    const char *server; /* the server that has the shard; borrowed from the status */
    uint32_t index;     /* on its server */
    bool answers;       /* or was not asked */
    struct wire_HELLO_reply hello;
    double ahead_s;   /* its calendar, against ours; NAN: not known */
    struct err wrong; /* unless it answers */
    uint32_t unasked; /* other shards of its server that were not asked for that reason */
};

struct doctor_view {
    /* status: json_printable; the rest: parts of it */
    const struct json *status, *cluster, *servers, *workers;
    struct doctor_met coordinator, *met; /* met: (mets), shards that lead, then those that follow */
    size_t mets;
};

/* ---- the owners of shards and tablets ---- */

enum { DOCTOR_NAME = LIMIT_NAME + 16 };
/* "NAME/INDEX" of a shard's server. Returns out. */
const char *doctor_cluster_name(const struct json *shard, char out[DOCTOR_NAME]);
/* The reason why a shard does not serve, and what to do; NULL: it fits. advice NULL: the
 * coordinator's problems tell of it. */
struct doctor_state {
    const char *text, *advice;
};
const struct doctor_state *doctor_cluster_state(const struct json *shard,
                                                const struct json *cluster);

/* ---- the checks ---- */

void doctor_cluster_known(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_problems(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_notes(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_shards(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_answers(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_builds(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_clocks(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_budgets(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_room(const struct doctor_view *v, struct doctor_report *r);
void doctor_cluster_map(const struct doctor_view *v, struct doctor_report *r);

#endif
