/* lost.h: the way back after the coordinator's state was lost. The coordinator has taken the
 * cluster over from its servers (cluster.h), which know their rows but not the job that ran. The
 * log says so, and the status shows it as a problem until the next job. Thread: the coordinator's
 * loop. */
#ifndef SERVER_COORD_FLEET_LOST_H
#define SERVER_COORD_FLEET_LOST_H

struct coord_fleet;

/* Looks in checkpoint_root for the newest checkpoint that a job can go on from, and tells how to go
 * on from it. Called once; it reads at most a thousand manifests. */
void coord_lost_look(struct coord_fleet *f);

#endif
