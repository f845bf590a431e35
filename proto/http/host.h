/* host.h: distinguishes a request to this server from one to a web site's name that leads here.
 *
 * A hostile site can let its own name point to 127.0.0.1 (DNS rebinding). A browser that shows the
 * site, on this machine or with a tunnel to it, then takes this server for the site, and lets the
 * site's script read all pages: the cluster's names, addresses, errors and figures. The script
 * cannot choose the header Host, which has the site's name. An address, or localhost, is no site's
 * name. */
#ifndef PROTO_HTTP_HOST_H
#define PROTO_HTTP_HOST_H

#include <stdbool.h>

#define HOST_REFUSED                                                                               \
    "the header Host has a name that is not of this server: open http://127.0.0.1:PORT/, or let "  \
    "the proxy set Host to localhost or talk to a unix socket; a server with metrics_token, "      \
    "which "                                                                                       \
    "no site can show, takes any name\n"

/* True for an address, localhost and `own`, the host of `metrics`, with or without a port; and for
 * NULL, no header, which browsers do not do. */
bool host_known(const char *header, const char *own);

#endif
