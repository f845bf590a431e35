/* name.c: queries the resolver and the routing table. */
#include "proto/net/name.h"

#include "proto/base/assert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Splits tcp://HOST:PORT into the host, without [], and the port. False: it is another endpoint. */
static bool parts(const char *endpoint, char host[256], char port[16])
{
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) != 0 || colon < endpoint + 7 || strlen(endpoint) >= 256)
        return false;
    const char *from = endpoint + 6, *to = colon;
    if (*from == '[' && to[-1] == ']') {
        from++;
        to--;
    }
    if (snprintf(port, 16, "%s", colon + 1) >= 16)
        return false;
    (void)snprintf(host, 256, "%.*s", (int)(to - from), from);
    return true;
}

static bool numeric_host(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    /* an IPv6 address may have a scope behind '%' */
    return inet_pton(AF_INET, host, address) == 1 || strchr(host, ':') != NULL;
}

bool name_in(const char *endpoint)
{
    char host[256], port[16];
    return parts(endpoint, host, port) && !numeric_host(host) && strcmp(host, "*") != 0 &&
           if_nametoindex(host) == 0;
}

int name_address(const char *numeric, struct sockaddr_storage *out, socklen_t *bytes)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    char host[256], port[16];
    struct addrinfo *list;
    if (!parts(numeric, host, port) || getaddrinfo(host, port, &hints, &list) != 0)
        return SHOAL_E_CONFIG;
    memcpy(out, list->ai_addr, list->ai_addrlen);
    *bytes = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

bool name_any(const char *endpoint)
{
    char host[256], port[16];
    return parts(endpoint, host, port) &&
           (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0);
}

/* Looks up the addresses of a host; the caller frees them. */
static int look_up(const char *host, const char *port, struct addrinfo **out, struct err *e)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    bool any = strcmp(port, "*") == 0;
    int rc = getaddrinfo(host, any ? "0" : port, &hints, out);
    if (rc == 0)
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "the name %s has no address on this machine (%s): see /etc/hosts and the DNS, "
                   "or give an address in its place",
                   host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

/* Writes an address in the form of an endpoint. */
static int address_text(const struct sockaddr *a, socklen_t bytes, char out[64])
{
    char host[60];
    if (getnameinfo(a, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
        return SHOAL_E_UNAVAILABLE;
    (void)snprintf(out, 64, a->sa_family == AF_INET6 ? "[%s]" : "%s", host);
    return 0;
}

/* The first IPv4 address, else the first of all. A listener at a name listens at one address only,
 * so both sides must choose the same. */
static const struct addrinfo *preferred(const struct addrinfo *list)
{
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
        if (a->ai_family == AF_INET)
            return a;
    return list;
}

int name_resolve(const char *endpoint, char numeric[256], struct err *e)
{
    char host[256], port[16], address[64];
    struct addrinfo *list;
    (void)snprintf(numeric, 256, "%s", endpoint);
    if (!name_in(endpoint) || !parts(endpoint, host, port))
        return 0;
    int rc = look_up(host, port, &list, e);
    if (rc != 0)
        return rc;
    const struct addrinfo *a = preferred(list);
    rc = address_text(a->ai_addr, a->ai_addrlen, address);
    freeaddrinfo(list);
    if (rc != 0)
        return err_set(e, rc, "the address of %s cannot be written", host);
    (void)snprintf(numeric, 256, "tcp://%s:%s", address, port);
    return 0;
}

/* Connects a datagram socket, which sends nothing, and reads the socket's own address. */
static int shown_to(const struct addrinfo *a, char address[64])
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return SHOAL_E_UNAVAILABLE;
    int rc = SHOAL_E_UNAVAILABLE;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &bytes) == 0)
        rc = address_text((struct sockaddr *)&own, bytes, address);
    close(fd);
    return rc;
}

int name_toward(const char *endpoint, char address[64], struct err *e)
{
    char host[256], port[16];
    struct addrinfo *list;
    if (!parts(endpoint, host, port))
        return err_set(e, SHOAL_E_UNAVAILABLE, "%s is not reached over a network", endpoint);
    int rc = look_up(host, port, &list, e);
    if (rc != 0)
        return rc;
    rc = shown_to(preferred(list), address);
    freeaddrinfo(list);
    if (rc != 0)
        return err_set(e, rc, "no way from this machine to %s: %s", endpoint, strerror(errno));
    return 0;
}

void name_advertised(const char *advertise, const char *bound, const char *shown, char out[256])
{
    const char *colon = strrchr(bound, ':'), *host = shown;
    if (advertise[0] != 0)
        host = advertise;
    SHOAL_ASSERT(bound[0] != 0);
    bool replaced = host[0] != 0 && colon != NULL && strncmp(bound, "tcp://", 6) == 0 &&
                    (advertise[0] != 0 || name_any(bound)),
         bare = host[0] != '[' && strchr(host, ':') != NULL; /* an address of IPv6 */
    if (replaced && bare)
        snprintf(out, 256, "tcp://[%.200s]%s", host, colon);
    else if (replaced)
        snprintf(out, 256, "tcp://%.200s%s", host, colon);
    else
        snprintf(out, 256, "%s", bound);
}
