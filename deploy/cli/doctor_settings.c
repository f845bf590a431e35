/* doctor_settings.c: the settings in a daemon's or a job's file that the checks look at. */
#include "deploy/cli/doctor.h"
#include "proto/job/keys.h"

#include <stdio.h>
#include <string.h>

static enum doctor_kind kind_of(const char *path)
{
    static const char *const name[] = {[DOCTOR_SERVER] = "server",
                                       [DOCTOR_COORDINATOR] = "coordinator",
                                       [DOCTOR_WORKER] = "worker"};
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    for (int i = DOCTOR_SERVER; i <= DOCTOR_WORKER; i++)
        if (strncmp(base, name[i], strlen(name[i])) == 0)
            return (enum doctor_kind)i;
    return DOCTOR_JOB;
}

static void take(const struct config *c, const char *key, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s", config_string_or(c, key, ""));
}

static void daemon_take(const struct config *c, struct doctor_settings *out)
{
    take(c, "keys", out->keys, sizeof out->keys);
    take(c, "listen", out->listen, sizeof out->listen);
    take(c, "advertise", out->advertise, sizeof out->advertise);
    take(c, "metrics", out->metrics, sizeof out->metrics);
    take(c, "metrics_token", out->token, sizeof out->token);
    if (out->kind == DOCTOR_WORKER) {
        take(c, "cache", out->folder, sizeof out->folder);
        out->cuda = config_enum(c, "backend") == 2;
    } else {
        take(c, "data_dir", out->folder, sizeof out->folder);
        take(c, "allow", out->allow, sizeof out->allow);
        take(c, "checkpoint_signers", out->signers, sizeof out->signers);
    }
    if (out->kind == DOCTOR_COORDINATOR)
        take(c, "store", out->store, sizeof out->store);
    else
        take(c, "coordinator", out->coordinator, sizeof out->coordinator);
    if (out->kind != DOCTOR_SERVER)
        return;
    out->shards = (uint32_t)config_int(c, "shards");
    out->memory = config_size(c, "memory");
    out->disk = config_size(c, "disk");
    out->disk_free = config_size(c, "disk_free");
    out->journal = config_size(c, "journal.max") + config_size(c, "journal.keep");
}

int doctor_settings_load(const struct doctor_settings *s, const struct string_list *set,
                         struct config **out, struct err *e)
{
    static const struct config_key *const keys[] = {[DOCTOR_SERVER] = keys_server,
                                                    [DOCTOR_COORDINATOR] = keys_coordinator,
                                                    [DOCTOR_WORKER] = keys_worker,
                                                    [DOCTOR_JOB] = keys_job};
    return config_load(s->file, set, keys[s->kind], out, e);
}

int doctor_settings_read(const char *path, const struct string_list *set,
                         struct doctor_settings *out, struct err *e)
{
    struct config *c;
    *out = (struct doctor_settings){.kind = kind_of(path), .shards = 1};
    (void)snprintf(out->file, sizeof out->file, "%s", path);
    int rc = doctor_settings_load(out, set, &c, e);
    if (rc != 0)
        return rc;
    if (out->kind != DOCTOR_JOB) {
        daemon_take(c, out);
    } else {
        take(c, "checkpoint.dir", out->folder, sizeof out->folder);
        out->cuda = config_enum(c, "train.backend") == 2;
        out->kafka = config_has(c, "data.kafka"); /* without a topic it is refused */
    }
    config_free(c);
    return 0;
}
