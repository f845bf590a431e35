/* legend_inner.h: shared by legend.c (names, and their line in the job's text) and legend_match.c
 * (the numbers of a job's names in the tables). */
#ifndef PROTO_JOB_LEGEND_INNER_H
#define PROTO_JOB_LEGEND_INNER_H

#include "proto/job/legend.h"

extern const char *const legend_list_key[LEGEND_LISTS]; /* the lists' names in the line */

int legend_append(struct legend *n, enum legend_list list, const struct legend_name *x,
                  struct err *e); /* NOMEM */

#endif
