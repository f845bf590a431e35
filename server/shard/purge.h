/* purge.h: requests whose run is gone. Thread: the shard's. */
#ifndef SERVER_SHARD_PURGE_H
#define SERVER_SHARD_PURGE_H

struct shard;

/* Runs or leadership changed: whatever waits for a run that is gone is refused with OLD_RUN. */
void purge_requests(struct shard *s);

#endif
