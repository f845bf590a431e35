/* lost.h: the way back where the coordinator's state was lost: it has taken the cluster over from
 * its servers (cluster.h), which know their rows and nothing of the job that ran. It is said in the
 * log, and as a problem of the status until the next job. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_LOST_H
#define SERVER_COORD_LOST_H

struct coord_fleet;

/* Looks for the newest checkpoint in checkpoint_root that a job can go on from, and says the way.
 * Once: it reads manifests, a thousand at most. */
void coord_lost_look(struct coord_fleet *f);

#endif
