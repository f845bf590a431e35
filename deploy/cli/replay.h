/* replay.h: the additions of `shoal replay` to `shoal local`. Thread: main only. */
#ifndef DEPLOY_CLI_REPLAY_H
#define DEPLOY_CLI_REPLAY_H

#include "deploy/cli/begin.h"
#include "deploy/cli/cli.h"
#include "proto/job/job.h"

/* Adds the options of a replay to `set` as keys of the job; a job without a section replay gets
 * one. USAGE, NOMEM; the errors of job_load. */
int replay_set(struct option_line *o, const char *job_path, struct string_list *set, struct err *e);
/* --rewind TIME --of RUN: finds the newest checkpoint of the run that has learnt nothing from that
 * time on. USAGE, NOINPUT; the errors of job_load. */
int replay_rewind(const struct option_line *o, struct begin *begin, struct err *e);

int replay_diff_main(struct option_line *o, struct err *e);

#endif
