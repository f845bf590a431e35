/* sock_inner.h: the state of a ZeroMQ socket: sock.c opens it, sock_watch.c watches its
 * connections, sock_message.c carries messages. An internal header of sock.h. */
#ifndef PROTO_NET_SOCK_INNER_H
#define PROTO_NET_SOCK_INNER_H

#include "proto/net/recent.h"
#include "proto/net/sock.h"

#include <zmq.h>

/* CURVE's overhead of a frame: "\x07MESSAGE", a short nonce, the box's code, flags. */
#define SOCK_CURVE_BYTES 33u

struct sock {
    void *zmq;
    void *context; /* borrowed: the process's */
    int descriptor;
    bool router;
    bool curve; /* the other side shows its key */
    struct {
        struct conns *conns; /* owned; NULL: connections are not watched */
        void *monitor;
        int descriptor;
        uint32_t most;
        uint64_t cut;        /* connections cut because there were too many */
        uint64_t unfinished; /* connections cut for unfinished messages */
        const char *why;     /* the reason of a failed handshake, whose connection ends next */
        struct recent told;
        /* on a DEALER: the last handshake succeeded, and its connection stands */
        bool shaken;
        bool shake_done, shake_failed; /* since the last sock_shake_step */
    } watch;
};

#endif
