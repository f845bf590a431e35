/* units.c: units of this machine that fail to start. They talk to no coordinator, so only a command
 * on this machine can report them. */
#include "deploy/cli/cli.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/net/starts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNITS_FOLDER "/run/shoal" /* or SHOAL_RUNTIME_DIR */

/* server-1 -> shoal-server@1 */
static void unit_name(const char *folder, char name[80])
{
    const char *dash = strchr(folder, '-');
    if (dash != NULL)
        (void)snprintf(name, 80, "shoal-%.*s@%s", (int)(dash - folder), folder, dash + 1);
    else
        (void)snprintf(name, 80, "shoal-%s", folder);
}

struct json *cli_units(void)
{
    struct json *list = json_new_array();
    const char *folder = getenv("SHOAL_RUNTIME_DIR"), *name;
    char path[LIMIT_PATH], unit[80];
    struct file_walk w;
    struct starts s;
    char text[2 * ERR_TEXT_MAX];
    if (folder == NULL)
        folder = UNITS_FOLDER;
    if (!file_walk_open(&w, folder)) /* no such folder, or not readable for this user */
        return list;
    while ((name = file_walk_next(&w)) != NULL) {
        if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
            !starts_read(path, &s))
            continue;
        unit_name(name, unit);
        (void)snprintf(
            text, sizeof text,
            "%s on this machine has failed to start %" PRIu32 " times in %" PRIu64 " s: %s", unit,
            s.count, (time_monotonic_ns() - s.since_ns) / UINT64_C(1000000000), s.cause);
        json_append_string(list, text);
    }
    file_walk_close(&w);
    return list;
}
