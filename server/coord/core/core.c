/* core.c: functions that the files of a job share. */
#include "server/coord/core/core.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const coord_split_name[JOB_SPLITS] = {"train", "valid", "test"};

struct coord_row_key coord_row_key(const char *series, uint32_t n)
{
    struct coord_row_key key;
    (void)snprintf(key.text, sizeof key.text, "%s/%u", series, n);
    return key;
}

bool coord_job_put(struct coord_job *j, const char *key, const void *value, size_t bytes)
{
    return coord_fleet_store(j->fleet, j->store, key, value, bytes, true);
}

bool coord_job_note(struct coord_job *j, const char *key, const void *value, size_t bytes)
{
    return coord_fleet_store(j->fleet, j->store, key, value, bytes, false);
}

int coord_job_put_parts(struct coord_job *j, const char *key, const struct coord_part *part,
                        uint32_t parts, struct err *e)
{
    size_t at = sizeof j->at.number, bytes = at;
    for (uint32_t i = 0; i < parts; i++)
        bytes += part[i].bytes;
    char *value = malloc(bytes);
    if (value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to store %zu bytes under %s", bytes, key);
    memcpy(value, &j->at.number, at);
    for (uint32_t i = 0; i < parts; at += part[i++].bytes)
        if (part[i].bytes > 0)
            memcpy(value + at, part[i].data, part[i].bytes);
    bool good = coord_job_put(j, key, value, bytes);
    free(value);
    if (!good)
        return coord_store_failed(e);
    return 0;
}

int coord_job_get(struct coord_job *j, const char *key, char **value, size_t *bytes, struct err *e)
{
    const size_t head = sizeof j->at.number;
    int rc = coord_store_get(j->store, key, (void **)value, bytes, e);
    if (rc != 0 || (*bytes >= head && memcmp(*value, &j->at.number, head) == 0))
        return rc;
    free(*value);
    return SHOAL_E_NOT_FOUND;
}

bool coord_tally_note(struct coord_job *j)
{
    j->tally.number = j->at.number;
    return coord_job_note(j, "tally", &j->tally, sizeof j->tally);
}

int coord_tally_load(struct coord_job *j, struct err *e)
{
    struct coord_tally stored;
    int rc = coord_store_get_fixed(j->store, "tally", &stored, sizeof stored, e);
    if (rc == 0 && stored.number == j->at.number)
        j->tally = stored;
    return coord_store_optional(rc); /* an earlier release stored none */
}

bool coord_from_loading(const struct coord_progress *at)
{
    return at->from == FROM_TO_LOAD || at->from == FROM_BACK || at->from == FROM_TO_START;
}

bool coord_from_resumes(const struct coord_progress *at)
{
    return at->from == FROM_TO_LOAD || at->from == FROM_LOADED || at->from == FROM_BACK;
}

bool coord_goes_back(const struct coord_job *j)
{
    uint32_t phase = j->at.phase;
    return j->lost[0] != 0 && phase != PHASE_NONE && phase != PHASE_DONE && phase != PHASE_FAILED;
}

uint64_t coord_now_ns(const struct coord_job *j)
{
    return env_now_ns(j->fleet->env);
}

const struct coord_shard *coord_server_away(const struct coord_job *j)
{
    const struct coord_fleet *f = j->fleet;
    uint64_t now = env_now_ns(f->env);
    COORD_EACH_SHARD (&f->members, s)
        if (!coord_shard_there(&f->members.shard[s], j->setup.shard[s].done, now,
                               f->calls.lease_ns))
            return &f->members.shard[s];
    return NULL;
}

uint64_t coord_lease_ns(const struct coord_job *j)
{
    uint64_t fleet = coord_fleet_lease_ns(j->fleet);
    uint64_t asked = j->spec.coordinator.lease_ms * UINT64_C(1000000);
    if (!j->parsed)
        return fleet;
    return MIN(asked, fleet);
}

uint32_t coord_live_workers(const struct coord_job *j)
{
    uint32_t wanted = j->at.workers_wanted, deaths = j->at.worker_deaths;
    uint32_t expected = SAT_SUB(wanted, deaths);
    uint32_t live = MAX(j->workers.count, expected);
    return MAX(live, 1);
}

bool coord_grow_on(const struct coord_job *j)
{
    return j->parsed && j->spec.data.objects.grow_ms > 0 && !j->spec.train.skip;
}

uint32_t coord_epochs(const struct coord_job *j)
{
    return coord_grow_on(j) ? COORD_ROUNDS_MAX : j->spec.train.epochs;
}

uint32_t coord_epochs_kept(const struct coord_job *j)
{
    return coord_grow_on(j) ? COORD_ROUNDS_KEPT : j->spec.train.epochs;
}

uint32_t coord_epoch_first(const struct coord_job *j)
{
    uint32_t kept = coord_epochs_kept(j);
    return SAT_SUB(j->at.epoch, kept) + 1;
}

uint32_t coord_epoch_slot(const struct coord_job *j, uint32_t epoch)
{
    SHOAL_ASSERT(epoch >= 1 && epoch <= coord_epochs(j));
    return (epoch - 1) % coord_epochs_kept(j);
}

bool coord_epoch_open(const struct coord_job *j)
{
    return j->parsed && j->at.epoch >= 1 &&
           j->epoch[coord_epoch_slot(j, j->at.epoch)].number != j->at.number;
}

uint32_t coord_retry_ms(const struct coord_job *j)
{
    uint32_t ms = MAX(5 * j->workers.count, 20);
    return MIN(ms, 500);
}

void coord_missed(struct coord_job *j, int status, const char *format, ...)
{
    va_list arguments;
    SHOAL_ASSERT(status != 0);
    if (j->missed.status != 0)
        return;
    j->missed.status = status == SHOAL_E_CANTCREATE ? status : SHOAL_E_IO;
    va_start(arguments, format);
    (void)vsnprintf(j->missed.text, sizeof j->missed.text, format, arguments);
    va_end(arguments);
}
