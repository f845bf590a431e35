/* admin.h: the control messages of a shard: tables, runs, fences, the map, HELLO, STOP. The pushes
 * so far are settled before each (push_group_settle), so that no push lies between admission and
 * application, and each is journalled before its reply. s->in holds the request, s->m its
 * frames. */
#ifndef SERVER_SHARD_ADMIN_H
#define SERVER_SHARD_ADMIN_H

#include "server/shard/shard.h"

void admin_hello(struct shard *s, peer_t from);
void admin_table_create(struct shard *s, peer_t from);
void admin_run_open(struct shard *s, peer_t from);
void admin_run_drop(struct shard *s, peer_t from);
void admin_fences(struct shard *s, peer_t from);
void admin_fence(struct shard *s, peer_t from);
void admin_map_set(struct shard *s, peer_t from);
void admin_names_set(struct shard *s, peer_t from);
void admin_taken_set(struct shard *s, peer_t from);
void admin_keylist(struct shard *s, peer_t from);
void admin_stop(struct shard *s, peer_t from);
/* Called after a new map, shard number or table. Tells the engine which tablets are led; when these
 * have changed, pushes that bsp holds are refused. NOMEM, with e. */
int admin_take_map(struct shard *s, struct err *e);

/* INSPECT (one row by key) and SHARD_STATUS (the shard's own figures), both as JSON text in the
 * reply's frame. */
void admin_inspect(struct shard *s, peer_t from);
void admin_status(struct shard *s, peer_t from);

#endif
