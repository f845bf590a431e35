/* host.c: looks at the header Host; host.h. */
#include "proto/http/host.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool host_known(const char *header, const char *own)
{
    char host[256];
    unsigned char address[sizeof(struct in6_addr)];
    bool bracket = header != NULL && header[0] == '[';
    if (header == NULL)
        return true;

    size_t bytes = strcspn(header, bracket ? "]" : ":");
    if (bytes >= sizeof host)
        return false;
    (void)snprintf(host, sizeof host, "%.*s", (int)bytes - bracket, header + bracket);
    if (bracket)
        return (strcmp(header + bytes, "]") == 0 || strncmp(header + bytes, "]:", 2) == 0) &&
               inet_pton(AF_INET6, host, address) == 1;
    return inet_pton(AF_INET, host, address) == 1 || strcasecmp(host, "localhost") == 0 ||
           (own[0] != '\0' && strcasecmp(host, own) == 0);
}
