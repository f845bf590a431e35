/* drop.c: `shoal drop`: removes from all servers the rows of a space, or of a field that no job has
 * any more. */
#include "deploy/cli/cli.h"
#include "proto/base/text.h"
#include "proto/job/legend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DROP_MS = 3600000, SILENT_MS = 10000 };

/* Copies a part of the word (bytes); false: it is empty, or too long. */
static bool part_take(const char *at, size_t bytes, char *out, size_t room)
{
    if (bytes == 0 || bytes >= room)
        return false;
    (void)snprintf(out, room, "%.*s", (int)bytes, at);
    return true;
}

/* "SPACE", "TABLE/FIELD" or "SPACE/TABLE/FIELD" */
static int name_take(const char *text, struct wire_DROP *out, struct err *e)
{
    const char *first = strchr(text, '/'), *second = first == NULL ? NULL : strchr(first + 1, '/');
    const char *end = text + strlen(text), *table = text;
    bool good = true;
    if (second != NULL && strchr(second + 1, '/') != NULL)
        return err_set(e, SHOAL_E_USAGE, "'%s' has four parts: say SPACE/TABLE/FIELD", text);
    if (first == NULL || second != NULL) {
        const char *stop = first == NULL ? end : first;
        good = part_take(text, (size_t)(stop - text), out->space, sizeof out->space);
        table = stop + 1;
    }
    const char *field = second == NULL ? first : second;
    if (field != NULL)
        good = good && part_take(table, (size_t)(field - table), out->table, sizeof out->table) &&
               part_take(field + 1, (size_t)(end - field - 1), out->field, sizeof out->field);
    if (good)
        return 0;
    return err_set(
        e, SHOAL_E_USAGE,
        "'%s' is no SPACE, TABLE/FIELD or SPACE/TABLE/FIELD: the name of a space or of a "
        "table has 1 to %zu bytes, a field's 1 to %zu",
        text, sizeof out->table - 1, sizeof out->field - 1);
}

int cli_drop(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_DROP}, reply;
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE, "name a SPACE or a TABLE/FIELD; see `shoal drop --help`");
    int rc = name_take(o->word[0], &w.u.DROP, e);
    if (rc == 0)
        rc = cli_coordinator_ask(o, &w, DROP_MS, SILENT_MS, &reply, NULL, e);
    if (rc == 0)
        printf("%s: %" PRIu64 " rows dropped\n", o->word[0], reply.u.DROP_reply.rows);
    return rc;
}
