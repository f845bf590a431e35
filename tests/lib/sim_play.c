/* sim_play.c: see sim_play.h. */
#include "tests/lib/sim_play.h"

#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/wire/wire.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the values of a line behind `out`; returns the sum of the first two that are drawn. */
static uint32_t line_draw(struct rng *r, const struct sim_column *column, uint32_t count, char *out,
                          size_t bytes)
{
    uint32_t sum = 0, drawn = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (column[i].values == 0) {
            at += (size_t)snprintf(out + at, bytes - at, ",x");
            continue;
        }
        uint32_t value = (uint32_t)rng_below(r, column[i].values);
        at += (size_t)snprintf(out + at, bytes - at, ",%u", value);
        if (drawn++ < 2)
            sum += value;
    }
    ck_assert_uint_lt(at, bytes);
    return sum;
}

const char *sim_play_input(const struct sim_column *column, uint32_t count, uint32_t rows,
                           uint64_t seed)
{
    static char data[1 << 18];
    struct rng r = rng_of(seed, 0, 0);
    char line[256];
    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    const char *folder = worker_folder_make();
    size_t at = (size_t)snprintf(data, sizeof data, "label");
    for (uint32_t i = 0; i < count; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, ",%s", column[i].name);
    at += (size_t)snprintf(data + at, sizeof data - at, "\n");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t sum = line_draw(&r, column, count, line, sizeof line);
        at += (size_t)snprintf(data + at, sizeof data - at, "%u%s\n", sum % 2, line);
        ck_assert_uint_lt(at, sizeof data);
    }
    worker_write("train.csv", data, at);
    return folder;
}

struct sim_options sim_play_net(uint64_t seed)
{
    return (struct sim_options){.seed = seed,
                                .delay_min_ns = MS / 20,
                                .delay_max_ns = MS,
                                .work_min_ns = MS / 10,
                                .work_max_ns = 4 * MS};
}

void sim_play_end(struct cluster *c, uint64_t examples, struct cluster_result *out)
{
    ck_assert(cluster_run(c, sim_now_ns(c->sim) + BOUND));
    cluster_result(c, out);
    ck_assert_msg(out->state == WIRE_JOB_DONE, "%s", out->text);
    ck_assert_uint_eq(out->examples, examples);
}

int64_t sim_play_reported(const struct cluster *c, const char *object, const char *key)
{
    struct json *r;
    struct err e = {0};
    ck_assert_int_eq(json_parse(c->client->report, strlen(c->client->report), &r, &e), 0);
    int64_t value = json_as_int(json_get(object == NULL ? r : json_get(r, object), key), -1);
    json_free(r);
    return value;
}
