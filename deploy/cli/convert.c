/* convert.c: `shoal convert`: makes an event file of a log by shoal-worker, which knows formats. */
#include "deploy/cli/child.h"
#include "deploy/cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 16 }; /* words beside --set */

/* The worker's command line; the caller frees it. */
static const char **line_of(struct option_line *o)
{
    const struct string_list *set = option_list(o, "set");
    const char **line = calloc(WORDS + 2 * set->count, sizeof *line);
    size_t n = 0;
    if (line == NULL)
        return NULL;
    line[n++] = "shoal-worker";
    line[n++] = "convert";
    if (option_given(o, "check")) {
        line[n++] = "--check";
        line[n++] = option_text(o, "check");
    } else {
        line[n++] = "--config";
        line[n++] = o->word[0];
        line[n++] = "--out";
        line[n++] = option_text(o, "out");
        line[n++] = "--split";
        line[n++] = option_text(o, "split");
    }
    if (option_given(o, "json"))
        line[n++] = "--json";
    for (size_t i = 0; i < set->count; i++) {
        line[n++] = "--set";
        line[n++] = set->item[i];
    }
    return line;
}

int cli_convert(struct option_line *o, struct err *e)
{
    bool check = option_given(o, "check");
    if (check != (o->words == 0))
        return err_set(e, SHOAL_E_USAGE,
                       "give the job file whose input is to be converted, or --check FILE");
    if (!check && option_text(o, "out") == NULL)
        return err_set(e, SHOAL_E_USAGE, "--out is missing: give the event file to write");
    const char **line = line_of(o);
    if (line == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int ended = 0, rc = child_stand_in(line, &ended, e);
    free(line);
    if (rc != 0)
        return rc;
    return ended; /* the worker has printed the reason */
}
