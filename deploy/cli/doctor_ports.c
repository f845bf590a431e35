/* doctor_ports.c: a check of where a daemon listens: `listen` and `metrics`. */
#include "deploy/cli/doctor.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/http/http.h"
#include "proto/net/name.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the process that listens at a port ---- */

/* The inode of the socket that listens at the port, in one of /proc/net/tcp and tcp6; 0: none. */
static uint64_t listener_in(const struct doctor_host *h, const char *table, unsigned port)
{
    char path[DOCTOR_PATH], line[512];
    uint64_t found = 0;
    FILE *f = fopen(doctor_below(h, path, table), "re");
    while (f != NULL && found == 0 && fgets(line, sizeof line, f) != NULL) {
        unsigned at, state;
        uint64_t inode;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*u %*u %" SCNu64, &at, &state,
                   &inode) == 3 &&
            at == port && state == 0x0a)
            found = inode;
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* True when the process has the socket open. */
static bool holds(const struct doctor_host *h, const char *pid, uint64_t inode)
{
    char folder[DOCTOR_PATH], path[DOCTOR_PATH], target[64], want[64];
    struct file_walk w;
    const char *name;
    bool found = false;
    (void)snprintf(want, sizeof want, "socket:[%" PRIu64 "]", inode);
    (void)snprintf(path, sizeof path, "/proc/%.32s/fd", pid);
    (void)file_walk_open(&w, doctor_below(h, folder, path));
    while (!found && (name = file_walk_next(&w)) != NULL) {
        ssize_t n = readlink(doctor_join(path, folder, name), target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, want) == 0;
    }
    file_walk_close(&w);
    return found;
}

/* The name and the process that hold the socket; name "": none that this user may see. */
static void owner_of(const struct doctor_host *h, uint64_t inode, char name[32], char pid[32])
{
    char path[DOCTOR_PATH];
    struct file_walk w;
    const char *at;
    name[0] = '\0';
    (void)file_walk_open(&w, doctor_below(h, path, "/proc"));
    while (name[0] == '\0' && (at = file_walk_next(&w)) != NULL) {
        if (!isdigit((unsigned char)at[0]) || !holds(h, at, inode))
            continue;
        (void)snprintf(pid, 32, "%.31s", at);
        (void)snprintf(path, sizeof path, "/proc/%s/comm", pid);
        doctor_text(h, path, name, 32);
    }
    file_walk_close(&w);
}

/* ---- the places of a file ---- */

struct place {
    const char *key; /* key of the configuration file: the place is its value */
    char endpoint[256];
    unsigned port, ports; /* and the ports - 1 after it; 0: any */
    char holder[32];      /* process of the daemon's own kind that has them; "": none */
};

static void port_look(const struct doctor_host *h, struct doctor_report *r, struct place *p,
                      unsigned port)
{
    static const char *const own[] = {[DOCTOR_SERVER] = "shoal-server",
                                      [DOCTOR_COORDINATOR] = "shoal-coordinat", /* 15 bytes */
                                      [DOCTOR_WORKER] = "shoal-worker"};
    char name[32], pid[32];
    uint64_t inode = listener_in(h, "/proc/net/tcp", port);
    if (inode == 0)
        inode = listener_in(h, "/proc/net/tcp6", port);
    if (inode == 0) {
        doctor_fine(r, "port %u of %s is free", port, p->key);
        return;
    }
    owner_of(h, inode, name, pid);
    if (name[0] == '\0')
        doctor_wrong(
            r,
            "port %u of %s is taken by a process that this user may not see: run shoal "
            "doctor as root for its name, and set another port in %s, or end that process if it "
            "is not needed",
            port, p->key, p->key);
    else if (strcmp(name, own[h->settings->kind]) == 0) {
        doctor_fine(r, "port %u of %s is open: %s runs as process %s", port, p->key, name, pid);
        text_copy(p->holder, sizeof p->holder, pid);
    } else
        doctor_wrong(
            r,
            "port %u of %s is taken by %s (process %s): set another port in %s, or end that "
            "process if it is not needed",
            port, p->key, name, pid, p->key);
}

static void tcp_look(const struct doctor_host *h, struct doctor_report *r, struct place *p)
{
    if (!h->probe->own(p->endpoint)) {
        doctor_wrong(r,
                     "%s: %s is no address of this machine, so the daemon cannot listen there: set "
                     "one that `ip address` shows",
                     p->key, p->endpoint + strlen("tcp://"));
        return;
    }
    for (unsigned i = 0; i < p->ports && p->port > 0; i++)
        port_look(h, r, p, p->port + i);
}

/* systemd makes the folder of a unit. */
static void folder_look(struct doctor_report *r, const char *key, const char *socket)
{
    char folder[256];
    text_copy(folder, sizeof folder, socket);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder || strncmp(folder, "/run/shoal/", 11) == 0)
        return;
    *slash = '\0';
    if (access(folder, F_OK) != 0)
        doctor_wrong(r,
                     "the folder %s of %s is not there: make it (mkdir -p %s) for the daemon's "
                     "user, or set another path",
                     folder, key, folder);
    else
        doctor_fine(r, "the folder of %s, %s, is there", key, folder);
}

static void place_look(const struct doctor_host *h, struct doctor_report *r, struct place *p)
{
    if (strncmp(p->endpoint, "ipc://", 6) == 0)
        folder_look(r, p->key, p->endpoint + 6);
    if (strncmp(p->endpoint, "tcp://", 6) != 0)
        return;
    p->port = (unsigned)strtoul(strrchr(p->endpoint, ':') + 1, NULL, 10);
    tcp_look(h, r, p);
}

/* The daemon's own rules for `metrics` come first. */
static void metrics_look(const struct doctor_host *h, struct doctor_report *r, struct place *p)
{
    const struct doctor_settings *s = h->settings;
    const struct http_options o = {.listen = s->metrics, .token = s->token};
    struct err e;
    if (http_check(&o, &e) != 0)
        doctor_wrong(r, "%s", e.text);
    else if (strncmp(s->metrics, "unix:", 5) == 0)
        (void)snprintf(p->endpoint, sizeof p->endpoint, "ipc://%.240s", s->metrics + 5);
    else
        (void)snprintf(p->endpoint, sizeof p->endpoint, "tcp://%.240s", s->metrics);
    place_look(h, r, p);
}

void doctor_check_ports(const struct doctor_host *h, struct doctor_report *r)
{
    const struct doctor_settings *s = h->settings;
    struct place listen = {.key = "listen", .ports = 1}, metrics = {.key = "metrics", .ports = 1};
    if (s->kind == DOCTOR_SERVER)
        listen.ports = s->shards;
    text_copy(listen.endpoint, sizeof listen.endpoint, s->listen);
    place_look(h, r, &listen);
    if (s->metrics[0] != '\0')
        metrics_look(h, r, &metrics);
    if (listen.holder[0] != '\0' && metrics.holder[0] != '\0' &&
        strcmp(listen.holder, metrics.holder) != 0)
        doctor_wrong(r,
                     "metrics: %s is served by process %s, and the daemon of this file is process "
                     "%s, which works without metrics: give each daemon on this machine an address "
                     "of its own",
                     s->metrics, metrics.holder, listen.holder);
}
