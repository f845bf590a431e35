/* config.c: coordinator.yaml. */
#include "server/coord/config.h"

#include <string.h>

static const struct config_key spec[] = {
    {"listen", CONFIG_STRING, 0, 0, NULL},           {"data_dir", CONFIG_STRING, 0, 0, NULL},
    {"report", CONFIG_STRING, 0, 0, NULL},           {"tensorboard", CONFIG_STRING, 0, 0, NULL},
    {"shards", CONFIG_INT, 1, LIMIT_SHARDS, NULL},   {"lease", CONFIG_SIZE, 500, 3.6e6, NULL},
    {"resend", CONFIG_SIZE, 10, 60000, NULL},        {"keys", CONFIG_STRING, 0, 0, NULL},
    {"net.drop", CONFIG_FLOAT, 0, 0.9, NULL},        {"publish", CONFIG_BOOL, 0, 0, NULL},
    {"insecure_plaintext", CONFIG_BOOL, 0, 0, NULL}, {NULL, CONFIG_ANY, 0, 0, NULL},
};

static int take_string(const struct config *c, const char *name, const char *key,
                       const char *fallback, char *out, size_t capacity, struct err *e)
{
    const char *s = config_string(c, key, fallback);

    if (strlen(s) >= capacity)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: %s is longer than %zu bytes", name,
                       config_line(c, key), key, capacity - 1);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

static int take(const struct config *c, const char *name, struct coord_config *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    if (config_string(c, "keys", "")[0] != 0)
        return err_set(
            e, SHOAL_E_CONFIG,
            "%s:%d: keys: this release has no encrypted transport; listen on loopback, or set "
            "insecure_plaintext: true on a "
            "network that you trust",
            name, config_line(c, "keys"));
    int status =
        take_string(c, name, "listen", "tcp://127.0.0.1:7000", out->listen, sizeof out->listen, e);
    if (status == 0)
        status = take_string(c, name, "data_dir", "shoal-coordinator", out->data_dir,
                             sizeof out->data_dir - 64, e);
    if (status == 0)
        status = take_string(c, name, "report", "", out->report, sizeof out->report - 8, e);
    if (status == 0)
        status =
            take_string(c, name, "tensorboard", "", out->tensorboard, sizeof out->tensorboard, e);
    if (status != 0)
        return status;
    if (out->listen[0] == 0 || out->data_dir[0] == 0)
        return err_set(e, SHOAL_E_CONFIG, "%s: listen and data_dir must not be empty", name);
    out->shards = (uint32_t)config_int(c, "shards", 1);
    out->lease_ms = (uint32_t)config_size(c, "lease", 10000);
    out->resend_ms = (uint32_t)config_size(c, "resend", 500);
    out->drop = config_float(c, "net.drop", 0);
    out->publish = config_bool(c, "publish", false);
    out->insecure_plaintext = config_bool(c, "insecure_plaintext", false);
    return 0;
}

int coord_config_parse(const char *text, size_t bytes, const char *name,
                       const struct string_list *set, struct coord_config *out, struct err *e)
{
    struct config *c;
    int status = config_parse(text, bytes, name, set, spec, &c, e);

    if (status != 0)
        return status;
    status = take(c, name, out, e);
    config_free(c);
    return status;
}

int coord_config_load(const char *path, const struct string_list *set, struct coord_config *out,
                      struct err *e)
{
    struct config *c;

    if (path == NULL)
        return coord_config_parse("{}", 2, "defaults", set, out, e);
    int status = config_load(path, set, spec, &c, e);
    if (status != 0)
        return status;
    status = take(c, path, out, e);
    config_free(c);
    return status;
}
