/* msg.h: a message as every layer sees it: one packed header and at most three raw little-endian
 * frames.
 *
 * The owner of a message frees it, once; msg_hold adds owners. Sending passes ownership on,
 * whatever send returns. A frame's bytes are 8-byte aligned and do not move until msg_free: a shard
 * journals and applies a push from the very bytes that it received. The pool behind frames is
 * thread-safe, so a message may be freed on another thread than it was made on. */
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
    uint32_t owners;      /* msg_hold */
    struct frame frame[LIMIT_FRAMES];
    struct msg *next; /* for the owner's queues */
};

/* A message without frames; NULL when out of memory. */
struct msg *msg_new(void);
void msg_free(struct msg *m); /* NULL is fine */
/* Gives m one more owner: its bytes stay until each owner has freed it, on any thread. Such a
 * message is not sent. Returns m. */
struct msg *msg_hold(struct msg *m);
/* Appends a frame of `bytes` from the pool, uninitialised; returns its bytes, or NULL (out of
 * memory, or too many frames). m NULL: the message itself had no memory; NULL. */
void *msg_add(struct msg *m, size_t bytes);
/* Appends bytes without a copy; release(data, hint) is called once, on any thread. */
int msg_add_borrowed(struct msg *m, void *data, size_t bytes, void (*release)(void *, void *),
                     void *hint);
/* Bytes of all frames. */
size_t msg_bytes(const struct msg *m);

/* Bounds the bytes of released frames that the pool keeps, over all sizes. Before the first call
 * only each size has its own bound. */
void msg_keep(uint64_t bytes);
/* Frames handed out and not yet released, and calls of malloc behind the pool: both stay flat on a
 * warm hot path. */
uint64_t msg_frames_live(void);
uint64_t msg_allocations(void);

#endif
