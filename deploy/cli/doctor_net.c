/* doctor_net.c: checks of what a daemon needs from the network: ports, names, the coordinator's
 * calendar; and of its keys. */
#include "deploy/cli/doctor.h"
#include "proto/base/file.h"
#include "proto/job/signature.h"
#include "proto/net/keyfile.h"
#include "proto/net/keylist.h"
#include "proto/net/name.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLOCK_MOST_S 3
#define LIST_BYTES_MAX ((size_t)1 << 20)

/* ---- ports ---- */

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

static void port_look(const struct doctor_host *h, struct doctor_report *r, unsigned port)
{
    static const char *const own[] = {
        [DOCTOR_SERVER] = "shoal-server", [DOCTOR_COORDINATOR] = "shoal-coordinat"}; /* 15 bytes */
    char name[32], pid[32];
    uint64_t inode = listener_in(h, "/proc/net/tcp", port);
    if (inode == 0)
        inode = listener_in(h, "/proc/net/tcp6", port);
    if (inode == 0) {
        doctor_fine(r, "port %u is free", port);
        return;
    }
    owner_of(h, inode, name, pid);
    if (name[0] == '\0')
        doctor_wrong(
            r,
            "port %u of listen is taken by a process that this user may not see: run shoal "
            "doctor as root for its name, then end it or set another port in listen",
            port);
    else if (strcmp(name, own[h->settings->kind]) == 0)
        doctor_fine(r, "port %u is open: %s runs as process %s", port, name, pid);
    else
        doctor_wrong(r,
                     "port %u of listen is taken by %s (process %s): end it, or set another port "
                     "in listen",
                     port, name, pid);
}

void doctor_check_ports(const struct doctor_host *h, struct doctor_report *r)
{
    const struct doctor_settings *s = h->settings;
    char folder[sizeof s->listen];
    if (s->listen[0] == '\0' || (s->kind != DOCTOR_SERVER && s->kind != DOCTOR_COORDINATOR))
        return;
    if (strncmp(s->listen, "tcp://", 6) == 0) {
        const char *colon = strrchr(s->listen, ':');
        unsigned port = (unsigned)strtoul(colon + 1, NULL, 10);
        uint32_t ports = s->kind == DOCTOR_SERVER ? s->shards : 1;
        for (uint32_t i = 0; i < ports && port > 0; i++)
            port_look(h, r, port + i);
        return;
    }
    if (strncmp(s->listen, "ipc://", 6) != 0 || strncmp(s->listen + 6, "/run/shoal/", 11) == 0)
        return; /* systemd makes a unit's folder */
    (void)snprintf(folder, sizeof folder, "%s", s->listen + 6);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder)
        return;
    *slash = '\0';
    if (access(folder, F_OK) != 0)
        doctor_wrong(r,
                     "the folder %s of listen is not there: make it (mkdir -p %s) for the "
                     "daemon's user, or set another path",
                     folder, folder);
    else
        doctor_fine(r, "the folder of %s is there", s->listen);
}

/* ---- names ---- */

static void name_look(const struct doctor_host *h, struct doctor_report *r, const char *key,
                      const char *endpoint)
{
    char numeric[256];
    struct err e = {0};
    if (!name_in(endpoint))
        return;
    if (h->probe->resolve(endpoint, numeric, &e) != 0)
        doctor_wrong(r, "%s: %s: %s", key, endpoint, e.text);
    else
        doctor_fine(r, "%s: %s is %s", key, endpoint, numeric);
}

void doctor_check_names(const struct doctor_host *h, struct doctor_report *r)
{
    const struct doctor_settings *s = h->settings;
    static const char scheme[] = "zookeeper://";
    struct coordinators c;
    struct err e;
    char endpoint[300];
    name_look(h, r, "listen", s->listen);
    if (s->advertise[0] != '\0') {
        (void)snprintf(endpoint, sizeof endpoint, "tcp://%.200s:1", s->advertise);
        name_look(h, r, "advertise", endpoint);
    }
    if (s->coordinator[0] != '\0' && coordinators_parse(s->coordinator, &c, &e) == 0)
        for (uint32_t i = 0; i < c.count; i++)
            name_look(h, r, "coordinator", c.endpoint[i]);
    if (strncmp(s->store, scheme, strlen(scheme)) != 0)
        return;
    const char *at = s->store + strlen(scheme), *end = at + strcspn(at, "/");
    while (at < end) {
        size_t bytes = strcspn(at, ",/");
        (void)snprintf(endpoint, sizeof endpoint, "tcp://%.*s", (int)bytes, at);
        name_look(h, r, "store", endpoint);
        at += bytes + (at[bytes] == ',');
    }
}

/* ---- clock ---- */

void doctor_check_clock(const struct doctor_host *h, struct doctor_report *r)
{
    const char *coordinator = h->settings->coordinator;
    struct err e = {0};
    int64_t ahead_s;
    if (coordinator[0] == '\0')
        return;
    if (h->probe->clock(coordinator, &ahead_s, &e) != 0)
        doctor_wrong(r, "the coordinator at %s cannot be asked for its time: %s", coordinator,
                     e.text);
    else if (ahead_s > CLOCK_MOST_S || ahead_s < -CLOCK_MOST_S)
        doctor_wrong(r,
                     "this machine's calendar is %" PRId64 " s %s that of the coordinator at %s: "
                     "run a time service (chrony) on both; event times and the times in logs would "
                     "differ",
                     ahead_s < 0 ? -ahead_s : ahead_s, ahead_s > 0 ? "behind" : "ahead of",
                     coordinator);
    else
        doctor_fine(r, "this machine and the coordinator at %s agree within %d s", coordinator,
                    CLOCK_MOST_S);
}

/* ---- keys ---- */

static void list_look(struct doctor_report *r, const char *path)
{
    struct keylist *list = NULL;
    struct stat st;
    struct err e;
    char *text;
    size_t bytes;
    if (file_read_whole(path, LIST_BYTES_MAX, &text, &bytes) != 0) {
        doctor_wrong(r,
                     "allow: %s cannot be read: %s; make it (a line of shoal keygen for each "
                     "daemon and person), or correct allow",
                     path, strerror(errno));
        return;
    }
    int rc = keylist_parse(text, bytes, path, &list, &e);
    free(text);
    if (rc != 0)
        doctor_wrong(r, "allow: %s; correct that line", e.text);
    else if (stat(path, &st) == 0 && (st.st_mode & S_IWOTH) != 0)
        doctor_wrong(
            r,
            "allow: %s has mode %04o, so any user can let keys in: chmod 0644 %s, and look "
            "through its lines",
            path, (unsigned)(st.st_mode & 07777), path);
    else
        doctor_fine(r, "allow: %u keys", list->count);
    keylist_free(list);
}

static void signers_look(struct doctor_report *r, const char *path)
{
    struct signature_signers *signers = NULL;
    struct err e;
    if (signature_signers_read(path, &signers, &e) != 0)
        doctor_wrong(r, "checkpoint_signers: %s", e.text);
    else
        doctor_fine(r, "checkpoint_signers: %s can be read", path);
    signature_signers_free(signers);
}

/* The keys that units are handed. A user that may not look into their folder sees none. */
static void unit_keys_look(const struct doctor_host *h, struct doctor_report *r)
{
    char folder[DOCTOR_PATH], path[DOCTOR_PATH];
    struct file_walk w;
    const char *name;
    uint32_t wrong = r->problems, count = 0;
    (void)file_walk_open(&w, doctor_below(h, folder, "/etc/shoal/keys"));
    while ((name = file_walk_next(&w)) != NULL) {
        struct keyfile *keys = NULL;
        struct err e;
        size_t bytes = strlen(name);
        if (bytes < 5 || strcmp(name + bytes - 4, ".key") != 0)
            continue;
        count++;
        if (keyfile_load(doctor_join(path, folder, name), &keys, &e) == SHOAL_E_DENIED)
            doctor_wrong(r, "%s", e.text);
        keyfile_free(keys);
    }
    file_walk_close(&w);
    if (count > 0 && r->problems == wrong)
        doctor_fine(r, "%u keys in %s are their owners' alone", count, folder);
}

void doctor_check_keys(const struct doctor_host *h, struct doctor_report *r)
{
    const struct doctor_settings *s = h->settings;
    struct keyfile *keys = NULL;
    struct err e;
    if (s->keys[0] != '\0') {
        if (keyfile_load(s->keys, &keys, &e) != 0)
            doctor_wrong(r, "keys: %s", e.text);
        else
            doctor_fine(r, "keys: %s is this user's alone", s->keys);
        keyfile_free(keys);
    } else
        unit_keys_look(h, r);
    if (s->allow[0] != '\0')
        list_look(r, s->allow);
    if (s->signers[0] != '\0')
        signers_look(r, s->signers);
}
