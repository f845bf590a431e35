/* sock_endpoint.c: endpoints as text: which ones `listen` may name, and whether a process listens
 * at a path. */
#include "proto/net/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int malformed(const char *endpoint, const char *why, struct err *e)
{
    return err_set(e, SHOAL_E_CONFIG,
                   "cannot listen at \"%.200s\": %s; give tcp://HOST:PORT or ipc://PATH", endpoint,
                   why);
}

static bool port_valid(const char *port)
{
    if (strcmp(port, "*") == 0)
        return true;
    size_t digits = strspn(port, "0123456789");
    return digits >= 1 && digits <= 5 && port[digits] == '\0' && strtol(port, NULL, 10) <= 65535;
}

bool sock_endpoint_tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

int sock_endpoint_check(const char *endpoint, bool plain, struct err *e)
{
    if (strlen(endpoint) > 200)
        return malformed(endpoint, "it is longer than 200 bytes", e);
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        if (endpoint[6] == '\0' || strlen(endpoint + 6) > 107)
            return malformed(endpoint, "the path must have 1 to 107 bytes", e);
        return 0;
    }
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) != 0 || colon < endpoint + 7)
        return malformed(endpoint, "it has no host and port", e);
    if (!port_valid(colon + 1))
        return malformed(endpoint, "the port must be 0 to 65535 or *", e);
    if (!plain)
        return err_set(
            e, SHOAL_E_CONFIG,
            "refusing to listen at \"%s\": whoever reaches it, from this machine or "
            "another, would be obeyed; make keys (shoal keygen) and name them with `keys` "
            "(a coordinator's `allow` lists who may come), or listen at ipc://PATH, or, "
            "in a network that you trust, set insecure_plaintext: yes",
            endpoint);
    return 0;
}

int sock_ipc_connect(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = endpoint + strlen("ipc://");
    if (strncmp(endpoint, "ipc://", 6) != 0 || strlen(path) >= sizeof(address.sun_path))
        return EINVAL;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int rc = 0;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        rc = errno;
    close(fd);
    return rc;
}

bool sock_ipc_answers(const char *endpoint)
{
    int rc = sock_ipc_connect(endpoint);
    return rc == 0 || rc == EAGAIN;
}
