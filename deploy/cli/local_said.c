/* local_said.c: prints the warnings of a run's daemons on the terminal once the run is over: after
 * a job that ends well its logs are not read. */
#include "deploy/cli/local_inner.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLD_MAX 10u
#define LOG_BYTES_MAX ((size_t)1 << 20) /* bytes of each log that are read, at its end */

struct said {
    char *text[TOLD_MAX]; /* owned */
    uint32_t count, more;
};

/* The text of a line "warn  16:47:46.661 shoal-worker: text", or NULL at another level. Warnings
 * about left-out lines and suspicious input are in the report already. */
static const char *warning_of(const char *line)
{
    const char *program = strstr(line, " shoal-");
    const char *text = NULL;
    if (program != NULL)
        text = strstr(program, ": ");
    if ((strncmp(line, "warn ", 5) != 0 && strncmp(line, "error ", 6) != 0) || text == NULL)
        return NULL;
    text += 2;
    bool told = strncmp(text, "left out: ", 10) == 0 || strncmp(text, "data.train: ", 12) == 0;
    if (told)
        return NULL;
    return text;
}

static void said_add(struct said *s, const char *name, const char *text)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->text[i], text) == 0)
            return;
    if (s->count == TOLD_MAX) {
        s->more++;
        return;
    }
    char *kept = strdup(text);
    if (kept == NULL)
        return;
    s->text[s->count++] = kept;
    fprintf(stderr, "%s: %s\n", name, text);
}

static void log_look(const struct child *c, struct said *s)
{
    FILE *f = fopen(c->log, "r");
    char line[2048];
    if (f == NULL)
        return;
    bool whole = fseek(f, 0, SEEK_END) != 0 || ftell(f) <= (long)LOG_BYTES_MAX;
    if (whole)
        rewind(f);
    else
        (void)fseek(f, -(long)LOG_BYTES_MAX, SEEK_END);
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        text_clean(line); /* a command of the job may have written the line */
        const char *text = warning_of(line);
        if (text != NULL)
            said_add(s, c->name, text);
    }
    fclose(f);
}

void local_said(const struct local *l)
{
    struct said s = {.count = 0};
    fflush(stdout); /* on one terminal the report must end before these lines begin */
    for (int i = 0; i < l->children; i++)
        log_look(&l->child[i], &s);
    if (s.more > 0)
        fprintf(stderr, "and %u warnings more: see %s/log\n", s.more, l->dir);
    for (uint32_t i = 0; i < s.count; i++)
        free(s.text[i]);
}
