/* board.h: where the loops of a daemon put their figures, and what HTTP tells of them.
 *
 *     loop:  board_pulse while it makes progress; about once a second, when board_wants:
 *            meter_clear(sheet = board_sheet(b, loop)); ..; board_publish(b, loop, ready, why)
 *     http:  /metrics   the newest sheets and the process's own figures
 *            /healthz   200, or 503 and a sentence: a loop made no progress for BOARD_HANGS_NS
 *            /readyz    200, or 503 and a sentence: a loop is not ready, and why, or made no
 *                       progress for BOARD_SILENT_NS; or the daemon stops
 *
 * An orchestrator may kill a daemon by /healthz, so its bounds are those of the units' WatchdogSec
 * and, until a loop has published for the first time, TimeoutStartSec: one step of a start, such as
 * the opening of a large row store, takes longer than a step of a loop.
 *
 * A loop never waits for HTTP but for the copy of a sheet, some microseconds. A daemon without
 * `metrics` in its file has no board: NULL, which every function takes. */
#ifndef PROTO_HTTP_BOARD_H
#define PROTO_HTTP_BOARD_H

#include "proto/http/http.h"
#include "proto/meter/meter.h"

#include <stdbool.h>
#include <stdint.h>

#define BOARD_SILENT_NS UINT64_C(5000000000)
#define BOARD_HANGS_NS UINT64_C(30000000000)
#define BOARD_START_NS UINT64_C(120000000000)
#define BOARD_PERIOD_NS UINT64_C(1000000000)
#define BOARD_WHY 256u

struct board_options {
    const char *program, *version;
    const char *listen, *token; /* http_options; listen "": no board */
    const char *loop;           /* the noun for a loop: "shard" */
    uint32_t loops;
    const struct http_route *route; /* (routes), further ones, borrowed until board_close */
    uint32_t routes;
};
#define BOARD_ROUTES 8u /* further ones, at most */

struct board;

/* Checks the settings without listening (http_check). */
int board_check(const struct board_options *o, struct err *e);
/* *out NULL: the file asks for none; or the address is taken, which is logged: the daemon works
 * without. Else the errors of http_check. */
int board_open(const struct board_options *o, struct board **out, struct err *e);
void board_close(struct board *b);

/* A stop has begun: the daemon is not ready any more, whatever its loops publish. Any thread; a
 * signal's handler, too. */
void board_stops(struct board *b);

/* The rest: by the loop's own thread. */
void board_pulse(struct board *b, uint32_t loop, uint64_t now_ns);
/* True when a sheet is due; false without a board. */
bool board_wants(struct board *b, uint32_t loop, uint64_t now_ns);
struct meter_sheet *board_sheet(struct board *b, uint32_t loop);
/* Takes the sheet; the next board_sheet is another one. why: a sentence's end, as in "shard-0 is
 * not ready: 12 tablets are not back"; copied. */
void board_publish(struct board *b, uint32_t loop, bool ready, const char *why);

#endif
