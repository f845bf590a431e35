/* msg.h: a message as every layer sees it: one packed header and at most two raw little-endian
 * frames.
 *
 * Who owns a message frees it, once. Sending gives it away, whatever send answers. A frame's bytes
 * are 8-byte aligned and stay where they are until msg_free: a shard journals and applies a push
 * from the very bytes that came in. The pool behind frames is thread-safe, so that a message may be
 * freed on another thread than it was made on. */
#ifndef PROTO_BASE_MSG_H
#define PROTO_BASE_MSG_H

#include "proto/base/limits.h"

#include <stddef.h>
#include <stdint.h>

struct frame {
    void *data; /* owned by the message, through release */
    size_t bytes;
    void (*release)(void *data, void *hint); /* NULL: nothing to release */
    void *hint;
};

struct msg {
    uint32_t frame_count; /* 1..LIMIT_FRAMES; frame 0 is the packed header (proto/wire) */
    struct frame frame[LIMIT_FRAMES];
    struct msg *next; /* for whoever owns it: queues */
};

/* A message without frames; NULL when out of memory. */
struct msg *msg_new(void);
void msg_free(struct msg *m); /* NULL is fine */
/* Appends a frame of `bytes` from the pool, uninitialised; returns its bytes, or NULL (out of
 * memory, or too many frames). */
void *msg_add(struct msg *m, size_t bytes);
/* Appends bytes that stay elsewhere; release(data, hint) is called once, on any thread. */
int msg_add_borrowed(struct msg *m, void *data, size_t bytes, void (*release)(void *, void *),
                     void *hint);
/* Bytes of all frames. */
size_t msg_bytes(const struct msg *m);

/* Bounds what the pool keeps of released frames, all together; until then it is each size's own
 * bound alone. */
void msg_keep(uint64_t bytes);
/* Frames handed out and not yet released, and calls of malloc behind the pool: both stay flat on a
 * warm hot path. */
uint64_t msg_frames_live(void);
uint64_t msg_allocations(void);

#endif
