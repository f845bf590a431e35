/* bench_server.c: the server process of a measurement: starts it, sets it up, kills it. */
#include "deploy/cli/bench.h"

#include "deploy/cli/cli.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUESTION_MS = 600000 };

static bool listens(const struct bench_server *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

int bench_server_start(struct bench_server *s, const char *data, const char *durability, bool fresh,
                       struct err *e)
{
    char config[512];
    s->port = 20000 + (int)(getpid() % 20000);
    (void)snprintf(s->endpoint, sizeof s->endpoint, "tcp://127.0.0.1:%d", s->port);
    s->child = (struct child){
        .name = "server", .arg = {"", "--config", "server.yaml"}, .args = 3, .log = "server.log"};
    if (fresh && file_remove_tree(data) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot remove %s of an earlier run: %s", data,
                       strerror(errno));
    (void)snprintf(config, sizeof config,
                   "name: bench\nlisten: \"%s\"\ndata_dir: \"%s\"\ncoordinator: \"\"\n"
                   "durability: %s\ninsecure_plaintext: true\n",
                   s->endpoint, data, durability);
    int rc = child_program("shoal-server", s->child.arg[0], e);
    if (rc != 0 || (rc = bench_write("server.yaml", config, e)) != 0 ||
        (rc = child_start(&s->child, e)) != 0)
        return rc;
    while (!listens(s)) {
        if (child_ended(&s->child))
            return err_wrap(e, child_error(&s->child, e), "the server ended");
        usleep(5000);
    }
    return 0;
}

void bench_server_end(struct bench_server *s, int signo)
{
    child_signal(&s->child, signo);
    while (s->child.process.pid != 0 && !child_ended(&s->child))
        usleep(1000);
}

double bench_child_cpu(const struct child *c)
{
    clockid_t clock;
    if (clock_getcpuclockid(c->process.pid, &clock) != 0)
        return 0;
    return (double)time_of(clock) / 1e9;
}

double bench_server_cpu(const struct bench_server *s)
{
    return bench_child_cpu(&s->child);
}

int bench_server_ask(struct bench_server *s, struct wire *w, const void *data, size_t bytes,
                     struct wire *reply, struct json **json, struct err *e)
{
    struct frame frame = {(void *)(uintptr_t)data, bytes, NULL, NULL};
    struct msg *m = NULL;
    struct ask *a;
    int rc = cli_ask_open(s->endpoint, ENV_COORDINATOR, &a, e);
    if (rc != 0)
        return rc;
    rc = cli_ask(a, w, &frame, QUESTION_MS, reply, &m, e);
    if (rc == 0 && json != NULL)
        rc = json_parse(m->frame[1].data, m->frame[1].bytes, json, e);
    msg_free(m);
    cli_ask_close(a);
    return rc;
}

static uint32_t spaces_of(const struct bench_server *s)
{
    return MAX(s->spaces, 1);
}

/* The tables of a server with one space are only the one that has rows. */
static uint32_t tables_of(const struct bench_server *s)
{
    return spaces_of(s) == 1 ? 1 : 2 * s->spaces;
}

uint32_t bench_server_bits(const struct bench_server *s)
{
    uint32_t bits = BENCH_TABLET_BITS;
    for (uint32_t n = 1; n < spaces_of(s) && bits > 0; n *= 2)
        bits--;
    return bits;
}

uint32_t bench_server_table(const struct bench_server *s, uint32_t space)
{
    return spaces_of(s) == 1 ? 0 : 2 * space;
}

static int table_make(struct bench_server *s, uint32_t number, uint32_t first, uint32_t bits,
                      struct err *e)
{
    struct table_schema schema = {
        .name = "bench",
        .table = number,
        .width = BENCH_WIDTH,
        .tablet_bits = bits,
        .tablet_first = first,
        .seed = 1,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f, .initial = 0.1f}};
    struct wire w = {.type = WIRE_TYPE_TABLE_CREATE}, reply;
    wire_schema_to(&schema, &w.u.TABLE_CREATE);
    return bench_server_ask(s, &w, NULL, 0, &reply, NULL, e);
}

/* Makes the tables one behind the other in the map: of each space the one that has rows, and one
 * with a tablet. */
static int tables_make(struct bench_server *s, struct err *e)
{
    uint32_t first = 0, bits;
    int rc = 0;
    for (uint32_t t = 0; t < tables_of(s) && rc == 0; t++) {
        bits = t % 2 == 0 ? bench_server_bits(s) : 0;
        rc = table_make(s, t, first, bits, e);
        first += 1u << bits;
    }
    return rc;
}

int bench_server_lead(struct bench_server *s, struct err *e)
{
    /* the only shard leads every tablet */
    static const uint16_t shard_of[(1 << BENCH_TABLET_BITS) + LIMIT_TABLES];
    struct wire w = {.type = WIRE_TYPE_MAP_SET}, reply;
    uint32_t small = tables_of(s) / 2;
    w.u.MAP_SET.map_epoch = 1;
    w.u.MAP_SET.tablet_count = (spaces_of(s) << bench_server_bits(s)) + small;
    SHOAL_ASSERT(w.u.MAP_SET.tablet_count <= sizeof shard_of / sizeof *shard_of);
    return bench_server_ask(s, &w, shard_of, w.u.MAP_SET.tablet_count * sizeof *shard_of, &reply,
                            NULL, e);
}

int bench_server_arrange(struct bench_server *s, struct err *e)
{
    struct wire run = {.type = WIRE_TYPE_RUN_OPEN}, fence = {.type = WIRE_TYPE_FENCE}, reply;
    run.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = 1, .lanes = 1, .mode = WIRE_ASYNC};
    fence.u.FENCE = (struct wire_FENCE){.run = 1, .lane = 0, .generation = 1, .live = true};
    int rc = tables_make(s, e);
    if (rc != 0 || (rc = bench_server_lead(s, e)) != 0 ||
        (rc = bench_server_ask(s, &run, NULL, 0, &reply, NULL, e)) != 0)
        return rc;
    return bench_server_ask(s, &fence, NULL, 0, &reply, NULL, e);
}

int bench_server_number(struct bench_server *s, const char *name, double *out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_STATUS}, reply;
    struct json *status = NULL;
    int rc = bench_server_ask(s, &w, NULL, 0, &reply, &status, e);
    *out = json_get_number(status, name, 0);
    json_free(status);
    return rc;
}
