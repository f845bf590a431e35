/* doctor_probe.c: the machine itself behind struct doctor_probe. */
#include "dense/backend.h"
#include "deploy/cli/doctor.h"
#include "deploy/cli/reader_inner.h"
#include "embedding/engine.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/module.h"
#include "proto/base/time.h"
#include "proto/http/http.h"
#include "proto/net/name.h"
#include "proto/net/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20, PIECES = 16, SYNCED = 4, SYNCS = 5, SYNC_BYTES = 4096 };
enum { ANSWER_MS = 3000, PATIENCE_MS = 10000 };
#define WRITE_NS UINT64_C(2000000000) /* a slow disk gets fewer pieces */

/* ---- files below the root -------------------------------------------------------------------- */

const char *doctor_join(char out[DOCTOR_PATH], const char *folder, const char *name)
{
    (void)snprintf(out, DOCTOR_PATH, "%s/%s", folder, name);
    return out;
}

const char *doctor_below(const struct doctor_host *h, char out[DOCTOR_PATH], const char *path)
{
    (void)snprintf(out, DOCTOR_PATH, "%s%s", h->probe->root, path);
    return out;
}

int doctor_open(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void doctor_text(const struct doctor_host *h, const char *path, char *out, size_t bytes)
{
    char whole[DOCTOR_PATH];
    out[0] = '\0';
    FILE *f = fopen(doctor_below(h, whole, path), "re");
    if (f == NULL)
        return;
    size_t got = fread(out, 1, bytes - 1, f);
    (void)fclose(f);
    while (got > 0 && out[got - 1] == '\n')
        got--;
    out[got] = '\0';
}

/* ---- the doors ------------------------------------------------------------------------------- */

static const char *libraries(void)
{
    static char text[512];
    (void)snprintf(text, sizeof text, "%s, %s, %s, %s, %s, %s, %s", net_libraries(), wire_library(),
                   engine_library(), json_library(), config_library(), hash_library(),
                   http_library());
    return text;
}

static const char *environment(const char *name)
{
    return getenv(name);
}

static bool opens(const char *library)
{
    struct err e;
    if (strcmp(library, "libcuda.so.1") == 0)
        return backend_driver();
    return module_open(library, &e) != NULL;
}

/* Asks for a port of the endpoint's address, so that one that is in use does not count. Where the
 * name has no address, another check says so. */
static bool own(const char *endpoint)
{
    char numeric[256], any[300];
    struct sockaddr_storage a;
    socklen_t bytes;
    struct err e;
    if (name_resolve(endpoint, numeric, &e) != 0)
        return true;
    (void)snprintf(any, sizeof any, "%.*s:0", (int)(strrchr(numeric, ':') - numeric), numeric);
    if (name_address(any, &a, &bytes) != 0)
        return true; /* "*", or an interface */
    int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool other =
        fd >= 0 && bind(fd, (const struct sockaddr *)&a, bytes) != 0 && errno == EADDRNOTAVAIL;
    if (fd >= 0)
        close(fd);
    return !other;
}

static int space(const char *folder, uint64_t *bytes, uint64_t *left)
{
    struct file_room disk;
    if (file_room(folder, &disk) != 0)
        return -1;
    *bytes = disk.bytes;
    *left = disk.left;
    return 0;
}

static int failed(struct err *e)
{
    return err_set(e, SHOAL_E_IO, "%s", strerror(errno));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(int fd, struct doctor_disk *out, struct err *e)
{
    static char piece[PIECE];
    double sync_ms[SYNCS];
    memset(piece, 0x5a, sizeof piece);
    uint64_t begin_ns = time_monotonic_ns();
    int pieces = 0;
    while (pieces < PIECES && (pieces == 0 || time_monotonic_ns() - begin_ns < WRITE_NS)) {
        for (int i = 0; i < SYNCED; i++)
            if (file_write_all(fd, piece, sizeof piece) != 0)
                return failed(e);
        if (file_sync(fd) != 0)
            return failed(e);
        pieces += SYNCED;
    }
    out->write_mb_s = (double)pieces * PIECE * 1e3 / (double)(time_monotonic_ns() - begin_ns);
    for (int i = 0; i < SYNCS; i++) {
        begin_ns = time_monotonic_ns();
        if (file_write_all(fd, piece, SYNC_BYTES) != 0 || file_sync_data(fd) != 0)
            return failed(e);
        sync_ms[i] = (double)(time_monotonic_ns() - begin_ns) / 1e6;
    }
    qsort(sync_ms, SYNCS, sizeof sync_ms[0], compare);
    out->sync_ms = sync_ms[SYNCS / 2];
    return 0;
}

static int disk(const char *folder, struct doctor_disk *out, struct err *e)
{
    char path[LIMIT_PATH];
    if ((size_t)snprintf(path, sizeof path, "%s/shoal-doctor-XXXXXX", folder) >= sizeof path)
        return err_set(e, SHOAL_E_CONFIG, "its name is too long");
    int fd = file_nameless(path, sizeof path);
    if (fd < 0)
        return failed(e);
    int rc = measure(fd, out, e);
    close(fd);
    (void)file_unlink(path); /* where the file system has no files without a name */
    return rc;
}

int doctor_status(const char *coordinator, struct json **out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    struct ask *a;
    int rc = cli_ask_open(coordinator, NULL, &a, e);
    if (rc != 0)
        return rc;
    rc = reader_ask_json(a, &w, NULL, ANSWER_MS, &reply, out, e);
    cli_ask_close(a);
    return rc;
}

static int clock_ask(const char *coordinator, int64_t *ahead_s, struct err *e)
{
    struct json *status = NULL;
    int rc = doctor_status(coordinator, &status, e);
    if (rc != 0)
        return rc;
    int64_t here_s = (int64_t)(time_wall_ns() / UINT64_C(1000000000));
    *ahead_s = json_get_int(status, "wall_s", here_s) - here_s;
    json_free(status);
    return 0;
}

const struct doctor_probe doctor_probe_host = {.root = "",
                                               .environment = environment,
                                               .libraries = libraries,
                                               .core_type = backend_core_type,
                                               .opens = opens,
                                               .resolve = name_resolve,
                                               .own = own,
                                               .space = space,
                                               .disk = disk,
                                               .clock = clock_ask,
                                               .patience_ms = PATIENCE_MS};
