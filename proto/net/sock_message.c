/* sock_message.c: messages in and out of a socket, without copies of large frames.
 *
 * 1. A message is sent whole or not at all: only its first frame may return EAGAIN (on a ROUTER the
 *    routing id). [test: net_full_peer_answers_busy_and_then_gets_all,
 *    net_frames_of_every_size_are_aligned_and_whole]
 * 2. Frames of a received message are 8-byte aligned and pin only their own memory: small ones, and
 *    those that ZeroMQ decoded inside a shared receive buffer, are copied into the pool. [assert:
 *    sock_receive]
 * 3. A message of more than LIMIT_FRAMES frames is read to its end, one frame at a time, and no
 *    part of it is kept. [assert: sock_receive] [test: net_foreign_messages_harm_nobody] */
#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "proto/net/sock.h"
#include "proto/net/sock_inner.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ZeroMQ reads into 8 KiB buffers and delivers smaller frames as parts of them, which pins the
 * whole buffer; bigger ones get their own memory. */
#define COPY_IN_BYTES 8192u
/* Below this size a copy costs less than the bookkeeping of a borrowed frame. ThreadSanitizer does
 * not see how ZeroMQ passes a message between threads and would report every release on an I/O
 * thread as a race, so under it every frame is copied. */
#ifdef __SANITIZE_THREAD__
#define COPY_OUT_BYTES LIMIT_FRAME_BYTES
#else
#define COPY_OUT_BYTES 512u
#endif
#define HOLDERS_KEPT 1024u
/* ZMTP's header of a frame: flags, and the length in one byte or in eight. */
#define FRAME_HEAD_SHORT 2u
#define FRAME_HEAD_LONG 9u

/* ---- receiving ------------------------------------------------------------------------------- */

/* Keeps a received frame's zmq_msg_t while a message borrows its bytes. One list for the process:
 * frames are freed on any thread. */
struct holder {
    zmq_msg_t z;
    struct holder *next;
};

static pthread_mutex_t holder_lock = PTHREAD_MUTEX_INITIALIZER;
static struct holder *holder_free;
static unsigned holder_kept;

static struct holder *holder_take(void)
{
    pthread_mutex_lock(&holder_lock);
    struct holder *h = holder_free;
    if (h != NULL) {
        holder_free = h->next;
        holder_kept--;
    }
    pthread_mutex_unlock(&holder_lock);
    if (h != NULL)
        return h;
    return malloc(sizeof(*h));
}

static void holder_give(struct holder *h)
{
    pthread_mutex_lock(&holder_lock);
    bool keep = holder_kept < HOLDERS_KEPT;
    if (keep) {
        h->next = holder_free;
        holder_free = h;
        holder_kept++;
    }
    pthread_mutex_unlock(&holder_lock);
    if (!keep)
        free(h);
}

static void holder_release(void *data, void *hint)
{
    (void)data;
    struct holder *h = hint;
    zmq_msg_close(&h->z);
    holder_give(h);
}

/* Adds the frame z to m: a copy of it, or the frame itself, which leaves z empty. The caller closes
 * z. */
static int frame_take(struct msg *m, zmq_msg_t *z)
{
    size_t bytes = zmq_msg_size(z);
    void *data = zmq_msg_data(z);
    if (bytes == 0) {
        static uint64_t nothing;
        return msg_add_borrowed(m, &nothing, 0, NULL, NULL);
    }
    if (bytes <= COPY_IN_BYTES || ((uintptr_t)data & 7u) != 0) {
        void *copy = msg_add(m, bytes);
        if (copy == NULL)
            return SHOAL_E_NOMEM;
        memcpy(copy, data, bytes);
        return 0;
    }
    struct holder *h = holder_take();
    if (h == NULL)
        return SHOAL_E_NOMEM;
    zmq_msg_init(&h->z);
    zmq_msg_move(&h->z, z);
    int rc = msg_add_borrowed(m, data, bytes, holder_release, h);
    if (rc != 0) {
        zmq_msg_close(&h->z);
        holder_give(h);
    }
    return rc;
}

/* Reads the next frame into z (initialised) and adds its size on the line to *line. */
static int frame_read(struct sock *s, zmq_msg_t *z, uint64_t *line)
{
    for (;;) {
        int bytes = zmq_msg_recv(z, s->zmq, ZMQ_DONTWAIT);
        if (bytes >= 0) {
            uint64_t all = (uint64_t)bytes;
            if (s->curve)
                all += SOCK_CURVE_BYTES;
            *line += all + (all > UINT8_MAX ? FRAME_HEAD_LONG : FRAME_HEAD_SHORT);
            return 0;
        }
        if (errno != EINTR)
            return SHOAL_E_AGAIN;
    }
}

/* Over ipc ZeroMQ gives ":uid:gid:pid", preceded by "localhost" where glibc calls the machine that.
 * The kernel recorded them when the connection was made. No tcp address has this form. */
static bool user_read(const char *address, uint32_t *user, uint32_t *group)
{
    uint32_t process;
    int end = 0;
    if (strncmp(address, "localhost", 9) == 0)
        address += 9;
    return sscanf(address, ":%" SCNu32 ":%" SCNu32 ":%" SCNu32 "%n", user, group, &process, &end) ==
               3 &&
           address[end] == 0;
}

/* Reads the properties that the connection's handshake attached to each of its frames. */
static void who_take(const struct sock *s, zmq_msg_t *z, struct sock_id *from)
{
    const char *key = NULL, *address = zmq_msg_gets(z, "Peer-Address");
    if (s->curve)
        key = zmq_msg_gets(z, "User-Id");
    text_copy(from->key, sizeof from->key, text_or(key, ""));
    from->local = address != NULL && user_read(address, &from->user, &from->group);
    if (from->local)
        (void)snprintf(from->address, sizeof from->address, "uid:%" PRIu32, from->user);
    else
        text_copy(from->address, sizeof from->address, text_or(address, ""));
}

int sock_receive(struct sock *s, struct sock_id *from, struct msg **out)
{
    zmq_msg_t z;
    uint64_t line = 0;
    zmq_msg_init(&z);
    int rc = frame_read(s, &z, &line);
    if (rc != 0) {
        zmq_msg_close(&z);
        if (s->watch.conns != NULL)
            conns_drained(s->watch.conns);
        return rc;
    }
    bool have_frame = true;
    if (s->router) {
        size_t bytes = zmq_msg_size(&z);
        SHOAL_ASSERT(bytes > 0 && bytes <= SOCK_ID_BYTES); /* ZeroMQ's own prefix */
        from->bytes = (uint8_t)bytes;
        memcpy(from->data, zmq_msg_data(&z), bytes);
        line = 0; /* the routing id is not sent on the line */
        have_frame = zmq_msg_more(&z) && frame_read(s, &z, &line) == 0;
        /* Read from the second frame: ZeroMQ does not tell the connection of the prefix when it has
         * looked at the message before (sock_readable). */
        from->connection = s->watch.conns != NULL && have_frame ? zmq_msg_get(&z, ZMQ_SRCFD) : -1;
        who_take(s, &z, from);
    }
    struct msg *m = msg_new();
    rc = have_frame ? 0 : SHOAL_E_TOO_BIG;
    if (m == NULL)
        rc = SHOAL_E_NOMEM;
    for (uint32_t count = 1; have_frame; count++) {
        bool more = zmq_msg_more(&z);
        if (rc == 0 && count + more > LIMIT_FRAMES)
            rc = SHOAL_E_TOO_BIG;
        if (rc == 0)
            rc = frame_take(m, &z);
        if (rc != 0 && m != NULL) { /* read on to the end, but keep nothing */
            msg_free(m);
            m = NULL;
        }
        SHOAL_ASSERT(m == NULL || ((uintptr_t)m->frame[m->frame_count - 1].data & 7u) == 0); /* 2 */
        have_frame = more && frame_read(s, &z, &line) == 0;
    }
    zmq_msg_close(&z);
    if (s->watch.conns != NULL) {
        if (!conns_has(s->watch.conns, from->connection)) /* a new connection */
            sock_watch_step(s);
        conns_delivered(s->watch.conns, from->connection, line);
    }
    SHOAL_ASSERT(rc == 0 ? m->frame_count <= LIMIT_FRAMES : m == NULL); /* 3 */
    *out = m;
    return rc;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Makes z from a frame; a lent frame's bytes are passed without a copy, and ZeroMQ releases them.
 * Never fails: without memory z is empty, and the receiver's decoder refuses it as a frame of a
 * wrong size. */
static void frame_give(zmq_msg_t *z, struct frame *f, bool lend)
{
    if (lend && f->release != NULL &&
        zmq_msg_init_data(z, f->data, f->bytes, f->release, f->hint) == 0) {
        f->release = NULL;
        return;
    }
    if (zmq_msg_init_size(z, f->bytes) != 0)
        zmq_msg_init(z);
    else if (f->bytes > 0)
        memcpy(zmq_msg_data(z), f->data, f->bytes);
}

/* 0 or the errno. z is empty afterwards in any case. */
static int frame_write(struct sock *s, zmq_msg_t *z, bool more)
{
    int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
    int rc = 0;
    while (zmq_msg_send(z, s->zmq, flags) < 0) {
        rc = errno;
        if (rc != EINTR) {
            zmq_msg_close(z);
            return rc;
        }
    }
    return 0;
}

int sock_send(struct sock *s, const struct sock_id *to, struct msg *m)
{
    SHOAL_ASSERT(m->frame_count >= 1 && m->frame_count <= LIMIT_FRAMES &&
                 s->router == (to != NULL));
    zmq_msg_t z;
    int rc = 0;
    if (s->router) {
        if (zmq_msg_init_size(&z, to->bytes) != 0)
            return SHOAL_E_AGAIN;
        memcpy(zmq_msg_data(&z), to->data, to->bytes);
        rc = frame_write(s, &z, true);
    }
    for (uint32_t i = 0; rc == 0 && i < m->frame_count; i++) {
        /* A DEALER's first frame may be refused and is then needed again, so it is copied. It is a
         * header, and small. */
        bool lend = m->frame[i].bytes > COPY_OUT_BYTES && (s->router || i > 0);
        frame_give(&z, &m->frame[i], lend);
        int failed = frame_write(s, &z, i + 1 < m->frame_count);
        if (i == 0 && !s->router)
            rc = failed;
        /* A later frame fails only when the pipe died during the message. ZeroMQ then still expects
         * the remaining frames, and drops them. */
    }
    if (rc != 0)
        return rc == EAGAIN ? SHOAL_E_AGAIN : SHOAL_E_UNAVAILABLE;
    msg_free(m);
    return 0;
}
