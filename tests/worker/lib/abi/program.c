/* program.c: a program of the library's first release, compiled against its header
 * (shoal-1.0.h). It needs no fleet: it reads a job's file, and meets errors. argv: a job file, the
 * number of its training rows. */
#include "tests/worker/lib/abi/shoal-1.0.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct shoal_error e;

static void expect(int rc, int code, const char *what)
{
    if (rc == code && e.code == code && (code == SHOAL_OK || e.text[0] != '\0'))
        return;
    printf("%s: code %d (%s), not %d: %s\n", what, rc, shoal_code_text(rc), code, e.text);
    exit(1);
}

static void rows_read(const char *job, unsigned rows)
{
    struct shoal_read_options o = {.size = sizeof o, .job = job};
    struct shoal_batch *b;
    shoal_read *r;
    unsigned examples = 0;
    int rc;
    expect(shoal_read_open(&o, &r, &e), SHOAL_OK, "shoal_read_open");
    while ((rc = shoal_read_next(r, &b, &e)) == SHOAL_OK) {
        for (uint32_t i = 0; i < b->examples * b->fields; i++)
            if (b->index[i] >= b->table[b->tables - 1].base + b->table[b->tables - 1].count)
                exit(2);
        examples += b->examples;
    }
    expect(rc, SHOAL_END, "shoal_read_next");
    if (examples != rows) {
        printf("%u examples, not %u\n", examples, rows);
        exit(1);
    }
    shoal_read_close(r);
}

int main(int argc, char **argv)
{
    struct shoal_fleet_options f = {.size = sizeof f, .coordinator = "ipc:///nowhere/x"};
    struct shoal_work_options w = {.size = sizeof w, .coordinator = "tcp://127.0.0.1:1"};
    struct shoal_read_options r = {.size = sizeof r, .job = "/nowhere/job.yaml"};
    shoal_fleet *fleet;
    shoal_work *work;
    shoal_read *read;
    if (argc != 3)
        return 64;
    f.wait_ms = 100;
    expect(shoal_fleet_open(&f, &fleet, &e), SHOAL_ERROR_UNREACHABLE, "shoal_fleet_open");
    expect(shoal_work_join(&w, &work, &e), SHOAL_ERROR_CONFIG, "shoal_work_join");
    expect(shoal_read_open(&r, &read, &e), SHOAL_ERROR_NOT_FOUND, "shoal_read_open");
    rows_read(argv[1], (unsigned)atoi(argv[2]));
    shoal_fleet_close(NULL);
    shoal_work_close(NULL);
    shoal_read_close(NULL);
    puts(shoal_version());
    return 0;
}
