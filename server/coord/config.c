/* config.c: coordinator.yaml. */
#include "server/coord/config.h"

#include "proto/job/keys.h"

#include <string.h>

static int take_string(const struct config *c, const char *name, const char *key, char *out,
                       size_t capacity, struct err *e)
{
    const char *s = config_string(c, key);
    if (strlen(s) >= capacity)
        return err_set(e, SHOAL_E_CONFIG, "%s:%d: %s is longer than %zu bytes", name,
                       config_line(c, key), key, capacity - 1);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

static int take(const struct config *c, const char *name, struct coord_config *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    if (config_string(c, "keys")[0] != 0)
        return err_set(
            e, SHOAL_E_CONFIG,
            "%s:%d: keys: this release has no encrypted transport; listen on loopback, or set "
            "insecure_plaintext: true on a "
            "network that you trust",
            name, config_line(c, "keys"));
    int rc = take_string(c, name, "listen", out->listen, sizeof out->listen, e);
    if (rc == 0)
        rc = take_string(c, name, "data_dir", out->data_dir, sizeof out->data_dir - 64, e);
    if (rc == 0)
        rc = take_string(c, name, "report", out->report, sizeof out->report - 8, e);
    if (rc == 0)
        rc = take_string(c, name, "tensorboard", out->tensorboard, sizeof out->tensorboard, e);
    if (rc != 0)
        return rc;
    if (out->listen[0] == 0 || out->data_dir[0] == 0)
        return err_set(e, SHOAL_E_CONFIG, "%s: listen and data_dir must not be empty", name);
    out->shards = (uint32_t)config_int(c, "shards");
    out->lease_ms = (uint32_t)config_size(c, "lease");
    out->resend_ms = (uint32_t)config_size(c, "resend");
    out->drop = config_float(c, "net.drop");
    out->publish = config_bool(c, "publish");
    out->insecure_plaintext = config_bool(c, "insecure_plaintext");
    return 0;
}

int coord_config_parse(const char *text, size_t bytes, const char *name,
                       const struct string_list *set, struct coord_config *out, struct err *e)
{
    struct config *c;
    int rc = config_parse(text, bytes, name, set, keys_coordinator, &c, e);
    if (rc != 0)
        return rc;
    rc = take(c, name, out, e);
    config_free(c);
    return rc;
}

int coord_config_load(const char *path, const struct string_list *set, struct coord_config *out,
                      struct err *e)
{
    struct config *c;
    if (path == NULL)
        return coord_config_parse("{}", 2, "defaults", set, out, e);
    int rc = config_load(path, set, keys_coordinator, &c, e);
    if (rc != 0)
        return rc;
    rc = take(c, path, out, e);
    config_free(c);
    return rc;
}
