/* data.c: `shoal data`: looks at files by shoal-worker, which knows formats. */
#include "deploy/cli/child.h"
#include "deploy/cli/cli.h"

#include <stdlib.h>

enum { WORDS = 16 }; /* words beside those of files */

/* The worker's command line; the caller frees it. */
static const char **line_of(const struct option_line *o)
{
    static const char *const passed[] = {"job", "label", "rows"};
    static const char *const spelled[] = {"--job", "--label", "--rows"};
    const char **line = calloc(WORDS + 2 * (size_t)o->words, sizeof *line);
    size_t n = 0;
    if (line == NULL)
        return NULL;
    line[n++] = "shoal-worker";
    line[n++] = "data";
    for (int i = 0; i < o->words; i++) {
        line[n++] = "--in";
        line[n++] = o->word[i];
    }
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
        if (!option_given(o, passed[i]))
            continue;
        line[n++] = spelled[i];
        line[n++] = option_text(o, passed[i]);
    }
    if (option_given(o, "json"))
        line[n++] = "--json";
    return line;
}

int cli_data(struct option_line *o, struct err *e)
{
    if (o->words == 0)
        return err_set(e, SHOAL_E_USAGE,
                       "give the files to look at, a folder, or - for standard "
                       "input");
    if (option_given(o, "json") && option_given(o, "job"))
        return err_set(e, SHOAL_E_USAGE,
                       "--json and --job: the object has the job in it; give "
                       "one of them");
    const char **line = line_of(o);
    if (line == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int ended = 0, rc = child_stand_in(line, &ended, e);
    free(line);
    if (rc != 0)
        return rc;
    return ended; /* the worker has printed the reason */
}
