/* part_server.c: the server process of a measurement: started, set up, killed. */
#include "deploy/cli/cli.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "tests/bench/part.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUESTION_MS = 600000, TABLETS = 1 << PART_TABLET_BITS };

/* ---- the process ----------------------------------------------------------------------------- */

static uint32_t shards(const struct part_server *s)
{
    return s->shards > 0 ? s->shards : 1;
}

void part_server_endpoint(const struct part_server *s, uint32_t shard, char endpoint[64])
{
    (void)snprintf(endpoint, 64, "tcp://127.0.0.1:%d", s->port + (int)shard);
}

static int config_write(const struct part_server *s, const char *path, const char *durability,
                        struct err *e)
{
    FILE *f = file_stream(path, false);
    if (f == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    fprintf(f,
            "name: %s\nlisten: \"%s\"\ndata_dir: \"%s\"\nshards: %u\ncoordinator: "
            "\"%s\"\ndurability: %s\nnet: {io_threads: %u}\n",
            text_unless_empty(s->name, "bench"), s->endpoint, s->data, shards(s), s->coordinator,
            durability, s->io_threads > 0 ? s->io_threads : 1);
    if (s->keys[0] != 0)
        fprintf(f, "keys: \"%s\"\nallow: \"%s\"\n", s->keys, s->allow);
    else
        fprintf(f, "insecure_plaintext: true\n");
    if (s->journal_max > 0)
        fprintf(f, "journal: {max: %" PRIu64 "}\n", s->journal_max);
    if (s->memory > 0)
        fprintf(f, "memory: %" PRIu64 "\n", s->memory);
    fclose(f);
    return 0;
}

static bool port_listens(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

static bool listens(const struct part_server *s)
{
    bool all = true;
    for (uint32_t i = 0; i < shards(s) && all; i++)
        all = port_listens(s->port + (int)i);
    return all;
}

int part_server_start(struct part_server *s, const char *dir, const char *name,
                      const char *durability, bool fresh, struct err *e)
{
    char path[4300], programs[512], words[ERR_TEXT_MAX];
    ssize_t n = readlink("/proc/self/exe", programs, sizeof programs - 1);
    int rc;
    if (n <= 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot find where this program lies");
    programs[n] = 0;
    *strrchr(programs, '/') = 0;
    if (s->port == 0)
        s->port = 20000 + (int)(getpid() % 20000);
    part_server_endpoint(s, 0, s->endpoint);
    (void)snprintf(s->data, sizeof s->data, "%s/%s", dir, name);
    (void)snprintf(path, sizeof path, "%s/server.yaml", dir);
    if (fresh && file_remove_tree(s->data) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot remove %s of an earlier run: %s", s->data,
                       strerror(errno));
    if ((rc = config_write(s, path, durability, e)) != 0)
        return rc;
    s->child = (struct child){.name = "server", .args = 3};
    (void)snprintf(s->child.log, sizeof s->child.log, "%.900s/server.log", dir);
    (void)snprintf(s->child.arg[0], sizeof s->child.arg[0], "%.200s/shoal-server", programs);
    (void)snprintf(s->child.arg[1], sizeof s->child.arg[1], "--config");
    (void)snprintf(s->child.arg[2], sizeof s->child.arg[2], "%.255s", path);
    if ((rc = child_start(&s->child, e)) != 0)
        return rc;
    while (!listens(s)) {
        if (child_ended(&s->child)) {
            child_last_words(&s->child, words);
            return err_set(e, SHOAL_E_UNAVAILABLE, "the server ended: %s (%s)", words,
                           s->child.log);
        }
        usleep(5000);
    }
    return 0;
}

void part_server_end(struct part_server *s, int signo)
{
    child_signal(&s->child, signo);
    while (s->child.process.pid != 0 && !child_ended(&s->child))
        usleep(1000);
}

double part_server_cpu(const struct part_server *s)
{
    clockid_t clock;
    if (clock_getcpuclockid(s->child.process.pid, &clock) != 0)
        return 0;
    return (double)time_of(clock) / 1e9;
}

/* ---- questions ------------------------------------------------------------------------------- */

static int question(struct ask *a, struct wire *w, const void *data, size_t bytes, struct err *e)
{
    struct wire reply;
    struct frame f[2] = {{(void *)(uintptr_t)data, bytes, NULL, NULL}, {NULL, 0, NULL, NULL}};
    return cli_ask(a, w, f, QUESTION_MS, &reply, NULL, e);
}

static int one_question(const struct part_server *s, const char *endpoint, struct wire *w,
                        const void *data, size_t bytes, struct err *e)
{
    struct ask *a;
    int rc = cli_ask_open(endpoint, s->key, &a, e);
    if (rc != 0)
        return rc;
    rc = question(a, w, data, bytes, e);
    cli_ask_close(a);
    return rc;
}

/* Asks every shard the same question. */
static int all_questions(struct part_server *s, struct wire *w, const void *data, size_t bytes,
                         struct err *e)
{
    char endpoint[64];
    int rc = 0;
    for (uint32_t i = 0; i < shards(s) && rc == 0; i++) {
        part_server_endpoint(s, i, endpoint);
        rc = one_question(s, endpoint, w, data, bytes, e);
    }
    return rc;
}

static uint32_t tablet_bits(const struct part_server *s)
{
    return s->tablet_bits > 0 ? s->tablet_bits : PART_TABLET_BITS;
}

void part_table(uint32_t bits, struct wire *out)
{
    struct table_schema schema = {
        .name = "bench",
        .width = PART_WIDTH,
        .tablet_bits = bits,
        .seed = 1,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f, .initial = 0.1f}};
    *out = (struct wire){.type = WIRE_TYPE_TABLE_CREATE};
    wire_schema_to(&schema, &out->u.TABLE_CREATE);
}

static int table_make(struct part_server *s, struct err *e)
{
    struct wire w;
    part_table(tablet_bits(s), &w);
    return all_questions(s, &w, NULL, 0, e);
}

static int lead(struct part_server *s, struct err *e)
{
    uint16_t shard_of[TABLETS];
    for (uint32_t i = 0; i < 1u << tablet_bits(s); i++)
        shard_of[i] = (uint16_t)((uint64_t)i * shards(s) >> tablet_bits(s));
    struct wire w = {.type = WIRE_TYPE_MAP_SET};
    w.u.MAP_SET = (struct wire_MAP_SET){.map_epoch = 1, .tablet_count = 1u << tablet_bits(s)};
    return all_questions(s, &w, shard_of, sizeof *shard_of << tablet_bits(s), e);
}

int part_server_arrange(struct part_server *s, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_RUN_OPEN};
    int rc = table_make(s, e);
    if (rc == 0)
        rc = lead(s, e);
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = 1, .lanes = 1, .mode = WIRE_ASYNC};
    if (rc == 0)
        rc = all_questions(s, &w, NULL, 0, e);
    w = (struct wire){.type = WIRE_TYPE_FENCE};
    w.u.FENCE = (struct wire_FENCE){.run = 1, .lane = 0, .generation = 1, .live = true};
    return rc != 0 ? rc : all_questions(s, &w, NULL, 0, e);
}

int part_server_status(struct part_server *s, struct json **out, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_STATUS}, reply;
    struct msg *m = NULL;
    struct ask *a;
    int rc = cli_ask_open(s->endpoint, s->key, &a, e);
    if (rc != 0)
        return rc;
    rc = cli_ask(a, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc == 0)
        rc = json_parse(m->frame[1].data, m->frame[1].bytes, out, e);
    msg_free(m);
    cli_ask_close(a);
    return rc;
}
