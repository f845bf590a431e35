/* shake.c: the sentences for failed handshakes. */
#include "proto/net/shake.h"

#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <zmq.h>

const char *shake_why(uint16_t event, uint32_t value)
{
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        return "it left, or said nothing";
    if (event != ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
        return NULL;
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
        return "it takes us for the holder of another key: its key file pins an older or another "
               "one (shoal keygen FILE --rotate)";
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
        return "one side shows a key and the other none: give both `keys`";
    return "it does not speak ZeroMQ's protocol";
}

static const char *before_text(uint64_t before, char out[64])
{
    out[0] = 0;
    if (before > 0)
        (void)snprintf(out, 64, " (%" PRIu64 " more since the last time)", before);
    return out;
}

void shake_failed(struct recent *told, const char *address, const char *why)
{
    uint64_t before;
    char more[64];
    if (recent_tell(told, "", address, why, time_monotonic_ns(), &before))
        log_warn("a handshake of %s failed: %s%s", text_unless_empty(address, "a peer"), why,
                 before_text(before, more));
}

void shake_refused(struct recent *told, const char *endpoint, uint32_t pins)
{
    uint64_t before;
    char more[64];
    if (recent_tell(told, "", endpoint, "refused", time_monotonic_ns(), &before))
        log_warn("%s ends the handshake: its key is not %s that our key file pins, or its "
                 "allow-list lacks our key; asked again%s",
                 endpoint, pins > 1 ? "one of the two" : "the one", before_text(before, more));
}
