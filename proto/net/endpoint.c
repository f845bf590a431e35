/* endpoint.c: reads an address to listen at; only a literal loopback address counts as one, never a
 * name that looks like it. */
#include "proto/net/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool host_is_loopback(const char *host)
{
    struct in_addr v4;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return strcmp(host, "[::1]") == 0;
}

int endpoint_check(const char *endpoint, bool insecure, char bindable[256], struct err *e)
{
    if (strlen(endpoint) > 200)
        return malformed(endpoint, "it is longer than 200 bytes", e);
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        if (endpoint[6] == '\0' || strlen(endpoint + 6) > 107)
            return malformed(endpoint, "the path must have 1 to 107 bytes", e);
        snprintf(bindable, 256, "%s", endpoint);
        return 0;
    }
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) != 0 || colon < endpoint + 7)
        return malformed(endpoint, "it has no host and port", e);
    if (!port_valid(colon + 1))
        return malformed(endpoint, "the port must be 0 to 65535 or *", e);
    char host[256];
    snprintf(host, sizeof(host), "%.*s", (int)(colon - endpoint - 6), endpoint + 6);
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof(host), "127.0.0.1");
    if (!insecure && !host_is_loopback(host)) {
        return err_set(e, SHOAL_E_DENIED,
                       "refusing to listen at \"%s\": other machines would reach it without a key; "
                       "listen at 127.0.0.1, or set "
                       "insecure_plaintext: yes in a network that you trust",
                       endpoint);
    }
    snprintf(bindable, 256, "tcp://%.200s%s", host, colon);
    return 0;
}
