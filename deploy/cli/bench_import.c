/* bench_import.c: rows a second of `shoal import`, with the commands that users type: a coordinator
 * and a server of one shard, a table of dim 16 with AdaGrad, npy files of random vectors. */
#include "deploy/cli/bench.h"

#include "deploy/cli/cli.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COORDINATOR, SERVER, WORKER, CHILDREN, CHUNK = 4096, WAIT_MS = 60000 };

struct fleet {
    struct child child[CHILDREN];
    char endpoint[256], listen[256];
};

/* ---- files ----------------------------------------------------------------------------------- */

static bool head_write(FILE *f, const char *descr, uint64_t rows, uint32_t columns)
{
    char text[128], shape[64] = "";
    unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    if (columns > 0)
        (void)snprintf(shape, sizeof shape, " %u", columns);
    int n = snprintf(text, sizeof text,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",%s), }", descr,
                     rows, shape);
    memset(text + n, ' ', sizeof text - (size_t)n);
    text[117] = '\n';
    return fwrite(head, sizeof head, 1, f) == 1 && fwrite(text, 118, 1, f) == 1;
}

static bool files_fill(FILE *ids, FILE *vectors, uint64_t rows)
{
    static float out[CHUNK * BENCH_WIDTH];
    static uint64_t id[CHUNK];
    struct rng r = {7};
    bool good = head_write(ids, "<u8", rows, 0) && head_write(vectors, "<f4", rows, BENCH_WIDTH);
    for (uint64_t at = 0; at < rows && good; at += CHUNK) {
        const size_t n = (size_t)MIN(rows - at, CHUNK);
        for (size_t i = 0; i < n; i++)
            id[i] = rng_mix(at + i + 1);
        for (size_t i = 0; i < n * BENCH_WIDTH; i++)
            out[i] = rng_float(&r) - 0.5f;
        good = fwrite(id, sizeof id[0], n, ids) == n &&
               fwrite(out, BENCH_WIDTH * sizeof out[0], n, vectors) == n;
    }
    return good;
}

static int files_make(uint64_t rows, struct err *e)
{
    FILE *ids = file_stream("ids.npy", false), *vectors = file_stream("vectors.npy", false);
    bool good = ids != NULL && vectors != NULL && files_fill(ids, vectors, rows);
    good &= ids == NULL || fclose(ids) == 0;
    good &= vectors == NULL || fclose(vectors) == 0;
    if (good)
        return 0;
    return err_set(e, SHOAL_E_CANTCREATE, "cannot write ids.npy and vectors.npy: %s",
                   strerror(errno));
}

/* ---- a cluster ------------------------------------------------------------------------------- */

static int start(struct fleet *f, int which, const char *program, const char *const *more,
                 struct err *e)
{
    static const char *const log[] = {"coordinator.log", "server.log", "worker.log"};
    struct child *c = &f->child[which];
    *c = (struct child){.args = 1};
    (void)snprintf(c->name, sizeof c->name, "%s", program);
    (void)snprintf(c->log, sizeof c->log, "%s", log[which]);
    int rc = child_program(program, c->arg[0], e);
    for (; *more != NULL && rc == 0; more++)
        (void)snprintf(c->arg[c->args++], sizeof c->arg[0], "%s", *more);
    return rc == 0 ? child_start(c, e) : rc;
}

static int fleet_start(struct fleet *f, const char *durability, struct err *e)
{
    char coordinator[300], server[300], at[300], mode[64];
    (void)snprintf(f->endpoint, sizeof f->endpoint, "ipc://import-c-%d.sock", (int)getpid());
    (void)snprintf(f->listen, sizeof f->listen, "ipc://import-s-%d.sock", (int)getpid());
    (void)snprintf(coordinator, sizeof coordinator, "listen=%s", f->endpoint);
    (void)snprintf(server, sizeof server, "listen=%s", f->listen);
    (void)snprintf(at, sizeof at, "coordinator=%s", f->endpoint);
    (void)snprintf(mode, sizeof mode, "durability=%s", durability);
    const char *const of_coordinator[] = {"--set", coordinator, "--set", "data_dir=import-coord",
                                          "--set", "shards=1",  NULL};
    const char *const of_server[] = {
        "--set", server, "--set", "data_dir=import-server", "--set", at, "--set", mode, NULL};
    const char *const of_worker[] = {"train",         "--config",  "import.yaml",
                                     "--coordinator", f->endpoint, NULL};
    if (file_remove_tree("import-coord") != 0 || file_remove_tree("import-server") != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot remove the folders of an earlier run: %s",
                       strerror(errno));
    int rc = start(f, COORDINATOR, "shoal-coordinator", of_coordinator, e);
    if (rc == 0)
        rc = start(f, SERVER, "shoal-server", of_server, e);
    if (rc == 0)
        rc = start(f, WORKER, "shoal-worker", of_worker, e);
    return rc;
}

static void fleet_end(struct fleet *f)
{
    for (int i = CHILDREN - 1; i >= 0; i--) {
        child_signal(&f->child[i], SIGKILL);
        while (f->child[i].process.pid != 0 && !child_ended(&f->child[i]))
            usleep(1000);
    }
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int import_run(const struct fleet *f, const char *option, struct json **out, struct err *e)
{
    const char *const line[] = {"shoal",
                                "import",
                                "emb",
                                "--ids",
                                "ids.npy",
                                "--weights",
                                "vectors.npy",
                                "--field",
                                "user",
                                "--json",
                                "--coordinator",
                                f->endpoint,
                                option,
                                option != NULL ? "import.yaml" : NULL,
                                NULL};
    char *text = NULL;
    size_t bytes = 0;
    int rc = child_output(line, &text, &bytes, e);
    const char *begin = NULL;
    if (rc == 0) /* behind what the job's submission has said */
        begin = strstr(text, "{\n");
    if (rc == 0 && begin == NULL)
        rc = err_set(e, SHOAL_E_INTERNAL, "shoal import has printed no figures");
    if (rc == 0)
        rc = json_parse(begin, bytes - (size_t)(begin - text), out, e);
    free(text);
    return rc;
}

static int measure(const struct fleet *f, struct bench_out *out, const char *durability,
                   struct err *e)
{
    char name[64];
    int rc = 0;
    for (int again = 0; again < 2 && rc == 0; again++) {
        struct json *told = NULL;
        const uint64_t began = time_monotonic_ns();
        const double used = bench_child_cpu(&f->child[SERVER]);
        rc = import_run(f, again == 0 ? "--job" : NULL, &told, e);
        const double rows = json_get_number(told, "rows", 0), all = bench_since(began),
                     sent = json_get_number(told, "seconds", 0),
                     cpu = bench_child_cpu(&f->child[SERVER]) - used;
        json_free(told);
        if (rc != 0)
            return rc;
        (void)snprintf(name, sizeof name, "import_%s%s", durability, again == 0 ? "" : "_again");
        if (sent > 0)
            bench_figure(out, name, rows / sent, 0, "rows/s");
        (void)snprintf(name, sizeof name, "import_%s%s_core", durability,
                       again == 0 ? "" : "_again");
        bench_figure(out, name, rows / MAX(cpu, 0.01), 0,
                     "rows a second of the server's processor");
        if (again == 0)
            continue;
        (void)snprintf(name, sizeof name, "import_%s_with_check", durability);
        bench_figure(out, name, rows / all, 0, "rows/s");
    }
    return rc;
}

int bench_import(struct bench_out *out, uint64_t rows, struct err *e)
{
    static const char *const mode[] = {"memory", "journal"};
    int rc = files_make(rows, e);
    if (rc == 0)
        rc = bench_write("import.csv", "label,user\n1,a\n0,b\n", e);
    if (rc == 0)
        rc = bench_write("import.yaml",
                         "job: bench\ndata: {format: csv, label: label, train: [import.csv]}\n"
                         "tables: [{name: emb, dim: 16, tablets: 1024, optimizer: {kind: adagrad, "
                         "lr: 0.02}}]\nmodel: {kind: dcnv2, hidden: [8]}\ntrain: {lanes: 1}\n",
                         e);
    for (int i = 0; i < 2 && rc == 0; i++) {
        struct fleet f = {.endpoint = ""};
        rc = fleet_start(&f, mode[i], e);
        if (rc == 0)
            rc = measure(&f, out, mode[i], e);
        fleet_end(&f);
    }
    return rc;
}
