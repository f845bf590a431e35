/* instance.c: the file of one of several daemons, and the folders of its systemd unit. */
#include "proto/job/instance.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES_MAX 64u
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

static int file_of(const char *kind, const char *name, char path[LIMIT_PATH], struct err *e)
{
    const char *folder = getenv("SHOAL_CONFIG_DIR");
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes > NAME_BYTES_MAX || name[0] == '.' ||
        strspn(name, NAME_LETTERS) != bytes)
        return err_set(e, SHOAL_E_USAGE,
                       "--instance %s: a name has letters, digits, '-', '_' and '.', at most %u",
                       name, NAME_BYTES_MAX);
    if (folder == NULL)
        folder = INSTANCE_FOLDER;
    if (snprintf(path, LIMIT_PATH, "%s/%s-%s.yaml", folder, kind, name) >= (int)LIMIT_PATH)
        return err_set(e, SHOAL_E_USAGE, "SHOAL_CONFIG_DIR is too long");
    if (access(path, F_OK) == 0)
        return 0;
    if (snprintf(path, LIMIT_PATH, "%s/%s.yaml", folder, kind) >= (int)LIMIT_PATH ||
        access(path, F_OK) != 0)
        path[0] = '\0';
    return 0;
}

int instance_file(const char *config, const char *name, const char *kind, char path[LIMIT_PATH],
                  struct err *e)
{
    path[0] = '\0';
    if (config != NULL && name != NULL)
        return err_set(e, SHOAL_E_USAGE, "--config and --instance: a daemon has one file");
    if (name != NULL)
        return file_of(kind, name, path, e);
    if (config != NULL && strlen(config) >= (int)LIMIT_PATH)
        return err_set(e, SHOAL_E_USAGE, "--config: a path has at most %u bytes", LIMIT_PATH - 1);
    if (config != NULL)
        text_copy(path, LIMIT_PATH, config);
    return 0;
}

void instance_folder(const char *variable, char *out, size_t bytes)
{
    const char *value = text_or(getenv(variable), "");
    size_t length = strcspn(value, ":");
    if (length >= bytes)
        length = 0;
    memcpy(out, value, length);
    out[length] = '\0';
}

void instance_name(const char *name, char out[LIMIT_NAME])
{
    char host[LIMIT_NAME / 2] = "";
    (void)gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = '\0';
    host[strcspn(host, ".")] = '\0';
    (void)snprintf(out, LIMIT_NAME, "%s-%s", text_unless_empty(host, "host"), name);
}
