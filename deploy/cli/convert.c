/* convert.c: `shoal convert`: a log as an event file, by shoal-worker, which knows formats. */
#include "deploy/cli/child.h"
#include "deploy/cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 16 }; /* beside --set */

/* The worker's line; the caller frees. */
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

int cli_convert(int argc, char **argv)
{
    struct option_line o;
    struct err e = {0};
    int ended = 0, rc = cli_options("shoal convert", argc, argv, &o, &e);
    bool check = rc == 0 && option_given(&o, "check");
    if (rc == 0 && check != (o.words == 0))
        rc = err_set(&e, SHOAL_E_USAGE,
                     "give the job file whose input is to be converted, or --check FILE");
    if (rc == 0 && !check && option_text(&o, "out") == NULL)
        rc = err_set(&e, SHOAL_E_USAGE, "--out is missing: give the event file to write");
    if (rc == 0) {
        const char **line = line_of(&o);
        rc = line == NULL ? err_set(&e, SHOAL_E_NOMEM, "out of memory")
                          : child_stand_in(line, &ended, &e);
        free(line);
    }
    if (rc == 0 && ended != 0) {
        option_free(&o);
        return ended; /* it has said why */
    }
    return cli_end(rc, &o, &e);
}
