/* listen.c: parses the address and opens the socket. */
#include "proto/http/listen.h"

#include "proto/base/file.h"
#include "proto/base/secret.h"
#include "proto/base/text.h"
#include "proto/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX "unix:"
#define WAITING 512 /* connections that wait to be accepted */

static int unix_parse(const char *text, struct listen_place *out, struct err *e)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&out->address;
    const char *path = text + strlen(UNIX);
    if (path[0] != '/' || strlen(path) >= sizeof un->sun_path)
        return err_set(e, SHOAL_E_CONFIG,
                       "metrics: %s: expected unix:/PATH, with a path of at most %zu bytes", text,
                       sizeof un->sun_path - 1);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, strlen(path) + 1);
    out->bytes = sizeof *un;
    out->local = true;
    return 0;
}

static bool loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* Divides HOST:PORT; the host loses its brackets. False: it has not that form. */
static bool divide(const char *text, char host[256], char port[8])
{
    const char *colon = strrchr(text, ':');
    size_t bytes = colon == NULL ? 0 : (size_t)(colon - text);
    if (bytes == 0 || bytes >= 256 || strlen(colon + 1) == 0 || strlen(colon + 1) > 5)
        return false;
    bool bracket = text[0] == '[';
    if (bracket != (text[bytes - 1] == ']') || (bracket && bytes < 3))
        return false;
    if (!bracket && memchr(text, ':', bytes) != NULL)
        return false;
    (void)snprintf(host, 256, "%.*s", (int)(bytes - 2 * bracket), text + bracket);
    text_copy(port, 8, colon + 1);
    return strspn(port, "0123456789") == strlen(port) && strtoul(port, NULL, 10) <= 65535;
}

int listen_parse(const char *text, struct listen_place *out, struct err *e)
{
    char port[8], *host = out->host;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    *out = (struct listen_place){.local = false};
    if (strncmp(text, UNIX, strlen(UNIX)) == 0)
        return unix_parse(text, out, e);
    if (!divide(text, host, port))
        return err_set(e, SHOAL_E_CONFIG,
                       "metrics: %s: expected HOST:PORT, [ADDRESS]:PORT or unix:/PATH, such as "
                       "127.0.0.1:9464",
                       text);
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return err_set(e, SHOAL_E_CONFIG, "metrics: %s: %s has no address: %s", text, host,
                       gai_strerror(rc));
    memcpy(&out->address, found->ai_addr, found->ai_addrlen);
    out->bytes = found->ai_addrlen;
    out->local = loopback(&out->address);
    freeaddrinfo(found);
    return 0;
}

int listen_token(const char *path, char out[LISTEN_TOKEN_MAX], struct err *e)
{
    struct stat st = {.st_mode = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), saved;
    ssize_t bytes = -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & secret_file_forbids(path)) == 0)
        bytes = read(fd, out, LISTEN_TOKEN_MAX - 1);
    saved = errno;
    if (fd >= 0)
        close(fd);
    if ((st.st_mode & secret_file_forbids(path)) != 0)
        return err_set(e, SHOAL_E_DENIED,
                       "metrics_token: %s: mode %04o lets others than its owner read it: chmod "
                       "0400 %s, and make another token",
                       path, (unsigned)(st.st_mode & 07777), path);
    if (bytes < 0)
        return err_set(e, SHOAL_E_NOINPUT, "metrics_token: %s: %s", path, strerror(saved));
    while (bytes > 0 && (out[bytes - 1] == '\n' || out[bytes - 1] == '\r'))
        bytes--;
    out[bytes] = '\0';
    bool good = st.st_size < (off_t)LISTEN_TOKEN_MAX && bytes >= (ssize_t)HTTP_TOKEN_LEAST;
    for (ssize_t i = 0; good && i < bytes; i++)
        good = out[i] > ' ' && out[i] < 127;
    if (good)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "metrics_token: %s: expected one word of %u to %u printable characters, such as "
                   "`head -c 24 /dev/urandom | base64` prints",
                   path, HTTP_TOKEN_LEAST, LISTEN_TOKEN_MAX - 2);
}

/* Removes the socket that a daemon has left: one at which no process listens. */
static void stale_remove(const struct listen_place *place)
{
    const char *path = ((const struct sockaddr_un *)&place->address)->sun_path;
    struct stat st;
    if (place->address.ss_family != AF_UNIX || lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&place->address, place->bytes) != 0 &&
        errno == ECONNREFUSED)
        (void)file_unlink(path);
    if (fd >= 0)
        close(fd);
}

int listen_open(const char *text, const struct listen_place *place, int *out, struct err *e)
{
    const int one = 1;
    stale_remove(place);
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, (const struct sockaddr *)&place->address, place->bytes) == 0 &&
        listen(fd, WAITING) == 0) {
        *out = fd;
        return 0;
    }
    int saved = errno;
    if (fd >= 0)
        close(fd);
    const char *advice = "";
    if (saved == EADDRINUSE)
        advice = ": another daemon serves there: give each on this machine an address of its own";
    return err_set(e, SHOAL_E_UNAVAILABLE, "metrics: %s: %s%s", text, strerror(saved), advice);
}
