/* server_config.c: server.yaml and coordinator.yaml, and the division of `memory`. */
#include "server/server_config.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/instance.h"
#include "proto/job/keys.h"
#include "proto/net/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK_LEAST (16ull << 20)
#define MEMORY_LEAST (1ull << 20)
#define RATE_LEAST (1ull << 20)
#define JOURNAL_LEAST (256ull << 10) /* four segments of the least size */

static int take_string(const struct config *c, const char *name, const char *key, char *out,
                       size_t capacity, struct err *e)
{
    const char *s = config_string(c, key);
    if (strlen(s) >= capacity)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: %s is longer than %zu bytes", name,
                       config_line(c, key), key, capacity - 1);
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 32)
            return err_set(e, SHOAL_E_CONFIG, "%s:%d: %s holds a control character", name,
                           config_line(c, key), key);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

/* Takes a key that names one of the daemon's folders, or a file in it. In a systemd unit the folder
 * is the unit's, unless the file gives another. form: the format of the value, in which
 * %s is the folder: "ipc://%s/socket". */
static int take_of_unit(const struct config *c, const char *name, const char *key,
                        const char *variable, const char *form, char *out, size_t capacity,
                        struct err *e)
{
    char folder[LIMIT_PATH];
    instance_folder(variable, folder, sizeof folder);
    if (config_has(c, key) || folder[0] == 0)
        return take_string(c, name, key, out, capacity, e);
    const char *at = strstr(form, "%s");
    int n = snprintf(out, capacity, "%.*s%s%s", (int)(at - form), form, folder, at + 2);
    if (n < 0 || (size_t)n >= capacity)
        return err_set(e, SHOAL_E_CONFIG, "%s is too long for %s", variable, key);
    return 0;
}

/* Reads a checked file into *out, a value of the caller's kind. */
typedef int (*take_fn)(const struct config *c, const char *name, void *out, struct err *e);

/* text NULL: reads the file `name`. */
static int text_take(const char *text, size_t bytes, const char *name,
                     const struct string_list *set, const struct config_key *keys, take_fn take,
                     void *out, struct err *e)
{
    struct config *c;
    int rc;
    if (text != NULL)
        rc = config_parse(text, bytes, name, set, keys, &c, e);
    else
        rc = config_load(name, set, keys, &c, e);
    if (rc != 0)
        return rc;
    rc = take(c, name, out, e);
    config_free(c);
    return rc;
}

/* path NULL: defaults. */
static int file_take(const char *path, const struct string_list *set, const struct config_key *keys,
                     take_fn take, void *out, struct err *e)
{
    if (path == NULL)
        return text_take("{}", 2, "defaults", set, keys, take, out, e);
    return text_take(NULL, 0, path, set, keys, take, out, e);
}

/* journal.max 0: as much as the rows need. A shard whose part is below the least journal would
 * refuse all pushes. */
static int check_journal(const struct config *c, const char *name, const struct server_config *s,
                         struct err *e)
{
    SHOAL_ASSERT(s->shards > 0);
    if (s->journal.max == 0 || s->journal.max / s->shards >= JOURNAL_LEAST)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s:%d: journal.max: %" PRIu64 " bytes for %u shards; a shard needs %" PRIu64
                   " at least: give it with its unit, such as 4GiB",
                   name, config_line(c, "journal.max"), s->journal.max, s->shards,
                   (uint64_t)JOURNAL_LEAST);
}

/* The journal must leave room for the rows, and for a second copy of them while they are
 * rewritten. */
static int check_disk(const struct config *c, const char *name, const struct server_config *s,
                      struct err *e)
{
    if (s->disk == 0)
        return 0;
    SHOAL_ASSERT(s->shards > 0);
    if (s->disk / s->shards < DISK_LEAST)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%d: disk: %" PRIu64 " bytes for %u shards; a shard needs %" PRIu64
                       " at least",
                       name, config_line(c, "disk"), s->disk, s->shards, (uint64_t)DISK_LEAST);
    if (s->journal.max > s->disk / 2 || s->journal.keep > s->disk / 2 - s->journal.max)
        return err_set(
            e, SHOAL_E_CONFIG,
            "%s:%d: disk: journal.max and journal.keep take more than half of its %" PRIu64
            " bytes",
            name, config_line(c, "disk"), s->disk);
    return 0;
}

static int check_coordinator(const struct config *c, const char *name,
                             const struct server_config *s, struct err *e)
{
    struct coordinators list;
    if (s->coordinator[0] == 0 || coordinators_parse(s->coordinator, &list, e) == 0)
        return 0;
    err_wrap(e, e->code, "%s:%d", name, config_line(c, "coordinator"));
    return e->code;
}

/* memory 0: the default, a share of the machine's memory. A part of 0 bytes would mean a shard
 * without any bound. */
static int check_memory(const struct config *c, const char *name, const struct server_config *s,
                        struct err *e)
{
    SHOAL_ASSERT(s->shards > 0);
    if (s->memory == 0 || s->memory / s->shards >= MEMORY_LEAST)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s:%d: memory: %" PRIu64 " bytes for %u shards; a shard needs %" PRIu64
                   " at least: give it with its unit, such as 4GiB",
                   name, config_line(c, "memory"), s->memory, s->shards, (uint64_t)MEMORY_LEAST);
}

/* At less than this a copy would hardly ever end. */
static int check_rate(const struct config *c, const char *name, const struct server_config *s,
                      struct err *e)
{
    SHOAL_ASSERT(s->shards > 0);
    if (s->net.copy_rate == 0 || s->net.copy_rate / s->shards >= RATE_LEAST)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s:%d: net.copy_rate: %" PRIu64 " bytes a second for %u shards; a shard needs "
                   "%" PRIu64 " at least: give it with its unit, such as 100MiB",
                   name, config_line(c, "net.copy_rate"), s->net.copy_rate, s->shards,
                   (uint64_t)RATE_LEAST);
}

/* A folder below which other programs name paths: "" or an absolute path. */
static int take_root(const struct config *c, const char *name, char *out, size_t capacity,
                     struct err *e)
{
    int rc = take_string(c, name, "checkpoint_root", out, capacity, e);
    if (rc != 0 || out[0] == 0 || file_below("", out) == 0)
        return rc;
    return err_set(e, SHOAL_E_CONFIG,
                   "%s:%d: checkpoint_root: %s does not begin with '/', or has '.' or '..' in it",
                   name, config_line(c, "checkpoint_root"), out);
}

static int take_server(const struct config *c, const char *name, void *to, struct err *e)
{
    struct server_config *out = to;
    int rc;
    *out = (struct server_config){0};
    if ((rc = take_string(c, name, "keys", out->keys, sizeof out->keys, e)) ||
        (rc = take_string(c, name, "allow", out->allow, sizeof out->allow, e)) ||
        (rc = take_string(c, name, "name", out->name, sizeof out->name - 14, e)) ||
        (rc = take_of_unit(c, name, "listen", "RUNTIME_DIRECTORY", "ipc://%s/socket", out->listen,
                           sizeof out->listen - 8, e)) ||
        (rc = take_string(c, name, "advertise", out->advertise, sizeof out->advertise - 16, e)) ||
        (rc = take_of_unit(c, name, "data_dir", "STATE_DIRECTORY", "%s", out->data_dir,
                           sizeof out->data_dir - 64, e)) ||
        (rc = take_string(c, name, "coordinator", out->coordinator, sizeof out->coordinator, e)) ||
        (rc = take_string(c, name, "zone", out->zone, sizeof out->zone, e)) ||
        (rc = take_root(c, name, out->checkpoint_root, sizeof out->checkpoint_root, e)) ||
        (rc = take_string(c, name, "checkpoint_signers", out->checkpoint_signers,
                          sizeof out->checkpoint_signers, e)) ||
        (rc = take_string(c, name, "metrics", out->metrics, sizeof out->metrics, e)) ||
        (rc = take_string(c, name, "metrics_token", out->metrics_token, sizeof out->metrics_token,
                          e)))
        return rc;
    if (!out->data_dir[0] || !out->listen[0])
        return err_set(e, SHOAL_E_CONFIG, "%s: data_dir and listen must not be empty", name);
    if (strchr(out->name, '/') != NULL || strchr(out->name, '\n') != NULL)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: name: '/' is not allowed in a server's name",
                       name, config_line(c, "name"));
    out->shards = (uint32_t)config_int(c, "shards");
    out->memory = config_size(c, "memory");
    out->disk = config_size(c, "disk");
    out->disk_free = config_size(c, "disk_free");
    out->journal.max = config_size(c, "journal.max");
    out->journal.keep = config_size(c, "journal.keep");
    out->journal.segment = config_size(c, "journal.segment");
    out->durability = (enum durability)config_enum(c, "durability");
    out->net.drop = config_float(c, "net.drop");
    out->net.io_threads = (uint32_t)config_int(c, "net.io_threads");
    out->net.copy_rate = config_size(c, "net.copy_rate");
    out->insecure_plaintext = config_bool(c, "insecure_plaintext");
    SHOAL_ASSERT(out->shards > 0 && out->net.io_threads > 0); /* keys.h bounds both */
    SHOAL_ASSERT(out->journal.segment <= UINT32_MAX);
    char endpoint[256];
    if (out->allow[0] != 0 && out->coordinator[0] != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%d: allow: the list is the coordinator's, who sends it to its servers: "
                       "name it in coordinator.yaml",
                       name, config_line(c, "allow"));
    rc = check_coordinator(c, name, out, e);
    if (rc == 0)
        rc = check_memory(c, name, out, e);
    if (rc == 0)
        rc = check_journal(c, name, out, e);
    if (rc == 0)
        rc = check_disk(c, name, out, e);
    if (rc == 0)
        rc = check_rate(c, name, out, e);
    if (rc == 0)
        rc = server_config_endpoint(out, out->shards - 1, endpoint, e);
    return rc;
}

int server_config_parse(const char *text, size_t bytes, const char *name,
                        const struct string_list *set, struct server_config *out, struct err *e)
{
    return text_take(text, bytes, name, set, keys_server, take_server, out, e);
}

int server_config_load(const char *path, const struct string_list *set, struct server_config *out,
                       struct err *e)
{
    return file_take(path, set, keys_server, take_server, out, e);
}

int server_config_endpoint(const struct server_config *c, uint32_t shard, char out[256],
                           struct err *e)
{
    const char *colon = strrchr(c->listen, ':');
    if (strncmp(c->listen, "ipc://", 6) == 0) {
        if (shard)
            snprintf(out, 256, "%.240s-%u", c->listen, shard);
        else
            snprintf(out, 256, "%s", c->listen);
        return 0;
    }
    if (strncmp(c->listen, "tcp://", 6) != 0 || colon == c->listen + 3)
        return err_set(e, SHOAL_E_CONFIG, "listen: %s is neither tcp://HOST:PORT nor ipc://PATH",
                       c->listen);
    unsigned long port = 0;
    if (strcmp(colon, ":*") != 0) {
        char *end;
        port = strtoul(colon + 1, &end, 10);
        if (end == colon + 1 || *end || port > 65535)
            return err_set(e, SHOAL_E_CONFIG, "listen: %s has no port number at its end",
                           c->listen);
    }
    if (port != 0)
        port += shard;
    if (port > 65535)
        return err_set(e, SHOAL_E_CONFIG,
                       "listen: shard %u of %s would need port %lu; start at a lower port", shard,
                       c->listen, port);
    snprintf(out, 256, "%.*s:%lu", (int)(colon - c->listen), c->listen, port);
    return 0;
}

/* ---- the division of budgets ---- */

#define WAITING_MOST (1ull << 30)
#define REPLIES_MOST (256ull << 20)
#define FRAME ((uint64_t)LIMIT_FRAME_BYTES)

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    SHOAL_ASSERT(least <= most);
    return MIN(MAX(value, least), most);
}

void server_config_divide(uint64_t memory, uint64_t disk, uint32_t shards, struct budget *out)
{
    SHOAL_ASSERT(memory > 0 && shards > 0);
    uint64_t part = memory / shards, share = part / 16;
    *out = (struct budget){
        .waiting = within(share, 4 * FRAME, WAITING_MOST),
        .replies = within(share, 2 * FRAME, REPLIES_MOST),
        .kept = within(memory / 32, 0, REPLIES_MOST),
        .disk = disk / shards,
    };
    out->engine = part - within(share, 0, WAITING_MOST) - within(share, 0, REPLIES_MOST);
    SHOAL_ASSERT(out->engine <= part && out->engine >= part - part / 8);
}

/* ---- coordinator.yaml ---- */

/* Divides store: zookeeper://HOSTS/PATH. */
static int take_store(const struct config *c, const char *name, struct coord_config *out,
                      struct err *e)
{
    static const char scheme[] = "zookeeper://";
    int rc = take_string(c, name, "store", out->store, sizeof out->store, e);
    if (rc != 0 || out->store[0] == 0)
        return rc;
    const char *hosts = out->store + sizeof scheme - 1, *path = NULL;
    if (strncmp(out->store, scheme, sizeof scheme - 1) == 0)
        path = strchr(hosts, '/');
    size_t bytes = path == NULL ? 0 : strlen(path);
    if (bytes < 2 || bytes >= sizeof out->store_path || path == hosts || path[bytes - 1] == '/' ||
        strstr(path, "//") != NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s:%d: store: '%s' is not zookeeper://HOST:PORT,HOST:PORT/PATH, with a "
                       "path of at most %zu bytes",
                       name, config_line(c, "store"), out->store, sizeof out->store_path - 1);
    memcpy(out->store_hosts, hosts, (size_t)(path - hosts));
    memcpy(out->store_path, path, bytes);
    return 0;
}

int server_config_memory(const struct config *c, const char *name, struct coord_weights *out,
                         struct err *e)
{
    const char *space;
    *out = (struct coord_weights){.count = 0};
    for (size_t i = 0; (space = config_name(c, "memory", i)) != NULL; i++) {
        char path[LIMIT_NAME + 16];
        if (strlen(space) >= LIMIT_NAME)
            return err_set(e, SHOAL_E_CONFIG, "%s: memory: %.80s is too long for a space", name,
                           space);
        (void)snprintf(path, sizeof path, "memory.%s", space);
        if (out->count == LIMIT_SPACES)
            return err_set(e, SHOAL_E_CONFIG, "%s:%d: memory has more than %u spaces", name,
                           config_line(c, path), LIMIT_SPACES);
        struct coord_weight *w = &out->of[out->count++];
        w->weight = config_float(c, path);
        text_copy(w->space, sizeof w->space, space);
    }
    return 0;
}

static int take_coordinator(const struct config *c, const char *name, void *to, struct err *e)
{
    struct coord_config *out = to;
    int rc;
    *out = (struct coord_config){0};
    if ((rc = take_string(c, name, "keys", out->keys, sizeof out->keys, e)) ||
        (rc = take_string(c, name, "allow", out->allow, sizeof out->allow, e)) ||
        (rc = take_of_unit(c, name, "listen", "RUNTIME_DIRECTORY", "ipc://%s/socket", out->listen,
                           sizeof out->listen, e)) ||
        (rc = take_string(c, name, "advertise", out->advertise, sizeof out->advertise, e)) ||
        (rc = take_store(c, name, out, e)) ||
        (rc = take_of_unit(c, name, "data_dir", "STATE_DIRECTORY", "%s", out->data_dir,
                           sizeof out->data_dir - 64, e)) ||
        (rc = take_string(c, name, "report", out->report, sizeof out->report - 8, e)) ||
        (rc = take_string(c, name, "tensorboard", out->tensorboard, sizeof out->tensorboard, e)) ||
        (rc = take_root(c, name, out->checkpoint_root, sizeof out->checkpoint_root, e)) ||
        (rc = take_string(c, name, "checkpoint_signers", out->checkpoint_signers,
                          sizeof out->checkpoint_signers, e)) ||
        (rc = take_string(c, name, "metrics", out->metrics, sizeof out->metrics, e)) ||
        (rc = take_string(c, name, "metrics_token", out->metrics_token, sizeof out->metrics_token,
                          e)) ||
        (rc = server_config_memory(c, name, &out->memory, e)))
        return rc;
    if (out->listen[0] == 0 || out->data_dir[0] == 0)
        return err_set(e, SHOAL_E_CONFIG, "%s: listen and data_dir must not be empty", name);
    out->shards = (uint32_t)config_int(c, "shards");
    out->jobs = (uint32_t)config_int(c, "jobs");
    out->lease_ms = (uint32_t)config_size(c, "lease");
    out->resend_ms = (uint32_t)config_size(c, "resend");
    out->replicas = (uint32_t)config_int(c, "replicas");
    out->min_in_sync = (uint32_t)config_int(c, "min_in_sync");
    out->shard_lease_ms = (uint32_t)config_size(c, "shard_lease");
    out->replace_after_ms = (uint32_t)config_size(c, "replace_after");
    if (out->min_in_sync > out->replicas)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: min_in_sync: %u, but replicas: %u", name,
                       config_line(c, "min_in_sync"), out->min_in_sync, out->replicas);
    SHOAL_ASSERT(out->shards > 0 && out->shards <= LIMIT_SHARDS);
    /* with 0 the core would take its own default */
    SHOAL_ASSERT(out->lease_ms > 0 && out->resend_ms > 0);
    out->drop = config_float(c, "net.drop");
    out->publish = config_bool(c, "publish");
    out->insecure_plaintext = config_bool(c, "insecure_plaintext");
    return 0;
}

int server_config_parse_coordinator(const char *text, size_t bytes, const char *name,
                                    const struct string_list *set, struct coord_config *out,
                                    struct err *e)
{
    return text_take(text, bytes, name, set, keys_coordinator, take_coordinator, out, e);
}

int server_config_coordinator(const char *path, const struct string_list *set,
                              struct coord_config *out, struct err *e)
{
    return file_take(path, set, keys_coordinator, take_coordinator, out, e);
}
