/* worker_config.c: reads worker.yaml. */
#include "worker/worker_config.h"

#include "proto/base/text.h"
#include "proto/job/instance.h"
#include "proto/job/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int take_string(const struct config *c, const char *file, const char *key, char *out,
                       size_t capacity, struct err *e)
{
    const char *s = config_string(c, key);
    if (strlen(s) >= capacity)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: %s is longer than %zu bytes", file,
                       config_line(c, key), key, capacity - 1);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

static int set_add(struct string_list *set, const char *line, struct err *e)
{
    int rc = config_list_add(set, line);
    if (rc == 0)
        return 0;

    return err_set(e, rc, "out of memory");
}

/* The cache comes first, so that a line of `set` can override it. */
static int take_set(const struct config *c, const char *file, struct string_list *out,
                    struct err *e)
{
    struct string_list own = {0};
    char cache[LIMIT_PATH + 8], folder[LIMIT_PATH], line[sizeof cache + LIMIT_NAME];
    instance_folder("CACHE_DIRECTORY", folder, sizeof folder);
    (void)snprintf(cache, sizeof cache, "%.*s", LIMIT_PATH, config_string(c, "cache"));
    if (!config_has(c, "cache") && folder[0] != '\0')
        (void)snprintf(cache, sizeof cache, "%s/data", folder);
    int rc = 0;
    if (config_list(c, "set", &own) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0 && strlen(cache) >= LIMIT_PATH)
        rc = err_set(e, SHOAL_E_CONFIG, "%s:%d: cache is longer than %d bytes", file,
                     config_line(c, "cache"), LIMIT_PATH - 1);
    (void)snprintf(line, sizeof line, "data.cache=%s", cache);
    if (rc == 0 && cache[0] != '\0')
        rc = set_add(out, line, e);
    if (rc == 0 && cache[0] != '\0' && !config_has(c, "cache")) /* the user chose no other disk */
        rc = set_add(out, "data.cache_max=0", e);
    for (size_t i = 0; i < own.count && rc == 0; i++)
        if (strchr(own.item[i], '=') != NULL)
            rc = set_add(out, own.item[i], e);
        else
            rc = err_set(e, SHOAL_E_CONFIG, "%s:%d: set: %s: expected KEY=VALUE", file,
                         config_line(c, "set"), own.item[i]);
    config_list_free(&own);
    return rc;
}

/* Writes the list of `devices`, or the number of `device`, as a text. */
static int take_devices(const struct config *c, const char *file, char out[DEVICE_LIST_TEXT],
                        struct err *e)
{
    struct string_list list = {0};
    struct device_list checked;
    const char *key = "devices";
    size_t at = 0;
    int rc = 0;
    if (config_has(c, "device") && config_has(c, key))
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: devices and device: give one of them", file,
                       config_line(c, "device"));
    if (config_has(c, "device")) {
        key = "device";
        (void)snprintf(out, DEVICE_LIST_TEXT, "%" PRId64, config_int(c, key));
    } else if (config_list(c, key, &list) != 0) {
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < list.count && at < DEVICE_LIST_TEXT; i++)
        at += (size_t)snprintf(out + at, DEVICE_LIST_TEXT - at, "%s%s", text_if(i > 0, ","),
                               list.item[i]);
    config_list_free(&list);
    if (rc != 0 || out[0] == '\0')
        return rc;
    if (at >= DEVICE_LIST_TEXT)
        rc = err_set(e, SHOAL_E_CONFIG, "more than %u numbers", LIMIT_DEVICES);
    else
        rc = device_list_parse(out, &checked, e);
    if (rc != 0)
        err_wrap(e, rc, "%s:%d: %s", file, config_line(c, key), key);
    return rc;
}

static int take(const struct config *c, const char *file, struct worker_config *out, struct err *e)
{
    int rc;
    if ((rc = take_string(c, file, "coordinator", out->coordinator, sizeof out->coordinator, e)) ||
        (rc = take_string(c, file, "keys", out->keys, sizeof out->keys, e)) ||
        (rc = take_string(c, file, "listen", out->listen, sizeof out->listen, e)) ||
        (rc = take_string(c, file, "advertise", out->advertise, sizeof out->advertise, e)) ||
        (rc = take_string(c, file, "name", out->name, sizeof out->name, e)) ||
        (rc = take_string(c, file, "metrics", out->metrics, sizeof out->metrics, e)) ||
        (rc = take_string(c, file, "metrics_token", out->metrics_token, sizeof out->metrics_token,
                          e)) ||
        (rc = take_set(c, file, &out->set, e)))
        return rc;
    struct coordinators list;
    if (out->coordinator[0] == '\0')
        return err_set(e, SHOAL_E_CONFIG, "%s: coordinator must not be empty", file);
    if ((rc = coordinators_parse(out->coordinator, &list, e))) {
        err_wrap(e, rc, "%s:%d", file, config_line(c, "coordinator"));
        return rc;
    }
    out->lanes = (uint32_t)config_int(c, "lanes");
    out->cores = (uint32_t)config_int(c, "cores");
    out->io_threads = (uint32_t)config_int(c, "io_threads");
    if ((rc = take_devices(c, file, out->devices, e)))
        return rc;
    out->backend_given = config_has(c, "backend");
    out->backend = (enum backend_kind)config_enum(c, "backend");
    out->allow_commands = config_bool(c, "allow_commands");
    out->insecure_plaintext = config_bool(c, "insecure_plaintext");
    return 0;
}

int worker_config_load(const char *path, const struct string_list *set, struct worker_config *out,
                       struct err *e)
{
    struct config *c;
    const char *file = path != NULL ? path : "defaults";
    *out = (struct worker_config){.lanes = 0};
    int rc;
    if (path != NULL)
        rc = config_load(path, set, keys_worker, &c, e);
    else
        rc = config_parse("{}", 2, file, set, keys_worker, &c, e);
    if (rc != 0)
        return rc;
    rc = take(c, file, out, e);
    config_free(c);
    if (rc != 0)
        worker_config_free(out);
    return rc;
}

void worker_config_free(struct worker_config *c)
{
    config_list_free(&c->set);
}
