/* drop.c: `shoal drop`: removes from all servers the rows of a field that no job has any more. */
#include "deploy/cli/cli.h"
#include "proto/base/text.h"
#include "proto/job/legend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DROP_MS = 3600000, SILENT_MS = 10000 };

/* "TABLE/FIELD" */
static int name_take(const char *text, struct wire_DROP *out, struct err *e)
{
    const char *slash = strchr(text, '/');
    if (slash == NULL || slash == text || slash[1] == 0)
        return err_set(e, SHOAL_E_USAGE, "'%s' is no TABLE/FIELD", text);
    if (strchr(slash + 1, '/') != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "'%s' has three parts: say TABLE/FIELD; a fleet has one space alone", text);
    if ((size_t)(slash - text) >= sizeof out->table || strlen(slash + 1) >= sizeof out->field)
        return err_set(e, SHOAL_E_USAGE,
                       "'%s': a table's name has at most %zu bytes, a field's %zu", text,
                       sizeof out->table - 1, sizeof out->field - 1);
    (void)snprintf(out->table, sizeof out->table, "%.*s", (int)(slash - text), text);
    text_copy(out->field, sizeof out->field, slash + 1);
    return 0;
}

int cli_drop(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_DROP}, reply;
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE, "name a TABLE/FIELD; see `shoal drop --help`");
    int rc = name_take(o->word[0], &w.u.DROP, e);
    if (rc == 0)
        rc = cli_coordinator_ask(o, &w, DROP_MS, SILENT_MS, &reply, NULL, e);
    if (rc == 0)
        printf("%s: %" PRIu64 " rows dropped\n", o->word[0], reply.u.DROP_reply.rows);
    return rc;
}
